"""The multibody part of the reference: rotations, kinematics, free motion and integration (dense, float64).

Velocities inside ("sap" order) are indexed like Newton's ``joint_qd`` and equal it, except that a FREE or
DISTANCE joint holds ``[omega, v_ref]``: angular velocity, then the velocity of the child's reference point relative to the
parent's material point at the same place, both in the axes of the parent anchor frame. The reference point is the body
origin, or the center of mass when ``position_update`` is ``"symplectic"``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..attributes import has_ball_limits
from .basics import (
    BALL,
    D6,
    DISTANCE,
    FLYING,
    FREE,
    PRISMATIC,
    REVOLUTE,
    ROD,
    ball_error,
    compose,
    invert,
    quat_exp,
    quat_inverse,
    quat_matrix,
    quat_mul,
    split,
    unit,
)
from .change import SLOW_TURN, followed_change, share_of_midpoint
from .hung import pulls_of
from .tension import tension_inertia

KINEMATIC = 2  # newton.BodyFlags.KINEMATIC
HELD, ALONE, TOGETHER, TIED = range(4)
"""How a velocity changes in the step: as if nothing asked, as that of a body by itself, with those of a tree, or of trees that are tied."""
FAR_TURN = 0.3
"""Turn [rad] in a step, seen from a body, beyond which its angular momentum is turned as a whole."""


@dataclass
class Kinematics:
    """Poses, velocities and the velocity map of every degree of freedom, world frame.

    Each dof is an axis and, when angular, a pivot: the bodies it carries turn about that axis through that pivot.
    """

    origin: np.ndarray
    quat: np.ndarray
    com: np.ndarray
    omega: np.ndarray
    v_com: np.ndarray
    anchor: np.ndarray
    """Rotation matrix of each joint's parent anchor frame, shape (joints, 3, 3)."""
    angular: np.ndarray
    axis: np.ndarray
    axis_rate: np.ndarray
    pivot: np.ndarray
    pivot_rate: np.ndarray
    path: list[list[int]]
    """The dofs that move each body, root first."""
    straight: np.ndarray
    """The nearest body, at or above each, that flies on a joint below another one, and goes straight on; -1 for none."""

    def to_world(self, body, point):
        """Map a point of a body [m] to the world; body -1 is the world itself."""
        return point if body < 0 else self.origin[body] + quat_matrix(self.quat[body]) @ point

    def rotate(self, body, vector):
        """Turn a vector of a body into world axes; body -1 is the world itself."""
        return vector if body < 0 else quat_matrix(self.quat[body]) @ vector

    def jacobian(self, body, point):
        """Jacobians ``(angular, linear)`` of a body at a world point, each of shape (3, dofs)."""
        J_w, J_v = np.zeros((3, len(self.axis))), np.zeros((3, len(self.axis)))
        for k in self.path[body] if body >= 0 else ():
            if self.angular[k]:
                J_w[:, k], J_v[:, k] = self.axis[k], np.cross(self.axis[k], point - self.pivot[k])
            else:
                J_v[:, k] = self.axis[k]
        return J_w, J_v

    def bias_acceleration(self, body, v):
        """Accelerations ``(angular, linear at the COM)`` of a body while the generalised acceleration is zero."""
        alpha, a, start = np.zeros(3), np.zeros(3), 0
        if self.straight[body] >= 0:
            carrier = self.straight[body]
            start = len(self.path[carrier])
            a = np.cross(self.omega[carrier], self.v_com[body] - self.v_com[carrier])
        for k in self.path[body][start:]:
            if self.angular[k]:
                arm, arm_rate = self.com[body] - self.pivot[k], self.v_com[body] - self.pivot_rate[k]
                alpha += v[k] * self.axis_rate[k]
                a += v[k] * (np.cross(self.axis_rate[k], arm) + np.cross(self.axis[k], arm_rate))
            else:
                a += v[k] * self.axis_rate[k]
        return alpha, a


