"""Energy and momentum of a state, as ``solver.report(state)`` gives them, against closed forms and the mass matrix."""

from __future__ import annotations

import dataclasses
import math

import newton
import numpy as np
import pytest
import random_models as rm
import test_conservation
import test_loop_joints
import warp as wp
from mjcf import finish
from rig import G, Rig, link, material, put, weightless
from scipy.spatial.transform import Rotation
from test_against_reference import SCENES

from newton_sap import SapState, SolverSAP
from newton_sap.mechanics import FIELDS
from newton_sap.reference import ReferenceSolver

DT = 0.005


def thrown(gravity=(0.0, 0.0, -G), **kwargs):
    """A free body with its COM off its origin."""
    builder = newton.ModelBuilder(gravity=gravity)
    body = link(builder, 2.0, (0.1, 0.2, 0.3), com=wp.vec3(0.1, -0.2, 0.3), **kwargs)
    builder.add_articulation([builder.add_joint_free(body)])
    return builder


@pytest.mark.parametrize("position_update", ("symplectic", "sap_euler"))
def test_free_body(position_update):
    """Mass times velocity of the COM, inertia times spin in world axes, and their energies."""
    turn = Rotation.from_rotvec([0.4, -0.7, 0.2])
    v, w = np.array([1.0, -2.0, 0.5]), np.array([3.0, 1.0, -2.0])
    rig = Rig(
        thrown((0.0, 3.0, -G)), DT, q=[0.5, 1.0, 2.0, *turn.as_quat()], v=[*v, *w], position_update=position_update
    )
    report = rig.solver.report(rig.state)
    com = np.array([0.5, 1.0, 2.0]) + turn.apply([0.1, -0.2, 0.3])
    inertia = turn.as_matrix() @ np.diag([0.1, 0.2, 0.3]) @ turn.as_matrix().T
    assert report.kinetic_energy == pytest.approx([0.5 * 2.0 * v @ v + 0.5 * w @ inertia @ w], rel=1e-6)
    assert report.potential_energy == pytest.approx([-2.0 * (com @ [0.0, 3.0, -G])], rel=1e-6)
    np.testing.assert_allclose(report.linear_momentum, [2.0 * v], rtol=1e-6)
    np.testing.assert_allclose(report.angular_momentum, [np.cross(com, 2.0 * v) + inertia @ w], rtol=1e-5)


def test_pendulum_with_armature_and_spring():
    """Energies of a hinge: m g h, half k angle^2, and an inertia that holds the armature."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    rod = link(builder, 1.5, 0.05, com=wp.vec3(0.0, 0.0, -0.4))
    hinge = builder.add_joint_revolute(-1, rod, axis=newton.Axis.Y, armature=0.3)
    builder.add_articulation([hinge])
    rig = Rig(builder, DT, q=[0.5], v=[2.0])
    put(rig.model.joint_stiffness, [20.0])
    put(rig.model.joint_rest_q, [0.2])
    report = rig.solver.report(rig.state)
    assert report.kinetic_energy == pytest.approx([0.5 * (0.05 + 1.5 * 0.16 + 0.3) * 4.0], rel=1e-6)
    height = -0.4 * math.cos(0.5)
    assert report.potential_energy == pytest.approx([1.5 * G * height + 0.5 * 20.0 * 0.09], rel=1e-6)


def test_ball_spring():
    """A ball joint's spring holds half k angle^2, by whichever sign of the quaternion."""
    builder = weightless()
    body = link(builder)
    builder.add_articulation([builder.add_joint_ball(-1, body)])
    turn = Rotation.from_rotvec([0.3, 0.4, 0.0])
    for sign in (1.0, -1.0):
        rig = Rig(builder, DT, q=sign * turn.as_quat())
        put(rig.model.joint_stiffness, [8.0, 8.0, 8.0])
        assert rig.solver.report(rig.state).potential_energy == pytest.approx([0.5 * 8.0 * 0.25], rel=1e-5)


@pytest.mark.parametrize("kind", test_loop_joints.COMPARED)
def test_a_loop_joint_holds_what_it_would_in_a_tree(kind):
    """Springs and armatures of its axes; nothing once it is disabled."""
    columns = dict(test_loop_joints.columns_of(kind, "passive"), armature=0.3)
    tree, loop = test_loop_joints.thrown(kind, "two_articulations", columns)
    ours, expected = loop.solver.report(loop.state), tree.solver.report(tree.state)
    assert ours.kinetic_energy.sum() == pytest.approx(expected.kinetic_energy.sum(), rel=1e-5)
    assert ours.potential_energy.sum() == pytest.approx(expected.potential_energy.sum(), rel=1e-5)
    loop.model.joint_enabled.assign([*[True] * (loop.model.joint_count - 1), False])
    loose = loop.solver.report(loop.state)
    assert loose.kinetic_energy.sum() < ours.kinetic_energy.sum() - 1e-3
    assert loose.potential_energy.sum() < ours.potential_energy.sum() - 1e-2


