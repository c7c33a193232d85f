"""MuJoCo's spatial tendons: lengths of paths over sites, against MuJoCo, closed forms and differences of the length."""

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish, mujoco_c, placed, roll_out
from newton.solvers.experimental.coupled import SolverCoupledProxy
from rig import put

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

DT = 0.01
G = 9.81
ObservableKind = newton.solvers.SolverBase.ObservableKind
SPATIAL = (
    '<spatial name="rope" {}><site site="wall"/><site site="high"/><site site="low"/><site site="back"/>{}</spatial>'
)
BRANCH = '<pulley divisor="2"/><site site="beam"/><site site="corner"/>'
ARM = """<mujoco><compiler angle="radian"/><worldbody>
  <site name="wall" pos=".1 .05 1.6"/><site name="beam" pos="-.3 .1 1.2"/>
  <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/><joint type="hinge" axis="1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05" mass="1" contype="0" conaffinity="0"/>
    <site name="high" pos=".08 0 -.2"/><site name="back" pos="-.1 .02 -.1"/>
    <body pos="0 0 -.4"><joint type="hinge" axis="0 1 0" springref="0.3"/>
      <geom name="shin" type="capsule" fromto="0 0 0 0 0 -.4" size=".05" mass="1" contype="0" conaffinity="0"/>
      <site name="low" pos=".07 .02 -.3"/></body></body>
  <body pos="1 0 1"><freejoint/><geom type="box" size=".1 .15 .05" mass="2" contype="0" conaffinity="0"/>
    <site name="corner" pos=".1 .1 .02"/></body>
</worldbody><tendon>{tendon}</tendon><actuator>{actuator}</actuator></mujoco>"""


def arm(effect="", actuator="", more=BRANCH, **how):
    """A double pendulum and a free box, both on one tendon; it leaves and comes back to the pendulum's upper link."""
    return finish(ARM.format(tendon=SPATIAL.format(effect, more), actuator=actuator), **how)


def end(make, model, ctrl=None):
    """Coordinates after 0.1 s."""
    return roll_out(make, model, 400, 2.5e-4, ctrl).joint_q.numpy()


@pytest.mark.parametrize(
    ("tendon", "actuator", "ctrl"),
    [
        ('stiffness="800" damping="30"', "", None),
        ('stiffness="80" springlength="2.3 2.5"', "", None),
        ('stiffness="20" springlength="1.9"', "", None),
        ("", '<motor tendon="rope" gear="-4"/>', 1.5),
        ("", '<position tendon="rope" kp="30" kv="3"/>', 2.0),
        ('damping="2"', '<position tendon="rope" kp="60" kv="3" forcerange="-5 5"/>', 2.0),
        ('frictionloss="0.2"', '<motor tendon="rope" gear="4"/>', 1.0),
    ],
)
def test_moves_like_mujoco(tendon, actuator, ctrl):
    """MuJoCo's C engine at small steps, to first order; over a pulley, and back to a body it was on."""
    ends = []
    for make in (SolverSAP, mujoco_c):
        ends.append(end(make, arm(tendon, actuator, gravity=-G), ctrl))
    np.testing.assert_allclose(*ends, atol=2e-3)
    assert abs(ends[0] - end(SolverSAP, arm(gravity=-G))).max() > 0.01


def test_armature_moves_like_mujoco():
    """On one chain, where MuJoCo has it; at speed, where the turning of the path tells."""
    ends = []
    for make, armature in ((SolverSAP, 30), (mujoco_c, 30), (SolverSAP, 0)):
        model = arm(f'armature="{armature}"', '<motor tendon="rope" gear="-9"/>', more="", gravity=-G)
        put(model.joint_qd, [4.0, -3.0, 6.0, *np.zeros(6)])
        ends.append(end(make, model, 5.0))
    np.testing.assert_allclose(ends[0], ends[1], atol=5e-3)
    assert abs(ends[0] - ends[2]).max() > 0.1


