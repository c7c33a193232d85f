"""One run of a bundled Newton example: its timing, its verdict and what the solver reports, as plain data.

The example runs exactly as ``python -m newton.examples`` would run it; only the solver classes and the clock differ.
"""

from __future__ import annotations

import runpy
import signal
import sys
import threading
import time
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import registry
from ..suggest import suggestion
from ..swap import SwapLog, swapped_solvers
from .live import LiveScalars, noting_contacts
from .usage import UsageError, require_installed, require_options

ORIGINAL = "original"
"""Solver name that leaves an example as it is."""


@dataclass
class RunResult:
    """Outcome of one example."""

    example: str
    solver: str
    """Class name of the solver that stepped the example."""
    instead_of: str = ""
    """Class name of the example's own solver, empty if it was left in place."""
    device: str = ""
    frames: int = 0
    """Frames after the first."""
    setup_s: float = 0.0
    """Import, scene and solver construction, compilation included [s]."""
    first_frame_s: float = 0.0
    """Steps of the first frame, late compilation included [s]."""
    wall_s: float = 0.0
    """Steps of all frames after the first, drawing not counted [s]."""
    frames_per_s: float = 0.0
    """Frames per second of ``wall_s``."""
    steps_per_s: float = 0.0
    """Solver steps per second of wall time after the first frame."""
    realtime: float = 0.0
    """Simulated seconds per second of wall time, after the first frame."""
    verdict: str = "not tested"
    """``"passed"``, ``"failed"``, ``"error"``, ``"not tested"`` or ``"interrupted"``."""
    message: str = ""
    """Why the verdict is not "passed"."""
    non_finite: list[str] = field(default_factory=list)
    """Arrays of the final state that hold NaN or infinity."""
    report: dict[str, Any] = field(default_factory=dict)
    """Solver diagnostics over all worlds, empty if the solver has none."""
    notes: list[str] = field(default_factory=list)
    details: str = ""
    """Traceback of an error."""

    @property
    def ok(self) -> bool:
        """True unless a check failed, something was raised, Ctrl-C ended it or the state is not finite."""
        return self.verdict in ("passed", "not tested") and not self.non_finite


def example_names() -> dict[str, str]:
    """Return the module of every bundled example by its short name."""
    import newton.examples

    return newton.examples.get_examples()


def example_module(name: str) -> str:
    """Return the module of a bundled example; :class:`UsageError` with the nearest name if there is none."""
    names = example_names()
    if name in names:
        return names[name]
    hint = suggestion(name, names, most=3)
    raise UsageError(f"no bundled example named {name!r}{hint} (python -m newton.examples --list shows all)")


def solver_class(name: str, options: Mapping[str, Any]) -> type | None:
    """Return the class to run with, None for the example's own; :class:`UsageError` if it is unknown or unsuited."""
    if name == ORIGINAL:
        if options:
            name = next(iter(options))
            given = "--preset" if name == "preset" else f"--option {name}"
            raise UsageError(f"{given} needs a solver in place of the example's own: name one with --solver")
        return None
    try:
        found = registry.get_solver(name)
    except registry.SolverNotFoundError as error:
        raise UsageError(f"{error}; {ORIGINAL!r} keeps the example's own") from error
    except registry.SolverLoadError as error:
        raise UsageError(str(error)) from error
    require_options(found, options)
    require_installed(registry.normalise(name))
    return found


