"""How many contact slots a model gets unless its user says: all that Newton may report, or what its shapes are likely to need."""

from __future__ import annotations

import warnings

import newton
import numpy as np

from ..workspace import slot_bytes

CONTACT_MEMORY = 3 * 2**20
"""Contacts that fit in here [bytes] all have a slot, as many as Newton may report."""

_POINTS = {newton.GeoType.SPHERE: 1, newton.GeoType.ELLIPSOID: 1, newton.GeoType.CAPSULE: 2}
"""Contacts [-] of a shape that lies on another; any other shape has four."""

_NEIGHBOURS, _SIDES = 6, 2
"""A body of its own may lie in a pile: contacts of its neighbours, and how many of its sides touch."""


def newton_capacity(model, contacts: newton.Contacts | None) -> int:
    """Return how many contacts Newton may report, in ``contacts`` or, before any have been seen, at all."""
    if model.shape_count == 0:
        return 0
    rows = model.rigid_contact_max if contacts is None else contacts.rigid_contact_max
    if rows is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the caller's own pipeline says how large it is
            rows = newton.CollisionPipeline(model, publish_capacity=False).rigid_contact_max
    return int(rows)


def default_contact_capacity(likely: np.ndarray, rows: int, stride: int, spin_friction: bool) -> int:
    """Return how many slots to make for ``rows`` contacts of Newton, of which so many are likely to act in each group."""
    per_contact = 2 if spin_friction else 1
    return min(per_contact * rows, max(CONTACT_MEMORY // slot_bytes(stride), per_contact * int(likely.sum())))


def share_slots(slots: int, likely: np.ndarray, part_start: np.ndarray) -> np.ndarray:
    """Return (P + 1,) where the slots of each part begin, in proportion to the contacts of its groups, and the end."""
    before = np.concatenate([[0], np.cumsum(np.maximum(likely, 1))])
    start = slots * before[part_start] // max(before[-1], 1)
    start[-1] = slots
    return start


def likely_contacts(model, topology) -> np.ndarray:
    """Return (G,) how many contacts [-] may act at the same time in each group, as far as the shapes tell."""
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
    by_tree = np.where(alone, _NEIGHBOURS + _SIDES * touching, touching).astype(np.int64)
    return np.bincount(arrays["tree_group"], by_tree, topology.group_count).astype(np.int64)
