"""Particles beside rigid bodies: they fly freely, by Newton's own integrator, and touch nothing."""

from __future__ import annotations

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP

G = 9.81
DT = 0.005


def scene(particles=((0.0, 0.0, 2.0),), velocities=((1.0, -2.0, 0.5),), mass=0.5):
    """A builder with a ball on the ground and particles above it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = builder.add_body(xform=((3.0, 0.0, 0.1), (0.0, 0.0, 0.0, 1.0)))
    builder.add_shape_sphere(body, radius=0.1)
    builder.add_ground_plane()
    for x, v in zip(particles, velocities, strict=True):
        builder.add_particle(x, v, mass)
    return builder


def run(model, steps, state=None, in_place=True):
    """Step with fresh contacts and return the last state."""
    solver, pipeline = SolverSAP(model), newton.CollisionPipeline(model)
    state = model.state() if state is None else state
    spare = state if in_place else model.state()
    contacts = pipeline.contacts()
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, spare, None, contacts, DT)
        state, spare = spare, state
    assert solver.report().healthy
    return state


@pytest.mark.parametrize("in_place", [True, False])
def test_particles_fall(in_place):
    """A particle follows x0 + v t - g t (t + dt) / 2."""
    start, speed, steps = np.array([0.0, 0.0, 2.0]), np.array([1.0, -2.0, 0.5]), 40
    state = run(scene().finalize(), steps, in_place=in_place)
    t = steps * DT
    fall = np.array([0.0, 0.0, 0.5 * G * t * (t + DT)])
    np.testing.assert_allclose(state.particle_q.numpy()[0], start + speed * t - fall, atol=1e-5)
    np.testing.assert_allclose(state.particle_qd.numpy()[0], speed - [0.0, 0.0, G * t], atol=1e-5)


def test_particles_feel_applied_forces():
    """particle_f accelerates a particle by f / m."""
    model = scene(velocities=((0.0, 0.0, 0.0),)).finalize()
    state = model.state()
    state.particle_f.assign(np.array([[2.0, 0.0, 0.0]], np.float32))
    state = run(model, 1, state)
    np.testing.assert_allclose(state.particle_qd.numpy()[0], [2.0 / 0.5 * DT, 0.0, -G * DT], rtol=1e-5)


def test_particles_touch_nothing():
    """They fall through the ground."""
    state = run(scene(((0.0, 0.0, 0.01),), ((0.0, 0.0, -3.0),)).finalize(), 40)
    assert state.particle_q.numpy()[0, 2] < -0.5


def test_particles_leave_bodies_alone():
    """A model with particles moves its bodies as one without them, to the bit."""
    with_particles, without = scene().finalize(), scene((), ()).finalize()
    ends = [run(model, 20) for model in (with_particles, without)]
    np.testing.assert_array_equal(*(end.body_q.numpy() for end in ends))


def test_particles_without_bodies():
    """A model of particles only is a model as well."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_particle((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 1.0)
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    solver.step(state, state, None, None, DT)
    assert state.particle_qd.numpy()[0, 2] == pytest.approx(-G * DT)


def test_connected_particles_are_refused():
    """Springs, triangles and tetrahedra between particles need another solver, which the message names."""
    particles = [wp.vec3(*x) for x in ((0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2))]
    for connect in (
        lambda b: b.add_spring(0, 1, 1e3, 1.0, 0.0),
        lambda b: b.add_triangle(0, 1, 2),
        lambda b: b.add_tetrahedron(0, 1, 2, 3),
    ):
        builder = scene(particles, ((0.0, 0.0, 0.0),) * 4)
        connect(builder)
        with pytest.raises(NotImplementedError, match="free flight.*SolverVBD"):
            SolverSAP(builder.finalize())


def test_a_state_of_the_solver_has_particles():
    """``solver.state()`` serves like the model's own."""
    model = scene().finalize()
    theirs = run(model, 10)
    ours = run(model, 10, SolverSAP(model).state())
    np.testing.assert_array_equal(ours.particle_q.numpy(), theirs.particle_q.numpy())
    np.testing.assert_array_equal(ours.body_q.numpy(), theirs.body_q.numpy())
