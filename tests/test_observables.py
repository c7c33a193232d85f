"""Observables of our own: generalised contact and drive forces, and impulse, gap and velocity in the contact frame."""

from __future__ import annotations

import newton
import numpy as np
import pytest
import random_models as rm
import test_capture
import warp as wp
from rig import G, Rig, link, material, put, weightless
from test_against_reference import SCENES, TIGHT, scene

from newton_sap import SolverSAP
from newton_sap.boundary import own_observables
from newton_sap.reference import ReferenceSolver
from newton_sap.runtime.launches import Launches

Kind = SolverSAP.ObservableKind
Mode = newton.JointTargetMode
OURS = {Kind.JOINT_CONTACT_F, Kind.JOINT_DRIVE_F, Kind.CONTACT_IMPULSE, Kind.CONTACT_GAP, Kind.CONTACT_VELOCITY}
OF_CONTACTS = {Kind.CONTACT_IMPULSE, Kind.CONTACT_GAP, Kind.CONTACT_VELOCITY}
DT = 0.01
MASS = 2.0


def observed(model, state, control, contacts, kinds=OURS, out=None, dt=DT, **options):
    """Step a new solver once and return its observables."""
    solver = SolverSAP(model, **options)
    observables = solver.observables(kinds, contacts=contacts)
    solver.step(state, model.state() if out is None else out, control, contacts, dt, observables=observables)
    return observables


def frames(normals):
    """Axes (n, 3, 3) of the contact frames, as rows: Newton's tangents, then the normal."""
    axes = []
    for n in np.asarray(normals, float):
        sign = -1.0 if n[2] < 0.0 else 1.0
        a = 1.0 / (1.0 + sign * n[2])
        x = np.array([1.0 - n[0] * n[0] * a, -n[0] * n[1] * a, -sign * n[0]])
        axes.append([x, np.cross(n, x), n])
    return np.array(axes)


def in_world(vectors, normals):
    """Vectors given in contact frames, in world axes."""
    return np.einsum("ci,cij->cj", vectors.astype(float), frames(normals))


