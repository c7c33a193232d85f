"""The laws of one joint coordinate: limits, drives, dry friction, velocity limits and passive forces (F 2.6 to 2.10).

Each function returns a clamped-linear row. On a dof of a tree the row acts on that dof alone (``joint_rows``), on an
axis of a loop joint through the velocities of both bodies (``loop_axes``), on a tendon through those of its dofs
(``tendons``).
"""

import warp as wp

from ..multibody.drives import Drive, Targets
from ..workspace import Joints, RowLaw
from .clamped_linear import HARDER, near_rigid, regularization

wp.set_module_options({"enable_backward": False})

NO_LIMIT = wp.constant(wp.float32(1.0e9))
NO_VELOCITY_LIMIT = wp.constant(wp.float32(1.0e6))
SPEED_GIVES = wp.constant(wp.float64(0.01))
"""How much a velocity limit gives way against a near-rigid row, or drives that are as stiff would break it."""
STIFFEST = wp.constant(wp.float64(6.0e-4))
"""``beta`` of springs: many in a row add up to one whose period the step resolves, so rounding alone bounds each."""
UNBOUNDED = wp.constant(wp.float64(1.0e300))


@wp.struct
class JointOptions:
    """Options of the joint rows."""

    beta: wp.float64  # near_rigid_joint
    coupling_beta: wp.float64  # near_rigid_coupling
    sigma: wp.float64  # friction_regularization
    stiction_limit: wp.float64  # creep that dry friction is regularised at by its own inertia, at most [q/s]
    ahead: int  # dissipation_ahead_of_touch
    explicit_drives: int  # drive_integration
    explicit_springs: int  # spring_integration
    foresees: int  # 1 where couplings know what their errors open by beside their rate within a step (position_update)


@wp.struct
class JointInput:
    """What the rows of joints depend on besides the model and the motion."""

    options: JointOptions
    targets: Targets
    joint_q: wp.array[wp.float32]
    joint_f: wp.array[wp.float32]  # length zero where the caller applies none


@wp.struct
class Axis:
    """One coordinate as its rows see it."""

    dof: int  # of the solver; -1 for an axis of a loop joint or a tendon
    newton_dof: int
    w: wp.float64  # effective inverse mass
    v0: wp.float64  # rate at the start of the step
    speed: wp.float64  # max(|v0|, |v_star|)


@wp.func
def expected_speed(axis: Axis):
    """What a coordinate's rate is expected to stay below; drives, contacts and couplings may throw it farther."""
    return wp.float64(2.0) * axis.speed


@wp.func
def row_law(sign: wp.float64, v_hat: wp.float64, R: wp.float64, lower: wp.float64, upper: wp.float64):
    """A row that acts; bounds that are no numbers, which a clamp would pass over, make its velocity none."""
    row = RowLaw()
    row.sign = sign
    row.v_hat = v_hat
    if not (lower <= upper):
        row.v_hat = lower + upper
    row.R = R
    row.lower = lower
    row.upper = upper
    return row


@wp.func
def least_parameter(joints: Joints, dof: int):
    """The least of what may not be negative of a Newton dof, beside armature, which shows in the mass matrix."""
    passive = wp.min(joints.stiffness[dof], joints.damping[dof])
    gains = wp.min(joints.target_ke[dof], joints.target_kd[dof])
    stops = wp.min(joints.limit_ke[dof], joints.limit_kd[dof])
    bounds = wp.min(joints.effort_limit[dof], joints.velocity_limit[dof])
    return wp.min(wp.min(wp.min(passive, gains), wp.min(stops, bounds)), joints.friction[dof])


@wp.func
def dry_friction(joints: Joints, dof: int):
    """Dry friction of a Newton dof; NaN where something of the dof became negative, so that the step is counted.

    Construction refuses that. Otherwise some of it would feed energy, and the rest act no longer.
    """
    return wp.where(least_parameter(joints, dof) < 0.0, wp.float32(wp.nan), joints.friction[dof])


@wp.func
def drive_acts(drive: Drive, dt: wp.float64):
    """Whether a drive can exert anything, NaN included; one that can is the first row of its coordinate."""
    nothing = drive.lower == wp.float64(0.0) and drive.upper == wp.float64(0.0)
    return not (dt * drive.kp + drive.kd <= wp.float64(0.0) or nothing or drive.upper < drive.lower)


@wp.func
def drive_law(options: JointOptions, axis: Axis, drive: Drive, dt: wp.float64):
    """The drive's effort at the end of the step, with gains no stiffer than the step resolves."""
    if not drive_acts(drive, dt):
        return RowLaw()
    gain = dt * drive.kp + drive.kd
    # Limiting the gains keeps their ratio, hence the goal velocity.
    R = wp.max(wp.float64(1.0) / (dt * gain), near_rigid(options.beta, axis.w))
    goal = (drive.kp * drive.error + drive.kd * drive.rate) / gain
    return row_law(wp.float64(1.0), goal, R, dt * drive.lower, dt * drive.upper)


@wp.func
def stop_within(
    options: JointOptions,
    axis: Axis,
    k: wp.float64,
    tau: wp.float64,
    beta: wp.float64,
    gap: wp.float64,
    sign: wp.float64,
    dt: wp.float64,
):
    """Keep ``gap`` from closing by the stiffness ``k`` and the relaxation time ``tau``, no stiffer than ``beta`` allows."""
    # Drake does not look for what may throw a joint farther.
    if options.ahead == 1 and gap > dt * expected_speed(axis):
        return RowLaw()
    delay = tau
    if gap > wp.float64(0.0) and options.ahead == 0:
        delay = wp.float64(0.0)
    R = regularization(dt, k, delay, axis.w, beta)
    return row_law(sign, -gap / (dt + delay), R, wp.float64(0.0), UNBOUNDED)


