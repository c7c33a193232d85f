"""The device function of each contact law, by name."""

from functools import cache

import warp as wp

from ..workspace import ContactPool
from . import friction_cone, lagged, similar
from .spin_friction import evaluate_spin

wp.set_module_options({"enable_backward": False})

CONTACT_LAWS = {
    "sap": friction_cone.evaluate_contact,
    "lagged": lagged.evaluate_contact,
    "similar": similar.evaluate_contact,
}


@cache
def contact_law(name: str, spin_friction: bool = False):
    """Return the device function that evaluates a slot of the contact pool under the named law."""
    law = CONTACT_LAWS[name]
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