def block(tilt=0.0, friction=0.5, height=0.1, stiffness=1.0e5, gap=0.02):
    """A box of 20 cm on a plane whose normal leans by ``tilt`` towards +x."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), tilt)
    n = wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0))
    body = link(builder, MASS, 0.02)
    cfg = material(stiffness=stiffness, friction=friction, gap=gap)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_q[:7] = [*(n * height), *turn]
    builder.add_shape_plane(plane=(n[0], n[1], n[2], 0.0), width=0.0, length=0.0, cfg=cfg)
    return builder


def observed_step(rig, kinds=OURS):
    """Collide and step a rig once; return the observables of live contact rows and the others as arrays."""
    observables = rig.solver.observables(kinds, contacts=rig.contacts)
    rig.pipeline.collide(rig.state, rig.contacts, dt=rig.dt)
    rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt, observables=observables)
    count = int(rig.contacts.rigid_contact_count.numpy()[0])
    seen = {kind: getattr(observables, kind).numpy().astype(float) for kind in kinds}
    return {kind: array[:count] if kind in OF_CONTACTS else array for kind, array in seen.items()}


# Closed forms


def test_contacts_carry_the_weight_at_rest():
    """At rest the generalised contact force is the weight, and normal impulses sum to m g dt."""
    seen = observed_step(Rig(block(), DT).run(300))
    np.testing.assert_allclose(seen[Kind.JOINT_CONTACT_F], [0, 0, MASS * G, 0, 0, 0], atol=1e-3)
    assert len(seen[Kind.CONTACT_IMPULSE]) == 4
    assert seen[Kind.CONTACT_IMPULSE][:, 2].sum() == pytest.approx(MASS * G * DT, rel=1e-5)
    np.testing.assert_allclose(seen[Kind.CONTACT_VELOCITY], 0.0, atol=1e-5)
    np.testing.assert_array_equal(seen[Kind.JOINT_DRIVE_F], 0.0)


@pytest.mark.parametrize("law", ("lagged", "sap", "similar"))
def test_slip_is_the_velocity_of_a_sliding_block(law):
    """A block that slides down a slope slips at its own velocity, and friction is mu N against it."""
    # Softer, so that rounding of the position does not show in the force.
    rig = Rig(block(tilt=0.5, friction=0.3, stiffness=1.0e4), DT, contact_model=law).run(100)
    n = np.array([np.sin(0.5), 0.0, np.cos(0.5)])
    seen = observed_step(rig)
    normals = rig.contacts.rigid_contact_normal.numpy()[:4]
    velocity, impulse = seen[Kind.CONTACT_VELOCITY], in_world(seen[Kind.CONTACT_IMPULSE], normals)
    body_is_b = rig.model.shape_body.numpy()[rig.contacts.rigid_contact_shape1.numpy()[:4]] == 0
    side = np.where(body_is_b, 1.0, -1.0)[:, None]
    v = rig.next.joint_qd.numpy()[:3].astype(float)
    assert np.linalg.norm(v) > 1.0
    slip = in_world(velocity, normals) * side
    np.testing.assert_allclose(slip - (slip @ n)[:, None] * n, np.tile(v - (v @ n) * n, (4, 1)), atol=1e-3)
    total = (impulse * side).sum(axis=0)
    friction = total - n * (total @ n)
    assert np.linalg.norm(friction) == pytest.approx(0.3 * (total @ n), rel=1e-3)
    assert friction @ v < 0.0


def test_conveyor_slip_counts_against_the_belt():
    """Slip is measured against the moving surface, here with the same friction in both cases."""
    rig = Rig(block(), DT, v=[1.0, 0, 0, 0, 0, 0])
    contacts = newton.Contacts(1, 0, rigid_contact_surface_velocity=True)
    rm.write_contacts(contacts, [rm.contact_row((1, 0), (-1, 0), rig.body_q, [0, 0, 0], [0, 0, 1.0], -1e-3)])
    slip = []
    for belt in (0.0, 3.0):
        put(contacts.rigid_contact_surface_velocity, [belt, 0.0, 0.0])
        out = rig.model.state()
        seen = observed(rig.model, rig.state, None, contacts, out=out)
        slip.append(seen.contact_velocity.numpy()[0, 0])
        assert seen.contact_impulse.numpy()[0, 0] < -0.1
    assert slip[1] - slip[0] == pytest.approx(3.0, abs=1e-3)
    assert 0.1 < slip[0] < 0.9


def test_gap_is_the_geometry():
    """Gaps are the distances of spheres from the ground, also where nothing acts; rows without contact are infinite."""
    heights = (0.08, 0.1, 0.11, 0.15)
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    for i, height in enumerate(heights):
        body = link(builder, 1.0, 0.01)
        builder.add_shape_sphere(body, radius=0.1, cfg=material(gap=0.1))
        builder.add_articulation([builder.add_joint_free(body)])
        builder.joint_q[7 * i : 7 * i + 3] = [float(i), 0.0, height]
    builder.add_ground_plane(cfg=material(gap=0.1))
    rig = Rig(builder, 1e-3)
    rig.pipeline.collide(rig.state, rig.contacts)
    seen = observed(rig.model, rig.state, None, rig.contacts, {Kind.CONTACT_GAP, Kind.CONTACT_IMPULSE}, dt=1e-3)
    count = int(rig.contacts.rigid_contact_count.numpy()[0])
    gap = seen.contact_gap.numpy()
    assert count == len(heights)
    np.testing.assert_allclose(np.sort(gap[:count]), np.array(heights) - 0.1, atol=1e-6)
    assert np.isposinf(gap[count:]).all()
    assert ((seen.contact_impulse.numpy()[:count, 2] > 0.0) == (gap[:count] < 1e-4)).all()


def driven(kp, kd, effort, mode=Mode.POSITION_VELOCITY, inertia=0.2, **options):
    """One hinge about y with a drive and nothing else."""
    builder = weightless()
    rod = link(builder, 1.0, inertia)
    hinge = builder.add_joint_revolute(
        -1, rod, axis=newton.Axis.Y, target_ke=kp, target_kd=kd, effort_limit=effort, actuator_mode=mode
    )
    builder.add_articulation([hinge])
    rig = Rig(builder, DT, q=[0.1], v=[0.4], **options)
    put(rig.control.joint_target_q, [0.9])
    put(rig.control.joint_target_qd, [-0.3])
    return rig


def drive_effort(rig, in_place=False):
    """Step once; return the drive's effort and the state before and after."""
    before = rig.q[0], rig.v[0]
    observables = rig.solver.observables({Kind.JOINT_DRIVE_F})
    after = rig.state if in_place else rig.next
    rig.solver.step(rig.state, after, rig.control, None, DT, observables=observables)
    end = float(after.joint_q.numpy()[0]), float(after.joint_qd.numpy()[0])
    return float(observables.joint_drive_f.numpy()[0]), before, end


