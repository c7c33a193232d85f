"""Rows across several dofs: how one is opened, gathers its terms and becomes part of the problem.

A row between bodies is a covector ``F`` on the relative motion, ``vc = F . (V_B - V_A)``: acting along one line on both
bodies, it conserves momentum.
"""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..linalg.cholesky import widen_skyline
from ..multibody.paths import is_moved, shared_path
from ..multibody.spatial import angular, linear, rotation_of, to_quatd, to_vec3d, velocity_at
from ..unknowns import base_of
from ..workspace import COUPLER_ROWS, CouplerPool, Joints, Motion, Problem, RowLaw, Tree
from .axis_laws import Axis

wp.set_module_options({"enable_backward": False})

ROWS = wp.constant(COUPLER_ROWS)
SHORT_TIME = wp.constant(wp.float64(1.0e-5))
"""Time [s] before and after the step's start between which the change of a covector is measured."""
ROUNDOFF = wp.constant(wp.float64(1.0e-24))
"""Share of the w a row could have below which it is nothing but roundoff; w goes with the square of the Jacobian."""
ON_THE_AXIS = wp.constant(wp.float64(1.0e-2))
"""Least square of a lever arm that a turning dof could have, as a share of that of a body's mass: what an axis that goes
through the point has instead is roundoff, of a float32 frame or of a drawing."""
COARSE = wp.constant(wp.float64(0.2))
"""Turn [rad] of a body in a step at which half of what is foreseen counts; with all of it what turns farther gains energy."""


@wp.struct
class Anchor:
    """One side of a coupling between bodies."""

    link: int  # -1 for the world or a body no joint moves
    moves: int  # 1 if some unknown moves it
    position: wp.vec3d
    rotation: wp.quatd


@wp.struct
class Leverage:
    """What the degrees of freedom can do to a row between bodies."""

    most: wp.float64  # w if each moved the bodies along the row
    bend: wp.float64  # bound of |dJ/dq| / A: how much a unit of impulse changes what the Jacobian of the row says


@wp.func
def anchor_of(tree: Tree, m: Motion, body: int, local: wp.transform):
    """A frame fixed on a body, or in the world."""
    anchor = Anchor()
    anchor.link = -1
    anchor.position = to_vec3d(wp.transform_get_translation(local))
    anchor.rotation = to_quatd(wp.transform_get_rotation(local))
    if body >= 0:
        link = tree.bodies[body].link
        anchor.link = link
        anchor.position = m.position[link] + wp.quat_rotate(m.rotation[link], anchor.position)
        anchor.rotation = m.rotation[link] * anchor.rotation
        if is_moved(tree, m, link):
            anchor.moves = 1
    return anchor


@wp.func
def joint_anchors(tree: Tree, joints: Joints, table: CouplingTable, m: Motion, c: int):
    """The two anchors of the joint that a coupling belongs to."""
    joint = table.joint[c]
    a = anchor_of(tree, m, table.body_a[c], joints.X_p[joint])
    b = anchor_of(tree, m, table.body_b[c], joints.X_c[joint])
    return a, b


@wp.func
def perpendicular(a: wp.vec3d):
    """Some unit vector orthogonal to a unit vector."""
    e = wp.vec3d(wp.float64(1.0), wp.float64(0.0), wp.float64(0.0))
    if wp.abs(a[0]) > wp.float64(0.7):
        e = wp.vec3d(wp.float64(0.0), wp.float64(1.0), wp.float64(0.0))
    return wp.normalize(e - wp.dot(a, e) * a)


@wp.func
def relative_velocity(m: Motion, a: Anchor, b: Anchor):
    """Spatial velocity of the second anchor's body against the first one's; the world rests."""
    V = wp.spatial_vectord()
    if b.link >= 0:
        V = m.velocity[b.link]
    if a.link >= 0:
        V = V - m.velocity[a.link]
    return V


@wp.func
def relative_bias(m: Motion, a: Anchor, b: Anchor):
    """Spatial acceleration of the second anchor's body against the first one's while all dofs keep their velocity."""
    bias = wp.spatial_vectord()
    if b.link >= 0:
        bias = m.bias[b.link]
    if a.link >= 0:
        bias = bias - m.bias[a.link]
    return bias


@wp.func
def spin_of(m: Motion, anchor: Anchor):
    """Angular velocity of an anchor; the world rests."""
    w = wp.vec3d()
    if anchor.link >= 0:
        w = angular(m.velocity[anchor.link])
    return w


@wp.func
def velocity_of(m: Motion, anchor: Anchor):
    """Velocity of an anchor; the world rests."""
    v = wp.vec3d()
    if anchor.link >= 0:
        v = velocity_at(m.velocity[anchor.link], anchor.position)
    return v


