"""What holds for every model, state and contact: descent, optimality, momentum, independence of the surroundings."""

from __future__ import annotations

import newton
import numpy as np
import random_models as rm
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from newton_sap import SolverSAP
from newton_sap.config import CONTACT_MODELS
from newton_sap.reference import ReferenceSolver, quat_matrix

TIGHT = dict(optimality_rel=1e-13, optimality_abs=1e-16, cost_rel=0.0, cost_abs=0.0, max_iterations=60)
CONSTANT = dict(friction_bound="start")
"""One cost from the first iterate to the last."""
SEEDS = st.integers(0, 2**20)
STEPS = st.sampled_from((1e-3, 0.01, 0.05))


def few(count):
    """Settings of a deterministic property test with this many examples."""
    return settings(max_examples=count, derandomize=True, deadline=None, phases=(Phase.generate,))


@st.composite
def scenes(draw, **fixed):
    """Draw a model with its state, control and contacts."""
    seed = draw(SEEDS)
    options = dict(
        joint_count=draw(st.integers(1, 6)),
        tree_count=draw(st.integers(1, 3)),
        descendant_free=draw(st.booleans()),
        kinematic_root=draw(st.booleans()),
        friction=draw(st.booleans()),
        velocity_limits=draw(st.booleans()),
        drives=draw(st.booleans()),
    )
    model = rm.random_tree_model(seed, **{**options, **fixed})
    state = rm.random_state(model, seed, speed=draw(st.sampled_from((0.0, 0.1, 3.0))))
    contacts = rm.random_contacts(model, state, seed, count=draw(st.integers(0, 8)), welded=False)
    return model, state, rm.random_control(model, seed), contacts


@st.composite
def free_bodies(draw, ground):
    """Draw free bodies that touch each other and, if asked, the ground."""
    seed, count = draw(SEEDS), draw(st.integers(2, 4))
    model = rm.random_tree_model(seed, 1, tree_count=count, root_kinds=("free",), armature=False)
    state = rm.random_state(model, seed)
    rng = np.random.default_rng(seed)
    rows = rm.random_contact_rows(model, state, rng, 12)
    plane = model.shape_count - 1
    if not ground:
        rows = [row for row in rows if plane not in (row["shape0"], row["shape1"])]
    contacts = newton.Contacts(16, 0)
    rm.write_contacts(contacts, rows)
    return model, state, contacts


def solve(model, state, control, contacts, dt, **options):
    """Step a new solver; return the velocity of the minimum, the new state and the solver."""
    solver, out = SolverSAP(model, **options), model.state()
    solver.step(state, out, control, contacts, dt)
    return solver.inspect().v, out, solver


def observe_impulses(model, state, control, contacts, dt, **options):
    """Return the velocity of the minimum and every contact's impulse on shape 1's body."""
    solver = SolverSAP(model, **options)
    observed = solver.observables([solver.ObservableKind.CONTACT_F], contacts=contacts)
    solver.step(state, model.state(), control, contacts, dt, observables=observed)
    return solver.inspect().v, -dt * observed.contact_f.numpy()[:, :3].astype(float)


@few(6)
@given(scenes(), STEPS)
def test_cost_never_increases(case, dt):
    """Every further iteration lowers the cost, up to its round-off."""
    truth = ReferenceSolver(case[0], **CONSTANT).step(*case[1:], dt)
    before, largest = None, 0.0
    for k in range(12):
        v, _, solver = solve(*case, dt, **CONSTANT, max_iterations=k)
        costs = np.array([problem.cost(v[problem.dofs]) for problem, _ in truth.solutions])
        largest = max(largest, np.abs(costs).max(initial=0.0))
        if before is not None:
            assert np.all(costs <= before + 1e-13 * largest)
        if before is None and truth.solutions:
            start = [problem.cost(truth.v0[problem.dofs]) for problem, _ in truth.solutions]
            np.testing.assert_allclose(costs, start, rtol=1e-9)
        before = costs
        if not solver.report().unconverged_steps.any():
            break


@few(20)
@given(scenes(), STEPS)
def test_momentum_balance(case, dt):
    """A (v - v_star) is the sum of what contacts, limits, drives and friction give: J' gamma at the new velocity."""
    truth = ReferenceSolver(case[0], **CONSTANT).step(*case[1:], dt)
    v, _, solver = solve(*case, dt, **CONSTANT, **TIGHT)
    for problem, _ in truth.solutions:
        u = v[problem.dofs]
        D = 1.0 / np.sqrt(np.diag(problem.A))
        scale = max(np.linalg.norm(D * (problem.A @ u)), np.linalg.norm(D * problem.constraint_impulse(u)))
        assert np.linalg.norm(D * problem.gradient(u)) <= 1e-9 * scale
    touched = [dof for problem, _ in truth.solutions for dof in problem.dofs]
    untouched = np.setdiff1d(np.arange(len(v)), touched)
    np.testing.assert_allclose(v[untouched], solver.inspect().v_star[untouched], rtol=1e-12)


