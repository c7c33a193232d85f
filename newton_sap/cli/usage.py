"""What a command is refused for before anything is built: options, values, devices and files that cannot be used."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from .. import registry
from ..compare.contestants import absence
from ..config import resolve_options
from ..solver import SolverSAP
from ..suggest import absent_device


class UsageError(ValueError):
    """The command cannot be carried out as given; the message says what to change."""


def solver_options(preset: str | None, entries: list[str]) -> dict[str, Any]:
    """Return the solver's keywords that a command line gives as a preset and as ``name=value`` entries."""
    options: dict[str, Any] = {} if preset is None else {"preset": preset}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--option {entry!r}: write name=value")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    return options


def require_options(solver: type, options: Mapping[str, Any]) -> None:
    """Raise :class:`UsageError` if a solver does not take one of the options; of SolverSAP the values are checked too."""
    try:
        registry.check_options(solver, options)
        if solver is SolverSAP:
            keywords = {name: value for name, value in options.items() if name != "preset"}
            for name in keywords:
                if name.startswith("collision_"):
                    raise UsageError(f"--option {name}: takes objects of Python; commands bring their own pipeline")
            resolve_options(options.get("preset"), keywords)
    except ValueError as error:  # an unknown name is one, too
        raise UsageError(str(error)) from error


def require_installed(name: str) -> None:
    """Raise :class:`UsageError` if a registered solver needs what is not installed."""
    reason = absence(name)
    if reason:
        raise UsageError(f"solver {name} cannot run: {reason}")


def require_device(name: str | None) -> None:
    """Raise :class:`UsageError` if Warp has no such device; None is the default one."""
    if reason := absent_device(name):
        raise UsageError(reason)


def require_writable(option: str, path: Path) -> None:
    """Raise :class:`UsageError` unless a file can be written; it is tried without leaving anything behind."""
    try:
        if path.is_dir():
            raise UsageError(f"{option} {str(path)!r} is a folder: name a file")
        if path.exists():
            path.open("ab").close()
            return
        home = next(folder for folder in path.absolute().parents if folder.exists())
        if not home.is_dir():
            raise UsageError(f"{option} {str(path)!r} cannot be written: {str(home)!r} is not a folder")
        TemporaryFile(dir=home).close()
    except OSError as error:
        reason = f"{option} {str(path)!r} cannot be written: {error.strerror}; name a place that can be"
        raise UsageError(reason) from error
