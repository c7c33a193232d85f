"""SolverSAP against the NumPy reference: every joint type, random trees, worlds and contacts, all presets."""

from __future__ import annotations

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from rig import tight

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

DT = 0.01
TIGHT = tight(optimality_rel=1e-10)
"""Both sides iterate to ten times where round-off stops them: what remains is a difference of formulas, and both ask for friction bounds."""
TOLERANCE = {"float64": 1e-9, "mixed": 1e-5}
FLOAT32 = float(np.finfo(np.float32).eps)
ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")
SCENES = {
    "chain": dict(joint_count=8, root_kinds=("revolute", "prismatic", "d6", "ball")),
    "floating": dict(joint_count=6, root_kinds=("free",), tree_count=2),
    "nested": dict(joint_count=5, tree_count=2, descendant_free=True),
    "worlds": dict(joint_count=(1, 6), worlds=3, tree_count=2),
    "kinematic": dict(joint_count=5, tree_count=2, kinematic_root=True),
    "global": dict(joint_count=(1, 4), worlds=2, global_tree=True, descendant_free=True),
    "unset": dict(joint_count=4, tree_count=2, materials=False),
}


def scene(name, seed, **contact_options):
    """Return the model, state, control and contacts of a named random scene."""
    model = rm.random_tree_model(seed, friction=True, velocity_limits=True, **SCENES[name])
    state, control = rm.random_state(model, seed), rm.random_control(model, seed)
    contacts = rm.random_contacts(model, state, seed, **{"count": 6, "welded": False, **contact_options})
    return model, state, control, contacts


def step(model, state, control, contacts, dt=DT, observables=None, **options):
    """Step a new solver once; return it and the state it wrote."""
    solver = SolverSAP(model, **options)
    out = model.state()
    if observables is not None:
        observables = solver.observables([observables], contacts=contacts)
    solver.step(state, out, control, contacts, dt, observables=observables)
    return solver, out, observables


def relative(value, truth):
    """Norm of the difference over the norm of the truth."""
    return np.linalg.norm(value - truth) / max(np.linalg.norm(truth), 1e-12)


def assert_same_step(model, state, control, contacts, dt=DT, **options):
    """Compare everything that a step computes; return the reference's result."""
    options = TIGHT | options
    truth = ReferenceSolver(model, **options).step(state, control, contacts, dt)
    solver, out, _ = step(model, state, control, contacts, dt, **options)
    seen = solver.inspect()
    assert not solver.report().non_finite_steps.any()
    tolerance = TOLERANCE[solver.options.precision]
    assert relative(seen.A, truth.A) < 1e-10
    assert relative(seen.v0, truth.v0) < 1e-12
    assert relative(seen.v_star, truth.v_star) < 1e-10
    assert relative(seen.v, truth.v) < tolerance
    rounding = 4.0 * FLOAT32 + tolerance
    for name in ARRAYS:
        value, expected = getattr(out, name).numpy().astype(float), getattr(truth, name)
        size = 1.0 + np.abs(expected).max(initial=0.0)
        # Bodies are placed from joint states that have been rounded to float32 once more.
        np.testing.assert_allclose(value, expected, rtol=0.0, atol=rounding * size * (1 if name[0] == "j" else 10))
    return truth


@pytest.mark.parametrize("seed", (3, 7))  # under which both read the same bounds to the last digit
@pytest.mark.parametrize("preset", (None, "drake", "approx64", "approx32"))
@pytest.mark.parametrize("name", SCENES)
def test_step_equals_the_reference(name, preset, seed):
    """Velocities before, after free motion and at the end, the dynamics matrix, and the public state agree."""
    options = {"preset": preset}
    if name == "global":  # the reference splits it into smaller problems, and would read bounds from other iterates
        options["friction_bound"] = "start"
    truth = assert_same_step(*scene(name, seed), **options)
    assert truth.gamma or truth.rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ("chain", "nested", "worlds"))
def test_mixed_precision_equals_the_reference(name, seed):
    """A float32 Hessian leads to the float64 minimum."""
    assert_same_step(*scene(name, seed), precision="mixed", friction_bound="start")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("contact_model", ("sap", "similar"))
def test_other_contact_models_equal_the_reference(contact_model, seed):
    """The laws that are not the default agree as well, also with default materials."""
    options = dict(contact_model=contact_model, max_iterations=100)
    assert_same_step(*scene("floating", seed), **options)
    assert_same_step(*scene("unset", seed), **options)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ("floating", "unset", "worlds"))
