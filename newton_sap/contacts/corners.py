"""Corners that may come down beside the one that was found, in the same step (F 4.7).

Newton reports where a box, cylinder, capsule, cone or hull touches that comes down askew: one corner, or two. That corner stops and the rest
swings in, through whatever is thinner than it gets within a step. So a contact of the lowest corner takes others of its face
along that are above the same face of the other shape and fast enough to meet it.
"""

import newton
import numpy as np
import warp as wp

from ..config import SAPOptions
from ..multibody.spatial import to_vec3d
from ..workspace import Arrivals, Bodies, ContactPool, Motion, Shapes, StateArrays, Tree
from .approach import belt_velocity, lacking_speed
from .facing import AT_A_CORNER, move_touch
from .filling import store
from .found import gap_as_found
from .gaps import Gap, as_constant
from .materials import ContactOptions, material_of
from .rows import CORNERS, ContactRows, corner_of, is_spin, part_of, row_count, row_of, slots_of
from .shape_geometry import (
    BESIDE,
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    FLAT,
    HULL,
    PLANE,
    REPORTED,
    body_pose,
    has_faces,
    is_endless_plane,
    is_on_face,
    shape_pose,
)

wp.set_module_options({"enable_backward": False})

ASKEW = wp.constant(wp.float64(0.003))
"""Least slope of a line from the lowest corner to another; what lies flatter has all its corners reported."""
LEVEL = wp.constant(wp.float64(0.9999))
"""Least cosine between the normal of a contact and a face that goes on."""
BEYOND = wp.constant(wp.float64(0.05))
"""How much being far from a corner counts beside being far to a side; of two that are as far to the side one is to be taken."""
INWARD = wp.constant(wp.float64(0.05))
"""Of the way from a hull's corner to the COM: from there the hull's face is looked for that it would come down on."""


_CORNERED = tuple(int(kind) for kind in (BOX, CYLINDER, CAPSULE, CONE, HULL))
"""What comes down on corners that Newton reports one by one."""


@wp.func
def has_corners(kind: int):
    """Whether a kind of shapes is one of those."""
    return kind == BOX or kind == CYLINDER or kind == CAPSULE or kind == CONE or kind == HULL


@wp.func
def may_come_down_on(shapes: Shapes, moving: int, face: int):
    """Whether a shape may do so on a face of another; on a plane Newton reports all corners, but of hulls and cones."""
    on_plane = is_endless_plane(shapes, face) and (shapes.type[moving] == HULL or shapes.type[moving] == CONE)
    return has_corners(shapes.type[moving]) and (has_faces(shapes.type[face]) or on_plane)


@wp.func
def comes_down_askew(
    tree: Tree, shapes: Shapes, m: Motion, state: StateArrays, moving: int, face: int, normal: wp.vec3d
):
    """Whether a shape may do so, and has no face of its own across the normal; of hulls that is not known yet."""
    if not may_come_down_on(shapes, moving, face):
        return False
    turned = wp.transform_get_rotation(body_pose(tree, m, state, shapes.body[moving]))
    n = wp.quat_rotate_inv(
        wp.transform_get_rotation(shapes.transform[moving]), wp.vec3(wp.quat_rotate_inv(turned, normal))
    )
    aside = wp.length(wp.vec2(n[0], n[1]))
    kind = shapes.type[moving]
    least = wp.float32(ASKEW)
    if kind == CYLINDER:
        return wp.min(aside, wp.abs(n[2])) > least
    if kind == CAPSULE:
        return wp.abs(n[2]) > least
    if kind == BOX:  # as far as not even one of its axes
        return wp.min(wp.min(wp.length(wp.vec2(n[1], n[2])), wp.length(wp.vec2(n[0], n[2]))), aside) > least
    return True


