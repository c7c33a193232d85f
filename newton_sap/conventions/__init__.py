"""Twists, wrenches, quaternions, up axes and Pluecker transforms of several engines, converted into one another.

Pure NumPy and batched over leading axes; ``newton_sap.conventions.device`` has the same operations for Warp kernels.
See ``docs/conventions.md`` for the formulas.
"""

from .frames import (
    convert_pose,
    convert_quaternion,
    convert_up_axis,
    quaternion_from_matrix,
    rotation_matrix,
    up_axis_quaternion,
)
from .pluecker import Pluecker, join, split
from .table import CONVENTIONS, QUATERNION_ORDERS, UP_AXES, Convention, convention
from .twists import (
    convert_twist,
    convert_wrench,
    power,
    shift_twist,
    shift_wrench,
    twist_matrix,
    wrench_matrix,
)

__all__ = [
    "CONVENTIONS",
    "QUATERNION_ORDERS",
    "UP_AXES",
    "Convention",
    "Pluecker",
    "convention",
    "convert_pose",
    "convert_quaternion",
    "convert_twist",
    "convert_up_axis",
    "convert_wrench",
    "join",
    "power",
    "quaternion_from_matrix",
    "rotation_matrix",
    "shift_twist",
    "shift_wrench",
    "split",
    "twist_matrix",
    "up_axis_quaternion",
    "wrench_matrix",
]
