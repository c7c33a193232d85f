"""Newton's loop for one group: evaluate, test, direction, line search, until it is done."""

from functools import cache

import warp as wp

from ..linalg.cholesky import begin_rows
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
from .impacts import bounce
from .line_search import line_search
from .objective import Range, Value, objective
from .progress import (
    COST,
    GOES_ON,
    ITERATION_LIMIT,
    NON_FINITE,
    STALLED,
    Progress,
    begin,
    go_on,
    judge,
    look_due,
    take_bounds,
    take_step,
)
from .rounding import only_rounding
from .settings import Settings
from .sleeping_rows import wake_rows

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
    at.contacts = pools.contacts.group_count[g]
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
        for slot in range(at.contact_start, at.contact_start + at.contacts):
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
def search_direction(real, iterative: bool):
    """Return the device function for ``dv`` and ``dp = A dv``, with conjugate gradients for large groups if there are any."""
    factored = newton_direction(real)
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
                solve_iteratively(large, m, pools, problem, at, g, iterations)
            else:
                factored(m.A, H, tree.groups[g].hessian_start, pools, problem, at)
        else:
            factored(m.A, H, tree.groups[g].hessian_start, pools, problem, at)

    return direction


@cache
def minimizer(evaluate_contact, real, iterative: bool):
    """Return the device function that minimises a group under a contact law, with a Hessian of scalar type ``real``.

    Args:
        iterative: Whether some group is too large for a factored Hessian.
    """
    evaluate = objective(evaluate_contact)
    direction = search_direction(real, iterative)
    search = line_search(evaluate_contact)
    room = LargeGroups if iterative else NoLargeGroups

    @wp.func
    def minimize_group(
        tree: Tree,
        m: Motion,
        pools: Pools,
        problem: Problem,
        stats: Stats,
        settings: Settings,
        H: wp.array[real],
        large: room,
        g: int,
        lane: int,
    ):
        """v = argmin 1/2 (v - v*)^T A (v - v*) + sum_i l_i(J_i v + b_i)."""
        at = range_of(tree, pools, problem, g, lane)
        if lane == 0:
            begin_rows(problem.last, problem.first, at.base, at.unknowns)
        sync()
        value = Value()
        now = begin(at)
        while now.reason == GOES_ON:
            if now.wants_bounds:
                now = take_bounds(pools.contacts, problem, at, now, settings)
            value = evaluate(pools, problem, at)
            now = judge(tree, pools.contacts, problem, at, g, value, now, settings)
            if pools.rows.asleep[g] > 0 and look_due(value, now):
                now.looked = True
                rows = wake_rows(tree, pools.rows, problem, at, g)
                if rows > at.rows:
                    at.rows = rows
                    now = go_on(now)
            now = bounce(m, pools.contacts, problem, at, now)
            if now.wants_step:
                direction(tree, m, H, large, pools, problem, at, g, now.iterations)
                step = search(pools, problem, at, settings, value.cost, now.iterations)
                now = take_step(pools.contacts, problem, at, now, step)
        if now.reason == STALLED or now.reason == ITERATION_LIMIT:
            if only_rounding(tree, pools, problem, at, g, value, settings):
                now.reason = COST
        dofs = tree.groups[g + 1].dof_start - tree.groups[g].dof_start
        record(m, pools.contacts, problem, stats, at, g, value, now, dofs)

    return minimize_group
