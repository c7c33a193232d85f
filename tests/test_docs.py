"""The README and the pages in ``docs/`` hold what they say: code runs, commands exist, links lead somewhere.

A block of Python is left out only by the line ``<!-- not run: REASON -->`` right before it, and is skipped where a
library is absent that the line ``<!-- needs: MODULE, MODULE -->`` names.
"""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from test_isaaclab import lab  # noqa: F401  (a fixture)
from test_public_interface import documented, load, public_names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

CONTINUED = ("docs/options.md", "docs/observables.md", "docs/viewers.md", "docs/guides/tuning.md")
"""Pages whose code goes on where that of the quick start ends, as they say themselves."""

FENCE = re.compile(r"^(```|~~~)(.*)$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
NEEDS = re.compile(r"^<!-- needs: ([\w, ]+) -->$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(path):
    """Name of a page for messages and test ids."""
    return path.relative_to(ROOT).as_posix()


@dataclass
class Block:
    """A fenced block: its language, its lines, where they start, and the line of text before the fence."""

    language: str
    first: int
    lines: list[str]
    before: str


def blocks_of(text):
    """Every fenced block of a page, in order."""
    blocks, fence, before = [], "", ""
    for number, line in enumerate(text.splitlines()):
        found = FENCE.match(line)
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                blocks[-1].lines.append(line)
        elif found:
            fence = found[1]
            blocks.append(Block(found[2].strip(), number + 1, [], before))
        if line.strip():
            before = line.strip()
    assert not fence, f"the fence after line {blocks[-1].first} is not closed"
    return blocks


def program_of(text):
    """The page's Python as one program whose line numbers are the page's, and the modules it needs."""
    lines, needed = [""] * (len(text.splitlines()) + 1), set()
    for block in blocks_of(text):
        if block.language != "python" or NOT_RUN.match(block.before):
            continue
        needs = NEEDS.match(block.before)
        needed |= set(re.findall(r"\w+", needs[1])) if needs else set()
        lines[block.first : block.first + len(block.lines)] = block.lines
    return "\n".join(lines), needed


def run_program(page, folder, scope):
    """Run a page's Python from a file, where Warp finds the source of its kernels."""
    source, needed = program_of(page.read_text(encoding="utf-8"))
    for module in sorted(needed):
        pytest.importorskip(module)
    name = "page_" + re.sub(r"\W", "_", name_of(page).removesuffix(".md"))
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    scope["__name__"] = name
    exec(compile(source, str(path), "exec"), scope)


# Python --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [page for page in PAGES if program_of(page.read_text(encoding="utf-8"))[0].strip()], ids=name_of
)
def test_code_runs(page, tmp_path, monkeypatch, request, capsys):
    """The Python blocks of a page are one program that runs, and what it asserts is true."""
    monkeypatch.chdir(tmp_path)
    if name_of(page) == "docs/isaaclab.md" and find_spec("isaaclab") is None:
        request.getfixturevalue("lab")  # the stand-in of tests/test_isaaclab.py
        simulation = types.ModuleType("isaaclab.sim")
        simulation.SimulationCfg = types.SimpleNamespace
        monkeypatch.setitem(sys.modules, "isaaclab.sim", simulation)
    if name_of(page) == "docs/gradients.md":
        request.getfixturevalue("adjoints")
    scope = {}
    if name_of(page) in CONTINUED:
        run_program(DOCS / "quickstart.md", tmp_path, scope)
    run_program(page, tmp_path, scope)
    if page.name == "README.md":
        check_quick_start(scope, capsys.readouterr().out)


def check_quick_start(scope, printed):
    """The ball of the README lies on the ground, and the report was printed."""
    assert 0.05 < scope["state"].body_q.numpy()[0, 2] < 0.15
    assert "unconverged steps" in printed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_markers_belong_to_code(page):
    """A marker is written as the tests read it and stands right before a block of Python."""
    text = page.read_text(encoding="utf-8")
    marked = [line.strip() for line in text.splitlines() if re.search(r"<!--\s*(not run|needs)", line)]
    used = [block.before for block in blocks_of(text) if block.language == "python"]
    for line in marked:
        assert NOT_RUN.match(line) or NEEDS.match(line), f"{name_of(page)}: {line!r} is no marker"
        assert line in used, f"{name_of(page)}: no block of Python after {line!r}"
        used.remove(line)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_is_marked_as_python(page):
    """No code hides in a block without a language or in an indented one, where no test would run it."""
    text = page.read_text(encoding="utf-8")
    known = {"python", "sh", "toml", "", "{toctree}", "{eval-rst}"}
    assert {block.language for block in blocks_of(text)} <= known
    fenced = {number for block in blocks_of(text) for number in range(block.first, block.first + len(block.lines))}
    loose = [line for number, line in enumerate(text.splitlines()) if number not in fenced and line.startswith("    ")]
    loose += [line for block in blocks_of(text) if not block.language for line in block.lines]
    code = re.compile(r"\s*(import \w+|from \w[\w.]* import|@wp\.|def \w+\(|print\(|solver\.step\()")
    assert not [line for line in loose if code.match(line)]


# Commands ------------------------------------------------------------------------------------------------------------

SAMPLES = {"NAME": "basic_pendulum", "SCENE": "sphere"}
"""What the placeholders of a documented command stand for here."""

EXECUTED = {
    "newton-sap solvers": (),
    "newton-sap run basic_pendulum --test": (),
    "newton-sap compare box_on_incline --option sap.contact_model=sap": ("--num-frames", "6"),
}
"""Documented commands that are executed, with what makes them short; every other one is stopped before its work, unless
``--commands all`` asks for all of them."""


class Reached(Exception):
    """A command has accepted its arguments and is about to work."""


def commands_of(text):
    """Every command of a page: the lines of shell blocks, of indented blocks and inline code that begins like one."""
    fenced = [line for block in blocks_of(text) if block.language in ("sh", "") for line in block.lines]
    indented = re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    inline = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    begins = re.compile(r"(\.venv/bin/)?(newton-sap|python3?|pip|pytest|git|xvfb-run)\s")
    shell = [line for block in blocks_of(text) if block.language == "sh" for line in block.lines]
    assert all(begins.match(line) for line in shell if line), "a line of a shell block that no test understands"
    for line in [*fenced, *indented, *inline]:
        if begins.match(line):
            yield from (part.strip().replace(".venv/bin/", "") for part in line.split("&&"))


COMMANDS = sorted({(command, name_of(page)) for page in PAGES for command in commands_of(page.read_text("utf-8"))})
OWN = sorted({shlex.join(shlex.split(command, comments=True)) for command, _ in COMMANDS if command[:6] == "newton"})


@pytest.fixture
def springs(tmp_path, monkeypatch):
    """The solver of docs/guides/writing_a_solver.md, installed under the name that its page gives it."""
    from newton_sap import registry

    page = DOCS / "guides" / "writing_a_solver.md"
    (target,) = re.findall(r'^springs = "(\w+:\w+)"$', page.read_text(encoding="utf-8"), re.MULTILINE)
    module = target.partition(":")[0]
    whole, _ = program_of(page.read_text(encoding="utf-8"))
    solver_only = "\n".join(whole.splitlines()[: whole[: whole.index("ball = newton.ModelBuilder()")].count("\n")])
    (tmp_path / f"{module}.py").write_text(solver_only, encoding="utf-8")
    info = tmp_path / "springs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: springs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[newton.solvers]\nsprings = {target}\n")
    monkeypatch.setattr(registry, "_outcomes", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop(module, None)


def invoke(arguments):
    """Run the command line in this process; return its exit code, and raise what it raised."""
    from typer.testing import CliRunner

    from newton_sap.cli.app import app

    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def stop_before_work(monkeypatch):
    """Let each command check all of its arguments, and raise :class:`Reached` in place of its work."""
    from newton_sap.cli import bench_command, demo_command, run_command
    from newton_sap.compare import session

    def reached(*arguments, **keywords):
        raise Reached

    for module, name in (
        (run_command, "run_example"),
        (bench_command, "bench"),
        (demo_command, "demo_command"),
        (session, "_run"),
    ):
        monkeypatch.setattr(module, name, reached)
    # What is installed here is not the question.
    monkeypatch.setattr(run_command, "_require_drawing", lambda *arguments: None)
    monkeypatch.setattr(bench_command, "_require_native", lambda name: None)


@pytest.mark.parametrize("command", OWN)
def test_own_command_is_accepted(command, springs, tmp_path, monkeypatch):
    """The command line takes every documented command: names, options and values are those it knows."""
    from newton_sap.cli.app import app

    monkeypatch.chdir(tmp_path)
    arguments = [SAMPLES.get(word, word) for word in shlex.split(command)[1:]]
    if len(arguments) < 2 and arguments != ["demo"]:
        import typer

        assert not arguments or arguments[0] in typer.main.get_command(app).commands
        return
    stop_before_work(monkeypatch)
    with pytest.raises(Reached):
        code, text = invoke(arguments)
        pytest.fail(f"{command} ended with {code}\n{text}")


@pytest.mark.parametrize("command", EXECUTED)
def test_own_command_runs(command, tmp_path, monkeypatch):
    """A documented command, shortened where it would take long, does its work and ends well."""
    assert command in OWN, "this command is documented no more"
    monkeypatch.chdir(tmp_path)
    code, text = invoke(shlex.split(command)[1:] + list(EXECUTED[command]))
    assert code == 0, text


def pytest_generate_tests(metafunc):
    """With ``--commands all`` every documented command of ``newton-sap`` is a test that executes it as it is written."""
    if "written" in metafunc.fixturenames:
        names_alone = {"newton-sap run", "newton-sap compare"}  # what a command is called, not a line to type
        everything = metafunc.config.getoption("--commands") == "all"
        written = sorted(set(OWN) - names_alone) if everything else ["newton-sap solvers"]
        metafunc.parametrize("written", written, ids=str)


def drawn_with(words):
    """Return the modules that a run needs to draw, and whether it needs a display."""
    from newton_sap.cli.run_command import VIEWERS

    viewer = words[words.index("--viewer") + 1] if "--viewer" in words else "null"
    picture = "--picture" in words
    needed = {module for module, _ in filter(None, (VIEWERS[viewer], VIEWERS["gl"] if picture else None))}
    return sorted(needed), picture or viewer == "gl"


@pytest.mark.parametrize(
    ("command", "modules", "display"),
    [
        ("newton-sap run basic_pendulum --test", [], False),
        ("newton-sap run robot_omniwheel --option contact_model=sap", [], False),
        ("newton-sap run basic_urdf --viewer viser --world-count 4", ["viser"], False),
        ("newton-sap run basic_urdf --viewer gl --world-count 4", ["pyglet"], True),
        (
            "newton-sap run domino_spiral --num-frames 120 --picture domino_spiral.png",
            ["pyglet"],
            True,
        ),
    ],
)
def test_only_what_draws_needs_a_display(command, modules, display):
    """Runs that draw nothing, or in a browser, are executed without a display as well."""
    assert command in OWN, "this command is documented no more"
    assert drawn_with(shlex.split(command)[1:]) == (modules, display)


def test_own_command_runs_as_written(written, springs, tmp_path):
    """A documented command does its work in a process of its own; a run without an end gets one."""
    words = [SAMPLES.get(word, word) for word in shlex.split(written)[1:]]
    if "drake" in written:
        pytest.importorskip("pydrake")
    if words[0] == "run":
        modules, draws = drawn_with(words)
        for module in modules:
            pytest.importorskip(module)
        if not {"--test", "--num-frames"} & set(words):
            words += ["--num-frames", "5"]
    (tmp_path / "docs" / "img").mkdir(parents=True)
    command = [sys.executable, "-m", "newton_sap.cli", *words]
    if words[0] == "run" and draws and not os.environ.get("DISPLAY"):
        if shutil.which("xvfb-run") is None:
            pytest.skip("needs a display or xvfb-run")
        command = ["xvfb-run", "-a", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stdout + run.stderr
    for option in ("--picture", "--json", "--markdown"):
        if option in words:
            assert (tmp_path / words[words.index(option) + 1]).stat().st_size


def test_documented_solver_can_be_chosen_by_name(springs, tmp_path, monkeypatch):
    """The commands at the end of docs/guides/writing_a_solver.md run with the solver of that page."""
    commands = [command for command in OWN if "springs" in command]
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    code, text = invoke(["solvers"])
    assert code == 0 and "springs" in text
    for command in commands:
        code, text = invoke([*shlex.split(command)[1:], "--num-frames", "3"])
        assert code == 0, text


def extras_of_the_project():
    """Names of the extras, read without a TOML library, which Python 3.10 does not have."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    return set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))


@pytest.mark.parametrize("command", sorted({command for command, _ in COMMANDS if not command.startswith("newton")}))
def test_other_command_names_what_exists(command):
    """Scripts, modules, extras and folders of documented commands exist."""
    words = shlex.split(command, comments=True)
    if words[:2] == ["xvfb-run", "-a"]:
        words = words[2:] or ["pytest"]  # named by itself, to be put in front of another command
    program, rest = words[0], words[1:]
    if program in ("python", "python3"):
        known = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # names what may be absent here
        if rest[0] == "-m":
            assert f'"{rest[1]}>=' in known or find_spec(rest[1]), command
        else:
            assert (ROOT / rest[0]).is_file(), command
    elif program == "pip":
        assert rest[0] == "install", command
        for extras in re.findall(r"\.\[([\w,]+)\]", command):
            assert set(extras.split(",")) <= extras_of_the_project(), command
    elif program == "pytest":
        own = re.findall(r'addoption\(\s*"(--[\w-]+)"', (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
        values = [value for word, value in pairwise(rest) if word in own]
        assert all(word in own for word in rest if word.startswith("--")), command
        assert all((ROOT / word).exists() for word in rest if not word.startswith("-") and word not in values), command
    else:
        pytest.fail(f"no test understands {command!r}")


SCRIPTS = sorted([*DOCS.glob("*.py"), *(ROOT / "examples").glob("*.py")])


@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.name != "conf.py"], ids=name_of)
def test_script_answers_help(script, monkeypatch, capsys):
    """A script says what it does when asked with --help, and does nothing else."""
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.syspath_prepend(str(script.parent))
    modules = set(sys.modules)
    try:
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        for name in set(sys.modules) - modules:
            if getattr(sys.modules[name], "__file__", None) and str(DOCS) in str(sys.modules[name].__file__):
                del sys.modules[name]
    assert not stop.value.code
    assert "usage:" in capsys.readouterr().out


# Links, images, site -------------------------------------------------------------------------------------------------


def prose_of(text):
    """A page without its blocks and inline code, where brackets and parentheses are no links."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_lead_somewhere(page):
    """Every relative link and every picture of a page exists."""
    for target in LINK.findall(prose_of(page.read_text(encoding="utf-8"))):
        path = target.partition("#")[0]
        if not path or re.match(r"(https?|mailto):", path):
            continue
        assert not path.startswith("/") and (page.parent / path).resolve().exists(), f"{name_of(page)}: {target}"


def test_every_picture_is_shown():
    """No picture lies about that no page shows."""
    shown = set()
    for page in PAGES:
        for target in LINK.findall(prose_of(page.read_text(encoding="utf-8"))):
            shown.add((page.parent / target).resolve())
    assert not [name_of(path) for path in sorted((DOCS / "img").iterdir()) if path.resolve() not in shown]


@pytest.fixture
def images(monkeypatch):
    """The script that draws all pictures, imported and not run."""
    monkeypatch.syspath_prepend(str(DOCS))
    import make_images

    yield make_images
    for name in ("make_images", "make_gallery"):
        sys.modules.pop(name, None)


def test_every_picture_has_a_maker(images):
    """One script draws every picture in docs/img, and every picture that it draws is there."""
    assert not images.unmade()
    for part in images.PARTS.values():
        assert (DOCS / part.script).is_file()
        assert part.images and all((DOCS / "img" / image).is_file() for image in part.images)


def test_picture_without_a_maker_is_refused(images, monkeypatch, tmp_path):
    """A picture that no script draws stops the one that draws all, before it draws any."""
    (tmp_path / "by_hand.png").write_bytes(b"")
    monkeypatch.setattr(images, "IMAGES", tmp_path)
    monkeypatch.setattr(images, "draw", lambda name: pytest.fail(f"{name} was drawn"))
    monkeypatch.setattr(sys, "argv", ["make_images.py"])
    with pytest.raises(SystemExit, match="by_hand.png"):
        images.main()


def test_part_that_draws_nothing_is_noticed(images, monkeypatch):
    """A script that ends well without writing its pictures is an error."""
    monkeypatch.setattr(images.subprocess, "run", lambda *arguments, **keywords: None)
    with pytest.raises(SystemExit, match="how_sap_works.png"):
        images.draw("how_it_works")


def test_how_sap_works_is_drawn_as_it_stands(tmp_path, monkeypatch):
    """The script behind docs/guides/how_sap_works.md runs, and finds the way of Newton's method that the page shows."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(DOCS))
    before = set(sys.modules)
    try:
        import make_how_it_works as script

        page = tmp_path / "page.md"
        shutil.copy(script.PAGE, page)
        monkeypatch.setattr(script, "IMAGES", tmp_path)
        shown = page.read_text(encoding="utf-8")
        monkeypatch.setattr(script, "PAGE", page)
        script.draw_one_step()
        assert (tmp_path / "how_sap_works.png").stat().st_size > 10_000
        assert page.read_text(encoding="utf-8") == shown
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("make_"):
                del sys.modules[name]


def test_no_page_is_an_orphan():
    """Every page is reached from the site's tables of contents."""
    for page in PAGES:
        assert not re.search(r"^orphan:", page.read_text(encoding="utf-8"), re.MULTILINE), name_of(page)


def test_site_builds(tmp_path):
    """Sphinx builds the site without a warning, as of a broken reference; every public name has its entry on the API pages."""
    for module in ("sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_copybutton", "sphinx_design"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed (extra docs)")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(DOCS),
        str(tmp_path / "site"),
    ]
    run = subprocess.run([*command, "-d", str(tmp_path / "trees")], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    entries = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site" / "api").glob("*.html"))
    names = [f"{module}.{name}" for module, names in documented() for name in names or public_names(load(module))]
    assert len(names) > 60
    assert [name for name in names if f'id="{name}"' not in entries] == []


# Facts ---------------------------------------------------------------------------------------------------------------


def first_column(page, heading):
    """The names in backquotes of the first column of the table below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2].partition("\n#")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_pages_name_every_scene_and_extra():
    """The scenes of compare and bench, the viewers and the extras are all named on their pages, and no others."""
    from newton_sap import scenes
    from newton_sap.bench import SCENES
    from newton_sap.cli.run_command import VIEWERS

    (row,) = re.findall(r"^\| `SCENE` \| .*: (.*) \|$", (DOCS / "compare.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", row)) == sorted(scenes.SCENES)
    assert sorted(first_column("benchmarks/README.md", "## Scenes")) == sorted(SCENES)
    assert sorted(first_column("viewers.md", "| `--viewer` |")) == sorted(VIEWERS)
    assert set(first_column("quickstart.md", "| extra |")) == extras_of_the_project()
