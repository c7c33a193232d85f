"""What routed tendons remember from step to step, in Newton's states: material per span, where it touched, which rollers."""

import warp as wp

from ..constraints.coupler_pool import spin_of
from ..constraints.route_geometry import (
    DYNAMIC,
    ROLLER,
    Guide,
    arc,
    read_guide,
    span_between,
    touches,
)
from ..constraints.routes import compliance_of, settle_by_compliance, span_impulse, tension
from ..constraints.tendon_paths import line
from ..coupling_bundles import Routes
from ..multibody.paths import is_moved
from ..multibody.spatial import to_vec3d
from ..workspace import ChosenWorlds, CouplerPool, Motion, Tree

wp.set_module_options({"enable_backward": False})

FULL_TURN = wp.constant(wp.float64(6.283185307179586))


@wp.struct
class RouteHistory:
    """A state's arrays of tendons."""

    rest: wp.array[wp.float32]  # (S,) [m] material of each span; negative where none was laid yet
    first: wp.array[wp.vec3]  # (S,) where it touched the guides, on their bodies
    last: wp.array[wp.vec3]
    active: wp.array[wp.bool]  # (N,)


@wp.func
def is_dynamic(routes: Routes, g: int):
    """Whether a tendon may leave a guide and come back."""
    return routes.kind[g] == ROLLER and (routes.flags[g] & DYNAMIC) != 0


@wp.func
def was_active(routes: Routes, history: RouteHistory, g: int, t: int):
    """Whether the tendon touched a guide before; in a new state, in the model's own pose."""
    if not is_dynamic(routes, g):
        return True
    if history.rest[g - 1 - t] < 0.0:
        return routes.initially_active[g]
    return history.active[g]


@wp.func
def material(routes: Routes, history: RouteHistory, s: int):
    """Length that a span had of the tendon; negative where that is to be measured."""
    rest = history.rest[s]
    if rest < 0.0:
        rest = routes.initial_rest[s]
    return wp.float64(rest)


@wp.func
def arc_on_body(routes: Routes, g: int, a: wp.vec3, b: wp.vec3):
    """Way along a roller between two points on its body; 0 where one is that of a state that no step has seen."""
    way = wp.float64(0.0)
    if routes.kind[g] == ROLLER and wp.length_sq(a) > 0.0 and wp.length_sq(b) > 0.0:
        p = to_vec3d(a - routes.offset[g])
        q = to_vec3d(b - routes.offset[g])
        way = arc(to_vec3d(routes.axis[g]), wp.float64(routes.orientation[g]), wp.float64(routes.radius[g]), p, q)
    return way


@wp.func
def way_turned(tree: Tree, m: Motion, known: Motion, routes: Routes, g: int, moved: int, dt: wp.float64):
    """Way that a roller's own turn takes the tendon's end along it, backwards on its body, if that turned since it was touched.

    A step turns what is free (``moved`` 1), owners turn what is prescribed between steps, each at the rate that ``m`` has.
    """
    roller = read_guide(tree, m, routes, g)
    way = wp.float64(0.0)
    if roller.at.link >= 0 and is_moved(tree, known, roller.at.link) == (moved == 1):
        way = -roller.turn * roller.radius * dt * wp.dot(spin_of(m, roller.at), roller.axis)
    return way


@wp.func
def way_since(routes: Routes, g: int, a: wp.vec3, b: wp.vec3, expected: wp.float64):
    """Way along a roller between two points on its body, with as many whole turns as bring it closest to what was expected."""
    way = arc_on_body(routes, g, a, b)
    around = FULL_TURN * wp.float64(routes.radius[g])
    if around > wp.float64(0.0) and wp.length_sq(a) > 0.0 and wp.length_sq(b) > 0.0:
        way += around * wp.round((expected - way) / around)
    return way


@wp.func
def choose_guides(tree: Tree, m: Motion, routes: Routes, history: RouteHistory, t: int):
    """Which guides the tendon touches; neighbours of a dynamic one are always among them."""
    for g in range(routes.start[t], routes.start[t + 1]):
        routes.active[g] = True
        if is_dynamic(routes, g):
            past = span_between(read_guide(tree, m, routes, g - 1), read_guide(tree, m, routes, g + 1))
            touched = int(was_active(routes, history, g, t))
            routes.active[g] = touches(read_guide(tree, m, routes, g), past, touched) == 1


