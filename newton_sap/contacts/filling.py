"""From Newton's ``Contacts`` to the contact pool: geometry and which contacts may act in this step."""

from functools import cache

import newton
import warp as wp

from ..linalg.lanes import LANES_OF_A_LIST, REGISTERS, sync, total
from ..multibody.paths import last_dof
from ..multibody.spatial import angular, to_vec3d, velocity_at
from ..runtime.packed import pack_contacts, pack_motion, pack_tree
from ..workspace import Arrivals, Bodies, Clusters, ContactPool, Motion, Shapes, StateArrays, Stats, Tree
from .approach import belt_velocity, handed_speed, lacking_speed, lent_speed, overlap_speed
from .borrowed import note, stored_spare
from .clusters import clear_clusters, find_clusters, may_split, order_of, share_contacts
from .found import gap_now, touched_now
from .gaps import Gap, lacks_normal, leave_by_face, measure_gap, spared_by_spin
from .internal_edges import first_passed_over, pass_over_edges, surface_side, touched_at, touching_link
from .materials import ContactOptions, Material, material_of
from .rolling import passed_by
from .rows import (
    ContactRows,
    corner_of,
    count_missing,
    enter,
    first_row,
    is_asleep,
    is_spin,
    leave_out,
    list_rows,
    mark_corners,
    next_row,
    part_of,
    row_count,
    row_of,
    share_of,
    share_sorting,
    slots_of,
    take_back,
)
from .shape_geometry import has_faces

wp.set_module_options({"enable_backward": False})

FULL = wp.constant(1 << 30)
"""Counts that grow by more than one stop here; they never grow by more at once."""

COLLIDES = wp.constant(int(newton.ShapeFlags.COLLIDE_SHAPES))
_SHAPES = newton.ModelFlags.SHAPE_PROPERTIES | newton.ModelFlags.SHAPE_TYPE_AND_SOURCE
MOVES_SHAPES = int(_SHAPES | newton.ModelFlags.BODY_INERTIAL_PROPERTIES)
"""Notices after which other shapes may collide, be elsewhere or of another size, or the COM elsewhere."""


@wp.struct
class Extents:
    """Where Newton's shapes are on their bodies."""

    body: wp.array[wp.int32]  # -1 for the world
    type: wp.array[wp.int32]  # newton.GeoType
    flags: wp.array[wp.int32]  # newton.ShapeFlags
    transform: wp.array[wp.transform]  # in the body frame
    collision_radius: wp.array[wp.float32]  # about the transform's origin [m]
    restitution: wp.array[wp.float32]


@wp.kernel
def take_in_shapes(tree: Tree, bodies: Bodies, extents: Extents):
    """Let a link's radius take in each of its colliding shapes, count those with flat faces, and find the bounciest of all."""
    shape = wp.tid()
    body = extents.body[shape]
    if (extents.flags[shape] & COLLIDES) == 0:
        return
    wp.atomic_max(tree.restitution, 0, extents.restitution[shape])
    if body < 0:
        return
    link = tree.bodies[body].link
    if link >= 0:
        away = to_vec3d(wp.transform_get_translation(extents.transform[shape])) - to_vec3d(bodies.com[body])
        wp.atomic_max(tree.link_radius, link, wp.float32(wp.length(away)) + extents.collision_radius[shape])
        dof = last_dof(tree, link)
        if tree.compounds == 1 and dof >= 0 and has_faces(extents.type[shape]):
            wp.atomic_add(tree.dof_faces, dof, 1)


def measure_links(launches, tree: Tree, bodies: Bodies, model, flags: int = MOVES_SHAPES) -> None:
    """Measure all links by the shapes in the model's present arrays, if ``flags`` concern them; on the device, so that graphs may hold it."""
    if not flags & MOVES_SHAPES:
        return
    extents = Extents()
    extents.body, extents.type, extents.flags = model.shape_body, model.shape_type, model.shape_flags
    extents.transform, extents.collision_radius = model.shape_transform, model.shape_collision_radius
    extents.restitution = model.shape_material_restitution
    tree.link_radius.zero_()
    tree.dof_faces.zero_()
    tree.restitution.zero_()
    launches.single(take_in_shapes, model.shape_count, [tree, bodies, extents])


