"""Plots of a comparison as PNG images: paths, errors, contact, conservation, and cost against accuracy."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..bodies import body_mechanics, weight
from .measures import distance
from .theory import SUBJECTS, Subject, closed_form

if TYPE_CHECKING:
    from .session import Comparison, Outcome

_COLOURS = ("#0b6e99", "#d1495b", "#edae49", "#6a4c93", "#2e933c", "#8d6a4f", "#7a7a7a")
_FLOOR_MM = 1.0e-6
_STYLES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 3)))


@dataclass(frozen=True)
class Plot:
    """An image and what it shows."""

    title: str
    caption: str
    png: bytes


def draw(comparison: Comparison) -> list[Plot]:
    """Return the plots that a comparison has data for."""
    rows = [row for row in comparison.outcomes if row.recording is not None and len(row.recording.time) > 1]
    subject = SUBJECTS.get(comparison.scene.name, Subject())
    plots = []
    if rows:
        plots.append(_path(comparison, subject, rows))
    if rows and comparison.reference is not None:
        plots.append(_error(comparison, rows))
    if rows and subject.contact:
        plots.append(_contact(comparison, subject, rows))
    if rows and subject.energy:
        plots.append(_conservation(comparison, subject, rows))
    if any(row.metrics.get("error_end_mm") is not None for row in rows):
        plots.append(_cost(comparison, rows))
    return plots


def new_figure(count: int = 1) -> tuple[Figure, list]:
    """Return a figure and its axes, above one another over the same time."""
    figure = Figure(figsize=(8.0, 2.9 * count), layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no display, no global state
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for one in axes:
        one.grid(color="#e6e6e6", linewidth=0.8)
        one.spines[["top", "right"]].set_visible(False)
        one.set_axisbelow(True)
    return figure, list(axes)


def line_style(comparison: Comparison, row: Outcome) -> dict:
    """Return colour and dashes of a contestant, the same in every plot, thin over thick."""
    index = comparison.settings.solvers.index(row.label)
    assert row.recording is not None
    suffix = "" if row.recording.diverged_at is None else " (diverged)"
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "linestyle": _STYLES[index % len(_STYLES)],
        "linewidth": max(1.2, 2.8 - 0.4 * index),
        "label": row.label + suffix,
        "zorder": 2 + index,
    }


def _finish(figure: Figure, axes: list, title: str, caption: str) -> Plot:
    axes[-1].set_xlabel("time [s]")
    return _image(figure, axes, title, caption)


def _image(figure: Figure, axes: list, title: str, caption: str) -> Plot:
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, frameon=False, loc="outside upper center", ncols=min(len(handles), 5), fontsize=9
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return Plot(title, caption, buffer.getvalue())


def _path(comparison: Comparison, subject: Subject, rows: list[Outcome]) -> Plot:
    figure, (axes,) = new_figure()
    calm = []
    for row in rows:
        values = row.recording.body_q[:, subject.body, subject.axis]
        axes.plot(row.recording.time, values, **line_style(comparison, row))
        calm += [values] if row.recording.diverged_at is None else []
    if comparison.reference is not None:
        run = comparison.reference.recording
        calm.append(run.body_q[:, subject.body, subject.axis])
        axes.plot(run.time, calm[-1], color="black", linewidth=0.8, label="reference", zorder=20)
    fit_range(axes, calm)
    body = comparison.scene.model.body_label[subject.body].rpartition("/")[2]
    axes.set_ylabel(f"{'xyz'[subject.axis]} of {body} [m]")
    return _finish(figure, [axes], f"Path of {body}", "Runs that diverged do not set the scale.")


def fit_range(axes, curves: list[np.ndarray]) -> None:
    """Fit the vertical range to these curves."""
    if not curves:
        return
    low, high = min(c.min() for c in curves), max(c.max() for c in curves)
    margin = 0.06 * (high - low) or 1e-3
    axes.set_ylim(low - margin, high + margin)


def _error(comparison: Comparison, rows: list[Outcome]) -> Plot:
    exact = {row.label: closed_form(comparison.scene, row.recording) for row in rows}
    has_exact = any(errors is not None for errors in exact.values())
    figure, axes = new_figure(2 if has_exact else 1)
    for row in rows:
        style = line_style(comparison, row)
        curves = [distance(row.recording, comparison.reference.recording), exact[row.label]][: len(axes)]
        for one, errors in zip(axes, curves, strict=True):
            frames = len(errors)  # the common start is left out: it has no place on a logarithmic scale
            shown = np.maximum(1e3 * errors[1:], _FLOOR_MM)
            point = {"marker": "o"} if len(shown) == 1 else {}  # a run of one frame has no line
            one.plot(row.recording.time[1:frames], shown, **style, **point)
    labels = ("from the reference [mm]", "from the exact motion [mm]")
    for one, label in zip(axes, labels, strict=False):
        one.set_yscale("log")
        one.set_ylabel(label)
    caption = f"Distances below {_FLOOR_MM:g} mm are drawn there. Reference: SAP with a 16 times smaller step."
    if has_exact:
        caption += " Exact: what mechanics gives in closed form, see the last metric."
    return _finish(figure, axes, "Distance from the reference", caption)


def _contact(comparison: Comparison, subject: Subject, rows: list[Outcome]) -> Plot:
    figure, axes = new_figure(2 if subject.carried else 1)
    calm = []
    for row in rows:
        run, style = row.recording, line_style(comparison, row)
        axes[0].plot(run.time, 1e3 * run.penetration, **style)
        calm += [1e3 * run.penetration] if run.diverged_at is None else []
        if subject.carried:
            axes[1].plot(run.time[1:], run.force / weight(comparison.scene.model), **style)
    fit_range(axes[0], calm)
    for prediction in comparison.predictions:
        if prediction.metric == "penetration_mm":
            axes[0].axhline(
                prediction.value, color="black", linewidth=0.8, linestyle=(0, (4, 3)), label="theory, at rest"
            )
    axes[0].set_ylabel("deepest contact [mm]")
    caption = "Depth by Newton's collision pipeline."
    if subject.carried:
        axes[1].axhline(1.0, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
        peaks = [float(r.recording.force.max()) for r in rows if r.recording.diverged_at is None]
        axes[1].set_ylim(-0.1, min(3.0, 1.1 * max(peaks, default=0.0) / weight(comparison.scene.model) + 0.3))
        axes[1].set_ylabel("force / weight [-]")
        caption += " The force axis ends at three times the weight at most; impacts go beyond."
    return _finish(figure, axes, "Contact", caption)


def _conservation(comparison: Comparison, subject: Subject, rows: list[Outcome]) -> Plot:
    figure, axes = new_figure(2 if subject.momentum_axes else 1)
    model, calm = comparison.scene.model, ([], [])
    for row in rows:
        run, style = row.recording, line_style(comparison, row)
        found = body_mechanics(model, run.body_q, run.body_qd)
        curves = [found.total - found.total[0]]
        if subject.momentum_axes:
            change = (found.linear - found.linear[0])[:, list(subject.momentum_axes)]
            curves.append(np.linalg.norm(change, axis=1))
        for one, curve, steady in zip(axes, curves, calm, strict=False):
            one.plot(run.time, curve, **style)
            steady += [curve] if run.diverged_at is None else []
    for one, steady in zip(axes, calm, strict=False):
        fit_range(one, steady)
    axes[0].set_ylabel("change of energy [J]")
    if subject.momentum_axes:
        axes[1].set_ylabel("change of momentum [N s]")
    expected = "Zero is exact." if subject.energy == "conserved" else "It can only fall."
    return _finish(figure, axes, "Energy and momentum" if subject.momentum_axes else "Energy", expected)


def _cost(comparison: Comparison, rows: list[Outcome]) -> Plot:
    figure, (axes,) = new_figure()
    costs = []
    for row in rows:
        rate, error = row.metrics.get("realtime"), row.metrics.get("error_end_mm")
        if rate is None or error is None:
            continue
        style = line_style(comparison, row)
        costs.append(1e3 / rate)
        axes.scatter(costs[-1], max(error, _FLOOR_MM), s=70, color=style["color"], label=row.label, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(10.0 ** np.floor(np.log10(min(costs)) - 0.1), 10.0 ** np.ceil(np.log10(max(costs)) + 0.1))
    axes.margins(y=0.2)
    axes.set_xlabel("wall time per simulated second [ms]")
    axes.set_ylabel("distance at the end [mm]")
    return _image(figure, [axes], "Cost and accuracy", "Lower left is better; runs that diverged are missing.")