def test_bounds_from_the_start_of_the_step_equal_the_reference(name, seed):
    """The lagged law as Drake has it."""
    assert_same_step(*scene(name, seed), friction_bound="start")


@pytest.mark.parametrize("preset", (None, "drake", "approx64"))
@pytest.mark.parametrize("seed", range(3))
def test_contact_properties_equal_the_reference(seed, preset):
    """Per-contact stiffness, damping and friction, and moving surfaces, act alike."""
    *others, contacts = scene("nested", seed, overrides=True, surface_velocity=True)
    assert_same_step(*others, contacts, preset=preset)


def test_damping_of_a_contact_needs_no_stiffness():
    """Per-contact damping replaces that of the materials, also where the stiffness stays theirs."""
    for seed in range(3):
        *others, contacts = scene("nested", seed, overrides=True)
        contacts.rigid_contact_stiffness.zero_()
        assert_same_step(*others, contacts, contact_model="sap")


@pytest.mark.parametrize("seed", range(3))
def test_gaps_equal_the_reference(seed):
    """Leaving out contacts that are too far apart to act does not change the result."""
    case = scene("floating", seed, count=12, depth=0.002, height=0.3)
    truth = assert_same_step(*case)
    assert any(c["phi0"] > 0.1 and not c["gamma_W"].any() for c in truth.gamma)


def test_gaps_with_dissipation_equal_the_reference():
    """With dissipation ahead of touch, contacts act from (dt + tau) |v| away, however small the step."""
    acting = 0
    for seed in range(3):
        case = scene("floating", seed, count=16, height=0.1)
        truth = assert_same_step(*case, dt=5e-4, contact_model="sap", dissipation_ahead_of_touch=True)
        acting += sum(c["phi0"] > 0.02 and c["gamma_W"].any() for c in truth.gamma)
    assert acting > 3


@pytest.mark.parametrize("name", ("chain", "nested"))
def test_explicit_joint_forces_equal_the_reference(name):
    """Drives and springs evaluated at the start of the step agree as well."""
    for options in (dict(drive_integration="explicit"), dict(spring_integration="explicit")):
        assert_same_step(*scene(name, 2), dt=1e-3, **options)


def test_restitution_equals_the_reference():
    """Bouncing contacts agree in every contact model."""
    for contact_model in ("sap", "lagged", "similar"):
        model, *others = scene("floating", 4, count=12)
        model.shape_material_restitution.assign(np.linspace(0.0, 1.0, model.shape_count, dtype=np.float32))
        assert_same_step(model, *others, contact_model=contact_model, friction_bound="start")


