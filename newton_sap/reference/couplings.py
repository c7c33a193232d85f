"""Couplers of the reference: what a loop joint holds and what acts along its axes (dense, float64).

A loop joint between two anchors is a set of scalar rows over several dofs. Shares no formula's code with the kernels:
coordinates come from rotation matrices, and rates from the inverse of the axes as they stand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..boundary.actuator_rows import BIASED, read_actuators
from ..boundary.tendons import read_tendons
from ..boundary.topology import equality_table
from .basics import (
    BALL,
    DISTANCE,
    FLYING,
    FREE,
    ROD,
    ball_error,
    compose,
    quat_exp,
    quat_inverse,
    quat_log,
    quat_matrix,
    quat_mul,
    unit,
)
from .convex import STIFFEST, clamped_linear, dry_regularization, limit_gains, near_rigid, regularization, rigid_delay
from .hung import bends, hung_loads
from .rods import rod_rows, twist_about

NO_LIMIT = 1.0e9
"""A position bound this large means "none"; Newton's own is 1e10."""
NO_VELOCITY_LIMIT = 1.0e6
"""A velocity bound this large means "none"; it is Newton's default."""
SPEED_GIVES, UNHURRIED = 0.01, 0.25
"""How much a velocity limit gives way against a near-rigid row, and the share of it at which gaps close."""
GIMBAL_LOCK = 1.0e-3
CHORD = 0.9
"""Share of what chords strain a cable that is no tension."""
COARSE = 0.2
"""Turn [rad] of a body in a step at which half of what a row foresees of its error counts."""
MODES = {0: (0, 0, 0), 1: (1, 1, 0), 2: (0, 1, 1), 3: (1, 1, 1), 4: (0, 0, 0)}
"""Target mode to: position gain counts, velocity gain counts, target velocity counts."""


@dataclass
class Coupler:
    """One scalar row over several dofs; :class:`newton_sap.reference.convex.ConvexProblem` takes it like a contact."""

    kind: str
    joint: int
    axis: int
    J: np.ndarray
    """Shape (1, dofs), zero for prescribed dofs."""
    bias: np.ndarray
    v_hat: float
    R: float
    lo: float
    hi: float

    def law(self, vc):
        """Cost, impulse and slope at the row's velocity, as arrays of length one."""
        cost, gamma, G = clamped_linear(vc[0], self.v_hat, self.R, self.lo, self.hi)
        return cost, np.array([gamma]), np.array([[G]])


@dataclass
class LoopAxis:
    """One free axis of a loop joint: its coordinate and the Jacobian of its rate over all dofs, shape (dofs,)."""

    q: float
    J: np.ndarray | None
    """None in gimbal lock."""


