"""One solver on one scene: stepping it, going back to the start of the measurement, and looking at its state.

Every kind of peer answers to the same few methods, so timing and validation need not know which one it is:
:class:`WarpRun` for Newton's solvers here, :mod:`.native` for engines that step outside of Warp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import newton
import numpy as np
import warp as wp

from ..scenes import Scene
from .scenes import RENEWAL, BenchScene

PER_GRAPH = 2
"""Steps per captured graph: the two states change places, so the second step ends where the first began."""

REFINE = {"featherstone": 8}
"""Divisor of the time step for explicit solvers; their time per step covers all the smaller ones."""


def default_options(solver: str, scene: BenchScene) -> dict[str, Any]:
    """Return the keywords a peer needs on a scene."""
    if solver == "mujoco" and scene.mujoco_rows is not None:
        return {"njmax": scene.mujoco_rows, "nconmax": scene.contacts}
    if solver == "steel" and scene.steel_rows is not None:
        return {"articulation_constraint_max": scene.steel_rows}
    return {}


def contact_room(scene: BenchScene) -> int:
    """Return how many contacts the scene needs, in all worlds."""
    return scene.contacts * scene.worlds


def make_pipeline(scene: BenchScene) -> newton.CollisionPipeline:
    """Return a pipeline with as many contacts as the scene needs."""
    return newton.CollisionPipeline(scene.model, rigid_contact_max=contact_room(scene))


def make_warp_run(scene: BenchScene, solver: str, solver_class: type, options: dict[str, Any]) -> WarpRun:
    """Build a solver on a scene of the benchmark, with the keywords, steps and contacts that it needs there."""
    # MuJoCo finds its own contacts unless told otherwise; nobody looks for them where nothing can touch.
    own_contacts = solver == "mujoco" and options.get("use_mujoco_contacts", True)
    collides = not own_contacts and scene.model.shape_contact_pair_count > 0
    return WarpRun(
        scene,
        solver,
        solver_class,
        {**default_options(solver, scene), **options},
        refine=REFINE.get(solver, 1),
        room=contact_room(scene) if collides else None,
        forces=() if scene.forces is None else scene.forces,
    )


class WarpRun:
    """A Newton solver, stepped by launches (eager) or by replaying a graph (captured).

    Args:
        scene: What is stepped.
        name: Name of the solver.
        solver_class: Its class.
        options: Its keywords.
        refine: Divisor of the scene's time step.
        room: Contacts that Newton's collision pipeline has room for, in all worlds; None for no such pipeline.
        forces: (rows, dofs) joint forces [N or N m], the next ones every ``RENEWAL`` steps.
    """

    modes = ("eager", "captured")

    def __init__(
        self,
        scene: BenchScene | Scene,
        name: str,
        solver_class: type,
        options: dict[str, Any],
        *,
        refine: int = 1,
        room: int | None = None,
        forces: Iterable[np.ndarray] = (),
    ):
        self.scene, self.name = scene, name
        self.model = scene.model
        self.solver = solver_class(self.model, **options)
        self.refine = refine
        self.state, self.other = scene.state(), scene.state()
        self.control = self.model.control()
        self.pipeline = None if room is None else newton.CollisionPipeline(self.model, rigid_contact_max=room)
        self.contacts = None if self.pipeline is None else self.pipeline.contacts()
        self.observables = self._contact_force_observable()
        self.clock = 0
        self.forces = [wp.array(row, dtype=wp.float32, device=self.model.device) for row in forces]
        self.start = None
        self.graph = self.collide_graph = None

    def _contact_force_observable(self):
        """Return a container for contact forces, None where the solver or its contacts cannot tell them."""
        kind = newton.solvers.SolverBase.ObservableKind.CONTACT_F
        if self.contacts is None or kind not in self.solver.supported_observables:
            return None
        return self.solver.observables({kind}, contacts=self.contacts)

    # Stepping ---------------------------------------------------------------------------------------------------

    def collide(self) -> None:
        """Detect collisions at the current state."""
        if self.pipeline is not None:
            self.pipeline.collide(self.state, self.contacts)

    def step(self, observables=None) -> None:
        """Advance by one time step of the scene."""
        for _ in range(self.refine):
            self.collide()
            extra = {} if observables is None else {"observables": observables}
            self.solver.step(self.state, self.other, self.control, self.contacts, self.scene.dt / self.refine, **extra)
            self.state, self.other = self.other, self.state

    def renew_forces(self) -> None:
        """Put the random joint forces of the current time into the control."""
        if self.forces:
            wp.copy(self.control.joint_f, self.forces[self.clock // RENEWAL % len(self.forces)])

    def advance(self, steps: int, mode: str) -> None:
        """Advance by a multiple of ``RENEWAL`` steps and wait for the device."""
        for _ in range(steps // RENEWAL):
            self.renew_forces()
            if mode == "captured":
                for _ in range(RENEWAL // PER_GRAPH):
                    wp.capture_launch(self.graph)
            else:
                for _ in range(RENEWAL):
                    self.step()
            self.clock += RENEWAL
        wp.synchronize_device(self.model.device)

    def capture(self) -> None:
        """Record two steps, and the collision detection of two steps by itself."""
        with wp.ScopedCapture(device=self.model.device) as capture:
            for _ in range(PER_GRAPH):
                self.step()
        self.graph = capture.graph
        if self.pipeline is not None:
            with wp.ScopedCapture(device=self.model.device) as capture:
                for _ in range(PER_GRAPH * self.refine):
                    self.collide()
            self.collide_graph = capture.graph

    def collide_often(self, steps: int, mode: str) -> bool:
        """Repeat the collision detection of ``steps`` steps at the current state; False where there is none."""
        if self.pipeline is None:
            return False
        if mode == "captured":
            for _ in range(steps // PER_GRAPH):
                wp.capture_launch(self.collide_graph)
        else:
            for _ in range(steps * self.refine):
                self.collide()
        wp.synchronize_device(self.model.device)
        return True

    def mark(self) -> None:
        """Remember the current state as the start of every measurement."""
        self.start = (self.model.state(), self.clock)
        self.start[0].assign(self.state)

    def rewind(self) -> None:
        """Go back to the marked state; what a solver remembers beside it, such as a warm start, stays."""
        state, self.clock = self.start
        self.state.assign(state)
        self.other.assign(state)

    # Looking ----------------------------------------------------------------------------------------------------

    def poses(self) -> np.ndarray:
        """Return body poses, (worlds, bodies, 7)."""
        return self.state.body_q.numpy().astype(float).reshape(self.scene.worlds, -1, 7)

    def velocities(self) -> np.ndarray:
        """Return body velocities, linear first, (worlds, bodies, 6)."""
        return self.state.body_qd.numpy().astype(float).reshape(self.scene.worlds, -1, 6)

    def report(self):
        """Return the solver's own report, None if it has none."""
        return self.solver.report() if hasattr(self.solver, "report") else None

    def iterations(self) -> np.ndarray | None:
        """Return the iterations of the last step by world, None if the solver does not tell."""
        report = self.report()
        if report is not None:
            return report.iterations
        data = getattr(self.solver, "mjw_data", None)
        return None if data is None else data.solver_niter.numpy().copy()

    def scaled_residual(self) -> float | None:
        """Return the last step's largest residual over its scale, None if the solver does not tell."""
        report = self.report()
        if report is None or not hasattr(report, "residual") or not len(report.residual):
            return None
        return float((report.residual / np.maximum(report.scale, 1e-300)).max())

    def complaints(self) -> list[str]:
        """Return what the solver itself says went wrong since it was built."""
        report = self.report()
        found = []
        if report is not None:
            if report.unconverged_steps.any():
                found.append(f"{int(report.unconverged_steps.sum())} unconverged world steps")
            if report.non_finite_steps.any():
                found.append(f"{int(report.non_finite_steps.sum())} non-finite world steps")
            if report.contacts_dropped.any() or report.contact_rows_lost:
                found.append(f"{report.contacts_dropped.sum() + report.contact_rows_lost} contacts dropped")
            if report.contacts_without_normal.any():
                found.append(f"{report.contacts_without_normal.sum()} contacts without a normal")
        data = getattr(self.solver, "mjw_data", None)
        if data is not None and hasattr(data, "overflow") and data.overflow.numpy().any():
            found.append("capacity overflow in mujoco_warp")
        dropped = getattr(self.solver, "constraint_overflow", None)
        if isinstance(dropped, wp.array) and dropped.numpy().any():
            found.append("constraint rows dropped in Steel")
        if self.contacts is not None:
            count, room = int(self.contacts.rigid_contact_count.numpy()[0]), self.contacts.rigid_contact_max
            if count > room:
                found.append(f"{count - room} contacts beyond the capacity of Newton's contacts")
        return found
