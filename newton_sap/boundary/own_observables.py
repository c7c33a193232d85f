"""Observables of our own: generalised forces of contacts and drives, and contacts seen in their own frames."""

import newton
import warp as wp

from ..constraints.axis_laws import JointInput, drive_acts
from ..constraints.coupler_pool import ROWS, joint_anchors, relative_velocity
from ..constraints.coupling_table import LOOP_LAWS, is_enabled
from ..constraints.loop_axes import loop_axis, loop_drive
from ..contacts.found import gap_now, names_two_shapes
from ..contacts.rows import ContactRows, corner_of, row_count, row_of
from ..coupling_bundles import CouplingTable
from ..multibody.drives import explicit_effort, read_drive
from ..multibody.joints import BALL, flies, is_free
from ..multibody.paths import has_pushes
from ..multibody.spatial import angular, linear
from ..unknowns import base_of
from ..workspace import Bodies, ContactPool, CouplerPool, Joints, Motion, Problem, RowPool, Shapes, StateArrays, Tree
from .newton_observables import slot_wrench

wp.set_module_options({"enable_backward": False})

NO_CONTACT = wp.constant(wp.float32(wp.inf))
"""The gap [m] of a row that holds no contact."""


@wp.func
def first_link(tree: Tree, g: int):
    """Where the links of a group begin."""
    return tree.trees[tree.groups[g].tree_start].link_start


@wp.func
def clear_links(motion_after: Motion, first: int, end: int):
    """Begin to gather wrenches by link."""
    for link in range(first, end):
        motion_after.momentum[link] = wp.spatial_vectord()


@wp.func
def gather_contacts(motion_after: Motion, pool: ContactPool, g: int):
    """Contact impulses on each link about the world origin; contacts in the group's order."""
    for slot in range(pool.group_start[g], pool.group_start[g] + pool.group_count[g]):
        a = pool.link_a[slot]
        b = pool.link_b[slot]
        if a >= 0:
            motion_after.momentum[a] = motion_after.momentum[a] - slot_wrench(pool, slot, pool.point_a[slot])
        if b >= 0:
            motion_after.momentum[b] = motion_after.momentum[b] + slot_wrench(pool, slot, pool.point_b[slot])


@wp.func
def add_force(tree: Tree, dof: int, force: wp.float64, out: wp.array[wp.float32]):
    """Add to the force on one dof."""
    public = tree.dofs[dof].qd
    out[public] = out[public] + wp.float32(force)


@wp.func
def add_to_push(tree: Tree, joints: Joints, link: int, force: wp.vec3d, torque: wp.vec3d, out: wp.array[wp.float32]):
    """Give a wrench at the COM of a body that no joint moves to the first rod that ends there, if one does."""
    if has_pushes(tree, link):
        start = joints.qd_start[tree.push_joint[tree.push_start[link]]]
        for i in range(3):
            out[start + i] = out[start + i] + wp.float32(force[i])
            out[start + 3 + i] = out[start + 3 + i] + wp.float32(torque[i])


@wp.func
def project_wrenches(
    tree: Tree,
    joints: Joints,
    m: Motion,
    motion_after: Motion,
    first: int,
    end: int,
    dt: wp.float64,
    out: wp.array[wp.float32],
):
    """Add what the gathered wrenches do to every free dof, in the layout of ``joint_f``; ``dt`` is 1 if they are no impulses."""
    for up in range(end - first):
        link = end - 1 - up
        above = tree.links[link].parent
        if above >= 0:
            motion_after.momentum[above] = motion_after.momentum[above] + motion_after.momentum[link]
    for link in range(first, end):
        t = tree.links[link].tree
        joint = tree.links[link].joint
        start = tree.links[link].dof_start
        if start >= tree.trees[t].dof_start + m.locked[t]:
            W = motion_after.momentum[link] / dt
            force = linear(W)
            torque = angular(W) - wp.cross(m.com[link], force)
            if joint < 0:
                add_to_push(tree, joints, link, force, torque, out)
            elif is_free(joints.type[joint]):
                for i in range(3):
                    add_force(tree, start + i, torque[i], out)
                    add_force(tree, start + 3 + i, force[i], out)
            else:
                for dof in range(start, tree.links[link + 1].dof_start):
                    add_force(tree, dof, wp.dot(m.column[dof], W), out)


