"""Rod joints: the strains of a cable between two anchors, and a spring with a damper along each (F 2.14).

An anchor's z axis is the cable's tangent. Stretch and shear are the second anchor's place in the axes of the first, bend is
twice the tangent of half the angle between the tangents, about the axis that turns one into the other, and twist is the
rotation left when that turn is undone: Newton's measures, and those of discrete elastic rods.
"""

import warp as wp

from ..coupling_bundles import CouplingTable
from ..multibody.joints import read_quaternion
from ..multibody.spatial import linear, motion
from ..runtime.packed import pack_couplers, pack_motion, pack_problem, pack_tree
from ..workspace import CouplerPool, Joints, Motion, Problem, Tree
from .axis_laws import JointInput, spring_law
from .coupler_pool import (
    ROWS,
    Anchor,
    acceleration_of,
    clear_rest,
    joint_anchors,
    measure_axis,
    place_row,
    share_foreseen,
)
from .coupling_table import ROD, is_enabled
from .loop_axes import nearest_turn
from .swing_twist import twist_angle, twist_covector
from .taut_rods import tension_damping

wp.set_module_options({"enable_backward": False})

CHORD = wp.constant(wp.float64(0.9))
"""Share of what chords strain a cable that is no tension."""
FOLDED = wp.constant(wp.float64(0.01))
"""One plus the cosine of the bend, at least: beyond 168 degrees the bend grows no more."""


@wp.struct
class Strain:
    """One strain of a rod, and the covector of its rate on the relative motion of the bodies."""

    value: wp.float64  # above that at rest [m; 1; rad]
    F: wp.spatial_vectord


@wp.func
def unit_axis(i: int):
    """The i-th axis of a frame."""
    e = wp.vec3d()
    e[i] = wp.float64(1.0)
    return e


@wp.func
def bend_about(turned: wp.quatd, i: int):
    """Bend about the i-th axis of the first anchor, from which the second is turned."""
    t = wp.quat_rotate(turned, unit_axis(2))
    binormal = wp.cross(unit_axis(2), t)
    return wp.float64(2.0) * binormal[i] / wp.max(wp.float64(1.0) + t[2], FOLDED)


@wp.func
def bend_covector(u: wp.vec3d, v: wp.vec3d, e: wp.vec3d, bend: wp.float64):
    """Rate of the bend about ``e``; ``u`` and ``v`` are the tangents of the first and the second body."""
    rate = wp.float64(2.0) * wp.cross(v, wp.cross(e, u)) - bend * wp.cross(v, u)
    return motion(rate / wp.max(wp.float64(1.0) + wp.dot(u, v), FOLDED), wp.vec3d())


@wp.func
def rod_strain(a: Anchor, b: Anchor, at_rest: wp.quatd, i: int):
    """The i-th strain, in the order of the joint's dofs: shear, shear, stretch, bend, bend, twist."""
    out = Strain()
    e = wp.quat_rotate(a.rotation, unit_axis(i % 3))
    if i < 3:
        out.value = wp.dot(e, b.position - a.position)
        out.F = motion(wp.cross(b.position, e), e)
    else:
        turned = wp.quat_inverse(a.rotation) * b.rotation
        u = wp.quat_rotate(a.rotation, unit_axis(2))
        v = wp.quat_rotate(b.rotation, unit_axis(2))
        if i < 5:
            bend = bend_about(turned, i - 3)
            out.value = bend - bend_about(at_rest, i - 3)
            out.F = bend_covector(u, v, e, bend)
        else:
            twist = twist_angle(turned, unit_axis(2)) - twist_angle(at_rest, unit_axis(2))
            out.value = nearest_turn(twist, wp.float64(0.0))
            out.F = twist_covector(u, v)
    return out


@wp.func
def chord(m: Motion, a: Anchor, b: Anchor, dt: wp.float64):
    """By how much two anchors on bodies that turn come apart in a step along chords instead of arcs [m].

    Nine tenths of it: more is not known of it, and what is left keeps stiff cables with a load from swinging up.
    """
    apart = wp.float64(0.5) * dt * dt * (acceleration_of(m, b) - acceleration_of(m, a))
    return CHORD * share_foreseen(m, a, b, dt) * apart


@wp.func
def rest_rotation(joints: Joints, joint: int):
    """How the second anchor of a rod is turned from the first where nothing bends or twists it."""
    return read_quaternion(joints.rest_q, joints.q_start[joint] + 3)


@wp.func
def rod_energy(joints: Joints, table: CouplingTable, c: int, a: Anchor, b: Anchor):
    """What the strains of a rod hold [J]."""
    at_rest = rest_rotation(joints, table.joint[c])
    energy = wp.float64(0.0)
    strains = int(6)  # no constant: the loop is not to be unrolled
    for i in range(strains):
        strain = rod_strain(a, b, at_rest, i).value
        energy += wp.float64(0.5) * wp.float64(joints.target_ke[table.axis_start[c] + i]) * strain * strain
    return energy


@wp.func
def rod_rows(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    c: int,
    row: int,
    a: Anchor,
    b: Anchor,
    step: JointInput,
    dt: wp.float64,
):
    """A row for each strain that has stiffness or damping."""
    at_rest = rest_rotation(joints, table.joint[c])
    false_strain = wp.float64(step.options.foresees) * chord(m, a, b, dt)
    pull = wp.vec3d()
    least = wp.float64(0.0)
    strains = int(6)  # no constant: the loop is not to be unrolled
    for i in range(strains):
        k = table.axis_start[c] + i
        strain = rod_strain(a, b, at_rest, i)
        axis = measure_axis(tree, m, pool, problem, row, a, b, strain.F)
        stiffness = joints.target_ke[k]
        damping = wp.where(wp.min(stiffness, joints.target_kd[k]) < 0.0, wp.float32(wp.nan), joints.target_kd[k])
        if i < 3:
            e = linear(strain.F)
            pull += wp.float64(stiffness) * (strain.value - wp.dot(e, false_strain)) * e
        elif i < 5:
            if i == 3:
                least = tension_damping(m, a, b, pull, table.links[c], dt)
            damping = wp.where(damping < wp.float32(least), wp.float32(least), damping)  # no number stays one
        law = spring_law(axis, stiffness, damping, -strain.value, dt)
        row = place_row(tree, m, pool, problem, row, a, b, strain.F, law)
    return row


@wp.kernel
def assemble_rods(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    step: JointInput,
    dt: wp.float64,
):
    """Fill the row slots of rods; unused ones are empty. One block per group, whose lanes share them."""
    block, lane = wp.tid()
    g = tree.first_group + block
    pack_tree(tree)
    pack_motion(m)
    pack_couplers(pool)
    pack_problem(problem)
    for c in range(table.group_start[g] + lane, table.group_start[g + 1], wp.block_dim()):
        if table.kind[c] != ROD:
            continue
        row = int(ROWS * c)
        if is_enabled(table, c):
            a, b = joint_anchors(tree, joints, table, m, c)
            row = rod_rows(tree, joints, table, m, pool, problem, c, row, a, b, step, dt)
        clear_rest(pool, c, row)
