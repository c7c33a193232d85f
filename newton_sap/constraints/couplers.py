"""Couplers: scalar rows across several dofs, for loops, equality constraints, mimic and distance joints.

A *coupling* ties two bodies, or some joints, and owns ``ROWS`` row slots. What holds is a row with the near-rigid bound
as its compliance (F 2.9); what acts along the free axes of a loop joint is in ``loop_axes``, the limits of ball joints
in ``ball_limits``; the rows of cables and of MuJoCo's tendons are kernels of their own, in ``rods`` and ``tendons``.
"""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..multibody.spatial import angular, cross_motion, motion, rotation_vector, to_vec3d, velocity_at
from ..runtime.packed import pack_couplers, pack_motion, pack_problem, pack_tree
from ..workspace import CouplerPool, Joints, Motion, Problem, Tree
from .axis_laws import NO_LIMIT, UNBOUNDED, JointInput, JointOptions, limits_nothing, row_law
from .ball_limits import ball_limit_rows
from .clamped_linear import near_rigid, rigid_delay
from .coupler_pool import (
    ROWS,
    Anchor,
    Leverage,
    acceleration_of,
    add_motion,
    add_term,
    anchor_of,
    clear_rest,
    couple_row,
    first_unknown,
    inverse_mass,
    open_row,
    perpendicular,
    relative_bias,
    relative_velocity,
    share_foreseen,
    velocity_of,
)
from .coupling_table import (
    BALL_LIMITS,
    COORDINATES,
    DISTANCE_RANGE,
    EQUALITY_ROW,
    LOOP_FORCES,
    LOOP_LAWS,
    MIMIC_JOINT,
    is_enabled,
    is_rigid,
)
from .joint_asks import bound_asks
from .loop_axes import loop_axis_rows
from .taut_couplings import taut_bends, taut_rows

wp.set_module_options({"enable_backward": False})

PARALLEL = wp.constant(wp.float64(1.0e-2))
"""Square of the sine of an angle up to which two axes count as one: 6 degrees."""
FAINT = wp.constant(wp.float64(1.0e-4))
"""Share of the w a row could have below which it softens; w goes with the square of the Jacobian."""
UNHURRIED = wp.constant(wp.float64(0.25))
"""Share of velocity limits at which gaps close: what moves with a dof may need a few times what it does alone."""


@wp.func
def held_at(a: Anchor, b: Anchor):
    """Where from the first anchor (0) to the second (1) errors are held: at the one that moves, or midway.

    At the second, an error is one along axes that go with the first, and the other way round.
    """
    share = wp.float64(0.5)
    if a.moves == 0:
        share = wp.float64(1.0)
    elif b.moves == 0:
        share = wp.float64(0.0)
    return share


@wp.func
def is_edited(table: CouplingTable, row: int):
    """Whether an equality's polynomial is another one than at construction."""
    for k in range(table.equality_polycoef.shape[1]):
        if table.equality_polycoef[row, k] != table.equality_was_polycoef[row, k]:
            return True
    return False


@wp.func
def coefficient(table: CouplingTable, c: int, k: int):
    """Coefficient of degree ``k``, read live from the model: from the equality that a mimic was made of once that is edited."""
    value = wp.float32(0.0)
    row = table.source_row[c]
    origin = table.origin[c]
    if table.source[c] == EQUALITY_ROW:
        value = table.equality_polycoef[row, k]
    elif origin >= 0 and is_edited(table, origin):
        value = table.equality_polycoef[origin, k]
    elif k <= 1:
        if table.source[c] == MIMIC_JOINT:
            value = table.joint_mimic_coeffs[row][k]
        elif k == 0:
            value = table.mimic_coef0[row]
        else:
            value = table.mimic_coef1[row]
    return wp.float64(value)


@wp.func
def close_row(
    pool: CouplerPool,
    problem: Problem,
    row: int,
    base: int,
    leverage: Leverage,
    gap: wp.float64,
    tau: wp.float64,
    lower: wp.float64,
    beta: wp.float64,
    dt: wp.float64,
):
    """Near-rigid compliance R = beta^2 w / 4 pi^2 and the velocity v_hat = -gap / (dt + tau).

    Where the unknowns move the row by less than a hundredth of what they could, it softens, the more the less they do: of
    a loop in one plane the rows across the plane hold nothing, and what is left of them is roundoff. A gap closes no
    faster than its Jacobian stays what it is: a taut chain that cannot reach would be thrown about. ``vc`` and ``dvc`` keep
    both leverages for :func:`bound_asks`.
    """
    w = couple_row(pool, problem, row, base, leverage.most)
    if w <= wp.float64(0.0):
        return
    faint = FAINT * leverage.most
    R = near_rigid(beta, wp.max(w, faint * faint / w))
    v_hat = -gap / (dt + tau)
    pool.vc[row] = leverage.most
    pool.dvc[row] = leverage.bend
    if leverage.bend > wp.float64(0.0):
        fastest = w / (dt * leverage.bend)
        if v_hat > fastest:  # no clamp, which would take NaN for a number
            v_hat = fastest
        if lower < wp.float64(0.0) and v_hat < -fastest:
            v_hat = -fastest
    pool.law[row] = row_law(wp.float64(1.0), v_hat, R, lower, UNBOUNDED)


