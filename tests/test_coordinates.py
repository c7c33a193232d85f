"""Maximal and generalised coordinates: Jacobians, velocities, forces and joint torques of random trees."""

from pathlib import Path

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from newton_sap import SolverSAP
from newton_sap import conventions as cv
from newton_sap.coordinates import METHODS, Coordinates, stacked_jacobian, tree_joints

seeds = st.integers(0, 10_000)
SEEDS = range(6)
NAMES = [name for name, entry in cv.CONVENTIONS.items() if entry.point != "given"]


def tree(seed, **kwargs):
    """Return a random model of two trees in which every joint kind may appear, and a random state of it."""
    model = rm.random_tree_model(seed, (2, 6), tree_count=2, descendant_free=True, **kwargs)
    return model, rm.random_state(model, seed)


def close(actual, expected, tolerance=2e-5):
    """Assert equality to float32 of numbers whose size is that of the largest."""
    size = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance * size)


def chain_of_four():
    """Return a model of a root with a child that has two children, all on ball joints."""
    builder = newton.ModelBuilder()
    links = [builder.add_link(mass=1.0, inertia=wp.mat33(np.eye(3))) for _ in range(4)]
    parents = [-1, links[0], links[1], links[1]]
    joints = [builder.add_joint_ball(p, c) for p, c in zip(parents, links, strict=True)]
    builder.add_articulation(joints)
    return builder.finalize()


# Velocities


@pytest.mark.parametrize("seed", SEEDS)
def test_jacobian_gives_body_velocities(seed):
    """J joint_qd is the body_qd of Newton's kinematics, by the matrix in both layouts and by the method."""
    model, state = tree(seed)
    qd, V = state.joint_qd.numpy(), state.body_qd.numpy()
    at = Coordinates.at(model, state)
    close(at.body_velocity(qd), V)
    close((stacked_jacobian(model, state) @ qd).reshape(-1, 6), V)
    parts = (stacked_jacobian(model, state, layout="parts") @ qd).reshape(2, -1, 3)
    close(parts[0], V[:, :3])
    close(parts[1], V[:, 3:])


@pytest.mark.parametrize("convention", NAMES)
def test_jacobian_in_other_conventions(convention):
    """The rows can be those of any convention, and velocities given in it are understood."""
    model, state = tree(1)
    qd, V = state.joint_qd.numpy(), state.body_qd.numpy()
    at = Coordinates.at(model, state)
    expected = cv.convert_twist(V, "newton", convention, pose=state.body_q.numpy(), com=model.body_com.numpy())
    close((at.stacked_jacobian(convention=convention) @ qd).reshape(-1, 6), expected)
    close(at.body_velocity(qd, convention), expected)
    close(at.joint_velocity(expected, convention)[0], qd, 1e-4)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=12)
