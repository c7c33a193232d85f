"""A float64 look inside the last step, in Newton's dof order: for tests and debugging."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from .boundary.topology import mass_block
from .multibody.mass_matrix import mass_matrices
from .workspace import Motion, allocate, copy_bundle


@dataclass(frozen=True)
class Inspection:
    """Quantities of the last step. Velocities are in sap order: a free joint's six entries hold ``[w, v_ref]``.

    Behind the dofs of Newton's joints follow six for each body that moves freely without a joint, in solver order.
    """

    v0: np.ndarray
    """(dofs,) at the start."""
    v_star: np.ndarray
    """(dofs,) after free motion."""
    v: np.ndarray
    """(dofs,) at the end."""
    A: np.ndarray
    """(dofs, dofs) ``M + dt D + dt^2 K``."""


def read_mass_matrices(solver) -> np.ndarray:
    """Return the blocks of ``A`` as of the last free motion; those of parts that share a place are worked out once more."""
    topology, motion = solver.topology, solver.motion
    if not solver.scratch.is_in(motion):
        return motion.A.numpy()
    last = solver.frames.last
    whole = copy_bundle(Motion, motion, {"A": wp.zeros(topology.block_size, dtype=wp.float64, device=solver.device)})
    pulled = allocate(Motion, {"*": 0, "momentum": topology.link_count}, solver.device)
    inputs = [solver.tree, solver.joints, solver.bodies, whole, pulled, last.orders, last.efforts, last.dt]
    wp.launch(mass_matrices, dim=topology.tree_count, inputs=inputs, device=solver.device)
    return whole.A.numpy()


def read_inspection(solver) -> Inspection:
    """Copy the quantities to the host; dofs of loop joints, which are no unknowns, stay zero."""
    topology, motion, dofs = solver.topology, solver.motion, solver.model.joint_dof_count
    arrays = topology.arrays
    slots = dof_slots(arrays, dofs)
    dofs += int((arrays["dof_qd"] < 0).sum())
    A = np.zeros((dofs, dofs))
    blocks = read_mass_matrices(solver)
    for t in range(topology.tree_count):
        here = slots[slice(*arrays["tree_dof_start"][t : t + 2])]
        A[np.ix_(here, here)] = mass_block(arrays, blocks, t)

    def scatter(values):
        out = np.zeros(dofs)
        out[slots] = values.numpy()
        return out

    return Inspection(scatter(motion.v0), scatter(motion.v_star), scatter(motion.v), A)


def dof_slots(arrays, dofs: int) -> np.ndarray:
    """Place each dof in its joint's segment of ``joint_qd``, in solver order; those of no joint behind all ``dofs``."""
    slots = np.empty(len(arrays["dof_qd"]), dtype=int)
    starts = arrays["link_dof_start"]
    for first, last in zip(starts[:-1], starts[1:], strict=True):
        if last > first:
            lowest = arrays["dof_qd"][first:last].min()
            if lowest < 0:
                lowest, dofs = dofs, dofs + last - first
            slots[first:last] = lowest + np.arange(last - first)
    return slots


def live_slots(pool) -> list[int]:
    """List the slots of a contact pool that the last step filled, group after group."""
    filled = zip(pool.group_start.numpy(), pool.group_count.numpy(), strict=True)
    return [slot for start, count in filled for slot in range(start, start + count)]
