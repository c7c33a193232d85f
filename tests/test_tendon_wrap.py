"""MuJoCo's spatial tendons around spheres and cylinders, against MuJoCo and by what a frictionless surface cannot do."""

import newton
import numpy as np
import pytest
from mjcf import finish, mujoco_c, placed, roll_out
from newton.solvers import SolverMuJoCo
from rig import put

from newton_sap import SolverSAP

G = 9.81
Kind = SolverSAP.ObservableKind
LEG = """<mujoco><compiler angle="radian"/><worldbody>
  <site name="wall" pos=".3 .02 1.5"/>
  <geom name="post" type="{post}" size=".1 .2" pos=".15 0 1.2" euler="1.5 .1 0" contype="0" conaffinity="0"/>
  <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/><joint type="hinge" axis="1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05" mass="1" contype="0" conaffinity="0"/>
    <site name="hip" pos=".05 0 -.1"/>
    <body pos="0 0 -.4"><joint type="hinge" axis="0 1 0"/>
      <geom name="knee" type="{knee}" size=".08 .1" euler="1.57 0 0" mass=".1" contype="0" conaffinity="0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05" mass="1" contype="0" conaffinity="0"/>
      <site name="low" pos=".07 .02 -.3"/><site name="cap" pos=".2 0 0"/><site name="core" pos=".01 0 0"/></body></body>
</worldbody><tendon><spatial name="rope" {effect}><site site="wall"/><geom geom="post"/><site site="hip"/>
  <geom geom="knee" sidesite="{side}"/><site site="low"/></spatial></tendon><actuator>{actuator}</actuator></mujoco>"""


def leg(post="sphere", knee="cylinder", effect="", side="cap", actuator="", **how):
    """Two links; the tendon goes around a post and around the knee."""
    return finish(LEG.format(post=post, knee=knee, effect=effect, side=side, actuator=actuator), **how)


@pytest.mark.parametrize(("post", "knee"), [("sphere", "cylinder"), ("cylinder", "sphere")])
@pytest.mark.parametrize(
    ("effect", "actuator"),
    [('stiffness="100" damping="3" springlength="1.0"', ""), ("", '<motor tendon="rope" gear="-20"/>')],
)
def test_moves_like_mujoco(post, knee, effect, actuator):
    """MuJoCo's C engine at small steps, from a moving start, to first order."""
    ends = []
    for make in (SolverSAP, mujoco_c):
        model = leg(post, knee, effect, actuator=actuator, gravity=-G)
        put(model.joint_qd, [2.0, 1.0, -3.0])
        ends.append(roll_out(make, model, 400, 2.5e-4, 1.5 if actuator else None).joint_q.numpy())
    np.testing.assert_allclose(*ends, atol=3e-3)
    assert abs(ends[0]).max() > 0.3


def test_lengths_are_mujocos():
    """Sixty random ways past spheres and cylinders; about half go around, some on the other side of a site."""
    rng = np.random.default_rng(3)

    def place(reach):
        return " ".join(f"{x:.4f}" for x in rng.uniform(-reach, reach, 3))

    world, body, tendons = "", "", ""
    for i in range(60):
        kind, sided = ("sphere", "cylinder")[i % 2], f'sidesite="s{i}"' * (i % 3 > 0)
        world += f'<geom name="g{i}" type="{kind}" size=".2 .3" pos="{place(0.2)}" euler="{place(180.0)}" contype="0" conaffinity="0"/>'
        world += f'<site name="a{i}" pos="{place(0.7)}"/><site name="s{i}" pos="{place(0.8)}"/>'
        body += f'<site name="b{i}" pos="{place(0.7)}"/>'
        tendons += f'<spatial stiffness="1"><site site="a{i}"/><geom geom="g{i}" {sided}/><site site="b{i}"/></spatial>'
    model = finish(
        f'<mujoco><worldbody>{world}<body><joint type="hinge"/><geom size=".05" contype="0" conaffinity="0"/>{body}</body>'
        f"</worldbody><tendon>{tendons}</tendon></mujoco>"
    )
    # A side inside a geometry would keep the tendon inside; there is none here.
    tied = SolverSAP(model).couplings.tendons
    theirs = SolverMuJoCo(model, use_mujoco_cpu=True).mj_model.tendon_length0
    np.testing.assert_allclose(tied.zero_length.numpy(), theirs, atol=2e-6)
    state = placed(model)
    sites, local = (tied.site_a.numpy(), tied.site_b.numpy()), model.shape_transform.numpy()[:, :3]
    straight = np.linalg.norm(local[sites[0]] - local[sites[1]], axis=1)  # the body is where the world is
    assert np.allclose(state.body_q.numpy()[0], [0, 0, 0, 0, 0, 0, 1])
    assert 15 < (theirs > straight + 1e-5).sum() < 50


def test_free_axes_carry_no_load():
    """Joints that nothing drives take no moment about their axes: all of the tendon's pull is the tendon's."""
    model = leg(actuator='<motor tendon="rope" gear="-1"/>', gravity=-G)
    solver, state, out, control = SolverSAP(model), placed(model), model.state(), model.control()
    control.mujoco.ctrl.fill_(50.0)
    seen = solver.observables({Kind.BODY_PARENT_F})
    solver.step(state, out, control, None, 1e-4, observables=seen)
    wrench, poses, com = seen.body_parent_f.numpy().astype(float), state.body_q.numpy(), model.body_com.numpy()
    for body, axes in ((0, ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])), (1, ([0.0, 1.0, 0.0],))):
        moment = wrench[body, 3:] + np.cross(com[body], wrench[body, :3])  # about the joint, upright bodies
        assert np.allclose(poses[body, 3:], [0.0, 0.0, 0.0, 1.0])
        for axis in axes:
            assert moment @ axis == pytest.approx(0.0, abs=2e-2)
    assert abs(wrench[:, :3]).max() > 20.0 and abs(out.joint_qd.numpy()).max() > 1e-3


