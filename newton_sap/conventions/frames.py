"""Quaternions, rotation matrices, poses and up axes, batched over leading axes."""

from __future__ import annotations

import numpy as np

from .table import convention, quaternion_order, up_axis


def array(value, length: int, name: str) -> np.ndarray:
    """Return ``value`` as float64 (..., length); ``name`` is for the message if that is not its shape."""
    result = np.asarray(value, dtype=np.float64)
    if result.ndim == 0 or result.shape[-1] != length:
        raise ValueError(f"{name} must have shape (..., {length}), not {result.shape}")
    return result


def convert_quaternion(q, source, target) -> np.ndarray:
    """Reorder quaternions (..., 4) from the storage order of one system to that of another.

    Args:
        q: Quaternions; the rotation they mean is left alone, and so are sign and length.
        source: Name in :data:`QUATERNION_ORDERS` (``"newton"``, ``"mujoco"``, ``"xyzw"``, ...) or a Convention.
        target: Likewise.

    Returns:
        A new float64 array (..., 4).
    """
    q = array(q, 4, "q")
    old, new = quaternion_order(source), quaternion_order(target)
    return q[..., [old.index(letter) for letter in new]]


def convert_pose(pose, source, target) -> np.ndarray:
    """Reorder poses, the coordinates of free joints, between systems.

    Args:
        pose: Position [m] of the body frame and quaternion (..., 7), in the order of ``source``.
        source: Name in :data:`CONVENTIONS` or a Convention; Drake's has the quaternion first.
        target: Likewise.

    Returns:
        A new float64 array (..., 7).
    """
    pose = array(pose, 7, "pose")
    source, target = convention(source), convention(target)
    position, q = (pose[..., 4:], pose[..., :4]) if source.quaternion_first else (pose[..., :3], pose[..., 3:])
    q = convert_quaternion(q, source, target)
    return np.concatenate([q, position] if target.quaternion_first else [position, q], axis=-1)


def rotation_matrix(q, order="xyzw") -> np.ndarray:
    """Return the matrices (..., 3, 3) of quaternions (..., 4) of any non-zero length; body to world for a body's."""
    q = convert_quaternion(q, order, "xyzw")
    length = np.linalg.norm(q, axis=-1, keepdims=True)
    if not np.all(length > 0.0):
        raise ValueError("a quaternion of length zero is no rotation")
    x, y, z, w = np.moveaxis(q / length, -1, 0)
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_from_matrix(R, order="xyzw") -> np.ndarray:
    """Return unit quaternions (..., 4), scalar part not negative, of rotation matrices (..., 3, 3)."""
    R = np.asarray(R, dtype=np.float64)
    if R.shape[-2:] != (3, 3):
        raise ValueError(f"R must have shape (..., 3, 3), not {R.shape}")
    d = np.diagonal(R, axis1=-2, axis2=-1)
    trace = d.sum(axis=-1)
    # Four times the outer product of the quaternion with itself; its longest column is the best conditioned.
    outer = np.empty((*R.shape[:-2], 4, 4))
    outer[..., 3, 3] = 1.0 + trace
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        outer[..., i, i] = 1.0 + 2.0 * d[..., i] - trace
        outer[..., i, j] = outer[..., j, i] = R[..., i, j] + R[..., j, i]
        outer[..., i, 3] = outer[..., 3, i] = R[..., k, j] - R[..., j, k]
    best = np.argmax(np.diagonal(outer, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(outer, best[..., None, None], axis=-1)[..., 0]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return convert_quaternion(np.where(q[..., 3:] < 0.0, -q, q), "xyzw", order)


def multiply(p, q) -> np.ndarray:
    """Return the product (..., 4) of quaternions in xyzw order: rotate by ``q``, then by ``p``."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = pw * qv + qw * pv + np.cross(pv, qv)
    return np.concatenate([vector, pw * qw - np.sum(pv * qv, axis=-1, keepdims=True)], axis=-1)


def rotate(R, x) -> np.ndarray:
    """Return ``R x`` for matrices (..., 3, 3) and vectors (..., 3)."""
    return np.einsum("...ij,...j->...i", R, x)


def up_axis_quaternion(source, target) -> np.ndarray:
    """Return the quaternion (4,), xyzw, that turns the up axis of one world into that of another.

    The rotation is by 90 degrees about the third axis, hence stays right-handed; between Y and Z it is about X.

    Args:
        source: ``"X"``, ``"Y"``, ``"Z"``, a ``newton.Axis``, or a system's name in :data:`UP_AXES`.
        target: Likewise.
    """
    old, new = up_axis(source), up_axis(target)
    q = np.array([0.0, 0.0, 0.0, 1.0])
    if old != new:
        q[3] = np.sqrt(0.5)
        q[3 - old - new] = np.sqrt(0.5) if (new - old) % 3 == 1 else -np.sqrt(0.5)
    return q


def convert_up_axis(value, source, target) -> np.ndarray:
    """Turn quantities given in a world with one up axis into a world with another.

    Args:
        value: By its last dimension: 3 points or vectors; 4 orientations (xyzw) of bodies; 6 twists or wrenches of two
            vectors in world axes, in either order; 7 poses (position, quaternion xyzw). A body keeps its own axes.
        source: Up axis or system as in :func:`up_axis_quaternion`.
        target: Likewise.

    Returns:
        A new float64 array of the shape of ``value``.
    """
    value = np.asarray(value, dtype=np.float64)
    q = up_axis_quaternion(source, target)
    # Entries of this matrix are 0, 1 and -1; rounding makes it exactly a signed permutation.
    R = np.round(rotation_matrix(q))
    size = value.shape[-1] if value.ndim else 0
    if size == 3:
        return rotate(R, value)
    if size == 4:
        return multiply(q, value)
    if size == 6:
        return np.concatenate([rotate(R, value[..., :3]), rotate(R, value[..., 3:])], axis=-1)
    if size == 7:
        return np.concatenate([rotate(R, value[..., :3]), multiply(q, value[..., 3:])], axis=-1)
    raise ValueError(f"value must have 3, 4, 6 or 7 components, not shape {value.shape}")
