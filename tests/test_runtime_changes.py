"""Model values, flags and contents that change between steps, seen with and without notice, also by a captured graph."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, link, material, put, weightless
from scipy.spatial.transform import Rotation

from newton_sap import SolverSAP
from newton_sap.workspace import Bodies, Joints, Shapes

Flags = newton.ModelFlags
Mode = newton.JointTargetMode
DT = 0.005


def hinge(**joint):
    """A pendulum with its COM off the axis."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    rod = link(builder, 1.5, 0.05, com=wp.vec3(0.0, 0.0, -0.4), label="rod")
    builder.add_articulation([builder.add_joint_revolute(-1, rod, axis=newton.Axis.Y, label="hinge", **joint)])
    return builder


def falling_ball(count=1, gap=0.02, height=0.3, radius=0.05, cfg=None):
    """Free balls above the ground, side by side."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    for i in range(count):
        body = link(builder, 1.0, 1e-3, label=f"ball{i}")
        builder.add_shape_sphere(body, radius=radius, cfg=cfg or material(gap=gap))
        builder.add_articulation([builder.add_joint_free(body)])
        builder.joint_q[7 * i : 7 * i + 3] = [float(i), 0.0, height]
    builder.add_ground_plane(cfg=material(gap=gap))
    return builder


# Arrays written between steps: each changes the very next step, without notice


def one_step(rig, change=None):
    """Velocity after one step from the rig's initial state, after ``change(model)``."""
    if change:
        change(rig.model)
    return rig.run(1).v


def fill(name, value):
    return lambda model: getattr(model, name).fill_(value)


def hinge_inertia(mass=1.5, arm=0.4, moment=0.05, armature=0.0):
    return moment + mass * arm**2 + armature


PULL = G * 1.5 * 0.4 * math.sin(0.5)
CHANGES = {
    "mass": (fill("body_mass", 3.0), {}, -2 * PULL / hinge_inertia(3.0)),
    "inertia": (fill("body_inertia", wp.diag(wp.vec3(0.3))), {}, -PULL / hinge_inertia(moment=0.3)),
    "com": (fill("body_com", wp.vec3(0.0, 0.0, -0.2)), {}, -PULL / 2 / hinge_inertia(arm=0.2)),
    "armature": (fill("joint_armature", 0.4), {}, -PULL / hinge_inertia(armature=0.4)),
    "gravity": (fill("gravity", wp.vec3(0.0, 0.0, 0.0)), {}, 0.0),
    "damping": (fill("joint_damping", 2.0), {}, -PULL / (hinge_inertia() + DT * 2.0)),
    "friction": (fill("joint_friction", 1.0), {}, -(PULL - 1.0) / hinge_inertia()),
    "stiffness": (fill("joint_stiffness", 20.0), {}, -(PULL + 20.0 * 0.5) / (hinge_inertia() + DT * DT * 20.0)),
    "axis": (fill("joint_axis", wp.vec3(0.0, 0.0, 1.0)), {}, 0.0),
    "target_ke": (
        fill("joint_target_ke", 50.0), {"target_kd": 1.0, "actuator_mode": Mode.POSITION},
        -(PULL + 50.0 * 0.5) / (hinge_inertia() + DT * (DT * 50.0 + 1.0)),
    ),
    "target_kd": (
        fill("joint_target_kd", 3.0), {"target_ke": 50.0, "actuator_mode": Mode.POSITION},
        -(PULL + 50.0 * 0.5) / (hinge_inertia() + DT * (DT * 50.0 + 3.0)),
    ),
    "target_mode": (
        fill("joint_target_mode", int(Mode.VELOCITY)), {"target_ke": 50.0, "target_kd": 1.0, "actuator_mode": Mode.POSITION},
        -PULL / (hinge_inertia() + DT * 1.0),
    ),
    "effort_limit": (
        fill("joint_effort_limit", 2.0), {"target_ke": 5e3, "target_kd": 1.0, "actuator_mode": Mode.POSITION},
        -(PULL + 2.0) / hinge_inertia(),
    ),
    "velocity_limit": (fill("joint_velocity_limit", 0.01), {}, -0.01 / DT),
}  # fmt: skip


