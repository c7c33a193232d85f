"""The similar contact model: Hunt & Crossley's law of the combined velocity ``z = vn - mu |vt|_s`` (F 2.4).

Friction follows the normal force within the step, at the price of a dilation that stays below the elastic depth.
"""

import warp as wp

from ..workspace import ContactPool, NormalLaw
from .hunt_crossley import normal_cost, normal_impulse, normal_slope
from .response import Response

wp.set_module_options({"enable_backward": False})


@wp.func
def similar(vn: wp.float64, vt_squared: wp.float64, law: NormalLaw, mu: wp.float64, slip_scale: wp.float64):
    """Cost of the normal law at z, from the normal velocity ``vn`` and the square ``vt_squared`` of ``vt``."""
    response = Response()
    length = wp.sqrt(vt_squared + slip_scale * slip_scale)
    response.slowness = wp.float64(1.0) / length
    z = vn - mu * (length - slip_scale)
    response.gamma_n = normal_impulse(law, z)
    response.bend = mu * response.gamma_n * response.slowness
    response.slope = -normal_slope(law, z)
    response.tilt = mu
    response.cost = normal_cost(law, z)
    return response


@wp.func
def evaluate_contact(pool: ContactPool, slot: int, vn: wp.float64, vt_squared: wp.float64):
    """The law applied to a slot of the pool."""
    return similar(vn, vt_squared, pool.normal_law[slot], pool.mu[slot], pool.slip_scale[slot])
