"""Torsional and rolling friction of balls: how fast they slow down, what holds them, and what leaves them alone."""

from __future__ import annotations

import math

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP

G = 9.81
RADIUS = 0.1
MASS = 2.0
STIFFNESS = 1.0e5
INERTIA = 0.4 * MASS * RADIUS**2
LAWS = ("sap", "lagged", "similar")


class Balls:
    """Homogeneous balls that rest side by side on the ground; gravity slopes towards +x by ``incline`` [rad]."""

    def __init__(self, torsional=0.0, rolling=0.0, count=1, incline=0.0, mu=0.8, v=(), dt=2e-3, **options):
        builder = newton.ModelBuilder(gravity=(G * math.sin(incline), 0.0, -G * math.cos(incline)))
        config = newton.ModelBuilder.ShapeConfig(
            ke=STIFFNESS, kd=0.005 * STIFFNESS, mu=mu, mu_torsional=torsional, mu_rolling=rolling, density=0.0
        )
        depth = MASS * G * math.cos(incline) / STIFFNESS
        for i in range(count):
            at = wp.transform(wp.vec3(0.0, 3.0 * RADIUS * i, RADIUS - depth), wp.quat_identity())
            body = builder.add_body(xform=at, mass=MASS, inertia=wp.diag(wp.vec3(INERTIA)), lock_inertia=True)
            builder.add_shape_sphere(body, radius=RADIUS, cfg=config)
        builder.add_ground_plane(cfg=config)
        self.model, self.dt = builder.finalize(), dt
        self.solver = SolverSAP(self.model, **{"spin_friction": True, **options})
        self.state = self.model.state()
        if len(v):
            self.state.joint_qd.assign(np.asarray(v, np.float32).ravel())
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()

    def run(self, steps):
        """Step and return the balls themselves."""
        for _ in range(steps):
            self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.state, None, self.contacts, self.dt)
        assert self.solver.report().healthy, str(self.solver.report())
        return self

    @property
    def v(self):
        """Velocity of the first ball, linear first."""
        return self.state.joint_qd.numpy()[:6].astype(float)


def rolling_at(speed):
    """Velocity of a ball that rolls along x."""
    return [speed, 0.0, 0.0, 0.0, speed / RADIUS, 0.0]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rolling", [2.0e-3, 1.0e-2])
def test_rolling_ball_slows_down(law, rolling):
    """A homogeneous ball that rolls loses (mu_r / r) g / 1.4 per second and keeps rolling."""
    balls, steps = Balls(rolling=rolling, v=rolling_at(1.0), contact_model=law), 200
    balls.run(steps)
    assert 1.0 - balls.v[0] == pytest.approx(rolling / RADIUS * G / 1.4 * steps * balls.dt, rel=0.01)
    assert balls.v[4] * RADIUS == pytest.approx(balls.v[0], rel=1e-3)


@pytest.mark.parametrize("law", LAWS)
def test_rolling_ball_comes_to_rest(law):
    """Once it stands, the ball stays."""
    rolling, speed = 1.0e-2, 0.3
    balls = Balls(rolling=rolling, v=rolling_at(speed), contact_model=law)
    balls.run(round(1.2 * speed / (rolling / RADIUS * G / 1.4) / balls.dt))
    assert abs(balls.v[0]) < 1e-8
    path = speed**2 / (2.0 * rolling / RADIUS * G / 1.4)
    assert balls.state.body_q.numpy()[0, 0] == pytest.approx(path, rel=0.02)


@pytest.mark.parametrize("law", LAWS)
def test_spinning_ball_slows_down(law):
    """A ball that spins about the vertical loses mu_t m g / I per second, stops, and stays where it is."""
    torsional, steps, spin = 1.0e-2, 100, 12.0
    balls = Balls(torsional=torsional, v=[0, 0, 0, 0, 0, spin], contact_model=law)
    balls.run(steps)
    rate = torsional * MASS * G / INERTIA
    assert spin - balls.v[5] == pytest.approx(rate * steps * balls.dt, rel=2e-4)
    balls.run(round(1.1 * spin / rate / balls.dt))
    assert abs(balls.v[5]) < 1e-9
    np.testing.assert_allclose(balls.v[:5], 0.0, atol=1e-5)


