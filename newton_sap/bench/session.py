"""A whole benchmark: every scene and batch size, all solvers in turn, as plain data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import registry
from ..memory import memory_by_buffer
from .native import LeftOut
from .profile import profile
from .run import WarpRun, make_warp_run
from .scenes import RENEWAL, BenchScene, make_scene
from .timing import Region, alternate, quartiles, steps_for, time_collisions
from .validation import Quality, error_mm, fine_poses, judge

NATIVE = {"mujoco_c": ("mujoco", "sim"), "drake": ("pydrake", "oracle")}
"""Peers that step outside of Warp, with the module each needs and the extra that installs it."""


@dataclass(frozen=True)
class Settings:
    """What to measure."""

    scenes: tuple[str, ...]
    solver: str = "sap"
    peers: tuple[str, ...] = ()
    worlds: tuple[int, ...] = (1, 16, 128)
    modes: tuple[str, ...] = ("eager", "captured")
    device: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of ``solver``; peers keep their defaults."""
    repeats: int = 5
    region: Region = field(default_factory=Region)
    profile: bool = False
    accuracy: bool = True
    """Compare a short run with one of SAP at a much smaller time step."""
    gap: float = 0.0
    """Distance [m] from which on each shape is told of others; Newton's default is 0.1."""


@dataclass
class Row:
    """One solver on one scene, batch size and mode."""

    scene: str
    solver: str
    worlds: int
    mode: str
    """``"eager"``, ``"captured"`` or ``"native"`` for engines outside of Warp."""
    dofs: int = 0
    """Per world."""
    compile_s: float = 0.0
    """Construction and first step, compilation included."""
    capture_s: float = 0.0
    steps: int = 0
    """Per measurement."""
    ms: float | None = None
    """Median wall time per step of all worlds, collision detection included."""
    ms_low: float | None = None
    ms_high: float | None = None
    collide_ms: float | None = None
    """Of it collision detection, timed by itself; None where the solver does its own."""
    world_steps_per_s: float | None = None
    memory_per_world: int | None = None
    """Bytes of Warp arrays the solver holds."""
    memory: dict[str, int] = field(default_factory=dict)
    """The same for all worlds, by attribute of the solver."""
    quality: Quality = field(default_factory=Quality)

    @property
    def failed(self) -> bool:
        """Whether the run must not count."""
        return bool(self.quality.failures)


@dataclass
class Ratio:
    """Time of the solver over time of a peer, round by round."""

    scene: str
    solver: str
    peer: str
    worlds: int
    mode: str
    median: float
    low: float
    high: float
    valid: bool
    """False where either of the two failed."""


@dataclass
class Outcome:
    """Everything one benchmark found."""

    rows: list[Row] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    profiles: list[dict] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any row failed."""
        return any(row.failed for row in self.rows)

    def to_dict(self) -> dict:
        """Return plain data for JSON."""
        rows = [{**asdict(row), "failed": row.failed} for row in self.rows]
        return {"rows": rows, "ratios": [asdict(ratio) for ratio in self.ratios], "profiles": self.profiles}


def make_run(scene: BenchScene, solver: str, options: dict[str, Any]):
    """Build a solver by name on a scene; engines outside of Warp take no options."""
    if solver in NATIVE and options:
        raise ValueError(f"{solver} takes no options, not {', '.join(options)}")
    if solver == "mujoco_c":
        from .native import MujocoRun

        return MujocoRun(scene)
    if solver == "drake":
        from .drake import DrakeRun

        return DrakeRun(scene)
    return make_warp_run(scene, solver, registry.get_solver(solver), options)


def bench(settings: Settings, on_rows: Callable[[list[Row], list[Ratio], list[dict]], None] | None = None) -> Outcome:
    """Measure everything that the settings ask for.

    Args:
        settings: What to measure.
        on_rows: Called after every scene and batch size with what it gave.
    """
    outcome = Outcome()
    for name in settings.scenes:
        errors = _errors(settings, name) if settings.accuracy else {}
        for worlds in settings.worlds:
            rows, ratios, profiles = _bench_batch(settings, name, worlds, errors)
            outcome.rows += rows
            outcome.ratios += ratios
            outcome.profiles += profiles
            if on_rows is not None:
                on_rows(rows, ratios, profiles)
    return outcome


def _options(settings: Settings, solver: str) -> dict[str, Any]:
    return settings.options if solver == settings.solver else {}


def _errors(settings: Settings, name: str) -> dict[str, float | None]:
    """Return each solver's distance [mm] from the fine run, measured in one world."""
    reference = fine_poses(make_scene(name, device=settings.device, gap=settings.gap))
    errors: dict[str, float | None] = {}
    for solver in (settings.solver, *settings.peers):
        try:
            run = make_run(
                make_scene(name, device=settings.device, gap=settings.gap), solver, _options(settings, solver)
            )
            errors[solver] = error_mm(run, reference)
        except Exception:  # the batch that follows reports it
            errors[solver] = None
    return errors


