"""Motions with a known answer, through the public interface and Newton's own collision pipeline.

The formulas are those of ``docs/formulation.md``, section 8.  A point mass is a body on three prismatic axes: it
cannot turn, so the weight of its contact is exactly ``w = 1 / (sqrt(3) m)``.  Contacts follow the friction cone,
``contact_model="sap"``, unless a test says otherwise.
"""

import math

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP

G = 9.81
RADIUS = 0.05
SIGMA = 1.0e-3  # default friction_regularization
POINT_WEIGHT = 1.0 / math.sqrt(3.0)  # w m of a point mass
WITHIN_1_PERCENT = {"rel": 0.01}


def material(stiffness, relaxation, friction, gap=0.0):
    """Both bodies of every pair get the same material, so all mixing rules but Drake's sums agree."""
    return newton.ModelBuilder.ShapeConfig(
        ke=stiffness, kd=relaxation * stiffness, mu=friction, density=0.0, gap=gap, margin=0.0
    )


def tilted_builder(incline):
    """A builder whose gravity slopes by ``incline`` [rad] towards +x; the ground stays at z = 0."""
    return newton.ModelBuilder(gravity=(G * math.sin(incline), 0.0, -G * math.cos(incline)))


class Rig:
    """Model, solver and state, stepped with fresh contacts; ``q`` and ``v`` are the joint coordinates."""

    def __init__(self, builder, dt, q=None, v=None, force=None, **options):
        self.model, self.dt = builder.finalize(), dt
        self.solver = SolverSAP(self.model, **options)
        self.state, self.next, self.control = self.model.state(), self.model.state(), self.model.control()
        for array, values in ((self.state.joint_q, q), (self.state.joint_qd, v), (self.control.joint_f, force)):
            if values is not None:
                array.assign(np.array(values, np.float32))
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model) if self.model.shape_count else None
        self.contacts = self.pipeline.contacts() if self.pipeline else None

    def run(self, steps=1):
        """Step and return the rig itself."""
        for _ in range(steps):
            if self.pipeline:
                self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.next, self.control, self.contacts, self.dt)
            self.state, self.next = self.next, self.state
        return self

    @property
    def q(self):
        return self.state.joint_q.numpy().astype(float)

    @property
    def v(self):
        return self.state.joint_qd.numpy().astype(float)


def point_mass(
    dt, stiffness, relaxation, friction=0.5, mass=2.0, incline=0.0, height=0.0, v=(0, 0, 0), gap=0.0, **options
):
    """A sphere that cannot turn, at ``height`` [m] above the ground: ``q[2]`` is its gap."""
    builder = tilted_builder(incline)
    body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(1.0)), lock_inertia=True, label="mass")
    builder.add_shape_sphere(body, radius=RADIUS, cfg=material(stiffness, relaxation, friction, gap))
    axes = [newton.ModelBuilder.JointDofConfig(axis=axis) for axis in (newton.Axis.X, newton.Axis.Y, newton.Axis.Z)]
    touch = wp.transform(wp.vec3(0.0, 0.0, RADIUS), wp.quat_identity())
    builder.add_articulation([builder.add_joint_d6(-1, body, linear_axes=axes, parent_xform=touch)])
    builder.add_ground_plane(cfg=material(stiffness, relaxation, friction, gap))
    return Rig(builder, dt, q=[0.0, 0.0, height], v=v, **{"contact_model": "sap", **options})


def sled(dt, stiffness, relaxation, friction, incline, **options):
    """A free body standing on four spheres, in balance at the start."""
    builder = tilted_builder(incline)
    mass, inertia, arm = 3.0, (0.04, 0.05, 0.06), 0.2
    body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(*inertia)), lock_inertia=True, label="sled")
    for x in (-arm, arm):
        for y in (-arm, arm):
            at = wp.transform(wp.vec3(x, y, 0.0), wp.quat_identity())
            builder.add_shape_sphere(body, xform=at, radius=RADIUS, cfg=material(stiffness, relaxation, friction))
    builder.add_articulation([builder.add_joint_free(body)])
    builder.add_ground_plane(cfg=material(stiffness, relaxation, friction))
    sag = mass * G * math.cos(incline) / (4.0 * stiffness)
    rig = Rig(builder, dt, q=[0, 0, RADIUS - sag, 0, 0, 0, 1], **{"contact_model": "sap", **options})
    r = np.array([[0, RADIUS, arm], [-RADIUS, 0, -arm], [-arm, arm, 0]])  # cross matrix of a contact's lever arm
    delassus = np.eye(3) / mass + r @ np.diag(1.0 / np.array(inertia)) @ r.T
    return rig, mass, np.linalg.norm(delassus) / 3.0


