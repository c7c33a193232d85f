"""The constraint laws as Warp evaluates them: derivatives, continuity, projection onto the cone, NumPy's verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
import warp as wp
from scipy.optimize import nnls

import newton_sap.reference as reference
from newton_sap.constraints.clamped_linear import clamped_linear, regularization
from newton_sap.constraints.friction_cone import SOFT_NORM, friction_cone
from newton_sap.constraints.hunt_crossley import NormalLaw
from newton_sap.constraints.lagged import lagged
from newton_sap.constraints.response import hessian_block, impulse, tangential
from newton_sap.constraints.similar import similar
from newton_sap.constraints.spin_friction import spin_friction
from newton_sap.workspace import RowLaw

SOFT = float(SOFT_NORM.val if hasattr(SOFT_NORM, "val") else SOFT_NORM)
LAWS = ("sap", "lagged", "similar", "spin")
STEP = 1.0e-6
"""Of the central differences."""


@wp.kernel
def cone_kernel(
    vc: wp.array[wp.vec3d], n: wp.array[wp.vec3d], p: wp.array2d[wp.float64], cost: wp.array[wp.float64],
    gamma: wp.array[wp.vec3d], G: wp.array[wp.mat33d],
):  # fmt: skip
    """Friction cone with parameters (v_hat, R_n, R_t, mu)."""
    i = wp.tid()
    vt = tangential(n[i], vc[i])
    response = friction_cone(wp.dot(n[i], vc[i]), wp.dot(vt, vt), p[i, 0], p[i, 1], p[i, 2], p[i, 3])
    cost[i] = response.cost
    gamma[i] = impulse(response, n[i], vt)
    G[i] = hessian_block(response, n[i], vt, response.slowness * vt)


@wp.func
def normal_law(p: wp.array2d[wp.float64], i: int):
    """Normal law from the parameters (fe0, k, d, dt, ..., dissipation of parting)."""
    law = NormalLaw()
    law.fe0 = p[i, 0]
    law.k = p[i, 1]
    law.d = p[i, 2]
    law.dt = p[i, 3]
    law.parting = p[i, 7]
    return law


@wp.kernel
def lagged_kernel(
    vc: wp.array[wp.vec3d], n: wp.array[wp.vec3d], p: wp.array2d[wp.float64], cost: wp.array[wp.float64],
    gamma: wp.array[wp.vec3d], G: wp.array[wp.mat33d],
):  # fmt: skip
    """Lagged model with parameters (fe0, k, d, dt, mu, n0, slip scale, parting)."""
    i = wp.tid()
    vt = tangential(n[i], vc[i])
    response = lagged(wp.dot(n[i], vc[i]), wp.dot(vt, vt), normal_law(p, i), p[i, 4], p[i, 5], p[i, 6])
    cost[i] = response.cost
    gamma[i] = impulse(response, n[i], vt)
    G[i] = hessian_block(response, n[i], vt, response.slowness * vt)


@wp.kernel
def similar_kernel(
    vc: wp.array[wp.vec3d], n: wp.array[wp.vec3d], p: wp.array2d[wp.float64], cost: wp.array[wp.float64],
    gamma: wp.array[wp.vec3d], G: wp.array[wp.mat33d],
):  # fmt: skip
    """Similar model with parameters (fe0, k, d, dt, mu, n0, slip scale, parting)."""
    i = wp.tid()
    vt = tangential(n[i], vc[i])
    response = similar(wp.dot(n[i], vc[i]), wp.dot(vt, vt), normal_law(p, i), p[i, 4], p[i, 6])
    cost[i] = response.cost
    gamma[i] = impulse(response, n[i], vt)
    G[i] = hessian_block(response, n[i], vt, response.slowness * vt)


@wp.kernel
def spin_kernel(
    w: wp.array[wp.vec3d], n: wp.array[wp.vec3d], p: wp.array2d[wp.float64], cost: wp.array[wp.float64],
    gamma: wp.array[wp.vec3d], G: wp.array[wp.mat33d],
):  # fmt: skip
    """Torsional and rolling friction with parameters (torsional bound, rolling bound, slip scale)."""
    i = wp.tid()
    vt = tangential(n[i], w[i])
    response = spin_friction(wp.dot(n[i], w[i]), wp.dot(vt, vt), p[i, 0], p[i, 1], p[i, 2])
    cost[i] = response.cost
    gamma[i] = impulse(response, n[i], vt)
    G[i] = hessian_block(response, n[i], vt, response.slowness * vt)


@wp.kernel
def row_kernel(
    vc: wp.array[wp.float64], p: wp.array2d[wp.float64], cost: wp.array[wp.float64], gamma: wp.array[wp.float64],
    G: wp.array[wp.float64],
):  # fmt: skip
    """Scalar row with parameters (v_hat, R, slack, lower, upper)."""
    i = wp.tid()
    law = RowLaw()
    law.v_hat = p[i, 0]
    law.R = p[i, 1]
    law.slack = p[i, 2]
    law.lower = p[i, 3]
    law.upper = p[i, 4]
    response = clamped_linear(vc[i], law)
    cost[i] = response.cost
    gamma[i] = response.gamma
    G[i] = response.G


@wp.kernel
def regularization_kernel(p: wp.array2d[wp.float64], R: wp.array[wp.float64]):
    """Regularisation with parameters (dt, k, tau, w, beta)."""
    i = wp.tid()
    R[i] = regularization(p[i, 0], p[i, 1], p[i, 2], p[i, 3], p[i, 4])


KERNELS = {"sap": cone_kernel, "lagged": lagged_kernel, "similar": similar_kernel, "spin": spin_kernel}


def evaluate(law, vc, n, p):
    """Return (cost, gamma, G) of a contact law for arrays of velocities, normals and parameters."""
    count = len(vc)
    out = [wp.zeros(count, dtype=t) for t in (wp.float64, wp.vec3d, wp.mat33d)]
    inputs = [wp.array(vc, dtype=wp.vec3d), wp.array(n, dtype=wp.vec3d), wp.array(p, dtype=wp.float64)]
    wp.launch(KERNELS[law], dim=count, inputs=inputs, outputs=out)
    return [a.numpy() for a in out]


def evaluate_rows(vc, p):
    """Return (cost, gamma, G) of the scalar law."""
    out = [wp.zeros(len(vc), dtype=wp.float64) for _ in range(3)]
    wp.launch(
        row_kernel, dim=len(vc), inputs=[wp.array(vc, dtype=wp.float64), wp.array(p, dtype=wp.float64)], outputs=out
    )
    return [a.numpy() for a in out]


def frames(rng, count):
    """Random right-handed triples (t1, t2, n), shape (count, 3, 3)."""
    Q, _ = np.linalg.qr(rng.normal(size=(count, 3, 3)))
    return Q.transpose(0, 2, 1)


def cone_samples(seed=0, count=240):
    """Friction-cone samples all over the three regions and close to both boundaries, as (vc, n, p, region)."""
    rng = np.random.default_rng(seed)
    T = frames(rng, count)
    v_hat, slip = rng.normal(size=count), 10.0 ** rng.uniform(-1.5, 0.5, count)
    R_n, R_t = 10.0 ** rng.uniform(-2, 1, count), 10.0 ** rng.uniform(-2, 1, count)
    mu = rng.choice([0.1, 0.5, 1.0, 2.0], count)
    s = np.hypot(slip, R_t * SOFT)
    stick_from, open_until = s * R_n / (mu * R_t), -mu * s
    region = np.arange(count) % 3
    near = np.where(rng.random(count) < 0.5, 10.0 ** rng.uniform(-4, -2, count), 10.0 ** rng.uniform(-1, 0.5, count))
    middle = np.where(
        rng.random(count) < 0.5,
        open_until + near / (1.0 + near) * (stick_from - open_until),
        stick_from - near / (1.0 + near) * (stick_from - open_until),
    )
    u_n = np.select([region == 0, region == 1], [stick_from * (1.0 + near), middle], open_until * (1.0 + near))
    angle = rng.uniform(0.0, 2.0 * math.pi, count)
    tangent = np.cos(angle)[:, None] * T[:, 0] + np.sin(angle)[:, None] * T[:, 1]
    vc = (v_hat - u_n)[:, None] * T[:, 2] - slip[:, None] * tangent
    return vc, T[:, 2], np.column_stack([v_hat, R_n, R_t, mu]), region


def hunt_crossley_samples(seed=0, count=240):
    """Samples of the lagged and similar models: open and closed contacts, approaching, separating, sliding."""
    rng = np.random.default_rng(seed)
    n = frames(rng, count)[:, 2]
    vc = rng.normal(size=(count, 3)) * 10.0 ** rng.uniform(-1.0, 0.3, count)[:, None]
    dt, k, d = 0.1, 10.0 ** rng.uniform(1, 3, count), rng.choice([0.0, 0.5, 2.0], count)
    fe0 = rng.normal(size=count) * k * dt
    mu, n0 = rng.choice([0.0, 0.5, 1.0], count), dt * np.maximum(fe0, 0.0) * rng.uniform(0.0, 2.0, count)
    parting = d * rng.choice([0.1, 1.0], count)
    slip_scale = 10.0 ** rng.uniform(-2, -0.5, count)
    return vc, n, np.column_stack([fe0, k, d, np.full(count, dt), mu, n0, slip_scale, parting])


def spin_samples(seed=0, count=240):
    """Samples of torsional and rolling friction: spins far below and above the scale, in all directions."""
    rng = np.random.default_rng(seed)
    n = frames(rng, count)[:, 2]
    scale = 10.0 ** rng.uniform(-2.0, -0.5, count)
    w = rng.normal(size=(count, 3)) * (scale * 10.0 ** rng.uniform(-1.0, 1.5, count))[:, None]
    return w, n, np.column_stack([rng.choice([0.0, 0.3, 1.0], count), rng.choice([0.0, 0.2, 2.0], count), scale])


def samples(law, seed=0):
    """Velocities, normals and parameters of one law."""
    if law == "spin":
        return spin_samples(seed)
    return cone_samples(seed)[:3] if law == "sap" else hunt_crossley_samples(seed)


@pytest.mark.parametrize("law", LAWS)
def test_impulse_is_minus_the_gradient_of_the_cost(law):
    """Central differences of the cost give minus the impulse, in every region and close to the boundaries."""
    vc, n, p = samples(law)
    cost, gamma, G = evaluate(law, vc, n, p)
    scale = 1.0 + np.abs(gamma).max(axis=1) + np.abs(cost) + STEP * np.abs(G).max(axis=(1, 2))
    for e in range(3):
        ahead, behind = (evaluate(law, vc + sign * STEP * np.eye(3)[e], n, p)[0] for sign in (1.0, -1.0))
        np.testing.assert_array_less(np.abs((ahead - behind) / (2.0 * STEP) + gamma[:, e]) / scale, 1e-7)


@pytest.mark.parametrize("law", LAWS)
def test_hessian_is_minus_the_gradient_of_the_impulse(law):
    """Central differences of the impulse give minus the Hessian block, except across a kink of the law."""
    vc, n, p = samples(law, seed=1)
    _, _, G = evaluate(law, vc, n, p)
    scale = 1.0 + np.abs(G).max(axis=(1, 2))
    numeric = np.zeros_like(G)
    smooth = np.ones(len(vc), bool)
    for e in range(3):
        ahead, behind = (evaluate(law, vc + sign * STEP * np.eye(3)[e], n, p) for sign in (1.0, -1.0))
        numeric[:, :, e] = (ahead[1] - behind[1]) / (2.0 * STEP)
        smooth &= np.abs(ahead[2] - behind[2]).max(axis=(1, 2)) < 0.01 * scale
    assert smooth.mean() > 0.95
    np.testing.assert_array_less((np.abs(numeric + G).max(axis=(1, 2)) / scale)[smooth], 1e-4)


@pytest.mark.parametrize("law", LAWS)
def test_hessian_is_symmetric_and_positive_semidefinite(law):
    """Every Hessian block is convex: what makes the whole problem have one minimum."""
    for seed in range(4):
        vc, n, p = samples(law, seed)
        _, _, G = evaluate(law, vc, n, p)
        scale = 1.0 + np.abs(G).max(axis=(1, 2))
        assert (np.abs(G - G.transpose(0, 2, 1)).max(axis=(1, 2)) / scale).max() < 1e-15
        assert (np.linalg.eigvalsh(G)[:, 0] / scale).min() > -1e-11


@pytest.mark.parametrize("law", LAWS)
def test_law_is_monotone(law):
    """For two velocities, the impulses never point the way the velocities differ."""
    a, n, p = samples(law, seed=2)
    b = a + np.random.default_rng(3).normal(size=a.shape)
    gamma_a, gamma_b = evaluate(law, a, n, p)[1], evaluate(law, b, n, p)[1]
    product = np.sum((gamma_a - gamma_b) * (a - b), axis=1)
    assert product.max() <= 1e-12 * np.abs(gamma_a).max()


@pytest.mark.parametrize("law", LAWS)
def test_law_equals_the_reference(law):
    """Warp and NumPy agree to the round-off of float64."""
    vc, n, p = samples(law, seed=4)
    outputs = evaluate(law, vc, n, p)
    assert all(a.dtype == np.float64 for a in outputs)
    for i in range(len(vc)):
        if law == "sap":
            expected = reference.friction_cone(vc[i], n[i], *p[i])
        elif law == "spin":
            expected = reference.spin_friction(vc[i], n[i], *p[i])
        else:
            mu, n0, slip_scale, parting = p[i, 4:]
            normal = reference.HuntCrossley(*p[i, :4], parting)
            bound = (mu, n0) if law == "lagged" else (mu,)
            expected = getattr(reference, law)(vc[i], n[i], normal, *bound, slip_scale)
        for value, truth in zip((a[i] for a in outputs), expected, strict=True):
            np.testing.assert_allclose(value, truth, rtol=1e-11, atol=1e-12 * (1.0 + np.abs(truth).max()))


def test_cone_regions_are_the_intended_ones():
    """The samples stick, slide and separate as constructed, and impulses stay inside the cone."""
    vc, n, p, region = cone_samples()
    _, gamma, _ = evaluate("sap", vc, n, p)
    normal = np.sum(gamma * n, axis=1)
    tangential = np.linalg.norm(gamma - normal[:, None] * n, axis=1)
    bound = p[:, 3] * normal
    np.testing.assert_array_less(tangential[region == 0], bound[region == 0] + 1e-15)
    np.testing.assert_allclose(tangential[region == 1], bound[region == 1], rtol=1e-9)
    assert not gamma[region == 2].any()
    assert normal[region == 1].min() > 0.0


def test_cone_is_continuous_across_boundaries():
    """Cost and impulse do not jump from sticking to sliding to open."""
    vc, n, p, region = cone_samples(count=90)
    u_t = -(vc - np.sum(vc * n, axis=1)[:, None] * n)
    s = np.sqrt(np.sum(u_t**2, axis=1) + (p[:, 2] * SOFT) ** 2)
    for u_n in (s * p[:, 1] / (p[:, 3] * p[:, 2]), -p[:, 3] * s):
        sides = [evaluate("sap", (p[:, 0] - u_n * (1.0 + o))[:, None] * n - u_t, n, p) for o in (1e-9, -1e-9)]
        scale = 1.0 + np.abs(sides[0][1]).max(axis=1)
        np.testing.assert_array_less(np.abs(sides[0][0] - sides[1][0]) / (1.0 + np.abs(sides[0][0])), 1e-7)
        np.testing.assert_array_less(np.abs(sides[0][1] - sides[1][1]).max(axis=1) / scale, 1e-7)


def test_cone_impulse_is_the_nearest_point_of_the_cone():
    """In the R-norm no admissible impulse is closer to R^-1 (v_hat n - vc), says a solver that only knows generators."""
    vc, n, p, _ = cone_samples(seed=5, count=90)
    _, gamma, _ = evaluate("sap", vc, n, p)
    angle = np.linspace(0.0, 2.0 * math.pi, 2000, endpoint=False)
    for i in range(len(vc)):
        v_hat, R_n, R_t, mu = p[i]
        frame = np.vstack([np.linalg.svd(n[i][None])[2][1:], n[i]])  # rows t1, t2, n
        root = np.sqrt([R_t, R_t, R_n])
        target = (np.array([0.0, 0.0, v_hat]) - frame @ vc[i]) / root  # R^(1/2) y
        rays = root[:, None] * np.vstack([mu * np.cos(angle), mu * np.sin(angle), np.ones_like(angle)])
        _, distance = nnls(rays, target)
        ours = root * (frame @ gamma[i])
        scale = np.linalg.norm(target)
        assert np.linalg.norm(ours - target) <= distance + 1e-7 * scale
        # Conversely the polyhedron inside the cone comes close to ours.
        assert distance <= np.linalg.norm(ours - target) + 1e-5 * scale


@pytest.mark.parametrize("law", LAWS)
def test_law_has_no_preferred_tangent(law):
    """Turning velocity and normal together turns impulse and Hessian and leaves the cost."""
    vc, n, p = samples(law, seed=7)
    Q = frames(np.random.default_rng(8), 1)[0]
    Q = Q if np.linalg.det(Q) > 0.0 else -Q
    cost, gamma, G = evaluate(law, vc, n, p)
    turned = evaluate(law, vc @ Q.T, n @ Q.T, p)
    np.testing.assert_allclose(turned[0], cost, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(turned[1], gamma @ Q.T, rtol=1e-9, atol=1e-10 * (1.0 + np.abs(gamma).max()))
    np.testing.assert_allclose(turned[2], Q @ G @ Q.T, rtol=1e-7, atol=1e-9 * np.abs(G).max())


def test_frictionless_contact_at_rest_is_finite():
    """Zero friction or zero slip makes nothing divide by zero."""
    n = np.tile([0.0, 0.0, 1.0], (4, 1))
    vc = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    for mu in (0.0, 0.5):
        p = np.tile([0.0, 0.5, 0.2, mu], (4, 1))
        cost, gamma, G = evaluate("sap", vc, n, p)
        assert np.isfinite(cost).all() and np.isfinite(gamma).all() and np.isfinite(G).all()
        assert gamma[1, 2] == pytest.approx(2.0)
    np.testing.assert_allclose(evaluate("sap", vc[2:3], n[2:3], [[0.0, 0.5, 0.2, 0.0]])[1][0, :2], 0.0, atol=1e-15)


def test_hunt_crossley_bounds_friction():
    """Lagged friction stays below mu n0, similar friction below mu times its own normal impulse."""
    vc, n, p = hunt_crossley_samples(seed=9)
    for law in ("lagged", "similar"):
        _, gamma, _ = evaluate(law, vc, n, p)
        normal = np.sum(gamma * n, axis=1)
        tangential = np.linalg.norm(gamma - normal[:, None] * n, axis=1)
        bound = p[:, 4] * (p[:, 5] if law == "lagged" else normal)
        np.testing.assert_array_less(tangential, bound + 1e-12 * (1.0 + bound))
        assert normal.min() > -1e-12 and normal.max() > 0.0


def test_spin_friction_is_bounded_and_brakes():
    """Moments stay below their bounds, reach them in fast spins, and take energy."""
    w, n, p = spin_samples(seed=12)
    _, gamma, _ = evaluate("spin", w, n, p)
    w_n, twist = np.sum(w * n, axis=1), np.sum(gamma * n, axis=1)
    w_t, roll = w - w_n[:, None] * n, gamma - twist[:, None] * n
    for spin, moment, bound in ((np.abs(w_n), np.abs(twist), p[:, 0]), (*np.linalg.norm([w_t, roll], axis=2), p[:, 1])):
        np.testing.assert_array_less(moment, bound + 1e-15)
        fast = spin > 8.0 * p[:, 2]
        assert fast.sum() > 20
        np.testing.assert_allclose(moment[fast], bound[fast], rtol=0.01, atol=1e-12)
    assert np.max(w_n * twist) <= 1e-14 and np.max(np.sum(w_t * roll, axis=1)) <= 1e-14


ROW_BOUNDS = ((0.0, 1e300), (-0.4, 0.4), (-1e300, 1e300), (-1.0, 0.2))


@pytest.mark.parametrize("slack", [0.0, 0.4])
@pytest.mark.parametrize("bounds", ROW_BOUNDS)
def test_scalar_row(bounds, slack):
    """The scalar law: derivatives, bounds, convexity and agreement with the reference, close to its kinks too.

    With a slack it is two of the reference's rows, one from either side.
    """
    rng = np.random.default_rng(10)
    v_hat, R = 0.3, 0.5
    kinks = [v_hat - np.sign(b) * slack - R * b for b in bounds if abs(b) < 1e300]
    kinks += [v_hat - slack, v_hat + slack] if slack else []
    vc = np.concatenate(
        [rng.normal(size=60), *(k + o * np.array([-1e-3, 1e-3, -1e-5, 1e-5]) for k in kinks for o in (1, 3))]
    )
    p = np.tile([v_hat, R, slack, *bounds], (len(vc), 1))
    cost, gamma, G = evaluate_rows(vc, p)
    ahead, behind = evaluate_rows(vc + STEP, p), evaluate_rows(vc - STEP, p)
    np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * STEP), -gamma, atol=1e-8)
    np.testing.assert_allclose((ahead[1] - behind[1]) / (2 * STEP), -G, atol=1e-8)
    assert G.min() >= 0.0 and gamma.min() >= bounds[0] and gamma.max() <= bounds[1]
    rows = [(v_hat, bounds)]
    if slack:
        rows = [(v_hat - slack, (0.0, bounds[1])), (v_hat + slack, (bounds[0], 0.0))]
    expected = np.array([np.sum([reference.clamped_linear(v, at, R, *b) for at, b in rows], axis=0) for v in vc])
    np.testing.assert_allclose(np.column_stack([cost, gamma, G]), expected, rtol=1e-13, atol=1e-15)
    assert np.isfinite(cost).all()


def test_regularization_equals_the_reference():
    """R is the compliance, unless that is stiffer than the step resolves."""
    rng = np.random.default_rng(11)
    p = np.column_stack(
        [
            10.0 ** rng.uniform(-4, -1, 100),
            10.0 ** rng.uniform(2, 12, 100),
            rng.choice([0.0, 0.01, 0.2], 100),
            10.0 ** rng.uniform(-2, 2, 100),
            rng.choice([0.0, 0.1, 1.0], 100),
        ]
    )
    R = wp.zeros(100, dtype=wp.float64)
    wp.launch(regularization_kernel, dim=100, inputs=[wp.array(p, dtype=wp.float64)], outputs=[R])
    expected = [reference.regularization(beta, w, k, tau, dt) for dt, k, tau, w, beta in p]
    np.testing.assert_allclose(R.numpy(), expected, rtol=1e-14)
    bounded = R.numpy() > 1.0 / (p[:, 0] * p[:, 1] * (p[:, 0] + p[:, 2])) * (1.0 + 1e-9)
    assert 10 < bounded.sum() < 90