@wp.func
def in_body_axes(guide: Guide, offset: wp.vec3, point: wp.vec3d):
    """A point in the axes of a guide's body, as a state keeps it."""
    return offset + wp.vec3(wp.quat_rotate_inv(guide.at.rotation, point - guide.at.position))


@wp.func
def lay_span(tree: Tree, m: Motion, routes: Routes, g: int, s: int):
    """Lay the span that leaves a guide."""
    to = g + 1
    if not routes.active[to]:
        to = g + 2
    a = read_guide(tree, m, routes, g)
    b = read_guide(tree, m, routes, to)
    span = span_between(a, b)
    routes.next_guide[s] = to
    routes.first[s] = span.first
    routes.last[s] = span.last
    routes.first_local[s] = in_body_axes(a, routes.offset[g], span.first)
    routes.last_local[s] = in_body_axes(b, routes.offset[to], span.last)
    routes.length[s] = wp.length(span.last - span.first)
    routes.F[s] = line(span.first, span.last, wp.float64(1.0))


@wp.func
def material_now(routes: Routes, history: RouteHistory, g: int, t: int):
    """Material of the span that leaves a guide, before anything rolls: what it had, or what came with rollers left and met."""
    s = g - t
    rest = material(routes, history, s)
    to = routes.next_guide[s]
    if to == g + 2 and was_active(routes, history, g + 1, t):  # the tendon left the roller between
        after = material(routes, history, s + 1)
        joined = rest + after + arc_on_body(routes, g + 1, history.last[s], history.first[s + 1])
        rest = wp.where(wp.min(rest, after) < wp.float64(0.0), wp.float64(-1.0), joined)
    elif to == g + 1 and not was_active(routes, history, to, t):  # it met the roller at the end
        rest = share_of_met(routes, rest, to, s, s)
    elif not was_active(routes, history, g, t):  # or that at the beginning
        rest = share_of_met(routes, material(routes, history, s - 1), g, s - 1, s)
    if rest < wp.float64(0.0):
        rest = routes.length[s]
    return rest


@wp.func
def share_of_met(routes: Routes, rest: wp.float64, g: int, before: int, s: int):
    """A span's share of what a tendon had that has just met a roller, but for what lies on it now."""
    free = rest - arc_on_body(routes, g, routes.last_local[before], routes.first_local[before + 1])
    return wp.where(
        rest < wp.float64(0.0), rest, free * routes.length[s] / (routes.length[before] + routes.length[before + 1])
    )


@wp.func
def roll(
    tree: Tree,
    m: Motion,
    known: Motion,
    routes: Routes,
    history: RouteHistory,
    g: int,
    t: int,
    moved: int,
    dt: wp.float64,
):
    """How much more material the span that leaves a guide has got at both ends from rollers, if nothing slips."""
    s = g - t
    to = routes.next_guide[s]
    gained = wp.float64(0.0)
    if was_active(routes, history, g, t):
        expected = way_turned(tree, m, known, routes, g, moved, dt)
        gained -= way_since(routes, g, history.first[s], routes.first_local[s], expected)
    if was_active(routes, history, to, t):
        came = s + to - g - 1  # the place from which it came before
        if not was_active(routes, history, to - 1, t):
            came -= 1
        expected = way_turned(tree, m, known, routes, to, moved, dt)
        gained += way_since(routes, to, history.last[came], routes.last_local[s], expected)
    return gained


