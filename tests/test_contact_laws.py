"""The formulas of ``docs/contact_laws.md``, on a point mass under Newton's own collision pipeline.

A point mass is a ball on three prismatic axes: it cannot turn, so the weight of its contact is
``w = 1 / (sqrt(3) m)`` and every formula is exact.
"""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig

from newton_sap import SolverSAP

G = 9.81
RADIUS = 0.05
SIGMA = 1.0e-3
"""Default friction_regularization."""
STICTION = 1.0e-4
"""Stiction tolerance [m/s] of these tests."""
LAWS = ("sap", "lagged", "similar")
CLOSE = {"rel": 0.01}


class PointMass:
    """A mass over the ground; ``q[2]`` is its gap, ``v`` its velocity."""

    def __init__(
        self, law, dt, stiffness, tau=0.0, d=0.0, mu=0.5, mass=1.0, incline=0.0, height=None, v=(0.0, 0.0, 0.0), **options
    ):  # fmt: skip
        self.dt, self.mass, self.mu, self.stiffness = dt, mass, mu, stiffness
        gravity = (G * math.sin(incline), 0.0, -G * math.cos(incline))
        builder = newton.ModelBuilder(gravity=gravity)
        config = newton.ModelBuilder.ShapeConfig(mu=mu, density=0.0)
        if stiffness is not None:
            config.ke, config.kd = stiffness, tau * stiffness
        body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(1.0)), lock_inertia=True)
        builder.add_shape_sphere(body, radius=RADIUS, cfg=config)
        axes = [newton.ModelBuilder.JointDofConfig(axis=axis) for axis in (newton.Axis.X, newton.Axis.Y, newton.Axis.Z)]
        touch = wp.transform(wp.vec3(0.0, 0.0, RADIUS), wp.quat_identity())
        builder.add_articulation([builder.add_joint_d6(-1, body, linear_axes=axes, parent_xform=touch)])
        builder.add_ground_plane(cfg=config)
        self.model = builder.finalize()
        options = {"hunt_crossley_dissipation": d, "stiction_tolerance": STICTION, **options}
        self.solver = SolverSAP(self.model, contact_model=law, **options)
        if height is None:
            height = -mass * G * math.cos(incline) / stiffness
        self.state, self.spare = self.model.state(), self.model.state()
        self.state.joint_q.assign(np.array([0.0, 0.0, height], np.float32))
        self.state.joint_qd.assign(np.array(v, np.float32))
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()

    def run(self, steps=1):
        """Step, insist on convergence and return the mass itself."""
        for _ in range(steps):
            self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.spare, None, self.contacts, self.dt)
            self.state, self.spare = self.spare, self.state
        assert self.solver.report().healthy, str(self.solver.report())
        return self

    @property
    def q(self):
        return self.state.joint_q.numpy().astype(float)

    @property
    def v(self):
        return self.state.joint_qd.numpy().astype(float)

    def regularization(self, tau):
        """R_n and R_t of the SAP cone."""
        w = 1.0 / (math.sqrt(3.0) * self.mass)
        compliant = 1.0 / (self.dt * self.stiffness * (self.dt + tau))
        return max(w / (4.0 * math.pi**2), compliant), SIGMA * w


# Rest and creep


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("stiffness", "dissipation"), [(5.0e3, 50.0), (1.0e5, 0.0)])
def test_rests_at_its_weight_over_the_stiffness(law, stiffness, dissipation):
    """At rest every law sinks in by m g / k, whatever its damping."""
    mass = PointMass(law, 2e-3, stiffness, 0.02, dissipation, height=-0.9 * G / stiffness).run(300)
    assert mass.q[2] == pytest.approx(-G / stiffness, **CLOSE)
    assert abs(mass.v[2]) < 1.0e-5


def test_similar_bounds_its_stiffness():
    """Whatever the stiffness, a mass under similar rests no less deep than in a contact of period near_rigid_joint dt."""
    dt, beta = 0.01, 0.5
    bound = G / math.sqrt(3.0) * (beta * dt / (2.0 * math.pi)) ** 2  # w m = 1 / sqrt(3)
    mass = PointMass("similar", dt, 1e12, height=0.0, near_rigid_joint=beta).run(100)
    assert mass.q[2] == pytest.approx(-bound, **CLOSE)
    loose = PointMass("similar", dt, 1e3, height=-G / 1e3, near_rigid_joint=beta).run(100)
    assert loose.q[2] == pytest.approx(-G / 1e3, **CLOSE)


