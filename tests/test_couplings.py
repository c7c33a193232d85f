"""Mimic and distance joints, loop-closing joints of every type, and equality constraints."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from loop_scenes import MAKERS, PLACES, joined, start_like
from newton.solvers import mujoco
from rig import IDENTITY, G, Rig, link, put, weightless
from scipy.spatial.transform import Rotation

Axis = newton.ModelBuilder.JointDofConfig
X, Y, Z = newton.Axis.X, newton.Axis.Y, newton.Axis.Z


def near_rigid_sag(w, load, dt, beta):
    """How far a coupling gives way under a load: 2 dt^2 beta^2 w f / (4 pi^2) (F 8.7)."""
    return 2.0 * dt**2 * beta**2 * w * load / (4.0 * math.pi**2)


# Mimic joints


def pair(kind, masses=(2.0, 1.5), dt=0.005, mimic=(), legacy=(), **options):
    """Two joints of a kind on the world, the second following the first: ``(offset, ratio)`` twice over."""
    builder = weightless()
    joints = []
    for mass in masses:
        body = link(builder, mass, mass)
        if kind == "d6":
            axes = dict(linear_axes=[Axis(axis=X), Axis(axis=Y)], angular_axes=[Axis(axis=Z)])
            joints.append(builder.add_joint_d6(-1, body, **axes))
        else:
            joints.append(getattr(builder, f"add_joint_{kind}")(-1, body, axis=X))
    builder.add_articulation(joints)
    if mimic:
        builder.set_joint_mimic(joints[1], joints[0], coeffs=mimic)
    if legacy:
        with pytest.warns(newton.NewtonDeprecationWarning):
            builder.add_constraint_mimic(joints[1], joints[0], coef0=legacy[0], coef1=legacy[1])
    return Rig(builder, dt, **options)


@pytest.mark.parametrize("how", ["mimic", "legacy"])
@pytest.mark.parametrize("kind", ["prismatic", "revolute", "d6"])
def test_mimic_moves_as_one(kind, how):
    """A force on the leader moves both joints as m1 + ratio^2 m2 on every coordinate; the offset stays."""
    ratio, offset, dt, steps = -1.6, 0.2, 0.005, 100
    count = 3 if kind == "d6" else 1
    force = np.array([4.0, -3.0, 2.0])[:count]
    start = [*np.zeros(count), *np.full(count, offset)]
    rig = pair(kind, dt=dt, q=start, force=[*force, *np.zeros(count)], **{how: (offset, ratio)}).run(steps)
    expected = force / (2.0 + ratio**2 * 1.5) * dt * steps
    np.testing.assert_allclose(rig.v, [*expected, *(ratio * expected)], rtol=1e-3)
    np.testing.assert_allclose(rig.q[count:], offset + ratio * rig.q[:count], atol=1e-6)


@pytest.mark.parametrize("how", [("mimic",), ("legacy",), ("mimic", "legacy")])
def test_mimic_counts_once(how):
    """Named twice, a follower is still held by one row: it gives way by the near-rigid bound of one."""
    ratio, load, dt, beta = 2.0, 30.0, 0.01, 1.0
    force = [ratio * load, -load]  # in balance through the coupling, load is what it carries
    rig = pair("prismatic", dt=dt, force=force, near_rigid_coupling=beta, **dict.fromkeys(how, (0.0, ratio))).run(60)
    sag = rig.q[1] - ratio * rig.q[0]
    assert sag == pytest.approx(-near_rigid_sag(1 / 1.5 + ratio**2 / 2.0, load, dt, beta), rel=1e-5)


def test_a_prescribed_leader_is_followed_to_its_last_digit():
    """What its velocity gives the row is taken off again, and the rest of that was no convergence in 200 iterations."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    leader, follower = link(builder, 1.0, 0.1, is_kinematic=True), link(builder, 0.5, 0.1)
    joints = [builder.add_joint_prismatic(-1, body, axis=X) for body in (leader, follower)]
    builder.add_articulation(joints)
    builder.set_joint_mimic(joints[1], joints[0], coeffs=(0.05, -2.0))
    builder.joint_q[1], builder.joint_qd[0] = 0.05, 0.3
    report = Rig(builder, 1.0 / 240.0).run(60).solver.report()
    assert report.healthy and report.iterations.max() <= 2


