"""Inertia and damping for links that are too light for the tension through them (F 1.1).

A tension ``T`` holds a link of length ``l`` straight as a spring of ``T l`` per radian would. A step knows it at its start, so links
that alone would swing by more than two radians per step gain energy, and so do waves along them. From one radian on, the joint
that pulls adds to ``A`` what the link has less than ``T l dt^2``, and more for waves. Most of what the link lacks keeps its momentum,
as an armature would; the rest damps, and so does what is added for waves.
"""

import warp as wp

from ..workspace import Bodies, Joints, Motion, Tree
from .efforts import Efforts, external_wrench, own_inertia
from .joints import flies, turns_freely
from .orders import Orders
from .paths import is_moved
from .spatial import angular, linear, to_vec3d, velocity_at

wp.set_module_options({"enable_backward": False})


WAVES = wp.constant(wp.float64(1.0 / 48.0))
"""Links of inertia ``I`` that need ``J`` swing in waves unless their joints damp by ``J^2 / (384 I)``; eight times as much."""
LONGEST = wp.constant(wp.float64(0.1))
"""Times the square of their number, the most that ``n`` links in a row need for waves, in ``J``; twice what it takes."""
DAMPED, DAMPED_OF_BALLS = wp.constant(wp.float64(0.1)), wp.constant(wp.float64(0.5))
"""Share of what a link lacks that damps: without any, links that whirl gain energy, most of all those about axes that turn."""


@wp.struct
class Tension:
    """What the joint of a link makes of the pull on it."""

    needed: wp.float64  # of the diagonal of A, across the line between the joints of the link above [kg m^2]
    kept: wp.float64  # share of what is added for it along which momentum is kept
    along: wp.vec3d  # that line, or zero where turns about it need as much


@wp.func
def own_pull(
    tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, efforts: Efforts, link: int, dt: wp.float64
):
    """Impulse that a body asks of its joint to keep to its course: gravity and what the caller applies, less mass times acceleration."""
    V = m.velocity[link]
    com = m.com[link]
    a = velocity_at(m.bias[link], com) + wp.cross(angular(V), velocity_at(V, com))
    outside = linear(external_wrench(tree, joints, bodies, m, orders, efforts, link))
    return dt * (outside - wp.float64(bodies.mass[tree.links[link].body]) * a)


@wp.func
def pivot_of(joints: Joints, m: Motion, joint: int, link: int):
    """Where a link hangs on its joint; one in flight turns about its COM."""
    pivot = m.com[link]
    if not flies(joints, joint):
        anchor = to_vec3d(wp.transform_get_translation(joints.X_c[joint]))
        pivot = m.position[link] + wp.quat_rotate(m.rotation[link], anchor)
    return pivot


@wp.func
def carrier_of(tree: Tree, joints: Joints, m: Motion, orders: Orders, link: int):
    """The link that a link hangs on: the nearest one above that turns by its joint. -1 where that does not swing.

    A link that flies hangs on nothing.
    """
    above = int(-1)
    if orders.reference_is_com == 1 and not flies(joints, tree.links[link].joint):
        above = tree.links[link].parent
    turns = bool(False)
    while above >= 0 and not turns:
        dof = tree.links[above].dof_start
        while dof < tree.links[above + 1].dof_start and not turns:
            turns = wp.length_sq(angular(m.column[dof])) > wp.float64(0.0)
            dof += 1
        if not turns:
            above = tree.links[above].parent
    if above >= 0:
        if not is_moved(tree, m, above):
            above = -1  # prescribed
    return above


@wp.func
def harmonic_inertia(tree: Tree, bodies: Bodies, m: Motion, link: int, e: wp.vec3d):
    """Harmonic mean of a body's moments of inertia about axes across a line."""
    inverse = wp.mat33d(bodies.inv_inertia[tree.links[link].body])
    along = wp.quat_rotate_inv(m.rotation[link], e)
    return wp.float64(2.0) / (wp.trace(inverse) - wp.dot(along, inverse * along))


@wp.func
def kept_share(waves: wp.float64, about_any_axis: bool):
    """Share of what is added along which momentum is kept: nothing of what waves need, of what the link lacks all but what damps."""
    share = DAMPED
    if about_any_axis:
        share = DAMPED_OF_BALLS
    return (wp.float64(1.0) - share) / (wp.float64(1.0) + waves)


@wp.func
def tension_through(
    tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, link: int, pull: wp.vec3d, dt: wp.float64
):
    """The tension through a link's joint, on which its subtree pulls with an impulse, and with what couplings hang on that."""
    out = Tension()
    if tree.hung_links > 0:
        pull += dt * tree.hung_pull[link]
    above = carrier_of(tree, joints, m, orders, link)
    if above >= 0:
        joint = tree.links[link].joint
        r = pivot_of(joints, m, joint, link) - pivot_of(joints, m, tree.links[above].joint, above)
        needed = dt * wp.dot(pull, r)
        inverse = wp.mat33d(bodies.inv_inertia[tree.links[above].body])
        if needed * wp.trace(inverse) > wp.float64(2.0):  # else it is inert enough about any axis
            e = wp.normalize(r)
            inertia = harmonic_inertia(tree, bodies, m, above, e)
            if needed > inertia:
                t = tree.links[link].tree
                links = wp.float64(tree.trees[t + 1].link_start - tree.trees[t].link_start)
                heavier = wp.max(inertia, harmonic_inertia(tree, bodies, m, link, e))  # where waves end
                waves = wp.min(WAVES * needed / heavier, LONGEST * links * links)
                out.needed = (needed - inertia) * (wp.float64(1.0) + waves)
                about_any_axis = turns_freely(joints, joint)
                if not about_any_axis:
                    out.along = e
                out.kept = kept_share(waves, about_any_axis)
    return out


@wp.func
def dof_inertia(
    tree: Tree, joints: Joints, m: Motion, efforts: Efforts, tension: Tension, link: int, dof: int, dt: wp.float64
):
    """What a dof adds to A, with what tension asks for besides: as an armature, and by damping and spring.

    A hinge along the pull swivels freely.
    """
    armature, implicit = own_inertia(tree, joints, efforts, link, dof, dt)
    if tension.needed > wp.float64(0.0):
        a = angular(m.column[dof])
        along = wp.dot(tension.along, a)
        lacking = tension.needed * (wp.dot(a, a) - along * along) - armature - implicit
        if lacking > wp.float64(0.0):
            kept = tension.kept * lacking
            armature += kept
            implicit += lacking - kept
    return armature, implicit
