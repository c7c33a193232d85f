"""Newton's own tendons, ropes over guides: against closed forms, MuJoCo's tendons, the capstan equation and conservation laws."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish, mujoco_c, roll_out
from newton import TendonGuide, TendonGuideType
from newton.solvers import SolverMuJoCo
from rig import G, Rig, link, put, weightless

DT = 1.0e-3
RADIUS = 0.2
HIGH = 3.5
HOLDS = 1000.0
"""Friction by which nothing slips."""


def point(body, offset=(0.0, 0.0, 0.0), **material):
    """An end of a rope."""
    return TendonGuide(body=body, offset=offset, **material)


def hole(body=-1, offset=(0.0, 0.0, HIGH), **material):
    """A pinhole."""
    return TendonGuide(body=body, guide_type=TendonGuideType.PINHOLE, offset=offset, **material)


def roller(body=-1, offset=(0.0, 0.0, HIGH), radius=RADIUS, axis=(0.0, 1.0, 0.0), **material):
    """A roller."""
    return TendonGuide(
        body=body, guide_type=TendonGuideType.ROLLER, offset=offset, radius=radius, axis=axis, **material
    )


def weight(builder, x, mass, z=2.0):
    """A body that moves up and down."""
    body = link(builder, mass, 0.01)
    joint = builder.add_joint_prismatic(-1, body, axis=(0.0, 0.0, 1.0), parent_xform=wp.transform((x, 0.0, z)))
    builder.add_articulation([joint])
    return body


def wheel(builder, inertia, place=(0.0, 0.0, HIGH)):
    """A pulley on an axle along y."""
    body = link(builder, 1.0, inertia)
    joint = builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), parent_xform=wp.transform(place))
    builder.add_articulation([joint])
    return body


def hoist(masses=(1.0, 3.0), inertia=None, mu=0.0, compliance=1.0e-6, damping=0.1):
    """Two weights on a rope over a pulley, which turns if it has inertia."""
    builder = newton.ModelBuilder()
    left, right = (weight(builder, side * RADIUS, mass) for side, mass in zip((-1.0, 1.0), masses, strict=True))
    material = dict(compliance=compliance, damping=damping)
    over = roller(mu=mu, **material)
    if inertia is not None:
        over = roller(wheel(builder, inertia), (0.0, 0.0, 0.0), mu=mu, **material)
    builder.add_tendon([point(left), over, point(right, **material)])
    return builder


def tensions(rig):
    """Of the last step."""
    return rig.solver.tendon_segment_tension.numpy()


# Closed forms ---------------------------------------------------------------------------------------------------------


def test_weights_over_a_hole():
    """Atwood's machine without a wheel."""
    builder = newton.ModelBuilder()
    left, right = weight(builder, -1.0e-4, 1.0), weight(builder, 1.0e-4, 3.0)
    builder.add_tendon([point(left), hole(compliance=1e-6, damping=0.1), point(right, compliance=1e-6, damping=0.1)])
    rig = Rig(builder, DT).run(400)
    np.testing.assert_allclose(rig.v, [0.4 * G / 2, -0.4 * G / 2], rtol=1e-3)
    np.testing.assert_allclose(tensions(rig), 1.5 * G, rtol=5e-3)
    assert rig.solver.report().unconverged_steps.sum() == 0


