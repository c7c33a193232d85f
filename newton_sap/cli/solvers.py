"""The ``solvers`` command line; the work is in :mod:`.solvers_command`, imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer


def solvers(
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the traceback of a broken plugin.")] = False,
) -> None:
    """List the installed solvers, Newton's own and plugins, and say which one is broken."""
    from .solvers_command import solvers_command

    raise typer.Exit(solvers_command(verbose))
