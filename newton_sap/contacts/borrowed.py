"""What the contact stage notes of a slot in arrays of the pool that the problem writes later: no memory, or time, for its own.

====================  =========================  ================================================================
array                 from assembly on           until then
====================  =========================  ================================================================
``support``           unknowns of the pair       which side is a surface that may have edges inside; -1 for none
``gamma``             impulse                    where that surface is touched [m], in world axes
``vc``                velocity of B from A       how far B has passed A since the contact was found [m]
``v_hat``             stabilising velocity       what a spinning wheel spares of the gap [m]
====================  =========================  ================================================================

``spin_of`` is room for sorting until slots are written, and then holds marks of edges (``internal_edges.py``) until these have gone.
"""

import warp as wp

from ..workspace import ContactPool

wp.set_module_options({"enable_backward": False})


@wp.func
def note(pool: ContactPool, slot: int, side: int, touched: wp.vec3d, passed: wp.vec3d, spared: wp.float64):
    """Note all of a slot."""
    pool.support[slot] = side
    pool.gamma[slot] = touched
    pool.vc[slot] = passed
    pool.v_hat[slot] = spared


@wp.func
def stored_side(pool: ContactPool, slot: int):
    """The side, 0 or 1, that is a surface; -1 for none."""
    return pool.support[slot]


@wp.func
def stored_point(pool: ContactPool, slot: int):
    """Where that surface is touched [m]."""
    return pool.gamma[slot]


@wp.func
def stored_passing(pool: ContactPool, slot: int):
    """How far B has passed A since the contact was found [m]."""
    return pool.vc[slot]


@wp.func
def stored_spare(pool: ContactPool, slot: int):
    """What a spinning wheel spares of the gap [m]."""
    return pool.v_hat[slot]
