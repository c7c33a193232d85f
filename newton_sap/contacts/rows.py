"""Newton's contact rows, sorted into groups: which rows a group takes, and in what order.

Rows arrive in any order. A group's slots are sorted by shapes and points, so nothing depends on that order. Where a
part has too few slots for all its groups together, each gets the same share, and keeps its deepest contacts.
"""

import warp as wp

from ..linalg.lanes import sync
from ..workspace import Arrivals, ContactPool, Shapes, Tree

wp.set_module_options({"enable_backward": False})

BY_SHAPE = wp.constant(0)
BY_DEPTH = wp.constant(1)
BY_CLUSTER = wp.constant(2)

ASLEEP = wp.constant(wp.float32(1.0e3))
"""What a row that sleeps has besides its distance [m]: more than any gap."""
CORNERS = wp.constant(4)
"""In which a row may touch: where it was found, and three more."""
ENTRIES = wp.constant(8)
"""Of a row, ``ENTRIES * row + 2 * corner + spin``: its contact in the corner that was found or one of three beside it, or the relative
spin there."""
FEW = wp.constant(24)
"""Entries that are sorted by insertion."""
MANY = wp.constant(512)
"""Entries of a group of which each is no longer compared with each."""


@wp.struct
class ContactRows:
    """Newton's contact arrays; optional ones have length zero where Newton did not allocate them."""

    count: wp.array[wp.int32]
    shape0: wp.array[wp.int32]
    shape1: wp.array[wp.int32]
    point0: wp.array[wp.vec3]
    point1: wp.array[wp.vec3]
    offset0: wp.array[wp.vec3]
    offset1: wp.array[wp.vec3]
    margin0: wp.array[wp.float32]
    margin1: wp.array[wp.float32]
    normal: wp.array[wp.vec3]
    surface_velocity: wp.array[wp.vec3]
    stiffness: wp.array[wp.float32]
    damping: wp.array[wp.float32]
    friction: wp.array[wp.float32]


@wp.func
def hidden(link: int):
    """What a slot has in place of a link that no unknown moves."""
    return -2 - link


@wp.func
def shown(link: int):
    """The link of a slot, moved by unknowns or not; -1 for none."""
    return wp.where(link < -1, hidden(link), link)


@wp.func
def row_of(entry: int):
    """The row that an entry is of."""
    return entry / ENTRIES


@wp.func
def corner_of(entry: int):
    """In which corner an entry's contact is, 0 for where it was found."""
    return (entry % ENTRIES) / 2


@wp.func
def is_spin(entry: int):
    """Whether an entry is for a relative spin."""
    return entry % 2 == 1


@wp.func
def has_corner(arrivals: Arrivals, row: int, corner: int):
    """Whether a row that was entered has a contact in a corner."""
    if corner == 0:
        return True
    if arrivals.corners.shape[0] == 0:
        return False
    return (arrivals.corners[row] >> corner) % 2 == 1


@wp.func
def mark_corners(arrivals: Arrivals, row: int, corners: int):
    """Remember in which corners a row touches, if any may in others than the one that was found."""
    if arrivals.corners.shape[0] > 0:
        arrivals.corners[row] = corners


@wp.func
def corners_of(arrivals: Arrivals, row: int):
    """How many contacts a row that was entered has."""
    corners = int(0)
    for corner in range(int(CORNERS)):
        corners += int(has_corner(arrivals, row, corner))
    return corners


@wp.func
def has_spin(shapes: Shapes, rows: ContactRows, row: int, spin_friction: int):
    """Whether a contact asks for a second slot, for its relative spin."""
    if spin_friction == 0:
        return False
    a = rows.shape0[row]
    b = rows.shape1[row]
    # Whatever is not zero asks, so that a number that is none, or negative, is found out by the solve.
    turns_freely = shapes.mu_torsional[a] == 0.0 and shapes.mu_torsional[b] == 0.0
    return not (turns_freely and shapes.mu_rolling[a] == 0.0 and shapes.mu_rolling[b] == 0.0)


