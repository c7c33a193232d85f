"""Rod joints: the elasticity of cables, against closed forms, the statics of the discrete rod, differences and the reference."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, put, tight, weightless
from scipy.optimize import minimize

from newton_sap import SolverSAP
from newton_sap.cli.example import run_example
from newton_sap.reference import ReferenceSolver, rods
from newton_sap.reference.basics import quat_exp, quat_matrix, quat_mul

LENGTH = 0.05
STRETCH, SHEAR, BEND, TWIST = 3.0e4, 1.0e4, 2.0, 1.5
STIFF = dict(stretch_stiffness=STRETCH, shear_stiffness=SHEAR, bend_stiffness=BEND, twist_stiffness=TWIST)


def cable(builder, segments, points=None, held=True, **material):
    """A cable along x, whose first segment may be kinematic."""
    points = points or [wp.vec3(i * LENGTH, 0.0, 1.0) for i in range(segments + 1)]
    bodies, joints = builder.add_rod(rod=newton.Rod(points, radius=0.01), **{**STIFF, **material})
    if held:
        builder.body_flags[bodies[0]] = int(newton.BodyFlags.KINEMATIC)
    return bodies, joints


def on_a_rod(turned=(0.0, 0.0, 0.0, 1.0), mass=1.0, inertia=0.1, **material):
    """One body at the end of a rod joint to the world, their anchors together, turned from there as it may be."""
    builder = weightless()
    body = link(builder, mass, inertia)
    rod = builder.add_joint_rod(-1, body, rest_rotation=wp.quat_identity(), **{**STIFF, **material})
    builder.add_articulation([rod])
    builder.joint_q[-7:] = [0.0, 0.0, 0.0, *turned]
    return builder


# Closed forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis, stiffness", [(0, SHEAR), (1, SHEAR), (2, STRETCH), (3, BEND), (4, BEND), (5, TWIST)])
def test_each_strain_has_its_stiffness(axis, stiffness):
    """Under a small load along one dof the body comes to rest where the rod's stiffness says."""
    load = 1.0e-3 * stiffness
    force = np.zeros(6)
    force[axis] = load
    damped = {f"{name}_damping": 0.1 * STIFF[f"{name}_stiffness"] for name in ("stretch", "shear", "bend", "twist")}
    rig = Rig(on_a_rod(**damped), 0.01, force=force).run(1500)
    moved = np.append(rig.q[:3], 2.0 * rig.q[3:6])
    expected = np.where(np.arange(6) == axis, 1.0e-3, 0.0)
    np.testing.assert_allclose(moved, expected, atol=2e-6)


@pytest.mark.parametrize("degrees", [20.0, 60.0, 110.0])
def test_a_bend_is_twice_the_tangent_of_half_the_angle(degrees):
    """Newton's bend: a moment ``2 k tan(a / 2) / cos^2(a / 2)`` holds an angle ``a``."""
    half = 0.5 * math.radians(degrees)
    moment = 2.0 * BEND * math.tan(half) / math.cos(half) ** 2
    turned = (0.0, math.sin(half), 0.0, math.cos(half))
    rig = Rig(on_a_rod(turned, bend_damping=5.0), 0.002, force=[0, 0, 0, 0, moment, 0]).run(3000)
    assert 2.0 * math.degrees(math.atan2(rig.q[4], rig.q[6])) == pytest.approx(degrees, abs=0.05)
    assert np.abs(rig.v).max() < 1e-4


@pytest.mark.parametrize(
    "axis, stiffness, inertia", [(2, STRETCH, 1.0), (0, SHEAR, 1.0), (5, TWIST, 0.1), (4, BEND, 0.1)]
)
def test_it_swings_at_its_frequency(axis, stiffness, inertia):
    """Without damping, as fast as the spring and the inertia say."""
    period = 2.0 * math.pi * math.sqrt(inertia / stiffness)
    dt = period / 800.0
    v = np.where(np.arange(6) == axis, 1.0e-2, 0.0)
    rig = Rig(on_a_rod(), dt, v=v)
    at = [rig.run().v[axis] for _ in range(1100)]
    zeros = [i + at[i] / (at[i] - at[i + 1]) for i in range(1099) if at[i] > 0.0 >= at[i + 1]]
    assert zeros[0] * dt == pytest.approx(0.25 * period, rel=2e-2)
    assert (zeros[1] - zeros[0]) * dt == pytest.approx(period, rel=5e-3)