class Pair:
    """The two anchors of a joint and the relative Jacobians of its bodies."""

    def __init__(self, m, kin, j):
        self.m, self.kin, self.j = m, kin, j
        self.a, self.b = int(m.parent[j]), int(m.child[j])
        self.X_a, self.X_b = (self._pose(body, X) for body, X in ((self.a, m.X_p[j]), (self.b, m.X_c[j])))
        self.R_a, self.R_b = quat_matrix(self.X_a[1]), quat_matrix(self.X_b[1])
        self.turned = quat_mul(quat_inverse(self.X_a[1]), self.X_b[1])

    def _pose(self, body, X):
        return X if body < 0 else compose((self.kin.origin[body], unit(self.kin.quat[body])), X)

    def angular(self):
        """Jacobian of the relative angular velocity, shape (3, dofs)."""
        return self.kin.jacobian(self.b, self.X_b[0])[0] - self.kin.jacobian(self.a, self.X_b[0])[0]

    def linear(self, point):
        """Jacobian of the relative velocity of the material at a point, shape (3, dofs)."""
        return self.kin.jacobian(self.b, point)[1] - self.kin.jacobian(self.a, point)[1]

    def fastest_spin(self):
        """Angular speed of the body that turns faster [rad/s]."""
        return max(np.linalg.norm(self.kin.omega[body]) if body >= 0 else 0.0 for body in (self.a, self.b))

    def share_foreseen(self, dt):
        """How much of what accelerations foretell counts; less where a body turns far in a step."""
        return 1.0 / (1.0 + (dt * self.fastest_spin() / COARSE) ** 4)

    def acceleration_at(self, body, point, v):
        """Acceleration of a body's material at a point, all rates ``v`` being kept [m/s^2]."""
        return self._acceleration(body, point, v)[1]

    def relative_spin(self):
        """Angular velocity of the second body against the first [rad/s]."""
        return self._material(self.b, self.X_b[0])[0] - self._material(self.a, self.X_b[0])[0]

    def acceleration(self, v, slides):
        """Relative acceleration ``(angular, linear)`` at the second anchor in turning axes of the first, all rates ``v`` being kept."""
        x = self.X_b[0]
        (w_a, v_a), (w_b, v_b) = (self._material(body, x) for body in (self.a, self.b))
        (alpha_a, a_a), (alpha_b, a_b) = (self._acceleration(body, x, v) for body in (self.a, self.b))
        linear = a_b - a_a - 2.0 * np.cross(w_a, v_b - v_a)
        if not slides:  # then v_b - v_a is what is left of an error, and no velocity
            linear -= np.cross(w_b - w_a, v_b - v_a)
        return alpha_b - alpha_a - np.cross(w_a, w_b), linear

    def _material(self, body, point):
        """Angular velocity of a body and velocity of its material at a point."""
        if body < 0:
            return np.zeros(3), np.zeros(3)
        w = self.kin.omega[body]
        return w, self.kin.v_com[body] + np.cross(w, point - self.kin.com[body])

    def _acceleration(self, body, point, v):
        """The accelerations that go with these."""
        if body < 0:
            return np.zeros(3), np.zeros(3)
        w, arm = self.kin.omega[body], point - self.kin.com[body]
        alpha, a = self.kin.bias_acceleration(body, v)
        return alpha, a + np.cross(alpha, arm) + np.cross(w, np.cross(w, arm))

    def moves(self, body):
        """Whether some unknown moves a body."""
        return body >= 0 and bool(self.m.unknown[self.kin.path[body]].any())

    def held_at(self):
        """Where errors are held: 0 at the first anchor, 1 at the second."""
        if not self.moves(self.a):
            return 1.0
        return 0.5 if self.moves(self.b) else 0.0


def require_known(model, control) -> None:
    """Refuse what would act and is not part of the reference.

    Raises:
        NotImplementedError: Mimic or distance joints, equality constraints, tendons or actuators that act, by kind.
    """
    distance = model.joint_qd_start.numpy()[:-1][model.joint_type.numpy() == DISTANCE]
    bounds = np.append(model.joint_limit_lower.numpy()[distance], model.joint_limit_upper.numpy()[distance])
    table, tendons, actuators = equality_table(model), read_tendons(model), read_actuators(model)
    acting = {
        "mimic joints": model.constraint_mimic_count or (model.joint_mimic_joint.numpy() >= 0).any(),
        "distance joints": ((bounds >= 0.0) & (bounds < NO_LIMIT)).any(),
        "equality constraints": table is not None and (table.equality_constraint_target_kind.numpy() == 0).any(),
        "tendons": model.tendon_count or (tendons is not None and tendons.acts.any()),
        "MuJoCo's actuators": actuators is not None
        and (actuators.changes_drives or (actuators.traits & BIASED).any() or _ctrl(model, control).any()),
    }
    for kind, acts in acting.items():
        if acts:
            raise NotImplementedError(f"{kind} are not part of the reference")


def _ctrl(model, control) -> np.ndarray:
    given = getattr(getattr(control, "mujoco", None), "ctrl", None)
    return (model.mujoco.ctrl if given is None else given).numpy()


def couplers(solver, m, kin, A, v0, v_star, dt) -> list[Coupler]:
    """Return all rows of the loop and rod joints of a snapshot."""
    make = RowMaker(solver, m, A, v0, v_star, dt)
    out = [row for j in np.flatnonzero(m.type == ROD) if m.enabled[j] for row in rod_rows(make, Pair(m, kin, j))]
    hung = hung_loads(m) if make.options.position_update == "symplectic" else {}
    for j in np.flatnonzero(m.loop & (m.type != ROD)):
        if m.type[j] == DISTANCE:
            raise NotImplementedError("distance joints that close loops are not part of the reference")
        if m.type[j] == FREE or not m.enabled[j]:
            continue
        pair = Pair(m, kin, j)
        ahead = make.time_ahead(pair)
        damped, inert = bends(pair, hung.get(int(j), np.zeros(3)), _angular(pair), dt)
        out += make.hold_together(j, ahead, inert, list(held_translation(pair, v0)), list(held_rotation(pair, v0)))
        out += [make.damp(j, axis @ pair.angular(), damping, kept) for axis, damping, kept in damped]
        for i, axis in enumerate(loop_axes(pair)):
            out += make.along(pair, i, axis) if axis.J is not None else []
    return [row for row in out if row.J.any()]


