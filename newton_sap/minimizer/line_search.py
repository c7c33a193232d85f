"""Exact line search: the root of the slope l'(alpha) along v + alpha dv by safeguarded Newton (F 3.3)."""

from functools import cache

import warp as wp

from ..constraints.clamped_linear import clamped_linear
from ..constraints.response import contact_line, line_slopes, line_vt_squared
from ..linalg.lanes import sync, total
from ..workspace import ContactPool, CouplerPool, Pools, Problem, RowPool
from .objective import Range, contact_velocity, coupler_velocity
from .settings import EASY, Settings

wp.set_module_options({"enable_backward": False})

ALPHA_MAX = wp.constant(wp.float64(1.5))

# How a search ends.
FOUND = wp.constant(0)
SEARCHING = wp.constant(1)
NO_DESCENT = wp.constant(2)


@wp.struct
class Slope:
    """First and second derivative of the cost along the line."""

    first: wp.float64
    second: wp.float64


@wp.struct
class Line:
    """What a search starts from."""

    slope: wp.float64  # l'(0) = grad.dv, which a descent direction makes negative
    quadratic: Slope  # at the start, constraints left out


@wp.struct
class Step:
    """A step length; the last one tried where the search ends in ``SEARCHING``."""

    alpha: wp.float64
    evaluations: int
    status: int


@wp.func
def prepare_line(pools: Pools, problem: Problem, at: Range):
    """The lines of every constraint whose J has more than one entry."""
    for c in range(at.lane, at.contacts, at.lanes):
        slot = at.contact_start + c
        dvc = contact_velocity(pools.contacts, problem.dv, slot, at.base)
        pools.contacts.line[slot] = contact_line(pools.contacts.normal[slot], pools.contacts.vc[slot], dvc)
    for i in range(at.coupler_start + at.lane, at.coupler_start + at.couplers, at.lanes):
        r = pools.couplers.order[i]
        pools.couplers.dvc[r] = coupler_velocity(pools.couplers, problem.dv, r, at.base)
    sync()


@wp.func
def add_row_slopes(pool: RowPool, problem: Problem, at: Range, alpha: wp.float64, slope: Slope):
    """-dvc gamma and dvc^2 G of this lane's scalar rows."""
    for r in range(at.row_start + at.lane, at.row_start + at.rows, at.lanes):
        u = at.base + pool.unknown[r]
        law = pool.law[r]
        dv = law.sign * problem.dv[u]
        vc = law.sign * problem.v[u] + alpha * dv
        response = clamped_linear(vc, law)
        slope.first = slope.first - dv * response.gamma
        slope.second = slope.second + dv * dv * response.G
    return slope


@wp.func
def add_coupler_slopes(pool: CouplerPool, at: Range, alpha: wp.float64, slope: Slope):
    """-dvc gamma and dvc^2 G of this lane's coupler rows."""
    for i in range(at.coupler_start + at.lane, at.coupler_start + at.couplers, at.lanes):
        r = pool.order[i]
        dv = pool.dvc[r]
        response = clamped_linear(pool.vc[r] + alpha * dv, pool.law[r])
        slope.first = slope.first - dv * response.gamma
        slope.second = slope.second + dv * dv * response.G
    return slope


@wp.func
def begin_line(problem: Problem, at: Range):
    """The line at its start, and what needs no constraint of its derivatives: (v - v*).A dv and dv.A dv."""
    slope = wp.float64(0.0)
    first = wp.float64(0.0)
    second = wp.float64(0.0)
    for u in range(at.base + at.lane, at.base + at.unknowns, at.lanes):
        dv = problem.dv[u]
        slope += (problem.excess[u] - problem.impulse[u]) * dv
        first += problem.excess[u] * dv
        second += problem.dp[u] * dv
    line = Line()
    line.slope = total(slope)
    line.quadratic.first = total(first)
    line.quadratic.second = total(second)
    return line


@cache
def line_search(evaluate_contact):
    """Return the device function of the exact line search under a contact law."""

    @wp.func
    def add_contact_slopes(pool: ContactPool, at: Range, alpha: wp.float64, slope: Slope):
        """-dvc.gamma and dvc.G dvc of this lane's contacts."""
        for c in range(at.lane, at.contacts, at.lanes):
            slot = at.contact_start + c
            line = pool.line[slot]
            response = evaluate_contact(pool, slot, line.vn + alpha * line.dvn, line_vt_squared(line, alpha))
            first, second = line_slopes(response, line, alpha)
            slope.first = slope.first + first
            slope.second = slope.second + second
        return slope

    @wp.func
    def slope_at(pools: Pools, problem: Problem, at: Range, line: Line, alpha: wp.float64):
        """l'(alpha) = dp.(v(alpha) - v*) - dvc.gamma(alpha), with its derivative."""
        share = Slope()
        share = add_contact_slopes(pools.contacts, at, alpha, share)
        share = add_row_slopes(pools.rows, problem, at, alpha, share)
        share = add_coupler_slopes(pools.couplers, at, alpha, share)
        here = Slope()
        here.first = line.quadratic.first + alpha * line.quadratic.second + total(share.first)
        here.second = line.quadratic.second + total(share.second)
        return here

    @wp.func
    def find_root(
        pools: Pools,
        problem: Problem,
        at: Range,
        line: Line,
        settings: Settings,
        accuracy: wp.float64,
    ):
        """Root of f(alpha) = l'(alpha) / -l'(0): Newton from the full step, bisected where it is slow or leaves the
        bracket. The full step itself is the root wherever the cost is quadratic between here and there."""
        step = Step()
        low = wp.float64(0.0)
        high = wp.float64(ALPHA_MAX)
        step.alpha = wp.float64(1.0)
        step.status = SEARCHING
        last = ALPHA_MAX
        before_last = ALPHA_MAX
        while step.status == SEARCHING and step.evaluations < settings.line_search_iterations:
            here = slope_at(pools, problem, at, line, step.alpha)
            step.evaluations += 1
            f = here.first / -line.slope
            df = here.second / -line.slope
            if f < wp.float64(0.0):
                low = step.alpha
            else:
                high = step.alpha
            if wp.abs(f) < accuracy or low == ALPHA_MAX:
                step.status = FOUND
            else:
                change = -f / df
                target = step.alpha + change
                if low == wp.float64(1.0) and high == ALPHA_MAX and target >= high:
                    target = ALPHA_MAX
                elif wp.float64(2.0) * wp.abs(f) > wp.abs(before_last * df) or target <= low or target >= high:
                    target = wp.float64(0.5) * (low + high)
                change = target - step.alpha
                before_last = last
                last = change
                step.alpha = target
                if wp.abs(change) < accuracy:
                    step.status = FOUND
        return step

    @wp.func
    def search(pools: Pools, problem: Problem, at: Range, settings: Settings, cost: wp.float64, iterations: int):
        """The step length that minimises the cost along dv."""
        accuracy = settings.line_search
        if iterations < EASY:
            accuracy = settings.line_search_rough
        line = begin_line(problem, at)
        step = Step()
        step.alpha = wp.float64(1.0)
        roundoff = settings.cost_abs + settings.cost_rel * wp.abs(cost)
        if not line.slope < wp.float64(0.0):
            if not wp.abs(line.slope) <= roundoff:
                step.status = NO_DESCENT
            return step
        if -line.slope < roundoff:
            return step
        prepare_line(pools, problem, at)
        return find_root(pools, problem, at, line, settings, accuracy)

    return search
