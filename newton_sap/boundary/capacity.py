"""How many contact slots a model gets unless its user says: all that Newton may report, or what its shapes are likely to need.

And how many pairs of trees may touch with them, where a group is too large for a factored Hessian.
"""

from __future__ import annotations

import warnings

import newton
import numpy as np

from ..runtime.scratch import allocate_contacts
from ..workspace import (
    Arrivals,
    ContactPool,
    LargeGroups,
    allocate_arrivals,
    allocate_large_groups,
    slot_bytes,
)
from .matrices import place_blocks

CONTACT_MEMORY = 3 * 2**20
"""Contacts that fit in here [bytes] all have a slot, as many as Newton may report."""

_POINTS = {newton.GeoType.SPHERE: 1, newton.GeoType.ELLIPSOID: 1, newton.GeoType.CAPSULE: 2}
"""Contacts [-] of a shape that lies on another; any other shape has four."""

_SIDES, _LEAST, _REACHED, _SHELL = 2, 6, 4, 13
"""A body of its own, or a piece of cable, may lie in a pile: how many of its sides touch the ground or walls, and its contacts with others
that are loose as well [-], at least and for each of so many. Bodies of a pile that falls in at 60 Hz reach beyond their neighbours
within a step: 504 spheres had 34 contacts each, 216 cubes 39, 112 that fell further 43.
"""


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


def slots_per_contact(spin_friction: bool) -> int:
    """Return how many slots a contact may take: a second one is for its relative spin."""
    return 2 if spin_friction else 1


def contact_capacity(pool: ContactPool, spin_friction: bool) -> int:
    """Return how many contacts a pool has room for, each with its spin."""
    return len(pool.row) // slots_per_contact(spin_friction)


def default_contact_capacity(likely: np.ndarray, rows: int, contact_bytes: int) -> int:
    """Return for how many of Newton's ``rows`` contacts to make room, of which so many are likely to act in each group."""
    return min(rows, max(CONTACT_MEMORY // contact_bytes, int(likely.sum())))


def contacts_by_part(count: int, likely: np.ndarray, part_start: np.ndarray) -> np.ndarray:
    """Return (P + 1,) where the contacts of each part begin, in proportion to what its groups may have, and the end."""
    before = np.concatenate([[0], np.cumsum(np.maximum(likely, 1))])
    start = count * before[part_start] // max(before[-1], 1)
    start[-1] = count
    return start


def pair_entries(dofs: np.ndarray, pairs: int) -> int:
    """Return how many entries the blocks of so many pairs of trees have at most, trees given by their dofs."""
    size, count = np.unique(dofs, return_counts=True)
    first, second = np.triu_indices(len(size))
    there = np.where(first == second, count[first] * (count[first] - 1) // 2, count[first] * count[second])
    entries = size[first] * size[second]
    largest = np.argsort(-entries, kind="stable")
    before = np.cumsum(there[largest]) - there[largest]
    return int((np.clip(pairs - before, 0, there[largest]) * entries[largest]).sum())


def likely_contacts(model, topology) -> np.ndarray:
    """Return (G,) how many contacts [-] may act at the same time in each group, as far as the shapes tell."""
    arrays = topology.arrays
    body = model.shape_body.numpy()
    points = np.full(model.shape_count, 4)
    for kind, count in _POINTS.items():
        points[model.shape_type.numpy() == int(kind)] = count
    counts = (body >= 0) & (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES) != 0)
    link, tree = arrays["body_link"][body[counts]], arrays["link_tree"]
    touching = np.bincount(link[link >= 0], points[counts][link >= 0], topology.link_count)
    group = arrays["tree_group"][tree]
    loose = (np.diff(arrays["tree_link_start"]) == 1)[tree] & (touching > 0)
    others = np.bincount(group[loose], minlength=topology.group_count)[group] - 1
    neighbours = np.maximum(_LEAST, _REACHED * np.minimum(others, _SHELL))
    by_link = np.where(loose, neighbours + _SIDES * touching, touching)
    return np.bincount(group, by_link, topology.group_count).astype(np.int64)


def contact_storage(model, topology, options, scratch, rows: int) -> tuple[Arrivals, ContactPool]:
    """Return lists for ``rows`` contacts of Newton, and slots for those that act."""
    device = model.device
    stride = topology.pair_stride if options.contact_point == "witness" else topology.contact_stride
    per_contact = slots_per_contact(options.spin_friction)
    count, likely = options.max_contacts, likely_contacts(model, topology)
    if count is None:
        count = default_contact_capacity(likely, rows, per_contact * slot_bytes(stride, options.spin_friction))
    shares = per_contact * contacts_by_part(count, likely, topology.part_start)
    groups, links = topology.group_count, topology.link_count
    pool = allocate_contacts(scratch, shares, groups, links, stride, options.spin_friction)
    return allocate_arrivals(rows, groups, links, len(topology.part_start) - 1, device), pool


def place_pairs(topology, slots: np.ndarray, rows: int, is_cpu: bool) -> tuple[np.ndarray, int, int]:
    """Return where the blocks of pairs of trees lie: the first entry of each group, or entries per item, and those of all.

    Each group may take all contact slots of its part, of which so many are given, and each contact or coupler row may be between
    two trees of its own. On a CPU, groups of a part share the place of the largest. A GPU has one part, and places for
    all that each group may take would grow with the square of the number of groups: there each slot and row has room for the
    largest pair.
    """
    arrays = topology.arrays
    dofs = np.split(np.diff(arrays["tree_dof_start"]), arrays["group_tree_start"][1:-1])
    if is_cpu:
        part = np.repeat(np.arange(len(slots)), np.diff(topology.part_start))
        groups = zip(dofs, slots[part] + rows, topology.large_groups, strict=True)
        start, total = place_blocks(np.array([pair_entries(d, n) if large else 0 for d, n, large in groups]), part)
        return start, 0, total
    pairs = (np.sort(d)[-2:] for d, large in zip(dofs, topology.large_groups, strict=True) if large and len(d) > 1)
    most = max((int(first) * int(second) for first, second in pairs), default=0)
    return np.zeros(len(dofs), dtype=np.int64), most, int(slots.sum() + rows) * most


def large_group_storage(topology, problem, motion, pools, device) -> LargeGroups:
    """Return room for the blocks of groups that are too large for a factored Hessian."""
    slots = np.diff(pools.contacts.part_start.numpy())
    start, most, total = place_pairs(topology, slots, len(pools.couplers.law), device.is_cpu)
    return allocate_large_groups(problem, motion, pools, start, most, total, device)
