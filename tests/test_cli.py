"""The command line and the stand-ins that let Newton's examples run with another solver."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import newton
import newton.solvers
import numpy as np
import pytest
from typer.testing import CliRunner

from newton_sap import cli, scenes, swap
from newton_sap.cli.app import app
from newton_sap.cli.example import run_example
from newton_sap.cli.patience import TEXT
from newton_sap.compare import contestants

FEATHERSTONE = newton.solvers.SolverFeatherstone
MUJOCO = newton.solvers.SolverMuJoCo

# Arguments beside the defaults; a later --num-frames wins over an earlier one.
ACCEPTANCE = {
    "basic_pendulum": [],
    "basic_joints": [],
    "basic_urdf": ["--world-count", "2"],
    "basic_shapes": [],
    "basic_dzhanibekov": [],
    "basic_heightfield": [],
    "basic_mimic_joint": [],
    "basic_conveyor": [],
    "basic_conveyor_forces": [],
    "basic_multi_solver_overlay": [],
    "robot_cartpole": ["--world-count", "2"],
    "robot_omniwheel": ["--num-frames", "300"],
    "selection_cartpole": ["--world-count", "2"],
    "selection_articulations": ["--world-count", "2"],
    "selection_materials": ["--world-count", "2"],
    "selection_multiple": ["--world-count", "2"],
    "sensor_contact": [],
    "sensor_imu": ["--num-frames", "200"],
    "controller_joint_impedance_heterogeneous": [],
    "newton_cradle": [],
    "balance_bird": [],
    "domino_spiral": [],
    "pyramid": ["--num-frames", "20", "--num-pyramids", "1", "--pyramid-size", "5"],
    "recording": ["--world-count", "2"],
    "kamino_basic_fourbar": ["--world-count", "2", "--no-from-usd"],
    "kamino_basic_heterogeneous": ["--num-frames", "30", "--no-from-usd"],
    "kamino_earworm_flowers": ["--world-count", "1"],  # a heavy tower on light loops
}
SLOW = pytest.mark.slow
LONG = (
    "basic_conveyor",
    "basic_multi_solver_overlay",
    "kamino_basic_heterogeneous",
    "kamino_earworm_flowers",
    "selection_cartpole",
    "sensor_imu",
)


def invoke(*arguments):
    """Run the command line in this process; return exit code and all it printed."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_help_names_the_commands():
    """The help lists every command."""
    code, text = invoke("--help")
    assert code == 0
    assert all(command in text for command in ("run", "demo", "solvers"))


def test_solvers_lists_builtin_ones_and_sap():
    """The table holds Newton's solvers and this one."""
    code, text = invoke("solvers")
    assert code == 0
    assert all(name in text for name in ("featherstone", "mujoco", "sap"))


def test_unknown_example_suggests_the_nearest():
    """A misspelt example is a usage error with a suggestion."""
    code, text = invoke("run", "basic_pendulm")
    assert code == 2
    assert "'basic_pendulum'" in text


def test_unknown_solver_suggests_the_nearest():
    """A misspelt solver is a usage error with a suggestion."""
    code, text = invoke("run", "basic_pendulum", "--solver", "fetherstone")
    assert code == 2
    assert "did you mean 'featherstone'" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--viewer", "window"], "null, gl, viser, usd, rerun"),
        (["--solver", "featherstone", "--preset", "drake"], "no option 'preset'"),
        (["--solver", "original", "--preset", "drake"], "--preset needs a solver"),
        (
            ["--solver", "featherstone", "--world-count", "2"],
            "rejects its arguments: unrecognized arguments: --world-count",
        ),
        (["--", "--quiet", "--num-frames", "many"], "newton.examples basic_pendulum --help lists them"),
        (["--option", "contact_model"], "write name=value"),
        (["--option", "contact_model=lag"], "did you mean 'lagged'"),
        (["--option", "contact_modle=sap"], "did you mean 'contact_model'"),
        (["--solver", "original", "--option", "max_iterations=3"], "--option max_iterations needs a solver"),
        (["--option", "collision_pipeline=3"], "collision_pipeline: takes objects of Python"),
        (["--num-frames", "0"], "greater than or equal to 1"),
        (["--option", "max_iterations=-1"], "max_iterations must be an integer >= 0"),
        (["--preset", "nope"], "accepted: 'approx32'"),
        (["--device", "nope"], "--device 'nope' cannot be used"),
        (["--output", ""], "--output '.' is a folder"),
        (["--viewer", "usd", "--", "--output-path", str(Path(__file__).parent)], "is a folder: name a file"),
        (["--viewer", "usd", "--", "--output-path", "a.txt"], "'a.txt': name a file that ends in .usd, .usda or .usdc"),
        (["--picture", "a.txt"], "--picture 'a.txt': name a file that ends in .png"),
        (["--picture", "a.png", "--viewer", "viser"], "leave out --viewer viser"),
    ],
)
def test_usage_errors(arguments, expected):
    """What cannot be carried out ends with code 2 and a message that names the remedy."""
    code, text = invoke("run", "basic_pendulum", *arguments)
    assert code == 2
    assert expected in text and "usage:" not in text


