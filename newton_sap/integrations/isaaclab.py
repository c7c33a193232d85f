"""SolverSAP in Isaac Lab: ``NewtonCfg(solver_cfg=SAPSolverCfg(preset="drake"))``; see ``docs/isaaclab.md``.

Importing this makes the configuration only. ``NewtonSAPManager`` is made when Isaac Lab resolves
``SAPSolverCfg.class_type``, after its app has started, and refuses a version with another contract.
"""

from __future__ import annotations

import logging
from dataclasses import fields

from newton_sap.config import SAPOptions

try:
    from isaaclab.utils.configclass import configclass
    from isaaclab_newton.physics import NewtonSolverCfg
except ModuleNotFoundError as error:
    raise ImportError("newton_sap.integrations.isaaclab needs Isaac Lab 3 with its package isaaclab_newton") from error
except ImportError as error:
    raise ImportError(f"this version of Isaac Lab is unknown to newton_sap, which knows 3.0: {error}") from error

logger = logging.getLogger(__name__)


@configclass
class SAPSolverCfg(NewtonSolverCfg):
    """Keywords of :class:`newton_sap.SolverSAP`; None leaves an option to the preset or to its default."""

    class_type: type | str = "newton_sap.integrations.isaaclab:NewtonSAPManager"
    solver_type: str = "sap"
    preset: str | None = None
    contact_model: str | None = None
    friction_bound: str | None = None
    precision: str | None = None
    contact_weight: str | None = None
    contact_point: str | None = None
    position_update: str | None = None
    material_rule: str | None = None
    unset_materials: str | None = None
    dissipation_ahead_of_touch: bool | None = None
    pass_over_edges: bool | None = None
    drive_integration: str | None = None
    spring_integration: str | None = None
    kinematic_velocity: str | None = None
    near_rigid_contact: float | None = None
    near_rigid_joint: float | None = None
    near_rigid_coupling: float | None = None
    spin_friction: bool | None = None
    friction_regularization: float | None = None
    hunt_crossley_dissipation: float | None = None
    stiction_tolerance: float | None = None
    max_iterations: int | None = None
    optimality_abs: float | None = None
    optimality_rel: float | None = None
    cost_abs: float | None = None
    cost_rel: float | None = None
    line_search_max_iterations: int | None = None
    line_search_tolerance: float | None = None
    strict: bool | None = None
    max_contacts: int | None = None
    threads: int | None = None


def _make_manager():
    """Return a subclass of Isaac Lab's manager, whose import needs the running app."""
    from isaaclab_newton.physics import NewtonManager

    from newton_sap import SolverSAP

    # Isaac Lab reads these from its base class: one state for input and output; contacts from Newton's pipeline;
    # State.body_f counts.
    slots = {"_use_single_state": True, "_needs_collision_pipeline": True, "_supports_rigid_body_force_input": True}
    contract = ("_build_solver", "_create_solver", "_log_solver_debug", "_solver", *slots)
    if missing := [name for name in contract if not hasattr(NewtonManager, name)]:
        raise ImportError(
            f"this version of Isaac Lab is unknown to newton_sap, which knows 3.0: no NewtonManager.{', '.join(missing)}"
        )

    class NewtonSAPManager(NewtonManager):
        """Isaac Lab's Newton manager with SolverSAP."""

        @classmethod
        def _create_solver(cls, model, solver_cfg):
            values = {name: getattr(solver_cfg, name) for name in ("preset", *(f.name for f in fields(SAPOptions)))}
            return SolverSAP(model, **{name: value for name, value in values.items() if value is not None})

        @classmethod
        def _build_solver(cls, model, solver_cfg):
            for name, value in {"_solver": cls._create_solver(model, solver_cfg), **slots}.items():
                setattr(NewtonManager, name, value)

        @classmethod
        def _log_solver_debug(cls):
            if logger.isEnabledFor(logging.DEBUG):  # the report waits for the device
                logger.debug("SolverSAP\n%s", cls._solver.report())

    return NewtonSAPManager


def __getattr__(name):
    if name != "NewtonSAPManager":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _make_manager())
