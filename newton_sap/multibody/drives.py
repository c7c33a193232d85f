"""PD drives: gains by target mode, the error they see, and their effort at the start of a step."""

import newton
import warp as wp

from ..workspace import Joints, Tree
from .joints import BALL, read_quaternion
from .spatial import rotation_vector

wp.set_module_options({"enable_backward": False})

POSITION = wp.constant(int(newton.JointTargetMode.POSITION))
VELOCITY = wp.constant(int(newton.JointTargetMode.VELOCITY))
POSITION_VELOCITY = wp.constant(int(newton.JointTargetMode.POSITION_VELOCITY))


@wp.struct
class Targets:
    """The caller's drive targets (Newton's control arrays)."""

    q: wp.array[wp.float32]  # coordinates
    qd: wp.array[wp.float32]  # dofs


@wp.struct
class Drive:
    """One dof's PD law ``kp error + kd (rate - v)``, between two bounds."""

    kp: wp.float64  # [N/m or N m/rad]
    kd: wp.float64
    error: wp.float64  # target minus coordinate at the start of the step
    rate: wp.float64  # target velocity; zero for position drives
    lower: wp.float64  # [N or N m]
    upper: wp.float64


@wp.func
def target_error(
    tree: Tree, joints: Joints, targets: Targets, joint_q: wp.array[wp.float32], joint: int, dof: int, i: int
):
    """Target minus coordinate; for the i-th axis of a ball joint, of the rotation vector in parent-anchor axes."""
    coord = tree.dofs[dof].q
    if coord >= 0:
        return wp.float64(targets.q[coord]) - wp.float64(joint_q[coord])
    error = wp.float64(0.0)
    if joints.type[joint] == BALL:
        start = joints.q_start[joint]
        goal = read_quaternion(targets.q, start)
        error = rotation_vector(goal * wp.quat_inverse(read_quaternion(joint_q, start)))[i]
    return error


@wp.func
def holds_position(joints: Joints, k: int):
    """Whether the drive of a Newton dof sees its coordinate."""
    return joints.target_mode[k] == POSITION or joints.target_mode[k] == POSITION_VELOCITY


@wp.func
def drive_gains(joints: Joints, targets: Targets, k: int):
    """The drive of a Newton dof but for its error, all zero where its mode is none or effort."""
    drive = Drive()
    mode = joints.target_mode[k]
    if holds_position(joints, k):
        drive.kp = wp.float64(joints.target_ke[k])
    if mode == VELOCITY or mode == POSITION_VELOCITY:
        drive.rate = wp.float64(targets.qd[k])
    if mode == POSITION or mode == VELOCITY or mode == POSITION_VELOCITY:
        drive.kd = wp.float64(joints.target_kd[k])
    if joints.effort_upper.shape[0] > 0:
        drive.lower = wp.float64(joints.effort_lower[k])
        drive.upper = wp.float64(joints.effort_upper[k])
    else:
        drive.lower = -wp.float64(joints.effort_limit[k])
        drive.upper = wp.float64(joints.effort_limit[k])
    return drive


@wp.func
def read_drive(
    tree: Tree, joints: Joints, targets: Targets, joint_q: wp.array[wp.float32], joint: int, dof: int, i: int
):
    """The drive of a dof of a tree."""
    k = tree.dofs[dof].qd
    drive = drive_gains(joints, targets, k)
    if holds_position(joints, k):
        drive.error = target_error(tree, joints, targets, joint_q, joint, dof, i)
    return drive


@wp.func
def explicit_effort(drive: Drive, v0: wp.float64):
    """The drive's effort at the start of the step; what is no number stays none, which ``wp.clamp`` would hide."""
    effort = wp.float64(0.0)
    if drive.kp != wp.float64(0.0) or drive.kd != wp.float64(0.0):
        effort = drive.kp * drive.error + drive.kd * (drive.rate - v0)
        if effort < drive.lower:
            effort = drive.lower
        elif effort > drive.upper:
            effort = drive.upper
        if not (drive.lower <= drive.upper):
            effort = drive.lower + drive.upper
    return effort
