"""What couplings tie, whether they act, and which trees they touch: all that a model without them needs to know of them."""

import warp as wp

from ..coupling_bundles import CouplingTable, Tendons
from ..linalg.lanes import sync
from ..multibody.gyroscopic import TIED
from ..workspace import CouplerPool, Tree

wp.set_module_options({"enable_backward": False})

# What a coupling ties; ``boundary.couplings`` enters them.
BODIES = wp.constant(0)  # frames on two bodies, free along a joint's axes
DISTANCE_RANGE = wp.constant(1)  # anchors on two bodies, between a minimum and a maximum distance
COORDINATES = wp.constant(2)  # one coordinate as a polynomial of another
LOOP_LAWS = wp.constant(3)  # limits, drive and dry friction of one free axis of a loop joint
LOOP_FORCES = wp.constant(4)  # its spring, damper, armature and effort
BALL_LIMITS = wp.constant(5)  # swing and twist of a ball joint, in a tree or closing a loop
TENDON = wp.constant(6)  # half of the laws of a tendon
TENDON_LENGTHS = wp.constant(7)  # the length of one as a polynomial of another's
ROD = wp.constant(8)  # anchors on two bodies, held by the elasticity of a cable
ROUTE = wp.constant(
    9
)  # spans of a tendon from guide to guide; the first of a tendon's couplings takes the slots of all

# Where the coefficients of a coordinate coupling live.
EQUALITY_ROW = wp.constant(0)
MIMIC_JOINT = wp.constant(1)
MIMIC_ROW = wp.constant(2)

# The laws of a tendon, which ``tendons`` numbers: how many there are, and how many one coupling takes.
TENDON_LAWS = wp.constant(7)
LAWS_PER_COUPLING = wp.constant(4)
"""Fewer than a coupling has slots: the one after the last is written before it is emptied."""

# What a segment of a tendon may go around; ``boundary.tendon_paths`` enters it.
NOTHING = wp.constant(0)
SPHERE = wp.constant(1)
CYLINDER = wp.constant(2)


@wp.func
def tendon_acts(tendons: Tendons, t: int):
    """Whether a tendon does more than to measure a length; a NaN does."""
    passive = tendons.friction[t] + tendons.stiffness[t] + tendons.damping[t] + tendons.armature[t]
    moved = wp.abs(tendons.effort[t]) + tendons.servo_ke[t] + tendons.servo_kd[t]
    return tendons.limited[t] == 1 or passive != 0.0 or moved != 0.0


@wp.func
def is_enabled(table: CouplingTable, c: int):
    """Whether a coupling acts; read live from the model. A switch of the equality it was made of counts once it is turned."""
    switch = table.switch_row[c]
    origin = table.origin[c]
    if origin >= 0 and table.equality_enabled[origin] != table.equality_was_enabled[origin]:
        return table.equality_enabled[origin]
    if table.kind[c] == TENDON:
        return tendon_acts(table.tendons, table.source_row[c])
    if table.joint[c] >= 0:
        return table.joint_enabled[table.joint[c]]
    if switch < 0:
        return True
    if table.kind[c] == COORDINATES and table.source[c] == MIMIC_ROW:
        return table.mimic_enabled[switch]
    return table.equality_enabled[switch]


@wp.func
def is_tendon(table: CouplingTable, c: int):
    """Whether ``assemble_tendons`` builds the rows of a coupling."""
    return table.kind[c] == TENDON or table.kind[c] == TENDON_LENGTHS


@wp.func
def is_rigid(table: CouplingTable, c: int):
    """Whether ``assemble_couplings`` builds the rows of a coupling."""
    return not is_tendon(table, c) and table.kind[c] != ROD and table.kind[c] != ROUTE


@wp.func
def closes_loop(tree: Tree, table: CouplingTable, c: int):
    """Whether a coupling ties bodies past their tree joints; limits of a tree joint act through that joint."""
    closes = table.kind[c] != COORDINATES
    if closes and table.joint[c] >= 0:
        closes = tree.links[tree.bodies[table.body_b[c]].link].joint != table.joint[c]
    return closes


@wp.kernel
def touch_trees(tree: Tree, table: CouplingTable, pool: CouplerPool):
    """One block per group: note which trees its couplings touch in this step, so that these take part in the minimisation.

    Tied trees always do: their change of velocity is worked out with its unknowns.
    """
    block, lane = wp.tid()
    g = tree.first_group + block
    for t in range(tree.groups[g].tree_start + lane, tree.groups[g + 1].tree_start, wp.block_dim()):
        pool.touched[t] = int(int(tree.trees[t].moves) == TIED)
    sync()
    for c in range(table.group_start[g] + lane, table.group_start[g + 1], wp.block_dim()):
        if is_enabled(table, c):
            for k in range(table.tree_start[c], table.tree_start[c + 1]):
                wp.atomic_max(pool.touched, table.tree[k], 1)
