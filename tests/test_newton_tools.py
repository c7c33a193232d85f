"""What Newton offers around a solver works with SolverSAP: sensors, views of articulations, inverse kinematics, viewers."""

import newton
import numpy as np
import pytest
import warp as wp
from newton.ik import IKJacobianType, IKObjectivePosition, IKSolver
from newton.selection import ArticulationView
from newton.sensors import SensorContact, SensorFrameTransform, SensorIMU

from newton_sap import SolverSAP, scenes

DT = 0.005


@pytest.fixture(scope="module")
def ball():
    """A ball of 4.19 kg on the ground, with a site on it and one on the ground."""
    builder = newton.ModelBuilder()
    body = builder.add_body(xform=((0.0, 0.0, 0.1), (0.0, 0.0, 0.0, 1.0)), label="ball")
    builder.add_shape_sphere(body, radius=0.1)
    builder.add_site(body, label="on_the_ball")
    builder.add_ground_plane()
    builder.add_site(-1, label="on_the_ground")
    return builder.finalize()


def test_sensors_of_a_ball_at_rest(ball):
    """Contact forces carry the weight, an accelerometer feels the ground, a frame sits a radius above it."""
    touch = SensorContact(ball, sensing_bodies="ball", request_contact_attributes=False)
    imu = SensorIMU(ball, "on_the_ball", request_state_attributes=False)
    frame = SensorFrameTransform(ball, shapes="on_the_ball", reference_sites="on_the_ground")
    solver, pipeline = SolverSAP(ball), newton.CollisionPipeline(ball)
    state, contacts = ball.state(), pipeline.contacts()
    kinds = {*touch.solver_observable_kinds, *imu.solver_observable_kinds}
    observables = solver.observables(kinds, contacts=contacts)
    for _ in range(60):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, DT, observables=observables)
    touch.update(state, contacts, observables=observables)
    imu.update(state, observables=observables)
    frame.update(state)
    weight = 9.81 * float(ball.body_mass.numpy()[0])
    np.testing.assert_allclose(touch.total_force.numpy()[0], [0.0, 0.0, weight], atol=1e-3 * weight)
    np.testing.assert_allclose(imu.accelerometer.numpy()[0], [0.0, 0.0, 9.81], atol=1e-2)
    np.testing.assert_allclose(imu.gyroscope.numpy()[0], 0.0, atol=1e-4)
    np.testing.assert_allclose(frame.transforms.numpy()[0, :3], [0.0, 0.0, 0.1], atol=1e-4)


def test_a_view_moves_one_world_and_sets_its_gains():
    """What an ArticulationView writes into a state and into the model counts from the next step, without notice."""
    scene = scenes.quadruped(world_count=3)
    model, dt = scene.model, scene.dt
    solver, view, control = SolverSAP(model), ArticulationView(model, "quadruped"), model.control()
    state, twin = scene.state(), scene.state()
    roots = view.get_root_transforms(state).numpy()
    roots[1, ..., 2] += 1.0
    view.set_root_transforms(state, roots)
    control.joint_target_q.fill_(0.3)
    gains = view.get_attribute("joint_target_ke", model).numpy().copy()
    solver.step(twin, twin, control, None, dt)
    changed = np.where(np.arange(3).reshape(-1, *[1] * (gains.ndim - 1)) == 2, 4.0 * gains, gains)
    view.set_attribute("joint_target_ke", model, changed.astype(np.float32))
    solver.step(state, state, control, None, dt)
    q, twin_q = (s.joint_q.numpy().reshape(3, -1) for s in (state, twin))
    np.testing.assert_array_equal(q[0], twin_q[0])
    np.testing.assert_allclose(q[1] - twin_q[1], np.eye(len(q[1]))[2], atol=1e-6)
    assert np.abs(q[2] - twin_q[2]).max() > 1e-4


def test_a_step_begins_at_what_inverse_kinematics_found():
    """IKSolver's joint coordinates go into the state; a short step stays there."""
    scene = scenes.quadruped()
    model, state = scene.model, scene.state()
    goal = state.body_q.numpy()[3, :3] + np.array([0.03, 0.02, 0.05])
    objective = IKObjectivePosition(3, wp.vec3(0.0), wp.array([goal], dtype=wp.vec3))
    found = wp.array(state.joint_q.numpy()[None], dtype=float)
    IKSolver(model, 1, [objective], jacobian_mode=IKJacobianType.ANALYTIC).step(found, found, iterations=30)
    state.joint_q.assign(found.flatten())
    solver = SolverSAP(model)
    solver.step(state, state, None, None, 1.0e-5)
    np.testing.assert_allclose(state.body_q.numpy()[3, :3], goal, atol=1e-3)
    assert solver.report().healthy


def test_a_viewer_pulls_a_body(ball):
    """Forces that a viewer adds to ``state.body_f``, as picking does, act in the next step."""
    viewer = newton.viewer.ViewerNull(num_frames=1)
    viewer.set_model(ball)
    state = ball.state()
    viewer.apply_forces(state)
    mass = float(ball.body_mass.numpy()[0])
    state.body_f.assign([[3.0 * mass, 0.0, 0.0, 0.0, 0.0, 0.0]])
    SolverSAP(ball).step(state, state, None, None, DT)
    viewer.begin_frame(0.0)
    viewer.log_state(state)
    viewer.end_frame()
    viewer.close()
    np.testing.assert_allclose(state.body_qd.numpy()[0, :3], [3.0 * DT, 0.0, -9.81 * DT], rtol=1e-5)
