"""MuJoCo's actuators: forces and servos that ``control.mujoco.ctrl`` commands, and those that are refused by name."""

import re

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish, mujoco_c, placed, roll_out
from newton.solvers import SolverMuJoCo
from newton.solvers.experimental.coupled import SolverCoupledProxy

from newton_sap import SolverSAP

MECHANISM = """<mujoco><compiler angle="radian"/><option gravity="0 0 {gravity}"/><worldbody>
  <body name="upper" pos="0 0 1"><joint name="shoulder" type="hinge" axis="0 1 0" ref="0.1"/>
    <geom type="box" size=".1 .1 .2" pos="0 0 -.2" contype="0" conaffinity="0"/>
    <body name="lower" pos="0 0 -.4"><joint name="elbow" type="hinge" axis="0 1 0" ref="-0.2"/>
      <joint name="twist" type="hinge" axis="1 0 0"/>
      <geom type="box" size=".05 .05 .1" pos="0 0 -.1" contype="0" conaffinity="0"/></body></body>
  <body name="cart" pos="1 0 1"><joint name="rail" type="slide" axis="1 0 0" {rail}/>
    <geom type="sphere" size=".1" mass="2" contype="0" conaffinity="0"/><site name="hook"/></body>
  <body name="head" pos="3 0 1"><joint name="neck" type="ball"/>
    <geom name="skull" type="sphere" size=".1" pos="0 0 .1" contype="0" conaffinity="0"/><site name="brain" pos="0 .02 .1"/></body>
  <site name="goal"/>
</worldbody><tendon><spatial name="path"><site site="hook"/><geom geom="skull" sidesite="brain"/><site site="goal"/></spatial></tendon>
<actuator>{actuators}</actuator></mujoco>"""

EVERY_KIND = """
  <motor joint="shoulder" gear="3" ctrlrange="-1 1"/>
  <general name="servo" joint="elbow" biastype="affine" gainprm="100" biasprm="3 -100 -10" forcerange="-15 15" gear="0.8"/>
  <position joint="twist" kp="50" kv="5" forcerange="-4 4"/>
  <general joint="rail" biastype="affine" gainprm="20" biasprm="0 0 -20" gear="2"/>"""


def load(actuators, worlds=1, gravity=0.0, rail=""):
    """The mechanism in so many worlds; the rail is the fourth dof of seven."""
    return finish(MECHANISM.format(actuators=actuators, gravity=gravity, rail=rail), worlds, gravity)


def rail_speed(actuator, ctrl, dt=0.01, **how):
    """Speed of the cart of 2 kg after one step from rest."""
    model = load(actuator, **how)
    state, control = placed(model), model.control()
    control.mujoco.ctrl.assign(np.broadcast_to(ctrl, len(control.mujoco.ctrl)))
    SolverSAP(model).step(state, state, control, None, dt)
    return state.joint_qd.numpy()[3]


def end(make, ctrl, twist_goal):
    """Coordinates after 0.2 s of the mechanism with every kind of actuator; a row of commands for each world."""
    model = load(EVERY_KIND, worlds=len(ctrl), gravity=-9.81)
    control = model.control()
    goal = control.joint_target_q.numpy().reshape(len(ctrl), -1)
    goal[:, 2] = twist_goal
    control.joint_target_q.assign(goal.ravel())
    return roll_out(make, model, 400, 5e-4, ctrl, control).joint_q.numpy().reshape(len(ctrl), -1)


def test_moves_like_mujoco():
    """Worlds with other commands: motor, servo of position and of velocity, and a bounded drive of the model."""
    ctrl, goals = [[0.5, 0.7, 0.0, 0.4], [2.0, -0.3, 0.0, -0.2]], [0.4, 1.5]
    ours = end(SolverSAP, ctrl, goals)
    assert np.abs(ours).max() > 1.0
    for world in range(2):
        theirs = end(mujoco_c, ctrl[world:][:1], goals[world])
        # Of first order in the step: 0.002 at 0.5 ms.
        np.testing.assert_allclose(ours[world], theirs[0], atol=5e-3)


