"""What goes wrong at run time stays in its world and is counted there: NaN, overflow, absurd values, too few iterations."""

from __future__ import annotations

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, material, put

from newton_sap import SolverSAP
from newton_sap.diagnostics import REASONS
from newton_sap.minimizer import progress
from newton_sap.minimizer.objective import Range, Value
from newton_sap.minimizer.progress import Progress
from newton_sap.minimizer.settings import Settings
from newton_sap.workspace import Problem

WORLDS, SICK, DT = 3, 1, 0.005
ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")


def world_builder():
    """A ball on the ground, a ball in flight, and a driven, limited arm whose tip touches the ground."""
    world = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    for x, z in ((0.0, 0.099), (1.0, 3.0)):
        body = link(world, inertia=0.01, xform=wp.transform(wp.vec3(x, 0.0, z), wp.quat_identity()))
        world.add_articulation([world.add_joint_free(body)])
        world.joint_q[-7:] = [x, 0.0, z, 0.0, 0.0, 0.0, 1.0]
        world.add_shape_sphere(body, radius=0.1, cfg=material())
    upper, lower = link(world, inertia=0.01), link(world, inertia=0.01)
    down = wp.transform(wp.vec3(0.0, 0.0, -0.2), wp.quat_identity())
    base = wp.transform(wp.vec3(-1.0, 0.0, 0.445), wp.quat_identity())
    drive = dict(
        axis=newton.Axis.Y,
        actuator_mode=newton.JointTargetMode.POSITION_VELOCITY,
        target_ke=50.0,
        target_kd=1.0,
        target_q=0.2,
        limit_lower=-0.01,
        limit_upper=1.0,
    )
    hip = world.add_joint_revolute(-1, upper, parent_xform=base, **drive)
    knee = world.add_joint_revolute(upper, lower, parent_xform=down, child_xform=wp.transform_identity(), **drive)
    world.add_articulation([hip, knee])
    world.add_shape_sphere(lower, xform=down, radius=0.05, cfg=material())
    return world


