"""Joints of a tree that are off when the solver is built: they hold nothing, and come on as joints that close loops do."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

DT = 1.0e-3
SPEED = [1.0, -2.0, 0.5]


def arm(kind="revolute", enabled=True, **how):
    """Three links on hinges and a joint of another kind between the first two."""
    builder = newton.ModelBuilder()
    joints, parent = [], -1
    for i in range(3):
        body = link(builder, 1.0, (0.02, 0.03, 0.04), com=wp.vec3(0.15, 0.02, -0.01))
        at = wp.transform((0.3 if i else 0.0, 0.0, 0.0), wp.quat_identity())
        add = getattr(builder, f"add_joint_{kind if i == 1 else 'revolute'}")
        axis = {} if i == 1 and kind in ("ball", "fixed") else dict(axis=(0.0, 1.0, 0.0))
        joints.append(
            add(
                parent,
                body,
                parent_xform=at,
                label=f"j{i}",
                enabled=enabled or i != 1,
                **axis,
                **(how if i == 1 else {}),
            )
        )
        parent = body
    builder.add_articulation(joints)
    return builder


def test_a_joint_that_is_off_holds_nothing():
    """What hangs on it flies, and moves as where a free joint took its place."""
    rig = Rig(arm(enabled=False), DT, v=SPEED)
    other = newton.ModelBuilder()
    bodies = [link(other, 1.0, (0.02, 0.03, 0.04), com=wp.vec3(0.15, 0.02, -0.01)) for _ in range(3)]
    y = dict(axis=(0.0, 1.0, 0.0))
    other.add_articulation([other.add_joint_revolute(-1, bodies[0], **y)])
    at = wp.transform((0.3, 0.0, 0.0), wp.quat_identity())
    other.add_articulation(
        [other.add_joint_free(bodies[1]), other.add_joint_revolute(bodies[1], bodies[2], parent_xform=at, **y)]
    )
    other.joint_q[1] = 0.3
    twist = rig.body_qd[1]
    free = Rig(other, DT, v=[1.0, *twist, 0.5])
    np.testing.assert_allclose(rig.run(300).body_q, free.run(300).body_q, atol=2e-6)
    assert rig.solver.topology.loop_joints == (1,)
    assert np.linalg.norm(rig.body_q[1, :3] - rig.body_q[0, :3]) > 0.5


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("revolute", {}),
        ("revolute", dict(target_ke=20.0, target_kd=0.5, target_q=0.3)),
        ("revolute", dict(armature=0.02, damping=0.05, friction=0.02, limit_lower=-0.2, limit_upper=0.2)),
        ("prismatic", dict(damping=0.3, limit_lower=-0.05, limit_upper=0.05)),
        ("ball", {}),
        ("fixed", {}),
    ],
)
def test_a_joint_that_comes_on_acts_as_in_the_tree(kind, how):
    """Its coordinate and rate are measured meanwhile, and all that acts along it acts."""
    tree, rig = Rig(arm(kind, **how), DT), Rig(arm(kind, enabled=False, **how), DT)
    rig.model.joint_enabled.fill_(True)
    np.testing.assert_allclose(rig.run(400).body_q, tree.run(400).body_q, atol=3e-3)
    np.testing.assert_allclose(rig.q, tree.q, atol=5e-3)
    np.testing.assert_allclose(rig.v, tree.v, atol=5e-2)
    assert rig.solver.report().unconverged_steps.sum() == 0


def test_it_goes_off_again():
    """Between replays of a graph."""
    rig = Rig(arm(enabled=False), DT)
    rig.model.joint_enabled.fill_(True)
    with wp.ScopedCapture(device=rig.model.device) as capture:
        rig.run(2)

    def apart(steps):
        for _ in range(steps):
            wp.capture_launch(capture.graph)
        q = rig.body_q
        end = q[0, :3] + np.array(wp.quat_rotate(wp.quat(*q[0, 3:]), wp.vec3(0.3, 0.0, 0.0)))
        return np.linalg.norm(end - q[1, :3])

    assert apart(100) < 1e-4
    rig.model.joint_enabled.assign([True, False, True])
    assert apart(100) > 0.05


def test_a_base_that_is_off_lets_a_robot_fall():
    """The joint to the world, of a fixed base."""
    builder = newton.ModelBuilder()
    base, tip = link(builder), link(builder)
    joints = [
        builder.add_joint_fixed(-1, base, enabled=False),
        builder.add_joint_revolute(base, tip, axis=(0.0, 0.0, 1.0)),
    ]
    builder.add_articulation(joints)
    rig = Rig(builder, DT).run(100)
    np.testing.assert_allclose(rig.body_qd[:, 2], -0.981, rtol=1e-4)


def test_a_free_joint_is_free_either_way():
    """It keeps its coordinates, and may be switched as one likes."""
    builder = newton.ModelBuilder()
    builder.add_articulation([builder.add_joint_free(link(builder), enabled=False)])
    rig = Rig(builder, DT).run(100)
    np.testing.assert_allclose(rig.v[2], -0.981, rtol=1e-4)
    rig.model.joint_enabled.fill_(True)
    rig.solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)


def test_the_reference_leaves_it_out():
    """It has no bodies that no joint moves."""
    model = arm(enabled=False).finalize()
    with pytest.raises(NotImplementedError, match="no joint moves"):
        ReferenceSolver(model).step(model.state(), None, None, DT)


def test_a_body_without_mass_is_named():
    """What a joint that is off does not hold has to have mass."""
    builder = newton.ModelBuilder()
    builder.add_articulation([builder.add_joint_fixed(-1, builder.add_link(mass=0.0, label="flag"), enabled=False)])
    with pytest.raises(ValueError, match="'flag'"):
        SolverSAP(builder.finalize())
