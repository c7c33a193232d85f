"""Floors of tiles, meshes and heightfields: what slides or rolls over them meets no edge, and walls on them stop it."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, collided, link, put, tight

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

DT = 1.0 / 240.0
MU = 0.4
CELL = 0.5
LAWS = ("lagged", "similar", "sap")
SOME_LAWS = ("lagged", pytest.param("similar", marks=pytest.mark.slow), "sap")


def cfg(friction=MU, **kwargs):
    return newton.ModelBuilder.ShapeConfig(mu=friction, density=0.0, mu_torsional=0.001, **kwargs)


def grid(rows=21, height=lambda x: 0.0, cell=CELL):
    """A mesh of squares, each of two triangles, along x as high as given."""
    places = cell * (np.arange(rows) - rows // 2)
    points = np.array([[x, y, height(x)] for x in places for y in places], np.float32)
    corner = (rows * np.arange(rows - 1)[:, None] + np.arange(rows - 1)).ravel()
    squares = np.stack([corner, corner + rows, corner + 1, corner + 1, corner + rows, corner + rows + 1], axis=1)
    return newton.Mesh(points, squares.ravel().astype(np.int32))


def lay(builder, floor):
    """A flat floor at height zero, of one kind or another."""
    if floor == "plane":
        builder.add_ground_plane(cfg=cfg())
    elif floor == "tiles":
        for x in np.arange(-4.75, 5.0, CELL):
            at = wp.transform((x, 0.0, -0.5), wp.quat_identity())
            builder.add_shape_box(-1, xform=at, hx=0.5 * CELL, hy=5.0, hz=0.5, cfg=cfg())
    elif floor == "bodies":
        for x in np.arange(-4.75, 5.0, CELL):
            tile = link(builder, xform=wp.transform((x, 0.0, -0.5), wp.quat_identity()), is_kinematic=True)
            builder.add_shape_box(tile, hx=0.5 * CELL, hy=5.0, hz=0.5, cfg=cfg())
            anchor = wp.transform((x, 0.0, -0.5), wp.quat_identity())
            builder.add_articulation([builder.add_joint_fixed(-1, tile, parent_xform=anchor)])
    elif floor == "mesh":
        builder.add_shape_mesh(-1, mesh=grid(), cfg=cfg())
    elif floor == "heightfield":
        flat = newton.Heightfield(data=np.zeros((41, 41), np.float32), nrow=41, ncol=41, hx=5.0, hy=5.0)
        builder.add_shape_heightfield(heightfield=flat, cfg=cfg())


def mover(builder, place, half=None, radius=0.1):
    """A box, or a ball, of 4 kg."""
    body = link(builder, 4.0, 0.05 if half else 0.4 * 4.0 * radius**2)
    if half:
        builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], cfg=cfg())
    else:
        builder.add_shape_sphere(body, radius=radius, cfg=cfg())
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_q[-7:-4] = place
    return body


def slide(floor, speed, start=-2.0, **options):
    """A box of 0.4 m that slides along x."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, floor)
    mover(builder, (start, 0.03, 0.1), half=(0.2, 0.2, 0.1))
    builder.joint_qd[-6] = speed
    return Rig(builder, DT, **options)


# What has no edges ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", ["tiles", "bodies", "mesh", "heightfield"])
def test_a_box_slides_over_seams(floor):
    """It comes as far as on a plane; taken for walls, seams stop it after 0.15 to 0.8 of 1.14 m and throw it up by 1 to 5 cm."""
    truth, rig, highest = slide("plane", 3.0).run(200), slide(floor, 3.0), 0.0
    for _ in range(200):
        highest = max(highest, rig.run().q[2])
    np.testing.assert_allclose(rig.q[:3], truth.q[:3], atol=5e-3)
    assert highest < 0.1001 and rig.solver.report().healthy


