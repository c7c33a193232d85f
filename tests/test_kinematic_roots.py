"""Kinematic bodies that their owner moves by poses alone, and velocities that follow from poses."""

import itertools
import warnings

import newton
import numpy as np
import pytest
import warp as wp
from rig import IDENTITY, Rig, link, material, put

from newton_sap import SolverSAP
from newton_sap.boundary.kinematic_roots import STATES

DT = 0.005
ANCHOR = wp.transform((0.3, -0.2, 0.1), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.7))
CHILD = wp.transform((0.05, 0.02, -0.1), wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -0.4))
COM = wp.vec3(0.1, -0.05, 0.02)


def pose_at(t):
    """A motion that shifts and turns."""
    turn = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, -1.0)), 1.3 * t)
    return wp.transform(wp.vec3(0.2 * t, -0.1 * t, 0.05 + 0.3 * t * t), turn)


def twist_at(t, before):
    """[v_C, w] in the mean from one time to another."""
    com = [np.array(wp.transform_point(pose_at(s), COM)) for s in (before, t)]
    axis = np.array(wp.normalize(wp.vec3(1.0, 2.0, -1.0)))
    return np.array([*((com[1] - com[0]) / (t - before)), *(1.3 * axis)])


def moved_by_hand(kind="free", anchored=True):
    """One kinematic body: on a free joint or on none."""
    builder = newton.ModelBuilder()
    body = link(builder, com=COM, is_kinematic=True)
    if kind == "free":
        parent, child = (ANCHOR, CHILD) if anchored else (IDENTITY, IDENTITY)
        joint = builder.add_joint_free(child=body, parent_xform=parent, child_xform=child)
        builder.add_articulation([joint])
    return builder.finalize()


def write_body(state, pose=None, twist=None):
    if pose is not None:
        put(state.body_q, np.array(pose))
    if twist is not None:
        put(state.body_qd, twist)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("anchored", [False, True])
def test_free_joint_takes_over_what_was_written_to_its_body_alone(anchored, in_place):
    """Pose and velocity, each by itself; ``joint_q`` and ``joint_qd`` are what Newton's forward kinematics takes back there."""
    model = moved_by_hand(anchored=anchored)
    solver, a = SolverSAP(model), model.state()
    b = a if in_place else model.state()
    again = model.state()
    solver.step(a, b, None, None, DT)
    for k in range(1, 5):
        a, b = b, a
        twist = twist_at(k * DT, k * DT - DT)
        write_body(a, pose_at(k * DT), twist if k > 2 else None)
        solver.step(a, b, None, None, DT)
        np.testing.assert_allclose(b.body_q.numpy()[0], np.array(pose_at(k * DT)), atol=5e-7)
        np.testing.assert_allclose(b.body_qd.numpy()[0], twist if k > 2 else np.zeros(6), atol=2e-6)
        newton.eval_fk(model, b.joint_q, b.joint_qd, again)
        np.testing.assert_allclose(again.body_q.numpy(), b.body_q.numpy(), atol=5e-7)
        np.testing.assert_allclose(again.body_qd.numpy(), b.body_qd.numpy(), atol=2e-6)


def test_joint_coordinates_lead_where_they_were_written():
    """As before the first step, and whatever stale poses say."""
    model = moved_by_hand()
    solver, a, b = SolverSAP(model), model.state(), model.state()
    q = np.array([0.4, 0.3, 0.2, 0.0, 0.0, 0.0, 1.0], np.float32)
    for shift in (0.0, 0.1, 0.2):
        write_body(a, pose_at(3.0), np.ones(6))
        put(a.joint_q, q + np.array([shift, 0, 0, 0, 0, 0, 0]))
        put(a.joint_qd, [0.1 + shift, 0.0, 0.0, 0.0, 0.0, 0.0])
        solver.step(a, b, None, None, DT)
        np.testing.assert_array_equal(b.joint_q.numpy()[1:], q[1:])
        np.testing.assert_allclose(b.joint_q.numpy()[0], 0.4 + shift, atol=1e-7)
        np.testing.assert_allclose(b.joint_qd.numpy()[0], 0.1 + shift, atol=1e-7)
        a, b = b, a


def test_what_newton_computes_from_the_joints_moves_nothing():
    """Poses of ``eval_fk`` are the joints', but for rounding."""
    model = moved_by_hand()
    solver, a, b = SolverSAP(model), model.state(), model.state()
    put(a.joint_q, [0.4, 0.3, 0.2, *(np.array([0.1, -0.7, 0.3, 0.6]) / np.sqrt(0.95))])
    first = a.joint_q.numpy()
    for _ in range(50):
        newton.eval_fk(model, a.joint_q, a.joint_qd, a)
        solver.step(a, b, None, None, DT)
        a, b = b, a
    np.testing.assert_allclose(a.joint_q.numpy(), first, atol=3e-7)


