"""What holds against all else that moves a tree: drives, springs, dry friction and limits of joints, contacts (F 1.1)."""

import warp as wp

from ..workspace import Joints, Motion, Tree
from .drives import explicit_effort, read_drive
from .efforts import Efforts, own_inertia, spring_effort
from .gyroscopic import TIED, TOGETHER
from .joints import flies
from .mass_matrix import diagonal_entry, solve_free

wp.set_module_options({"enable_backward": False})

ALL_HELD = wp.constant(wp.float64(1.0))
"""What joints hold with is known, and no more of it acts than there is."""
MOST_BORNE = wp.constant(wp.float64(2.0))
"""What presses harder than twice what pushes from outside does so by velocity products, and is followed."""


@wp.func
def rooted_tree(tree: Tree, joints: Joints, m: Motion, body: int):
    """The tree of a body if it hangs on the world and its velocities change together, else -1."""
    t = int(-1)
    if body >= 0:
        link = tree.bodies[body].link
        if link >= 0:
            t = tree.links[link].tree
            floats = flies(joints, tree.links[tree.trees[t].link_start].joint) and m.locked[t] == 0
            if floats or (int(tree.trees[t].moves) != TOGETHER and int(tree.trees[t].moves) != TIED):
                t = -1
    return t


@wp.func
def pressed(joints: Joints, public: int, q: wp.float64, load: wp.float64):
    """Whether a load pushes a dof against a limit that it has reached."""
    below = q <= wp.float64(joints.limit_lower[public]) and load < wp.float64(0.0)
    above = q >= wp.float64(joints.limit_upper[public]) and load > wp.float64(0.0)
    return joints.limit_ke[public] > 0.0 and (below or above)


@wp.func
def holding_impulse(
    tree: Tree,
    joints: Joints,
    m: Motion,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    link: int,
    dof: int,
    load: wp.float64,
    dt: wp.float64,
):
    """What a dof's joint gives it in a step at constant rate, where the solve has a say in it: as far as it is known before.

    ``load`` is the impulse of all else on the dof, ``joint_f`` included, which friction and a limit answer.
    """
    joint = tree.links[link].joint
    public = tree.dofs[dof].qd
    if joint < 0:
        return wp.float64(0.0)
    v0 = m.v0[dof]
    i = dof - tree.links[link].dof_start
    armature, implicit = own_inertia(tree, joints, efforts, link, dof, dt)
    impulse = -implicit * v0
    if efforts.explicit_springs == 0:
        impulse += dt * spring_effort(tree, joints, joint_q, link, i)
    if flies(joints, joint):
        return impulse
    coord = tree.dofs[dof].q
    if efforts.explicit_drives == 0 or coord < 0:  # others are applied
        drive = read_drive(tree, joints, efforts.targets, joint_q, joint, dof, wp.min(i, 2))
        impulse += dt * explicit_effort(drive, v0)
    friction = dt * wp.float64(joints.friction[public])
    if friction > wp.float64(0.0):
        inertia = m.A[diagonal_entry(tree, tree.links[link].tree, dof)]
        impulse -= wp.clamp(inertia * v0 + load + impulse, -friction, friction)
    if coord >= 0:
        if pressed(joints, public, wp.float64(joint_q[coord]) + dt * v0, load + impulse):
            impulse = -load
    return impulse


@wp.func
def share_held(against: wp.float64, size: wp.float64, most: wp.float64):
    """How much of what opposes a change of velocity makes it as small as it can, by kinetic energy, up to ``most``.

    ``against`` is minus the product of the change with what that would do alone, ``size`` the square of the latter.
    """
    share = wp.float64(0.0)
    if against > wp.float64(0.0):
        share = most
        if against < most * size:
            share = against / size
    return share


@wp.func
def let_joints_hold(
    tree: Tree,
    joints: Joints,
    m: Motion,
    change: Motion,
    efforts: Efforts,
    joint_q: wp.array[wp.float32],
    t: int,
    dt: wp.float64,
):
    """Let joints hold against the momentum in ``change.v0``, so far as that makes the change of velocity smaller.

    In steady motion it vanishes. What pushes on, as a drive to a new target, has no part in it. Uses ``v`` and ``travel``.
    """
    unlocked = tree.trees[t].dof_start + m.locked[t]
    end = tree.trees[t + 1].dof_start
    hold = bool(False)
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        for dof in range(wp.max(unlocked, tree.links[link].dof_start), tree.links[link + 1].dof_start):
            impulse = holding_impulse(tree, joints, m, efforts, joint_q, link, dof, change.v0[dof], dt)
            m.travel[dof] = impulse
            m.v[dof] = impulse
            if impulse != wp.float64(0.0):
                hold = True
    if hold:
        solve_free(tree, m, m.v, t)
        against = wp.float64(0.0)
        size = wp.float64(0.0)
        for dof in range(unlocked, end):
            against -= m.v[dof] * change.v0[dof]
            size += m.v[dof] * m.travel[dof]
        share = share_held(against, size, ALL_HELD)
        for dof in range(unlocked, end):
            change.v0[dof] = change.v0[dof] + share * m.travel[dof]