def carted(surface, half, speed, build=True, **options):
    """A box or a ball that comes along a cart of 50 kg on rails, which is flat by a mesh, a box, or several, on plates fixed to it or not."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    cart = link(builder, 50.0, 50.0)
    joints = [builder.add_joint_prismatic(-1, cart, axis=(1.0, 0.0, 0.0))]
    if surface == "mesh":
        builder.add_shape_mesh(cart, mesh=grid(cell=0.3), cfg=cfg())
    elif surface in ("tiles", "plates"):
        for x in np.arange(-2.85, 3.0, 0.3):
            at, plate = wp.transform((x, 0.0, -0.1), wp.quat_identity()), cart
            if surface == "plates":
                plate = link(builder, 1e-3, 1e-3)
                joints.append(builder.add_joint_fixed(cart, plate))
            builder.add_shape_box(plate, xform=at, hx=0.15, hy=3.0, hz=0.1, cfg=cfg())
    else:
        at = wp.transform((0.0, 0.0, -0.1), wp.quat_identity())
        builder.add_shape_box(cart, xform=at, hx=3.0, hy=3.0, hz=0.1, cfg=cfg())
    builder.add_articulation(joints)
    mover(builder, (-0.72, 0.11, 0.1), half=half)
    builder.joint_qd[-6:] = [speed, 0.0, 0.0, 0.0, 0.0 if half else 10.0 * speed, 0.0]
    return Rig(builder, 1.0 / 60.0, **options) if build else builder


@pytest.mark.parametrize("surface", ["mesh", "tiles", "plates"])
@pytest.mark.parametrize(("half", "speed"), [((0.1, 0.1, 0.1), 2.0), (None, 1.0)], ids=["box", "ball"])
def test_what_moves_along_what_moves_meets_no_seam(half, speed, surface):
    """A box stopped at the first seam and jumped by 3 cm, a ball lost a quarter of its speed in a second."""
    truth, rig, highest = carted("box", half, speed), carted(surface, half, speed), 0.0
    for _ in range(40):
        highest = max(highest, rig.run().q[3])
    np.testing.assert_allclose(rig.v[:2], truth.run(40).v[:2], atol=0.02)
    assert highest < 0.101 and rig.solver.report().healthy


@pytest.mark.parametrize("height", [0.004, 0.2])
def test_walls_and_steps_of_what_moves_stop(height):
    """A box that slides along a cart of plates ends in front of one that is thicker, and goes on with the cart."""
    builder = carted("tiles", (0.1, 0.1, 0.1), 2.5, build=False)
    at = wp.transform((0.15, 0.0, height - 0.1), wp.quat_identity())
    builder.add_shape_box(0, xform=at, hx=0.15, hy=3.0, hz=0.1, cfg=cfg())
    rig = Rig(builder, DT).run(240)
    assert rig.q[1] - rig.q[0] == pytest.approx(-0.1, abs=2e-3) and rig.q[3] == pytest.approx(0.1, abs=1e-3)
    assert rig.v[1] == pytest.approx(rig.v[0], abs=1e-3) and rig.solver.report().healthy


def thrown(floor, **material):
    """Twenty boxes, each in a world of its own, thrown over a floor in random directions, and their largest changes of speed."""
    rng = np.random.default_rng(0)
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    if floor == "mesh":  # turned in its plane, so that edges are met at any angle
        turned = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.3)
        xform = wp.transform(wp.vec3(0.0), turned)
        builder.add_shape_mesh(-1, mesh=grid(31, cell=0.2), xform=xform, cfg=cfg(**material))
    else:
        builder.add_ground_plane(cfg=cfg(**material))
    for _ in range(20):
        world = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
        way, yaw = rng.uniform(0.0, 2.0 * np.pi, 2)
        body = link(world, 12.0, [0.13, 0.08, 0.13])
        world.add_shape_box(body, hx=0.1, hy=0.15, hz=0.1, cfg=cfg(**material))
        world.add_articulation([world.add_joint_free(body)])
        world.joint_q[-7:] = [*rng.uniform(-1.0, 1.0, 2), 0.1, 0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)]
        world.joint_qd[-6:] = [2.0 * math.cos(way), 2.0 * math.sin(way), 0.0, 0.0, 0.0, 3.0]
        builder.add_world(world)
    rig = Rig(builder, DT, pipeline=lambda model: newton.CollisionPipeline(model, rigid_contact_max=4000))
    fastest = 0.0
    for _ in range(120):
        before = rig.body_qd[:, :3]
        change = rig.run().body_qd[:, :3] - before
        fastest = max(fastest, np.linalg.norm(change, axis=1).max())
    assert rig.solver.report().healthy
    return rig.body_q[:, :3], fastest


@pytest.mark.parametrize(
    "material", [{}, {"ke": 1e5, "kd": 0.0}, {"ke": 1e4, "kd": 0.0}], ids=["rigid", "stiff", "soft"]
)
def test_boxes_thrown_over_a_mesh_are_not_kicked(material):
    """Newton reports edges that lie flush in it as closed, with slanted normals, and of boxes that lean above their floor.

    As walls these gave up to 1.3 m/s in a step, to one in ten of nearly rigid boxes and nearly all soft ones.
    """
    (truth, most), (found, kick) = thrown("plane", **material), thrown("mesh", **material)
    np.testing.assert_allclose(found, truth, atol=6e-3)
    assert kick < max(2.5 * most, 0.03)


@pytest.mark.parametrize("ahead", [-1e-6, 1e-6, 3e-6])
def test_what_sinks_in_meets_no_edge(ahead):
    """The front of a box that lies micrometres deep is about to pass a seam, or has just done so."""
    rig = slide("tiles", 1.0, start=-1.2 + ahead)
    rig.state.joint_q.assign(np.array([-1.2 + ahead, 0.03, 0.1 - 6e-6, 0, 0, 0, 1], np.float32))
    assert rig.run().v[0] == pytest.approx(1.0 - DT * MU * G, abs=2e-3)


@pytest.mark.parametrize("floor", ["tiles", "mesh", "heightfield"])
def test_a_ball_rolls_over_seams(floor):
    """It slides until it rolls, at five sevenths of its speed; seams took 1 to 3 % of that and let it hop by 0.6 mm and more."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, floor)
    mover(builder, (-2.0, 0.03, 0.1))
    builder.joint_qd[-6] = 3.0
    rig, highest = Rig(builder, DT), 0.0
    for _ in range(120):
        highest = max(highest, rig.run().q[2])
    assert rig.v[0] == pytest.approx(3.0 * 5.0 / 7.0, rel=2e-3) and highest < 0.10003


