"""Rows of routed tendons: ropes that pull, pass over guides and slip there as far as capstan friction lets them (F 2.15).

At the start of a step every span has a stretch, as if nothing had slipped in the last one. Material then passes the guides until
no tension is more than ``exp(mu angle)`` times its neighbour. Where it may go on slipping, the spans on both sides are one spring
in this step, and friction adds to the pull of its spans up to what it took at the start; elsewhere a guide holds the tendon.
"""

import warp as wp

from ..coupling_bundles import CouplingTable, Routes
from ..runtime.packed import pack_couplers, pack_motion, pack_problem, pack_tree
from ..workspace import CouplerPool, Joints, Motion, Problem, Tree
from .axis_laws import STIFFEST, UNBOUNDED, Axis, JointInput, JointOptions, row_law, stop_within
from .clamped_linear import RIGID, near_rigid
from .coupler_pool import ROWS, add_motion, axis_of_row, clear_rest, merge_terms, open_row, settle_row
from .coupling_table import ROUTE, is_enabled
from .route_geometry import ANCHOR, Span, read_guide, wrap_angle
from .tendons import along_the_length

wp.set_module_options({"enable_backward": False})

HOLDS = wp.constant(wp.float64(20.0))
"""``mu angle`` from which nothing slips: Newton's number, a ratio of tensions of 5e8."""
ON_THE_CONE = wp.constant(wp.float64(1.0 + 1.0e-6))
"""How nearly a ratio of tensions is the largest where the tendon slips."""
BEYOND = wp.constant(wp.float64(1.0 + 1.0e-9))
"""Beyond what ratio of the largest one a tendon begins to slip."""
SWEEPS = wp.constant(64)
LEAST_GIVE = wp.constant(wp.float64(1.0e-12))
"""Compliance [m/N] of spans that are rigid and that nothing moves: how they share a stretch."""
RUBS = wp.constant(wp.float64(1.0e-6))
"""``sigma`` of friction at guides: a rope may slip as slowly as a load on it grows."""
READABLE = wp.constant(wp.float64(5.0e-7))
"""Square of a time [s^2]: a span that rubs gives at least so much times its inverse mass. Friction takes the tension from the
stretch, which is read from lengths that states keep in float32; a weight then stretches a rope by 5 um."""


@wp.struct
class Spring:
    """Spans between which material passes freely, as one spring."""

    stretch: wp.float64  # [m]
    compliance: wp.float64  # [m/N]
    delay: wp.float64  # [m s/N] compliance times damping over stiffness, summed over the spans
    give: wp.float64  # [m/N] compliance as far as the step resolves it
    most: wp.float64  # leverage


@wp.func
def link_of(tree: Tree, routes: Routes, g: int):
    """The link that a guide is on, or -1."""
    link = int(-1)
    if routes.body[g] >= 0:
        link = tree.bodies[routes.body[g]].link
    return link


@wp.func
def add_span(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    routes: Routes,
    row: int,
    g: int,
    s: int,
    share: wp.float64,
):
    """Add the rate of a span's length, were its ends fixed on their bodies, to a row; returns its leverage."""
    kept = pool.support[row]
    a = link_of(tree, routes, g)
    b = link_of(tree, routes, routes.next_guide[s])
    leverage = add_motion(tree, m, pool, problem, row, a, b, share * routes.F[s], routes.last[s])
    merge_terms(pool, row, kept)
    return leverage.most


@wp.func
def beta_of(options: JointOptions, compliance: wp.float64):
    """How stiff a spring may be at most: one that is given as far as rounding allows."""
    return wp.where(compliance > wp.float64(0.0), STIFFEST, options.coupling_beta)


@wp.func
def compliance_of(routes: Routes, g: int, s: int):
    """Compliance of a span [m/N]; one that passes a roller by has that of the next as well."""
    compliance = wp.float64(routes.compliance[s])
    if routes.next_guide[s] == g + 2:
        compliance += wp.float64(routes.compliance[s + 1])
    return compliance


@wp.func
def delay_of(routes: Routes, g: int, s: int, compliance: wp.float64, dt: wp.float64):
    """Damping over stiffness [s]; a rope that does not stretch takes back half of its error in a step."""
    if compliance == wp.float64(0.0):
        return dt
    own = wp.float64(routes.compliance[s])
    delay = own * own * wp.float64(routes.damping[s])
    if routes.next_guide[s] == g + 2:
        own = wp.float64(routes.compliance[s + 1])
        delay += own * own * wp.float64(routes.damping[s + 1])
    return delay / compliance


