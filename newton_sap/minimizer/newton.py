"""What the Newton loop of a group begins with, its direction, and what it leaves."""

from functools import cache

import warp as wp

from ..linalg.lanes import sync, total
from ..workspace import (
    ROWS_PER_DOF,
    ContactPool,
    LargeGroups,
    Motion,
    NoLargeGroups,
    Pools,
    Problem,
    Stats,
    Tree,
)
from .conjugate_gradient import solve_iteratively
from .hessian import newton_direction
from .objective import Range, Value
from .progress import (
    ITERATION_LIMIT,
    NON_FINITE,
    STALLED,
    Progress,
)

wp.set_module_options({"enable_backward": False})

LARGEST_FLOAT32 = wp.constant(wp.float64(3.4028234e38))
"""Newton's states are float32: what they cannot hold is not finite there."""


@wp.func
def range_of(tree: Tree, pools: Pools, problem: Problem, g: int, lane: int):
    """What belongs to a group."""
    at = Range()
    at.unknowns = problem.count[g]
    at.base = tree.groups[g].dof_start
    at.contact_start = pools.contacts.group_start[g]
    at.contacts = pools.contacts.group_awake[g]
    at.asleep = pools.contacts.group_count[g] - at.contacts
    at.rows = pools.rows.count[g]
    at.row_start = ROWS_PER_DOF * at.base
    at.coupler_start = pools.couplers.group_start[g]
    at.couplers = pools.couplers.group_start[g + 1] - at.coupler_start
    at.lane = lane
    at.lanes = wp.block_dim()
    return at


@wp.func
def record(
    m: Motion,
    pool: ContactPool,
    problem: Problem,
    stats: Stats,
    at: Range,
    g: int,
    value: Value,
    now: Progress,
    dofs: int,
):
    """Keep what this group's solve did, and hand its velocity over."""
    for i in range(at.lane, at.unknowns, at.lanes):
        dof = problem.dof[at.base + i]
        m.v[dof] = problem.v[at.base + i]
        if not now.bounced:
            m.travel[dof] = problem.v[at.base + i]
    sync()
    broken = wp.float64(0.0)
    for dof in range(at.base + at.lane, at.base + dofs, at.lanes):
        if not wp.abs(m.v[dof]) <= LARGEST_FLOAT32:
            broken += wp.float64(1.0)
    if total(broken) > wp.float64(0.0):
        now.reason = NON_FINITE
    if at.lane == 0:
        deepest = wp.float64(0.0)
        contacts = int(0)
        for slot in range(at.contact_start, at.contact_start + at.contacts + at.asleep):
            deepest = wp.max(deepest, -pool.phi0[slot])
            if pool.spin_of[slot] < 0:
                contacts += 1
        did = stats.groups[g]
        did.penetration = deepest
        did.contacts = contacts
        did.contacts_peak = wp.max(did.contacts_peak, contacts)
        did.steps += 1
        did.iterations = now.spent + now.iterations
        did.iterations_max = wp.max(did.iterations_max, did.iterations)
        did.line_search = now.evaluations
        did.reason = wp.int8(now.reason)
        did.residual = value.residual
        did.scale = value.scale
        if now.reason == ITERATION_LIMIT or now.reason == STALLED:
            did.unconverged_steps += 1
            did.last_failure = wp.int8(now.reason)
        if now.reason == NON_FINITE:
            did.non_finite_steps += 1
            did.last_failure = wp.int8(now.reason)
        stats.groups[g] = did


@cache
def search_direction(real, iterative: bool, long_trees: bool):
    """Return the device function for ``dv`` and ``dp = A dv``, with conjugate gradients for large groups if there are any."""
    factored = newton_direction(real, long_trees)
    room = LargeGroups if iterative else NoLargeGroups

    @wp.func
    def direction(
        tree: Tree,
        m: Motion,
        H: wp.array[real],
        large: room,
        pools: Pools,
        problem: Problem,
        at: Range,
        g: int,
        iterations: int,
    ):
        if wp.static(iterative):  # no test of the group, and no code for the other way, where there is none
            if tree.groups[g].hessian_start < wp.int64(0):
                solve_iteratively(tree, large, m, pools, problem, at, g, iterations)
            else:
                factored(tree, m, H, tree.groups[g].hessian_start, pools, problem, at, g)
        else:
            factored(tree, m, H, tree.groups[g].hessian_start, pools, problem, at, g)

    return direction
