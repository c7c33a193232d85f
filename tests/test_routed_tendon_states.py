"""Newton's own tendons as part of a solver: states, resets, graphs, worlds, observables, Newton's examples, and what is refused."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, put
from test_routed_tendons import (
    DT,
    HOLDS,
    hoist,
    hole,
    point,
    roller,
    tensions,
    thrown_together,
    weight,
)

from newton_sap import SolverSAP
from newton_sap.cli.example import run_example
from newton_sap.reference import ReferenceSolver

ObservableKind = newton.solvers.SolverBase.ObservableKind
KEPT = (
    "tendon_segment_rest_length", "tendon_segment_attachment_l_local", "tendon_segment_attachment_r_local",
    "tendon_guide_active",
)  # fmt: skip
"""What a state keeps of tendons."""


def everything(state):
    """All arrays of a state that a step writes, as one."""
    names = ("joint_q", "joint_qd", "body_q", "body_qd", *KEPT)
    return np.concatenate([getattr(state, name).numpy().astype(float).ravel() for name in names])


def peg(worlds=1):
    """A ball on a rope that falls on a dynamic roller."""
    builder = newton.ModelBuilder()
    ball = weight(builder, 0.8, 1.0, 1.2)
    rope = dict(compliance=1e-4, damping=5.0)
    builder.add_tendon(
        [point(-1, (-0.5, 0.0, 1.0)), roller(-1, (0.0, 0.0, 0.9), 0.1, dynamic=True, **rope), point(ball, **rope)]
    )
    whole = newton.ModelBuilder()
    whole.replicate(builder, worlds)
    return whole


# States ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: hoist(inertia=0.3, mu=0.2), peg, lambda: thrown_together(0.3)])
def test_a_saved_state_goes_on_as_before(make):
    """All memory of a tendon is in the state: another solver goes on from a copy, and one state may be both."""
    rig = Rig(make(), DT).run(300)
    saved, same = rig.model.state(), rig.model.state()
    saved.assign(rig.state)
    same.assign(rig.state)
    end = everything(rig.run(100).state)
    rig.state.assign(saved)
    np.testing.assert_array_equal(everything(rig.run(100).state), end)
    other = SolverSAP(rig.model)
    for _ in range(100):
        other.step(same, same, rig.control, None, DT)
    np.testing.assert_array_equal(everything(same), end)


def test_a_graph_gives_the_same_bits():
    """Also of a roller that is met and left."""
    rig, twin = Rig(peg(), DT), Rig(peg(), DT)
    with wp.ScopedCapture(device=rig.model.device) as capture:
        rig.run(2)
    touched = []
    for _ in range(300):
        wp.capture_launch(capture.graph)
        twin.run(2)
        touched.append(bool(twin.solver.tendon_guide_active.numpy()[1]))
    np.testing.assert_array_equal(everything(rig.state), everything(twin.state))
    assert any(touched) and not all(touched)


def test_worlds_do_not_see_each_other_and_are_reset_alone():
    """Three worlds at different times of the same fall, by one or two threads, and one that begins anew."""
    rig, single = Rig(peg(3), DT, threads=2), Rig(peg(), DT)
    starts = single.state.joint_q.numpy(), single.state.joint_qd.numpy()
    put(rig.state.joint_q, [0.0, 0.1, 0.2])
    rig.run(400)
    mask = wp.array([True, False, False, False], dtype=wp.bool, device=rig.model.device)
    rig.solver.reset(rig.state, world_mask=mask)
    for array, start in zip((rig.state.joint_q, rig.state.joint_qd), starts, strict=True):
        put(array, start)
    kept = rig.state.tendon_segment_rest_length.numpy()
    np.testing.assert_array_equal(kept[:2], single.solver.tendon_segment_rest_length.numpy())
    assert not np.array_equal(kept[2:4], kept[:2])
    rig.run(400)
    single.run(400)
    np.testing.assert_array_equal(rig.q[0], single.q[0])
    np.testing.assert_array_equal(
        rig.state.tendon_segment_rest_length.numpy()[:2], single.state.tendon_segment_rest_length.numpy()
    )


def test_reset_takes_lengths_that_were_changed():
    """A length that the model gives counts when tendons begin anew, one that a state has at the next step."""
    builder = newton.ModelBuilder()
    ball = weight(builder, 0.0, 1.0, -1.0)
    builder.add_tendon([point(-1), point(ball, compliance=1e-4, damping=50.0, rest_length=1.0)])
    rig = Rig(builder, DT).run(500)
    np.testing.assert_allclose(rig.q, -1e-4 * G, atol=1e-6)
    rig.state.tendon_segment_rest_length.fill_(0.9995)
    np.testing.assert_allclose(rig.run(1000).q, 0.5e-3 - 1e-4 * G, atol=1e-6)
    rig.model.tendon_segment_rest_length.fill_(1.2)
    np.testing.assert_allclose(rig.run(100).q, 0.5e-3 - 1e-4 * G, atol=1e-6)
    rig.solver.reset(rig.state)
    np.testing.assert_allclose(rig.run(2000).q, -0.2 - 1e-4 * G, atol=1e-6)


def test_material_is_live():
    """Compliance changed between steps, without notice."""
    builder = newton.ModelBuilder()
    ball = weight(builder, 0.0, 1.0, -1.0)
    builder.add_tendon([point(-1), point(ball, compliance=1e-4, damping=50.0)])
    rig = Rig(builder, DT).run(500)
    rig.model.tendon_segment_compliance.fill_(2e-3)
    np.testing.assert_allclose(rig.run(1500).q, -2e-3 * G, atol=1e-5)


def test_a_state_of_the_solver_will_do():
    """``solver.state()`` brings the arrays of tendons."""
    rig = Rig(hoist(inertia=0.3, mu=0.2), DT)
    a, b = rig.solver.state(), rig.solver.state()
    for _ in range(50):
        rig.solver.step(a, b, None, None, DT)
        a, b = b, a
    np.testing.assert_array_equal(a.joint_q.numpy(), rig.run(50).state.joint_q.numpy())
    a.tendon_guide_active = None
    with pytest.raises(ValueError, match="tendon_guide_active is missing"):
        rig.solver.step(a, b, None, None, DT)


def test_a_rope_over_kinematic_bodies_settles():
    """Nothing moves it, but its material passes the guides, and its tension can be read."""
    builder = newton.ModelBuilder()
    guides = [point(-1, (-1.0, 0.0, 0.0)), hole(offset=(0.0, 0.0, 0.0), compliance=0.01, rest_length=0.8)]
    builder.add_tendon([*guides, point(-1, (0.0, 1.0, 0.0), compliance=0.01, rest_length=1.0)])
    weight(builder, 0.0, 1.0)
    rig = Rig(builder, DT).run(2)
    np.testing.assert_allclose(rig.state.tendon_segment_rest_length.numpy(), [0.9, 0.9], atol=1e-6)
    np.testing.assert_allclose(tensions(rig), 10.0, rtol=1e-4)


# Observables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 0.2, HOLDS])
def test_an_axle_bears_both_tensions(mu):
    """``body_parent_f`` of a pulley: its weight and what the rope pulls down on both sides."""
    rig = Rig(hoist(inertia=1.0, mu=mu), DT)
    observed = rig.solver.observables([ObservableKind.BODY_PARENT_F])
    rig.run(200)
    rig.solver.step(rig.state, rig.next, rig.control, None, DT, observables=observed)
    force = observed.body_parent_f.numpy()[2]
    np.testing.assert_allclose(force[:3], [0.0, 0.0, G + tensions(rig).sum()], rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(force[3:], 0.0, atol=1e-2)


def test_inverse_dynamics_explains_a_step():
    """Nothing is left over of a step of the solver itself."""
    rig = Rig(hoist(inertia=1.0, mu=0.2), DT).run(200)
    rig.solver.step(rig.state, rig.next, rig.control, None, DT)
    found = rig.solver.inverse_dynamics(rig.state, rig.next, rig.control, None, DT)
    assert abs(found.constraint_force).max() > 5.0
    np.testing.assert_allclose(found.unexplained_force, 0.0, atol=1e-3)


# Newton's examples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, frames", [("pulley", 30), ("pinhole", 30), ("capstan_friction", 45), ("3d_routing", 60)]
)
def test_newtons_example(name, frames):
    """With its own checks, for as long as Newton's own tests run it."""
    result = run_example(
        f"tendon_{name}", "sap", ["--viewer", "null", "--test", "--quiet", "--num-frames", str(frames)]
    )
    assert result.verdict == "passed" and result.ok, f"{result.message}\n{result.details}"
    assert result.instead_of and result.frames >= frames - 1


