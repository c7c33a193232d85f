"""Loops that hold what something else holds: shafts in two bearings, doors on two hinges, joints that repeat a tree's."""

import newton
import numpy as np
import pytest
import warp as wp
from loop_scenes import ALL_MAKERS, FRAME_A, FRAME_B
from rig import IDENTITY, Rig, link, put, weightless

pytestmark = pytest.mark.filterwarnings("ignore:.*Parallel joints:newton.NewtonWarning")
Axis = newton.ModelBuilder.JointDofConfig
ALONG = {
    "revolute": wp.vec3(0.0, 0.3, 0.4), "cylindrical": wp.vec3(0.0, 0.0, 0.4), "prismatic": wp.vec3(0.3, -0.2, 0.1),
    "slanted": wp.vec3(0.2, 0.1, 0.3), "gantry": wp.vec3(0.1, 0.2, 0.3),
}  # fmt: skip
"""Where else a second joint may sit and hold the same."""
BEND = np.pi / 6.0


def energy(rig):
    """Kinetic energy [J]."""
    return float(rig.solver.report(rig.state).kinetic_energy.sum())


def repeated(kind, place):
    """Two bodies joined by a joint of the tree, and by the same joint once more."""
    builder = newton.ModelBuilder()
    a, b = (link(builder, 1.0 + 0.5 * i, (0.02, 0.03, 0.04), com=wp.vec3(0.02, 0.0, -0.03)) for i in range(2))
    if place == "world":
        a, trunk = -1, builder.add_joint_fixed(-1, a)
    elif place == "hinged":
        trunk = builder.add_joint_revolute(-1, a, axis=(0, 1, 0), parent_xform=wp.transform((0.1, 0.2, 0.3)))
    else:
        trunk = builder.add_joint_free(a)
    joint = ALL_MAKERS[kind](builder, a, b, parent_xform=FRAME_A, child_xform=FRAME_B)
    builder.add_articulation([trunk, joint])
    along = wp.transform(ALONG.get(kind, wp.vec3()), wp.quat_identity())
    ALL_MAKERS[kind](builder, a, b, parent_xform=FRAME_A * along, child_xform=FRAME_B * along)
    return builder.finalize()


@pytest.mark.parametrize("place", ["world", "hinged", "floating"])
@pytest.mark.parametrize("kind", list(ALL_MAKERS))
def test_a_joint_that_repeats_one_of_the_tree_changes_nothing(kind, place):
    """As against the same model with the second joint switched off; its rows are all roundoff."""
    rigs = []
    for enabled in (True, False):
        rig = Rig(repeated(kind, place), 0.005)
        switches = rig.model.joint_enabled.numpy()
        switches[-1] = enabled
        rig.model.joint_enabled.assign(switches)
        tree_dofs = rig.model.joint_qd_start.numpy()[2]
        put(rig.state.joint_qd, np.random.default_rng(3).uniform(-3.0, 3.0, tree_dofs))
        newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
        rigs.append(rig.run(100))
    np.testing.assert_allclose(rigs[0].body_q, rigs[1].body_q, atol=2.0e-5)
    np.testing.assert_allclose(rigs[0].body_qd, rigs[1].body_qd, atol=3.0e-4)


@pytest.mark.parametrize("kind", ["revolute", "ball"])
def test_a_shaft_in_two_bearings_keeps_its_speed(kind):
    """The second bearing sits on the axis of the first, where only roundoff of float32 frames moves it."""
    builder = newton.ModelBuilder()
    shaft = link(builder, inertia=(0.02, 0.04, 0.04))
    place = wp.transform(wp.vec3(0.1, 0.2, 0.3), wp.quat_rpy(0.3, -0.4, 0.2))
    away = wp.transform(wp.vec3(0.5, 0.0, 0.0), wp.quat_identity())
    builder.add_articulation([builder.add_joint_revolute(-1, shaft, axis=(1, 0, 0), parent_xform=place)])
    frames = dict(parent_xform=place * away, child_xform=away)
    if kind == "revolute":
        builder.add_joint_revolute(-1, shaft, axis=(1, 0, 0), **frames)
    else:
        builder.add_joint_ball(-1, shaft, **frames)
    rig = Rig(builder, 1.0 / 240.0)
    put(rig.state.joint_qd, [10.0])
    np.testing.assert_allclose(rig.run(240).v[0], 10.0, rtol=1.0e-5)


