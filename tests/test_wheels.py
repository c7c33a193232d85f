"""Wheels that turn by a radian per step and more: their surface stays where it is, however fast it spins."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig
from test_against_reference import assert_same_step

LYING = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * math.pi)
FRICTION = newton.ModelBuilder.ShapeConfig(mu=0.8)


def rolling(radius, turn, dt, offset=0.0):
    """A cylinder on the ground that rolls along x by ``turn`` per step; its shape may sit beside the body's origin."""
    builder = newton.ModelBuilder()
    shape = wp.transform(wp.vec3(0.0, 0.0, offset), LYING)
    wheel = builder.add_body(xform=wp.transform((0.0, 0.0, radius - offset)))
    builder.add_shape_cylinder(wheel, xform=shape, radius=radius, half_height=0.5 * radius, cfg=FRICTION)
    builder.add_ground_plane(cfg=FRICTION)
    builder.joint_qd[:] = [turn * radius / dt, 0.0, 0.0, 0.0, turn / dt, 0.0]
    return builder


@pytest.mark.parametrize("law", ["lagged", "sap", "similar"])
@pytest.mark.parametrize("turn", [0.6, 0.9, 1.25])
def test_a_wheel_that_rolls_fast_is_not_braked(turn, law):
    """After a second it has its speed and has not hopped; points of its side, turned on straight, would reach the ground."""
    dt = 1.0 / 60.0
    rig, highest = Rig(rolling(0.1, turn, dt), dt, contact_model=law), 0.0
    for _ in range(60):
        highest = max(highest, rig.run(1).body_q[0, 2])
    assert rig.v[0] == pytest.approx(turn * 0.1 / dt, rel=2e-3)
    assert rig.v[4] == pytest.approx(turn / dt, rel=2e-3)
    assert highest < 0.1005
    assert rig.solver.report().healthy


def test_a_pencil_rolls_on():
    """A pencil of 8 mm at 0.3 m/s turns by 1.25 radians per step at 60 Hz."""
    rig = Rig(rolling(0.004, 1.25, 1.0 / 60.0), 1.0 / 60.0).run(60)
    assert rig.v[0] == pytest.approx(0.3, rel=5e-3)


@pytest.mark.parametrize("law", ["lagged", "sap", "similar"])
def test_a_fast_wheel_stops_at_a_wall(law):
    """What a wheel runs into counts as ever."""
    builder = rolling(0.1, 1.25, 1.0 / 60.0)
    wall = wp.transform((2.1, 0.0, 0.5))
    builder.add_shape_box(-1, xform=wall, hx=0.1, hy=1.0, hz=0.5, cfg=newton.ModelBuilder.ShapeConfig(mu=0.0))
    rig, farthest = Rig(builder, 1.0 / 60.0, contact_model=law), 0.0
    for _ in range(60):
        farthest = max(farthest, rig.run(1).body_q[0, 0])
    assert 1.8 < farthest < 1.903


def test_a_wheel_that_falls_while_it_spins_is_caught():
    """The lowest point of a spinning wheel is seen ahead, wherever the spin carries the points that are reported."""
    builder = rolling(0.1, 0.9, 1.0 / 60.0)
    builder.joint_q[2] = 0.6
    rig, lowest = Rig(builder, 1.0 / 60.0), 1.0
    for _ in range(90):
        lowest = min(lowest, rig.run(1).body_q[0, 2])
    assert lowest > 0.099


@pytest.mark.parametrize("offset", [0.0, 0.03])
def test_wheels_equal_the_reference(offset):
    """A wheel above the ground that spins about its own axis and another one, also where its shape sits beside the COM's frame."""
    builder = rolling(0.1, 0.7, 0.01, offset)
    builder.joint_q[2] += 0.01
    builder.joint_qd[2:4] = [-3.0, 5.0]
    model = builder.finalize()
    state, control, pipeline = model.state(), model.control(), newton.CollisionPipeline(model)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    truth = assert_same_step(model, state, control, contacts, dt=0.01, friction_bound="start")
    gaps = [contact["phi0"] for contact in truth.gamma]
    assert max(gaps) > 0.1 and np.any([contact["gamma_W"].any() for contact in truth.gamma])