# What is refused ------------------------------------------------------------------------------------------------------


def across_worlds():
    """The builder lets no rope do that; an array may."""
    model = peg(2).finalize()
    put(model.tendon_guide_body, [0, -1, 1])
    return model


def spoiled(name, value):
    """A hoist with one wrong number."""
    model = hoist(mu=0.2).finalize()
    getattr(model, name).fill_(value)
    return model


def loose():
    """A rope to a body that nothing moves and that no joint holds."""
    builder = hoist()
    body = builder.add_link(mass=0.0, label="hook")
    builder.add_tendon([point(0), point(body)], label="line")
    return builder.finalize(skip_validation_joints=True)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: spoiled("tendon_segment_compliance", -1.0),
            ValueError,
            ["tendon_segment_compliance[0]", "tendon_0", "-1"],
        ),
        (lambda: spoiled("tendon_guide_mu", np.nan), ValueError, ["tendon_guide_mu[0]", "nan"]),
        (lambda: spoiled("tendon_segment_damping", np.inf), ValueError, ["tendon_segment_damping[0]", "inf"]),
        (lambda: hoist().finalize(requires_grad=True), NotImplementedError, ["gradients", "tendon 0"]),
        (across_worlds, NotImplementedError, ["tendon 0", "several worlds"]),
        (loose, NotImplementedError, ["'line'", "hook", "no joint moves"]),
    ],
)
def test_bad_tendons(make, error, words):
    """Raised at construction, by name, with a remedy."""
    with pytest.raises(error) as caught:
        SolverSAP(make())
    assert all(word in str(caught.value) for word in words), caught.value


