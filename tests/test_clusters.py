"""Clusters: trees of a world that no contact links are minimised by themselves, and nothing of one reaches another."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import collided, link, material

from newton_sap import SolverSAP
from newton_sap.boundary import couplings, matrices
from newton_sap.multibody.gyroscopic import TIED

DT = 1.0 / 240.0


def at(x=0.0, y=0.0, z=0.0):
    """A pose without rotation."""
    return wp.transform((x, y, z), wp.quat_identity())


def add_box(builder, *place, **kwargs):
    """A free cube of 20 cm; its body."""
    body = builder.add_body(xform=at(*place), **kwargs)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    return body


def groups_of(solver):
    """The bodies of each cluster, by the latest step."""
    clusters, arrays = solver.problem.clusters, solver.topology.arrays
    order, found = clusters.order.numpy(), []
    for k, entry in enumerate(clusters.entry.numpy()):
        trees = order[k : k + entry["trees"]]
        found += [{int(arrays["link_body"][arrays["tree_link_start"][t]]) for t in trees}] if len(trees) else []
    return found


def stepped(model, dt=DT, contacts=True, steps=1, **options):
    """A solver after steps from the model's state, and that state."""
    solver, (state, found) = SolverSAP(model, **options), collided(model)
    for _ in range(steps):
        solver.step(state, state, None, found if contacts else None, dt)
    return solver, state


def blocks():
    """Two stacks of two and a cube alone on the ground, a cube in the air, and one that lies 5 cm beside a stack."""
    builder = newton.ModelBuilder()
    builder.default_shape_cfg.gap = 0.05
    for z in (0.1, 0.3):
        for x in (0.0, 5.0):
            add_box(builder, x, 0.0, z)
    add_box(builder, 9.0, 0.0, 0.1)
    add_box(builder, 15.0, 0.0, 5.0)
    add_box(builder, 5.25, 0.0, 0.1)
    builder.add_ground_plane()
    return builder


def test_contacts_tell_what_belongs_together():
    """Stacks are listed across each other; what is alone stays alone, in the air or on the ground."""
    solver, _ = stepped(blocks().finalize())
    assert sorted(map(sorted, groups_of(solver))) == [[0, 2], [1, 3], [4], [5], [6]]
    assert solver.report().healthy and solver.report().contacts[0] == 24


def test_without_contacts_each_tree_is_by_itself():
    """Also after a step in which contacts had linked some."""
    solver, state = stepped(blocks().finalize())
    solver.step(state, state, None, None, DT)
    assert sorted(map(sorted, groups_of(solver))) == [[k] for k in range(7)]
    assert solver.report().healthy and solver.report().contacts[0] == 0
    solver.step(state, state, None, collided(solver.model)[1], DT)
    assert sorted(map(sorted, groups_of(solver))) == [[0, 2], [1, 3], [4], [5], [6]]


