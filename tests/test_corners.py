"""Boxes that come down askew: corners beside the one that Newton reports meet the face within the same step (F 4.7)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, collided, slopes_of_a_step, tight

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

SHEET, PLATE, BLOCK = (0.075, 0.075, 0.001), (0.075, 0.075, 0.005), (0.075, 0.075, 0.025)
LEANING = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 0.6, 0.0)), 0.3)
TABLE = (0.5, 0.5, 0.01)


def lowest_corner(half, turned):
    """How far below its middle a box reaches, and to where."""
    corners = [wp.vec3(*(np.array([x, y, z]) * half)) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    return min((wp.quat_rotate(turned, corner) for corner in corners), key=lambda corner: corner[2])


def add_table(builder, kind="box", body=-1):
    """A table whose top is at a height of zero."""
    X = wp.transform((0.0, 0.0, -TABLE[2]), wp.quat_identity())
    if kind == "box":
        builder.add_shape_box(body, xform=X, hx=TABLE[0], hy=TABLE[1], hz=TABLE[2])
    else:
        builder.add_shape_mesh(body, xform=X, mesh=newton.Mesh.create_box(*TABLE))


def dropped(half, kind="box", height=0.0, turned=LEANING, at=(0.12, 0.03), speed=-2.0):
    """A box that falls on a table, its lowest corner so far above a place on it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    add_table(builder, kind)
    corner = lowest_corner(half, turned)
    body = builder.add_body(xform=wp.transform((at[0] - corner[0], at[1] - corner[1], height - corner[2]), turned))
    builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2])
    builder.joint_qd[2] = speed
    return builder


@pytest.mark.parametrize(
    ("half", "kind", "rate", "model"),
    [
        (SHEET, "box", 60.0, "lagged"), (PLATE, "box", 60.0, "similar"), (BLOCK, "box", 60.0, "lagged"),
        (BLOCK, "box", 60.0, "sap"), (SHEET, "box", 120.0, "lagged"), (BLOCK, "mesh", 60.0, "lagged"),
    ],
)  # fmt: skip
def test_none_goes_through_a_table(half, kind, rate, model):
    """Of four dropped by 30 cm in random attitudes, on a table 2 cm thick; at 60 Hz all sheets and half of the blocks fell through."""
    builder, random = newton.ModelBuilder(gravity=(0.0, 0.0, -G)), np.random.default_rng(0)
    add_table(builder, kind)
    for x, y in ((-0.25, -0.25), (-0.25, 0.25), (0.25, -0.25), (0.25, 0.25)):
        axis = wp.normalize(wp.vec3(*random.normal(size=2), 0.0))
        turned = wp.quat_from_axis_angle(axis, random.uniform(0.1, 1.4))
        body = builder.add_body(xform=wp.transform((x, y, 0.3), turned))
        builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2])
    rig = Rig(builder, 1.0 / rate, contact_model=model)
    lowest = np.inf
    for _ in range(round(1.5 * rate)):
        lowest = min(lowest, rig.run(1).body_q[:, 2].min())
    assert lowest > -0.003
    for height in rig.body_q[:, 2]:  # on its face, or on a side
        assert min(abs(height - half[2]), abs(height - half[0])) < 2e-3


def step_once(model, dt=1.0 / 60.0, **options):
    """The solver after a step with contacts found anew, and what the reference makes of that step."""
    state, contacts = collided(model)
    truth = ReferenceSolver(model, **tight(), **options).step(state, model.control(), contacts, dt)
    solver = SolverSAP(model, **tight(), **options)
    solver.step(state, model.state(), None, contacts, dt)
    return solver, truth


@pytest.mark.parametrize("options", [{}, {"contact_model": "similar"}, {"contact_model": "sap"}, {"preset": "drake"}])
@pytest.mark.parametrize("kind", ["box", "mesh"])
@pytest.mark.parametrize("height", [-0.001, 0.01])
def test_steps_equal_the_reference(options, kind, height):
    """With a corner in the table, or about to be; Drake's preset knows no contact that is open."""
    solver, truth = step_once(dropped(BLOCK, kind, height).finalize(), **options)
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)
    beside = len(truth.gamma) - len({contact["index"] for contact in truth.gamma})
    assert (beside > 0) == ("preset" not in options)


NUT = 0.012 * np.array([[np.cos(a), np.sin(a), z] for z in (-0.5, 0.5) for a in np.arange(6) * np.pi / 3.0])