@wp.func
def may_take_along(tree: Tree, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, i: int):
    """Whether one of a contact's shapes may come down askew on the other."""
    a = rows.shape0[i]
    b = rows.shape1[i]
    n = wp.normalize(to_vec3d(rows.normal[i]))
    return comes_down_askew(tree, shapes, m, state, b, a, n) or comes_down_askew(tree, shapes, m, state, a, b, n)


@wp.func
def of_box(half: wp.vec3d, at: wp.vec3d, out: wp.vec3d, corner: int):
    """From the furthest corner of a box along a direction to another of the face that looks along it."""
    face = int(0)
    for k in range(3):
        lead = wp.where(out[k] < wp.float64(0.0), -at[k], at[k])  # of two corners alike one is the furthest
        if not (lead > wp.float64(AT_A_CORNER) * half[k]):
            return wp.vec3d()
        if wp.abs(out[k]) > wp.abs(out[face]):
            face = k
    across = wp.vec3d()
    across[(face + 1) % 3] = wp.where(corner == 3, wp.float64(0.0), wp.float64(1.0))
    across[(face + 2) % 3] = wp.where(corner == 2, wp.float64(0.0), wp.float64(1.0))
    return wp.float64(-2.0) * wp.cw_mul(across, at)


@wp.func
def around_rim(at: wp.vec3d, corner: int):
    """From a point of a rim about the third axis to the one opposite, or a quarter turn away to either side."""
    turned = wp.vec3d(-at[0], -at[1], at[2])
    if corner == 2:
        turned = wp.vec3d(-at[1], at[0], at[2])
    elif corner == 3:
        turned = wp.vec3d(at[1], -at[0], at[2])
    return turned - at


@wp.func
def of_round(kind: int, radius: wp.float64, half_height: wp.float64, at: wp.vec3d, out: wp.vec3d, corner: int):
    """From the furthest point of a rim of a cylinder or cone along a direction to others of the cap, or of the side, that looks along it."""
    aside = wp.length(wp.vec2d(out[0], out[1]))
    lead = -at[2]  # a cone has one rim, at its lower end
    if kind == CYLINDER and out[2] >= wp.float64(0.0):
        lead = at[2]
    on_rim = at[0] * out[0] + at[1] * out[1] > wp.float64(AT_A_CORNER) * radius * aside
    if not (on_rim and lead > wp.float64(AT_A_CORNER) * half_height):
        return wp.vec3d()
    if aside <= wp.abs(out[2]):
        return around_rim(at, corner)
    if corner > 1:
        return wp.vec3d()
    if kind == CYLINDER:
        return wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(-2.0) * at[2])
    return wp.vec3d(wp.float64(0.0), wp.float64(0.0), half_height) - at


@wp.func
def of_capsule(half_height: wp.float64, at: wp.vec3d, out: wp.vec3d, corner: int):
    """From where the end of a capsule touches that is furthest along a direction to the same of the other end."""
    sign = wp.where(out[2] < wp.float64(0.0), wp.float64(-1.0), wp.float64(1.0))
    if corner > 1 or not (sign * at[2] > wp.float64(AT_A_CORNER) * half_height):
        return wp.vec3d()
    return wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(-2.0) * sign * half_height)


@wp.func
def facet_below(shapes: Shapes, shape: int, at: wp.vec3d, out: wp.vec3d, com: wp.vec3d):
    """Normal of the facet of a hull that comes down if it turns about a corner by its weight; zero if the corner is none of that facet."""
    size = to_vec3d(shapes.scale[shape])
    start = at + INWARD * (com - at)
    along = wp.vec3(wp.cw_div(out, size))
    hit = wp.mesh_query_ray(shapes.source_ptr[shape], wp.vec3(wp.cw_div(start, size)), along, 1.0e3)
    facet = wp.vec3d()
    if hit.result:
        normal = wp.normalize(wp.cw_div(to_vec3d(hit.normal), size))
        normal = wp.where(wp.dot(normal, out) < wp.float64(0.0), -normal, normal)
        if wp.abs(wp.dot(normal, start + wp.float64(hit.t) * out - at)) < REPORTED:
            facet = normal
    return facet


