"""Checks of the calls themselves: what a solver is, what a step reads and what it writes."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from .core import NotClaimed, Subject, check
from .rig import (
    DT,
    MASS,
    QUARTER_X,
    G,
    Rig,
    add_body,
    add_slider,
    box_on_ground,
    boxes_in_worlds,
    builder_of,
    builder_of_body,
    close,
    fill_nan,
    finalize,
    put,
    raises,
    require,
    same_bits,
    same_state,
    snapshot,
)

AREA = "interface"


def _falling_and_driven() -> newton.ModelBuilder:
    """A free body with its COM off its origin, and a driven slider."""
    builder = builder_of()
    add_body(builder, xform=wp.transform((0.0, 0.0, 1.0), wp.quat(*QUARTER_X)), com=(0.1, 0.0, 0.0))
    drive = {"target_ke": 50.0, "target_kd": 2.0, "actuator_mode": newton.JointTargetMode.POSITION}
    add_slider(builder, target_q=0.1, **drive)
    return builder


@check(AREA, "newton.solvers.SolverBase")
def is_a_newton_solver(subject: Subject) -> None:
    """A solver derives from SolverBase, keeps the model it was given as ``model`` and lives on the model's device."""
    model = finalize(subject, _falling_and_driven())
    solver = subject.solver(model)
    require(isinstance(solver, newton.solvers.SolverBase), f"{type(solver).__name__} is no newton.solvers.SolverBase")
    require(solver.model is model, "solver.model is not the model given")
    require(solver.device == model.device, f"solver.device is {solver.device}, the model's {model.device}")


@check(AREA, "newton.solvers.SolverBase.__init__")
def construction_keeps_model(subject: Subject) -> None:
    """Building a solver changes no number of the model: another solver may be built of it afterwards."""
    model = finalize(subject, boxes_in_worlds(2))
    before = snapshot(model)
    subject.solver(model)
    same_state(snapshot(model), before, "model after construction")


@check(AREA, "newton.solvers.SolverBase.step")
def step_takes_keywords(subject: Subject) -> None:
    """The arguments of step go by their documented names, ``observables=None`` among them."""
    rig = Rig(subject, _falling_and_driven())
    rig.solver.step(
        state_in=rig.state, state_out=rig.next, control=rig.control, contacts=None, dt=rig.dt, observables=None
    )
    close(rig.next.body_qd.numpy()[0, 2], -G * rig.dt, 1e-4, "velocity after one step")


@check(AREA, "newton.solvers.SolverBase.step")
def state_in_kept(subject: Subject) -> None:
    """A step into another state leaves its input as it was, bit for bit.

    One thing is allowed that solvers in generalised coordinates do: to compute ``body_q`` and ``body_qd`` of the input
    afresh from its joint coordinates, so that these two may differ by rounding.
    """
    rig = Rig(subject, box_on_ground())
    for state in (rig.state, rig.next):
        put(state.body_f, [1.0, 0.0, 0.0, 0.0, 0.2, 0.0])
    before = snapshot(rig.state)
    pipeline = newton.CollisionPipeline(rig.model)
    contacts = pipeline.contacts()
    pipeline.collide(rig.state, contacts)
    rig.solver.step(rig.state, rig.next, rig.control, contacts, rig.dt)
    after = snapshot(rig.state)
    for name, array in before.items():
        if name in ("body_q", "body_qd"):
            close(after[name], array, 1e-5, f"state_in.{name}")
        else:
            same_bits(after[name], array, f"state_in.{name}")


@check(AREA, "newton.solvers.SolverBase.step")
def control_kept(subject: Subject) -> None:
    """A step reads the control and the model and changes neither; gains and targets stay as the user set them."""
    rig = Rig(subject, _falling_and_driven())
    put(rig.control.joint_f, 0.3)
    control, model = snapshot(rig.control), snapshot(rig.model)
    rig.advance(steps=3)
    same_state(snapshot(rig.control), control, "control")
    same_state(snapshot(rig.model), model, "model")


@check(AREA, "newton.solvers.SolverBase.step")
def contacts_kept(subject: Subject) -> None:
    """A step reads the contacts that the pipeline found, and the next step finds them unchanged."""
    rig = Rig(subject, box_on_ground(), contacts=True)
    rig.collide()
    before = snapshot(rig.contacts)
    rig.step(rig.state, rig.next)
    rig.step(rig.next, rig.state)
    same_state(snapshot(rig.contacts), before, "contacts")