def add_part(builder, kind, body):
    """A small part of steel: a box, a pin, a pin with round ends, a cone, or a hexagonal nut as a hull."""
    steel = newton.ModelBuilder.ShapeConfig(density=7800.0, mu=0.4)
    if kind == "box":
        builder.add_shape_box(body, hx=0.006, hy=0.004, hz=0.003, cfg=steel)
    elif kind == "pin":
        builder.add_shape_cylinder(body, radius=0.004, half_height=0.008, cfg=steel)
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius=0.004, half_height=0.008, cfg=steel)
    elif kind == "cone":
        builder.add_shape_cone(body, radius=0.006, half_height=0.006, cfg=steel)
    else:
        triangles = [[0, k + 1, k + 2] for k in range(4)] + [[6, k + 8, k + 7] for k in range(4)]
        triangles += [t for k in range(6) for t in ([k, k + 6, (k + 1) % 6], [k + 6, (k + 1) % 6 + 6, (k + 1) % 6])]
        nut = newton.Mesh(NUT.astype(np.float32), np.flip(triangles, axis=1).astype(np.int32).ravel())
        builder.add_shape_convex_hull(body, mesh=nut, cfg=steel)


def add_floor(builder, kind):
    """A plane, or a thick box or mesh, up to a height of zero."""
    if kind == "plane":
        builder.add_ground_plane()
    elif kind == "box":
        builder.add_shape_box(-1, xform=wp.transform((0.0, 0.0, -0.1), wp.quat_identity()), hx=0.5, hy=0.5, hz=0.1)
    else:
        X = wp.transform((0.0, 0.0, -0.1), wp.quat_identity())
        builder.add_shape_mesh(-1, xform=X, mesh=newton.Mesh.create_box(0.5, 0.5, 0.1))


@pytest.mark.parametrize("floor", ["plane", "box", "mesh"])
@pytest.mark.parametrize("kind", ["box", "pin", "nut"])
def test_small_parts_come_to_rest_on_the_floor(kind, floor):
    """Six that fall by 3 mm in random attitudes, at 60 Hz: half of them sank by their own size, or through meshes, turning to and fro for good."""
    builder, random = newton.ModelBuilder(gravity=(0.0, 0.0, -G)), np.random.default_rng(1)
    add_floor(builder, floor)
    for k in range(6):
        axis = wp.normalize(wp.vec3(*random.normal(size=3)))
        X = wp.transform((0.05 * k - 0.12, 0.055, 0.015), wp.quat_from_axis_angle(axis, random.uniform(0.0, 3.0)))
        add_part(builder, kind, builder.add_body(xform=X))
    rig = Rig(builder, 1.0 / 60.0).run(90)
    assert rig.body_q[:, 2].min() > 0.0028


@pytest.mark.parametrize("floor", ["plane", "box", "mesh"])
@pytest.mark.parametrize("kind", ["pin", "capsule", "cone", "nut"])
@pytest.mark.parametrize("lean", [0.3, 1.2])
def test_steps_of_parts_equal_the_reference(kind, floor, lean):
    """Pins on the rim of a cap or a side, or on an end, nuts on a corner; a plane knows all points of a pin by itself."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    add_floor(builder, floor)
    turned = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 0.2, 0.1)), lean)
    body = builder.add_body(xform=wp.transform((0.12, 0.03, 0.0), turned))
    add_part(builder, kind, body)
    angles = np.arange(0.0, 6.3, 0.01)
    base = [[0.006 * np.cos(a), 0.006 * np.sin(a), -0.006] for a in angles]
    rims = [[0.004 * np.cos(a), 0.004 * np.sin(a), z] for z in (-0.008, 0.008) for a in angles]
    points = {"pin": rims, "capsule": [[0.0, 0.0, -0.008], [0.0, 0.0, 0.008]], "cone": base, "nut": NUT}[kind]
    lowest = min(wp.quat_rotate(turned, wp.vec3(*point))[2] for point in points) - 0.004 * (kind == "capsule")
    builder.joint_q[2] = builder.body_q[body][2] = -lowest - 0.0002
    builder.joint_qd[2] = -0.5
    solver, truth = step_once(builder.finalize())
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)
    beside = len(truth.gamma) - len({contact["index"] for contact in truth.gamma})
    assert (beside > 0) == (kind in ("cone", "nut") or floor != "plane")


def test_spins_of_all_corners_equal_the_reference():
    """With friction against spin each corner has two slots."""
    builder = dropped(BLOCK, height=-0.001)
    builder.shape_material_mu_torsional = [0.02] * 2
    builder.shape_material_mu_rolling = [0.01] * 2
    solver, truth = step_once(builder.finalize(), spin_friction=True)
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)
    assert len(truth.spins) == len(truth.gamma) == 4


def test_a_box_that_falls_on_a_corner_equals_the_reference():
    """Its face comes down on the corner of a box that stands still, and on the corners beside that."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    corner = lowest_corner(BLOCK, LEANING)
    builder.add_shape_box(-1, xform=wp.transform(corner, LEANING), hx=BLOCK[0], hy=BLOCK[1], hz=BLOCK[2])
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.009), wp.quat_identity()))
    builder.add_shape_box(body, hx=TABLE[0], hy=TABLE[1], hz=TABLE[2])
    builder.joint_qd[2] = -2.0
    solver, truth = step_once(builder.finalize())
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)
    assert len(truth.gamma) == 4


