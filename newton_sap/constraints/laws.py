"""Contact laws by name: the one place where a law is entered."""

from . import friction_cone, lagged, similar

CONTACT_LAWS = {
    "sap": friction_cone.evaluate_contact,
    "lagged": lagged.evaluate_contact,
    "similar": similar.evaluate_contact,
}


def contact_law(name: str):
    """Return the device function that evaluates a slot of the contact pool under the named law."""
    return CONTACT_LAWS[name]
