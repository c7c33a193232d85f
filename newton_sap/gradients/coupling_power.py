"""The virtual power of couplings: what holds two bodies or two coordinates together, or keeps a distance.

Compliance, whether a row acts and the bound of its velocity are those of the step; directions and errors are taken anew from the poses.
"""

import warp as wp

from ..constraints.axis_laws import UNBOUNDED, row_law
from ..constraints.clamped_linear import clamped_linear, rigid_delay
from ..constraints.coupler_pool import ROWS, Anchor, relative_velocity
from ..constraints.couplers import (
    Held,
    coordinate_error,
    coupled_anchors,
    distance_row,
    held_acceleration,
    held_rotations,
    held_row,
    held_translations,
    squared_step,
    time_ahead,
)
from ..constraints.coupling_table import BODIES, COORDINATES, DISTANCE_RANGE
from ..constraints.taut_couplings import bend_of, taut_bends
from ..coupling_bundles import CouplingTable
from ..multibody.paths import free_velocity, prescribed_velocity
from ..workspace import Motion, RowLaw, Tree
from .free_change import Changes
from .scene import Scene, rate_of
from .sensitivity import Sensitivity

ROUNDOFF = wp.constant(wp.float64(1.0e-9))
"""Share of the velocity that would let an error go, and of 1 m/s or rad/s, by which a row's differs at most unless it was bounded."""

AS_DAMPED = wp.constant(wp.float64(1.0 + 1.0e-5))
"""The compliance of a row that damps, times its gain, at most; the rest is roundoff of a damping in float32."""


@wp.struct
class CouplerRows:
    """Rows of couplings as the step had them."""

    tree: wp.array[wp.int32]  # by coupling, one of its group
    support: wp.array[wp.int32]  # (R,) 0 where a row does not act
    law: wp.array[RowLaw]  # (R,)


@wp.func
def closing_time(dt: wp.float64):
    """In which a row that holds closes its error [s]."""
    return dt + rigid_delay(dt)


@wp.func
def law_of_row(rows: CouplerRows, row: int, error: wp.float64, time: wp.float64, lower: wp.float64):
    """The law of a row that lets its error go within a time."""
    v_hat = -error / time
    if wp.abs(rows.law[row].v_hat - v_hat) > ROUNDOFF * (wp.float64(1.0) + wp.abs(v_hat)):
        v_hat = rows.law[row].v_hat
    return row_law(wp.float64(1.0), v_hat, rows.law[row].R, lower, UNBOUNDED)


@wp.struct
class Rate:
    """The rate of a row."""

    start: wp.float64  # at the start of the step
    now: wp.float64  # at its end, or how much it changes
    tested: wp.float64  # by the virtual velocity


@wp.func
def row_impulse(rows: CouplerRows, row: int, law: RowLaw, rate: wp.float64):
    """Impulse of a row at a rate."""
    gamma = wp.float64(0.0)
    if rows.support[row] > 0:
        gamma = clamped_linear(rate, law).gamma
    return gamma


@wp.func
def row_power(rows: CouplerRows, row: int, law: RowLaw, rate: Rate, changes: int):
    """-gamma u of a row at the end of the step; of a change, by what it answers as it acts at the start."""
    gamma = wp.float64(0.0)
    if changes == 0:
        gamma = row_impulse(rows, row, law, rate.now)
    elif rows.support[row] > 0:
        gamma = -clamped_linear(rate.start, law).G * rate.now
    return -rate.tested * gamma


@wp.func
def between(tree: Tree, m: Motion, s: Sensitivity, a: Anchor, b: Anchor, F: wp.spatial_vectord, changes: int):
    """Rate F . (V_B - V_A), and that of the virtual velocity; of a change, prescribed dofs have no part in it."""
    V = wp.spatial_vectord()
    U = wp.spatial_vectord()
    if b.link >= 0:
        V += free_velocity(tree, m, s.velocity, b.link)
        U += free_velocity(tree, m, s.virtual_velocity, b.link)
        if changes == 0:
            V += prescribed_velocity(tree, m, b.link)
    if a.link >= 0:
        V -= free_velocity(tree, m, s.velocity, a.link)
        U -= free_velocity(tree, m, s.virtual_velocity, a.link)
        if changes == 0:
            V -= prescribed_velocity(tree, m, a.link)
    rate = Rate()
    rate.start = wp.dot(F, relative_velocity(m, a, b))
    rate.now = wp.dot(F, V)
    rate.tested = wp.dot(F, U)
    return rate


@wp.func
def held_law(
    scene: Scene, rows: CouplerRows, row: int, shifts: Held, turns: Held, acceleration: wp.spatial_vectord,
    ahead: wp.float64, i: int,
):  # fmt: skip
    """Covector and law of the i-th direction that two bodies are held in."""
    F, error, _point = held_row(shifts, turns, acceleration, ahead, i)
    return F, law_of_row(rows, row, error, closing_time(scene.step.dt), -UNBOUNDED)