def test_run_reports_and_writes_json(tmp_path):
    """A run prints its report and writes the same figures as JSON."""
    output = tmp_path / "deep" / "run.json"
    arguments = ["--solver", "featherstone", "--num-frames", "5", "--output", str(output)]
    code, text = invoke("run", "basic_pendulum", *arguments)
    assert code == 0, text
    assert "SolverFeatherstone in place of SolverXPBD" in text
    record = json.loads(output.read_text())
    assert (record["example"], record["solver"], record["frames"]) == ("basic_pendulum", "SolverFeatherstone", 4)
    assert record["ok"] and record["steps_per_s"] > 0.0 and record["non_finite"] == []
    assert set(record["versions"]) == {"newton_sap", "newton", "warp"}


def test_files_that_cannot_be_written_are_refused(tmp_path):
    """A file may replace another or lie in folders to be made; a folder and what lies in a file are refused, untouched."""
    from newton_sap.cli.usage import UsageError, require_writable

    taken = tmp_path / "taken"
    taken.write_text("kept")
    for path in (taken, tmp_path / "new", tmp_path / "deep" / "er" / "new"):
        require_writable("--output", path)
    for path, reason in (
        (tmp_path, "is a folder"),
        (taken / "new", "taken' is not a folder"),
        (Path("x" * 999), "long"),
    ):
        with pytest.raises(UsageError, match=f"--output .*{reason}"):
            require_writable("--output", path)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"] and taken.read_text() == "kept"


@pytest.mark.parametrize(
    "command",
    [
        ["run", "basic_pendulum", "--output"],
        ["bench", "sphere", "--json"],
        ["bench", "sphere", "--markdown"],
        ["demo", "--output"],
        ["compare", "sphere", "--output"],
    ],
)
def test_every_command_asks_for_its_file_first(command, tmp_path, monkeypatch):
    """A place that cannot be written ends a command before its work."""
    from newton_sap.cli import bench_command, run_command
    from newton_sap.compare import session

    def working(*arguments, **keywords):
        raise AssertionError("the command began to work")

    for module, name in ((run_command, "run_example"), (bench_command, "bench"), (session, "_run")):
        monkeypatch.setattr(module, name, working)
    (tmp_path / "taken").write_text("")
    code, text = invoke(*command, str(tmp_path / "taken" / "x"))
    assert code == 2 and f"{command[-1]} " in text and "is not a folder" in text, text


def test_usd_run_says_where_its_file_is(tmp_path, monkeypatch):
    """The file of the usd viewer is Newton's own or the one that the example's arguments name, and the run ends with it."""
    pytest.importorskip("pxr")
    monkeypatch.chdir(tmp_path)
    arguments = ("run", "basic_pendulum", "--solver", "featherstone", "--viewer", "usd", "--num-frames", "2")
    for extra, name in (((), "output.usd"), (("--", "--output-path", "named.usd"), "named.usd")):
        code, text = invoke(*arguments, *extra)
        assert code == 0 and f"written: {name}" in text, text
        assert (tmp_path / name).stat().st_size


def test_help_keeps_its_brackets_and_promises(monkeypatch):
    """Units survive the markup of the help, bench and compare list their scenes, and demo names the file it writes."""
    from newton_sap.bench import SCENES

    monkeypatch.setenv("COLUMNS", "200")
    texts = {command: " ".join(invoke(command, "--help")[1].split()) for command in ("bench", "compare", "demo")}
    assert "Shortest measurement, in seconds." in texts["bench"] and "demo.png" in texts["demo"]
    for command, known in (("bench", SCENES), ("compare", scenes.SCENES)):
        assert f"Scenes: {', '.join(known)}." in texts[command]


