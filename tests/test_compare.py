"""One scene under several solvers: metrics against closed forms, broken contestants, reports, and the command."""

import dataclasses
import json
import re
import sys
from base64 import b64decode
from html.parser import HTMLParser

import newton
import numpy as np
import pytest
from typer.testing import CliRunner

from newton_sap import registry, scenes
from newton_sap.bodies import body_mechanics
from newton_sap.cli.app import app
from newton_sap.compare import METRICS, SceneNotFoundError, SpecificationError, compare, parse_contestant
from newton_sap.compare.measures import measure
from newton_sap.compare.plots import draw
from newton_sap.compare.report import SAMPLES, THEORY_LEGEND, cells, prediction_cells, trajectory

PLUGINS = """
import newton.solvers

class SolverRaises(newton.solvers.SolverBase):
    def step(self, *args, **kwargs):
        raise RuntimeError("no gearbox")

class SolverNaN(newton.solvers.SolverBase):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        state_out.body_q.fill_(float("nan"))

class SolverHostWork(newton.solvers.SolverBase):
    count = 0
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        self.count += 1  # invisible to a recorded graph
        state_out.assign(state_in)
        poses = state_out.body_q.numpy().copy()
        poses[:, 0] += 0.01
        state_out.body_q.assign(poses)

class SolverSlips(newton.solvers.SolverBase):
    count = 0
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        self.count += 1
        if self.count == 5:  # after the first frame, which is stepped by hand
            raise RuntimeError("no clutch\\nin any gear")
        state_out.assign(state_in)

class SolverSpoils(newton.solvers.SolverBase):
    def __init__(self, model):
        super().__init__(model)
        model.body_mass.zero_()
        raise OSError("out of grease")
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Install a fake distribution with solvers that misbehave, one that cannot be imported among them."""
    monkeypatch.setattr(registry, "_outcomes", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "fake_compare-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-compare\nVersion: 1.0\n")
    names = {
        "raises": "SolverRaises",
        "nan": "SolverNaN",
        "host": "SolverHostWork",
        "slips": "SolverSlips",
        "spoils": "SolverSpoils",
    }
    lines = [f"{name} = fake_compare_plugins:{attribute}" for name, attribute in names.items()]
    lines.append("broken = fake_compare_broken:Solver")
    (info / "entry_points.txt").write_text("\n".join(["[newton.solvers]", *lines, ""]))
    (tmp_path / "fake_compare_plugins.py").write_text(PLUGINS)
    (tmp_path / "fake_compare_broken.py").write_text("raise ValueError('no such chip')\n")
    yield
    for module in ("fake_compare_plugins", "fake_compare_broken"):
        sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def incline():
    """The box on the incline under SAP and Featherstone with a fine step."""
    return compare("box_on_incline", ["sap", "featherstone/16"], frames=60, device="cpu")


@pytest.fixture(scope="module")
def flight():
    """The free body under SAP with two steps and under Featherstone."""
    return compare("free_body", ["sap", "sap/4", "featherstone"], frames=30, device="cpu")


