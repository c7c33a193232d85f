"""Paths of MuJoCo's spatial tendons: segments from site to site, straight or around a round body, each with its share.

The force of a straight piece is one line through its ends, and conserves momentum. Around a body the tendon is the shortest
way, so that its length changes as if both points where it leaves the surface were fixed on the body.
"""

import warp as wp

from ..coupling_bundles import Tendons
from ..multibody.spatial import motion, to_quatd, to_vec3d
from ..workspace import CouplerPool, Motion, Problem, Tree
from .coupler_pool import (
    SHORT_TIME,
    Anchor,
    Leverage,
    add_motion,
    anchor_of,
    merge_terms,
    moved,
    relative_velocity,
    steady_acceleration,
)
from .coupling_table import NOTHING
from .tendon_wrap import wrap

wp.set_module_options({"enable_backward": False})

SHORTEST = wp.constant(wp.float64(1.0e-9))
"""Length [m] below which a piece has no direction."""


@wp.struct
class Route:
    """What a segment connects."""

    a: Anchor
    around: Anchor  # the round body's centre; b where there is none
    side: Anchor  # a site on the side where the tendon stays, if it is sided
    b: Anchor
    kind: int
    sided: int
    radius: wp.float64
    share: wp.float64


@wp.struct
class Segment:
    """A segment's length and how it changes, with its share of the path's; F is 0 where a piece has no direction."""

    length: wp.float64
    first: wp.vec3d  # where the first piece ends
    F_first: wp.spatial_vectord  # on the velocity of what it goes around, or of B, against A
    F_last: wp.spatial_vectord  # on that of B against what it goes around; 0 where it goes straight


@wp.struct
class Measured:
    """A length as a row has gathered it."""

    length: wp.float64
    leverage: Leverage  # 0 for a sum of coordinates


@wp.func
def route_between(tendons: Tendons, s: int, a: Anchor, b: Anchor):
    """A segment's route without what it goes around."""
    out = Route()
    out.a = a
    out.b = b
    out.around = b
    out.kind = tendons.kind[s]
    out.sided = int(tendons.side[s] >= 0)
    out.share = wp.float64(tendons.share[s])
    if out.kind != NOTHING:
        out.radius = wp.float64(tendons.shape_scale[tendons.around[s]][0])
    return out


@wp.func
def shape_anchor(tree: Tree, m: Motion, tendons: Tendons, shape: int):
    """A site or a geometry on its body, or in the world."""
    return anchor_of(tree, m, tendons.shape_body[shape], tendons.shape_transform[shape])


@wp.func
def read_route(tree: Tree, m: Motion, tendons: Tendons, s: int):
    """A segment's ends and obstacle where the bodies are."""
    a = shape_anchor(tree, m, tendons, tendons.site_a[s])
    b = shape_anchor(tree, m, tendons, tendons.site_b[s])
    out = route_between(tendons, s, a, b)
    if out.kind != NOTHING:
        out.around = shape_anchor(tree, m, tendons, tendons.around[s])
    if out.sided == 1:
        out.side = shape_anchor(tree, m, tendons, tendons.side[s])
    return out


@wp.func
def line(a: wp.vec3d, b: wp.vec3d, share: wp.float64):
    """Covector of the rate at which two points part."""
    d = b - a
    F = wp.spatial_vectord()
    if not (wp.length(d) <= SHORTEST):
        u = share * d / wp.length(d)
        F = motion(wp.cross(b, u), u)
    return F


@wp.func
def lay(route: Route):
    """Lay a segment along its route."""
    out = Segment()
    a = route.a.position
    b = route.b.position
    out.first = b
    out.length = route.share * wp.length(b - a)
    if route.kind != NOTHING:
        touch = wrap(route.kind, route.around, route.radius, a, b, route.side.position, route.sided)
        if touch.on == 1:
            out.first = touch.first
            out.length = route.share * (wp.length(touch.first - a) + touch.length + wp.length(b - touch.last))
            out.F_last = line(touch.last, b, route.share)
    out.F_first = line(a, out.first, route.share)
    return out


@wp.func
def middle(route: Route, F_last: wp.spatial_vectord):
    """What the first piece pulls at: the round body while the segment lies on it, else B."""
    out = route.around
    if wp.length_sq(F_last) == wp.float64(0.0):
        out = route.b
    return out


@wp.func
def later(m: Motion, route: Route, time: wp.float64):
    """A route after all its bodies went on for some time as they go now."""
    route.a = moved(m, route.a, time)
    route.b = moved(m, route.b, time)
    route.around = moved(m, route.around, time)
    route.side = moved(m, route.side, time)
    return route


