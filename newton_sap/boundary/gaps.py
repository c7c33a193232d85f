"""Where the two bodies of a contact are, and how far apart."""

import newton
import warp as wp

from ..multibody.paths import is_moved
from ..multibody.spatial import angular, motion, to_quatd, to_vec3d
from ..workspace import Bodies, Motion, Shapes, StateArrays, Tree
from .contact_materials import ContactOptions
from .contact_rows import ContactRows, hidden, shown

wp.set_module_options({"enable_backward": False})

CYLINDER, CONE = (wp.constant(int(kind)) for kind in (newton.GeoType.CYLINDER, newton.GeoType.CONE))
"""Wheels, whose axis is z."""


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
    group: int  # -1 where the contact moves no unknown


@wp.func
def prescribed_velocity(tree: Tree, m: Motion, link: int):
    """What the locked dofs of a link's tree give it of velocity."""
    total = wp.spatial_vectord()
    locked = m.locked[tree.links[link].tree]
    for p in range(locked):
        dof = tree.path_dof[tree.links[link].path_start + p]
        total += m.column[dof] * m.v0[dof]
    return total


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
    V = wp.spatial_vectord()
    if body >= 0:
        link = tree.bodies[body].link
        if link >= 0:
            V = prescribed_velocity(tree, m, link)
        else:
            X = state.body_q[body]
            turned = wp.quat_rotate(to_quatd(wp.transform_get_rotation(X)), to_vec3d(bodies.com[body]))
            com = to_vec3d(wp.transform_get_translation(X)) + turned
            v_C = to_vec3d(wp.spatial_top(state.body_qd[body]))
            w = to_vec3d(wp.spatial_bottom(state.body_qd[body]))
            V = motion(w, v_C + wp.cross(com, w))
    return V


@wp.func
def make_side(
    tree: Tree,
    bodies: Bodies,
    m: Motion,
    state: StateArrays,
    body: int,
    point: wp.vec3,
    offset: wp.vec3,
):
    """Place one side in the world: a link, a body no joint moves (as its state says), or the static world."""
    side = Side()
    side.link = -1
    side.group = -1
    position = wp.vec3d()
    rotation = wp.quat_identity(dtype=wp.float64)
    if body >= 0:
        link = tree.bodies[body].link
        if link >= 0:
            position = m.position[link]
            rotation = m.rotation[link]
            side.link = hidden(link)
            if is_moved(tree, m, link):
                side.link = link
                side.group = tree.trees[tree.links[link].tree].group
        else:
            position = to_vec3d(wp.transform_get_translation(state.body_q[body]))
            rotation = to_quatd(wp.transform_get_rotation(state.body_q[body]))
    side.prescribed = given_velocity(tree, bodies, m, state, body)
    side.support = position + wp.quat_rotate(rotation, to_vec3d(point))
    # The margin is along the normal, and a round body that turns is touched at another point of its surface.
    side.surface = side.support + as_constant(wp.quat_rotate(rotation, to_vec3d(offset)))
    return side


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
    """phi0 = n . (p_B - p_A) - margins; without a group unless the row joins different bodies and moves an unknown."""
    s0 = rows.shape0[i]
    s1 = rows.shape1[i]
    gap = Gap()
    gap.group = -1
    gap.a = make_side(tree, bodies, m, state, shapes.body[s0], rows.point0[i], rows.offset0[i])
    gap.b = make_side(tree, bodies, m, state, shapes.body[s1], rows.point1[i], rows.offset1[i])
    n = to_vec3d(rows.normal[i])
    if wp.length(n) == wp.float64(0.0):
        return gap
    gap.normal = n / wp.length(n)
    gap.phi0 = wp.dot(gap.normal, gap.b.support - gap.a.support)
    gap.phi0 -= wp.float64(rows.margin0[i]) + wp.float64(rows.margin1[i])
    if gap.a.link != gap.b.link:
        gap.group = wp.max(gap.a.group, gap.b.group)
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
    placed = shapes.transform[shape]
    center = m.position[link] + wp.quat_rotate(m.rotation[link], to_vec3d(wp.transform_get_translation(placed)))
    turned = m.rotation[link] * to_quatd(wp.transform_get_rotation(placed))
    axis = wp.quat_rotate(turned, wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0)))
    spin = axis * wp.dot(axis, angular(m.velocity[link]))
    return wp.max(-dt * wp.dot(n, wp.cross(spin, side.support - center)), wp.float64(0.0))


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
