"""What hangs by loop joints on links too light for its weight, and what damps these (F 1.1; dense, float64)."""

from __future__ import annotations

import numpy as np

from .basics import BALL, DISTANCE, FLYING, FREE, ROD, unit
from .clusters import tied_links
from .rods import carried_inertia
from .tension import LONGEST, WAVES, kept_share, pivot_of


def hung_loads(m) -> dict[int, np.ndarray]:
    """Return the pull on the first body of each loop joint that carries something, {joint: force [N]}.

    With a joint cut, what floats on its sides would fall; a joint to the world holds a side that others hold besides. If the sides
    still hang together, loads part as currents do among equal resistors. Ropes hold nothing for other joints.
    """
    piece = {-1: -1, **{b: -1 for b in range(m.bodies)}}
    for j in m.order:
        parent, child = int(m.parent[j]), int(m.child[j])
        held = m.prescribed_joint[j] and parent < 0
        piece[child] = -1 if held else child if m.type[j] in FLYING else piece[parent]
    on = np.flatnonzero(m.loop & (m.type != FREE) & m.enabled)
    ends = {int(j): (piece[int(m.parent[j])], piece[int(m.child[j])]) for j in on}
    ties = {j: pair for j, pair in ends.items() if pair[0] != pair[1]}
    weight = m.mass[:, None] * m.gravity[m.body_world]
    out = {}
    for j, sides in ties.items():
        if m.type[j] == ROD:
            continue
        rope = m.type[j] == DISTANCE
        others = [pair for k, pair in ties.items() if k != j and (rope or m.type[k] != DISTANCE)]
        label = {p: p for p in piece.values()}
        while changed := [pair for pair in others if min(pair) >= 0 and label[pair[0]] != label[pair[1]]]:
            gone, kept = (label[p] for p in changed[0])
            label = {p: kept if of == gone else of for p, of in label.items()}
        floats, holds = [], []
        for side in sides:
            floats.append(
                [b for b in range(m.bodies) if side >= 0 and piece[b] >= 0 and label[piece[b]] == label[side]]
            )
            meets = [pair for pair in others if min(pair) < 0 and label[max(pair)] == label[side]]
            holds.append(1 if side < 0 else len(meets))
        if not sum(holds):
            continue
        if min(sides) >= 0 and label[sides[0]] == label[sides[1]]:
            out[j] = _current(sides, [*others, sides], piece, floats[0], weight)
        else:
            loads = [weight[bodies].sum(axis=0) for bodies in floats]
            out[j] = (holds[0] * loads[1] - holds[1] * loads[0]) / sum(holds)
    return out


def _current(sides, pairs, piece, bodies, weight) -> np.ndarray:
    """Current from the second to the first side of one of the equal resistors ``pairs``, into which the weights of bodies go."""
    nodes = sorted({piece[b] for b in bodies})
    ends = [pair for pair in pairs if max(pair) in nodes]
    incidence = np.array([[(node == first) - 1.0 * (node == second) for node in nodes] for first, second in ends])
    sources = np.array([sum((weight[b] for b in bodies if piece[b] == node), np.zeros(3)) for node in nodes])
    voltage = np.linalg.solve(incidence.T @ incidence, sources)
    return voltage[nodes.index(sides[1])] - voltage[nodes.index(sides[0])]


def pulls_of(m) -> np.ndarray:
    """Return what hangs on each body by loop joints, shape (bodies, 3) [N]."""
    pulls = np.zeros((m.bodies, 3))
    for j, pull in hung_loads(m).items():
        for body, force in ((int(m.parent[j]), pull), (int(m.child[j]), -pull)):
            if body >= 0:
                pulls[body] += force
    return pulls


def bends(pair, pull, axes, dt):
    """Return ``(rows, inert)``: axes about which a loop joint damps, and how much more inert that makes the link that is pulled.

    Each axis comes with its damping [N m s] and the share of it that keeps a rate.
    """
    m, kin = pair.m, pair.kin
    inner = {int(m.child[j]): j for j in m.order}
    count = tied_links(m, pair.a, pair.b)
    most, rows, inert = 0.0, [], 1.0
    for body, point, force in ((pair.a, pair.X_a[0], pull), (pair.b, pair.X_b[0], -pull)):
        if not pair.moves(body):
            continue
        flies = m.type[inner[body]] in FLYING
        r = 2.0 * (point - kin.com[body]) if flies else point - pivot_of(m, kin, inner[body])
        needed = dt * dt * force @ r
        if needed <= 0.0:
            continue
        e = unit(r)
        inertia = carried_inertia(m, kin, body, e)
        waves = min(WAVES * needed / inertia, LONGEST * count**2)
        asked = (needed - inertia) * (1.0 + waves)
        if asked > most:
            most = asked
            across = np.eye(3) - np.outer(e, e)
            ball = m.type[pair.j] == BALL or len(axes) == 3
            free = np.eye(3) if ball else [R @ axis for R, axis in zip((pair.R_a, pair.R_b), axes, strict=False)]
            kept = kept_share(waves, ball)
            rows = [(axis, asked / dt * (1.0 if ball else axis @ across @ axis), kept) for axis in free]
            inert = 1.0 + asked / inertia if rows else 1.0
    return rows, inert
