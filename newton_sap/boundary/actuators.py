"""MuJoCo's actuators, as importers leave them in ``model.mujoco``: motors become joint forces, servos drives.

A direct actuator takes ``control.mujoco.ctrl`` and puts ``gear f`` on a dof or a tendon, with
``f = clamp(gain ctrl + bias_0 + bias_1 gear q + bias_2 gear v)``. What sees the coordinate or the velocity acts at the end
of the step like every drive, so that stiff servos are stable; the rest is a force like ``joint_f``. On a site a motor puts
``f`` times all six of its gears, in the site's axes, on the body. Actuators that take
``joint_target_q`` and ``joint_target_qd`` are drives of the model already; their force range bounds them. Parameters are
read live, but for those ranges; what is a motor and what a servo is settled at construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import newton
import warp as wp

from ..constraints.drives import POSITION, VELOCITY
from ..workspace import Joints, Tendons, allocate
from .actuator_rows import BIASED, CONTROL_BOUNDED, FORCE_BOUNDED, UNBOUNDED, ActuatorRows, read_actuators
from .bundles import targets
from .convention import Orders
from .parts import whole_of
from .tendons import reference_coordinates
from .validation import require_arrays

wp.set_module_options({"enable_backward": False})

vec6 = wp.types.vector(length=6, dtype=wp.float32)
vec10 = wp.types.vector(length=10, dtype=wp.float32)

_DRIVES = ("target_mode", "target_ke", "target_kd", "effort_limit")


@wp.struct
class ActuatorTable:
    """Direct actuators by the axis they act on: Newton's D dofs, then T tendons, then B bodies, if some act on sites."""

    changes_drives: int  # 0 where all are motors
    axis_start: wp.array[wp.int32]  # (D + T + B + 1,) range of each axis in row
    site: wp.array[wp.int32]  # by row: shape of the site a motor acts on
    site_transform: wp.array[wp.transform]  # by shape, on its body
    body_com: wp.array[wp.vec3]
    row: wp.array[wp.int32]  # row in MuJoCo's table, and in ctrl
    traits: wp.array[wp.uint8]  # by row: which of BIASED, CONTROL_BOUNDED and FORCE_BOUNDED it is
    tendon_bounded: wp.array[wp.int32]  # (T,) 1 where tendon_range counts
    tendon_range: wp.array[wp.vec2]  # (T,) what all actuators of a tendon may exert before their gears [N]
    # Of length zero where all are motors:
    drive_bound: wp.array[wp.float32]  # (D,) what force ranges leave to the model's drive [N or N m]
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

    body_f: wp.array[wp.spatial_vector]  # empty where no motor acts on a site
    joint_f: wp.array[wp.float32]
    target_q: wp.array[wp.float32]
    target_qd: wp.array[wp.float32]
    target_mode: wp.array[wp.int32]
    target_ke: wp.array[wp.float32]
    target_kd: wp.array[wp.float32]
    effort_limit: wp.array[wp.float32]


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
def motor_force(table: ActuatorTable, a: int, servo: Servo):
    """What a motor exerts, within its force range."""
    bounds = table.gear[a][0] * table.force_range[a]
    return within(servo.force, has(table, a, FORCE_BOUNDED), wp.min(bounds), wp.max(bounds))


@wp.func
def servo_bound(table: ActuatorTable, a: int, otherwise: wp.float32):
    """The most that a servo exerts, and no more than something else."""
    if has(table, a, FORCE_BOUNDED):
        return wp.min(otherwise, wp.abs(table.gear[a][0]) * table.force_range[a][1])
    return otherwise


@wp.struct
class AxisDrive:
    """The drive of one dof; the coordinate's target where it has one."""

    q: wp.float32
    qd: wp.float32
    mode: int
    ke: wp.float32
    kd: wp.float32
    limit: wp.float32