@wp.func
def furthest_of(shapes: Shapes, shape: int, at: wp.vec3d, facet: wp.vec3d, way: wp.vec3d):
    """From a corner of a facet of a hull to the facet's corner furthest along a direction, or from the first if the direction is zero."""
    mesh = wp.mesh_get(shapes.source_ptr[shape])
    size = to_vec3d(shapes.scale[shape])
    most = wp.float64(-1.0)
    found = wp.vec3d()
    for k in range(mesh.points.shape[0]):
        step = wp.cw_mul(to_vec3d(mesh.points[k]), size) - at
        reach = wp.where(wp.length(way) > wp.float64(0.0), wp.dot(step, way), wp.length(step))
        if reach > most and wp.abs(wp.dot(step, facet)) < REPORTED:
            most = reach
            found = step
    return found


@wp.func
def of_hull(shapes: Shapes, shape: int, at: wp.vec3d, out: wp.vec3d, com: wp.vec3d, corner: int):
    """From the furthest corner of a hull's facet along a direction to the one furthest from it, or most to either side of that way."""
    facet = facet_below(shapes, shape, at, out, com)
    if wp.length(wp.cross(facet, out)) < ASKEW:  # it lies on it, or there is none
        return wp.vec3d()
    if wp.length(furthest_of(shapes, shape, at, facet, out)) > REPORTED:
        return wp.vec3d()
    opposite = furthest_of(shapes, shape, at, facet, wp.vec3d())
    if wp.length(opposite) < wp.length(com - at):  # what is nearly round rolls from facet to facet
        return wp.vec3d()
    if corner == 1:
        return opposite
    aside = wp.cross(facet, opposite)
    return furthest_of(shapes, shape, at, facet, wp.where(corner == 2, aside, -aside) + BEYOND * opposite)


@wp.func
def way_to_corner(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    state: StateArrays,
    shape: int,
    point: wp.vec3d,
    out: wp.vec3d,
    corner: int,
):
    """From where a shape touches, if that is its furthest corner along ``out``, to another corner of its face [m, world]; zero for none."""
    X = shape_pose(tree, shapes, m, state, shape)
    inverse = wp.transform_inverse(X)
    at = wp.transform_point(inverse, point)
    along = wp.transform_vector(inverse, out)
    size = to_vec3d(shapes.scale[shape])
    kind = shapes.type[shape]
    way = wp.vec3d()
    if kind == BOX:
        way = of_box(size, at, along, corner)
    elif kind == CYLINDER or kind == CONE:
        way = of_round(kind, size[0], size[1], at, along, corner)
    elif kind == CAPSULE:
        way = of_capsule(size[1], at, along, corner)
    elif kind == HULL:
        com = wp.vec3d()  # of what stands still nothing comes down by its weight, but something may come down on it
        if shapes.body[shape] >= 0:
            to_shape = wp.transform_inverse(shapes.transform[shape])
            com = to_vec3d(wp.transform_point(to_shape, bodies.com[shapes.body[shape]]))
        way = of_hull(shapes, shape, at, along, com, corner)
    return wp.transform_vector(X, as_constant(way))


@wp.func
def to_corner(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    state: StateArrays,
    gap: Gap,
    i: int,
    corner: int,
):
    """A contact as it was found in another corner, of which the first is opposite; where there is none, as it was found."""
    a = rows.shape0[i]
    b = rows.shape1[i]
    way = wp.vec3d()
    if may_come_down_on(shapes, b, a):
        way = way_to_corner(tree, bodies, shapes, m, state, b, gap.b.support, -gap.normal, corner)
    side = int(1)
    if wp.length(way) == wp.float64(0.0) and may_come_down_on(shapes, a, b):
        side = 0
        way = way_to_corner(tree, bodies, shapes, m, state, a, gap.a.support, gap.normal, corner)
    return move_touch(gap, side, way)


