"""What MJCF files say through MuJoCo's own attributes: done as MuJoCo does it, or refused by name."""

import newton
import numpy as np
import pytest
import warp as wp
from mjcf import finish, placed, roll_out
from newton.solvers import SolverMuJoCo
from test_bad_input import assert_array_is_refused

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

TWO_ARMS = """<mujoco><worldbody>
  <body name="one" pos="0 0 1" {body}><joint name="a" type="hinge" axis="0 1 0" damping="0.5"/>
    <geom type="box" size=".02 .02 .3" pos="0 0 -.3" mass="1" contype="0" conaffinity="0"/></body>
  <body name="two" pos="1 0 1"><joint name="b" type="hinge" axis="0 1 0" damping="0.5"/>
    <geom type="box" size=".02 .02 .3" pos=".3 0 0" mass="1" contype="0" conaffinity="0"/></body>
</worldbody>{more}</mujoco>"""


def load(body="", more=""):
    """Two arms on hinges of the world; the second one's COM is beside its axis."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(TWO_ARMS.format(body=body, more=more))
    return builder.finalize()


def swing(model, steps, dt=0.005):
    """Step without contacts; return solver and state."""
    solver, state = SolverSAP(model), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    for _ in range(steps):
        solver.step(state, state, None, None, dt)
    return solver, state


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
def test_a_curved_joint_equality_keeps_its_curve():
    """The importer turns it into a mimic, which is a line; the row itself counts."""
    model = load(more='<equality><joint joint1="a" joint2="b" polycoef="0.1 0.5 0.7 0 0"/></equality>')
    solver, state = swing(model, 400)
    a, b = state.joint_q.numpy()
    assert a == pytest.approx(0.1 + 0.5 * b + 0.7 * b * b, abs=1e-3) and b > 0.3
    assert solver.report().healthy


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
def test_a_curved_joint_equality_foresees_its_curve():
    """At rates whose curve opens it by 1 mrad per step, it stays closed to a tenth of that."""
    model = load(more='<equality><joint joint1="a" joint2="b" polycoef="0.1 0.5 0.7 0 0"/></equality>')
    model.joint_q.assign([0.1, 0.0])
    model.joint_qd.assign([1.5, 3.0])
    for steps in (5, 10, 20):
        a, b = swing(model, steps, dt=0.01)[1].joint_q.numpy()
        assert abs(b) > 0.1
        assert a == pytest.approx(0.1 + 0.5 * b + 0.7 * b * b, abs=1e-4)


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
@pytest.mark.parametrize(
    ("name", "value", "owner"),
    [
        ("equality_constraint_polycoef", np.nan, "equality constraint 0"),
        ("equality_constraint_relpose", np.inf, "equality constraint 0"),
        ("equality_constraint_joint1", 7, "equality constraint 0"),
        ("equality_constraint_joint1", -1, "names none that follows"),
        ("equality_constraint_joint2", -2, "equality constraint 0"),
        ("equality_constraint_body2", 7, "equality constraint 0"),
        ("constraint_mimic_coef1", np.nan, "mimic constraint 0"),
        ("constraint_mimic_joint1", 7, "mimic constraint 0"),
        ("joint_mimic_coeffs", np.nan, "joint 0"),
        ("joint_mimic_joint", 7, "joint 0"),
    ],
)
def test_ties_of_nothing_or_by_no_number_are_refused(name, value, owner):
    """Equality rows and both kinds of mimics: by what they are called, at construction."""
    model = load(more='<equality><joint joint1="a" joint2="b" polycoef="0.1 0.5 0.7 0 0"/></equality>')
    array = getattr(model.mujoco if name.startswith("equality") else model, name)
    values = array.numpy()
    values[0] = value
    array.assign(values)
    with pytest.raises(ValueError, match=owner):
        SolverSAP(model)


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
@pytest.mark.parametrize("when", ["before construction", "at run time"])
@pytest.mark.parametrize("wrong", [None, wp.zeros(0, dtype=wp.float32), wp.zeros(1, dtype=wp.int8)], ids=str)
@pytest.mark.parametrize(
    "name", ["equality_constraint_enabled", "equality_constraint_polycoef", "constraint_mimic_coef0", "joint_enabled"]
)
def test_arrays_of_ties_of_another_kind_are_refused(name, wrong, when):
    """Kernels would read past their ends; a solver goes on with those it had."""
    model = load(more='<equality><joint joint1="a" joint2="b" polycoef="0.1 0.5 0.7 0 0"/></equality>')
    holder = model.mujoco if name.startswith("equality") else model
    assert_array_is_refused(model, holder, name, wrong, when)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_gravity_compensation(share):
    """``gravcomp`` takes its share off gravity: of the motion and of the potential energy."""
    model = load(body=f'gravcomp="{share}"')
    model.joint_q.assign([0.5, 0.0])
    solver, state = swing(model, 1, dt=1e-3)
    mass, distance, inertia = 1.0, 0.3, 0.3**2 + (0.02**2 + 0.3**2) / 3.0
    torque = -(1.0 - share) * mass * 9.81 * distance * np.sin(0.5)
    assert state.joint_qd.numpy()[0] == pytest.approx(1e-3 * torque / (inertia + 1e-3 * 0.5), abs=1e-6)
    other = swing(load(), 0)[0].report(load().state()).potential_energy
    compensated = solver.report(model.state()).potential_energy
    height = 1.0 - distance * np.cos(0.5)
    assert compensated - other == pytest.approx(9.81 * ((1.0 - share) * height - (1.0 - distance)), abs=1e-4)


PUCK = """<mujoco><option gravity="0 0 -9.81"/><worldbody>
  <geom name="floor" type="plane" size="5 5 1" friction="0.2" {floor}/>
  <body name="puck" pos="0 0 0.1"><freejoint/><geom type="box" size=".2 .2 .1" mass="1" friction="0.6" {puck}/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("rule", ["newton", "drake"])
