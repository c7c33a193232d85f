"""What all actuators exert, as generalised forces: against MuJoCo's own observable, and against what they do."""

import newton
import numpy as np
import pytest
from mjcf import mujoco_c, placed
from test_mujoco_actuators import EVERY_KIND, drones, load, turned_anchors
from test_observables import driven
from test_tendon_paths import arm
from test_tendons import BOTH, sliders

from newton_sap import SolverSAP

Kind = SolverSAP.ObservableKind
MOTOR = '<motor tendon="rope" gear="-2" ctrlrange="-1 1"/>'
SERVO = '<general tendon="rope" biastype="affine" gainprm="60" biasprm="1 -60 -3" forcerange="-{0} {0}"/>'
SPRING = 'stiffness="40" damping="2"'


ON_TENDON = MOTOR + SERVO.format(50)

SCENES = {
    "dofs": lambda worlds: load(EVERY_KIND, worlds),
    "sites": drones,
    "free and ball joints": turned_anchors,
    "tendon that is a sum": lambda worlds: sliders(BOTH.format(SPRING), ON_TENDON, worlds=worlds),
    "tendon along a path": lambda worlds: arm(SPRING, ON_TENDON, worlds=worlds),
    "servo of a tendon at its bound": lambda worlds: arm("", SERVO.format(2), worlds=worlds),
}


def moving(model):
    """A state and a control with random velocities and commands."""
    rng, worlds = np.random.default_rng(3), model.world_count
    state, control = model.state(), model.control()
    for array, low, high in ((state.joint_qd, -0.3, 0.3), (control.mujoco.ctrl, 0.2, 0.9)):
        array.assign(rng.uniform(low, high, (2, len(array) // worlds))[:worlds].ravel())
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    return state, control


def exert(model, make, dt=0.01, in_place=False):
    """Actuator forces of a step from random velocities under random commands, a row for each world."""
    solver, (state, control) = make(model), moving(model)
    observables = solver.observables({solver.ObservableKind.QFRC_ACTUATOR})
    observables.qfrc_actuator.fill_(7.0)
    solver.step(state, state if in_place else model.state(), control, None, dt, observables=observables)
    return observables.qfrc_actuator.numpy().reshape(model.world_count, -1)


@pytest.mark.parametrize("integration", ("implicit", "explicit"))
@pytest.mark.parametrize("name", SCENES)
def test_equal_those_of_mujoco(name, integration):
    """In a step so short that its start and its end are the same."""
    how = dict(drive_integration=integration, spring_integration=integration)
    ours = exert(SCENES[name](2), lambda model: SolverSAP(model, **how), dt=1e-7)
    theirs = exert(SCENES[name](1), mujoco_c, dt=1e-7)[0]
    assert np.abs(theirs).max() > 0.3
    np.testing.assert_allclose(ours[0], theirs, rtol=1e-4, atol=2e-6)
    assert np.abs(ours[0] - ours[1]).max() > 0.05 or "bound" in name


@pytest.mark.parametrize("name", SCENES)
def test_are_those_of_the_step_in_place(name):
    """Stepping in place overwrites the poses that they are worked out with."""
    ours = [exert(SCENES[name](2), SolverSAP, in_place=in_place) for in_place in (False, True)]
    np.testing.assert_array_equal(*ours)


@pytest.mark.parametrize("name", ("dofs", "tendon that is a sum"))
def test_replace_the_actuators(name):
    """The same forces, given as ``joint_f`` to a model without actuators, move it in the same way."""
    forces, ends = exert(SCENES[name](1), SolverSAP)[0], []
    for with_actuators in (True, False):
        model = SCENES[name](1)
        state, control = moving(model)
        if not with_actuators:
            for array in (model.mujoco.actuator_gear, model.joint_target_ke, model.joint_target_kd):
                array.zero_()
            control.joint_f.assign(forces)
        SolverSAP(model).step(state, state, control, None, 0.01)
        ends.append(state.joint_qd.numpy())
    np.testing.assert_allclose(*ends, atol=3e-6)


def test_are_those_of_the_drives_where_there_are_no_others():
    """A model without MuJoCo's actuators."""
    rig = driven(30.0, 2.0, 1e6)
    observables = rig.solver.observables({Kind.JOINT_DRIVE_F, Kind.QFRC_ACTUATOR})
    rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt, observables=observables)
    assert observables.qfrc_actuator.numpy()[0] > 1.0
    np.testing.assert_array_equal(observables.qfrc_actuator.numpy(), observables.joint_drive_f.numpy())


def test_the_older_attribute_of_states_is_filled():
    """As SolverMuJoCo does where a model requests ``mujoco:qfrc_actuator``."""
    model = load('<motor joint="rail" gear="4"/>')
    with pytest.warns(DeprecationWarning, match="Observables"):
        model.request_state_attributes("mujoco:qfrc_actuator")
    state, out, control = placed(model), model.state(), model.control()
    control.mujoco.ctrl.fill_(0.5)
    SolverSAP(model).step(state, out, control, None, 0.01)
    assert out.mujoco.qfrc_actuator.numpy() == pytest.approx([0, 0, 0, 2.0, 0, 0, 0])


def test_prescribed_dofs_have_none():
    """A motor cannot act where the velocity is prescribed."""
    model = load('<motor joint="rail"/><motor joint="shoulder"/>')
    flags = model.body_flags.numpy()
    flags[model.body_label.index(next(label for label in model.body_label if label.endswith("cart")))] |= int(
        newton.BodyFlags.KINEMATIC
    )
    model.body_flags.assign(flags)
    forces = exert(model, SolverSAP)[0]
    assert forces[0] > 0.1
    assert forces[3] == 0.0
