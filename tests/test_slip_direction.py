"""The slip direction as an unknown of its own: what it predicts, what it does to the Hessian, and to piles."""

from functools import cache

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig
from test_laws import frames, samples

from newton_sap.constraints.laws import contact_law
from newton_sap.constraints.response import hessian_block, tangential
from newton_sap.constraints.slip_direction import follow_slip
from newton_sap.workspace import ContactPool, allocate

LAWS = ("sap", "lagged", "similar", "spin")
COUNT = 240


@cache
def walk_kernel(law):
    """A kernel that takes every slot along a path of velocities, as the minimiser does."""
    evaluate = contact_law("lagged" if law == "spin" else law, spin_friction=True)

    @wp.kernel(module="unique")
    def walk(pool: ContactPool, path: wp.array2d[wp.vec3d], exact: wp.array2d[wp.mat33d], G: wp.array2d[wp.mat33d]):
        """Hessian blocks of the law itself, and those with the predicted direction."""
        slot = wp.tid()
        for k in range(path.shape[1]):
            vc = path[slot, k]
            n = pool.normal[slot]
            vt = tangential(n, vc)
            response = evaluate(pool, slot, wp.dot(n, vc), wp.dot(vt, vt))
            exact[slot, k] = hessian_block(response, n, vt, response.slowness * vt)
            G[slot, k] = hessian_block(response, n, vt, follow_slip(pool, slot, vt, response))
            pool.vc[slot] = vc

    return walk


def slots(law, n, p):
    """A contact pool with one slot for each normal and row of parameters of tests/test_laws.py."""
    pool = allocate(ContactPool, {"*": COUNT}, "cpu", stride=1)
    pool.normal.assign(n)
    pool.spin_of.fill_(0 if law == "spin" else -1)
    if law == "sap":
        named = dict(zip(("v_hat", "R_n", "R_t", "mu"), p.T, strict=True))
    elif law == "spin":
        named = dict(zip(("mu_torsional", "mu_rolling", "slip_scale"), p.T, strict=True), n0=np.ones(COUNT))
    else:
        named = dict(zip(("mu", "n0", "slip_scale"), p[:, 4:7].T, strict=True))
        laws = p[:, [0, 1, 2, 3, 7]]
        pool.normal_law.assign(np.array([tuple(law) for law in laws], dtype=pool.normal_law.numpy().dtype))
    for name, values in named.items():
        getattr(pool, name).assign(values)
    return pool


def walk(law, path, n, p):
    """Return (exact blocks, blocks with the predicted direction, final directions) along a path (COUNT, K, 3)."""
    pool = slots(law, n, p)
    exact, G = (wp.zeros(path.shape[:2], dtype=wp.mat33d, device="cpu") for _ in range(2))
    wp.launch(
        walk_kernel(law),
        dim=COUNT,
        inputs=[pool, wp.array(path, dtype=wp.vec3d, device="cpu"), exact, G],
        device="cpu",
    )
    return exact.numpy(), G.numpy(), pool.slip_direction.numpy()


@pytest.mark.parametrize("law", LAWS)
def test_without_a_step_the_hessian_is_exact(law):
    """Where an iteration begins, and where it stays, the block is the law's own."""
    vc, n, p = samples(law)
    exact, G, _ = walk(law, np.stack([vc, vc], axis=1), n, p)
    np.testing.assert_allclose(G, exact, rtol=1e-12, atol=1e-13 * np.abs(exact).max())


@pytest.mark.parametrize("law", LAWS)
def test_the_hessian_stays_convex_and_the_direction_short(law):
    """Along any path, however wild, blocks are symmetric and positive semidefinite, and directions at most unit."""
    rng = np.random.default_rng(3)
    for seed in range(4):
        vc, n, p = samples(law, seed)
        steps = rng.normal(size=(COUNT, 6, 3)) * 10.0 ** rng.uniform(-2.0, 1.0, (COUNT, 6, 1))
        exact, G, slip = walk(law, vc[:, None] + np.cumsum(steps, axis=1), n, p)
        scale = 1.0 + np.abs(G).max(axis=(2, 3))
        assert (np.abs(G - G.swapaxes(2, 3)).max(axis=(2, 3)) / scale).max() < 1e-14
        assert (np.linalg.eigvalsh(G)[..., 0] / scale).min() > -1e-11
        assert np.linalg.norm(slip, axis=1).max() < 1.0 + 1e-12
        assert np.abs(G - exact).max() > 1e-3 * np.abs(exact).max()  # it does something


def test_the_prediction_is_of_first_order():
    """The direction after a step differs from the one predicted by the square of the step."""
    vc, n, p = samples("lagged", seed=1)
    step = np.random.default_rng(5).normal(size=vc.shape)
    error = []
    for h in (1e-3, 1e-4):
        moved = vc + h * p[:, 6:7] * step
        slip = walk("lagged", np.stack([vc, moved], axis=1), n, p)[2]
        vt = moved - np.sum(moved * n, axis=1)[:, None] * n
        t = vt / np.sqrt(np.sum(vt * vt, axis=1) + p[:, 6] ** 2)[:, None]
        error.append(np.linalg.norm(slip - t, axis=1).max())
    assert error[0] < 1e-5
    assert error[0] / error[1] == pytest.approx(100.0, rel=0.2)


def test_the_prediction_turns_with_the_frame():
    """Nothing depends on the choice of axes."""
    vc, n, p = samples("lagged", seed=2)
    path = np.stack([vc, vc + np.random.default_rng(6).normal(size=vc.shape)], axis=1)
    Q = frames(np.random.default_rng(8), 1)[0]
    _, G, slip = walk("lagged", path, n, p)
    _, turned, turned_slip = walk("lagged", path @ Q.T, n @ Q.T, p)
    np.testing.assert_allclose(turned_slip, slip @ Q.T, atol=1e-9)
    np.testing.assert_allclose(turned, Q @ G @ Q.T, rtol=1e-7, atol=1e-9 * np.abs(G).max())


def pile(count):
    """Balls of 1 kg poured into a bin, a little out of line."""
    builder, rng = newton.ModelBuilder(), np.random.default_rng(0)
    cfg = newton.ModelBuilder.ShapeConfig(ke=1e4, mu=0.8, gap=0.0, density=240.0)
    builder.add_ground_plane(cfg=cfg)
    half = 0.46
    for axis in (0, 1):
        for side in (-1.0, 1.0):
            at, size = np.array([0.0, 0.0, 1.0]), np.array([half + 0.1, half + 0.1, 5.0])
            at[axis], size[axis] = side * (half + 0.05), 0.05
            builder.add_shape_box(
                -1, xform=wp.transform(at, wp.quat_identity()), hx=size[0], hy=size[1], hz=size[2], cfg=cfg
            )
    for i in range(count):
        place = 0.22 * np.array([i % 4 - 1.5, i // 4 % 4 - 1.5, i // 16 + 0.55]) + [*rng.uniform(-0.01, 0.01, 2), 0.0]
        body = builder.add_body(xform=wp.transform(place, wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.1, cfg=cfg)
    return builder.finalize(device="cpu")


@pytest.mark.parametrize("contact_model", ["sap", "lagged", "similar"])
def test_a_collapsing_pile_needs_few_iterations(contact_model):
    """128 balls that fall on each other take about 20 iterations a step; with the exact Hessian 40 to 80."""
    rig = Rig(pile(128), 0.004, contact_model=contact_model).run(60)
    iterations = [rig.run(1).solver.report().iterations[0] for _ in range(40)]
    assert not rig.solver.report().unconverged_steps.any()
    assert np.mean(iterations) < 26.0
