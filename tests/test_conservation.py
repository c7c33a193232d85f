"""What a closed system keeps: momentum through contacts and couplings, the path of its COM, its energy.

Momentum is measured twice: within one step in float64, where it must balance to round-off, and over many steps in
Newton's float32 states.
"""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, material, put, weightless
from scipy.spatial.transform import Rotation

MASSES = np.array([1.0, 2.5])
MOMENTS = np.array([0.015625, 0.046875])  # exact in float32
RELATIVE = 1.0e-6


def two_free_bodies(tie, dt=0.002, **options):
    """Two floating bodies of spherical inertia, whose spin needs no gyroscopic term, thrown against each other."""
    builder = weightless()
    for mass, moment in zip(MASSES, MOMENTS, strict=True):
        link(builder, float(mass), float(moment))
    for body in range(2):
        builder.add_articulation([builder.add_joint_free(body)])
    tie(builder)
    rig = Rig(builder, dt, **options)
    poses = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.12, 0.04, 0.01, *Rotation.from_rotvec([0.1, 0.2, -0.3]).as_quat()]]
    put(rig.state.joint_q, poses)
    put(rig.state.joint_qd, [2.0, 0.1, 0.0, 0.5, 5.0, 0.3, -1.0, 0.3, 0.2, -0.4, 0.2, 1.0])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    return rig


def momentum(position, velocity):
    """Linear and angular momentum about the origin, from COM positions and ``(v, w)`` rows."""
    linear = MASSES[:, None] * velocity[:, :3]
    angular = np.cross(position, linear) + MOMENTS[:, None] * velocity[:, 3:]
    return np.concatenate([linear.sum(0), angular.sum(0)])


def scale(velocity):
    """How much momentum the two bodies have each, which the sum may cancel."""
    return (MASSES * np.linalg.norm(velocity[:, :3], axis=1)).sum()


def loop(add):
    """A tie by a loop-closing joint with frames off the COMs."""
    frames = dict(
        parent_xform=wp.transform((0.05, 0.02, 0.0), wp.quat_rpy(0.1, -0.2, 0.3)),
        child_xform=wp.transform((-0.07, -0.02, 0.0), wp.quat_rpy(-0.2, 0.1, 0.0)),
    )
    return lambda builder: add(builder, **frames)


def touch(builder):
    """A tie by contact with friction."""
    for body in range(2):
        builder.add_shape_sphere(body, radius=0.05, cfg=material(1e5, 100.0, 0.5))


Axis = newton.ModelBuilder.JointDofConfig
TIES = {
    "contact": touch,
    "ball": loop(lambda b, **k: b.add_joint_ball(0, 1, **k)),
    "weld": loop(lambda b, **k: b.add_joint_fixed(0, 1, **k)),
    "revolute": loop(lambda b, **k: b.add_joint_revolute(0, 1, axis=(0.0, 0.6, 0.8), **k)),
    "prismatic": loop(lambda b, **k: b.add_joint_prismatic(0, 1, axis=(0.0, 0.6, 0.8), **k)),
    "universal": loop(
        lambda b, **k: b.add_joint_d6(0, 1, angular_axes=[Axis(axis=newton.Axis.X), Axis(axis=newton.Axis.Y)], **k)
    ),
    "distance": loop(lambda b, **k: b.add_joint_distance(0, 1, min_distance=0.02, max_distance=0.05, **k)),
}


@pytest.mark.parametrize("tie", TIES)
def test_tie_keeps_momentum(tie):
    """Contacts and loop joints exchange momentum between two bodies, linear and angular, and make none."""
    rig = two_free_bodies(TIES[tie], dt=0.001)
    start = momentum(rig.body_q[:, :3], rig.body_qd)
    size, exchanged, worst = scale(rig.body_qd), 0.0, 0.0
    for _ in range(60):
        position = rig.body_q[:, :3]
        rig.run(1)
        inside = rig.solver.inspect()
        before, after = (v[:12].reshape(2, 6)[:, [3, 4, 5, 0, 1, 2]] for v in (inside.v0, inside.v))
        exchanged += MASSES[0] * np.linalg.norm(after[0] - before[0])
        worst = max(worst, np.abs(momentum(position, after) - momentum(position, before)).max())
    assert exchanged > 0.1 * size
    assert worst < 1e-11 * size  # one step, in float64
    end = momentum(rig.body_q[:, :3], rig.body_qd)
    assert np.abs(end - start).max() < RELATIVE * size  # sixty steps, in float32 states


