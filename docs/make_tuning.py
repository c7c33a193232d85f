"""Measures the tables of ``guides/tuning.md`` and writes them into the page, between its markers.

    python docs/make_tuning.py                  # all tables, about a minute
    python docs/make_tuning.py depth drives     # some of them

Every number comes from the public interface. Times depend on the machine, everything else does not.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from pathlib import Path

import newton
import numpy as np
import warp as wp

from newton_sap import SolverSAP, scenes

PAGE = Path(__file__).parent / "guides" / "tuning.md"
G = 9.81
DT = 1.0 / 240.0
Config = newton.ModelBuilder.ShapeConfig


class Run:
    """A model with its solver, stepped at one rate."""

    def __init__(self, model: newton.Model, dt: float = DT, **options):
        self.model, self.dt = model, dt
        self.solver, self.pipeline = SolverSAP(model, **options), newton.CollisionPipeline(model)
        self.state, self.control, self.contacts = model.state(), model.control(), self.pipeline.contacts()
        newton.eval_fk(model, model.joint_q, model.joint_qd, self.state)

    def step(self, seconds: float):
        """Step for a while, yielding the time after each step."""
        for i in range(round(seconds / self.dt)):
            self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.state, self.control, self.contacts, self.dt)
            yield (i + 1) * self.dt

    def go(self, seconds: float) -> Run:
        """Step for a while."""
        for _ in self.step(seconds):
            pass
        return self

    def pose(self, body: int = 0) -> np.ndarray:
        """Return a body's position and quaternion."""
        return self.state.body_q.numpy()[body].astype(float)

    def velocity(self, body: int = 0) -> np.ndarray:
        """Return a body's velocity, linear first."""
        return self.state.body_qd.numpy()[body].astype(float)


def ground_scene(tilt: float = 0.0) -> newton.ModelBuilder:
    """Return a builder whose gravity leans by ``tilt`` radians, so that the flat ground is a slope."""
    return newton.ModelBuilder(gravity=(G * math.sin(tilt), 0.0, -G * math.cos(tilt)))


def material(ke: float | None, mu: float = 0.5, tau: float = DT) -> Config:
    """Return a shape configuration; None leaves Newton's default material."""
    return Config(mu=mu, density=0.0) if ke is None else Config(ke=ke, kd=tau * ke, mu=mu, density=0.0)


def box_on_ground(ke: float | None, mass: float, *, tilt: float = 0.0, tau: float = DT) -> newton.Model:
    """Return a model of one cube of 0.2 m that just touches the ground."""
    builder = ground_scene(tilt)
    add_box(builder, mass, 0.1, material(ke, tau=tau))
    builder.add_ground_plane(cfg=material(ke, tau=tau))
    return builder.finalize()


def add_box(builder: newton.ModelBuilder, mass: float, height: float, config: Config, hz: float = 0.1) -> None:
    """Add a homogeneous box, 0.2 m wide, whose centre is at a height; a cube unless ``hz`` says otherwise."""
    across, upright = mass / 3.0 * (0.01 + hz * hz), mass / 3.0 * 0.02
    inertia = wp.diag(wp.vec3(across, across, upright))
    at = wp.transform((0.0, 0.0, height))
    body = builder.add_body(xform=at, mass=mass, inertia=inertia, lock_inertia=True)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=hz, cfg=config)


