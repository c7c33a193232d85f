"""Bodies that no joint moves: they fly freely, ``body_q`` and ``body_qd`` are their coordinates."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, material, put, weightless

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

COM = wp.vec3(0.03, -0.02, 0.05)
POSE = wp.transform(wp.vec3(0.3, -0.2, 1.5), wp.quat_rpy(0.4, -0.3, 0.8))
TWIST = (0.5, -0.3, 0.2, 3.0, -2.0, 4.0)
SIDE = 0.2
Y = newton.Axis.Y


def finalize(builder):
    """A model; Newton itself would want every joint in an articulation."""
    return builder.finalize(skip_validation_joints=True)


def stone(rooted):
    """One tumbling body with an offset COM, with an explicit free joint or without any."""
    builder = newton.ModelBuilder()
    body = link(builder, 2.0, (0.02, 0.05, 0.04), com=COM, xform=POSE, label="stone")
    if rooted:
        builder.add_articulation([builder.add_joint_free(body)])
    return finalize(builder)


def thrown(model, twist, **options):
    """A rig whose first body flies with a twist, given in ``body_qd`` and, where it has one, in its free joint."""
    rig = Rig(model, 0.002, **options)
    put(rig.state.body_q, model.body_q.numpy())
    put(rig.state.body_qd, twist)
    if model.joint_count and model.joint_parent.numpy()[0] == -1:
        put(rig.state.joint_qd, twist)
    return rig


def add_fourbar(builder, rooted=False, closing=None, lift=0.0, shape=None, order=(0, 1, 2, 3)):
    """A square of four rods hinged at the corners; ``closing`` are keywords of the joint that completes the loop."""
    places = ((0.0, -SIDE), (SIDE, 0.0), (0.0, SIDE), (-SIDE, 0.0))
    rods = [
        link(
            builder,
            1.0 + 0.2 * i,
            (0.004, 0.006, 0.005),
            xform=wp.transform(wp.vec3(x, 0.0, z + lift), wp.quat_identity()),
        )
        for i, (x, z) in enumerate(places)
    ]
    if shape is not None:
        for i, rod in enumerate(rods):
            half = (SIDE, 0.02, 0.02) if i % 2 == 0 else (0.02, 0.02, 0.7 * SIDE)
            builder.add_shape_box(rod, hx=half[0], hy=half[1], hz=half[2], cfg=shape)
    joints = [builder.add_joint_free(rods[0])] if rooted else []
    for i in order:
        parent, child = rods[i], rods[(i + 1) % 4]
        corner = np.array(((SIDE, -SIDE), (SIDE, SIDE), (-SIDE, SIDE), (-SIDE, -SIDE))[i])
        offsets = [corner - places[i], corner - places[(i + 1) % 4]]
        frames = [wp.transform(wp.vec3(float(x), 0.0, float(z)), wp.quat_identity()) for x, z in offsets]
        keywords = (closing or {}) if i == order[-1] else {}
        joint = builder.add_joint_revolute(
            parent, child, axis=Y, parent_xform=frames[0], child_xform=frames[1], **keywords
        )
        joints += [] if i == order[-1] else [joint]
    if rooted:
        builder.add_articulation(joints)
    return rods


def fourbar(builder=None, **keywords):
    """The model of :func:`add_fourbar`."""
    builder = builder or newton.ModelBuilder()
    add_fourbar(builder, **keywords)
    return finalize(builder)


def momentum(rig):
    """Linear and angular momentum about the world origin (6,)."""
    mass, inertia = rig.model.body_mass.numpy().astype(float), rig.model.body_inertia.numpy().astype(float)
    total = np.zeros(6)
    for b, (pose, twist) in enumerate(zip(rig.body_q, rig.body_qd, strict=True)):
        R = np.array(wp.quat_to_matrix(wp.quat(*pose[3:])), dtype=float).reshape(3, 3)
        com = pose[:3] + R @ rig.model.body_com.numpy()[b]
        p = mass[b] * twist[:3]
        total += np.concatenate([p, np.cross(com, p) + R @ inertia[b] @ R.T @ twist[3:]])
    return total


# One body


@pytest.mark.parametrize("update", ["symplectic", "sap_euler", "midpoint"])
def test_lone_link_tumbles_like_a_free_body(update):
    """Without a joint it falls, tumbles and answers to wrenches as with a free joint."""
    rigs = [thrown(stone(rooted), TWIST, position_update=update) for rooted in (True, False)]
    for rig in rigs:
        rig.push([1.0, 3.0, 15.0, 0.1, -0.2, 0.05])
        rig.run(400)
        assert rig.solver.report().healthy
    rooted, bare = rigs
    assert bare.model.joint_count == 0
    assert abs(bare.body_q[0, 2] - 1.5) > 0.3
    np.testing.assert_allclose(bare.body_q, rooted.body_q, atol=2e-5)
    np.testing.assert_allclose(bare.body_qd, rooted.body_qd, atol=2e-5)


def test_body_q_is_where_the_body_is():
    """Moving ``body_q`` and ``body_qd`` moves the body; the step leaves what it read as it is."""
    rig = thrown(stone(False), TWIST)
    pose = np.array([5.0, 6.0, 7.0, 0.6, 0.0, 0.0, 0.8], dtype=np.float32)
    put(rig.state.body_q, pose)
    put(rig.state.body_qd, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    before = rig.state.body_q.numpy().copy()
    start = rig.state
    rig.run(1)
    np.testing.assert_array_equal(start.body_q.numpy(), before)
    np.testing.assert_allclose(rig.body_q[0, :2], [5.0, 6.0], atol=1e-3)
    np.testing.assert_allclose(rig.body_qd[0, 3:], [0.0, 0.0, 1.0], atol=0.01)


def test_massless_and_kinematic_bodies_without_joint_stay():
    """A body without mass, or one that is prescribed, is where the state says, and nothing hangs on it."""
    builder = newton.ModelBuilder()
    link(builder, xform=POSE, is_kinematic=True)
    builder.add_link(xform=POSE)
    link(builder, xform=POSE)
    rig = Rig(finalize(builder), 0.01).run(10)
    np.testing.assert_array_equal(rig.body_q[:2], rig.model.body_q.numpy()[:2])
    assert rig.body_q[2, 2] < 1.5 - 0.04
    assert rig.solver.topology.dof_count == 6


def test_body_carried_by_a_kinematic_one_without_joint():
    """A kinematic body without joint keeps its velocity and carries what hangs on it, as with a free joint."""
    rigs = []
    for rooted in (True, False):
        builder = newton.ModelBuilder()
        base = link(builder, xform=POSE, is_kinematic=True)
        bob = link(builder, 1.0, 0.01)
        anchor = wp.transform(wp.vec3(0.0, 0.0, 0.3), wp.quat_identity())
        free = [builder.add_joint_free(base)] if rooted else []
        builder.add_articulation([*free, builder.add_joint_revolute(base, bob, axis=Y, child_xform=anchor)])
        rig = thrown(finalize(builder), TWIST)
        put(rig.state.joint_q, np.concatenate([rig.q[:-1], [0.4]]))
        rigs.append(rig.run(300))
    rooted, bare = rigs
    np.testing.assert_array_equal(bare.body_q[0], bare.model.body_q.numpy()[0])
    np.testing.assert_allclose(bare.body_qd[0], TWIST, atol=1e-6)
    assert abs(bare.q[0] - 0.4) > 0.05
    np.testing.assert_allclose(bare.q[0], rooted.q[-1], atol=1e-5)
    np.testing.assert_allclose(bare.body_q, rooted.body_q, atol=1e-5)


def test_kinematic_flag_toggles():
    """Flagged it stands where it is, cleared it falls again."""
    rig = Rig(stone(False), 0.01).run(5)
    flags = rig.model.body_flags.numpy().copy()
    put(rig.state.body_qd, np.zeros(6))
    rig.model.body_flags.assign(np.array([int(newton.BodyFlags.KINEMATIC)], dtype=flags.dtype))
    held = rig.body_q
    rig.run(5)
    np.testing.assert_array_equal(rig.body_q, held)
    rig.model.body_flags.assign(flags)
    rig.run(5)
    assert rig.body_q[0, 2] < held[0, 2] - 5e-3


# A mechanism without a root


def test_tree_joints_of_a_loop_without_articulation():
    """One body gets no joint, its neighbours hang on it, and the last joint closes the loop."""
    solver = SolverSAP(fourbar())
    assert solver.topology.loop_joints == (3,)
    np.testing.assert_array_equal(solver.topology.arrays["link_joint"], [-1, 0, 1, 2])
    np.testing.assert_array_equal(solver.topology.arrays["link_body"], [0, 1, 2, 3])
    assert solver.topology.dof_count == 9


def test_loop_is_cut_at_a_joint_without_drive():
    """Of stand-alone joints those with a drive stay in the tree, wherever they come in the model."""
    drive = {"target_ke": 10.0, "target_kd": 1.0, "actuator_mode": newton.JointTargetMode.POSITION}
    solver = SolverSAP(fourbar(closing=drive))
    assert solver.topology.loop_joints == (2,)


def test_fourbar_moves_like_the_one_with_a_free_root():
    """Thrown and pushed alike, both move alike; joint coordinates of the tree are those of ``state.joint_q``."""
    wrench = np.random.default_rng(3).uniform(-1.0, 1.0, (4, 6)) * [4, 4, 4, 0.3, 0.3, 0.3]
    rigs = []
    for rooted in (True, False):
        rig = thrown(fourbar(rooted=rooted), TWIST)
        rig.push(wrench)
        rigs.append(rig.run(300))
        assert rig.solver.report().healthy
    rooted, bare = rigs
    assert np.abs(bare.q[:3]).max() > 0.05
    np.testing.assert_allclose(bare.body_q, rooted.body_q, atol=2e-5)
    np.testing.assert_allclose(bare.body_qd, rooted.body_qd, atol=1e-4)
    np.testing.assert_allclose(bare.q[:3], rooted.q[7:10], atol=2e-5)
    np.testing.assert_allclose(bare.v[:3], rooted.v[6:9], atol=1e-4)


def test_momentum_is_kept():
    """Without gravity the joints of a floating loop make no momentum; what the step does shrinks with it."""
    drift = []
    for dt in (0.002, 0.001):
        rig = thrown(fourbar(weightless()), (0.2, -0.1, 0.3, 0.5, 2.0, -0.4))
        put(rig.state.joint_qd, [1.0, -1.0, 1.0])
        rig.dt = dt
        start = momentum(rig.run(1))
        rig.run(round(0.4 / dt))
        assert np.abs(rig.q[:3]).max() > 0.1
        drift.append(np.linalg.norm(momentum(rig) - start))
    assert drift[0] < 3e-3 * np.linalg.norm(start)
    assert drift[1] == pytest.approx(0.5 * drift[0], rel=0.02)


def test_ground_carries_the_weight():
    """A resting mechanism without root presses on the ground with its weight."""
    builder = newton.ModelBuilder()
    limits = {"limit_lower": -0.2, "limit_upper": 0.2, "limit_ke": 1e4, "limit_kd": 10.0}
    add_fourbar(builder, lift=SIDE + 0.021, shape=material(), closing=limits)
    builder.add_ground_plane(cfg=material())
    rig = Rig(finalize(builder), 0.002)
    out = rig.solver.observables(contacts=rig.contacts, kinds={rig.solver.ObservableKind.CONTACT_F})
    rig.run(1600)  # until it has leant over to its limits
    rig.pipeline.collide(rig.state, rig.contacts, dt=rig.dt)
    rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt, observables=out)
    ground = rig.model.shape_count - 1
    first = rig.contacts.rigid_contact_shape0.numpy() == ground
    up = float((out.contact_f.numpy()[:, 2] * np.where(first[: len(out.contact_f)], -1.0, 1.0)).sum())
    weight = rig.model.body_mass.numpy().astype(float).sum() * G
    assert rig.solver.report().healthy
    assert up == pytest.approx(weight, rel=1e-3)


def test_worlds_are_alike_and_do_not_see_each_other():
    """Each of several worlds moves as the mechanism alone does, bit for bit."""
    one = newton.ModelBuilder()
    add_fourbar(one)
    many = newton.ModelBuilder()
    for _ in range(3):
        many.add_world(one)
    alone, rig = Rig(finalize(one), 0.005).run(60), Rig(finalize(many), 0.005).run(60)
    assert rig.solver.topology.group_count == 3
    np.testing.assert_array_equal(rig.body_q.reshape(3, 4, 7), np.tile(alone.body_q, (3, 1, 1)))


def test_in_place_steps_and_reset():
    """Stepping a state onto itself gives the same bits, and a restored state starts over."""
    model = fourbar()
    apart = Rig(model, 0.005).run(40)
    solver, state = SolverSAP(model), model.state()
    for _ in range(2):
        for _ in range(40):
            solver.step(state, state, None, None, 0.005)
        np.testing.assert_array_equal(state.body_q.numpy(), apart.state.body_q.numpy())
        np.testing.assert_array_equal(state.joint_q.numpy(), apart.state.joint_q.numpy())
        state.assign(model.state())
        solver.reset(state)


def test_replay_gives_the_same_bits():
    """A graph recorded from the first step on repeats eager stepping."""
    model = fourbar()
    eager = Rig(model, 0.005).run(40)
    solver, a, b = SolverSAP(model), model.state(), model.state()
    with wp.ScopedCapture(device=model.device) as capture:
        solver.step(a, b, None, None, 0.005)
        solver.step(b, a, None, None, 0.005)
    for _ in range(20):
        wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(a.body_q.numpy(), eager.state.body_q.numpy())
    np.testing.assert_array_equal(a.body_qd.numpy(), eager.state.body_qd.numpy())


# What else is asked of the solver


def test_observables():
    """A free fall accelerates with gravity, and no joint passes a wrench to a body that has none."""
    rig = thrown(stone(False), np.zeros(6))
    kinds = rig.solver.ObservableKind
    out = rig.solver.observables(kinds={kinds.BODY_QDD, kinds.BODY_PARENT_F})
    out.body_parent_f.fill_(wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    rig.solver.step(rig.state, rig.next, None, None, rig.dt, observables=out)
    np.testing.assert_array_equal(out.body_parent_f.numpy(), 0.0)
    np.testing.assert_allclose(out.body_qdd.numpy()[0], [0.0, 0.0, -G, 0.0, 0.0, 0.0], atol=2e-3)


@pytest.mark.parametrize("update", ["symplectic", "sap_euler"])
def test_inspection_and_inverse_dynamics(update):
    """The dofs of the body without joint stand behind those of Newton's joints; a step explains itself."""
    # What float32 hides of a velocity a stiff loop turns into a force: Drake's softer bound keeps it small.
    options = {"position_update": update, "near_rigid_coupling": 0.1}
    rigs = [thrown(fourbar(rooted=rooted), TWIST, **options).run(20) for rooted in (True, False)]
    views = [rig.solver.inspect() for rig in rigs]
    behind = np.array([6, 7, 8, 9, 0, 1, 2, 3, 4, 5])
    assert views[1].A.shape == (10, 10)
    np.testing.assert_allclose(views[1].v, views[0].v[behind], atol=1e-4)
    np.testing.assert_allclose(views[1].A, views[0].A[np.ix_(behind, behind)], atol=1e-5)
    rig = rigs[1]
    rig.push([0.0, 0.0, 5.0, 0.0, 0.0, 0.0])
    rig.solver.step(rig.state, rig.next, None, None, rig.dt)
    held = rig.next.body_q.numpy().copy()
    found = rig.solver.inverse_dynamics(rig.state, rig.next, None, None, rig.dt)
    np.testing.assert_array_equal(rig.next.body_q.numpy(), held)
    assert np.abs(found.constraint_force).max() > 0.1
    np.testing.assert_allclose(found.unexplained_force, 0.0, atol=0.02)


