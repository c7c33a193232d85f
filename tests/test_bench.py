"""The benchmark: it measures, it refuses to time what went wrong, and its numbers mean what they say."""

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

from newton_sap import SolverSAP
from newton_sap.bench import SCENES, Settings, bench, make_scene, report
from newton_sap.bench.profile import STAGES, profile
from newton_sap.bench.session import NATIVE, make_run
from newton_sap.bench.timing import Region, alternate, quartiles
from newton_sap.bench.validation import contact_state, error_mm, fine_poses, judge
from newton_sap.cli import bench_command
from newton_sap.cli.app import app
from newton_sap.memory import memory_by_buffer

BRIEF = Region(seconds=0.004, steps=10, at_most=0.02)

ROW = {
    "scene": str,
    "solver": str,
    "worlds": int,
    "mode": str,
    "dofs": int,
    "compile_s": float,
    "steps": int,
    "ms": float,
    "ms_low": float,
    "ms_high": float,
    "collide_ms": float,
    "world_steps_per_s": float,
    "memory_per_world": int,
    "memory": dict,
    "quality": dict,
    "failed": bool,
}
QUALITY = {"failures", "iterations_mean", "iterations_p95", "iterations_max", "iterations_histogram", "residual",
           "contacts", "penetration_mm", "slip_mm_s", "force_over_weight", "energy_drift", "error_mm"}  # fmt: skip


def brief(*scenes, **changes):
    """Settings of the smallest possible benchmark."""
    return replace(Settings(scenes, worlds=(1,), repeats=2, region=BRIEF, accuracy=False, device="cpu"), **changes)


def invoke(*arguments):
    """Run ``newton-sap bench`` with little work; return exit code and output."""
    common = ["--seconds", "0.004", "--repeats", "2", "--no-accuracy", "--device", "cpu"]
    result = CliRunner().invoke(app, ["bench", *arguments, *common])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def marked_run(name, worlds=1, steps=None, **options):
    """A run of SAP that has settled, ready to be looked at."""
    scene = make_scene(name, worlds, device="cpu")
    run = make_run(scene, "sap", options)
    run.step()
    run.step()
    run.capture()
    run.advance(scene.warm_up if steps is None else steps, "captured")
    run.mark()
    return run


def test_rows_hold_time_and_accuracy(tmp_path):
    """The command writes JSON with every field of every row, versions, machine, options and date."""
    file, table = tmp_path / "bench.json", tmp_path / "bench.md"
    code, text = invoke("sphere", "--worlds", "1,3", "--json", str(file), "--markdown", str(table))
    assert code == 0, text
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data["schema"] == report.SCHEMA
    assert {"newton", "warp", "numpy", "newton_sap"} <= set(data["versions"])
    assert data["machine"]["cores"] >= 1 and data["date"] and data["settings"]["solver"] == "sap"
    assert [(row["worlds"], row["mode"]) for row in data["rows"]] == [
        (worlds, mode) for worlds in (1, 3) for mode in ("eager", "captured")
    ]
    for row in data["rows"]:
        for name, kind in ROW.items():
            assert isinstance(row[name], kind), name
        assert set(row["quality"]) >= QUALITY
        assert row["ms"] > 0.0 and row["ms_low"] <= row["ms"] <= row["ms_high"] and row["steps"] >= 10
        assert row["quality"]["force_over_weight"] == pytest.approx(1.0, abs=1e-3)
    markdown = table.read_text(encoding="utf-8")
    assert markdown.count("| sphere |") == 4
    for words in (
        "iterations: mean/95th percentile/largest",
        "F/W: contact force over weight",
        "dE/E: change of energy",
    ):
        assert words in " ".join(text.split()) and words in markdown


def test_batches_may_be_timed_over_the_same_steps(tmp_path):
    """``--steps`` times all batch sizes on the same way to rest, however long that takes."""
    file = tmp_path / "bench.json"
    code, text = invoke("sphere", "--worlds", "1,3", "--captured", "--steps", "30", "--json", str(file))
    assert code == 0, text
    assert [row["steps"] for row in json.loads(file.read_text(encoding="utf-8"))["rows"]] == [30, 30]


def test_scene_that_falls_through_the_ground_fails(monkeypatch):
    """A scene whose sphere collides with nothing is marked FAILED and ends with exit code 1."""

    def ghost(builder):
        shape = builder.default_shape_cfg.copy()
        shape.has_shape_collision = False
        builder.add_shape_sphere(builder.add_body(), radius=0.1, cfg=shape)

    monkeypatch.setitem(SCENES, "sphere", replace(SCENES["sphere"], build=ghost))
    code, text = invoke("sphere", "--worlds", "1", "--captured")
    assert code == 1 and "FAILED" in text and "below" in text


