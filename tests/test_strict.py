"""Strict mode: a step that went wrong raises, one that went well does not."""

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP


def falling_balls(worlds=2):
    """A ball just above the ground in each of several worlds."""
    ball = newton.ModelBuilder()
    ball.add_shape_sphere(ball.add_body(xform=wp.transform((0.0, 0.0, 0.11), wp.quat_identity())), radius=0.1)
    builder = newton.ModelBuilder()
    builder.replicate(ball, worlds)
    builder.add_ground_plane()
    return builder.finalize()


def run(solver, state, steps, dt=0.01):
    """Step with contacts."""
    pipeline = newton.CollisionPipeline(solver.model)
    contacts = pipeline.contacts()
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)


def test_healthy_steps_pass():
    """Nothing is raised while every step converges."""
    model = falling_balls()
    run(SolverSAP(model, strict=True), model.state(), 20)


def test_unconverged_step_raises():
    """Without iterations the landing cannot converge; the worlds and the reason are named."""
    model = falling_balls()
    with pytest.raises(RuntimeError, match=r"world 0, 1 did not converge \(iteration limit\)"):
        run(SolverSAP(model, strict=True, max_iterations=0), model.state(), 20)


@pytest.mark.parametrize(("worlds", "more"), [(8, ""), (9, " and 1 more"), (12, " and 4 more")])
def test_worlds_beyond_eight_are_counted(worlds, more):
    """A message names eight, and says how many more there are."""
    model = falling_balls(worlds)
    with pytest.raises(RuntimeError, match=rf"world 0, 1, 2, 3, 4, 5, 6, 7{more} did not converge"):
        run(SolverSAP(model, strict=True, max_iterations=0), model.state(), 20)


def test_a_model_without_worlds_is_called_so():
    """A scene built without worlds has no number that its user would know."""
    builder = newton.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(xform=wp.transform((0.0, 0.0, 0.11), wp.quat_identity())), radius=0.1)
    builder.add_ground_plane()
    model = builder.finalize()
    with pytest.raises(RuntimeError, match="the model did not converge"):
        run(SolverSAP(model, strict=True, max_iterations=0), model.state(), 20)


def test_non_finite_step_raises_once():
    """A NaN names its world; after the state is mended, stepping goes on."""
    model = falling_balls()
    solver, state = SolverSAP(model, strict=True), model.state()
    good = state.joint_qd.numpy().copy()
    bad = good.copy()
    bad[6] = np.nan
    state.joint_qd.assign(bad)
    with pytest.raises(RuntimeError, match="world 1 is not finite"):
        solver.step(state, state, None, None, 0.01)
    state.assign(model.state())
    state.joint_qd.assign(good)
    solver.step(state, state, None, None, 0.01)


def test_dropped_contacts_raise():
    """A capacity of one contact for two landings is named with its remedy."""
    model = falling_balls()
    with pytest.raises(RuntimeError, match="found no room.*max_contacts"):
        run(SolverSAP(model, strict=True, max_contacts=1), model.state(), 20)


def test_a_reset_forgives():
    """After a reset a healthy step passes, and the next one that goes wrong raises again."""
    model = falling_balls()
    solver, state = SolverSAP(model, strict=True, max_contacts=1), model.state()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="found no room"):
            run(solver, state, 20)
        solver.reset(state)
        solver.step(state, state, None, None, 0.01)
        state.assign(model.state())


def test_a_recorded_reset_forgives_too():
    """Counts that a replay set back are the new beginning, not what was seen before it."""
    model = falling_balls()
    solver, state = SolverSAP(model, strict=True, max_contacts=1), model.state()
    with wp.ScopedCapture() as capture:
        solver.reset(state)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="found no room"):
            run(solver, state, 20)
    wp.capture_launch(capture.graph)
    with pytest.raises(RuntimeError, match="found no room"):
        run(solver, state, 1)


def test_a_failure_in_a_replay_is_found_by_the_next_step():
    """A replay cannot raise; the next step says among which steps the failure was."""
    model = falling_balls()
    solver, state = SolverSAP(model, strict=True), model.state()
    solver.step(state, state, None, None, 0.01)
    with wp.ScopedCapture() as capture:
        solver.step(state, state, None, None, 0.01)
    state.joint_qd.fill_(np.nan)
    for _ in range(3):
        wp.capture_launch(capture.graph)
    state.assign(model.state())
    with pytest.raises(RuntimeError, match="one of steps 2 to 5, replays included: world 0, 1 is not finite"):
        solver.step(state, state, None, None, 0.01)