@pytest.mark.parametrize("law", LAWS)
def test_rolling_friction_holds_on_a_slope(law):
    """A ball stays as long as tan(theta) < mu_r / r, and above it accelerates by the difference over 1.4."""
    rolling, steps = 1.0e-2, 200
    held = Balls(rolling=rolling, incline=math.atan(0.8 * rolling / RADIUS), contact_model=law).run(steps)
    assert 0.0 < held.v[0] < 1e-4
    theta = math.atan(2.0 * rolling / RADIUS)
    free = Balls(rolling=rolling, incline=theta, contact_model=law).run(steps)
    expected = G * (math.sin(theta) - rolling / RADIUS * math.cos(theta)) / 1.4
    assert free.v[0] == pytest.approx(expected * steps * free.dt, rel=0.01)


def test_coefficients_act_on_their_own_axis():
    """Rolling friction leaves a spin about the normal alone, torsional friction leaves rolling alone."""
    spinning = Balls(rolling=1e-2, v=[0, 0, 0, 0, 0, 5.0]).run(100)
    assert spinning.v[5] == pytest.approx(5.0, rel=1e-4)
    rolling = Balls(torsional=1e-2, v=rolling_at(1.0)).run(100)
    assert rolling.v[0] == pytest.approx(1.0, rel=1e-3)


def test_off_by_default():
    """Newton's default shapes carry both coefficients; without the option nothing resists a spin."""
    config = newton.ModelBuilder.ShapeConfig()
    assert config.mu_torsional > 0.0 and config.mu_rolling > 0.0
    balls = Balls(torsional=0.1, rolling=0.1, v=[1.0, 0, 0, 0, 1.0 / RADIUS, 5.0], spin_friction=None).run(100)
    np.testing.assert_allclose(balls.v[[0, 5]], [1.0, 5.0], rtol=1e-3)


def test_option_without_coefficients_changes_no_bit():
    """With the option on, contacts whose coefficients are zero act as before."""
    ends = [Balls(v=[1.0, 0, 0, 0, 3.0, 5.0], spin_friction=on).run(20).state for on in (False, True)]
    np.testing.assert_array_equal(*(end.joint_qd.numpy() for end in ends))


def test_every_ball_has_its_own_contact():
    """Several balls slow down alike, each by its own contact, and every contact has room for its spin."""
    spins = [3.0, -4.0, 6.0]
    balls = Balls(torsional=1e-2, count=3, v=[[0, 0, 0, 0, 0, spin] for spin in spins]).run(50)
    after = balls.state.joint_qd.numpy().reshape(3, 6)[:, 5]
    lost = 1e-2 * MASS * G / INERTIA * 50 * balls.dt
    np.testing.assert_allclose(after, np.array(spins) - lost * np.sign(spins), rtol=0.01)
    report = balls.solver.report()
    assert report.contacts.tolist() == report.contacts_peak.tolist() == [3]  # however many slots they take
    assert not report.contacts_dropped.any()


@pytest.mark.parametrize("room", [0, 1, 3, 4])
def test_capacity_is_in_contacts(room):
    """Of four balls as many keep their contact, with its spin, as ``max_contacts`` says; the others are counted."""
    balls = Balls(torsional=1e-2, count=4, v=[[0, 0, 0, 0, 0, 5.0]] * 4, max_contacts=room)
    for _ in range(2):
        balls.pipeline.collide(balls.state, balls.contacts)
        balls.solver.step(balls.state, balls.state, None, balls.contacts, balls.dt)
    report = balls.solver.report()
    assert report.contact_capacity == room
    assert report.contacts.tolist() == [room]
    assert report.contacts_dropped.tolist() == [2 * (4 - room)]
    slowed = balls.state.joint_qd.numpy().reshape(4, 6)[:, 5] < 4.95
    assert slowed.sum() == room


