"""What the ``bench`` command does: time and judge solvers, print tables, write JSON and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import registry
from ..bench import SCENES, Settings, bench, report
from ..bench.session import NATIVE
from ..bench.timing import Region
from ..suggest import suggestion
from .patience import ask_for_patience
from .usage import UsageError, require_device, require_installed, require_options, require_writable, solver_options

_WIDTH = 190
"""Columns to print where the output is no terminal."""


def bench_command(
    scenes: list[str],
    *,
    solver: str,
    worlds: str,
    peers: list[str],
    eager: bool,
    captured: bool,
    device: str | None,
    preset: str | None,
    options: list[str],
    repeats: int,
    seconds: float,
    steps: int | None,
    profile: bool,
    accuracy: bool,
    gap: float,
    json_file: Path | None,
    markdown_file: Path | None,
) -> int:
    """Run the benchmark and return the exit code: 1 if any row failed."""
    import warp as wp

    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    modes = tuple(mode for mode, wanted in (("eager", eager), ("captured", captured)) if wanted)
    keywords = solver_options(preset, options)
    measured = _solver(solver, keywords)
    settings = Settings(
        scenes=_scenes(scenes),
        solver=measured,
        peers=_peers(measured, peers),
        worlds=_counts(worlds),
        modes=modes or ("eager", "captured"),
        device=device,
        options=keywords,
        repeats=repeats,
        region=_region(seconds, steps),
        profile=profile,
        accuracy=accuracy,
        gap=gap,
    )
    require_device(device)
    for flag, file in (("--json", json_file), ("--markdown", markdown_file)):
        if file is not None:
            require_writable(flag, file)
    console = _console()
    ask_for_patience()
    outcome = bench(settings, lambda *tables: _show(console, *tables))
    console.print(report.LEGEND, markup=False)
    facts = report.facts(settings)
    if json_file is not None:
        report.write_json(json_file, outcome, facts)
    if markdown_file is not None:
        markdown_file.parent.mkdir(parents=True, exist_ok=True)
        markdown_file.write_text(report.markdown(outcome, facts), encoding="utf-8")
    if outcome.failed:
        console.print("some rows FAILED; their times do not count", style="bold red")
    return int(outcome.failed)


def _console() -> Console:
    """Return where tables are printed, wide where nobody can widen it."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _region(seconds: float, steps: int | None) -> Region:
    """Steps that were asked for make batches comparable whose scenes come to rest: all are timed on the same way there."""
    if steps is not None:
        return Region(seconds=0.0, steps=steps, at_most=1.0e9)  # JSON knows no infinity
    return Region(seconds=seconds, steps=200 if seconds >= 0.5 else 10, at_most=3.0 * seconds)


def _show(console: Console, rows, ratios, profiles) -> None:
    _print(console, report.COLUMNS, [report.cells(row) for row in rows])
    if ratios:
        _print(console, report.RATIO_COLUMNS, [report.ratio_cells(ratio) for ratio in ratios])
    for profile in profiles:
        console.print(report.profile_title(profile))
        _print(console, report.PROFILE_COLUMNS, report.profile_cells(profile))


def _print(console: Console, columns, rows: list[list[str]]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        wide = name == "verdict"
        table.add_column(name, justify="left" if wide else "right", no_wrap=not wide, min_width=6 if wide else None)
    for row in rows:
        table.add_row(*map(escape, row), style="red" if "FAILED" in row[-1] else "")
    console.print(table)


def _scenes(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if name not in SCENES:
            raise UsageError(f"no scene named {name!r}{suggestion(name, SCENES)} (scenes: {', '.join(SCENES)})")
    return tuple(names) or tuple(name for name, recipe in SCENES.items() if not recipe.by_name)


def _solver(name: str, options: Mapping[str, Any] | None = None) -> str:
    name = registry.normalise(name)
    if name in NATIVE:
        if options:
            raise UsageError(f"--solver {name} is stepped by its own library: leave out --preset and --option")
        _require_native(name)
        return name
    try:
        require_options(registry.get_solver(name), options or {})
        require_installed(name)
    except (registry.SolverNotFoundError, registry.SolverLoadError) as error:
        raise UsageError(f"{error}; also measured: {', '.join(NATIVE)}") from error
    return name


def _peers(measured: str, entries: list[str]) -> tuple[str, ...]:
    names = tuple(_solver(name) for entry in entries for name in entry.split(","))
    if measured in names:
        raise UsageError(f"--vs {measured}: --solver measures it already; name another solver")
    return names


def _require_native(name: str) -> None:
    """Refuse an engine whose library is missing before the others are measured."""
    module, extra = NATIVE[name]
    if find_spec(module) is None:
        raise UsageError(f"solver {name} cannot run: {module} is not installed (pip install 'newton-sap[{extra}]')")


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"--worlds {text!r}: give positive numbers with commas, such as 1,16,128")
    return counts
