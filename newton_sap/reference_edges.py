"""Contacts with edges inside a surface, in NumPy: which of Newton's contacts a step passes over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLUSH, ROUNDING, TILTED, OPPOSED, ALIKE, SUNK = 1e-4, 1e-6, 0.01, -0.1, 0.99, 2.0


@dataclass
class Place:
    """Where one of Newton's contacts is."""

    index: int
    shapes: tuple[int, int]
    bodies: tuple[int, int]
    n: np.ndarray
    surface: list[np.ndarray]
    """A point on each body's surface [m]."""
    phi0: float

    def seen_by(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the point on a body's surface and the normal away from it."""
        side = self.bodies.index(body)
        return self.surface[side], self.n if side == 0 else -self.n


def internal_edges(places: list[Place], given, velocity) -> set[int]:
    """Return the indices of contacts with edges inside the surface of bodies that ``given`` says no unknown moves.

    Such an edge lies in the plane of another contact of the moving body with one of those, which has the same ``velocity`` and
    itself is above the plane of the edge; and no point of the edge's shapes and normal is above the other plane.
    """
    inside = set()
    for edge in places:
        body = next((b for b in edge.bodies if given(b)), None)
        if body is None or all(map(given, edge.bodies)):
            continue
        moving = next(b for b in edge.bodies if b != body)
        at, away = edge.seen_by(body)
        alike = [p for p in places if p.shapes == edge.shapes and p.n @ edge.n > ALIKE]
        for other in places:
            beside = [b for b in other.bodies if b != moving and given(b)]
            if (
                moving not in other.bodies
                or not beside
                or np.abs(velocity(beside[0]) - velocity(body)).max() > ROUNDING
            ):
                continue
            point, normal = other.seen_by(beside[0])
            sine = np.linalg.norm(np.cross(normal, away))
            turned = normal @ away > OPPOSED and (sine > TILTED or normal @ away < 0.0)
            shallow = edge.phi0 > 0.0 or edge.phi0 >= SUNK * other.phi0
            if turned and shallow and _lies_in(at, away, point, normal, max(-other.phi0, 0.0)):
                heights = [(p.seen_by(body)[0] - point) @ normal for p in alike]
                slack = [_tolerance(p.seen_by(body)[0], point) for p in alike]
                if not np.any(np.array(heights) > slack):
                    inside.add(edge.index)
    return inside


def _lies_in(at, away, point, normal, depth) -> bool:
    """Whether an edge at a point is in the plane of another contact, whose own point is above the edge's."""
    height, tolerance = (at - point) @ normal, _tolerance(at, point)
    way = point - at
    return -tolerance - SUNK * depth <= height <= tolerance and way @ away > TILTED * np.linalg.norm(way) + tolerance


def _tolerance(at, point) -> float:
    return ROUNDING * (1.0 + np.linalg.norm(at)) + FLUSH * np.linalg.norm(point - at)
