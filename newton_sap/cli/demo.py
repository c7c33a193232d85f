"""The ``demo`` command: one robot on the ground under several solvers, as a table and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..compare.contestants import absence
from .rollout import Trace, roll_out
from .usage import require_writable

_REFINE = 16
"""Divisor of the explicit solver's time step in its second column; with 8 it still jitters on this scene."""

_BAND = 0.02
"""Largest accepted deviation of the mean contact force from the weight."""


def demo_command(output: Path, num_frames: int) -> int:
    """Run the solvers, print the table, write ``demo.png`` and return the exit code of SolverSAP's own check."""
    import warp as wp

    from .plot import draw

    picture = output / "demo.png"
    require_writable("--output", picture)
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # compilation is a column of the table
    console = Console(highlight=False)
    traces, skipped = [], []
    for label, name, refine in _contestants():
        reason = absence(name)
        if reason:
            skipped.append(f"{label} skipped: {reason}")
            continue
        with console.status(f"{label} ..."):
            traces.append(roll_out(label, name, frames=num_frames, refine=refine))
    for line in skipped:
        console.print(line, markup=False, soft_wrap=True)
    if not traces:
        return 1
    console.print(f"A quadruped of {traces[0].weight:.1f} N drops 0.1 m and stands; {num_frames} frames at 60 Hz.")
    console.print(_table(traces))
    console.print(f"picture: {draw(traces, picture)}", markup=False, soft_wrap=True)
    return _verdict(console, traces)


def _contestants():
    yield "SAP", "sap", 1
    yield "MuJoCo", "mujoco", 1
    yield "Featherstone", "featherstone", 1
    # the shortest name that leaves the table within 80 columns
    yield f"Feath. /{_REFINE}", "featherstone", _REFINE


def _table(traces: list[Trace]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for trace in traces:
        table.add_column(trace.label, justify="right")
    rows = {
        "time step (ms)": lambda t: f"{1e3 * t.dt:.2f}",
        "wall per step (ms)": lambda t: f"{t.step_ms():.3f}",
        "times real time": lambda t: f"{t.realtime():.1f}",
        "compilation (s)": lambda t: f"{t.compile_s:.1f}",
        "iterations mean/most": _iterations,
        "force / weight": lambda t: _finite(t, f"{t.settled(t.force).mean() / t.weight:.4f}"),
        "force deviation": lambda t: _finite(t, f"{t.settled(t.force).std() / t.weight:.4f}"),
        "force from": lambda t: t.force_source,
        "trunk height (m)": lambda t: _finite(t, f"{t.position[-1][2]:.4f}"),
        "creep (mm)": lambda t: _finite(t, f"{t.creep_mm():.4f}"),
        "penetration (mm)": lambda t: _finite(t, f"{t.penetration_mm():.3f}"),
        "residual": lambda t: "-" if t.report is None else f"{float(t.report.residual.max()):.1e}",
        "unconverged steps": lambda t: "-" if t.report is None else f"{int(t.report.unconverged_steps.sum())}",
        "finite": lambda t: "[green]yes[/]" if t.finite else "[red]no[/]",
    }
    for label, cell in rows.items():
        table.add_row(label, *(cell(trace) for trace in traces))
    return table


def _iterations(trace: Trace) -> str:
    if not trace.iterations:
        return "-"
    return f"{sum(trace.iterations) / len(trace.iterations):.1f} / {max(trace.iterations):.0f}"


def _finite(trace: Trace, text: str) -> str:
    return text if trace.finite else "[red]diverged[/]"


def _verdict(console: Console, traces: list[Trace]) -> int:
    """Hold SolverSAP to standing still with its weight on the ground."""
    sap = next((trace for trace in traces if trace.label == "SAP"), None)
    if sap is None:
        console.print("SolverSAP did not run", style="bold red")
        return 1
    ratio = sap.settled(sap.force).mean() / sap.weight if sap.finite else float("nan")
    if abs(ratio - 1.0) <= _BAND:
        console.print("SolverSAP carries the robot's weight", style="bold green")
        return 0
    console.print(f"SolverSAP carries {ratio:.3f} of the robot's weight; expected 1 within {_BAND}", style="bold red")
    return 1
