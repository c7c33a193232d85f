"""The command tree of ``newton-sap``; each command's options are in the module of its name."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .bench import bench
from .compare import compare
from .demo import demo
from .run import run
from .solvers import solvers

app = typer.Typer(
    help="SAP contact solver for the Newton physics engine. Exit codes: 0 done, 1 a check failed, 2 usage, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before any command."""


for command in (run, demo, solvers, bench, compare):
    app.command()(command)
