"""The way out for what grazes a box: a mesh's triangle that lies against one of its faces (F 4.4).

Newton tells how deep a triangle is in a box by a search that need not find the shortest way out. Of one that just touches a face it
may report a way along that face instead, as far as to the other end of the box.
"""

import warp as wp

from ..multibody.spatial import to_vec3d
from ..workspace import Motion, Shapes, StateArrays, Tree
from .rows import ContactRows
from .shape_geometry import BOX, MESH, shape_pose

wp.set_module_options({"enable_backward": False})

GRAZING = wp.constant(wp.float64(1.0e-4))
"""How near [m] shapes are that Newton takes for overlapping: its depths and points are as accurate at least."""


@wp.func
def may_graze(shapes: Shapes, rows: ContactRows, i: int):
    """Whether the shapes of a contact are a box and a mesh."""
    a = shapes.type[rows.shape0[i]]
    b = shapes.type[rows.shape1[i]]
    return (a == BOX and b == MESH) or (a == MESH and b == BOX)


@wp.func
def face_axis(face: int):
    """Unit vector across the face of a box, of the six, in the box's axes."""
    axis = wp.vec3d()
    axis[face % 3] = wp.where(face < 3, wp.float64(1.0), wp.float64(-1.0))
    return axis


@wp.func
def depth_below(half: wp.vec3d, face: int, point: wp.vec3d):
    """How far [m] below the face of a box a point is, in the box's axes."""
    return half[face % 3] - wp.dot(face_axis(face), point)


@wp.func
def depth_below_face(shapes: Shapes, box: int, X: wp.transformd, out: wp.vec3d, point: wp.vec3d):
    """The same of a point of the world, and of the face that a unit vector is across."""
    local = wp.transform_vector(wp.transform_inverse(X), out)
    half = to_vec3d(shapes.scale[box])
    reach = wp.dot(half, wp.vec3d(wp.abs(local[0]), wp.abs(local[1]), wp.abs(local[2])))
    return reach - wp.dot(out, point - wp.transform_get_translation(X))


@wp.func
def nearest_face(shapes: Shapes, half: wp.vec3d, mesh: int, in_box: wp.transformd, triangle: int):
    """(face, depth [m]) of a box that a mesh's triangle is out of soonest: its depth is that of its deepest corner."""
    size = to_vec3d(shapes.scale[mesh])
    nearest = int(0)
    least = wp.float64(wp.inf)
    faces = int(6)  # no constants: the loops are not to be unrolled
    corners = int(3)
    for face in range(faces):
        depth = wp.float64(-wp.inf)
        for k in range(corners):
            corner = to_vec3d(wp.mesh_get_point(shapes.source_ptr[mesh], 3 * triangle + k))
            corner = wp.transform_point(in_box, wp.cw_mul(size, corner))
            depth = wp.max(depth, depth_below(half, face, corner))
        if depth < least:
            least = depth
            nearest = face
    return nearest, least


@wp.func
def grazed_face(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    state: StateArrays,
    box: int,
    mesh: int,
    point: wp.vec3d,
    depth: wp.float64,
):
    """Unit vector out of the face of a box that a mesh, with all its triangles at a point [m], leaves sooner than after a depth [m].

    Zero for none.
    """
    X = shape_pose(tree, shapes, m, state, box)
    in_box = wp.transform_inverse(X) * shape_pose(tree, shapes, m, state, mesh)
    half = to_vec3d(shapes.scale[box])
    size = to_vec3d(shapes.scale[mesh])
    at = wp.transform_point(wp.transform_inverse(in_box) * wp.transform_inverse(X), point)
    lower = wp.vec3(wp.cw_div(at - wp.vec3d(GRAZING), size))
    upper = wp.vec3(wp.cw_div(at + wp.vec3d(GRAZING), size))
    query = wp.mesh_query_aabb(shapes.source_ptr[mesh], wp.min(lower, upper), wp.max(lower, upper))
    triangle = int(0)
    nearest = int(-1)
    deepest = wp.float64(-wp.inf)
    while wp.mesh_query_aabb_next(query, triangle):
        face, below = nearest_face(shapes, half, mesh, in_box, triangle)
        if below > deepest:
            deepest = below
            nearest = face
    if nearest < 0 or deepest + GRAZING > depth:
        return wp.vec3d()
    return wp.transform_vector(X, face_axis(nearest))


@wp.func_grad(grazed_face)
def grazed_face_back(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    state: StateArrays,
    box: int,
    mesh: int,
    point: wp.vec3d,
    depth: wp.float64,
    adj: wp.vec3d,
):
    """Nothing goes back."""
    pass
