"""Limits, drives, velocity limits and dry friction on every axis of every joint that has them."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import IDENTITY, G, Rig, link, material, put, weightless
from scipy.spatial.transform import Rotation

Axis = newton.ModelBuilder.JointDofConfig
Mode = newton.JointTargetMode
SIGMA = 1.0e-3  # default friction_regularization
DT = 0.005
AXES = (newton.Axis.X, newton.Axis.Y, newton.Axis.Z)
ANCHOR = wp.transform(wp.vec3(0.3, -0.2, 0.5), wp.quat_rpy(0.4, -0.7, 1.1))
TURNED = Rotation.from_quat([*ANCHOR.q])
"""Rotation of the parent anchor."""


def one_joint(add, q=None, v=None, force=None, mass=2.0, inertia=0.3, dt=DT, options=None):
    """A rig of one body on the joint that ``add(builder, body)`` makes, in weightlessness."""
    builder = weightless()
    body = link(builder, mass, inertia, label="body")
    builder.add_articulation([add(builder, body)])
    return Rig(builder, dt, q, v, force, **(options or {}))


def d6(linear=(), angular=(), parent_xform=ANCHOR):
    """A maker of a D6 joint."""
    return lambda builder, body: builder.add_joint_d6(
        -1, body, linear_axes=list(linear), angular_axes=list(angular), parent_xform=parent_xform
    )


def revolute(**axis):
    return lambda builder, body: builder.add_joint_revolute(-1, body, axis=(0.0, 0.6, 0.8), parent_xform=ANCHOR, **axis)


def prismatic(**axis):
    return lambda builder, body: builder.add_joint_prismatic(
        -1, body, axis=(0.0, 0.6, 0.8), parent_xform=ANCHOR, **axis
    )


def ball(parent_xform=ANCHOR, child_xform=IDENTITY, **joint):
    return lambda builder, body: builder.add_joint_ball(
        -1, body, parent_xform=parent_xform, child_xform=child_xform, **joint
    )


def single(kind, **axis):
    """A joint of one dof: revolute, prismatic, or one axis of a D6 joint."""
    if kind.startswith("d6"):
        config = Axis(axis=newton.Axis.Y, **axis)
        return d6(linear=[config]) if kind == "d6_linear" else d6(angular=[config])
    return {"revolute": revolute, "prismatic": prismatic}[kind](**axis)


KINDS = {"revolute": 0.3, "prismatic": 2.0, "d6_linear": 2.0, "d6_angular": 0.3}
"""Joints of one dof and the inertia each has in ``one_joint``."""


# Limits


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_single_limit_yields_by_load_over_stiffness(kind, side):
    """A revolute, prismatic or D6 axis rests F / k beyond its limit, on either side."""
    axis = dict(limit_lower=-0.2, limit_upper=0.3, limit_ke=2.0e3, limit_kd=60.0)
    rig = one_joint(single(kind, **axis), force=[side * 12.0]).run(500)
    assert rig.q[0] == pytest.approx((0.3 if side > 0 else -0.2) + side * 12.0 / 2.0e3, rel=1e-4)
    assert rig.solver.report().healthy


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_limits_of_every_d6_axis(side):
    """All six axes of a D6 joint rest on their own limits at once, each F / k beyond."""
    bound, stiffness = 0.1 + 0.05 * np.arange(6), 1.0e3 * (1.0 + np.arange(6))
    configs = [
        Axis(axis=AXES[i % 3], limit_lower=-bound[i], limit_upper=bound[i], limit_ke=stiffness[i], limit_kd=50.0)
        for i in range(6)
    ]
    load = side * np.array([8.0, 9.0, 10.0, 2.0, 2.5, 3.0])
    rig = one_joint(d6(configs[:3], configs[3:]), force=load).run(600)
    np.testing.assert_allclose(rig.q, side * bound + load / stiffness, rtol=2e-4)
    assert np.abs(rig.v).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_limit_brings_a_joint_back(kind):
    """A joint that starts beyond a stiff limit returns at depth / (dt + tau), the speed its relaxation time sets."""
    tau = 0.05
    rig = one_joint(single(kind, limit_lower=-0.5, limit_upper=0.1, limit_ke=1e12, limit_kd=1e12 * tau), q=[0.2])
    assert rig.run(1).v[0] == pytest.approx(-0.1 / (DT + tau), rel=1e-3)


# Drives


@pytest.mark.parametrize("mode", ["NONE", "EFFORT", "POSITION", "VELOCITY", "POSITION_VELOCITY"])
@pytest.mark.parametrize("kind", KINDS)
def test_drive_of_every_mode(kind, mode):
    """One step is backward Euler with the terms that the target mode selects."""
    kp, kd, target, rate, v0, q0, force = 150.0, 12.0, 0.4, 0.9, -0.3, 0.05, 1.5
    rig = one_joint(
        single(kind, target_ke=kp, target_kd=kd, target_q=target, target_qd=rate, actuator_mode=Mode[mode]),
        q=[q0], v=[v0], force=[force],
    )  # fmt: skip
    if "POSITION" not in mode:
        kp = 0.0
    if mode == "POSITION":
        rate = 0.0
    if mode in ("NONE", "EFFORT"):
        kd = 0.0
    inertia = KINDS[kind]
    expected = (inertia * v0 + DT * (kp * (target - q0) + kd * rate + force)) / (inertia + DT * kd + DT * DT * kp)
    assert rig.run(1).v[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_drive_is_clamped_and_joint_force_is_not(kind):
    """The effort limit bounds the drive alone; a feed-forward force comes on top."""
    drive = dict(target_ke=1e5, target_kd=10.0, target_q=5.0, effort_limit=4.0, actuator_mode=Mode.POSITION)
    rig = one_joint(single(kind, **drive), force=[7.0]).run(1)
    assert rig.v[0] == pytest.approx(DT * (4.0 + 7.0) / KINDS[kind], rel=1e-5)


def test_drives_of_every_d6_axis():
    """All six drives of a D6 joint hold their own targets."""
    target = np.array([0.1, -0.2, 0.3, 0.4, -0.3, 0.2])
    configs = [
        Axis(axis=AXES[i % 3], target_q=target[i], target_ke=500.0, target_kd=30.0, actuator_mode=Mode.POSITION)
        for i in range(6)
    ]
    rig = one_joint(d6(configs[:3], configs[3:])).run(400)
    np.testing.assert_allclose(rig.q, target, atol=1e-4)


def driven_ball(kp, kd, mode, effort=1e6, child_xform=IDENTITY, inertia=0.3, **start):
    """A ball joint with equal drives on its axes; rotated parent anchor."""
    rig = one_joint(ball(child_xform=child_xform, actuator_mode=mode), inertia=inertia, **start)
    for name, value in (("target_ke", kp), ("target_kd", kd), ("effort_limit", effort)):
        getattr(rig.model, f"joint_{name}").fill_(value)
    return rig


CHILD_ANCHORS = [IDENTITY, wp.transform(wp.vec3(), wp.quat_rpy(0.5, 0.3, -0.2))]
GOAL = Rotation.from_rotvec([0.5, -0.8, 0.6])


@pytest.mark.parametrize("child_xform", CHILD_ANCHORS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ball_drive_reaches_a_quaternion(child_xform, sign):
    """A ball joint turns its child anchor to the target, by whichever sign of the quaternion it is given."""
    rig = driven_ball(60.0, 8.0, Mode.POSITION, child_xform=child_xform)
    put(rig.control.joint_target_q, sign * GOAL.as_quat())
    rig.run(400)
    assert (Rotation.from_quat(rig.q) * GOAL.inv()).magnitude() < 1e-3
    child = Rotation.from_quat([*child_xform.q])
    body = Rotation.from_quat(rig.body_q[0, 3:])
    assert (body * (TURNED * GOAL * child.inv()).inv()).magnitude() < 1e-3


@pytest.mark.parametrize("child_xform", CHILD_ANCHORS)
def test_ball_drive_turns_at_a_rate(child_xform):
    """Velocity targets are angular velocity in the axes of the parent anchor."""
    rate = np.array([0.4, -0.7, 0.9])
    rig = driven_ball(0.0, 20.0, Mode.VELOCITY, child_xform=child_xform)
    put(rig.control.joint_target_qd, rate)
    rig.run(200)
    np.testing.assert_allclose(rig.v, rate, atol=1e-4)
    np.testing.assert_allclose(rig.body_qd[0, 3:], TURNED.apply(rate), atol=1e-4)


def test_ball_drive_first_step():
    """From rest a ball drive starts like backward Euler along the rotation vector of its error."""
    kp, kd, inertia = 40.0, 3.0, 0.3
    rig = driven_ball(kp, kd, Mode.POSITION, inertia=inertia)
    put(rig.control.joint_target_q, GOAL.as_quat())
    expected = DT * kp * GOAL.as_rotvec() / (inertia + DT * kd + DT * DT * kp)
    np.testing.assert_allclose(rig.run(1).v, expected, rtol=1e-4)


def test_ball_drive_is_clamped_per_axis():
    """The effort limit of a ball joint bounds each axis of the parent anchor."""
    rig = driven_ball(1e4, 0.0, Mode.POSITION, effort=2.0)
    put(rig.control.joint_target_q, Rotation.from_rotvec([0.9, -0.9, 1e-5]).as_quat())
    v = rig.run(1).v
    np.testing.assert_allclose(v[:2], [DT * 2.0 / 0.3, -DT * 2.0 / 0.3], rtol=1e-4)
    assert abs(v[2]) < 0.1 * v[0]


@pytest.mark.parametrize("kind", KINDS)
def test_passive_spring_acts_beside_a_drive(kind):
    """A joint spring pulls to its own rest coordinate, whatever the drive does."""
    rest = dict(stiffness=100.0, rest_q=-0.3, damping=10.0)
    drive = dict(target_ke=300.0, target_kd=20.0, target_q=0.1, actuator_mode=Mode.POSITION)
    rig = one_joint(single(kind, **rest, **drive)).run(500)
    assert rig.q[0] == pytest.approx((300.0 * 0.1 - 100.0 * 0.3) / 400.0, abs=1e-4)


def test_ball_spring_and_damping():
    """A ball spring turns to its rest orientation; passive damping alone divides each axis' rate by 1 + dt c / I."""
    rig = one_joint(ball(stiffness=30.0, damping=3.0))
    put(rig.model.joint_rest_q, GOAL.as_quat())
    rig.run(600)
    assert (Rotation.from_quat(rig.q) * GOAL.inv()).magnitude() < 1e-3
    damped = one_joint(ball(damping=6.0), v=[0.3, -0.2, 0.5]).run(10)
    np.testing.assert_allclose(damped.v, np.array([0.3, -0.2, 0.5]) * (1 + DT * 6.0 / 0.3) ** -10, rtol=1e-4)


