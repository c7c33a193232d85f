"""The change of velocity that velocity products follow, in unknowns with balances of their own.

Two of them, ``d`` and ``d + T d`` (formulation 1.1): ``A d = p = -dt C v0`` and ``A (d + T d) = p - dt S^T F(v0, d)``. The way
back solves with ``A`` for a virtual velocity of each, as that of a step does with its own matrix.
"""

import warp as wp

from ..multibody.free_motion import own_inertia, own_momentum, product_impulse
from ..multibody.spatial import inertia_times
from ..multibody.velocity_products import gather_momentum, product_force, push_products, rounds_needed, swing_of
from ..workspace import Joints, Motion, Tree
from .scene import Scene, free_velocity
from .sensitivity import Sensitivity, factor_by_rows, lay_out, solve_transposed


@wp.func
def impulse_at_start(scene: Scene, m: Motion, link: int):
    """-dt C v0 of one body."""
    return product_impulse(scene.tree, scene.bodies, m, scene.orders, link, own_momentum(m, link), scene.step.dt)


@wp.kernel(enable_backward=False, module="unique")
def find_changes(
    scene: Scene,
    m: Motion,
    scratch: Motion,
    first: Sensitivity,
    second: Sensitivity,
):
    """Both changes of every group, with the factors of A; a tree that turns slowly follows none, or only ``d``."""
    g = wp.tid()
    tree = scene.tree
    base = tree.group_dof_start[g]
    n = tree.group_dof_start[g + 1] - base
    lay_out(tree, m, first, g)
    factor_by_rows(first.S, first.start[g], n, first.pivot, base)
    for t in range(tree.group_tree_start[g], tree.group_tree_start[g + 1]):
        scene.rounds[t] = rounds_needed(tree, m, t, scene.step.dt)
        for link in range(tree.tree_link_start[t], tree.tree_link_start[t + 1]):
            scratch.momentum[link] = impulse_at_start(scene, m, link)
        gather_momentum(tree, m, scratch, t)
    solve_transposed(first.S, first.start[g], n, first.pivot, scratch.v0, base)  # A is its own transpose
    for dof in range(base, base + n):
        first.velocity[dof] = scratch.v0[dof]
    for t in range(tree.group_tree_start[g], tree.group_tree_start[g + 1]):
        push_products(tree, scene.joints, scene.bodies, m, scratch, t, scene.step.dt)
        gather_momentum(tree, m, scratch, t)
        if scene.rounds[t] < 2:
            for dof in range(tree.tree_dof_start[t], tree.tree_dof_start[t + 1]):
                scratch.v0[dof] = wp.float64(0.0)
    solve_transposed(first.S, first.start[g], n, first.pivot, scratch.v0, base)
    for dof in range(base, base + n):
        second.velocity[dof] = first.velocity[dof] + scratch.v0[dof]


@wp.kernel
def swing_links(tree: Tree, joints: Joints, m: Motion, change: Motion):
    """Change of velocity and bias of every link, root to leaves, from ``change.v0``."""
    t = wp.tid()
    for link in range(tree.tree_link_start[t], tree.tree_link_start[t + 1]):
        swing = swing_of(tree, joints, m, change, link)
        change.velocity[link] = swing.change
        change.bias[link] = swing.bias


@wp.func
def impulse_of_change(scene: Scene, m: Motion, change: Motion, least: int, link: int):
    """-dt F(v0, change) on one body, if its tree follows changes so often."""
    impulse = wp.spatial_vectord()
    if scene.rounds[scene.tree.link_tree[link]] >= least:
        body = scene.tree.link_body[link]
        force = product_force(scene.bodies, m, body, link, change.velocity[link], change.bias[link])
        impulse = -scene.step.dt * force
    return impulse


@wp.kernel
def change_power_of_links(
    scene: Scene,
    m: Motion,
    before: Motion,
    least: int,
    s: Sensitivity,
):
    """u . (I d - P) of a change that follows the one before it, or none if no tree goes as far as ``least``."""
    link = wp.tid()
    tree = scene.tree
    Id = inertia_times(m.mass[link], m.moment[link], m.inertia[link], free_velocity(tree, m, s.velocity, link))
    P = impulse_at_start(scene, m, link)
    P += impulse_of_change(scene, m, before, least, link)
    U = free_velocity(tree, m, s.virtual_velocity, link)
    wp.atomic_add(s.power, tree.tree_group[tree.link_tree[link]], wp.dot(U, Id - P))


@wp.kernel
def change_power_of_dofs(scene: Scene, m: Motion, s: Sensitivity):
    """u (a + dt D + dt^2 K) d of a dof."""
    dof = wp.tid()
    tree = scene.tree
    link = tree.dof_link[dof]
    t = tree.link_tree[link]
    if dof - tree.tree_dof_start[t] < m.locked[t]:
        return
    armature, implicit = own_inertia(tree, scene.joints, scene.efforts, link, dof, scene.step.dt)
    wp.atomic_add(s.power, tree.tree_group[t], s.virtual_velocity[dof] * (armature + implicit) * s.velocity[dof])
