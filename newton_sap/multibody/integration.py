"""Coordinates after the step, from the velocity the minimiser found, and the bodies there: writes the caller's state."""

import warp as wp

from ..linalg.lanes import TREES_PER_BLOCK
from ..workspace import Bodies, Joints, Motion, StateArrays, Tree
from .joints import BALL, is_free, read_quaternion
from .kinematics import child_anchor_inverse, publish_link, reference_point
from .orders import Orders, read3, write_free_velocity
from .paths import link_velocity
from .pending import carrier_after, carrier_velocity_after
from .spatial import angular, linear, rotation_of, to_transformd, to_vec3d, velocity_at

wp.set_module_options({"enable_backward": False, "block_dim": TREES_PER_BLOCK})

SYMPLECTIC = wp.constant(0)
SAP_EULER = wp.constant(1)
MIDPOINT = wp.constant(2)
UPDATES = {"symplectic": SYMPLECTIC, "sap_euler": SAP_EULER, "midpoint": MIDPOINT}


@wp.func
def position_rate(m: Motion, update: int, dof: int):
    """The velocity that moves a coordinate."""
    rate = m.travel[dof]
    if update == MIDPOINT:
        rate = wp.float64(0.5) * (m.v0[dof] + m.travel[dof])
    return rate


@wp.func
def rate3(m: Motion, update: int, dof: int):
    """Three consecutive rates."""
    return wp.vec3d(position_rate(m, update, dof), position_rate(m, update, dof + 1), position_rate(m, update, dof + 2))


@wp.func
def turn(q: wp.quatd, w: wp.vec3d, update: int, dt: wp.float64):
    """Advance an orientation by an angular velocity in the parent's axes."""
    if update == SYMPLECTIC:
        return wp.normalize(rotation_of(dt * w) * q)
    half = wp.float64(0.5) * dt
    spin = wp.quatd(half * w[0], half * w[1], half * w[2], wp.float64(0.0)) * q
    return wp.normalize(q + spin)


@wp.func
def write_quaternion(joint_q: wp.array[wp.float32], start: int, q: wp.quatd):
    """Store an orientation."""
    for i in range(4):
        joint_q[start + i] = wp.float32(q[i])


@wp.func
def com_velocity(m: Motion, orders: Orders, dof: int, r_OC: wp.vec3d):
    """Velocity of the COM from a free link's own six, [w, v_ref]."""
    v_C = wp.vec3d(m.v[dof + 3], m.v[dof + 4], m.v[dof + 5])
    if orders.reference_is_com == 0:
        v_C += wp.cross(wp.vec3d(m.v[dof], m.v[dof + 1], m.v[dof + 2]), r_OC)
    return v_C


@wp.func
def store_free_velocity(m: Motion, orders: Orders, out: StateArrays, qd: int, dof: int, r_OC: wp.vec3d):
    """Write a free joint's velocity in the order asked for."""
    w = wp.vec3d(m.v[dof], m.v[dof + 1], m.v[dof + 2])
    write_free_velocity(orders, out.joint_qd, qd, w, com_velocity(m, orders, dof, r_OC), r_OC)


@wp.func
def advance_free(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
    out: StateArrays,
    link: int,
    update: int,
    dt: wp.float64,
):
    """Move the reference point, turn about it, rebuild the anchor; store the velocity of the COM."""
    joint = tree.links[link].joint
    q = joints.q_start[joint]
    dof = tree.links[link].dof_start
    back, origin = child_anchor_inverse(joints.X_c[joint])
    com = to_vec3d(bodies.com[tree.links[link].body])
    reference = reference_point(orders.reference_is_com, origin, back, com)
    before = read_quaternion(state.joint_q, q + 3)
    point = read3(state.joint_q, q) + wp.quat_rotate(before, reference) + dt * rate3(m, update, dof + 3)
    after = turn(before, rate3(m, update, dof), update, dt)
    anchor = point - wp.quat_rotate(after, reference)
    for i in range(3):
        out.joint_q[q + i] = wp.float32(anchor[i])
    write_quaternion(out.joint_q, q + 3, after)
    store_free_velocity(m, orders, out, joints.qd_start[joint], dof, wp.quat_rotate(after * back, com))


