"""Body poses, velocities, motion columns and velocity-product accelerations of every tree at the start of the step."""

import newton
import warp as wp

from ..linalg.lanes import TREES_PER_BLOCK
from ..workspace import Bodies, Joints, Motion, StateArrays, Tree
from .joints import (
    BALL,
    MovingFrame,
    is_free,
    parent_anchor,
    read_quaternion,
    through_ball,
    through_chain,
    through_free,
)
from .orders import Orders, free_velocity_from_body_qd, free_velocity_from_joint_qd, read3
from .spatial import angular, inertia_about_origin, to_mat33d, to_quatd, to_vec3d, velocity_at

wp.set_module_options({"enable_backward": False, "block_dim": TREES_PER_BLOCK})

KINEMATIC = wp.constant(int(newton.BodyFlags.KINEMATIC))


@wp.func
def child_anchor_inverse(X_c: wp.transform):
    """Pose of the body in its joint's child-anchor frame, as (rotation, position of the body origin)."""
    back = wp.quat_inverse(to_quatd(wp.transform_get_rotation(X_c)))
    return back, -wp.quat_rotate(back, to_vec3d(wp.transform_get_translation(X_c)))


@wp.func
def reference_point(reference_is_com: int, origin: wp.vec3d, turn: wp.quatd, com: wp.vec3d):
    """Whose velocity a flying body has in ``v``, in the frame in which its origin lies at ``origin``, turned by ``turn``."""
    if reference_is_com == 0:
        return origin
    return origin + wp.quat_rotate(turn, com)


@wp.func
def between_anchors(
    m: Motion,
    joints: Joints,
    joint_q: wp.array[wp.float32],
    joint: int,
    dof: int,
    frame: MovingFrame,
    reference: wp.vec3d,
    reference_is_com: int,
):
    """From a joint's anchor on the parent to the one on the child."""
    kind = joints.type[joint]
    if is_free(kind):
        q = joints.q_start[joint]
        turn = read_quaternion(joint_q, q + 3)
        return through_free(m, dof, frame, read3(joint_q, q), turn, reference, reference_is_com)
    if kind == BALL:
        return through_ball(m, joints, joint_q, joint, dof, frame)
    return through_chain(m, joints, joint_q, joint, dof, frame)


@wp.func
def through_joint(
    m: Motion,
    joints: Joints,
    joint_q: wp.array[wp.float32],
    joint: int,
    dof: int,
    parent: MovingFrame,
    com: wp.vec3d,
    reference_is_com: int,
):
    """From the parent body to the child body; writes the joint's columns."""
    back, origin = child_anchor_inverse(joints.X_c[joint])
    reference = reference_point(reference_is_com, origin, back, com)
    frame = between_anchors(
        m, joints, joint_q, joint, dof, parent_anchor(parent, joints.X_p[joint]), reference, reference_is_com
    )
    frame.position = frame.position + wp.quat_rotate(frame.rotation, origin)
    frame.rotation = wp.normalize(frame.rotation * back)
    return frame


@wp.func
def read_velocity(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
    link: int,
):
    """Take a joint's velocity over into solver order; only free joints change (see ``boundary.convention``)."""
    joint = tree.links[link].joint
    first = tree.links[link].dof_start
    start = joints.qd_start[joint]
    if is_free(joints.type[joint]):
        back, _origin = child_anchor_inverse(joints.X_c[joint])
        # r_OC in parent-anchor axes: child anchor orientation, then the body's in it.
        turn = read_quaternion(state.joint_q, joints.q_start[joint] + 3) * back
        r_OC = wp.quat_rotate(turn, to_vec3d(bodies.com[tree.links[link].body]))
        u = free_velocity_from_joint_qd(orders, state.joint_qd, start, r_OC)
        for i in range(6):
            m.v0[first + i] = u[i]
    else:
        for i in range(tree.links[link + 1].dof_start - first):
            m.v0[first + i] = wp.float64(state.joint_qd[start + i])


