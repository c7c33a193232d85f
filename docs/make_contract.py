"""Writes ``contract.md``: every check of ``newton_sap.testing`` against every rigid-body solver.

python docs/make_contract.py

Each solver runs in a process of its own. A check that kills the process or takes longer than the limit becomes a cell of
the table, and a new process goes on with the next check.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from newton_sap.registry import get_solver, list_solvers
from newton_sap.testing import Check, all_checks, get_check, run_contract

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contract.md"
PASS, FAIL, NOT_APPLICABLE, CRASH, HANG = "pass", "fail", "n/a", "crash", "hang"
WORDS = {"passed": PASS, "failed": FAIL, "not claimed": NOT_APPLICABLE}
CHILD = (__file__,)
"""What Python runs to answer for one solver."""
PACKAGES = ("newton", "warp-lang", "mujoco", "mujoco-warp", "numpy")


@dataclass(frozen=True)
class Setting:
    """A solver as its users would set it up for these scenes."""

    name: str
    """Name in the registry."""
    said: str
    """The same for the reader."""
    options: dict = field(default_factory=dict)
    refine: int = 1
    own_contacts: bool = False
    """Finds contacts by itself unless told otherwise; told so for scenes that have shapes."""
    attributes: dict = field(default_factory=dict)
    """Defaults of custom attributes that differ from the solver's."""


SETTINGS = (
    Setting("sap", "defaults"),
    Setting(
        "mujoco",
        '`cone="elliptic"`, `impratio=100`, steps divided by 4; `use_mujoco_contacts=False` where a scene has shapes',
        {"cone": "elliptic", "impratio": 100.0},
        refine=4,
        own_contacts=True,
    ),
    Setting("featherstone", "`angular_damping=0`, steps divided by 8", {"angular_damping": 0.0}, refine=8),
    Setting("xpbd", "defaults, steps divided by 4 (more iterations pass fewer checks)", refine=4),
    Setting("semi_implicit", "`angular_damping=0`, steps divided by 8", {"angular_damping": 0.0}, refine=8),
    Setting("kamino", "defaults"),
    Setting(
        "steel",
        "`enable_joint_limits=True`, `rigid_body_angular_damping` 0, steps divided by 4",
        {"enable_joint_limits": True},
        refine=4,
        attributes={"steel:rigid_body_angular_damping": 0.0},
    ),
)

NOT_PROMISED = {
    ("mujoco", "contacts_none"): (
        "detects its own contacts unless told to use Newton's, and then documents that `contacts` is required"
    ),
}
"""Checks that a solver's own documentation takes back; the cell is n/a with this reason."""

HEADER = """# The contract, solver by solver

`newton_sap.testing` asks {count} questions that follow from Newton's documented interface and from mechanics in closed
form. [Writing a solver](guides/writing_a_solver.md) says how to put them to a class of one's own. This page is one run
over Newton's rigid-body solvers.

The checks were written beside SolverSAP, which passes all of them because its tests require it; a solver that was never
run against them had no chance to adapt. A failure says that the solver differs from one sentence below in one small scene,
not that it is unfit for its purpose. "n/a": the solver does not offer what the check is about, or its documentation says
otherwise. "crash" and "hang": the process died, or gave no answer within {limit} s.

{date}, {platform}, {versions}. Made by `python docs/make_contract.py`.

## Totals

{totals}

## Results

{results}

## What the checks ask

{asks}

## Reasons

First line of what was raised.

{reasons}
"""


@dataclass(frozen=True)
class Cell:
    """Outcome of one check for one solver."""

    status: str
    reason: str = ""


