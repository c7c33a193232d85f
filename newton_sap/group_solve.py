"""The kernel that finds the velocities of every group: its problem is assembled, then minimised, in one launch."""

from functools import cache

import warp as wp

from .boundary.bundles import StepInput
from .linalg.lanes import sync
from .minimizer.newton import minimizer
from .minimizer.settings import Settings
from .packed import pack_large_groups, pack_motion, pack_pools, pack_problem, pack_tree
from .prefetch import fetch_group
from .problem import assemble_group
from .workspace import Bodies, Joints, LargeGroups, Motion, NoLargeGroups, Pools, Problem, Stats, Tree


@cache
def solve_kernel(evaluate_contact, real, iterative: bool = False, assembles: bool = True):
    """Return the kernel for a contact law, with a Hessian of scalar type ``real``.

    Args:
        iterative: Whether some group is too large for a factored Hessian.
        assembles: Whether the problem is still to be assembled. Where couplings add rows to it, other kernels have done so.
    """
    minimize_group = minimizer(evaluate_contact, real, iterative)
    room = LargeGroups if iterative else NoLargeGroups

    @wp.kernel(enable_backward=False, module="unique")
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
        """One block per group."""
        block, lane = wp.tid()
        g = tree.first_group + block
        fetch_group(tree, m, pools, problem, g + 1)
        pack_tree(tree)
        pack_motion(m)
        pack_pools(pools)
        pack_problem(problem)
        if wp.static(iterative):
            pack_large_groups(large)
        if wp.static(assembles):
            assemble_group(tree, joints, bodies, m, pools, problem, step, g, lane)
            sync()
        minimize_group(tree, m, pools, problem, stats, settings, H, large, g, lane)

    return solve
