"""The picture of the demonstration: trunk height, contact force against weight, and iterations over time."""

from __future__ import annotations

from pathlib import Path

from ..compare import Comparison
from ..compare.plots import fit_range, line_style, new_figure

_NOTE = {"textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": 9}

_FORCE_SHOWN = 3.0
"""Upper end [weights] of the force axis, so that the approach to the weight stays legible beside the impact."""


def draw(comparison: Comparison, path: Path) -> Path:
    """Draw the runs above one another into a PNG file and return its path."""
    figure, (height, force, iterations) = new_figure(3)
    weight, calm, peaks = comparison.scene.weight(), [], []
    for row in comparison.outcomes:
        run = row.recording
        if run is None:
            continue
        style, trunk = line_style(comparison, row), run.body_q[:, 0, 2]
        height.plot(run.time, trunk, **style)
        force.plot(run.time[1:], run.force / weight, **style)
        if len(run.iterations):
            iterations.step(run.time[1:], run.iterations, where="mid", **style)
        if run.diverged_at is None:
            calm.append(trunk)
            peaks.append(f"{row.label} {run.force.max() / weight:.1f}")
    fit_range(height, calm)
    force.axhline(1.0, color="black", linewidth=0.8, linestyle=(0, (4, 3)), zorder=20)
    force.annotate("weight", (1.0, 1.0), xycoords=("axes fraction", "data"), xytext=(-4, 4), **_NOTE)
    force.set_ylim(-0.1, _FORCE_SHOWN)
    text = "peak at impact: " + "; ".join(peaks) if peaks else ""
    force.annotate(text, (1.0, 1.0), xycoords="axes fraction", xytext=(-4, -14), **_NOTE)
    iterations.set_ylim(bottom=0.0)
    height.set_title(f"Quadruped of {weight:.0f} N dropping 0.1 m, time step {1e3 * comparison.scene.dt:.2f} ms")
    height.set_ylabel("trunk height [m]")
    force.set_ylabel("contact force / weight [-]")
    iterations.set_ylabel("iterations [-]")
    iterations.set_xlabel("time [s]")
    height.legend(frameon=False, loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
