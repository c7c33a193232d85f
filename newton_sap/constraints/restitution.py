"""Newton's impact law: surfaces with restitution ``e`` part at ``e`` times the speed at which they met (F 2.12).

Surfaces that a step finds apart meet first, and part next: the velocity that closes the gap moves the bodies, the one
after the impact is what they end the step with. One velocity for both would turn bodies around before they touch.
"""

import warp as wp

from ..workspace import ContactPool

wp.set_module_options({"enable_backward": False})


@wp.func
def aim_at(pool: ContactPool, slot: int, target: wp.float64):
    """Make ``target`` the separation velocity [m/s] that a contact asks for, with the compliance it has."""
    pool.v_hat[slot] = target
    normal = pool.normal_law[slot]
    normal.fe0 = normal.dt * normal.k * target
    pool.normal_law[slot] = normal


@wp.func
def rebound_speed(
    e: wp.float64, speed: wp.float64, gained: wp.float64, phi0: wp.float64, lead: wp.float64, dt: wp.float64
):
    """Speed at which surfaces part that a step finds apart.

    ``gained`` is what free motion adds to the approach within the step. Positions follow velocities that are ``lead`` steps
    ahead on a parabola, which arrives at the surface with ``impact`` and leaves it with e times that.
    """
    ahead = lead * gained
    impact = wp.sqrt(wp.max((speed + ahead) * (speed + ahead) + wp.float64(2.0) * gained * phi0 / dt, wp.float64(0.0)))
    return e * impact + ahead


@wp.func
def apply_restitution(
    pool: ContactPool,
    slot: int,
    R_nr: wp.float64,
    vn0: wp.float64,
    gained: wp.float64,
    lead: wp.float64,
    gravity: wp.float64,
    dt: wp.float64,
):
    """Let a contact that closes within the step bounce, as rigid as the step resolves.

    What ``gravity`` or any known force (``gained``) gives in two steps [m/s] is rest, not an impact.
    """
    e = pool.rebound[slot]
    phi0 = pool.phi0[slot]
    pool.rebound[slot] = wp.float64(0.0)
    resting = wp.float64(2.0) * wp.max(dt * gravity, gained)
    bounces = vn0 < -resting and phi0 + dt * vn0 <= wp.float64(0.0)
    leaves = vn0 > resting
    # Deeper than two steps of its approach it did not just arrive: it is pressed there, and compliance alone brings it out.
    depth = -phi0 / (wp.float64(2.0) * dt)
    bounces = bounces and depth <= -vn0
    leaves = leaves and depth * e <= vn0
    if not bounces and not leaves:
        return
    # Still inside after the bounce: compliance must not add to the speed it leaves with.
    target = wp.min(pool.v_hat[slot], vn0)
    if bounces:
        pool.R_n[slot] = R_nr
        target = -e * vn0
        if phi0 > wp.float64(0.0):
            pool.rebound[slot] = rebound_speed(e, -vn0, gained, phi0, lead, dt)
            target = -phi0 / dt
    normal = pool.normal_law[slot]
    normal.k = wp.float64(1.0) / (dt * dt * pool.R_n[slot])
    normal.d = wp.float64(0.0)
    pool.normal_law[slot] = normal
    aim_at(pool, slot, target)