def test_bodies_of_joints_keep_going_by_their_joints():
    """What is written to the body of a dynamic free joint, or of a kinematic hinge, counts as little as before."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    link(builder, is_kinematic=True)
    hinge = builder.add_joint_revolute(parent=-1, child=0, axis=(0, 0, 1))
    builder.add_articulation([hinge])
    builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)))
    model = builder.finalize()
    solver, a, b = SolverSAP(model), model.state(), model.state()
    for _ in range(3):
        a.body_q.fill_(pose_at(1.0))
        solver.step(a, b, None, None, DT)
        np.testing.assert_array_equal(b.body_q.numpy(), model.body_q.numpy())
        a, b = b, a


def carried(drive, **options):
    """A box on a kinematic plate; ``drive(state, t)`` moves the plate; returns the box's velocity and the rig."""
    builder = newton.ModelBuilder()
    if drive is on_nothing:
        plate = link(builder, is_kinematic=True)
    else:
        plate = builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)), is_kinematic=True)
    builder.add_shape_box(plate, hx=1.0, hy=1.0, hz=0.1, cfg=material())
    box = builder.add_body(xform=wp.transform((0.0, 0.0, 0.15), wp.quat_identity()))
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, cfg=newton.ModelBuilder.ShapeConfig(mu=0.5, ke=1e5, kd=100.0))
    rig = Rig(builder, DT, **options)
    for k in range(200):
        drive(rig.state, 0.3 * k * DT)
        rig.run()
    return rig.state.body_qd.numpy()[box], rig


