"""Where a step's time goes: the stages of SolverSAP, each replayed from its own graph, or CUDA kernels by name."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import warp as wp

from .run import WarpRun
from .scenes import RENEWAL

STAGES = (
    "_move_bodies", "_command_actuators", "_lay_tendons", "_move_freely", "_prepare_contacts", "_assemble", "_minimize",
    "_integrate", "_publish",
)  # fmt: skip
"""Methods of SolverSAP that make up ``step``, in order."""


@dataclass
class ProfileRow:
    """One stage or kernel."""

    name: str
    microseconds: float
    """Per step of all worlds; the median on the CPU, the mean on CUDA."""
    share: float
    """Of all rows [-]."""


def profile(run: WarpRun, steps: int = 200) -> list[ProfileRow]:
    """Return stages in order (CPU) or kernels by time (CUDA) of a run that has been marked."""
    run.rewind()
    device = wp.get_device(run.model.device)
    if device.is_cuda:
        return _profile_kernels(run, steps)
    if not all(hasattr(run.solver, stage) for stage in STAGES):
        return []
    return _profile_stages(run, steps)


def _profile_stages(run: WarpRun, steps: int) -> list[ProfileRow]:
    """Replay a graph per stage in the order of the step; a replay costs half a microsecond, a launch tens of it."""
    directions = []
    for _ in range(2):
        frame = run.solver._open_frame(run.state, run.other, run.control, run.contacts, run.scene.dt)
        parts = [("collide", run.collide)] if run.pipeline is not None else []
        parts += [(name, lambda stage=name, frame=frame: getattr(run.solver, stage)(frame)) for name in STAGES]
        directions.append([(name, _graph_of(part, run.model.device)) for name, part in parts])
        run.state, run.other = run.other, run.state
    spent: dict[str, list[float]] = {name: [] for name, _ in directions[0]}
    for i in range(steps):
        if i % RENEWAL == 0:
            run.renew_forces()
            run.clock += RENEWAL
        for name, graph in directions[i % 2]:
            begin = time.perf_counter()
            wp.capture_launch(graph)
            spent[name].append(time.perf_counter() - begin)
    return _rows({name.lstrip("_"): 1e6 * float(np.median(times)) for name, times in spent.items()})


def _graph_of(part, device):
    with wp.ScopedCapture(device=device) as capture:
        part()
    return capture.graph


def _profile_kernels(run: WarpRun, steps: int) -> list[ProfileRow]:
    """Time every CUDA kernel of eager steps by name."""
    run.advance(RENEWAL, "eager")
    wp.timing_begin(cuda_filter=wp.TIMING_KERNEL | wp.TIMING_MEMSET | wp.TIMING_MEMCPY)
    run.advance(steps, "eager")
    sums: dict[str, float] = {}
    for result in wp.timing_end():
        sums[result.name] = sums.get(result.name, 0.0) + 1e3 * result.elapsed / steps
    return sorted(_rows(sums), key=lambda row: -row.microseconds)


def _rows(microseconds: dict[str, float]) -> list[ProfileRow]:
    total = sum(microseconds.values()) or 1.0
    return [ProfileRow(name, value, value / total) for name, value in microseconds.items()]
