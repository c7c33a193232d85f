"""Where round bodies touch in a step whose contacts were found in an earlier one (formulation 4.6)."""

from __future__ import annotations

import numpy as np

from .shapes import CAPSULE, CYLINDER, SPHERE, pose

LYING = TURNED = 0.5
"""Cosines: of a normal and the axis of a cylinder that rolls on, and of how far it may have gone round since the contact was found."""


def _round(model, kin, shape, point, out):
    """Return the radius of a shape's surface that faces along ``out``, zero where none is round, and how far the touching point moved."""
    kind = int(model.shape_type.numpy()[shape])
    if kind in (SPHERE, CAPSULE):
        return float(model.shape_scale.numpy()[shape][0]), np.zeros(3)
    if kind != CYLINDER:
        return 0.0, np.zeros(3)
    center, axes = pose(model, kin, shape)
    axis = axes[:, 2]
    arm = (point - center) - axis * (axis @ (point - center))
    across, radius = out - axis * (axis @ out), float(np.linalg.norm(arm))
    if abs(axis @ out) >= LYING or arm @ across <= TURNED * radius * np.linalg.norm(across):
        return 0.0, np.zeros(3)
    return radius, radius * across / np.linalg.norm(across) - arm


def roll_on(model, kin, shapes, n, support, surface):
    """Return supports and surfaces of a contact where they are now, surfaces facing each other along ``n``, on the line between what is round."""
    (r_a, moved_a), (r_b, moved_b) = (
        _round(model, kin, shape, point, out) for shape, point, out in zip(shapes, support, (n, -n), strict=True)
    )
    support, surface = ([x[0] + moved_a, x[1] + moved_b] for x in (support, surface))
    if r_a + r_b > 0.0:
        ahead = surface[1] - surface[0]
        ahead = ahead - n * (n @ ahead)
        share = 1.0 if r_a == 0.0 else r_a / (r_a + r_b) if r_b > 0.0 else 0.0
        surface = [surface[0] + share * ahead, surface[1] - (1.0 - share) * ahead]
    return support, surface
