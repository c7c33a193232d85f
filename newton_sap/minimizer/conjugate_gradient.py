"""The Newton direction of a large group: conjugate gradients on H, preconditioned by its approximate factorisation.

With ``P = (D + L) D^-1 (D + L)^T`` they run on ``(D + L)^-1 H (D + L)^-T``, preconditioned by ``D``, so that each iteration
takes two sweeps over the blocks of H (``linalg/blocks.py``). A stack that is numbered from one end to the other is solved
exactly in the first iteration.
"""

import warp as wp

from ..linalg.blocks import BlockMatrix, BlockRange, add_vector, partial_product, solve_lower, solve_upper
from ..linalg.lanes import sync, total
from ..workspace import CouplerPool, LargeGroups, Motion, Pools, Problem, Tree
from .block_hessian import WIDE, assemble_blocks, block_range
from .objective import Range, coupler_velocity, mass_times

wp.set_module_options({"enable_backward": False})

TOLERANCE = wp.constant(wp.float64(1.0e-1))
"""Reduction of the preconditioned residual per Newton iteration; the next iteration takes up what is left."""
STRICT_AFTER = wp.constant(40)
"""Newton iterations after which what is left may be what keeps them from ending,"""
STRICT_TOLERANCE = wp.constant(wp.float64(1.0e-3))
"""and the reduction from then on."""
MAX_ITERATIONS = wp.constant(1000)
ONE = wp.constant(wp.float64(1.0))


@wp.func
def inner(part: BlockRange, x: wp.array[wp.float64], y: wp.array[wp.float64]):
    """x . y over the group."""
    return total(partial_product(part, x, y))


@wp.func
def add_wide_couplers(
    H: BlockMatrix,
    pool: CouplerPool,
    at: Range,
    part: BlockRange,
    x: wp.array[wp.float64],
    out: wp.array[wp.float64],
):
    """out += what coupler rows across more than two trees add to H x outside the trees' own blocks."""
    for c in range(at.couplers):
        if H.item_pair[part.items + at.contacts + c] == WIDE:
            row = pool.order[at.coupler_start + c]
            first = row * pool.stride
            rate = coupler_velocity(pool, x, row, at.base)
            for a in range(at.lane, pool.support[row], at.lanes):
                u = at.base + pool.unknown[first + a]
                apart = wp.float64(rate)
                for b in range(first, first + pool.support[row]):
                    v = at.base + pool.unknown[b]
                    if H.node[v] == H.node[u]:
                        apart -= pool.J[b] * x[v]
                out[u] = out[u] + pool.G[row] * pool.J[first + a] * apart
            sync()


@wp.func
def multiply(cg: LargeGroups, pool: CouplerPool, at: Range, part: BlockRange):
    """t = (D + L)^-T p, q = (D + L)^-1 H t, and D q."""
    solve_upper(cg.H, part, cg.p, cg.t, cg.Dq, cg.w)
    sync()
    add_wide_couplers(cg.H, pool, at, part, cg.t, cg.w)
    solve_lower(cg.H, part, cg.w, cg.q)
    add_vector(part, ONE, cg.q, ONE, cg.t)
    add_vector(part, ONE, cg.Dq, ONE, cg.w)


@wp.func
def solve_iteratively(
    tree: Tree, cg: LargeGroups, m: Motion, pools: Pools, problem: Problem, at: Range, iterations: int
):
    """dv with H dv = -grad to the tolerance, and dp = A dv. Any iterate is a descent direction."""
    part = block_range(cg.H, at)
    assemble_blocks(tree, cg.H, m, pools, problem, at, part)
    for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        problem.dv[i] = wp.float64(0.0)
        cg.z[i] = problem.impulse[i] - problem.excess[i]
    sync()
    solve_lower(cg.H, part, cg.z, cg.r)
    for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        cg.p[i] = cg.z[i]
    sync()
    rz = inner(part, cg.r, cg.z)
    tolerance = wp.where(iterations < STRICT_AFTER, TOLERANCE, STRICT_TOLERANCE)
    goal = tolerance * tolerance * rz
    count = int(0)
    while rz > goal and count < MAX_ITERATIONS:
        multiply(cg, pools.couplers, at, part)
        curvature = inner(part, cg.p, cg.q)
        if not curvature > wp.float64(0.0):  # rounding has the better of it
            break
        alpha = rz / curvature
        add_vector(part, ONE, problem.dv, alpha, cg.t)
        add_vector(part, ONE, cg.r, -alpha, cg.q)
        add_vector(part, ONE, cg.z, -alpha, cg.Dq)
        before = rz
        rz = inner(part, cg.r, cg.z)
        add_vector(part, rz / before, cg.p, ONE, cg.z)
        sync()
        count += 1
    mass_times(m.A, problem, problem.dv, problem.dp, at.base, at.unknowns, at.lane, at.lanes)
    sync()
