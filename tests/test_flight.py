"""Trees that fly: their centre of mass keeps to its path whatever their joints do (F 1.3)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, material, weightless
from scipy.spatial.transform import Rotation
from test_gradients import Recorded

from newton_sap.flight import FLEW
from newton_sap.reference import ReferenceSolver

DT = 1.0 / 60.0
SPIN = [0.3, -1.0, 2.0, 3.0, -2.0, 4.0]
"""Velocity of the root, linear first."""
ANCHOR = wp.quat_rpy(0.3, 0.4, 0.5)
TURN = np.array(wp.quat_to_matrix(ANCHOR)).reshape(3, 3).T
"""From the world to the anchor."""


def chain(builder, joints=("revolute", "ball", "revolute")):
    """A floating chain of unlike bodies whose COMs lie off their joints, in an anchor that is turned."""
    bodies = [
        link(builder, 1.0 + i, (0.02, 0.03, 0.04), com=wp.vec3(0.05, 0.02 * i, 0.1)) for i in range(len(joints) + 1)
    ]
    at = wp.transform((0.1, 0.2, 1.0), ANCHOR)
    made = [builder.add_joint_free(bodies[0], parent_xform=at, child_xform=wp.transform((0.0, 0.1, 0.0)))]
    for i, kind in enumerate(joints):
        ends = dict(parent_xform=wp.transform((0.0, 0.0, 0.25), wp.quat_rpy(0.1, 0.2, 0.3)))
        if kind == "revolute":
            ends["axis"] = (1.0, i, 0.5)
        made.append(getattr(builder, f"add_joint_{kind}")(bodies[i], bodies[i + 1], **ends))
    builder.add_articulation(made)
    return bodies


def thrown(builder, dt=DT, seed=0, **options):
    """A rig of what floats, its root thrown and its joints whirling."""
    rig = builder if isinstance(builder, Rig) else Rig(builder, dt, **options)
    random = np.random.default_rng(seed)
    v = 3.0 * random.normal(size=rig.model.joint_dof_count)
    v[:6] = SPIN
    rig.state.joint_qd.assign(v.astype(np.float32))
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    return rig


def whole(rig, bodies=slice(None)):
    """COM and its velocity of some bodies, from body states."""
    mass, com = (getattr(rig.model, f"body_{name}").numpy().astype(float)[bodies] for name in ("mass", "com"))
    q, qd = rig.body_q[bodies].astype(float), rig.body_qd[bodies].astype(float)
    points = q[:, :3] + Rotation.from_quat(q[:, 3:]).apply(com)
    return mass @ points / mass.sum(), mass @ qd[:, :3] / mass.sum()


@pytest.mark.parametrize("dt", [1.0 / 30.0, DT, 1.0 / 240.0])
@pytest.mark.parametrize("joints", [("revolute", "ball", "revolute"), ("fixed", "revolute"), ("fixed", "fixed")])
def test_the_com_falls_as_a_stone_does(joints, dt):
    """Whatever the joints do; a point would move alike, step by step."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    chain(builder, joints)
    rig = thrown(builder, dt)
    x, v = whole(rig)
    steps = round(1.5 / dt)
    rig.run(steps)
    end, velocity = whole(rig)
    time, fall = steps * dt, np.array([0.0, 0.0, -G])
    np.testing.assert_allclose(end, x + time * v + 0.5 * time * (time + dt) * fall, atol=2e-5)
    np.testing.assert_allclose(velocity, v + time * fall, atol=2e-5)


