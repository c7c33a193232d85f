"""Pluecker transforms: motions and forces of one frame seen from another, in either associativity and either layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .frames import quaternion_from_matrix, rotate, rotation_matrix
from .table import ORDERS

FORMS = ("plx", "plxb")


def split(value, order="linear"):
    """Return the linear and the angular part (..., 3) of 6-vectors (force and moment of wrenches)."""
    _require(order)
    first, second = value[..., :3], value[..., 3:]
    return (first, second) if order == "linear" else (second, first)


def join(linear, angular, order="linear") -> np.ndarray:
    """Stack linear and angular parts (..., 3) into 6-vectors (..., 6); leading axes broadcast."""
    _require(order)
    linear, angular = np.broadcast_arrays(linear, angular)
    return np.concatenate([linear, angular] if order == "linear" else [angular, linear], axis=-1)


def _require(order) -> None:
    if order not in ORDERS:
        raise ValueError(f"order must be one of {ORDERS}, not {order!r}")


def skew(r) -> np.ndarray:
    """Return the matrices (..., 3, 3) of ``r x``."""
    r = np.asarray(r, dtype=np.float64)
    S = np.zeros((*r.shape, 3))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        S[..., k, j], S[..., j, k] = r[..., i], -r[..., i]
    return S


@dataclass(frozen=True)
class Pluecker:
    """Transform from parent to child coordinates of motions and forces: shift the point by ``r``, then turn the axes.

    The same transform has two written forms, which differ in the meaning of ``E`` and of a product:

    * ``"plx"`` (Featherstone, RBDL), left-associative: ``E`` takes parent components to child components, and
      ``a @ b`` applies ``b`` first.
    * ``"plxb"`` (TDS, Brax), right-associative: ``E`` takes child components to parent components, as the rotation of
      a pose does, and ``a @ b`` applies ``a`` first, as poses chain down a tree.
    """

    E: np.ndarray
    """Rotations (..., 3, 3); see the form."""
    r: np.ndarray
    """Origins (..., 3) of the child frame in parent coordinates [m]."""
    form: str = "plx"
    """``"plx"`` or ``"plxb"``."""

    def __post_init__(self):
        E, r = np.asarray(self.E, dtype=np.float64), np.asarray(self.r, dtype=np.float64)
        if E.shape[-2:] != (3, 3) or r.shape[-1:] != (3,):
            raise ValueError(f"E and r must have shapes (..., 3, 3) and (..., 3), not {E.shape} and {r.shape}")
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {FORMS}, not {self.form!r}")
        object.__setattr__(self, "E", E)
        object.__setattr__(self, "r", r)

    @classmethod
    def from_pose(cls, pose, form="plx") -> Pluecker:
        """Transform of poses (..., 7), position [m] and quaternion xyzw, of the child frame in the parent frame."""
        pose = np.asarray(pose, dtype=np.float64)
        R = rotation_matrix(pose[..., 3:])
        return cls(R if form == "plxb" else np.swapaxes(R, -1, -2), pose[..., :3], form)

    @property
    def pose(self) -> np.ndarray:
        """Poses (..., 7) of the child frame in the parent frame: position [m], quaternion xyzw."""
        q = quaternion_from_matrix(np.swapaxes(self.to_child, -1, -2))
        shape = np.broadcast_shapes(self.r.shape[:-1], q.shape[:-1])
        return np.concatenate([np.broadcast_to(self.r, (*shape, 3)), np.broadcast_to(q, (*shape, 4))], axis=-1)

    @property
    def to_child(self) -> np.ndarray:
        """Matrices (..., 3, 3) from parent to child components."""
        return self.E if self.form == "plx" else np.swapaxes(self.E, -1, -2)

    def as_form(self, form: str) -> Pluecker:
        """Return the same transform written in the other form (or in this one)."""
        return self if form == self.form else Pluecker(np.swapaxes(self.E, -1, -2), self.r, form)

    def motion(self, m, order="angular") -> np.ndarray:
        """Return motions (..., 6) in child coordinates: ``w' = E w``, ``v' = E (v - r x w)``, E from parent to child."""
        v, w = split(np.asarray(m, dtype=np.float64), order)
        return join(rotate(self.to_child, v - np.cross(self.r, w)), rotate(self.to_child, w), order)

    def force(self, f, order="angular") -> np.ndarray:
        """Return forces (..., 6) in child coordinates: ``f' = E f``, ``tau' = E (tau - r x f)``, E parent to child."""
        force, moment = split(np.asarray(f, dtype=np.float64), order)
        return join(rotate(self.to_child, force), rotate(self.to_child, moment - np.cross(self.r, force)), order)

    def motion_matrix(self, order="angular") -> np.ndarray:
        """Return ``X`` (..., 6, 6), for motions of the given order."""
        return self._matrix(False, order)

    def force_matrix(self, order="angular") -> np.ndarray:
        """Return ``X* = inv(X).T`` (..., 6, 6), for forces of the given order."""
        return self._matrix(True, order)

    def _matrix(self, force: bool, order: str) -> np.ndarray:
        _require(order)
        E = self.to_child
        shifted = -E @ skew(self.r)
        X = np.zeros((*shifted.shape[:-2], 6, 6))
        X[..., :3, :3] = X[..., 3:, 3:] = E
        # The part that is shifted, the linear one of motions and the moment of forces, takes from the other part.
        if force == (order == "angular"):
            X[..., :3, 3:] = shifted
        else:
            X[..., 3:, :3] = shifted
        return X

    def inverse(self) -> Pluecker:
        """Return the transform from child to parent coordinates, in the same form."""
        return Pluecker(np.swapaxes(self.E, -1, -2), -rotate(self.to_child, self.r), self.form)

    def __matmul__(self, other: Pluecker) -> Pluecker:
        """Chain two transforms of one form; ``"plx"`` applies ``other`` first, ``"plxb"`` applies ``self`` first."""
        if not isinstance(other, Pluecker):
            return NotImplemented
        if other.form != self.form:
            raise ValueError(f"cannot chain {self.form!r} with {other.form!r}; use as_form")
        if self.form == "plx":
            return Pluecker(self.E @ other.E, other.r + rotate(np.swapaxes(other.E, -1, -2), self.r), "plx")
        return Pluecker(self.E @ other.E, self.r + rotate(self.E, other.r), "plxb")
