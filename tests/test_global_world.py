"""Bodies of the global world, held ones, and what ties or touches across worlds; worlds that share nothing do not feel each other."""

import newton
import numpy as np
import pytest
import warp as wp
from newton.solvers import SolverMuJoCo, mujoco
from rig import G, Rig, link, material

from newton_sap import SolverSAP

IDENTITY = wp.quat_identity()
INERTIA = wp.mat33(0.1 * np.eye(3))


def simulate(builder, steps, dt=0.005, **options):
    """Step a scene with Newton's contacts; return solver and last state."""
    model = builder.finalize()
    solver, state, pipeline = SolverSAP(model, **options), model.state(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)
    assert solver.report().healthy
    return solver, state


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_equality_to_a_global_body_holds(kind):
    """A body hangs on a kinematic one of the global world, in each of two worlds."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    anchor = builder.add_body(
        xform=wp.transform((0.0, 0.0, 1.0), IDENTITY), mass=1.0, inertia=INERTIA, is_kinematic=True
    )
    for _ in range(2):
        builder.begin_world()
        body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.5), IDENTITY), mass=1.0, inertia=INERTIA)
        if kind == "connect":
            mujoco.add_equality_connect(builder, anchor, body, anchor=(0.0, 0.0, -0.5))
        else:
            mujoco.add_equality_weld(builder, anchor, body)
        builder.end_world()
    _, state = simulate(builder, 100)
    np.testing.assert_allclose(state.body_q.numpy()[:, 2], [1.0, 0.5, 0.5], atol=1e-5)


def test_a_joint_may_follow_one_of_the_global_world():
    """The leader is driven; the followers of two worlds go along."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    SolverMuJoCo.register_custom_attributes(builder)
    drive = {"target_ke": 1e3, "target_kd": 100.0, "target_q": 0.2}

    def slide(**keywords):
        joint = builder.add_joint_prismatic(
            -1, builder.add_link(mass=1.0, inertia=INERTIA), axis=(1.0, 0.0, 0.0), **keywords
        )
        builder.add_articulation([joint])
        return joint

    leader = slide(**drive)
    for _ in range(2):
        builder.begin_world()
        mujoco.add_equality_joint(builder, slide(), leader, polycoef=[0.0, 1.0, 0.0, 0.0, 0.0])
        builder.end_world()
    _, state = simulate(builder, 200)
    np.testing.assert_allclose(state.joint_q.numpy(), 0.2, atol=1e-3)


def arm_over_a_cube(place, worlds):
    """An arm hinged to a kinematic base comes to lie on a cube; the arm is of the global world or of each world."""
    builder = newton.ModelBuilder()

    def arm():
        base = builder.add_link(
            xform=wp.transform((0.0, 0.0, 0.5), IDENTITY), mass=1.0, inertia=INERTIA, is_kinematic=True
        )
        beam = builder.add_link()
        builder.add_shape_box(beam, hx=0.5, hy=0.05, hz=0.05)
        free = builder.add_joint_free(base)
        end = wp.transform((-0.5, 0.0, 0.0), IDENTITY)
        builder.add_articulation([free, builder.add_joint_revolute(base, beam, axis=(0.0, 1.0, 0.0), child_xform=end)])
        builder.joint_q[builder.joint_q_start[free] + 2] = 0.5

    if place == "global":
        arm()
    for _ in range(worlds):
        builder.begin_world()
        if place == "own":
            arm()
        builder.add_shape_box(builder.add_body(xform=wp.transform((0.9, 0.0, 0.1), IDENTITY)), hx=0.1, hy=0.1, hz=0.1)
        builder.end_world()
    builder.add_ground_plane()
    _, state = simulate(builder, 200)
    return state.joint_q.numpy()[7]


@pytest.mark.parametrize("worlds", [1, 3])
def test_a_global_arm_on_a_kinematic_base_touches_worlds(worlds):
    """It lies on the cubes as an arm of one world does."""
    assert arm_over_a_cube("global", worlds) == pytest.approx(arm_over_a_cube("own", 1), abs=1e-3)


def test_gravity_of_one_world_does_not_decide_the_rebound_in_another():
    """What counts as an impact depends on the gravity of the bodies that meet."""
    shape = newton.ModelBuilder.ShapeConfig(restitution=0.8)
    world = newton.ModelBuilder()
    world.add_shape_sphere(world.add_body(xform=wp.transform((0.0, 0.0, 0.3), IDENTITY)), radius=0.1, cfg=shape)
    heights = []
    for strength in (-9.81, -98.1):
        builder = newton.ModelBuilder()
        builder.replicate(world, 2)
        builder.add_ground_plane(cfg=shape)
        model = builder.finalize()
        model.set_gravity((0.0, 0.0, strength), world=0)
        solver, state, pipeline = SolverSAP(model), model.state(), newton.CollisionPipeline(model)
        contacts = pipeline.contacts()
        for _ in range(40):
            pipeline.collide(state, contacts)
            solver.step(state, state, None, contacts, 0.01)
        heights.append(state.body_q.numpy()[1, 2])
    assert heights[0] == heights[1] > 0.15


