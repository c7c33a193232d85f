"""Scratch: arrays that a step fills and uses up in one part of the groups before the next part begins.

On a CPU the parts that a thread works on, one after the other, keep theirs in one place, as long as the largest needs. It stays
in the cache, and a batch of a thousand worlds takes half the memory. Kernels do not know: what they get for a
part are arrays of the whole length, whose entries of that part lie in the place.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import warp as wp

from ..workspace import (
    OF_SPINS,
    ROWS_PER_DOF,
    ClusterEntry,
    Clusters,
    ContactPool,
    Motion,
    Problem,
    RowPool,
    allocate,
    copy_bundle,
)

CONTACT = (
    "phi0", "stiffness", "relaxation_time", "dissipation", "mu", "mu_torsional", "mu_rolling", "rebound", "R_t", "R_n", "v_hat",
    "normal_law", "n0", "slip_scale", "line", "slip_direction", "slowness", "G", "support",
)  # fmt: skip
JACOBIAN = ("unknown", "J")
ROW = ("unknown", "law", "G")
UNKNOWN = (
    "block", "block_end", "A_row", "last", "row_end", "v", "v_star", "scale", "change", "excess", "dv", "dp", "first"
)  # fmt: skip
"""Arrays that nobody reads after the minimisation: of contacts, with an entry per slot or per slot and unknown, of rows, and of
problems. ``A`` is scratch besides; who asks for it later gets it worked out anew (``inspection.py``)."""


def parts_of_threads(parts: int, threads: int) -> list[range]:
    """Return which parts each thread works on."""
    return [range(i * parts // threads, (i + 1) * parts // threads) for i in range(threads)]


class Scratch:
    """Makes bundles with scratch in them, and knows what each part gets in place of a bundle."""

    borrows_arrays = True
    """The solver's bundles hold the places."""

    def __init__(self, topology, threads: int, model):
        self.device, self.has_gradients = model.device, model.requires_grad
        self.parts = parts = len(topology.part_start) - 1
        # Gradients read it after the step, blocks of large groups name it, and groups that meet wait for each other.
        outlives = model.requires_grad or topology.needs_iterations or topology.groups_meet
        self.is_shared = self.device.is_cpu and parts > 1 and not outlives
        self._places = parts_of_threads(parts, min(threads, parts)) if self.is_shared else []
        self._own = {}

    def allocate(self, struct_type, sizes: dict[str, int], starts: dict[str, np.ndarray], **values):
        """Return what :func:`workspace.allocate` does; ``starts`` has, by array that is scratch, (P + 1,) where the entries of
        each part begin, and the end."""
        if not self.is_shared or not starts:
            return allocate(struct_type, sizes, self.device, **values)
        total = {name: sizes.get(name, sizes["*"]) for name in starts}
        begin = {name: self._begin(start, total[name]) for name, start in starts.items()}
        whole = allocate(struct_type, sizes | {name: at[-1] for name, at in begin.items()}, self.device, **values)
        own = []
        for part in range(self.parts):
            views = {n: _shifted(getattr(whole, n), begin[n][part] - int(starts[n][part]), total[n]) for n in starts}
            own.append(copy_bundle(struct_type, whole, views))
        self._own[id(whole)] = whole, own
        return whole

    def _begin(self, start: np.ndarray, total: int) -> list[int]:
        """Return where each part's entries begin in the places, and where the last place ends."""
        begin, at = [], 0
        behind = total - int(start[-1])  # entries behind those of the last part, which are read in whole chunks
        for parts in self._places:
            begin += [at] * len(parts)
            at += int(np.diff(start[parts.start : parts.stop + 1]).max()) + behind
        return [*begin, at]

    def join(self, struct_type, **members):
        """Return a bundle of bundles, of which each part gets its own."""
        whole = struct_type()
        for name, member in members.items():
            setattr(whole, name, member)
        if self.is_shared:
            own = [dict(zip(members, self.own(members.values(), p), strict=True)) for p in range(self.parts)]
            self._own[id(whole)] = whole, [copy_bundle(struct_type, whole, its) for its in own]
        return whole

    def is_in(self, bundle) -> bool:
        """Whether parts have some of a bundle's arrays in one place, so that it holds those of one part alone."""
        return id(bundle) in self._own

    def own(self, inputs: Iterable, part: int) -> Iterable:
        """Return what a part gets in place of a launch's inputs: the same, but for bundles with scratch."""
        if not self.is_shared:
            return inputs
        known = [self._own.get(id(value)) for value in inputs]
        return [value if its is None else its[1][part] for value, its in zip(inputs, known, strict=True)]


def _shifted(place: wp.array, entries: int, length: int) -> wp.array:
    """Return an array of that length whose first entry lies so many entries behind, or before, the place's.

    Nobody reads or writes the entries that lie outside.
    """
    at = place.ptr + entries * wp.types.type_size_in_bytes(place.dtype) if length else None
    return wp.array(ptr=at, dtype=place.dtype, shape=(length,), device=place.device)


