"""The model at its own coordinates, outside of steps: kinematics and mass matrix, and what construction reads from them."""

from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp

from .boundary.damping_ratios import damping_ratios, inertias_at_dofs, resolve_damping_ratios, zero_coordinates
from .boundary.validation import require_positive_mass_matrix
from .inspection import read_mass_matrices
from .workspace import Motion

SHORT = 1.0e-9
"""Step length [s] that keeps damping out of the mass matrix."""


def place_at_rest(solver, joint_q=None) -> None:
    """Kinematics and mass matrix at the model's own coordinates, or others, in ``solver.motion``."""
    state = solver.model.state()
    if joint_q is not None:
        state.joint_q.assign(joint_q)
    frame = solver._open_frame(state, state, None, None, SHORT)
    solver._move_bodies(frame)
    solver._move_freely(frame)


@contextmanager
def keep_motion(solver) -> Iterator[None]:
    """Restore in the end what the last step left, which ``inspect`` and ``update_contacts`` read."""
    arrays = [getattr(motion, name) for motion in (solver.motion, solver.motion_after) for name in Motion.vars]
    kept, last = [wp.clone(array) for array in arrays], solver.frames.last
    try:
        yield
    finally:
        solver.frames.last = last
        for array, before in zip(arrays, kept, strict=True):
            wp.copy(array, before)


def check_mass_matrix(solver) -> None:
    """Factor the mass matrix once, so that a dof without inertia is named here and not found as NaN later."""
    place_at_rest(solver)
    locked = solver.motion.locked.numpy()
    require_positive_mass_matrix(solver.model, solver.topology, read_mass_matrices(solver), locked)


def apply_damping_ratios(solver) -> None:
    """Give servos the damping that a file says as a ratio to critical, in the model itself, as SolverMuJoCo does."""
    ratios = damping_ratios(solver.model)
    if ratios:
        place_at_rest(solver, zero_coordinates(solver.model))
        inertia = inertias_at_dofs(
            solver.topology, read_mass_matrices(solver), solver.motion.locked.numpy(), solver.model.joint_dof_count
        )
        resolve_damping_ratios(solver.model, inertia, ratios)