def solid_ball(dt, stiffness, relaxation, friction, incline=0.0, v=(0.0, 0.0, 0.0), **options):
    """A free homogeneous sphere resting on the ground."""
    builder = tilted_builder(incline)
    body = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.4 * RADIUS**2)), lock_inertia=True, label="ball")
    builder.add_shape_sphere(body, radius=RADIUS, cfg=material(stiffness, relaxation, friction))
    builder.add_articulation([builder.add_joint_free(body)])
    builder.add_ground_plane(cfg=material(stiffness, relaxation, friction))
    sag = G * math.cos(incline) / stiffness
    return Rig(builder, dt, q=[0, 0, RADIUS - sag, 0, 0, 0, 1], v=[*v, 0, 0, 0], **{"contact_model": "sap", **options})


def slider(dt, mass=2.0, q=0.0, v=0.0, force=0.0, options=None, **joint):
    """One prismatic degree of freedom without gravity."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True, label="slider")
    if "target_ke" in joint or "target_kd" in joint:
        joint.setdefault("actuator_mode", newton.JointTargetMode.POSITION_VELOCITY)
    builder.add_articulation([builder.add_joint_prismatic(-1, body, axis=newton.Axis.X, **joint)])
    return Rig(builder, dt, q=[q], v=[v], force=[force], **(options or {}))


# Section 8.2: creep while sticking


@pytest.mark.parametrize(("weight", "w_m"), [("delassus", POINT_WEIGHT), ("body_inertia", 1.0)])
def test_point_mass_creeps_as_predicted(weight, w_m):
    """A sticking point mass creeps at sigma w m dt g sin(theta), independent of its mass and stiffness."""
    theta, dt = 0.3, 1.0e-3
    stiffness = 1.0e4
    sag = -2.0 * G * math.cos(theta) / stiffness
    rig = point_mass(dt, stiffness, 0.01, incline=theta, height=sag, contact_weight=weight).run(100)
    if weight == "body_inertia":  # the lever arm counts for a weight that is blind to the prismatic axes: I = 1 kg m^2
        w_m = 1.0 + 2.0 * (2.0 / 3.0) * RADIUS**2
    assert rig.v[0] == pytest.approx(SIGMA * w_m * dt * G * math.sin(theta), **WITHIN_1_PERCENT)


def test_equal_contacts_share_the_creep():
    """Four equal contacts creep at a quarter of one contact's speed, each with its own weight."""
    theta, dt = 0.2, 2.0e-3
    rig, mass, w = sled(dt, 1.0e5, 0.01, 0.5, theta)
    rig.run(150)
    assert rig.v[0] == pytest.approx(SIGMA * w * dt * mass * G * math.sin(theta) / 4.0, **WITHIN_1_PERCENT)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 200.0])
def test_what_sticks_to_a_turntable_creeps_outward(dt):
    """A box on a turntable goes along chords: its distance from the axis grows as exp(w^2 dt t / 2)."""
    radius, w, time = 0.5, 2.5, 1.0
    builder = newton.ModelBuilder()
    rough = newton.ModelBuilder.ShapeConfig(mu=0.5, gap=0.0)
    table = builder.add_link(is_kinematic=True)
    builder.add_shape_cylinder(table, radius=1.0, half_height=0.05, cfg=rough)
    builder.add_articulation([builder.add_joint_free(table)])
    box = builder.add_body(xform=wp.transform((radius, 0.0, 0.1)))
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, cfg=rough)
    builder.joint_qd[5] = w
    builder.joint_qd[6:12] = [0.0, w * radius, 0.0, 0.0, 0.0, w]
    model = builder.finalize()
    solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    contacts = pipeline.contacts()
    for _ in range(round(time / dt)):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)
    reached = float(np.hypot(*state.joint_q.numpy()[7:9]))
    assert reached / radius - 1.0 == pytest.approx(math.expm1(0.5 * w * w * dt * time), rel=0.02)


