"""Damping that a file gives as a ratio to critical (``dampratio``): worked out once, at construction, as SolverMuJoCo does."""

from __future__ import annotations

import newton
import numpy as np

from .topology import FLYING, actuator_table, joint_name, mass_block

_POSITION = int(newton.JointTargetMode.POSITION)
_TURNING = (*FLYING, int(newton.JointType.BALL))


def damping_ratios(model) -> list[tuple[int, list[int], bool]]:
    """Return the position actuators whose damping is a ratio to critical: which, on which dofs, and whether as a drive."""
    if actuator_table(model) is None:
        return []
    from .actuator_rows import read_damping_ratios  # it knows MuJoCo's names, which take a while to import

    return read_damping_ratios(model)


def zero_coordinates(model) -> np.ndarray:
    """(coordinates,) where inertia is measured: zero, with identity quaternions."""
    q = np.zeros(model.joint_coord_count)
    turning = np.isin(model.joint_type.numpy(), _TURNING)
    q[model.joint_q_start.numpy()[1:][turning] - 1] = 1.0
    return q


def inertias_at_dofs(topology, A: np.ndarray, locked: np.ndarray, dofs: int) -> np.ndarray:
    """(D,) inertia ``1 / (M^-1)_ii`` that a force on one dof moves; 0 where the velocity is prescribed, NaN outside of trees."""
    arrays, out = topology.arrays, np.full(dofs, np.nan)
    for t in range(topology.tree_count):
        first, last = arrays["tree_dof_start"][t : t + 2]
        inertia = np.zeros(last - first)
        inertia[locked[t] :] = 1.0 / np.diag(np.linalg.inv(mass_block(arrays, A, t, locked[t])))
        public = arrays["dof_qd"][first:last]
        out[public[public >= 0]] = inertia[public >= 0]
    return out


def resolve_damping_ratios(model, inertia: np.ndarray, ratios: list[tuple[int, list[int], bool]]) -> None:
    """Write the damping ``2 ratio sqrt(stiffness inertia)`` into the model, in the place of the ratio.

    ``ratios`` is what :func:`newton_sap.boundary.actuator_rows.read_damping_ratios` returned, ``inertia`` what
    :func:`inertias_at_dofs` did at :func:`zero_coordinates`. Drives that have damping keep it.

    Raises:
        NotImplementedError: A joint that closes a loop, by name.
    """
    bias, gear = model.mujoco.actuator_biasprm.numpy().copy(), model.mujoco.actuator_gear.numpy()
    ke, kd, mode = (getattr(model, f"joint_target_{name}").numpy().copy() for name in ("ke", "kd", "mode"))
    for a, dofs, is_drive in ratios:
        ratio = bias[a][2]
        for dof in dofs:
            if np.isnan(inertia[dof]):
                _refuse_loop(model, a, dof)
            if not is_drive:
                bias[a][2] = -2.0 * ratio * np.sqrt(-bias[a][1] * inertia[dof]) / abs(gear[a][0])
            elif mode[dof] == _POSITION:
                if kd[dof] == 0.0:
                    kd[dof] = 2.0 * ratio * np.sqrt(ke[dof] * inertia[dof])
                bias[a][2] = -kd[dof]
    model.joint_target_kd.assign(kd)
    model.mujoco.actuator_biasprm.assign(bias)


def _refuse_loop(model, a: int, dof: int) -> None:
    joint = int(np.searchsorted(model.joint_qd_start.numpy(), dof, side="right") - 1)
    raise NotImplementedError(
        f"actuator {a} ({model.mujoco.actuator_label[a]!r}) gives a ratio of damping (dampratio) on {joint_name(model, joint)}, "
        "which closes a loop; give it damping instead (kv)"
    )
