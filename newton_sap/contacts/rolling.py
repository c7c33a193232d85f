"""What rolls is touched at other points from step to step, of itself and of what it rolls over (F 4.6).

Contacts that were found once name the same points in several steps. Newton gives spheres and capsules by their centre or axis, from which
the surface is found anew; cylinders by a point of their surface, which has gone round with them since.
"""

import warp as wp

from ..constraints.response import tangential
from ..workspace import Motion, Shapes, StateArrays, Tree
from .gaps import Gap, Side, as_constant
from .rows import ContactRows
from .shape_geometry import CAPSULE, CYLINDER, SPHERE, is_round, shape_pose

wp.set_module_options({"enable_backward": False})

LYING = wp.constant(wp.float64(0.5))
"""Cosine between a normal and a cylinder's axis up to which the surface about the axis is touched, and no face."""
TURNED = wp.constant(wp.float64(0.5))
"""Cosine of how far a point of it may have gone round since the contact was found: 60 degrees."""


ENDS = wp.constant(wp.float64(0.999))
"""Share of its half length up to which a capsule's side is touched, and no end."""
CROSSED = wp.constant(wp.float64(0.3))
"""Least sine of the angle at which two axes cross."""


@wp.struct
class Round:
    """A round surface where a contact touches it."""

    radius: wp.float64  # across the normal [m]; zero of what is flat, or has corners
    moved: wp.vec3d  # how far the point that touches is from the one that did [m]
    straight: wp.vec3d  # the axis along which it is; zero of a ball


@wp.func
def may_roll(shapes: Shapes, rows: ContactRows, i: int):
    """Whether one of a contact's shapes is round."""
    return is_round(shapes.type[rows.shape0[i]]) or is_round(shapes.type[rows.shape1[i]])


@wp.func
def may_turn(shapes: Shapes, rows: ContactRows, i: int):
    """Whether one of them is a cylinder, whose gap depends on how it has turned."""
    return shapes.type[rows.shape0[i]] == CYLINDER or shapes.type[rows.shape1[i]] == CYLINDER


@wp.func
def round_surface(tree: Tree, shapes: Shapes, m: Motion, state: StateArrays, shape: int, side: Side, out: wp.vec3d):
    """The round surface of a shape that faces along ``out``."""
    found = Round()
    kind = shapes.type[shape]
    if not is_round(kind):
        return found
    if kind == SPHERE:
        found.radius = wp.float64(shapes.scale[shape][0])
        return found
    X = shape_pose(tree, shapes, m, state, shape)
    axis = wp.transform_vector(X, wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0)))
    arm = side.support - wp.transform_get_translation(X)
    along = wp.dot(axis, arm)
    lean = wp.dot(axis, out)
    if kind == CAPSULE:
        found.radius = wp.float64(shapes.scale[shape][0])
        if not (wp.abs(lean) < LYING and wp.abs(along) < ENDS * wp.float64(shapes.scale[shape][1])):
            return found
        found.straight = as_constant(axis)
        return found
    arm = arm - axis * along
    across = wp.normalize(out - axis * lean)
    radius = wp.length(arm)
    if not (wp.abs(lean) < LYING and wp.dot(arm, across) > TURNED * radius):
        return found
    found.radius = radius
    found.moved = as_constant(radius * across - arm)
    found.straight = as_constant(axis)
    return found


@wp.func
def passed_by(gap: Gap):
    """How far B's surface has passed A's across the normal: contacts are found with one facing the other."""
    return tangential(gap.normal, gap.b.surface - gap.a.surface)


@wp.func
def is_straight(surface: Round):
    """Whether a surface has an axis along which it is."""
    return wp.dot(surface.straight, surface.straight) > wp.float64(0.0)


@wp.func
def ahead_on_a(a: Round, b: Round, n: wp.vec3d, passed: wp.vec3d):
    """How far from A's point two surfaces are touched of which B's point is so far ahead: where lines along which they are straight cross;
    of one such line on it; else by radii."""
    if a.radius == wp.float64(0.0):
        return passed
    if b.radius == wp.float64(0.0):
        return wp.vec3d()
    share = a.radius / (a.radius + b.radius)
    if is_straight(a) and is_straight(b):
        first = wp.normalize(tangential(n, a.straight))
        second = wp.normalize(tangential(n, b.straight))
        crossed = wp.dot(n, wp.cross(first, second))
        if wp.abs(crossed) > CROSSED:
            return first * (wp.dot(n, wp.cross(passed, second)) / crossed)
    elif is_straight(a) or is_straight(b):
        line = wp.normalize(tangential(n, a.straight + b.straight))  # one of them is zero
        along = line * wp.dot(line, passed)
        across = passed - along
        if is_straight(a):
            return along + share * across
        return share * across
    return share * passed


@wp.func
def roll_on(
    tree: Tree, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, gap: Gap, i: int, rolls: bool
):
    """Let round bodies be touched where they are now: between what is round, or where it meets what is flat.

    ``rolls`` is what ``may_roll`` says, or ``may_turn`` where ``phi0`` alone is needed.
    """
    if not rolls:
        return gap
    n = gap.normal
    a = round_surface(tree, shapes, m, state, rows.shape0[i], gap.a, n)
    b = round_surface(tree, shapes, m, state, rows.shape1[i], gap.b, -n)
    gap.a.support += a.moved
    gap.b.support += b.moved
    gap.phi0 += wp.dot(n, b.moved - a.moved)
    gap.a.surface += a.moved
    gap.b.surface += b.moved
    gap.passed = passed_by(gap)
    if not (a.radius + b.radius > wp.float64(0.0)):
        return gap
    on_a = ahead_on_a(a, b, n, gap.passed)
    gap.a.surface += on_a
    gap.b.surface -= gap.passed - on_a
    return gap
