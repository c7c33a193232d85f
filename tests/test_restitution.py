"""Impacts across a gap: surfaces meet before they part, and only those part that met."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from newton.solvers import SolverMuJoCo
from rig import G, Rig, link, material, weightless

LAWS = ["sap", "lagged", "similar"]
R = 0.05


def dropped(height, dt, restitution, gap=0.1, shape="sphere", **options):
    """A body that falls by ``height`` [m] on the ground, as a rig."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 1.0, 2e-3)
    cfg = material(gap=gap, restitution=restitution)
    if shape == "sphere":
        builder.add_shape_sphere(body, radius=R, cfg=cfg)
    else:
        builder.add_shape_box(body, hx=R, hy=R, hz=R, cfg=cfg)
    builder.add_articulation([builder.add_joint_free(body)])
    builder.add_ground_plane(cfg=cfg)
    return Rig(builder, dt, q=[0, 0, R + height, 0, 0, 0, 1], **options)


def clearances(rig, steps):
    """Height of the body's lowest point after each step."""
    return np.array([rig.run(1).q[2] - R for _ in range(steps)])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dt", [1 / 60, 1 / 1000])
@pytest.mark.parametrize("shape", ["sphere", "box"])
def test_a_bounce_touches_the_ground(shape, dt, law):
    """Newton's default gap of 0.1 m turns nothing round before it touches; the rebound is that of a late contact."""
    e = 0.6
    heights = clearances(dropped(0.5, dt, e, shape=shape, contact_model=law), int(0.8 / dt))
    impact = int(np.argmin(heights[: int(0.4 / dt)]))
    assert abs(heights[impact]) < 1e-4
    rebound = heights[impact:].max()
    assert rebound == pytest.approx(e * e * 0.5, rel=0.02, abs=5.0 * dt * e)


@pytest.mark.parametrize("e", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_gap_does_not_change_the_rebound(e):
    """Found in time or when already inside, a ball rises to the same height, but for how deep it was found."""
    dt = 1 / 240
    rebounds = []
    for gap in (0.0, 0.1):
        heights = clearances(dropped(0.5, dt, e, gap=gap), int(0.7 / dt))
        impact = int(np.argmin(heights[: int(0.36 / dt)]))
        rebounds.append(heights[impact:].max())
    assert rebounds[1] == pytest.approx(e * e * 0.5, rel=0.03, abs=1e-3)
    assert rebounds[0] == pytest.approx(rebounds[1], abs=dt * math.sqrt(2 * G * 0.5))


def test_an_elastic_ball_keeps_bouncing():
    """Ten elastic bounces at 1/240 s lose a hundredth of the height: what the compliance of each impact takes."""
    dt = 1 / 240
    heights = clearances(dropped(0.2, dt, 1.0), int(10 * 2 * math.sqrt(0.4 / G) / dt))
    assert heights.min() > -1e-4
    assert 0.98 * 0.2 < heights[-int(0.5 / dt) :].max() < 1.001 * 0.2


@pytest.mark.parametrize("law", LAWS)
def test_two_bodies_meet_before_they_part(law):
    """Balls that fly at each other touch; their common centre of mass goes straight on, in position and in velocity."""
    builder = weightless()
    cfg = material(gap=0.1, restitution=0.8)
    for mass in (1.0, 3.0):
        body = link(builder, mass, 1e-3)
        builder.add_shape_sphere(body, radius=R, cfg=cfg)
        builder.add_articulation([builder.add_joint_free(body)])
    start = [0, 0, 0, 0, 0, 0, 1, 0.33, 0, 0, 0, 0, 0, 1]
    rig = Rig(builder, 1 / 60, q=start, v=[4, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0], contact_model=law)
    distances, centres = [], []
    for _ in range(8):
        rig.run(1)
        distances.append(rig.q[7] - rig.q[0] - 2 * R)
        centres.append((rig.q[0] + 3.0 * rig.q[7]) / 4.0)
    assert abs(min(distances)) < 1e-4
    assert rig.v[6] - rig.v[0] == pytest.approx(0.8 * 5.0, rel=5e-3)
    np.testing.assert_allclose(np.diff(centres), 0.25 / 60, atol=1e-6)


def test_what_never_meets_does_not_bounce():
    """A slide heads for a wall, but its own limit stops it short of it."""
    builder = weightless()
    body = link(builder)
    cfg = material(gap=0.5, restitution=1.0)
    builder.add_shape_sphere(body, radius=R, cfg=cfg)
    joint = builder.add_joint_prismatic(-1, body, axis=(1, 0, 0), limit_upper=0.1, limit_ke=1e7, limit_kd=1e4)
    builder.add_articulation([joint])
    builder.add_shape_box(-1, xform=wp.transform((0.4, 0, 0), wp.quat_identity()), hx=0.2, hy=1, hz=1, cfg=cfg)
    rig = Rig(builder, 1 / 60, q=[0.0], v=[10.0])
    rig.run(1)  # free, it would be at 0.167; the wall is at 0.15 and the limit at 0.1
    assert 0.09 < rig.q[0] < 0.12
    assert rig.v[0] > -1.0


def test_a_bullet_bounces_off_a_thin_plate():
    """At 100 m/s and 1/60 s a ball neither passes 1 cm of plate nor loses its way back."""
    builder = weightless()
    body = link(builder, 0.1, 1e-4)
    cfg = material(gap=2.0, restitution=0.5)
    builder.add_shape_sphere(body, radius=R, cfg=cfg)
    builder.add_articulation([builder.add_joint_free(body)])
    builder.add_shape_box(-1, hx=0.005, hy=1, hz=1, cfg=cfg)
    rig = Rig(builder, 1 / 60, q=[-1.0, 0, 0, 0, 0, 0, 1], v=[100, 0, 0, 0, 0, 0])
    rig.run(1)
    assert rig.q[0] == pytest.approx(-0.055, abs=2e-3)
    assert rig.v[0] == pytest.approx(-50.0, rel=0.01)


def test_observables_and_inverse_dynamics_see_the_rebound():
    """The contact's impulse is the one that turned the body round, and explains the observed step."""
    rig = dropped(0.3, 1 / 100, 0.5)
    kinds = rig.solver.ObservableKind
    observables = rig.solver.observables({kinds.CONTACT_IMPULSE, kinds.BODY_QDD}, contacts=rig.contacts)
    before = rig.v[2]
    while rig.v[2] <= 0.0:
        before, start = rig.v[2], rig.state
        rig.pipeline.collide(rig.state, rig.contacts, dt=rig.dt)
        rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt, observables=observables)
        rig.state, rig.next = rig.next, rig.state
    gained = rig.v[2] - before + G * rig.dt
    assert abs(observables.contact_impulse.numpy()[0, 2]) == pytest.approx(gained, rel=1e-3)
    assert observables.body_qdd.numpy()[0, 2] == pytest.approx((rig.v[2] - before) / rig.dt, rel=1e-4)
    found = rig.solver.inverse_dynamics(start, rig.state, rig.control, rig.contacts, rig.dt)
    assert np.abs(found.unexplained_force).max() < 1e-3 * gained / rig.dt
    assert np.abs(found.contact_impulse[:, 2]).sum() == pytest.approx(gained, rel=1e-3)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("gravity", [True, False])
