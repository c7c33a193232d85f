"""Overlaps whose normal Newton's collision detection does not find: ellipsoids give it, and what nobody gives is counted."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, material, tight, weightless

from newton_sap import SolverSAP
from newton_sap.contacts.rows import ENTRIES
from newton_sap.inspection import live_slots
from newton_sap.reference import ReferenceSolver
from newton_sap.reference.basics import quat_matrix

PAIRS, DT = 60, 0.005
SIZES = np.array([[0.09, 0.07, 0.06], [0.2, 0.04, 0.03]])


def add_shape(builder, body, kind):
    """One of several shapes about as large as a fist."""
    if kind == "ellipsoid":
        builder.add_shape_ellipsoid(body, rx=SIZES[0, 0], ry=SIZES[0, 1], rz=SIZES[0, 2], cfg=material())
    elif kind == "long":
        builder.add_shape_ellipsoid(body, rx=SIZES[1, 0], ry=SIZES[1, 1], rz=SIZES[1, 2], cfg=material())
    elif kind == "cone":
        builder.add_shape_cone(body, radius=0.08, half_height=0.06, cfg=material())
    elif kind == "box":
        builder.add_shape_box(body, hx=0.06, hy=0.06, hz=0.06, cfg=material())


def overlapping(kinds, worlds=PAIRS, apart=(0.04, 0.08)):
    """A world for each of many random poses of two free bodies."""
    rng = np.random.default_rng(5)
    builder = weightless()
    for _ in range(worlds):
        world = weightless()
        for i, kind in enumerate(kinds):
            body = link(world)
            add_shape(world, body, kind)
            world.add_articulation([world.add_joint_free(body)])
            q, way = rng.normal(size=4), rng.normal(size=3)
            place = i * rng.uniform(*apart) * way / np.linalg.norm(way)
            world.joint_q[-7:] = [*place, *(q / np.linalg.norm(q))]
            world.joint_qd[-6:] = rng.normal(size=6)
        builder.add_world(world)
    return builder


def detect(model):
    """The model's state, and Newton's contacts of it."""
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    return state, contacts


def flat_rows(contacts):
    """Rows without a normal."""
    count = int(contacts.rigid_contact_count.numpy()[0])
    return np.flatnonzero(~contacts.rigid_contact_normal.numpy()[:count].any(axis=1))


def overlap_along(model, state, shapes, n):
    """How far [m] to move the second of two ellipsoids along unit vectors ``n`` (k, 3) until they part, by their support functions."""
    poses, sizes = state.body_q.numpy().astype(float), model.shape_scale.numpy().astype(float)
    a, b = (int(model.shape_body.numpy()[s]) for s in shapes)
    reach = sum(
        np.linalg.norm(n @ quat_matrix(poses[body, 3:]) * sizes[s], axis=1)
        for body, s in zip((a, b), shapes, strict=True)
    )
    return reach - n @ (poses[b, :3] - poses[a, :3])


@pytest.mark.parametrize("kinds", [("ellipsoid", "ellipsoid"), ("ellipsoid", "long")])
def test_ellipsoids_give_the_normal_of_least_overlap(kinds):
    """Where they overlap by up to two centimetres, no direction of thousands is much better; the depth is exact."""
    model = overlapping(kinds, apart=(0.1, 0.13)).finalize()
    state, contacts = detect(model)
    solver = SolverSAP(model)
    solver.step(state, model.state(), None, contacts, DT)
    pool, rows = solver.pool, set(flat_rows(contacts))
    live = live_slots(pool)
    found = zip(*(getattr(pool, name).numpy()[live] for name in ("row", "normal", "phi0")), strict=True)
    ways = np.random.default_rng(1).normal(size=(4000, 3))
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    shapes = [getattr(contacts, f"rigid_contact_shape{i}").numpy() for i in (0, 1)]
    checked = 0
    for entry, n, phi0 in found:
        row = entry // int(ENTRIES)
        if row in rows:
            pair = [int(s[row]) for s in shapes]
            np.testing.assert_allclose(-phi0, overlap_along(model, state, pair, n[None])[0], atol=1e-7)
            least = overlap_along(model, state, pair, ways).min()
            if least < 0.02:
                assert -phi0 < 1.15 * least + 5e-4
                checked += 1
    assert checked > 5 and solver.report().healthy


@pytest.mark.parametrize("law", ["lagged", "similar", "sap"])
@pytest.mark.parametrize("kind", ["ellipsoid", "long", "cone", "box"])
def test_the_reference_finds_the_same(kind, law):
    """Steps of ellipsoids that overlap with something, some of them without a normal, equal those of the reference."""
    model = overlapping(("ellipsoid", kind), worlds=30).finalize()
    state, contacts = detect(model)
    assert len(flat_rows(contacts)) > 1
    options = tight(optimality_rel=1e-11) | {"contact_model": law}
    truth = ReferenceSolver(model, **options).step(state, model.control(), contacts, DT)
    solver = SolverSAP(model, **options)
    solver.step(state, model.state(), None, contacts, DT)
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8 * np.abs(truth.v).max())
    assert not solver.report().contacts_without_normal.any()


def test_an_ellipsoid_pressed_on_another_stays_out_of_it():
    """Rows with a normal and without one alternate; without theirs it sank by centimetres."""
    deepest, lacking = 0.0, 0
    for turn in np.linspace(0.0, 1.5, 7):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
        turned = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 0.5, 0.2)), float(turn))
        builder.add_shape_ellipsoid(
            -1, xform=wp.transform((0.0, 0.0, 0.0), turned), rx=0.3, ry=0.1, rz=0.1, cfg=material()
        )
        body = link(builder)
        builder.add_shape_ellipsoid(body, rx=0.09, ry=0.07, rz=0.06, cfg=material())
        high = wp.transform((0.02, 0.01, 0.35), wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.4))
        builder.add_articulation([builder.add_joint_prismatic(-1, body, parent_xform=high, axis=newton.Axis.Z)])
        rig = Rig(builder, DT)
        for step in range(200):
            rig.run()
            lacking += len(flat_rows(rig.contacts))
            if step >= 190:
                deepest = max(deepest, rig.solver.report().penetration[0])
        assert abs(rig.v[0]) < 1e-3 and -0.3 < rig.q[0] < -0.1
    assert lacking > 10 and deepest < 2e-3


def test_what_nobody_gives_a_normal_is_counted_in_its_world():
    """Two cones in each of three worlds overlap, and one pair has no normal; a reset forgets it."""
    builder = overlapping(("cone", "cone"), worlds=3, apart=(0.05, 0.06))
    model = builder.finalize()
    state, contacts = detect(model)
    count = int(contacts.rigid_contact_count.numpy()[0])
    normals, world = contacts.rigid_contact_normal.numpy(), model.shape_world.numpy()
    mine = np.flatnonzero(world[contacts.rigid_contact_shape0.numpy()[:count]] == 1)
    normals[mine] = 0.0
    contacts.rigid_contact_normal.assign(normals)
    solver, out = SolverSAP(model), model.state()
    solver.step(state, out, None, contacts, DT)
    report = solver.report()
    assert report.contacts_without_normal.tolist() == [0, len(mine), 0] and not report.healthy
    assert report.contacts[1] == 0 and report.contacts[0] > 0 and not report.non_finite_steps.any()
    solver.reset(out, wp.array([True, False, True, True], dtype=wp.bool))
    assert solver.report().contacts_without_normal[1] == len(mine)
    solver.reset(out)
    assert solver.report().healthy


def test_strict_says_what_to_do():
    """The step raises, and names the world and the remedy."""
    model = overlapping(("cone", "cone"), worlds=2, apart=(0.05, 0.06)).finalize()
    state, contacts = detect(model)
    contacts.rigid_contact_normal.zero_()
    with pytest.raises(RuntimeError, match=r"world 0, 1: \d+ overlaps left out.* no normal; let convex hulls"):
        SolverSAP(model, strict=True).step(state, model.state(), None, contacts, DT)


def test_what_cannot_move_needs_no_normal():
    """Shapes of one body, and of bodies that are given, have nothing to say."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    for _ in range(2):
        body = link(builder, is_kinematic=True)
        add_shape(builder, body, "cone")
        builder.add_articulation([builder.add_joint_free(body)])
    model = builder.finalize()
    state, contacts = detect(model)
    contacts.rigid_contact_normal.zero_()
    contacts.rigid_contact_count.fill_(1)
    contacts.rigid_contact_shape0.zero_()
    contacts.rigid_contact_shape1.fill_(1)
    solver = SolverSAP(model)
    solver.step(state, model.state(), None, contacts, DT)
    assert solver.report().healthy
