"""From the velocity at which surfaces meet to the one at which they part (``constraints.restitution``)."""

import warp as wp

from ..constraints.restitution import NO_REBOUND, aim_at, let_go
from ..linalg.lanes import sync, total
from ..workspace import ContactPool, Motion, Problem
from .friction_bound import normal_part
from .objective import Range
from .progress import COST, OPTIMAL, Progress, begin

wp.set_module_options({"enable_backward": False})


@wp.func
def pushes(pool: ContactPool, slot: int):
    """Whether a contact did at the last evaluation."""
    return normal_part(pool, slot) > wp.float64(0.0)


@wp.func
def across_a_gap(pool: ContactPool, slot: int):
    """Whether surfaces may bounce that the step found apart: on their way to meet, or thrown together by what bounces at once."""
    # What is no number is to be found.
    return not (pool.phi0[slot] <= wp.float64(0.0)) and not (pool.rebound[slot] <= NO_REBOUND)


@wp.func
def impacts(pool: ContactPool, at: Range):
    """How many contacts met across a gap."""
    met = wp.float64(0.0)
    for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts, at.lanes):
        if across_a_gap(pool, slot) and pushes(pool, slot):
            met += wp.float64(1.0)
    return total(met)


@wp.func
def part_surfaces(pool: ContactPool, at: Range):
    """Aim contacts that met at their rebound, inside and parting ones too; whether any met across a gap.

    What did not touch on the way takes no part: whom the impacts throw at it strikes it in the next step.
    """
    met = impacts(pool, at) > wp.float64(0.0)
    for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts + at.asleep, at.lanes):
        if met and pool.spin_of[slot] < 0:
            if not pushes(pool, slot):
                let_go(pool, slot)
            elif not (pool.rebound[slot] <= NO_REBOUND):
                aim_at(pool, slot, pool.rebound[slot])
        pool.rebound[slot] = NO_REBOUND  # one round of impacts in a step
    sync()
    return met


@wp.func
def bounce(m: Motion, pool: ContactPool, problem: Problem, at: Range, now: Progress):
    """Where surfaces have met, keep the velocity that brought them there as ``travel`` and minimise once more."""
    if not (now.reason == OPTIMAL or now.reason == COST):
        return now
    if not part_surfaces(pool, at):
        return now
    for i in range(at.lane, at.unknowns, at.lanes):
        m.travel[problem.dof[at.base + i]] = problem.v[at.base + i]
    again = begin(at)
    again.bounced = True
    again.spent = now.iterations
    again.evaluations = now.evaluations
    return again
