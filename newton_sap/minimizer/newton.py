"""The Newton loop of every group in one kernel: evaluate, test, direction, line search, until each group is done."""

from functools import cache

import warp as wp

from ..workspace import COUPLER_ROWS, ROWS_PER_DOF, ContactPool, CouplingTable, Motion, Pools, Problem, Stats, Tree
from .conjugate_gradient import solve_iteratively
from .continuation import SOLVED, STUCK, first_stage, next_stage, scale_stiffness
from .friction_bound import far_off, renew_bounds, renewal_due
from .hessian import newton_direction
from .lanes import sync, total
from .line_search import EASY, Tolerances, line_search
from .objective import Range, Value, objective

wp.set_module_options({"enable_backward": False})

ROW_STRIDE = wp.constant(ROWS_PER_DOF)
COUPLER_STRIDE = wp.constant(COUPLER_ROWS)

# Why a group's iteration ended; ``diagnostics.REASONS`` names them.
UNCONSTRAINED = wp.constant(0)
OPTIMAL = wp.constant(1)
COST = wp.constant(2)
ITERATION_LIMIT = wp.constant(3)
STALLED = wp.constant(4)
NON_FINITE = wp.constant(5)
LARGEST_FLOAT32 = wp.constant(wp.float64(3.4028234e38))
"""Newton's states are float32: what they cannot hold is not finite there."""


@wp.func
def range_of(tree: Tree, table: CouplingTable, pools: Pools, problem: Problem, g: int, lane: int):
    """What belongs to a group."""
    at = Range()
    at.unknowns = problem.count[g]
    at.base = tree.group_dof_start[g]
    at.contact_start = pools.contacts.group_start[g]
    at.contacts = pools.contacts.group_count[g]
    at.rows = pools.rows.count[g]
    at.row_start = ROW_STRIDE * at.base
    at.coupler_start = COUPLER_STRIDE * table.group_start[g]
    at.couplers = COUPLER_STRIDE * (table.group_start[g + 1] - table.group_start[g])
    at.lane = lane
    at.lanes = wp.block_dim()
    return at


@wp.func
def advance(problem: Problem, at: Range, alpha: wp.float64):
    """v += alpha dv, and the products with A along with it."""
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        problem.v[u] = problem.v[u] + alpha * problem.dv[u]
        problem.excess[u] = problem.excess[u] + alpha * problem.dp[u]
        problem.momentum[u] = problem.momentum[u] + alpha * problem.dp[u]
    sync()


@wp.func
def cost_settled(now: wp.float64, before: wp.float64, alpha: wp.float64, tol: Tolerances):
    """Drake's second test: the cost no longer changes although the step was not short."""
    size = wp.float64(0.5) * (wp.abs(now) + wp.abs(before))
    return wp.abs(now - before) < tol.cost_abs + tol.cost_rel * size and alpha > wp.float64(0.5)


@wp.func
def verdict(value: Value, before: wp.float64, alpha: wp.float64, iterations: int, tol: Tolerances):
    """Why the iteration ends at this value; ``UNCONSTRAINED`` if it goes on."""
    if not (wp.isfinite(value.residual) and wp.isfinite(value.cost)):
        return NON_FINITE
    if value.residual <= tol.optimality_abs + tol.optimality_rel * value.scale:
        return OPTIMAL
    if iterations > 0 and cost_settled(value.cost, before, alpha, tol):
        return COST
    if iterations >= tol.max_iterations:
        return ITERATION_LIMIT
    return UNCONSTRAINED


