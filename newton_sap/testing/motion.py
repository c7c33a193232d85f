"""Checks of motion without contact: closed forms of bodies and joints, and changes of the model at run time."""

from __future__ import annotations

import math

import newton
import numpy as np
import warp as wp

from .core import NotClaimed, Subject, check
from .rig import (
    INERTIA,
    MASS,
    QUARTER_X,
    G,
    Rig,
    add_body,
    add_slider,
    builder_of,
    builder_of_body,
    close,
    put,
    quiet,
    require,
)

AREA = "motion"
RUNTIME = "run-time changes"
COM = (0.1, -0.05, 0.02)
"""COM [m] in the body's frame, where a check is about the difference."""


def _offset_body(gravity: float = 0.0) -> newton.ModelBuilder:
    """A body turned by a quarter, its COM off its origin."""
    builder = builder_of(gravity)
    add_body(builder, xform=wp.transform((0.0, 0.0, 1.0), wp.quat(*QUARTER_X)), com=COM)
    return builder


def _slider(**keywords) -> newton.ModelBuilder:
    builder = builder_of()
    add_slider(builder, **keywords)
    return builder


@check(AREA, "newton.State.body_qd")
def free_fall(subject: Subject) -> None:
    """A body thrown up has the velocity ``v0 - g t`` and the height ``v0 t - g t^2 / 2``.

    Integrators of first order differ by up to ``g t dt / 2`` in the height; every one has the velocity exactly.
    """
    rig = Rig(subject, builder_of_body())
    rig.place(qd=[0.5, 0.0, 2.0, 0.0, 0.0, 0.0])
    time = rig.advance(0.3) * rig.dt
    close(rig.velocity()[:3], [0.5, 0.0, 2.0 - G * time], 1e-3, "velocity")
    close(rig.position()[:2], [0.5 * time, 0.0], 1e-4, "path aside")
    close(rig.position()[2], 2.0 * time - 0.5 * G * time**2, 0.5 * G * time * rig.dt + 1e-4, "height")


@check(AREA, "newton.State.body_qd")
def velocity_is_of_com(subject: Subject) -> None:
    """The linear part of ``body_qd`` is the velocity of the COM in world axes, not of the body's origin.

    A body that turns about its COM in free flight keeps it, while its origin runs in circles.
    """
    rig = Rig(subject, _offset_body())
    rig.place(qd=[0.3, -0.2, 0.1, 0.0, 0.0, 3.0])
    before = rig.com()
    time = rig.advance(0.5) * rig.dt
    close(rig.velocity(), [0.3, -0.2, 0.1, 0.0, 0.0, 3.0], 2e-3, "body_qd")
    close((rig.com() - before) / time, [0.3, -0.2, 0.1], 5e-3, "velocity of the COM, from its path")


@check(AREA, "newton.State.body_qd")
def spin_is_in_world_axes(subject: Subject) -> None:
    """The angular part of ``body_qd`` is in world axes: a body turned by a quarter about x spins about the world's z."""
    rig = Rig(subject, _offset_body())
    rig.place(qd=[0.0, 0.0, 0.0, 0.0, 0.0, 2.0])
    time = rig.advance(0.5) * rig.dt
    turned = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 2.0 * time) * wp.quat(*QUARTER_X)
    seen, expected = rig.state.body_q.numpy()[0, 3:], np.array(turned)
    close(seen * np.sign(seen @ expected), expected, 2e-3, "quaternion")


@check(AREA, "newton.State.body_f")
def force_acts_at_com(subject: Subject) -> None:
    """The force of ``body_f`` acts at the COM, in world axes: it accelerates the body and does not turn it."""
    rig = Rig(subject, _offset_body())
    rig.push([3.0, -2.0, 1.0, 0.0, 0.0, 0.0])
    time = rig.advance(0.2) * rig.dt
    close(rig.velocity()[:3], np.array([3.0, -2.0, 1.0]) / MASS * time, 1e-3, "velocity of the COM")
    close(rig.velocity()[3:], np.zeros(3), 1e-3, "spin")


@check(AREA, "newton.State.body_f")
def torque_acts_in_world_axes(subject: Subject) -> None:
    """The torque of ``body_f`` is about the COM, in world axes: it turns the body and does not move its COM."""
    rig = Rig(subject, _offset_body())
    rig.push([0.0, 0.0, 0.0, 0.1, 0.2, -0.1])
    time = rig.advance(0.2) * rig.dt
    close(rig.velocity()[3:], np.array([0.1, 0.2, -0.1]) / INERTIA * time, 5e-3, "spin")
    close(rig.velocity()[:3], np.zeros(3), 1e-3, "velocity of the COM")


