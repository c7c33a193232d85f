"""Exact line search: the root of the slope l'(alpha) along v + alpha dv by safeguarded Newton (F 3.3)."""

from functools import cache

import warp as wp

from ..constraints.clamped_linear import clamped_linear
from ..workspace import ContactPool, Problem, RowPool
from .lanes import sync, total
from .objective import Range, contact_velocity

wp.set_module_options({"enable_backward": False})

ALPHA_MAX = wp.constant(wp.float64(1.5))


@wp.struct
class Tolerances:
    """When the Newton loop and its line search stop."""

    max_iterations: int
    optimality_abs: wp.float64
    optimality_rel: wp.float64
    cost_abs: wp.float64
    cost_rel: wp.float64
    line_search_iterations: int
    line_search: wp.float64


@wp.struct
class Slope:
    """First and second derivative of the cost along the line."""

    first: wp.float64
    second: wp.float64


@wp.struct
class Step:
    """Accepted step length; ``status`` is 0 accepted, 1 no root found, 2 not a descent direction."""

    alpha: wp.float64
    evaluations: int
    status: int


@wp.func
def prepare_line(pool: ContactPool, rows: RowPool, problem: Problem, at: Range):
    """dvc = J dv of every constraint."""
    for c in range(at.lane, at.contacts, at.lanes):
        slot = pool.order[at.contact_start + c]
        pool.dvc[slot] = contact_velocity(pool, problem.dv, slot, at.base)
    for r in range(at.row_start + at.lane, at.row_start + at.rows, at.lanes):
        rows.dvc[r] = rows.sign[r] * problem.dv[at.base + rows.unknown[r]]
    sync()


@wp.func
def quadratic_part(problem: Problem, at: Range):
    """dp.(v - v*) and dp.dv: the part of the line that needs no constraint."""
    first = wp.float64(0.0)
    second = wp.float64(0.0)
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        first += problem.dp[u] * (problem.v[u] - problem.v_star[u])
        second += problem.dp[u] * problem.dv[u]
    line = Slope()
    line.first = total(first)
    line.second = total(second)
    return line


@wp.func
def initial_slope(problem: Problem, at: Range):
    """l'(0) = grad.dv, which a descent direction makes negative."""
    slope = wp.float64(0.0)
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        slope += (problem.excess[u] - problem.impulse[u]) * problem.dv[u]
    return total(slope)


@cache
def line_search(evaluate_contact):
    """Return the device function of the exact line search under a contact law."""

    @wp.func
    def slope_at(pool: ContactPool, rows: RowPool, at: Range, line: Slope, alpha: wp.float64):
        """l'(alpha) = dp.(v(alpha) - v*) - dvc.gamma(alpha), with its derivative."""
        first = wp.float64(0.0)
        second = wp.float64(0.0)
        for c in range(at.lane, at.contacts, at.lanes):
            slot = pool.order[at.contact_start + c]
            dvc = pool.dvc[slot]
            response = evaluate_contact(pool, slot, pool.vc[slot] + alpha * dvc)
            first -= wp.dot(dvc, response.gamma)
            second += wp.dot(dvc, response.G * dvc)
        for r in range(at.row_start + at.lane, at.row_start + at.rows, at.lanes):
            dv = rows.dvc[r]
            scalar = clamped_linear(rows.vc[r] + alpha * dv, rows.v_hat[r], rows.R[r], rows.lower[r], rows.upper[r])
            first -= dv * scalar.gamma
            second += dv * dv * scalar.G
        here = Slope()
        here.first = line.first + alpha * line.second + total(first)
        here.second = line.second + total(second)
        return here

    @wp.func
    def find_root(
        pool: ContactPool, rows: RowPool, at: Range, line: Slope, slope0: wp.float64, guess: wp.float64, tol: Tolerances
    ):
        """Root of f(alpha) = l'(alpha) / -l'(0) on [0, ALPHA_MAX]: Newton, bisected where it is slow or leaves the bracket."""
        step = Step()
        low = wp.float64(0.0)
        high = wp.float64(ALPHA_MAX)
        step.alpha = guess
        step.status = 1
        last = ALPHA_MAX
        before_last = ALPHA_MAX
        while step.status == 1 and step.evaluations < tol.line_search_iterations:
            here = slope_at(pool, rows, at, line, step.alpha)
            step.evaluations += 1
            f = here.first / -slope0
            df = here.second / -slope0
            if f < wp.float64(0.0):
                low = step.alpha
            else:
                high = step.alpha
            if wp.abs(f) < tol.line_search:
                step.status = 0
            else:
                change = -f / df
                target = step.alpha + change
                if wp.float64(2.0) * wp.abs(f) > wp.abs(before_last * df) or target <= low or target >= high:
                    target = wp.float64(0.5) * (low + high)
                    change = target - step.alpha
                before_last = last
                last = change
                step.alpha = target
                if wp.abs(change) < tol.line_search * guess:
                    step.status = 0
        return step

    @wp.func
    def search(pool: ContactPool, rows: RowPool, problem: Problem, at: Range, tol: Tolerances, cost: wp.float64):
        """The step length that minimises the cost along dv."""
        slope0 = initial_slope(problem, at)
        step = Step()
        step.alpha = wp.float64(1.0)
        roundoff = tol.cost_abs + tol.cost_rel * wp.abs(cost)
        if not slope0 < wp.float64(0.0):
            if not wp.abs(slope0) <= roundoff:
                step.status = 2
            return step
        prepare_line(pool, rows, problem, at)
        line = quadratic_part(problem, at)
        step.evaluations = 1
        end = slope_at(pool, rows, at, line, ALPHA_MAX)
        if end.first <= wp.float64(0.0):
            step.alpha = ALPHA_MAX
            return step
        if -slope0 < roundoff:
            return step
        guess = wp.min(-slope0 / end.second, ALPHA_MAX)
        step = find_root(pool, rows, at, line, slope0, guess, tol)
        step.evaluations += 1
        return step

    return search
