"""Where the two bodies of a contact are, and how far apart."""

import warp as wp

from ..multibody.orders import sap_velocity
from ..multibody.paths import is_moved, prescribed_velocity
from ..multibody.spatial import angular, to_transformd, to_vec3d
from ..workspace import Bodies, Motion, Shapes, StateArrays, Tree
from .grazing import GRAZING, depth_below_face, grazed_face, may_graze
from .materials import ContactOptions
from .rows import ContactRows, hidden, shown
from .shape_geometry import (
    CONE,
    CYLINDER,
    MESH,
    body_pose,
    depth_in_ellipsoid,
    out_of_ellipsoid,
    shape_pose,
)

wp.set_module_options({"enable_backward": False})


@wp.struct
class Side:
    """One body of a contact."""

    link: int  # as the contact pool has it
    group: int
    support: wp.vec3d  # support point, world [m]
    surface: wp.vec3d  # point on the effective surface, world [m]
    prescribed: wp.spatial_vectord  # the part of its velocity that is given


@wp.struct
class Gap:
    """Where the two bodies of a contact are, and how far apart."""

    a: Side
    b: Side
    normal: wp.vec3d  # from A to B
    phi0: wp.float64  # [m]
    passed: wp.vec3d  # how far B has passed A across the normal since the contact was found [m], once that is asked for
    group: int  # -1 where the contact moves no unknown


@wp.func
def as_constant(x: wp.vec3d):
    """The same vector, in whose changes gradients take no interest."""
    return x


@wp.func_grad(as_constant)
def as_constant_back(x: wp.vec3d, adj: wp.vec3d):
    """Nothing goes back."""
    pass


@wp.func
def given_velocity(tree: Tree, bodies: Bodies, m: Motion, state: StateArrays, body: int):
    """The part of a body's velocity that no unknown causes."""
    if body < 0:
        return wp.spatial_vectord()
    link = tree.bodies[body].link
    if link >= 0:
        return prescribed_velocity(tree, m, link)
    com = wp.transform_point(body_pose(tree, m, state, body), to_vec3d(bodies.com[body]))
    v_C = to_vec3d(wp.spatial_top(state.body_qd[body]))
    w = to_vec3d(wp.spatial_bottom(state.body_qd[body]))
    return sap_velocity(v_C, w, com)


@wp.func
def make_side(
    tree: Tree,
    bodies: Bodies,
    m: Motion,
    state: StateArrays,
    body: int,
    point: wp.vec3,
):
    """Place one side in the world, but for its surface: a link, a body no joint moves (as its state says), or the static world."""
    side = Side()
    side.link = -1
    side.group = -1
    if body >= 0:
        link = tree.bodies[body].link
        if link >= 0:
            side.link = hidden(link)
            if is_moved(tree, m, link):
                side.link = link
                side.group = tree.trees[tree.links[link].tree].group
    X = body_pose(tree, m, state, body)
    side.prescribed = given_velocity(tree, bodies, m, state, body)
    side.support = wp.transform_point(X, to_vec3d(point))
    return side


@wp.func
def find_normal(tree: Tree, shapes: Shapes, m: Motion, state: StateArrays, gap: Gap, s0: int, s1: int):
    """Make the reported normal a unit vector; without one, at a point inside both shapes, take that of the ellipsoids, if any (F 4.4).

    Both supports then move along it to how far their ellipsoids reach. Returns the gap, whose normal is zero where none was found.
    """
    reported = wp.length(gap.normal)
    if reported != wp.float64(0.0):
        gap.normal = gap.normal / reported
        return gap
    X0 = shape_pose(tree, shapes, m, state, s0)
    X1 = shape_pose(tree, shapes, m, state, s1)
    n = out_of_ellipsoid(shapes, s0, X0, gap.a.support) - out_of_ellipsoid(shapes, s1, X1, gap.b.support)
    n = as_constant(wp.normalize(n))
    gap.normal = n
    gap.a.support += as_constant(n * depth_in_ellipsoid(shapes, s0, X0, gap.a.support, n))
    gap.b.support -= as_constant(n * depth_in_ellipsoid(shapes, s1, X1, gap.b.support, -n))
    return gap


@wp.func
def on_body(X: wp.transformd, point: wp.vec3d):
    """A point of the world as one of a body's, with which it goes."""
    return wp.transform_point(X, as_constant(wp.transform_point(wp.transform_inverse(X), point)))


