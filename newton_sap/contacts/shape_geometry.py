"""Shapes as they stand in the world: where they are, what they fill, and which way is out of an ellipsoid."""

import newton
import warp as wp

from ..multibody.spatial import to_transformd, to_vec3d
from ..workspace import Motion, Shapes, StateArrays, Tree

wp.set_module_options({"enable_backward": False})

_KINDS = ("PLANE", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "CONE")
PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, CONE = (wp.constant(int(newton.GeoType[kind])) for kind in _KINDS)
_FACETED = ("MESH", "CONVEX_MESH", "HFIELD")
MESH, HULL, HEIGHTFIELD = (wp.constant(int(newton.GeoType[kind])) for kind in _FACETED)
FLAT = tuple(int(newton.GeoType[kind]) for kind in ("BOX", "CYLINDER", *_FACETED))
"""Shapes with flat faces, which may be flush with those of others."""
BESIDE = wp.constant(wp.float64(2.0e-4))
"""How far [m] around a point a face goes on that it is within."""

REACH = wp.constant(wp.float64(5.0e-3))
"""Radius [m] of the ball that tells whether a surface has a normal."""
LEVEL = wp.constant(wp.float64(0.02))
"""How far a surface may be out of level, over that radius."""

NEAR, FIFTH = wp.constant(wp.float64(0.04)), wp.constant(wp.float64(0.2))
"""How near a point, over that radius, steps of a surface are looked for first, and over how far next."""
GENTLE = wp.constant(wp.float64(0.99))
"""Least cosine between the normals of facets that bend gently."""
BENT = wp.constant(wp.float64(0.142))
"""Its tangent, at most."""
REPORTED = wp.constant(wp.float64(2.0e-5))
"""How far [m] Newton's points may be off the surface they are on, whatever the size of the shapes; most are not by a hundredth of that."""


@wp.func
def has_edges(shapes: Shapes, shape: int):
    """Whether edges may lie inside a face of a shape, between triangles of one plane."""
    return shapes.type[shape] == MESH or shapes.type[shape] == HEIGHTFIELD


@wp.func
def has_faces(kind: int):
    """Whether a kind of shapes is ``FLAT``."""
    return kind == BOX or kind == CYLINDER or kind == HULL or kind == MESH or kind == HEIGHTFIELD


@wp.func
def is_round(kind: int):
    """Whether a kind of shapes rolls."""
    return kind == SPHERE or kind == CAPSULE or kind == CYLINDER


@wp.func
def is_endless_plane(shapes: Shapes, shape: int):
    """Whether a shape is a plane without borders."""
    return shapes.type[shape] == PLANE and not (shapes.scale[shape][0] > 0.0)


@wp.func
def body_pose(tree: Tree, m: Motion, state: StateArrays, body: int):
    """Where a body is: a link, one that no joint moves (as its state says), or -1, the static world."""
    if body < 0:
        return wp.transform_identity(dtype=wp.float64)
    link = tree.bodies[body].link
    if link < 0:
        return to_transformd(state.body_q[body])
    return wp.transformd(m.position[link], m.rotation[link])


@wp.func
def shape_pose(tree: Tree, shapes: Shapes, m: Motion, state: StateArrays, shape: int):
    """Where a shape is."""
    return body_pose(tree, m, state, shapes.body[shape]) * to_transformd(shapes.transform[shape])


@wp.func
def fills(shapes: Shapes, shape: int, point: wp.vec3d):
    """Whether a point [m], in the axes of a shape, is inside it; of meshes, hulls and heightfields that is not known."""
    size = to_vec3d(shapes.scale[shape])
    kind = shapes.type[shape]
    aside = wp.sqrt(point[0] * point[0] + point[1] * point[1])
    height = wp.abs(point[2])
    inside = kind == PLANE and point[2] < wp.float64(0.0)
    if kind == SPHERE:
        inside = wp.length(point) < size[0]
    elif kind == CAPSULE:
        inside = wp.length(wp.vec2d(aside, wp.max(height - size[1], wp.float64(0.0)))) < size[0]
    elif kind == ELLIPSOID:
        inside = wp.length(wp.cw_div(point, size)) < wp.float64(1.0)
    elif kind == CYLINDER:
        inside = aside < size[0] and height < size[1]
    elif kind == BOX:
        inside = wp.abs(point[0]) < size[0] and wp.abs(point[1]) < size[1] and height < size[2]
    elif kind == CONE:
        inside = height < size[1] and aside < size[0] * (size[1] - point[2]) / (wp.float64(2.0) * size[1])
    return inside


