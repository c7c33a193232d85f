"""Joint types, rotations and transforms of the reference. Quaternions are xyzw, float64, unit."""

from __future__ import annotations

import math

import numpy as np

PRISMATIC, REVOLUTE, BALL, FIXED, FREE, DISTANCE, D6, ROD = range(8)  # newton.JointType
FLYING = (FREE, DISTANCE)
"""Joints of six velocities."""


def quat_mul(a, b):
    """Return the quaternion product ``a b``: rotate by ``b``, then by ``a``."""
    av, bv = a[:3], b[:3]
    return np.append(a[3] * bv + b[3] * av + np.cross(av, bv), a[3] * b[3] - av @ bv)


def quat_inverse(a):
    """Return the inverse of a unit quaternion."""
    return np.array([-a[0], -a[1], -a[2], a[3]])


def quat_matrix(a):
    """Return the 3x3 rotation matrix of a unit quaternion."""
    x, y, z, w = a
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quat_exp(rotation_vector):
    """Return the quaternion of a rotation vector [rad]."""
    angle = np.linalg.norm(rotation_vector)
    # sin(angle / 2) / angle, with its limit 1/2 at zero.
    return np.append(0.5 * np.sinc(0.5 * angle / math.pi) * rotation_vector, math.cos(0.5 * angle))


def quat_log(a):
    """Return the rotation vector [rad] of a unit quaternion, the shorter way round (length <= pi)."""
    a = -a if a[3] < 0.0 else a
    s = np.linalg.norm(a[:3])
    return 2.0 * a[:3] if s < 1e-9 else 2.0 * math.atan2(s, a[3]) / s * a[:3]


def unit(a):
    """Return a vector or quaternion scaled to length one."""
    return a / np.linalg.norm(a)


def split(transform):
    """Position and unit quaternion of a seven-number transform; float32 quaternions are only unit to 1e-7."""
    return transform[:3], unit(transform[3:7])


def compose(a, b):
    """Return the transform ``a b``; transforms are (position, quaternion) pairs."""
    return a[0] + quat_matrix(a[1]) @ b[0], unit(quat_mul(a[1], b[1]))


def invert(a):
    """Return the inverse of a (position, quaternion) pair."""
    inverse = quat_inverse(a[1])
    return -quat_matrix(inverse) @ a[0], inverse


def ball_error(target, q):
    """Rotation vector [rad] from orientation ``q`` to ``target``, parent anchor axes, shape (3,)."""
    return quat_log(quat_mul(unit(target), quat_inverse(unit(q))))