@pytest.mark.parametrize("place", ["global", "without a joint"])
def test_a_body_that_must_stay_kinematic_says_so(place):
    """Some kinematic bodies cannot be let go without building the solver again; the notice names them."""
    builder = newton.ModelBuilder()
    add = builder.add_body if place == "global" else builder.add_link
    builder.add_shape_box(add(is_kinematic=True, label="platform"), hx=0.1, hy=0.1, hz=0.1)
    for _ in range(2):
        builder.begin_world()
        builder.add_body(mass=1.0, inertia=INERTIA)
        builder.end_world()
    model = builder.finalize()
    solver = SolverSAP(model)
    solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
    model.body_flags.fill_(int(newton.BodyFlags.DYNAMIC))
    with pytest.raises(NotImplementedError, match="platform.*build the solver again"):
        solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)


def test_a_body_that_must_stay_kinematic_does():
    """Let go without a notice, a global plate that touches several worlds goes on as it went."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    below = wp.transform((0.0, 0.0, -0.05), IDENTITY)
    plate = builder.add_link(xform=below, mass=1.0, inertia=INERTIA, lock_inertia=True, is_kinematic=True)
    builder.add_shape_box(plate, hx=1.0, hy=1.0, hz=0.05)
    builder.add_articulation([builder.add_joint_prismatic(-1, plate, parent_xform=below, axis=(0, 0, 1))])
    for place in range(3):
        builder.begin_world()
        ball = builder.add_body(xform=wp.transform((0.3 * place, 0.0, 0.1), IDENTITY), mass=3.0, inertia=INERTIA)
        builder.add_shape_sphere(ball, radius=0.1)
        builder.end_world()
    model = builder.finalize()
    solver, state, pipeline = SolverSAP(model), model.state(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    model.body_flags.fill_(int(newton.BodyFlags.DYNAMIC))
    speed = state.joint_qd.numpy()
    speed[0] = 1.0
    state.joint_qd.assign(speed)
    for _ in range(20):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.005)
    assert solver.report().healthy
    speeds = state.body_qd.numpy()[:, 2]
    assert speeds[0] == 1.0 and (speeds[1:] > 0.9).all()


@pytest.mark.parametrize("tied", [False, True])
def test_a_table_fixed_to_the_world_ties_no_worlds(tied):
    """A body that nothing moves is as good as the world's: a NaN in one world stays there."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    table = builder.add_link(xform=wp.transform((0.0, 0.0, 0.5), IDENTITY), mass=1.0, inertia=INERTIA)
    builder.add_shape_box(table, hx=9.0, hy=9.0, hz=0.1)
    at_table = wp.transform((0.0, 0.0, 0.5), IDENTITY)
    builder.add_articulation([builder.add_joint_fixed(-1, table, parent_xform=at_table)])
    for _ in range(3):
        builder.begin_world()
        box = builder.add_body(xform=wp.transform((0.0, 0.0, 0.7), IDENTITY))
        builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1)
        if tied:
            mujoco.add_equality_connect(builder, table, box, anchor=(0.0, 0.0, 0.2))
        builder.end_world()
    model = builder.finalize()
    solver, state, pipeline = SolverSAP(model), model.state(), newton.CollisionPipeline(model)
    joint_qd = np.zeros((3, 6), np.float32)
    joint_qd[:, 0] = 1.0
    joint_qd[1, 0] = np.nan
    state.joint_qd.assign(joint_qd.ravel())
    contacts = pipeline.contacts()
    for _ in range(20):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.005)
    speed = state.joint_qd.numpy().reshape(3, 6)[:, 0]
    assert speed[0] == speed[2] == pytest.approx(0.0 if tied else 1.0 - 20 * 0.005 * 9.81, abs=0.02)
    assert np.isnan(speed[1])
    report = solver.report()
    assert dict(zip(report.world.tolist(), (report.non_finite_steps > 0).tolist(), strict=True)) == {
        -1: False, 0: False, 1: True, 2: False,
    }  # fmt: skip


@pytest.mark.parametrize("held", ["fixed", "kinematic", "for two worlds"])
def test_held_bodies_pass_on_what_rests_on_them(held):
    """A base that nothing can move, a table fixed on it with boxes on top, and an arm: each joint carries all above it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    base, table, arm = link(builder, 1.0, is_kinematic=held == "kinematic"), link(builder, 1.5), link(builder, 2.0)
    builder.add_shape_box(table, hx=1.0, hy=1.0, hz=0.1, cfg=material())
    root = builder.add_joint_prismatic(-1, base) if held == "kinematic" else builder.add_joint_fixed(-1, base)
    above = wp.transform(wp.vec3(0.0, 0.0, 0.5), wp.quat_identity())
    top = builder.add_joint_fixed(base, table, parent_xform=above)
    builder.add_articulation([root, top, builder.add_joint_revolute(table, arm, axis=newton.Axis.Z)])
    box = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(box, 3.0)
    box.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=material())
    box.add_articulation([box.add_joint_free(body)])
    box.joint_q[:3] = [0.5, 0.0, 0.7]
    if held == "for two worlds":
        builder.replicate(box, 2)
    else:
        builder.add_builder(box)
    boxes = builder.body_count - 3
    rig = Rig(builder, 0.01).run(300)
    seen = rig.solver.observables({SolverSAP.ObservableKind.BODY_PARENT_F}, contacts=rig.contacts)
    rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, rig.dt, observables=seen)
    load = 3.0 * boxes * G
    expected = np.zeros((3, 6))
    expected[:, 2] = [4.5 * G + load, 3.5 * G + load, 2.0 * G]
    expected[:2, 4] = -0.5 * load  # about y
    np.testing.assert_allclose(seen.body_parent_f.numpy()[:3], expected, atol=2e-3 * load)
