"""Islands of a problem: trees that push each other at an iterate. Each knows for itself whether its impulses are worth reading."""

from __future__ import annotations

import numpy as np

NOTHING = 1e-12
"""Impulse [N s] that rounding leaves of none."""


class Islands:
    """Labels of the unknowns of a :class:`ConvexProblem` at the iterate ``v``."""

    def __init__(self, problem, v):
        self._dofs = problem.dofs
        self._label = problem.tree.copy()
        for term in problem.contacts:
            gamma = term.law(term.J[:, self._dofs] @ v + term.bias)[1]
            if np.linalg.norm(gamma) > NOTHING or not hasattr(term, "n"):  # couplings tie whatever they exert
                its = self.of(term)
                self._label[np.isin(self._label, its)] = min(its)

    def of(self, term):
        """Return the labels of what a term pushes."""
        return sorted(set(self._label[np.any(term.J[:, self._dofs] != 0.0, axis=0)].tolist()))

    def settled(self, residual, impulse, share):
        """Return the labels of islands whose residual is at most a share of the impulses; both per unknown, scaled alike."""
        labels = set(self._label.tolist())
        norms = {k: [np.linalg.norm(x[self._label == k]) for x in (residual, impulse)] for k in labels}
        return {k for k, (left, pushed) in norms.items() if left <= share * pushed}

    def norms(self, contacts, normals):
        """Return the root of the squares of normal impulses by island."""
        squares = dict.fromkeys(self._label.tolist(), 0.0)
        for contact, n0 in zip(contacts, normals, strict=True):
            squares[self.of(contact)[0]] += n0 * n0
        return {k: np.sqrt(square) for k, square in squares.items()}