def test_older_mimic_constraint_wins():
    """Where the joint field and an older constraint disagree about a follower, the constraint counts."""
    rig = pair("prismatic", mimic=(0.0, 3.0), legacy=(0.0, -1.0), force=[5.0, 0.0]).run(100)
    assert rig.q[1] == pytest.approx(-rig.q[0], abs=1e-4)


def test_mimic_coefficients_are_live():
    """Changed coefficients act at the next step, for the joint field and for the older constraint."""
    rig = pair("prismatic", mimic=(0.0, 1.0), force=[2.0, 0.0]).run(20)
    put(rig.model.joint_mimic_coeffs, [[0.0, 1.0], [0.3, -2.0]])
    rig.run(60)
    assert rig.q[1] == pytest.approx(0.3 - 2.0 * rig.q[0], abs=1e-4)
    rig = pair("prismatic", legacy=(0.0, 1.0), force=[2.0, 0.0]).run(20)
    rig.model.constraint_mimic_coef0.fill_(0.3)
    rig.model.constraint_mimic_coef1.fill_(-2.0)
    rig.run(60)
    assert rig.q[1] == pytest.approx(0.3 - 2.0 * rig.q[0], abs=1e-4)


def test_older_mimic_constraint_can_be_switched_off():
    """A disabled mimic constraint lets its follower go, and holds it again when enabled."""
    rig = pair("prismatic", legacy=(0.0, 1.0), v=[1.0, 1.0])
    rig.model.constraint_mimic_enabled.fill_(False)
    put(rig.control.joint_f, [5.0, 0.0])
    free = rig.run(10).v
    np.testing.assert_allclose(free, [1.0 + 5.0 / 2.0 * 0.05, 1.0], rtol=1e-5)
    rig.model.constraint_mimic_enabled.fill_(True)
    held = rig.run(40)
    assert held.v[1] == pytest.approx(held.v[0], rel=1e-3)


# Distance joints


def swinging(length, amplitude, dt, minimum=-1.0, parent_anchor=IDENTITY, child_anchor=IDENTITY):
    """A ball on a taut distance joint, released at an angle."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 1.0, 1e-3, label="bob")
    joint = builder.add_joint_distance(
        -1, body, min_distance=minimum, max_distance=length, parent_xform=parent_anchor, child_xform=child_anchor
    )
    builder.add_articulation([joint])
    return Rig(builder, dt, q=[length * math.sin(amplitude), 0.0, -length * math.cos(amplitude), 0, 0, 0, 1])


def crossing_times(samples, dt):
    """Times at which a sampled signal passes zero, by linear interpolation."""
    samples = np.array(samples)
    at = np.flatnonzero(samples[:-1] * samples[1:] < 0.0)
    return dt * (at + samples[at] / (samples[at] - samples[at + 1]))


@pytest.mark.parametrize("amplitude", [0.1, 0.4])
def test_distance_joint_swings_with_the_period_of_a_pendulum(amplitude):
    """A taut distance joint has the period 2 pi sqrt(L / g) (1 + theta^2 / 16)."""
    length, dt = 0.5, 0.002
    rig = swinging(length, amplitude, dt)
    x = [rig.q[0]]
    for _ in range(1100):
        x.append(rig.run(1).q[0])
    passages = crossing_times(x, dt)
    assert len(passages) >= 3
    measured = 2.0 * (passages[-1] - passages[0]) / (len(passages) - 1)
    period = 2.0 * math.pi * math.sqrt(length / G) * (1.0 + amplitude**2 / 16.0)
    assert measured == pytest.approx(period, rel=2e-3)
    assert np.linalg.norm(rig.q[:3]) == pytest.approx(length, rel=1e-4)


def test_slack_distance_joint_does_nothing():
    """Between its bounds a distance joint leaves a body in free fall."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 1.0, 1e-3)
    builder.add_articulation([builder.add_joint_distance(-1, body, min_distance=0.1, max_distance=5.0)])
    rig = Rig(builder, 0.01, q=[0.0, 1.0, 0.0, 0, 0, 0, 1]).run(20)
    np.testing.assert_allclose(rig.v, [0, 0, -G * 0.2, 0, 0, 0], atol=1e-5)