@pytest.mark.parametrize("law", ["lagged", "similar"])
def test_other_contact_laws_keep_momentum(law):
    """The other contact laws act along one line as well."""
    rig = two_free_bodies(touch, dt=0.001, contact_model=law)
    start, size = momentum(rig.body_q[:, :3], rig.body_qd), scale(rig.body_qd)
    end = momentum(rig.run(60).body_q[:, :3], rig.body_qd)
    assert np.abs(end - start).max() < RELATIVE * size


def test_tree_keeps_momentum():
    """A floating chain of driven and rubbing joints drives itself nowhere."""
    builder = weightless()
    bodies = [link(builder, 1.0 + i, 0.03, com=wp.vec3(0.02, 0.0, 0.1)) for i in range(4)]
    joints = [builder.add_joint_free(bodies[0])]
    for parent, child, axis in zip(bodies, bodies[1:], ((1, 0, 0), (0, 1, 0), (0, 0.6, 0.8)), strict=False):
        at = wp.transform((0.0, 0.0, 0.2), wp.quat_identity())
        drive = dict(target_ke=8.0, target_kd=0.5, target_q=0.8, friction=0.02, limit_lower=-0.5, limit_upper=0.5)
        joints.append(builder.add_joint_revolute(parent, child, axis=axis, parent_xform=at, **drive))
    builder.add_articulation(joints)
    errors = []
    for dt in (0.002, 0.001):
        rig = Rig(builder, dt, v=[0.1, 0.2, -0.1, 0.3, -0.2, 0.4, 0, 0, 0])
        start = chain_momentum(rig)
        rig.run(round(0.4 / dt))
        drift = np.abs(chain_momentum(rig) - start)
        errors.append(drift.max())
    # Joint coordinates turn about moving axes: first order in the step.
    assert errors[0] < 1e-4
    assert errors[1] < 0.6 * errors[0]


def chain_momentum(rig):
    """Linear and angular momentum about the origin, from body states."""
    model = rig.model
    mass, com, inertia = (getattr(model, f"body_{n}").numpy().astype(float) for n in ("mass", "com", "inertia"))
    total = np.zeros(6)
    for i, (pose, twist) in enumerate(zip(rig.body_q, rig.body_qd, strict=True)):
        R = Rotation.from_quat(pose[3:])
        linear = mass[i] * twist[:3]
        spin = R.apply(inertia[i] @ R.inv().apply(twist[3:]))
        total += np.concatenate([linear, np.cross(pose[:3] + R.apply(com[i]), linear) + spin])
    return total


# Free flight

COM = np.array([0.2, -0.1, 0.15])
MOMENT = (0.5, 0.4, 0.2)


def stone(dt, velocity, spin, **options):
    """A spinning body with its COM off its origin and three different moments."""
    builder = weightless()
    body = link(builder, 2.0, MOMENT, com=wp.vec3(*COM))
    builder.add_articulation([builder.add_joint_free(body)])
    return Rig(builder, dt, q=[*-COM, 0, 0, 0, 1], v=[*velocity, *spin], **options)


def com_of(rig):
    return rig.q[:3] + Rotation.from_quat(rig.q[3:]).apply(COM)