@pytest.mark.parametrize("contact_model", ("sap", "lagged", "similar"))
def test_impacts_in_company_equal_the_reference(contact_model):
    """Balls in a row, closer than they go in a step: some meet, some part and are thrown together, some stay out of it."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    config = newton.ModelBuilder.ShapeConfig(restitution=0.9, mu=0.2, gap=0.1)
    gaps, speeds = (0.004, 0.002, 0.0005, 0.001, 0.03), (3.0, -1.0, 0.5, 1.5, -2.0, 0.1)
    for k, speed in enumerate(speeds):
        x = 0.1 * k + sum(gaps[:k])
        body = builder.add_body(xform=wp.transform((x, 0.003 * (k % 2), 0.0), wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.05, cfg=config)
        builder.joint_qd[6 * k : 6 * k + 6] = [speed, 0.2 * k, 0.0, 0.0, 0.0, 3.0]
    model = builder.finalize()
    state, control, pipeline = model.state(), model.control(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    truth = assert_same_step(
        model, state, control, contacts, dt=2e-3, contact_model=contact_model, friction_bound="start"
    )
    pushed = [bool(c["gamma_W"].any()) for c in truth.gamma]
    assert any(pushed) and not all(pushed)


@pytest.mark.parametrize("gravities", ((0.0, -30.0), (-30.0, 0.0)))
def test_restitution_under_two_gravities_equals_the_reference(gravities):
    """What a world takes for rest is a matter of its own gravity: one of two equal balls bounces."""
    world = newton.ModelBuilder()
    config = newton.ModelBuilder.ShapeConfig(restitution=0.5)
    body = world.add_body(xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    world.add_shape_sphere(body, radius=0.1, cfg=config)
    builder = newton.ModelBuilder()
    builder.replicate(world, 2)
    builder.add_ground_plane(cfg=config)
    model = builder.finalize()
    model.gravity.assign([(0.0, 0.0, g) for g in (*gravities, 0.0)])
    state, control, pipeline = model.state(), model.control(), newton.CollisionPipeline(model)
    state.joint_qd.assign([0.0, 0.0, -0.04, 0.0, 0.0, 0.0] * 2)  # less than 30 m/s^2 give in two steps
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    truth = assert_same_step(model, state, control, contacts, dt=1e-3, friction_bound="start")
    v = truth.v.reshape(2, 6)[:, 5]
    assert [speed > 0.01 for speed in v] == [g == 0.0 for g in gravities]


@pytest.mark.parametrize("contact_model", ("sap", "lagged", pytest.param("similar", marks=pytest.mark.slow)))
def test_spin_friction_equals_the_reference(contact_model):
    """Torsional and rolling friction agree in every contact model, with bounds that do not hang on early iterates."""
    options = dict(contact_model=contact_model, spin_friction=True, friction_bound="start")
    acting = 0
    for seed, name in enumerate(("floating", "nested", "kinematic", "worlds")):
        model, *others = scene(name, seed, count=12)
        for mu, largest in ((model.shape_material_mu_torsional, 0.1), (model.shape_material_mu_rolling, 0.05)):
            mu.assign(np.linspace(0.0, largest, model.shape_count, dtype=np.float32))
        truth = assert_same_step(model, *others, **options)
        acting += sum(np.linalg.norm(spin["gamma_W"]) > 1e-3 for spin in truth.spins)
    assert acting > 3


@pytest.mark.parametrize("dt", (1e-4, 2e-3, 0.05))
def test_step_lengths_equal_the_reference(dt):
    """Agreement does not depend on the step length."""
    for name in ("nested", "worlds"):
        assert_same_step(*scene(name, 11), dt=dt)


@pytest.mark.parametrize("kind", rm.JOINT_KINDS)
def test_each_joint_type_equals_the_reference(kind):
    """One joint of each type at the root, with a hinged second body in contact."""
    model = rm.random_tree_model(
        3, 3, root_kinds=(kind,), inner_kinds=("revolute",), friction=True, velocity_limits=True
    )
    state, control = rm.random_state(model, 3), rm.random_control(model, 3)
    for preset in (None, "drake", "approx64"):
        assert_same_step(model, state, control, rm.random_contacts(model, state, 3, welded=False), preset=preset)


def test_witness_points_on_branches_of_one_tree():
    """Limbs of one floating tree that touch at two points each use the dofs of both whole paths."""
    branches = dict(root_kinds=("free",), inner_kinds=("revolute",), max_depth=4)
    for seed in range(6):
        model = rm.random_tree_model(seed, 8, **branches)
        state, control = rm.random_state(model, seed), rm.random_control(model, seed)
        assert_same_step(
            model,
            state,
            control,
            rm.random_contacts(model, state, seed, count=12, welded=False),
            contact_point="witness",
        )


def welded_pair():
    """Two bodies on one free body, one of them welded to it, and a contact between the welded ones."""
    builder = newton.ModelBuilder()
    links = [builder.add_link(mass=1.0, inertia=wp.mat33(*np.eye(3).flatten()), lock_inertia=True) for _ in range(3)]
    joints = [builder.add_joint_free(child=links[0])]
    joints += [builder.add_joint_fixed(parent=links[0], child=link) for link in links[1:]]
    builder.add_articulation(joints)
    for link in links:
        builder.add_shape_sphere(link, radius=0.1)
    model = builder.finalize()
    state, contacts = model.state(), newton.Contacts(2, 0)
    state.joint_qd.fill_(0.5)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    body_q = state.body_q.numpy().astype(float)
    rm.write_contacts(contacts, [rm.contact_row((1, 2), (1, 2), body_q, [0.1, 0.2, 0.3], [0.0, 0.0, 1.0], -0.1)])
    return model, state, model.control(), contacts


@pytest.mark.parametrize("preset", (None, "drake", "approx64"))
def test_contact_between_bodies_that_move_as_one(preset):
    """A contact that nothing can move changes nothing."""
    assert_same_step(*welded_pair(), preset=preset)


@pytest.mark.parametrize(
    "options", ({}, {"preset": "approx64"}, {"spin_friction": True, "friction_bound": "start"}), ids=str
)
@pytest.mark.parametrize("name", ("floating", "worlds", "kinematic"))
def test_contact_forces_equal_the_reference(name, options):
    """The contact_f observable is the force on shape 0's body and its torque about that body's COM."""
    model, state, control, contacts = scene(name, 5, count=8)
    model.shape_material_mu_rolling.fill_(0.1)
    options = TIGHT | options
    truth = ReferenceSolver(model, **options).step(state, control, contacts, DT)
    kind = SolverSAP.ObservableKind.CONTACT_F
    *_, observed = step(model, state, control, contacts, observables=kind, **options)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    body_q, com = state.body_q.numpy().astype(float), model.body_com.numpy().astype(float)
    expected = np.zeros(observed.contact_f.numpy().shape)
    for c in truth.gamma:
        body = c["bodies"][0]
        center = rm.transform_point(body_q[body], com[body]) if body >= 0 else np.zeros(3)
        force = -c["gamma_W"] / DT
        expected[c["index"]] = *force, *np.cross(c["points"][0] - center, force)
    for spin in truth.spins:
        expected[spin["index"], 3:] -= spin["gamma_W"] / DT
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(observed.contact_f.numpy(), expected, rtol=1e-5, atol=3e-6 * np.abs(expected).max())


def bits(solver, out):
    """Everything a step returns, for comparisons of bits."""
    return [solver.inspect().v, *(getattr(out, name).numpy() for name in ARRAYS)]


@pytest.mark.parametrize(
    "options", ({}, {"precision": "mixed"}, {"preset": "approx64"}, {"spin_friction": True}), ids=str
)
def test_order_of_contacts_does_not_matter(options):
    """Shuffled rows of Contacts give the same bits."""
    model, state, control, contacts = scene("worlds", 7, count=12, capacity=12)
    expected = bits(*step(model, state, control, contacts, **options)[:2])
    names = [n for n in vars(contacts) if n.startswith("rigid_contact_")]
    arrays = {n: getattr(contacts, n) for n in names}
    arrays = {n: a for n, a in arrays.items() if isinstance(a, wp.array) and len(a) == 12}
    assert {"rigid_contact_shape0", "rigid_contact_point1", "rigid_contact_normal"} <= set(arrays)
    before = {n: a.numpy().copy() for n, a in arrays.items()}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(12)
        for n, a in arrays.items():
            a.assign(before[n][order])
        for value, truth in zip(bits(*step(model, state, control, contacts, **options)[:2]), expected, strict=True):
            np.testing.assert_array_equal(value, truth)


def step_worlds(assembly, **options):
    """Step an assembly of worlds and return its results by world."""
    solver, out, _ = step(assembly.model, assembly.state, assembly.control, assembly.contacts, **options)
    return assembly.split(solver.inspect().v, out)


@pytest.mark.parametrize("options", ({}, {"precision": "mixed"}, {"preset": "drake"}), ids=str)
def test_worlds_do_not_see_each_other(options):
    """A world alone, among others and in another order gives the same bits."""
    seeds = [21, 22, 23, 24]
    together = step_worlds(rm.Assembly(seeds), **options)
    orders = [[23, 21, 24, 22], *([seed] for seed in seeds)]
    for order in orders:
        for seed, values in step_worlds(rm.Assembly(order), **options).items():
            for value, truth in zip(values, together[seed], strict=True):
                np.testing.assert_array_equal(value, truth)


def test_assembled_worlds_equal_the_reference():
    """Worlds of different size with different gravity agree with the reference."""
    assembly = rm.Assembly([34, 35, 36])
    assert_same_step(assembly.model, assembly.state, assembly.control, assembly.contacts)


@pytest.mark.parametrize("preset", (None, "drake"))
def test_several_steps_follow_the_reference(preset):
    """Ten steps in a row stay together, each starting from where the solver is; bounds do not hang on early iterates."""
    model, state, control, contacts = scene("worlds", 9)
    options = dict(preset=preset, friction_bound="start", **TIGHT)
    solver, truth = (kind(model, **options) for kind in (SolverSAP, ReferenceSolver))
    for k in range(10):
        contacts = rm.random_contacts(model, state, 100 + k, welded=False)
        expected = truth.step(state, control, contacts, DT)
        solver.step(state, state, control, contacts, DT)
        np.testing.assert_allclose(
            state.joint_qd.numpy(),
            expected.joint_qd,
            rtol=0.0,
            atol=4 * FLOAT32 * (1 + np.abs(expected.joint_qd).max()),
        )
