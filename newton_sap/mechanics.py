"""Energy and momentum of a state and how far its loops are open, per solve group: worked out when asked for, in float64."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from .bodies import gravity, spin_momentum
from .boundary.bundles import state_arrays
from .boundary.topology import flying_links, link_kinds
from .boundary.validation import require_arrays
from .multibody.joints import BALL
from .multibody.kinematics import place_link
from .multibody.orders import Orders
from .workspace import Bodies, Joints, Motion, StateArrays, Tree, allocate

FIELDS = ("kinetic_energy", "potential_energy", "linear_momentum", "angular_momentum", "loop_gap", "loop_angle")
"""Fields of ``SolverReport`` that describe a state."""


@wp.kernel(enable_backward=False)
def place_links(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    state: StateArrays,
):
    """Poses and velocities of the links of a tree."""
    t = tree.first_tree + wp.tid()
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        place_link(tree, joints, bodies, m, orders, state, link, 0)


def place(solver, state) -> None:
    """Bring a state's poses and velocities into solver coordinates, in ``solver.motion_after``; the state stays as it is."""
    if not solver.topology.link_count:
        return  # Newton's states leave out the arrays of bodies they have none of
    orders = Orders()
    orders.qd_in = int(getattr(state, "joint_qd_order", "public") == "sap")
    orders.reference_is_com = int(solver.options.position_update == "symplectic")
    read = state_arrays(state)
    if solver.model.joint_dof_count:
        read.joint_qd = wp.clone(state.joint_qd)
        solver.initial_velocities.adopt(solver.launches, state, read.joint_qd)
    solver.launches.trees(place_links, [solver.joints, solver.bodies, solver.motion_after, orders, read])


def energy_and_momentum(solver, state) -> dict[str, np.ndarray]:
    """Return the fields of ``SolverReport`` that describe a state; synchronises with the device."""
    model = solver.model
    sizes = {"joint_q": model.joint_coord_count, "joint_qd": model.joint_dof_count}
    sizes |= {"body_q": model.body_count, "body_qd": model.body_count}
    require_arrays("state", state, sizes, solver.device)
    place(solver, state)
    with np.errstate(invalid="ignore", over="ignore"):  # of a state that is no longer finite
        return _sum_up(solver, state)


def _sum_up(solver, state) -> dict[str, np.ndarray]:
    """The same, once the state has been placed."""
    model, arrays = solver.model, solver.topology.arrays
    links = arrays["link_body"]
    moved = (model.body_flags.numpy()[links] & int(newton.BodyFlags.KINEMATIC)) == 0
    group = arrays["tree_group"][arrays["link_tree"]]
    at = solver.motion_after
    mass = np.where(moved, model.body_mass.numpy()[links].astype(float), 0.0)
    com, twist = at.com.numpy().reshape(-1, 3), at.velocity.numpy().reshape(-1, 6)
    spin = twist[:, :3]
    momentum = mass[:, None] * (twist[:, 3:] + np.cross(spin, com))
    inertia = model.body_inertia.numpy().reshape(-1, 3, 3)[links].astype(float)
    own_spin = spin_momentum(inertia, at.rotation.numpy().reshape(-1, 4), spin) * moved[:, None]
    kinetic = 0.5 * (_dot(momentum, twist[:, 3:] + np.cross(spin, com)) + _dot(own_spin, spin))
    pull = gravity(model)[links]
    if len(solver.bodies.gravcomp):
        pull *= 1.0 - solver.bodies.gravcomp.numpy()[links, None]
    dof_group, dof_moved = group[arrays["dof_link"]], moved[arrays["dof_link"]]
    armature = _or(model.joint_armature, 0.0)[arrays["dof_qd"]].astype(float)
    rotors = 0.5 * armature * at.v0.numpy() ** 2 * dof_moved
    tied_group = np.asarray(arrays["tree_group"])[solver.pools.couplers.tree.numpy()]
    tied_kinetic, tied_potential, gap, angle = _state_of_couplings(solver, state, len(tied_group))

    def sums(values, owner, add=np.add):
        out = np.zeros((solver.topology.group_count, *values.shape[1:]))
        add.at(out, owner, values)
        return out

    return {
        "kinetic_energy": sums(kinetic, group) + sums(rotors, dof_group) + sums(tied_kinetic, tied_group),
        "potential_energy": sums(-mass * _dot(pull, com), group)
        + sums(_spring_energy(model, arrays, state) * dof_moved, dof_group)
        + sums(tied_potential, tied_group),
        "linear_momentum": sums(momentum, group),
        "angular_momentum": sums(np.cross(com, momentum) + own_spin, group),
        "loop_gap": sums(gap, tied_group, np.maximum),
        "loop_angle": sums(angle, tied_group, np.maximum),
    }


def _or(array, otherwise) -> np.ndarray:
    """A joint array in which -1, for a root that no joint moves, finds something else."""
    return np.append(array.numpy(), otherwise)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)


def _spring_energy(model, arrays, state) -> np.ndarray:
    """Energy of the passive joint spring of each dof; of a ball joint, of the rotation vector to its rest pose."""
    public, coord = arrays["dof_qd"], arrays["dof_q"]
    stiffness = _or(model.joint_stiffness, 0.0)[public].astype(float)
    away = np.zeros(len(public))
    if not model.joint_coord_count:
        return away  # and the state has no joint_q
    q, rest = state.joint_q.numpy().astype(float), model.joint_rest_q.numpy().astype(float)
    plain = coord >= 0
    away[plain] = (rest - q)[coord[plain]]
    kinds = link_kinds(model, arrays["link_joint"])
    starts = _or(model.joint_q_start, 0)[arrays["link_joint"]]
    first = arrays["link_dof_start"]
    for link in np.flatnonzero(kinds == int(BALL)):
        here = slice(starts[link], starts[link] + 4)
        away[first[link] : first[link + 1]] = _rotation_vector(rest[here], q[here])
    free = flying_links(model, arrays["link_joint"])[arrays["dof_link"]]
    return np.where(free, 0.0, 0.5 * stiffness * away**2)


def _state_of_couplings(solver, state, count: int) -> list[np.ndarray]:
    """Energies of each coupling [J], and how far it is open [m] and turned away [rad], at the placed state."""
    if not count:
        return [np.zeros(0)] * 4
    from .constraints.coupling_state import CouplingState, measure_couplings

    out = allocate(CouplingState, {"*": count}, solver.device)
    inputs = [solver.tree, solver.joints, solver._couplings_at(state), solver.motion_after, state_arrays(state), out]
    wp.launch(measure_couplings, count, inputs, device=solver.device)
    return [getattr(out, name).numpy() for name in ("kinetic", "potential", "gap", "angle")]


def _rotation_vector(goal: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Rotation vector of ``goal q^-1``, in the axes of the parent anchor."""
    w = goal[3] * q[3] + goal[:3] @ q[:3]
    v = q[3] * goal[:3] - goal[3] * q[:3] - np.cross(goal[:3], q[:3])
    if w < 0.0:
        w, v = -w, -v
    length = np.linalg.norm(v)
    return v * (2.0 * np.arctan2(length, w) / length if length > 0.0 else 2.0)
