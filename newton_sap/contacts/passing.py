"""What flies past: open contacts whose half-space would stop what passes their edges (F 4.5).

The normal between two edges turns as they come closer, and the half-space across it, taken from the start of a step, bars the way of
what only just goes by. Two convex shapes do not meet before every direction that tells them apart has lost them; besides the
normal, those across the faces of a box are known, of a box around a mesh or hull, and of a cylinder's caps and side.
"""

import warp as wp

from ..multibody.paths import free_velocity
from ..multibody.spatial import angular, to_vec3d, velocity_at
from ..workspace import Motion, Shapes, StateArrays, Tree
from .gaps import Gap, Side
from .materials import ContactOptions
from .rows import ContactRows
from .shape_geometry import BOX, CAPSULE, CONE, CYLINDER, ELLIPSOID, HEIGHTFIELD, PLANE, SPHERE, shape_pose

wp.set_module_options({"enable_backward": False})

SAME = wp.constant(wp.float64(1.0e-4))
"""How far [m] shapes may be closer along a normal than their contact says: then they are not what they seem to be."""


@wp.struct
class Core:
    """A box or cylinder, what is around a mesh or hull, or the middle of a sphere or capsule, whose radius counts as a margin."""

    X: wp.transformd  # of its middle
    half: wp.vec3d  # [m]
    around: wp.float64  # radius about the third axis [m]


@wp.func
def core_of(tree: Tree, shapes: Shapes, m: Motion, state: StateArrays, shape: int):
    """The core of a shape that has one."""
    core = Core()
    kind = shapes.type[shape]
    size = to_vec3d(shapes.scale[shape])
    lower = to_vec3d(shapes.aabb_lower[shape])
    upper = to_vec3d(shapes.aabb_upper[shape])
    core.X = shape_pose(tree, shapes, m, state, shape)
    if kind == BOX:
        core.half = size
    elif kind == CAPSULE:
        core.half = wp.vec3d(wp.float64(0.0), wp.float64(0.0), size[1])
    elif kind == CYLINDER:
        core.half = wp.vec3d(wp.float64(0.0), wp.float64(0.0), size[1])
        core.around = upper[0]
    elif kind != SPHERE:
        core.half = wp.float64(0.5) * (upper - lower)
        middle = wp.transform_point(core.X, wp.float64(0.5) * (upper + lower))
        core.X = wp.transformd(middle, wp.transform_get_rotation(core.X))
    return core


@wp.func
def extent(core: Core, e: wp.vec3d):
    """How far a core reaches from its middle along a unit vector [m]."""
    local = wp.transform_vector(wp.transform_inverse(core.X), e)
    flat = wp.dot(core.half, wp.vec3d(wp.abs(local[0]), wp.abs(local[1]), wp.abs(local[2])))
    across = local[0] * local[0] + local[1] * local[1]
    if core.around > wp.float64(0.0) and across > wp.float64(0.0):  # a root has no derivative at zero
        flat += core.around * wp.sqrt(across)
    return flat


@wp.func
def apart_along(a: Core, b: Core, margins: wp.float64, e: wp.vec3d):
    """How far two shapes are apart along a unit vector from the first to the second [m]; not positive where it does not tell them apart."""
    between = wp.transform_get_translation(b.X) - wp.transform_get_translation(a.X)
    return wp.dot(e, between) - extent(a, e) - extent(b, e) - margins


@wp.func
def across_face(a: Core, b: Core, face: int, normal: wp.vec3d):
    """Unit vector across the face of one of two cores, three of each; zero where that has none. Of a cylinder's side the one next to a normal."""
    axis = wp.vec3d()
    core = a
    if face >= 3:
        core = b
    if wp.min(wp.min(core.half[0], core.half[1]), core.half[2]) > wp.float64(0.0):
        axis[face % 3] = wp.float64(1.0)
    elif core.around > wp.float64(0.0):
        if face % 3 == 0:
            axis = wp.transform_vector(wp.transform_inverse(core.X), normal)
            axis[2] = wp.float64(0.0)
            axis = wp.normalize(axis)
        elif face % 3 == 2:
            axis[2] = wp.float64(1.0)
    return wp.transform_vector(core.X, axis)


@wp.func
def velocity_ahead(tree: Tree, m: Motion, side: Side):
    """Velocity of a body after free motion."""
    V = side.prescribed
    if side.link >= 0:
        V += free_velocity(tree, m, m.v_star, side.link)
    return V


@wp.func
def fastest_turn(core: Core, V: wp.spatial_vectord, point: wp.vec3d):
    """By how much some point of a shape may be faster than another one of it, for its spin [m/s]."""
    size = wp.length(core.half) + core.around
    return wp.length(angular(V)) * (size + wp.length(point - wp.transform_get_translation(core.X)))


@wp.func
def has_core(kind: int):
    """Whether a type of shape has one: what is round in two directions, but for balls and the ends of capsules, has no flat sides."""
    return kind != PLANE and kind != HEIGHTFIELD and kind != ELLIPSOID and kind != CONE


@wp.func
def may_pass(shapes: Shapes, rows: ContactRows, options: ContactOptions, gap: Gap, i: int):
    """Whether a contact is open and of two shapes that have cores."""
    cores = has_core(shapes.type[rows.shape0[i]]) and has_core(shapes.type[rows.shape1[i]])
    return cores and gap.phi0 > wp.float64(0.0) and options.ahead == 0


@wp.func
def longest_apart(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    gap: Gap,
    i: int,
    dt: wp.float64,
):
    """The gap across the direction that keeps two shapes apart for longest, if its own would not for this step and it may be passed."""
    if not may_pass(shapes, rows, options, gap, i):
        return gap
    point = wp.float64(0.5) * (gap.a.surface + gap.b.surface)
    V_a = velocity_ahead(tree, m, gap.a)
    V_b = velocity_ahead(tree, m, gap.b)
    v = velocity_at(V_b, point) - velocity_at(V_a, point)
    soonest = -wp.dot(gap.normal, v) / gap.phi0
    if soonest * dt < wp.float64(1.0):
        return gap
    a = core_of(tree, shapes, m, state, rows.shape0[i])
    b = core_of(tree, shapes, m, state, rows.shape1[i])
    margins = wp.float64(rows.margin0[i]) + wp.float64(rows.margin1[i])
    if apart_along(a, b, margins, gap.normal) > gap.phi0 + SAME:
        return gap
    turn = fastest_turn(a, V_a, point) + fastest_turn(b, V_b, point)
    normal = gap.normal
    faces = int(6)  # no constant: the loop is not to be unrolled
    for face in range(faces):
        e = across_face(a, b, face, normal)
        if wp.dot(e, normal) < wp.float64(0.0):
            e = -e
        phi = apart_along(a, b, margins, e)
        if phi > wp.float64(0.0):  # of no face there is none
            closing = (turn - wp.dot(e, v)) / phi
            if closing < soonest:
                soonest = closing
                gap.normal = e
                gap.phi0 = phi
    return gap
