"""What one solver makes of the quadruped scene: trajectory, contact force, iterations and cost, frame by frame."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import newton
import numpy as np
import warp as wp

from .. import registry, scenes
from ..compare.contestants import capacity, mapped_options


@dataclass
class Trace:
    """One solver's run, one entry per frame in every list."""

    label: str
    dt: float
    """Time step [s]."""
    steps_per_frame: int
    frame_dt: float
    weight: float
    """Weight [N] of the robot."""
    force_source: str = "contact_f"
    """``"contact_f"`` (the solver's observable) or ``"momentum"`` (change of momentum plus weight)."""
    time: list[float] = field(default_factory=list)
    position: list[np.ndarray] = field(default_factory=list)
    """Trunk position [m]."""
    force: list[float] = field(default_factory=list)
    """Upward contact force [N]."""
    clearance: list[float] = field(default_factory=list)
    """Height [m] of the lowest sole over the ground."""
    iterations: list[float] = field(default_factory=list)
    """Iterations of the frame's last step; empty if the solver does not tell."""
    wall: list[float] = field(default_factory=list)
    """Wall time [s]."""
    compile_s: float = 0.0
    report: Any = None
    """The solver's own report, None if it has none."""

    @property
    def finite(self) -> bool:
        """True if the trunk stayed finite throughout."""
        return bool(np.isfinite(self.position).all())

    def settled(self, values: list) -> np.ndarray:
        """Return the last quarter of a list, when the robot should be at rest."""
        return np.asarray(values[-max(len(values) // 4, 1) :])

    def step_ms(self) -> float:
        """Return the median wall time per step [ms], collision detection included."""
        return 1.0e3 * float(np.median(self.wall)) / self.steps_per_frame

    def realtime(self) -> float:
        """Return simulated seconds per second of wall time."""
        return self.frame_dt / float(np.median(self.wall))

    def creep_mm(self) -> float:
        """Return the horizontal distance [mm] that the trunk moves over the last quarter."""
        path = self.settled(self.position)
        return 1.0e3 * float(np.linalg.norm(path[-1, :2] - path[0, :2]))

    def penetration_mm(self) -> float:
        """Return the deepest sole [mm] over the last quarter."""
        return 1.0e3 * max(0.0, -float(np.min(self.settled(self.clearance))))


def roll_out(label: str, name: str, *, frames: int, refine: int = 1, drop: float = 0.1) -> Trace:
    """Step the quadruped with one solver, given what ``newton-sap compare`` gives it, and return the trace.

    Args:
        label: Name in tables and pictures.
        name: Registered name of the solver to build on the scene's model.
        frames: Frames to simulate, 60 per second.
        refine: Divide the scene's time step by this.
        drop: Height [m] the robot falls from.
    """
    scene = scenes.quadruped(drop=drop)
    begin = time.perf_counter()
    solver = registry.get_solver(name)(scene.model, **mapped_options(name, scene.name))
    run = _Run(scene, solver, refine)
    run.warm_up()
    trace = Trace(label, run.dt, run.steps, scene.frame_dt, scene.weight(), run.force_source)
    trace.compile_s = time.perf_counter() - begin
    momentum = run.momentum()
    for i in range(frames):
        begin = time.perf_counter()
        run.frame()
        wp.synchronize()
        trace.wall.append(time.perf_counter() - begin)
        before, momentum = momentum, run.momentum()
        from_momentum = (momentum - before) / scene.frame_dt + trace.weight
        trace.time.append((i + 1) * scene.frame_dt)
        trace.position.append(scenes.trunk_positions(run.state)[0].copy())  # on the CPU it is a view of live data
        trace.force.append(from_momentum if run.observables is None else run.contact_force())
        trace.clearance.append(float(scenes.foot_clearance(run.state).min()))
        iterations = run.iterations()
        trace.iterations += [] if iterations is None else [iterations]
    trace.report = run.solver.report() if hasattr(run.solver, "report") else None
    return trace


class _Run:
    """A scene, a solver and everything between them, replayed from a graph frame by frame."""

    def __init__(self, scene: scenes.Scene, solver: Any, refine: int):
        self.scene, self.solver = scene, solver
        self.dt, self.steps = scene.dt / refine, scene.substeps * refine
        self.state, self.next = scene.state(), scene.model.state()
        self.control = scene.model.control()
        self.pipeline = newton.CollisionPipeline(scene.model, rigid_contact_max=capacity(scene.name))
        self.contacts = self.pipeline.contacts()
        kind = solver.ObservableKind.CONTACT_F
        self.observables = None
        if kind in solver.supported_observables:
            self.observables = solver.observables({kind}, contacts=self.contacts)
        self.force_source = "momentum" if self.observables is None else "contact_f"
        self.mass = scene.model.body_mass.numpy()
        self.graph = None

    def simulate(self) -> None:
        """Enqueue the steps of one frame."""
        for _ in range(self.steps):
            self.state.clear_forces()
            self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.next, self.control, self.contacts, self.dt, observables=self.observables)
            self.state, self.next = self.next, self.state

    def warm_up(self) -> None:
        """Compile by stepping one frame that is then taken back, and record the frame as a graph."""
        self.simulate()
        self.state.assign(self.scene.state())
        self.solver.reset(self.state)
        with wp.ScopedCapture() as capture:
            self.simulate()
        self.graph = capture.graph

    def frame(self) -> None:
        """Advance by one frame."""
        wp.capture_launch(self.graph)

    def momentum(self) -> float:
        """Return the vertical momentum [N s]."""
        return float(self.mass @ self.state.body_qd.numpy()[:, 2])

    def contact_force(self) -> float:
        """Return the upward force [N] of all contacts on the robot at the last step."""
        count = int(self.contacts.rigid_contact_count.numpy()[0])
        forces = self.observables.contact_f.numpy()[:count, 2]
        # Reported on the body of shape 0; where that is the ground, the robot feels the opposite.
        first = self.contacts.rigid_contact_shape0.numpy()[:count]
        on_robot = self.scene.model.shape_body.numpy()[first] >= 0
        return float(np.where(on_robot, forces, -forces).sum())

    def iterations(self) -> float | None:
        """Return the iterations of the last step, None if the solver does not tell."""
        if hasattr(self.solver, "report"):
            return float(np.max(self.solver.report().iterations))
        data = getattr(self.solver, "mjw_data", None)
        return None if data is None else float(data.solver_niter.numpy().max())