@pytest.mark.parametrize(("update", "low", "high"), [("symplectic", 0.0, 3e-6), ("sap_euler", 0.01, 0.2)])
def test_com_of_a_spinning_body_flies_straight(update, low, high):
    """The COM leaves its line by round-off (under 3 um in 2 m); first-order Euler about the origin by centimetres."""
    dt, steps, velocity = 0.005, 400, np.array([1.0, 0.5, -0.2])
    # sap_euler reads the same public velocity: that of the COM.
    rig = stone(dt, velocity, (1.0, 6.0, 2.0), position_update=update).run(steps)
    error = np.linalg.norm(com_of(rig) - velocity * dt * steps)
    assert low <= error <= high


def energy_and_momentum(rig):
    R = Rotation.from_quat(rig.q[3:])
    L = np.array(MOMENT) * R.inv().apply(rig.v[3:])
    return 0.5 * (2.0 * rig.v[:3] @ rig.v[:3] + (L**2 / MOMENT).sum()), R.apply(L)


def test_free_tumbling_keeps_its_energy():
    """Energy and the length of the angular momentum stay; its direction errs by the order of the step."""
    worst = []
    for dt in (0.004, 0.002):
        rig = stone(dt, (0.3, 0, 0), (0.5, 3.0, 0.5))
        energy, spin = energy_and_momentum(rig)
        errors = []
        for _ in range(round(2.0 / dt / 20)):
            e, s = energy_and_momentum(rig.run(20))
            length = np.linalg.norm(spin)
            errors.append([abs(e / energy - 1.0), np.linalg.norm(s) / length - 1.0, np.linalg.norm(s - spin) / length])
        worst.append(np.abs(errors).max(axis=0))
    assert np.max(worst, axis=0)[:2] == pytest.approx(0.0, abs=2e-5)
    assert worst[1][2] < 0.6 * worst[0][2] < 0.6 * 5e-3


@pytest.mark.parametrize(("rate", "gained"), [(5.0, 1e-3), (50.0, 1e-2), (500.0, 1.11)])
def test_tumbling_at_any_rate_is_bounded(rate, gained):
    """Ten seconds at 60 Hz, up to a turn and more in each step: explicit Euler has no number left after one of them.

    At most, all momentum is about the axis of the least moment: 2.1 times the energy.
    """
    rig = stone(1.0 / 60.0, (0.0, 0.0, 0.0), (0.5 * rate, rate, 0.2 * rate))
    energy, spin = energy_and_momentum(rig)
    for _ in range(10):
        e, s = energy_and_momentum(rig.run(60))
        assert e < (1.0 + gained) * energy
        assert np.linalg.norm(s) == pytest.approx(np.linalg.norm(spin), rel=1e-5)


def test_a_flywheel_holds_its_satellite():
    """A fast wheel on a hinge neither damps nor feeds what wobbles, by one and a half radians of its own turn in a step."""
    builder = weightless()
    satellite, wheel = link(builder, 5.0, 0.1), link(builder, 1.0, (0.005, 0.005, 0.01))
    joints = [builder.add_joint_free(satellite), builder.add_joint_revolute(satellite, wheel, axis=newton.Axis.Z)]
    builder.add_articulation(joints)
    rig = Rig(builder, 0.005, v=[0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 300.0])
    for _ in range(5):
        assert np.linalg.norm(rig.run(200).v[3:5]) == pytest.approx(0.01, rel=1e-4)
    assert rig.v[6] == pytest.approx(300.0, rel=1e-4)


