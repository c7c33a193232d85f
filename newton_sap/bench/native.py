"""Engines that step outside of Warp: MuJoCo's C library, looping over worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from .scenes import RENEWAL, BenchScene, make_scene


class LeftOut(Exception):
    """A peer has no comparable version of a scene."""


class NativeRun:
    """What the engines outside of Warp share; ``worlds`` copies are stepped one after the other."""

    modes = ("native",)
    solver: Any = None

    def __init__(self, scene: BenchScene, name: str):
        self.scene, self.name = scene, name
        self.clock = 0
        self.forces = None
        if scene.forces is not None:
            self.forces = scene.forces.reshape(len(scene.forces), scene.worlds, -1).astype(float)

    def step_worlds(self, count: int) -> None:
        """Advance every world by ``count`` steps."""
        raise NotImplementedError

    def apply(self, forces: np.ndarray) -> None:
        """Set the joint forces, (worlds, dofs) in Newton's order."""
        raise NotImplementedError

    def advance(self, steps: int, mode: str) -> None:
        """Advance by a multiple of ``RENEWAL`` steps."""
        del mode
        for _ in range(steps // RENEWAL):
            if self.forces is not None:
                self.apply(self.forces[self.clock // RENEWAL % len(self.forces)])
            self.step_worlds(RENEWAL)
            self.clock += RENEWAL

    def capture(self) -> None:
        """Nothing is recorded: there is no launch overhead to save."""

    def collide_often(self, steps: int, mode: str) -> bool:
        """Collision detection is part of the step."""
        del steps, mode
        return False

    def velocities(self) -> np.ndarray | None:
        """Return body velocities, None where they are not read."""
        return None

    def iterations(self) -> np.ndarray | None:
        """Return the iterations of the last step by world, None if the engine does not tell."""
        return None

    def complaints(self) -> list[str]:
        """Return what the engine itself says went wrong."""
        return []


class MujocoRun(NativeRun):
    """``mj_step`` on the model that SolverMuJoCo derives from one world of the scene."""

    def __init__(self, scene: BenchScene):
        import mujoco
        from newton.solvers import SolverMuJoCo

        super().__init__(scene, "mujoco_c")
        self.mujoco = mujoco
        with wp.ScopedDevice("cpu"):
            one = make_scene(scene.name, device="cpu")
            solver = SolverMuJoCo(one.model, use_mujoco_cpu=True)
        self.mj_model = solver.mj_model
        self.dof_of = solver.mjc_dof_to_newton_dof.numpy()[0]
        self.body_of = solver.mjc_body_to_newton.numpy()[0]
        solver_data = _at_start(solver, one)
        self.worlds = [mujoco.MjData(self.mj_model) for _ in range(scene.worlds)]
        for data in self.worlds:
            data.qpos[:] = solver_data.qpos
            data.ctrl[:] = solver_data.ctrl
            mujoco.mj_forward(self.mj_model, data)
        self.start: list[np.ndarray] = []

    def apply(self, forces: np.ndarray) -> None:
        """Set the joint forces of every world."""
        for data, row in zip(self.worlds, forces, strict=True):
            data.qfrc_applied[:] = row[self.dof_of]

    def step_worlds(self, count: int) -> None:
        """Step every world by itself, which favours the cache as much as possible."""
        step, mj_model = self.mujoco.mj_step, self.mj_model
        for data in self.worlds:
            step(mj_model, data, count)

    def _state(self, data) -> np.ndarray:
        kind = self.mujoco.mjtState.mjSTATE_INTEGRATION
        out = np.empty(self.mujoco.mj_stateSize(self.mj_model, kind))
        self.mujoco.mj_getState(self.mj_model, data, out, kind)
        return out

    def mark(self) -> None:
        """Remember the current state as the start of every measurement."""
        self.start = [self._state(data) for data in self.worlds]
        self.start_clock = self.clock

    def rewind(self) -> None:
        """Go back to the marked state, warm start included."""
        kind = self.mujoco.mjtState.mjSTATE_INTEGRATION
        for data, state in zip(self.worlds, self.start, strict=True):
            self.mujoco.mj_setState(self.mj_model, data, state, kind)
        self.clock = self.start_clock

    def poses(self) -> np.ndarray:
        """Return body poses in Newton's order, (worlds, bodies, 7)."""
        chosen = [(i, int(b)) for i, b in enumerate(self.body_of) if b >= 0]
        out = np.zeros((len(self.worlds), len(chosen), 7))
        for w, data in enumerate(self.worlds):
            self.mujoco.mj_kinematics(self.mj_model, data)
            for i, body in chosen:
                out[w, body, :3] = data.xpos[i]
                out[w, body, 3:] = np.roll(data.xquat[i], -1)
        return out

    def iterations(self) -> np.ndarray:
        """Return the solver's iterations of the last step, summed over islands, by world."""
        return np.array([int(np.sum(data.solver_niter)) for data in self.worlds])

    def complaints(self) -> list[str]:
        """Return MuJoCo's warnings."""
        total = sum(int(data.warning.number.sum()) for data in self.worlds)
        return [f"{total} MuJoCo warnings"] if total else []


def _at_start(solver, one: BenchScene):
    """Return the solver's data with the scene's initial coordinates and drive targets in it."""
    tiny = 1.0e-9  # a step so short that nothing moves: the only public way to hand a state over
    solver.step(one.state(), one.model.state(), one.model.control(), None, tiny)
    solver.mj_model.opt.timestep = one.dt
    return solver.mj_data
