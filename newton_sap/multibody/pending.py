"""What carries a body that flies on a joint below another link, as it will be when that body moves on.

A prescribed root keeps its pose within the step, and its owner moves it before the next one. Until then all that hangs on it
stands where it will be but for that move.
"""

import warp as wp

from ..workspace import Joints, Motion, Tree
from .spatial import angular, motion, rotation_of, to_transformd, velocity_at

wp.set_module_options({"enable_backward": False})


@wp.func
def pending_move(tree: Tree, m: Motion, t: int, dt: wp.float64):
    """How a prescribed root's owner is about to move a tree; not at all where no dof is prescribed."""
    if m.locked[t] == 0:
        return wp.transform_identity(dtype=wp.float64)
    root = tree.trees[t].link_start
    com = m.com[root]
    turn = rotation_of(dt * angular(m.velocity[root]))
    return wp.transformd(com + dt * velocity_at(m.velocity[root], com) - wp.quat_rotate(turn, com), turn)


@wp.func
def carrier_after(tree: Tree, joints: Joints, m: Motion, motion_after: Motion, link: int, dt: wp.float64):
    """The anchor of a link's joint on its parent after the step and that move, the parent being placed."""
    above = tree.links[link].parent
    parent = wp.transformd(motion_after.position[above], motion_after.rotation[above])
    anchor = to_transformd(joints.X_p[tree.links[link].joint])
    return pending_move(tree, m, tree.links[link].tree, dt) * parent * anchor


@wp.func
def carrier_velocity_after(tree: Tree, m: Motion, motion_after: Motion, link: int, point: wp.vec3d, dt: wp.float64):
    """Spin of the parent then, and velocity of its material at a point."""
    V = motion_after.velocity[tree.links[link].parent]
    t = tree.links[link].tree
    w = angular(V)
    v = velocity_at(V, point)
    if m.locked[t] > 0:
        # The root keeps its velocity; what hangs on it turns with it.
        root = tree.trees[t].link_start
        R = m.velocity[root]
        move = pending_move(tree, m, t, dt)
        hangs = V - R
        before = wp.transform_point(wp.transform_inverse(move), point)
        com = m.com[root] + dt * velocity_at(R, m.com[root])
        w = angular(R) + wp.transform_vector(move, angular(hangs))
        v = velocity_at(R, m.com[root]) + wp.cross(angular(R), point - com)
        v = v + wp.transform_vector(move, velocity_at(hangs, before))
    return motion(w, v)
