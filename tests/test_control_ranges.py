"""Control ranges of position and velocity actuators bound the targets of the drives that Newton's importers make of them."""

from __future__ import annotations

import numpy as np
import pytest
from mjcf import finish, mujoco_c, placed, roll_out
from test_mujoco_actuators import load

from newton_sap import SolverSAP


@pytest.mark.parametrize(("goal", "end"), [(1.0, 0.3), (0.2, 0.2), (-1.0, -0.4)])
def test_position_target_keeps_within_the_control_range(goal, end):
    """The range is of MuJoCo's coordinate, as ``ctrl`` is; Newton's targets count from the file's pose."""
    model = load('<position joint="rail" kp="1e4" kv="200" ctrlrange="0.1 0.8"/>', rail='ref="0.5"')
    state, control, solver = placed(model), model.control(), SolverSAP(model)
    control.joint_target_q.fill_(goal)
    for _ in range(100):
        solver.step(state, state, control, None, 0.01)
    assert state.joint_q.numpy()[3] == pytest.approx(end, abs=1e-4)
    assert (control.joint_target_q.numpy() == np.float32(goal)).all()


@pytest.mark.parametrize(("goal", "speed"), [(2.0, 0.5), (0.3, 0.3), (-2.0, -0.2)])
def test_velocity_target_keeps_within_the_control_range(goal, speed):
    """So does that of a velocity actuator, also beside one of position."""
    for beside in ("", '<position joint="rail" kp="1e-9" ctrlrange="-0.1 0.1"/>'):
        model = load(f'<velocity joint="rail" kv="1e5" ctrlrange="-0.2 0.5"/>{beside}')
        state, control = placed(model), model.control()
        control.joint_target_qd.fill_(goal)
        SolverSAP(model).step(state, state, control, None, 0.01)
        assert state.joint_qd.numpy()[3] == pytest.approx(speed, rel=1e-2)


def test_a_drive_with_a_control_range_moves_like_mujoco():
    """A hinge under gravity whose target is beyond the range."""
    ends = []
    for make in (SolverSAP, mujoco_c):
        model = load('<position joint="elbow" kp="30" kv="2" ctrlrange="-0.1 0.3"/>', gravity=-9.81)
        control = model.control()
        control.joint_target_q.fill_(1.0)
        ends.append(roll_out(make, model, 400, 5e-4, control=control).joint_q.numpy()[:3])
    np.testing.assert_allclose(*ends, atol=2e-3)
    assert np.abs(ends[0]).max() > 0.05


def test_control_ranges_of_actuators_that_share_a_target_are_refused():
    """Two of one kind have one target between them, one of position and one of velocity each its own."""
    file = """<mujoco><worldbody><body><joint name="j" type="slide"/><geom size=".1" mass="1"/></body></worldbody>
      <actuator><position name="it" joint="j" kp="30" ctrlrange="-1 1"/><{} joint="j" {}/></actuator></mujoco>"""
    with pytest.raises(NotImplementedError, match="'it'.* has a ctrlrange, and shares joint 0"):
        SolverSAP(finish(file.format("position", 'kp="3"')))
    SolverSAP(finish(file.format("velocity", 'kv="3"')))


PULLED = """<mujoco><worldbody><site name="o" pos="-1 0 0"/><body name="b">
  <joint name="a" type="slide" axis="1 0 0" {limit}/><geom size=".1" mass="2"/><site name="s"/></body></worldbody>
<tendon><fixed name="sum"><joint joint="a" coef="1"/></fixed>
  <spatial name="path"><site site="o"/><site site="s"/></spatial></tendon>
<actuator>{actuator}</actuator></mujoco>"""


@pytest.mark.parametrize("by", ['tendon="sum"', 'tendon="path"', 'site="s" gear="1 0 0 0 0 0"'])
def test_a_limit_of_joints_that_tendons_and_sites_pass_by_is_said(by):
    """MuJoCo bounds what all actuators exert on a joint; here ``actuatorfrcrange`` bounds those of its own axis."""
    limited = 'actuatorfrcrange="-3 3"'
    with pytest.warns(UserWarning, match="joint_effort_limit of joint 0.*actuator 0.*forcerange"):
        SolverSAP(finish(PULLED.format(limit=limited, actuator=f"<motor {by}/>")))
    SolverSAP(finish(PULLED.format(limit="", actuator=f"<motor {by}/>")))
    SolverSAP(finish(PULLED.format(limit=limited, actuator='<motor joint="a"/>')))