@check(AREA, "newton.solvers.SolverBase.step")
def bodies_written(subject: Subject) -> None:
    """A step writes ``body_q`` and ``body_qd`` of every body of its output, whatever was there."""
    rig = Rig(subject, _falling_and_driven())
    fill_nan(rig.next, "body_q", "body_qd")
    rig.step(rig.state, rig.next)
    for name in ("body_q", "body_qd"):
        require(bool(np.all(np.isfinite(getattr(rig.next, name).numpy()))), f"state_out.{name} is not written")


@check(AREA, "newton.eval_fk")
def joints_agree_with_bodies(subject: Subject) -> None:
    """What a step writes to ``joint_q`` and ``joint_qd`` describes the motion it writes to the bodies.

    A solver in maximal coordinates that leaves the joint arrays alone (its users call ``newton.eval_ik``) claims nothing.
    """
    rig = Rig(subject, _falling_and_driven())
    rig.place(qd=[0.2, -0.1, 0.3, 0.5, 0.4, -0.3, 0.2])
    for _ in range(5):
        fill_nan(rig.next, "joint_q", "joint_qd")
        rig.step(rig.state, rig.next)
        if np.all(np.isnan(rig.next.joint_q.numpy())) and np.all(np.isnan(rig.next.joint_qd.numpy())):
            raise NotClaimed("leaves joint_q and joint_qd of state_out alone; its users call newton.eval_ik")
        rig.state, rig.next = rig.next, rig.state
    seen = rig.model.state()
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, seen)
    close(rig.state.body_q.numpy(), seen.body_q.numpy(), 1e-4, "body_q against eval_fk of joint_q")
    close(rig.state.body_qd.numpy(), seen.body_qd.numpy(), 1e-4, "body_qd against eval_fk of joint_qd")


@check(AREA, "newton.solvers.SolverBase.step")
def steps_in_place(subject: Subject) -> None:
    """``step(s, s, ...)`` gives what ``step(s, t, ...)`` gives, to rounding; Newton's coupled solvers step so."""
    rig, other = (Rig(subject, box_on_ground(height=0.055), contacts=True) for _ in range(2))
    for _ in range(10):
        rig.collide()
        rig.step(rig.state, rig.state)
    other.advance(steps=10)
    for name in ("body_q", "body_qd"):
        close(rig.look()[name], other.look()[name], 1e-6, f"in place against out of place, {name}")


@check(AREA, "newton.solvers.SolverBase.step")
def control_none(subject: Subject) -> None:
    """``control=None`` means the values of the model: its joint forces and drive targets."""
    builder = _falling_and_driven()
    rig, other = Rig(subject, builder), Rig(subject, _falling_and_driven())
    for one in (rig, other):
        put(one.model.joint_f, [0.0] * 6 + [0.7])
        one.control = one.model.control()
    rig.control = None
    rig.advance(steps=10)
    other.advance(steps=10)
    same_state(rig.look(), other.look(), "control None against model.control()")
    reached = (0.7 + 50.0 * 0.1) / MASS * 10 * rig.dt
    require(abs(rig.velocity(1)[0] - reached) < 0.6 * reached, f"the model's drive moved nothing: {rig.velocity(1)}")


@check(AREA, "newton.solvers.SolverBase.step")
def contacts_none(subject: Subject) -> None:
    """``contacts=None`` means that there is no contact: a body falls through the ground.

    A solver that was given no pipeline of its own and detects contacts all the same fails.
    """
    rig = Rig(subject, box_on_ground())
    count = rig.advance(0.1)
    close(rig.velocity()[2], -G * count * rig.dt, 1e-3, "velocity without contacts")


@check(AREA, "newton.Contacts.rigid_contact_count")
def only_live_contacts(subject: Subject) -> None:
    """Rows of a contact buffer beyond ``rigid_contact_count`` are left over from earlier and mean nothing."""
    rig = Rig(subject, box_on_ground(), contacts=True)
    rig.collide()
    require(int(rig.contacts.rigid_contact_count.numpy()[0]) > 0, "the scene has no contact to leave over")
    rig.contacts.rigid_contact_count.zero_()
    for _ in range(10):
        rig.step(rig.state, rig.next)
        rig.state, rig.next = rig.next, rig.state
    close(rig.velocity()[2], -G * 10 * rig.dt, 1e-3, "velocity with no live contact")


@check(AREA, "newton.solvers.SolverBase.step")
def dt_may_change(subject: Subject) -> None:
    """Each step has its own ``dt``: velocities after steps of different length add up."""
    rig = Rig(subject, _falling_and_driven())
    first = rig.dt
    rig.advance(steps=3)
    rig.dt = 0.4 * first
    rig.advance(steps=5)
    close(rig.velocity()[2], -G * (3 * first + 5 * 0.4 * first), 1e-4, "velocity after steps of two lengths")


