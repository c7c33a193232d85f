"""Equal input gives equal bits over whole rollouts: in any process, order of worlds, company, order of contacts and mode.

One step of random models is in ``test_against_reference.py`` and ``test_properties.py``; here are many steps with Newton's own
contacts, where any difference would grow.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import newton
import numpy as np
import pytest
import test_capture
import test_faults
import warp as wp
from rig import material

from newton_sap import SolverSAP

STEPS, DT = 40, 0.005
ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")
OPTIONS = (
    {},
    {"contact_model": "sap"},
    {"contact_model": "similar"},
    {"precision": "mixed"},
    {"spin_friction": True},
    {"preset": "drake"},
)


def sample(*usual):
    """All options as parameters; those at other places than these run with --slow."""
    slow = pytest.mark.slow
    return [options if i in usual else pytest.param(options, marks=slow) for i, options in enumerate(OPTIONS)]


def heap():
    """Boxes and balls that fall onto each other."""
    world = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    for i in range(4):
        at = wp.transform(wp.vec3(0.03 * i, 0.02 * i, 0.1 + 0.21 * i), wp.quat_identity())
        body = world.add_body(xform=at, mass=1.0, inertia=wp.diag(wp.vec3(0.01)), lock_inertia=True)
        cfg = material()
        if i % 2:
            world.add_shape_sphere(body, radius=0.1, cfg=cfg)
        else:
            world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    world.add_ground_plane(cfg=material())
    return world


WORLDS = {
    "balls and arm": test_faults.world_builder,
    "box": test_capture.box_drop,
    "heap": heap,
    "pendulum": test_capture.pendulum,
    "quadruped": test_capture.quadruped,
}


class Rollout:
    """Several of these worlds side by side, over one ground plane of all."""

    def __init__(self, names, **options):
        builder, self.joints, self.bodies = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81)), {}, {}
        for name in names:
            part = WORLDS[name]()
            first = builder.joint_coord_count, builder.joint_dof_count, builder.body_count
            builder.add_world(part)
            last = builder.joint_coord_count, builder.joint_dof_count, builder.body_count
            self.joints[name], self.bodies[name] = zip(first, last, strict=True), slice(first[2], last[2])
            self.joints[name] = [slice(*ends) for ends in self.joints[name]]
        builder.add_ground_plane(cfg=material())
        self.model = builder.finalize()
        self.solver, self.state, self.control = (
            SolverSAP(self.model, **options),
            self.model.state(),
            self.model.control(),
        )
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()

    def step(self):
        """Collide and step in place."""
        self.pipeline.collide(self.state, self.contacts)
        self.solver.step(self.state, self.state, self.control, self.contacts, DT)

    def run(self, steps=STEPS, shuffle=None):
        """Step; before each step the rows of the contacts may be shuffled."""
        for i in range(steps):
            self.pipeline.collide(self.state, self.contacts)
            if shuffle is not None:
                test_faults.shuffled(self.contacts, [shuffle, i])
            self.solver.step(self.state, self.state, self.control, self.contacts, DT)
        return self

    def replay(self, steps=STEPS):
        """The same from a graph that is recorded once."""
        with wp.ScopedCapture() as capture:
            self.step()
        for _ in range(steps):
            wp.capture_launch(capture.graph)
        return self

    def world(self, name):
        """What the rollout left of one world."""
        q, qd, _ = self.joints[name]
        slices = (q, qd, self.bodies[name], self.bodies[name])
        return [getattr(self.state, array).numpy()[s] for array, s in zip(ARRAYS, slices, strict=True)]

    def everything(self):
        """Bits of the state and of the report."""
        report = self.solver.report()
        numbers = (report.iterations, report.iterations_max, report.residual, report.scale, report.penetration)
        return [*(getattr(self.state, array).numpy() for array in ARRAYS), *numbers, report.line_search_evaluations]


def assert_same_bits(results, truths):
    """Every array agrees in every bit."""
    for result, truth in zip(results, truths, strict=True):
        assert np.asarray(result).tobytes() == np.asarray(truth).tobytes()


@pytest.mark.parametrize("options", sample(0, 4), ids=str)
def test_shuffled_contacts_throughout(options):
    """Shuffling the rows of every step's contacts changes no bit of a rollout, nor of its report."""
    names = ("heap", "balls and arm", "quadruped")
    plain = Rollout(names, **options).run()
    assert plain.solver.report().contacts_peak.max() > 5
    for seed in range(2):
        assert_same_bits(Rollout(names, **options).run(shuffle=seed).everything(), plain.everything())