def _bench_batch(settings: Settings, name: str, worlds: int, errors: dict):
    """Measure all solvers on one scene and batch size."""
    rows: dict[tuple[str, str], Row] = {}
    runs: dict[tuple[str, str], tuple] = {}
    for solver in (settings.solver, *settings.peers):
        prepared, given = _prepare(settings, name, worlds, solver)
        rows |= given
        runs |= prepared
    times = alternate(runs, settings.repeats)
    profiles = []
    for key, (run, mode, _) in runs.items():
        row = rows[key]
        middle, low, high = quartiles(times[key])
        row.ms, row.ms_low, row.ms_high = 1e3 * middle, 1e3 * low, 1e3 * high
        row.world_steps_per_s = worlds / middle
        row.quality = judge(run)
        row.quality.error_mm = errors.get(key[0])
        if not row.failed:
            collide = time_collisions(run, mode)
            row.collide_ms = None if collide is None else 1e3 * collide
    if settings.profile:
        profiles = [_profile(row, runs[key][0]) for key, row in rows.items() if _profiled(settings, row, runs)]
    return list(rows.values()), _ratios(settings, rows, times), profiles


def _prepare(settings: Settings, name: str, worlds: int, solver: str):
    """Build, compile, warm up and capture a solver; return what to time and a row per mode."""
    scene = make_scene(name, worlds, device=settings.device, gap=settings.gap)
    begin = time.perf_counter()
    try:
        run = make_run(scene, solver, _options(settings, solver))
        run.advance(RENEWAL, run.modes[0])
        compile_s = time.perf_counter() - begin
        modes = [mode for mode in run.modes if mode in settings.modes] if len(run.modes) > 1 else list(run.modes)
        begin = time.perf_counter()
        run.capture()
        capture_s = time.perf_counter() - begin
        run.advance(RENEWAL * max(1, scene.warm_up // RENEWAL - 1), run.modes[-1])
        run.mark()
    except LeftOut as reason:
        return {}, {(solver, "-"): Row(name, solver, worlds, "-", quality=Quality(left_out=str(reason)))}
    except Exception as error:  # a peer may refuse a scene in any way; the other rows stay
        failed = Quality(failures=[f"{type(error).__name__}: {error}".splitlines()[0][:200]])
        return {}, {(solver, "-"): Row(name, solver, worlds, "-", quality=failed)}
    rows, runs = {}, {}
    for mode in modes:
        row = Row(name, solver, worlds, mode, scene.model.joint_dof_count // worlds, compile_s, capture_s)
        if run.solver is not None:
            row.memory = memory_by_buffer(run.solver, scene.model, run.contacts)
            row.memory_per_world = sum(row.memory.values()) // worlds
        row.steps = steps_for(run, mode, settings.region)
        rows[solver, mode], runs[solver, mode] = row, (run, mode, row.steps)
    return runs, rows


def _ratios(settings: Settings, rows: dict, times: dict) -> list[Ratio]:
    found = []
    for (solver, mode), own in times.items():
        if solver != settings.solver:
            continue
        for (peer, peer_mode), theirs in times.items():
            if peer == settings.solver or (peer_mode not in (mode, "native") and mode != "native"):
                continue
            ratio = np.array(own) / np.array(theirs)
            middle, low, high = quartiles(ratio)
            row, peer_row = rows[solver, mode], rows[peer, peer_mode]
            valid = not (row.failed or peer_row.failed)
            found.append(Ratio(row.scene, solver, peer, row.worlds, mode, middle, low, high, valid))
    return found


def _profiled(settings: Settings, row: Row, runs: dict) -> bool:
    run = runs.get((row.solver, row.mode), (None,))[0]
    first = row.mode in settings.modes[:1]
    return row.solver == settings.solver and first and isinstance(run, WarpRun) and not row.failed


def _profile(row: Row, run: WarpRun) -> dict:
    stages = [asdict(stage) for stage in profile(run)]
    return {"scene": row.scene, "solver": row.solver, "worlds": row.worlds, "iterations": row.quality.iterations_mean,
            "stages": stages}  # fmt: skip