@wp.func
def path_motion(tree: Tree, m: Motion, tendons: Tendons, t: int):
    """A path's length and its rate."""
    length = wp.float64(0.0)
    rate = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        route = read_route(tree, m, tendons, s)
        segment = lay(route)
        mid = middle(route, segment.F_last)
        rate += wp.dot(segment.F_first, relative_velocity(m, route.a, mid))
        rate += wp.dot(segment.F_last, relative_velocity(m, mid, route.b))
        length += segment.length
    return length, rate


@wp.func
def path_acceleration(tree: Tree, m: Motion, tendons: Tendons, t: int):
    """Acceleration of a path's length, which a row has gathered, while all dofs keep their velocity."""
    total = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        route = read_route(tree, m, tendons, s)
        mid = middle(route, tendons.F_last[s])
        change_first = wp.spatial_vectord()
        change_last = wp.spatial_vectord()
        lies_on = wp.length_sq(tendons.F_last[s]) > wp.float64(0.0)
        alike = wp.float64(0.0)
        times = int(2)  # no constant: the loop is not to be unrolled
        for side in range(times):
            sign = wp.float64(1 - 2 * side)
            there = lay(later(m, route, sign * SHORT_TIME))
            # Where it comes onto the round body or leaves it, the other side of the moment alone tells how it turns.
            if (wp.length_sq(there.F_last) > wp.float64(0.0)) == lies_on:
                change_first = change_first + sign * (there.F_first - tendons.F_first[s])
                change_last = change_last + sign * (there.F_last - tendons.F_last[s])
                alike += wp.float64(1.0)
        if alike == wp.float64(1.0):
            change_first = wp.float64(2.0) * change_first
            change_last = wp.float64(2.0) * change_last
        total += steady_acceleration(m, route.a, mid, tendons.F_first[s], change_first)
        total += steady_acceleration(m, mid, route.b, tendons.F_last[s], change_last)
    return total


@wp.func
def add_path(tree: Tree, tendons: Tendons, m: Motion, pool: CouplerPool, problem: Problem, row: int, t: int):
    """Add the rate of a path's length to a row, and measure it; 0 for a tendon that has none."""
    out = Measured()
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        route = read_route(tree, m, tendons, s)
        segment = lay(route)
        mid = middle(route, segment.F_last).link
        out.length += segment.length
        tendons.F_first[s] = segment.F_first
        tendons.F_last[s] = segment.F_last
        tendons.middle[s] = mid
        pieces = int(2)  # no constant: the loop is not to be unrolled
        for piece in range(pieces):
            F = segment.F_first
            a = route.a.link
            b = mid
            point = segment.first
            if piece == 1:
                F = segment.F_last
                a = mid
                b = route.b.link
                point = route.b.position
            kept = pool.support[row]
            leverage = add_motion(tree, m, pool, problem, row, a, b, F, point)
            out.leverage.most += leverage.most
            out.leverage.bend += leverage.bend
            merge_terms(pool, row, kept)
    return out


@wp.func
def path_wrench(tree: Tree, tendons: Tendons, t: int, body: int):
    """Covector, about the world origin, by which a unit impulse along the length acts on a body in this step."""
    total = wp.spatial_vectord()
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        if tendons.shape_body[tendons.site_a[s]] == body:
            total = total - tendons.F_first[s]
        if tendons.middle[s] == tree.bodies[body].link:
            total = total + tendons.F_first[s] - tendons.F_last[s]
        if tendons.shape_body[tendons.site_b[s]] == body:
            total = total + tendons.F_last[s]
    return total


@wp.func
def anchor_at(tendons: Tendons, body_q: wp.array[wp.transform], shape: int):
    """A site or a geometry on a body in a pose, or in the world."""
    at = tendons.shape_transform[shape]
    body = tendons.shape_body[shape]
    if body >= 0:
        at = body_q[body] * at
    out = Anchor()
    out.position = to_vec3d(wp.transform_get_translation(at))
    out.rotation = to_quatd(wp.transform_get_rotation(at))
    return out


@wp.kernel
def measure_paths(tendons: Tendons, body_q: wp.array[wp.transform], length: wp.array[wp.float32]):
    """Length of each path where the bodies have some poses, 0 for a sum."""
    t = wp.tid()
    total = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        a = anchor_at(tendons, body_q, tendons.site_a[s])
        route = route_between(tendons, s, a, anchor_at(tendons, body_q, tendons.site_b[s]))
        if route.kind != NOTHING:
            route.around = anchor_at(tendons, body_q, tendons.around[s])
        if route.sided == 1:
            route.side = anchor_at(tendons, body_q, tendons.side[s])
        total += lay(route).length
    length[t] = wp.float32(total)
