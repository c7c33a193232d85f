"""newton_sap: the SAP contact solver as a Newton solver plugin. ``F 3.2`` and the like are sections of ``docs/formulation.md``."""

from typing import TYPE_CHECKING

from .config import PRESETS, SAPOptions

if TYPE_CHECKING:
    from .boundary.convention import SapControl, SapState
    from .diagnostics import SolverReport
    from .solver import SolverSAP

__version__ = "0.1.0"

__all__ = ["PRESETS", "SAPOptions", "SapControl", "SapState", "SolverReport", "SolverSAP", "__version__"]

_LAZY = {
    "SolverSAP": "newton_sap.solver",
    "SapState": "newton_sap.boundary.convention",
    "SapControl": "newton_sap.boundary.convention",
    "SolverReport": "newton_sap.diagnostics",
}


_MODULES = ("compare", "conventions", "coordinates", "registry", "scenes", "testing")


def __getattr__(name):
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"newton_sap.{name}")
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    from .suggest import suggestion

    near = "" if name.startswith("_") else suggestion(name, __dir__())
    raise AttributeError(f"module 'newton_sap' has no attribute {name!r}{near}")


def __dir__():
    return sorted([*__all__, *_MODULES])
