"""A context in which Newton's bundled examples build another solver than their own.

Inside :func:`swapped_solvers` the rigid-body classes of ``newton.solvers`` are stand-ins: calling one builds the chosen
solver, while everything an example reads from the class itself (custom attributes, configuration types, enumerations)
still comes from the class the example was written for. Nothing is changed outside the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import newton
import newton.solvers

from .swap_reset import reset_state

REPLACEABLE = (
    "SolverFeatherstone",
    "SolverKamino",
    "SolverMuJoCo",
    "SolverSemiImplicit",
    "SolverSteel",
    "SolverVBD",
    "SolverXPBD",
)
"""Rigid-body solvers of Newton that an example may build; the purely soft ones (MPM, Style3D) are left alone."""

_TUNING_CALLS = ("set_rigid_history_update",)
"""Methods of single solvers that only tune that solver; on another one they do nothing."""


@dataclass
class SwapLog:
    """What happened to the solvers that an example asked for."""

    solvers: list[Any] = field(default_factory=list)
    """Solvers built in place of the example's own, in order of construction."""
    replaced: list[str] = field(default_factory=list)
    """Class names the example asked for and did not get, one per entry of ``solvers``."""
    kept: list[str] = field(default_factory=list)
    """Sentences saying what was not swapped or not applied, and why."""


@contextmanager
def swapped_solvers(target: type, *, options: Mapping[str, Any] | None = None) -> Iterator[SwapLog]:
    """Let every rigid-body solver that is built inside the context be a ``target``.

    Args:
        target: Solver class to build instead; where an example asks for this very class, it keeps its own options beside these.
        options: Keywords for ``target`` beside the model; those meant for another solver are dropped.

    Yields:
        The log of what was built; it fills up while the example runs.
    """
    if not isinstance(target, type):
        raise TypeError(f"target must be a solver class, such as newton_sap.registry.get_solver('sap'), not {target!r}")
    log = SwapLog()
    options = dict(options or {})
    originals = {name: getattr(newton.solvers, name) for name in REPLACEABLE}
    initialize = target.__init__
    filled = WeakSet()
    collide = newton.CollisionPipeline.collide

    def noting_collide(pipeline, state, contacts, *args, **kwargs):
        filled.add(contacts)
        return collide(pipeline, state, contacts, *args, **kwargs)

    setattr(newton.CollisionPipeline, "collide", noting_collide)  # noqa: B010, the stand-in takes any arguments
    for name, original in originals.items():
        if original is not target:
            setattr(newton.solvers, name, make_stand_in(original, target, options, log, filled))
    if options and target in originals.values():
        target.__init__ = _with_options(initialize, options)
    try:
        yield log
    finally:
        newton.CollisionPipeline.collide = collide
        if target.__init__ is not initialize:
            target.__init__ = initialize
        for name, original in originals.items():
            setattr(newton.solvers, name, original)


def _with_options(initialize: Callable[..., None], options: Mapping[str, Any]) -> Callable[..., None]:
    """Return a constructor that lets ``options`` win over what an example gives."""

    @wraps(initialize)
    def __init__(self, *args, **kwargs):
        initialize(self, *args, **{**kwargs, **options})

    return __init__


def make_stand_in(original: type, target: type, options: dict[str, Any], log: SwapLog, filled: WeakSet) -> type:
    """Return a class that reads like ``original`` and whose call builds a ``target``.

    Args:
        original: Class the example was written for.
        target: Class to build instead.
        options: Keywords for ``target`` beside the model.
        log: Where to note what was built.
        filled: Contacts that some collision pipeline has written to so far; the example looks after those itself.
    """
    adapted = adapt(target, original)

    class StandIn(type):
        """Metaclass, because calling, ``isinstance`` and attribute reads of a class are defined there."""

        def __call__(cls, model, *args, **kwargs):
            if getattr(model, "particle_count", 0):
                log.kept.append(f"{original.__name__} stays: its model has particles")
                return original(model, *args, **kwargs)
            if _is_cable_part(model):
                log.kept.append(f"{original.__name__} stays: its part of a coupled model has cables")
                return original(model, *args, **kwargs)
            contactless = bool(kwargs.get("disable_contacts"))
            solver = adapted(model, options, contactless=contactless, filled=filled, notes=log.kept)
            log.solvers.append(solver)
            log.replaced.append(original.__name__)
            return solver

        def __instancecheck__(cls, instance):
            # Examples ask this to leave out what their own solver does natively, mostly collision detection.
            return False

        def __getattr__(cls, name):
            return getattr(original, name)

    def register_custom_attributes(builder):
        original.register_custom_attributes(builder)
        target.register_custom_attributes(builder)

    body = {"register_custom_attributes": staticmethod(register_custom_attributes), "__doc__": original.__doc__}
    return StandIn(original.__name__, (), body)