@wp.func
def hold_direction(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    a: int,
    b: int,
    F: wp.spatial_vectord,
    point: wp.vec3d,
    gap: wp.float64,
    tau: wp.float64,
    lower: wp.float64,
    inert: wp.float64,
    beta: wp.float64,
    dt: wp.float64,
):
    """The row of one direction between two bodies, with impulses from ``lower`` up; damping makes what turns so much more inert."""
    base = first_unknown(tree, pool, problem, row / ROWS)
    open_row(pool, row)
    pool.covector[row] = F
    leverage = add_motion(tree, m, pool, problem, row, a, b, F, point)
    leverage.bend /= inert
    close_row(pool, problem, row, base, leverage, gap, tau, lower, beta, dt)
    return row + 1


@wp.struct
class Held:
    """Directions in which a coupling between bodies holds translations, or rotations."""

    count: int
    direction: wp.mat33d  # one per row, unit
    error: wp.vec3d  # along each [m or rad]
    point: wp.vec3d  # where a translation is held
    carried: wp.float64  # share of a turn about the line along which the second slides by which errors across it turn
    bend: wp.float64  # what the turning of two free axes adds to the acceleration of the error


@wp.func
def turns_along(joints: Joints, table: CouplingTable, c: int, local: wp.vec3d):
    """Whether a coupling that leaves one angle free, or all, leaves that about an axis of its anchors."""
    along = bool(table.angular_axes[c] == 3)
    if table.angular_axes[c] == 1:
        other = wp.normalize(to_vec3d(joints.axis[table.axis_start[c] + table.linear_axes[c]]))
        along = wp.length_sq(wp.cross(local, other)) < PARALLEL
    return along


@wp.func
def lies_on_plane(joints: Joints, table: CouplingTable, c: int):
    """Whether a coupling lets the second anchor slide on a plane of the first and turn about its normal."""
    lies = bool(False)
    if table.linear_axes[c] == 2:
        start = table.axis_start[c]
        normal = wp.cross(to_vec3d(joints.axis[start]), to_vec3d(joints.axis[start + 1]))
        lies = turns_along(joints, table, c, wp.normalize(normal))
    return lies


@wp.func
def spun_at(joints: Joints, table: CouplingTable, c: int, a: Anchor, b: Anchor):
    """``held_at`` of a tilt; that of what lies on a plane goes with the second anchor, as its points off the axis have it."""
    share = held_at(a, b)
    if lies_on_plane(joints, table, c):
        share = wp.float64(0.0)
    return share


@wp.func
def held_translations(joints: Joints, table: CouplingTable, c: int, a: Anchor, b: Anchor):
    """Across the free linear axes."""
    free = table.linear_axes[c]
    held = Held()
    held.count = 3 - free
    directions = wp.mat33d()
    if free == 0:
        held.point = a.position + held_at(a, b) * (b.position - a.position)
        directions = wp.transpose(wp.quat_to_matrix(a.rotation))
    else:
        held.point = b.position  # what slides does so along the first's axes
        local = wp.normalize(to_vec3d(joints.axis[table.axis_start[c]]))
        axis = wp.quat_rotate(a.rotation, local)
        across = wp.quat_rotate(a.rotation, perpendicular(local))  # in the anchor's axes: the world's are arbitrary
        if free == 2:
            second = wp.quat_rotate(a.rotation, wp.normalize(to_vec3d(joints.axis[table.axis_start[c] + 1])))
            across = wp.normalize(wp.cross(axis, second))
        directions[0] = across
        directions[1] = wp.cross(axis, across)
        if free == 1:
            if turns_along(joints, table, c, local):
                held.carried = wp.float64(1.0) - held_at(a, b)
    held.direction = directions
    held.error = directions * (b.position - a.position)
    return held


