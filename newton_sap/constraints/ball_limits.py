"""Limits of ball joints: how far the axis may swing, and how far the child may twist about it (F 2.13)."""

import warp as wp

from ..multibody.spatial import to_vec3d
from ..workspace import CouplerPool, CouplingTable, Joints, Motion, Problem, Tree
from .axis_laws import NO_LIMIT, Axis, JointInput, stop_law
from .coupler_pool import joint_anchors, measure_axis, place_row
from .swing_twist import swing_angle, swing_covector, twist_angle, twist_covector

wp.set_module_options({"enable_backward": False})

TURNED_OVER = wp.constant(wp.float64(1.0e-3))
"""Of ``1 + cos(swing)``; below it the twist is not determined."""


@wp.func
def ball_limit_law(
    joints: Joints, step: JointInput, k: int, axis: Axis, gap: wp.float64, sign: wp.float64, dt: wp.float64
):
    """A limit with the stiffness and damping of the joint's first dof."""
    return stop_law(step.options, axis, wp.float64(joints.limit_ke[k]), wp.float64(joints.limit_kd[k]), gap, sign, dt)


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
    """The limits that are set; a NaN counts as set."""
    joint = table.joint[c]
    k = table.axis_start[c]
    a, b = joint_anchors(tree, joints, table, m, c)
    axis = wp.normalize(to_vec3d(table.twist_axis[joint]))
    u = wp.quat_rotate(a.rotation, axis)
    v = wp.quat_rotate(b.rotation, axis)
    most = table.swing_limit[joint]
    if not (most < 0.0):
        F = swing_covector(u, v)
        at = measure_axis(tree, m, pool, problem, row, a, b, F)
        at.driven = 1  # a drive may move it farther than its free motion shows
        gap = wp.float64(most) - swing_angle(u, v)
        law = ball_limit_law(joints, step, k, at, gap, wp.float64(-1.0), dt)
        row = place_row(tree, m, pool, problem, row, a, b, F, law)
    if wp.float64(1.0) + wp.dot(u, v) <= TURNED_OVER:
        return row
    twist = twist_angle(wp.quat_inverse(a.rotation) * b.rotation, axis)
    F = twist_covector(u, v)
    at = measure_axis(tree, m, pool, problem, row, a, b, F)
    at.driven = 1
    least = table.twist_limit_lower[joint]
    if not (least <= -NO_LIMIT):
        law = ball_limit_law(joints, step, k, at, twist - wp.float64(least), wp.float64(1.0), dt)
        row = place_row(tree, m, pool, problem, row, a, b, F, law)
    most = table.twist_limit_upper[joint]
    if not (most >= NO_LIMIT):
        law = ball_limit_law(joints, step, k, at, wp.float64(most) - twist, wp.float64(-1.0), dt)
        row = place_row(tree, m, pool, problem, row, a, b, F, law)
    return row
