"""The whole SAP step in plain NumPy float64: slow, dense, and short enough to be read in one sitting.

It is the oracle of the Warp kernels and shares no code with them: every formula below is written out again from
``docs/formulation.md``. Nothing here is tuned for speed; each step rebuilds everything from the model's arrays.

Internal ("sap") velocities are indexed like Newton's ``joint_qd`` and equal it, except that a FREE or DISTANCE joint
holds ``[omega, v_ref]``: angular velocity, then the velocity of the child's reference point relative to the parent's
material point at the same place, both in the axes of the parent anchor frame. The reference point is the body origin,
or the center of mass when ``position_update`` is ``"symplectic"``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newton_sap.config import resolve_options

PRISMATIC, REVOLUTE, BALL, FIXED, FREE, DISTANCE, D6 = range(7)  # newton.JointType
NO_DRIVE, DRIVE_POSITION, DRIVE_VELOCITY, DRIVE_POSITION_VELOCITY, DRIVE_EFFORT = range(5)  # newton.JointTargetMode
KINEMATIC = 2  # newton.BodyFlags.KINEMATIC
NO_LIMIT = 1.0e10  # newton.MAXVAL: a bound this large means "none"
SOFT_NORM = 1.0e-7
"""Impulse scale [N s] below which the friction direction is smoothed."""


# Rotations. Quaternions are xyzw, float64, unit.


def quat_mul(a, b):
    """Return the quaternion product ``a b``: rotate by ``b``, then by ``a``."""
    av, bv = a[:3], b[:3]
    return np.append(a[3] * bv + b[3] * av + np.cross(av, bv), a[3] * b[3] - av @ bv)


def quat_inverse(a):
    """Return the inverse of a unit quaternion."""
    return np.array([-a[0], -a[1], -a[2], a[3]])


def quat_matrix(a):
    """Return the 3x3 rotation matrix of a unit quaternion."""
    x, y, z, w = a
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quat_exp(rotation_vector):
    """Return the quaternion of a rotation vector [rad]."""
    angle = np.linalg.norm(rotation_vector)
    # sin(angle / 2) / angle, with its limit 1/2 at zero.
    return np.append(0.5 * np.sinc(0.5 * angle / math.pi) * rotation_vector, math.cos(0.5 * angle))


def quat_log(a):
    """Return the rotation vector [rad] of a unit quaternion, the shorter way round (length <= pi)."""
    a = -a if a[3] < 0.0 else a
    s = np.linalg.norm(a[:3])
    return 2.0 * a[:3] if s < 1e-9 else 2.0 * math.atan2(s, a[3]) / s * a[:3]


def _unit(a):
    return a / np.linalg.norm(a)


def _split(transform):
    """Position and unit quaternion of a seven-number transform; float32 quaternions are only unit to 1e-7."""
    return transform[:3], _unit(transform[3:7])


def _compose(a, b):
    return a[0] + quat_matrix(a[1]) @ b[0], _unit(quat_mul(a[1], b[1]))


def _invert(a):
    inverse = quat_inverse(a[1])
    return -quat_matrix(inverse) @ a[0], inverse


# The two constraint laws. Each returns the cost, its negative gradient gamma and its Hessian G with respect to vc.


def friction_cone(vc, n, v_hat, R_n, R_t, mu, eps=SOFT_NORM):
    """Evaluate the SAP contact law in world axes, without tangent vectors.

    Args:
        vc: Velocity of body B relative to A at the contact, world frame, shape (3,) [m/s].
        n: Unit normal from A to B, world frame, shape (3,).
        v_hat: Normal stabilization velocity [m/s].
        R_n: Normal regularization [1/kg], > 0.
        R_t: Tangential regularization [1/kg], > 0.
        mu: Friction coefficient [-], >= 0.
        eps: Soft-norm impulse [N s].

    Returns:
        ``(cost, gamma, G)``: cost [J], impulse on B in world axes, shape (3,) [N s], and ``-d gamma / d vc``,
        shape (3, 3) [kg].
    """
    v_n = n @ vc
    u_n = v_hat - v_n
    u_t = v_n * n - vc
    s = math.sqrt(u_t @ u_t + (R_t * eps) ** 2)
    tangent_plane = np.eye(3) - np.outer(n, n)
    if s * R_n <= mu * R_t * u_n:
        # s instead of |u_t| adds R_t eps^2 / 2, which makes the cost continuous towards sliding.
        cost = 0.5 * (s * s / R_t + u_n * u_n / R_n)
        return cost, u_t / R_t + (u_n / R_n) * n, tangent_plane / R_t + np.outer(n, n) / R_n
    a = u_n + mu * s
    if a <= 0.0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    Q = R_n + mu * mu * R_t
    # A frictionless contact without soft norm may have s = 0; its direction then has no effect.
    t = u_t / s if s > 0.0 else np.zeros(3)
    w = mu * t + n
    bend = mu * a / (Q * s) if mu > 0.0 else 0.0
    return 0.5 * a * a / Q, (a / Q) * w, np.outer(w, w) / Q + bend * (tangent_plane - np.outer(t, t))


def clamped_linear(vc, v_hat, R, lo, hi):
    """Evaluate a scalar row whose impulse ``(v_hat - vc) / R`` is clamped to ``[lo, hi]``.

    Args:
        vc: Constraint velocity [m/s or rad/s].
        v_hat: Stabilization velocity, same unit.
        R: Regularization [1/kg or 1/(kg m^2)], > 0.
        lo: Lower impulse bound [N s or N m s], may be -inf.
        hi: Upper impulse bound, may be inf.

    Returns:
        ``(cost, gamma, G)``: cost [J], impulse, and ``-d gamma / d vc``.
    """
    y = (v_hat - vc) / R
    if y > hi:
        return R * hi * (y - 0.5 * hi), hi, 0.0
    if y < lo:
        return R * lo * (y - 0.5 * lo), lo, 0.0
    return 0.5 * R * y * y, y, 1.0 / R


def limit_gains(kp, kd, dt, w, beta):
    """Return drive gains ``(kp, kd)`` softened, at a constant ratio, to the stiffest drive the step resolves.

    Args:
        kp: Position gain [N/m or N m/rad], >= 0.
        kd: Velocity gain [N s/m or N m s/rad], >= 0, not both zero.
        dt: Step [s].
        w: Effective inverse mass of the axis [1/kg or 1/(kg m^2)].
        beta: Near-rigid factor [-]; 0 leaves the gains alone.
    """
    R_near_rigid = beta * beta / (4.0 * math.pi**2) * w
    if 1.0 / (dt * (dt * kp + kd)) >= R_near_rigid:
        return kp, kd
    if dt * kp > kd:
        tau = kd / kp
        kp = 1.0 / (dt * (dt + tau) * R_near_rigid)
        return kp, tau * kp
    ratio = kp / kd
    kd = 1.0 / (dt * (1.0 + dt * ratio) * R_near_rigid)
    return ratio * kd, kd


@dataclass
class Contact:
    """One contact of the convex problem; velocities are of shape 1's body relative to shape 0's, world axes."""

    index: int
    """Row in Newton's contact arrays."""
    bodies: tuple[int, int]
    """Body of shape 0 and of shape 1, -1 for the world."""
    n: np.ndarray
    """Unit normal from shape 0 to shape 1, shape (3,)."""
    points: np.ndarray
    """Where the impulse acts on body 0 and on body 1, world frame, shape (2, 3) [m]."""
    J: np.ndarray
    """Map from the unknown velocities (zero columns for prescribed dofs) to vc, shape (3, dofs)."""
    bias: np.ndarray
    """Part of vc from prescribed bodies and moving surfaces, shape (3,) [m/s]."""
    phi0: float
    v_hat: float
    R_n: float
    R_t: float
    mu: float
    w: float

    def law(self, vc):
        return friction_cone(vc, self.n, self.v_hat, self.R_n, self.R_t, self.mu)


