"""The Hessian of a large group, H = A + J^T G J, in blocks: one per tree, and one per pair of trees that something couples."""

import warp as wp

from ..linalg.blocks import BlockMatrix, BlockRange, add_contacts, copy_diagonal, factor_blocks
from ..linalg.lanes import sync
from ..workspace import LONG_TREE, CouplerPool, Motion, Pools, Problem, Tree
from .added_inertia import gather_added_inertia, inertia_adding, is_long
from .objective import Range, is_closed, row_stiffness, tree_at

wp.set_module_options({"enable_backward": False})

ALONE = wp.constant(-1)
"""In place of its pair: an item that couples no two trees."""
WIDE = wp.constant(-2)
"""A coupler row across more than two trees; it has no block, but a term of its own in products with H."""


@wp.struct
class Span:
    """The trees that an item couples, each named by its first unknown."""

    earlier: int  # or ALONE, or WIDE
    later: int


@wp.func
def block_range(H: BlockMatrix, at: Range):
    """The part of a block matrix that belongs to a cluster."""
    part = BlockRange()
    part.unknowns = at.unknowns
    part.base = at.base
    part.items = at.contact_start + at.coupler_start
    part.start = H.start[at.group] + wp.int64(part.items) * wp.int64(H.item_entries)
    part.lane = at.lane
    part.lanes = at.lanes
    return part


@wp.func
def coupler_span(H: BlockMatrix, pool: CouplerPool, at: Range, row: int):
    """The trees of one coupler row that acts."""
    first = row * pool.stride
    earliest = int(at.unknowns)
    latest = int(-1)
    for s in range(first, first + pool.support[row]):
        node = H.node[at.base + pool.unknown[s]]
        earliest = wp.min(earliest, node)
        latest = wp.max(latest, node)
    span = Span()
    span.earlier = earliest
    span.later = latest
    if latest <= earliest or pool.G[row] <= wp.float64(0.0):
        span.earlier = ALONE
        return span
    for s in range(first, first + pool.support[row]):
        node = H.node[at.base + pool.unknown[s]]
        if node != earliest and node != latest:
            span.earlier = WIDE
    return span


@wp.func
def item_span(H: BlockMatrix, pools: Pools, at: Range, item: int):
    """The trees of one item: contacts come first, then coupler rows."""
    if item >= at.contacts:
        return coupler_span(H, pools.couplers, at, pools.couplers.order[at.coupler_start + item - at.contacts])
    contacts = pools.contacts
    slot = at.contact_start + item
    span = Span()
    span.earlier = ALONE
    if contacts.support[slot] > 0 and is_closed(contacts, slot):
        first = slot * contacts.stride
        earliest = H.node[at.base + contacts.unknown[first]]
        span.later = H.node[at.base + contacts.unknown[first + contacts.support[slot] - 1]]
        if span.later > earliest:
            span.earlier = earliest
    return span


@wp.func
def sort_items(H: BlockMatrix, pools: Pools, at: Range, part: BlockRange):
    """Items by their earlier tree, whose range is ``pair_start`` to ``pair_end`` until pairs are known."""
    base = at.base
    items = at.contacts + at.couplers
    i = int(0)
    while i < at.unknowns:
        H.pair_end[base + i] = 0
        H.found[base + i] = -1
        i = H.node_end[base + i]
    for item in range(items):
        earlier = item_span(H, pools, at, item).earlier
        H.item_pair[part.items + item] = earlier
        if earlier >= 0:
            H.pair_end[base + earlier] = H.pair_end[base + earlier] + 1
    total = int(0)
    i = int(0)
    while i < at.unknowns:
        count = H.pair_end[base + i]
        H.pair_start[base + i] = total
        H.pair_end[base + i] = total
        total += count
        i = H.node_end[base + i]
    for item in range(items):
        earlier = H.item_pair[part.items + item]
        if earlier >= 0:
            H.item[part.items + H.pair_end[base + earlier]] = item
            H.pair_end[base + earlier] = H.pair_end[base + earlier] + 1


