"""Damping of segments of cables that are too light for the tension through them (F 2.14), as of links of trees (F 1.1).

A tension ``T`` holds a segment of length ``l`` straight as a spring of ``T l`` per radian would, and a step knows it at its start.
"""

import warp as wp

from ..multibody.tension import LONGEST, WAVES
from ..workspace import Motion
from .coupler_pool import Anchor

wp.set_module_options({"enable_backward": False})


@wp.func
def carried_inertia(m: Motion, link: int, e: wp.vec3d):
    """Mean moment of inertia about axes through the COM of what a link carries, across a unit vector [kg m^2]."""
    com = m.moment[link] / m.mass[link]
    I = m.inertia[link]
    along = wp.dot(e, I * e) - m.mass[link] * (wp.length_sq(com) - wp.dot(e, com) * wp.dot(e, com))
    whole = wp.trace(I) - wp.float64(2.0) * m.mass[link] * wp.length_sq(com)
    return wp.float64(0.5) * (whole - along)


@wp.func
def asked_by(m: Motion, end: Anchor, r: wp.vec3d, pull: wp.vec3d, links: wp.float64):
    """Inertia [kg m^2] that a link lacks, being pulled at its end by an impulse times ``dt``; ``r`` reaches from its other end.

    The second number is how many times as much waves need besides, which the first holds, too.
    """
    asked = wp.float64(0.0)
    waves = wp.float64(0.0)
    if end.moves == 1:
        needed = wp.dot(pull, r)
        if needed > wp.float64(0.0):
            inertia = carried_inertia(m, end.link, wp.normalize(r))
            waves = wp.min(WAVES * needed / inertia, LONGEST * links * links)
            asked = (needed - inertia) * (wp.float64(1.0) + waves)
    return asked, waves


@wp.func
def length_of(m: Motion, end: Anchor):
    """A segment from its other end, as far from its COM as this one."""
    r = wp.vec3d()
    if end.moves == 1:
        r = wp.float64(2.0) * (end.position - m.com[end.link])
    return r


@wp.func
def tension_damping(m: Motion, a: Anchor, b: Anchor, pull: wp.vec3d, links: int, dt: wp.float64):
    """Damping [N m s] of the bends of a rod whose first body is pulled by a force; zero where none is asked for."""
    n = wp.float64(links)
    asked_A, _waves_A = asked_by(m, a, length_of(m, a), dt * dt * pull, n)
    asked_B, _waves_B = asked_by(m, b, length_of(m, b), -dt * dt * pull, n)
    return wp.max(wp.max(asked_A, asked_B), wp.float64(0.0)) / dt
