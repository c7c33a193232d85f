"""Chains whose end is tied to where they hardly reach, or do not: they go straight and rest."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import link

from newton_sap import SolverSAP

LENGTH = 0.2


def chain(links, over, tie, kind):
    """Links in a row along x, damped a little, whose end a loop joint ties to a point beyond their reach by ``over``."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    parent, joints = -1, []
    for _ in range(links):
        child = link(builder, mass=0.1, inertia=(0.001, 0.001, 0.001))
        ends = {
            "parent_xform": wp.transform(((0.0 if parent < 0 else 0.5 * LENGTH), 0.0, 0.0)),
            "child_xform": wp.transform((-0.5 * LENGTH, 0.0, 0.0)),
        }
        if kind == "hinge":
            joints.append(builder.add_joint_revolute(parent, child, axis=(0, 1, 0), damping=0.01, **ends))
        else:
            joints.append(builder.add_joint_ball(parent, child, damping=0.01, **ends))
        parent = child
    builder.add_articulation(joints)
    end = wp.transform((0.5 * LENGTH, 0.0, 0.0))
    reach = links * LENGTH + over
    if tie == "ball":
        builder.add_joint_ball(-1, parent, parent_xform=wp.transform((reach, 0.0, 0.0)), child_xform=end)
    else:
        far = wp.transform((reach + 0.3, 0.0, 0.0))
        builder.add_joint_distance(-1, parent, parent_xform=far, child_xform=end, min_distance=-1.0, max_distance=0.3)
    return builder.finalize()


@pytest.mark.parametrize("tie", ["ball", "distance"])
@pytest.mark.parametrize("dt", [1.0 / 240.0, 1.0e-3])
@pytest.mark.parametrize(("links", "kind", "over"), [(2, "hinge", 0.004), (2, "hinge", 0.02), (3, "ball", 0.015)])
def test_a_chain_that_cannot_reach_rests_taut(links, kind, over, dt, tie):
    """It never moves faster than its fall in the first steps makes it, and lies straight; at the end of a rope it may
    tremble, held from one side only."""
    model = chain(links, over, tie, kind)
    solver, state = SolverSAP(model), model.state()
    fastest = 0.0
    for _ in range(round(1.5 / dt)):
        solver.step(state, state, None, None, dt)
        fastest = max(fastest, float(np.abs(state.joint_qd.numpy()).max()))
    assert fastest < 3.0
    assert np.abs(state.joint_qd.numpy()).max() < (1.0e-3 if tie == "ball" else 0.5)
    assert np.abs(state.body_q.numpy()[:, 2]).max() < 1.0e-3


@pytest.mark.parametrize("links", [3, 6])
def test_a_straight_chain_that_is_too_long_buckles(links):
    """Its loop closes, out of a pose in which nothing moves the row, and what hangs is at rest in the end."""
    model = chain(links, -0.05, "ball", "ball")
    solver, state = SolverSAP(model), model.state()
    for _ in range(480):
        solver.step(state, state, None, None, 1.0 / 240.0)
    pose = state.body_q.numpy()[-1]
    end = np.array(wp.transform_point(wp.transform(*map(float, pose)), wp.vec3(0.5 * LENGTH, 0.0, 0.0)))
    np.testing.assert_allclose(end, [links * LENGTH - 0.05, 0.0, 0.0], atol=2.0e-6)
    assert np.abs(state.joint_qd.numpy()).max() < 1.0