@pytest.mark.parametrize(
    ("floor", "puck", "mu"),
    [
        ("", "", 0.4),
        ('condim="1"', 'condim="1"', 0.0),
        ('condim="1"', "", 0.4),
        ('condim="4"', 'condim="1"', 0.4),
        ('priority="1"', "", 0.2),
        ('priority="2"', 'priority="3"', 0.6),
        ('condim="1" priority="1"', "", 0.0),
        ('condim="1"', 'priority="1"', 0.6),
        ('priority="1"', 'condim="1"', 0.2),
    ],
)
def test_condim_and_priority_choose_the_friction(floor, puck, mu, rule):
    """A thrown puck slows down by ``mu g``, under Newton's rule; Drake's rule is that of the coefficients alone."""
    builder = newton.ModelBuilder()
    builder.add_mjcf(PUCK.format(floor=floor, puck=puck))
    model = builder.finalize()
    model.joint_qd.assign([2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    solver, state, dt, speeds = SolverSAP(model, material_rule=rule), placed(model), 0.004, []
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    for _ in range(50):
        pipeline.collide(state, contacts)
        truth = ReferenceSolver(model, material_rule=rule).step(state, None, contacts, dt)
        solver.step(state, state, None, contacts, dt)
        speeds.append(state.joint_qd.numpy()[0])
        assert speeds[-1] == pytest.approx(truth.joint_qd[0], abs=1e-4)
    slowed = (speeds[9] - speeds[-1]) / (40 * dt * 9.81)
    assert slowed == pytest.approx(mu if rule == "newton" else 2 * 0.2 * 0.6 / 0.8, abs=2e-3)
    assert solver.report().healthy


@pytest.mark.parametrize("law", ["lagged", "similar", "sap"])
def test_solref_is_no_stiffness(law):
    """Crates of a file's ``solref`` lie as on shapes without a material, at any mass; with a stiffness of its own one sinks."""
    crate = '<body pos="{x} 0 0.1"><freejoint/><geom type="box" size=".1 .1 .1" mass="{m}" {solref}/></body>'
    soft = 'solref="0.015 1"'
    crates = [(0, 40, soft), (1, 1, soft), (2, 40, 'solref="-4000 -100"'), (3, 40, ""), (4, 40, soft)]
    bodies = "".join(crate.format(x=x, m=m, solref=solref) for x, m, solref in crates)
    builder = newton.ModelBuilder()
    builder.add_mjcf(
        f'<mujoco><worldbody><geom type="plane" size="9 9 1" solref="0.02 1"/>{bodies}</worldbody></mujoco>'
    )
    model, stiffness = builder.finalize(), 3.0e4
    ke = model.shape_material_ke.numpy()
    np.testing.assert_allclose(ke, [4444.4, 4444.4, 4000, 2500, 4444.4, 2500], rtol=1e-4)
    ke[4] = 2.0 * stiffness - 2500  # a pair has the mean
    model.shape_material_ke.assign(ke)
    solver, state, pipeline = SolverSAP(model, contact_model=law), placed(model), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    for i in range(400):
        pipeline.collide(state, contacts)
        if i == 1:
            truth = ReferenceSolver(model, contact_model=law).step(state, None, contacts, 0.005)
        solver.step(state, state, None, contacts, 0.005)
        if i == 1:
            np.testing.assert_allclose(state.joint_qd.numpy(), truth.joint_qd, atol=1e-4)
    depth = 0.1 - state.body_q.numpy()[:, 2]
    np.testing.assert_allclose(depth[:3], depth[3], atol=2e-6)
    assert 0.0 < depth[3] < 2e-5
    assert depth[4] == pytest.approx(40 * 9.81 / (4 * stiffness), rel=0.02)


TIES = {
    "weld": '<weld body1="cup" body2="load" active="{}"/>',
    "connect": '<connect body1="cup" body2="load" anchor="0 0 -.1" active="{}"/>',
    "joint": '<joint joint1="drop" joint2="slide" active="{}"/>',
}


def tied(kind, active):
    """A load that falls along a vertical rail, and what may hold it; nothing drives the cup."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(f"""<mujoco><default><geom contype="0" conaffinity="0"/></default><worldbody>
      <body name="cup" pos="0 0 1"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/></body>
      <body name="load" pos="0 0 .9"><joint name="drop" type="slide" axis="0 0 1"/><geom size=".05" mass=".2"/></body>
    </worldbody><equality>{TIES[kind].format(active)}</equality></mujoco>""")
    return builder.finalize()


def falls(solver):
    """Whether the load falls freely from its initial place."""
    state = placed(solver.model)
    for _ in range(40):
        solver.step(state, state, None, None, 0.005)
    return state.joint_q.numpy()[1] < -0.15


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("kind", TIES)
def test_an_equality_that_became_a_joint_keeps_its_switch(kind, active):
    """A suction cup lets go, or takes hold, by ``equality_constraint_enabled``; by what it became as well."""
    model = tied(kind, str(active).lower())
    row = model.mujoco.equality_constraint_enabled
    own = model.constraint_mimic_enabled if kind == "joint" else model.joint_enabled
    turned = own.numpy().copy()
    turned[-1] = not active
    solver = SolverSAP(model)
    assert falls(solver) != active
    for turn, holds in (
        (lambda: row.fill_(not active), not active),
        (lambda: row.fill_(active), active),
        (lambda: own.assign(turned), not active),
    ):
        turn()
        solver.notify_model_changed(newton.ModelFlags.CONSTRAINT_PROPERTIES)
        assert falls(solver) != holds


def test_an_equality_that_became_a_mimic_keeps_its_polynomial():
    """What is written to ``equality_constraint_polycoef`` counts from then on, bends included; before, the mimic's own."""
    model = load(more='<equality><joint joint1="a" joint2="b" polycoef="0 0.5 0 0 0"/></equality>')
    rows, mimics = model.mujoco.equality_constraint_polycoef, model.constraint_mimic_coef1
    solver = SolverSAP(model)
    for change, slope, bend in (
        (lambda: None, 0.5, 0.0),
        (lambda: mimics.fill_(0.3), 0.3, 0.0),
        (lambda: rows.assign(np.array([[0.0, -0.4, 0.2, 0.0, 0.0]], dtype=np.float32)), -0.4, 0.2),
    ):
        change()
        solver.notify_model_changed(newton.ModelFlags.CONSTRAINT_PROPERTIES)
        state = placed(model)
        for _ in range(400):
            solver.step(state, state, None, None, 0.005)
        a, b = state.joint_q.numpy()
        assert a == pytest.approx(slope * b + bend * b * b, abs=1e-3) and abs(b) > 0.3


@pytest.mark.parametrize("kind", ["connect", "joint"])
def test_an_equality_switched_off_before_the_solver_is_built_does_not_act(kind):
    """As under SolverMuJoCo, whatever the importer made of it; a solver built again does not switch it on again."""
    model = finish(
        """<mujoco><worldbody>
      <body name="a" pos="0 0 1"><freejoint/><geom type="sphere" size=".05" mass="1"/></body>
      <body name="b" pos=".3 0 1"><joint axis="0 1 0" pos="-.1 0 0"/><geom type="sphere" size=".05" mass="1"/></body>
      <body pos="0 1 1"><joint name="m1" axis="0 1 0"/><geom type="sphere" pos=".2 0 0" size=".05" mass="1"/></body>
      <body pos="0 2 1"><joint name="m2" axis="0 1 0"/><geom type="sphere" pos=".2 0 0" size=".05" mass="2"/></body>
      </worldbody><equality><connect body1="a" body2="b" anchor=".1 0 0"/>
      <joint joint1="m1" joint2="m2" polycoef="0 -1 0 0 0"/></equality></mujoco>""",
        gravity=-9.81,
    )
    switch = model.mujoco.equality_constraint_enabled
    on = switch.numpy()
    on[0 if kind == "connect" else 1] = False
    switch.assign(on)
    state = roll_out(SolverSAP, model, 50, 1e-3)
    free_fall = -9.81 * 0.05
    if kind == "connect":
        assert state.joint_qd.numpy()[2] == pytest.approx(free_fall, rel=1e-4)
    else:
        falls = state.joint_qd.numpy()[7:9]
        assert falls[0] == pytest.approx(falls[1], rel=0.02) and abs(falls[0]) > 1.0
