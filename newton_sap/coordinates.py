"""Between maximal coordinates (twists and wrenches of bodies) and the generalised ones of a Newton model.

:class:`Coordinates` holds the Jacobian of every body at one state, or at a batch of states, and converts velocities,
forces and joint torques in both directions. NumPy in and out; built on ``newton.eval_jacobian``, hence accurate to
float32. Body twists and wrenches are Newton's unless another convention of :mod:`newton_sap.conventions` is named.

Shapes: ``...`` are the leading axes of the batch, ``B`` bodies, ``N`` joints, ``D`` joint dofs of the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import newton
import numpy as np

from .boundary.convention import SapState
from .boundary.topology import FLYING as _FLYING
from .conventions import convention as lookup
from .conventions import convert_twist, convert_wrench, join, rotation_matrix, split
from .conventions.frames import rotate as times

METHODS = ("split", "joint", "stacked")
"""Ways of :meth:`Coordinates.joint_velocity` to find the joint velocities that explain body twists."""
LAYOUTS = ("bodies", "parts")
"""Orders of rows of :meth:`Coordinates.stacked_jacobian`."""
_RCOND = 1.0e-5  # the Jacobian is float32


@dataclass(frozen=True)
class TreeJoint:
    """A joint of an articulation; loop joints are none."""

    index: int
    """Index in the model."""
    parent: int
    """Parent body, -1 for the world."""
    child: int
    """Child body."""
    dofs: slice
    """Its dofs in ``joint_qd``."""
    is_free: bool
    """Whether it is a FREE, DISTANCE or ROD joint."""


def tree_joints(model: newton.Model) -> tuple[TreeJoint, ...]:
    """Return the joints of all articulations of a model, parents before children."""
    starts, ends = model.articulation_start.numpy(), model.articulation_end.numpy()
    parent, child, kind = model.joint_parent.numpy(), model.joint_child.numpy(), model.joint_type.numpy()
    dofs = model.joint_qd_start.numpy()
    return tuple(
        TreeJoint(j, int(parent[j]), int(child[j]), slice(int(dofs[j]), int(dofs[j + 1])), int(kind[j]) in _FLYING)
        for a in range(model.articulation_count)
        for j in range(int(starts[a]), int(ends[a]))
    )


@dataclass(frozen=True)
class Coordinates:
    """Jacobians of the bodies of a model at one state or a batch of states; see :meth:`at` and :meth:`from_bodies`."""

    joints: tuple[TreeJoint, ...]
    """Tree joints, parents before children."""
    joint_count: int
    """Joints of the model, with loop joints."""
    jacobian: np.ndarray
    """Twists [v_com, w] in world axes per unit joint velocity, (..., B, 6, D)."""
    body_q: np.ndarray
    """Body poses (..., B, 7): position [m], quaternion xyzw."""
    body_com: np.ndarray
    """Centres of mass (B, 3) in body axes [m]."""

    @classmethod
    def at(cls, model: newton.Model, where) -> Coordinates:
        """Evaluate a model.

        Args:
            model: A Newton model with articulations. A root that no joint moves counts as fixed: its motion has no
                coordinates in Newton.
            where: A ``newton.State`` or ``SapState`` whose ``joint_q`` and ``body_q`` agree, or joint coordinates (..., model's
                ``joint_coord_count``) [m, rad], from which bodies are placed by forward kinematics.
        """
        if isinstance(where, (newton.State, SapState)):
            found = 0 if where.joint_q is None else len(where.joint_q)
            if found != model.joint_coord_count:
                raise ValueError(
                    f"the state has {found} joint coordinates, the model {model.joint_coord_count}; give a state of this model"
                )
            return cls._build(model, *_evaluate(model, where))
        joint_q = _shaped(where, (model.joint_coord_count,), "joint_q")
        state = model.state()

        def place(row):
            if row.size == 0:
                return
            state.joint_q.assign(row.astype(np.float32))
            newton.eval_fk(model, state.joint_q, state.joint_qd, state)

        return cls._batch(
            model, state, place, joint_q.reshape(math.prod(joint_q.shape[:-1]), joint_q.shape[-1]), joint_q.shape[:-1]
        )

    @classmethod
    def from_bodies(cls, model: newton.Model, body_q) -> Coordinates:
        """Evaluate a model at the poses (..., B, 7) of its bodies, as another engine may report them.

        Joint coordinates are those of ``newton.eval_ik``; poses are kept as given, even where joints are pulled apart.
        """
        body_q = _shaped(body_q, (model.body_count, 7), "body_q")
        state = model.state()

        def place(rows):
            if rows.size == 0:
                return
            state.body_q.assign(rows.astype(np.float32))
            newton.eval_ik(model, state, state.joint_q, state.joint_qd)

        return cls._batch(
            model, state, place, body_q.reshape(math.prod(body_q.shape[:-2]), *body_q.shape[-2:]), body_q.shape[:-2]
        )

    @classmethod
    def _batch(cls, model, state, place, rows, shape) -> Coordinates:
        jacobian = np.zeros((len(rows), model.body_count, 6, model.joint_dof_count))
        body_q = np.zeros((len(rows), model.body_count, 7))
        for i, row in enumerate(rows):
            place(row)
            jacobian[i], body_q[i] = _evaluate(model, state)
        return cls._build(
            model, jacobian.reshape(*shape, *jacobian.shape[1:]), body_q.reshape(*shape, model.body_count, 7)
        )

    @classmethod
    def _build(cls, model, jacobian, body_q) -> Coordinates:
        com = model.body_com.numpy().astype(np.float64).reshape(-1, 3)
        return cls(tree_joints(model), model.joint_count, jacobian, body_q, com)

    # Velocities

    def stacked_jacobian(self, layout="bodies", convention="newton") -> np.ndarray:
        """Return the Jacobian as a matrix (..., 6 B, D).

        Args:
            layout: ``"bodies"`` has six rows per body; ``"parts"`` the first three rows (in Newton's convention the
                linear velocities) of all bodies, then the other three of all.
            convention: What the rows of a body are; see :func:`newton_sap.conventions.convert_twist`.
        """
        _require("layout", layout, LAYOUTS)
        columns = np.moveaxis(self.jacobian, -1, 0)
        J = np.moveaxis(convert_twist(columns, "newton", convention, pose=self.body_q, com=self.body_com), 0, -1)
        if layout == "parts":
            J = np.concatenate([J[..., :3, :], J[..., 3:, :]], axis=-3)
        return J.reshape(*self.jacobian.shape[:-3], 6 * self.jacobian.shape[-3], self.jacobian.shape[-1])

    def body_velocity(self, joint_qd, convention="newton") -> np.ndarray:
        """Return the body twists (..., B, 6) [m/s, rad/s] of joint velocities (..., D)."""
        V = np.einsum("...bij,...j->...bi", self.jacobian, self._joint_values(joint_qd, "joint_qd"))
        return convert_twist(V, "newton", convention, pose=self.body_q, com=self.body_com)

    def relative_velocity(self, body_qd, convention="newton") -> np.ndarray:
        """Return each joint's twist (..., N, 6) of its child relative to its parent: at the child's COM, world axes.

        Loop joints have zeros.
        """
        V = self._newton_twists(body_qd, convention)
        com = self.com_position
        relative = np.zeros((*V.shape[:-2], self.joint_count, 6))
        for joint in self.joints:
            twist = V[..., joint.child, :].copy()
            if joint.parent >= 0:
                w = V[..., joint.parent, 3:]
                twist[..., :3] -= V[..., joint.parent, :3]
                twist[..., :3] -= np.cross(w, com[..., joint.child, :] - com[..., joint.parent, :])
                twist[..., 3:] -= w
            relative[..., joint.index, :] = twist
        return relative

    def joint_velocity(self, body_qd, convention="newton", method="split", length=1.0):
        """Return the joint velocities that explain body twists, and what they leave unexplained.

        Args:
            body_qd: Body twists (..., B, 6) [m/s, rad/s].
            convention: How they are written.
            method: ``"split"`` takes each joint's rotational dofs from the relative angular velocity of its two bodies
                and its translational ones from the linear rest; ``"joint"`` fits all dofs of a joint to the relative
                twist; ``"stacked"`` fits all joints to all bodies at once with the pseudo-inverse of the stacked
                Jacobian, which costs most and has the smallest residual. They agree where the residual is zero.
            length: Metres that weigh 1 rad/s against 1 m/s in ``"joint"`` and ``"stacked"``.

        Returns:
            ``joint_qd`` (..., D), where dofs of loop joints are zero, and the residual (..., B, 6), twists in Newton's
            convention, ``body_qd - J joint_qd``: zero, to float32, if and only if the joints allow the given velocities.
        """
        _require("method", method, METHODS)
        V = self._newton_twists(body_qd, convention)
        shape = np.broadcast_shapes(V.shape[:-2], self.jacobian.shape[:-3])
        if method == "stacked":
            qd = times(np.linalg.pinv(self._weighted(length), rcond=_RCOND), self._flat(V, length))
        else:
            qd = np.zeros((*shape, self.jacobian.shape[-1]))
            relative = self.relative_velocity(V)
            for joint in self.joints:
                solve = _split_fit if method == "split" else _twist_fit
                qd[..., joint.dofs] = solve(self.joint_jacobian(joint), relative[..., joint.index, :], length)
        return qd, V - self.body_velocity(qd)

    def joint_jacobian(self, joint: TreeJoint) -> np.ndarray:
        """Return the twist (..., 6, dofs of the joint) of its child relative to its parent, at the child's COM."""
        return self.jacobian[..., joint.child, :, joint.dofs]

    @property
    def com_position(self) -> np.ndarray:
        """Centres of mass (..., B, 3) in the world [m]."""
        return self.body_q[..., :3] + times(rotation_matrix(self.body_q[..., 3:]), self.body_com)

    # Forces

    def generalised_force(self, wrench, convention="newton", point=None) -> np.ndarray:
        """Return the generalised forces (..., D) that do the same work as wrenches on bodies.

        Args:
            wrench: Wrenches (..., B, 6) [N, N m].
            convention: How they are written.
            point: Where forces are applied, (..., B, 3) in the world [m]; moments then exclude those of the forces,
                and the wrenches are forces and moments in world axes, ordered as the convention has them.

        Returns:
            Forces dual to ``joint_qd``; see :meth:`joint_f` for ``Control.joint_f``.
        """
        wrench = self._body_values(wrench, 6, "wrench")
        if point is None:
            F = convert_wrench(wrench, convention, "newton", pose=self.body_q, com=self.body_com)
        else:
            F = self._wrench_at_com(wrench, convention, self._body_values(point, 3, "point"))
        return np.einsum("...bij,...bi->...j", self.jacobian, F)

    def body_wrench(self, force, convention="newton", length=1.0):
        """Return the smallest body wrenches with given generalised forces, and the part of those that they miss.

        Args:
            force: Generalised forces (..., D).
            convention: How to write the wrenches.
            length: Metres that weigh 1 N against 1 N m: the sum of ``|f|^2 + |tau / length|^2`` is least.

        Returns:
            wrench: (..., B, 6) [N, N m].
            residual: (..., D); zero where the Jacobian has full column rank.
        """
        force = self._joint_values(force, "force")
        J = self._weighted(length)
        F = times(np.linalg.pinv(np.swapaxes(J, -1, -2), rcond=_RCOND), force)
        F = F.reshape(*F.shape[:-1], self.jacobian.shape[-3], 6) * _weights(length)
        residual = force - self.generalised_force(F)
        return convert_wrench(F, "newton", convention, pose=self.body_q, com=self.body_com), residual

    def joint_f(self, force) -> np.ndarray:
        """Return generalised forces (..., D) as ``Control.joint_f`` wants them.

        They differ for FREE, DISTANCE and ROD joints, whose velocity is in the axes of the parent's anchor while their
        ``joint_f`` is a wrench at the child's COM in world axes.
        """
        force = self._joint_values(force, "force")
        result = np.broadcast_to(
            force, (*np.broadcast_shapes(force.shape[:-1], self.jacobian.shape[:-3]), force.shape[-1])
        )
        result = result.copy()
        for joint in self.joints:
            if joint.is_free:
                # At the child's COM the joint's Jacobian only turns axes, so that it is its own inverse transpose.
                result[..., joint.dofs] = times(self.joint_jacobian(joint), force[..., joint.dofs])
        return result

    # Joint torques, in the axes of the parent body

    @property
    def connectivity(self) -> np.ndarray:
        """Matrix (N, B) with 1 for a joint's child and -1 for its parent; rows of loop joints are zero."""
        D = np.zeros((self.joint_count, self.jacobian.shape[-3]))
        for joint in self.joints:
            D[joint.index, joint.child] = 1.0
            if joint.parent >= 0:
                D[joint.index, joint.parent] = -1.0
        return D

    @property
    def parent_rotation(self) -> np.ndarray:
        """Rotations (..., N, 3, 3) from the parent body of each joint to the world; identity below the world."""
        R = np.broadcast_to(np.eye(3), (*self.body_q.shape[:-2], self.joint_count, 3, 3)).copy()
        for joint in self.joints:
            if joint.parent >= 0:
                R[..., joint.index, :, :] = rotation_matrix(self.body_q[..., joint.parent, 3:])
        return R

    def body_torque(self, joint_torque) -> np.ndarray:
        """Return the torques (..., B, 3) on bodies, world axes [N m], of joint torques (..., N, 3) in parent axes.

        A joint torque acts on the child, its opposite on the parent.
        """
        torque = times(self.parent_rotation, self._torques(joint_torque))
        return np.einsum("nb,...ni->...bi", self.connectivity, torque)

    def joint_torque(self, body_torque) -> np.ndarray:
        """Return the joint torques (..., N, 3) in parent axes [N m] with given body torques (..., B, 3), world axes.

        Each is the sum over all that hangs on the joint, in the axes of its parent; unique for a tree. The inverse of
        :meth:`body_torque`.
        """
        total = self._body_values(body_torque, 3, "body_torque").copy()
        result = np.zeros((*total.shape[:-2], self.joint_count, 3))
        for joint in reversed(self.joints):
            result[..., joint.index, :] = total[..., joint.child, :]
            if joint.parent >= 0:
                total[..., joint.parent, :] += total[..., joint.child, :]
        return times(np.swapaxes(self.parent_rotation, -1, -2), result)

    def generalised_from_joint_torque(self, joint_torque) -> np.ndarray:
        """Return the generalised forces (..., D) of joint torques (..., N, 3) in parent axes [N m], joint by joint."""
        torque = times(self.parent_rotation, self._torques(joint_torque))
        force = np.zeros((*torque.shape[:-2], self.jacobian.shape[-1]))
        for joint in self.joints:
            J = self.joint_jacobian(joint)[..., 3:, :]
            force[..., joint.dofs] = np.einsum("...ij,...i->...j", J, torque[..., joint.index, :])
        return force

    def joint_torque_from_generalised(self, force):
        """Return the smallest joint torques with given generalised forces, and the part of those that they miss.

        Args:
            force: Generalised forces (..., D).

        Returns:
            joint_torque: (..., N, 3) in parent axes [N m].
            residual: (..., D); forces on translational dofs are no torques and stay here.
        """
        force = self._joint_values(force, "force")
        shape = np.broadcast_shapes(force.shape[:-1], self.jacobian.shape[:-3])
        torque = np.zeros((*shape, self.joint_count, 3))
        for joint in self.joints:
            J = np.swapaxes(self.joint_jacobian(joint)[..., 3:, :], -1, -2)
            torque[..., joint.index, :] = times(np.linalg.pinv(J, rcond=_RCOND), force[..., joint.dofs])
        torque = times(np.swapaxes(self.parent_rotation, -1, -2), torque)
        return torque, force - self.generalised_from_joint_torque(torque)

    # Helpers

    def _newton_twists(self, body_qd, convention) -> np.ndarray:
        V = self._body_values(body_qd, 6, "body_qd")
        return convert_twist(V, convention, "newton", pose=self.body_q, com=self.body_com)

    def _wrench_at_com(self, wrench, convention, point) -> np.ndarray:
        f, tau = split(wrench, lookup(convention).order)
        return join(f, tau + np.cross(point - self.com_position, f))

    def _weighted(self, length) -> np.ndarray:
        J = self.jacobian * _weights(length)[:, None]
        return J.reshape(*J.shape[:-3], 6 * J.shape[-3], J.shape[-1])

    def _flat(self, twists, length) -> np.ndarray:
        return (twists * _weights(length)).reshape(*twists.shape[:-2], 6 * twists.shape[-2])

    def _joint_values(self, value, name) -> np.ndarray:
        return _shaped(value, (self.jacobian.shape[-1],), name)

    def _body_values(self, value, size, name) -> np.ndarray:
        return _shaped(value, (self.jacobian.shape[-3], size), name)

    def _torques(self, value) -> np.ndarray:
        return _shaped(value, (self.joint_count, 3), "joint_torque")


