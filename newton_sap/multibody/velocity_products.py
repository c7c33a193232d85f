"""Velocity products of a tree whose rates change within the step (F 1.1).

A product of two velocities at the start of the step feeds a chain without damping. Here they are those of the middle of the
step, ``v0 + d / 2``, so far as the change ``d`` is known: ``A v_star = r - dt S^T F(v0, d)``, where ``r`` has the products of
``v0`` with itself and ``F`` is linear in both. ``d`` is the change by these products and by other forces, less what joints hold
(``holding``), and by the products of that change. Of contacts it is known only whether a tree leans on any: they bear its weight.
"""

import warp as wp

from ..workspace import Bodies, Joints, Motion, Tree
from .efforts import Efforts, applied_effort, external_wrench
from .gyroscopic import gyroscopic_products, share_of_midpoint, turns_far
from .holding import MOST_BORNE, let_joints_hold, share_held
from .joints import BALL, MOST_AXES, flies, straight_on
from .mass_matrix import solve_free
from .orders import Orders
from .spatial import angular, cross_motion, velocity_at, wrench_at

wp.set_module_options({"enable_backward": False})

SLOW = wp.constant(wp.float64(1.0e-3))
"""Links that turn by less [rad] in a step have no need of it: what the products feed is of second order."""

FAST = wp.constant(wp.float64(0.1))
"""Links that turn by more [rad] need the products of the change, too, which keep bounded what these feed beyond one radian."""

NODS = wp.constant(wp.float64(0.1))
"""The square of how much products make of a change. Where it is larger the step does not resolve them, and damps them."""


@wp.struct
class Swing:
    """A link on its way from its parent: how it moves, and what changes of the rates add."""

    velocity: wp.spatial_vectord
    change: wp.spatial_vectord  # of the velocity
    bias: wp.spatial_vectord  # acceleration, twice: products of changes with rates


@wp.func
def carried(swing: Swing, rate: wp.spatial_vectord, change: wp.spatial_vectord):
    """Motions along axes that go with a link join it."""
    out = Swing()
    out.velocity = swing.velocity + rate
    out.change = swing.change + change
    out.bias = swing.bias + cross_motion(swing.velocity, change) + cross_motion(swing.change, rate)
    return out


@wp.func
def three(m: Motion, rates: wp.array[wp.float64], dof: int):
    """What three consecutive rates do."""
    return m.column[dof] * rates[dof] + m.column[dof + 1] * rates[dof + 1] + m.column[dof + 2] * rates[dof + 2]


@wp.func
def carried_freely(m: Motion, change: Motion, dof: int, com: wp.vec3d, swing: Swing):
    """Whatever carries it, it goes straight on."""
    out = Swing()
    out.velocity = swing.velocity + three(m, m.v0, dof) + three(m, m.v0, dof + 3)
    out.change = swing.change + three(m, change.v0, dof) + three(m, change.v0, dof + 3)
    out.bias = straight_on(out.velocity, out.change, com) + straight_on(out.change, out.velocity, com)
    return out


@wp.func
def swing_of(tree: Tree, joints: Joints, m: Motion, change: Motion, link: int):
    """A link's change of velocity and bias, those of its parent being known; ``change.v0`` are the changes of rates."""
    swing = Swing()
    above = tree.links[link].parent
    if above >= 0:
        swing.velocity = m.velocity[above]
        swing.change = change.velocity[above]
        swing.bias = change.bias[above]
    joint = tree.links[link].joint
    dof = tree.links[link].dof_start
    axes = tree.links[link + 1].dof_start - dof
    if flies(joints, joint):
        swing = carried_freely(m, change, dof, m.com[link], swing)
    elif joints.type[joint] == BALL:
        swing = carried(swing, three(m, m.v0, dof), three(m, change.v0, dof))
    else:
        for i in range(MOST_AXES):  # unrolled, so that it can be differentiated
            if i < axes:
                column = m.column[dof + i]
                swing = carried(swing, column * m.v0[dof + i], column * change.v0[dof + i])
    return swing