def run_example(
    name: str,
    solver: str,
    arguments: list[str],
    *,
    options: Mapping[str, Any] | None = None,
    eager: bool = False,
    frames: int | None = None,
    endless: bool = False,
    on_frame: Callable[[int, int | None], None] | None = None,
    picture: Path | None = None,
) -> RunResult:
    """Run a bundled example with another solver and return its outcome; what the example raises becomes a verdict.

    The first Ctrl-C ends a run that is not tested after its frame, as closing the viewer does; a second one ends it
    at once.

    Args:
        name: Short name of the example.
        solver: Registered name of the solver, or ``"original"``.
        arguments: Command line of the example.
        options: Keywords of the solver's constructor beside the model.
        eager: Launch every kernel of every frame, also where the example replays a recorded graph.
        frames: Stop after so many, also in viewers that run until they are closed; None leaves it to the example's arguments.
        endless: Run until the viewer is closed, if ``frames`` is None.
        on_frame: Called with the numbers of finished frames and of all, None where there is no end.
        picture: PNG file for the last frame of a viewer that can be read, such as ``gl``; no other frame is drawn, so that
            only ``frames`` ends the run.

    Raises:
        UsageError: Unknown example or solver.
        KeyboardInterrupt: Ctrl-C before the first frame, in a tested run, or twice.
    """
    module = example_module(name)
    target = solver_class(solver, options or {})
    result = RunResult(example=name, solver=target.__name__ if target else ORIGINAL)
    clock = _Clock(on_frame, picture, frames, endless)
    swap = nullcontext(SwapLog()) if target is None else swapped_solvers(noting_contacts(target), options=options)
    try:
        graphs = _unused_graphs() if eager else nullcontext()
        with swap as log, _command_line([module, *arguments]), _arguments_named(name), clock.attached(log), graphs:
            _run_to_its_end(module)
        tested = "--test" in arguments
        result.verdict = "interrupted" if clock.interrupted else "passed" if tested else "not tested"
    except UsageError:
        raise
    except SystemExit as stop:
        result.verdict, result.message = "error", f"the example ended itself with code {stop.code}"
    except Exception as error:
        result.verdict = "failed" if clock.testing else "error"
        result.message = f"{type(error).__name__}: {error}"
        result.details = traceback.format_exc()
    _conclude(result, log, clock)
    return result


def _run_to_its_end(module: str) -> None:
    """Run a module as a program; leaving with code 0 is one way to end."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)  # so that Warp tells examples apart
    except SystemExit as stop:
        if stop.code not in (0, None):
            raise


class _Clock:
    """Times the frames of an example by standing between it and Newton's own run loop."""

    def __init__(self, on_frame, picture, frames, endless):
        self.on_frame = on_frame
        self.picture = picture
        self.frames = frames
        self.endless = endless
        self.example = None
        self.testing = False
        self.interrupted = False
        self.started = time.perf_counter()
        self.setup_s = 0.0
        self.frame_s: list[float] = []
        self.scalars: LiveScalars | None = None

    @contextmanager
    def attached(self, log):
        """Route ``newton.examples.run`` through this clock."""
        import newton.examples

        run = newton.examples.run

        def timed_run(example, args):
            self.setup_s = time.perf_counter() - self.started
            self.example = example
            example.step = self._timed(example.step)
            self.testing = bool(args is not None and args.test)
            if self.frames is None and not self.endless:
                self.frames = getattr(args, "num_frames", None)
            running = example.viewer.is_running
            example.viewer.is_running = lambda: self._goes_on() and running()
            if self.picture is not None:
                keep_last_frame(example.viewer, self.picture)
            else:
                self.scalars = LiveScalars(example.viewer, _stepper(log, example))
            with self._interruptible():
                return run(example, args)

        newton.examples.run = timed_run
        try:
            yield
        finally:
            newton.examples.run = run

    def _goes_on(self) -> bool:
        """Return whether a further frame is wanted; an interrupted run that is tested ends here, before its checks."""
        if self.interrupted and self.testing:
            raise KeyboardInterrupt
        return not self.interrupted and (self.frames is None or len(self.frame_s) < self.frames)

    @contextmanager
    def _interruptible(self):
        """Let the first Ctrl-C wait for the end of the frame, where the viewer can close and the figures are whole."""
        python_s = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not python_s or threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number, frame):
            self.interrupted = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _timed(self, step):
        import warp as wp

        def timed_step():
            testing, self.testing = self.testing, False  # what a step raises is an error, not a failed check
            begin = time.perf_counter()
            step()
            wp.synchronize()
            self.frame_s.append(time.perf_counter() - begin)
            self.testing = testing
            if self.scalars is not None:
                self.scalars.stepped = True
            if self.on_frame is not None:
                self.on_frame(len(self.frame_s), self.frames)

        return timed_step


