"""Loads that couplings hang on light links: nothing opens, no energy comes or goes, and steps are the reference's (F 1.1)."""

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish
from rig import link, tight
from test_gradients import Recorded, compare

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

LENGTH, MASS = 0.05, 0.0044
TIES = ("ball", "universal", "loops")
UP = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), float(np.pi - 0.6))
"""The z axis of what hangs, askew."""
Axis = newton.ModelBuilder.JointDofConfig


def tied(builder, tie, parent, child, **ends):
    """A joint between two links."""
    if tie == "universal":
        x, y = (Axis(axis=axis, limit_ke=0.0) for axis in (newton.Axis.X, newton.Axis.Y))
        return builder.add_joint_d6(parent, child, angular_axes=[x, y], **ends)
    if tie == "string":
        return builder.add_joint_distance(parent, child, min_distance=-1.0, max_distance=0.05, **ends)
    return builder.add_joint_ball(parent, child, **ends)


def hung(tie, links, load, requires_grad=False, worlds=1):
    """A chain of links of 4.4 g that hangs askew from the world, and by ``tie`` at its end a load; ``loops``: free bodies."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    along = np.array(wp.quat_rotate(UP, wp.vec3(0.0, 0.0, 1.0)))
    across = MASS * LENGTH**2 / 12.0
    place = [wp.transform(wp.vec3(*((i + 0.5) * LENGTH * along)), UP) for i in range(links)]
    chain = [link(builder, MASS, (across, across, 5.5e-8), xform=place[i]) for i in range(links)]
    last = links * LENGTH + 0.05 + (0.05 if tie == "string" else 0.0)
    weight = link(builder, load, 1.0e-3 * load, xform=wp.transform(wp.vec3(*(last * along)), UP))
    ends = [
        {
            "parent_xform": wp.transform(q=UP) if i == 0 else wp.transform((0.0, 0.0, 0.5 * LENGTH)),
            "child_xform": wp.transform((0.0, 0.0, -0.5 * LENGTH)),
        }
        for i in range(links)
    ]
    if tie == "loops":
        for child in chain:
            builder.add_articulation([builder.add_joint_free(child)])
    else:
        builder.add_articulation([builder.add_joint_ball(i - 1, child, **ends[i]) for i, child in enumerate(chain)])
    builder.add_articulation([builder.add_joint_free(weight)])
    if tie == "loops":
        for i, child in enumerate(chain):
            builder.add_joint_ball(i - 1, child, **ends[i])
    hook = {"parent_xform": wp.transform((0.0, 0.0, 0.5 * LENGTH)), "child_xform": wp.transform((0.0, 0.0, -0.05))}
    tied(builder, tie, chain[-1], weight, **hook)
    if worlds > 1:
        one, builder = builder, newton.ModelBuilder()
        builder.replicate(one, worlds)
    return builder.finalize(requires_grad=requires_grad, skip_validation_joints=True)


def energy(solver, state):
    report = solver.report(state)
    return float(np.sum(report.kinetic_energy) + np.sum(report.potential_energy))


pytestmark = pytest.mark.filterwarnings("ignore:.*another joint already connects")


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize(("links", "load"), [(20, 1.0), (2, 5.0), (20, 10.0)])
@pytest.mark.parametrize("tie", TIES)
def test_a_load_swings_on_a_light_chain(tie, links, load, dt):
    """The links alone would swing by up to 80 radians per step. Without what damps them the load fell off, by metres at 60 Hz."""
    model = hung(tie, links, load)
    solver, state = SolverSAP(model), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    energies, gaps, fastest = [energy(solver, state)], [], 0.0
    for i in range(round(1.5 / dt)):
        solver.step(state, state, None, None, dt)
        if i % 5 == 0:
            energies.append(energy(solver, state))
            gaps.append(float(solver.report(state).loop_gap[0]))
            fastest = max(fastest, float(np.linalg.norm(state.body_qd.numpy()[-1, :3])))
    fall = load * 9.81 * (links * LENGTH + 0.05) * (1.0 - np.cos(0.6))
    gained = np.array(energies) - energies[0]
    if tie == "loops":  # what holds so light bodies gives, and takes energy out
        assert gained.max() < 0.01 * fall and gained.min() > -0.7 * fall
        assert max(gaps) < 4.0e-3
    else:
        assert np.abs(gained).max() < 0.08 * fall
        assert max(gaps) < 5.0e-4
    assert fastest == pytest.approx(np.sqrt(2.0 * fall / load), rel=0.2 if tie == "loops" else 0.05)


@pytest.mark.parametrize("links", [1, 2, 20])
def test_a_load_on_a_string_stays_on_it(links):
    """A distance joint gives way slowly where its link turns by what it closes, but loses nothing."""
    model = hung("string", links, 1.0)
    solver, state = SolverSAP(model), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    before = energy(solver, state)
    for _ in range(480):
        solver.step(state, state, None, None, 1.0 / 240.0)
    assert energy(solver, state) == pytest.approx(before, abs=0.05)
    assert solver.report(state).loop_gap[0] < 2.0e-3


def test_an_imported_connect_holds_a_load():
    """MuJoCo's connect, which importers make a loop joint of, at the end of a cable."""
    links = "".join(
        f"<body name='b{i}' pos='0 0 {-0.05 if i else 0}'><joint type='ball'/>"
        "<geom type='capsule' fromto='0 0 0 0 0 -.05' size='.005' mass='.0044' contype='0' conaffinity='0'/>"
        for i in range(20)
    )
    model = finish(
        f"<mujoco><worldbody>{links}{'</body>' * 20}<body name='load' pos='0 0 -1.05'><freejoint/>"
        "<geom type='sphere' size='.05' mass='1' contype='0' conaffinity='0'/></body></worldbody>"
        "<equality><connect body1='b19' body2='load' anchor='0 0 -.05'/></equality></mujoco>",
        gravity=-9.81,
    )
    solver, state = SolverSAP(model), model.state()
    state.joint_qd.assign([0.0] * 60 + [1.0] + [0.0] * 5)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    heights = []
    for _ in range(480):
        solver.step(state, state, None, None, 1.0 / 240.0)
        heights.append(state.body_q.numpy()[-1, 2])
    assert min(heights) > -1.0502
    assert max(heights) == pytest.approx(-1.05 + 0.5 / 9.81, abs=6.0e-3)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 240.0])
