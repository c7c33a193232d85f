"""The generalised force of MuJoCo's direct actuators, as an observable; that of drives is in ``own_observables``."""

import warp as wp

from ..constraints.axis_laws import JointOptions, drive_acts
from ..constraints.coupler_pool import ROWS
from ..constraints.coupling_table import LOOP_LAWS, TENDON, is_enabled
from ..constraints.tendon_paths import path_wrench
from ..constraints.tendons import SERVO, servo_of
from ..coupling_bundles import CouplingTable
from ..multibody.spatial import to_vec3d, wrench_at
from ..workspace import Bodies, CouplerPool, Joints, Motion, Tree
from .actuator_laws import Actuation, motor_pull
from .actuator_pushes import push_on_joint, sum_pushes
from .actuators import motor_effort
from .own_observables import add_force, clear_links, first_link, project_wrenches

wp.set_module_options({"enable_backward": False})


@wp.func
def tendon_force(options: JointOptions, table: CouplingTable, couplers: CouplerPool, c: int, dt: wp.float64):
    """What the actuators of a tendon exert in the step; ``c`` holds its first laws, whose rows the servo leads."""
    t = table.source_row[c]
    force = table.tendons.exerted[t]
    seen = options.explicit_drives == 0 and drive_acts(servo_of(table.tendons, t, wp.float64(0.0)), dt)
    if seen and couplers.support[ROWS * c] > 0:
        force += couplers.gamma[ROWS * c] / dt
    return force


@wp.func
def add_if_free(tree: Tree, m: Motion, dof: int, force: wp.float64, out: wp.array[wp.float32]):
    """Add to a dof's force, unless its velocity is prescribed."""
    t = tree.links[tree.dofs[dof].link].tree
    if dof >= tree.trees[t].dof_start + m.locked[t]:
        add_force(tree, dof, force, out)


@wp.func
def gather_tendons(
    tree: Tree,
    options: JointOptions,
    table: CouplingTable,
    m: Motion,
    motion_after: Motion,
    couplers: CouplerPool,
    g: int,
    dt: wp.float64,
    out: wp.array[wp.float32],
):
    """What the actuators of tendons do to each link, by their paths, and to each dof, where they are sums."""
    tendons = table.tendons
    for c in range(table.group_start[g], table.group_start[g + 1]):
        if table.kind[c] == TENDON and table.axis[c] == SERVO and is_enabled(table, c):
            t = table.source_row[c]
            force = tendon_force(options, table, couplers, c, dt)
            for link in range(first_link(tree, g), first_link(tree, g + 1)):
                pull = path_wrench(tree, tendons, t, tree.links[link].body)
                motion_after.momentum[link] = motion_after.momentum[link] + force * pull
            for k in range(tendons.term_start[t], tendons.term_start[t] + tendons.term_count[t]):
                add_if_free(tree, m, tendons.dof[k], wp.float64(tendons.coef[k]) * force, out)


@wp.func
def gather_pushes(
    tree: Tree,
    act: Actuation,
    motion_after: Motion,
    first: int,
    end: int,
    first_body: int,
):
    """What motors on sites, and on free and ball joints, do to each link."""
    if act.table.site.shape[0] == 0:
        return
    for link in range(first, end):
        body = tree.links[link].body
        force, torque = sum_pushes(act.table, act.ctrl, first_body + body, body, act.body_q)
        origin = to_vec3d(wp.transform_get_translation(act.body_q[body]))
        motion_after.momentum[link] = motion_after.momentum[link] + wrench_at(to_vec3d(force), to_vec3d(torque), origin)


@wp.kernel
def observe_direct_actuators(
    tree: Tree,
    joints: Joints,
    options: JointOptions,
    table: CouplingTable,
    act: Actuation,
    m: Motion,
    motion_after: Motion,
    couplers: CouplerPool,
    dt: wp.float64,
    out: wp.array[wp.float32],
):
    """Add the forces on every free dof, in the layout of ``joint_f``; servos on dofs are drives and not part of them."""
    g = wp.tid()
    first = first_link(tree, g)
    end = first_link(tree, g + 1)
    clear_links(motion_after, first, end)
    gather_tendons(tree, options, table, m, motion_after, couplers, g, dt, out)
    gather_pushes(tree, act, motion_after, first, end, out.shape[0] + act.table.tendon_bounded.shape[0])
    project_wrenches(tree, joints, m, motion_after, first, end, wp.float64(1.0), out)
    for dof in range(tree.links[first].dof_start, tree.links[end].dof_start):
        public = tree.dofs[dof].qd
        if public >= 0:  # no joint has the dofs of a body that flies without one
            add_if_free(tree, m, dof, wp.float64(motor_effort(act.table, act.given, act.ctrl, public)), out)
    for c in range(table.group_start[g], table.group_start[g + 1]):
        if table.kind[c] == LOOP_LAWS and is_enabled(table, c):
            axis = table.axis_start[c] + table.axis[c]
            out[axis] = out[axis] + motor_effort(act.table, act.given, act.ctrl, axis)


@wp.kernel
def observe_joint_pushes(tree: Tree, bodies: Bodies, act: Actuation, first_body: int, out: wp.array[wp.spatial_vector]):
    """Add what motors of free and ball joints give the joint's child, about its COM: it passes through the joint."""
    body = tree.links[wp.tid()].body
    table = act.table
    for k in range(table.axis_start[first_body + body], table.axis_start[first_body + body + 1]):
        a = table.row[k]
        if table.site[a] < 0 and table.joint[a] == tree.links[wp.tid()].joint:
            push = push_on_joint(table, a, motor_pull(table, act.ctrl, a), body, act.body_q)
            arm = wp.transform_vector(act.body_q[body], bodies.com[body])
            out[body] = out[body] + wp.spatial_vector(push.force, push.torque - wp.cross(arm, push.force))
