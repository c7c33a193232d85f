"""Clusters: which trees of a group contacts may make push each other in this step, and which contacts are between them.

What nothing links says nothing to each other: each cluster has a minimisation of its own, with its own line search and its own
end. Contacts that sleep link, too, since they may be woken, and couplings that are switched off; with gradients a group stays one
cluster.
"""

import warp as wp

from ..multibody.paths import is_moved
from ..workspace import Arrivals, ClusterEntry, Clusters, ContactPool, Motion, Shapes, Tree
from .rows import BY_CLUSTER, BY_SHAPE, ContactRows, is_asleep, row_of

wp.set_module_options({"enable_backward": False})

NONE = wp.constant(-1)
"""In place of a tree."""


@wp.func
def may_split(tree: Tree, clusters: Clusters, g: int):
    """Whether contacts and couplings decide which trees of a group belong together."""
    return tree.groups[g].tree_start + 1 < tree.groups[g + 1].tree_start and clusters.split == 1


@wp.func
def moved_tree(tree: Tree, m: Motion, shapes: Shapes, shape: int, g: int):
    """The tree of a shape, if it is of the group and unknowns move it."""
    body = shapes.body[shape]
    if body < 0:
        return NONE
    link = tree.bodies[body].link
    if link < 0:
        return NONE
    if tree.trees[tree.links[link].tree].group != g or not is_moved(tree, m, link):
        return NONE
    return tree.links[link].tree


@wp.func
def label_of(clusters: Clusters, t: int):
    """The first tree of those that are known to belong together with one."""
    label = int(t)
    while clusters.of_tree[label] != label:
        clusters.of_tree[label] = clusters.of_tree[clusters.of_tree[label]]  # the next search is shorter
        label = clusters.of_tree[label]
    return label


@wp.func
def begin_clusters(tree: Tree, clusters: Clusters, g: int):
    """Let ``of_tree`` lead to the first tree of those that couplings tie together."""
    for t in range(tree.groups[g].tree_start, tree.groups[g + 1].tree_start):
        clusters.of_tree[t] = clusters.tied[t]


@wp.func
def link_trees(
    tree: Tree, m: Motion, shapes: Shapes, rows: ContactRows, pool: ContactPool, clusters: Clusters, g: int, count: int
):
    """Let ``of_tree`` lead from every tree of a group to the first one of its cluster."""
    begin_clusters(tree, clusters, g)
    for slot in range(pool.group_start[g], pool.group_start[g] + count):
        row = row_of(pool.row[slot])
        a = moved_tree(tree, m, shapes, rows.shape0[row], g)
        b = moved_tree(tree, m, shapes, rows.shape1[row], g)
        if a >= 0 and b >= 0:
            a = label_of(clusters, a)
            b = label_of(clusters, b)
            clusters.of_tree[wp.max(a, b)] = wp.min(a, b)


@wp.func
def place_clusters(tree: Tree, clusters: Clusters, g: int):
    """Give each cluster an entry and room, and list its trees."""
    start = tree.groups[g].tree_start
    end = tree.groups[g + 1].tree_start
    # Until a cluster has an entry of its own, the one of its first tree counts trees in ``unknowns``, and then places in ``rows``.
    for t in range(start, end):
        dof_start = clusters.entry[t].dof_start
        clusters.entry[t] = ClusterEntry()
        clusters.entry[t].dof_start = dof_start
    for t in range(start, end):
        label = label_of(clusters, t)
        clusters.of_tree[t] = label
        clusters.entry[label].unknowns += 1
    place = int(start)
    for t in range(start, end):
        if clusters.of_tree[t] == t:
            clusters.entry[t].rows = place
            clusters.entry[place].tree = t
            clusters.entry[place].trees = clusters.entry[t].unknowns
            place += clusters.entry[t].unknowns
    for t in range(start, end):
        label = clusters.of_tree[t]
        clusters.order[clusters.entry[label].rows] = t
        clusters.entry[label].rows += 1
    dof = int(tree.groups[g].dof_start)
    k = int(start)
    while k < end:
        clusters.entry[k].dof_start = dof
        for i in range(k, k + clusters.entry[k].trees):
            t = clusters.order[i]
            clusters.of_tree[t] = k
            dof += tree.trees[t + 1].dof_start - tree.trees[t].dof_start
        k += clusters.entry[k].trees
    if tree.group_tied[g] == 1:
        share_couplers(tree, clusters, g)


