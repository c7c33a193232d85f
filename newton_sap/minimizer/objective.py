"""Cost, impulses and residual of the current iterate: l(v) = 1/2 (v - v*)^T A (v - v*) + sum_i l_i(J_i v + b_i)."""

from functools import cache

import warp as wp

from ..constraints.clamped_linear import clamped_linear
from ..constraints.response import hessian_block, impulse, tangential
from ..constraints.slip_direction import follow_slip
from ..linalg.inner_loops import add_transposed, blocks_times, jacobian_times
from ..linalg.lanes import sync, total
from ..unknowns import cluster_tree
from ..workspace import ContactPool, CouplerPool, Pools, Problem, RowPool
from .settings import Settings

wp.set_module_options({"enable_backward": False})


@wp.struct
class Range:
    """The part of the pools that belongs to one cluster, and who works on it."""

    group: int
    cluster: int  # its entry
    trees: int
    hessian_start: wp.int64  # -1 where the Hessian is kept in blocks
    unknowns: int
    base: int  # first unknown in the problem's arrays
    contacts: int  # those that take part
    contact_start: int  # first slot
    asleep: int  # contacts that do not, in the slots behind
    rows: int
    row_start: int
    row_end: int  # of the room for them
    couplers: int  # rows of couplings
    coupler_start: int
    lane: int
    lanes: int


@wp.struct
class Value:
    """The objective at the iterate and what the stopping test needs (F 3.2)."""

    cost: wp.float64
    residual: wp.float64  # |D grad|
    scale: wp.float64  # max(c, |D j|) with the change c of free motion
    impulse: wp.float64  # |D j|


@wp.func
def tree_at(problem: Problem, at: Range, i: int):
    """The i-th tree of a range."""
    return cluster_tree(problem, at.cluster, at.trees, i)


@wp.func
def contact_velocity(pool: ContactPool, x: wp.array[wp.float64], slot: int, base: int):
    """J x of one contact."""
    return jacobian_times(pool.J, pool.unknown, slot * pool.stride, pool.support[slot], x, base)


@wp.func
def add_contact(pool: ContactPool, slot: int, gamma: wp.vec3d, sum: wp.array[wp.float64], at: Range):
    """sum += J^T gamma of one contact."""
    first = slot * pool.stride
    add_transposed(pool.J, pool.unknown, first, pool.support[slot], gamma, sum, at.base, at.lane, at.lanes)


@wp.func
def is_closed(pool: ContactPool, slot: int):
    """Whether a contact resists at the iterate; one that does not adds nothing to the Hessian."""
    return wp.trace(pool.G[slot]) > wp.float64(0.0)


@wp.func
def coupler_velocity(pool: CouplerPool, x: wp.array[wp.float64], row: int, base: int):
    """J x of one coupler row."""
    rate = wp.float64(0.0)
    first = row * pool.stride
    for s in range(first, first + pool.support[row]):
        rate += pool.J[s] * x[base + pool.unknown[s]]
    return rate


@wp.func
def mass_times(
    A: wp.array[wp.float64],
    problem: Problem,
    x: wp.array[wp.float64],
    y: wp.array[wp.float64],
    base: int,
    count: int,
    lane: int,
    lanes: int,
):
    """y = A x of a cluster's unknowns; a lane writes what it writes in any loop over them."""
    blocks_times(A, problem.A_row, problem.block, problem.block_end, x, y, base, count, lane, lanes)


@wp.func
def row_stiffness(rows: RowPool, problem: Problem, u: int):
    """Sum of G over the scalar rows of one unknown."""
    stiffness = wp.float64(0.0)
    for r in range(problem.row_start[u], problem.row_end[u]):
        stiffness += rows.G[r]
    return stiffness


@wp.func
def row_impulse(rows: RowPool, problem: Problem, u: int):
    """Sum of sign gamma over the rows of one unknown."""
    impulse = wp.float64(0.0)
    for r in range(problem.row_start[u], problem.row_end[u]):
        impulse += rows.law[r].sign * rows.gamma[r]
    return impulse


@wp.func
def sum_impulses(pools: Pools, problem: Problem, at: Range):
    """j = J^T gamma; contacts and couplers one after the other, so that the sum has one order."""
    for i in range(at.lane, at.unknowns, at.lanes):
        problem.impulse[at.base + i] = row_impulse(pools.rows, problem, at.base + i)
    sync()
    for c in range(at.contacts):
        slot = at.contact_start + c
        add_contact(pools.contacts, slot, pools.contacts.gamma[slot], problem.impulse, at)
        sync()
    for i in range(at.coupler_start, at.coupler_start + at.couplers):
        r = pools.couplers.order[i]
        first = r * pools.couplers.stride
        for s in range(at.lane, pools.couplers.support[r], at.lanes):
            u = at.base + pools.couplers.unknown[first + s]
            problem.impulse[u] = problem.impulse[u] + pools.couplers.J[first + s] * pools.couplers.gamma[r]
        sync()