@wp.func
def fills_beside(
    tree: Tree, shapes: Shapes, m: Motion, state: StateArrays, shape: int, point: wp.vec3d, aside: wp.vec3d
):
    """Whether a shape fills a point [m] of the world that is taken a tenth of the way to the shape's middle along a unit vector.

    So an end of an edge counts as the edge does.
    """
    X = shape_pose(tree, shapes, m, state, shape)
    to_middle = wp.transform_get_translation(X) - point
    taken = point + wp.float64(0.1) * wp.dot(to_middle, aside) * aside
    return fills(shapes, shape, wp.transform_point(wp.transform_inverse(X), taken))


@wp.func
def has_facets_around(shapes: Shapes, shape: int, at: wp.vec3d, n: wp.vec3d, aligned: wp.float64, around: wp.float64):
    """Whether the triangles of a mesh, hull or heightfield so far [m] to all four sides of a point, in its axes, face along a unit vector."""
    size = to_vec3d(shapes.scale[shape])
    aside = wp.vec3d()
    aside[int(wp.abs(n[0]) > wp.float64(0.7))] = wp.float64(1.0)
    aside = wp.normalize(wp.cross(n, aside))
    sides = int(4)  # no constant: the loop is not to be unrolled
    for _side in range(sides):
        aside = wp.cross(n, aside)
        start = wp.vec3(wp.cw_div(at + around * (aside + n), size))
        hit = wp.mesh_query_ray(shapes.source_ptr[shape], start, wp.vec3(wp.cw_div(-n, size)), 3.0 * wp.float32(around))
        if not hit.result:
            return False
        if wp.abs(wp.dot(wp.normalize(wp.cw_div(to_vec3d(hit.normal), size)), n)) < aligned:
            return False
    return True


@wp.func
def is_on_face(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    state: StateArrays,
    shape: int,
    point: wp.vec3d,
    normal: wp.vec3d,
    aligned: wp.float64,
    around: wp.float64,
):
    """Whether a point [m] of the world is so far [m] within a flat face of a shape that faces along a unit vector, or beyond a box's if that is negative;
    caps do not count."""
    kind = shapes.type[shape]
    if kind == PLANE:
        return True
    inverse = wp.transform_inverse(shape_pose(tree, shapes, m, state, shape))
    at = wp.transform_point(inverse, point)
    n = wp.transform_vector(inverse, normal)
    if kind == MESH or kind == HULL or kind == HEIGHTFIELD:
        return has_facets_around(shapes, shape, at, n, aligned, wp.abs(around))
    within = int(0)
    faces = int(0)
    axes = int(3)  # no constant: the loop is not to be unrolled
    for i in range(axes):
        if wp.abs(n[i]) >= aligned:
            faces += 1
        elif wp.abs(at[i]) < wp.float64(shapes.scale[shape][i]) - around:
            within += 1
    return kind == BOX and faces == 1 and within == 2


