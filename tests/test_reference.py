"""The NumPy reference against Newton's own kinematics and dynamics, finite differences and closed forms."""

from __future__ import annotations

import math

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp

from newton_sap import reference as ref
from newton_sap.reference import ReferenceSolver

G = 9.81
UPDATES = ("symplectic", "sap_euler", "midpoint")
IDENTITY = wp.transform_identity()
TIGHT = dict(optimality_rel=1e-13, optimality_abs=1e-16, cost_rel=0.0, cost_abs=0.0, max_iterations=40)


def snapshot(solver, state, control=None):
    m = solver.read(state, control)
    return m, solver.to_sap(m, m.q, m.qd)


def bare_tree(seed, **kwargs):
    """A random tree without springs, damping, limits and drives."""
    off = dict(springs=False, damping=False, limits=False, drives=False, **kwargs)
    return rm.random_tree_model(seed, **{"joint_count": 7, "descendant_free": True, **off})


def inertia(diagonal):
    return wp.mat33(*np.diag(np.broadcast_to(diagonal, 3)).flatten())


def one_axis_model(kind="revolute", mass=1.0, moment=1.0, gravity=(0.0, 0.0, 0.0), **axis):
    """One body on a single axis z through its center of mass, armature-free unless given."""
    builder = newton.ModelBuilder(gravity=gravity)
    body = builder.add_link(mass=mass, inertia=inertia(moment), lock_inertia=True)
    add = builder.add_joint_revolute if kind == "revolute" else builder.add_joint_prismatic
    builder.add_articulation([add(parent=-1, child=body, axis=newton.Axis.Z, **axis)])
    return builder.finalize()


def free_bodies(count=1, mass=2.0, moment=0.1, com=(0.0, 0.0, 0.0), gravity=(0.0, 0.0, 0.0), static=True, **material):
    """Free spheres, shape i on body i, and a static plane as the last shape."""
    builder = newton.ModelBuilder(gravity=gravity)
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, **{"ke": 1e4, "kd": 0.0, "mu": 0.5, **material})
    for _ in range(count):
        body = builder.add_link(mass=mass, com=wp.vec3(*com), inertia=inertia(moment), lock_inertia=True)
        builder.add_articulation([builder.add_joint_free(child=body)])
        builder.add_shape_sphere(body, radius=0.1, cfg=cfg)
    if static:
        builder.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), width=0.0, length=0.0, cfg=cfg)
    return builder.finalize()


def plane_contact(model, state, body=0, phi=0.0, n=(0.0, 0.0, 1.0), **allocate):
    """One contact at the body's center of mass, shape 0 the plane."""
    contacts = newton.Contacts(4, 0, **allocate)
    body_q = state.body_q.numpy().astype(float)
    center = rm.transform_point(body_q[body], model.body_com.numpy()[body])
    # The midpoint is half the gap below the center, so that body 1's own surface point is the center.
    point = center - 0.5 * phi * np.asarray(n)
    rm.write_contacts(contacts, [rm.contact_row((model.shape_count - 1, body), (-1, body), body_q, point, n, phi)])
    return contacts


def set_velocity(model, state, qd):
    state.joint_qd.assign(np.asarray(qd, np.float32))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)