@wp.func
def least_property(routes: Routes, g: int, s: int):
    """The least of what may not be negative; no number, if some of it is none."""
    to = routes.next_guide[s]
    least = wp.min(wp.min(routes.mu[g], routes.mu[to]), wp.min(routes.compliance[s], routes.damping[s]))
    total = routes.mu[g] + routes.mu[to] + routes.compliance[s] + routes.damping[s]
    if to == g + 2:
        least = wp.min(least, wp.min(routes.compliance[s + 1], routes.damping[s + 1]))
        total += routes.compliance[s + 1] + routes.damping[s + 1]
    return least + 0.0 * total


@wp.func
def measure_span(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    routes: Routes,
    row: int,
    g: int,
    s: int,
    rubs: bool,
    options: JointOptions,
    dt: wp.float64,
):
    """How far a span gives, and how late; ``row`` is a free slot to work in."""
    open_row(pool, row)
    most = add_span(tree, m, pool, problem, routes, row, g, s, wp.float64(1.0))
    axis = axis_of_row(tree, pool, problem, row, most)
    compliance = compliance_of(routes, g, s)
    if not (least_property(routes, g, s) >= 0.0):
        compliance = wp.float64(wp.nan)  # so that it is counted
    delay = delay_of(routes, g, s, compliance, dt)
    if rubs and compliance < READABLE * axis.w:
        compliance = READABLE * axis.w
    routes.softness[s] = compliance
    routes.delay[s] = delay
    least = near_rigid(beta_of(options, compliance), axis.w) * dt * (dt + delay)
    routes.give[s] = wp.max(wp.max(compliance, least), LEAST_GIVE)


@wp.func
def ratio_at(tree: Tree, m: Motion, routes: Routes, g: int, s: int):
    """Largest ratio of the tensions of a span and the next at the guide between; 0 where the guide holds the tendon."""
    to = routes.next_guide[s]
    ratio = wp.float64(0.0)
    if routes.kind[to] != ANCHOR:
        after = s + to - g
        span = Span()
        span.first = routes.first[s]
        span.last = routes.last[s]
        following = Span()
        following.first = routes.first[after]
        following.last = routes.last[after]
        exponent = wp.float64(routes.mu[to]) * wrap_angle(read_guide(tree, m, routes, to), span, following)
        if not (exponent >= HOLDS):
            ratio = wp.exp(exponent)
    return ratio


@wp.func
def tension(routes: Routes, s: int):
    """Pull of a span's stretch [N]."""
    return wp.max(routes.stretch[s], wp.float64(0.0)) / routes.give[s]


@wp.func
def next_share(routes: Routes, s: int):
    """The tension of the next span beside that of one, where the tendon slips at the guide between them."""
    share = routes.ratio[s]
    if routes.slipping[s] == 1:
        share = wp.float64(1.0) / share
    return share


@wp.func
def settle_run(routes: Routes, first: int, last: int, t: int):
    """Let material pass the guides from a span on where the tendon slips, until tensions have the ratios of that.

    Returns where the next run begins.
    """
    total = wp.float64(0.0)
    give = wp.float64(0.0)
    share = wp.float64(1.0)
    s = int(first)
    on = bool(True)
    while on:
        on = False
        total += routes.loose[s]
        give += share * routes.give[s]
        if routes.next_guide[s] - t < last:
            if routes.slipping[s] != 0:
                share *= next_share(routes, s)
                s = routes.next_guide[s] - t
                on = True
    end = routes.next_guide[s] - t
    pull = total / give  # negative where more hangs slack than is stretched
    share = wp.float64(1.0)
    s = int(first)
    while s < end:
        routes.stretch[s] = share * routes.give[s] * pull
        share *= next_share(routes, s)
        s = routes.next_guide[s] - t
    return end


@wp.func
def begin_to_slip(routes: Routes, first: int, last: int, t: int):
    """Note at which more guides the ratio of tensions is one that friction does not hold; returns at how many."""
    more = int(0)
    for s in range(first, last):
        to = routes.next_guide[s] - t
        if to >= 0 and to < last:
            if routes.ratio[s] > wp.float64(0.0) and routes.slipping[s] == 0:
                before = tension(routes, s)
                after = tension(routes, to)
                if before > BEYOND * routes.ratio[s] * after:
                    routes.slipping[s] = 1
                    more += 1
                elif after > BEYOND * routes.ratio[s] * before:
                    routes.slipping[s] = -1
                    more += 1
    return more


