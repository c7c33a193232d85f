"""What springs and armatures of loop joints and tendons hold; worked out for reports only."""

import warp as wp

from ..workspace import CouplingTable, Joints, Motion, Tree
from .coupler_pool import joint_anchors, relative_velocity
from .coupling_table import LOOP_FORCES, TENDON, is_enabled
from .loop_axes import error_of, loop_axis
from .tendon_paths import path_motion
from .tendons import length_at_zero, spring_stretch, sum_of_terms

wp.set_module_options({"enable_backward": False})


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


@wp.kernel
def coupling_energies(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    joint_q: wp.array[wp.float32],
    kinetic: wp.array[wp.float64],
    potential: wp.array[wp.float64],
):
    """Energies [J] of each coupling."""
    c = wp.tid()
    stored = Stored()
    if table.kind[c] == TENDON and table.axis[c] == 0:
        stored = stored_by_tendon(tree, joints, table, m, joint_q, table.source_row[c])
    elif table.kind[c] == LOOP_FORCES:
        stored = stored_by_axis(tree, joints, table, m, joint_q, c)
    kinetic[c] = wp.float64(0.5) * wp.float64(stored.armature) * stored.rate * stored.rate
    potential[c] = wp.float64(0.5) * wp.float64(stored.stiffness) * stored.stretch * stored.stretch
