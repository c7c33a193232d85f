"""Newton's observables: accelerations, contact forces and the wrench through each joint."""

import warp as wp

from ..constraints.coupler_pool import ROWS
from ..constraints.coupling_table import ROD, ROUTE, TENDON, TENDON_LENGTHS, closes_loop
from ..constraints.routes import route_impulse
from ..constraints.tendon_paths import path_wrench
from ..contacts.rows import row_of, shown
from ..coupling_bundles import CouplingTable
from ..multibody.efforts import Efforts, wrench_of_joint_f, wrench_of_pushes
from ..multibody.joints import is_free
from ..multibody.orders import Orders
from ..multibody.paths import has_pushes, is_moved
from ..multibody.spatial import (
    angular,
    inertia_about_origin,
    inertia_times,
    linear,
    to_mat33d,
    to_vec3d,
    velocity_at,
    wrench_at,
)
from ..workspace import Bodies, ContactPool, CouplerPool, Joints, Motion, Pools, StateArrays, Tree

wp.set_module_options({"enable_backward": False})


@wp.kernel
def observe_accelerations(
    tree: Tree,
    m: Motion,
    motion_after: Motion,
    dt: wp.float64,
    body_qdd: wp.array[wp.spatial_vector],
):
    """Mean acceleration over the step, of the COM and angular, world axes.

    A prescribed root waits for its owner to move it; its acceleration at steady rates, and the turn it gives to all
    velocities of its tree, are added.
    """
    link = wp.tid()
    before = m.velocity[link]
    after = motion_after.velocity[link]
    v_C = velocity_at(after, motion_after.com[link])
    a = (v_C - velocity_at(before, m.com[link])) / dt
    alpha = (angular(after) - angular(before)) / dt
    t = tree.links[link].tree
    if m.locked[t] > 0:
        root = tree.trees[t].link_start
        w = angular(m.velocity[root])
        a = a + velocity_at(m.bias[root], motion_after.com[link]) + wp.cross(w, v_C)
        alpha = alpha + angular(m.bias[root]) + wp.cross(w, angular(after))
    body_qdd[tree.links[link].body] = wp.spatial_vector(wp.vec3(a), wp.vec3(alpha))


@wp.func
def center_of(tree: Tree, bodies: Bodies, m: Motion, state: StateArrays, body: int):
    """COM of a body at the start of the step [m]; the origin for the world."""
    center = wp.vec3d()
    if body >= 0:
        link = tree.bodies[body].link
        if link >= 0:
            center = m.com[link]
        else:  # no joint moves it
            center = to_vec3d(wp.transform_point(state.body_q[body], bodies.com[body]))
    return center


@wp.kernel
def observe_contact_forces(
    tree: Tree,
    bodies: Bodies,
    m: Motion,
    pool: ContactPool,
    state: StateArrays,
    dt: wp.float64,
    contact_f: wp.array[wp.spatial_vector],
):
    """Force on shape 0's body by shape 1's and its torque about that body's COM; other rows stay zero."""
    block, lane = wp.tid()
    g = tree.first_group + block
    start = pool.group_start[g]
    for slot in range(start + lane, start + pool.group_count[g], wp.block_dim()):
        if pool.spin_of[slot] >= 0:
            moment = wp.spatial_vector(wp.vec3(), wp.vec3(-pool.gamma[slot] / dt))
            wp.atomic_add(contact_f, row_of(pool.row[slot]), moment)
            continue
        force = -pool.gamma[slot] / dt
        center = center_of(tree, bodies, m, state, pool.body_a[slot])
        torque = wp.cross(pool.point_a[slot] - center, force)
        wp.atomic_add(contact_f, row_of(pool.row[slot]), wp.spatial_vector(wp.vec3(force), wp.vec3(torque)))


@wp.func
def carries(tree: Tree, table: CouplingTable, c: int):
    """Whether a coupling is a rod at whose end a body hangs that no joint moves: then that is the body's inbound joint."""
    return table.kind[c] == ROD and tree.links[tree.bodies[table.body_b[c]].link].joint < 0


@wp.func
def tendon_impulse(tree: Tree, table: CouplingTable, couplers: CouplerPool, c: int, body: int):
    """What the laws of a tendon that runs along a path gave one body."""
    gamma = wp.float64(0.0)
    for row in range(ROWS * c, ROWS * c + ROWS):
        if couplers.support[row] > 0:
            gamma += couplers.gamma[row]
    return gamma * path_wrench(tree, table.tendons, table.source_row[c], body)


@wp.func
def tied_tendons_impulse(tree: Tree, table: CouplingTable, couplers: CouplerPool, c: int, body: int):
    """What an equality of tendons that run along paths gave one body."""
    row = ROWS * c
    wrench = wp.spatial_vectord()
    if couplers.support[row] > 0:
        wrench = couplers.gamma[row] * path_wrench(tree, table.tendons, table.dof_a[c], body)
        if table.dof_b[c] >= 0:
            led = couplers.slope[row] * couplers.gamma[row]
            wrench = wrench - led * path_wrench(tree, table.tendons, table.dof_b[c], body)
    return wrench