@pytest.mark.parametrize("in_place", (False, True))
@pytest.mark.parametrize("effort", (1e6, 5.0, 0.5))
@pytest.mark.parametrize("mode", (Mode.POSITION, Mode.VELOCITY, Mode.POSITION_VELOCITY, Mode.EFFORT))
@pytest.mark.parametrize("integration", ("implicit", "explicit"))
def test_drive_effort_is_the_clamped_pd_law(integration, mode, effort, in_place):
    """The effort is the PD law at the end (or start) of the step within its limit, and what the joint gains."""
    kp, kd = 30.0, 2.0
    value, start, end = drive_effort(driven(kp, kd, effort, mode, drive_integration=integration), in_place)
    q, v = start if integration == "explicit" else end
    law = {
        Mode.POSITION: kp * (0.9 - q) - kd * v,
        Mode.VELOCITY: kd * (-0.3 - v),
        Mode.POSITION_VELOCITY: kp * (0.9 - q) + kd * (-0.3 - v),
        Mode.EFFORT: 0.0,
    }[mode]
    assert value == pytest.approx(np.clip(law, -effort, effort), rel=1e-5, abs=1e-6)
    assert value == pytest.approx(0.2 * (end[1] - start[1]) / DT, rel=1e-4, abs=1e-4)


def test_stiff_drive_reports_what_it_gave():
    """Gains that the step cannot resolve are limited, and the effort is still what the joint gained."""
    value, start, end = drive_effort(driven(1e9, 1e5, 1e12))
    assert value == pytest.approx(0.2 * (end[1] - start[1]) / DT, rel=1e-4)
    assert abs(value) > 100.0


def rope(builder, parent, body, length):
    """A distance joint between the origins of two bodies, without a minimum."""
    return builder.add_joint_distance(parent, body, min_distance=-1.0, max_distance=length)


def observed_bodies(rig):
    """Step a rig once; return accelerations and parent wrenches of its bodies."""
    seen = rig.solver.observables({Kind.BODY_QDD, Kind.BODY_PARENT_F})
    rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt, observables=seen)
    return seen.body_qdd.numpy().astype(float), seen.body_parent_f.numpy().astype(float)


def test_rope_passes_its_tension():
    """What a distance joint holds is part of ``body_parent_f``: at rest each rope carries all that hangs below it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    upper, lower = link(builder, MASS), link(builder, 3.0)
    builder.add_articulation([rope(builder, -1, upper, 1.0), rope(builder, upper, lower, 0.5)])
    rig = Rig(builder, DT, q=[0, 0, -1.0, 0, 0, 0, 1.0, 0, 0, -0.5, 0, 0, 0, 1.0]).run(300)
    acceleration, wrench = observed_bodies(rig)
    np.testing.assert_allclose(acceleration, 0.0, atol=1e-4)
    expected = [[0, 0, (MASS + 3.0) * G, 0, 0, 0], [0, 0, 3.0 * G, 0, 0, 0]]
    np.testing.assert_allclose(wrench, expected, atol=1e-3)


def test_limit_of_a_ball_joint_stays_within_the_tree():
    """A bracket is loaded by the moment of the arm on its ball joint, which rests against its limit."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    SolverSAP.register_custom_attributes(builder)
    bracket, arm = link(builder, MASS), link(builder, 3.0, com=wp.vec3(0.5, 0.0, 0.0))
    limited = {"sap:swing_limit": 0.4}
    builder.add_articulation(
        [builder.add_joint_fixed(-1, bracket), builder.add_joint_ball(bracket, arm, custom_attributes=limited)]
    )
    rig = Rig(builder, 0.005)
    rig.model.joint_limit_kd.fill_(300.0)
    _, wrench = observed_bodies(rig.run(2000))
    r = rm.transform_point(rig.body_q[arm], [0.5, 0.0, 0.0])
    assert r[0] == pytest.approx(0.5 * np.cos(0.4), abs=5e-3)
    weight = np.array([0.0, 0.0, 3.0 * G])
    np.testing.assert_allclose(wrench[bracket], [0, 0, (MASS + 3.0) * G, *np.cross(r, weight)], atol=5e-3)
    np.testing.assert_allclose(wrench[arm], [*weight, 0, 0, 0], atol=5e-3)


