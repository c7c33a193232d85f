"""One solver stepping one scene, frame by frame: poses, velocities, contact, iterations and wall time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import newton
import numpy as np
import warp as wp

from ..bench.run import PER_GRAPH, WarpRun
from ..bench.validation import SPEED_LIMIT, contact_state, upward_force
from ..bodies import weight
from ..scenes import Scene
from .contestants import Contestant, capacity, mapped_options

RANGE_LIMIT = 100.0
"""Distance [m] from the origin beyond which a run counts as diverged."""
_SAME = 1.0e-3
"""Largest difference [m or m/s, relative above 1] between a replayed frame and the one stepped by hand."""


@dataclass
class Recording:
    """What one solver did; arrays have one entry per frame, the first at the start, unless said otherwise."""

    time: np.ndarray
    """Time [s]."""
    body_q: np.ndarray
    """(frames, bodies, 7) poses."""
    body_qd: np.ndarray
    """(frames, bodies, 6) velocities of the COM, linear first."""
    joint_q: np.ndarray
    """(frames, coordinates) joint coordinates, read off the bodies by inverse kinematics."""
    joint_target_q: np.ndarray
    """(frames, coordinates) drive targets of the frame."""
    joint_gap: np.ndarray
    """Largest distance [m] of a body from where its joints would put it."""
    penetration: np.ndarray
    """Deepest contact [m], by Newton's collision pipeline."""
    slip: np.ndarray
    """Fastest sliding [m/s] of a touching contact."""
    force: np.ndarray
    """(frames - 1,) upward force [N] of the static world on all bodies."""
    force_from: str
    """``"contact_f"`` (the solver's observable) or ``"momentum"`` (change of momentum plus weight)."""
    wall: np.ndarray
    """(frames - 1,) wall time [s] of a frame, collision detection included."""
    steps_per_frame: int
    """Time steps in a frame."""
    iterations: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(frames - 1,) iterations of the frame's last step; empty where the solver does not tell."""
    residual: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(frames - 1,) final residual over its scale [-]; empty where the solver does not tell."""
    complaints: list[str] = field(default_factory=list)
    """What the solver itself says went wrong."""
    diverged_at: float | None = None
    """Time [s] at which the state stopped being finite or left every reason; the recording ends there."""
    setup_s: float = 0.0
    """Time [s] to build the solver, compile its kernels and record its graph."""


class SceneRun(WarpRun):
    """A contestant on a scene; stepped and read like a benchmark run, but frame by frame from the scene's start."""

    scene: Scene

    def __init__(self, scene: Scene, contestant: Contestant, solver_class: type):
        options = {**mapped_options(contestant.solver, scene.name), **contestant.options}
        refine, room = contestant.refine, capacity(scene.name)
        super().__init__(scene, contestant.solver, solver_class, options, refine=refine, room=room)
        self.mode = "eager"
        self.why_eager = ""

    def prepare(self) -> None:
        """Compile, and record the steps as a graph where replaying it gives what stepping by hand gives.

        ``mode`` says whether it does, and ``why_eager`` why it does not.
        """
        self._steps()
        by_hand = self._numbers()
        self._restart()
        if self.scene.substeps % PER_GRAPH:
            self.why_eager = f"{self.scene.substeps} steps per frame are no multiple of {PER_GRAPH}"
            return
        if not np.isfinite(by_hand).all():
            self.why_eager = "the first frame is not finite"
            return
        try:
            with wp.ScopedCapture(device=self.model.device) as capture:
                for _ in range(PER_GRAPH):
                    self.step(self.observables)
        except Exception as error:  # a solver may do anything in its step; then it is stepped by hand
            self.why_eager = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._restart()
            return
        self.graph = capture.graph
        self._steps()
        replayed = self._numbers()
        self._restart()
        if np.all(np.abs(replayed - by_hand) <= _SAME * np.maximum(np.abs(by_hand), 1.0)):
            self.mode = "captured"
        else:
            self.graph = None
            self.why_eager = "replaying the first frame gives another one than stepping it"

    def frame(self, index: int) -> float:
        """Advance by one frame and return its wall time [s]."""
        if self.scene.actuate is not None:
            self.scene.actuate(self.control, index * self.scene.frame_dt)
        begin = time.perf_counter()
        self._steps()
        wp.synchronize_device(self.model.device)
        return time.perf_counter() - begin

    def _steps(self) -> None:
        if self.graph is not None:
            for _ in range(self.scene.substeps // PER_GRAPH):
                wp.capture_launch(self.graph)
            return
        for _ in range(self.scene.substeps):
            self.step(self.observables)

    def _numbers(self) -> np.ndarray:
        return np.concatenate([self.state.body_q.numpy().ravel(), self.state.body_qd.numpy().ravel()])

    def _restart(self) -> None:
        start = self.scene.state()
        self.state.assign(start)
        self.other.assign(start)
        self.solver.reset(self.state)

    def told_iterations(self) -> float | None:
        """Return the iterations of the last step: counted, or the fixed number of a solver that never stops early."""
        counted = self.iterations()
        if counted is not None:
            return float(np.max(counted)) if np.size(counted) else 0.0
        fixed = getattr(self.solver, "iterations", None)
        return float(fixed) if isinstance(fixed, int) and not isinstance(fixed, bool) else None


class _Probe:
    """Measures a run's state with buffers of its own, so that looking changes nothing."""

    def __init__(self, run: SceneRun):
        model = run.model
        self.run, self.model, self.scene = run, model, run.scene
        self.pipeline = newton.CollisionPipeline(model, rigid_contact_max=capacity(run.scene.name))
        self.contacts = self.pipeline.contacts()
        self.joint_q = wp.clone(model.joint_q)
        self.joint_qd = wp.clone(model.joint_qd)
        self.placed = model.state()

    @property
    def state(self) -> newton.State:
        """The run's current state."""
        return self.run.state

    def poses(self) -> np.ndarray:
        """Return body poses, (worlds, bodies, 7)."""
        return self.run.poses()

    def velocities(self) -> np.ndarray:
        """Return body velocities, linear first, (worlds, bodies, 6)."""
        return self.run.velocities()

    def joints(self) -> tuple[np.ndarray, float]:
        """Return joint coordinates, and the largest distance [m] of a body from where they would put it."""
        if not self.model.joint_count:
            return np.zeros(0), 0.0
        newton.eval_ik(self.model, self.state, self.joint_q, self.joint_qd)
        newton.eval_fk(self.model, self.joint_q, self.joint_qd, self.placed)
        gap = self.placed.body_q.numpy()[:, :3].astype(float) - self.state.body_q.numpy()[:, :3]
        return self.joint_q.numpy().copy(), float(np.linalg.norm(gap, axis=1).max())

    def contact(self) -> tuple[float, float]:
        """Return the deepest penetration [m] and the fastest slip [m/s]."""
        _, depth_mm, slip_mm_s = contact_state(self)
        return 1e-3 * depth_mm, 1e-3 * slip_mm_s


def record(scene: Scene, contestant: Contestant, solver_class: type, frames: int) -> tuple[Recording, SceneRun]:
    """Run a contestant from the scene's start and return what it did.

    Args:
        scene: Scene with a model of its own.
        contestant: Solver, divisor of the time step and keywords.
        solver_class: Class of that solver.
        frames: Frames to simulate; fewer if the run diverges.
    """
    begin = time.perf_counter()
    run = SceneRun(scene, contestant, solver_class)
    run.prepare()
    setup = time.perf_counter() - begin
    probe, series = _Probe(run), _Series(run)
    series.look(probe)
    diverged_at = None
    for index in range(frames):
        series.advance(index)
        if _left_reason(run):
            diverged_at = (index + 1) * scene.frame_dt
            break
        series.look(probe)
    return series.recording(setup, diverged_at), run


def _left_reason(run: SceneRun) -> bool:
    poses, speeds = run.poses(), run.velocities()
    if not (np.isfinite(poses).all() and np.isfinite(speeds).all()):
        return True
    return bool(np.abs(speeds).max() > SPEED_LIMIT or np.abs(poses[..., :3]).max() > RANGE_LIMIT)


class _Series:
    """The growing lists of a recording."""

    def __init__(self, run: SceneRun):
        self.run = run
        self.mass = run.model.body_mass.numpy().astype(float)
        self.weight = weight(run.model)
        self.momentum = self._momentum()
        self.states: list[tuple] = []
        self.wall: list[float] = []
        self.force: list[float] = []
        self.iterations: list[float] = []
        self.residual: list[float] = []

    def advance(self, index: int) -> None:
        """Step one frame and note what the solver says about it."""
        run = self.run
        self.wall.append(run.frame(index))
        before, self.momentum = self.momentum, self._momentum()
        if run.observables is None:
            self.force.append((self.momentum - before) / run.scene.frame_dt + self.weight)
        else:
            self.force.append(upward_force(run))
        for values, value in ((self.iterations, run.told_iterations()), (self.residual, run.scaled_residual())):
            values += [] if value is None else [value]

    def look(self, probe: _Probe) -> None:
        """Note the state."""
        joints, gap = probe.joints()
        bodies = probe.poses().reshape(-1, 7), probe.velocities().reshape(-1, 6)
        targets = self.run.control.joint_target_q
        self.states.append((*bodies, joints, targets.numpy().astype(float).copy(), gap, *probe.contact()))

    def recording(self, setup: float, diverged_at: float | None) -> Recording:
        """Return all of it as arrays; a diverged run's last frame, which nobody looked at, is left out."""
        columns = [np.array(column) for column in zip(*self.states, strict=True)]
        body_q, body_qd, joint_q, targets, gap, penetration, slip = columns
        run, kept = self.run, len(self.states) - 1
        return Recording(
            time=np.arange(kept + 1) * run.scene.frame_dt,
            body_q=body_q,
            body_qd=body_qd,
            joint_q=joint_q,
            joint_target_q=targets,
            joint_gap=gap,
            penetration=penetration,
            slip=slip,
            force=np.array(self.force[:kept]),
            force_from="momentum" if run.observables is None else "contact_f",
            wall=np.array(self.wall[:kept]),
            steps_per_frame=run.scene.substeps * run.refine,
            iterations=np.array(self.iterations[:kept]),
            residual=np.array(self.residual[:kept]),
            complaints=run.complaints(),
            diverged_at=diverged_at,
            setup_s=setup,
        )

    def _momentum(self) -> float:
        return float(self.mass @ self.run.velocities().reshape(-1, 6)[:, 2])
