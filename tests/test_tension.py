"""Links that are too light for the tension through them: chains swing, hang and hold together, and nothing else is damped."""

import newton
import numpy as np
import pytest
import warp as wp
from loop_scenes import furnish
from rig import G, link, put, weightless
from test_against_reference import TIGHT, assert_same_step
from test_taut_chains import loaded_chain

from newton_sap import SolverSAP
from newton_sap.boundary import topology
from newton_sap.reference import ReferenceSolver
from newton_sap.scenes import loaded_chain as loaded_chain_scene

Axis = newton.ModelBuilder.JointDofConfig
HALF = 0.05
"""Of the length of a link [m]."""
HEAVY, LIGHT = dict(mass=1.0, inertia=1.0e-3), dict(mass=0.01, inertia=1.0e-6)
UNDER = dict(parent_xform=wp.transform((0.0, 0.0, -HALF)), child_xform=wp.transform((0.0, 0.0, HALF)))
"""Link under link, their ends together."""


def rollout(model, time, dt):
    """Energies [J], and how far the last body is from the plumb line [m], in every third step."""
    solver, state = SolverSAP(model), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    energy, away = [], []
    for i in range(round(time / dt)):
        if i % 3 == 0:
            report = solver.report(state)
            energy.append(float(report.kinetic_energy[0] + report.potential_energy[0]))
            away.append(float(np.linalg.norm(state.body_q.numpy()[-1, :2])))
        solver.step(state, state, None, None, dt)
    assert solver.report().healthy
    return np.array(energy), np.array(away)


