"""Chains that go straight and rest: their ends tied to where they hardly reach, or do not, or a load on them."""

import newton
import numpy as np
import pytest
import warp as wp
from loop_scenes import furnish
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
    go on to tremble, held from one side only."""
    model = chain(links, over, tie, kind)
    solver, state = SolverSAP(model), model.state()
    speeds = []
    for _ in range(round(1.5 / dt)):
        solver.step(state, state, None, None, dt)
        speeds.append(float(np.abs(state.joint_qd.numpy()).max()))
    assert max(speeds) < 3.0
    assert max(speeds[-len(speeds) // 3 :]) < 2.5
    assert tie == "distance" or np.abs(state.joint_qd.numpy()).max() < 1.0e-3
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


def loaded_chain(tie, dt, damped=1.0, links=10, length=0.05, mass=0.01, load=1.0):
    """Light links that hang askew, the last a hundred times as heavy, with ``dt`` times tension times length of damping."""
    builder, random = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81)), np.random.default_rng(0)
    damping = damped * dt * (load + links * mass) * 9.81 * length
    parent, joints, place = -1, [], wp.transform()
    for i in range(links):
        m = load if i == links - 1 else mass
        across, along = m * length**2 / 12.0, m * length**2 / 64.0
        top = wp.transform((0.0, 0.0, -length if i else 0.0))
        tilt = wp.quat_rpy(*map(float, 0.1 * random.standard_normal(2)), 0.0)
        place = wp.transform_multiply(wp.transform_multiply(place, top), wp.transform(q=tilt))
        child = link(builder, m, (across, across, along), com=wp.vec3(0.0, 0.0, -0.5 * length), xform=place)
        if tie == "loops":
            builder.add_articulation([builder.add_joint_free(child)])
        if tie == "hinges":
            joints.append(builder.add_joint_revolute(parent, child, axis=(i % 2, 1 - i % 2, 0), parent_xform=top))
            builder.joint_q[-1] = 0.1 * random.standard_normal()
        else:
            joints.append(builder.add_joint_ball(parent, child, parent_xform=top))
            builder.joint_q[-4:] = tilt
        furnish(builder, joints[-1], damping=damping)
        parent = child
    if tie != "loops":
        builder.add_articulation(joints)
    return builder.finalize(skip_validation_joints=True)


@pytest.mark.filterwarnings("ignore:.*another joint already connects")
@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("tie", ["hinges", "balls", "loops"])
def test_damping_holds_a_load_on_a_light_chain(tie, dt):
    """The links alone could swing at up to ``sqrt(12 T / (m l))``, 8.5 radians per step at 60 Hz, and without damping do."""
    model = loaded_chain(tie, dt)
    solver, state = SolverSAP(model), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    for _ in range(round(4.0 / dt)):
        solver.step(state, state, None, None, dt)
    assert solver.report().healthy
    assert np.abs(state.body_qd.numpy()[:, 3:]).max() < 0.5
    assert state.body_q.numpy()[-1, 2] == pytest.approx(-0.45, abs=2.0e-3)
