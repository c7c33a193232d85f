"""Velocity products of trees that couplings hold (F 1.1): they follow the change of velocity that the couplings allow.

As in ``multibody.velocity_products``, but ``A`` has what the couplings add to it at the start of the step, and one solve moves all
trees of a group. What is followed of a change, and what joints and contacts hold against it, is up to each tree.
"""

from functools import cache

import warp as wp

from .boundary.bundles import StepInput
from .boundary.convention import Orders
from .linalg.cholesky import Skyline, begin_rows, row_filling, shared_solve
from .linalg.lanes import sync
from .minimizer.hessian import coupler_adding, skyline_of
from .minimizer.newton import range_of
from .minimizer.objective import Range, coupler_velocity, evaluate_couplers, mass_times
from .multibody.efforts import Efforts, external_wrench
from .multibody.gyroscopic import TIED
from .multibody.holding import ALL_HELD, MOST_BORNE, holding_impulse, share_held
from .multibody.mass_matrix import factor_free_motion, solve_free
from .multibody.velocity_products import (
    add_products,
    gather_momentum,
    project_change,
    push_products,
    rounds_needed,
    share_followed,
)
from .packed import pack_motion, pack_pools, pack_problem, pack_tree
from .problem import measure_free_motion, write_excess
from .workspace import Bodies, CouplerPool, Joints, Motion, Pools, Problem, Tree

wp.set_module_options({"enable_backward": False})


REFINEMENTS = wp.constant(3)
"""How often a solve with a factor of single precision is refined, which leaves what one of double precision does."""


@wp.func
def is_tied(tree: Tree, t: int):
    """Whether a tree's change is worked out here."""
    return tree.trees[t].moves == TIED


@wp.func
def rounds_of_group(tree: Tree, m: Motion, g: int, dt: wp.float64):
    """How often the tree that needs it most follows its change."""
    rounds = int(0)
    for t in range(tree.groups[g].tree_start, tree.groups[g + 1].tree_start):
        rounds = wp.max(rounds, rounds_needed(tree, m, t, TIED, dt))
    return rounds


@wp.func
def some_lean(tree: Tree, m: Motion, g: int):
    """Whether a tied tree leans against something."""
    lean = bool(False)
    for t in range(tree.groups[g].tree_start, tree.groups[g + 1].tree_start):
        if is_tied(tree, t) and m.leans[t] == 1:
            lean = True
    return lean


@wp.func
def take(tree: Tree, problem: Problem, x: wp.array[wp.float64], at: Range):
    """``dv`` of a group from values by dof; nothing of trees that are not tied."""
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        dof = problem.dof[u]
        problem.dv[u] = wp.float64(0.0)
        if is_tied(tree, tree.links[tree.dofs[dof].link].tree):
            problem.dv[u] = x[dof]


@wp.func
def give(tree: Tree, problem: Problem, x: wp.array[wp.float64], at: Range):
    """And back."""
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        x[problem.dof[u]] = problem.dv[u]


@wp.func
def unknowns_of(tree: Tree, m: Motion, problem: Problem, at: Range, t: int):
    """The first unknown of a tree, and the one after its last; a prescribed one may have none."""
    first = at.base + problem.tree_start[t]
    return wp.vec2i(first, first + tree.trees[t + 1].dof_start - tree.trees[t].dof_start - m.locked[t])


@wp.func
def gather_load(
    tree: Tree,
    joints: Joints,
    m: Motion,
    change: Motion,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    t: int,
    dt: wp.float64,
):
    """What changes a tree's momentum, into ``change.v0``, and what joints give at constant rates, into ``travel``."""
    unlocked = tree.trees[t].dof_start + m.locked[t]
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        project_change(tree, m, change, t, link)
        for dof in range(wp.max(unlocked, tree.links[link].dof_start), tree.links[link + 1].dof_start):
            m.travel[dof] = holding_impulse(tree, joints, m, efforts, joint_q, link, dof, change.v0[dof], dt)


@wp.func
def gather_push(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    change: Motion,
    orders: Orders,
    efforts: Efforts,
    t: int,
    dt: wp.float64,
):
    """What pushes a tree that leans from outside, into ``travel``; keeps ``change.v0`` in ``v``."""
    start = tree.trees[t].dof_start + m.locked[t]
    end = tree.trees[t + 1].dof_start
    for dof in range(start, end):
        m.v[dof] = change.v0[dof]
        m.travel[dof] = wp.float64(0.0)
    if m.leans[t] == 1:
        for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
            change.momentum[link] = dt * external_wrench(tree, joints, bodies, m, orders, efforts, link)
        gather_momentum(tree, m, change, t)
        for dof in range(start, end):
            m.travel[dof] = change.v0[dof]
            change.v0[dof] = m.v[dof]


