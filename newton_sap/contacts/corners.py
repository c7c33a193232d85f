"""Corners of a box that may come down beside the one that was found in the same step (F 4.4).

Newton reports where a box touches that comes down askew: one corner, or two. That corner stops and the rest swings in,
through whatever is thinner than it gets within a step. So a contact of the lowest corner takes those others of its face along
that are above the same face of the other shape and fast enough to meet it.
"""

import warp as wp

from ..workspace import Motion, Shapes, StateArrays, Tree
from .approach import lacking_speed
from .facing import AT_A_CORNER, move_touch
from .gaps import Gap, as_constant
from .materials import ContactOptions
from .rows import ContactRows
from .shape_geometry import BOX, has_faces, is_on_face, shape_pose

wp.set_module_options({"enable_backward": False})

REPORTED_SLOPE = wp.constant(wp.float64(0.035))
"""Of a line from the lowest corner to another; less steep ones Newton reports itself."""
LEVEL = wp.constant(wp.float64(0.9999))
"""Least cosine between the normal of a contact and a face that goes on."""


@wp.func
def may_take_along(shapes: Shapes, rows: ContactRows, options: ContactOptions, i: int):
    """Whether a contact is one of a box and a shape with faces, and open contacts count."""
    a = shapes.type[rows.shape0[i]]
    b = shapes.type[rows.shape1[i]]
    return options.ahead == 0 and ((a == BOX and has_faces(b)) or (b == BOX and has_faces(a)))


@wp.func
def reaches_furthest(shapes: Shapes, shape: int, at: wp.vec3d, out: wp.vec3d):
    """Whether a point is the corner of a box that is furthest along a direction, both in its axes; of two alike the first."""
    furthest = shapes.type[shape] == BOX
    for k in range(3):
        lead = wp.where(out[k] < wp.float64(0.0), -at[k], at[k])
        furthest = furthest and lead > wp.float64(AT_A_CORNER) * wp.float64(shapes.scale[shape][k])
    return furthest


@wp.func
def touching_corner(tree: Tree, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, gap: Gap, i: int):
    """The side of a contact whose box touches in its furthest corner; -1 for none."""
    inverse = wp.transform_inverse(shape_pose(tree, shapes, m, state, rows.shape1[i]))
    n = wp.transform_vector(inverse, gap.normal)
    if reaches_furthest(shapes, rows.shape1[i], wp.transform_point(inverse, gap.b.support), -n):
        return 1
    inverse = wp.transform_inverse(shape_pose(tree, shapes, m, state, rows.shape0[i]))
    n = wp.transform_vector(inverse, gap.normal)
    if reaches_furthest(shapes, rows.shape0[i], wp.transform_point(inverse, gap.a.support), n):
        return 0
    return -1


@wp.func
def to_corner(
    tree: Tree, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, gap: Gap, i: int, corner: int
):
    """A contact as it was found in another corner of the box's face: 1 and 2 are beside the one that was found, 3 opposite."""
    side = touching_corner(tree, shapes, m, rows, state, gap, i)
    X = shape_pose(tree, shapes, m, state, wp.where(side == 1, rows.shape1[i], rows.shape0[i]))
    inverse = wp.transform_inverse(X)
    at = as_constant(wp.transform_point(inverse, wp.where(side == 1, gap.b.support, gap.a.support)))
    n = wp.transform_vector(inverse, gap.normal)
    face = int(0)
    if wp.abs(n[1]) > wp.abs(n[0]):
        face = 1
    if wp.abs(n[2]) > wp.abs(n[face]):
        face = 2
    across = wp.vec3d()
    across[(face + 1) % 3] = wp.float64(corner % 2)
    across[(face + 2) % 3] = wp.float64(corner / 2)
    return move_touch(gap, side, wp.transform_vector(X, wp.float64(-2.0) * wp.cw_mul(across, at)))


@wp.func
def corners_beside(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    state: StateArrays,
    gap: Gap,
    i: int,
    belt: wp.vec3d,
    mu: wp.float64,
    dt: wp.float64,
):
    """The corners that a contact takes along, a bit for each; ask ``may_take_along`` first."""
    corners = int(0)
    side = touching_corner(tree, shapes, m, rows, state, gap, i)
    if side < 0:
        return corners
    shape = wp.where(side == 1, rows.shape0[i], rows.shape1[i])
    out = wp.where(side == 1, gap.normal, -gap.normal)
    for corner in range(int(1), int(4)):
        there = to_corner(tree, shapes, m, rows, state, gap, i, corner)
        foot = wp.where(side == 1, there.a.support, there.b.support)
        aside = wp.length(foot - wp.where(side == 1, gap.a.support, gap.b.support))
        rise = there.phi0 - gap.phi0
        steep = rise > REPORTED_SLOPE * wp.length(wp.vec2d(aside, rise))
        if steep and lacking_speed(m, there, belt, mu, dt) <= wp.float64(0.0):
            if is_on_face(tree, shapes, m, state, shape, foot, out, LEVEL):
                corners += 1 << corner
    return corners
