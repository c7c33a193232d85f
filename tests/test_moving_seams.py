"""What slides from one flush surface onto another that moves otherwise: belts, tables, turntables."""

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP

MU, G, SIZE = 0.5, 9.81, 0.1
"""Friction, gravity [m/s^2], and half the edge of the box [m]."""


def slide(first, second, speed, dt, seconds=1.4):
    """Let a box go from a plate to the next, each fixed (None) or driven with a velocity; its velocities and heights by step."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    material = newton.ModelBuilder.ShapeConfig(mu=MU)
    driven = []
    for x, velocity in ((-1.0, first), (1.0, second)):
        body = -1
        at = wp.transform((x, 0.0, -0.1), wp.quat_identity())
        if velocity is not None:
            body = builder.add_body(xform=at, is_kinematic=True)
            driven.append((builder.joint_q_start[-1], builder.joint_qd_start[-1], velocity, builder.joint_q[-7:]))
        builder.add_shape_box(body, xform=at if body < 0 else None, hx=1.0, hy=0.5, hz=0.1, cfg=material)
    box = builder.add_body(xform=wp.transform((-0.7, 0.0, SIZE), wp.quat_identity()))
    builder.add_shape_box(box, hx=2.0 * SIZE, hy=1.5 * SIZE, hz=SIZE, cfg=material)
    model = builder.finalize()
    solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
    contacts = pipeline.contacts()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    v, z = [], []
    for step in range(int(seconds / dt)):
        q, qd = state.joint_q.numpy(), state.joint_qd.numpy()
        if step == 0:
            qd[-6:] = [speed, 0.0, 0.0, 0.0, 0.0, 0.0]
        for at_q, at_qd, velocity, pose in driven:  # back to where it began, as a belt is
            q[at_q : at_q + 7], qd[at_qd : at_qd + 6] = pose, velocity
        state.joint_q.assign(q)
        state.joint_qd.assign(qd)
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)
        v.append(state.joint_qd.numpy()[-6:].copy())
        z.append(state.body_q.numpy()[box, 2] - SIZE)
    assert solver.report().healthy
    return np.array(v), np.array(z)


BELT, SLOW, ACROSS, TURNS = [1.0, 0, 0, 0, 0, 0], [1e-4, 0, 0, 0, 0, 0], [0, 0.3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0.5]


@pytest.mark.parametrize("dt", [1.0 / 240.0, 1.0 / 1000.0])
@pytest.mark.parametrize(("first", "second", "speed"), [
    (BELT, None, 1.0), (None, SLOW, 1.5), (None, BELT, 1.5), (None, ACROSS, 1.5), (None, TURNS, 1.5), (BELT, ACROSS, 1.0),
])  # fmt: skip
def test_no_step_takes_more_than_friction_can(first, second, speed, dt):
    """The box neither stops at the seam nor hops there nor pitches, however the other surface moves, so long as it stays level."""
    v, z = slide(first, second, speed, dt)
    jumps = np.linalg.norm(np.diff(v[:, :2], axis=0), axis=1)
    assert jumps.max() < 1.3 * MU * G * dt
    assert np.abs(z[5:]).max() < 1e-4 and np.abs(v[5:, 3:5]).max() < 0.02


def test_a_plate_that_comes_up_lifts():
    """A surface that does not stay level with its neighbour is no part of the same floor."""
    v, z = slide(None, [0.0, 0.0, 0.2, 0.0, 0.0, 0.0], 2.5, 1.0 / 240.0, seconds=0.5)
    assert z.max() > 1e-3 and np.abs(v[:, 4]).max() > 0.1
