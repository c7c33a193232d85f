"""Which of MuJoCo's actuators act on which dof, tendon or site, read once on the host; refuses those that are not simulated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields

import newton
import numpy as np
import warp as wp

from .model_parts import ELSEWHERE, dofs_of_part, whole_of
from .mujoco_options import MUJOCO
from .tendons import range_counts, read_tendons, tendon_name
from .topology import actuator_table, dof_coordinates, driven_dofs, joint_name

_DIRECT = int(MUJOCO.CtrlSource.CTRL_DIRECT)
_JOINT_IN_PARENT = int(MUJOCO.TrnType.JOINT_IN_PARENT)
_JOINT = (int(MUJOCO.TrnType.JOINT), _JOINT_IN_PARENT)
_PUSHED = (int(newton.JointType.FREE), int(newton.JointType.BALL))
"""Joints that have no axis of their own: a motor of theirs pushes bodies."""
_TENDON = int(MUJOCO.TrnType.TENDON)
_SITE = int(MUJOCO.TrnType.SITE)
_AFFINE = 1
"""MuJoCo's type of a bias that is linear in coordinate and velocity; 0 is no bias, a constant gain, no dynamics."""

NO_BOUND = wp.constant(1.0e30)
_NO_EFFORT_LIMIT = 1.0e6
"""What Newton's builder gives a joint that has none."""

# What an actuator may be besides a force in proportion to its control; the last, that a joint's torque has its parent's axes.
BIASED = wp.constant(1)
CONTROL_BOUNDED = wp.constant(2)
FORCE_BOUNDED = wp.constant(4)
IN_PARENT = wp.constant(8)


@dataclass(frozen=True)
class ActuatorRows:
    """Host copy of :class:`newton_sap.boundary.actuators.ActuatorTable`, but for the parameters."""

    count: int
    """Rows of MuJoCo's table, and entries of ``ctrl``."""
    changes_drives: bool
    """Whether there is a servo, a bounded drive or a motor beside a drive, and not only motors."""
    axis_start: np.ndarray
    row: np.ndarray
    traits: np.ndarray
    tendon_bounded: np.ndarray
    site: np.ndarray
    joint: np.ndarray
    drive_range: np.ndarray
    target_range: np.ndarray
    coord: np.ndarray
    of_quaternion: np.ndarray

    @property
    def pushes_bodies(self) -> bool:
        """Whether some act on sites, or on free or ball joints."""
        return len(self.site) > 0


def read_actuators(model) -> ActuatorRows | None:
    """Return the actuators that a step has to know of beyond the model's own drives, None if there are none.

    Raises:
        NotImplementedError: An actuator that is not simulated, by name.
    """
    table = actuator_table(model)
    if table is None:
        return None
    rows = _Rows(model, table)
    rows.require_simulated()
    rows.require_one_servo_per_axis()
    rows.require_one_range_per_drive()
    rows.warn_of_limits()
    drive_range, target_range = rows.drive_ranges(), rows.target_ranges()
    bounded = bool((np.abs(np.hstack([drive_range, target_range])) < NO_BOUND).any())
    if not len(rows.direct) and not bounded:
        return None
    axis, row = rows.entries()
    return ActuatorRows(
        count=len(rows.axis),
        changes_drives=bounded or bool(rows.is_servo()[rows.direct].any()) or rows.has_motor_beside_drive(),
        axis_start=np.searchsorted(axis, np.arange(rows.axis_count + 1)),
        row=row.astype(np.int32),
        traits=rows.traits(),
        tendon_bounded=rows.tendon_bounded(),
        site=rows.site if rows.pushes_bodies else rows.site[:0],
        joint=rows.joint if rows.pushes_bodies else rows.joint[:0],
        drive_range=drive_range,
        target_range=target_range,
        coord=rows.coord,
        of_quaternion=~np.isin(np.arange(model.joint_coord_count), rows.coord),
    )


def same_rows(a: ActuatorRows, b: ActuatorRows) -> bool:
    """Whether two readings of a model's actuators say the same."""
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(ActuatorRows))