@pytest.mark.parametrize("law", ["lagged", "similar"])
@pytest.mark.parametrize(("dt", "beta"), [(1e-3, 0.1), (1.0 / 60.0, 0.1), (0.01, 1.0)])
def test_default_materials_rest_at_a_measurable_depth(law, dt, beta):
    """A pair nobody gave a material is w m g / min((2 pi / (beta dt))^2, 10^6 / s^2) deep."""
    mass = PointMass(law, dt, None, d=50.0, mass=3.0, height=0.0, near_rigid_joint=beta).run(200)
    depth = G / math.sqrt(3.0) / min(2.0 * math.pi / (beta * dt), 1000.0) ** 2
    assert mass.q[2] == pytest.approx(-depth, **CLOSE)


@pytest.mark.parametrize("law", ["lagged", "similar"])
def test_soft_contacts_settle_within_depth_times_dissipation(law):
    """A small error of the depth x at rest decays like exp(-t / (d x))."""
    dt, stiffness, d = 1e-3, 2.5e3, 50.0
    depth = G / stiffness
    mass = PointMass(law, dt, stiffness, d=d, height=-0.99 * depth).run(20)  # the spring's own oscillation dies at once
    before = mass.q[2] + depth
    after = mass.run(100).q[2] + depth
    assert after / before == pytest.approx(math.exp(-100 * dt / (d * depth)), rel=0.05)


def test_kd_is_read_by_the_cone_only():
    """``kd`` changes an impact under sap, and no bit of it under the others."""
    ends = {law: [PointMass(law, 1e-3, 1e4, tau, 5.0, height=1e-3, v=(0.3, 0.0, -1.0)).run(30).v for tau in (0.0, 0.1)]
            for law in LAWS}  # fmt: skip
    assert abs(ends["sap"][0][2] - ends["sap"][1][2]) > 0.1
    for law in ("lagged", "similar"):
        np.testing.assert_array_equal(*ends[law])


@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_creep_of_the_cone(tau):
    """SAP creeps at sigma w m dt g sin(theta): in proportion to the load, at any relaxation time."""
    theta, dt = 0.3, 1.0e-3
    mass = PointMass("sap", dt, 1e4, tau, incline=theta).run(100)
    assert mass.v[0] == pytest.approx(SIGMA / math.sqrt(3.0) * dt * G * math.sin(theta), **CLOSE)


@pytest.mark.parametrize("law", ["lagged", "similar"])
@pytest.mark.parametrize(("tolerance", "dt"), [(1e-4, 1e-3), (1e-6, 1.0 / 60.0), (3e-6, 1.0 / 60.0)])
@pytest.mark.parametrize(("friction_bound", "bound"), [("solved", 30.0), ("start", math.inf)])
def test_creep_of_the_smoothed_laws(law, tolerance, dt, friction_bound, bound):
    """The others creep at eps r / sqrt(1 - r^2), r = tan(theta) / mu, with eps at least the cone's largest creep, to a limit."""
    theta, mu = 0.3, 0.5
    mass = PointMass(
        law, dt, 1e4, d=5.0, mu=mu, incline=theta, stiction_tolerance=tolerance, friction_bound=friction_bound
    ).run(200)
    scale = max(tolerance, min(mu * SIGMA / math.sqrt(3.0) * G * math.cos(theta) * dt, bound * tolerance))
    r = math.tan(theta) / mu
    assert mass.v[0] == pytest.approx(scale * r / math.sqrt(1.0 - r * r), **CLOSE)


# The first step of sliding


@pytest.mark.parametrize(("dt", "tau"), [(1e-3, 0.0), (1e-3, 0.2), (1.0 / 240.0, 0.04)])
@pytest.mark.parametrize("stiffness", [1e4, 1e6])
def test_kick_of_the_cone(dt, tau, stiffness):
    """SAP throws a mass that starts to slide off the ground, by the normal impulse of the formula."""
    mu, speed = 0.5, 1.0
    mass = PointMass("sap", dt, stiffness, tau, mu=mu, v=(speed, 0.0, 0.0))
    R_n, R_t = mass.regularization(tau)
    v_hat = G / stiffness / (dt + tau)
    gamma = (v_hat + G * dt + mu * speed) / (R_n + mu**2 * R_t + 1.0 + mu**2)
    mass.run(1)
    assert speed - mass.v[0] == pytest.approx(mu * gamma, rel=1e-5)
    assert mass.v[2] == pytest.approx(gamma - G * dt, rel=1e-3)


def test_rigid_kick_does_not_vanish_with_the_step():
    """However small the step, a stiff contact under SAP takes mu^2 / (1 + mu^2) of the speed at once."""
    mu = 0.5
    for dt in (1e-2, 1e-3, 1e-4):
        mass = PointMass("sap", dt, 1e12, 0.0, mu=mu, height=0.0, v=(1.0, 0.0, 0.0)).run(1)
        assert mass.v[0] == pytest.approx(1.0 / (1.0 + mu**2), rel=0.05)
        assert mass.v[2] == pytest.approx(mu * mass.v[0], rel=0.05)


@pytest.mark.parametrize(("d", "stiffness"), [(0.0, 1e6), (5.0, 1e4), (50.0, 1e6)])
def test_lagged_does_not_kick(d, stiffness):
    """Under lagged the first step takes mu g dt and nothing more, and the mass stays down."""
    mu, dt = 0.5, 1.0 / 240.0
    mass = PointMass("lagged", dt, stiffness, d=d, mu=mu, v=(1.0, 0.0, 0.0)).run(1)
    assert 1.0 - mass.v[0] == pytest.approx(mu * G * dt, rel=2e-3)
    rest = -G / stiffness
    for _ in range(10):
        mass.run(3)
        assert mass.q[2] == pytest.approx(rest, rel=0.02)
        assert abs(mass.v[2]) < 1e-5


def test_similar_kicks():
    """Similar couples normal and friction as the cone does, and kicks as the cone does without dissipation."""
    dt, v = 1e-3, (1.0, 0.0, 0.0)
    similar = PointMass("similar", dt, 1e4, v=v).run(1)
    cone = PointMass("sap", dt, 1e4, v=v).run(1)
    np.testing.assert_allclose(similar.v[[0, 2]], cone.v[[0, 2]], rtol=2e-3)
    assert cone.v[2] > 5.0 * 0.5 * G * dt * dt


# Steady sliding


@pytest.mark.parametrize(("stiffness", "tau", "ahead"), [(1e12, 0.0, False), (1e12, 1e-3, True), (1e5, 0.0, False)])
def test_gliding_gap_of_the_cone(stiffness, tau, ahead):
    """Under SAP a sliding mass glides at (dt + tau) (mu s - m g dt (R_n + mu^2 R_t))."""
    mu, dt, weight = 0.3, 1e-3, 2.0
    options = {"dissipation_ahead_of_touch": ahead}
    mass = PointMass("sap", dt, stiffness, tau, mu=mu, mass=weight, v=(2.0, 0.0, 0.0), **options).run(250)
    R_n, R_t = mass.regularization(tau)
    s = mass.v[0]
    assert mass.q[2] == pytest.approx((dt + tau) * (mu * s - weight * G * dt * (R_n + mu**2 * R_t)), rel=0.02)


def test_dissipation_ahead_of_touch_decides_how_high_it_glides():
    """Without dissipation ahead of touch the gap is dt mu s; with it, the relaxation time adds to dt."""
    mu, dt, tau = 0.3, 1e-3, 0.02
    start = {"height": 0.0, "v": (2.0, 0.0, 0.0), "mu": mu}
    low = PointMass("sap", dt, 1e12, tau, **start).run(300)
    high = PointMass("sap", dt, 1e12, tau, dissipation_ahead_of_touch=True, **start).run(300)
    assert low.q[2] == pytest.approx(dt * mu * low.v[0], rel=0.01)
    # The high one still comes down as its speed falls, one relaxation time late.
    assert high.q[2] == pytest.approx((dt + tau) * mu * (high.v[0] + mu * G * (dt + tau)), rel=0.03)
    assert high.q[2] > 10.0 * low.q[2]


