"""Compliance of contacts: effective inverse masses, stiffness and relaxation of unset materials, and the laws' parameters."""

import warp as wp

from ..constraints.clamped_linear import FOUR_PI_SQUARED, RIGID, regularization
from ..constraints.hunt_crossley import dissipation, recovering
from ..constraints.restitution import NEVER
from ..multibody.joints import turns_freely
from ..multibody.spatial import to_mat33d
from ..workspace import Bodies, ContactPool, Joints, Motion, NormalLaw, Problem, Tree
from .materials import ContactOptions

wp.set_module_options({"enable_backward": False})

RIGID_FREQUENCY = wp.constant(wp.float64(1000.0))
"""Stiffest contact of unset materials under Hunt & Crossley's law, as sqrt(k w) [rad/s]; ``docs/contact_laws.md``."""
LEVERAGE = wp.constant(wp.float64(10.0))
"""Effective mass of a contact of unset materials, at most, in masses of the trees that touch."""


@wp.func
def joint_block(m: Motion, problem: Problem, u: int, base: int):
    """Rows and columns u to u + 2 of A: how hard the three rotations of one joint are to turn."""
    column = u - base - problem.block[u]
    B = wp.mat33d()
    for i in range(3):
        for k in range(3):
            B[i, k] = m.A[problem.A_row[u + i] + column + k]
    return B


@wp.func
def weight_of_unknowns(m: Motion, problem: Problem, pool: ContactPool, at: int, u: int, base: int, together: bool):
    """What an unknown, or three ``together``, adds to ``J B^-1 J^T``."""
    if together:
        turns = wp.matrix_from_cols(pool.J[at], pool.J[at + 1], pool.J[at + 2])
        return turns * wp.inverse(joint_block(m, problem, u, base)) * wp.transpose(turns)
    column = pool.J[at] * problem.scale[u]
    return wp.outer(column, column)


@wp.func
def delassus_weight(
    tree: Tree, joints: Joints, m: Motion, problem: Problem, pool: ContactPool, slot: int, base: int, blocks: int
):
    """w = |J B^-1 J^T|_F / 3 [1/kg] (F 2.2).

    B is the diagonal of A, with ``blocks`` the three rotations of a free or ball joint together, whose axes nothing in the
    motion distinguishes.
    """
    W = wp.mat33d()
    s = int(0)
    while s < pool.support[slot]:
        at = slot * pool.stride + s
        u = base + pool.unknown[at]
        link = tree.dofs[problem.dof[u]].link
        first = blocks == 1 and problem.dof[u] == tree.links[link].dof_start
        together = first and turns_freely(joints, tree.links[link].joint)
        W += weight_of_unknowns(m, problem, pool, at, u, base, together)
        s += wp.where(together, 3, 1)
    return wp.sqrt(wp.ddot(W, W)) / wp.float64(3.0)


@wp.func
def body_weight(tree: Tree, bodies: Bodies, m: Motion, link: int, point: wp.vec3d):
    """Mean over three directions of 1/m + (r x e)^T I^-1 (r x e) of one body [1/kg]."""
    w = wp.float64(0.0)
    if link >= 0 and bodies.mass[tree.links[link].body] > 0.0:
        body = tree.links[link].body
        R = wp.quat_to_matrix(m.rotation[link])
        inverse = R * wp.inverse(to_mat33d(bodies.inertia[body])) * wp.transpose(R)
        lever = wp.skew(point - m.com[link])
        w = wp.float64(1.0) / wp.float64(bodies.mass[body])
        w += wp.trace(wp.transpose(lever) * inverse * lever) / wp.float64(3.0)
    return w


@wp.func
def touching_mass(tree: Tree, m: Motion, link_a: int, link_b: int):
    """Mass [kg] of the trees, or the tree, of two links; free motion has added it up."""
    mass = wp.float64(0.0)
    a = int(-1)
    if link_a >= 0:
        a = tree.links[link_a].tree
        mass = m.mass[tree.trees[a].link_start]
    if link_b >= 0 and tree.links[link_b].tree != a:
        mass += m.mass[tree.trees[tree.links[link_b].tree].link_start]
    return mass


@wp.func
def effective_weight(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    pool: ContactPool,
    problem: Problem,
    options: ContactOptions,
    slot: int,
    base: int,
):
    """Effective inverse mass of a contact by the chosen rule; bounded where the stiffness follows from it alone.

    A point close to all axes seems to have any mass behind it, and a contact as stiff as that would throw its bodies.
    """
    w = wp.float64(0.0)
    if options.body_inertia_weight == 1:
        w = body_weight(tree, bodies, m, pool.link_a[slot], pool.point_a[slot])
        w += body_weight(tree, bodies, m, pool.link_b[slot], pool.point_b[slot])
    else:
        w = delassus_weight(tree, joints, m, problem, pool, slot, base, options.joint_blocks)
    if w <= wp.float64(0.0):
        w = wp.float64(1.0)
    if pool.stiffness[slot] == RIGID:
        heaviest = LEVERAGE * touching_mass(tree, m, pool.link_a[slot], pool.link_b[slot])
        if w * heaviest < wp.float64(1.0) and heaviest > wp.float64(0.0):
            w = wp.float64(1.0) / heaviest
    return w


@wp.func
def regularize_contact(
    pool: ContactPool, options: ContactOptions, slot: int, w: wp.float64, vn0: wp.float64, dt: wp.float64
):
    """R_n, R_t and v_hat of one contact (F 2.3), and the same compliance as Hunt & Crossley's law (F 2.4).

    Returns the normal impulse that depth and velocity at the start of the step give, for friction bounds.
    """
    k = pool.stiffness[slot]
    tau = pool.relaxation_time[slot]
    beta = options.beta
    normal = NormalLaw()
    normal.k = k
    normal.d = pool.dissipation[slot]
    normal.parting = normal.d
    normal.dt = dt
    if k == RIGID:
        # Hunt & Crossley's law has no bound of its own, and its force reads the depth, which must stay measurable.
        beta = options.rigid_beta
        normal.parting = recovering(normal.d, -pool.phi0[slot], dt)
        normal.k = wp.min(FOUR_PI_SQUARED / (beta * beta * dt * dt), RIGID_FREQUENCY * RIGID_FREQUENCY) / w
    elif options.narrow == 1:
        # Beyond this nothing changes that the step could resolve, but the minimum is ever harder to find.
        stiffest = FOUR_PI_SQUARED / (options.rigid_beta * options.rigid_beta * dt * dt * w)
        if k > stiffest:
            normal.k = stiffest
    normal.fe0 = -normal.k * pool.phi0[slot]
    pool.R_t[slot] = options.sigma * w
    pool.R_n[slot] = regularization(dt, k, tau, w, beta)
    pool.v_hat[slot] = -pool.phi0[slot] / (dt + tau)
    zero = wp.float64(0.0)
    n0 = wp.max((pool.v_hat[slot] - vn0) / pool.R_n[slot], zero)
    if options.hunt_crossley == 1:
        n0 = dt * wp.max(normal.fe0, zero) * wp.max(wp.float64(1.0) - dissipation(normal, vn0) * vn0, zero)
    if pool.support[slot] == 0:
        # The two bodies move as one: there is nothing to decide, and no force to find.
        pool.v_hat[slot] = -NEVER
        normal.fe0 = -NEVER
        n0 = zero
    pool.normal_law[slot] = normal
    return n0
