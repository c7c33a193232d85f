"""The step's convex problem, cluster by cluster: which trees take part, their unknowns, the rows and contact Jacobians."""

import warp as wp

from .constraints.axis_laws import JointInput
from .constraints.clamped_linear import near_rigid
from .constraints.joint_rows import link_rows
from .constraints.lagged import bound_friction
from .constraints.restitution import NO_REBOUND, apply_restitution
from .contacts.compliance import effective_weight, regularize_contact
from .contacts.materials import ContactOptions
from .linalg.cholesky import widen_skyline
from .linalg.lanes import REGISTERS, sync
from .minimizer.objective import contact_velocity, mass_times
from .minimizer.ranges import entries_of
from .multibody.efforts import gravity_of
from .multibody.mass_matrix import diagonal_entry
from .multibody.spatial import angular, velocity_at
from .runtime.packed import pack_motion, pack_pools, pack_problem, pack_tree
from .runtime.prefetch import fetch_cluster
from .unknowns import cluster_tree
from .workspace import ROWS_PER_DOF, Bodies, ContactPool, Joints, Motion, Pools, Problem, RowPool, Tree

wp.set_module_options({"enable_backward": False})

RESOLUTION = wp.constant(wp.float64(1.0e-5))
"""Of the momentum at the start of a step, beside what changes of it in the step; far above what rounding makes of it."""
NO_UNKNOWN = wp.constant(2**31 - 1)
"""After all unknowns."""
UNTOUCHED = wp.constant(-1)


@wp.struct
class StepInput:
    """What the rows of this step depend on besides the model and the motion."""

    joints: JointInput
    contacts: ContactOptions
    dt: wp.float64


@wp.func
def mark_tree(tree: Tree, problem: Problem, link: int):
    """Note that a constraint touches the link's tree."""
    if link >= 0:
        problem.tree_start[tree.links[link].tree] = 0


@wp.func
def gather_rows(
    tree: Tree,
    joints: Joints,
    m: Motion,
    pools: Pools,
    problem: Problem,
    step: JointInput,
    k: int,
    dt: wp.float64,
):
    """All scalar rows of a cluster, tree after tree; sleeping ones from the end on.

    A row that takes part touches its tree, as do couplings.
    """
    trees = problem.clusters.entry[k].trees
    start = ROWS_PER_DOF * problem.clusters.entry[k].dof_start
    last = ROWS_PER_DOF * problem.clusters.entry[k + trees].dof_start - 1
    at = wp.vec2i(start, last)
    for i in range(trees):
        t = cluster_tree(problem, k, trees, i)
        problem.tree_start[t] = UNTOUCHED
        before = at[0]
        for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
            at = link_rows(tree, joints, m, pools.rows, step, link, at, dt)
        if at[0] > before or pools.couplers.touched[t] == 1:
            problem.tree_start[t] = 0
    problem.clusters.entry[k].rows = at[0] - start
    problem.clusters.entry[k].rows_asleep = last - at[1]


@wp.func
def number_unknowns(tree: Tree, m: Motion, problem: Problem, k: int):
    """Number the free dofs of touched trees through; start from the old velocity."""
    trees = problem.clusters.entry[k].trees
    base = problem.clusters.entry[k].dof_start
    n = int(0)
    for of_cluster in range(trees):
        t = cluster_tree(problem, k, trees, of_cluster)
        first = tree.trees[t].dof_start
        size = tree.trees[t + 1].dof_start - first
        locked = m.locked[t]
        if problem.tree_start[t] != UNTOUCHED:
            problem.tree_start[t] = n
            for i in range(locked, size):
                u = base + n + i - locked
                problem.dof[u] = first + i
                problem.block[u] = n
                problem.block_end[u] = n + size - locked
                problem.last[u] = n + tree.dof_last[first + i] - first - locked
                problem.A_row[u] = tree.trees[t].block_start + i * size + locked
                problem.v[u] = m.v0[first + i]
                problem.v_star[u] = m.v_star[first + i]
                problem.scale[u] = wp.float64(1.0) / wp.sqrt(m.A[diagonal_entry(tree, t, first + i)])
                problem.row_start[u] = 0
                problem.row_end[u] = 0
            n += size - locked
    problem.clusters.entry[k].unknowns = n


@wp.func
def shift_of(tree: Tree, m: Motion, problem: Problem, t: int):
    """How far the problem indices of a touched tree's free dofs are from their own."""
    return problem.tree_start[t] - tree.trees[t].dof_start - m.locked[t]


@wp.func
def number_rows(tree: Tree, m: Motion, rows: RowPool, problem: Problem, k: int):
    """Point rows at unknowns and unknowns at their rows."""
    trees = problem.clusters.entry[k].trees
    base = problem.clusters.entry[k].dof_start
    r = ROWS_PER_DOF * base
    end = r + problem.clusters.entry[k].rows
    for i in range(trees):
        t = cluster_tree(problem, k, trees, i)
        shift = base + shift_of(tree, m, problem, t)
        while r < end and rows.unknown[r] < tree.trees[t + 1].dof_start:
            u = rows.unknown[r] + shift
            rows.unknown[r] = u - base
            if problem.row_end[u] == 0:
                problem.row_start[u] = r
            problem.row_end[u] = r + 1
            r += 1


