"""Limits, drives, dry friction and passive forces along the axes of joints that close a loop."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from loop_scenes import ALL_MAKERS, furnish, joined, start_like
from rig import Rig, link, put, tight, weightless

from newton_sap.reference import ReferenceSolver
from newton_sap.reference.couplings import Pair, held_rotation, held_translation, loop_axes

Axis = newton.ModelBuilder.JointDofConfig
X, Y, Z = newton.Axis.X, newton.Axis.Y, newton.Axis.Z
POSITION, VELOCITY, BOTH = (
    int(newton.JointTargetMode.POSITION), int(newton.JointTargetMode.VELOCITY),
    int(newton.JointTargetMode.POSITION_VELOCITY),
)  # fmt: skip
KINDS = [kind for kind in ALL_MAKERS if kind != "fixed"]
COMPARED = ["revolute", "cylindrical", "planar", "left_gimbal", "slanted", "ball"]
"""The joints of the longer comparisons: each way to measure a coordinate."""
LAWS = {
    "limit": dict(limit_lower=-0.1, limit_upper=0.1, limit_ke=100.0, limit_kd=2.0),
    "position": dict(target_mode=POSITION, target_ke=60.0, target_kd=3.0, target_q=0.5),
    "velocity": dict(target_mode=VELOCITY, target_kd=5.0, target_qd=0.7, effort_limit=1.5),
    "both": dict(target_mode=BOTH, target_ke=40.0, target_kd=2.0, target_q=-0.3, target_qd=0.4),
    "friction": dict(friction=0.8),
    "passive": dict(stiffness=50.0, damping=0.5, rest_q=0.2),
    "armature": dict(armature=0.2),
    "velocity_limit": dict(velocity_limit=0.3),
}
BALL_GOAL = (0.2, -0.1, 0.15, math.sqrt(1.0 - 0.0725))
TIGHT = tight(max_iterations=20)


def columns_of(kind, law):
    """A law's values for a joint; the goals of a ball joint are quaternions, and it has no position limits."""
    columns = dict(LAWS[law])
    if kind == "ball":
        columns = {name: BALL_GOAL if name in ("target_q", "rest_q") else x for name, x in columns.items()}
    return columns


def thrown(kind, place, columns, seed=7, dt=0.001, **options):
    """The tree and the closed loop of the same joint, at the same random pose and velocity."""
    rng = np.random.default_rng(seed)
    tree = Rig(joined(kind, place, False, **columns), dt, **options)
    joint = tree.model.joint_count - 1
    start, end = tree.model.joint_q_start.numpy()[joint : joint + 2]
    q = tree.q
    turn = rng.uniform(-0.5, 0.5, end - start)
    q[start:end] = [*turn[:3], math.sqrt(1.0 - turn[:3] @ turn[:3])] if kind == "ball" else turn
    put(tree.state.joint_q, q)
    put(tree.state.joint_qd, rng.uniform(-1.0, 1.0, tree.model.joint_dof_count))
    newton.eval_fk(tree.model, tree.state.joint_q, tree.state.joint_qd, tree.state)
    loop = Rig(joined(kind, place, True, **columns), dt, **options)
    start_like(loop, tree)
    return tree, loop


def axes_of(rig, array):
    """The part of a coordinate or dof array that belongs to the last joint."""
    starts = rig.model.joint_q_start if array is rig.state.joint_q else rig.model.joint_qd_start
    return array.numpy()[starts.numpy()[-2] :].astype(float)


# Against the same joint in the tree


def difference(kind, place, columns, dt, time=0.15, force=(), **options):
    """How far a loop and a tree are apart after a while, and how far both are from a joint that nothing acts on."""
    tree, loop = thrown(kind, place, columns, dt=dt, **options)
    plain, _ = thrown(kind, place, {}, dt=dt, **options)
    for rig in (tree, loop):
        efforts = np.zeros(rig.model.joint_dof_count)
        start = rig.model.joint_qd_start.numpy()[-2]
        efforts[start:] = [*force, 0, 0, 0][: len(efforts) - start]
        put(rig.control.joint_f, efforts)
    for rig in (tree, loop, plain):
        rig.run(round(time / dt))
    assert len(loop.solver.topology.loop_joints) == 1
    assert loop.solver.report().healthy
    return np.abs(loop.body_q[:, :3] - tree.body_q[:, :3]).max(), np.abs(tree.body_q - plain.body_q).max()


