"""Checks of contact and of the forces that a solver reports."""

from __future__ import annotations

import newton
import numpy as np

from .core import NotClaimed, Subject, check
from .rig import (
    DT,
    INERTIA,
    MASS,
    MU,
    G,
    Rig,
    add_body,
    add_slider,
    box_on_ground,
    builder_of,
    close,
    put,
    quiet,
    require,
)

AREA = "contact"
OBSERVED = "observables"
FINE = 0.5 * DT
"""Time step [s] of the scenes with contact."""


def _settled(subject: Subject, **keywords) -> Rig:
    rig = Rig(subject, box_on_ground(**keywords), contacts=True, dt=FINE)
    rig.advance(0.25)
    return rig


@check(AREA, "newton.CollisionPipeline.collide")
def ground_carries_weight(subject: Subject) -> None:
    """A box put down on the ground stays there: it comes to rest and sinks in by less than 5 mm."""
    rig = _settled(subject)
    close(rig.position(), [0.0, 0.0, 0.05], 5e-3, "place of the box")
    close(rig.velocity(), np.zeros(6), 2e-2, "velocity of the box")


@check(AREA, "newton.ModelBuilder.ShapeConfig.gap")
def no_force_across_a_gap(subject: Subject) -> None:
    """Contacts are reported ahead of touching, up to the shapes' ``gap``; until the surfaces meet there is no force."""
    rig = Rig(subject, box_on_ground(height=0.20, gap=0.1), contacts=True)
    count = rig.advance(0.1)  # falls by 5 cm of the 15
    require(int(rig.contacts.rigid_contact_count.numpy()[0]) > 0, "the scene has no contact across a gap")
    close(rig.velocity(), [0.0, 0.0, -G * count * rig.dt, 0.0, 0.0, 0.0], 1e-3, "velocity in free fall over the ground")


@check(AREA, "newton.Model.shape_material_mu")
def friction_sticks(subject: Subject) -> None:
    """Pushed with half of what friction can hold, a box stays: it goes less than 2 % of the way it would without friction."""
    rig = _settled(subject)
    push = 0.5 * MU * MASS * G
    rig.push([push, 0.0, 0.0, 0.0, 0.0, 0.0])
    before = rig.position()
    time = rig.advance(0.3) * rig.dt
    crept, free = rig.position()[0] - before[0], 0.5 * push / MASS * time**2
    require(abs(crept) < 0.02 * free, f"crept {1e3 * crept:.3g} mm where free motion is {1e3 * free:.3g} mm")


@check(AREA, "newton.Model.shape_material_mu")
def friction_slides(subject: Subject) -> None:
    """A box thrown along the ground slows down by ``mu g``, in the direction of its motion."""
    rig = _settled(subject)
    rig.place(q=_joint_q(rig), qd=[1.5, -2.0, 0.0, 0.0, 0.0, 0.0])
    time = rig.advance(0.3) * rig.dt
    speed = 2.5 - MU * G * time
    close(rig.velocity()[:2], np.array([0.6, -0.8]) * speed, 0.02 * 2.5, "velocity after sliding")


def _joint_q(rig: Rig) -> np.ndarray:
    """Return the joint coordinates of the present body poses, for solvers that write those alone."""
    q, qd = rig.model.state().joint_q, rig.model.state().joint_qd
    newton.eval_ik(rig.model, rig.state, q, qd)
    return q.numpy()


