"""What of a MuJoCo file changes the physics and SolverSAP does not read: it says so instead of ignoring it."""

from __future__ import annotations

import warnings

import newton

MUJOCO = newton.solvers.SolverMuJoCo
"""Newton's own, with its enumerations, whatever a program puts in its place later."""
_FLUIDS = ("density", "viscosity")
_SWITCHES = {
    "flag_contact": "contacts act; step with contacts=None",
    "flag_constraint": "contacts, limits, dry friction and equality constraints act; take them out of the file",
    "flag_equality": "equality constraints act; disable each by its own switch",
    "flag_limit": "joint limits act; widen them",
    "flag_frictionloss": "dry friction acts; set joint_friction to 0",
    "flag_spring": "springs act; set joint_stiffness to 0",
    "flag_damper": "damping acts; set joint_damping to 0",
    "flag_actuation": "actuators act; set their gears and gains to 0",
    "flag_clampctrl": "ranges of controls act; widen them",
}
"""What happens although a file switches it off."""
_USUAL_STIFFNESS = 1.0 / 0.02**2
"""Of a constraint that says nothing, per inertia [1/s^2]: what asks for more gets it."""


def warn_of_options(model) -> None:
    """Warn of all that asks for something else than the solver does."""
    ignored = [f"{name} = {value:.6g}: no fluid acts on bodies" for name in _FLUIDS if (value := _largest(model, name))]
    ignored += [f"{name} = False: {instead}" for name, instead in _SWITCHES.items() if _is_off(model, name)]
    if pairs := len(_values(model, "pair_geom1")):
        ignored.append(f"{pairs} contact pairs: shapes touch as their collision filters say, with their own materials")
    if joints := sum(map(bool, _values(model, "jnt_actgravcomp"))):
        ignored.append(
            f"actuatorgravcomp of {joints} joints: what compensates gravity is no force of their actuators and beyond their limits"
        )
    if soft := sum(map(_is_soft, _values(model, "eq_solref"))):
        ignored.append(
            f"solref of {soft} soft equality constraints: they hold nearly rigidly; use a joint with stiffness, or near_rigid_coupling"
        )
    if ignored:
        warnings.warn("SolverSAP does not read these of model.mujoco: " + "; ".join(ignored), stacklevel=4)


def _is_soft(solref) -> bool:
    """Whether a constraint asks for less stiffness than those that say nothing: by time constant and damping ratio, or itself."""
    a, b = solref
    stiffness = -a if a < 0.0 else 1.0 / max(a * b, 1.0e-9) ** 2
    return stiffness < 0.99 * _USUAL_STIFFNESS


def _values(model, name: str) -> list:
    values = getattr(getattr(model, "mujoco", None), name, None)
    return [] if values is None else values.list()


def _largest(model, name: str) -> float:
    return max(_values(model, name), default=0.0)


def _is_off(model, name: str) -> bool:
    return not all(_values(model, name))
