"""Draws the pictures of ``guides/how_sap_works.md`` and writes what they show into the page, between its markers.

    python docs/make_how_it_works.py

The first picture minimises one step of one contact with the NumPy reference, the second reads how the residual falls
in ``SolverSAP`` itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import newton
import numpy as np
import warp as wp
from make_tuning import fill, table
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from newton_sap import SAPOptions, SolverSAP, scenes
from newton_sap.reference.convex import Contact, ConvexProblem, HuntCrossley, minimize

IMAGES = Path(__file__).parent / "img"
PAGE = Path(__file__).parent / "guides" / "how_sap_works.md"
BLUE, RED, YELLOW, GREEN, GREY = "#0b6e99", "#d1495b", "#edae49", "#2e933c", "#7a7a7a"

DT = 1.0e-2
MASS, STIFFNESS, DISSIPATION, MU = 1.0, 2.0e4, 5.0, 0.5
DEPTH = 5.0e-4
START = np.array([0.10, 0.0, -0.25])
"""Velocity [m/s] at the start of the step: sliding to the right and still going down."""


def one_contact() -> ConvexProblem:
    """Return the step of a point mass that is already a little inside the ground, under the default law."""
    law = HuntCrossley(fe0=STIFFNESS * DEPTH, k=STIFFNESS, d=DISSIPATION, dt=DT)
    contact = Contact(
        index=0,
        bodies=(-1, 0),
        n=np.array([0.0, 0.0, 1.0]),
        points=np.zeros((2, 3)),
        J=np.eye(3),
        bias=np.zeros(3),
        phi0=-DEPTH,
        v_hat=0.0,
        R_n=1.0,
        R_t=1.0e-3,
        mu=MU,
        w=1.0,
        model="lagged",
        normal=law,
        n0=law.impulse(START[2]),
        slip_scale=1.0e-5,
    )
    return ConvexProblem(MASS * np.eye(3), START + [0.0, 0.0, -9.81 * DT], [contact], [], range(3), START)


def newton_path(problem: ConvexProblem) -> np.ndarray:
    """Return the velocities that Newton's method visits, from the start of the step to the minimum."""
    path = [START]
    while True:
        found = minimize(problem, START, SAPOptions(max_iterations=len(path)))
        if found.iterations < len(path):
            return np.array(path)
        path.append(found.v)
        if found.converged:
            return np.array(path)


def draw_one_step() -> None:
    """Contours of the cost over the velocity, and the cost cut along one line."""
    problem = one_contact()
    path = newton_path(problem)
    best = path[-1]
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _contours(left, problem, path, best)
    _cut(right, problem, best)
    figure.savefig(IMAGES / "how_sap_works.png", dpi=110)
    rows = [[i, f"{v[0]:+.4f}", f"{v[2]:+.4f}"] for i, v in enumerate(path)]
    fill(PAGE, "path", table(["iteration", "sliding speed [m/s]", "upward speed [m/s]"], rows))


def _contours(axes, problem: ConvexProblem, path: np.ndarray, best: np.ndarray) -> None:
    along, up = np.meshgrid(np.linspace(-0.05, 0.16, 211), np.linspace(-0.40, 0.12, 261))
    cost = np.array(
        [problem.cost(np.array([x, 0.0, z])) for x, z in zip(along.ravel(), up.ravel(), strict=True)]
    ).reshape(along.shape)
    above = np.maximum(cost - problem.cost(best), 1.0e-9)
    axes.contour(along, up, above, levels=np.geomspace(1.0e-5, 1.0, 16), colors="#9bbfd0", linewidths=0.9)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.plot(path[:, 0], path[:, 2], "o-", color=BLUE, markersize=4, linewidth=1.4, label="Newton's method")
    for point, colour, marker, label in (
        (START, GREEN, "s", "v0, start of the step"),
        (problem.v_star, YELLOW, "D", "v*, without contact"),
        (best, RED, "*", "v, the minimum"),
    ):
        size = 13 if marker == "*" else 7
        axes.plot(
            point[0], point[2], marker, color=colour, markersize=size, markeredgecolor="white", label=label, zorder=5
        )
    axes.set(xlabel="sliding speed [m/s]", ylabel="upward speed [m/s]", title="lines of equal cost l(v)")
    axes.set_xticks([-0.05, 0.0, 0.05, 0.1, 0.15])
    axes.legend(framealpha=1.0, edgecolor="none", fontsize=8, loc="upper right")