@wp.func
def slots_of(arrivals: Arrivals, shapes: Shapes, rows: ContactRows, row: int, spin_friction: int):
    """How many slots a row asks for."""
    return corners_of(arrivals, row) * (1 + int(has_spin(shapes, rows, row, spin_friction)))


@wp.func
def body_part(tree: Tree, body: int):
    """The part of a body, -1 for one that no part has for itself."""
    if body < 0:
        return -1
    return tree.bodies[body].part


@wp.func
def part_of(tree: Tree, shapes: Shapes, rows: ContactRows, row: int):
    """The part that a row concerns; the first where it concerns none."""
    a = rows.shape0[row]
    b = rows.shape1[row]
    if wp.min(a, b) < 0 or wp.max(a, b) >= shapes.body.shape[0]:
        return 0
    return wp.max(wp.max(body_part(tree, shapes.body[a]), body_part(tree, shapes.body[b])), 0)


@wp.func
def row_count(rows: ContactRows):
    """How many rows Newton wrote; it counts on where there is no room."""
    return wp.min(rows.count[0], rows.shape0.shape[0])


@wp.func
def listed_row(rows: ContactRows, row: int):
    """A row if Newton lists so many, else -1."""
    return wp.where(row < row_count(rows), row, -1)


@wp.func
def first_row(tree: Tree, arrivals: Arrivals, rows: ContactRows, thread: int):
    """The first row that a thread looks at: of those listed for its part, or of all, which threads share; -1 for none."""
    if arrivals.part_head.shape[0] > 0:
        return arrivals.part_head[tree.part] - 1
    return listed_row(rows, thread)


@wp.func
def next_row(arrivals: Arrivals, rows: ContactRows, row: int, threads: int):
    """The row that the thread looks at then."""
    if arrivals.part_head.shape[0] > 0:
        return arrivals.next[row] - 1
    return listed_row(rows, row + threads)


@wp.func
def is_asleep(arrivals: Arrivals, row: int):
    """Whether what the two bodies of a row that was entered do by themselves does not close it."""
    return arrivals.phi0[row] >= ASLEEP


@wp.func
def enter(arrivals: Arrivals, row: int, group: int, phi0: wp.float32, asleep: bool, slots: int):
    """Put a row at the head of its group's list."""
    arrivals.phi0[row] = wp.where(asleep, ASLEEP + phi0, phi0)
    arrivals.next[row] = wp.atomic_exch(arrivals.head, group, row + 1)
    wp.atomic_add(arrivals.group_count, group, slots)


@wp.func
def leave_out(arrivals: Arrivals, row: int, link: int, lacking: wp.float32):
    """Put a row to those of a moving link that only overlaps may close, if they push by ``lacking`` [m] at least within the step."""
    arrivals.phi0[row] = lacking
    arrivals.next[row] = wp.atomic_exch(arrivals.left_out, link, row + 1)


@wp.func
def take_back(arrivals: Arrivals, rows: ContactRows, shapes: Shapes, spin_friction: int, group: int, link: int):
    """Enter the rows of a link that were left out and may close, once all overlaps of the group are known."""
    push = arrivals.push[group]
    row = arrivals.left_out[link] - 1
    arrivals.left_out[link] = 0
    while row >= 0:
        row_after = arrivals.next[row] - 1  # before the row goes to another list
        if arrivals.phi0[row] <= push:  # which also tells the nearer ones, where not all find room
            enter(arrivals, row, group, arrivals.phi0[row], True, slots_of(arrivals, shapes, rows, row, spin_friction))
        else:
            leave_out(arrivals, row, link, arrivals.phi0[row])
        row = row_after