def wheel(builder, start, speed, radius, half_width):
    """A disc of 4 kg that rolls along x."""
    body = link(builder, 4.0, [2.0 * radius**2 * x for x in (0.6, 0.6, 1.0)])
    builder.add_shape_cylinder(body, radius=radius, half_height=half_width, cfg=cfg(0.8))
    builder.add_articulation([builder.add_joint_free(body)])
    turned = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi)
    builder.joint_q[-7:] = [start, 0.03, radius - 1e-5, *turned]
    builder.joint_qd[-6:] = [speed, 0.0, 0.0, 0.0, speed / radius, 0.0]


@pytest.mark.parametrize("floor", ["tiles", "bodies", "mesh", "heightfield"])
@pytest.mark.parametrize("radius, half_width", [(0.1, 0.02), (0.1, 0.15), (0.5, 0.2)])
def test_a_wheel_rolls_over_seams(floor, radius, half_width):
    """Newton finds points of cylinders to 2 % of their radius only; seams took up to 3 % of the speed and threw wheels up."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, floor)
    wheel(builder, -2.3, 2.5, radius, half_width)
    rig, highest = Rig(builder, DT), 0.0
    for _ in range(240):
        highest = max(highest, rig.run().q[2] - radius)
    assert rig.v[0] == pytest.approx(2.5, rel=2e-3) and highest < 2e-3 * radius


def test_edges_are_kept_where_they_are_asked_for():
    """The option off, as in Drake's preset, seams stop a box."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, "tiles")
    mover(builder, (-2.0, 0.03, 0.1), half=(0.2, 0.2, 0.1))
    builder.joint_qd[-6] = 3.0
    assert Rig(builder, DT, pass_over_edges=False).run(200).q[0] < -1.1
    assert not SolverSAP(builder.finalize(), preset="drake").options.pass_over_edges


