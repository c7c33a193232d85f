"""Coordinates after the step, from the velocity the minimiser found; writes ``joint_q`` and ``joint_qd``."""

import warp as wp

from ..boundary.convention import Orders, read3, write_free_velocity
from ..workspace import Bodies, Joints, Motion, Tree
from .joints import BALL, is_free, read_quaternion
from .kinematics import child_anchor_inverse
from .spatial import rotation_of, to_vec3d

wp.set_module_options({"enable_backward": False})

SYMPLECTIC = wp.constant(0)
SAP_EULER = wp.constant(1)
MIDPOINT = wp.constant(2)
UPDATES = {"symplectic": 0, "sap_euler": 1, "midpoint": 2}


@wp.func
def position_rate(m: Motion, update: int, dof: int):
    """The velocity that moves a coordinate."""
    rate = m.v[dof]
    if update == MIDPOINT:
        rate = wp.float64(0.5) * (m.v0[dof] + m.v[dof])
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
def advance_free(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    joint_q: wp.array[wp.float32],
    joint_q_out: wp.array[wp.float32],
    joint_qd_out: wp.array[wp.float32],
    link: int,
    update: int,
    dt: wp.float64,
):
    """Move the reference point, turn about it, rebuild the anchor; store the velocity of the COM."""
    joint = tree.link_joint[link]
    q = joints.q_start[joint]
    dof = tree.link_dof_start[link]
    back, origin = child_anchor_inverse(joints.X_c[joint])
    com = to_vec3d(bodies.com[tree.link_body[link]])
    reference = origin
    if orders.reference_is_com == 1:
        reference = origin + wp.quat_rotate(back, com)
    before = read_quaternion(joint_q, q + 3)
    point = read3(joint_q, q) + wp.quat_rotate(before, reference) + dt * rate3(m, update, dof + 3)
    after = turn(before, rate3(m, update, dof), update, dt)
    anchor = point - wp.quat_rotate(after, reference)
    for i in range(3):
        joint_q_out[q + i] = wp.float32(anchor[i])
    write_quaternion(joint_q_out, q + 3, after)
    w = wp.vec3d(m.v[dof], m.v[dof + 1], m.v[dof + 2])
    v_C = wp.vec3d(m.v[dof + 3], m.v[dof + 4], m.v[dof + 5])
    r_OC = wp.quat_rotate(after * back, com)
    if orders.reference_is_com == 0:
        v_C += wp.cross(w, r_OC)
    write_free_velocity(orders, joint_qd_out, joints.qd_start[joint], w, v_C, r_OC)


@wp.func
def advance_ball_or_chain(
    tree: Tree,
    joints: Joints,
    m: Motion,
    joint_q: wp.array[wp.float32],
    joint_q_out: wp.array[wp.float32],
    joint_qd_out: wp.array[wp.float32],
    link: int,
    update: int,
    dt: wp.float64,
):
    """Turn a ball joint, or move each coordinate of a chain by its own rate."""
    joint = tree.link_joint[link]
    q = joints.q_start[joint]
    dof = tree.link_dof_start[link]
    count = tree.link_dof_start[link + 1] - dof
    if joints.type[joint] == BALL:
        write_quaternion(joint_q_out, q, turn(read_quaternion(joint_q, q), rate3(m, update, dof), update, dt))
    else:
        for i in range(count):
            joint_q_out[q + i] = wp.float32(wp.float64(joint_q[q + i]) + dt * position_rate(m, update, dof + i))
    for i in range(count):
        joint_qd_out[joints.qd_start[joint] + i] = wp.float32(m.v[dof + i])


@wp.kernel
def integrate(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
    joint_q_out: wp.array[wp.float32],
    joint_qd_out: wp.array[wp.float32],
    update: int,
    dt: wp.float64,
):
    """q = q0 (+) dt v; a prescribed joint keeps its coordinates, which its owner moves."""
    t = wp.tid()
    first = tree.tree_dof_start[t]
    for link in range(tree.tree_link_start[t], tree.tree_link_start[t + 1]):
        joint = tree.link_joint[link]
        if tree.link_dof_start[link] - first < m.locked[t]:
            for i in range(joints.q_start[joint], joints.q_start[joint + 1]):
                joint_q_out[i] = joint_q[i]
            for i in range(joints.qd_start[joint], joints.qd_start[joint + 1]):
                joint_qd_out[i] = joint_qd[i]
        elif is_free(joints.type[joint]):
            advance_free(tree, joints, bodies, m, orders, joint_q, joint_q_out, joint_qd_out, link, update, dt)
        else:
            advance_ball_or_chain(tree, joints, m, joint_q, joint_q_out, joint_qd_out, link, update, dt)
