"""Contract tests for any solver class of Newton: import them into the tests of a plugin. ::

    import pytest
    from newton_sap.testing import contract_parameters, run_check

    @pytest.mark.parametrize("check", contract_parameters(MySolver))
    def test_contract(check):
        run_check(check, MySolver)

:func:`run_contract` runs all checks without pytest and returns a report. ``docs/contract.md`` lists them.
"""

from . import contact, interface, motion, worlds  # noqa: F401, imported for the checks they register
from .core import (
    Check,
    ContractViolation,
    NotClaimed,
    Report,
    Result,
    all_checks,
    contract_parameters,
    get_check,
    run_check,
    run_contract,
)

__all__ = [
    "Check",
    "ContractViolation",
    "NotClaimed",
    "Report",
    "Result",
    "all_checks",
    "contract_parameters",
    "get_check",
    "run_check",
    "run_contract",
]
