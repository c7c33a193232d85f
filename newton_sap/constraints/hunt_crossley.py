"""Hunt & Crossley's normal law over a time step, shared by the lagged and the similar contact models (F 2.4).

Elastic force ``f(v) = fe0 - dt k v`` at the end of the step, times ``1 - d v``; both factors clamped at zero. Surfaces that part may
have another ``d`` than those that approach.
"""

import warp as wp

from ..workspace import NormalLaw

wp.set_module_options({"enable_backward": False})

RECOVERY_STEPS = wp.constant(wp.float64(10.0))
"""Steps in which rigid surfaces may come out of each other, whatever their dissipation."""
RECOVERY_TIME = wp.constant(wp.float64(0.05))
"""The same in seconds [s], where steps are short: by their number alone, shorter ones would throw them out faster."""
TINY, FAR = wp.constant(wp.float64(1.0e-20)), wp.constant(wp.float64(1.0e30))


@wp.func
def recovering(d: wp.float64, depth: wp.float64, dt: wp.float64):
    """Dissipation [s/m] of rigid surfaces that part: ``1 / d``, above which nothing pushes, is ``depth`` in some time at least.

    Rigid surfaces are in each other for want of a shorter step. What turns brings them further in with every step, and
    sinks where they may not part as fast.
    """
    slowest = wp.max(RECOVERY_STEPS * dt, RECOVERY_TIME)
    if d * depth > slowest:
        return slowest / depth
    return d


@wp.func
def positive(x: wp.float64):
    """x+; what is no number stays so, to be counted, where ``wp.max`` would pass over it."""
    if x < wp.float64(0.0):
        return wp.float64(0.0)
    return x


@wp.func
def dissipation(law: NormalLaw, v: wp.float64):
    """Dissipation [s/m] at a speed."""
    d = law.d
    if v > wp.float64(0.0):
        d = law.parting
    return d


@wp.func
def normal_impulse(law: NormalLaw, v: wp.float64):
    """n(v) = dt (fe0 - dt k v)+ (1 - d v)+."""
    return law.dt * positive(law.fe0 - law.dt * law.k * v) * positive(wp.float64(1.0) - dissipation(law, v) * v)


@wp.func
def normal_slope(law: NormalLaw, v: wp.float64):
    """n'(v), never positive."""
    d = dissipation(law, v)
    elastic = law.fe0 - law.dt * law.k * v
    damping = wp.float64(1.0) - d * v
    if elastic <= wp.float64(0.0) or damping <= wp.float64(0.0):
        return wp.float64(0.0)
    return -law.dt * (law.k * law.dt * damping + d * elastic)


@wp.func
def stretch_cost(law: NormalLaw, d: wp.float64, v: wp.float64, most: wp.float64):
    """The integral of n from v over the ``rise`` to where it vanishes, or over ``most`` of it.

    Both factors of n fall linearly to their values there, none of them negative, so the terms add without cancellation.
    """
    stiffness = law.dt * law.k
    elastic = positive(law.fe0 - stiffness * v)
    damping = positive(wp.float64(1.0) - d * v)
    rise = elastic / (stiffness + TINY)
    undamped = damping / (d + TINY)
    if undamped < rise:
        rise = undamped
    if most < rise:
        rise = most
    elastic = positive(elastic - stiffness * rise)
    damping = positive(damping - d * rise)
    quadratic = wp.float64(0.5) * (elastic * d + stiffness * damping)
    cubic = stiffness * d / wp.float64(3.0)
    return law.dt * rise * (elastic * damping + rise * (quadratic + rise * cubic))


@wp.func
def normal_cost(law: NormalLaw, v: wp.float64):
    """Cost with derivative -n(v), zero once released."""
    approach = positive(-v)
    cost = stretch_cost(law, law.parting, v + approach, FAR)
    if approach > wp.float64(0.0):
        cost += stretch_cost(law, law.d, v, approach)
    return cost
