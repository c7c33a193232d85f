"""The convex problem of the reference: constraint laws, objective and Newton's method with exact line search (float64).

Knows nothing of bodies and joints; :mod:`newton_sap.reference` builds the problems.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np

from .hunt_crossley import HuntCrossley
from .islands import NOTHING, Islands
from .line_search import line_search

SOFT_NORM = 1.0e-7
"""Impulse scale [N s] below which the friction direction is smoothed."""

EASY = 10
"""Iterations after which line searches are exact."""

STIFFEST = 6.0e-4
"""``beta`` of springs along loop joints and of rods."""
LEAST_DELAY = 4.0e-3
"""Delay [s] with which near-rigid rows close their errors, at least."""
MOST_SLIP, HARDER = 30.0, 0.03
"""Slip below which friction is regularised where bounds are those of the solve, at most, in stiction tolerances, or of what sap has."""
RENEWALS, LAST_RENEWALS = 4, 3
"""How often a solve may renew its friction bounds on the way, and at a minimum."""
RENEWAL_RANGE = 0.01, 0.98
"""Residual over constraint impulses between which it does."""
RESOLUTION = 1e-5
"""Share of the momentum at the start of a step, beside what changes of it in the step, that residuals are compared with."""
CLOSE = 1e-3
"""Residual over scale from which on sleeping rows are looked at, in a solve that is no easy one."""
BOUND_ERROR = 0.01, 0.2
"""Relative error of a bound that a renewal leaves alone, and that the first minimum may keep."""
NOTABLE = 0.02, 0.3
"""Share of the root of all normal impulses' squares that an error may be for a minimum to keep it all the same, the first or a later."""


def regularization(beta, w, k, tau, dt):
    """Regularization of a compliant row, bounded below by the stiffest compliance the step resolves."""
    return max(near_rigid(beta, w), 1.0 / (dt * k * (dt + tau)))


def rigid_delay(dt):
    """Delay with which near-rigid rows close their errors [s]."""
    return max(dt, LEAST_DELAY)


def near_rigid(beta, w):
    """Regularization of the stiffest row the step resolves, of period ``beta dt``."""
    return beta * beta / (4.0 * math.pi**2) * w


# The laws. Each returns the cost, its negative gradient gamma and its Hessian G with respect to vc.


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


def _slip(vc, n, scale):
    """Return normal velocity, softened slip speed, slip direction (length < 1) and the tangent plane's projector."""
    v_n = n @ vc
    v_t = vc - v_n * n
    length = math.sqrt(v_t @ v_t + scale * scale)
    return v_n, length, v_t / length, np.eye(3) - np.outer(n, n)


def slip_limits(options) -> tuple[float, float]:
    """Return the least and the most slip below which friction is regularised [m/s]."""
    most = MOST_SLIP if options.friction_bound == "solved" else math.inf
    return options.stiction_tolerance, most * options.stiction_tolerance


def dry_regularization(options, w, bound):
    """Return the regularisation of dry joint friction whose impulse is bounded [1/kg or 1/(kg m^2)]."""
    R, (_, most) = options.friction_regularization * w, slip_limits(options)
    return R if R * bound <= most else max(most / bound, HARDER * R)


def lagged(vc, n, normal, mu, n0, slip_scale):
    """Evaluate the lagged contact model: Hunt & Crossley, and friction bounded by an impulse known beforehand.

    Args:
        vc: Velocity of body B relative to A at the contact, world frame, shape (3,) [m/s].
        n: Unit normal from A to B, world frame, shape (3,).
        normal: Normal law (:class:`HuntCrossley`).
        mu: Friction coefficient [-], >= 0.
        n0: Normal impulse that bounds friction [N s], >= 0.
        slip_scale: Slip speed below which friction is regularised [m/s], > 0.

    Returns:
        ``(cost, gamma, G)`` as :func:`friction_cone`.
    """
    v_n, length, t, tangent_plane = _slip(vc, n, slip_scale)
    cost = mu * n0 * (length - slip_scale) - normal.potential(v_n)
    G = mu * n0 / length * (tangent_plane - np.outer(t, t)) - normal.slope(v_n) * np.outer(n, n)
    return cost, normal.impulse(v_n) * n - mu * n0 * t, G


