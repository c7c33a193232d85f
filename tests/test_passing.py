"""What flies past an edge: nothing acts on what does not touch, and what does is stopped where it arrives (F 4.5)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, tight

from newton_sap.reference import ReferenceSolver

SIZE = 0.05


def passing(shape, obstacle, height, speed, dt, start=0.5, fall=0.0, **options):
    """A body that flies along x over an obstacle whose top is at zero and whose edge, if any, at the origin."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    config = newton.ModelBuilder.ShapeConfig(mu=0.0, margin=0.0)
    if obstacle == "box":
        builder.add_shape_box(-1, xform=wp.transform((0.3, 0.0, -0.1)), hx=0.3, hy=0.3, hz=0.1, cfg=config)
    elif obstacle == "capsule":
        across = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi)
        builder.add_shape_capsule(
            -1, xform=wp.transform((0.0, 0.0, -SIZE), across), radius=SIZE, half_height=0.2, cfg=config
        )
    else:
        builder.add_shape_sphere(-1, xform=wp.transform((0.0, 0.0, -SIZE)), radius=SIZE, cfg=config)
    body = builder.add_body(xform=wp.transform((-start, 0.0, SIZE + height)))
    if shape == "box":
        builder.add_shape_box(body, hx=SIZE, hy=SIZE, hz=SIZE, cfg=config)
    elif shape == "capsule":
        builder.add_shape_capsule(body, radius=SIZE, half_height=0.1, cfg=config)
    else:
        builder.add_shape_sphere(body, radius=SIZE, cfg=config)
    return Rig(builder, dt, v=[speed, 0.0, -fall, 0.0, 0.0, 0.0], **options)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize(("height", "speed"), [(0.001, 2.0), (0.01, 5.0), (0.01, 10.0)])
@pytest.mark.parametrize(
    ("shape", "obstacle"), [("box", "box"), ("sphere", "box"), ("box", "sphere"), ("box", "capsule")]
)
def test_what_does_not_touch_flies_on(shape, obstacle, height, speed, dt):
    """From wherever a step begins; half of the speed was lost where a millimetre was left."""
    for phase in range(3):
        start = 0.5 + phase / 3.0 * speed * dt
        rig = passing(shape, obstacle, height, speed, dt, start).run(round(1.2 / speed / dt) + 1)
        np.testing.assert_allclose(rig.v, [speed, 0.0, 0.0, 0.0, 0.0, 0.0], atol=1e-5)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("shape", ["box", "sphere"])
def test_what_meets_the_face_is_stopped(shape, dt):
    """A centimetre lower the same bodies meet the front of the box, and do not enter it."""
    for phase in range(3):
        rig = passing(shape, "box", -0.06, 5.0, dt, 0.5 + phase / 3.0 * 5.0 * dt).run(round(0.3 / dt))
        assert rig.q[0] < -SIZE + 1e-3
        assert abs(rig.v[0]) < 0.05


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("shape", ["box", "sphere"])
def test_what_comes_down_on_the_top_lands_on_it(shape, dt):
    """Sideways and down at once: it is the last direction that tells the two apart which stops it."""
    for phase in range(3):
        rig = passing(shape, "box", 0.05, 2.0, dt, 0.1 + phase / 3.0 * 2.0 * dt, fall=0.5, contact_model="sap")
        lowest = 1.0
        for _ in range(round(0.15 / dt)):
            lowest = min(lowest, rig.run(1).q[2])
        assert lowest > SIZE - 1e-3
        assert rig.v[0] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("height", [0.001, 0.02, -0.02])
@pytest.mark.parametrize("obstacle", ["box", "sphere", "capsule"])
@pytest.mark.parametrize("shape", ["box", "sphere", "capsule"])
def test_steps_equal_the_reference(shape, obstacle, height):
    """Passing, meeting and grazing, with some spin."""
    dt = 1.0 / 60.0
    for spin in (0.0, 2.0):
        rig = passing(shape, obstacle, height, 3.0, dt, 0.13, fall=0.3, **tight())
        rig.state.joint_qd.assign(np.array([3.0, 0.1, -0.3, spin, -spin, 0.5 * spin], np.float32))
        newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
        for _ in range(4):
            rig.pipeline.collide(rig.state, rig.contacts, dt=dt)
            expected = ReferenceSolver(rig.model, **tight()).step(rig.state, rig.control, rig.contacts, dt)
            rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, dt)
            rig.state, rig.next = rig.next, rig.state
            np.testing.assert_allclose(rig.v, expected.joint_qd, atol=1e-5)