def turntable(joint, angle, speed, held=False, slide=0.0, spin=0.0):
    """A prescribed table that stands at an angle and turns; on it a slider 0.6 m from the axis, on that a wheel."""
    builder = weightless()
    table = link(builder, 5.0, is_kinematic=True)
    slider, wheel = link(builder, MASS), link(builder, MASS, 0.02)
    turn = [0.0, 0.0, np.sin(0.5 * angle), np.cos(0.5 * angle)]
    if joint == "hinge":
        root, q, v = builder.add_joint_revolute(-1, table, axis=newton.Axis.Z), [angle], [speed]
    elif joint == "ball":
        root, q, v = builder.add_joint_ball(-1, table), turn, [0.0, 0.0, speed]
    else:
        root, q, v = builder.add_joint_free(table), [0.0, 0.0, 0.0, *turn], [0.0, 0.0, 0.0, 0.0, 0.0, speed]
    if held:
        at = wp.transform(wp.vec3(0.6, 0.0, 0.0), wp.quat_identity())
        rail = builder.add_joint_fixed(table, slider, parent_xform=at)
    else:
        rail = builder.add_joint_prismatic(table, slider, axis=newton.Axis.X)
        q, v = [*q, 0.6], [*v, slide]
    hinge = builder.add_joint_revolute(slider, wheel, axis=newton.Axis.X)
    builder.add_articulation([root, rail, hinge])
    return Rig(builder, 1e-4, q=[*q, 0.0], v=[*v, spin])


@pytest.mark.parametrize("joint", ("hinge", "ball", "free"))
def test_turntable_accelerates_its_riders(joint):
    """What a turning kinematic body holds accelerates towards the axis; its inbound joint gives mass times that."""
    acceleration, wrench = observed_bodies(turntable(joint, 0.3, 5.0, held=True))
    inward = -25.0 * 0.6 * np.array([np.cos(0.3), np.sin(0.3), 0.0])
    np.testing.assert_allclose(acceleration[0], 0.0, atol=1e-6)
    np.testing.assert_allclose(acceleration[1:, :3], [inward, inward], atol=1e-4)
    np.testing.assert_allclose(acceleration[1:, 3:], 0.0, atol=1e-4)
    np.testing.assert_allclose(wrench[1:, :3], [2.0 * MASS * inward, MASS * inward], atol=1e-3)


@pytest.mark.parametrize("joint", ("hinge", "ball", "free"))
def test_turntable_turns_what_moves_on_it(joint):
    """A slider along its rail accelerates sideways (Coriolis), and the axis of a wheel turns with the table."""
    acceleration, wrench = observed_bodies(turntable(joint, 0.3, 5.0, slide=0.4, spin=30.0))
    sideways = np.array([-np.sin(0.3), np.cos(0.3), 0.0])
    coriolis = 2.0 * 5.0 * 0.4 * sideways  # without a force along the rail nothing else acts
    np.testing.assert_allclose(acceleration[1:, :3], [coriolis, coriolis], atol=2e-2)
    np.testing.assert_allclose(acceleration[1:, 3:], [0.0 * sideways, 5.0 * 30.0 * sideways], atol=2e-2)
    np.testing.assert_allclose(wrench[2, :3], MASS * coriolis, atol=2e-2)
    np.testing.assert_allclose(wrench[2, 3:], 0.02 * 5.0 * 30.0 * sideways, atol=1e-3)


