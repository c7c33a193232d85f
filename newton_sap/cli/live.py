"""Curves beside the picture: contact force, residual and iterations of each frame's last step, as a viewer's scalars."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import warp as wp
from newton.viewer import ViewerNull

from ..solver import SolverSAP

FLOOR = 1e-20
"""Smallest relative residual that is shown: a curve has no place for the logarithm of zero."""


def noting_contacts(target: type) -> type:
    """Return a subclass of a SolverSAP class that keeps the contacts of its last step; other classes as they are."""
    if not issubclass(target, SolverSAP):
        return target

    class Noting(target):
        contacts_of_step = None

        def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
            self.contacts_of_step = contacts
            super().step(state_in, state_out, control, contacts, dt, observables=observables)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(Noting, name, getattr(target, name))
    return Noting


class LiveScalars:
    """Logs a solver's scalars to a viewer at the end of each frame that stepped."""

    def __init__(self, viewer, solver):
        self.viewer, self.solver = viewer, solver
        self.stepped = False
        self.forces: wp.array | None = None
        # Reading the device takes time, which ViewerNull is there to measure.
        if isinstance(solver, SolverSAP) and hasattr(viewer, "log_scalar") and type(viewer) is not ViewerNull:
            self.end_frame, viewer.end_frame = viewer.end_frame, self._end_frame

    def _end_frame(self):
        if self.stepped:
            self.stepped = False
            for name, value in self.values().items():
                self.viewer.log_scalar(name, value)
        self.end_frame()

    def values(self) -> dict[str, float]:
        """Return the scalars of the last step, over all worlds: sum of force magnitudes, largest of the rest."""
        report = self.solver.report()
        relative = (report.residual / np.maximum(report.scale, FLOOR)).max(initial=0.0)
        return {
            "contact force total [N]": self._contact_force(),
            "log10 of residual over scale": float(np.log10(np.maximum(relative, FLOOR))),
            "iterations": float(report.iterations.max(initial=0)),
        }

    def _contact_force(self) -> float:
        contacts = getattr(self.solver, "contacts_of_step", None)
        contacts = self.solver.contacts if contacts is None else contacts  # of a solver that owns its pipeline
        if contacts is None:
            return 0.0
        rows = contacts.rigid_contact_max
        if self.forces is None or len(self.forces) != rows:
            self.forces = wp.zeros(rows, dtype=wp.spatial_vector, device=self.solver.device)
        self.solver.update_contacts(SimpleNamespace(force=self.forces))
        return float(np.linalg.norm(self.forces.numpy()[:, :3], axis=1).sum())