@wp.func
def scaled_squares(problem: Problem, u: int):
    """Squares of one unknown's residual, change of momentum and constraint impulse in the common unit (F 3.2)."""
    D = problem.scale[u]
    r = D * (problem.excess[u] - problem.impulse[u])
    j = D * problem.impulse[u]
    return wp.vec3d(r * r, problem.change[u], j * j)


@wp.func
def measure(problem: Problem, at: Range, constraint_cost: wp.float64):
    """Reduce to the cost and the scaled norms."""
    quadratic = wp.float64(0.0)
    squares = wp.vec3d()
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        quadratic += (problem.v[u] - problem.v_star[u]) * problem.excess[u]
        squares += scaled_squares(problem, u)
    value = Value()
    value.cost = total(wp.float64(0.5) * quadratic + constraint_cost)
    value.residual = wp.sqrt(total(squares[0]))
    value.impulse = wp.sqrt(total(squares[2]))
    value.scale = wp.max(wp.sqrt(total(squares[1])), value.impulse)
    return value


@wp.func
def floor_square(problem: Problem, u: int, rounding: wp.float64):
    """Square of what rounding leaves of one unknown's residual: a share of the size in ``dp``; zero reads nothing."""
    if rounding == wp.float64(0.0):
        return rounding
    floor = rounding * problem.scale[u] * problem.dp[u]
    return floor * floor


@wp.func
def trees_settled(problem: Problem, at: Range, settings: Settings, rounding: wp.float64):
    """Whether each tree's own residual is small against its own scale; a heavy fast one hides what light ones lack."""
    unsettled = wp.float64(0.0)
    for i in range(at.lane, at.trees, at.lanes):
        start = problem.tree_start[tree_at(problem, at, i)]
        if start >= 0:
            squares = wp.vec3d()
            floor = wp.float64(0.0)
            for u in range(at.base + start, at.base + problem.block_end[at.base + start]):
                squares += scaled_squares(problem, u)
                floor += floor_square(problem, u, rounding)
            goal = settings.optimality_abs + settings.optimality_rough * wp.sqrt(wp.max(squares[1], squares[2]))
            if not wp.sqrt(squares[0]) <= goal + wp.sqrt(floor):
                unsettled += wp.float64(1.0)
    return total(unsettled) == wp.float64(0.0)


@wp.func
def evaluate_rows(pool: RowPool, problem: Problem, at: Range):
    """Refresh every scalar row; return this lane's share of the cost."""
    cost = wp.float64(0.0)
    for r in range(at.row_start + at.lane, at.row_start + at.rows, at.lanes):
        law = pool.law[r]
        vc = law.sign * problem.v[at.base + pool.unknown[r]]
        response = clamped_linear(vc, law)
        pool.gamma[r] = response.gamma
        pool.G[r] = response.G
        cost += response.cost
    return cost


@wp.func
def evaluate_couplers(pool: CouplerPool, problem: Problem, at: Range):
    """Refresh every coupler row; return this lane's share of the cost."""
    cost = wp.float64(0.0)
    for i in range(at.coupler_start + at.lane, at.coupler_start + at.couplers, at.lanes):
        r = pool.order[i]
        vc = pool.bias[r] + coupler_velocity(pool, problem.v, r, at.base)
        response = clamped_linear(vc, pool.law[r])
        pool.vc[r] = vc
        pool.gamma[r] = response.gamma
        pool.G[r] = response.G
        cost += response.cost
    return cost


@cache
def contact_evaluation(evaluate_contact):
    """Return the device function that evaluates contacts under a law."""

    @wp.func
    def evaluate_contacts(pool: ContactPool, problem: Problem, at: Range, first: int, end: int):
        """Refresh the contacts of some slots; return this lane's share of the cost."""
        cost = wp.float64(0.0)
        for slot in range(first + at.lane, end, at.lanes):
            vc = pool.bias[slot] + contact_velocity(pool, problem.v, slot, at.base)
            n = pool.normal[slot]
            vt = tangential(n, vc)
            response = evaluate_contact(pool, slot, wp.dot(n, vc), wp.dot(vt, vt))
            w = follow_slip(pool, slot, vt, response)
            pool.G[slot] = hessian_block(response, n, vt, w)
            pool.gamma[slot] = impulse(response, n, vt)
            pool.vc[slot] = vc
            cost += response.cost
        return cost

    return evaluate_contacts


@cache
def objective(evaluate_contact):
    """Return the device function that evaluates the objective under a contact law."""
    evaluate_contacts = contact_evaluation(evaluate_contact)

    @wp.func
    def evaluate(pools: Pools, problem: Problem, at: Range):
        """Refresh vc, gamma and G of every constraint that takes part and J^T gamma; return the value."""
        cost = evaluate_contacts(pools.contacts, problem, at, at.contact_start, at.contact_start + at.contacts)
        cost += evaluate_rows(pools.rows, problem, at)
        cost += evaluate_couplers(pools.couplers, problem, at)
        sync()
        sum_impulses(pools, problem, at)
        return measure(problem, at, cost)

    return evaluate
