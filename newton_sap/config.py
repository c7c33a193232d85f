"""Options of the solver: one frozen, validated dataclass and the named presets.

Every field states its unit, range, effect and where its default comes from. ``F x.y`` refers to the
numbered sections of ``docs/formulation.md``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from .suggest import suggestion

CONTACT_MODELS = ("sap", "lagged", "similar")
PRECISIONS = ("float64", "mixed")
CONTACT_WEIGHTS = ("joint_blocks", "delassus", "body_inertia")
CONTACT_POINTS = ("shared", "witness")
POSITION_UPDATES = ("symplectic", "sap_euler", "midpoint")
MATERIAL_RULES = ("newton", "drake")
INTEGRATIONS = ("implicit", "explicit")
UNSET_MATERIALS = ("rigid", "literal")
FRICTION_BOUNDS = ("solved", "start")
KINEMATIC_VELOCITIES = ("given", "measured")
LARGEST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SAPOptions:
    """Options of :class:`newton_sap.SolverSAP`; the solver keeps its own as ``solver.options``.

    Build one directly to validate settings without a model, or let the solver build it from its keywords. ``F 3.2`` and the like
    are sections of ``docs/formulation.md``.

    Raises:
        ValueError: A value outside its range or an unknown choice; the message lists what is accepted.
        TypeError: An option that does not exist.
    """

    contact_model: str = "lagged"
    """Contact law. ``"sap"``: compliant normal contact and friction in one convex cone (Castro et al. 2022).
    ``"lagged"``: Hunt & Crossley's normal force, friction bounded by a number (Castro et al. 2023, ``friction_bound``).
    ``"similar"``: the same normal law of a velocity that combines normal and slip. Default: sliding neither lifts
    nor kicks a body under ``"lagged"``; measured in ``docs/contact_laws.md``. Drake's default too."""

    friction_bound: str = "solved"
    """Which normal impulse bounds friction under ``"lagged"``, and spin friction. ``"solved"``: that of this step, read a few
    times from the minimisation while it converges. ``"start"``: what depth and velocity at the start of the step give, as
    Drake; late where contacts come and go, noisy where they are stiff. Default: measured in ``docs/contact_laws.md``."""

    precision: str = "float64"
    """``"float64"`` throughout, or ``"mixed"``: the Hessian is assembled and factored in float32 while cost,
    gradient, line search and stopping test stay in float64. Default: float64, Drake."""

    contact_weight: str = "joint_blocks"
    """Effective inverse mass ``w`` [1/kg] of a contact, which scales the friction regularisation and the near-rigid
    bound. ``"delassus"``: ``|J diag(A)^-1 J^T|_F / 3`` (Drake). ``"joint_blocks"``: the same with the 3 x 3 blocks of free
    and ball joints' rotations in place of their diagonals. ``"body_inertia"``: mean over three directions of
    ``1/m + (r x c)^T I^-1 (r x c)`` of the two bodies, blind to articulation (SAP Warp's approximate presets). Default:
    does not depend on the axes in which velocities are written."""

    contact_point: str = "shared"
    """``"shared"``: one point for both bodies, the two surface points weighted by stiffness (Drake), which conserves
    angular momentum. ``"witness"``: each body at its own surface point (SAP Warp's approximate presets)."""

    position_update: str = "symplectic"
    """How ``q`` follows the new velocity. ``"symplectic"``: ``q + dt v``, free bodies about their COM, orientations by
    the exponential map, velocity products of the middle of the step; keeps momentum, also of bodies that tumble, and
    unit quaternions. ``"sap_euler"``: as Drake, free bodies about their origin, quaternions to first order, then
    normalised. ``"midpoint"``: as ``"sap_euler"`` with the mean of the old and new velocity; inconsistent with the contact
    prediction, kept for SAP Warp's approximate presets. Under the last two, what acts on a free joint's linear axes (damping, dry friction, armature, velocity limit)
    acts on the body's origin."""

    material_rule: str = "newton"
    """How two shapes' materials combine. ``"newton"``: mean of ``ke``, ``kd`` and ``mu``. ``"drake"``: stiffnesses
    in series, relaxation times summed, ``mu = 2 mu_a mu_b / (mu_a + mu_b)``. Default: what Newton's solvers do."""

    unset_materials: str = "rigid"
    """What a pair of shapes means whose ``ke`` and ``kd`` both are Newton's defaults (2500 N/m, 100 N s/m), which
    nobody chose. ``"rigid"``: as stiff as the step resolves, critically damped; ``"literal"``: 2500 N/m, on which a
    500 kg ball sinks two metres. Default: swapping in this solver must not let Newton's own scenes sink."""

    dissipation_ahead_of_touch: bool = False
    """Let the relaxation time act on contacts and limits that are still open. False avoids braking at a distance of
    ``(dt + tau) |v|``; True is what Drake does for limits and SAP Warp for every contact its pipeline reports."""

    pass_over_edges: bool = True
    """Leave out contacts with edges inside a surface: seams between flush tiles, triangles of a flat mesh, cells of a
    heightfield. False takes every contact as Newton reports it, as Drake does; what slides then trips over seams."""

    drive_integration: str = "implicit"
    """PD drives at the end of the step (``"implicit"``, stable for any gain, Drake) or at its start (``"explicit"``,
    as SolverFeatherstone does, stable for ``dt kd < 2 I``; ball joints stay implicit)."""

    spring_integration: str = "implicit"
    """Passive joint springs (``joint_stiffness``) at the end of the step, stable for any stiffness, or at its start."""

    kinematic_velocity: str = "given"
    """Velocity of kinematic bodies. ``"given"``: what the state says, and zero for one that is moved by its pose alone;
    ``"measured"``: how the pose changed since the last step, over ``dt``, as SolverVBD does, which replaces what the state says;
    call ``reset`` before what jumps. Default: as SolverMuJoCo and SolverXPBD, and a jump of a pose throws nothing."""

    near_rigid_contact: float = 1.0
    """``beta`` [-], >= 0, of contacts with a stiffness of their own under ``"sap"``: the stiffest that the solver resolves has the
    period ``beta dt``; 0 removes the bound. Default: Drake's ``sap_near_rigid_threshold``."""

    near_rigid_joint: float = 0.1
    """``beta`` [-], > 0, for joint limits, drives, contacts of unset materials and all contacts under ``"similar"``, whose
    stiffest has the period ``beta dt``. Default: Drake."""

    near_rigid_coupling: float = 0.05
    """``beta`` [-], > 0, for loop-closing joints, equality constraints, mimic and distance joints. Default: heavy parts that
    hang on light loops open them four times less than with Drake's 0.1, which is two millimetres in one of Newton's scenes."""

    spin_friction: bool = False
    """Torsional and rolling friction (``mu_torsional``, ``mu_rolling`` [m]): the relative spin of touching bodies meets a
    moment of at most ``mu`` times the normal force (``friction_bound``). Off by default, as in Drake and as in
    SolverMuJoCo's default contacts; Newton's default shapes carry small values of both."""

    friction_regularization: float = 1.0e-3
    """``sigma`` [-], > 0: sticking contacts creep at ``sigma w dt |f_t|`` [m/s]. Default: Drake's fixed value."""

    hunt_crossley_dissipation: float = 25.0
    """Dissipation ``d`` [s/m], >= 0, of shapes without ``sap:hunt_crossley_dissipation``; read by ``"lagged"`` and
    ``"similar"``. Default: no rebound faster than 4 cm/s, and no slower a way out from deep inside (Drake: 50)."""

    stiction_tolerance: float = 1.0e-5
    """Slip speed [m/s], > 0, below which ``"lagged"`` and ``"similar"`` regularise friction; about 30 times as much where
    heavy loads rest on light bodies, without limit under ``friction_bound="start"``. Default: as little creep as
    ``"sap"`` at no more iterations, measured in ``docs/contact_laws.md``; Drake has 1e-4."""

    max_iterations: int = 200
    """Newton iterations per minimisation, >= 0; reaching it is counted per world in ``report()``. A step in which surfaces
    rebound (``restitution``) minimises twice. Default: twice Drake's, since the stiffest of many random problems take up
    to 113 under ``"similar"``."""

    optimality_abs: float = 1.0e-14
    """Absolute tolerance [sqrt(J)], >= 0, of the scaled momentum residual. Default: Drake."""

    optimality_rel: float = 1.0e-6
    """Relative tolerance [-], >= 0, of the scaled momentum residual, against what the step changes (F 3.2). Default: Drake's."""

    cost_abs: float = 1.0e-30
    """Absolute decrease [J], >= 0, of the cost below which the iteration stops. Default: Drake."""

    cost_rel: float = 1.0e-15
    """Relative decrease [-], >= 0, of the cost below which the iteration stops. Default: Drake."""

    line_search_max_iterations: int = 100
    """Evaluations of the exact line search, >= 1. Default: Drake."""

    line_search_tolerance: float = 1.0e-8
    """Relative tolerance [-], > 0, on slope and step length of the line search; its fourth root in the first 10 iterations,
    which take about as many of them at half the evaluations. Default: Drake; with 1e-4 throughout, some hard solves never end."""

    strict: bool = False
    """Raise ``RuntimeError`` after a step that did not converge, was not finite or dropped contacts. Reads the device
    every step, so it slows down and does nothing while a graph is captured; ``report()`` has the same counts."""

    max_contacts: int | None = None
    """How many contacts may act at the same time, in the whole model. None: as many as Newton may report where they fit
    into 3 MiB, else one for a sphere or ellipsoid, two for a capsule, four for any other shape, more for a body of its own."""

    threads: int = 1
    """CPU threads [-], >= 1, that share the worlds of a step outside graphs, with the same bits; a captured graph has one.
    Two threads take 0.7 to 0.8 of the time for a thousand worlds, longer for less than a hundred."""

    def __post_init__(self):
        for name, value in vars(self).items():
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())  # so that options are plain values everywhere
        choices = {
            "contact_model": CONTACT_MODELS,
            "precision": PRECISIONS,
            "contact_weight": CONTACT_WEIGHTS,
            "contact_point": CONTACT_POINTS,
            "position_update": POSITION_UPDATES,
            "material_rule": MATERIAL_RULES,
            "unset_materials": UNSET_MATERIALS,
            "friction_bound": FRICTION_BOUNDS,
            "drive_integration": INTEGRATIONS,
            "spring_integration": INTEGRATIONS,
            "kinematic_velocity": KINEMATIC_VELOCITIES,
        }
        for name, accepted in choices.items():
            _require_choice(name, getattr(self, name), accepted)
        for name in (
            "near_rigid_contact",
            "optimality_abs",
            "optimality_rel",
            "cost_abs",
            "cost_rel",
            "hunt_crossley_dissipation",
        ):
            _require_number(name, getattr(self, name), 0.0, inclusive=True)
        for name in (
            "near_rigid_joint",
            "near_rigid_coupling",
            "friction_regularization",
            "line_search_tolerance",
            "stiction_tolerance",
        ):
            _require_number(name, getattr(self, name), 0.0, inclusive=False)
        _require_integer("max_iterations", self.max_iterations, 0)
        _require_integer("line_search_max_iterations", self.line_search_max_iterations, 1)
        if self.max_contacts is not None:
            _require_integer("max_contacts", self.max_contacts, 0)
        _require_integer("threads", self.threads, 1)
        for name in ("dissipation_ahead_of_touch", "pass_over_edges", "spin_friction", "strict"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain values, ready for JSON; ``SAPOptions(**d)`` restores them."""
        return asdict(self)


_SAP_WARP_APPROXIMATE = {
    "contact_model": "sap",
    "friction_bound": "start",
    "max_iterations": 100,
    "contact_weight": "body_inertia",
    "contact_point": "witness",
    "position_update": "midpoint",
    "material_rule": "drake",
    "unset_materials": "literal",
    "dissipation_ahead_of_touch": True,
    "pass_over_edges": False,
    "near_rigid_coupling": 0.1,
}

PRESETS: dict[str, dict[str, Any]] = {
    "approx32": {"precision": "mixed", **_SAP_WARP_APPROXIMATE},
    "approx64": {"precision": "float64", **_SAP_WARP_APPROXIMATE},
    "drake": {
        "contact_model": "sap",
        "friction_bound": "start",
        "max_iterations": 100,
        "hunt_crossley_dissipation": 50.0,
        "stiction_tolerance": 1.0e-4,
        "precision": "float64",
        "contact_weight": "delassus",
        "contact_point": "shared",
        "position_update": "sap_euler",
        "material_rule": "drake",
        "unset_materials": "literal",
        "dissipation_ahead_of_touch": True,
        "pass_over_edges": False,
        "near_rigid_coupling": 0.1,
    },
}
"""What each preset sets; every other option keeps its default, and an explicit keyword always wins."""


def resolve_options(preset: str | None, explicit: dict[str, Any]) -> SAPOptions:
    """Return the options of a preset overridden by the explicit ones; a value of None means "not given"."""
    defaults: dict[str, Any] = {}
    if preset is not None:
        _require_choice("preset", preset, tuple(PRESETS))
        defaults = PRESETS[preset]
    given = {name: value for name, value in explicit.items() if value is not None}
    known = {field.name for field in fields(SAPOptions)}
    for name in given:
        if name not in known:
            raise ValueError(f"unknown option {name!r}{suggestion(name, known)}")
    return SAPOptions(**{**defaults, **given})


def _require_choice(name: str, value: Any, accepted: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in accepted:
        names = ", ".join(repr(a) for a in accepted)
        raise ValueError(f"{name} {value!r} is unknown{suggestion(value, accepted)} (accepted: {names})")


def _require_number(name: str, value: Any, low: float, *, inclusive: bool) -> None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value < low or (value == low and not inclusive):
        raise ValueError(f"{name} must be a finite number {'>=' if inclusive else '>'} {low:g}, not {value!r}")


def _require_integer(name: str, value: Any, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{name} must be an integer >= {low}, not {value!r}")
    if value > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST}, to which kernels count, not {value!r}")