def by_pose(state, x):
    """Move the plate's body alone."""
    put(state.body_q, [x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def on_nothing(state, x):
    """Move a plate that no joint ties to the world."""
    by_pose(state, x)


def by_joint(state, x):
    """Move the plate's joint, without a velocity."""
    put(state.joint_q, [x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    put(state.body_q, [x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("drive", [by_pose, on_nothing, by_joint])
def test_measured_velocity_carries_a_load(drive):
    """A plate that shifts by 1.5 mm per step moves at 0.3 m/s: a box on it comes to that speed, and else stays."""
    velocity, rig = carried(drive, kinematic_velocity="measured")
    np.testing.assert_allclose(velocity, [0.3, 0, 0, 0, 0, 0], atol=2e-3)
    np.testing.assert_allclose(rig.state.body_qd.numpy()[0], [0.3, 0, 0, 0, 0, 0], atol=2e-4)
    velocity, rig = carried(drive)
    np.testing.assert_allclose(velocity, np.zeros(6), atol=2e-3)
    np.testing.assert_array_equal(rig.state.body_qd.numpy()[0], np.zeros(6))
    np.testing.assert_allclose(rig.state.body_q.numpy()[0, 0], 0.3 * 199 * DT, atol=1e-6)


@pytest.mark.parametrize("kind", ["free", "none"])
@pytest.mark.parametrize("order", ["public", "sap"])
def test_measured_velocity_is_that_of_the_motion(kind, order):
    """Of a body that turns about where its COM is not, in either order of ``joint_qd``."""
    model = moved_by_hand(kind)
    solver = SolverSAP(model, kinematic_velocity="measured")
    a, b = solver.state(), solver.state()
    a.joint_qd_order = b.joint_qd_order = order
    for k in range(5):
        write_body(a, pose_at(k * DT))
        solver.step(a, b, None, None, DT)
        if k > 1 or kind == "none":  # a joint takes no pose over in its first step
            expected = twist_at(k * DT, k * DT - DT) if k else np.zeros(6)
            np.testing.assert_allclose(b.body_qd.numpy()[0], expected, atol=3e-4)
        a, b = b, a
    put(a.joint_qd if kind == "free" else a.body_qd, np.ones(6))
    solver.step(a, b, None, None, DT)
    np.testing.assert_array_equal(b.body_qd.numpy(), 0.0)


@pytest.mark.parametrize("kind", ["prismatic", "revolute", "ball", "d6"])
def test_measured_velocity_of_joints(kind):
    """Differences of coordinates over dt; of a ball joint the turn from one orientation to the next."""
    builder = newton.ModelBuilder()
    link(builder, is_kinematic=True)
    if kind == "ball":
        joint = builder.add_joint_ball(parent=-1, child=0, parent_xform=ANCHOR)
    elif kind == "d6":
        axis = newton.ModelBuilder.JointDofConfig
        joint = builder.add_joint_d6(-1, 0, linear_axes=[axis(axis=(1, 0, 0))], angular_axes=[axis(axis=(0, 1, 0))])
    else:
        joint = getattr(builder, f"add_joint_{kind}")(parent=-1, child=0, axis=(0, 1, 0))
    builder.add_articulation([joint])
    model = builder.finalize()
    solver, state = SolverSAP(model, kinematic_velocity="measured"), model.state()
    axis = np.array([0.6, 0.0, 0.8])
    for k in range(3):
        q = 2.0 * k * DT + np.arange(model.joint_coord_count)
        if kind == "ball":
            q = np.array([*(np.sin(k * DT) * axis), np.cos(k * DT)])
        put(state.joint_q, q)
        solver.step(state, state, None, None, DT)
        expected = 2.0 * axis if kind == "ball" else np.full(model.joint_dof_count, 2.0)
        np.testing.assert_allclose(state.joint_qd.numpy(), expected * (k > 0), atol=2e-4)


def test_a_root_without_coordinates_stays():
    """A kinematic body on a fixed joint has no velocity to measure, and no entry of the state to read."""
    builder = newton.ModelBuilder()
    link(builder, is_kinematic=True)
    builder.add_articulation([builder.add_joint_fixed(parent=-1, child=0, parent_xform=ANCHOR)])
    model = builder.finalize()
    solver, state = SolverSAP(model, kinematic_velocity="measured"), model.state()
    for _ in range(2):
        solver.step(state, state, None, None, DT)
    np.testing.assert_allclose(state.body_q.numpy()[0], np.array(ANCHOR), atol=1e-6)
    np.testing.assert_array_equal(state.body_qd.numpy(), 0.0)


def test_reset_forgets_where_bodies_were():
    """A jump that a reset announces is no motion, in chosen worlds; the others go on."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)), is_kinematic=True)
    worlds = newton.ModelBuilder()
    worlds.replicate(builder, 2)
    link(worlds, is_kinematic=True)
    model = worlds.finalize()
    solver, state = SolverSAP(model, kinematic_velocity="measured"), model.state()
    solver.step(state, state, None, None, DT)
    for mask, moving in (([False, True, False], [1, 0, 1]), ([True, False, True], [0, 1, 0]), (None, [0, 0, 0])):
        state.body_q.assign(state.body_q.numpy() + np.array([1, 0, 0, 0, 0, 0, 0], np.float32))
        state.joint_q.assign(state.body_q.numpy()[:2].ravel())
        solver.reset(state, None if mask is None else wp.array(mask, dtype=wp.bool))
        solver.step(state, state, None, None, DT)
        np.testing.assert_allclose(state.body_qd.numpy()[:, 0], np.array(moving) / DT, rtol=1e-5)


@pytest.mark.parametrize("measured", [False, True])
def test_states_that_are_stepped_by_turns_do_not_mix(measured):
    """Each of three simulations on one solver has its own past, whether poses or velocities follow from it."""
    model = moved_by_hand()
    solver = SolverSAP(model, kinematic_velocity="measured" if measured else "given")
    streams = [(model.state(), model.state()) for _ in range(3)]
    for k in range(5):
        for speed, (a, b) in enumerate(streams):
            a, b = (a, b) if k % 2 == 0 else (b, a)
            pose = pose_at(speed * k * DT)
            if k == 0:  # nothing is known of them yet: joint coordinates lead
                newton.eval_ik(model, a, a.joint_q, a.joint_qd)
            write_body(a, pose if k else None)
            solver.step(a, b, None, None, DT)
            if k:
                np.testing.assert_allclose(b.body_q.numpy()[0], np.array(pose), atol=5e-7)
            if k > 1 and measured:
                expected = twist_at(speed * k * DT, speed * (k - 1) * DT) * speed if speed else np.zeros(6)
                np.testing.assert_allclose(b.body_qd.numpy()[0], expected, atol=2e-4)


def test_more_states_than_are_told_apart_are_forgotten_one_by_one():
    """A trajectory that keeps every state goes on from the last one, whatever lies in the first."""
    model = moved_by_hand()
    solver, states = SolverSAP(model), [model.state() for _ in range(STATES + 4)]
    for k, (a, b) in enumerate(itertools.pairwise(states)):
        if k:
            write_body(a, pose_at(k * DT))
        solver.step(a, b, None, None, DT)
        if k:
            np.testing.assert_allclose(b.body_q.numpy()[0], np.array(pose_at(k * DT)), atol=5e-7)


@pytest.mark.parametrize("measured", [False, True])
def test_a_new_state_has_no_past(measured):
    """Nothing is known of a state that lies where another one lay which has been freed."""
    model = moved_by_hand()
    solver = SolverSAP(model, kinematic_velocity="measured" if measured else "given")
    moved = model.joint_q.numpy()
    moved[0] += 2.0
    for k in range(20):
        state = model.state()
        state.joint_q.assign(moved if k % 2 else model.joint_q)
        for _ in range(2):
            solver.step(state, state, None, None, DT)
        assert abs(state.joint_q.numpy()[0] - (moved if k % 2 else model.joint_q.numpy())[0]) < 1e-6
        assert np.abs(state.joint_qd.numpy()[:6]).max() < 1e-6


def test_a_graph_follows_its_owner():
    """Poses that a graph writes move the body, with the velocity of its motion, and a reset is recorded as well."""
    model = moved_by_hand()
    solver, a, b = SolverSAP(model, kinematic_velocity="measured"), model.state(), model.state()
    given = wp.zeros(1, dtype=wp.transform)
    solver.step(a, b, None, None, DT)
    with wp.ScopedCapture() as capture:
        for source, target in ((a, b), (b, a)):
            wp.copy(source.body_q, given)
            solver.step(source, target, None, None, DT)
    for k in range(4):
        given.assign(np.array([pose_at(k * DT)], np.float32))
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(a.body_q.numpy()[0], np.array(pose_at(k * DT)), atol=5e-7)
        np.testing.assert_array_equal(a.body_qd.numpy(), 0.0)  # the second step found it where the first had
        if k:
            np.testing.assert_allclose(b.body_qd.numpy()[0], twist_at(k * DT, k * DT - DT), atol=3e-4)


@pytest.mark.parametrize("measured", [False, True])
def test_a_graph_of_first_steps_follows_its_owner(measured):
    """Two graphs that lead to and fro between states that no step has met: each replay knows what the one before left."""
    model = moved_by_hand()
    solver = SolverSAP(model, kinematic_velocity="measured" if measured else "given")
    a, b = model.state(), model.state()
    graphs = []
    for source, target in ((a, b), (b, a)):
        with wp.ScopedCapture() as capture:
            solver.step(source, target, None, None, DT)
        graphs.append(capture.graph)
    wp.capture_launch(graphs[0])
    for k in range(1, 6):
        source, target = (a, b) if k % 2 == 0 else (b, a)
        moved = twist_at(k * DT, k * DT - DT)
        write_body(source, pose_at(k * DT), np.zeros(6) if measured else moved)
        wp.capture_launch(graphs[k % 2])
        np.testing.assert_allclose(target.body_q.numpy()[0], np.array(pose_at(k * DT)), atol=5e-7)
        if k > 1 or not measured:
            np.testing.assert_allclose(target.body_qd.numpy()[0], moved, atol=3e-4)


def test_more_states_than_are_remembered_are_told_of():
    """Nine that take turns forget what their owners did, once each; eight do not."""
    model = moved_by_hand()
    for count, told in ((8, 0), (9, 1)):
        solver, states = SolverSAP(model, kinematic_velocity="measured"), [model.state() for _ in range(count)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(2):
                for state in states:
                    solver.step(state, state, None, None, DT)
        assert len(caught) == told
        assert all(found.filename == __file__ and "take turns" in str(found.message) for found in caught)


def test_a_graph_that_meets_too_many_new_states_is_refused():
    """Their past cannot be cleared while it is recorded; stepped before, they are welcome."""
    model = moved_by_hand()
    solver, states = SolverSAP(model), [model.state() for _ in range(4)]
    with pytest.raises(RuntimeError, match="step each of them once"), wp.ScopedCapture():
        for state in states:
            solver.step(state, state, None, None, DT)
    for state in states:
        solver.step(state, state, None, None, DT)
    with wp.ScopedCapture() as capture:
        for state in states:
            solver.step(state, state, None, None, DT)
    wp.capture_launch(capture.graph)


def test_a_body_that_becomes_kinematic_follows_its_owner():
    """From the second step on: in the first its joint has moved by itself."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)))
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    put(state.joint_qd, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    solver.step(state, state, None, None, DT)
    model.body_flags.fill_(int(newton.BodyFlags.KINEMATIC))
    solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
    solver.step(state, state, None, None, DT)
    write_body(state, pose_at(1.0), np.zeros(6))
    solver.step(state, state, None, None, DT)
    np.testing.assert_allclose(state.body_q.numpy()[0], np.array(pose_at(1.0)), atol=5e-7)
    np.testing.assert_array_equal(state.joint_qd.numpy(), 0.0)


def test_measured_velocities_have_no_gradient():
    """They follow from where a body was a step before, which no tape knows."""
    builder = newton.ModelBuilder()
    builder.add_articulation([builder.add_joint_free(link(builder, is_kinematic=True))])
    model = builder.finalize(requires_grad=True)
    SolverSAP(model)
    with pytest.raises(NotImplementedError, match='kinematic_velocity="measured" has none'):
        SolverSAP(model, kinematic_velocity="measured")