@wp.func
def advance_free_below(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    out: StateArrays,
    motion_after: Motion,
    link: int,
    dt: wp.float64,
):
    """Move a body that flies on a joint below another one as by itself, and store where and how fast it is as seen from there."""
    joint = tree.links[link].joint
    com = to_vec3d(bodies.com[tree.links[link].body])
    moves = link_velocity(tree, m, m.travel, link)
    point = m.com[link] + dt * velocity_at(moves, m.com[link])
    turned = wp.normalize(rotation_of(dt * angular(moves)) * m.rotation[link])
    anchor = carrier_after(tree, joints, m, motion_after, link, dt)
    body = wp.transformd(point - wp.quat_rotate(turned, com), turned)
    seen = wp.transform_inverse(anchor) * body * to_transformd(joints.X_c[joint])
    q = joints.q_start[joint]
    place = wp.transform_get_translation(seen)
    for i in range(3):
        out.joint_q[q + i] = wp.float32(place[i])
    write_quaternion(out.joint_q, q + 3, wp.normalize(wp.transform_get_rotation(seen)))
    velocity = link_velocity(tree, m, m.v, link)
    carrier = carrier_velocity_after(tree, m, motion_after, link, point, dt)
    back = wp.transform_inverse(anchor)
    w = wp.transform_vector(back, angular(velocity) - angular(carrier))
    v_C = wp.transform_vector(back, velocity_at(velocity, m.com[link]) - linear(carrier))
    r_OC = wp.transform_vector(back, wp.quat_rotate(turned, com))
    write_free_velocity(orders, out.joint_qd, joints.qd_start[joint], w, v_C, r_OC)


@wp.func
def advance_free_body(
    tree: Tree,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    out: StateArrays,
    link: int,
    update: int,
    dt: wp.float64,
):
    """As :func:`advance_free`, of a root that no joint moves."""
    body = tree.links[link].body
    dof = tree.links[link].dof_start
    com = to_vec3d(bodies.com[body])
    reference = reference_point(orders.reference_is_com, wp.vec3d(), wp.quat_identity(dtype=wp.float64), com)
    point = m.position[link] + wp.quat_rotate(m.rotation[link], reference) + dt * rate3(m, update, dof + 3)
    after = turn(m.rotation[link], rate3(m, update, dof), update, dt)
    out.body_q[body] = wp.transform(wp.vec3(point - wp.quat_rotate(after, reference)), wp.quat(after))
    w = wp.vec3(wp.vec3d(m.v[dof], m.v[dof + 1], m.v[dof + 2]))
    out.body_qd[body] = wp.spatial_vector(wp.vec3(com_velocity(m, orders, dof, wp.quat_rotate(after, com))), w)


@wp.func
def advance_ball_or_chain(
    tree: Tree,
    joints: Joints,
    m: Motion,
    state: StateArrays,
    out: StateArrays,
    link: int,
    update: int,
    dt: wp.float64,
):
    """Turn a ball joint, or move each coordinate of a chain by its own rate."""
    joint = tree.links[link].joint
    q = joints.q_start[joint]
    dof = tree.links[link].dof_start
    count = tree.links[link + 1].dof_start - dof
    if joints.type[joint] == BALL:
        write_quaternion(out.joint_q, q, turn(read_quaternion(state.joint_q, q), rate3(m, update, dof), update, dt))
    else:
        for i in range(count):
            out.joint_q[q + i] = wp.float32(wp.float64(state.joint_q[q + i]) + dt * position_rate(m, update, dof + i))
    for i in range(count):
        out.joint_qd[joints.qd_start[joint] + i] = wp.float32(m.v[dof + i])


@wp.func
def keep_link(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
    out: StateArrays,
    link: int,
):
    """A prescribed link keeps its coordinates, which its owner moves; a free joint's velocity in the order asked for."""
    joint = tree.links[link].joint
    if joint < 0:
        body = tree.links[link].body
        out.body_q[body] = state.body_q[body]
        out.body_qd[body] = state.body_qd[body]
    else:
        for i in range(joints.q_start[joint], joints.q_start[joint + 1]):
            out.joint_q[i] = state.joint_q[i]
        for i in range(joints.qd_start[joint], joints.qd_start[joint + 1]):
            out.joint_qd[i] = state.joint_qd[i]
        if is_free(joints.type[joint]) and orders.qd_in != orders.qd_out:
            back, origin = child_anchor_inverse(joints.X_c[joint])
            turned = read_quaternion(state.joint_q, joints.q_start[joint] + 3)
            r_OC = wp.quat_rotate(turned * back, to_vec3d(bodies.com[tree.links[link].body]))
            store_free_velocity(m, orders, out, joints.qd_start[joint], tree.links[link].dof_start, r_OC)


@wp.kernel
def integrate(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
    out: StateArrays,
    motion_after: Motion,
    orders_after: Orders,
    update: int,
    dt: wp.float64,
):
    """q = q0 (+) dt v, and what bodies do there."""
    t = tree.first_tree + wp.tid()
    first = tree.trees[t].dof_start
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        joint = tree.links[link].joint
        if tree.links[link].dof_start - first < m.locked[t]:
            keep_link(tree, joints, bodies, m, orders, state, out, link)
        elif joint < 0:
            advance_free_body(tree, bodies, m, orders, out, link, update, dt)
        elif is_free(joints.type[joint]) and update == SYMPLECTIC and tree.links[link].parent >= 0:
            advance_free_below(tree, joints, bodies, m, orders, out, motion_after, link, dt)
        elif is_free(joints.type[joint]):
            advance_free(tree, joints, bodies, m, orders, state, out, link, update, dt)
        else:
            advance_ball_or_chain(tree, joints, m, state, out, link, update, dt)
        publish_link(tree, joints, bodies, motion_after, orders_after, out, link)
