"""The clamped-linear law of every scalar row: limits, drives, dry friction, velocity limits (F 2.6).

``gamma = clamp(y, lower, upper)`` with ``y = (v_hat - vc) / R``; the cost is ``R`` times a function that is quadratic
inside the bounds and goes on linearly outside. With a slack, as a velocity limit has, ``vc`` is free near ``v_hat``.
"""

import warp as wp

from ..workspace import RowLaw

wp.set_module_options({"enable_backward": False})


FOUR_PI_SQUARED = wp.constant(wp.float64(39.47841760435743))

RIGID = wp.constant(wp.float64(1.0e30))
"""A stiffness [N/m] so large that only the near-rigid bound counts."""

LEAST_DELAY = wp.constant(wp.float64(4.0e-3))
"""Of near-rigid rows [s]: what a long step leaves open would fly apart in a very short one."""
HARDER = wp.constant(wp.float64(0.03))
"""Share of what friction would be regularised by that is left at least: what a load is at the start may be a wild guess."""


@wp.struct
class ScalarResponse:
    """Cost [J], impulse and slope of one row."""

    cost: wp.float64
    gamma: wp.float64
    G: wp.float64


@wp.func
def clamped_linear(vc: wp.float64, law: RowLaw):
    """Cost, impulse and slope of one row at velocity ``vc``, its sign included."""
    response = ScalarResponse()
    error = law.v_hat - vc
    if wp.abs(error) < law.slack:
        return response
    free = wp.clamp(error, -law.slack, law.slack)
    y = (error - free) / law.R
    response.gamma = wp.clamp(y, law.lower, law.upper)
    # gamma y - gamma^2/2 is y^2/2 inside and its tangent outside.
    response.cost = law.R * response.gamma * (y - wp.float64(0.5) * response.gamma)
    if y > law.lower and y < law.upper:
        response.G = wp.float64(1.0) / law.R
    return response


@wp.func
def is_idle(law: RowLaw, vc: wp.float64):
    """Whether a limit, of position or of velocity, exerts nothing at ``vc``; a NaN is not idle."""
    idle = law.v_hat <= vc
    if law.slack > wp.float64(0.0):
        idle = wp.abs(law.v_hat - vc) < law.slack
    return idle


@wp.func
def rigid_delay(dt: wp.float64):
    """Delay with which near-rigid rows close their errors [s]: by half in a step, by less in a very short one (F 2.2)."""
    return wp.max(dt, LEAST_DELAY)


@wp.func
def near_rigid(beta: wp.float64, w: wp.float64):
    """R_nr = beta^2 w / 4 pi^2, the least that the step resolves (F 2.2)."""
    return beta * beta * w / FOUR_PI_SQUARED


@wp.func
def regularization(dt: wp.float64, k: wp.float64, tau: wp.float64, w: wp.float64, beta: wp.float64):
    """R = max(1/(dt k (dt + tau)), R_nr): compliance, but no stiffer than the step resolves (F 2.2)."""
    R = wp.float64(1.0) / (dt * k * (dt + tau))
    least = near_rigid(beta, w)
    if R < least:  # no wp.max, which would pass over what is no number
        R = least
    return R
