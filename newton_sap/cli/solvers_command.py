"""What the ``solvers`` command does: the table of installed solvers and the reason why one cannot be used."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .. import registry
from ..compare.contestants import absence

_STYLES = {"ok": "green", "broken": "red", "shadowed": "yellow", "incomplete": "yellow"}


def solvers_command(verbose: bool) -> int:
    """Print the table; a broken plugin is a row, not a failure."""
    console = Console(highlight=False)
    rows = registry.list_solvers(load=True)
    reasons = [absence(row.name) if row.status == "loaded" else row.reason for row in rows]
    table = Table(title="Solvers", title_justify="left")
    for heading in ("name", "class", "from", "status"):
        table.add_column(heading, overflow="fold")
    for row, reason in zip(rows, reasons, strict=True):
        status = row.status
        if status == "loaded":
            status = "incomplete" if reason else "ok"
        table.add_row(
            row.name,
            row.target.partition(":")[2] if row.builtin else row.target,
            f"{row.distribution} {row.version}",
            f"[{_STYLES[status]}]{status}[/]",
        )
    console.print(table)
    for row, reason in zip(rows, reasons, strict=True):
        if reason:
            console.print(f"{row.name}: {reason}", markup=False, soft_wrap=True)
        if verbose and row.details:
            console.print(row.details, markup=False, soft_wrap=True)
    return 0
