"""Paths of MuJoCo's spatial tendons, cut into segments on the host; says which cannot be simulated, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

import newton
import numpy as np
import warp as wp

from .parts import dofs_of_part
from .topology import dof_coordinates

_SPATIAL = 1
_SITE, _GEOM, _PULLEY = 0, 1, 2
"""MuJoCo's entries of a path, as importers write them."""
_UNKNOWN = "runs over something that the model does not have"


@dataclass(frozen=True)
class Path:
    """One spatial tendon; without segments if it is not simulated, but may measure."""

    segments: list[tuple[int, int, float]] = field(default_factory=list)
    """Two shapes that are sites, and the segment's share of the length."""
    bodies: list[int] = field(default_factory=list)
    """Of the sites, -1 for the world."""
    refused: str = ""
    """Why it cannot act."""


def read_paths(model, table) -> dict[int, Path]:
    """Return the path of every spatial tendon of ``table``, the model's or the whole model's."""
    spatial = np.flatnonzero(table.tendon_type.numpy() == _SPATIAL)
    if not len(spatial):
        return {}
    if dofs_of_part(model) is not None:
        return {int(t): Path(refused="runs along a path (spatial) past a part of a model") for t in spatial}
    start, count = table.tendon_wrap_adr.numpy(), table.tendon_wrap_num.numpy()
    entries = [getattr(table, f"tendon_wrap_{name}", None) for name in ("type", "shape", "prm")]
    kinds, shapes, divisors = (np.zeros(0, int) if column is None else column.numpy() for column in entries)
    bodies = model.shape_body.numpy()
    out = {}
    for t in spatial:
        own = slice(start[t], start[t] + count[t])
        known = 0 <= start[t] and own.stop <= len(kinds)
        out[int(t)] = _path(kinds[own], shapes[own], divisors[own], bodies) if known else Path(refused=_UNKNOWN)
    return out


def _path(kinds, shapes, divisors, bodies) -> Path:
    sites, pulleys = shapes[kinds == _SITE], divisors[kinds == _PULLEY]
    if _GEOM in kinds:
        return Path(refused="wraps around a geometry")
    if (sites < 0).any() or not np.isin(kinds, (_SITE, _PULLEY)).all():
        return Path(refused=_UNKNOWN)
    if not (np.isfinite(pulleys) & (pulleys > 0.0)).all():
        return Path(refused="has a pulley whose divisor is not a positive number")
    segments, share, before = [], 1.0, -1
    for kind, shape, divisor in zip(kinds, shapes, divisors, strict=True):
        if kind == _PULLEY:
            share, before = 1.0 / float(divisor), -1
            continue
        if before >= 0:
            segments.append((before, int(shape), share))
        before = int(shape)
    return Path(segments, bodies[sites].tolist())


def path_lengths(model, paths: dict[int, Path], count: int, coordinates: np.ndarray) -> np.ndarray:
    """(T,) length [m] of each path at ``coordinates`` (those of free and ball joints as in the model), 0 for sums."""
    lengths = np.zeros(count)
    if not any(path.segments for path in paths.values()):
        return lengths
    coord, q = dof_coordinates(model), model.joint_q.numpy().copy()
    plain = coord[coord >= 0]
    q[plain] = coordinates[plain]
    state = model.state()
    newton.eval_fk(model, wp.array(q, dtype=wp.float32, device=model.device), model.joint_qd, state)
    poses, local, body = state.body_q.numpy(), model.shape_transform.numpy(), model.shape_body.numpy()

    def position(shape: int) -> np.ndarray:
        at = wp.transform(*(float(x) for x in local[shape]))
        if body[shape] >= 0:
            at = wp.transform(*(float(x) for x in poses[body[shape]])) * at
        return np.array(wp.transform_get_translation(at))

    for t, path in paths.items():
        lengths[t] = sum(share * np.linalg.norm(position(b) - position(a)) for a, b, share in path.segments)
    return lengths
