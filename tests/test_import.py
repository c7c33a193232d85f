"""What importing the package costs and what it leaves alone."""

import subprocess
import sys

import pytest

import newton_sap

PROGRAM = """
import sys, time
import newton
before = set(sys.modules)
begin = time.perf_counter()
import newton_sap
print(time.perf_counter() - begin)
newton_sap.SolverSAP
print(*(set(sys.modules) - before))
"""
OPTIONAL = {
    "matplotlib",
    "mujoco",
    "mujoco_warp",
    "pydrake",
    "pyglet",
    "pytest",
    "rich",
    "scipy",
    "torch",
    "typer",
}
"""Newton may import some of these by itself; what counts is what comes on top."""


def fresh_import():
    """Seconds of an import after Newton's own, and modules loaded with the solver class, in a new process."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    seconds, modules = run.stdout.strip().splitlines()[-2:]
    return float(seconds), set(modules.split())


def test_import_is_quick_and_loads_nothing_optional():
    """The package adds less than 0.3 s to Newton, the least of up to three; no optional library comes even with the solver.

    The solver class itself, loaded when first asked for, takes half a second more: Warp reads the kernels' source.
    """
    runs = [fresh_import()]
    while len(runs) < 3 and min(seconds for seconds, _ in runs) >= 0.3:  # the machine may be busy
        runs.append(fresh_import())
    assert min(seconds for seconds, _ in runs) < 0.3
    loaded = runs[0][1]
    assert "newton_sap.solver" in loaded
    assert not OPTIONAL & {name.split(".")[0] for name in loaded}
    assert "newton_sap.cli" not in loaded


def test_public_modules_are_found_on_the_package():
    """``newton_sap.registry`` works after ``import newton_sap`` alone."""
    code = (
        "import newton_sap; print(*(getattr(newton_sap, n).__name__ for n in ('registry', 'conventions', 'testing')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-3:] == ["newton_sap.registry", "newton_sap.conventions", "newton_sap.testing"]


def test_misspelt_name_is_answered_with_the_nearest():
    """The package names what was probably meant, and nothing where a protocol asks for a private name."""
    with pytest.raises(AttributeError, match="no attribute 'SolverSap'; did you mean 'SolverSAP'"):
        newton_sap.SolverSap  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute '__al__'$"):
        newton_sap.__al__  # noqa: B018