@wp.kernel
def observe_joint_contact_forces(
    tree: Tree,
    joints: Joints,
    m: Motion,
    motion_after: Motion,
    pool: ContactPool,
    dt: wp.float64,
    joint_contact_f: wp.array[wp.float32],
):
    """J^T gamma / dt of every free dof, in the layout of ``joint_f``."""
    g = wp.tid()
    first = first_link(tree, g)
    end = first_link(tree, g + 1)
    clear_links(motion_after, first, end)
    gather_contacts(motion_after, pool, g)
    project_wrenches(tree, joints, m, motion_after, first, end, dt, joint_contact_f)


@wp.kernel
def observe_drive_efforts(
    tree: Tree,
    joints: Joints,
    m: Motion,
    rows: RowPool,
    problem: Problem,
    step: JointInput,
    dt: wp.float64,
    joint_drive_f: wp.array[wp.float32],
):
    """What each drive exerts in the step, its limit included: its row's impulse, or the explicit law."""
    link = wp.tid()
    joint = tree.links[link].joint
    t = tree.links[link].tree
    start = tree.links[link].dof_start
    first = tree.trees[t].dof_start + m.locked[t]
    if flies(joints, joint):
        return
    for dof in range(wp.max(start, first), tree.links[link + 1].dof_start):
        drive = read_drive(tree, joints, step.targets, step.joint_q, joint, dof, wp.min(dof - start, 2))
        effort = wp.float64(0.0)
        if tree.dofs[dof].q >= 0 and step.options.explicit_drives == 1:
            effort = explicit_effort(drive, m.v0[dof])
        elif drive_acts(drive, dt):
            # The drive's row leads the rows of its dof.
            u = base_of(tree, problem, t) + problem.tree_start[t] + dof - first
            effort = rows.gamma[problem.row_start[u]] / dt
        joint_drive_f[tree.dofs[dof].qd] = wp.float32(effort)


@wp.kernel
def observe_loop_drive_efforts(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    couplers: CouplerPool,
    step: JointInput,
    dt: wp.float64,
    joint_drive_f: wp.array[wp.float32],
):
    """What each drive of a loop joint exerts in the step."""
    c = wp.tid()
    if table.kind[c] != LOOP_LAWS:
        return
    joint = table.joint[c]
    if not is_enabled(table, c):
        return
    a, b = joint_anchors(tree, joints, table, m, c)
    at = loop_axis(joints, table, c, a, b, step.joint_q)
    turned = wp.quat_inverse(a.rotation) * b.rotation
    drive = loop_drive(joints, step, joint, table.axis[c], at.q, turned)
    effort = wp.float64(0.0)
    if step.options.explicit_drives == 1 and joints.type[joint] != BALL:
        rate = wp.dot(at.F, relative_velocity(m, a, b))
        effort = explicit_effort(drive, rate) * wp.float64(at.valid)
    elif drive_acts(drive, dt) and couplers.support[ROWS * c] > 0:
        # The drive's row leads the rows of its axis.
        effort = couplers.gamma[ROWS * c] / dt
    joint_drive_f[table.axis_start[c] + table.axis[c]] = wp.float32(effort)


@wp.kernel
def observe_gaps(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    state: StateArrays,
    contact_gap: wp.array[wp.float32],
    threads: int,
):
    """Signed distance of every contact at the start of the step, whether or not it acts."""
    count = row_count(rows)
    for i in range(wp.tid(), contact_gap.shape[0], threads):
        gap = NO_CONTACT
        if i < count:
            if names_two_shapes(rows, shapes, i):
                gap = wp.float32(gap_now(tree, bodies, shapes, m, rows, state, i).phi0)
        contact_gap[i] = gap


@wp.kernel
def observe_in_contact_frames(
    tree: Tree, pool: ContactPool, values: wp.array[wp.vec3d], in_all_corners: int, out: wp.array[wp.vec3]
):
    """Turn one vector per contact into its contact frame: two tangents, then the normal; add up those of all corners, or take the one that was found."""
    block, lane = wp.tid()
    g = tree.first_group + block
    start = pool.group_start[g]
    for slot in range(start + lane, start + pool.group_count[g], wp.block_dim()):
        counts = in_all_corners == 1 or corner_of(pool.row[slot]) == 0
        if pool.spin_of[slot] < 0 and counts:
            n = wp.vec3(pool.normal[slot])
            x, y = newton.math.orthonormal_basis(n)
            value = values[slot]
            along = wp.vec3(value - pool.normal[slot] * wp.dot(pool.normal[slot], value))
            normal = wp.float32(wp.dot(pool.normal[slot], value))
            wp.atomic_add(out, row_of(pool.row[slot]), wp.vec3(wp.dot(x, along), wp.dot(y, along), normal))
