"""Cables in NumPy: the strains of a rod joint, and what holds them (F 2.14)."""

from __future__ import annotations

import math

import numpy as np

from .basics import quat_exp, quat_matrix, unit
from .clusters import tied_links
from .convex import STIFFEST, limit_gains
from .tension import LONGEST, WAVES


def twist_about(R, a):
    """Angle of the rotation about an axis that comes closest to a rotation matrix."""
    vee = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return math.atan2(a @ vee, np.trace(R) - a @ R @ a)


def rod_rows(make, pair) -> list:
    """Return a spring and a damper along each strain of a rod."""
    m, dt = pair.m, make.dt
    at_rest = quat_matrix(unit(m.rest_q[m.coords(pair.j)][3:]))
    dofs = np.arange(m.qd_start[pair.j], m.qd_start[pair.j + 1])
    least = tension_damping(pair, dofs, make.chord(pair), dt)
    rows = []
    for i, (now, then) in enumerate(zip(strains(pair), bends_and_twist(at_rest), strict=True)):
        value = now[0] - then
        if i == 5:
            value -= 2.0 * math.pi * round(value / (2.0 * math.pi))
        damping = max(m.target_kd[dofs[i]], least) if i in (3, 4) else m.target_kd[dofs[i]]
        c, d = limit_gains(m.target_ke[dofs[i]], damping, dt, make.weight(now[1]), STIFFEST)
        if dt * c + d > 0.0:
            rows.append(make.row("rod", pair.j, i, now[1], -c * value / (dt * c + d), 1.0 / (dt * (dt * c + d))))
    return rows


def tension_damping(pair, dofs, false, dt):
    """Least damping of bends, without which what is pulled is too light for the step [N m s]."""
    m, kin = pair.m, pair.kin
    pull = pair.R_a @ (m.target_ke[dofs[:3]] * (pair.R_a.T @ (pair.X_b[0] - pair.X_a[0] - false)))
    links, least = tied_links(m, pair.a, pair.b), 0.0
    for body, point, force in ((pair.a, pair.X_a[0], pull), (pair.b, pair.X_b[0], -pull)):
        if body < 0 or not m.unknown[kin.path[body]].any():
            continue
        r = 2.0 * (point - kin.com[body])
        needed = dt * dt * force @ r
        if needed > 0.0:
            inertia = carried_inertia(m, kin, body, r / np.linalg.norm(r))
            waves = min(WAVES * needed / inertia, LONGEST * links**2)
            least = max(least, (needed - inertia) * (1.0 + waves) / dt)
    return least


def carried_inertia(m, kin, body, e):
    """Mean moment of inertia across a unit vector of a body and what hangs on it, about their COM [kg m^2]."""
    carried = [body]
    for j in m.order:
        if int(m.parent[j]) in carried:
            carried.append(int(m.child[j]))
    arms = kin.com[carried] - m.mass[carried] @ kin.com[carried] / m.mass[carried].sum()
    total = 0.0
    for b, x in zip(carried, arms, strict=True):
        R = quat_matrix(kin.quat[b])
        I = R @ m.inertia[b] @ R.T + m.mass[b] * (x @ x * np.eye(3) - np.outer(x, x))
        total += 0.5 * (np.trace(I) - e @ I @ e)
    return total


def strains(pair, h=1.0e-6):
    """Yield the value of each strain, and the Jacobian of its rate, angular ones by central differences."""
    yield from zip(pair.R_a.T @ (pair.X_b[0] - pair.X_a[0]), pair.R_a.T @ pair.linear(pair.X_b[0]), strict=True)

    def turned(rotation):
        return bends_and_twist(pair.R_a.T @ quat_matrix(quat_exp(rotation)) @ pair.R_b)[3:]

    slopes = np.array([(turned(h * e) - turned(-h * e)) / (2.0 * h) for e in np.eye(3)]).T
    yield from zip(turned(np.zeros(3)), slopes @ pair.angular(), strict=True)


def bends_and_twist(R):
    """Strains of a rod whose second anchor has the axes ``R`` as seen from the first, without shear and stretch, shape (6,)."""
    t = R[:, 2]
    bend = 2.0 * np.cross([0.0, 0.0, 1.0], t) / max(1.0 + t[2], 0.01)
    return np.array([0.0, 0.0, 0.0, bend[0], bend[1], twist_about(R, np.array([0.0, 0.0, 1.0]))])
