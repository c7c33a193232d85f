"""Where Newton's contacts are, in NumPy: what wheels that spin spare of a gap, and which with edges inside a surface a step passes
over."""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np

from .basics import quat_matrix

PLANE, BOX, CYLINDER = (int(newton.GeoType[name]) for name in ("PLANE", "BOX", "CYLINDER"))
WHEELS = (CYLINDER, int(newton.GeoType.CONE))
FLUSH, ROUNDING, TILTED, OPPOSED, ALIKE, SUNK, SLID, ROUND, STEEP = 1e-4, 1e-6, 0.01, -0.1, 0.99, 2.0, 0.02, 0.7, 0.25


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
    spared: float
    """How much wider [m] an open gap counts because wheels that spin do not close it."""

    def seen_by(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the point on a body's surface and the normal away from it."""
        side = self.bodies.index(body)
        return self.surface[side], self.n if side == 0 else -self.n


def rolled_over(model, kin, shape: int, body: int, point: np.ndarray, n: np.ndarray, dt: float) -> float:
    """How far [m] the spin of a cylinder or cone about its axis carries a point of it against ``n``, though its surface stays."""
    if int(model.shape_type.numpy()[shape]) not in WHEELS or body < 0 or not kin.path[body]:
        return 0.0
    placed = model.shape_transform.numpy()[shape].astype(float)
    axis = kin.rotate(body, quat_matrix(placed[3:])[:, 2])
    spin = axis * (axis @ kin.omega[body])
    return max(-dt * n @ np.cross(spin, point - kin.to_world(body, placed[:3])), 0.0)


def fills(model, kin, shape: int, point: np.ndarray) -> bool:
    """Whether a point [m] is inside a shape; known of planes, boxes and cylinders."""
    placed, body = model.shape_transform.numpy()[shape].astype(float), int(model.shape_body.numpy()[shape])
    axes = kin.rotate(body, quat_matrix(placed[3:]))
    at, size = axes.T @ (point - kin.to_world(body, placed[:3])), model.shape_scale.numpy()[shape]
    kind = int(model.shape_type.numpy()[shape])
    if kind == CYLINDER:
        return bool(np.linalg.norm(at[:2]) < size[0] and abs(at[2]) < size[1])
    return bool((kind == PLANE and at[2] < 0.0) or (kind == BOX and (np.abs(at) < size).all()))


def internal_edges(places: list[Place], given, velocity, fills) -> set[int]:
    """Return the indices of contacts with edges inside the surface of bodies that ``given`` says no unknown moves.

    Such an edge lies in the plane of another contact of the moving body with one of those, which has the same ``velocity`` and
    itself is above the plane of the edge; and no point of the edge's shapes and normal is above the other plane, nor is what the
    edge's shape ``fills``, right behind a steep edge.
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
            radius = 0.0
            if normal @ away >= ROUND:
                radius = 2.0 * max(edge.phi0 - other.phi0, 0.0) / max(sine, TILTED) ** 2
            slack = _tolerance(at, point, sine, radius)
            if turned and shallow and _lies_in(at, away, point, normal, max(-other.phi0, 0.0), slack):
                seen = [p.seen_by(body) for p in alike]
                heights = [(x - point) @ normal for x, _ in seen]
                slacks = [_tolerance(x, point, np.linalg.norm(np.cross(normal, n)), radius) for x, n in seen]
                step = 2.0 * _tolerance(at, point, sine, radius)
                behind = at + ((point - at) @ normal + step / STEEP) * normal - step * away
                wall = normal @ away < STEEP and fills(edge.shapes[edge.bodies.index(body)], behind)
                if not wall and not np.any(np.array(heights) > slacks):
                    inside.add(edge.index)
    return inside


def _lies_in(at, away, point, normal, depth, slack) -> bool:
    """Whether an edge at a point is in the plane of another contact, whose own point is above the edge's."""
    height, way = (at - point) @ normal, point - at
    return -slack - SUNK * depth <= height <= slack and way @ away > _tolerance(at, point)


def _tolerance(at, point, sine=0.0, radius=0.0) -> float:
    """How far [m] from a plane a point in it may be reported, on a body of a radius, with a normal at an angle of a sine to its."""
    rounding = ROUNDING * (1.0 + np.linalg.norm(at))
    return rounding + FLUSH * np.linalg.norm(point - at) + SLID * radius * sine
