"""The kernels' lanes work together: 32 lanes per group, as fibres on the CPU, find what one lane finds."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCENE = Path(__file__).with_name("lanes_scene.py")


LAWS = [("sap", "float64"), ("lagged", "mixed")]


@functools.cache
def run(mode: str) -> dict:
    """Step a pair of quadrupeds onto the ground in a process of its own; what it printed, by law and precision."""
    command = [sys.executable, str(SCENE), mode, *(":".join(chosen) for chosen in LAWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = done.stdout.strip().splitlines()[-len(LAWS) :]
    return dict(zip(LAWS, map(json.loads, printed), strict=True))


@pytest.mark.parametrize(("law", "precision"), LAWS)
def test_thirty_two_lanes_find_what_one_lane_finds(law, precision):
    """The same scene with blocks of 1 and of 32 lanes ends in the same velocities to rounding."""
    one, many = run("serial")[law, precision], run("blocks")[law, precision]
    assert one["lanes"] == [1, 1] and many["lanes"] == [32, 32]
    assert one["healthy"] and many["healthy"] and one["contacts"] == many["contacts"]
    assert min(one["contacts"]) >= 4
    tolerance = 1.0e-5 if precision == "float64" else 1.0e-4
    np.testing.assert_allclose(many["v"], one["v"], rtol=0.0, atol=tolerance)