@pytest.mark.parametrize("options", sample(0, 5), ids=str)
def test_replayed_worlds_equal_eager_ones(options):
    """One recorded step, replayed, gives the bits of eager steps under every law and precision."""
    names = tuple(WORLDS)
    if options.get("spin_friction"):
        options = {**options, "max_contacts": 4000}  # see the next test
    captured, eager = Rollout(names, **options).replay(), Rollout(names, **options).run()
    assert_same_bits(captured.everything(), eager.everything())


def test_first_call_can_be_captured_with_spin_friction():
    """Spin friction takes a second slot per contact; there is room for it from the start."""
    captured, eager = Rollout(["box"], spin_friction=True).replay(), Rollout(["box"], spin_friction=True).run()
    assert_same_bits(captured.everything(), eager.everything())


@pytest.mark.parametrize("options", sample(0, 2)[:4], ids=str)
def test_worlds_in_any_company(options):
    """Alone, in pairs, in any order: after many steps with Newton's contacts each world has the same bits."""
    alone = {name: Rollout([name], **options).run().world(name) for name in WORLDS}
    assert all(np.abs(result[3]).max() > 0.0 for result in alone.values())
    orders = [tuple(WORLDS), tuple(reversed(WORLDS))]
    if not options:
        orders += itertools.islice(itertools.permutations(WORLDS, 2), 0, None, 4)
    for order in orders:
        together = Rollout(order, **options).run()
        for name in order:
            assert_same_bits(together.world(name), alone[name])


def test_copies_of_a_world_agree():
    """Every one of many equal worlds ends with the same bits."""
    worlds = test_faults.Worlds(17).run(STEPS)
    rows = worlds.rows(worlds.state.joint_q), worlds.rows(worlds.state.joint_qd)
    for row in rows:
        assert_same_bits(row, [row[0]] * 17)


def test_runs_of_one_solver_agree():
    """A solver that starts over gives the bits of its first run, counters apart."""
    rollout = Rollout(tuple(WORLDS))
    start = {array: getattr(rollout.state, array).numpy().copy() for array in ARRAYS}
    first = rollout.run().everything()
    for array, values in start.items():
        getattr(rollout.state, array).assign(values)
    rollout.solver.reset(rollout.state)
    assert_same_bits(rollout.run().everything(), first)


def test_large_groups_do_not_see_the_order_of_contacts():
    """Conjugate gradients gather their sums in a fixed order too."""
    results = []
    for seed in (None, 0, 1):
        worlds = test_faults.Worlds(1, builder=test_faults.large_group)
        assert worlds.solver.topology.needs_iterations
        disorder = None if seed is None else lambda w, seed=seed: test_faults.shuffled(w.contacts, seed)
        for _ in range(3):
            worlds.run(1, disorder)
        assert worlds.solver.report().contacts.max() > 100
        results.append(worlds.result())
    assert_same_bits(results[1:], [results[0]] * 2)


DIGEST = "import conftest, test_determinism; print('digest', test_determinism.digest())"


def digest():
    """Hash of a rollout of all worlds."""
    with wp.ScopedDevice("cpu"):
        result = Rollout(tuple(WORLDS)).run().everything()
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in result)).hexdigest()


def test_processes_agree():
    """Other processes, with other seeds of Python's hashes, end with the same bits."""
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", DIGEST],
            capture_output=True, text=True, timeout=300, check=True, env=environment, cwd=Path(__file__).parent,
        )  # fmt: skip
        outputs.append([line for line in run.stdout.splitlines() if line.startswith("digest")])
    assert outputs[0] == outputs[1] == [f"digest {digest()}"]