@dataclass
class Row:
    """One scalar row: ``sign * v[dof]`` under :func:`clamped_linear`; ``kind`` is "limit" or "drive"."""

    kind: str
    dof: int
    sign: float
    v_hat: float
    R: float
    lo: float
    hi: float

    def law(self, vc):
        return clamped_linear(vc, self.v_hat, self.R, self.lo, self.hi)


class ConvexProblem:
    """The SAP objective over a subset of the degrees of freedom (dense, float64).

    ``cost(v) = (v - v*)' A (v - v*) / 2 + sum of contact and row costs``; ``gradient(v) = A (v - v*) - J' gamma``.

    Args:
        A: Linearised dynamics matrix of the subset, symmetric positive definite, shape (n, n).
        v_star: Free-motion velocities of the subset, shape (n,).
        contacts: Contacts that act on the subset.
        rows: Scalar rows that act on the subset.
        dofs: Global index of each of the n unknowns, shape (n,).
    """

    def __init__(self, A, v_star, contacts, rows, dofs):
        self.A, self.v_star, self.dofs = A, v_star, np.asarray(dofs, int)
        self.contacts, self.rows = contacts, rows
        local = {int(dof): i for i, dof in enumerate(self.dofs)}
        # Every term as (law, J, bias): an affine vc and a law that gives cost, gamma and G.
        self.terms = [(c.law, c.J[:, self.dofs], c.bias) for c in contacts]
        for row in rows:
            J = np.zeros((1, len(self.dofs)))
            J[0, local[row.dof]] = row.sign
            self.terms.append((_vector_law(row), J, np.zeros(1)))

    def cost(self, v):
        """Objective at ``v`` [J]."""
        d = v - self.v_star
        return 0.5 * d @ self.A @ d + sum(law(J @ v + b)[0] for law, J, b in self.terms)

    def constraint_impulse(self, v):
        """Generalised constraint impulse ``J' gamma`` at ``v``, shape (n,)."""
        return sum((J.T @ law(J @ v + b)[1] for law, J, b in self.terms), np.zeros(len(v)))

    def gradient(self, v):
        """Gradient of the objective at ``v``, shape (n,)."""
        return self.A @ (v - self.v_star) - self.constraint_impulse(v)

    def hessian(self, v):
        """Hessian of the objective at ``v``, shape (n, n)."""
        return self.A + sum((J.T @ law(J @ v + b)[2] @ J for law, J, b in self.terms), np.zeros_like(self.A))

    def along(self, v, dv):
        """Return a function of the step length: ``alpha -> (cost, slope, curvature)`` at ``v + alpha dv``."""
        d, dp = v - self.v_star, self.A @ dv
        lines = [(law, J @ v + b, J @ dv) for law, J, b in self.terms]

        def evaluate(alpha):
            cost = 0.5 * d @ self.A @ d + alpha * (dp @ d) + 0.5 * alpha * alpha * (dv @ dp)
            slope, curvature = dp @ d + alpha * (dv @ dp), dv @ dp
            for law, vc, dvc in lines:
                c, gamma, G = law(vc + alpha * dvc)
                cost, slope, curvature = cost + c, slope - dvc @ gamma, curvature + dvc @ G @ dvc
            return cost, slope, curvature

        return evaluate