class Worlds:
    """Three such worlds with states, control, contacts and a solver."""

    def __init__(self, worlds=WORLDS, builder=world_builder, **options):
        whole = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
        whole.replicate(builder(), worlds)
        whole.add_ground_plane(cfg=material())
        self.model, self.worlds = whole.finalize(), worlds
        self.solver = SolverSAP(self.model, **options)
        self.state, self.out, self.control = self.model.state(), self.model.state(), self.model.control()
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()

    def run(self, steps, poison=None):
        """Step with fresh contacts, poisoned in the first step only."""
        for i in range(steps):
            self.pipeline.collide(self.state, self.contacts)
            if poison is not None and i == 0:
                poison(self)
            self.solver.step(self.state, self.out, self.control, self.contacts, DT)
            self.state, self.out = self.out, self.state
        return self

    def rows(self, array):
        """A NumPy copy of an array, one row per world (and one for global entities where there are any)."""
        return array.numpy()[: array.shape[0] // self.worlds * self.worlds].reshape(self.worlds, -1)

    def result(self):
        """Everything a step writes, one row per world."""
        return np.hstack([self.rows(getattr(self.state, name)) for name in ARRAYS])


def poison(owner, name, entry, value):
    """Return what writes a value into the sick world's share of an array."""

    def write(w):
        array = getattr(getattr(w, owner), name)
        values = array.numpy()
        count = len(values) // WORLDS
        values[count * SICK : count * (SICK + 1)].reshape(-1)[entry] = value
        array.assign(values)

    return write


def poison_gravity(value):
    """Return what spoils the gravity of the sick world."""

    def write(w):
        values = w.model.gravity.numpy()
        values[SICK, 2] = value
        w.model.gravity.assign(values)

    return write


def poison_rows(name, value, component=None):
    """Return what spoils one column of every contact row of the sick world."""

    def write(w):
        array = getattr(w.contacts, f"rigid_contact_{name}")
        world = w.model.shape_world.numpy()
        count = int(w.contacts.rigid_contact_count.numpy()[0])
        shapes = np.stack([getattr(w.contacts, f"rigid_contact_shape{i}").numpy()[:count] for i in (0, 1)])
        mine = np.flatnonzero((world[shapes] == SICK).any(axis=0))
        assert len(mine), "the sick world has contacts"
        values = array.numpy()
        if component is None:
            values[mine] = value
        else:
            values[mine, component] = value
        array.assign(values)

    return write


BROKEN = {
    "joint_q of a free joint": lambda x: poison("state", "joint_q", 2, x),
    "orientation of a free joint": lambda x: poison("state", "joint_q", 5, x),
    "joint_q in flight": lambda x: poison("state", "joint_q", 9, x),
    "joint_q of a hinge": lambda x: poison("state", "joint_q", 14, x),
    "joint_qd of a free joint": lambda x: poison("state", "joint_qd", 2, x),
    "joint_qd in flight": lambda x: poison("state", "joint_qd", 8, x),
    "joint_qd of a hinge": lambda x: poison("state", "joint_qd", 13, x),
    "body_f": lambda x: poison("state", "body_f", 1, x),
    "body_f on the arm": lambda x: poison("state", "body_f", 19, x),
    "joint_f of a free joint": lambda x: poison("control", "joint_f", 2, x),
    "joint_f of a hinge": lambda x: poison("control", "joint_f", 12, x),
    "joint_target_q": lambda x: poison("control", "joint_target_q", 14, x),
    "joint_target_qd": lambda x: poison("control", "joint_target_qd", 12, x),
    "body_mass": lambda x: poison("model", "body_mass", 0, x),
    "body_mass in flight": lambda x: poison("model", "body_mass", 1, x),
    "body_inertia": lambda x: poison("model", "body_inertia", 4, x),
    "body_com": lambda x: poison("model", "body_com", 0, x),
    "joint_armature": lambda x: poison("model", "joint_armature", 12, x),
    "joint_damping": lambda x: poison("model", "joint_damping", 12, x),
    "joint_target_ke": lambda x: poison("model", "joint_target_ke", 12, x),
    "joint_target_kd": lambda x: poison("model", "joint_target_kd", 12, x),
    "joint_limit_upper": lambda x: poison("model", "joint_limit_upper", 12, x),
    "joint_friction": lambda x: poison("model", "joint_friction", 12, x),
    "joint_X_p": lambda x: poison("model", "joint_X_p", 15, x),
    "shape ke": lambda x: poison("model", "shape_material_ke", 0, x),
    "shape kd": lambda x: poison("model", "shape_material_kd", 0, x),
    "shape mu": lambda x: poison("model", "shape_material_mu", 0, x),
    "gravity": poison_gravity,
    "contact point": lambda x: poison_rows("point0", x, 0),
    "contact offset": lambda x: poison_rows("offset1", x, 2),
    "contact normal": lambda x: poison_rows("normal", x, 2),
    "contact margin": lambda x: poison_rows("margin0", x),
}


NAN, INF = math.nan, math.inf
MEANS_SOMETHING = {
    ("joint_limit_upper", INF): "no limit",
    ("joint_friction", INF): "a dof that never slips",
    ("contact margin", -INF): "a contact infinitely far away",
    ("shape kd", NAN): "the default law reads no kd",
    ("shape kd", INF): "the default law reads no kd",
    ("shape kd", -INF): "the default law reads no kd",
}
"""Values that are not finite and yet give a finite step that no counter mentions."""


def fault_cases():
    """Every broken entry with every value."""
    for name in BROKEN:
        for value in (NAN, INF, -INF):
            yield pytest.param(name, value, id=f"{name}-{value}", marks=pytest.mark.slow if value == -INF else ())


def meaning(name, value):
    """Why a value may go uncounted; None where it may not."""
    return next((r for (n, v), r in MEANS_SOMETHING.items() if n == name and str(v) == str(value)), None)


@pytest.fixture(scope="module")
def clean():
    """Three steps without a fault."""
    with wp.ScopedDevice("cpu"):
        worlds = Worlds().run(3)
    assert worlds.solver.report().healthy and worlds.solver.report().contacts.min() >= 2
    return worlds.result()


@pytest.mark.parametrize("name, value", list(fault_cases()))
def test_fault_is_counted_in_its_world(name, value, clean):
    """One value that is not finite is counted in its world's report; no bit of any other world changes."""
    sick = Worlds().run(3, BROKEN[name](value))
    healthy = [w for w in range(WORLDS) if w != SICK]
    np.testing.assert_array_equal(sick.result()[healthy], clean[healthy])
    report = sick.solver.report()
    assert report.world.tolist() == list(range(WORLDS))
    failures = report.non_finite_steps + report.unconverged_steps
    assert not failures[healthy].any()
    if meaning(name, value):
        assert failures[SICK] == 0 and np.isfinite(sick.result()).all()
    else:
        assert failures[SICK] > 0 and not report.healthy


def test_world_recovers_after_a_fault(clean):
    """A force that was NaN for one step is counted once, and the world moves on from a finite state."""
    sick = Worlds()
    sick.run(1, poison("control", "joint_f", 2, NAN))
    sick.control.joint_f.zero_()
    before = sick.solver.report().non_finite_steps[SICK]
    sick.run(20)
    report = sick.solver.report()
    assert before == report.non_finite_steps[SICK] == 1
    assert np.isfinite(sick.result()).all() and REASONS[report.reason[SICK]] in ("optimal", "cost settled")
    assert REASONS[report.last_failure[SICK]] == "non-finite" and np.count_nonzero(report.last_failure) == 1
    sick.solver.reset(sick.state)
    assert not sick.solver.report().last_failure.any()


# Overflow -----------------------------------------------------------------------------------------------------------


def shuffled(contacts, seed):
    """The same contacts in another order."""
    count = int(contacts.rigid_contact_count.numpy()[0])
    order = np.random.default_rng(seed).permutation(count)
    for name in ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "margin0", "margin1", "normal"):
        array = getattr(contacts, f"rigid_contact_{name}")
        values = array.numpy()
        values[:count] = values[:count][order]
        array.assign(values)


