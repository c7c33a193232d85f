"""Each contact law by name: its device function, and what else depends on it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import warp as wp

from ..workspace import ContactPool
from . import friction_cone, lagged, similar
from .spin_friction import evaluate_spin

wp.set_module_options({"enable_backward": False})


@dataclass(frozen=True)
class ContactLaw:
    """A contact law."""

    evaluate: Callable
    """Device function from a slot and its velocity to a ``Response``."""
    hunt_crossley: bool = False
    """Whether the normal force is Hunt & Crossley's, rather than that of a linear spring and damper."""
    friction_bounds: bool = False
    """Whether friction is bounded by a number, which may come from the solve (``minimizer/friction_bound.py``)."""
    narrow: bool = False
    """Whether the cost of very stiff contacts is a bent valley: no contact is then stiffer than the step resolves, and clusters
    that creep along it are softened for a while (``minimizer/continuation.py``)."""


CONTACT_LAWS = {
    "sap": ContactLaw(friction_cone.evaluate_contact),
    "lagged": ContactLaw(lagged.evaluate_contact, hunt_crossley=True, friction_bounds=True),
    "similar": ContactLaw(similar.evaluate_contact, hunt_crossley=True, narrow=True),
}


@cache
def contact_law(name: str, spin_friction: bool = False):
    """Return the device function that evaluates a slot of the contact pool under the named law."""
    law = CONTACT_LAWS[name].evaluate
    if not spin_friction:
        return law

    @wp.func
    def evaluate_slot(pool: ContactPool, slot: int, vn: wp.float64, vt_squared: wp.float64):
        """Contacts by the law, spins by their own."""
        response = law(pool, slot, vn, vt_squared)
        if pool.spin_of[slot] >= 0:
            response = evaluate_spin(pool, slot, vn, vt_squared)
        return response

    return evaluate_slot