@wp.kernel
def lay_routes(
    tree: Tree,
    m: Motion,
    known: Motion,
    routes: Routes,
    history: RouteHistory,
    out: RouteHistory,
    moved: int,
    dt: wp.float64,
):
    """Lay each tendon over its guides where the bodies are, and see how far its spans are stretched if nothing slips.

    ``known`` is the motion of the last step, which tells what is prescribed; ``moved`` is 1 at its end.
    """
    t = wp.tid()
    begin = routes.start[t]
    end = routes.start[t + 1]
    choose_guides(tree, m, routes, history, t)
    for g in range(begin, end - 1):
        s = g - t
        routes.lies[s] = int(routes.active[g])
        routes.next_guide[s] = -1
        routes.row[s] = -1
        routes.first_local[s] = wp.vec3()
        routes.last_local[s] = wp.vec3()
        routes.length[s] = wp.float64(0.0)
        if routes.active[g]:
            lay_span(tree, m, routes, g, s)
    for g in range(begin, end - 1):
        s = g - t
        rest = wp.float64(0.0)
        if routes.active[g]:
            rest = material_now(routes, history, g, t)
            rest += roll(tree, m, known, routes, history, g, t, moved, dt)
        routes.rest[s] = wp.float32(rest)
        routes.stretch[s] = routes.length[s] - rest
    for g in range(begin, end):
        out.active[g] = routes.active[g]
        if g < end - 1:
            s = g - t
            out.rest[s] = routes.rest[s]
            out.first[s] = routes.first_local[s]
            out.last[s] = routes.last_local[s]


@wp.func
def write_material(routes: Routes, begin: int, end: int):
    """The material of all spans [m]; one that would have less than none, at a guide that lies on the next, borrows from another."""
    owed = wp.float64(0.0)
    for s in range(begin, end):
        rest = routes.length[s] - routes.stretch[s] + owed
        owed = wp.min(rest, wp.float64(0.0))
        routes.rest[s] = wp.float32(rest - owed)
    for up in range(end - begin):
        s = end - 1 - up
        rest = wp.float64(routes.rest[s]) + owed
        if owed < wp.float64(0.0):
            owed = wp.min(rest, wp.float64(0.0))
            routes.rest[s] = wp.float32(rest - owed)


@wp.kernel
def pull_routes(tree: Tree, m: Motion, routes: Routes, pool: CouplerPool, dt: wp.float64):
    """What each span has after material passed the guides, and the tensions of this step [N]."""
    t = wp.tid()
    begin = routes.start[t]
    end = routes.start[t + 1]
    if not routes.pulls[t]:  # and has not been looked at
        settle_by_compliance(tree, m, routes, t)
    write_material(routes, begin - t, end - 1 - t)
    for s in range(begin - t, end - 1 - t):
        pull = wp.float64(0.0)
        row = routes.row[s]
        if row >= 0 and pool.support[row] > 0:
            pull = -span_impulse(routes, pool, s) / dt
        elif routes.lies[s] == 1 and compliance_of(routes, s + t, s) > wp.float64(0.0):  # nothing moves it
            pull = tension(routes, s)
        routes.tension[s] = wp.float32(pull)


@wp.kernel
def forget_routes(routes: Routes, chosen: ChosenWorlds, out: RouteHistory):
    """Let the tendons of chosen worlds be as in the model."""
    t = wp.tid()
    worlds = chosen.mask.shape[0]
    if worlds > 0 and not chosen.mask[(routes.world[t] + worlds) % worlds]:
        return
    end = routes.start[t + 1]
    for g in range(routes.start[t], end):
        out.active[g] = not is_dynamic(routes, g) or routes.initially_active[g]
    for g in range(routes.start[t], end - 1):
        s = g - t
        rest = routes.authored[s]
        if not out.active[g]:
            rest = 0.0
        elif not out.active[g + 1]:
            rest = wp.where(wp.min(rest, routes.authored[s + 1]) < 0.0, -1.0, rest + routes.authored[s + 1])
        if rest < 0.0:
            rest = routes.initial_rest[s]
        out.rest[s] = rest
        out.first[s] = wp.vec3()
        out.last[s] = wp.vec3()


@wp.kernel
def measure_cable(routes: Routes):
    """Length of each tendon as it is laid: spans without their stretch, and what lies on rollers."""
    t = wp.tid()
    sum = wp.float64(0.0)
    begin = routes.start[t]
    for g in range(begin, routes.start[t + 1] - 1):
        s = g - t
        if routes.active[g]:
            sum += wp.float64(routes.rest[s])
            to = routes.next_guide[s]
            if to < routes.start[t + 1] - 1:
                sum += arc_on_body(routes, to, routes.last_local[s], routes.first_local[to - t])
    routes.cable[t] = wp.float32(sum)
