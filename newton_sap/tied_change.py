"""Velocity products of trees that couplings hold (F 1.1): they follow the change of velocity that the couplings allow.

As in ``multibody.velocity_products``, but ``A`` has what the couplings add to it at the start of the step, and one solve moves all
trees of a cluster. What is followed of a change, and what joints and contacts hold against it, is the same for all trees that couplings
hold together: what couplings give one of them is no load from outside, and takes no momentum from all.
"""

from functools import cache

import warp as wp

from .linalg.lanes import sync
from .minimizer.held_solve import held_solve, is_tied, skyline_of
from .minimizer.islands import find_islands, has_islands
from .minimizer.objective import Range, mass_times, tree_at
from .minimizer.ranges import entries_of, list_couplers, range_of
from .multibody.efforts import Efforts
from .multibody.gyroscopic import HELD, TIED, gyroscopic_impulse
from .multibody.holding import ALL_HELD, MOST_BORNE, holding_impulse, share_held
from .multibody.mass_matrix import factor_free_motion, solve_free
from .multibody.orders import Orders
from .multibody.spatial import angular, motion
from .multibody.velocity_products import (
    add_applied,
    add_products,
    gather_momentum,
    gather_push,
    project_change,
    push_products,
    rounds_needed,
    share_followed,
)
from .problem import StepInput, measure_free_motion, write_excess
from .runtime.packed import pack_motion, pack_pools, pack_problem, pack_tree
from .workspace import CLUSTER_DOFS, DIRECT_TREES, Bodies, CouplerPool, Joints, Motion, Pools, Problem, Tree

wp.set_module_options({"enable_backward": False})

MOST_DOFS, MOST_TREES = wp.constant(CLUSTER_DOFS), wp.constant(DIRECT_TREES)


@wp.func
def rounds_of_cluster(tree: Tree, m: Motion, problem: Problem, at: Range, dt: wp.float64):
    """How often the tree that needs it most follows its change."""
    rounds = int(0)
    for i in range(at.trees):
        rounds = wp.max(rounds, rounds_needed(tree, m, tree_at(problem, at, i), TIED, dt))
    return rounds


@wp.func
def some_lean(tree: Tree, m: Motion, problem: Problem, at: Range):
    """Whether a tied tree leans against something."""
    lean = bool(False)
    for i in range(at.trees):
        t = tree_at(problem, at, i)
        if is_tied(tree, t) and m.leans[t] == 1:
            lean = True
    return lean


@wp.func
def tree_unknowns(tree: Tree, m: Motion, problem: Problem, at: Range, t: int):
    """The first unknown of a tree, and the one after its last; a prescribed one may have none."""
    first = at.base + problem.tree_start[t]
    return wp.vec2i(first, first + tree.trees[t + 1].dof_start - tree.trees[t].dof_start - m.locked[t])


@wp.func
def gather_loads(
    tree: Tree,
    joints: Joints,
    m: Motion,
    change: Motion,
    problem: Problem,
    efforts: Efforts,
    step: StepInput,
    at: Range,
):
    """What changes the momentum of trees, into ``change.v0``, and what joints give at constant rates, into ``travel``."""
    q = step.joints.joint_q
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            unlocked = tree.trees[t].dof_start + m.locked[t]
            for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
                project_change(tree, m, change, t, link)
                add_applied(tree, joints, m, change, efforts, q, t, link, step.dt)
                for dof in range(wp.max(unlocked, tree.links[link].dof_start), tree.links[link + 1].dof_start):
                    load = change.v0[dof]
                    m.travel[dof] = holding_impulse(tree, joints, m, efforts, q, link, dof, load, step.dt)


@wp.func
def add_coupler_impulses(pool: CouplerPool, problem: Problem, load: wp.array[wp.float64], at: Range):
    """load += J' gamma, by dof."""
    if at.lane == 0:
        for i in range(at.coupler_start, at.coupler_start + at.couplers):
            r = pool.order[i]
            for s in range(r * pool.stride, r * pool.stride + pool.support[r]):
                dof = problem.dof[at.base + pool.unknown[s]]
                load[dof] = load[dof] + pool.J[s] * pool.gamma[r]
    sync()


