"""Steps of unlike length: what a long one leaves open does not fly apart in a very short one, such as the rest of a frame."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link

FRAME = 1.0 / 60.0
LENGTH = 0.5


def pendulum(tie):
    """A body that a loop joint hangs on the world, or two hinges of which one follows the other."""
    builder = newton.ModelBuilder()
    at = wp.transform((0.0, 0.0, 2.0))
    if tie == "mimic":
        bodies = [link(builder, 1.0, 0.01, com=wp.vec3(0.0, 0.0, -LENGTH)) for _ in range(2)]
        joints = [builder.add_joint_revolute(-1, body, parent_xform=at, axis=(0, 1, 0)) for body in bodies]
        builder.add_articulation(joints)
        builder.set_joint_mimic(joints[1], joints[0], coeffs=(0.0, 0.5))
        return builder, [6.0, 3.0]
    post, body = link(builder), link(builder, 1.0, 0.01, xform=wp.transform((0.0, 0.0, 2.0 - LENGTH)))
    builder.add_articulation([builder.add_joint_fixed(-1, post, parent_xform=at)])
    builder.add_articulation([builder.add_joint_free(body)])
    if tie == "ball":
        builder.add_joint_ball(post, body, child_xform=wp.transform((0.0, 0.0, LENGTH)))
    else:
        builder.add_joint_distance(post, body, min_distance=0.0, max_distance=LENGTH)
    return builder, [3.0, 0.0, 0.0, 0.0, -6.0 if tie == "ball" else 0.0, 0.0]


@pytest.mark.parametrize("rest", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("tie", ["ball", "distance", "mimic"])
def test_a_rest_of_a_frame_throws_nothing(tie, rest):
    """The pendulum never goes faster than at the bottom, where it starts."""
    builder, v = pendulum(tie)
    rig = Rig(builder, FRAME, v=v)
    fastest = 0.0
    for _ in range(60):
        for rig.dt in (FRAME, rest):
            rig.run(1)
            fastest = max(fastest, np.abs(rig.v).max())
    assert fastest < 1.02 * np.abs(v).max()
    assert rig.solver.report().healthy


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
def test_what_rests_stays_whatever_the_steps_are(law):
    """Shapes whose material nobody set are as stiff as a step resolves, which a short one must not make use of at once."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.1)))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    rig = Rig(builder, FRAME, contact_model=law)
    for rest in (1e-3, 1e-5, 1e-7, 1e-9, 1e-12):
        for rig.dt in (FRAME, rest) * 20:
            rig.run(1)
            assert np.abs(rig.v).max() < 1e-3
    assert rig.q[2] == pytest.approx(0.1, abs=1e-4)