@wp.func
def corners_beside(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    gap: Gap,
    i: int,
    dt: wp.float64,
):
    """The corners that a contact takes along, a bit for each, and one for its own."""
    belt = belt_velocity(rows, i, gap.normal)
    mu = material_of(shapes, rows, options, i, dt).mu
    corners = int(1)
    for corner in range(int(1), int(CORNERS)):
        there = to_corner(tree, bodies, shapes, m, rows, state, gap, i, corner)
        moved_a = there.a.support - gap.a.support
        moved_b = there.b.support - gap.b.support
        if corner == 1 and wp.length(moved_a) + wp.length(moved_b) == wp.float64(0.0):
            return corners
        rise = there.phi0 - gap.phi0
        if there.phi0 > wp.float64(0.0) and rise > ASKEW * wp.max(wp.length(moved_a), wp.length(moved_b)):
            if lacking_speed(m, there, belt, mu, dt) <= wp.float64(0.0):
                by_b = wp.length(moved_b) > wp.length(moved_a)  # whose corner it is: the other point stays in its plane
                face = wp.where(by_b, rows.shape0[i], rows.shape1[i])
                foot = wp.where(by_b, there.a.support, there.b.support)
                if is_on_face(
                    tree, shapes, m, state, face, foot, wp.where(by_b, gap.normal, -gap.normal), LEVEL, BESIDE
                ):
                    corners += 1 << corner
    return corners


@wp.kernel
def take_along(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    dt: wp.float64,
    threads: int,
):
    """Let contacts that were entered for a part, and do not sleep, ask for slots of other corners as well."""
    for row in range(wp.tid(), row_count(rows), threads):
        if arrivals.corners[row] == 1 and part_of(tree, shapes, rows, row) == tree.part:
            if may_take_along(tree, shapes, m, rows, state, row):
                gap = gap_as_found(tree, bodies, shapes, m, rows, state, row)
                corners = corners_beside(tree, bodies, shapes, m, rows, options, state, gap, row, dt)
                if corners > 1:
                    before = slots_of(arrivals, shapes, rows, row, options.spin_friction)
                    arrivals.corners[row] = corners
                    more = slots_of(arrivals, shapes, rows, row, options.spin_friction) - before
                    wp.atomic_add(arrivals.group_count, gap.group, more)


@wp.kernel
def fill_corners(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    pool: ContactPool,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    dt: wp.float64,
):
    """Write contacts in other corners into the slots that they found; one block per group."""
    block, lane = wp.tid()
    g = tree.first_group + block
    start = pool.group_start[g]
    for slot in range(start + lane, start + pool.group_count[g], wp.block_dim()):
        corner = corner_of(pool.row[slot])
        if corner > 0:
            i = row_of(pool.row[slot])
            spin = is_spin(pool.row[slot])
            gap = gap_as_found(tree, bodies, shapes, m, rows, state, i)
            gap = to_corner(tree, bodies, shapes, m, rows, state, gap, i, corner)
            store(pool, slot, gap, material_of(shapes, rows, options, i, dt), options, spin)
            if not spin:
                pool.bias[slot] = pool.bias[slot] + belt_velocity(rows, i, gap.normal)


def corner_kernels(model: newton.Model, options: SAPOptions) -> list[wp.Kernel]:
    """Return the kernels of a model whose shapes have such corners, which runs on the host; none where open contacts do not count."""
    kinds = model.shape_type.numpy()[(model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0]
    cornered, faced = np.isin(kinds, _CORNERED), np.isin(kinds, FLAT)
    meets = cornered.any() and faced.any() and (cornered | faced).sum() > 1
    meets |= np.isin(kinds, (int(HULL), int(CONE))).any() and (kinds == int(PLANE)).any()
    return [take_along, fill_corners] if meets and not options.dissipation_ahead_of_touch else []
