"""Measures the tables of ``guides/from_mujoco.md`` and writes them into the page, between its markers.

    python docs/make_migration.py

Both solvers get the same model and the contacts of Newton's collision pipeline.
"""

from __future__ import annotations

import math
from pathlib import Path

import newton
from make_tuning import DT, Config, G, add_box, ground_scene, scientific, table, write_tables

from newton_sap import SolverSAP
from newton_sap.registry import get_solver

PAGE = Path(__file__).parent / "guides" / "from_mujoco.md"
SLIDES = 0.02
"""Speed after a second [m/s] beyond which a box has not stayed; on a slope steeper by 0.01 than its friction it has 0.08."""


def box(
    mass: float, ke: float | None, *, mu: tuple[float, float] = (0.5, 0.5), tilt: float = 0.0, half_height: float = 0.1
) -> newton.Model:
    """Return a model of one box, 0.2 m wide, that touches the ground; ``mu`` is of the box and of the ground."""
    builder = ground_scene(tilt)
    own = {} if ke is None else {"ke": ke, "kd": 2.0 * math.sqrt(ke)}  # what MuJoCo reads as critical damping
    add_box(builder, mass, half_height, Config(density=0.0, mu=mu[0], **own), half_height)
    builder.add_ground_plane(cfg=Config(density=0.0, mu=mu[1], **own))
    return builder.finalize()


def solver_of(name: str, model: newton.Model, **options):
    """Return SolverSAP, or SolverMuJoCo fed by Newton's contacts."""
    if name == "sap":
        return SolverSAP(model, **options)
    return get_solver("mujoco")(model, use_mujoco_contacts=False, nconmax=64, njmax=256, **options)


def run(model: newton.Model, solver, seconds: float) -> newton.State:
    """Return the state after a while, from rest."""
    pipeline = newton.CollisionPipeline(model, rigid_contact_max=64)
    contacts, state, spare = pipeline.contacts(), model.state(), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    control = model.control()
    for _ in range(round(seconds / DT)):
        pipeline.collide(state, contacts)
        solver.step(state, spare, control, contacts, DT)
        state, spare = spare, state
    return state


def depths() -> str:
    """How deep a cube lies at rest, over its mass and the stiffness."""
    rows = []
    for ke in (5.0e3, 1.0e4, 1.0e5, None):
        for mass in (0.1, 1.0, 10.0):
            model = box(mass, ke)
            cells = ["not set" if ke is None else scientific(ke), f"{mass:g}"]
            cells.append("-" if ke is None else f"{1e3 * mass * G / (4.0 * ke):.3g}")
            for name in ("sap", "mujoco"):
                state = run(model, solver_of(name, model), 5.0)
                cells.append(f"{1e3 * (0.1 - float(state.body_q.numpy()[0, 2])):.3g}")
            rows.append(cells)
    return table(["`ke` [N/m]", "mass [kg]", "`m g / (4 ke)` [mm]", "SolverSAP [mm]", "SolverMuJoCo [mm]"], rows)


def frictions() -> str:
    """Which friction two different shapes have: the steepest slope on which a flat box, which cannot tip, stays."""
    rows = []
    for mu in ((0.5, 0.5), (0.2, 0.8), (0.8, 0.2)):
        cells = [f"{mu[0]:g}, {mu[1]:g}"]
        for name, options in (("sap", {}), ("sap", {"material_rule": "drake"}), ("mujoco", {})):
            stays, slides = 0.1, 1.0
            while slides - stays > 0.002:
                found = 0.5 * (stays + slides)
                model = box(1.0, 1.0e4, mu=mu, tilt=math.atan(found), half_height=0.02)
                speed = float(run(model, solver_of(name, model, **options), 1.0).body_qd.numpy()[0, 0])
                stays, slides = (stays, found) if speed > SLIDES else (found, slides)
            cells.append(f"{stays:.2f}")
        rows.append(cells)
    head = ["`mu` of box, ground", "SolverSAP", '`material_rule="drake"`', "SolverMuJoCo"]
    return table(head, rows)


def creeps() -> str:
    """How fast a cube that sticks on a slope of 0.3 rad moves."""
    cases = (
        ("SolverSAP", "sap", {}),
        ("SolverMuJoCo", "mujoco", {}),
        ('SolverMuJoCo, `cone="elliptic"`', "mujoco", {"cone": "elliptic"}),
        ('SolverMuJoCo, `cone="elliptic"`, `impratio=100`', "mujoco", {"cone": "elliptic", "impratio": 100.0}),
    )
    rows = []
    for label, name, options in cases:
        model = box(1.0, 1.0e4, mu=(0.8, 0.8), tilt=0.3)
        a, b = (float(run(model, solver_of(name, model, **options), t).body_q.numpy()[0, 0]) for t in (2.0, 3.0))
        rows.append([label, f"{1e6 * (b - a):.3g}"])
    return table(["solver", "creep [um/s]"], rows)


TABLES = {f.__name__: f for f in (depths, frictions, creeps)}

if __name__ == "__main__":
    write_tables(PAGE, TABLES)
