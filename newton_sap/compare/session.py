"""The comparison itself: every contestant on a model of its own, the reference, and all of it in one object."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

from .. import registry, scenes
from ..suggest import suggestion
from .contestants import Contestant, SpecificationError, absence, parameters, parse_contestant
from .measures import measure
from .record import Recording, record
from .theory import SUBJECTS, Prediction, Subject, predictions

REFINE = 16
"""Divisor of the reference's time step."""


class SceneNotFoundError(LookupError):
    """No scene has the name asked for."""


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    scene: str
    solvers: tuple[str, ...]
    """Labels of the contestants, in order."""
    frames: int
    reference: bool
    """Whether a fine run of SAP was made to compare with."""
    device: str | None = None
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Keywords given by label or name of a solver."""


@dataclass
class Outcome:
    """One contestant's row."""

    label: str
    contestant: Contestant
    metrics: dict[str, float | None] = field(default_factory=dict)
    """By key of :data:`METRICS`."""
    parameters: dict[str, str] = field(default_factory=dict)
    """What the solver was given, as text."""
    recording: Recording | None = None
    failure: str = ""
    """Why there is no result: the solver is broken, missing or raised; empty otherwise."""
    details: str = ""
    """Traceback of what it raised."""
    solver: Any = None
    """The solver as it was built."""
    dt: float = 0.0
    """Time step [s]."""

    @property
    def verdict(self) -> str:
        """``"ok"``, or in words what went wrong."""
        if self.failure:
            return f"no result: {self.failure}"
        assert self.recording is not None
        if self.recording.diverged_at is not None:
            return f"diverged at {self.recording.diverged_at:.3g} s"
        return "; ".join(self.recording.complaints) or "ok"


@dataclass
class Comparison:
    """Everything a comparison found."""

    settings: Settings
    scene: scenes.Scene
    outcomes: list[Outcome]
    reference: Outcome | None
    """The fine run of SAP, None if it was not asked for or failed."""
    predictions: list[Prediction]
    facts: dict[str, Any]
    """Versions, machine, options and date."""

    @property
    def complete(self) -> bool:
        """Whether every contestant ran, and SAP, where it took part, to a healthy end."""
        return all(not row.failure and (row.contestant.solver != "sap" or row.verdict == "ok") for row in self.outcomes)

    def __getitem__(self, label: str) -> Outcome:
        """Return the row of a contestant."""
        for row in self.outcomes:
            if row.label == label:
                return row
        labels = [row.label for row in self.outcomes]
        raise KeyError(f"no row {label!r}{suggestion(label, labels)} (rows: {', '.join(labels)})")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, trajectories thinned out, ready for JSON."""
        from .report import as_dict

        return as_dict(self)

    def markdown(self) -> str:
        """Return the tables as Markdown."""
        from .report import markdown

        return markdown(self)

    def html(self) -> str:
        """Return the report as one self-contained page; needs matplotlib."""
        from .html import page

        return page(self)

    def _repr_html_(self) -> str:
        from .html import metrics_table

        return metrics_table(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``compare.json``, ``compare.md`` and ``compare.html`` into a folder and return their paths."""
        from .report import write

        return write(self, Path(folder))


