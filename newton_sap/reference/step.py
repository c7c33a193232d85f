"""A whole step of the reference: its constraints from the model's arrays, minimised, and the state at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..config import resolve_options
from .basics import BALL, ball_error, quat_matrix, unit
from .clusters import find_clusters
from .convex import (
    Contact,
    ConvexProblem,
    Row,
    Solution,
    Spin,
    dry_regularization,
    limit_gains,
    minimize,
    near_rigid,
    regularization,
    slip_limits,
)
from .corners import corners_beside
from .couplings import NO_LIMIT, NO_VELOCITY_LIMIT, SPEED_GIVES, couplers, measured, require_known
from .edges import Place, internal_edges, rolled_over
from .facing import face_plane
from .flight import straighten
from .grazing import leave_by_face
from .hunt_crossley import HuntCrossley
from .materials import RIGID, Materials, override_material
from .multibody import Multibody, Snapshot
from .nested import fly_on
from .passing import longest_apart
from .rolling import roll_on
from .shapes import Solids, find_normal

NO_DRIVE, DRIVE_POSITION, _, DRIVE_POSITION_VELOCITY, DRIVE_EFFORT = range(5)  # newton.JointTargetMode
_GEOMETRY = ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "margin0", "margin1", "normal")
LEVERAGE = 10.0
"""Effective mass of a contact of unset materials, at most, in masses of the trees that touch."""
RIGID_FREQUENCY, RECOVERY_STEPS, RECOVERY_TIME = 1000.0, 10.0, 0.05
"""Of unset materials under Hunt & Crossley: the stiffest contact, as sqrt(k w) [rad/s]; steps in which what is deep may come out."""


@dataclass
class ReferenceResult:
    """What one step computed. Velocities ``v0, v_star, v`` and ``A`` are in sap order (:mod:`newton_sap.reference.multibody`)."""

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
    ``n0``, the normal impulse [N s] that bounds lagged friction, and ``gamma_W``, the world impulse [N s] on the body
    of shape 1."""
    spins: list[dict[str, Any]]
    """Per contact with spin friction: ``index``, ``bodies``, ``bounds`` [N m s] and ``gamma_W``, the angular impulse on
    the body of shape 1."""
    rows: list[dict[str, Any]]
    """Per scalar row: ``kind``, ``dof``, ``sign``, ``v_hat``, ``R``, ``lo``, ``hi``, ``gamma``."""
    couplers: list[dict[str, Any]]
    """Per row of a loop joint: ``kind``, ``joint``, ``axis``, ``J``, ``bias``, ``v_hat``, ``R``, ``lo``, ``hi``, ``gamma``."""
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
    """What it is measured against [sqrt(J)], of the same problem."""
    solutions: list[tuple[ConvexProblem, Solution]] = field(default_factory=list, repr=False)
    """The independent convex problems (one per world, unless contacts join worlds) and their minimisers."""