@pytest.mark.parametrize("bend", [BEND, 1000.0 * BEND])
def test_a_cable_hangs_as_its_energy_says(bend):
    """At rest the shape of the discrete rod has the least energy, however stiff it is; found without the solver."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    segments = 12
    stiff = dict(stretch_stiffness=1.0e7, shear_stiffness=1.0e7, bend_stiffness=bend)
    cable(builder, segments, **stiff, bend_damping=0.5 * bend, twist_damping=1.0)
    rig = Rig(builder, 1.0 / 120.0).run(1500)
    mass = rig.model.body_mass.numpy().astype(float)

    def tips(angles):
        way = np.stack([np.cos(angles), np.sin(angles)], axis=1) * LENGTH
        return np.array([LENGTH, 1.0]) + np.cumsum(way, axis=0), way

    def energy(angles):
        ends, way = tips(angles)
        bends = 2.0 * np.tan(0.5 * np.diff(angles, prepend=0.0))
        return G * mass[1:] @ (ends - 0.5 * way)[:, 1] + 0.5 * bend * bends @ bends

    found = minimize(energy, np.zeros(segments - 1), tol=1e-14)
    ends, way = tips(found.x)
    sag = 1.0 - ends[-1, 1]
    np.testing.assert_allclose(rig.body_q[1:, [0, 2]], ends - 0.5 * way, atol=5e-3 * sag)
    assert np.abs(rig.body_qd).max() < 1e-4 and sag > 0.1 * BEND / bend


def test_a_bent_rest_is_kept():
    """A cable made as an arc, without weight, stays one."""
    builder = weightless()
    points = [wp.vec3(0.3 * math.sin(a), 0.3 * (1.0 - math.cos(a)), 0.0) for a in np.linspace(0.0, 2.0, 11)]
    cable(builder, 10, points)
    rig = Rig(builder, 0.01)
    before = rig.body_q
    np.testing.assert_allclose(rig.run(100).body_q, before, atol=1e-5)


# Conservation --------------------------------------------------------------------------------------------------------


def test_a_cable_in_flight_keeps_its_momenta():
    """Its inner forces come in pairs, at one point, and each piece has velocities of its own."""
    builder = weightless()
    cable(builder, 8, held=False)
    rig = Rig(builder, 1.0 / 250.0)
    v = np.random.default_rng(2).normal(size=rig.model.joint_dof_count)
    v[6:] *= 0.1
    put(rig.state.joint_qd, v)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    before, after = rig.solver.report(rig.state), rig.run(250).solver.report(rig.state)
    assert after.healthy and after.kinetic_energy[0] + after.potential_energy[0] <= before.kinetic_energy[0]
    linear, angular = (
        np.linalg.norm(getattr(after, name) - getattr(before, name)) / np.linalg.norm(getattr(before, name))
        for name in ("linear_momentum", "angular_momentum")
    )
    assert linear < 1e-6 and angular < 2e-5


def test_energy_of_strains_is_reported():
    """That of a bent and stretched rod, and what was stored becomes motion."""
    half = 0.3
    rig = Rig(on_a_rod((math.sin(half), 0.0, 0.0, math.cos(half)), mass=1.0), 1.0e-4)
    put(rig.state.joint_q, [0.0, 0.001, 0.002])
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    stored = rig.solver.report(rig.state).potential_energy[0]
    along = quat_matrix(np.array([0.0, 0.0, 0.0, 1.0])).T @ [0.0, 0.001, 0.002]
    expected = 0.5 * (SHEAR * along[1] ** 2 + STRETCH * along[2] ** 2 + BEND * (2.0 * math.tan(half)) ** 2)
    assert stored == pytest.approx(expected, rel=1e-5)
    rig.run(40)
    report = rig.solver.report(rig.state)
    assert report.potential_energy[0] + report.kinetic_energy[0] == pytest.approx(stored, rel=0.02)
    assert report.kinetic_energy[0] > 0.01 * stored


# The reference -------------------------------------------------------------------------------------------------------


def branches(seed, jointed=False):
    """A cable that bends by random angles at every joint, one that closes on itself, and a body on hinges between cables.

    Where asked for, bodies that only rods hold have a free joint each, the same poses and the same velocities.
    """
    rng = np.random.default_rng(seed)
    builder = newton.ModelBuilder(gravity=(0.3, 0.1, -G))
    cable(builder, 4, bend_damping=0.01, stretch_damping=2.0)
    ring = [wp.vec3(2.0 + 0.2 * math.cos(a), 0.2 * math.sin(a), 0.5) for a in np.linspace(0.0, 2.0 * math.pi, 7)[:-1]]
    builder.add_rod(rod=newton.Rod([*ring, ring[0]], radius=0.01, closed=True), **STIFF, twist_damping=0.01)
    first, middle, last = (link(builder, 1.0, [0.01, 0.02, 0.03]) for _ in range(3))
    shift = wp.transform((0.0, 0.0, 0.1), wp.normalize(wp.quat(0.1, 0.2, 0.0, 1.0)))
    rods = [
        builder.add_joint_rod(
            parent, child, parent_xform=shift, child_xform=wp.transform((0.1, 0.0, -0.1), wp.quat_identity()), **STIFF
        )
        for parent, child in ((-1, first), (middle, last))
    ]
    hinge = builder.add_joint_revolute(first, middle, axis=(0.0, 1.0, 0.0), target_ke=1.0, target_kd=0.1)
    builder.add_articulation(sorted([*rods, hinge]))
    moved = {c for c, kind in zip(builder.joint_child, builder.joint_type, strict=True) if kind != newton.JointType.ROD}
    free = [body for body in range(builder.body_count) if jointed and body not in moved]
    for body in free:
        builder.add_articulation([builder.add_joint_free(body)])
    model = builder.finalize()
    state = model.state()
    q = model.joint_q.numpy()
    starts, kinds = model.joint_q_start.numpy(), model.joint_type.numpy()
    for j in np.flatnonzero(kinds == int(newton.JointType.ROD)):
        here = slice(starts[j], starts[j] + 3)
        q[here] += 0.002 * rng.normal(size=3)
        turn = slice(starts[j] + 3, starts[j] + 7)
        q[turn] = quat_mul(quat_exp(0.4 * rng.normal(size=3)), q[turn].astype(float))
    state.joint_q.assign(q)
    state.joint_qd.assign(rng.normal(size=model.joint_dof_count).astype(np.float32))
    # Poses by the rods; the free joints come after them and say the same.
    newton.eval_fk(model, state.joint_q, state.joint_qd, state, mask=_without_free_joints(model, len(free)))
    if free:
        put(state.joint_q, np.concatenate([state.joint_q.numpy()[: -7 * len(free)], *state.body_q.numpy()[free]]))
        put(state.joint_qd, np.concatenate([state.joint_qd.numpy()[: -6 * len(free)], *state.body_qd.numpy()[free]]))
    return model, state


def _without_free_joints(model, count):
    """Mask of all articulations but the last ones."""
    return wp.array(np.arange(model.articulation_count) < model.articulation_count - count, dtype=wp.bool)


PARALLEL = pytest.mark.filterwarnings("ignore:Adding a FREE joint between parent -1")


@PARALLEL
@pytest.mark.parametrize("options", [{}, {"preset": "drake"}, {"position_update": "midpoint"}])
@pytest.mark.parametrize("seed", range(3))
def test_steps_equal_the_reference(seed, options):
    """Bends of half a radian and more, moving, loops, kinematic roots and hinges between."""
    model, state = branches(seed, jointed=True)
    options = tight(optimality_rel=1e-12) | options
    truth = ReferenceSolver(model, **options).step(state, model.control(), None, 0.005)
    solver = SolverSAP(model, **options)
    solver.step(state, model.state(), None, None, 0.005)
    is_rod = np.repeat(model.joint_type.numpy() == int(newton.JointType.ROD), np.diff(model.joint_qd_start.numpy()))
    np.testing.assert_allclose(solver.inspect().v[~is_rod], truth.v[~is_rod], atol=1e-7 * np.abs(truth.v).max())
    assert sum(c["kind"] == "rod" and abs(c["gamma"]) > 1e-3 for c in truth.couplers) > 30


@PARALLEL
@pytest.mark.parametrize("seed", range(3))
def test_bodies_on_rods_need_no_joints_of_their_own(seed):
    """They move as bodies with free joints do, and joint coordinates are written as Newton measures them."""
    after = []
    for jointed in (False, True):
        model, state = branches(seed, jointed)
        rig = Rig(model, 0.005)
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            getattr(rig.state, name).assign(getattr(state, name))
        after.append(rig.run(20))
    np.testing.assert_allclose(after[0].body_q, after[1].body_q, atol=1e-5)
    np.testing.assert_allclose(after[0].body_qd, after[1].body_qd, atol=1e-3)
    rig = after[0]
    q, qd = wp.zeros_like(rig.state.joint_q), wp.zeros_like(rig.state.joint_qd)
    newton.eval_ik(rig.model, rig.state, q, qd)
    in_articulations = rig.model.joint_articulation.numpy() >= 0
    for found, ours, start in ((q, rig.q, rig.model.joint_q_start), (qd, rig.v, rig.model.joint_qd_start)):
        known = np.repeat(in_articulations, np.diff(start.numpy()))
        np.testing.assert_allclose(ours[known], found.numpy()[known], atol=3e-5)


def test_orders_of_the_state_reach_rods():
    """In sap order the joint's velocity is ``[w, v_O]``, and its force ``[tau_O, f]``; the motion is the same."""
    at = []
    for order in ("public", "sap"):
        builder = weightless()
        body = builder.add_link(mass=1.0, com=(0.1, 0.0, 0.2), inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
        builder.add_articulation([builder.add_joint_rod(-1, body, rest_rotation=wp.quat_identity(), **STIFF)])
        solver = SolverSAP(builder.finalize())
        state, control = solver.state(), solver.control()
        state.joint_qd_order = control.joint_f_order = order
        f, tau, r = np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, -0.3]), np.array([0.1, 0.0, 0.2])
        control.joint_f.assign([*f, *tau] if order == "public" else [*(tau + np.cross(r, f)), *f])
        solver.step(state, state, control, None, 0.01)
        at.append((state.body_qd.numpy()[0], state.joint_qd.numpy(), state.body_q.numpy()[0]))
    (V, qd, _), (V_sap, qd_sap, pose) = at
    np.testing.assert_allclose(V_sap, V, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(qd, V, rtol=1e-5, atol=1e-8)
    r = quat_matrix(pose[3:].astype(float)) @ [0.1, 0.0, 0.2]
    np.testing.assert_allclose(qd_sap, [*V[3:], *(V[:3] + np.cross(r, V[3:]))], rtol=1e-5, atol=1e-7)


def test_the_wrench_through_a_rod():
    """``body_parent_f`` of what hangs at rest on rods, over each other and beside a hinge, and what ``joint_f`` adds."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    damped = {f"{name}_damping": 0.1 * STIFF[f"{name}_stiffness"] for name in ("stretch", "shear", "bend", "twist")}
    arm, upper, lower = (link(builder, mass) for mass in (1.0, 2.0, 3.0))
    hinge = builder.add_joint_revolute(-1, arm, axis=(1.0, 0.0, 0.0))
    rods = [builder.add_joint_rod(a, b, **STIFF, **damped) for a, b in ((arm, upper), (upper, lower))]
    builder.add_articulation([hinge, *rods])
    rig = Rig(builder, 0.01, force=[0.0, *[0.0] * 6, 0.0, 0.0, -5.0, 0.0, 0.0, 0.0]).run(600)
    observed = rig.solver.observables(["body_parent_f"])
    rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt, observables=observed)
    expected = [6.0 * G + 5.0, 5.0 * G + 5.0, 3.0 * G]
    np.testing.assert_allclose(observed.body_parent_f.numpy()[:, 2], expected, rtol=1e-3)


def test_contact_forces_on_segments_move_them_as_joint_f():
    """``joint_contact_f`` holds what acts on each segment; given as ``joint_f``, it does what the contacts did."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground_plane()
    points = [wp.vec3(i * LENGTH, 0.01 * math.sin(i), 0.02) for i in range(7)]
    cable(builder, 6, points, held=False, bend_damping=0.05, twist_damping=0.05)
    rig = Rig(builder, 1.0 / 240.0, **tight()).run(60)
    observed = rig.solver.observables(["joint_contact_f"])
    rig.pipeline.collide(rig.state, rig.contacts)
    rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt, observables=observed)
    moved = rig.next.body_qd.numpy()
    force = observed.joint_contact_f.numpy().reshape(-1, 6)
    weight = G * rig.model.body_mass.numpy().sum()
    assert force[:, 2].sum() == pytest.approx(weight, rel=0.2) and np.count_nonzero(force[:, 2] > 0.02 * weight) >= 3
    rig.control.joint_f.assign(observed.joint_contact_f)
    rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt)
    np.testing.assert_allclose(rig.next.body_qd.numpy(), moved, atol=1e-5)


