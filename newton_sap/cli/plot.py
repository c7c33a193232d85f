"""The picture of the demonstration: trunk height, contact force against weight, and iterations over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .rollout import Trace

_COLOURS = ("#0b6e99", "#d1495b", "#edae49", "#6a4c93", "#2e933c")
_WIDTHS = (3.0, 1.6, 1.2, 1.2, 1.2)


def draw(traces: list[Trace], path: Path) -> Path:
    """Draw the traces above one another into a PNG file and return its path."""
    figure = Figure(figsize=(9.0, 8.0), layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no display, no global state
    height, force, iterations = figure.subplots(3, 1, sharex=True, height_ratios=(1.0, 1.0, 0.7))
    for i, trace in enumerate(traces):
        style = {
            "color": _COLOURS[i % len(_COLOURS)],
            "linewidth": _WIDTHS[i % len(_WIDTHS)],
            "label": trace.label + ("" if trace.finite else " (diverged)"),
            "zorder": 2 + i,  # thin over thick, so that coinciding curves stay visible
        }
        positions = np.asarray(trace.position)
        height.plot(trace.time, positions[:, 2], **style)
        force.plot(trace.time, np.asarray(trace.force) / trace.weight, **style)
        if trace.iterations:
            iterations.step(trace.time, trace.iterations, where="mid", **style)
    force.axhline(1.0, color="black", linewidth=0.8, linestyle=(0, (4, 3)), zorder=20)
    force.annotate("weight", (1.0, 1.0), xycoords=("axes fraction", "data"), xytext=(-4, 4), **_NOTE)
    _limit(height, [np.asarray(t.position)[:, 2] for t in traces if t.finite], 0.1)
    _show_peaks(force, [t for t in traces if t.finite])
    iterations.set_ylim(bottom=0.0)
    height.set_title(f"Quadruped of {traces[0].weight:.0f} N dropping 0.1 m, time step {1e3 * traces[0].dt:.2f} ms")
    height.set_ylabel("trunk height [m]")
    force.set_ylabel("contact force / weight [-]")
    iterations.set_ylabel("iterations [-]")
    iterations.set_xlabel("time [s]")
    iterations.margins(x=0.0)
    for axes in (height, force, iterations):
        axes.grid(color="#e6e6e6", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    height.legend(frameon=False, loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


_NOTE = {"textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": 9}

_FORCE_SHOWN = 3.0
"""Upper end [weights] of the force axis, so that the approach to the weight stays legible beside the impact."""


def _show_peaks(axes, traces: list[Trace]) -> None:
    """Cut the force axis above the impact and write the peaks down instead."""
    peaks = [f"{trace.label} {max(trace.force) / trace.weight:.1f}" for trace in traces]
    axes.set_ylim(-0.1, _FORCE_SHOWN)
    if peaks:
        text = "peak at impact: " + "; ".join(peaks)
        axes.annotate(text, (1.0, 1.0), xycoords="axes fraction", xytext=(-4, -14), **_NOTE)


def _limit(axes, curves: list[np.ndarray], margin: float) -> None:
    """Fit the vertical range to the solvers that did not diverge."""
    if not curves:
        return
    low, high = min(c.min() for c in curves), max(c.max() for c in curves)
    axes.set_ylim(low - margin * (high - low), high + margin * (high - low))
