"""The kernel that finds the velocities of every cluster: assembly, then Newton's loop of evaluation, tests, direction and line
search, until the cluster is done. One function more around the loop, and large groups take 1.07 of the time."""

from functools import cache

import warp as wp

from .linalg.cholesky import begin_rows
from .linalg.lanes import REGISTERS, sync
from .minimizer.impacts import bounce
from .minimizer.line_search import line_search
from .minimizer.objective import Value, objective
from .minimizer.progress import (
    COST,
    GOES_ON,
    ITERATION_LIMIT,
    NON_FINITE,
    STALLED,
    begin,
    go_on,
    judge,
    look_due,
    take_bounds,
    take_step,
)
from .minimizer.ranges import entries_of, list_couplers, range_of
from .minimizer.record import record
from .minimizer.rounding import only_rounding
from .minimizer.search_direction import search_direction
from .minimizer.settings import Settings
from .minimizer.sleeping_contacts import sleeping_contacts
from .minimizer.sleeping_rows import wake_rows
from .problem import StepInput, assemble_cluster
from .runtime.packed import pack_large_groups, pack_motion, pack_pools, pack_problem, pack_tree
from .runtime.prefetch import fetch_cluster
from .workspace import Bodies, Joints, LargeGroups, Motion, NoLargeGroups, Pools, Problem, Stats, Tree


@cache
def solve_kernel(evaluate_contact, real, iterative: bool = False, long_trees: bool = False, assembles: bool = True):
    """Return the kernel for a contact law, with a Hessian of scalar type ``real``.

    Args:
        iterative: Whether some group is too large for a factored Hessian.
        long_trees: Whether some tree may have many unknowns (``minimizer/added_inertia.py``).
        assembles: Whether the problem is still to be assembled. Where couplings add rows to it, other kernels have done so.
    """
    evaluate = objective(evaluate_contact)
    direction = search_direction(real, iterative, long_trees)
    would_act = sleeping_contacts(evaluate_contact)
    search = line_search(evaluate_contact)
    room = LargeGroups if iterative else NoLargeGroups

    @wp.kernel(enable_backward=False, module="unique", cuda_max_registers=REGISTERS)
    def solve(
        tree: Tree,
        joints: Joints,
        bodies: Bodies,
        m: Motion,
        pools: Pools,
        problem: Problem,
        step: StepInput,
        stats: Stats,
        settings: Settings,
        H: wp.array[real],
        large: room,
    ):
        """v = argmin 1/2 (v - v*)^T A (v - v*) + sum_i l_i(J_i v + b_i); one block per cluster, the first of its
        entries."""
        block, lane = wp.tid()
        k, end = entries_of(tree, block)
        fetch_cluster(tree, m, pools, problem, end)
        pack_tree(tree)
        pack_motion(m)
        pack_pools(pools)
        pack_problem(problem)
        if wp.static(iterative):
            pack_large_groups(large)
        while k < end and problem.clusters.entry[k].trees > 0:
            if wp.static(assembles):
                assemble_cluster(tree, joints, bodies, m, pools, problem, step, k, lane)
                sync()
            at = range_of(tree, problem, k, lane)
            if wp.static(not assembles):
                at.couplers = list_couplers(tree, pools, problem, at)
            if lane == 0:
                begin_rows(problem.last, problem.first, at.base, at.unknowns)
            sync()
            value = Value()
            now = begin(at)
            while now.reason == GOES_ON:
                if now.wants_bounds:
                    now = take_bounds(tree, pools.contacts, problem, at, now, settings)
                value = evaluate(pools, problem, at)
                now = judge(tree, pools, problem, at, value, now, settings)
                if problem.clusters.entry[k].rows_asleep > 0 and look_due(value, now):
                    now.looked = True
                    rows = wake_rows(pools.rows, problem, at)
                    if rows > at.rows:
                        at.rows = rows
                        now = go_on(now)
                if at.asleep > 0 and now.reason != GOES_ON and now.reason != NON_FINITE:
                    if would_act(pools.contacts, problem, at):
                        at.contacts += at.asleep
                        at.asleep = 0
                        now = go_on(now)
                        now.woken = now.iterations
                now = bounce(m, pools.contacts, problem, at, now)
                if now.wants_step:
                    direction(tree, m, H, large, pools, problem, at, now.iterations)
                    length = search(pools, problem, at, settings, value.cost, now.iterations)
                    now = take_step(pools.contacts, problem, at, now, length)
            if now.reason == STALLED or now.reason == ITERATION_LIMIT:
                if only_rounding(pools, problem, at, value, settings):
                    now.reason = COST
            record(tree, m, pools.contacts, problem, stats, at, value, now)
            k += at.trees

    return solve
