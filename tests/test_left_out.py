"""What a step leaves out because free motion does not reach it: limits that sleep, and open contacts."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, put, weightless

STIFF = {"limit_ke": 1e9, "limit_kd": 1e6}
PLAIN = {"armature": 0.0, "damping": 0.0, "friction": 0.0}
SECOND_AXIS = wp.transform((0.4, 0.0, 0.0), wp.quat_identity())
STEPS = (1.0 / 60.0, 1.0 / 240.0)


def drive(target, ke, kd):
    """Keywords of a joint with a drive to a position."""
    return {"target_q": target, "target_ke": ke, "target_kd": kd, "actuator_mode": newton.JointTargetMode.POSITION}


# Limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gains", [(200.0, 20.0), (2000.0, 50.0), (1e5, 1e3)], ids=str)
@pytest.mark.parametrize("dt", STEPS)
def test_a_drive_does_not_throw_another_joint_through_its_limit(dt, gains):
    """A shoulder is driven by 1.5 rad; the passive elbow, thrown by it, stops at 0.05 rad."""
    builder = weightless()
    upper, lower = (link(builder, mass, 0.005, com=wp.vec3(0.2, 0.0, 0.0)) for mass in (1.0, 0.5))
    shoulder = builder.add_joint_revolute(-1, upper, axis=newton.Axis.Z, **drive(1.5, *gains), **PLAIN)
    limits = {"limit_lower": -0.05, "limit_upper": 0.05, **STIFF}
    elbow = builder.add_joint_revolute(upper, lower, axis=newton.Axis.Z, parent_xform=SECOND_AXIS, **limits, **PLAIN)
    builder.add_articulation([shoulder, elbow])
    rig = Rig(builder, dt)
    for _ in range(60):
        assert abs(rig.run().q[1]) < 0.051
    assert rig.solver.report().healthy and abs(rig.q[0]) > 0.5


@pytest.mark.parametrize("dt", STEPS)
def test_a_blow_does_not_throw_a_joint_through_its_limit(dt):
    """A pendulum at rest, with limits of 0.02 rad, is hit by a ball of five times its mass at 10 m/s."""
    builder, cfg = weightless(), newton.ModelBuilder.ShapeConfig(density=0.0)
    arm = link(builder, 0.2, 0.001, com=wp.vec3(0.0, 0.0, -0.3))
    builder.add_shape_sphere(arm, xform=wp.transform((0.0, 0.0, -0.5), wp.quat_identity()), radius=0.05, cfg=cfg)
    limits = {"limit_lower": -0.02, "limit_upper": 0.02, "limit_ke": 1e8, "limit_kd": 1e5}
    builder.add_articulation([builder.add_joint_revolute(-1, arm, axis=newton.Axis.Y, **limits, **PLAIN)])
    ball = builder.add_body(
        xform=wp.transform((-0.3, 0.0, -0.5), wp.quat_identity()), mass=1.0, inertia=wp.diag(wp.vec3(0.01))
    )
    builder.add_shape_sphere(ball, radius=0.05, cfg=cfg)
    builder.joint_qd[1] = 10.0
    rig, most = Rig(builder, dt), 0.0
    for _ in range(round(0.15 / dt)):
        most = max(most, abs(rig.run().q[0]))
    assert 0.015 < most < 0.022


def test_a_mimic_does_not_carry_a_joint_through_its_limit():
    """A slider that follows another one, driven by 1 m, stops at its limit of 1 cm, as at rest: 1.5 cm with a limit that yields."""
    builder = weightless()
    leader, follower = link(builder), link(builder)
    first = builder.add_joint_prismatic(-1, leader, axis=newton.Axis.X, **drive(1.0, 1e6, 1e3), **PLAIN)
    limits = {"limit_lower": -1.0, "limit_upper": 0.01, **STIFF}
    second = builder.add_joint_prismatic(-1, follower, axis=newton.Axis.X, **limits, **PLAIN)
    builder.add_articulation([first, second])
    builder.set_joint_mimic(second, first)
    rig = Rig(builder, 1.0 / 240.0)
    for _ in range(20):
        assert rig.run().q[1] < 0.016


def test_limits_out_of_reach_cost_no_minimisation():
    """A chain in free fall, far from its limits and below its velocity limits, keeps the velocity of free motion."""
    builder = newton.ModelBuilder()
    base = link(builder)
    joints, above = [builder.add_joint_free(base)], base
    for _ in range(3):
        below = link(builder)
        limits = {"limit_lower": -2.0, "limit_upper": 2.0, "velocity_limit": 30.0}
        joints.append(builder.add_joint_revolute(above, below, axis=newton.Axis.Y, parent_xform=SECOND_AXIS, **limits))
        above = below
    builder.add_articulation(joints)
    rig = Rig(builder, 0.005, v=[0.0] * 6 + [0.3, -0.4, 0.5]).run(5)
    report, seen = rig.solver.report(), rig.solver.inspect()
    assert report.iterations_max[0] == 0 and (seen.v == seen.v_star).all()
    assert (
        rig.solver.problem.clusters.entry.numpy()["rows_asleep"][0] == 0
    )  # of a tree that nothing touches, none is kept
    builder.joint_qd[8] = 50.0
    fast = Rig(builder, 0.005).run(1)
    assert abs(fast.v[8]) < 30.1


# Open contacts -----------------------------------------------------------------------------------------------------


def wall(builder, surface):
    """A plate 2 cm thick with its surface at x."""
    at = wp.transform((surface + 0.01, 0.0, 0.0), wp.quat_identity())
    builder.add_shape_box(-1, xform=at, hx=0.01, hy=1.0, hz=1.0, cfg=newton.ModelBuilder.ShapeConfig(gap=0.1))


def ball(builder, x, y=0.0, radius=0.05, density=100.0):
    """A free ball."""
    body = builder.add_body(xform=wp.transform((x, y, 0.0), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=radius, cfg=newton.ModelBuilder.ShapeConfig(density=density, gap=0.1))
    return body


def weightless_ball(builder, body, y=0.0):
    """A shape without mass on a link."""
    cfg, at = newton.ModelBuilder.ShapeConfig(density=0.0, gap=0.1), wp.transform((0.0, y, 0.0), wp.quat_identity())
    builder.add_shape_sphere(body, xform=at, radius=0.1, cfg=cfg)


@pytest.mark.parametrize("gains", [(500.0, 20.0), (1e4, 100.0)], ids=str)
@pytest.mark.parametrize("dt", STEPS)
def test_what_pushes_off_stays_before_the_wall_behind_it(dt, gains):
    """A free base 5 mm before a wall drives a slider away from it."""
    builder = weightless()
    base, slider = builder.add_link(), link(builder, 4.0, 0.02)
    cfg = newton.ModelBuilder.ShapeConfig(density=1000.0, gap=0.1)
    builder.add_shape_sphere(base, radius=0.1, cfg=cfg)
    joints = [builder.add_joint_free(base)]
    joints.append(builder.add_joint_prismatic(base, slider, axis=newton.Axis.X, **drive(-1.0, *gains), **PLAIN))
    builder.add_articulation(joints)
    wall(builder, 0.105)
    rig = Rig(builder, dt)
    for _ in range(6):
        assert rig.run().body_q[0, 0] < 0.006


@pytest.mark.parametrize("dt", STEPS)
def test_a_bat_does_not_strike_a_ball_through_a_wall(dt):
    """A bat that turns about its COM, its tip at 20 m/s, strikes a ball of half a kilogram 1 cm before a wall.

    Heavier and faster, it squeezes the ball by a centimetre, a tenth of its size.
    """
    builder = weightless()
    bat = link(builder, 20.0, 5.0)
    weightless_ball(builder, bat, -1.0)
    builder.add_articulation([builder.add_joint_revolute(-1, bat, axis=newton.Axis.Z, **PLAIN)])
    ball(builder, 0.23, -1.0)
    builder.joint_qd[0] = 20.0
    wall(builder, 0.29)
    rig = Rig(builder, dt)
    for _ in range(round(0.13 / dt)):
        assert rig.run().body_q[1, 0] + 0.05 < 0.3


@pytest.mark.parametrize("pushed_by", ["drive", "joint_f"])
@pytest.mark.parametrize("dt", STEPS)
def test_a_paddle_that_starts_does_not_push_a_ball_through_a_wall(dt, pushed_by):
    """A paddle at rest 1 mm behind a ball at rest, 1 cm before a wall, is set in motion in this very step."""
    builder = weightless()
    paddle = link(builder, 2.0, 0.02)
    weightless_ball(builder, paddle)
    gains = drive(0.3, 2000.0, 50.0) if pushed_by == "drive" else {}
    builder.add_articulation([builder.add_joint_prismatic(-1, paddle, axis=newton.Axis.X, **gains, **PLAIN)])
    ball(builder, 0.151)
    wall(builder, 0.211)
    rig = Rig(builder, dt, force=None if gains else [500.0])
    for _ in range(6):
        assert rig.run().body_q[1, 0] + 0.05 < 0.221


def test_a_kinematic_bat_of_the_global_world_counts():
    """Its speed, too, may be handed on: it pushes a ball by 9 cm, at a wall of its world 4 cm away, and it gives nowhere.

    Both surfaces then give by the same 2.5 cm.
    """
    scene = weightless()
    bat = scene.add_link(is_kinematic=True, mass=1.0, inertia=wp.diag(wp.vec3(1.0)))
    weightless_ball(scene, bat, -1.0)
    scene.add_articulation([scene.add_joint_revolute(-1, bat, axis=newton.Axis.Z)])
    scene.joint_qd[0] = 6.0
    one = weightless()
    ball(one, 0.16, -1.0)
    wall(one, 0.25)
    scene.add_world(one)
    rig = Rig(scene, STEPS[0])
    assert 0.27 < rig.run(1).body_q[1, 0] + 0.05 < 0.28


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
def test_what_is_pushed_out_of_the_ground_stays_below_the_ceiling(law):
    """A ball at rest, 10 cm deep in the ground and 2 cm below a ceiling, as if something fast were about elsewhere."""

    def height(something_fast):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
        cfg = newton.ModelBuilder.ShapeConfig(density=0.0, ke=1e6, kd=0.0, mu=0.0, gap=0.1)
        deep = link(builder, 1.0, 0.01)
        builder.add_articulation([builder.add_joint_free(deep)])
        builder.add_shape_sphere(deep, radius=0.2, cfg=cfg)
        builder.add_ground_plane(cfg=cfg)
        at = wp.transform((0.0, 0.0, 0.37), wp.quat_identity())
        builder.add_shape_box(-1, hx=1.0, hy=1.0, hz=0.05, xform=at, cfg=cfg)
        builder.joint_q[2] = 0.1
        if something_fast:
            body = ball(builder, 50.0)
            builder.joint_q[9] = 5.0
            builder.joint_qd[6 * body] = 100.0
        return Rig(builder, 0.005, contact_model=law, hunt_crossley_dissipation=0.0).run(1).q[2]

    assert height(False) == height(True)
    assert 0.12 < height(False) < 0.17


def tip(builder, arm, x):
    """A ball on an arm, ``x`` [m] from its joint."""
    at = wp.transform((x, 0.0, 0.0), wp.quat_identity())
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, ke=1e6, kd=1e3, gap=0.1)
    builder.add_shape_sphere(arm, xform=at, radius=0.02, cfg=cfg)


def tip_variant(x):
    """An arm with the ball there."""
    builder = newton.ModelBuilder()
    tip(builder, builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True, label=f"{x}"), x)
    return builder


def arm_before_a_wall(x=0.5, variants=False):
    """An arm at rest, driven to 10 rad/s about z, with a ball; at the arm's end there would be 3 cm to a wall."""
    builder = weightless()
    arm = link(builder)
    gains = {"target_kd": 1e3, "target_qd": 10.0, "actuator_mode": newton.JointTargetMode.VELOCITY}
    builder.add_articulation([builder.add_joint_revolute(-1, arm, axis=newton.Axis.Z, **gains, **PLAIN)])
    if variants:
        builder.add_body_variants(arm, [tip_variant(x), tip_variant(0.5)])
    else:
        tip(builder, arm, x)
    at = wp.transform((0.5, 0.1, 0.0), wp.quat_identity())
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, ke=1e6, kd=1e3, gap=0.1)
    builder.add_shape_box(-1, xform=at, hx=0.1, hy=0.05, hz=0.1, cfg=cfg)
    return builder.finalize()