# Kinematics and dynamics.


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("seed", range(8))
def test_kinematics_match_newton(seed, update):
    model = rm.random_tree_model(seed, joint_count=8, tree_count=2, descendant_free=True)
    state = rm.random_state(model, seed)
    solver = ReferenceSolver(model, position_update=update)
    m, v0 = snapshot(solver, state)
    kin = solver.kinematics(m, m.q, v0)
    body_q, body_qd = state.body_q.numpy(), state.body_qd.numpy()
    np.testing.assert_allclose(kin.origin, body_q[:, :3], atol=3e-6)
    assert np.all(np.abs(np.sum(kin.quat * body_q[:, 3:], axis=1)) > 1.0 - 1e-6)
    scale = np.abs(body_qd).max()
    np.testing.assert_allclose(np.hstack([kin.v_com, kin.omega]), body_qd, atol=3e-6 * scale)
    np.testing.assert_allclose(solver.to_public(m, m.q, v0), m.qd, atol=1e-14)
    # The dof columns reproduce the same velocities.
    for b in range(m.bodies):
        J_w, J_v = kin.jacobian(b, kin.com[b])
        np.testing.assert_allclose(np.hstack([J_v @ v0, J_w @ v0]), np.hstack([kin.v_com[b], kin.omega[b]]), atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_mass_matrix_and_forces_match_newton(seed):
    model = bare_tree(seed, tree_count=2)
    state = rm.random_state(model, seed, forces=False)
    solver = ReferenceSolver(model, position_update="symplectic")  # its free joints differ from Newton's by order only
    m, v0 = snapshot(solver, state)
    dt = 1e-3
    A, v_star = solver.free_motion(m, solver.kinematics(m, m.q, v0), v0, dt)
    H = newton.eval_mass_matrix(model, state).numpy()
    force = [wp.zeros(model.joint_dof_count) for _ in range(2)]
    newton.eval_inverse_dynamics_passive(model, state, coriolis_force=force[0], gravity_force=force[1])
    bias = force[0].numpy().astype(float) + force[1].numpy().astype(float)
    anchor = solver.kinematics(m, m.q, v0).anchor
    for j in np.flatnonzero(m.is_free()):  # Newton gives free joints' forces in world axes
        i = m.qd_start[j]
        bias[i : i + 3], bias[i + 3 : i + 6] = anchor[j].T @ bias[i : i + 3], anchor[j].T @ bias[i + 3 : i + 6]
    for a, first in enumerate(model.articulation_start.numpy()[:-1]):
        low, high = m.qd_start[first], m.qd_start[model.articulation_end.numpy()[a]]
        public = m.public_dof[low:high] - low
        expected = H[a, : high - low, : high - low][np.ix_(public, public)]
        np.testing.assert_allclose(A[low:high, low:high], expected, atol=1e-5 * np.abs(expected).max())
    expected = -dt * bias[m.public_dof]
    np.testing.assert_allclose(A @ (v_star - v0), expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("seed", range(4))
def test_bias_acceleration_is_the_derivative_of_velocity(seed, update):
    model = bare_tree(seed)
    solver = ReferenceSolver(model, position_update=update)
    m, v = snapshot(solver, rm.random_state(model, seed))
    kin = solver.kinematics(m, m.q, v)
    h = 1e-5
    ahead, behind = (solver.kinematics(m, solver.integrate(m, v, v, s * h), v) for s in (1.0, -1.0))
    for b in range(m.bodies):
        alpha, a = kin.bias_acceleration(b, v)
        np.testing.assert_allclose(alpha, (ahead.omega[b] - behind.omega[b]) / (2 * h), atol=1e-6)
        np.testing.assert_allclose(a, (ahead.v_com[b] - behind.v_com[b]) / (2 * h), atol=1e-6)
        np.testing.assert_allclose(kin.v_com[b], (ahead.com[b] - behind.com[b]) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("update", ("symplectic", "sap_euler"))
def test_energy_and_momentum_of_free_flight(update):
    """One small step of a floating tree changes energy and momentum by what gravity does, to second order in dt."""
    model = bare_tree(3, root_kinds=("free",), armature=False)
    solver = ReferenceSolver(model, position_update=update)
    state = rm.random_state(model, 3, forces=False)
    gravity = model.gravity.numpy()[0].astype(float)
    m, v0 = snapshot(solver, state)

    def totals(q, v):
        kin = solver.kinematics(m, q, v)
        energy, linear, angular = 0.0, np.zeros(3), np.zeros(3)
        for b in range(m.bodies):
            R = ref.quat_matrix(kin.quat[b])
            spin = R @ m.inertia[b] @ R.T @ kin.omega[b]
            energy += 0.5 * m.mass[b] * kin.v_com[b] @ kin.v_com[b] + 0.5 * kin.omega[b] @ spin
            energy -= m.mass[b] * gravity @ kin.com[b]
            linear += m.mass[b] * kin.v_com[b]
            angular += spin + m.mass[b] * np.cross(kin.com[b], kin.v_com[b])
        weighted = sum(m.mass[b] * kin.com[b] for b in range(m.bodies))
        return energy, linear, angular, weighted

    before = totals(m.q, v0)
    errors = []
    for dt in (1e-4, 5e-5):
        result = solver.step(state, None, None, dt)
        after = totals(result.joint_q, result.v)
        torque = np.cross(before[3], gravity)
        errors.append(
            [
                abs(after[0] - before[0]),
                np.linalg.norm(after[1] - before[1] - dt * m.mass.sum() * gravity),
                np.linalg.norm(after[2] - before[2] - dt * torque),
            ]
        )
    assert np.all(np.array(errors[1]) < 0.27 * np.array(errors[0])), errors  # quarters: no first-order error


def test_free_joint_force_is_a_body_wrench():
    model = bare_tree(11, root_kinds=("free",))
    kinds = model.joint_type.numpy()
    solver = ReferenceSolver(model)
    state, control = rm.random_state(model, 11, forces=False), model.control()
    for j in np.flatnonzero((kinds == newton.JointType.FREE) | (kinds == newton.JointType.DISTANCE)):
        wrench = np.arange(1.0, 7.0)
        f = np.zeros(model.joint_dof_count, np.float32)
        start = model.joint_qd_start.numpy()[j]
        f[start : start + 6] = wrench
        control.joint_f.assign(f)
        by_joint = solver.step(state, control, None, 0.01).v
        control.joint_f.zero_()
        body_f = np.zeros((model.body_count, 6), np.float32)
        body_f[model.joint_child.numpy()[j]] = wrench
        state.body_f.assign(body_f)
        np.testing.assert_allclose(solver.step(state, control, None, 0.01).v, by_joint, atol=1e-12)
        state.body_f.zero_()


@pytest.mark.parametrize("update", UPDATES)
def test_position_update_of_a_free_body(update):
    """The reference point moves in a straight line and the public velocity is that of the center of mass."""
    model = free_bodies(com=(0.3, -0.1, 0.2), static=False)
    state = rm.random_state(model, 5, forces=False)
    solver = ReferenceSolver(model, position_update=update)
    dt = 0.02
    result = solver.step(state, None, None, dt)
    com, q0 = model.body_com.numpy()[0].astype(float), state.joint_q.numpy().astype(float)
    q0[3:] /= np.linalg.norm(q0[3:])
    point = com if update == "symplectic" else np.zeros(3)
    moved = rm.transform_point(result.joint_q, point) - rm.transform_point(q0, point)
    rate = 0.5 * (result.v0 + result.v) if update == "midpoint" else result.v
    np.testing.assert_allclose(moved, dt * rate[3:], atol=1e-15)
    assert np.linalg.norm(result.joint_q[3:]) == pytest.approx(1.0, abs=1e-15)
    turn = ref.quat_log(ref.quat_mul(result.joint_q[3:], ref.quat_inverse(q0[3:])))
    tolerance = 1e-14 if update == "symplectic" else dt**3 * np.linalg.norm(rate[:3]) ** 3 / 10.0
    np.testing.assert_allclose(turn, dt * rate[:3], atol=tolerance)
    arm = ref.quat_matrix(result.joint_q[3:]) @ (com - point)
    np.testing.assert_allclose(result.joint_qd[:3], result.v[3:] + np.cross(result.v[:3], arm), atol=1e-15)
    np.testing.assert_allclose(result.body_qd[0], result.joint_qd, atol=1e-15)


@pytest.mark.parametrize("update", UPDATES)
def test_result_is_consistent_with_newton_forward_kinematics(update):
    model = rm.random_tree_model(21, joint_count=8, descendant_free=True)
    state, control = rm.random_state(model, 21), rm.random_control(model, 21)
    before = [a.numpy().copy() for a in (state.joint_q, state.joint_qd, state.body_q, state.body_qd, state.body_f)]
    result = ReferenceSolver(model, position_update=update).step(state, control, None, 0.01)
    after = [a.numpy() for a in (state.joint_q, state.joint_qd, state.body_q, state.body_qd, state.body_f)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)), "inputs were modified"
    q, qd = (wp.array(x.astype(np.float32)) for x in (result.joint_q, result.joint_qd))
    newton.eval_fk(model, q, qd, state)
    np.testing.assert_allclose(result.body_q[:, :3], state.body_q.numpy()[:, :3], atol=5e-6)
    scale = np.abs(result.body_qd).max()
    np.testing.assert_allclose(result.body_qd, state.body_qd.numpy(), atol=1e-5 * scale)


# The two constraint laws.


def cone_samples(count=200):
    rng = np.random.default_rng(0)
    for _ in range(count):
        n = rng.normal(size=3)
        yield dict(
            vc=rng.normal(size=3),
            n=n / np.linalg.norm(n),
            v_hat=rng.normal(),
            R_n=10.0 ** rng.uniform(-3, 1),
            R_t=10.0 ** rng.uniform(-3, 1),
            mu=float(rng.choice([0.0, 0.3, 1.0])),
            eps=float(rng.choice([1e-7, 0.1])),
        )


def test_friction_cone_derivatives_and_membership():
    seen, h = set(), 1e-6
    for sample in cone_samples():
        vc, n, mu = sample.pop("vc"), sample["n"], sample["mu"]
        _, gamma, hessian = ref.friction_cone(vc, **sample)
        steps = [[ref.friction_cone(vc + s * h * e, **sample) for s in (1.0, -1.0)] for e in np.eye(3)]
        slope = np.array([(a[0] - b[0]) / (2 * h) for a, b in steps])
        bend = np.array([(a[1] - b[1]) / (2 * h) for a, b in steps]).T
        scale = max(1.0, np.abs(hessian).max())
        np.testing.assert_allclose(slope, -gamma, atol=1e-7 * scale)
        np.testing.assert_allclose(bend, -hessian, atol=1e-4 * scale)
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-12 * scale)
        assert np.linalg.eigvalsh(hessian)[0] > -1e-12 * scale
        tangential = np.linalg.norm(gamma - (n @ gamma) * n)
        assert tangential <= mu * (n @ gamma) + 1e-12 * scale
        seen.add("open" if not gamma.any() else "stick" if tangential < mu * (n @ gamma) * (1 - 1e-3) else "slide")
    assert seen == {"open", "stick", "slide"}


def test_friction_cone_is_continuous_across_regions():
    n, common = np.array([0.0, 0.0, 1.0]), dict(R_n=0.5, R_t=0.2, mu=0.7, eps=0.3)
    v_t = 0.9
    s = math.hypot(v_t, common["R_t"] * common["eps"])
    stick_limit = s * common["R_n"] / (common["mu"] * common["R_t"])  # u_n on the boundary to sliding
    for boundary in (stick_limit, -common["mu"] * s):
        below, above = (
            ref.friction_cone(np.array([v_t, 0.0, -boundary * side]), n, 0.0, **common) for side in (1 - 1e-9, 1 + 1e-9)
        )
        assert below[0] == pytest.approx(above[0], abs=1e-7)
        np.testing.assert_allclose(below[1], above[1], atol=1e-7)


def test_friction_cone_without_tangents_is_frame_free():
    rotation = ref.quat_matrix(rm.random_rotation(np.random.default_rng(1)))
    for sample in cone_samples(50):
        turned = {**sample, "vc": rotation @ sample["vc"], "n": rotation @ sample["n"]}
        (cost, gamma, hessian), (cost_t, gamma_t, hessian_t) = ref.friction_cone(**sample), ref.friction_cone(**turned)
        assert cost_t == pytest.approx(cost, rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(gamma_t, rotation @ gamma, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(
            hessian_t, rotation @ hessian @ rotation.T, atol=1e-9 * max(1, np.abs(hessian).max())
        )


def test_clamped_linear_derivatives():
    h = 1e-6
    for lo, hi in ((0.0, math.inf), (-0.4, 0.4), (-math.inf, math.inf), (-1.0, 0.2)):
        for vc in np.linspace(-2.0, 2.0, 41) + 1e-3:
            args = (0.3, 0.5, lo, hi)
            _, gamma, G_ = ref.clamped_linear(vc, *args)
            (c1, g1, _), (c0, g0, _) = ref.clamped_linear(vc + h, *args), ref.clamped_linear(vc - h, *args)
            assert (c1 - c0) / (2 * h) == pytest.approx(-gamma, abs=1e-8)
            assert (g1 - g0) / (2 * h) == pytest.approx(-G_, abs=1e-8)
            assert lo <= gamma <= hi


# The convex problem and its minimiser.


def random_case(seed, *, model_options=None, contact_options=None, dt=0.01, **options):
    """One step of a random scene with every constraint kind."""
    model = rm.random_tree_model(
        seed, **{"joint_count": 5, "tree_count": 2, "descendant_free": True, **(model_options or {})}
    )
    state, control = rm.random_state(model, seed), rm.random_control(model, seed)
    contacts = rm.random_contacts(model, state, seed, **(contact_options or {}))
    solver = ReferenceSolver(model, **options)
    return model, state, control, contacts, solver, solver.step(state, control, contacts, dt)


@pytest.mark.parametrize("seed", range(5))
def test_objective_derivatives(seed):
    result = random_case(seed)[-1]
    problem, solution = result.solutions[0]
    rng = np.random.default_rng(seed)
    for v in (solution.v, problem.v_star, solution.v + rng.normal(size=len(solution.v))):
        direction, h = rng.normal(size=len(v)), 1e-7
        ahead, behind = v + h * direction, v - h * direction
        slope = (problem.cost(ahead) - problem.cost(behind)) / (2 * h)
        hessian = problem.hessian(v)
        noise = 1e-7 * np.linalg.norm(hessian)
        assert slope == pytest.approx(problem.gradient(v) @ direction, rel=1e-5, abs=noise)
        bend = (problem.gradient(ahead) - problem.gradient(behind)) / (2 * h)
        np.testing.assert_allclose(bend, hessian @ direction, atol=1e-4 * np.linalg.norm(hessian @ direction) + noise)
        assert np.linalg.eigvalsh(hessian - problem.A)[0] > -1e-9 * np.linalg.norm(hessian)
        line = problem.along(v, direction)
        cost, slope, curvature = line(0.3)
        assert cost == pytest.approx(problem.cost(v + 0.3 * direction), rel=1e-10)
        assert slope == pytest.approx(problem.gradient(v + 0.3 * direction) @ direction, rel=1e-8)
        assert curvature == pytest.approx(direction @ problem.hessian(v + 0.3 * direction) @ direction, rel=1e-8)


@pytest.mark.parametrize("preset", (None, "drake", "approx64"))
@pytest.mark.parametrize("seed", range(8))
def test_minimiser_converges_monotonically(seed, preset):
    result = random_case(seed, preset=preset)[-1]
    for problem, solution in result.solutions:
        assert solution.converged and solution.iterations < 60
        costs = np.array(solution.costs)
        assert np.all(np.diff(costs) <= 1e-12 * np.abs(costs[:-1]))
        residual = np.linalg.norm(problem.gradient(solution.v) / np.sqrt(np.diag(problem.A)))
        assert residual == pytest.approx(solution.residual, rel=1e-6)
    for contact in result.gamma:
        normal = contact["gamma_W"] @ contact["normal"]
        tangential = np.linalg.norm(contact["gamma_W"] - normal * contact["normal"])
        assert normal >= 0.0 and tangential <= contact["mu"] * normal * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("seed", range(3))
def test_solution_is_independent_of_the_guess(seed):
    *_, solver, result = random_case(seed, **TIGHT)
    rng = np.random.default_rng(seed)
    for problem, solution in result.solutions:
        for guess in (problem.v_star, np.zeros(len(solution.v)), rng.normal(size=len(solution.v))):
            other = ref.minimize(problem, guess, solver.options)
            np.testing.assert_allclose(other.v, solution.v, atol=1e-8 * (1 + np.abs(solution.v).max()))


def test_exact_guess_needs_no_iteration():
    *_, solver, result = random_case(2, **TIGHT)
    problem, solution = result.solutions[0]
    loose = ReferenceSolver(solver.model, max_iterations=0).options
    again = ref.minimize(problem, solution.v, loose)
    assert again.converged and again.iterations == 0


def test_untouched_trees_keep_their_free_motion_bitwise():
    model = bare_tree(4, tree_count=3)
    state = rm.random_state(model, 4)
    contacts = rm.random_contacts(model, state, 4, count=1)
    result = ReferenceSolver(model).step(state, None, contacts, 0.01)
    touched = np.concatenate([problem.dofs for problem, _ in result.solutions])
    others = np.setdiff1d(np.arange(model.joint_dof_count), touched)
    assert len(touched) and len(others)
    assert np.array_equal(result.v[others], result.v_star[others])
    empty = ReferenceSolver(model).step(state, None, None, 0.01)
    assert np.array_equal(empty.v, empty.v_star) and empty.iterations == 0 and empty.gamma == []


# Contact.


def test_creep_and_static_penetration_on_an_incline():
    """A body held by one contact at its center creeps at sigma w dt f_t and sinks by m g cos / k."""
    theta, dt, k, mass = 0.3, 1e-3, 1e4, 2.0
    gravity = (G * math.sin(theta), 0.0, -G * math.cos(theta))
    model = free_bodies(mass=mass, gravity=gravity, ke=k, kd=0.02 * k)
    state = model.state()
    solver = ReferenceSolver(model, contact_point="witness")
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
    solver = ReferenceSolver(model, contact_point="witness", **TIGHT)
    (contact,) = (result := solver.step(state, None, plane_contact(model, state, phi=-G / k), dt)).gamma
    Q = contact["R_n"] + mu * mu * contact["R_t"]
    expected = (G * dt * (contact["R_n"] + 1.0) + mu * speed) / (Q + 1.0 + mu * mu)
    assert expected == pytest.approx(0.35020, abs=1e-5)
    assert contact["gamma_W"][2] == pytest.approx(expected, rel=1e-6)
    assert result.joint_qd[0] == pytest.approx(speed - mu * expected, rel=1e-6)
    assert contact["v_n"] == pytest.approx(expected - G * dt, rel=1e-5)


def test_near_rigid_bound():
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
    model = free_bodies(ke=1e4, kd=500.0)
    state = model.state()
    set_velocity(model, state, [0, 0, -1.0, 0, 0, 0])
    dt, phi = 0.01, 0.02
    contacts = plane_contact(model, state, phi=phi)
    (quiet,) = ReferenceSolver(model).step(state, None, contacts, dt).gamma
    (ahead,) = ReferenceSolver(model, dissipation_ahead_of_touch=True).step(state, None, contacts, dt).gamma
    assert quiet["v_hat"] == pytest.approx(-phi / dt, rel=1e-5) and not quiet["gamma_W"].any()
    assert ahead["v_hat"] == pytest.approx(-phi / (dt + 0.05), rel=1e-5) and ahead["gamma_W"][2] > 0.1


def test_material_rules_and_overrides():
    model = free_bodies(ke=1e4, kd=500.0, mu=0.6)
    for name, value in (("ke", 3e4), ("kd", 300.0), ("mu", 0.2)):
        array = getattr(model, f"shape_material_{name}")
        values = array.numpy()
        values[1] = value
        array.assign(values)
    state, dt = model.state(), 0.1

    def properties(contacts, **options):
        (c,) = ReferenceSolver(model, near_rigid_contact=0.0, unset_materials="literal", **options).step(state, None, contacts, dt).gamma
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
    """Nothing at all, a body without a joint, and a welded body on the ground: nothing moves, nothing fails."""
    for kind in ("empty", "loose", "fixed"):
        builder = newton.ModelBuilder()
        if kind != "empty":
            body = builder.add_link(mass=1.0, inertia=inertia(1.0), lock_inertia=True)
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
    solver = ReferenceSolver(model)
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