@pytest.mark.parametrize("mu, inertia", [(0.0, 1.0), (0.1, 1.0), (0.2, 1.0), (HOLDS, 1.0), (0.2, 0.02), (0.2, None)])
@pytest.mark.parametrize("compliance", [0.0, 1.0e-6])
def test_the_capstan_equation(mu, inertia, compliance):
    """A pulley turns with the rope as far as the ratio of its tensions allows; what is more slips."""
    left, right = 1.0, 3.0
    heavy = np.inf if inertia is None else inertia / RADIUS**2
    ratio = math.exp(min(mu * math.pi, 30.0))
    a = 0.0 if inertia is None else G * (right - left) / (left + right + heavy)  # nothing slips
    if right * (G - a) > ratio * left * (G + a):
        a = G * (right - ratio * left) / (right + ratio * left)
    T = np.array([left * (G + a), right * (G - a)])
    rig = Rig(hoist((left, right), inertia, mu, compliance), DT).run(400)
    np.testing.assert_allclose(tensions(rig), T, rtol=5e-3)
    np.testing.assert_allclose(rig.v[:2], [0.4 * a, -0.4 * a], rtol=2e-2, atol=2e-3)
    if inertia is not None:
        np.testing.assert_allclose(rig.v[2], 0.4 * (T[1] - T[0]) * RADIUS / inertia, rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("dt", [1.0e-3, 4.0e-3])
def test_friction_stops_a_rope_and_holds_it(dt):
    """Equal weights, thrown: the rope comes to rest on a fixed roller where friction says, and stays."""
    rig = Rig(hoist((2.0, 2.0), mu=0.2, compliance=1e-6), dt, v=[1.0, -1.0])
    ratio = math.exp(0.2 * math.pi)
    braking = G * (ratio - 1.0) / (ratio + 1.0)
    rig.run(round(0.6 / dt))
    np.testing.assert_allclose(rig.q[0], 0.5 / braking, rtol=10.0 * dt)
    still = rig.q
    rig.run(round(1.0 / dt))
    np.testing.assert_allclose(rig.q, still, atol=2e-6)
    np.testing.assert_allclose(rig.v, 0.0, atol=1e-4)


@pytest.mark.parametrize("mu", [0.05, 0.2])
def test_friction_adds_up_over_many_holes(mu):
    """Euler and Eytelwein: around half a turn of pinholes."""
    builder = weightless()
    body = weight(builder, 0.1, 0.1, 0.0)
    angles = np.linspace(math.pi, 0.0, 9)
    holes = [hole(offset=(0.1 * math.cos(a), 0.0, 0.1 * math.sin(a)), mu=mu, compliance=1e-6) for a in angles]
    builder.add_tendon([point(-1, (-0.1, 0.0, -0.2)), *holes, point(body, (0.0, 0.0, -0.2), compliance=1e-6)])
    rig = Rig(builder, 5.0e-3)
    for load in np.linspace(0.0, 10.0, 200):
        put(rig.control.joint_f, [-load])
        rig.run()
    T = tensions(rig)
    np.testing.assert_allclose(T[-1], 10.0, rtol=1e-3)
    np.testing.assert_allclose(T[0] / T[-1], math.exp(-mu * math.pi), rtol=1e-2)


def test_a_movable_pulley_halves_the_load():
    """A weight under a movable pulley hangs in balance with half of it at the end of the rope."""
    builder = newton.ModelBuilder()
    block, end = weight(builder, 0.0, 4.0, 1.0), weight(builder, 3 * RADIUS, 2.0, 1.5)
    rope = dict(compliance=1e-6, damping=100.0)
    builder.add_tendon(
        [
            point(-1, (-RADIUS, 0.0, HIGH)),
            roller(block, (0.0, 0.0, 0.0), orientation=-1, **rope),
            roller(-1, (2 * RADIUS, 0.0, HIGH), **rope),
            point(end, **rope),
        ]
    )
    rig = Rig(builder, DT, v=[0.1, -0.2]).run(500)
    np.testing.assert_allclose(rig.v, [0.1, -0.2], atol=3e-3)
    np.testing.assert_allclose(tensions(rig), 2.0 * G, rtol=2e-3)


@pytest.mark.parametrize("mu", [0.0, HOLDS])
def test_a_drum_winds_a_rope_up(mu):
    """A roller at the end of a rope is a drum: what is wound up lifts the weight, however far it has turned."""
    builder = newton.ModelBuilder()
    drum, load = wheel(builder, 50.0), weight(builder, RADIUS, 1.0, -1.0)
    builder.add_tendon([roller(drum, (0.0, 0.0, 0.0), mu=mu), point(load, compliance=1e-6, damping=1.0)])
    builder.body_flags[drum] = int(newton.BodyFlags.KINEMATIC)
    rig = Rig(builder, DT)
    speed = 4.0
    for step in range(2000):
        put(rig.state.joint_q, [-speed * DT * step])
        put(rig.state.joint_qd, [-speed])
        rig.run()
    np.testing.assert_allclose(rig.q[1], RADIUS * speed * 2.0, atol=3e-3)
    np.testing.assert_allclose(tensions(rig), G, rtol=1e-2)


@pytest.mark.parametrize("kinematic", [False, True])
@pytest.mark.parametrize("speed", [3.0, -3.0])
def test_a_fast_spool_winds_more_than_half_a_turn_per_step(speed, kinematic):
    """At five radians per step, on a drum that its owner turns or that is heavy."""
    dt, radius, steps = 1.0 / 60.0, 0.01, 60
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    drum, load = wheel(builder, 0.5), weight(builder, radius, 0.1, -20.0)
    guides = [point(load), roller(drum, (0.0, 0.0, 0.0), radius=radius, mu=10.0, compliance=1e-5, damping=1.0)]
    builder.add_tendon(guides)
    if kinematic:
        builder.body_flags[drum] = int(newton.BodyFlags.KINEMATIC)
    rate = speed / radius
    rig = Rig(builder, dt, v=[rate, speed])
    for step in range(steps):
        if kinematic:
            put(rig.state.joint_q, [rate * dt * step])
            put(rig.state.joint_qd, [rate])
        rig.run(1)
    turned = rig.q[0] + (rate * dt if kinematic else 0.0)
    assert abs(turned) > 0.9 * abs(rate) * dt * steps
    np.testing.assert_allclose(
        rig.q[1], radius * turned, atol=0.02 * abs(speed) + (abs(speed) * dt if kinematic else 0.0)
    )


def test_a_rope_that_hangs_slack_does_nothing_until_it_is_taut():
    """A ball falls freely as far as the rope lets it, and then hangs there."""
    builder = newton.ModelBuilder()
    ball = weight(builder, 0.0, 1.0, 0.0)
    builder.add_tendon([point(-1), point(ball, compliance=1e-5, damping=20.0, rest_length=0.2)])
    rig = Rig(builder, DT).run(200)
    np.testing.assert_allclose(rig.v, -0.2 * G, rtol=1e-5)
    assert tensions(rig) == 0.0
    rig.run(2000)
    np.testing.assert_allclose(rig.q, -0.2 - 1e-5 * G, atol=1e-6)
    np.testing.assert_allclose(tensions(rig), G, rtol=1e-3)


def test_damping_slows_a_spring():
    """One elastic span is a spring with a damper while it is taut."""
    builder = weightless()
    ball = weight(builder, 0.0, 2.0, -1.0)
    stiffness, damping = 200.0, 4.0
    builder.add_tendon([point(-1), point(ball, compliance=1.0 / stiffness, damping=damping, rest_length=0.8)])
    rig = Rig(builder, 1e-4).run(1000)
    rate, t = damping / 4.0, 0.1
    own = math.sqrt(stiffness / 2.0 - rate**2)
    stretch = 0.2 * math.exp(-rate * t) * (math.cos(own * t) + rate / own * math.sin(own * t))
    np.testing.assert_allclose(rig.q, 0.2 - stretch, atol=2e-4)


# Conservation ---------------------------------------------------------------------------------------------------------


def thrown_together(mu):
    """Three free bodies on a rope, which goes over a roller and through a hole of the middle one."""
    builder = weightless()
    bodies = [link(builder, mass, 0.05 * mass, com=wp.vec3(0.02, -0.01, 0.03)) for mass in (1.0, 3.0, 2.0)]
    for body, place in zip(bodies, ((-0.5, 0.1, -0.6), (0.0, 0.0, 0.0), (0.6, -0.1, -0.5)), strict=True):
        builder.add_articulation([builder.add_joint_free(body)])
        builder.joint_q[-7:-4] = place
    rope = dict(compliance=1e-4, damping=0.5, mu=mu)
    builder.add_tendon(
        [
            point(bodies[0], (0.0, 0.05, 0.1)),
            roller(bodies[1], (0.05, 0.0, 0.1), 0.1, (0.1, 1.0, 0.0), **rope),
            hole(bodies[1], (0.25, 0.05, 0.1), **rope),
            point(bodies[2], (0.0, 0.0, 0.1), compliance=1e-4, damping=0.5),
        ]
    )
    return builder


@pytest.mark.parametrize("mu", [0.0, 0.3, HOLDS])
def test_a_rope_conserves_momentum(mu):
    """Also over rollers on flying bodies, with friction; and it never gains energy."""
    v = np.concatenate(
        [[-1.0, 0.5, -1.0, 0.5, -2.0, 1.0], [0.0, 0.3, 0.5, 0.4, 1.0, -0.3], [1.0, -0.2, -0.7, 0.0, 2.0, 1.0]]
    )
    rig = Rig(thrown_together(mu), DT, v=v)
    before, most = rig.solver.report(rig.state), 0.0
    for _ in range(300):
        most = max(most, tensions(rig.run()).max())
    after = rig.solver.report(rig.state)
    assert most > 20.0
    np.testing.assert_allclose(after.linear_momentum, before.linear_momentum, atol=2e-5)
    np.testing.assert_allclose(after.angular_momentum, before.angular_momentum, atol=5e-4)
    energy = [r.kinetic_energy.sum() + r.potential_energy.sum() for r in (before, after)]
    assert energy[1] < energy[0] * (1.0 + 1e-4)


def test_an_elastic_rope_keeps_its_energy():
    """To first order in the step."""
    lost = []
    for dt in (1.0e-3, 5.0e-4):
        rig = Rig(hoist(inertia=0.02, compliance=1e-3, damping=0.0), dt)
        before = rig.solver.report(rig.state)
        rig.run(round(0.3 / dt))
        after = rig.solver.report(rig.state)
        assert after.potential_energy.sum() < before.potential_energy.sum() - 1.0
        lost.append(
            sum(r.kinetic_energy.sum() + r.potential_energy.sum() for r in (before,))
            - (after.kinetic_energy.sum() + after.potential_energy.sum())
        )
    assert 0.0 < lost[1] < 0.6 * lost[0] < 0.1


@pytest.mark.parametrize("mu", [0.0, 0.2, HOLDS])
def test_a_rope_keeps_its_length(mu):
    """What spans and rollers hold of it, while it runs over a turning pulley."""
    rig = Rig(hoist(inertia=0.3, mu=mu), DT).run(500)
    solver = rig.solver
    q = rig.body_q
    tangents = [solver.tendon_segment_attachment_r.numpy()[0], solver.tendon_segment_attachment_l.numpy()[1]]
    u, v = (p - [0.0, 0.0, HIGH] for p in tangents)
    wrapped = RADIUS * math.acos(np.clip(u @ v / RADIUS**2, -1.0, 1.0))
    held = rig.state.tendon_segment_rest_length.numpy().sum() + wrapped
    np.testing.assert_allclose(held, solver.tendon_total_cable.numpy()[0], atol=2e-5)
    np.testing.assert_allclose(q[0, 2] + q[1, 2], 4.0, atol=2e-4)


# Against MuJoCo -------------------------------------------------------------------------------------------------------

PEG = """<mujoco><compiler angle="radian"/><worldbody>
  <site name="wall" pos="-.5 0 1"/><geom name="peg" type="cylinder" size=".1 .3" pos="0 0 1.1" euler="1.5707963 0 0" contype="0"
    conaffinity="0"/><site name="above" pos="0 0 1.5"/>
  <body pos="{} 0 {}"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
    <geom type="sphere" size=".05" mass="1" contype="0" conaffinity="0"/><site name="end"/></body>
</worldbody>{tendon}</mujoco>"""
ROPE = (
    '<tendon><spatial stiffness="300" springlength="0 {}"><site site="wall"/><geom geom="peg" sidesite="above"/>'
    '<site site="end"/></spatial></tendon>'
)


@pytest.mark.parametrize("place, v, long", [((0.4, 1.6), (0.0, 0.0), 1.1), ((0.6, 0.9), (-0.5, 4.0), 1.15)])
def test_a_dynamic_roller_is_met_and_left_like_mujocos(place, v, long):
    """A ball on a rope falls on a peg, or is thrown up from there: without friction, MuJoCo's tendon around a cylinder."""
    dt = 2.5e-4
    model = finish(PEG.format(*place, tendon=ROPE.format(long)), gravity=-G)
    put(model.joint_qd, v)
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(PEG.format(*place, tendon=""))
    rope = dict(compliance=0.5 / 300.0)
    ends = point(-1, (-0.5, 0.0, 1.0)), point(builder.body_count - 1, **rope)
    builder.add_tendon([ends[0], roller(-1, (0.0, 0.0, 1.1), 0.1, dynamic=True, **rope), ends[1]])
    rig, touched = Rig(builder, dt, v=v), []
    solver = rig.solver
    short = 0.5 * (solver.tendon_total_cable.numpy()[0] - long)
    laid = solver.tendon_segment_rest_length.numpy()
    rig.state.tendon_segment_rest_length.assign(laid - (short if laid[1] > 0.0 else [2.0 * short, 0.0]))
    for steps in (1000, 2000, 3000):
        for _ in range(1000):
            rig.run()
            touched.append(bool(solver.tendon_guide_active.numpy()[1]))
        np.testing.assert_allclose(rig.q, roll_out(mujoco_c, model, steps, dt).joint_q.numpy(), atol=4e-3)
    assert any(touched) and not all(touched)


# Friction at large steps ----------------------------------------------------------------------------------------------


def swinging_hoist(guides, kind, load, v, mu=0.3, **material):
    """1 kg that hangs askew and is thrown, and a load, both free, on a rope over fixed guides."""
    builder = newton.ModelBuilder()
    bodies = [link(builder, mass, 0.01) for mass in (1.0, load)]
    for body, x, z in zip(bodies, (-0.3, 0.1 + 0.3 * (guides - 1)), (1.0, 1.2), strict=True):
        builder.add_articulation([builder.add_joint_free(body)])
        builder.joint_q[-7:] = [x, 0.0, z, 0.0, 0.0, 0.0, 1.0]
    builder.joint_qd[1] = v
    over = [kind(offset=(0.3 * i, 0.0, 2.0), mu=mu, **material) for i in range(guides)]
    builder.add_tendon([point(bodies[0]), *over, point(bodies[1], **material)])
    return builder


def small_roller(**where):
    return roller(radius=0.1, **where)


@pytest.mark.parametrize("dt", [1.0 / 30.0, 1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("compliance", [0.0, 1.0e-5])
@pytest.mark.parametrize(
    ("guides", "kind", "load", "v"),
    [(1, hole, 1.02, 3.0), (1, small_roller, 1.5, 3.0), (3, small_roller, 1.02, 3.0), (1, hole, 5.0, 3.0)],
)
def test_friction_only_takes_energy_and_ropes_only_pull(guides, kind, load, v, compliance, dt):
    """Friction of the start of the step, as a given force, had spans push with up to 700 kN and 1e8 J of 26 after a fifth of a second."""
    rig = Rig(swinging_hoist(guides, kind, load, v, compliance=compliance, damping=2.0 * (compliance > 0.0)), dt)
    before = mechanical_energy(rig, (1.0, load))
    for _ in range(round(2.0 / dt)):
        rig.run()
        assert tensions(rig).min() > -1.0e-6
        assert mechanical_energy(rig, (1.0, load)) < before + 0.2
    assert rig.solver.report().healthy


def mechanical_energy(rig, masses):
    """Of bodies without the rope [J]."""
    v, z = rig.state.body_qd.numpy().astype(float), rig.state.body_q.numpy()[:, 2]
    moving = 0.5 * np.array(masses) @ (v[:, :3] ** 2).sum(axis=1) + 0.005 * (v[:, 3:] ** 2).sum()
    return float(moving + G * np.array(masses) @ z)


@pytest.mark.parametrize("guides", [1, 2, 3])
@pytest.mark.parametrize("dt", [1.0e-3, 1.0 / 240.0])
def test_a_stiff_rope_slips_over_several_guides(guides, dt):
    """Spans between fixed guides, which nothing stretches, pass on what they cannot keep: Atwood and Eytelwein."""
    builder = newton.ModelBuilder()
    left, right = weight(builder, -0.1, 1.0), weight(builder, 0.1 + 0.3 * (guides - 1), 3.0)
    over = [roller(offset=(0.3 * i, 0.0, HIGH), radius=0.1, mu=0.3) for i in range(guides)]
    builder.add_tendon([point(left), *over, point(right)])
    rig = Rig(builder, dt)
    speeds = []
    for _ in range(round(0.4 / dt)):
        rig.run()
        speeds.append(rig.v[0])
    ratio = math.exp(0.3 * math.pi)
    a = G * (3.0 - ratio) / (3.0 + ratio)
    assert (speeds[-1] - speeds[len(speeds) // 4]) / (0.3 - dt) == pytest.approx(a, rel=0.03)
    np.testing.assert_allclose(tensions(rig)[[0, -1]], [G + a, 3.0 * (G - a)], rtol=5.0e-3)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
def test_the_report_knows_what_slipped(dt):
    """A rope that slides with friction holds what its tensions stretch it by, not what passed in the last step."""
    rig = Rig(hoist((1.0, 1.5), mu=0.05, compliance=1.0e-5, damping=2.0), dt).run(round(0.5 / dt))
    report = rig.solver.report(rig.state)
    held = float(report.kinetic_energy.sum() + report.potential_energy.sum()) - mechanical_energy(rig, (1.0, 1.5))
    assert held == pytest.approx(0.5e-5 * (tensions(rig) ** 2).sum(), abs=2.0e-3)


@pytest.mark.parametrize("dt", [1.0e-3, 1.0 / 240.0])
@pytest.mark.parametrize("compliance", [0.0, 1.0e-6])
@pytest.mark.parametrize("end", [1.0, 2.0, 4.0])
def test_friction_at_both_rollers_of_a_block_and_tackle(end, compliance, dt):
    """It lifts, holds or lets down 4 kg by what its friction leaves: the spans between both rollers shorten as one lifts."""
    builder = newton.ModelBuilder()
    block, load = weight(builder, 0.0, 4.0, 1.0), weight(builder, 3 * RADIUS, end, 1.5)
    rope, mu, under = dict(compliance=compliance), 0.1, 0.15
    builder.add_tendon(
        [
            point(-1, (-RADIUS, 0.0, HIGH)),
            roller(block, (0.0, 0.0, 0.0), orientation=-1, mu=under, **rope),
            roller(-1, (2 * RADIUS, 0.0, HIGH), mu=mu, **rope),
            point(load, **rope),
        ]
    )
    rig = Rig(builder, dt)
    speeds = []
    for _ in range(round(0.4 / dt)):
        rig.run()
        speeds.append(rig.v[0])
    over, below = math.exp(mu * math.pi), math.exp(under * math.pi)
    lifts, lowers = (1.0 + 1.0 / below) / over, over * (1.0 + below)  # tensions at the block over that at the end
    a = max(G * (end * lifts - 4.0) / (4.0 + 2.0 * end * lifts), 0.0)
    a += min(G * (end * lowers - 4.0) / (4.0 + 2.0 * end * lowers), 0.0)
    count = len(speeds)
    gained = speeds[-1] - speeds[count // 4]
    assert gained / (dt * (count - 1 - count // 4)) == pytest.approx(a, rel=0.02, abs=0.01)
    assert tensions(rig)[-1] == pytest.approx(end * (G - 2.0 * a), rel=0.01)
