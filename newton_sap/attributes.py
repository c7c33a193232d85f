"""The custom attributes that SolverSAP reads, all in the namespace ``sap``."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

_SHAPE, _JOINT = newton.Model.AttributeFrequency.SHAPE, newton.Model.AttributeFrequency.JOINT
NO_TWIST_LIMIT = 1.0e9

ATTRIBUTES = (
    ("relaxation_time", _SHAPE, wp.float32, -1.0),
    ("hunt_crossley_dissipation", _SHAPE, wp.float32, -1.0),
    ("swing_limit", _JOINT, wp.float32, -1.0),
    ("twist_limit_lower", _JOINT, wp.float32, -NO_TWIST_LIMIT),
    ("twist_limit_upper", _JOINT, wp.float32, NO_TWIST_LIMIT),
    ("twist_axis", _JOINT, wp.vec3, wp.vec3(1.0, 0.0, 0.0)),
)
"""Name, frequency, type and the default, which means "not set"."""


def register(builder: newton.ModelBuilder) -> None:
    """Let a builder take the attributes."""
    for name, frequency, dtype, default in ATTRIBUTES:
        builder.add_custom_attribute(
            newton.ModelBuilder.CustomAttribute(
                name=name,
                namespace="sap",
                dtype=dtype,
                frequency=frequency,
                assignment=newton.Model.AttributeAssignment.MODEL,
                default=default,
            )
        )


def of_shapes() -> list[str]:
    """Names of the attributes that shapes have."""
    return [name for name, frequency, *_ in ATTRIBUTES if frequency == _SHAPE]


def has_ball_limits(model) -> bool:
    """Whether some joint has a swing or twist limit; a NaN counts as one."""
    return bool(limited_balls(model))


def limited_balls(model) -> tuple[int, ...]:
    """Return the joints that have a swing or twist limit."""
    return () if read(model, "swing_limit") is None else tuple(np.flatnonzero(ball_limits(model)).tolist())


def ball_limits(model) -> np.ndarray:
    """Which joints have a swing or twist limit."""
    swing, lower, upper = (
        read(model, name).numpy() for name in ("swing_limit", "twist_limit_lower", "twist_limit_upper")
    )
    return ~((swing < 0.0) & (lower <= -NO_TWIST_LIMIT) & (upper >= NO_TWIST_LIMIT))


def read(model, name: str):
    """The model's array of an attribute, or None where nobody registered it."""
    return getattr(getattr(model, "sap", None), name, None)