@wp.func
def servo_drive(table: ActuatorTable, dof: int, a: int, servo: Servo, drive: AxisDrive):
    """A servo as the drive of its dof, in the mode that has its gains."""
    out = AxisDrive()
    out.q = drive.q
    out.qd = drive.qd
    out.ke = servo.ke
    out.kd = servo.kd
    out.limit = servo_bound(table, a, drive.limit)
    if servo.ke == 0.0:
        out.mode = VELOCITY
        out.qd = servo.force / servo.kd
    else:
        out.mode = POSITION
        ref = wp.float32(0.0)
        if table.ref.shape[0] > 0:
            ref = table.ref[dof]
        out.q = servo.force / servo.ke - ref
    return out


@wp.func
def given_drive(table: ActuatorTable, given: Commands, dof: int):
    """The drive as the caller and the model give it, within what force ranges leave to it."""
    drive = AxisDrive()
    if table.coord[dof] >= 0:
        drive.q = given.target_q[table.coord[dof]]
    drive.qd = given.target_qd[dof]
    drive.mode = given.target_mode[dof]
    drive.ke = given.target_ke[dof]
    drive.kd = given.target_kd[dof]
    drive.limit = wp.min(given.effort_limit[dof], table.drive_bound[dof])
    return drive


@wp.func
def write_drive(table: ActuatorTable, out: Commands, dof: int, drive: AxisDrive):
    """Let the step see a drive."""
    if table.coord[dof] >= 0:
        out.target_q[table.coord[dof]] = drive.q
    out.target_qd[dof] = drive.qd
    out.target_mode[dof] = drive.mode
    out.target_ke[dof] = drive.ke
    out.target_kd[dof] = drive.kd
    out.effort_limit[dof] = drive.limit


@wp.func
def sum_motors(table: ActuatorTable, ctrl: wp.array[wp.float32], dof: int):
    """What the motors of one dof exert together."""
    motors = wp.float32(0.0)
    for k in range(table.axis_start[dof], table.axis_start[dof + 1]):
        a = table.row[k]
        servo = read_servo(table, ctrl, a)
        if is_motor(servo):
            motors += motor_force(table, a, servo)
    return motors


@wp.func
def find_drive(table: ActuatorTable, given: Commands, ctrl: wp.array[wp.float32], dof: int):
    """The drive of one dof: its servo, if it has one."""
    drive = given_drive(table, given, dof)
    for k in range(table.axis_start[dof], table.axis_start[dof + 1]):
        a = table.row[k]
        servo = read_servo(table, ctrl, a)
        if not is_motor(servo):
            drive = servo_drive(table, dof, a, servo, drive)
    return drive


@wp.func
def command(table: ActuatorTable, given: Commands, ctrl: wp.array[wp.float32], out: Commands, dof: int):
    """What the caller commands one dof, and its direct actuators.

    Loops are functions of their own here: going back, a function does not know what its own loops have found.
    """
    if table.changes_drives == 1:
        write_drive(table, out, dof, find_drive(table, given, ctrl, dof))
    limit = given.effort_limit[dof]
    force = within(sum_motors(table, ctrl, dof), True, -limit, limit)
    if given.joint_f.shape[0] > 0:
        force += given.joint_f[dof]
    out.joint_f[dof] = force


@wp.func
def command_tendon(table: ActuatorTable, ctrl: wp.array[wp.float32], tendons: Tendons, axis: int, t: int):
    """The direct actuators of one tendon."""
    effort = wp.float32(0.0)
    force = wp.float32(0.0)  # without gears, as MuJoCo bounds it
    bounded = table.tendon_bounded[t] == 1
    bounds = table.tendon_range[t]
    servo = Servo()
    bound = wp.float32(UNBOUNDED)
    for k in range(table.axis_start[axis], table.axis_start[axis + 1]):
        a = table.row[k]
        one = read_servo(table, ctrl, a)
        if is_motor(one):
            exerted = motor_force(table, a, one)
            effort += exerted
            force += exerted / table.gear[a][0]
        else:
            servo = one
            bound = servo_bound(table, a, bound)
            if bounded:
                bound = wp.min(bound, wp.abs(table.gear[a][0]) * bounds[1])
    allowed = within(force, bounded, bounds[0], bounds[1])
    if force != 0.0 and allowed != force:
        effort *= allowed / force
    tendons.effort[t] = effort
    tendons.servo_force[t] = servo.force
    tendons.servo_ke[t] = servo.ke
    tendons.servo_kd[t] = servo.kd
    tendons.servo_bound[t] = bound


