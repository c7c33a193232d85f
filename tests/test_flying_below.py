"""What flies on a joint below another body goes as by itself, however that turns and moves (F 1.3)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, tight
from test_gradients import Recorded

from newton_sap.reference import ReferenceSolver

DTS = [1.0 / 60.0, 1.0 / 240.0]


def pair(kind="free", gravity=0.0, carrier="free"):
    """A body that turns about z, and half a metre beside it one that is thrown, on a joint that ties nothing."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -gravity))
    above = link(builder, 1.0, 0.1, is_kinematic=carrier == "kinematic")
    below = link(builder, 2.0, [0.02, 0.03, 0.04])
    root = builder.add_joint_free(above)
    if kind == "free":
        joint = builder.add_joint_free(below, parent=above)
    else:
        joint = builder.add_joint_distance(above, below, min_distance=-1.0, max_distance=-1.0)
    builder.joint_q[-7:] = [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    builder.add_articulation([root, joint])
    return builder


def throw(rig, *twists):
    """Let bodies have velocities ``(v_C, w)``."""
    rig.state.body_qd.assign(np.array(twists, np.float32))
    newton.eval_ik(rig.model, rig.state, rig.state.joint_q, rig.state.joint_qd)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    return rig


@pytest.mark.parametrize("dt", DTS)
@pytest.mark.parametrize("spin", [2.0, 12.0, 18.0])
@pytest.mark.parametrize("kind", ["free", "distance"])
def test_it_flies_straight_on(kind, spin, dt):
    """From 1 m/s it came to 2300 m/s within three seconds beside 18 rad/s, and to 30 beside 12."""
    rig = throw(Rig(pair(kind), dt), [0, 0, 0, 0, 0, spin], [1, 0, 0.5, 0, 0, 0]).run(round(3.0 / dt))
    np.testing.assert_allclose(rig.body_qd[1], [1, 0, 0.5, 0, 0, 0], atol=2e-4)
    np.testing.assert_allclose(rig.body_q[1, :3], [3.5, 0.0, 1.5], atol=1e-3)
    np.testing.assert_allclose(rig.body_qd[0], [0, 0, 0, 0, 0, spin], atol=1e-3)


@pytest.mark.parametrize("dt", DTS)
def test_it_tumbles_as_by_itself(dt):
    """A thrown body that spins about no principal axis, in company and alone, under gravity."""
    twist = [1.0, -0.5, 3.0, 2.0, 5.0, 1.0]
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 2.0, [0.02, 0.03, 0.04])
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_q[-7:-4] = [0.5, 0.0, 0.0]
    alone = throw(Rig(builder, dt), twist).run(round(1.0 / dt))
    both = throw(Rig(pair(gravity=G), dt), [0, 0, 0, 0, 7.0, 6.0], twist).run(round(1.0 / dt))
    np.testing.assert_allclose(both.body_q[1, :3], alone.body_q[0, :3], atol=1e-4)
    np.testing.assert_allclose(both.body_qd[1, :3], alone.body_qd[0, :3], atol=1e-3)
    assert np.linalg.norm(both.body_qd[1, 3:]) == pytest.approx(np.linalg.norm(alone.body_qd[0, 3:]), rel=0.02)


@pytest.mark.parametrize("dt", DTS)
def test_beside_a_turntable_it_stays(dt):
    """A kinematic body turns as its owner has it turn; what flies on a joint below stays where it was thrown from, or flies on."""
    spin = 6.0
    rig = throw(Rig(pair(carrier="kinematic"), dt), [0.3, 0, 0, 0, 0, spin], [0.2, 0.1, 0, 0, 0, 0])
    for step in range(1, round(1.0 / dt) + 1):
        rig.run()
        angle = 0.5 * spin * step * dt
        q = rig.state.joint_q.numpy()
        q[:7] = [0.3 * step * dt, 0.0, 0.0, 0.0, 0.0, np.sin(angle), np.cos(angle)]
        rig.state.joint_q.assign(q)
        newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
        np.testing.assert_allclose(rig.body_q[1, :3], [0.5 + 0.2 * step * dt, 0.1 * step * dt, 0.0], atol=1e-4)
    np.testing.assert_allclose(rig.body_qd[1, :3], [0.2, 0.1, 0.0], atol=1e-3)