@pytest.mark.parametrize("position_update", ("symplectic", "sap_euler", "midpoint"))
def test_steady_prescribed_motion_has_its_own_acceleration(position_update):
    """A kinematic hinge carries its own COM around; a cart at constant velocity accelerates nothing, to the bit."""
    builder = weightless()
    arm = link(builder, com=wp.vec3(0.2, 0.0, 0.0), is_kinematic=True)
    builder.add_articulation([builder.add_joint_revolute(-1, arm, axis=newton.Axis.Z)])
    acceleration, _ = observed_bodies(Rig(builder, DT, v=[3.0], position_update=position_update))
    np.testing.assert_allclose(acceleration, [[-9.0 * 0.2, 0, 0, 0, 0, 0]], atol=1e-5)
    builder = weightless()
    cart, rider = link(builder, is_kinematic=True), link(builder)
    builder.add_articulation([builder.add_joint_free(cart), builder.add_joint_ball(cart, rider)])
    rig = Rig(builder, DT, v=[1.0, 2.0, 3.0, 0, 0, 0, 0.5, 0, 0], position_update=position_update)
    np.testing.assert_array_equal(observed_bodies(rig)[0], 0.0)


# Against independent computations


def jacobian_forces(model, state, wrenches):
    """J^T F by unit joint velocities: the power of world wrenches (bodies, 6) at the COMs on each unit of joint_qd."""
    probe = model.state()
    power = np.zeros(model.joint_dof_count)
    for k in range(model.joint_dof_count):
        put(probe.joint_qd, np.eye(model.joint_dof_count)[k])
        newton.eval_fk(model, state.joint_q, probe.joint_qd, probe)
        power[k] = (probe.body_qd.numpy().astype(float) * wrenches).sum()
    return power


def dual_of_joint_qd(model, state, f):
    """Turn the world axes of free joints, as ``joint_f`` has them, into the axes of ``joint_qd``."""
    f = f.astype(float).copy()
    types, starts, children = (getattr(model, n).numpy() for n in ("joint_type", "joint_qd_start", "joint_child"))
    probe = model.state()
    free = (int(newton.JointType.FREE), int(newton.JointType.DISTANCE))
    for j in np.flatnonzero(np.isin(types, free)):
        axes = []
        for k in range(3):
            put(probe.joint_qd, np.eye(model.joint_dof_count)[starts[j] + k])
            newton.eval_fk(model, state.joint_q, probe.joint_qd, probe)
            axes.append(probe.body_qd.numpy()[children[j], :3].astype(float))
        for first in (starts[j], starts[j] + 3):
            f[first : first + 3] = np.array(axes) @ f[first : first + 3]
    return f


def free_dofs(model):
    """Dofs that no kinematic body prescribes."""
    flags, children = model.body_flags.numpy(), model.joint_child.numpy()
    starts = model.joint_qd_start.numpy()
    free = np.ones(model.joint_dof_count, bool)
    for j in range(model.joint_count):
        if flags[children[j]] & int(newton.BodyFlags.KINEMATIC):
            free[starts[j] : starts[j + 1]] = False
    return free


@pytest.mark.parametrize("options", ({}, {"preset": "approx64"}, {"spin_friction": True}), ids=str)
@pytest.mark.parametrize("name", SCENES)
def test_generalised_contact_force_is_the_transposed_jacobian(name, options):
    """J^T gamma / dt equals the power of the reference's contact forces on unit joint velocities."""
    model, state, control, contacts = scene(name, 7, count=8)
    model.shape_material_mu_rolling.fill_(0.1)
    options = {**TIGHT, **options, "max_iterations": 200}  # nearly rigid random problems take more than sixty
    truth = ReferenceSolver(model, **options).step(state, control, contacts, DT)
    wrenches = np.zeros((model.body_count, 6))
    body_q, com = state.body_q.numpy().astype(float), model.body_com.numpy().astype(float)
    for c in truth.gamma + truth.spins:
        for side, sign in ((0, -1.0), (1, 1.0)):
            body = c["bodies"][side]
            if body >= 0 and "points" in c:
                arm = c["points"][side] - rm.transform_point(body_q[body], com[body])
                wrenches[body] += sign / DT * np.array([*c["gamma_W"], *np.cross(arm, c["gamma_W"])])
            elif body >= 0:
                wrenches[body, 3:] += sign / DT * c["gamma_W"]
    free = free_dofs(model)
    expected = jacobian_forces(model, state, wrenches)
    seen = observed(model, state, control, contacts, {Kind.JOINT_CONTACT_F}, **options)
    value = seen.joint_contact_f.numpy()
    assert np.abs(expected).max() > 1.0
    np.testing.assert_array_equal(value[~free], 0.0)
    value = dual_of_joint_qd(model, state, value)
    np.testing.assert_allclose(value[free], expected[free], rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ("chain", "floating", "worlds"))
