"""MuJoCo's actuators, as importers leave them in ``model.mujoco``: motors become joint forces, servos drives.

A direct actuator takes ``control.mujoco.ctrl`` and puts ``gear f`` on a dof or a tendon, with
``f = clamp(gain ctrl + bias_0 + bias_1 gear q + bias_2 gear v)``. What sees the coordinate or the velocity acts at the end
of the step like every drive, so that stiff servos are stable; the rest is a force like ``joint_f``. Motors on sites and on
free and ball joints push bodies (``actuator_pushes``). Actuators that take ``joint_target_q`` and ``joint_target_qd`` are
drives of the model already; their force range bounds them, and their control range the targets. Parameters are read live, but for those ranges; these, and what is a
motor and what a servo, are settled at construction and looked at again when a notice says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np
import warp as wp

from ..coupling_bundles import Tendons
from ..multibody.drives import POSITION, POSITION_VELOCITY, VELOCITY
from ..multibody.orders import Orders
from ..workspace import Joints, allocate, copy_bundle
from .actuator_laws import (
    Actuation,
    ActuatorTable,
    Commands,
    Servo,
    geared,
    is_motor,
    motor_pull,
    read_servo,
    servo_range,
    within,
)
from .actuator_pushes import push_body
from .actuator_rows import NO_BOUND, ActuatorRows, read_actuators, same_rows
from .bundles import targets
from .model_parts import whole_of
from .tendons import reference_coordinates
from .topology import driven_dofs
from .validation import require_arrays

wp.set_module_options({"enable_backward": False})

_ACTUATORS = int(newton.ModelFlags.ACTUATOR_PROPERTIES)
_DRIVES = ("target_mode", "target_ke", "target_kd")
_BOUNDS = ("effort_lower", "effort_upper")


@wp.struct
class AxisDrive:
    """The drive of one dof; the coordinate's target where it has one, and the bounds of its own."""

    q: wp.float32
    qd: wp.float32
    mode: int
    ke: wp.float32
    kd: wp.float32
    bounds: wp.vec2


@wp.func
def reference(table: ActuatorTable, dof: int):
    """MuJoCo's coordinate of a dof minus Newton's."""
    ref = wp.float32(0.0)
    if table.ref.shape[0] > 0:
        ref = table.ref[dof]
    return ref


@wp.func
def servo_drive(table: ActuatorTable, dof: int, a: int, servo: Servo, drive: AxisDrive):
    """A servo as the drive of its dof, in the mode that has its gains."""
    out = AxisDrive()
    out.q = drive.q
    out.qd = drive.qd
    out.ke = servo.ke
    out.kd = servo.kd
    out.bounds = servo_range(table, a)
    if servo.ke == 0.0:
        out.mode = VELOCITY
        out.qd = servo.force / servo.kd
    else:
        out.mode = POSITION
        out.q = servo.force / servo.ke - reference(table, dof)
    return out


@wp.func
def given_drive(table: ActuatorTable, given: Commands, dof: int):
    """The drive as the caller and the model give it, bounded by the control and force ranges of its own actuators."""
    drive = AxisDrive()
    goals = table.target_range[dof]
    if table.coord[dof] >= 0:
        ref = reference(table, dof)
        drive.q = within(given.target_q[table.coord[dof]], True, goals[0] - ref, goals[1] - ref)
    drive.qd = within(given.target_qd[dof], True, goals[2], goals[3])
    drive.mode = given.target_mode[dof]
    drive.ke = given.target_ke[dof]
    drive.kd = given.target_kd[dof]
    drive.bounds = table.drive_range[dof]
    return drive


@wp.func
def write_drive(table: ActuatorTable, out: Commands, dof: int, drive: AxisDrive, lower: wp.float32, upper: wp.float32):
    """Let the step see a drive, between bounds that the joint sets."""
    if table.coord[dof] >= 0:
        out.target_q[table.coord[dof]] = drive.q
    out.target_qd[dof] = drive.qd
    out.target_mode[dof] = drive.mode
    out.target_ke[dof] = drive.ke
    out.target_kd[dof] = drive.kd
    out.effort_lower[dof] = within(drive.bounds[0], True, lower, upper)
    out.effort_upper[dof] = within(drive.bounds[1], True, lower, upper)


@wp.func
def sum_motors(table: ActuatorTable, ctrl: wp.array[wp.float32], dof: int):
    """What the motors of one dof exert together."""
    motors = wp.float32(0.0)
    for k in range(table.axis_start[dof], table.axis_start[dof + 1]):
        a = table.row[k]
        servo = read_servo(table, ctrl, a)
        if is_motor(servo):
            motors += table.gear[a][0] * motor_pull(table, ctrl, a)
    return motors