@pytest.mark.parametrize("load", [1.0, 10.0])
@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("tie", ["hinges", "balls"])
def test_a_load_hangs_on_a_hundredth_and_a_thousandth_of_its_mass(tie, dt, load):
    """Links could swing by up to 27 radians per step; nothing damps them but what tension asks for."""
    energy, away = rollout(loaded_chain(tie, dt, damped=0.0, load=load), 4.0, dt)
    assert energy.max() <= energy[0] + 1.0e-6 * load
    assert away[len(away) // 2 :].max() < 1.05 * away[:20].max()


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize(("load", "left"), [(0.01, 0.85), (1.0, 0.99), (10.0, 0.99)])
def test_a_chain_swings_on(load, left, dt):
    """Links and their load from near the horizontal: what is damped is how they move against each other, not how the load swings.

    With little load the links take some of the swing: at 0.25 ms it keeps 0.88.
    """
    energy, away = rollout(loaded_chain_scene(links=9, load=load).model, 4.0, dt)
    assert energy.max() < energy[0] + 0.1 * (load + 0.05) * G * 0.5
    assert away[len(away) // 2 :].max() > left * away[0]


def level_platform(tie, rods):
    """2 kg that keep level on rods of 50 g and 0.3 m, at 0.3 rad: hung by the middle from one, in a tree, or from two by loop joints."""
    builder, length, angle = newton.ModelBuilder(gravity=(0.0, 0.0, -G)), 0.3, 0.3
    turned = wp.quat_from_axis_angle(wp.vec3(0.0, -1.0, 0.0), angle)
    down = wp.quat_rotate(turned, wp.vec3(0.0, 0.0, -length))
    platform = link(builder, mass=2.0, inertia=0.1, xform=wp.transform(down))
    if rods == 2:
        builder.add_articulation([builder.add_joint_free(platform)])
        builder.joint_q[:3] = list(down)
    for x in (0.0,) if rods == 1 else (-0.4, 0.4):
        rod = link(builder, mass=0.05, inertia=0.05 * length**2 / 12.0)
        top, end = wp.transform((0.0, 0.0, 0.5 * length)), wp.transform((0.0, 0.0, -0.5 * length))
        at = wp.transform((x, 0.0, 0.0))
        joints = [builder.add_joint_revolute(-1, rod, axis=(0.0, -1.0, 0.0), parent_xform=at, child_xform=top)]
        builder.joint_q[-1] = angle
        if rods == 2:
            builder.add_articulation(joints)
        if tie == "balls":
            joints.append(builder.add_joint_ball(rod, platform, parent_xform=end, child_xform=at))
        else:
            hinge = dict(axis=(0.0, -1.0, 0.0), parent_xform=end, child_xform=at)
            joints.append(builder.add_joint_revolute(rod, platform, **hinge))
        if rods == 1:
            builder.add_articulation(joints)
            builder.joint_q[1:] = [-angle] if tie == "hinges" else list(wp.quat_inverse(turned))
    return builder.finalize()


@pytest.mark.parametrize(("tie", "left"), [("hinges", 0.75), ("balls", 0.25)])
@pytest.mark.parametrize("rods", [1, 2])
def test_what_keeps_level_swings_on(rods, tie, left):
    """Its joints turn as it swings, by the angle of the rods: what these lack of inertia is made up for by inertia, most of it.

    As damping alone it would leave 0.05 of the energy in six seconds with one rod, 0.17 with two.
    """
    energy, _ = rollout(level_platform(tie, rods), 6.0, 1.0 / 60.0)
    above = energy + (2.0 + 0.5 * 0.05 * rods) * 0.3 * G
    assert left < above[-1] / above[0] < 1.0 and above.max() < 1.05 * above[0]


def whirling(root, kind, rods):
    """Rods of 0.3 m and 1 kg, end to end in weightlessness."""
    builder, parent, joints = weightless(), -1, []
    for i in range(rods):
        child = link(builder, inertia=0.09 / np.array([12.0, 12.0, 200.0]))
        ends = {
            "parent_xform": wp.transform((0.0, 0.0, -0.15 if i else 0.0)),
            "child_xform": wp.transform((0.0, 0.0, 0.15)),
        }
        if i == 0 and root == "free":
            joints.append(builder.add_joint_free(child))
        elif kind == "hinges":
            joints.append(builder.add_joint_revolute(parent, child, axis=(1.0, 0.0, 0.0), **ends))
        else:
            joints.append(builder.add_joint_ball(parent, child, **ends))
        parent = child
    builder.add_articulation(joints)
    return builder.finalize()


@pytest.mark.parametrize("rods", [2, 3, 5])
@pytest.mark.parametrize("kind", ["hinges", "balls"])
@pytest.mark.parametrize(("root", "most"), [("world", 2.0), ("free", 15.0)])
def test_what_whirls_does_not_overflow(root, most, kind, rods):
    """Random rates of some 25 rad/s at 60 Hz, most of which overflowed; floating chains gain energy all the same."""
    for seed in range(3):
        model = whirling(root, kind, rods)
        solver, state = SolverSAP(model), model.state()
        put(state.joint_qd, 25.0 * np.random.default_rng(seed).standard_normal(model.joint_dof_count))
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)
        first = solver.report(state).kinetic_energy[0]
        for _ in range(120):
            solver.step(state, state, None, None, 1.0 / 60.0)
        report = solver.report(state)
        assert report.healthy and report.kinetic_energy[0] < most * first


def odd_chain(root):
    """Light links in all sorts of joints, with a load in the end and a side branch; a sledge and a bracket turn by no joint."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    add_odd_chain(builder, root)
    return builder.finalize()


def add_odd_chain(builder, root):
    """The same, to a builder."""
    first = link(builder, **HEAVY)
    joints = [
        builder.add_joint_free(first) if root == "free" else builder.add_joint_revolute(-1, first, axis=(1, 0, 0))
    ]
    parent = first

    def hang(add, shape=LIGHT, on=None, **options):
        nonlocal parent
        above = parent if on is None else on
        child = link(builder, **shape)
        joints.append(add(above, child, **UNDER, **options))
        if on is None:
            parent = child
        return joints[-1]

    hang(builder.add_joint_revolute, axis=(0.0, 1.0, 0.0))
    hang(builder.add_joint_ball)
    hang(builder.add_joint_d6, angular_axes=[Axis(axis=newton.Axis.X), Axis(axis=newton.Axis.Y)])
    hang(builder.add_joint_fixed)
    hang(builder.add_joint_revolute, axis=(0.6, 0.0, 0.8))
    hang(builder.add_joint_prismatic, axis=(0.0, 0.0, 1.0))
    furnish(builder, hang(builder.add_joint_revolute, axis=(1.0, 0.0, 0.0)), damping=1.0e-4, armature=1.0e-5)
    furnish(builder, hang(builder.add_joint_revolute, axis=(0.0, 1.0, 0.0)), damping=10.0)
    fork = parent
    hang(builder.add_joint_revolute, on=fork, shape=HEAVY, axis=(0.0, 1.0, 0.0))
    hang(builder.add_joint_revolute, axis=(0.0, 0.0, 1.0))
    hang(builder.add_joint_ball, shape=HEAVY)
    builder.add_articulation(joints)


@pytest.mark.parametrize("kinematic", [False, True])
def test_a_hand_that_holds_a_chain_does_not_brake_it(kinematic):
    """Under a light body that floats a swing needs damping, under one whose motion is prescribed it has none."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    hand = link(builder, **LIGHT, is_kinematic=kinematic)
    load = link(builder, **HEAVY)
    joints = [builder.add_joint_free(hand), builder.add_joint_revolute(hand, load, axis=(0.0, 1.0, 0.0), **UNDER)]
    builder.add_articulation(joints)
    assert (added(builder.finalize(), 1.0 / 60.0)[-1, -1] > 1.0e-3) == (not kinematic)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("root", ["free", "hinge"])
def test_step_equals_the_reference(root, seed):
    """The dynamics matrix, which has the damping, and all that follows."""
    model, random = odd_chain(root), np.random.default_rng(seed)
    state = model.state()
    start = 7 if root == "free" else 1
    for joint, kind in enumerate(model.joint_type.numpy()):
        q = slice(*model.joint_q_start.numpy()[joint : joint + 2])
        value = 0.2 * random.standard_normal(q.stop - q.start)
        if kind == newton.JointType.BALL:
            value = np.append(value[:3], 1.0) / np.linalg.norm(np.append(value[:3], 1.0))
        if q.start >= start or root == "hinge":
            joint_q = state.joint_q.numpy()
            joint_q[q] = value
            state.joint_q.assign(joint_q)
    put(state.joint_qd, random.standard_normal(model.joint_dof_count))
    put(state.body_f, random.standard_normal(6 * model.body_count))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    truth = assert_same_step(model, state, model.control(), None, dt=1.0 / 60.0)
    plain = ReferenceSolver(model, position_update="sap_euler", **TIGHT).step(state, None, None, 1.0 / 60.0)
    asked = np.flatnonzero(np.abs(np.diag(truth.A) - np.diag(plain.A)) > 1.0e-5)
    assert len(asked) >= 6


def pair(axis, length=0.1):
    """A light link on a hinge, and a load below it on another hinge."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    above, load = link(builder, **LIGHT), link(builder, **HEAVY)
    top = wp.transform((0.0, 0.0, 0.5 * length))
    low = wp.transform((0.0, 0.0, -0.5 * length))
    joints = [builder.add_joint_revolute(-1, above, axis=(1.0, 0.0, 0.0), child_xform=top)]
    joints.append(builder.add_joint_revolute(above, load, axis=axis, parent_xform=low))
    builder.add_articulation(joints)
    return builder.finalize()


def added(model, dt):
    """What tension adds to the dynamics matrix, as damping [N m s]: the other position updates do not ask for it."""
    A = []
    for update in ("symplectic", "sap_euler"):
        solver, state = SolverSAP(model, position_update=update), model.state()
        solver.step(state, state, None, None, dt)
        A.append(solver.inspect().A)
    return (A[0] - A[1]) / dt


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0, 1.0e-4])
def test_damping_in_closed_form(dt):
    """``T l dt^2`` less the link's inertia, and more for waves; nothing where a step resolves how it swings."""
    needed, inertia = 1.0 * G * 0.1 * dt**2, LIGHT["inertia"]
    expected = max(needed - inertia, 0.0) * (1.0 + needed / HEAVY["inertia"] / 48.0) / dt
    assert added(pair((0.0, 1.0, 0.0)), dt)[-1, -1] == pytest.approx(expected, rel=1.0e-5, abs=1.0e-12)
    assert (expected == 0.0) == (dt < 1.0e-3)


@pytest.mark.parametrize("placeholder", [1.0e-6, 1.0e-9])
def test_links_without_a_mass_to_speak_of_do_not_brake_what_they_carry(placeholder):
    """Two in a row, as files have them between the axes of a wrist: the damping is that of the pull, not of their inertia."""
    builder, parent, joints = newton.ModelBuilder(gravity=(0.0, 0.0, -G)), -1, []
    for i, axis in enumerate(np.eye(3)[[0, 1, 0]].tolist()):
        body = dict(mass=1.0e-3, inertia=placeholder) if i < 2 else dict(mass=5.0, inertia=0.1)
        child = link(builder, **body)
        joints.append(builder.add_joint_revolute(parent, child, axis=axis, **UNDER))
        parent = child
    builder.add_articulation(joints)
    dt = 1.0 / 60.0
    pull = 5.0 * G * 2.0 * HALF * dt
    assert np.diag(added(builder.finalize(), dt)).max() < 2.0 * pull


def test_a_swivel_is_not_damped():
    """A load on a hook spins on about the line on which it hangs."""
    model = pair((0.0, 0.0, 1.0))
    assert added(model, 1.0 / 60.0)[-1, -1] == pytest.approx(0.0, abs=1.0e-9)
    solver, state = SolverSAP(model), model.state()
    put(state.joint_qd, [0.0, 5.0])
    for _ in range(240):
        solver.step(state, state, None, None, 1.0 / 240.0)
    assert state.joint_qd.numpy()[1] == pytest.approx(5.0, rel=1.0e-4)


def test_damping_acts_between_links():
    """On single dofs, so that momentum is kept, and on none of a floating root, a sledge, a swivel or a joint that is damped enough."""
    damping = added(odd_chain("free"), 1.0 / 60.0)
    one_by_one = np.diag(damping)
    np.testing.assert_allclose(damping, np.diag(one_by_one), atol=1.0e-9)
    sledge, damped, swivel = 13, 15, 17
    assert np.flatnonzero(one_by_one > 1.0e-6).tolist() == [*range(7, 13), 14, 16, 18, 19, 20]
    assert max(abs(one_by_one[i]) for i in (*range(7), sledge, damped, swivel)) < 1.0e-9


def test_the_matrix_is_told_where_parts_share_its_place(monkeypatch):
    """It is worked out once more then, tension included: to the last digits, as pulls are added up in another order."""
    chains = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    one = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    add_odd_chain(one, "hinge")
    for _ in range(4):
        chains.add_world(one)
    matrices = []
    for dofs in (10**6, 1):
        monkeypatch.setattr(topology, "PART_DOFS", dofs)
        model = chains.finalize()
        solver, state = SolverSAP(model), model.state()
        put(state.joint_qd, np.random.default_rng(5).standard_normal(model.joint_dof_count))
        solver.step(state, state, None, None, 1.0 / 60.0)
        matrices.append(solver.inspect().A)
    assert solver.scratch.is_in(solver.motion)
    np.testing.assert_allclose(matrices[1], matrices[0], rtol=1.0e-12, atol=1.0e-15)
