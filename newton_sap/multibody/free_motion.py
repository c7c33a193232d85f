"""Mass matrix ``A = M + dt D + dt^2 K`` and free-motion velocity ``v_star`` of every tree."""

import warp as wp

from ..linalg.lanes import TREES_PER_BLOCK
from ..runtime.packed import pack_motion, pack_tree
from ..runtime.prefetch import fetch_tree
from ..workspace import Bodies, Joints, Motion, StateArrays, Tree
from .efforts import Efforts, external_wrench, joint_effort
from .gyroscopic import TOGETHER, gyroscopic_impulse
from .mass_matrix import factor_free_motion, solve_free, write_column
from .orders import Orders
from .reach import add_reactions, driven_speed, free_speed, note_pushes
from .spatial import angular, cross_force, inertia_times, linear, motion
from .tension import tension_through
from .velocity_products import follow_change, rounds_needed

wp.set_module_options({"enable_backward": False, "block_dim": TREES_PER_BLOCK})


@wp.func
def own_momentum(m: Motion, link: int):
    """Momentum I V of one body at the start of the step."""
    return inertia_times(m.mass[link], m.moment[link], m.inertia[link], m.velocity[link])


@wp.func
def product_impulse(
    tree: Tree, bodies: Bodies, m: Motion, orders: Orders, link: int, IV: wp.spatial_vectord, dt: wp.float64
):
    """What velocity products give one body: -dt (I c + V x* I V).

    Where positions follow the symplectic update, the gyroscopic part knows that the spin changes within the step.
    """
    V = m.velocity[link]
    Ic = inertia_times(m.mass[link], m.moment[link], m.inertia[link], m.bias[link])
    impulse = -dt * (Ic + cross_force(V, IV))
    if orders.reference_is_com == 1:
        moves = int(tree.trees[tree.links[link].tree].moves)
        turn = gyroscopic_impulse(bodies, tree.links[link].body, m.rotation[link], angular(V), moves, dt)
        impulse = impulse + motion(turn, wp.vec3d())
    return impulse


@wp.func
def known_impulse(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    efforts: Efforts,
    link: int,
    IV: wp.spatial_vectord,
    dt: wp.float64,
):
    """What velocity products at the start of the step and forces from outside give one body."""
    impulse = product_impulse(tree, bodies, m, orders, link, IV, dt)
    return impulse + dt * external_wrench(tree, joints, bodies, m, orders, efforts, link)


@wp.kernel
def free_motion(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    change: Motion,
    orders: Orders,
    efforts: Efforts,
    state: StateArrays,
    dt: wp.float64,
):
    """r_k = S_k . P + a_k v0_k + dt tau_k, A = S^T I S + diag, and A v_star = r, leaves to root.

    ``change.momentum`` gets what velocity products and forces from outside give subtrees.
    """
    t = tree.first_tree + wp.tid()
    start = tree.trees[t].link_start
    end = tree.trees[t + 1].link_start
    fetch_tree(tree, joints, bodies, m, change, t + 1)
    pack_tree(tree)
    pack_motion(m)
    pack_motion(change)
    rounds = rounds_needed(tree, m, t, TOGETHER, dt)
    for link in range(start, end):
        IV = own_momentum(m, link)
        impulse = known_impulse(tree, joints, bodies, m, orders, efforts, link, IV, dt)
        change.momentum[link] = impulse
        m.momentum[link] = IV + impulse
    for up in range(end - start):
        link = end - 1 - up
        pull = linear(change.momentum[link])
        tension = tension_through(tree, joints, bodies, m, orders, link, pull, dt)
        for dof in range(tree.links[link].dof_start, tree.links[link + 1].dof_start):
            armature = write_column(tree, joints, m, efforts, t, link, dof, tension, dt)
            project_momentum(tree, joints, m, efforts, state.joint_q, link, dof, armature, dt)
        add_to_parent(tree, m, change, link)
    factor_free_motion(tree, m, t)
    if rounds > 0:
        follow_change(tree, joints, bodies, m, change, orders, efforts, state.joint_q, t, rounds, dt)
    solve_free_motion(tree, m, t)
    fastest = free_speed(tree, m, t)
    if note_pushes(tree, joints, m, change, efforts.targets, state.joint_q, t, dt):
        solve_free(tree, m, change.v0, t)
        add_reactions(tree, m, change, t)
        fastest += driven_speed(tree, m, change, t)
    wp.atomic_max(m.group_speed, tree.trees[t].group, fastest)


@wp.func
def project_momentum(
    tree: Tree,
    joints: Joints,
    m: Motion,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    link: int,
    dof: int,
    armature: wp.float64,
    dt: wp.float64,
):
    """The dof's entry of r = A v_star, in v_star's place."""
    i = dof - tree.links[link].dof_start
    effort = joint_effort(tree, joints, efforts, joint_q, link, i, m.v0[dof])
    m.v_star[dof] = wp.dot(m.column[dof], m.momentum[link]) + armature * m.v0[dof] + dt * effort


@wp.func
def add_to_parent(tree: Tree, m: Motion, change: Motion, link: int):
    """Let the parent carry this subtree's inertia and momentum, and what changes that."""
    above = tree.links[link].parent
    if above >= 0:
        m.mass[above] = m.mass[above] + m.mass[link]
        m.moment[above] = m.moment[above] + m.moment[link]
        m.inertia[above] = m.inertia[above] + m.inertia[link]
        m.momentum[above] = m.momentum[above] + m.momentum[link]
        change.momentum[above] = change.momentum[above] + change.momentum[link]


@wp.func
def solve_free_motion(tree: Tree, m: Motion, t: int):
    """A_ff v_star_f = r_f - A_fk v_k: prescribed dofs, which lead the tree, keep their velocity."""
    first = tree.trees[t].dof_start
    size = tree.trees[t + 1].dof_start - first
    block = tree.trees[t].block_start
    locked = m.locked[t]
    for i in range(locked):
        m.v_star[first + i] = m.v0[first + i]
    for i in range(locked, size):
        for k in range(locked):
            m.v_star[first + i] = m.v_star[first + i] - m.A[block + i * size + k] * m.v0[first + k]
    solve_free(tree, m, m.v_star, t)
    for i in range(size):
        m.v[first + i] = m.v_star[first + i]
        m.travel[first + i] = m.v_star[first + i]
