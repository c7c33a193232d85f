"""Rows of MuJoCo's tendons: limits, servo, dry friction, spring, damper and armature of a length.

The length is a sum of coordinates, ``L = sum c_i q_i`` with ``J = c``, or of the segments of a path (``tendon_paths``). It
is a coordinate like any other: the laws of ``axis_laws`` act on it.
"""

import warp as wp

from ..coupling_bundles import CouplingTable, Tendons
from ..multibody.drives import Drive, explicit_effort
from ..runtime.packed import pack_couplers, pack_motion, pack_problem, pack_tree
from ..workspace import CouplerPool, Joints, Motion, Problem, RowLaw, Tree
from .axis_laws import (
    UNBOUNDED,
    Axis,
    JointInput,
    armature_law,
    drive_law,
    effort_law,
    friction_law,
    passive_law,
    stop_law,
)
from .clamped_linear import RIGID, rigid_delay
from .coupler_pool import (
    ROWS,
    Leverage,
    add_term,
    axis_of_row,
    clear_rest,
    copy_terms,
    first_unknown,
    merge_terms,
    open_row,
    scale_terms,
    settle_row,
)
from .couplers import close_row, coefficient, polynomial
from .coupling_table import LAWS_PER_COUPLING, TENDON, TENDON_LAWS, is_enabled, is_tendon
from .tendon_paths import add_path, path_acceleration

wp.set_module_options({"enable_backward": False})

# The laws of a tendon.
SERVO = wp.constant(0)
LOWER = wp.constant(1)
UPPER = wp.constant(2)
FRICTION = wp.constant(3)
EFFORT = wp.constant(4)
PASSIVE = wp.constant(5)
ARMATURE = wp.constant(6)


@wp.func
def sum_of_terms(tree: Tree, tendons: Tendons, t: int, joint_q: wp.array[wp.float32]):
    """Length of a sum above that at Newton's zero coordinates."""
    length = wp.float64(0.0)
    first = tendons.term_start[t]
    for k in range(first, first + tendons.term_count[t]):
        length += wp.float64(tendons.coef[k]) * wp.float64(joint_q[tree.dofs[tendons.dof[k]].q])
    return length


@wp.func
def length_at_zero(tree: Tree, tendons: Tendons, t: int):
    """Length at Newton's zero coordinates, where MuJoCo's may be others."""
    length = wp.float64(0.0)
    if tendons.ref.shape[0] > 0:
        first = tendons.term_start[t]
        for k in range(first, first + tendons.term_count[t]):
            length += wp.float64(tendons.coef[k]) * wp.float64(tendons.ref[tree.dofs[tendons.dof[k]].qd])
    return length


@wp.func
def add_length(
    tree: Tree,
    tendons: Tendons,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    t: int,
    joint_q: wp.array[wp.float32],
):
    """Add the rate of a length to a row, and measure it: a sum above that at Newton's zero coordinates."""
    first = tendons.term_start[t]
    for k in range(first, first + tendons.term_count[t]):
        kept = pool.support[row]
        add_term(tree, m, pool, problem, row, tendons.dof[k], wp.float64(tendons.coef[k]))
        merge_terms(pool, row, kept)
    measured = add_path(tree, tendons, m, pool, problem, row, t)
    measured.length += sum_of_terms(tree, tendons, t, joint_q)
    return measured


@wp.func
def servo_of(tendons: Tendons, t: int, length: wp.float64):
    """An actuator that sees the length or its rate, as a drive."""
    servo = Drive()
    servo.kp = wp.float64(tendons.servo_ke[t])
    servo.kd = wp.float64(tendons.servo_kd[t])
    servo.lower = wp.float64(tendons.servo_lower[t])
    servo.upper = wp.float64(tendons.servo_upper[t])
    force = wp.float64(tendons.servo_force[t])
    if servo.kp != wp.float64(0.0):
        servo.error = force / servo.kp - length
    elif servo.kd != wp.float64(0.0):
        servo.rate = force / servo.kd
    return servo


@wp.func
def recovery_time(solref: wp.vec2, dt: wp.float64):
    """How long a length takes back into its range; MuJoCo's damping over its stiffness, where it gives them as times."""
    tau = wp.float64(2.0) * wp.float64(solref[0]) * wp.float64(solref[1]) * wp.float64(solref[1])
    if tau < rigid_delay(dt):
        tau = rigid_delay(dt)
    return tau


@wp.func
def range_law(tendons: Tendons, t: int, step: JointInput, axis: Axis, length: wp.float64, side: int, dt: wp.float64):
    """Keep a length above the lower end of its range (side 0), or below the upper one."""
    if tendons.limited[t] == 0:
        return RowLaw()
    k = wp.float64(tendons.limit_ke[t])
    kd = wp.float64(tendons.limit_kd[t])
    if k == wp.float64(0.0):  # a range without a stiffness of its own
        k = RIGID
        kd = recovery_time(tendons.limit_solref[t], dt) * RIGID
    sign = wp.float64(1 - 2 * side)
    return stop_law(step.options, axis, k, kd, sign * (length - wp.float64(tendons.range[t][side])), sign, dt)