@wp.func
def gather_pushes(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    change: Motion,
    problem: Problem,
    orders: Orders,
    efforts: Efforts,
    at: Range,
    dt: wp.float64,
):
    """What pushes trees that lean from outside, into ``travel``; ``v`` keeps ``change.v0`` meanwhile."""
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            start = tree.trees[t].dof_start + m.locked[t]
            end = tree.trees[t + 1].dof_start
            for dof in range(start, end):
                m.v[dof] = change.v0[dof]
                m.travel[dof] = wp.float64(0.0)
            if m.leans[t] == 1:
                gather_push(tree, joints, bodies, m, change, orders, efforts, t, dt)
                for dof in range(start, end):
                    m.travel[dof] = change.v0[dof]
                    change.v0[dof] = m.v[dof]


@wp.func
def held_together(problem: Problem, at: Range, t: int, other: int):
    """Whether couplings hold two trees together, or they are one."""
    if at.trees == 1:
        return True
    return problem.island[t] == problem.island[other]


@wp.func
def products_of_held(
    tree: Tree,
    m: Motion,
    problem: Problem,
    at: Range,
    t: int,
    x: wp.array[wp.float64],
    y: wp.array[wp.float64],
):
    """x . y over what a tree is held together with, of x by unknown and y by dof."""
    sum = wp.float64(0.0)
    for i in range(at.trees):
        other = tree_at(problem, at, i)
        if is_tied(tree, other) and held_together(problem, at, t, other):
            own = tree_unknowns(tree, m, problem, at, other)
            for u in range(own[0], own[1]):
                sum += x[u] * y[problem.dof[u]]
    return sum


@wp.func
def add_shares(tree: Tree, m: Motion, change: Motion, problem: Problem, at: Range, most: wp.float64):
    """Let as much of what ``travel`` has join each load as makes the change smallest; ``dv`` is what that would change alone.

    Where ``most`` is negative it is taken away. Uses ``dp``.
    """
    sign = wp.sign(most)
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        own = tree_unknowns(tree, m, problem, at, t)
        if is_tied(tree, t) and own[0] < own[1]:
            against = -sign * products_of_held(tree, m, problem, at, t, problem.dv, change.v0)
            size = products_of_held(tree, m, problem, at, t, problem.dv, m.travel)
            problem.dp[own[0]] = sign * share_held(against, size, sign * most)
    sync()
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            own = tree_unknowns(tree, m, problem, at, t)
            for u in range(own[0], own[1]):
                dof = problem.dof[u]
                change.v0[dof] = change.v0[dof] + problem.dp[own[0]] * m.travel[dof]


@wp.func
def give_change(problem: Problem, x: wp.array[wp.float64], at: Range):
    """The change in ``dv``, by dof."""
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        x[problem.dof[u]] = problem.dv[u]
    sync()


@wp.func
def keep_change(m: Motion, problem: Problem, at: Range):
    """The same into ``travel``, and its momentum into ``impulse``."""
    give_change(problem, m.travel, at)
    mass_times(m.A, problem, problem.dv, problem.impulse, at.base, at.unknowns, at.lane, at.lanes)
    sync()


@wp.func
def push_followed(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    change: Motion,
    problem: Problem,
    at: Range,
    needed: int,
    dt: wp.float64,
):
    """``change.v0`` becomes the momentum that products of the change give, in trees that follow it so often."""
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            if rounds_needed(tree, m, t, TIED, dt) >= needed:
                push_products(tree, joints, bodies, m, change, t, dt)
                gather_momentum(tree, m, change, t)
            else:
                for dof in range(tree.trees[t].dof_start, tree.trees[t + 1].dof_start):
                    change.v0[dof] = wp.float64(0.0)
                for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
                    change.momentum[link] = wp.spatial_vectord()


@wp.func
def follow_shares(tree: Tree, m: Motion, change: Motion, problem: Problem, at: Range):
    """The share that is followed of a change, in ``travel``, and of what its products change, in ``dv``.

    ``impulse`` has the momentum of the former, ``dp`` gets that of the latter. Uses ``excess`` and ``v``.
    """
    mass_times(m.A, problem, problem.dv, problem.dp, at.base, at.unknowns, at.lane, at.lanes)
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        m.v[problem.dof[u]] = problem.dv[u]
    sync()
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        own = tree_unknowns(tree, m, problem, at, t)
        if is_tied(tree, t) and own[0] < own[1]:
            size = products_of_held(tree, m, problem, at, t, problem.impulse, m.travel)
            further = products_of_held(tree, m, problem, at, t, problem.dp, m.v)
            problem.excess[own[0]] = share_followed(size, further)
    sync()
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            own = tree_unknowns(tree, m, problem, at, t)
            for u in range(own[0], own[1]):
                dof = problem.dof[u]
                change.v0[dof] = problem.excess[own[0]] * (m.travel[dof] + problem.dv[u])
    sync()


