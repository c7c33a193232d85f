"""Collision detection inside the step, for a solver that was given a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

import newton

_Base = newton.solvers.SolverBase


class OwnedDetection(_Base):
    """Newton's schedule of a solver-owned pipeline, as far as a step without inner time has one."""

    supports_collision_pipeline = True

    def __init__(self, model, *, collision_pipeline, **schedule):
        if collision_pipeline is not None and not isinstance(collision_pipeline, newton.CollisionPipeline):
            is_class = isinstance(collision_pipeline, type)
            given = f"the class {collision_pipeline.__name__}" if is_class else type(collision_pipeline).__name__
            raise TypeError(f"collision_pipeline must be a newton.CollisionPipeline(model) or None, not {given}")
        for name, value in schedule.items():
            if not isinstance(value, (Mapping, type(None))):
                raise TypeError(f"{name} must be a mapping from solver.CollisionSlot, not {value!r}")
        super().__init__(model, collision_pipeline=collision_pipeline, **schedule)

    def set_collision_frequency(
        self,
        *,
        collision_frequency: Mapping[_Base.CollisionSlot, int] | None = None,
        collision_frequency_type: Mapping[_Base.CollisionSlot, _Base.CollisionFrequencyType] | None = None,
    ) -> None:
        """Choose when :meth:`step` runs the solver's own pipeline, from the next step on.

        The rigid slot takes ``PRE_INIT`` (once per step, also what ``AUTO`` means) or ``NONE``: then steps use what
        ``solver.contacts`` holds, for substeps, with gaps at the present pose. A recorded graph keeps what it recorded.

        Raises:
            TypeError: A slot or a type that is none of Newton's.
            ValueError: Detection after initialisation, between iterations or of soft bodies, which SAP steps do not have.
        """
        slots, kinds = self.CollisionSlot, self.CollisionFrequencyType
        accepted = {
            slots.RIGID: (kinds.AUTO, kinds.PRE_INIT, kinds.NONE),
            slots.SOFT_SELF_CONTACT: (kinds.AUTO, kinds.NONE),
        }
        for slot in (*(collision_frequency or ()), *(collision_frequency_type or ())):
            if slot not in list(slots):
                names = ", ".join(f"solver.CollisionSlot.{s.name}" for s in slots)
                raise TypeError(f"collision frequencies are given by slot, {names}, not {slot!r}")
        for slot, kind in (collision_frequency_type or {}).items():
            if kind not in list(kinds):
                names = ", ".join(f"solver.CollisionFrequencyType.{k.name}" for k in accepted[slot])
                raise TypeError(f"collision_frequency_type takes {names}, not {kind!r}")
            if kind not in accepted[slot]:
                names = ", ".join(k.name for k in accepted[slot])
                raise ValueError(
                    f"collision_frequency_type of {slots(slot).name} cannot be {kinds(kind).name}: SolverSAP takes {names}"
                )
        super().set_collision_frequency(
            collision_frequency=collision_frequency, collision_frequency_type=collision_frequency_type
        )

    def _detect_contacts(self, state, dt: float) -> None:
        """Run the pipeline the solver owns, at the pose that the step starts from."""
        if self.collision_pipeline is not None:
            when = self._resolved_collision_frequency_type(self.CollisionSlot.RIGID)
            if when != self.CollisionFrequencyType.NONE:
                self.launches.wait()
                self._run_rigid_collision(state, dt)