def _cut(axes, problem: ConvexProblem, best: np.ndarray) -> None:
    up = np.linspace(-0.40, 0.12, 400)
    points = [np.array([best[0], 0.0, z]) for z in up]
    total = np.array([problem.cost(p) for p in points])
    inertia = np.array([0.5 * (p - problem.v_star) @ problem.A @ (p - problem.v_star) for p in points])
    shift = 1.0e3  # J to mJ
    contact = total - inertia
    axes.plot(up, shift * inertia, color=YELLOW, label="inertia: 1/2 (v - v*)' A (v - v*)")
    axes.plot(up, shift * (contact - contact.min()), color=GREEN, label="contact: l_c(v), up to a constant")
    axes.plot(up, shift * (total - contact.min()), color=RED, linewidth=2.0, label="sum")
    axes.plot(best[2], shift * (problem.cost(best) - contact.min()), "*", color=RED, markersize=13, zorder=5)
    axes.set(xlabel="upward speed [m/s]", ylabel="cost [mJ]", title="cut through the minimum", ylim=(0.0, 220.0))
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def residuals(scene: scenes.Scene, frames: int) -> np.ndarray:
    """Return residual over scale after 0, 1, 2... Newton iterations of the step that follows ``frames`` frames."""
    pipeline = newton.CollisionPipeline(scene.model)
    contacts, control = pipeline.contacts(), scene.model.control()
    state, after = scene.state(), scene.model.state()
    solver = SolverSAP(scene.model)
    for i in range(frames * scene.substeps):
        if scene.actuate is not None:
            scene.actuate(control, i * scene.dt)
        pipeline.collide(state, contacts)
        solver.step(state, state, control, contacts, scene.dt)
    pipeline.collide(state, contacts)
    found = []
    for iterations in range(12):
        probe = SolverSAP(scene.model, max_iterations=iterations, max_contacts=contacts.rigid_contact_max)
        probe.step(state, after, control, contacts, scene.dt)
        report = probe.report()
        found.append(float(report.residual.max() / report.scale.max()))
        if report.healthy:
            break
    return np.array(found)


def draw_convergence() -> None:
    """Residual against iterations, in steps that are not easy."""
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    rows = []
    cases = (
        ("quadruped lands from 0.3 m", scenes.quadruped(drop=0.3), 15, BLUE),
        ("gripper closes on a cube", scenes.gripper_cube(), 22, RED),
        ("tower of ten cubes settles", scenes.box_stack(), 1, GREEN),
    )
    for label, scene, frames, colour in cases:
        values = residuals(scene, frames)
        rows.append([label, ", ".join(short(value) for value in values)])
        axes.semilogy(range(len(values)), np.maximum(values, 1.0e-17), "o-", color=colour, label=label, markersize=4)
    axes.axhline(SAPOptions().optimality_rel, color=GREY, linestyle="--", linewidth=1.0)
    note = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right", "color": GREY, "fontsize": 8}
    axes.annotate("optimality_rel", (1.0, SAPOptions().optimality_rel), xycoords=("axes fraction", "data"), **note)
    axes.set(xlabel="Newton iteration", ylabel="residual / scale")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "how_sap_converges.png", dpi=110)
    fill(PAGE, "convergence", table(["step", "residual over scale after 0, 1, 2... iterations"], rows))


def short(value: float) -> str:
    """Return two digits above a hundredth, else one, as 6e-9 rather than 6e-09."""
    if value >= 0.01:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def main() -> None:
    """Draw both pictures and write the tables beside them."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    wp.config.log_level = wp.LOG_WARNING
    draw_one_step()
    draw_convergence()


if __name__ == "__main__":
    main()
