"""Open contacts with edges inside a surface: a floor of tiles, a mesh or a heightfield has many, and none sticks out.

What comes along such a surface meets the edge of the next tile, or triangle, before it touches that tile itself. Newton then reports
a distance straight at the edge, and a step that kept it from closing would stop the body as at a wall. Another contact of
the body shows that there is no wall. The edge lies in the plane of that contact, and that contact's point lies above the plane
through the edge: so the edge's normal cannot be one of the surface. A wall on a floor has points above the floor's plane, and stays:
seen by other contacts of the same two shapes, or, since a wedge meets it at the floor alone, by what shapes fill. The rim of a slot
stays as well, where what bridges the slot reaches into it. And the surface has to go on level where the normal leans to: that plane may
be one of the body's own face, which goes through all the bumps that it lies on.

What is within a face is no edge, though the plane of what leans on a rim beside it, which touches that with its own face, may go
through it. And of facets of a hollow, each nearly in the plane of the next, no one goes because of another that would go as well.
"""

import warp as wp

from ..linalg.lanes import sync, total
from ..multibody.paths import last_dof
from ..multibody.spatial import angular, velocity_at
from ..workspace import Arrivals, Bodies, ContactPool, Motion, Shapes, StateArrays, Tree
from .borrowed import stored_passing, stored_point, stored_side
from .found import gap_as_found
from .gaps import Gap, given_velocity
from .rows import ContactRows, is_asleep, row_of
from .shape_geometry import (
    BENT,
    REPORTED,
    bends_gently,
    fills_beside,
    goes_on_towards,
    has_edges,
    has_faces,
    is_on_face,
)

wp.set_module_options({"enable_backward": False})

FLUSH = wp.constant(wp.float64(1.0e-4))
"""How far two points of one plane may be out of it, over their distance."""
ROUNDING = wp.constant(wp.float64(1.0e-6))
"""The same for each metre from the world's origin."""
TILTED = wp.constant(wp.float64(0.01))
"""Least sine of the angle between an edge's contact and the surface: those below hardly err."""
ALIGNED = wp.constant(wp.float64(0.99995))
"""Its cosine."""
HALF_ALIGNED = wp.constant(wp.float64(0.9999875))
"""That of half the angle."""
OPPOSED = wp.constant(wp.float64(-0.1))
"""Least cosine of the whole: beyond it surfaces face each other."""
ALIKE = wp.constant(wp.float64(0.99))
"""Least cosine between normals of contacts that belong together."""
SUNK = wp.constant(wp.float64(2.0))
"""How much deeper an edge may be, and how far a plane above it, than what sinks in beside it."""
SLID = wp.constant(wp.float64(0.02))
"""How far from where it is a point of a round body may be reported, over its radius: a cylinder's is by so much."""
ROUND = wp.constant(wp.float64(0.7))
"""Least cosine of the angle between an edge's contact and the surface for a round body that touches both."""
BEARS = wp.constant(wp.float64(0.995))
"""Greatest cosine of the angle between a closed edge's contact and the surface: those above bear what the surface would."""
STEEP = wp.constant(wp.float64(0.25))
"""The same of a wall, at most, whose face is as steep: what leans farther back is a ramp."""

PASSED_OVER, KEPT, WAITS = wp.constant(-2), wp.constant(-3), wp.constant(-4)
"""In place of the contact whose spin a slot holds: it is to go, or would but for others that are to go, or sleeps too far away to be asked."""
NEXT = wp.constant(wp.float64(2.5))
"""Speed [m/s] that what sleeps would have to gain within the step to be met, from which on it is not asked."""


@wp.func
def edges_within(tree: Tree, shapes: Shapes, link: int, shape: int):
    """How many edges may lie inside a surface that unknowns move: many of a mesh or heightfield, some where others beside a shape have
    flat faces, else none."""
    edges = 2 * int(has_edges(shapes, shape))
    if edges == 0 and tree.compounds == 1 and has_faces(shapes.type[shape]):
        edges = int(tree.dof_faces[last_dof(tree, link)] > 1)
    return edges


@wp.func
def surface_side(tree: Tree, shapes: Shapes, rows: ContactRows, gap: Gap, row: int):
    """Which side of a contact, 0 or 1, may be a surface with edges inside; -1 for none.

    One that no unknown moves, or else the one that may have more of them.
    """
    side = wp.where(gap.a.link < 0, 0, wp.where(gap.b.link < 0, 1, -1))
    if side < 0:
        first = edges_within(tree, shapes, gap.a.link, rows.shape0[row])
        second = edges_within(tree, shapes, gap.b.link, rows.shape1[row])
        if first != second:
            side = int(first < second)
    return side


