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
def release_velocity(law: NormalLaw):
    """Separation velocity at which the force has vanished."""
    one = wp.float64(1.0)
    return wp.min(law.fe0 / (law.dt * (law.k + TINY)), one / (law.d + TINY))


@wp.func
def normal_impulse(law: NormalLaw, v: wp.float64):
    """n(v) = dt (fe0 - dt k v)+ (1 - d v)+."""
    zero = wp.float64(0.0)
    return law.dt * wp.max(law.fe0 - law.dt * law.k * v, zero) * wp.max(wp.float64(1.0) - law.d * v, zero)


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
    """Cost with derivative -n(v), zero once released: the integral of n from v to the release velocity.

    Both factors of n are linear and not negative below release, so the terms add without cancellation.
    """
    release = release_velocity(law)
    u = wp.max(release - v, wp.float64(0.0))
    a0 = law.fe0 - law.dt * law.k * release
    a1 = law.dt * law.k
    b0 = wp.float64(1.0) - law.d * release
    quadratic = wp.float64(0.5) * (a0 * law.d + a1 * b0)
    cubic = a1 * law.d / wp.float64(3.0)
    return law.dt * u * (a0 * b0 + u * (quadratic + u * cubic))
