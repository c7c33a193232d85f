"""Where a cluster's minimisation stands, and what its current value asks for: a step, other bounds, other stiffness, an end."""

import warp as wp

from ..linalg.lanes import sync
from ..workspace import ContactPool, Pools, Problem, Tree
from .continuation import STIFFER, Stage, first_stage, next_stage, stiffen
from .friction_bound import LAST_RENEWALS, READABLE, far_off, renew_bounds, renewal_due
from .islands import has_islands, note_readable
from .line_search import NO_DESCENT, Step
from .objective import Range, Value, trees_settled
from .settings import EASY, LEAST_ACCURACY, Settings

wp.set_module_options({"enable_backward": False})

# Why a cluster's iteration ended; ``diagnostics.REASONS`` names them.
UNCONSTRAINED = wp.constant(0)
OPTIMAL = wp.constant(1)
COST = wp.constant(2)
ITERATION_LIMIT = wp.constant(3)
STALLED = wp.constant(4)
NON_FINITE = wp.constant(5)
GOES_ON = wp.constant(-1)
"""In place of a reason."""


@wp.struct
class Progress:
    """Where a cluster's minimisation stands."""

    reason: int
    iterations: int
    evaluations: int  # of the slope along all lines
    cost: wp.float64  # at the iterate before
    alpha: wp.float64  # the last step's length; zero where the cost before was another problem's
    wants_step: bool  # rather than the same iterate's value under other bounds or stiffness
    wants_bounds: bool  # whether friction bounds are to be renewed before the next value
    by_island: bool  # of readable islands only
    renewals: int
    asked: int  # how many minima were asked for their bounds
    looked: bool  # whether an iterate close to the minimum was asked for sleeping rows
    bounced: bool  # whether surfaces have met and are to part
    spent: int  # iterations until they had met
    woken: int  # iterations until sleeping contacts were woken, which may take as many again
    stage: Stage


@wp.func
def begin(at: Range):
    """Before the first value."""
    now = Progress()
    now.stage = first_stage()
    now.reason = UNCONSTRAINED
    if at.unknowns > 0:
        now.reason = GOES_ON
    return now


@wp.func
def cost_settled(value: Value, now: Progress, settings: Settings):
    """Drake's second test: the cost no longer changes although the step was not short."""
    size = wp.float64(0.5) * (wp.abs(value.cost) + wp.abs(now.cost))
    settled = wp.abs(value.cost - now.cost) < settings.cost_abs + settings.cost_rel * size
    return now.iterations > 0 and settled and now.alpha > wp.float64(0.5)


@wp.func
def verdict(problem: Problem, at: Range, value: Value, now: Progress, settings: Settings):
    """Why the iteration ends at this value, or that it goes on."""
    if not (wp.isfinite(value.residual) and wp.isfinite(value.cost)):
        return NON_FINITE
    if value.residual <= settings.optimality_abs + settings.optimality_rel * value.scale:
        if trees_settled(problem, at, settings, wp.float64(0.0)):
            return OPTIMAL
    if cost_settled(value, now, settings):
        if value.residual <= settings.optimality_abs + settings.optimality_rough * value.scale:
            return COST
        if now.iterations >= EASY:
            return STALLED  # rounding left no direction that leads on, not even exact steps
    if now.iterations - now.woken >= settings.max_iterations:
        return ITERATION_LIMIT
    return GOES_ON


@wp.func
def judge(tree: Tree, pools: Pools, problem: Problem, at: Range, value: Value, now: Progress, settings: Settings):
    """Decide at a value how the minimisation goes on; a change of stiffness is made here, too."""
    now.reason = verdict(problem, at, value, now, settings)
    converged = now.reason == OPTIMAL or now.reason == COST
    islands = has_islands(at)
    now.wants_bounds = renewal_due(value, now.renewals, islands, settings)
    now.by_island = False
    if converged:
        now.wants_bounds = False
        # A solve that has taken long is asked once: the next ones take as long.
        if now.asked == 0 or (now.asked < LAST_RENEWALS and 4 * now.iterations < settings.max_iterations):
            now.wants_bounds = far_off(tree, pools, problem, at, settings, now.asked > 0)
        now.asked += 1
    elif now.wants_bounds and islands:
        note_readable(tree, pools, problem, at, READABLE)
        now.by_island = True
    softness = now.stage.softness
    if converged or now.reason == GOES_ON:
        now.stage = next_stage(pools.contacts, at, now.stage, value, converged, now.iterations, settings)
    elif softness < wp.float64(1.0):  # ended too early: the answer is judged by the problem as given
        now.stage = stiffen(pools.contacts, at, now.stage, wp.float64(1.0) / softness)
    restaged = now.stage.softness != softness
    if restaged:
        now.alpha = wp.float64(0.0)
    if restaged or (converged and now.wants_bounds):
        now.reason = GOES_ON  # once more from here
        now.wants_step = False
    else:
        now.wants_step = now.reason == GOES_ON
        now.cost = value.cost
    return now


@wp.func
def look_due(value: Value, now: Progress):
    """Whether sleeping rows are to be looked at: at every end, and once before it where that is long in coming."""
    close = value.residual <= LEAST_ACCURACY * value.scale
    ended = now.reason != GOES_ON and now.reason != NON_FINITE
    return ended or (close and now.iterations >= EASY and not now.looked)


@wp.func
def go_on(now: Progress):
    """Once more from the same iterate, with another problem, whose friction bounds are other ones."""
    now.reason = GOES_ON
    now.wants_step = False
    now.wants_bounds = False
    now.renewals = 0
    now.asked = 0
    now.looked = False
    now.alpha = wp.float64(0.0)
    return now


@wp.func
def take_bounds(tree: Tree, pool: ContactPool, problem: Problem, at: Range, now: Progress, settings: Settings):
    """Take the friction bounds from the iterate."""
    renew_bounds(tree, pool, problem, at, now.by_island, settings)
    now.renewals += 1
    now.alpha = wp.float64(0.0)
    return now


@wp.func
def advance(problem: Problem, at: Range, alpha: wp.float64):
    """v += alpha dv, and its product with A along with it."""
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        problem.v[u] = problem.v[u] + alpha * problem.dv[u]
        problem.excess[u] = problem.excess[u] + alpha * problem.dp[u]
    sync()


@wp.func
def take_step(pool: ContactPool, problem: Problem, at: Range, now: Progress, step: Step):
    """v += alpha dv; where no step leads down, go on with a stiffer stage or end."""
    now.evaluations += step.evaluations
    if step.status != NO_DESCENT:
        advance(problem, at, step.alpha)
        now.alpha = step.alpha
        now.iterations += 1
    elif now.stage.softness < wp.float64(1.0):
        now.stage = stiffen(pool, at, now.stage, STIFFER)
        now.alpha = wp.float64(0.0)
    else:
        now.reason = STALLED
    return now