@pytest.mark.parametrize(
    ("attributes", "ctrl", "force"),
    [
        ("", 3.0, 3.0),
        ('gear="4"', 3.0, 12.0),
        ('gear="-4" ctrlrange="-1 2"', 3.0, -8.0),
        ('gear="4" ctrlrange="-1 2" ctrllimited="false"', 3.0, 12.0),
        ('gear="4" forcerange="-1 2"', 3.0, 8.0),
        ('gear="4" forcerange="-1 2"', -3.0, -4.0),
    ],
)
def test_motor_gives_a_force(attributes, ctrl, force):
    """Control range, force range and gear in MuJoCo's order."""
    assert rail_speed(f'<motor joint="rail" {attributes}/>', ctrl) == pytest.approx(0.01 * force / 2.0, rel=1e-6)


def test_joint_bounds_what_its_motors_give():
    """``actuatorfrcrange`` of a joint, Newton's ``joint_effort_limit``, bounds the sum of two motors."""
    two = '<motor joint="rail"/><motor joint="rail" gear="2"/>'
    assert rail_speed(two, 1.0) == pytest.approx(0.01 * 3.0 / 2.0, rel=1e-6)
    bounded = rail_speed(two, 1.0, rail='actuatorfrcrange="-2.5 2.5"')
    assert bounded == pytest.approx(0.01 * 2.5 / 2.0, rel=1e-6)


def test_stiff_servo_reaches_its_goal():
    """An explicit servo of this gain would need steps of 14 us; the goal is MuJoCo's coordinate, gear included."""
    servo = '<general joint="rail" biastype="affine" gainprm="1e7" biasprm="0 -1e7 -1e5" gear="2"/>'
    model = load(servo, rail='ref="0.3"')
    solver, state, control = SolverSAP(model), placed(model), model.control()
    control.mujoco.ctrl.fill_(0.8)
    for _ in range(100):
        solver.step(state, state, control, None, 0.01)
    assert state.joint_q.numpy()[3] == pytest.approx(0.8 / 2.0 - 0.3, abs=1e-4)
    assert solver.report().healthy


RATIOS = """<mujoco><compiler angle="radian"/><worldbody>
  <body pos="0 0 1"><freejoint/><geom type="box" size=".2 .1 .05" mass="2" contype="0" conaffinity="0"/>
    <body pos=".2 0 0" euler=".1 .2 .3"><joint name="hip" type="hinge" axis="0 1 0" armature=".02" ref="0.3"/>
      <geom type="box" size=".1 .05 .05" pos=".1 .01 .03" mass=".8" contype="0" conaffinity="0"/>
      <body pos=".2 0 0"><joint name="knee" type="hinge" axis="0 .6 .8"/><joint name="reach" type="slide" axis="1 0 0"/>
        <geom type="sphere" size=".08" pos=".15 0 0" mass=".3" contype="0" conaffinity="0"/></body></body></body>
  <body pos="3 0 1"><joint name="neck" type="ball"/>
    <geom type="box" size=".1 .05 .08" pos=".05 .01 -.12" mass="0.7" contype="0" conaffinity="0"/></body>
</worldbody><actuator>
  <position joint="hip" kp="50" dampratio="1"/><position joint="knee" kp="20" dampratio=".4"/>
  <general joint="reach" gainprm="30" biastype="affine" biasprm="1 -30 .7" gear="2"/>
  <position joint="neck" kp="5" dampratio="2"/></actuator></mujoco>"""


