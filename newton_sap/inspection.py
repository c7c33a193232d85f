"""A float64 look inside the last step, in Newton's dof order: for tests and debugging."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .boundary.topology import mass_block


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


def read_inspection(topology, motion, dofs: int) -> Inspection:
    """Copy the quantities to the host; dofs of loop joints, which are no unknowns, stay zero."""
    arrays = topology.arrays
    slots = dof_slots(arrays, dofs)
    dofs += int((arrays["dof_qd"] < 0).sum())
    A = np.zeros((dofs, dofs))
    blocks = motion.A.numpy()
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