def test_creep_scales_with_the_regularization():
    """Ten times the regularisation is ten times the creep."""
    speeds = [
        point_mass(1e-3, 1e5, 0.005, incline=0.3, friction_regularization=sigma).run(100).v[0] for sigma in (1e-3, 1e-2)
    ]
    assert speeds[1] == pytest.approx(10.0 * speeds[0], **WITHIN_1_PERCENT)


@pytest.mark.parametrize("ratio", [0.98, 1.02])
def test_friction_angle_decides(ratio):
    """Just below the friction angle the mass holds, just above it accelerates by the difference."""
    mu, dt, steps = 0.5, 1.0e-3, 300
    theta = math.atan(ratio * mu)
    rig = point_mass(dt, 1e5, 0.002, friction=mu, incline=theta, height=-2 * G * math.cos(theta) / 1e5, gap=0.01)
    speed = rig.run(steps).v[0]
    if ratio < 1.0:
        assert 0.0 < speed < 1.0e-4
    else:
        expected = G * (math.sin(theta) - mu * math.cos(theta)) * steps * dt
        assert speed == pytest.approx(expected, rel=0.03)  # the difference of two forces fifty times larger


# Section 8.3: static penetration


@pytest.mark.parametrize("stiffness", [5.0e3, 1.0e5])
def test_penetration_of_a_compliant_contact(stiffness):
    """A soft contact sinks in by m g / k."""
    rig = point_mass(2e-3, stiffness, 0.02).run(300)
    assert rig.q[2] == pytest.approx(-2.0 * G / stiffness, rel=1e-3)
    assert abs(rig.v[2]) < 1.0e-6


@pytest.mark.parametrize(("dt", "relaxation", "beta"), [(0.01, 0.01, 1.0), (0.005, 0.02, 1.0), (0.01, 0.01, 2.0)])
def test_penetration_of_a_near_rigid_contact(dt, relaxation, beta):
    """A contact stiffer than the step resolves sinks in by dt (dt + tau) beta^2 / (4 pi^2) w m g."""
    rig = point_mass(dt, 1.0e12, relaxation, near_rigid_contact=beta).run(200)
    expected = -dt * (dt + relaxation) * beta**2 / (4.0 * math.pi**2) * POINT_WEIGHT * G
    assert rig.q[2] == pytest.approx(expected, **WITHIN_1_PERCENT)


@pytest.mark.parametrize("law", ["sap", "lagged"])
def test_penetration_of_unset_materials_has_a_bound_of_its_own(law):
    """Contacts of no chosen stiffness stay as stiff as the step resolves where those of materials have no such bound."""
    depths = []
    for beta in (0.0, 1.0):
        builder = newton.ModelBuilder()
        builder.add_ground_plane()
        builder.add_shape_sphere(builder.add_body(xform=wp.transform((0.0, 0.0, 0.1))), radius=0.1)
        rig = Rig(builder, 0.01, contact_model=law, near_rigid_contact=beta).run(100)
        depths.append(0.1 - rig.q[2])
    assert depths[0] == depths[1] and 0.0 < depths[0] < 1.0e-3


def test_contacts_in_parallel_share_the_weight():
    """Four soft contacts sink in by m g / (4 k) and stay there."""
    rig, mass, _ = sled(2e-3, 1.0e4, 0.02, 0.5, 0.0)
    rig.run(100)
    assert RADIUS - rig.q[2] == pytest.approx(mass * G / 4.0e4, rel=3e-4)
    np.testing.assert_allclose(rig.solver.report().penetration, mass * G / 4.0e4, rtol=3e-4)