@wp.func
def record(
    m: Motion,
    pool: ContactPool,
    problem: Problem,
    stats: Stats,
    at: Range,
    g: int,
    value: Value,
    iterations: int,
    evaluations: int,
    reason: int,
    dofs: int,
):
    """Keep what this group's solve did, and hand its velocity over."""
    for i in range(at.lane, at.unknowns, at.lanes):
        m.v[problem.dof[at.base + i]] = problem.v[at.base + i]
    sync()
    broken = wp.float64(0.0)
    for dof in range(at.base + at.lane, at.base + dofs, at.lanes):
        if not wp.abs(m.v[dof]) <= LARGEST_FLOAT32:
            broken += wp.float64(1.0)
    if total(broken) > wp.float64(0.0):
        reason = NON_FINITE
    if at.lane == 0:
        deepest = wp.float64(0.0)
        for c in range(at.contacts):
            deepest = wp.max(deepest, -pool.phi0[at.contact_start + c])
        stats.penetration[g] = deepest
        stats.contacts[g] = at.contacts
        stats.steps[g] = stats.steps[g] + 1
        stats.contacts_peak[g] = wp.max(stats.contacts_peak[g], at.contacts)
        stats.iterations[g] = iterations
        stats.iterations_max[g] = wp.max(stats.iterations_max[g], iterations)
        stats.line_search[g] = evaluations
        stats.reason[g] = reason
        stats.cost[g] = value.cost
        stats.residual[g] = value.residual
        stats.scale[g] = value.scale
        if reason == ITERATION_LIMIT or reason == STALLED:
            stats.unconverged_steps[g] = stats.unconverged_steps[g] + 1
        if reason == NON_FINITE:
            stats.non_finite_steps[g] = stats.non_finite_steps[g] + 1


@cache
def minimize_kernel(evaluate_contact, real):
    """Return the kernel that minimises every group under a contact law, with a Hessian of scalar type ``real``."""
    evaluate = objective(evaluate_contact)
    direction = newton_direction(real)
    search = line_search(evaluate_contact)

    @wp.kernel(enable_backward=False, module="unique")
    def minimize(
        tree: Tree,
        table: CouplingTable,
        m: Motion,
        pools: Pools,
        problem: Problem,
        stats: Stats,
        tol: Tolerances,
        H: wp.array[real],
    ):
        """v = argmin 1/2 (v - v*)^T A (v - v*) + sum_i l_i(J_i v + b_i); one block per group."""
        g, lane = wp.tid()
        at = range_of(tree, table, pools, problem, g, lane)
        value = Value()
        reason = int(UNCONSTRAINED)
        iterations = int(0)
        evaluations = int(0)
        before = wp.float64(0.0)
        alpha = wp.float64(0.0)
        running = int(0)
        stage = first_stage()
        renewals = int(0)
        asked = int(0)
        renew = bool(False)
        if at.unknowns > 0:
            running = int(1)
        while running == 1:
            if renew:
                renew_bounds(pools.contacts, problem, at, tol)
                renewals += 1
                alpha = wp.float64(0.0)  # the costs before and after do not compare
            value = evaluate(pools, problem, at)
            reason = verdict(value, before, alpha, iterations, tol)
            converged = reason == OPTIMAL or reason == COST
            renew = renewal_due(value, renewals, tol)
            if converged:
                renew = asked == 0 and iterations <= EASY and far_off(pools.contacts, at, tol)
                asked = 1
            softness = stage.softness
            enough = stage.softness < wp.float64(1.0) and value.residual <= SOLVED * value.scale
            if converged or (enough and reason == UNCONSTRAINED):
                stage = next_stage(pools.contacts, at, stage, 1, iterations, tol)
            elif reason == UNCONSTRAINED and value.residual > STUCK * value.scale:
                stage = next_stage(pools.contacts, at, stage, 0, iterations, tol)
            if stage.softness != softness:
                alpha = wp.float64(0.0)  # the costs of two stages do not compare
            elif renew and converged:
                reason = int(UNCONSTRAINED)  # once more from here, with bounds of its own
            elif reason != UNCONSTRAINED:
                running = int(0)
            else:
                before = value.cost
                start = tree.group_hessian_start[g]
                if start >= wp.int64(0):
                    direction(m.A, H, start, pools, problem, at)
                else:
                    solve_iteratively(tree, m, pools, problem, at, g)
                step = search(pools, problem, at, tol, value.cost, iterations)
                evaluations += step.evaluations
                if step.status == 2 and stage.softness < wp.float64(1.0):
                    stage = next_stage(pools.contacts, at, stage, 1, iterations, tol)
                elif step.status == 2:
                    reason = int(STALLED)
                    running = int(0)
                else:
                    alpha = step.alpha
                    advance(problem, at, alpha)
                    iterations += 1
        if stage.softness < wp.float64(1.0):  # ended too early: the answer is judged by the problem as given
            scale_stiffness(pools.contacts, at, wp.float64(1.0) / stage.softness)
            value = evaluate(pools, problem, at)
        dofs = tree.group_dof_start[g + 1] - tree.group_dof_start[g]
        record(m, pools.contacts, problem, stats, at, g, value, iterations, evaluations, reason, dofs)

    return minimize
