"""The Newton direction: H = A + J^T G J over the problem's skyline, factored, and dv = -H^-1 grad."""

from functools import cache

import warp as wp

from ..linalg.cholesky import Skyline, row_filling, row_stride, shared_solve
from ..linalg.inner_loops import block_adding
from ..linalg.lanes import sync
from ..workspace import ContactPool, CouplerPool, Motion, Pools, Problem, RowPool, Tree
from .added_inertia import gather_added_inertia, inertia_adding, is_long, left_to_jacobian
from .objective import Range, is_closed, mass_times, row_stiffness, tree_at

wp.set_module_options({"enable_backward": False})


@cache
def coupler_adding(real):
    """Return the device function that adds couplers to a Hessian of scalar type ``real``."""

    @wp.func
    def add_couplers(H: wp.array[real], matrix: Skyline, pool: CouplerPool, at: Range):
        """H += G J^T J of every acting coupler row, lower triangle."""
        for i in range(at.coupler_start, at.coupler_start + at.couplers):
            r = pool.order[i]
            count = pool.support[r]
            if pool.G[r] > wp.float64(0.0):
                first = r * pool.stride
                for b in range(count):
                    column = pool.unknown[first + b]
                    GJ = pool.G[r] * pool.J[first + b]
                    for a in range(at.lane, count, at.lanes):
                        row = pool.unknown[first + a]
                        if row >= column:
                            entry = matrix.start + wp.int64(row) * wp.int64(matrix.stride) + wp.int64(column)
                            H[entry] = H[entry] + real(pool.J[first + a] * GJ)
                sync()

    return add_couplers


@cache
def newton_direction(real, long_trees: bool):
    """Return the device function that computes ``dv`` and ``dp = A dv`` with a Hessian of scalar type ``real``."""
    factor, substitute, _ = shared_solve(real)
    fill_row, add_block = row_filling(real), block_adding(real)
    add_couplers, add_tree = coupler_adding(real), inertia_adding(real)

    @wp.func
    def fill_rows(
        A: wp.array[wp.float64], H: wp.array[real], matrix: Skyline, rows: RowPool, problem: Problem, at: Range
    ):
        """H = A + diag(rows) inside the skyline."""
        for i in range(at.lane, at.unknowns, at.lanes):
            u = at.base + i
            fill_row(H, matrix, i, problem.block[u], A, problem.A_row[u], row_stiffness(rows, problem, u))

    @wp.func
    def add_contacts(
        tree: Tree, m: Motion, H: wp.array[real], matrix: Skyline, pool: ContactPool, problem: Problem, at: Range
    ):
        """H += J^T G J of every closed contact, lower triangle, but for what has been added as inertia."""
        for c in range(at.contacts):
            slot = at.contact_start + c
            if is_closed(pool, slot):
                first = slot * pool.stride
                count = pool.support[slot]
                G = pool.G[slot]
                begin = int(0)
                end = int(count)
                if wp.static(long_trees):
                    begin, end = left_to_jacobian(tree, m, pool, problem, slot)
                add_block(H, matrix, pool.J, pool.unknown, first, count, begin, end, G, at.lane, at.lanes)
                sync()

    @wp.func
    def direction(tree: Tree, m: Motion, H: wp.array[real], pools: Pools, problem: Problem, at: Range):
        """Assemble, factor, solve; then dp = A dv."""
        matrix = Skyline()  # made in a function of its own, an ant at rest takes 1.04 of the time
        matrix.start = at.hessian_start
        matrix.stride = row_stride(at.unknowns)
        matrix.size = at.unknowns
        matrix.offset = at.base
        matrix.last = problem.last
        matrix.first = problem.first
        fill_rows(m.A, H, matrix, pools.rows, problem, at)
        sync()
        if wp.static(long_trees):
            gather_added_inertia(tree, m, pools.contacts, problem, at)
            for i in range(at.trees):
                t = tree_at(problem, at, i)
                # One that is long no more, since its root became kinematic, still has what it was given before.
                if is_long(tree, m, t):
                    add_tree(tree, m, problem, H, matrix.start, matrix.stride, 0, t, at)
            sync()
        add_contacts(tree, m, H, matrix, pools.contacts, problem, at)
        add_couplers(H, matrix, pools.couplers, at)
        for i in range(at.lane, at.unknowns, at.lanes):
            u = at.base + i
            problem.dv[u] = problem.impulse[u] - problem.excess[u]
        sync()
        factor(H, matrix, problem.dv, at.lane, at.lanes)
        substitute(H, matrix, problem.dv, at.lane, at.lanes)
        mass_times(m.A, problem, problem.dv, problem.dp, at.base, at.unknowns, at.lane, at.lanes)
        sync()

    return direction