def switched_on():
    """The ball does not collide when the solver is built."""
    model = arm_before_a_wall()
    flags = model.shape_flags.numpy().copy()
    model.shape_flags.assign([0, flags[1]])
    rig = Rig(model, 0.02)
    model.shape_flags.assign(flags)
    rig.pipeline = newton.CollisionPipeline(model)
    rig.contacts = rig.pipeline.contacts()
    return rig, newton.ModelFlags.SHAPE_PROPERTIES


def moved_out():
    """The ball is at the joint then."""
    rig = Rig(arm_before_a_wall(0.0), 0.02)
    put(rig.model.shape_transform, [0.5])
    return rig, newton.ModelFlags.SHAPE_PROPERTIES


def other_variant():
    """The body is another variant then."""
    rig = Rig(arm_before_a_wall(0.0, variants=True), 0.02)
    return rig, rig.model.select_body_variants(wp.array([1], dtype=wp.int32))


@pytest.mark.parametrize("captured", [False, True], ids=["eager", "captured"])
@pytest.mark.parametrize("change", [switched_on, moved_out, other_variant])
def test_shapes_that_changed_are_seen_from_the_notice_on(change, captured):
    """What an arm carries at its end stops before a wall just as if it had been there from the start."""
    built = Rig(arm_before_a_wall(), 0.02).run(1)
    rig, flags = change()
    if captured:
        with wp.ScopedCapture() as capture:
            rig.solver.notify_model_changed(flags)
        wp.capture_launch(capture.graph)
    else:
        rig.solver.notify_model_changed(flags)
    rig.run(1)
    np.testing.assert_allclose(rig.q, built.q, rtol=1e-3)
    assert 0.03 < 0.5 * np.sin(rig.q[0]) < 0.031