def test_body_states_are_those_of_the_coordinates():
    """What is moved is moved alike in joints and bodies, by a turned anchor too."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    chain(builder)
    rig = thrown(builder).run(30)
    other = rig.model.state()
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, other)
    np.testing.assert_allclose(other.body_q.numpy(), rig.body_q, atol=2e-6)
    np.testing.assert_allclose(other.body_qd.numpy(), rig.body_qd, atol=2e-5)


def test_known_pushes_move_the_com():
    """Wrenches on bodies and the effort of the free joint, in world axes; efforts within the tree do nothing."""
    builder = weightless()
    bodies = chain(builder)
    rig = thrown(builder)
    mass = rig.model.body_mass.numpy().sum()
    effort = np.zeros(rig.model.joint_dof_count)
    effort[:6], effort[6:] = [3.0, 1.0, -2.0, 0.1, 0.0, 0.2], 0.4
    rig.control.joint_f.assign(effort.astype(np.float32))
    x, v = whole(rig)
    wrench = np.zeros((len(bodies), 6))
    wrench[2] = [1.0, -2.0, 5.0, 0.3, 0.0, -0.1]
    rig.push(wrench)
    rig.run(40)
    end, velocity = whole(rig)
    time, a = 40 * DT, (effort[:3] + wrench[2, :3]) / mass
    np.testing.assert_allclose(velocity, v + time * a, atol=2e-5)
    np.testing.assert_allclose(end, x + time * v + 0.5 * time * (time + DT) * a, atol=2e-5)


def closed(tie):
    """The chain with a mimic joint, or with a joint that closes a loop over two of its own."""
    builder = weightless()
    bodies = chain(builder, ("revolute", "ball", "revolute"))
    if tie == "mimic":
        builder.add_constraint_mimic(joint0=3, joint1=1, coef0=0.0, coef1=0.5)
        return builder
    poses = [wp.transform(*np.split(q, [3])) for q in Rig(builder, DT).body_q[[0, 2]]]
    place = wp.transform_multiply(wp.transform_inverse(poses[0]), poses[1])
    if tie == "ball":
        joint = builder.add_joint_ball(bodies[0], bodies[2], parent_xform=place)
    else:
        joint = builder.add_joint_distance(bodies[0], bodies[2], min_distance=0.0, max_distance=0.3)
    assert builder.joint_articulation[joint] == -1
    return builder


@pytest.mark.filterwarnings("ignore:.*add_constraint_mimic")
@pytest.mark.parametrize("tie", ["mimic", "ball", "distance"])
def test_ties_within_the_tree_leave_its_com_alone(tie):
    """What couplings hold of a tree pushes it nowhere."""
    rig = thrown(closed(tie))
    x, v = whole(rig)
    rig.run(60)
    end, velocity = whole(rig)
    np.testing.assert_allclose(velocity, v, atol=2e-5)
    np.testing.assert_allclose(end, x + 60 * DT * v, atol=2e-5)


def test_what_holds_the_tree_moves_its_com():
    """A chain that a ball joint ties to the world swings, as the reference says."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    bodies = chain(builder)
    place = Rig(builder, DT).body_q[1, :3]
    builder.add_joint_ball(-1, bodies[1], parent_xform=wp.transform(place))
    rig = thrown(builder)
    follows(rig, 3)
    assert (rig.solver.motion.flight.numpy() != FLEW).all()


def test_a_tie_that_is_switched_off_lets_it_fly():
    """And takes it back."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    bodies = chain(builder)
    joint = builder.add_joint_distance(-1, bodies[1], min_distance=0.0, max_distance=50.0)
    rig = thrown(builder)
    for enabled in (True, False, True):
        switch = rig.model.joint_enabled.numpy()
        switch[joint] = enabled
        rig.model.joint_enabled.assign(switch)
        rig.run(1)
        assert (rig.solver.motion.flight.numpy() == FLEW).tolist() == [not enabled]


def follows(rig, steps):
    """Step a rig and hold each step against the reference."""
    reference = ReferenceSolver(rig.model)
    for _ in range(steps):
        expected = reference.step(rig.state, rig.control, rig.contacts, rig.dt)
        rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt)
        rig.state, rig.next = rig.next, rig.state
        np.testing.assert_allclose(rig.q, expected.joint_q, atol=2e-6)
        np.testing.assert_allclose(rig.v, expected.joint_qd, atol=2e-5)
        np.testing.assert_allclose(rig.body_q[:, :3], expected.body_q[:, :3], atol=2e-6)
        np.testing.assert_allclose(rig.body_qd, expected.body_qd, atol=2e-5)


@pytest.mark.parametrize("seed", range(4))
def test_steps_equal_the_reference(seed):
    """With gravity, wrenches and efforts."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    chain(builder)
    rig = thrown(builder, seed=seed)
    random = np.random.default_rng(seed)
    rig.push(random.normal(size=(4, 6)))
    rig.control.joint_f.assign(random.normal(size=rig.model.joint_dof_count).astype(np.float32))
    follows(rig, 3)


def test_what_touches_the_ground_is_not_moved():
    """Of two alike, the one that is pushed keeps to what its contacts found, and the other flies; the reference agrees."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground_plane(cfg=material())
    for _ in range(2):
        for body in chain(builder):
            builder.add_shape_sphere(body, radius=0.05, cfg=material())
    q = np.array(builder.joint_q)
    q[len(q) // 2 :][:3] += TURN @ [0.0, 0.0, 5.0]
    rig = thrown(Rig(builder, DT, q=q))
    v = rig.v
    v[:6] = [*(TURN @ [0.0, 0.0, -2.0]), 0.0, 0.0, 0.0]
    rig.state.joint_qd.assign(v.astype(np.float32))
    rig.pipeline.collide(rig.state, rig.contacts)
    follows(rig, 1)
    assert (rig.solver.motion.flight.numpy() == FLEW).tolist() == [False, True]


@pytest.mark.parametrize("what", ["damping", "armature", "friction"])
def test_what_resists_the_root_moves_its_com(what):
    """What the free joint itself has counts, as the reference says."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    chain(builder)
    rig = thrown(builder)
    getattr(rig.model, f"joint_{what}").assign(np.array([2.0] * 3 + [0.0] * 8, np.float32))
    follows(rig, 3)