class Snapshot:
    """The model's arrays as float64 NumPy, with the derived topology; axes and quaternions normalised."""

    def __init__(self, model, state, control):
        def read(owner, name, dtype=float):
            array = getattr(owner, name)
            return np.zeros(0, dtype) if array is None else np.array(array.numpy(), dtype)

        self.type, self.parent, self.child = (read(model, f"joint_{n}", int) for n in ("type", "parent", "child"))
        self.q_start, self.qd_start = read(model, "joint_q_start", int), read(model, "joint_qd_start", int)
        self.linear_count = read(model, "joint_dof_dim", int).reshape(-1, 2)[:, 0]
        self.X_p = [split(x) for x in read(model, "joint_X_p")]
        self.X_c = [split(x) for x in read(model, "joint_X_c")]
        self.axis = read(model, "joint_axis")
        self.mass, self.com, self.inertia = (read(model, f"body_{n}") for n in ("mass", "com", "inertia"))
        self.inv_inertia = read(model, "body_inv_inertia").reshape(-1, 3, 3)
        self.inertia = 0.5 * (self.inertia.reshape(-1, 3, 3) + np.transpose(self.inertia.reshape(-1, 3, 3), (0, 2, 1)))
        self.body_world, self.gravity = read(model, "body_world", int), read(model, "gravity").reshape(-1, 3)
        for name in ("armature", "damping", "stiffness", "limit_lower", "limit_upper", "limit_ke", "limit_kd"):
            setattr(self, name, read(model, f"joint_{name}"))
        for name in ("target_ke", "target_kd", "target_mode", "effort_limit", "rest_q", "friction", "velocity_limit"):
            setattr(self, name, read(model, f"joint_{name}"))
        self.target_q, self.target_qd = read(control, "joint_target_q"), read(control, "joint_target_qd")
        self.joint_f, self.body_f = read(control, "joint_f"), read(state, "body_f").reshape(-1, 6)
        self.q, self.qd = read(state, "joint_q"), read(state, "joint_qd")
        self.loose_q, self.loose_qd = read(state, "body_q").reshape(-1, 7), read(state, "body_qd").reshape(-1, 6)
        self.bodies, self.dofs = len(self.mass), len(self.qd)
        if has_ball_limits(model):
            raise NotImplementedError("limits of ball joints are not part of the reference")
        self.enabled, articulation = read(model, "joint_enabled", bool), read(model, "joint_articulation", int)
        owner: dict[int, int] = {}  # joints of articulations claim their bodies first
        for j in sorted(range(len(self.type)), key=lambda j: (articulation[j] < 0, j)):
            off = not self.enabled[j] and self.type[j] != FREE
            if self.type[j] != ROD and not off and (articulation[j] >= 0 or self.parent[j] < 0):
                owner.setdefault(int(self.child[j]), j)
        self.loop = ~np.isin(np.arange(len(self.type)), list(owner.values()))
        self.order: list[int] = []  # parents before children, whatever the order in the model
        self.root = np.full(len(self.type), -1)  # root joint of each joint's tree; -1 for loop joints
        for j in np.flatnonzero(~self.loop):
            chain = [int(j)]
            while self.parent[chain[-1]] >= 0 and int(self.parent[chain[-1]]) in owner:
                chain.append(owner[int(self.parent[chain[-1]])])
                if len(chain) > len(self.type):
                    raise NotImplementedError("joints that move each other in a circle are not part of the reference")
            self.root[chain] = chain[-1]
            self.order += [i for i in reversed(chain) if i not in self.order]
        flags = read(model, "body_flags", int)
        if any(self.mass[b] > 0.0 and not flags[b] & KINEMATIC for b in range(self.bodies) if b not in owner):
            raise NotImplementedError("bodies that no joint moves are not part of the reference")
        kinematic = (flags[self.child] & KINEMATIC) != 0 if len(self.child) else []
        # A loop joint has no motion of its own: its dofs are no unknowns.
        self.prescribed_joint = np.logical_and(kinematic, self.parent < 0) | self.loop
        self.joint_of_dof = np.repeat(np.arange(len(self.type)), np.diff(self.qd_start))
        self.unknown = ~self.prescribed_joint[self.joint_of_dof] if self.dofs else np.zeros(0, bool)
        # Per-dof public arrays are (linear, angular) on free joints, sap order is (angular, linear).
        self.public_dof = np.arange(self.dofs)
        for j in np.flatnonzero(self.is_free()):
            i = self.qd_start[j]
            self.public_dof[i : i + 6] = i + np.array([3, 4, 5, 0, 1, 2])

    def is_free(self):
        """Mask of the tree joints with six dofs, alike."""
        return np.isin(self.type, FLYING) & ~self.loop

    def block_mask(self, whole):
        """Mask of the diagonal of a matrix of dofs; with ``whole``, of the rotations of free and ball joints together."""
        mask = np.eye(self.dofs, dtype=bool)
        for j in np.flatnonzero(self.is_free() | (self.type == BALL)) if whole else ():
            turns = slice(self.qd_start[j], self.qd_start[j] + 3)
            mask[turns, turns] = True
        return mask

    def coords(self, j):
        """Slice of a joint's coordinates."""
        return slice(self.q_start[j], self.q_start[j + 1])

    def tied(self):
        """Mask of the joints that are roots of trees with loop or distance joints, which do not move as they would alone."""
        tying = np.flatnonzero(self.loop | (self.type == DISTANCE))
        bodies = np.append(self.parent[tying], self.child[tying])
        return np.isin(np.arange(len(self.type)), self.root[np.isin(self.child, bodies) & ~self.loop])

    def leaning(self, touching):
        """Mask of the joints of trees that hang on the world and of which some body is in contact."""
        floats = self.is_free() & ~self.prescribed_joint
        leaning = {int(self.root[j]) for j in np.flatnonzero(np.isin(self.child, list(touching)) & ~self.loop)}
        return np.array([not floats[max(r, 0)] and int(r) in leaning for r in self.root], bool)

    def mass_of_trees(self, bodies):
        """Mass of all bodies that hang together with some [kg]."""
        roots = self.root[np.isin(self.child, bodies) & ~self.loop]
        return self.mass[self.child[np.isin(self.root, roots)]].sum()

    def scalar_axes(self):
        """``(dof, coordinate)`` of every axis whose rate is the derivative of one stored coordinate."""
        for j, kind in enumerate(self.type):
            if kind in (PRISMATIC, REVOLUTE, D6):
                yield from zip(
                    range(self.qd_start[j], self.qd_start[j + 1]),
                    range(self.q_start[j], self.q_start[j + 1]),
                    strict=True,
                )


