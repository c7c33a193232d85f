"""Measures the contact laws side by side and makes the tables and the pictures of ``contact_laws.md``.

    python docs/make_contact_laws.py            # prints the tables by time step, of which the page shows the main rows,
                                                # writes its smaller tables and docs/img/contact_laws_*.png
    python docs/make_contact_laws.py --quick    # one time step only, no pictures
    python docs/make_contact_laws.py --pictures # no tables

Every number comes from the public interface: a model with one world per variant, Newton's collision pipeline and
``SolverSAP``.  The worlds of a model differ in their materials, so one run compares all variants of a law.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import newton
import numpy as np
import warp as wp
from make_tuning import fill, table

from newton_sap import SolverSAP

G = 9.81
MU = 0.5
STEPS = (1.0 / 1000.0, 1.0 / 240.0, 1.0 / 60.0)
"""Time steps [s]."""
MAIN_STEP = 1.0 / 240.0
STIFFNESSES = (1.0e4, 1.0e6, None)
"""Stiffness of both shapes [N/m]; None leaves Newton's default material in place."""
DISSIPATIONS = (0.0, 5.0, 25.0, 50.0)
"""Of the Hunt & Crossley laws [s/m]."""
TOLERANCES = (1.0e-3, 1.0e-4, 1.0e-5, 1.0e-6)
"""Stiction tolerances [m/s]."""
SHAPE_MU = {
    "slide": MU,
    "creep": MU,
    "roll": 0.6,
    "normal": 0.2,
    "oblique": 0.2,
    "hold": MU,
    "drop": MU,
    "stack": MU,
    "tip": 0.7,
}
TILT = {"creep": 0.3, "roll": 0.25}
"""Slope of the ground [rad]."""
PHASES = tuple(i / 8.0 for i in range(8))
"""Where in a step an impact happens, as a fraction of the step."""
IMAGES = Path(__file__).parent / "img"
PAGE = Path(__file__).parent / "contact_laws.md"


@dataclass(frozen=True)
class Material:
    """What sets one variant of a law apart; ``tau`` [s] is read by sap, ``d`` [s/m] by the other two."""

    stiffness: float | None
    tau: float = 0.04
    d: float = 25.0
    label: str = ""

    def config(self, mu: float) -> newton.ModelBuilder.ShapeConfig:
        """Newton's shape configuration."""
        if self.stiffness is None:
            return newton.ModelBuilder.ShapeConfig(mu=mu, density=0.0)
        return newton.ModelBuilder.ShapeConfig(ke=self.stiffness, kd=self.tau * self.stiffness, mu=mu, density=0.0)

    def custom(self) -> dict:
        """Newton's custom attributes of the shape."""
        return {"sap:hunt_crossley_dissipation": self.d}


@dataclass
class Rig:
    """A model with one world per variant, its solver and its state."""

    model: newton.Model
    dt: float
    options: dict
    iterations: list = field(default_factory=list)

    def __post_init__(self):
        self.solver = SolverSAP(self.model, **self.options)
        self.state, self.spare, self.control = self.model.state(), self.model.state(), self.model.control()
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()

    @property
    def worlds(self) -> int:
        """Number of variants."""
        return self.model.world_count

    def poses(self) -> np.ndarray:
        """Return body poses, (worlds, bodies, 7)."""
        return self.state.body_q.numpy().reshape(self.worlds, -1, 7).astype(float)

    def velocities(self) -> np.ndarray:
        """Return body velocities, linear first, (worlds, bodies, 6)."""
        return self.state.body_qd.numpy().reshape(self.worlds, -1, 6).astype(float)

    def set_velocity(self, velocity) -> None:
        """Give the first body of every world this velocity (6 numbers)."""
        qd = self.state.joint_qd.numpy().reshape(self.worlds, -1)
        qd[:, :6] = velocity
        self.state.joint_qd.assign(qd.ravel())
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def run(self, seconds: float, watch: Callable[[], None] | None = None) -> Rig:
        """Step for a while; ``watch`` is called after every step."""
        for _ in range(max(1, round(seconds / self.dt))):
            self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.spare, self.control, self.contacts, self.dt)
            self.state, self.spare = self.spare, self.state
            self.iterations.append(self.solver.report().iterations)
            if watch:
                watch()
        return self


