"""Who takes part: a solver by name with a divisor of the time step, the keywords it gets, and how it reads the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import newton
import numpy as np

from .. import registry
from ..scenes import Scene

CAPACITIES = {"box_stack": 96}
"""Contacts there is room for, by scene; every solver gets the same."""

_CAPACITY = 40
_ROWS_PER_CONTACT = 4
"""Rows that SolverMuJoCo's pyramidal cone makes of a contact."""


class SpecificationError(ValueError):
    """A contestant is written in a way that means nothing."""


@dataclass(frozen=True)
class Contestant:
    """A solver and how to run it."""

    solver: str
    """Name in the registry."""
    refine: int = 1
    """Divisor of the scene's time step."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of the solver beside the model; they win over :func:`mapped_options`."""

    @property
    def label(self) -> str:
        """Name in tables and plots, unique within a comparison."""
        return self.solver if self.refine == 1 else f"{self.solver}/{self.refine}"


def parse_contestant(text: str, options: dict[str, dict[str, Any]] | None = None) -> Contestant:
    """Return the contestant that ``"name"`` or ``"name/divisor"`` stands for.

    Args:
        text: For example ``"sap"``, or ``"featherstone/16"`` for steps sixteen times smaller than the scene's.
        options: Keywords by label or by name of a solver.

    Raises:
        SpecificationError: The divisor is no positive integer, or there is no name, or no string at all.
    """
    if not isinstance(text, str):
        raise SpecificationError(f"{text!r} names no solver: write it as in 'sap' or 'featherstone/16'")
    name, slash, divisor = text.strip().partition("/")
    name = registry.normalise(name)
    if not name:
        raise SpecificationError(f"{text!r} names no solver")
    if slash and not (divisor.isdecimal() and int(divisor) > 0):
        raise SpecificationError(f"{text!r}: what follows the slash divides the time step, as in {name}/16")
    plain = Contestant(name, int(divisor) if slash else 1)
    given = options or {}
    return Contestant(name, plain.refine, {**given.get(name, {}), **given.get(plain.label, {})})


def absence(name: str) -> str:
    """Return why an installed solver cannot run at all, or an empty string."""
    if name == "mujoco" and find_spec("mujoco_warp") is None:
        return "mujoco-warp is not installed (pip install 'newton-sap[sim]')"
    row = registry.describe_solver(name)
    return row.reason if row.status == "broken" else ""


def capacity(scene: str) -> int:
    """Return how many contacts a scene gets room for."""
    return CAPACITIES.get(scene, _CAPACITY)


def mapped_options(solver: str, scene: str) -> dict[str, Any]:
    """Return the keywords that make a solver simulate the scene as the others do; none for most solvers."""
    if solver == "mujoco":
        room = capacity(scene)
        return {"use_mujoco_contacts": False, "nconmax": room, "njmax": _ROWS_PER_CONTACT * room}
    if solver in ("featherstone", "semi_implicit"):
        return {"angular_damping": 0.0}
    return {}


_CONTACT = {
    "sap": "compliant: ke as given; damping by the contact law below; Coulomb cone mu",
    "mujoco": "soft constraint: solref from ke and kd, scaled by the effective mass, so that depth differs from m g / k",
    "featherstone": "penalty: ke, kd; friction min(kf slip, mu force); explicit, stable for small steps only",
    "semi_implicit": "penalty: ke, kd; friction min(kf slip, mu force); explicit, stable for small steps only",
    "xpbd": "hard, by position: ke and kd are not read; mu bounds the friction",
}
_DRIVES = {
    "sap": "target_ke, target_kd, implicit",
    "mujoco": "target_ke, target_kd as position actuators",
    "featherstone": "target_ke, target_kd, explicit",
    "semi_implicit": "target_ke, target_kd, explicit",
    "xpbd": "target_ke, target_kd as compliance",
}
_ARMATURE = {
    "sap": "added to the mass matrix",
    "mujoco": "added to the mass matrix",
    "featherstone": "added to the mass matrix",
    "semi_implicit": "not read",
    "xpbd": "not read",
}
_OWN = "as the solver documents it"


def parameters(contestant: Contestant, scene: Scene, solver: Any, mode: str, why_eager: str = "") -> dict[str, str]:
    """Return what a solver was given, as text by name, ready for a table.

    Args:
        contestant: Who takes part.
        scene: The scene of its model.
        solver: The solver built on it.
        mode: ``"captured"`` or ``"eager"``.
        why_eager: Why it was not captured.
    """
    name, model = contestant.solver, scene.model
    given = {**mapped_options(name, scene.name), **contestant.options}
    rows = {
        "class": type(solver).__name__,
        "time step": f"{1e3 * scene.dt / contestant.refine:.4g} ms, {scene.substeps * contestant.refine} per frame",
        "stepping": f"{mode}: {why_eager}" if why_eager else mode,
        "keywords given": ", ".join(f"{key}={value!r}" for key, value in given.items()) or "none, its defaults",
        "contacts from": "newton.CollisionPipeline at every step",
    }
    if model.joint_dof_count and np.any(model.joint_target_ke.numpy() > 0.0):
        rows["drives"] = f"{_DRIVES.get(name, _OWN)}; {_gains(model)}"
    if np.any(model.joint_armature.numpy() > 0.0):
        rows["armature"] = _ARMATURE.get(name, _OWN)
    if touching_shapes(model).any():
        rows["contact"] = _CONTACT.get(name, _OWN)
        rows["material"] = material(model)
    return rows | _own_settings(solver)


def touching_shapes(model: newton.Model) -> np.ndarray:
    """Return a mask of the shapes that collide with others."""
    flags = model.shape_flags.numpy()
    return (flags & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0


def material(model: newton.Model) -> str:
    """Return the contact material of a model as text, ranges where shapes differ."""
    mask = touching_shapes(model)
    units = {"ke": "N/m", "kd": "N s/m", "kf": "N s/m", "mu": ""}
    arrays = {name: getattr(model, f"shape_material_{name}").numpy()[mask] for name in units}
    return ", ".join(f"{name} {_range(arrays[name])} {unit}".strip() for name, unit in units.items())


def _gains(model: newton.Model) -> str:
    driven = model.joint_target_ke.numpy() > 0.0
    stiffness, damping = model.joint_target_ke.numpy()[driven], model.joint_target_kd.numpy()[driven]
    return f"ke {_range(stiffness)}, kd {_range(damping)}"


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"


_SHOWN = ("iterations", "rigid_contact_relaxation", "angular_damping")


def _own_settings(solver: Any) -> dict[str, str]:
    """Return the settings that a solver tells about itself."""
    options = getattr(solver, "options", None)
    if hasattr(options, "to_dict"):
        values = options.to_dict()
    else:
        values = {name: getattr(solver, name) for name in _SHOWN if hasattr(solver, name)}
        native = getattr(getattr(solver, "mj_model", None), "opt", None)
        for name in ("iterations", "ls_iterations", "tolerance", "impratio") if native is not None else ():
            values[name] = getattr(native, name)
    plain = {key: value for key, value in values.items() if isinstance(value, (bool, int, float, str))}
    return {f"option {key}": f"{value:g}" if isinstance(value, float) else str(value) for key, value in plain.items()}