@wp.func
def add_followed(tree: Tree, m: Motion, change: Motion, problem: Problem, at: Range):
    """Let ``v_star`` and the links have what the products of the change give them, and the problem know."""
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            factor_free_motion(tree, m, t)  # trees one after the other have one place for it
            solve_free(tree, m, change.v0, t)
            add_products(tree, m, change, t)
            own = tree_unknowns(tree, m, problem, at, t)
            for u in range(own[0], own[1]):
                problem.v_star[u] = m.v_star[problem.dof[u]]
    sync()
    write_excess(m, problem, at.base, at.unknowns, at.lane)
    sync()
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        measure_free_motion(problem, u)


@wp.func
def may_follow(tree: Tree, problem: Problem, at: Range):
    """Whether a cluster is factored, and would be on any device."""
    trees = tree.groups[at.group + 1].tree_start - tree.groups[at.group].tree_start
    if tree.groups[at.group].hessian_start >= wp.int64(0) and (trees <= MOST_TREES or problem.clusters.split == 0):
        return True
    return at.hessian_start >= wp.int64(0) and at.unknowns <= MOST_DOFS and at.trees <= MOST_TREES


@wp.func
def turn_as_held(tree: Tree, bodies: Bodies, m: Motion, change: Motion, problem: Problem, at: Range, dt: wp.float64):
    """``change.v0`` becomes the momentum by which bodies of trees that cannot follow turn as ``HELD`` ones do."""
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if is_tied(tree, t):
            for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
                w = angular(m.velocity[link])
                body = tree.links[link].body
                turn = gyroscopic_impulse(bodies, body, m.rotation[link], w, HELD, dt)
                turn -= gyroscopic_impulse(bodies, body, m.rotation[link], w, TIED, dt)
                change.momentum[link] = motion(turn, wp.vec3d())
            gather_momentum(tree, m, change, t)
    sync()


@cache
def follow_tied_kernel(real):
    """Return the kernel for a Hessian of scalar type ``real``, in whose place it factors a matrix of its own."""
    factor_held, change_by = held_solve(real)

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
        """Let ``v_star`` of tied trees have the products of ``v0`` with their change of velocity; blocks per cluster as where
        they are minimised.

        ``change.momentum`` has what free motion left there. Uses ``v`` and ``travel`` of these trees.
        """
        block, lane = wp.tid()
        k, end = entries_of(tree, block)
        pack_tree(tree)
        pack_motion(m)
        pack_motion(change)
        pack_pools(pools)
        pack_problem(problem)
        while k < end and problem.clusters.entry[k].trees > 0:
            at = range_of(tree, problem, k, lane)
            rounds = rounds_of_cluster(tree, m, problem, at, step.dt)
            if rounds > 0 and not may_follow(tree, problem, at):
                turn_as_held(tree, bodies, m, change, problem, at, step.dt)
                add_followed(tree, m, change, problem, at)
            elif rounds > 0:
                at.couplers = list_couplers(tree, pools, problem, at)
                matrix = skyline_of(problem, at)
                factor_held(m, H, matrix, pools, problem, at)
                if has_islands(at):
                    find_islands(tree, pools, problem, at, True)
                gather_loads(tree, joints, m, change, problem, efforts, step, at)
                change_by(tree, m, H, matrix, pools, problem, m.travel, at)
                add_coupler_impulses(pools.couplers, problem, change.v0, at)
                add_shares(tree, m, change, problem, at, ALL_HELD)
                if some_lean(tree, m, problem, at):
                    gather_pushes(tree, joints, bodies, m, change, problem, orders, efforts, at, step.dt)
                    change_by(tree, m, H, matrix, pools, problem, m.travel, at)
                    add_shares(tree, m, change, problem, at, -MOST_BORNE)
                change_by(tree, m, H, matrix, pools, problem, change.v0, at)
                give_change(problem, change.v0, at)
                if rounds > 1:
                    keep_change(m, problem, at)
                    push_followed(tree, joints, bodies, m, change, problem, at, 2, step.dt)
                    change_by(tree, m, H, matrix, pools, problem, change.v0, at)
                    follow_shares(tree, m, change, problem, at)
                push_followed(tree, joints, bodies, m, change, problem, at, 1, step.dt)
                add_followed(tree, m, change, problem, at)
            k += at.trees

    return follow_tied
