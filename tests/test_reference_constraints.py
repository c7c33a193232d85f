"""The NumPy reference's contacts, worlds and joint constraints against closed forms."""

from __future__ import annotations

import math

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from mjcf import finish
from reference_scenes import (
    TIGHT,
    UPDATES,
    G,
    bare_tree,
    free_bodies,
    inertia,
    one_axis_model,
    plane_contact,
    random_case,
    set_velocity,
    snapshot,
)

from newton_sap import reference as ref
from newton_sap.reference import ReferenceSolver

# Contact.


def test_creep_and_static_penetration_on_an_incline():
    """A body held by one contact at its center creeps at sigma w dt f_t and sinks by m g cos / k."""
    theta, dt, k, mass = 0.3, 1e-3, 1e4, 2.0
    gravity = (G * math.sin(theta), 0.0, -G * math.cos(theta))
    model = free_bodies(mass=mass, gravity=gravity, ke=k, kd=0.02 * k)
    state = model.state()
    solver = ReferenceSolver(model, contact_model="sap", contact_point="witness")
    sink = mass * G * math.cos(theta) / k
    creep = 1e-3 / math.sqrt(3.0) * dt * G * math.sin(theta)
    assert creep == pytest.approx(1.6738e-6, rel=1e-4)
    set_velocity(model, state, [creep, 0, 0, 0, 0, 0])  # the steady state keeps itself
    result = solver.step(state, None, plane_contact(model, state, phi=-sink), dt)
    (contact,) = result.gamma
    assert contact["w"] == pytest.approx(1.0 / (math.sqrt(3.0) * mass), rel=1e-6)
    assert contact["R_n"] == pytest.approx(1.0 / (dt * k * (dt + 0.02)), rel=1e-6)
    np.testing.assert_allclose(contact["gamma_W"], [-dt * mass * gravity[0], 0.0, -dt * mass * gravity[2]], rtol=1e-4)
    assert result.joint_qd[0] == pytest.approx(creep, rel=1e-4)
    assert result.joint_qd[2] == pytest.approx(0.0, abs=1e-7)


def test_onset_kick():
    """Sliding imposed on a contact in equilibrium throws the body up: the cone law's known transient."""
    dt, k, tau, mu, speed = 2e-3, 1e4, 0.2, 0.5, 1.0
    model = free_bodies(mass=1.0, gravity=(0.0, 0.0, -G), ke=k, kd=tau * k, mu=mu)
    state = model.state()
    set_velocity(model, state, [speed, 0, 0, 0, 0, 0])
    solver = ReferenceSolver(model, contact_model="sap", contact_point="witness", **TIGHT)
    (contact,) = (result := solver.step(state, None, plane_contact(model, state, phi=-G / k), dt)).gamma
    Q = contact["R_n"] + mu * mu * contact["R_t"]
    expected = (G * dt * (contact["R_n"] + 1.0) + mu * speed) / (Q + 1.0 + mu * mu)
    assert expected == pytest.approx(0.35020, abs=1e-5)
    assert contact["gamma_W"][2] == pytest.approx(expected, rel=1e-6)
    assert result.joint_qd[0] == pytest.approx(speed - mu * expected, rel=1e-6)
    assert contact["v_n"] == pytest.approx(expected - G * dt, rel=1e-5)


@pytest.mark.parametrize("contact_model", ("lagged", "similar"))
@pytest.mark.parametrize("dt", (1e-3, 0.01))
def test_stiffness_of_unset_materials(contact_model, dt):
    """Hunt & Crossley contacts of default materials have a period of beta dt, but at most 1000 rad/s, and keep d."""
    model = free_bodies(mass=2.0, gravity=(0.0, 0.0, -G), ke=2500.0, kd=100.0)
    state = model.state()
    for beta in (0.1, 5.0):
        solver = ReferenceSolver(model, contact_model=contact_model, contact_point="witness", near_rigid_joint=beta)
        result = solver.step(state, None, plane_contact(model, state, phi=-1e-4), dt)
        ((problem, _),) = result.solutions
        (contact,) = problem.contacts
        assert contact.normal.k == pytest.approx(min(2.0 * math.pi / (beta * dt), 1000.0) ** 2 / contact.w, rel=1e-9)
        assert contact.normal.d == 25.0