@wp.func
def product_force(
    bodies: Bodies,
    m: Motion,
    body: int,
    link: int,
    change: wp.spatial_vectord,
    bias: wp.spatial_vectord,
    dt: wp.float64,
):
    """F(v0, change) on one body: mass times acceleration, and gyroscopic torque unless that has been turned as a whole."""
    com = m.com[link]
    V = m.velocity[link]
    a = velocity_at(bias, com) + wp.cross(angular(V), velocity_at(change, com))
    a += wp.cross(angular(change), velocity_at(V, com))
    inertia = wp.mat33d(bodies.inertia[body])
    w = wp.quat_rotate_inv(m.rotation[link], angular(V))
    moment = inertia * wp.quat_rotate_inv(m.rotation[link], angular(bias))
    if not turns_far(inertia, w, dt):
        moment += gyroscopic_products(inertia, w, wp.quat_rotate_inv(m.rotation[link], angular(change)))
    moment = wp.quat_rotate(m.rotation[link], moment)
    return wp.float64(0.5) * wrench_at(wp.float64(bodies.mass[body]) * a, moment, com)


@wp.func
def rounds_needed(tree: Tree, m: Motion, t: int, moves: int, dt: wp.float64):
    """How often to follow a tree's change of velocity: not at all, the change alone, or its own products, too.

    Trees that move otherwise than ``moves`` says are followed elsewhere, or not.
    """
    rounds = int(0)
    if int(tree.trees[t].moves) == moves:
        fastest = wp.float64(0.0)
        for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
            fastest = wp.max(fastest, wp.length_sq(angular(m.velocity[link])))
        turn = dt * wp.sqrt(fastest)
        if turn > SLOW:
            rounds = 1
        if turn > FAST:
            rounds = 2
    return rounds


@wp.func
def push_products(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, change: Motion, t: int, dt: wp.float64):
    """-dt F(v0, change) of every link, into ``change.momentum``; ``change.bias`` may be the same array, so it is read first."""
    start = tree.trees[t].link_start
    end = tree.trees[t + 1].link_start
    for link in range(start, end):
        swing = swing_of(tree, joints, m, change, link)
        change.velocity[link] = swing.change
        change.bias[link] = swing.bias
    for link in range(start, end):
        force = product_force(bodies, m, tree.links[link].body, link, change.velocity[link], change.bias[link], dt)
        change.momentum[link] = -dt * force


@wp.func
def project_change(tree: Tree, m: Motion, change: Motion, t: int, link: int):
    """S^T of what a subtree has in ``change.momentum``, into ``change.v0`` of its link's dofs; prescribed ones do not change."""
    unlocked = tree.trees[t].dof_start + m.locked[t]
    for dof in range(tree.links[link].dof_start, tree.links[link + 1].dof_start):
        gained = wp.float64(0.0)
        if dof >= unlocked:
            gained = wp.dot(m.column[dof], change.momentum[link])
        change.v0[dof] = gained


@wp.func
def add_applied(
    tree: Tree,
    joints: Joints,
    m: Motion,
    change: Motion,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    t: int,
    link: int,
    dt: wp.float64,
):
    """Let ``change.v0`` of a link's dofs have what is applied to them for the whole step."""
    start = tree.links[link].dof_start
    for dof in range(wp.max(tree.trees[t].dof_start + m.locked[t], start), tree.links[link + 1].dof_start):
        effort = applied_effort(tree, joints, efforts, joint_q, link, dof - start, m.v0[dof])
        change.v0[dof] = change.v0[dof] + dt * effort


@wp.func
def gather_momentum(tree: Tree, m: Motion, change: Motion, t: int):
    """S^T of the links' momenta, into ``change.v0``. Parents get what their subtrees have."""
    start = tree.trees[t].link_start
    end = tree.trees[t + 1].link_start
    for up in range(end - start):
        link = end - 1 - up
        project_change(tree, m, change, t, link)
        above = tree.links[link].parent
        if above >= 0:
            change.momentum[above] = change.momentum[above] + change.momentum[link]