def test_run_that_does_not_converge_fails():
    """Iterations that end at their limit make a row fail, although its state looks fine."""
    outcome = bench(brief("ant_active", modes=("captured",), options={"max_iterations": 1}))
    assert outcome.failed and "unconverged" in outcome.rows[0].quality.failures[0]
    assert outcome.rows[0].collide_ms is None, "a failed row is not measured further"


def test_dropped_contacts_fail():
    """A contact capacity that is too small makes a row fail."""
    outcome = bench(brief("box", modes=("captured",), options={"max_contacts": 2}))
    assert outcome.failed and "dropped" in " ".join(outcome.rows[0].quality.failures)


def test_solver_that_cannot_be_built_fails():
    """What a solver raises becomes the verdict of its row."""
    outcome = bench(brief("sphere", options={"max_contact": 2}))
    assert outcome.failed and "max_contact" in outcome.rows[0].quality.failures[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sphre"], "did you mean 'sphere'"),
        (["box", "--option", "x"], "write name=value"),
        (["box", "--option", "contact_modl=sap"], "did you mean 'contact_model'"),
        (["box", "--solver", "featherstone", "--preset", "drake"], "no option 'preset'"),
        (["box", "--worlds", "0"], "positive numbers"),
        (["box", "--preset", "nope"], "accepted: 'approx32'"),
        (["box", "--option", "max_iterations=-1"], "max_iterations must be an integer >= 0"),
        (["box", "--solver", "mujoco_c", "--option", "foo=1"], "leave out --preset and --option"),
        (["box", "--solver", "drake", "--preset", "drake"], "leave out --preset and --option"),
        (["box", "--vs", "featherstone,SAP"], "--vs sap: --solver measures it already"),
    ],
)
def test_usage_errors(arguments, expected):
    """A command that means nothing ends with 2 before any scene is built."""
    code, text = invoke(*arguments)
    assert code == 2 and expected in text, text


def test_absent_native_engine_is_a_usage_error(monkeypatch):
    """An engine that is not installed ends the command before any scene is built, and the message names the remedy."""
    monkeypatch.setattr(bench_command, "find_spec", lambda module: None)
    for arguments, extra in ((["box", "--vs", "drake"], "oracle"), (["box", "--solver", "mujoco_c"], "sim")):
        code, text = invoke(*arguments)
        assert code == 2 and f"pip install 'newton-sap[{extra}]'" in text, text


def test_absent_device_is_a_usage_error():
    """A device that is not there ends the command before any scene is built, and the message names those that are."""
    result = CliRunner().invoke(app, ["bench", "box", "--device", "nope"])
    assert result.exit_code == 2 and "--device 'nope' cannot be used" in result.output and "cpu" in result.output


def test_native_engines_take_no_options():
    """An engine that could only ignore its options refuses them."""
    for name in NATIVE:
        with pytest.raises(ValueError, match=f"{name} takes no options, not foo"):
            make_run(make_scene("sphere", device="cpu"), name, {"foo": 1})


@pytest.mark.skipif(find_spec("mujoco") is None, reason="needs mujoco")
def test_peer_is_alternated():
    """A peer gets its own row and the ratio of times comes with quartiles."""
    outcome = bench(brief("sphere", peers=("mujoco_c",), modes=("captured",), repeats=3))
    assert [row.solver for row in outcome.rows] == ["sap", "mujoco_c"] and not outcome.failed
    (ratio,) = outcome.ratios
    assert ratio.low <= ratio.median <= ratio.high and ratio.valid


@pytest.mark.skipif(find_spec("pydrake") is None, reason="needs drake")
def test_drake_steps_the_same_scene():
    """Drake's plant follows SAP's fine run of a landing sphere to a tenth of a millimetre."""
    scene = make_scene("sphere", device="cpu")
    assert error_mm(make_run(scene, "drake", {}), fine_poses(scene)) < 0.1


@pytest.mark.skipif(find_spec("pydrake") is None, reason="needs drake")
def test_incomparable_scene_is_left_out():
    """A peer that has no version of a scene is named with the reason and fails nothing."""
    outcome = bench(brief("boxes10", solver="drake"))
    (row,) = outcome.rows
    assert not outcome.failed and row.ms is None and "left out" in report.cells(row)[-1]


