"""Hunt & Crossley's normal law over a time step, shared by the lagged and the similar contact models (F 2.4).

Elastic force ``f(v) = fe0 - dt k v`` at the end of the step, times ``1 - d v``; both factors clamped at zero.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

TINY = wp.constant(wp.float64(1.0e-20))


@wp.struct
class NormalLaw:
    """One contact's normal law."""

    fe0: wp.float64  # elastic force at the start of the step, negative while open [N]
    k: wp.float64  # [N/m]
    d: wp.float64  # dissipation [s/m]
    dt: wp.float64  # [s]


@wp.func
def positive(x: wp.float64):
    """x+; what is no number stays so, to be counted, where ``wp.max`` would pass over it."""
    if x < wp.float64(0.0):
        return wp.float64(0.0)
    return x


@wp.func
def normal_impulse(law: NormalLaw, v: wp.float64):
    """n(v) = dt (fe0 - dt k v)+ (1 - d v)+."""
    return law.dt * positive(law.fe0 - law.dt * law.k * v) * positive(wp.float64(1.0) - law.d * v)


@wp.func
def normal_slope(law: NormalLaw, v: wp.float64):
    """n'(v), never positive."""
    elastic = law.fe0 - law.dt * law.k * v
    damping = wp.float64(1.0) - law.d * v
    if elastic <= wp.float64(0.0) or damping <= wp.float64(0.0):
        return wp.float64(0.0)
    return -law.dt * (law.k * law.dt * damping + law.d * elastic)


@wp.func
def normal_cost(law: NormalLaw, v: wp.float64):
    """Cost with derivative -n(v), zero once released: the integral of n from v over the ``rise`` to where it vanishes.

    Both factors of n fall linearly to their values there, none of them negative, so the terms add without cancellation.
    """
    stiffness = law.dt * law.k
    elastic = positive(law.fe0 - stiffness * v)
    damping = positive(wp.float64(1.0) - law.d * v)
    rise = elastic / (stiffness + TINY)
    undamped = damping / (law.d + TINY)
    if undamped < rise:
        rise = undamped
    elastic = positive(elastic - stiffness * rise)
    damping = positive(damping - law.d * rise)
    quadratic = wp.float64(0.5) * (elastic * law.d + stiffness * damping)
    cubic = stiffness * law.d / wp.float64(3.0)
    return law.dt * rise * (elastic * damping + rise * (quadratic + rise * cubic))
