"""The lagged contact model: Hunt & Crossley's normal force, and friction bounded by a constant (``friction_bound``).

Normal and tangent do not interact within a step, so sliding neither lifts a body nor kicks it (F 2.4).
"""

import warp as wp

from ..workspace import ContactPool
from .hunt_crossley import NormalLaw, normal_cost, normal_impulse, normal_slope
from .response import Response

wp.set_module_options({"enable_backward": False})


@wp.func
def lagged(vc: wp.vec3d, n: wp.vec3d, law: NormalLaw, mu: wp.float64, n0: wp.float64, slip_scale: wp.float64):
    """Cost of the normal law plus mu n0 |vt|_s, with its impulse and the parts of its Hessian block."""
    response = Response()
    vn = wp.dot(n, vc)
    vt = vc - vn * n
    length = wp.sqrt(wp.dot(vt, vt) + slip_scale * slip_scale)
    bound = mu * n0
    response.slip_speed = length
    response.t = vt / length
    response.bend = bound / length
    response.d = n
    response.slope = -normal_slope(law, vn)
    response.cost = bound * (length - slip_scale) + normal_cost(law, vn)
    response.gamma = normal_impulse(law, vn) * n - bound * response.t
    return response


@wp.func
def bound_friction(pool: ContactPool, slot: int, n0: wp.float64, stiction_tolerance: wp.float64):
    """Bound a contact's friction by ``mu n0``, regularised no harder than sticking contacts are under sap (F 2.4)."""
    pool.n0[slot] = n0
    pool.slip_scale[slot] = wp.max(stiction_tolerance, pool.mu[slot] * pool.R_t[slot] * n0)


@wp.func
def evaluate_contact(pool: ContactPool, slot: int, vc: wp.vec3d):
    """The law applied to a slot of the pool."""
    return lagged(vc, pool.normal[slot], pool.normal_law[slot], pool.mu[slot], pool.n0[slot], pool.slip_scale[slot])
