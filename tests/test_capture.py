"""Graph capture from the very first call, and the ways of calling step that must give the same bits."""

import gc
import weakref

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SolverSAP

DT = 0.005
ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")


def _material():
    return newton.ModelBuilder.ShapeConfig(ke=5.0e4, kd=500.0, mu=0.6, density=0.0, gap=0.01, margin=0.0)


def box_drop():
    """A tilted box above the ground, with Newton's own box and plane shapes."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    pose = wp.transform(wp.vec3(0.0, 0.0, 0.22), wp.quat_rpy(0.3, 0.2, 0.1))
    body = builder.add_body(xform=pose, mass=1.0, inertia=wp.diag(wp.vec3(0.02)), lock_inertia=True, label="box")
    builder.add_shape_box(body, hx=0.2, hy=0.15, hz=0.1, cfg=_material())
    builder.add_ground_plane(cfg=_material())
    return builder


def quadruped():
    """A free trunk on four driven legs of two hinges."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))

    def link(mass, inertia, label):
        return builder.add_link(mass=mass, inertia=wp.diag(wp.vec3(inertia)), lock_inertia=True, label=label)

    trunk = link(6.0, 0.1, "trunk")
    joints = [builder.add_joint_free(trunk)]
    drive = {"target_ke": 80.0, "target_kd": 3.0, "effort_limit": 40.0, "armature": 0.01, "axis": newton.Axis.Y}
    drive |= {"limit_lower": -1.5, "limit_upper": 1.5}
    for x in (-0.2, 0.2):
        for y in (-0.12, 0.12):
            thigh, shin = link(0.5, 0.003, f"thigh{x}{y}"), link(0.3, 0.002, f"shin{x}{y}")
            hip, knee = wp.transform((x, y, 0.0), wp.quat_identity()), wp.transform((0, 0, -0.2), wp.quat_identity())
            joints.append(builder.add_joint_revolute(trunk, thigh, parent_xform=hip, target_q=0.4, **drive))
            joints.append(builder.add_joint_revolute(thigh, shin, parent_xform=knee, target_q=-0.8, **drive))
            foot = wp.transform((0, 0, -0.2), wp.quat_identity())
            builder.add_shape_sphere(shin, xform=foot, radius=0.03, cfg=_material())
    builder.add_articulation(joints, label="quadruped")
    builder.joint_q[2] = 0.44
    builder.add_ground_plane(cfg=_material())
    return builder


def pendulum():
    """One hinge, no shapes: there are no contacts and no pipeline."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    rod = builder.add_link(mass=1.0, com=(0, 0, -0.3), inertia=wp.diag(wp.vec3(0.03)), lock_inertia=True, label="rod")
    hinge = builder.add_joint_revolute(-1, rod, axis=newton.Axis.Y, damping=0.1, friction=0.02)
    builder.add_articulation([hinge])
    builder.joint_q[0] = 1.0
    return builder


SCENES = {"box_drop": box_drop, "quadruped": quadruped, "pendulum": pendulum}


class Setup:
    """A freshly built scene that has not been stepped yet."""

    def __init__(self, name, device="cpu", **options):
        self.model = SCENES[name]().finalize(device=device)
        self.solver = SolverSAP(self.model, **options)
        self.state, self.next, self.control = self.model.state(), self.model.state(), self.model.control()
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model) if self.model.shape_count else None
        self.contacts = self.pipeline.contacts() if self.pipeline else None

    def step(self, state_in, state_out, control):
        """Collide and step."""
        if self.pipeline:
            self.pipeline.collide(state_in, self.contacts)
        self.solver.step(state_in, state_out, control, self.contacts, DT)

    def pair_of_steps(self):
        """Two steps, there and back, so that the result lies in ``state`` again."""
        self.step(self.state, self.next, self.control)
        self.step(self.next, self.state, self.control)

    def result(self):
        """Return the state as NumPy arrays."""
        return {name: getattr(self.state, name).numpy().copy() for name in ARRAYS}


def assert_same_bits(a, b):
    """Compare two results array by array."""
    for name in ARRAYS:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
        assert np.isfinite(a[name]).all(), name


def captured_equals_eager(name, device, **options):
    """Record the very first call of a solver, replay it, and compare with plain stepping."""
    eager, captured = Setup(name, device, **options), Setup(name, device, **options)
    before = captured.result()
    for _ in range(15):
        eager.pair_of_steps()
    with wp.ScopedCapture(device=device) as capture:
        captured.pair_of_steps()
    for _ in range(15):
        wp.capture_launch(capture.graph)
    assert np.abs(captured.result()["joint_q"] - before["joint_q"]).max() > 1e-3  # the replay did something
    assert_same_bits(captured.result(), eager.result())
    assert captured.solver.report().steps == eager.solver.report().steps == 30


@pytest.mark.parametrize("name", SCENES)
def test_first_call_can_be_captured(name):
    """Replaying a graph recorded from the first call equals stepping eagerly, bit for bit."""
    captured_equals_eager(name, "cpu")


@pytest.mark.parametrize("preset", ["drake", "approx32"])
def test_capture_under_presets(preset):
    """The presets' kernels are captured as well."""
    captured_equals_eager("box_drop", "cpu", preset=preset)