def similar(vc, n, normal, mu, slip_scale):
    """Evaluate the similar contact model: Hunt & Crossley's law of ``z = v_n - mu |v_t|``; see :func:`lagged`."""
    v_n, length, t, tangent_plane = _slip(vc, n, slip_scale)
    z = v_n - mu * (length - slip_scale)
    direction, impulse = n - mu * t, normal.impulse(z)
    bend = mu * impulse / length * (tangent_plane - np.outer(t, t))
    return -normal.potential(z), impulse * direction, bend - normal.slope(z) * np.outer(direction, direction)


def spin_friction(w, n, torsional, rolling, scale):
    """Evaluate torsional and rolling friction: moments against the spin about the normal and across it.

    Args:
        w: Spin of body B relative to A, world frame, shape (3,) [rad/s].
        n: Unit normal from A to B, world frame, shape (3,).
        torsional: Largest angular impulse about the normal [N m s], >= 0.
        rolling: Largest angular impulse across the normal [N m s], >= 0.
        scale: Spin below which the moments are regularised [rad/s], > 0.

    Returns:
        ``(cost, gamma, G)`` as :func:`friction_cone`, with ``gamma`` the angular impulse on B.
    """
    w_n, roll, t, tangent_plane = _slip(w, n, scale)
    twist = math.sqrt(w_n * w_n + scale * scale)
    s = w_n / twist
    cost = torsional * (twist - scale) + rolling * (roll - scale)
    G = torsional / twist * (1.0 - s * s) * np.outer(n, n) + rolling / roll * (tangent_plane - np.outer(t, t))
    return cost, -torsional * s * n - rolling * t, G


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
    R_near_rigid = near_rigid(beta, w)
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
    model: str = "sap"
    """Name of the contact law."""
    normal: HuntCrossley | None = None
    """Normal law of the lagged and similar models."""
    n0: float = 0.0
    slip_scale: float = 0.0
    rebound: float | None = None
    """Speed [m/s] at which the surfaces part, should they meet within the step."""
    asleep: bool = False
    """Whether it takes part only if a minimum without it closes it."""
    corner: int = 0  # beside where the row was found, 0 there

    def aim_at(self, target):
        """Make ``target`` the separation velocity [m/s] that the contact asks for, without damping."""
        dt = self.normal.dt
        k = 1.0 / (dt * dt * self.R_n)
        self.v_hat, self.normal = target, HuntCrossley(dt * k * target, k, 0.0, dt)

    def let_go(self):
        """Take no part in what follows."""
        self.aim_at(-1e30)
        self.n0 = 0.0

    def bound_friction(self, n0, least_slip, most_slip):
        """Bound lagged friction by ``mu n0``."""
        slip = self.mu * self.R_t * n0
        self.n0, self.slip_scale = n0, max(least_slip, min(slip, max(most_slip, HARDER * slip)))

    def law(self, vc):
        """Cost, impulse and Hessian at the contact velocity ``vc``."""
        if self.model == "lagged":
            return lagged(vc, self.n, self.normal, self.mu, self.n0, self.slip_scale)
        if self.model == "similar":
            return similar(vc, self.n, self.normal, self.mu, self.slip_scale)
        return friction_cone(vc, self.n, self.v_hat, self.R_n, self.R_t, self.mu)

    def slip_speed(self, vc):
        """Return what friction divides the slip velocity by [m/s]; zero unless the contact slides."""
        if self.model != "sap":
            return _slip(vc, self.n, self.slip_scale)[1]
        v_n, s, _, _ = _slip(vc, self.n, self.R_t * SOFT_NORM)
        sticks = s * self.R_n <= self.mu * self.R_t * (self.v_hat - v_n)
        opens = self.v_hat - v_n + self.mu * s <= 0.0
        return 0.0 if sticks or opens else s


