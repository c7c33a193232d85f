"""What the ``demo`` command does: one robot dropped on the ground under several solvers, as a table and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from .. import scenes
from ..compare import Comparison, Outcome
from ..compare.report import cells, number, summary
from .compare_command import compare_aloud, print_table
from .usage import require_writable

_SOLVERS = ("sap", "mujoco", "featherstone", "featherstone/16")
"""The explicit solver also with a step at which it stands; with an eighth it still jitters on this scene."""

_BAND = 0.02
"""Largest accepted deviation of the mean contact force from the weight."""

_STANDS = 60
"""Frames after which the robot has landed and stands."""


def demo_command(output: Path, num_frames: int) -> int:
    """Run the solvers, print the table, write ``demo.png`` and return the exit code of SolverSAP's own check."""
    import warp as wp

    from .plot import draw

    picture = output / "demo.png"
    require_writable("--output", picture)
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # setup time is a row of the table
    console = Console(highlight=False)
    result = compare_aloud(console, _dropped, _SOLVERS, frames=num_frames, reference=False)
    console.print(f"{summary(result)} Dropped by 0.1 m; weight {result.scene.weight():.1f} N.", markup=False)
    print_table(console, *_cells(result))
    console.print(f"picture: {draw(result, picture)}", markup=False, soft_wrap=True)
    return _verdict(console, result["sap"], num_frames)


def _dropped() -> scenes.Scene:
    return scenes.quadruped(drop=0.1)


def _cells(result: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the comparison's table with what is asked of a robot that should stand, above the verdict."""
    head, rows = cells(result)
    more = [_standing(row, result.scene.weight()) for row in result.outcomes]
    titles = ("force deviation", "force from", "trunk height m", "time step ms")
    added = [[title, *values] for title, *values in zip(titles, *more, strict=True)]
    return head, [*rows[:-1], *added, rows[-1]]


def _standing(row: Outcome, weight: float) -> tuple[str, str, str, str]:
    """Return the spread [weights] of the force over the last quarter, its source, the trunk's height and the time step."""
    run = row.recording
    if run is None:
        return "-", "-", "-", "-"
    if run.diverged_at is not None:
        return "-", run.force_from, "-", number(1e3 * row.dt)
    spread = run.force[-max(len(run.force) // 4, 1) :].std() / weight
    return f"{spread:.4f}", run.force_from, f"{run.body_q[-1, 0, 2]:.4f}", number(1e3 * row.dt)


def _verdict(console: Console, sap: Outcome, num_frames: int) -> int:
    """Hold SolverSAP to standing still with its weight on the ground."""
    ratio = sap.metrics.get("force_ratio")
    if ratio is None:
        console.print(f"SolverSAP does not stand: {sap.verdict}", style="bold red", markup=False)
        return 1
    if abs(ratio - 1.0) <= _BAND:
        console.print("SolverSAP carries the robot's weight", style="bold green")
        return 0
    text = f"SolverSAP carries {ratio:.3f} of the robot's weight; expected 1 within {_BAND}"
    if num_frames < _STANDS:
        text += f": too short a run for the robot to land and stand, which --num-frames {_STANDS} is enough for"
    console.print(text, style="bold red", soft_wrap=True)
    return 1