def main() -> None:
    """Run everything and write the page, or, as a child, answer for one solver."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--limit", type=float, default=180.0, help="seconds that one check may take")
    arguments.add_argument("--child", help="name of a solver: print one line per check and exit")
    arguments.add_argument("--checks", nargs="*", help="the checks that a child runs")
    given = arguments.parse_args()
    if given.child:
        answer(next(s for s in SETTINGS if s.name == given.child), given.checks)
        return
    installed = {row.name for row in list_solvers(load=True) if row.status == "loaded"}
    settings = [s for s in SETTINGS if s.name in installed]
    cells = {s.name: run(s, given.limit) for s in settings}
    PAGE.write_text(page(settings, cells, given.limit), encoding="utf-8")


def answer(setting: Setting, names: list[str]) -> None:
    """Run checks and print each result as one line of JSON."""
    solver = get_solver(setting.name)

    def make(model, **options):
        if setting.own_contacts:
            options["use_mujoco_contacts"] = model.shape_count == 0
        return solver(model, **options)

    def prepare(builder):
        solver.register_custom_attributes(builder)
        for name, default in setting.attributes.items():
            builder.custom_attributes[name].default = default

    out = sys.stdout
    for name in names:
        with contextlib.redirect_stdout(sys.stderr):
            (result,) = run_contract(
                make, refine=setting.refine, prepare=prepare, only=[name], **setting.options
            ).results
        print(json.dumps([name, result.status, result.message]), file=out, flush=True)


def run(setting: Setting, limit: float) -> dict[str, Cell]:
    """Put every check to a solver, in as many processes as it takes."""
    cells: dict[str, Cell] = {}
    left = [one.name for one in all_checks()]
    while left:
        more, ended = _one_process(setting, left, limit)
        cells.update(more)
        left = left[len(more) :]
        if left:
            cells[left.pop(0)] = ended
    for (solver, name), reason in NOT_PROMISED.items():
        if solver == setting.name and cells[name].status == FAIL:
            cells[name] = Cell(NOT_APPLICABLE, reason)
    return cells


def _one_process(setting: Setting, names: list[str], limit: float) -> tuple[dict[str, Cell], Cell]:
    """Return the answers of one process, and how the check after them ended it."""
    command = [sys.executable, *CHILD, "--child", setting.name, "--checks", *names]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    lines: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    cells: dict[str, Cell] = {}
    ended = None
    with process.stdout:
        while ended is None:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                process.kill()
                ended = Cell(HANG, f"no answer within {limit:g} s")
                continue
            if line is None:
                ended = Cell(CRASH, f"the process ended with code {process.wait()}")
            elif line.startswith("["):  # some solvers print
                name, status, message = json.loads(line)
                cells[name] = Cell(WORDS[status], first_line(message))
                print(f"{setting.name:14} {name:34} {WORDS[status]}", file=sys.stderr)
        process.wait()
        listener.join()
    return cells, ended


def first_line(message: str) -> str:
    """Return the first line of a message, short enough for a page."""
    line = " ".join((message.strip().splitlines() or [""])[0].split())
    line = line.removeprefix("NotImplementedError: ") if line != "NotImplementedError:" else "NotImplementedError"
    return line if len(line) <= 300 else line[:297] + "..."


def page(settings: list[Setting], cells: dict[str, dict[str, Cell]], limit: float) -> str:
    """Return the whole page."""
    notes: dict[str, int] = {}
    results = _results(settings, cells, notes)
    return HEADER.format(
        count=len(all_checks()),
        limit=f"{limit:g}",
        date=datetime.date.today().isoformat(),
        platform=f"Python {platform.python_version()}, CPU",
        versions=", ".join(_versions()),
        totals=_totals(settings, cells),
        results=results,
        asks=asks_section(all_checks()),
        reasons="\n".join(f"[^{number}]: {_escape(reason)}" for reason, number in notes.items()),
    )


def _versions() -> list[str]:
    found = []
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return found


def _totals(settings: list[Setting], cells: dict[str, dict[str, Cell]]) -> str:
    words = (PASS, FAIL, NOT_APPLICABLE, CRASH, HANG)
    lines = ["| solver | " + " | ".join(words) + " | set up with |", "|---|" + "--:|" * len(words) + "---|"]
    for setting in settings:
        statuses = [cell.status for cell in cells[setting.name].values()]
        counts = " | ".join(str(statuses.count(word)) for word in words)
        lines.append(f"| {get_solver(setting.name).__name__} | {counts} | {setting.said} |")
    return "\n".join(lines)


def _results(settings: list[Setting], cells: dict[str, dict[str, Cell]], notes: dict[str, int]) -> str:
    names = [get_solver(s.name).__name__.removeprefix("Solver") for s in settings]
    lines = ["| check | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for one in all_checks():
        row = [_cell(cells[s.name][one.name], notes) for s in settings]
        lines.append(f"| `{one.name}` | " + " | ".join(row) + " |")
    return "\n".join(lines)


def _cell(cell: Cell, notes: dict[str, int]) -> str:
    if cell.status == PASS:
        return PASS
    number = notes.setdefault(cell.reason, len(notes) + 1)
    return f"{cell.status}[^{number}]" if cell.reason else cell.status


def asks_section(checks: tuple[Check, ...]) -> str:
    """Return what the checks ask, by area."""
    parts = []
    for area in dict.fromkeys(one.area for one in checks):
        parts += [f"### {area[0].upper() + area[1:]}", ""]
        parts += [
            f"- `{one.name}` (`{one.source}`): {one.asks.replace('``', '`')}" for one in checks if one.area == area
        ]
        parts.append("")
    return "\n".join(parts).strip()


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("[", "\\[").replace("]", "\\]").replace("_", "\\_")


def column(text: str, solver: str) -> dict[str, str]:
    """Return what a page says about a solver, by name of the check."""
    rows = [line.strip("|").split("|") for line in text.split("## Results")[1].split("\n## ")[0].splitlines()]
    table = [[entry.strip() for entry in row] for row in rows if len(row) > 1]
    at = table[0].index(solver)
    return {get_check(row[0].strip("`")).name: row[at] for row in table[2:]}


if __name__ == "__main__":
    main()
