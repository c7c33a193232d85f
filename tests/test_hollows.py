"""What slides through a hollow of facets, each a little steeper than the one before, meets none of the edges between them."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig
from test_internal_edges import passed_over_as_by_the_reference

R, HALF, THICK = 1.0, 0.1, 0.05
RIDES = R * math.cos(math.asin(HALF / R)) - THICK
"""How far from the axis the middle of a box is that touches a half-pipe with two edges [m]."""
FREE = newton.ModelBuilder.ShapeConfig(mu=0.0, density=0.0)


def half_pipe(builder, kind, step=0.0, facets=61):
    """A half-pipe about the y axis; its left part is higher by a step [m]."""
    angles = np.linspace(-1.1, 1.1, facets)
    x, z = R * np.sin(angles), -R * np.cos(angles)
    if kind == "heightfield":
        x = np.linspace(-0.9, 0.9, facets)
        heights = np.tile(-np.sqrt(R * R - x * x) + step * (x < -0.1), (9, 1)).astype(np.float32)
        field = newton.Heightfield(data=heights, nrow=9, ncol=facets, hx=0.9, hy=0.5)
        builder.add_shape_heightfield(heightfield=field, cfg=FREE)
        return
    if kind == "boxes":  # one under each facet
        for i in range(facets - 1):
            along = np.array([x[i + 1] - x[i], z[i + 1] - z[i]])
            middle = 0.5 * np.array([x[i] + x[i + 1], z[i] + z[i + 1]])
            middle += 0.02 * middle / np.linalg.norm(middle)  # the axis of the pipe is at zero
            turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -math.atan2(along[1], along[0]))
            at = wp.transform((middle[0], 0.0, middle[1] + step * (x[i + 1] < -0.1)), turn)
            builder.add_shape_box(-1, xform=at, hx=0.5 * np.linalg.norm(along), hy=0.5, hz=0.02, cfg=FREE)
        return
    z = z + step * (x < -0.1)
    points = np.array([(a, y, b) for y in (-0.5, 0.5) for a, b in zip(x, z, strict=True)], np.float32)
    i = np.arange(facets - 1)[:, None]
    triangles = np.concatenate([i + [[0, facets + 1, facets]], i + [[0, 1, facets + 1]]])
    builder.add_shape_mesh(-1, mesh=newton.Mesh(points, triangles.ravel().astype(np.int32)), cfg=FREE)


def box_in(kind, angle=0.5, **options):
    """A builder with a box without friction that starts at an angle [rad]."""
    builder = newton.ModelBuilder()
    half_pipe(builder, kind, **options)
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -angle)
    at = wp.transform((RIDES * math.sin(angle), 0.0, -RIDES * math.cos(angle)), turn)
    body = builder.add_body(xform=at)
    cfg = newton.ModelBuilder.ShapeConfig(mu=0.0, density=1000.0)
    builder.add_shape_box(body, hx=HALF, hy=0.1, hz=THICK, cfg=cfg)
    return builder


@pytest.mark.parametrize("law", ["lagged", "sap"])
@pytest.mark.parametrize("dt", [1 / 60, pytest.param(1 / 240, marks=pytest.mark.slow), 1 / 1000])
@pytest.mark.parametrize("kind", ["mesh", "heightfield", "boxes"])
def test_a_box_swings_through_a_half_pipe(kind, dt, law):
    """It comes up as high as it was, on the other side, but for what facets take."""
    rig = Rig(box_in(kind), dt, contact_model=law)
    lowest, aside = 0.0, 0.0
    for _ in range(int(1.4 / dt)):
        x, y, z = rig.run(1).body_q[0, :3]
        lowest, aside = min(lowest, math.atan2(x, -z)), max(aside, abs(y))
        assert abs(math.hypot(x, z) - RIDES) < 4e-3
    assert rig.solver.report().healthy
    assert -0.5 < lowest < (-0.45 if law == "lagged" else -0.4)
    assert aside < (5e-3 if law == "lagged" else 3e-2)


@pytest.mark.parametrize("law", ["lagged", "sap"])
@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
@pytest.mark.parametrize("facets", [61, 121])
@pytest.mark.parametrize("kind", ["mesh", "boxes"])
def test_a_ball_swings_through_a_half_pipe(kind, facets, dt, law):
    """Also where it goes on by more than one facet in a step; that took two thirds of its energy from one that rolled over boxes."""
    builder = newton.ModelBuilder()
    half_pipe(builder, kind, facets=facets)
    rides = R - 0.05
    ball = builder.add_body(xform=wp.transform((rides * math.sin(0.8), 0.0, -rides * math.cos(0.8))))
    builder.add_shape_sphere(ball, radius=0.05, cfg=newton.ModelBuilder.ShapeConfig(mu=0.0, density=1000.0))
    rig, lowest = Rig(builder, dt, contact_model=law), 0.0
    for _ in range(int(1.4 / dt)):
        x, _, z = rig.run(1).body_q[0, :3]
        lowest = min(lowest, math.atan2(x, -z))
    assert rig.solver.report().healthy
    assert -0.8 < lowest < -0.75


@pytest.mark.parametrize("dt", [1 / 240, pytest.param(1 / 1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", [0.003, 0.01])
@pytest.mark.parametrize("kind", ["mesh", "heightfield", "boxes"])
def test_a_step_in_a_hollow_stays(kind, step, dt):
    """A box that comes along at 1.5 m/s does not go through it."""
    rig = Rig(box_in(kind, step=step, facets=181), dt)
    for _ in range(int(0.8 / dt)):
        x, _, z, *turn = rig.run(1).body_q[0]
        front = np.array(wp.quat_rotate(wp.quat(*turn), wp.vec3(-HALF, 0.0, -THICK))) + [x, 0.0, z]
        if front[0] < -0.115:
            assert front[2] > -math.sqrt(R * R - front[0] ** 2) + step - 2e-3
    assert rig.solver.report().healthy


@pytest.mark.parametrize("law", ["lagged", "sap"])
@pytest.mark.parametrize("kind", ["mesh", "heightfield", "boxes"])
def test_the_reference_passes_over_the_same_edges_of_a_hollow(kind, law):
    """A step of a box that slides towards them equals the reference's."""
    builder = box_in(kind, angle=0.2)
    builder.joint_qd[:3] = [-1.4 * math.cos(0.2), 0.0, -1.4 * math.sin(0.2)]
    passed_over_as_by_the_reference(builder, law)
