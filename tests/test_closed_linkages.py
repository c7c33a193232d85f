"""Linkages that loops close, over seconds: what they keep of their energy, and how far they open."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, put, weightless
from scipy.spatial.transform import Rotation

Z = (0.0, 0.0, 1.0)
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Parallel joints:newton.NewtonWarning"),
    pytest.mark.filterwarnings("ignore:.*another joint already connects:newton.NewtonWarning"),
]


def at(x=0.0, y=0.0, z=0.0, axis=Z, angle=0.0):
    """A frame that is shifted, and turned about an axis."""
    return wp.transform(wp.vec3(x, y, z), wp.quat_from_axis_angle(wp.vec3(*axis), angle))


def energy(rig):
    """Kinetic energy [J]."""
    return float(rig.solver.report(rig.state).kinetic_energy.sum())


def opening(rig):
    """The farthest that two anchors are apart of what closes a loop without sliding [m]."""
    model, poses = rig.model, rig.body_q
    loops = (model.joint_articulation.numpy() < 0) & (model.joint_type.numpy() != int(newton.JointType.PRISMATIC))

    def anchor(body, frame):
        return poses[body, :3] + Rotation.from_quat(poses[body, 3:]).apply(frame) if body >= 0 else frame

    apart = [
        np.linalg.norm(
            anchor(model.joint_parent.numpy()[j], model.joint_X_p.numpy()[j, :3])
            - anchor(model.joint_child.numpy()[j], model.joint_X_c.numpy()[j, :3])
        )
        for j in np.flatnonzero(loops)
    ]
    return max(apart)


def followed(rig, seconds, looks=60):
    """Run, and return the shares of the energy and the openings at so many moments."""
    first, shares, gaps = energy(rig), [], []
    steps = round(seconds / (looks * rig.dt))
    for _ in range(looks):
        rig.run(steps)
        shares.append(energy(rig) / first)
        gaps.append(opening(rig))
    assert rig.solver.report().healthy
    return np.array(shares), np.array(gaps)


# Linkages

SHORT, LONG, TWIST = 0.3, 0.4, math.radians(40.0)
OTHER_TWIST = math.asin(math.sin(TWIST) * LONG / SHORT)


def bennett(hz):
    """Four hinges in space that leave one motion: five directions hold what two would. The ground is a long side."""
    builder = weightless()
    sides = [(SHORT, TWIST), (LONG, OTHER_TWIST), (SHORT, TWIST), (LONG, OTHER_TWIST)]
    ends = [at(length, axis=(1.0, 0.0, 0.0), angle=twist) for length, twist in sides]
    bodies = [link(builder, 1.0, (0.002, 0.01, 0.01), com=wp.vec3(0.5 * length, 0.0, 0.0)) for length, _ in sides[:3]]
    joints = [
        builder.add_joint_revolute(parent, body, axis=Z, parent_xform=place)
        for parent, body, place in zip((-1, *bodies), bodies, (at(), *ends), strict=False)
    ]
    builder.add_articulation(joints)
    builder.add_joint_revolute(-1, bodies[2], axis=Z, parent_xform=wp.transform_inverse(ends[3]), child_xform=ends[2])
    first, rate = 1.0, 4.0
    ratio = math.sin(0.5 * (OTHER_TWIST + TWIST)) / math.sin(0.5 * (OTHER_TWIST - TWIST))
    second = 2.0 * math.atan(ratio / math.tan(0.5 * first))
    follows = -rate * math.sin(second) / math.sin(first)
    return Rig(builder, 1.0 / hz, q=[first, second, 2.0 * math.pi - first], v=[rate, follows, -rate])


CRANK, ROD = 0.1, 0.3


def slider_crank(hz):
    """Three free bodies, all of whose joints close loops."""
    builder = weightless()
    angle, rate = 0.5, 6.0
    lean = -math.asin(CRANK * math.sin(angle) / ROD)
    lean_rate = -CRANK * math.cos(angle) * rate / (ROD * math.cos(lean))
    pin = np.array([CRANK * math.cos(angle), CRANK * math.sin(angle), 0.0])
    reach = pin[0] + ROD * math.cos(lean)
    crank = link(builder, 1.0, 0.003, com=wp.vec3(0.5 * CRANK, 0.0, 0.0))
    rod = link(builder, 0.5, 0.004, com=wp.vec3(0.5 * ROD, 0.0, 0.0))
    slider = link(builder, 0.7, 0.01)
    for body, pose in ((crank, at(angle=angle)), (rod, at(*pin, angle=lean)), (slider, at(reach))):
        builder.add_articulation([builder.add_joint_free(body)])
        builder.joint_q[-7:] = list(pose)
    builder.add_joint_revolute(-1, crank, axis=Z)
    builder.add_joint_revolute(crank, rod, axis=Z, parent_xform=at(CRANK))
    builder.add_joint_prismatic(-1, slider, axis=(1.0, 0.0, 0.0))
    builder.add_joint_revolute(rod, slider, axis=Z, parent_xform=at(ROD))
    half = 0.5 * ROD * np.array([math.cos(lean), math.sin(lean), 0.0])
    spin, lean_spin = np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, lean_rate])
    v = [*np.cross(spin, 0.5 * pin), *spin, *(np.cross(spin, pin) + np.cross(lean_spin, half)), *lean_spin]
    v += [(np.cross(spin, pin) + np.cross(lean_spin, 2.0 * half))[0], 0.0, 0.0, 0.0, 0.0, 0.0]
    return Rig(builder, 1.0 / hz, v=v)


def tied_shafts(hz):
    """Two shafts that spin on hinges of a body that tumbles, and are tied end to end, all by loop joints."""
    builder = weightless()
    places = (0.2, -0.2)
    body, *shafts = [link(builder, 2.0, (0.08, 0.09, 0.1))] + [link(builder, 1.0, (0.02, 0.04, 0.04)) for _ in places]
    tumble = np.array([1.0, 3.0, -2.0])
    v = [0.0, 0.0, 0.0, *tumble]
    builder.add_articulation([builder.add_joint_free(body)])
    for shaft, x in zip(shafts, places, strict=True):
        builder.add_articulation([builder.add_joint_free(shaft)])
        builder.joint_q[-7:] = list(at(x))
        v += [*np.cross(tumble, [x, 0.0, 0.0]), *(tumble + [20.0, 0.0, 0.0])]
    for shaft, x in zip(shafts, places, strict=True):
        builder.add_joint_revolute(body, shaft, axis=(1.0, 0.0, 0.0), parent_xform=at(x))
    builder.add_joint_fixed(*shafts, parent_xform=at(-0.2), child_xform=at(0.2))
    return Rig(builder, 1.0 / hz, v=v)


def ring(bodies, speed, seed, hz):
    """Rods that ball joints close to a ring, at random spins."""
    builder = weightless()
    far = 0.15 / math.tan(math.pi / bodies)
    for i in range(bodies):
        angle = 2.0 * math.pi * i / bodies
        builder.add_articulation([builder.add_joint_free(link(builder, 1.0, (0.005, 0.008, 0.01)))])
        builder.joint_q[-7:] = list(at(far * math.cos(angle), far * math.sin(angle), angle=angle + 0.5 * math.pi))
    for i in range(bodies):
        builder.add_joint_ball(i, (i + 1) % bodies, parent_xform=at(0.15), child_xform=at(-0.15))
    v = speed * np.random.default_rng(seed).normal(size=(bodies, 6)) * np.repeat([0.1, 1.0], 3)
    # An instant takes what the ring does not let go.
    start = Rig(builder, 1.0e-5, v=v).run()
    rig = Rig(builder, 1.0 / hz)
    put(rig.state.joint_qd, start.v[: 6 * bodies])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    return rig


# What they keep


def test_a_bennett_linkage_keeps_its_energy():
    """Three seconds, and it stays closed to a few micrometres."""
    shares, gaps = followed(bennett(240), 3.0)
    np.testing.assert_allclose(shares, 1.0, atol=0.02)
    assert gaps.max() < 5.0e-6


def test_shafts_that_hold_each_other_keep_spinning():
    """Each pair knows a small error along axes of its own; it has to be small enough."""
    shares, _ = followed(tied_shafts(480), 1.0)
    np.testing.assert_allclose(shares, 1.0, atol=5.0e-4)


def test_a_slider_crank_opens_with_the_cube_of_the_step():
    """What a step opens by beside the rate is foreseen to second order; the energy stays."""
    (coarse, wide), (fine, narrow) = (followed(slider_crank(hz), 3.0) for hz in (60, 240))
    assert narrow.max() < 4.0e-6
    assert wide.max() > 40.0 * narrow.max()
    np.testing.assert_allclose(coarse, 1.0, atol=0.04)
    np.testing.assert_allclose(fine, 1.0, atol=0.002)


@pytest.mark.parametrize("bodies", [3, 4, 6])
def test_rings_that_turn_far_in_a_step_are_not_fed(bodies):
    """Half a radian per step is not foreseen to any order; what counts of it fades out."""
    shares, _ = followed(ring(bodies, 30.0, 1, 60), 3.0)
    assert shares[-1] < 1.15


def test_what_flies_round_on_a_distance_keeps_it():
    """A body that spins, held at a corner: its anchor's path bends, and the line turns."""
    for hz, far, share in ((60, 2.0e-4, 3.0e-3), (240, 2.0e-6, 3.0e-4)):
        builder = weightless()
        builder.add_articulation([builder.add_joint_free(link(builder, 1.0, 0.01))])
        builder.joint_q[:7] = list(at(0.6))
        builder.add_joint_distance(-1, 0, min_distance=0.5, max_distance=0.5, child_xform=at(-0.1))
        rig = Rig(builder, 1.0 / hz, v=[0.0, 3.0, 0.0, 0.0, 0.0, 5.0])
        first, worst = energy(rig), 0.0
        for _ in range(hz):
            pose = rig.run().body_q[0]
            corner = pose[:3] + Rotation.from_quat(pose[3:]).apply([-0.1, 0.0, 0.0])
            worst = max(worst, abs(np.linalg.norm(corner) - 0.5))
        assert worst < far
        assert energy(rig) == pytest.approx(first, rel=share)