class Multibody:
    """Kinematics, free motion and integration of a :class:`Snapshot`.

    Args:
        position_update: See :class:`newton_sap.config.SAPOptions`.
        spring_integration: Likewise.
    """

    def __init__(self, position_update, spring_integration="implicit"):
        self.position_update = position_update
        self.spring_integration = spring_integration

    # Kinematics and the two velocity conventions.

    def _com_arm(self, m, j, q):
        """Vector from the reference point to the COM of a free joint's child, parent anchor axes, shape (3,) [m]."""
        if self.position_update == "symplectic":
            return np.zeros(3)
        orientation = quat_mul(unit(q[m.coords(j)][3:]), quat_inverse(m.X_c[j][1]))
        return quat_matrix(orientation) @ m.com[m.child[j]]

    def to_sap(self, m, q, qd):
        """Turn public velocities into sap order: free joints become ``[omega, v_ref]``."""
        v = qd.copy()
        for j in np.flatnonzero(m.is_free()):
            i = m.qd_start[j]
            v_com, omega = qd[i : i + 3], qd[i + 3 : i + 6]
            v[i : i + 6] = *omega, *(v_com - np.cross(omega, self._com_arm(m, j, q)))
        return v

    def to_public(self, m, q, v):
        """Turn sap velocities into public ones at the coordinates ``q``: free joints become ``(v_com, omega)``."""
        qd = v.copy()
        for j in np.flatnonzero(m.is_free()):
            i = m.qd_start[j]
            omega, v_ref = v[i : i + 3], v[i + 3 : i + 6]
            qd[i : i + 6] = *(v_ref + np.cross(omega, self._com_arm(m, j, q))), *omega
        for j in np.flatnonzero(m.prescribed_joint):
            dofs = slice(m.qd_start[j], m.qd_start[j + 1])
            qd[dofs] = m.qd[dofs]  # untouched, not even by round-off
        return qd

    def kinematics(self, m, q, v) -> Kinematics:
        """Poses and velocities of all bodies from joint coordinates and sap velocities."""
        kin = Kinematics(
            origin=m.loose_q[:, :3].copy(),
            quat=m.loose_q[:, 3:].copy(),
            com=np.zeros((m.bodies, 3)),
            omega=m.loose_qd[:, 3:].copy(),
            v_com=m.loose_qd[:, :3].copy(),
            anchor=np.zeros((len(m.type), 3, 3)),
            angular=np.zeros(m.dofs, bool),
            path=[[] for _ in range(m.bodies)],
            straight=np.full(m.bodies, -1),
            **{name: np.zeros((m.dofs, 3)) for name in ("axis", "axis_rate", "pivot", "pivot_rate")},
        )
        for b in range(m.bodies):
            kin.com[b] = kin.to_world(b, m.com[b])
        identity = np.array([0.0, 0.0, 0.0, 1.0])
        for j in m.order:
            p, c, kind = m.parent[j], m.child[j], m.type[j]
            dofs, coords = range(m.qd_start[j], m.qd_start[j + 1]), q[m.coords(j)]
            omega_p = kin.omega[p] if p >= 0 else np.zeros(3)

            def parent_velocity(x, p=p, omega_p=omega_p):
                return kin.v_com[p] + np.cross(omega_p, x - kin.com[p]) if p >= 0 else np.zeros(3)

            X_a = compose((kin.origin[p], kin.quat[p]), m.X_p[j]) if p >= 0 else m.X_p[j]
            R_a = kin.anchor[j] = quat_matrix(X_a[1])
            chain = kind not in (*FLYING, BALL)
            if chain:
                local = [unit(m.axis[k]) for k in dofs]
                turning = [i >= m.linear_count[j] for i in range(len(dofs))]
                slide = sum(
                    (x * a for x, a, turns in zip(coords, local, turning, strict=True) if not turns), np.zeros(3)
                )
            else:
                local, turning = [*np.eye(3), *np.eye(3)], [True] * 3 + [False] * 3
                slide = np.zeros(3) if kind == BALL else coords[:3]
            # Axes of a chain are carried by the axes before them, which also turn them as they move.
            carried, omega_carried = identity if chain else unit(coords[-4:]), omega_p
            for i, k in enumerate(dofs):
                kin.angular[k] = turning[i]
                kin.axis[k] = R_a @ (quat_matrix(carried) @ local[i] if chain else local[i])
                kin.axis_rate[k] = np.cross(omega_carried, kin.axis[k])
                if chain and turning[i]:
                    carried = quat_mul(carried, quat_exp(coords[i] * local[i]))
                    omega_carried = omega_carried + v[k] * kin.axis[k]
            kin.origin[c], kin.quat[c] = compose(compose(X_a, (slide, carried)), invert(m.X_c[j]))
            kin.com[c] = kin.to_world(c, m.com[c])

            pivot = X_a[0] + R_a @ slide
            if kind in FLYING:
                pivot = kin.com[c] if self.position_update == "symplectic" else kin.origin[c]
            v_slide = sum((v[k] * kin.axis[k] for k in dofs if not kin.angular[k]), np.zeros(3))
            omega_joint = sum((v[k] * kin.axis[k] for k in dofs if kin.angular[k]), np.zeros(3))
            kin.pivot[dofs], kin.pivot_rate[dofs] = pivot, parent_velocity(pivot) + v_slide
            kin.omega[c] = omega_p + omega_joint
            kin.v_com[c] = parent_velocity(kin.com[c]) + v_slide + np.cross(omega_joint, kin.com[c] - pivot)
            kin.path[c] = (kin.path[p] if p >= 0 else []) + list(dofs)
            if p >= 0:
                flies = kind in FLYING and self.position_update == "symplectic"
                kin.straight[c] = c if flies else kin.straight[p]
        return kin

    def integrate(self, m, v0, v, dt):
        """Return the coordinates after ``dt``; prescribed joints stay where they are."""
        q = m.q.copy()
        update = self.position_update
        rate = 0.5 * (v0 + v) if update == "midpoint" else v
        for coordinate_dof, coordinate in m.scalar_axes():
            if m.unknown[coordinate_dof]:
                q[coordinate] += dt * rate[coordinate_dof]

        def turn(quat, omega):
            if update == "symplectic":
                return unit(quat_mul(quat_exp(dt * omega), quat))
            return unit(quat + 0.5 * dt * quat_mul(np.append(omega, 0.0), quat))

        for j in np.flatnonzero(~m.prescribed_joint):
            i, coords = m.qd_start[j], m.coords(j)
            if m.type[j] == BALL:
                q[coords] = turn(unit(q[coords]), rate[i : i + 3])
            elif m.type[j] in FLYING:
                # The reference point is what moves with v_ref; the stored pose is the child anchor's.
                reference = m.com[m.child[j]] if update == "symplectic" else np.zeros(3)
                origin, quat = compose(split(q[coords]), invert(m.X_c[j]))
                point = origin + quat_matrix(quat) @ reference + dt * rate[i + 3 : i + 6]
                quat = turn(quat, rate[i : i + 3])
                q[coords] = np.concatenate(compose((point - quat_matrix(quat) @ reference, quat), m.X_c[j]))
        return q

    # Free motion.

    def free_motion(self, m, kin, v0, dt, efforts=0.0, holding=0.0, touching=()):
        """Return ``(A, v_star, loads)``: dynamics matrix (dofs, dofs), velocities without constraints, and what changes momentum.

        The loads, each of shape (dofs,), are of velocity products and from outside, of joints at constant rates, and what pushes
        trees that lean.

        ``efforts`` are generalised forces [N, N m] of joints on top of those of the state and the control, shape (dofs,);
        ``holding`` are those of drives that act only in the solve, ``touching`` bodies in contact.
        """
        M, outside, products = np.zeros((m.dofs, m.dofs)), np.zeros(m.dofs), np.zeros(m.dofs)
        force = np.zeros(m.dofs) + efforts
        moves = self._moves(m)
        wrench, pulls = m.body_f.copy(), np.zeros((m.bodies, 3))
        for j in range(len(m.type)):
            dofs = slice(m.qd_start[j], m.qd_start[j + 1])
            if m.is_free()[j]:
                wrench[m.child[j]] += m.joint_f[dofs]  # a world wrench at the child's COM, without reaction
            else:
                force[dofs] += m.joint_f[dofs]
        applied = force.copy()  # for the whole step, as springs and drives are that are integrated explicitly
        for b in range(m.bodies):
            J_w, J_v = kin.jacobian(b, kin.com[b])
            R = quat_matrix(kin.quat[b])
            I = R @ m.inertia[b] @ R.T
            alpha, a = kin.bias_acceleration(b, v0)
            torque = -I @ alpha - self._gyroscopic_torque(I, R @ m.inv_inertia[b] @ R.T, kin.omega[b], moves[b], dt)
            M += m.mass[b] * J_v.T @ J_v + J_w.T @ I @ J_w
            products += J_v.T @ (-m.mass[b] * a) + J_w.T @ torque
            force_outside = wrench[b, :3] + m.mass[b] * m.gravity[m.body_world[b]]
            outside += J_v.T @ force_outside + J_w.T @ wrench[b, 3:]
            pulls[b] = force_outside - m.mass[b] * a
        M += np.diag(m.armature[m.public_dof])

        stiffness = np.zeros(m.dofs)
        for dof, coordinate in m.scalar_axes():
            stiffness[dof] = m.stiffness[dof]
            force[dof] -= stiffness[dof] * (m.q[coordinate] - m.rest_q[coordinate])
        for j in np.flatnonzero(m.type == BALL):
            dofs = slice(m.qd_start[j], m.qd_start[j + 1])
            stiffness[dofs] = m.stiffness[dofs]
            force[dofs] += stiffness[dofs] * ball_error(m.rest_q[m.coords(j)], m.q[m.coords(j)])

        if self.spring_integration == "explicit":
            stiffness[:] = 0.0
            applied = force.copy()
        implicit = dt * m.damping[m.public_dof] + dt * dt * stiffness
        lacking, kept = np.zeros(m.dofs), np.zeros(m.dofs)
        if self.position_update == "symplectic":
            least, kept = tension_inertia(m, kin, pulls + pulls_of(m), dt)
            lacking = np.maximum(least - m.armature[m.public_dof] - implicit, 0.0)
        A = M + np.diag(implicit + lacking)
        r = (M + np.diag(kept * lacking)) @ v0 + dt * (force + outside + products)
        u, known = m.unknown, ~m.unknown
        v_star, loads = v0.copy(), (np.zeros(m.dofs),) * 3
        if u.any():
            v_star[u] = np.linalg.solve(A[np.ix_(u, u)], r[u] - A[np.ix_(u, known)] @ v0[known])
            if self.position_update == "symplectic":
                load = dt * (outside + products + applied)
                hold = self._held(m, A, v0, load, dt * (force - applied + holding) - implicit * v0, dt)
                push = np.where(m.leaning(touching)[m.joint_of_dof], dt * outside, 0.0)
                loads = load, hold, push
                products = self.products_of_change(m, kin, A, v0, loads, TOGETHER, dt)
                v_star[u] += np.linalg.solve(A[np.ix_(u, u)], products[u])
        return A, v_star, loads

    def follow_tied(self, m, kin, A, v0, v_star, loads, ties, dt):
        """Return ``v_star`` with what velocity products add in trees that couplings hold, whose rows ``ties`` are known by now."""
        u = m.unknown
        if self.position_update != "symplectic" or not u.any():
            return v_star
        products = self.products_of_change(m, kin, A, v0, loads, TIED, dt, ties)
        out = v_star.copy()
        out[u] += np.linalg.solve(A[np.ix_(u, u)], products[u])
        return out

    def _held(self, m, A, v0, load, impulse, dt):
        """What joints give their dofs at constant rates, with friction and limits against the rest, shape (dofs,)."""
        free = m.is_free()[m.joint_of_dof]
        friction = np.where(free, 0.0, dt * m.friction[m.public_dof])
        impulse = impulse - np.clip(np.diag(A) * v0 + load + impulse, -friction, friction)
        for dof, coordinate in m.scalar_axes():
            q, net = m.q[coordinate] + dt * v0[dof], load[dof] + impulse[dof]
            pressed = (q <= m.limit_lower[dof] and net < 0.0) or (q >= m.limit_upper[dof] and net > 0.0)
            if pressed and m.limit_ke[dof] > 0.0:
                impulse[dof] = -load[dof]
        return impulse

    def products_of_change(self, m, kin, A, v0, loads, moves, dt, ties=()):
        """What velocity products add to the momentum of trees that move so, as they follow its change in the step, shape (dofs,).

        ``loads`` are what :meth:`free_motion` returns, ``ties`` the rows of couplings, which act as they do at the start.
        """
        load, hold, push = loads
        A_held, root = A.copy(), m.root[m.joint_of_dof]
        for tie in ties:
            _, gamma, G = tie.law(tie.J @ v0 + tie.bias)
            A_held += tie.J.T @ G @ tie.J
            load = load + tie.J.T @ gamma
            if G.any():
                joined = np.isin(root, root[np.any(tie.J != 0.0, axis=0)])
                root = np.where(joined, root[joined].min(), root)
        turn = dt * self._fastest_turn(m, kin)
        dofs = m.unknown & (self._moves(m)[m.child[m.joint_of_dof]] == moves)
        here = np.ix_(dofs, dofs)
        added = np.zeros(m.dofs)

        def products(change):
            full = np.zeros(m.dofs)
            full[dofs] = change
            return -dt * self._product_force(m, v0, full, dt)[dofs]

        if (turn[dofs] > SLOW_TURN).any():
            parts = load[dofs], hold[dofs], push[dofs]
            change = followed_change(root[dofs], A[here], A_held[here], *parts, products, turn[dofs])
            added[dofs] = np.where(turn[dofs] > SLOW_TURN, products(change), 0.0)
        return added

    def _fastest_turn(self, m, kin):
        """Angular speed [rad/s] of the fastest body of the tree of each dof, shape (dofs,)."""
        speed = np.zeros(m.dofs)
        for root in set(m.root[m.root >= 0]):
            joints = np.flatnonzero(m.root == root)
            speed[np.isin(m.joint_of_dof, joints)] = np.linalg.norm(kin.omega[m.child[joints]], axis=1).max()
        return speed

    def _product_force(self, m, v, change, dt):
        """Generalised force of the products of ``v`` with a change of it, shape (dofs,).

        The force is quadratic in the velocity, so that a product comes from a sum and a difference. Gyroscopic torques of what
        turns far have been turned already.
        """
        force = np.zeros(m.dofs)
        omega = self.kinematics(m, m.q, v).omega
        for sign in 1.0, -1.0:
            kin = self.kinematics(m, m.q, v + sign * change)
            for b in range(m.bodies):
                J_w, J_v = kin.jacobian(b, kin.com[b])
                R = quat_matrix(kin.quat[b])
                I = R @ m.inertia[b] @ R.T
                alpha, a = kin.bias_acceleration(b, v + sign * change)
                torque = I @ alpha
                if not turns_far(I, omega[b], dt):
                    torque = torque + np.cross(kin.omega[b], I @ kin.omega[b])
                force += 0.25 * sign * (J_v.T @ (m.mass[b] * a) + J_w.T @ torque)
        return force

    def _moves(self, m):
        """How the velocity of each body changes within a step, shape (bodies,)."""
        moves = np.full(m.bodies, HELD)
        if self.position_update == "symplectic":
            free, tied = m.is_free(), m.tied()
            for j in np.flatnonzero(~m.loop):
                alone = free[j] and (m.root == m.root[j]).sum() == 1
                moves[m.child[j]] = TIED if tied[m.root[j]] else ALONE if alone else TOGETHER
        return moves

    def _gyroscopic_torque(self, I, inverse, w0, moves, dt):
        """``w x I w`` [N m] at the start of the step, or what lets a body know how its spin changes; world axes."""
        L = I @ w0
        explicit = np.cross(w0, L)
        if self.position_update != "symplectic":
            return explicit
        if moves == HELD or turns_far(I, w0, dt):
            w = w0
            for _ in range(2):
                w = w0 - 0.5 * dt * inverse @ np.cross(w, I @ w)
            x, y, z = 0.5 * dt * w
            across = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
            # Cayley's transform of the half turn, backwards: orthogonal, so |L| stays.
            return (L - np.linalg.solve(np.eye(3) + across, (np.eye(3) - across) @ L)) / dt
        if moves in (TOGETHER, TIED):  # among the products that follow the change
            return explicit
        change = -dt * inverse @ explicit
        if not change @ I @ change > 0.0:
            return explicit

        def more(d):
            return 0.5 * (np.cross(w0, I @ d) + np.cross(d, L))

        further = -dt * inverse @ more(change)
        change = share_of_midpoint(change @ I @ change, further @ I @ further) * (change + further)
        after = L - dt * (explicit + more(change))
        return (L - after * np.linalg.norm(L) / np.linalg.norm(after)) / dt


def turns_far(I, w, dt):
    """Whether angular momentum turns far in a step, seen from its body."""
    return dt * np.linalg.norm(np.cross(w, I @ w)) > FAR_TURN * np.linalg.norm(I @ w)