def test_ratios_of_damping_are_those_of_mujoco():
    """``dampratio`` becomes damping by the inertia at zero coordinates, in every world, where none is given already."""
    models = [finish(RATIOS, 2), finish(RATIOS, 2)]
    for model in models:
        mass = model.body_mass.numpy()
        mass[len(mass) // 2 :] *= 3.0
        model.body_mass.assign(mass)
        model.joint_q.assign(
            model.joint_q.numpy() + np.where(model.joint_q.numpy() == 0.0, 0.2, 0.0).astype(np.float32)
        )
        kd = model.joint_target_kd.numpy()
        kd[12 + 8] = 0.5  # the second world's knee
        model.joint_target_kd.assign(kd)
    truth = SolverMuJoCo(models[0])
    SolverSAP(models[1])
    expected, found = (model.joint_target_kd.numpy() for model in models)
    assert (expected[[6, 8, 9, 10, 11]] > 0.0).all()
    assert expected[20] == 0.5
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    resolved = truth.mjw_model.actuator_biasprm.numpy()[..., 2].ravel()
    reach = np.flatnonzero(models[1].mujoco.ctrl_source.numpy() == 1)
    assert len(reach) == 2
    for bias in models[1].mujoco.actuator_biasprm.numpy()[reach, 2]:
        assert np.abs(resolved - bias).min() < 1e-3 * abs(bias)
    SolverSAP(models[1])  # another solver of the same model finds damping
    np.testing.assert_array_equal(models[1].joint_target_kd.numpy(), found)


def test_a_ratio_of_damping_in_a_loop_is_refused():
    """MuJoCo's inertia is that of a tree."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(RATIOS)
    joint = builder.add_joint_revolute(0, builder.body_count - 1, axis=(0.0, 1.0, 0.0), label="closure")
    model = builder.finalize()
    trnid = model.mujoco.actuator_trnid.numpy()
    trnid[0, 0] = model.joint_qd_start.numpy()[joint]
    model.mujoco.actuator_trnid.assign(trnid)
    with pytest.raises(NotImplementedError, match="dampratio.*'closure'.*closes a loop"):
        SolverSAP(model)


def test_servo_is_bounded_by_its_force_range():
    """Gear times the range, and the joint's own limit if that is less."""
    servo = '<general joint="rail" biastype="affine" gainprm="1e4" biasprm="0 -1e4 0" gear="2" forcerange="-3 3"/>'
    assert rail_speed(servo, 1.0) == pytest.approx(0.01 * 6.0 / 2.0, rel=1e-6)
    less = rail_speed(servo, 1.0, rail='actuatorfrcrange="-2.5 2.5"')
    assert less == pytest.approx(0.01 * 2.5 / 2.0, rel=1e-6)


@pytest.mark.parametrize(("ctrl", "force"), [(1.0, 2.0 * 1.0), (-1.0, 2.0 * -3.0)])
def test_servo_may_push_harder_one_way(ctrl, force):
    """The range counts after the gear, which may turn it round."""
    servo = '<general joint="rail" biastype="affine" gainprm="1e4" biasprm="0 -1e4 0" gear="{}" forcerange="{}"/>'
    assert rail_speed(servo.format(2, "-3 1"), ctrl) == pytest.approx(0.01 * force / 2.0, rel=1e-6)
    assert rail_speed(servo.format(-2, "-1 3"), -ctrl) == pytest.approx(0.01 * force / 2.0, rel=1e-6)


@pytest.mark.parametrize(("goal", "force"), [(1.0, 3.0), (-1.0, -1.0)])
def test_drive_may_push_harder_one_way(goal, force):
    """The same of a drive of the model."""
    model = load('<position joint="rail" kp="1e4" forcerange="-1 3"/>')
    state, control = placed(model), model.control()
    control.joint_target_q.fill_(goal)
    SolverSAP(model).step(state, state, control, None, 0.01)
    assert state.joint_qd.numpy()[3] == pytest.approx(0.01 * force / 2.0, rel=1e-6)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("drive", [False, True])
@pytest.mark.parametrize(
    ("motor", "servo", "force"),
    [(100.0, 0.0, 10.0), (100.0, -95.0, 5.0), (100.0, -200.0, -10.0), (-3.0, -4.0, -7.0), (-3.0, -8.0, -10.0)],
)
def test_joint_bounds_motor_and_servo_together(motor, servo, force, drive, explicit):
    """As MuJoCo clamps their sum, not each; the servo is so soft that it pushes with what it is told, or is a drive."""
    soft = '<position joint="rail" kp="1e-3"/>'
    if not drive:
        soft = '<general joint="rail" biastype="affine" gainprm="1" biasprm="0 -1e-3 0"/>'
    model = load(f'<motor joint="rail"/>{soft}', rail='actuatorfrcrange="-10 10"')
    state, control = placed(model), model.control()
    control.mujoco.ctrl.assign([motor] if drive else [motor, servo])
    if drive:
        control.joint_target_q.fill_(1e3 * servo)
    solver = SolverSAP(model, drive_integration="explicit" if explicit else "implicit")
    observables = solver.observables([solver.ObservableKind.QFRC_ACTUATOR])
    solver.step(state, state, control, None, 0.01, observables=observables)
    assert state.joint_qd.numpy()[3] == pytest.approx(0.01 * force / 2.0, rel=1e-4)
    assert observables.qfrc_actuator.numpy()[3] == pytest.approx(force, rel=1e-4)


@pytest.mark.parametrize("servo", [False, True])
def test_commands_that_are_no_numbers_are_counted(servo):
    """Ranges do not turn them into something that is."""
    feedback = 'biastype="affine" biasprm="0 -9 0"' if servo else ""
    model = load(f'<general joint="rail" gainprm="1" ctrlrange="-1 1" forcerange="-2 2" {feedback}/>')
    solver, state, control = SolverSAP(model), placed(model), model.control()
    control.mujoco.ctrl.fill_(np.nan)
    solver.step(state, state, control, None, 0.01)
    assert solver.report().non_finite_steps.tolist() == [1]


def test_joint_force_adds_to_motors_and_other_dofs_keep_theirs():
    """What the caller commands beside actuators arrives unchanged, quaternion targets among it."""
    model = load('<motor joint="rail"/>')
    free = load("")
    forces = np.arange(1.0, 8.0)
    results = []
    for each in (model, free):
        each.joint_target_mode.fill_(int(newton.JointTargetMode.POSITION))
        each.joint_target_ke.fill_(30.0)
        state, control = placed(each), each.control()
        control.joint_f.assign(forces)
        goal = control.joint_target_q.numpy()
        goal[:] = 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5
        control.joint_target_q.assign(goal)
        if each is model:
            control.mujoco.ctrl.fill_(2.0)
        SolverSAP(each).step(state, state, control, None, 0.01)
        results.append(state.joint_qd.numpy())
    speed = 0.01 * 2.0 / (2.0 + 0.01**2 * 30.0)
    np.testing.assert_allclose(results[0] - results[1], [0, 0, 0, speed, 0, 0, 0], atol=1e-6)


def test_commands_are_live_between_replays():
    """A captured step reads ``ctrl`` and the actuator's parameters when it is replayed."""
    model = load('<motor joint="rail"/>')
    solver, state, control = SolverSAP(model), placed(model), model.control()
    with wp.ScopedCapture() as capture:
        solver.step(state, state, control, None, 0.01)
    for ctrl, gear, force in ((1.0, 1.0, 1.0), (-4.0, 1.0, -4.0), (-4.0, 3.0, -12.0)):
        before = state.joint_qd.numpy()[3]
        control.mujoco.ctrl.fill_(ctrl)
        model.mujoco.actuator_gear.assign([[gear, 0, 0, 0, 0, 0]])
        wp.capture_launch(capture.graph)
        assert state.joint_qd.numpy()[3] - before == pytest.approx(0.01 * force / 2.0, rel=1e-5)


def test_actuators_explain_an_observed_step():
    """Inverse dynamics of the solver's own step leaves nothing over; a control in explicit order carries ``ctrl``, too."""
    model = load(EVERY_KIND, gravity=-9.81)
    solver, before, after = SolverSAP(model), placed(model), model.state()
    control = solver.control()
    control.mujoco.ctrl.assign([0.5, 0.7, 0.0, 0.4])
    solver.step(before, after, control, None, 0.01)
    explained = solver.inverse_dynamics(before, after, control, None, 0.01)
    assert np.abs(explained.unexplained_force).max() < 1e-3
    control.mujoco.ctrl.zero_()
    assert np.abs(solver.inverse_dynamics(before, after, control, None, 0.01).unexplained_force).max() > 1.0


def test_a_label_finds_the_joint_of_its_own_world():
    """Importers of USD may name an actuator's axis instead of numbering it."""
    model = load('<motor joint="rail"/>', worlds=2)
    model.mujoco.actuator_trnid.fill_(-1)
    model.mujoco.actuator_target_label = ["rail"] * 2
    model.mujoco.joint_dof_label = ["", "", "", "rail", "", "", ""] * 2
    state, control = placed(model), model.control()
    control.mujoco.ctrl.assign([1.0, -3.0])
    SolverSAP(model).step(state, state, control, None, 0.01)
    assert state.joint_qd.numpy()[[3, 10]] == pytest.approx([0.005, -0.015], rel=1e-6)


DRONE = """<mujoco><worldbody>
  <body name="drone" pos="0 0 1" euler="20 30 40"><freejoint/>
    <geom type="box" size=".1 .2 .05" pos=".02 .01 .03" mass="1.3" contype="0" conaffinity="0"/>
    <site name="one" pos=".1 .1 .02" euler="10 0 50"/><site name="two" pos="-.1 .1 0"/></body>
  <site name="ground"/>
</worldbody><actuator>
  <motor site="one" gear="0 0 1 0 0 -.2" ctrlrange="0 5"/>
  <general site="two" gear="0.5 0 2 0 .1 0" gainprm="2" biastype="affine" biasprm="0.3 0 0" forcerange="-1 3"/>
  <motor site="ground" gear="0 0 1 0 0 0"/></actuator></mujoco>"""


def drones(worlds=1):
    """Bodies with thrusters, without gravity."""
    return finish(DRONE, worlds)


def test_thrusters_move_like_mujoco():
    """Motors on sites push and turn their body in the site's axes; 17 rad/s in the end. Each world has its own."""
    ctrl, ends = np.array([[9.0, 0.7, 5.0], [-1.0, 4.0, 5.0]], dtype=np.float32), []
    for make, worlds in ((SolverSAP, 2), (mujoco_c, 1)):
        state = roll_out(make, drones(worlds), 400, 5e-4, ctrl[:worlds])
        ends.append(state.joint_q.numpy().reshape(worlds, 7))
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=3e-3)
    assert abs(ends[0][0] - ends[0][1]).max() > 0.1


