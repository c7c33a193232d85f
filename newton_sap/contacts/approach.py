"""How fast two surfaces approach, and what else may make them: which contacts may close within a step."""

import warp as wp

from ..constraints.clamped_linear import RIGID
from ..constraints.hunt_crossley import recovering
from ..multibody.spatial import to_vec3d, velocity_at
from ..workspace import Motion, Tree
from .gaps import Gap, Side
from .materials import ContactOptions, Material
from .rows import ContactRows

wp.set_module_options({"enable_backward": False})

UNKNOWN_SPEED = wp.constant(wp.float64(1.0e30))
"""More [m/s] than anything lacks."""


@wp.func
def belt_velocity(rows: ContactRows, i: int, n: wp.vec3d):
    """Velocity [m/s] along the surface that a conveyor adds."""
    belt = wp.vec3d()
    if rows.surface_velocity.shape[0] > 0:
        belt = to_vec3d(rows.surface_velocity[i])
        belt = belt - n * wp.dot(n, belt)
    return belt


@wp.func
def velocity_before(m: Motion, side: Side):
    """Velocity of one side at the start of the step."""
    if side.link < 0:
        return side.prescribed
    return m.velocity[side.link]


@wp.func
def gained_by(m: Motion, side: Side):
    """What free motion adds to it."""
    if side.link < 0:
        return wp.spatial_vectord()
    return m.gained[side.link]


@wp.func
def lacking_speed(m: Motion, gap: Gap, belt: wp.vec3d, mu: wp.float64, dt: wp.float64):
    """How much faster [m/s] two surfaces would have to be to meet within the step, at twice the speed that they have by themselves."""
    middle = wp.float64(0.5) * (gap.a.surface + gap.b.surface)
    before = velocity_before(m, gap.b) - velocity_before(m, gap.a)
    at_v0 = velocity_at(before, middle) + belt
    at_v_star = at_v0 + velocity_at(gained_by(m, gap.b) - gained_by(m, gap.a), middle)
    speed = wp.max(wp.length(at_v0), wp.length(at_v_star))
    return gap.phi0 / (dt * (wp.float64(1.0) + mu)) - wp.float64(2.0) * speed


@wp.func
def lent_speed(tree: Tree, m: Motion, group: int):
    """How much speed [m/s] drives may give two surfaces of a group besides, or a third body hand on, which gives (1 + e) of its own at
    most; what overlaps push apart is not known yet."""
    if tree.group_tied[group] == 1:
        return UNKNOWN_SPEED  # what a coupling may do to a body's speed is not known before the solve
    fastest = m.group_speed[group]
    if tree.global_group >= 0:
        fastest = wp.max(fastest, m.group_speed[tree.global_group])
    return (wp.float64(1.0) + wp.float64(tree.restitution[0])) * fastest


@wp.func
def overlap_speed(gap: Gap, pair: Material, options: ContactOptions, dt: wp.float64):
    """How fast [m/s] a contact may push apart what overlaps: at this speed its law's normal force is zero."""
    if options.hunt_crossley == 0:
        return -gap.phi0 / (dt + pair.relaxation_time)
    speed = -gap.phi0 / dt
    d = pair.dissipation
    if pair.stiffness == RIGID:
        d = recovering(d, -gap.phi0, dt)
    if d * speed > wp.float64(1.0):
        speed = wp.float64(1.0) / d
    return speed


@wp.func
def handed_speed(gap: Gap):
    """How fast [m/s] a body that no joint moves comes, which no group counts among its own: it may hand on its speed."""
    speed = wp.float64(0.0)
    if gap.a.link == -1:
        speed = wp.length(velocity_at(gap.a.prescribed, gap.a.surface))
    if gap.b.link == -1:
        speed = wp.max(speed, wp.length(velocity_at(gap.b.prescribed, gap.b.surface)))
    return speed