@pytest.mark.parametrize("ahead", [False, True])
def test_dissipation_ahead_of_touch_brakes_from_a_distance(ahead):
    """With the option an open contact brakes towards phi0 / (dt + tau); without it only gravity acts."""
    dt, tau, stiffness, mass, height = 1.0e-3, 0.1, 1.0e4, 2.0, 0.03
    rig = point_mass(
        dt, stiffness, tau, mass=mass, height=height, v=[0, 0, -1.0], gap=0.05, dissipation_ahead_of_touch=ahead
    )
    r_n = 1.0 / (dt * stiffness * (dt + tau))
    v_star, v_hat = -1.0 - G * dt, -height / (dt + tau)
    expected = (mass * v_star + v_hat / r_n) / (mass + 1.0 / r_n) if ahead else v_star
    assert rig.run(1).v[2] == pytest.approx(expected, rel=1e-4)


# Sections 8.4 and 8.5: sliding


@pytest.mark.parametrize("relaxation", [0.0, 1.0e-3])
def test_sliding_mass_decelerates_by_mu_g(relaxation):
    """Friction takes mu times the normal impulse at all times, and mu g once the onset has died away."""
    mu, dt, steps = 0.4, 1.0e-3, 200
    rig = point_mass(dt, 1e6, relaxation, friction=mu, height=-2 * G / 1e6, v=[3.0, 0, 0], gap=0.05)
    start = rig.v
    settled = rig.run(steps).v  # the onset of sliding throws the mass up (section 8.5)
    end = rig.run(steps).v
    assert start[0] - settled[0] == pytest.approx(mu * (G * steps * dt + settled[2]), rel=1e-5)
    assert (settled[0] - end[0]) / (steps * dt) == pytest.approx(mu * G, rel=1e-4)


def test_sliding_mass_glides_at_the_predicted_gap():
    """With dissipation ahead of touch the gap is regulated to (dt + tau) (mu s - m g dt (R_n + mu^2 R_t))."""
    mu, dt, tau, mass = 0.5, 1.0e-3, 1.0e-3, 2.0
    rig = point_mass(dt, 1e12, tau, mu, mass, v=[1.0, 0, 0], gap=0.05, dissipation_ahead_of_touch=True)
    rig.run(100)
    w = POINT_WEIGHT / mass
    q_norm = w / (4.0 * math.pi**2) + mu**2 * SIGMA * w
    expected = (dt + tau) * (mu * rig.v[0] - mass * G * dt * q_norm)
    assert rig.q[2] == pytest.approx(expected, rel=0.015)  # the gap trails the falling speed by a few steps
    assert rig.v[2] == pytest.approx(-(mu**2) * G * (dt + tau), rel=0.015)


def test_onset_kick():
    """The first step of sliding throws the velocity onto the cone: gamma_n and its two consequences."""
    mu, dt, tau, mass, stiffness, speed = 0.5, 2.0e-3, 0.2, 1.0, 1.0e4, 1.0
    rig = point_mass(dt, stiffness, tau, mu, mass, height=-mass * G / stiffness, v=[speed, 0, 0]).run(1)
    w = POINT_WEIGHT / mass
    r_n = max(w / (4.0 * math.pi**2), 1.0 / (dt * stiffness * (dt + tau)))
    gamma = (mass * G * dt * (r_n + 1 / mass) + mu * speed) / (r_n + mu**2 * SIGMA * w + (1 + mu**2) / mass)
    assert speed - rig.v[0] == pytest.approx(mu * gamma / mass, rel=1e-3)
    assert rig.v[2] == pytest.approx(gamma / mass - G * dt, rel=1e-6)


def test_ball_rolls_down():
    """A rolling homogeneous ball accelerates by 5/7 g sin(theta)."""
    theta, dt, steps = 0.25, 2.0e-3, 200
    rig = solid_ball(dt, 1e5, 0.01, 0.6, theta).run(steps)
    assert rig.v[0] == pytest.approx(5.0 / 7.0 * G * math.sin(theta) * steps * dt, **WITHIN_1_PERCENT)
    assert rig.v[4] * RADIUS == pytest.approx(rig.v[0], **WITHIN_1_PERCENT)


