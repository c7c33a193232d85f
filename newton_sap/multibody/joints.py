"""One joint: the child's pose, the motion columns of its dofs, and its velocity-product acceleration.

Three families cover every type. *Chains* (prismatic, revolute, fixed, D6) apply single-axis motions one after the
other, each axis carried by those before it. *Ball* joints turn about their anchor with axes fixed in the parent.
*Free* joints (distance joints too) have velocity ``[w, v_ref]`` in parent-anchor axes, of the child relative to the
parent material under it, where ``ref`` is the child's origin or its COM.
"""

import newton
import warp as wp

from ..workspace import Joints, Motion
from .spatial import angular, cross_motion, motion, rotation_about, to_quatd, to_vec3d, velocity_at

wp.set_module_options({"enable_backward": False})

BALL = wp.constant(int(newton.JointType.BALL))
FREE = wp.constant(int(newton.JointType.FREE))
DISTANCE = wp.constant(int(newton.JointType.DISTANCE))

MOST_AXES = wp.constant(6)
"""Of a chain: a D6 joint with all of them."""


@wp.struct
class MovingFrame:
    """A frame on its way through a joint."""

    position: wp.vec3d
    rotation: wp.quatd
    velocity: wp.spatial_vectord
    bias: wp.spatial_vectord  # velocity-product acceleration gathered so far
    records: int  # 1: columns and bias are wanted, 0: pose and velocity only


@wp.func
def is_free(kind: int):
    """Free and distance joints move alike."""
    return kind == FREE or kind == DISTANCE


@wp.func
def flies(joints: Joints, joint: int):
    """Whether a link has six velocities ``[w, v_ref]``: by its joint, or because it has none."""
    free = bool(joint < 0)
    if joint >= 0:
        free = is_free(joints.type[joint])
    return free


@wp.func
def turns_freely(joints: Joints, joint: int):
    """Whether a joint's first three velocities are a rotation about any axis."""
    free = flies(joints, joint)
    if joint >= 0:
        free = free or joints.type[joint] == BALL
    return free


@wp.func
def parent_anchor(frame: MovingFrame, X_p: wp.transform):
    """The frame of the joint's anchor on the parent; velocity and bias are those of the parent."""
    out = MovingFrame()
    out.position = frame.position + wp.quat_rotate(frame.rotation, to_vec3d(wp.transform_get_translation(X_p)))
    out.rotation = frame.rotation * to_quatd(wp.transform_get_rotation(X_p))
    out.velocity = frame.velocity
    out.bias = frame.bias
    out.records = frame.records
    return out


@wp.func
def add_dof(m: Motion, dof: int, column: wp.spatial_vectord, carried_by: wp.spatial_vectord, frame: MovingFrame):
    """Record a column that moves with ``carried_by`` and let its dof act on the frame."""
    rate = m.v0[dof]
    if frame.records == 1:
        m.column[dof] = column
        frame.bias = frame.bias + cross_motion(carried_by, column) * rate
    frame.velocity = frame.velocity + column * rate
    return frame


@wp.func
def through_axis(
    m: Motion, joints: Joints, joint_q: wp.array[wp.float32], joint: int, dof: int, i: int, frame: MovingFrame
):
    """Along or about the i-th axis of a chain, if it has so many."""
    if i >= joints.dof_dim[joint, 0] + joints.dof_dim[joint, 1]:
        return frame
    local = wp.normalize(to_vec3d(joints.axis[joints.qd_start[joint] + i]))
    axis = wp.quat_rotate(frame.rotation, local)
    value = wp.float64(joint_q[joints.q_start[joint] + i])
    carried_by = frame.velocity
    if i < joints.dof_dim[joint, 0]:
        slid = add_dof(m, dof + i, motion(wp.vec3d(), axis), carried_by, frame)
        slid.position = slid.position + axis * value
        return slid
    turned = add_dof(m, dof + i, rotation_about(axis, frame.position), carried_by, frame)
    turned.rotation = turned.rotation * wp.quat_from_axis_angle(local, value)
    return turned


@wp.func
def through_chain(m: Motion, joints: Joints, joint_q: wp.array[wp.float32], joint: int, dof: int, frame: MovingFrame):
    """Through prismatic, revolute, fixed and D6 joints: translations first, then carried rotations."""
    for i in range(MOST_AXES):  # unrolled, so that it can be differentiated: each axis starts where the last one ended
        frame = through_axis(m, joints, joint_q, joint, dof, i, frame)
    return frame


@wp.func
def read_quaternion(joint_q: wp.array[wp.float32], start: int):
    """Four coordinates as a unit quaternion."""
    return to_quatd(wp.quat(joint_q[start], joint_q[start + 1], joint_q[start + 2], joint_q[start + 3]))


@wp.func
def through_ball(m: Motion, joints: Joints, joint_q: wp.array[wp.float32], joint: int, dof: int, frame: MovingFrame):
    """Through a ball joint, whose axes stay with the parent."""
    parent = frame.velocity
    axes = wp.quat_to_matrix(frame.rotation)
    for i in range(3):
        axis = wp.vec3d(axes[0, i], axes[1, i], axes[2, i])
        frame = add_dof(m, dof + i, rotation_about(axis, frame.position), parent, frame)
    frame.rotation = frame.rotation * read_quaternion(joint_q, joints.q_start[joint])
    return frame


@wp.func
def straight_on(V: wp.spatial_vectord, change: wp.spatial_vectord, pivot: wp.vec3d):
    """Product of a velocity and a change of it in a body whose spin and whose velocity of a pivot stay what they are."""
    return motion(wp.vec3d(), wp.cross(velocity_at(V, pivot), angular(change)))


@wp.func
def through_free(
    m: Motion,
    dof: int,
    frame: MovingFrame,
    offset: wp.vec3d,
    turn: wp.quatd,
    reference: wp.vec3d,
    by_itself: int,
):
    """Through a free joint; ``reference`` is the velocity's reference point in the child-anchor frame.

    What moves ``by_itself`` goes straight on while nothing accelerates it, whatever its parent does; else its rates stay
    what they are in the parent's turning axes.
    """
    parent = frame.velocity
    axes = wp.quat_to_matrix(frame.rotation)
    anchor = frame.position + wp.quat_rotate(frame.rotation, offset)
    frame.rotation = frame.rotation * turn
    pivot = anchor + wp.quat_rotate(frame.rotation, reference)
    spin = wp.vec3d()
    slide = wp.vec3d()
    for i in range(3):
        axis = wp.vec3d(axes[0, i], axes[1, i], axes[2, i])
        spin = spin + axis * m.v0[dof + i]
        slide = slide + axis * m.v0[dof + 3 + i]
        frame = add_dof(m, dof + i, rotation_about(axis, pivot), parent, frame)
    for i in range(3):
        axis = wp.vec3d(axes[0, i], axes[1, i], axes[2, i])
        frame = add_dof(m, dof + 3 + i, motion(wp.vec3d(), axis), parent, frame)
    # The pivot of the rotations slides relative to the parent.
    relative = frame.bias + motion(wp.vec3d(), wp.cross(slide, spin))
    absolute = straight_on(frame.velocity, frame.velocity, pivot)
    frame.bias = wp.where(by_itself == 1, absolute, relative)
    frame.position = anchor
    return frame
