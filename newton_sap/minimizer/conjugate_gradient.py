"""The Newton direction of a large group: preconditioned conjugate gradients on H = A + J^T G J, never formed.

The preconditioner is H without what couples different trees, one dense Cholesky factor per tree. Trees that no
constraint couples are therefore solved exactly in the first iteration.
"""

import warp as wp

from ..linalg.cholesky import factor_alone, solve_alone
from ..linalg.inner_loops import add_tree_block
from ..linalg.lanes import sync, total
from ..multibody.free_motion import free_block
from ..workspace import CouplerPool, Motion, Pools, Problem, Tree
from .objective import Range, add_contact, contact_velocity, coupler_velocity, is_closed, mass_times, row_stiffness

wp.set_module_options({"enable_backward": False})

TOLERANCE = wp.constant(wp.float64(1.0e-1))
"""Reduction of the preconditioned residual per Newton iteration; the next iteration takes up what is left."""
MAX_ITERATIONS = wp.constant(1000)


@wp.func
def add_coupler_blocks(m: Motion, pool: CouplerPool, problem: Problem, at: Range):
    """What coupler rows add within a tree."""
    for r in range(at.coupler_start, at.coupler_start + at.couplers):
        first = r * pool.stride
        for b in range(pool.support[r]):
            column = at.base + pool.unknown[first + b]
            for a in range(at.lane, pool.support[r], at.lanes):
                row = at.base + pool.unknown[first + a]
                if problem.block[row] == problem.block[column]:
                    entry = problem.A_row[row] + pool.unknown[first + b] - problem.block[row]
                    m.factor[entry] = m.factor[entry] + pool.G[r] * pool.J[first + a] * pool.J[first + b]
        sync()


@wp.func
def precondition(tree: Tree, m: Motion, pools: Pools, problem: Problem, at: Range, g: int):
    """Factor each touched tree's own block of H, in the place of its mass-matrix factor, laid out as A is."""
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        entry = problem.A_row[u]
        for j in range(problem.block_end[u] - problem.block[u]):
            m.factor[entry + j] = m.A[entry + j]
        diagonal = entry + i - problem.block[u]
        m.factor[diagonal] = m.factor[diagonal] + row_stiffness(pools.rows, problem, u)
    sync()
    for c in range(at.contacts):
        slot = at.contact_start + c
        if is_closed(pools.contacts, slot):
            first = slot * pools.contacts.stride
            add_tree_block(
                m.factor,
                problem.A_row,
                problem.block,
                at.base,
                pools.contacts.J,
                pools.contacts.unknown,
                first,
                pools.contacts.support[slot],
                pools.contacts.G[slot],
                at.lane,
                at.lanes,
            )
        sync()
    add_coupler_blocks(m, pools.couplers, problem, at)
    for t in range(tree.group_tree_start[g] + at.lane, tree.group_tree_start[g + 1], at.lanes):
        start = problem.tree_start[t]
        if start >= 0:
            factor_alone(m.factor, free_block(tree, m, t, at.base + start, start), problem.last, 0, 1)
    sync()


@wp.func
def apply_preconditioner(tree: Tree, m: Motion, problem: Problem, at: Range, g: int):
    """z = P^-1 r, tree by tree."""
    for i in range(at.lane, at.unknowns, at.lanes):
        problem.cg_z[at.base + i] = problem.cg_r[at.base + i]
    sync()
    for t in range(tree.group_tree_start[g] + at.lane, tree.group_tree_start[g + 1], at.lanes):
        start = problem.tree_start[t]
        if start >= 0:
            block = free_block(tree, m, t, at.base + start, start)
            solve_alone(m.factor, block, problem.last, problem.cg_z, 0, 1)
    sync()


@wp.func
def multiply(m: Motion, pools: Pools, problem: Problem, at: Range):
    """q = H p; contacts and couplers one after the other, so that the sum has one order."""
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        problem.cg_q[u] = (
            mass_times(m.A, problem, problem.cg_p, u, at.base) + row_stiffness(pools.rows, problem, u) * problem.cg_p[u]
        )
    contacts = pools.contacts
    for c in range(at.lane, at.contacts, at.lanes):
        slot = at.contact_start + c
        if is_closed(contacts, slot):
            contacts.cg_gamma[slot] = contacts.G[slot] * contact_velocity(contacts, problem.cg_p, slot, at.base)
    sync()
    for c in range(at.contacts):
        slot = at.contact_start + c
        if is_closed(contacts, slot):
            add_contact(contacts, slot, contacts.cg_gamma[slot], problem.cg_q, at)
        sync()
    for r in range(at.coupler_start, at.coupler_start + at.couplers):
        first = r * pools.couplers.stride
        force = pools.couplers.G[r] * coupler_velocity(pools.couplers, problem.cg_p, r, at.base)
        for s in range(at.lane, pools.couplers.support[r], at.lanes):
            u = at.base + pools.couplers.unknown[first + s]
            problem.cg_q[u] = problem.cg_q[u] + pools.couplers.J[first + s] * force
        sync()


@wp.func
def inner(x: wp.array[wp.float64], y: wp.array[wp.float64], at: Range):
    """x . y over the group."""
    share = wp.float64(0.0)
    for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        share += x[i] * y[i]
    return total(share)


@wp.func
def solve_iteratively(tree: Tree, m: Motion, pools: Pools, problem: Problem, at: Range, g: int):
    """dv with H dv = -grad to the tolerance, and dp = A dv. Any iterate is a descent direction."""
    precondition(tree, m, pools, problem, at, g)
    for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        problem.dv[i] = wp.float64(0.0)
        problem.cg_r[i] = problem.impulse[i] - problem.excess[i]
    apply_preconditioner(tree, m, problem, at, g)
    for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        problem.cg_p[i] = problem.cg_z[i]
    sync()
    rz = inner(problem.cg_r, problem.cg_z, at)
    goal = TOLERANCE * TOLERANCE * rz
    count = int(0)
    while rz > goal and count < MAX_ITERATIONS:
        multiply(m, pools, problem, at)
        alpha = rz / inner(problem.cg_p, problem.cg_q, at)
        for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
            problem.dv[i] = problem.dv[i] + alpha * problem.cg_p[i]
            problem.cg_r[i] = problem.cg_r[i] - alpha * problem.cg_q[i]
        apply_preconditioner(tree, m, problem, at, g)
        before = rz
        rz = inner(problem.cg_r, problem.cg_z, at)
        beta = rz / before
        for i in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
            problem.cg_p[i] = problem.cg_z[i] + beta * problem.cg_p[i]
        sync()
        count += 1
    for i in range(at.lane, at.unknowns, at.lanes):
        problem.dp[at.base + i] = mass_times(m.A, problem, problem.dv, at.base + i, at.base)
    sync()
