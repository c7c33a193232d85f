"""The virtual power of couplings: what holds two bodies or two coordinates together, or keeps a distance.

Compliance, whether a row acts and the bound of its velocity are those of the step; directions and errors are taken anew from the poses.
"""

import warp as wp

from ..constraints.axis_laws import UNBOUNDED, row_law
from ..constraints.clamped_linear import clamped_linear
from ..constraints.coupler_pool import ROWS, Anchor
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
from ..workspace import CouplingTable, Motion, RowLaw, Tree
from .scene import Scene, free_velocity, link_velocity, rate_of
from .sensitivity import Sensitivity

SLOWED = wp.constant(wp.float64(1.0 - 1.0e-9))
"""Share of the velocity that would let an error go below which a row's was bounded; the rest is roundoff."""


@wp.struct
class CouplerRows:
    """Rows of couplings as the step had them."""

    group: wp.array[wp.int32]  # by coupling
    support: wp.array[wp.int32]  # (R,) 0 where a row does not act
    law: wp.array[RowLaw]  # (R,)


@wp.func
def coupler_row_impulse(
    rows: CouplerRows, row: int, vc: wp.float64, error: wp.float64, time: wp.float64, lower: wp.float64
):
    """Impulse of a row that lets its error go within a time."""
    gamma = wp.float64(0.0)
    if rows.support[row] > 0:
        v_hat = -error / time
        if wp.abs(rows.law[row].v_hat) < SLOWED * wp.abs(v_hat):
            v_hat = rows.law[row].v_hat
        law = row_law(wp.float64(1.0), v_hat, rows.law[row].R, lower, UNBOUNDED)
        gamma = clamped_linear(vc, law).gamma
    return gamma


@wp.func
def between(tree: Tree, m: Motion, s: Sensitivity, a: Anchor, b: Anchor, F: wp.spatial_vectord):
    """Rate F . (V_B - V_A) at the end of the step, and that of the virtual velocity."""
    V = wp.spatial_vectord()
    U = wp.spatial_vectord()
    if b.link >= 0:
        V += link_velocity(tree, m, s.velocity, b.link)
        U += free_velocity(tree, m, s.virtual_velocity, b.link)
    if a.link >= 0:
        V -= link_velocity(tree, m, s.velocity, a.link)
        U -= free_velocity(tree, m, s.virtual_velocity, a.link)
    return wp.dot(F, V), wp.dot(F, U)


@wp.func
def held_power(
    scene: Scene, m: Motion, s: Sensitivity, rows: CouplerRows, row: int, a: Anchor, b: Anchor, shifts: Held, turns: Held,
    acceleration: wp.spatial_vectord, ahead: wp.float64, i: int,
):  # fmt: skip
    """-gamma u of the i-th direction that two bodies are held in."""
    F, error, _point = held_row(shifts, turns, acceleration, ahead, i)
    vc, u = between(scene.tree, m, s, a, b, F)
    return -u * coupler_row_impulse(rows, row, vc, error, wp.float64(2.0) * scene.step.dt, -UNBOUNDED)


@wp.func
def distance_power(
    scene: Scene, table: CouplingTable, m: Motion, s: Sensitivity, rows: CouplerRows, c: int, a: Anchor, b: Anchor,
    side: int, ahead: wp.float64,
):  # fmt: skip
    """-gamma u of the minimum or the maximum of a distance."""
    bound = distance_row(scene.joints, table, m, c, a, b, side, ahead, scene.step.dt)
    row = ROWS * c
    if side == 1 and distance_row(scene.joints, table, m, c, a, b, 0, ahead, scene.step.dt).exists == 1:
        row += 1
    power = wp.float64(0.0)
    if bound.exists == 1:
        vc, u = between(scene.tree, m, s, a, b, bound.F)
        power = -u * coupler_row_impulse(rows, row, vc, bound.gap, scene.step.dt + bound.tau, wp.float64(0.0))
    return power


@wp.func
def coordinate_power(scene: Scene, table: CouplingTable, m: Motion, s: Sensitivity, rows: CouplerRows, c: int, i: int):
    """-gamma u of one coordinate that follows another."""
    tree = scene.tree
    ahead = squared_step(scene.step.joints.options, scene.step.dt)
    gap, slope = coordinate_error(tree, table, m, c, i, scene.before.joint_q, ahead)
    dof = table.dof_a[c] + i
    vc = rate_of(tree, m, s.velocity, dof)
    u = s.virtual_velocity[dof]
    if table.dof_b[c] >= 0:
        leader = table.dof_b[c] + i
        vc -= slope * rate_of(tree, m, s.velocity, leader)
        u -= slope * s.virtual_velocity[leader]
    return -u * coupler_row_impulse(rows, ROWS * c + i, vc, gap, wp.float64(2.0) * scene.step.dt, -UNBOUNDED)


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
):
    """-gamma . (virtual rate) of all rows of a coupling."""
    c = wp.tid()
    g = rows.group[c]
    if table.kind[c] == COORDINATES:
        for i in range(table.coordinates[c]):
            wp.atomic_add(s.power, g, coordinate_power(scene, table, m, s, rows, c, i))
    elif table.kind[c] == BODIES or table.kind[c] == DISTANCE_RANGE:
        a, b = coupled_anchors(scene.tree, scene.joints, table, m, c)
        ahead = time_ahead(scene.step.joints.options, m, a, b, scene.step.dt)
        if table.kind[c] == DISTANCE_RANGE:
            sides = int(2)
            for side in range(sides):
                wp.atomic_add(s.power, g, distance_power(scene, table, m, s, rows, c, a, b, side, ahead))
        else:
            shifts = held_translations(scene.joints, table, c, a, b)
            turns = held_rotations(scene.joints, table, m, c, a, b)
            acceleration = held_acceleration(table, m, c, a, b)
            for i in range(shifts.count + turns.count):
                wp.atomic_add(
                    s.power, g, held_power(scene, m, s, rows, ROWS * c + i, a, b, shifts, turns, acceleration, ahead, i)
                )
    if has_no_gradient(table, rows, c):
        s.no_gradient[g] = 1
