"""What acts along the free axes of a loop joint: its coordinates from the two body poses, and the rows of each axis.

A loop joint stores no motion of its own. The coordinate of an axis is measured between the joint's anchors, with the
meaning it would have in a tree: translations along axes fixed in the parent anchor, then carried rotations. Angles are
measured modulo a whole turn; which turn is meant is read from the joint's entry of ``joint_q``.
"""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..multibody.drives import drive_gains, explicit_effort, holds_position
from ..multibody.joints import BALL, read_quaternion
from ..multibody.spatial import motion, rotation_vector, to_vec3d
from ..workspace import CouplerPool, Joints, Motion, Problem, RowLaw, Tree
from .axis_laws import (
    NO_LIMIT,
    Axis,
    JointInput,
    armature_law,
    drive_law,
    dry_friction,
    effort_law,
    friction_law,
    limits_nothing,
    lower_limit_law,
    passive_law,
    upper_limit_law,
    velocity_limit_law,
)
from .coupler_pool import SHORT_TIME, Anchor, joint_anchors, measure_axis, moved, place_row, steady_acceleration
from .swing_twist import twist_angle, twist_covector

wp.set_module_options({"enable_backward": False})

TWO_PI = wp.constant(wp.float64(6.283185307179586))
GIMBAL_LOCK = wp.constant(wp.float64(1.0e-3))
"""Smallest volume of three angular axes; below it the rates of the outer two are not determined."""

# The laws of a free axis.
DRIVE = wp.constant(0)
LOWER = wp.constant(1)
UPPER = wp.constant(2)
FASTEST = wp.constant(3)  # velocity limit
FRICTION = wp.constant(4)
AXIS_LAWS = wp.constant(5)  # so many for a coupling; what follows is forces, for another
EFFORT = wp.constant(5)
PASSIVE = wp.constant(6)
ARMATURE = wp.constant(7)
ALL_LAWS = wp.constant(8)


@wp.struct
class LoopAxis:
    """One free axis: its coordinate, and the covector of its rate on the relative motion of the bodies."""

    q: wp.float64
    F: wp.spatial_vectord
    valid: int  # 0 where the rate is not determined (gimbal lock)


@wp.func
def local_axis(joints: Joints, k: int):
    """Unit axis of a Newton dof in anchor axes."""
    return wp.normalize(to_vec3d(joints.axis[k]))


@wp.func
def linear_axis(joints: Joints, start: int, count: int, i: int, a: Anchor, b: Anchor):
    """The i-th translation: the part of the displacement along its axis, the others being given theirs."""
    u = local_axis(joints, start + i)
    d = u
    if count == 2:
        v = local_axis(joints, start + 1 - i)
        d = u - wp.dot(u, v) * v
    if count == 3:
        d = wp.cross(local_axis(joints, start + (i + 1) % 3), local_axis(joints, start + (i + 2) % 3))
    d = d / wp.dot(u, d)
    out = LoopAxis()
    out.valid = 1
    e = wp.quat_rotate(a.rotation, d)
    out.q = wp.dot(e, b.position - a.position)
    out.F = motion(wp.cross(b.position, e), e)
    return out


@wp.func
def one_angle(first: wp.vec3d, a: Anchor, b: Anchor):
    """The angle of a single axis."""
    out = LoopAxis()
    out.valid = 1
    out.q = twist_angle(wp.quat_inverse(a.rotation) * b.rotation, first)
    out.F = twist_covector(wp.quat_rotate(a.rotation, first), wp.quat_rotate(b.rotation, first))
    return out


@wp.func
def two_angles(first: wp.vec3d, second: wp.vec3d, i: int, a: Anchor, b: Anchor):
    """One angle of two: the second axis goes along with the child."""
    third = wp.cross(first, second)
    turned = wp.quat_inverse(a.rotation) * b.rotation
    out = LoopAxis()
    out.valid = 1
    if i == 0:
        seen = wp.quat_rotate(turned, second)
        out.q = wp.atan2(wp.dot(third, seen), wp.dot(second, seen))
        out.F = motion(wp.quat_rotate(a.rotation, first), wp.vec3d())
    else:
        seen = wp.quat_rotate_inv(turned, first)
        out.q = wp.atan2(wp.dot(third, seen), wp.dot(first, seen))
        out.F = motion(wp.quat_rotate(b.rotation, second), wp.vec3d())
    return out