def start_of(joint):
    return Rig(hinge(**joint), DT, q=[0.5])


@pytest.mark.parametrize("name", CHANGES)
def test_change_acts_at_the_next_step(name):
    """A value written into the model's array acts at once: the step has the acceleration of its formula."""
    change, joint, acceleration = CHANGES[name]
    assert one_step(start_of(joint), change)[0] == pytest.approx(DT * acceleration, rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("name", CHANGES)
def test_change_acts_in_a_replayed_graph(name):
    """The same, with the change made after the graph was captured and before it is replayed."""
    change, joint, acceleration = CHANGES[name]
    rig = start_of(joint)
    with wp.ScopedCapture() as capture:
        rig.solver.step(rig.state, rig.next, rig.control, None, DT)
    change(rig.model)
    wp.capture_launch(capture.graph)
    assert rig.next.joint_qd.numpy()[0] == pytest.approx(DT * acceleration, rel=2e-3, abs=1e-6)


def test_limits_change_at_run_time():
    """A joint resting on its limit follows the limit to a new place."""
    rig = Rig(hinge(limit_lower=0.3, limit_upper=2.0, limit_ke=1e6, limit_kd=1e5), DT, q=[0.5]).run(200)
    assert rig.q[0] == pytest.approx(0.3, abs=1e-3)
    rig.model.joint_limit_lower.fill_(-0.4)
    rig.model.joint_limit_upper.fill_(-0.3)
    rig.run(400)
    assert rig.q[0] == pytest.approx(-0.3, abs=1e-2)


def test_rest_coordinate_changes_at_run_time():
    """A passive spring pulls to a new rest coordinate."""
    rig = Rig(hinge(stiffness=500.0, damping=20.0, rest_q=0.2), DT).run(400)
    first = rig.q[0]
    rig.model.joint_rest_q.fill_(-0.2)
    assert rig.run(400).q[0] == pytest.approx(-first, abs=1e-4)


@pytest.mark.parametrize("captured", [False, True])
def test_joint_frames_change_at_run_time(captured):
    """Moved anchors move the body: parent and child frames are read in every step."""
    rig = Rig(hinge(), DT, q=[0.0])
    if captured:
        with wp.ScopedCapture() as capture:
            rig.run(2)
    put(rig.model.joint_X_p, [0.5, 0.2, 0.1, 0, 0, 0, 1])
    put(rig.model.joint_X_c, [0.0, 0.0, 0.3, 0, 0, 0, 1])
    if captured:
        wp.capture_launch(capture.graph)
    else:
        rig.run(2)
    np.testing.assert_allclose(rig.body_q[0, :3], [0.5, 0.2, -0.2], atol=1e-5)


def test_materials_change_at_run_time():
    """A sliding ball feels a new friction, a resting one sinks to the depth of a new stiffness."""
    rig = Rig(falling_ball(height=0.05 - G / 1e5), DT, v=[1.0, 0, 0, 0, 0, 0])
    rig.model.shape_material_mu.fill_(0.0)
    slid = rig.run(20).v
    assert slid[0] == pytest.approx(1.0, abs=1e-4)
    rig.model.shape_material_mu.fill_(0.6)
    assert rig.run(60).v[0] < 0.8
    rig.model.shape_material_ke.fill_(2.0e3)
    rig.model.shape_material_kd.fill_(60.0)
    assert 0.05 - rig.run(300).q[2] == pytest.approx(G / 2.0e3, rel=0.01)


def test_restitution_changes_at_run_time():
    """A ball that would stay bounces once the materials say so."""
    heights = []
    for restitution in (0.0, 0.8):
        rig = Rig(falling_ball(height=0.25), 0.002)
        rig.model.shape_material_restitution.fill_(restitution)
        rig.run(101)
        heights.append(max(rig.run(4).q[2] for _ in range(60)))
    assert heights[1] - 0.05 == pytest.approx(0.8**2 * 0.2, rel=0.1)
    assert heights[0] < 0.06


# Worlds


def worlds(count, builder):
    scene = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    scene.replicate(builder, count)
    return scene


def test_each_world_has_its_gravity():
    """Gravity written per world pulls each world's bodies by its own value, also in another direction."""
    rig = Rig(worlds(3, hingeless()), DT)
    pulls = np.array([[0, 0, -1.0], [0, 2.0, 0], [3.0, 0, 0]])
    put(rig.model.gravity, pulls)
    rig.run(10)
    np.testing.assert_allclose(rig.v.reshape(3, 6)[:, :3], 10 * DT * pulls, atol=1e-6)


def hingeless():
    """One free body without shapes."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 1.0, 0.1)
    builder.add_articulation([builder.add_joint_free(body)])
    return builder


def test_global_body_meets_every_world():
    """A moving body outside all worlds falls by the global gravity and rests on the bodies of each of them."""
    scene = worlds(2, pillar())
    plate = link(scene, 2.0, 0.1, label="plate")
    scene.add_shape_box(plate, hx=0.4, hy=0.3, hz=0.02, cfg=material())
    joint = scene.add_joint_free(plate)
    scene.add_articulation([joint])
    scene.joint_q[-7:] = [0, 0, 0.23, 0, 0, 0, 1]
    scene.joint_q[0], scene.joint_q[7] = -0.3, 0.3  # one pillar of each world under either end
    scene.add_ground_plane(cfg=material())
    rig = Rig(scene, DT).run(200)
    q = rig.q.reshape(3, 7)
    np.testing.assert_allclose(q[:, 2], [0.1, 0.1, 0.22], atol=2e-3)
    assert np.abs(rig.v).max() < 1e-3
    report = rig.solver.report()
    assert list(report.world) == [-1]
    assert report.healthy


def pillar():
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 5.0, 0.1)
    builder.add_shape_box(body, hx=0.1, hy=0.3, hz=0.1, cfg=material())
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_q[2] = 0.1
    return builder


def test_reset_clears_the_counters_of_chosen_worlds():
    """reset forgets the counters of the masked worlds and of no other, and leaves the state alone."""
    scene = worlds(3, hinge())
    rig = Rig(scene, DT, q=[0.1, 0.2, 0.3]).run(5)
    before = rig.q
    mask = wp.array([False, True, False, False], dtype=wp.bool)
    rig.solver.reset(rig.state, mask, 0)
    np.testing.assert_array_equal(rig.solver.stats.groups.numpy()["steps"], [5, 0, 5])
    np.testing.assert_array_equal(rig.q, before)
    rig.solver.reset(rig.state)
    assert rig.solver.report().steps == 0


def test_solver_has_no_memory():
    """A solver that has stepped elsewhere takes the same step as a fresh one, bit for bit."""
    used, fresh = Rig(falling_ball(height=0.06), DT), Rig(falling_ball(height=0.06), DT)
    start = used.state.joint_q.numpy().copy()
    used.run(40)
    used.state.joint_q.assign(start)
    used.state.joint_qd.zero_()
    newton.eval_fk(used.model, used.state.joint_q, used.state.joint_qd, used.state)
    np.testing.assert_array_equal(used.run(10).q, fresh.run(10).q)


# Body flags


@pytest.mark.parametrize("captured", [False, True])
def test_kinematic_flag_toggles(captured):
    """A flagged root follows its state's velocity and no force; unflagged it falls again."""
    rig = Rig(hingeless(), DT)
    if captured:
        with wp.ScopedCapture() as capture:
            rig.run(2)

    def run_two():
        if captured:
            wp.capture_launch(capture.graph)
        else:
            rig.run(2)

    run_two()
    assert rig.v[2] == pytest.approx(-2 * DT * G, rel=1e-5)
    rig.model.body_flags.fill_(int(newton.BodyFlags.KINEMATIC))
    if not captured:
        rig.solver.notify_model_changed(Flags.BODY_PROPERTIES)
    held = rig.v
    run_two()
    np.testing.assert_array_equal(rig.v, held)
    rig.model.body_flags.fill_(int(newton.BodyFlags.DYNAMIC))
    run_two()
    assert rig.v[2] == pytest.approx(-4 * DT * G, rel=1e-5)


def test_kinematic_body_carries_another():
    """A kinematic plate pushes a free ball along and takes no reaction."""
    builder = weightless()
    plate, ball = link(builder, 1.0, 0.1, is_kinematic=True), link(builder, 1.0, 1e-3)
    builder.add_shape_box(plate, hx=0.05, hy=0.3, hz=0.3, cfg=material())
    builder.add_shape_sphere(ball, radius=0.05, cfg=material())
    for body in (plate, ball):
        builder.add_articulation([builder.add_joint_free(body)])
    rig = Rig(builder, DT, q=[0, 0, 0, 0, 0, 0, 1, 0.102, 0, 0, 0, 0, 0, 1], v=[0.5, *np.zeros(11)])
    for i in range(100):
        put(rig.state.joint_q, [0.5 * i * DT])  # whoever prescribes a body moves it
        rig.run(1)
        assert rig.v[0] == 0.5
    assert rig.v[6] == pytest.approx(0.5, abs=0.045)  # no rebound is faster than 1 / d, 0.04 m/s
    assert rig.q[7] - rig.q[0] > 0.098


def spun_arm(flags):
    """A turntable in the air, with an arm that goes round on the ground."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    table = link(builder, 5.0, 0.1, label="table", is_kinematic=bool(flags & newton.BodyFlags.KINEMATIC))
    post, arm = link(builder, 1.0, 0.01), link(builder, 1.0, 0.02, com=wp.vec3(0.2, 0.0, 0.0))
    builder.add_shape_sphere(arm, xform=wp.transform((0.4, 0.0, 0.0), wp.quat_identity()), radius=0.05, cfg=material())
    joints = [builder.add_joint_free(table)]
    joints += [builder.add_joint_revolute(table, post, axis=newton.Axis.Z)]
    joints += [builder.add_joint_revolute(post, arm, axis=newton.Axis.Y)]
    builder.add_articulation(joints)
    builder.add_ground_plane(cfg=material())
    return Rig(builder, DT, q=[0, 0, 0.0495, 0, 0, 0, 1, 0, 0], v=[0, 0, 0, 0, 0, 0, 6.0, 0])


def test_tree_of_a_body_that_became_kinematic_leans():
    """It rests on the ground from then on; what a floating tree touches is not even looked at."""
    rig, built = (spun_arm(flags) for flags in (newton.BodyFlags.DYNAMIC, newton.BodyFlags.KINEMATIC))
    assert not rig.solver.leaning.kernels
    rig.model.body_flags.assign(built.model.body_flags)
    rig.solver.notify_model_changed(Flags.BODY_PROPERTIES)
    for one in (rig, built):
        one.run(1)
        np.testing.assert_array_equal(one.solver.motion.leans.numpy(), [1])
    np.testing.assert_array_equal(rig.v, built.v)
    rig.model.body_flags.fill_(int(newton.BodyFlags.DYNAMIC))
    rig.solver.notify_model_changed(Flags.BODY_PROPERTIES)
    assert not rig.solver.leaning.kernels
    np.testing.assert_array_equal(rig.solver.motion.leans.numpy(), [0])


# Notice


NARROW = [flag for flag in Flags if bin(int(flag)).count("1") == 1]


@pytest.mark.parametrize("flag", [*NARROW, Flags.ALL, 1 << 20, 0], ids=str)
def test_any_notice_is_accepted(flag):
    """Every narrow flag, all of them, a custom bit and none may be announced; the motion stays the same."""
    told, untold = Rig(hinge(), DT, q=[0.5]), Rig(hinge(), DT, q=[0.5])
    told.run(2).solver.notify_model_changed(flag)
    np.testing.assert_array_equal(told.run(3).q, untold.run(5).q)


def test_replaced_arrays_need_notice():
    """An array put in place of another counts from the notice on."""
    rig = Rig(hinge(), DT, q=[0.5])
    rig.model.body_mass = wp.array([3.0], dtype=wp.float32)
    rig.model.gravity = wp.array([[0.0, 0.0, 0.0]], dtype=wp.vec3)
    rig.solver.notify_model_changed(Flags.BODY_INERTIAL_PROPERTIES | Flags.MODEL_PROPERTIES)
    assert rig.run(1).v[0] == 0.0


def test_arrays_that_contacts_get_later_count():
    """Factors of friction that a caller puts beside Newton's contacts after a step with them."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    builder.add_shape_box(builder.add_body(xform=wp.transform((0.0, 0.0, 0.1))), hx=0.1, hy=0.1, hz=0.1)
    rig = Rig(builder, 0.005, v=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).run(1)
    before = rig.v[0]
    rig.contacts.rigid_contact_friction = wp.full(rig.contacts.rigid_contact_max, 0.1, dtype=wp.float32)
    rig.run(20)
    mu = 0.1 * float(rig.model.shape_material_mu.numpy()[0])
    assert before - rig.v[0] == pytest.approx(mu * 9.81 * 20 * 0.005, rel=0.02)


def test_body_variants():
    """A selected variant brings its shape and its mass."""

    def variant(kind, density):
        one = newton.ModelBuilder()
        body = one.add_body(label=kind)
        cfg = newton.ModelBuilder.ShapeConfig(density=density, gap=0.01)
        if kind == "box":
            one.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
        else:
            one.add_shape_sphere(body, radius=0.05, cfg=cfg)
        return one

    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.15), wp.quat_identity()))
    builder.add_body_variants(body, [variant("box", 500.0), variant("sphere", 4000.0)])
    builder.add_ground_plane()
    rig = Rig(builder, DT).run(150)
    assert rig.q[2] == pytest.approx(0.1, abs=2e-3)
    rig.solver.notify_model_changed(rig.model.select_body_variants(wp.array([1], dtype=wp.int32)))
    rig.run(150)
    assert rig.q[2] == pytest.approx(0.05, abs=2e-3)
    mass = 4000.0 * 4.0 / 3.0 * math.pi * 0.05**3
    observables = rig.solver.observables({rig.solver.ObservableKind.CONTACT_F}, contacts=rig.contacts)
    rig.pipeline.collide(rig.state, rig.contacts)
    rig.solver.step(rig.state, rig.next, None, rig.contacts, DT, observables=observables)
    assert np.abs(observables.contact_f.numpy()[:, 2].sum()) == pytest.approx(mass * G, rel=0.01)