def _vector_law(row):
    def law(vc):
        cost, gamma, G = row.law(vc[0])
        return cost, np.array([gamma]), np.array([[G]])

    return law


@dataclass
class Solution:
    """Result of :func:`minimize`: unknowns, statistics, and the optimality residual and scale [sqrt(J)]."""

    v: np.ndarray
    iterations: int
    costs: list[float]
    residual: float
    scale: float
    converged: bool


def minimize(problem, v, options):
    """Minimise a :class:`ConvexProblem` by Newton's method with exact line search, from the guess ``v``."""
    D = 1.0 / np.sqrt(np.diag(problem.A))
    costs: list[float] = []
    alpha = 1.0
    stalled = False  # the last step no longer reduced the cost: whatever the residual, this is round-off
    for iteration in range(options.max_iterations + 1):
        costs.append(problem.cost(v))
        gradient, impulse = problem.gradient(v), problem.constraint_impulse(v)
        residual = float(np.linalg.norm(D * gradient))
        scale = float(max(np.linalg.norm(D * (problem.A @ v)), np.linalg.norm(D * impulse)))
        if iteration > 0:
            decrease = abs(costs[-1] - costs[-2])
            mean = 0.5 * (abs(costs[-1]) + abs(costs[-2]))
            stalled = decrease < options.cost_abs + options.cost_rel * mean and alpha > 0.5
        converged = residual <= options.optimality_abs + options.optimality_rel * scale or stalled
        if converged or iteration == options.max_iterations:
            return Solution(v, iteration, costs, residual, scale, converged)
        dv = -np.linalg.solve(problem.hessian(v), gradient)
        alpha = line_search(problem.along(v, dv), gradient @ dv, options)
        v = v + alpha * dv


def line_search(evaluate, slope0, options, alpha_max=1.5):
    """Return the step length that zeroes the slope: Newton's method kept inside a bracket by bisection.

    Args:
        evaluate: ``alpha -> (cost, slope, curvature)``.
        slope0: Slope at zero, must be negative.
        options: Tolerances (:class:`newton_sap.config.SAPOptions`).
        alpha_max: Largest step length.
    """
    if not slope0 < 0.0:
        raise FloatingPointError(f"the Newton direction does not descend (slope {slope0})")
    cost, slope, curvature = evaluate(alpha_max)
    if slope <= 0.0:
        return alpha_max
    if -slope0 < options.cost_abs + options.cost_rel * cost:
        return 1.0
    low, high = 0.0, alpha_max
    alpha = min(-slope0 / curvature, alpha_max)
    step_tolerance = options.line_search_tolerance * alpha
    previous = before_previous = alpha_max
    for _ in range(options.line_search_max_iterations):
        _, slope, curvature = evaluate(alpha)
        low, high = (alpha, high) if slope < 0.0 else (low, alpha)
        if abs(slope) < options.line_search_tolerance * -slope0:
            break
        step = -slope / curvature
        too_slow = 2.0 * abs(slope) > abs(before_previous * curvature)
        if too_slow or not low < alpha + step < high:
            step = 0.5 * (low + high) - alpha
        before_previous, previous = previous, step
        alpha += step
        if abs(step) < step_tolerance:
            break
    return alpha


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
        alpha, a = np.zeros(3), np.zeros(3)
        for k in self.path[body]:
            if self.angular[k]:
                arm, arm_rate = self.com[body] - self.pivot[k], self.v_com[body] - self.pivot_rate[k]
                alpha += v[k] * self.axis_rate[k]
                a += v[k] * (np.cross(self.axis_rate[k], arm) + np.cross(self.axis[k], arm_rate))
            else:
                a += v[k] * self.axis_rate[k]
        return alpha, a