@wp.func
def three_angles(first: wp.vec3d, second: wp.vec3d, third: wp.vec3d, i: int, a: Anchor, b: Anchor):
    """One angle of three, the middle one within a quarter turn."""
    cross = wp.cross(first, second)
    hand = wp.sign(wp.dot(cross, third))
    turned = wp.quat_inverse(a.rotation) * b.rotation
    up = wp.quat_rotate(turned, cross)
    back = wp.quat_rotate_inv(turned, first)
    q0 = wp.atan2(-wp.dot(second, up), wp.dot(cross, up))
    out = LoopAxis()
    out.q = q0
    if i == 1:
        out.q = wp.asin(wp.clamp(wp.dot(first, up), wp.float64(-1.0), wp.float64(1.0)))
    if i == 2:
        out.q = hand * wp.atan2(-wp.dot(second, back), wp.dot(first, back))
    # Rates are the dual basis of the three axes as they stand.
    A = wp.quat_rotate(a.rotation, first)
    B = wp.quat_rotate(a.rotation, wp.quat_rotate(wp.quat_from_axis_angle(first, q0), second))
    C = wp.quat_rotate(b.rotation, third)
    volume = wp.dot(A, wp.cross(B, C))
    d = B
    if i == 0:
        d = wp.cross(B, C) / volume
    if i == 2:
        d = wp.cross(A, B) / volume
    if i == 1 or wp.abs(volume) > GIMBAL_LOCK:
        out.valid = 1
        out.F = motion(d, wp.vec3d())  # else zero, not infinite
    return out


@wp.func
def ball_axis(i: int, a: Anchor, b: Anchor):
    """A ball joint turns about the axes of its parent anchor; its coordinates are those of the rotation vector."""
    out = LoopAxis()
    out.valid = 1
    e = wp.vec3d()
    e[i] = wp.float64(1.0)
    out.q = rotation_vector(wp.quat_inverse(a.rotation) * b.rotation)[i]
    out.F = motion(wp.quat_rotate(a.rotation, e), wp.vec3d())
    return out


@wp.func
def nearest_turn(q: wp.float64, expected: wp.float64):
    """The angle ``q`` plus as many whole turns as bring it closest to what was expected."""
    return q + TWO_PI * wp.round((expected - q) / TWO_PI)


@wp.func
def counts_turns(table: CouplingTable, c: int):
    """Whether the axis of a coupling turns by any number of turns; the middle one of three angles stays within a quarter."""
    turn = table.axis[c] - table.linear_axes[c]
    return turn >= 0 and (table.angular_axes[c] < 3 or turn != 1)


@wp.func
def loop_axis(joints: Joints, table: CouplingTable, c: int, a: Anchor, b: Anchor, joint_q: wp.array[wp.float32]):
    """The axis of a coupling as it stands."""
    joint = table.joint[c]
    start = table.axis_start[c]
    linear = table.linear_axes[c]
    i = table.axis[c]
    if joints.type[joint] == BALL:
        return ball_axis(i, a, b)
    if i < linear:
        return linear_axis(joints, start, linear, i, a, b)
    count = table.angular_axes[c]
    turn = i - linear
    first = local_axis(joints, start + linear)
    out = LoopAxis()
    if count == 1:
        out = one_angle(first, a, b)
    elif count == 2:
        out = two_angles(first, local_axis(joints, start + linear + 1), turn, a, b)
    else:
        second = local_axis(joints, start + linear + 1)
        out = three_angles(first, second, local_axis(joints, start + linear + 2), turn, a, b)
    if counts_turns(table, c):
        out.q = nearest_turn(out.q, wp.float64(joint_q[joints.q_start[joint] + i]))
    return out


@wp.func
def error_of(joints: Joints, joint: int, i: int, q: wp.float64, turned: wp.quatd, goal: wp.array[wp.float32]):
    """A goal minus the coordinate of an axis; for a ball joint, of the rotation vector in parent-anchor axes."""
    start = joints.q_start[joint]
    if joints.type[joint] == BALL:
        return rotation_vector(read_quaternion(goal, start) * wp.quat_inverse(turned))[i]
    return wp.float64(goal[start + i]) - q


@wp.func
def loop_drive(joints: Joints, step: JointInput, joint: int, i: int, q: wp.float64, turned: wp.quatd):
    """The drive of one axis."""
    k = joints.qd_start[joint] + i
    drive = drive_gains(joints, step.targets, k)
    if holds_position(joints, k):
        drive.error = error_of(joints, joint, i, q, turned, step.targets.q)
    return drive


@wp.func
def has_laws(joints: Joints, k: int):
    """Whether limits, a drive or dry friction are set; a NaN counts as set."""
    free = joints.limit_lower[k] <= -NO_LIMIT and joints.limit_upper[k] >= NO_LIMIT
    unlimited = limits_nothing(joints.velocity_limit[k])
    unresisted = unlimited and dry_friction(joints, k) <= 0.0
    return not (free and unresisted and joints.target_ke[k] + joints.target_kd[k] <= 0.0)


