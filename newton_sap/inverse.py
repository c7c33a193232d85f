"""Inverse dynamics of an observed step: the constraint impulses it implies, and the force that nothing explains.

The laws give every impulse as a function of the velocity at the end of the step: ``gamma`` follows in closed form, and
``A (v - v_star) - J^T gamma`` is the momentum left over. For a step of the solver itself it vanishes up to the tolerance
and the rounding of the states, which makes it a health figure. Friction bounds (``friction_bound``) and which contacts bounce come
from the solve itself: where they matter, one solve finds them again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .boundary.bundles import minimizer_settings
from .contacts.rows import ENTRIES
from .contacts.stage import fill_pool
from .diagnostics import allocate_stats
from .inspection import dof_slots, live_slots
from .mechanics import place
from .problem import restart_from
from .workspace import Stats


@dataclass(frozen=True)
class InverseDynamics:
    """What explains an observed step; generalised forces are in sap order (free joints: ``[tau_ref, f]``)."""

    contact_row: np.ndarray
    """(n,) row in ``Contacts`` of each contact in the problem; a row has one contact per corner that it touches in (F 4.7)."""
    contact_impulse: np.ndarray
    """(n, 3) impulse on shape 1's body, world axes [N s]."""
    contact_point: np.ndarray
    """(n, 3) where it acts, world [m]."""
    constraint_force: np.ndarray
    """(dofs,) generalised force of all constraints, ``J^T gamma / dt`` [N, N m]."""
    unexplained_force: np.ndarray
    """(dofs,) ``(A (v - v_star) - J^T gamma) / dt`` [N, N m]: what would have to act besides.

    Under ``friction_bound="solved"`` friction is bounded as in a step without that: of a force that presses what slides, it holds
    ``mu`` times as much along the slip besides. Under ``"start"``, and the laws ``"sap"`` and ``"similar"``, it is the force alone.
    """
    residual: np.ndarray
    """(groups,) scaled norm of the momentum left over [sqrt(J)], as in ``report()``."""
    scale: np.ndarray
    """(groups,) what it is measured against [sqrt(J)]."""


def inverse_dynamics(solver, state_in, state_out, control, contacts, dt: float) -> InverseDynamics:
    """Explain the step from ``state_in`` to ``state_out``; see :meth:`newton_sap.SolverSAP.inverse_dynamics`."""
    contacts = solver.contacts if contacts is None else contacts
    frame = solver._open_frame(state_in, state_in, control, contacts, dt)
    stats = allocate_stats(solver.topology, solver.device)
    place(solver, state_out)
    observed = solver.flights.observe(solver)
    # No iteration: evaluates once, at the observed velocity.
    settings = minimizer_settings(replace(solver.options, max_iterations=0, friction_bound="start"))
    evaluate = solver._make_solve_kernel(assembles=False)
    with solver.launches:
        solver._move_bodies(frame)
        solver._command_actuators(frame)
        solver._lay_tendons(frame)
        with solver.launches.unbroken():
            solver._move_freely(frame)
            fill_pool(solver, frame, stats)
            solver._assemble(frame)
            # Finds which friction bounds and which rebounds the step came to.
            solver._solve(solver._solve_kernel, frame, stats, solver._settings)
            solver.flights.bend(solver, frame, observed)
            solver.launches.clusters(restart_from, [solver.motion, solver.problem, observed.v])
            solver._solve(evaluate, frame, stats, settings)
    return _collect(solver, stats, observed.v.numpy(), frame.dt)


def _collect(solver, stats: Stats, observed: np.ndarray, dt: float) -> InverseDynamics:
    topology, motion, problem, pool = solver.topology, solver.motion, solver.problem, solver.pool
    slots = dof_slots(topology.arrays, solver.model.joint_dof_count)
    explained = np.zeros(topology.dof_count)
    clusters, dofs, impulse = problem.clusters.entry.numpy(), problem.dof.numpy(), problem.impulse.numpy()
    for cluster in clusters[clusters["trees"] > 0]:
        here = slice(cluster["dof_start"], cluster["dof_start"] + cluster["unknowns"])
        explained[dofs[here]] = impulse[here]
    view = solver.inspect()
    total = np.zeros(len(view.v_star))
    total[slots] = explained
    away = np.zeros_like(total)
    away[slots] = observed - motion.v_star.numpy()
    spin_of = pool.spin_of.numpy()
    live = [slot for slot in live_slots(pool) if spin_of[slot] < 0]
    return InverseDynamics(
        contact_row=pool.row.numpy()[live] // int(ENTRIES),
        contact_impulse=pool.gamma.numpy()[live].copy(),
        contact_point=pool.point_b.numpy()[live].copy(),
        constraint_force=total / dt,
        unexplained_force=(view.A @ away - total) / dt,
        residual=stats.groups.numpy()["residual"].copy(),
        scale=stats.groups.numpy()["scale"].copy(),
    )