def tied_pairs(dt, seed, count=20):
    """Worlds, each with two boxes that a joint keeps within 0.6 m, thrown and spun."""
    rng = np.random.default_rng(seed)
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for _ in range(count):
        world = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
        bodies = []
        for _ in range(2):
            half = rng.uniform(0.05, 0.1, 3)
            mass = 8000.0 * half.prod()
            spread = [half[1] ** 2 + half[2] ** 2, half[0] ** 2 + half[2] ** 2, half[0] ** 2 + half[1] ** 2]
            bodies.append(link(world, mass, mass / 3.0 * np.array(spread)))
        anchors = [wp.transform(wp.vec3(*rng.uniform(-0.15, 0.15, 3)), wp.quat_identity()) for _ in bodies]
        root = world.add_joint_free(bodies[0])
        tie = world.add_joint_distance(
            bodies[0], bodies[1], parent_xform=anchors[0], child_xform=anchors[1], min_distance=-1.0, max_distance=0.6
        )
        world.joint_q[-7:-4] = [0.4, 0.1, 0.0]
        world.add_articulation([root, tie])
        builder.add_world(world)
    twists = np.concatenate([rng.normal(size=(2 * count, 3)), 3.0 * rng.normal(size=(2 * count, 3))], axis=1)
    return throw(Rig(builder, dt), *twists)


def momentum(rig):
    """Linear momentum of each pair [N s]."""
    p = rig.model.body_mass.numpy()[:, None] * rig.body_qd[:, :3]
    return p.reshape(-1, 2, 3).sum(axis=1)


@pytest.mark.parametrize("dt", DTS)
def test_tied_boxes_stay_slow(dt):
    """Of forty such pairs twenty-two overflowed within 2.5 s at 60 Hz; momentum stays what it was."""
    rig = tied_pairs(dt, 0)
    before, energy = momentum(rig), rig.solver.report(rig.state).kinetic_energy
    rig.run(round(2.5 / dt))
    np.testing.assert_allclose(momentum(rig), before, atol=2e-3 * np.abs(before).max())
    assert (rig.solver.report(rig.state).kinetic_energy < 1.05 * energy).all()
    assert rig.solver.report().healthy


def mechanism(kinematic=False):
    """A base with an arm, on that a body on a free joint, and on that an arm again."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    base = link(builder, 3.0, 0.1, is_kinematic=kinematic)
    arm, stone, tail = link(builder, 1.0, 0.05), link(builder, 2.0, [0.02, 0.03, 0.04]), link(builder, 0.5, 0.01)
    askew = wp.transform((0.2, 0.1, -0.1), wp.quat_rpy(0.3, -0.5, 0.2))
    joints = [
        builder.add_joint_free(base),
        builder.add_joint_revolute(base, arm, axis=(0, 0.6, 0.8), child_xform=wp.transform((-0.3, 0, 0))),
        builder.add_joint_free(stone, parent=arm, parent_xform=askew, child_xform=askew),
        builder.add_joint_revolute(stone, tail, axis=(1, 0, 0), child_xform=wp.transform((0, 0, 0.2))),
    ]
    builder.add_articulation(joints)
    return builder


@pytest.mark.parametrize("kinematic", [False, True])
def test_steps_equal_the_reference_and_explain_themselves(kinematic):
    """Of free and of prescribed bases; inverse dynamics finds nothing that is not there."""
    rig = Rig(mechanism(kinematic), 1.0 / 60.0, **tight())
    throw(rig, *(np.random.default_rng(1).normal(size=(4, 6)) * [1, 1, 1, 4, 4, 4]))
    for _ in range(5):
        expected = ReferenceSolver(rig.model, **tight()).step(rig.state, rig.control, None, rig.dt)
        rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt)
        np.testing.assert_allclose(rig.next.joint_qd.numpy(), expected.joint_qd, atol=2e-5)
        np.testing.assert_allclose(rig.next.joint_q.numpy(), expected.joint_q, atol=2e-6)
        found = rig.solver.inverse_dynamics(rig.state, rig.next, rig.control, None, rig.dt)
        assert np.abs(found.unexplained_force).max() < 1e-2
        rig.state, rig.next = rig.next, rig.state


@pytest.mark.usefixtures("adjoints")
@pytest.mark.parametrize("kinematic", [False, True])
def test_gradients_against_differences(kinematic):
    """Where it goes, and how fast, as seen from the world and from the body that it flies below."""
    random = np.random.default_rng(3)
    builder = mechanism(kinematic)
    step = Recorded(builder, v=3.0 * random.normal(size=len(builder.joint_qd)), dt=0.02)
    names = ("joint_q", "joint_qd", "body_q", "body_qd")
    seeds = {name: random.normal(size=getattr(step.taped.next, name).numpy().shape) for name in names}

    def loss(rig):
        return sum(float((seed * getattr(rig.next, name).numpy()).sum()) for name, seed in seeds.items())

    for name, size in {"joint_q": 1e-2, "joint_qd": 1e-2, "body_f": 0.1, "body_mass": 0.02, "gravity": 1.0}.items():
        expected, found = step.difference(name, loss, size=size), step.gradient(name, **seeds)
        found = step.across_quaternions(name, found)
        assert np.abs(expected).max() > 1e-3, name
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max(), err_msg=name)