FLOATING = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="trunk" pos="0 0 1" euler=".3 .4 .5"><freejoint name="root"/>
    <geom type="box" size=".1 .2 .05" pos=".02 .01 .03" mass="1.3" contype="0" conaffinity="0"/>
    <body name="arm" pos=".1 .05 -.1" euler=".6 .1 .2"><joint name="shoulder" type="ball" pos="0 .02 .05"/>
      <geom type="box" size=".1 .05 .08" pos=".05 .01 -.12" mass="0.7" contype="0" conaffinity="0"/></body></body>
  <body name="head" pos="3 0 1" euler=".2 -.3 .1"><joint name="neck" type="ball"/>
    <geom type="box" size=".1 .05 .08" pos=".05 .01 -.12" mass="0.7" contype="0" conaffinity="0"/></body>
</worldbody><actuator>
  <motor joint="root" gear="1 2 3 .2 .1 .3"/><motor jointinparent="root" gear=".3 0 0 .1 .2 -.2"/>
  <motor joint="shoulder" gear=".1 .2 .3" ctrlrange="-1 .5"/>
  <general jointinparent="shoulder" gear=".2 -.1 .1" gainprm="2" biastype="affine" biasprm=".1 0 0" forcerange="-1 1"/>
  <motor joint="neck" gear=".1 .2 .3"/><motor jointinparent="neck" gear=".2 -.1 .1"/></actuator></mujoco>"""


def turned_anchors(worlds=1):
    """A free body with an arm, and a head, whose joints have other axes on the child than the body."""
    model = finish(FLOATING, worlds)
    X_c = model.joint_X_c.numpy()
    X_c[:, 3:] = wp.normalize(wp.quat(0.1, 0.2, 0.3, 0.9))
    X_c[::3, :3] = 0.1, 0.05, 0.2
    model.joint_X_c.assign(X_c)
    return model


def test_motors_of_free_and_ball_joints_move_like_mujoco():
    """They push bodies: the child and, the other way, the parent; each world has its own."""
    ctrl, ends = np.array([[0.7, 1.0, 0.8, 0.6, 1.1, 0.4], [-0.5, 0.3, -2.0, 0.1, 0.2, -1.0]], np.float32), []
    for make, worlds in ((SolverSAP, 2), (mujoco_c, 1)):
        model = turned_anchors(worlds)
        state = roll_out(make, model, 500, 2e-4, ctrl[:worlds])
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)
        ends.append(state.body_q.numpy().reshape(worlds, -1))
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=3e-4)
    assert abs(ends[0][0] - ends[0][1]).max() > 0.1


@pytest.mark.parametrize("order", ["public", "sap"])
def test_thrusters_add_to_body_wrenches(order):
    """In either order of ``body_f``, which stays as the caller gave it."""
    model, wrench = drones(), np.array([0.4, -0.3, 0.2, 0.05, 0.02, -0.03], dtype=np.float32)
    solver, ends = SolverSAP(model), []
    for ctrl, applied in (([2.0, 0.7, 5.0], wrench), ([2.0, 0.7, 5.0], 0.0 * wrench), ([0.0, -0.15, 0.0], wrench)):
        state, control = solver.state(), model.control()
        state.body_f_order = order
        state.body_f.assign(applied[None])
        control.mujoco.ctrl.assign(ctrl)
        solver.step(state, state, control, None, 1e-3)
        np.testing.assert_array_equal(state.body_f.numpy()[0], applied)
        ends.append(state.joint_qd.numpy())
    np.testing.assert_allclose(ends[0], ends[1] + ends[2], atol=1e-6)
    assert min(abs(ends[1]).max(), abs(ends[2]).max()) > 1e-4


def test_a_label_finds_the_site_of_its_own_world():
    """Importers of USD may name a site instead of numbering it."""
    model, named = drones(2), drones(2)
    named.mujoco.actuator_target_label = [named.shape_label[s] for s in named.mujoco.actuator_trnid.numpy()[:, 0]]
    named.mujoco.actuator_trnid.fill_(-1)
    ends = []
    for each in (model, named):
        state, control = placed(each), each.control()
        control.mujoco.ctrl.assign([1.0, 0.2, 0.0, 3.0, 0.1, 0.0])
        SolverSAP(each).step(state, state, control, None, 0.01)
        ends.append(state.joint_qd.numpy())
    np.testing.assert_array_equal(*ends)
    assert abs(ends[0]).min() > 0.0


SLIDER = """<mujoco><option gravity="0 0 0"/><worldbody><body name="{name}" pos="{x} 0 0">
  <joint name="{name}" type="slide" axis="1 0 0"/><geom type="sphere" size=".1" mass="2"/></body></worldbody>
