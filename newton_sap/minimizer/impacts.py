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
def is_impact(pool: ContactPool, slot: int):
    """Whether surfaces that push strike each other in this step: found apart, or inside on their way in and turned round at once.

    Those found inside on their way out do not, whatever presses them together: a drive that creeps is no impact.
    """
    # What is no number is to be found.
    apart = not (pool.phi0[slot] <= wp.float64(0.0)) and not (pool.rebound[slot] <= NO_REBOUND)
    return apart or pool.rebound[slot] > wp.float64(0.0)


@wp.func
def impacts(pool: ContactPool, at: Range):
    """How many contacts struck."""
    met = wp.float64(0.0)
    for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts, at.lanes):
        if is_impact(pool, slot) and pushes(pool, slot):
            met += wp.float64(1.0)
    return total(met)


@wp.func
def part_surfaces(pool: ContactPool, at: Range):
    """Aim contacts that push at their rebound, parting ones too; whether any struck.

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