def test_spins_go_with_their_contacts():
    """Under spin friction a contact that is passed over takes its second slot along."""
    truth, rig = (slide(floor, 3.0, spin_friction=True).run(200) for floor in ("plane", "tiles"))
    np.testing.assert_allclose(rig.q[:3], truth.q[:3], atol=5e-3)


# What has ------------------------------------------------------------------------------------------------------------


def run_into(height, floor):
    """A box that slides into a wall."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, floor)
    at = wp.transform((0.5, 0.0, 0.5 * height), wp.quat_identity())
    builder.add_shape_box(-1, xform=at, hx=0.15, hy=2.0, hz=0.5 * height, cfg=cfg())
    mover(builder, (-0.2, 0.0, 0.1), half=(0.2, 0.2, 0.1))
    builder.joint_qd[-6] = 2.5
    return Rig(builder, DT)


@pytest.mark.parametrize("height", [0.001, 0.005, 0.02])
def test_a_wheel_runs_over_a_step(height):
    """A step on tiles takes as much of a wheel's speed as one on a plane."""
    rigs = []
    for floor in ("plane", "tiles"):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
        lay(builder, floor)
        at = wp.transform((1.0, 0.0, 0.5 * height), wp.quat_identity())
        builder.add_shape_box(-1, xform=at, hx=1.0, hy=2.0, hz=0.5 * height, cfg=cfg(0.8))
        wheel(builder, -0.4, 0.9, 0.1, 0.03)
        rigs.append(Rig(builder, DT).run(200))
    np.testing.assert_allclose(rigs[1].v[[0, 2]], rigs[0].v[[0, 2]], atol=5e-3)
    np.testing.assert_allclose(rigs[1].q[2], 0.1 + height, atol=5e-5)
    assert 0.55 < rigs[1].v[0] < 0.9 * (1.0 - 2.0 * height / 0.3)  # all of it turns about the step's edge


@pytest.mark.parametrize("height", [0.005, 0.02, 0.3])
def test_a_wall_on_the_floor_stops(height):
    """A box of 0.2 m runs into a wall lower or higher than itself, on tiles as on a plane, and does not enter it."""
    plane, tiles = run_into(height, "plane"), run_into(height, "tiles")
    plane.run(120), tiles.run(120)
    np.testing.assert_allclose(tiles.q, plane.q, atol=3e-3)
    assert 0.14 < tiles.q[0] < 0.17


def doorstop(builder, speed):
    """A wedge 0.4 m long on the floor, whose sharp toe, 0.3 m before a wall, goes first."""
    points = [[x, y, z] for x, z in ((0.2, 0.0), (-0.2, 0.0), (-0.2, 0.15)) for y in (-0.1, 0.1)]
    faces = [0, 1, 3, 0, 3, 2, 2, 3, 5, 2, 5, 4, 0, 4, 5, 0, 5, 1, 0, 2, 4, 1, 5, 3]
    body = link(builder, 4.0, 0.05, com=wp.vec3(-0.07, 0.0, 0.05))
    builder.add_shape_convex_hull(body, mesh=newton.Mesh(np.array(points, np.float32), np.array(faces)), cfg=cfg())
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_qd[-6] = speed


def wall_of(builder, kind):
    """A wall 0.5 m away along x."""
    if kind == "plane":
        turned = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -0.5 * np.pi)
        builder.add_shape_plane(xform=wp.transform((0.5, 0.0, 0.0), turned), width=0.0, length=0.0, cfg=cfg())
        return
    at = wp.transform((0.75, 0.0, 0.0), wp.quat_identity())
    if kind == "pillar":
        builder.add_shape_cylinder(-1, xform=at, radius=0.25, half_height=0.5, cfg=cfg())
        return
    if kind == "post":
        builder.add_shape_capsule(-1, xform=at, radius=0.25, half_height=0.5, cfg=cfg())
        return
    if kind == "spike":  # it leans back by two degrees
        builder.add_shape_cone(-1, xform=at, radius=0.5, half_height=8.0, cfg=cfg())
        return
    at = wp.transform((0.51, 0.0, 0.5), wp.quat_identity())
    carrier = -1
    if kind == "body":
        carrier = link(builder, xform=at, is_kinematic=True)
        builder.add_articulation([builder.add_joint_fixed(-1, carrier, parent_xform=at)])
        at = wp.transform_identity()
    builder.add_shape_box(carrier, xform=at, hx=0.01, hy=1.0, hz=0.5, cfg=cfg())