@wp.func
def held_rotations(joints: Joints, table: CouplingTable, m: Motion, c: int, a: Anchor, b: Anchor):
    """Across the free angular axes."""
    free = table.angular_axes[c]
    start = table.axis_start[c] + table.linear_axes[c]
    held = Held()
    held.count = 3 - free
    directions = wp.identity(n=3, dtype=wp.float64)
    if free == 0:
        directions = wp.transpose(wp.quat_to_matrix(a.rotation))
        held.error = rotation_vector(wp.quat_inverse(a.rotation) * b.rotation)
    if free == 1:
        local = wp.normalize(to_vec3d(joints.axis[start]))
        axis = wp.quat_rotate(a.rotation, local)
        other = wp.quat_rotate(b.rotation, local)
        across = wp.quat_rotate(a.rotation, perpendicular(local))
        third = wp.cross(axis, across)
        tilt = wp.cross(axis, other)
        held.error = wp.vec3d(wp.dot(across, tilt), wp.dot(third, tilt), wp.float64(0.0))
        # Spin moves a tilt. Rows that did not know would stop the spin where other joints hold the same axis.
        spun = spun_at(joints, table, c, a, b) * axis
        directions[0] = across - wp.dot(across, other) * spun
        directions[1] = third - wp.dot(third, other) * spun
    if free == 2:
        first = wp.quat_rotate(a.rotation, wp.normalize(to_vec3d(joints.axis[start])))
        second = wp.quat_rotate(b.rotation, wp.normalize(to_vec3d(joints.axis[start + 1])))
        w = angular(relative_velocity(m, a, b))
        directions[0] = wp.cross(second, first)
        held.bend = wp.dot(w, first) * wp.dot(w, second)
        held.error = wp.vec3d(wp.dot(first, second), wp.float64(0.0), wp.float64(0.0))
    held.direction = directions
    return held


@wp.func
def held_acceleration(table: CouplingTable, m: Motion, c: int, a: Anchor, b: Anchor):
    """Of the second anchor's motion as the first one's axes have it, while all dofs keep their velocity.

    What is held does not move against the first; what slides does.
    """
    V_A = wp.spatial_vectord()
    if a.link >= 0:
        V_A = m.velocity[a.link]
    V = relative_velocity(m, a, b)
    slid = wp.vec3d()
    if table.linear_axes[c] > 0:
        slid = wp.cross(angular(V), velocity_at(V, b.position))
    return relative_bias(m, a, b) - cross_motion(V_A, V) + motion(wp.vec3d(), slid)


@wp.func
def squared_step(options: JointOptions, dt: wp.float64):
    """Square of the time for which errors foresee how they accelerate, dt (dt + tau) / 2, or zero."""
    return wp.float64(options.foresees) * wp.float64(0.5) * dt * (dt + rigid_delay(dt))


@wp.func
def time_ahead(options: JointOptions, m: Motion, a: Anchor, b: Anchor, dt: wp.float64):
    """Square of the time [s^2] for which the rows between two bodies foresee how their errors accelerate.

    Less where a body turns far: velocities at the start of the step say little of where its anchor will go.
    """
    return squared_step(options, dt) * share_foreseen(m, a, b, dt)


@wp.func
def keep_unhurried(tree: Tree, joints: Joints, pool: CouplerPool, problem: Problem, row: int, base: int):
    """Let a row close its error no faster than takes a dof, by its share of the row's rate, to ``UNHURRIED`` of its velocity limit.

    A limit that stops one of two that move towards each other leaves both with what the other gained, for good.
    """
    asked = wp.abs(pool.law[row].v_hat)
    w = inverse_mass(pool, problem, row, base, wp.float64(0.0))
    kept = wp.float64(1.0)
    for s in range(row * pool.stride, row * pool.stride + pool.support[row]):
        u = base + pool.unknown[s]
        dof = tree.dofs[problem.dof[u]].qd
        limit = float(0.0)
        if dof >= 0:  # else of a body that no joint moves
            limit = joints.velocity_limit[dof]
        if not limits_nothing(limit):
            rate = asked * wp.abs(pool.J[s]) * problem.scale[u] * problem.scale[u] / w
            if rate * kept > UNHURRIED * wp.float64(limit):
                kept = UNHURRIED * wp.float64(limit) / rate
    if kept < wp.float64(1.0):
        law = pool.law[row]
        law.v_hat *= kept
        pool.law[row] = law


