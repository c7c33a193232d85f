"""Corners that may come down beside the one that was found, in NumPy (formulation 4.7)."""

from __future__ import annotations

import numpy as np

from .basics import quat_matrix
from .edges import Place
from .facing import AT_A_CORNER
from .shapes import BOX, CAPSULE, CONE, CYLINDER, HEIGHTFIELD, HULL, MESH, PLANE, REPORTED, pose

FACED = (BOX, CYLINDER, HULL, MESH, HEIGHTFIELD)
ASKEW, LEVEL, INWARD, BEYOND = 0.003, 0.9999, 0.05, 0.05
"""Slope of a line to another corner, at least; cosine of a face that goes on; of the way to the COM, where a hull's facet is looked for."""


def may_come_down_on(solids, moving, face):
    """Whether a shape comes down on corners that Newton reports one by one, on a face of another."""
    on_plane = solids.kind(moving) in (HULL, CONE) and solids.kind(face) == PLANE
    on_plane = on_plane and not solids.model.shape_scale.numpy()[face][0] > 0.0
    return solids.kind(moving) in (BOX, CYLINDER, CAPSULE, CONE, HULL) and (solids.kind(face) in FACED or on_plane)


def of_box(half, at, out):
    """Ways from the furthest corner of a box to others of the face that looks along ``out``."""
    if np.any(np.where(out < 0.0, -at, at) <= AT_A_CORNER * half):
        return []
    face = int(np.abs(out).argmax())
    ways = []
    for flips in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0)):
        across = np.zeros(3)
        across[[(face + 1) % 3, (face + 2) % 3]] = flips
        ways.append(-2.0 * across * at)
    return ways


def of_round(is_cone, radius, half_height, at, out):
    """Ways from the furthest point of a rim of a cylinder or cone to others of the cap or side that looks along ``out``."""
    aside = np.hypot(*out[:2])
    lead = -at[2] if is_cone or out[2] < 0.0 else at[2]
    if at[:2] @ out[:2] <= AT_A_CORNER * radius * aside or lead <= AT_A_CORNER * half_height:
        return []
    x, y, z = at
    if aside <= abs(out[2]):
        return [np.array([-2.0 * x, -2.0 * y, 0.0]), np.array([-y - x, x - y, 0.0]), np.array([y - x, -x - y, 0.0])]
    return [np.array([-x, -y, half_height - z]) if is_cone else np.array([0.0, 0.0, -2.0 * z])]


def of_capsule(half_height, at, out):
    """The way from where the end of a capsule touches that is furthest along ``out`` to the same of the other end."""
    sign = -1.0 if out[2] < 0.0 else 1.0
    return [np.array([0.0, 0.0, -2.0 * sign * half_height])] if sign * at[2] > AT_A_CORNER * half_height else []


def of_hull(solids, shape, at, out):
    """Ways from the furthest corner of the facet of a hull that its weight turns down: to the opposite one, and to either side of that."""
    model = solids.model
    size, body = model.shape_scale.numpy()[shape].astype(float), int(model.shape_body.numpy()[shape])
    com = np.zeros(3)
    if body >= 0:
        X = model.shape_transform.numpy()[shape].astype(float)
        com = quat_matrix(X[3:]).T @ (model.body_com.numpy()[body] - X[:3])
    start = at + INWARD * (com - at)
    normal, far = solids.first_facet(shape, start, out, size, 1e3)
    if normal is None:
        return []
    facet = normal / np.linalg.norm(normal) * np.sign(normal @ out)
    if abs(facet @ (start + far * out - at)) >= REPORTED or np.linalg.norm(np.cross(facet, out)) < ASKEW:
        return []
    steps = model.shape_source[shape].vertices * size - at
    steps = steps[np.abs(steps @ facet) < REPORTED]
    if np.linalg.norm(steps[(steps @ out).argmax()]) > REPORTED:
        return []
    opposite = steps[np.linalg.norm(steps, axis=1).argmax()]
    if np.linalg.norm(opposite) < np.linalg.norm(com - at):  # what is nearly round rolls from facet to facet
        return []
    aside = np.cross(facet, opposite)
    return [opposite, *(steps[(steps @ (side * aside + BEYOND * opposite)).argmax()] for side in (1.0, -1.0))]


def ways_to_corners(solids, shape, point, out):
    """Ways [m] from where a shape touches, if that is its furthest corner along ``out``, to other corners of its face."""
    center, axes = pose(solids.model, solids.kin, shape)
    at, along = axes.T @ (point - center), axes.T @ out
    size = solids.model.shape_scale.numpy()[shape].astype(float)
    ways = {
        BOX: lambda: of_box(size, at, along),
        CYLINDER: lambda: of_round(False, *size[:2], at, along),
        CONE: lambda: of_round(True, *size[:2], at, along),
        CAPSULE: lambda: of_capsule(size[1], at, along),
        HULL: lambda: of_hull(solids, shape, at, along),
    }[solids.kind(shape)]()
    return [axes @ way for way in ways]


def corners_beside(solids, index, shapes, n, support, surface, margins):
    """Yield where a contact in a furthest corner would be in others of that face, above the same face of the other shape."""
    for side, out in ((1, -n), (0, n)):
        shape, face = shapes[side], shapes[1 - side]
        ways = ways_to_corners(solids, shape, support[side], out) if may_come_down_on(solids, shape, face) else []
        for corner, way in enumerate(ways, 1):
            along = way - n * (n @ way)
            steep = -out @ way > ASKEW * np.linalg.norm(way)
            if steep and solids.is_on_face(face, support[1 - side] + along, -out, np.sqrt(2.0 * (1.0 - LEVEL))):
                move = [way, along] if side == 0 else [along, way]
                there = [x + d for x, d in zip(surface, move, strict=True)]
                phi0 = n @ (support[1] + move[1] - support[0] - move[0]) - margins
                bodies = tuple(int(solids.model.shape_body.numpy()[s]) for s in shapes)
                if phi0 > 0.0:
                    yield Place(index, shapes, bodies, n, there, there, np.zeros(3), phi0, 0.0, phi0, corner)
        if ways:
            return
