"""Trees that couplings hold follow the change of velocity that these allow (F 1.1): energies, and what must not matter."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, put
from test_closed_linkages import energy, followed, ring
from test_gradients import SAP, Recorded, arm_on_plane, compare
from test_redundant_loops import BEND, cardan_shaft

from newton_sap.multibody.gyroscopic import HELD, TIED
from newton_sap.multibody.velocity_products import FAST, SLOW

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Parallel joints:newton.NewtonWarning"),
    pytest.mark.filterwarnings("ignore:.*another joint already connects:newton.NewtonWarning"),
]


def at(*place):
    return wp.transform(place, wp.quat_identity())


def moves_of(rig):
    """How the trees of a rig follow changes of velocity."""
    return rig.solver.tree.trees.numpy()["moves"][:-1]


def total_energy(rig):
    """Kinetic energy and that of height [J]."""
    report = rig.solver.report(rig.state)
    return float(report.kinetic_energy.sum() + report.potential_energy.sum())


# Energies


def test_a_cardan_shaft_keeps_its_energy():
    """Two shafts at 30 degrees, ten radians per second, three seconds of steps of a sixth of a radian."""
    v = [10.0, 0.0, -10.0 * math.tan(BEND) * math.cos(BEND)]
    rig = Rig(cardan_shaft("revolute"), 1.0 / 60.0, v=v)
    rig.run(20)  # the rates above do not agree with the second bearing
    first = energy(rig)
    rig.run(160)
    assert energy(rig) == pytest.approx(first, rel=0.02)


@pytest.mark.parametrize("bodies", [3, 5])
def test_rings_neither_gain_nor_lose(bodies):
    """Rods on balls at some 10 rad/s, a twentieth of a radian per step; three seconds."""
    for seed in range(3):
        shares, _ = followed(ring(bodies, 10.0, seed, 240), 3.0, looks=12)
        np.testing.assert_allclose(shares, 1.0, atol=0.01)


def governor(hz, rate):
    """Two balls on arms that turn with a shaft, and lift a sleeve on it by two rods."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lean, length, top = math.radians(40.0), 0.2, 0.4
    shaft, sleeve = link(builder, 1.0, 0.01), link(builder, 0.5, 0.005)
    joints = [builder.add_joint_revolute(-1, shaft, axis=(0, 0, 1))]
    joints.append(builder.add_joint_prismatic(shaft, sleeve, axis=(0, 0, 1)))
    rods = []
    for _ in range(2):
        arm = link(builder, 0.5, 0.001, com=wp.vec3(0.0, 0.0, -length))
        rods.append(link(builder, 0.1, 0.0005, com=wp.vec3(0.0, 0.0, -0.5 * length)))
        joints.append(builder.add_joint_revolute(shaft, arm, axis=(0, 1, 0), parent_xform=at(0.0, 0.0, top)))
        joints.append(builder.add_joint_revolute(arm, rods[-1], axis=(0, 1, 0), parent_xform=at(0.0, 0.0, -length)))
    builder.add_articulation(joints)
    for rod in rods:
        builder.add_joint_revolute(sleeve, rod, axis=(0, 1, 0), child_xform=at(0.0, 0.0, -length))
    q = [0.0, top - 2.0 * length * math.cos(lean), -lean, 2.0 * lean, lean, -2.0 * lean]
    return Rig(builder, 1.0 / hz, q=q, v=[rate, 0.0, 0.0, 0.0, 0.0, 0.0])


def test_a_governor_swings_on():
    """What its arms swing with is not damped; at 60 Hz it turns by an eighth of a radian per step."""
    rig = governor(60, 8.0)
    rig.run()
    first = total_energy(rig)
    rig.run(240)
    assert total_energy(rig) == pytest.approx(first, abs=0.02)


def closed_chain(seed):
    """Four links on hinges and balls of random places, thrown, the last of which a ball joint holds where it starts."""
    random = np.random.default_rng(seed)
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    links, joints = [], []
    for i in range(4):
        links.append(link(builder, float(random.uniform(0.5, 2.0)), random.uniform(0.004, 0.007, 3)))
        frames = dict(parent_xform=at(*random.uniform(-0.2, 0.2, 3)), child_xform=at(*random.uniform(-0.15, 0.15, 3)))
        axis = random.normal(size=3)
        add = builder.add_joint_ball if i % 2 else builder.add_joint_revolute
        how = {} if i % 2 else {"axis": (axis / np.linalg.norm(axis)).tolist()}
        joints.append(add(links[i - 1] if i else -1, links[i], **frames, **how))
    builder.add_articulation(joints)
    v = 4.0 * random.normal(size=8)
    rest = Rig(builder, 1.0e-5)
    place = wp.transform(*rest.body_q[3].astype(float))
    builder.add_joint_ball(-1, links[3], parent_xform=place)
    start = Rig(builder, 1.0e-5, v=v).run()  # an instant takes what the loop does not let go
    rig = Rig(builder, 1.0 / 60.0)
    put(rig.state.joint_qd, start.v[:8])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    return rig