@wp.func
def add_products(tree: Tree, m: Motion, change: Motion, t: int):
    """Let r and the links have what velocity products made of a change."""
    for dof in range(tree.trees[t].dof_start, tree.trees[t + 1].dof_start):
        m.v_star[dof] = m.v_star[dof] + change.v0[dof]
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        m.momentum[link] = m.momentum[link] + change.momentum[link]


@wp.func
def solve_change(tree: Tree, m: Motion, change: Motion, t: int):
    """Momentum in ``change.v0`` becomes the change of rates that it makes; returns twice its kinetic energy. Uses ``v``."""
    unlocked = tree.trees[t].dof_start + m.locked[t]
    for dof in range(unlocked, tree.trees[t + 1].dof_start):
        m.v[dof] = change.v0[dof]
    solve_free(tree, m, change.v0, t)
    size = wp.float64(0.0)
    for dof in range(unlocked, tree.trees[t + 1].dof_start):
        size += m.v[dof] * change.v0[dof]
    return size


@wp.func
def share_followed(size: wp.float64, further: wp.float64):
    """The share that is followed of a change and of what its products change, by their kinetic energies."""
    share = share_of_midpoint(size, further)
    if further > NODS * size:
        # As much as damps most, of which the energy left in a turn by a right angle is the least there can be.
        one, two = wp.float64(1.0), wp.float64(2.0)
        square = further / size
        share = wp.min(one, (one + two * square) / (two * square * (one + square)))
    return share


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
    """The momentum that forces from outside give a tree's dofs, into ``change.v0``."""
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        change.momentum[link] = dt * external_wrench(tree, joints, bodies, m, orders, efforts, link)
    gather_momentum(tree, m, change, t)


@wp.func
def let_contacts_hold(
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
    """Let what a tree leans against bear what pushes from outside, so far as that makes the change of velocity smaller.

    ``change.v0`` has the momentum that joints leave. Uses ``v``, ``travel`` and ``change.momentum``.
    """
    unlocked = tree.trees[t].dof_start + m.locked[t]
    end = tree.trees[t + 1].dof_start
    for dof in range(unlocked, end):
        m.travel[dof] = change.v0[dof]
    gather_push(tree, joints, bodies, m, change, orders, efforts, t, dt)
    for dof in range(unlocked, end):
        m.v[dof] = change.v0[dof]
    solve_free(tree, m, m.v, t)
    falls = wp.float64(0.0)
    size = wp.float64(0.0)
    for dof in range(unlocked, end):
        falls += m.v[dof] * m.travel[dof]
        size += m.v[dof] * change.v0[dof]
    share = share_held(falls, size, MOST_BORNE)
    for dof in range(unlocked, end):
        change.v0[dof] = m.travel[dof] - share * change.v0[dof]


@wp.func
def follow_change(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    change: Motion,
    orders: Orders,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    t: int,
    rounds: int,
    dt: wp.float64,
):
    """Let r have the products of ``v0`` with the change of velocity in the step.

    ``change.momentum`` has what changes the momentum of each subtree, of velocity products and from outside. Uses ``v`` and ``travel``.
    """
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        project_change(tree, m, change, t, link)
        add_applied(tree, joints, m, change, efforts, joint_q, t, link, dt)
    let_joints_hold(tree, joints, m, change, efforts, joint_q, t, dt)
    if m.leans[t] == 1:
        let_contacts_hold(tree, joints, bodies, m, change, orders, efforts, t, dt)
    size = solve_change(tree, m, change, t)
    for turn in range(1, rounds + 1):
        if turn < rounds:
            for dof in range(tree.trees[t].dof_start, tree.trees[t + 1].dof_start):
                m.travel[dof] = change.v0[dof]
        push_products(tree, joints, bodies, m, change, t, dt)
        gather_momentum(tree, m, change, t)
        if turn < rounds:
            share = share_followed(size, solve_change(tree, m, change, t))
            for dof in range(tree.trees[t].dof_start, tree.trees[t + 1].dof_start):
                change.v0[dof] = share * (m.travel[dof] + change.v0[dof])
    add_products(tree, m, change, t)