def test_generalised_contact_force_replaces_the_contacts(name):
    """A step without contacts under this force as ``joint_f`` ends with the same velocity, products as at the start."""
    model, state, control, contacts = scene(name, 3)
    touched, options = model.state(), {**TIGHT, "position_update": "sap_euler"}
    force = observed(model, state, control, contacts, out=touched, **options).joint_contact_f.numpy()
    assert np.abs(force).max() > 1.0
    put(control.joint_f, control.joint_f.numpy() + force)
    pushed = model.state()
    SolverSAP(model, **options).step(state, pushed, control, None, DT)
    np.testing.assert_allclose(pushed.joint_qd.numpy(), touched.joint_qd.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options", ({}, {"contact_model": "sap"}, {"preset": "approx64"}, {"spin_friction": True}), ids=str
)
@pytest.mark.parametrize("name", ("floating", "worlds", "kinematic", "global"))
def test_impulse_and_gap_equal_the_reference(name, options):
    """Impulses and gaps of random contacts, put back into world axes, are the reference's."""
    model, state, control, contacts = scene(name, 5, count=8)
    if name == "global" and "preset" not in options:
        options = {**options, "friction_bound": "start"}  # the reference reads bounds from smaller problems
    truth = ReferenceSolver(model, **options, **TIGHT).step(state, control, contacts, DT)
    seen = observed(model, state, control, contacts, **options, **TIGHT)
    normals = contacts.rigid_contact_normal.numpy()
    impulse = in_world(seen.contact_impulse.numpy()[:8], normals[:8])
    expected = np.zeros((8, 3))
    for c in truth.gamma:
        expected[c["index"]] = c["gamma_W"]
        assert seen.contact_gap.numpy()[c["index"]] == pytest.approx(c["phi0"], abs=1e-6)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(impulse, expected, rtol=1e-5, atol=3e-6 * np.abs(expected).max())
    assert np.isposinf(seen.contact_gap.numpy()[8:]).all()
    np.testing.assert_array_equal(seen.contact_impulse.numpy()[8:], 0.0)


def test_contact_velocity_equals_the_bodies():
    """In world axes it is the difference of both bodies' velocities at the common point, by forward kinematics."""
    model, state, control, contacts = scene("floating", 5, count=8)
    out = model.state()
    seen = observed(model, state, control, contacts, out=out, **TIGHT)
    truth = ReferenceSolver(model, **TIGHT).step(state, control, contacts, DT)
    velocity = in_world(seen.contact_velocity.numpy()[:8], contacts.rigid_contact_normal.numpy()[:8])
    probe, com = model.state(), model.body_com.numpy().astype(float)
    newton.eval_fk(model, state.joint_q, out.joint_qd, probe)  # new velocities at the old pose
    body_q, body_qd = probe.body_q.numpy().astype(float), probe.body_qd.numpy().astype(float)

    def at(body, point):
        if body < 0:
            return np.zeros(3)
        return body_qd[body, :3] + np.cross(body_qd[body, 3:], point - rm.transform_point(body_q[body], com[body]))

    assert len(truth.gamma) > 3
    for c in truth.gamma:
        a, b = c["bodies"]
        expected = at(b, c["points"][1]) - at(a, c["points"][0])
        np.testing.assert_allclose(velocity[c["index"]], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ("chain", "nested", "kinematic"))