def build(scene: str, materials: list[Material], dt: float, variants=(None,), **options) -> Rig:
    """Return a rig of the named scene with one world per material and variant, variants running fastest."""
    tilt = TILT.get(scene, 0.0)
    gravity = (G * math.sin(tilt), 0.0, -G * math.cos(tilt))
    if scene in ("normal", "oblique"):
        gravity = (0.0, 0.0, 0.0)
    builder = newton.ModelBuilder(gravity=gravity)
    SolverSAP.register_custom_attributes(builder)
    ordered = [(material, variant) for material in materials for variant in variants]
    for material, variant in ordered:
        builder.begin_world(gravity=gravity)
        SCENES[scene](builder, material, material.config(SHAPE_MU[scene]), dt, variant)
        builder.end_world()
    return Rig(builder.finalize(), dt, options)


def add_box(builder, material, config, half, mass, at, body=None) -> int:
    """Add a homogeneous box, as a free body unless ``body`` is given."""
    hx, hy, hz = half
    inertia = mass / 3.0 * np.array([hy * hy + hz * hz, hx * hx + hz * hz, hx * hx + hy * hy])
    if body is None:
        diagonal = wp.diag(wp.vec3(*inertia))
        body = builder.add_body(xform=wp.transform(wp.vec3(*at), wp.quat_identity()), mass=mass, inertia=diagonal, lock_inertia=True)  # fmt: skip
    builder.add_shape_box(body, hx=hx, hy=hy, hz=hz, cfg=config, custom_attributes=material.custom())
    return body


def add_ball(builder, material, config, height, radius=0.1, mass=1.0) -> int:
    """Add a homogeneous ball whose surface is ``height`` above the ground."""
    inertia = wp.diag(wp.vec3(0.4 * mass * radius**2))
    at = wp.transform(wp.vec3(0.0, 0.0, radius + height), wp.quat_identity())
    body = builder.add_body(xform=at, mass=mass, inertia=inertia, lock_inertia=True)
    builder.add_shape_sphere(body, radius=radius, cfg=config, custom_attributes=material.custom())
    return body


def add_ground(builder, material, config) -> None:
    """Add the ground of one world; it gets the same dissipation as the body on it."""
    half = wp.transform(wp.vec3(0.0, 0.0, -0.5), wp.quat_identity())
    builder.add_shape_box(-1, xform=half, hx=5.0, hy=5.0, hz=0.5, cfg=config, custom_attributes=material.custom())


def sag(material: Material, load: float, contacts: int) -> float:
    """Return m g / (n k), or nothing where the contact is nearly rigid."""
    return 0.0 if material.stiffness is None else load / (contacts * material.stiffness)


def box_scene(builder, material, config, dt, variant) -> None:
    """One flat box of 1 kg at rest on the ground."""
    add_box(builder, material, config, (0.1, 0.1, 0.03), 1.0, (0.0, 0.0, 0.03 - sag(material, G, 4)))
    add_ground(builder, material, config)


def cube_scene(builder, material, config, dt, variant) -> None:
    """One cube of 1 kg and 0.2 m at rest on the ground."""
    add_box(builder, material, config, (0.1, 0.1, 0.1), 1.0, (0.0, 0.0, 0.1 - sag(material, G, 4)))
    add_ground(builder, material, config)


def roll_scene(builder, material, config, dt, variant) -> None:
    """One ball of 1 kg at rest on the ground."""
    add_ball(builder, material, config, -sag(material, G, 1))
    add_ground(builder, material, config)


def impact_scene(builder, material, config, dt, phase) -> None:
    """One ball that will meet the ground after two steps and a fraction at 1 m/s."""
    add_ball(builder, material, config, (2.0 + phase) * dt)
    add_ground(builder, material, config)


def stack_scene(builder, material, config, dt, variant) -> None:
    """Ten cubes of 1 kg, each at the depth at which it carries those above it."""
    z = 0.0
    for i in range(10):
        z -= sag(material, (10 - i) * G, 4)
        add_box(builder, material, config, (0.05, 0.05, 0.05), 1.0, (0.0, 0.0, z + 0.05))
        z += 0.1
    add_ground(builder, material, config)


def grasp_scene(builder, material, config, dt, variant) -> None:
    """A cube of 0.5 kg between two fingers that press with a given force along x."""
    add_box(builder, material, config, (0.05, 0.05, 0.05), 0.5, (0.0, 0.0, 1.0))
    for side in (-1.0, 1.0):
        at = wp.transform(wp.vec3(side * 0.07, 0.0, 1.0), wp.quat_identity())
        finger = builder.add_link(mass=0.2, inertia=wp.diag(wp.vec3(2.0e-4)), lock_inertia=True)
        add_box(builder, material, config, (0.02, 0.03, 0.03), 0.2, None, finger)
        builder.add_articulation([builder.add_joint_prismatic(-1, finger, axis=newton.Axis.X, parent_xform=at)])


