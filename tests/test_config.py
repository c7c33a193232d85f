"""Options: presets, precedence, validation, round trip and documentation."""

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import newton_sap
from newton_sap import PRESETS, SAPOptions, config
from newton_sap.config import resolve_options


def test_default_options():
    """Without a preset every option has the default of the dataclass."""
    assert resolve_options(None, {}) == SAPOptions()


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_sets_what_it_lists(preset):
    """A preset changes the options it lists and leaves the others alone."""
    options = resolve_options(preset, {})
    for name, default in SAPOptions().to_dict().items():
        assert getattr(options, name) == PRESETS[preset].get(name, default), name


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_names_existing_options(preset):
    """A preset lists no option that does not exist."""
    assert set(PRESETS[preset]) <= {field.name for field in dataclasses.fields(SAPOptions)}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_name_their_contact_law(preset):
    """Presets stand for solvers that use the cone, whatever the default is."""
    assert SAPOptions().contact_model == "lagged"
    assert PRESETS[preset]["contact_model"] == "sap"


def test_drake_preset_is_drakes_method():
    """The preset that reproduces Drake uses its weight, contact point, materials and position update."""
    options = resolve_options("drake", {})
    assert (options.contact_weight, options.contact_point) == ("delassus", "shared")
    assert (options.contact_model, options.stiction_tolerance) == ("sap", 1e-4)
    assert (options.material_rule, options.position_update, options.precision) == ("drake", "sap_euler", "float64")


@pytest.mark.parametrize(
    ("preset", "name", "value"),
    [("drake", "material_rule", "newton"), ("approx32", "precision", "float64"), ("approx64", "max_iterations", 7)],
)
def test_explicit_keyword_wins(preset, name, value):
    """What the caller writes out is stronger than the preset."""
    assert getattr(resolve_options(preset, {name: value}), name) == value


def test_none_means_not_given():
    """A keyword left at None takes the value of the preset."""
    assert resolve_options("approx64", {"contact_point": None}).contact_point == "witness"


BAD_VALUES = [
    ("contact_model", "hydro"),
    ("precision", "float16"),
    ("contact_weight", "delasus"),
    ("contact_point", 3),
    ("position_update", ""),
    ("material_rule", "max"),
    ("unset_materials", "soft"),
    ("hunt_crossley_dissipation", -1.0),
    ("stiction_tolerance", 0.0),
    ("near_rigid_contact", -0.1),
    ("near_rigid_joint", float("nan")),
    ("near_rigid_joint", 0.0),
    ("near_rigid_coupling", 0.0),
    ("drive_integration", "semi"),
    ("spring_integration", None),
    ("kinematic_velocity", "pose"),
    ("spin_friction", 1),
    ("friction_regularization", 0.0),
    ("max_iterations", -1),
    ("max_iterations", 2.5),
    ("max_iterations", 2**31),
    ("optimality_abs", -1e-9),
    ("optimality_rel", float("inf")),
    ("cost_abs", "small"),
    ("cost_rel", -1.0),
    ("line_search_max_iterations", 0),
    ("line_search_max_iterations", 2**32),
    ("line_search_tolerance", 0.0),
    ("max_contacts", -5),
    ("max_contacts", True),
    ("dissipation_ahead_of_touch", 1),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_bad_value_is_named(name, value):
    """A value out of range is refused with the option and the value in the message."""
    with pytest.raises(ValueError, match=name) as error:
        SAPOptions(**{name: value})
    assert repr(value) in str(error.value)


def test_options_have_names():
    """An option that is given by its place would change its meaning with the next one."""
    with pytest.raises(TypeError, match="positional"):
        SAPOptions("sap")


def test_typing_error_gets_a_suggestion():
    """A near miss of a name is answered with the right one."""
    with pytest.raises(ValueError, match="did you mean 'delassus'"):
        SAPOptions(contact_weight="delasus")
    with pytest.raises(ValueError, match="did you mean 'max_iterations'"):
        resolve_options(None, {"max_iteration": 5})
    with pytest.raises(ValueError, match="did you mean 'drake'"):
        resolve_options("darke", {})


def test_options_are_frozen():
    """Options cannot change under a running solver."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        SAPOptions().precision = "mixed"


@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_round_trip_through_json(preset):
    """Options survive a detour through JSON."""
    options = resolve_options(preset, {"max_contacts": 64})
    assert SAPOptions(**json.loads(json.dumps(options.to_dict()))) == options


def _documented_fields():
    """Map each field of the dataclass to the string literal that follows it in the source."""
    tree = ast.parse(inspect.getsource(config))
    (options,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "SAPOptions")
    documented = {}
    for node, following in zip(options.body, options.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign):
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            documented[node.target.id] = following.value.value if is_text else ""
    return documented


def test_every_field_is_documented():
    """Each option says what it does in at least one full sentence."""
    documented = _documented_fields()
    for field in dataclasses.fields(SAPOptions):
        assert len(documented[field.name]) > 40, f"{field.name} lacks a docstring"


def test_numeric_fields_state_their_unit():
    """Each number has a unit in brackets."""
    counts = {"max_iterations", "line_search_max_iterations"}  # their names say what is counted
    documented = _documented_fields()
    for field in dataclasses.fields(SAPOptions):
        if isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
            assert field.name in counts or "[" in documented[field.name], field.name


def test_solver_spells_every_option_out():
    """Option names appear in the signature of the solver, which is how frameworks discover them."""
    parameters = inspect.signature(newton_sap.SolverSAP.__init__).parameters
    names = {field.name for field in dataclasses.fields(SAPOptions)}
    assert names <= set(parameters)
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


PAGE = Path(__file__).parents[1] / "docs" / "options.md"


@pytest.mark.parametrize("preset", PRESETS)
def test_options_page_says_what_a_preset_sets(preset):
    """The row of a preset lists what it changes of the defaults, and nothing else."""
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    text = rows[preset].replace("the same", rows["approx64"])  # the row before it
    listed = re.findall(r"`(\w+)=([^`]+)`", text)
    changed = {name: value for name, value in PRESETS[preset].items() if value != getattr(SAPOptions(), name)}
    assert {name: ast.literal_eval(value) for name, value in listed} == changed


def test_options_page_lists_every_option():
    """The reference page has a row for each option and each preset."""
    page = PAGE.read_text(encoding="utf-8")
    for name in [field.name for field in dataclasses.fields(SAPOptions)] + list(PRESETS):
        assert f"`{name}`" in page, name


def test_numpy_scalars_are_plain_numbers():
    """A sweep over ``np.linspace`` or ``np.arange`` hands over NumPy's scalars; the options keep plain ones."""
    options = SAPOptions(optimality_rel=np.float32(0.25), max_iterations=np.int64(3), spin_friction=np.bool_(True))
    assert options == SAPOptions(optimality_rel=0.25, max_iterations=3, spin_friction=True)
    assert [type(value) for value in (options.optimality_rel, options.max_iterations, options.spin_friction)] == [
        float,
        int,
        bool,
    ]
