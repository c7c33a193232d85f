"""The stage that fills the contact pool: its kernels, in order."""

import warp as wp

from .corners import fill_corners, take_along
from .filling import collect_contacts, count_foreign, enter_late, leave_contacts, number_slots


def kernels_of(solver) -> list[wp.Kernel]:
    """Return kernels that stand for the modules the stage needs."""
    if not solver.model.shape_count:
        return [count_foreign]
    return [collect_contacts, number_slots, solver.fill_kernel, *solver.corner_kernels]


def fill_pool(solver, frame, stats) -> None:
    """Fill the contact pool and list its slots by group; count in ``stats`` what finds no room."""
    launches, pool, clusters = solver.launches, solver.pool, solver.problem.clusters
    if frame.rows is None or not solver.model.shape_count:
        if solver.model.shape_count:
            launches.groups(leave_contacts, [pool, clusters])
        elif frame.rows is not None:
            launches.at_once(count_foreign, 1, [stats, frame.rows])
        return
    arrivals = solver.arrivals
    for begun in (arrivals.head, arrivals.left_out, arrivals.push, arrivals.group_count):
        begun.zero_()
    where = [solver.bodies, solver.shapes, solver.motion]
    given = [frame.rows, solver.contact_options, frame.before, frame.dt]
    launches.part_items(collect_contacts, len(arrivals.next), [*where, arrivals, stats, *given])
    if solver.corner_kernels:
        launches.part_items(take_along, len(arrivals.next), [*where, arrivals, *given])
    launches.groups(enter_late, [solver.shapes, arrivals, frame.rows, solver.contact_options])
    launches.parts(number_slots, [arrivals])
    launches.groups(solver.fill_kernel, [*where, arrivals, pool, stats, *given, clusters])
    if solver.corner_kernels:
        launches.groups(fill_corners, [*where, pool, *given])
