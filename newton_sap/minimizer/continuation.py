"""Continuation in stiffness: a cluster that creeps along stiff curved cones is solved soft first, then ever stiffer.

A stiff contact of the similar model confines the velocity to a thin curved layer, in which straight steps are short.
The softened problem has a thick one, and its answer is a good start for the next. What is found in the end is the
minimum of the problem as given: the factors are powers of two, which leave no rounding behind.
"""

import warp as wp

from ..linalg.lanes import sync
from ..workspace import ContactPool
from .objective import Range, Value
from .settings import Settings

wp.set_module_options({"enable_backward": False})

PATIENCE = 40
"""Iterations of the similar model before its contacts are softened."""
STUCK = wp.constant(wp.float64(1.0e-2))
"""Residual over scale below which contacts are not softened any more: the minimum is near."""
SOLVED = wp.constant(wp.float64(1.0e-6))
"""Residual over scale at which a softened problem has told enough."""
SOFTEST = wp.constant(wp.float64(2.0**-12))
"""Factor on the stiffness of the first softened problem."""
STIFFER = wp.constant(wp.float64(2.0**4))
"""Factor from one softened problem to the next."""


@wp.struct
class Stage:
    """Where a cluster stands: ``softness`` is the factor on its contacts' stiffness, ``used`` whether it was softened."""

    softness: wp.float64
    used: bool


@wp.func
def first_stage():
    """The problem as given."""
    stage = Stage()
    stage.softness = wp.float64(1.0)
    return stage


@wp.func
def scale_stiffness(pool: ContactPool, at: Range, factor: wp.float64):
    """Make the contacts of Hunt & Crossley's law softer or stiffer."""
    for c in range(at.lane, at.contacts, at.lanes):
        law = pool.normal_law[at.contact_start + c]
        law.k = factor * law.k
        law.fe0 = factor * law.fe0
        pool.normal_law[at.contact_start + c] = law
    sync()


@wp.func
def stiffen(pool: ContactPool, at: Range, stage: Stage, factor: wp.float64):
    """A stage nearer to the problem as given."""
    scale_stiffness(pool, at, factor)
    stage.softness = stage.softness * factor
    return stage


@wp.func
def next_stage(
    pool: ContactPool, at: Range, stage: Stage, value: Value, converged: bool, iterations: int, settings: Settings
):
    """Soften once, when patience ends; stiffen whenever the softened problem is solved as far as it need be."""
    if stage.softness < wp.float64(1.0):
        if converged or value.residual <= SOLVED * value.scale:
            stage = stiffen(pool, at, stage, STIFFER)
    elif not converged and not stage.used and iterations == settings.patience and value.residual > STUCK * value.scale:
        scale_stiffness(pool, at, SOFTEST)
        stage.softness = SOFTEST
        stage.used = True
    return stage
