"""What one of MuJoCo's actuators exerts, by the tables that the model has of them; shared by all that they act on."""

import warp as wp

from .actuator_rows import BIASED, CONTROL_BOUNDED, FORCE_BOUNDED, NO_BOUND

wp.set_module_options({"enable_backward": False})

vec6 = wp.types.vector(length=6, dtype=wp.float32)
vec10 = wp.types.vector(length=10, dtype=wp.float32)


@wp.struct
class ActuatorTable:
    """Direct actuators by the axis they act on: Newton's D dofs, then T tendons, then B bodies, if some push bodies.

    On bodies act those of sites, and those of free and ball joints: on the joint's child, and on the parent the other way.
    """

    changes_drives: int  # 0 where all are motors
    axis_start: wp.array[wp.int32]  # (D + T + B + 1,) range of each axis in row
    site: wp.array[wp.int32]  # by row: shape of the site a motor acts on, -1 where it acts on a joint
    joint: wp.array[wp.int32]  # by row: that joint, where it is free or a ball
    site_transform: wp.array[wp.transform]  # by shape, on its body
    body_com: wp.array[wp.vec3]
    joint_type: wp.array[wp.int32]
    joint_parent: wp.array[wp.int32]
    joint_child: wp.array[wp.int32]
    joint_X_p: wp.array[wp.transform]
    joint_X_c: wp.array[wp.transform]
    row: wp.array[wp.int32]  # row in MuJoCo's table, and in ctrl
    traits: wp.array[wp.uint8]  # by row: which of BIASED, CONTROL_BOUNDED, FORCE_BOUNDED and IN_PARENT it is
    tendon_bounded: wp.array[wp.int32]  # (T,) 1 where tendon_range counts
    tendon_range: wp.array[wp.vec2]  # (T,) what all actuators of a tendon may exert before their gears [N]
    # Of length zero where all are motors:
    drive_range: wp.array[wp.vec2]  # (D,) what force ranges leave to the model's drive [N or N m]
    target_range: wp.array[wp.vec4]  # (D,) and control ranges to its targets: of MuJoCo's coordinate, of the rate
    coord: wp.array[wp.int32]  # (D,) -1 where the coordinate is a quaternion
    of_quaternion: wp.array[wp.int32]  # (coordinates,) 1 for a quaternion's
    # As in MuJoCo's table, read live:
    gain: wp.array[vec10]
    bias: wp.array[vec10]
    gear: wp.array[vec6]
    control_range: wp.array[wp.vec2]
    force_range: wp.array[wp.vec2]
    ref: wp.array[wp.float32]  # MuJoCo's coordinate minus Newton's; empty if not registered


@wp.struct
class Commands:
    """Forces and drives of one step, with the actuators in them; lengths and units as in Newton's arrays."""

    body_f: wp.array[wp.spatial_vector]  # empty where no motor pushes a body
    joint_f: wp.array[wp.float32]
    target_q: wp.array[wp.float32]
    target_qd: wp.array[wp.float32]
    target_mode: wp.array[wp.int32]
    target_ke: wp.array[wp.float32]
    target_kd: wp.array[wp.float32]
    effort_limit: wp.array[wp.float32]  # of what is given
    effort_lower: wp.array[wp.float32]  # of what comes out
    effort_upper: wp.array[wp.float32]


@wp.struct
class Actuation:
    """What says which forces the direct actuators exert in one step."""

    table: ActuatorTable
    given: Commands
    ctrl: wp.array[wp.float32]
    body_q: wp.array[wp.transform]


@wp.func
def has(table: ActuatorTable, a: int, trait: int):
    """Whether an actuator is biased or bounded."""
    return (int(table.traits[a]) & trait) != 0


@wp.func
def within(value: wp.float32, bounded: bool, lower: wp.float32, upper: wp.float32):
    """Clamp where a range is given; a value that is not a number stays, and is counted."""
    if bounded and value < lower:
        return lower
    if bounded and value > upper:
        return upper
    return value


@wp.struct
class Servo:
    """What one actuator does: ``force - ke q - kd v`` on its axis, with MuJoCo's coordinate ``q``."""

    force: wp.float32
    ke: wp.float32
    kd: wp.float32


@wp.func
def constant_force(table: ActuatorTable, ctrl: wp.array[wp.float32], a: int):
    """What an actuator exerts whatever its coordinate and velocity, before its gear."""
    limits = table.control_range[a]
    force = table.gain[a][0] * within(ctrl[a], has(table, a, CONTROL_BOUNDED), limits[0], limits[1])
    if has(table, a, BIASED):
        force += table.bias[a][0]
    return force


@wp.func
def read_servo(table: ActuatorTable, ctrl: wp.array[wp.float32], a: int):
    """An actuator without its force range."""
    servo = Servo()
    gear = table.gear[a][0]
    servo.force = gear * constant_force(table, ctrl, a)
    if has(table, a, BIASED):
        servo.ke = -table.bias[a][1] * gear * gear
        servo.kd = -table.bias[a][2] * gear * gear
    return servo


@wp.func
def is_motor(servo: Servo):
    """Whether an actuator sees neither coordinate nor velocity."""
    return servo.ke == 0.0 and servo.kd == 0.0


@wp.func
def motor_pull(table: ActuatorTable, ctrl: wp.array[wp.float32], a: int):
    """What a motor exerts within its force range, before its gear."""
    bounds = table.force_range[a]
    return within(constant_force(table, ctrl, a), has(table, a, FORCE_BOUNDED), bounds[0], bounds[1])


@wp.func
def geared(table: ActuatorTable, a: int, lower: wp.float32, upper: wp.float32):
    """A range of forces after an actuator's gear, which may turn it round."""
    bounds = table.gear[a][0] * wp.vec2(lower, upper)
    return wp.vec2(wp.min(bounds), wp.max(bounds))


@wp.func
def servo_range(table: ActuatorTable, a: int):
    """Between what a servo exerts, after its gear."""
    if has(table, a, FORCE_BOUNDED):
        return geared(table, a, table.force_range[a][0], table.force_range[a][1])
    return wp.vec2(-wp.float32(NO_BOUND), wp.float32(NO_BOUND))