def test_parent_wrench_accelerates_what_hangs_on_the_joint(name, seed):
    """Force through a joint is mass times acceleration, less weight, of all below it; roots may be prescribed."""
    smooth = dict.fromkeys(("limits", "drives", "springs", "damping"), False)
    model = rm.random_tree_model(seed, **smooth, **SCENES[name])
    rig = Rig(model, 1e-4)
    rig.state = rm.random_state(model, seed, forces=False)
    acceleration, wrench = observed_bodies(rig)
    below = model.body_mass.numpy()[:, None] * (acceleration[:, :3] - model.gravity.numpy()[0])
    flags, parents = model.body_flags.numpy(), model.joint_parent.numpy()
    children = model.joint_child.numpy()
    for joint in reversed(range(model.joint_count)):  # a tree's joints lead away from its root
        if parents[joint] >= 0:
            below[parents[joint]] += below[children[joint]]
    free = children[(flags[children] & int(newton.BodyFlags.KINEMATIC)) == 0]
    assert np.abs(below[free]).max() > 1.0
    np.testing.assert_allclose(wrench[free, :3], below[free], rtol=0.0, atol=3e-3 * np.abs(below).max())


@pytest.mark.parametrize("integration", ("implicit", "explicit"))
@pytest.mark.parametrize("name", ("chain", "floating", "worlds", "kinematic"))
def test_drive_efforts_equal_the_reference(name, integration):
    """Implicit drive efforts are the reference's drive rows; explicit ones need no row."""
    model, state, control, contacts = scene(name, 11)
    options = dict(drive_integration=integration, **TIGHT)
    truth = ReferenceSolver(model, **options).step(state, control, contacts, DT)
    seen = observed(model, state, control, contacts, {Kind.JOINT_DRIVE_F}, **options).joint_drive_f.numpy()
    drives = [row for row in truth.rows if row["kind"] == "drive"]
    assert drives or integration == "explicit"
    for row in drives:
        assert seen[row["dof"]] == pytest.approx(row["gamma"] / DT, rel=1e-5, abs=1e-5)
    if integration == "implicit":
        others = np.setdiff1d(np.arange(model.joint_dof_count), [row["dof"] for row in drives])
        np.testing.assert_array_equal(seen[others], 0.0)


# How they are asked for


def test_nothing_is_computed_unless_requested(monkeypatch):
    """A step launches the kernels of exactly what is requested, and its result does not depend on it."""
    launched = []

    def noted(launch):
        return lambda launches, kernel, *args: (launched.append(kernel), launch(launches, kernel, *args))

    for name in ("at_once", "trees", "groups"):
        monkeypatch.setattr(Launches, name, noted(getattr(Launches, name)))
    kernels = {
        Kind.JOINT_CONTACT_F: own_observables.observe_joint_contact_forces,
        Kind.JOINT_DRIVE_F: own_observables.observe_drive_efforts,
        Kind.CONTACT_IMPULSE: own_observables.observe_in_contact_frames,
        Kind.CONTACT_VELOCITY: own_observables.observe_in_contact_frames,
        Kind.CONTACT_GAP: own_observables.observe_gaps,
    }
    results = []
    for kinds in (None, *({kind} for kind in OURS), OURS):
        setup = test_capture.Setup("quadruped")
        setup.pipeline.collide(setup.state, setup.contacts)
        observables = None if kinds is None else setup.solver.observables(kinds, contacts=setup.contacts)
        launched.clear()
        setup.solver.step(setup.state, setup.next, setup.control, setup.contacts, DT, observables=observables)
        ours = [kernel for kernel in launched if kernel in kernels.values()]
        assert sorted(k.key for k in ours) == sorted(kernels[kind].key for kind in kinds or ())
        if observables is not None:
            assert all((getattr(observables, kind) is None) == (kind not in kinds) for kind in OURS)
        results.append(setup.next.joint_qd.numpy())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("name", ("box_drop", "quadruped"))
def test_captured_steps_observe_the_same_bits(name):
    """Observables of replayed steps are those of eager ones."""
    eager, captured = test_capture.Setup(name), test_capture.Setup(name)
    seen = []
    for setup in (eager, captured):
        seen.append(setup.solver.observables(setup.solver.supported_observables, contacts=setup.contacts))

    def advance(setup, observables):
        setup.pipeline.collide(setup.state, setup.contacts)
        setup.solver.step(setup.state, setup.state, setup.control, setup.contacts, DT, observables=observables)

    with wp.ScopedCapture() as capture:
        advance(captured, seen[1])
    for _ in range(60):
        advance(eager, seen[0])
        wp.capture_launch(capture.graph)
    assert np.abs(seen[0].joint_contact_f.numpy()).max() > 1.0
    for kind in eager.solver.supported_observables:
        np.testing.assert_array_equal(getattr(seen[0], kind).numpy(), getattr(seen[1], kind).numpy(), err_msg=kind)


