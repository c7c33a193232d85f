"""Rules of the source that a reader can rely on."""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import newton_sap

ROOT = Path(__file__).parents[1]
PACKAGE = sorted((ROOT / "newton_sap").rglob("*.py"))
SOURCES = PACKAGE + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "examples").rglob("*.py"))
LAYERS = ("linalg", "workspace", "runtime", "multibody", "constraints", "contacts", "minimizer", "boundary")
"""Packages below the stages of a step, and the structs that they share; each imports from those before it alone."""
MAX_FILE_LINES = 600
MAX_STEP_LINES = 40
MAX_KERNEL_PARAMETERS = 12
SMALL_KERNELS = {
    "adopt_body_velocity",
    "balance",
    "cancel_gyroscopic_torque",
    "clear_stats",
    "find_switched_on",
    "measure_paths",
    "tell_gravity",
}
"""May be compiled twice, as what observes may, which writes to a caller's array."""


def relative(path):
    """Name of a file for messages and test ids."""
    return str(path.relative_to(ROOT))


def imported_modules(tree):
    """Every module named by an import statement anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def decorators(node):
    """Source text of a function's decorators."""
    return [ast.unparse(decorator) for decorator in node.decorator_list]


def kernels(path):
    """Every kernel of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and any(name.startswith("wp.kernel") for name in decorators(node)):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_public_newton_only(path):
    """Nothing imports Newton's private modules."""
    private = [
        name for name in imported_modules(ast.parse(path.read_text(encoding="utf-8"))) if name.startswith("newton._")
    ]
    assert not private, f"{relative(path)} imports {private}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_file_is_finished_and_short(path):
    """No file has open ends or more lines than one can keep in mind."""
    text = path.read_text(encoding="utf-8")
    marks = re.findall(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", text)
    assert not marks, f"{relative(path)} has {marks}"
    assert len(text.splitlines()) <= MAX_FILE_LINES, relative(path)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_module_says_what_it_is(path):
    """Each non-empty file begins with a docstring."""
    text = path.read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{relative(path)} has no docstring"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_kernels_take_few_parameters(path):
    """Kernels receive structs by role instead of lists of arrays."""
    for node in kernels(path):
        count = len(node.args.args)
        assert count <= MAX_KERNEL_PARAMETERS, f"{relative(path)}: kernel {node.name} has {count} parameters"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_kernels_are_compiled_once(path):
    """Warp compiles a kernel of one dimension twice for the CPU if it takes an array outside a struct."""
    for node in kernels(path):
        one_dimension = "lane = wp.tid()" not in ast.unparse(node)
        if one_dimension and node.name not in SMALL_KERNELS and not node.name.startswith("observe_"):
            arrays = [arg.arg for arg in node.args.args if "wp.array" in ast.unparse(arg.annotation)]
            assert not arrays, f"{relative(path)}: kernel {node.name} takes {arrays}"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_kernels_say_what_they_compute(path):
    """Every kernel has a docstring."""
    for node in kernels(path):
        assert ast.get_docstring(node), f"{relative(path)}: kernel {node.name} has no docstring"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("test_*.py")), ids=relative)
def test_tests_say_what_they_show(path):
    """Every test has a docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            assert ast.get_docstring(node), f"{relative(path)}: {node.name} has no docstring"


def test_step_is_a_list_of_stages():
    """SolverSAP.step fits on a screen, launches nothing and computes nothing itself."""
    source = textwrap.dedent(inspect.getsource(newton_sap.SolverSAP.step))
    (function,) = ast.parse(source).body
    body = function.body[1:] if ast.get_docstring(function) else function.body
    assert body[-1].end_lineno - function.lineno + 1 <= MAX_STEP_LINES + len(
        (ast.get_docstring(function) or "").splitlines()
    )
    calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    assert not any(name.startswith("wp.launch") for name in calls), calls
    assert not any(isinstance(node, ast.BinOp) for node in ast.walk(ast.Module(body, []))), "arithmetic in step"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_no_tiles(path):
    """Tiles of Warp take storage that all CPU threads of a process share, so that ``threads`` would crash."""
    assert "wp.tile" not in path.read_text(encoding="utf-8")


def test_minimizer_knows_no_newton():
    """The minimiser is a numerical method: whatever its modules import, directly or not, is not of the host."""
    modules = sorted(path.stem for path in (ROOT / "newton_sap" / "minimizer").glob("[!_]*.py"))
    imports = "; ".join(f"import newton_sap.minimizer.{name}" for name in modules)
    code = f"import sys; {imports}; print('newton' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.splitlines()[-1] == "False"


def layers_imported(path):
    """Which layers a file imports from as it is loaded, by relative imports of its head."""
    inside = path.relative_to(ROOT / "newton_sap").parts[:-1]
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from ((".".join(base) + "." + name).strip(".").split(".")[0] for name in names)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_know_nothing_above_them(layer):
    """A reader may begin at the bottom: no layer needs a later one."""
    home = ROOT / "newton_sap" / layer
    files = sorted(home.glob("*.py")) if home.is_dir() else [home.with_suffix(".py")]
    assert files
    for path in files:
        later = set(layers_imported(path)) & set(LAYERS[LAYERS.index(layer) + 1 :])
        assert not later, f"{relative(path)} imports from {sorted(later)}"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_no_hidden_switches(path):
    """No environment variable changes what the package does."""
    text = path.read_text(encoding="utf-8")
    assert "os.environ" not in text and "getenv" not in text, relative(path)


def test_public_names():
    """The package exports what it lists, and each name exists."""
    for name in newton_sap.__all__:
        assert getattr(newton_sap, name) is not None
    assert set(newton_sap.__all__) <= set(dir(newton_sap))


def test_entry_point_names_the_solver():
    """Tools that look solvers up by name find this one."""
    from importlib.metadata import entry_points

    (entry,) = [e for e in entry_points(group="newton.solvers") if e.name == "sap"]
    assert entry.load() is newton_sap.SolverSAP


def test_readme_has_the_two_lines():
    """Both set-up lines can be copied from the README as one line each."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra, command in (("demo", "newton-sap demo"), ("test", "pytest")):
        line = f'python3 -m venv .venv && .venv/bin/pip install -q ".[{extra}]" && .venv/bin/{command}'
        assert line in text.splitlines(), line


def test_text_is_plain():
    """Project text has no machine paths."""
    machine = re.compile(r"/(?:root|home|work|tmp|Users)/")
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))]
    alone = [ROOT / name for name in ("README.md", "CHANGELOG.md", "pyproject.toml", ".ci/run")]
    for path in [*SOURCES, *pages, *alone]:
        hits = machine.findall(path.read_text(encoding="utf-8"))
        assert not hits or path == Path(__file__), f"{relative(path)}: {hits}"
