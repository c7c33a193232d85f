"""From a recording to numbers: cost, contact, conservation, joints, and the distance from a reference."""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np

from ..bodies import body_mechanics, weight
from ..scenes import Scene
from .record import Recording
from .theory import SUBJECTS, Subject, closed_form


@dataclass(frozen=True)
class Metric:
    """A column of the comparison."""

    key: str
    title: str
    """Head of the column, with its unit."""
    meaning: str
    """What is measured, in a sentence or two."""


METRICS = (
    Metric("step_ms", "ms/step", "Median wall time of a time step, collision detection included."),
    Metric("realtime", "x real time", "Simulated seconds per second of wall time."),
    Metric("setup_s", "setup s", "Building the solver, loading or compiling its kernels, recording its graph."),
    Metric("iterations_mean", "iter. mean", "Iterations of a frame's last step, mean over the run; a fixed number for "
           "solvers that never stop early, none for explicit ones."),
    Metric("iterations_max", "iter. most", "The most of them."),
    Metric("residual", "residual", "Largest final residual over its scale; only solvers that report one."),
    Metric("penetration_mm", "pen. mm", "Deepest contact over the last quarter, by Newton's collision pipeline whatever "
           "the solver believes."),
    Metric("penetration_peak_mm", "pen. peak mm", "Deepest contact of the whole run: the impact, where there is one."),
    Metric("slip_mm_s", "slip mm/s", "Fastest sliding of a touching contact over the last quarter."),
    Metric("creep_mm_s", "creep mm/s", "Net path of the fastest body over the last quarter, where everything should "
           "rest; in the gripper, of the cube relative to the hand."),
    Metric("sunk_mm", "sunk mm", "How far the held body has sunk relative to what holds it since the start; a cube left on the "
           "ground by the whole lift. The hand itself sags by a millimetre as it starts."),
    Metric("force_ratio", "force/weight", "Mean upward contact force over the weight in the last quarter; 1 at rest. "
           "From the solver's contact_f, otherwise from the change of momentum."),
    Metric("energy_drift", "energy drift", "Largest change of kinetic plus potential energy over the reference's largest "
           "kinetic energy, in scenes that conserve it."),
    Metric("energy_gain", "energy gain", "Largest rise above the initial energy on the same scale, in scenes that can only "
           "lose energy; 0 is right."),
    Metric("momentum_drift", "lin. mom. drift", "Largest change of linear momentum along conserved axes, over the "
           "reference's largest sum of m |v|."),
    Metric("angular_drift", "ang. mom. drift", "Largest change of angular momentum about the common COM, over its initial "
           "size."),
    Metric("limit_violation", "limit viol.", "Farthest that a joint passes its limits [rad or m]."),
    Metric("tracking_error", "drive error", "Largest distance of a driven joint from its target over the last quarter "
           "[rad or m]; drives are springs, so that a load leaves an error of load / ke."),
    Metric("joint_gap_mm", "joint gap mm", "Largest distance of a body from where its joints would put it; 0 for solvers "
           "in joint coordinates."),
    Metric("error_mm", "error mm", "Largest distance of a body's origin from the reference, SAP with a 16 times smaller "
           "step."),
    Metric("error_end_mm", "error at end mm", "The same at the end of the run."),
    Metric("closed_form_mm", "closed form mm", "Largest distance from the exact motion, in scenes that have one."),
)  # fmt: skip
"""Every column, in order."""


