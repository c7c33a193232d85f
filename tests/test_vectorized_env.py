"""The vectorised environment of the examples: masked reset, known rewards, flags, and views in Torch and NumPy."""

import importlib.util
import math
import sys
from pathlib import Path

import newton
import numpy as np
import pytest

from newton_sap import SolverSAP

SCRIPT = Path(__file__).parents[1] / "examples" / "vectorized_env.py"
STATE = ("joint_q", "joint_qd", "body_q", "body_qd")
WORLDS = 5


@pytest.fixture(params=["numpy", "torch"])
def script(request, monkeypatch):
    """The example as a module that computes with NumPy, and with Torch where it is installed."""
    if request.param == "torch":
        pytest.importorskip("torch")
    else:
        monkeypatch.setitem(sys.modules, "torch", None)  # importing it now fails
    spec = importlib.util.spec_from_file_location("vectorized_env", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.xp.__name__ == request.param
    return module


def tensor(script, values):
    """Values in the library that the environment computes with."""
    return script.xp.asarray(np.asarray(values))


def put(env, x, tilt):
    """Author a pose at rest through the views alone."""
    env.q[:, 0], env.q[:, 1] = x, math.pi + tilt
    env.qd[:] = 0.0


def snapshot(env):
    """Copies of everything that belongs to a world, one row per world."""
    values = {name: getattr(env.state, name).numpy().reshape(WORLDS, -1).copy() for name in STATE}
    report = env.solver.report()
    ages = np.array(env.age.tolist())
    return values | {
        "steps": env.solver.stats.groups.numpy()["steps"].copy(),
        "age": ages,
        "peak": report.iterations_max.copy(),
    }


def act(script, env, frames=7):
    """Give every world another push, so that all states differ."""
    for frame in range(frames):
        env.step(tensor(script, np.linspace(-1.0, 1.0, WORLDS, dtype=np.float32) * math.cos(frame)))


def test_masked_reset_touches_the_masked_worlds_only(script):
    """Unmasked worlds keep every bit; masked ones start upright, at rest, with bodies where their joints say."""
    env = script.CartpoleEnv(WORLDS)
    act(script, env)
    mask = np.array([True, False, False, True, False])
    before = snapshot(env)
    observation = np.array(env.reset(tensor(script, mask)).tolist())
    after = snapshot(env)
    for name, values in before.items():
        np.testing.assert_array_equal(after[name][~mask].view(np.uint8), values[~mask].view(np.uint8), err_msg=name)
        if name != "peak":
            assert (after[name][mask] != values[mask]).any(axis=-1).all(), name
    assert (after["steps"][mask] == 0).all() and (after["age"][mask] == 0).all()
    assert (before["steps"] == 7 * 4).all() and (before["age"] == 7).all()
    assert (after["joint_qd"][mask] == 0).all() and (after["body_qd"][mask] == 0).all()
    assert (np.abs(observation[mask, :2]) <= 0.0501).all() and len(np.unique(observation[mask, 1])) == 2
    expected = env.model.state()
    newton.eval_fk(env.model, env.state.joint_q, env.state.joint_qd, expected)
    np.testing.assert_array_equal(after["body_q"][mask], expected.body_q.numpy().reshape(WORLDS, -1)[mask])


def test_reset_of_no_world_changes_nothing(script):
    """An empty mask leaves the whole state alone."""
    env = script.CartpoleEnv(WORLDS)
    act(script, env)
    before = snapshot(env)
    env.reset(tensor(script, np.zeros(WORLDS, bool)))
    for name, values in snapshot(env).items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_masked_reset_keeps_the_future_of_the_others(script):
    """Worlds that are not reset go on, bit for bit, as in an environment where nobody is."""
    resets, goes_on = script.CartpoleEnv(WORLDS), script.CartpoleEnv(WORLDS)
    for env in (resets, goes_on):
        act(script, env)
    mask = np.array([False, True, True, False, False])
    resets.reset(tensor(script, mask))
    for env in (resets, goes_on):
        act(script, env)
    one, other = snapshot(resets), snapshot(goes_on)
    for name in STATE:
        np.testing.assert_array_equal(one[name][~mask], other[name][~mask], err_msg=name)
        assert (one[name][mask] != other[name][mask]).any(axis=1).all(), name


def test_rewards_and_flags_of_known_states(script):
    """In equilibria, which a step does not leave: cos(tilt) - x^2 / 10, and termination by position or by tilt."""
    env = script.CartpoleEnv(WORLDS, horizon=3)
    put(
        env,
        tensor(script, np.array([0.0, 1.0, -3.0, 0.0, 1.9], dtype=np.float32)),
        tensor(script, np.array([0.0, 0.0, 0.0, -math.pi, 0.0], dtype=np.float32)),
    )
    for frame in range(3):
        observation, reward, terminated, truncated = env.step(tensor(script, np.zeros(WORLDS, dtype=np.float32)))
        np.testing.assert_allclose(reward.tolist(), [1.0, 0.9, 0.1, -1.0, 0.639], atol=1e-6)
        assert terminated.tolist() == [False, False, True, True, False]
        assert truncated.tolist() == [frame == 2] * WORLDS
    np.testing.assert_allclose(np.array(observation.tolist())[:, 0], [0.0, 1.0, -3.0, 0.0, 1.9], atol=1e-6)


def test_captured_step_equals_eager_steps_with_the_clipped_force(script):
    """A frame is four solver steps with the force of the clipped action on the cart, to the bit."""
    env = script.CartpoleEnv(WORLDS)
    state, control = env.model.state(), env.model.control()
    for name in STATE:
        getattr(state, name).assign(getattr(env.state, name))
    actions = np.array([-7.0, -0.5, 0.0, 0.25, 3.0], dtype=np.float32)
    env.step(tensor(script, actions))
    force = np.zeros((WORLDS, 2), dtype=np.float32)
    force[:, 0] = script.FORCE * np.array([-1.0, -0.5, 0.0, 0.25, 1.0])
    control.joint_f.assign(force.ravel())
    solver = SolverSAP(env.model)
    for _ in range(4):
        solver.step(state, state, control, None, env.frame_dt / 4)
    for name in STATE:
        np.testing.assert_array_equal(getattr(env.state, name).numpy(), getattr(state, name).numpy(), err_msg=name)


def test_the_check_of_the_example_can_fail(script, monkeypatch):
    """With the policy's sign turned around poles fall, and main says so."""
    monkeypatch.setattr(script, "GAINS", tuple(-gain for gain in script.GAINS))
    with pytest.raises(RuntimeError, match="should keep its poles up"):
        script.main(num_frames=120, worlds=4)