THREE = """<mujoco><worldbody>
  <body pos="-.4 0 1"><freejoint/><geom size=".1" mass="1" contype="0" conaffinity="0"/><site name="a" pos=".05 .03 .02"/></body>
  <body pos="0 0 1.05"><freejoint/><geom name="ball" size=".15" mass="2" contype="0" conaffinity="0"/></body>
  <body pos=".4 .1 1"><freejoint/><geom size=".1" mass="1.5" contype="0" conaffinity="0"/><site name="b" pos="0 -.05 .01"/></body>
</worldbody><tendon><spatial name="rope" {}><site site="a"/><geom geom="ball"/><site site="b"/></spatial></tendon></mujoco>"""


def test_three_free_bodies_keep_momentum():
    """Linear and angular, with the tendon bent around the one in the middle."""
    rates = [0.3, 0.0, 0.1, 1.0, -1.0, 0.5, 0.0, 0.2, 0.0, 0.3, 0.1, 0.0, -0.2, 0.4, 0.0, 0.0, 1.0, -1.0]
    reports = []
    for effect in ('stiffness="300" springlength="0.4"', ""):
        model = finish(THREE.format(effect))
        put(model.joint_qd, rates)
        solver, state = SolverSAP(model), placed(model)
        reports.append(solver.report(state))
        for _ in range(10):
            solver.step(state, state, None, None, 0.002)
        reports.append(solver.report(state))
    before, after, _, free = reports
    size = np.abs(before.angular_momentum).max()
    np.testing.assert_allclose(after.linear_momentum, before.linear_momentum, atol=1e-6 * size)
    np.testing.assert_allclose(after.angular_momentum, before.angular_momentum, atol=1e-6 * size)
    assert after.kinetic_energy[0] > free.kinetic_energy[0] + 0.1


def test_a_tendon_slides_around_a_post_without_loss():
    """A spring that pulls a mass around a post gives it all of its energy."""
    text = """<mujoco><worldbody><geom name="post" type="cylinder" size=".2 .5" contype="0" conaffinity="0"/>
      <site name="wall" pos="-1 .25 0"/><body pos="0 0 0"><joint type="slide" axis="0 1 0"/>
      <geom size=".1" mass="1" pos="1 0 0" contype="0" conaffinity="0"/><site name="hook" pos="1 0 0"/></body></worldbody>
      <tendon><spatial stiffness="20" springlength="1.5"><site site="wall"/><geom geom="post"/><site site="hook"/></spatial></tendon>
      </mujoco>"""
    model = finish(text)
    put(model.joint_q, [-1.0])
    solver, state, totals = SolverSAP(model), placed(model), []
    for _ in range(1000):
        solver.step(state, state, None, None, 2e-4)
        report = solver.report(state)
        totals.append(report.kinetic_energy[0] + report.potential_energy[0])
    assert np.ptp(totals) < 0.01 * max(totals)
    assert report.kinetic_energy[0] > 0.15 * max(totals)


@pytest.mark.parametrize(
    ("shape", "side", "reason"),
    [("capsule", "cap", "neither a sphere nor a cylinder"), ("cylinder", "core", "through the inside of a geometry")],
)
def test_what_a_tendon_cannot_go_around_is_refused(shape, side, reason):
    """By name, with a remedy; it may measure."""
    with pytest.raises(NotImplementedError, match=rf"tendon 0 \('rope'\) .*{reason}; .*SolverMuJoCo"):
        SolverSAP(leg(knee=shape, effect='stiffness="5"', side=side))
    SolverSAP(leg(knee=shape, side=side))


def test_a_radius_is_live():
    """As the model's other parameters."""
    speeds = []
    for radius in (0.08, 0.12):
        model = leg(effect='stiffness="100" springlength="1"')
        solver, state = SolverSAP(model), placed(model)
        knee = [s for s, kind in enumerate(model.shape_type.numpy()) if kind == int(newton.GeoType.CYLINDER)]
        scale = model.shape_scale.numpy()
        scale[knee, 0] = radius
        model.shape_scale.assign(scale)
        solver.step(state, state, None, None, 0.001)
        speeds.append(state.joint_qd.numpy())
    assert abs(speeds[0] - speeds[1]).max() > 1e-4


@pytest.mark.parametrize("below", [-1e-3, -5e-6, -2e-6, 2e-6, 5e-6, 1e-3])
def test_armature_feels_no_kick_where_a_tendon_leaves_a_post(below):
    """Past the post the tendon points elsewhere; that is no turn of where it points."""
    model = finish("""<mujoco><option gravity="0 0 0"/><worldbody><site name="wall" pos="-1 0 .1"/>
      <geom name="post" type="cylinder" size=".1 .3" euler="90 0 0" contype="0" conaffinity="0" mass="0"/>
      <body pos="1 0 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
        <geom type="sphere" size=".02" mass="1" contype="0" conaffinity="0"/><site name="end"/></body>
      </worldbody><tendon><spatial name="rope" armature="1"><site site="wall"/><geom geom="post"/><site site="end"/>
      </spatial></tendon></mujoco>""")
    model.gravity.zero_()
    solver, state = SolverSAP(model), model.state()
    put(state.joint_q, [0.0, 0.1 - below])
    put(state.joint_qd, [1.0, 1.0])
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    solver.step(state, state, None, None, 2e-3)
    np.testing.assert_allclose(state.joint_qd.numpy(), 1.0, atol=2e-3)