@wp.func
def site_wrench(table: ActuatorTable, ctrl: wp.array[wp.float32], X_body: wp.transform, axis: int):
    """Force, and torque about the body's origin, of the motors on a body's sites."""
    force = wp.vec3()
    torque = wp.vec3()
    for k in range(table.axis_start[axis], table.axis_start[axis + 1]):
        a = table.row[k]
        limits = table.force_range[a]
        f = within(constant_force(table, ctrl, a), has(table, a, FORCE_BOUNDED), limits[0], limits[1])
        gear = table.gear[a]
        X_site = X_body * table.site_transform[table.site[a]]
        push = f * wp.transform_vector(X_site, wp.vec3(gear[0], gear[1], gear[2]))
        arm = wp.transform_get_translation(X_site) - wp.transform_get_translation(X_body)
        force += push
        torque += wp.cross(arm, push) + f * wp.transform_vector(X_site, wp.vec3(gear[3], gear[4], gear[5]))
    return force, torque


@wp.func
def push_body(
    table: ActuatorTable,
    given: Commands,
    ctrl: wp.array[wp.float32],
    out: Commands,
    orders: Orders,
    body_q: wp.array[wp.transform],
    axis: int,
    body: int,
):
    """What the caller applies to one body, and the motors on its sites."""
    X_body = body_q[body]
    force, torque = site_wrench(table, ctrl, X_body, axis)
    wrench = wp.spatial_vector(-torque, -force)
    if orders.body_f == 0:
        wrench = wp.spatial_vector(force, torque - wp.cross(wp.transform_vector(X_body, table.body_com[body]), force))
    if given.body_f.shape[0] > 0:
        wrench += given.body_f[body]
    out.body_f[body] = wrench


@wp.kernel
def actuate(
    table: ActuatorTable,
    given: Commands,
    ctrl: wp.array[wp.float32],
    out: Commands,
    tendons: Tendons,
    orders: Orders,
    body_q: wp.array[wp.transform],
    threads: int,
):
    """What the caller commands, and every direct actuator."""
    for i in range(wp.tid(), table.of_quaternion.shape[0], threads):
        if table.of_quaternion[i] == 1:
            out.target_q[i] = given.target_q[i]
    for dof in range(wp.tid(), out.joint_f.shape[0], threads):
        command(table, given, ctrl, out, dof)
    for t in range(wp.tid(), table.tendon_bounded.shape[0], threads):
        command_tendon(table, ctrl, tendons, out.joint_f.shape[0] + t, t)
    first_body = out.joint_f.shape[0] + table.tendon_bounded.shape[0]
    for body in range(wp.tid(), out.body_f.shape[0], threads):
        push_body(table, given, ctrl, out, orders, body_q, first_body + body, body)


@dataclass(frozen=True)
class Commanded:
    """What a caller commands, and the control that stands for it once the actuators have been worked out."""

    given: Commands
    ctrl: wp.array
    out: Commands
    control: newton.Control
    body_f: wp.array | None