def table(head: list[str], rows: list[list]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def scientific(value: float) -> str:
    """Return 1e4 rather than 1e+04."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def depth() -> str:
    """How deep a box of 10 kg lies, predicted and measured."""
    rows = []
    for ke in (5.0e3, 1.0e4, 1.0e5, 1.0e6, None):
        found = []
        for law in ("lagged", "sap"):
            run = Run(box_on_ground(ke, 10.0), contact_model=law).go(4.0)
            found.append(f"{1e3 * (0.1 - run.pose()[2]):.3g}")
        predicted = "-" if ke is None else f"{1e3 * 10.0 * G / (4.0 * ke):.3g}"
        rows.append(["not set" if ke is None else scientific(ke), predicted, *found])
    return table(["`ke` [N/m]", "`m g / (4 ke)` [mm]", '`"lagged"` [mm]', '`"sap"` [mm]'], rows)


def settling() -> str:
    """How long a box of 10 kg takes to come within 5 % of its depth at rest."""
    rows = []
    for ke in (5.0e3, 1.0e4, 1.0e5):
        rest = 10.0 * G / (4.0 * ke)
        times = []
        for law, d, tau in (("lagged", 25.0, DT), ("lagged", 5.0, DT), ("sap", 25.0, 0.04), ("sap", 25.0, DT)):
            model = box_on_ground(ke, 10.0, tau=tau)
            run = Run(model, contact_model=law, hunt_crossley_dissipation=d)
            last = 0.0
            for now in run.step(5.0):
                if abs(0.1 - run.pose()[2] - rest) > 0.05 * rest:
                    last = now
            times.append(f"{last:.2f}")
        rows.append([scientific(ke), f"{1e3 * rest:.3g}", *times])
    head = ["`ke` [N/m]", "depth [mm]", "lagged, `d` = 25", "lagged, `d` = 5", "sap, `kd / ke` = 40 ms", "sap, `dt`"]
    return table(head, rows)


def creep() -> str:
    """How fast a box of 1 kg that sticks on a slope of 0.3 rad moves, over step and tolerance."""
    rows = []
    for law, tolerance in (("lagged", 1.0e-4), ("lagged", 1.0e-5), ("lagged", 1.0e-6), ("sap", 1.0e-5)):
        speeds = []
        for dt in (1.0 / 60.0, 1.0 / 240.0, 1.0 / 1000.0):
            model = box_on_ground(1.0e5, 1.0, tilt=0.3)
            run = Run(model, dt, contact_model=law, stiction_tolerance=tolerance).go(1.0)
            start = run.pose()[0]
            speeds.append(f"{1e6 * (run.go(1.0).pose()[0] - start):.3g}")
        rows.append([f'`"{law}"`', "-" if law == "sap" else scientific(tolerance), *speeds])
    return table(["law", "`stiction_tolerance` [m/s]", "dt = 1/60 s", "1/240 s", "1/1000 s"], rows)


def friction() -> str:
    """How exact friction is under a box of 1 kg that slides, over the stiffness: its mean, and its noise by step."""
    rows = []
    for ke in (1.0e4, 1.0e5, 1.0e6, 1.0e7, 1.0e8):
        run = Run(box_on_ground(ke, 1.0)).go(1.0)
        speed = run.state.joint_qd.numpy()
        speed[0] = 4.0
        run.state.joint_qd.assign(speed)
        seen = np.array([run.velocity()[0] for _ in run.step(0.5)])
        slowed = -np.diff(seen) / (0.5 * G * DT)
        deep = f"{1e6 * G / (4.0 * ke):.2g}"
        rows.append([scientific(ke), deep, f"{slowed.mean():.3f}", f"{100.0 * slowed.std():.1f} %"])
    return table(["`ke` [N/m]", "depth [um]", "friction over `mu m g`, mean", "spread from step to step"], rows)


def explicit() -> str:
    """What becomes of an arm whose drive damps harder than an explicit step allows."""
    rows = []
    for ratio in (0.5, 0.95, 1.05, 2.0):
        cells = [f"{ratio:g}"]
        for kind in ("implicit", "explicit"):
            builder = ground_scene()
            builder.gravity = (0.0, 0.0, 0.0)
            link = builder.add_link(mass=1.0, inertia=wp.mat33(0.01 * np.eye(3)), lock_inertia=True)
            joint = builder.add_joint_revolute(-1, link, axis=newton.Axis.Y, target_kd=ratio * 2.0 * 0.01 / DT)
            builder.add_articulation([joint])
            builder.joint_qd[0] = 1.0
            run = Run(builder.finalize(), drive_integration=kind).go(0.25)
            cells.append(f"{abs(float(run.state.joint_qd.numpy()[0])):.2g}")
        rows.append(cells)
    return table(["`dt kd / (2 I)`", "implicit: speed left [rad/s]", "explicit"], rows)


def rolling() -> str:
    """How far a ball of 0.1 m rolls from 1 m/s, with and without rolling friction."""
    rows = []
    for mu_rolling in (0.0, 1.0e-4, 1.0e-3, 5.0e-3):
        builder = ground_scene()
        inertia = wp.mat33(0.4 * 0.01 * np.eye(3))
        body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.1)), mass=1.0, inertia=inertia, lock_inertia=True)
        config = Config(density=0.0, mu=0.5, mu_rolling=mu_rolling)
        builder.add_shape_sphere(body, radius=0.1, cfg=config)
        builder.add_ground_plane(cfg=config)
        builder.joint_qd[:6] = [1.0, 0.0, 0.0, 0.0, 10.0, 0.0]
        run = Run(builder.finalize(), spin_friction=mu_rolling > 0.0).go(5.0)
        slow = mu_rolling / 0.1 * G / 1.4
        predicted = max(1.0 - 5.0 * slow, 0.0)
        rows.append([f"{mu_rolling:g}", f"{predicted:.3g}", f"{abs(run.velocity()[0]):.3g}"])
    return table(["`mu_rolling` [m]", "speed after 5 s, predicted [m/s]", "measured [m/s]"], rows)


def drives() -> str:
    """Where an arm of 1 kg at 0.5 m stands that is to be held level: a drive is a spring."""
    rows = []
    for ke in (20.0, 100.0, 1000.0, 1.0e6):
        builder = ground_scene()
        inertia = wp.mat33(0.01 * np.eye(3))
        link = builder.add_link(mass=1.0, inertia=inertia, com=wp.vec3(0.5, 0.0, 0.0))
        joint = builder.add_joint_revolute(-1, link, axis=newton.Axis.Y, target_ke=ke, target_kd=0.1 * ke)
        builder.add_articulation([joint])
        run = Run(builder.finalize()).go(4.0)
        angle = float(run.state.joint_q.numpy()[0])
        predicted = 0.0
        for _ in range(100):
            predicted = G * 0.5 * math.cos(predicted) / ke
        rows.append([f"{ke:g}", f"{math.degrees(predicted):.3g}", f"{math.degrees(angle):.3g}"])
    return table(["`target_ke` [N m/rad]", "sag, `m g l cos / ke` [deg]", "measured [deg]"], rows)


def mass_ratio() -> str:
    """A heavy cube on one of 1 kg: iterations, failures and depth after two seconds."""
    rows = []
    for ratio in (1.0, 1.0e2, 1.0e4, 1.0e6):
        cells = [scientific(ratio)]
        for ke, law in ((None, "lagged"), (None, "sap"), (1.0e8, "lagged")):
            builder = ground_scene()
            for i, mass in enumerate((1.0, ratio)):
                add_box(builder, mass, 0.1 + 0.2 * i, material(ke))
            builder.add_ground_plane(cfg=material(ke))
            run = Run(builder.finalize(), contact_model=law).go(2.0)
            report, sunk = run.solver.report(), 1e3 * (0.3 - run.pose(1)[2])
            cells += [f"{report.iterations_max.max()} / {report.unconverged_steps.sum()}", f"{sunk:.2g}"]
        rows.append(cells)
    head = ["mass on top [kg]", "lagged, not set: iterations / failed", "sunk [mm]"]
    head += ["sap, not set", "sunk [mm]", "lagged, `ke` = 1e8", "sunk [mm]"]
    return table(head, rows)


def tunnelling() -> str:
    """How often a ball of 2 cm stops at a wall of 1 cm, over its speed and the shapes' gap; eight phases of the step."""
    rows = []
    for gap in (0.1, 0.01, 0.0):
        cells = [f"{gap:g}"]
        for speed in (2.0, 5.0, 20.0, 40.0, 100.0):
            builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
            config = Config(density=0.0, gap=gap)
            for i in range(8):
                builder.begin_world(gravity=(0.0, 0.0, 0.0))
                at = wp.transform((-0.5 - i / 8.0 * speed * DT, 0.0, 0.0))
                body = builder.add_body(xform=at, mass=0.1, inertia=wp.mat33(1.6e-5 * np.eye(3)), lock_inertia=True)
                builder.add_shape_sphere(body, radius=0.02, cfg=config)
                builder.add_shape_box(-1, hx=0.005, hy=1.0, hz=1.0, cfg=config)
                builder.joint_qd[6 * i] = speed
                builder.end_world()
            run = Run(builder.finalize()).go(2.0 / speed + 0.1)
            stopped = int((run.state.body_q.numpy()[:, 0] < 0.0).sum())
            cells.append(f"{stopped} of 8")
        rows.append(cells)
    return table(["`gap` of each shape [m]", "2 m/s", "5 m/s", "20 m/s", "40 m/s", "100 m/s"], rows)


COST_CASES = {
    "defaults, captured": {},
    "defaults, eager": {},
    "of it Newton's collision detection": {},
    "`optimality_rel=1e-3`": {"optimality_rel": 1.0e-3},
    "`optimality_rel=1e-2`": {"optimality_rel": 1.0e-2},
    '`precision="mixed"`': {"precision": "mixed"},
    "`max_iterations=4`": {"max_iterations": 4},
    '`contact_model="sap"`': {"contact_model": "sap"},
}
LANDING = 240
"""Steps that are timed."""


def cost() -> str:
    """What a step of 64 quadrupeds costs that drop from 0.3 m, and what the options do to it; fastest of five rounds."""
    runs = {}
    for label, options in COST_CASES.items():
        scene = scenes.quadruped(drop=0.3, world_count=64)
        runs[label] = Run(scene.model, scene.dt, **options)
    replays = {label: recorded(label, run) for label, run in runs.items()}
    for run in runs.values():
        run.start = run.model.state()
        newton.eval_fk(run.model, run.model.joint_q, run.model.joint_qd, run.start)
    iterations = {label: np.mean(watch(run, replays[label])) for label, run in runs.items()}
    standing = runs["defaults, captured"].state  # detection alone moves nothing: time it where all feet touch
    runs["of it Newton's collision detection"].start.assign(standing)
    spent = {label: [] for label in runs}
    for _ in range(5):
        for label, run in runs.items():
            spent[label].append(timed(run, replays[label]))
    rows = []
    for label, run in runs.items():
        cells = [label, f"{1e6 * min(spent[label]) / (64 * LANDING):.3g}"]
        if "detection" in label:
            rows.append([*cells, "-", "-", "-"])
            continue
        report, at = run.solver.report(), run.state.body_q.numpy()[:, :3]
        moved = 1e3 * np.abs(at - runs["defaults, captured"].state.body_q.numpy()[:, :3]).max()
        cells += [f"{iterations[label]:.2g} / {report.iterations_max.max()}", int(report.unconverged_steps.sum())]
        rows.append([*cells, f"{moved:.2g}"])
    head = ["options", "us per world and step", "iterations, mean / most", "unconverged", "moved by [mm]"]
    return table(head, rows)


def recorded(label: str, run: Run):
    """Return a function that advances the run by a step, from a graph unless the label says otherwise."""

    def advance():
        run.pipeline.collide(run.state, run.contacts)
        if "detection" not in label:
            run.solver.step(run.state, run.state, run.control, run.contacts, run.dt)

    if "eager" in label:
        return advance
    with wp.ScopedCapture(device=run.model.device) as capture:
        advance()
    return lambda: wp.capture_launch(capture.graph)


def rewind(run: Run) -> None:
    """Go back to the beginning."""
    run.state.assign(run.start)
    run.solver.reset(run.state)


def watch(run: Run, replay) -> list[float]:
    """Return the mean iterations of each step; also warms up."""
    rewind(run)
    found = []
    for _ in range(LANDING):
        replay()
        found.append(run.solver.report().iterations.mean())
    return found


def timed(run: Run, replay) -> float:
    """Return the seconds that the landing takes."""
    rewind(run)
    wp.synchronize_device(run.model.device)
    began = time.perf_counter()
    for _ in range(LANDING):
        replay()
    wp.synchronize_device(run.model.device)
    return time.perf_counter() - began


PARTS = (depth, settling, creep, friction, rolling, drives, explicit, mass_ratio, tunnelling, cost)
TABLES = {part.__name__: part for part in PARTS}


def write_tables(page: Path, tables: dict) -> None:
    """Measure the tables named on the command line, or all, and write them into a page, between its markers."""
    parser = argparse.ArgumentParser(description=f"Measures the tables of {page.name} and writes them into the page.")
    parser.add_argument("tables", nargs="*", help=f"some of: {', '.join(tables)}; all if none is named")
    names = parser.parse_args().tables or list(tables)
    if unknown := [name for name in names if name not in tables]:
        parser.error(f"no table {', '.join(unknown)}")
    wp.config.log_level = wp.LOG_WARNING
    for name in names:
        fill(page, name, tables[name]())


def fill(page: Path, name: str, found: str) -> None:
    """Print a text and write it into a page, between the markers of that name."""
    print(f"{name}\n{found}\n", flush=True)
    pattern = rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)"
    text = page.read_text(encoding="utf-8")
    text, count = re.subn(pattern, lambda m: f"{m[1]}\n{found}\n\n{m[2]}", text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{page.name} has {count} places for {name!r}")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_tables(PAGE, TABLES)