class ReferenceSolver(Multibody):
    """The SAP solver in dense float64 NumPy; takes the presets and options of :class:`newton_sap.SolverSAP`.

    Args:
        model: A Newton model; read again at every step.
        preset: Name of a preset, or None.
        **options: Fields of :class:`newton_sap.config.SAPOptions`.
    """

    def __init__(self, model, *, preset=None, **options):
        self.model = model
        self.options = resolve_options(preset, options)
        super().__init__(self.options.position_update, self.options.spring_integration)

    def step(self, state, control, contacts, dt) -> ReferenceResult:
        """Advance a Newton state by ``dt`` [s] and return everything that was computed; the inputs are not modified.

        Args:
            state: Newton state; ``joint_q``, ``joint_qd`` and ``body_f`` are read.
            control: Newton control, or None for the model's own.
            contacts: Newton contacts, or None.
            dt: Step [s], > 0.

        Raises:
            NotImplementedError: The model has something that acts and that the reference does not know, by kind.
        """
        m = self.read(state, control)
        v0 = self.to_sap(m, m.q, m.qd)
        kin = self.kinematics(m, m.q, v0)
        efforts, holding = (self.drive_efforts(m, v0, how) for how in ("explicit", "implicit"))
        pressed = () if contacts is None else self.bodies_in_contact(m, kin, contacts, dt)
        A, v_star, loads = self.free_motion(m, kin, v0, dt, efforts, holding, pressed)
        rows = self.drive_rows(m, A, dt)
        rows += self.limit_rows(m, A, v0, v_star, dt)
        rows += self.velocity_rows(m, A) + self.friction_rows(m, A, dt)
        self._met = []
        touching = [] if contacts is None else self.contact_rows(m, kin, A, v0, v_star, contacts, dt)
        ties = couplers(self, m, kin, A, v0, v_star, dt)
        v_star = self.follow_tied(m, kin, A, v0, v_star, loads, ties, dt)
        v, travel = v_star.copy(), v_star.copy()
        solutions = []
        for problem in self.problems(m, A, v0, v_star, touching + ties, rows):
            solution = minimize(problem, v0[problem.dofs].copy(), self.options)
            travel[problem.dofs] = solution.v
            if problem.part_surfaces(solution.v):
                solution = minimize(problem, solution.v, self.options)
            solutions.append((problem, solution))
            v[problem.dofs] = solution.v

        gamma = [_describe_contact(c, v) for c in touching if isinstance(c, Contact)]
        pushed = [contact["bodies"] for contact in gamma if contact["gamma_W"].any()]
        q_new, v_new = fly_on(self, m, kin, v, travel, self.integrate(m, v0, travel, dt), dt)
        q_new, v_new = straighten(self, m, kin, v_new, q_new, pushed, ties, dt)
        qd_new = self.to_public(m, q_new, v_new)
        after = self.kinematics(m, q_new, v_new)
        for j, (q, qd) in measured(m, after, v).items():
            q_new[m.coords(j)], qd_new[m.qd_start[j] : m.qd_start[j + 1]] = q, qd
        stats = [s for _, s in solutions] or [Solution(v, 0, [0.0], 0.0, 0.0, True)]
        worst = max(stats, key=lambda s: s.residual / (s.scale or 1.0))
        length = max(len(s.costs) for s in stats)
        padded = [s.costs + [s.costs[-1]] * (length - len(s.costs)) for s in stats]
        return ReferenceResult(
            v0=v0,
            v_star=v_star,
            v=v,
            A=A,
            gamma=gamma,
            spins=[_describe_spin(c, v) for c in touching if isinstance(c, Spin)],
            couplers=[{**vars(tie), "gamma": float(tie.law(tie.J @ v + tie.bias)[1][0])} for tie in ties],
            rows=[{**vars(row), "gamma": row.law(row.sign * v[row.dof])[1]} for p, _ in solutions for row in p.rows],
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

    def read(self, state, control):
        control = self.model.control(clone_variables=False) if control is None else control
        require_known(self.model, control)
        return Snapshot(self.model, state, control)

    # Constraint rows.

    def limit_rows(self, m, A, v0, v_star, dt):
        """Return the rows of joint limits, as in Drake only of those that are violated or within two steps' reach."""
        rows = []
        for dof, coordinate in m.scalar_axes():
            k = m.limit_ke[dof]
            if not m.unknown[dof] or k <= 0.0:
                continue
            reach = 2.0 * dt * max(abs(v0[dof]), abs(v_star[dof]))
            for sign, bound in ((1.0, m.limit_lower[dof]), (-1.0, m.limit_upper[dof])):
                gap = sign * (m.q[coordinate] - bound)
                if abs(bound) >= NO_LIMIT or (gap > reach and self.options.dissipation_ahead_of_touch):
                    continue
                tau = self._dissipation(m.limit_kd[dof] / k, gap)
                R = regularization(self.options.near_rigid_joint, 1.0 / A[dof, dof], k, tau, dt)
                rows.append(Row("limit", dof, sign, -gap / (dt + tau), R, 0.0, math.inf))
        return rows

    def drives(self, m, integration):
        """Yield ``(dof, kp, kd, error, target velocity)`` of every driven dof integrated in a certain way."""
        error = np.zeros(m.dofs)
        for dof, coordinate in m.scalar_axes():
            error[dof] = m.target_q[coordinate] - m.q[coordinate]
        for j in np.flatnonzero(m.type == BALL):
            error[m.qd_start[j] : m.qd_start[j + 1]] = ball_error(m.target_q[m.coords(j)], m.q[m.coords(j)])
        for dof in np.flatnonzero(m.unknown & ~m.is_free()[m.joint_of_dof]):
            mode = m.target_mode[dof]
            if integration != ("implicit" if m.type[m.joint_of_dof[dof]] == BALL else self.options.drive_integration):
                continue
            kp = m.target_ke[dof] if mode in (DRIVE_POSITION, DRIVE_POSITION_VELOCITY) else 0.0
            kd = m.target_kd[dof] if mode not in (NO_DRIVE, DRIVE_EFFORT) else 0.0
            if (kp > 0.0 or kd > 0.0) and m.effort_limit[dof] > 0.0:
                yield int(dof), kp, kd, error[dof], m.target_qd[dof] if mode != DRIVE_POSITION else 0.0

    def drive_efforts(self, m, v0, integration):
        """Return what drives that are integrated in a certain way push at the start of the step, shape (dofs,)."""
        efforts = np.zeros(m.dofs)
        for dof, kp, kd, error, target in self.drives(m, integration):
            bound = m.effort_limit[dof]
            efforts[dof] = min(max(kp * error + kd * (target - v0[dof]), -bound), bound)
        return efforts

    def drive_rows(self, m, A, dt):
        """Return the rows of implicit position and velocity drives, clamped at their effort limits."""
        rows = []
        for dof, kp, kd, error, target in self.drives(m, "implicit"):
            kp, kd = limit_gains(kp, kd, dt, 1.0 / A[dof, dof], self.options.near_rigid_joint)
            slope, bound = dt * kp + kd, dt * m.effort_limit[dof]
            v_hat = (kp * error + kd * target) / slope
            rows.append(Row("drive", dof, 1.0, v_hat, 1.0 / (dt * slope), -bound, bound))
        return rows

    def friction_rows(self, m, A, dt):
        """Return the rows of dry joint friction, which holds with at most ``joint_friction``."""
        rows = []
        for dof in np.flatnonzero(m.unknown & (m.friction[m.public_dof] > 0.0)):
            bound = dt * m.friction[m.public_dof[dof]]
            R = dry_regularization(self.options, 1.0 / A[dof, dof], bound)
            rows.append(Row("friction", int(dof), 1.0, 0.0, R, -bound, bound))
        return rows

    def velocity_rows(self, m, A):
        """Return two rows per finite velocity limit, one for each direction."""
        rows = []
        for dof in np.flatnonzero(m.unknown):
            limit = m.velocity_limit[m.public_dof[dof]]
            if not 0.0 < limit < NO_VELOCITY_LIMIT:
                continue
            R = SPEED_GIVES * near_rigid(self.options.near_rigid_joint, 1.0 / A[dof, dof])
            rows += [Row("velocity", int(dof), sign, -limit, R, 0.0, math.inf) for sign in (1.0, -1.0)]
        return rows

    @staticmethod
    def _weights_across_gap(m, kin, bodies, surface, weights):
        """Return the sides' shares of the contact point of an open contact."""
        moves = [
            b >= 0 and any(np.any(part[:, m.unknown]) for part in kin.jacobian(b, x))
            for b, x in zip(bodies, surface, strict=True)
        ]
        return weights if all(moves) else tuple(map(float, moves))

    def bodies_in_contact(self, m, kin, contacts, dt):
        """Return the bodies that can move and that a closed contact presses on."""
        data, optional = _read(contacts)
        materials, bodies = Materials(self.model, self.options), set()
        for place in self._places(kin, contacts, data, dt):
            k = override_material(*materials.pair(*place.shapes, dt)[:3], optional, place.index)[0]
            if len(set(place.bodies)) == 2 and place.phi0 <= 0.0 and k > 0.0:
                bodies |= {x for x in place.bodies if x >= 0 and m.unknown[kin.path[x]].any()}
        return bodies

    def contact_rows(self, m, kin, A, v0, v_star, contacts, dt):
        """Return the contacts that move at least one unknown dof."""
        options, model = self.options, self.model
        data, optional = _read(contacts)
        materials = Materials(model, options)
        blocks = np.where(m.block_mask(whole=options.contact_weight == "joint_blocks"), A, 0.0)
        blocks = blocks[np.ix_(m.unknown, m.unknown)]
        rows, beside = [], []
        places = list(self._places(kin, contacts, data, dt, lambda body: self._twist(m, kin, v_star, body)))
        for place in places:
            mu = override_material(*materials.pair(*place.shapes, dt)[:3], optional, place.index)[2]
            asleep = partial(self._sleeps, m, kin, v0, v_star, mu=mu, slips=optional["surface_velocity"], dt=dt)
            place.asleep = asleep(place)
            if not place.asleep and not options.dissipation_ahead_of_touch:
                beside += [corner for corner in place.beside if not asleep(corner)]
        self._met = [[kin.path[b] for b in place.bodies if b >= 0] for place in places]
        for place in [*self._without_internal_edges(m, kin, v0, places, dt), *beside]:
            i, shapes, bodies, n, surface = place.index, place.shapes, place.bodies, place.n, place.surface
            phi0 = place.phi0 + place.spared
            k, tau, mu, weights = materials.pair(*shapes, dt)
            k, tau, mu = override_material(k, tau, mu, optional, i)
            if phi0 > 0.0:  # across a gap only a moving side knows where it will be touched
                weights = self._weights_across_gap(m, kin, bodies, surface, weights)
            if options.contact_point == "shared":
                surface = [weights[0] * surface[0] + weights[1] * surface[1]] * 2
            slip = None if optional["surface_velocity"] is None else optional["surface_velocity"][i]
            J, bias = self._relative_motion(m, kin, v0, bodies, surface, n, slip)
            if options.contact_weight == "body_inertia":
                w = sum(_body_weight(m, kin, b, x) for b, x in zip(bodies, surface, strict=True))
            else:
                J_u = J[:, m.unknown]
                w = np.linalg.norm(J_u @ np.linalg.solve(blocks, J_u.T)) / 3.0
            if not J.any() or w <= 0.0 or k <= 0.0:  # nothing that could move, or nothing that could push
                continue
            moved = [b for b in bodies if b >= 0 and m.unknown[kin.path[b]].any()]
            if k == RIGID:  # a point close to all axes seems to have any mass behind it
                heaviest = LEVERAGE * m.mass_of_trees(moved)
                w = max(w, 1.0 / heaviest) if heaviest > 0.0 else w
            tau = self._dissipation(tau, phi0)
            beta = options.near_rigid_joint if k == RIGID else options.near_rigid_contact
            R_n = regularization(beta, w, k, tau, dt)
            R_t = options.friction_regularization * w
            v_hat = -phi0 / (dt + tau)
            row = Contact(i, bodies, n, np.array(surface), J, bias, phi0, v_hat, R_n, R_t, mu, w)
            v_n0, v_n_star = n @ (J @ v0 + bias), n @ (J @ v_star + bias)
            self._make_hunt_crossley(row, k, materials.dissipation(*shapes), v_n0, dt)
            gained = v_n0 - v_n_star
            # What gravity, or any known force, gives a body in two steps is rest, not an impact.
            world = max(int(m.body_world[b]) for b in moved)  # -1, the last row, for global bodies alone
            resting = 2.0 * max(dt * np.linalg.norm(m.gravity[world]), gained)
            row.asleep, row.corner = place.asleep, place.corner
            self._bounce(row, materials.restitution(*shapes), v_n0, gained, resting, dt)
            rows.append(row)
            spin_mu = materials.spin_friction(*shapes)
            if options.spin_friction and max(spin_mu) > 0.0:
                spin = self._spin(m, kin, v0, row, spin_mu)
                rows += [spin] if spin.J.any() else []
        return rows

    def _places(self, kin, contacts, data, dt, twist=None):
        """Yield where Newton's contacts are; open ones across other directions if what their bodies' ``twist`` brings past asks for it."""
        shape_body = self.model.shape_body.numpy()
        for i in range(min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)):
            shapes = int(data["shape0"][i]), int(data["shape1"][i])
            if min(shapes) < 0 or shapes[0] == shapes[1]:
                continue
            bodies = int(shape_body[shapes[0]]), int(shape_body[shapes[1]])
            n = data["normal"][i].astype(float)
            support = [kin.to_world(b, data[f"point{s}"][i].astype(float)) for s, b in enumerate(bodies)]
            if not n.any():
                n, reach = find_normal(self.model, kin, shapes, support)
                support = [support[s] + reach[s] for s in (0, 1)]
            if not n.any():
                continue
            thick = [float(np.linalg.norm(data[f"offset{s}"][i].astype(float))) for s in (0, 1)]
            surface = [support[0] + thick[0] * unit(n), support[1] - thick[1] * unit(n)]
            margin = [float(data[f"margin{s}"][i]) for s in (0, 1)]
            n, support, surface = leave_by_face(self.model, kin, shapes, unit(n), support, surface, margin)
            found = surface
            beside = corners_beside(Solids(self.model, kin), i, shapes, n, support, surface, sum(margin))
            support, surface, passed = roll_on(self.model, kin, shapes, n, support, surface)
            support, surface = face_plane(self.model, kin, shapes, n, support, surface)
            phi0 = n @ (support[1] - support[0]) - sum(margin)
            spared, apart = 0.0, phi0
            if phi0 > 0.0 and not self.options.dissipation_ahead_of_touch:
                if twist is not None:
                    twists = [twist(body) for body in bodies]
                    n, phi0 = longest_apart(self.model, kin, shapes, twists, surface, n, phi0, sum(margin), dt)
                sides = zip(shapes, bodies, support, (-n, n), strict=True)
                spared = sum(rolled_over(self.model, kin, *side, dt) for side in sides)
            yield Place(i, shapes, bodies, n, surface, found, passed, phi0, spared, apart, beside=list(beside))

    @staticmethod
    def _twist(m, kin, v, body):
        """Velocity of a body at the rates ``v``: angular, and of what of it passes the world's origin."""
        if body < 0:
            return np.zeros(3), np.zeros(3)
        if body not in m.child:  # no joint moves it
            return kin.omega[body], kin.v_com[body] - np.cross(kin.omega[body], kin.com[body])
        J_w, J_v = kin.jacobian(body, np.zeros(3))
        return J_w @ v, J_v @ v

    def _without_internal_edges(self, m, kin, v0, places, dt):
        """List the contacts that a step does not pass over."""
        if not self.options.pass_over_edges:
            return places

        def given(body):
            return body < 0 or not m.unknown[kin.path[body]].any()

        solids = Solids(self.model, kin)
        passed_over = internal_edges(places, given, lambda body: self._given_velocity(m, kin, v0, body), solids, dt)
        return [place for place in places if place.index not in passed_over]

    @staticmethod
    def _given_velocity(m, kin, v0, body):
        """Velocity of a body that no unknown moves: angular, and of what of it passes the world's origin."""
        if body < 0:
            return np.zeros(6)
        if body in m.child:
            return np.concatenate([J @ v0 for J in kin.jacobian(body, np.zeros(3))])
        return np.concatenate([kin.omega[body], kin.v_com[body] - np.cross(kin.omega[body], kin.com[body])])

    @staticmethod
    def _relative_motion(m, kin, v0, bodies, surface, n, slip):
        """Jacobian of one surface's velocity against the other's, and the part of it that is given."""
        jacobians = [kin.jacobian(b, x)[1] for b, x in zip(bodies, surface, strict=True)]
        J = jacobians[1] - jacobians[0]
        bias = J[:, ~m.unknown] @ v0[~m.unknown]
        for sign, b, x in zip((-1.0, 1.0), bodies, surface, strict=True):
            if b >= 0 and b not in m.child:  # no joint moves it: it goes as its state says
                bias = bias + sign * (kin.v_com[b] + np.cross(kin.omega[b], x - kin.com[b]))
        if slip is not None:
            bias = bias + slip - (n @ slip) * n
        J[:, ~m.unknown] = 0.0
        return J, bias

    def _sleeps(self, m, kin, v0, v_star, place, *, mu, slips, dt):
        """Whether twice what the two bodies of an open contact do by themselves does not close it."""
        if place.apart <= 0.0 or self.options.dissipation_ahead_of_touch:
            return False
        middle = 0.5 * (place.surface[0] + place.surface[1])
        slip = None if slips is None else slips[place.index]
        J, bias = self._relative_motion(m, kin, v0, place.bodies, [middle] * 2, place.n, slip)
        speed = max(np.linalg.norm(J @ v + bias) for v in (v0, v_star))
        return place.apart / (dt * (1.0 + mu)) > 2.0 * speed

    def _spin(self, m, kin, v0, contact, mu):
        """Return the term that resists the relative spin of two touching bodies."""
        jacobians = [kin.jacobian(b, x)[0] for b, x in zip(contact.bodies, contact.points, strict=True)]
        J = jacobians[1] - jacobians[0]
        bias = J[:, ~m.unknown] @ v0[~m.unknown]
        for sign, b in zip((-1.0, 1.0), contact.bodies, strict=True):
            if b >= 0 and b not in m.child:
                bias = bias + sign * kin.omega[b]
        J[:, ~m.unknown] = 0.0
        waits = self.options.friction_bound == "solved" and contact.model != "lagged"
        n0, scale = 0.0 if waits else contact.n0, self.options.stiction_tolerance
        return Spin(contact.index, contact.bodies, contact.n, J, bias, contact, mu, scale, n0)

    def _make_hunt_crossley(self, row, k, d, v_n0, dt):
        """Give a contact what the lagged and similar models need."""
        parting = d
        if k == RIGID:  # the laws have no bound of their own, and lagged friction needs a depth to be measured
            k = min(1.0 / (dt * dt * near_rigid(self.options.near_rigid_joint, row.w)), RIGID_FREQUENCY**2 / row.w)
            parting = min(d, max(RECOVERY_STEPS * dt, RECOVERY_TIME) / max(-row.phi0, 1e-300))
        elif self.options.contact_model == "similar":
            k = min(k, 1.0 / (dt * dt * near_rigid(self.options.near_rigid_joint, row.w)))
        row.model, row.normal = self.options.contact_model, HuntCrossley(-k * row.phi0, k, d, dt, parting)
        n0 = dt * max(row.normal.fe0, 0.0) * max(1.0 - (d if v_n0 <= 0.0 else parting) * v_n0, 0.0)
        if row.model == "sap":
            n0 = max((row.v_hat - v_n0) / row.R_n, 0.0)
        row.bound_friction(n0, *slip_limits(self.options))

    def _bounce(self, row, e, v_n0, gained, resting, dt):
        """Let a moving contact with restitution ``e`` leave at ``e`` times its approach, rigidly, if it meets in this step."""
        if e <= 0.0:
            return
        depth = -row.phi0 / (2.0 * dt)  # deeper than two steps of its approach it is pressed, and did not just arrive
        arrives, leaves = v_n0 < -resting and depth <= -v_n0, v_n0 > resting and depth * e <= v_n0
        if not arrives and not leaves:
            return
        target = -e * v_n0
        if row.phi0 > 0.0:  # surfaces meet before they part
            row.rebound = target
            if arrives:
                ahead = 0.0 if self.options.position_update == "midpoint" else 0.5 * gained
                row.rebound = e * math.sqrt(max((ahead - v_n0) ** 2 + 2.0 * gained * row.phi0 / dt, 0.0)) + ahead
            target = -row.phi0 / dt
        elif leaves:
            row.rebound = target
            target = min(row.v_hat, v_n0)  # still inside: compliance must not add to the speed it leaves with
        else:
            row.rebound = target
        if arrives or row.phi0 > 0.0:
            row.R_n = near_rigid(self.options.near_rigid_joint, row.w)
        row.aim_at(target)

    def _dissipation(self, tau, gap):
        """Relaxation time [s] at a gap [m or rad]: none before touch, unless asked for."""
        return tau if gap <= 0.0 or self.options.dissipation_ahead_of_touch else 0.0

    def problems(self, m, A, v0, v_star, contacts, rows):
        """Split the step into independent convex problems, one per cluster of trees; those that nothing touches appear in none."""
        tree, label, terms = find_clusters(m, contacts, rows, self._met)
        clusters: dict[int, tuple[set, list, list]] = {}
        for dofs, term in terms:
            trees, its_contacts, its_rows = clusters.setdefault(label[int(tree[dofs[0]])], (set(), [], []))
            trees.update(int(tree[k]) for k in dofs)
            (its_rows if isinstance(term, Row) else its_contacts).append(term)
        for cluster, (trees, its_contacts, its_rows) in sorted(clusters.items()):
            dofs = np.flatnonzero(m.unknown & np.isin(tree, sorted(trees)))
            alone = sum(its == cluster for its in label.values()) == 1
            problem = its_contacts, its_rows, dofs, v0[dofs], tree[dofs], alone
            yield ConvexProblem(A[np.ix_(dofs, dofs)], v_star[dofs], *problem)