class Actuators:
    """The actuators of a model, and the joint forces and drives that they and the caller command."""

    def __init__(self, model, rows: ActuatorRows):
        device = model.device
        self._rows = rows
        self._table = table = allocate(ActuatorTable, {"*": 0}, device)
        table.changes_drives = int(rows.changes_drives)
        for name in ("axis_start", "row", "tendon_bounded", "site"):
            setattr(table, name, wp.array(getattr(rows, name), dtype=wp.int32, device=device))
        table.traits = wp.array(rows.traits, dtype=wp.uint8, device=device)
        sizes = {"*": 0, "joint_f": model.joint_dof_count}
        if rows.changes_drives:
            table.coord = wp.array(rows.coord, dtype=wp.int32, device=device)
            table.of_quaternion = wp.array(rows.of_quaternion, dtype=wp.int32, device=device)
            table.drive_bound = wp.array(rows.drive_bound, dtype=wp.float32, device=device)
            sizes = {"*": model.joint_dof_count, "target_q": model.joint_coord_count}
        sizes["body_f"] = model.body_count if rows.has_sites else 0
        self._sizes = sizes
        self._out = allocate(Commands, sizes, device)

    def attach_model(self, model, joints: Joints, tendons: Tendons) -> None:
        """Point the table at the model's arrays and at ``tendons``, and the drives of ``joints`` at the commanded ones."""
        source, table = model.mujoco, self._table
        self._tendons = allocate(Tendons, {"*": 0}, model.device) if tendons.dof is None else tendons
        if len(self._rows.tendon_bounded):
            table.tendon_range = whole_of(model).mujoco.tendon_actuator_force_range
        table.gain, table.bias, table.gear = source.actuator_gainprm, source.actuator_biasprm, source.actuator_gear
        table.control_range, table.force_range = source.actuator_ctrlrange, source.actuator_forcerange
        if self._rows.has_sites:
            table.site_transform, table.body_com = model.shape_transform, model.body_com
        table.ref = reference_coordinates(model)
        self._given = {name: getattr(joints, name) for name in _DRIVES}
        if self._rows.changes_drives:
            for name in _DRIVES:
                setattr(joints, name, getattr(self._out, name))

    def commanded(self, model, control, body_f) -> Commanded:
        """Bundle the caller's control and wrenches, and what takes their place; the model's own ``ctrl`` serves where the
        control has none.

        Raises:
            ValueError: ``control.mujoco.ctrl`` is another model's.
        """
        commands = getattr(control, "mujoco", None)
        if commands is not None:
            require_arrays("control.mujoco", commands, {"ctrl": self._rows.count}, model.device, optional=("ctrl",))
        ctrl = getattr(commands, "ctrl", None)
        given = allocate(Commands, {"*": 0}, model.device)
        for name, array in self._given.items():
            setattr(given, name, array)
        goal = targets(model, control)
        given.target_q, given.target_qd = goal.q, goal.qd
        if control.joint_f is not None:
            given.joint_f = control.joint_f
        if body_f is not None:
            given.body_f = body_f
        ctrl = model.mujoco.ctrl if ctrl is None else ctrl
        return self._commanded(given, ctrl, self._out)

    def _commanded(self, given: Commands, ctrl: wp.array, out: Commands) -> Commanded:
        instead = newton.Control()
        instead.joint_f = out.joint_f
        instead.joint_target_q, instead.joint_target_qd = given.target_q, given.target_qd
        if self._rows.changes_drives:
            instead.joint_target_q, instead.joint_target_qd = out.target_q, out.target_qd
        return Commanded(given, ctrl, out, instead, out.body_f if self._rows.has_sites else given.body_f)

    def apart(self, commanded: Commanded, joints: Joints) -> tuple[Commanded, Joints]:
        """Return the same commands with arrays of their own for what comes out, which take gradients, and the joints to go
        with them."""
        out = allocate(Commands, self._sizes, commanded.ctrl.device, requires_grad=True)
        own = Joints()
        for name in Joints.vars:
            changed = self._rows.changes_drives and name in _DRIVES
            setattr(own, name, getattr(out if changed else joints, name))
        return self._commanded(commanded.given, commanded.ctrl, out), own

    def inputs(self, commanded: Commanded, orders: Orders, body_q: wp.array) -> list:
        """Arguments of :func:`actuate`, but for the last."""
        return [self._table, commanded.given, commanded.ctrl, commanded.out, self._tendons, orders, body_q]

    def launch(self, launches, commanded: Commanded, orders: Orders, body_q: wp.array) -> None:
        """Work out the commands of a step, with sites where ``body_q`` puts their bodies."""
        launches.items(actuate, len(commanded.out.joint_f), self.inputs(commanded, orders, body_q))


def build_actuators(model) -> Actuators | None:
    """Return the model's actuators, None if it has none.

    Raises:
        NotImplementedError: An actuator that is not simulated, by name.
    """
    rows = read_actuators(model)
    return None if rows is None else Actuators(model, rows)