def test_pendulum_keeps_its_energy():
    """An undamped pendulum swings for twenty periods without losing or gaining two percent of its energy."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    rod = link(builder, 1.0, 0.02, com=wp.vec3(0.0, 0.0, -0.4))
    builder.add_articulation([builder.add_joint_revolute(-1, rod, axis=newton.Axis.Y)])
    rig = Rig(builder, 0.005, q=[1.0])
    inertia = 0.02 + 0.4**2
    period = 2 * math.pi * math.sqrt(inertia / (G * 0.4))
    energies = []
    for _ in range(round(20 * period / 0.05)):
        rig.run(10)
        energies.append(0.5 * inertia * rig.v[0] ** 2 - G * 0.4 * math.cos(rig.q[0]))
    swing = G * 0.4 * (1 - math.cos(1.0))
    assert np.abs(np.array(energies) + G * 0.4 * math.cos(1.0)).max() < 0.02 * swing


# Chains, whose velocity products feed what takes them from the start of the step

LINK, LINK_MOMENT = 0.3, (0.002, 0.008, 0.0075)


def chain_of(joint, count, **kinds):
    """Links of 1 kg that hang from each other without damping, straight out along x."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    joints = []
    for i in range(count):
        body = link(builder, 1.0, LINK_MOMENT, com=wp.vec3(0.5 * LINK, 0.0, 0.0))
        at = wp.transform((LINK if i else 0.0, 0.0, 0.0), wp.quat_identity())
        how = {name: values[i % len(values)] for name, values in kinds.items()}
        joints.append(joint(builder, i - 1, body, parent_xform=at, **how))
    builder.add_articulation(joints)
    return builder


def skew_chain():
    axes = ((0, 1, 0), (0, 0, 1), (0.6, 0.8, 0))
    return chain_of(newton.ModelBuilder.add_joint_revolute, 4, axis=axes)


def ball_chain():
    return chain_of(newton.ModelBuilder.add_joint_ball, 3)


def chain_energy(rig):
    """Kinetic and potential energy of all bodies of 1 kg."""
    total = 0.0
    for pose, twist in zip(rig.body_q, rig.body_qd, strict=True):
        R = Rotation.from_quat(pose[3:])
        w = R.inv().apply(twist[3:])
        total += 0.5 * (twist[:3] @ twist[:3] + w**2 @ LINK_MOMENT) + G * (pose[2] + R.apply([0.5 * LINK, 0, 0])[2])
    return total


@pytest.mark.parametrize("seed", [2, 3, 5])
@pytest.mark.parametrize("build", [skew_chain, ball_chain])
def test_undamped_chains_keep_most_of_their_energy(build, seed):
    """Four seconds of chaos at 120 Hz: 0.16 of the fall are gained for a moment and 0.27 lost; most of these overflow where
    products are those of the start of the step."""
    builder = build()
    v = np.random.default_rng(seed).normal(size=builder.joint_dof_count) * 3.0
    rig = Rig(builder, 1.0 / 120.0, v=v)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    start, fall = chain_energy(rig), G * LINK * (0.5 * rig.model.body_count**2)
    for _ in range(48):
        assert -0.35 * fall < chain_energy(rig.run(10)) - start < 0.2 * fall


def test_products_that_follow_their_change_are_closer():
    """Of first order, as those of the start of the step, with 0.6 of the error at most."""
    ends = {}
    for update, dt in (("symplectic", 0.004), ("symplectic", 0.002), ("sap_euler", 0.004), ("symplectic", 0.0002)):
        rig = Rig(skew_chain(), dt, v=[2.0, -3.0, 1.0, 2.0], position_update=update)
        ends[update, dt] = rig.run(round(0.4 / dt)).body_q[:, :3]
    exact = (10.0 * ends["symplectic", 0.0002] - ends["symplectic", 0.002]) / 9.0
    errors = {key: np.abs(end - exact).max() for key, end in ends.items()}
    assert errors["symplectic", 0.002] == pytest.approx(0.5 * errors["symplectic", 0.004], rel=0.1)
    assert errors["symplectic", 0.004] < 0.6 * errors["sap_euler", 0.004]