def compare(
    scene: str | Callable[[], scenes.Scene],
    solvers: str | Sequence[str] = ("sap", "mujoco", "featherstone", "xpbd"),
    *,
    frames: int | None = None,
    reference: bool = True,
    options: Mapping[str, dict[str, Any]] | None = None,
    device: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Run one scene under several solvers and return what each of them did.

    Args:
        scene: Name of a scene of :data:`newton_sap.scenes.SCENES`, or a function that builds one; it is called once per
            solver, so that none sees what another did to the model.
        solvers: Names in the registry, as a list or with commas; ``"featherstone/16"`` divides the time step by 16.
        frames: Frames to simulate; None for as many as the scene needs.
        reference: Also run SAP with a 16 times smaller step, and give every solver's distance from it.
        options: Keywords of solvers beside the model, by name or label.
        device: Warp device; None for the default.
        progress: Called with the label of each run before it starts.

    Raises:
        SceneNotFoundError: No such scene; the message holds the nearest and all names.
        newton_sap.registry.SolverNotFoundError: No such solver.
        SpecificationError: A contestant written wrongly or named twice, a device that is not there, fewer than one frame,
            or a scene that is neither a name nor a function.
    """
    import warp as wp

    from .report import facts

    given = dict(options or {})
    contestants = [_known(parse_contestant(text, given)) for text in _names(solvers)]
    labels = tuple(contestant.label for contestant in contestants)
    _check(labels, given, frames)
    build = _builder(scene)
    tell = progress or (lambda label: None)
    with wp.ScopedDevice(_device(device)):
        shown = build()
        if not isinstance(shown, scenes.Scene):
            found = type(shown).__name__
            raise SpecificationError(f"the function of a scene must return a newton_sap.scenes.Scene, not {found}")
        settings = Settings(
            scene=shown.name,
            solvers=labels,
            frames=frames or SUBJECTS.get(shown.name, Subject()).frames,
            reference=reference,
            device=device,
            options=given,
        )
        fine = None
        if reference:
            tell("reference")
            fine = _run(Contestant("newton_sap:SolverSAP", REFINE), build, settings.frames)
        outcomes = []
        for contestant in contestants:
            tell(contestant.label)
            outcomes.append(_run(contestant, build, settings.frames))
        return _conclude(settings, shown, outcomes, fine, facts(settings))


def _conclude(settings, shown, outcomes: list[Outcome], fine: Outcome | None, known: dict) -> Comparison:
    """Measure every run against the reference."""
    if fine is not None and (fine.recording is None or fine.recording.diverged_at is not None):
        fine = None
    for row in outcomes + ([] if fine is None else [fine]):
        if row.recording is not None:
            row.metrics = measure(shown, row.recording, None if fine is None or row is fine else fine.recording)
    ran = {row.label: (row.solver, row.dt) for row in outcomes if row.recording is not None}
    return Comparison(settings, shown, outcomes, fine, predictions(shown, ran), known)


def _names(solvers: str | Sequence[str]) -> list[str]:
    """Return the names one by one; a string has them with commas."""
    if isinstance(solvers, str):
        return [name for name in solvers.split(",") if name.strip()]
    try:
        return list(solvers)
    except TypeError as error:
        raise SpecificationError(f"solvers are a list of names or a string with commas, not {solvers!r}") from error


def _check(labels: tuple[str, ...], options: dict, frames: int | None) -> None:
    if not labels:
        raise SpecificationError("name at least one solver")
    for label in labels:
        if labels.count(label) > 1:
            raise SpecificationError(f"{label} is named twice; give one of them another time step, as in {label}/4")
    for name in options:
        if name not in labels and name not in {label.partition("/")[0] for label in labels}:
            raise SpecificationError(f"options are given for {name!r}, which is not among {', '.join(labels)}")
    if frames is not None and (not isinstance(frames, Integral) or frames < 1):
        raise SpecificationError(f"frames must be an integer >= 1, not {frames!r}")


def _device(name: str | None):
    import warp as wp

    try:
        return wp.get_device(name)
    except Exception as error:  # Warp raises different ones for malformed and for absent devices
        raise SpecificationError(f"device {name!r} cannot be used: {error}") from error


def _builder(scene: str | Callable[[], scenes.Scene]) -> Callable[[], scenes.Scene]:
    if callable(scene):
        return scene
    if not isinstance(scene, str):
        given = type(scene).__name__
        raise SpecificationError(f"a scene is a name or a function that returns a newton_sap.scenes.Scene, not {given}")
    name = registry.normalise(scene)
    if name not in scenes.SCENES:
        hint = suggestion(name, scenes.SCENES)
        raise SceneNotFoundError(f"no scene named {scene!r}{hint} (scenes: {', '.join(scenes.SCENES)})")
    return scenes.SCENES[name]


def _known(contestant: Contestant) -> Contestant:
    """Return a contestant whose solver is installed, broken or not, and has the options that are given."""
    if registry.describe_solver(contestant.solver).status != "broken" and contestant.options:
        try:
            registry.check_options(registry.get_solver(contestant.solver), contestant.options)
        except registry.UnknownOptionError as error:
            raise SpecificationError(str(error)) from error
    return contestant


def _run(contestant: Contestant, build: Callable[[], scenes.Scene], frames: int) -> Outcome:
    """Run one contestant; whatever it raises becomes its row's reason."""
    outcome = Outcome(contestant.label, contestant)
    outcome.failure = absence(contestant.solver)
    if outcome.failure:
        return outcome
    try:
        scene = build()
        outcome.dt = scene.dt / contestant.refine
        solver_class = registry.get_solver(contestant.solver)
        outcome.recording, run = record(scene, contestant, solver_class, frames)
        outcome.solver = run.solver
        outcome.parameters = parameters(contestant, scene, run.solver, run.mode, run.why_eager)
    except Exception as error:  # a solver may fail in any way; its row says so and the others go on
        outcome.recording = None
        outcome.failure = f"{type(error).__name__}: {error}".partition("\n")[0]
        outcome.details = traceback.format_exc()
    return outcome
