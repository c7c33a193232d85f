"""What flies past, in NumPy: open contacts whose shapes stay apart across another direction than their normal (F 4.5)."""

from __future__ import annotations

import newton
import numpy as np

from .shapes import pose

BOX, CAPSULE, SPHERE = (int(newton.GeoType[kind]) for kind in ("BOX", "CAPSULE", "SPHERE"))
SAME = 1.0e-4
"""How far [m] shapes may be closer along a normal than their contact says."""


def longest_apart(model, kin, shapes, twists, surface, n, phi0, margins, dt):
    """Return normal and gap of an open contact across the direction that keeps its shapes apart for longest.

    Args:
        model: The Newton model.
        kin: Kinematics at the start of the step.
        shapes: The two shapes.
        twists: ``(w, v)`` of their bodies after free motion, ``v`` of the material at the world's origin.
        surface: Points on their surfaces, world [m].
        n: The contact's normal.
        phi0: Its gap [m].
        margins: Of both shapes, radii included [m].
        dt: Step [s].
    """
    point = 0.5 * (surface[0] + surface[1])
    v = [twist[1] + np.cross(twist[0], point) for twist in twists]
    v = v[1] - v[0]
    soonest = -(n @ v) / phi0
    cores = [_core(model, kin, shape) for shape in shapes]
    if soonest * dt < 1.0 or None in cores:
        return n, phi0

    def apart(e):
        return e @ (cores[1][0] - cores[0][0]) - sum(np.abs(axes.T @ e) @ half for _, axes, half in cores) - margins

    if apart(n) > phi0 + SAME:
        return n, phi0
    turn = sum(
        np.linalg.norm(w) * (np.linalg.norm(half) + np.linalg.norm(point - x))
        for (w, _), (x, _, half) in zip(twists, cores, strict=True)
    )
    directions = [e for _, axes, half in cores if half.min() > 0.0 for e in axes.T]
    normal, gap = n, phi0
    for e in directions:
        e = -e if e @ n < 0.0 else e
        phi = apart(e)
        if phi > 0.0 and (turn - e @ v) / phi < soonest:
            soonest, normal, gap = (turn - e @ v) / phi, e, phi
    return normal, gap


def _core(model, kin, shape):
    """Middle, axes and half extents of a box, or of the middle of a sphere or capsule; None for others."""
    kind, size = int(model.shape_type.numpy()[shape]), model.shape_scale.numpy()[shape].astype(float)
    half = {BOX: size, CAPSULE: np.array([0.0, 0.0, size[1]]), SPHERE: np.zeros(3)}.get(kind)
    return None if half is None else (*pose(model, kin, shape), half)