def test_run_applies_the_example_checks():
    """The pendulum's check is made for 100 frames: it passes then, and fails after 60."""
    assert invoke("run", "basic_pendulum", "--solver", "featherstone", "--test")[0] == 0
    code, text = invoke("run", "basic_pendulum", "--solver", "featherstone", "--test", "--num-frames", "60")
    assert code == 1
    assert "the example's checks failed" in text


def test_run_leaves_the_original_alone():
    """With 'original' the example keeps its own solver."""
    result = run_example("basic_pendulum", "original", ["--viewer", "null", "--num-frames", "3", "--quiet"])
    assert (result.solver, result.instead_of, result.verdict) == ("SolverXPBD", "", "not tested")


def test_run_passes_arguments_to_the_example():
    """Arguments after -- reach the example, which may reject them."""
    code, text = invoke(
        "run", "robot_cartpole", "--solver", "featherstone", "--num-frames", "2", "--", "--world-count", "3"
    )
    assert code == 0, text
    code, text = invoke("run", "basic_pendulum", "--solver", "featherstone", "--", "--no-such-option")
    assert code == 2


def test_example_that_needs_its_own_solver_says_so():
    """An example that reads the backend of its solver fails with that explanation."""
    result = run_example("basic_plotting", "featherstone", ["--viewer", "null", "--num-frames", "2", "--quiet"])
    assert not result.ok and result.verdict == "error"
    assert "internals of SolverMuJoCo" in result.message


def test_missing_libraries_are_named(monkeypatch, capsys):
    """Without typer the command says what to install."""
    monkeypatch.setitem(sys.modules, "typer", None)
    assert cli.main() == 2
    assert "pip install 'newton-sap[cli]'" in capsys.readouterr().err


def test_solvers_whose_library_is_missing_are_told(monkeypatch):
    """The table says so, and commands refuse them with the remedy, before they build anything."""
    monkeypatch.setattr(contestants, "find_spec", lambda module: None)
    remedy = "pip install 'newton-sap[sim]'"
    code, text = invoke("solvers")
    assert code == 0 and remedy in text and "incomplete" in text
    for command in (["run", "basic_pendulum", "--solver", "MuJoCo"], ["bench", "ant", "--vs", "mujoco"]):
        code, text = invoke(*command)
        assert code == 2
        assert remedy in text


def test_help_needs_no_solver():
    """Commands and their options are declared without Warp, Newton or the work of any command."""
    code = "import sys, newton_sap.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"newton_sap.cli.compare", "newton_sap.cli.run"} <= loaded
    assert not {"warp", "newton", "newton_sap.cli.usage"} & loaded
    assert not [name for name in loaded if name.startswith("newton_sap.cli.") and name.endswith("_command")]