def test_distance_joint_keeps_its_minimum():
    """A body pushed towards the anchor stops at the minimum and rests there."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 2.0, 1e-2)
    builder.add_articulation([builder.add_joint_distance(-1, body, min_distance=0.4, max_distance=-1.0)])
    rig = Rig(builder, 0.005, q=[0.0, 0.0, 0.6, 0, 0, 0, 1]).run(200)
    assert rig.q[2] == pytest.approx(0.4, abs=1e-4)
    assert abs(rig.v[2]) < 1e-4


def test_distance_joint_holds_offset_anchors():
    """The distance is that of the anchors, not of the bodies."""
    parent, child = wp.transform((0.1, 0.2, 0.3), wp.quat_identity()), wp.transform((0.0, 0.0, 0.2), wp.quat_identity())
    rig = swinging(0.5, 0.3, 0.002, parent_anchor=parent, child_anchor=child).run(500)
    turned = Rotation.from_quat(rig.body_q[0, 3:])
    anchor = rig.body_q[0, :3] + turned.apply([0.0, 0.0, 0.2])
    assert np.linalg.norm(anchor - [0.1, 0.2, 0.3]) == pytest.approx(0.5, abs=1e-4)


def test_distance_joint_between_two_bodies():
    """Two bodies on a taut distance joint spin about their common COM like a dumbbell."""
    builder = weightless()
    one, two = link(builder, 1.0, 0.01), link(builder, 3.0, 0.01)
    joints = [builder.add_joint_free(one), builder.add_joint_distance(one, two, min_distance=0.8, max_distance=0.8)]
    builder.add_articulation(joints)
    rig = Rig(builder, 0.002)
    start = rig.model.state()
    put(start.body_q, [[-0.6, 0, 0, 0, 0, 0, 1], [0.2, 0, 0, 0, 0, 0, 1]])
    put(start.body_qd, [[0, -1.5, 0, 0, 0, 0], [0, 0.5, 0, 0, 0, 0]])
    newton.eval_ik(rig.model, start, rig.state.joint_q, rig.state.joint_qd)
    rig.run(1000)
    poses, speeds = rig.body_q[:, :3], rig.body_qd[:, :3]
    assert np.linalg.norm(poses[1] - poses[0]) == pytest.approx(0.8, rel=1e-6)
    np.testing.assert_allclose(speeds[0] + 3.0 * speeds[1], 0.0, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(speeds, axis=1), [1.5, 0.5], rtol=2.5e-3)


# Loop-closing joints against the same joint in the tree


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", MAKERS)
def test_loop_joint_moves_like_the_joint_in_the_tree(kind, place):
    """A closed loop and the equivalent tree, thrown alike and pushed alike, move alike."""
    dt, steps = 0.001, 150
    rng = np.random.default_rng(7)
    tree = Rig(joined(kind, place, loop=False), dt)
    put(tree.state.joint_qd, rng.uniform(-1.0, 1.0, tree.model.joint_dof_count))
    newton.eval_fk(tree.model, tree.state.joint_q, tree.state.joint_qd, tree.state)
    loop = Rig(joined(kind, place, loop=True), dt)
    assert len(loop.solver.topology.loop_joints) == 1
    start_like(loop, tree)
    np.testing.assert_allclose(loop.body_q, tree.body_q, atol=1e-5)
    np.testing.assert_allclose(loop.body_qd, tree.body_qd, atol=1e-5)
    wrench = rng.uniform(-1.0, 1.0, (tree.model.body_count, 6)) * [4, 4, 4, 0.3, 0.3, 0.3]
    for rig in (tree, loop):
        rig.push(wrench)
        rig.run(steps)
    assert loop.solver.report().healthy
    sign = np.sign(np.sum(loop.body_q[:, 3:] * tree.body_q[:, 3:], axis=1, keepdims=True))
    error = np.abs(
        loop.body_q * np.concatenate([np.ones((len(sign), 3)), np.repeat(sign, 4, 1)], axis=1) - tree.body_q
    ).max()
    travel = np.abs(tree.body_q[:, :3] - joined(kind, place, False).body_q.numpy()[:, :3]).max()
    assert travel > 0.02
    assert error < 3e-4


@pytest.mark.parametrize("tilt", [0.0, 0.3])
@pytest.mark.parametrize("base", ["free", "held"])
def test_loop_in_one_plane_stays_closed(base, tilt):
    """Across the plane of a parallelogram its closing joint holds nothing; roundoff there moves nothing."""
    builder = weightless()
    turn = wp.quat_rpy(tilt, -2.0 * tilt, tilt)
    corners = [
        wp.transform((0.2 * x, 0.0, 0.2 * z), wp.quat_identity()) for x, z in ((1, -1), (1, 1), (-1, 1), (-1, -1))
    ]
    rods = [link(builder, 1.0, 0.005, xform=wp.transform((0.0, 0.0, 0.0), turn)) for _ in corners]
    if base == "held":
        joints = [builder.add_joint_fixed(-1, rods[0], parent_xform=wp.transform((0.0, 0.0, 0.0), turn))]
    else:
        joints = [builder.add_joint_free(rods[0])]
    joints += [
        builder.add_joint_revolute(*rods[i : i + 2], axis=Y, parent_xform=corners[i], child_xform=corners[i])
        for i in range(3)
    ]
    builder.add_articulation(joints)
    builder.add_joint_revolute(rods[3], rods[0], axis=Y, parent_xform=corners[3], child_xform=corners[3])
    rig = Rig(builder, 0.002)
    spin = [0.0, 0.0, 0.0, 0.5, -0.3, 0.4] if base == "free" else []
    put(rig.state.joint_qd, [*spin, 1.0, -1.0, 1.0])
    rig.run(300)
    assert rig.solver.report().healthy
    np.testing.assert_allclose(np.abs(rig.v[-4:-1]), 1.0, rtol=0.1)
    closing = [wp.transform_point(wp.transform(*(float(x) for x in rig.body_q[i])), corners[3].p) for i in (3, 0)]
    assert np.linalg.norm(np.subtract(*closing)) < 1e-6


def hung_load(kind, load, dt, beta, enabled=True):
    """A weightless floating load held to the world by a loop joint, pushed along z."""
    builder = weightless()
    body, base = link(builder, 2.0, 0.1), link(builder)
    axes = [Axis(axis=e) for e in (X, Y, Z)]
    fixed = builder.add_joint_fixed(-1, base)
    builder.add_articulation([fixed, builder.add_joint_d6(base, body, linear_axes=axes, angular_axes=axes)])
    MAKERS[kind](builder, -1, body, enabled=enabled)
    rig = Rig(builder, dt, near_rigid_coupling=beta)
    rig.push([[0.0, 0.0, load, 0.0, 0.0, 0.0], np.zeros(6)])
    return rig


@pytest.mark.parametrize("kind", ["fixed", "revolute", "ball", "universal"])
def test_loop_joint_gives_way_by_the_near_rigid_bound(kind):
    """A held load hangs 2 dt^2 beta^2 w f / (4 pi^2) below its place."""
    load, dt, beta = 30.0, 0.01, 1.0
    rig = hung_load(kind, load, dt, beta).run(80)
    assert rig.q[2] == pytest.approx(near_rigid_sag(1 / 2.0, load, dt, beta), rel=0.01)


@pytest.mark.parametrize("kind", ["fixed", "ball"])
def test_loop_joint_error_halves_in_every_step(kind):
    """A loop that starts open closes by half in each step, without overshoot."""
    rig = hung_load(kind, 0.0, 0.01, 0.1)
    put(rig.state.joint_q, [0.01, -0.02, 0.015, 0, 0, 0])
    errors = [np.linalg.norm(rig.run(1).q[:3]) for _ in range(6)]
    np.testing.assert_allclose(np.array(errors[1:]) / errors[:-1], 0.5, rtol=0.02)


def test_loop_joint_is_switched_at_run_time():
    """A disabled loop lets its load go at the next step, and catches it again when enabled."""
    rig = hung_load("ball", 2.0, 0.01, 0.1).run(10)
    assert abs(rig.v[2]) < 1e-5
    rig.model.joint_enabled.assign(np.array([True, True, False]))
    rig.run(10)
    assert rig.v[2] == pytest.approx(2.0 / 2.0 * 0.1, rel=1e-4)
    rig.model.joint_enabled.assign(np.array([True, True, True]))
    rig.run(40)
    np.testing.assert_allclose(rig.q[:3], 0.0, atol=1e-5)
    assert abs(rig.v[2]) < 1e-5


def test_loop_joint_may_start_switched_off():
    """A loop joint built disabled holds nothing until it is enabled."""
    rig = hung_load("fixed", 2.0, 0.01, 0.1, enabled=False).run(10)
    assert rig.v[2] == pytest.approx(0.1, rel=1e-4)
    rig.model.joint_enabled.assign(np.array([True, True, True]))
    rig.run(40)
    assert abs(rig.q[2]) < 1e-5


def test_loop_joint_is_switched_between_replays():
    """A captured graph reads the switch and the frames of a loop joint."""
    rig = hung_load("ball", 2.0, 0.01, 0.1).run(2)
    with wp.ScopedCapture() as capture:
        rig.run(2)
    rig.model.joint_enabled.assign(np.array([True, True, False]))
    for _ in range(5):
        wp.capture_launch(capture.graph)
    assert rig.v[2] == pytest.approx(0.1, rel=1e-3)
    rig.model.joint_enabled.assign(np.array([True, True, True]))
    frames = rig.model.joint_X_p.numpy()
    frames[2, :3] = (0.0, 0.05, 0.0)
    rig.model.joint_X_p.assign(frames)
    for _ in range(20):
        wp.capture_launch(capture.graph)
    np.testing.assert_allclose(rig.q[:3], [0.0, 0.05, 0.0], atol=1e-6)


# Equality constraints


def two_bodies(tie):
    """Two tilted free bodies with offset COMs; ``tie(builder, a, b)`` couples them."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    places = ((0.0, 0.0, 1.0), (0.4, 0.1, 1.2))
    turns = ((0.2, 0.1, -0.3), (-0.4, 0.3, 0.5))
    bodies = [
        builder.add_body(
            xform=wp.transform(place, wp.quat_rpy(*turn)), mass=1.0 + i, inertia=wp.diag(wp.vec3(0.02, 0.03, 0.04)),
            com=wp.vec3(0.02, -0.01, 0.03), lock_inertia=True,
        )
        for i, (place, turn) in enumerate(zip(places, turns, strict=True))
    ]  # fmt: skip
    tie(builder, *bodies)
    rig = Rig(builder, 0.002)
    rng = np.random.default_rng(3)
    put(rig.state.joint_qd, rng.uniform(-1.0, 1.0, 12))
    rig.run(1)  # the tie turns the velocities into compatible ones
    return rig