@wp.func
def share_of(tree: Tree, arrivals: Arrivals, pool: ContactPool, group: int, per_contact: int):
    """(start, count) of a group's slots: all it asks for, or an equal share where not all groups of its part find room.

    A share is for whole contacts, of ``per_contact`` slots each.
    """
    first = pool.part_start[tree.part]
    capacity = pool.part_start[tree.part + 1] - first
    count = arrivals.group_count[group]
    last = tree.first_group + tree.part_groups - 1
    if arrivals.group_start[last] + arrivals.group_count[last] <= capacity:
        return wp.vec2i(first + arrivals.group_start[group], count)
    room = capacity / per_contact
    share = room / tree.part_groups
    left = room - tree.part_groups * share
    before = group - tree.first_group
    start = first + per_contact * (before * share + wp.min(before, left))
    if before < left:
        share += 1
    return wp.vec2i(start, wp.min(count, per_contact * share))


@wp.func
def compare(p: wp.vec3, q: wp.vec3):
    """Lexicographic order: -1, 0 or 1; what is no number comes last, so that there is an order of all."""
    for i in range(3):
        if p[i] < q[i]:
            return -1
        if p[i] > q[i]:
            return 1
        if p[i] != q[i] and wp.isnan(p[i]) != wp.isnan(q[i]):
            return wp.where(wp.isnan(p[i]), 1, -1)
    return 0


@wp.func
def comes_before(arrivals: Arrivals, rows: ContactRows, key: int, x: int, y: int):
    """Order of two entries; arrival decides between equal rows only."""
    i = row_of(x)
    j = row_of(y)
    if key == BY_DEPTH and (corner_of(x) == 0) != (corner_of(y) == 0):
        return corner_of(x) == 0
    if key == BY_DEPTH and arrivals.phi0[i] != arrivals.phi0[j]:
        return arrivals.phi0[i] < arrivals.phi0[j]
    if key == BY_CLUSTER and arrivals.next[i] != arrivals.next[j]:
        return arrivals.next[i] < arrivals.next[j]
    if is_asleep(arrivals, i) != is_asleep(arrivals, j):
        return is_asleep(arrivals, j)
    if rows.shape0[i] != rows.shape0[j]:
        return rows.shape0[i] < rows.shape0[j]
    if rows.shape1[i] != rows.shape1[j]:
        return rows.shape1[i] < rows.shape1[j]
    order = compare(rows.point0[i], rows.point0[j])
    if order == 0:
        order = compare(rows.point1[i], rows.point1[j])
    if order == 0:
        order = compare(rows.normal[i], rows.normal[j])
    if order == 0:
        return x < y
    return order < 0


@wp.func
def sift_down(
    arrivals: Arrivals, rows: ContactRows, key: int, entry: wp.array[wp.int32], start: int, root: int, count: int
):
    """Restore the heap below ``root``, the last of all on top."""
    here = root
    while 2 * here + 1 < count:
        child = 2 * here + 1
        if child + 1 < count and comes_before(arrivals, rows, key, entry[start + child], entry[start + child + 1]):
            child += 1
        x = entry[start + here]
        y = entry[start + child]
        if comes_before(arrivals, rows, key, x, y):
            entry[start + here] = y
            entry[start + child] = x
            here = child
        else:
            here = count


@wp.func
def insert_entry(arrivals: Arrivals, rows: ContactRows, key: int, entry: wp.array[wp.int32], start: int, last: int):
    """Move the last of some entries, of which the others are in order, to its place among them."""
    x = entry[last]
    place = int(last)
    before = place - 1
    while before >= start:
        if comes_before(arrivals, rows, key, x, entry[before]):
            entry[place] = entry[before]
            place = before
            before -= 1
        else:
            before = -1
    entry[place] = x