@wp.func
def acceleration_of(m: Motion, anchor: Anchor):
    """Acceleration of an anchor while all dofs keep their velocity."""
    a = wp.vec3d()
    if anchor.link >= 0:
        V = m.velocity[anchor.link]
        a = velocity_at(m.bias[anchor.link], anchor.position) + wp.cross(angular(V), velocity_at(V, anchor.position))
    return a


@wp.func
def moved(m: Motion, anchor: Anchor, time: wp.float64):
    """An anchor after its body went on as it goes now."""
    if anchor.link >= 0:
        V = m.velocity[anchor.link]
        anchor.position = anchor.position + time * velocity_at(V, anchor.position)
        anchor.rotation = rotation_of(time * angular(V)) * anchor.rotation
    return anchor


@wp.func
def share_foreseen(m: Motion, a: Anchor, b: Anchor, dt: wp.float64):
    """How much of what accelerations at the start of the step foretell counts; less where a body turns far."""
    w_A = spin_of(m, a)
    w_B = spin_of(m, b)
    far = dt * dt * wp.max(wp.dot(w_A, w_A), wp.dot(w_B, w_B)) / (COARSE * COARSE)
    return wp.float64(1.0) / (wp.float64(1.0) + far * far)


@wp.func
def steady_acceleration(m: Motion, a: Anchor, b: Anchor, F: wp.spatial_vectord, change: wp.spatial_vectord):
    """Acceleration of F . (V_B - V_A) while all dofs keep their velocity: F . (bias_B - bias_A) + dF/dt . (V_B - V_A).

    ``change`` is that of F from ``SHORT_TIME`` before to ``SHORT_TIME`` after.
    """
    turning = wp.dot(change, relative_velocity(m, a, b)) / (wp.float64(2.0) * SHORT_TIME)
    return wp.dot(F, relative_bias(m, a, b)) + turning


@wp.func
def clear_rest(pool: CouplerPool, c: int, row: int):
    """Empty the row slots of a coupling that nothing has taken."""
    for rest in range(row, ROWS * c + ROWS):
        pool.support[rest] = 0


@wp.func
def first_unknown(tree: Tree, pool: CouplerPool, problem: Problem, c: int):
    """Where the unknowns begin among which a coupling's are numbered."""
    return base_of(tree, problem, pool.tree[c])


@wp.func
def open_row(pool: CouplerPool, row: int):
    """Empty a row."""
    pool.support[row] = 0
    pool.bias[row] = wp.float64(0.0)


@wp.func
def add_term(tree: Tree, m: Motion, pool: CouplerPool, problem: Problem, row: int, dof: int, J: wp.float64):
    """Add one dof to a row; what a prescribed dof does is known."""
    t = tree.links[tree.dofs[dof].link].tree
    local = dof - tree.trees[t].dof_start - m.locked[t]
    if local < 0:
        pool.bias[row] = pool.bias[row] + J * m.v0[dof]
    else:
        slot = row * pool.stride + pool.support[row]
        pool.unknown[slot] = problem.tree_start[t] + local
        pool.J[slot] = J
        pool.support[row] = pool.support[row] + 1


@wp.func
def merge_terms(pool: CouplerPool, row: int, kept: int):
    """Fold the terms of a row beyond the first ones into those of the same unknown."""
    first = row * pool.stride
    last = first + pool.support[row]
    end = first + kept
    for s in range(first + kept, last):
        into = end
        for k in range(first, end):
            if pool.unknown[k] == pool.unknown[s]:
                into = k
        if into == end:
            pool.unknown[end] = pool.unknown[s]
            pool.J[end] = pool.J[s]
            end += 1
        else:
            pool.J[into] = pool.J[into] + pool.J[s]
    pool.support[row] = end - first


@wp.func
def copy_terms(pool: CouplerPool, source: int, row: int):
    """Let a row move with what another moves with."""
    pool.support[row] = pool.support[source]
    pool.bias[row] = pool.bias[source]
    for k in range(pool.support[source]):
        pool.unknown[row * pool.stride + k] = pool.unknown[source * pool.stride + k]
        pool.J[row * pool.stride + k] = pool.J[source * pool.stride + k]


@wp.func
def scale_terms(pool: CouplerPool, row: int, scale: wp.float64):
    """Multiply the velocity of a row."""
    pool.bias[row] = scale * pool.bias[row]
    for s in range(row * pool.stride, row * pool.stride + pool.support[row]):
        pool.J[s] = scale * pool.J[s]


@wp.func
def spread(m: Motion, link: int, point: wp.vec3d):
    """Mean square distance [m^2] of a link's mass, with all that it carries, from a point."""
    mass = m.mass[link]
    second = wp.float64(0.5) * wp.trace(m.inertia[link]) - wp.float64(2.0) * wp.dot(point, m.moment[link])
    return wp.max(second / mass + wp.length_sq(point), wp.float64(0.0))


