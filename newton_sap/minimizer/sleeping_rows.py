"""Limits that free motion stays clear of sleep: a minimisation leaves them out, and looks at them when it has ended.

Where the minimum without them violates none it is the minimum with them, since they add nothing there. Those that it
violates are woken, and the minimisation goes on.
"""

import warp as wp

from ..constraints.clamped_linear import is_idle
from ..linalg.lanes import sync
from ..workspace import Problem, RowLaw, RowPool
from .objective import Range

wp.set_module_options({"enable_backward": False})


@wp.func
def insert_row(rows: RowPool, problem: Problem, at: Range, end: int, unknown: int, law: RowLaw):
    """Put a row behind the others of its unknown, before all where that has none; ``end`` is behind them all."""
    u = at.base + unknown
    place = int(at.row_start)
    if problem.row_end[u] > 0:
        place = problem.row_end[u]
    for back in range(end - place):
        rows.unknown[end - back] = rows.unknown[end - back - 1]
        rows.law[end - back] = rows.law[end - back - 1]
    rows.unknown[place] = unknown
    rows.law[place] = law
    for other in range(at.base, at.base + at.unknowns):
        if problem.row_end[other] > place:
            problem.row_start[other] = problem.row_start[other] + 1
            problem.row_end[other] = problem.row_end[other] + 1
    if problem.row_end[u] == 0:
        problem.row_start[u] = place
    problem.row_end[u] = place + 1


@wp.func
def wake_rows(rows: RowPool, problem: Problem, at: Range):
    """Let the sleeping rows that are not idle at the iterate take part; return how many rows these are then."""
    sync()
    if at.lane == 0:
        first = int(at.row_end - problem.clusters.entry[at.cluster].rows_asleep)
        awake = int(at.row_start + at.rows)
        r = int(at.row_end - 1)
        while r >= first:
            unknown = rows.unknown[r]
            law = rows.law[r]
            if is_idle(law, law.sign * problem.v[at.base + unknown]):
                r -= 1
            else:
                rows.unknown[r] = rows.unknown[first]
                rows.law[r] = rows.law[first]
                first += 1
                insert_row(rows, problem, at, awake, unknown, law)
                awake += 1
        problem.clusters.entry[at.cluster].rows = awake - at.row_start
        problem.clusters.entry[at.cluster].rows_asleep = at.row_end - first
    sync()
    return problem.clusters.entry[at.cluster].rows