@wp.func
def share_couplers(tree: Tree, clusters: Clusters, g: int):
    """Give each cluster of a group room in the list of coupler rows."""
    k = int(tree.groups[g].tree_start)
    row = int(clusters.coupler_start[k])
    while k < tree.groups[g + 1].tree_start:
        clusters.entry[k].coupler_start = row
        for i in range(k, k + clusters.entry[k].trees):
            t = clusters.order[i]
            row += clusters.coupler_start[t + 1] - clusters.coupler_start[t]
        k += clusters.entry[k].trees


@wp.func
def find_clusters(
    tree: Tree,
    m: Motion,
    shapes: Shapes,
    rows: ContactRows,
    arrivals: Arrivals,
    pool: ContactPool,
    clusters: Clusters,
    g: int,
    count: int,
):
    """Part a group by its contacts, whose rows then know the entry of their cluster in ``arrivals.next``; one lane."""
    link_trees(tree, m, shapes, rows, pool, clusters, g, count)
    place_clusters(tree, clusters, g)
    for slot in range(pool.group_start[g], pool.group_start[g] + count):
        row = row_of(pool.row[slot])
        t = moved_tree(tree, m, shapes, rows.shape0[row], g)
        if t < 0:
            t = moved_tree(tree, m, shapes, rows.shape1[row], g)
        arrivals.next[row] = clusters.of_tree[wp.max(t, tree.groups[g].tree_start)]


@wp.func
def order_of(tree: Tree, clusters: Clusters, g: int):
    """What a group's contacts are sorted by."""
    return wp.where(may_split(tree, clusters, g), BY_CLUSTER, BY_SHAPE)


@wp.func
def share_contacts(
    tree: Tree, arrivals: Arrivals, pool: ContactPool, clusters: Clusters, g: int, count: int, awake: int
):
    """Tell the clusters of a group their slots, of which so many are awake; one lane."""
    start = pool.group_start[g]
    if may_split(tree, clusters, g):
        for slot in range(start, start + count):
            k = arrivals.next[row_of(pool.row[slot])]
            if clusters.entry[k].contacts == 0:
                clusters.entry[k].contact_start = slot
            clusters.entry[k].contacts += 1
            if not is_asleep(arrivals, row_of(pool.row[slot])):
                clusters.entry[k].awake += 1
        if tree.group_tied[g] == 1:
            place_contactless(tree, clusters, g, start)
    else:
        k = tree.groups[g].tree_start
        clusters.entry[k].contact_start = start
        clusters.entry[k].contacts = count
        clusters.entry[k].awake = awake


@wp.func
def place_contactless(tree: Tree, clusters: Clusters, g: int, slot: int):
    """Let clusters without contacts begin where those before them end: large ones keep what they couple by slots and rows."""
    k = int(tree.groups[g].tree_start)
    end = int(slot)
    while k < tree.groups[g + 1].tree_start:
        if clusters.entry[k].contacts == 0:
            clusters.entry[k].contact_start = end
        end = clusters.entry[k].contact_start + clusters.entry[k].contacts
        k += clusters.entry[k].trees


@wp.func
def clear_clusters(tree: Tree, clusters: Clusters, g: int):
    """Without contacts every tree is by itself, couplings apart, or the group one; one lane."""
    start = tree.groups[g].tree_start
    if may_split(tree, clusters, g):
        begin_clusters(tree, clusters, g)
        place_clusters(tree, clusters, g)
    elif start < tree.groups[g + 1].tree_start:
        clusters.entry[start].contact_start = 0
        clusters.entry[start].contacts = 0
        clusters.entry[start].awake = 0
