"""What the ``compare`` command does: one scene under several solvers, as a table on the terminal and a report in a folder."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..compare import compare
from ..compare.report import FILES, THEORY_LEGEND, cells, prediction_cells, summary
from ..registry import describe_solver, get_solver, normalise
from .patience import ask_for_patience
from .usage import UsageError, require_device, require_options, require_writable, solver_options

REPORT_HINT = "--output FOLDER writes a report that says what each row means, with curves and all parameters"


def compare_command(
    scene: str,
    solvers: str,
    output: Path | None,
    num_frames: int | None,
    options: list[str],
    reference: bool,
    device: str | None,
) -> int:
    """Compare, print the tables, write the reports and return the exit code."""
    import warp as wp

    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # setup time is a row of the table
    keywords = solver_keywords(options)
    require_device(device)
    if output is not None:
        _require_matplotlib()
        for name in FILES:
            require_writable("--output", output / name)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    result = compare_aloud(
        console, scene, solvers, frames=num_frames, reference=reference, options=keywords, device=device
    )
    _show(console, result)
    if output is None:
        console.print(REPORT_HINT, markup=False, soft_wrap=True)
    for path in result.write(output) if output is not None else []:
        console.print(f"written: {path}", markup=False, soft_wrap=True)
    return 0 if result.complete else 1


def compare_aloud(console, scene, solvers, **how):
    """Compare solvers as :func:`newton_sap.compare.compare` does, and say meanwhile which one is at work."""
    ask_once = cache(ask_for_patience)  # when the names have been found
    with console.status("") as status:

        def tell(label):
            ask_once()
            status.update(f"{label} ...")

        return compare(scene, solvers, progress=tell, **how)


def solver_keywords(entries: list[str]) -> dict[str, dict[str, Any]]:
    """Return keywords by solver from entries such as ``sap.contact_model=similar``.

    Raises:
        UsageError: An entry of another form, or a keyword or value that the solver does not take; a broken solver is left to
            the comparison, which has a row for it.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        solver, dot, rest = entry.partition(".")
        if not dot or not solver or "=" in solver:
            raise UsageError(f"--option {entry!r}: write solver.name=value")
        found.setdefault(normalise(solver), {}).update(solver_options(None, [rest]))
    for label, keywords in found.items():
        name = label.partition("/")[0]
        if describe_solver(name).status != "broken":
            require_options(get_solver(name), keywords)
    return found


def _require_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise UsageError(
            "the report needs matplotlib: pip install 'newton-sap[plot]'; leave --output out for the table"
        )


def _show(console, result) -> None:
    """Print summary, metrics and theory."""
    console.print(summary(result), markup=False)
    print_table(console, *cells(result))
    head, rows = prediction_cells(result)
    if rows:
        console.print("Theory and measurement", style="bold")
        print_table(console, head, rows)
        console.print(THEORY_LEGEND, markup=False)


def print_table(console, head: list[str], rows: list[list[str]]) -> None:
    """Print cells of a comparison, a verdict other than ``ok`` in red."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, name in enumerate(head):
        table.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    for name, *values in rows:
        texts = map(escape, values)
        if name == "verdict":
            texts = [text if text == "ok" else f"[red]{text}[/]" for text in texts]
        table.add_row(escape(name), *texts)
    console.print(table)