def test_module_entry_point():
    """The command line starts as a module and prints its version without warnings."""
    done = subprocess.run([sys.executable, "-m", "newton_sap.cli", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_classes_come_back_after_the_context():
    """Newton's classes are restored, also after an exception."""
    before = {name: getattr(newton.solvers, name) for name in swap.REPLACEABLE}
    with pytest.raises(RuntimeError), swap.swapped_solvers(FEATHERSTONE):
        assert newton.solvers.SolverMuJoCo is not before["SolverMuJoCo"]
        assert newton.solvers.SolverFeatherstone is FEATHERSTONE, "the chosen class itself stays"
        raise RuntimeError
    assert {name: getattr(newton.solvers, name) for name in swap.REPLACEABLE} == before


def test_stand_in_reads_like_the_original_and_builds_the_target():
    """Class attributes are the original's; the call drops its keywords and builds the target."""
    model = scenes.sphere().model
    with swap.swapped_solvers(FEATHERSTONE) as log:
        from newton.solvers import SolverKamino, SolverMuJoCo

        solver = SolverMuJoCo(model, njmax=10, iterations=3)
        assert isinstance(solver, FEATHERSTONE) and not isinstance(solver, SolverMuJoCo)
        assert SolverMuJoCo.__name__ == "SolverMuJoCo"
        assert SolverMuJoCo.EqType is MUJOCO.EqType
        assert SolverKamino.Config.from_model(model) is not None
        with pytest.raises(AttributeError, match="depends on the internals of SolverMuJoCo"):
            solver.mjw_model  # noqa: B018
    assert log.solvers == [solver] and log.replaced == ["SolverMuJoCo"]


def test_custom_attributes_of_both_classes_are_registered():
    """Importers need the original's attributes, the solver its own."""
    calls = []

    class SolverNoting(FEATHERSTONE):
        @classmethod
        def register_custom_attributes(cls, builder):
            calls.append(cls.__name__)

    builder = newton.ModelBuilder()
    with swap.swapped_solvers(SolverNoting):
        newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    assert calls == ["SolverNoting"]
    assert any("mujoco" in name for name in builder.custom_attributes)


def test_contacts_of_a_native_collider_are_supplied():
    """A dropped sphere rests on the ground, whether the example passes no contacts or a buffer nobody fills."""
    scene = scenes.sphere(height=0.11)
    for passes in ("nothing", "unfilled"):
        with swap.swapped_solvers(FEATHERSTONE):
            solver = newton.solvers.SolverMuJoCo(scene.model)
            contacts = None if passes == "nothing" else newton.Contacts(solver.get_max_contact_count(), 0)
            assert _height_after(scene, solver, contacts, 480) == pytest.approx(0.1, abs=2e-3), passes


def test_contacts_stay_off_where_the_example_disables_them():
    """A solver built without contacts lets the sphere fall through the ground."""
    scene = scenes.sphere(height=0.11)
    with swap.swapped_solvers(FEATHERSTONE):
        solver = newton.solvers.SolverMuJoCo(scene.model, disable_contacts=True)
        assert _height_after(scene, solver, None, 120) < -0.5


def test_contacts_filled_by_the_example_are_used_as_they_are():
    """Contacts collected once, far from the ground, stay empty: the stand-in must not refresh them."""
    scene = scenes.sphere(height=0.5)
    with swap.swapped_solvers(FEATHERSTONE):
        solver = newton.solvers.SolverMuJoCo(scene.model)
        pipeline = newton.CollisionPipeline(scene.model)
        contacts = pipeline.contacts()
        pipeline.collide(scene.state(), contacts)
        assert _height_after(scene, solver, contacts, 240) < -1.0


def test_models_with_particles_keep_their_solver():
    """A soft model is left to the solver the example chose."""
    builder = newton.ModelBuilder()
    builder.add_particle((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 1.0)
    model = builder.finalize()
    original = newton.solvers.SolverXPBD
    with swap.swapped_solvers(FEATHERSTONE) as log:
        solver = newton.solvers.SolverXPBD(model)
    assert type(solver) is original and log.solvers == []
    assert log.kept == ["SolverXPBD stays: its model has particles"]


def test_calls_that_tune_one_solver_are_noted_once():
    """What an example asks of SolverVBD alone does nothing to another solver, and the log says so."""
    scene = scenes.sphere()
    with swap.swapped_solvers(FEATHERSTONE) as log:
        solver = newton.solvers.SolverVBD(scene.model)
        for _ in range(3):
            solver.set_rigid_history_update(False)
    assert log.kept == ["set_rigid_history_update does nothing: it tunes SolverVBD alone"]


def _height_after(scene, solver, contacts, steps):
    state, following, control = scene.state(), scene.model.state(), scene.model.control()
    for _ in range(steps):
        state.clear_forces()
        solver.step(state, following, control, contacts, scene.dt)
        state, following = following, state
    return float(state.body_q.numpy()[0, 2])


def test_gripper_targets_close_then_lift():
    """The gripper scene's targets close first and lift later."""
    scene = scenes.gripper_cube()
    control = scene.model.control()
    for time, expected in ((0.0, [0.0, 0.0, 0.0]), (0.3, [0.0, 0.03, 0.03]), (9.0, [0.2, 0.03, 0.03])):
        scene.actuate(control, time)
        np.testing.assert_allclose(control.joint_target_q.numpy()[:3], expected, atol=1e-7)


@pytest.mark.parametrize("name", scenes.SCENES)
def test_scenes_start_in_their_contacts(name):
    """Each scene starts in the contacts it was drawn with."""
    scene = scenes.SCENES[name]()
    assert scene.name == name and scene.description.endswith(".")
    state = scene.state()
    np.testing.assert_allclose(
        state.body_q.numpy(), scene.model.body_q.numpy(), atol=1e-6
    ) if name == "sphere" else None
    pipeline = newton.CollisionPipeline(scene.model)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    expected = {
        "box_on_incline": 4,
        "box_stack": 40,
        "free_body": 0,
        "gripper_cube": 4,
        "loaded_chain": 0,
        "pendulum_cart": 0,
        "quadruped": 4,
        "sphere": 0,
    }
    assert int(contacts.rigid_contact_count.numpy()[0]) == expected[name]


def test_options_reach_the_solver(tmp_path):
    """What --option names is what the solver runs with, and the JSON says so."""
    file = tmp_path / "run.json"
    options = (
        "--option",
        "contact_model=sap",
        "--option",
        "max_iterations=7",
        "--num-frames",
        "2",
        "--output",
        str(file),
    )
    code, text = invoke("run", "basic_pendulum", *options)
    assert code == 0, text
    assert json.loads(file.read_text(encoding="utf-8"))["options"] == {"contact_model": "sap", "max_iterations": 7}


def test_sap_runs_an_example():
    """An example runs with SolverSAP and its report reaches the result."""
    result = run_example("basic_pendulum", "sap", ["--viewer", "null", "--num-frames", "10", "--quiet"])
    assert result.ok, result.message
    assert (result.solver, result.instead_of) == ("SolverSAP", "SolverXPBD")
    assert result.report["non_finite_steps"] == 0 and result.report["steps"] > 0


def test_frames_end_a_run_that_its_viewer_would_not():
    """Viewers for people run until they are closed; a number of frames ends them all the same."""
    result = run_example("basic_pendulum", "sap", ["--viewer", "null", "--num-frames", "50", "--quiet"], frames=6)
    assert result.verdict == "not tested" and result.frames == 5  # the first is timed apart


@pytest.mark.usefixtures("interruptible")
def test_interrupted_run_reports_what_it_has():
    """The first Ctrl-C ends a run after its frame, with its report; Python's own handler is back afterwards."""

    def interrupt(frames, of):
        if frames == 4:
            signal.raise_signal(signal.SIGINT)

    arguments = ["--viewer", "null", "--num-frames", "50", "--quiet"]
    result = run_example("basic_pendulum", "sap", arguments, on_frame=interrupt)
    assert result.verdict == "interrupted" and not result.ok
    assert result.frames == 3 and result.report["steps"] > 0  # the first is timed apart
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):  # unfinished, its checks mean nothing
        run_example("basic_pendulum", "sap", [*arguments, "--test"], on_frame=interrupt)


@pytest.mark.usefixtures("interruptible")
def test_second_interrupt_ends_at_once():
    """Who asks twice does not wait for the end of the frame."""

    def interrupt(frames, of):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_example("basic_pendulum", "sap", ["--viewer", "null", "--quiet"], on_frame=interrupt)


def test_interrupted_command_ends_with_130(tmp_path, monkeypatch):
    """The command prints the figures of an interrupted run and says how far it came."""
    from newton_sap.cli import run_command
    from newton_sap.cli.example import RunResult

    result = RunResult(example="basic_pendulum", solver="SolverSAP", verdict="interrupted", frames=7, first_frame_s=0.1)
    monkeypatch.setattr(run_command, "run_example", lambda *arguments, **keywords: result)
    code, text = invoke("run", "basic_pendulum")
    assert code == 130 and "interrupted after 8 frames" in text and "times real time" in text


def test_run_without_a_frame_prints_no_figures():
    """A solver that cannot be built leaves its reason, and no table of zeros."""
    code, text = invoke("run", "basic_pendulum", "--solver", "style3d", "--num-frames", "3")
    assert code == 1 and "register_custom_attributes" in text and "times real time" not in text


def test_browser_ends_after_the_frames_asked_for():
    """The page of viser, which never ends by itself, is left after the frames, and the example's checks are applied."""
    pytest.importorskip("viser")
    code, text = invoke("run", "basic_pendulum", "--viewer", "viser", "--num-frames", "100", "--test")
    assert code == 0 and "passed" in text, text


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name in LONG else ()) for name in ACCEPTANCE])
def test_bundled_example_passes_its_own_checks_with_sap(name):
    """Newton's example passes Newton's own checks when SolverSAP steps it."""
    arguments = ["--viewer", "null", "--num-frames", "100", "--test", "--quiet", *ACCEPTANCE[name]]
    result = run_example(name, "sap", arguments)
    assert result.verdict == "passed" and result.ok, f"{result.message}\n{result.details}"
    assert result.instead_of, "the example ran with its own solver"


