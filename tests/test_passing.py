"""What flies past an edge: nothing acts on what does not touch, and what does is stopped where it arrives (F 4.5)."""

import itertools

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, collided, tight

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

SIZE = 0.05


SIDES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
"""The corners of a box's sides, each of which says by its bits where it is."""


def block(half):
    """A box as a mesh."""
    corners = [[half[k] * (1 if i >> (2 - k) & 1 else -1) for k in range(3)] for i in range(8)]
    return newton.Mesh(np.array(corners, np.float32), SIDES[:, [0, 1, 2, 0, 2, 3]].astype(np.int32).ravel())


def add(builder, body, shape, half, place=(0.0, 0.0, 0.0), along=None):
    """A shape of a given height [m]; boxes as wide and deep as given, capsules along ``along`` if it is given."""
    config = newton.ModelBuilder.ShapeConfig(mu=0.0, margin=0.0)
    at = wp.transform(place)
    if shape == "box":
        builder.add_shape_box(body, xform=at, hx=half[0], hy=half[1], hz=half[2], cfg=config)
    elif shape in ("hull", "mesh"):
        kind = builder.add_shape_convex_hull if shape == "hull" else builder.add_shape_mesh
        kind(body, xform=at, mesh=block(half), cfg=config)
    elif shape == "cylinder":
        builder.add_shape_cylinder(body, xform=at, radius=half[0], half_height=half[2], cfg=config)
    elif shape == "capsule":
        turned = wp.transform(place, wp.quat_identity() if along is None else along)
        builder.add_shape_capsule(
            body, xform=turned, radius=SIZE, half_height=0.1 if along is None else 0.2, cfg=config
        )
    else:
        builder.add_shape_sphere(body, xform=at, radius=SIZE, cfg=config)


def passing(shape, obstacle, height, speed, dt, start=0.5, fall=0.0, **options):
    """A body that flies along x over an obstacle whose top is at zero and whose edge, if any, at the origin."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    if obstacle in ("capsule", "sphere"):
        across = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi)
        add(builder, -1, obstacle, None, (0.0, 0.0, -SIZE), across)
    else:
        add(builder, -1, obstacle, (0.3, 0.3, 0.1), (0.3, 0.0, -0.1))
    body = builder.add_body(xform=wp.transform((-start, 0.0, SIZE + height)))
    add(builder, body, shape, (SIZE, SIZE, SIZE))
    return Rig(builder, dt, v=[speed, 0.0, -fall, 0.0, 0.0, 0.0], **options)


PAIRS = [
    ("box", "box"),
    ("sphere", "box"),
    ("box", "sphere"),
    ("box", "capsule"),
]
PAIRS += [
    ("hull", "hull"),
    ("cylinder", "cylinder"),
    ("mesh", "mesh"),
    ("hull", "sphere"),
    ("box", "cylinder"),
    ("mesh", "box"),
]


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize(
    ("height", "speed"), [(0.001, 2.0), pytest.param(0.01, 5.0, marks=pytest.mark.slow), (0.01, 10.0)]
)
@pytest.mark.parametrize(("shape", "obstacle"), PAIRS)
def test_what_does_not_touch_flies_on(shape, obstacle, height, speed, dt):
    """From wherever a step begins; half of the speed was lost where a millimetre was left, and cylinders and hulls were thrown."""
    for phase in range(3):
        start = 0.5 + phase / 3.0 * speed * dt
        rig = passing(shape, obstacle, height, speed, dt, start).run(round(1.2 / speed / dt) + 1)
        np.testing.assert_allclose(rig.v, [speed, 0.0, 0.0, 0.0, 0.0, 0.0], atol=1e-5)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("shape", ["box", "sphere", "hull", "cylinder"])
def test_what_meets_the_face_is_stopped(shape, dt):
    """A centimetre lower the same bodies meet the front of the box, and do not enter it."""
    for phase in range(3):
        rig = passing(shape, "box", -0.06, 5.0, dt, 0.5 + phase / 3.0 * 5.0 * dt).run(round(0.3 / dt))
        assert rig.q[0] < -SIZE + 1e-3
        assert abs(rig.v[0]) < 0.05


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("shape", ["box", "sphere", "hull", "cylinder"])
def test_what_comes_down_on_the_top_lands_on_it(shape, dt):
    """Sideways and down at once: it is the last direction that tells the two apart which stops it."""
    for phase in range(3):
        rig = passing(shape, "box", 0.05, 2.0, dt, 0.1 + phase / 3.0 * 2.0 * dt, fall=0.5, contact_model="sap")
        lowest = 1.0
        for _ in range(round(0.15 / dt)):
            lowest = min(lowest, rig.run(1).q[2])
        assert lowest > SIZE - 1e-3
        assert rig.v[0] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("height", [0.001, pytest.param(0.02, marks=pytest.mark.slow), -0.02])
@pytest.mark.parametrize(
    ("shape", "obstacle"),
    [
        *itertools.product(["box", "sphere", "capsule"], repeat=2),
        *itertools.product(["hull", "cylinder"], ["hull", "cylinder", "box"]),
    ],
)
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


@pytest.mark.usefixtures("adjoints")
@pytest.mark.parametrize("shape", ["ball", "box", "cylinder", "two balls"])
def test_gradients_of_what_arrives(shape):
    """They are those of differences, by the pose and by the velocity: how far a round shape reaches along its axis has no derivative by itself."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    body = builder.add_body(xform=wp.transform((0.0, 0.0, SIZE + 0.01)), mass=1.0, inertia=wp.diag(wp.vec3(2.0e-3)))
    builder.joint_qd[0], builder.joint_qd[2] = 0.3, -1.5
    place, config = -SIZE, newton.ModelBuilder.ShapeConfig(mu=0.0, margin=0.0, density=0.0)
    if "ball" in shape:
        builder.add_shape_sphere(body, radius=SIZE, cfg=config)
    else:
        add(builder, body, shape, (SIZE, SIZE, SIZE))
    if shape == "two balls":
        other = builder.add_body(xform=wp.transform((0.0, 0.0, -SIZE)), mass=2.0, inertia=wp.diag(wp.vec3(2.0e-3)))
        builder.add_shape_sphere(other, radius=SIZE, cfg=config)
    else:
        builder.add_shape_box(-1, xform=wp.transform((0.0, 0.0, place)), hx=1.0, hy=1.0, hz=SIZE, cfg=config)
    model = builder.finalize(requires_grad=True)
    solver, contacts = SolverSAP(model), collided(model)[1]
    dofs = model.joint_dof_count
    weights = np.random.default_rng(7).normal(size=dofs)

    def loss(name=None, index=0, change=0.0):
        start = model.state()
        if name:
            values = getattr(start, name).numpy()
            values[index] += change
            getattr(start, name).assign(values)
        after = model.state()
        with wp.Tape() as tape:
            solver.step(start, after, None, contacts, 1.0 / 60.0)
        after.joint_qd.grad.assign(weights.astype(np.float32))
        tape.backward()
        return weights @ after.joint_qd.numpy(), start

    _, at = loss()
    assert solver.report().healthy and abs(solver.inspect().v[2]) < 1.4  # it has arrived
    for name, entries in (("joint_qd", range(dofs)), ("joint_q", (0, 2))):
        found = getattr(at, name).grad.numpy()
        assert np.isfinite(found).all()
        for k in entries:
            slope = (loss(name, k, 1.0e-3)[0] - loss(name, k, -1.0e-3)[0]) / 2.0e-3
            assert found[k] == pytest.approx(slope, rel=0.02, abs=0.02 * float(np.abs(found).max()))
