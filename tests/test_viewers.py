"""Viewers by name: what a missing one says, and that their page can be followed."""

import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import newton
import newton.examples
import pytest
from typer.testing import CliRunner

from newton_sap import screen
from newton_sap.cli.app import app
from newton_sap.cli.example import example_module
from newton_sap.scenes import sphere
from newton_sap.screen import VIEWERS, Screen, angles, open_viewer

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("viewer", sorted(set(VIEWERS) - {"null"}))
def test_missing_viewer_says_what_to_install(monkeypatch, viewer):
    """Before anything is built, the message names the module and the package that brings it."""
    module, package = VIEWERS[viewer]
    monkeypatch.setattr(screen, "find_spec", lambda name: None if name == module else find_spec(name))
    result = CliRunner().invoke(app, ["run", "basic_pendulum", "--viewer", viewer])
    assert result.exit_code == 2
    assert f"--viewer {viewer} needs {module}" in result.output and package in result.output


def test_extras_of_the_messages_exist():
    """What a message tells to install is an extra of this package, or a package of its own."""
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE))
    named = {re.fullmatch(r"newton-sap\[(\w+)\]", need[1]) for need in VIEWERS.values() if need}
    assert {match[1] for match in named if match} == {"viewer", "browser", "importers"} <= extras


def test_page_names_viewers_examples_and_pictures_that_exist():
    """The table has every viewer and no other; the command's example and the picture are there."""
    text = (ROOT / "docs" / "viewers.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\|[^|]*\|$", text, re.MULTILINE) == [
        *("null", "gl", "viser", "rerun", "usd"),
    ]
    (example,) = re.findall(r"newton-sap run (\w+)", text)
    example_module(example)
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert (ROOT / "docs" / picture).stat().st_size > 10_000


class Window:
    """A viewer that somebody watches: it is closed after so many frames, and paused at one of them."""

    def __init__(self, frames, paused_at=None, headless=False):
        self.frames, self.paused_at, self._headless = frames, paused_at, headless
        self.drawn, self.states, self.closed, self.camera = 0, [], False, None

    def set_model(self, model):
        self.model = model

    def set_camera(self, pos, pitch, yaw):
        self.camera = (pos, pitch, yaw)

    def is_running(self):
        return self.drawn < self.frames

    def should_step(self):
        return self.drawn != self.paused_at

    def begin_frame(self, now):
        self.now = now

    def log_state(self, state):
        self.states.append(self.now)

    def end_frame(self):
        self.drawn += 1

    def close(self):
        self.closed = True


def shown(viewer, times):
    """Show a state at some times as an example does; return how long that takes [s]."""
    scene = sphere()
    screen = Screen(viewer, scene.model, eye=(1.0, 1.0, 1.0), target=(0.0, 0.0, 0.0))
    state, began = scene.state(), perf_counter()
    for now in times:
        screen.show(state, now)
    taken = perf_counter() - began
    screen.stay()
    return taken


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only X needs a display of its own")
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda script: script.stem)
def test_script_without_a_display_says_what_works(script, monkeypatch, capsys):
    """It ends with code 2 and one line that names other viewers, before anything is built."""
    pytest.importorskip("pyglet")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(sys, "argv", [str(script), "--viewer", "gl"])
    monkeypatch.setattr(newton.ModelBuilder, "finalize", lambda *_, **__: pytest.fail("a model was built"))
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2 and len(said) == 1
    for words in (script.name, "--viewer gl", "display", "viser, rerun, usd or null"):
        assert words in said[0]


def test_script_on_a_device_that_is_not_there_says_which_are(monkeypatch, capsys):
    """A script that is asked for an absent device ends with code 2 and one line that names those of the machine."""
    monkeypatch.setattr(sys, "argv", ["script.py", "--viewer", "null", "--device", "cuda:99"])
    with pytest.raises(SystemExit) as stop:
        open_viewer(newton.examples.create_parser())
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert stop.value.code == 2 and "--device 'cuda:99' cannot be used" in line and "devices here: cpu" in line


def test_viewer_is_opened_as_newton_does(monkeypatch):
    """Where nothing is in its way, the viewer of the command line comes back with all arguments."""
    monkeypatch.setattr(sys, "argv", ["script.py", "--viewer", "null", "--num-frames", "7"])
    viewer, args = open_viewer(newton.examples.create_parser())
    assert isinstance(viewer, newton.viewer.ViewerNull) and args.num_frames == 7


def test_examples_stay_in_a_window_until_it_is_closed():
    """A window shows frames at their time, draws on while paused and afterwards, and is closed in the end."""
    window = Window(frames=6, paused_at=2)
    assert shown(window, (0.0, 0.1, 0.2)) > 0.2
    assert window.states == [0.0, 0.1, 0.2] and window.drawn == 6 and window.closed
    assert window.camera == ((1.0, 1.0, 1.0), pytest.approx(-35.2644), pytest.approx(-135.0))


def test_examples_go_on_where_a_window_is_closed_early():
    """Nothing is drawn in a window that is gone."""
    window = Window(frames=1)
    shown(window, (0.0, 0.1, 0.2))
    assert window.states == [0.0] and window.closed


def test_examples_do_not_wait_where_nobody_watches():
    """Without a window every frame is drawn once, at once; without a viewer nothing happens."""
    headless = Window(frames=100, headless=True)
    assert shown(headless, (0.0, 50.0)) < 10.0
    assert headless.states == [0.0, 50.0] and headless.drawn == 2 and headless.closed
    silent = newton.viewer.ViewerNull(num_frames=100)
    shown(silent, (0.0, 50.0))
    assert silent.frame_count == 2
    shown(None, (0.0, 50.0))


@pytest.mark.parametrize(("target", "found"), [((1, 0, 0), (0, 0)), ((0, 2, 0), (0, 90)), ((-1, 0, -1), (-45, 180))])
def test_camera_looks_at_its_target(target, found):
    """Pitch and yaw are those of Newton's cameras, with z up."""
    assert angles((0, 0, 0), target) == pytest.approx(found)