@wp.func
def hold_what_passes_back(routes: Routes, first: int, last: int, t: int):
    """Let guides hold that material has passed the other way than the tendon slips there; returns how many."""
    held = int(0)
    entered = wp.float64(0.0)
    s = int(first)
    while s < last:
        entered += routes.loose[s] - routes.stretch[s]
        if routes.next_guide[s] - t < last:
            if routes.slipping[s] == 0:
                entered = wp.float64(0.0)
            elif routes.stretch[s] > wp.float64(0.0) and entered * wp.float64(routes.slipping[s]) < wp.float64(0.0):
                routes.slipping[s] = 0
                held += 1
        s = routes.next_guide[s] - t
    return held


@wp.func
def settle_material(routes: Routes, begin: int, end: int, t: int):
    """Let material pass the guides until every ratio of tensions is one that friction holds, and none passes against it."""
    first = begin - t
    last = end - 1 - t
    for s in range(first, last):
        routes.loose[s] = routes.stretch[s]
        routes.slipping[s] = 0
    sweeps = int(SWEEPS)
    for _sweep in range(sweeps):
        changes = begin_to_slip(routes, first, last, t)
        if changes == 0:
            changes = hold_what_passes_back(routes, first, last, t)
        if changes == 0:
            break
        s = int(first)
        while s < last:
            s = settle_run(routes, s, last, t)


@wp.func
def slips(routes: Routes, a: int, b: int, ratio: wp.float64):
    """Whether a tendon may slip at the guide between two spans: where friction can hold no more."""
    if ratio == wp.float64(0.0):
        return False
    T_a = tension(routes, a)
    T_b = tension(routes, b)
    return ON_THE_CONE * wp.max(T_a, T_b) >= ratio * wp.min(T_a, T_b)


@wp.func
def taut_law(options: JointOptions, axis: Axis, spring: Spring, dt: wp.float64):
    """A rope's pull at the end of the step."""
    beta = beta_of(options, spring.compliance)
    k = RIGID
    delay = dt
    if spring.compliance != wp.float64(0.0):
        k = wp.float64(1.0) / spring.compliance
        delay = spring.delay / spring.compliance
    return stop_within(options, axis, k, delay, beta, -spring.stretch, wp.float64(-1.0), dt)


@wp.func
def add_to_spring(spring: Spring, routes: Routes, s: int, most: wp.float64):
    """A spring with one more span in it."""
    out = Spring()
    out.stretch = spring.stretch + routes.stretch[s]
    out.compliance = spring.compliance + routes.softness[s]
    out.delay = spring.delay + routes.softness[s] * routes.delay[s]
    out.give = spring.give + routes.give[s]
    out.most = spring.most + most
    return out


@wp.func
def least_tension(routes: Routes, first: int, end: int):
    """The least tension of the spans of a row."""
    least = UNBOUNDED
    for s in range(first, end):
        if routes.next_guide[s] >= 0:
            least = wp.min(least, tension(routes, s))
    return least


@wp.func
def place_drag(
    tree: Tree,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    routes: Routes,
    row: int,
    t: int,
    first: int,
    end: int,
    pull: wp.float64,
    dt: wp.float64,
):
    """Friction at the guides within a spring: what each span pulls more than the one that pulls least, at most as at the start.

    It resists what passes, so that nothing drives that on where it turns back within the step, and no span pushes.
    """
    open_row(pool, row)
    most = wp.float64(0.0)
    for s in range(first, end):
        if routes.next_guide[s] >= 0:
            more = tension(routes, s) / pull - wp.float64(1.0)
            routes.drag[s] = -more
            most += add_span(tree, m, pool, problem, routes, row, s + t, s, -more)
    if pool.support[row] == 0:
        for s in range(first, end):
            routes.drag[s] = wp.float64(0.0)
        return row
    axis = axis_of_row(tree, pool, problem, row, most)
    rubbing = row_law(wp.float64(1.0), wp.float64(0.0), RUBS * axis.w, wp.float64(0.0), dt * pull)
    return settle_row(tree, pool, problem, row, rubbing, most)


