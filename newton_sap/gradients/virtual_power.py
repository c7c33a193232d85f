"""The virtual power ``u' m(v)`` of a step's momentum balance, link by link, dof by dof and contact by contact.

``m = A v - r - J' gamma`` with the momentum ``r`` after free motion. A virtual velocity ``u`` moves every body, so the
power of each part is a product of the body's own momentum, or a contact's own impulse, with how ``u`` moves it: no
mass matrix and no Jacobian is needed. The parts are those of the step itself.
"""

from functools import cache

import warp as wp

from ..constraints.clamped_linear import clamped_linear
from ..constraints.hunt_crossley import normal_impulse
from ..constraints.joint_rows import dof_rows
from ..constraints.lagged import bound_friction
from ..constraints.response import impulse, tangential
from ..contacts.approach import belt_velocity
from ..contacts.compliance import regularize_contact
from ..contacts.corners import to_corner
from ..contacts.filling import material_of, prescribed_slip, store
from ..contacts.found import gap_as_found, touched_now
from ..contacts.gaps import Gap, as_constant, spared_by_spin
from ..contacts.rows import corner_of, row_of
from ..multibody.efforts import joint_effort
from ..multibody.free_motion import own_momentum
from ..multibody.paths import free_velocity, link_velocity
from ..multibody.spatial import inertia_times, velocity_at
from ..workspace import ROWS_PER_DOF, ContactPool, Motion, RowPool, Tree
from .free_change import impulse_at_start, impulse_of_change
from .scene import Scene, inertia_of_dof
from .sensitivity import Sensitivity


@wp.kernel
def link_power(scene: Scene, m: Motion, change: Motion, s: Sensitivity):
    """u . (I V - P): what a body's momentum at the end lacks of its momentum after free motion."""
    link = wp.tid()
    tree = scene.tree
    V = link_velocity(tree, m, s.velocity, link)
    IV = inertia_times(m.mass[link], m.moment[link], m.inertia[link], V)
    IV0 = own_momentum(m, link)
    P = IV0 + impulse_at_start(scene, m, link, IV0) + impulse_of_change(scene, m, change, 1, link)
    U = free_velocity(tree, m, s.virtual_velocity, link)
    wp.atomic_add(s.power, tree.trees[tree.links[link].tree].group, wp.dot(U, IV - P))


@wp.func
def dof_row_impulse(rows: RowPool, r: int, v: wp.float64):
    """What one scalar row gives its dof."""
    law = rows.law[r]
    return law.sign * clamped_linear(law.sign * v, law).gamma


@wp.kernel
def dof_power(scene: Scene, m: Motion, rows: RowPool, s: Sensitivity):
    """u (a (v - v0) + (dt d + dt^2 k) v - dt tau - gamma) of a dof with all its rows."""
    dof = wp.tid()
    tree = scene.tree
    dt = scene.step.dt
    link = tree.dofs[dof].link
    t = tree.links[link].tree
    if dof - tree.trees[t].dof_start < m.locked[t]:
        return
    v = s.velocity[dof]
    armature, implicit = inertia_of_dof(scene, m, dof)
    i = dof - tree.links[link].dof_start
    effort = joint_effort(tree, scene.joints, scene.efforts, scene.before.joint_q, link, i, m.v0[dof])
    balance = armature * (v - m.v0[dof]) + implicit * v - dt * effort
    first = ROWS_PER_DOF * dof
    last = first + ROWS_PER_DOF - 1
    at = dof_rows(tree, scene.joints, m, rows, scene.step.joints, link, dof, wp.vec2i(first, last), dt)
    for r in range(first, at[0]):
        balance -= dof_row_impulse(rows, r, v)
    for r in range(at[1] + 1, last + 1):  # some may have been woken
        balance -= dof_row_impulse(rows, r, v)
    wp.atomic_add(s.power, tree.trees[t].group, s.virtual_velocity[dof] * balance)


