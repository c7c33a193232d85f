"""Whether a run is worth timing, and how good its answer is: one sampled pass after the timing.

Penetration and slip are measured on the end state by Newton's own collision pipeline, whatever the solver believes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import warp as wp

from ..bodies import BodyMechanics, body_mechanics, rotate
from .run import WarpRun, make_pipeline, make_warp_run
from .scenes import RENEWAL, BenchScene

SAMPLED_STEPS = 40
"""Steps of the sampled pass."""
COARSE_STEPS = 50
"""Steps over which a run is compared with the fine one."""
FINE = 16
"""Divisor of the time step of the fine run."""
SPEED_LIMIT = 200.0
"""Speed [m/s or rad/s] beyond which a run counts as diverged."""


@dataclass
class Quality:
    """What a run's answer is worth; None where it cannot be told."""

    failures: list[str] = field(default_factory=list)
    """Why the run counts as failed; empty if it does not."""
    left_out: str = ""
    """Why the peer was not run on this scene; it then counts neither as passed nor as failed."""
    iterations_mean: float | None = None
    iterations_p95: float | None = None
    iterations_max: int | None = None
    iterations_histogram: dict[int, int] = field(default_factory=dict)
    """World steps by number of iterations, over the sampled pass."""
    residual: float | None = None
    """Largest final residual over its scale [-]."""
    contacts: float | None = None
    """Touching contacts per world at the end."""
    penetration_mm: float | None = None
    """Deepest contact at the end."""
    slip_mm_s: float | None = None
    """Fastest sliding of touching contacts at the end."""
    force_over_weight: float | None = None
    """Mean upward contact force over the weight; 1 at rest."""
    force_from: str = ""
    """``"contact_f"`` (the solver's observable) or ``"momentum"`` (change of momentum plus weight)."""
    energy_drift: float | None = None
    """Change of energy in the sampled pass over its size at the start [-], where it should be conserved."""
    error_mm: float | None = None
    """Largest body displacement from a run of SAP with a much smaller time step."""


def judge(run) -> Quality:
    """Look at a run that has just been timed, then sample it for a few more steps."""
    quality = Quality()
    quality.failures += _state_failures(run) + run.complaints()
    if quality.failures or not isinstance(run, WarpRun):
        _count_iterations(quality, [run.iterations()])
        return quality
    _sample(run, quality)
    quality.contacts, quality.penetration_mm, quality.slip_mm_s = contact_state(run)
    quality.failures += _state_failures(run)
    return quality


def _state_failures(run) -> list[str]:
    poses, velocities = run.poses(), run.velocities()
    if not np.isfinite(poses).all() or (velocities is not None and not np.isfinite(velocities).all()):
        return ["the state is not finite"]
    found = []
    lowest = float(poses[..., 2].min())
    if lowest < run.scene.floor:
        found.append(f"a body at z = {lowest:.3g} m, below {run.scene.floor:.3g}")
    if velocities is not None and abs(velocities).max() > SPEED_LIMIT:
        found.append(f"a body at speed {abs(velocities).max():.3g}")
    return found


def _sample(run: WarpRun, quality: Quality) -> None:
    """Step eagerly and read after every step what the solver tells."""
    run.rewind()
    iterations, residuals, forces, start = [], [], [], _mechanics(run)
    for i in range(SAMPLED_STEPS):
        if i % RENEWAL == 0:
            run.renew_forces()
            run.clock += RENEWAL
        run.step(run.observables)
        iterations.append(run.iterations())
        residual = run.scaled_residual()
        residuals += [] if residual is None else [residual]
        if run.observables is not None:
            forces.append(upward_force(run))
    _count_iterations(quality, iterations)
    quality.residual = max(residuals, default=None)
    end = _mechanics(run)
    if run.scene.rests:
        gained = float(end.linear[0, 2] - start.linear[0, 2])
        from_momentum = gained / (SAMPLED_STEPS * run.scene.dt) + run.scene.weight()
        quality.force_from = "contact_f" if forces else "momentum"
        quality.force_over_weight = (float(np.mean(forces)) if forces else from_momentum) / run.scene.weight()
        if run.scene.name == "gripper":
            quality.force_over_weight = None  # the fingers' weight is carried by their joints
    if run.scene.conservative:
        quality.energy_drift = float((end.total[0] - start.total[0]) / abs(start.total[0]))


