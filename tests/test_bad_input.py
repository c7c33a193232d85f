"""What the solver refuses: the exception, the thing it names, and the remedy it offers."""

import copy
import math
import pickle
import subprocess
import sys
import warnings

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SapState, SolverSAP

REMEDY = r"\b(use|give|set|add|attach|remove|replace|enable|pass|build|make|choose|must be|accepted|call|allocate|flag|expected|create|correct|clear)\b"


def hinge(builder=None, label="elbow", **link):
    """A builder with one hinged body named ``forearm``."""
    builder = builder or newton.ModelBuilder()
    link = {"mass": 1.0, "inertia": wp.diag(wp.vec3(0.1)), "lock_inertia": True, "label": "forearm", **link}
    body = builder.add_link(**link)
    builder.add_articulation([builder.add_joint_revolute(-1, body, axis=newton.Axis.Y, label=label)], label="arm")
    return builder


def finalize(builder):
    """Finalize, past Newton's own complaints: the solver must not rely on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.finalize(skip_all_validations=True)


def body_value(name, value, row=0):
    """The hinge with one entry of a body array overwritten after construction."""
    model = finalize(hinge())
    array = getattr(model, name)
    values = array.numpy()
    values[row] = value
    array.assign(values)
    return model


# Models that cannot be simulated, each with the words its message must contain


def massless_root():
    """A joint between two bodies without mass, neither of which is tied to the world."""
    builder = hinge()
    bodies = [builder.add_link(label=label) for label in ("stray", "tail")]
    builder.add_articulation([builder.add_joint_revolute(*bodies, axis=newton.Axis.Y)])
    return finalize(builder)


def massless_body():
    return finalize(hinge(mass=0.0, inertia=wp.mat33(), label="elbow"))


def free_body(inertia):
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=inertia, lock_inertia=True, label="stone")
    return finalize(builder)


def indefinite_inertia():
    return free_body(wp.mat33(0.1, 0.5, 0.0, 0.5, 0.1, 0.0, 0.0, 0.0, 0.1))


def kinematic_in_the_middle():
    builder = newton.ModelBuilder()
    bodies = [builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), label=label) for label in ("arm", "hand")]
    joints = [builder.add_joint_revolute(p, c, axis=newton.Axis.Y) for p, c in ((-1, bodies[0]), bodies)]
    builder.add_articulation(joints)
    model = finalize(builder)
    flags = model.body_flags.numpy()
    flags[bodies[1]] = int(newton.BodyFlags.KINEMATIC)
    model.body_flags.assign(flags)
    return model


def seven_axes():
    """A D6 joint with an axis too many."""
    builder = newton.ModelBuilder()
    body = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    axes = [newton.ModelBuilder.JointDofConfig(axis=axis, armature=1.0) for axis in np.eye(3)[[0, 1, 2, 2]].tolist()]
    joint = builder.add_joint_d6(-1, body, linear_axes=axes, angular_axes=axes[:3], label="shoulder")
    builder.add_articulation([joint])
    return finalize(builder)


def gantry_without_a_number():
    """A joint of two axes, the second with an armature that is no number."""
    builder = newton.ModelBuilder()
    body = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    axes = [newton.ModelBuilder.JointDofConfig(axis=axis) for axis in ("X", "Y")]
    builder.add_articulation([builder.add_joint_d6(-1, body, linear_axes=axes, label="gantry")])
    model = finalize(builder)
    model.joint_armature.assign(np.array([0.0, math.nan], np.float32))
    return model


def loose_body_with_gradients():
    """A body that no joint moves."""
    builder = hinge()
    builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True, label="stray")
    return builder.finalize(requires_grad=True, skip_all_validations=True)


def bouncer_with_gradients():
    """An elastic ball."""
    builder = newton.ModelBuilder()
    body = builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    builder.add_shape_sphere(body, cfg=newton.ModelBuilder.ShapeConfig(restitution=0.5), label="rubber")
    return builder.finalize(requires_grad=True)


BAD_MODELS = {
    "massless body without joint": (massless_root, ValueError, ["stray", "without a joint", "mass"]),
    "zero mass": (massless_body, ValueError, ["forearm", "mass"]),
    "negative mass": (lambda: body_value("body_mass", -2.0), ValueError, ["forearm", "mass", "-2"]),
    "NaN mass": (lambda: body_value("body_mass", math.nan), ValueError, ["forearm", "mass", "nan"]),
    "infinite mass": (lambda: body_value("body_mass", math.inf), ValueError, ["forearm", "mass", "inf"]),
    "NaN inertia": (lambda: body_value("body_inertia", np.full((3, 3), math.nan)), ValueError, ["forearm", "inertia"]),
    "negative inertia": (lambda: body_value("body_inertia", -np.eye(3)), ValueError, ["forearm", "inertia"]),
    "indefinite inertia": (indefinite_inertia, ValueError, ["stone", "inertia"]),
    "free point mass": (lambda: free_body(wp.mat33()), ValueError, ["stone", "inertia"]),
    "NaN centre of mass": (lambda: body_value("body_com", (0.0, math.nan, 0.0)), ValueError, ["forearm", "com"]),
    "NaN on the second axis": (gantry_without_a_number, ValueError, ["gantry", "axis 1", "armature", "nan"]),
    "kinematic link": (kinematic_in_the_middle, ValueError, ["hand", "kinematic"]),
}


def _spoiled(name, value):
    """The bench's model with one entry of an array overwritten after construction."""
    builder = hinge()
    builder.add_shape_sphere(0, radius=0.1, label="knob")
    model = finalize(builder)
    array = getattr(model, name)
    values = array.numpy()
    values.reshape(-1)[0] = value
    array.assign(values)
    return model


