"""Trees that fly: their centre of mass goes straight on (F 1.3).

Joints carry links along arcs, which a step replaces by chords, and velocities stand between positions (F 1.1): what a tree's bodies
have of momentum by the velocity at the end of a step, at its new coordinates, is not what they had and were given. What pushes a
flying tree from outside is known, so its momentum is, too. A translation of all bodies makes up for the difference; nothing within the
tree notices it.
"""

import numpy as np
import warp as wp

from ..constraints.coupling_table import BALL_LIMITS, BODIES, COORDINATES, DISTANCE_RANGE, LOOP_FORCES, LOOP_LAWS
from ..coupling_bundles import CouplingTable
from ..linalg.lanes import sync
from ..multibody.efforts import Efforts, external_wrench
from ..multibody.free_motion import point_velocity
from ..multibody.spatial import angular, linear, motion, to_quatd, velocity_at
from ..workspace import Bodies, ContactPool, Joints, Motion, StateArrays, Tree
from .convention import Orders
from .topology import Topology, flying_links

wp.set_module_options({"enable_backward": False})

NEVER = wp.constant(-1)
"""A tree that hangs on something, has several parts that fly, or is one body, whose centre of mass goes straight anyway."""
PUSHED = wp.constant(0)
"""One that contacts pushed in this step."""
FLEW = wp.constant(1)

_WITHIN = [int(kind) for kind in (BODIES, DISTANCE_RANGE, LOOP_LAWS, LOOP_FORCES, BALL_LIMITS)]
"""Couplings that push two bodies against each other, and nothing else."""


@wp.func
def tree_of(tree: Tree, link: int):
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
        a = tree_of(tree, pool.link_a[slot])
        b = tree_of(tree, pool.link_b[slot])
        if a != b and wp.length_sq(pool.gamma[slot]) > wp.float64(0.0):
            if a >= 0:
                wp.atomic_min(m.flight, a, PUSHED)
            if b >= 0:
                wp.atomic_min(m.flight, b, PUSHED)


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
def push_of(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, efforts: Efforts, t: int):
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
    push = push_of(tree, joints, bodies, m, orders, efforts, t)
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
def move_coordinates(
    joints: Joints,
    orders: Orders,
    placed: StateArrays,
    out: StateArrays,
    moved: Motion,
    joint: int,
    dof: int,
    flight: Flight,
):
    """Move a free joint's point and add to its velocity."""
    shift = in_anchor(joints, joint, flight.shift)
    gain = in_anchor(joints, joint, flight.gain)
    q = joints.q_start[joint]
    qd = joints.qd_start[joint] + 3 * orders.qd_out
    for i in range(3):
        out.joint_q[q + i] = placed.joint_q[q + i] + wp.float32(shift[i])
        out.joint_qd[qd + i] = placed.joint_qd[qd + i] + wp.float32(gain[i])
        moved.v0[dof + 3 + i] = moved.v0[dof + 3 + i] + gain[i]


@wp.func
def move_body(
    placed: StateArrays, out: StateArrays, after: Motion, moved: Motion, link: int, body: int, flight: Flight
):
    """Move a body without turning it, and add to its velocity."""
    X = placed.body_q[body]
    at = wp.transform_get_translation(X) + wp.vec3(flight.shift)
    out.body_q[body] = wp.transform(at, wp.transform_get_rotation(X))
    out.body_qd[body] = placed.body_qd[body] + wp.spatial_vector(wp.vec3(flight.gain), wp.vec3())
    V = after.velocity[link]
    moved.position[link] = after.position[link] + flight.shift
    moved.com[link] = after.com[link] + flight.shift
    moved.velocity[link] = V + motion(wp.vec3d(), flight.gain + wp.cross(flight.shift, angular(V)))


