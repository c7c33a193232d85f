"""A solver that owns a collision pipeline: the same bits as colliding explicitly, substeps without, capture, refusals."""

from __future__ import annotations

import newton
import numpy as np
import pytest
import test_capture
import test_faults
import warp as wp
from rig import G, Rig, link, material

from newton_sap import SolverSAP

DT = 0.005
ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")
SCENES = {"box": test_capture.box_drop, "quadruped": test_capture.quadruped, "worlds": test_faults.world_builder}
RIGID = SolverSAP.CollisionSlot.RIGID
When = SolverSAP.CollisionFrequencyType


def worlds(name, count=2):
    """The scene, twice where it is meant for worlds."""
    builder = SCENES[name]()
    if name != "worlds":
        return builder.finalize()
    scene = newton.ModelBuilder()
    for _ in range(count):
        scene.add_world(builder)
    scene.add_ground_plane()
    return scene.finalize()


class Owner:
    """A solver with a pipeline of its own, and a state."""

    def __init__(self, model, deterministic=True, **options):
        self.model = model
        pipeline = newton.CollisionPipeline(model, deterministic=deterministic)
        self.solver = SolverSAP(model, collision_pipeline=pipeline, **options)
        self.state, self.next = model.state(), model.state()
        newton.eval_fk(model, self.state.joint_q, self.state.joint_qd, self.state)

    def step(self, in_place=False):
        """Step without contacts in hand."""
        if in_place:
            self.solver.step(self.state, self.state, None, None, DT)
        else:
            self.solver.step(self.state, self.next, None, None, DT)
            self.state, self.next = self.next, self.state


def same_bits(state, other):
    """Compare whole states."""
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(state, name).numpy(), getattr(other, name).numpy(), err_msg=name)


@pytest.mark.parametrize("in_place", (False, True))
@pytest.mark.parametrize("options", ({}, {"preset": "drake"}, {"spin_friction": True}), ids=str)
@pytest.mark.parametrize("name", SCENES)
def test_equals_explicit_collision(name, options, in_place):
    """A hundred steps that collide by themselves are those between explicit calls of ``collide``."""
    model = worlds(name)
    owner = Owner(model, **options)
    solver, pipeline = SolverSAP(model, **options), newton.CollisionPipeline(model, deterministic=True)
    contacts, state = pipeline.contacts(), model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    for _ in range(100):
        owner.step(in_place)
        pipeline.collide(state, contacts, dt=DT)
        solver.step(state, state, None, contacts, DT)
    same_bits(owner.state, state)
    assert owner.solver.report().contacts_peak.max() > 0
    np.testing.assert_array_equal(owner.solver.report().contacts, solver.report().contacts)


def test_captured_from_the_first_call():
    """Detection is recorded with the step; replaying equals stepping."""
    model = worlds("quadruped")
    eager, captured = Owner(model), Owner(model)
    with wp.ScopedCapture() as capture:
        captured.step(in_place=True)
    for _ in range(80):
        eager.step(in_place=True)
        wp.capture_launch(capture.graph)
    same_bits(eager.state, captured.state)
    assert eager.solver.report().contacts_peak.max() > 0


def test_a_captured_step_allocates_nothing(monkeypatch):
    """While a graph is recorded, no Warp array is made."""
    owner = Owner(worlds("quadruped"))
    owner.step(in_place=True)
    made = []

    def noting(name):
        original = getattr(wp, name)
        return lambda *args, **kwargs: (made.append(name), original(*args, **kwargs))[1]

    for name in ("zeros", "empty", "full", "clone", "ones", "zeros_like", "empty_like", "full_like"):
        monkeypatch.setattr(wp, name, noting(name))
    with wp.ScopedCapture():
        owner.step(in_place=True)
    assert made == []


