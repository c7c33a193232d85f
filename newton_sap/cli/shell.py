"""What every command's line needs before its work is imported, and nothing that would slow ``--help`` down."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

Device = Annotated[str | None, typer.Option(help="Warp device, such as cpu or cuda:0.")]
Preset = Annotated[str | None, typer.Option(help="Preset of the solver, such as drake.")]
Keywords = Annotated[list[str] | None, typer.Option(help="Keyword of the solver, as name=value.")]

_complaints = Console(stderr=True, highlight=False)


def forward_only() -> None:
    """Let Newton's kernels compile without adjoints, in a third of the time: for commands that take no gradients.

    Called before Newton is imported; later it changes nothing.
    """
    import warp as wp

    wp.config.enable_backward = False


def usage_error(message: str) -> typer.Exit:
    """Print what is wrong with the command and return the exit to raise."""
    _complaints.print(f"newton-sap: {message}", markup=False, soft_wrap=True)
    return typer.Exit(2)