@wp.func
def distance_law(
    scene: Scene, table: CouplingTable, m: Motion, rows: CouplerRows, c: int, a: Anchor, b: Anchor, side: int,
    ahead: wp.float64,
):  # fmt: skip
    """Covector, law and row of the minimum or the maximum of a distance; the row is -1 where there is none."""
    dt = scene.step.dt
    bound = distance_row(scene.joints, table, m, c, a, b, side, ahead, dt)
    row = int(ROWS * c)
    if side == 1 and distance_row(scene.joints, table, m, c, a, b, 0, ahead, dt).exists == 1:
        row += 1
    law = law_of_row(rows, row, bound.gap, dt + bound.tau, wp.float64(0.0))
    if bound.exists == 0:
        row = -1
    return bound.F, law, row


@wp.func
def damped_law(rows: CouplerRows, row: int, damping: wp.float64, keeps: wp.float64, dt: wp.float64):
    """The law of a row that damps what departs from a rate; as the step had it where that was as stiff as a step resolves."""
    R = rows.law[row].R
    if R * dt * damping < AS_DAMPED:
        R = wp.float64(1.0) / (dt * damping)
    return row_law(wp.float64(1.0), keeps, R, -UNBOUNDED, UNBOUNDED)


@wp.func
def coordinate_law(scene: Scene, table: CouplingTable, m: Motion, rows: CouplerRows, c: int, i: int):
    """Slope and law of one coordinate that follows another."""
    ahead = squared_step(scene.step.joints.options, scene.step.dt)
    gap, slope = coordinate_error(scene.tree, table, m, c, i, scene.before.joint_q, ahead)
    return slope, law_of_row(rows, ROWS * c + i, gap, closing_time(scene.step.dt), -UNBOUNDED)


@wp.func
def coordinate_rate(
    tree: Tree, table: CouplingTable, m: Motion, s: Sensitivity, c: int, i: int, slope: wp.float64, changes: int
):
    """How fast a coordinate leaves the one that it follows."""
    dof = table.dof_a[c] + i
    start = m.v0[dof]
    now = rate_of(tree, m, s.velocity, dof, changes)
    tested = s.virtual_velocity[dof]
    if table.dof_b[c] >= 0:
        leader = table.dof_b[c] + i
        start -= slope * m.v0[leader]
        now -= slope * rate_of(tree, m, s.velocity, leader, changes)
        tested -= slope * s.virtual_velocity[leader]
    rate = Rate()
    rate.start = start
    rate.now = now
    rate.tested = tested
    return rate


@wp.func
def has_no_gradient(table: CouplingTable, rows: CouplerRows, c: int):
    """Whether a coupling acts that is none of these: what acts along the axes of a joint that closes a loop."""
    known = table.kind[c] == BODIES or table.kind[c] == COORDINATES or table.kind[c] == DISTANCE_RANGE
    acts = int(0)
    if not known:
        for row in range(ROWS * c, ROWS * c + ROWS):
            acts = wp.max(acts, rows.support[row])
    return acts > 0


@wp.kernel
def coupling_power(
    scene: Scene,
    table: CouplingTable,
    m: Motion,
    rows: CouplerRows,
    s: Sensitivity,
    changes: int,
):
    """-gamma . (virtual rate) of all rows of a coupling, at the end of the step or as they answer a change of velocity."""
    c = wp.tid()
    g = scene.tree.trees[rows.tree[c]].group
    tree = scene.tree
    if table.kind[c] == COORDINATES:
        for i in range(table.coordinates[c]):
            slope, law = coordinate_law(scene, table, m, rows, c, i)
            rate = coordinate_rate(tree, table, m, s, c, i, slope, changes)
            wp.atomic_add(s.power, g, row_power(rows, ROWS * c + i, law, rate, changes))
    elif table.kind[c] == BODIES or table.kind[c] == DISTANCE_RANGE:
        a, b = coupled_anchors(tree, scene.joints, table, m, c)
        ahead = time_ahead(scene.step.joints.options, m, a, b, scene.step.dt)
        damper = int(ROWS * c)
        if table.kind[c] == DISTANCE_RANGE:
            sides = int(2)
            for side in range(sides):
                F, law, row = distance_law(scene, table, m, rows, c, a, b, side, ahead)
                if row >= 0:
                    rate = between(tree, m, s, a, b, F, changes)
                    wp.atomic_add(s.power, g, row_power(rows, row, law, rate, changes))
                    damper = wp.max(damper, row + 1)
        else:
            shifts = held_translations(scene.joints, table, c, a, b)
            turns = held_rotations(scene.joints, table, m, c, a, b)
            acceleration = held_acceleration(table, m, c, a, b)
            for i in range(shifts.count + turns.count):
                F, law = held_law(scene, rows, ROWS * c + i, shifts, turns, acceleration, ahead, i)
                rate = between(tree, m, s, a, b, F, changes)
                wp.atomic_add(s.power, g, row_power(rows, ROWS * c + i, law, rate, changes))
            damper += shifts.count + turns.count
        bends = taut_bends(tree, scene.joints, table, m, c, a, b, scene.step.joints.options, scene.step.dt)
        for i in range(bends.count):
            F, damping = bend_of(bends, i)
            rate = between(tree, m, s, a, b, F, changes)
            law = damped_law(rows, damper + i, damping, bends.kept * rate.start, scene.step.dt)
            wp.atomic_add(s.power, g, row_power(rows, damper + i, law, rate, changes))
    if has_no_gradient(table, rows, c):
        s.no_gradient[g] = 1