@pytest.mark.cuda
@pytest.mark.parametrize("name", SCENES)
def test_first_call_can_be_captured_on_cuda(name):
    """The same on a CUDA device."""
    captured_equals_eager(name, "cuda:0")


def test_control_is_live_between_replays():
    """A target written between two replays acts in the second."""
    setup = Setup("quadruped")
    with wp.ScopedCapture() as capture:
        setup.step(setup.state, setup.state, setup.control)
    wp.capture_launch(capture.graph)
    slow = setup.result()["joint_qd"][6]
    target = setup.control.joint_target_q.numpy()
    target[7] = -1.4
    setup.control.joint_target_q.assign(target)
    wp.capture_launch(capture.graph)
    assert setup.result()["joint_qd"][6] < slow - 0.1


@pytest.mark.parametrize("name", SCENES)
def test_in_place_equals_out_of_place(name):
    """step(s, s) gives the bits of step(s, t)."""
    there, here = Setup(name), Setup(name)
    for _ in range(10):
        there.pair_of_steps()
        here.step(here.state, here.state, here.control)
        here.step(here.state, here.state, here.control)
    assert_same_bits(here.result(), there.result())


@pytest.mark.parametrize("name", SCENES)
def test_no_control_means_the_models_defaults(name):
    """control=None gives the bits of an untouched model.control()."""
    given, none = Setup(name), Setup(name)
    for _ in range(10):
        given.step(given.state, given.state, given.control)
        none.step(none.state, none.state, None)
    assert_same_bits(none.result(), given.result())


def test_no_contacts_means_free_fall():
    """contacts=None lets a box fall through the ground."""
    setup = Setup("box_drop")
    height = setup.result()["joint_q"][2]
    for _ in range(100):
        setup.solver.step(setup.state, setup.state, None, None, DT)
    t = 100 * DT
    expected = height - 0.5 * 9.81 * t * (t + DT)
    assert setup.result()["joint_q"][2] == pytest.approx(expected, abs=1e-4)
    assert setup.solver.report().contacts.max() == 0


@pytest.mark.parametrize("name", SCENES)
def test_two_runs_agree(name):
    """Two solvers from the same state give the same bits."""
    runs = [Setup(name), Setup(name)]
    for setup in runs:
        for _ in range(10):
            setup.pair_of_steps()
    assert_same_bits(runs[0].result(), runs[1].result())


@pytest.mark.parametrize("name", ["box_drop", "quadruped"])
def test_scene_comes_to_rest(name):
    """What the captures replay is a sane motion: it ends on the ground and every step converged."""
    setup = Setup(name)
    for _ in range(150):
        setup.pair_of_steps()
    result, report = setup.result(), setup.solver.report()
    assert np.abs(result["body_qd"]).max() < 0.02
    assert 0.05 < result["joint_q"][2] < 0.45
    assert report.unconverged_steps.sum() == report.non_finite_steps.sum() == np.sum(report.contacts_dropped) == 0


def test_graphs_outlive_a_larger_contacts():
    """What a recorded graph writes to is kept, although later steps use larger arrays."""
    model = box_drop().finalize()
    solver, state = SolverSAP(model), model.state()
    wide = newton.CollisionPipeline(model, rigid_contact_max=5000, publish_capacity=False).contacts()
    old = [weakref.ref(solver.pool.gamma), weakref.ref(solver.arrivals.next)]
    solver.step(state, state, None, wide, DT)
    gc.collect()
    assert solver.arrivals.next.shape[0] == 5000
    assert all(array() is not None for array in old)
