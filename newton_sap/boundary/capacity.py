"""How many contact slots a model gets unless its user says: all that Newton may report, or what its shapes are likely to need."""

from __future__ import annotations

import newton
import numpy as np

from ..workspace import slot_bytes

CONTACT_MEMORY = 3 * 2**20
"""Contacts that fit in here [bytes] all have a slot, as many as Newton may report."""

_POINTS = {newton.GeoType.SPHERE: 1, newton.GeoType.ELLIPSOID: 1, newton.GeoType.CAPSULE: 2}
"""Contacts [-] of a shape that lies on another; any other shape has four."""

_NEIGHBOURS, _SIDES = 6, 2
"""A body of its own may lie in a pile: contacts of its neighbours, and how many of its sides touch."""


def default_contact_capacity(model, topology, rows: int, stride: int, spin_friction: bool) -> int:
    """Return how many slots to make for ``rows`` contacts of Newton, most of which never act at the same time."""
    per_contact = 2 if spin_friction else 1
    likely = per_contact * likely_contacts(model, topology)
    return min(per_contact * rows, max(CONTACT_MEMORY // slot_bytes(stride), likely))


def likely_contacts(model, topology) -> int:
    """Return how many contacts [-] may act at the same time in all worlds, as far as the shapes tell."""
    arrays = topology.arrays
    body = model.shape_body.numpy()
    points = np.full(model.shape_count, 4)
    for kind, count in _POINTS.items():
        points[model.shape_type.numpy() == int(kind)] = count
    counts = (body >= 0) & (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES) != 0)
    link = arrays["body_link"][body[counts]]
    tree = arrays["link_tree"][link[link >= 0]]
    touching = np.bincount(tree, points[counts][link >= 0], topology.tree_count)
    alone = (np.diff(arrays["tree_link_start"]) == 1) & (touching > 0)
    return int(np.where(alone, _NEIGHBOURS + _SIDES * touching, touching).sum())
