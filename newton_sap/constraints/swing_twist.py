"""Swing and twist: how two anchors point apart, and how they are turned about what they share (F 2.13)."""

import warp as wp

from ..multibody.spatial import motion

wp.set_module_options({"enable_backward": False})


@wp.func
def twist_angle(turned: wp.quatd, axis: wp.vec3d):
    """Angle of a rotation about an axis, in (-pi, pi]: that of the rotation left when the axis is swung back."""
    along = wp.dot(wp.vec3d(turned[0], turned[1], turned[2]), axis)
    w = turned[3]
    if w < wp.float64(0.0):
        along = -along
        w = -w
    return wp.float64(2.0) * wp.atan2(along, w)


@wp.func
def twist_covector(u: wp.vec3d, v: wp.vec3d):
    """Rate of the twist angle; ``u`` and ``v`` are the axis as the first and the second body carry it."""
    return motion((u + v) / (wp.float64(1.0) + wp.dot(u, v)), wp.vec3d())
