"""Where Newton's contacts are, in NumPy: what wheels that spin spare of a gap, and which with edges inside a surface a step passes
over."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .shapes import BENT, BESIDE, BOX, CONE, CYLINDER, HEIGHTFIELD, MESH, REPORTED, Solids, pose

FLUSH, ROUNDING, TILTED, OPPOSED, ALIKE, SUNK, SLID, ROUND = 1e-4, 1e-6, 0.01, -0.1, 0.99, 2.0, 0.02, 0.2
SEARCHED = 1e-5
BEARS, STEEP, NEXT = 0.995, 0.25, 2.5


@dataclass
class Place:
    """Where one of Newton's contacts is."""

    index: int
    shapes: tuple[int, int]
    bodies: tuple[int, int]
    n: np.ndarray
    surface: list[np.ndarray]
    """A point on each body's surface [m]."""
    found: list[np.ndarray]
    """The same where Newton found them, before what is round rolled on."""
    passed: np.ndarray
    """How far the second one has passed the first one since [m]."""
    phi0: float
    spared: float
    """How much wider [m] an open gap counts because wheels that spin do not close it."""
    apart: float
    """How far the two are apart [m] along the normal that Newton gives."""
    corner: int = 0
    """In which corner of a shape it is, 0 for where it was found."""
    beside: list[Place] = field(default_factory=list)
    """The same of corners that may come down as well."""
    asleep: bool = False
    """Whether twice what the two bodies do by themselves does not close it."""

    def seen_by(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the point on a body's surface and the normal away from it."""
        side = self.bodies.index(body)
        return self.found[side], self.n if side == 0 else -self.n


def rolled_over(model, kin, shape: int, body: int, point: np.ndarray, n: np.ndarray, dt: float) -> float:
    """How far [m] the spin of a cylinder or cone about its axis carries a point of it against ``n``, though its surface stays."""
    if int(model.shape_type.numpy()[shape]) not in (CYLINDER, CONE) or body < 0 or not kin.path[body]:
        return 0.0
    center, axes = pose(model, kin, shape)
    spin = axes[:, 2] * (axes[:, 2] @ kin.omega[body])
    return max(-dt * n @ np.cross(spin, point - center), 0.0)


def internal_edges(places: list[Place], given, velocity, solids: Solids, dt: float) -> set[int]:
    """Return the indices of contacts with edges inside a surface: of a body that ``given`` says no unknown moves, a mesh or several shapes.

    Such an edge lies in the plane of another contact of the body that moves along it, with a surface that is rigidly one with it or, where no
    unknown moves them, of a body whose ``velocity`` keeps both level; and that contact is above the plane of the edge; and no point of the edge's
    shapes and normal is above the other plane, nor is what the edge's shape fills right behind a steep edge, nor below it what the
    moving shape fills; and where the edge's normal leans to something that the body touches goes on level. The other contact must stay.
    What sleeps too far away is neither asked nor asked about others.
    """
    shown_by, waits = {}, {p.index for p in places if p.asleep and p.phi0 > NEXT * dt}
    for edge in places:
        if edge.index in waits:
            continue
        planes = {plane.index for plane in _planes_of(edge, places, given, velocity, solids)} - waits
        if planes:
            shown_by[edge.index] = planes
    return {edge for edge, planes in shown_by.items() if planes - shown_by.keys()}


def _surface_side(place: Place, given, solids: Solids) -> int | None:
    """Which side of a contact may be a surface with edges inside: a given one, else a mesh or heightfield, else one of several shapes."""
    may_be = [given(body) for body in place.bodies]
    if not any(may_be):
        may_be = [2 * (solids.kind(shape) in (MESH, HEIGHTFIELD)) or solids.adjoins(shape) for shape in place.shapes]
    return may_be.index(max(may_be)) if may_be[0] != may_be[1] else None


def _planes_of(edge: Place, places: list[Place], given, velocity, solids: Solids):
    """Yield the contacts in whose planes one is an edge."""
    side = _surface_side(edge, given, solids)
    if side is None:
        return
    body, moving = edge.bodies[side], edge.bodies[1 - side]
    surface, mover = edge.shapes[side], edge.shapes[1 - side]
    sides = [(p, _surface_side(p, given, solids)) for p in places]
    others = [(p, s) for p, s in sides if s is not None and p.bodies[1 - s] == moving]
    floor = {p.shapes[s] for p, s in others} | {surface}
    under = [(p.phi0, p.seen_by(p.bodies[s])[1]) for p, s in others]
    alike = [p.seen_by(body) for p in places if p.shapes == edge.shapes and p.n @ edge.n > ALIKE]
    for other, its_side in others:
        beside = other.bodies[its_side]
        point, up = other.seen_by(beside)
        if not _go_together(body, beside, edge.seen_by(body)[0], up, given, velocity, solids):
            continue
        sunk = max([0.0, *(-phi0 for phi0, normal in under if normal @ up > ALIKE)])
        passed = edge.passed if side == 0 else -edge.passed
        rolls = solids.radius(mover) if mover == other.shapes[1 - its_side] else 0.0
        pair = _EdgeAndPlane(*edge.seen_by(body), point, up, edge.phi0, other.phi0, sunk, passed, rolls)
        leans = OPPOSED < pair.facing < ALIKE and pair.is_shallow() and solids.kind(surface) in (MESH, HEIGHTFIELD, BOX)
        if leans and solids.bends_gently(surface, floor, *edge.seen_by(body), up):
            pair.bend = BENT
        within = (0.5 * TILTED, -REPORTED) if pair.is_borne_beside() else (TILTED, BESIDE)
        if (
            pair.is_flat()
            and not solids.is_on_face(surface, *edge.seen_by(body), *within)
            and not any(pair.is_below(*seen) for seen in alike)
            and not pair.goes_on(surface, mover, solids.fills)
            and (pair.bend > 0.0 or any(solids.goes_on_towards(shape, *pair.levelled()) for shape in floor))
        ):
            yield other


def _go_together(body: int, beside: int, at: np.ndarray, up: np.ndarray, given, velocity, solids: Solids) -> bool:
    """Whether two surfaces are of bodies that are rigidly one, or that no unknown moves and that stay as level as they are."""
    if body == beside or not (given(body) or given(beside)) and solids.are_one(body, beside):
        return True
    if not (given(body) and given(beside)):
        return False
    far = (1.0 + np.linalg.norm(at)) * (1.0 + np.linalg.norm(velocity(body)))
    spin, at_origin = np.split(velocity(beside) - velocity(body), 2)
    rises = up @ (at_origin + np.cross(spin, at))
    return max(abs(rises), np.linalg.norm(np.cross(up, spin))) <= ROUNDING * far


@dataclass
class _EdgeAndPlane:
    """A contact that may be an edge's, and another one whose plane it may be in."""

    at: np.ndarray
    away: np.ndarray
    point: np.ndarray
    up: np.ndarray
    phi0: float
    phi0_plane: float
    sunk: float
    """How deep the body sinks in, at most, where its contacts face as the plane does [m]."""
    passed: np.ndarray
    """How far the body has gone past the edge across its normal since the contact was found [m]."""
    rolls: float
    """Radius of a shape that rolls over both [m]; zero of what does not."""
    bend: float = 0.0
    """How far the surface may be off the plane, over the distance."""

    def __post_init__(self):
        self.facing = self.up @ self.away
        self.sine = np.linalg.norm(np.cross(self.up, self.away))
        self.gone = max((self.up - self.facing * self.away) @ self.passed, 0.0)
        farther = self.facing * self.phi0 + self.gone - self.phi0_plane
        self.radius = self.rolls or max(farther, 0.0) / max(1.0 - self.facing, 0.5 * TILTED**2)
        if self.facing < ROUND:
            self.radius = 0.0
        self.slack = self.tolerance(self.at, self.away)

    def tolerance(self, at, away=None) -> float:
        """How far [m] a point of the plane may be reported from it, on the round body, with a normal at an angle."""
        sine = 0.0 if away is None else np.linalg.norm(np.cross(self.up, away))
        return (
            REPORTED
            + ROUNDING * np.linalg.norm(at)
            + FLUSH * np.linalg.norm(self.point - at)
            + max(SLID * self.radius, np.sqrt(SEARCHED * self.radius)) * sine
        )

    def is_flat(self) -> bool:
        """Whether the edge is in the plane, is not much deeper, and the other point is above the edge's own plane."""
        least = 0.5 * TILTED if self.is_borne_beside() else TILTED
        turned = self.facing > OPPOSED and (self.sine > least or self.facing < 0.0)
        height, way = (self.at - self.point) @ self.up, self.point - self.at
        level = abs(height) <= self.slack + SUNK * self.sunk + self.bend * np.linalg.norm(way)
        over = self.bend > 0.0 or self.is_borne_beside() or way @ self.away > self.tolerance(self.at)
        return turned and self.is_shallow() and level and over

    def is_shallow(self) -> bool:
        """Whether the edge is open, or was before the body went past its normal, or is no deeper than what sinks in beside it and steep
        or borne beside."""
        above, near = self.phi0 * max(self.facing, STEEP) + self.gone, self.tolerance(self.at)
        shallow = self.facing < STEEP or -above <= SUNK * self.sunk + near
        bears = self.facing >= BEARS and not self.is_borne_beside()
        return self.phi0 > 0.0 or above > near or (shallow and not bears)

    def is_borne_beside(self) -> bool:
        """Whether what rolls over the edge touches the plane right beside it, no farther than its middle is."""
        near = self.tolerance(self.at)
        closed, past = self.phi0_plane <= near, self.radius * self.sine
        return self.rolls * self.radius > 0.0 and closed and np.linalg.norm(self.point - self.at) <= 2.0 * past + near

    def is_below(self, at, away) -> bool:
        """Whether the plane is below a point with a normal."""
        off = self.tolerance(at, away) + SUNK * self.sunk + self.bend * np.linalg.norm(at - self.point)
        return (at - self.point) @ self.up > off

    def goes_on(self, given_shape, moving_shape, fills) -> bool:
        """Whether the one shape goes on above the plane right behind a steep edge, or the other one below it."""
        rim, step = np.cross(self.up, self.away) / self.sine, 2.0 * self.slack
        below = step + SUNK * self.sunk
        behind = self.at - step * self.away
        inside = self.at + (self.phi0 + below * max(1.0, 2.0 * self.facing / (1.0 - self.facing**2))) * self.away
        wall = self.facing < STEEP and fills(given_shape, self._at_height(step / STEEP, behind), rim)
        return wall or fills(moving_shape, self._at_height(-below, inside), rim)

    def levelled(self):
        """Return the edge's point, in the plane if it is out of it as those of round bodies are, its normal, and the plane's."""
        level = self._at_height(0.0, self.at)
        return level if np.linalg.norm(level - self.at) <= self.slack else self.at, self.away, self.up

    def _at_height(self, height, x):
        """A point so high above the plane, above or below another one."""
        return x + (height - (x - self.point) @ self.up) * self.up
