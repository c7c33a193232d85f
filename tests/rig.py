"""A model, its solver and a state that steps with fresh contacts: what most behaviour tests need."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from newton_sap import SolverSAP

G = 9.81
IDENTITY = wp.transform_identity()


def put(array, values):
    """Assign NumPy values to the leading entries of a Warp array."""
    whole = array.numpy()
    values = np.asarray(values, np.float32).ravel()
    whole.reshape(-1)[: len(values)] = values
    array.assign(whole)


def link(builder, mass=1.0, inertia=0.1, **kwargs):
    """Add a link with a diagonal inertia."""
    diagonal = [float(x) for x in np.broadcast_to(inertia, 3)]
    return builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(*diagonal)), lock_inertia=True, **kwargs)


def collided(model):
    """The model's own state, and the contacts that Newton finds in it."""
    state, pipeline = model.state(), newton.CollisionPipeline(model)
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    return state, contacts


def weightless():
    """A builder without gravity."""
    return newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))


def material(stiffness=1.0e5, damping=100.0, friction=0.5, gap=0.0, **kwargs):
    """A shape without mass of its own."""
    return newton.ModelBuilder.ShapeConfig(
        ke=stiffness, kd=damping, mu=friction, density=0.0, gap=gap, margin=0.0, **kwargs
    )


def tight(optimality_rel=1e-13, max_iterations=60):
    """Options that let a solver and the reference take the same steps until round-off stops them."""
    return dict(
        optimality_rel=optimality_rel,
        optimality_abs=1e-16,
        cost_rel=0.0,
        cost_abs=0.0,
        line_search_tolerance=1e-48,
        max_iterations=max_iterations,
    )


def slopes_of_a_step(solver, q, v, dt, e):
    """What the tape and what differences of a size ``e`` make of a step of one free body by its height, velocities and attitude.

    Contacts are found anew for each.
    """
    model, pipeline = solver.model, newton.CollisionPipeline(solver.model)
    weight = np.array([0.3, -0.2, 1.0, 0.4, 0.5, -0.6])

    def step(q, v):
        before, after, contacts = model.state(), model.state(), pipeline.contacts()
        put(before.joint_q, q)
        put(before.joint_qd, v)
        newton.eval_fk(model, before.joint_q, before.joint_qd, before)
        pipeline.collide(before, contacts)
        with wp.Tape() as tape:
            solver.step(before, after, None, contacts, dt)
        return before, after, tape

    def loss(q, v):
        return step(q, v)[1].joint_qd.numpy().astype(float) @ weight

    moves = [(np.eye(7)[2], np.zeros(6))] + [(np.zeros(7), np.eye(6)[k]) for k in range(6)]
    moves += [(np.append(np.zeros(3), wp.quat(*axis, 0.0) * wp.quat(*q[3:])), np.zeros(6)) for axis in 0.5 * np.eye(3)]
    differences = [(loss(q + e * dq, v + e * dv) - loss(q - e * dq, v - e * dv)) / (2.0 * e) for dq, dv in moves]
    before, after, tape = step(q, v)
    after.joint_qd.grad.assign(weight.astype(np.float32))
    tape.backward()
    slopes = [before.joint_q.grad.numpy() @ dq + before.joint_qd.grad.numpy() @ dv for dq, dv in moves]
    return slopes, differences


class Rig:
    """``q`` and ``v`` are the joint coordinates of the present state; ``control`` and ``model`` may be changed freely."""

    def __init__(self, builder, dt, q=None, v=None, force=None, pipeline=None, **options):
        self.model = builder.finalize() if isinstance(builder, newton.ModelBuilder) else builder
        self.dt = dt
        self.solver = SolverSAP(self.model, **options)
        self.state, self.next, self.control = self.model.state(), self.model.state(), self.model.control()
        for array, values in ((self.state.joint_q, q), (self.state.joint_qd, v), (self.control.joint_f, force)):
            if values is not None:
                put(array, values)
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = pipeline(self.model) if pipeline else None
        if self.pipeline is None and self.model.shape_count:
            self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts() if self.pipeline else None

    def run(self, steps=1):
        """Step and return the rig itself."""
        for _ in range(steps):
            if self.pipeline:
                self.pipeline.collide(self.state, self.contacts, dt=self.dt)
            self.solver.step(self.state, self.next, self.control, self.contacts, self.dt)
            self.state, self.next = self.next, self.state
        return self

    def push(self, wrenches):
        """Apply world wrenches at the bodies' COMs in every step from now on."""
        for state in (self.state, self.next):
            put(state.body_f, wrenches)

    @property
    def q(self):
        return self.state.joint_q.numpy().astype(float)

    @property
    def v(self):
        return self.state.joint_qd.numpy().astype(float)

    @property
    def body_q(self):
        return self.state.body_q.numpy().astype(float)

    @property
    def body_qd(self):
        return self.state.body_qd.numpy().astype(float)
