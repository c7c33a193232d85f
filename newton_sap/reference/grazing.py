"""What grazes a box, in NumPy: the face that a mesh leaves sooner than after the depth that Newton reports."""

from __future__ import annotations

import numpy as np

from .shapes import BOX, MESH, pose

GRAZING = 1e-4
"""How near [m] shapes are that Newton takes for overlapping."""


def leave_by_face(model, kin, shapes, n: np.ndarray, support, surface, margin):
    """Return a contact's normal, supports and surfaces [m] as they are, or across the face of a box that a mesh grazes."""
    kinds = [int(model.shape_type.numpy()[shape]) for shape in shapes]
    depth = n @ (support[0] - support[1])
    if depth < GRAZING or sorted(kinds) != sorted((BOX, MESH)):
        return n, support, surface
    box, mesh = kinds.index(BOX), kinds.index(MESH)
    out = _grazed_face(model, kin, shapes[box], shapes[mesh], support[mesh], depth)
    if out is None:
        return n, support, surface
    center, axes = pose(model, kin, shapes[box])
    half = model.shape_scale.numpy()[shapes[box]].astype(float)
    below = np.abs(out @ axes) @ half - out @ (support[mesh] - center)
    support = [support[mesh] + below * out if side == box else support[mesh] for side in (0, 1)]
    n = out if box == 0 else -out
    return n, support, [support[0] + margin[0] * n, support[1] - margin[1] * n]


def _grazed_face(model, kin, box: int, mesh: int, point: np.ndarray, depth: float) -> np.ndarray | None:
    """Return the unit vector out of the face of a box that all triangles at a point leave sooner than after ``depth`` [m]."""
    center, axes = pose(model, kin, box)
    half = model.shape_scale.numpy()[box].astype(float)
    origin, turned = pose(model, kin, mesh)
    size = model.shape_scale.numpy()[mesh].astype(float)
    source = model.shape_source[mesh]
    corners = (np.asarray(source.vertices, float) * size)[np.asarray(source.indices).reshape(-1, 3)]
    at = turned.T @ (point - origin)
    near = np.all((corners.min(axis=1) <= at + GRAZING) & (corners.max(axis=1) >= at - GRAZING), axis=1)
    deepest, nearest = -np.inf, None
    for corner in corners[near]:
        local = (origin + corner @ turned.T - center) @ axes
        below = np.concatenate([half - local.min(axis=0), half + local.max(axis=0)])
        if below.min() > deepest:
            deepest, nearest = below.min(), int(below.argmin())
    if nearest is None or deepest + GRAZING > depth:
        return None
    return axes[:, nearest % 3] * (1.0 if nearest < 3 else -1.0)