# Velocity limits


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_velocity_limit_of_single_axes(kind, side):
    """A pushed axis runs at its velocity limit."""
    rig = one_joint(single(kind, velocity_limit=0.6), force=[side * 30.0]).run(100)
    assert rig.v[0] == pytest.approx(side * 0.6, rel=1e-3)


@pytest.mark.parametrize("joint", ["d6", "ball", "free"])
def test_velocity_limit_per_axis(joint):
    """Joints of several axes limit each axis by itself; a spherical body keeps the others unbothered."""
    add = {
        "d6": d6([Axis(axis=a) for a in AXES]),
        "ball": ball(),
        "free": lambda builder, body: builder.add_joint_free(body),
    }[joint]
    count = 6 if joint == "free" else 3
    limit, load = 0.2 + 0.1 * np.arange(count), np.full(count, 4.0)
    load[1] = 0.0
    rig = one_joint(add)
    put(rig.control.joint_f, load)
    put(rig.model.joint_velocity_limit, limit)
    v = rig.run(200).v
    expected = np.where(load > 0.0, limit, 0.0)
    np.testing.assert_allclose(v, expected, rtol=2e-3, atol=1e-5)


# Dry friction


@pytest.mark.parametrize("kind", KINDS)
def test_dry_friction_sticks_and_slips(kind):
    """Below the bound an axis creeps at sigma dt F / I; above it the difference accelerates."""
    inertia = KINDS[kind]
    stuck = one_joint(single(kind, friction=3.0), force=[2.0]).run(50)
    assert stuck.v[0] == pytest.approx(SIGMA * DT * 2.0 / inertia, rel=0.01)
    sliding = one_joint(single(kind, friction=3.0), force=[-5.0]).run(100)
    assert sliding.v[0] == pytest.approx(-2.0 / inertia * 100 * DT, rel=1e-3)