def test_routes_are_as_built():
    """A notice of changed tendons is looked at."""
    rig = Rig(hoist(mu=0.2), DT)
    rig.model.tendon_guide_mu.fill_(0.5)
    rig.solver.notify_model_changed(newton.ModelFlags.TENDON_PROPERTIES)
    rig.model.tendon_segment_damping.fill_(-2.0)
    with pytest.raises(ValueError, match="tendon_segment_damping"):
        rig.solver.notify_model_changed(newton.ModelFlags.TENDON_PROPERTIES)
    rig.model.tendon_segment_damping.fill_(2.0)
    put(rig.model.tendon_guide_body, [1])
    with pytest.raises(NotImplementedError, match="tendon_guide_body"):
        rig.solver.notify_model_changed(newton.ModelFlags.TENDON_PROPERTIES)


def test_replaced_arrays_are_taken_with_a_notice():
    """As long as they are long enough."""
    rig, live = Rig(hoist(mu=0.2), DT).run(5), Rig(hoist(mu=0.2), DT).run(5)
    live.model.tendon_guide_radius.fill_(0.25)
    rig.model.tendon_guide_radius = wp.full(3, 0.25, dtype=wp.float32)
    rig.solver.notify_model_changed(newton.ModelFlags.TENDON_PROPERTIES)
    np.testing.assert_array_equal(everything(rig.run(100).state), everything(live.run(100).state))
    rig.model.tendon_guide_radius = wp.full(2, 0.25, dtype=wp.float32)
    with pytest.raises(ValueError, match="tendon_guide_radius has 2 entries"):
        rig.solver.notify_model_changed(newton.ModelFlags.TENDON_PROPERTIES)


@pytest.mark.parametrize("name", ["tendon_segment_compliance", "tendon_segment_damping", "tendon_guide_mu"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_bad_values_at_run_time_are_counted(name, value):
    """No step is silently wrong."""
    rig = Rig(hoist(inertia=0.1, mu=0.2), DT).run(5)
    assert rig.solver.report().non_finite_steps.sum() == 0
    getattr(rig.model, name).fill_(value)
    assert rig.run().solver.report().non_finite_steps.sum() > 0


def test_the_reference_has_none():
    """It says so."""
    model = hoist().finalize()
    with pytest.raises(NotImplementedError, match="tendons"):
        ReferenceSolver(model).step(model.state(), None, None, DT)