def measure(model, kin):
    """The path's length and its Jacobian, by the kinematics of the reference."""
    body, local = model.shape_body.numpy(), model.shape_transform.numpy()[:, :3].astype(float)
    shape = {label.rsplit("/", 1)[1]: s for s, label in enumerate(model.shape_label)}
    length, J = 0.0, 0.0
    for a, b, share in (("wall", "high", 1.0), ("high", "low", 1.0), ("low", "back", 1.0), ("beam", "corner", 0.5)):
        owners = [body[shape[name]] for name in (a, b)]
        points = [kin.to_world(owner, local[shape[name]]) for owner, name in zip(owners, (a, b), strict=True)]
        d = points[1] - points[0]
        rates = [kin.jacobian(owner, point)[1] for owner, point in zip(owners, points, strict=True)]
        length += share * np.linalg.norm(d)
        J = J + share * d / np.linalg.norm(d) @ (rates[1] - rates[0])
    return length, J


def test_implicit_spring_and_damper_in_closed_form():
    """``(A + h (d + h k) J' J) v = A v* - h k (L - L0) J'``, with the Jacobian and the A of the reference."""
    model, options = arm('stiffness="70" damping="5" springlength="2.0"', gravity=-G), {"position_update": "sap_euler"}
    put(model.joint_q, [0.3, -0.2, 0.5, *model.joint_q.numpy()[3:]])
    put(model.joint_qd, [0.4, 0.2, -0.3, 0.1, 0.2, -0.1, 0.5, 1.0, -0.7])
    state = placed(model)
    solver = SolverSAP(model, **options)
    for name in ("stiffness", "damping"):
        getattr(model.mujoco, f"tendon_{name}").zero_()
    reference = ReferenceSolver(model, **options)
    free = reference.step(state, None, None, DT)
    m = reference.read(state, None)
    length, J = measure(model, reference.kinematics(m, m.q, free.v0))
    lhs = free.A + DT * (5.0 + DT * 70.0) * np.outer(J, J)
    expected = np.linalg.solve(lhs, free.A @ free.v_star - DT * 70.0 * (length - 2.0) * J)
    model.mujoco.tendon_stiffness.fill_(70.0)
    model.mujoco.tendon_damping.fill_(5.0)
    solver.step(state, state, None, None, DT)
    np.testing.assert_allclose(state.joint_qd.numpy()[:3], expected[:3], atol=1e-5)
    assert abs(expected - free.v_star)[:3].max() > 0.5


PAIR = """<mujoco><worldbody>
  <body name="a" pos="0 0 1" euler="20 30 40"><freejoint/><geom type="sphere" size=".2" mass="1.3" contype="0" conaffinity="0"/>
    <site name="a" pos=".1 .2 .05"/></body>
  <body name="b" pos=".6 .3 1.2"><freejoint/><geom type="sphere" size=".15" mass="2" contype="0" conaffinity="0"/>
    <site name="b" pos="-.1 .05 .1"/></body>
</worldbody><tendon><spatial name="rope" {}><site site="a"/><site site="b"/></spatial></tendon></mujoco>"""


@pytest.mark.parametrize(
    "effect", ['stiffness="200" springlength="0.2"', 'damping="5"', 'range="0 0.55" limited="true"']
)
def test_a_tendon_between_free_bodies_keeps_momentum(effect):
    """Linear and angular: its force is one line."""
    model = finish(PAIR.format(effect))
    put(model.joint_qd, [0.3, 0.0, 0.1, 2.0, -1.0, 0.5, -0.2, 0.4, 0.0, 0.0, 1.0, -2.0])
    solver, state = SolverSAP(model), placed(model)
    before = solver.report(state)
    for _ in range(10):
        solver.step(state, state, None, None, 0.002)
    after = solver.report(state)
    size = np.abs(before.angular_momentum).max()
    np.testing.assert_allclose(after.linear_momentum, before.linear_momentum, atol=1e-6 * size)
    np.testing.assert_allclose(after.angular_momentum, before.angular_momentum, atol=1e-6 * size)
    free, untied = placed(model), SolverSAP(finish(PAIR.format("")))
    for _ in range(10):
        untied.step(free, free, None, None, 0.002)
    assert abs(free.joint_qd.numpy() - state.joint_qd.numpy()).max() > 0.01