@pytest.mark.parametrize(("q", "stretch"), [((0.3, -0.4), 0.1), ((0.05, -0.2), 0.0), ((-0.2, 0.2), -0.4)])
def test_tendons_hold_energy(q, stretch):
    """Spring and armature of a weighted sum of two slides, in each of two worlds; a slack interval holds nothing."""
    tendon = (
        '<tendon><fixed name="rope" stiffness="90" armature="0.7" springlength="0.1 0.4">'
        '<joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/></fixed></tendon>'
    )
    slide = '<body><joint name="{0}" type="slide"/><geom size=".1" mass="2" contype="0" conaffinity="0"/></body>'
    model = finish(f"<mujoco><worldbody>{slide.format('a')}{slide.format('b')}</worldbody>{tendon}</mujoco>", worlds=2)
    state = model.state()
    put(state.joint_q, [*q, 0.25, 0.0])
    put(state.joint_qd, [0.6, -0.8, 0.0, 0.0])
    report = SolverSAP(model).report(state)
    assert report.kinetic_energy == pytest.approx([0.5 * 2.0 * 1.0 + 0.5 * 0.7 * 1.0, 0.0], rel=1e-6)
    assert report.potential_energy == pytest.approx([0.5 * 90.0 * stretch**2, 0.0], rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("name", sorted(set(SCENES) - {"kinematic"}))
def test_kinetic_energy_is_that_of_the_mass_matrix(name):
    """The sum over groups is half v^T M v of random trees of every joint type."""
    model = rm.random_tree_model(3, **SCENES[name])
    for array in (model.joint_damping, model.joint_stiffness):
        array.zero_()  # so that A is the mass matrix
    state = rm.random_state(model, 3)
    truth = ReferenceSolver(model).step(state, None, None, DT)
    report = SolverSAP(model).report(state)
    expected = 0.5 * truth.v0 @ truth.A @ truth.v0
    assert expected > 1.0
    assert report.kinetic_energy.sum() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("tie", test_conservation.TIES)
def test_closed_system_keeps_its_momentum(tie):
    """Contacts and couplings between floating bodies change neither momentum nor, on balance, add energy."""
    rig = test_conservation.two_free_bodies(test_conservation.TIES[tie])
    before = rig.solver.report(rig.state)
    rig.run(100)
    after = rig.solver.report(rig.state)
    np.testing.assert_allclose(after.linear_momentum, before.linear_momentum, atol=2e-5)
    np.testing.assert_allclose(after.angular_momentum, before.angular_momentum, atol=2e-4)


def test_a_fall_turns_height_into_speed():
    """Kinetic and potential energy of a falling body add up, but for the first-order error of the step."""
    rig = Rig(thrown(), 1e-4, q=[0, 0, 5.0, 0, 0, 0, 1.0])
    before = rig.solver.report(rig.state)
    rig.run(1000)
    after = rig.solver.report(rig.state)
    gained = after.kinetic_energy[0] - before.kinetic_energy[0]
    assert gained == pytest.approx(0.5 * 2.0 * (G * 0.1) ** 2, rel=1e-4)
    assert gained == pytest.approx(before.potential_energy[0] - after.potential_energy[0], rel=2e-3)


def test_worlds_are_summed_apart():
    """Each world has its own bodies and its own gravity."""
    scene = newton.ModelBuilder()
    for _ in range(3):
        scene.add_world(thrown())
    model = scene.finalize()
    gravity = np.zeros((4, 3))
    gravity[:, 2] = [-1.0, -2.0, -3.0, -100.0]
    model.gravity.assign(gravity.astype(np.float32))
    state, solver = model.state(), SolverSAP(model)
    put(state.joint_qd, [[1.0, 0, 0, 0, 0, 0], [2.0, 0, 0, 0, 0, 0], [3.0, 0, 0, 0, 0, 0]])
    report = solver.report(state)
    np.testing.assert_array_equal(report.world, [0, 1, 2])
    np.testing.assert_allclose(report.kinetic_energy, [1.0, 4.0, 9.0], rtol=1e-6)
    np.testing.assert_allclose(report.potential_energy, 2.0 * 0.3 * np.array([1.0, 2.0, 3.0]), rtol=1e-6)
    np.testing.assert_allclose(report.linear_momentum[:, 0], [2.0, 4.0, 6.0], rtol=1e-6)


def test_prescribed_bodies_do_not_count():
    """A kinematic body has no energy or momentum of its own; what hangs on it has."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    cart = link(builder, 50.0, 1.0, is_kinematic=True)
    rider = link(builder, 2.0, 0.1)
    builder.add_articulation(
        [builder.add_joint_free(cart), builder.add_joint_revolute(cart, rider, axis=newton.Axis.Y)]
    )
    rig = Rig(builder, DT, q=[0, 0, 1.0, 0, 0, 0, 1.0, 0.0], v=[3.0, 0, 0, 0, 0, 0, 0.0])
    report = rig.solver.report(rig.state)
    assert report.kinetic_energy == pytest.approx([0.5 * 2.0 * 9.0], rel=1e-6)
    assert report.potential_energy == pytest.approx([2.0 * G], rel=1e-6)
    np.testing.assert_allclose(report.linear_momentum, [[6.0, 0, 0]], rtol=1e-6)


def test_state_in_sap_order():
    """A state that holds [w, v_O] has the energy of the same state in public order."""
    rig = Rig(thrown(), DT, q=[0, 0, 0, *Rotation.from_rotvec([0.3, 0.1, 0.5]).as_quat()], v=[1, 2, 3, 4, 5, 6])
    r = Rotation.from_quat(rig.q[3:]).apply([0.1, -0.2, 0.3])
    v, w = rig.v[:3], rig.v[3:]
    turned = SapState(rig.state.joint_q, wp.clone(rig.state.joint_qd), rig.state.body_q, rig.state.body_qd)
    put(turned.joint_qd, [*w, *(v + np.cross(r, w))])
    public, sap = rig.solver.report(rig.state), rig.solver.report(turned)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(sap, name), getattr(public, name), rtol=1e-5, err_msg=name)


def test_asking_changes_nothing():
    """Neither the state nor the following steps see a report; without a state it holds no energies."""
    builder = thrown()
    builder.add_shape_sphere(0, radius=0.5, cfg=material())
    builder.add_ground_plane(cfg=material())
    asked, silent = (Rig(builder, DT, v=[1, 2, 3, 4, 5, 6]) for _ in range(2))
    for _ in range(20):
        before = asked.state.joint_q.numpy(), asked.state.body_q.numpy()
        report = asked.solver.report(asked.state)
        np.testing.assert_array_equal(asked.state.joint_q.numpy(), before[0])
        np.testing.assert_array_equal(asked.state.body_q.numpy(), before[1])
        asked.run()
        silent.run()
    np.testing.assert_array_equal(asked.q, silent.q)
    np.testing.assert_array_equal(asked.v, silent.v)
    plain = asked.solver.report()
    assert all(getattr(plain, name) is None for name in FIELDS)
    assert "kinetic energy [J]" in str(report) and "kinetic" not in str(plain)
    assert set(FIELDS) < {f.name for f in dataclasses.fields(report)}


def test_a_report_says_that_no_contacts_were_given():
    """Who comes from a solver that collides by itself sees why everything falls through the floor."""
    builder = newton.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(xform=wp.transform((0.0, 0.0, 0.1))), radius=0.1)
    builder.add_ground_plane()
    model = builder.finalize()
    solver, state, pipeline = SolverSAP(model), model.state(), newton.CollisionPipeline(model)
    solver.step(state, state, None, None, DT)
    report = solver.report()
    assert not report.contacts_given and "no step was given any: pipeline.collide(state, contacts)" in str(report)
    contacts = pipeline.contacts()
    solver.step(state, state, None, contacts, DT)
    assert not solver.report().contacts_given  # nobody has looked for any
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, DT)
    assert solver.report().contacts_given and "1 mean, 1 max" in str(solver.report())
    own = SolverSAP(model, collision_pipeline=newton.CollisionPipeline(model))
    own.step(state, state, None, None, DT)
    assert own.report().contacts_given


@pytest.mark.parametrize("touches", [False, True], ids=["nothing to touch", "a ground"])
def test_a_step_without_contacts_says_once_that_shapes_pass_through(touches, caplog):
    """Other solvers find contacts by themselves; a model in which none can be is left alone, and so is who passed some before."""
    builder = newton.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(), radius=0.1)
    if touches:
        builder.add_ground_plane()
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    for _ in range(3):
        solver.step(state, state, None, None, DT)
    said = [record.getMessage() for record in caplog.records if record.name == "newton_sap"]
    assert len(said) == int(touches) and all("pipeline.collide(state, contacts)" in message for message in said)
    given = SolverSAP(model)
    given.step(state, state, None, newton.CollisionPipeline(model).contacts(), DT)
    given.step(state, state, None, None, DT)
    assert len([record for record in caplog.records if record.name == "newton_sap"]) == len(said)


@pytest.mark.parametrize("worlds", (0, 3))
def test_no_bodies_have_no_energy(worlds):
    """A model of nothing but the ground and particles has a report, with zeros for each of its groups."""
    scene = newton.ModelBuilder()
    scene.add_ground_plane()
    scene.add_particle(wp.vec3(0.0, 0.0, 1.0), wp.vec3(), 1.0)
    builder = newton.ModelBuilder()
    for _ in range(worlds):
        builder.add_world(scene)
    model = (builder if worlds else scene).finalize()
    solver, state = SolverSAP(model), model.state()
    solver.step(state, state, None, None, DT)
    report = solver.report(state)
    assert report.kinetic_energy.shape == report.world.shape
    assert report.linear_momentum.shape == (*report.world.shape, 3)
    assert not any(getattr(report, name).any() for name in FIELDS)
    assert "kinetic energy [J]" in str(report)


def test_no_joints_have_no_springs():
    """A body that no joint moves, in a model without joints, has the energies of its flight."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    link(builder, 2.0, 0.1)
    model = builder.finalize()
    state = model.state()
    put(state.body_q, [0.0, 0.0, 1.5, 0.0, 0.0, 0.0, 1.0])
    put(state.body_qd, [3.0, 0.0, 0.0, 0.0, 2.0, 0.0])
    report = SolverSAP(model).report(state)
    assert report.kinetic_energy == pytest.approx([9.0 + 0.2], rel=1e-6)
    assert report.potential_energy == pytest.approx([2.0 * G * 1.5], rel=1e-6)
    np.testing.assert_allclose(report.linear_momentum, [[6.0, 0.0, 0.0]], rtol=1e-6)


def test_foreign_state_is_refused():
    """A state of another model is named."""
    rig = Rig(thrown(), DT)
    builder = thrown()
    builder.add_articulation([builder.add_joint_free(link(builder))])
    with pytest.raises(ValueError, match="state.joint_q has 14 entries"):
        rig.solver.report(builder.finalize().state())


@pytest.mark.filterwarnings("ignore:.*another joint already connects:newton.NewtonWarning")
def test_how_far_loops_are_open():
    """Gaps and angles of what ties bodies, the widest of each world; none where it is switched off, slides or has room."""
    world = weightless()
    a, b, c, d = (link(world) for _ in range(4))
    for body in (a, b, c, d):
        world.add_articulation([world.add_joint_free(body)])
    hinge = world.add_joint_revolute(a, b, axis=(0.0, 0.0, 1.0), parent_xform=wp.transform((1.0, 0.0, 0.0)))
    world.add_joint_prismatic(b, c, axis=(1.0, 0.0, 0.0))
    world.add_joint_distance(-1, d, min_distance=0.5, max_distance=2.0)
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for _ in range(3):
        builder.add_world(world)
    model = builder.finalize(skip_validation_joints=True)
    q = model.joint_q.numpy().reshape(3, -1)[:, :28].reshape(3, 4, 7)
    q[:] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    q[:, 1, :3] = [1.0, 0.03, 0.04]  # the hinge is open by 5 cm
    q[:, 2, :3] = [5.0, 0.03, 0.04]  # the slide is far out, which it may be
    q[:, 3, :3] = [0.0, 0.0, 1.0]  # within its range
    q[1, 1, 3:] = Rotation.from_rotvec([0.1, 0.0, 3.0]).as_quat()
    q[1, 2, 3:] = q[1, 1, 3:]
    q[1, 2, :3] = q[1, 1, :3]
    q[2, 3, :3] = [0.0, 0.0, 2.25]
    state, solver = model.state(), SolverSAP(model)
    put(state.joint_q, np.concatenate([q.reshape(3, -1), model.joint_q.numpy().reshape(3, -1)[:, 28:]], axis=1))
    report = solver.report(state)
    np.testing.assert_allclose(report.loop_gap, [0.05, 0.05, 0.25], atol=1e-6)
    tilt = Rotation.from_rotvec([0.1, 0.0, 3.0]).apply([0.0, 0.0, 1.0])
    np.testing.assert_allclose(report.loop_angle, [0.0, np.linalg.norm(tilt[:2]), 0.0], atol=1e-6)
    assert "loops open [m], [rad]" in str(report)
    enabled = model.joint_enabled.numpy().reshape(3, -1)
    enabled[:, 4] = False
    model.joint_enabled.assign(enabled.reshape(-1))
    solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
    np.testing.assert_allclose(solver.report(state).loop_gap, [0.0, 0.0, 0.25], atol=1e-6)
    assert hinge == 4


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30])
def test_states_that_overflowed_are_reported_without_a_word(value):
    """Energies of what is not finite are not, and nothing else is said (warnings are errors here)."""
    rig = Rig(thrown(), 0.01)
    rig.state.joint_qd.fill_(value)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    energy = rig.solver.report(rig.state).kinetic_energy
    assert np.isfinite(energy).all() == (value == 1e30)