@pytest.mark.parametrize("wall", ["box", "body", "plane", "pillar", "post", "spike"])
@pytest.mark.parametrize("floor", ["plane", "tiles"])
def test_a_wall_stops_what_meets_it_at_the_floor_alone(floor, wall):
    """The toe of a doorstop; taken for an edge of the floor, a wall of 2 cm let it through by 24 mm at 5 m/s."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, floor)
    doorstop(builder, 5.0)
    wall_of(builder, wall)
    rig, deepest = Rig(builder, DT), 0.0
    for _ in range(120):
        deepest = max(deepest, rig.run().q[0] + 0.2 - 0.5)
    assert deepest < 3e-3 and rig.q[0] + 0.2 - 0.5 < 3e-4
    assert rig.solver.report().healthy


@pytest.mark.parametrize("degrees", [5.0, 30.0, 50.0])
def test_a_box_slides_up_a_ramp(degrees):
    """A floor that rises is no wall; as one it lets the box hop by 4 cm and no farther."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground_plane(cfg=cfg(0.1))
    angle = math.radians(degrees)
    turned = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -angle)
    up, along = (-math.sin(angle), 0.0, math.cos(angle)), (math.cos(angle), 0.0, math.sin(angle))
    middle = wp.vec3(0.5, 0.0, 0.0) + wp.vec3(along) - 0.1 * wp.vec3(up)
    builder.add_shape_box(-1, xform=wp.transform(middle, turned), hx=1.0, hy=2.0, hz=0.1, cfg=cfg(0.1))
    mover(builder, (0.0, 0.0, 0.1), half=(0.2, 0.2, 0.1))
    builder.joint_qd[-6] = 2.5
    builder.shape_material_mu[-1] = 0.1
    rig, highest = Rig(builder, DT), 0.0
    for _ in range(150):
        highest = max(highest, rig.run().q[2] - 0.1)
    assert highest > 0.06


def test_a_wall_bears_what_leans_on_it():
    """A thin plate on tiles is pushed against a wall and rests there."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, "tiles")
    at = wp.transform((0.5, 0.0, 0.05), wp.quat_identity())
    builder.add_shape_box(-1, xform=at, hx=0.15, hy=2.0, hz=0.05, cfg=cfg())
    mover(builder, (0.2, 0.0, 0.001), half=(0.1, 0.1, 0.001))
    rig = Rig(builder, DT)
    put(rig.control.joint_f, [50.0])
    rig.run(120)
    np.testing.assert_allclose(rig.q[:3], [0.25, 0.0, 0.001], atol=2e-4)
    np.testing.assert_allclose(rig.v, 0.0, atol=1e-3)


def test_an_edge_of_its_own_holds():
    """A hook hangs on the rim of a table: the table's top, which its arm lies on, does not hide the side it leans on."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_shape_box(
        -1, xform=wp.transform((-0.5, 0.0, -0.5), wp.quat_identity()), hx=0.5, hy=1.0, hz=0.5, cfg=cfg(0.0)
    )
    hook = mover(builder, (-0.1, 0.0, 0.02), half=(0.12, 0.05, 0.02))
    tip = wp.transform((0.13, 0.0, -0.08), wp.quat_identity())
    builder.add_shape_box(hook, xform=tip, hx=0.02, hy=0.05, hz=0.1, cfg=cfg(0.0))
    rig = Rig(builder, DT)
    put(rig.control.joint_f, [-20.0])
    rig.run(120)
    np.testing.assert_allclose(rig.q[:3], [-0.11, 0.0, 0.02], atol=1e-3)


