"""The SAP friction cone: compliant normal contact and Coulomb friction as one convex cost, free of tangent vectors.

With ``u = v_hat n - vc``, ``s`` the softened length of its tangential part and ``Q = R_n + mu^2 R_t``, the contact
sticks where ``s R_n <= mu R_t u_n``, is open where ``u_n + mu s <= 0`` and slides in between (F 2.3).
"""

import warp as wp

from ..workspace import ContactPool
from .response import Response

wp.set_module_options({"enable_backward": False})

SOFT_NORM = wp.constant(wp.float64(1.0e-7))
"""Softening of the tangential impulse's length [N s]; Drake."""


@wp.func
def friction_cone(
    vn: wp.float64, vt_squared: wp.float64, v_hat: wp.float64, R_n: wp.float64, R_t: wp.float64, mu: wp.float64
):
    """The cone at the normal velocity ``vn`` and the square ``vt_squared`` of the tangential velocity."""
    half = wp.float64(0.5)
    response = Response()
    u_n = v_hat - vn
    floor = R_t * SOFT_NORM
    s = wp.sqrt(vt_squared + floor * floor)
    if s * R_n <= mu * R_t * u_n:
        response.gamma_n = u_n / R_n
        # The constant floor^2 makes the cost continuous with the sliding region's.
        response.cost = half * ((s * s) / R_t + u_n * u_n / R_n)
        response.bend = wp.float64(1.0) / R_t
        response.slope = wp.float64(1.0) / R_n
    elif not (u_n + mu * s <= wp.float64(0.0)):  # what is no number acts, and is counted
        Q = R_n + mu * mu * R_t
        excess = u_n + mu * s
        response.slowness = wp.float64(1.0) / s
        response.gamma_n = excess / Q
        response.bend = mu * response.gamma_n * response.slowness
        response.slope = wp.float64(1.0) / Q
        response.tilt = mu
        response.cost = half * excess * response.gamma_n
    return response


@wp.func
def evaluate_contact(pool: ContactPool, slot: int, vn: wp.float64, vt_squared: wp.float64):
    """The law applied to a slot of the pool."""
    return friction_cone(vn, vt_squared, pool.v_hat[slot], pool.R_n[slot], pool.R_t[slot], pool.mu[slot])