@wp.func
def touching_link(tree: Tree, shapes: Shapes, rows: ContactRows, gap: Gap, row: int):
    """The link that touches that surface, or any that unknowns move."""
    side = surface_side(tree, shapes, rows, gap, row)
    if side < 0:
        return wp.max(gap.a.link, gap.b.link)
    return wp.where(side == 0, gap.b.link, gap.a.link)


@wp.func
def surface_link(pool: ContactPool, slot: int):
    """The link that the surface is on; negative where no unknown moves it."""
    return wp.where(stored_side(pool, slot) == 0, pool.link_a[slot], pool.link_b[slot])


@wp.func
def moving_link(pool: ContactPool, slot: int):
    """The link of the other one, which moves along it."""
    return wp.where(stored_side(pool, slot) == 0, pool.link_b[slot], pool.link_a[slot])


@wp.func
def outward(pool: ContactPool, slot: int):
    """The normal away from the surface."""
    n = pool.normal[slot]
    if stored_side(pool, slot) == 1:
        n = -n
    return n


@wp.func
def surface_shape(pool: ContactPool, rows: ContactRows, slot: int):
    """The surface's shape."""
    row = row_of(pool.row[slot])
    return wp.where(stored_side(pool, slot) == 0, rows.shape0[row], rows.shape1[row])


@wp.func
def moving_shape(pool: ContactPool, rows: ContactRows, slot: int):
    """The shape of the other one."""
    row = row_of(pool.row[slot])
    return wp.where(stored_side(pool, slot) == 0, rows.shape1[row], rows.shape0[row])


@wp.func
def touched_at(gap: Gap, side: int):
    """Where the surface on one side of a contact is touched [m]."""
    return wp.where(side == 0, gap.a.surface, gap.b.surface)


@wp.func
def tolerance(edge: wp.vec3d, other: wp.vec3d):
    """How far [m] an edge at one point may be out of a plane through another one that it lies in."""
    return REPORTED + ROUNDING * wp.length(edge) + FLUSH * wp.length(other - edge)


@wp.func
def turned_by(pool: ContactPool, plane: int, away: wp.vec3d):
    """Sine of the angle between the normal of one contact and that of another, both away from their surfaces."""
    facing = wp.dot(outward(pool, plane), away)
    return wp.sqrt(wp.max(wp.float64(1.0) - facing * facing, wp.float64(0.0)))


@wp.func
def gone_past(pool: ContactPool, edge: int, plane: int):
    """How much closer [m] an edge is along its normal for that the body has gone along the plane since that was found, times ``facing``."""
    up = outward(pool, plane)
    away = outward(pool, edge)
    passed = stored_passing(pool, edge)
    if stored_side(pool, edge) == 1:
        passed = -passed
    return wp.max(wp.dot(up - wp.dot(up, away) * away, passed), wp.float64(0.0))


@wp.func
def round_by(pool: ContactPool, edge: int, plane: int):
    """Radius [m] of a round body that a plane and an edge in it are so far from; zero where it would have to be steep.

    From the edge it is ``r (1 / cos - 1)`` farther away, nearly ``r sin^2 / 2``.
    """
    facing = wp.dot(outward(pool, plane), outward(pool, edge))
    if facing < ROUND:
        return wp.float64(0.0)
    sine = wp.max(turned_by(pool, plane, outward(pool, edge)), TILTED)
    found = pool.phi0[edge] + gone_past(pool, edge, plane) / facing
    return wp.float64(2.0) * wp.max(found - pool.phi0[plane], wp.float64(0.0)) / (sine * sine)


@wp.func
def slack(pool: ContactPool, point: wp.vec3d, away: wp.vec3d, plane: int, radius: wp.float64):
    """How far [m] a point with its normal may be out of the plane of a contact that it lies in, on a body of a radius."""
    return tolerance(point, stored_point(pool, plane)) + SLID * radius * turned_by(pool, plane, away)


@wp.func
def sunk_beside(pool: ContactPool, plane: int):
    """How deep [m] a body sinks in, at most, where its contacts face as one of them does: one that leans does so unevenly."""
    deepest = wp.float64(0.0)
    slot = pool.last_surface[moving_link(pool, plane)] - 1
    while slot >= 0:
        if wp.dot(outward(pool, slot), outward(pool, plane)) > ALIKE:
            deepest = wp.max(deepest, -pool.phi0[slot])
        slot = pool.surface_before[slot] - 1
    return deepest


