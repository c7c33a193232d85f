"""What mechanics says about each scene: which quantities are conserved, where bodies come to rest, how fast they creep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..bodies import body_mechanics, gravity, rotate
from ..reference.convex import HARDER, slip_limits
from ..scenes import Scene
from .contestants import touching_shapes
from .record import Recording


@dataclass(frozen=True)
class Subject:
    """What can be asked of a scene."""

    frames: int = 120
    """Frames to simulate unless told otherwise."""
    contact: bool = True
    """Bodies touch something."""
    rests: bool = False
    """Everything should be at rest in the last quarter, or at rest relative to what holds it."""
    carried: bool = False
    """The static world carries the whole weight at the end by contact."""
    held: tuple[int, int] | None = None
    """The body whose creep counts, and the body that holds it."""
    energy: str = ""
    """``"conserved"``, ``"lost"`` (only friction and impacts change it) or empty where drives do work."""
    momentum_axes: tuple[int, ...] = ()
    """Axes along which linear momentum is conserved."""
    angular: bool = False
    """Whether angular momentum is conserved."""
    body: int = 0
    """Body whose path is drawn."""
    axis: int = 2
    """Coordinate of it that is drawn."""
    notes: tuple[str, ...] = ()
    """What theory says, for the report."""


_DEPTH = "A contact of stiffness k rests at the depth of its load over k; a solver without compliance aims at 0."
_CREEP = (
    "Regularised friction creeps. SAP's cone: sigma w dt f, with the contact's inverse mass w and tangential force f; "
    "lagged and similar: eps r / sqrt(1 - r^2), with r = f / (mu n) and eps from stiction_tolerance to 30 times that, or 3 % of "
    "mu sigma w dt n; a penalty: f / kf, whatever the step."
)
_EXPLICIT = (
    "An explicit penalty is stable only while dt stays well below sqrt(m / k) and m / kd of the lightest part; a smaller "
    "step, as in featherstone/16, costs in proportion."
)
_HARD = (
    "XPBD corrects positions by relaxed, few sweeps: depth, drives and momentum depend on their number (its keyword "
    "iterations) as much as on the step."
)

SUBJECTS: dict[str, Subject] = {
    "sphere": Subject(rests=True, carried=True, energy="lost", notes=(_DEPTH, _HARD)),
    "box_on_incline": Subject(rests=True, carried=True, energy="lost", axis=0, notes=(_DEPTH, _CREEP, _HARD)),
    "box_stack": Subject(rests=True, carried=True, energy="lost", body=-1, notes=(_DEPTH, _EXPLICIT, _HARD)),
    "quadruped": Subject(rests=True, carried=True, notes=(_DEPTH, _CREEP, _EXPLICIT, _HARD)),
    "gripper_cube": Subject(
        frames=160,
        rests=True,
        held=(3, 0),
        body=3,
        notes=(
            "Each finger's drive presses with 15 N; two faces could carry 2 mu 15 N, much more than the cube's 1 N.",
            _CREEP,
            _HARD,
        ),
    ),
    "pendulum_cart": Subject(
        contact=False,
        energy="conserved",
        momentum_axes=(0,),
        body=1,
        axis=0,
        notes=(
            "Nothing dissipates: energy stays within a band of the order of the step for a symplectic method.",
            "The rail takes no force along x, so that the common COM keeps its x; steps in joint coordinates err by "
            "their order.",
            "XPBD works on bodies rather than joint angles: its joints open by the column joint gap.",
        ),
    ),
    "loaded_chain": Subject(
        contact=False,
        energy="conserved",
        body=-1,
        axis=0,
        notes=(
            "Nothing dissipates. Under the load's weight m g a link alone would swing at sqrt(m g l / I), 485 rad/s or two "
            "radians per step, and faster where the load passes below. A step that knows the pull at its start only feeds what "
            "swings by more than two radians, until it overflows. SAP damps how links swing against each other.",
            "XPBD works on bodies rather than joint angles: its joints open by the column joint gap.",
        ),
    ),
    "free_body": Subject(
        contact=False,
        energy="conserved",
        momentum_axes=(0, 1, 2),
        angular=True,
        axis=0,
        notes=(
            "Without forces the COM flies straight, and energy and both momenta stay. An explicit gyroscopic torque feeds "
            "the body; SolverSAP follows how the spin changes within the step and keeps the length of the angular momentum.",
            "The COM lies 0.27 m off the body's origin. A method that moves the origin of a free joint by its velocity "
            "lets the COM drift: by the order of |omega|^2 |c| dt / 2 per second with the offset c, here up to 23 mm/s "
            "at 1/240 s, and half as much with half the step.",
            "Newton documents such a drift for Featherstone (newton-physics/newton issue 1366). Newton 1.8.0 solves the "
            "free root about its COM: its line is then straight to round-off, and the drift shows in a solver that "
            "integrates the origin, as MuJoCo does.",
        ),
    ),
}  # fmt: skip
"""What to ask of each scene; a scene that is not listed gets the metrics that always apply."""


@dataclass(frozen=True)
class Prediction:
    """A number that theory gives for a metric."""

    metric: str
    """Key of the metric."""
    value: float
    formula: str
    """Where it comes from."""
    labels: tuple[str, ...] = field(default_factory=tuple)
    """Contestants it holds for; empty for all."""


def predictions(scene: Scene, solvers: dict[str, tuple[Any, float]]) -> list[Prediction]:
    """Return what theory predicts for a scene.

    Args:
        scene: The scene.
        solvers: Solver and time step [s] by label, of those that ran.
    """
    found = []
    subject = SUBJECTS.get(scene.name, Subject())
    compliant = tuple(label for label in solvers if label.partition("/")[0] in _COMPLIANT)
    depth = resting_depth(scene)
    if depth is not None and compliant:
        load, contacts, text = depth
        value = 1e3 * load / (contacts * _stiffness(scene))
        found.append(Prediction("penetration_mm", value, f"load / k; load: {text}", compliant))
    if subject.carried:
        found.append(Prediction("force_ratio", 1.0, "the ground carries the weight"))
    if scene.name == "box_on_incline":
        found += _incline_creep(scene, solvers)
    return found


_COMPLIANT = ("sap", "featherstone", "semi_implicit")
"""Solvers that take ke as a stiffness in N/m."""


def _stiffness(scene: Scene) -> float:
    model = scene.model
    return float(model.shape_material_ke.numpy()[touching_shapes(model)].mean())


def resting_depth(scene: Scene) -> tuple[float, int, str] | None:
    """Return load [N] and number of contacts of the deepest contact group at rest, and the formula of a contact's load."""
    total = scene.weight()
    if scene.name == "sphere":
        return total, 1, "m g"
    if scene.name == "quadruped":
        return total, 4, "m g / 4, feet loaded evenly"
    if scene.name == "box_stack":
        return total, 4, "a quarter of the tower"
    if scene.name == "box_on_incline":
        return 4 * float(_corner_loads(scene).max()), 4, "m g (cos(angle) + sin(angle)) / 4"
    return None


