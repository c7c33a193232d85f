"""Velocities given through builder.body_qd alone: taken over once, and never against the caller's will."""

import newton
import numpy as np
import warp as wp

from newton_sap import SolverSAP

TWIST = (1.0, -2.0, 0.5, 0.3, 0.0, -0.7)


def thrown(rotated=False):
    """A free body with an initial ``body_qd`` and a zero ``joint_qd``, in zero gravity."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    inertia = wp.mat33(0.1, 0, 0, 0, 0.1, 0, 0, 0, 0.1)
    if rotated:
        body = builder.add_link(mass=1.0, inertia=inertia, lock_inertia=True)
        turn = wp.transform((0.0, 0.0, 0.0), wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 1.1))
        builder.add_articulation([builder.add_joint_free(child=body, parent_xform=turn)])
    else:
        body = builder.add_body(mass=1.0, inertia=inertia, lock_inertia=True)
    builder.body_qd[body] = TWIST
    return builder.finalize()


def test_initial_body_velocity_moves_the_body():
    """The first step already moves with it, under a rotated anchor too."""
    for rotated in (False, True):
        model = thrown(rotated)
        solver, a, b = SolverSAP(model), model.state(), model.state()
        solver.step(a, b, None, None, 0.01)
        np.testing.assert_allclose(b.body_qd.numpy()[0], TWIST, atol=1e-5)
        np.testing.assert_allclose(b.body_q.numpy()[0, :3], 0.01 * np.array(TWIST[:3]), atol=1e-6)


def test_a_state_set_to_rest_stays_at_rest():
    """Zero in both is zero; a joint velocity of the caller's own wins over the body's."""
    model = thrown()
    solver, state = SolverSAP(model), model.state()
    state.body_qd.zero_()
    solver.step(state, state, None, None, 0.01)
    np.testing.assert_array_equal(state.body_qd.numpy(), 0.0)
    state = model.state()
    state.joint_qd.assign(np.array([0.0, 0.0, 3.0, 0.0, 0.0, 0.0], dtype=np.float32))
    solver.step(state, state, None, None, 0.01)
    np.testing.assert_allclose(state.body_qd.numpy()[0, :3], [0.0, 0.0, 3.0], atol=1e-6)


def test_a_body_that_was_stopped_on_its_way_stays_at_rest():
    """It coasts, so that its ``body_qd`` still is the model's; but it is elsewhere."""
    model = thrown()
    model.body_qd.assign(np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]], np.float32))
    solver, state = SolverSAP(model), model.state()
    for _ in range(3):
        solver.step(state, state, None, None, 0.01)
    np.testing.assert_array_equal(state.body_qd.numpy(), model.body_qd.numpy())
    state.joint_qd.zero_()
    solver.step(state, state, None, None, 0.01)
    np.testing.assert_array_equal(state.joint_qd.numpy(), 0.0)


def test_consistent_models_are_left_alone():
    """Nothing is looked for where the model's two velocities agree."""
    builder = newton.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(), radius=0.1)
    assert not SolverSAP(builder.finalize()).initial_velocities.kernels


def test_a_report_sees_the_velocity_that_the_first_step_takes():
    """Energy and momentum of the initial state are those of the body's velocity, and the state stays as it is."""
    model = thrown()
    solver, state = SolverSAP(model), model.state()
    report = solver.report(state)
    np.testing.assert_allclose(report.linear_momentum[0], TWIST[:3], rtol=1e-6)
    v, w = np.split(np.array(TWIST), 2)
    np.testing.assert_allclose(report.kinetic_energy[0], 0.5 * (v @ v + 0.1 * w @ w), rtol=1e-6)
    assert not state.joint_qd.numpy().any()
