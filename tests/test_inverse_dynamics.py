"""Inverse dynamics: the solver's own steps explain themselves, and what was added to them is found."""

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP
from newton_sap.scenes import quadruped


def stepped(model, dt, steps, **options):
    """Return solver, contacts and the states before and after the last of several steps."""
    solver = SolverSAP(model, **options)
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    before, after = model.state(), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, before)
    for step in range(steps):
        pipeline.collide(before, contacts)
        solver.step(before, after, None, contacts, dt)
        if step < steps - 1:
            before, after = after, before
    return solver, contacts, before, after


@pytest.mark.parametrize("options", [{}, {"contact_model": "sap"}, {"preset": "drake"}], ids=["lagged", "sap", "drake"])
def test_own_steps_explain_themselves(options):
    """Of a standing robot's step nothing is left but rounding; its contact impulses carry the weight."""
    scene = quadruped()
    solver, contacts, before, after = stepped(scene.model, scene.dt, 300, **options)
    found = solver.inverse_dynamics(before, after, None, contacts, scene.dt)
    weight = scene.model.body_mass.numpy().sum() * 9.81
    # Impulses act on shape 1's body, which may be the robot's or the ground.
    assert abs(found.contact_impulse[:, 2].sum()) / scene.dt == pytest.approx(weight, rel=1e-3)
    assert np.abs(found.unexplained_force).max() < 2e-3 * weight
    assert (found.residual <= 1e-3 * found.scale).all()


def test_a_push_nobody_reported_is_found():
    """A body observed to be faster than it should be was pushed by m dv / dt."""
    builder = newton.ModelBuilder()
    body = builder.add_body(mass=2.0, inertia=wp.diag(wp.vec3(0.1)), com=wp.vec3(0.1, 0.0, 0.0), lock_inertia=True)
    model = builder.finalize()
    dt = 0.01
    solver, contacts, before, after = stepped(model, dt, 1)
    qd = after.joint_qd.numpy().copy()
    qd[:3] += [0.3, 0.0, -0.2]
    after.joint_qd.assign(qd)
    found = solver.inverse_dynamics(before, after, None, contacts, dt)
    assert body == 0 and len(found.contact_row) == 0
    np.testing.assert_allclose(found.unexplained_force, [0, 0, 0, 60.0, 0, -40.0], atol=1e-3)
    np.testing.assert_allclose(found.constraint_force, 0.0)


def test_it_leaves_the_solver_as_it_was():
    """Counters, and the next step, do not notice that someone looked."""
    scene = quadruped()
    solver, contacts, before, after = stepped(scene.model, scene.dt, 20)
    steps, out = solver.report().steps, scene.model.state()
    kept = after.joint_qd.numpy().copy()
    solver.inverse_dynamics(before, after, None, contacts, scene.dt)
    assert solver.report().steps == steps
    np.testing.assert_array_equal(after.joint_qd.numpy(), kept)
    solver.step(before, out, None, contacts, scene.dt)
    np.testing.assert_array_equal(out.joint_qd.numpy(), kept)


def test_it_counts_no_contacts_that_find_no_room():
    """Nor does it forget those that a step counted."""
    scene = quadruped()
    solver, contacts, before, after = stepped(scene.model, scene.dt, 300, max_contacts=2)
    dropped = solver.report().contacts_dropped.tolist()
    solver.inverse_dynamics(before, after, None, contacts, scene.dt)
    assert solver.report().contacts_dropped.tolist() == dropped != [0]
