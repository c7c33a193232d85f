"""The ``compare`` command: one scene under several solvers, as a table on the terminal and a report in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer


def compare(
    scene: Annotated[str, typer.Argument(help="Scene of newton_sap.scenes, such as quadruped or free_body.")],
    solvers: Annotated[
        str, typer.Option(help="Solvers with commas; NAME/16 divides the time step by 16.")
    ] = "sap,mujoco,featherstone,xpbd",
    output: Annotated[Optional[Path], typer.Option(help="Folder for the JSON, Markdown and HTML reports.")] = None,  # noqa: UP045
    num_frames: Annotated[Optional[int], typer.Option(min=1, help="Frames to simulate, 60 per second.")] = None,  # noqa: UP045
    option: Annotated[Optional[list[str]], typer.Option(help="Keyword of a solver, as solver.name=value.")] = None,  # noqa: UP045
    reference: Annotated[bool, typer.Option(help="Compare with SAP at a 16 times smaller step.")] = True,
    device: Annotated[Optional[str], typer.Option(help="Warp device, such as cpu or cuda:0.")] = None,  # noqa: UP045
) -> None:
    """Run one scene under several solvers; exit code 1 if one gave no result or SAP's run was not healthy.

    Scenes: box_on_incline, box_stack, free_body, gripper_cube, pendulum_cart, quadruped, sphere.

    Examples: newton-sap compare quadruped --output report; newton-sap compare free_body --solvers sap,featherstone/16
    """
    from .app import forward_only, usage_error

    forward_only()
    from ..compare import SceneNotFoundError, SpecificationError
    from ..registry import SolverNotFoundError
    from .usage import UsageError

    try:
        code = compare_command(scene, solvers, output, num_frames, option or [], reference, device)
    except (SceneNotFoundError, SolverNotFoundError, SpecificationError, UsageError) as error:
        raise usage_error(str(error)) from error
    raise typer.Exit(code)


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
    from rich.console import Console

    from ..compare.report import FILES
    from .usage import require_device, require_writable

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
    for path in result.write(output) if output is not None else []:
        console.print(f"written: {path}", markup=False, soft_wrap=True)
    return 0 if result.complete else 1


def compare_aloud(console, scene, solvers, **how):
    """Compare solvers as :func:`newton_sap.compare.compare` does, and say meanwhile which one is at work."""
    from ..compare import compare

    with console.status("") as status:
        return compare(scene, solvers, progress=lambda label: status.update(f"{label} ..."), **how)


def solver_keywords(entries: list[str]) -> dict[str, dict[str, Any]]:
    """Return keywords by solver from entries such as ``sap.contact_model=similar``.

    Raises:
        UsageError: An entry of another form, or a keyword or value that the solver does not take; a broken solver is left to
            the comparison, which has a row for it.
    """
    from ..registry import describe_solver, get_solver, normalise
    from .usage import UsageError, require_options, solver_options

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
    from importlib.util import find_spec

    from .usage import UsageError

    if find_spec("matplotlib") is None:
        raise UsageError(
            "the report needs matplotlib: pip install 'newton-sap[plot]'; leave --output out for the table"
        )


def _show(console, result) -> None:
    """Print summary, metrics and theory."""
    from ..compare.report import THEORY_LEGEND, cells, prediction_cells, summary

    console.print(summary(result), markup=False)
    print_table(console, *cells(result))
    head, rows = prediction_cells(result)
    if rows:
        console.print("Theory and measurement", style="bold")
        print_table(console, head, rows)
        console.print(THEORY_LEGEND, markup=False)


def print_table(console, head: list[str], rows: list[list[str]]) -> None:
    """Print cells of a comparison, a verdict other than ``ok`` in red."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, name in enumerate(head):
        table.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    for name, *values in rows:
        texts = map(escape, values)
        if name == "verdict":
            texts = [text if text == "ok" else f"[red]{text}[/]" for text in texts]
        table.add_row(escape(name), *texts)
    console.print(table)