def overflow(capacity, steps=1, seed=None):
    """Step with too little room; the contacts' order is drawn from a seed."""
    disorder = None if seed is None else lambda w: shuffled(w.contacts, seed)
    return Worlds(max_contacts=capacity).run(steps, disorder)


@pytest.mark.parametrize("capacity", [0, 1, 3, 5])
def test_overflow_is_counted(capacity):
    """Each world keeps its share of too little room; the rest is counted in it, step by step; nothing breaks."""
    runs = [overflow(capacity, steps=2) for _ in range(2)]
    report = runs[0].solver.report()
    shares = [capacity // WORLDS + (w < capacity % WORLDS) for w in range(WORLDS)]
    assert report.contact_capacity == capacity
    assert report.contacts.tolist() == shares
    assert report.contacts_dropped.tolist() == [2 * (2 - share) for share in shares] and not report.healthy
    assert np.isfinite(runs[0].result()).all() and not report.unconverged_steps.any()
    np.testing.assert_array_equal(runs[0].result(), runs[1].result())


@pytest.mark.parametrize("capacity", [1, 3, 5])
def test_survivors_do_not_depend_on_arrival(capacity):
    """Which contacts an overflow leaves depends on the contacts, not on the order of their rows."""
    results = [overflow(capacity, seed=seed).result() for seed in range(3)]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def sinking_balls():
    """Three balls, each deeper in the ground than the one before."""
    world = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    for x, z in ((0.0, 0.099), (1.0, 0.097), (2.0, 0.095)):
        body = link(world, inertia=0.01, xform=wp.transform(wp.vec3(x, 0.0, z), wp.quat_identity()))
        world.add_articulation([world.add_joint_free(body)])
        world.joint_q[-7:] = [x, 0.0, z, 0.0, 0.0, 0.0, 1.0]
        world.add_shape_sphere(body, radius=0.1, cfg=material())
    return world


def test_the_deepest_contacts_survive():
    """Of three balls in the ground a world with room for one or two keeps those that sank deepest."""
    for room in (1, 2):
        worlds = Worlds(builder=sinking_balls, max_contacts=room * WORLDS).run(1)
        speed = worlds.rows(worlds.state.joint_qd).reshape(WORLDS, 3, 6)[:, :, 2]
        held = speed > -0.5 * 9.81 * DT
        assert held.tolist() == [[ball >= 3 - room for ball in range(3)]] * WORLDS


def test_a_world_within_its_share_loses_nothing():
    """Another world that asks for too much changes no bit of a world with no more contacts than its share."""

    def crowd(worlds, rows):
        """World 1 has its first contact many times over."""
        contacts = worlds.contacts
        shapes = worlds.model.shape_world.numpy()[contacts.rigid_contact_shape1.numpy()]
        count = int(contacts.rigid_contact_count.numpy()[0])
        first = int(np.flatnonzero(shapes[:count] == 1)[0])
        for name in ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "margin0", "margin1", "normal"):
            array = getattr(contacts, f"rigid_contact_{name}")
            values = array.numpy()
            values[count : count + rows] = values[first]
            array.assign(values)
        contacts.rigid_contact_count.fill_(count + rows)

    alone = Worlds(max_contacts=2 * WORLDS).run(1)
    crowded = Worlds(max_contacts=2 * WORLDS).run(1, lambda w: crowd(w, 20))
    np.testing.assert_array_equal(crowded.result()[[0, 2]], alone.result()[[0, 2]])
    report = crowded.solver.report()
    assert report.contacts_dropped.tolist() == [0, 20, 0] and "20 in world 1 (capacity" in str(report)