@wp.func
def count_up(counter: wp.array[wp.int32], g: int, more: int):
    """Add to one counter of several, which stays where it is once it is large: it may not wrap around."""
    if counter[g] < FULL:
        wp.atomic_add(counter, g, wp.min(more, FULL))


@wp.func
def collect_one(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    stats: Stats,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    i: int,
    dt: wp.float64,
):
    """Enter one of Newton's contacts into its group's list if it may act in this step."""
    mark_corners(arrivals, i, 0)
    s0 = rows.shape0[i]
    s1 = rows.shape1[i]
    if s0 < 0 or s1 < 0 or s0 == s1:
        full = rows.count[0] > rows.shape0.shape[0]
        if full and wp.max(s0, s1) < 0:  # Newton writes no contact of a pair without room for all of them
            count_up(stats.lost_rows, 0, 1)
        return
    if wp.max(s0, s1) >= shapes.body.shape[0]:
        count_up(stats.lost_rows, 0, 1)
        return
    gap = gap_now(tree, bodies, shapes, m, rows, state, i)
    if gap.group < 0:
        if lacks_normal(gap):
            count_up(stats.without_normal, wp.max(gap.a.group, gap.b.group), 1)
        return
    pair = material_of(shapes, rows, options, i, dt)
    if pair.stiffness <= wp.float64(0.0):
        return
    asleep = bool(False)
    if options.ahead == 0:
        if gap.phi0 > wp.float64(0.0):
            lacking = lacking_speed(m, gap, belt_velocity(rows, i, gap.normal), pair.mu, dt)
            asleep = lacking > wp.float64(0.0)
            lacking -= lent_speed(tree, m, gap.group)
            if lacking > wp.float64(0.0):
                leave_out(
                    arrivals, i, touching_link(tree, shapes, rows, gap, i), wp.float32(wp.float64(0.5) * dt * lacking)
                )
                return
        push = handed_speed(gap)
        if gap.phi0 <= wp.float64(0.0):
            push = wp.max(push, overlap_speed(gap, pair, options, dt))
        if not (push <= wp.float64(0.0)):
            wp.atomic_max(arrivals.push, gap.group, wp.float32(dt * push))
    if not asleep:
        mark_corners(arrivals, i, 1)
    enter(
        arrivals, i, gap.group, wp.float32(gap.phi0), asleep, slots_of(arrivals, shapes, rows, i, options.spin_friction)
    )


@wp.kernel
def list_by_part(tree: Tree, shapes: Shapes, arrivals: Arrivals, rows: ContactRows):
    """Link Newton's rows into one list per part, in ascending order; one thread."""
    for part in range(arrivals.part_head.shape[0]):
        arrivals.part_head[part] = 0
    count = row_count(rows)
    for back in range(count):
        row = count - 1 - back
        part = part_of(tree, shapes, rows, row)
        arrivals.next[row] = arrivals.part_head[part]
        arrivals.part_head[part] = row + 1


@wp.kernel
def collect_contacts(
    tree: Tree,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    stats: Stats,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    dt: wp.float64,
    threads: int,
):
    """List the contacts of every group that may act in this step; of a part, those that were listed for it."""
    if wp.tid() == 0 and tree.part == 0:
        count_up(stats.lost_rows, 0, rows.count[0] - row_count(rows))
    row = first_row(tree, arrivals, rows, wp.tid())
    while row >= 0:
        row_after = next_row(arrivals, rows, row, threads)  # before the row goes to its group's list
        collect_one(tree, bodies, shapes, m, arrivals, stats, rows, options, state, row, dt)
        row = row_after


@wp.kernel(enable_backward=False, module="unique")
def count_foreign(stats: Stats, rows: ContactRows):
    """Count contacts given to a model without shapes: whatever shapes they name, it has none of them."""
    count_up(stats.lost_rows, 0, rows.count[0])