@wp.func
def number_sleeping_rows(tree: Tree, m: Motion, rows: RowPool, problem: Problem, k: int):
    """Point sleeping rows at unknowns; those of trees that nothing touches are dropped, for they move freely."""
    last = ROWS_PER_DOF * problem.clusters.entry[k + problem.clusters.entry[k].trees].dof_start - 1
    kept = int(last)
    for down in range(problem.clusters.entry[k].rows_asleep):
        r = last - down
        dof = rows.unknown[r]
        t = tree.links[tree.dofs[dof].link].tree
        if problem.tree_start[t] != UNTOUCHED:
            rows.unknown[kept] = dof + shift_of(tree, m, problem, t)
            if kept > r:
                rows.law[kept] = rows.law[r]
            kept -= 1
    problem.clusters.entry[k].rows_asleep = last - kept


@wp.func
def contact_column(m: Motion, pool: ContactPool, slot: int, dof: int, point: wp.vec3d):
    """What a unit rate of a dof gives a body there: velocity, or spin in a spin slot."""
    if pool.spin_of[slot] >= 0:
        return angular(m.column[dof])
    return velocity_at(m.column[dof], point)


@wp.struct
class Path:
    """The free dofs that carry a body, from its root on."""

    next: int
    end: int
    shift: int


@wp.func
def free_path(tree: Tree, m: Motion, problem: Problem, link: int):
    """Where a link's path begins; nothing carries the world."""
    path = Path()
    if link >= 0:
        t = tree.links[link].tree
        path.next = tree.links[link].path_start + m.locked[t]
        path.end = tree.links[link + 1].path_start
        path.shift = shift_of(tree, m, problem, t)
    return path


@wp.func
def next_unknown(tree: Tree, path: Path):
    """The unknown that comes next on a path."""
    if path.next < path.end:
        return tree.path_dof[path.next] + path.shift
    return NO_UNKNOWN


@wp.func
def contact_jacobian(tree: Tree, m: Motion, pool: ContactPool, problem: Problem, slot: int, witness: int):
    """Columns of d(v_B - v_A) by ascending unknowns that move the pair; those that carry both bodies cancel at one point."""
    a = free_path(tree, m, problem, pool.link_a[slot])
    b = free_path(tree, m, problem, pool.link_b[slot])
    n = int(0)
    while a.next < a.end or b.next < b.end:
        unknown_a = next_unknown(tree, a)
        unknown_b = next_unknown(tree, b)
        at = slot * pool.stride + n
        if unknown_b < unknown_a:
            pool.J[at] = contact_column(m, pool, slot, tree.path_dof[b.next], pool.point_b[slot])
        elif unknown_a < unknown_b:
            pool.J[at] = -contact_column(m, pool, slot, tree.path_dof[a.next], pool.point_a[slot])
        elif witness == 1:
            of_b = contact_column(m, pool, slot, tree.path_dof[b.next], pool.point_b[slot])
            pool.J[at] = of_b - contact_column(m, pool, slot, tree.path_dof[a.next], pool.point_a[slot])
        if unknown_a != unknown_b or witness == 1:
            pool.unknown[at] = wp.min(unknown_a, unknown_b)
            n += 1
        b.next += int(unknown_b <= unknown_a)
        a.next += int(unknown_a <= unknown_b)
    pool.support[slot] = n


@wp.func
def world_of(tree: Tree, bodies: Bodies, pool: ContactPool, slot: int):
    """The world that a contact is in: that of either body, unless it is global."""
    world = int(-1)
    if pool.link_a[slot] >= 0:
        world = bodies.world[tree.links[pool.link_a[slot]].body]
    if pool.link_b[slot] >= 0:
        world = wp.max(world, bodies.world[tree.links[pool.link_b[slot]].body])
    return world


@wp.func
def prepare_contact(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    pool: ContactPool,
    problem: Problem,
    options: ContactOptions,
    slot: int,
    base: int,
    dt: wp.float64,
):
    """Jacobian, compliance and stabilisation of one contact."""
    contact_jacobian(tree, m, pool, problem, slot, options.witness_points)
    w = effective_weight(tree, joints, bodies, m, pool, problem, options, slot, base)
    vn0 = wp.dot(pool.normal[slot], pool.bias[slot] + contact_velocity(pool, problem.v, slot, base))
    n0 = regularize_contact(pool, options, slot, w, vn0, dt)
    bound_friction(pool, slot, n0, options.stiction_tolerance, options.stiction_limit)
    pool.slowness[slot] = wp.float64(0.0)
    e = pool.rebound[slot]
    pool.rebound[slot] = NO_REBOUND
    if not (e <= wp.float64(0.0)) and pool.spin_of[slot] < 0:
        vn_star = wp.dot(pool.normal[slot], pool.bias[slot] + contact_velocity(pool, problem.v_star, slot, base))
        R_nr = near_rigid(options.rigid_beta, w)
        gravity = wp.length(gravity_of(bodies, world_of(tree, bodies, pool, slot)))
        apply_restitution(pool, slot, e, R_nr, vn0, vn0 - vn_star, options.lead, gravity, dt)
    if pool.link_a[slot] >= 0 and pool.link_b[slot] >= 0:  # one path alone has what comes later in its rows already
        widen_skyline(problem.last, pool.unknown, slot * pool.stride, pool.support[slot], base)