SCENES = {
    "creep": box_scene, "slide": box_scene, "roll": roll_scene, "normal": impact_scene, "oblique": impact_scene,
    "hold": grasp_scene, "drop": grasp_scene, "stack": stack_scene, "tip": cube_scene,
}  # fmt: skip


# What is measured: each function returns columns, one entry per material --------------------------------------------


def measure_creep(materials, dt, rigs, **options) -> dict[str, np.ndarray]:
    """Creep [um/s] on a slope of 0.3 rad and depth over m g cos / (4 k)."""
    rig = build("creep", materials, dt, **options).run(0.6)
    rigs.append(rig)
    before = rig.poses()
    rig.run(0.6)
    after = rig.poses()
    loads = [sag(m, G * math.cos(TILT["creep"]), 4) or math.nan for m in materials]
    moved = np.linalg.norm(after[:, 0, :2] - before[:, 0, :2], axis=1)
    return {"creep": moved / 0.6 * 1e6, "sink": (0.03 - after[:, 0, 2]) / np.array(loads)}


def slide_history(materials, dt, rigs, v0=2.0, **options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return heights [m] and speeds [m/s], step by step, of a box that is given a speed at rest, and its path [m]."""
    rig = build("slide", materials, dt, **options).run(0.2)
    rigs.append(rig)
    start = rig.poses()[:, 0]
    rig.set_velocity([v0, 0.0, 0.0, 0.0, 0.0, 0.0])
    heights, speeds = [start[:, 2] * 0.0], [np.full(rig.worlds, v0)]

    def watch():
        heights.append(rig.poses()[:, 0, 2] - start[:, 2])
        speeds.append(rig.velocities()[:, 0, 0])

    rig.run(1.0, watch)
    return np.array(heights), np.array(speeds), np.linalg.norm(rig.poses()[:, 0, :2] - start[:, :2], axis=1)


def measure_slide(materials, dt, rigs, **options) -> dict[str, np.ndarray]:
    """Stopping distance over v0^2 / (2 mu g), lift [mm], and the speed lost in the first step over mu g dt."""
    v0 = 2.0
    heights, speeds, path = slide_history(materials, dt, rigs, v0, **options)
    return {
        "stop": path / (v0 * v0 / (2.0 * MU * G)),
        "lift": heights.max(axis=0) * 1e3,
        "kick": (v0 - speeds[1]) / (MU * G * dt),
    }


def measure_impact(materials, dt, rigs, **options) -> dict[str, np.ndarray]:
    """Rebound of a ball at 1 m/s (least, most over phases) and its tangential impulse over mu times the normal one."""
    out = {}
    for scene, slip in (("normal", 0.0), ("oblique", 2.0)):
        rig = build(scene, materials, dt, PHASES, **options)
        rigs.append(rig)
        rig.set_velocity([slip, 0.0, -1.0, 0.0, 0.0, 0.0])
        rig.run(0.25)
        v = rig.velocities()[:, 0]
        shape = (len(materials), len(PHASES))
        if scene == "normal":
            e = v[:, 2].reshape(shape)
            out["e_low"], out["e_high"] = e.min(axis=1), e.max(axis=1)
        else:
            energy = 0.5 * (v[:, :3] ** 2).sum(axis=1) + 0.5 * 0.4 * 0.01 * (v[:, 3:] ** 2).sum(axis=1)
            out["gain"] = (energy / (0.5 * (slip**2 + 1.0))).reshape(shape).max(axis=1)
            ratio = (slip - v[:, 0]) / (SHAPE_MU[scene] * (1.0 + v[:, 2]))
            out["rub"] = ratio.reshape(shape).mean(axis=1)
    return out


def measure_grasp(materials, dt, rigs, **options) -> dict[str, np.ndarray]:
    """Sinking speed [um/s] at 1.1 times the least force, and acceleration over (1 - 0.9) g at 0.9 times."""
    out = {}
    for scene, factor in (("hold", 1.1), ("drop", 0.9)):
        rig = build(scene, materials, dt, **options)
        rigs.append(rig)
        force = factor * 0.5 * G / (2.0 * MU)
        push = np.zeros((rig.worlds, 8), np.float32)
        push[:, 6], push[:, 7] = force, -force
        rig.control.joint_f.assign(push.ravel())
        rig.model.set_gravity((0.0, 0.0, 0.0))
        rig.run(0.3)
        rig.model.set_gravity((0.0, 0.0, -G))
        rig.run(0.1)
        z, v = rig.poses()[:, 0, 2], rig.velocities()[:, 0, 2]
        if scene == "hold":
            rig.run(0.5)
            out["hold"] = (z - rig.poses()[:, 0, 2]) / 0.5 * 1e6
        else:
            rig.run(0.1)
            steps = round(0.1 / dt)
            out["drop"] = (v - rig.velocities()[:, 0, 2]) / (steps * dt) / (0.1 * G)
    return out


def measure_stack(materials, dt, rigs, **options) -> dict[str, np.ndarray]:
    """Sideways drift [mm] and residual speed [mm/s] of a tower of ten after 2 s; 1 where it still stands."""
    rig = build("stack", materials, dt, **options).run(2.0)
    rigs.append(rig)
    q, v = rig.poses(), rig.velocities()
    drift = np.linalg.norm(q[:, :, :2], axis=2).max(axis=1) * 1e3
    return {
        "drift": drift,
        "rest": np.abs(v[:, :, :3]).max(axis=(1, 2)) * 1e3,
        "stands": (np.abs(q[:, -1, 2] - 0.95) < 0.05) * 1.0,
    }


def measure_roll(materials, dt, rigs, **options) -> dict[str, np.ndarray]:
    """Acceleration of a ball rolling down over 5/7 g sin."""
    rig = build("roll", materials, dt, **options)
    rigs.append(rig)
    rig.run(0.1)
    v = rig.velocities()[:, 0, 0]
    rig.run(0.4)
    steps = round(0.4 / dt)
    return {"roll": (rig.velocities()[:, 0, 0] - v) / (steps * dt) / (5.0 / 7.0 * G * math.sin(TILT["roll"]))}


MEASURES = (measure_creep, measure_slide, measure_impact, measure_grasp, measure_stack, measure_roll)


def measure(materials, dt, **options) -> list[dict[str, float]]:
    """Return one row per material with every measured column."""
    columns = {}
    rigs = []
    for function in MEASURES:
        columns.update(function(materials, dt, rigs, **options))
    count = len(materials)
    iterations = [np.array(r.iterations).reshape(len(r.iterations), count, -1) for r in rigs]
    unconverged = [r.solver.report().unconverged_steps.reshape(count, -1).sum(axis=1) for r in rigs]
    columns["it_mean"] = np.mean([i.mean(axis=(0, 2)) for i in iterations], axis=0)
    columns["it_max"] = np.max([i.max(axis=(0, 2)) for i in iterations], axis=0)
    columns["failed"] = np.sum(unconverged, axis=0)
    return [{key: float(values[i]) for key, values in columns.items()} for i in range(count)]


def variants_of(law: str, dt: float) -> list[Material]:
    """Return the materials to compare under a law."""
    out = []
    for k in STIFFNESSES:
        if k is None:
            out.append(Material(None, label="unset"))
        elif law == "sap":
            out += [Material(k, tau=tau, label=name) for tau, name in ((0.0, "tau 0"), (dt, "tau dt"), (0.04, "tau 0.04"), (0.1, "tau 0.1"))]  # fmt: skip
        else:
            out += [Material(k, d=d, label=f"d {d:g}") for d in DISSIPATIONS]
    return out


# Presentation -----------------------------------------------------------------------------------------------------

COLUMNS = {
    "creep [um/s]": lambda r: f"{r['creep']:.3g}",
    "depth k/mg": lambda r: "-" if math.isnan(r["sink"]) else f"{r['sink']:.3f}",
    "stop": lambda r: f"{r['stop']:.3f}",
    "kick": lambda r: f"{r['kick']:.2f}",
    "lift [mm]": lambda r: f"{r['lift']:.2f}",
    "rebound": lambda r: f"{r['e_low']:.2f}..{r['e_high']:.2f}",
    "rub": lambda r: f"{r['rub']:.2f}",
    "energy": lambda r: f"{r['gain']:.2f}",
    "hold [um/s]": lambda r: f"{r['hold']:.3g}",
    "drop": lambda r: f"{r['drop']:.2f}",
    "tower [mm], [mm/s]": lambda r: f"{r['drift']:.2g}, {r['rest']:.2g}" if r["stands"] else "falls",
    "roll": lambda r: f"{r['roll']:.3f}",
    "iterations": lambda r: f"{r['it_mean']:.1f} / {r['it_max']:.0f}",
    "failed": lambda r: f"{r['failed']:.0f}",
}


def print_table(rows: list[tuple[str, str, dict]]) -> None:
    """Print Markdown: stiffness, law and the measured columns."""
    print("| k [N/m] | law | " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * (len(COLUMNS) + 2))
    for stiffness, law, row in rows:
        print(f"| {stiffness} | {law} | " + " | ".join(form(row) for form in COLUMNS.values()) + " |", flush=True)


def print_step(dt: float) -> None:
    """Measure all laws at one time step and print their table."""
    rows = []
    for law in ("sap", "lagged", "similar"):
        materials = variants_of(law, dt)
        for material, row in zip(materials, measure(materials, dt, contact_model=law), strict=True):
            stiffness = "unset" if material.stiffness is None else f"{material.stiffness:.0e}".replace("e+0", "e")
            rows.append((stiffness, law if material.stiffness is None else f"{law}, {material.label}", row))
    order = {"1e4": 0, "1e6": 1, "unset": 2}
    rows.sort(key=lambda r: order[r[0]])
    print(f"\n### dt = 1/{1.0 / dt:.0f} s\n")
    print_table(rows)


def tolerance_rows() -> dict[str, list[dict]]:
    """Return, per law, creep, grasp and iterations for each stiction tolerance."""
    material = [Material(1.0e6)]
    return {
        law: [measure(material, MAIN_STEP, contact_model=law, stiction_tolerance=vs)[0] for vs in TOLERANCES]
        for law in ("lagged", "similar")
    }


def write_tolerances(found: dict[str, list[dict]]) -> None:
    """Write the sweep of stiction tolerances."""
    rows = []
    for law, measured in found.items():
        for vs, r in zip(TOLERANCES, measured, strict=True):
            speeds = [f"{r['creep']:.3g}", f"{r['hold']:.3g}", f"{r['stop']:.3f}", f"{r['roll']:.3f}"]
            rows.append([law, f"{vs:.0e}", *speeds, f"{r['it_mean']:.1f} / {r['it_max']:.0f}", f"{r['failed']:.0f}"])
    head = ["law", "tolerance [m/s]", "creep [um/s]", "hold [um/s]", "stop", "roll", "iterations", "failed"]
    fill(PAGE, "stiction", table(head, rows))


def write_tipping() -> None:
    """Write how far a cube tilts that is thrown at 2 m/s on a floor with mu = 0.7, on which it ought to stay flat."""
    rows = []
    for dt in STEPS:
        for law in ("sap", "lagged", "similar"):
            rig = build("tip", [Material(1.0e5, tau=1.0e-3)], dt, contact_model=law).run(0.2)
            start, tilts = rig.poses()[0, 0], []
            rig.set_velocity([2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
            rig.run(1.2, lambda rig=rig, tilts=tilts: tilts.append(math.hypot(*rig.poses()[0, 0, 3:5])))
            path = (rig.poses()[0, 0, 0] - start[0]) / (2.0 / (SHAPE_MU["tip"] * G))
            tilt = math.degrees(2.0 * math.asin(min(1.0, max(tilts))))
            rows.append([f"1/{1.0 / dt:.0f}", law, f"{path:.3f}", f"{tilt:.1f}"])
    fill(PAGE, "tipping", table(["dt [s]", "law", "path over `v^2 / (2 mu g)`", "largest tilt [deg]"], rows))


def plot_slide(plt) -> None:
    """Lift and speed of a sliding box under each law, k = 1e4."""
    dt = MAIN_STEP
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    chosen = {"sap": [Material(1e4, tau=t, label=f"tau = {n}") for t, n in ((0.0, "0"), (dt, "dt"), (0.04, "0.04 s"))],
              "lagged": [Material(1e4, label="d = 25 s/m")], "similar": [Material(1e4, label="d = 25 s/m")]}  # fmt: skip
    for law, materials in chosen.items():
        heights, speeds, _ = slide_history(materials, dt, [], contact_model=law)
        times = dt * np.arange(len(heights))
        style = {"sap": "-", "lagged": "--", "similar": ":"}[law]
        for i, material in enumerate(materials):
            axes[0].plot(times, heights[:, i] * 1e3, style, label=f"{law}, {material.label}")
            axes[1].plot(times, speeds[:, i], style, label=f"{law}, {material.label}")
    axes[1].plot(times, np.maximum(2.0 - MU * G * times, 0.0), "k", lw=0.8, label="Coulomb")
    axes[0].set(xlabel="time [s]", ylabel="lift above rest [mm]", title="A box that starts to slide hops")
    axes[1].set(
        xlabel="time [s]",
        ylabel="speed [m/s]",
        xlim=(0.0, 0.5),
        title="and loses speed at once, then none until it lands",
    )
    axes[1].legend(fontsize=8)
    figure.savefig(IMAGES / "contact_laws_slide.png", dpi=110)


def plot_stiffness(plt) -> None:
    """Friction on a slipping object and rebound of a ball over the stiffness, per law."""
    stiffnesses = np.logspace(3, 7, 9)
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    kinds = {"sap": ({"tau": MAIN_STEP}, "tau = dt"), "lagged": ({"d": 5.0}, "d = 5 s/m"), "similar": ({"d": 5.0}, "d = 5 s/m")}  # fmt: skip
    for (law, (options, label)), style in zip(kinds.items(), ("o-", "s-", "^:"), strict=True):
        materials = [Material(k, **options) for k in stiffnesses]
        slip = measure_grasp(materials, MAIN_STEP, [], contact_model=law)
        impact = measure_impact(materials, MAIN_STEP, [], contact_model=law)
        # The friction of an object that slips at 0.9 times the least force, over what Coulomb's law gives.
        axes[0].semilogx(stiffnesses, (1.0 - 0.1 * slip["drop"]) / 0.9, style, label=f"{law}, {label}")
        axes[1].semilogx(stiffnesses, impact["e_high"], style, label=f"{law}, {label}")
    late = measure_grasp([Material(k, d=5.0) for k in stiffnesses], MAIN_STEP, [], friction_bound="start")
    axes[0].semilogx(stiffnesses, (1.0 - 0.1 * late["drop"]) / 0.9, "x--", label='lagged, "start", d = 5 s/m')
    axes[0].set(
        xlabel="stiffness [N/m]", ylabel="friction / Coulomb's", title="Slipping in a grasp (1.1 N per contact)"
    )
    axes[1].set(xlabel="stiffness [N/m]", ylabel="speed after / before", title="Rebound of 1 kg at 1 m/s, dt = 1/240 s")
    axes[0].legend(fontsize=8)
    figure.savefig(IMAGES / "contact_laws_stiffness.png", dpi=110)


def plot_tolerances(plt, found: dict[str, list[dict]]) -> None:
    """Creep and iterations over the stiction tolerance."""
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    colours, styles = {"lagged": "C1", "similar": "C2"}, {"lagged": "o-", "similar": "^:"}  # colours of plot_stiffness
    hollow = {"markerfacecolor": "none", "markersize": 11}
    for law, rows in found.items():
        colour, style = {"color": colours[law]}, styles[law]
        axes[0].loglog(TOLERANCES, [r["creep"] for r in rows], style, label=law, **colour)
        axes[1].semilogx(TOLERANCES, [r["it_mean"] for r in rows], style, label=f"{law}, mean", **colour)
        axes[1].semilogx(TOLERANCES, [r["it_max"] for r in rows], style, label=f"{law}, most", **colour, **hollow)
    axes[0].set(xlabel="stiction tolerance [m/s]", ylabel="creep on a slope [um/s]", title="Creep of a sticking box")
    axes[1].set(xlabel="stiction tolerance [m/s]", ylabel="iterations per step", title="and its price")
    axes[0].legend(fontsize=8)
    axes[1].legend(fontsize=8)
    figure.savefig(IMAGES / "contact_laws_stiction.png", dpi=110)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one time step, no pictures")
    parser.add_argument("--pictures", action="store_true", help="no tables")
    chosen = parser.parse_args()
    wp.config.quiet = True
    started = time.perf_counter()
    if not chosen.pictures:
        for dt in (MAIN_STEP,) if chosen.quick else STEPS:
            print_step(dt)
        if chosen.quick:
            return
    found = tolerance_rows()
    if not chosen.pictures:
        write_tolerances(found)
        write_tipping()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    IMAGES.mkdir(exist_ok=True)
    plot_slide(plt)
    plot_stiffness(plt)
    plot_tolerances(plt, found)
    print(f"\n({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
