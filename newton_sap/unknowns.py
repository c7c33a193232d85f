"""Which trees a cluster has, and where its unknowns begin."""

import warp as wp

from .workspace import Problem, Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def cluster_tree(problem: Problem, k: int, trees: int, i: int):
    """The i-th of a cluster's trees, of which there are so many."""
    if trees == 1:
        return problem.clusters.entry[k].tree
    return problem.clusters.order[k + i]


@wp.func
def base_of(tree: Tree, problem: Problem, t: int):
    """Where the unknowns of a tree's cluster begin."""
    g = tree.trees[t].group
    k = tree.groups[g].tree_start
    if k + 1 < tree.groups[g + 1].tree_start:
        k = problem.clusters.of_tree[t]
    return problem.clusters.entry[k].dof_start