def test_runs_take_turns():
    """Every round times all runs once, from the same start."""

    class Fake:
        log = []

        def __init__(self, name):
            self.name = name

        def rewind(self):
            self.log.append(f"{self.name} rewinds")

        def advance(self, steps, mode):
            self.log.append(f"{self.name} {steps} {mode}")

    times = alternate({"a": (Fake("a"), "eager", 10), "b": (Fake("b"), "captured", 20)}, 2)
    assert Fake.log == ["a rewinds", "a 10 eager", "b rewinds", "b 20 captured"] * 2
    assert len(times["a"]) == len(times["b"]) == 2
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, 2.0, 4.0)


def test_contact_state_is_measured():
    """A resting sphere sinks in by its weight over the stiffness, and the ground carries its weight."""
    run = marked_run("sphere", steps=500)
    contacts, penetration, slip = contact_state(run)
    assert contacts == 1.0 and slip < 1e-2
    assert penetration == pytest.approx(1e3 * run.scene.weight() / 1e4, rel=1e-3)
    quality = judge(run)
    assert quality.force_from == "contact_f" and not quality.failures
    assert sum(quality.iterations_histogram.values()) == 40


def test_the_ground_carries_the_weight_on_the_moon():
    """The weight that contact forces are compared with is that under the model's gravity."""
    run = marked_run("sphere", steps=0)
    run.model.set_gravity((0.0, 0.0, -1.62))
    run.advance(500, "captured")
    run.mark()
    assert judge(run).force_over_weight == pytest.approx(1.0, rel=1e-3)


def test_energy_of_the_cartpole_is_kept():
    """Where energy is conserved, the drift is told and small."""
    quality = judge(marked_run("cartpole", worlds=2))
    assert abs(quality.energy_drift) < 1e-2 and quality.force_over_weight is None


def test_worlds_do_not_depend_on_the_batch():
    """World 0 gets the same random forces in any batch, another world gets others, free joints get none."""
    one, three = make_scene("ant_active", 1).forces, make_scene("ant_active", 3).forces
    dofs = one.shape[1]
    assert np.array_equal(one, three[:, :dofs]) and not np.array_equal(one, three[:, dofs : 2 * dofs])
    assert not one[:, :6].any() and one[:, 6:].all()


@pytest.mark.parametrize("mode", ["eager", "captured"])
def test_rewinding_repeats_the_measurement(mode):
    """Both modes give the same end state each time they start from the mark."""
    run = marked_run("ant_active", worlds=2, steps=20)
    ends = []
    for _ in range(2):
        run.rewind()
        run.advance(20, mode)
        ends.append(run.poses().copy())
    assert np.array_equal(*ends)


@pytest.mark.parametrize("worlds", [128, 1000])
def test_memory_of_many_worlds(worlds):
    """A humanoid of many takes at most 64 KiB beside Newton's own arrays, with room for the 32 contacts of lying."""
    scene = make_scene("humanoid", worlds)
    report = SolverSAP(scene.model).report()
    assert report.memory <= worlds * 64 * 1024
    assert report.contact_capacity >= 32 * worlds


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_all_shapes_have_the_gap_that_is_asked_for(gap):
    """The ground and those of files among them."""
    gaps = make_scene("quadruped", 2, gap=gap).model.shape_gap.numpy()
    np.testing.assert_array_equal(gaps, np.float32(gap))


def test_slots_of_many_piles():
    """Hundreds of bins of spheres have as many slots as spheres that fall into a pile have contacts."""
    worlds, spheres, per_sphere = 300, 32, 7
    report = SolverSAP(make_scene("spheres32", worlds).model).report()
    assert report.contact_capacity >= worlds * spheres * per_sphere


def test_memory_belongs_to_the_solver():
    """Every buffer is counted once and the model's arrays are not."""
    run = marked_run("sphere", steps=0)
    sizes = memory_by_buffer(run.solver, run.model)
    assert {"motion", "hessian"} <= set(sizes) and "bodies" not in sizes
    assert sizes["motion"] >= run.solver.motion.A.capacity + run.solver.motion.v.capacity
    assert not memory_by_buffer(run.model, run.model)


def test_memory_of_a_row_is_what_the_solver_reports():
    """The contacts that a run hands over are not the solver's."""
    (row,) = bench(brief("sphere", modes=("eager",))).rows
    assert sum(row.memory.values()) == marked_run("sphere").solver.report().memory == row.memory_per_world


def test_profile_names_the_stages():
    """The stages of a step add up to the whole."""
    rows = profile(marked_run("sphere", steps=0), steps=10)
    assert [row.name for row in rows] == ["collide", *(stage.lstrip("_") for stage in STAGES)]
    assert sum(row.share for row in rows) == pytest.approx(1.0)
