"""Parts of a batch go through all stages of a step one after the other, and no bit tells how many parts there are."""

import newton
import numpy as np
import pytest
import test_faults
import warp as wp
from test_determinism import WORLDS, Rollout, assert_same_bits, sample
from test_global_world import IDENTITY

from newton_sap import SolverSAP
from newton_sap.boundary import topology
from newton_sap.boundary.capacity import contacts_by_part, likely_contacts
from newton_sap.boundary.topology import build_topology
from newton_sap.runtime.scratch import CONTACT, JACOBIAN, ROW, UNKNOWN


@pytest.fixture
def small_parts(monkeypatch):
    """A part for every few dofs; called with how many."""
    return lambda dofs: monkeypatch.setattr(topology, "PART_DOFS", dofs)


def parts_of(solver):
    """How many parts a solver works on."""
    return len(solver.topology.part_start) - 1


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("options", sample(0, 4), ids=str)
def test_parts_keep_the_bits(options, threads, small_parts):
    """Unlike worlds, eagerly by one or two threads, and from a graph."""
    names = tuple(WORLDS)
    whole = Rollout(names, **options).run()
    assert parts_of(whole.solver) == 1
    small_parts(8)
    several = Rollout(names, threads=threads, **options).run()
    assert parts_of(several.solver) >= 3
    assert_same_bits(several.everything(), whole.everything())
    if "spin_friction" not in options:
        assert_same_bits(Rollout(names, threads=threads, **options).replay().everything(), whole.everything())


def test_contacts_in_any_order(small_parts):
    """Rows of several parts that are mixed up are told apart."""
    names = ("heap", "balls and arm", "quadruped")
    plain = Rollout(names).run()
    small_parts(8)
    shuffled = Rollout(names).run(shuffle=3)
    assert parts_of(shuffled.solver) >= 2
    assert_same_bits(shuffled.everything(), plain.everything())


def all_that_is_told(rollout):
    """Observables of one more step, and what is asked for after it: forces, the mass matrix, what explains the step."""
    solver, before = rollout.solver, rollout.state
    kinds = SolverSAP.SUPPORTED_OBSERVABLES
    observables = solver.observables(kinds, contacts=rollout.contacts)
    after = rollout.model.state()
    rollout.pipeline.collide(before, rollout.contacts)
    solver.step(before, after, rollout.control, rollout.contacts, 0.005, observables=observables)
    for name in CONTACT + JACOBIAN:
        spoil(getattr(solver.pool, name))
    for name in ROW:
        spoil(getattr(solver.rows, name))
    for name in UNKNOWN:
        spoil(getattr(solver.problem, name))
    told = [getattr(observables, kind).numpy() for kind in sorted(kinds)]
    forces = newton.Contacts(rollout.contacts.rigid_contact_max, 0, requested_attributes={"force"})
    solver.update_contacts(forces)
    told += [forces.force.numpy(), *vars(solver.inspect()).values()]
    explained = solver.inverse_dynamics(before, after, rollout.control, rollout.contacts, 0.005)
    return [*told, *vars(explained).values()]


def spoil(array):
    """Put what nobody can use in the place of what nobody should read."""
    array.numpy().view(np.uint8).fill(255)  # -1, or NaN


@pytest.mark.parametrize("names", [tuple(WORLDS), ("quadruped",) * 7], ids=["unlike", "alike"])
@pytest.mark.parametrize("threads", (1, 2))
def test_scratch_is_used_up(names, threads, small_parts):
    """Parts that keep their scratch in one place tell the same as those with places of their own, and do not ask it."""
    whole = Rollout(names).run(30)
    small_parts(8 if len(set(names)) > 1 else 20)
    several = Rollout(names, threads=threads).run(30)
    solver = several.solver
    assert solver.scratch.is_shared and parts_of(solver) > 2
    assert solver.scratch.is_in(solver.motion) == (len(set(names)) == 1)
    slots = np.diff(solver.pool.part_start.numpy())
    places = np.sort(slots)[-threads:].sum()  # one for each thread, at most as large as the largest parts
    assert len(solver.pool.J) <= solver.pool.stride * places < solver.pool.stride * len(solver.pool.row)
    assert_same_bits(all_that_is_told(several), all_that_is_told(whole))


def test_parts_cannot_wait_while_scratch_is_in_use(small_parts):
    """A launch for all parts among stages that hand scratch on would find that of the last part alone."""
    small_parts(8)
    launches = Rollout(tuple(WORLDS)).solver.launches
    with launches, launches.unbroken(), pytest.raises(RuntimeError, match="scratch is in use"):
        launches.single(None, 1, [])


def global_table_and_paddle(worlds=5):
    """Boxes of several worlds on a table of all, swept by a kinematic bar of all that comes after them."""
    builder = newton.ModelBuilder()
    for i in range(worlds):
        builder.begin_world()
        at = wp.transform((0.0, 0.3 * i, 0.6), IDENTITY)
        builder.add_shape_box(builder.add_body(xform=at), hx=0.1, hy=0.1, hz=0.1)
        builder.end_world()
    table = builder.add_link(xform=wp.transform((0.0, 0.5, 0.25), IDENTITY))
    builder.add_shape_box(table, hx=1.0, hy=2.0, hz=0.25)
    at = wp.transform((0.0, 0.5, 0.25), IDENTITY)
    builder.add_articulation([builder.add_joint_fixed(-1, table, parent_xform=at)])
    bar = builder.add_body(xform=wp.transform((-0.3, 0.5, 0.6), IDENTITY), is_kinematic=True)
    builder.add_shape_box(bar, hx=0.05, hy=2.0, hz=0.05)
    return builder.finalize()


