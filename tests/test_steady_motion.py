"""Motions that stay as they are because forces balance velocity products: closed forms that no step may damp or feed (F 1.1)."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, material, weightless

from newton_sap import SolverSAP

LENGTH, LEAN = 0.5, 0.6
RATES = [1.0 / 60.0, 1.0 / 240.0, 1.0 / 1000.0]


def at(*place):
    return wp.transform(place, wp.quat_identity())


def boom(moment=1e-3, **elbow):
    """A mass of 1 kg on an arm that a hinge lets lean, on a turntable; ``elbow`` is what the hinge has."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    table, arm = link(builder, 0.1, 1e-3), link(builder, 1.0, moment, com=wp.vec3(0.0, 0.0, -LENGTH))
    joints = [
        builder.add_joint_revolute(-1, table, axis=newton.Axis.Z),
        builder.add_joint_revolute(table, arm, axis=newton.Axis.Y, **elbow),
    ]
    builder.add_articulation(joints)
    return builder


def turning_rate(spring=0.0):
    """Rate [rad/s] at which an arm stays at its lean, by its weight and a spring's moment [N m] inwards."""
    inertia = LENGTH**2  # its own moments are alike about all axes, so that they have no part
    weight = G * LENGTH * math.sin(LEAN)
    return math.sqrt((weight + spring) / (inertia * math.sin(LEAN) * math.cos(LEAN)))


@pytest.mark.parametrize("dt", RATES)
@pytest.mark.parametrize("stiffness", [0.0, 20.0])
def test_conical_pendulum_on_hinges(dt, stiffness):
    """Gravity and a passive spring balance what would swing the arm out."""
    rig = Rig(boom(stiffness=stiffness), dt, q=[0.0, -LEAN], v=[turning_rate(stiffness * LEAN), 0.0])
    rate = rig.v[0]
    rig.run(round(5.0 / dt))
    assert rig.q[1] == pytest.approx(-LEAN, abs=2e-4)
    assert rig.v[0] == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize("dt", RATES)
