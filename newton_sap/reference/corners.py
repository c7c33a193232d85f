"""Corners of a box that may come down beside the one that was found, in NumPy (formulation 4.4)."""

from __future__ import annotations

import numpy as np

from .edges import Place
from .facing import AT_A_CORNER
from .shapes import BOX, CYLINDER, HEIGHTFIELD, HULL, MESH, pose

FACED = (BOX, CYLINDER, HULL, MESH, HEIGHTFIELD)
REPORTED_SLOPE = 0.035
"""Of a line from the lowest corner to another; less steep ones Newton reports itself."""
LEVEL = 0.9999
"""Least cosine between the normal of a contact and a face that goes on."""


def touching_corner(model, kin, shapes, n, support):
    """Return the side whose box touches in its furthest corner, the box's axes and the corner in these; None for none."""
    for side, out in ((1, -n), (0, n)):
        center, axes = pose(model, kin, shapes[side])
        at, half = axes.T @ (support[side] - center), model.shape_scale.numpy()[shapes[side]].astype(float)
        lead = np.where(axes.T @ out < 0.0, -at, at)
        if int(model.shape_type.numpy()[shapes[side]]) == BOX and np.all(lead > AT_A_CORNER * half):
            return side, axes, at
    return None


def corners_beside(solids, index, shapes, n, support, surface, margins):
    """Yield where a contact that is in the furthest corner of a box would be in others of its face that are above the same face."""
    model, kin = solids.model, solids.kin
    if not all(solids.kind(shape) in FACED for shape in shapes):
        return
    touching = touching_corner(model, kin, shapes, n, support)
    if touching is None:
        return
    side, axes, at = touching
    out = n if side == 1 else -n
    face = int(np.abs(axes.T @ n).argmax())
    for corner in (1, 2, 3):
        across = np.zeros(3)
        across[[(face + 1) % 3, (face + 2) % 3]] = corner % 2, corner // 2
        moved = -2.0 * axes @ (across * at)
        rise, along = out @ moved, moved - n * (n @ moved)
        foot = support[1 - side] + along
        steep = rise > REPORTED_SLOPE * np.linalg.norm(moved)
        if steep and solids.is_on_face(shapes[1 - side], foot, out, np.sqrt(2.0 * (1.0 - LEVEL))):
            move = [moved, along] if side == 0 else [along, moved]
            there = [x + d for x, d in zip(surface, move, strict=True)]
            phi0 = n @ (support[1] + move[1] - support[0] - move[0]) - margins
            bodies = tuple(int(model.shape_body.numpy()[shape]) for shape in shapes)
            yield Place(index, shapes, bodies, n, there, there, np.zeros(3), phi0, 0.0, phi0, corner)