@wp.func
def route_rows(
    tree: Tree,
    routes: Routes,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    row: int,
    t: int,
    step: JointInput,
    dt: wp.float64,
):
    """A row for each piece of a tendon within which it may slip, and one for the friction there."""
    begin = routes.start[t]
    end = routes.start[t + 1]
    ratio = wp.float64(0.0)
    for g in range(begin, end - 1):
        s = g - t
        if routes.next_guide[s] >= 0:
            before = ratio
            ratio = wp.float64(0.0)
            if routes.next_guide[s] < end - 1:
                ratio = ratio_at(tree, m, routes, g, s)
            routes.ratio[s] = ratio
            rubs = wp.max(before, ratio) > wp.float64(1.0)
            measure_span(tree, m, pool, problem, routes, row, g, s, rubs, step.options, dt)
    settle_material(routes, begin, end, t)
    g = int(begin)
    while g < end - 1:
        first = g - t
        spring = Spring()
        drags = int(0)
        open_row(pool, row)
        on = int(1)
        while on == 1:
            s = g - t
            most = add_span(tree, m, pool, problem, routes, row, g, s, wp.float64(1.0))
            spring = add_to_spring(spring, routes, s, most)
            g = routes.next_guide[s]
            on = 0
            if g < end - 1:
                if slips(routes, s, g - t, routes.ratio[s]):
                    on = 1
                    if routes.ratio[s] > wp.float64(1.0):
                        drags = 1
        axis = axis_of_row(tree, pool, problem, row, spring.most)
        least = wp.float64(0.0)
        if drags == 1:
            least = least_tension(routes, first, g - t)
        if least > wp.float64(0.0):
            spring.stretch = least * spring.give  # the rest is what friction adds
        law = taut_law(step.options, axis, spring, dt)
        for s in range(first, g - t):
            routes.drag[s] = wp.float64(0.0)
            routes.row[s] = row
        if law.sign != wp.float64(0.0) and axis.w > wp.float64(0.0):
            row = settle_row(tree, pool, problem, row, along_the_length(law), spring.most)
            if least > wp.float64(0.0):
                row = place_drag(tree, m, pool, problem, routes, row, t, first, g - t, least, dt)
        else:
            for s in range(first, g - t):
                routes.row[s] = -1
    return row


@wp.func
def span_impulse(routes: Routes, pool: CouplerPool, s: int):
    """Impulse by which a span that has a row parts its ends [N s]; negative, for it pulls."""
    row = routes.row[s]
    gamma = pool.gamma[row]
    if routes.drag[s] != wp.float64(0.0):
        if pool.support[row + 1] > 0:
            gamma += routes.drag[s] * pool.gamma[row + 1]
    return gamma


@wp.func
def route_impulse(routes: Routes, pool: CouplerPool, t: int, body: int):
    """What a tendon gave one body in this step, about the world origin."""
    total = wp.spatial_vectord()
    for g in range(routes.start[t], routes.start[t + 1] - 1):
        s = g - t
        to = routes.next_guide[s]
        row = routes.row[s]
        if to >= 0 and row >= 0 and pool.support[row] > 0:
            gamma = span_impulse(routes, pool, s)
            if routes.body[g] == body:
                total = total - gamma * routes.F[s]
            if routes.body[to] == body:
                total = total + gamma * routes.F[s]
    return total


@wp.func
def settle_by_compliance(tree: Tree, m: Motion, routes: Routes, t: int):
    """Let material pass the guides of a tendon that no row has looked at, by what its spans are said to give."""
    begin = routes.start[t]
    end = routes.start[t + 1]
    for g in range(begin, end - 1):
        s = g - t
        if routes.next_guide[s] >= 0:
            routes.give[s] = wp.max(compliance_of(routes, g, s), LEAST_GIVE)
            routes.ratio[s] = wp.float64(0.0)
            if routes.next_guide[s] < end - 1:
                routes.ratio[s] = ratio_at(tree, m, routes, g, s)
    settle_material(routes, begin, end, t)


@wp.func
def route_energy(tree: Tree, m: Motion, routes: Routes, t: int):
    """What the spans of a tendon hold [J] once material has passed its guides."""
    settle_by_compliance(tree, m, routes, t)
    energy = wp.float64(0.0)
    for g in range(routes.start[t], routes.start[t + 1] - 1):
        s = g - t
        if routes.next_guide[s] >= 0:
            compliance = compliance_of(routes, g, s)
            stretch = wp.max(routes.stretch[s], wp.float64(0.0))
            if compliance > wp.float64(0.0):
                energy += wp.float64(0.5) * stretch * stretch / compliance
    return energy


@wp.kernel
def assemble_routes(
    tree: Tree,
    joints: Joints,
    table: CouplingTable,
    m: Motion,
    pool: CouplerPool,
    problem: Problem,
    step: JointInput,
    dt: wp.float64,
):
    """Fill the row slots of routed tendons; unused ones are empty. One block per group, whose lanes share them."""
    block, lane = wp.tid()
    g = tree.first_group + block
    pack_tree(tree)
    pack_motion(m)
    pack_couplers(pool)
    pack_problem(problem)
    for c in range(table.group_start[g] + lane, table.group_start[g + 1], wp.block_dim()):
        if table.kind[c] == ROUTE and table.axis[c] == 0 and is_enabled(table, c):
            row = route_rows(tree, table.routes, m, pool, problem, int(ROWS * c), table.source_row[c], step, dt)
            clear_rest(pool, c + table.coordinates[c] - 1, row)
