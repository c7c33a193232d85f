"""Coordinates of joints that move no link: they follow from the poses of the bodies."""

import warp as wp

from ..constraints.coupler_pool import Anchor, joint_anchors, relative_velocity
from ..constraints.coupling_table import DISTANCE_RANGE, LOOP_LAWS, ROD, closes_loop
from ..constraints.loop_axes import counts_turns, loop_axis, nearest_turn
from ..coupling_bundles import CouplingTable
from ..multibody.joints import BALL
from ..multibody.orders import Orders, write_free_velocity
from ..multibody.spatial import angular, velocity_at
from ..workspace import Joints, Motion, StateArrays, Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def publish_axis(
    joints: Joints,
    table: CouplingTable,
    motion_after: Motion,
    state: StateArrays,
    c: int,
    a: Anchor,
    b: Anchor,
    dt: wp.float64,
):
    """Coordinate and rate of a free axis; an angle goes on from the one at the start of the step, by whole turns too."""
    joint = table.joint[c]
    i = table.axis[c]
    at = loop_axis(joints, table, c, a, b, state.joint_q)
    rate = wp.dot(at.F, relative_velocity(motion_after, a, b))
    if counts_turns(table, c):
        before = wp.float64(state.joint_q[joints.q_start[joint] + i])
        at.q = nearest_turn(at.q, before + dt * rate)
    state.joint_qd[joints.qd_start[joint] + i] = wp.float32(rate)
    if joints.type[joint] == BALL:
        if i == 0:
            write_turn(state, joints.q_start[joint], a, b)
    else:
        state.joint_q[joints.q_start[joint] + i] = wp.float32(at.q)


@wp.func
def write_turn(state: StateArrays, start: int, a: Anchor, b: Anchor):
    """How the second anchor is turned from the first."""
    turned = wp.normalize(wp.quat_inverse(a.rotation) * b.rotation)
    for k in range(4):
        state.joint_q[start + k] = wp.float32(turned[k])


@wp.func
def flies_apart(tree: Tree, table: CouplingTable, c: int):
    """Whether a coupling is a joint of six velocities that moves no link."""
    return (table.kind[c] == ROD or table.kind[c] == DISTANCE_RANGE) and closes_loop(tree, table, c)


@wp.func
def publish_flight(
    joints: Joints, motion_after: Motion, orders: Orders, state: StateArrays, joint: int, a: Anchor, b: Anchor
):
    """Place of the second anchor in the axes of the first, and the velocity of the child, as in trees."""
    start = joints.q_start[joint]
    apart = wp.quat_rotate_inv(a.rotation, b.position - a.position)
    for k in range(3):
        state.joint_q[start + k] = wp.float32(apart[k])
    write_turn(state, start + 3, a, b)
    V = relative_velocity(motion_after, a, b)
    com = motion_after.com[b.link]
    v_C = wp.quat_rotate_inv(a.rotation, velocity_at(V, com))
    r_OC = wp.quat_rotate_inv(a.rotation, com - motion_after.position[b.link])
    w = wp.quat_rotate_inv(a.rotation, angular(V))
    write_free_velocity(orders, state.joint_qd, joints.qd_start[joint], w, v_C, r_OC)


@wp.kernel(enable_backward=False, module="unique")
def publish_loop_joints(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    motion_after: Motion,
    orders: Orders,
    state: StateArrays,
    dt: wp.float64,
):
    """Coordinates and rates of joints that move no link at the new poses, ``state`` having those before the step."""
    c = wp.tid()
    flies = flies_apart(tree, table, c)
    if flies or table.kind[c] == LOOP_LAWS:
        a, b = joint_anchors(tree, joints, table, motion_after, c)
        if flies:
            publish_flight(joints, motion_after, orders, state, table.joint[c], a, b)
        else:
            publish_axis(joints, table, motion_after, state, c, a, b, dt)