@wp.func
def closure_impulse(tree: Tree, table: CouplingTable, couplers: CouplerPool, g: int, body: int):
    """What loop closures, equality constraints and tendons along paths gave one body."""
    total = wp.spatial_vectord()
    for c in range(table.group_start[g], table.group_start[g + 1]):
        if table.kind[c] == TENDON:
            total = total + tendon_impulse(tree, table, couplers, c, body)
        elif table.kind[c] == TENDON_LENGTHS:
            total = total + tied_tendons_impulse(tree, table, couplers, c, body)
        elif table.kind[c] == ROUTE:
            if table.axis[c] == 0:
                total = total + route_impulse(table.routes, couplers, table.source_row[c], body)
        elif closes_loop(tree, table, c):
            for row in range(ROWS * c, ROWS * c + ROWS):
                if couplers.support[row] > 0:
                    if table.body_a[c] == body:
                        total = total - couplers.covector[row] * couplers.gamma[row]
                    if table.body_b[c] == body and not carries(tree, table, c):
                        total = total + couplers.covector[row] * couplers.gamma[row]
    return total


@wp.func
def slot_wrench(pool: ContactPool, slot: int, point: wp.vec3d):
    """Impulse of a slot on body B about the world origin: a force through a point, or a moment."""
    if pool.spin_of[slot] >= 0:
        return wrench_at(wp.vec3d(), pool.gamma[slot], point)
    return wrench_at(pool.gamma[slot], wp.vec3d(), point)


@wp.func
def joint_impulse(
    tree: Tree, bodies: Bodies, table: CouplingTable, m: Motion, pools: Pools, link: int, V: wp.spatial_vectord
):
    """Momentum one body gained beyond free motion, contacts and closures: what its tree joints gave it.

    What no world owns and no unknown moves is touched in any group.
    """
    pool = pools.contacts
    body = tree.links[link].body
    mass = wp.float64(bodies.mass[body])
    inertia = inertia_about_origin(mass, m.com[link], m.rotation[link], to_mat33d(bodies.inertia[body]))
    gained = inertia_times(mass, mass * m.com[link], inertia, V)
    first = tree.trees[tree.links[link].tree].group
    end = first + 1
    if bodies.world[body] < 0 and not is_moved(tree, m, link):
        first = 0
        end = pool.group_start.shape[0]
    for g in range(first, end):
        for slot in range(pool.group_start[g], pool.group_start[g] + pool.group_count[g]):
            if shown(pool.link_a[slot]) == link:
                gained = gained + slot_wrench(pool, slot, pool.point_a[slot])
            if shown(pool.link_b[slot]) == link:
                gained = gained - slot_wrench(pool, slot, pool.point_b[slot])
        gained = gained - closure_impulse(tree, table, pools.couplers, g, body)
    return gained


@wp.kernel
def observe_parent_wrenches(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    table: CouplingTable,
    m: Motion,
    motion_after: Motion,
    pools: Pools,
    orders: Orders,
    efforts: Efforts,
    dt: wp.float64,
    body_parent_f: wp.array[wp.spatial_vector],
):
    """Wrench through each body's inbound joint about its COM: what the subtree gained, less its own forces.

    A body that no joint moves keeps its zero, unless it hangs on rods.
    """
    t = tree.first_tree + wp.tid()
    start = tree.trees[t].link_start
    end = tree.trees[t + 1].link_start
    for link in range(start, end):
        V = wp.spatial_vectord()
        for p in range(tree.links[link].path_start, tree.links[link + 1].path_start):
            dof = tree.path_dof[p]
            V += m.column[dof] * m.v[dof]
        motion_after.momentum[link] = joint_impulse(tree, bodies, table, m, pools, link, V)
    for up in range(end - start):
        link = end - 1 - up
        above = tree.links[link].parent
        if above >= 0:
            motion_after.momentum[above] = motion_after.momentum[above] + motion_after.momentum[link]
        through = (motion_after.momentum[link] - m.momentum[link]) / dt
        joint = tree.links[link].joint
        # A free joint's own effort passes through the joint, a rod's through the rod.
        if joint < 0:
            if not has_pushes(tree, link):
                continue  # nothing but roundoff
            through = through + wrench_of_pushes(tree, joints, m, orders, efforts, link)
        elif is_free(joints.type[joint]) and efforts.joint_f.shape[0] > 0:
            through = through + wrench_of_joint_f(joints, m, orders, efforts, joint, link)
        force = linear(through)
        torque = angular(through) - wp.cross(m.com[link], force)
        body = tree.links[link].body  # which has what motors of the joint itself gave it
        body_parent_f[body] = body_parent_f[body] + wp.spatial_vector(wp.vec3(force), wp.vec3(torque))