@wp.kernel
def enter_late(tree: Tree, shapes: Shapes, arrivals: Arrivals, rows: ContactRows, options: ContactOptions):
    """Enter what overlaps may close; one block per group, whose lanes share its links."""
    block, lane = wp.tid()
    g = tree.first_group + block
    if arrivals.push[g] > 0.0:
        first = tree.trees[tree.groups[g].tree_start].link_start
        end = tree.trees[tree.groups[g + 1].tree_start].link_start
        for link in range(first + lane, end, wp.block_dim()):
            take_back(arrivals, rows, shapes, options.spin_friction, g, link)


@wp.kernel(enable_backward=False, module="unique", module_options={"block_dim": LANES_OF_A_LIST})
def number_slots(tree: Tree, arrivals: Arrivals):
    """Add up what the groups of a part ask for; one block."""
    block, lane = wp.tid()
    lanes = wp.block_dim()
    each = (tree.part_groups + lanes - 1) / lanes
    end = tree.first_group + tree.part_groups
    first = wp.min(tree.first_group + lane * each, end)
    end = wp.min(first + each, end)
    asked = int(0)
    for g in range(first, end):
        asked += arrivals.group_count[g]
    arrivals.lane_count[tree.part * lanes + lane] = asked
    sync()
    start = int(0)
    for before in range(lane):
        start += arrivals.lane_count[tree.part * lanes + before]
    for g in range(first, end):
        arrivals.group_start[g] = start
        start += arrivals.group_count[g]


@wp.func
def prescribed_slip(gap: Gap, point_a: wp.vec3d, point_b: wp.vec3d):
    """Velocity of B relative to A that is given [m/s]."""
    return velocity_at(gap.b.prescribed, point_b) - velocity_at(gap.a.prescribed, point_a)


@wp.func
def store(pool: ContactPool, slot: int, gap: Gap, pair: Material, options: ContactOptions, spin: bool):
    """Write a contact, or its relative spin, into a slot."""
    pool.link_a[slot] = gap.a.link
    pool.link_b[slot] = gap.b.link
    pool.normal[slot] = gap.normal
    pool.phi0[slot] = gap.phi0
    pool.stiffness[slot] = pair.stiffness
    relaxation_time = pair.relaxation_time
    if gap.phi0 > wp.float64(0.0) and options.ahead == 0:
        relaxation_time = wp.float64(0.0)
    pool.relaxation_time[slot] = relaxation_time
    pool.dissipation[slot] = pair.dissipation
    pool.mu[slot] = pair.mu
    if options.spin_friction == 1:
        pool.mu_torsional[slot] = pair.mu_torsional
        pool.mu_rolling[slot] = pair.mu_rolling
    pool.rebound[slot] = pair.restitution
    weight_a = pair.weight_a
    if gap.phi0 > wp.float64(0.0):
        # Across a gap only a moving side knows where it will be touched; halfway would be a lever.
        if gap.a.link < 0:
            weight_a = wp.float64(0.0)
        elif gap.b.link < 0:
            weight_a = wp.float64(1.0)
    point_a = weight_a * gap.a.surface + (wp.float64(1.0) - weight_a) * gap.b.surface
    point_b = point_a
    if options.witness_points == 1:
        point_a = gap.a.surface
        point_b = gap.b.surface
    pool.point_a[slot] = point_a
    pool.point_b[slot] = point_b
    if spin:
        pool.bias[slot] = angular(gap.b.prescribed) - angular(gap.a.prescribed)
    else:
        pool.bias[slot] = prescribed_slip(gap, point_a, point_b)


@wp.func
def count_dropped(stats: Stats, g: int, dropped: int, capacity: int):
    """Count contacts without room; say so the first time, because the motion is no longer what was asked for."""
    if stats.groups[g].dropped < FULL:
        stats.groups[g].dropped += dropped
    if stats.overflows[0] == 0:
        if wp.atomic_add(stats.overflows, 0, 1) == 0:
            wp.printf(
                "SolverSAP: room for %d contacts is not enough; report() counts what was dropped, "
                "max_contacts makes more room\n",
                capacity,
            )