def test_a_distance_joint_that_closes_a_loop_is_measured_and_pushes():
    """As a rod it has six velocities and moves no link: ``joint_f`` acts on its child, its coordinates follow."""
    builder = weightless()
    bodies = [builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True) for _ in range(2)]
    builder.add_joint_distance(*bodies, min_distance=-1.0, max_distance=5.0)
    rig = Rig(builder, 0.01, force=[*[0.0] * 12, 0.0, 2.0, 0.0, 0.0, 0.0, 0.1]).run(10)
    np.testing.assert_allclose(rig.body_qd, [[0.0] * 6, [0.0, 0.2, 0.0, 0.0, 0.0, 0.1]], atol=1e-6)
    np.testing.assert_allclose(rig.v[12:], rig.body_qd[1], atol=1e-7)
    np.testing.assert_allclose(rig.q[14:], rig.body_q[1], atol=1e-7)


# What may go wrong ---------------------------------------------------------------------------------------------------


def test_material_is_read_live():
    """A stiffness that changes between steps counts in the next; one that becomes negative is counted."""
    rig = Rig(on_a_rod(bend_damping=0.5), 0.01, force=[0, 0, 0, 0, 0.01, 0]).run(1000)
    before = rig.q[4]
    put(rig.model.joint_target_ke, [SHEAR, SHEAR, STRETCH, 0.5 * BEND, 0.5 * BEND, TWIST])
    rig.run(1000)
    assert rig.q[4] == pytest.approx(2.0 * before, rel=1e-3)
    put(rig.model.joint_target_kd, [-1.0])
    rig.run()
    assert rig.solver.report().non_finite_steps[0] == 1


