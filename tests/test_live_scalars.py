"""The curves that ``newton-sap run`` shows beside the picture."""

import math
from types import SimpleNamespace

import newton
import newton.examples
import newton.solvers
import numpy as np
import pytest
import warp as wp
from newton.viewer import ViewerNull

from newton_sap import SolverSAP, scenes
from newton_sap.cli.example import run_example
from newton_sap.cli.live import LiveScalars, noting_contacts

NAMES = ["contact force total [N]", "log10 of residual over scale", "iterations"]


class Recorder(ViewerNull):
    """A viewer that draws nothing and remembers frames and scalars in their order."""

    made = []

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.events = []
        Recorder.made.append(self)

    def log_scalar(self, name, value, *, clear=False, smoothing=1):
        self.events.append((name, value))

    def end_frame(self):
        self.events.append("end")
        super().end_frame()


class Rig:
    """A scene that steps and renders as an example does, its steps recorded into a graph before any viewer listens."""

    def __init__(self, scene, *, owns_pipeline=False, **options):
        self.scene, self.model = scene, scene.model
        pipeline = newton.CollisionPipeline(self.model)
        options |= {"collision_pipeline": pipeline} if owns_pipeline else {}
        self.solver = noting_contacts(SolverSAP)(self.model, **options)
        self.state, self.control = scene.state(), self.model.control()
        contacts = None if owns_pipeline else pipeline.contacts()
        with wp.ScopedCapture() as capture:
            for _ in range(scene.substeps):
                if not owns_pipeline:
                    pipeline.collide(self.state, contacts)
                self.solver.step(self.state, self.state, self.control, contacts, scene.dt)
        self.graph = capture.graph
        self.viewer = Recorder()
        self.live = LiveScalars(self.viewer, self.solver)

    def frame(self, step=True):
        """One frame; return what the viewer saw of it."""
        self.viewer.events.clear()
        if step:
            wp.capture_launch(self.graph)
            self.live.stepped = True
        self.viewer.end_frame()
        return list(self.viewer.events)


@pytest.mark.parametrize("owns_pipeline", [False, True])
def test_the_force_of_a_tower_at_rest_is_its_weights(owns_pipeline):
    """Each box carries those above it: four boxes at rest make 4 + 3 + 2 + 1 times the weight of one."""
    rig = Rig(scenes.box_stack(count=4), owns_pipeline=owns_pipeline)
    iterations = 0
    for _ in range(90):
        events = rig.frame()
        values, report = dict(events[:-1]), rig.solver.report()
        assert values["iterations"] == report.iterations.max()
        relative = (report.residual / report.scale).max()
        assert values["log10 of residual over scale"] == pytest.approx(math.log10(relative))
        iterations = max(iterations, values["iterations"])
    assert [name for name, _ in events[:-1]] == NAMES and events[-1] == "end"
    assert values["contact force total [N]"] == pytest.approx(10 * rig.scene.weight() / 4, rel=0.01)
    assert iterations > 0


def test_without_contact_there_is_no_force():
    """A pendulum on a rail touches nothing."""
    values = dict(Rig(scenes.pendulum_cart()).frame()[:-1])
    assert values == {"contact force total [N]": 0.0, "log10 of residual over scale": -20.0, "iterations": 0.0}


def test_a_paused_frame_logs_nothing():
    """Where the viewer is paused, the curves stand still."""
    rig = Rig(scenes.pendulum_cart(world_count=2))
    assert len(rig.frame()) == len(NAMES) + 1
    assert rig.frame(step=False) == ["end"]


@pytest.mark.parametrize("capacity", [3, 200])
def test_a_capacity_of_ones_own_is_no_obstacle(capacity):
    """The forces have a row for every contact of the pipeline, whatever room the solver was given."""
    rig = Rig(scenes.box_stack(count=4), max_contacts=capacity)
    values = dict(rig.frame()[:-1])
    assert np.isfinite(values["contact force total [N]"])
    assert len(rig.live.forces) == rig.solver.contacts_of_step.rigid_contact_max != capacity


def test_nobody_is_bothered_who_shows_nothing():
    """ViewerNull, a viewer without scalars and a solver without a report keep their own end of frame."""
    model = scenes.pendulum_cart().model
    silent, bare, other = ViewerNull(), SimpleNamespace(end_frame=len), Recorder()
    LiveScalars(silent, SolverSAP(model))
    LiveScalars(bare, SolverSAP(model))
    LiveScalars(other, newton.solvers.SolverFeatherstone(model))
    assert "end_frame" not in vars(silent) and bare.end_frame is len and "end_frame" not in vars(other)


def test_noting_contacts_changes_no_other_class():
    """Only SolverSAP is asked; its name stays, so that reports name it as before."""
    assert noting_contacts(newton.solvers.SolverXPBD) is newton.solvers.SolverXPBD
    assert noting_contacts(SolverSAP).__name__ == "SolverSAP" and noting_contacts(SolverSAP) is not SolverSAP


@pytest.mark.parametrize("example", ["basic_urdf", "basic_pendulum"])
def test_an_example_of_newton_shows_its_curves(monkeypatch, example):
    """Every frame of a run has one value of each scalar, before the frame ends; the last are those of the report."""
    monkeypatch.setattr(newton.viewer, "ViewerNull", Recorder)
    monkeypatch.setattr(Recorder, "made", [])
    result = run_example(example, "sap", ["--viewer", "null", "--num-frames", "8", "--quiet"])
    assert result.ok, result.details
    (viewer,) = Recorder.made
    frames = "|".join("end" if event == "end" else event[0] for event in viewer.events).split("|end")
    assert len(frames) == 9 and all(frame.strip("|").split("|") == NAMES for frame in frames[:-1])
    values = dict(viewer.events[-4:-1])
    assert values["iterations"] == result.report["iterations"]
    assert (values["contact force total [N]"] > 0.0) == (result.report["contacts"] > 0)
