"""Spatial linkages with more constraints than they need fall, swing and keep their energy (F 2.9)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig
from scipy.spatial.transform import Rotation


def hinge_frame(axis, point):
    """A frame whose x axis is a hinge's."""
    axis = axis / np.linalg.norm(axis)
    aside = np.cross(axis, [0.0, 0.0, 1.0] if abs(axis[2]) < 0.9 else [1.0, 0.0, 0.0])
    aside /= np.linalg.norm(aside)
    turn = Rotation.from_matrix(np.array([axis, aside, np.cross(axis, aside)]).T)
    return wp.transform(wp.vec3(*point), wp.quat(*turn.as_quat()))


def isogram(turn, kind="revolute", p=0.2, q=0.3, h=0.06):
    """Bennett's linkage: a skew rhombus whose hinges are across the two sides that they join; one side is the ground."""
    corners = turn.apply([[p, 0, h], [0, q, -h], [-p, 0, h], [0, -q, -h]])
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    axes = [np.cross(corners[i - 1] - corners[i], corners[(i + 1) % 4] - corners[i]) for i in range(4)]
    middles, bodies = [], []
    for i in range(3):
        side = corners[i + 1] - corners[i]
        middles.append(0.5 * (corners[i] + corners[i + 1]))
        along = np.outer(side, side) / (side @ side)
        inertia = side @ side / 12.0 * (np.eye(3) - along) + 1e-4 * np.eye(3)
        bodies.append(builder.add_link(mass=1.0, inertia=wp.mat33(*inertia.ravel()), lock_inertia=True))
    joints = []
    for i in range(3):
        above, base = (-1, np.zeros(3)) if i == 0 else (bodies[i - 1], middles[i - 1])
        frames = hinge_frame(axes[i], corners[i] - base), hinge_frame(axes[i], corners[i] - middles[i])
        joints.append(
            builder.add_joint_revolute(
                above, bodies[i], axis=(1, 0, 0), parent_xform=frames[0], child_xform=frames[1], armature=0.0
            )
        )
    builder.add_articulation(joints)
    ends = {
        "parent_xform": hinge_frame(axes[3], corners[3]),
        "child_xform": hinge_frame(axes[3], corners[3] - middles[2]),
    }
    if kind == "revolute":
        builder.add_joint_revolute(-1, bodies[2], axis=(1, 0, 0), **ends)
    else:
        builder.add_joint_ball(-1, bodies[2], **ends)
    return builder.finalize(skip_validation_joints=True)


def fallen(model, dt, seconds=2.0):
    """Change of energy [J] after a fall from rest, over the largest kinetic energy."""
    rig = Rig(model, dt)
    report = rig.solver.report(rig.state)
    start, fastest = report.kinetic_energy.sum() + report.potential_energy.sum(), 0.0
    for _ in range(round(seconds / dt)):
        report = rig.run().solver.report(rig.state)
        fastest = max(fastest, report.kinetic_energy.sum())
    assert report.healthy
    return (report.kinetic_energy.sum() + report.potential_energy.sum() - start) / fastest


@pytest.mark.parametrize("kind", ["revolute", "ball"])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_it_keeps_its_energy(seed, kind):
    """Whichever way it is turned."""
    change = fallen(isogram(Rotation.random(random_state=seed), kind), 1.0 / 240.0)
    assert abs(change) < 0.01