@check(AREA, "newton.ModelBuilder.up_axis")
def any_up_axis(subject: Subject) -> None:
    """Which way is up is the model's business: under gravity along -y a body falls along -y."""
    builder = builder_of(up_axis=newton.Axis.Y)
    add_body(builder, xform=wp.transform((0.0, 1.0, 0.0), wp.quat(*QUARTER_X)), com=(0.1, 0.0, 0.0))
    rig = Rig(subject, builder)
    count = rig.advance(steps=10)
    close(rig.velocity()[:3], [0.0, -G * count * rig.dt, 0.0], 1e-4, "velocity")


@check(AREA, "newton.solvers.SolverBase.register_custom_attributes")
def custom_attributes_optional(subject: Subject) -> None:
    """The solver registers its attributes on a builder, if it has any, and simulates models with and without them."""
    register = getattr(subject.solver(finalize(subject, builder_of_body())), "register_custom_attributes", None)
    require(callable(register), "no register_custom_attributes")
    moved = []
    for registered in (False, True):
        builder = builder_of()
        if registered:
            register(builder)
        add_body(builder)
        rig = Rig(subject, builder)
        count = rig.advance(steps=5)
        moved.append(rig.velocity()[2])
        close(moved[-1], -G * count * rig.dt, 1e-4, f"velocity, registered {registered}")


@check(AREA, "newton.solvers.SolverBase.supported_observables")
def unknown_observable_refused(subject: Subject) -> None:
    """Asking for an observable that the solver does not support raises ``ValueError`` and names it."""
    solver = subject.solver(finalize(subject, builder_of_body()))
    raises(ValueError, lambda: solver.observables({"no_such_observable"}), "an unknown observable")


@check(AREA, "newton.solvers.SolverBase.validate_observables")
def foreign_observables_refused(subject: Subject) -> None:
    """Observables belong to the solver that allocated them; step refuses those of another one with ``ValueError``."""
    rig = Rig(subject, builder_of_body())
    kinds = sorted(rig.solver.supported_observables & {"body_qdd", "body_parent_f"})
    if not kinds:
        raise NotClaimed("no observable per body is supported")
    foreign = subject.solver(rig.model).observables(set(kinds))
    call = rig.solver.step
    raises(
        ValueError,
        lambda: call(rig.state, rig.next, None, None, DT, observables=foreign),
        "observables of another solver",
    )


@check(AREA, "newton.solvers.SolverBase.supports_body_pair_reduced_contacts")
def reduced_contacts(subject: Subject) -> None:
    """Contacts thinned by body-pair reduction are refused with ``ValueError``, unless the solver declares to support them.

    A solver that declares it must then hold up a box with such contacts.
    """
    rig = Rig(subject, box_on_ground(), contacts=True)
    rig.pipeline = newton.CollisionPipeline(
        rig.model, body_pair_reduction=newton.CollisionPipeline.BodyPairReductionConfig()
    )
    rig.contacts = rig.pipeline.contacts()
    if not rig.contacts.rigid_contact_body_pair_reduced:
        raise NotClaimed("this version of Newton does not reduce the contacts of the scene")
    if rig.solver.supports_body_pair_reduced_contacts:
        rig.advance(0.3)
        close(rig.position()[2], 0.05, 5e-3, "height of the box on reduced contacts")
    else:
        raises(ValueError, lambda: rig.advance(steps=1), "body-pair-reduced contacts")


@check(AREA, "newton.solvers.SolverBase.supports_collision_pipeline")
def owned_pipeline(subject: Subject) -> None:
    """A solver that declares ``supports_collision_pipeline`` takes a pipeline at construction and stands on its contacts."""
    model = finalize(subject, box_on_ground())
    plain = subject.solver(model)
    if not plain.supports_collision_pipeline:
        raise NotClaimed("supports_collision_pipeline is False")
    solver = subject.solver(model, collision_pipeline=newton.CollisionPipeline(model))
    states = [model.state(), model.state()]
    newton.eval_fk(model, model.joint_q, model.joint_qd, states[0])
    dt = DT / subject.refine
    for _ in range(round(0.3 / dt)):
        solver.step(states[0], states[1], None, None, dt)
        states.reverse()
    close(states[0].body_q.numpy()[0, 2], 0.05, 5e-3, "height of the box on its own contacts")