def perpendicular(a):
    """Some unit vector across a unit vector, by the rule that the solver has."""
    e = np.array([1.0, 0.0, 0.0]) if abs(a[0]) <= 0.7 else np.array([0.0, 1.0, 0.0])
    return unit(e - (a @ e) * a)


def turns_along(pair, axis):
    """Whether a joint that leaves one angle free, or all, leaves that about an axis of its anchors."""
    angular = _angular(pair)
    return len(angular) == 3 or len(angular) == 1 and np.linalg.norm(np.cross(angular[0], axis)) < 0.1


def held_translation(pair, v):
    """Yield ``(J, gap, acceleration, bend, most)`` across the free linear axes, ``bend`` a bound per dof of how its own motion changes J.

    The acceleration of the gap is that while all rates ``v`` are kept; ``most`` is the square of what each dof can do to the point.
    """
    axes = _axes(pair, slice(0, pair.m.linear_count[pair.j])) if pair.m.type[pair.j] != BALL else []
    d = pair.X_b[0] - pair.X_a[0]
    point = pair.X_b[0] if len(axes) else pair.X_a[0] + pair.held_at() * d
    carried = 0.0
    if len(axes) == 0:
        across = pair.R_a.T
    elif len(axes) == 1:
        first = pair.R_a @ perpendicular(axes[0])
        across = [first, np.cross(pair.R_a @ axes[0], first)]
        if turns_along(pair, axes[0]):
            carried = 1.0 - pair.held_at()
    else:
        across = [unit(np.cross(pair.R_a @ axes[0], pair.R_a @ axes[1]))] if len(axes) == 2 else []
    J = pair.linear(point)
    most = np.sum(J**2, axis=0)
    bend = np.linalg.norm(pair.angular(), axis=0) * np.sqrt(most)
    away = sum((e @ d) * e for e in across)
    turning, moving = pair.acceleration(v, slides=bool(axes))
    moving = moving + np.cross(turning, point - pair.X_b[0])
    for e in across:
        turn = carried * np.cross(e, away)
        yield e @ J + turn @ pair.angular(), e @ d, e @ moving + turn @ turning, bend, most


def held_rotation(pair, v):
    """Yield ``(J, gap, acceleration, bend, most)`` across the free angular axes."""
    axes = _angular(pair)
    swing = 0.0
    if len(axes) == 0:
        error = pair.R_a @ quat_log(pair.turned)
        across = [(e, e @ error) for e in pair.R_a.T]
    elif len(axes) == 1:
        u, other = pair.R_a @ axes[0], pair.R_b @ axes[0]
        first = pair.R_a @ perpendicular(axes[0])
        linear = _axes(pair, slice(0, pair.m.linear_count[pair.j]))
        plane = len(linear) == 2 and turns_along(pair, unit(np.cross(*linear)))
        spin = (0.0 if plane else pair.held_at()) * np.outer(other, u)
        across = [(e - e @ spin, e @ np.cross(u, other)) for e in (first, np.cross(u, first))]
    elif len(axes) == 2:
        u, other = pair.R_a @ axes[0], pair.R_b @ axes[1]
        across = [(np.cross(other, u), u @ other)]
        swing = (pair.relative_spin() @ u) * (pair.relative_spin() @ other)
    else:
        across = []
    J = pair.angular()
    turning, _ = pair.acceleration(v, slides=False)
    for e, gap in across:
        most = np.sum(J**2, axis=0)
        yield e @ J, gap, e @ turning + swing, np.linalg.norm(e) * most, e @ e * most


def _axes(pair, part):
    m, start, end = pair.m, *pair.m.qd_start[pair.j : pair.j + 2]
    return [unit(a) for a in m.axis[start:end][part]]


