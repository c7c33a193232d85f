"""Newton's impact law: surfaces with restitution ``e`` part at ``e`` times the speed at which they met (F 2.12).

Surfaces that a step finds apart meet first, and part next: the velocity that closes the gap moves the bodies, the one
after the impact is what they end the step with. One velocity for both would turn bodies around before they touch. Which
surfaces meet is known after the first: impacts elsewhere may bring together what went apart.
"""

import warp as wp

from ..workspace import ContactPool

wp.set_module_options({"enable_backward": False})


NEVER = wp.constant(wp.float64(1.0e30))
"""A separation velocity [m/s], or missing force [N], that keeps a contact open."""
NO_REBOUND = wp.constant(wp.float64(-1.0e30))
"""Rebound [m/s] of a contact whose compliance alone acts."""


@wp.func
def aim_at(pool: ContactPool, slot: int, target: wp.float64):
    """Make ``target`` the separation velocity [m/s] that a contact asks for, with the compliance it has."""
    pool.v_hat[slot] = target
    normal = pool.normal_law[slot]
    normal.fe0 = normal.dt * normal.k * target
    pool.normal_law[slot] = normal


@wp.func
def let_go(pool: ContactPool, slot: int):
    """Leave a contact out of what follows."""
    aim_at(pool, slot, -NEVER)
    pool.n0[slot] = wp.float64(0.0)


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
    e: wp.float64,
    R_nr: wp.float64,
    vn0: wp.float64,
    gained: wp.float64,
    lead: wp.float64,
    gravity: wp.float64,
    dt: wp.float64,
):
    """Let a contact between moving surfaces bounce if they meet within the step, as rigid as the step resolves.

    What ``gravity`` or any known force (``gained``) gives in two steps [m/s] is rest, not an impact.
    """
    phi0 = pool.phi0[slot]
    resting = wp.float64(2.0) * wp.max(dt * gravity, gained)
    # Deeper than two steps of its approach it did not just arrive: it is pressed there, and compliance alone brings it out.
    depth = -phi0 / (wp.float64(2.0) * dt)
    arrives = vn0 < -resting and depth <= -vn0
    leaves = vn0 > resting and depth * e <= vn0
    if not arrives and not leaves:
        return
    # Should others throw them together that part, they may close as fast: the next step finds that impact.
    target = -e * vn0
    if phi0 > wp.float64(0.0):
        pool.rebound[slot] = target
        if arrives:
            pool.rebound[slot] = rebound_speed(e, -vn0, gained, phi0, lead, dt)
        target = -phi0 / dt  # first they meet
    elif leaves:
        pool.rebound[slot] = target
        target = wp.min(pool.v_hat[slot], vn0)  # still inside: compliance must not add to the speed they leave with
    else:
        pool.rebound[slot] = (
            target  # at once; whom that throws back at something parts from it in the second minimisation
        )
    if arrives or phi0 > wp.float64(0.0):
        pool.R_n[slot] = R_nr
    normal = pool.normal_law[slot]
    normal.k = wp.float64(1.0) / (dt * dt * pool.R_n[slot])
    normal.d = wp.float64(0.0)
    normal.parting = wp.float64(0.0)
    pool.normal_law[slot] = normal
    aim_at(pool, slot, target)