POINT = wp.vec3(0.1, 0.2, -0.1)


def relative(builder, a, b):
    """Pose of b in a's frame, as built."""
    return wp.transform_inverse(builder.body_q[a]) * wp.transform(*builder.body_q[b])


def ball_there(builder, a, b):
    """The ball joint that a connect constraint stands for."""
    frame = wp.transform_inverse(relative(builder, a, b))
    child = wp.transform(wp.transform_point(frame, POINT), wp.quat_identity())
    builder.add_joint_ball(a, b, parent_xform=wp.transform(POINT, wp.quat_identity()), child_xform=child)


def connect(builder, a, b):
    mujoco.add_equality_connect(builder, a, b, anchor=POINT)


def weld(builder, a, b):
    mujoco.add_equality_weld(builder, a, b, relpose=relative(builder, a, b))


def weld_as_built(builder, a, b):
    mujoco.add_equality_weld(builder, a, b)


def fixed_there(builder, a, b):
    """The fixed joint that a weld constraint stands for."""
    builder.add_joint_fixed(a, b, parent_xform=relative(builder, a, b))


@pytest.mark.parametrize(("row", "joint"), [(connect, ball_there), (weld, fixed_there), (weld_as_built, fixed_there)])
def test_equality_row_acts_like_the_joint(row, joint):
    """Connect and weld rows move two bodies as the ball or fixed loop joint of the same frames does."""
    rows, joints = two_bodies(row).run(100), two_bodies(joint).run(100)
    np.testing.assert_allclose(rows.body_q, joints.body_q, atol=2e-4)
    assert rows.solver.report().healthy