@wp.func
def is_shallow(pool: ContactPool, edge: int, plane: int, sunk: wp.float64):
    """Whether an edge is open, or was before the body went past its normal, or is below the plane no deeper than what sinks in beside it; a
    slanted normal shows more.

    One that is closed and hardly slants bears, and stops nothing. The depth of a steep one tells how far the body has come since it was found.
    """
    facing = wp.dot(outward(pool, plane), outward(pool, edge))
    above = pool.phi0[edge] * wp.max(facing, STEEP) + gone_past(pool, edge, plane)
    near = tolerance(stored_point(pool, edge), stored_point(pool, plane))
    shallow = facing < STEEP or -above <= SUNK * sunk + near
    return pool.phi0[edge] > wp.float64(0.0) or above > near or (facing < BEARS and shallow)


@wp.func
def lies_in(pool: ContactPool, edge: int, plane: int, radius: wp.float64, sunk: wp.float64, bend: wp.float64):
    """Whether a contact's point is in the plane of another one, whose own point is above that of the contact."""
    way = stored_point(pool, plane) - stored_point(pool, edge)
    height = -wp.dot(way, outward(pool, plane))
    # A body that sinks in unevenly leans, and Newton's normal may be that of its own face.
    off = (
        slack(pool, stored_point(pool, edge), outward(pool, edge), plane, radius) + SUNK * sunk + bend * wp.length(way)
    )
    if wp.abs(height) > off:
        return False
    return bend > wp.float64(0.0) or wp.dot(way, outward(pool, edge)) > tolerance(
        stored_point(pool, edge), stored_point(pool, plane)
    )


@wp.func
def go_together(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    plane: int,
):
    """Whether the surfaces of two contacts are of bodies that are rigidly one, or that no unknown moves and that stay as level as they are."""
    a = shapes.body[surface_shape(pool, rows, edge)]
    b = shapes.body[surface_shape(pool, rows, plane)]
    if a == b:
        return True
    of_edge = surface_link(pool, edge)
    of_plane = surface_link(pool, plane)
    if of_edge >= 0 and of_plane >= 0:
        return last_dof(tree, of_edge) == last_dof(tree, of_plane)
    if wp.max(of_edge, of_plane) >= 0:
        return False
    velocity = given_velocity(tree, bodies, m, state, a)
    apart = velocity - given_velocity(tree, bodies, m, state, b)
    up = outward(pool, plane)
    rises = wp.dot(up, velocity_at(apart, stored_point(pool, edge)))
    tilts = wp.length(wp.cross(up, angular(apart)))
    # Poses and velocities are float32, and these are about the world's origin.
    far = wp.float64(1.0) + wp.length(stored_point(pool, edge))
    return wp.max(wp.abs(rises), tilts) <= ROUNDING * far * (wp.float64(1.0) + wp.length(velocity))


@wp.func
def is_above(
    pool: ContactPool,
    point: wp.vec3d,
    away: wp.vec3d,
    plane: int,
    radius: wp.float64,
    sunk: wp.float64,
    bend: wp.float64,
):
    """Whether a point with its normal is above the plane of a contact, on which a body sinks in."""
    way = point - stored_point(pool, plane)
    off = slack(pool, point, away, plane, radius) + SUNK * sunk + bend * wp.length(way)
    return wp.dot(way, outward(pool, plane)) > off


@wp.func
def at_height(pool: ContactPool, plane: int, x: wp.vec3d, height: wp.float64):
    """A point so high [m] above the plane of a contact, above or below another one."""
    up = outward(pool, plane)
    return x + (height - wp.dot(x - stored_point(pool, plane), up)) * up


@wp.func
def goes_on(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    plane: int,
    radius: wp.float64,
    sunk: wp.float64,
):
    """Whether the surface's shape goes on above the plane right behind it, as a wall, or the moving one below it, into a slot.

    Of a wall the contact is steep; what reaches below does so farther than the body sinks in.
    """
    up = outward(pool, plane)
    away = outward(pool, edge)
    facing = wp.dot(up, away)
    rim = wp.normalize(wp.cross(up, away))
    step = wp.float64(2.0) * slack(pool, stored_point(pool, edge), away, plane, radius)
    if facing < STEEP:
        behind = at_height(pool, plane, stored_point(pool, edge) - step * away, step / STEEP)
        if fills_beside(tree, shapes, m, state, surface_shape(pool, rows, edge), behind, rim):
            return True
    below = step + SUNK * sunk
    # Down along the plane's normal is out of a shape again that leans over: start farther in.
    inward = below * wp.max(wp.float64(1.0), wp.float64(2.0) * facing / (wp.float64(1.0) - facing * facing))
    inside = at_height(pool, plane, stored_point(pool, edge) + (pool.phi0[edge] + inward) * away, -below)
    return fills_beside(tree, shapes, m, state, moving_shape(pool, rows, edge), inside, rim)


