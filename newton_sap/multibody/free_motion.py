"""Mass matrix ``A = M + dt D + dt^2 K`` and free-motion velocity ``v_star`` of every tree."""

import warp as wp

from ..boundary.convention import Orders, free_force_from_joint_f, residual_from_body_f
from ..constraints.drives import Targets, explicit_effort, read_drive
from ..linalg.cholesky import Skyline, factor_alone, row_filling, row_stride, solve_alone
from ..linalg.inner_loops import write_symmetric
from ..packed import pack_motion, pack_tree
from ..prefetch import fetch_tree
from ..workspace import Bodies, Joints, Motion, StateArrays, Tree
from .gyroscopic import gyroscopic_impulse
from .joints import BALL, flies, is_free, read_quaternion
from .reach import add_reactions, driven_speed, free_speed, note_pushes
from .spatial import (
    angular,
    cross_force,
    inertia_times,
    linear,
    motion,
    rotation_vector,
    to_vec3d,
    velocity_at,
    wrench_at,
)
from .velocity_products import gather_momentum, push_products, rounds_needed

wp.set_module_options({"enable_backward": False})

fill_row = row_filling(wp.float64)


@wp.struct
class Efforts:
    """The forces the caller applies (Newton's arrays); absent ones have length zero."""

    joint_f: wp.array[wp.float32]
    body_f: wp.array[wp.spatial_vector]
    targets: Targets
    explicit_drives: int
    explicit_springs: int


@wp.func
def gravity_of(bodies: Bodies, world: int):
    """Gravity of a world; the last row serves global bodies, whose world is negative."""
    row = world
    if world < 0:
        row = bodies.gravity.shape[0] - 1
    return to_vec3d(bodies.gravity[row])


@wp.func
def gravity_at(bodies: Bodies, body: int):
    """Gravity of the body's world, less what the body compensates."""
    gravity = gravity_of(bodies, bodies.world[body])
    if bodies.gravcomp.shape[0] > 0:
        gravity = (wp.float64(1.0) - wp.float64(bodies.gravcomp[body])) * gravity
    return gravity


@wp.func
def external_wrench(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, efforts: Efforts, link: int):
    """Gravity, ``body_f`` and a free joint's ``joint_f`` on one body, about the world origin."""
    body = tree.link_body[link]
    joint = tree.link_joint[link]
    origin = m.position[link]
    r_OC = m.com[link] - origin
    wrench = wrench_at(wp.float64(bodies.mass[body]) * gravity_at(bodies, body), wp.vec3d(), m.com[link])
    if efforts.body_f.shape[0] > 0:
        residual = residual_from_body_f(orders, efforts.body_f, body, r_OC)
        wrench = wrench - wrench_at(linear(residual), angular(residual), origin)
    if joint >= 0 and flies(joints, joint) and efforts.joint_f.shape[0] > 0:
        F = free_force_from_joint_f(orders, efforts.joint_f, joints.qd_start[joint], r_OC)
        wrench = wrench + wrench_at(linear(F), angular(F), origin)
    return wrench


@wp.func
def joint_effort(
    tree: Tree, joints: Joints, efforts: Efforts, joint_q: wp.array[wp.float32], link: int, i: int, v0: wp.float64
):
    """Force on the i-th dof of a link's joint: ``joint_f``, the passive spring at q0 and, if asked for, the drive."""
    joint = tree.link_joint[link]
    dof = tree.link_dof_start[link] + i
    public = tree.dof_public[dof]
    effort = wp.float64(0.0)
    if not flies(joints, joint):
        if efforts.joint_f.shape[0] > 0:
            effort = wp.float64(efforts.joint_f[public])
        stiffness = wp.float64(joints.stiffness[public])
        if stiffness != wp.float64(0.0):
            if joints.type[joint] == BALL:
                q = read_quaternion(joint_q, joints.q_start[joint])
                rest = read_quaternion(joints.rest_q, joints.q_start[joint])
                effort += stiffness * rotation_vector(rest * wp.quat_inverse(q))[i]
            else:
                coord = tree.dof_coord[dof]
                effort += stiffness * (wp.float64(joints.rest_q[coord]) - wp.float64(joint_q[coord]))
        if efforts.explicit_drives == 1 and tree.dof_coord[dof] >= 0:
            drive = read_drive(tree, joints, efforts.targets, joint_q, joint, dof, wp.min(i, 2))
            effort += explicit_effort(drive, v0)
    return effort


