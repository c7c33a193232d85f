"""MuJoCo's fixed tendons, as importers leave them in ``model.mujoco``, read once on the host; refuses other tendons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from ..workspace import Tendons, allocate
from .parts import ELSEWHERE, dofs_of_part, whole_of
from .topology import dof_coordinates, joint_name

_SPATIAL = 1
_AUTO = 2
"""MuJoCo's answer to whether a range counts: where one is given."""

_LIVE = {
    "term_start": "joint_adr", "term_count": "joint_num", "coef": "coef", "range": "range", "limit_ke": "limit_ke",
    "limit_kd": "limit_kd", "spring_length": "springlength", "stiffness": "stiffness", "damping": "damping",
    "friction": "frictionloss", "armature": "armature",
}  # fmt: skip
"""Arrays of :class:`newton_sap.workspace.Tendons` that are the model's, by the name they have there."""

_PASSIVE = ("stiffness", "damping", "frictionloss", "armature")
_COMMANDED = ("effort", "servo_force", "servo_ke", "servo_kd", "servo_bound")
_REMEDY = "replace it by a spring or mimic of the joints, or use SolverMuJoCo"


@dataclass(frozen=True)
class TendonRows:
    """MuJoCo's table of tendons as it concerns a model."""

    dofs: list[list[int]]
    """Newton dofs of each tendon's terms, none for a tendon of another solver and for one that only measures a path."""
    limited: np.ndarray
    """(T,) whether each range counts."""
    spatial: np.ndarray
    """(T,) whether each runs along a path instead of summing coordinates."""
    acts: np.ndarray
    """(T,) whether each exerts something of its own, apart from actuators and equality constraints."""

    @property
    def most_terms(self) -> int:
        """Terms of the longest sum."""
        return max(map(len, self.dofs))


def read_tendons(model) -> TendonRows | None:
    """Return the tendons of a model, None if it has none.

    Raises:
        NotImplementedError: A spatial tendon that acts, or joints that a tendon cannot sum, by name.
        ValueError: Parameters that are not finite or negative.
    """
    table = _table(model)
    if getattr(table, "tendon_stiffness", None) is None or not len(table.tendon_stiffness):
        return None
    bounds = table.tendon_range.numpy()
    limited = range_counts(table.tendon_limited.numpy(), bounds[:, 0] < bounds[:, 1])
    _require_finite(table)
    spatial = table.tendon_type.numpy() == _SPATIAL
    acts = limited | np.any([getattr(table, f"tendon_{name}").numpy() != 0.0 for name in _PASSIVE], axis=0)
    _refuse_spatial(table, acts & spatial)
    return TendonRows(_term_dofs(model, table), limited, spatial, acts)


def tendon_name(model, t: int) -> str:
    """Name a tendon in messages."""
    return _name(_table(model), t)


