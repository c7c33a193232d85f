"""MuJoCo's fixed tendons: lengths that are weighted sums of coordinates, against MuJoCo and against laws of joints."""

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish, mujoco_c, placed, roll_out
from newton.solvers import SolverMuJoCo
from newton.solvers.experimental.coupled import SolverCoupledProxy

from newton_sap import SolverSAP

DT = 0.01
MASSES = np.array([2.0, 0.5])

SLIDERS = """<mujoco><worldbody>
  <body name="a"><joint name="a" type="slide" axis="1 0 0" {joint}/>
    <geom type="sphere" size=".1" mass="2" contype="0" conaffinity="0"/><site name="eye"/></body>
  <body name="b" pos="0 1 0"><joint name="b" type="slide" axis="1 0 0"/>
    <geom type="sphere" size=".1" mass="0.5" contype="0" conaffinity="0"/></body>
  <site name="wall" pos="3 0 0"/>
</worldbody><tendon>{tendon}</tendon><actuator>{actuator}</actuator></mujoco>"""

BOTH = '<fixed name="rope" {}><joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/></fixed>'
ONE = '<fixed name="rope" {}><joint joint="a" coef="-3"/></fixed>'
COEF = np.array([1.0, -0.5])

ARM = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="one" pos="0 0 1"><joint name="a" type="hinge" axis="0 1 0" ref="0.1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05" mass="1" contype="0" conaffinity="0"/>
    <body name="two" pos="0 0 -.4"><joint name="b" type="hinge" axis="0 1 0" springref="0.3"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05" mass="1" contype="0" conaffinity="0"/>
      <body name="three" pos="0 0 -.4"><joint name="c" type="slide" axis="0 0 1"/>
        <geom type="sphere" size=".1" mass="1" contype="0" conaffinity="0"/></body></body></body>
</worldbody><tendon>
  <fixed name="rope" {tendon}><joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/><joint joint="c" coef="2"/></fixed>