@check(AREA, "newton.ModelFlags.SHAPE_PROPERTIES")
def friction_changed(subject: Subject) -> None:
    """Friction may change between steps; ``SHAPE_PROPERTIES`` tells the solver."""
    rig = _settled(subject)
    put(rig.model.shape_material_mu, 0.5 * MU)
    rig.solver.notify_model_changed(newton.ModelFlags.SHAPE_PROPERTIES)
    rig.place(q=_joint_q(rig), qd=[2.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    time = rig.advance(0.3) * rig.dt
    close(rig.velocity()[0], 2.5 - 0.5 * MU * G * time, 0.02 * 2.5, "velocity after sliding with half the friction")


# Observables ------------------------------------------------------------------------------------------------------


def _mean_contact_force(rig: Rig, forces, duration: float) -> np.ndarray:
    """Return the mean force [N] on body 0 of the contacts, over some time."""
    total, count = np.zeros(3), round(duration / rig.dt)
    shape_body = rig.model.shape_body.numpy()
    for _ in range(count):
        rig.advance(steps=1)
        total += net_contact_force(rig, forces(), shape_body)
    return total / count


def net_contact_force(rig: Rig, rows: np.ndarray, shape_body: np.ndarray) -> np.ndarray:
    """Return the sum [N] of the forces that contacts exert on body 0; a row holds the force on shape 0's body."""
    live = int(rig.contacts.rigid_contact_count.numpy()[0])
    total = np.zeros(3)
    for sign, shapes in ((1.0, rig.contacts.rigid_contact_shape0), (-1.0, rig.contacts.rigid_contact_shape1)):
        touched = shapes.numpy()[:live]
        on_body = (touched >= 0) & (shape_body[np.maximum(touched, 0)] == 0)
        total += sign * rows[:live][on_body, :3].sum(axis=0)
    return total


@check(OBSERVED, "newton.solvers.SolverBase.SUPPORTED_OBSERVABLES")
def declared_observables_are_filled(subject: Subject) -> None:
    """Every standard observable that the solver declares can be allocated, and a step writes all of it."""
    rig = Rig(subject, box_on_ground(), contacts=True)
    kinds = rig.solver.supported_observables
    require(isinstance(kinds, frozenset), f"supported_observables is a {type(kinds).__name__}, not a frozenset")
    kinds = sorted(kinds & {"body_qdd", "body_parent_f", "contact_f"})
    if not kinds:
        raise NotClaimed("no standard observable is declared")
    rig.observables = rig.solver.observables(set(kinds), contacts=rig.contacts)
    for kind in kinds:
        put(getattr(rig.observables, kind), np.nan)
    rig.advance(steps=1)
    live = int(rig.contacts.rigid_contact_count.numpy()[0])
    for kind in kinds:
        rows = getattr(rig.observables, kind).numpy()
        rows = rows[:live] if kind == "contact_f" else rows
        require(bool(np.all(np.isfinite(rows))), f"{kind} is declared and not written")


@check(OBSERVED, "newton.solvers.SolverBase.ObservableKind.CONTACT_F")
def contact_force_is_weight(subject: Subject) -> None:
    """``contact_f`` is the force on shape 0's body by shape 1's, in world axes: for a box at rest, together its weight.

    Over some time the mean force is exactly ``m (g + change of velocity / time)``, whether or not the box is quite at rest.
    """
    rig = _settled(subject)
    array = rig.observe("contact_f")
    before = rig.velocity()[:3]
    mean = _mean_contact_force(rig, array.numpy, 0.05)
    expected = MASS * (np.array([0.0, 0.0, G]) + (rig.velocity()[:3] - before) / 0.05)
    close(mean, expected, 0.02 * MASS * G, "mean contact force")


@check(OBSERVED, "newton.solvers.SolverBase.ObservableKind.CONTACT_F")
def contact_force_brakes(subject: Subject) -> None:
    """The tangential part of ``contact_f`` is the friction that a sliding body feels: on average ``m`` times its change of
    velocity over time, whatever the solver's law of friction.
    """
    rig = _settled(subject)
    array = rig.observe("contact_f")
    rig.place(q=_joint_q(rig), qd=[2.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    mean = _mean_contact_force(rig, array.numpy, 0.2)
    braking = MASS * (2.5 - rig.velocity()[0]) / 0.2
    require(braking > 0.3 * MU * MASS * G, f"the box is not braked: {braking:.3g} N")
    close(mean[0], -braking, 0.02 * MU * MASS * G, "mean friction force")


@check(OBSERVED, "newton.solvers.SolverBase.update_contacts")
def legacy_contact_forces(subject: Subject) -> None:
    """The older way to contact forces, deprecated in Newton 1.7: ``update_contacts`` fills ``contacts.force``."""
    builder = box_on_ground()
    quiet(lambda: builder.request_contact_attributes("force"))
    rig = Rig(subject, builder, contacts=True, dt=FINE)
    if rig.contacts.force is None:
        raise NotClaimed("this version of Newton has no contacts.force")
    rig.advance(0.25)

    def forces() -> np.ndarray:
        quiet(lambda: rig.solver.update_contacts(rig.contacts, rig.state))
        return rig.contacts.force.numpy()

    forces()
    before = rig.velocity()[:3]
    mean = _mean_contact_force(rig, forces, 0.05)
    expected = MASS * (np.array([0.0, 0.0, G]) + (rig.velocity()[:3] - before) / 0.05)
    close(mean, expected, 0.02 * MASS * G, "mean contact force")


@check(OBSERVED, "newton.solvers.SolverBase.ObservableKind.BODY_QDD")
def acceleration_is_of_com(subject: Subject) -> None:
    """``body_qdd`` is the acceleration of the COM and the angular acceleration, in world axes."""
    builder = builder_of()
    add_body(builder, com=(0.1, -0.05, 0.02))
    rig = Rig(subject, builder)
    array = rig.observe("body_qdd")
    rig.place(qd=[0.0, 0.0, 0.0, 0.0, 0.0, 2.0])
    rig.push([0.0, 0.0, 0.0, 0.0, 0.2, 0.0])
    rig.advance(steps=3)
    close(array.numpy()[0], [0.0, 0.0, -G, 0.0, 0.2 / INERTIA, 0.0], 2e-2, "body_qdd")


@check(OBSERVED, "newton.solvers.SolverBase.ObservableKind.BODY_PARENT_F")
def parent_wrench_balances(subject: Subject) -> None:
    """``body_parent_f`` is the wrench of the parent on the body, about its COM: on a rail it balances weight and load."""
    builder = builder_of()
    add_slider(builder)
    rig = Rig(subject, builder)
    array = rig.observe("body_parent_f")
    rig.push([0.0, 3.0, -2.0, 0.1, -0.2, 0.3])
    rig.advance(steps=20)
    close(array.numpy()[0], [0.0, -3.0, 2.0 + MASS * G, -0.1, 0.2, -0.3], 0.02 * MASS * G, "body_parent_f")