def test_energy_and_momentum_of_a_state():
    """The report of a state counts what flies without a joint as it counts a free joint."""
    reports = []
    for rooted in (True, False):
        rig = thrown(fourbar(rooted=rooted), TWIST).run(20)
        reports.append(rig.solver.report(rig.state))
    for name in ("kinetic_energy", "potential_energy", "linear_momentum", "angular_momentum"):
        values = [getattr(report, name) for report in reports]
        assert np.abs(values[0]).max() > 0.1
        np.testing.assert_allclose(values[1], values[0], rtol=1e-4, atol=1e-4)


def test_observables_of_joints_leave_out_what_no_joint_moves():
    """Contact forces in joint coordinates have no entries for a body without joint, and drives none at all."""
    rigs = []
    for rooted in (True, False):
        builder = newton.ModelBuilder()
        add_fourbar(builder, rooted=rooted, lift=SIDE + 0.019, shape=material())
        builder.add_ground_plane(cfg=material())
        rig = Rig(finalize(builder), 0.002)
        kinds = rig.solver.ObservableKind
        wanted = {kinds.JOINT_CONTACT_F, kinds.JOINT_DRIVE_F}
        out = rig.solver.observables(contacts=rig.contacts, kinds=wanted)
        rig.pipeline.collide(rig.state, rig.contacts, dt=rig.dt)
        rig.push([[0.0] * 6, [5.0, 0.0, -9.0, 0.0, 0.0, 0.0], [0.0] * 6, [0.0] * 6])
        rig.solver.step(rig.state, rig.next, None, rig.contacts, rig.dt, observables=out)
        rigs.append(out.joint_contact_f.numpy())
        np.testing.assert_array_equal(out.joint_drive_f.numpy(), 0.0)
    assert np.abs(rigs[0][:6]).max() > 1.0
    np.testing.assert_allclose(rigs[1], rigs[0][6:], atol=1e-3)