# Contacts


def test_conveyor_carries_a_box():
    """A belt that stands still but has a surface velocity brings a box to its speed, in its direction."""
    corners = np.array([[-4, -4, 0], [4, -4, 0], [4, 4, 0], [-4, 4, 0]], np.float32)
    belt = newton.Mesh(corners, np.array([0, 1, 2, 0, 2, 3], np.int32), compute_inertia=False,
                       enable_surface_velocity=True)  # fmt: skip
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    builder.add_shape_mesh(body=-1, mesh=belt, cfg=material(friction=0.6, gap=0.01))
    box = link(builder, 1.0, 0.01)
    builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, cfg=material(friction=0.6, gap=0.01))
    builder.add_articulation([builder.add_joint_free(box)])
    builder.joint_q[2] = 0.1
    rig = Rig(builder, DT)
    belt.mesh.velocities.fill_(wp.vec3(0.4, -0.3, 0.0))
    rig.run(120)
    np.testing.assert_allclose(rig.v, [0.4, -0.3, 0, 0, 0, 0], atol=5e-3)
    belt.mesh.velocities.fill_(wp.vec3(0.0, 0.0, 0.0))
    np.testing.assert_allclose(rig.run(120).v, 0.0, atol=5e-3)


def seeing_ahead(model):
    """A pipeline that reports contacts a body will reach within the step."""
    return newton.CollisionPipeline(model, broad_phase="nxn", speculative_contact_gap_max=3.0)


