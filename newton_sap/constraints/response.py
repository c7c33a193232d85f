"""What every contact law returns for a contact velocity: cost, impulse and the parts of its Hessian block."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Response:
    """Cost, ``gamma = -d(cost)/d(vc)``, and the parts of ``G = -d(gamma)/d(vc)``, which all laws have in common:

    ``G = bend (1 - n n' - t t') + slope d d'`` with the contact normal ``n``. Both factors are not negative, and ``t``
    is no longer than one.
    """

    cost: wp.float64  # [J]
    gamma: wp.vec3d  # impulse on body B, world axes [N s]
    slip_speed: wp.float64  # softened, [m/s]; zero unless the contact slides
    t: wp.vec3d  # slip velocity over slip_speed
    bend: wp.float64  # [kg]
    d: wp.vec3d  # the law's other direction: n, or along the edge of the cone
    slope: wp.float64  # [kg]


@wp.func
def tangential(n: wp.vec3d, x: wp.vec3d):
    """The part of ``x`` across ``n``."""
    return x - wp.dot(n, x) * n


@wp.func
def hessian_block(response: Response, n: wp.vec3d, w: wp.vec3d):
    """G with ``w`` in place of one ``t``; exact where they are equal."""
    turn = wp.outer(wp.float64(0.5) * response.bend * response.t, w)
    across = wp.identity(n=3, dtype=wp.float64) - wp.outer(n, n)
    return response.bend * across - turn - wp.transpose(turn) + response.slope * wp.outer(response.d, response.d)


@wp.func
def curvature(response: Response, n: wp.vec3d, x: wp.vec3d):
    """x' G x."""
    across = tangential(n, x)
    turn = wp.dot(response.t, x)
    along = wp.dot(response.d, x)
    return response.bend * (wp.dot(across, across) - turn * turn) + response.slope * along * along
