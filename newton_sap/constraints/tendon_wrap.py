"""How a tendon that runs from one site to another goes around a sphere or a cylinder, frictionless, by MuJoCo's rule.

It lies on the body where the straight line would pass through it, or, with a side given, on the wrong side of it.
"""

import warp as wp

from .coupler_pool import Anchor
from .coupling_table import CYLINDER, SPHERE

wp.set_module_options({"enable_backward": False})

PI = wp.constant(wp.float64(3.141592653589793))
TINY = wp.constant(wp.float64(1.0e-15))
CROSSED = wp.constant(wp.float64(-1.0e4))
"""How good a pair of tangents is that cross each other."""


@wp.struct
class Touch:
    """Where a tendon comes onto a round body and leaves it."""

    on: int  # 0 where it passes by
    first: wp.vec3d
    last: wp.vec3d
    length: wp.float64  # between them, along the surface


@wp.struct
class Arc:
    """The same in the plane of a circle about the origin."""

    on: int
    first: wp.vec2d
    last: wp.vec2d
    length: wp.float64


@wp.func
def cross2(a: wp.vec2d, b: wp.vec2d):
    """The third component of a cross product."""
    return a[0] * b[1] - a[1] * b[0]


@wp.func
def crosses(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d, d: wp.vec2d):
    """Whether the segments ab and cd meet."""
    det = cross2(b - a, d - c)
    if wp.abs(det) < TINY:
        return False
    s = cross2(c - a, d - c) / det
    t = cross2(c - a, b - a) / det
    zero = wp.float64(0.0)
    one = wp.float64(1.0)
    return s >= zero and s <= one and t >= zero and t <= one


@wp.func
def tangent_point(p: wp.vec2d, radius: wp.float64, turn: wp.float64):
    """Where a line from ``p`` touches the circle; ``turn`` says on which of both sides."""
    square = wp.length_sq(p)
    reach = turn * radius * wp.sqrt(square - radius * radius)
    return (radius * radius * p + reach * wp.vec2d(p[1], -p[0])) / square


@wp.func
def arc_length(first: wp.vec2d, last: wp.vec2d, turn: wp.float64, radius: wp.float64):
    """Length from one point of a circle to another, in the sense of ``turn``."""
    angle = wp.atan2(turn * cross2(last, first), wp.dot(first, last))
    if angle < wp.float64(0.0):
        angle += wp.float64(2.0) * PI
    return radius * angle


@wp.func
def wrap_circle(a: wp.vec2d, b: wp.vec2d, side: wp.vec2d, sided: int, radius: wp.float64):
    """The way around a circle, if there is one; ``side`` is a direction."""
    out = Arc()
    d = b - a
    if wp.min(wp.length(a), wp.length(b)) < radius or wp.length_sq(d) < TINY or radius < TINY:
        return out
    nearest = a + wp.clamp(-wp.dot(d, a) / wp.length_sq(d), wp.float64(0.0), wp.float64(1.0)) * d
    if wp.length(nearest) > radius and (sided == 0 or wp.dot(side, nearest) >= wp.float64(0.0)):
        return out
    best = wp.float64(-2.0) * wp.float64(1.0e4)
    ways = int(2)  # no constant: the loop is not to be unrolled
    for way in range(ways):
        turn = wp.float64(1 - 2 * way)
        first = tangent_point(a, radius, turn)
        last = tangent_point(b, radius, -turn)
        good = -wp.length_sq(first - last)
        if sided == 1:
            good = wp.dot(wp.normalize(first + last), side)
        crossed = crosses(a, first, b, last)
        if crossed:
            good = CROSSED
        if good > best:
            best = good
            out.on = int(not crossed)
            out.first = first
            out.last = last
            out.length = arc_length(first, last, turn, radius)
    return out


@wp.func
def across(e: wp.vec3d, f: wp.vec3d):
    """Unit vector orthogonal to a unit vector, towards another vector if that has such a part."""
    rest = f - wp.dot(e, f) * e
    if wp.length(rest) < TINY:
        rest = wp.vec3d(wp.float64(1.0), wp.float64(0.0), wp.float64(0.0))
        if wp.abs(e[0]) > wp.float64(0.7):
            rest = wp.vec3d(wp.float64(0.0), wp.float64(1.0), wp.float64(0.0))
        rest = rest - wp.dot(e, rest) * e
    return wp.normalize(rest)


@wp.func
def wrap(kind: int, around: Anchor, radius: wp.float64, a: wp.vec3d, b: wp.vec3d, side: wp.vec3d, sided: int):
    """The way from ``a`` to ``b`` around a round body; all in world axes, the cylinder along its own z."""
    out = Touch()
    p = wp.quat_rotate_inv(around.rotation, a - around.position)
    q = wp.quat_rotate_inv(around.rotation, b - around.position)
    s = wp.quat_rotate_inv(around.rotation, side - around.position)
    if wp.min(wp.length(p), wp.length(q)) < TINY:
        return out
    x = wp.vec3d(wp.float64(1.0), wp.float64(0.0), wp.float64(0.0))
    y = wp.vec3d(wp.float64(0.0), wp.float64(1.0), wp.float64(0.0))
    if kind == SPHERE:
        x = wp.normalize(p)
        y = across(x, q)
    p2 = wp.vec2d(wp.dot(x, p), wp.dot(y, p))
    q2 = wp.vec2d(wp.dot(x, q), wp.dot(y, q))
    arc = wrap_circle(p2, q2, wp.normalize(wp.vec2d(wp.dot(x, s), wp.dot(y, s))), sided, radius)
    if arc.on == 1:
        first = arc.first[0] * x + arc.first[1] * y
        last = arc.last[0] * x + arc.last[1] * y
        out.length = arc.length
        if kind == CYLINDER:
            # Unrolled, the way is a straight line: it rises evenly.
            before = wp.length(p2 - arc.first)
            rise = (q[2] - p[2]) / (before + arc.length + wp.length(q2 - arc.last))
            first[2] = p[2] + rise * before
            last[2] = first[2] + rise * arc.length
            out.length = arc.length * wp.sqrt(wp.float64(1.0) + rise * rise)
        out.on = 1
        out.first = around.position + wp.quat_rotate(around.rotation, first)
        out.last = around.position + wp.quat_rotate(around.rotation, last)
    return out
