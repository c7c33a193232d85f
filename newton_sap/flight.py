"""Trees that fly: their centre of mass goes straight on (F 1.3).

Joints carry links along arcs, which a step replaces by chords, and velocities stand between positions (F 1.1): what a tree's bodies
have of momentum by the velocity at the end of a step, at its new coordinates, is not what they had and were given. What pushes a
flying tree from outside is known, so its momentum is, too. A translation of all bodies makes up for the difference; nothing within the
tree notices it.
"""

import numpy as np
import warp as wp

from .boundary.topology import Topology, flying_links
from .constraints.coupling_table import (
    BALL_LIMITS,
    BODIES,
    COORDINATES,
    DISTANCE_RANGE,
    LOOP_FORCES,
    LOOP_LAWS,
    is_enabled,
)
from .coupling_bundles import CouplingTable
from .linalg.lanes import sync
from .multibody.efforts import Efforts, external_wrench
from .multibody.joints import flies
from .multibody.kinematics import publish_link
from .multibody.orders import Orders
from .multibody.paths import free_velocity, link_velocity
from .multibody.pending import carrier_after, carrier_velocity_after, pending_move
from .multibody.spatial import angular, linear, to_quatd, to_vec3d, velocity_at
from .workspace import Bodies, ContactPool, Joints, Motion, StateArrays, Tree

wp.set_module_options({"enable_backward": False})

NEVER = wp.constant(-1)
"""A tree that hangs on the world by its root, has several parts that fly, or is one body, whose centre of mass goes straight anyway."""
PUSHED = wp.constant(0)
"""One that contacts pushed in this step, or that a coupling ties to something else."""
FLEW = wp.constant(1)

_WITHIN = [int(kind) for kind in (BODIES, DISTANCE_RANGE, LOOP_LAWS, LOOP_FORCES, BALL_LIMITS)]
"""Couplings that push two bodies against each other, and nothing else."""


@wp.func
def tree_of_link(tree: Tree, link: int):
    """The tree of a link, -1 for none and for what no unknown moves."""
    t = int(-1)
    if link >= 0:
        t = tree.links[link].tree
    return t


@wp.kernel
def note_flights(tree: Tree, m: Motion, pool: ContactPool):
    """One block per group: note which trees no contact pushed from outside in this step."""
    block, lane = wp.tid()
    g = tree.first_group + block
    for t in range(tree.groups[g].tree_start + lane, tree.groups[g + 1].tree_start, wp.block_dim()):
        if m.flight[t] != NEVER:
            m.flight[t] = FLEW
    sync()
    start = pool.group_start[g]
    for slot in range(start + lane, start + pool.group_count[g], wp.block_dim()):
        a = tree_of_link(tree, pool.link_a[slot])
        b = tree_of_link(tree, pool.link_b[slot])
        if a != b and wp.length_sq(pool.gamma[slot]) > wp.float64(0.0):
            if a >= 0:
                wp.atomic_min(m.flight, a, PUSHED)
            if b >= 0:
                wp.atomic_min(m.flight, b, PUSHED)


@wp.struct
class Ties:
    """What couplings tie to something outside of its tree, a coupling and a tree at a time, group after group."""

    start: wp.array[wp.int32]  # (G + 1,)
    coupling: wp.array[wp.int32]
    tree: wp.array[wp.int32]


@wp.kernel
def note_ties(tree: Tree, ties: Ties, table: CouplingTable, m: Motion):
    """One block per group: note which trees couplings hold that act."""
    block, lane = wp.tid()
    g = tree.first_group + block
    for i in range(ties.start[g] + lane, ties.start[g + 1], wp.block_dim()):
        if is_enabled(table, ties.coupling[i]):
            wp.atomic_min(m.flight, ties.tree[i], PUSHED)


@wp.func
def yields(joints: Joints, joint: int):
    """Whether nothing of a free joint's own resists its sliding."""
    free = bool(True)
    if joint >= 0:
        for i in range(3):
            dof = joints.qd_start[joint] + i
            own = wp.abs(joints.armature[dof]) + wp.abs(joints.damping[dof]) + wp.abs(joints.friction[dof])
            if own != 0.0:
                free = False
    return free