def test_closed_chains_at_coarse_steps():
    """Sixteen of them at some 4 rad/s per joint, two seconds at 60 Hz: none gains, some lose most and half of them less than a tenth."""
    errors = []
    for seed in range(16):
        rig = closed_chain(seed)
        first = total_energy(rig)
        scale = energy(rig) + rig.model.body_mass.numpy().sum() * G * 0.3
        rig.run(120)
        assert rig.solver.report().healthy
        errors.append((total_energy(rig) - first) / scale)
    assert np.median(np.abs(errors)) < 0.1
    assert -1.0 < min(errors) and max(errors) < 0.03


# What must not matter


def whirling(tie):
    """Three rods on balls, under a tie that is slack or does not act."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    rods = [link(builder, 1.0, (0.002, 0.003, 0.004), com=wp.vec3(0.0, 0.0, -0.1)) for _ in range(3)]
    places = [at(0.0, 0.0, -0.2) if i else at(0.0, 0.0, 0.0) for i in range(3)]
    joints = [
        builder.add_joint_ball(parent, rod, parent_xform=place)
        for parent, rod, place in zip((-1, *rods), rods, places, strict=False)
    ]
    builder.add_articulation(joints)
    v = 3.0 * np.random.default_rng(5).normal(size=9)
    if tie == "slack":
        builder.add_joint_distance(-1, rods[2], min_distance=-1.0, max_distance=5.0)
    elif tie == "off":
        builder.add_joint_ball(-1, rods[2], enabled=False)
    return Rig(builder, 1.0 / 60.0, v=v)


@pytest.mark.parametrize("tie", ["slack", "off"])
def test_what_holds_nothing_changes_nothing(tie):
    """Trees that a coupling could hold move as they do without it while it does not act."""
    free, tied = whirling(None), whirling(tie)
    assert (moves_of(tied) == int(TIED)).all() and not (moves_of(free) == int(TIED)).any()
    for rig in (free, tied):
        rig.run(20)
    np.testing.assert_allclose(tied.body_q, free.body_q, atol=2.0e-5)


def test_other_position_updates_follow_nothing():
    """As in Drake."""
    rig = Rig(cardan_shaft("ball"), 1.0 / 60.0, preset="drake")
    assert (moves_of(rig) == int(HELD)).all()


# Gradients


@pytest.mark.usefixtures("adjoints")
@pytest.mark.parametrize(("faster", "turn"), [(1.0, SLOW), (8.0, FAST)])
def test_gradients_of_an_arm_with_a_mimic_that_leans(faster, turn):
    """What is held, borne and followed, once and twice, with a coupling in every solve."""
    builder = arm_on_plane()
    builder.set_joint_mimic(2, 1, coeffs=(0.0, 0.5))
    step = Recorded(builder, None, faster * np.array([0.5, -1.0, 3.0]), **SAP)
    assert step.dt * np.linalg.norm(step.plain.state.body_qd.numpy()[:, 3:], axis=1).max() > float(turn)
    assert step.plain.solver.motion.leans.numpy()[0] == 1 and moves_of(step.plain)[0] == int(TIED)
    names = ("joint_q", "joint_qd", "body_f", "body_mass", "body_com", "body_inertia", "joint_damping", "gravity")
    assert compare(step, names, 5.0e-3, size=1.0e-4) >= 6


@pytest.mark.parametrize("tied_to", ["hand", "base"])
def test_what_holds_a_load_gives_no_momentum(tied_to):
    """A robot that floats without gravity swings an arm with a load that a loop joint holds: it moves no faster than with the load in its
    tree, and rests on the whole. Shares of trees by themselves gave it 2.5 and 13 N s."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    base = link(builder, mass=5.0)
    joints, above = [builder.add_joint_free(base)], base
    for place in (0.2, 0.4):
        arm = link(builder, inertia=0.01, com=(0.2, 0.0, 0.0))
        drive = dict(target_ke=400.0, target_kd=40.0, actuator_mode=newton.JointTargetMode.POSITION)
        joints.append(
            builder.add_joint_revolute(above, arm, axis=(0.0, 0.0, 1.0), parent_xform=at(place, 0.0, 0.0), **drive)
        )
        above = arm
    builder.add_articulation(joints)
    load = builder.add_body(xform=at(1.0, 0.0, 0.0), mass=1.0, inertia=0.002 * np.eye(3))
    holder, place = (above, 0.4) if tied_to == "hand" else (base, 1.0)
    builder.add_joint_fixed(holder, load, parent_xform=at(place, 0.0, 0.0))
    rig, momentum = Rig(builder, 1.0 / 60.0), []
    mass = rig.model.body_mass.numpy()
    for step in range(240):
        time = (step + 1) / 60.0
        angles = [0.8 * math.sin(2.0 * math.pi * time), 0.9 * math.sin(2.0 * math.pi * time / 1.3)]
        put(rig.control.joint_target_q, [0.0] * 7 + angles + [0.0] * 7)
        rig.run(1)
        momentum.append(mass @ rig.state.body_qd.numpy()[:, :3])
    assert np.linalg.norm(momentum, axis=1).max() < 0.3 and rig.solver.report().healthy
