"""What moves a link: whether some dofs are free, what two links share of them, and joints that only push it."""

import warp as wp

from ..workspace import Motion, Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def is_moved(tree: Tree, m: Motion, link: int):
    """Whether a link has dofs that are not prescribed."""
    return tree.links[link + 1].path_start - tree.links[link].path_start > m.locked[tree.links[link].tree]


@wp.func
def last_dof(tree: Tree, link: int):
    """The last dof on a link's path, which those of all links that are rigidly one with it share; -1 for a path without one."""
    end = tree.links[link + 1].path_start
    if end == tree.links[link].path_start:
        return -1
    return tree.path_dof[end - 1]


@wp.func
def prescribed_velocity(tree: Tree, m: Motion, link: int):
    """What the locked dofs of a link's tree give it of velocity."""
    total = wp.spatial_vectord()
    locked = m.locked[tree.links[link].tree]
    for p in range(locked):
        dof = tree.path_dof[tree.links[link].path_start + p]
        total += m.column[dof] * m.v0[dof]
    return total


@wp.func
def free_velocity(tree: Tree, m: Motion, rates: wp.array[wp.float64], link: int):
    """Velocity of a link by the rates of the free dofs that move it."""
    total = wp.spatial_vectord()
    for p in range(tree.links[link].path_start + m.locked[tree.links[link].tree], tree.links[link + 1].path_start):
        dof = tree.path_dof[p]
        total += m.column[dof] * rates[dof]
    return total


@wp.func
def link_velocity(tree: Tree, m: Motion, rates: wp.array[wp.float64], link: int):
    """Velocity of a link by the rates of its free dofs, with what prescribed ones give it."""
    return free_velocity(tree, m, rates, link) + prescribed_velocity(tree, m, link)


@wp.func
def has_pushes(tree: Tree, link: int):
    """Whether a joint of six velocities that moves no link ends at this one."""
    pushed = tree.pushes > 0
    if pushed:  # else there is nothing to index
        pushed = tree.push_start[link] < tree.push_start[link + 1]
    return pushed


@wp.func
def shared_path(tree: Tree, a: int, b: int):
    """Number of dofs that carry both links."""
    n = int(0)
    if a >= 0 and b >= 0 and tree.links[a].tree == tree.links[b].tree:
        first_a = tree.links[a].path_start
        first_b = tree.links[b].path_start
        most = wp.min(tree.links[a + 1].path_start - first_a, tree.links[b + 1].path_start - first_b)
        while n < most and tree.path_dof[first_a + n] == tree.path_dof[first_b + n]:
            n += 1
    return n