@pytest.mark.parametrize("d", [5.0, 50.0])
def test_gliding_gap_of_similar(d):
    """Under similar a sliding mass rides at dt mu s - m g / (k (1 + d mu s)); under lagged it stays at -m g / k."""
    mu, dt, k = 0.3, 1e-3, 1e4
    similar = PointMass("similar", dt, k, d=d, mu=mu, v=(2.0, 0.0, 0.0)).run(300)
    slip = mu * similar.v[0]
    assert slip > 0.2
    assert similar.q[2] == pytest.approx(dt * slip - G / (k * (1.0 + d * slip)), abs=0.01 * G / k)
    lagged = PointMass("lagged", dt, k, d=d, mu=mu, v=(2.0, 0.0, 0.0)).run(100)
    assert lagged.q[2] == pytest.approx(-G / k, **CLOSE)


@pytest.mark.parametrize(("mu", "stiffness"), [(0.3, 1e4), (0.7, 1e6)])
def test_stopping_distance_under_lagged(mu, stiffness):
    """Under lagged a sliding mass stops after v0^2 / (2 mu g)."""
    speed, dt = 1.0, 1e-3
    mass = PointMass("lagged", dt, stiffness, d=20.0, mu=mu, v=(speed, 0.0, 0.0))
    mass.run(round(speed / (mu * G) / dt) + 50)
    assert mass.q[0] == pytest.approx(speed**2 / (2.0 * mu * G), **CLOSE)
    assert abs(mass.v[0]) < 1e-6


# Impacts


@pytest.mark.parametrize("bound", ["solved", "start"])
def test_lagged_friction_of_an_impact_is_whole(bound):
    """Over an impact friction is mu times the normal impulse; from the start of the step it begins a step late."""
    mu, dt = 0.2, 1.0 / 240.0
    mass = PointMass("lagged", dt, 1e5, mu=mu, height=0.5 * dt, v=(2.0, 0.0, -1.0), friction_bound=bound).run(1)
    assert mass.v[2] > -0.9
    first = 0.0 if bound == "start" else mu * (mass.v[2] + 1.0 + G * dt)
    assert 2.0 - mass.v[0] == pytest.approx(first, rel=5e-5, abs=1e-6)
    steps = 30
    mass.run(steps)
    impulse = mass.v[2] + 1.0 + G * dt * (steps + 1)
    assert 2.0 - mass.v[0] == pytest.approx(mu * impulse, rel=0.05)


@pytest.mark.parametrize("law", LAWS)
def test_default_materials_do_not_bounce(law):
    """A pair nobody gave a material is dead-beat under every law."""
    mass = PointMass(law, 1.0 / 240.0, None, d=50.0, height=0.01, v=(0.0, 0.0, -1.0)).run(12)
    heights = [mass.run(1).q[2] for _ in range(20)]
    assert max(heights) < 1e-4
    assert min(heights) > -1e-4


def test_hunt_crossley_damps_the_rebound():
    """Both Hunt & Crossley laws lose more the larger d; a normal impact does not tell them apart."""
    rebounds = {}
    for law in ("lagged", "similar"):
        start = {"mu": 0.0, "height": 1e-4, "v": (0.0, 0.0, -1.0)}
        rebounds[law] = [PointMass(law, 1e-3, 1e4, d=x, **start).run(60).v[2] for x in (0.0, 10.0)]
    np.testing.assert_allclose(rebounds["lagged"], rebounds["similar"], rtol=1e-4)
    elastic, damped = rebounds["lagged"]
    assert 0.01 < damped < elastic < 1.0


# Every step converges


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("stiffness", "dt"), [(1e2, 1e-3), (1e5, 1.0 / 60.0), (1e9, 1e-3)])
def test_every_step_converges(law, stiffness, dt):
    """Fast oblique impacts from soft to hard converge in every step and never gain energy."""
    for d in (0.0, 50.0):
        start = {"height": 0.3 * dt, "v": (4.0, 1.0, -5.0), "incline": 0.2, "mu": 0.8}
        mass = PointMass(law, dt, stiffness, dt, d, **start)
        energy = 0.5 * float(mass.v @ mass.v)
        for _ in range(40):
            mass.run(1)
            lost = G * (math.sin(0.2) * mass.q[0] - math.cos(0.2) * (mass.q[2] - 0.3 * dt))
            assert 0.5 * float(mass.v @ mass.v) - lost <= energy * (1.0 + 1e-5)
        assert mass.solver.report().iterations_max.max() < 30