def range_counts(said: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Whether each range counts, by what MuJoCo's column ``..limited`` says and by whether one is given."""
    return np.where(said == _AUTO, given, said == 1)


def reference_coordinates(model) -> wp.array:
    """(D,) MuJoCo's coordinate minus Newton's, read live; empty if not registered."""
    ref = getattr(model.mujoco, "dof_ref", None)
    return wp.zeros(0, dtype=wp.float32, device=model.device) if ref is None else ref


def make_tendons(model, rows: TendonRows, topology, device) -> tuple[Tendons, dict[int, int]]:
    """Return the bundle of a model's tendons, without the model's own arrays, and the solve group of each that acts here.

    Raises:
        NotImplementedError: A tendon over a joint that closes a loop, or over joints of several solve groups.
    """
    arrays = topology.arrays
    solver_dof = {int(public): dof for dof, public in enumerate(arrays["dof_public"])}
    start = _table(model).tendon_joint_adr.numpy()
    terms, groups = np.full(max((s + len(dofs) for s, dofs in zip(start, rows.dofs, strict=True)), default=0), -1), {}
    for t, dofs in enumerate(rows.dofs):
        if any(dof not in solver_dof for dof in dofs):
            _refuse(model, t, "sums a joint that closes a loop", "sum another joint of the loop, or cut the loop there")
        if not dofs:
            continue
        terms[start[t] : start[t] + len(dofs)] = own = [solver_dof[dof] for dof in dofs]
        group, *others = arrays["tree_group"][arrays["link_tree"][arrays["dof_link"][own]]].tolist()
        if any(other != group for other in others):
            _refuse(model, t, "sums joints of several worlds", "give each world a tendon of its own")
        groups[t] = group
    tendons = allocate(Tendons, {"*": 0} | dict.fromkeys(_COMMANDED, len(rows.dofs)), device)
    tendons.dof = wp.array(terms, dtype=wp.int32, device=device)
    tendons.limited = wp.array(rows.limited, dtype=wp.int32, device=device)
    return tendons, groups


def attach_tendons(tendons: Tendons, model) -> None:
    """Point the bundle at the model's current parameters."""
    table = _table(model)
    for name, column in _LIVE.items():
        setattr(tendons, name, getattr(table, f"tendon_{column}", None))
    tendons.ref = reference_coordinates(model)


def _table(model):
    """MuJoCo's tables of the whole model: parts keep only tendons within one articulation."""
    return getattr(whole_of(model), "mujoco", None)


def _name(table, t: int) -> str:
    return f"tendon {t} ({table.tendon_label[t]!r})"


def _require_finite(table) -> None:
    coef = getattr(table, "tendon_coef", None)  # paths have none
    if coef is not None and not np.isfinite(coef.numpy()).all():
        raise ValueError("tendon_coef has entries that are not finite; correct them in the file or in model.mujoco")
    for name in (*_PASSIVE, "limit_ke", "limit_kd", "range", "springlength"):
        values = getattr(table, f"tendon_{name}").numpy()
        bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if values.ndim == 1:
            bad |= values < 0.0
        if bad.any():
            t = int(np.argmax(bad))
            raise ValueError(
                f"tendon_{name} of {_name(table, t)} is {values[t]}; it must be finite"
                f"{' and not negative' if values.ndim == 1 else ''}: correct it in the file or in model.mujoco"
            )


def _refuse_spatial(table, acting) -> None:
    """Refuse tendons along paths unless they exert nothing and merely measure a length."""
    if acting.any():
        label = table.tendon_label[int(np.argmax(acting))]
        raise NotImplementedError(
            f"tendon {label!r} runs along a path (spatial) and has stiffness, damping, friction, armature or a range, and "
            f"SolverSAP simulates fixed tendons only; {_REMEDY}"
        )


def _term_dofs(model, table) -> list[list[int]]:
    """Newton dofs of each tendon's terms."""
    whole, part = whole_of(model), dofs_of_part(model)
    first_dof = whole.joint_qd_start.numpy()
    joints = table.tendon_joint.numpy() if hasattr(table, "tendon_joint") else np.zeros(0, int)
    coordinates = dof_coordinates(model)
    start, count = table.tendon_joint_adr.numpy(), table.tendon_joint_num.numpy()
    out = []
    for t in range(len(start)):
        own = joints[start[t] : start[t] + count[t]]
        dofs = [int(first_dof[j]) for j in own]
        if part is not None:
            dofs = [int(part[dof]) for dof in dofs]
            if ELSEWHERE in dofs and set(dofs) != {ELSEWHERE}:
                _refuse(model, t, "sums joints of several solvers", "give all of them to one solver")
            dofs = [dof for dof in dofs if dof != ELSEWHERE]
        for dof, joint in zip(dofs, own, strict=False):
            if first_dof[joint + 1] - first_dof[joint] != 1 or coordinates[dof] < 0:
                _refuse(model, t, f"sums {joint_name(whole, int(joint))}, which is no hinge or slide", _REMEDY)
        out.append(dofs)
    return out


def _refuse(model, t: int, reason: str, remedy: str) -> None:
    raise NotImplementedError(f"{tendon_name(model, t)} {reason}; {remedy}")