@wp.func
def spring_stretch(tree: Tree, joints: Joints, tendons: Tendons, t: int, length: wp.float64):
    """How far a length is from where its spring is at rest, and whether the spring acts there at all."""
    shortest = wp.float64(tendons.spring_length[t][0])
    longest = wp.float64(tendons.spring_length[t][1])
    if longest == wp.float64(-1.0):  # MuJoCo's word for "not said"
        if shortest == longest:
            shortest = sum_of_terms(tree, tendons, t, joints.rest_q) + length_at_zero(tree, tendons, t)
            shortest += wp.float64(tendons.rest_length[t])
        longest = shortest
    if length > shortest and length < longest:
        return wp.float64(0.0), False
    goal = longest
    if length <= shortest:
        goal = shortest
    return goal - length, True


@wp.func
def tendon_law(
    tree: Tree,
    joints: Joints,
    tendons: Tendons,
    t: int,
    which: int,
    axis: Axis,
    length: wp.float64,
    step: JointInput,
    dt: wp.float64,
):
    """One of the laws of a tendon, but for its armature."""
    law = RowLaw()
    servo = servo_of(tendons, t, length)
    stretch, taut = spring_stretch(tree, joints, tendons, t, length)
    stiffness = tendons.stiffness[t]
    if not taut:
        stiffness = 0.0
    if which == SERVO and step.options.explicit_drives == 0:
        law = drive_law(step.options, axis, servo, dt)
    elif which == LOWER or which == UPPER:
        law = range_law(tendons, t, step, axis, length, which - LOWER, dt)
    elif which == FRICTION:
        law = friction_law(step.options, axis, tendons.friction[t], dt)
    elif which == EFFORT:
        effort = wp.float64(tendons.effort[t])
        if step.options.explicit_drives == 1:
            effort += explicit_effort(servo, axis.v0)
        tendons.exerted[t] = effort
        if step.options.explicit_springs == 1:
            effort += wp.float64(stiffness) * stretch
        law = effort_law(effort, axis, dt)
    elif which == PASSIVE:
        law = passive_law(step.options, axis, stiffness, tendons.damping[t], stretch, dt)
    return law


@wp.func
def along_the_length(law: RowLaw):
    """The same law on a row whose velocity is the rate of the length: every impulse of a tendon then lengthens it."""
    out = law
    if law.sign < wp.float64(0.0):
        out.v_hat = -law.v_hat
        out.lower = -law.upper
        out.upper = -law.lower
    return out


@wp.func
def tendon_rows(
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
    """Half of the laws of a tendon: as many as a coupling has rows for."""
    tendons = table.tendons
    t = table.source_row[c]
    open_row(pool, row)
    measured = add_length(tree, tendons, m, pool, problem, row, t, step.joint_q)
    axis = axis_of_row(tree, pool, problem, row, measured.leverage.most)
    if axis.w <= wp.float64(0.0):
        return row
    length = measured.length + length_at_zero(tree, tendons, t)
    last = wp.min(table.axis[c] + LAWS_PER_COUPLING, TENDON_LAWS)
    for which in range(table.axis[c], last):
        law = tendon_law(tree, joints, tendons, t, which, axis, length, step, dt)
        if which == ARMATURE and tendons.armature[t] != 0.0:
            # The armature keeps the length's own rate; what the turning of the path makes of it comes from outside.
            law = armature_law(tendons.armature[t], axis.v0 - dt * path_acceleration(tree, m, tendons, t))
        if law.sign != wp.float64(0.0):
            row = settle_row(tree, pool, problem, row, along_the_length(law), measured.leverage.most)
            copy_terms(pool, row - 1, row)
    return row


@wp.func
def equality_row(
    tree: Tree,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    step: JointInput,
    dt: wp.float64,
):
    """Hold L_1 = p(L_2), both above those at zero coordinates, p a polynomial of degree four."""
    base = first_unknown(tree, pool, problem, c)
    open_row(pool, row)
    pool.slope[row] = wp.float64(0.0)
    value = coefficient(table, c, 0)
    gap = wp.float64(0.0)
    leverage = Leverage()
    tendons = int(2)  # no constant: the loop is not to be unrolled
    for which in range(tendons):  # the leader first, whose slope the follower does not have
        t = table.dof_b[c]
        if which == 1:
            t = table.dof_a[c]
        if t >= 0:
            measured = add_length(tree, table.tendons, m, pool, problem, row, t, step.joint_q)
            x = measured.length - wp.float64(table.tendons.zero_length[t])
            leverage.most += measured.leverage.most
            leverage.bend += measured.leverage.bend
            gap = x - value
            if which == 0:
                value, slope, _bend = polynomial(table, c, x)
                pool.slope[row] = slope
                scale_terms(pool, row, -slope)
                leverage.most = slope * slope * leverage.most
                leverage.bend = wp.abs(slope) * leverage.bend
    close_row(pool, problem, row, base, leverage, gap, dt, -UNBOUNDED, step.options.coupling_beta, dt)
    return row + 1


@wp.kernel
def assemble_tendons(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    step: JointInput,
    dt: wp.float64,
):
    """Fill the row slots of tendons' couplings; unused ones are empty. One block per group, whose lanes share them."""
    block, lane = wp.tid()
    g = tree.first_group + block
    pack_tree(tree)
    pack_motion(m)
    pack_couplers(pool)
    pack_problem(problem)
    for c in range(table.group_start[g] + lane, table.group_start[g + 1], wp.block_dim()):
        if not is_tendon(table, c):
            continue
        row = int(ROWS * c)
        if is_enabled(table, c):
            if table.kind[c] == TENDON:
                row = tendon_rows(tree, joints, table, m, pool, problem, c, row, step, dt)
            else:
                row = equality_row(tree, table, m, pool, problem, c, row, step, dt)
        clear_rest(pool, c, row)