def own_material(name):
    """A ball with an attribute of SolverSAP that is no number."""
    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    body = builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    builder.add_shape_sphere(body, label="rubber", custom_attributes={f"sap:{name}": math.nan})
    return finalize(builder)


def skewed_axes():
    """A D6 joint whose two angular axes are not orthogonal."""
    builder = newton.ModelBuilder()
    body = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), label="wrist_link")
    axes = [newton.ModelBuilder.JointDofConfig(axis=wp.vec3(*a)) for a in ((1.0, 0.0, 0.0), (0.8, 0.6, 0.0))]
    builder.add_articulation([builder.add_joint_d6(-1, body, angular_axes=axes, label="wrist")])
    return finalize(builder)


def cloth():
    """Particles tied by a spring."""
    builder = newton.ModelBuilder()
    for x in (0.0, 1.0):
        builder.add_particle(pos=(x, 0.0, 0.0), vel=(0.0, 0.0, 0.0), mass=1.0)
    builder.add_spring(0, 1, 100.0, 1.0, 0.0)
    return finalize(builder)


def pinned_body():
    """A body that hangs on a particle."""
    builder = newton.ModelBuilder()
    body = builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)))
    particle = builder.add_particle(pos=(0.0, 0.0, 0.0), vel=(0.0, 0.0, 0.0), mass=0.0)
    builder.add_attachment_particle_body(particle, body, stiffness=1e4, damping=10.0)
    return finalize(builder)


def folded_sheet():
    """Four particles with an edge that resists bending, and no triangle."""
    builder = newton.ModelBuilder()
    for x, y in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        builder.add_particle(pos=wp.vec3(x, y, 0.0), vel=wp.vec3(), mass=1.0)
    builder.add_edge(0, 1, 2, 3, rest=0.0, edge_ke=1e4, edge_kd=1.0)
    return finalize(builder)