@wp.func
def load_path(tree: Tree, m: Motion, load: wp.array[wp.float64], link: int, impulse: wp.spatial_vectord):
    """What an impulse on a link gives the free dofs that move it."""
    if link >= 0:
        for p in range(tree.links[link].path_start + m.locked[tree.links[link].tree], tree.links[link + 1].path_start):
            dof = tree.path_dof[p]
            wp.atomic_add(load, dof, wp.dot(m.column[dof], impulse))


@wp.func
def load_pair(tree: Tree, m: Motion, load: wp.array[wp.float64], a: Anchor, b: Anchor, impulse: wp.spatial_vectord):
    """What an impulse on the second of two bodies, and back on the first, gives them."""
    load_path(tree, m, load, b.link, impulse)
    load_path(tree, m, load, a.link, -impulse)


@wp.func
def load_dof(tree: Tree, m: Motion, load: wp.array[wp.float64], dof: int, impulse: wp.float64):
    """What a dof gets, if it is free."""
    t = tree.links[tree.dofs[dof].link].tree
    if dof - tree.trees[t].dof_start >= m.locked[t]:
        wp.atomic_add(load, dof, impulse)


@wp.kernel
def gather_ties(scene: Scene, table: CouplingTable, m: Motion, rows: CouplerRows, c: Changes):
    """What couplings give the dofs at the velocity of the start."""
    coupling = wp.tid()
    tree = scene.tree
    if table.kind[coupling] == COORDINATES:
        for i in range(table.coordinates[coupling]):
            slope, law = coordinate_law(scene, table, m, rows, coupling, i)
            dof = table.dof_a[coupling] + i
            start = m.v0[dof]
            if table.dof_b[coupling] >= 0:
                start -= slope * m.v0[table.dof_b[coupling] + i]
            gamma = row_impulse(rows, ROWS * coupling + i, law, start)
            load_dof(tree, m, c.ties, dof, gamma)
            if table.dof_b[coupling] >= 0:
                load_dof(tree, m, c.ties, table.dof_b[coupling] + i, -slope * gamma)
    elif table.kind[coupling] == BODIES or table.kind[coupling] == DISTANCE_RANGE:
        a, b = coupled_anchors(tree, scene.joints, table, m, coupling)
        ahead = time_ahead(scene.step.joints.options, m, a, b, scene.step.dt)
        damper = int(ROWS * coupling)
        if table.kind[coupling] == DISTANCE_RANGE:
            sides = int(2)
            for side in range(sides):
                F, law, row = distance_law(scene, table, m, rows, coupling, a, b, side, ahead)
                if row >= 0:
                    gamma = row_impulse(rows, row, law, wp.dot(F, relative_velocity(m, a, b)))
                    load_pair(tree, m, c.ties, a, b, gamma * F)
                    damper = wp.max(damper, row + 1)
        else:
            shifts = held_translations(scene.joints, table, coupling, a, b)
            turns = held_rotations(scene.joints, table, m, coupling, a, b)
            acceleration = held_acceleration(table, m, coupling, a, b)
            for i in range(shifts.count + turns.count):
                F, law = held_law(scene, rows, ROWS * coupling + i, shifts, turns, acceleration, ahead, i)
                gamma = row_impulse(rows, ROWS * coupling + i, law, wp.dot(F, relative_velocity(m, a, b)))
                load_pair(tree, m, c.ties, a, b, gamma * F)
            damper += shifts.count + turns.count
        bends = taut_bends(tree, scene.joints, table, m, coupling, a, b, scene.step.joints.options, scene.step.dt)
        for i in range(bends.count):
            F, damping = bend_of(bends, i)
            start = wp.dot(F, relative_velocity(m, a, b))
            law = damped_law(rows, damper + i, damping, bends.kept * start, scene.step.dt)
            gamma = row_impulse(rows, damper + i, law, start)
            load_pair(tree, m, c.ties, a, b, gamma * F)