@pytest.mark.parametrize("room", [1, 2, 3, 4, 5, 6])
def test_worlds_share_whole_contacts(room):
    """Two balls in each of three worlds: no share ends between a contact and its spin."""
    world = newton.ModelBuilder()
    config = newton.ModelBuilder.ShapeConfig(mu_torsional=1e-2)
    for i in range(2):
        body = world.add_body(xform=wp.transform((i, 0.0, 0.99 * RADIUS), wp.quat_identity()))
        world.add_shape_sphere(body, radius=RADIUS, cfg=config)
    builder = newton.ModelBuilder()
    builder.replicate(world, 3)
    builder.add_ground_plane(cfg=config)
    model = builder.finalize()
    pipeline, state = newton.CollisionPipeline(model), model.state()
    solver, contacts = SolverSAP(model, spin_friction=True, max_contacts=room), pipeline.contacts()
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, 1e-3)
    report = solver.report()
    assert report.contacts.tolist() == [room // 3 + (w < room % 3) for w in range(3)]
    assert (report.contacts + report.contacts_dropped).tolist() == [2, 2, 2]


def test_a_contact_without_room_for_its_spin_is_counted():
    """Beside one that has none: it pushes, and is missed in part."""
    balls = Balls(torsional=1e-2, count=2, max_contacts=1)
    balls.model.shape_material_mu_torsional.assign([0.0, 1e-2, 0.0])
    balls.model.shape_material_mu_rolling.zero_()
    depth = balls.state.joint_q.numpy()
    depth[2] -= 1e-3  # of the ball that spins freely, which is kept first
    balls.state.joint_q.assign(depth)
    balls.pipeline.collide(balls.state, balls.contacts)
    balls.solver.step(balls.state, balls.state, None, balls.contacts, balls.dt)
    report = balls.solver.report()
    assert report.contacts.tolist() == [2] and report.contacts_dropped.tolist() == [1]


def test_balls_that_touch_conserve_angular_momentum():
    """What torsional friction takes from one ball it gives to the other."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    config = newton.ModelBuilder.ShapeConfig(ke=1e4, kd=0.0, mu=0.5, mu_torsional=0.02, mu_rolling=0.02, density=0.0)
    for x in (0.0, 1.98 * RADIUS):
        at = wp.transform(wp.vec3(x, 0.0, 1.0), wp.quat_identity())
        body = builder.add_body(xform=at, mass=MASS, inertia=wp.diag(wp.vec3(INERTIA)), lock_inertia=True)
        builder.add_shape_sphere(body, radius=RADIUS, cfg=config)
    model = builder.finalize()
    solver, state = SolverSAP(model, spin_friction=True), model.state()
    state.joint_qd.assign(np.array([0.5, 0, 0, 8.0, 3.0, 0, -0.5, 0, 0, -2.0, 0, 1.0], np.float32))
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()

    def momentum():
        x, v = state.body_q.numpy()[:, :3].astype(float), state.joint_qd.numpy().reshape(2, 6).astype(float)
        return (MASS * np.cross(x, v[:, :3]) + INERTIA * v[:, 3:]).sum(axis=0)

    before, twist = momentum(), state.joint_qd.numpy()[3]
    for _ in range(20):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 1e-3)
    assert abs(state.joint_qd.numpy()[3] - twist) > 0.1
    np.testing.assert_allclose(momentum(), before, atol=1e-6)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rigid", [True, False])
@pytest.mark.parametrize("e", [0.0, 0.5])
@pytest.mark.parametrize("axis", ["about the normal", "across it"])
def test_a_landing_takes_what_its_impulse_bears(axis, e, rigid, law):
    """An impact across a gap slows a spin by mu times the impulse over the inertia, whatever the depth told before it."""
    dt, mass, moment, spin, mu = 5e-3, 1.0, 4e-3, 100.0, 2e-3
    stiff = {} if rigid else dict(ke=1e5, kd=500.0)
    config = newton.ModelBuilder.ShapeConfig(
        mu=0.0, restitution=e, density=0.0, mu_torsional=mu, mu_rolling=mu, **stiff
    )
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    at = wp.transform(wp.vec3(0.0, 0.0, RADIUS + 0.02), wp.quat_identity())
    body = builder.add_body(xform=at, mass=mass, inertia=wp.diag(wp.vec3(moment)), lock_inertia=True)
    builder.add_shape_sphere(body, radius=RADIUS, cfg=config)
    builder.add_ground_plane(cfg=config)
    model = builder.finalize()
    solver, state, pipeline = SolverSAP(model, spin_friction=True, contact_model=law), model.state(), None
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    dof = 5 if axis == "about the normal" else 3
    velocity = np.zeros(6, np.float32)
    velocity[[2, dof]] = -1.0, spin
    state.joint_qd.assign(velocity)
    for _ in range(20):
        pipeline.collide(state, contacts, dt=dt)
        solver.step(state, state, None, contacts, dt)
    assert solver.report().healthy
    end = state.joint_qd.numpy().astype(float)
    impulse = mass * (1.0 + end[2])
    assert impulse == pytest.approx(1.0 + e, abs=0.2 if e == 0.0 else 0.05)
    assert spin - end[dof] == pytest.approx(mu * impulse / moment, rel=0.03)