def sprung_free_joint():
    """A spring that should hold a free body."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), label="stone")
    model = finalize(builder)
    model.joint_stiffness.fill_(2.0)
    return model


def limits_the_wrong_way_round():
    model = finalize(hinge())
    model.joint_limit_lower.fill_(0.5)
    model.joint_limit_upper.fill_(-0.5)
    return model


NOT_NEGATIVE = ("joint_armature", "joint_damping", "joint_friction", "joint_stiffness", "joint_target_ke",
                "joint_target_kd", "joint_limit_ke", "joint_limit_kd", "shape_material_ke", "shape_material_kd",
                "shape_material_mu", "shape_material_mu_torsional", "shape_material_mu_rolling",
                "shape_material_restitution")  # fmt: skip
ANY_SIGN = ("joint_axis", "joint_X_p", "joint_X_c", "shape_transform", "shape_scale")
MAGNITUDES = ("joint_effort_limit", "joint_velocity_limit")
LIMITS = ("joint_limit_lower", "joint_limit_upper", *MAGNITUDES)
for _name in (*NOT_NEGATIVE, *ANY_SIGN, *LIMITS):
    _owner = "knob" if _name.startswith("shape") else "elbow"
    BAD_MODELS[f"NaN {_name}"] = (lambda name=_name: _spoiled(name, math.nan), ValueError, [_name, _owner, "nan"])
for _name in (*NOT_NEGATIVE, *MAGNITUDES):
    _owner = "knob" if _name.startswith("shape") else "elbow"
    BAD_MODELS[f"negative {_name}"] = (lambda name=_name: _spoiled(name, -3.0), ValueError, [_name, _owner, "-3"])
for _name in ("relaxation_time", "hunt_crossley_dissipation"):
    BAD_MODELS[f"NaN sap:{_name}"] = (
        lambda name=_name: own_material(name),
        ValueError,
        [f"sap:{_name}", "rubber", "nan"],
    )
BAD_MODELS["restitution above one"] = (
    lambda: _spoiled("shape_material_restitution", 1.5), ValueError, ["restitution", "knob", "1.5", "at most 1"],
)  # fmt: skip
BAD_MODELS["skewed D6 axes"] = (skewed_axes, ValueError, ["wrist", "orthogonal"])
BAD_MODELS["seven axes"] = (seven_axes, ValueError, ["shoulder", "7 axes"])
BAD_MODELS["gradients of a loose body"] = (loose_body_with_gradients, NotImplementedError, ["gradients", "stray"])
BAD_MODELS["gradients through impacts"] = (bouncer_with_gradients, NotImplementedError, ["restitution", "rubber"])
BAD_MODELS["limits the wrong way round"] = (limits_the_wrong_way_round, ValueError, ["elbow", "0.5, above"])
BAD_MODELS["spring of a free joint"] = (sprung_free_joint, NotImplementedError, ["joint_stiffness", "stone"])
BAD_MODELS["body on a particle"] = (pinned_body, NotImplementedError, ["attaches", "1"])
BAD_MODELS["bending edge"] = (folded_sheet, NotImplementedError, ["edge_count", "1"])
BAD_MODELS["springs between particles"] = (cloth, NotImplementedError, ["spring_count", "1"])


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_model(case):
    """Construction refuses the model, naming the joint or body and what to do."""
    make, error, words = BAD_MODELS[case]
    model = make()
    with pytest.raises(error) as caught:
        SolverSAP(model)
    assert_helpful(caught.value, words)


def assert_helpful(error, words):
    """The message names the thing and contains an instruction."""
    import re

    message = str(error)
    for word in words:
        assert word.lower() in message.lower(), f"{message!r} does not name {word!r}"
    assert re.search(REMEDY, message, re.IGNORECASE), f"{message!r} offers no remedy"


BAD_OPTIONS = {
    "contact model": ({"contact_model": "hydroelastic"}, ["contact_model", "hydroelastic", "sap"]),
    "preset": ({"preset": "mujoco"}, ["preset", "mujoco", "drake"]),
    "precision": ({"precision": "float32"}, ["precision", "float32", "float64"]),
    "weight": ({"contact_weight": "delasus"}, ["contact_weight", "did you mean 'delassus'"]),
    "negative regularization": ({"friction_regularization": -1.0}, ["friction_regularization", "-1"]),
    "NaN tolerance": ({"optimality_rel": math.nan}, ["optimality_rel", "nan"]),
    "fractional iterations": ({"max_iterations": 1.5}, ["max_iterations", "1.5"]),
    "weight with a wrong case": ({"contact_weight": "Delassus"}, ["contact_weight", "delassus"]),
    "contact point": ({"contact_point": "middle"}, ["contact_point", "shared", "witness"]),
    "position update": ({"position_update": "rk4"}, ["position_update", "symplectic"]),
    "material rule": ({"material_rule": "max"}, ["material_rule", "newton", "drake"]),
    "unset materials": ({"unset_materials": "soft"}, ["unset_materials", "rigid", "literal"]),
    "drive integration": ({"drive_integration": "semi"}, ["drive_integration", "implicit", "explicit"]),
    "spring integration": ({"spring_integration": "semi"}, ["spring_integration", "implicit", "explicit"]),
    "text for a flag": ({"dissipation_ahead_of_touch": "yes"}, ["dissipation_ahead_of_touch", "True", "yes"]),
    "number for a flag": ({"spin_friction": 1}, ["spin_friction", "True", "1"]),
    "negative near-rigid bound": ({"near_rigid_contact": -1.0}, ["near_rigid_contact", "-1"]),
    "zero near-rigid joints": ({"near_rigid_joint": 0.0}, ["near_rigid_joint", "0"]),
    "zero regularization": ({"friction_regularization": 0.0}, ["friction_regularization", "0"]),
    "negative dissipation": ({"hunt_crossley_dissipation": -50.0}, ["hunt_crossley_dissipation", "-50"]),
    "zero stiction tolerance": ({"stiction_tolerance": 0.0}, ["stiction_tolerance", "0"]),
    "infinite tolerance": ({"optimality_abs": math.inf}, ["optimality_abs", "inf"]),
    "negative cost tolerance": ({"cost_abs": -1e-30}, ["cost_abs", "-1e-30"]),
    "cost tolerance as text": ({"cost_rel": "small"}, ["cost_rel", "small"]),
    "negative iterations": ({"max_iterations": -1}, ["max_iterations", "-1"]),
    "flag for iterations": ({"max_iterations": True}, ["max_iterations", "True"]),
    "no line search": ({"line_search_max_iterations": 0}, ["line_search_max_iterations", "0"]),
    "zero line search tolerance": ({"line_search_tolerance": 0.0}, ["line_search_tolerance", "0"]),
    "fractional capacity": ({"max_contacts": 10.5}, ["max_contacts", "10.5"]),
    "negative capacity": ({"max_contacts": -1}, ["max_contacts", "-1"]),
    "no threads": ({"threads": 0}, ["threads", "0"]),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_option(case):
    """Construction refuses the option, naming it, its value and what is accepted."""
    options, words = BAD_OPTIONS[case]
    with pytest.raises(ValueError) as caught:
        SolverSAP(hinge().finalize(), **options)
    assert_helpful(caught.value, words)


@pytest.mark.parametrize("thing", [newton.ModelBuilder(), None, "robot.urdf"], ids=lambda thing: type(thing).__name__)
def test_what_is_no_model(thing):
    """A builder that nobody finalized, for instance."""
    with pytest.raises(TypeError) as caught:
        SolverSAP(thing)
    assert_helpful(caught.value, ["model", type(thing).__name__, "builder.finalize()"])


def test_a_solver_is_not_built_in_a_capture():
    """What it allocates and reads could not be recorded."""
    model = hinge().finalize()
    SolverSAP(model)  # compiled outside
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match="build the solver before the capture"):
        SolverSAP(model)


@pytest.mark.parametrize("ask", ["report", "inspect", "inverse_dynamics"])
def test_what_reads_the_device_is_refused_in_a_capture(ask):
    """It would tell of the last step that ran, not of the one being recorded."""
    bench = Bench()
    bench.step()
    state = bench.model.state()
    arguments = (state, state, None, None, 0.01) if ask == "inverse_dynamics" else ()
    getattr(bench.solver, ask)(*arguments)  # compiled outside
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match=rf"{ask}\(\) reads the device.*after the capture"):
        getattr(bench.solver, ask)(*arguments)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_solver_is_not_copied(duplicate):
    """A copy would share or miss arrays of the device; the remedy is named."""
    with pytest.raises(TypeError, match="SolverSAP.*cannot be copied or pickled; build another one on the model"):
        duplicate(Bench().solver)


def test_states_with_gradients_of_a_model_without():
    """Nothing would come back along a tape, which is said."""
    bench = Bench()
    state = bench.model.state(requires_grad=True)
    with pytest.warns(UserWarning, match="leave nothing on a tape.*requires_grad=True"):
        bench.step(state_in=state)


def test_unknown_keyword():
    """A keyword that is no option is Python's own TypeError, with the name."""
    with pytest.raises(TypeError, match="max_iteration"):
        SolverSAP(hinge().finalize(), max_iteration=10)