def swept():
    """State and solver after the bar has pushed the boxes."""
    model = global_table_and_paddle()
    solver, state, pipeline = SolverSAP(model), model.state(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    q, qd = state.joint_q.numpy(), state.joint_qd.numpy()
    qd[-6] = 0.5
    for _ in range(200):
        state.joint_q.assign(np.concatenate([state.joint_q.numpy()[:-7], q[-7:]]))
        state.joint_qd.assign(np.concatenate([state.joint_qd.numpy()[:-6], qd[-6:]]))
        q[-7] += 0.005 * qd[-6]
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.005)
    return solver, state


def test_bodies_of_the_global_world_touch_all_parts(small_parts):
    """What no unknown moves is in no part alone: a table and a kinematic bar meet the boxes of every one."""
    _, truth = swept()
    assert (truth.body_q.numpy()[:5, 0] > 0.25).all()
    small_parts(6)
    solver, state = swept()
    assert parts_of(solver) == 6  # the table and the bar make a group, too
    for name in ("body_q", "body_qd"):
        assert_same_bits([getattr(state, name).numpy()], [getattr(truth, name).numpy()])


@pytest.mark.parametrize("capacity", [0, 1, 3, 5])
def test_too_few_slots_are_shared(capacity, small_parts):
    """Equal worlds in parts of their own get the shares that they get together, give or take one slot."""
    small_parts(1)
    worlds = test_faults.Worlds(max_contacts=capacity).run(2)
    assert parts_of(worlds.solver) == test_faults.WORLDS
    report = worlds.solver.report()
    assert report.contact_capacity == capacity == report.contacts.sum()
    assert report.contacts.max() - report.contacts.min() <= 1
    assert report.contacts_dropped.sum() == 2 * (2 * test_faults.WORLDS - capacity)


def test_lost_rows_are_counted_once(small_parts):
    """Rows beyond Newton's capacity, and rows that name no shape, count once for all parts."""

    def spoil(worlds):
        contacts = worlds.contacts
        shapes = contacts.rigid_contact_shape0.numpy()
        shapes[0] = worlds.model.shape_count
        contacts.rigid_contact_shape0.assign(shapes)
        contacts.rigid_contact_count.fill_(contacts.rigid_contact_max + 7)

    whole = test_faults.Worlds().run(1, spoil).solver
    small_parts(1)
    parts = test_faults.Worlds().run(1, spoil).solver
    assert parts_of(parts) > parts_of(whole) == 1
    assert parts.report().contact_rows_lost == whole.report().contact_rows_lost > 7


def test_slots_follow_the_shapes(small_parts):
    """A part with more that may touch has more slots; each has what its groups are likely to need."""
    small_parts(6)
    model = Rollout(tuple(WORLDS)).model
    found = build_topology(model)
    likely = np.add.reduceat(likely_contacts(model, found), found.part_start[:-1])
    start = contacts_by_part(int(likely.sum()), likely_contacts(model, found), found.part_start)
    assert start[0] == 0 and start[-1] == likely.sum() and len(start) == len(found.part_start)
    assert likely.max() > 3 * likely.min()
    np.testing.assert_allclose(np.diff(start), likely, atol=len(likely))


def noted(launches, order, monkeypatch, breaks=lambda kernel, part: False):
    """Let launches only note what they would launch, or break."""

    def launcher(part, launch, kernel, count, inputs):
        def run():
            if breaks(kernel, part):
                raise RuntimeError(f"{kernel} does not run")
            order.append(kernel)

        return run

    monkeypatch.setattr(launches, "_launcher", launcher)


def test_what_all_parts_need_comes_between(small_parts, monkeypatch):
    """A kernel of the whole model runs after all parts, one that depends on none before; else each part goes through."""
    small_parts(8)
    solver, order = Rollout(tuple(WORLDS)).solver, []
    launches, parts = solver.launches, parts_of(solver)
    noted(launches, order, monkeypatch)
    with launches:
        launches.trees("first", [])
        launches.at_once("independent", 1, [])
        launches.groups("second", [])
        launches.single("dependent", 1, [])
        launches.trees("third", [])
    assert order == ["independent", *["first", "second"] * parts, "dependent", *["third"] * parts]


@pytest.mark.parametrize("threads", (1, 2))
def test_a_failure_leaves_nothing_for_the_next_step(threads, small_parts, monkeypatch):
    """What waits behind a launch that fails is dropped, in other parts, too."""
    small_parts(8)
    launches, order = Rollout(tuple(WORLDS), threads=threads).solver.launches, []
    noted(launches, order, monkeypatch, lambda kernel, part: kernel == "first" and part is launches._parts[0])
    with pytest.raises(RuntimeError, match="first does not run"), launches:
        launches.trees("first", [])
        launches.trees("second", [])
    order.clear()
    launches.trees("third", [])
    assert set(order) == {"third"}


def test_a_model_without_groups(small_parts):
    """Static shapes alone, and contacts for them: nothing moves, nothing is written out of bounds."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    builder.add_shape_box(-1, hx=0.1, hy=0.1, hz=0.1)
    model = builder.finalize()
    assert topology.share_groups(np.zeros(0, dtype=int), 3).tolist() == [0, 0]
    solver, state = SolverSAP(model, max_contacts=5), model.state()
    contacts = newton.Contacts(10, 0, device=model.device)
    solver.step(state, state, None, contacts, 0.01)
    assert solver.report().contact_capacity == 5 and solver.report().healthy
    assert parts_of(solver) == 1 and len(solver.arrivals.lane_count) > 0