@wp.func
def stop_law(
    options: JointOptions,
    axis: Axis,
    k: wp.float64,
    kd: wp.float64,
    gap: wp.float64,
    sign: wp.float64,
    dt: wp.float64,
):
    """Keep ``gap`` from closing by the stiffness ``k`` and damping ``kd``."""
    if k <= wp.float64(0.0):
        return RowLaw()
    return stop_within(options, axis, k, kd / k, options.beta, gap, sign, dt)


@wp.func
def lower_limit_law(joints: Joints, options: JointOptions, axis: Axis, q: wp.float64, dt: wp.float64):
    """Keep a coordinate above its lower limit; limits that came to leave no room are none, and are counted."""
    bound = joints.limit_lower[axis.newton_dof]
    bound = wp.where(bound > joints.limit_upper[axis.newton_dof], wp.float32(wp.nan), bound)
    # Written so that a limit that is NaN makes a row, and is counted.
    if bound <= -NO_LIMIT:
        return RowLaw()
    k = wp.float64(joints.limit_ke[axis.newton_dof])
    kd = wp.float64(joints.limit_kd[axis.newton_dof])
    return stop_law(options, axis, k, kd, q - wp.float64(bound), wp.float64(1.0), dt)


@wp.func
def upper_limit_law(joints: Joints, options: JointOptions, axis: Axis, q: wp.float64, dt: wp.float64):
    """Keep a coordinate below its upper limit."""
    bound = joints.limit_upper[axis.newton_dof]
    if bound >= NO_LIMIT:
        return RowLaw()
    k = wp.float64(joints.limit_ke[axis.newton_dof])
    kd = wp.float64(joints.limit_kd[axis.newton_dof])
    return stop_law(options, axis, k, kd, wp.float64(bound) - q, wp.float64(-1.0), dt)


@wp.func
def friction_law(options: JointOptions, axis: Axis, friction: wp.float32, dt: wp.float64):
    """Dry friction: hold the coordinate with at most +-friction.

    It creeps by what moves the coordinate alone, which may be little beside what else holds on to it: from some speed on by less.
    """
    bound = dt * wp.float64(friction)
    if bound <= wp.float64(0.0):
        return RowLaw()
    R = options.sigma * axis.w
    if R * bound > options.stiction_limit:
        R = wp.max(options.stiction_limit / bound, HARDER * R)
    return row_law(wp.float64(1.0), wp.float64(0.0), R, -bound, bound)


@wp.func
def limits_nothing(velocity_limit: wp.float32):
    """Whether a velocity limit stands for none; what is no number does not."""
    return velocity_limit >= NO_VELOCITY_LIMIT or velocity_limit <= 0.0


@wp.func
def velocity_limit_law(joints: Joints, options: JointOptions, axis: Axis):
    """|v| <= limit."""
    limit = joints.velocity_limit[axis.newton_dof]
    if limits_nothing(limit):
        return RowLaw()
    speed = wp.float64(limit)
    R = SPEED_GIVES * near_rigid(options.beta, axis.w)
    # v_hat is zero, or no number where the limit is none.
    row = row_law(wp.float64(1.0), speed - speed, R, -UNBOUNDED, UNBOUNDED)
    row.slack = speed
    return row


@wp.func
def spring_law(axis: Axis, stiffness: wp.float32, damping: wp.float32, stretch: wp.float64, dt: wp.float64):
    """Spring and damper at the end of the step."""
    k = wp.float64(stiffness)
    gain = dt * k + wp.float64(damping)
    if gain <= wp.float64(0.0):
        return RowLaw()
    R = wp.max(wp.float64(1.0) / (dt * gain), near_rigid(STIFFEST, axis.w))
    return row_law(wp.float64(1.0), k * stretch / gain, R, -UNBOUNDED, UNBOUNDED)


@wp.func
def passive_law(
    options: JointOptions, axis: Axis, stiffness: wp.float32, damping: wp.float32, stretch: wp.float64, dt: wp.float64
):
    """Spring and damper of an axis, without a spring that is explicit; ``stretch`` is the rest coordinate minus the present one."""
    implicit = stiffness
    if options.explicit_springs == 1:
        implicit = wp.float32(0.0)
    return spring_law(axis, implicit, damping, stretch, dt)


@wp.func
def effort_law(effort: wp.float64, axis: Axis, dt: wp.float64):
    """A given effort [N or N m]: both bounds are its impulse."""
    if effort == wp.float64(0.0):
        return RowLaw()
    return row_law(wp.float64(1.0), wp.float64(0.0), axis.w, dt * effort, dt * effort)


@wp.func
def armature_law(armature: wp.float32, keeps: wp.float64):
    """Inertia of a coordinate itself, which would keep a certain rate: the impulse ``armature (keeps - v)``."""
    inertia = wp.float64(armature)
    if inertia == wp.float64(0.0):
        return RowLaw()
    R = wp.where(inertia < wp.float64(0.0), wp.float64(wp.nan), wp.float64(1.0) / inertia)
    return row_law(wp.float64(1.0), keeps, R, -UNBOUNDED, UNBOUNDED)