@wp.func
def add_coupler_impulses(pool: CouplerPool, problem: Problem, x: wp.array[wp.float64], at: Range):
    """x += J' gamma, by dof."""
    for r in range(at.coupler_start, at.coupler_start + at.couplers):
        for s in range(r * pool.stride, r * pool.stride + pool.support[r]):
            dof = problem.dof[at.base + pool.unknown[s]]
            x[dof] = x[dof] + pool.J[s] * pool.gamma[r]


@wp.func
def held_momentum(
    m: Motion, pool: CouplerPool, problem: Problem, x: wp.array[wp.float64], y: wp.array[wp.float64], at: Range
):
    """y = (A + J' G J) x, by unknown."""
    mass_times(m.A, problem, x, y, at.base, at.unknowns, at.lane, at.lanes)
    sync()
    for r in range(at.coupler_start, at.coupler_start + at.couplers):
        answer = pool.G[r] * coupler_velocity(pool, x, r, at.base)
        for s in range(r * pool.stride + at.lane, r * pool.stride + pool.support[r], at.lanes):
            u = at.base + pool.unknown[s]
            y[u] = y[u] + pool.J[s] * answer
        sync()


@wp.func
def add_share(tree: Tree, m: Motion, problem: Problem, load: wp.array[wp.float64], at: Range, t: int, most: wp.float64):
    """Let as much of what ``travel`` has join a tree's load as makes its change smallest; ``dv`` is what that would change alone.

    Where ``most`` is negative it is taken away.
    """
    against = wp.float64(0.0)
    size = wp.float64(0.0)
    sign = wp.sign(most)
    own = unknowns_of(tree, m, problem, at, t)
    for u in range(own[0], own[1]):
        dof = problem.dof[u]
        against -= sign * problem.dv[u] * load[dof]
        size += problem.dv[u] * m.travel[dof]
    share = sign * share_held(against, size, sign * most)
    for u in range(own[0], own[1]):
        dof = problem.dof[u]
        load[dof] = load[dof] + share * m.travel[dof]


@wp.func
def products_of_tree(
    tree: Tree, joints: Joints, bodies: Bodies, m: Motion, change: Motion, t: int, needed: int, dt: wp.float64
):
    """``change.v0`` becomes the momentum that products of a tree's change give its dofs, if it follows that so often."""
    if rounds_needed(tree, m, t, TIED, dt) >= needed:
        push_products(tree, joints, bodies, m, change, t, dt)
        gather_momentum(tree, m, change, t)
    else:
        for dof in range(tree.trees[t].dof_start, tree.trees[t + 1].dof_start):
            change.v0[dof] = wp.float64(0.0)
        for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
            change.momentum[link] = wp.spatial_vectord()


@wp.func
def follow_share(tree: Tree, m: Motion, change: Motion, problem: Problem, at: Range, t: int):
    """The share that a tree follows of a change, in ``travel``, and of what its products change, in ``dv``.

    ``impulse`` and ``dp`` are the momenta of both.
    """
    size = wp.float64(0.0)
    further = wp.float64(0.0)
    own = unknowns_of(tree, m, problem, at, t)
    for u in range(own[0], own[1]):
        size += m.travel[problem.dof[u]] * problem.impulse[u]
        further += problem.dv[u] * problem.dp[u]
    share = share_followed(size, further)
    for u in range(own[0], own[1]):
        dof = problem.dof[u]
        change.v0[dof] = share * (m.travel[dof] + problem.dv[u])


@wp.func
def add_followed_products(tree: Tree, m: Motion, change: Motion, problem: Problem, at: Range, t: int):
    """Let ``v_star`` and the links have what the products of a tree's change give them."""
    factor_free_motion(tree, m, t)  # trees one after the other have one place for it
    solve_free(tree, m, change.v0, t)
    add_products(tree, m, change, t)
    own = unknowns_of(tree, m, problem, at, t)
    for u in range(own[0], own[1]):
        problem.v_star[u] = m.v_star[problem.dof[u]]


