"""Couplings that are found open, of dofs that have velocity limits: they close, and nothing goes on moving (F 2.9)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, tight, weightless

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

Z = newton.Axis.Z


@pytest.mark.parametrize("hung", [False, True], ids=["side by side", "one on the other"])
def test_a_gap_closes_within_velocity_limits(hung):
    """Found 0.3 rad apart and at rest, joints close that and rest again, though neither may be as fast as one step would need."""
    builder = weightless()
    bodies = [link(builder, 1.0, inertia) for inertia in (0.1, 0.02)]
    joints, parent, hinge = [], -1, (0.0, 0.0, 0.0)
    for body in bodies:
        frame = wp.transform(hinge, wp.quat_identity())
        joints.append(builder.add_joint_revolute(parent, body, parent_xform=frame, axis=Z, velocity_limit=2.0))
        parent, hinge = (body, (0.4, 0.0, 0.0)) if hung else (-1, (0.0, 0.0, 0.0))
    builder.add_articulation(joints)
    builder.set_joint_mimic(joints[1], joints[0], coeffs=(0.3, 1.5))
    rig = Rig(builder, 1.0 / 240.0)
    fastest = 0.0
    for _ in range(240):
        fastest = max(fastest, np.abs(rig.run(1).v).max())
    assert rig.q[1] == pytest.approx(0.3 + 1.5 * rig.q[0], abs=1e-5)
    assert 0.2 < fastest <= 2.0
    np.testing.assert_allclose(rig.v, 0.0, atol=1e-4)


def four_bar(velocity_limit, apart):
    """Three bars on hinges at rest, the end of the last one so far from the bearing that closes the loop."""
    builder = weightless()
    bars = [link(builder, mass, inertia) for mass, inertia in ((1.0, 0.01), (0.3, 0.004), (0.5, 0.006))]
    hinges = [((0.0, 0.0), (0.0, -0.15)), ((0.0, 0.15), (-0.25, 0.0)), ((0.25, 0.0), (0.0, 0.2))]
    joints = []
    for parent, child, (on_parent, on_child) in zip((-1, *bars), bars, hinges, strict=False):
        frames = [wp.transform((*at, 0.0), wp.quat_identity()) for at in (on_parent, on_child)]
        more = dict(parent_xform=frames[0], child_xform=frames[1], velocity_limit=velocity_limit)
        joints.append(builder.add_joint_revolute(parent, child, axis=Z, **more))
    builder.add_articulation(joints)
    bearing, end = (wp.transform(at, wp.quat_identity()) for at in ((0.5 + apart, -0.1, 0.0), (0.0, -0.2, 0.0)))
    builder.add_joint_revolute(-1, bars[2], axis=Z, parent_xform=bearing, child_xform=end)
    return builder


@pytest.mark.parametrize("apart", [-0.08, 0.1])
def test_a_loop_closes_within_velocity_limits(apart):
    """Found open and at rest, it is shut and nearly at rest a second later; without the bound it went on at the limit."""
    rig = Rig(four_bar(2.0, apart), 1.0 / 240.0)
    energy, fastest = [], 0.0
    for _ in range(240):
        fastest = max(fastest, np.abs(rig.run(1).v).max())
        energy.append(rig.solver.report(rig.state).kinetic_energy[0])
    report = rig.solver.report(rig.state)
    assert report.loop_gap[0] < 1e-6 and 0.1 < fastest < 1.5
    assert energy[-1] < 0.05 * max(energy)


@pytest.mark.parametrize("apart", [-0.08, 0.1])
def test_a_loop_within_velocity_limits_is_the_references(apart):
    """The first step of it, and one under way."""
    model = four_bar(2.0, apart).finalize()
    state, solver = model.state(), SolverSAP(model, **tight())
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    for _ in range(2):
        truth = ReferenceSolver(model, **tight()).step(state, model.control(), None, 1.0 / 240.0)
        solver.step(state, state, None, None, 1.0 / 240.0)
        # The loop joint has rates of its own.
        np.testing.assert_allclose(solver.inspect().v[:3], truth.v[:3], atol=1e-7)