def keep_last_frame(viewer, path: Path) -> None:
    """Let the viewer draw nothing before it closes, and then write the last frame to a PNG file."""
    draw, close = viewer.end_frame, viewer.close
    viewer.end_frame = lambda: None

    def close_and_keep():
        from matplotlib.image import imsave

        draw()
        path.parent.mkdir(parents=True, exist_ok=True)
        imsave(path, viewer.get_frame().numpy())
        close()

    viewer.close = close_and_keep


@contextmanager
def _unused_graphs():
    """Let the example record its graph, which moves nothing, and then find none to replay."""
    import warp as wp

    recorded = wp.ScopedCapture

    class Unused(recorded):
        @property
        def graph(self):
            return None

        @graph.setter
        def graph(self, value):
            self.recorded = value

    wp.ScopedCapture = Unused
    try:
        yield
    finally:
        wp.ScopedCapture = recorded


@contextmanager
def _command_line(arguments: list[str]):
    before = sys.argv
    sys.argv = arguments
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _arguments_named(name: str):
    """Let an example that does not take its arguments say so in one line, without its whole usage."""
    complain = ArgumentParser.error

    def error(parser, message):
        raise UsageError(
            f"the example {name!r} rejects its arguments: {message} (python -m newton.examples {name} --help lists them)"
        )

    ArgumentParser.error = error
    try:
        yield
    finally:
        ArgumentParser.error = complain


def _stepper(log: SwapLog, example: object) -> Any:
    """Return the solver that steps an example: the first that took another's place, otherwise its own."""
    return log.solvers[0] if log.solvers else getattr(example, "solver", None)


def _conclude(result: RunResult, log: SwapLog, clock: _Clock) -> None:
    import warp as wp

    example = clock.example
    stepper = _stepper(log, example)
    if log.replaced:
        result.instead_of = ", ".join(sorted(set(log.replaced)))
    elif result.solver != ORIGINAL and stepper is not None and type(stepper).__name__ != result.solver:
        result.notes.append(f"the example built no solver that could be replaced; it ran with {type(stepper).__name__}")
    result.notes += log.kept
    if stepper is not None:
        result.solver = type(stepper).__name__
    result.device = str(getattr(stepper, "device", None) or wp.get_device())
    result.setup_s = clock.setup_s or time.perf_counter() - clock.started
    result.first_frame_s = clock.frame_s[0] if clock.frame_s else 0.0
    timed = clock.frame_s[1:]
    result.frames, result.wall_s = len(timed), float(sum(timed))
    if result.wall_s > 0.0:
        result.frames_per_s = result.frames / result.wall_s
        result.steps_per_s = result.frames_per_s * int(getattr(example, "sim_substeps", 1))
        result.realtime = result.frames_per_s * float(getattr(example, "frame_dt", 0.0))
    for attribute in ("state_0", "state_1"):
        state = getattr(example, attribute, None)
        result.non_finite += [f"{attribute}.{member}" for member in non_finite_members(state)]
    if hasattr(stepper, "report"):
        result.report = report_summary(stepper.report())


def non_finite_members(state: object) -> list[str]:
    """Return the names of the arrays of a Newton object that hold NaN or infinity."""
    import warp as wp

    found = []
    for name, value in vars(state).items() if state is not None else ():
        if isinstance(value, wp.array) and value.size:
            values = value.numpy()
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                found.append(name)
    return found


_PER_GROUP = ("world", "reason", "last_failure")
_TOTALS = ("contacts", "contacts_dropped", "line_search_evaluations", "unconverged_steps", "non_finite_steps")


def report_summary(report: object) -> dict[str, Any]:
    """Return the per-world fields of a solver report over all worlds: the sum of counts, the maximum of the rest."""
    summary = {}
    for name, value in vars(report).items():
        values = np.asarray(value)
        if name not in _PER_GROUP and values.dtype.kind in "iufb" and values.size:
            summary[name] = (values.sum() if name in _TOTALS else values.max()).item()
    return summary