<actuator>{actuator}</actuator></mujoco>"""


def test_each_part_of_a_model_has_its_own_actuators():
    """Newton's coupled solvers give each solver some joints, but leave the actuators the numbers of the whole."""
    builder = newton.ModelBuilder()
    servo = '<general joint="b" biastype="affine" gainprm="1" biasprm="4 -20 -2"/>'
    for i, (name, actuator) in enumerate({"a": '<motor joint="a"/>', "b": servo, "c": '<motor joint="c"/>'}.items()):
        builder.add_mjcf(SLIDER.format(name=name, x=i, actuator=actuator))
    builder.add_mjcf(
        '<mujoco><worldbody><body pos="9 0 0"><freejoint name="d"/><geom size=".1"/></body></worldbody>'
        '<actuator><motor joint="d" gear="3 2 1 .1 .2 .3"/></actuator></mujoco>'
    )
    model = builder.finalize()
    entry, proxy = SolverCoupledProxy.Entry, SolverCoupledProxy.Proxy("x", "y", bodies=[0])
    entries = [
        entry(name=name, solver=SolverSAP, bodies=own, joints=own) for name, own in {"x": [0], "y": [1, 2, 3]}.items()
    ]
    coupled = SolverCoupledProxy(model, entries=entries, coupling=SolverCoupledProxy.Config(proxies=[proxy]))
    ends = []
    for solver in (coupled, SolverSAP(model)):
        state, other, control = placed(model), model.state(), model.control()
        control.mujoco.ctrl.assign([1.0, 0.0, 3.0, 5.0])
        for _ in range(10):
            solver.step(state, other, control, None, 0.01)
            state, other = other, state
        ends.append(state.joint_q.numpy() - model.joint_q.numpy())
    assert (np.abs(ends[0])[:-1] > 0.002).all()  # of a quaternion, w last
    np.testing.assert_allclose(*ends, atol=1e-7)


