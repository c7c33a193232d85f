"""Conjugate gradients, which large groups use, find what the factored Hessian finds."""

import itertools

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish
from rig import Rig
from test_faults import Worlds, large_group

from newton_sap import SolverSAP
from newton_sap.boundary import capacity, matrices, topology
from newton_sap.boundary.capacity import pair_entries
from newton_sap.linalg.chunks import CHUNK
from newton_sap.scenes import box_stack, gripper_cube, quadruped
from newton_sap.workspace import DIRECT_DOFS

TIGHT = {"optimality_rel": 1e-13, "optimality_abs": 1e-16, "cost_rel": 0.0, "cost_abs": 0.0}


def velocities(model, dt, steps, options):
    """Step from the model's state and return every step's velocity in float64, with the last report."""
    solver = SolverSAP(model, **options, **TIGHT)
    state, pipeline = model.state(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    out = []
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, dt)
        out.append(solver.inspect().v)
    return np.array(out), solver.report()


@pytest.mark.parametrize("law", ["sap", "lagged"])
@pytest.mark.parametrize("scene", [quadruped, box_stack, gripper_cube])
def test_conjugate_gradients_equal_the_factored_hessian(scene, law, monkeypatch):
    """With no Hessian allowed, robots, stacks and grippers move as with one."""
    built = scene()
    direct, _ = velocities(built.model, built.dt, 3, {"contact_model": law})
    monkeypatch.setattr(matrices, "DIRECT_DOFS", 0)
    iterative, report = velocities(built.model, built.dt, 3, {"contact_model": law})
    assert report.unconverged_steps.sum() == 0
    np.testing.assert_allclose(iterative[0], direct[0], rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(iterative, direct, rtol=0.0, atol=2e-4)  # the state in between is float32


def four_bar():
    """A closed chain of three links under gravity."""
    builder = newton.ModelBuilder()
    inertia = wp.mat33(0.01, 0, 0, 0, 0.01, 0, 0, 0, 0.01)
    links = [builder.add_link(mass=1.0, inertia=inertia) for _ in range(3)]
    joints, parent = [], -1
    for link in links:
        at = wp.transform((0.0 if parent < 0 else 0.5, 0.0, 0.0), wp.quat_identity())
        joints.append(builder.add_joint_revolute(parent, link, axis=newton.Axis.Y, parent_xform=at))
        parent = link
    builder.add_articulation(joints)
    end = wp.transform((0.5, 0.0, 0.0), wp.quat_identity())
    anchor = wp.transform((1.5, 0.0, 0.0), wp.quat_identity())
    loop = builder.add_joint_revolute(-1, links[-1], axis=newton.Axis.Y, parent_xform=anchor, child_xform=end)
    builder.joint_articulation[loop] = -1
    return builder.finalize()


@pytest.mark.filterwarnings("ignore:.*another joint.*")
def test_closed_chains_too(monkeypatch):
    """Loop-closing rows enter product and preconditioner."""
    model = four_bar()
    direct, _ = velocities(model, 0.005, 1, {})
    monkeypatch.setattr(matrices, "DIRECT_DOFS", 0)
    iterative, report = velocities(model, 0.005, 1, {})
    assert report.unconverged_steps.sum() == 0
    np.testing.assert_allclose(iterative, direct, rtol=0.0, atol=1e-10)


ARMS = """<mujoco><compiler angle="radian"/><worldbody><geom type="plane" size="5 5 1"/>
  <body name="left" pos="0 -0.5 0.5"><joint name="a" type="hinge" axis="1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0 0.2 0" size=".03" mass="1"/></body>
  <body name="middle" pos="0 0 0.5"><joint name="b" type="slide" axis="0 0 1"/>
    <geom type="sphere" size=".05" mass="2"/></body>
  <body name="right" pos="0 0.5 0.5"><joint name="c" type="hinge" axis="1 0 0"/>
    <geom type="capsule" fromto="0 0 0 0 0.2 0" size=".03" mass="1"/>
    <body pos="0 0.2 0"><joint name="d" type="hinge" axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 0 0.1 0" size=".03" mass="0.3"/></body></body>
  <body name="crate" pos="0 0.6 0.58"><freejoint/><geom type="box" size=".05 .05 .05" mass="0.5"/></body>
  <body name="lid" pos="0 0.6 0.68"><freejoint/><geom type="box" size=".05 .05 .05" mass="0.5"/></body>
</worldbody><equality><connect body1="crate" body2="lid" anchor="0.05 0 0.05"/></equality><tendon>
  <fixed name="three" stiffness="5e4" damping="20"><joint joint="a" coef="1"/><joint joint="b" coef="-2"/>
    <joint joint="c" coef="0.5"/><joint joint="d" coef="1"/></fixed>
  <fixed name="two" stiffness="300"><joint joint="a" coef="1"/><joint joint="c" coef="1"/></fixed>
</tendon></mujoco>"""


@pytest.mark.parametrize("law", ["sap", "lagged", "similar"])
def test_tendons_across_any_number_of_trees_too(law, monkeypatch):
    """A stiff sum of joints of three trees, one of two, a loop, and contacts; two worlds beside each other."""
    model = finish(ARMS, worlds=2, gravity=-9.81)
    options = {"contact_model": law, "friction_bound": "start"}  # "solved" bounds are taken on the way
    direct, _ = velocities(model, 0.005, 1, options)
    monkeypatch.setattr(matrices, "DIRECT_DOFS", 0)
    iterative, report = velocities(model, 0.005, 1, options)
    assert report.healthy and min(report.contacts) >= 4
    assert np.abs(direct).max() > 1e-3
    np.testing.assert_allclose(iterative, direct, rtol=0.0, atol=1e-9)


def test_room_for_pairs_of_trees():
    """Most entries of so many pairs of unlike trees, by listing every pair."""
    for dofs in ([6] * 7, [1, 6, 6, 27, 27, 600], [5], []):
        each = sorted((a * b for a, b in itertools.combinations(dofs, 2)), reverse=True)
        for pairs in (0, 1, 4, 100):
            assert pair_entries(np.array(dofs, dtype=int), pairs) == sum(each[:pairs])


def test_a_gpu_keeps_pairs_by_item(monkeypatch):
    """Its room for pairs of trees grows with the number of worlds, not with the square, and steps find the same in it."""
    usual, gpu = Worlds(2, large_group).run(2).result(), []
    place = capacity.place_pairs
    monkeypatch.setattr(capacity, "place_pairs", lambda *given: gpu.append(place(*given[:-1], False)) or gpu[-1])
    one, two, four = (Worlds(worlds, large_group).run(2) for worlds in (1, 2, 4))
    totals = [found[2] for found in gpu]
    assert all(most == 36 for _, most, _ in gpu) and totals[2] <= 2 * totals[1] <= 4 * totals[0]
    np.testing.assert_array_equal(two.result(), usual)
    for worlds in (one, two, four):
        assert worlds.solver.topology.needs_iterations and worlds.solver.report().healthy


def test_a_large_world_needs_no_hessian():
    """Ninety free bodies in one world: no Hessian of all is allocated, every step converges, the weight is carried."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    for i in range(90):
        pose = wp.transform((0.3 * (i % 10), 0.3 * (i // 10), 0.0999), wp.quat_identity())
        builder.add_shape_sphere(builder.add_body(xform=pose), radius=0.1)
    model = builder.finalize()
    solver = SolverSAP(model)
    assert solver.hessian.shape[0] == (DIRECT_DOFS + 1) * DIRECT_DOFS
    state, pipeline = model.state(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    observables = solver.observables({solver.ObservableKind.CONTACT_F}, contacts=contacts)
    for _ in range(30):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.005, observables=observables)
    report = solver.report()
    assert report.healthy and report.contacts[0] == 90
    carried = np.abs(observables.contact_f.numpy()[:, 2]).sum()
    assert carried == pytest.approx(model.body_mass.numpy().sum() * 9.81, rel=1e-3)


@pytest.mark.parametrize("trees", [0, 1000])
@pytest.mark.parametrize(("stiffness", "converges"), [(1e13, True), (1e17, False)])
def test_absurdly_stiff_heaps_converge_or_are_counted(stiffness, converges, trees, monkeypatch):
    """Forty balls in a heap, by either method: where rounding stops the iteration with much left over, the step is counted."""
    monkeypatch.setattr(matrices, "DIRECT_TREES", trees)
    builder, random = newton.ModelBuilder(), np.random.default_rng(0)
    cfg = newton.ModelBuilder.ShapeConfig(ke=stiffness)
    for i in range(40):
        x, y, _ = random.uniform(-0.3, 0.3, 3)
        ball = builder.add_body(xform=wp.transform((x, y, 0.15 + 0.18 * (i // 9)), wp.quat_identity()))
        builder.add_shape_sphere(ball, radius=0.1, cfg=cfg)
    builder.add_ground_plane(cfg=cfg)
    rig = Rig(builder, 1.0 / 240.0)
    before = 0
    for _ in range(32):
        report = rig.run(1).solver.report()
        counted, before = report.unconverged_steps[0] > before, report.unconverged_steps[0]
        assert counted or report.residual[0] <= 1e-3 * report.scale[0]
    assert report.healthy == converges and not report.non_finite_steps.any()


def test_matrices_lie_one_behind_the_other_or_share_one_place():
    """Each dense matrix has a place of its own, or all of a part that of the largest."""
    entries = np.array([9, 0, 4])
    for part, start, size in ((None, [0, 9, 9], 13), ([0, 0, 0], [0, 0, 0], 9), ([0, 1, 1], [0, 9, 9], 13)):
        placed, total = matrices.place_blocks(entries, None if part is None else np.array(part))
        np.testing.assert_array_equal(placed, start)
        assert total == size


def test_only_factors_that_are_needed_at_once_have_places_of_their_own(monkeypatch):
    """On a CPU trees share one place for their factors, unless a group is too large for a Hessian."""
    model = box_stack(count=3).model
    small = topology.build_topology(model)
    assert small.factor_size == 7 * CHUNK and not small.arrays["tree_factor_start"].any()
    monkeypatch.setattr(matrices, "DIRECT_DOFS", 12)
    large = topology.build_topology(model)
    assert (
        large.factor_size == 3 * 7 * CHUNK
        and large.block_size == 3 * 36 + CHUNK
        and large.arrays["group_hessian_start"] == [-1]
    )
    np.testing.assert_array_equal(large.arrays["tree_factor_start"], 7 * CHUNK * np.arange(3))


def test_legs_do_not_pay_for_each_other():
    """In a standing quadruped's Hessian the rows of each leg end within that leg; the trunk's go all the way."""
    scene = quadruped()
    solver = Rig(scene.model, scene.dt).run(60).solver
    assert solver.report().contacts[0] >= 4
    last = solver.problem.last.numpy()
    assert last[:6].tolist() == [17] * 6
    assert last[6:18].tolist() == [6 + 3 * (i // 3) + 2 for i in range(12)]


@pytest.mark.parametrize("contact_weight", ["joint_blocks", "delassus"])
def test_a_heavy_fast_body_does_not_hide_light_ones(contact_weight):
    """Small boxes fall onto each other and come to rest, although a ten-ton block slides fast in the same world."""
    builder, random = newton.ModelBuilder(), np.random.default_rng(1)
    small = newton.ModelBuilder.ShapeConfig(density=1e3, mu=0.5)
    for i in range(6):
        turn = random.normal(size=4)
        at = wp.transform((0.003 * i, 0.001 * i, 0.02 + 0.015 * i), wp.quat(*turn / np.linalg.norm(turn)))
        builder.add_shape_box(builder.add_body(xform=at), hx=0.006, hy=0.004, hz=0.003, cfg=small)
    block = builder.add_body(xform=wp.transform((100.0, 5.0, 0.5), wp.quat_identity()))
    builder.add_shape_box(block, hx=0.5, hy=0.5, hz=0.5, cfg=newton.ModelBuilder.ShapeConfig(density=1e4, mu=0.5))
    builder.add_ground_plane(cfg=small)
    v = [*np.zeros(36), 500.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    rig = Rig(builder, 0.002, v=v, contact_weight=contact_weight).run(300)
    assert rig.solver.report().healthy
    assert rig.v[36] == pytest.approx(500.0 - 0.5 * 9.81 * 0.6, rel=1e-4)
    if contact_weight == "delassus":  # the other pile lies so that Newton finds now three, now five points of two boxes
        assert np.abs(rig.v[:36]).max() < 1e-2
    landed = rig.body_q[:6]
    rig.run(50)
    assert rig.solver.report().healthy
    np.testing.assert_allclose(rig.body_q[:6], landed, rtol=0.0, atol=1e-3)
    np.testing.assert_allclose(rig.body_q[:6, :3], landed[:, :3], rtol=0.0, atol=1e-5)