def invoke(*arguments):
    """Run the command line in this process; return exit code and all it printed."""
    result = CliRunner().invoke(app, ["compare", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_incline_is_as_deep_and_creeps_as_predicted(incline):
    """Depth within one percent of load over stiffness, creep within 5 percent of the friction law, force is weight."""
    assert incline.complete
    for prediction in incline.predictions:
        for label in prediction.labels or incline.settings.solvers:
            measured = incline[label].metrics[prediction.metric]
            tolerance = 0.05 if prediction.metric == "creep_mm_s" else 0.01
            assert measured == pytest.approx(prediction.value, rel=tolerance), (label, prediction)
    assert {p.metric for p in incline.predictions} == {"penetration_mm", "force_ratio", "creep_mm_s"}


def test_incline_is_near_its_reference(incline):
    """SAP stays within a millimetre of its fine run and of the exact rest; friction by penalty slides away."""
    sap, penalty = incline["sap"].metrics, incline["featherstone/16"].metrics
    assert sap["error_mm"] < 1.0 and sap["closed_form_mm"] < 1.0
    assert penalty["closed_form_mm"] > 5.0
    assert sap["residual"] < 1e-5 and penalty["residual"] is None
    assert sap["energy_gain"] == 0.0 and sap["energy_drift"] is None


def test_creep_of_the_cone_law():
    """The sap law creeps at sigma w dt f."""
    found = compare(
        "box_on_incline", ["sap"], frames=40, reference=False, options={"sap": {"contact_model": "sap"}}, device="cpu"
    )
    (creep,) = [p for p in found.predictions if p.metric == "creep_mm_s"]
    assert creep.formula.startswith("sigma w dt f")
    assert found["sap"].metrics["creep_mm_s"] == pytest.approx(creep.value, rel=0.05)
    assert found.reference is None and found["sap"].metrics["error_mm"] is None


def test_free_body_flies_straight(flight):
    """SAP keeps the COM's line, momentum and energy to round-off; orientation errs by the order of the step."""
    sap, fine = flight["sap"].metrics, flight["sap/4"].metrics
    assert sap["closed_form_mm"] < 0.01 and sap["momentum_drift"] < 1e-5
    assert sap["energy_drift"] < 1e-5
    assert fine["error_mm"] < 0.4 * sap["error_mm"]
    assert sap["penetration_mm"] is None and sap["force_ratio"] is None


def test_mujoco_drifts_with_an_offset_com():
    """A solver that integrates a free joint's origin lets the COM drift, half as much with half the step."""
    pytest.importorskip("mujoco_warp")
    found = compare("free_body", ["mujoco", "mujoco/2"], frames=30, reference=False, device="cpu")
    coarse, fine = (found[label].metrics["closed_form_mm"] for label in ("mujoco", "mujoco/2"))
    assert coarse > 1.0
    assert fine == pytest.approx(0.5 * coarse, rel=0.1)


def test_pendulum_energy_and_joints():
    """Solvers in joint coordinates agree on the pendulum; XPBD's joints open."""
    found = compare("pendulum_cart", ["sap", "featherstone", "xpbd"], frames=12, reference=False, device="cpu")
    sap, featherstone, xpbd = (found[label].metrics for label in found.settings.solvers)
    assert sap["energy_drift"] == pytest.approx(featherstone["energy_drift"], rel=1e-2)
    assert sap["joint_gap_mm"] < 1e-3 < xpbd["joint_gap_mm"]
    assert xpbd["iterations_max"] == 2 and featherstone["iterations_max"] is None


@pytest.mark.parametrize("name", scenes.SCENES)
def test_every_scene_can_be_compared(name):
    """SAP runs each scene, replayed from a graph, without a complaint."""
    found = compare(name, ["sap"], frames=2, reference=False, device="cpu")
    assert found["sap"].verdict == "ok" and found["sap"].parameters["stepping"] == "captured"
    assert found.settings.frames == 2 and len(found["sap"].recording.time) == 3
    assert "<table" in found._repr_html_()


def test_drives_follow_the_scene():
    """The gripper's targets move from frame to frame, and the tracking error is the distance from them."""
    found = compare("gripper_cube", ["sap"], frames=8, reference=False, device="cpu")
    run = found["sap"].recording
    assert run.joint_target_q[0, 1] == 0.0 and run.joint_target_q[-1, 1] == pytest.approx(0.03 * 7 / 60 / 0.3)
    errors = np.abs(run.joint_q - run.joint_target_q)[-2:, :3]
    assert found["sap"].metrics["tracking_error"] == pytest.approx(errors.max(), rel=1e-4)


def test_mechanics_of_a_known_motion():
    """Energy and momentum of the free body at its start are those it was built with."""
    scene = scenes.free_body(device="cpu")
    state = scene.state()
    found = body_mechanics(scene.model, state.body_q.numpy()[None], state.body_qd.numpy()[None])
    mass = float(scene.model.body_mass.numpy()[0])
    inertia = scene.model.body_inertia.numpy()[0].astype(float)
    speed, spin = np.array([0.5, 0.2, -0.1]), np.array([1.0, 6.0, 2.0])
    np.testing.assert_allclose(found.linear[0], mass * speed, rtol=1e-6)
    np.testing.assert_allclose(found.angular[0], inertia @ spin, rtol=1e-5)
    np.testing.assert_allclose(found.kinetic[0], 0.5 * mass * speed @ speed + 0.5 * spin @ inertia @ spin, rtol=1e-5)
    assert found.potential[0] == 0.0
    np.testing.assert_allclose(found.com[0], [0.2, -0.1, 0.15], atol=1e-6)


def on_the_moon():
    """The falling sphere under a sixth of gravity."""
    scene = scenes.sphere(device="cpu")
    scene.model.set_gravity((0.0, 0.0, -1.62))
    return scene


def test_gravity_is_the_models():
    """Weight, energy and predictions follow the gravity of each body's world, also where there is none."""
    assert scenes.free_body(device="cpu").weight() == 0.0
    two = scenes.quadruped(world_count=2, device="cpu")
    full = two.weight()
    two.model.set_gravity((0.0, 0.0, -1.62), world=1)
    assert two.weight() == pytest.approx(0.5 * full * (1.0 + 1.62 / 9.81), rel=1e-5)
    state = two.state()
    found = body_mechanics(two.model, state.body_q.numpy()[None], state.body_qd.numpy()[None])
    assert found.potential[0] == pytest.approx(found.com[0, 2] * two.weight(), rel=1e-5)
    moon = compare(on_the_moon, ["sap"], frames=240, reference=False, device="cpu")
    for prediction in moon.predictions:
        assert moon["sap"].metrics[prediction.metric] == pytest.approx(prediction.value, rel=0.01), prediction
    assert {p.metric for p in moon.predictions} == {"penetration_mm", "force_ratio"}


def test_a_box_slides_as_gravity_pulls():
    """The closed form of the sliding box holds under another gravity."""

    def build():
        scene = scenes.box_on_incline(angle=30.0, mu=0.3, device="cpu")
        scene.model.set_gravity((0.0, 0.0, -3.0))
        return scene

    found = compare(build, ["sap"], frames=30, reference=False, device="cpu")
    fallen = 0.5 * 3.0 * (0.5 - 0.3 * np.sqrt(0.75)) * 0.5**2
    assert found["sap"].metrics["closed_form_mm"] < 0.02 * 1e3 * fallen


def limited_pendulum():
    """A horizontal pole that falls against its lower limit, without contact."""
    builder = newton.ModelBuilder()
    pole = builder.add_link(label="pole")
    shape = newton.ModelBuilder.ShapeConfig(density=500.0, has_shape_collision=False)
    builder.add_shape_box(pole, xform=((0.25, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)), hx=0.25, hy=0.02, hz=0.02, cfg=shape)
    hinge = builder.add_joint_revolute(-1, pole, axis=newton.Axis.Y, limit_lower=-0.2, limit_upper=0.2)
    builder.add_articulation([hinge], label="arm")
    return scenes.Scene("limited_pendulum", builder.finalize(device="cpu"), 1.0 / 240.0, 4, "The pole stops.")


def test_a_scene_of_ones_own_and_its_limits():
    """A function that builds a scene can be compared; the limit violation is what the coordinates say."""
    found = compare(limited_pendulum, ["sap"], frames=30, reference=False, device="cpu")
    row = found["sap"]
    assert found.settings.scene == "limited_pendulum"
    violation = row.metrics["limit_violation"]
    assert 0.0 < violation < 0.05
    assert violation == pytest.approx(float(row.recording.joint_q.max()) - 0.2, abs=1e-6)
    assert measure(found.scene, row.recording, row.recording)["error_mm"] == 0.0


def test_misbehaving_contestants_are_rows(plugins):
    """Broken, raising, spoiling and diverging solvers keep their reason, and SAP's result is what it is without them."""
    alone = compare("free_body", ["sap"], frames=3, reference=False, device="cpu")
    found = compare("free_body", ["broken", "spoils", "raises", "nan", "sap"], frames=3, reference=False, device="cpu")
    assert found["broken"].verdict == "no result: ValueError: no such chip"
    assert found["spoils"].verdict == "no result: OSError: out of grease"
    assert found["raises"].verdict == "no result: RuntimeError: no gearbox" and "step" in found["raises"].details
    assert found["nan"].verdict.startswith("diverged at 0.0167") and found["nan"].metrics["closed_form_mm"] is None
    assert found["sap"].verdict == "ok" and not found.complete
    np.testing.assert_array_equal(found["sap"].recording.body_q, alone["sap"].recording.body_q)
    json.dumps(found.to_dict(), allow_nan=False)
    assert "no such chip" in found.markdown() and "no such chip" in found.html()


def test_a_recording_ends_before_its_divergence():
    """Every array of a run that leaves reason has the frames that were kept, and each of these its wall time."""
    found = compare("quadruped", ["featherstone"], frames=60, reference=False, device="cpu")
    run = found["featherstone"].recording
    kept = len(run.time) - 1
    assert 0 < kept < 59 and run.diverged_at == pytest.approx((kept + 1) / 60)
    assert len(run.body_q) == kept + 1 and len(run.force) == len(run.wall) == kept


def test_work_outside_the_graph_is_stepped_by_hand(plugins):
    """A solver whose recorded graph does less than its step is not replayed."""
    found = compare("free_body", ["host", "sap"], frames=2, reference=False, device="cpu")
    assert found["host"].parameters["stepping"].startswith("eager: replaying the first frame")
    assert found["sap"].parameters["stepping"] == "captured"
    assert ["stepping", "eager", "captured"] in cells(found)[1]
    np.testing.assert_allclose(found["host"].recording.body_q[:, 0, 0], [0.0, 0.04, 0.08], atol=1e-6)


def test_why_a_recording_failed_is_told(plugins):
    """A solver that raises while it is recorded is stepped by hand, and the table of parameters says what it raised."""
    found = compare("free_body", ["slips"], frames=2, reference=False, device="cpu")
    assert found["slips"].parameters["stepping"] == "eager: RuntimeError: no clutch"
    assert "no clutch" in found.markdown() and "no clutch" in found.html()


def test_reports(flight, tmp_path):
    """The folder holds JSON, Markdown and a page that is well formed and loads nothing."""
    files = {path.name: path.read_text(encoding="utf-8") for path in flight.write(tmp_path / "report")}
    record = json.loads(files["compare.json"])
    assert [row["label"] for row in record["rows"]] == ["sap", "sap/4", "featherstone"]
    assert set(record["rows"][0]["metrics"]) == {metric.key for metric in METRICS}
    assert len(record["rows"][0]["trajectory"]["time"]) == 31
    assert {"newton", "warp"} <= set(record["versions"]) and record["reference"]["refine"] == 16
    assert "| closed form mm |" in files["compare.md"]
    page = files["compare.html"]
    check = Balance()
    check.feed(page)
    assert check.open == [] and check.sections == ["metrics", "theory", "plots", "parameters", "columns"]
    assert not re.findall(r'(?:src|href)="(?!data:)', page) and "<script" not in page
    images = re.findall(r"data:image/png;base64,([^\"]+)", page)
    assert len(images) == 4 and all(b64decode(image).startswith(b"\x89PNG") for image in images)


class Balance(HTMLParser):
    """Follows the nesting of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.sections = [], []

    def handle_starttag(self, tag, attributes):
        if tag == "section":
            self.sections.append(dict(attributes)["id"])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_report_without_matplotlib_names_the_remedy(flight, tmp_path, monkeypatch):
    """What draws says what to install, and leaves no half of a report; what does not draw works."""
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    monkeypatch.delitem(sys.modules, "newton_sap.compare.plots", raising=False)
    for drawing in (flight.html, lambda: flight.write(tmp_path / "report")):
        with pytest.raises(ModuleNotFoundError, match=r"needs matplotlib: pip install 'newton-sap\[plot\]'.*markdown"):
            drawing()
    assert not (tmp_path / "report").exists() or not list((tmp_path / "report").iterdir())
    assert flight.markdown() and flight.to_dict()


def test_plots_of_a_scene_with_contact(incline):
    """Path, distance, contact, energy and cost, each with a caption."""
    plots = draw(incline)
    assert [plot.title for plot in plots][2:] == ["Contact", "Energy", "Cost and accuracy"]
    assert all(plot.caption and plot.png.startswith(b"\x89PNG") for plot in plots)


def test_solvers_may_be_a_string():
    """One name is one solver, and several have commas, as on the command line."""
    found = compare("sphere", "xpbd, sap/2", frames=2, reference=False, device="cpu")
    assert found.settings.solvers == ("xpbd", "sap/2")
    assert compare("sphere", "xpbd", frames=2, reference=False, device="cpu").settings.solvers == ("xpbd",)


def test_predictions_say_what_they_do_not_cover():
    """A solver that a formula does not hold for has another mark than one without a value, and a line says which is which."""
    found = compare("box_on_incline", "sap,xpbd", frames=4, reference=False, device="cpu")
    rows = {row[0]: row[-2:] for row in prediction_cells(found)[1]}
    assert rows["pen. mm"][1] == rows["creep mm/s"][1] == "n/a"
    assert rows["creep mm/s"][0] == "-", "four frames are too few to measure a creep"
    assert THEORY_LEGEND in found.markdown() and THEORY_LEGEND in found.html()


def test_trajectories_are_thinned_out(flight):
    """A long recording keeps its first and last frame and no more than the limit."""
    run = flight["sap"].recording
    frames = 1000
    long = dataclasses.replace(
        run,
        time=np.arange(frames) / 60.0,
        body_q=np.zeros((frames, 1, 7)),
        body_qd=np.full((frames, 1, 6), np.inf),
        penetration=np.zeros(frames),
        slip=np.zeros(frames),
        force=np.zeros(frames - 1),
        iterations=np.zeros(frames - 1),
    )
    kept = trajectory(long)
    assert len(kept["time"]) <= SAMPLES + 1
    assert kept["time"][0] == 0.0 and kept["time"][-1] == pytest.approx(999 / 60.0)
    assert kept["body_qd"][0] == [[None] * 6]


def test_contestants():
    """A slash divides the step, names are normalised, and keywords of the label win over those of the solver."""
    plain = parse_contestant(" Semi-Implicit ")
    assert (plain.solver, plain.refine, plain.label) == ("semi_implicit", 1, "semi_implicit")
    fine = parse_contestant("sap/16", {"sap": {"a": 1, "b": 2}, "sap/16": {"b": 3}})
    assert (fine.solver, fine.refine, fine.options) == ("sap", 16, {"a": 1, "b": 3})
    for text in ("", "/2", "sap/", "sap/0", "sap/x"):
        with pytest.raises(SpecificationError):
            parse_contestant(text)


def test_absent_row_names_what_is_there(flight):
    """A row that is not there is answered with those that are."""
    with pytest.raises(KeyError, match=r"no row 'sapp'; did you mean 'sap'\?.*sap, sap/4, featherstone"):
        flight["sapp"]


def test_errors_name_what_is_near():
    """Unknown scenes and solvers, repeated ones and stray options are refused before anything runs."""
    with pytest.raises(SceneNotFoundError, match="did you mean 'quadruped'.*pendulum_cart"):
        compare("quadrupd", ["sap"])
    with pytest.raises(registry.SolverNotFoundError, match="did you mean 'featherstone'"):
        compare("sphere", ["fetherstone"])
    with pytest.raises(SpecificationError, match="named twice"):
        compare("sphere", ["sap", "SAP"])
    with pytest.raises(SpecificationError, match="not among sap"):
        compare("sphere", ["sap"], options={"mujoco": {}})
    with pytest.raises(SpecificationError, match="at least one solver"):
        compare("sphere", [])
    with pytest.raises(SpecificationError, match="3 names no solver"):
        compare("sphere", [3])
    with pytest.raises(SpecificationError, match="list of names or a string with commas, not 3"):
        compare("sphere", 3)
    with pytest.raises(
        SpecificationError, match="a name or a function that returns a newton_sap.scenes.Scene, not int"
    ):
        compare(3, ["sap"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["quadrupd"], "did you mean 'quadruped'"),
        (["sphere", "--solvers", "sap,fetherstone"], "did you mean 'featherstone'"),
        (["sphere", "--solvers", "sap/0"], "divides the time step"),
        (["sphere", "--solvers", ","], "at least one solver"),
        (["sphere", "--option", "iterations=3"], "write solver.name=value"),
        (["sphere", "--option", "sap.contact_modl=sap"], "did you mean 'contact_model'"),
        (["sphere", "--num-frames", "0"], "num-frames"),
        (["sphere", "--device", "cuba:0"], "cannot be used"),
        (["sphere", "--option", "sap.max_iterations=-1"], "max_iterations must be an integer >= 0"),
        (["sphere", "--option", "sap/4.preset=nope", "--solvers", "sap/4"], "accepted: 'approx32'"),
        (["sphere", "--option", "spa.preset=drake"], "did you mean 'sap'"),
    ],
)
def test_usage_errors(arguments, expected):
    """A command that means nothing ends with 2 and says why."""
    code, text = invoke(*arguments)
    assert code == 2 and expected in text, text


def test_command_writes_its_reports(tmp_path):
    """The command prints the table, writes three files and ends well."""
    folder = tmp_path / "out"
    code, text = invoke(
        "free_body", "--solvers", "sap,xpbd", "--num-frames", "4", "--no-reference", "--output", str(folder),
        "--option", "xpbd.iterations=3", "--device", "cpu",
    )  # fmt: skip
    assert code == 0, text
    assert "closed form mm" in text and "written:" in text and "what each row means" not in text
    assert sorted(path.name for path in folder.iterdir()) == ["compare.html", "compare.json", "compare.md"]
    rows = json.loads((folder / "compare.json").read_text(encoding="utf-8"))["rows"]
    assert rows[1]["metrics"]["iterations_max"] == 3 and "iterations=3" in rows[1]["parameters"]["keywords given"]


def test_command_ends_with_1_if_a_solver_gave_nothing(plugins):
    """A broken solver is a row of the table and the exit code says that the comparison is not complete."""
    code, text = invoke("free_body", "--solvers", "sap,broken", "--num-frames", "2", "--no-reference")
    assert code == 1
    assert "no such chip" in text
    assert "--output FOLDER writes a report that says what each row means" in text


def test_misspelt_names_are_answered_at_once():
    """Who misspells a scene or a solver is not asked for patience first."""
    for arguments in (["quadrped"], ["sphere", "--solvers", "sap,mujco"]):
        code, text = invoke(*arguments)
        assert code == 2 and "did you mean" in text and "setting up" not in text


def test_output_must_be_a_folder(tmp_path):
    """A file in the folder's place is a usage error before anything runs."""
    (tmp_path / "taken").write_text("")
    code, text = invoke("free_body", "--output", str(tmp_path / "taken"))
    assert code == 2 and "not a folder" in text
