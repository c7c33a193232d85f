"""What a check is, how one runs, and the report of all of them."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any

import newton

SolverFactory = Callable[..., Any]
"""A solver class, or anything else that makes a solver of a model."""

PASSED, FAILED, NOT_CLAIMED = "passed", "failed", "not claimed"


class ContractViolation(AssertionError):
    """The solver does something else than the contract asks."""


class NotClaimed(unittest.SkipTest):
    """The solver does not offer what the check is about; pytest and unittest count the test as skipped."""


@dataclass(frozen=True)
class Subject:
    """The solver under test and how to make one."""

    factory: SolverFactory
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of the factory beside the model."""
    refine: int = 1
    """Divisor of every time step."""
    prepare: Callable[[newton.ModelBuilder], None] | None = None
    """Called with every builder before it is finalized."""

    def solver(self, model: newton.Model, **more: Any) -> Any:
        """Return a new solver of a model."""
        return self.factory(model, **self.options, **more)

    @property
    def name(self) -> str:
        """Name of the class, or of whatever makes the solver."""
        inner = getattr(self.factory, "func", self.factory)
        return getattr(inner, "__name__", repr(inner))


@dataclass(frozen=True)
class Check:
    """One question to a solver; its docstring says what the contract asks and where Newton says so."""

    name: str
    area: str
    source: str
    """Public name in Newton that the question follows from."""
    function: Callable[[Subject], None] = field(repr=False, compare=False)

    @property
    def asks(self) -> str:
        """What the contract asks, as one paragraph."""
        return " ".join(cleandoc(self.function.__doc__ or "").split())


@dataclass(frozen=True)
class Result:
    """What one check found."""

    check: Check
    status: str
    """``"passed"``, ``"failed"`` or ``"not claimed"``."""
    message: str = ""
    """Why it failed, or what is not claimed."""


@dataclass(frozen=True)
class Report:
    """What all checks found about one solver."""

    solver: str
    results: tuple[Result, ...]

    def count(self, status: str) -> int:
        """Return how many checks ended with a status."""
        return sum(result.status == status for result in self.results)

    @property
    def score(self) -> str:
        """Passed of all that the solver claims, as in ``"31/33"``."""
        passed = self.count(PASSED)
        return f"{passed}/{passed + self.count(FAILED)}"

    @property
    def failures(self) -> tuple[Result, ...]:
        """Results of the checks that failed."""
        return tuple(result for result in self.results if result.status == FAILED)

    def markdown(self) -> str:
        """Return the report as a Markdown table."""
        lines = [f"{self.solver}: {self.score} passed, {self.count(NOT_CLAIMED)} not claimed", ""]
        lines += ["| area | check | result | message |", "|---|---|---|---|"]
        for result in self.results:
            message = " ".join(result.message.split()).replace("|", "\\|")
            lines.append(f"| {result.check.area} | `{result.check.name}` | {result.status} | {message} |")
        return "\n".join(lines) + "\n"


_CHECKS: dict[str, Check] = {}
_AREAS = ("interface", "motion", "run-time changes", "worlds and repetition", "contact", "observables")


def check(area: str, source: str) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Register a function as the check of its name."""

    def register(function: Callable[[Subject], None]) -> Callable[[Subject], None]:
        name = function.__name__
        if name in _CHECKS:
            raise ValueError(f"two checks are named {name!r}")
        _CHECKS[name] = Check(name, area, source, function)
        return function

    return register


def all_checks() -> tuple[Check, ...]:
    """Return every check, in the order of the documentation."""
    return tuple(sorted(_CHECKS.values(), key=lambda one: _AREAS.index(one.area)))


def get_check(name: str) -> Check:
    """Return the check of that name.

    Raises:
        KeyError: There is none; the message lists those there are.
    """
    if name not in _CHECKS:
        raise KeyError(f"no check named {name!r}; there are {', '.join(_CHECKS)}")
    return _CHECKS[name]


def run_check(
    check: Check | str,
    solver: SolverFactory,
    *,
    refine: int = 1,
    prepare: Callable[[newton.ModelBuilder], None] | None = None,
    **options: Any,
) -> None:
    """Put one question to a solver; return in silence if it passes.

    Args:
        check: A check or its name.
        solver: A solver class, or any callable that makes a solver of a model.
        refine: Divisor of every time step, for solvers that are stable for small steps only.
        prepare: Called with every builder before it is finalized, for example ``MySolver.register_custom_attributes``.
        options: Keywords of the solver beside the model.

    Raises:
        ContractViolation: It fails.
        NotClaimed: The solver does not offer this, or raises ``NotImplementedError``. A test that meets this counts as
            skipped.
        Exception: Whatever else the solver raises: a failure, too.
    """
    one = get_check(check) if isinstance(check, str) else check
    try:
        one.function(Subject(solver, options, refine, prepare))
    except NotImplementedError as error:
        raise NotClaimed(f"NotImplementedError: {error}") from error


def run_contract(
    solver: SolverFactory,
    *,
    refine: int = 1,
    prepare: Callable[[newton.ModelBuilder], None] | None = None,
    only: Iterable[str] | None = None,
    **options: Any,
) -> Report:
    """Put every question to a solver and return what was found; a failure stops nothing.

    Args:
        solver: As for :func:`run_check`, like everything but ``only``.
        refine: Divisor of every time step.
        prepare: Called with every builder.
        only: Names of the checks to run; None runs all.
        options: Keywords of the solver beside the model.
    """
    chosen = all_checks() if only is None else [get_check(name) for name in only]
    results = tuple(_result(one, solver, refine=refine, prepare=prepare, **options) for one in chosen)
    return Report(Subject(solver).name, results)


def _result(one: Check, solver: SolverFactory, **given: Any) -> Result:
    try:
        run_check(one, solver, **given)
    except NotClaimed as reason:
        return Result(one, NOT_CLAIMED, str(reason))
    except ContractViolation as violation:
        return Result(one, FAILED, str(violation))
    except Exception as error:  # a solver under test may raise anything
        return Result(one, FAILED, f"{type(error).__name__}: {error}")
    return Result(one, PASSED)


def contract_parameters(solver: Any = None, *, known_failures: dict[str, str] | None = None) -> list[Any]:
    """Return the checks as parameters of ``pytest.mark.parametrize``.

    Args:
        solver: The solver class that will be tested; only checked to be callable.
        known_failures: Reason by name of a check: marked as a strict expected failure, so that a repair is noticed.
    """
    import pytest

    if solver is not None and not callable(solver):
        raise TypeError(f"a solver class or a factory is needed, not {type(solver).__name__}")
    known = dict(known_failures or {})
    for name in known:
        get_check(name)
    marks = {name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in known.items()}
    return [pytest.param(one, id=one.name, marks=marks.get(one.name, [])) for one in all_checks()]