@check(AREA, "newton.Control.joint_f")
def joint_force(subject: Subject) -> None:
    """``joint_f`` of a prismatic joint is the force along its axis."""
    rig = Rig(subject, _slider())
    put(rig.control.joint_f, 3.0)
    time = rig.advance(0.2) * rig.dt
    close(rig.velocity()[:3], [3.0 / MASS * time, 0.0, 0.0], 2e-3, "velocity of the slider")


@check(AREA, "newton.Control.joint_f")
def free_joint_force(subject: Subject) -> None:
    """``joint_f`` of a free joint is a wrench at the child's COM in world axes, like ``body_f``."""
    rig = Rig(subject, _offset_body())
    put(rig.control.joint_f, [3.0, -2.0, 1.0, 0.1, 0.2, -0.1])
    time = rig.advance(0.2) * rig.dt
    close(rig.velocity()[:3], np.array([3.0, -2.0, 1.0]) / MASS * time, 5e-3, "velocity of the COM")
    close(rig.velocity()[3:], np.array([0.1, 0.2, -0.1]) / INERTIA * time, 5e-3, "spin")


@check(AREA, "newton.Model.joint_type")
def pendulum_swings(subject: Subject) -> None:
    """A pendulum let go at a small angle hangs straight down after a quarter of its period, and its pin stays in place."""
    length, angle = 0.5, 0.1
    builder = builder_of(-G)
    bob = builder.add_link(mass=MASS, inertia=wp.mat33(np.eye(3, dtype=np.float32) * INERTIA), lock_inertia=True)
    arm = wp.transform((0.0, 0.0, length), wp.quat_identity())
    builder.add_articulation([builder.add_joint_revolute(-1, bob, axis=newton.Axis.Y, child_xform=arm)])
    rig = Rig(subject, builder, dt=1.0 / 1000.0)
    rig.place(q=[angle])
    inertia = INERTIA + MASS * length**2
    rate = math.sqrt(MASS * G * length / inertia)
    time = rig.advance(0.5 * math.pi / rate) * rig.dt
    tilt = math.asin(rig.position()[0] / length)  # the bob's frame hangs at minus this along x
    close(abs(tilt), abs(angle * math.cos(rate * time)), 0.03 * angle, "angle after a quarter period")
    pin = wp.transform_point(wp.transform(*rig.state.body_q.numpy()[0]), wp.vec3(0.0, 0.0, length))
    close(np.array(pin), np.zeros(3), 2e-3, "place of the pin")


@check(AREA, "newton.Model.joint_target_ke")
def drive_holds(subject: Subject) -> None:
    """A position drive comes to rest where its spring balances the load: off its target by ``force / target_ke``."""
    gains = {"target_ke": 200.0, "target_kd": 40.0, "target_q": 0.2, "actuator_mode": newton.JointTargetMode.POSITION}
    rig = Rig(subject, _slider(**gains))
    put(rig.control.joint_f, -10.0)
    rig.advance(1.0)
    close(rig.position(), [0.2 - 10.0 / 200.0, 0.0, 0.0], 2e-3, "rest position under load")


@check(AREA, "newton.Model.joint_limit_upper")
def limit_holds(subject: Subject) -> None:
    """A joint pushed against its limit stays there; its spring gives way by ``force / limit_ke`` at most."""
    rig = Rig(subject, _slider(limit_lower=-0.1, limit_upper=0.02, limit_ke=1.0e4, limit_kd=1.0e2))
    put(rig.control.joint_f, 10.0)
    rig.advance(1.0)
    passed = rig.position()[0] - 0.02
    require(-2e-3 < passed < 10.0 / 1.0e4 + 2e-3, f"slider is {passed:.4g} m past its limit, pushed with 10 N")