@wp.func
def mass_of(tree: Tree, bodies: Bodies, t: int):
    """Mass of a tree [kg]."""
    total = wp.float64(0.0)
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        total += wp.float64(bodies.mass[tree.links[link].body])
    return total


@wp.func
def moment_of(tree: Tree, bodies: Bodies, m: Motion, t: int):
    """First moment of a tree about the world origin [kg m]."""
    total = wp.vec3d()
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        total += wp.float64(bodies.mass[tree.links[link].body]) * m.com[link]
    return total


@wp.func
def momentum_of(tree: Tree, bodies: Bodies, m: Motion, t: int):
    """Linear momentum of a tree by its links' velocities [N s]."""
    total = wp.vec3d()
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        total += wp.float64(bodies.mass[tree.links[link].body]) * velocity_at(m.velocity[link], m.com[link])
    return total


@wp.func
def outside_push(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, efforts: Efforts, t: int):
    """What pushes a tree from outside [N]."""
    total = wp.vec3d()
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        total += linear(external_wrench(tree, joints, bodies, m, orders, efforts, link))
    return total


@wp.func
def flew(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, t: int):
    """Whether a tree moved in this step as what is known of its momentum says."""
    free = bool(m.flight[t] == FLEW and m.locked[t] == 0)
    return (
        free
        and mass_of(tree, bodies, t) > wp.float64(0.0)
        and yields(joints, tree.links[tree.trees[t].link_start].joint)
    )


@wp.func
def rate_after(
    tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, efforts: Efforts, t: int, dt: wp.float64
):
    """Velocity of a flying tree's COM at the end of the step [m/s]."""
    push = outside_push(tree, joints, bodies, m, orders, efforts, t)
    return (momentum_of(tree, bodies, m, t) + dt * push) / mass_of(tree, bodies, t)


@wp.struct
class Flight:
    """How far a tree's bodies are from where they go [m], and what their velocity lacks [m/s]; world axes."""

    shift: wp.vec3d
    gain: wp.vec3d


@wp.func
def flight_of(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    after: Motion,
    orders: Orders,
    efforts: Efforts,
    t: int,
    dt: wp.float64,
):
    """Nothing for a tree that did not fly."""
    flight = Flight()
    if flew(tree, joints, bodies, m, t):
        mass = mass_of(tree, bodies, t)
        rate = rate_after(tree, joints, bodies, m, orders, efforts, t, dt)
        flight.gain = rate - momentum_of(tree, bodies, after, t) / mass
        flight.shift = dt * rate + (moment_of(tree, bodies, m, t) - moment_of(tree, bodies, after, t)) / mass
    return flight


@wp.func
def in_anchor(joints: Joints, joint: int, x: wp.vec3d):
    """A vector of the world in the axes of a root joint's parent anchor."""
    return wp.quat_rotate_inv(to_quatd(wp.transform_get_rotation(joints.X_p[joint])), x)


@wp.func
def copy_coordinates(joints: Joints, placed: StateArrays, out: StateArrays, joint: int):
    """Take a joint's coordinates and velocities over."""
    for i in range(joints.q_start[joint], joints.q_start[joint + 1]):
        out.joint_q[i] = placed.joint_q[i]
    for i in range(joints.qd_start[joint], joints.qd_start[joint + 1]):
        out.joint_qd[i] = placed.joint_qd[i]


@wp.func
def move_root(
    joints: Joints, orders_after: Orders, placed: StateArrays, out: StateArrays, joint: int, body: int, flight: Flight
):
    """Move the point of a free joint, or of a root that no joint moves, and add to its velocity."""
    if joint >= 0:
        shift = in_anchor(joints, joint, flight.shift)
        gain = in_anchor(joints, joint, flight.gain)
        q = joints.q_start[joint]
        qd = joints.qd_start[joint] + 3 * orders_after.qd_in
        for i in range(3):
            out.joint_q[q + i] = wp.float32(wp.float64(placed.joint_q[q + i]) + shift[i])
            out.joint_qd[qd + i] = wp.float32(wp.float64(placed.joint_qd[qd + i]) + gain[i])
    else:
        X = placed.body_q[body]
        at = to_vec3d(wp.transform_get_translation(X)) + flight.shift
        out.body_q[body] = wp.transform(wp.vec3(at), wp.transform_get_rotation(X))
        V = placed.body_qd[body]
        v = to_vec3d(wp.spatial_top(V)) + flight.gain
        out.body_qd[body] = wp.spatial_vector(wp.vec3(v), wp.spatial_bottom(V))