def test_states_in_sap_order():
    """``body_qd`` keeps Newton's order also where ``joint_qd`` has the solver's."""
    rig = thrown(fourbar(), TWIST)
    other = rig.solver.state()
    other.joint_qd_order = "sap"
    other.body_q.assign(rig.state.body_q)
    other.body_qd.assign(rig.state.body_qd)
    for _ in range(50):
        rig.solver.step(other, other, None, None, rig.dt)
    rig.run(50)
    np.testing.assert_array_equal(other.body_q.numpy(), rig.state.body_q.numpy())
    np.testing.assert_array_equal(other.body_qd.numpy(), rig.state.body_qd.numpy())


def test_faults_stay_in_their_world():
    """NaN in a body's pose spoils its own world only, and is counted there."""
    one = newton.ModelBuilder()
    add_fourbar(one)
    many = newton.ModelBuilder()
    for _ in range(2):
        many.add_world(one)
    rig, clean = Rig(finalize(many), 0.005), Rig(finalize(one), 0.005).run(20)
    poses = rig.body_q
    poses[0, 0] = np.nan
    put(rig.state.body_q, poses)
    rig.run(20)
    np.testing.assert_array_equal(rig.solver.report().non_finite_steps > 0, [True, False])
    np.testing.assert_array_equal(rig.body_q[4:], clean.body_q)


