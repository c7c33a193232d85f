"""The table of installed solvers and the reason why one cannot be used."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .. import registry
from ..compare.contestants import absence

_STYLES = {"ok": "green", "broken": "red", "shadowed": "yellow", "incomplete": "yellow", "available": ""}


def solvers_command(verbose: bool) -> int:
    """Print the table; a broken plugin is a row, not a failure."""
    console = Console(highlight=False)
    rows = registry.list_solvers(load=True)
    incomplete = {row.name: absence(row.name) for row in rows if row.status == "loaded" and absence(row.name)}
    table = Table(title="Solvers", title_justify="left")
    for heading in ("name", "class", "from", "status"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        status = "ok" if row.status == "loaded" else row.status
        if row.name in incomplete:
            status = "incomplete"
        table.add_row(
            row.name,
            row.target.partition(":")[2] if row.builtin else row.target,
            f"{row.distribution} {row.version}",
            f"[{_STYLES[status]}]{status}[/]" if _STYLES[status] else status,
        )
    console.print(table)
    for row in rows:
        reason = row.reason or incomplete.get(row.name, "")
        if reason:
            console.print(f"{row.name}: {reason}", markup=False, soft_wrap=True)
        if verbose and row.details:
            console.print(row.details, markup=False, soft_wrap=True)
    return 0