@pytest.mark.parametrize("row", [connect, weld])
def test_equality_row_to_the_world(row):
    """With the world as one side a row holds its body in place, whichever side the world is."""
    for order in ((0, -1), (-1, 0)):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
        pose = wp.transform((0.3, 0.2, 1.0), wp.quat_rpy(0.2, 0.1, -0.3))
        builder.add_body(xform=pose, mass=2.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
        if row is weld:
            held = wp.transform_inverse(pose) if order[0] == 0 else pose
            mujoco.add_equality_weld(builder, *order, relpose=held)
        else:
            anchor = wp.vec3(0.0) if order[0] == 0 else wp.vec3(0.3, 0.2, 1.0)
            mujoco.add_equality_connect(builder, *order, anchor=anchor)
        rig = Rig(builder, 0.005).run(100)
        np.testing.assert_allclose(rig.body_q[0, :3], [0.3, 0.2, 1.0], atol=1e-4)
        if row is weld:
            assert abs(np.dot(rig.body_q[0, 3:], [*pose.q])) == pytest.approx(1.0, abs=1e-6)


def test_equality_row_is_switched_at_run_time():
    """A disabled row lets go, an enabled one holds again."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = builder.add_body(mass=2.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    mujoco.add_equality_weld(builder, -1, body, relpose=IDENTITY, enabled=False)
    rig = Rig(builder, 0.005).run(10)
    assert rig.v[2] == pytest.approx(-G * 0.05, rel=1e-4)
    rig.model.mujoco.equality_constraint_enabled.fill_(True)
    rig.run(60)
    assert abs(rig.q[2]) < 1e-6


def test_joint_equality_follows_its_polynomial():
    """A joint row holds q1 = p(q2) and reads its coefficients live."""
    builder = weightless()
    joints = [builder.add_joint_prismatic(-1, link(builder), axis=X) for _ in range(2)]
    builder.add_articulation(joints)
    mujoco.add_equality_joint(builder, *joints, polycoef=[0.1, -0.5, 0.8, 0.3, -0.2])
    rig = Rig(builder, 0.005, q=[0.1, 0.0], force=[0.0, 1.0]).run(120)
    assert rig.q[1] > 0.1
    assert rig.q[0] == pytest.approx(np.polyval([-0.2, 0.3, 0.8, -0.5, 0.1], rig.q[1]), abs=2e-4)
    put(rig.model.mujoco.equality_constraint_polycoef, [-0.1, 0.0, 0.0, 0.0, 0.0])
    assert rig.run(40).q[0] == pytest.approx(-0.1, abs=1e-4)


MJCF = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody><body name="base"><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/>
    <body name="one"><joint name="a" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
    <body name="two"><joint name="b" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
    <body name="three"><joint name="c" type="slide" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
    <body name="four"><joint name="d" type="slide" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
  </body></worldbody>
  <equality>
    <joint joint1="b" joint2="a" polycoef="0 1 0 0 0"/>
    <connect body1="three" anchor="0 0 0"/>
    <weld body1="four"/>
  </equality>
</mujoco>
"""


@pytest.mark.parametrize("convert", [True, False])
def test_imported_constraints_act_once(convert):
    """Converted or not, each constraint of a file holds with one row: it gives way by the bound of one."""
    load, dt, beta = 20.0, 0.01, 1.0
    builder = weightless()
    builder.add_mjcf(MJCF, convert_mjc_equality_constraints=convert)
    assert builder.joint_count == (7 if convert else 5)
    rig = Rig(builder, dt, force=[-load, load, load, load], near_rigid_coupling=beta).run(80)
    assert rig.q[1] - rig.q[0] == pytest.approx(near_rigid_sag(1 / 2 + 1 / 2, load, dt, beta), rel=1e-5)
    np.testing.assert_allclose(rig.q[2:4], near_rigid_sag(1 / 2, load, dt, beta), rtol=1e-5)


PAIRED_MJCF = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="one"><joint name="a1" type="slide" axis="1 0 0"/><joint name="a2" type="slide" axis="0 1 0"/>
      <inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
    <body name="two"><joint name="b" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
  </worldbody>
  <equality><joint joint1="b" joint2="a2" polycoef="0 1 0 0 0"/></equality>
</mujoco>
"""
ALONE_MJCF = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="one"><joint name="a" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body>
  </worldbody>
  <equality><joint joint1="a" polycoef="0.25 0 0 0 0"/></equality>
</mujoco>
"""


def imported(mjcf):
    """A builder with a file whose joint equality Newton keeps as a row, which it warns about."""
    builder = weightless()
    with pytest.warns(newton.NewtonWarning, match="stay MuJoCo equality constraints"):
        builder.add_mjcf(mjcf)
    return builder


def test_joint_equality_with_one_joint_holds_it():
    """A joint row without a second joint holds its joint at the constant of the polynomial."""
    rig = Rig(imported(ALONE_MJCF), 0.01, force=[3.0]).run(50)
    assert rig.q[0] == pytest.approx(0.25, abs=1e-5)


def test_joint_equality_couples_one_axis_of_a_joint():
    """Where importing merged several joints into one, a row couples the axis that it names."""
    rig = Rig(imported(PAIRED_MJCF), 0.01, force=[1.0, 1.0, 0.0]).run(50)
    np.testing.assert_allclose(rig.v, [0.25, 0.125, 0.125], rtol=1e-3)


def test_weld_without_torque_scale_leaves_rotation_free():
    """A weld row of torque scale zero holds its point and lets the body turn."""
    builder = weightless()
    builder.add_body(mass=2.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    mujoco.add_equality_weld(builder, -1, 0, relpose=IDENTITY, torquescale=0.0)
    rig = Rig(builder, 0.01, v=[0, 0, 0, 0, 0, 1.5], force=[5.0, 0, 0, 0, 0, 0]).run(40)
    assert rig.v[5] == pytest.approx(1.5, rel=1e-4)
    assert abs(rig.q[0]) < 1e-6


def test_other_equalities_are_refused():
    """A row of a kind that is not enforced is named."""
    builder = weightless()
    builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    builder.add_custom_values(**{"mujoco:equality_constraint_type": 5})
    with pytest.raises(NotImplementedError, match=r"equality constraint 0 \(.*\) has type 5"):
        Rig(builder, 0.01)


def test_inspection_works_with_loop_joints():
    """The float64 look inside finds its dofs also where a loop joint's stand between those of the trees."""
    builder = weightless()
    one, two, three = link(builder), link(builder), link(builder)
    builder.add_articulation([builder.add_joint_free(one)])
    builder.add_articulation([builder.add_joint_free(two)])
    builder.add_joint_ball(one, two)
    builder.add_articulation([builder.add_joint_free(three)])
    rig = Rig(builder, 0.01, v=[*np.zeros(15), 1, 2, 3, 4, 5, 6]).run(1)
    np.testing.assert_allclose(rig.solver.inspect().v[-6:], [4, 5, 6, 1, 2, 3], atol=1e-6)


# Contacts that only a coupling closes


@pytest.mark.parametrize("moved_by", ["its own drive", "a mimic", "a loop joint"])
def test_a_finger_stops_at_a_wall_whatever_moves_it(moved_by):
    """A finger 10 mm from a thin wall and at rest is thrown at it in one step; the contact is there in that step."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_shape_box(-1, xform=wp.transform((0.105, 0.0, 0.0), wp.quat_identity()), hx=0.005, hy=0.1, hz=0.1)
    drive = {"target_ke": 1e4, "target_kd": 20.0, "target_q": 0.05}
    finger = builder.add_link()
    builder.add_shape_box(
        finger, hx=0.01, hy=0.02, hz=0.02, cfg=newton.ModelBuilder.ShapeConfig(density=0.1 / (0.02 * 0.04 * 0.04))
    )

    def slide(body, height=0.0, **keywords):
        start = wp.transform((0.08, 0.0, height), wp.quat_identity())
        return builder.add_joint_prismatic(-1, body, axis=X, parent_xform=start, **keywords)

    joints = [slide(finger, **(drive if moved_by == "its own drive" else {}))]
    if moved_by != "its own drive":
        leader = link(builder, 0.1, 1e-4)
        joints.append(slide(leader, 0.3, **drive))
    builder.add_articulation(joints)
    if moved_by == "a mimic":
        builder.set_joint_mimic(*joints, coeffs=(0.0, 1.0))
    elif moved_by == "a loop joint":
        builder.add_joint_fixed(leader, finger, parent_xform=wp.transform((0.0, 0.0, -0.3), wp.quat_identity()))
    rig = Rig(builder, 0.005).run(1)
    assert rig.q[0] == pytest.approx(0.01, abs=2e-4)
    assert rig.run(60).q[0] == pytest.approx(0.01, abs=5e-4)