@few(20)
@given(scenes(), STEPS)
def test_optimality_conditions_of_contacts(case, dt):
    """Under sap impulses lie in the cone, vc + R gamma - v_hat n in its dual, the two are orthogonal, friction brakes."""
    truth = ReferenceSolver(case[0], contact_model="sap").step(*case[1:], dt)
    v, gammas = observe_impulses(*case, dt, contact_model="sap", **TIGHT)
    for c in (c for problem, _ in truth.solutions for c in problem.contacts):
        gamma, vc = gammas[c.index], c.J @ v + c.bias
        g_n, v_n = c.n @ gamma, c.n @ vc
        g_t, v_t = gamma - g_n * c.n, vc - v_n * c.n
        rate = (v_n + c.R_n * g_n - c.v_hat) * c.n + v_t + c.R_t * g_t
        # Observed impulses are float32, and the cone is smoothed by 1e-7 N s.
        g_error = 1e-6 * np.linalg.norm(gamma) + 2e-7
        v_error = 1e-6 * (np.linalg.norm(vc) + abs(c.v_hat)) + (c.R_n + c.R_t * (1.0 + c.mu)) * g_error
        assert np.linalg.norm(g_t) <= c.mu * g_n + g_error
        dual = c.n @ rate - c.mu * np.linalg.norm(rate - (c.n @ rate) * c.n)
        assert dual >= -4.0 * (1.0 + c.mu) * v_error
        power = np.linalg.norm(gamma) * v_error + np.linalg.norm(rate) * g_error
        assert abs(gamma @ rate) <= 4.0 * (1.0 + c.mu) * power + 1e-12
        assert g_t @ v_t <= 4.0 * (np.linalg.norm(g_t) * v_error + np.linalg.norm(v_t) * g_error) + 1e-12


@few(20)
@given(scenes(), STEPS)
def test_lagged_friction_is_bounded_and_brakes(case, dt):
    """Under lagged contacts only push, friction stays below its bound and opposes the slip."""
    truth = ReferenceSolver(case[0], **CONSTANT).step(*case[1:], dt)
    v, gammas = observe_impulses(*case, dt, **CONSTANT, **TIGHT)
    for c in (c for problem, _ in truth.solutions for c in problem.contacts):
        gamma, vc = gammas[c.index], c.J @ v + c.bias
        g_n, v_n = c.n @ gamma, c.n @ vc
        g_t, v_t = gamma - g_n * c.n, vc - v_n * c.n
        error = 1e-6 * np.linalg.norm(gamma) + 1e-9  # observed impulses are float32
        assert g_n >= -error and np.linalg.norm(g_t) <= c.mu * c.n0 + error
        assert g_t @ v_t <= -np.linalg.norm(g_t) * np.linalg.norm(v_t) * (1.0 - 1e-6) + 2.0 * error * np.linalg.norm(vc)
        assert v_n < c.normal.release() or g_n <= error


def totals(model, state, v):
    """Return linear and angular momentum about the origin of all bodies at the state's pose under velocities ``v``."""
    reference = ReferenceSolver(model)
    m = reference.read(state, None)
    kin = reference.kinematics(m, m.q, v)
    angular = np.zeros(3)
    for b in range(m.bodies):
        R = quat_matrix(kin.quat[b])
        angular += R @ m.inertia[b] @ R.T @ kin.omega[b] + m.mass[b] * np.cross(kin.com[b], kin.v_com[b])
    return m.mass @ kin.v_com, angular


@few(12)
@given(free_bodies(ground=True), STEPS)
def test_linear_momentum_changes_by_external_impulses(case, dt):
    """Gravity, applied forces and the ground change the momentum of free bodies; contacts among them do not."""
    model, state, contacts = case
    v, gammas = observe_impulses(model, state, None, contacts, dt, **TIGHT)
    mass, gravity = model.body_mass.numpy().astype(float), model.gravity.numpy()[-1].astype(float)
    external = dt * (mass.sum() * gravity + state.body_f.numpy()[:, :3].astype(float).sum(axis=0))
    plane = model.shape_count - 1
    count = int(contacts.rigid_contact_count.numpy()[0])
    for gamma, s0, s1 in zip(
        gammas, contacts.rigid_contact_shape0.numpy()[:count], contacts.rigid_contact_shape1.numpy(), strict=False
    ):
        external += gamma * (int(s0 == plane) - int(s1 == plane))
    v0 = ReferenceSolver(model).step(state, None, None, dt).v0
    change = totals(model, state, v)[0] - totals(model, state, v0)[0]
    scale = np.abs(gammas).sum() + np.abs(external).sum()
    np.testing.assert_allclose(change, external, atol=1e-6 * scale)


