"""Stiffness and damping of shapes that nobody gave any in force per length: what Newton and its importers put there."""

from __future__ import annotations

import newton
import numpy as np


def unset_values(model) -> tuple[np.ndarray, np.ndarray]:
    """Return ``ke`` [N/m] and ``kd`` [N s/m] of every shape, shape (shapes,), that mean "not given".

    Newton's defaults; or what its importers write where a file gives MuJoCo's ``solref``, which is about accelerations,
    whatever the mass: the numbers of one are no stiffness. A shape that was given others since has none of its own here.
    """
    default = newton.ModelBuilder.ShapeConfig()
    ke, kd = (np.full(model.shape_count, value, dtype=np.float32) for value in (default.ke, default.kd))
    solref = getattr(getattr(model, "mujoco", None), "solref", None)
    if solref is not None:
        given = [getattr(model, f"shape_material_{name}").numpy() for name in ("ke", "kd")]
        written = _imported(solref.numpy().astype(float))
        kept = np.all(np.isclose(given, written, rtol=1e-5, atol=0.0), axis=0)
        ke[kept], kd[kept] = given[0][kept], given[1][kept]
    return ke, kd


def _imported(solref: np.ndarray) -> np.ndarray:
    """(2, shapes) stiffness and damping that Newton's importers make of ``solref``; NaN where there is none."""
    a, b = solref.T
    out = np.full((2, len(a)), np.nan)
    timed, direct = (a > 0.0) & (b > 0.0), (a < 0.0) & (b < 0.0)
    out[:, timed] = 1.0 / (a[timed] * b[timed]) ** 2, 2.0 / a[timed]
    out[:, direct] = -a[direct], -b[direct]
    return out
