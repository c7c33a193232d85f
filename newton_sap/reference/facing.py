"""Where a box touches a plane, in NumPy (formulation 4.4)."""

from __future__ import annotations

import numpy as np

from .shapes import BOX, PLANE, pose

AT_A_CORNER = 0.99
"""Share of each half length that a point is from the middle of a box in whose corner it is."""


def face_plane(model, kin, shapes, n, support, surface):
    """Return supports and surfaces [m]: a corner of a box behind the face that looks at a plane is exchanged for the opposite one."""
    kinds = [int(model.shape_type.numpy()[shape]) for shape in shapes]
    if kinds != [PLANE, BOX] or model.shape_scale.numpy()[shapes[0]][:2].any():
        return support, surface
    if int(model.shape_body.numpy()[shapes[1]]) not in model.joint_child.numpy():
        return support, surface
    center, axes = pose(model, kin, shapes[1])
    local = axes.T @ (support[1] - center)
    half = model.shape_scale.numpy()[shapes[1]].astype(float)
    face = int(np.abs(axes.T @ n).argmax())
    is_front = local[face] * (axes[:, face] @ n) <= 0.0
    if is_front or np.any(np.abs(local) < AT_A_CORNER * half):
        return support, surface
    moved = -2.0 * axes @ local
    moves = [moved - n * (n @ moved), moved]
    return [x + d for x, d in zip(support, moves, strict=True)], [x + d for x, d in zip(surface, moves, strict=True)]
