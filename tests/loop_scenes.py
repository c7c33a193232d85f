"""Two bodies joined by a joint that is in the tree, or closes a loop instead."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp
from rig import G, link, put

Axis = newton.ModelBuilder.JointDofConfig
X, Y, Z = newton.Axis.X, newton.Axis.Y, newton.Axis.Z

FRAME_A = wp.transform(wp.vec3(0.2, 0.1, -0.1), wp.quat_rpy(0.3, -0.4, 0.2))
FRAME_B = wp.transform(wp.vec3(-0.1, 0.05, 0.2), wp.quat_rpy(-0.2, 0.5, 0.1))
MEETING = wp.transform_multiply(FRAME_A, wp.transform_inverse(FRAME_B))
"""Pose of B in A where the joint's coordinates are zero."""
MAKERS = {
    "fixed": lambda b, p, c, **k: b.add_joint_fixed(p, c, **k),
    "revolute": lambda b, p, c, **k: b.add_joint_revolute(p, c, axis=(0.0, 0.6, 0.8), **k),
    "prismatic": lambda b, p, c, **k: b.add_joint_prismatic(p, c, axis=(0.0, 0.6, 0.8), **k),
    "ball": lambda b, p, c, **k: b.add_joint_ball(p, c, **k),
    "universal": lambda b, p, c, **k: b.add_joint_d6(p, c, angular_axes=[Axis(axis=X), Axis(axis=Y)], **k),
    "cylindrical": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[Axis(axis=Z)], angular_axes=[Axis(axis=Z)], **k
    ),
    "planar": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[Axis(axis=X), Axis(axis=Y)], angular_axes=[Axis(axis=Z)], **k
    ),
}
MORE_MAKERS = {
    "gimbal": lambda b, p, c, **k: b.add_joint_d6(p, c, angular_axes=[Axis(axis=a) for a in (X, Y, Z)], **k),
    "left_gimbal": lambda b, p, c, **k: b.add_joint_d6(p, c, angular_axes=[Axis(axis=a) for a in (Y, X, Z)], **k),
    "slanted": lambda b, p, c, **k: b.add_joint_d6(p, c, linear_axes=[Axis(axis=X), Axis(axis=(0.6, 0.8, 0.0))], **k),
    "gantry": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[Axis(axis=a) for a in (X, Y, (0.0, 0.6, 0.8))], **k
    ),
}
ALL_MAKERS = MAKERS | MORE_MAKERS
PLACES = ("world", "two_articulations", "one_articulation")


def furnish(builder, joint, **columns):
    """Write per-axis values of a joint into the builder's ``joint_*`` lists; a single number goes to all axes."""
    for name, values in columns.items():
        starts = builder.joint_q_start if name in ("target_q", "rest_q") else builder.joint_qd_start
        column = getattr(builder, f"joint_{name}")
        start = starts[joint]
        end = starts[joint + 1] if joint + 1 < len(starts) else len(column)
        column[start:end] = [float(x) for x in np.broadcast_to(values, end - start)]
        if name == "target_mode":
            column[start:end] = [int(x) for x in column[start:end]]


def joined(kind, place, loop, requires_grad=False, **columns):
    """Bodies A and B (and a hinged M) joined by a joint that is in the tree, or closes a loop instead.

    ``columns`` are per-axis values of that joint.
    """
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    frames = dict(parent_xform=FRAME_A, child_xform=FRAME_B)
    bodies = [link(builder, 1.0 + 0.5 * i, (0.02, 0.03, 0.04), com=wp.vec3(0.02, 0.0, -0.03)) for i in range(3)]
    a, b, m = bodies if place != "world" else (-1, bodies[0], bodies[1])
    trunk = [] if place == "world" else [builder.add_joint_free(a)]
    hinge = builder.add_joint_revolute(
        a, m, axis=X, parent_xform=wp.transform((0, 0.3, 0), wp.quat_identity()), damping=0.1
    )
    if not loop:
        base = [builder.add_joint_fixed(-1, bodies[2])] if place == "world" else []
        joint = ALL_MAKERS[kind](builder, a, b, **frames)
        furnish(builder, joint, **columns)
        builder.add_articulation([*trunk, hinge, *base, joint])
        return builder.finalize(requires_grad=requires_grad)
    if place == "two_articulations":
        builder.add_articulation([*trunk, hinge])
        builder.add_articulation([builder.add_joint_free(b)])
    else:
        axes = [Axis(axis=e) for e in (X, Y, Z)]
        base = [] if place == "one_articulation" else [builder.add_joint_fixed(-1, bodies[2])]
        carrier = m if place == "one_articulation" else bodies[2]
        free = builder.add_joint_d6(carrier, b, linear_axes=axes, angular_axes=axes)
        builder.add_articulation([*trunk, hinge, *base, free])
    furnish(builder, ALL_MAKERS[kind](builder, a, b, **frames), **columns)
    return builder.finalize(requires_grad=requires_grad)


def start_like(rig, other):
    """Give a rig the body poses and velocities of another, whatever its coordinates."""
    rig.state.body_q.assign(other.state.body_q)
    newton.eval_ik(rig.model, rig.state, rig.state.joint_q, rig.state.joint_qd)
    columns = []
    for unit in np.eye(rig.model.joint_dof_count):  # body velocities are linear in the joint velocities
        put(rig.state.joint_qd, unit)
        newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
        columns.append(rig.body_qd.ravel())
    columns = np.array(columns).reshape(rig.model.joint_dof_count, -1)
    put(rig.state.joint_qd, np.linalg.lstsq(columns.T, other.body_qd.ravel(), rcond=None)[0])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