REFUSED = {
    "path": ('<motor name="it" tendon="path"/>', "neither on a joint or site nor on a tendon"),
    "crank": ('<motor name="it" cranksite="hook" slidersite="goal" cranklength="1"/>', "neither on a joint or site"),
    "other site": ('<motor name="it" site="hook" refsite="goal" gear="0 0 1 0 0 0"/>', "refsite"),
    "servo on a site": (
        '<general name="it" site="hook" biastype="affine" gainprm="1" biasprm="0 0 -5" gear="0 1 0 0 0 0"/>',
        "servo on a site",
    ),
    "servo on a ball": (
        '<general name="it" joint="neck" biastype="affine" gainprm="1" biasprm="0 -5 0"/>',
        "servo on a free or ball joint",
    ),
    "dynamics": ('<general name="it" joint="rail" dyntype="filter" dynprm="0.1"/>', "dyntype"),
    "damper": ('<damper name="it" joint="rail" kv="2" ctrlrange="0 1"/>', "gaintype"),
    "repelling": ('<general name="it" joint="rail" biastype="affine" gainprm="1" biasprm="0 5 0"/>', "biasprm"),
    "two servos": (
        '<general joint="rail" biastype="affine" gainprm="1" biasprm="0 -5 0"/>'
        '<general name="it" joint="rail" biastype="affine" gainprm="1" biasprm="0 0 -5"/>',
        "another servo",
    ),
    "beside a drive": (
        '<position joint="rail" kp="3"/><general name="it" joint="rail" biastype="affine" gainprm="1" biasprm="0 0 -5"/>',
        "another servo",
    ),
    "armature of a motor": ('<motor name="it" joint="rail" armature="0.1"/>', "armature of its own"),
    "damping of a drive": ('<position name="it" joint="rail" kp="3" damping="2"/>', "damping or armature of its own"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_actuators_are_refused(case):
    """By name, with the reason and a remedy, which works."""
    actuator, reason = REFUSED[case]
    model = load(actuator)
    with pytest.raises(NotImplementedError, match=f"'it'.*{reason}.*actuator_gear") as refusal:
        SolverSAP(model)
    gear = model.mujoco.actuator_gear.numpy()
    gear[int(re.search(r"actuator_gear\[(\d+)\]", str(refusal.value))[1])] = 0.0
    model.mujoco.actuator_gear.assign(gear)
    SolverSAP(model)


def test_force_ranges_of_actuators_that_share_a_drive_are_refused():
    """MuJoCo bounds each; a drive would have one range for their sum. Without ranges they make one drive."""
    file = """<mujoco><worldbody><body><joint name="j" type="slide"/><geom size=".1" mass="1"/></body></worldbody>
      <actuator><position name="it" joint="j" kp="30" {}/><velocity joint="j" kv="3"/></actuator></mujoco>"""
    with pytest.raises(NotImplementedError, match="'it'.* has a forcerange, and shares joint 0"):
        SolverSAP(finish(file.format('forcerange="-2 2"')))
    SolverSAP(finish(file.format("")))


def test_an_actuator_where_nothing_moves_is_refused():
    """A model without a single dof can still have one."""
    builder = newton.ModelBuilder()
    builder.add_mjcf(
        '<mujoco><worldbody><body><geom size=".1"/><site name="hook"/><site name="rod"/></body></worldbody>'
        '<actuator><motor name="it" cranksite="hook" slidersite="rod" cranklength="1"/></actuator></mujoco>'
    )
    with pytest.raises(NotImplementedError, match=r"'it'\) acts neither on a joint or site"):
        SolverSAP(builder.finalize())


def test_commands_of_the_model_serve_where_the_control_has_none():
    """As for its drive targets; those of another model are refused."""
    model = load('<motor joint="rail"/>')
    model.mujoco.ctrl.fill_(2.0)
    solver, state, control = SolverSAP(model), placed(model), newton.Control()
    for given in (control, None):
        before = state.joint_qd.numpy()[3]
        solver.step(state, state, given, None, 0.01)
        assert state.joint_qd.numpy()[3] - before == pytest.approx(0.01 * 2.0 / 2.0, rel=1e-6)
    with pytest.raises(ValueError, match=r"control\.mujoco\.ctrl has 4 entries"):
        solver.step(state, state, load(EVERY_KIND).control(), None, 0.01)


def test_a_program_may_put_this_solver_in_mujocos_place(monkeypatch):
    """A script that says ``newton.solvers.SolverMuJoCo = SolverSAP`` still reads MuJoCo's actuators."""
    monkeypatch.setattr(newton.solvers, "SolverMuJoCo", SolverSAP)
    text = MECHANISM.format(gravity=0, rail="", actuators=EVERY_KIND)
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(text)
    assert len(SolverSAP(builder.finalize()).model.mujoco.ctrl) > 0


HINGE = """<mujoco><worldbody><body><joint name="j" axis="0 0 1" armature="1"/>
  <geom type="sphere" size=".05" mass=".1" contype="0" conaffinity="0"/></body></worldbody><actuator>{}</actuator></mujoco>"""


@pytest.mark.parametrize("change", ["gear", "servo", "range"])
def test_a_notice_tells_of_what_actuators_became(change):
    """What a motor, a servo or a bounded drive is may change at run time; the solver then acts as a new one does."""
    text = {
        "gear": '<motor joint="j" gear="1"/>',
        "servo": '<general joint="j" biastype="affine" gainprm="10" biasprm="0 0 0"/>',
        "range": '<position joint="j" kp="100" forcerange="-1 1"/>',
    }[change]
    model = finish(HINGE.format(text))
    table = model.mujoco
    if change == "gear":
        table.actuator_gear.fill_(0.0)
    solver = SolverSAP(model)
    if change == "gear":
        table.actuator_gear.assign(np.array([[5.0, 0, 0, 0, 0, 0]], np.float32))
    elif change == "servo":
        bias = table.actuator_biasprm.numpy()
        bias[0, 1:3] = -10.0, -1.0
        table.actuator_biasprm.assign(bias)
    else:
        table.actuator_forcerange.assign(np.array([[-5.0, 5.0]], np.float32))
    solver.notify_model_changed(newton.ModelFlags.ACTUATOR_PROPERTIES)
    speeds = []
    for each in (solver, SolverSAP(model)):
        state, control = placed(model), model.control()
        control.mujoco.ctrl.fill_(1.0)
        control.joint_target_q.fill_(1.0)
        each.step(state, state, control, None, 1e-3)
        speeds.append(state.joint_qd.numpy()[0])
    assert speeds[0] == speeds[1] > 3e-3


def test_a_notice_refuses_what_actuators_must_not_become():
    """As construction does, by name."""
    model = finish(HINGE.format('<position joint="j" kp="100"/><position joint="j" kp="50"/>'))
    solver = SolverSAP(model)
    solver.notify_model_changed(newton.ModelFlags.ALL)
    model.mujoco.actuator_has_forcerange.fill_(1)
    model.mujoco.actuator_forcerange.fill_(wp.vec2(-2.0, 2.0))
    with pytest.raises(NotImplementedError, match="has a forcerange, and shares joint 0"):
        solver.notify_model_changed(newton.ModelFlags.ALL)


def test_a_motor_through_its_own_joint_is_part_of_the_joints_wrench():
    """``body_parent_f`` counts it as it counts an equal ``joint_f``, on ball and free joints."""
    text = """<mujoco><worldbody><body name="up" pos="0 0 1"><joint name="h" axis="0 1 0"/>
      <geom type="box" size=".1 .1 .1" mass="1" contype="0" conaffinity="0"/>
      <body name="ball" pos="0 0 .3"><joint type="ball" name="b"/>
        <geom type="box" size=".1 .1 .1" pos=".05 0 0" mass="1" contype="0" conaffinity="0"/></body></body>
      <body name="free" pos="1 0 0"><freejoint name="f"/>
        <geom type="box" size=".1 .1 .1" mass="1" contype="0" conaffinity="0"/></body></worldbody>
      <actuator><motor joint="b" gear="0 0 1"/><motor joint="f" gear="1 0 0 0 0 0"/></actuator></mujoco>"""
    wrenches = []
    for motor in (True, False):
        model = finish(text)
        solver, state, control = SolverSAP(model), placed(model), model.control()
        if motor:
            control.mujoco.ctrl.assign(np.array([0.5, 2.0], np.float32))
        else:
            effort = control.joint_f.numpy()
            effort[[3, 4]] = 0.5, 2.0
            control.joint_f.assign(effort)
        seen = solver.observables({"body_parent_f"})
        solver.step(state, state, control, None, 1e-3, observables=seen)
        wrenches.append(seen.body_parent_f.numpy())
    assert np.abs(wrenches[0][1]).max() > 0.4 and np.abs(wrenches[0][2]).max() > 1.9
    np.testing.assert_allclose(*wrenches, atol=2e-4)


def test_a_position_actuator_of_a_free_joint_is_no_secret():
    """Nothing drives a free joint; the joint is named."""
    text = """<mujoco><worldbody><body><freejoint name="f"/><geom type="sphere" size=".1" mass="1"/></body></worldbody>
      <actuator><position joint="f" kp="100"/></actuator></mujoco>"""
    with pytest.warns(UserWarning, match=r"/f'\).*drives no free, distance or rod joint"):
        SolverSAP(finish(text))