@wp.func
def add_motion(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    a: int,
    b: int,
    F: wp.spatial_vectord,
    point: wp.vec3d,
):
    """Terms of F . (V_B - V_A), F acting at a point; dofs that carry both bodies cancel. Returns what these can do."""
    shared = shared_path(tree, a, b)
    base = first_unknown(tree, pool, problem, row / ROWS)
    force = wp.length_sq(linear(F))
    moment = wp.length_sq(angular(F) - wp.cross(point, linear(F)))
    leverage = Leverage()
    for side in range(2):
        link = b
        sign = wp.float64(1.0)
        if side == 1:
            link = a
            sign = wp.float64(-1.0)
        if link >= 0:
            arm = ON_THE_AXIS * spread(m, link, point)
            for p in range(tree.links[link].path_start + shared, tree.links[link + 1].path_start):
                dof = tree.path_dof[p]
                column = m.column[dof]
                before = pool.support[row]
                add_term(tree, m, pool, problem, row, dof, sign * wp.dot(F, column))
                if pool.support[row] > before:
                    scale = problem.scale[base + pool.unknown[row * pool.stride + before]]
                    turn = wp.length_sq(angular(column))
                    shift = wp.length_sq(velocity_at(column, point))
                    leverage.most += (force * wp.max(shift, arm * turn) + moment * turn) * scale * scale
                    leverage.bend += (wp.sqrt(force * shift * turn) + wp.sqrt(moment) * turn) * scale * scale
    return leverage


@wp.func
def inverse_mass(pool: CouplerPool, problem: Problem, row: int, base: int, most: wp.float64):
    """A row's effective inverse mass w; 0 where nothing but roundoff moves it."""
    w = wp.float64(0.0)
    for s in range(row * pool.stride, row * pool.stride + pool.support[row]):
        scaled = pool.J[s] * problem.scale[base + pool.unknown[s]]
        w += scaled * scaled
    if w <= ROUNDOFF * most:
        w = wp.float64(0.0)
    return w


@wp.func
def couple_row(pool: CouplerPool, problem: Problem, row: int, base: int, most: wp.float64):
    """Widen the Hessian's skyline to what a row couples; return its effective inverse mass, 0 where nothing moves it."""
    w = inverse_mass(pool, problem, row, base, most)
    if w == wp.float64(0.0):
        pool.support[row] = 0
        return w
    widen_skyline(problem.last, pool.unknown, row * pool.stride, pool.support[row], base)
    return w


@wp.func
def measure_axis(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    a: Anchor,
    b: Anchor,
    F: wp.spatial_vectord,
):
    """A rate between two bodies as its laws see it; ``row`` is a free slot to work in."""
    open_row(pool, row)
    leverage = add_motion(tree, m, pool, problem, row, a.link, b.link, F, b.position)
    return axis_of_row(tree, pool, problem, row, leverage.most)


@wp.func
def axis_of_row(tree: Tree, pool: CouplerPool, problem: Problem, row: int, most: wp.float64):
    """The rate that a row has gathered, as its laws see it."""
    base = first_unknown(tree, pool, problem, row / ROWS)
    axis = Axis()
    axis.dof = -1
    axis.w = inverse_mass(pool, problem, row, base, most)
    axis.v0 = pool.bias[row]
    v_star = pool.bias[row]
    for s in range(row * pool.stride, row * pool.stride + pool.support[row]):
        u = base + pool.unknown[s]
        axis.v0 += pool.J[s] * problem.v[u]
        v_star += pool.J[s] * problem.v_star[u]
    axis.speed = wp.max(wp.abs(axis.v0), wp.abs(v_star))
    return axis


@wp.func
def place_row(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    a: Anchor,
    b: Anchor,
    F: wp.spatial_vectord,
    law: RowLaw,
):
    """Let a law act on the rate F . (V_B - V_A); returns the next free slot."""
    if law.sign == wp.float64(0.0):
        return row
    open_row(pool, row)
    pool.covector[row] = law.sign * F
    leverage = add_motion(tree, m, pool, problem, row, a.link, b.link, pool.covector[row], b.position)
    return settle_row(tree, pool, problem, row, law, leverage.most)


@wp.func
def settle_row(tree: Tree, pool: CouplerPool, problem: Problem, row: int, law: RowLaw, most: wp.float64):
    """Let a law act on what a row has gathered; returns the next free slot."""
    couple_row(pool, problem, row, first_unknown(tree, pool, problem, row / ROWS), most)
    pool.law[row] = law
    return row + 1