def test_sliding_ball_ends_up_rolling():
    """Whatever the friction, a ball thrown without spin rolls at 5/7 of its speed."""
    rig = solid_ball(2e-3, 1e5, 0.005, 0.3, v=(1.0, 0, 0)).run(300)
    assert rig.v[0] == pytest.approx(5.0 / 7.0, **WITHIN_1_PERCENT)
    assert rig.v[4] * RADIUS == pytest.approx(rig.v[0], **WITHIN_1_PERCENT)


# Section 8.6: drives, limits, friction and damping of one degree of freedom


@pytest.mark.parametrize("damping", [0.0, 3.0])
@pytest.mark.parametrize("armature", [0.0, 0.7])
@pytest.mark.parametrize(("kp", "kd"), [(200.0, 10.0), (0.0, 40.0), (5.0e3, 0.0)])
def test_drive_is_implicit(kp, kd, armature, damping):
    """One step of an unsaturated drive is one step of backward Euler."""
    dt, mass, q0, v0, target, rate, force = 0.01, 2.0, 0.1, -0.4, 0.5, 0.2, 3.0
    rig = slider(
        dt, mass, q0, v0, force, target_ke=kp, target_kd=kd, target_q=target, target_qd=rate, armature=armature, damping=damping
    )  # fmt: skip
    inertia = mass + armature
    push = dt * (kp * (target - q0) + kd * rate + force)
    expected = (inertia * v0 + push) / (inertia + dt * damping + dt * (dt * kp + kd))
    assert rig.run(1).v[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("target", [-5.0, 5.0])
def test_drive_saturates_at_its_effort_limit(target):
    """However large the gain, a drive adds no more than dt e."""
    dt, mass, effort = 0.01, 2.0, 6.0
    rig = slider(dt, mass, v=0.3, target_ke=1e5, target_kd=10.0, target_q=target, effort_limit=effort).run(1)
    assert rig.v[0] == pytest.approx(0.3 + math.copysign(dt * effort / mass, target), rel=1e-5)


def test_drive_yields_to_a_load_above_its_effort_limit():
    """A saturated drive leaves the rest of the load to accelerate the mass."""
    rig = slider(0.01, 2.0, force=10.0, target_ke=1e6, target_kd=1e3, effort_limit=6.0).run(50)
    assert rig.v[0] == pytest.approx((10.0 - 6.0) / 2.0 * 0.5, rel=5e-5)


def test_drive_sags_under_load():
    """At rest a drive is off its target by load / gain."""
    rig = slider(0.01, force=8.0, target_ke=400.0, target_kd=60.0).run(400)
    assert rig.q[0] == pytest.approx(8.0 / 400.0, rel=5e-5)


def test_gain_beyond_the_step_is_bounded():
    """A gain that the step cannot resolve acts as 4 pi^2 I / (beta^2 dt (dt + tau)), tau = kd / kp."""
    dt, mass, kp, kd, load = 0.01, 2.0, 1.0e10, 1.0e8, 1.0e3
    rig = slider(dt, mass, force=load, target_ke=kp, target_kd=kd, effort_limit=1e9).run(60)
    effective = 4.0 * math.pi**2 * mass / (0.1**2 * dt * (dt + kd / kp))
    assert rig.q[0] == pytest.approx(load / effective, rel=1e-5)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_soft_limit_yields_by_load_over_stiffness(side):
    """A compliant limit gives way by F / k."""
    range_ = {"limit_lower": -1.0, "limit_upper": 0.0} if side > 0 else {"limit_lower": 0.0, "limit_upper": 1.0}
    rig = slider(0.005, force=side * 20.0, limit_ke=2.0e3, limit_kd=60.0, **range_).run(500)
    assert rig.q[0] == pytest.approx(side * 20.0 / 2.0e3, rel=1e-4)


def test_stiff_limit_is_near_rigid():
    """A limit stiffer than the step resolves gives way by dt (dt + tau) beta^2 F / (4 pi^2 I)."""
    dt, mass, load = 0.01, 2.0, 30.0
    rig = slider(dt, mass, force=load, limit_lower=-1.0, limit_upper=0.0, limit_ke=1e12, limit_kd=1e12 * dt).run(80)
    expected = 2.0 * dt**2 * 0.1**2 * load / (4.0 * math.pi**2 * mass)
    assert rig.q[0] == pytest.approx(expected, rel=1e-5)


def test_limit_does_not_brake_from_a_distance():
    """With the default options a limit out of reach of the step leaves the speed alone."""
    rig = slider(0.01, v=1.0, q=-0.5, limit_lower=-1.0, limit_upper=0.0, limit_ke=1e4, limit_kd=1e3).run(40)
    assert rig.v[0] == pytest.approx(1.0, abs=1e-6)


def test_joint_friction_holds_and_creeps():
    """Below its bound dry friction holds the load, creeping at sigma dt F / I."""
    dt, mass, load = 0.01, 2.0, 4.0
    rig = slider(dt, mass, force=load, friction=5.0).run(20)
    assert rig.v[0] == pytest.approx(SIGMA * dt * load / mass, rel=1e-5)


def test_joint_friction_opposes_motion():
    """Above its bound the difference accelerates; a coasting mass stops after I v / f."""
    assert slider(0.01, force=9.0, friction=5.0).run(50).v[0] == pytest.approx((9.0 - 5.0) / 2.0 * 0.5, rel=5e-5)
    coasting = slider(0.01, v=1.0, friction=5.0)
    assert coasting.run(39).v[0] == pytest.approx(1.0 - 0.39 * 2.5, rel=1.5e-3)
    assert abs(coasting.run(3).v[0]) < 1.0e-6


@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_velocity_limit_caps_the_speed(beta):
    """A pushed joint stops accelerating at its velocity limit, which gives way by beta^2 / (400 pi^2) dt F / I."""
    dt, mass, force = 0.01, 2.0, 40.0
    rig = slider(dt, mass, force=force, velocity_limit=0.8, options={"near_rigid_joint": beta}).run(30)
    assert rig.v[0] == pytest.approx(0.8 + beta**2 / (400.0 * math.pi**2) * dt * force / mass, rel=1e-5)


@pytest.mark.parametrize(("ke", "kd", "inertia"), [(1e3, 10.0, 1e-4), (1e4, 100.0, 0.01), (1e8, 1e5, 0.01)])
def test_velocity_limit_holds_against_any_drive(ke, kd, inertia):
    """A drive as stiff as the step resolves asks for 200 rad/s; the limit of 1 rad/s holds to one per cent of that."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    body = builder.add_link(mass=1.0, inertia=wp.mat33(inertia * np.eye(3)))
    drive = {"target_ke": ke, "target_kd": kd, "target_q": 1.0, "velocity_limit": 1.0, "effort_limit": 1e9}
    builder.add_articulation([builder.add_joint_revolute(-1, body, **drive)])
    rig = Rig(builder, 0.005)
    assert max(rig.run(1).v[0] for _ in range(20)) < 3.0
    assert rig.run(300).q[0] == pytest.approx(1.0, rel=1e-5)


def test_joint_damping_is_implicit():
    """Each step divides the speed by 1 + dt c / I."""
    rig = slider(0.01, mass=2.0, v=1.0, damping=50.0).run(10)
    assert rig.v[0] == pytest.approx((1.0 + 0.01 * 50.0 / 2.0) ** -10, rel=1e-5)


def test_joint_spring_sags_under_load():
    """A passive spring with damping rests at load / stiffness."""
    rig = slider(0.005, force=6.0, stiffness=150.0, damping=40.0).run(500)
    assert rig.q[0] == pytest.approx(6.0 / 150.0, rel=6e-4)


# Section 8.7: couplings


def test_mimic_joints_accelerate_as_one_mass():
    """A force on the leader moves leader and follower as the mass m1 + ratio^2 m2."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    masses, ratio, offset, force, dt, steps = (2.0, 1.5), -2.5, 0.1, 8.0, 0.005, 100
    joints = []
    for mass in masses:
        body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
        joints.append(builder.add_joint_prismatic(-1, body, axis=newton.Axis.X))
    builder.add_articulation(joints)
    builder.set_joint_mimic(joints[1], joints[0], coeffs=(offset, ratio))
    rig = Rig(builder, dt, q=[0.0, offset], force=[force, 0.0]).run(steps)
    expected = force / (masses[0] + ratio**2 * masses[1]) * dt * steps
    np.testing.assert_allclose(rig.v, [expected, ratio * expected], rtol=1e-3)
    assert rig.q[1] == pytest.approx(offset + ratio * rig.q[0], abs=1e-4)


def test_taut_distance_joint_is_a_pendulum():
    """A ball on a taut distance joint swings with the period of a pendulum and keeps its distance."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    length, amplitude, dt = 0.8, 0.15, 0.002
    body = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(1e-3)), lock_inertia=True, label="bob")
    joint = builder.add_joint_distance(-1, body, min_distance=-1.0, max_distance=length)
    builder.add_articulation([joint])
    start = [length * math.sin(amplitude), 0.0, -length * math.cos(amplitude), 0, 0, 0, 1]
    period = 2.0 * math.pi * math.sqrt(length / G) * (1.0 + amplitude**2 / 16.0)
    rig = Rig(builder, dt, q=start).run(round(0.25 * period / dt))
    assert abs(rig.q[0]) < 0.01 * length
    assert rig.v[0] == pytest.approx(-math.sqrt(2.0 * G * length * (1.0 - math.cos(amplitude))), rel=0.01)
    assert np.linalg.norm(rig.q[:3]) == pytest.approx(length, rel=1e-4)


# Section 8.9: momentum and free flight


def test_free_flight_is_symplectic_euler():
    """A projectile with its COM off the origin follows z0 + v t - g t^2 / 2 - g dt t / 2 and keeps its spin."""
    dt, steps, com, spin = 0.005, 100, np.array([0.05, -0.02, 0.03]), 4.0
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = builder.add_link(
        mass=1.3, inertia=wp.diag(wp.vec3(0.02)), com=wp.vec3(*com), lock_inertia=True, label="stone"
    )
    builder.add_articulation([builder.add_joint_free(body)])
    rig = Rig(builder, dt, q=[0, 0, 1, 0, 0, 0, 1], v=[1.0, 0.5, 2.0, 0, 0, spin]).run(steps)
    t = dt * steps
    half = 0.5 * spin * t
    turned = newton_rotate([0, 0, math.sin(half), math.cos(half)], com)
    expected = com + [t, 0.5 * t, 1.0 + 2.0 * t - 0.5 * G * t**2 - 0.5 * G * dt * t] - turned
    np.testing.assert_allclose(rig.q[:3], expected, atol=2e-5)
    np.testing.assert_allclose(rig.v, [1.0, 0.5, 2.0 - G * t, 0, 0, spin], atol=2e-5)


def newton_rotate(quaternion, vector):
    """Rotate a vector by an xyzw quaternion."""
    u, w = np.array(quaternion[:3]), quaternion[3]
    return vector + 2.0 * np.cross(u, np.cross(u, vector) + w * vector)


def test_collision_conserves_momentum():
    """Two balls that meet off centre exchange momentum, linear and angular, without losing any."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    masses, inertia = (1.0, 2.5), 0.4 * RADIUS**2
    for mass in masses:
        body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(mass * inertia)), lock_inertia=True)
        builder.add_shape_sphere(body, radius=RADIUS, cfg=material(1e5, 0.001, 0.5))
        builder.add_articulation([builder.add_joint_free(body)])
    start = [[0, 0, 0, 0, 0, 0, 1], [0.12, 0.04, 0.01, 0, 0, 0, 1]]
    rig = Rig(builder, 1e-3, q=np.ravel(start), v=[2.0, 0, 0, 0, 5.0, 0, -1.0, 0.3, 0, 0, 0, 0])

    def momentum():
        position, velocity = rig.q.reshape(2, 7)[:, :3], rig.v.reshape(2, 6)
        linear = np.array(masses)[:, None] * velocity[:, :3]
        angular = np.cross(position, linear) + np.array(masses)[:, None] * inertia * velocity[:, 3:]
        return np.concatenate([linear.sum(0), angular.sum(0)])

    before, first_speed = momentum(), rig.v[0]
    rig.run(60)
    assert abs(rig.v[0] - first_speed) > 0.3  # they did collide
    np.testing.assert_allclose(momentum(), before, atol=5e-6)