@wp.kernel
def straighten(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders_after: Orders,
    efforts: Efforts,
    placed: StateArrays,
    out: StateArrays,
    after: Motion,
    moved: Motion,
    apart: int,
    dt: wp.float64,
):
    """Let the COM of what flew go straight on, from the state ``placed`` and its motion ``after`` to ``out`` and ``moved``.

    Those may be the same arrays. If not, ``apart`` is 1 and trees that did not fly are copied.
    """
    t = tree.first_tree + wp.tid()
    if m.flight[t] != FLEW and apart == 0:
        return
    flight = flight_of(tree, joints, bodies, m, after, orders_after, efforts, t, dt)
    root = tree.trees[t].link_start
    for link in range(root, tree.trees[t + 1].link_start):
        joint = tree.links[link].joint
        if joint >= 0 and apart == 1:
            copy_coordinates(joints, placed, out, joint)
        if link == root and (joint < 0 or m.flight[t] == FLEW):
            move_root(joints, orders_after, placed, out, joint, tree.links[link].body, flight)
        publish_link(tree, joints, bodies, moved, orders_after, out, link)


@wp.struct
class Observed:
    """What an observed step ended with."""

    v: wp.array[wp.float64]  # (D,)
    momentum: wp.array[wp.vec3d]  # (T,) linear momentum of trees there [N s]
    after: Motion  # where links are then, and how fast, if any flies below another one


@wp.kernel
def note_momentum(tree: Tree, bodies: Bodies, m: Motion, observed: Observed):
    """Linear momentum of every tree [N s]."""
    t = tree.first_tree + wp.tid()
    observed.momentum[t] = momentum_of(tree, bodies, m, t)


@wp.kernel
def bend(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    efforts: Efforts,
    observed: Observed,
    dt: wp.float64,
):
    """Take from observed rates what :func:`straighten` gave them."""
    t = tree.first_tree + wp.tid()
    if not flew(tree, joints, bodies, m, t):
        return
    root = tree.trees[t].link_start
    lacks = observed.momentum[t] + linear(m.momentum[root])
    for link in range(root, tree.trees[t + 1].link_start):
        velocity = velocity_at(free_velocity(tree, m, observed.v, link), m.com[link])
        lacks -= wp.float64(bodies.mass[tree.links[link].body]) * velocity
    gain = rate_after(tree, joints, bodies, m, orders, efforts, t, dt) - lacks / mass_of(tree, bodies, t)
    if tree.links[root].joint >= 0:
        gain = in_anchor(joints, tree.links[root].joint, gain)
    slide = tree.links[root].dof_start + 3
    for i in range(3):
        observed.v[slide + i] = observed.v[slide + i] - gain[i]


@wp.kernel
def see_from_start(
    tree: Tree,
    joints: Joints,
    m: Motion,
    observed: Observed,
    dt: wp.float64,
):
    """Turn observed rates of what flies below another link, which are relative to that, into those of its solve."""
    t = tree.first_tree + wp.tid()
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        above = tree.links[link].parent
        if above >= 0 and flies(joints, tree.links[link].joint):
            anchor = carrier_after(tree, joints, m, observed.after, link, dt)
            point = wp.transform_point(pending_move(tree, m, t, dt), observed.after.com[link])
            V = carrier_velocity_after(tree, m, observed.after, link, point, dt)
            start = link_velocity(tree, m, observed.v, above)
            dof = tree.links[link].dof_start
            w = wp.vec3d(observed.v[dof], observed.v[dof + 1], observed.v[dof + 2])
            v = wp.vec3d(observed.v[dof + 3], observed.v[dof + 4], observed.v[dof + 5])
            w = wp.transform_vector(anchor, w) + angular(V) - angular(start)
            v = wp.transform_vector(anchor, v) + linear(V) - velocity_at(start, m.com[link])
            for i in range(3):
                axis = linear(m.column[dof + 3 + i])
                observed.v[dof + i] = wp.dot(axis, w)
                observed.v[dof + 3 + i] = wp.dot(axis, v)