@wp.func
def find_drive(table: ActuatorTable, given: Commands, ctrl: wp.array[wp.float32], dof: int):
    """The drive of one dof: its servo, if it has one; nothing where actuators leave drives alone."""
    if table.changes_drives == 0:
        return AxisDrive()
    drive = given_drive(table, given, dof)
    for k in range(table.axis_start[dof], table.axis_start[dof + 1]):
        a = table.row[k]
        servo = read_servo(table, ctrl, a)
        if not is_motor(servo):
            drive = servo_drive(table, dof, a, servo, drive)
    return drive


@wp.func
def exerts(drive: AxisDrive):
    """Whether a drive has a gain."""
    sees = drive.mode == POSITION or drive.mode == POSITION_VELOCITY
    return (sees and drive.ke > 0.0) or ((sees or drive.mode == VELOCITY) and drive.kd > 0.0)


@wp.func
def effort_beside(table: ActuatorTable, given: Commands, ctrl: wp.array[wp.float32], dof: int, drive: AxisDrive):
    """What the motors of one dof exert together; the joint's limit binds them here unless the drive beside them keeps it."""
    limit = given.effort_limit[dof]
    if exerts(drive):
        limit = wp.float32(NO_BOUND)
    return within(sum_motors(table, ctrl, dof), True, -limit, limit)


@wp.func
def motor_effort(table: ActuatorTable, given: Commands, ctrl: wp.array[wp.float32], dof: int):
    """What the motors of one dof exert together, beside the drive that it has."""
    return effort_beside(table, given, ctrl, dof, find_drive(table, given, ctrl, dof))


@wp.func
def command(table: ActuatorTable, given: Commands, ctrl: wp.array[wp.float32], out: Commands, dof: int):
    """What the caller commands one dof, and its direct actuators.

    Loops are functions of their own here: going back, a function does not know what its own loops have found.
    """
    drive = find_drive(table, given, ctrl, dof)
    force = effort_beside(table, given, ctrl, dof, drive)
    if table.changes_drives == 1:
        limit = given.effort_limit[dof]  # of drive and motors together
        write_drive(table, out, dof, drive, -limit - force, limit - force)
    if given.joint_f.shape[0] > 0:
        force += given.joint_f[dof]
    out.joint_f[dof] = force


@wp.func
def command_tendon(table: ActuatorTable, ctrl: wp.array[wp.float32], tendons: Tendons, axis: int, t: int):
    """The direct actuators of one tendon."""
    effort = wp.float32(0.0)
    pull = wp.float32(0.0)  # without gears, as MuJoCo bounds it
    bounded = table.tendon_bounded[t] == 1
    bounds = table.tendon_range[t]
    servo = Servo()
    mover = int(-1)
    for k in range(table.axis_start[axis], table.axis_start[axis + 1]):
        a = table.row[k]
        one = read_servo(table, ctrl, a)
        if is_motor(one):
            exerted = motor_pull(table, ctrl, a)
            effort += table.gear[a][0] * exerted
            pull += exerted
        else:
            servo = one
            mover = a
    if mover >= 0:
        own = servo_range(table, mover)
        left = geared(table, mover, bounds[0] - pull, bounds[1] - pull)
        tendons.servo_lower[t] = within(own[0], bounded, left[0], left[1])
        tendons.servo_upper[t] = within(own[1], bounded, left[0], left[1])
    else:
        allowed = within(pull, bounded, bounds[0], bounds[1])
        if pull != 0.0 and allowed != pull:
            effort *= allowed / pull
    tendons.effort[t] = effort
    tendons.servo_force[t] = servo.force
    tendons.servo_ke[t] = servo.ke
    tendons.servo_kd[t] = servo.kd


@wp.kernel
def actuate(
    act: Actuation,
    out: Commands,
    tendons: Tendons,
    orders: Orders,
    threads: int,
):
    """What the caller commands, and every direct actuator."""
    table = act.table
    for i in range(wp.tid(), table.of_quaternion.shape[0], threads):
        if table.of_quaternion[i] == 1:
            out.target_q[i] = act.given.target_q[i]
    for dof in range(wp.tid(), out.joint_f.shape[0], threads):
        command(table, act.given, act.ctrl, out, dof)
    for t in range(wp.tid(), table.tendon_bounded.shape[0], threads):
        command_tendon(table, act.ctrl, tendons, out.joint_f.shape[0] + t, t)
    first_body = out.joint_f.shape[0] + table.tendon_bounded.shape[0]
    for body in range(wp.tid(), out.body_f.shape[0], threads):
        push_body(table, act.given, act.ctrl, out, orders, act.body_q, first_body + body, body)


@dataclass(frozen=True)
class Commanded:
    """What a caller commands, and the control that stands for it once the actuators have been worked out."""

    acting: Actuation
    out: Commands
    control: newton.Control
    body_f: wp.array | None