@dataclass
class ReferenceResult:
    """What one step computed. Velocities ``v0, v_star, v`` and ``A`` are in sap order (see the module docstring)."""

    v0: np.ndarray
    """Velocities at the start, shape (dofs,)."""
    v_star: np.ndarray
    """Velocities after free motion, shape (dofs,)."""
    v: np.ndarray
    """Velocities at the end, shape (dofs,)."""
    A: np.ndarray
    """Linearised dynamics matrix with armature, damping and springs, shape (dofs, dofs)."""
    gamma: list[dict[str, Any]]
    """Per contact of the problem: ``index`` in Newton's arrays, ``bodies``, ``points`` (2, 3) and their mean
    ``point`` [m], ``normal``, ``phi0`` [m], ``v_n`` [m/s], ``w``, ``R_n``, ``R_t`` [1/kg], ``v_hat`` [m/s], ``mu``,
    and ``gamma_W``, the world impulse [N s] on the body of shape 1."""
    rows: list[dict[str, Any]]
    """Per limit and drive row: ``kind``, ``dof``, ``sign``, ``v_hat``, ``R``, ``gamma``."""
    joint_q: np.ndarray
    joint_qd: np.ndarray
    body_q: np.ndarray
    """Body poses, position and xyzw, shape (bodies, 7)."""
    body_qd: np.ndarray
    """Body velocities, (COM velocity, angular velocity), world frame, shape (bodies, 6)."""
    iterations: int
    """Newton iterations, the largest over the independent problems."""
    costs: list[float]
    """Cost [J] at every iterate, summed over the independent problems."""
    residual: float
    """Scaled momentum residual [sqrt(J)] of the problem that is worst relative to its scale."""
    scale: float
    """Momentum scale [sqrt(J)] of the same problem."""
    solutions: list[tuple[ConvexProblem, Solution]] = field(default_factory=list, repr=False)
    """The independent convex problems (one per world, unless contacts join worlds) and their minimisers."""


class _Snapshot:
    """The model's arrays as float64 NumPy, with the derived topology; axes and quaternions normalised."""

    def __init__(self, model, state, control):
        def read(owner, name, dtype=float):
            array = getattr(owner, name)
            return np.zeros(0, dtype) if array is None else np.array(array.numpy(), dtype)

        self.type, self.parent, self.child = (read(model, f"joint_{n}", int) for n in ("type", "parent", "child"))
        self.q_start, self.qd_start = read(model, "joint_q_start", int), read(model, "joint_qd_start", int)
        self.linear_count = read(model, "joint_dof_dim", int).reshape(-1, 2)[:, 0]
        self.X_p = [_split(x) for x in read(model, "joint_X_p")]
        self.X_c = [_split(x) for x in read(model, "joint_X_c")]
        self.axis = read(model, "joint_axis")
        self.mass, self.com, self.inertia = (read(model, f"body_{n}") for n in ("mass", "com", "inertia"))
        self.inertia = 0.5 * (self.inertia.reshape(-1, 3, 3) + np.transpose(self.inertia.reshape(-1, 3, 3), (0, 2, 1)))
        self.body_world, self.gravity = read(model, "body_world", int), read(model, "gravity").reshape(-1, 3)
        for name in ("armature", "damping", "stiffness", "limit_lower", "limit_upper", "limit_ke", "limit_kd"):
            setattr(self, name, read(model, f"joint_{name}"))
        for name in ("target_ke", "target_kd", "target_mode", "effort_limit", "rest_q"):
            setattr(self, name, read(model, f"joint_{name}"))
        self.target_q, self.target_qd = read(control, "joint_target_q"), read(control, "joint_target_qd")
        self.joint_f, self.body_f = read(control, "joint_f"), read(state, "body_f").reshape(-1, 6)
        self.q, self.qd = read(state, "joint_q"), read(state, "joint_qd")
        self.loose_q, self.loose_qd = read(state, "body_q").reshape(-1, 7), read(state, "body_qd").reshape(-1, 6)
        self.bodies, self.dofs = len(self.mass), len(self.qd)
        if np.any(self.type > D6):
            raise NotImplementedError("ROD joints are not simulated")
        if len(set(self.child)) != len(self.child):
            raise NotImplementedError("loop joints are not part of the reference")

        owner = {int(child): j for j, child in enumerate(self.child)}
        self.order: list[int] = []  # parents before children, whatever the order in the model
        self.root = np.full(len(self.type), -1)  # root joint of each joint's tree
        for j in range(len(self.type)):
            chain = [j]
            while self.parent[chain[-1]] >= 0 and int(self.parent[chain[-1]]) in owner:
                chain.append(owner[int(self.parent[chain[-1]])])
            self.root[chain] = chain[-1]
            self.order += [i for i in reversed(chain) if i not in self.order]
        kinematic = (read(model, "body_flags", int)[self.child] & KINEMATIC) != 0 if len(self.child) else []
        self.prescribed_joint = np.logical_and(kinematic, self.parent < 0)
        self.joint_of_dof = np.repeat(np.arange(len(self.type)), np.diff(self.qd_start))
        self.unknown = ~self.prescribed_joint[self.joint_of_dof] if self.dofs else np.zeros(0, bool)
        # Per-dof public arrays are (linear, angular) on free joints, sap order is (angular, linear).
        self.public_dof = np.arange(self.dofs)
        for j in np.flatnonzero(self.is_free()):
            i = self.qd_start[j]
            self.public_dof[i : i + 6] = i + np.array([3, 4, 5, 0, 1, 2])

    def is_free(self):
        return (self.type == FREE) | (self.type == DISTANCE)

    def coords(self, j):
        return slice(self.q_start[j], self.q_start[j + 1])

    def scalar_axes(self):
        """``(dof, coordinate)`` of every axis whose rate is the derivative of one stored coordinate."""
        for j, kind in enumerate(self.type):
            if kind in (PRISMATIC, REVOLUTE, D6):
                yield from zip(
                    range(self.qd_start[j], self.qd_start[j + 1]),
                    range(self.q_start[j], self.q_start[j + 1]),
                    strict=True,
                )


