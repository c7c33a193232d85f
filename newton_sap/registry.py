"""Solvers by name: the ones bundled with Newton and every installed plugin of the group ``newton.solvers``.

A plugin is any distribution whose metadata holds an entry point of that group, for example::

    [project.entry-points."newton.solvers"]
    sap = "newton_sap:SolverSAP"

Listing reads metadata only; a class is imported when it is asked for. A plugin that cannot be imported stays a row
with its reason and never affects another one.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .suggest import suggestion, unknown_option

GROUP = "newton.solvers"
"""Entry-point group that solver plugins register in."""

_BUILTIN_NAMES = {"SolverMuJoCo": "mujoco", "SolverStyle3D": "style3d"}
_AVAILABLE, _LOADED, _BROKEN, _SHADOWED = "available", "loaded", "broken", "shadowed"


@dataclass(frozen=True)
class SolverInfo:
    """One row of the registry."""

    name: str
    """Name to ask for."""
    target: str
    """``"module:Class"`` that the name stands for."""
    distribution: str
    """Distribution that provides it."""
    version: str
    """Version of that distribution."""
    status: str = _AVAILABLE
    """``"available"`` (not imported yet), ``"loaded"``, ``"broken"`` or ``"shadowed"`` by another of the same name."""
    reason: str = ""
    """Why the status is ``"broken"`` or ``"shadowed"``; empty otherwise."""
    details: str = ""
    """Traceback of a failed import; empty otherwise."""

    @property
    def builtin(self) -> bool:
        """True for a solver that ships with Newton."""
        return self.target.startswith("newton.solvers:")


class SolverNotFoundError(LookupError):
    """No installed solver has the name asked for."""


class SolverLoadError(ImportError):
    """The solver is installed but its class cannot be used."""


class UnknownOptionError(ValueError):
    """A solver's constructor takes no such keyword."""


@dataclass(frozen=True)
class _Outcome:
    """What importing a target gave; a row's fields of the same names."""

    solver_class: type | None
    status: str
    reason: str
    details: str

    def of(self, row: SolverInfo) -> SolverInfo:
        return replace(row, status=self.status, reason=self.reason, details=self.details)


_outcomes: dict[str, _Outcome] = {}
"""By target, so that a failure is met once and reported from here afterwards."""


def list_solvers(*, load: bool = False) -> tuple[SolverInfo, ...]:
    """Return one row per installed solver, Newton's own first, then plugins by name.

    Args:
        load: Import every class, so that each row says whether it works; False reads metadata only.
    """
    rows = _discover()
    if load:
        rows = [row if row.status == _SHADOWED else _load(row)[1] for row in rows]
    else:
        rows = [_outcomes[row.target].of(row) if _known(row) else row for row in rows]
    return tuple(rows)


def get_solver(name: str | type) -> type:
    """Return the solver class of that name, importing it on first use.

    Args:
        name: A registered name (case and ``-``/``_`` do not matter), ``"distribution:name"`` of a shadowed plugin,
            ``"module:Class"``, or a class, which is checked and returned.

    Raises:
        SolverNotFoundError: No such name; the message holds the nearest and all the installed ones.
        SolverLoadError: The solver is installed but cannot be imported or is no Newton solver.
    """
    if isinstance(name, type):
        reason = _objection(name)
        if reason:
            raise SolverLoadError(f"{name.__qualname__} cannot be used as a solver: {reason}")
        return name
    row = _find(name)
    solver_class, row = _load(row)
    if solver_class is None and row.target == name:
        raise SolverLoadError(f"{name!r} cannot be used: {row.reason}; write module:Class of what can be imported")
    if solver_class is None:
        raise SolverLoadError(
            f"solver {row.name!r} of {row.distribution} {row.version} ({row.target}) cannot be used: {row.reason}; "
            f"reinstall or uninstall {row.distribution}, other solvers are not affected"
        )
    return solver_class


def describe_solver(name: str) -> SolverInfo:
    """Return the row of one solver after trying to import it: status, reason and traceback of a failure.

    Raises:
        SolverNotFoundError: No such name.
    """
    return _load(_find(name))[1]


def check_options(solver: type, options: Iterable[str]) -> None:
    """Raise unless a solver's constructor takes every keyword; one that takes any is believed.

    Args:
        solver: A solver class.
        options: Names of keywords beside the model.

    Raises:
        UnknownOptionError: A keyword that it does not take; the message holds the nearest one.
    """
    parameters: list[Any] = list(inspect.signature(solver).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters]
    for option in options:
        if option not in names:
            raise UnknownOptionError(unknown_option(solver, option, names))


