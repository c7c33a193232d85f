"""The NumPy reference against Newton's own kinematics and dynamics, and its convex problem against differences."""

from __future__ import annotations

import math

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from reference_scenes import TIGHT, UPDATES, bare_tree, free_bodies, random_case, snapshot

from newton_sap import reference as ref
from newton_sap.reference import ReferenceSolver
from newton_sap.reference.nested import fly_on

# Kinematics and dynamics.


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("seed", range(8))
def test_kinematics_match_newton(seed, update):
    """Poses, velocities and the dof columns agree with Newton's forward kinematics."""
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
    """The mass matrix, velocity-product forces and gravity are Newton's, but for what flies below other bodies, by itself here."""
    model = bare_tree(seed, tree_count=2, descendant_free=False)
    state = rm.random_state(model, seed, forces=False)
    solver = ReferenceSolver(model, position_update="symplectic")  # its free joints differ from Newton's by order only
    m, v0 = snapshot(solver, state)
    dt = 1e-6  # Newton's forces are those at the start of a step
    A, v_star, _ = solver.free_motion(m, solver.kinematics(m, m.q, v0), v0, dt)
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
    """Differences of velocities along the motion give the velocity-product acceleration."""
    model = bare_tree(seed)
    solver = ReferenceSolver(model, position_update=update)
    m, v = snapshot(solver, rm.random_state(model, seed))
    kin = solver.kinematics(m, m.q, v)
    h = 1e-5

    def after(dt):
        return solver.kinematics(m, *fly_on(solver, m, kin, v, v, solver.integrate(m, v, v, dt), dt))

    ahead, behind = after(h), after(-h)
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
        after = totals(result.joint_q, solver.to_sap(m, result.joint_q, result.joint_qd))
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
    """joint_f of a free joint acts like body_f on its child."""
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
    """Body states follow from joint states as in Newton, and no input is modified."""
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
    """Impulse and Hessian are derivatives of the cost, and impulses lie in the cone."""
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
    """Neither cost nor impulse jumps between regions."""
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
    """Turning velocity and normal turns the impulse."""
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
    """Impulse and slope are derivatives of the cost, within the bounds."""
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


@pytest.mark.parametrize("seed", range(5))
def test_objective_derivatives(seed):
    """Gradient, Hessian and the line are derivatives of the objective."""
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
    """The cost falls at every iteration and friction stays within its bound."""
    result = random_case(seed, preset=preset, friction_bound="start")[-1]
    for problem, solution in result.solutions:
        assert solution.converged and solution.iterations < 60
        costs = np.array(solution.costs)
        assert np.all(np.diff(costs) <= 1e-12 * np.abs(costs[:-1]))
        residual = np.linalg.norm(problem.gradient(solution.v) / np.sqrt(np.diag(problem.A)))
        assert residual == pytest.approx(solution.residual, rel=1e-6)
    for contact in result.gamma:
        normal = contact["gamma_W"] @ contact["normal"]
        tangential = np.linalg.norm(contact["gamma_W"] - normal * contact["normal"])
        bound = contact["n0"] if preset is None else normal  # lagged or in the cone
        assert normal >= -1e-9 and tangential <= contact["mu"] * bound * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_solution_is_independent_of_the_guess(seed):
    """Every first guess leads to the same minimum."""
    *_, solver, result = random_case(seed, friction_bound="start", **TIGHT)
    rng = np.random.default_rng(seed)
    for problem, solution in result.solutions:
        for guess in (problem.v_star, np.zeros(len(solution.v)), rng.normal(size=len(solution.v))):
            other = ref.minimize(problem, guess, solver.options)
            np.testing.assert_allclose(other.v, solution.v, atol=1e-8 * (1 + np.abs(solution.v).max()))


def test_exact_guess_needs_no_iteration():
    """The minimum as a guess is recognised as such."""
    *_, solver, result = random_case(2, **TIGHT)
    problem, solution = result.solutions[0]
    loose = ReferenceSolver(solver.model, friction_bound="start", max_iterations=0).options
    again = ref.minimize(problem, solution.v, loose)
    assert again.converged and again.iterations == 0


def test_untouched_trees_keep_their_free_motion_bitwise():
    """Trees without constraints keep v_star."""
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