def stacked_jacobian(model: newton.Model, where, layout="bodies", convention="newton") -> np.ndarray:
    """Return the stacked Jacobian (..., 6 B, D) of a model; see :meth:`Coordinates.at` and its stacked_jacobian."""
    return Coordinates.at(model, where).stacked_jacobian(layout, convention)


def _evaluate(model, state):
    """Jacobians (B, 6, D) and poses (B, 7) of one state."""
    jacobian = np.zeros((model.body_count, 6, model.joint_dof_count))
    packed = newton.eval_jacobian(model, state)
    if packed is not None:
        packed = packed.numpy()
        starts, ends = model.articulation_start.numpy(), model.articulation_end.numpy()
        child, dofs = model.joint_child.numpy(), model.joint_qd_start.numpy()
        for a in range(model.articulation_count):
            first, last = dofs[starts[a]], dofs[ends[a]]
            for i, j in enumerate(range(starts[a], ends[a])):
                jacobian[child[j], :, first:last] = packed[a, 6 * i : 6 * i + 6, : last - first]
    body_q = np.zeros((0, 7)) if state.body_q is None else state.body_q.numpy().astype(np.float64)
    return jacobian, body_q.reshape(model.body_count, 7)


def _twist_fit(J, twist, length) -> np.ndarray:
    """Fit the dofs of a joint to a relative twist (..., 6)."""
    weights = _weights(length)
    return times(np.linalg.pinv(J * weights[:, None], rcond=_RCOND), twist * weights)


