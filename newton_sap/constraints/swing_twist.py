"""Swing and twist: how two anchors point apart, and how they are turned about what they share (F 2.13)."""

import warp as wp

from ..multibody.spatial import motion

wp.set_module_options({"enable_backward": False})

IN_LINE = wp.constant(wp.float64(1.0e-9))
"""Sine of the swing below which its direction is roundoff."""


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


@wp.func
def swing_angle(u: wp.vec3d, v: wp.vec3d):
    """Angle between the axis as the two bodies carry it, in [0, pi]."""
    return wp.atan2(wp.length(wp.cross(u, v)), wp.dot(u, v))


@wp.func
def swing_covector(u: wp.vec3d, v: wp.vec3d):
    """Rate of the swing angle; nothing where the two are in line, and the swing has no direction."""
    across = wp.cross(u, v)
    length = wp.length(across)
    if length < IN_LINE:
        return wp.spatial_vectord()
    return motion(across / length, wp.vec3d())