def test_a_segment_without_mass_is_held():
    """As by Newton's solvers of maximal coordinates: it is where ``body_q`` says, and the others hang on it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    bodies, _ = cable(builder, 6, held=False, bend_damping=0.05, twist_damping=0.05)
    for name, nothing in (("mass", 0.0), ("inv_mass", 0.0), ("inertia", wp.mat33()), ("inv_inertia", wp.mat33())):
        getattr(builder, f"body_{name}")[bodies[0]] = nothing
    rig = Rig(builder, 1.0 / 120.0)
    pose = rig.body_q[0].astype(np.float32)
    rig.run(240)
    np.testing.assert_array_equal(rig.body_q[0].astype(np.float32), pose)
    assert rig.body_q[-1, 2] < 0.98 and rig.solver.report().healthy
    pose[:3] += [0.0, 0.1, 0.2]
    put(rig.state.body_q, pose)
    rig.run(600)
    np.testing.assert_array_equal(rig.body_q[0].astype(np.float32), pose)
    np.testing.assert_allclose(rig.body_q[-1, 1], 0.1, atol=2e-3)
    put(rig.model.body_mass, [1.0])
    with pytest.raises(NotImplementedError, match=f"body {bodies[0]} .* without mass"):
        rig.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)


def test_a_rod_that_closes_a_loop_can_be_switched_off():
    """Two bodies on slides, with a rod between them."""
    builder = weightless()
    bodies = [link(builder) for _ in range(2)]
    slides = [builder.add_joint_prismatic(-1, body, axis=(0.0, 0.0, 1.0)) for body in bodies]
    for slide in slides:
        builder.add_articulation([slide])
    builder.add_joint_rod(*bodies, **STIFF)
    rig = Rig(builder, 0.005, force=[1.0, 0.0]).run(50)
    assert rig.q[0] - rig.q[1] == pytest.approx(0.5 / STRETCH, rel=0.5) and rig.v[1] > 0.1
    rig.model.joint_enabled.assign([True, True, False])
    rig.solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
    before = rig.v
    after = rig.run(20).v
    assert after[1] == pytest.approx(before[1], abs=1e-6) and after[0] > before[0] + 0.09


@pytest.mark.parametrize("name", ["joint_target_ke", "joint_target_kd"])
def test_negative_material_is_refused(name):
    """At construction, by name."""
    model = on_a_rod().finalize()
    values = getattr(model, name).numpy()
    values[3] = -1.0
    getattr(model, name).assign(values)
    with pytest.raises(ValueError, match=name):
        SolverSAP(model)


@pytest.mark.parametrize("name", ["joint_armature", "joint_damping"])
def test_what_needs_a_coordinate_is_refused(name):
    """At construction and in a notice, by name: a rod has no coordinate that inertia or a damper could act on."""
    model = on_a_rod().finalize()
    solver = SolverSAP(model)
    getattr(model, name).fill_(0.1)
    with pytest.raises(NotImplementedError, match=f"{name} of .* rod joint"):
        solver.notify_model_changed(newton.ModelFlags.JOINT_DOF_PROPERTIES)
    with pytest.raises(NotImplementedError, match=f"{name} of .* rod joint"):
        SolverSAP(model)


def test_a_cable_can_be_cut():
    """A rod that is switched off in a running simulation lets go, also of an articulation."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    _, rods = cable(builder, 6, bend_damping=0.05, twist_damping=0.05)
    rig = Rig(builder, 1.0 / 120.0).run(120)
    enabled = rig.model.joint_enabled.numpy()
    enabled[rods[2]] = False
    rig.model.joint_enabled.assign(enabled)
    rig.solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
    before = rig.body_q
    rig.run(60)
    assert np.all(before[3:, 2] - rig.body_q[3:, 2] > 0.9) and np.all(np.abs(before[:3, 2] - rig.body_q[:3, 2]) < 0.02)


