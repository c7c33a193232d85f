"""How fast bodies may become within the step, before any constraint is solved: which open contacts could close depends on it."""

import warp as wp

from ..workspace import Joints, Motion, Tree
from .drives import Targets, read_drive
from .joints import flies
from .mass_matrix import diagonal_entry
from .spatial import angular, velocity_at

wp.set_module_options({"enable_backward": False})


@wp.func
def limit_violation(tree: Tree, joints: Joints, joint_q: wp.array[wp.float32], dof: int):
    """How far a dof is outside of its limits, and to which side it has to go; zero where it has none."""
    coord = tree.dofs[dof].q
    if coord < 0:
        return wp.float64(0.0)
    public = tree.dofs[dof].qd
    if joints.limit_ke[public] <= 0.0:
        return wp.float64(0.0)
    q = joint_q[coord]
    below = wp.max(joints.limit_lower[public] - q, 0.0)
    above = wp.max(q - joints.limit_upper[public], 0.0)
    return wp.float64(below - above)


@wp.struct
class Push:
    """What drive and limits of a dof may do to its rate."""

    change: wp.float64  # from v_star
    faster: wp.float64  # than |v_star|


@wp.func
def reach_of(
    tree: Tree,
    joints: Joints,
    m: Motion,
    targets: Targets,
    joint_q: wp.array[wp.float32],
    link: int,
    dof: int,
    inertia: wp.float64,
    dt: wp.float64,
):
    """A drive goes to its goal velocity, or as far as its effort takes it; a limit until the violation is gone."""
    push = Push()
    joint = tree.links[link].joint
    if flies(joints, joint):
        return push
    axis = wp.min(dof - tree.links[link].dof_start, 2)
    drive = read_drive(tree, joints, targets, joint_q, joint, dof, axis)
    gain = dt * drive.kp + drive.kd
    if gain > wp.float64(0.0):
        goal = (drive.kp * drive.error + drive.kd * drive.rate) / gain
        most = dt * wp.max(wp.abs(drive.lower), wp.abs(drive.upper)) / inertia
        push.change = wp.clamp(goal - m.v_star[dof], -most, most)
        push.faster = wp.clamp(wp.abs(goal) - wp.abs(m.v_star[dof]), wp.float64(0.0), most)
    back = limit_violation(tree, joints, joint_q, dof) / dt
    push.change += back
    push.faster += wp.abs(back)
    return push


@wp.func
def note_pushes(
    tree: Tree,
    joints: Joints,
    m: Motion,
    change: Motion,
    targets: Targets,
    joint_q: wp.array[wp.float32],
    t: int,
    dt: wp.float64,
):
    """How much faster drives and violated limits may make their own dofs, in ``drive_speed``; whether any does.

    ``change.v0`` has the momentum that each alone would take for it.
    """
    pushed = bool(False)
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        for dof in range(tree.links[link].dof_start, tree.links[link + 1].dof_start):
            inertia = m.A[diagonal_entry(tree, t, dof)]
            push = reach_of(tree, joints, m, targets, joint_q, link, dof, inertia, dt)
            m.drive_speed[dof] = push.faster
            change.v0[dof] = inertia * push.change
            if push.change != wp.float64(0.0):
                pushed = True
    return pushed


@wp.func
def add_reactions(tree: Tree, m: Motion, change: Motion, t: int):
    """Let ``drive_speed`` of all dofs have what these momenta make of their rates, ``change.v0``."""
    for dof in range(tree.trees[t].dof_start + m.locked[t], tree.trees[t + 1].dof_start):
        m.drive_speed[dof] = wp.max(m.drive_speed[dof], wp.abs(change.v0[dof]))


@wp.func
def driven_speed(tree: Tree, m: Motion, change: Motion, t: int):
    """How much drives and violated limits may add to the speed of a tree's fastest point.

    ``change.com`` has bounds of what they add to a link's rate of turning and to the speed of its COM.
    """
    fastest = wp.float64(0.0)
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        com = m.com[link]
        turns = wp.float64(0.0)
        moves = wp.float64(0.0)
        above = tree.links[link].parent
        if above >= 0:
            turns = change.com[above][0]
            moves = change.com[above][1] + turns * wp.length(com - m.com[above])
        for dof in range(tree.links[link].dof_start, tree.links[link + 1].dof_start):
            turns += wp.length(angular(m.column[dof])) * m.drive_speed[dof]
            moves += wp.length(velocity_at(m.column[dof], com)) * m.drive_speed[dof]
        change.com[link] = wp.vec3d(turns, moves, wp.float64(0.0))
        fastest = wp.max(fastest, moves + turns * wp.float64(tree.link_radius[link]))
    return fastest


@wp.func
def free_speed(tree: Tree, m: Motion, t: int):
    """The speed of a tree's fastest point, at most, at ``v0`` and at ``v_star``; ``gained`` gets the difference."""
    fastest = wp.float64(0.0)
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        gained = wp.spatial_vectord()
        above = tree.links[link].parent
        if above >= 0:
            gained = m.gained[above]
        for dof in range(tree.links[link].dof_start, tree.links[link + 1].dof_start):
            gained += m.column[dof] * (m.v_star[dof] - m.v0[dof])
        m.gained[link] = gained
        V = m.velocity[link]
        V_star = V + gained
        com = m.com[link]
        moves = wp.max(wp.length_sq(velocity_at(V, com)), wp.length_sq(velocity_at(V_star, com)))
        turns = wp.max(wp.length_sq(angular(V)), wp.length_sq(angular(V_star)))
        fastest = wp.max(fastest, wp.sqrt(moves) + wp.sqrt(turns) * wp.float64(tree.link_radius[link]))
    return fastest