class Actuators:
    """The actuators of a model, and the joint forces and drives that they and the caller command."""

    kernel = actuate

    def __init__(self, model, rows: ActuatorRows, driven: np.ndarray):
        device = model.device
        self.driven = driven
        """(dofs,) whether the model has a drive there, as of the last look."""
        self._rows = rows
        self._table = table = allocate(ActuatorTable, {"*": 0}, device)
        table.changes_drives = int(rows.changes_drives)
        for name in ("axis_start", "row", "tendon_bounded", "site", "joint"):
            setattr(table, name, wp.array(getattr(rows, name), dtype=wp.int32, device=device))
        table.traits = wp.array(rows.traits, dtype=wp.uint8, device=device)
        sizes = {"*": 0, "joint_f": model.joint_dof_count}
        if rows.changes_drives:
            table.coord = wp.array(rows.coord, dtype=wp.int32, device=device)
            table.of_quaternion = wp.array(rows.of_quaternion, dtype=wp.int32, device=device)
            table.drive_range = wp.array(rows.drive_range, dtype=wp.vec2, device=device)
            table.target_range = wp.array(rows.target_range, dtype=wp.vec4, device=device)
            sizes = {"*": model.joint_dof_count, "target_q": model.joint_coord_count}
        sizes["body_f"] = model.body_count if rows.pushes_bodies else 0
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
        if self._rows.pushes_bodies:
            table.site_transform, table.body_com = model.shape_transform, model.body_com
            for name in ("joint_type", "joint_parent", "joint_child", "joint_X_p", "joint_X_c"):
                setattr(table, name, getattr(model, name))
        table.ref = reference_coordinates(model)
        self._given = {name: getattr(joints, name) for name in (*_DRIVES, "effort_limit")}
        if self._rows.changes_drives:
            for name in (*_DRIVES, *_BOUNDS):
                setattr(joints, name, getattr(self._out, name))

    def commanded(self, model, control, state) -> Commanded:
        """Bundle the caller's control and the wrenches of a state, and what takes their place; the model's own ``ctrl`` serves
        where the control has none.

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
        if state.body_f is not None:
            given.body_f = state.body_f
        act = Actuation()
        act.table, act.given, act.body_q = self._table, given, state.body_q
        act.ctrl = model.mujoco.ctrl if ctrl is None else ctrl
        return self._commanded(act, self._out)

    def _commanded(self, act: Actuation, out: Commands) -> Commanded:
        given = act.given
        instead = newton.Control()
        instead.joint_f = out.joint_f
        instead.joint_target_q, instead.joint_target_qd = given.target_q, given.target_qd
        if self._rows.changes_drives:
            instead.joint_target_q, instead.joint_target_qd = out.target_q, out.target_qd
        return Commanded(act, out, instead, out.body_f if self._rows.pushes_bodies else given.body_f)

    def apart(self, commanded: Commanded, joints: Joints) -> tuple[Commanded, Joints]:
        """Return the same commands with arrays of their own for what comes out, which take gradients, and the joints to go
        with them."""
        out = allocate(Commands, self._sizes, commanded.acting.ctrl.device, requires_grad=True)
        changed = (*_DRIVES, *_BOUNDS) if self._rows.changes_drives else ()
        own = copy_bundle(Joints, joints, {name: getattr(out, name) for name in changed})
        return self._commanded(commanded.acting, out), own

    def inputs(self, commanded: Commanded, orders: Orders) -> list:
        """Arguments of :func:`actuate`, but for the last."""
        return [commanded.acting, commanded.out, self._tendons, orders]

    def launch(self, launches, commanded: Commanded, orders: Orders) -> None:
        """Work out the commands of a step; only those that push bodies wait for where these are."""
        launch = launches.items if self._rows.pushes_bodies else launches.items_at_once
        launch(actuate, len(commanded.out.joint_f), self.inputs(commanded, orders))


def build_actuators(model, present: Actuators | None = None, flags: int = newton.ModelFlags.ALL) -> Actuators | None:
    """Return the model's actuators, the present ones where they still are those, None if it has none.

    Args:
        model: The model.
        present: Those of before.
        flags: What has changed since then (``newton.ModelFlags``). If not actuators themselves, it is which dofs have drives.

    Raises:
        NotImplementedError: An actuator that is not simulated, by name.
    """
    driven = driven_dofs(model)
    if not flags & _ACTUATORS and (present is None or np.array_equal(driven, present.driven)):
        return present
    rows = read_actuators(model)
    if rows is not None and present is not None and same_rows(rows, present._rows):
        present.driven = driven
        return present
    return None if rows is None else Actuators(model, rows, driven)