_Solver = newton.solvers.SolverBase if TYPE_CHECKING else object


class _Adapted(_Solver):
    """What examples expect of their own solver, in front of another one: native contacts and their queries.

    :func:`adapt` makes a class of it and the other solver, and says which class the example was written for.
    """

    original_name: ClassVar[str]

    def __init__(self, model, options, *, contactless, filled, notes):
        self._own_pipeline = None if contactless else _pipeline(model)
        self._own_contacts = None if self._own_pipeline is None else self._own_pipeline.contacts()
        self._contactless = contactless
        self._filled = filled
        self._notes = notes
        super().__init__(model, **_required_options(type(self).__name__, self._own_pipeline is None), **options)

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        # A buffer that no pipeline has written to was meant for the native contacts of the example's solver.
        if self._own_pipeline is not None and (contacts is None or contacts not in self._filled):
            contacts = self._own_contacts if contacts is None else contacts
            self._collide(state_in, contacts)
        elif self._contactless:
            contacts = None
        keywords = {} if observables is None else {"observables": observables}
        return super().step(state_in, state_out, control, contacts, dt, **keywords)

    def reset(self, state, world_mask=None, flags=None, *, config=None, **others):
        """Reset; a configuration of SolverKamino is applied to the state first, and the rest is noted."""
        left = list(others)
        if config is not None:
            left += reset_state(self.model, state, config, world_mask, flags)
        if left:
            self._note(f"reset without {', '.join(left)}, which {type(self).__name__} does not know")
        super().reset(state, world_mask, flags)

    def get_max_contact_count(self):
        """Return the capacity [contacts] that a buffer for this model needs."""
        return 0 if self._own_pipeline is None else self._own_pipeline.rigid_contact_max

    def update_contacts(self, contacts, state=None):
        """Bring ``contacts`` up to date for drawing, as far as the solver offers it."""
        try:
            super().update_contacts(contacts, state)
        except NotImplementedError:
            if state is not None and self._own_pipeline is not None and contacts not in self._filled:
                self._collide(state, contacts)

    def _collide(self, state, contacts):
        known = contacts in self._filled
        self._own_pipeline.collide(state, contacts)
        if not known:
            self._filled.discard(contacts)  # still ours to fill at the next step

    def _note(self, sentence):
        if sentence not in self._notes:
            self._notes.append(sentence)

    def __getattr__(self, name):
        if name in _TUNING_CALLS:
            return lambda *args, **kwargs: self._note(f"{name} does nothing: it tunes {self.original_name} alone")
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}; if the example reads it, it depends on the internals of "
            f"{self.original_name}: run it with its own solver (--solver original)"
        )


def adapt(target: type, original: type) -> type:
    """Return a ``target`` for examples that were written for ``original``; it bears the name of ``target``."""
    return type(target.__name__, (_Adapted, target), {"original_name": original.__name__, "__doc__": target.__doc__})


def _is_cable_part(model: Any) -> bool:
    """Whether a coupled solver hands out a part with cables, which stay with the solver that the coupling was set up for."""
    if isinstance(model, newton.Model) or not getattr(model, "joint_count", 0):
        return False
    return bool((model.joint_type.numpy() == int(newton.JointType.ROD)).any())


def _pipeline(model: Any) -> newton.CollisionPipeline | None:
    """Return a pipeline for a model whose example leaves collisions to its solver, or None where nothing collides."""
    if not isinstance(model, newton.Model) or not model.shape_count:
        return None
    if not (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)).any():
        return None
    # Built with the solver rather than on demand: the first step may already be inside a graph capture.
    return newton.CollisionPipeline(model, publish_capacity=False)


def _required_options(solver: str, no_contacts: bool) -> dict[str, Any]:
    """Return the keywords without which a solver would not take the contacts it is given."""
    if solver != "SolverMuJoCo":
        return {}
    return {"disable_contacts": True} if no_contacts else {"use_mujoco_contacts": False}
