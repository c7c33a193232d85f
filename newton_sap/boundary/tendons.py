"""MuJoCo's tendons, as importers leave them in ``model.mujoco``, read once on the host; refuses what is not simulated."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import warp as wp

from ..coupling_bundles import Tendons
from ..workspace import allocate
from .model_parts import ELSEWHERE, dofs_of_part, whole_of
from .tendon_paths import Path, Segment, read_paths, set_lengths
from .topology import body_name, dof_coordinates, joint_name, moved_links

_AUTO = 2
"""MuJoCo's answer to whether a range counts: where one is given."""

_LIVE = {
    "term_start": "joint_adr", "term_count": "joint_num", "coef": "coef", "range": "range", "limit_ke": "limit_ke",
    "limit_kd": "limit_kd", "limit_solref": "solref_limit", "spring_length": "springlength", "stiffness": "stiffness",
    "damping": "damping", "friction": "frictionloss", "armature": "armature",
}  # fmt: skip
"""Arrays of :class:`newton_sap.coupling_bundles.Tendons` that are the model's, by the name they have there."""

_PASSIVE = ("stiffness", "damping", "frictionloss", "armature")
_COMMANDED = ("effort", "servo_force", "servo_ke", "servo_kd", "servo_lower", "servo_upper", "exerted")
_REMEDY = "replace it by a spring or mimic of the joints, or use SolverMuJoCo"


@dataclass(frozen=True)
class TendonRows:
    """MuJoCo's table of tendons as it concerns a model."""

    dofs: list[list[int]]
    """Newton dofs of each tendon's terms, none for a tendon of another solver and for one along a path."""
    paths: dict[int, Path]
    """By tendon that is no sum."""
    limited: np.ndarray
    """(T,) whether each range counts."""
    acts: np.ndarray
    """(T,) whether each exerts something of its own, apart from actuators and equality constraints."""

    def is_simulated(self, t: int) -> bool:
        """Whether a tendon can act in this model: not one of another solver, and no path that is merely measured."""
        return bool(self.dofs[t]) or (t in self.paths and bool(self.paths[t].segments))

    def most_terms(self, topology) -> int:
        """Dofs that a row along the longest tendon gathers at most, a segment not yet merged into it included."""
        depth = np.diff(topology.arrays["link_path_start"])
        sums = [len(dofs) for dofs in self.dofs]
        for path in self.paths.values():
            links = topology.arrays["body_link"][[b for b in set(path.bodies) if b >= 0]]
            sums.append(int(depth[links].sum() + 2 * depth[links].max(initial=0)))
        return max(sums)


def read_tendons(model) -> TendonRows | None:
    """Return the tendons of a model, None if it has none.

    Raises:
        NotImplementedError: A path that cannot act, or joints that a tendon cannot sum, by name.
        ValueError: Parameters that are not finite or negative.
    """
    table = _table(model)
    if getattr(table, "tendon_stiffness", None) is None or not len(table.tendon_stiffness):
        return None
    bounds = table.tendon_range.numpy()
    limited = range_counts(table.tendon_limited.numpy(), bounds[:, 0] < bounds[:, 1])
    _require_finite(table)
    acts = limited | np.any([getattr(table, f"tendon_{name}").numpy() != 0.0 for name in _PASSIVE], axis=0)
    paths = read_paths(model, table)
    for t, path in paths.items():
        if path.refused and acts[t]:
            _refuse(model, t, path.refused, _REMEDY)
    return TendonRows(_term_dofs(model, table), paths, limited, acts)


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


