"""Changes of velocity that velocity products follow, in the reference (formulation 1.1; dense, float64)."""

from __future__ import annotations

import numpy as np

FAST_TURN, SLOW_TURN = 0.1, 1.0e-3
"""Turns [rad] in a step beyond which velocity products follow the change of velocity also by its own products, and at all."""
MOST_BORNE = 2.0
"""How much of what pushes from outside is borne, at most, where a tree leans against something."""
UNRESOLVED = 0.1
"""The square of how much products make of a change, beyond which they are damped."""


def followed_change(root, A, A_held, load, hold, push, products, turn):
    """The change of velocity of trees that are solved for together, shape (dofs,).

    Args:
        root: Label of each dof, shape (dofs,), of its tree and all that couplings hold together with it, for which what is held,
            borne and followed is the same.
        A: Dynamics matrix, shape (dofs, dofs).
        A_held: The same with what couplings add.
        load: Momentum by velocity products, from outside and by couplings, shape (dofs,).
        hold: What joints give at constant rates, shape (dofs,).
        push: Momentum from outside of trees that lean, shape (dofs,).
        products: What velocity products make of a change of velocity, a function of it, momentum of shape (dofs,).
        turn: How far the fastest body of a dof's tree turns in the step [rad], shape (dofs,).
    """

    def changed(momentum):
        return np.linalg.solve(A_held, momentum)

    def together(a, b):
        return np.array([a[root == r] @ b[root == r] for r in root])

    def share_held(against, size, most):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(against > 0.0, np.minimum(against / size, most), 0.0)

    held = changed(hold)
    moved = load + share_held(-together(held, load), together(held, hold), 1.0) * hold
    fall = changed(push)
    moved = moved - np.where(
        push != 0.0, share_held(together(fall, moved), together(fall, push), MOST_BORNE) * push, 0.0
    )
    change = changed(moved)
    if turn.max() > FAST_TURN:
        further = changed(np.where(turn > FAST_TURN, products(change), 0.0))
        sizes = together(change, A @ change), together(further, A @ further)
        change = np.array([share_followed(*size) for size in zip(*sizes, strict=True)]) * (change + further)
    return change


def share_of_midpoint(size, beyond):
    """The share of a change and of what its products change that solves for both, by their kinetic energies."""
    return size / (size + beyond) if beyond > 0.0 else 1.0


def share_followed(size, beyond):
    """The same where the step resolves them; else what damps most."""
    if not beyond > UNRESOLVED * size:
        return share_of_midpoint(size, beyond)
    square = beyond / size
    return min(1.0, (1.0 + 2.0 * square) / (2.0 * square * (1.0 + square)))