def hinged_shafts():
    """Two shafts in bearings at an angle, which a universal joint ties as a loop."""
    builder = weightless()
    first, second = (link(builder, inertia=(0.02, 0.04, 0.04)) for _ in range(2))
    tilt = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -BEND)
    center = wp.vec3(0.25 * np.cos(BEND), 0.0, 0.25 * np.sin(BEND))
    for body, frame in (
        (first, wp.transform(wp.vec3(-0.25, 0.0, 0.0), wp.quat_identity())),
        (second, wp.transform(center, tilt)),
    ):
        builder.add_articulation([builder.add_joint_revolute(-1, body, axis=(1, 0, 0), parent_xform=frame)])
    builder.add_joint_d6(
        first, second, angular_axes=[Axis(axis=(0, 1, 0)), Axis(axis=(0, 0, 1))],
        parent_xform=wp.transform((0.25, 0.0, 0.0)), child_xform=wp.transform((-0.25, 0.0, 0.0)),
    )  # fmt: skip
    builder.joint_q[2] = -BEND
    return builder


def test_a_universal_joint_turns_its_shafts_by_their_ratio():
    """d(second) / d(first) = cos b / (1 - sin^2 b sin^2 q), and no energy is lost."""
    rig = Rig(hinged_shafts(), 1.0 / 240.0, v=[10.0, 10.0 * np.cos(BEND)])
    first = energy(rig)
    for _ in range(24):
        rig.run(10)
        ratio = np.cos(BEND) / (1.0 - np.sin(BEND) ** 2 * np.sin(rig.q[0]) ** 2)
        np.testing.assert_allclose(rig.v[1] / rig.v[0], ratio, rtol=0.02)
    np.testing.assert_allclose(energy(rig), first, rtol=1.0e-3)


def cardan_shaft(bearing):
    """A hinged shaft, and another on a universal joint, whose bearing closes the loop: a hinge holds its axis twice."""
    builder = weightless()
    first, second = (link(builder, inertia=(0.02, 0.04, 0.04)) for _ in range(2))
    hinge = builder.add_joint_revolute(-1, first, axis=(1, 0, 0), parent_xform=wp.transform((-0.25, 0.0, 0.0)))
    cross = builder.add_joint_d6(
        first, second, angular_axes=[Axis(axis=(0, 1, 0)), Axis(axis=(0, 0, 1))],
        parent_xform=wp.transform((0.25, 0.0, 0.0)), child_xform=wp.transform((-0.25, 0.0, 0.0)),
    )  # fmt: skip
    builder.add_articulation([hinge, cross])
    center = wp.vec3(0.25 * np.cos(BEND), 0.0, 0.25 * np.sin(BEND))
    frame = wp.transform(center, wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -BEND))
    if bearing == "revolute":
        builder.add_joint_revolute(-1, second, axis=(1, 0, 0), parent_xform=frame)
    else:
        builder.add_joint_ball(-1, second, parent_xform=frame)
    builder.joint_q[1] = -BEND
    return builder


def test_a_bearing_that_holds_an_axis_twice_lets_it_spin():
    """Its tilt and its offset are the same thing; a hinge is no other bearing here than a ball joint."""
    v = [10.0, 0.0, -10.0 * np.tan(BEND) * np.cos(BEND)]
    hinge, ball = (Rig(cardan_shaft(bearing), 1.0 / 240.0, v=v).run(240) for bearing in ("revolute", "ball"))
    np.testing.assert_allclose(hinge.v[:3], ball.v[:3], atol=0.01)
    np.testing.assert_allclose(hinge.q[:3], ball.q[:3], atol=0.001)