class Flights:
    """Which trees of a model may fly; tells ``motion`` and straightens their paths at the end of each step."""

    def __init__(self, motion: Motion, table: CouplingTable, topology: Topology, model, update: str):
        symplectic = update == "symplectic"
        may = _may_fly(topology, model) if symplectic else np.zeros(topology.tree_count, bool)
        coupling, tree = _outer_ties(table, topology, may)
        start = np.searchsorted(topology.arrays["tree_group"][tree], np.arange(topology.group_count + 1))
        self._ties = Ties()
        for name, values in (("start", start), ("coupling", coupling), ("tree", tree)):
            setattr(self._ties, name, wp.array(values, dtype=wp.int32, device=model.device))
        self.kernels = [note_flights, straighten] if may.any() else []
        self.kernels += [note_ties] if len(tree) else []
        self._below = symplectic and _fly_below(topology, model)
        motion.flight.assign(np.where(may, int(FLEW), int(NEVER)))

    def straighten(self, solver, frame) -> None:
        """Straighten the paths of what nothing pushed in this step but what is known."""
        if not self.kernels:
            return
        self._note(solver)
        inputs = [
            solver.joints,
            solver.bodies,
            solver.motion,
            frame.orders_after,
            frame.efforts,
            frame.after,
            frame.after,
        ]
        solver.launches.trees(straighten, [*inputs, solver.motion_after, solver.motion_after, 0, frame.dt])

    def _note(self, solver) -> None:
        solver.launches.groups(note_flights, [solver.motion, solver.pool])
        if note_ties in self.kernels:
            solver.launches.groups(note_ties, [self._ties, solver.couplings, solver.motion])

    def observe(self, solver) -> Observed:
        """Return what :func:`newton_sap.mechanics.place` has found of a state."""
        observed = Observed()
        observed.v = wp.clone(solver.motion_after.v0)
        observed.momentum = wp.zeros(solver.topology.tree_count, dtype=wp.vec3d, device=solver.device)
        if self._below:  # the solve uses the originals
            for name in ("position", "rotation", "com", "velocity"):
                setattr(observed.after, name, wp.clone(getattr(solver.motion_after, name)))
        if self.kernels:
            solver.launches.trees(note_momentum, [solver.bodies, solver.motion_after, observed])
        return observed

    def bend(self, solver, frame, observed: Observed) -> None:
        """Turn rates observed at the end of a step that was just found into those of its solve."""
        if self._below:
            solver.launches.trees(see_from_start, [solver.joints, solver.motion, observed, frame.dt])
        if not self.kernels:
            return
        self._note(solver)
        inputs = [solver.joints, solver.bodies, solver.motion, frame.orders, frame.efforts, observed, frame.dt]
        solver.launches.trees(bend, inputs)


def _may_fly(topology: Topology, model) -> np.ndarray:
    """Return (trees,) whether a tree has links on a root that flies, and on no other joint that does."""
    count = topology.tree_count
    if not count:
        return np.zeros(0, bool)
    starts = topology.arrays["tree_link_start"][: count + 1]
    flies = flying_links(model, topology.arrays["link_joint"][: topology.link_count]).astype(int)
    return (np.diff(starts) > 1) & (flies[starts[:-1]] == 1) & (np.add.reduceat(flies, starts[:-1]) == 1)


def _fly_below(topology: Topology, model) -> bool:
    """Return whether any link flies on a joint below another one."""
    links = topology.link_count
    return bool(
        np.any(
            flying_links(model, topology.arrays["link_joint"][:links]) & (topology.arrays["link_parent"][:links] >= 0)
        )
    )


def _outer_ties(table: CouplingTable, topology: Topology, may: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return couplings, and a tree of each that may fly and that it ties to another one or to the world."""
    tree, kind = table.tree.numpy(), table.kind.numpy()
    coupling = np.repeat(np.arange(len(kind)), np.diff(table.tree_start.numpy()))
    first, last = np.full(len(kind), topology.tree_count), np.full(len(kind), -1)
    np.minimum.at(first, coupling, tree)
    np.maximum.at(last, coupling, tree)
    on_world = np.minimum(table.body_a.numpy(), table.body_b.numpy()) < 0
    inner = (first == last) & ((kind == int(COORDINATES)) | (np.isin(kind, _WITHIN) & ~on_world))
    outer = ~inner[coupling] & may[tree]
    return coupling[outer], tree[outer]