def install() -> type:
    """Make ``newton.solvers.SolverSAP`` available, for code that looks solvers up there; return the class.

    Importing :mod:`newton_sap` alone never changes Newton; calling this is the explicit way to do it.
    """
    import newton.solvers

    solver_class = get_solver("newton_sap:SolverSAP")
    setattr(newton.solvers, "SolverSAP", solver_class)  # noqa: B010, a name the module does not declare
    return solver_class


def _discover() -> list[SolverInfo]:
    rows = _builtins()
    taken = {row.name for row in rows}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, _distribution(p)[0])):
        distribution, version = _distribution(point)
        name = normalise(point.name)
        row = SolverInfo(name, point.value.replace(" ", ""), distribution, version)
        if name in taken:
            row = replace(
                row,
                name=f"{distribution}:{name}",
                status=_SHADOWED,
                reason=f"{name!r} is taken; ask for {distribution}:{name}",
            )
        taken.add(name)
        rows.append(row)
    return rows


def _builtins() -> list[SolverInfo]:
    import newton
    import newton.solvers

    names = [n for n in newton.solvers.__all__ if n.startswith("Solver") and n != "SolverBase"]
    rows = [SolverInfo(_builtin_name(n), f"newton.solvers:{n}", "newton", newton.__version__) for n in names]
    return sorted(rows, key=lambda row: row.name)


def _builtin_name(class_name: str) -> str:
    if class_name in _BUILTIN_NAMES:
        return _BUILTIN_NAMES[class_name]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name.removeprefix("Solver")).lower()


def normalise(name: str) -> str:
    """Return the registry's spelling of a name: lower case with underscores; ``"module:Class"`` stays as it is."""
    name = _text(name)
    attribute = name.partition(":")[2]
    is_class = attribute != attribute.lower()  # names of plugins have no capitals
    return name if is_class else _lower(name)


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a solver must be text such as 'sap', not {name!r}")
    return name.strip()


def _lower(name: str) -> str:
    return name.lower().replace("-", "_")


def _distribution(point: EntryPoint) -> tuple[str, str]:
    if point.dist is None:
        return "unknown", "unknown"
    return point.dist.name, point.dist.version


def _find(name: str) -> SolverInfo:
    rows = _discover()
    wanted = _lower(_text(name))
    for row in rows:
        if _lower(row.name) == wanted:
            return row
    module, colon, attribute = name.partition(":")
    if colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return SolverInfo(attribute, name, module.partition(".")[0], "unknown")
    names = [row.name for row in rows]
    raise SolverNotFoundError(
        f"no solver named {name!r}{suggestion(wanted, names)} (installed: {', '.join(names)}); a plugin registers itself "
        f"by an entry point of group {GROUP!r}"
    )


def _known(row: SolverInfo) -> bool:
    return row.status != _SHADOWED and row.target in _outcomes


def _load(row: SolverInfo) -> tuple[type | None, SolverInfo]:
    if row.target not in _outcomes:
        _outcomes[row.target] = _import(row.target)
    outcome = _outcomes[row.target]
    return outcome.solver_class, outcome.of(row)


def _import(target: str) -> _Outcome:
    module, _, attribute = target.partition(":")
    solver_class: type | None = None
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        reason, details = _objection(found), ""
        solver_class = found if isinstance(found, type) and not reason else None
    except Exception as error:  # a plugin may fail in any way; the row keeps it from reaching the others
        reason, details = f"{type(error).__name__}: {error}", traceback.format_exc()
    status = _BROKEN if solver_class is None else _LOADED
    return _Outcome(solver_class, status, reason, details)


def _objection(candidate: object) -> str:
    """Return why an object cannot serve as a solver class, or an empty string."""
    from newton.solvers import SolverBase

    if not (isinstance(candidate, type) and issubclass(candidate, SolverBase)):
        return f"{candidate!r} is no subclass of newton.solvers.SolverBase"
    required = [
        parameter.name
        for parameter in list(inspect.signature(candidate).parameters.values())[1:]
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    return "" if not required else _needs_more(candidate, required)


def _needs_more(candidate: type, required: list[str]) -> str:
    # Newton's own particle solver takes a config beside the model; only plugins are held to "a model is enough".
    if candidate.__module__.startswith("newton."):
        return ""
    return f"{candidate.__qualname__} needs {', '.join(required)} beside the model; give these parameters defaults"
