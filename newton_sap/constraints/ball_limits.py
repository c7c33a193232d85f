"""Limits of ball joints: how far the axis may swing, and how far the child may twist about it (F 2.13)."""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..multibody.holding import rooted_tree
from ..multibody.spatial import to_vec3d
from ..workspace import CouplerPool, Joints, Motion, Problem, Tree
from .axis_laws import NO_LIMIT, JointInput, stop_law
from .coupler_pool import Anchor, joint_anchors, measure_axis, place_row
from .coupling_table import BALL_LIMITS
from .swing_twist import swing_angle, swing_covector, twist_angle, twist_covector

wp.set_module_options({"enable_backward": False})

TURNED_OVER = wp.constant(wp.float64(1.0e-3))
"""Of ``1 + cos(swing)``; below it the twist is not determined."""

# The limits of a ball joint; the last is that of the twist from above.
SWING = wp.constant(0)
LOWER_TWIST = wp.constant(1)
LIMITS = wp.constant(3)


@wp.struct
class BallLimit:
    """One limit of a ball joint."""

    acts: int
    F: wp.spatial_vectord  # covector of the angle's rate
    gap: wp.float64  # [rad]
    sign: wp.float64  # of the rate that opens the gap


@wp.struct
class BallPose:
    """How a ball joint stands: the twist axis as its parent and its child carry it, and the twist [rad]."""

    u: wp.vec3d
    v: wp.vec3d
    twist: wp.float64


@wp.func
def ball_pose(table: CouplingTable, joint: int, a: Anchor, b: Anchor):
    """How a ball joint stands, from its anchors."""
    axis = wp.normalize(to_vec3d(table.twist_axis[joint]))
    pose = BallPose()
    pose.u = wp.quat_rotate(a.rotation, axis)
    pose.v = wp.quat_rotate(b.rotation, axis)
    pose.twist = twist_angle(wp.quat_inverse(a.rotation) * b.rotation, axis)
    return pose


@wp.func
def read_limit(table: CouplingTable, joint: int, which: int, pose: BallPose):
    """A limit of a ball joint as it stands; one that is NaN acts."""
    u = pose.u
    v = pose.v
    limit = BallLimit()
    if which == SWING:
        most = table.swing_limit[joint]
        limit.acts = int(not (most < 0.0))
        limit.F = swing_covector(u, v)
        limit.gap = wp.float64(most) - swing_angle(u, v)
        limit.sign = wp.float64(-1.0)
    elif not (wp.float64(1.0) + wp.dot(u, v) <= TURNED_OVER):
        limit.F = twist_covector(u, v)
        if which == LOWER_TWIST:
            least = table.twist_limit_lower[joint]
            limit.acts = int(not (least <= -NO_LIMIT))
            limit.gap = pose.twist - wp.float64(least)
            limit.sign = wp.float64(1.0)
        else:
            most = table.twist_limit_upper[joint]
            limit.acts = int(not (most >= NO_LIMIT))
            limit.gap = wp.float64(most) - pose.twist
            limit.sign = wp.float64(-1.0)
    return limit


@wp.func
def ball_limit_rows(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    step: JointInput,
    dt: wp.float64,
):
    """The limits that are set, with the stiffness and damping of the joint's first dof."""
    joint = table.joint[c]
    ke = wp.float64(joints.limit_ke[table.axis_start[c]])
    kd = wp.float64(joints.limit_kd[table.axis_start[c]])
    a, b = joint_anchors(tree, joints, table, m, c)
    pose = ball_pose(table, joint, a, b)
    limits = int(LIMITS)  # no constant: the loop is not to be unrolled
    for which in range(limits):
        limit = read_limit(table, joint, which, pose)
        if limit.acts == 1:
            at = measure_axis(tree, m, pool, problem, row, a, b, limit.F)
            law = stop_law(step.options, at, ke, kd, limit.gap, limit.sign, dt)
            row = place_row(tree, m, pool, problem, row, a, b, limit.F, law)
    return row


@wp.kernel
def note_limits(tree: Tree, joints: Joints, table: CouplingTable, m: Motion):
    """Note which trees of a group lean on a limit of a ball joint that is reached."""
    block, lane = wp.tid()
    g = tree.first_group + block
    for c in range(table.group_start[g] + lane, table.group_start[g + 1], wp.block_dim()):
        if table.kind[c] == BALL_LIMITS:
            t = rooted_tree(tree, joints, m, table.body_b[c])
            if t >= 0:
                joint = table.joint[c]
                a, b = joint_anchors(tree, joints, table, m, c)
                pose = ball_pose(table, joint, a, b)
                limits = int(LIMITS)  # no constant: the loop is not to be unrolled
                for which in range(limits):
                    limit = read_limit(table, joint, which, pose)
                    if limit.acts == 1 and limit.gap <= wp.float64(0.0):
                        m.leans[t] = 1