@cache
def follow_tied_kernel(real):
    """Return the kernel for a Hessian of scalar type ``real``, in whose place it factors a matrix of its own."""
    factor, _, solve = shared_solve(real)
    fill_row, add_couplers = row_filling(real), coupler_adding(real)

    @wp.func
    def factor_tied(m: Motion, H: wp.array[real], matrix: Skyline, pools: Pools, problem: Problem, at: Range):
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
        take(tree, problem, momentum, at)
        sync()
        solve(H, matrix, problem.dv, at.lane, at.lanes)
        sync()
        if wp.static(real is wp.float32):
            rounds = int(REFINEMENTS)  # no constant: the loop is not to be unrolled
            for _round in range(rounds):
                for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
                    problem.dp[u] = problem.dv[u]
                sync()
                take(tree, problem, momentum, at)
                held_momentum(m, pools.couplers, problem, problem.dp, problem.excess, at)
                for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
                    problem.dv[u] = problem.dv[u] - problem.excess[u]
                sync()
                solve(H, matrix, problem.dv, at.lane, at.lanes)
                sync()
                for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
                    problem.dv[u] = problem.dv[u] + problem.dp[u]
                sync()

    @wp.kernel(enable_backward=False, module="unique")
    def follow_tied(
        tree: Tree,
        joints: Joints,
        bodies: Bodies,
        m: Motion,
        change: Motion,
        pools: Pools,
        problem: Problem,
        orders: Orders,
        step: StepInput,
        efforts: Efforts,
        H: wp.array[real],
    ):
        """Let ``v_star`` of tied trees have the products of ``v0`` with their change of velocity; one block per group.

        ``change.momentum`` has what free motion left there. Uses ``v`` and ``travel`` of these trees.
        """
        block, lane = wp.tid()
        g = tree.first_group + block
        dt = step.dt
        rounds = rounds_of_group(tree, m, g, dt)
        if rounds == 0:
            return
        pack_tree(tree)
        pack_motion(m)
        pack_motion(change)
        pack_pools(pools)
        pack_problem(problem)
        at = range_of(tree, pools, problem, g, lane)
        first = tree.groups[g].tree_start + lane
        last = tree.groups[g + 1].tree_start
        lanes = wp.block_dim()
        matrix = skyline_of(problem, at, tree.groups[g].hessian_start)
        factor_tied(m, H, matrix, pools, problem, at)
        for t in range(first, last, lanes):
            if is_tied(tree, t):
                gather_load(tree, joints, m, change, efforts, step.joints.joint_q, t, dt)
        change_by(tree, m, H, matrix, pools, problem, m.travel, at)
        if lane == 0:
            add_coupler_impulses(pools.couplers, problem, change.v0, at)
        sync()
        for t in range(first, last, lanes):
            if is_tied(tree, t):
                add_share(tree, m, problem, change.v0, at, t, ALL_HELD)
        if some_lean(tree, m, g):
            for t in range(first, last, lanes):
                if is_tied(tree, t):
                    gather_push(tree, joints, bodies, m, change, orders, efforts, t, dt)
            change_by(tree, m, H, matrix, pools, problem, m.travel, at)
            for t in range(first, last, lanes):
                if is_tied(tree, t):
                    add_share(tree, m, problem, change.v0, at, t, -MOST_BORNE)
        change_by(tree, m, H, matrix, pools, problem, change.v0, at)
        give(tree, problem, change.v0, at)
        if rounds > 1:
            give(tree, problem, m.travel, at)
            mass_times(m.A, problem, problem.dv, problem.impulse, at.base, at.unknowns, lane, lanes)
            sync()
            for t in range(first, last, lanes):
                if is_tied(tree, t):
                    products_of_tree(tree, joints, bodies, m, change, t, 2, dt)
            change_by(tree, m, H, matrix, pools, problem, change.v0, at)
            mass_times(m.A, problem, problem.dv, problem.dp, at.base, at.unknowns, lane, lanes)
            sync()
            for t in range(first, last, lanes):
                if is_tied(tree, t):
                    follow_share(tree, m, change, problem, at, t)
        sync()
        for t in range(first, last, lanes):
            if is_tied(tree, t):
                products_of_tree(tree, joints, bodies, m, change, t, 1, dt)
                add_followed_products(tree, m, change, problem, at, t)
        sync()
        write_excess(m, problem, at.base, at.unknowns, lane)
        sync()
        for u in range(at.base + lane, at.base + at.unknowns, lanes):
            measure_free_motion(problem, u)

    return follow_tied
