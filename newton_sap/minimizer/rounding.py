"""Whether what is left of a residual is rounding: forces that hold each other cancel to no better than their own last digits."""

import warp as wp

from ..linalg.lanes import sync, total
from ..workspace import Pools, Problem
from .objective import Range, Value, floor_square, trees_settled
from .settings import Settings

wp.set_module_options({"enable_backward": False})

ROUNDING = wp.constant(wp.float64(16.0 * 2.0**-52))
"""How much impulses that cancel leave, as a share of their sizes: some machine epsilons."""


@wp.func
def add_sizes(pools: Pools, problem: Problem, at: Range):
    """Add up how much each constraint gives an unknown, whatever its sign, in ``dp``, which no step needs any more."""
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        size = wp.float64(0.0)
        for r in range(problem.row_start[u], problem.row_end[u]):
            size += wp.abs(pools.rows.gamma[r])
        problem.dp[u] = size
    sync()
    for slot in range(at.contact_start, at.contact_start + at.contacts):
        first = slot * pools.contacts.stride
        gamma = wp.abs(pools.contacts.gamma[slot])
        for s in range(first + at.lane, first + pools.contacts.support[slot], at.lanes):
            u = at.base + pools.contacts.unknown[s]
            problem.dp[u] = problem.dp[u] + wp.dot(wp.abs(pools.contacts.J[s]), gamma)
        sync()
    for i in range(at.coupler_start, at.coupler_start + at.couplers):
        r = pools.couplers.order[i]
        first = r * pools.couplers.stride
        gamma_r = wp.abs(pools.couplers.gamma[r])
        if gamma_r > wp.float64(0.0):  # what prescribed dofs give is taken off again by v_hat
            gamma_r += wp.abs(pools.couplers.bias[r]) / pools.couplers.law[r].R
        for s in range(first + at.lane, first + pools.couplers.support[r], at.lanes):
            u = at.base + pools.couplers.unknown[s]
            problem.dp[u] = problem.dp[u] + wp.abs(pools.couplers.J[s]) * gamma_r
        sync()


@wp.func
def only_rounding(pools: Pools, problem: Problem, at: Range, value: Value, settings: Settings):
    """Whether a cluster, and each of its trees, would be done but for the rounding of its impulses."""
    add_sizes(pools, problem, at)
    floor = wp.float64(0.0)
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        floor += floor_square(problem, u, ROUNDING)
    goal = settings.optimality_abs + settings.optimality_rel * value.scale + wp.sqrt(total(floor))
    return value.residual <= goal and trees_settled(problem, at, settings, ROUNDING)