@dataclass
class Spin:
    """Torsional and rolling friction of one contact: the spin of shape 1's body relative to shape 0's, world axes."""

    index: int
    """Row in Newton's contact arrays."""
    bodies: tuple[int, int]
    n: np.ndarray
    J: np.ndarray
    """Map from the unknown velocities to the relative spin, shape (3, dofs)."""
    bias: np.ndarray
    """Part of the spin from prescribed bodies, shape (3,) [rad/s]."""
    contact: Contact
    """Whose normal impulse bounds the moments."""
    mu: tuple[float, float]
    """Torsional and rolling coefficient [m]."""
    scale: float
    """Spin below which the moments are regularised [rad/s]."""
    n0: float
    """What is taken for that impulse [N s]."""

    @property
    def bounds(self):
        """Largest angular impulse about the normal and across it [N m s]."""
        return self.mu[0] * self.n0, self.mu[1] * self.n0

    def bound_friction(self, n0, _least_slip, _most_slip):
        """Bound the moments by ``mu n0``."""
        self.n0 = n0

    def law(self, w):
        """Cost, impulse and Hessian at the relative spin ``w``."""
        return spin_friction(w, self.n, *self.bounds, self.scale)

    def slip_speed(self, w):
        """Return what the rolling moment divides the spin across the normal by [rad/s]."""
        return _slip(w, self.n, self.scale)[1]


@dataclass
class Row:
    """One scalar row: ``sign * v[dof]`` under :func:`clamped_linear`; ``kind`` is "limit", "drive", "friction" or "velocity"."""

    kind: str
    dof: int
    sign: float
    v_hat: float
    R: float
    lo: float
    hi: float

    def law(self, vc):
        """Cost, impulse and slope at the constraint velocity ``vc``."""
        return clamped_linear(vc, self.v_hat, self.R, self.lo, self.hi)

    def is_idle(self, vc):
        """Whether the row exerts nothing at ``vc`` and around it."""
        return self.law(vc)[1] == 0.0 and self.law(vc)[2] == 0.0


def _sleeps(term):
    contact = term.contact if isinstance(term, Spin) else term
    return isinstance(contact, Contact) and contact.asleep


def _term(contact, dofs):
    return contact.law, contact.J[:, dofs], contact.bias