def bridge(builder, knob):
    """Two blocks 0.2 m apart, and a plate over the slot with a knob at its underside."""
    for x in (-0.6, 0.6):
        at = wp.transform((x, 0.0, -0.25), wp.quat_identity())
        builder.add_shape_box(-1, xform=at, hx=0.5, hy=0.5, hz=0.25, cfg=cfg(0.1))
    plate = mover(builder, (0.0, 0.0, 0.02), half=(0.3, 0.2, 0.02))
    builder.shape_material_mu[-1] = 0.1
    at = wp.transform((0.0, 0.0, -0.02), wp.quat_identity())
    across = wp.transform((0.0, 0.0, -0.02), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi))
    if knob == "sphere":
        builder.add_shape_sphere(plate, xform=at, radius=0.05, cfg=cfg(0.1))
    elif knob == "ellipsoid":
        builder.add_shape_ellipsoid(plate, xform=at, rx=0.05, ry=0.04, rz=0.03, cfg=cfg(0.1))
    elif knob == "capsule":
        builder.add_shape_capsule(plate, xform=across, radius=0.05, half_height=0.1, cfg=cfg(0.1))
    elif knob == "cylinder":
        builder.add_shape_cylinder(plate, xform=across, radius=0.05, half_height=0.1, cfg=cfg(0.1))
    elif knob == "cone":  # upside down
        down = wp.transform((0.0, 0.0, -0.02), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), np.pi))
        builder.add_shape_cone(plate, xform=down, radius=0.06, half_height=0.02, cfg=cfg(0.1))


@pytest.mark.parametrize("dt", [1 / 60, DT])
@pytest.mark.parametrize("knob", ["sphere", "ellipsoid", "capsule", "cylinder", "cone"])
def test_the_rim_of_a_slot_holds(knob, dt):
    """The far side, which the plate lies on, does not make it an edge of the floor: as one, the plate trembled at 8 to 32 mm/s."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    bridge(builder, knob)
    rig, fastest = Rig(builder, dt), 0.0
    put(rig.control.joint_f, [7.0])
    rig.run(round(1.0 / dt))
    held = rig.q[0]
    for _ in range(round(0.5 / dt)):
        fastest = max(fastest, np.abs(rig.run().v).max())
    assert 0.03 < held < 0.08 and fastest < 1e-3
    assert rig.q[0] == pytest.approx(held, abs=1e-4) and rig.q[2] == pytest.approx(0.02, abs=1e-4)


# What holds ----------------------------------------------------------------------------------------------------------


def deepest(rig, seconds):
    """How deep [m] something comes to be in the ground."""
    most = 0.0
    for _ in range(round(seconds / rig.dt)):
        most = max(most, rig.run().solver.report().penetration.max())
    return most


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dt", [0.01, 0.0025])
@pytest.mark.parametrize("floor", ["mesh", pytest.param("heightfield", marks=pytest.mark.slow)])
def test_a_bowl_holds_a_ball(floor, dt, law):
    """Each facet is nearly in the plane of the next: as edges they passed over each other, and the ball fell through."""
    assert deepest(Rig(bowl(floor), dt, contact_model=law), 1.0) < 1e-3


def bowl(floor):
    """A ball in a paraboloid of facets."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    places = np.linspace(-1.0, 1.0, 41)
    height = 0.3 * (places[:, None] ** 2 + places[None, :] ** 2)
    if floor == "mesh":
        points = np.stack([*np.meshgrid(places, places, indexing="ij"), height], axis=-1).reshape(-1, 3)
        builder.add_shape_mesh(-1, mesh=newton.Mesh(points.astype(np.float32), grid(41).indices), cfg=cfg())
    else:
        facets = newton.Heightfield(data=height.astype(np.float32), nrow=41, ncol=41, hx=1.0, hy=1.0)
        builder.add_shape_heightfield(heightfield=facets, cfg=cfg())
    mover(builder, (0.4, 0.1, 0.16), radius=0.08)
    return builder


