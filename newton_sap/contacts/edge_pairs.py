"""A contact that may be with an edge inside a surface, and another one of the same body whose plane it may be in (F 4.3).

Both are slots of the pool, before assembly: ``edge`` and ``plane``. Normals are taken away from the surfaces that the two touch, and
``radius`` is that of a round body, zero of others.
"""

import warp as wp

from ..multibody.paths import last_dof
from ..multibody.spatial import angular, velocity_at
from ..workspace import Bodies, ContactPool, Motion, Shapes, StateArrays, Tree
from .borrowed import stored_passing, stored_point, stored_side
from .gaps import given_velocity
from .rows import ContactRows, row_of
from .shape_geometry import REPORTED, is_round

wp.set_module_options({"enable_backward": False})

FLUSH = wp.constant(wp.float64(1.0e-4))
"""How far two points of one plane may be out of it, over their distance."""
ROUNDING = wp.constant(wp.float64(1.0e-6))
"""The same for each metre from the world's origin."""
TILTED = wp.constant(wp.float64(0.01))
"""Least sine of the angle between an edge's contact and the surface: those below hardly err."""
ALIKE = wp.constant(wp.float64(0.99))
"""Least cosine between normals of contacts that belong together."""
SUNK = wp.constant(wp.float64(2.0))
"""How much deeper an edge may be, and how far a plane above it, than what sinks in beside it."""
SLID = wp.constant(wp.float64(0.02))
"""How far from where it is a point of a round body may be reported, over its radius: a cylinder's is by so much."""
SEARCHED = wp.constant(wp.float64(1.0e-5))
"""The same of a small one, squared, over its radius [m]: a search ends where the distance is within half of it of the shortest."""
ROUND = wp.constant(wp.float64(0.2))
"""Least cosine of the angle between an edge's contact and the surface for a round body that touches both: five radii away."""
BEARS = wp.constant(wp.float64(0.995))
"""Greatest cosine of the angle between a closed edge's contact and the surface: those above bear what nothing else may."""
STEEP = wp.constant(wp.float64(0.25))
"""The same of a wall, at most, whose face is as steep: what leans farther back is a ramp."""


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
    if stored_side(pool, slot) == 1:
        return -pool.normal[slot]
    return pool.normal[slot]


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
def rolls_over(shapes: Shapes, pool: ContactPool, rows: ContactRows, edge: int, plane: int):
    """Whether one shape that rolls touches both."""
    shape = moving_shape(pool, rows, edge)
    return shape == moving_shape(pool, rows, plane) and is_round(shapes.type[shape])


@wp.func
def round_by(shapes: Shapes, pool: ContactPool, rows: ContactRows, edge: int, plane: int):
    """Radius [m] of a round body that touches a plane and an edge in it; zero where that would have to be steep.

    Of shapes that need not be round it follows from the gaps: the middle is ``r + phi`` from the edge, which is ``(r + phi_plane) / cos``.
    """
    facing = wp.dot(outward(pool, plane), outward(pool, edge))
    if facing < ROUND:
        return wp.float64(0.0)
    if rolls_over(shapes, pool, rows, edge, plane):
        return wp.float64(shapes.scale[moving_shape(pool, rows, edge)][0])
    found = pool.phi0[edge] + gone_past(pool, edge, plane) / facing
    farther = wp.max(facing * found - pool.phi0[plane], wp.float64(0.0))
    return farther / wp.max(wp.float64(1.0) - facing, wp.float64(0.5) * TILTED * TILTED)


@wp.func
def slack(pool: ContactPool, point: wp.vec3d, away: wp.vec3d, plane: int, radius: wp.float64):
    """How far [m] a point with its normal may be out of the plane of a contact that it lies in, on a body of a radius."""
    slid = wp.max(SLID * radius, wp.sqrt(SEARCHED * radius))
    return tolerance(point, stored_point(pool, plane)) + slid * turned_by(pool, plane, away)


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
def is_borne_beside(shapes: Shapes, pool: ContactPool, rows: ContactRows, edge: int, plane: int, radius: wp.float64):
    """Whether what rolls over an edge touches the plane right beside it, no farther than its middle is."""
    if radius == wp.float64(0.0) or not rolls_over(shapes, pool, rows, edge, plane):
        return False
    near = tolerance(stored_point(pool, edge), stored_point(pool, plane))
    past = radius * turned_by(pool, plane, outward(pool, edge))
    apart = wp.length(stored_point(pool, edge) - stored_point(pool, plane))
    return pool.phi0[plane] <= near and apart <= wp.float64(2.0) * past + near


@wp.func
def is_shallow(pool: ContactPool, edge: int, plane: int, sunk: wp.float64, beside: bool):
    """Whether an edge is open, or was before the body went past its normal, or is below the plane no deeper than what sinks in beside it; a
    slanted normal shows more.

    One that is closed and hardly slants bears what nothing ``beside`` may. The depth of a steep one tells how far the body has come since
    it was found.
    """
    facing = wp.dot(outward(pool, plane), outward(pool, edge))
    above = pool.phi0[edge] * wp.max(facing, STEEP) + gone_past(pool, edge, plane)
    near = tolerance(stored_point(pool, edge), stored_point(pool, plane))
    if pool.phi0[edge] > wp.float64(0.0) or above > near:
        return True
    return (facing < BEARS or beside) and (facing < STEEP or -above <= SUNK * sunk + near)


@wp.func
def lies_in(
    pool: ContactPool, edge: int, plane: int, radius: wp.float64, sunk: wp.float64, bend: wp.float64, beside: bool
):
    """Whether a contact's point is in the plane of another one, whose own point is above that of the contact, if it is not right ``beside``."""
    way = stored_point(pool, plane) - stored_point(pool, edge)
    height = -wp.dot(way, outward(pool, plane))
    # A body that sinks in unevenly leans, and Newton's normal may be that of its own face.
    off = slack(pool, stored_point(pool, edge), outward(pool, edge), plane, radius)
    if wp.abs(height) > off + SUNK * sunk + bend * wp.length(way):
        return False
    if bend > wp.float64(0.0) or beside:
        return True
    return wp.dot(way, outward(pool, edge)) > tolerance(stored_point(pool, edge), stored_point(pool, plane))


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