def test_conical_pendulum_on_a_ball(dt):
    """All of it turns about the vertical at a constant rate."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    arm = link(builder, 1.0, 1e-3, com=wp.vec3(0.0, 0.0, -LENGTH))
    builder.add_articulation([builder.add_joint_ball(-1, arm)])
    rate = turning_rate()
    rig = Rig(builder, dt, q=[0.0, math.sin(-LEAN / 2), 0.0, math.cos(LEAN / 2)], v=[0.0, 0.0, rate])
    for _ in range(5):
        rig.run(round(1.0 / dt))
        height = -rig.body_q[0, 2] + LENGTH * (1.0 - 2.0 * (rig.q[0] ** 2 + rig.q[1] ** 2))
        assert height == pytest.approx(LENGTH * math.cos(LEAN), abs=2e-4)
        assert rig.v == pytest.approx([0.0, 0.0, rate], abs=1e-3)


HELD = {
    "drive": dict(target_q=-LEAN, target_ke=2000.0, target_kd=50.0, effort_limit=1e6),
    "lower limit": dict(limit_lower=-LEAN, limit_upper=3.0, limit_ke=1e5, limit_kd=1e2),
    "upper limit": dict(limit_lower=-3.0, limit_upper=-LEAN, limit_ke=1e5, limit_kd=1e2),
    "dry friction": dict(friction=20.0),
}
"""What holds the arm at its lean, and how fast it may turn: beyond 4.4 rad/s it is pulled outwards."""


@pytest.mark.parametrize("dt", RATES)
@pytest.mark.parametrize(
    ("what", "rate"), [("drive", 6.0), ("lower limit", 6.0), ("upper limit", 3.0), ("dry friction", 6.0)]
)
def test_a_held_arm_coasts(what, rate, dt):
    """Nothing turns the table: angular momentum about its axis stays."""
    rig = Rig(boom(**HELD[what]), dt, q=[0.0, -LEAN], v=[rate, 0.0])

    def momentum():
        return rig.v[0] * (2e-3 + (LENGTH * math.sin(rig.q[1])) ** 2)

    before = momentum()
    assert rig.run(round(5.0 / dt)).q[1] == pytest.approx(-LEAN, abs=0.01)
    assert momentum() == pytest.approx(before, rel=6e-3)


@pytest.mark.parametrize("dt", RATES)
def test_level_gyroscope(dt):
    """A wheel on an axle that a ball joint holds at one end goes round level; damped, it would sink."""
    lever, spin, moment = 0.2, 50.0, 0.005
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    axle, wheel = link(builder, 1e-6, 1e-9), link(builder, 1.0, (moment, 0.003, 0.003))
    joints = [
        builder.add_joint_ball(-1, axle),
        builder.add_joint_revolute(axle, wheel, axis=newton.Axis.X, parent_xform=at(lever, 0.0, 0.0)),
    ]
    builder.add_articulation(joints)
    rig = Rig(builder, dt, v=[0.0, 0.0, G * lever / (moment * spin), spin])
    for _ in range(5):
        rig.run(round(1.0 / dt))
        assert rig.body_q[1, 2] == pytest.approx(0.0, abs=1e-3)
    assert rig.v[3] == pytest.approx(spin, rel=1e-5)


@pytest.mark.parametrize("dt", RATES)
@pytest.mark.parametrize("rate", [2.0, 20.0])
def test_an_unbalanced_rotor_keeps_its_rate(rate, dt):
    """Products of inertia about a hinge's axis load its bearing, not its turning."""
    builder = weightless()
    inertia = wp.mat33(0.02, 0.003, 0.004, 0.003, 0.018, -0.002, 0.004, -0.002, 0.016)
    rotor = builder.add_link(mass=1.0, inertia=inertia, lock_inertia=True, com=wp.vec3(0.1, 0.0, 0.05))
    builder.add_articulation([builder.add_joint_revolute(-1, rotor, axis=newton.Axis.Z)])
    rig = Rig(builder, dt, v=[rate])
    assert rig.run(round(5.0 / dt)).v[0] == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize("spin", [3.0, 60.0, 3600.0])
def test_wheels_turn_their_satellite_alike_at_any_spin(spin):
    """Two wheels on skew hinges of a satellite keep the energy of both for two seconds at 60 Hz, ten turns a step or none."""
    builder = weightless()
    moments = [(0.3, 0.2, 0.25), (0.003, 0.003, 0.005), (0.003, 0.003, 0.005)]
    bodies = [link(builder, mass, moment) for mass, moment in zip((5.0, 1.0, 1.0), moments, strict=True)]
    joints = [builder.add_joint_free(bodies[0])]
    for wheel, x in zip(bodies[1:], (0.2, -0.2), strict=True):
        place = wp.transform((x, 0.1, 0.0), wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, x, 0.3)), 1.0))
        joints.append(builder.add_joint_revolute(bodies[0], wheel, axis=newton.Axis.Z, parent_xform=place))
    builder.add_articulation(joints)
    rig = Rig(builder, 1.0 / 60.0, v=[0.0, 0.0, 0.0, 0.3, -0.2, 0.1, spin, -0.5 * spin])

    def energy():
        return rig.solver.report(rig.state).kinetic_energy[0]

    before = energy()
    for _ in range(4):
        rig.run(30)
        assert energy() == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize("turn", [0.1, 0.5])
def test_a_body_on_an_off_centre_ball_keeps_its_energy(turn):
    """It tumbles about the joint for 600 steps, by up to half a radian in each."""
    builder = weightless()
    body = link(builder, 5.0, (1.0, 2.0, 2.9))
    pivot = wp.transform((0.1, 0.2, 0.3), wp.quat_identity())
    builder.add_articulation([builder.add_joint_ball(-1, body, child_xform=pivot)])
    w = np.array([0.5, 0.8, -0.33])
    rig = Rig(builder, 0.01, v=100.0 * turn * w / np.linalg.norm(w))

    def energy():
        return rig.solver.report(rig.state).kinetic_energy[0]

    before = energy()
    for _ in range(6):
        rig.run(100)
        assert energy() == pytest.approx(before, rel=1e-2)