def _slope(scene: Scene) -> tuple[float, np.ndarray, np.ndarray]:
    """Return angle [rad], normal and downhill direction of the incline."""
    model = scene.model
    plane = int(np.flatnonzero(model.shape_body.numpy() < 0)[0])
    turn = model.shape_transform.numpy()[plane, 3:].astype(float)
    normal = rotate(turn[None], np.array([[0.0, 0.0, 1.0]]))[0]
    angle = float(np.arccos(np.clip(normal[2], -1.0, 1.0)))
    downhill = np.array([normal[0], normal[1], 0.0]) * normal[2] - np.array([0.0, 0.0, 1.0 - normal[2] ** 2])
    size = np.linalg.norm(downhill)
    return angle, normal, downhill / size if size else np.array([1.0, 0.0, 0.0])


def _friction(scene: Scene) -> float:
    model = scene.model
    return float(model.shape_material_mu.numpy()[touching_shapes(model)].mean())


def _incline_creep(scene: Scene, solvers: dict[str, tuple[Any, float]]) -> list[Prediction]:
    """Return the creep of a box that sticks, of every contestant whose friction law is known in closed form."""
    angle, mu = _slope(scene)[0], _friction(scene)
    if np.tan(angle) >= mu:
        return []
    loads, pull, w = _corner_loads(scene), scene.weight() * np.sin(angle), _inverse_mass(scene)
    found = []
    for label, (solver, dt) in solvers.items():
        name = label.partition("/")[0]
        options = getattr(solver, "options", None)
        if name == "sap" and options is not None:
            scaled = options.friction_regularization * w * dt
            if options.contact_model == "sap":
                speed = _creep(lambda v, scaled=scaled: np.minimum(v / scaled, mu * loads).sum(), pull)
                formula = "sigma w dt f, f at most mu n"
            else:
                least, most = slip_limits(options)
                eps = np.clip(mu * scaled * loads, least, np.maximum(most, HARDER * mu * scaled * loads))
                speed = _creep(lambda v, eps=eps: mu * loads @ (v / np.hypot(v, eps)), pull)
                formula = "sum of mu n v / sqrt(v^2 + eps^2) = m g sin(angle)"
        elif name in ("featherstone", "semi_implicit"):
            kf = float(scene.model.shape_material_kf.numpy()[touching_shapes(scene.model)].mean())
            speed = _creep(lambda v, kf=kf: np.minimum(kf * v, mu * loads).sum(), pull)
            formula = "sum of min(kf v, mu n) = m g sin(angle)"
        else:
            continue
        found.append(Prediction("creep_mm_s", 1e3 * speed, formula, (label,)))
    return found


