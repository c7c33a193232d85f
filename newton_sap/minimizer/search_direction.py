"""The direction of one of Newton's iterations, by factoring or by conjugate gradients."""

from functools import cache

import warp as wp

from ..workspace import LargeGroups, Motion, NoLargeGroups, Pools, Problem, Tree
from .conjugate_gradient import solve_iteratively
from .hessian import newton_direction
from .objective import Range

wp.set_module_options({"enable_backward": False})


@cache
def search_direction(real, iterative: bool, long_trees: bool):
    """Return the device function for ``dv`` and ``dp = A dv``, with conjugate gradients for large groups if there are any."""
    factored = newton_direction(real, long_trees)
    room = LargeGroups if iterative else NoLargeGroups

    @wp.func
    def direction(
        tree: Tree,
        m: Motion,
        H: wp.array[real],
        large: room,
        pools: Pools,
        problem: Problem,
        at: Range,
        iterations: int,
    ):
        if wp.static(iterative):  # no test of the cluster, and no code for the other way, where there is none
            if at.hessian_start < wp.int64(0):
                solve_iteratively(tree, large, m, pools, problem, at, iterations)
            else:
                factored(tree, m, H, pools, problem, at)
        else:
            factored(tree, m, H, pools, problem, at)

    return direction
