"""The kernels' lanes work together: 32 lanes per group, as fibres on the CPU, find what one lane finds."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import newton_sap

SCENE = Path(__file__).with_name("lanes_scene.py")
LANES = "block, lane = wp.tid()"
pytestmark = pytest.mark.slow

CASES = [
    ("quadrupeds", {}),
    ("quadrupeds", {"contact_model": "sap", "precision": "mixed"}),
    ("tied", {"contact_model": "similar", "spin_friction": True}),
    ("tied", {"precision": "mixed"}),  # whose change of velocity is refined
    ("snake", {"friction_bound": "start"}),
    ("field", {}),
    ("heap", {"friction_bound": "start"}),  # "solved" bounds are taken on the way, where roundings of a sum may decide
]


SAME_VALUES = tuple(f"tendons.{name}[s] = " for name in ("F_first", "F_last", "middle"))
"""What two lanes may write at once: the laws of one tendon measure its path each by itself."""


def run(mode, scene, options, path=None):
    """Step a scene in a process of its own; what it printed."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH")))))
    command = [sys.executable, str(SCENE), mode, scene, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def together(scene, options):
    """Found by one lane and by 32."""
    return run("serial", scene, options), run("blocks", scene, options)


def assert_same(many, scene, options):
    """What 32 lanes found is what one finds, to rounding."""
    one = run("serial", scene, options)
    assert one["lanes"] == [1, 1] and many["lanes"] == [32, 32]
    assert one["healthy"] and many["healthy"] and one["contacts"] == many["contacts"]
    assert min(one["contacts"]) >= 4
    tolerance = 1.0e-4 if options.get("precision") == "mixed" else 1.0e-5
    np.testing.assert_allclose(many["v"], one["v"], rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(many["f"], one["f"], rtol=0.0, atol=1e3 * tolerance)
    assert np.abs(one["f"]).max() > 1.0


@pytest.mark.parametrize(("scene", "options"), CASES, ids=str)
def test_thirty_two_lanes_find_what_one_lane_finds(scene, options):
    """The same scene with blocks of 1 and of 32 lanes ends in the same velocities and forces."""
    assert_same(run("blocks", scene, options), scene, options)


def test_points_without_numbers_are_sorted_by_lanes():
    """Contacts that are no numbers, in any order, spoil their own world and no other."""
    one, many = together("spoilt", {})
    assert one["contacts"] == many["contacts"] and not one["healthy"] and not many["healthy"]
    assert len(set(many["rows"])) == len(many["rows"]) == sum(many["contacts"])
    one, many = (np.array(found["f"]) for found in (one, many))
    half = len(one) // 2
    assert np.isnan(one[:half]).any() and np.isnan(many[:half]).any()
    np.testing.assert_allclose(many[half:], one[half:], rtol=0.0, atol=1.0e-2)


@pytest.mark.skipif(not all(map(shutil.which, ("g++", "addr2line"))), reason="needs GCC")
@pytest.mark.parametrize(("scene", "options"), CASES, ids=str)
def test_barriers_keep_lanes_apart(scene, options):
    """Between two barriers no lane touches what another one writes, nor does a block what another block writes, whatever would
    come of it; all lanes meet at each barrier."""
    found = run("races", scene, options)
    assert found["lanes"] == [32, 32] and found["uneven"] == 0
    assert [pair for pair in found["races"] if not all(any(s in place for s in SAME_VALUES) for place in pair)] == []


@pytest.mark.parametrize(("scene", "options"), CASES, ids=str)
def test_the_order_of_the_lanes_does_not_matter(scene, options, tmp_path):
    """Between two barriers fibres go one after the other; in a copy of the package whose lanes are counted backwards, the
    first one comes last."""
    copy = shutil.copytree(Path(newton_sap.__file__).parent, tmp_path / "newton_sap")
    changed = 0
    for path in copy.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        changed += text.count(LANES)
        path.write_text(counted_backwards(text), encoding="utf-8")
    assert changed >= 8
    many = run("blocks", scene, options, str(tmp_path))
    assert Path(many["package"]).is_relative_to(copy)
    assert_same(many, scene, options)


def counted_backwards(text):
    """Let the lanes of every kernel count backwards."""
    lines = []
    for line in text.splitlines():
        lines.append(line)
        if line.strip() == LANES:
            lines.append(line.replace(LANES, "lane = wp.block_dim() - 1 - lane"))
    return "\n".join(lines) + "\n"
