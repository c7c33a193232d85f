"""What bounds lagged friction: the normal impulse of the step itself, read from the solve, or the one at its start."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, material

from newton_sap import SAPOptions, SolverSAP
from newton_sap.bench.scenes import RENEWAL, make_scene
from newton_sap.inspection import live_slots
from newton_sap.reference import ReferenceSolver

MU = 0.4


def sliding_ball(height=0.0, v=(2.0, 0.0, -1.0), stiffness=1e5, mu=MU, **options):
    """A ball that cannot turn, over the ground; its mass is 1 kg."""
    builder = newton.ModelBuilder()
    body = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(1.0)), lock_inertia=True)
    axes = [newton.ModelBuilder.JointDofConfig(axis=axis) for axis in (newton.Axis.X, newton.Axis.Y, newton.Axis.Z)]
    builder.add_articulation([builder.add_joint_d6(-1, body, linear_axes=axes)])
    builder.add_shape_sphere(body, radius=0.1, cfg=material(stiffness, friction=mu, gap=0.05))
    builder.add_ground_plane(cfg=material(stiffness, friction=mu, gap=0.05))
    builder.joint_q[:] = [0.0, 0.0, 0.1 + height]
    builder.joint_qd[:] = list(v)
    return Rig(builder, dt=2e-3, **options)


def impulses(rig, before):
    """Tangential and normal impulse [N s] of the last step on the ball."""
    return before[0] - rig.v[0], rig.v[2] - before[2] + 9.81 * rig.dt


@pytest.mark.parametrize("gap", [1e-3, 0.0, -1e-4])
def test_an_impact_rubs_in_the_step_it_pushes(gap):
    """Friction of an impact is mu times its normal impulse in every step, wherever in the step the ball lands."""
    rig = sliding_ball(height=gap)
    for _ in range(4):
        before = rig.v.copy()
        rig.run(1)
        tangential, normal = impulses(rig, before)
        assert tangential == pytest.approx(MU * normal, rel=0.03)
    assert before[2] > -0.5  # it did land


def test_from_the_start_of_the_step_it_comes_late():
    """With the bound of the start of the step the first push has no friction, as in Drake."""
    rig = sliding_ball(height=1e-3, friction_bound="start")
    before = rig.v.copy()
    rig.run(1)
    tangential, normal = impulses(rig, before)
    assert normal > 0.1 and tangential == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["ant_active", "quadruped_active"])
def test_thrashing_robots_know_their_bounds(name):
    """Over a second of random motion the bounds are within 6 % of the normal impulses; of the start, far off."""
    error = {}
    for bound in ("solved", "start"):
        scene = make_scene(name, 4)
        solver = SolverSAP(scene.model, friction_bound=bound)
        pipeline = newton.CollisionPipeline(scene.model)
        contacts, control = pipeline.contacts(), scene.model.control()
        state, spare = scene.state(), scene.state()
        off = pushed = 0.0
        for step in range(250):
            control.joint_f.assign(scene.forces[step // RENEWAL % len(scene.forces)].astype(np.float32))
            pipeline.collide(state, contacts)
            solver.step(state, spare, control, contacts, scene.dt)
            state, spare = spare, state
            pool = solver.pool
            live = live_slots(pool)
            normal = np.sum(pool.gamma.numpy()[live] * pool.normal.numpy()[live], axis=1)
            off += np.abs(pool.n0.numpy()[live] - normal).sum()
            pushed += normal.sum()
        assert solver.report().healthy
        error[bound] = off / pushed
    assert error["solved"] < 0.06, error
    assert error["start"] > 3.0 * error["solved"], error


def falling_heap(seed):
    """Hinged pairs of a box and a capsule that tumble onto each other and the ground, masses a hundred times apart."""
    rng = np.random.default_rng(seed)
    builder = newton.ModelBuilder()
    for i in range(4):
        masses = 10.0 ** rng.uniform(-1.0, 1.0, 2)
        box, arm = (builder.add_link(mass=m, inertia=wp.diag(wp.vec3(4e-3 * m)), lock_inertia=True) for m in masses)
        cfg = material(10.0 ** rng.uniform(3.0, 6.0), friction=rng.uniform(0.3, 1.0), gap=0.02)
        builder.add_shape_box(box, hx=0.1, hy=0.08, hz=0.06, cfg=cfg)
        builder.add_shape_capsule(arm, radius=0.04, half_height=0.1, cfg=cfg)
        root = builder.add_joint_free(box)
        at = wp.transform(wp.vec3(0.15, 0.0, 0.0), wp.quat_identity())
        hinge = builder.add_joint_revolute(box, arm, axis=newton.Axis.Y, parent_xform=at, collision_filter_parent=True)
        builder.add_articulation([root, hinge])
        turn = rng.normal(size=4)
        q = [*rng.uniform(-0.15, 0.15, 2), 0.2 + 0.2 * i, *turn / np.linalg.norm(turn), rng.uniform(-1.0, 1.0)]
        builder.joint_q[-8:], builder.joint_qd[-7:] = q, [*rng.normal(size=3), *rng.normal(scale=4.0, size=4)]
    builder.add_ground_plane(cfg=material(1e5, friction=0.5, gap=0.02))
    return builder


@pytest.mark.parametrize(
    ("law", "spin"), [("lagged", False), pytest.param("similar", True, marks=pytest.mark.slow), ("sap", True)]
)
def test_long_solves_know_their_bounds_too(law, spin):
    """Bounds are within a half of the normal impulse at contacts that matter, also where a solve takes more than ten iterations."""
    off, carried = 0, {"short": 0, "long": 0}
    for seed in range(12):
        rig = Rig(falling_heap(seed), 4e-3, contact_model=law, spin_friction=spin)
        rig.model.shape_material_mu_torsional.fill_(0.02)
        for _ in range(80):
            rig.run()
            pool = rig.solver.pool
            slots = live_slots(pool)
            contact = np.where(pool.spin_of.numpy() < 0, np.arange(len(pool.n0)), pool.spin_of.numpy())
            normal = np.sum(pool.gamma.numpy() * pool.normal.numpy(), axis=1)[contact[slots]]
            bound = pool.n0.numpy()[slots]
            asked = (normal > 0.1 * normal.max(initial=1e-9)) & ((law == "lagged") | (contact[slots] != slots))
            length = "long" if rig.solver.report().iterations[0] > 10 else "short"
            carried[length] += asked.sum()
            off += (np.abs(bound - normal)[asked] > 0.5 * normal[asked]).sum()
    assert min(carried.values()) > 100, carried
    assert off < 0.005 * sum(carried.values()), (off, carried)


@pytest.mark.parametrize(("dt", "density", "seed"), [(1 / 60, 1e5, 4), (1 / 240, 1e3, 3)])
def test_a_heap_that_falls_together_leaves_a_far_slider_alone(dt, density, seed):
    """A box slides by its own friction, whatever a heavy heap does 28 m away in the same world."""
    rng = np.random.default_rng(seed)
    builder = newton.ModelBuilder()
    builder.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(mu=MU))
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=newton.ModelBuilder.ShapeConfig(mu=MU, density=125.0))
    for i in range(12):
        turn = rng.normal(size=4)
        at = np.array([20.0, 20.0, 0.3 + 0.175 * i]) + [*rng.uniform(-0.3, 0.3, 2), 0.0]
        heavy = builder.add_body(xform=wp.transform(at, wp.quat(*map(float, turn / np.linalg.norm(turn)))))
        cfg = newton.ModelBuilder.ShapeConfig(mu=0.8, density=density)
        builder.add_shape_box(heavy, hx=0.2, hy=0.15, hz=0.1, cfg=cfg)
    rig = Rig(builder, dt)
    v = rig.v
    v[0] = 2.2
    rig.state.joint_qd.assign(v)
    slowed = []
    for _ in range(int(0.5 / dt)):
        before = rig.v[0]
        slowed.append((before - rig.run(1).v[0]) / (MU * 9.81 * dt))
        assert rig.q[2] < 0.1 + 1e-4
    assert rig.solver.report().healthy
    assert max(slowed) < 1.1 and np.mean(slowed[2:]) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("dt", [1 / 240, 1 / 500, 1 / 1000])
@pytest.mark.parametrize(
    ("angle", "mu", "restitution"), [(0.7, 0.9, 0.3), (0.8, 0.9, 0.3), (0.9, 1.1, 0.3), (0.7, 0.9, 0.7)]
)
def test_a_rod_that_bounces_on_its_end_sticks(angle, mu, restitution, dt):
    """Impulses of a rigid impact in closed form: friction holds the end, and took a third less than that where its bound was too old."""
    half, radius, inertia, spin, fall, way = 0.4, 0.02, 0.048, 3.0, 1.5, 0.7
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    cfg = newton.ModelBuilder.ShapeConfig(mu=mu, density=0.0, restitution=restitution)
    builder.add_ground_plane(cfg=cfg)
    rod = link(builder, 1.0, [inertia, inertia, 1e-3])
    builder.add_shape_capsule(rod, radius=radius, half_height=half, cfg=cfg)
    builder.add_articulation([builder.add_joint_free(rod)])
    ahead = 0.0517
    before = 0.5 * (angle - spin * ahead)
    height = radius + half * math.cos(angle) + fall * ahead
    builder.joint_q[:] = [0.0, 0.0, height, 0.0, math.sin(before), 0.0, math.cos(before)]
    builder.joint_qd[:] = [way, 0.0, -fall, 0.0, spin, 0.0]
    v = Rig(builder, dt).run(round((ahead + 0.014) / dt)).v
    x, z = -half * math.sin(angle), -half * math.cos(angle) - radius  # from the COM to where it touches
    per_impulse = np.array([[1.0 + z * z / inertia, -x * z / inertia], [-x * z / inertia, 1.0 + x * x / inertia]])
    approach = np.array([way + spin * z, -fall - spin * x])
    impulse = np.linalg.solve(per_impulse, np.array([0.0, -restitution * approach[1]]) - approach)
    assert abs(impulse[0]) < 0.98 * mu * impulse[1]
    assert [v[0] - way, v[2] + fall] == pytest.approx(list(impulse), rel=0.05)


def test_at_rest_nothing_changes():
    """Where the start of the step tells the truth, both give the same bits."""
    rigs = [sliding_ball(-9.81 / 1e5, (0.0, 0.0, 0.0), friction_bound=bound) for bound in ("solved", "start")]
    for rig in rigs:
        rig.run(20)
    np.testing.assert_array_equal(rigs[0].q, rigs[1].q)
    np.testing.assert_array_equal(rigs[0].v, rigs[1].v)


def test_the_answer_is_the_minimum_for_the_bound_it_reports():
    """After a renewal the solve goes on to the end: at the solver's answer the reference finds no gradient left."""
    rig = sliding_ball(height=1e-3)
    reference = ReferenceSolver(rig.model)
    rig.pipeline.collide(rig.state, rig.contacts)
    result = reference.step(rig.state, None, rig.contacts, rig.dt)
    rig.solver.step(rig.state, rig.model.state(), None, rig.contacts, rig.dt)
    v = rig.solver.inspect().v
    ((problem, _),) = result.solutions
    assert np.abs(problem.gradient(v)).max() < 1e-5 * np.abs(problem.constraint_impulse(v)).max() != 0.0
    assert result.gamma[0]["n0"] == pytest.approx(result.gamma[0]["gamma_W"] @ result.gamma[0]["normal"], rel=0.03)