</tendon><actuator>{actuator}</actuator></mujoco>"""


def sliders(tendon, actuator="", joint="", **how):
    """Two masses on rails."""
    return finish(SLIDERS.format(tendon=tendon, actuator=actuator, joint=joint), **how)


def step(model, q=None, qd=None, ctrl=None, force=None, steps=1, dt=DT, **options):
    """Return coordinates and speeds after some steps."""
    for array, values in ((model.joint_q, q), (model.joint_qd, qd)):
        if values is not None:
            array.assign(values)
    solver, state, control = SolverSAP(model, **options), placed(model), model.control()
    if ctrl is not None:
        control.mujoco.ctrl.assign(ctrl)
    if force is not None:
        control.joint_f.assign(force)
    for _ in range(steps):
        solver.step(state, state, control, None, dt)
    assert solver.report().healthy
    return state.joint_q.numpy(), state.joint_qd.numpy()


@pytest.mark.parametrize(
    ("tendon", "actuator"),
    [
        ('stiffness="80"', ""),
        ('stiffness="80" damping="3" springlength="0.6"', ""),
        ('stiffness="80" damping="3" springlength="0.2 0.6"', ""),
        ('armature="0.4"', '<motor tendon="rope" gear="-2"/>'),
        ('frictionloss="0.2"', '<motor tendon="rope" gear="4" forcerange="-1 0.3"/><motor tendon="rope"/>'),
        ("", '<position tendon="rope" kp="60" kv="3"/>'),
        ("", '<velocity tendon="rope" kv="8" ctrlrange="-0.2 0.2"/>'),
        ('actuatorfrcrange="-2 2"', '<general tendon="rope" biastype="affine" gainprm="60" biasprm="1 -60 -3" gear="1.5"/>'),
        ('actuatorfrcrange="-1 0.4"', '<motor tendon="rope" gear="4"/><motor tendon="rope" gear="2"/>'),
        ('actuatorfrcrange="0 3"', '<general tendon="rope" biastype="affine" gainprm="60" biasprm="1 -60 -3" gear="1.5"/>'),
        ('actuatorfrcrange="-2 1"', '<motor tendon="rope" gear="2"/>' '<position tendon="rope" kp="20" kv="3" gear="2"/>'),
    ],
)  # fmt: skip
def test_moves_like_mujoco(tendon, actuator):
    """An arm of three joints under gravity, for 0.2 s; of first order in the step: 0.003 apart at 0.25 ms, 0.0015 at half."""
    ends = []
    for make in (SolverSAP, mujoco_c):
        model = finish(ARM.format(tendon=tendon, actuator=actuator), gravity=-9.81)
        ends.append(roll_out(make, model, 800, 2.5e-4, 0.5 if actuator else None).joint_q.numpy())
    plain = step(finish(ARM.format(tendon="", actuator=""), gravity=-9.81), steps=800, dt=2.5e-4)[0]
    assert np.abs(ends[1] - plain).max() > 0.02
    np.testing.assert_allclose(*ends, atol=4e-3)


@pytest.mark.parametrize(
    ("tendon", "joint"),
    [
        ('damping="2"', 'damping="18"'),
        ('stiffness="50"', 'stiffness="450"'),
        ('stiffness="50" springlength="0.3"', 'stiffness="450" springref="-0.1"'),
        ('armature="0.5"', 'armature="4.5"'),
        ('frictionloss="1"', 'frictionloss="3"'),
        ('range="-0.6 0.3" limited="true"', 'range="-0.1 0.2" limited="true"'),
    ],
)
@pytest.mark.parametrize("spring_integration", ["implicit", "explicit"])
def test_a_tendon_of_one_joint_is_that_joints_own_law(tendon, joint, spring_integration):
    """With a coefficient of -3: three times the force, nine times stiffness, damping and armature."""
    motion = dict(q=[0.19, 0.0], qd=[1.5, 0.2], force=[1.0, 0.0], spring_integration=spring_integration)
    model = sliders("", joint=joint)
    model.joint_limit_ke.fill_(1e30)  # a tendon's range is near-rigid where it has no stiffness of its own
    model.joint_limit_kd.fill_(1e30 * DT)
    expected = step(model, **motion)
    assert np.abs(expected[1] - step(sliders(""), **motion)[1]).max() > 3e-3
    for ours, theirs in zip(step(sliders(ONE.format(tendon)), **motion), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("drive_integration", ["implicit", "explicit"])
def test_a_servo_on_a_tendon_of_one_joint_is_that_joints_servo(drive_integration):
    """A gear of -3 on the joint does what a coefficient of -3 does."""
    servo = '<general {} biastype="affine" gainprm="20" biasprm="1 -20 -2" forcerange="-9 9"/>'
    motion = dict(q=[0.19, 0.0], qd=[0.5, 0.2], ctrl=[0.4], steps=3, drive_integration=drive_integration)
    expected = step(sliders("", servo.format('joint="a" gear="-3"')), **motion)
    ours = step(sliders(ONE.format(""), servo.format('tendon="rope"')), **motion)
    np.testing.assert_allclose(ours[1], expected[1], atol=2e-6)
    assert abs(expected[1][0] - 0.5) > 0.05


def test_armature_of_a_tendon_couples_branches():
    """``M + a c c^T`` moves; MuJoCo leaves out what does not lie on one chain."""
    speed = step(sliders(BOTH.format('armature="0.7"')), force=[3.0, -1.0])[1]
    inertia = np.diag(MASSES) + 0.7 * np.outer(COEF, COEF)
    np.testing.assert_allclose(speed, DT * np.linalg.solve(inertia, [3.0, -1.0]), rtol=1e-5)


def test_implicit_spring_and_damper_in_closed_form():
    """``(M + h (d + h k) c c^T) v = M v0 - h k L c`` for two masses, the length measured with MuJoCo's offsets."""
    q, qd = np.array([0.3, -0.4]), np.array([0.5, 0.1])
    model = sliders(BOTH.format('stiffness="90" damping="4"'), joint='ref="0.2" springref="0.2"')
    speed = step(model, q=q, qd=qd)[1]
    lhs = np.diag(MASSES) + DT * (4.0 + DT * 90.0) * np.outer(COEF, COEF)
    np.testing.assert_allclose(speed, np.linalg.solve(lhs, MASSES * qd - DT * 90.0 * (COEF @ q) * COEF), rtol=1e-5)


