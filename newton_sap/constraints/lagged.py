"""The lagged contact model: Hunt & Crossley's normal force, and friction bounded by a constant (``friction_bound``).

Normal and tangent do not interact within a step, so sliding neither lifts a body nor kicks it (F 2.4).
"""

import warp as wp

from ..workspace import ContactPool, NormalLaw
from .clamped_linear import HARDER
from .hunt_crossley import normal_cost, normal_impulse, normal_slope
from .response import Response

wp.set_module_options({"enable_backward": False})


@wp.func
def lagged(
    vn: wp.float64, vt_squared: wp.float64, law: NormalLaw, mu: wp.float64, n0: wp.float64, slip_scale: wp.float64
):
    """Cost of the normal law plus mu n0 |vt|_s, at the normal velocity ``vn`` and the square ``vt_squared`` of ``vt``."""
    response = Response()
    bound = mu * n0
    length = wp.sqrt(vt_squared + slip_scale * slip_scale)
    response.slowness = wp.float64(1.0) / length
    response.bend = bound * response.slowness
    response.gamma_n = normal_impulse(law, vn)
    response.slope = -normal_slope(law, vn)
    response.cost = bound * (length - slip_scale) + normal_cost(law, vn)
    return response


@wp.func
def bound_friction(pool: ContactPool, slot: int, n0: wp.float64, least_slip: wp.float64, most_slip: wp.float64):
    """Bound a contact's friction by ``mu n0``, regularised no harder than sticking contacts are under sap, within limits (F 2.4)."""
    pool.n0[slot] = n0
    slip = pool.mu[slot] * pool.R_t[slot] * n0
    if slip > most_slip:  # no clamp, which would take NaN for a number
        slip = wp.max(most_slip, HARDER * slip)
    pool.slip_scale[slot] = wp.max(least_slip, slip)


@wp.func
def evaluate_contact(pool: ContactPool, slot: int, vn: wp.float64, vt_squared: wp.float64):
    """The law applied to a slot of the pool."""
    return lagged(vn, vt_squared, pool.normal_law[slot], pool.mu[slot], pool.n0[slot], pool.slip_scale[slot])
