"""Where round bodies touch in a step whose contacts were found in an earlier one (formulation 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .shapes import CAPSULE, CYLINDER, SPHERE, pose

LYING = TURNED = 0.5
"""Cosines: of a normal and the axis of a cylinder that rolls on, and of how far it may have gone round since the contact was found."""
ENDS = 0.999
"""Share of its half length up to which a capsule's side is touched, and no end."""
CROSSED = 0.3
"""Least sine of the angle at which two axes cross."""


@dataclass
class _Round:
    """A round surface: its radius, zero where it is none, how far the touching point moved, and along which axis it is straight, if any."""

    radius: float = 0.0
    moved: np.ndarray = field(default_factory=lambda: np.zeros(3))
    straight: np.ndarray | None = None


def _round(model, kin, shape, point, out):
    """Return the surface of a shape that faces along ``out``."""
    kind, size = int(model.shape_type.numpy()[shape]), model.shape_scale.numpy()[shape]
    if kind not in (SPHERE, CAPSULE, CYLINDER):
        return _Round()
    center, axes = pose(model, kin, shape)
    axis = axes[:, 2]
    along = axis @ (point - center)
    if kind != CYLINDER:
        on_side = kind == CAPSULE and abs(axis @ out) < LYING and abs(along) < ENDS * float(size[1])
        return _Round(float(size[0]), straight=axis if on_side else None)
    arm = point - center - axis * along
    across, radius = out - axis * (axis @ out), float(np.linalg.norm(arm))
    if abs(axis @ out) >= LYING or arm @ across <= TURNED * radius * np.linalg.norm(across):
        return _Round()
    return _Round(radius, radius * across / np.linalg.norm(across) - arm, axis)


def _on_a(a, b, n, ahead):
    """Return how far ahead of A's point, and ``ahead`` behind B's, the two are touched."""
    if min(a.radius, b.radius) == 0.0:
        return ahead if a.radius == 0.0 else 0.0 * ahead
    first, second = (np.zeros(3) if s.straight is None else s.straight - n * (n @ s.straight) for s in (a, b))
    first, second = (x / np.linalg.norm(x) if x.any() else x for x in (first, second))
    crossed = n @ np.cross(first, second)
    if abs(crossed) > CROSSED:
        return first * (n @ np.cross(ahead, second)) / crossed
    share, y = a.radius / (a.radius + b.radius), np.zeros(3)
    if first.any() != second.any():
        straight = first if first.any() else second
        along = straight * (straight @ ahead)
        y, ahead = (along if first.any() else y), ahead - along
    return y + share * ahead


def roll_on(model, kin, shapes, n, support, surface):
    """Return supports and surfaces of a contact where they are now, surfaces facing each other along ``n``, where what is round is touched;
    and how far B's had passed A's."""
    a, b = (_round(model, kin, shape, point, out) for shape, point, out in zip(shapes, support, (n, -n), strict=True))
    support, surface = ([x[0] + a.moved, x[1] + b.moved] for x in (support, surface))
    ahead = surface[1] - surface[0]
    ahead = ahead - n * (n @ ahead)
    if a.radius + b.radius > 0.0:
        on_a = _on_a(a, b, n, ahead)
        surface = [surface[0] + on_a, surface[1] - (ahead - on_a)]
    return support, surface, ahead