def test_gradients_are_refused():
    """By the rod's name."""
    model = on_a_rod().finalize(requires_grad=True)
    with pytest.raises(NotImplementedError, match="elasticity of a rod .joint 0"):
        SolverSAP(model)


def test_a_cable_lies_on_the_ground():
    """It falls from a fifth of a metre, and comes to rest on it, its joints closed."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground_plane()
    points = [wp.vec3(i * LENGTH, 0.01 * math.sin(i), 0.2) for i in range(9)]
    cable(builder, 8, points, held=False, bend_damping=0.05, twist_damping=0.05)
    rig = Rig(builder, 1.0 / 240.0).run(480)
    assert rig.solver.report().healthy
    np.testing.assert_allclose(rig.body_q[:, 2], 0.01, atol=2e-3)
    assert np.abs(rig.body_qd).max() < 0.05


def test_pieces_of_a_cable_have_room_for_contacts_of_their_own():
    """Each may touch the ground, and pieces of other cables: three cables that fall crosswise lose none."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground_plane()
    for k in range(3):
        way = np.array([math.cos(k), math.sin(k), 0.0])
        points = [wp.vec3(*(way * (i - 4.5) * LENGTH + [0.0, 0.0, 0.02 + 0.025 * k])) for i in range(10)]
        cable(builder, 9, points, held=False, bend_stiffness=0.05, twist_stiffness=0.05, bend_damping=1e-3)
    rig = Rig(builder, 1.0 / 240.0).run(120)
    report = rig.solver.report()
    assert report.contacts_peak[0] > 54 and report.contact_capacity >= 10 * 27 and report.healthy


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [
        "cable_bend_stiffness",
        pytest.param("cable_initial_rest_pose", marks=SLOW),
        pytest.param("cable_plectoneme", marks=SLOW),
        pytest.param("cable_twist", marks=SLOW),
        pytest.param("cable_twist_buckling", marks=SLOW),
        pytest.param("cable_twist_transfer", marks=SLOW),
        pytest.param("cable_y_junction", marks=SLOW),
    ],
)
def test_newtons_cables_pass_their_own_checks(name):
    """Over as many frames as the example itself asks for."""
    result = run_example(name, "sap", ["--viewer", "null", "--test", "--quiet"])
    assert result.verdict == "passed" and result.ok, f"{result.message}\n{result.details}"
    assert result.instead_of and result.frames >= 99


