"""The exact line search of the reference."""

from __future__ import annotations


def line_search(evaluate, slope0, options, tolerance, alpha_max=1.5):
    """Return the step length that zeroes the slope: Newton's method from the full step, bisected where it is slow or leaves
    the bracket.

    Args:
        evaluate: ``alpha -> (cost, slope, curvature)``.
        slope0: Slope at zero, must be negative.
        options: Tolerances (:class:`newton_sap.config.SAPOptions`).
        tolerance: Relative tolerance on slope and step length [-].
        alpha_max: Largest step length.
    """
    if not slope0 < 0.0:
        raise FloatingPointError(f"the Newton direction does not descend (slope {slope0})")
    if -slope0 < options.cost_abs + options.cost_rel * abs(evaluate(0.0)[0]):
        return 1.0
    low, high, alpha = 0.0, alpha_max, 1.0
    step = previous = alpha_max
    for _ in range(options.line_search_max_iterations):
        _, slope, curvature = evaluate(alpha)
        low, high = (alpha, high) if slope < 0.0 else (low, alpha)
        if abs(slope) < tolerance * -slope0 or low == alpha_max:
            break
        target = alpha - slope / curvature
        too_slow = 2.0 * abs(slope) > abs(previous * curvature)
        if (low, high) == (1.0, alpha_max) and target >= high:
            target = alpha_max
        elif too_slow or not low < target < high:
            target = 0.5 * (low + high)
        previous, step = step, target - alpha
        alpha = target
        if abs(step) < tolerance:
            break
    return alpha
