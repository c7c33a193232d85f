"""Islands of a cluster: trees that push each other at the iterate. What is true of one says nothing of another.

One line search and one stopping test serve a whole cluster: a light body at rest waits for a heap that collapses elsewhere, and
until then its iterate is halfway. So friction bounds are judged by the island that they belong to.
"""

import warp as wp

from ..linalg.lanes import sync, total
from ..workspace import ContactPool, Pools, Problem, Tree
from .objective import Range, scaled_squares, tree_at

wp.set_module_options({"enable_backward": False})

NOTHING = wp.constant(wp.float64(1.0e-12))
"""Impulse [N s] that rounding leaves of none."""


@wp.func
def has_islands(at: Range):
    """Whether a cluster has several trees; one is an island by itself."""
    return at.trees > 1


@wp.func
def tree_of_unknown(tree: Tree, problem: Problem, u: int):
    """The tree of an unknown."""
    return tree.links[tree.dofs[problem.dof[u]].link].tree


@wp.func
def sum_at(problem: Problem, at: Range, t: int):
    """Where the sums over a tree's island lie in ``dv`` and ``dp``, which wait for the next direction."""
    return at.base + problem.tree_start[problem.island[t]]


@wp.func
def join(problem: Problem, a: int, b: int):
    """Let two trees, and those that they are labelled by, get the smaller label next; 1 if theirs differ."""
    first = problem.island[a]
    second = problem.island[b]
    if first == second:
        return wp.float64(0.0)
    label = wp.min(first, second)
    wp.atomic_min(problem.readable, a, label)
    wp.atomic_min(problem.readable, b, label)
    wp.atomic_min(problem.readable, wp.max(first, second), label)
    return wp.float64(1.0)


@wp.func
def join_once(tree: Tree, pools: Pools, problem: Problem, at: Range, only_held: bool):
    """Join what contacts push and couplings tie, or what couplings hold; how many had different labels."""
    joined = wp.float64(0.0)
    contacts = pools.contacts
    pushing = wp.where(only_held, 0, at.contacts)
    for slot in range(at.contact_start + at.lane, at.contact_start + pushing, at.lanes):
        if contacts.link_a[slot] >= 0 and contacts.link_b[slot] >= 0:
            if wp.length(contacts.gamma[slot]) > NOTHING:
                a = tree.links[contacts.link_a[slot]].tree
                joined += join(problem, a, tree.links[contacts.link_b[slot]].tree)
    for i in range(at.coupler_start + at.lane, at.coupler_start + at.couplers, at.lanes):
        r = pools.couplers.order[i]
        if only_held and not pools.couplers.G[r] > wp.float64(0.0):
            continue
        first = r * pools.couplers.stride
        for s in range(first + 1, first + pools.couplers.support[r]):
            a = tree_of_unknown(tree, problem, at.base + pools.couplers.unknown[s - 1])
            joined += join(problem, a, tree_of_unknown(tree, problem, at.base + pools.couplers.unknown[s]))
    return total(joined)


@wp.func
def find_islands(tree: Tree, pools: Pools, problem: Problem, at: Range, only_held: bool):
    """Label every tree by the first one of its island, as last evaluated; clear their sums.

    ``only_held`` leaves out contacts, and couplings that resist no change: what is slack or switched off.
    """
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        problem.island[t] = t
        if problem.tree_start[t] >= 0:
            problem.dv[at.base + problem.tree_start[t]] = wp.float64(0.0)
            problem.dp[at.base + problem.tree_start[t]] = wp.float64(0.0)
    sync()
    joined = wp.float64(1.0)
    while joined > wp.float64(0.0):
        # Labels are read where nobody writes them: the next ones wait in ``readable``.
        for i in range(at.lane, at.trees, at.lanes):
            t = tree_at(problem, at, i)
            problem.readable[t] = problem.island[t]
        sync()
        joined = join_once(tree, pools, problem, at, only_held)
        sync()
        for i in range(at.lane, at.trees, at.lanes):
            t = tree_at(problem, at, i)
            problem.island[t] = problem.readable[problem.readable[t]]
        sync()


@wp.func
def note_readable(tree: Tree, pools: Pools, problem: Problem, at: Range, share: wp.float64):
    """Note of each tree whether its island's residual is at most that share of the constraint impulses there."""
    find_islands(tree, pools, problem, at, False)
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        start = problem.tree_start[t]
        if start >= 0:
            squares = wp.vec3d()
            for u in range(at.base + start, at.base + problem.block_end[at.base + start]):
                squares += scaled_squares(problem, u)
            wp.atomic_add(problem.dv, sum_at(problem, at, t), squares[0])
            wp.atomic_add(problem.dp, sum_at(problem, at, t), squares[2])
    sync()
    for i in range(at.lane, at.trees, at.lanes):
        t = tree_at(problem, at, i)
        if problem.tree_start[t] >= 0:
            sums = sum_at(problem, at, t)
            problem.readable[t] = int(problem.dv[sums] <= share * share * problem.dp[sums])
    sync()


@wp.func
def knows(tree: Tree, problem: Problem, link: int):
    """Whether the island of a link, if there is one, knew its impulses when :func:`note_readable` was called last."""
    if link < 0:
        return True
    return problem.readable[tree.links[link].tree] == 1


@wp.func
def is_readable(tree: Tree, pool: ContactPool, problem: Problem, slot: int):
    """Whether the islands of a contact knew its impulses then."""
    if not knows(tree, problem, pool.link_a[slot]):
        return False
    return knows(tree, problem, pool.link_b[slot])


@wp.func
def add_square(tree: Tree, pool: ContactPool, problem: Problem, at: Range, slot: int, n0: wp.float64):
    """Count a contact's normal impulse [N s] among those of its island, in ``dv``; bodies that it pushes are of the same one."""
    link = wp.where(pool.link_a[slot] >= 0, pool.link_a[slot], pool.link_b[slot])
    if link >= 0:
        wp.atomic_add(problem.dv, sum_at(problem, at, tree.links[link].tree), n0 * n0)


@wp.func
def squares_at(tree: Tree, problem: Problem, at: Range, link: int, none: wp.float64):
    """Squares of the normal impulses of a link's island; ``none`` without a link."""
    if link < 0:
        return none
    return problem.dv[sum_at(problem, at, tree.links[link].tree)]
