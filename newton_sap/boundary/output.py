"""What Newton gets back: body states consistent with the joint states, and coordinates of joints that close loops."""

import warp as wp

from ..constraints.coupler_pool import joint_anchors, relative_velocity
from ..constraints.couplers import LOOP_LAWS
from ..constraints.loop_axes import loop_axis
from ..multibody.joints import BALL
from ..multibody.kinematics import place_link
from ..multibody.spatial import angular, velocity_at
from ..workspace import Bodies, CouplingTable, Joints, Motion, StateArrays, Tree
from .convention import Orders

wp.set_module_options({"enable_backward": False})


@wp.kernel
def publish_bodies(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    arrived: Motion,
    orders: Orders,
    state: StateArrays,
):
    """Poses and COM velocities of the new joint state."""
    t = tree.first_tree + wp.tid()
    for link in range(tree.tree_link_start[t], tree.tree_link_start[t + 1]):
        frame = place_link(tree, joints, bodies, arrived, orders, state, link, 0)
        if tree.link_joint[link] >= 0:
            body = tree.link_body[link]
            v_C = velocity_at(frame.velocity, arrived.com[link])
            state.body_q[body] = wp.transform(wp.vec3(frame.position), wp.quat(frame.rotation))
            state.body_qd[body] = wp.spatial_vector(wp.vec3(v_C), wp.vec3(angular(frame.velocity)))


@wp.kernel(enable_backward=False, module="unique")
def publish_loop_joints(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    arrived: Motion,
    state: StateArrays,
):
    """Coordinates and rates of loop joints at the new poses; each angle keeps to its turn."""
    c = wp.tid()
    if table.kind[c] != LOOP_LAWS:
        return
    joint = table.joint[c]
    i = table.axis[c]
    a, b = joint_anchors(tree, joints, table, arrived, c)
    at = loop_axis(joints, table, c, a, b, state.joint_q)
    rate = wp.dot(at.F, relative_velocity(arrived, a, b))
    state.joint_qd[joints.qd_start[joint] + i] = wp.float32(rate) * wp.float32(at.valid)
    if joints.type[joint] == BALL:
        if i == 0:
            turned = wp.normalize(wp.quat_inverse(a.rotation) * b.rotation)
            for k in range(4):
                state.joint_q[joints.q_start[joint] + k] = wp.float32(turned[k])
    else:
        state.joint_q[joints.q_start[joint] + i] = wp.float32(at.q)


@wp.kernel
def keep_loose_bodies(
    tree: Tree,
    before: StateArrays,
    after: StateArrays,
):
    """A body that does not move by itself passes through unchanged."""
    body = wp.tid()
    if tree.body_link[body] < 0:
        after.body_q[body] = before.body_q[body]
        after.body_qd[body] = before.body_qd[body]
