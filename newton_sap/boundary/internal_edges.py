"""Open contacts with edges inside a surface: a floor of tiles, a mesh or a heightfield has many, and none sticks out.

What comes along such a surface meets the next tile's edge, or triangle's, before it touches that tile itself. Newton then reports
a distance straight at the edge, and a step that kept it from closing would stop the body as at a wall. Another contact of
that body tells better: in its plane lies the edge, and above that of the edge's contact lies its own point, so that the edge's
normal cannot be one of the surface. A wall that stands on the floor has points above the floor's plane, and stays.
"""

import warp as wp

from ..multibody.paths import is_moved
from ..packed import pack_motion, pack_tree
from ..workspace import Arrivals, Bodies, Motion, Shapes, StateArrays, Tree
from .contact_materials import ContactOptions
from .contact_rows import ContactRows, slots_of, take_back
from .contacts import Gap, measure_gap

wp.set_module_options({"enable_backward": False})

FLUSH = wp.constant(wp.float64(1.0e-4))
"""How far two points of one plane may be out of it, over their distance."""
ROUNDING = wp.constant(wp.float64(1.0e-6))
"""The same [m], and for each metre from the world's origin."""
TILTED = wp.constant(wp.float64(0.01))
"""Least sine of the angle between an edge's contact and the surface: those below hardly err."""
ALIGNED = wp.constant(wp.float32(0.99995))
"""Its cosine."""
HALF_ALIGNED = wp.constant(wp.float32(0.9999875))
"""That of half the angle."""
OPPOSED = wp.constant(wp.float32(-0.1))
"""Least cosine of the whole: beyond it surfaces face each other."""
ALIKE = wp.constant(wp.float32(0.99))
"""Least cosine between normals of contacts that belong together."""
SUNK = wp.constant(wp.float64(2.0))
"""How much deeper an edge may be than what sinks in beside it."""


@wp.struct
class Touched:
    """A contact as the surface of its given body sees it."""

    point: wp.vec3d  # on that surface [m]
    normal: wp.vec3d  # away from it
    depth: wp.float64  # how far the other body is in it [m]
    velocity: wp.spatial_vectord  # the given body's, angular first, about the world's origin


@wp.func
def body_of(rows: ContactRows, shapes: Shapes, row: int, second: int):
    """Newton body of a row's first or second shape."""
    return wp.where(second == 1, shapes.body[rows.shape1[row]], shapes.body[rows.shape0[row]])


@wp.func
def outward(rows: ContactRows, row: int, second: int):
    """A row's normal, away from its first or second body."""
    n = rows.normal[row]
    if second == 1:
        n = -n
    return n


@wp.func
def touched(gap: Gap, second: int):
    """What the first or second body of a contact sees of it."""
    out = Touched()
    out.point = gap.a.surface
    out.normal = gap.normal
    out.velocity = gap.a.prescribed
    if second == 1:
        out.point = gap.b.surface
        out.velocity = gap.b.prescribed
        out.normal = -gap.normal
    out.depth = wp.max(-gap.phi0, wp.float64(0.0))
    return out


@wp.func
def tolerance(edge: Touched, other: Touched):
    """How far [m] an edge may be out of a plane that it lies in."""
    near = wp.float64(1.0) + wp.length(edge.point)
    return ROUNDING * near + FLUSH * wp.length(other.point - edge.point)


@wp.func
def lies_in(edge: Touched, plane: Touched):
    """Whether a contact's point is in the plane of another one, which goes along and whose own point is above that of the contact."""
    if not (wp.length(plane.velocity - edge.velocity) <= ROUNDING):
        return False
    way = plane.point - edge.point
    height = -wp.dot(way, plane.normal)
    tol = tolerance(edge, plane)
    if height > tol or height < -tol - SUNK * plane.depth:
        return False
    return wp.dot(way, edge.normal) > TILTED * wp.length(way) + tol


@wp.func
def first_of(arrivals: Arrivals, group: int, left_out: int):
    """The first row of what a group has entered, or left out; -1 for none."""
    return wp.where(left_out == 1, arrivals.left_out[group], arrivals.head[group]) - 1


@wp.func
def row_after(arrivals: Arrivals, row: int):
    """The next row of a list; a marked one has it negative."""
    after = arrivals.next[row]
    if after < 0:
        after = -1 - after
    return after - 1


