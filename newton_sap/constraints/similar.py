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
    """Cost of the normal law at z, with its impulse and Hessian block."""
    response = Response()
    vn = wp.dot(n, vc)
    vt = vc - vn * n
    length = wp.sqrt(wp.dot(vt, vt) + slip_scale * slip_scale)
    t = vt / length
    z = vn - mu * (length - slip_scale)
    impulse = normal_impulse(law, z)
    direction = n - mu * t
    tangent = wp.identity(n=3, dtype=wp.float64) - wp.outer(n, n)
    response.cost = normal_cost(law, z)
    response.gamma = impulse * direction
    response.G = (mu * impulse / length) * (tangent - wp.outer(t, t))
    response.G -= normal_slope(law, z) * wp.outer(direction, direction)
    return response


@wp.func
def evaluate_contact(pool: ContactPool, slot: int, vc: wp.vec3d):
    """The law applied to a slot of the pool."""
    return similar(vc, pool.normal[slot], pool.normal_law[slot], pool.mu[slot], pool.slip_scale[slot])
