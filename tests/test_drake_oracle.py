"""Step by step against trajectories that Drake's discrete solver computed, under all three contact laws."""

import json
from importlib.util import find_spec

import newton
import numpy as np
import pytest
from oracle import generate, newton_model
from oracle.scenes import SCENES

import newton_sap

ONE_STEP_BAR = 1.0e-5  # of the fastest speed in the scene
FREE_RUN_BAR = 1.0e-3  # [m]
FREE_RUNS = ("ball_drop", "ball_roll_slip", "box_slide_offset_com", "double_pendulum", "pd_arm_effort_limit")


def load(name):
    """Return the stored trajectory of a scene as a dictionary of arrays."""
    with np.load(generate.DATA / f"{name}.npz") as data:
        return {key: data[key] for key in data.files}


class Replay:
    """A Newton model of a scene with solver, contacts and two states."""

    def __init__(self, name):
        self.scene = SCENES[name]
        self.reference = load(name)
        self.model = newton_model.build(self.scene)
        self.solver = newton_sap.SolverSAP(self.model, preset="drake", contact_model=self.scene["law"])
        self.state, self.next = self.model.state(), self.model.state()
        self.control = self.model.control()
        newton_model.set_feed_forward(self.scene, self.model, self.control)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()

    def put(self, step):
        """Take over the reference's state."""
        newton_model.set_state(self.scene, self.model, self.state, self.reference, step)

    def step(self):
        """Return poses and velocities one step later; the new state becomes the current one."""
        self.pipeline.collide(self.state, self.contacts)
        self.solver.step(self.state, self.next, self.control, self.contacts, self.scene["dt"])
        self.state, self.next = self.next, self.state
        return newton_model.get_state(self.model, self.state)


@pytest.mark.parametrize("name", SCENES)
def test_one_step_velocity(name):
    """From every state of the reference, one step gives the reference's next velocity."""
    replay = Replay(name)
    reference = replay.reference["body_v"]
    speed = max(1.0, np.abs(reference).max())
    errors = []
    for step in range(replay.scene["steps"]):
        replay.put(step)
        _, velocity = replay.step()
        errors.append(np.abs(velocity - reference[step + 1]).max() / speed)
    worst = int(np.argmax(errors))
    assert errors[worst] <= ONE_STEP_BAR, f"{name}: {errors[worst]:.2e} at step {worst} of {len(errors)}"


@pytest.mark.parametrize("name", FREE_RUNS)
def test_free_run_position(name):
    """Left alone from the first state, the bodies stay within a millimetre of the reference."""
    replay = Replay(name)
    replay.put(0)
    error = 0.0
    for step in range(replay.scene["steps"]):
        body_q, _ = replay.step()
        error = max(error, np.abs(body_q[:, :3] - replay.reference["body_q"][step + 1, :, :3]).max())
    assert error <= FREE_RUN_BAR, f"{name}: {error:.2e} m"


@pytest.mark.parametrize("name", SCENES)
def test_data_belong_to_the_scene(name):
    """The stored trajectory was computed from the scene as it is written today."""
    stored = json.loads((generate.DATA / f"{name}.json").read_text())
    assert stored["scene"] == json.loads(json.dumps(SCENES[name]))
    assert load(name)["body_q"].shape == (SCENES[name]["steps"] + 1, len(SCENES[name]["bodies"]), 7)


def test_reference_is_reproducible():
    """Drake, where installed, still computes the stored trajectory."""
    if find_spec("pydrake") is None:
        pytest.skip("needs the optional extra: pip install newton-sap[oracle]")
    fresh, stored = generate.simulate(SCENES["box_tumble"], steps=60), load("box_tumble")
    np.testing.assert_allclose(fresh["body_q"], stored["body_q"][:61], atol=1e-9)
    np.testing.assert_allclose(fresh["body_v"], stored["body_v"][:61], atol=1e-8)
