"""Chains that are drawn straight towards an anchor that they do not reach: they go there and rest, however the scene is turned."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, weightless
from test_against_reference import assert_same_step

LENGTH = 0.3
ALONG_Y = (0.0, 1.0, 0.0)


def about_y(angle):
    """A turn that brings x downwards."""
    return wp.quat_from_axis_angle(wp.vec3(*ALONG_Y), float(angle))


def chain(links, miss, angle, kind="ball", turned=0.0):
    """Hinged links, a little bent, whose end a loop joint is to bring to a point that they miss; the joint's anchor may be turned.

    A fixed one looks along the chain.
    """
    turned -= angle * (kind == "fixed")
    builder, joints = weightless(), []
    for k in range(links):
        bend = 0.1 if k == 0 else -0.2 * (-1) ** k
        at = wp.transform((LENGTH * (k > 0), 0.0, 0.0), about_y(bend - angle * (k == 0)))
        body = link(builder, inertia=0.01, com=(LENGTH / 2, 0.0, 0.0))
        joints.append(
            builder.add_joint_revolute(
                body - 1, body, axis=ALONG_Y, parent_xform=at, damping=0.02, collision_filter_parent=False
            )
        )
    builder.add_articulation(joints)
    reach = links * LENGTH + miss
    end = wp.transform((reach * np.cos(angle), 0.0, reach * np.sin(angle)), about_y(turned))
    close = {"ball": builder.add_joint_ball, "revolute": builder.add_joint_revolute, "fixed": builder.add_joint_fixed}[
        kind
    ]
    axis = {"axis": ALONG_Y} if kind == "revolute" else {}
    close(-1, links - 1, parent_xform=end, child_xform=wp.transform((LENGTH, 0.0, 0.0)), **axis)
    return builder


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("angle", [0.0, np.pi / 6, np.pi / 4, 1.4])
@pytest.mark.parametrize(("links", "miss", "kind"), [
    (2, 0.01, "ball"), (3, 0.05, "ball"), (2, 0.0001, "ball"), (3, 0.01, "revolute"), (3, 0.01, "fixed"),
])  # fmt: skip
def test_it_rests(links, miss, kind, angle, dt):
    """Joints have all but stopped after three seconds, with next to no damping, and the gap is what is missing."""
    rig = Rig(chain(links, miss, angle, kind), dt).run(int(3.0 / dt))
    for _ in range(int(0.5 / dt)):
        assert np.abs(rig.run(1).v[:links]).max() < 0.2
    gap = rig.solver.report(rig.state).loop_gap[0]
    np.testing.assert_allclose(gap, miss, rtol=0.05, atol=1e-4)


def test_axes_of_the_anchor_mean_nothing():
    """A ball joint holds the same however its anchor is turned."""
    v = [Rig(chain(2, 0.02, np.pi / 4, turned=turned), 1.0 / 240.0).run(20).v for turned in (0.0, 0.3, -np.pi / 4)]
    np.testing.assert_allclose(v[1:], [v[0], v[0]], rtol=0.0, atol=0.1)


@pytest.mark.parametrize("kind", ["ball", "revolute", "fixed"])
@pytest.mark.parametrize("angle", [0.0, 0.5])
def test_what_is_asked_for_is_what_the_reference_bounds(kind, angle):
    """By principal directions of all rows of a joint, translations and rotations."""
    model = chain(3, 0.05, angle, kind).finalize()
    state = model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    assert_same_step(model, state, model.control(), None, dt=1.0 / 240.0)