def test_loop_that_starts_at_an_articulation():
    """Newton's builder may put the tree part of a loop in an articulation without a root; only the closing joint is cut."""
    builder = newton.ModelBuilder()
    add_fourbar(builder)
    builder.add_articulation([0, 1, 2])
    solver = SolverSAP(finalize(builder))
    assert solver.topology.loop_joints == (3,)
    np.testing.assert_array_equal(solver.topology.arrays["link_joint"], [-1, 0, 1, 2])


def test_joints_that_start_switched_off_hold_nothing():
    """A stand-alone joint that is disabled leaves its child free, and ties it when it is enabled."""
    builder = weightless()
    a, b = link(builder), link(builder)
    builder.add_joint_ball(a, b, enabled=False)
    rig = Rig(finalize(builder), 0.01)
    assert rig.solver.topology.dof_count == 12
    rig.push([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], np.zeros(6)])
    rig.run(10)
    np.testing.assert_array_equal(rig.body_q[1, :3], 0.0)
    rig.model.joint_enabled.assign(np.array([True]))
    rig.run(30)
    assert rig.body_qd[1, 0] > 0.1
    np.testing.assert_allclose(rig.body_q[0, :3], rig.body_q[1, :3], atol=1e-4)


@pytest.mark.parametrize("make", [fourbar, lambda: stone(False)], ids=["loop", "lone body"])
def test_reference_names_what_it_leaves_out(make):
    """The NumPy reference has neither loops nor bodies without joint."""
    model = make()
    with pytest.raises(NotImplementedError, match="not part of the reference"):
        ReferenceSolver(model).step(model.state(), model.control(), None, 0.01)


def test_mimic_of_a_loop_joint_is_refused():
    """A joint that closes a loop cannot follow another one; it is named at construction."""
    builder = newton.ModelBuilder()
    add_fourbar(builder)
    builder.set_joint_mimic(3, 0, coeffs=(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="joint_4.*closes a loop and is coupled"):
        SolverSAP(finalize(builder))
