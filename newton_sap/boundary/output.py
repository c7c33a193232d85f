"""What Newton gets back: body states consistent with the joint states."""

import warp as wp

from ..multibody.kinematics import place_link
from ..multibody.spatial import angular, velocity_at
from ..workspace import Bodies, Joints, Motion, StateArrays, Tree
from .convention import Orders

wp.set_module_options({"enable_backward": False})


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


@wp.kernel
def keep_loose_bodies(
    tree: Tree,
    before: StateArrays,
    after: StateArrays,
):
    """A body that does not move by itself passes through unchanged."""
    body = wp.tid()
    if tree.bodies[body].link < 0:
        after.body_q[body] = before.body_q[body]
        after.body_qd[body] = before.body_qd[body]


def loop_kernel():
    """Return the kernel that writes coordinates of joints that move no link; few models have any."""
    from .loop_coordinates import publish_loop_joints

    return publish_loop_joints