@wp.func
def place_free_body(
    tree: Tree, m: Motion, orders: Orders, state: StateArrays, link: int, parent: MovingFrame, com: wp.vec3d
):
    """From the world to a root that no joint moves: its coordinates are those of the body."""
    body = tree.links[link].body
    first = tree.links[link].dof_start
    turn = to_quatd(wp.transform_get_rotation(state.body_q[body]))
    u = free_velocity_from_body_qd(orders, state.body_qd, body, wp.quat_rotate(turn, com))
    for i in range(6):
        m.v0[first + i] = u[i]
    reference = reference_point(orders.reference_is_com, wp.vec3d(), wp.quat_identity(dtype=wp.float64), com)
    offset = to_vec3d(wp.transform_get_translation(state.body_q[body]))
    return through_free(m, first, parent, offset, turn, reference, 1)


@wp.func
def place_link(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
    link: int,
    records: int,
):
    """Pose and velocity of one link, its parent being placed, and its columns and bias if they are wanted."""
    joint = tree.links[link].joint
    parent = MovingFrame()
    parent.rotation = wp.quat_identity(dtype=wp.float64)
    parent.records = records
    above = tree.links[link].parent
    if above >= 0:
        parent.position = m.position[above]
        parent.rotation = m.rotation[above]
        parent.velocity = m.velocity[above]
        if records == 1:
            parent.bias = m.bias[above]
    com = to_vec3d(bodies.com[tree.links[link].body])
    frame = MovingFrame()
    if joint < 0:
        frame = place_free_body(tree, m, orders, state, link, parent, com)
    else:
        read_velocity(tree, joints, bodies, m, orders, state, link)
        frame = through_joint(
            m, joints, state.joint_q, joint, tree.links[link].dof_start, parent, com, orders.reference_is_com
        )
    m.position[link] = frame.position
    m.rotation[link] = frame.rotation
    m.velocity[link] = frame.velocity
    if records == 1:
        m.bias[link] = frame.bias
    m.com[link] = frame.position + wp.quat_rotate(frame.rotation, com)
    return frame


@wp.func
def publish_link(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    motion_after: Motion,
    orders: Orders,
    state: StateArrays,
    link: int,
):
    """Pose and COM velocity of a link at the new joint state, its parent being placed."""
    frame = place_link(tree, joints, bodies, motion_after, orders, state, link, 0)
    if tree.links[link].joint >= 0:
        body = tree.links[link].body
        v_C = velocity_at(frame.velocity, motion_after.com[link])
        state.body_q[body] = wp.transform(wp.vec3(frame.position), wp.quat(frame.rotation))
        state.body_qd[body] = wp.spatial_vector(wp.vec3(v_C), wp.vec3(angular(frame.velocity)))


@wp.func
def lock_root(tree: Tree, bodies: Bodies, m: Motion, t: int):
    """A kinematic root keeps the velocity the user gave it: its dofs are not unknowns."""
    root = tree.trees[t].link_start
    m.locked[t] = 0
    if (bodies.flags[tree.links[root].body] & KINEMATIC) != 0 or int(tree.trees[t].prescribed) == 1:
        m.locked[t] = tree.links[root + 1].dof_start - tree.links[root].dof_start


@wp.kernel
def kinematics(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
):
    """X, V = sum_k S_k v_k, c = sum_k (dS_k/dt) v_k and inertia per link, root to leaves; also refreshes ``body_q``."""
    t = tree.first_tree + wp.tid()
    lock_root(tree, bodies, m, t)
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        frame = place_link(tree, joints, bodies, m, orders, state, link, 1)
        body = tree.links[link].body
        com = m.com[link]
        mass = wp.float64(bodies.mass[body])
        m.mass[link] = mass
        m.moment[link] = mass * com
        m.inertia[link] = inertia_about_origin(mass, com, frame.rotation, to_mat33d(bodies.inertia[body]))
        if tree.links[link].joint >= 0:
            state.body_q[body] = wp.transform(wp.vec3(frame.position), wp.quat(frame.rotation))