def assert_same_motion(*args, **options):
    """The difference is small, falls with the step as first-order methods do, and the joint's laws matter."""
    (coarse, effect), (fine, _) = (difference(*args, dt=dt, **options) for dt in (2e-3, 1e-3))
    assert fine < 3e-3
    assert fine < max(0.6 * coarse, 3e-5)
    assert effect > 4.0 * coarse


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        # The usual run takes half of them, with each kind and each law.
        pytest.param(kind, law, marks=() if (i + j) % 2 == 0 else pytest.mark.slow)
        for i, kind in enumerate(COMPARED)
        for j, law in enumerate(LAWS)
        if (kind, law) != ("ball", "limit")
    ],
)
def test_loop_axis_moves_like_the_axis_in_the_tree(kind, law):
    """Whatever acts along an axis acts alike on a joint of the tree and on one that closes a loop."""
    assert_same_motion(kind, "two_articulations", columns_of(kind, law))


@pytest.mark.parametrize("kind", COMPARED)
def test_loop_effort_acts_like_the_effort_in_the_tree(kind):
    """``joint_f`` along an axis of a loop joint pushes both bodies as it does in the tree."""
    assert_same_motion(kind, "one_articulation", {}, force=(1.5, -1.0, 2.0))


@pytest.mark.parametrize("options", [dict(drive_integration="explicit"), dict(spring_integration="explicit")])
@pytest.mark.parametrize("kind", ["planar", "ball"])
def test_explicit_loop_forces_act_like_those_in_the_tree(kind, options):
    """Drives and springs taken at the start of the step act alike too."""
    assert_same_motion(kind, "world", columns_of(kind, "both") | columns_of(kind, "passive"), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_loop_coordinates_are_those_of_the_tree(kind):
    """The published coordinates and rates of a loop joint are those that the joint has in the tree."""
    tree, loop = thrown(kind, "two_articulations", columns_of(kind, "friction"))
    for rig in (tree, loop):
        rig.run(40)
    q, expected = axes_of(loop, loop.state.joint_q), axes_of(tree, tree.state.joint_q)
    if kind == "ball":
        q = q * np.sign(q @ expected)
    np.testing.assert_allclose(q, expected, atol=1e-3)
    np.testing.assert_allclose(axes_of(loop, loop.state.joint_qd), axes_of(tree, tree.state.joint_qd), atol=2e-2)


# Against the reference


def everything(kind, rng):
    """Every law at once, with values of their own on each axis."""
    count = {"universal": 2, "cylindrical": 2, "slanted": 2, "revolute": 1, "prismatic": 1}.get(kind, 3)
    coords = 4 if kind == "ball" else count
    columns = dict(
        limit_lower=rng.uniform(-0.5, 0.0, count), limit_upper=rng.uniform(0.0, 0.5, count),
        limit_ke=rng.uniform(1e2, 1e4, count), limit_kd=rng.uniform(0.0, 50.0, count),
        target_mode=rng.choice([0, POSITION, VELOCITY, BOTH], count), target_ke=rng.uniform(0.0, 1e3, count),
        target_kd=rng.uniform(0.0, 50.0, count), target_q=rng.uniform(-1.0, 1.0, coords),
        target_qd=rng.uniform(-1.0, 1.0, count), effort_limit=rng.uniform(0.5, 20.0, count),
        velocity_limit=rng.uniform(0.2, 1.0, count), friction=rng.uniform(0.0, 1.0, count),
        stiffness=rng.uniform(0.0, 50.0, count), damping=rng.uniform(0.0, 1.0, count),
        rest_q=rng.uniform(-1.0, 1.0, coords), armature=rng.uniform(0.0, 0.1, count),
    )  # fmt: skip
    if kind == "ball":
        for name in ("target_q", "rest_q"):
            columns[name] = columns[name] / np.linalg.norm(columns[name])
    return columns


@pytest.mark.parametrize(
    ("options", "seed"),
    [({}, 0), (dict(preset="drake"), 1), (dict(drive_integration="explicit", spring_integration="explicit"), 2)],
)
@pytest.mark.parametrize("kind", [*KINDS, "fixed"])
def test_loop_step_equals_the_reference(kind, options, seed):
    """All rows of a loop joint, held and free directions together, agree with the plain NumPy step."""
    rng = np.random.default_rng(seed)
    columns = {} if kind == "fixed" else everything(kind, rng)
    place = ("world", "two_articulations", "one_articulation")[seed]
    _, loop = thrown(kind, place, columns, seed=seed, dt=0.005, **options, **TIGHT)
    put(loop.control.joint_f, rng.uniform(-1.0, 1.0, loop.model.joint_dof_count))
    truth = ReferenceSolver(loop.model, **options, **TIGHT).step(loop.state, loop.control, None, 0.005)
    assert len(truth.couplers) > 5
    loop.run(1)
    free = ~np.isin(np.arange(len(truth.v)), np.arange(loop.model.joint_qd_start.numpy()[-2], len(truth.v)))
    seen = loop.solver.inspect().v
    assert np.linalg.norm(seen[free] - truth.v[free]) < 1e-9 * np.linalg.norm(truth.v[free])
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        value = getattr(loop.state, name).numpy()
        np.testing.assert_allclose(value, getattr(truth, name), rtol=0.0, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_loop_rows_are_optimal(kind):
    """KKT: the momentum that the step adds is the rows' impulse, and each impulse is what its law says."""
    rng = np.random.default_rng(11)
    _, loop = thrown(kind, "one_articulation", everything(kind, rng), seed=3, dt=0.005)
    result = ReferenceSolver(loop.model, **TIGHT).step(loop.state, loop.control, None, 0.005)
    ((problem, solution),) = result.solutions
    balance = problem.A @ (solution.v - problem.v_star)
    for row in result.couplers:
        vc = float(row["J"][0] @ result.v + row["bias"][0])
        assert row["gamma"] == pytest.approx(np.clip((row["v_hat"] - vc) / row["R"], row["lo"], row["hi"]), abs=1e-12)
        balance = balance - row["J"][0, problem.dofs] * row["gamma"]
    assert np.linalg.norm(balance) < 1e-8 * np.linalg.norm(problem.A @ solution.v)


@pytest.mark.parametrize("kind", KINDS)
def test_rate_of_a_loop_coordinate_is_its_derivative(kind):
    """Finite differences of the measured coordinate along a motion that keeps the joint closed give J v."""
    tree, loop = thrown(kind, "two_articulations", {}, seed=5)
    solver, h = ReferenceSolver(loop.model), 1e-6
    m = solver.read(loop.state, loop.control)
    v = solver.to_sap(m, m.q, m.qd)
    joint = loop.model.joint_count - 1

    def coordinates(time):
        kin = solver.kinematics(m, solver.integrate(m, v, v, time), v)
        return kin, loop_axes(Pair(m, kin, joint))

    (_, before), (kin, now), (_, after) = (coordinates(t) for t in (-h, 0.0, h))
    for i, (x, y, z) in enumerate(zip(before, now, after, strict=True)):
        if kind != "ball":  # a rotation vector's derivative is not its angular velocity
            assert (z.q - x.q) / (2.0 * h) == pytest.approx(y.J @ v, abs=2e-4), i
            assert y.J @ v == pytest.approx(axes_of(tree, tree.state.joint_qd)[i], abs=1e-4)
    assert len(now) == len(axes_of(loop, loop.state.joint_qd))


@pytest.mark.parametrize("place", ["world", "two_articulations", "one_articulation"])
@pytest.mark.parametrize("kind", [*KINDS, "fixed"])
def test_foreseen_acceleration_is_the_second_derivative_of_the_error(kind, place):
    """Second differences of each held error while all rates are kept, at rates that keep the joint closed."""
    _, loop = thrown(kind, place, {}, seed=6)
    solver, h = ReferenceSolver(loop.model), 1e-3
    m = solver.read(loop.state, loop.control)
    v = solver.to_sap(m, m.q, m.qd)
    size = 3.0  # of the rates

    def held(time):
        kin = solver.kinematics(m, solver.integrate(m, size * v, size * v, time), size * v)
        pair = Pair(m, kin, loop.model.joint_count - 1)
        rows = [*held_translation(pair, size * v), *held_rotation(pair, size * v)]
        return np.array([[gap, acceleration] for _J, gap, acceleration, *_ in rows]).reshape(-1, 2)

    before, now, after = (held(time) for time in (-h, 0.0, h))
    bends = (after[:, 0] - 2.0 * now[:, 0] + before[:, 0]) / h**2
    np.testing.assert_allclose(now[:, 1], bends, atol=1e-4 * max(1.0, np.abs(bends).max(initial=0.0)))
    if place != "world" and kind != "gantry":  # which does not turn
        assert np.abs(bends).max() > 0.1


# Closed forms


def held_by_loop(maker, dt, mass=2.0, requires_grad=False, **columns):
    """A floating body that one loop joint holds to the world: six coordinates of its own, then the loop joint's."""
    builder = weightless()
    body, base = link(builder, mass, 0.1), link(builder)
    axes = [Axis(axis=e) for e in (X, Y, Z)]
    fixed = builder.add_joint_fixed(-1, base)
    builder.add_articulation([fixed, builder.add_joint_d6(base, body, linear_axes=axes, angular_axes=axes)])
    furnish(builder, maker(builder, -1, body), **columns)
    return Rig(builder.finalize(requires_grad=requires_grad), dt, **TIGHT)


def slider(dt, mass=2.0, **columns):
    """A body on a slide along x that closes a loop."""
    return held_by_loop(lambda b, p, c: b.add_joint_prismatic(p, c, axis=X), dt, mass, **columns)


def wheel(dt=0.005, **columns):
    """A wheel on an axle along z that closes a loop."""
    return held_by_loop(lambda b, p, c: b.add_joint_revolute(p, c, axis=Z), dt, **columns)


def test_driven_slider():
    """v = (m v* + dt (kp (q_t - q0) + kd v_t)) / (m + dt (dt kp + kd)), step after step."""
    dt, mass, kp, kd, goal, rate = 0.01, 2.0, 300.0, 25.0, 0.4, 0.2
    rig = slider(dt, mass, target_mode=BOTH, target_ke=kp, target_kd=kd, target_q=goal, target_qd=rate)
    q, v = 0.0, 0.0
    for _ in range(60):
        v = (mass * v + dt * (kp * (goal - q) + kd * rate)) / (mass + dt * (dt * kp + kd))
        q += dt * v
        rig.run(1)
        assert rig.body_q[0, 0] == pytest.approx(q, abs=1e-6)
        assert rig.body_qd[0, 0] == pytest.approx(v, abs=1e-5)
    assert rig.q[6] == pytest.approx(q, abs=1e-6)
    assert rig.v[6] == pytest.approx(v, abs=1e-5)


def test_drive_of_a_slider_is_clamped():
    """A saturated drive gives dt e / m per step."""
    rig = slider(0.01, 2.0, target_mode=VELOCITY, target_kd=1e3, target_qd=10.0, effort_limit=4.0).run(30)
    assert rig.body_qd[0, 0] == pytest.approx(30 * 0.01 * 4.0 / 2.0, rel=1e-5)


def test_limit_of_a_slider_gives_way_by_its_compliance():
    """A limit under a load F gives way by F / k; the other one does not act."""
    k, load = 5e3, 12.0
    rig = slider(0.005, limit_lower=-0.2, limit_upper=0.1, limit_ke=k, limit_kd=200.0)
    rig.push([[load, 0, 0, 0, 0, 0]])
    rig.run(400)
    assert rig.body_q[0, 0] == pytest.approx(0.1 + load / k, rel=1e-4)
    rig.push([[-load, 0, 0, 0, 0, 0]])
    rig.run(400)
    assert rig.body_q[0, 0] == pytest.approx(-0.2 - load / k, rel=1e-4)


def test_dry_friction_of_a_slider():
    """Dry friction f holds F < f creeping at sigma dt F / m, else the body accelerates by (F - f) / m."""
    dt, mass, bound = 0.01, 2.0, 3.0
    rig = slider(dt, mass, friction=bound)
    rig.push([[2.0, 0, 0, 0, 0, 0]])
    assert rig.run(20).body_qd[0, 0] == pytest.approx(1e-3 * dt * 2.0 / mass, rel=1e-3)
    rig.push([[5.0, 0, 0, 0, 0, 0]])
    before = rig.body_qd[0, 0]
    assert rig.run(50).body_qd[0, 0] - before == pytest.approx(50 * dt * (5.0 - bound) / mass, rel=1e-3)


def test_spring_and_damper_of_a_slider():
    """One implicit step of a spring and damper; at rest the load over the stiffness."""
    dt, mass, k, c, rest = 0.01, 2.0, 80.0, 6.0, 0.3
    rig = slider(dt, mass, stiffness=k, damping=c, rest_q=rest).run(1)
    assert rig.body_qd[0, 0] == pytest.approx(dt * k * rest / (mass + dt * c + dt * dt * k), rel=1e-5)
    rig.push([[4.0, 0, 0, 0, 0, 0]])
    assert rig.run(800).body_q[0, 0] == pytest.approx(rest + 4.0 / k, rel=1e-4)


def test_velocity_limit_and_armature_of_a_slider():
    """Armature adds to the mass; the velocity limit holds against the force."""
    rig = slider(0.01, 2.0, armature=1.0, velocity_limit=0.5)
    rig.push([[3.0, 0, 0, 0, 0, 0]])
    assert rig.run(20).body_qd[0, 0] == pytest.approx(20 * 0.01 * 3.0 / 3.0, rel=1e-4)
    assert rig.run(100).body_qd[0, 0] == pytest.approx(0.5, rel=1e-3)


def floating_pair(maker, dt=0.004, **columns):
    """Two turned, offset floating bodies tied by one loop joint."""
    builder = weightless()
    bodies = [link(builder, 1.0 + 2.0 * i, (0.02, 0.03, 0.04), com=wp.vec3(0.02, -0.01, 0.03)) for i in range(2)]
    for body in bodies:
        builder.add_articulation([builder.add_joint_free(body)])
    joint = maker(builder, *bodies, parent_xform=wp.transform((0.1, 0.0, 0.0), wp.quat_rpy(0.3, 0.2, -0.1)))
    furnish(builder, joint, **columns)
    rig = Rig(builder, dt)
    put(rig.state.joint_q, [0, 0, 1, 0, 0, 0, 1])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    start = rig.body_q
    frame = wp.transform(*start[0]) * wp.transform((0.1, 0.0, 0.0), wp.quat_rpy(0.3, 0.2, -0.1))
    put(rig.state.joint_q, [*start[0], *frame])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    return rig


def momentum(rig):
    """Linear momentum, and angular momentum about the origin."""
    linear, angular = np.zeros(3), np.zeros(3)
    mass, inertia, com = (getattr(rig.model, f"body_{n}").numpy().astype(float) for n in ("mass", "inertia", "com"))
    for b in range(rig.model.body_count):
        R = np.array(wp.quat_to_matrix(wp.quat(*rig.body_q[b, 3:]))).reshape(3, 3)
        x = rig.body_q[b, :3] + R @ com[b]
        linear += mass[b] * rig.body_qd[b, :3]
        angular += np.cross(x, mass[b] * rig.body_qd[b, :3]) + R @ inertia[b] @ R.T @ rig.body_qd[b, 3:]
    return linear, angular


@pytest.mark.parametrize("kind", ["prismatic", "revolute", "planar", "gimbal", "ball"])
def test_drive_of_a_floating_pair_conserves_momentum(kind):
    """A drive between two floating bodies moves them apart and leaves their momentum at zero."""
    goal = BALL_GOAL if kind == "ball" else 0.3
    rig = floating_pair(ALL_MAKERS[kind], target_mode=POSITION, target_ke=50.0, target_kd=8.0, target_q=goal)
    rig.run(500)
    reached = axes_of(rig, rig.state.joint_q)
    np.testing.assert_allclose(np.abs(reached) if kind == "ball" else reached, np.abs(goal), atol=2e-3)
    linear, angular = momentum(rig)
    np.testing.assert_allclose(linear, 0.0, atol=2e-5)
    np.testing.assert_allclose(angular, 0.0, atol=2e-4)


def test_driven_pair_parts_by_the_reduced_mass():
    """A saturated drive e accelerates the slide between masses m1 and m2 by e (1 / m1 + 1 / m2)."""
    builder = weightless()
    bodies = [link(builder, mass, 0.1) for mass in (1.0, 3.0)]
    for body in bodies:
        builder.add_articulation([builder.add_joint_free(body)])
    joint = builder.add_joint_prismatic(*bodies, axis=X)
    furnish(builder, joint, target_mode=VELOCITY, target_kd=1e3, target_qd=9.0, effort_limit=2.0)
    rig = Rig(builder, 0.005).run(40)
    assert rig.v[-1] == pytest.approx(40 * 0.005 * 2.0 * (1.0 + 1.0 / 3.0), rel=1e-5)
    np.testing.assert_allclose(rig.body_qd[:, 0], [-0.2 * 2.0, 0.2 * 2.0 / 3.0], rtol=1e-5)


@pytest.mark.parametrize("integration", ["implicit", "explicit"])
@pytest.mark.parametrize("kind", ["cylindrical", "left_gimbal", "ball"])
def test_drive_effort_of_a_loop_joint_is_observed(kind, integration):
    """``joint_drive_f`` holds the clamped PD law of each axis, at the end or at the start of the step."""
    dt = 0.002
    columns = columns_of(kind, "both") | dict(effort_limit=3.0)
    _, loop = thrown(kind, "two_articulations", columns, dt=dt, drive_integration=integration)
    seen = loop.solver.observables(["joint_drive_f"])
    truth = ReferenceSolver(loop.model, drive_integration=integration).step(loop.state, loop.control, None, dt)
    loop.solver.step(loop.state, loop.next, loop.control, None, dt, observables=seen)
    efforts = seen.joint_drive_f.numpy()[loop.model.joint_qd_start.numpy()[-2] :]
    if integration == "implicit" or kind == "ball":
        expected = [row["gamma"] / dt for row in truth.couplers if row["kind"] == "drive"]
    else:
        expected = [row["lo"] / dt for row in truth.couplers if row["kind"] == "effort"]
    np.testing.assert_allclose(efforts, expected, rtol=1e-5)
    assert np.abs(efforts).max() <= 3.0 * (1.0 + 1e-6)
    assert np.abs(efforts).min() > 1e-3


# Turns


def test_angle_of_a_loop_joint_counts_turns():
    """A wheel that spins on its loop joint has a continuous angle over several turns."""
    rig = wheel()
    put(rig.state.joint_qd, [0, 0, 0, 0, 0, 5.0])
    angles = [rig.run(1).q[6] for _ in range(800)]
    np.testing.assert_allclose(np.diff(angles), 5.0 * 0.005, atol=1e-4)
    assert angles[-1] == pytest.approx(20.0, rel=1e-3)


@pytest.mark.parametrize("speed", [700.0, -1000.0, 4000.0])
def test_angle_of_a_fast_loop_joint_counts_whole_turns(speed):
    """More than half a turn per step, and more than three, go on in the sense of the spin."""
    rig = wheel()
    put(rig.state.joint_qd, [0, 0, 0, 0, 0, speed])
    angles = [rig.run(1).q[6] for _ in range(20)]
    np.testing.assert_allclose(np.diff(angles), speed * 0.005, rtol=1e-4)


@pytest.mark.usefixtures("adjoints")
def test_a_tape_counts_no_turns_of_its_own():
    """A step that is laid on a tape leaves the angle that it found."""
    angles = []
    for grad in (False, True):
        rig = wheel(requires_grad=grad)
        put(rig.state.joint_qd, [0, 0, 0, 0, 0, 1000.0])
        with wp.Tape():
            rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt)
        angles.append(rig.next.joint_q.numpy())
    np.testing.assert_array_equal(angles[0], angles[1])
    assert angles[0][6] == pytest.approx(5.0, rel=1e-4)


@pytest.mark.parametrize("goal", [3.5, -4.0, 9.0])
def test_position_drive_of_a_loop_joint_passes_half_a_turn(goal):
    """A position drive reaches a goal beyond half a turn, by the way that its sign says."""
    rig = wheel(target_mode=POSITION, target_ke=20.0, target_kd=4.0, target_q=goal).run(800)
    assert rig.q[6] == pytest.approx(goal, abs=1e-3)


def test_limit_of_a_loop_joint_beyond_half_a_turn():
    """A limit beyond half a turn stops the wheel there, and not at the angle it is seen at."""
    rig = wheel(limit_lower=-1.0, limit_upper=4.0, limit_ke=1e3, limit_kd=50.0)
    rig.push([[0, 0, 0, 0, 0, 1.0]])
    assert rig.run(1500).q[6] == pytest.approx(4.0 + 1.0 / 1e3, abs=1e-4)


def test_turn_is_read_from_the_state():
    """The entry of joint_q says which turn is meant; the nearest one to it counts."""
    rig = wheel(stiffness=2.0)
    for remembered, turns in ((0.0, 0), (6.0, 1), (-13.0, -2)):
        put(rig.state.joint_q, [0, 0, 0, 0, 0, 0, remembered])
        put(rig.state.joint_qd, np.zeros(7))
        expected = -0.005 * 2.0 * 2.0 * math.pi * turns / (0.1 + 0.005**2 * 2.0)
        assert rig.run(1).v[5] == pytest.approx(expected, abs=1e-5)


# Contract


def test_loop_laws_are_live():
    """A limit and a drive set on a bare loop joint at run time act at the next step, also in a replayed graph."""
    rig = slider(0.01).run(2)
    with wp.ScopedCapture() as capture:
        rig.run(2)
    k = rig.model.joint_qd_start.numpy()[-2]
    for name, value in dict(target_mode=VELOCITY, target_kd=200.0, limit_upper=0.05, limit_ke=1e6).items():
        column = getattr(rig.model, f"joint_{name}")
        values = column.numpy()
        values[k] = value
        column.assign(values)
    put(rig.control.joint_target_qd, [0, 0, 0, 0, 0, 0, 0.5])
    for _ in range(2):
        wp.capture_launch(capture.graph)
    assert rig.body_qd[0, 0] == pytest.approx(0.5 * (1.0 - 2.0**-4), rel=1e-4)
    for _ in range(50):
        wp.capture_launch(capture.graph)
    assert rig.body_q[0, 0] == pytest.approx(0.05, abs=2e-3)


def test_disabled_loop_joint_has_no_laws():
    """A loop joint that is switched off neither drives nor limits."""
    rig = slider(0.01, target_mode=VELOCITY, target_kd=50.0, target_qd=1.0, stiffness=10.0, rest_q=1.0)
    rig.model.joint_enabled.assign(np.array([True, True, False]))
    np.testing.assert_array_equal(rig.run(5).v[:6], 0.0)


def test_dependent_axes_of_a_loop_joint_are_refused():
    """Linear axes along one line, and angular axes that are not orthogonal, are named."""
    for axes, message in (
        (dict(linear_axes=[Axis(axis=X), Axis(axis=X)]), "linear axes of joint 2 .* dependent"),
        (dict(angular_axes=[Axis(axis=X), Axis(axis=(0.6, 0.8, 0.0))]), "angular axes of joint 2 .* not orthonormal"),
    ):
        with pytest.raises(ValueError, match=message):
            held_by_loop(lambda b, p, c, axes=axes: b.add_joint_d6(p, c, **axes), 0.01)


def test_gimbal_lock_stays_finite():
    """With the middle angle at a quarter turn the outer axes have no rows, and nothing blows up."""
    rig = floating_pair(
        ALL_MAKERS["gimbal"], target_mode=POSITION, target_ke=20.0, target_kd=4.0, target_q=(0.3, math.pi / 2, -0.2)
    )
    rig.run(800)
    assert rig.solver.report().healthy
    assert axes_of(rig, rig.state.joint_q)[1] == pytest.approx(math.pi / 2, abs=2e-3)
    assert np.isfinite(rig.body_q).all() and np.abs(rig.body_qd).max() < 0.1


@pytest.mark.parametrize("integration", ["implicit", "explicit"])
def test_exact_gimbal_lock_stays_finite(integration):
    """Where the outer axes coincide to the last bit their rates and efforts are zero, not the quotient of zeros."""
    builder = weightless()
    base, arm = link(builder, 1.0), link(builder, 1.0)
    for body in (base, arm):
        builder.add_articulation([builder.add_joint_free(body)])
    axes = [Axis(axis=a, target_ke=1.0, target_kd=0.1, actuator_mode=POSITION) for a in (X, Y, Z)]
    builder.add_joint_d6(base, arm, angular_axes=axes)
    rig = Rig(
        builder, 0.01, q=[*np.zeros(6), 1.0, *np.zeros(3), *[0.5] * 4, *np.zeros(3)], drive_integration=integration
    )
    observables = rig.solver.observables({rig.solver.ObservableKind.JOINT_DRIVE_F})
    rig.solver.step(rig.state, rig.state, None, None, 0.01, observables=observables)
    assert np.isfinite(rig.state.joint_qd.numpy()).all()
    assert np.isfinite(observables.joint_drive_f.numpy()).all()
    assert abs(observables.joint_drive_f.numpy()[-2]) > 1.0  # of the middle axis, a quarter turn away


@pytest.mark.filterwarnings("ignore:Adding a .* joint between parent -1")
@pytest.mark.parametrize("kind", ["fixed", "prismatic"])
def test_a_loop_does_not_depend_on_the_worlds_axes(kind):
    """Where it competes with a limit that the step finds violated, and the whole scene is turned."""
    rates = []
    for u in ((0, 0, 1), (1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 2, 3)):
        u = np.array(u, float) / np.linalg.norm(u)
        turn = wp.quat_between_vectors(wp.vec3(0.0, 0.0, 1.0), wp.vec3(*u))
        builder = weightless()
        body = link(builder)
        hinge = builder.add_joint_revolute(
            -1, body, parent_xform=wp.transform((0, 0, 0), turn), axis=Z, limit_lower=-1.0, limit_upper=0.0, limit_ke=1e8
        )  # fmt: skip
        builder.add_articulation([hinge])
        closed = wp.quat_inverse(turn * wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.02)) * turn
        at = dict(parent_xform=wp.transform((0, 0, 0), turn), child_xform=wp.transform((0, 0, 0), closed))
        if kind == "fixed":
            builder.add_joint_fixed(-1, body, **at)
        else:
            builder.add_joint_prismatic(-1, body, axis=X, **at)
        rates.append(Rig(builder, 0.01, q=[0.02]).run().v[0])
    assert abs(rates[0]) > 0.1
    np.testing.assert_allclose(rates, rates[0], rtol=1e-3)
