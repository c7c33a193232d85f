"""Where the spans of a routed tendon touch its guides, which guides it touches, and how much of it lies on each.

A roller is a circle in the plane of its guide's axis; a span touches it where it is tangent to the circle in that plane. The
way along a circle is counted in the sense in which the tendon goes around it.
"""

import newton
import warp as wp

from ..coupling_bundles import Routes
from ..multibody.spatial import to_vec3d
from ..workspace import Motion, Tree
from .coupler_pool import Anchor, anchor_of

wp.set_module_options({"enable_backward": False})

ROLLER = wp.constant(int(newton.TendonGuideType.ROLLER))
ANCHOR = wp.constant(int(newton.TendonGuideType.ANCHOR))
DYNAMIC = wp.constant(int(newton.TendonGuideFlags.DYNAMIC))

HALF_PI = wp.constant(wp.float64(1.5707963267948966))
NEAR = wp.constant(wp.float64(1.0e-12))
"""Length [m] below which a direction has none."""
ROUNDS = wp.constant(64)
"""At most so often is a line laid from one circle to the other and back."""
STAYS_OFF = wp.constant(wp.float64(2.0e-3))
"""Share of its radius by which a span must cross a dynamic roller that it does not touch yet: Newton's number."""


@wp.struct
class Guide:
    """A guide where its body is."""

    at: Anchor  # the point, or the centre of the circle
    axis: wp.vec3d
    radius: wp.float64  # 0 for a point
    turn: wp.float64  # +1 where the tendon goes around the axis by the right hand, or -1


@wp.struct
class Span:
    """A straight piece of a tendon, from guide to guide."""

    first: wp.vec3d
    last: wp.vec3d


@wp.func
def read_guide(tree: Tree, m: Motion, routes: Routes, g: int):
    """A guide on its body, or in the world."""
    out = Guide()
    out.at = anchor_of(tree, m, routes.body[g], wp.transform(routes.offset[g], wp.quat_identity()))
    out.axis = wp.quat_rotate(out.at.rotation, to_vec3d(routes.axis[g]))
    out.turn = wp.float64(routes.orientation[g])
    if routes.kind[g] == ROLLER:
        out.radius = wp.float64(routes.radius[g])
    return out


@wp.func
def in_plane(guide: Guide, v: wp.vec3d):
    """The part of a vector in the plane of a guide."""
    return v - wp.dot(v, guide.axis) * guide.axis


@wp.func
def tangent_point(guide: Guide, p: wp.vec3d, sense: wp.float64):
    """Where a line from a point touches a roller, coming onto it (``sense`` 1) or leaving it (-1); the centre of a point."""
    if guide.radius == wp.float64(0.0):
        return guide.at.position
    away = in_plane(guide, p - guide.at.position)
    distance = wp.length(away)
    if distance <= NEAR:
        away = in_plane(guide, wp.vec3d(wp.float64(1.0), wp.float64(0.0), wp.float64(0.0)))
        if wp.length_sq(away) < wp.float64(0.1):
            away = in_plane(guide, wp.vec3d(wp.float64(0.0), wp.float64(1.0), wp.float64(0.0)))
        distance = wp.length(away)
    u = away / distance
    if distance <= guide.radius:
        return guide.at.position + guide.radius * u
    # The radius to the point of contact leans back from the line to the point by the angle whose cosine is radius / distance.
    cosine = guide.radius / distance
    sine = wp.sqrt(wp.float64(1.0) - cosine * cosine)
    side = sense * guide.turn * wp.cross(guide.axis, u)
    return guide.at.position + guide.radius * (cosine * u + sine * side)


@wp.func
def span_between(a: Guide, b: Guide):
    """The straight piece from one guide to the next."""
    out = Span()
    coming = wp.float64(1.0)
    leaving = wp.float64(-1.0)
    out.first = a.at.position
    out.last = b.at.position
    rounds = int(1)
    if a.radius > wp.float64(0.0) and b.radius > wp.float64(0.0):
        rounds = ROUNDS
    for _round in range(rounds):
        before = out.first
        out.last = tangent_point(b, out.first, coming)
        out.first = tangent_point(a, out.last, leaving)
        if wp.length(out.first - before) <= NEAR:
            break
    if b.radius > wp.float64(0.0):
        out.last = tangent_point(b, out.first, coming)
    return out


@wp.func
def arc(guide_axis: wp.vec3d, turn: wp.float64, radius: wp.float64, a: wp.vec3d, b: wp.vec3d):
    """Way along a circle from one of its points to another, at most half around; both relative to the centre."""
    p = a - wp.dot(a, guide_axis) * guide_axis
    q = b - wp.dot(b, guide_axis) * guide_axis
    return turn * radius * wp.atan2(wp.dot(wp.cross(p, q), guide_axis), wp.dot(p, q))


@wp.func
def wrap_angle(guide: Guide, before: Span, after: Span):
    """By how much a tendon turns at a guide, up to three quarters of a turn around a roller."""
    angle = wp.float64(0.0)
    if guide.radius > wp.float64(0.0):
        centre = guide.at.position
        angle = arc(guide.axis, guide.turn, wp.float64(1.0), before.last - centre, after.first - centre)
        if angle < -HALF_PI:  # more than half around, not a little less than nothing
            angle += wp.float64(4.0) * HALF_PI
        angle = wp.abs(angle)
    else:
        u = before.last - before.first
        v = after.last - after.first
        angle = wp.atan2(wp.length(wp.cross(u, v)), wp.dot(u, v))
    return angle


@wp.func
def touches(guide: Guide, bypass: Span, touched: int):
    """Whether a tendon that would go straight past a dynamic roller lies on it: by Newton's rule, in the roller's plane.

    One that does lies there until the straight line is beside the roller; Newton lets go of a roller behind an end, too, around
    which the tendon turns back.
    """
    way = in_plane(guide, bypass.last - bypass.first)
    square = wp.length_sq(way)
    if square <= NEAR:
        return touched
    offset = in_plane(guide, guide.at.position - bypass.first)
    along = wp.dot(offset, way) / square
    if along <= wp.float64(0.0) or along >= wp.float64(1.0):
        return touched
    aside = guide.turn * wp.dot(offset - along * way, wp.cross(guide.axis, way)) / wp.sqrt(square)
    reach = guide.radius
    if touched == 0:
        reach = reach * (wp.float64(1.0) - STAYS_OFF)
    return int(aside <= reach)