def test_worlds_fly_alike():
    """With the bits of one alone, by threads too, whatever the order of velocities."""
    one, many = newton.ModelBuilder(), newton.ModelBuilder()
    chain(one)
    many.replicate(one, 5)
    alone = thrown(one).run(20)
    for options in ({}, {"threads": 2}):
        rig = Rig(many, DT, **options)
        rig.state.joint_qd.assign(np.tile(thrown(one).v, 5).astype(np.float32))
        newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
        rig.run(20)
        for name in ("q", "v", "body_q", "body_qd"):
            np.testing.assert_array_equal(getattr(rig, name).reshape(5, -1)[3], getattr(alone, name).ravel())


def test_the_order_of_velocities_makes_no_difference():
    """In sap order the COM keeps to its path, too."""
    builder = newton.ModelBuilder()
    chain(builder)
    rig = thrown(builder)
    plain = rig.run(1)
    other = thrown(builder)
    out = other.solver.state()
    out.joint_qd_order = "sap"
    other.solver.step(other.state, out, other.control, None, DT)
    np.testing.assert_allclose(out.body_qd.numpy(), plain.body_qd, atol=2e-6)
    w, x = plain.body_qd[0, 3:], Rotation.from_quat(plain.body_q[0, 3:]).apply(rig.model.body_com.numpy()[0])
    np.testing.assert_allclose(out.joint_qd.numpy()[:3], TURN @ w, atol=2e-6)
    np.testing.assert_allclose(out.joint_qd.numpy()[3:6], TURN @ (plain.body_qd[0, :3] - np.cross(w, x)), atol=2e-6)


def test_a_step_in_flight_explains_itself():
    """Inverse dynamics finds nothing that is not known, and a push that nobody reported."""
    builder = newton.ModelBuilder()
    chain(builder)
    rig = thrown(builder).run(3)
    rig.solver.step(rig.state, rig.next, rig.control, None, DT)
    weight = G * rig.model.body_mass.numpy().sum()
    found = rig.solver.inverse_dynamics(rig.state, rig.next, rig.control, None, DT)
    assert np.abs(found.unexplained_force).max() < 1e-4 * weight
    faster = rig.next.joint_qd.numpy()
    faster[:3] += [0.1, 0.0, -0.2]
    rig.next.joint_qd.assign(faster)
    found = rig.solver.inverse_dynamics(rig.state, rig.next, rig.control, None, DT)
    np.testing.assert_allclose(
        found.unexplained_force[3:6], weight / G / DT * np.array([0.1, 0.0, -0.2]), atol=1e-3 * weight
    )


@pytest.mark.usefixtures("adjoints")
def test_gradients_against_differences():
    """Where the COM goes, and how fast, by all that it depends on."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    chain(builder)
    random = np.random.default_rng(3)
    v = 3.0 * random.normal(size=len(builder.joint_qd))
    step = Recorded(builder, v=v, dt=DT)
    for rig in (step.taped, step.plain):  # without efforts there is a kink in what opposes them
        rig.control.joint_f.assign(np.r_[np.zeros(6), 5.0, -4.0, 3.0, 2.0, -6.0].astype(np.float32))
    step.again()
    assert step.plain.solver.motion.flight.numpy().tolist() == [FLEW]
    seeds = {
        name: random.normal(size=getattr(step.taped.next, name).numpy().shape)
        for name in ("body_q", "joint_qd", "body_qd")
    }

    def loss(rig):
        return sum(float((seed * getattr(rig.next, name).numpy()).sum()) for name, seed in seeds.items())

    sizes = {
        "joint_q": 1e-2,
        "joint_qd": 1e-2,
        "body_f": 0.1,
        "joint_f": 0.1,
        "body_mass": 0.02,
        "body_com": 3e-3,
        "gravity": 1.0,
    }
    for name, size in sizes.items():
        expected, found = step.difference(name, loss, size=size), step.gradient(name, **seeds)
        found = step.across_quaternions(name, found)
        assert np.abs(expected).max() > 1e-3, name
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max(), err_msg=name)
