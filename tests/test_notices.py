"""What a solver was built on and cannot follow: a notice of its change is refused, whichever of Newton's flags it bears."""

import newton
import numpy as np
import pytest
from mjcf import finish
from rig import link

from newton_sap import SolverSAP

Flags = newton.ModelFlags
Axis = newton.ModelBuilder.JointDofConfig
JOINT_FORCES = [Flags.JOINT_DOF_PROPERTIES, Flags.JOINT_DOF_FORCE_PROPERTIES]
"""Newton has both speak of springs, drives and effort limits, and neither has the other's bit."""


def one_joint(add, **joint):
    """A model of a body on one joint, without weight."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_articulation([getattr(builder, f"add_joint_{add}")(-1, link(builder), label=add, **joint)])
    return builder.finalize()


def test_a_tree_joint_cannot_be_switched_off_later():
    """It would go on acting."""
    model = one_joint("revolute")
    solver = SolverSAP(model)
    model.joint_enabled.fill_(False)
    with pytest.raises(NotImplementedError, match="joint 0 .'revolute'. is no longer enabled"):
        solver.notify_model_changed(Flags.JOINT_PROPERTIES)


def test_a_joint_stays_of_its_type():
    """A hinge that became a slide would read the same coordinates as others."""
    model = one_joint("revolute")
    solver = SolverSAP(model)
    model.joint_type.fill_(int(newton.JointType.PRISMATIC))
    with pytest.raises(
        NotImplementedError, match=r"joint 0 .'revolute'. has joint_type 0, and 1 when .*build the model anew"
    ):
        solver.notify_model_changed(Flags.JOINT_PROPERTIES)


@pytest.mark.parametrize("flag", [Flags.BODY_PROPERTIES, Flags.BODY_INERTIAL_PROPERTIES])
def test_what_moves_keeps_some_mass(flag):
    """Nothing could say how it moves; with armature the joint alone does."""
    model = one_joint("revolute")
    solver = SolverSAP(model)
    model.body_mass.zero_()
    with pytest.raises(
        ValueError, match=r"joint 0 .'revolute'. moves .* which has no mass; give it mass .* or the joint armature"
    ):
        solver.notify_model_changed(flag)
    model.joint_armature.fill_(0.1)
    solver.notify_model_changed(flag)


@pytest.mark.parametrize("flag", JOINT_FORCES)
def test_a_free_joint_gets_no_spring_later(flag):
    """It would do nothing."""
    builder = newton.ModelBuilder()
    builder.add_articulation([builder.add_joint_free(link(builder), label="flight")])
    model = builder.finalize()
    solver = SolverSAP(model)
    model.joint_stiffness.fill_(10.0)
    with pytest.raises(NotImplementedError, match="joint_stiffness of .*flight.* spring on a free"):
        solver.notify_model_changed(flag)


def test_axes_stay_orthonormal():
    """Skewed ones would publish velocities that the coordinates do not have."""
    model = one_joint("d6", angular_axes=[Axis(axis=newton.Axis.X), Axis(axis=newton.Axis.Z)])
    solver = SolverSAP(model)
    model.joint_axis.assign(np.array([[1.0, 0.0, 0.0], [0.6, 0.0, 0.8]], np.float32))
    with pytest.raises(ValueError, match="angular axes of joint 0 .'d6'. are not orthonormal"):
        solver.notify_model_changed(Flags.JOINT_PROPERTIES)
    model.joint_axis.assign(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], np.float32))
    solver.notify_model_changed(Flags.JOINT_PROPERTIES)


def test_only_roots_become_kinematic_later():
    """A flag on another body would do nothing."""
    builder = newton.ModelBuilder()
    rod, tip = (link(builder, 1.0, 0.05, label=label) for label in ("rod", "tip"))
    builder.add_articulation([builder.add_joint_revolute(a, b, axis=newton.Axis.Y) for a, b in ((-1, rod), (rod, tip))])
    model = builder.finalize()
    solver = SolverSAP(model)
    model.body_flags.assign([0, int(newton.BodyFlags.KINEMATIC)])
    with pytest.raises(ValueError, match="body 1 .'tip'. is KINEMATIC but hangs on"):
        solver.notify_model_changed(Flags.BODY_PROPERTIES)


HINGE = """<mujoco><worldbody><body><joint name="j" axis="0 1 0"/>
  <geom type="box" size=".1 .1 .1" mass="1"/></body></worldbody><actuator>{}</actuator></mujoco>"""


def add_drive(model, effort_limit):
    """Give the model's joints a drive of Newton's as well."""
    model.joint_target_mode.fill_(int(newton.JointTargetMode.POSITION))
    model.joint_target_ke.fill_(100.0)
    model.joint_target_kd.fill_(1.0)
    model.joint_effort_limit.fill_(effort_limit)


@pytest.mark.parametrize("flag", JOINT_FORCES)
def test_a_motor_shares_the_effort_limit_of_a_later_drive(flag):
    """Together they give no more than the joint does: what a solver built on the changed model gives."""
    model = finish(HINGE.format('<motor joint="j" gear="1.5"/>'))
    solver = SolverSAP(model)
    add_drive(model, effort_limit=2.0)
    solver.notify_model_changed(flag)
    rates = []
    for each in (solver, SolverSAP(model)):
        state, control = model.state(), model.control()
        control.mujoco.ctrl.fill_(1.0)
        control.joint_target_q.fill_(1.0)
        each.step(state, state, control, None, 1e-3)
        rates.append(state.joint_qd.numpy()[0])
    assert rates[0] == rates[1]
    assert rates[0] * model.body_inertia.numpy()[0, 1, 1] == pytest.approx(2e-3, rel=1e-5)


@pytest.mark.parametrize("flag", JOINT_FORCES)
def test_a_servo_takes_no_later_drive_beside_it(flag):
    """One of the two would do nothing."""
    model = finish(HINGE.format('<general joint="j" gainprm="5" biastype="affine" biasprm="0 -5 -1"/>'))
    solver = SolverSAP(model)
    add_drive(model, effort_limit=2.0)
    with pytest.raises(NotImplementedError):
        solver.notify_model_changed(flag)
