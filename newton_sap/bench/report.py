"""A benchmark as a table on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import warp as wp

from .session import Outcome, Ratio, Row, Settings

SCHEMA = 1
"""Version of the JSON layout."""

_PACKAGES = {"newton": "newton", "warp": "warp-lang", "mujoco": "mujoco", "mujoco_warp": "mujoco-warp",
             "numpy": "numpy", "drake": "drake", "newton_sap": "newton-sap"}  # fmt: skip

COLUMNS = ("scene", "worlds", "solver", "mode", "ms/step", "quartiles", "collide", "steps/s", "iterations", "residual",
           "contacts", "pen mm", "slip mm/s", "F/W", "dE/E", "error mm", "KB/world", "verdict")  # fmt: skip

LEGEND = (
    "iterations: mean/95th percentile/largest. pen mm: deepest contact. F/W: contact force over weight, 1 at rest. dE/E: "
    "change of energy where it is conserved. error mm: distance from SAP at a 16 times smaller step. -: not told, or does not "
    "apply."
)
"""What the columns are whose heads are too short to say it."""


def cells(row: Row) -> list[str]:
    """Return a row's text, one entry per column."""
    quality = row.quality
    spread = "-" if row.ms_low is None else f"{number(row.ms_low)}..{number(row.ms_high)}"
    iterations = "-"
    if quality.iterations_mean is not None:
        iterations = f"{quality.iterations_mean:.1f}/{quality.iterations_p95:.0f}/{quality.iterations_max}"
    memory = "-" if row.memory_per_world is None else f"{row.memory_per_world / 1024:.1f}"
    verdict = "FAILED: " + "; ".join(quality.failures) if row.failed else "ok"
    if quality.left_out:
        verdict = f"left out: {quality.left_out}"
    values = (row.ms, row.collide_ms, row.world_steps_per_s)
    ms, collide, rate = (number(value) for value in values)
    rest = (quality.residual, quality.contacts, quality.penetration_mm, quality.slip_mm_s, quality.force_over_weight,
            quality.energy_drift, quality.error_mm)  # fmt: skip
    return [row.scene, str(row.worlds), row.solver, row.mode, ms, spread, collide, rate, iterations,
            *(number(value) for value in rest), memory, verdict]  # fmt: skip


def number(value: float | None) -> str:
    """Return three significant digits, ``-`` for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratio_cells(ratio: Ratio) -> list[str]:
    """Return a ratio's text."""
    quality = "" if ratio.valid else "not valid"
    return [ratio.scene, str(ratio.worlds), ratio.mode, f"{ratio.solver} / {ratio.peer}", f"{ratio.median:.3f}",
            f"{ratio.low:.3f}..{ratio.high:.3f}", quality]  # fmt: skip


RATIO_COLUMNS = ("scene", "worlds", "mode", "time of", "ratio", "quartiles", "")

PROFILE_COLUMNS = ("stage", "us/step", "share")


def profile_title(profile: dict) -> str:
    """Return what a profile is of."""
    title = f"{profile['solver']} on {profile['scene']}, worlds: {profile['worlds']}"
    iterations = profile["iterations"]
    if not iterations:
        return title
    title += f", {iterations:.2f} iterations on average"
    spent = sum(stage["microseconds"] for stage in profile["stages"] if stage["name"] == "minimize")
    if spent:
        title += f", {spent / (iterations * profile['worlds']):.2f} us of minimize per world and iteration"
    return title


def profile_cells(profile: dict) -> list[list[str]]:
    """Return the lines of a profile."""
    return [[s["name"], f"{s['microseconds']:.1f}", f"{100 * s['share']:.1f} %"] for s in profile["stages"]]


def markdown(outcome: Outcome, facts: dict) -> str:
    """Return the whole outcome as Markdown."""
    parts = [provenance(facts), table(COLUMNS, map(cells, outcome.rows)), LEGEND]
    if outcome.ratios:
        parts.append(table(RATIO_COLUMNS, map(ratio_cells, outcome.ratios)))
    for profile in outcome.profiles:
        parts += [f"### {profile_title(profile)}", table(PROFILE_COLUMNS, profile_cells(profile))]
    return "\n\n".join(parts) + "\n"


def provenance(facts: dict) -> str:
    """Return date, versions and machine in a line."""
    packages = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    machine = facts["machine"]
    return f"{facts['date']}; {packages}; {machine['device']}, {machine['processor']}, {machine['cores']} cores."


def table(head, rows) -> str:
    """Return cells as a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows])


def facts(settings: Settings) -> dict:
    """Return versions, machine, options and date."""
    versions = {}
    for name, package in _PACKAGES.items():
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            continue
    device = wp.get_device(settings.device)
    machine = {
        "device": device.name if device.is_cuda else str(device),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"schema": SCHEMA, "date": now, "versions": versions, "machine": machine, "settings": asdict(settings)}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write_json(path: Path, outcome: Outcome, facts: dict) -> None:
    """Write everything as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**facts, **outcome.to_dict()}, indent=1) + "\n", encoding="utf-8")