def test_overflow_is_announced_once(capfd):
    """The first contact that finds no room is printed, with the remedy; later ones are only counted, until a reset."""
    worlds = overflow(1, steps=5)
    wp.synchronize()
    said = capfd.readouterr().out
    assert said.count("max_contacts") == 1 and "room for 1 contact" in said
    worlds.solver.reset(worlds.state)
    worlds.run(5)
    wp.synchronize()
    assert capfd.readouterr().out.count("max_contacts") == 1


@pytest.mark.parametrize("room", [1, 2, 3])
def test_contacts_that_newton_has_no_room_for_are_lost(room):
    """Newton writes none of a pair's contacts where not all fit, and counts them; so does the report."""
    builder = newton.ModelBuilder()
    builder.add_shape_box(
        builder.add_body(xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity())), hx=0.1, hy=0.1, hz=0.1
    )
    builder.add_ground_plane()
    model = builder.finalize()
    pipeline = newton.CollisionPipeline(model, rigid_contact_max=room)
    solver, state, contacts = SolverSAP(model), model.state(), pipeline.contacts()
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, 0.01)
    assert contacts.rigid_contact_count.numpy()[0] == 4
    assert solver.report().contact_rows_lost == 4 and not solver.report().healthy


@pytest.mark.parametrize("threads", [1, 2])
def test_contacts_given_to_a_model_without_shapes_are_lost(threads):
    """Whatever shapes they name, it has none of them; also where parts share the rows."""
    builder, part = newton.ModelBuilder(), newton.ModelBuilder()
    part.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    builder.replicate(part, 40)
    model, worlds = builder.finalize(), Worlds().run(1)
    solver, state = SolverSAP(model, threads=threads), model.state()
    solver.step(state, state, None, worlds.contacts, DT)
    found = worlds.contacts.rigid_contact_count.numpy()[0]
    assert solver.report().contact_rows_lost == found > 0


@pytest.mark.parametrize("chosen", [None, "all", "worlds"])
def test_lost_rows_belong_to_no_world(chosen):
    """A reset forgets them with the global entities, the mask's last entry."""
    worlds = Worlds()
    room = worlds.contacts.rigid_contact_max
    worlds.run(1, lambda w: w.contacts.rigid_contact_count.fill_(room + 7))
    lost = worlds.solver.report().contact_rows_lost
    assert lost > 0
    mask = None if chosen is None else wp.array([True] * WORLDS + [chosen == "all"], dtype=wp.bool)
    worlds.solver.reset(worlds.state, mask)
    assert worlds.solver.report().contact_rows_lost == (lost if chosen == "worlds" else 0)


def test_counters_do_not_wrap_around():
    """Of rows lost in steps without end, and of contacts dropped."""
    worlds = Worlds(max_contacts=1)
    for _ in range(3):
        worlds.run(1, lambda w: w.contacts.rigid_contact_count.fill_(2**31 - 1))
    assert worlds.solver.report().contact_rows_lost >= 2**30
    groups = worlds.solver.stats.groups.numpy()
    groups["dropped"] = 2**31 - 2
    worlds.solver.stats.groups.assign(groups)
    worlds.run(3)
    assert (worlds.solver.report().contacts_dropped > 0).all()


def test_reset_forgets_the_overflow():
    """After a reset of all worlds an overflow of the past no longer makes the report unhealthy."""
    worlds = overflow(3)
    worlds.solver.reset(worlds.state)
    assert not worlds.solver.report().contacts_dropped.any()


def test_reset_forgets_the_overflow_of_its_worlds():
    """Of the chosen world only."""
    worlds = overflow(0)
    mask = np.zeros(WORLDS + 1, dtype=bool)
    mask[1] = True
    worlds.solver.reset(worlds.state, wp.array(mask, dtype=wp.bool))
    assert worlds.solver.report().contacts_dropped.tolist() == [0 if w == 1 else 2 for w in range(WORLDS)]


