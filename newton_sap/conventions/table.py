"""The table of conventions: what the six numbers of a twist are, and the four of a quaternion, in each system."""

from __future__ import annotations

from dataclasses import dataclass

from ..suggest import suggestion

ORDERS = ("linear", "angular")
POINTS = ("com", "origin", "world", "given")
AXES = ("world", "body")


@dataclass(frozen=True)
class Convention:
    """How one system writes the velocity of a rigid body; its wrench is the dual, so that power is a dot product.

    A wrench has its force where the twist has its linear part and its moment where the twist has its angular part,
    in the same axes; the moment is about the point whose velocity the linear part is.
    """

    order: str
    """Which part comes first: ``"linear"`` or ``"angular"``."""
    point: str
    """Whose velocity the linear part is: ``"com"``, ``"origin"`` of the body frame, the body's material at the origin
    of the ``"world"``, or that at a point ``"given"`` with each conversion."""
    linear_axes: str = "world"
    """Axes of the linear part and the force: ``"world"`` or ``"body"``."""
    angular_axes: str = "world"
    """Axes of the angular part and the moment: ``"world"`` or ``"body"``."""
    quaternion: str = "xyzw"
    """Storage order of quaternions: ``"xyzw"`` or ``"wxyz"``."""
    quaternion_first: bool = False
    """Whether a pose, the coordinates of a free joint, has its quaternion before its position."""

    def __post_init__(self):
        for name, value, allowed in (
            ("order", self.order, ORDERS),
            ("point", self.point, POINTS),
            ("linear_axes", self.linear_axes, AXES),
            ("angular_axes", self.angular_axes, AXES),
            ("quaternion", self.quaternion, ("xyzw", "wxyz")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, not {value!r}")

    @property
    def code(self) -> int:
        """The twist part of the convention as an integer, for :func:`newton_sap.conventions.device.convert_twist`.

        Bit 0: angular first. Bits 1 and 2: 0 COM, 1 body origin, 2 world origin. Bit 3: linear part in body axes.
        Bit 4: angular part in body axes. A given point has no code.
        """
        if self.point == "given":
            raise ValueError("a convention about a given point has no code; convert to another one and shift")
        return (
            ORDERS.index(self.order)
            + 2 * POINTS.index(self.point)
            + 8 * AXES.index(self.linear_axes)
            + 16 * AXES.index(self.angular_axes)
        )


CONVENTIONS = {
    "newton": Convention("linear", "com"),
    "sap": Convention("angular", "origin"),
    "drake": Convention("angular", "origin", quaternion="wxyz", quaternion_first=True),
    "mujoco": Convention("linear", "origin", angular_axes="body", quaternion="wxyz"),
    "mujoco_com": Convention("angular", "given", quaternion="wxyz"),
    "isaac": Convention("linear", "com", quaternion="wxyz"),
    "isaac_lab_3": Convention("linear", "com"),
    "isaac_gym": Convention("linear", "com"),
    "physx": Convention("linear", "com"),
    "modern_robotics_body": Convention("angular", "origin", "body", "body", quaternion="wxyz"),
    "modern_robotics_spatial": Convention("angular", "world", quaternion="wxyz"),
}
"""Conventions by name.

``"mujoco"`` is the free joint: ``qvel`` as twist and ``qfrc_applied`` as wrench, a mixed frame. ``"mujoco_com"`` is that
of ``cvel`` and ``cfrc_ext``: the given point is ``subtree_com`` of the tree's root body. ``"isaac"`` is Isaac Sim, and Isaac
Lab up to version 2; Isaac Lab 3 turned its quaternions round.
"""

QUATERNION_ORDERS = {name: entry.quaternion for name, entry in CONVENTIONS.items()} | {
    "warp": "xyzw",
    "usd": "xyzw",
    "scipy": "xyzw",
    "xyzw": "xyzw",
    "wxyz": "wxyz",
}
"""Storage order of quaternions by system."""

UP_AXES = {"newton": "Z", "mujoco": "Z", "drake": "Z", "isaac": "Z", "isaac_lab_3": "Z", "usd": "Y"}
"""Default up axis by system; all are right-handed."""


def _lookup(table: dict, name: str, what: str):
    try:
        return table[name]
    except KeyError:
        hint = suggestion(str(name), table) or f"; known are {', '.join(table)}"
        raise ValueError(f"unknown {what} {name!r}{hint}") from None


def convention(name: str | Convention) -> Convention:
    """Return the :class:`Convention` of a name; a :class:`Convention` passes through."""
    return name if isinstance(name, Convention) else _lookup(CONVENTIONS, name, "convention")


def quaternion_order(name: str | Convention) -> str:
    """Return ``"xyzw"`` or ``"wxyz"`` for a system's name, an order itself, or a :class:`Convention`."""
    return name.quaternion if isinstance(name, Convention) else _lookup(QUATERNION_ORDERS, name, "quaternion order")


def up_axis(name) -> int:
    """Return the index (0, 1, 2) of an up axis given as ``"X"``, ``"Y"``, ``"Z"``, ``newton.Axis`` or a system's name."""
    if isinstance(name, str) and name.upper() in ("X", "Y", "Z"):
        return "XYZ".index(name.upper())
    if isinstance(name, str):
        return "XYZ".index(_lookup({"X": "X", "Y": "Y", "Z": "Z", **UP_AXES}, name, "up axis"))
    if int(name) not in (0, 1, 2):
        raise ValueError(f"up axis must be 0, 1 or 2, not {name!r}")
    return int(name)
