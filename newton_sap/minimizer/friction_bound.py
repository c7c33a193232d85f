"""The friction bounds of the lagged law and of spins, read from the solve itself instead of from the start of the step.

These laws need a number for the normal impulse before it is known. As soon as the momentum left over is below the
constraint impulses, the iterate knows it better than the start: bounds that are off are then renewed from the iterate's
own normal impulses, a few times while it converges and a few at its end. What is minimised last is again one strictly convex
cost with constant bounds.
"""

import warp as wp

from ..constraints.hunt_crossley import normal_impulse
from ..constraints.lagged import bound_friction
from ..linalg.lanes import sync, total
from ..workspace import ContactPool, Pools, Problem, Tree
from .islands import NOTHING, add_square, find_islands, has_islands, is_readable, squares_at
from .objective import Range, Value, contact_velocity
from .settings import Settings

wp.set_module_options({"enable_backward": False})

MOST_SLIP = 30.0
"""Slip below which friction is regularised where heavy loads rest on light bodies, at most, in stiction tolerances (F 2.4)."""
RENEWALS = 4
"""Most renewals on the way, so that there is an end to it; twice as many where islands come to rest one after the other."""
LAST_RENEWALS = wp.constant(3)
"""Most renewals at a minimum, each of which leads to another one: friction of an impact makes more of it, or less."""
READABLE = wp.constant(wp.float64(0.98))
"""Residual over constraint impulses below which the next iterate is asked."""
SETTLED = wp.constant(wp.float64(0.01))
"""Residual over constraint impulses below which the bounds last renewed are as good as the next."""
NEGLIGIBLE = wp.constant(wp.float64(0.01))
"""Relative error of a bound that a renewal leaves alone."""
TOLERABLE = wp.constant(wp.float64(0.2))
"""Relative error of a bound that a solve may end with, once it has been asked for better ones."""
NOTABLE, GROSS = wp.constant(wp.float64(0.02)), wp.constant(wp.float64(0.3))
"""Share of the root of an island's normal impulses' squares below which an error is no reason to ask, and to ask again: among
thousands of contacts some few always come or go."""


@wp.func
def renewal_due(value: Value, renewals: int, islands: bool, settings: Settings):
    """Whether the next iterate is worth reading the bounds from."""
    readable = value.residual <= READABLE * value.impulse
    most = settings.renewals
    if islands:
        most = 2 * most
    return renewals < most and readable and (renewals == 0 or value.residual > SETTLED * value.impulse)


@wp.func
def contact_of(pool: ContactPool, slot: int):
    """The contact whose normal impulse bounds a slot: of a spin another one."""
    contact = pool.spin_of[slot]
    if contact < 0:
        contact = slot
    return contact


@wp.func
def is_bounded(pool: ContactPool, slot: int, settings: Settings):
    """Whether the law of a slot reads its bound: every spin's does, and the lagged law."""
    return settings.lagged == 1 or pool.spin_of[slot] >= 0


@wp.func
def off_by(n0: wp.float64, used: wp.float64, error: wp.float64):
    """Whether a bound in use differs by more than a relative error."""
    return wp.abs(n0 - used) > error * wp.max(n0, used)


@wp.func
def normal_part(pool: ContactPool, contact: int):
    """Normal impulse that was last evaluated [N s]."""
    return wp.dot(pool.normal[contact], pool.gamma[contact])


@wp.func
def sum_squares(tree: Tree, pools: Pools, problem: Problem, at: Range):
    """Squares of all normal impulses; those of islands in ``dv``."""
    squares = wp.float64(0.0)
    apart = has_islands(at)
    if apart:
        find_islands(tree, pools, problem, at, False)
    for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts, at.lanes):
        if pools.contacts.spin_of[slot] < 0:
            n0 = normal_part(pools.contacts, slot)
            squares += n0 * n0
            if apart:
                add_square(tree, pools.contacts, problem, at, slot, n0)
    return total(squares)


@wp.func
def far_off(tree: Tree, pools: Pools, problem: Problem, at: Range, settings: Settings, again: bool):
    """Whether a bound is no longer tolerable at the minimum that it led to."""
    off = wp.float64(0.0)
    share = wp.where(again, GROSS, NOTABLE)
    if settings.renewals > 0:
        pool = pools.contacts
        apart = has_islands(at)
        squares = sum_squares(tree, pools, problem, at)
        sync()
        for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts, at.lanes):
            contact = contact_of(pool, slot)
            n0 = normal_part(pool, contact)
            error = wp.abs(n0 - pool.n0[slot])
            if is_bounded(pool, slot, settings) and off_by(n0, pool.n0[slot], TOLERABLE):
                notable = squares
                if apart:
                    notable = squares_at(tree, problem, at, pool.link_a[contact], squares)
                    notable = wp.min(notable, squares_at(tree, problem, at, pool.link_b[contact], squares))
                if error > wp.max(share * wp.sqrt(notable), NOTHING):
                    off += wp.float64(1.0)
    return total(off) > wp.float64(0.0)


@wp.func
def renew_bounds(tree: Tree, pool: ContactPool, problem: Problem, at: Range, islands: bool, settings: Settings):
    """Take the iterate's normal impulses as bounds where those in use are off; laws but the lagged one tell those last evaluated.

    Of ``islands`` only those that are readable.
    """
    for slot in range(at.contact_start + at.lane, at.contact_start + at.contacts, at.lanes):
        contact = contact_of(pool, slot)
        if islands:
            if not is_readable(tree, pool, problem, contact):
                continue
        n0 = normal_part(pool, contact)
        if settings.lagged == 1:
            vc = pool.bias[contact] + contact_velocity(pool, problem.v, contact, at.base)
            n0 = normal_impulse(pool.normal_law[contact], wp.dot(pool.normal[contact], vc))
        if is_bounded(pool, slot, settings) and off_by(n0, pool.n0[slot], NEGLIGIBLE):
            if contact == slot:
                bound_friction(pool, slot, n0, settings.stiction_tolerance, settings.stiction_limit)
            else:
                pool.n0[slot] = n0
    sync()