@wp.func
def goes_on_towards(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    state: StateArrays,
    shape: int,
    point: wp.vec3d,
    normal: wp.vec3d,
    up: wp.vec3d,
):
    """Whether a shape that is touched at a point [m] of the world with a normal goes on where the normal leans to, level across ``up``.

    A ball on the point, with its middle along the normal, would then reach into the shape: no surface there has this normal.
    """
    inverse = wp.transform_inverse(shape_pose(tree, shapes, m, state, shape))
    at = wp.transform_point(inverse, point)
    n = wp.transform_vector(inverse, up)
    middle = at + REACH * wp.transform_vector(inverse, normal)
    height = REACH * wp.dot(normal, up)  # of the middle above the surface
    margin = wp.min(LEVEL * REACH, wp.float64(0.5) * (REACH - height))
    kind = shapes.type[shape]
    if kind == MESH or kind == HULL or kind == HEIGHTFIELD:
        size = to_vec3d(shapes.scale[shape])
        start = wp.vec3(wp.cw_div(middle + wp.float64(0.2) * REACH * n, size))
        length = wp.float32(wp.float64(1.2) * REACH - margin)
        return wp.mesh_query_ray(shapes.source_ptr[shape], start, wp.vec3(wp.cw_div(-n, size)), length).result
    return fills(shapes, shape, middle - (height + margin) * n)


@wp.func
def facet_below(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    state: StateArrays,
    shape: int,
    point: wp.vec3d,
    up: wp.vec3d,
    reach: wp.float64,
):
    """How far [m] below a point of the world a facet of a shape is, and the cosine between its normal and ``up``; 0 where none is within
    ``reach``, -1 inside a box. Of meshes, hulls, heightfields and boxes."""
    inverse = wp.transform_inverse(shape_pose(tree, shapes, m, state, shape))
    at = wp.transform_point(inverse, point)
    n = wp.transform_vector(inverse, up)
    size = to_vec3d(shapes.scale[shape])
    kind = shapes.type[shape]
    enter = wp.float64(0.0)
    facing = wp.float64(0.0)
    if kind == MESH or kind == HULL or kind == HEIGHTFIELD:
        down = wp.vec3(wp.cw_div(-n, size))
        hit = wp.mesh_query_ray(shapes.source_ptr[shape], wp.vec3(wp.cw_div(at, size)), down, wp.float32(reach))
        if hit.result:
            enter = wp.float64(hit.t)
            facing = wp.dot(wp.normalize(wp.cw_div(to_vec3d(hit.normal), size)), n)
    elif kind == BOX:
        leave = reach
        axes = int(3)  # no constant: the loop is not to be unrolled
        for i in range(axes):
            along = wp.abs(n[i])
            above = wp.where(n[i] < wp.float64(0.0), -at[i], at[i])  # towards the face that looks up
            if along * reach < wp.abs(above) - size[i]:
                return wp.vec2d()
            if along * enter < above - size[i]:
                enter = (above - size[i]) / along
                facing = along
            if along * leave > above + size[i]:
                leave = (above + size[i]) / along
        if enter > leave:
            facing = wp.float64(0.0)
        elif enter == wp.float64(0.0) and leave > wp.float64(0.0):
            facing = wp.float64(-1.0)
    return wp.vec2d(enter, facing)


@wp.func
def out_of_ellipsoid(shapes: Shapes, shape: int, X: wp.transformd, point: wp.vec3d):
    """Unit vector across the ellipsoid of the same centre and proportions through a point; zero of other shapes."""
    out = wp.vec3d()
    if shapes.type[shape] == ELLIPSOID:
        size = to_vec3d(shapes.scale[shape])
        at = wp.transform_point(wp.transform_inverse(X), point)
        out = wp.normalize(wp.transform_vector(X, wp.cw_div(at, wp.cw_mul(size, size))))
    return out


@wp.func
def depth_in_ellipsoid(shapes: Shapes, shape: int, X: wp.transformd, point: wp.vec3d, way: wp.vec3d):
    """How far [m] an ellipsoid reaches beyond a point along a unit vector; zero of other shapes."""
    depth = wp.float64(0.0)
    if shapes.type[shape] == ELLIPSOID:
        along = wp.transform_vector(wp.transform_inverse(X), way)
        reach = wp.length(wp.cw_mul(to_vec3d(shapes.scale[shape]), along))
        depth = reach - wp.dot(way, point - wp.transform_get_translation(X))
    return depth