def _split_fit(J, twist, length) -> np.ndarray:
    """Fit rotational dofs to the angular part, then the others to the linear rest; ``length`` plays no part."""
    turns = np.any(np.abs(J[..., 3:, :]) > _RCOND, axis=tuple(range(J.ndim - 1)))
    qd = np.zeros((*np.broadcast_shapes(J.shape[:-2], twist.shape[:-1]), J.shape[-1]))
    qd[..., turns] = times(np.linalg.pinv(J[..., 3:, turns], rcond=_RCOND), twist[..., 3:])
    rest = twist[..., :3] - times(J[..., :3, :], qd)
    qd[..., ~turns] = times(np.linalg.pinv(J[..., :3, ~turns], rcond=_RCOND), rest)
    return qd


def _weights(length) -> np.ndarray:
    if not length > 0.0:
        raise ValueError(f"length must be positive, not {length!r}")
    return np.array([1.0, 1.0, 1.0, length, length, length])


def _shaped(value, shape, name) -> np.ndarray:
    value = np.asarray(value, dtype=np.float64)
    if value.shape[max(0, value.ndim - len(shape)) :] != shape:
        raise ValueError(f"{name} must have shape (..., {', '.join(map(str, shape))}), not {value.shape}")
    return value


def _require(name, value, allowed) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, not {value!r}")
