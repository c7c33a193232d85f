"""Cart-poles in many worlds as an environment for reinforcement learning; a linear policy balances every other pole.

Observations, rewards and flags are Torch tensors where Torch is installed, NumPy arrays otherwise.

Run: python examples/vectorized_env.py [--viewer gl]
"""

import math

import newton
import newton.examples
import numpy as np
import warp as wp

from newton_sap import SolverSAP
from newton_sap.scenes import pendulum_cart
from newton_sap.screen import Screen, open_viewer

try:
    import torch as xp
except ImportError:
    xp = np

FORCE = 20.0  # on the cart at action 1 [N]
GAINS = (0.45, 5.3, 0.6, 0.95)  # of the policy: action per observation, from a linear-quadratic regulator


class CartpoleEnv:
    """``reset`` and ``step`` as Gymnasium's vector environments have them, with one row per world."""

    def __init__(self, worlds, seed=0, horizon=500):
        scene = pendulum_cart(world_count=worlds)
        self.model, self.horizon, self.frame_dt = scene.model, horizon, scene.frame_dt
        self.random = np.random.default_rng(seed)
        self.solver, self.state, self.control = SolverSAP(self.model), scene.state(), self.model.control()
        pipeline = newton.CollisionPipeline(self.model)
        contacts = pipeline.contacts()
        self.world_mask = wp.zeros(worlds + 1, dtype=wp.bool)  # the last entry is for what belongs to no world
        self.q, self.qd, self.force = (
            self.view(array).reshape(worlds, 2)
            for array in (self.state.joint_q, self.state.joint_qd, self.control.joint_f)
        )
        self.mask = self.view(self.world_mask)[:worlds]
        self.age = self.view(wp.zeros(worlds, dtype=wp.int32))
        with wp.ScopedCapture() as capture:
            for _ in range(scene.substeps):
                pipeline.collide(self.state, contacts)
                self.solver.step(self.state, self.state, self.control, contacts, scene.dt)
        self.graph = capture.graph
        self.reset()

    @staticmethod
    def view(array):
        """Return a tensor in the memory of a Warp array: what is written to it, the next step reads."""
        if xp is not np:
            return wp.to_torch(array)
        if not array.device.is_cpu:
            raise RuntimeError("NumPy has no view of a GPU's memory: install Torch or choose --device cpu")
        return array.numpy()

    def reset(self, mask=None):
        """Put the chosen worlds, or all, near the upright pose and return everyone's observations."""
        self.mask[:] = True if mask is None else mask
        start = (0.0, math.pi) + self.random.uniform(-0.05, 0.05, self.q.shape)
        self.q[self.mask] = self.view(wp.array(start, dtype=wp.float32))[self.mask]
        self.qd[self.mask] = 0.0
        self.age[self.mask] = 0
        chosen = self.world_mask[: len(self.q)]  # a world holds one articulation
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state, mask=chosen)
        self.solver.reset(self.state, self.world_mask)
        return self.observe()

    def observe(self):
        """Return position, tilt from upright and their rates, (worlds, 4)."""
        return xp.stack([self.q[:, 0], self.q[:, 1] - math.pi, self.qd[:, 0], self.qd[:, 1]], 1)

    def step(self, action):
        """Advance all worlds by a frame; return observations, rewards, terminated and truncated."""
        self.force[:, 0] = FORCE * xp.clip(action, -1.0, 1.0)
        wp.capture_launch(self.graph)
        self.age += 1
        observation = self.observe()
        x, tilt = observation[:, 0], observation[:, 1]
        reward = xp.cos(tilt) - 0.1 * x**2
        return observation, reward, (abs(x) > 2.0) | (abs(tilt) > 0.5), self.age >= self.horizon


def main(viewer=None, num_frames=240, worlds=64):
    """Let the policy act in the worlds of odd number, check who falls and return each world's falls."""
    env = CartpoleEnv(worlds)
    screen = Screen(viewer, env.model, eye=(9.0, 0.0, 3.0), target=(0.0, 0.0, 0.0), spacing=(0.0, 1.0, 0.0))
    observation, falls, total = env.reset(), np.zeros(worlds, int), 0.0
    gains = env.view(wp.array(GAINS, dtype=wp.float32))
    acts = env.view(wp.array(np.arange(worlds) % 2, dtype=wp.float32))
    for frame in range(num_frames):
        observation, reward, terminated, truncated = env.step(acts * (observation @ gains))
        falls += np.array(terminated.tolist())
        total += float(reward[1::2].mean())
        observation = env.reset(terminated | truncated)
        screen.show(env.state, (frame + 1) * env.frame_dt)

    print(env.solver.report())
    print(
        f"with the policy {falls[1::2].sum()} falls, mean reward {total / num_frames:.4f}; without {falls[::2].sum()}"
    )
    if falls[1::2].any():
        raise RuntimeError(f"the policy should keep its poles up, but they fell {falls[1::2].sum()} times")
    if num_frames >= 240 and not falls[::2].all():
        raise RuntimeError("a pole that nobody balances should fall within four seconds")
    screen.stay()
    return falls


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null", num_frames=240)
    viewer, args = open_viewer(parser)
    main(viewer, args.num_frames)