class ReferenceSolver:
    """The SAP solver in dense float64 NumPy; takes the presets and options of :class:`newton_sap.SolverSAP`.

    Args:
        model: A Newton model without loop joints; read again at every step.
        preset: Name of a preset, or None.
        **options: Fields of :class:`newton_sap.config.SAPOptions`.
    """

    def __init__(self, model, *, preset=None, **options):
        self.model = model
        self.options = resolve_options(preset, options)

    def step(self, state, control, contacts, dt) -> ReferenceResult:
        """Advance a Newton state by ``dt`` [s] and return everything that was computed; the inputs are not modified.

        Args:
            state: Newton state; ``joint_q``, ``joint_qd`` and ``body_f`` are read.
            control: Newton control, or None for the model's own.
            contacts: Newton contacts, or None.
            dt: Step [s], > 0.
        """
        m = self._read(state, control)
        v0 = self.to_sap(m, m.q, m.qd)
        kin = self.kinematics(m, m.q, v0)
        A, v_star = self.free_motion(m, kin, v0, dt)
        rows = self.limit_rows(m, A, v0, v_star, dt) + self.drive_rows(m, A, dt)
        touching = [] if contacts is None else self.contact_rows(m, kin, A, v0, contacts, dt)
        v = v_star.copy()
        solutions = []
        for problem in self.problems(m, A, v_star, touching, rows):
            solutions.append((problem, minimize(problem, v0[problem.dofs].copy(), self.options)))
            v[problem.dofs] = solutions[-1][1].v

        q_new = self.integrate(m, v0, v, dt)
        qd_new = self.to_public(m, q_new, v)
        after = self.kinematics(m, q_new, v)
        stats = [s for _, s in solutions] or [Solution(v, 0, [0.0], 0.0, 0.0, True)]
        worst = max(stats, key=lambda s: s.residual / (s.scale or 1.0))
        length = max(len(s.costs) for s in stats)
        padded = [s.costs + [s.costs[-1]] * (length - len(s.costs)) for s in stats]
        return ReferenceResult(
            v0=v0,
            v_star=v_star,
            v=v,
            A=A,
            gamma=[_describe_contact(c, v) for c in touching],
            rows=[{**vars(row), "gamma": row.law(row.sign * v[row.dof])[1]} for row in rows],
            joint_q=q_new,
            joint_qd=qd_new,
            body_q=np.hstack([after.origin, after.quat]),
            body_qd=np.hstack([after.v_com, after.omega]),
            iterations=max(s.iterations for s in stats),
            costs=[sum(column) for column in zip(*padded, strict=True)],
            residual=worst.residual,
            scale=worst.scale,
            solutions=solutions,
        )

    def _read(self, state, control):
        control = self.model.control(clone_variables=False) if control is None else control
        return _Snapshot(self.model, state, control)

    # Kinematics and the two velocity conventions.

    def _com_arm(self, m, j, q):
        """Vector from the reference point to the COM of a free joint's child, parent anchor axes, shape (3,) [m]."""
        if self.options.position_update == "symplectic":
            return np.zeros(3)
        orientation = quat_mul(_unit(q[m.coords(j)][3:]), quat_inverse(m.X_c[j][1]))
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

            X_a = _compose((kin.origin[p], kin.quat[p]), m.X_p[j]) if p >= 0 else m.X_p[j]
            R_a = kin.anchor[j] = quat_matrix(X_a[1])
            chain = kind not in (FREE, DISTANCE, BALL)
            if chain:
                local = [_unit(m.axis[k]) for k in dofs]
                turning = [i >= m.linear_count[j] for i in range(len(dofs))]
                slide = sum(
                    (x * a for x, a, turns in zip(coords, local, turning, strict=True) if not turns), np.zeros(3)
                )
            else:
                local, turning = [*np.eye(3), *np.eye(3)], [True] * 3 + [False] * 3
                slide = np.zeros(3) if kind == BALL else coords[:3]
            # Axes of a chain are carried by the axes before them, which also turn them as they move.
            carried, omega_carried = identity if chain else _unit(coords[-4:]), omega_p
            for i, k in enumerate(dofs):
                kin.angular[k] = turning[i]
                kin.axis[k] = R_a @ (quat_matrix(carried) @ local[i] if chain else local[i])
                kin.axis_rate[k] = np.cross(omega_carried, kin.axis[k])
                if chain and turning[i]:
                    carried = quat_mul(carried, quat_exp(coords[i] * local[i]))
                    omega_carried = omega_carried + v[k] * kin.axis[k]
            kin.origin[c], kin.quat[c] = _compose(_compose(X_a, (slide, carried)), _invert(m.X_c[j]))
            kin.com[c] = kin.to_world(c, m.com[c])

            pivot = X_a[0] + R_a @ slide
            if kind in (FREE, DISTANCE):
                pivot = kin.com[c] if self.options.position_update == "symplectic" else kin.origin[c]
            v_slide = sum((v[k] * kin.axis[k] for k in dofs if not kin.angular[k]), np.zeros(3))
            omega_joint = sum((v[k] * kin.axis[k] for k in dofs if kin.angular[k]), np.zeros(3))
            kin.pivot[dofs], kin.pivot_rate[dofs] = pivot, parent_velocity(pivot) + v_slide
            kin.omega[c] = omega_p + omega_joint
            kin.v_com[c] = parent_velocity(kin.com[c]) + v_slide + np.cross(omega_joint, kin.com[c] - pivot)
            kin.path[c] = (kin.path[p] if p >= 0 else []) + list(dofs)
        return kin

    def integrate(self, m, v0, v, dt):
        """Return the coordinates after ``dt``; prescribed joints stay where they are."""
        q = m.q.copy()
        update = self.options.position_update
        rate = 0.5 * (v0 + v) if update == "midpoint" else v
        for coordinate_dof, coordinate in m.scalar_axes():
            if m.unknown[coordinate_dof]:
                q[coordinate] += dt * rate[coordinate_dof]

        def turn(quat, omega):
            if update == "symplectic":
                return _unit(quat_mul(quat_exp(dt * omega), quat))
            return _unit(quat + 0.5 * dt * quat_mul(np.append(omega, 0.0), quat))

        for j in np.flatnonzero(~m.prescribed_joint):
            i, coords = m.qd_start[j], m.coords(j)
            if m.type[j] == BALL:
                q[coords] = turn(_unit(q[coords]), rate[i : i + 3])
            elif m.type[j] in (FREE, DISTANCE):
                # The reference point is what moves with v_ref; the stored pose is the child anchor's.
                reference = m.com[m.child[j]] if update == "symplectic" else np.zeros(3)
                origin, quat = _compose(_split(q[coords]), _invert(m.X_c[j]))
                point = origin + quat_matrix(quat) @ reference + dt * rate[i + 3 : i + 6]
                quat = turn(quat, rate[i : i + 3])
                q[coords] = np.concatenate(_compose((point - quat_matrix(quat) @ reference, quat), m.X_c[j]))
        return q

    # Free motion.

    def free_motion(self, m, kin, v0, dt):
        """Return ``(A, v_star)``: dynamics matrix (dofs, dofs) and velocities without contacts, limits and drives."""
        M, force = np.zeros((m.dofs, m.dofs)), np.zeros(m.dofs)
        wrench = m.body_f.copy()
        for j in range(len(m.type)):
            dofs = slice(m.qd_start[j], m.qd_start[j + 1])
            if m.is_free()[j]:
                wrench[m.child[j]] += m.joint_f[dofs]  # a world wrench at the child's COM, without reaction
            else:
                force[dofs] += m.joint_f[dofs]
        for b in range(m.bodies):
            J_w, J_v = kin.jacobian(b, kin.com[b])
            R = quat_matrix(kin.quat[b])
            I = R @ m.inertia[b] @ R.T
            alpha, a = kin.bias_acceleration(b, v0)
            f = wrench[b, :3] + m.mass[b] * (m.gravity[m.body_world[b]] - a)
            torque = wrench[b, 3:] - I @ alpha - np.cross(kin.omega[b], I @ kin.omega[b])
            M += m.mass[b] * J_v.T @ J_v + J_w.T @ I @ J_w
            force += J_v.T @ f + J_w.T @ torque
        M += np.diag(m.armature[m.public_dof])

        stiffness = np.zeros(m.dofs)
        for dof, coordinate in m.scalar_axes():
            stiffness[dof] = m.stiffness[dof]
            force[dof] -= stiffness[dof] * (m.q[coordinate] - m.rest_q[coordinate])
        for j in np.flatnonzero(m.type == BALL):
            dofs = slice(m.qd_start[j], m.qd_start[j + 1])
            stiffness[dofs] = m.stiffness[dofs]
            force[dofs] += stiffness[dofs] * _ball_error(m.rest_q[m.coords(j)], m.q[m.coords(j)])

        A = M + np.diag(dt * m.damping[m.public_dof] + dt * dt * stiffness)
        r = M @ v0 + dt * force
        u, known = m.unknown, ~m.unknown
        v_star = v0.copy()
        if u.any():
            v_star[u] = np.linalg.solve(A[np.ix_(u, u)], r[u] - A[np.ix_(u, known)] @ v0[known])
        return A, v_star

    # Constraint rows.

    def limit_rows(self, m, A, v0, v_star, dt):
        """Return the rows of joint limits that are violated or within two steps' reach."""
        rows = []
        for dof, coordinate in m.scalar_axes():
            k = m.limit_ke[dof]
            if not m.unknown[dof] or k <= 0.0:
                continue
            reach = 2.0 * dt * max(abs(v0[dof]), abs(v_star[dof]))
            for sign, bound in ((1.0, m.limit_lower[dof]), (-1.0, m.limit_upper[dof])):
                gap = sign * (m.q[coordinate] - bound)
                if abs(bound) >= NO_LIMIT or gap > reach:
                    continue
                tau = self._dissipation(m.limit_kd[dof] / k, gap)
                R = _regularization(self.options.near_rigid_joint, 1.0 / A[dof, dof], k, tau, dt)
                rows.append(Row("limit", dof, sign, -gap / (dt + tau), R, 0.0, math.inf))
        return rows

    def drive_rows(self, m, A, dt):
        """Return the rows of position and velocity drives, clamped at their effort limits."""
        error = np.zeros(m.dofs)
        for dof, coordinate in m.scalar_axes():
            error[dof] = m.target_q[coordinate] - m.q[coordinate]
        for j in np.flatnonzero(m.type == BALL):
            error[m.qd_start[j] : m.qd_start[j + 1]] = _ball_error(m.target_q[m.coords(j)], m.q[m.coords(j)])
        rows = []
        for dof in np.flatnonzero(m.unknown & ~m.is_free()[m.joint_of_dof]):
            mode = m.target_mode[dof]
            kp = m.target_ke[dof] if mode in (DRIVE_POSITION, DRIVE_POSITION_VELOCITY) else 0.0
            kd = m.target_kd[dof] if mode not in (NO_DRIVE, DRIVE_EFFORT) else 0.0
            if kp <= 0.0 and kd <= 0.0:
                continue
            target = m.target_qd[dof] if mode != DRIVE_POSITION else 0.0
            kp, kd = limit_gains(kp, kd, dt, 1.0 / A[dof, dof], self.options.near_rigid_joint)
            slope = dt * kp + kd
            bound = dt * m.effort_limit[dof]
            v_hat = (kp * error[dof] + kd * target) / slope
            rows.append(Row("drive", int(dof), 1.0, v_hat, 1.0 / (dt * slope), -bound, bound))
        return rows

    def contact_rows(self, m, kin, A, v0, contacts, dt):
        """Return the contacts that move at least one unknown dof."""
        options, model = self.options, self.model
        names = ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "margin0", "margin1", "normal")
        data = {n: getattr(contacts, f"rigid_contact_{n}").numpy() for n in names}
        optional = {}
        for name in ("stiffness", "damping", "friction", "surface_velocity"):
            array = getattr(contacts, f"rigid_contact_{name}", None)
            optional[name] = None if array is None else array.numpy().astype(float)
        materials = _Materials(model, options.material_rule)
        shape_body = model.shape_body.numpy()
        rows = []
        for i in range(min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)):
            shapes = int(data["shape0"][i]), int(data["shape1"][i])
            if min(shapes) < 0 or shapes[0] == shapes[1]:
                continue
            bodies = [int(shape_body[s]) for s in shapes]
            n = _unit(data["normal"][i].astype(float))
            support = [kin.to_world(b, data[f"point{s}"][i].astype(float)) for s, b in enumerate(bodies)]
            surface = [support[s] + kin.rotate(b, data[f"offset{s}"][i].astype(float)) for s, b in enumerate(bodies)]
            phi0 = n @ (support[1] - support[0]) - float(data["margin0"][i]) - float(data["margin1"][i])
            k, tau, mu, weights = materials.pair(*shapes)
            given = {
                name: 0.0 if optional[name] is None else optional[name][i]
                for name in ("stiffness", "damping", "friction")
            }
            k = given["stiffness"] if given["stiffness"] > 0.0 else k
            tau = given["damping"] / k if given["damping"] > 0.0 and k > 0.0 else tau
            mu = mu * given["friction"] if given["friction"] > 0.0 else mu
            if options.contact_point == "shared":
                surface = [weights[0] * surface[0] + weights[1] * surface[1]] * 2
            jacobians = [kin.jacobian(b, x)[1] for b, x in zip(bodies, surface, strict=True)]
            J = jacobians[1] - jacobians[0]
            bias = J[:, ~m.unknown] @ v0[~m.unknown]
            if optional["surface_velocity"] is not None:
                slip = optional["surface_velocity"][i]
                bias = bias + slip - (n @ slip) * n
            J[:, ~m.unknown] = 0.0
            if options.contact_weight == "delassus":
                w = np.linalg.norm((J[:, m.unknown] / np.diag(A)[m.unknown]) @ J[:, m.unknown].T) / 3.0
            else:
                w = sum(_body_weight(m, kin, b, x) for b, x in zip(bodies, surface, strict=True))
            if not J.any() or w <= 0.0 or k <= 0.0:  # nothing that could move, or nothing that could push
                continue
            tau = self._dissipation(tau, phi0)
            R_n = _regularization(options.near_rigid_contact, w, k, tau, dt)
            R_t = options.friction_regularization * w
            v_hat = -phi0 / (dt + tau)
            rows.append(Contact(i, tuple(bodies), n, np.array(surface), J, bias, phi0, v_hat, R_n, R_t, mu, w))
        return rows

    def _dissipation(self, tau, gap):
        """Relaxation time [s] at a gap [m or rad]: none before touch, unless asked for."""
        return tau if gap <= 0.0 or self.options.dissipation_ahead_of_touch else 0.0

    def problems(self, m, A, v_star, contacts, rows):
        """Split the step into independent convex problems: one per world, joined where contacts join worlds.

        Trees that no row and no contact touches appear in none.
        """
        tree = m.root[m.joint_of_dof] if m.dofs else np.zeros(0, int)
        world = {int(t): int(m.body_world[m.child[t]]) for t in set(tree)}
        terms = [(np.flatnonzero(np.any(c.J != 0.0, axis=0)), c) for c in contacts] + [([row.dof], row) for row in rows]
        merged = {w: w for w in world.values()}
        for dofs, _ in terms:
            joined = {merged[world[int(tree[k])]] for k in dofs}
            merged = {w: min(joined) if g in joined else g for w, g in merged.items()}
        groups: dict[int, tuple[set, list, list]] = {}
        for dofs, term in terms:
            trees, group_contacts, group_rows = groups.setdefault(merged[world[int(tree[dofs[0]])]], (set(), [], []))
            trees.update(int(tree[k]) for k in dofs)
            (group_contacts if isinstance(term, Contact) else group_rows).append(term)
        for _, (trees, group_contacts, group_rows) in sorted(groups.items()):
            dofs = np.flatnonzero(m.unknown & np.isin(tree, sorted(trees)))
            yield ConvexProblem(A[np.ix_(dofs, dofs)], v_star[dofs], group_contacts, group_rows, dofs)