def test_sliding_steps_explain_themselves():
    """Inverse dynamics finds the bounds that the step had: of a landing slide nothing is left unexplained."""
    rig = sliding_ball(height=1e-3)
    for _ in range(3):
        rig.pipeline.collide(rig.state, rig.contacts)
        before, after = rig.state, rig.model.state()
        rig.solver.step(before, after, None, rig.contacts, rig.dt)
        found = rig.solver.inverse_dynamics(before, after, None, rig.contacts, rig.dt)
        assert np.abs(found.constraint_force).max() > 10.0
        assert np.abs(found.unexplained_force).max() < 1e-3 * np.abs(found.constraint_force).max()
        rig.state = after


def test_presets_keep_the_bound_of_what_they_stand_for():
    """Presets compare with solvers that know no other bound."""
    assert SAPOptions().friction_bound == "solved"
    for preset in ("drake", "approx64", "approx32"):
        rig = sliding_ball(preset=preset)
        assert rig.solver.options.friction_bound == "start"


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize("how", ["fixed", "joint_f", "contact"])
def test_dry_friction_of_a_light_slider_holds_a_heavy_load(how, dt):
    """Of its own inertia's creep, ``sigma dt f / m``, 3 % are left: 7.5 mm/s of 250 at 60 Hz; the load takes two thirds of it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    light = builder.add_link(mass=0.01, inertia=wp.diag(wp.vec3(1.0e-3)))
    builder.add_articulation([builder.add_joint_prismatic(-1, light, axis=(0.0, 0.0, 1.0), friction=150.0)])
    if how == "contact":
        builder.add_shape_box(light, hx=0.2, hy=0.2, hz=0.02, cfg=material(1.0e6, 1.0e3))
    if how != "joint_f":
        load = builder.add_body(
            xform=wp.transform((0.0, 0.0, 0.12)), mass=10.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True
        )
        builder.add_shape_box(load, hx=0.1, hy=0.1, hz=0.1, cfg=material(1.0e6, 1.0e3))
    if how == "fixed":
        builder.add_joint_fixed(light, load, parent_xform=wp.transform((0.0, 0.0, 0.12)))
    rig = Rig(builder.finalize(), dt)
    if how == "joint_f":
        rig.control.joint_f.assign([-98.1])
    rig.run(round(0.5 / dt))
    x = 1.0e-3 * dt * 150.0 / 0.01
    assert -rig.state.joint_qd.numpy()[0] == pytest.approx(0.03 * x * 98.2 / 150.0, rel=0.01)


def test_a_slow_creep_of_dry_friction_is_as_it_was():
    """Below 30 stiction tolerances, and under the bound that presets have, it is that of the inertia of the joint's own dof."""
    for mass, options, share in ((1.0, {}, 1.0), (0.01, {"friction_bound": "start"}, 1.0), (0.01, {}, 0.03)):
        builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
        body = builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(1.0e-3)))
        builder.add_articulation([builder.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), friction=30.0)])
        rig = Rig(builder.finalize(), 0.005, **options)
        rig.control.joint_f.assign([15.0])
        rig.run(3)
        expected = share * 1.0e-3 * 0.005 * 15.0 / mass
        assert rig.state.joint_qd.numpy()[0] == pytest.approx(expected, rel=0.01)
