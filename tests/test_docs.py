"""The README and the pages in ``docs/`` hold what they say: code runs, commands exist, links lead somewhere.

A block of Python is left out only by the line ``<!-- not run: REASON -->`` right before it, and is skipped where a
library is absent that the line ``<!-- needs: MODULE, MODULE -->`` names.
"""

import re
import sys
import types
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_isaaclab import lab  # noqa: F401  (a fixture)

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
def test_code_runs(page, tmp_path, monkeypatch, request):
    """The Python blocks of a page are one program that runs, and what it asserts is true."""
    monkeypatch.chdir(tmp_path)
    if name_of(page) == "docs/isaaclab.md" and find_spec("isaaclab") is None:
        request.getfixturevalue("lab")  # the stand-in of tests/test_isaaclab.py
        simulation = types.ModuleType("isaaclab.sim")
        simulation.SimulationCfg = types.SimpleNamespace
        monkeypatch.setitem(sys.modules, "isaaclab.sim", simulation)
    scope = {}
    if name_of(page) in CONTINUED:
        run_program(DOCS / "quickstart.md", tmp_path, scope)
    run_program(page, tmp_path, scope)


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