def large_group(count=90):
    """So many balls in one world that its Newton directions come from conjugate gradients."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    for i in range(count):
        body = link(builder, inertia=0.01)
        builder.add_articulation([builder.add_joint_free(body)])
        builder.joint_q[-7:-4] = [0.19 * (i % 5) + 0.01 * (i // 25), 0.19 * (i // 5 % 5), 0.1 + 0.19 * (i // 25)]
        builder.add_shape_sphere(body, radius=0.1, cfg=material())
    return builder


def test_fault_in_a_large_group_stays_there():
    """NaN in a world that conjugate gradients solve leaves such worlds beside it alone, and its loop ends."""
    clean, sick = Worlds(2, large_group).run(2), Worlds(2, large_group)
    assert sick.solver.topology.needs_iterations
    force = sick.control.joint_f.numpy()
    force[len(force) // 2 :] = NAN
    sick.control.joint_f.assign(force)
    sick.run(2)
    np.testing.assert_array_equal(sick.result()[0], clean.result()[0])
    assert sick.solver.report().non_finite_steps.tolist() == [0, 2]


def test_result_beyond_float32_is_counted():
    """A finite force whose velocity no float32 can hold is counted in the step that writes infinity."""
    worlds = Worlds()
    force = worlds.rows(worlds.control.joint_f).copy()
    force[SICK, 8] = 3e38
    worlds.control.joint_f.assign(force.ravel())
    worlds.solver.step(worlds.state, worlds.state, worlds.control, None, 10.0)
    assert not np.isfinite(worlds.result()[SICK]).all() and np.isfinite(worlds.result()[0]).all()
    assert worlds.solver.report().non_finite_steps.tolist() == [0, 1, 0]


# Absurd values ------------------------------------------------------------------------------------------------------


def assert_converged(worlds):
    """Every step converged, stayed finite and kept its contacts."""
    report = worlds.solver.report()
    assert report.healthy, str(report)
    assert np.isfinite(worlds.result()).all()
    assert {REASONS[r] for r in report.reason} <= {"unconstrained", "optimal", "cost settled"}


LAWS = ("sap", "lagged", "similar")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("stiffness", [1e-3, 1.0, 1e6, 1e9, 1e12])
def test_any_stiffness(stiffness, law):
    """Contacts, drives and limits from 1e-3 to 1e12 converge."""
    worlds = Worlds(contact_model=law)
    for name in ("shape_material_ke", "joint_target_ke", "joint_limit_ke"):
        getattr(worlds.model, name).fill_(stiffness)
    assert_converged(worlds.run(20))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_any_mass(factor, law):
    """One body of a world a million times lighter or heavier than the others converges."""
    worlds = Worlds(contact_model=law)
    per_world = worlds.model.body_count // WORLDS
    for body in range(WORLDS):  # another body in each world
        for name in ("body_mass", "body_inertia"):
            array = getattr(worlds.model, name)
            values = array.numpy()
            values[per_world * body + body] *= factor
            array.assign(values)
    worlds.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)
    assert_converged(worlds.run(20))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dt", [1e-5, 1e-4, 1e-3, 1e-2, 0.1])
def test_any_step_length(dt, law):
    """Steps from 10 us to 0.1 s converge."""
    worlds = Worlds(contact_model=law)
    for _ in range(20):
        worlds.pipeline.collide(worlds.state, worlds.contacts)
        worlds.solver.step(worlds.state, worlds.state, worlds.control, worlds.contacts, dt)
    assert_converged(worlds)


def test_settled_cost_means_a_small_residual():
    """A ball that meets a very stiff ground under "similar" ends with a small residual or is counted as unconverged."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    body, stiff = link(builder, inertia=0.004), material(1e12, 0.0, friction=1.0, gap=0.02)
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_q[2] = 0.102
    builder.add_shape_sphere(body, radius=0.1, cfg=stiff)
    builder.add_ground_plane(cfg=stiff)
    rig = Rig(builder, 0.003, v=[3.0, 1.0, -2.0, 5.0, 1.0, 2.0], contact_model="similar").run()
    report = rig.solver.report()
    assert report.contacts[0] == 1
    assert report.unconverged_steps[0] == 1 or report.residual[0] < 1e-3 * report.scale[0]


@wp.kernel(module="unique")
def judge_settled(iterations: wp.array[int], reason: wp.array[int]):
    """What is said of an iterate whose cost no longer changes and whose residual is above 1e-3 of its scale."""
    i = wp.tid()
    value = Value(wp.float64(1.0), wp.float64(1.5e-3), wp.float64(1.0), wp.float64(1.0))
    now = Progress()
    now.cost = value.cost
    now.alpha = wp.float64(1.0)
    now.iterations = iterations[i]
    settings = Settings()
    settings.cost_rel = wp.float64(1.0e-15)
    settings.optimality_rough = wp.float64(1.0e-3)
    settings.max_iterations = 200
    reason[i] = progress.verdict(Problem(), Range(), value, now, settings)


