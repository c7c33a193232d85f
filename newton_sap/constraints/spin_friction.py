"""Torsional and rolling friction: moments against the relative spin of two touching bodies.

A regularised Coulomb law for the spin about the normal and another for the spin across it, each bounded by its
coefficient times the normal impulse that bounds lagged friction too; convex because that bound is a constant.
"""

import warp as wp

from ..workspace import ContactPool
from .response import Response

wp.set_module_options({"enable_backward": False})


@wp.func
def spin_friction(w: wp.vec3d, n: wp.vec3d, torsional: wp.float64, rolling: wp.float64, slip_scale: wp.float64):
    """Cost, moment impulse and parts of the Hessian block at the relative spin ``w`` [rad/s]; bounds in N m s."""
    response = Response()
    w_n = wp.dot(n, w)
    w_t = w - w_n * n
    twist = wp.sqrt(w_n * w_n + slip_scale * slip_scale)
    roll = wp.sqrt(wp.dot(w_t, w_t) + slip_scale * slip_scale)
    s = w_n / twist
    response.slip_speed = roll
    response.t = w_t / roll
    response.bend = rolling / roll
    response.d = n
    response.slope = (torsional / twist) * (wp.float64(1.0) - s * s)
    response.cost = torsional * (twist - slip_scale) + rolling * (roll - slip_scale)
    response.gamma = -torsional * s * n - rolling * response.t
    return response


@wp.func
def evaluate_spin(pool: ContactPool, slot: int, w: wp.vec3d):
    """The law applied to a spin slot of the pool."""
    n0 = pool.n0[slot]
    return spin_friction(
        w, pool.normal[slot], pool.mu_torsional[slot] * n0, pool.mu_rolling[slot] * n0, pool.slip_scale[slot]
    )