def concentric_spheres():
    """Three spheres at one point, each on a hinge of the one before; the first and the last overlap and may collide."""
    builder = newton.ModelBuilder()
    joints, above = [], -1
    for _ in range(3):
        link = builder.add_link()
        builder.add_shape_sphere(link, radius=0.1)
        joints.append(builder.add_joint_revolute(above, link, axis=(0.0, 0.0, 1.0)))
        above = link
    builder.add_articulation(joints)
    return builder.finalize()


@pytest.mark.parametrize("law", LAWS)
def test_default_materials_do_not_throw_what_touches_at_its_axis(law):
    """No mass is behind a contact there but ten times what hangs together with the bodies."""
    model = concentric_spheres()
    solver, state, control = SolverSAP(model, contact_model=law), model.state(), model.control()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    control.joint_f.assign([0.07, 0.13, 0.2])
    pipeline = newton.CollisionPipeline(model)
    contacts, fastest = pipeline.contacts(), 0.0
    for _ in range(60):
        pipeline.collide(state, contacts)
        assert contacts.rigid_contact_count.numpy()[0] == 1
        solver.step(state, state, control, contacts, 0.005)
        fastest = max(fastest, np.abs(state.joint_qd.numpy()).max())
        w = solver.pool.R_t.numpy()[0] / solver.options.friction_regularization
        assert w >= 0.999999 / (10.0 * model.body_mass.numpy().sum())
    np.testing.assert_allclose(w * 10.0 * model.body_mass.numpy().sum(), 1.0, rtol=1e-5)
    assert 1.0 < fastest < 50.0
    assert solver.report().healthy


@pytest.mark.parametrize("law, d", [("lagged", 5.0), ("lagged", 25.0), ("similar", 25.0), ("sap", 25.0)])
def test_what_turns_presses_its_load_into_walls(law, d):
    """A box between walls that turn goes along chords, r w^2 dt / 2 into the outer one, which gives back 1 / d, or a tenth of the
    depth per step if that is more."""
    radius, w, dt, steps = 0.45, 5.0, 1.0 / 60.0, 30
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    smooth = newton.ModelBuilder.ShapeConfig(mu=0.0)
    rotor = builder.add_link(is_kinematic=True, mass=1.0, inertia=wp.diag(wp.vec3(1.0)), lock_inertia=True)
    smooth.density = 0.0
    builder.add_shape_box(rotor, xform=wp.transform((radius + 0.15, 0.0, 0.0)), hx=0.1, hy=0.3, hz=0.1, cfg=smooth)
    for side in (-0.16, 0.16):
        builder.add_shape_box(rotor, xform=wp.transform((0.4, side, 0.0)), hx=0.1, hy=0.1, hz=0.1, cfg=smooth)
    builder.add_articulation([builder.add_joint_free(rotor)])
    smooth.density = 1000.0
    box = builder.add_body(xform=wp.transform((radius, 0.0, 0.0)))
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, cfg=smooth)
    builder.joint_qd[5] = w
    builder.joint_qd[6:12] = [0.0, w * radius, 0.0, 0.0, 0.0, w]
    model = builder.finalize()
    solver = SolverSAP(model, contact_model=law, hunt_crossley_dissipation=d)
    pipeline, state = newton.CollisionPipeline(model), model.state()
    contacts, q = pipeline.contacts(), state.joint_q.numpy()
    for step in range(steps):
        q = state.joint_q.numpy()
        q[3:7] = [0.0, 0.0, math.sin(0.5 * w * step * dt), math.cos(0.5 * w * step * dt)]
        state.joint_q.assign(q)
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)
    turned = w * steps * dt
    depth = float(state.joint_q.numpy()[7:9] @ [math.cos(turned), math.sin(turned)]) - radius
    lost = 0.5 * radius * w * w * dt
    if law == "sap" or lost < 1.0 / d:
        assert 0.0 < depth < 4.0e-3
    else:
        assert depth == pytest.approx(10.0 * dt * lost, rel=0.1)