@few(15)
@given(free_bodies(ground=False), STEPS)
def test_contacts_between_bodies_conserve_momentum(case, dt):
    """With the default single contact point, contacts leave the sum of linear and of angular momentum alone."""
    model, state, contacts = case
    v, _, solver = solve(model, state, None, contacts, dt, **TIGHT)
    before, after = (totals(model, state, x) for x in (solver.inspect().v_star, v))
    impulse = np.abs(solver.pool.gamma.numpy()).sum()
    np.testing.assert_allclose(after[0], before[0], atol=1e-9 * (1.0 + impulse))
    np.testing.assert_allclose(after[1], before[1], atol=1e-9 * (1.0 + impulse))


@few(10)
@given(SEEDS, st.integers(0, 3), st.sets(st.integers(0, 99), min_size=3, max_size=3), STEPS)
def test_worlds_are_independent(seed, place, neighbours, dt):
    """A world ends up with the same bits wherever it stands and whoever its neighbours are."""
    own = 100 + seed
    order = sorted(neighbours)
    order.insert(place, own)
    results = []
    for seeds in ([own], order):
        worlds = rm.Assembly(seeds, friction=True)
        v, out, _ = solve(worlds.model, worlds.state, worlds.control, worlds.contacts, dt)
        results.append(worlds.split(v, out)[own])
    for alone, among in zip(*results, strict=True):
        np.testing.assert_array_equal(among, alone)


@few(10)
@given(scenes(), STEPS, st.sampled_from((2, 5)))
def test_capacity_does_not_matter(case, dt, factor):
    """More room for contacts, in Newton's buffer or in the solver, changes no bit."""
    model, state, control, contacts = case
    count, capacity = int(contacts.rigid_contact_count.numpy()[0]), contacts.rigid_contact_max
    larger = newton.Contacts(factor * capacity, 0)
    for name in ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "margin0", "margin1", "normal"):
        source, target = (getattr(c, f"rigid_contact_{name}") for c in (contacts, larger))
        values = target.numpy()
        values[:capacity] = source.numpy()
        target.assign(values)
    larger.rigid_contact_count.fill_(count)
    results = [
        solve(model, state, control, contacts, dt),
        solve(model, state, control, larger, dt),
        solve(model, state, control, contacts, dt, max_contacts=factor * capacity),
    ]
    for v, out, solver in results:
        assert not solver.report().contacts_dropped.any()
        np.testing.assert_array_equal(v, results[0][0])
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            np.testing.assert_array_equal(getattr(out, name).numpy(), getattr(results[0][1], name).numpy())


def turn_axes(model, state, rng):
    """Turn the axes along which free and ball joints write velocities; return the same state in the new coordinates."""
    q, qd = state.joint_q.numpy().copy(), state.joint_qd.numpy().copy()
    kinds, frames = model.joint_type.numpy(), [array.numpy() for array in (model.joint_X_p, model.joint_X_c)]
    for joint in np.flatnonzero(np.isin(kinds, (newton.JointType.FREE, newton.JointType.BALL))):
        turn = Rotation.random(random_state=rng)
        for frame in frames:
            frame[joint, 3:] = (Rotation.from_quat(frame[joint, 3:]) * turn).as_quat()
        at, dof = model.joint_q_start.numpy()[joint], model.joint_qd_start.numpy()[joint]
        if kinds[joint] == newton.JointType.FREE:
            q[at : at + 3] = turn.inv().apply(q[at : at + 3])
            qd[dof + 3 : dof + 6] = turn.inv().apply(qd[dof + 3 : dof + 6])
            at += 3
        q[at : at + 4] = (turn.inv() * Rotation.from_quat(q[at : at + 4]) * turn).as_quat()
        qd[dof : dof + 3] = turn.inv().apply(qd[dof : dof + 3])
    model.joint_X_p.assign(frames[0])
    model.joint_X_c.assign(frames[1])
    out = model.state()
    out.joint_q.assign(q)
    out.joint_qd.assign(qd)
    out.body_f.assign(state.body_f)
    newton.eval_fk(model, out.joint_q, out.joint_qd, out)
    return out


@few(20)
@given(SEEDS, STEPS, st.sampled_from(CONTACT_MODELS), st.booleans())
def test_axes_of_velocities_do_not_matter(seed, dt, contact_model, materials):
    """Free and ball joints write their velocities along axes that no physics depends on, contact stiffness included."""
    plain = dict.fromkeys(("armature", "damping", "springs", "limits", "drives"), False)
    build = dict(tree_count=2, root_kinds=("free", "ball"), materials=materials, **plain)
    model, turned = (rm.random_tree_model(seed, (1, 3), **build) for _ in range(2))
    state = rm.random_state(model, seed)
    contacts = rm.random_contacts(model, state, seed, welded=False)
    results = []
    for one, start in ((model, state), (turned, turn_axes(turned, state, np.random.default_rng(seed)))):
        _, out, _ = solve(one, start, None, contacts, dt, contact_model=contact_model, **CONSTANT, **TIGHT)
        results.append(out.body_qd.numpy())
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4 * np.abs(results[0]).max())