def test_a_fast_top_precesses():
    """A top of 200 rad/s on a ball joint goes round at ``m g l / (I w)`` and stays up, at a fifth of a radian per step."""
    mass, lever, moment, spin = 0.5, 0.05, 6e-4, 200.0
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    top = link(builder, mass, (4e-4, 4e-4, moment), com=wp.vec3(0.0, 0.0, lever))
    builder.add_articulation([builder.add_joint_ball(-1, top)])
    tilt = Rotation.from_rotvec([0.0, 0.3, 0.0])
    rig = Rig(builder, 0.001, q=tilt.as_quat(), v=tilt.apply([0.0, 0.0, spin]))
    azimuth = []
    for _ in range(100):
        axis = Rotation.from_quat(rig.run(10).q).apply([0.0, 0.0, 1.0])
        azimuth.append(math.atan2(axis[1], axis[0]))
        assert 0.2 < math.acos(axis[2]) < 0.4
    rate = (np.unwrap(azimuth)[-1] - azimuth[0]) / 0.99
    assert rate == pytest.approx(mass * G * lever / (moment * spin), rel=0.05)


# A closed loop over a long time

CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.5, 0.4, 0.5


def test_four_bar_stays_closed():
    """Over ten seconds a driven four-bar opens by less than the near-rigid bound of its load and its own curvature.

    A step leaves ``dt^2 sum(L w^2) / 2`` by the curvature of the links' paths, and half of all opening closes in each
    step; the load ``f`` of the closing joint opens it by ``2 dt^2 beta^2 w f / (4 pi^2)``.
    """
    dt, beta, rate = 0.002, 0.1, 2.0 * math.pi
    builder = weightless()
    bodies = [link(builder, 1.0, 0.02, com=wp.vec3(0.5 * length, 0, 0)) for length in (CRANK, COUPLER, ROCKER)]
    ends = [wp.transform((x, 0, 0), wp.quat_identity()) for x in (0.0, CRANK, COUPLER)]
    drive = dict(target_kd=50.0, target_qd=rate, actuator_mode=newton.JointTargetMode.VELOCITY)
    z = newton.Axis.Z
    joints = [builder.add_joint_revolute(-1, bodies[0], axis=z, **drive)]
    joints += [builder.add_joint_revolute(bodies[i], bodies[i + 1], axis=z, parent_xform=ends[i + 1]) for i in (0, 1)]
    builder.add_articulation(joints)
    ground = wp.transform((GROUND, 0, 0), wp.quat_identity())
    builder.add_joint_revolute(-1, bodies[2], axis=z, parent_xform=ground,
                               child_xform=wp.transform((ROCKER, 0, 0), wp.quat_identity()))  # fmt: skip
    # Crank along x: coupler and rocker form a triangle with the remaining ground.
    base = GROUND - CRANK
    apex = math.acos((base**2 + COUPLER**2 - ROCKER**2) / (2 * base * COUPLER))
    knee = math.acos((COUPLER**2 + ROCKER**2 - base**2) / (2 * COUPLER * ROCKER))
    rig = Rig(builder, dt, q=[0.0, apex, knee - math.pi], v=[0, 0, 0], near_rigid_coupling=beta)
    turned, opening, load, curvature = rig.q[0], 0.0, 0.0, 0.0
    with wp.ScopedCapture() as capture:
        rig.run(2)
    for i in range(round(10.0 / (2 * dt))):
        before = rig.body_qd
        wp.capture_launch(capture.graph)
        after = rig.body_qd
        tip = rig.body_q[2, :3] + Rotation.from_quat(rig.body_q[2, 3:]).apply([ROCKER, 0, 0])
        opening = max(opening, np.linalg.norm(tip - [GROUND, 0, 0]))
        curvature = max(curvature, after[:, 5] ** 2 @ [CRANK, COUPLER, ROCKER])
        if i > 200:  # once the crank is up to speed
            load = max(load, np.abs((after - before)[:, :3]).sum() / (2 * dt))
    assert rig.q[0] - turned == pytest.approx(rate * 10.0, rel=2e-3)
    reach, inertia = 0.5, 0.02 + 0.2**2  # no joint has a longer lever, or less inertia
    w = 3 * reach**2 / inertia
    assert opening < dt**2 * curvature + 2 * dt**2 * beta**2 * w * load / (4 * math.pi**2)
    assert rig.solver.report().healthy
