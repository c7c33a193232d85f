"""The dofs between a root and a link: whether some are free, and what two links share of them."""

import warp as wp

from ..workspace import Motion, Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def is_moved(tree: Tree, m: Motion, link: int):
    """Whether a link has dofs that are not prescribed."""
    return tree.links[link + 1].path_start - tree.links[link].path_start > m.locked[tree.links[link].tree]


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