class Bench:
    """A good model with everything one step needs, for one argument to be replaced."""

    def __init__(self):
        builder = hinge()
        builder.add_shape_sphere(0, radius=0.1)
        builder.add_ground_plane()
        self.model = builder.finalize()
        self.solver = SolverSAP(self.model)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.arguments = {
            "state_in": self.model.state(),
            "state_out": self.model.state(),
            "control": self.model.control(),
            "contacts": self.pipeline.contacts(),
            "dt": 0.01,
        }

    def step(self, **replaced):
        """Step with some arguments replaced."""
        self.solver.step(**{**self.arguments, **replaced})


def other_model():
    """A model of another size."""
    builder = hinge()
    return hinge(builder, label="knee").finalize()


def state_with(model, **arrays):
    """A state with other arrays."""
    state = model.state()
    for name, array in arrays.items():
        setattr(state, name, array)
    return state


BAD_STEPS = {
    "zero dt": (lambda b: {"dt": 0.0}, ValueError, ["dt", "0"]),
    "negative dt": (lambda b: {"dt": -0.01}, ValueError, ["dt", "-0.01"]),
    "NaN dt": (lambda b: {"dt": math.nan}, ValueError, ["dt", "nan"]),
    "infinite dt": (lambda b: {"dt": math.inf}, ValueError, ["dt", "inf"]),
    "dt as text": (lambda b: {"dt": "fast"}, (TypeError, ValueError), ["dt", "fast"]),
    "dt as a word of digits": (lambda b: {"dt": "0.01"}, ValueError, ["dt", "'0.01'"]),
    "dt as truth": (lambda b: {"dt": True}, ValueError, ["dt", "True"]),
    "joint_q in NumPy": (
        lambda b: {"state_in": state_with(b.model, joint_q=b.model.joint_q.numpy())},
        TypeError,
        ["state_in.joint_q", "ndarray", "model.state()"],
    ),
    "joint_qd in double precision": (
        lambda b: {"state_in": state_with(b.model, joint_qd=wp.zeros(1, dtype=wp.float64))},
        TypeError,
        ["state_in.joint_qd", "float64", "float32"],
    ),
    "body_f of forces alone": (
        lambda b: {"state_in": state_with(b.model, body_f=wp.zeros(1, dtype=wp.vec3))},
        TypeError,
        ["state_in.body_f", "spatial_vector", "vec3", "model.state()"],
    ),
    "joint_qd in two dimensions": (
        lambda b: {"state_in": state_with(b.model, joint_qd=wp.zeros((1, 1), dtype=wp.float32))},
        TypeError,
        ["state_in.joint_qd", "one dimension", "2 dimensions"],
    ),
    "foreign state_in": (lambda b: {"state_in": other_model().state()}, ValueError, ["state_in", "joint_q"]),
    "foreign state_out": (lambda b: {"state_out": other_model().state()}, ValueError, ["state_out", "joint_q"]),
    "foreign control": (lambda b: {"control": other_model().control()}, ValueError, ["control", "joint_"]),
    "control of the wrong type": (lambda b: {"control": 3}, TypeError, ["control", "int", "model.control()"]),
    "state in place of a control": (
        lambda b: {"control": b.model.state()},
        TypeError,
        ["control", "State", "model.control()"],
    ),
    "no state": (lambda b: {"state_in": None}, (TypeError, ValueError), ["state_in"]),
    "state without joint_q": (
        lambda b: {"state_in": state_with(b.model, joint_q=None)},
        (TypeError, ValueError),
        ["state_in", "joint_q"],
    ),
    "no state_out": (lambda b: {"state_out": None}, (TypeError, ValueError), ["state_out"]),
    "no dt": (lambda b: {"dt": None}, (TypeError, ValueError), ["dt", "None"]),
    "contacts of the wrong type": (lambda b: {"contacts": b.pipeline}, (TypeError, ValueError), ["contacts"]),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_bad_step(case):
    """A step refuses the argument, naming it, and leaves the output state alone."""
    bench = Bench()
    make, error, words = BAD_STEPS[case]
    before = bench.arguments["state_out"].joint_qd.numpy().copy()
    with pytest.raises(error) as caught:
        bench.step(**make(bench))
    assert_helpful(caught.value, words)
    np.testing.assert_array_equal(bench.arguments["state_out"].joint_qd.numpy(), before)


def test_flags_that_are_none():
    """What is no flag is named, and the remedy."""
    with pytest.raises(TypeError, match=r"newton\.ModelFlags.*'shape'"):
        Bench().solver.notify_model_changed("shape")


def test_solver_survives_a_refused_step():
    """After a refused step the next good one works."""
    bench = Bench()
    with pytest.raises(ValueError):
        bench.step(dt=0.0)
    bench.step()
    assert bench.solver.report().steps == 1


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("with_ground", [False, True])
def test_empty_model_is_fine(with_ground, requires_grad):
    """A model without bodies steps without complaint."""
    builder = newton.ModelBuilder()
    if with_ground:
        builder.add_ground_plane()
    model = builder.finalize(requires_grad=requires_grad)
    solver, state = SolverSAP(model), model.state()
    solver.step(state, model.state(), None, newton.CollisionPipeline(model).contacts(), 0.01)
    assert solver.report().healthy


def test_unknown_order_flag():
    """The raw state accepts the two orders only."""
    state = hinge().finalize().state()
    with pytest.raises(ValueError, match="joint_qd_order.*'public' or 'sap'"):
        SapState(state.joint_q, state.joint_qd, state.body_q, state.body_qd, joint_qd_order="drake")
    bench = Bench()
    bench.arguments["state_in"].joint_qd_order = "Sap"
    with pytest.raises(ValueError, match="joint_qd_order must be 'public' or 'sap', not 'Sap'"):
        bench.step()


def test_unsupported_observable_is_refused():
    """Asking for an observable that the solver does not compute is an error of Newton's base class."""
    bench = Bench()
    with pytest.raises((ValueError, NotImplementedError), match="tension"):
        bench.solver.observables(["tension"])


@pytest.mark.cuda
def test_state_on_another_device():
    """A CUDA state is refused by a CPU solver, naming both devices."""
    bench = Bench()
    builder = hinge()
    builder.add_shape_sphere(0, radius=0.1)
    builder.add_ground_plane()
    elsewhere = builder.finalize(device="cuda:0")
    with pytest.raises((ValueError, RuntimeError)) as caught:
        bench.step(state_in=elsewhere.state())
    assert_helpful(caught.value, ["state_in", "cuda:0", "cpu"])


def test_non_finite_state_is_counted_not_hidden():
    """A NaN in the state does not raise inside a step; the report says where it happened."""
    bench = Bench()
    bench.arguments["state_in"].joint_qd.assign(np.array([math.nan], np.float32))
    bench.step()
    assert bench.solver.report().non_finite_steps.sum() == 1


FOREIGN_CONTACTS = """
import newton, warp as wp
wp.config.enable_backward = False
from newton_sap import SolverSAP

def balls(count):
    builder = newton.ModelBuilder()
    for i in range(count):
        pose = wp.transform(wp.vec3(0.5 * i, 0.0, 0.05), wp.quat_identity())
        builder.add_shape_sphere(builder.add_body(xform=pose), radius=0.1)
    builder.add_ground_plane()
    return builder.finalize(device="cpu")

crowd, single = balls(40), balls(1)
pipeline, state = newton.CollisionPipeline(crowd), single.state()
contacts = pipeline.contacts()
pipeline.collide(crowd.state(), contacts)
try:
    SolverSAP(single).step(state, state, None, contacts, 0.01)
except ValueError as error:
    print("refused:", error)
print("alive")
"""


WRONG_ARRAYS = {
    "too short": lambda array: wp.zeros(0, dtype=array.dtype),
    "none": lambda array: None,
    "numpy": lambda array: array.numpy(),
    "of another type": lambda array: wp.zeros(len(array), dtype=wp.int8),
    "in two dimensions": lambda array: wp.zeros((len(array), 1), dtype=array.dtype),
}


@pytest.mark.parametrize("wrong", WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
@pytest.mark.parametrize(
    "name",
    ["joint_armature", "joint_X_p", "body_mass", "shape_material_mu", "shape_transform", "shape_flags", "gravity"],
)
@pytest.mark.parametrize("when", ["before construction", "at run time"])
def test_arrays_of_another_kind_are_refused(name, wrong, when):
    """They are named with what they must be, and a solver goes on with those it had."""
    builder = hinge()
    builder.add_shape_sphere(0, radius=0.1)
    model = finalize(builder)
    assert_array_is_refused(model, model, name, wrong(getattr(model, name)), when)


def assert_array_is_refused(model, holder, name, wrong, when):
    """In place of the model's, or a table's of it; with what was there the solver goes on."""
    solver, before = SolverSAP(model), getattr(holder, name)
    setattr(holder, name, wrong)
    where = "model" if holder is model else r"model\.mujoco"
    with pytest.raises((TypeError, ValueError), match=rf"^{where}\.{name} .*give it [12] entries of "):
        if when == "at run time":
            solver.notify_model_changed(newton.ModelFlags.ALL)
        else:
            SolverSAP(model)
    setattr(holder, name, before)
    state = model.state()
    solver.step(state, state, None, None, 0.01)
    assert solver.report().healthy


@pytest.mark.parametrize("name", ["joint_parent", "joint_child", "joint_articulation", "shape_body", "joint_qd_start"])
@pytest.mark.parametrize("index", [5, -2])
def test_indices_of_nothing_are_refused(name, index):
    """What an entry names must be there; else its array, owner and choice are told."""
    builder = hinge()
    builder.add_shape_sphere(0, radius=0.1)
    array = getattr(model := finalize(builder), name)
    array.fill_(index)
    with pytest.raises(ValueError, match=rf"{name} (of \w+ 0 .* is {index}; give it one|must rise from 0 to 1)"):
        SolverSAP(model)


def test_contacts_of_a_larger_model_do_no_harm():
    """Contacts that name shapes the model does not have are refused or ignored, not read out of bounds."""
    run = subprocess.run([sys.executable, "-c", FOREIGN_CONTACTS], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"exit code {run.returncode}"
    assert "alive" in run.stdout