@wp.struct
class Touch:
    """Two links of a contact and where they touch."""

    a: int
    b: int
    point_a: wp.vec3d
    point_b: wp.vec3d


@wp.func
def relative_velocity(tree: Tree, m: Motion, touch: Touch, rates: wp.array[wp.float64]):
    """Velocity of B relative to A at a contact, by the rates of free dofs."""
    total = wp.vec3d()
    if touch.b >= 0:
        total += velocity_at(free_velocity(tree, m, rates, touch.b), touch.point_b)
    if touch.a >= 0:
        total -= velocity_at(free_velocity(tree, m, rates, touch.a), touch.point_a)
    return total


@wp.func
def followed(gap: Gap, point: wp.vec3d):
    """A contact's point; where one body alone can move, it goes with that one along the surface of the other."""
    moving = point
    if gap.a.link < 0:
        moving = gap.b.surface
    elif gap.b.link < 0:
        moving = gap.a.surface
    lead = moving - point
    return point + tangential(gap.normal, lead - as_constant(lead))


@wp.func
def touch_of(gap: Gap, pool: ContactPool, slot: int):
    """Where a contact that has been stored in a slot touches."""
    touch = Touch()
    touch.a = gap.a.link
    touch.b = gap.b.link
    touch.point_a = followed(gap, pool.point_a[slot])
    touch.point_b = followed(gap, pool.point_b[slot])
    return touch


@cache
def contact_power(evaluate_contact):
    """Return the kernel of contacts under a law."""

    @wp.func
    def power_of(scene: Scene, m: Motion, pool: ContactPool, s: Sensitivity, slot: int):
        """-gamma . U of one contact, everything that it depends on taken anew from poses, velocities and materials."""
        tree = scene.tree
        dt = scene.step.dt
        options = scene.step.contacts
        i = row_of(pool.row[slot])
        corner = corner_of(pool.row[slot])
        gap = gap_as_found(tree, scene.bodies, scene.shapes, m, scene.rows, scene.before, i)
        if corner > 0:
            gap = to_corner(tree, scene.bodies, scene.shapes, m, scene.rows, scene.before, gap, i, corner)
        else:
            gap = touched_now(tree, scene.shapes, m, scene.rows, options, scene.before, gap, i, dt)
        gap.phi0 = gap.phi0 + spared_by_spin(m, scene.shapes, scene.rows, gap, options, i, dt)
        store(pool, slot, gap, material_of(scene.shapes, scene.rows, options, i, dt), options, False)
        touch = touch_of(gap, pool, slot)
        bias = prescribed_slip(gap, touch.point_a, touch.point_b) + belt_velocity(scene.rows, i, gap.normal)
        vn0 = wp.dot(gap.normal, bias + relative_velocity(tree, m, touch, m.v0))
        n0 = regularize_contact(pool, options, slot, s.weight[slot], vn0, dt)
        vc = bias + relative_velocity(tree, m, touch, s.velocity)
        if s.friction_follows == 1:
            n0 = normal_impulse(pool.normal_law[slot], wp.dot(gap.normal, vc)) + s.lag[slot]
        bound_friction(pool, slot, n0, options.stiction_tolerance, options.stiction_limit)
        vn = wp.dot(gap.normal, vc)
        vt = tangential(gap.normal, vc)
        gamma = impulse(evaluate_contact(pool, slot, vn, wp.dot(vt, vt)), gap.normal, vt)
        return -wp.dot(gamma, relative_velocity(tree, m, touch, s.virtual_velocity))

    @wp.kernel(module="unique")
    def contact_power(scene: Scene, m: Motion, pool: ContactPool, s: Sensitivity):
        """-gamma . U of all contacts of a group."""
        g = wp.tid()
        for slot in range(pool.group_start[g], pool.group_start[g] + pool.group_count[g]):
            wp.atomic_add(s.power, g, power_of(scene, m, pool, s, slot))
            if not (pool.rebound[slot] <= wp.float64(0.0)):
                s.no_gradient[g] = 1

    return contact_power