@wp.func
def sort_entries(arrivals: Arrivals, rows: ContactRows, key: int, entry: wp.array[wp.int32], start: int, count: int):
    """Insertion of few, which nearly are in order; heap sort of many, unless they already are."""
    if count <= FEW:
        for i in range(start + 1, start + count):
            insert_entry(arrivals, rows, key, entry, start, i)
        return
    sorted = int(1)
    for i in range(start + 1, start + count):
        if comes_before(arrivals, rows, key, entry[i], entry[i - 1]):
            sorted = int(0)
    if sorted == 1:
        return
    size = int(count)
    for turn in range(count / 2 + count - 1):
        root = count / 2 - 1 - turn
        if root < 0:  # it is a heap, and its top goes to the end
            root = 0
            size -= 1
            x = entry[start]
            entry[start] = entry[start + size]
            entry[start + size] = x
        sift_down(arrivals, rows, key, entry, start, root, size)


@wp.func
def share_sorting(
    arrivals: Arrivals,
    rows: ContactRows,
    key: int,
    entry: wp.array[wp.int32],
    place: wp.array[wp.int32],
    start: int,
    count: int,
    lane: int,
):
    """Sort by shapes and points, or by clusters before that, with other lanes: each puts its entries behind all that come before them.

    A GPU's rows arrive in any order, and one lane that sorts them takes longer than all lanes that compare each with
    each, unless there are very many.
    """
    lanes = wp.block_dim()
    if lanes == 1 or count > MANY:
        if lane == 0:
            sort_entries(arrivals, rows, key, entry, start, count)
    else:
        for i in range(lane, count, lanes):
            x = entry[start + i]
            before = int(0)
            for k in range(count):
                if comes_before(arrivals, rows, key, entry[start + k], x):
                    before += 1
            place[start + before] = x
        sync()
        for i in range(lane, count, lanes):
            entry[start + i] = place[start + i]
    sync()


@wp.func
def keep_deepest(
    arrivals: Arrivals, rows: ContactRows, entry: wp.array[wp.int32], start: int, count: int, met: int, x: int
):
    """Keep the ``met``-th entry of a list of which only ``count`` find room: the deepest stay."""
    if met < count:
        # From the back, because the list starts with the latest: rows that arrived in order then are in order.
        entry[start + count - 1 - met] = x
    elif count > 0:
        unordered = wp.where(met == count, count / 2, 0)  # roots above which there is no heap yet
        for turn in range(unordered + 1):
            root = unordered - 1 - turn
            if root < 0:
                root = 0
                if comes_before(arrivals, rows, BY_DEPTH, x, entry[start]):
                    entry[start] = x
            sift_down(arrivals, rows, BY_DEPTH, entry, start, root, count)


@wp.func
def list_rows(
    arrivals: Arrivals,
    pool: ContactPool,
    rows: ContactRows,
    shapes: Shapes,
    spin_friction: int,
    group: int,
    start: int,
    count: int,
):
    """Write a group's entries into its slots."""
    most = wp.where(arrivals.corners.shape[0] > 0, ENTRIES, 2)
    met = int(0)
    row = arrivals.head[group] - 1
    while row >= 0:
        spins = has_spin(shapes, rows, row, spin_friction)
        for back in range(most):
            entry = ENTRIES * row + most - 1 - back
            if (spins or not is_spin(entry)) and has_corner(arrivals, row, corner_of(entry)):
                keep_deepest(arrivals, rows, pool.row, start, count, met, entry)
                met += 1
        row = arrivals.next[row] - 1


@wp.func
def count_missing(
    arrivals: Arrivals,
    pool: ContactPool,
    rows: ContactRows,
    shapes: Shapes,
    spin_friction: int,
    group: int,
    start: int,
    count: int,
):
    """How many of a group's contacts found no room, or none for their spin; ``count`` entries are in its slots."""
    missing = int(0)
    row = arrivals.head[group] - 1
    while row >= 0:
        missing += corners_of(arrivals, row)
        row = arrivals.next[row] - 1
    for slot in range(start, start + count):
        entry = pool.row[slot]
        # A contact is kept before its spin, so that one whose spin is there is there itself.
        if is_spin(entry) or not has_spin(shapes, rows, row_of(entry), spin_friction):
            missing -= 1
    return missing