def test_a_joint_may_be_named_twice():
    """Its coefficients add up."""
    twice = '<fixed name="rope" {}><joint joint="a" coef="-4"/><joint joint="a" coef="1"/></fixed>'
    motion = dict(q=[0.19, 0.0], qd=[0.5, 0.2])
    laws = 'stiffness="50" damping="2" armature="0.3" frictionloss="1"'
    for ours, expected in zip(
        step(sliders(twice.format(laws)), **motion), step(sliders(ONE.format(laws)), **motion), strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
@pytest.mark.parametrize("second", ["", 'tendon2="other"'])
def test_an_equality_of_tendons_holds(second):
    """One length as a polynomial of another that shares a joint, both above those at zero coordinates; it can be let go."""
    other = '<fixed name="other"><joint joint="a" coef="2"/><joint joint="b" coef="1"/></fixed>'
    equal = f'<equality><tendon tendon1="rope" {second} polycoef="0.1 0.5 0.7 0 0"/></equality>'
    mjcf = SLIDERS.format(tendon=BOTH.format("") + other, actuator="", joint='ref="0.3"')
    model = finish(mjcf.replace("</mujoco>", equal + "</mujoco>"))
    q, qd = step(model, force=[1.0, 2.0], steps=60)
    beside = 2.0 * q[0] + q[1] if second else 0.0
    assert COEF @ q == pytest.approx(0.1 + 0.5 * beside + 0.7 * beside**2, abs=1e-3)
    assert abs(q).max() > 0.1 and (not second or abs(qd).max() > 0.1)
    model.mujoco.equality_constraint_enabled.fill_(False)
    np.testing.assert_allclose(
        step(model, qd=[0.0, 0.0], force=[1.0, 2.0])[1], DT * np.array([1.0, 2.0]) / MASSES, rtol=1e-5
    )


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_a_range_holds_a_pull(way):
    """Rope over a pulley: both masses stop where the length ends, as stiffly as a joint's rigid limit."""
    model = sliders(BOTH.format('range="-0.1 0.2" limited="true"'), actuator='<motor tendon="rope" gear="5"/>')
    q, qd = step(model, ctrl=[way], force=[1.0, 2.0], steps=300)
    assert COEF @ q == pytest.approx(0.2 if way > 0 else -0.1, abs=2e-4)
    assert abs(COEF @ qd) < 1e-5 and abs(qd).max() > 1.0


def test_a_range_yields_by_its_own_stiffness():
    """``tendon_limit_ke`` [N/m]: the static excess is force over stiffness."""
    model = sliders(ONE.format('range="-0.6 0.3" limited="true"'))
    model.mujoco.tendon_limit_ke.fill_(200.0)
    model.mujoco.tendon_limit_kd.fill_(40.0)
    q, _ = step(model, force=[-30.0, 0.0], steps=2000)
    assert -3.0 * q[0] == pytest.approx(0.3 + 10.0 / 200.0, abs=1e-4)


def test_stiff_servo_reaches_its_goal():
    """An explicit servo of this gain would need steps of 0.6 ms; what it does not see is left alone."""
    servo = '<general tendon="rope" biastype="affine" gainprm="1e7" biasprm="0 -1e7 -1e5" gear="2"/>'
    q, _ = step(sliders(BOTH.format(""), servo), ctrl=[0.8], steps=100)
    assert COEF @ q == pytest.approx(0.4, abs=1e-4)
    # No momentum across the length.
    assert q[0] * MASSES[0] / COEF[0] == pytest.approx(q[1] * MASSES[1] / COEF[1], rel=1e-3)


def test_each_world_has_its_own_tendons():
    """Commands and parameters by world; equal ones give the bits of a world of its own."""
    actuator = '<motor tendon="rope"/><position tendon="rope" kp="50" kv="2"/>'
    many = sliders(BOTH.format('damping="1"'), actuator, worlds=3)
    many.mujoco.tendon_damping.assign([1.0, 1.0, 20.0])
    ctrl = np.array([[1.0, 0.2], [-2.0, 0.1], [1.0, 0.2]])
    q, _ = step(many, ctrl=ctrl.ravel(), steps=5)
    for world in range(3):
        one = sliders(BOTH.format('damping="1"'), actuator)
        one.mujoco.tendon_damping.assign(many.mujoco.tendon_damping.numpy()[world : world + 1])
        np.testing.assert_array_equal(q.reshape(3, 2)[world], step(one, ctrl=ctrl[world], steps=5)[0])
    assert not np.allclose(q[:2], q[4:])


def test_parameters_are_live_between_replays():
    """A captured step reads parameters and commands when it is replayed."""
    model = sliders(ONE.format('damping="1"'), '<motor tendon="rope"/>')
    solver, state, control = SolverSAP(model), placed(model), model.control()
    with wp.ScopedCapture() as capture:
        solver.step(state, state, control, None, DT)
    for damping, ctrl in ((1.0, 2.0), (7.0, 2.0), (7.0, -1.0)):
        model.mujoco.tendon_damping.fill_(damping)
        control.mujoco.ctrl.fill_(ctrl)
        before = state.joint_qd.numpy()[0]
        wp.capture_launch(capture.graph)
        expected = (2.0 * before - DT * 3.0 * ctrl) / (2.0 + DT * 9.0 * damping)
        assert state.joint_qd.numpy()[0] == pytest.approx(expected, rel=1e-5)


def test_a_tendon_that_only_measures_changes_nothing():
    """Not a bit, and a path that exerts nothing is let pass."""
    path = '<spatial name="path"><site site="eye"/><site site="wall"/></spatial>'
    motion = dict(q=[0.1, 0.2], qd=[0.5, -0.3], force=[1.0, 2.0], steps=5)
    for ours, plain in zip(step(sliders(BOTH.format("") + path), **motion), step(sliders(""), **motion), strict=True):
        np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("name", ["stiffness", "damping", "frictionloss", "armature", "range", "limit_ke"])
def test_live_parameters_that_are_no_numbers_are_counted(name):
    """Whichever of them becomes one after construction."""
    model = sliders(BOTH.format('range="-0.1 0.2" limited="true"'))
    solver, state = SolverSAP(model), placed(model)
    state.joint_qd.fill_(1.0)
    getattr(model.mujoco, f"tendon_{name}").fill_(np.nan)
    for _ in range(2):
        solver.step(state, state, None, None, 1.0)
    assert solver.report().non_finite_steps[0] > 0


def test_tendons_explain_an_observed_step():
    """Inverse dynamics of the solver's own step leaves nothing over."""
    model = sliders(BOTH.format('stiffness="50" damping="2"'), '<motor tendon="rope"/>')
    solver, before, after, control = SolverSAP(model), placed(model), model.state(), model.control()
    control.mujoco.ctrl.fill_(3.0)
    solver.step(before, after, control, None, DT)
    explained = solver.inverse_dynamics(before, after, control, None, DT)
    assert np.abs(explained.unexplained_force).max() < 1e-4


GRIPPER = """<mujoco><worldbody>
  <body name="left" pos="0 0 .5"><joint name="left" type="slide" axis="1 0 0"/>
    <geom type="box" size=".01 .02 .04" pos="-.05 0 0" mass=".1"/></body>
  <body name="right" pos="0 0 .5"><joint name="right" type="slide" axis="-1 0 0"/>
    <geom type="box" size=".01 .02 .04" pos=".05 0 0" mass=".1"/></body>
  <body name="load" pos="0 0 .5"><freejoint/><geom type="box" size=".03 .03 .03" mass=".3"/></body>
</worldbody>
<tendon><fixed name="split"><joint joint="left" coef="0.5"/><joint joint="right" coef="0.5"/></fixed></tendon>
<equality><joint joint1="left" joint2="right"/></equality>
<actuator><general tendon="split" biastype="affine" gainprm="400" biasprm="0 -400 -20" forcerange="-20 20"/></actuator></mujoco>"""


def test_a_gripper_holds_its_load_by_one_tendon():
    """As arms of MuJoCo's collection do: both fingers on one servo, equal by an equality; the load does not slip."""
    model = finish(GRIPPER, gravity=-9.81)
    model.shape_material_mu.fill_(0.8)
    pipeline = newton.CollisionPipeline(model)
    solver, state, control = SolverSAP(model), placed(model), model.control()
    contacts = pipeline.contacts()
    control.mujoco.ctrl.fill_(0.04)
    heights = []
    for _ in range(200):
        pipeline.collide(state, contacts)
        solver.step(state, state, control, contacts, 0.005)
        heights.append(state.body_q.numpy()[2, 2])
    assert heights[100] > 0.49 and heights[-1] == pytest.approx(heights[100], abs=1e-4)
    assert solver.report().healthy


def test_each_part_of_a_model_has_its_own_tendons():
    """Newton's coupled solvers give each solver some joints, but leave the tendons the numbers of the whole."""
    third = '<mujoco><worldbody><body><joint name="c" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body></worldbody></mujoco>'
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(third)
    builder.add_mjcf(
        SLIDERS.format(
            tendon=BOTH.format('stiffness="90" springlength="0.2"'), actuator='<motor tendon="rope"/>', joint=""
        )
    )
    model = builder.finalize()
    entry, proxy = SolverCoupledProxy.Entry, SolverCoupledProxy.Proxy("x", "y", bodies=[0])

    def coupled(**parts):
        entries = [entry(name=name, solver=SolverSAP, bodies=own, joints=own) for name, own in parts.items()]
        return SolverCoupledProxy(model, entries=entries, coupling=SolverCoupledProxy.Config(proxies=[proxy]))

    ends = []
    for solver in (coupled(x=[0], y=[1, 2]), SolverSAP(model)):
        state, other, control = placed(model), model.state(), model.control()
        control.mujoco.ctrl.fill_(4.0)
        for _ in range(10):
            solver.step(state, other, control, None, DT)
            state, other = other, state
        ends.append(state.joint_q.numpy())
    assert abs(ends[0][1]) > 0.01
    np.testing.assert_allclose(*ends, atol=1e-7)
    with pytest.raises(NotImplementedError, match=r"tendon 0 \('rope'\) sums joints of several solvers"):
        coupled(x=[0, 1], y=[2])


BALL = """<mujoco><worldbody><body><joint name="a" type="hinge" axis="1 0 0"/><joint name="b" type="hinge" axis="0 1 0"/>
<geom size=".1"/></body></worldbody><tendon><fixed name="rope"><joint joint="a" coef="1"/></fixed></tendon></mujoco>"""
SERVO = '<position name="{}" tendon="rope" kp="3" kv="1"/>'


def test_joints_that_no_tendon_can_sum_are_refused():
    """A joint of several axes, by name."""
    with pytest.raises(NotImplementedError, match=r"tendon 0 \('rope'\) sums joint 0 .* no hinge or slide"):
        SolverSAP(finish(BALL))


def test_a_joint_that_closes_a_loop_is_refused():
    """Its coordinate is measured, not moved."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(SLIDERS.format(tendon="", actuator="", joint=""))
    closing = builder.add_joint_prismatic(0, 1, axis=(1.0, 0.0, 0.0))
    newton.solvers.mujoco.add_tendon_fixed(builder, [(0, 1.0), (closing, 1.0)], label="rope", stiffness=5.0)
    with pytest.raises(NotImplementedError, match="'rope'.* sums a joint that closes a loop"):
        SolverSAP(builder.finalize())


@pytest.mark.parametrize(("name", "value"), [("joint_num", 9), ("joint", -1)])
def test_joints_that_the_model_does_not_have_are_refused(name, value):
    """Rather than left out of the sum."""
    model = sliders(BOTH.format('stiffness="5"'))
    getattr(model.mujoco, f"tendon_{name}").fill_(value)
    with pytest.raises(NotImplementedError, match=r"tendon 0 \('rope'\) sums joints that the model does not have"):
        SolverSAP(model)


def test_a_second_servo_is_refused():
    """A tendon has room for one."""
    with pytest.raises(NotImplementedError, match=r"'it'.* servo on tendon 0 \('rope'\), which another"):
        SolverSAP(sliders(BOTH.format(""), SERVO.format("first") + SERVO.format("it")))


@pytest.mark.parametrize(
    ("name", "value"), [("stiffness", -1.0), ("damping", np.nan), ("range", np.inf), ("coef", np.nan)]
)
def test_parameters_that_make_no_sense_are_refused(name, value):
    """At construction, by name and value."""
    model = sliders(BOTH.format(""))
    getattr(model.mujoco, f"tendon_{name}").fill_(value)
    with pytest.raises(ValueError, match=f"tendon_{name}.* finite"):
        SolverSAP(model)


def test_a_motor_may_lose_its_gear_while_it_runs():
    """It then exerts nothing."""
    model = sliders(BOTH.format(""), '<motor tendon="rope" gear="2"/>')
    solver, control = SolverSAP(model), model.control()
    control.mujoco.ctrl.fill_(1.0)
    speeds = []
    for gear in (2.0, 0.0):
        model.mujoco.actuator_gear.fill_(0.0)
        table = model.mujoco.actuator_gear.numpy()
        table[:, 0] = gear
        model.mujoco.actuator_gear.assign(table)
        state = placed(model)
        solver.step(state, state, control, None, DT)
        speeds.append(state.joint_qd.numpy())
    np.testing.assert_allclose(speeds, [DT * 2.0 * COEF / MASSES, [0.0, 0.0]], rtol=1e-5)
    assert solver.report().healthy