def measure(scene: Scene, run: Recording, reference: Recording | None) -> dict[str, float | None]:
    """Return every metric of a recording; None where it does not apply or the run diverged too early.

    Args:
        scene: The scene it was recorded on.
        run: The recording.
        reference: Recording of the reference solver, None if there is none.
    """
    subject = SUBJECTS.get(scene.name, Subject())
    values: dict[str, float | None] = dict.fromkeys(metric.key for metric in METRICS)
    values.update(_cost(scene, run))
    if run.diverged_at is not None:
        return values
    quarter = max(len(run.force) // 4, 1)
    values.update(_contact(scene, subject, run, quarter))
    values.update(_conservation(scene, subject, run, reference))
    values.update(_joints(scene.model, run, quarter))
    if reference is not None:
        errors = distance(run, reference)
        values["error_mm"], values["error_end_mm"] = 1e3 * float(errors.max()), 1e3 * float(errors[-1])
    exact = closed_form(scene, run)
    values["closed_form_mm"] = None if exact is None else 1e3 * float(exact.max())
    return values


def _cost(scene: Scene, run: Recording) -> dict[str, float | None]:
    values: dict[str, float | None] = {"setup_s": run.setup_s}
    if len(run.wall):
        wall = float(np.median(run.wall))
        values["step_ms"], values["realtime"] = 1e3 * wall / run.steps_per_frame, scene.frame_dt / wall
    if len(run.iterations):
        values["iterations_mean"] = float(run.iterations.mean())
        values["iterations_max"] = float(run.iterations.max())
    if len(run.residual):
        values["residual"] = float(run.residual.max())
    return values


def _contact(scene: Scene, subject: Subject, run: Recording, quarter: int) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    if subject.contact:
        values["penetration_mm"] = 1e3 * float(run.penetration[-quarter:].max())
        values["penetration_peak_mm"] = 1e3 * float(run.penetration.max())
        values["slip_mm_s"] = 1e3 * float(run.slip[-quarter:].max())
    if subject.rests and quarter > 1:
        values["creep_mm_s"] = 1e3 * _creep(run, subject, quarter, scene.frame_dt)
    if subject.held is not None:
        body, holder = subject.held
        height = run.body_q[:, body, 2] - run.body_q[:, holder, 2]
        values["sunk_mm"] = 1e3 * float(height[0] - height[-1])
    if subject.carried:
        values["force_ratio"] = float(run.force[-quarter:].mean()) / weight(scene.model)
    return values


def _creep(run: Recording, subject: Subject, quarter: int, frame_dt: float) -> float:
    """Return the speed [m/s] of the fastest body over the last frames, by its net path."""
    paths = run.body_q[-quarter:, :, :3]
    if subject.held is not None:
        body, holder = subject.held
        paths = (paths[:, body] - paths[:, holder])[:, None]
    return float(np.linalg.norm(paths[-1] - paths[0], axis=1).max()) / ((quarter - 1) * frame_dt)


def _conservation(scene: Scene, subject: Subject, run: Recording, reference: Recording | None) -> dict:
    values: dict[str, float | None] = {}
    own = body_mechanics(scene.model, run.body_q, run.body_qd)
    best = own if reference is None else body_mechanics(scene.model, reference.body_q, reference.body_qd)
    energy_scale = float((best.kinetic).max())
    change = own.total - own.total[0]
    if subject.energy == "conserved" and energy_scale > 0.0:
        values["energy_drift"] = float(np.abs(change).max()) / energy_scale
    elif subject.energy == "lost":
        # at rest there is no kinetic energy to compare with: take what falling by a millimetre gives
        values["energy_gain"] = float(change.max()) / max(energy_scale, 1e-3 * weight(scene.model))
    axes = list(subject.momentum_axes)
    if axes and best.amount.max() > 0.0:
        drift = np.linalg.norm((own.linear - own.linear[0])[:, axes], axis=1)
        values["momentum_drift"] = float(drift.max() / best.amount.max())
    if subject.angular:
        start = float(np.linalg.norm(own.angular[0]))
        values["angular_drift"] = float(np.linalg.norm(own.angular - own.angular[0], axis=1).max()) / start
    return values


_UNLIMITED = 1.0e6
"""Limits beyond this count as none."""


def _joints(model: newton.Model, run: Recording, quarter: int) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    if len(model.joint_type.numpy()) and set(model.joint_type.numpy()) != {int(newton.JointType.FREE)}:
        values["joint_gap_mm"] = 1e3 * float(run.joint_gap.max())
    coordinates, dofs = _scalar_axes(model)
    if not len(dofs):
        return values
    q = run.joint_q[:, coordinates].astype(float)
    low, high = model.joint_limit_lower.numpy()[dofs], model.joint_limit_upper.numpy()[dofs]
    limited = (np.abs(low) < _UNLIMITED) | (np.abs(high) < _UNLIMITED)
    if limited.any():
        passed = np.maximum(low - q, q - high)[:, limited]
        values["limit_violation"] = max(0.0, float(passed.max()))
    driven = model.joint_target_ke.numpy()[dofs] > 0.0
    if driven.any():
        errors = np.abs(q - run.joint_target_q[:, coordinates])[-quarter:, driven]
        values["tracking_error"] = float(errors.max())
    return values


def _scalar_axes(model: newton.Model) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates and dofs of prismatic and revolute joints."""
    kinds = model.joint_type.numpy()
    scalar = np.isin(kinds, [int(newton.JointType.PRISMATIC), int(newton.JointType.REVOLUTE)])
    joints = np.flatnonzero(scalar)
    return model.joint_q_start.numpy()[joints], model.joint_qd_start.numpy()[joints]


def distance(run: Recording, reference: Recording) -> np.ndarray:
    """Return the largest distance [m] of a body's origin from the reference, one entry per common frame."""
    frames = min(len(run.time), len(reference.time))
    apart = run.body_q[:frames, :, :3].astype(float) - reference.body_q[:frames, :, :3]
    return np.linalg.norm(apart, axis=2).max(axis=1)
