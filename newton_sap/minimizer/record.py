"""What a cluster's minimisation leaves: its velocity, and what ``report()`` tells of it."""

import warp as wp

from ..linalg.lanes import sync, total
from ..workspace import Clusters, ContactPool, Motion, Problem, SolveStats, Stats, Tree
from .objective import Range, Value, tree_at
from .progress import ITERATION_LIMIT, NON_FINITE, STALLED, Progress

wp.set_module_options({"enable_backward": False})

LARGEST_FLOAT32 = wp.constant(wp.float64(3.4028234e38))
"""Newton's states are float32: what they cannot hold is not finite there."""


@wp.func
def is_broken(tree: Tree, m: Motion, problem: Problem, at: Range):
    """Whether a velocity of the cluster is no number that a state can hold; also of trees that nothing touches."""
    broken = wp.float64(0.0)
    for i in range(at.trees):
        t = tree_at(problem, at, i)
        for dof in range(tree.trees[t].dof_start + at.lane, tree.trees[t + 1].dof_start, at.lanes):
            if not wp.abs(m.v[dof]) <= LARGEST_FLOAT32:
                broken += wp.float64(1.0)
    return total(broken) > wp.float64(0.0)


@wp.func
def record(
    tree: Tree,
    m: Motion,
    pool: ContactPool,
    problem: Problem,
    stats: Stats,
    at: Range,
    value: Value,
    now: Progress,
):
    """Keep what this cluster's solve did, and hand its velocity over."""
    for i in range(at.lane, at.unknowns, at.lanes):
        dof = problem.dof[at.base + i]
        m.v[dof] = problem.v[at.base + i]
        if not now.bounced:
            m.travel[dof] = problem.v[at.base + i]
    sync()
    if is_broken(tree, m, problem, at):
        now.reason = NON_FINITE
    if at.lane == 0:
        did = SolveStats()
        for slot in range(at.contact_start, at.contact_start + at.contacts + at.asleep):
            did.penetration = wp.max(did.penetration, -pool.phi0[slot])
            if pool.spin_of[slot] < 0:
                did.contacts += 1
        did.iterations = now.spent + now.iterations
        did.line_search = now.evaluations
        did.reason = now.reason
        did.residual = value.residual
        did.scale = value.scale
        if is_whole(tree, at.group, at.trees):
            count_step(stats, at.group, did)
        else:
            stats.clusters[at.cluster] = did


@wp.func
def is_whole(tree: Tree, g: int, trees: int):
    """Whether so many trees are all of a group."""
    return tree.groups[g].tree_start + trees == tree.groups[g + 1].tree_start


@wp.func
def count_step(stats: Stats, g: int, latest: SolveStats):
    """Let the counters of a group have what its minimisation did."""
    did = stats.groups[g]
    did.penetration = latest.penetration
    did.contacts = latest.contacts
    did.contacts_peak = wp.max(did.contacts_peak, latest.contacts)
    did.steps += 1
    did.iterations = latest.iterations
    did.iterations_max = wp.max(did.iterations_max, latest.iterations)
    did.line_search = latest.line_search
    did.reason = wp.int8(latest.reason)
    did.residual = latest.residual
    did.scale = latest.scale
    if latest.reason == ITERATION_LIMIT or latest.reason == STALLED:
        did.unconverged_steps += 1
        did.last_failure = wp.int8(latest.reason)
    if latest.reason == NON_FINITE:
        did.non_finite_steps += 1
        did.last_failure = wp.int8(latest.reason)
    stats.groups[g] = did


@wp.func
def worse(one: SolveStats, other: SolveStats):
    """What two clusters did, as of one: reasons ascend, and the residual is the larger one beside its scale."""
    both = one
    larger = one.scale == wp.float64(0.0) or other.residual * one.scale > one.residual * other.scale
    if larger or not wp.isfinite(other.residual):
        both.residual = other.residual
        both.scale = other.scale
    both.penetration = wp.max(one.penetration, other.penetration)
    both.iterations = wp.max(one.iterations, other.iterations)
    both.line_search = wp.max(one.line_search, other.line_search)
    both.contacts = one.contacts + other.contacts
    both.reason = wp.max(one.reason, other.reason)
    return both


@wp.kernel
def count_clusters(tree: Tree, clusters: Clusters, stats: Stats):
    """Let the counters of groups of several clusters have what those did; one block per group."""
    block, lane = wp.tid()
    g = tree.first_group + block
    k = int(tree.groups[g].tree_start)
    end = tree.groups[g + 1].tree_start
    if lane > 0 or k == end or is_whole(tree, g, clusters.entry[k].trees):
        return
    did = stats.clusters[k]
    k += clusters.entry[k].trees
    while k < end:
        did = worse(did, stats.clusters[k])
        k += clusters.entry[k].trees
    count_step(stats, g, did)