@wp.func
def own_momentum(m: Motion, link: int):
    """Momentum I V of one body at the start of the step."""
    return inertia_times(m.mass[link], m.moment[link], m.inertia[link], m.velocity[link])


@wp.func
def product_impulse(
    tree: Tree, bodies: Bodies, m: Motion, orders: Orders, link: int, IV: wp.spatial_vectord, dt: wp.float64
):
    """What velocity products give one body: -dt (I c + V x* I V).

    Where positions follow the symplectic update, orientation and angular momentum turn alike.
    """
    V = m.velocity[link]
    Ic = inertia_times(m.mass[link], m.moment[link], m.inertia[link], m.bias[link])
    impulse = -dt * (Ic + cross_force(V, IV))
    if orders.reference_is_com == 1:
        turn = gyroscopic_impulse(bodies, tree.link_body[link], m.rotation[link], angular(V), dt)
        impulse = impulse + motion(turn, wp.vec3d())
    return impulse


@wp.func
def write_column(tree: Tree, m: Motion, t: int, link: int, dof: int):
    """Column ``dof`` of the mass matrix: the subtree's momentum under a unit rate, seen by every dof above it.

    Entries of dofs that do not move each other keep the zero that they were made with.
    """
    first = tree.tree_dof_start[t]
    size = tree.tree_dof_start[t + 1] - first
    block = tree.tree_block_start[t]
    F = inertia_times(m.mass[link], m.moment[link], m.inertia[link], m.column[dof])
    path = tree.path_start[link]
    write_symmetric(m.A, block, size, tree.path_dof, path, tree.path_start[link + 1], first, dof, m.column, F)


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
    """r_k = S_k . P + a_k v0_k + dt tau_k, A = S^T I S + diag, and A v_star = r, leaves to root."""
    t = tree.first_tree + wp.tid()
    start = tree.tree_link_start[t]
    end = tree.tree_link_start[t + 1]
    fetch_tree(tree, joints, bodies, m, change, t + 1)
    pack_tree(tree)
    pack_motion(m)
    pack_motion(change)
    rounds = rounds_needed(tree, m, t, dt)
    for link in range(start, end):
        IV = own_momentum(m, link)
        impulse = product_impulse(tree, bodies, m, orders, link, IV, dt)
        change.momentum[link] = impulse
        m.momentum[link] = IV + impulse + dt * external_wrench(tree, joints, bodies, m, orders, efforts, link)
    for up in range(end - start):
        link = end - 1 - up
        for dof in range(tree.link_dof_start[link], tree.link_dof_start[link + 1]):
            write_column(tree, m, t, link, dof)
            add_joint_terms(tree, joints, m, efforts, state.joint_q, t, link, dof, dt)
        add_to_parent(tree, m, link)
    factor_free_motion(tree, m, t)
    if rounds > 0:
        gather_momentum(tree, m, change, t)
    for _round in range(rounds):
        solve_free(tree, m, change.v0, t)
        push_products(tree, joints, bodies, m, change, t, dt)
        gather_momentum(tree, m, change, t)
        add_products(tree, m, change, t)
    solve_free_motion(tree, m, t)
    fastest = free_speed(tree, m, change, t)
    if note_pushes(tree, joints, m, change, efforts.targets, state.joint_q, t, dt):
        solve_free(tree, m, change.v0, t)
        add_reactions(tree, m, change, t)
        fastest += driven_speed(tree, m, change, t)
    wp.atomic_max(m.group_speed, tree.tree_group[t], fastest)


@wp.func
def own_inertia(tree: Tree, joints: Joints, efforts: Efforts, link: int, dof: int, dt: wp.float64):
    """What a dof adds to its diagonal of A: armature, and implicit damping with spring."""
    public = tree.dof_public[dof]
    armature = wp.float64(0.0)
    implicit = wp.float64(0.0)
    if public >= 0:
        armature = wp.float64(joints.armature[public])
        implicit = dt * wp.float64(joints.damping[public])
        if efforts.explicit_springs == 0 and not is_free(joints.type[tree.link_joint[link]]):
            implicit += dt * dt * wp.float64(joints.stiffness[public])
    return armature, implicit


