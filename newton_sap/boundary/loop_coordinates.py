"""Coordinates of joints that close loops, which follow from the poses of the bodies."""

import warp as wp

from ..constraints.coupler_pool import joint_anchors, relative_velocity
from ..constraints.coupling_table import LOOP_LAWS
from ..constraints.loop_axes import loop_axis
from ..multibody.joints import BALL
from ..workspace import CouplingTable, Joints, Motion, StateArrays, Tree

wp.set_module_options({"enable_backward": False})


@wp.kernel(enable_backward=False, module="unique")
def publish_loop_joints(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    motion_after: Motion,
    state: StateArrays,
):
    """Coordinates and rates of loop joints at the new poses; each angle keeps to its turn."""
    c = wp.tid()
    if table.kind[c] != LOOP_LAWS:
        return
    joint = table.joint[c]
    i = table.axis[c]
    a, b = joint_anchors(tree, joints, table, motion_after, c)
    at = loop_axis(joints, table, c, a, b, state.joint_q)
    rate = wp.dot(at.F, relative_velocity(motion_after, a, b))
    state.joint_qd[joints.qd_start[joint] + i] = wp.float32(rate)
    if joints.type[joint] == BALL:
        if i == 0:
            turned = wp.normalize(wp.quat_inverse(a.rotation) * b.rotation)
            for k in range(4):
                state.joint_q[joints.q_start[joint] + k] = wp.float32(turned[k])
    else:
        state.joint_q[joints.q_start[joint] + i] = wp.float32(at.q)
