"""Which models have gradients: what a step does that is left out of its balance is named, not differentiated as zero."""

from __future__ import annotations

import newton
import numpy as np

from ..boundary.routes import route_name
from ..boundary.tendons import tendon_name
from ..boundary.topology import FREELY, body_name, equality_name, joint_name
from ..boundary.validation import owner_name
from ..constraints.coupling_table import BALL_LIMITS, ROD, ROUTE, TENDON, TENDON_LENGTHS
from ..workspace import DIRECT_DOFS

_REMEDY = "to step it without, build it with finalize(requires_grad=False)"


def require_differentiable(solver) -> None:
    """Refuse models whose steps have no gradient.

    Raises:
        NotImplementedError: Something in the model that gradients do not know.
    """
    for what in _without_gradient(solver):
        raise NotImplementedError(f"the model asks for gradients, and {what} has none here; {_REMEDY}")


def require_new_state(state_in, state_out) -> None:
    """Refuse a step in place: the way back needs the state at its start."""
    if state_in is state_out:
        raise ValueError(
            "state_out is state_in, but the gradient of a step needs the state at its start; pass another state, one for "
            f"each step of a tape, or {_REMEDY}"
        )


def _without_gradient(solver):
    """Yield what a solver's step does that has no gradient."""
    model, size = solver.model, solver.topology
    couplings = solver.couplings
    columns = (couplings.kind, couplings.joint, couplings.source_row)
    for kind, joint, row in zip(*(column.numpy() for column in columns), strict=True):
        if kind == BALL_LIMITS:
            yield f"the limit of a ball joint ({joint_name(model, int(joint))})"
        elif kind == ROD:
            yield f"the elasticity of a rod ({joint_name(model, int(joint))})"
        elif kind == ROUTE:
            yield route_name(model, int(row))
        elif kind in (TENDON, TENDON_LENGTHS):
            yield tendon_name(model, int(row)) if kind == TENDON else equality_name(model, int(row))
    if (
        solver.options.kinematic_velocity == "measured"
        and (model.body_flags.numpy() & newton.BodyFlags.KINEMATIC).any()
    ):
        yield 'kinematic_velocity="measured"'
    if solver.options.spin_friction:
        yield "spin_friction=True"
    arrays = size.arrays
    for link in np.flatnonzero(arrays["link_joint"] == FREELY):
        yield f"free flight without a joint ({body_name(model, int(arrays['link_body'][link]))})"
    for shape in np.flatnonzero(model.shape_material_restitution.numpy() > 0.0):
        yield f"the restitution of {owner_name(model, 'shape', int(shape))}"
    dofs = np.diff(arrays["group_dof_start"])
    for group in np.flatnonzero(dofs > DIRECT_DOFS):
        world = size.group_world[group]
        together = "a group of worlds that touch" if model.world_count > 1 else "the model"
        which = f"world {world}" if world >= 0 else together
        yield f"{which}, with {dofs[group]} dofs (up to {DIRECT_DOFS}),"
