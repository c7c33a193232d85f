"""Measures the tables of ``compare.md`` and writes them into the page, between its markers.

    python docs/make_compare.py                # all tables, a minute
    python docs/make_compare.py quadruped      # some of them

Needs the extra ``sim``. Times depend on the machine, everything else does not.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from make_tuning import table, write_tables

from newton_sap.compare import compare
from newton_sap.compare.report import cells, number, prediction_cells, provenance, summary

PAGE = Path(__file__).parent / "compare.md"
SOLVERS = ("sap", "mujoco", "featherstone", "featherstone/16", "xpbd")
FINER = ("featherstone/2", "featherstone/4", "featherstone/8", "featherstone/16", "xpbd", "xpbd/4")


@cache
def run(scene: str, solvers: tuple[str, ...] = SOLVERS):
    """Return a comparison."""
    return compare(scene, solvers)


def metrics(scene: str) -> str:
    """What was run, and the measured columns."""
    head, rows = cells(run(scene))
    return f"{summary(run(scene))}\n\n{table([f'`{scene}`', *head[1:]], rows)}"


def quadruped() -> str:
    """A robot that drops and stands."""
    return f"{metrics('quadruped')}\n\n{provenance(run('quadruped'))}"


def free_body() -> str:
    """A body that flies with its centre of mass off its origin."""
    return metrics("free_body")


def loaded_chain() -> str:
    """A load on links of a hundredth of its mass."""
    return metrics("loaded_chain")


def box_on_incline() -> str:
    """Theory beside measurement; ``n/a`` where a prediction is not about that solver."""
    return table(*prediction_cells(run("box_on_incline", ("sap", "featherstone/16"))))


def finer() -> str:
    """Distances on the quadruped with smaller steps, and more sweeps of XPBD."""
    found = compare("quadruped", FINER, options={"xpbd": {"iterations": 40}, "xpbd/4": {"iterations": 40}})
    rows = []
    for row in found.outcomes:
        label = f"{row.label}, `iterations=40`" if row.label.startswith("xpbd") else row.label
        rows.append([label, number(row.metrics.get("error_mm")), row.verdict])
    return table(["`quadruped`", "error mm", "verdict"], rows)


TABLES = {part.__name__: part for part in (quadruped, free_body, loaded_chain, box_on_incline, finer)}

if __name__ == "__main__":
    write_tables(PAGE, TABLES)