def test_only_corners_above_the_face_are_held():
    """A block that touches the edge of a table and is else beside it turns about that edge as if it had no other corners."""
    for x, y, count in ((0.12, 0.03, 4), (-0.45, 0.03, 2), (-0.45, 0.45, 1)):
        solver, truth = step_once(dropped(BLOCK, at=(x, y), height=-0.001).finalize())
        assert solver.report().contacts.sum() == len(truth.gamma) == count
        np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)


def test_what_rests_or_comes_slowly_has_what_newton_found():
    """A block that lies on its face, and one that leans and hardly moves."""
    flat = dropped(BLOCK, turned=wp.quat_identity(), height=-0.0001, speed=0.0).finalize()
    leaning = dropped(BLOCK, height=-0.0001, speed=0.0).finalize()
    for model, count in ((flat, 4), (leaning, 1)):
        assert step_once(model)[0].report().contacts.sum() == count


def test_shapes_that_get_corners_are_noticed():
    """What was a ball when the solver was built is a block after a notice, and steps as in a new solver; before it nothing is kept for corners."""
    model = dropped(BLOCK, height=-0.001).finalize()
    block = model.shape_type.numpy().copy()
    model.shape_type.assign(np.where(block == int(newton.GeoType.BOX), int(newton.GeoType.SPHERE), block))
    solver = SolverSAP(model)
    assert not len(solver.arrivals.corners)
    model.shape_type.assign(block)
    solver.notify_model_changed(newton.ModelFlags.SHAPE_TYPE_AND_SOURCE)
    state, contacts = collided(model)
    steps = []
    for stepping in (solver, SolverSAP(model)):
        stepping.step(state, model.state(), None, contacts, 1.0 / 60.0)
        steps.append(stepping.inspect().v)
        assert stepping.report().contacts.sum() == 4
    np.testing.assert_array_equal(*steps)


def test_forces_of_all_corners_are_reported_in_the_row_that_was_found():
    """They make up what the block gains beyond its fall; impulses in the contact frame add up likewise."""
    model = dropped(BLOCK, height=-0.001).finalize()
    state, contacts = collided(model)
    solver, after, dt = SolverSAP(model), model.state(), 1.0 / 60.0
    observables = solver.observables(["contact_f", "contact_impulse"], contacts=contacts)
    solver.step(state, after, None, contacts, dt, observables=observables)
    mass = model.body_mass.numpy()[0]
    gained = mass * (after.joint_qd.numpy()[:3] - state.joint_qd.numpy()[:3] + [0.0, 0.0, G * dt])
    count = contacts.rigid_contact_count.numpy()[0]
    np.testing.assert_allclose(-observables.contact_f.numpy()[:count, :3].sum(axis=0) * dt, gained, atol=1e-4)
    np.testing.assert_allclose(observables.contact_impulse.numpy()[:count, 2].sum(), gained[2], atol=1e-4)


def test_without_room_what_newton_found_stays():
    """A corner beside it goes first, and is counted."""
    model = dropped(BLOCK, height=-0.001).finalize()
    state, contacts = collided(model)
    solver = SolverSAP(model, max_contacts=1)
    solver.step(state, model.state(), None, contacts, 1.0 / 60.0)
    report = solver.report()
    assert report.contacts.sum() == 1
    assert report.contacts_dropped.sum() == 3
    assert solver.pool.phi0.numpy()[0] == pytest.approx(-0.001, abs=1e-5)


def test_gradients_go_through_all_corners():
    """By height, attitude and velocities of a block that comes down, against differences with contacts found anew; a law without lag."""
    model = dropped(BLOCK, height=-0.001).finalize(requires_grad=True)
    solver = SolverSAP(model, contact_model="sap")
    q, v = model.joint_q.numpy().astype(float), np.array([0.1, 0.2, -2.0, 0.3, -0.6, 0.1])
    slopes, differences = slopes_of_a_step(solver, q, v, 0.02, 2.0**-11)
    assert solver.report().contacts.sum() == 4
    np.testing.assert_allclose(slopes, differences, rtol=1e-2, atol=2e-2)
