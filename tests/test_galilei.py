"""A velocity that everything shares changes nothing, however heavy or fast what moves along is, and however small the step."""

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP

LAWS = ("lagged", "sap", "similar")


def solid(mass):
    """Inertia of a body that only has to have one."""
    return wp.mat33(np.eye(3) * mass)


def roll_out(builder, dt, steps, **options):
    """Return velocities after each step, shape (steps, dofs), and the report."""
    model = builder.finalize(device="cpu")
    solver, pipeline = SolverSAP(model, **options), newton.CollisionPipeline(model)
    state, contacts = model.state(), pipeline.contacts()
    velocities = []
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)
        velocities.append(state.joint_qd.numpy().astype(float))
    return np.array(velocities), solver.report()


def vehicle(speed, **hinge):
    """A floating base of 1500 kg that carries a hinge of 1e-4 kg m^2."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    base = builder.add_link(mass=1500.0, inertia=solid(1500.0), lock_inertia=True)
    arm = builder.add_link(mass=0.1, inertia=solid(1e-4), lock_inertia=True)
    joints = [
        builder.add_joint_free(base),
        builder.add_joint_revolute(base, arm, axis=(0, 0, 1), armature=0.0, damping=0.0, **hinge),
    ]
    builder.add_articulation(joints)
    builder.joint_qd[0] = speed
    return builder


@pytest.mark.parametrize("preset", [None, "drake"])
@pytest.mark.parametrize("dt", [5e-3, 2e-4])
def test_drive_on_a_fast_vehicle(dt, preset):
    """A light joint follows its target alike on a base at rest and on a heavy one at 30 m/s."""
    drive = {"target_ke": 0.1, "target_kd": 0.01, "target_q": 0.3, "friction": 0.0}
    rest, _ = roll_out(vehicle(0.0, **drive), dt, 100, preset=preset)
    moving, report = roll_out(vehicle(30.0, **drive), dt, 100, preset=preset)
    assert np.abs(rest[:, 6]).max() > 1.0  # it does move
    np.testing.assert_allclose(moving[:, 6], rest[:, 6], atol=1e-4)
    assert report.healthy


@pytest.mark.parametrize("dt", [5e-3, 1e-3, 2e-4])
def test_dry_friction_on_a_fast_vehicle(dt):
    """A light joint is braked by friction / inertia while its heavy base flies at 30 m/s."""
    builder = vehicle(30.0, friction=1e-4)
    builder.joint_qd[6] = 0.5
    velocities, _ = roll_out(builder, dt, 50)
    expected = np.maximum(0.5 - 1.0 * dt * np.arange(1, 51), 0.0)
    np.testing.assert_allclose(velocities[:, 6], expected, atol=2e-4)


@pytest.mark.parametrize("dt", [1e-3, 1e-4])
def test_fast_wheel_is_braked_at_any_step(dt):
    """Dry friction that takes less than a millionth of a wheel's speed per step acts all the same."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    wheel = builder.add_link(mass=1.0, inertia=solid(1.0), lock_inertia=True)
    joint = builder.add_joint_revolute(-1, wheel, axis=(0, 0, 1), friction=0.5, armature=0.0, damping=0.0)
    builder.add_articulation([joint])
    builder.joint_qd[0] = 100.0
    velocities, _ = roll_out(builder, dt, 200)
    # Newton's states are float32: 7.6e-6 rad/s at this speed, so that each step's loss is a multiple of it.
    np.testing.assert_allclose(100.0 - velocities[-1, 0], 0.5 * 200 * dt, atol=200 * 4e-6)


def box_on_a_slab(speed, mass):
    """A box of 0.1 kg that slides at 1 m/s on a slab, which rails guide at ``speed``."""
    builder = newton.ModelBuilder()
    material = newton.ModelBuilder.ShapeConfig(density=0.0, mu=0.4, ke=1e5)
    slab = builder.add_link(xform=wp.transform((0, 0, -0.1)), mass=mass, inertia=solid(mass), lock_inertia=True)
    builder.add_shape_box(slab, hx=500.0, hy=5.0, hz=0.1, cfg=material)
    rail = builder.add_joint_prismatic(
        -1, slab, parent_xform=wp.transform((0, 0, -0.1)), axis=(1, 0, 0), armature=0.0, damping=0.0, friction=0.0
    )
    builder.add_articulation([rail])
    box = builder.add_body(xform=wp.transform((0, 0, 0.05)), mass=0.1, inertia=solid(6e-5), lock_inertia=True)
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, cfg=material)
    builder.joint_qd[0], builder.joint_qd[1] = speed, speed + 1.0
    return builder


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("speed", "mass"), [(30.0, 1e5), (300.0, 1e6)])
def test_friction_on_a_fast_heavy_slab(law, speed, mass):
    """A light box brakes on it as on one at rest."""
    rest, _ = roll_out(box_on_a_slab(0.0, mass), 1 / 200, 30, contact_model=law)
    moving, report = roll_out(box_on_a_slab(speed, mass), 1 / 200, 30, contact_model=law)
    slip, slip_at_rest = moving[:, 1] - moving[:, 0], rest[:, 1] - rest[:, 0]
    assert slip_at_rest[-1] < 0.6  # it does brake
    # Speeds in float32 are 3e-5 m/s apart at 300 m/s, and friction bounds are renewed where they are 1 % off.
    np.testing.assert_allclose(slip, slip_at_rest, atol=1e-3)
    assert report.healthy


def box_and_flywheel(spin):
    """A box of 0.1 kg that slides at 2 m/s on the ground, and a flywheel that turns elsewhere."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(mu=0.5))
    box = builder.add_body(xform=wp.transform((0, 0, 0.05)), mass=0.1, inertia=solid(2e-4), lock_inertia=True)
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, cfg=newton.ModelBuilder.ShapeConfig(density=0.0, mu=0.5))
    wheel = builder.add_link(mass=1.0, inertia=solid(50.0), lock_inertia=True)
    axle = builder.add_joint_revolute(-1, wheel, axis=(0, 0, 1), friction=0.1, armature=0.0, damping=0.0)
    builder.add_articulation([axle])
    builder.joint_qd[0], builder.joint_qd[6] = 2.0, spin
    return builder


@pytest.mark.parametrize("law", LAWS)
def test_fast_company_in_the_same_world(law):
    """A flywheel that nothing joins to a sliding box, yet in the same world, does not switch the box's friction off."""
    dt, steps = 2e-4, 200
    alone, _ = roll_out(box_and_flywheel(0.0), dt, steps, contact_model=law)
    beside, report = roll_out(box_and_flywheel(300.0), dt, steps, contact_model=law)
    assert alone[-1, 0] < 1.82  # it does brake
    np.testing.assert_allclose(beside[:, 0], alone[:, 0], atol=1e-5)
    assert report.healthy