def _angular(pair):
    if pair.m.type[pair.j] == BALL:
        return list(np.eye(3))
    return _axes(pair, slice(pair.m.linear_count[pair.j], None))


def loop_axes(pair) -> list[LoopAxis]:
    """Return the free axes, linear ones first; angles are those closest to the joint's own entries of ``joint_q``."""
    m, j = pair.m, pair.j
    w = pair.angular()
    if m.type[j] == BALL:
        return [LoopAxis(q, e @ w) for q, e in zip(quat_log(pair.turned), pair.R_a.T, strict=True)]
    out = []
    linear = _axes(pair, slice(0, m.linear_count[j]))
    if linear:
        duals = np.linalg.pinv(np.array(linear).T) @ pair.R_a.T
        J = pair.linear(pair.X_b[0])
        out = [LoopAxis(e @ (pair.X_b[0] - pair.X_a[0]), e @ J) for e in duals]
    angles, duals = _angles(pair, _angular(pair))
    known = m.q[m.coords(j)][len(linear) :]
    for i, (q, e) in enumerate(zip(angles, duals, strict=True)):
        if len(angles) < 3 or i != 1:
            q = q + 2.0 * math.pi * round((known[i] - q) / (2.0 * math.pi))
        out.append(LoopAxis(q, None if e is None else e @ w))
    return out


def _angles(pair, axes):
    """Return the angles of carried axes and the vectors that give their rates from the relative angular velocity."""
    R = pair.R_a.T @ pair.R_b
    if len(axes) == 0:
        return [], []
    a = axes[0]
    if len(axes) == 1:
        u, v = pair.R_a @ a, pair.R_b @ a
        return [twist_about(R, a)], [(u + v) / (1.0 + u @ v)]
    basis = np.array([a, axes[1], np.cross(a, axes[1])]).T
    M = basis.T @ R @ basis
    if len(axes) == 2:
        return [math.atan2(M[2, 1], M[1, 1]), math.atan2(M[0, 2], M[0, 0])], [pair.R_a @ a, pair.R_b @ axes[1]]
    hand = math.copysign(1.0, axes[2] @ basis[:, 2])
    q = [math.atan2(-M[1, 2], M[2, 2]), math.asin(min(max(M[0, 2], -1.0), 1.0)), math.atan2(-M[0, 1], M[0, 0])]
    middle = pair.R_a @ quat_matrix(quat_exp(q[0] * a)) @ axes[1]
    columns = np.array([pair.R_a @ a, middle, pair.R_b @ axes[2]]).T
    q[2] *= hand
    if abs(np.linalg.det(columns)) <= GIMBAL_LOCK:
        return q, [None, middle, None]
    return q, list(np.linalg.inv(columns)[[0]]) + [middle] + list(np.linalg.inv(columns)[[2]])