def make_tendons(model, rows: TendonRows, topology, device) -> tuple[Tendons, dict[int, list[int]]]:
    """Return the bundle of a model's tendons, without the model's own arrays, and the trees of each that acts here.

    Raises:
        NotImplementedError: A tendon over a joint that closes a loop, or over joints or bodies of several solve groups.
    """
    arrays = topology.arrays
    solver_dof = {int(public): dof for dof, public in enumerate(arrays["dof_qd"])}
    start = _table(model).tendon_joint_adr.numpy()
    terms, trees = np.full(max((s + len(dofs) for s, dofs in zip(start, rows.dofs, strict=True)), default=0), -1), {}
    for t, dofs in enumerate(rows.dofs):
        if any(dof not in solver_dof for dof in dofs):
            _refuse(model, t, "sums a joint that closes a loop", "sum another joint of the loop, or cut the loop there")
        terms[start[t] : start[t] + len(dofs)] = own = [solver_dof[dof] for dof in dofs]
        links = [*arrays["dof_link"][own], *_links_of_path(model, t, rows, arrays)]
        touched = np.unique(arrays["link_tree"][moved_links(arrays, links)])
        if len(set(arrays["tree_group"][touched])) > 1:
            _refuse(model, t, "spans several worlds", "give each world a tendon of its own")
        if len(touched):
            trees[t] = touched.tolist()
    sizes = dict.fromkeys(_COMMANDED, len(rows.dofs))
    sizes |= dict.fromkeys(("F_first", "F_last", "middle"), sum(len(path.segments) for path in rows.paths.values()))
    tendons = allocate(Tendons, {"*": 0} | sizes, device)
    _set_paths(tendons, model, rows)
    tendons.dof = wp.array(terms, dtype=wp.int32, device=device)
    tendons.limited = wp.array(rows.limited, dtype=wp.int32, device=device)
    return tendons, trees


def attach_tendons(tendons: Tendons, model) -> None:
    """Point the bundle at the model's current parameters."""
    table = _table(model)
    _attach_shapes(tendons, model)
    for name, column in _LIVE.items():
        setattr(tendons, name, getattr(table, f"tendon_{column}", None))
    tendons.ref = reference_coordinates(model)


def _table(model):
    """MuJoCo's tables of the whole model: parts keep only tendons within one articulation."""
    return getattr(whole_of(model), "mujoco", None)


def _links_of_path(model, t: int, rows: TendonRows, arrays) -> list[int]:
    """Links that a path runs over, none for a sum."""
    links = []
    for body in rows.paths[t].bodies if t in rows.paths else ():
        if body >= 0 and arrays["body_link"][body] < 0:
            _refuse(model, t, f"runs over {body_name(model, body)}, which no joint moves", "give that body a joint")
        links += [int(arrays["body_link"][body])] if body >= 0 else []
    return links


def _set_paths(tendons: Tendons, model, rows: TendonRows) -> None:
    """Write the routes into the bundle."""
    count, device = len(rows.dofs), tendons.effort.device
    segments = [rows.paths[t].segments if t in rows.paths else [] for t in range(count)]
    tendons.segment_start = wp.array(np.cumsum([0, *map(len, segments)]), dtype=wp.int32, device=device)
    for column in fields(Segment):
        values = [getattr(segment, column.name) for path in segments for segment in path]
        dtype = wp.float32 if column.name == "share" else wp.int32
        setattr(tendons, column.name, wp.array(values, dtype=dtype, device=device))
    _attach_shapes(tendons, model)
    set_lengths(tendons, model)


def _attach_shapes(tendons: Tendons, model) -> None:
    tendons.shape_body, tendons.shape_transform = model.shape_body, model.shape_transform
    tendons.shape_scale = model.shape_scale


def _name(table, t: int) -> str:
    return f"tendon {t} ({table.tendon_label[t]!r})"


def _require_finite(table) -> None:
    coef = getattr(table, "tendon_coef", None)  # paths have none
    if coef is not None and not np.isfinite(coef.numpy()).all():
        raise ValueError("tendon_coef has entries that are not finite; correct them in the file or in model.mujoco")
    for name in (*_PASSIVE, "limit_ke", "limit_kd", "range", "springlength", "solref_limit"):
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
        if len(own) != count[t] or (own < 0).any():
            _refuse(model, t, "sums joints that the model does not have", _REMEDY)
        dofs = [int(first_dof[j]) for j in own]
        if part is not None:
            dofs = [int(part[dof]) for dof in dofs]
            if ELSEWHERE in dofs and set(dofs) != {ELSEWHERE}:
                _refuse(model, t, "sums joints of several solvers", "give all of them to one solver")
            dofs = [dof for dof in dofs if dof != ELSEWHERE]
        for dof, joint in zip(dofs, own, strict=False):
            if first_dof[joint + 1] - first_dof[joint] != 1 or coordinates[dof] < 0:
                _refuse(
                    model, t, f"sums {joint_name(whole, int(joint))}, which is no hinge or slide by itself", _REMEDY
                )
        out.append(dofs)
    return out


def _refuse(model, t: int, reason: str, remedy: str) -> None:
    raise NotImplementedError(f"{tendon_name(model, t)} {reason}; {remedy}")
