"""Twists and wrenches from one convention to another: change the point, then the axes, then the order."""

from __future__ import annotations

import numpy as np

from .frames import array, rotate, rotation_matrix
from .pluecker import join, split
from .table import convention


def shift_twist(twist, r, order="linear") -> np.ndarray:
    """Move the reference point of twists by ``r``: the angular part stays, ``v_new = v + w x r``.

    Args:
        twist: Twists (..., 6), [m/s] and [rad/s], both parts in one set of axes.
        r: New point minus old point (..., 3) [m], in the same axes.
        order: ``"linear"`` or ``"angular"`` first.
    """
    v, w = split(array(twist, 6, "twist"), order)
    return join(v + np.cross(w, array(r, 3, "r")), w, order)


def shift_wrench(wrench, r, order="linear") -> np.ndarray:
    """Move the reference point of wrenches by ``r``: the force stays, ``tau_new = tau - r x f``.

    Args:
        wrench: Wrenches (..., 6), [N] and [N m], both parts in one set of axes.
        r: New point minus old point (..., 3) [m], in the same axes.
        order: ``"linear"`` (force) or ``"angular"`` (moment) first.
    """
    f, tau = split(array(wrench, 6, "wrench"), order)
    return join(f, tau - np.cross(array(r, 3, "r"), f), order)


def power(twist, wrench) -> np.ndarray:
    """Return the power (...) [W] of wrenches on twists (..., 6) of the same convention."""
    return np.sum(array(twist, 6, "twist") * array(wrench, 6, "wrench"), axis=-1)


class _Body:
    """Where a body is, asked for only when a conversion depends on it."""

    def __init__(self, pose, com, point, pair: str):
        self._point = None if point is None else array(point, 3, "point")
        self._pose = None if pose is None else array(pose, 7, "pose")
        self._com = None if com is None else array(com, 3, "com")
        self._pair = pair

    @property
    def pose(self) -> np.ndarray:
        if self._pose is None:
            raise ValueError(f"converting {self._pair} needs pose=(position, quaternion xyzw) of the body")
        return self._pose

    @property
    def rotation(self) -> np.ndarray:
        return rotation_matrix(self.pose[..., 3:])

    @property
    def com(self) -> np.ndarray:
        if self._com is None:
            raise ValueError(f"converting {self._pair} needs com=, the centre of mass in body axes (zeros if it is so)")
        return self._com

    @property
    def point(self) -> np.ndarray:
        if self._point is None:
            raise ValueError(f"converting {self._pair} needs point=, the reference point in the world")
        return self._point

    def offset(self, source: str, target: str) -> np.ndarray | None:
        """Target point minus source point in world axes [m]; None if they are the same."""
        if source == target:
            return None
        # Differences from the body origin first: world positions would cancel between COM and origin.
        parts = {"origin": np.zeros(3)}
        for point in (source, target):
            if point == "com":
                parts[point] = rotate(self.rotation, self.com)
            elif point == "world":
                parts[point] = -self.pose[..., :3]
            elif point == "given":
                parts[point] = self.point - self.pose[..., :3]
        return parts[target] - parts[source]


def _convert(value, source, target, place, shift, name) -> np.ndarray:
    pair = f"from {source} to {target}"
    source, target = convention(source), convention(target)
    first, second = split(array(value, 6, name), source.order)
    pose, com, point = place
    body = _Body(pose, com, point, pair)
    same_axes = (source.linear_axes, source.angular_axes) == (target.linear_axes, target.angular_axes)
    if source.point == target.point and same_axes:
        return join(first, second, target.order)
    if source.linear_axes == "body":
        first = rotate(body.rotation, first)
    if source.angular_axes == "body":
        second = rotate(body.rotation, second)
    r = body.offset(source.point, target.point)
    if r is not None:
        first, second = split(shift(join(first, second), r), "linear")
    if target.linear_axes == "body":
        first = rotate(np.swapaxes(body.rotation, -1, -2), first)
    if target.angular_axes == "body":
        second = rotate(np.swapaxes(body.rotation, -1, -2), second)
    return join(first, second, target.order)


def convert_twist(twist, source, target, *, pose=None, com=None, point=None) -> np.ndarray:
    """Convert the velocity of rigid bodies between conventions.

    Args:
        twist: Velocities (..., 6) [m/s, rad/s] as ``source`` writes them.
        source: Name in :data:`CONVENTIONS` or a :class:`Convention`.
        target: Likewise.
        pose: Poses (..., 7) of the body frames in the world, position [m] and quaternion xyzw as in ``State.body_q``;
            needed where point or axes change.
        com: Centres of mass (..., 3) [m] in body axes as in ``Model.body_com``; needed where the point changes from or
            to the COM.
        point: Reference points (..., 3) in the world [m]; needed where the point changes from or to a given one, as in
            ``"mujoco_com"``.

    Returns:
        Velocities (..., 6) as ``target`` writes them; leading axes broadcast.
    """
    return _convert(twist, source, target, (pose, com, point), shift_twist, "twist")


def convert_wrench(wrench, source, target, *, pose=None, com=None, point=None) -> np.ndarray:
    """Convert wrenches on rigid bodies between conventions; the dual of :func:`convert_twist`.

    Power is the same before and after: ``convert_wrench(F) . convert_twist(V) == F . V``.

    Args:
        wrench: Wrenches (..., 6) [N, N m] as ``source`` writes them: force in place of the linear velocity, moment
            about the convention's point in place of the angular velocity, each in the axes of what it replaces.
        source: Name in :data:`CONVENTIONS` or a :class:`Convention`.
        target: Likewise. ``"mujoco"`` is the generalised force of a free joint (``qfrc_applied``), while MuJoCo's
            ``xfrc_applied`` is ``"newton"``.
        pose: As in :func:`convert_twist`.
        com: As in :func:`convert_twist`.
        point: As in :func:`convert_twist`.

    Returns:
        Wrenches (..., 6) as ``target`` writes them.
    """
    return _convert(wrench, source, target, (pose, com, point), shift_wrench, "wrench")


def twist_matrix(source, target, *, pose=None, com=None, point=None) -> np.ndarray:
    """Return the matrices (..., 6, 6) that :func:`convert_twist` multiplies by."""
    return _matrix(convert_twist, source, target, pose, com, point)


def wrench_matrix(source, target, *, pose=None, com=None, point=None) -> np.ndarray:
    """Return the matrices (..., 6, 6) that :func:`convert_wrench` multiplies by: inverse transposes of the former."""
    return _matrix(convert_wrench, source, target, pose, com, point)


def _matrix(convert, source, target, pose, com, point) -> np.ndarray:
    pose = None if pose is None else array(pose, 7, "pose")[..., None, :]
    com = None if com is None else array(com, 3, "com")[..., None, :]
    point = None if point is None else array(point, 3, "point")[..., None, :]
    return np.swapaxes(convert(np.eye(6), source, target, pose=pose, com=com, point=point), -1, -2)
