"""Resets that Newton's examples ask of SolverKamino, done for another solver."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import link

from newton_sap import SolverSAP, swap

KAMINO = newton.solvers.SolverKamino
CONFIG = KAMINO.ResetConfig
Y = newton.Axis.Y
OFFSET = wp.transform(wp.vec3(0.1, 0.0, 0.2), wp.quat_rpy(0.1, 0.2, 0.3))
TARGET = np.array([1.0, 2.0, 3.0, 0.0, 0.6, 0.0, 0.8], dtype=np.float32)


def mechanism(root):
    """Two hinged links in each of two worlds: without a root, on a free joint with frames, or on a hinge."""
    one = newton.ModelBuilder()
    bodies = [link(one, xform=wp.transform(wp.vec3(0.3 * i, 0.0, 1.0), wp.quat_rpy(0.2, 0.0, 0.1))) for i in range(2)]
    joints = []
    if root == "free":
        joints = [one.add_joint_free(bodies[0], parent_xform=OFFSET, child_xform=OFFSET)]
    if root == "hinge":
        joints = [one.add_joint_revolute(-1, bodies[0], axis=Y)]
    one.add_articulation([*joints, one.add_joint_revolute(*bodies, axis=Y, parent_xform=OFFSET)])
    builder = newton.ModelBuilder()
    for _ in range(2):
        builder.add_world(one)
    return builder.finalize(skip_validation_joints=True)


def swapped(model):
    """SolverSAP in place of SolverKamino, and the log of the swap."""
    with swap.swapped_solvers(SolverSAP) as log:
        return newton.solvers.SolverKamino(model), log


def test_options_reach_the_examples_own_solver():
    """They win over the example's, inside the context only."""
    model = mechanism("hinge")
    with swap.swapped_solvers(newton.solvers.SolverXPBD, options={"iterations": 7}):
        inside = newton.solvers.SolverXPBD(model, iterations=3, joint_linear_relaxation=0.5)
    assert (inside.iterations, inside.joint_linear_relaxation) == (7, 0.5)
    assert newton.solvers.SolverXPBD(model, iterations=3).iterations == 3


def relative(body_q):
    """Pose of the second body of each world in the first."""
    poses = [wp.transform(*(float(x) for x in pose)) for pose in body_q]
    return np.array([wp.transform_inverse(poses[i]) * poses[i + 1] for i in (0, 2)])


@pytest.mark.parametrize("root", ["none", "free"])
def test_base_pose_moves_the_whole_mechanism(root):
    """The chosen worlds stand with their base where it is wanted, at rest, and a step takes that up."""
    model = mechanism(root)
    solver, log = swapped(model)
    state = model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    model.body_q.assign(state.body_q)
    shape = relative(state.body_q.numpy())
    state.body_qd.fill_(1.0)
    state.joint_qd.fill_(1.0)
    base_q = wp.array(np.tile(TARGET, (2, 1)), dtype=wp.transform)
    mask = wp.array([False, True, False], dtype=wp.bool)
    solver.reset(state=state, world_mask=mask, config=CONFIG(base_pose=CONFIG.FromBaseQ(base_q)))
    assert log.kept == []
    wanted = wp.transform(*(float(x) for x in TARGET))
    if root == "free":
        wanted = OFFSET * wanted * wp.transform_inverse(OFFSET)
    placed = state.body_q.numpy().copy()
    np.testing.assert_allclose(placed[:2], model.body_q.numpy()[:2], atol=1e-6)
    np.testing.assert_allclose(placed[2], np.array(wanted), atol=1e-6)
    np.testing.assert_allclose(relative(placed), shape, atol=1e-6)
    half = model.joint_dof_count // 2
    np.testing.assert_array_equal(state.joint_qd.numpy(), [1.0] * half + [0.0] * half)
    np.testing.assert_array_equal(state.body_qd.numpy()[:, 0], [1.0, 1.0, 0.0, 0.0])
    solver.step(state, state, None, None, 1.0e-4)
    np.testing.assert_allclose(state.body_q.numpy()[2:], placed[2:], atol=1e-5)


def test_a_base_on_a_hinge_stays():
    """A mechanism that is jointed to the world has no base to move; the rest of the reset applies."""
    model = mechanism("hinge")
    solver, log = swapped(model)
    state = model.state()
    state.joint_q.fill_(0.5)
    base_q = wp.array(np.tile(TARGET, (2, 1)), dtype=wp.transform)
    solver.reset(state, config=CONFIG(base_pose=CONFIG.FromBaseQ(base_q)))
    np.testing.assert_array_equal(state.joint_q.numpy(), model.joint_q.numpy())
    np.testing.assert_array_equal(state.body_q.numpy(), model.body_q.numpy())
    assert log.kept == []


def test_flags_choose_the_arrays():
    """Only the arrays named by the flags are written."""
    model = mechanism("hinge")
    solver, _ = swapped(model)
    state = model.state()
    state.joint_q.fill_(0.5)
    state.joint_qd.fill_(0.5)
    solver.reset(state, None, newton.StateFlags.JOINT_QD, config=CONFIG())
    np.testing.assert_array_equal(state.joint_qd.numpy(), 0.0)
    np.testing.assert_array_equal(state.joint_q.numpy(), 0.5)


def test_what_is_not_applied_is_noted_once():
    """Parts that need Kamino's own forward kinematics, and other arguments, are named."""
    model = mechanism("none")
    solver, log = swapped(model)
    state = model.state()
    state.body_q.fill_(wp.transform((9.0, 9.0, 9.0), wp.quat_identity()))
    before = state.body_q.numpy().copy()
    for _ in range(2):
        solver.reset(state, config=CONFIG.from_joints(), success_mask=None)
    np.testing.assert_array_equal(state.body_q.numpy(), before)
    parts = ("success_mask", "body_poses=FromJointQ", "body_velocities=FromJointU", "base_pose=FromJointQ")
    assert len(log.kept) == 1 and all(part in log.kept[0] for part in (*parts, "base_velocity=FromJointU"))
