"""What lies on uneven ground comes to rest: no contact that bears it is taken for an edge inside a surface."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, put

HALF = (0.2, 0.15, 0.1)
LAWS = ("lagged", "similar", "sap")


def cfg(density=0.0):
    return newton.ModelBuilder.ShapeConfig(mu=0.8, density=density)


def about(axis, angle):
    return wp.quat_from_axis_angle(wp.vec3(*axis), angle)


def ground(kind, rng, cell=0.15, count=13):
    """A square of bumps: hills of triangles, or boxes that stand higher and lower, or aslant."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    places = cell * (np.arange(count) - count // 2)
    if kind in ("hills", "low hills"):
        height = rng.uniform(0.0, 0.045 if kind == "hills" else 0.0075, (count, count))
        points = np.stack([*np.meshgrid(places, places, indexing="ij"), height], axis=-1).reshape(-1, 3)
        corner = (count * np.arange(count - 1)[:, None] + np.arange(count - 1)).ravel()
        corners = [corner, corner + count, corner + 1, corner + 1, corner + count, corner + count + 1]
        mesh = newton.Mesh(points.astype(np.float32), np.stack(corners, axis=1).ravel().astype(np.int32))
        builder.add_shape_mesh(-1, mesh=mesh, cfg=cfg())
        return builder
    for x in places:
        for y in places:
            axis = rng.normal(size=3) * (kind == "tilted boxes") + [0.0, 0.0, 1e-9]
            turn = about(axis / np.linalg.norm(axis), rng.uniform(0.0, 0.3))
            high = rng.uniform(0.0, 0.05 if kind == "steps" else 0.03)
            half = 0.5 * cell
            builder.add_shape_box(-1, xform=wp.transform((x, y, high - 0.2), turn), hx=half, hy=half, hz=0.2, cfg=cfg())
    return builder


def strew(builder, rng, count=12):
    """Boxes that fall, each in a world of its own."""
    for _ in range(count):
        world = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
        place = wp.transform((*rng.uniform(-0.4, 0.4, 2), 0.2), about((0, 0, 1), rng.uniform(0.0, 6.0)))
        world.add_shape_box(world.add_body(xform=place), hx=HALF[0], hy=HALF[1], hz=HALF[2], cfg=cfg(500.0))
        builder.add_world(world)
    return builder


@pytest.mark.parametrize("dt", [1.0 / 60.0, pytest.param(1.0 / 200.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["hills", "low hills", "steps", "tilted boxes"])
def test_boxes_come_to_rest(kind, dt):
    """As with all edges kept; half of them trembled at up to 0.2 m/s, and sank in by up to 2 cm."""
    fastest = {}
    for pass_over_edges in (False, True):
        rng = np.random.default_rng(5)
        rig = Rig(strew(ground(kind, rng), rng), dt, pass_over_edges=pass_over_edges)
        rig.run(round(4.0 / dt))
        speed = np.zeros(rig.model.body_count)
        for _ in range(round(0.5 / dt)):
            speed = np.maximum(speed, np.linalg.norm(rig.run().state.body_qd.numpy()[:, :3], axis=1))
        fastest[pass_over_edges] = np.sort(speed)
    assert (fastest[True] < fastest[False] + 0.01).all()


def on_rails(support):
    """A box with its underside on one rail, and its lower edge on two supports that are 5 cm lower."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    slope, radius = math.atan2(0.05, 0.3), 0.02
    up, along = np.array([-math.sin(slope), 0, math.cos(slope)]), np.array([math.cos(slope), 0, math.sin(slope)])
    top = np.array([0.1, 0.0, 0.05])
    low = top - 0.3 * along
    rail = wp.transform(wp.vec3(*(top - radius * up)), about((1, 0, 0), 0.5 * math.pi))
    builder.add_shape_capsule(-1, xform=rail, radius=radius, half_height=0.3, cfg=cfg())
    for y in (-0.1, 0.1):
        below = wp.vec3(low[0], y, low[2] - radius)
        if support == "capsules":
            lies = wp.transform(below, about((0, 1, 0), 0.5 * math.pi))
            builder.add_shape_capsule(-1, xform=lies, radius=radius, half_height=0.1, cfg=cfg())
        elif support == "spheres":
            builder.add_shape_sphere(-1, xform=wp.transform(below, wp.quat_identity()), radius=radius, cfg=cfg())
        else:
            ridge = wp.transform((low[0], y, low[2] - 0.05 * math.sqrt(2.0)), about((1, 0, 0), 0.25 * math.pi))
            builder.add_shape_box(-1, xform=ridge, hx=0.1, hy=0.05, hz=0.05, cfg=cfg())
    center = low + along * HALF[0] + up * (HALF[2] + 1e-4)
    body = builder.add_body(xform=wp.transform(wp.vec3(*center), about((0, 1, 0), -slope)))
    builder.add_shape_box(body, hx=HALF[0], hy=HALF[1], hz=HALF[2], cfg=cfg(500.0))
    return builder


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("support", ["capsules", "spheres", "ridges"])
def test_a_box_rests_on_rails(support, law):
    """Its own underside goes through all that its lower edge lies on, and is no floor."""
    rig = Rig(on_rails(support), 1.0 / 60.0, contact_model=law)
    start = rig.body_q[0, :3]
    rig.run(90)
    fastest = max(np.abs(rig.run().v[:3]).max() for _ in range(30))
    assert fastest < 1e-4 and np.linalg.norm(rig.body_q[0, :3] - start) < 5e-4


@pytest.mark.parametrize("center", [(0.0, 0.0), (50.0, 20.0)])
def test_tiles_that_turn_together_are_one_floor(center):
    """Kinematic bodies, far from the world's origin too, where rounding makes their velocities differ."""
    spin, dt, cell = 2.0, 1.0 / 200.0, 0.3
    places = [cell * np.array([i, j]) for i in range(-7, 8) for j in range(-7, 8)]
    found = []
    for tiles in ([np.zeros(2)], places):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
        half = 0.5 * cell if len(tiles) > 1 else 2.25
        for _ in tiles:
            tile = link(builder, is_kinematic=True)
            below = wp.transform((0.0, 0.0, -0.1), wp.quat_identity())
            builder.add_shape_box(
                tile, hx=half, hy=half, hz=0.1, xform=below, cfg=newton.ModelBuilder.ShapeConfig(mu=0.1)
            )
            builder.add_articulation([builder.add_joint_free(tile)])
        body = builder.add_body(xform=wp.transform((center[0] + 1.0, center[1] + 0.07, 0.1), wp.quat_identity()))
        shape = newton.ModelBuilder.ShapeConfig(mu=0.1, density=500.0)
        builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1, cfg=shape)
        rig = Rig(builder, dt)
        for k in range(160):
            angle = spin * k * dt
            c, s = math.cos(angle), math.sin(angle)
            at = np.array(tiles) @ np.array([[c, s], [-s, c]])
            poses, rates = np.zeros((len(at), 7)), np.zeros((len(at), 6))
            poses[:, :2], poses[:, 5:] = at + center, (math.sin(0.5 * angle), math.cos(0.5 * angle))
            rates[:, 0], rates[:, 1], rates[:, 5] = -spin * at[:, 1], spin * at[:, 0], spin
            put(rig.state.joint_q, poses)
            put(rig.state.joint_qd, rates)
            newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
            rig.run()
        found.append(rig.state.body_qd.numpy()[-1])
    np.testing.assert_allclose(found[1][:3], found[0][:3], atol=5e-3)  # where it rubs decides on its spin
