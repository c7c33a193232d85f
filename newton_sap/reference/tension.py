"""What the reference makes of tension: inertia and damping of joints that hang on links too light for the step (dense, float64)."""

from __future__ import annotations

import numpy as np

from .basics import BALL, FLYING, quat_matrix

WAVES, LONGEST = 1.0 / 48.0, 0.1
"""Of what a link needs over the inertia of the heavier neighbour, and of the square of the number of links: the less is what
joints damp more, for waves along a chain."""
DAMPED, DAMPED_OF_BALLS = 0.1, 0.5
"""Shares of what a link lacks that damp; along the rest momentum is kept."""


def tension_inertia(m, kin, pulls, dt):
    """Return what tension asks of the diagonal of ``A`` beside the bodies, and the share of what is added for it that is inertia.

    Shapes (dofs,), the first in [kg m^2] and 0 where nothing is asked.

    Args:
        m: Snapshot of the model.
        kin: Kinematics at the start of the step.
        pulls: Force that each body asks of its joint to keep to its course, shape (bodies, 3) [N].
        dt: Step [s].
    """
    least, kept, inner = np.zeros(m.dofs), np.zeros(m.dofs), {int(m.child[j]): j for j in m.order}
    pull = pulls.copy()
    for j in reversed(m.order):
        if m.parent[j] >= 0:
            pull[m.parent[j]] += pull[m.child[j]]
    for j in m.order:
        above = _carrier(m, kin, inner, int(m.parent[j]))
        if m.type[j] in FLYING or above < 0 or not m.unknown[kin.path[above]].any():
            continue
        r = pivot_of(m, kin, j) - pivot_of(m, kin, inner[above])
        needed = dt * dt * pull[m.child[j]] @ r
        if needed <= 0.0:
            continue
        e = r / np.linalg.norm(r)
        across = np.eye(3) - np.outer(e, e)
        has, below = (_inertia_across(m, kin, body, across) for body in (above, m.child[j]))
        if needed > has:
            links = (m.root == m.root[j]).sum()
            waves = min(WAVES * needed / max(has, below), LONGEST * links**2)
            for k in range(m.qd_start[j], m.qd_start[j + 1]):
                if kin.angular[k]:
                    swing = 1.0 if m.type[j] == BALL else kin.axis[k] @ across @ kin.axis[k]
                    least[k] = (needed - has) * (1.0 + waves) * swing
                    kept[k] = kept_share(waves, m.type[j] == BALL)
    return least, kept


def kept_share(waves, ball):
    """Return the share of what is added along which momentum is kept."""
    return (1.0 - (DAMPED_OF_BALLS if ball else DAMPED)) / (1.0 + waves)


def _inertia_across(m, kin, body, across):
    """Harmonic mean of the moments of inertia about axes across a line [kg m^2]."""
    R = quat_matrix(kin.quat[body])
    return 2.0 / np.trace(across @ R @ m.inv_inertia[body] @ R.T)


def pivot_of(m, kin, j):
    """Where the child of a joint hangs on it, or its COM if it flies, world [m]."""
    return kin.com[m.child[j]] if m.type[j] in FLYING else kin.to_world(m.child[j], m.X_c[j][0])


def _carrier(m, kin, inner, body):
    """The body from here up that turns by a joint of its own; -1 where there is none."""
    while body >= 0:
        j = inner[body]
        if kin.angular[m.qd_start[j] : m.qd_start[j + 1]].any():
            return body
        body = int(m.parent[j])
    return -1
