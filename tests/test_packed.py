"""What kernels may do with bundles whose arrays the compiler takes to be packed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import newton
import numpy as np
import pytest
import warp as wp

import newton_sap
from newton_sap import SolverSAP
from newton_sap.runtime import packed

PACKAGE = Path(newton_sap.__file__).parent
PACKED = {"Tree", "Motion", "Pools", "Problem", "ContactPool", "RowPool", "CouplerPool"}
ASKED_BEFORE = {"fetch_tree", "fetch_cluster", "fill_contacts"}
"""Functions that ask a shape before the kernel packs."""


def device_functions():
    """Yield (function, names of its parameters that are packed bundles) of the whole package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                types = {a.arg: ast.unparse(a.annotation) for a in node.args.args if a.annotation}
                bundles = {name for name, kind in types.items() if kind in PACKED}
                if bundles:
                    yield node, bundles


def test_no_function_asks_the_shape_of_a_packed_array():
    """Packing forgets lengths: ``tree.x.shape`` would be zero on a CPU, so nobody may ask."""
    seen = 0
    for function, bundles in device_functions():
        seen += 1
        asked = re.findall(r"\b(\w+)(?:\.\w+)+\.shape\b", ast.unparse(function))
        assert function.name in ASKED_BEFORE or not bundles.intersection(asked), function.name
    assert seen > 200


@pytest.mark.parametrize("name", [name for name in dir(packed) if name.startswith("pack_")])
def test_every_array_of_a_bundle_is_packed(name):
    """The C text names each array once, those of nested bundles included."""
    function = getattr(packed, name)
    bundle = next(iter(function.input_types.values())).value_type
    types = [variable.type for variable in bundle.vars.values()]
    nested = [inner.type for t in types if not hasattr(t, "dtype") and hasattr(t, "vars") for inner in t.vars.values()]
    arrays = sum(hasattr(t, "dtype") for t in types + nested)
    assert arrays > 5
    assert function.native_snippet.count("tell(bundle.") == arrays


def test_what_the_solver_makes_is_packed():
    """Every array of the bundles is contiguous, for boxes on a plane."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    for i in range(3):
        body = builder.add_body(xform=wp.transform((i, 0.0, 0.5), wp.quat_identity()))
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    solver = SolverSAP(builder.finalize(device="cpu"))
    bundles = (solver.tree, solver.motion, solver.motion_after, solver.pool, solver.pools.rows, solver.pools.couplers)
    for bundle in (*bundles, solver.problem):
        for name in bundle._cls.vars:
            array = getattr(bundle, name)
            if isinstance(array, wp.array):
                assert array.is_contiguous and array.ndim == 1, name
                np.testing.assert_equal(array.strides[0], wp.types.type_size_in_bytes(array.dtype))


IN_DEBUG_MODE = """
import warp as wp
wp.config.mode = "debug"
wp.config.enable_backward = False
import newton
from newton_sap import SolverSAP
builder = newton.ModelBuilder()
builder.add_ground_plane()
builder.add_shape_sphere(builder.add_body(xform=wp.transform((0.0, 0.0, 0.0999))), radius=0.1)
model = builder.finalize(device="cpu")
solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
contacts = pipeline.contacts()
for _ in range(3):
    pipeline.collide(state, contacts)
    solver.step(state, state, None, contacts, 0.005)
report = solver.report()
print(report.contacts[0], report.healthy)
"""


@pytest.mark.slow
def test_steps_run_in_debug_mode():
    """Warp then checks every index against its array's length, and ends the process where it is beyond."""
    run = subprocess.run([sys.executable, "-c", IN_DEBUG_MODE], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0 and run.stdout.split()[-2:] == ["1", "True"], run.stdout[-500:] + run.stderr[-500:]
