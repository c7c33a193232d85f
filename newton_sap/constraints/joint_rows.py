"""Scalar rows of joints: position limits, PD drives, dry friction and velocity limits (F 2.7, 2.8, 2.10)."""

import warp as wp

from ..multibody.joints import is_free
from ..workspace import Joints, Motion, RowPool, Tree
from .clamped_linear import FOUR_PI_SQUARED, regularization
from .drives import Drive, Targets, read_drive

wp.set_module_options({"enable_backward": False})

NO_LIMIT = wp.constant(wp.float32(1.0e9))
NO_VELOCITY_LIMIT = wp.constant(wp.float32(1.0e6))
UNBOUNDED = wp.constant(wp.float64(1.0e300))


@wp.struct
class JointLaw:
    """Options of the joint rows."""

    beta: wp.float64  # near_rigid_joint
    sigma: wp.float64  # friction_regularization
    ahead: int  # dissipation_ahead_of_touch
    explicit_drives: int  # drive_integration


@wp.struct
class Axis:
    """One dof as its rows see it."""

    dof: int
    newton_dof: int
    w: wp.float64  # 1 / A_ii
    speed: wp.float64  # max(|v0|, |v_star|)
    driven: int


@wp.func
def push(
    rows: RowPool,
    at: int,
    dof: int,
    sign: float,
    v_hat: wp.float64,
    R: wp.float64,
    lower: wp.float64,
    upper: wp.float64,
):
    """Append a row; ``unknown`` holds the dof until the problem numbers its unknowns."""
    rows.unknown[at] = dof
    rows.sign[at] = wp.float64(sign)
    rows.v_hat[at] = v_hat
    rows.R[at] = R
    rows.lower[at] = lower
    rows.upper[at] = upper
    return at + 1


@wp.func
def drive_acts(drive: Drive, dt: wp.float64):
    """Whether a drive can exert anything, NaN included; one that can is the first row of its dof."""
    return not (dt * drive.kp + drive.kd <= wp.float64(0.0) or dt * drive.effort <= wp.float64(0.0))


@wp.func
def push_drive(rows: RowPool, law: JointLaw, at: int, axis: Axis, drive: Drive, dt: wp.float64):
    """The drive's effort at the end of the step, with gains no stiffer than the step resolves."""
    if not drive_acts(drive, dt):
        return at
    gain = dt * drive.kp + drive.kd
    bound = dt * drive.effort
    # Limiting the gains keeps their ratio, hence the goal velocity.
    R = wp.max(wp.float64(1.0) / (dt * gain), law.beta * law.beta * axis.w / FOUR_PI_SQUARED)
    goal = (drive.kp * drive.error + drive.kd * drive.rate) / gain
    return push(rows, at, axis.dof, 1.0, goal, R, -bound, bound)


@wp.func
def push_limit(
    joints: Joints, rows: RowPool, law: JointLaw, at: int, axis: Axis, gap: wp.float64, sign: float, dt: wp.float64
):
    """Keep ``gap`` from closing, once the joint could reach it."""
    k = wp.float64(joints.limit_ke[axis.newton_dof])
    if k <= wp.float64(0.0):
        return at
    # A drive may move the joint farther than its free motion shows; Drake does not look for that.
    if (axis.driven == 0 or law.ahead == 1) and gap > wp.float64(2.0) * dt * axis.speed:
        return at
    tau = wp.float64(joints.limit_kd[axis.newton_dof]) / k
    if gap > wp.float64(0.0) and law.ahead == 0:
        tau = wp.float64(0.0)
    R = regularization(dt, k, tau, axis.w, law.beta)
    return push(rows, at, axis.dof, sign, -gap / (dt + tau), R, wp.float64(0.0), UNBOUNDED)


@wp.func
def push_friction(joints: Joints, rows: RowPool, law: JointLaw, at: int, axis: Axis, dt: wp.float64):
    """Dry friction: hold the joint with at most +-friction."""
    bound = dt * wp.float64(joints.friction[axis.newton_dof])
    if bound <= wp.float64(0.0):
        return at
    return push(rows, at, axis.dof, 1.0, wp.float64(0.0), law.sigma * axis.w, -bound, bound)


@wp.func
def push_velocity_limits(joints: Joints, rows: RowPool, law: JointLaw, at: int, axis: Axis):
    """|v| <= limit, as one row per direction."""
    limit = joints.velocity_limit[axis.newton_dof]
    if limit >= NO_VELOCITY_LIMIT or limit <= 0.0:
        return at
    v_hat = -wp.float64(limit)
    R = law.beta * law.beta * axis.w / FOUR_PI_SQUARED
    at = push(rows, at, axis.dof, 1.0, v_hat, R, wp.float64(0.0), UNBOUNDED)
    return push(rows, at, axis.dof, -1.0, v_hat, R, wp.float64(0.0), UNBOUNDED)


@wp.func
def axis_rows(
    tree: Tree,
    joints: Joints,
    rows: RowPool,
    law: JointLaw,
    joint_q: wp.array[wp.float32],
    at: int,
    axis: Axis,
    drive: Drive,
    dt: wp.float64,
):
    """All rows of one dof of a chain or ball joint."""
    before = at
    coord = tree.dof_coord[axis.dof]
    if coord < 0 or law.explicit_drives == 0:
        at = push_drive(rows, law, at, axis, drive, dt)
    axis.driven = at - before
    if coord >= 0:
        q0 = wp.float64(joint_q[coord])
        lower = joints.limit_lower[axis.newton_dof]
        upper = joints.limit_upper[axis.newton_dof]
        # Written so that a limit that is NaN makes a row, and is counted.
        if not (lower <= -NO_LIMIT):
            at = push_limit(joints, rows, law, at, axis, q0 - wp.float64(lower), 1.0, dt)
        if not (upper >= NO_LIMIT):
            at = push_limit(joints, rows, law, at, axis, wp.float64(upper) - q0, -1.0, dt)
    at = push_velocity_limits(joints, rows, law, at, axis)
    return push_friction(joints, rows, law, at, axis, dt)


@wp.func
def make_axis(tree: Tree, m: Motion, t: int, dof: int):
    """A dof with its effective mass and speed."""
    first = tree.tree_dof_start[t]
    size = tree.tree_dof_start[t + 1] - first
    axis = Axis()
    axis.dof = dof
    axis.newton_dof = tree.dof_public[dof]
    axis.w = wp.float64(1.0) / m.A[tree.tree_block_start[t] + (dof - first) * (size + 1)]
    axis.speed = wp.max(wp.abs(m.v0[dof]), wp.abs(m.v_star[dof]))
    return axis


@wp.func
def link_rows(
    tree: Tree,
    joints: Joints,
    m: Motion,
    rows: RowPool,
    law: JointLaw,
    targets: Targets,
    joint_q: wp.array[wp.float32],
    link: int,
    at: int,
    dt: wp.float64,
):
    """All rows of one link's joint; returns the next free row."""
    joint = tree.link_joint[link]
    t = tree.link_tree[link]
    start = tree.link_dof_start[link]
    free = is_free(joints.type[joint])
    for dof in range(wp.max(start, tree.tree_dof_start[t] + m.locked[t]), tree.link_dof_start[link + 1]):
        axis = make_axis(tree, m, t, dof)
        if free:
            at = push_velocity_limits(joints, rows, law, at, axis)
        else:
            drive = read_drive(tree, joints, targets, joint_q, joint, dof, wp.min(dof - start, 2))
            at = axis_rows(tree, joints, rows, law, joint_q, at, axis, drive, dt)
    return at
