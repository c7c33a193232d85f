"""The operations of :mod:`newton_sap.conventions` for Warp kernels, in float32 or float64.

Conventions are named by :attr:`newton_sap.conventions.Convention.code`; ``order`` is 0 for linear first and 1 for
angular first. A Pluecker transform is a pair ``E, r`` as in :class:`newton_sap.conventions.Pluecker`; the functions
``plx_*`` take the left-associative form and ``plxb_*`` the right-associative one.
"""

from __future__ import annotations

from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func
def first(x: Any):
    """First half of a 6-vector."""
    return wp.vector(x[0], x[1], x[2])


@wp.func
def second(x: Any):
    """Second half of a 6-vector."""
    return wp.vector(x[3], x[4], x[5])


@wp.func
def linear_part(x: Any, order: int):
    """Linear part of a twist, force of a wrench."""
    if order == 1:
        return second(x)
    return first(x)


@wp.func
def angular_part(x: Any, order: int):
    """Angular part of a twist, moment of a wrench."""
    if order == 1:
        return first(x)
    return second(x)


@wp.func
def stack(like: Any, a: Any, b: Any, order: int):
    """Linear part ``a`` and angular part ``b`` in the given order, of the type of ``like``."""
    if order == 1:
        return type(like)(b[0], b[1], b[2], a[0], a[1], a[2])
    return type(like)(a[0], a[1], a[2], b[0], b[1], b[2])


@wp.func
def reorder(x: Any):
    """Exchange linear-first and angular-first."""
    return type(x)(x[3], x[4], x[5], x[0], x[1], x[2])


@wp.func
def shift_twist(twist: Any, r: Any, order: int):
    """Move the reference point by ``r`` = new - old [m]: v + w x r."""
    w = angular_part(twist, order)
    return stack(twist, linear_part(twist, order) + wp.cross(w, r), w, order)


@wp.func
def shift_wrench(wrench: Any, r: Any, order: int):
    """Move the reference point by ``r`` = new - old [m]: tau - r x f."""
    f = linear_part(wrench, order)
    return stack(wrench, f, angular_part(wrench, order) - wp.cross(r, f), order)


@wp.func
def reference_point(code: int, pose: Any, com: Any):
    """The point of a convention from the body origin, in world axes [m]; ``com`` in body axes."""
    point = (code >> 1) & 3
    if point == 0:
        return wp.quat_rotate(wp.transform_get_rotation(pose), com)
    if point == 2:
        return -wp.transform_get_translation(pose)
    return com - com


@wp.func
def to_world(x: Any, code: int, pose: Any):
    """A twist or wrench with both parts turned to world axes, order as it was."""
    q = wp.transform_get_rotation(pose)
    order = code & 1
    a = linear_part(x, order)
    b = angular_part(x, order)
    if (code & 8) != 0:
        a = wp.quat_rotate(q, a)
    if (code & 16) != 0:
        b = wp.quat_rotate(q, b)
    return stack(x, a, b, order)


@wp.func
def from_world(x: Any, code: int, pose: Any):
    """The inverse of :func:`to_world`."""
    q = wp.transform_get_rotation(pose)
    order = code & 1
    a = linear_part(x, order)
    b = angular_part(x, order)
    if (code & 8) != 0:
        a = wp.quat_rotate_inv(q, a)
    if (code & 16) != 0:
        b = wp.quat_rotate_inv(q, b)
    return stack(x, a, b, order)


@wp.func
def convert_twist(twist: Any, source: int, target: int, pose: Any, com: Any):
    """A twist of one convention in another, by their codes; ``pose`` in the world, ``com`` [m] in body axes."""
    r = reference_point(target, pose, com) - reference_point(source, pose, com)
    x = shift_twist(to_world(twist, source, pose), r, source & 1)
    if (source & 1) != (target & 1):
        x = reorder(x)
    return from_world(x, target, pose)


@wp.func
def convert_wrench(wrench: Any, source: int, target: int, pose: Any, com: Any):
    """A wrench of one convention in another, by their codes; the dual of :func:`convert_twist`."""
    r = reference_point(target, pose, com) - reference_point(source, pose, com)
    x = shift_wrench(to_world(wrench, source, pose), r, source & 1)
    if (source & 1) != (target & 1):
        x = reorder(x)
    return from_world(x, target, pose)


@wp.func
def xyzw_from_wxyz(q: Any):
    """A scalar-first quaternion, as a 4-vector, in Warp's order."""
    return type(q)(q[1], q[2], q[3], q[0])


@wp.func
def wxyz_from_xyzw(q: Any):
    """A quaternion of Warp's order, as a 4-vector, scalar first."""
    return type(q)(q[3], q[0], q[1], q[2])


@wp.func
def plx_motion(E: Any, r: Any, m: Any, order: int):
    """A motion in child coordinates; ``E`` from parent to child, ``r`` the child's origin in the parent [m]."""
    w = angular_part(m, order)
    return stack(m, E * (linear_part(m, order) - wp.cross(r, w)), E * w, order)


@wp.func
def plx_force(E: Any, r: Any, f: Any, order: int):
    """A force in child coordinates."""
    a = linear_part(f, order)
    return stack(f, E * a, E * (angular_part(f, order) - wp.cross(r, a)), order)


@wp.func
def plx_compose(E1: Any, r1: Any, E2: Any, r2: Any):
    """The pair of X1 X2, which applies X2 first."""
    return E1 * E2, r2 + wp.transpose(E2) * r1


@wp.func
def plx_inverse(E: Any, r: Any):
    """The pair of the inverse transform."""
    return wp.transpose(E), -(E * r)


@wp.func
def plxb_motion(E: Any, r: Any, m: Any, order: int):
    """A motion in child coordinates; ``E`` from child to parent."""
    return plx_motion(wp.transpose(E), r, m, order)


@wp.func
def plxb_force(E: Any, r: Any, f: Any, order: int):
    """A force in child coordinates; ``E`` from child to parent."""
    return plx_force(wp.transpose(E), r, f, order)


@wp.func
def plxb_compose(E1: Any, r1: Any, E2: Any, r2: Any):
    """The pair of the chain that applies the first transform first."""
    return E1 * E2, r1 + E1 * r2


@wp.func
def plxb_inverse(E: Any, r: Any):
    """The pair of the inverse transform."""
    return wp.transpose(E), -(wp.transpose(E) * r)