@wp.func
def held_row(shifts: Held, turns: Held, acceleration: wp.spatial_vectord, ahead: wp.float64, i: int):
    """The i-th of all held directions: its covector, the error of which the step is to leave half, and where it is held."""
    point = wp.vec3d()
    F = wp.spatial_vectord()
    error = wp.float64(0.0)
    bend = wp.float64(0.0)
    if i < shifts.count:
        point = shifts.point
        e = shifts.direction[i]
        away = wp.transpose(shifts.direction) * shifts.error
        F = motion(wp.cross(point, e) + shifts.carried * wp.cross(e, away), e)
        error = shifts.error[i]
    else:
        F = motion(turns.direction[i - shifts.count], point)
        error = turns.error[i - shifts.count]
        bend = turns.bend
    return F, error + ahead * (wp.dot(F, acceleration) + bend), point


@wp.func
def hold_bodies(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    a: Anchor,
    b: Anchor,
    inert: wp.float64,
    options: JointOptions,
    dt: wp.float64,
):
    """Rows across all axes that are not free."""
    shifts = held_translations(joints, table, c, a, b)
    turns = held_rotations(joints, table, m, c, a, b)
    acceleration = held_acceleration(table, m, c, a, b)
    ahead = time_ahead(options, m, a, b, dt)
    for i in range(shifts.count + turns.count):
        F, error, point = held_row(shifts, turns, acceleration, ahead, i)
        # Its error halves in a step.
        row = hold_direction(
            tree, m, pool, problem, row, a.link, b.link, F, point, error, rigid_delay(dt), -UNBOUNDED, inert, options.coupling_beta, dt,
        )  # fmt: skip
    base = first_unknown(tree, pool, problem, c)
    first = row - shifts.count - turns.count
    bound_asks(pool, problem, first, shifts.count, turns.count, base, dt)
    for held in range(first, row):
        keep_unhurried(tree, joints, pool, problem, held, base)
    return row


@wp.struct
class DistanceBound:
    """One side of a distance's range."""

    exists: int
    F: wp.spatial_vectord
    gap: wp.float64  # with what the step adds to it beside its rate, seen from dt + tau [m]
    tau: wp.float64  # [s]


@wp.func
def distance_bend(m: Motion, a: Anchor, b: Anchor, u: wp.vec3d, length: wp.float64, dt: wp.float64):
    """Acceleration of |p_B - p_A| while all dofs keep their velocity; what flies by goes on straight for the whole step."""
    v = velocity_of(m, b) - velocity_of(m, a)
    across = wp.length_sq(v - wp.dot(u, v) * u)
    farther = wp.float64(2.0) * across / (length + wp.sqrt(length * length + dt * dt * across))
    return wp.dot(u, acceleration_of(m, b) - acceleration_of(m, a)) + farther


@wp.func
def distance_row(
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    c: int,
    a: Anchor,
    b: Anchor,
    side: int,
    ahead: wp.float64,
    dt: wp.float64,
):
    """The minimum (side 0) or the maximum of |p_B - p_A|."""
    out = DistanceBound()
    d = b.position - a.position
    length = wp.length(d)
    sign = wp.float64(1.0)
    bound = wp.float64(joints.limit_lower[table.axis_start[c]])
    if side == 1:
        sign = wp.float64(-1.0)
        bound = wp.float64(joints.limit_upper[table.axis_start[c]])
    u = d / length
    out.F = sign * motion(wp.cross(b.position, u), u)
    gap = sign * (length - bound)
    slack = gap > wp.float64(0.0)
    out.tau = wp.where(slack, wp.float64(0.0), rigid_delay(dt))
    opens = ahead * sign * distance_bend(m, a, b, u, length, dt)
    out.gap = gap + wp.where(slack, dt / (dt + rigid_delay(dt)), wp.float64(1.0)) * opens
    if not (length < wp.float64(1.0e-9)) and bound >= wp.float64(0.0) and bound < wp.float64(NO_LIMIT):
        out.exists = 1
    return out


@wp.func
def distance_rows(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    a: Anchor,
    b: Anchor,
    inert: wp.float64,
    options: JointOptions,
    dt: wp.float64,
):
    """Minimum and maximum of |p_B - p_A| along the line through both anchors; negative bounds do not exist."""
    ahead = time_ahead(options, m, a, b, dt)
    sides = int(2)  # no constant: the loop is not to be unrolled
    for side in range(sides):
        bound = distance_row(joints, table, m, c, a, b, side, ahead, dt)
        if bound.exists == 1:
            row = hold_direction(
                tree, m, pool, problem, row, a.link, b.link, bound.F, b.position, bound.gap, bound.tau,
                wp.float64(0.0), inert, options.coupling_beta, dt,
            )  # fmt: skip
    return row