@pytest.mark.parametrize(("links", "load"), [(1, 5.0), (3, 1.0), (4, 20.0)])
@pytest.mark.parametrize("tie", TIES)
def test_steps_equal_the_reference(tie, links, load, dt):
    """The reference finds what hangs where by cutting each loop joint in turn."""
    model = hung(tie, links, load)
    state, after = model.state(), model.state()
    state.joint_qd.assign(0.3 * np.random.default_rng(links).normal(size=model.joint_dof_count))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    options = tight()
    solver = SolverSAP(model, **options)
    expected = ReferenceSolver(model, **options).step(state, None, None, dt)
    solver.step(state, after, None, None, dt)
    assert np.abs(solver.couplings.pull.numpy()).max() > 0.9 * load * 9.81
    np.testing.assert_allclose(after.joint_qd.numpy(), expected.joint_qd, atol=2.0e-5 * np.abs(expected.joint_qd).max())


def test_shares_of_what_hangs():
    """Two chains carry half of a load each; what hangs on a free body hangs on what that hangs on; the mass is read live."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -10.0))
    chains = [link(builder, 0.1, 1.0e-4) for _ in range(2)]
    for i, child in enumerate(chains):
        builder.add_articulation([builder.add_joint_ball(-1, child, parent_xform=wp.transform((float(i), 0.0, 0.0)))])
    beam, below, kept = (link(builder, mass, 0.1) for mass in (4.0, 2.0, 7.0))
    for body in (beam, below, kept):
        builder.add_articulation([builder.add_joint_free(body)])
    for i, child in enumerate(chains):
        builder.add_joint_ball(child, beam, child_xform=wp.transform((float(i), 0.0, 0.0)))
    builder.add_joint_ball(beam, below)
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    solver.step(state, state, None, None, 1.0e-3)
    carried = [pull for pull in solver.couplings.pull.numpy()[:, 2] if pull]
    np.testing.assert_allclose(carried, [-30.0, -30.0, -20.0])
    np.testing.assert_allclose(solver.tree.hung_pull.numpy()[:2, 2], [-30.0, -30.0])
    mass = model.body_mass.numpy()
    mass[below] = 12.0
    model.body_mass.assign(mass)
    solver.step(state, state, None, None, 1.0e-3)
    np.testing.assert_allclose(solver.tree.hung_pull.numpy()[:2, 2], [-80.0, -80.0])


def free_chain(beside=None, links=4, light=0.01, heavy=5.0):
    """Free bodies along x that ball joints tie to the world and each other, the last one heavy, and something beside these joints."""
    builder = newton.ModelBuilder()
    masses = [light] * links + [heavy]
    bodies = []
    for i, mass in enumerate(masses):
        bodies.append(
            link(builder, mass, mass * np.array([0.02, 0.03, 0.04]), xform=wp.transform((0.4 * i + 0.2, 0.0, 3.0)))
        )
        builder.add_articulation([builder.add_joint_free(bodies[-1])])
    for parent, child in zip([-1, *bodies], bodies, strict=False):
        ends = [wp.transform((0.0, 0.0, 3.0) if parent < 0 else (0.2, 0.0, 0.0)), wp.transform((-0.2, 0.0, 0.0))]
        if beside == "two":
            for y in (-0.1, 0.1):
                shift = wp.transform((0.0, y, 0.0))
                builder.add_joint_ball(parent, child, parent_xform=shift * ends[0], child_xform=shift * ends[1])
            continue
        builder.add_joint_ball(parent, child, parent_xform=ends[0], child_xform=ends[1])
        if beside == "off":
            builder.add_joint_fixed(parent, child, parent_xform=ends[0], child_xform=ends[1], enabled=False)
    for _ in range(3):
        if beside == "slack":
            builder.add_joint_distance(-1, bodies[-1], min_distance=-1.0, max_distance=50.0)
        elif beside == "turned off":
            builder.add_joint_fixed(-1, bodies[-1])
        elif beside == "ring":
            builder.add_joint_fixed(bodies[0], bodies[-1], enabled=False)
    return builder.finalize(skip_validation_joints=True)


def swung(model, solver):
    """The end and the largest gap of a chain after one second at 60 Hz."""
    state = model.state()
    for _ in range(60):
        solver.step(state, state, None, None, 1.0 / 60.0)
    report = solver.report(state)
    assert report.healthy
    return state.body_q.numpy()[-1, :3], report.loop_gap.max()


@pytest.mark.parametrize(
    ("beside", "off"), [("off", 0.0), ("slack", 0.0), ("turned off", 0.0), ("ring", 0.0), ("two", 0.01)]
)
def test_what_holds_nothing_carries_nothing(beside, off):
    """Joints that are off and slack ropes leave the whole load to the chain, and hinges of two ball joints share it: it lost it, by a metre."""
    model = free_chain(beside)
    solver = SolverSAP(model)
    if beside == "turned off":
        enabled = model.joint_enabled.numpy()
        enabled[-3:] = False
        model.joint_enabled.assign(enabled)
        solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
    plain = free_chain()
    expected, gap = swung(plain, SolverSAP(plain))
    end, wide = swung(model, solver)
    np.testing.assert_allclose(end, expected, atol=max(off, 1.0e-6))
    assert wide < 1.5e-3 and gap < 1.5e-3


def test_a_chain_hangs_on_what_becomes_kinematic():
    """A body of a chain in free fall that is made kinematic and told of carries what hangs on it, as if built so."""
    ends = []
    for told in (True, False):
        model = free_chain()
        enabled, flags = model.joint_enabled.numpy(), model.body_flags.numpy()
        enabled[model.body_count] = False  # the one to the world
        model.joint_enabled.assign(enabled)
        solver = SolverSAP(model) if told else None
        flags[0] = int(newton.BodyFlags.KINEMATIC)
        model.body_flags.assign(flags)
        if told:
            solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
        ends.append(swung(model, solver or SolverSAP(model)))
    np.testing.assert_array_equal(ends[0][0], ends[1][0])
    assert ends[0][1] < 1.5e-3


@pytest.mark.parametrize("beside", ["two", "off"])
def test_shares_equal_those_of_the_reference(beside):
    """A step at random rates."""
    model = free_chain(beside)
    state, after = model.state(), model.state()
    state.joint_qd.assign(0.3 * np.random.default_rng(1).normal(size=model.joint_dof_count))
    newton.eval_fk(model, model.joint_q, state.joint_qd, state)
    expected = ReferenceSolver(model, **tight()).step(state, None, None, 1.0 / 60.0)
    SolverSAP(model, **tight()).step(state, after, None, None, 1.0 / 60.0)
    np.testing.assert_allclose(after.joint_qd.numpy(), expected.joint_qd, atol=2.0e-5 * np.abs(expected.joint_qd).max())


def test_rings_share_as_equal_resistors_do():
    """Of a ring of four bodies of which the first hangs, the opposite one's weight comes half by either side, its neighbours' by 3 : 1."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -10.0))
    bodies = [link(builder, mass, 0.1) for mass in (1.0, 2.0, 4.0, 8.0)]
    builder.add_articulation([builder.add_joint_free(bodies[0])])
    for body in bodies[1:]:
        builder.add_articulation([builder.add_joint_free(body)])
    builder.add_joint_ball(-1, bodies[0])
    for first, second in zip(bodies, [*bodies[1:], bodies[0]], strict=True):
        builder.add_joint_ball(first, second)
    model = builder.finalize(skip_validation_joints=True)
    solver, state = SolverSAP(model), model.state()
    solver.step(state, state, None, None, 1.0e-3)
    carried = solver.couplings.pull.numpy()[:, 2]
    carried = carried[np.abs(carried) > 0.0]
    ring = [-10.0 * (0.75 * 2.0 + 0.5 * 4.0 + 0.25 * 8.0)]
    ring += [ring[0] + 20.0, ring[0] + 60.0, ring[0] + 140.0]
    np.testing.assert_allclose(carried, [-150.0, *ring], rtol=1.0e-6)