@pytest.mark.parametrize("law", ["sap", "similar"])
def test_a_belt_acts_from_as_far_as_a_slab_that_moves_alike(law):
    """A body at rest, nearer to it than mu s dt, is lifted by the slip (F 8.4), whatever makes the surface move."""

    def lifted(by_belt):
        corners = np.array([[-4, -4, 0], [4, -4, 0], [4, 4, 0], [-4, 4, 0]], np.float32)
        triangles = np.array([0, 1, 2, 0, 2, 3], np.int32)
        surface = newton.Mesh(corners, triangles, compute_inertia=False, enable_surface_velocity=True)
        builder, cfg = weightless(), newton.ModelBuilder.ShapeConfig(density=0.0, mu=0.8, gap=0.05)
        slab = builder.add_body(is_kinematic=True, mass=1.0, inertia=wp.diag(wp.vec3(1.0)))
        builder.add_shape_mesh(slab, mesh=surface, cfg=cfg)
        above = builder.add_body(
            mass=1.0, inertia=wp.diag(wp.vec3(0.01)), xform=wp.transform((0.0, 0.0, 0.06), wp.quat_identity())
        )
        builder.add_shape_sphere(above, radius=0.05, cfg=cfg)
        rig = Rig(builder, 0.01, contact_model=law)
        if by_belt:
            surface.mesh.velocities.fill_(wp.vec3(2.0, 0.0, 0.0))
        else:
            put(rig.state.joint_qd, [2.0])
        return rig.run(1).v[6:]

    np.testing.assert_allclose(lifted(True), lifted(False), rtol=1e-5, atol=1e-6)
    assert lifted(True)[2] > 0.1
