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

import newton
import numpy as np
import warp as wp

from ..linalg.lanes import sync, total
from ..multibody.paths import last_dof
from ..workspace import Arrivals, Bodies, ContactPool, Motion, Shapes, StateArrays, Tree
from .borrowed import stored_point, stored_side
from .edge_pairs import (
    ALIKE,
    STEEP,
    SUNK,
    at_height,
    go_together,
    is_above,
    is_borne_beside,
    is_shallow,
    lies_in,
    moving_link,
    moving_shape,
    outward,
    round_by,
    slack,
    sunk_beside,
    surface_shape,
)
from .found import gap_as_found
from .gaps import Gap
from .rows import ContactRows, is_asleep, row_of
from .shape_geometry import (
    BENT,
    BESIDE,
    BOX,
    FIFTH,
    GENTLE,
    HEIGHTFIELD,
    MESH,
    NEAR,
    PLANE,
    REACH,
    REPORTED,
    facet_below,
    fills_beside,
    goes_on_towards,
    has_edges,
    has_faces,
    is_on_face,
)

wp.set_module_options({"enable_backward": False})

ALIGNED = wp.constant(wp.float64(0.99995))
"""Cosine of the angle between an edge's contact and the surface, ``TILTED``."""
HALF_ALIGNED = wp.constant(wp.float64(0.9999875))
"""That of half the angle."""
OPPOSED = wp.constant(wp.float64(-0.1))
"""Least cosine of the whole: beyond it surfaces face each other."""

PASSED_OVER, KEPT, WAITS = wp.constant(-2), wp.constant(-3), wp.constant(-4)
"""In place of the contact whose spin a slot holds: it is to go, or would but for others that are to go, or sleeps too far away to be asked."""
_ROUND = tuple(int(newton.GeoType[kind]) for kind in ("SPHERE", "CAPSULE", "ELLIPSOID"))
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
def touched_at(gap: Gap, side: int):
    """Where the surface on one side of a contact is touched [m]."""
    return wp.where(side == 0, gap.a.surface, gap.b.surface)


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
def first_facet_below(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    point: wp.vec3d,
    up: wp.vec3d,
):
    """How far [m] below a point the first facet is of all that a contact's body touches, the cosine of how that faces, 0 for none, and
    whether it is of the contact's own surface."""
    first = wp.vec2d()
    own = int(0)
    slot = pool.last_surface[moving_link(pool, edge)] - 1
    last = int(-1)
    while slot >= 0:
        shape = surface_shape(pool, rows, slot)
        if shape != last:
            last = shape
            found = facet_below(tree, shapes, m, state, shape, point, up, wp.float64(2.0) * REACH)
            if found[1] != wp.float64(0.0) and (first[1] == wp.float64(0.0) or found[0] < first[0]):
                first = found
                own = int(shape == surface_shape(pool, rows, edge))
        slot = pool.surface_before[slot] - 1
    return first[0], first[1], own


@wp.func
def bends_gently(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    state: StateArrays,
    edge: int,
    plane: int,
):
    """Whether what a body touches goes on from an edge, to where its normal leans and to the other side, with facets that face nearly as
    the plane does, and no step between them; to one side those of the edge's own surface."""
    up = outward(pool, plane)
    aside = wp.normalize(outward(pool, edge) - wp.dot(outward(pool, edge), up) * up)
    away = NEAR * REACH
    level = wp.float64(0.0)
    own = wp.vec2i()
    sides = int(6)  # no constant: the loop is not to be unrolled
    for side in range(sides):
        start = stored_point(pool, edge) + REACH * up + away * aside
        down, facing, is_own = first_facet_below(tree, shapes, m, pool, rows, state, edge, start, up)
        if facing < GENTLE:
            return False
        own[side % 2] += is_own
        height = REACH - down
        if side == 0:
            level = height  # Newton's point may be below a heightfield's surface
        if height < -BENT * away - REPORTED or wp.abs(height - level) > BENT * (away + NEAR * REACH) + REPORTED:
            return False
        aside = -aside
        if side % 2 == 1:
            away = away / FIFTH
    return wp.max(own) == 3


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
    if facing < ALIKE and (has_edges(shapes, shape) or shapes.type[shape] == BOX):
        if bends_gently(tree, shapes, m, pool, rows, state, edge, plane):
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
        if facing > OPPOSED and facing < HALF_ALIGNED and pool.spin_of[plane] > gone:
            radius = round_by(shapes, pool, rows, edge, plane)
            beside = is_borne_beside(shapes, pool, rows, edge, plane, radius)
            sunk = sunk_beside(pool, plane)
            bend = wp.float64(0.0)
            shallow = (facing < ALIGNED or beside) and is_shallow(pool, edge, plane, sunk, beside)
            if shallow and lies_in(pool, edge, plane, radius, sunk, BENT, beside):  # rays take longer
                bend = bend_beside(tree, shapes, m, pool, rows, state, edge, plane)
            if shallow and lies_in(pool, edge, plane, radius, sunk, bend, beside):
                if go_together(tree, bodies, shapes, m, pool, rows, state, edge, plane):
                    if not stands_out(
                        tree, bodies, shapes, m, arrivals, pool, rows, state, edge, plane, radius, sunk, bend
                    ):
                        if bend > wp.float64(0.0):
                            return True
                        if is_level_beside(tree, shapes, m, pool, rows, state, edge, plane, radius):
                            shape = surface_shape(pool, rows, edge)
                            at = stored_point(pool, edge)
                            aligned = wp.where(beside, HALF_ALIGNED, ALIGNED)
                            around = wp.where(beside, -REPORTED, BESIDE)
                            n = outward(pool, edge)
                            if not is_on_face(tree, shapes, m, state, shape, at, n, aligned, around):
                                return True
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


def may_have_edges(model: newton.Model, body_stays: np.ndarray, compounds: bool) -> bool:
    """Return whether edges may lie inside a surface of a model, which runs on the host.

    ``body_stays`` says which bodies no unknown may move, ``compounds`` whether several shapes with flat faces are on one. What is round, or
    a plane without borders, has no edges.
    """
    kinds, bodies = model.shape_type.numpy(), model.shape_body.numpy()
    collides = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    endless = (kinds == int(PLANE)) & ~(model.shape_scale.numpy()[:, 0] > 0.0)
    stays = np.append(body_stays, True)[bodies]  # the world comes last
    meshes = np.isin(kinds, (int(MESH), int(HEIGHTFIELD)))
    return bool((collides & ~endless & ~np.isin(kinds, _ROUND) & (stays | meshes | compounds)).any())
