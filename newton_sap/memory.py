"""Bytes of the Warp arrays a solver holds, by the attribute that leads to them."""

from __future__ import annotations

from typing import Any

import warp as wp

_DEPTH = 4
_PLAIN = frozenset((str, bytes, bool, int, float, type(None)))


def memory_by_buffer(solver: Any, model: Any, contacts: Any = None) -> dict[str, int]:
    """Return bytes by attribute of the solver; arrays of the model, of contacts and arrays met before do not count."""
    seen = {array.ptr for owner in (model, contacts) for array in _arrays(owner, _DEPTH, set())}
    sizes = {}
    for name, value in vars(solver).items():
        if value is model or value is contacts:
            continue
        total = 0
        for array in _arrays(value, _DEPTH, {id(model), id(contacts)}):
            if array.ptr and array.ptr not in seen:
                seen.add(array.ptr)
                total += array.capacity
        if total:
            sizes[name] = total
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _arrays(value: Any, depth: int, met: set[int]):
    """Yield every Warp array that can be reached through structs, plain objects and containers."""
    if isinstance(value, wp.array):
        yield value
        return
    if depth == 0 or id(value) in met or type(value) in _PLAIN or isinstance(value, type):
        return
    if getattr(value, "borrows_arrays", False):
        return
    met.add(id(value))
    if isinstance(value, (dict, list, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        if _PLAIN.issuperset(map(type, parts)):  # labels and such, one per joint or shape of every world
            return
    elif type(value).__module__.startswith(("newton", "mujoco_warp", "warp._src.codegen")):
        parts = getattr(value, "__dict__", {}).values()
    else:
        return
    for part in parts:
        yield from _arrays(part, depth - 1, met)
