"""Torsional and rolling friction: moments against the relative spin of two touching bodies.

A regularised Coulomb law for the spin about the normal and another for the spin across it, each bounded by its
coefficient times the normal impulse that bounds lagged friction too; convex because that bound is a constant.
"""

import warp as wp

from ..workspace import ContactPool
from .response import Response

wp.set_module_options({"enable_backward": False})


@wp.func
def spin_friction(
    w_n: wp.float64, wt_squared: wp.float64, torsional: wp.float64, rolling: wp.float64, slip_scale: wp.float64
):
    """The law at the spin ``w_n`` about the normal and the square ``wt_squared`` of the spin across it [rad/s]; bounds in N m s."""
    response = Response()
    twist = wp.sqrt(w_n * w_n + slip_scale * slip_scale)
    roll = wp.sqrt(wt_squared + slip_scale * slip_scale)
    s = w_n / twist
    response.slowness = wp.float64(1.0) / roll
    response.gamma_n = -torsional * s
    response.bend = rolling * response.slowness
    response.slope = (torsional / twist) * (wp.float64(1.0) - s * s)
    response.cost = torsional * (twist - slip_scale) + rolling * (roll - slip_scale)
    return response


@wp.func
def evaluate_spin(pool: ContactPool, slot: int, w_n: wp.float64, wt_squared: wp.float64):
    """The law applied to a spin slot of the pool."""
    torsional = pool.mu_torsional[slot] * pool.n0[slot]
    rolling = pool.mu_rolling[slot] * pool.n0[slot]
    return spin_friction(w_n, wt_squared, torsional, rolling, pool.slip_scale[slot])