def bullet(speed, height, law="sap", pipeline=seeing_ahead, gap=0.0, **options):
    """A ball of 2 cm and default material over a fixed plate of 1 cm, moving at ``speed`` [m/s] downwards."""
    builder = weightless()
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, gap=gap, **options)
    body = link(builder, 0.01, 1e-6)
    builder.add_shape_sphere(body, radius=0.01, cfg=cfg)
    builder.add_articulation([builder.add_joint_free(body)])
    builder.add_shape_box(-1, hx=5.0, hy=5.0, hz=0.005, cfg=cfg)
    return Rig(
        builder, 1.0 / 60.0, q=[0, 0, height, 0, 0, 0, 1], v=[0, 0, -speed, 0, 0, 0], pipeline=pipeline,
        contact_model=law, near_rigid_contact=0.1,
    )  # fmt: skip


@pytest.mark.parametrize("height", [0.02, 0.3, 0.9, 1.4])
@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
@pytest.mark.parametrize("material", [{}, {"ke": 1e7, "kd": 1e4}], ids=["default", "stiff"])
def test_bullet_does_not_cross_a_plate(law, height, material):
    """At 100 m/s and 60 Hz a ball that Newton reports ahead of a 1 cm plate stays on its side, stiff or by default."""
    rig = bullet(100.0, height, law, **material)
    for _ in range(10):
        assert rig.run(1).q[2] > 0.0, rig.q[2]
    assert rig.solver.report().non_finite_steps.sum() == 0