@cache
def fill_kernel(edges: bool) -> wp.Kernel:
    """Return the kernel that fills slots: with ``edges`` it passes over those inside surfaces, on which half of its compilation is spent."""

    @wp.kernel(cuda_max_registers=REGISTERS, enable_backward=False, module="unique")
    def fill_contacts(
        tree: Tree,
        bodies: Bodies,
        shapes: Shapes,
        m: Motion,
        arrivals: Arrivals,
        pool: ContactPool,
        stats: Stats,
        rows: ContactRows,
        options: ContactOptions,
        state: StateArrays,
        dt: wp.float64,
        clusters: Clusters,
    ):
        """One block per group: its lane 0 lists the group's rows, all lanes sort them into slots and write points and materials."""
        block, lane = wp.tid()
        g = tree.first_group + block
        per_contact = 1 + options.spin_friction
        capacity = pool.row.shape[0]
        share = share_of(tree, arrivals, pool, g, per_contact)
        pack_tree(tree)
        pack_motion(m)
        pack_contacts(pool)
        start = share[0]
        count = share[1]
        if lane == 0:
            pool.group_start[g] = start
            list_rows(arrivals, pool, rows, shapes, options.spin_friction, g, start, count)
            if count < arrivals.group_count[g]:
                missing = count_missing(arrivals, pool, rows, shapes, options.spin_friction, g, start, count)
                count_dropped(stats, g, missing, capacity / per_contact)
            if may_split(tree, clusters, g):
                find_clusters(tree, m, shapes, rows, arrivals, pool, clusters, g, count)
        sync()
        share_sorting(arrivals, rows, order_of(tree, clusters, g), pool.row, pool.spin_of, start, count, lane)
        first = int(start)
        looks = bool(edges)
        while first < start + count:
            # No function of its own: too large to be inlined, it would have bundles copied for each group.
            for slot in range(first + lane, start + count, wp.block_dim()):
                i = row_of(pool.row[slot])
                spin = is_spin(pool.row[slot])
                # gap_as_found, written out: called here, too, it would not be inlined, and the stage takes twice as long.
                gap = measure_gap(tree, bodies, shapes, m, rows, state, i)
                gap = leave_by_face(tree, shapes, m, rows, state, gap, i)
                side = wp.where(corner_of(pool.row[slot]) > 0, -1, surface_side(tree, shapes, rows, gap, i))
                touched = touched_at(gap, side)  # an edge stays where it was found, whatever rolls over it
                gap.passed = passed_by(gap)
                gap = touched_now(tree, shapes, m, rows, options, state, gap, i, dt)
                pair = material_of(shapes, rows, options, i, dt)
                store(pool, slot, gap, pair, options, spin)
                note(pool, slot, side, touched, gap.passed, spared_by_spin(m, shapes, rows, gap, options, i, dt))
                pool.body_a[slot] = shapes.body[rows.shape0[i]]
                pool.spin_of[slot] = -1
                if spin:
                    pool.spin_of[slot] = slot - 1  # a contact comes right before its spin
                else:
                    pool.bias[slot] = pool.bias[slot] + belt_velocity(rows, i, gap.normal)
            sync()
            first = start + count
            if wp.static(edges):
                if looks:
                    looks = False
                    left = pass_over_edges(tree, bodies, shapes, m, arrivals, pool, rows, state, start, count, lane, dt)
                    if left < count:  # what moved up is written once more
                        first = first_passed_over(pool, start)
                        count = left
                        sync()
        awake = wp.float64(0.0)
        for slot in range(start + lane, start + count, wp.block_dim()):
            pool.phi0[slot] += stored_spare(pool, slot)  # edges are told by how far apart surfaces are now
            if not is_asleep(arrivals, row_of(pool.row[slot])):
                awake += wp.float64(1.0)
        taking_part = int(total(awake))
        if lane == 0:
            pool.group_count[g] = count
            share_contacts(tree, arrivals, pool, clusters, g, count, taking_part)

    return fill_contacts


@wp.kernel
def leave_contacts(tree: Tree, pool: ContactPool, clusters: Clusters):
    """Empty the pool in a step without contacts; one block per group."""
    block, lane = wp.tid()
    g = tree.first_group + block
    if lane == 0:
        pool.group_count[g] = 0
        clear_clusters(tree, clusters, g)
