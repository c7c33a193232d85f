"""What the ``run`` command does: it builds the example's command line, shows progress and prints the closing report."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..screen import VIEWERS, WITHOUT_DISPLAY, obstacle
from .example import RunResult, example_module, run_example, solver_class
from .patience import ask_for_patience
from .usage import UsageError, require_device, require_writable, solver_options

WATCHED = ("gl", "viser", "rerun")
"""Viewers that run until somebody closes them."""

_USD = ".usd, .usda or .usdc"
"""Endings of the files that the viewer ``usd`` can write."""

_REPORT_ROWS = {
    "iterations": ("iterations, last step", "{:.0f}"),
    "iterations_max": ("iterations, most", "{:.0f}"),
    "residual": ("residual, last step", "{:.2e}"),
    "contacts": ("contacts, last step", "{:.0f}"),
    "contacts_peak": ("contacts, peak per world", "{:.0f}"),
    "contacts_dropped": ("contacts dropped (overflow)", "{:.0f}"),
    "contacts_without_normal": ("contacts without a normal", "{:.0f}"),
    "contact_rows_lost": ("contact rows lost", "{:.0f}"),
    "penetration": ("penetration, last step [m]", "{:.2e}"),
    "unconverged_steps": ("unconverged steps", "{:.0f}"),
    "non_finite_steps": ("non-finite steps", "{:.0f}"),
}


def run_command(
    name: str,
    *,
    solver: str,
    viewer: str,
    num_frames: int | None,
    world_count: int | None,
    device: str | None,
    preset: str | None,
    option: list[str],
    eager: bool,
    test: bool,
    verbose: bool,
    output: Path | None,
    picture: Path | None,
    extra: list[str],
) -> int:
    """Run the example, print the report and return the exit code."""
    import warp as wp

    wp.config.log_level = wp.config.log_level if verbose else max(wp.config.log_level, wp.LOG_WARNING)
    if viewer not in VIEWERS:
        raise UsageError(f"viewer {viewer!r} is unknown (accepted: {', '.join(VIEWERS)})")
    drawing = _drawing(viewer, picture, extra)
    if picture is not None:
        _require_drawing("--picture", "gl")
        viewer, extra = "gl", ["--headless", *extra]
    else:
        _require_drawing(f"--viewer {viewer}", viewer)
    options = solver_options(preset, option)
    example_module(name)
    solver_class(solver, options)
    require_device(device)
    for flag, file in (("--output", output), ("--picture" if picture else "--output-path", drawing)):
        if file is not None:
            require_writable(flag, file)
    endless = viewer in WATCHED and picture is None and not test
    given = {"--viewer": viewer, "--num-frames": num_frames, "--world-count": world_count, "--device": device}
    arguments = [text for flag, value in given.items() if value is not None for text in (flag, str(value))]
    arguments += ["--test"] * test + ["--quiet"] * (not verbose) + extra
    console = Console(highlight=False)
    ask_for_patience()
    with _progress(console, name) as on_frame:
        result = run_example(
            name,
            solver,
            arguments,
            options=options,
            eager=eager,
            frames=num_frames,
            endless=endless,
            on_frame=on_frame,
            picture=picture,
        )
    _print_outcome(console, result, verbose)
    if output is not None:
        _write(output, result, arguments, options)
    # a viewer writes when it closes, which an example that was broken off does not come to
    finished = result.verdict in ("passed", "not tested", "interrupted")
    for file in (output, drawing if finished else None):
        if file is not None:
            console.print(f"written: {file}", markup=False, soft_wrap=True)
    if result.verdict == "interrupted":
        return 130  # as shells tell of Ctrl-C
    return 0 if result.ok else 1


def _drawing(viewer: str, picture: Path | None, extra: list[str]) -> Path | None:
    """Return the file that the viewer writes, None if it writes none; refuse what it could not write after the run."""
    if picture is not None and viewer not in ("null", "gl"):
        raise UsageError(f"--picture draws with the viewer gl: leave out --viewer {viewer}, or --picture")
    if picture is None and viewer != "usd":
        return None
    option, file, endings = ("--picture", picture, ".png") if picture else ("--output-path", _usd_file(extra), _USD)
    if not file.is_dir() and file.suffix.lower() not in re.findall(r"\.\w+", endings):
        raise UsageError(f"{option} {str(file)!r}: name a file that ends in {endings}")
    return file


def _require_drawing(option: str, viewer: str) -> None:
    """Refuse what a viewer cannot draw here, or not into a picture, before the example is built."""
    into_picture = option == "--picture"
    remedy = "run it under xvfb-run -a" if into_picture else WITHOUT_DISPLAY  # no other viewer draws a picture
    reason = obstacle(viewer, remedy)
    if into_picture and not reason and find_spec("matplotlib") is None:
        reason = "needs matplotlib: pip install 'newton-sap[viewer]'"
    if reason:
        raise UsageError(f"{option} {reason}")


def _usd_file(extra: list[str]) -> Path:
    """Return the file of ``--viewer usd``: Newton's own, or what the example's arguments name."""
    import newton.examples

    parser = ArgumentParser(add_help=False)
    parser.add_argument("--output-path", default=newton.examples.create_parser().get_default("output_path"))
    return Path(parser.parse_known_args(extra)[0].output_path)


@contextmanager
def _progress(console: Console, name: str):
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)

        def on_frame(frames: int, of: int | None) -> None:
            progress.update(task, completed=frames, total=of)

        yield on_frame


def _table(result: RunResult) -> Table:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")

    def row(label: str, value: str) -> None:
        table.add_row(escape(label), escape(value))  # units in brackets are no markup

    row("setup and compilation [s]", f"{result.setup_s:.2f}")
    row("first frame [s]", f"{result.first_frame_s:.3f}")
    row(f"{result.frames} frames without drawing [s]", f"{result.wall_s:.3f}")
    row("frames per second, without drawing", f"{result.frames_per_s:.1f}")
    row("steps per second", f"{result.steps_per_s:.0f}")
    row("times real time", f"{result.realtime:.2f}")
    for key, (label, form) in _REPORT_ROWS.items():
        if key in result.report:
            row(label, form.format(result.report[key]))
    row("non-finite arrays", ", ".join(result.non_finite) or "none")
    return table


def _print_outcome(console: Console, result: RunResult, verbose: bool) -> None:
    """Print what ran, the table of its figures, notes and the verdict."""
    instead = f" in place of {result.instead_of}" if result.instead_of else ""
    console.print(f"{result.example}: {result.solver}{instead} on {result.device}", markup=False, soft_wrap=True)
    stepped = result.frames + (result.first_frame_s > 0.0)
    if stepped:
        console.print(_table(result))
    for note in result.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    style = {"passed": "bold green", "not tested": ""}.get(result.verdict, "bold red")
    text = {
        "passed": "the example's checks passed",
        "failed": "the example's checks failed",
        "error": "the example could not finish",
        "not tested": "done (no checks asked for: --test)",
        "interrupted": f"interrupted after {stepped} frames",
    }[result.verdict]
    console.print(text, style=style)
    if result.message:
        console.print(result.message, markup=False, soft_wrap=True)
    if verbose and result.details:
        console.print(result.details, markup=False, soft_wrap=True)


def _write(output: Path, result: RunResult, arguments: list[str], options: dict) -> None:
    import newton
    import warp as wp

    from .. import __version__

    record = asdict(result)
    record |= {"ok": result.ok, "arguments": arguments, "options": options}
    record["versions"] = {"newton_sap": __version__, "newton": newton.__version__, "warp": wp.__version__}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