@wp.func
def given_effort(joints: Joints, step: JointInput, joint: int, i: int, axis: Axis, q: wp.float64, turned: wp.quatd):
    """Forces along an axis that are taken at the start of the step: ``joint_f``, explicit drives and springs."""
    k = axis.newton_dof
    effort = wp.float64(0.0)
    if step.joint_f.shape[0] > 0:
        effort = wp.float64(step.joint_f[k])
    if step.options.explicit_drives == 1 and joints.type[joint] != BALL:
        effort += explicit_effort(loop_drive(joints, step, joint, i, q, turned), axis.v0)
    if step.options.explicit_springs == 1:
        effort += wp.float64(joints.stiffness[k]) * error_of(joints, joint, i, q, turned, joints.rest_q)
    return effort


@wp.func
def has_forces(joints: Joints, step: JointInput, k: int):
    """Whether passive forces, an effort or an explicit drive are set; a NaN counts as set."""
    passive = joints.stiffness[k] + joints.damping[k] + joints.armature[k] != 0.0
    driven = step.options.explicit_drives == 1 and not (joints.target_ke[k] + joints.target_kd[k] <= 0.0)
    pushed = False
    if step.joint_f.shape[0] > 0:
        pushed = step.joint_f[k] != 0.0
    return passive or driven or pushed


@wp.func
def rate_of_rate(
    joints: Joints,
    table: CouplingTable,
    c: int,
    m: Motion,
    a: Anchor,
    b: Anchor,
    F: wp.spatial_vectord,
    joint_q: wp.array[wp.float32],
):
    """Acceleration of an axis while all dofs keep their velocity."""
    change = wp.spatial_vectord()
    times = int(2)  # no constant: the loop is not to be unrolled
    for side in range(times):
        sign = wp.float64(1 - 2 * side)
        there = loop_axis(joints, table, c, moved(m, a, sign * SHORT_TIME), moved(m, b, sign * SHORT_TIME), joint_q)
        change = change + sign * there.F
    return steady_acceleration(m, a, b, F, change)


@wp.func
def law_of_axis(
    joints: Joints,
    step: JointInput,
    joint: int,
    i: int,
    which: int,
    axis: Axis,
    q: wp.float64,
    turned: wp.quatd,
    dt: wp.float64,
):
    """One of the laws of a free axis, but for its armature."""
    k = axis.newton_dof
    law = RowLaw()
    scalar = joints.type[joint] != BALL
    if which == DRIVE and not (scalar and step.options.explicit_drives == 1):
        law = drive_law(step.options, axis, loop_drive(joints, step, joint, i, q, turned), dt)
    elif which == LOWER and scalar:
        law = lower_limit_law(joints, step.options, axis, q, dt)
    elif which == UPPER and scalar:
        law = upper_limit_law(joints, step.options, axis, q, dt)
    elif which == FASTEST:
        law = velocity_limit_law(joints, step.options, axis)
    elif which == FRICTION:
        law = friction_law(step.options, axis, dry_friction(joints, k), dt)
    elif which == EFFORT:
        law = effort_law(given_effort(joints, step, joint, i, axis, q, turned), axis, dt)
    elif which == PASSIVE:
        stretch = error_of(joints, joint, i, q, turned, joints.rest_q)
        law = passive_law(step.options, axis, joints.stiffness[k], joints.damping[k], stretch, dt)
    return law


@wp.func
def loop_axis_rows(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    forces: int,
    step: JointInput,
    dt: wp.float64,
):
    """Limits, drive and dry friction of one free axis; or what in a tree is part of the free motion: its forces."""
    joint = table.joint[c]
    i = table.axis[c]
    k = table.axis_start[c] + i
    first = int(0)
    last = int(AXIS_LAWS)
    if forces == 1:
        first = AXIS_LAWS
        last = ALL_LAWS
        if not has_forces(joints, step, k):
            return row
    elif not has_laws(joints, k):
        return row
    a, b = joint_anchors(tree, joints, table, m, c)
    at = loop_axis(joints, table, c, a, b, step.joint_q)
    axis = measure_axis(tree, m, pool, problem, row, a, b, at.F)
    if at.valid == 0 or axis.w <= wp.float64(0.0):
        return row
    axis.newton_dof = k
    turned = wp.quat_inverse(a.rotation) * b.rotation
    for which in range(first, last):
        law = law_of_axis(joints, step, joint, i, which, axis, at.q, turned, dt)
        if which == ARMATURE and joints.armature[k] != 0.0:
            # The armature keeps the axis's own rate; what the turning of the axes makes of it comes from outside.
            keeps = axis.v0 - dt * rate_of_rate(joints, table, c, m, a, b, at.F, step.joint_q)
            law = armature_law(joints.armature[k], keeps)
        row = place_row(tree, m, pool, problem, row, a, b, at.F, law)
    return row
