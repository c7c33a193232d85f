"""What every contact law returns: a law of two numbers, the normal velocity and the square of the slip speed.

No law prefers a tangent, so in all of them friction is along the slip ``vt`` and impulse and Hessian block have one form:

``gamma = gamma_n n - bend vt``  and  ``G = bend (1 - n n' - t t') + slope d d'``  with  ``d = n - tilt t``

where ``n`` is the contact normal and ``t = slowness vt``, no longer than one. A line search needs no vectors.
"""

import warp as wp

from ..workspace import ContactLine

wp.set_module_options({"enable_backward": False})


@wp.struct
class Response:
    """Cost, and the numbers that make impulse ``gamma = -d(cost)/d(vc)`` and Hessian block ``G = -d(gamma)/d(vc)``."""

    cost: wp.float64  # [J]
    gamma_n: wp.float64  # normal impulse on body B [N s]
    bend: wp.float64  # friction over slip, never negative [kg]
    slope: wp.float64  # along d, never negative [kg]
    tilt: wp.float64  # how far d leans from the normal to the edge of the cone
    slowness: wp.float64  # one over the softened slip speed [s/m]; zero unless the contact slides


@wp.func
def tangential(n: wp.vec3d, x: wp.vec3d):
    """The part of ``x`` across ``n``."""
    return x - wp.dot(n, x) * n


@wp.func
def impulse(response: Response, n: wp.vec3d, vt: wp.vec3d):
    """gamma, on body B in world axes [N s]."""
    return response.gamma_n * n - response.bend * vt


@wp.func
def hessian_block(response: Response, n: wp.vec3d, vt: wp.vec3d, direction: wp.vec3d):
    """G with ``direction`` in place of one ``t``; exact where they are equal."""
    t = response.slowness * vt
    turn = wp.outer(wp.float64(0.5) * response.bend * t, direction)
    across = wp.identity(n=3, dtype=wp.float64) - wp.outer(n, n)
    d = n - response.tilt * t
    return response.bend * across - turn - wp.transpose(turn) + response.slope * wp.outer(d, d)


@wp.func
def contact_line(n: wp.vec3d, vc: wp.vec3d, dvc: wp.vec3d):
    """The line from ``vc`` along ``dvc``."""
    line = ContactLine()
    vt = tangential(n, vc)
    dvt = tangential(n, dvc)
    line.vn = wp.dot(n, vc)
    line.dvn = wp.dot(n, dvc)
    line.vt_squared = wp.dot(vt, vt)
    line.vt_dvt = wp.dot(vt, dvt)
    line.dvt_squared = wp.dot(dvt, dvt)
    return line


@wp.func
def line_vt_squared(line: ContactLine, alpha: wp.float64):
    """vt.vt at a step length; roundoff may not make it negative."""
    vt_squared = line.vt_squared + alpha * (line.vt_dvt + line.vt_dvt + alpha * line.dvt_squared)
    if vt_squared < wp.float64(0.0):
        vt_squared = wp.float64(0.0)
    return vt_squared


@wp.func
def line_slopes(response: Response, line: ContactLine, alpha: wp.float64):
    """First and second derivative of the cost along the line, -dvc.gamma and dvc.G dvc."""
    vt_dvt = line.vt_dvt + alpha * line.dvt_squared
    turn = response.slowness * vt_dvt  # t.dvt
    along = line.dvn - response.tilt * turn
    first = response.bend * vt_dvt - line.dvn * response.gamma_n
    second = response.bend * (line.dvt_squared - turn * turn) + response.slope * along * along
    return first, second
