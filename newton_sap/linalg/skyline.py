"""How far the rows of a group's Hessian reach."""

import warp as wp

from ..workspace import Problem

wp.set_module_options({"enable_backward": False})


@wp.func
def widen_skyline(problem: Problem, unknown: wp.array[wp.int32], first: int, count: int, base: int):
    """Let the Hessian's rows of a constraint's unknowns reach the last of them."""
    rightmost = int(0)
    for s in range(first, first + count):
        rightmost = wp.max(rightmost, unknown[s])
    for s in range(first, first + count):
        wp.atomic_max(problem.last, base + unknown[s], rightmost)