def resting_boom(rate, dt, below):
    """A boom at its lean whose end slides on smooth ground, below its turntable or above it."""
    builder = boom()
    lean = LEAN if below else math.pi - LEAN
    smooth = material(friction=0.0)
    builder.add_shape_sphere(1, xform=at(0.0, 0.0, -LENGTH), radius=0.05, cfg=smooth)
    builder.add_shape_plane(plane=(0.0, 0.0, 1.0, LENGTH * math.cos(lean) + 0.05), width=0.0, length=0.0, cfg=smooth)
    return Rig(builder, dt, q=[0.0, -lean], v=[rate, 0.0])


@pytest.mark.parametrize("dt", RATES)
@pytest.mark.parametrize(("below", "rate"), [(True, 1.0), (True, 3.0), (False, 1.0), (False, 3.0)])
def test_an_arm_that_rests_on_the_ground_coasts(below, rate, dt):
    """The ground bears the weight, and what presses on it besides: it neither falls inwards nor outwards, which would turn it."""
    rig = resting_boom(rate, dt, below)
    before = rig.run(round(0.2 / dt)).v[0]
    assert rig.run(round(3.0 / dt)).v[0] == pytest.approx(before, rel=3e-3)


@pytest.mark.parametrize("dt", RATES)
@pytest.mark.parametrize("rate", [2.0, 6.0])
def test_an_edge_runner_rolls_on(rate, dt):
    """A wheel on an axle round a post rolls on the ground, which bears it and its gyroscopic moment."""
    radius, axle = 0.2, 0.5
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    post, arm, wheel = link(builder, 1.0, 0.01), link(builder, 0.5, 0.01), link(builder, 2.0, (0.02, 0.011, 0.011))
    joints = [
        builder.add_joint_revolute(-1, post, axis=newton.Axis.Z),
        builder.add_joint_revolute(post, arm, axis=newton.Axis.Y, parent_xform=at(0.0, 0.0, radius)),
        builder.add_joint_revolute(arm, wheel, axis=newton.Axis.X, parent_xform=at(axle, 0.0, 0.0)),
    ]
    builder.add_articulation(joints)
    builder.add_shape_sphere(wheel, radius=radius, cfg=material(friction=0.8))
    builder.add_ground_plane(cfg=material(friction=0.8))
    rig = Rig(builder, dt, v=[rate, 0.0, -rate * axle / radius])
    before = rig.run(round(0.2 / dt)).v[0]
    assert rig.run(round(2.0 / dt)).v[0] == pytest.approx(before, rel=1e-3)


@pytest.mark.parametrize("dt", RATES)
def test_an_arm_that_its_ball_joint_holds_coasts(dt):
    """A limit of swing bears the weight of an arm that goes round slowly."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    SolverSAP.register_custom_attributes(builder)
    arm = link(builder, 1.0, (0.01, 0.01, 0.01), com=wp.vec3(0.0, 0.0, LENGTH))
    limits = {"sap:swing_limit": LEAN, "sap:twist_axis": wp.vec3(0.0, 0.0, 1.0)}
    builder.add_articulation([builder.add_joint_ball(-1, arm, custom_attributes=limits)])
    rate = 1.0
    rig = Rig(builder, dt, q=[0.0, math.sin(LEAN / 2), 0.0, math.cos(LEAN / 2)], v=[0.0, 0.0, rate])
    before = rig.run(round(0.2 / dt)).v[2]
    assert rig.run(round(3.0 / dt)).v[2] == pytest.approx(before, rel=0.01)
