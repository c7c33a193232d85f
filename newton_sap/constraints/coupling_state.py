"""What springs and armatures of loop joints and tendons hold, and how far couplings are open; worked out for reports only."""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..workspace import Joints, Motion, StateArrays, Tree
from .coupler_pool import Anchor, joint_anchors, relative_velocity
from .couplers import Held, coupled_anchors, held_rotations, held_translations
from .coupling_table import BODIES, DISTANCE_RANGE, LOOP_FORCES, ROD, ROUTE, TENDON, is_enabled
from .loop_axes import error_of, loop_axis
from .rods import rod_energy
from .routes import route_energy
from .tendon_paths import path_motion
from .tendons import length_at_zero, spring_stretch, sum_of_terms

wp.set_module_options({"enable_backward": False})


@wp.struct
class CouplingState:
    """What a report tells of each coupling; zero at first."""

    kinetic: wp.array[wp.float64]  # (C,) energy of armatures [J]
    potential: wp.array[wp.float64]  # (C,) energy of springs [J]
    gap: wp.array[wp.float64]  # (C,) between anchors, beyond what is free [m]
    angle: wp.array[wp.float64]  # (C,) between axes, or of the turn where all are held [rad]


@wp.struct
class Stored:
    """A coordinate as springs and armatures see it."""

    stretch: wp.float64  # from where its spring is at rest
    rate: wp.float64
    stiffness: wp.float32
    armature: wp.float32


@wp.func
def stored_by_tendon(
    tree: Tree, joints: Joints, table: CouplingTable, m: Motion, joint_q: wp.array[wp.float32], t: int
):
    """The length of a tendon."""
    tendons = table.tendons
    out = Stored()
    length, rate = path_motion(tree, m, tendons, t)
    length = length + sum_of_terms(tree, tendons, t, joint_q) + length_at_zero(tree, tendons, t)
    stretch, taut = spring_stretch(tree, joints, tendons, t, length)
    out.rate = rate
    first = tendons.term_start[t]
    for k in range(first, first + tendons.term_count[t]):
        out.rate += wp.float64(tendons.coef[k]) * m.v0[tendons.dof[k]]
    out.armature = tendons.armature[t]
    if taut:
        out.stretch = stretch
        out.stiffness = tendons.stiffness[t]
    return out


@wp.func
def stored_by_axis(tree: Tree, joints: Joints, table: CouplingTable, m: Motion, joint_q: wp.array[wp.float32], c: int):
    """A free axis of a loop joint."""
    out = Stored()
    joint = table.joint[c]
    i = table.axis[c]
    k = table.axis_start[c] + i
    a, b = joint_anchors(tree, joints, table, m, c)
    at = loop_axis(joints, table, c, a, b, joint_q)
    if at.valid == 1 and is_enabled(table, c):
        turned = wp.quat_inverse(a.rotation) * b.rotation
        out.stretch = error_of(joints, joint, i, at.q, turned, joints.rest_q)
        out.rate = wp.dot(at.F, relative_velocity(m, a, b))
        out.stiffness = joints.stiffness[k]
        out.armature = joints.armature[k]
    return out


@wp.func
def excess_distance(joints: Joints, table: CouplingTable, c: int, a: Anchor, b: Anchor):
    """How far |p_B - p_A| is out of a distance joint's range; negative bounds do not exist."""
    length = wp.length(b.position - a.position)
    least = wp.float64(joints.limit_lower[table.axis_start[c]])
    most = wp.float64(joints.limit_upper[table.axis_start[c]])
    excess = wp.max(least - length, wp.float64(0.0))
    if most >= wp.float64(0.0):
        excess = wp.max(excess, length - most)
    return excess


@wp.func
def size_of(held: Held):
    """Length of all errors that are held."""
    square = wp.float64(0.0)
    for i in range(held.count):
        square += held.error[i] * held.error[i]
    return wp.sqrt(square)


@wp.kernel
def measure_couplings(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    state: StateArrays,
    out: CouplingState,
):
    """Energies of each coupling, and how far it is open where it ties bodies and is switched on."""
    c = wp.tid()
    kind = table.kind[c]
    stored = Stored()
    if kind == TENDON and table.axis[c] == 0:
        stored = stored_by_tendon(tree, joints, table, m, state.joint_q, table.source_row[c])
    elif kind == LOOP_FORCES:
        stored = stored_by_axis(tree, joints, table, m, state.joint_q, c)
    out.kinetic[c] = wp.float64(0.5) * wp.float64(stored.armature) * stored.rate * stored.rate
    out.potential[c] = wp.float64(0.5) * wp.float64(stored.stiffness) * stored.stretch * stored.stretch
    if kind == ROUTE and table.axis[c] == 0:
        out.potential[c] = route_energy(tree, m, table.routes, table.source_row[c])
    if is_enabled(table, c) and (kind == BODIES or kind == DISTANCE_RANGE or kind == ROD):
        a, b = coupled_anchors(tree, joints, table, m, c)
        if kind == ROD:
            out.potential[c] = rod_energy(joints, table, c, a, b)
        elif kind == DISTANCE_RANGE:
            out.gap[c] = excess_distance(joints, table, c, a, b)
        else:
            out.gap[c] = size_of(held_translations(joints, table, c, a, b))
            out.angle[c] = size_of(held_rotations(joints, table, m, c, a, b))