@pytest.mark.parametrize("what", ["a drive", "a force"])
def test_what_is_pressed_on_a_bouncy_floor_stays_there(what, gravity, law):
    """Creep that nothing but restitution would meet is no impact: where gravity does not act, either, nothing sinks."""
    builder = newton.ModelBuilder() if gravity else weightless()
    SolverMuJoCo.register_custom_attributes(builder)
    cfg = material(friction=0.0, damping=500.0, restitution=0.5)
    builder.add_ground_plane(cfg=cfg)
    weight = {"mujoco:gravcomp": 1.0}
    body = link(builder, 1.0, 6e-3, custom_attributes=weight, xform=wp.transform((0, 0, R), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=R, cfg=cfg)
    motor = dict(target_q=-1.0, target_ke=100.0, target_kd=5.0, effort_limit=100.0)
    mode = newton.JointTargetMode.POSITION if what == "a drive" else newton.JointTargetMode.NONE
    frame = wp.transform((0, 0, R), wp.quat_identity())
    joint = builder.add_joint_prismatic(-1, body, parent_xform=frame, axis=(0, 0, 1), actuator_mode=mode, **motor)
    builder.add_articulation([joint])
    rig = Rig(builder, 0.005, contact_model=law)
    if what == "a force":
        rig.push([0.0, 0.0, -100.0, 0.0, 0.0, 0.0])
    depths = [rig.run(200).q[0] for _ in range(4)]
    assert rig.solver.report().healthy
    np.testing.assert_allclose(depths, -1e-3, rtol=2e-3)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_box_rests_on_a_bouncy_plate_whichever_was_built_first(order, law):
    """What an impact is does not depend on which of two bodies compensates its weight."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    cfg = material(damping=500.0, restitution=0.5)

    def plate():
        below = wp.transform((0, 0, -0.05), wp.quat_identity())
        body = link(builder, 5.0, 0.1, custom_attributes={"mujoco:gravcomp": 1.0}, xform=below)
        builder.add_shape_box(body, hx=0.5, hy=0.5, hz=0.05, cfg=cfg)
        mode = newton.JointTargetMode.POSITION
        drive = dict(axis=(0, 0, 1), target_ke=1e6, target_kd=1e4, actuator_mode=mode)
        builder.add_articulation([builder.add_joint_prismatic(-1, body, parent_xform=below, **drive)])
        return body

    def box():
        body = link(builder, 20.0, 0.13, xform=wp.transform((0, 0, 0.1), wp.quat_identity()))
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
        builder.add_articulation([builder.add_joint_free(body)])
        return body

    bodies = dict((i, (plate, box)[i]()) for i in order)
    rig = Rig(builder, 0.005, contact_model=law).run(400)
    gap = rig.body_q[bodies[1], 2] - rig.body_q[bodies[0], 2] - 0.15
    assert gap == pytest.approx(-20.0 * G / (4 * 1e5), rel=0.02)


SIZES = {
    "sphere": {"radius": R},
    "box": {"hx": R, "hy": R, "hz": R},
    "cylinder": {"radius": R, "half_height": R},
    "ellipsoid": {"rx": R, "ry": R, "rz": 0.8 * R},
}


def elastic_bodies(places, speeds, dt, mass=1.0, shape="sphere", **options):
    """Weightless bodies without friction on a line, or in a plane, as a rig; places (n, 2) [m], speeds (n, 2) [m/s]."""
    builder = weightless()
    cfg = material(friction=0.0, gap=0.1, restitution=1.0)
    for x, y in places:
        body = link(builder, mass, 1e-3, xform=wp.transform((x, y, 0.0), wp.quat_identity()))
        getattr(builder, f"add_shape_{shape}")(body, **SIZES[shape], cfg=cfg)
        builder.add_articulation([builder.add_joint_free(body)])
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):  # walls of a square metre
        wall = wp.transform((0.6 * x, 0.6 * y, 0.0), wp.quat_identity())
        builder.add_shape_box(-1, xform=wall, hx=0.1 if x else 0.7, hy=0.1 if y else 0.7, hz=0.5, cfg=cfg)
    start = np.zeros((len(places), 7))
    start[:, :2], start[:, 6] = places, 1.0
    v = np.zeros((len(places), 6))
    v[:, :2] = speeds
    return Rig(builder, dt, q=start, v=v, **options)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_balls_that_bounce_in_company_keep_their_energy(dt, law):
    """Twenty-five balls in a box: whom one impact throws at another bounces next; no step adds energy, few take any."""
    grid = np.linspace(-0.38, 0.38, 5)
    places = np.array([(x, y) for x in grid for y in grid])
    rig = elastic_bodies(places, np.random.default_rng(7).normal(0.0, 1.5, (25, 2)), dt, contact_model=law)
    energies = [np.sum(rig.v**2)]
    for _ in range(int(2.0 / dt)):
        energies.append(np.sum(rig.run(1).v ** 2))
    assert rig.solver.report().healthy
    assert np.abs(rig.q.reshape(-1, 7)[:, :2]).max() < 0.5 - R + 2e-3
    assert np.max(np.diff(energies)) < 1e-4 * energies[0]
    assert energies[-1] > 0.9 * energies[0]


@pytest.mark.parametrize("shape", ["box", "cylinder", "ellipsoid"])
def test_bodies_that_bounce_and_turn_in_company_keep_their_energy(shape):
    """Twenty-five of them, two seconds: what they spin with is taken from what they fly with."""
    grid = np.linspace(-0.38, 0.38, 5)
    places = np.array([(x, y) for x in grid for y in grid])
    speeds = np.random.default_rng(7).normal(0.0, 1.5, (25, 2))
    rig = elastic_bodies(places, speeds, 1 / 240, shape=shape)
    energies = []
    for _ in range(480):
        v = rig.run(1).v.reshape(25, 6)
        energies.append(0.5 * np.sum(v[:, :3] ** 2) + 0.5e-3 * np.sum(v[:, 3:] ** 2))
    assert rig.solver.report().healthy
    assert max(energies) < (1.0 + 1e-4) * 0.5 * np.sum(speeds**2)
    assert energies[-1] > 0.96 * energies[0]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_a_ball_that_a_wall_throws_at_one_that_flees_gains_nothing(dt, law):
    """Found inside the wall it turns round at once, and within the step catches up with the other, whom it does not strike
    before the next."""
    wall = 0.5 - R
    rig = elastic_bodies(
        [(wall + 7e-4, 0.0), (wall - 1e-3 - 2 * R, 0.0)], [(2.5, 0.0), (-0.7, 0.0)], dt, contact_model=law
    )
    before = np.sum(rig.v**2)
    for _ in range(6):
        assert np.sum(rig.run(1).v ** 2) < (1.0 + 1e-4) * before
    assert rig.v[[0, 6]] == pytest.approx([-0.7, -2.5], rel=5e-3)


@pytest.mark.parametrize("law", LAWS)
def test_a_ball_that_is_struck_beside_a_wall_comes_back_from_there(law):
    """It has just left that wall, and is closer than it goes in a step."""
    dt = 1 / 60
    rig = elastic_bodies([(0.449, 0.0), (0.3, 0.0)], [(-1.0, 0.0), (4.0, 0.0)], dt, contact_model=law)
    before = np.sum(rig.v**2)
    for _ in range(6):
        rig.run(1)
        assert np.sum(rig.v**2) < (1.0 + 1e-4) * before
        assert rig.q[0] < 0.5 - R + 2e-3
    assert np.sum(rig.v**2) > 0.99 * before
    # One after the other: they exchange velocities, the wall turns the struck one round, it catches up, they exchange again.
    assert rig.v[[0, 6]] == pytest.approx([-1.0, -4.0], rel=5e-3)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_a_ball_that_is_thrown_back_at_the_wall_it_leaves_gains_nothing(dt, law):
    """It is still in the wall by a hair, and the one that throws it back was found inside it."""
    x = 0.5 - R + 2e-6
    rig = elastic_bodies([(x, 0.0), (x + 2e-3 - 2 * R, 0.0)], [(-2.4, 0.0), (3.0, 0.0)], dt, contact_model=law)
    before = np.sum(rig.v**2)
    for _ in range(6):
        assert np.sum(rig.run(1).v ** 2) < (1.0 + 1e-4) * before
        assert rig.q[0] < 0.5 - R + 0.01
    assert np.sum(rig.v**2) > 0.98 * before
    # One after the other: they exchange velocities, the wall turns the first one round, it catches up, they exchange again. The
    # wall is as soft as its material, for the first one was on its way out.
    assert rig.v[[0, 6]] == pytest.approx([-2.4, -3.0], rel=0.15)


@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_a_light_ball_is_thrown_by_a_heavy_one_that_bounces(dt):
    """Dropped together, a hand's breadth apart: the light one leaves with (3 M - m) / (M + m) of the speed of arrival."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    cfg = material(friction=0.0, gap=0.1, restitution=1.0)
    M, m = 4.0, 0.05
    for mass in (M, m):
        body = link(builder, mass, 1e-3)
        builder.add_shape_sphere(body, radius=R, cfg=cfg)
        builder.add_articulation([builder.add_joint_free(body)])
    builder.add_ground_plane(cfg=cfg)
    rig = Rig(builder, dt, q=[0, 0, 0.5, 0, 0, 0, 1, 0, 0, 0.63, 0, 0, 0, 1])
    arrival = math.sqrt(2 * G * (0.5 - R))
    fastest = max(rig.run(1).v[8] for _ in range(int(0.36 / dt)))
    # The heavy one has risen for a little and slows down, the light one falls a little longer.
    assert fastest == pytest.approx((3 * M - m) / (M + m) * arrival, rel=0.05)


def test_boxes_without_friction_keep_their_energy_corner_after_corner():
    """Spinning boxes that land on one corner and are thrown on the next, two in a step: energy stays."""
    rng = np.random.default_rng(3)
    world = weightless()
    cfg = material(friction=0.0, gap=0.1, restitution=1.0)
    body = link(world, 8.0, 8.0 * 0.2**2 / 6.0)
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    world.add_articulation([world.add_joint_free(body)])
    count = 40
    builder = weightless()
    builder.replicate(world, count)
    builder.add_ground_plane(cfg=cfg)
    q, v = np.zeros((count, 7)), np.zeros((count, 6))
    q[:, 2] = 0.3
    q[:, 3:] = rng.normal(size=(count, 4))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    v[:, 2], v[:, 3:] = -1.0 - rng.random(count), 5.0 * rng.normal(size=(count, 3))
    rig = Rig(builder, 1 / 240, q=q, v=v)

    def energies():
        w = rig.v.reshape(count, 6)
        return 4.0 * np.sum(w[:, :3] ** 2, axis=1) + 0.5 * 8.0 * 0.2**2 / 6.0 * np.sum(w[:, 3:] ** 2, axis=1)

    before = energies()
    rig.run(120)
    share = energies() / before
    assert (rig.v.reshape(count, 6)[:, 2] > 0.0).all()
    assert share.max() < 1.001 and share.min() > 0.99