class ConvexProblem:
    """The SAP objective over a subset of the degrees of freedom (dense, float64).

    ``cost(v) = (v - v*)' A (v - v*) / 2 + sum of contact and row costs``; ``gradient(v) = A (v - v*) - J' gamma``.

    Args:
        A: Linearised dynamics matrix of the subset, symmetric positive definite, shape (n, n).
        v_star: Free-motion velocities of the subset, shape (n,).
        contacts: Contacts and their spin friction that act on the subset.
        rows: Scalar rows that act on the subset.
        dofs: Global index of each of the n unknowns, shape (n,).
        v0: Velocities of the subset at the start of the step, shape (n,); limits that twice the speed of free motion does
            not reach sleep until a minimum without them violates them.
        tree: Tree of each unknown, shape (n,); all are of one by default.
        alone: Whether the group has no other tree.
    """

    def __init__(self, A, v_star, contacts, rows, dofs, v0, tree=None, alone=True):
        self.tree, self.alone = np.zeros(len(A), int) if tree is None else tree, alone
        self.A, self.v_star, self.dofs = A, v_star, np.asarray(dofs, int)
        D = 1.0 / np.sqrt(np.diag(A))
        self.change = math.hypot(np.linalg.norm(D * (A @ (v_star - v0))), RESOLUTION * np.linalg.norm(D * (A @ v0)))
        self.contacts, self.rows, self.terms = [], [], []
        """``terms`` has each as (law, J, bias): an affine vc and a law that gives cost, gamma and G."""
        self._place = {int(dof): i for i, dof in enumerate(self.dofs)}
        self._let_in(c for c in contacts if not _sleeps(c))
        self._sleeping_contacts = [c for c in contacts if _sleeps(c)]
        speed = np.maximum(np.abs(v0), np.abs(v_star))
        self._asleep = []
        for row in rows:
            reach = 2.0 * speed[self._place[row.dof]]
            sleeps = row.kind in ("limit", "velocity") and row.is_idle(reach) and row.is_idle(-reach)
            if sleeps:
                self._asleep.append(row)
            else:
                self._add(row)

    def _add(self, row):
        self.rows.append(row)
        J = np.zeros((1, len(self.dofs)))
        J[0, self._place[row.dof]] = row.sign
        self.terms.append((_vector_law(row), J, np.zeros(1)))

    def _let_in(self, contacts):
        for contact in contacts:
            self.contacts.append(contact)
            self.terms.append(_term(contact, self.dofs))

    def wake_contacts(self, v):
        """Let all sleeping contacts take part if any acts at ``v``; return whether one does."""
        terms = (_term(contact, self.dofs) for contact in self._sleeping_contacts)
        if not any(law(J @ v + bias)[1].any() for law, J, bias in terms):
            return False
        self._let_in(self._sleeping_contacts)
        self._sleeping_contacts = []
        return True

    def wake(self, v):
        """Let sleeping rows that act at ``v`` take part; return whether there were any."""
        woken = [row for row in self._asleep if not row.is_idle(row.sign * v[self._place[row.dof]])]
        for row in woken:
            self._asleep.remove(row)
            self._add(row)
        return bool(woken)

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

    def _normal_impulse(self, contact, v):
        """What a contact gives along its normal at ``v`` [N s]."""
        return contact.n @ contact.law(contact.J[:, self.dofs] @ v + contact.bias)[1]

    def stale_bounds(self, v, before, error):
        """List the terms whose friction bound is off by more than ``error``, with the normal impulse that bounds them.

        Of the lagged law it is the one at ``v``, of spins under other laws the one at the iterate ``before``.
        """
        bounded = [c for c in self.contacts if isinstance(c, Spin) or (isinstance(c, Contact) and c.model == "lagged")]
        contacts = [c.contact if isinstance(c, Spin) else c for c in bounded]
        normals = [self._normal_impulse(c, v if c.model == "lagged" else before) for c in contacts]
        found = zip(bounded, normals, strict=True)
        return [(b, n0) for b, n0 in found if abs(n0 - b.n0) > error * max(n0, b.n0)]

    def far_off(self, v, again: bool):
        """Whether a minimum does not get to keep its bounds."""
        contacts = [c for c in self.contacts if isinstance(c, Contact)]
        islands = Islands(self, v)
        norms = islands.norms(contacts, [self._normal_impulse(c, v) for c in contacts])
        stale = self.stale_bounds(v, v, BOUND_ERROR[1])
        share = NOTABLE[int(again)]
        return any(abs(n0 - b.n0) > max(share * min(norms[k] for k in islands.of(b)), NOTHING) for b, n0 in stale)

    def part_surfaces(self, v):
        """Aim contacts that push at ``v`` at their rebound, where any of them strikes, leave those that do not push out, and
        return True."""
        contacts = [c for c in self.contacts + self._sleeping_contacts if isinstance(c, Contact)]
        pushes = [self._normal_impulse(c, v) > 0.0 for c in contacts]
        strikes = [c.rebound is not None and (c.phi0 > 0.0 or c.rebound > 0.0) for c in contacts]
        if not any(map(operator.and_, strikes, pushes)):
            return False
        for contact, pushed in zip(contacts, pushes, strict=True):
            if not pushed:
                contact.let_go()
            elif contact.rebound is not None:
                contact.aim_at(contact.rebound)
        return True

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