@wp.func
def add_joint_terms(
    tree: Tree,
    joints: Joints,
    m: Motion,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    t: int,
    link: int,
    dof: int,
    dt: wp.float64,
):
    """Armature, implicit damping and spring on the diagonal, and the dof's entry of r = A v_star in v_star's place."""
    armature, implicit = own_inertia(tree, joints, efforts, link, dof, dt)
    i = dof - tree.link_dof_start[link]
    effort = joint_effort(tree, joints, efforts, joint_q, link, i, m.v0[dof])
    local = dof - tree.tree_dof_start[t]
    size = tree.tree_dof_start[t + 1] - tree.tree_dof_start[t]
    diagonal = tree.tree_block_start[t] + local * size + local
    m.A[diagonal] = m.A[diagonal] + armature + implicit
    m.v_star[dof] = wp.dot(m.column[dof], m.momentum[link]) + armature * m.v0[dof] + dt * effort


@wp.func
def add_to_parent(tree: Tree, m: Motion, link: int):
    """Let the parent carry this subtree's inertia and momentum."""
    above = tree.link_parent[link]
    if above >= 0:
        m.mass[above] = m.mass[above] + m.mass[link]
        m.moment[above] = m.moment[above] + m.moment[link]
        m.inertia[above] = m.inertia[above] + m.inertia[link]
        m.momentum[above] = m.momentum[above] + m.momentum[link]


@wp.func
def free_block(tree: Tree, m: Motion, t: int):
    """Where the factor of a tree's free dofs lies; prescribed ones lead the tree and have no part in it."""
    unlocked = tree.tree_dof_start[t] + m.locked[t]
    block = Skyline()
    block.start = wp.int64(tree.tree_factor_start[t])
    block.size = tree.tree_dof_start[t + 1] - unlocked
    block.stride = row_stride(block.size)
    block.offset = unlocked
    block.shift = unlocked
    block.last = tree.dof_last
    return block


@wp.func
def factor_free_motion(tree: Tree, m: Motion, t: int):
    """Factor A_ff, of the dofs that are not prescribed."""
    size = tree.tree_dof_start[t + 1] - tree.tree_dof_start[t]
    corner = tree.tree_block_start[t] + m.locked[t] * (size + 1)
    block = free_block(tree, m, t)
    for i in range(block.size):
        fill_row(m.factor, block, i, 0, m.A, corner + i * size, wp.float64(0.0))
    factor_alone(m.factor, block)


@wp.func
def solve_free(tree: Tree, m: Motion, momentum: wp.array[wp.float64], t: int):
    """A_ff x_f = momentum_f, in its place; entries of prescribed dofs are left alone."""
    solve_alone(m.factor, free_block(tree, m, t), momentum)


@wp.func
def add_products(tree: Tree, m: Motion, change: Motion, t: int):
    """Let r and the links have what velocity products made of a change."""
    for dof in range(tree.tree_dof_start[t], tree.tree_dof_start[t + 1]):
        m.v_star[dof] = m.v_star[dof] + change.v0[dof]
    for link in range(tree.tree_link_start[t], tree.tree_link_start[t + 1]):
        m.momentum[link] = m.momentum[link] + change.momentum[link]


@wp.func
def solve_free_motion(tree: Tree, m: Motion, t: int):
    """A_ff v_star_f = r_f - A_fk v_k: prescribed dofs, which lead the tree, keep their velocity."""
    first = tree.tree_dof_start[t]
    size = tree.tree_dof_start[t + 1] - first
    block = tree.tree_block_start[t]
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


@wp.func
def point_velocity(tree: Tree, m: Motion, v: wp.array[wp.float64], link: int, point: wp.vec3d):
    """Velocity of a link's material at a point, for any generalised velocity."""
    total = wp.vec3d()
    for p in range(tree.path_start[link], tree.path_start[link + 1]):
        dof = tree.path_dof[p]
        total += velocity_at(m.column[dof], point) * v[dof]
    return total