class _Materials:
    """Per-shape stiffness, relaxation time and friction, and the rule that combines two of them."""

    def __init__(self, model, rule):
        self.rule = rule
        self.k, kd, self.mu = (getattr(model, f"shape_material_{n}").numpy().astype(float) for n in ("ke", "kd", "mu"))
        self.tau = np.divide(kd, self.k, out=np.zeros_like(kd), where=self.k > 0.0)
        own = getattr(getattr(model, "sap", None), "relaxation_time", None)
        if own is not None:
            own = own.numpy().astype(float)
            self.tau = np.where(own >= 0.0, own, self.tau)

    def pair(self, a, b):
        """Return stiffness [N/m], relaxation time [s], friction [-] and the two bodies' weights of the contact point."""
        ka, kb, mu_a, mu_b = self.k[a], self.k[b], self.mu[a], self.mu[b]
        total = ka + kb
        weights = (ka / total, kb / total) if total > 0.0 else (0.5, 0.5)
        if self.rule == "newton":
            return 0.5 * total, weights[0] * self.tau[a] + weights[1] * self.tau[b], 0.5 * (mu_a + mu_b), weights
        mu = 2.0 * mu_a * mu_b / (mu_a + mu_b) if mu_a + mu_b > 0.0 else 0.0
        return weights[0] * kb, self.tau[a] + self.tau[b], mu, weights


