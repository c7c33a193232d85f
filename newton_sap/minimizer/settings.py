"""What the minimiser is told: tolerances, limits, and how long a solve counts as an easy one."""

import warp as wp

wp.set_module_options({"enable_backward": False})

EASY = wp.constant(10)
"""Iterations within which nearly all solves end. A longer one takes exact steps."""
LEAST_ACCURACY = wp.constant(wp.float64(1.0e-3))
"""Residual over scale of each tree, beside the tolerance for the cluster; bites where one outweighs another a thousand times.
And of the cluster where only its cost tells that it is done, or to look at sleeping rows."""
ROUGH = 0.25
"""Power of the line search's tolerance that those solves search to."""


@wp.struct
class Settings:
    """Options of the solver as the minimiser reads them."""

    max_iterations: int
    patience: int  # iterations after which contacts are softened for a while; negative for never
    optimality_abs: wp.float64  # [sqrt(J)]
    optimality_rel: wp.float64
    optimality_rough: wp.float64  # the same, but no less than LEAST_ACCURACY
    cost_abs: wp.float64  # [J]
    cost_rel: wp.float64
    line_search_iterations: int
    line_search: wp.float64
    line_search_rough: wp.float64  # the same, in the first iterations
    lagged: int  # 1 where the friction of contacts has bounds, not that of spins alone
    renewals: int  # how often friction bounds may be renewed; 0 for never
    stiction_tolerance: wp.float64  # [m/s]
    stiction_limit: wp.float64  # the most that heavy loads make of it [m/s]
