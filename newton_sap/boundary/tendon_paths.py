"""Paths of MuJoCo's spatial tendons, cut into segments on the host; says which cannot be simulated, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import newton
import numpy as np
import warp as wp

from ..constraints.coupling_table import CYLINDER, NOTHING, SPHERE
from ..coupling_bundles import Tendons
from .model_parts import dofs_of_part
from .topology import body_poses, dof_coordinates, pose_of

_SPATIAL = 1
_SITE, _GEOM, _PULLEY = 0, 1, 2
"""MuJoCo's entries of a path, as importers write them."""
_ROUND = {int(newton.GeoType.SPHERE): int(SPHERE), int(newton.GeoType.CYLINDER): int(CYLINDER)}
_UNKNOWN = "runs over something that the model does not have"


@dataclass(frozen=True)
class Segment:
    """From one site to the next; fields are columns of :class:`newton_sap.coupling_bundles.Tendons`."""

    site_a: int
    site_b: int
    share: float
    around: int = -1
    kind: int = NOTHING
    side: int = -1


@dataclass(frozen=True)
class Path:
    """One spatial tendon; without segments if it is not simulated, but may measure."""

    segments: list[Segment] = field(default_factory=list)
    bodies: list[int] = field(default_factory=list)
    """Of the sites and geometries that the segments name, -1 for the world."""
    refused: str = ""
    """Why it cannot act."""


class _Shapes:
    """What paths ask of a model's shapes, read once."""

    def __init__(self, model):
        self._model = model
        self.body, self.type = model.shape_body.numpy(), model.shape_type.numpy()
        self._local, self._scale = model.shape_transform.numpy(), model.shape_scale.numpy()

    @cached_property
    def _body_q(self) -> np.ndarray:
        return body_poses(self._model).numpy()

    def _pose(self, shape: int) -> wp.transform:
        return pose_of(self._body_q, self.body[shape]) * wp.transform(*(float(x) for x in self._local[shape]))

    def is_inside(self, around: int, side: int) -> bool:
        """Whether a site is inside a round geometry, both as the model has them: MuJoCo then keeps a tendon inside."""
        offset = wp.transform_get_translation(wp.transform_inverse(self._pose(around)) * self._pose(side))
        return wp.length(offset) < self._scale[around][0]


def read_paths(model, table) -> dict[int, Path]:
    """Return the path of every spatial tendon of ``table``, the model's or the whole model's."""
    spatial = np.flatnonzero(table.tendon_type.numpy() == _SPATIAL)
    if not len(spatial):
        return {}
    if dofs_of_part(model) is not None:
        return {int(t): Path(refused="runs along a path (spatial) past a part of a model") for t in spatial}
    start, count = table.tendon_wrap_adr.numpy(), table.tendon_wrap_num.numpy()
    columns = [getattr(table, f"tendon_wrap_{name}", None) for name in ("type", "shape", "prm", "sidesite")]
    entries = [() if column is None else column.numpy().tolist() for column in columns]
    rows = list(zip(*entries, strict=True))
    shapes, paths = _Shapes(model), {}
    for t in spatial.tolist():
        known = 0 <= start[t] and start[t] + count[t] <= len(rows)
        paths[t] = _path(shapes, rows[start[t] : start[t] + count[t]]) if known else Path(refused=_UNKNOWN)
    return paths


def _path(shapes: _Shapes, rows: list[tuple[int, int, float, int]]) -> Path:
    segments, share, before, obstacle = [], 1.0, -1, None
    for kind, shape, divisor, side in rows:
        if kind == _PULLEY:
            if not 0.0 < divisor < np.inf:
                return Path(refused="has a pulley whose divisor is not a positive number")
            share, before = 1.0 / divisor, -1
        elif shape < 0 or kind not in (_SITE, _GEOM) or (kind == _GEOM and before < 0):
            return Path(refused=_UNKNOWN)
        elif kind == _GEOM:
            obstacle = shape, side
        else:
            if before >= 0:
                segments.append(_segment(shapes, before, shape, share, obstacle))
            before, obstacle = shape, None
    reasons = [segment for segment in segments if isinstance(segment, str)]
    if reasons or obstacle:
        return Path(refused=reasons[0] if reasons else _UNKNOWN)
    named = {shape for s in segments for shape in (s.site_a, s.site_b, s.around) if shape >= 0}
    return Path(segments, [int(body) for body in shapes.body[sorted(named)]])


def _segment(shapes: _Shapes, before: int, shape: int, share: float, obstacle: tuple[int, int] | None) -> Segment | str:
    """A segment, or why there can be none."""
    if obstacle is None:
        return Segment(before, shape, share)
    around, side = obstacle
    kind = _ROUND.get(int(shapes.type[around]))
    if kind is None:
        return "wraps around what is neither a sphere nor a cylinder"
    if side >= 0 and shapes.is_inside(around, side):
        return "runs through the inside of a geometry"
    return Segment(before, shape, share, around, kind, side)


def set_lengths(tendons: Tendons, model) -> None:
    """Measure the paths where all joints are at rest, and at zero coordinates; free and ball joints are as in the model."""
    from ..constraints.tendon_paths import measure_paths  # few models have any

    count, device = len(tendons.effort), tendons.effort.device
    coord = dof_coordinates(model)
    plain = coord[coord >= 0]
    for name, coordinates in (
        ("rest_length", model.joint_rest_q.numpy()),
        ("zero_length", np.zeros(len(model.joint_q))),
    ):
        out = wp.zeros(count, dtype=wp.float32, device=device)
        if len(tendons.site_a):
            q = model.joint_q.numpy().copy()
            q[plain] = coordinates[plain]
            body_q = body_poses(model, wp.array(q, dtype=wp.float32, device=device))
            wp.launch(measure_paths, count, [tendons, body_q], [out], device=device)
        setattr(tendons, name, out)
