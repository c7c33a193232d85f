"""A model's arrays on the host, and which of a whole model's dofs a part of it has.

Coupled solvers hand out parts; MuJoCo's tables are about the whole model there, too.
"""

from __future__ import annotations

import numpy as np

ELSEWHERE = -2
"""In place of a dof: another solver's."""


class OnHost:
    """A model's arrays as NumPy's, by name. Each is copied once: on a GPU a copy takes its time and waits for what is at work."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name: str) -> np.ndarray:
        array = getattr(self._model, name).numpy()
        setattr(self, name, array)
        return array


def whole_of(model):
    """Return the model that a part was taken from, or the model itself."""
    return getattr(model, "parent", model)


def dofs_of_part(model) -> np.ndarray | None:
    """For each dof of the whole model the one here or ``ELSEWHERE``, None where ``model`` is the whole."""
    whole = whole_of(model)
    if whole.joint_dof_count == model.joint_dof_count:
        return None
    here = {name: j for j, name in enumerate(_joint_names(model))}
    dofs = np.full(whole.joint_dof_count, ELSEWHERE)
    start, start_here = whole.joint_qd_start.numpy(), model.joint_qd_start.numpy()
    for joint, name in enumerate(_joint_names(whole)):
        if name in here:
            dofs[start[joint] : start[joint + 1]] = np.arange(*start_here[[here[name], here[name] + 1]])
    return dofs


def _joint_names(model) -> list[tuple[str, int]]:
    """Labels with worlds, which repeat them."""
    return list(zip(model.joint_label, model.joint_world.numpy().tolist(), strict=True))