@pytest.mark.parametrize("name", ["basic_pendulum", pytest.param("basic_shapes", marks=SLOW), "robot_cartpole"])
def test_bundled_example_passes_without_its_graph(name):
    """Launching every kernel instead of replaying a graph changes no verdict."""
    arguments = ["--viewer", "null", "--num-frames", "100", "--test", "--quiet", *ACCEPTANCE[name]]
    result = run_example(name, "sap", arguments, eager=True)
    assert result.verdict == "passed" and result.ok, f"{result.message}\n{result.details}"


@pytest.mark.parametrize(
    "command",
    [
        "run basic_pendulum --num-frames 2",
        "compare free_body --solvers sap --num-frames 2 --no-reference",
        "bench cartpole --worlds 1 --eager --seconds 0.01 --repeats 1 --no-accuracy",
        "demo --num-frames 2",
    ],
)
def test_a_word_before_kernels_compile(command, monkeypatch, tmp_path):
    """What may take long says so first, on the error stream, also where no terminal shows its progress."""
    monkeypatch.chdir(tmp_path)
    arguments, said = command.split(), []
    if arguments[0] == "demo":  # is a comparison of four, and another test runs it

        def begin(*_, progress, **__):
            progress("sap")
            said.append("begun")
            raise KeyError

        monkeypatch.setattr("newton_sap.cli.compare_command.compare", begin)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 or said, result.output
    assert TEXT in result.stderr and TEXT not in result.stdout
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_demo_draws_a_picture(tmp_path):
    """The demonstration ends well and leaves its table and picture; before the robot has landed, SAP fails its check."""
    code, text = invoke("demo", "--output", str(tmp_path), "--num-frames", "90")
    assert code == 0, text
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    for shown in ("featherstone/16", "trunk height m", "force deviation", "verdict", "carries the robot's weight"):
        assert shown in text
    code, text = invoke("demo", "--output", str(tmp_path), "--num-frames", "2")
    assert code == 1 and "carries 0.000 of the robot's weight" in text and "--num-frames 60" in text