@pytest.mark.parametrize("law", ["lagged", "similar"])
def test_plates_that_wobble_do_not_sink(law):
    """Plates of 20 cm that are thrown wobble on the ground at 60 Hz, at up to 9 rad/s, without sinking ever deeper into it."""
    builder, rng = newton.ModelBuilder(), np.random.default_rng(0)
    for i in range(12):
        axes = rng.normal(size=4)
        at = wp.transform((2.0 * (i % 4), 2.0 * (i // 4), 0.5), wp.quat(*axes / np.linalg.norm(axes)))
        builder.add_shape_cylinder(builder.add_body(xform=at), radius=0.2, half_height=0.02)
    builder.add_ground_plane()
    builder.joint_qd[:] = (rng.normal(size=(12, 6)) * [1.0, 1.0, 1.0, 8.0, 8.0, 8.0]).ravel().tolist()
    rig, depths = Rig(builder, 1.0 / 60.0, contact_model=law), []
    for _ in range(150):
        rig.run(1)
        depths.append(rig.solver.report().penetration.max())
    assert max(depths) < 0.05
    assert rig.solver.report().healthy


def test_what_is_deep_comes_out_without_a_hop():
    """A box that starts 9 cm in the ground comes out in a second and rises no higher; its own ``d`` is kept where it has a stiffness."""
    highest = {}
    for ke in (None, 1e5):
        builder = newton.ModelBuilder()
        cfg = newton.ModelBuilder.ShapeConfig() if ke is None else newton.ModelBuilder.ShapeConfig(ke=ke)
        builder.add_shape_box(builder.add_body(xform=wp.transform((0.0, 0.0, 0.01))), hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
        builder.add_ground_plane(cfg=cfg)
        rig = Rig(builder, 1.0 / 60.0)
        highest[ke] = max(rig.run(1).body_q[0, 2] for _ in range(60))
    assert highest[None] == pytest.approx(0.1, abs=1e-4)
    assert highest[1e5] == pytest.approx(0.01 + 60.0 / 60.0 * 0.04, rel=0.05)


@pytest.mark.parametrize("law", ["lagged", "similar"])
@pytest.mark.parametrize("dt", [1.0 / 240.0, 1.0 / 1000.0, 1.0 / 2000.0])
def test_short_steps_throw_nothing_out(law, dt):
    """Of two boxes that start 3 cm and 9 cm in the ground the first does not hop, and the second leaves at the same speed whatever the step."""
    builder, depths = newton.ModelBuilder(), np.array([0.03, 0.09])
    for i, depth in enumerate(depths):
        builder.add_shape_box(
            builder.add_body(xform=wp.transform((float(i), 0.0, 0.1 - depth))), hx=0.1, hy=0.1, hz=0.1
        )
    builder.add_ground_plane()
    rig, highest, fastest = Rig(builder, dt, contact_model=law), 0.0, 0.0
    for _ in range(round(0.25 / dt)):
        rig.run(1)
        highest, fastest = np.maximum(highest, rig.body_q[:, 2]), np.maximum(fastest, rig.body_qd[:, 2])
    assert highest[0] < 0.1 + 1e-4
    assert fastest == pytest.approx(depths / 0.05, rel=0.02)


@pytest.mark.parametrize("law", ["lagged", "similar"])
def test_a_heavy_load_does_not_creep(law):
    """A thousand times the mass of the box that it stands on, on a slope of 15 degrees at 60 Hz: 33 mm/s without a limit."""
    slope = math.radians(15.0)
    builder = newton.ModelBuilder(gravity=(G * math.sin(slope), 0.0, -G * math.cos(slope)))
    builder.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(mu=0.6))
    for height, half, mass in ((0.05, (0.2, 0.2, 0.05), 1.6), (0.2, (0.1, 0.1, 0.1), 1600.0)):
        body = builder.add_body(xform=wp.transform((0.0, 0.0, height), wp.quat_identity()))
        density = mass / (8.0 * half[0] * half[1] * half[2])
        shape = newton.ModelBuilder.ShapeConfig(mu=0.6, density=density)
        builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], cfg=shape)
    rig = Rig(builder, 1.0 / 60.0, contact_model=law).run(60)
    start = rig.body_q[:, 0]
    rig.run(60)
    assert (np.abs(rig.body_q[:, 0] - start) < 1.5e-3).all()