@wp.func
def stands_out(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    rows: ContactRows,
    state: StateArrays,
    group: int,
    row: int,
    second: int,
    plane: Touched,
):
    """Whether the two shapes of a contact face each other also above a plane, as at a wall."""
    for left_out in range(2):
        other = first_of(arrivals, group, left_out)
        while other >= 0:
            same = rows.shape0[other] == rows.shape0[row] and rows.shape1[other] == rows.shape1[row]
            if same and wp.dot(rows.normal[other], rows.normal[row]) > ALIKE:
                there = touched(measure_gap(tree, bodies, shapes, m, rows, state, other), second)
                if wp.dot(there.point - plane.point, plane.normal) > tolerance(there, plane):
                    return True
            other = row_after(arrivals, other)
    return False


@wp.func
def is_shallow(arrivals: Arrivals, row: int, other: int):
    """Whether a contact is open, or no deeper than what sinks in beside it: it then meets an edge that it slides over."""
    phi0 = arrivals.phi0[row]
    return phi0 > 0.0 or phi0 >= wp.float32(SUNK) * arrivals.phi0[other]


@wp.func
def is_given(tree: Tree, m: Motion, body: int):
    """Whether no unknown moves a body."""
    if body < 0:
        return True
    link = tree.bodies[body].link
    if link < 0:
        return True
    return not is_moved(tree, m, link)


@wp.func
def given_side(tree: Tree, shapes: Shapes, m: Motion, rows: ContactRows, row: int):
    """Which body of a contact no unknown moves, 0 or 1; -1 for none."""
    if is_given(tree, m, body_of(rows, shapes, row, 0)):
        return 0
    if is_given(tree, m, body_of(rows, shapes, row, 1)):
        return 1
    return -1


@wp.func
def is_even(tree: Tree, shapes: Shapes, m: Motion, arrivals: Arrivals, rows: ContactRows, group: int):
    """Whether all that a group touches of given bodies faces one way, as on flat ground: then it has no edges inside."""
    reference = wp.vec3()
    row = arrivals.head[group] - 1
    while row >= 0:
        side = given_side(tree, shapes, m, rows, row)
        if side >= 0:
            n = outward(rows, row, side)
            if wp.length_sq(reference) == 0.0:
                reference = n
            if not (wp.dot(n, reference) >= HALF_ALIGNED):
                return False
        row = arrivals.next[row] - 1
    return True


@wp.func
def is_internal(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    rows: ContactRows,
    state: StateArrays,
    group: int,
    row: int,
):
    """Whether a contact is with an edge inside a surface of a body that no unknown moves."""
    second = given_side(tree, shapes, m, rows, row)
    if second < 0:
        return False
    moving = body_of(rows, shapes, row, 1 - second)
    normal = outward(rows, row, second)
    other = arrivals.head[group] - 1
    while other >= 0:
        place = int(body_of(rows, shapes, other, 0) == moving)  # where the other body is
        if body_of(rows, shapes, other, 1 - place) == moving and is_given(tree, m, body_of(rows, shapes, other, place)):
            facing = wp.dot(outward(rows, other, place), normal)
            if facing > OPPOSED and facing < ALIGNED and is_shallow(arrivals, row, other):
                edge = touched(measure_gap(tree, bodies, shapes, m, rows, state, row), second)
                plane = touched(measure_gap(tree, bodies, shapes, m, rows, state, other), place)
                if lies_in(edge, plane) and not stands_out(
                    tree, bodies, shapes, m, arrivals, rows, state, group, row, second, plane
                ):
                    return True
        other = row_after(arrivals, other)
    return False


@wp.func
def drop_marked(arrivals: Arrivals, rows: ContactRows, shapes: Shapes, spin_friction: int, group: int):
    """Take the marked rows out of a group's list."""
    before = int(-1)
    row = arrivals.head[group] - 1
    while row >= 0:
        after = row_after(arrivals, row)
        if arrivals.next[row] >= 0:
            before = row
        else:
            arrivals.group_count[group] = arrivals.group_count[group] - slots_of(shapes, rows, row, spin_friction)
            if before < 0:
                arrivals.head[group] = after + 1
            else:
                arrivals.next[before] = after + 1
        row = after


@wp.kernel
def enter_late(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
):
    """Enter what overlaps may close, and take out edges inside of surfaces; one block per group, each with lists of its own."""
    block, lane = wp.tid()
    group = tree.first_group + block
    pack_tree(tree)
    pack_motion(m)
    if lane == 0:
        take_back(arrivals, rows, shapes, options.spin_friction, group)
        if is_even(tree, shapes, m, arrivals, rows, group):
            return
        dropped = int(0)
        row = arrivals.head[group] - 1
        while row >= 0:
            if is_internal(tree, bodies, shapes, m, arrivals, rows, state, group, row):
                dropped += 1
                arrivals.next[row] = -1 - arrivals.next[row]
            row = row_after(arrivals, row)
        if dropped > 0:
            drop_marked(arrivals, rows, shapes, options.spin_friction, group)
