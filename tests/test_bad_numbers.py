"""Numbers that go bad while a simulation runs: they are counted, and stay in their world."""

import math

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP


@pytest.mark.parametrize(
    "name",
    [
        "friction",
        "effort_limit",
        "velocity_limit",
        "limit_lower",
        "target_ke",
        "target_kd",
        "armature",
        "damping",
        "stiffness",
        "target_q",
        "target_qd",
    ],
)
@pytest.mark.parametrize("integration", ["implicit", "explicit"])
def test_live_joint_parameters_that_are_no_numbers_are_counted(name, integration):
    """Whichever becomes one after construction; bounds among them, which a clamp would pass over."""
    model = driven_hinge()
    solver, state = SolverSAP(model, drive_integration=integration, spring_integration=integration), model.state()
    state.joint_qd.fill_(1.0)
    getattr(model, f"joint_{name}").fill_(math.nan)
    solver.step(state, state, None, None, 0.01)
    assert solver.report().non_finite_steps.tolist() == [1]


def driven_hinge(closes_loop=False):
    """A body on a hinge with a drive, limits and friction, in a tree or as a loop joint."""
    builder = newton.ModelBuilder()
    base, link = (builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1))) for _ in range(2))
    fixed = builder.add_joint_fixed(-1, base)
    if closes_loop:
        builder.add_articulation([fixed])
        builder.add_articulation([builder.add_joint_free(link)])
    drive = {"target_ke": 10.0, "target_kd": 1.0, "actuator_mode": newton.JointTargetMode.POSITION_VELOCITY}
    joint = builder.add_joint_revolute(base, link, axis=(0, 1, 0), friction=0.1, effort_limit=5.0, **drive)
    if not closes_loop:
        builder.add_articulation([fixed, joint])
    return builder.finalize()


@pytest.mark.parametrize("closes_loop", [False, True], ids=["tree", "loop"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("armature", -1.0),
        ("damping", -1.0),
        ("stiffness", -20.0),
        ("friction", -0.1),
        ("effort_limit", -5.0),
        ("velocity_limit", -1.0),
        ("limit_ke", -1.0),
        ("limit_kd", -1.0),
        ("limit_lower", 5.0),
        ("target_ke", -10.0),
        ("target_kd", -1.0),
    ],
)
def test_live_joint_parameters_that_make_no_sense_are_counted(name, value, closes_loop):
    """What construction refuses: it would feed energy, leave no room, or not act any longer."""
    model = driven_hinge(closes_loop)
    model.joint_limit_upper.fill_(1.0)
    solver, state = SolverSAP(model), model.state()
    solver.step(state, state, None, None, 0.01)
    assert solver.report().non_finite_steps.tolist() == [0]
    values = getattr(model, f"joint_{name}").numpy()
    values[-1] = value
    getattr(model, f"joint_{name}").assign(values)
    solver.step(state, state, None, None, 0.01)
    assert solver.report().non_finite_steps.tolist() == [1]


MATERIALS = {
    "sap": ["mu", "ke", "kd", "restitution"],
    "lagged": ["mu", "ke", "restitution", "mu_torsional", "mu_rolling"],
    "similar": ["mu", "ke", "restitution", "mu_torsional", "mu_rolling"],
}
"""What each law reads of a shape, spin friction included where it is on."""


WRONG = [(law, name, value) for law, names in MATERIALS.items() for name in names for value in (math.nan, -3.0)]


@pytest.mark.parametrize("rule", ["newton", "drake"])
@pytest.mark.parametrize(("law", "name", "value"), [*WRONG, *((law, "restitution", 1.5) for law in MATERIALS)])
def test_live_materials_that_make_no_sense_are_counted(law, name, value, rule):
    """Set after construction: a contact may not vanish, feed energy, nor be as stiff as a comparison makes it."""
    builder = newton.ModelBuilder()
    pose = wp.transform(wp.vec3(0.0, 0.0, 0.0999), wp.quat_identity())
    material = newton.ModelBuilder.ShapeConfig(ke=1e4, kd=100.0, mu_torsional=0.01, mu_rolling=0.001, restitution=0.1)
    builder.add_shape_box(builder.add_body(xform=pose), hx=0.1, hy=0.1, hz=0.1, cfg=material)
    builder.add_ground_plane(cfg=material)
    model = builder.finalize()
    solver = SolverSAP(model, contact_model=law, spin_friction=law != "sap", material_rule=rule)
    state = model.state()
    fall = -3.0 if name == "restitution" else 0.0  # an impact reads nothing else
    state.joint_qd.assign([0.5, 0.0, fall, 0.0, 0.0, 1.0])
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    solver.step(state, model.state(), None, contacts, 0.01)
    assert solver.report().non_finite_steps.tolist() == [0]
    values = getattr(model, f"shape_material_{name}").numpy()
    values[0] = value  # of one of the two shapes
    getattr(model, f"shape_material_{name}").assign(values)
    solver.step(state, state, None, contacts, 0.01)
    assert solver.report().non_finite_steps.tolist() == [1]


def three_worlds():
    """Three worlds of a ball on the ground and a ball in flight."""
    world = newton.ModelBuilder()
    for name, height in (("resting", 0.09), ("flying", 3.0)):
        pose = wp.transform(wp.vec3(0.0, 0.0, height), wp.quat_identity())
        inertia = wp.diag(wp.vec3(0.01))
        body = world.add_body(xform=pose, mass=1.0, inertia=inertia, lock_inertia=True, label=name)
        world.add_shape_sphere(body, radius=0.1)
    builder = newton.ModelBuilder()
    builder.replicate(world, 3)
    builder.add_ground_plane()
    return builder.finalize()


def run_worlds(poisoned=None):
    """Step three worlds, one velocity of one of them poisoned; return velocities per world and the report."""
    model = three_worlds()
    solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
    contacts = pipeline.contacts()
    if poisoned is not None:
        velocity = state.joint_qd.numpy().reshape(3, 2, 6)
        velocity[(*poisoned, 2)] = math.nan
        state.joint_qd.assign(velocity.ravel())
    for _ in range(5):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.01)
    return state.joint_qd.numpy().reshape(3, 12), solver.report()


@pytest.mark.parametrize("body", [0, 1], ids=["touching", "in flight"])
def test_nan_stays_in_its_world(body):
    """NaN in one world is counted there, and the other worlds keep their bits."""
    clean, _ = run_worlds()
    velocity, report = run_worlds((1, body))
    np.testing.assert_array_equal(velocity[[0, 2]], clean[[0, 2]])
    by_world = dict(zip(report.world.tolist(), report.non_finite_steps.tolist(), strict=True))
    assert by_world[1] > 0 and by_world[0] == by_world[2] == 0
