"""What every command's line needs before its work is imported, and nothing that would slow ``--help`` down."""

from __future__ import annotations

import typer
from rich.console import Console

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