@wp.func
def lacks_normal(gap: Gap):
    """Whether a row that would join different bodies and move an unknown has no normal, and none was found."""
    moves = wp.max(gap.a.group, gap.b.group) >= 0 and gap.a.link != gap.b.link
    return moves and wp.length(gap.normal) == wp.float64(0.0)


@wp.func
def measure_gap(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    state: StateArrays,
    i: int,
):
    """phi0 = n . (p_B - p_A) - margins; without a group unless the row has a normal, joins different bodies and moves an unknown.

    Surfaces lie along the normal; they do not go round with a body.
    """
    s0 = rows.shape0[i]
    s1 = rows.shape1[i]
    gap = Gap()
    gap.group = -1
    gap.a = make_side(tree, bodies, m, state, shapes.body[s0], rows.point0[i])
    gap.b = make_side(tree, bodies, m, state, shapes.body[s1], rows.point1[i])
    gap.normal = to_vec3d(rows.normal[i])
    gap = find_normal(tree, shapes, m, state, gap, s0, s1)
    gap.a.surface = gap.a.support + as_constant(gap.normal * wp.length(to_vec3d(rows.offset0[i])))
    gap.b.surface = gap.b.support - as_constant(gap.normal * wp.length(to_vec3d(rows.offset1[i])))
    gap.phi0 = wp.dot(gap.normal, gap.b.support - gap.a.support)
    gap.phi0 -= wp.float64(rows.margin0[i]) + wp.float64(rows.margin1[i])
    if gap.a.link != gap.b.link and wp.length(gap.normal) != wp.float64(0.0):
        gap.group = wp.max(gap.a.group, gap.b.group)
    return gap


@wp.func
def leave_by_face(tree: Tree, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, gap: Gap, i: int):
    """Let a mesh that grazes a box, though its contact is deep, leave it across the face that it grazes (F 4.4).

    The point on the mesh stays, and the one on the box is on that face. No part of ``measure_gap``, which would no longer be
    inlined, and whose bundles would be copied for each contact.
    """
    if not may_graze(shapes, rows, i):
        return gap
    depth = wp.dot(gap.normal, gap.a.support - gap.b.support)
    if not (depth >= GRAZING):  # nor what is no number
        return gap
    box = rows.shape0[i]
    mesh = rows.shape1[i]
    point = gap.b.support
    swapped = shapes.type[box] == MESH
    if swapped:
        box = rows.shape1[i]
        mesh = rows.shape0[i]
        point = gap.a.support
    out = grazed_face(tree, shapes, m, state, box, mesh, point, depth)
    if wp.length(out) > wp.float64(0.0):
        X = shape_pose(tree, shapes, m, state, box)
        on_face = on_body(X, point + out * depth_below_face(shapes, box, X, out, point))
        gap.normal = wp.where(swapped, -out, out)
        if swapped:
            gap.b.support = on_face
        else:
            gap.a.support = on_face
        gap.a.surface = gap.a.support + wp.float64(rows.margin0[i]) * gap.normal
        gap.b.surface = gap.b.support - wp.float64(rows.margin1[i]) * gap.normal
        gap.phi0 = wp.dot(gap.normal, gap.b.surface - gap.a.surface)
    return gap


@wp.func
def rolled_over(m: Motion, shapes: Shapes, shape: int, side: Side, n: wp.vec3d, dt: wp.float64):
    """How far [m] the spin of a wheel about its own axis carries a point of it against ``n`` within the step.

    Where that point was another one of the same surface is then: a wheel that spins stays where it is.
    """
    link = shown(side.link)
    kind = shapes.type[shape]
    if link < 0 or (kind != CYLINDER and kind != CONE):
        return wp.float64(0.0)
    X = wp.transformd(m.position[link], m.rotation[link]) * to_transformd(shapes.transform[shape])
    axis = wp.transform_vector(X, wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0)))
    spin = axis * wp.dot(axis, angular(m.velocity[link]))
    lever = side.support - wp.transform_get_translation(X)
    return wp.max(-dt * wp.dot(n, wp.cross(spin, lever)), wp.float64(0.0))


@wp.func
def spared_by_spin(
    m: Motion, shapes: Shapes, rows: ContactRows, gap: Gap, options: ContactOptions, i: int, dt: wp.float64
):
    """How much wider [m] an open gap counts because wheels that spin do not close it (F 4.1)."""
    spared = wp.float64(0.0)
    if gap.phi0 > wp.float64(0.0) and options.ahead == 0:
        spared = rolled_over(m, shapes, rows.shape0[i], gap.a, -gap.normal, dt)
        spared += rolled_over(m, shapes, rows.shape1[i], gap.b, gap.normal, dt)
    return spared