@given(seeds)
def test_velocities_return(method, seed):
    """joint_qd -> body_qd -> joint_qd is the identity, with no residual, by every method."""
    model = rm.random_tree_model(seed, (2, 6), root_kinds=("free", "revolute", "ball"), inner_kinds=rm.INNER_KINDS[:4])
    state = rm.random_state(model, seed)
    at = Coordinates.at(model, state)
    qd, residual = at.joint_velocity(state.body_qd.numpy(), method=method)
    close(qd, state.joint_qd.numpy(), 1e-4)
    close(residual, np.zeros_like(residual), 1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_residual_shows_what_joints_forbid(method):
    """A child that leaves its hinge sideways has that velocity, and no other, as residual."""
    builder = newton.ModelBuilder()
    a, b = (builder.add_link(mass=1.0, inertia=wp.mat33(np.eye(3))) for _ in range(2))
    joints = [builder.add_joint_free(a), builder.add_joint_revolute(a, b, axis=newton.Axis.Z)]
    builder.add_articulation(joints)
    at = Coordinates.at(builder.finalize(), builder.finalize().state())
    V = np.zeros((2, 6))
    V[b] = [0.0, 0.0, 3.0, 0.0, 0.0, 2.0]
    qd, residual = at.joint_velocity(V, method=method)
    assert np.linalg.norm(residual) > 2.0
    close(at.body_velocity(qd) + residual, V)
    if method != "stacked":  # which spreads the error over both bodies instead of keeping it at the joint
        close(qd, [0.0] * 6 + [2.0])
        close(residual[b], [0.0, 0.0, 3.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("seed", SEEDS)
def test_stacked_residual_is_the_smallest(seed):
    """For velocities that joints forbid, the pseudo-inverse is optimal and no other method beats it."""
    model, state = tree(seed)
    at = Coordinates.at(model, state)
    V = np.random.default_rng(seed).normal(size=(model.body_count, 6))
    _, best = at.joint_velocity(V, method="stacked")
    close(at.generalised_force(best), np.zeros(model.joint_dof_count), 1e-4)
    for method in ("split", "joint"):
        _, residual = at.joint_velocity(V, method=method)
        assert np.linalg.norm(residual) >= np.linalg.norm(best) * (1.0 - 1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_relative_velocity_is_the_joint_motion(seed):
    """Each joint's relative twist is its own Jacobian times its own velocities."""
    model, state = tree(seed)
    at = Coordinates.at(model, state)
    relative = at.relative_velocity(state.body_qd.numpy())
    qd = state.joint_qd.numpy()
    for joint in tree_joints(model):
        close(relative[joint.index], at.joint_jacobian(joint) @ qd[joint.dofs], 5e-5)


def test_from_bodies_needs_no_joint_coordinates():
    """Poses of bodies alone give the same Jacobian, one state or a batch."""
    model, state = tree(2)
    expected = Coordinates.at(model, state)
    close(Coordinates.from_bodies(model, state.body_q.numpy()).jacobian, expected.jacobian, 1e-4)
    twice = Coordinates.from_bodies(model, np.stack([state.body_q.numpy()] * 2))
    close(twice.jacobian, np.stack([expected.jacobian] * 2), 1e-4)


def test_batches_are_states():
    """A batch of joint coordinates gives for each what it gives alone, in every method."""
    model, _ = tree(3)
    states = [rm.random_state(model, seed) for seed in range(4)]
    grid = np.stack([s.joint_q.numpy() for s in states]).reshape(2, 2, -1)
    at = Coordinates.at(model, grid)
    V = np.stack([s.body_qd.numpy() for s in states]).reshape(2, 2, -1, 6)
    F = np.random.default_rng(3).normal(size=V.shape)
    Q = np.random.default_rng(4).normal(size=(2, 2, model.joint_dof_count))
    tau = np.random.default_rng(5).normal(size=(2, 2, model.joint_count, 3))
    for i, state in enumerate(states):
        k = divmod(i, 2)
        one = Coordinates.at(model, state)
        close(at.stacked_jacobian()[k], one.stacked_jacobian())
        for method in METHODS:
            close(at.joint_velocity(V, method=method)[0][k], one.joint_velocity(V[k], method=method)[0], 1e-4)
        close(at.generalised_force(F)[k], one.generalised_force(F[k]))
        close(at.body_wrench(Q)[0][k], one.body_wrench(Q[k])[0], 1e-4)
        close(at.joint_f(Q)[k], one.joint_f(Q[k]))
        close(at.generalised_from_joint_torque(tau)[k], one.generalised_from_joint_torque(tau[k]))
        close(at.joint_torque(at.body_torque(tau))[k], tau[k])
        close(at.joint_torque_from_generalised(Q)[0][k], one.joint_torque_from_generalised(Q[k])[0], 1e-4)
    one = Coordinates.at(model, states[0])
    close(one.body_velocity(Q)[1, 1], one.body_velocity(Q[1, 1]))


def test_nothing_to_convert():
    """A model without bodies and a batch without states give empty arrays of the right shapes."""
    empty = newton.ModelBuilder().finalize()
    at = Coordinates.at(empty, empty.state())
    assert at.stacked_jacobian().shape == (0, 0)
    assert at.joint_velocity(np.zeros((0, 6)))[0].shape == (0,)
    model, _ = tree(0)
    for at in (
        Coordinates.at(model, np.zeros((0, model.joint_coord_count))),
        Coordinates.from_bodies(model, np.zeros((0, model.body_count, 7))),
    ):
        V = np.zeros((0, model.body_count, 6))
        for method in METHODS:
            assert at.joint_velocity(V, method=method)[0].shape == (0, model.joint_dof_count)
        assert at.body_wrench(np.zeros((0, model.joint_dof_count)))[0].shape == V.shape
        assert at.joint_torque_from_generalised(np.zeros((0, model.joint_dof_count)))[0].shape[0] == 0


def test_mujoco_has_the_same_jacobian():
    """Hinges and slides: the rows agree with MuJoCo's Jacobians at the COM and at the body origin."""
    mujoco = pytest.importorskip("mujoco")
    mjcf = """
        <mujoco><worldbody>
        <body name="a" pos="0 0 1"><joint name="j0" type="hinge" axis="0 1 0" pos="0.1 0 0"/>
        <inertial pos="0.1 0.2 0.3" mass="1" diaginertia="0.1 0.1 0.1"/>
        <body name="b" pos="0.5 0 0.2" quat="0.8 0.6 0 0"><joint name="j1" type="slide" axis="1 0 1"/>
        <inertial pos="-0.1 0 0.2" mass="1" diaginertia="0.1 0.1 0.1"/>
        <body name="c" pos="0 0.4 0"><joint name="j2" type="hinge" axis="0 0 1"/>
        <inertial pos="0 0.3 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></body></body>
        </worldbody></mujoco>"""
    builder = newton.ModelBuilder()
    builder.add_mjcf(mjcf)
    model = builder.finalize()
    q = np.array([0.3, -0.2, 0.7])
    mj = mujoco.MjModel.from_xml_string(mjcf)
    data = mujoco.MjData(mj)
    data.qpos[:] = q
    mujoco.mj_kinematics(mj, data)
    mujoco.mj_comPos(mj, data)
    for convention, jacobian in (("newton", mujoco.mj_jacBodyCom), ("drake", mujoco.mj_jacBody)):
        J = stacked_jacobian(model, q, convention=convention).reshape(3, 6, 3)
        for body in range(3):
            linear, angular = np.zeros((3, 3)), np.zeros((3, 3))
            jacobian(mj, data, linear, angular, body + 1)
            close(J[body], np.vstack([linear, angular] if convention == "newton" else [angular, linear]))


# Forces


@pytest.mark.parametrize("convention", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_generalised_forces_do_the_same_work(seed, convention):
    """Q . joint_qd is the power of the wrenches on the bodies, in every convention."""
    model, state = tree(seed)
    at = Coordinates.at(model, state)
    V = at.body_velocity(state.joint_qd.numpy(), convention)
    F = np.random.default_rng(seed).normal(size=(model.body_count, 6))
    close(at.generalised_force(F, convention) @ state.joint_qd.numpy(), np.sum(F * V))


@pytest.mark.parametrize("seed", SEEDS)
def test_forces_at_points(seed):
    """A force at a point works on the velocity of that point; a moment given beside it on the angular velocity."""
    model, state = tree(seed)
    at = Coordinates.at(model, state)
    rng = np.random.default_rng(seed)
    V, F, arm = state.body_qd.numpy(), rng.normal(size=(model.body_count, 6)), rng.normal(size=(model.body_count, 3))
    v_point = V[:, :3] + np.cross(V[:, 3:], arm)
    power = np.sum(F[:, :3] * v_point) + np.sum(F[:, 3:] * V[:, 3:])
    point = at.com_position + arm
    close(at.generalised_force(F, point=point) @ state.joint_qd.numpy(), power)
    swapped = np.roll(F, 3, axis=1)
    close(at.generalised_force(swapped, "drake", point=point), at.generalised_force(F, point=point))


@pytest.mark.parametrize("seed", SEEDS)
def test_forces_return(seed):
    """Q -> wrenches -> Q is the identity, and the wrenches are the smallest that do it."""
    model = rm.random_tree_model(seed, (2, 6), root_kinds=("free", "ball"), inner_kinds=rm.INNER_KINDS[:4])
    state = rm.random_state(model, seed)
    at = Coordinates.at(model, state)
    Q = np.random.default_rng(seed).normal(size=model.joint_dof_count)
    F, residual = at.body_wrench(Q)
    close(residual, np.zeros_like(Q), 1e-4)
    close(at.generalised_force(F), Q, 1e-4)
    # Smallest: a multiple of what some joint velocity gives, so no wrench without effect is part of it.
    _, rest = at.joint_velocity(F, method="stacked")
    close(rest, np.zeros_like(F), 1e-4)
    drake, _ = at.body_wrench(Q, "drake")
    close(at.generalised_force(drake, "drake"), Q, 1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_solver_moves_alike_under_both_forces(seed):
    """A step under body wrenches is a step under the joint forces that they convert to."""
    model = rm.random_tree_model(seed, 5, root_kinds=("free",), limits=False, drives=False, max_depth=3)
    solver = SolverSAP(model)
    state = rm.random_state(model, seed)
    wrench = 0.3 * np.random.default_rng(seed).normal(size=(model.body_count, 6))
    at = Coordinates.at(model, state)
    joint_f = at.joint_f(at.generalised_force(wrench))
    moved = []
    for by_joints in (False, True):
        control, out = model.control(), model.state()
        state.body_f.assign((0.0 if by_joints else 1.0) * wrench.astype(np.float32))
        control.joint_f.assign((1.0 if by_joints else 0.0) * joint_f.astype(np.float32))
        solver.step(state, out, control, None, 1e-3)
        moved.append(out.joint_qd.numpy())
    close(moved[0], moved[1], 1e-4)
    control, out = model.control(), model.state()
    state.body_f.zero_()
    solver.step(state, out, control, None, 1e-3)
    assert np.max(np.abs(out.joint_qd.numpy() - moved[0])) > 1e-3


# Joint torques


def test_connectivity_of_a_small_tree():
    """Root, child, and two children of that: ones on the diagonal, minus ones at parents."""
    at = Coordinates.at(chain_of_four(), np.tile([0.0, 0.0, 0.0, 1.0], 4))
    expected = [[1, 0, 0, 0], [-1, 1, 0, 0], [0, -1, 1, 0], [0, -1, 0, 1]]
    np.testing.assert_array_equal(at.connectivity, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_torques_and_body_torques(seed):
    """Joint torques -> body torques -> joint torques is the identity; both have the same generalised force."""
    model, state = tree(seed)
    at = Coordinates.at(model, state)
    tau = np.random.default_rng(seed).normal(size=(model.joint_count, 3))
    torque = at.body_torque(tau)
    close(at.joint_torque(torque), tau)
    wrench = np.concatenate([np.zeros_like(torque), torque], axis=-1)
    close(at.generalised_from_joint_torque(tau), at.generalised_force(wrench), 1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_generalised_forces_to_joint_torques(seed):
    """Rotational joints: Q -> joint torques -> Q is the identity, by least torques; slides leave their force over."""
    kinds = ("revolute", "ball", "prismatic")
    model = rm.random_tree_model(seed, 5, root_kinds=kinds, inner_kinds=kinds)
    at = Coordinates.at(model, rm.random_state(model, seed))
    Q = np.random.default_rng(seed).normal(size=model.joint_dof_count)
    tau, residual = at.joint_torque_from_generalised(Q)
    close(at.generalised_from_joint_torque(tau) + residual, Q)
    kind = model.joint_type.numpy()
    for joint in tree_joints(model):
        slides = kind[joint.index] == newton.JointType.PRISMATIC
        close(residual[joint.dofs], Q[joint.dofs] if slides else 0.0 * Q[joint.dofs])
        close(np.linalg.norm(tau[joint.index]), 0.0 if slides else np.linalg.norm(Q[joint.dofs]), 1e-4)


def test_loop_joints_and_shapes():
    """Loop joints have no dofs in the tree; wrong shapes, methods, layouts and lengths are refused."""
    builder = newton.ModelBuilder()
    a, b = (builder.add_link(mass=1.0, inertia=wp.mat33(np.eye(3))) for _ in range(2))
    joints = [builder.add_joint_revolute(-1, a), builder.add_joint_revolute(a, b)]
    builder.add_articulation(joints)
    loop = builder.add_joint_revolute(-1, b)
    model = builder.finalize()
    at = Coordinates.at(model, model.state())
    assert [joint.index for joint in at.joints] == joints
    np.testing.assert_array_equal(at.connectivity[loop], 0.0)
    np.testing.assert_array_equal(at.stacked_jacobian()[:, 2], 0.0)
    qd, residual = at.joint_velocity(at.body_velocity([1.0, 2.0, 3.0]))
    close(qd, [1.0, 2.0, 0.0])
    close(residual, np.zeros((2, 6)))
    with pytest.raises(ValueError, match="body_qd"):
        at.joint_velocity(np.zeros((3, 6)))
    with pytest.raises(ValueError, match="joint_q"):
        Coordinates.at(model, np.zeros(2))
    with pytest.raises(ValueError, match="method"):
        at.joint_velocity(np.zeros((2, 6)), method="other")
    with pytest.raises(ValueError, match="layout"):
        at.stacked_jacobian(layout="other")
    with pytest.raises(ValueError, match="length"):
        at.body_wrench(np.zeros(3), length=0.0)


def test_page_names_every_convention():
    """``docs/conventions.md`` mentions each of them; its examples run with those of the other pages."""
    text = (Path(__file__).parents[1] / "docs" / "conventions.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in cv.CONVENTIONS)