@wp.func
def polynomial(table: CouplingTable, c: int, x: wp.float64):
    """Value, slope and half the curvature of what a coordinate follows."""
    value = wp.float64(0.0)
    slope = wp.float64(0.0)
    bend = wp.float64(0.0)
    for k in range(5):
        bend = bend * x + slope
        slope = slope * x + value
        value = value * x + coefficient(table, c, 4 - k)
    return value, slope, bend


@wp.func
def coordinate_error(
    tree: Tree, table: CouplingTable, m: Motion, c: int, i: int, joint_q: wp.array[wp.float32], ahead: wp.float64
):
    """What the i-th coordinate of a pair is above the one it follows asks for, as ``held_row`` has it, and the slope there."""
    x = wp.float64(0.0)
    rate = wp.float64(0.0)
    if table.dof_b[c] >= 0:
        x = wp.float64(joint_q[tree.dofs[table.dof_b[c] + i].q])
        rate = m.v0[table.dof_b[c] + i]
    value, slope, bend = polynomial(table, c, x)
    error = wp.float64(joint_q[tree.dofs[table.dof_a[c] + i].q]) - value
    return error - wp.float64(2.0) * ahead * bend * rate * rate, slope


@wp.func
def coordinate_rows(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    step: JointInput,
    dt: wp.float64,
):
    """Hold q_1 = p(q_2) for each coordinate of the pair, p a polynomial of degree four."""
    base = first_unknown(tree, pool, problem, c)
    ahead = squared_step(step.options, dt)
    for i in range(table.coordinates[c]):
        gap, slope = coordinate_error(tree, table, m, c, i, step.joint_q, ahead)
        open_row(pool, row)
        add_term(tree, m, pool, problem, row, table.dof_a[c] + i, wp.float64(1.0))
        if table.dof_b[c] >= 0:
            add_term(tree, m, pool, problem, row, table.dof_b[c] + i, -slope)
        close_row(
            pool, problem, row, base, Leverage(), gap, rigid_delay(dt), -UNBOUNDED, step.options.coupling_beta, dt
        )
        keep_unhurried(tree, joints, pool, problem, row, base)
        row = row + 1
    return row


@wp.func
def coupled_anchors(tree: Tree, joints: Joints, table: CouplingTable, m: Motion, c: int):
    """The two frames that a coupling between bodies ties: its joint's, or its own."""
    frame_a = table.frame_a[c]
    frame_b = table.frame_b[c]
    if table.joint[c] >= 0:
        frame_a = joints.X_p[table.joint[c]]
        frame_b = joints.X_c[table.joint[c]]
    a = anchor_of(tree, m, table.body_a[c], frame_a)
    b = anchor_of(tree, m, table.body_b[c], frame_b)
    return a, b


@wp.kernel
def assemble_couplings(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    step: JointInput,
    dt: wp.float64,
):
    """Fill the row slots of couplings but for those of tendons and rods; unused ones are empty. One block per group, whose lanes share them."""
    block, lane = wp.tid()
    g = tree.first_group + block
    pack_tree(tree)
    pack_motion(m)
    pack_couplers(pool)
    pack_problem(problem)
    for c in range(table.group_start[g] + lane, table.group_start[g + 1], wp.block_dim()):
        if not is_rigid(table, c):
            continue
        row = int(ROWS * c)
        kind = table.kind[c]
        if is_enabled(table, c):
            if kind == COORDINATES:
                row = coordinate_rows(tree, joints, table, m, pool, problem, c, row, step, dt)
            elif kind == LOOP_LAWS or kind == LOOP_FORCES:
                forces = int(kind == LOOP_FORCES)
                row = loop_axis_rows(tree, joints, table, m, pool, problem, c, row, forces, step, dt)
            elif kind == BALL_LIMITS:
                row = ball_limit_rows(tree, joints, table, m, pool, problem, c, row, step, dt)
            else:
                a, b = coupled_anchors(tree, joints, table, m, c)
                bends = taut_bends(tree, joints, table, m, c, a, b, step.options, dt)
                more = bends.inert
                if kind == DISTANCE_RANGE:
                    row = distance_rows(tree, joints, table, m, pool, problem, c, row, a, b, more, step.options, dt)
                else:
                    row = hold_bodies(tree, joints, table, m, pool, problem, c, row, a, b, more, step.options, dt)
                row = taut_rows(tree, m, pool, problem, row, a, b, bends, dt)
        clear_rest(pool, c, row)