@wp.func
def stands_out(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    plane: int,
    radius: wp.float64,
    sunk: wp.float64,
    bend: wp.float64,
):
    """Whether the two shapes of a contact face each other also above a plane, or go on there or below it."""
    if goes_on(tree, shapes, m, pool, rows, state, edge, plane, radius, sunk):
        return True
    row = row_of(pool.row[edge])
    link = moving_link(pool, edge)
    side = stored_side(pool, edge)
    sign = wp.where(side == 0, wp.float64(1.0), wp.float64(-1.0))
    slot = pool.last_surface[link] - 1
    while slot >= 0:
        other = row_of(pool.row[slot])
        if rows.shape0[other] == rows.shape0[row] and rows.shape1[other] == rows.shape1[row]:
            alike = wp.dot(pool.normal[slot], pool.normal[edge]) > ALIKE
            if alike and is_above(pool, stored_point(pool, slot), sign * pool.normal[slot], plane, radius, sunk, bend):
                return True
        slot = pool.surface_before[slot] - 1
    other = arrivals.left_out[link] - 1
    while other >= 0:
        if rows.shape0[other] == rows.shape0[row] and rows.shape1[other] == rows.shape1[row]:
            gap = gap_as_found(tree, bodies, shapes, m, rows, state, other)  # as edges in the pool are
            alike = wp.dot(gap.normal, pool.normal[edge]) > ALIKE
            if alike and is_above(pool, touched_at(gap, side), sign * gap.normal, plane, radius, sunk, bend):
                return True
        other = arrivals.next[other] - 1
    return False


@wp.func
def is_level_beside(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    plane: int,
    radius: wp.float64,
):
    """Whether what a body touches goes on level where the normal of one of its contacts leans to: in any of the shapes it touches."""
    up = outward(pool, plane)
    point = at_height(pool, plane, stored_point(pool, edge), wp.float64(0.0))
    if wp.length(point - stored_point(pool, edge)) > slack(
        pool, stored_point(pool, edge), outward(pool, edge), plane, radius
    ):
        point = stored_point(pool, edge)  # no error of a round body's point
    slot = pool.last_surface[moving_link(pool, edge)] - 1
    last = int(-1)
    while slot >= 0:
        shape = surface_shape(pool, rows, slot)
        if shape != last:
            last = shape
            if goes_on_towards(tree, shapes, m, state, shape, point, outward(pool, edge), up):
                return True
        slot = pool.surface_before[slot] - 1
    return False


@wp.func
def bend_beside(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    plane: int,
):
    """How far points of a surface may be above or below the plane of a contact, over their distance: where its facets bend gently at
    an edge whose own normal none of them has."""
    shape = surface_shape(pool, rows, edge)
    facing = wp.dot(outward(pool, plane), outward(pool, edge))
    bend = wp.float64(0.0)
    if facing < ALIKE and has_edges(shapes, shape):
        if bends_gently(
            tree, shapes, m, state, shape, stored_point(pool, edge), outward(pool, edge), outward(pool, plane)
        ):
            bend = BENT
    return bend


@wp.func
def is_internal(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    gone: int,
):
    """Whether a contact is with an edge inside a surface; if it is open, or no deeper than what sinks in beside it.

    Other contacts show that whose mark is above ``gone``.
    """
    plane = pool.last_surface[moving_link(pool, edge)] - 1
    while plane >= 0:
        facing = wp.dot(outward(pool, plane), outward(pool, edge))
        if facing > OPPOSED and facing < ALIGNED and pool.spin_of[plane] > gone:
            radius = round_by(pool, edge, plane)
            sunk = sunk_beside(pool, plane)
            bend = wp.float64(0.0)
            shallow = is_shallow(pool, edge, plane, sunk)
            if shallow and lies_in(pool, edge, plane, radius, sunk, BENT):  # rays take longer
                bend = bend_beside(tree, shapes, m, pool, rows, state, edge, plane)
            if shallow and lies_in(pool, edge, plane, radius, sunk, bend):
                if go_together(tree, bodies, shapes, m, pool, rows, state, edge, plane):
                    if not stands_out(
                        tree, bodies, shapes, m, arrivals, pool, rows, state, edge, plane, radius, sunk, bend
                    ):
                        if bend > wp.float64(0.0):
                            return True
                        if is_level_beside(tree, shapes, m, pool, rows, state, edge, plane, radius):
                            shape = surface_shape(pool, rows, edge)
                            at = stored_point(pool, edge)
                            return not is_on_face(tree, shapes, m, state, shape, at, outward(pool, edge), ALIGNED)
        plane = pool.surface_before[plane] - 1
    return False