@pytest.mark.parametrize("law", SOME_LAWS)
@pytest.mark.parametrize("degrees", [0.5, pytest.param(1.0, marks=pytest.mark.slow), 2.0, 8.0])
@pytest.mark.parametrize("floor", ["mesh", "tiles"])
def test_a_valley_holds_a_ball(floor, degrees, law):
    """Two planes that meet in a crease."""
    slope = math.tan(math.radians(degrees))
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    if floor == "mesh":
        builder.add_shape_mesh(-1, mesh=grid(height=lambda x: slope * abs(x)), cfg=cfg())
    else:
        for side in (-1.0, 1.0):
            turned = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -side * math.radians(degrees))
            middle = wp.quat_rotate(turned, wp.vec3(side, 0.0, -0.1))
            builder.add_shape_box(-1, xform=wp.transform(middle, turned), hx=1.0, hy=2.0, hz=0.1, cfg=cfg())
    mover(builder, (0.05, 0.013, 0.1 / math.cos(math.radians(degrees)) + 0.05 * slope + 1e-3))
    assert deepest(Rig(builder, 0.005, contact_model=law), 1.5) < 2e-4


@pytest.mark.parametrize("law", SOME_LAWS)
@pytest.mark.parametrize("floor", ["tiles", "mesh"])
@pytest.mark.parametrize("step", [1e-3, pytest.param(3e-3, marks=pytest.mark.slow), 0.01, 0.03])
def test_a_box_leans_on_the_rim_of_a_step(step, floor, law):
    """Its own face is no surface in which the floor below would be an edge: taken for one, the box sank by 10 cm and was thrown."""
    rig = Rig(leaning(step, floor), 0.01, contact_model=law)
    assert deepest(rig, 1.5) < {"tiles": 2e-4, "mesh": 1.5e-3}[floor]  # as with all edges
    np.testing.assert_allclose(rig.v, 0.0, atol=2e-3)


def leaning(step, floor, scale=(1.0, 1.0, 1.0)):
    """A box across a step down, most of it beyond."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    if floor == "mesh":
        stair = grid(21, lambda x: 0.0 if x < 0.01 else -step)
        stair.vertices[stair.vertices[:, 0] > 0.01, 0] -= CELL - 1e-4
        mesh = newton.Mesh(stair.vertices / np.array(scale, np.float32), stair.indices)
        builder.add_shape_mesh(-1, mesh=mesh, scale=scale, cfg=cfg())
    else:
        for x, low in ((-1.0, 0.0), (1.0, step)):
            at = wp.transform((x, 0.0, -0.1 - low), wp.quat_identity())
            builder.add_shape_box(-1, xform=at, hx=1.0, hy=1.0, hz=0.1, cfg=cfg())
    mover(builder, (0.03, 0.0, 0.1), half=(0.1, 0.1, 0.1))
    return builder


@pytest.mark.parametrize("scale", [(0.5, 0.5, 0.5), (3.0, 0.3, 0.25)])
def test_a_scaled_mesh_holds_as_it_looks(scale):
    """Faces are where the scale of the shape puts them."""
    rigs = [Rig(leaning(0.003, "mesh", size), 0.01) for size in (scale, (1.0, 1.0, 1.0))]
    np.testing.assert_allclose(*[rig.run(50).q for rig in rigs], atol=1e-6)
    assert rigs[0].solver.report().penetration.max() < 1e-4


def test_a_plank_leans_on_stairs():
    """Its rims and its foot on the floor are all in the plane of the plank."""
    rig = Rig(on_stairs(), 0.005)
    assert deepest(rig, 1.0) < 2e-4
    np.testing.assert_allclose(rig.v, 0.0, atol=1e-3)


def on_stairs():
    """A plank on the rims of two stairs and on the floor."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_ground_plane(cfg=cfg(0.8))
    angle, thick = math.atan2(0.1, 0.3), 0.02
    for i in (1, 2):
        at = wp.transform((-0.3 * i - 0.5, 0.0, 0.05 * i), wp.quat_identity())
        builder.add_shape_box(-1, xform=at, hx=0.5, hy=1.0, hz=0.05 * i, cfg=cfg(0.8))
    turned = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), angle)
    middle = wp.quat_rotate(turned, wp.vec3(-0.4, 0.0, thick + 1e-5))
    plank = link(builder, 4.0, 0.1)
    builder.add_shape_box(plank, hx=0.4, hy=0.1, hz=thick, cfg=cfg(0.8))
    builder.add_articulation([builder.add_joint_free(plank)])
    builder.joint_q[-7:] = [*middle, *turned]
    return builder


