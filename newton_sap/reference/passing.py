"""What flies past, in NumPy: open contacts whose shapes stay apart across another direction than their normal (F 4.5)."""

from __future__ import annotations

import newton
import numpy as np

from .shapes import pose

BOX, CAPSULE, SPHERE, CYLINDER = (int(newton.GeoType[kind]) for kind in ("BOX", "CAPSULE", "SPHERE", "CYLINDER"))
NO_CORE = {int(newton.GeoType[kind]) for kind in ("PLANE", "HFIELD", "ELLIPSOID", "CONE")}
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
        reach = sum(np.abs(axes.T @ e) @ half + r * np.hypot(*(axes.T @ e)[:2]) for _, axes, half, r in cores)
        return e @ (cores[1][0] - cores[0][0]) - reach - margins

    if apart(n) > phi0 + SAME:
        return n, phi0
    turn = sum(
        np.linalg.norm(w) * (np.linalg.norm(half) + r + np.linalg.norm(point - x))
        for (w, _), (x, _, half, r) in zip(twists, cores, strict=True)
    )
    directions = [e for core in cores for e in _across_faces(*core[1:], n)]
    normal, gap = n, phi0
    for e in directions:
        e = -e if e @ n < 0.0 else e
        phi = apart(e)
        if phi > 0.0 and (turn - e @ v) / phi < soonest:
            soonest, normal, gap = (turn - e @ v) / phi, e, phi
    return normal, gap


def _across_faces(axes, half, radius, n):
    """List unit vectors across faces: of a box, or of a cylinder's cap and, next to a normal, its side."""
    if half.min() > 0.0:
        return list(axes.T)
    if radius == 0.0:
        return []
    radial = n - (n @ axes[:, 2]) * axes[:, 2]
    length = np.linalg.norm(radial)
    return [axes[:, 2]] if length == 0.0 else [radial / length, axes[:, 2]]


def _core(model, kin, shape):
    """Middle, axes, half extents and radius about the third axis: of a box or cylinder, of a box around a mesh or hull, or of the
    middle of a sphere or capsule; None where there is none."""
    kind, size = int(model.shape_type.numpy()[shape]), model.shape_scale.numpy()[shape].astype(float)
    if kind in NO_CORE:
        return None
    lower, upper = (
        getattr(model, f"shape_collision_aabb_{end}").numpy()[shape].astype(float) for end in ("lower", "upper")
    )
    middle, axes = pose(model, kin, shape)
    on_axis = np.array([0.0, 0.0, size[1]])
    known = {BOX: (size, 0.0), CAPSULE: (on_axis, 0.0), SPHERE: (np.zeros(3), 0.0), CYLINDER: (on_axis, upper[0])}
    if kind in known:
        return middle, axes, *known[kind]
    return middle + axes @ (0.5 * (upper + lower)), axes, 0.5 * (upper - lower), 0.0