def test_near_rigid_bound():
    """A stiffness beyond the bound is lowered to it, unless the bound is off."""
    dt, mass = 1e-3, 2.0
    model = free_bodies(mass=mass, gravity=(0.0, 0.0, -G), ke=1e12)
    state = model.state()
    result = ReferenceSolver(model, contact_point="witness").step(state, None, plane_contact(model, state), dt)
    (contact,) = result.gamma
    assert contact["R_n"] == pytest.approx(contact["w"] / (4 * math.pi**2))
    unbounded = ReferenceSolver(model, contact_point="witness", near_rigid_contact=0.0, unset_materials="literal")
    (contact,) = unbounded.step(state, None, plane_contact(model, state), dt).gamma
    assert contact["R_n"] == pytest.approx(1.0 / (dt * dt * 1e12))


def test_contact_weights():
    """Both rules for the effective inverse mass give their closed form."""
    model = free_bodies(mass=2.0, moment=0.1, static=True)
    state = model.state()
    contacts = newton.Contacts(2, 0)
    arm = np.array([0.3, -0.2, 0.1])
    body_q = state.body_q.numpy().astype(float)
    rm.write_contacts(contacts, [rm.contact_row((1, 0), (-1, 0), body_q, arm, [0.0, 0.0, 1.0], 0.0)])
    (delassus,) = ReferenceSolver(model).step(state, None, contacts, 0.01).gamma
    (body,) = ReferenceSolver(model, contact_weight="body_inertia").step(state, None, contacts, 0.01).gamma
    W = np.eye(3) / 2.0 + (arm @ arm * np.eye(3) - np.outer(arm, arm)) / 0.1
    assert delassus["w"] == pytest.approx(np.linalg.norm(W) / 3.0, rel=1e-6)
    assert body["w"] == pytest.approx(np.trace(W) / 3.0, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_internal_contacts_conserve_momentum(seed):
    """With one shared point, contacts between free bodies change neither linear nor angular momentum."""
    model = free_bodies(count=3, com=(0.05, 0.02, -0.03), static=False)
    state = rm.random_state(model, seed, forces=False)
    body_q, rng = state.body_q.numpy().astype(float), np.random.default_rng(seed)
    rows = [
        rm.contact_row((a, b), (a, b), body_q, rng.normal(size=3), n / np.linalg.norm(n), -0.01, (0.1, 0.2))
        for a, b, n in ((0, 1, rng.normal(size=3)), (1, 2, rng.normal(size=3)), (2, 0, rng.normal(size=3)))
    ]
    contacts = newton.Contacts(4, 0)
    rm.write_contacts(contacts, rows)
    solver = ReferenceSolver(model)
    result = solver.step(state, None, contacts, 0.01)
    assert any(c["gamma_W"].any() for c in result.gamma)
    m, _ = snapshot(solver, state)
    totals = []
    for v in (result.v_star, result.v):
        kin = solver.kinematics(m, m.q, v)
        R = [ref.quat_matrix(q) for q in kin.quat]
        spin = sum(R[b] @ m.inertia[b] @ R[b].T @ kin.omega[b] for b in range(3))
        linear = m.mass @ kin.v_com
        angular = spin + sum(m.mass[b] * np.cross(kin.com[b], kin.v_com[b]) for b in range(3))
        totals.append([linear, angular])
    impulse = max(np.linalg.norm(c["gamma_W"]) for c in result.gamma)
    np.testing.assert_allclose(totals[1], totals[0], atol=2e-5 * impulse)


def test_gap_disables_dissipation_unless_asked_for():
    """An open contact has no relaxation time by default."""
    model = free_bodies(ke=1e4, kd=500.0)
    state = model.state()
    set_velocity(model, state, [0, 0, -1.0, 0, 0, 0])
    dt, phi = 0.01, 0.02
    contacts = plane_contact(model, state, phi=phi)
    (quiet,) = ReferenceSolver(model, contact_model="sap").step(state, None, contacts, dt).gamma
    solver = ReferenceSolver(model, contact_model="sap", dissipation_ahead_of_touch=True)
    (ahead,) = solver.step(state, None, contacts, dt).gamma
    assert quiet["v_hat"] == pytest.approx(-phi / dt, rel=1e-5) and not quiet["gamma_W"].any()
    assert ahead["v_hat"] == pytest.approx(-phi / (dt + 0.05), rel=1e-5) and ahead["gamma_W"][2] > 0.1


def test_material_rules_and_overrides():
    """Both material rules and the per-contact overrides give the pair's properties."""
    model = free_bodies(ke=1e4, kd=500.0, mu=0.6)
    for name, value in (("ke", 3e4), ("kd", 300.0), ("mu", 0.2)):
        array = getattr(model, f"shape_material_{name}")
        values = array.numpy()
        values[1] = value
        array.assign(values)
    state, dt = model.state(), 0.1

    def properties(contacts, **options):
        (c,) = (
            ReferenceSolver(model, near_rigid_contact=0.0, unset_materials="literal", **options)
            .step(state, None, contacts, dt)
            .gamma
        )
        tau = 0.01 / c["v_hat"] - dt
        return [1.0 / (dt * (dt + tau) * c["R_n"]), tau, c["mu"]]

    plain = plane_contact(model, state, phi=-0.01)
    np.testing.assert_allclose(properties(plain), [2e4, 400.0 / 2e4, 0.4], rtol=1e-4)
    series = [0.75e4, 0.05 + 0.01, 2 * 0.6 * 0.2 / 0.8]
    np.testing.assert_allclose(properties(plain, material_rule="drake"), series, rtol=1e-4)
    own = plane_contact(model, state, phi=-0.01, per_contact_shape_properties=True)
    for name, value in (("stiffness", 5e4), ("damping", 1e3), ("friction", 0.5)):
        getattr(own, f"rigid_contact_{name}").fill_(value)
    np.testing.assert_allclose(properties(own), [5e4, 0.02, 0.2], rtol=1e-4)


def test_shared_point_is_weighted_by_stiffness():
    """The common contact point lies where the stiffer surface is."""
    model = free_bodies(count=2, static=False)
    model.shape_material_ke.assign(np.array([1e4, 3e4], np.float32))
    state = model.state()
    contacts = newton.Contacts(2, 0)
    row = rm.contact_row((0, 1), (0, 1), state.body_q.numpy().astype(float), np.zeros(3), [0, 0, 1.0], -0.04)
    rm.write_contacts(contacts, [row])
    (shared,) = ReferenceSolver(model).step(state, None, contacts, 0.01).gamma
    np.testing.assert_allclose(shared["points"], [[0, 0, -0.01]] * 2, atol=1e-8)
    (witness,) = ReferenceSolver(model, contact_point="witness").step(state, None, contacts, 0.01).gamma
    np.testing.assert_allclose(witness["points"], [[0, 0, 0.02], [0, 0, -0.02]], atol=1e-8)


def test_moving_surface_drags_a_body():
    """A surface of shape 1 moving at +x past shape 0 drags a body on side 1 towards -x, and the contact sticks."""
    model = free_bodies(gravity=(0.0, 0.0, -G))
    state = model.state()
    contacts = plane_contact(model, state, phi=-0.01, rigid_contact_surface_velocity=True)
    contacts.rigid_contact_surface_velocity.fill_(wp.vec3(0.01, 0.0, 5.0))  # the normal part must not act
    result = ReferenceSolver(model, contact_point="witness").step(state, None, contacts, 0.001)
    assert result.joint_qd[0] == pytest.approx(-0.01, rel=1e-2)
    still = ReferenceSolver(model, contact_point="witness").step(
        state, None, plane_contact(model, state, phi=-0.01), 0.001
    )
    assert result.joint_qd[2] == pytest.approx(still.joint_qd[2], rel=1e-6)


def test_rows_that_are_not_contacts_are_skipped():
    """Rows without two different shapes, or beyond the buffer, change nothing."""
    model = free_bodies(count=2)
    state = model.state()
    contacts = plane_contact(model, state, phi=-0.01)
    expected = ReferenceSolver(model).step(state, None, contacts, 0.01)
    row = {name: getattr(contacts, f"rigid_contact_{name}").numpy()[0] for name in ("point0", "point1", "normal")}
    pairs = ((2, 0), (-1, 0), (0, 0), (2, -1))
    rm.write_contacts(contacts, [{**row, "shape0": a, "shape1": b} for a, b in pairs])
    contacts.rigid_contact_count.fill_(100)  # overflowed: only the rows that exist count
    result = ReferenceSolver(model).step(state, None, contacts, 0.01)
    assert [c["index"] for c in result.gamma] == [0]
    assert np.array_equal(result.v, expected.v)


def test_models_without_unknowns():
    """Nothing at all, a massless body without a joint, and a welded body: nothing moves, nothing fails."""
    for kind in ("empty", "loose", "fixed"):
        builder = newton.ModelBuilder()
        if kind != "empty":
            mass = 1.0 if kind == "fixed" else 0.0
            body = builder.add_link(mass=mass, inertia=inertia(mass), lock_inertia=True)
            builder.add_shape_sphere(body, radius=0.1)
        if kind == "fixed":
            builder.add_articulation([builder.add_joint_fixed(parent=-1, child=body)])
        builder.add_ground_plane()
        model = builder.finalize()
        state = model.state()
        contacts = None if kind == "empty" else plane_contact(model, state, phi=-0.01)
        result = ReferenceSolver(model).step(state, None, contacts, 0.01)
        assert result.gamma == [] and result.solutions == []
        if kind != "empty":
            np.testing.assert_array_equal(result.body_q, state.body_q.numpy())


def test_contact_between_bodies_that_move_as_one_is_skipped():
    """A contact that no dof can move is no contact."""
    builder = newton.ModelBuilder()
    links = [builder.add_link(mass=1.0, inertia=inertia(1.0), lock_inertia=True) for _ in range(2)]
    joints = [builder.add_joint_free(child=links[0]), builder.add_joint_fixed(parent=links[0], child=links[1])]
    builder.add_articulation(joints)
    for link in links:
        builder.add_shape_sphere(link, radius=0.1)
    model = builder.finalize()
    state, contacts = model.state(), newton.Contacts(1, 0)
    row = rm.contact_row((0, 1), (0, 1), state.body_q.numpy().astype(float), [0.1, 0.2, 0.3], [0, 0, 1.0], -0.1)
    rm.write_contacts(contacts, [row])
    for weight in ("delassus", "body_inertia"):
        assert ReferenceSolver(model, contact_weight=weight).step(state, None, contacts, 0.01).gamma == []


# Kinematic bodies and worlds.


def test_kinematic_body_is_prescribed_and_carries_others():
    """A kinematic body keeps its state and drags what sticks to it."""
    model = free_bodies(count=2, com=(0.01, 0.0, 0.02), gravity=(0.0, 0.0, -G), ke=1e6, kd=1e4, mu=20.0)
    flags = model.body_flags.numpy()
    flags[0] = int(newton.BodyFlags.KINEMATIC)
    model.body_flags.assign(flags)
    state = model.state()
    set_velocity(model, state, [0.3, 0, 0, 0, 0, 1.0, 0.3, 0, 0, 0, 0, 0])
    contacts = newton.Contacts(2, 0)
    body_q = state.body_q.numpy().astype(float)
    rm.write_contacts(contacts, [rm.contact_row((0, 1), (0, 1), body_q, [0.0, 0.2, 0.0], [0, 0, 1.0], -5e-3)])
    for update in UPDATES:
        result = ReferenceSolver(model, position_update=update).step(state, None, contacts, 0.01)
        np.testing.assert_array_equal(result.joint_qd[:6], state.joint_qd.numpy()[:6])
        np.testing.assert_array_equal(result.joint_q[:7], state.joint_q.numpy()[:7])
        (contact,) = result.gamma
        # Sticking: body 1 takes the velocity of the turning body 0 at the contact.
        point_velocity = result.body_qd[1, :3] + np.cross(result.body_qd[1, 3:], contact["point"] - [0.01, 0.0, 0.02])
        assert point_velocity[0] == pytest.approx(0.3 - 0.2, abs=2e-3)


def test_tree_on_a_moving_kinematic_root():
    """A pendulum on a prescribed root: the root's velocity enters the free motion but is not an unknown."""
    model = bare_tree(8, kinematic_root=True, root_kinds=("d6",), inner_kinds=("revolute",), armature=False)
    state = rm.random_state(model, 8)
    solver = ReferenceSolver(model, position_update="sap_euler")  # with the gyroscopic term as it stands
    result = solver.step(state, None, None, 1e-3)
    m, v0 = snapshot(solver, state)
    kin = solver.kinematics(m, m.q, v0)
    assert (~m.unknown).any() and np.array_equal(result.v[~m.unknown], v0[~m.unknown])
    # D'Alembert on the unknown axes with the resulting accelerations.
    acceleration = (result.v - v0) / 1e-3
    power = np.zeros(m.dofs)
    for b in range(m.bodies):
        J_w, J_v = kin.jacobian(b, kin.com[b])
        R = ref.quat_matrix(kin.quat[b])
        I = R @ m.inertia[b] @ R.T
        alpha, a = kin.bias_acceleration(b, v0)
        alpha, a = alpha + J_w @ acceleration, a + J_v @ acceleration
        power += J_v.T @ (m.mass[b] * (a - m.gravity[-1]) - m.body_f[b, :3])
        power += J_w.T @ (I @ alpha + np.cross(kin.omega[b], I @ kin.omega[b]) - m.body_f[b, 3:])
    np.testing.assert_allclose(power[m.unknown], 0.0, atol=1e-9)


def test_worlds_are_independent_and_have_their_own_gravity():
    """Gravity of one world moves that world only, and problems do not mix worlds."""
    model = rm.random_tree_model(6, joint_count=4, worlds=3, global_tree=True)
    state, control = rm.random_state(model, 6), rm.random_control(model, 6)
    contacts = rm.random_contacts(model, state, 6, count=8)
    solver = ReferenceSolver(model)
    full = solver.step(state, control, contacts, 0.01)
    gravity = model.gravity.numpy().copy()
    assert gravity.shape == (4, 3)
    body_world, dof_world = model.body_world.numpy(), {}
    for j, start in enumerate(model.joint_qd_start.numpy()[:-1]):
        for k in range(start, model.joint_qd_start.numpy()[j + 1]):
            dof_world[k] = body_world[model.joint_child.numpy()[j]]
    for row in range(4):
        changed = gravity.copy()
        changed[row] += 1.0
        model.gravity.assign(changed)
        other = solver.step(state, control, None, 0.01)
        model.gravity.assign(gravity)
        plain = solver.step(state, control, None, 0.01)
        moved = {dof_world[k] for k in np.flatnonzero(other.v_star != plain.v_star)}
        assert moved == {row if row < 3 else -1}
    for problem, _ in full.solutions:
        worlds = {dof_world[k] for k in problem.dofs}
        assert len(worlds) == 1 or -1 in worlds


# Joints: damping, springs, limits, drives.


def test_damping_spring_and_armature_closed_forms():
    """One hinge follows the implicit closed form."""
    dt, moment, arm, c, k, rest, omega, q0 = 0.01, 0.7, 0.2, 3.0, 50.0, 0.4, 1.5, -0.3
    model = one_axis_model(moment=moment, armature=arm, damping=c, stiffness=k, rest_q=rest)
    state = model.state()
    state.joint_q.fill_(q0)
    set_velocity(model, state, [omega])
    result = ReferenceSolver(model).step(state, None, None, dt)
    expected = ((moment + arm) * omega - dt * k * (q0 - rest)) / (moment + arm + dt * c + dt * dt * k)
    assert result.joint_qd[0] == pytest.approx(expected, rel=1e-6)
    assert result.joint_q[0] == pytest.approx(q0 + dt * expected, rel=1e-6)


def test_limit_penetration_under_load():
    """A limit with tau = dt and a stiffness beyond the near-rigid bound yields by 2 dt^2 beta^2 F / (4 pi^2 I)."""
    dt, mass, force = 1e-3, 2.0, 30.0
    limit = dict(limit_lower=-1.0, limit_upper=0.0, limit_ke=1e12, limit_kd=1e12 * dt)
    model = one_axis_model("prismatic", mass=mass, **limit)
    control = model.control()
    control.joint_f.fill_(force)
    penetration = 2 * dt * dt * 0.01 * force / (4 * math.pi**2 * mass)
    assert penetration == pytest.approx(7.5991e-9, rel=1e-4)
    state = model.state()
    state.joint_q.fill_(penetration)
    result = ReferenceSolver(model).step(state, control, None, dt)
    (row,) = result.rows
    assert row["kind"] == "limit" and row["gamma"] == pytest.approx(dt * force, rel=1e-5)
    assert abs(result.v[0]) < 1e-6 * dt * force / mass


def test_limit_rows_appear_only_within_reach():
    """A limit takes part once the joint could reach it."""
    dt = 0.01
    limit = dict(limit_lower=-1.0, limit_upper=1.0, limit_ke=1e6, limit_kd=1e4)
    model = one_axis_model(**limit)
    state = model.state()
    for gap, speed, expected in ((0.021, 1.0, []), (0.019, 1.0, [-1.0]), (-0.1, 0.0, [-1.0]), (0.019, 0.0, [])):
        state.joint_q.fill_(1.0 - gap)
        set_velocity(model, state, [speed])
        rows = ReferenceSolver(model).step(state, None, None, dt).rows
        assert [row["sign"] for row in rows] == expected
    state.joint_q.fill_(1.0 - 0.005)
    set_velocity(model, state, [1.0])
    (row,) = ReferenceSolver(model).step(state, None, None, dt).rows
    (damped,) = ReferenceSolver(model, dissipation_ahead_of_touch=True).step(state, None, None, dt).rows
    assert row["v_hat"] == pytest.approx(-0.005 / dt, rel=1e-4)
    assert damped["v_hat"] == pytest.approx(-0.005 / (dt + 0.01), rel=1e-4)


@pytest.mark.parametrize("mode", list(newton.JointTargetMode))
def test_drive_modes(mode):
    """Each target mode uses its gains and targets, within the effort limit."""
    dt, moment, kp, kd, q0, omega, q_d, v_d = 0.01, 0.5, 40.0, 3.0, 0.2, 0.7, 0.9, -1.1
    model = one_axis_model(moment=moment, target_ke=kp, target_kd=kd, target_q=q_d, target_qd=v_d, actuator_mode=mode)
    state = model.state()
    state.joint_q.fill_(q0)
    set_velocity(model, state, [omega])
    names = mode.name
    k = kp if "POSITION" in names else 0.0
    d = 0.0 if names in ("NONE", "EFFORT") else kd
    target = v_d if "VELOCITY" in names else 0.0
    expected = (moment * omega + dt * (k * (q_d - q0) + d * target)) / (moment + dt * (dt * k + d))
    result = ReferenceSolver(model).step(state, None, None, dt)
    assert result.joint_qd[0] == pytest.approx(expected, rel=1e-5)
    model.joint_effort_limit.fill_(0.5)
    limited = ReferenceSolver(model).step(state, None, None, dt)
    if limited.rows:
        assert abs(limited.rows[0]["gamma"]) <= dt * 0.5 * (1 + 1e-6)
        unclamped = moment * (expected - omega) / dt
        if abs(unclamped) > 0.5:
            assert limited.joint_qd[0] == pytest.approx(omega + math.copysign(dt * 0.5 / moment, unclamped), rel=1e-5)


def test_drive_gains_are_bounded_at_a_constant_ratio():
    """Gains beyond what the step resolves are lowered together."""
    dt, w, beta = 0.01, 2.0, 0.1
    assert ref.limit_gains(10.0, 1.0, dt, w, beta) == (10.0, 1.0)
    for kp, kd in ((1e12, 1e7), (1e7, 1e12), (1e12, 0.0), (0.0, 1e12)):
        kp_e, kd_e = ref.limit_gains(kp, kd, dt, w, beta)
        assert kp_e * kd == pytest.approx(kp * kd_e)
        assert 1.0 / (dt * (dt * kp_e + kd_e)) == pytest.approx(beta**2 / (4 * math.pi**2) * w)
        assert ref.limit_gains(kp, kd, dt, w, 0.0) == (kp, kd)


def test_ball_springs_and_drives_turn_towards_their_target():
    """A ball joint pulled along one rotation vector behaves like a hinge about it, also in a turned anchor frame."""
    rng = np.random.default_rng(3)
    dt, moment, k, angle = 0.01, 0.4, 30.0, 0.6
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    expected = dt * k * angle / (moment + dt * dt * k) * axis
    target = ref.quat_exp(angle * axis)
    for use_drive in (False, True):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
        body = builder.add_link(mass=1.0, inertia=inertia(moment), lock_inertia=True)
        anchor = rm.random_transform(rng)
        builder.add_articulation([builder.add_joint_ball(parent=-1, child=body, parent_xform=anchor)])
        for i in range(3):
            builder.joint_stiffness[i] = 0.0 if use_drive else k
            builder.joint_target_ke[i] = k
            builder.joint_target_mode[i] = int(newton.JointTargetMode.POSITION if use_drive else 0)
        start = rm.random_rotation(rng)
        goal = ref.quat_mul(target, start)
        builder.joint_rest_q[:] = [float(x) for x in -goal]  # the other sign is the same orientation
        model = builder.finalize()
        control = model.control()
        control.joint_target_q.assign(goal.astype(np.float32))
        state = model.state()
        state.joint_q.assign(start.astype(np.float32))
        result = ReferenceSolver(model, **TIGHT).step(state, control, None, dt)
        np.testing.assert_allclose(result.v, expected, atol=1e-6)
        turn = ref.quat_log(ref.quat_mul(result.joint_q, ref.quat_inverse(start)))
        np.testing.assert_allclose(turn, dt * expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_everything_at_once_is_finite_and_balanced(seed):
    """All joints, kinematic roots, worlds, overrides and moving surfaces together satisfy the momentum balance."""
    *_, result = random_case(
        seed + 50,
        model_options=dict(worlds=2, global_tree=True, kinematic_root=bool(seed % 2)),
        contact_options=dict(count=8, overrides=True, surface_velocity=True),
        **TIGHT,
    )
    for problem, solution in result.solutions:
        balance = problem.A @ (solution.v - problem.v_star) - problem.constraint_impulse(solution.v)
        # Round-off of the stiffest rows bounds what is reachable.
        assert np.linalg.norm(balance) < 1e-8 * (1.0 + np.linalg.norm(problem.A @ solution.v) + abs(solution.scale))
    for values in (result.joint_q, result.joint_qd, result.body_q, result.body_qd):
        assert np.all(np.isfinite(values))


# What the reference does not know.

PAIR = """<mujoco><worldbody>
  <body><joint name="a" type="slide"/><geom size=".1"/></body><body pos="0 1 0"><joint name="b" type="slide"/><geom size=".1"/></body>
</worldbody>{}</mujoco>"""
ROPE = '<tendon><fixed name="rope" {}><joint joint="a" coef="1"/></fixed></tendon>'
MOTOR = "<actuator><general joint='a' {}/></actuator>"
UNKNOWN = {
    "mimic joints": '<equality><joint joint1="a" joint2="b"/></equality>',
    "equality constraints": ROPE.format("") + '<equality><tendon tendon1="rope"/></equality>',
    "tendons": ROPE.format('stiffness="1"'),
    "MuJoCo's actuators": MOTOR.format('biastype="affine" biasprm="1 0 0"'),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_the_reference_refuses_what_it_does_not_know(kind):
    """Rather than step as if it were not there."""
    model = finish(PAIR.format(UNKNOWN[kind]))
    with pytest.raises(NotImplementedError, match=f"{kind}.* not part of the reference"):
        ReferenceSolver(model).step(model.state(), None, None, 0.01)


def test_the_reference_refuses_commands_of_actuators():
    """Idle motors and tendons that only measure are let pass."""
    model = finish(PAIR.format(ROPE.format("") + MOTOR.format("")))
    ReferenceSolver(model).step(model.state(), None, None, 0.01)
    control = model.control()
    control.mujoco.ctrl.fill_(1.0)
    with pytest.raises(NotImplementedError, match="actuators are not part of the reference"):
        ReferenceSolver(model).step(model.state(), control, None, 0.01)


def test_the_reference_refuses_bounded_distances():
    """A distance joint without bounds moves as a free one does."""
    for bounds, known in (((-1.0, -1.0), True), ((0.1, -1.0), False)):
        builder = newton.ModelBuilder()
        child = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)))
        joint = builder.add_joint_distance(-1, child, min_distance=bounds[0], max_distance=bounds[1])
        builder.add_articulation([joint])
        model = builder.finalize()
        if known:
            ReferenceSolver(model).step(model.state(), None, None, 0.01)
            continue
        with pytest.raises(NotImplementedError, match="distance joints"):
            ReferenceSolver(model).step(model.state(), None, None, 0.01)
