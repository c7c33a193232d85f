"""Error messages about names that are not known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

Initialize = TypeVar("Initialize", bound=Callable[..., Any])
"""A constructor, with its signature."""


def suggestion(name: object, known: Iterable[object], most: int = 1, near: float = 0.6) -> str:
    """Return ``"; did you mean 'x'?"`` with the nearest of the known names, or an empty string if none is near (of 1)."""
    close = get_close_matches(str(name), [str(candidate) for candidate in known], n=most, cutoff=near)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def unknown_option(owner: type, name: str, known: Iterable[str]) -> str:
    """Return the message about a keyword that a class does not take, and which of Newton's solvers takes it."""
    known, elsewhere = list(known), _taken_elsewhere(name)
    hint = suggestion(name, known, near=0.8 if elsewhere else 0.6)  # what another solver takes is rarely misspelt
    hint = hint or f"{elsewhere} (options: {', '.join(known) or 'none'})"
    return f"{owner.__name__} has no option {name!r}{hint}"


def _taken_elsewhere(name: str) -> str:
    """Say which of Newton's solvers takes a keyword, or nothing."""
    import newton.solvers

    solvers = {
        public: getattr(newton.solvers, public) for public in newton.solvers.__all__ if public.startswith("Solver")
    }
    takers = [public for public, solver in solvers.items() if name in list(inspect.signature(solver).parameters)[1:]]
    if not takers:
        return ""
    guide = ", see docs/guides/from_mujoco.md" if "SolverMuJoCo" in takers else ""
    return f", which is one of {', '.join(takers)}: leave it out{guide}"


def absent_device(name: str | None) -> str:
    """Return why ``--device`` cannot be what it is, and which devices there are; empty where Warp has it. None is the default one."""
    import warp as wp

    try:
        wp.get_device(name)
    except Exception as error:  # Warp raises different ones for malformed and for absent devices
        here = ", ".join(str(device) for device in wp.get_devices())
        return f"--device {name!r} cannot be used: {error} (devices here: {here})"
    return ""


def naming_options(initialize: Initialize) -> Initialize:
    """Let a constructor say of a keyword that it does not take which one it may be, and that options have keywords."""
    known = list(inspect.signature(initialize).parameters)[2:]  # neither self nor the model

    @wraps(initialize)
    def checked(self, *arguments, **keywords):
        owner = type(self).__name__
        for value in [*arguments[1:], *keywords.values()]:  # behind the model
            if hasattr(value, "to_dict"):
                raise TypeError(
                    f"{owner} takes options by keyword; those of a {type(value).__name__} as in "
                    f"{owner}(model, **options.to_dict())"
                )
        for value in arguments[1:]:
            raise TypeError(
                f"{owner} takes options by keyword, as in {owner}(model, {known[0]}=...), not {value!r} by itself"
            )
        for name in keywords:
            if name not in known and name != "model":
                raise TypeError(unknown_option(type(self), name, known))
        initialize(self, *arguments, **keywords)

    return cast(Initialize, checked)