def flying_pair(loops):
    """Two free bodies that turn against each other about a line, along which loop joints hold them."""
    builder = weightless()
    a, b = (link(builder, inertia=(0.02, 0.03, 0.04)) for _ in range(2))
    for body in (a, b):
        builder.add_articulation([builder.add_joint_free(body)])
    for kind, z in zip(loops, (0.2, -0.2, 0.0), strict=False):
        frames = dict(parent_xform=wp.transform((0.3, 0.0, z)), child_xform=wp.transform((-0.3, 0.0, z)))
        if kind == "revolute":
            builder.add_joint_revolute(a, b, axis=(0, 0, 1), **frames)
        else:
            builder.add_joint_ball(a, b, **frames)
    builder.joint_q[:14] = [-0.3, 0.0, 0.0, *IDENTITY.q, 0.3, 0.0, 0.0, *IDENTITY.q]
    spins = np.array([[1.0, 0.5, 10.0], [1.0, 0.5, -10.0]])
    arms = np.array([[-0.3, 0.0, 0.0], [0.3, 0.0, 0.0]])
    return builder, np.hstack([np.cross(spins, arms), spins]).ravel()


@pytest.mark.parametrize(
    "loops",
    [("revolute",) * 2, ("revolute",) * 3, ("ball",) * 2, ("revolute", "ball"), ("ball", "revolute")],
    ids="-".join,
)
def test_more_hinges_on_a_line_hold_no_more_than_one(loops):
    """Each holds the line in its own way, with errors that mean the same while the bodies turn."""
    builder, v = flying_pair(("revolute",))
    one = Rig(builder, 1.0 / 240.0, v=v).run(240)
    more = Rig(flying_pair(loops)[0], 1.0 / 240.0, v=v).run(240)
    np.testing.assert_allclose(energy(more), energy(one), rtol=2.0e-4)
    np.testing.assert_allclose(more.body_q[:, :3], one.body_q[:, :3], atol=2.0e-3)


BEARINGS = {
    "revolute": lambda b, p, c, **k: b.add_joint_revolute(p, c, axis=(1, 0, 0), **k),
    "cylindrical": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[Axis(axis=(1, 0, 0))], angular_axes=[Axis(axis=(1, 0, 0))], **k
    ),
    "line": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[Axis(axis=(1, 0, 0))], angular_axes=[Axis(axis=a) for a in np.eye(3).tolist()], **k
    ),
    "planar": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[Axis(axis=(0, 1, 0)), Axis(axis=(0, 0, 1))], angular_axes=[Axis(axis=(1, 0, 0))], **k
    ),
}  # fmt: skip


def flying_shaft(joints):
    """A shaft that spins in a body that tumbles, held by loop joints of some kinds at some places, the one's parent or its child."""
    builder = weightless()
    body, shaft = link(builder, 2.0, (0.08, 0.09, 0.1)), link(builder, 1.0, (0.02, 0.04, 0.04))
    for b in (body, shaft):
        builder.add_articulation([builder.add_joint_free(b)])
    for kind, place, turned in joints:
        at = wp.transform(wp.vec3(*place), wp.quat_identity())
        pair = (shaft, body) if turned else (body, shaft)
        BEARINGS[kind](builder, *pair, parent_xform=at, child_xform=at)
    return Rig(builder, 1.0 / 240.0, v=[0, 0, 0, 1, 3, -2, 0, 0, 0, 21, 3, -2]).run(480)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize(
    "kinds", [("revolute", "cylindrical"), ("revolute", "line"), ("cylindrical", "revolute")], ids="-".join
)
def test_a_floating_bearing_beside_a_fixed_one_takes_no_spin(kinds, turned):
    """Both know what little the shaft has tilted by then, along axes that turn half as far as it does."""
    places = ((0.2, 0.0, 0.0), (-0.2, 0.0, 0.0))
    one = flying_shaft([("revolute", (0.2, 0.0, 0.0), False)])
    two = flying_shaft(list(zip(kinds, places, turned, strict=True)))
    np.testing.assert_allclose(energy(two), energy(one), rtol=2.0e-3)
    np.testing.assert_allclose(two.body_q[0, :3], one.body_q[0, :3], atol=2.0e-3)


def test_three_feet_on_a_plane_hold_no_more_than_one():
    """The feet know a tilt along axes that go with what they are on."""
    feet = [("planar", (0.05, 0.3 * np.cos(a), 0.3 * np.sin(a)), False) for a in (0.3, 2.4, 4.5)]
    one, three = flying_shaft(feet[:1]), flying_shaft(feet)
    np.testing.assert_allclose(energy(three), energy(one), rtol=2.0e-3)
    np.testing.assert_allclose(three.body_q[:, :3], one.body_q[:, :3], atol=2.0e-3)
