"""What Newton gets back: body states consistent with the joint states."""

import warp as wp

from ..workspace import StateArrays, Tree

wp.set_module_options({"enable_backward": False})


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