@check(AREA, "newton.BodyFlags")
def kinematic_body_is_prescribed(subject: Subject) -> None:
    """A kinematic body passes through a step as it is: gravity and forces do not act, and its velocity does not move it."""
    builder = builder_of()
    add_body(builder, xform=wp.transform((0.0, 0.0, 1.0), wp.quat(*QUARTER_X)), is_kinematic=True)
    rig = Rig(subject, builder)
    rig.place(qd=[0.3, 0.0, 0.0, 0.0, 0.0, 0.5])
    rig.push([5.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    before = rig.look()
    rig.advance(steps=5)
    for name in ("body_q", "body_qd"):
        close(rig.look()[name], before[name], 1e-6, f"{name} of a kinematic body")


# Run-time changes -------------------------------------------------------------------------------------------------


@check(RUNTIME, "newton.Model.set_gravity")
def gravity_changed(subject: Subject) -> None:
    """Gravity may change between steps; ``MODEL_PROPERTIES`` tells the solver."""
    rig = Rig(subject, builder_of_body())
    rig.advance(steps=2)
    rig.model.set_gravity((1.0, 0.0, 3.0))
    rig.solver.notify_model_changed(newton.ModelFlags.MODEL_PROPERTIES)
    rig.advance(steps=10)
    expected = np.array([0.0, 0.0, -2 * G]) + 10 * np.array([1.0, 0.0, 3.0])
    close(rig.velocity()[:3], expected * rig.dt, 1e-4, "velocity")


@check(RUNTIME, "newton.ModelFlags.BODY_INERTIAL_PROPERTIES")
def mass_changed(subject: Subject) -> None:
    """Masses and inertias may change between steps; ``BODY_INERTIAL_PROPERTIES`` tells the solver."""
    rig = Rig(subject, builder_of_body(0.0))
    for name, factor in (("mass", 2.0), ("inv_mass", 0.5), ("inertia", 2.0), ("inv_inertia", 0.5)):
        array = getattr(rig.model, f"body_{name}")
        array.assign(array.numpy() * np.float32(factor))
    rig.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)
    rig.push([3.0, 0.0, 0.0, 0.0, 0.2, 0.0])
    time = rig.advance(steps=10) * rig.dt
    expected = [3.0 / (2 * MASS) * time, 0.0, 0.0, 0.0, 0.2 / (2 * INERTIA) * time, 0.0]
    close(rig.velocity(), expected, 1e-3, "velocity at twice the mass")


@check(RUNTIME, "newton.ModelFlags.BODY_INERTIAL_PROPERTIES")
def com_changed(subject: Subject) -> None:
    """The COM may move within its body between steps; a force then acts at the new one."""
    rig = Rig(subject, builder_of_body(0.0))
    put(rig.model.body_com, COM)
    rig.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)
    rig.place()
    rig.push([0.0, 0.0, 0.0, 0.0, 0.0, 0.2])
    before = rig.com()
    rig.advance(0.3)
    close(rig.com(), before, 1e-3, "place of the COM, under a torque alone")


@check(RUNTIME, "newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES")
def drive_changed(subject: Subject) -> None:
    """Drive gains may change between steps; the narrow flag ``JOINT_DOF_FORCE_PROPERTIES`` alone tells the solver."""
    gains = {"target_ke": 100.0, "target_kd": 20.0, "target_q": 0.2, "actuator_mode": newton.JointTargetMode.POSITION}
    rig = Rig(subject, _slider(**gains))
    put(rig.control.joint_f, -5.0)
    rig.advance(steps=2)
    put(rig.model.joint_target_ke, 400.0)
    put(rig.model.joint_target_kd, 60.0)
    rig.solver.notify_model_changed(newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES)
    rig.advance(1.0)
    close(rig.position()[0], 0.2 - 5.0 / 400.0, 2e-3, "rest position with the new gain")


@check(RUNTIME, "newton.ModelFlags.JOINT_DOF_INERTIAL_PROPERTIES")
def armature_changed(subject: Subject) -> None:
    """Armature may change between steps; the narrow flag ``JOINT_DOF_INERTIAL_PROPERTIES`` alone tells the solver.

    A solver that knows no armature, so that a slider built with it moves as if it had none, claims nothing.
    """
    for built, changed in ((MASS, None), (0.5 * MASS, MASS)):
        rig = Rig(subject, _slider(armature=built))
        put(rig.control.joint_f, 4.0)
        if changed is not None:
            put(rig.model.joint_armature, changed)
            rig.solver.notify_model_changed(newton.ModelFlags.JOINT_DOF_INERTIAL_PROPERTIES)
        time = rig.advance(steps=10) * rig.dt
        if changed is None and abs(rig.velocity()[0] - 4.0 / MASS * time) < 1e-3:
            raise NotClaimed("armature is not simulated")
        close(rig.velocity()[0], 4.0 / (2 * MASS) * time, 1e-3, "velocity with armature")


@check(RUNTIME, "newton.ModelFlags")
def every_flag_accepted(subject: Subject) -> None:
    """Any flag may be given, alone, together with others, or as a bit of the user's own; nothing changed, nothing happens."""
    rig, other = (
        Rig(subject, _slider(target_ke=50.0, target_q=0.1)),
        Rig(subject, _slider(target_ke=50.0, target_q=0.1)),
    )
    names = [name for name in newton.ModelFlags.__members__ if name != "ALL"]
    for flag in [*(int(newton.ModelFlags[name]) for name in names), int(newton.ModelFlags.ALL), 1 << 20]:
        quiet(lambda flag=flag: rig.solver.notify_model_changed(flag))
        rig.advance(steps=1)
        other.advance(steps=1)
    close(rig.look()["body_q"], other.look()["body_q"], 1e-6, "pose with and without notices")
    close(rig.look()["body_qd"], other.look()["body_qd"], 1e-5, "velocity with and without notices")