@wp.func
def find_pairs(H: BlockMatrix, pools: Pools, at: Range, part: BlockRange):
    """Number the pairs of trees that something couples, by their earlier tree, and clear their blocks."""
    base = at.base
    sort_items(H, pools, at, part)
    pairs = int(0)
    entries = int(0)
    i = int(0)
    while i < at.unknowns:
        first = pairs
        for k in range(H.pair_start[base + i], H.pair_end[base + i]):
            item = H.item[part.items + k]
            later = item_span(H, pools, at, item).later
            if H.found[base + later] < first:
                H.found[base + later] = pairs
                H.later[part.items + pairs] = later
                H.entry[part.items + pairs] = entries
                entries += (H.node_end[base + i] - i) * (H.node_end[base + later] - later)
                pairs += 1
            H.item_pair[part.items + item] = H.found[base + later]
        H.pair_start[base + i] = first
        H.pair_end[base + i] = pairs
        i = H.node_end[base + i]
    for e in range(entries):
        H.pair[part.start + wp.int64(e)] = wp.float64(0.0)


@wp.func
def add_coupler(H: BlockMatrix, pool: CouplerPool, at: Range, part: BlockRange, row: int, pair: int):
    """H += G J^T J of one coupler row; of a wide one what stays within a tree."""
    first = row * pool.stride
    for b in range(pool.support[row]):
        column = pool.unknown[first + b]
        node = H.node[at.base + column]
        for a in range(at.lane, pool.support[row], at.lanes):
            unknown = pool.unknown[first + a]
            value = pool.G[row] * pool.J[first + a] * pool.J[first + b]
            above = H.node[at.base + unknown]
            if above == node:
                entry = H.row[at.base + unknown] + column - node
                H.own[entry] = H.own[entry] + value
            elif above < node and pair >= 0:
                place = H.entry[part.items + pair] + (unknown - above) * (H.node_end[at.base + node] - node)
                entry64 = part.start + wp.int64(place + column - node)
                H.pair[entry64] = H.pair[entry64] + value


add_tree = inertia_adding(wp.float64)


@wp.func
def add_inertias(tree: Tree, H: BlockMatrix, m: Motion, pools: Pools, problem: Problem, at: Range):
    """H += J^T G J of what contacts add to the inertia of long trees."""
    long = bool(False)
    for i in range(at.trees):
        if is_long(tree, m, tree_at(problem, at, i)):
            long = True
    if long:
        gather_added_inertia(tree, m, pools.contacts, problem, at)
        for i in range(at.trees):
            t = tree_at(problem, at, i)
            first = problem.tree_start[t]
            if is_long(tree, m, t) and first >= 0:
                stride = tree.trees[t + 1].dof_start - tree.trees[t].dof_start
                start = wp.int64(H.row[at.base + first]) - wp.int64(first) * wp.int64(stride + 1)
                add_tree(tree, m, problem, H.own, start, stride, 1, t, at)
        sync()


@wp.func
def assemble_blocks(tree: Tree, H: BlockMatrix, m: Motion, pools: Pools, problem: Problem, at: Range, part: BlockRange):
    """H at the iterate, and its approximate factorisation."""
    if at.lane == 0:
        find_pairs(H, pools, at, part)
    copy_diagonal(H, part, H.own, m.A)
    for i in range(at.lane, at.unknowns, at.lanes):
        u = at.base + i
        diagonal = H.row[u] + i - H.node[u]
        H.own[diagonal] = H.own[diagonal] + row_stiffness(pools.rows, problem, u)
    sync()
    add_inertias(tree, H, m, pools, problem, at)
    pool = pools.contacts
    add_contacts(
        H,
        part,
        pool.J,
        pool.unknown,
        pool.stride,
        pool.support,
        pool.G,
        pool.link_a,
        pool.link_b,
        LONG_TREE,
        at.contact_start,
        at.contacts,
    )
    for c in range(at.couplers):
        row = pools.couplers.order[at.coupler_start + c]
        add_coupler(H, pools.couplers, at, part, row, H.item_pair[part.items + at.contacts + c])
        sync()
    copy_diagonal(H, part, H.inverse, H.own)
    factor_blocks(H, part, problem.dv, problem.dp)