@wp.func
def number_problem(tree: Tree, joints: Joints, m: Motion, pools: Pools, problem: Problem, step: StepInput, k: int):
    """Serial part: gather rows, find the touched trees and number their unknowns."""
    start = problem.clusters.entry[k].contact_start
    count = problem.clusters.entry[k].contacts
    gather_rows(tree, joints, m, pools, problem, step.joints, k, step.dt)
    for i in range(count):
        mark_tree(tree, problem, pools.contacts.link_a[start + i])
        mark_tree(tree, problem, pools.contacts.link_b[start + i])
    number_unknowns(tree, m, problem, k)
    number_rows(tree, m, pools.rows, problem, k)
    number_sleeping_rows(tree, m, pools.rows, problem, k)


@wp.func
def write_excess(m: Motion, problem: Problem, base: int, count: int, lane: int):
    """dp = A v and excess = A (v - v_star)."""
    mass_times(m.A, problem, problem.v, problem.dp, base, count, lane, wp.block_dim())
    mass_times(m.A, problem, problem.v_star, problem.excess, base, count, lane, wp.block_dim())
    for u in range(base + lane, base + count, wp.block_dim()):
        problem.excess[u] = problem.dp[u] - problem.excess[u]


@wp.func
def measure_free_motion(problem: Problem, u: int):
    """What free motion changes of one unknown's momentum, and what that counts in the stopping rule (F 3.2)."""
    change = problem.scale[u] * problem.excess[u]
    floor = RESOLUTION * problem.scale[u] * problem.dp[u]
    problem.change[u] = change * change + floor * floor


@wp.func
def assemble_cluster(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    pools: Pools,
    problem: Problem,
    step: StepInput,
    k: int,
    lane: int,
):
    """Lane 0 of a cluster's block gathers and numbers, all lanes build Jacobians and regularisation."""
    start = problem.clusters.entry[k].contact_start
    count = problem.clusters.entry[k].contacts
    base = problem.clusters.entry[k].dof_start
    if lane == 0:
        number_problem(tree, joints, m, pools, problem, step, k)
    sync()
    for slot in range(start + lane, start + count, wp.block_dim()):
        prepare_contact(tree, joints, bodies, m, pools.contacts, problem, step.contacts, slot, base, step.dt)
    sync()
    for slot in range(start + lane, start + count, wp.block_dim()):
        if pools.contacts.spin_of[slot] >= 0:
            n0 = pools.contacts.n0[pools.contacts.spin_of[slot]]
            pools.contacts.n0[slot] = wp.where(step.contacts.spins_wait == 1, wp.float64(0.0), n0)
            pools.contacts.slip_scale[slot] = step.contacts.stiction_tolerance
    unknowns = problem.clusters.entry[k].unknowns
    write_excess(m, problem, base, unknowns, lane)
    for u in range(base + lane, base + unknowns, wp.block_dim()):
        measure_free_motion(problem, u)


@wp.kernel(cuda_max_registers=REGISTERS)
def assemble_problem(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    pools: Pools,
    problem: Problem,
    step: StepInput,
):
    """One block per cluster, where ``assemble_couplings`` has to add rows before the minimiser begins."""
    block, lane = wp.tid()
    k, end = entries_of(tree, block)
    fetch_cluster(tree, m, pools, problem, end)
    pack_tree(tree)
    pack_motion(m)
    pack_pools(pools)
    pack_problem(problem)
    while k < end and problem.clusters.entry[k].trees > 0:
        assemble_cluster(tree, joints, bodies, m, pools, problem, step, k, lane)
        k += problem.clusters.entry[k].trees


@wp.kernel
def restart_from(tree: Tree, m: Motion, problem: Problem, v: wp.array[wp.float64]):
    """Put the unknowns at a given velocity, with the products that go along."""
    block, lane = wp.tid()
    k, end = entries_of(tree, block)
    while k < end and problem.clusters.entry[k].trees > 0:
        base = problem.clusters.entry[k].dof_start
        unknowns = problem.clusters.entry[k].unknowns
        for i in range(lane, unknowns, wp.block_dim()):
            problem.v[base + i] = v[problem.dof[base + i]]
        sync()
        write_excess(m, problem, base, unknowns, lane)
        k += problem.clusters.entry[k].trees