def _regularization(beta, w, k, tau, dt):
    """Regularization of a compliant row, bounded below by the stiffest compliance the step resolves."""
    return max(beta * beta / (4.0 * math.pi**2) * w, 1.0 / (dt * k * (dt + tau)))


def _body_weight(m, kin, body, point):
    """Mean inverse mass [1/kg] that a body with an unknown dof shows at a point over all directions, unarticulated."""
    if body < 0 or m.mass[body] <= 0.0 or not m.unknown[kin.path[body]].any():
        return 0.0
    R, arm = quat_matrix(kin.quat[body]), point - kin.com[body]
    lever = np.cross(arm, np.eye(3))  # row i: arm x e_i
    inverse = np.linalg.inv(R @ m.inertia[body] @ R.T)
    return 1.0 / m.mass[body] + np.trace(lever @ inverse @ lever.T) / 3.0


def _ball_error(target, q):
    """Rotation vector [rad] from orientation ``q`` to ``target``, parent anchor axes, shape (3,)."""
    return quat_log(quat_mul(_unit(target), quat_inverse(_unit(q))))


def _describe_contact(contact, v):
    vc = contact.J @ v + contact.bias
    names = ("index", "bodies", "points", "phi0", "w", "R_n", "R_t", "v_hat", "mu")
    return {
        **{name: getattr(contact, name) for name in names},
        "normal": contact.n,
        "point": contact.points.mean(axis=0),
        "v_n": float(contact.n @ vc),
        "gamma_W": contact.law(vc)[1],
    }