def read_damping_ratios(model) -> list[tuple[int, list[int], bool]]:
    """Return the position actuators whose damping is a ratio to critical: which, on which dofs, and whether as a drive."""
    table = getattr(model, "mujoco", None)
    if getattr(table, "actuator_biasprm", None) is None or not (table.actuator_biasprm.numpy()[:, 2] > 0.0).any():
        return []
    return _Rows(model, table).damping_ratios()


class _Rows:
    """MuJoCo's table of actuators on the host; ``rows["gear"]`` is its column ``actuator_gear``."""

    def __init__(self, model, table):
        self._model, self._table = model, table
        self._columns = {}
        self._joint_type, self._parent, self._child = (
            np.append(getattr(model, f"joint_{name}").numpy(), -1) for name in ("type", "parent", "child")
        )  # the last entry stands for no joint
        self._qd_start = model.joint_qd_start.numpy()
        self._joint = np.repeat(np.arange(model.joint_count), np.diff(self._qd_start))
        self._part, self._tendons = dofs_of_part(model), read_tendons(model)
        self._labelled = self._label_dofs()
        self.coord = dof_coordinates(model)
        source = table.ctrl_source.numpy()
        acts = self["gear"].any(axis=1)  # a gear of zero takes an actuator out
        self._first_body = model.joint_dof_count + (len(self._tendons.dofs) if self._tendons else 0)
        on_site = bool((acts & (self["trntype"] == _SITE)).any())
        self._shape_body = whole_of(model).shape_body.numpy() if on_site else np.zeros(0, int)
        self.site = np.full(len(source), -1)
        for a in np.flatnonzero(self["trntype"] == _SITE):
            self.site[a] = self._find_site(a)
        self.axis = self._find_axes()
        acts &= self.axis != ELSEWHERE
        self.direct = np.flatnonzero((source == _DIRECT) & acts)
        self._of_model = np.flatnonzero((source != _DIRECT) & acts)
        self.joint = self._find_pushing_joints()
        self.pushes_bodies = on_site or bool((self.joint[self.direct] >= 0).any())
        self.axis_count = self._first_body + (model.body_count if self.pushes_bodies else 0)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            self._columns[name] = getattr(self._table, f"actuator_{name}").numpy()
        return self._columns[name]

    def bounded(self, what: str) -> np.ndarray:
        """Whether the range of each actuator's ``ctrl`` or ``force`` counts."""
        return range_counts(self[f"{what}limited"], self[f"has_{what}range"] != 0)

    def traits(self) -> np.ndarray:
        """What each actuator is, as a sum of constants of this module."""
        traits = (
            BIASED * self._biased() + CONTROL_BOUNDED * self.bounded("ctrl") + FORCE_BOUNDED * self.bounded("force")
        )
        return traits + IN_PARENT * (self["trntype"] == _JOINT_IN_PARENT)

    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Each axis with each direct actuator on it, in order: one axis per actuator, but of a ball joint the bodies on both sides."""
        joint = self.joint[self.direct]
        on_axis, on_joint = self.direct[joint < 0], self.direct[joint >= 0]
        bodies = np.hstack([side[joint[joint >= 0]] for side in (self._child, self._parent)])
        axis = np.hstack([self.axis[on_axis], self._first_body + bodies[bodies >= 0]])
        row = np.hstack([on_axis, np.tile(on_joint, 2)[bodies >= 0]])
        order = np.lexsort((row, axis))
        return axis[order], row[order]

    def require_simulated(self) -> None:
        """Refuse what is no force or servo on one axis, and no force on a body."""
        bias, on_site = self["biasprm"][:, 1:3], self["trntype"] == _SITE
        on_joint, sees = self.joint >= 0, self._biased() & bias.any(axis=1)
        hangs = on_joint & (self._parent[self.joint] >= 0) & (self._joint_type[self.joint] == newton.JointType.FREE)
        own = self["damping"] != 0.0
        own |= (self["dampingpoly"] != 0.0).any(axis=1) | (self["armature"] != 0.0)
        ratio = self._gives_ratio()
        reasons = {
            "acts neither on a joint or site nor on a tendon of joints or sites": self.axis < 0,
            "is measured against another site (refsite)": on_site & (self["trnid"][:, 1] >= 0),
            "is a servo on a site": on_site & sees,
            "is a servo on a free or ball joint": on_joint & sees,
            "acts on a free joint that hangs on a body": hangs,
            "is on a site of a part of a model": on_site & (self._part is not None),
            "acts on a distance joint": self._of_quaternion(self.axis) & ~on_joint,
            "has dynamics of its own (dyntype)": self["dyntype"] != 0,
            "has a gain that is not constant (gaintype)": self["gaintype"] != 0,
            "has a bias that is no line (biastype)": ~np.isin(self["biastype"], (0, _AFFINE)),
            "pushes away from its goal (biasprm)": self._biased() & (bias > 0.0).any(axis=1) & ~ratio,
            "gives a ratio of damping off an axis of a joint": ratio & ~self._has_axis(self.axis),
        }
        acting = np.hstack([self.direct, self._of_model])
        self._refuse_any(acting[own[acting]], "has damping or armature of its own")
        for reason, holds in reasons.items():
            self._refuse_any(self.direct[holds[self.direct]], reason)

    def require_one_servo_per_axis(self) -> None:
        """Refuse a second servo, or one beside a drive of the model: each axis has room for one."""
        servo, driven = self.is_servo(), self._driven()
        for a in self.direct[servo[self.direct]]:
            axis = self.axis[a]
            if driven[axis]:
                self._refuse_any(
                    [a], f"is a servo on {self._axis_name(axis)}, which another servo or drive moves already"
                )
            driven[axis] = True

    def require_one_range_per_drive(self) -> None:
        """Refuse ranges of actuators that share a drive of the model, which has one range for the sum of their forces, and
        one for the targets of position and of velocity."""
        holds = self._holds_position()
        for what, kind in (("force", np.zeros_like(holds)), ("ctrl", holds)):
            drive = 2 * self.axis[self._of_model] + kind[self._of_model]
            _, of_drive, sharing = np.unique(drive, return_inverse=True, return_counts=True)
            shared = self._of_model[self.bounded(what)[self._of_model] & (sharing[of_drive] > 1)]
            for a in shared[:1]:
                name = self._axis_name(self.axis[a])
                self._refuse_any(
                    [a], f"has a {what}range, and shares {name} with another actuator: a drive has one range"
                )

    def warn_of_limits(self) -> None:
        """Say that a joint's effort limit does not bind what acts on it by a tendon or a site."""
        limited = self._model.joint_effort_limit.numpy() < _NO_EFFORT_LIMIT
        movers = {int(child): joint for joint, child in enumerate(self._child[:-1])} if limited.any() else {}
        for a in self.direct if movers else ():
            for dof in (dof for dof in self._passed_dofs(self.axis[a], movers) if limited[dof]):
                label = self._table.actuator_label[a]
                warnings.warn(
                    f"joint_effort_limit of {joint_name(self._model, self._joint[dof])} (actuatorfrcrange) binds the actuators "
                    f"of its own axis, and actuator {a} ({label!r}) acts on it by a tendon or site; give that a forcerange",
                    stacklevel=6,
                )
                return

    def _passed_dofs(self, axis: int, movers: dict[int, int]) -> list[int]:
        """The dofs that an actuator of a tendon or site moves beside; ``movers`` are the joints that move bodies."""
        bodies, first = [], len(self.coord)
        if axis >= self._first_body and self.pushes_bodies:
            bodies = [axis - self._first_body]
        elif axis >= first:
            if self._tendons.dofs[axis - first]:
                return self._tendons.dofs[axis - first]
            bodies = self._tendons.paths[axis - first].bodies
        joints = set()
        for body in bodies:
            while body in movers and movers[body] not in joints:
                joints.add(movers[body])
                body = int(self._parent[movers[body]])
        return [dof for joint in sorted(joints) for dof in range(*self._qd_start[joint : joint + 2])]

    def has_motor_beside_drive(self) -> bool:
        """Whether a joint's limit binds a motor together with one of the model's drives."""
        return bool(self._driven()[self.axis[self.direct]].any())

    def tendon_bounded(self) -> np.ndarray:
        """(T,) whether what all actuators of a tendon may exert is bounded."""
        if self._tendons is None:
            return np.zeros(0, dtype=bool)
        table = whole_of(self._model).mujoco
        bounds = table.tendon_actuator_force_range.numpy()
        return range_counts(table.tendon_actuator_force_limited.numpy(), bounds[:, 0] < bounds[:, 1])

    def drive_ranges(self) -> np.ndarray:
        """(D, 2) what the force ranges of position and velocity actuators leave to the model's drives [N or N m]."""
        ranges = np.tile([-NO_BOUND, NO_BOUND], (self._model.joint_dof_count, 1))
        for a in np.intersect1d(self._of_model, np.flatnonzero(self.bounded("force"))).astype(int):
            if 0 <= self.axis[a] < len(ranges):
                lower, upper = self["forcerange"][a]
                ranges[self._dofs_of(self.axis[a])] = lower, upper
        return ranges

    def target_ranges(self) -> np.ndarray:
        """(D, 4) what the control ranges of position and velocity actuators leave to the targets of the model's drives.

        Lower and upper bound of MuJoCo's coordinate [m or rad], then of the rate; quaternions have none.
        """
        ranges = np.tile([-NO_BOUND, NO_BOUND], (self._model.joint_dof_count, 2))
        holds = self._holds_position()
        for a in np.intersect1d(self._of_model, np.flatnonzero(self.bounded("ctrl"))).astype(int):
            if self._has_axis(self.axis[a]):
                first = 0 if holds[a] else 2
                ranges[self.axis[a], first : first + 2] = self["ctrlrange"][a]
        return ranges

    def damping_ratios(self) -> list[tuple[int, list[int], bool]]:
        """What :func:`read_damping_ratios` returns."""
        ratio = self._gives_ratio()
        drives = self._of_model[(ratio & self._is_dof(self.axis))[self._of_model]]
        servos = self.direct[ratio[self.direct]]
        return [(a, self._dofs_of(self.axis[a]), True) for a in drives] + [(a, [self.axis[a]], False) for a in servos]

    def is_servo(self) -> np.ndarray:
        """Whether each actuator sees its coordinate or velocity."""
        return self._biased() & self["biasprm"][:, 1:3].any(axis=1) & (self["gear"][:, 0] != 0.0)

    def _dofs_of(self, axis: int) -> list[int]:
        """The dofs of a drive: one, or all of a joint that has a quaternion."""
        if self.coord[axis] >= 0:
            return [axis]
        return list(range(*self._qd_start[self._joint[axis] :][:2]))

    def _driven(self) -> np.ndarray:
        """Whether the model has a drive on each axis."""
        driven = np.zeros(self.axis_count, dtype=bool)
        driven[: len(self.coord)] = driven_dofs(self._model)
        return driven

    def _is_dof(self, axis: np.ndarray) -> np.ndarray:
        return (axis >= 0) & (axis < len(self.coord))

    def _has_axis(self, axis: np.ndarray) -> np.ndarray:
        return self._is_dof(axis) & ~self._of_quaternion(axis)

    def _gives_ratio(self) -> np.ndarray:
        """Whether each actuator's damping is a ratio to critical, as MuJoCo understands a positive bias of a position servo."""
        gain, bias = self["gainprm"][:, 0], self["biasprm"]
        return (bias[:, 2] > 0.0) & (gain > 0.0) & (np.abs(gain + bias[:, 1]) < 1e-6 * gain)

    def _holds_position(self) -> np.ndarray:
        """Whether each actuator sees its coordinate."""
        return self._biased() & (self["biasprm"][:, 1] != 0.0)

    def _biased(self) -> np.ndarray:
        return self["biastype"] == _AFFINE

    def _of_quaternion(self, axis: np.ndarray) -> np.ndarray:
        return np.append(self.coord < 0, False)[np.where(self._is_dof(axis), axis, -1)]

    def _axis_name(self, axis: int) -> str:
        if axis < len(self.coord):
            return joint_name(self._model, self._joint[axis])
        return tendon_name(self._model, axis - len(self.coord))

    def _find_axes(self) -> np.ndarray:
        """The Newton dof each actuator acts on, or past the dofs a tendon, or past these a body; -1 if neither.

        ``ELSEWHERE`` if it acts on one of another solver, or on a site of the world.
        """
        kind, dof = self["trntype"], self["trnid"][:, 0].astype(int)
        on_joint = np.isin(kind, _JOINT)
        axis = np.where(on_joint & (dof >= 0), dof, -1)
        if self._part is not None:
            axis[axis >= 0] = self._part[axis[axis >= 0]]
        for a in np.flatnonzero(on_joint & (dof < 0)):
            axis[a] = self._labelled.get((self._table.actuator_target_label[a], self["world"][a]), -1)
        for a in np.flatnonzero(kind == _TENDON):
            axis[a] = self._find_tendon(a)
        for a in np.flatnonzero(kind == _SITE):
            axis[a] = self._find_body(self.site[a])
        return axis

    def _find_pushing_joints(self) -> np.ndarray:
        """The free or ball joint that each actuator's dof belongs to; -1 for other axes."""
        joint = np.append(self._joint, -1)[np.where(self._of_quaternion(self.axis), self.axis, -1)]
        return np.where(np.isin(self._joint_type[joint], _PUSHED), joint, -1)

    def _find_site(self, a: int) -> int:
        """The shape of the whole model that is an actuator's site, -1 if none is; importers of USD may know its label only."""
        whole, shape = whole_of(self._model), int(self["trnid"][a, 0])
        return shape if shape >= 0 else self._find_target(a, whole.shape_label, whole.shape_world)

    def _find_body(self, site: int) -> int:
        """The axis of the body that a site is on."""
        if not 0 <= site < len(self._shape_body):
            return -1
        body = int(self._shape_body[site])
        if body < 0 or (
            self._part is not None and whole_of(self._model).body_label[body] not in self._model.body_label
        ):
            return ELSEWHERE
        return self._first_body + body

    def _find_tendon(self, a: int) -> int:
        """The axis of a tendon; importers of USD may know it by its label only."""
        if self._tendons is None:
            return -1
        t, table = int(self["trnid"][a, 0]), whole_of(self._model).mujoco
        if t < 0:
            t = self._find_target(a, table.tendon_label, table.tendon_world)
        if t >= 0 and self._tendons.is_simulated(t):
            return len(self.coord) + t
        return -1 if t < 0 or t in self._tendons.paths else ELSEWHERE

    def _find_target(self, a: int, labels: list[str], worlds: wp.array) -> int:
        """The first of some labels that names what an actuator acts on, in its own world; -1 if none does."""
        wanted = (self._table.actuator_target_label[a], self["world"][a])
        return next((i for i, named in enumerate(zip(labels, worlds.numpy(), strict=True)) if named == wanted), -1)

    def _label_dofs(self) -> dict[tuple[str, int], int]:
        """The first dof of each label and world: importers of USD may know an axis by its label only."""
        labels = getattr(self._table, "joint_dof_label", None) or []
        worlds, first = self._model.joint_world.numpy()[self._joint], {}
        for dof, label in enumerate(labels):
            if label:
                first.setdefault((label, worlds[dof]), dof)
        return first

    def _refuse_any(self, actuators: Sequence[int], reason: str) -> None:
        if len(actuators):
            a = actuators[0]
            raise NotImplementedError(
                f"actuator {a} ({self._table.actuator_label[a]!r}) {reason}, and of MuJoCo's actuators SolverSAP simulates "
                "forces and servos on hinges, slides and tendons, and forces on sites, free and ball joints; use SolverMuJoCo, "
                f"or take the actuator out, of the file or by model.mujoco.actuator_gear[{a}] = 0, and command joint_f or body_f"
            )
