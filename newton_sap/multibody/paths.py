"""The dofs between a root and a link, and what two links share of them."""

import warp as wp

from ..workspace import Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def path_length(tree: Tree, link: int):
    """Number of dofs from the root to a link; none for the world."""
    n = int(0)
    if link >= 0:
        n = tree.path_start[link + 1] - tree.path_start[link]
    return n


@wp.func
def shared_path(tree: Tree, a: int, b: int):
    """Number of dofs that carry both links."""
    n = int(0)
    if a >= 0 and b >= 0 and tree.link_tree[a] == tree.link_tree[b]:
        most = wp.min(path_length(tree, a), path_length(tree, b))
        while n < most and tree.path_dof[tree.path_start[a] + n] == tree.path_dof[tree.path_start[b] + n]:
            n += 1
    return n
