"""The slip direction as an unknown of its own: Newton's method for friction, primal and dual at once.

Friction is along ``vt / s(vt)`` with the softened speed ``s``. Where the slip is slow, that direction turns far within
one step, and a Hessian that holds only its rate of change at the iterate predicts little. Taken as an unknown ``w`` with
the equation ``s w = vt``, linearised in both, it follows the step well. Eliminating it leaves the gradient as it was
and puts ``w`` in place of one of the two directions of the Hessian (F 3.1; Chan, Golub & Mulet, 1999). At the minimum
both are the same.
"""

import warp as wp

from ..workspace import ContactPool
from .response import Response, tangential

wp.set_module_options({"enable_backward": False})


@wp.func
def predicted_slip(vt: wp.vec3d, before: wp.vec3d, slowness: wp.float64, w: wp.vec3d):
    """The direction that ``s w = vt`` has after the step from ``before``, linearised there; no longer than one."""
    predicted = slowness * (vt - (slowness * wp.dot(before, vt - before)) * w)
    square = wp.dot(predicted, predicted)
    if square > wp.float64(1.0):
        return (wp.float64(1.0) / wp.sqrt(square)) * predicted
    return predicted


@wp.func
def follow_slip(pool: ContactPool, slot: int, vt: wp.vec3d, response: Response):
    """The direction of a slot whose slip has become ``vt``, where ``pool`` still tells what it was."""
    slowness_before = pool.slowness[slot]
    pool.slowness[slot] = response.slowness
    if not (response.slowness > wp.float64(0.0)):
        return response.slowness * vt
    if slowness_before > wp.float64(0.0):
        before = tangential(pool.normal[slot], pool.vc[slot])
        w = predicted_slip(vt, before, slowness_before, pool.slip_direction[slot])
        pool.slip_direction[slot] = w
        return w
    along = response.slowness * vt
    pool.slip_direction[slot] = along
    return along