@pytest.mark.parametrize("joint", ["d6_linear", "d6_angular", "ball"])
def test_dry_friction_per_axis(joint):
    """One axis slips while the other two stick, each with its own bound."""
    add = {
        "d6_linear": d6([Axis(axis=a) for a in AXES]),
        "d6_angular": d6((), [Axis(axis=a) for a in AXES]),
        "ball": ball(),
    }[joint]
    inertia = 2.0 if joint == "d6_linear" else 0.3
    rig = one_joint(add, force=[0.5, 0.5, -0.5])
    put(rig.model.joint_friction, [1.0, 0.3, 1.0])
    rig.run(40)
    assert rig.v[1] == pytest.approx(0.2 / inertia * 40 * DT, rel=5e-5)
    assert np.abs(rig.v[[0, 2]]).max() < 0.02 * rig.v[1]


def test_dry_friction_of_a_free_joint():
    """A free body's own, along each axis of its velocity."""
    builder = weightless()
    builder.add_articulation([builder.add_joint_free(link(builder, 2.0, 0.1))])
    rig = Rig(builder, 0.005, v=[1.0, 0.5, -0.2, 1.0, 2.0, -3.0])
    rig.model.joint_friction.assign([1.0, 0.0, 2.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(rig.run(100).v, [0.75, 0.5, 0.0, 0.5, 1.0, -1.5], atol=1e-4)


def test_dry_friction_stops_a_pendulum():
    """A swinging pendulum loses its energy to friction and comes to rest off the vertical."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    rod = link(builder, 1.0, 0.01, com=wp.vec3(0.0, 0.0, -0.5), label="rod")
    builder.add_articulation([builder.add_joint_revolute(-1, rod, axis=newton.Axis.Y, friction=0.5)])
    rig = Rig(builder, DT, q=[1.2]).run(800)
    assert abs(rig.v[0]) < 1e-4
    assert 1e-3 < abs(G * 0.5 * math.sin(rig.q[0])) < 0.5


def test_armature_adds_inertia():
    """Armature slows an axis down and adds no gravity."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 2.0)
    builder.add_articulation([builder.add_joint_prismatic(-1, body, axis=newton.Axis.Z, armature=3.0)])
    assert Rig(builder, DT).run(10).v[0] == pytest.approx(-2.0 * G / 5.0 * 10 * DT, rel=1e-5)


# Restitution


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
@pytest.mark.parametrize("restitution", [0.3, 0.7, 1.0])
def test_restitution_sets_the_rebound(restitution, law):
    """A ball dropped on the ground leaves with e times the speed of its impact, whatever the contact law."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 1.0, 1e-3)
    builder.add_shape_sphere(body, radius=0.05, cfg=material(gap=0.05, restitution=restitution))
    builder.add_articulation([builder.add_joint_free(body)])
    builder.add_ground_plane(cfg=material(gap=0.05, restitution=restitution))
    rig = Rig(builder, 0.002, q=[0, 0, 0.25, 0, 0, 0, 1], contact_model=law)
    falling = 0.0
    while rig.v[2] <= 0.0:
        falling = rig.v[2]
        rig.run(1)
    assert falling == pytest.approx(-math.sqrt(2 * G * 0.2), rel=0.02)
    # The velocity that moves the ball is half a step of gravity ahead of the parabola on which it rises.
    assert rig.v[2] - 0.5 * rig.dt * G == pytest.approx(restitution * math.sqrt(2 * G * 0.2), rel=0.003)


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_restitution_between_two_bodies(restitution):
    """Two balls that meet head on part with e times their approach and keep their momentum."""
    builder = weightless()
    for mass in (1.0, 3.0):
        body = link(builder, mass, 1e-3)
        cfg = material(1e6, 2e3, gap=0.05, restitution=restitution)
        builder.add_shape_sphere(body, radius=0.05, cfg=cfg)
        builder.add_articulation([builder.add_joint_free(body)])
    rig = Rig(builder, 0.001, q=[0, 0, 0, 0, 0, 0, 1, 0.15, 0, 0, 0, 0, 0, 1], v=[2, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0])
    rig.run(80)
    one, two = rig.v[0], rig.v[6]
    assert one + 3.0 * two == pytest.approx(-1.0, abs=1e-5)
    assert two - one == pytest.approx(3.0 * restitution, abs=0.1)


def test_ball_limits_are_not_enforced():
    """Numbers in the limit arrays of a ball joint mean nothing, as for Newton's own solvers."""
    limited, free = one_joint(ball(), v=[1.0, 0.5, 0.2]), one_joint(ball(), v=[1.0, 0.5, 0.2])
    limited.model.joint_limit_lower.fill_(-0.1)
    limited.model.joint_limit_upper.fill_(0.1)
    np.testing.assert_array_equal(limited.run(100).q, free.run(100).q)
