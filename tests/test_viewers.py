"""Viewers by name: what a missing one says, and that their page can be followed."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from newton_sap.cli import run
from newton_sap.cli.app import app
from newton_sap.cli.example import example_module

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("viewer", sorted(set(run.VIEWERS) - {"null"}))
def test_missing_viewer_says_what_to_install(monkeypatch, viewer):
    """Before anything is built, the message names the module and the package that brings it."""
    module, package = run.VIEWERS[viewer]
    monkeypatch.setattr(run, "find_spec", lambda name: None if name == module else find_spec(name))
    result = CliRunner().invoke(app, ["run", "basic_pendulum", "--viewer", viewer])
    assert result.exit_code == 2
    assert f"--viewer {viewer} needs {module}" in result.output and package in result.output


def test_extras_of_the_messages_exist():
    """What a message tells to install is an extra of this package, or a package of its own."""
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE))
    named = {re.fullmatch(r"newton-sap\[(\w+)\]", need[1]) for need in run.VIEWERS.values() if need}
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
