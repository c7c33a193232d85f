"""Scalar rows of the dofs of trees: position limits, PD drives, dry friction and velocity limits (F 2.7, 2.8, 2.10)."""

import warp as wp

from ..multibody.drives import Drive, read_drive
from ..multibody.joints import is_free
from ..multibody.mass_matrix import diagonal_entry
from ..workspace import Joints, Motion, RowLaw, RowPool, Tree
from .axis_laws import (
    Axis,
    JointInput,
    drive_law,
    dry_friction,
    expected_speed,
    friction_law,
    lower_limit_law,
    upper_limit_law,
    velocity_limit_law,
)
from .clamped_linear import is_idle

wp.set_module_options({"enable_backward": False})


@wp.func
def push(rows: RowPool, at: wp.vec2i, dof: int, row: RowLaw):
    """Append a row that acts; ``unknown`` holds the dof until the problem numbers its unknowns."""
    if row.sign == wp.float64(0.0):
        return at
    rows.unknown[at[0]] = dof
    rows.law[at[0]] = row
    return at + wp.vec2i(1, 0)


@wp.func
def push_limit(rows: RowPool, at: wp.vec2i, axis: Axis, row: RowLaw):
    """Append a limit, or put it to the sleeping ones where the expected speed does not reach it."""
    if row.sign == wp.float64(0.0):
        return at
    fastest = expected_speed(axis)
    if not (is_idle(row, -fastest) and is_idle(row, fastest)):
        return push(rows, at, axis.dof, row)
    rows.unknown[at[1]] = axis.dof
    rows.law[at[1]] = row
    return at - wp.vec2i(0, 1)


@wp.func
def push_resistance(joints: Joints, rows: RowPool, step: JointInput, at: wp.vec2i, axis: Axis, dt: wp.float64):
    """What sees the velocity alone: its limit and dry friction."""
    at = push_limit(rows, at, axis, velocity_limit_law(joints, step.options, axis))
    return push(rows, at, axis.dof, friction_law(step.options, axis, dry_friction(joints, axis.newton_dof), dt))


@wp.func
def axis_rows(
    tree: Tree, joints: Joints, rows: RowPool, step: JointInput, at: wp.vec2i, axis: Axis, drive: Drive, dt: wp.float64
):
    """All rows of one dof of a chain or ball joint."""
    coord = tree.dofs[axis.dof].q
    if coord < 0 or step.options.explicit_drives == 0:
        at = push(rows, at, axis.dof, drive_law(step.options, axis, drive, dt))
    if coord >= 0:
        q0 = wp.float64(step.joint_q[coord])
        at = push_limit(rows, at, axis, lower_limit_law(joints, step.options, axis, q0, dt))
        at = push_limit(rows, at, axis, upper_limit_law(joints, step.options, axis, q0, dt))
    return push_resistance(joints, rows, step, at, axis, dt)


@wp.func
def make_axis(tree: Tree, m: Motion, t: int, dof: int):
    """A dof with its effective mass and speed."""
    axis = Axis()
    axis.dof = dof
    axis.newton_dof = tree.dofs[dof].qd
    axis.w = wp.float64(1.0) / m.A[diagonal_entry(tree, t, dof)]
    axis.v0 = m.v0[dof]
    axis.speed = wp.max(wp.abs(m.v0[dof]), wp.abs(m.v_star[dof]))
    return axis


@wp.func
def dof_rows(
    tree: Tree,
    joints: Joints,
    m: Motion,
    rows: RowPool,
    step: JointInput,
    link: int,
    dof: int,
    at: wp.vec2i,
    dt: wp.float64,
):
    """All rows of one free dof of a joint, and all sleeping ones; returns where the next of each go."""
    joint = tree.links[link].joint
    axis = make_axis(tree, m, tree.links[link].tree, dof)
    if is_free(joints.type[joint]):
        at = push_resistance(joints, rows, step, at, axis, dt)
    else:
        i = wp.min(dof - tree.links[link].dof_start, 2)
        drive = read_drive(tree, joints, step.targets, step.joint_q, joint, dof, i)
        at = axis_rows(tree, joints, rows, step, at, axis, drive, dt)
    return at


@wp.func
def link_rows(
    tree: Tree, joints: Joints, m: Motion, rows: RowPool, step: JointInput, link: int, at: wp.vec2i, dt: wp.float64
):
    """All rows of one link's joint, and all sleeping ones; returns where the next of each go, these upwards, those downwards."""
    if tree.links[link].joint < 0:
        return at
    t = tree.links[link].tree
    start = tree.links[link].dof_start
    for dof in range(wp.max(start, tree.trees[t].dof_start + m.locked[t]), tree.links[link + 1].dof_start):
        at = dof_rows(tree, joints, m, rows, step, link, dof, at, dt)
    return at
