"""The similar contact model: Hunt & Crossley's law of the combined velocity ``z = vn - mu |vt|_s`` (F 2.4).

Friction follows the normal force within the step, at the price of a dilation that stays below the elastic depth.
"""

import warp as wp

from ..workspace import ContactPool
from .hunt_crossley import NormalLaw, normal_cost, normal_impulse, normal_slope
from .response import Response

wp.set_module_options({"enable_backward": False})


@wp.func
def similar(vc: wp.vec3d, n: wp.vec3d, law: NormalLaw, mu: wp.float64, slip_scale: wp.float64):
    """Cost of the normal law at z, with its impulse and the parts of its Hessian block."""
    response = Response()
    vn = wp.dot(n, vc)
    vt = vc - vn * n
    length = wp.sqrt(wp.dot(vt, vt) + slip_scale * slip_scale)
    t = vt / length
    z = vn - mu * (length - slip_scale)
    impulse = normal_impulse(law, z)
    response.slip_speed = length
    response.t = t
    response.bend = mu * impulse / length
    response.d = n - mu * t
    response.slope = -normal_slope(law, z)
    response.cost = normal_cost(law, z)
    response.gamma = impulse * response.d
    return response


@wp.func
def evaluate_contact(pool: ContactPool, slot: int, vc: wp.vec3d):
    """The law applied to a slot of the pool."""
    return similar(vc, pool.normal[slot], pool.normal_law[slot], pool.mu[slot], pool.slip_scale[slot])