def test_a_solve_stalls_after_exact_steps_only():
    """The first ten steps are rough ones, of which one may go across a kink to a place that costs the same."""
    iterations, reason = wp.array([1, 7, 9, 10, 50], dtype=int), wp.zeros(5, dtype=int)
    wp.launch(judge_settled, 5, inputs=[iterations, reason])
    goes_on, stalled = int(progress.GOES_ON), int(progress.STALLED)
    np.testing.assert_array_equal(reason.numpy(), [goes_on] * 3 + [stalled] * 2)


def squeezed(law, **options):
    """A tilted box without weight between two plates that press on it with 4e6 N each, at rest."""
    turn = wp.normalize(wp.quat(0.3, 0.2, -0.5, 0.7))
    builder, cfg = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0)), material(1e8, 5e5, friction=0.5, gap=0.01)
    at = wp.transform(wp.vec3(0.3, 0.1, 0.2), turn)
    box = builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.01)), lock_inertia=True, xform=at)
    builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    for height in (-0.19, 0.19):
        plate = at * wp.transform(wp.vec3(0.0, 0.0, height), wp.quat_identity())
        builder.add_shape_box(-1, hx=0.3, hy=0.3, hz=0.1, xform=plate, cfg=cfg)
    return Rig(builder, 0.005, contact_model=law, **options)


@pytest.mark.parametrize("law", LAWS)
def test_rounding_of_large_forces_is_no_failure(law):
    """Where nothing moves but what forces of 4e6 N leave when they cancel, no iteration could do better; without any, one could."""
    assert squeezed(law).run(50).solver.report().healthy
    rig = squeezed(law, max_iterations=0)
    put(rig.state.joint_qd, [1e-6, 0.0, 1e-6])
    assert rig.run(1).solver.report().unconverged_steps[0] == 1


def test_no_gravity():
    """Without gravity and force the ball in flight keeps every bit of its state."""
    worlds = Worlds()
    worlds.model.gravity.zero_()
    before = worlds.rows(worlds.state.body_q).reshape(WORLDS, -1, 7)[:, 1].copy()
    assert_converged(worlds.run(20))
    np.testing.assert_array_equal(worlds.rows(worlds.state.body_q).reshape(WORLDS, -1, 7)[:, 1], before)


def test_contacts_without_rows():
    """An empty ``Contacts`` and None give the same bits."""
    worlds = [Worlds(), Worlds()]
    for w, contacts in zip(worlds, (newton.Contacts(4, 0), None), strict=True):
        for _ in range(5):
            w.solver.step(w.state, w.state, w.control, contacts, DT)
        assert_converged(w)
    np.testing.assert_array_equal(worlds[0].result(), worlds[1].result())


def test_no_joints():
    """A model of static shapes steps, reports nothing and stays healthy."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    for contacts in (None, newton.Contacts(0, 0), newton.CollisionPipeline(model).contacts()):
        solver.step(state, state, None, contacts, DT)
    assert solver.report().healthy and solver.inspect().v.size == 0


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("limit", [0, 1])
def test_too_few_iterations(limit, law):
    """An iteration limit leaves a finite iterate and counts each step that missed the tolerance, world by world."""
    steps, full = 10, Worlds(contact_model=law)
    worlds = Worlds(contact_model=law, max_iterations=limit)
    push(full), push(worlds)
    full.run(1), worlds.run(1)
    needed = full.solver.report().iterations
    counted = worlds.solver.report().unconverged_steps
    np.testing.assert_array_equal(counted, needed > limit)
    np.testing.assert_array_equal(worlds.solver.report().last_failure > 0, counted > 0)
    easy = (limit, law) == (1, "sap")  # quadratic here: one iteration finds the minimum
    assert (counted > 0).any() != easy
    worlds.run(steps - 1)
    report = worlds.solver.report()
    assert np.isfinite(worlds.result()).all() and not report.non_finite_steps.any()
    assert report.iterations_max.max() <= limit and report.steps == steps and report.healthy == easy


def push(worlds):
    """Give the touching balls a slip, so that friction has something to do."""
    values = worlds.rows(worlds.state.joint_qd).copy()
    values[:, :6] = (1.0, 0.5, -0.2, 3.0, -4.0, 5.0)
    worlds.state.joint_qd.assign(values.ravel())
