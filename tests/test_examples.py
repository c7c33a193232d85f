"""Every script in ``examples/`` runs headless and passes its own final check."""

import inspect
import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_examples_are_found():
    """The folder holds the documented scripts."""
    assert {script.stem for script in SCRIPTS} >= {"box_on_incline", "box_stack", "gripper_cube", "quadruped_standing"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_passes_its_check(script, capsys, request):
    """Its main() returns after its final check."""
    if "Tape" in script.read_text(encoding="utf-8"):
        request.getfixturevalue("adjoints")
    result = runpy.run_path(str(script))["main"]()
    assert result is not None
    assert capsys.readouterr().out, "an example prints what it found"


@pytest.mark.parametrize("frames", [1, 20])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_that_is_cut_short_ends_well(script, frames):
    """With few ``--num-frames`` a script does not judge what has not happened yet."""
    main = runpy.run_path(str(script))["main"]
    if "num_frames" not in inspect.signature(main).parameters:
        pytest.skip("does its work whatever the number of frames")
    assert main(num_frames=frames) is not None
