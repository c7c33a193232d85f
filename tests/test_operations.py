"""Random models under random sequences of operations: whatever was done before, each step is right and worlds stay apart.

``pytest tests/test_operations.py --operations 2000`` runs that many sequences instead of fifty, ``--operations 500:1000``
those with these numbers.
"""

from __future__ import annotations

from functools import cache

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from rig import Rig, link, material, weightless

from newton_sap import SolverSAP
from newton_sap.contacts.rows import ENTRIES
from newton_sap.diagnostics import REASONS
from newton_sap.inspection import live_slots
from newton_sap.reference import ReferenceSolver, Spin
from newton_sap.reference.convex import Contact

TOUCHED = 1
"""Changes of values are made in this world only; no bit of the others may depend on them."""

ASTRAY = 0.1
"""How far [m, or in a quaternion's components] bodies may go from where the contacts were made; no pipeline reports farther."""

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
        kind = self.solver.ObservableKind.CONTACT_F
        self.observed = self.solver.observables([kind], contacts=self.worlds.contacts)
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

    def _bring_back(self):
        """Put each world back to its start whose bodies have left the contacts, which do not follow them."""
        now, start = self.state.body_q.numpy(), self.start["state", "body_q"]
        now[:, 3:] *= np.sign(np.sum(now[:, 3:] * start[:, 3:], axis=1, keepdims=True))
        world, first = self.model.joint_world.numpy(), self.model.joint_q_start.numpy()
        for number, bodies in enumerate(self.worlds.bodies.values()):
            if not np.abs(now[bodies] - start[bodies]).max() <= ASTRAY:
                joints = np.flatnonzero(world == number)
                rows = slice(first[joints[0]], first[joints[-1] + 1])
                self._change("state", "joint_q", rows, lambda _, rows=rows: self.start["state", "joint_q"][rows])

    def _arguments(self, number):
        self._bring_back()
        # Contacts that do not follow their bodies, and gyroscopic forces at 20 ms, would drive some worlds to 1e9 m/s.
        self.state.joint_qd.assign(np.clip(self.state.joint_qd.numpy(), -10.0, 10.0))
        control = self.control if number % 3 else None
        contacts = self.worlds.contacts if number % 5 else None
        return control, contacts, STEP_LENGTHS[number // 15 % len(STEP_LENGTHS)]

    def _note(self, arguments):
        """Keep what the next step starts from, and return its arguments."""
        self.last = arguments
        self.before = {n: getattr(self.state, n).numpy().copy() for n in rm.STATE_ARRAYS}
        return {"observables": None if arguments[1] is None else self.observed}

    def step(self, number):
        """Step into another state."""
        arguments = self._arguments(number)
        observed = self._note(arguments)
        self.spare.body_f.assign(self.state.body_f)
        self.solver.step(self.state, self.spare, *arguments, **observed)
        self.state, self.spare = self.spare, self.state

    def step_in_place(self, number):
        """Step a state into itself."""
        arguments = self._arguments(number)
        self.solver.step(self.state, self.state, *arguments, **self._note(arguments))

    def replay(self, number):
        """Record a step in place and replay it a few times."""
        arguments = self._arguments(number)
        with wp.ScopedCapture() as capture:
            self.solver.step(self.state, self.state, *arguments, **self._note(arguments))
        for _ in range(1 + number % 3):
            self._note(arguments)
            wp.capture_launch(capture.graph)

    # Operations that the other worlds must not feel

    def reset(self, number):
        """Reset under a random mask; exactly the masked counters are forgotten, and no array of the state is."""
        before = self.solver.stats.groups.numpy()["steps"].copy()
        mask = [bool(number >> w & 1) for w in range(3)] + [bool(number & 8)]
        self.solver.reset(self.state, wp.array(mask, dtype=wp.bool))
        np.testing.assert_array_equal(self.solver.stats.groups.numpy()["steps"], np.where(mask[:3], 0, before))

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

    def assert_right(self):
        """The last step against the NumPy problem of its inputs: momentum balances, every contact obeys its law."""
        start = self.model.state()
        for name, values in self.before.items():
            getattr(start, name).assign(values)
        v = self.solver.inspect().v
        truth = ReferenceSolver(self.model, **self.options, max_iterations=0).step(start, *self.last)
        for problem, _ in truth.solutions:
            problem.wake_contacts(v[problem.dofs])
            self._take_bounds(problem)
            problem.wake(v[problem.dofs])
            self._assert_momentum_balance(problem, v[problem.dofs])
        if self.last[1] is not None:
            self._assert_laws(
                [c for problem, _ in truth.solutions for c in problem.contacts if not isinstance(c, Spin)], v
            )

    def _take_bounds(self, problem):
        """Bound friction in the reference's problem as the solver did, which read the bounds from its iterates."""
        pool = self.solver.pool
        live = live_slots(pool)
        entries = pool.row.numpy()[live].tolist()
        read = zip(pool.n0.numpy()[live].tolist(), pool.slip_scale.numpy()[live].tolist(), strict=True)
        bounds = dict(zip(entries, read, strict=True))
        for c in problem.contacts:
            spins = isinstance(c, Spin)
            entry = int(ENTRIES) * c.index + 2 * (c.contact if spins else c).corner + spins
            if entry in bounds and (spins or (isinstance(c, Contact) and c.model == "lagged")):
                c.n0, c.slip_scale = bounds[entry]

    def _assert_momentum_balance(self, problem, u):
        """A (v - v_star) = J' gamma at the velocity of the step."""
        D = 1.0 / np.sqrt(np.diag(problem.A))
        scale = max(np.linalg.norm(D * (problem.A @ u)), np.linalg.norm(D * problem.constraint_impulse(u)))
        assert np.linalg.norm(D * problem.gradient(u)) <= 1e-4 * scale + 1e-12

    def _assert_laws(self, contacts, v):
        """Optimality conditions of every contact row; rows that are in no problem carry no force."""
        gammas = -self.last[2] * self.observed.contact_f.numpy()[:, :3].astype(float)
        law = self.solver.options.contact_model
        for c in contacts:
            gamma, vc = gammas[c.index], c.J @ v + c.bias
            g_n, v_n = c.n @ gamma, c.n @ vc
            g_t, v_t = gamma - g_n * c.n, vc - v_n * c.n
            # Observed impulses are float32, and the cone of sap is smoothed by 1e-7 N s.
            g_error = 1e-6 * np.linalg.norm(gamma) + 2e-7
            v_error = 1e-6 * (np.linalg.norm(vc) + abs(c.v_hat)) + (c.R_n + c.R_t * (1.0 + c.mu)) * g_error
            assert g_n >= -g_error
            assert g_t @ v_t <= 4.0 * (np.linalg.norm(g_t) * v_error + np.linalg.norm(v_t) * g_error) + 1e-12
            assert np.linalg.norm(g_t) <= c.mu * (c.n0 if law == "lagged" else g_n) + (1.0 + c.mu) * g_error
            if law == "sap":
                rate = (v_n + c.R_n * g_n - c.v_hat) * c.n + v_t + c.R_t * g_t
                dual = c.n @ rate - c.mu * np.linalg.norm(rate - (c.n @ rate) * c.n)
                power = np.linalg.norm(gamma) * v_error + np.linalg.norm(rate) * g_error
                assert dual >= -4.0 * (1.0 + c.mu) * v_error
                assert abs(gamma @ rate) <= 4.0 * (1.0 + c.mu) * power + 1e-12
            elif law == "lagged":
                assert v_n < c.normal.release() or g_n <= g_error
        in_no_problem = np.ones(len(gammas), dtype=bool)
        in_no_problem[[c.index for c in contacts]] = False
        assert not gammas[in_no_problem].any()


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


def pytest_generate_tests(metafunc):
    """Take the numbers of the sequences from the command line."""
    if "number" in metafunc.fixturenames:
        first, colon, end = metafunc.config.getoption("--operations").partition(":")
        metafunc.parametrize("number", range(int(first), int(end)) if colon else range(int(first)))


def test_any_sequence_of_operations(number):
    """Each step converges to the right velocity and impulses; worlds nobody touched keep the bits of an untouched run."""
    seed, operations, last = sequence(number)
    machine, twin = (m.restart() for m in machines(seed))
    for name, value in [*operations, ("step", last)]:
        getattr(machine, name)(value)
        if name in FELT_BY_ALL:
            getattr(twin, name)(value)
            machine.assert_sound()
            machine.assert_right()
        for mine, truth in zip(machine.others(), twin.others(), strict=True):
            np.testing.assert_array_equal(mine, truth)


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


@pytest.mark.parametrize("law", ["lagged", "sap", "similar"])
def test_limit_that_pushes_back_stops_at_the_ground(law):
    """A joint far beyond its stiff limit is thrown back by it, but not through a contact that the pipeline reported."""
    builder = weightless()
    body, at = link(builder, 0.1), wp.transform(wp.vec3(0.0, 0.0, 0.052), wp.quat_identity())
    stop = {"limit_lower": 0.0, "limit_upper": 1.0, "limit_ke": 1e8, "limit_kd": 0.0}
    down = wp.vec3(0.0, 0.0, -1.0)
    builder.add_articulation([builder.add_joint_prismatic(-1, body, axis=down, parent_xform=at, **stop)])
    builder.add_shape_sphere(body, radius=0.1, cfg=material(1e9, 1e3, gap=0.02))
    builder.add_ground_plane(cfg=material(1e9, 1e3, gap=0.02))
    rig = Rig(builder, 1e-4, q=[-0.05], contact_model=law)
    rig.pipeline.collide(rig.state, rig.contacts)
    truth = ReferenceSolver(rig.model, contact_model=law).step(rig.state, rig.control, rig.contacts, rig.dt)
    free = ReferenceSolver(rig.model, contact_model=law).step(rig.state, rig.control, None, rig.dt)
    assert free.joint_qd[0] > 1.01 * truth.joint_qd[0]
    rig.run()
    np.testing.assert_allclose(rig.v, truth.joint_qd, rtol=1e-4)