def _corner_loads(scene: Scene) -> np.ndarray:
    """Return the normal forces [N] on the four corners of the cube: friction below its centre presses on the lower two."""
    angle = _slope(scene)[0]
    low, high = np.cos(angle) + np.sin(angle), np.cos(angle) - np.sin(angle)
    return scene.weight() / 4 * np.array([low, low, high, high])


def _creep(friction, pull: float) -> float:
    """Return the speed [m/s] at which a friction force that grows with speed balances a pull [N]."""
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if friction(middle) > pull else (middle, high)
    return high


def _inverse_mass(scene: Scene) -> float:
    """Return ``|J diag(A)^-1 J^T|_F / 3`` [1/kg] of a corner of the box."""
    model = scene.model
    inertia = model.body_inertia.numpy()[0].astype(float)
    scale = model.shape_scale.numpy()[model.shape_body.numpy() == 0][0].astype(float)
    x, y, z = scale * np.array([1.0, 1.0, -1.0])
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    matrix = np.eye(3) / float(model.body_mass.numpy()[0]) + cross.T @ np.diag(1.0 / np.diag(inertia)) @ cross
    return float(np.linalg.norm(matrix)) / 3.0


def closed_form(scene: Scene, run: Recording) -> np.ndarray | None:
    """Return the distance [m] from the exact motion by frame, None for a scene without one.

    The free body's COM flies straight; the pendulum and its cart keep the x of their COM; the box on the incline stays,
    or slides down with ``g (sin - mu cos)``, compared along the slope.
    """
    exact = _EXACT.get(scene.name)
    return None if exact is None else exact(scene, run)


def _com(scene: Scene, run: Recording) -> np.ndarray:
    return body_mechanics(scene.model, run.body_q, run.body_qd).com


def _straight(scene: Scene, run: Recording) -> np.ndarray:
    com = _com(scene, run)
    return np.linalg.norm(com - com[0] - run.time[:, None] * run.body_qd[0, 0, :3], axis=1)


def _same_x(scene: Scene, run: Recording) -> np.ndarray:
    com = _com(scene, run)
    return np.abs(com[:, 0] - com[0, 0])


def _slide(scene: Scene, run: Recording) -> np.ndarray:
    _, normal, downhill = _slope(scene)
    pull = gravity(scene.model)[0]
    acceleration = max(0.0, pull @ downhill + _friction(scene) * (pull @ normal))
    com = _com(scene, run)
    return np.abs((com - com[0]) @ downhill - 0.5 * acceleration * run.time**2)


_EXACT = {"free_body": _straight, "pendulum_cart": _same_x, "box_on_incline": _slide}
