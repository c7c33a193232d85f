"""The command line ``newton-sap``: Newton's examples under this solver, comparisons, benchmarks, and what is installed."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; return the exit code (0: done, 1: a check failed, 2: usage, 130: interrupted)."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(f"newton-sap needs {error.name}, which is not installed: pip install 'newton-sap[cli]'", file=sys.stderr)
        return 2
    from .app import app

    return app(prog_name="newton-sap")