def allocate_motion(scratch: Scratch, topology) -> tuple[Motion, Motion]:
    """Return the motion of a step, and the one at its end, which shares nothing and lacks what only free motion needs."""
    counts = {"*": topology.dof_count, "group_speed": topology.group_count}
    counts |= dict.fromkeys(("locked", "leans", "flight"), topology.tree_count)
    links = ("position", "rotation", "com", "velocity", "bias", "mass", "moment", "inertia", "momentum")
    counts |= dict.fromkeys(links, topology.link_count)
    counts |= {"A": topology.block_size, "factor": topology.factor_size}
    starts = {}
    if topology.parts_are_alike:  # entries of A that are zero are never written
        first_tree = topology.arrays["group_tree_start"][topology.part_start]
        starts["A"] = topology.arrays["tree_block_start"][first_tree]
    unused = ["column", "bias", "mass", "moment", "inertia", "A", "factor", "v_star", "v", "travel"]
    unused += ["drive_speed", "leans", "flight", "group_speed"]
    after = allocate(Motion, counts | dict.fromkeys([*unused, "gained"], 0), scratch.device)
    # What free motion gains is read before anything else is kept there.
    motion = scratch.allocate(Motion, counts, starts, gained=after.velocity)
    after.bias = after.momentum  # velocity_products.push_products minds that
    return motion, after


def allocate_rows(scratch: Scratch, topology) -> RowPool:
    """Return room for the scalar rows of all dofs."""
    counts = {"*": ROWS_PER_DOF * topology.dof_count}
    return scratch.allocate(RowPool, counts, dict.fromkeys(ROW, ROWS_PER_DOF * topology.part_dofs))


def allocate_clusters(topology, tied: np.ndarray, coupler_trees: np.ndarray, split: bool, device) -> Clusters:
    """Return the clusters of a step without contacts: trees that are ``tied`` to the same one, or groups where nothing may ``split``
    them. ``coupler_trees`` has of each row of couplings the tree that its trees are tied to."""
    count, arrays = topology.tree_count, topology.arrays
    first = tied if split else np.array(arrays["group_tree_start"])[arrays["tree_group"]]
    order = np.argsort(first, kind="stable")
    of_tree = np.searchsorted(first[order], first)
    rows = np.searchsorted(coupler_trees, np.arange(count + 1))
    entry = np.zeros(count + 1, dtype=ClusterEntry.numpy_dtype())
    np.add.at(entry["trees"], of_tree, 1)
    entry["tree"][:-1], entry["coupler_start"][:-1] = order, rows[order]
    entry["dof_start"][1:] = np.cumsum(np.diff(arrays["tree_dof_start"])[order])
    several = count if topology.has_islands else 0
    clusters = Clusters()
    clusters.entry = wp.array(entry, dtype=ClusterEntry, device=device)
    for name, values in {"order": order, "of_tree": of_tree, "tied": tied}.items():
        setattr(clusters, name, wp.array(values[:several], dtype=wp.int32, device=device))
    clusters.coupler_start = wp.array(rows if len(coupler_trees) else rows[:0], dtype=wp.int32, device=device)
    clusters.most_dofs, clusters.most_trees = topology.largest_cluster
    clusters.split = int(split and several > 0)
    return clusters


def allocate_problem(scratch: Scratch, topology, tied: np.ndarray, coupler_trees: np.ndarray) -> Problem:
    """Return room for all dofs as unknowns; of couplings as :func:`allocate_clusters` says."""
    counts = {"*": topology.dof_count}
    counts |= dict.fromkeys(("tree_start", "island", "readable"), topology.tree_count)
    counts["added_inertia"] = 36 * topology.link_count if topology.has_long_trees else 0
    starts = dict.fromkeys(UNKNOWN, topology.part_dofs)
    if not topology.has_islands:
        counts |= dict.fromkeys(("island", "readable", "first"), 0)
        starts["first"] = 0 * topology.part_dofs
    split = not scratch.has_gradients  # which read a group at once
    clusters = allocate_clusters(topology, tied, coupler_trees, split, scratch.device)
    return scratch.allocate(Problem, counts, starts, clusters=clusters)


def allocate_contacts(scratch: Scratch, part_start, groups: int, links: int, stride: int, spins: bool) -> ContactPool:
    """Return a contact pool with the slots of each part, whose pairs have at most ``stride`` unknowns."""
    capacity = int(part_start[-1])
    counts = {"*": capacity, "group_count": groups, "group_start": groups, "last_surface": links}
    counts |= dict.fromkeys(JACOBIAN, capacity * stride)
    starts = dict.fromkeys(CONTACT, part_start) | dict.fromkeys(JACOBIAN, part_start * stride)
    if not spins:
        counts |= dict.fromkeys(OF_SPINS, 0)
        starts |= dict.fromkeys(OF_SPINS, 0 * part_start)
    slots = wp.array(part_start, dtype=wp.int32, device=scratch.device)
    return scratch.allocate(ContactPool, counts, starts, stride=stride, part_start=slots)
