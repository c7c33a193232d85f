"""Open contacts that free motion does not close sleep: a minimisation leaves them out, and looks at them when it has ended.

Newton reports contacts up to 0.2 m apart, and of those that could close most do not: only drives, couplings or impacts elsewhere
would have to close them. Where the minimum without them closes none it is the minimum with them. Else all are woken, and the
minimisation goes on from there.
"""

from functools import cache

import warp as wp

from ..linalg.lanes import total
from ..workspace import ContactPool, Problem
from .objective import Range, contact_evaluation

wp.set_module_options({"enable_backward": False})


@cache
def sleeping_contacts(evaluate_contact):
    """Return the device function that looks at sleeping contacts under a law."""
    evaluate_contacts = contact_evaluation(evaluate_contact)

    @wp.func
    def would_act(pool: ContactPool, problem: Problem, at: Range):
        """Whether a sleeping contact would exert anything at the iterate; its velocity and impulse are known then."""
        first = at.contact_start + at.contacts
        evaluate_contacts(pool, problem, at, first, first + at.asleep)
        acting = wp.float64(0.0)
        for slot in range(first + at.lane, first + at.asleep, at.lanes):
            if not wp.length_sq(pool.gamma[slot]) == wp.float64(0.0):  # nor what is no number
                acting += wp.float64(1.0)
        return total(acting) > wp.float64(0.0)

    return would_act