def _count_iterations(quality: Quality, samples: list) -> None:
    samples = [sample for sample in samples if sample is not None]
    if not samples:
        return
    every = np.concatenate(samples)
    quality.iterations_mean = float(every.mean())
    quality.iterations_p95 = float(np.percentile(every, 95))
    quality.iterations_max = int(every.max())
    counted, times = np.unique(every, return_counts=True)
    quality.iterations_histogram = {int(n): int(k) for n, k in zip(counted, times, strict=True)}


def _mechanics(run: WarpRun) -> BodyMechanics:
    return body_mechanics(run.model, run.poses().reshape(1, -1, 7), run.velocities().reshape(1, -1, 6))


def upward_force(run: WarpRun) -> float:
    """Return the upward force [N] of the static world on all bodies in the last step."""
    contacts, owner = run.contacts, run.model.shape_body.numpy()
    count = min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)
    first = owner[contacts.rigid_contact_shape0.numpy()[:count]]
    second = owner[contacts.rigid_contact_shape1.numpy()[:count]]
    up = run.observables.contact_f.numpy()[:count, 2].astype(float)  # on the body of the first shape
    return float(np.where(first < 0, -up, np.where(second < 0, up, 0.0)).sum())


def contact_state(run: WarpRun) -> tuple[float, float, float]:
    """Return touching contacts per world, deepest penetration [mm] and fastest slip [mm/s] of the current state."""
    pipeline = run.pipeline or make_pipeline(run.scene)
    contacts = run.contacts or pipeline.contacts()
    pipeline.collide(run.state, contacts)
    count = min(int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max)
    poses, speeds = run.poses().reshape(-1, 7), run.velocities().reshape(-1, 6)
    com = run.model.body_com.numpy().astype(float)
    normal = contacts.rigid_contact_normal.numpy()[:count].astype(float)
    points, moving = [], []
    for side in ("0", "1"):
        body = run.model.shape_body.numpy()[getattr(contacts, f"rigid_contact_shape{side}").numpy()[:count]]
        point = getattr(contacts, f"rigid_contact_point{side}").numpy()[:count].astype(float)
        offset = getattr(contacts, f"rigid_contact_offset{side}").numpy()[:count].astype(float)
        fixed = (body < 0)[:, None]
        pose, speed = poses[body], speeds[body]
        arm = rotate(pose[:, 3:], point + offset)
        lever = arm - rotate(pose[:, 3:], com[body])
        points.append(np.where(fixed, point + offset, pose[:, :3] + arm))
        moving.append(np.where(fixed, 0.0, speed[:, :3] + np.cross(speed[:, 3:], lever)))
    gap = ((points[1] - points[0]) * normal).sum(axis=1)
    relative = moving[1] - moving[0]
    slip = np.linalg.norm(relative - (relative * normal).sum(axis=1)[:, None] * normal, axis=1)
    touching = gap < 0.0
    if not touching.any():
        return 0.0, 0.0, 0.0
    return touching.sum() / run.scene.worlds, 1e3 * float(-gap.min()), 1e3 * float(slip[touching].max())


def fine_poses(scene: BenchScene) -> np.ndarray:
    """Return the body poses that SAP reaches with a much smaller step from the scene's start, (1, bodies, 7)."""
    from ..solver import SolverSAP

    run = make_warp_run(scene, "sap", SolverSAP, {})
    run.refine = FINE
    return _short_run(run)


def _short_run(run) -> np.ndarray:
    run.mark()
    if isinstance(run, WarpRun):
        run.step()  # compiles
        run.rewind()
        run.capture()
    run.advance(COARSE_STEPS, run.modes[-1])
    wp.synchronize()
    return run.poses().copy()


def error_mm(run, reference: np.ndarray) -> float | None:
    """Return the largest distance [mm] of a body of a fresh one-world run from where the fine run has it."""
    poses = _short_run(run)
    if poses.shape != reference.shape or not np.isfinite(poses).all():
        return None
    return 1e3 * float(np.linalg.norm(poses[..., :3] - reference[..., :3], axis=-1).max())