HANGING = """<mujoco><worldbody><site name="top" pos="0 0 2"/>
  <body name="load" pos="0 0 1"><freejoint/><geom type="sphere" size=".1" mass="2" contype="0" conaffinity="0"/><site name="hook"/></body>
</worldbody><tendon><spatial name="rope" range="0 {}" limited="true"><site site="top"/><site site="hook"/></spatial></tendon></mujoco>"""


def test_a_load_swings_on_a_rope():
    """A range is a rope: it holds the length, and the load swings as a pendulum does."""
    model = finish(HANGING.format(1.0), gravity=-G)
    put(model.joint_qd, [0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    solver, state, crossings = SolverSAP(model), placed(model), []
    for step in range(2500):
        before = state.body_q.numpy()[0, 0]
        solver.step(state, state, None, None, 0.002)
        where = state.body_q.numpy()[0, :3]
        assert np.linalg.norm(where - [0.0, 0.0, 2.0]) < 1.0 + 1e-4
        if before * where[0] < 0.0:
            crossings.append(0.002 * step)
    assert np.diff(crossings).mean() == pytest.approx(np.pi * np.sqrt(1.0 / G), rel=5e-3)
    assert solver.report().healthy


def test_a_rope_that_is_too_short_draws_its_load_in():
    """By MuJoCo's time constant, and does not throw it: a step alone would do so at 50 m/s."""
    model = finish(HANGING.format(0.5))
    solver, state, fastest = SolverSAP(model), placed(model), 0.0
    for _ in range(60):
        solver.step(state, state, None, None, 0.005)
        fastest = max(fastest, np.abs(state.joint_qd.numpy()).max())
    assert 5.0 < fastest < 15.0
    assert state.body_q.numpy()[0, 2] > 1.5 - 1e-3


def test_a_pulley_halves_the_force():
    """The branch behind it counts by half in the length, and so does its pull."""
    speeds = []
    for more in (BRANCH, BRANCH.replace("divisor='2'", "").replace('divisor="2"', 'divisor="1"')):
        model = arm("", '<motor tendon="rope"/>', more)
        state, control = placed(model), model.control()
        control.mujoco.ctrl.fill_(-3.0)
        SolverSAP(model).step(state, state, control, None, DT)
        speeds.append(state.joint_qd.numpy()[3:6])
    np.testing.assert_allclose(speeds[0], 0.5 * speeds[1], rtol=1e-5)
    assert abs(speeds[0]).max() > 1e-3


def test_wrenches_of_joints_leave_the_tendon_out():
    """A motor on the path and the same pull by ``body_f`` give the joints the same load."""
    loads = []
    for by_tendon in (True, False):
        model = arm("", '<motor tendon="rope" gear="-1"/>', more="", gravity=-G)
        solver, state, out, control = SolverSAP(model), placed(model), model.state(), model.control()
        seen = solver.observables({ObservableKind.BODY_PARENT_F})
        if by_tendon:
            control.mujoco.ctrl.fill_(20.0)
        else:
            apply_pull(model, state, 20.0)
        solver.step(state, out, control, None, 1e-3, observables=seen)
        loads.append((seen.body_parent_f.numpy()[:2], out.joint_qd.numpy()))
    np.testing.assert_allclose(loads[0][1], loads[1][1], atol=1e-5)
    np.testing.assert_allclose(loads[0][0], loads[1][0], atol=2e-3)
    assert abs(loads[0][0]).max() > 10.0


OTHER = '<spatial name="other"><site site="beam"/><site site="back"/></spatial>'


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
@pytest.mark.parametrize("second", ["", 'tendon2="other"'])
def test_wrenches_of_joints_leave_equalities_of_paths_out(second):
    """What the equality holds, applied by ``body_f`` instead, loads the joints alike."""
    equal = f'</tendon><equality><tendon tendon1="rope" {second} polycoef="0 0.5 0 0 0"/></equality>'
    text = ARM.replace("{tendon}</tendon>", "{tendon}" + OTHER + equal).format(
        tendon=SPATIAL.format("", ""), actuator=""
    )
    loads, pull = [], 0.0
    for enabled in (True, False):
        model = finish(text, gravity=-G)
        model.mujoco.equality_constraint_enabled.fill_(enabled)
        solver, state, out = SolverSAP(model), placed(model), model.state()
        put(state.joint_qd, [0.4, 0.2, -0.3, *np.zeros(6)])
        seen = solver.observables({ObservableKind.BODY_PARENT_F})
        if not enabled:
            apply_pull(model, state, -pull)
            if second:
                apply_pull(model, state, 0.5 * pull, ("beam", "back"))
        solver.step(state, out, None, None, 1e-3, observables=seen)
        pull = solver.pools.couplers.gamma.numpy().sum() / 1e-3
        loads.append((seen.body_parent_f.numpy()[:2], out.joint_qd.numpy()))
    np.testing.assert_allclose(loads[0][1], loads[1][1], atol=1e-5)
    np.testing.assert_allclose(loads[0][0], loads[1][0], rtol=1e-4, atol=2e-2)
    assert abs(loads[0][0]).max() > 10.0


def apply_pull(model, state, tension, names=("wall", "high", "low", "back")):
    """Draw neighbouring sites of the path together by ``body_f``, about each COM."""
    poses, com = state.body_q.numpy(), model.body_com.numpy()
    body, local = model.shape_body.numpy(), model.shape_transform.numpy()
    shapes = [next(s for s, n in enumerate(model.shape_label) if n.endswith(f"/{k}")) for k in names]
    pose = [wp.transform(*(float(x) for x in p)) for p in poses]
    points = [
        local[s, :3] if body[s] < 0 else np.array(wp.transform_point(pose[body[s]], wp.vec3(*local[s, :3])))
        for s in shapes
    ]
    wrench = np.zeros((model.body_count, 6))
    for i in range(len(points) - 1):
        u = (points[i + 1] - points[i]) / np.linalg.norm(points[i + 1] - points[i])
        for b, point, force in (
            (body[shapes[i]], points[i], tension * u),
            (body[shapes[i + 1]], points[i + 1], -tension * u),
        ):
            if b >= 0:
                arm_ = point - np.array(wp.transform_point(pose[b], wp.vec3(*com[b])))
                wrench[b] += [*force, *np.cross(arm_, force)]
    put(state.body_f, state.body_f.numpy() + wrench)


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
def test_an_equality_holds_a_path():
    """At a length above that at zero coordinates: a rod; the load swings at its end, and can be let go."""
    rod = '</tendon><equality><tendon tendon1="rope" polycoef="-0.2 1 0 0 0"/></equality>'
    text = HANGING.replace('range="0 {}" limited="true"', "").replace("</tendon>", rod)
    model = finish(text, gravity=-G)
    put(model.joint_qd, [0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    solver, state = SolverSAP(model), placed(model)
    for _ in range(200):
        solver.step(state, state, None, None, 0.005)
    assert np.linalg.norm(state.body_q.numpy()[0, :3] - [0.0, 0.0, 2.0]) == pytest.approx(0.8, abs=1e-3)
    model.mujoco.equality_constraint_enabled.fill_(False)
    fall = state.joint_qd.numpy()[2]
    solver.step(state, state, None, None, 0.005)
    assert state.joint_qd.numpy()[2] - fall == pytest.approx(-0.005 * G, rel=1e-4)


def test_an_equality_of_a_path_that_is_not_simulated_is_refused():
    """The tendon exerts nothing, but the row would."""
    wrapped = (
        SPATIAL.format("", '<geom geom="shin"/><site site="corner"/>')
        + '</tendon><equality><tendon tendon1="rope"/></equality>'
    )
    text = ARM.replace("{tendon}</tendon>", wrapped).format(actuator="")
    with pytest.raises(NotImplementedError, match=r"equality constraint 0 \(''\) ties tendon 0 \('rope'\)"):
        SolverSAP(finish(text))


def test_sites_in_one_place_have_no_direction():
    """Nothing pulls there, and nothing is undefined."""
    model = finish(
        HANGING.replace('pos="0 0 1"', 'pos="0 0 2"').replace('limited="true"', 'stiffness="50"').format(1.0)
    )
    solver, state = SolverSAP(model), placed(model)
    solver.step(state, state, None, None, DT)
    np.testing.assert_array_equal(state.joint_qd.numpy(), 0.0)
    assert solver.report().healthy


def test_building_a_solver_leaves_the_model_alone():
    """Rest lengths are worked out beside it."""
    model = arm('stiffness="5"')
    before = [array.numpy().copy() for array in (model.joint_q, model.joint_qd, model.body_q)]
    SolverSAP(model)
    for array, was in zip((model.joint_q, model.joint_qd, model.body_q), before, strict=True):
        np.testing.assert_array_equal(array.numpy(), was)


def test_each_world_has_its_own_paths():
    """Commands by world; equal ones give the bits of a world of its own."""
    actuator, ctrl, q = '<position tendon="rope" kp="30" kv="3"/>', [2.0, 2.4, 2.2], []
    for worlds, commands in ((3, ctrl), *((1, [c]) for c in ctrl)):
        model = arm('stiffness="10"', actuator, worlds=worlds, gravity=-G)
        solver, state, control = SolverSAP(model), placed(model), model.control()
        control.mujoco.ctrl.assign(commands)
        for _ in range(5):
            solver.step(state, state, control, None, DT)
        q.append(state.joint_q.numpy().reshape(worlds, -1))
    np.testing.assert_array_equal(q[0], np.concatenate(q[1:]))
    assert abs(q[1] - q[2]).max() > 1e-3


def test_springs_along_paths_hold_energy():
    """Half k times the stretch squared, and none in the interval left free."""
    for rest, stretched in (("0.2", 0.8), ("0.9 1.1", 0.0)):
        text = HANGING.replace('range="0 {}" limited="true"', f'stiffness="50" springlength="{rest}"')
        model = finish(text)
        report = SolverSAP(model).report(placed(model))
        assert report.potential_energy == pytest.approx([25.0 * stretched**2], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "value"), [("prm", 0.0), ("prm", np.nan), ("type", 7), ("shape", -1), ("num", 99), ("adr", -1)]
)
def test_paths_that_make_no_sense_are_refused(name, value):
    """A pulley without a divisor, an unknown entry, a missing site."""
    model = arm('stiffness="5"')
    getattr(model.mujoco, f"tendon_wrap_{name}").fill_(value)
    with pytest.raises(NotImplementedError, match=r"tendon 0 \('rope'\) (has a pulley|runs over)"):
        SolverSAP(model)


def test_a_path_past_a_part_of_a_model_is_refused():
    """Newton's coupled solvers renumber the sites."""
    model = arm('stiffness="5"')
    entry = SolverCoupledProxy.Entry
    entries = [
        entry(name="x", solver=SolverSAP, bodies=[0, 1], joints=[0, 1]),
        entry(name="y", solver=SolverSAP, bodies=[2], joints=[2]),
    ]
    coupling = SolverCoupledProxy.Config(proxies=[SolverCoupledProxy.Proxy("x", "y", bodies=[1])])
    with pytest.raises(NotImplementedError, match=r"tendon 0 \('rope'\).* past a part of a model"):
        SolverCoupledProxy(model, entries=entries, coupling=coupling)
