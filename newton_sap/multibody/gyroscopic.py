"""How a spinning body carries its angular momentum through a step (F 1.1)."""

import warp as wp

from ..workspace import Bodies

wp.set_module_options({"enable_backward": False})


@wp.func
def turned(L: wp.vec3d, h: wp.vec3d):
    """``L`` turned about ``h`` by twice the arc tangent of its length; keeps the length of ``L`` whatever ``h`` is."""
    across = wp.cross(h, L)
    return L + wp.float64(2.0) / (wp.float64(1.0) + wp.dot(h, h)) * (across + wp.cross(h, across))


@wp.func
def free_rate(inertia: wp.mat33d, inverse: wp.mat33d, w0: wp.vec3d, w: wp.vec3d, time: wp.float64):
    """Angular velocity after some time of turning freely, by Euler's equation at ``w``; body axes."""
    return w0 - time * (inverse * wp.cross(w, inertia * w))


@wp.func
def gyroscopic_impulse(bodies: Bodies, body: int, rotation: wp.quatd, w: wp.vec3d, dt: wp.float64):
    """What turning the angular momentum about the COM through a step adds to the explicit ``-dt w x I w``, world axes.

    Seen from the body, momentum turns backwards as the body turns forwards. Its length stays, which bounds the energy of
    a body that turns freely at any rate and step; the explicit term makes it grow without bound.
    """
    inertia = wp.mat33d(bodies.inertia[body])
    inverse = wp.mat33d(bodies.inv_inertia[body])
    half = wp.float64(0.5) * dt
    w0 = wp.quat_rotate_inv(rotation, w)
    # Half a step on, as if the body turned freely: implicit midpoint, two rounds.
    w_m = free_rate(inertia, inverse, w0, free_rate(inertia, inverse, w0, w0, half), half)
    L = inertia * w0
    return wp.quat_rotate(rotation, turned(L, -half * w_m) - L + dt * wp.cross(w0, L))