@pytest.mark.parametrize("past", [1.0e-7, 1.0e-3])
def test_what_flies_past_an_anchor_is_not_pulled(past):
    """A rope is slack there, however quickly the line to the anchor turns."""
    builder = weightless()
    builder.add_articulation([builder.add_joint_free(link(builder, 1.0, 0.01))])
    builder.joint_q[:7] = list(at(past))
    builder.add_joint_distance(-1, 0, min_distance=-1.0, max_distance=0.5)
    rig = Rig(builder, 1.0 / 60.0, v=[0.0, 20.0, 0.0, 0.0, 0.0, 0.0]).run()
    np.testing.assert_allclose(rig.v[:6], [0.0, 20.0, 0.0, 0.0, 0.0, 0.0], atol=1.0e-5)


def test_other_position_updates_foresee_nothing():
    """Drake's step holds ``J v = -phi / (2 dt)``: at rest in phase, a hinged body's rate is tangential at the start of the step."""
    for update, radial in (("symplectic", -0.5 / 240.0 * 9.0 * 0.3), ("sap_euler", 0.0)):
        builder = weightless()
        builder.add_articulation([builder.add_joint_free(link(builder, 1.0, 0.01))])
        builder.joint_q[:7] = list(at(0.3))
        builder.add_joint_ball(-1, 0, child_xform=at(-0.3))
        rig = Rig(builder, 1.0 / 240.0, v=[0.0, 0.9, 0.0, 0.0, 0.0, 3.0], position_update=update).run()
        inside = rig.solver.inspect().v  # [w, v]
        assert inside[3] == pytest.approx(radial, abs=2.0e-5)
