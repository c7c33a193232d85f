"""How a spinning body carries its angular momentum through a step (F 1.1)."""

import warp as wp

from ..workspace import Bodies

wp.set_module_options({"enable_backward": False})

HELD = wp.constant(0)
"""A tree that follows no change of velocity: nothing asks for it, or couplings hold it in a group too large to solve for it."""
ALONE = wp.constant(1)
"""A body that flies by itself, whose change of spin follows from its spin."""
TOGETHER = wp.constant(2)
"""A tree whose bodies change their velocities together, which ``velocity_products`` works out."""
TIED = wp.constant(3)
"""A tree that couplings hold, to others or in itself: its change is worked out with theirs, by ``tied_change``."""

FAR = wp.constant(wp.float64(0.3))
"""Seen from the body its angular momentum turns. By more [rad] in a step, a change of spin that is linear in time means little."""


@wp.func
def turns_far(inertia: wp.mat33d, w: wp.vec3d, dt: wp.float64):
    """Whether a body's angular momentum turns far, seen from it; a wheel that spins about its axis keeps its own in place."""
    L = inertia * w
    across = wp.cross(w, L)
    return dt * dt * wp.dot(across, across) > FAR * FAR * wp.dot(L, L)


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
def turning_impulse(inertia: wp.mat33d, inverse: wp.mat33d, w: wp.vec3d, dt: wp.float64):
    """What turning the angular momentum through a step adds to the explicit ``-dt w x I w``; body axes.

    Seen from the body, momentum turns backwards as the body turns forwards. Its length stays, which bounds the energy of
    a body that turns freely at any rate and step; the explicit term makes it grow without bound.
    """
    half = wp.float64(0.5) * dt
    # Half a step on, as if the body turned freely: implicit midpoint, two rounds.
    w_m = free_rate(inertia, inverse, w, free_rate(inertia, inverse, w, w, half), half)
    L = inertia * w
    return turned(L, -half * w_m) - L + dt * wp.cross(w, L)


@wp.func
def gyroscopic_products(inertia: wp.mat33d, w: wp.vec3d, change: wp.vec3d):
    """How much more gyroscopic torque a change of spin makes, to first order; any axes."""
    return wp.cross(w, inertia * change) + wp.cross(change, inertia * w)


@wp.func
def share_of_midpoint(size: wp.float64, further: wp.float64):
    """The share of a change and of what its products change that solves for both, by their kinetic energies.

    Products turn a change by a right angle and make it shorter or longer. Where one such turn is all there is, this is the
    implicit midpoint rule, which neither feeds nor damps, however long the step is.
    """
    share = wp.float64(1.0)
    if further > wp.float64(0.0):
        share = size / (size + further)
    return share


@wp.func
def following_impulse(inertia: wp.mat33d, inverse: wp.mat33d, w: wp.vec3d, dt: wp.float64):
    """What following the change of spin of a free body adds to the explicit ``-dt w x I w``; body axes.

    The length of its angular momentum is kept beside, which bounds its energy.
    """
    half = wp.float64(0.5) * dt
    L = inertia * w
    explicit = -dt * wp.cross(w, L)
    first = inverse * explicit
    size = wp.dot(first, inertia * first)
    impulse = wp.vec3d()
    if size > wp.float64(0.0):
        second = -half * (inverse * gyroscopic_products(inertia, w, first))
        share = share_of_midpoint(size, wp.dot(second, inertia * second))
        after = L + explicit - half * gyroscopic_products(inertia, w, share * (first + second))
        impulse = wp.length(L) / wp.length(after) * after - L - explicit
    return impulse


@wp.func
def gyroscopic_impulse(bodies: Bodies, body: int, rotation: wp.quatd, w: wp.vec3d, moves: int, dt: wp.float64):
    """What a body gets beside the explicit ``-dt w x I w`` about its COM by how its tree moves; world axes."""
    inertia = wp.mat33d(bodies.inertia[body])
    inverse = wp.mat33d(bodies.inv_inertia[body])
    w_body = wp.quat_rotate_inv(rotation, w)
    impulse = wp.vec3d()
    if moves == HELD or turns_far(inertia, w_body, dt):
        impulse = turning_impulse(inertia, inverse, w_body, dt)
    elif moves == ALONE:
        impulse = following_impulse(inertia, inverse, w_body, dt)
    return wp.quat_rotate(rotation, impulse)
