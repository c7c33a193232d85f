"""A comparison as text cells, as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bench import report as bench_report
from ..bench.report import number, table
from .measures import METRICS, Metric
from .record import Recording

if TYPE_CHECKING:
    from .session import Comparison, Outcome, Settings

SCHEMA = 1
"""Version of the JSON layout."""
SAMPLES = 121
"""Most frames of a trajectory in the JSON."""
FILES = ("compare.json", "compare.md", "compare.html")
"""What :func:`write` leaves in its folder."""
NOT_COVERED = "n/a"
"""Cell of a solver that a prediction does not speak of."""
THEORY_LEGEND = f"{NOT_COVERED}: the formula does not hold for this solver; -: it holds, and the run gave no value."
"""What the table of predictions has in place of numbers."""


def facts(settings: Settings) -> dict[str, Any]:
    """Return versions, machine, options and date."""
    return {**bench_report.facts(settings), "schema": SCHEMA}


def applicable(comparison: Comparison) -> list[Metric]:
    """Return the metrics that any contestant has a value for."""
    return [m for m in METRICS if any(row.metrics.get(m.key) is not None for row in comparison.outcomes)]


def cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the metrics as a table: head, then a row per metric and one for the verdict; a column per contestant."""
    head = ["", *(row.label for row in comparison.outcomes)]
    rows = [[m.title, *(number(row.metrics.get(m.key)) for row in comparison.outcomes)] for m in applicable(comparison)]
    rows.append(["stepping", *(row.parameters.get("stepping", "-").partition(":")[0] for row in comparison.outcomes)])
    rows.append(["verdict", *(row.verdict for row in comparison.outcomes)])
    return head, rows


def parameter_cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return what each solver was given as a table; options that only one solver has come last."""
    names: dict[str, None] = {}
    for row in comparison.outcomes:
        names.update(dict.fromkeys(row.parameters))
    ordered = sorted(names, key=lambda name: name.startswith("option "))
    head = ["", *(row.label for row in comparison.outcomes)]
    return head, [[name, *(row.parameters.get(name, "-") for row in comparison.outcomes)] for name in ordered]


def prediction_cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return theory beside measurement as a table, one row per prediction."""
    titles = {metric.key: metric.title for metric in METRICS}
    rows = []
    for prediction in comparison.predictions:
        found = []
        for row in comparison.outcomes:
            holds = not prediction.labels or row.label in prediction.labels
            found.append(number(row.metrics.get(prediction.metric)) if holds else NOT_COVERED)
        rows.append([titles[prediction.metric], prediction.formula, number(prediction.value), *found])
    return ["quantity", "theory", "predicted", *(row.label for row in comparison.outcomes)], rows


def summary(comparison: Comparison) -> str:
    """Return what was compared, in a line or two."""
    scene, frames = comparison.scene, comparison.settings.frames
    text = (
        f"{scene.name}: {scene.description} {frames} frames of {scene.substeps} steps of {1e3 * scene.dt:.3g} ms, "
        f"{frames * scene.frame_dt:.3g} s."
    )
    if comparison.reference is None:
        return text
    return f"{text} Reference: SAP with steps of {1e3 * comparison.reference.dt:.3g} ms."


def provenance(comparison: Comparison) -> str:
    """Return date, versions and machine in a line."""
    return bench_report.provenance(comparison.facts)


def markdown(comparison: Comparison) -> str:
    """Return metrics, theory and parameters as Markdown."""
    parts = [f"# {comparison.scene.name} under {', '.join(comparison.settings.solvers)}"]
    parts += [summary(comparison), table(*cells(comparison))]
    head, rows = prediction_cells(comparison)
    if rows:
        parts += ["## Theory and measurement", table(head, rows), THEORY_LEGEND]
    parts += ["## What each solver was given", table(*parameter_cells(comparison))]
    parts += ["## Columns", "\n".join(f"- **{m.title}**: {m.meaning}" for m in applicable(comparison))]
    return "\n\n".join([*parts, provenance(comparison)]) + "\n"


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return everything as plain values."""
    reference = comparison.reference
    return {
        **comparison.facts,
        "scene": {
            "name": comparison.scene.name,
            "description": comparison.scene.description,
            "dt": comparison.scene.dt,
            "substeps": comparison.scene.substeps,
            "bodies": list(comparison.scene.model.body_label),
        },
        "metrics": {m.key: {"title": m.title, "meaning": m.meaning} for m in METRICS},
        "predictions": [asdict(prediction) for prediction in comparison.predictions],
        "reference": None if reference is None else _row(reference),
        "rows": [_row(row) for row in comparison.outcomes],
    }


def _row(row: Outcome) -> dict[str, Any]:
    return {
        "label": row.label,
        "solver": row.contestant.solver,
        "refine": row.contestant.refine,
        "dt": row.dt,
        "verdict": row.verdict,
        "failure": row.failure,
        "metrics": row.metrics,
        "parameters": row.parameters,
        "force_from": None if row.recording is None else row.recording.force_from,
        "trajectory": None if row.recording is None else trajectory(row.recording),
    }


def trajectory(run: Recording) -> dict[str, Any]:
    """Return a recording thinned out to at most ``SAMPLES`` frames, first and last included."""
    frames = len(run.time)
    stride = max(1, -(-(frames - 1) // (SAMPLES - 1)))
    kept = sorted({*range(0, frames, stride), frames - 1})
    later = [k - 1 for k in kept if k > 0]  # of what is known per frame rather than per state
    return {
        "time": _plain(run.time[kept]),
        "body_q": _plain(run.body_q[kept]),
        "body_qd": _plain(run.body_qd[kept]),
        "penetration": _plain(run.penetration[kept]),
        "slip": _plain(run.slip[kept]),
        "force": _plain(run.force[later]),
        "iterations": _plain(run.iterations[later]) if len(run.iterations) else [],
    }


def _plain(values: np.ndarray) -> list:
    """Return nested lists, to single precision's seven digits; what is not finite becomes None."""
    rounded = [None if not np.isfinite(v) else float(f"{v:.7g}") for v in np.asarray(values, dtype=float).ravel()]
    flat = np.empty(len(rounded), dtype=object)
    flat[:] = rounded
    return flat.reshape(np.shape(values)).tolist()


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write JSON, Markdown and the HTML report into a folder and return their paths."""
    record = json.dumps(as_dict(comparison), indent=1, allow_nan=False) + "\n"
    # before anything is written: the library that draws may be missing
    texts = (record, comparison.markdown(), comparison.html())
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in FILES]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths
