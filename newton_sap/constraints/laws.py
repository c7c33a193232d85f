"""Contact laws by name."""

from . import friction_cone

CONTACT_LAWS = {"sap": friction_cone.evaluate_contact}


def contact_law(name: str):
    """Return the device function that evaluates a slot of the contact pool under the named law."""
    return CONTACT_LAWS[name]