def test_what_may_meet_within_the_step_belongs_together():
    """A cube at 20 m/s is with the one 5 cm ahead, though both sleep until the step is solved, and hands on its momentum."""
    builder = blocks()
    builder.body_qd[6] = (-20.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    builder.joint_qd[36:42] = (-20.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    solver, state = stepped(builder.finalize())
    assert sorted(map(sorted, groups_of(solver))) == [[0, 2], [1, 3, 6], [4], [5]]
    assert solver.report().healthy and state.body_qd.numpy()[1, 0] < -1.0


def test_what_no_unknown_moves_links_nothing():
    """Two cubes on one kinematic plate do not know of each other."""
    builder = newton.ModelBuilder()
    plate = builder.add_body(xform=at(z=-0.05), is_kinematic=True)
    builder.add_shape_box(plate, hx=2.0, hy=2.0, hz=0.05)
    cubes = [add_box(builder, x, 0.0, 0.1) for x in (-1.0, 1.0)]
    solver, _ = stepped(builder.finalize())
    assert [{plate}, *({cube} for cube in cubes)] == groups_of(solver)
    assert solver.report().contacts[0] == 8 and solver.report().healthy


def test_couplings_keep_trees_together():
    """Whether switched on or off, with and without contacts: of three cubes two, one of which is listed last. In another world none."""
    builder = newton.ModelBuilder()
    for tied in (True, False):
        builder.begin_world()
        cubes = [add_box(builder, x, 0.0, 0.1) for x in (0.0, 6.0, 3.0)]
        if tied:
            builder.add_joint_ball(cubes[0], cubes[2], parent_xform=at(1.5), child_xform=at(-1.5))
        builder.end_world()
    builder.add_ground_plane()
    model = builder.finalize()
    solver, state = stepped(model)
    assert groups_of(solver) == [{0, 2}, {1}, {3}, {4}, {5}]
    assert solver.report().healthy
    model.joint_enabled.assign(np.where(model.joint_type.numpy() == newton.JointType.BALL, False, True))
    solver.step(state, state, None, None, DT)
    assert groups_of(solver) == [{0, 2}, {1}, {3}, {4}, {5}] and solver.report().healthy


@pytest.mark.parametrize("tied", (False, True))
@pytest.mark.parametrize(("dofs", "trees"), ((512, 32), (512, 3), (0, 32)))
def test_robots_apart_are_as_in_worlds_of_their_own(monkeypatch, dofs, trees, tied):
    """Iterations and velocities of each, with and without a factored Hessian for all of them, and for one."""
    monkeypatch.setattr(matrices, "DIRECT_DOFS", dofs)
    monkeypatch.setattr(matrices, "DIRECT_TREES", trees)
    found = []
    for worlds in (True, False):
        model = robots(4, worlds, tied)
        pipeline, solver = newton.CollisionPipeline(model), SolverSAP(model)
        state, control, contacts = model.state(), model.control(), pipeline.contacts()
        iterations, rng = [], np.random.default_rng(3)
        for _ in range(20):
            control.joint_f.assign(rng.normal(0.0, 3.0, model.joint_dof_count))
            pipeline.collide(state, contacts)
            solver.step(state, state, control, contacts, DT)
            iterations.append(solver.report().iterations.max())
        assert solver.report().healthy and solver.topology.needs_iterations == (
            dofs == 0 or (trees == 3 and not worlds)
        )
        found.append((iterations, solver.inspect().v))
    assert found[0][0] == found[1][0] and max(found[0][0]) > 3
    # Newton's coordinates are float32, and coarser away from the origin.
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0.0, atol=1e-4)


def test_tied_trees_of_a_cluster_without_a_factor_turn_as_held_ones(monkeypatch):
    """Also where couplings tie so few that they could follow, did contacts not link them to many."""
    monkeypatch.setattr(matrices, "DIRECT_DOFS", 0)
    found = []
    for most in (couplings.CLUSTER_DOFS, 0):
        monkeypatch.setattr(couplings, "CLUSTER_DOFS", most)
        model = robots(2, worlds=False, tied=True)
        solver, state = SolverSAP(model, optimality_rel=1e-12), model.state()
        assert np.isin(int(TIED), solver.tree.trees.numpy()["moves"][:-1]) == (most > 0)
        spin = np.full(model.joint_dof_count, 4.0)
        state.joint_qd.assign(spin)
        solver.step(state, state, None, None, DT)
        found.append(solver.inspect().v)
    np.testing.assert_allclose(*found, rtol=0.0, atol=1e-9)


def robots(count, worlds, tied=False):
    """Two-legged things of five joints, 1.5 m apart, or at the same place in worlds of their own; if ``tied``, with a load on a ball, and
    legs that move as one."""
    one = newton.ModelBuilder()
    trunk = link(one, mass=4.0)
    joints = [one.add_joint_free(trunk)]
    one.add_shape_box(trunk, hx=0.2, hy=0.1, hz=0.1, cfg=material())
    for side in (1.0, -1.0):
        leg = link(one, inertia=0.02)
        joints.append(one.add_joint_revolute(trunk, leg, axis=(0.0, 1.0, 0.0), parent_xform=at(0.15 * side, 0.0, -0.1)))
        one.add_shape_sphere(leg, xform=at(z=-0.2), radius=0.05, cfg=material())
    one.add_articulation(joints)
    one.joint_q[2] = 0.34
    if tied:
        load = link(one, xform=at(z=0.74), inertia=0.02)
        one.add_articulation([one.add_joint_free(load)])
        one.joint_q[-7:-4] = (0.0, 0.0, 0.74)
        one.add_joint_ball(trunk, load, parent_xform=at(z=0.2), child_xform=at(z=-0.2))
        one.set_joint_mimic(joints[1], joints[2])
    builder = newton.ModelBuilder()
    for k in range(count):
        if worlds:
            builder.add_world(one)
        else:
            builder.add_builder(one, xform=at(1.5 * k))
    builder.add_ground_plane(cfg=material())
    return builder.finalize()


def test_without_shapes_each_tree_is_by_itself():
    """Pendulums in one world; a captured first step needs nothing compiled."""
    builder = newton.ModelBuilder()
    for _ in range(3):
        joint = builder.add_joint_revolute(-1, link(builder), axis=(0.0, 1.0, 0.0), friction=0.1)
        builder.add_articulation([joint])
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    with wp.ScopedCapture() as capture:
        solver.step(state, state, None, None, DT)
    wp.capture_launch(capture.graph)
    assert groups_of(solver) == [{0}, {1}, {2}] and solver.report().healthy


def test_a_fault_stays_in_its_cluster():
    """A robot that is told to push without measure is reported, and others in its world go on as if it were not there."""
    model = robots(3, worlds=False)
    found = []
    for sick in (False, True):
        pipeline, solver = newton.CollisionPipeline(model), SolverSAP(model)
        state, control, contacts = model.state(), model.control(), pipeline.contacts()
        force = np.zeros(model.joint_dof_count)
        force[-1] = np.nan if sick else 0.0
        control.joint_f.assign(force)
        for _ in range(3):
            pipeline.collide(state, contacts)
            solver.step(state, state, control, contacts, DT)
        assert solver.report().non_finite_steps.tolist() == [3 * sick]
        assert np.isnan(solver.report().residual[0]) == sick
        found.append(state.joint_qd.numpy()[:16])
    np.testing.assert_array_equal(*found)


def test_the_report_tells_of_the_worst():
    """Of a world's clusters: iterations of the longest minimisation, all contacts, the deepest of them, one step at a time."""
    builder = blocks()
    solver, state = stepped(builder.finalize(), steps=2)
    calm = solver.report()
    builder.joint_qd[24] = 5.0  # the cube that is alone slides
    solver, _ = stepped(builder.finalize(), steps=2)
    report = solver.report()
    assert report.steps == 2 and report.contacts.tolist() == calm.contacts.tolist() == [24]
    assert report.iterations[0] > calm.iterations[0] and report.residual[0] <= 1e-5 * report.scale[0] > 0.0
    depths = -solver.pool.phi0.numpy()[: report.contacts.sum()]
    assert report.penetration[0] == depths.max() > 0.0 and report.healthy


def test_a_heavy_tree_hides_nothing_of_what_a_light_one_lacks():
    """A box of 1e-4 kg that slides and tips on one of 1e8 kg, which slides too: by the residual of both its solve would end 0.16 rad/s away."""
    builder, cfg = newton.ModelBuilder(), newton.ModelBuilder.ShapeConfig
    heavy, light = builder.add_body(xform=at(z=0.5)), builder.add_body(xform=at(z=1.05))
    ground = dict(ke=1e9, kd=1e4, mu=0.8, gap=0.0)
    builder.add_shape_box(heavy, hx=2.0, hy=2.0, hz=0.5, cfg=cfg(density=1.25e7, **ground))
    builder.add_shape_box(light, hx=0.05, hy=0.05, hz=0.05, cfg=cfg(density=0.1, ke=1e3, kd=10.0, mu=0.8, gap=0.0))
    builder.add_ground_plane(cfg=cfg(**ground))
    builder.joint_qd[0], builder.joint_qd[7], builder.joint_qd[9] = 3.0, 1.0, 3.0
    model, found = builder.finalize(), []
    for rel, rough in ((1e-13, 1e-3), (1e-6, 1e-3), (1e-6, 1e12)):
        solver, (state, contacts) = SolverSAP(model, optimality_rel=rel, max_iterations=200), collided(model)
        solver._settings.optimality_rough = wp.float64(rough)
        solver.step(state, state, None, contacts, 0.004)
        assert groups_of(solver) == [{heavy, light}] and solver.report().healthy
        found.append(solver.inspect().v)
    assert np.abs(found[1] - found[0]).max() < 1e-5 and np.abs(found[2] - found[0]).max() > 0.1