class SlipDirections:
    """Directions of slip as unknowns beside the velocities: the Hessians of primal and dual Newton steps (F 3.1)."""

    def __init__(self):
        self._last = {}  # contact -> slip velocity, softened speed and direction at the last iterate

    def hessian(self, problem, v):
        """Return the Hessian at the next iterate ``v`` with the directions that the step to it predicts."""
        H = problem.hessian(v)
        for i, contact in enumerate(problem.contacts):
            if not isinstance(contact, Contact | Spin):
                continue
            J = contact.J[:, problem.dofs]
            vc = J @ v + contact.bias
            speed = contact.slip_speed(vc)
            if speed == 0.0:
                self._last.pop(i, None)
                continue
            across = np.eye(3) - np.outer(contact.n, contact.n)
            vt = across @ vc
            w = vt / speed
            if i in self._last:
                vt0, speed0, w0 = self._last[i]
                w = (vt - vt0 @ (vt - vt0) / speed0 * w0) / speed0
                w = w / max(1.0, float(np.linalg.norm(w)))
            self._last[i] = vt, speed, w
            turn = np.outer(across @ contact.law(vc)[1], w - vt / speed) / (2.0 * speed)
            H = H + J.T @ (turn + turn.T) @ J
        return H


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
    bounded = options.contact_model == "lagged" or options.spin_friction
    allowed = RENEWALS if bounded and options.friction_bound == "solved" else 0
    most, islands, readable = allowed if problem.alone else 2 * allowed, None, set()
    renewals, renew, asked, iteration = 0, False, 0, 0
    looked, before, most_iterations = False, v, options.max_iterations
    slips = SlipDirections()
    while True:
        if renew:
            for term, n0 in problem.stale_bounds(v, before, BOUND_ERROR[0]):
                if islands is None or readable.issuperset(islands.of(term)):
                    term.bound_friction(n0, *slip_limits(options))
            renewals, alpha = renewals + 1, 0.0  # the costs before and after do not compare
        costs.append(problem.cost(v))
        gradient, impulse, hessian = problem.gradient(v), problem.constraint_impulse(v), slips.hessian(problem, v)
        residual = float(np.linalg.norm(D * gradient))
        pushed = float(np.linalg.norm(D * impulse))
        scale = max(problem.change, pushed)
        if len(costs) > 1:
            decrease = abs(costs[-1] - costs[-2])
            mean = 0.5 * (abs(costs[-1]) + abs(costs[-2]))
            stalled = decrease < options.cost_abs + options.cost_rel * mean and alpha > 0.5
        converged = residual <= options.optimality_abs + options.optimality_rel * scale or stalled
        low, high = (x * pushed for x in RENEWAL_RANGE)
        renew = renewals < most and residual <= high and (renewals == 0 or residual > low)
        islands = Islands(problem, v) if renew and not (converged or problem.alone) else None
        if islands:
            readable = islands.settled(D * gradient, D * impulse, RENEWAL_RANGE[1])
        if converged:
            may_ask = asked == 0 or (asked < LAST_RENEWALS and 4 * iteration < options.max_iterations)
            renew, asked = allowed > 0 and may_ask and problem.far_off(v, asked > 0), asked + 1
        dv = newton_direction(hessian, gradient, options.precision)
        ended = converged or iteration == most_iterations or not gradient @ dv < 0.0
        close = residual <= CLOSE * scale and iteration >= EASY and not looked
        over = ended and not (renew and converged)
        if close or over:
            looked = True
            woken = problem.wake(v)
            if not woken and over and problem.wake_contacts(v):
                woken, most_iterations = True, iteration + options.max_iterations
            if woken:
                costs, stalled, renewals, renew, asked, looked, alpha = [], False, 0, False, 0, False, 0.0
                continue
        before = v
        if renew and converged:
            continue  # once more from here, with bounds of its own
        if ended:
            return Solution(v, iteration, costs, residual, scale, converged)
        tolerance = options.line_search_tolerance ** (0.25 if iteration < EASY else 1.0)
        alpha = line_search(problem.along(v, dv), gradient @ dv, options, tolerance)
        v, iteration = v + alpha * dv, iteration + 1


def newton_direction(H, gradient, precision="float64"):
    """Return ``-H^-1 gradient``; ``"mixed"`` rounds the Hessian and its Cholesky factor to float32."""
    if precision == "float64":
        return -np.linalg.solve(H, gradient)
    L = np.linalg.cholesky(H.astype(np.float32)).astype(float)
    return -np.linalg.solve(L.T, np.linalg.solve(L, gradient))
