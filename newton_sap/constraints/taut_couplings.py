"""Damping where a load hangs by a coupling on a link too light for its weight (F 1.1), as a joint has it in a tree.

The free angles of the coupling have a damper each: those of a ball all alike, a hinge by how far its axis is across the line along which
the link is pulled.
"""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..multibody.joints import flies
from ..multibody.spatial import motion, to_vec3d
from ..multibody.tension import kept_share, pivot_of
from ..workspace import CouplerPool, Joints, Motion, Problem, Tree
from .axis_laws import JointOptions, spring_law
from .coupler_pool import Anchor, measure_axis, open_row, perpendicular, place_row
from .coupling_table import DISTANCE_RANGE
from .taut_rods import asked_by, carried_inertia, length_of

wp.set_module_options({"enable_backward": False})

SHORT = wp.constant(wp.float64(0.05))
"""A distance joint counts as no shorter than so much of the link that it pulls."""

TURNS = wp.constant(wp.float64(4.0))
"""A string's direction turns whatever is damped: what pulls by one does not count as more than so much more inert."""


@wp.struct
class Bends:
    """The free angles of a coupling, as far as they are damped."""

    count: int
    axis: wp.mat33d  # one per row, unit
    along: wp.vec3d  # the line along which the link is pulled, unit
    damping: wp.float64  # [N m s]
    kept: wp.float64  # share of it that keeps a rate, as an armature does
    inert: wp.float64  # how much more inert it makes the link than it is


@wp.func
def lever_of(tree: Tree, joints: Joints, m: Motion, end: Anchor, distance: wp.float64):
    """From where a link hangs to where it is pulled; one in flight hangs as far from its COM as it is pulled.

    Pulled by a string it turns back by itself and by what that turns: longer, the shorter that is.
    """
    r = length_of(m, end)
    if end.moves == 1:
        joint = tree.links[end.link].joint
        if joint >= 0 and not flies(joints, joint):
            r = end.position - pivot_of(joints, m, joint, end.link)
    if distance >= wp.float64(0.0):
        length = wp.length(r)
        r = r + length / wp.max(distance, SHORT * length) * r
    return r


@wp.func
def free_angles(joints: Joints, table: CouplingTable, c: int, a: Anchor, b: Anchor, e: wp.vec3d):
    """How many axes across a line a coupling leaves free, and which."""
    count = int(table.angular_axes[c])
    start = table.axis_start[c] + table.linear_axes[c]
    axes = wp.mat33d()
    if count == 3 or table.kind[c] == DISTANCE_RANGE:
        count = wp.max(count, 2)
        axes[0] = perpendicular(e)
        axes[1] = wp.cross(e, axes[0])
        axes[2] = e
    elif count > 0:
        axes[0] = wp.quat_rotate(a.rotation, wp.normalize(to_vec3d(joints.axis[start])))
        if count == 2:
            axes[1] = wp.quat_rotate(b.rotation, wp.normalize(to_vec3d(joints.axis[start + 1])))
    return count, axes


@wp.func
def taut_bends(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    c: int,
    a: Anchor,
    b: Anchor,
    options: JointOptions,
    dt: wp.float64,
):
    """What a coupling damps, by the body that lacks more inertia; nothing where both are inert enough."""
    out = Bends()
    out.inert = wp.float64(1.0)
    if tree.hung_links > 0 and options.foresees == 1:
        distance = wp.float64(-1.0)
        if table.kind[c] == DISTANCE_RANGE:
            distance = wp.length(b.position - a.position)
        pull = dt * dt * table.pull[c]
        links = wp.float64(table.links[c])
        link = a.link
        r = lever_of(tree, joints, m, a, distance)
        r_B = lever_of(tree, joints, m, b, distance)
        asked, waves = asked_by(m, a, r, pull, links)
        asked_B, waves_B = asked_by(m, b, r_B, -pull, links)
        if asked_B > asked:
            asked = asked_B
            waves = waves_B
            link = b.link
            r = r_B
        if asked > wp.float64(0.0):
            out.along = wp.normalize(r)
            count, axes = free_angles(joints, table, c, a, b, out.along)
            out.count = count
            out.axis = axes
            out.damping = asked / dt
            out.kept = kept_share(waves, count == 3 or distance >= wp.float64(0.0))
            if out.count > 0:
                ratio = asked / carried_inertia(m, link, out.along)
                if distance >= wp.float64(0.0):
                    ratio = wp.min(ratio, TURNS)
                out.inert += ratio
    return out


@wp.func
def bend_of(bends: Bends, i: int):
    """Covector of the i-th rate that is damped and kept, and its damping: less, the less the axis of a hinge is across the line.

    A ball twists no more freely than it bends: links that do feed on their swinging.
    """
    along = wp.dot(bends.axis[i], bends.along)
    damping = bends.damping * (wp.float64(1.0) - along * along)
    if bends.count == 3:
        damping = bends.damping
    return motion(bends.axis[i], wp.vec3d()), damping


@wp.func
def taut_rows(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    a: Anchor,
    b: Anchor,
    bends: Bends,
    dt: wp.float64,
):
    """Rows that damp what a coupling leaves free."""
    for i in range(bends.count):
        F, damping = bend_of(bends, i)
        axis = measure_axis(tree, m, pool, problem, row, a, b, F)
        law = spring_law(axis, 0.0, wp.float32(damping), wp.float64(0.0), dt)
        law.v_hat = bends.kept * axis.v0
        open_row(pool, row)  # stays empty where the axis lies along the line
        place_row(tree, m, pool, problem, row, a, b, F, law)
        row += 1
    return row