@wp.func
def is_even(pool: ContactPool, start: int, count: int, lane: int):
    """Whether all surfaces that a group touches face one way, as on flat ground: then it has no edges inside."""
    first = int(start)
    while first < start + count and stored_side(pool, first) < 0:
        first += 1
    tilted = wp.float64(0.0)
    for slot in range(first + lane, start + count, wp.block_dim()):
        if stored_side(pool, slot) >= 0 and not (wp.dot(outward(pool, slot), outward(pool, first)) >= HALF_ALIGNED):
            tilted += wp.float64(1.0)
    return total(tilted) == wp.float64(0.0)


@wp.func
def list_surfaces(pool: ContactPool, start: int, count: int):
    """Link each link's contacts with surfaces into a list."""
    for slot in range(start, start + count):
        if stored_side(pool, slot) >= 0:
            pool.last_surface[moving_link(pool, slot)] = 0
    for slot in range(start, start + count):
        if stored_side(pool, slot) >= 0 and pool.spin_of[slot] == -1:
            link = moving_link(pool, slot)
            pool.surface_before[slot] = pool.last_surface[link]
            pool.last_surface[link] = slot + 1


@wp.func
def first_passed_over(pool: ContactPool, start: int):
    """The first slot of a group that was passed over, if any was."""
    slot = int(start)
    while pool.spin_of[slot] != PASSED_OVER:
        slot += 1
    return slot


@wp.func
def close_ranks(pool: ContactPool, start: int, count: int):
    """Let the entries that stay move up, without those that were passed over and their spins."""
    left = int(0)
    for slot in range(start, start + count):
        contact = slot
        if pool.spin_of[slot] >= 0:
            contact = pool.spin_of[slot]
        if pool.spin_of[contact] != PASSED_OVER:
            pool.row[start + left] = pool.row[slot]
            left += 1


@wp.func
def let_wait(arrivals: Arrivals, pool: ContactPool, start: int, count: int, lane: int, dt: wp.float64):
    """Neither ask contacts that sleep far away whether they are with edges, nor let them show others to be."""
    for slot in range(start + lane, start + count, wp.block_dim()):
        if stored_side(pool, slot) >= 0 and pool.spin_of[slot] == -1 and pool.phi0[slot] > NEXT * dt:
            if is_asleep(arrivals, row_of(pool.row[slot])):
                pool.spin_of[slot] = WAITS
    sync()


@wp.func
def mark_edges(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    start: int,
    count: int,
    lane: int,
):
    """Mark what other contacts show to be edges inside a surface, and in a second round those that only such show to be."""
    rounds = int(2)  # no constant: the loop is not to be unrolled
    for second in range(rounds):
        for slot in range(start + lane, start + count, wp.block_dim()):
            mark = pool.spin_of[slot]
            if stored_side(pool, slot) >= 0 and mark == -1 - second:
                gone = KEPT + second
                if is_internal(tree, bodies, shapes, m, arrivals, pool, rows, state, slot, gone) != (second == 1):
                    pool.spin_of[slot] = PASSED_OVER - second
        sync()


@wp.func
def pass_over_edges(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    start: int,
    count: int,
    lane: int,
    dt: wp.float64,
):
    """Take edges inside of surfaces out of a group's entries; returns how many are left, and the slots hold those first."""
    if is_even(pool, start, count, lane):
        return count
    if lane == 0:
        list_surfaces(pool, start, count)
    sync()
    let_wait(arrivals, pool, start, count, lane, dt)
    mark_edges(tree, bodies, shapes, m, arrivals, pool, rows, state, start, count, lane)
    passed = wp.float64(0.0)
    for slot in range(start + lane, start + count, wp.block_dim()):
        if pool.spin_of[slot] <= KEPT:
            pool.spin_of[slot] = -1
        elif pool.spin_of[slot] == PASSED_OVER:
            passed += wp.float64(1.0)
            if slot + 1 < start + count and pool.spin_of[slot + 1] == slot:
                passed += wp.float64(1.0)
    left = count - int(total(passed))
    sync()
    if lane == 0 and left < count:
        close_ranks(pool, start, count)
    sync()
    return left