# What it is ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("floor", ["tiles", "bodies", "mesh", "heightfield"])
def test_the_reference_passes_over_the_same_edges(floor, law):
    """Steps of a box, a ball and a wheel about to pass a seam equal those of the reference."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    lay(builder, floor)
    mover(builder, (-1.203, 0.03, 0.0999), half=(0.2, 0.2, 0.1))
    mover(builder, (0.22, 0.01, 0.0999))
    wheel(builder, 1.492, 2.5, 0.1, 0.15)
    builder.joint_qd[0], builder.joint_qd[6] = 3.0, 2.0
    doorstop(builder, 5.0)
    builder.joint_q[-7:-4] = (0.285, 0.3, -1e-5)
    wall_of(builder, "box")
    passed_over_as_by_the_reference(builder, law)


@pytest.mark.parametrize("surface", ["mesh", "tiles", "plates"])
@pytest.mark.parametrize("half", [(0.1, 0.1, 0.1), None], ids=["box", "ball"])
@pytest.mark.parametrize("law", LAWS)
def test_the_reference_passes_over_the_edges_of_what_moves(half, law, surface):
    """Of a box or a ball on a cart."""
    rig = carted(surface, half, 1.0).run(8)
    put(rig.model.joint_q, rig.q)
    put(rig.model.joint_qd, rig.v)
    passed_over_as_by_the_reference(rig.model, law)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("knob", ["sphere", "ellipsoid", "capsule", "cylinder", "cone"])
def test_the_reference_keeps_the_same_rims(knob, law):
    """Of a slot, of which the one that the knob moves away from is passed over."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    bridge(builder, knob)
    reach = {"ellipsoid": 0.0373, "cone": 0.03}.get(knob, 0.05)
    builder.joint_q[-7:-4] = (0.1 - reach - 1e-5, 0.0, 0.02 - 1e-6)
    builder.joint_qd[-6:] = [0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    passed_over_as_by_the_reference(builder, law)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("steps", [0, pytest.param(20, marks=pytest.mark.slow), 40])
@pytest.mark.parametrize(
    "make",
    [on_stairs, *(lambda f=f: bowl(f) for f in ("mesh", "heightfield")), *(lambda f=f: leaning(0.01, f) for f in ("tiles", "mesh"))],
    ids=["stairs", "mesh bowl", "heightfield bowl", "tiles", "mesh"],
)  # fmt: skip
def test_the_reference_keeps_what_holds(make, steps, law):
    """After some steps, on the way down or at rest."""
    model = make().finalize()
    rig = Rig(model, 0.01, contact_model=law).run(steps)
    put(model.joint_q, rig.q)
    put(model.joint_qd, rig.v)
    passed_over_as_by_the_reference(model, law, some=False)


def passed_over_as_by_the_reference(model, law, some=True):
    """Compare a step, in which not all contacts act."""
    model = model.finalize() if isinstance(model, newton.ModelBuilder) else model
    # The reference leaves no contact out: its clusters may be larger, and "solved" bounds are then read at other iterates.
    options = tight(optimality_rel=1e-11) | {"contact_model": law, "friction_bound": "start"}
    (state, contacts), out = collided(model), model.state()
    truth = ReferenceSolver(model, **options).step(state, model.control(), contacts, DT)
    solver = SolverSAP(model, **options)
    solver.step(state, out, None, contacts, DT)
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)
    assert not some or 0 < solver.report().contacts[0] < contacts.rigid_contact_count.numpy()[0]
