"""What belongs to a cluster: its entries, its share of unknowns, contacts and rows, and where its Hessian lies."""

import warp as wp

from ..linalg.cholesky import row_stride
from ..linalg.lanes import sync, total
from ..workspace import ROWS_PER_DOF, Clusters, Pools, Problem, Tree
from .objective import Range, tree_at

wp.set_module_options({"enable_backward": False})


@wp.func
def entries_of(tree: Tree, block: int):
    """The entries of clusters that a block minimises, the first and the end: on a CPU those of a group, for a block that has nothing to
    do costs its share there, too; on a GPU one."""
    first = tree.first_tree + block
    end = first + 1
    if wp.block_dim() == 1:
        g = tree.first_group + block
        first = tree.groups[g].tree_start
        end = tree.groups[g + 1].tree_start
    return first, end


@wp.func
def range_of(tree: Tree, problem: Problem, k: int, lane: int):
    """What belongs to the cluster of an entry."""
    cluster = problem.clusters.entry[k]
    g = tree.trees[cluster.tree].group
    at = Range()
    at.group = g
    at.cluster = k
    at.trees = cluster.trees
    at.hessian_start = hessian_start(tree, problem.clusters, g, k)
    at.unknowns = cluster.unknowns
    at.base = cluster.dof_start
    at.contact_start = cluster.contact_start
    at.contacts = cluster.awake
    at.asleep = cluster.contacts - cluster.awake
    at.rows = cluster.rows
    at.row_start = ROWS_PER_DOF * at.base
    at.row_end = ROWS_PER_DOF * problem.clusters.entry[k + cluster.trees].dof_start
    at.coupler_start = cluster.coupler_start  # how many, list_couplers says
    at.lane = lane
    at.lanes = wp.block_dim()
    return at


@wp.func
def list_couplers(tree: Tree, pools: Pools, problem: Problem, at: Range):
    """List the rows of a cluster's couplings that act in this step; how many. They have been assembled."""
    count = wp.float64(0.0)
    if tree.group_tied[at.group] == 1 and at.lane == 0:
        last = int(at.coupler_start)
        for i in range(at.trees):
            t = tree_at(problem, at, i)
            for r in range(problem.clusters.coupler_start[t], problem.clusters.coupler_start[t + 1]):
                if pools.couplers.support[r] > 0:
                    pools.couplers.order[last] = r
                    last += 1
        count = wp.float64(last - at.coupler_start)
    sync()
    return int(total(count))


@wp.func
def hessian_start(tree: Tree, clusters: Clusters, g: int, k: int):
    """Where a cluster's Hessian begins, -1 where it is kept in blocks.

    On a GPU, where a group's clusters are minimised at the same time, each has so many rows of the group's as it has dofs, and one.
    """
    start = tree.groups[g].hessian_start
    columns = tree.groups[g + 1].dof_start - tree.groups[g].dof_start
    if start < wp.int64(0):
        cluster = clusters.entry[k]
        if cluster.unknowns > clusters.most_dofs or cluster.trees > clusters.most_trees:
            return wp.int64(-1)
        start = wp.int64(-1) - start
        columns = wp.min(columns, clusters.most_dofs)
    if wp.block_dim() > 1:
        first = clusters.entry[k].dof_start - tree.groups[g].dof_start + k - tree.groups[g].tree_start
        start += wp.int64(first) * wp.int64(row_stride(columns))
    return start
