"""Wheels that turn by a radian per step and more: their surface stays where it is, however fast it spins."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, tight
from test_against_reference import assert_same_step

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

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


def on_tiles(radius, speed, size, count, law="lagged", surface="tiles"):
    """Wheels side by side that roll along x, each by a part of a step ahead of the one before, over flush tiles or triangles."""
    dt, wide = 1.0 / 60.0, 4.0 * radius
    builder = newton.ModelBuilder()
    places = np.arange(-1, math.ceil(speed / size) + 1) * size
    if surface == "tiles":
        for x in places:
            tile = wp.transform((x + 0.5 * size, 0.5 * count * wide, -0.05))
            builder.add_shape_box(-1, xform=tile, hx=0.5 * size, hy=count * wide, hz=0.05, cfg=FRICTION)
    else:
        corners = [(x, y, 0.0) for x in (*places, places[-1] + size) for y in (-count * wide, 2.0 * count * wide)]
        faces = [(i, i + 2, i + 1, i + 1, i + 2, i + 3) for i in range(0, 2 * len(places), 2)]
        mesh = newton.Mesh(np.array(corners, np.float32), np.ravel(faces).astype(np.int32))
        builder.add_shape_mesh(-1, mesh=mesh, cfg=FRICTION)
    for i in range(count):
        wheel = builder.add_body(xform=wp.transform((i / count * speed * dt, i * wide, radius - 1e-5)))
        builder.add_shape_cylinder(wheel, xform=wp.transform(q=LYING), radius=radius, half_height=radius, cfg=FRICTION)
        builder.joint_qd[-6:] = [speed, 0.0, 0.0, 0.0, speed / radius, 0.0]
    return Rig(builder, dt, contact_model=law)


@pytest.mark.parametrize(
    ("radius", "speed", "size", "surface", "law"),
    [
        (0.05, 3.0, 0.5, "tiles", "lagged"),
        (0.05, 3.0, 0.5, "tiles", "sap"),
        (0.05, 3.0, 0.5, "tiles", "similar"),
        (0.05, 5.0, 0.5, "tiles", "lagged"),
        (0.05, 5.0, 0.5, "triangles", "lagged"),
        (0.15, 8.0, 1.0, "tiles", "lagged"),
        (0.02, 1.2, 0.2, "tiles", "lagged"),
        (0.01, 0.6, 0.2, "tiles", "lagged"),
    ],
)
def test_a_wheel_that_comes_from_afar_meets_no_seam(radius, speed, size, surface, law):
    """A wheel that goes on by more than half its radius per step sees the next seam at more than 45 degrees; one in four lost a fifth of
    its speed there. Right above a seam its contact slants, and threw small wheels up."""
    rig, highest = on_tiles(radius, speed, size, 8, law, surface), -1.0
    for _ in range(48):
        highest = max(highest, rig.run().body_q[:, 2].max())
    np.testing.assert_allclose(rig.v.reshape(-1, 6)[:, 0], speed, rtol=3e-3)
    assert highest < radius + 0.01 * radius and rig.solver.report().healthy


@pytest.mark.parametrize("steps", [3, 4, 9, 12])
@pytest.mark.parametrize("law", ["lagged", "sap", "similar"])
def test_seams_far_ahead_equal_the_reference(law, steps):
    """The NumPy reference passes over the same, and the same that are right below a wheel."""
    rig = on_tiles(0.05, 3.0, 0.5, 8, law).run(steps)
    rig.pipeline.collide(rig.state, rig.contacts)
    out, options = rig.model.state(), tight(optimality_rel=1e-11) | {"contact_model": law, "friction_bound": "start"}
    truth = ReferenceSolver(rig.model, **options).step(rig.state, rig.control, rig.contacts, rig.dt)
    solver = SolverSAP(rig.model, **options)
    solver.step(rig.state, out, rig.control, rig.contacts, rig.dt)
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-5)
