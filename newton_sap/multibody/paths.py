"""The dofs between a root and a link: whether some are free, and what two links share of them."""

import warp as wp

from ..workspace import Motion, Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def is_moved(tree: Tree, m: Motion, link: int):
    """Whether a link has dofs that are not prescribed."""
    return tree.path_start[link + 1] - tree.path_start[link] > m.locked[tree.link_tree[link]]


@wp.func
def shared_path(tree: Tree, a: int, b: int):
    """Number of dofs that carry both links."""
    n = int(0)
    if a >= 0 and b >= 0 and tree.link_tree[a] == tree.link_tree[b]:
        first_a = tree.path_start[a]
        first_b = tree.path_start[b]
        most = wp.min(tree.path_start[a + 1] - first_a, tree.path_start[b + 1] - first_b)
        while n < most and tree.path_dof[first_a + n] == tree.path_dof[first_b + n]:
            n += 1
    return n