class RowMaker:
    """Turns Jacobians into rows."""

    def __init__(self, solver, m, A, v0, v_star, dt):
        self.solver, self.options = solver, solver.options
        self.m, self.A, self.v0, self.v_star, self.dt = m, A, v0, v_star, dt
        self.beta = self.options.near_rigid_joint

    def weight(self, J):
        """Effective inverse mass of a row."""
        u = self.m.unknown
        return float(np.sum(J[u] ** 2 / np.diag(self.A)[u]))

    def row(self, kind, joint, axis, J, v_hat, R, lo=-math.inf, hi=math.inf):
        """Return a row; what prescribed dofs do is known."""
        known = ~self.m.unknown
        bias = np.array([J[known] @ self.v0[known]])
        return Coupler(kind, joint, axis, np.where(known, 0.0, J)[None], bias, v_hat, R, lo, hi)

    def time_ahead(self, pair):
        """Square of the time for which errors foresee how they accelerate [s^2]; less where a body turns far."""
        if self.options.position_update != "symplectic":
            return 0.0
        return 0.5 * self.dt * (self.dt + rigid_delay(self.dt)) * pair.share_foreseen(self.dt)

    def chord(self, pair):
        """By how much two anchors come apart in a step because bodies go along chords, as far as it is taken off [m]."""
        if self.options.position_update != "symplectic":
            return np.zeros(3)
        apart = pair.acceleration_at(pair.b, pair.X_b[0], self.v0) - pair.acceleration_at(pair.a, pair.X_a[0], self.v0)
        return CHORD * 0.5 * self.dt**2 * pair.share_foreseen(self.dt) * apart

    def hold_together(self, joint, ahead, inert, shifts, turns):
        """Hold all directions of a joint, no principal one of which asks for more than its own Jacobian promises.

        Rows that only rounding moves have no part in it. Solvers take axes that pass close by a row's point as a little off it.
        """
        held, u = [*shifts, *turns], self.m.unknown
        inverse = 1.0 / np.diag(self.A)[u]
        rows = [self.hold(joint, ahead, inert, *each[:4]) for each in held]
        most = [float(reach[u] @ inverse) for *_, reach in held]
        moving = [i for i, row in enumerate(rows) if self.weight(row.J[0]) > 1e-8 * most[i]]
        shift, turn = (sum(most[i] for i in moving if (i < len(shifts)) == first) for first in (True, False))
        distance = math.sqrt(shift / turn) if shift > 0.0 and turn > 0.0 else 1.0
        scale = np.array([1.0 if i < len(shifts) else distance for i in moving])
        B = max((s * float(held[i][3][u] @ inverse) for s, i in zip(scale, moving, strict=True)), default=0.0) / inert
        if B > 0.0:
            J = scale[:, None] * np.array([rows[i].J[0][u] for i in moving])
            inverse_mass, Q = np.linalg.eigh(J * inverse @ J.T)
            fastest = np.maximum(inverse_mass, 0.0) / (self.dt * B)
            asks = Q @ np.clip(Q.T @ (scale * [rows[i].v_hat for i in moving]), -fastest, fastest)
            for i, v_hat in zip(moving, asks / scale, strict=True):
                rows[i] = replace(rows[i], v_hat=float(v_hat))
        return [self._unhurried(row) for row in rows]

    def _unhurried(self, row):
        """Let a row close its error no faster than takes a dof, by its share, to a quarter of its velocity limit."""
        moves = self.m.unknown & (row.J[0] != 0.0)
        limit, J = self.m.velocity_limit[self.m.public_dof][moves], np.abs(row.J[0][moves])
        shares = J / np.diag(self.A)[moves]
        limited = (limit > 0.0) & (limit < NO_VELOCITY_LIMIT) & (row.v_hat != 0.0)
        rates = np.abs(row.v_hat) * shares[limited] / (J @ shares)
        kept = np.min(UNHURRIED * limit[limited] / rates, initial=1.0)
        return replace(row, v_hat=row.v_hat * kept)

    def hold(self, joint, ahead, inert, J, gap, acceleration, bend):
        """Hold a direction: its error halves in a step, or closes as fast as its Jacobian keeps what it promises."""
        u, w = self.m.unknown, self.weight(J)
        turns = float(np.sum(bend[u] / np.diag(self.A)[u])) / inert
        v_hat = -(gap + ahead * acceleration) / (self.dt + rigid_delay(self.dt))
        if turns > 0.0:
            v_hat = min(max(v_hat, -w / (turns * self.dt)), w / (turns * self.dt))
        return self.row("hold", joint, -1, J, v_hat, near_rigid(self.options.near_rigid_coupling, w))

    def damp(self, joint, J, damping, kept=0.0):
        """Damp a direction [N m s], but for a share of its rate that is kept."""
        gain = limit_gains(0.0, damping, self.dt, self.weight(J), STIFFEST)[1]
        return self.row("damper", joint, -1, J, kept * (J @ self.v0), 1.0 / (self.dt * gain))

    def stop(self, kind, joint, axis, J, gap, k, kd):
        """Keep a gap, whose rate is ``J v``, from closing."""
        reach = 2.0 * self.dt * max(abs(J @ self.v0), abs(J @ self.v_star))
        ahead = self.options.dissipation_ahead_of_touch
        if k <= 0.0 or (ahead and gap > reach):
            return []
        tau = kd / k if gap <= 0.0 or ahead else 0.0
        R = regularization(self.beta, self.weight(J), k, tau, self.dt)
        return [self.row(kind, joint, axis, J, -gap / (self.dt + tau), R, 0.0)]

    def along(self, pair, i, axis):
        """All rows of one free axis."""
        m, j, dt, J = self.m, pair.j, self.dt, axis.J
        k = m.qd_start[j] + i
        w = self.weight(J)
        ball = m.type[j] == BALL
        if w <= 0.0:
            return []
        rows = []
        if not ball:
            for sign, bound in ((1.0, m.limit_lower[k]), (-1.0, m.limit_upper[k])):
                if abs(bound) < NO_LIMIT:
                    gap = sign * (axis.q - bound)
                    rows += self.stop("limit", j, i, sign * J, gap, m.limit_ke[k], m.limit_kd[k])
        error = self._error(pair, i, axis, m.target_q)
        use_kp, use_kd, use_rate = MODES[int(m.target_mode[k])]
        kp, kd, rate = use_kp * m.target_ke[k], use_kd * m.target_kd[k], use_rate * m.target_qd[k]
        effort = m.joint_f[k] if len(m.joint_f) else 0.0
        if (kp > 0.0 or kd > 0.0) and m.effort_limit[k] > 0.0:
            bound = m.effort_limit[k]
            if self.options.drive_integration == "implicit" or ball:
                kp, kd = limit_gains(kp, kd, dt, w, self.beta)
                slope = dt * kp + kd
                v_hat = (kp * error + kd * rate) / slope
                rows.append(self.row("drive", j, i, J, v_hat, 1.0 / (dt * slope), -dt * bound, dt * bound))
            else:
                effort += min(max(kp * error + kd * (rate - J @ self.v0), -bound), bound)
        if 0.0 < m.velocity_limit[k] < NO_VELOCITY_LIMIT:
            R = SPEED_GIVES * near_rigid(self.beta, w)
            rows += [self.row("velocity", j, i, s * J, -m.velocity_limit[k], R, 0.0) for s in (1.0, -1.0)]
        if m.friction[k] > 0.0:
            bound = dt * m.friction[k]
            rows.append(self.row("friction", j, i, J, 0.0, dry_regularization(self.options, w, bound), -bound, bound))
        return rows + self._forces(pair, i, axis, k, w, effort)

    def _forces(self, pair, i, axis, k, w, effort):
        """Spring, damper, armature and what acts from the start of the step."""
        m, j, dt, J = self.m, pair.j, self.dt, axis.J
        stiffness, stretch = m.stiffness[k], self._error(pair, i, axis, m.rest_q)
        rows = []
        if self.options.spring_integration == "explicit":
            effort, stiffness = effort + stiffness * stretch, 0.0
        if stiffness > 0.0 or m.damping[k] > 0.0:
            c, d = limit_gains(stiffness, m.damping[k], dt, w, STIFFEST)
            rows.append(self.row("spring", j, i, J, c * stretch / (dt * c + d), 1.0 / (dt * (dt * c + d))))
        if m.armature[k] > 0.0:
            keeps = J @ self.v0 - dt * self._acceleration(j, i)
            rows.append(self.row("armature", j, i, J, keeps, 1.0 / m.armature[k]))
        if effort != 0.0:
            rows.append(self.row("effort", j, i, J, 0.0, w, dt * effort, dt * effort))
        return rows

    def _acceleration(self, j, i, h=1.0e-4):
        """Acceleration of an axis while all dofs keep their velocity, by central differences."""
        rates = []
        for time in (h, -h):
            q = self.solver.integrate(self.m, self.v0, self.v0, time)
            kin = self.solver.kinematics(self.m, q, self.v0)
            rates.append(loop_axes(Pair(self.m, kin, j))[i].J @ self.v0)
        return (rates[0] - rates[1]) / (2.0 * h)

    def _error(self, pair, i, axis, goal):
        """A goal minus a coordinate; of a ball joint the rotation vector between them."""
        if self.m.type[pair.j] == BALL:
            return ball_error(goal[self.m.coords(pair.j)], pair.turned)[i]
        return goal[self.m.q_start[pair.j] + i] - axis.q


def measured(m, kin, v):
    """Return coordinates and rates of the loop joints of a snapshot at a pose, as ``{joint: (q, qd)}``."""
    out = {}
    for j in np.flatnonzero(m.loop):
        if m.type[j] in (*FLYING, ROD):
            continue
        pair = Pair(m, kin, j)
        axes = loop_axes(pair)
        q = pair.turned if m.type[j] == BALL else np.array([axis.q for axis in axes])
        out[j] = q, np.array([0.0 if axis.J is None else axis.J @ v for axis in axes])
    return out