# Taut ---------------------------------------------------------------------------------------------------------------


def loaded_cable(mass, dt, segments=20, length=0.05, **options):
    """A light cable that hangs from a kinematic segment, aslant, with a weight in its last one."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    down = np.array([math.sin(0.3), 0.0, -math.cos(0.3)])
    points = [wp.vec3(*(float(x) for x in down * length * i)) for i in range(segments + 1)]
    shape = newton.ModelBuilder.ShapeConfig(density=7850.0, has_shape_collision=False)
    bodies, _ = builder.add_rod(rod=newton.Rod(points, radius=0.0025), cfg=shape, stretch_stiffness=1e6)
    builder.body_flags[bodies[0]] = int(newton.BodyFlags.KINEMATIC)
    if mass:
        ball = newton.ModelBuilder.ShapeConfig(
            density=mass / (4.0 / 3.0 * math.pi * 0.05**3), has_shape_collision=False
        )
        builder.add_shape_sphere(
            bodies[-1], xform=wp.transform((0.0, 0.0, 0.075), wp.quat_identity()), radius=0.05, cfg=ball
        )
    return Rig(builder, dt, **options)


def energy(rig):
    report = rig.solver.report(rig.state)
    return report.kinetic_energy[0] + report.potential_energy[0]


@pytest.mark.parametrize("position_update", ["symplectic", "midpoint", "sap_euler"])
@pytest.mark.parametrize("mass", [0.0, 1.0, 30.0])
def test_a_light_cable_swings_a_load(mass, position_update):
    """Segments of 8 g that the load holds straight at a thousand rad/s, in steps of 1/60 s; energy rose to 1e6 J."""
    rig = loaded_cable(mass, 1.0 / 60.0, position_update=position_update).run(1)
    before, lowest = energy(rig), 0.0
    for _ in range(8):
        rig.run(15)
        assert abs(energy(rig) - before) < 0.02 * (mass + 0.16) * G
        lowest = min(lowest, rig.state.body_q.numpy()[-1, 2])
    assert lowest < -0.965  # it swings through


def test_a_taut_cable_swings_as_in_small_steps():
    """The weight of 10 kg after one second, against steps fifty times as small."""
    truth, rig = (loaded_cable(10.0, dt).run(round(1.0 / dt)) for dt in (1.0 / 3000.0, 1.0 / 60.0))
    place = [r.state.body_q.numpy()[-1, :3] for r in (truth, rig)]
    np.testing.assert_allclose(place[1], place[0], atol=0.02)


@pytest.mark.parametrize(("stiffness", "time"), [(1e5, 0.17), (1e7, 0.19), (3e7, 0.24)])
def test_a_stiff_cable_falls_as_a_soft_one(stiffness, time):
    """Turning along chords strains stiff segments by what is no tension and must not hold them: 0.33 s at 1e7 N/m."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    soft = dict(bend_stiffness=0.05, twist_stiffness=0.05)
    cable(builder, 8, stretch_stiffness=stiffness, shear_stiffness=stiffness, **soft)
    rig = Rig(builder, 1.0 / 60.0).run(1)
    taken = rig.dt
    while rig.body_q[-1, 2] > 0.85:
        rig.run(1)
        taken += rig.dt
    assert taken <= time


@PARALLEL
@pytest.mark.parametrize("seed", range(2))
def test_what_tension_asks_for_is_the_references(seed, monkeypatch):
    """Strained by some per cent, rods ask for damping on both sides, of bodies that carry others too."""
    model, state = branches(seed, jointed=True)
    asked, damping = [], rods.tension_damping
    monkeypatch.setattr(rods, "tension_damping", lambda *args: asked.append(damping(*args)) or asked[-1])
    options = tight(optimality_rel=1e-12)
    truth = ReferenceSolver(model, **options).step(state, model.control(), None, 1.0 / 60.0)
    solver = SolverSAP(model, **options)
    solver.step(state, model.state(), None, None, 1.0 / 60.0)
    is_rod = np.repeat(model.joint_type.numpy() == int(newton.JointType.ROD), np.diff(model.joint_qd_start.numpy()))
    np.testing.assert_allclose(solver.inspect().v[~is_rod], truth.v[~is_rod], atol=1e-7 * np.abs(truth.v).max())
    assert np.count_nonzero(asked) > 3