def test_picture_keeps_the_last_frame(tmp_path):
    """A picture is what the viewer shows when it closes, pixel by pixel, and the only frame that it draws."""
    image = pytest.importorskip("matplotlib.image")
    from newton_sap.cli.example import keep_last_frame

    pixels = np.random.default_rng(3).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    done = []
    viewer = SimpleNamespace(
        end_frame=lambda: done.append("drawn"),
        get_frame=lambda: SimpleNamespace(numpy=lambda: pixels),
        close=lambda: done.append("closed"),
    )
    keep_last_frame(viewer, tmp_path / "new" / "frame.png")
    viewer.end_frame()
    assert not done
    viewer.close()
    shown = np.round(255.0 * image.imread(tmp_path / "new" / "frame.png")).astype(np.uint8)
    np.testing.assert_array_equal(shown[..., :3], pixels)
    assert done == ["drawn", "closed"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only X needs a display of its own")
@pytest.mark.parametrize("drawing", [("--picture", "frame.png"), ("--viewer", "gl")])
def test_drawing_without_a_display_says_what_to_do(drawing, monkeypatch, tmp_path):
    """Without a display nothing is compiled or run, and the message names the way out."""
    pytest.importorskip("pyglet")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.chdir(tmp_path)
    code, text = invoke("run", "basic_pendulum", *drawing)
    assert code == 2 and drawing[0] in text and "xvfb-run" in text


def test_gallery_pictures_have_their_commands():
    """Every picture of the gallery is there, with a command whose example and arguments exist."""
    from newton_sap.cli.example import example_module

    root = Path(__file__).resolve().parent.parent
    text = (root / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"`newton-sap run (\w+) --num-frames \d+ --picture (\w+\.png)`", text)
    assert len(commands) >= 6
    for example, picture in commands:
        example_module(example)
        shown = f"docs/img/gallery_{picture}"
        assert (root / shown).is_file() and f"![{example}]({shown})" in text