def test_detection_sees_the_coordinates():
    """Contacts are those of ``joint_q``, also where the caller left ``body_q`` behind."""
    owner = Owner(worlds("box"))
    owner.state.body_q.fill_(wp.transform(wp.vec3(0.0, 0.0, 50.0), wp.quat_identity()))
    owner.state.joint_q.assign([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    owner.step()
    assert int(owner.solver.contacts.rigid_contact_count.numpy()[0]) == 4


def test_substeps_without_detection():
    """With ``NONE`` the contacts stay as they are, and their gaps follow the bodies: the explicit scheme's bits."""
    model = worlds("quadruped")
    owner = Owner(model)
    solver, pipeline = SolverSAP(model), newton.CollisionPipeline(model, deterministic=True)
    contacts, state = pipeline.contacts(), model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    generations = []
    for substep in range(60):
        when = When.AUTO if substep % 4 == 0 else When.NONE
        owner.solver.set_collision_frequency(collision_frequency_type={RIGID: when})
        owner.step(in_place=True)
        generations.append(int(owner.solver.contacts.contact_generation.numpy()[0]))
        if substep % 4 == 0:
            pipeline.collide(state, contacts, dt=DT)
        solver.step(state, state, None, contacts, DT)
    same_bits(owner.state, state)
    assert len(set(generations)) == 15


def test_contacts_in_hand_are_refused():
    """There is one source of contacts: a solver with a pipeline takes no others, one without detects nothing."""
    model = worlds("box")
    owner = Owner(model)
    with pytest.raises(ValueError, match="must be None when the solver owns"):
        owner.solver.step(owner.state, owner.next, None, owner.solver.contacts, DT)
    plain, state = SolverSAP(model), model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    assert plain.contacts is None and plain.collision_pipeline is None
    for _ in range(20):
        plain.step(state, state, None, None, DT)
    assert state.joint_qd.numpy()[2] == pytest.approx(-G * 20 * DT, rel=1e-5)


@pytest.mark.parametrize(
    ("slot", "when"),
    [
        ("RIGID", When.ITERATIONS),
        ("RIGID", When.PRE_POST_INIT),
        ("SOFT_SELF_CONTACT", When.PRE_INIT),
        ("SOFT_SELF_CONTACT", When.ITERATIONS),
    ],
)
def test_schedules_that_a_step_does_not_have(slot, when):
    """A step has no point after initialisation or between iterations where detection would see anything new."""
    model = worlds("box")
    schedule = {SolverSAP.CollisionSlot[slot]: when}
    with pytest.raises(ValueError, match=f"{slot} cannot be {when.name}"):
        SolverSAP(model, collision_pipeline=newton.CollisionPipeline(model), collision_frequency_type=schedule)
    owner = Owner(model)
    with pytest.raises(ValueError, match=f"{slot} cannot be {when.name}"):
        owner.solver.set_collision_frequency(collision_frequency_type=schedule)
    assert owner.solver.collision_frequency_type[RIGID] == When.AUTO


def test_pipeline_of_another_model_is_refused():
    """The pipeline must be of the solver's model."""
    with pytest.raises(ValueError, match="same model"):
        SolverSAP(worlds("box"), collision_pipeline=newton.CollisionPipeline(worlds("box")))


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("collision_pipeline", newton.CollisionPipeline),
        ("collision_pipeline", "sap"),
        ("collision_frequency", "x"),
        ("collision_frequency_type", 3),
    ],
)
def test_what_is_no_pipeline_or_schedule_is_refused(keyword, value):
    """By the name of the keyword, with what it takes."""
    with pytest.raises(TypeError, match=rf"{keyword} must be a (newton.CollisionPipeline|mapping)"):
        SolverSAP(worlds("box"), **{keyword: value})


def test_room_for_contacts():
    """``get_max_contact_count`` is all that Newton may find, whatever may act, and the capacity of an owned pipeline."""
    model = worlds("quadruped")
    wide = newton.CollisionPipeline(model, rigid_contact_max=5000, publish_capacity=False)
    for spin in (False, True):
        owner = SolverSAP(model, collision_pipeline=wide, spin_friction=spin)
        assert owner.get_max_contact_count() == 5000 == owner.contacts.rigid_contact_max
    needed = newton.CollisionPipeline(model, publish_capacity=False).rigid_contact_max
    for few in (None, 64):
        assert SolverSAP(model, max_contacts=few).get_max_contact_count() == needed > 64


def test_observables_and_explanations_use_the_own_contacts():
    """Observables need no ``Contacts`` in hand, and a step explains itself."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    body = link(builder, 3.0, 0.02)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=material())
    builder.add_articulation([builder.add_joint_free(body)])
    builder.joint_q[2] = 0.1
    builder.add_ground_plane(cfg=material())
    owner = Owner(builder.finalize())
    kinds = owner.solver.ObservableKind
    seen = owner.solver.observables({kinds.CONTACT_F, kinds.CONTACT_IMPULSE})
    assert seen.contacts is owner.solver.contacts
    for _ in range(200):
        before = owner.state
        owner.solver.step(owner.state, owner.next, None, None, DT, observables=seen)
        owner.state, owner.next = owner.next, owner.state
    assert seen.contact_impulse.numpy()[:, 2].sum() / DT == pytest.approx(3.0 * G, rel=1e-4)
    found = owner.solver.inverse_dynamics(before, owner.state, None, None, DT)
    assert np.abs(found.contact_impulse[:, 2].sum()) / DT == pytest.approx(3.0 * G, rel=1e-4)


def test_states_with_explicit_orders():
    """The solver's own state class collides as well."""
    owner = Owner(worlds("box"))
    state = owner.solver.state()
    for _ in range(40):
        owner.step(in_place=True)
        owner.solver.step(state, state, None, None, DT)
    assert np.abs(state.joint_qd.numpy() - owner.state.joint_qd.numpy()).max() < 1e-6
    assert Rig(SCENES["box"](), DT).run(40).v == pytest.approx(state.joint_qd.numpy(), abs=1e-5)