def test_a_link_that_the_world_holds_at_its_end_carries_what_floats():
    """A chain whose root is the load, tied to the world by its leaf: the whole weight goes through the coupling, upwards."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -10.0))
    load, leaf = link(builder, 3.0, 0.1), link(builder, 0.5, 1.0e-3)
    builder.add_articulation([builder.add_joint_free(load), builder.add_joint_ball(load, leaf)])
    builder.add_joint_ball(-1, leaf)
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    solver.step(state, state, None, None, 1.0e-3)
    assert solver.couplings.pull.numpy()[:, 2].min() == pytest.approx(-35.0)
    np.testing.assert_allclose(solver.tree.hung_pull.numpy()[:, 2], [35.0, 35.0])


def test_without_loads_nothing_is_weighed():
    """An arm whose hand is tied to its own base carries itself."""
    builder = newton.ModelBuilder()
    arm = [link(builder), link(builder)]
    builder.add_articulation([builder.add_joint_revolute(-1, arm[0]), builder.add_joint_revolute(arm[0], arm[1])])
    builder.add_joint_ball(arm[0], arm[1])
    solver = SolverSAP(builder.finalize())
    assert solver.tree.hung_links == 0 and not solver.hung_loads.kernels


def test_worlds_hang_alike():
    """Of many worlds each carries its own load, with the bits of one alone."""
    alone, many = hung("ball", 3, 5.0), hung("ball", 3, 5.0, worlds=3)
    results = []
    for model in (alone, many):
        solver, state = SolverSAP(model), model.state()
        newton.eval_fk(model, model.joint_q, model.joint_qd, state)
        for _ in range(30):
            solver.step(state, state, None, None, 1.0 / 60.0)
        results.append(state.body_q.numpy())
    for world in range(3):
        np.testing.assert_array_equal(results[1][4 * world : 4 * world + 4], results[0])


@pytest.mark.usefixtures("adjoints")
@pytest.mark.parametrize("tie", ["ball", pytest.param("universal", marks=pytest.mark.slow), "string"])
def test_gradients_against_differences(tie):
    """What damps goes with poses and velocities."""
    models = [hung(tie, 2, 0.5, requires_grad=grad) for grad in (True, False)]
    random = np.random.default_rng(5)
    v = 0.5 * random.normal(size=models[0].joint_dof_count)
    step = Recorded(None, q=models[0].joint_q.numpy(), v=v, dt=1.0 / 60.0, models=models)
    assert np.abs(step.plain.solver.couplings.pull.numpy()).max() > 4.0
    assert compare(step, ("joint_q", "joint_qd", "body_f"), 5.0e-3, size=1.0e-4) >= 2
