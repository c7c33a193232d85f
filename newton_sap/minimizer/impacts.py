"""From the velocity at which surfaces meet to the one at which they part (``constraints.restitution``)."""

import warp as wp

from ..constraints.restitution import aim_at
from ..linalg.lanes import sync, total
from ..workspace import ContactPool, Motion, Problem
from .objective import Range
from .progress import COST, OPTIMAL, Progress, begin

wp.set_module_options({"enable_backward": False})


@wp.func
def part_surfaces(pool: ContactPool, at: Range):
    """Aim contacts that met at their rebound; return how many there are."""
    met = wp.float64(0.0)
    for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts, at.lanes):
        bounces = not (pool.rebound[slot] <= wp.float64(0.0))  # what is no number is to be found
        if bounces and wp.dot(pool.normal[slot], pool.gamma[slot]) > wp.float64(0.0):
            aim_at(pool, slot, pool.rebound[slot])
            met += wp.float64(1.0)
        pool.rebound[slot] = wp.float64(0.0)
    sync()
    return total(met)


@wp.func
def bounce(m: Motion, pool: ContactPool, problem: Problem, at: Range, now: Progress):
    """Where surfaces have met, keep the velocity that brought them there as ``travel`` and minimise once more."""
    ended = now.reason == OPTIMAL or now.reason == COST
    if not ended or part_surfaces(pool, at) == wp.float64(0.0):
        return now
    for i in range(at.lane, at.unknowns, at.lanes):
        m.travel[problem.dof[at.base + i]] = problem.v[at.base + i]
    again = begin(at)
    again.bounced = True
    again.spent = now.iterations
    again.evaluations = now.evaluations
    return again
