"""Random models under random sequences of operations: whatever was done before, each step is right and worlds stay apart."""

from __future__ import annotations

from functools import cache

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from rig import Rig, link, material, weightless

from newton_sap import SolverSAP
from newton_sap.diagnostics import REASONS
from newton_sap.reference import ReferenceSolver

TOUCHED = 1
"""Changes of values are made in this world only; no bit of the others may depend on them."""

STEP_LENGTHS = (1e-4, 1e-3, 0.005, 0.02)
FLAGS = [f for f in newton.ModelFlags if bin(int(f)).count("1") == 1]
OPTIONS = (
    {},
    {"contact_model": "sap"},
    {"contact_model": "similar"},
    {"precision": "mixed"},
    {"preset": "drake"},
    {"preset": "approx64"},
    {"spin_friction": True, "drive_integration": "explicit"},
)
CHANGED = {
    "model": ("body_mass", "body_inertia", "body_flags", "joint_armature", "joint_damping", "joint_friction",
              "joint_target_ke", "joint_target_kd", "joint_limit_ke", "gravity", "shape_material_ke",
              "shape_material_kd", "shape_material_mu"),
    "state": rm.STATE_ARRAYS,
    "control": rm.CONTROL_ARRAYS,
}  # fmt: skip


class Machine:
    """Three worlds, a solver and a state; made once per seed and put back to its start for every example."""

    def __init__(self, seed):
        self.worlds = rm.Assembly([3 * seed, 3 * seed + 1, 3 * seed + 2], friction=seed % 2 == 0, velocity_limits=True)
        self.model, self.state, self.control = self.worlds.model, self.worlds.state, self.worlds.control
        self.options = OPTIONS[seed % len(OPTIONS)]
        self.solver, self.spare = SolverSAP(self.model, **self.options), self.model.state()
        self.start = {
            (owner, n): self._array(owner, n).numpy().copy() for owner, names in CHANGED.items() for n in names
        }

    def _array(self, owner, name):
        return getattr(getattr(self, owner), name)

    def restart(self):
        """Values, state and counters as they were at first; the solver itself is not made anew."""
        for (owner, name), values in self.start.items():
            self._array(owner, name).assign(values)
        self.solver.reset(self.state)
        self.last = None
        return self

    # Operations on all worlds

    def _arguments(self, number):
        # Contacts that do not follow their bodies, and gyroscopic forces at 20 ms, would drive some worlds to 1e9 m/s.
        self.state.joint_qd.assign(np.clip(self.state.joint_qd.numpy(), -10.0, 10.0))
        control = self.control if number % 3 else None
        contacts = self.worlds.contacts if number % 5 else None
        return control, contacts, STEP_LENGTHS[number // 15 % len(STEP_LENGTHS)]

    def step(self, number):
        """Step into another state."""
        self.last = self._arguments(number)
        self.before = {n: getattr(self.state, n).numpy().copy() for n in rm.STATE_ARRAYS}
        self.spare.body_f.assign(self.state.body_f)
        self.solver.step(self.state, self.spare, *self.last)
        self.state, self.spare = self.spare, self.state

    def step_in_place(self, number):
        """Step a state into itself."""
        self.last = self._arguments(number)
        self.before = {n: getattr(self.state, n).numpy().copy() for n in rm.STATE_ARRAYS}
        self.solver.step(self.state, self.state, *self.last)

    def replay(self, number):
        """Record a step in place and replay it a few times."""
        self.last = None
        arguments = self._arguments(number)
        with wp.ScopedCapture(device="cpu") as capture:
            self.solver.step(self.state, self.state, *arguments)
        for _ in range(1 + number % 3):
            wp.capture_launch(capture.graph)

    # Operations that the other worlds must not feel

    def reset(self, number):
        """Reset under a random mask; exactly the masked counters are forgotten, and no array of the state is."""
        before = self.solver.stats.steps.numpy().copy()
        mask = [bool(number >> w & 1) for w in range(3)] + [bool(number & 8)]
        self.solver.reset(self.state, wp.array(mask, dtype=wp.bool))
        np.testing.assert_array_equal(self.solver.stats.steps.numpy(), np.where(mask[:3], 0, before))

    def notify(self, number):
        """Announce a random set of changes."""
        self.solver.notify_model_changed(sum(int(f) for i, f in enumerate(FLAGS) if number >> i & 1))

    def _change(self, owner, name, rows, new):
        array = self._array(owner, name)
        values = array.numpy()
        values[rows] = new(values[rows])
        array.assign(values)

    def masses(self, number):
        """Scale the masses of a world by up to ten either way."""
        factor = 10.0 ** np.random.default_rng(number).uniform(-1.0, 1.0)
        for name in ("body_mass", "body_inertia"):
            self._change("model", name, self._bodies(), lambda x: x * np.float32(factor))

    def materials(self, number):
        """Draw the materials of a world."""
        rng, rows = np.random.default_rng(number), self.model.shape_world.numpy() == TOUCHED
        self._change("model", "shape_material_ke", rows, lambda x: 10.0 ** rng.uniform(3.0, 7.0, x.shape))
        self._change("model", "shape_material_kd", rows, lambda x: rng.uniform(0.0, 1e3, x.shape))
        self._change("model", "shape_material_mu", rows, lambda x: rng.uniform(0.0, 1.5, x.shape))

    def gains(self, number):
        """Draw gains, damping, friction and armature of a world's joints."""
        rng, rows = np.random.default_rng(number), self._dofs()
        for name in ("joint_target_ke", "joint_limit_ke"):
            self._change("model", name, rows, lambda x: 10.0 ** rng.uniform(0.0, 6.0, x.shape))
        for name in ("joint_target_kd", "joint_damping", "joint_friction", "joint_armature"):
            self._change("model", name, rows, lambda x: x * rng.uniform(0.2, 2.0, x.shape))

    def flags(self, number):
        """Make a world's first root kinematic, or dynamic again."""
        self._change("model", "body_flags", [self._bodies().start], lambda x: x ^ int(newton.BodyFlags.KINEMATIC))

    def gravity(self, number):
        """Turn a world's gravity."""
        self._change("model", "gravity", TOUCHED, lambda x: np.random.default_rng(number).uniform(-10.0, 10.0, 3))

    def kick(self, number):
        """Draw velocities, forces and targets of a world."""
        rng = np.random.default_rng(number)
        for owner, name in (("state", "joint_qd"), ("control", "joint_f"), ("control", "joint_target_qd")):
            self._change(owner, name, self._dofs(), lambda x: rng.normal(size=x.shape))
        self._change("state", "body_f", self._bodies(), lambda x: rng.normal(size=x.shape))

    def _bodies(self):
        return list(self.worlds.bodies.values())[TOUCHED]

    def _dofs(self):
        return list(self.worlds.dofs.values())[TOUCHED]

    # What must hold

    def others(self):
        """Bits of the worlds that no change was made in."""
        parts = self.worlds.split(self.state.joint_qd.numpy(), self.state)
        return [array.copy() for w, part in enumerate(parts.values()) if w != TOUCHED for array in part]

    def touched(self):
        """Velocities of the world that changes are made in."""
        return self.state.joint_qd.numpy()[self._dofs()]

    def assert_sound(self):
        """Finite, every step converged, nothing dropped, residuals below the tolerance."""
        report, options = self.solver.report(), self.solver.options
        assert report.healthy, str(report)
        assert {REASONS[r] for r in report.reason} <= {"unconstrained", "optimal", "cost settled"}
        bound = options.optimality_abs + options.optimality_rel * report.scale
        assert np.all((report.residual <= bound) | (report.reason != REASONS.index("optimal")))
        assert np.all(report.residual <= 1e-3 * report.scale + 1e-12)
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            assert np.isfinite(getattr(self.state, name).numpy()).all(), name

    def assert_momentum_balance(self):
        """A (v - v_star) = J' gamma at the velocity of the last step, by the NumPy problem of the same inputs."""
        if self.last is None:
            return
        control, contacts, dt = self.last
        start = self.model.state()
        for name, values in self.before.items():
            getattr(start, name).assign(values)
        v = self.solver.inspect().v
        truth = ReferenceSolver(self.model, **self.options, max_iterations=0).step(start, control, contacts, dt)
        for problem, _ in truth.solutions:
            u = v[problem.dofs]
            D = 1.0 / np.sqrt(np.diag(problem.A))
            scale = max(np.linalg.norm(D * (problem.A @ u)), np.linalg.norm(D * problem.constraint_impulse(u)))
            assert np.linalg.norm(D * problem.gradient(u)) <= 1e-4 * scale + 1e-12


FELT_BY_ALL = ("step", "step_in_place", "replay")
FELT_BY_ONE = ("reset", "notify", "masses", "materials", "gains", "flags", "gravity", "kick")


def sequence(number):
    """Draw a model, its operations and the last step; the same whatever else is loaded, unlike hypothesis' own draws."""
    rng = np.random.default_rng(number)
    names = rng.choice(FELT_BY_ALL + FELT_BY_ONE, size=rng.integers(3, 17))
    return int(rng.integers(0, 14)), [(str(n), int(rng.integers(0, 4096))) for n in names], int(rng.integers(0, 4096))


@cache
def machines(seed):
    """The machine that gets every operation, and its twin."""
    return Machine(seed), Machine(seed)


@pytest.mark.parametrize("number", range(200))
def test_any_sequence_of_operations(number):
    """Each step converges to the balance of momentum, and worlds nobody touched keep the bits of an untouched run."""
    seed, operations, last = sequence(number)
    machine, twin = (m.restart() for m in machines(seed))
    for name, value in [*operations, ("step", last)]:
        getattr(machine, name)(value)
        if name in FELT_BY_ALL:
            getattr(twin, name)(value)
            machine.assert_sound()
        for mine, truth in zip(machine.others(), twin.others(), strict=True):
            np.testing.assert_array_equal(mine, truth)
    machine.assert_momentum_balance()


def test_operations_are_felt():
    """The changes above do change the touched world: without this the test of the others would be empty."""
    for name in ("masses", "materials", "gains", "flags", "gravity", "kick"):
        moved = []
        for seed in range(4):  # a fixed root, say, does not feel that it turned kinematic
            machine, twin = (m.restart() for m in machines(seed))
            getattr(machine, name)(7)
            for m in (machine, twin):
                m.step(4 * 15 - 1)
            moved.append(np.abs(machine.touched() - twin.touched()).max())
        assert max(moved) > 1e-6, name


@pytest.mark.parametrize("law", ["lagged", "sap", "similar"])
def test_driven_finger_stops_at_the_ground(law):
    """A strong drive that starts from rest 2 mm above the ground does not pass the contact that the pipeline reported."""
    builder = weightless()
    body, at = link(builder, 0.1), wp.transform(wp.vec3(0.0, 0.0, 0.102), wp.quat_identity())
    drive = dict(target_ke=1e4, target_kd=1.0, target_q=-0.05, actuator_mode=newton.JointTargetMode.POSITION)
    builder.add_articulation([builder.add_joint_prismatic(-1, body, axis=newton.Axis.Z, parent_xform=at, **drive)])
    builder.add_shape_sphere(body, radius=0.1, cfg=material(1e6, 1e3, gap=0.02))
    builder.add_ground_plane(cfg=material(1e6, 1e3, gap=0.02))
    rig = Rig(builder, 0.01, contact_model=law)
    rig.pipeline.collide(rig.state, rig.contacts)
    truth = ReferenceSolver(rig.model, contact_model=law).step(rig.state, rig.control, rig.contacts, rig.dt)
    rig.run()
    np.testing.assert_allclose(rig.v, truth.joint_qd, rtol=1e-4)