@wp.kernel
def straighten(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
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
    flight = flight_of(tree, joints, bodies, m, after, orders, efforts, t, dt)
    root = tree.trees[t].link_start
    for link in range(root, tree.trees[t + 1].link_start):
        joint = tree.links[link].joint
        if joint >= 0 and apart == 1:
            copy_coordinates(joints, placed, out, joint)
        if joint >= 0 and link == root and m.flight[t] == FLEW:
            move_coordinates(joints, orders, placed, out, moved, joint, tree.links[link].dof_start, flight)
        move_body(placed, out, after, moved, link, tree.links[link].body, flight)


@wp.kernel
def note_momentum(tree: Tree, bodies: Bodies, m: Motion, momentum: wp.array[wp.vec3d]):
    """Linear momentum of every tree [N s]."""
    t = tree.first_tree + wp.tid()
    momentum[t] = momentum_of(tree, bodies, m, t)


@wp.kernel
def bend(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    orders: Orders,
    efforts: Efforts,
    momentum: wp.array[wp.vec3d],
    v: wp.array[wp.float64],
    dt: wp.float64,
):
    """Take from the rates ``v``, observed at the end of the step, what :func:`straighten` gave them; ``momentum`` is that of the trees there."""
    t = tree.first_tree + wp.tid()
    if not flew(tree, joints, bodies, m, t):
        return
    root = tree.trees[t].link_start
    lacks = momentum[t] + linear(m.momentum[root])
    for link in range(root, tree.trees[t + 1].link_start):
        velocity = point_velocity(tree, m, v, link, m.com[link])
        lacks -= wp.float64(bodies.mass[tree.links[link].body]) * velocity
    gain = rate_after(tree, joints, bodies, m, orders, efforts, t, dt) - lacks / mass_of(tree, bodies, t)
    if tree.links[root].joint >= 0:
        gain = in_anchor(joints, tree.links[root].joint, gain)
    for i in range(3):
        v[tree.links[root].dof_start + 3 + i] = v[tree.links[root].dof_start + 3 + i] - gain[i]


class Flights:
    """Which trees of a model may fly; tells ``motion`` and straightens their paths at the end of each step."""

    def __init__(self, motion: Motion, table: CouplingTable, topology: Topology, model, update: str):
        may = _may_fly(table, topology, model) if update == "symplectic" else np.zeros(topology.tree_count, bool)
        self.kernels = [note_flights, straighten] if may.any() else []
        motion.flight.assign(np.where(may, int(FLEW), int(NEVER)))

    def straighten(self, solver, frame) -> None:
        """Straighten the paths of what no contact pushed in this step."""
        if not self.kernels:
            return
        solver.launches.groups(note_flights, [solver.motion, solver.pool])
        inputs = [solver.joints, solver.bodies, solver.motion, frame.orders, frame.efforts, frame.after, frame.after]
        solver.launches.trees(straighten, [*inputs, solver.motion_after, solver.motion_after, 0, frame.dt])

    def momentum(self, solver) -> wp.array:
        """Return what momentum trees have where :func:`mechanics.place` has put them, shape (trees,)."""
        momentum = wp.zeros(solver.topology.tree_count, dtype=wp.vec3d, device=solver.device)
        if self.kernels:
            solver.launches.trees(note_momentum, [solver.bodies, solver.motion_after, momentum])
        return momentum

    def bend(self, solver, frame, momentum: wp.array, v: wp.array) -> None:
        """Turn rates observed at the end of a step that was just found, where trees have that momentum, into those of its solve."""
        if not self.kernels:
            return
        solver.launches.groups(note_flights, [solver.motion, solver.pool])
        inputs = [solver.joints, solver.bodies, solver.motion, frame.orders, frame.efforts, momentum, v, frame.dt]
        solver.launches.trees(bend, inputs)


def _may_fly(table: CouplingTable, topology: Topology, model) -> np.ndarray:
    """Return (trees,) whether a tree has links on a root that flies, and nothing holds it but contacts."""
    count = topology.tree_count
    if not count:
        return np.zeros(0, bool)
    starts = topology.arrays["tree_link_start"][: count + 1]
    flies = flying_links(model, topology.arrays["link_joint"][: topology.link_count]).astype(int)
    may = (np.diff(starts) > 1) & (flies[starts[:-1]] == 1) & (np.add.reduceat(flies, starts[:-1]) == 1)
    tree, kind = table.tree.numpy(), table.kind.numpy()
    coupling = np.repeat(np.arange(len(kind)), np.diff(table.tree_start.numpy()))
    first, last = np.full(len(kind), count), np.full(len(kind), -1)
    np.minimum.at(first, coupling, tree)
    np.maximum.at(last, coupling, tree)
    on_world = np.minimum(table.body_a.numpy(), table.body_b.numpy()) < 0
    inner = (kind == int(COORDINATES)) | (np.isin(kind, _WITHIN) & ~on_world)
    may[tree[~(inner & (first == last))[coupling]]] = False
    return may