def _read(contacts):
    """Return where Newton's contacts are, by name, and what they override of materials, None where they have no such array."""
    optional = {}
    for name in ("stiffness", "damping", "friction", "surface_velocity"):
        array = getattr(contacts, f"rigid_contact_{name}", None)
        optional[name] = None if array is None else array.numpy().astype(float)
    return {name: getattr(contacts, f"rigid_contact_{name}").numpy() for name in _GEOMETRY}, optional


def _body_weight(m, kin, body, point):
    """Mean inverse mass [1/kg] that a body with an unknown dof shows at a point over all directions, unarticulated."""
    if body < 0 or m.mass[body] <= 0.0 or not m.unknown[kin.path[body]].any():
        return 0.0
    R, arm = quat_matrix(kin.quat[body]), point - kin.com[body]
    lever = np.cross(arm, np.eye(3))  # row i: arm x e_i
    inverse = np.linalg.inv(R @ m.inertia[body] @ R.T)
    return 1.0 / m.mass[body] + np.trace(lever @ inverse @ lever.T) / 3.0


def _describe_contact(contact, v):
    vc = contact.J @ v + contact.bias
    names = ("index", "bodies", "points", "phi0", "w", "R_n", "R_t", "v_hat", "mu", "n0")
    return {
        **{name: getattr(contact, name) for name in names},
        "normal": contact.n,
        "point": contact.points.mean(axis=0),
        "v_n": float(contact.n @ vc),
        "gamma_W": contact.law(vc)[1],
    }


def _describe_spin(spin, v):
    gamma = spin.law(spin.J @ v + spin.bias)[1]
    return {"index": spin.index, "bodies": spin.bodies, "bounds": spin.bounds, "gamma_W": gamma}
