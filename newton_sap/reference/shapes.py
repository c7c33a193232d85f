"""Shapes as they stand in the world, in NumPy: what they fill, and which way is out of an ellipsoid."""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np

from .basics import quat_matrix

_KINDS = ("PLANE", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "CONE")
PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, CONE = (int(newton.GeoType[kind]) for kind in _KINDS)
MESH, HULL, HEIGHTFIELD = (int(newton.GeoType[kind]) for kind in ("MESH", "CONVEX_MESH", "HFIELD"))
BESIDE, REACH, LEVEL = 2e-4, 5e-3, 0.02
NEAR, FIFTH, GENTLE, BENT, REPORTED = 0.04, 0.2, 0.99, 0.142, 2e-5


def pose(model, kin, shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the centre of a shape is [m], and its axes as columns."""
    placed, body = model.shape_transform.numpy()[shape].astype(float), int(model.shape_body.numpy()[shape])
    return kin.to_world(body, placed[:3]), kin.rotate(body, quat_matrix(placed[3:]))


@dataclass
class Solids:
    """The shapes of a model where its bodies are."""

    model: object
    kin: object

    def kind(self, shape: int) -> int:
        """Its type, as Newton numbers them."""
        return int(self.model.shape_type.numpy()[shape])

    def radius(self, shape: int) -> float:
        """That of what rolls [m]; zero of other shapes."""
        rolls = self.kind(shape) in (SPHERE, CAPSULE, CYLINDER)
        return float(self.model.shape_scale.numpy()[shape][0]) if rolls else 0.0

    def are_one(self, body: int, other: int) -> bool:
        """Whether no dof moves two bodies that joints move against each other."""
        path = self.kin.path[body][-1:]
        return len(path) == 1 and list(path) == list(self.kin.path[other][-1:])

    def adjoins(self, shape: int) -> bool:
        """Whether a shape has flat faces, and so does another colliding one that is rigidly one with it."""
        model = self.model
        collides = (model.shape_flags.numpy() & newton.ShapeFlags.COLLIDE_SHAPES) != 0
        flat = np.isin(model.shape_type.numpy(), (BOX, CYLINDER, HULL, MESH, HEIGHTFIELD))
        bodies = model.shape_body.numpy()
        of_one = [
            i for i in np.flatnonzero(collides & flat) if bodies[i] >= 0 and self.are_one(bodies[i], bodies[shape])
        ]
        return bool(flat[shape]) and len(of_one) > 1

    def fills(self, shape: int, point: np.ndarray, aside: np.ndarray) -> bool:
        """Whether a point [m], a tenth of the way to a shape's middle along a unit vector, is inside the shape.

        Known of shapes that are neither meshes nor hulls nor heightfields.
        """
        center, axes = pose(self.model, self.kin, shape)
        x, y, z = axes.T @ (point - center + 0.1 * aside * (aside @ (center - point)))
        a, b, c = self.model.shape_scale.numpy()[shape].astype(float)
        aside = np.hypot(x, y)
        inside = {
            PLANE: lambda: z < 0.0,
            SPHERE: lambda: np.hypot(aside, z) < a,
            CAPSULE: lambda: np.hypot(aside, max(abs(z) - b, 0.0)) < a,
            ELLIPSOID: lambda: (x / a) ** 2 + (y / b) ** 2 + (z / c) ** 2 < 1.0,
            CYLINDER: lambda: aside < a and abs(z) < b,
            BOX: lambda: abs(x) < a and abs(y) < b and abs(z) < c,
            CONE: lambda: -b < z and aside * 2.0 * b < a * (b - z),
        }.get(self.kind(shape), bool)
        return bool(inside())

    def is_on_face(
        self, shape: int, point: np.ndarray, normal: np.ndarray, tilted: float, around: float = BESIDE
    ) -> bool:
        """Whether a point [m] of the world is so far within a flat face of a shape that faces along a unit vector; caps do not count."""
        kind, aligned = self.kind(shape), 1.0 - 0.5 * tilted**2
        center, axes = pose(self.model, self.kin, shape)
        n, at = axes.T @ normal, axes.T @ (point - center)
        size = self.model.shape_scale.numpy()[shape].astype(float)
        if kind in (MESH, HULL, HEIGHTFIELD):
            return self._has_facets_around(shape, at, n, size, aligned, abs(around))
        faces = np.abs(n) >= aligned
        on_face = faces.sum() == 1 and (np.abs(at) < size - around)[~faces].all()
        return kind == PLANE or bool(kind == BOX and on_face)

    def _has_facets_around(self, shape, at, n, size, aligned, around) -> bool:
        """Whether the triangles on all four sides of a point face along a unit vector."""
        aside = np.cross(n, np.eye(3)[int(abs(n[0]) > 0.7)])
        for _ in range(4):
            aside = np.cross(n, aside / np.linalg.norm(aside))
            normal, _ = self.first_facet(shape, at + around * (aside + n), -n, size, 3.0 * around)
            if normal is None or abs(normal @ n) < aligned * np.linalg.norm(normal):
                return False
        return True

    def first_facet(self, shape, start, along, size, reach):
        """Return the normal, of any length, of the first triangle on a way from a point along a unit vector, and how far it is; None
        for none."""
        if self.kind(shape) == HEIGHTFIELD:
            mesh = self.model.heightfield_meshes[int(self.model.shape_heightfield_index.numpy()[shape])]
            points, indices = mesh.points.numpy(), mesh.indices.numpy()
        else:
            points, indices = self.model.shape_source[shape].vertices, self.model.shape_source[shape].indices
        a, b, c = np.moveaxis((points * size)[np.reshape(indices, (-1, 3))].astype(float), 1, 0)
        normals = np.cross(b - a, c - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            way = np.einsum("ij,ij->i", normals, a - start) / (normals @ along)
            x = start + way[:, None] * along
            inside = [
                np.einsum("ij,ij->i", np.cross(q - p, x - p), normals) >= 0.0 for p, q in ((a, b), (b, c), (c, a))
            ]
            hit = np.logical_and.reduce([*inside, way >= 0.0, way <= reach])
        first = np.argmin(np.where(hit, way, np.inf))
        return (normals[first], way[first]) if hit.any() else (None, None)

    def facet_below(self, shape: int, point: np.ndarray, up: np.ndarray, reach: float) -> tuple[float, float]:
        """Return how far [m] below a point a facet of a mesh, hull, heightfield or box is, and the cosine between its normal and ``up``;
        0 and -1 inside a box."""
        center, axes = pose(self.model, self.kin, shape)
        n, at, size = axes.T @ up, axes.T @ (point - center), self.model.shape_scale.numpy()[shape].astype(float)
        if self.kind(shape) in (MESH, HULL, HEIGHTFIELD):
            facet, way = self.first_facet(shape, at, -n, size, reach)
            return (np.inf, 0.0) if facet is None else (way, facet @ n / np.linalg.norm(facet))
        if self.kind(shape) != BOX:
            return np.inf, 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            faces = np.sign(n) * size
            enter, leave = (at - faces) / n, (at + faces) / n
        beside = (n == 0.0) & (np.abs(at) > size)
        enter, leave = np.where(n == 0.0, -np.inf, enter), np.where(n == 0.0, np.inf, leave)
        first = int(np.argmax(enter))
        if beside.any() or enter[first] > reach or max(enter[first], 0.0) > leave.min() or leave.min() <= 0.0:
            return np.inf, 0.0
        return (enter[first], abs(n[first])) if enter[first] > 0.0 else (0.0, -1.0)

    def bends_gently(self, shape: int, floor, point: np.ndarray, normal: np.ndarray, up: np.ndarray) -> bool:
        """Whether shapes go on from a point, to where a normal leans and to the other side, nearly across ``up`` and with no step between,
        to one side that which the point is on."""
        aside = normal - (normal @ up) * up
        aside = aside / np.linalg.norm(aside)
        heights, own = [], [0, 0]
        for away in (NEAR * REACH, NEAR / FIFTH * REACH, NEAR / FIFTH**2 * REACH):
            for side, to in enumerate((aside, -aside)):
                start = point + REACH * up + away * to
                (way, facing), first = min((self.facet_below(other, start, up, 2.0 * REACH), other) for other in floor)
                own[side] += first == shape
                heights.append(REACH - way)
                allowed = BENT * (away + NEAR * REACH) + REPORTED
                steps = heights[-1] < -BENT * away - REPORTED or abs(heights[-1] - heights[0]) > allowed
                if facing < GENTLE or steps:
                    return False
        return max(own) == 3

    def goes_on_towards(self, shape: int, point: np.ndarray, normal: np.ndarray, up: np.ndarray) -> bool:
        """Whether a shape that is touched at a point with a normal goes on where the normal leans to, level across ``up``."""
        center, axes = pose(self.model, self.kin, shape)
        n, middle = axes.T @ up, axes.T @ (point + REACH * normal - center)
        height = REACH * (normal @ up)
        margin = min(LEVEL * REACH, 0.5 * (REACH - height))
        if self.kind(shape) in (MESH, HULL, HEIGHTFIELD):
            size = self.model.shape_scale.numpy()[shape].astype(float)
            return self.first_facet(shape, middle + 0.2 * REACH * n, -n, size, 1.2 * REACH - margin)[0] is not None
        x = center + axes @ (middle - (height + margin) * n)
        return self.fills(shape, x, np.zeros(3))


def out_of_ellipsoid(model, kin, shape: int, point: np.ndarray) -> np.ndarray:
    """Return the unit normal [world axes] of the ellipsoid of a shape's centre and proportions through a point; zero of other shapes."""
    center, axes = pose(model, kin, shape)
    if int(model.shape_type.numpy()[shape]) != ELLIPSOID or not np.any(point - center):
        return np.zeros(3)
    out = axes @ np.diag(model.shape_scale.numpy()[shape].astype(float) ** -2.0) @ axes.T @ (point - center)
    return out / np.linalg.norm(out)


def depth_in_ellipsoid(model, kin, shape: int, point: np.ndarray, way: np.ndarray) -> float:
    """Return how far [m] an ellipsoid reaches beyond a point along a unit vector; zero of other shapes."""
    if int(model.shape_type.numpy()[shape]) != ELLIPSOID:
        return 0.0
    center, axes = pose(model, kin, shape)
    return float(np.linalg.norm(model.shape_scale.numpy()[shape] * (axes.T @ way)) - way @ (point - center))


def find_normal(model, kin, shapes, points) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the normal that ellipsoids give a contact without one, zero if neither shape is one, and how far they reach along it."""
    n = out_of_ellipsoid(model, kin, shapes[0], points[0]) - out_of_ellipsoid(model, kin, shapes[1], points[1])
    if n.any():
        n = n / np.linalg.norm(n)
    sides = zip(shapes, points, (n, -n), strict=True)
    return n, [way * depth_in_ellipsoid(model, kin, shape, point, way) for shape, point, way in sides]