def test_stale_values_are_overwritten():
    """Every entry is written in every step, also without contacts."""
    rig = Rig(block(height=1.0), DT)
    observables = rig.solver.observables(OURS, contacts=rig.contacts)
    for kind in OURS:
        array = getattr(observables, kind)
        array.fill_(7.0)
    rig.solver.step(rig.state, rig.next, None, rig.contacts, DT, observables=observables)
    for kind in OURS - {Kind.CONTACT_GAP}:
        np.testing.assert_array_equal(getattr(observables, kind).numpy(), 0.0)
    assert np.isposinf(observables.contact_gap.numpy()).all()


def test_forces_of_joints_need_no_contacts():
    """Generalised forces can be requested and filled without any ``Contacts``."""
    rig = driven(30.0, 2.0, 1e6)
    observables = rig.solver.observables({Kind.JOINT_CONTACT_F, Kind.JOINT_DRIVE_F})
    rig.solver.step(rig.state, rig.next, rig.control, None, DT, observables=observables)
    assert observables.joint_contact_f.numpy()[0] == 0.0
    assert observables.joint_drive_f.numpy()[0] > 1.0
    with pytest.raises(ValueError, match="contact-indexed"):
        rig.solver.observables({Kind.CONTACT_GAP})


def test_forces_of_the_last_step_need_its_rows():
    """A shorter array would be written past its end."""
    model = test_capture.box_drop().finalize()
    solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, DT)
    short = newton.Contacts(4, 0, requested_attributes={"force"}, device=model.device)
    with pytest.raises(ValueError, match="contacts.force has 4 rows, the contacts of the last step"):
        solver.update_contacts(short)
    for none, lacking in ((None, "contacts is None"), (contacts, "contacts.force is not allocated")):
        with pytest.raises(ValueError, match=f"{lacking}; request the contact_f observable"):
            solver.update_contacts(none)


@pytest.mark.parametrize("jointed", [False, True], ids=["loose", "fixed"])
@pytest.mark.parametrize("legacy", [False, True], ids=["observable", "update_contacts"])
def test_torque_on_a_table_that_no_joint_moves(jointed, legacy):
    """A weight off centre turns a kinematic table about the table's own COM, wherever the table stands."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    cfg, place = material(gap=0.02), wp.transform(wp.vec3(3.0, -2.0, 0.5), wp.quat_rpy(0.0, 0.0, 0.4))
    table = builder.add_link(mass=1.0, com=wp.vec3(0.1, 0.0, 0.0), xform=place, is_kinematic=True)
    builder.add_shape_box(table, hx=1.0, hy=1.0, hz=0.1, cfg=cfg)
    if jointed:
        builder.add_articulation([builder.add_joint_fixed(-1, table, parent_xform=place)])
    box = link(builder, MASS, 0.02)
    builder.add_articulation([builder.add_joint_free(box)])
    builder.joint_q[-7:-4] = [3.2, -2.0, 0.7]
    builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    model = builder.finalize(skip_all_validations=True)
    solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
    contacts = pipeline.contacts()
    if legacy:
        contacts = newton.Contacts(contacts.rigid_contact_max, 0, requested_attributes={"force"}, device=model.device)
    seen = None if legacy else solver.observables({Kind.CONTACT_F}, contacts=contacts)
    for _ in range(20):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, DT, observables=seen)
    if legacy:
        solver.update_contacts(contacts)
    count = int(contacts.rigid_contact_count.numpy()[0])
    wrench = (contacts.force if legacy else seen.contact_f).numpy()[:count].astype(float)
    shape_body = model.shape_body.numpy()
    assert {int(shape_body[s]) for s in contacts.rigid_contact_shape0.numpy()[:count]} == {table}
    np.testing.assert_allclose(wrench[:, 2].sum(), -MASS * G, rtol=1e-3)
    lever = np.array([3.2, -2.0]) - np.array([3.0 + 0.1 * np.cos(0.4), -2.0 + 0.1 * np.sin(0.4)])
    torque = MASS * G * np.array([-lever[1], lever[0]])
    np.testing.assert_allclose(wrench[:, 3:5].sum(0), torque, atol=0.02)