def test_bullet_crosses_where_nothing_is_reported():
    """Without contacts seen ahead the same ball tunnels: it is the report that stops it."""
    assert bullet(100.0, 0.9, pipeline=lambda m: newton.CollisionPipeline(m, broad_phase="nxn")).run(1).q[2] < 0.0


def passing(velocity, height, law="sap", **options):
    """A ball over a plate, ``height`` [m] above it by its centre, after one step; the plate reports it from 10 cm."""
    rig = bullet(0.0, height, law, gap=0.1, **options)
    put(rig.state.joint_qd, velocity)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    rig.run(1)
    assert rig.contacts.rigid_contact_count.numpy()[0] > 0
    return rig


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
@pytest.mark.parametrize("velocity", [(3.0, 0, 0), (0, 0, 0), (3.0, 0, 0.4), (0, 0, -0.5)])
def test_no_action_at_a_distance(velocity, law):
    """A body that hovers, flies past or approaches too slowly to touch in this step is not touched by its contacts."""
    rig = passing(velocity, 0.04, law, mu=0.4)
    np.testing.assert_allclose(rig.v, [*velocity, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize("speed", [3.0, 100.0])
def test_lagged_contact_lets_bodies_graze(speed):
    """Under the lagged law a ball may pass 2 mm over a plate at any speed."""
    rig = passing((speed, 0, 0), 0.017, "lagged", mu=1.0)
    np.testing.assert_allclose(rig.v, [speed, 0, 0, 0, 0, 0], atol=1e-4)


@pytest.mark.parametrize("law", ["sap", "similar"])
def test_convex_cone_reaches_by_the_slip(law):
    """Laws whose normal force sees the slip lift a body that passes nearer than mu s dt, and no other (F 8.4)."""
    speed, mu, dt, clearance = 3.0, 0.5, 1.0 / 60.0, 0.02
    assert passing((speed, 0, 0), 0.015 + clearance, law, mu=mu).v[2] > 1e-3
    farther = 0.015 + 1.05 * mu * speed * dt
    np.testing.assert_allclose(passing((speed, 0, 0), farther, law, mu=mu).v, [speed, 0, 0, 0, 0, 0], atol=1e-6)


def struck(law, jointed):
    """A ball between a kinematic bat of 50 m/s and a plate of 4 mm, 15 cm away, after one step."""
    builder, cfg = weightless(), newton.ModelBuilder.ShapeConfig(density=0.0, gap=0.3)
    ball = link(builder, 1.0, 0.01)
    builder.add_articulation([builder.add_joint_free(ball)])
    builder.add_shape_sphere(ball, radius=0.1, cfg=cfg)
    bat = link(builder, 1.0, is_kinematic=True, xform=wp.transform(wp.vec3(-0.31, 0.0, 0.0), wp.quat_identity()))
    builder.add_shape_box(bat, hx=0.2, hy=0.2, hz=0.2, cfg=cfg)
    if jointed:
        builder.add_articulation([builder.add_joint_free(bat)])
    builder.add_shape_box(-1, xform=wp.transform((0.25, 0.0, 0.0)), hx=0.002, hy=1.0, hz=1.0, cfg=cfg)
    rig = Rig(builder, 1.0 / 240.0, pipeline=newton.CollisionPipeline, contact_model=law)
    put(rig.state.body_qd, [0] * 6 + [50.0, 0, 0, 0, 0, 0])
    if jointed:
        put(rig.state.joint_qd, [0] * 6 + [50.0, 0, 0, 0, 0, 0])
    return rig.run(1)


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
def test_a_bat_without_joint_hands_on_its_speed(law):
    """What a kinematic body strikes meets the next wall within the step, whether a joint ties the body to the world or none."""
    with_joint, without = struck(law, True), struck(law, False)
    assert without.solver.report().contacts_peak[0] == with_joint.solver.report().contacts_peak[0] == 2
    np.testing.assert_allclose(without.body_q[0], with_joint.body_q[0], atol=1e-6)


def lift(law, told):
    """How deep a platform is in its load after being raised by 0.1 m/s for a second, with or without its velocity."""
    builder, cfg = newton.ModelBuilder(), newton.ModelBuilder.ShapeConfig(density=1000.0)
    platform, load = builder.add_body(is_kinematic=True), builder.add_body(xform=wp.transform((0.0, 0.0, 0.15)))
    builder.add_shape_box(platform, hx=0.5, hy=0.5, hz=0.05, cfg=cfg)
    builder.add_shape_box(load, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    rig = Rig(builder, 1.0 / 120.0, pipeline=newton.CollisionPipeline, contact_model=law)
    for i in range(120):
        put(rig.state.joint_q, [0.0, 0.0, 0.1 * i * rig.dt])
        put(rig.state.joint_qd, [0.0, 0.0, 0.1 * told])
        rig.run(1)
    return rig.body_q[0, 2] + 0.15 - rig.body_q[1, 2]


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
def test_a_platform_carries_its_load_by_the_velocity_it_is_given(law):
    """By its pose alone it goes into the load, by one step of its way or, after Hunt and Crossley, until a tenth of the depth per step
    is as fast: ten steps of its way, of which the last is made good at once."""
    assert abs(lift(law, True)) < 1.0e-3
    expected = (0.1 if law == "sap" else 0.9) / 120.0
    assert lift(law, False) == pytest.approx(expected, rel=0.02)


def test_orientation_stays_a_unit_quaternion():
    """A thousand fast steps leave the orientation normalised."""
    rig = Rig(hingeless(), DT, v=[0, 0, 0, 20.0, -7.0, 5.0]).run(1000)
    assert np.linalg.norm(rig.q[3:]) == pytest.approx(1.0, abs=1e-6)
    assert Rotation.from_quat(rig.q[3:]).magnitude() <= math.pi


def test_observables_of_bodies_without_joints_are_zero():
    """What was left in a row of a body that no joint moves is overwritten."""
    builder = hingeless()
    link(builder, 1.0, is_kinematic=True, label="loose")
    rig = Rig(builder, DT)
    kinds = rig.solver.ObservableKind
    observables = rig.solver.observables({kinds.BODY_PARENT_F, kinds.BODY_QDD})
    for array in (observables.body_parent_f, observables.body_qdd):
        array.fill_(wp.spatial_vector(*range(1, 7)))
    rig.solver.step(rig.state, rig.next, None, None, DT, observables=observables)
    np.testing.assert_array_equal(observables.body_parent_f.numpy()[1], 0.0)
    np.testing.assert_array_equal(observables.body_qdd.numpy()[1], 0.0)


def test_a_notice_makes_no_arrays():
    """Graphs recorded before it read the same ones; and it may be part of a graph."""
    model = falling_ball().finalize()
    solver, state = SolverSAP(model), model.state()

    def places():
        bundles = ((Joints, solver.joints), (Bodies, solver.bodies), (Shapes, solver.shapes))
        return [getattr(bundle, name).ptr for kind, bundle in bundles for name in kind.vars]

    before = places()
    with wp.ScopedCapture(device=model.device) as capture:
        solver.notify_model_changed(Flags.BODY_INERTIAL_PROPERTIES)
        solver.step(state, state, None, None, DT)
    assert places() == before
    wp.capture_launch(capture.graph)
    assert state.joint_qd.numpy()[2] == pytest.approx(-G * DT)
