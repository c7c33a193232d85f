"""Solves for what a momentum changes of the velocities of a group while its couplings hold it as they do at the start of the step."""

from functools import cache

import warp as wp

from ..linalg.cholesky import Skyline, begin_rows, row_filling, row_stride, shared_solve
from ..linalg.lanes import sync
from ..multibody.gyroscopic import TIED
from ..workspace import CouplerPool, Motion, Pools, Problem, Tree
from .hessian import coupler_adding
from .objective import Range, coupler_velocity, evaluate_couplers, mass_times

wp.set_module_options({"enable_backward": False})

REFINEMENTS = wp.constant(3)
"""How often a solve with a factor of single precision is refined, which leaves what one of double precision does."""


@wp.func
def is_tied(tree: Tree, t: int):
    """Whether a tree's change is worked out here."""
    return int(tree.trees[t].moves) == TIED


@wp.func
def skyline_of(problem: Problem, at: Range):
    """Where a cluster's Hessian lies."""
    matrix = Skyline()
    matrix.start = at.hessian_start
    matrix.stride = row_stride(at.unknowns)
    matrix.size = at.unknowns
    matrix.offset = at.base
    matrix.last = problem.last
    matrix.first = problem.first
    return matrix


@wp.func
def load_tied(tree: Tree, problem: Problem, x: wp.array[wp.float64], at: Range):
    """``dv`` of a group from values by dof; nothing of trees that are not tied."""
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        dof = problem.dof[u]
        problem.dv[u] = wp.float64(0.0)
        if is_tied(tree, tree.links[tree.dofs[dof].link].tree):
            problem.dv[u] = x[dof]


@wp.func
def held_momentum(
    m: Motion, pool: CouplerPool, problem: Problem, x: wp.array[wp.float64], y: wp.array[wp.float64], at: Range
):
    """y = (A + J' G J) x, by unknown."""
    mass_times(m.A, problem, x, y, at.base, at.unknowns, at.lane, at.lanes)
    sync()
    for i in range(at.coupler_start, at.coupler_start + at.couplers):
        r = pool.order[i]
        answer = pool.G[r] * coupler_velocity(pool, x, r, at.base)
        for s in range(r * pool.stride + at.lane, r * pool.stride + pool.support[r], at.lanes):
            u = at.base + pool.unknown[s]
            y[u] = y[u] + pool.J[s] * answer
        sync()


@cache
def held_solve(real):
    """Return (factor, change): the first factors A + J' G J as a matrix of scalar type ``real``, the second solves with it."""
    factor, _, solve = shared_solve(real)
    fill_row, add_couplers = row_filling(real), coupler_adding(real)

    @wp.func
    def factor_held(m: Motion, H: wp.array[real], matrix: Skyline, pools: Pools, problem: Problem, at: Range):
        """A + J' G J with the couplings as they are at the start of the step."""
        evaluate_couplers(pools.couplers, problem, at)
        if at.lane == 0:
            begin_rows(problem.last, problem.first, at.base, at.unknowns)
        sync()
        for i in range(at.lane, at.unknowns, at.lanes):
            u = at.base + i
            fill_row(H, matrix, i, problem.block[u], m.A, problem.A_row[u], wp.float64(0.0))
            problem.dv[u] = wp.float64(0.0)
        sync()
        add_couplers(H, matrix, pools.couplers, at)
        factor(H, matrix, problem.dv, at.lane, at.lanes)

    @wp.func
    def change_by(
        tree: Tree,
        m: Motion,
        H: wp.array[real],
        matrix: Skyline,
        pools: Pools,
        problem: Problem,
        momentum: wp.array[wp.float64],
        at: Range,
    ):
        """The change of rates that a momentum makes, in ``dv``; a factor of single precision is refined. Uses ``dp`` and ``excess``."""
        sync()
        load_tied(tree, problem, momentum, at)
        sync()
        solve(H, matrix, problem.dv, at.lane, at.lanes)
        sync()
        if wp.static(real is wp.float32):
            rounds = int(REFINEMENTS)  # no constant: the loop is not to be unrolled
            for _round in range(rounds):
                for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
                    problem.dp[u] = problem.dv[u]
                sync()
                load_tied(tree, problem, momentum, at)
                held_momentum(m, pools.couplers, problem, problem.dp, problem.excess, at)
                for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
                    problem.dv[u] = problem.dv[u] - problem.excess[u]
                sync()
                solve(H, matrix, problem.dv, at.lane, at.lanes)
                sync()
                for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
                    problem.dv[u] = problem.dv[u] + problem.dp[u]
                sync()

    return factor_held, change_by
