"""The public and the sap convention: duality of the transforms, order flags, free joints in odd places."""

import free_joint_order as order
import newton
import numpy as np
import pytest
import warp as wp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from newton_sap import SapControl, SapState, SolverSAP

components = st.floats(-100.0, 100.0, allow_nan=False, width=32)
vectors = st.lists(components, min_size=3, max_size=3).map(np.array)
twists = st.lists(components, min_size=6, max_size=6).map(np.array)
rotations = st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3).map(Rotation.from_rotvec)


# The transforms themselves


@given(rotations, vectors)
def test_force_transform_is_the_inverse_transpose(rotation, com):
    """P_f(r) = P_v(r)^-T for the world offset of any body in any pose."""
    r = rotation.apply(com)
    np.testing.assert_allclose(order.P_f(r) @ order.P_v(r).T, np.eye(6), atol=1e-10)


@given(rotations, vectors, twists, twists)
def test_power_is_the_same_in_both_conventions(rotation, com, twist, wrench):
    """f . v_C + tau_C . omega equals tau_O . omega + f . v_O."""
    r = rotation.apply(com)
    public = wrench @ twist
    sap = order.force_to_sap(wrench, r) @ order.velocity_to_sap(twist, r)
    scale = 1.0 + np.linalg.norm(twist) * np.linalg.norm(wrench) * (1.0 + np.linalg.norm(r)) ** 2
    assert sap == pytest.approx(public, abs=1e-13 * scale)


@given(vectors, twists)
def test_round_trips(r, values):
    """Converting there and back changes nothing."""
    scale = 1e-13 * (1.0 + np.linalg.norm(r)) ** 2 * (1.0 + np.abs(values).max())
    there = order.velocity_to_sap(values, r)
    np.testing.assert_allclose(order.velocity_to_public(there, r), values, atol=scale)
    there = order.force_to_sap(values, r)
    np.testing.assert_allclose(order.force_to_public(there, r), values, atol=scale)


@given(rotations, vectors, twists)
def test_sap_velocity_is_that_of_the_origin(rotation, com, twist):
    """The linear part is the velocity of the material point at the body origin, found by finite differences."""
    r, (v_C, omega) = rotation.apply(com), np.split(twist, 2)
    omega = omega / 100.0  # [rad/s], so that the differences below resolve the turn
    sap = order.velocity_to_sap(np.concatenate([v_C, omega]), r)
    h = 1e-5
    swing = [Rotation.from_rotvec(sign * h * omega).apply(-r) for sign in (-1, 1)]
    np.testing.assert_allclose(sap[3:], v_C + (swing[1] - swing[0]) / (2 * h), atol=1e-4)
    np.testing.assert_array_equal(sap[:3], omega)


# Order flags of the buffers

COM = (0.25, -0.5, 0.125)
TWIST = np.array([0.5, -1.0, 2.0, 1.5, 0.25, -0.75])
JOINT_WRENCH = np.array([4.0, -2.0, 1.0, 0.5, 0.25, -0.5])
BODY_WRENCH = np.array([-1.0, 2.0, 0.5, 0.125, -0.25, 0.5])


def stone(position_update="symplectic", com=COM):
    """A free body with an offset COM, and its solver."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    inertia = wp.mat33(0.5, 0.01, 0.0, 0.01, 0.4, -0.02, 0.0, -0.02, 0.3)
    body = builder.add_link(mass=2.0, inertia=inertia, com=wp.vec3(*com), lock_inertia=True, label="stone")
    builder.add_articulation([builder.add_joint_free(body)])
    model = builder.finalize()
    return model, SolverSAP(model, position_update=position_update)


def put(array, values):
    """Assign NumPy values to a Warp array of vectors or scalars."""
    array.assign(np.asarray(values, np.float32))


def stepped(position_update, quaternion, in_sap, out_sap, force_sap, wrench_sap):
    """Step the stone once with buffers in the given orders; return its public joint_q, joint_qd, body_q, body_qd."""
    model, solver = stone(position_update)
    state, out, control = solver.state(), solver.state(), solver.control()
    r = Rotation.from_quat(quaternion).apply(COM)
    put(state.joint_q, [0.0, 0.5, 1.0, *quaternion])
    put(state.joint_qd, order.velocity_to_sap(TWIST, r) if in_sap else TWIST)
    put(control.joint_f, order.force_to_sap(JOINT_WRENCH, r) if force_sap else JOINT_WRENCH)
    put(state.body_f, [-order.force_to_sap(BODY_WRENCH, r) if wrench_sap else BODY_WRENCH])
    state.joint_qd_order = "sap" if in_sap else "public"
    state.body_f_order = "sap" if wrench_sap else "public"
    control.joint_f_order = "sap" if force_sap else "public"
    out.joint_qd_order = "sap" if out_sap else "public"
    solver.step(state, out, control, None, 0.01)
    q, qd = out.joint_q.numpy(), out.joint_qd.numpy()
    if out_sap:
        qd = order.velocity_to_public(qd, Rotation.from_quat(q[3:]).apply(COM))
    return q, qd, out.body_q.numpy(), out.body_qd.numpy()


ORDERS = [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (1, 1, 1, 1)]


@pytest.mark.parametrize("position_update", ["symplectic", "sap_euler", "midpoint"])
@pytest.mark.parametrize("orders", ORDERS)
def test_orders_agree_bit_for_bit_where_the_shift_is_exact(position_update, orders):
    """With numbers whose shift needs no rounding, pre-converted input gives the very same step."""
    turned = (0.0, 0.0, 1.0, 0.0)  # half a turn: the world offset is exact in float32
    in_sap, out_sap, force_sap, wrench_sap = orders
    public = stepped(position_update, turned, False, False, False, False)
    converted = stepped(position_update, turned, in_sap, out_sap, force_sap, wrench_sap)
    for name, a, b in zip(("joint_q", "joint_qd", "body_q", "body_qd"), public, converted, strict=True):
        if out_sap and name in ("joint_qd", "body_qd"):  # what leaves is rounded to float32 in the order asked for
            np.testing.assert_allclose(b, a, atol=1e-6)
        else:
            np.testing.assert_array_equal(b, a, err_msg=name)


@pytest.mark.parametrize("orders", ORDERS)
def test_orders_agree_in_any_pose(orders):
    """In a general pose pre-converted buffers differ by their rounding to float32 only."""
    quaternion = Rotation.from_rotvec([0.4, -1.1, 0.7]).as_quat()
    public = stepped("symplectic", quaternion, False, False, False, False)
    for a, b in zip(public, stepped("symplectic", quaternion, *orders), strict=True):
        np.testing.assert_allclose(b, a, atol=2e-6)


def test_newtons_own_state_is_public():
    """A plain newton.State and newton.Control step exactly like the public dataclasses."""
    model, solver = stone()
    plain, out, control = model.state(), model.state(), model.control()
    ours, ours_out, ours_control = solver.state(), solver.state(), solver.control()
    for state in (plain, ours):
        put(state.joint_qd, TWIST)
        put(state.body_f, [BODY_WRENCH])
    for c in (control, ours_control):
        put(c.joint_f, JOINT_WRENCH)
    solver.step(plain, out, control, None, 0.01)
    solver.step(ours, ours_out, ours_control, None, 0.01)
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        np.testing.assert_array_equal(getattr(ours_out, name).numpy(), getattr(out, name).numpy(), err_msg=name)


@pytest.mark.parametrize("position_update", ["symplectic", "sap_euler"])
def test_kinetic_energy_is_the_same_inside(position_update):
    """v0' A v0 / 2 inside is m |v_C|^2 / 2 + omega' I omega / 2 outside, whatever the reference point."""
    model, solver = stone(position_update)
    state, rotation = model.state(), Rotation.from_rotvec([0.4, -1.1, 0.7])
    put(state.joint_q, [0.0, 0.5, 1.0, *rotation.as_quat()])
    put(state.joint_qd, TWIST)
    solver.step(state, model.state(), None, None, 0.01)
    inside = solver.inspect()
    in_body = rotation.inv().apply(TWIST[3:])
    energy = 0.5 * 2.0 * TWIST[:3] @ TWIST[:3] + 0.5 * in_body @ model.body_inertia.numpy()[0] @ in_body
    assert 0.5 * inside.v0 @ inside.A @ inside.v0 == pytest.approx(energy, rel=1e-6)
    assert inside.A.dtype == inside.v0.dtype == np.float64
    np.testing.assert_allclose(inside.A, inside.A.T, atol=1e-12)
    if position_update == "sap_euler":
        expected = order.velocity_to_sap(TWIST, rotation.apply(COM))
        np.testing.assert_allclose(inside.v0, expected, atol=1e-6)


def test_nothing_to_inspect_before_a_step():
    """What construction leaves in the solver's arrays is no step, and is not shown as one."""
    _, solver = stone()
    with pytest.raises(RuntimeError, match="there was none; call step"):
        solver.inspect()


def test_default_orders():
    """Raw dataclasses are in sap order, what the solver hands out is public."""
    _, solver = stone()
    state, control = solver.state(), solver.control()
    assert (state.joint_qd_order, state.body_f_order, control.joint_f_order) == ("public",) * 3
    raw = SapState(state.joint_q, state.joint_qd, state.body_q, state.body_qd, state.body_f)
    assert (raw.joint_qd_order, raw.body_f_order) == ("sap", "sap")
    assert SapControl(control.joint_f).joint_f_order == "sap"


def test_body_wrench_acts_at_the_com():
    """A pure public force on a body with an offset COM pushes it without turning it."""
    _, solver = stone()
    state, out = solver.state(), solver.state()
    put(state.body_f, [[3.0, 0.0, 2.0 * 9.81, 0.0, 0.0, 0.0]])
    solver.step(state, out, None, None, 0.01)
    np.testing.assert_allclose(out.joint_qd.numpy(), [0.01 * 3.0 / 2.0, 0, 0, 0, 0, 0], atol=1e-6)


# Free joints in odd places, against newton.eval_fk


def assert_consistent(model, state):
    """Body poses and velocities are those that Newton's forward kinematics makes of the joint coordinates."""
    check = model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, check)
    np.testing.assert_allclose(state.body_q.numpy(), check.body_q.numpy(), atol=3e-6)
    np.testing.assert_allclose(state.body_qd.numpy(), check.body_qd.numpy(), atol=1e-5)


def free_body_model(parent_xform, child_xform):
    """A spinning free body whose joint anchors are not at the origins."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    inertia = wp.mat33(0.5, 0.01, 0.0, 0.01, 0.4, -0.02, 0.0, -0.02, 0.3)
    body = builder.add_link(mass=2.0, inertia=inertia, com=wp.vec3(*COM), lock_inertia=True, label="stone")
    joint = builder.add_joint_free(body, parent_xform=parent_xform, child_xform=child_xform)
    builder.add_articulation([joint])
    return builder.finalize()


def fly(model, pose, velocity, steps, dt, force=None):
    """Step from a maximal state; return the final state."""
    solver, state, out, control = SolverSAP(model), model.state(), model.state(), model.control()
    put(state.body_q, pose)
    put(state.body_qd, velocity)
    newton.eval_ik(model, state, state.joint_q, state.joint_qd)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    if force is not None:
        put(control.joint_f, force)
    for _ in range(steps):
        solver.step(state, out, control, None, dt)
        state, out = out, state
    return state


POSE = [0.3, -0.2, 1.0, *Rotation.from_rotvec([0.3, 0.6, -0.2]).as_quat()]
ANCHOR = wp.transform(wp.vec3(0.5, 1.0, -0.4), wp.quat_rpy(0.4, -0.8, 1.3))


@pytest.mark.parametrize(
    "child_xform", [wp.transform_identity(), wp.transform((0.1, -0.2, 0.05), wp.quat_rpy(0.0, 0.5, 0.0))]
)
def test_anchor_frames_do_not_change_the_flight(child_xform):
    """Rotated anchors change the coordinates of a free body, not its motion; joint_f stays in world axes."""
    flights = []
    for parent_xform, child in ((wp.transform_identity(), wp.transform_identity()), (ANCHOR, child_xform)):
        model = free_body_model(parent_xform, child)
        state = fly(model, [POSE], [TWIST], 20, 0.005, JOINT_WRENCH)
        assert_consistent(model, state)
        flights.append((state.body_q.numpy()[0], state.body_qd.numpy()[0]))
    np.testing.assert_allclose(flights[1][0], flights[0][0], atol=5e-6)
    np.testing.assert_allclose(flights[1][1], flights[0][1], atol=2e-5)


def test_descendant_free_body_flies_alone():
    """A free joint below a spinning arm couples nothing: the body flies as if it hung from the world."""
    dt, steps = 5.0e-4, 100
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    arm = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.2)), lock_inertia=True, label="arm")
    inertia = wp.mat33(0.5, 0.01, 0.0, 0.01, 0.4, -0.02, 0.0, -0.02, 0.3)
    body = builder.add_link(mass=2.0, inertia=inertia, com=wp.vec3(*COM), lock_inertia=True, label="stone")
    hinge = builder.add_joint_revolute(-1, arm, axis=(0.0, 0.6, 0.8), parent_xform=ANCHOR)
    free = builder.add_joint_free(body, parent=arm, parent_xform=wp.transform((0.2, 0, 0), wp.quat_rpy(0.0, 0.3, 0.0)))
    builder.add_articulation([hinge, free])
    model = builder.finalize()
    state = model.state()
    put(state.joint_qd, [2.0, 0, 0, 0, 0, 0, 0])
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    arm_pose, arm_velocity = state.body_q.numpy()[0], state.body_qd.numpy()[0]
    below = fly(model, [arm_pose, POSE], [arm_velocity, TWIST], steps, dt)
    alone = fly(free_body_model(wp.transform_identity(), wp.transform_identity()), [POSE], [TWIST], steps, dt)
    assert_consistent(model, below)
    np.testing.assert_allclose(below.body_q.numpy()[1], alone.body_q.numpy()[0], atol=2e-5)
    np.testing.assert_allclose(below.body_qd.numpy()[1], alone.body_qd.numpy()[0], atol=2e-4)
    assert below.joint_qd.numpy()[0] == pytest.approx(2.0, abs=1e-5)


@pytest.mark.parametrize("to_sap", [False, True])
def test_a_prescribed_free_joint_changes_order_too(to_sap):
    """A kinematic body with its COM off the origin keeps its motion from one order into the other."""
    builder = newton.ModelBuilder()
    com = wp.vec3(0.5, 0.0, 0.0)
    builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)), com=com, is_kinematic=True)
    model = builder.finalize()
    public, sap = [1.0, 1.0, 0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 2.0, 1.0, 0.0, 0.0]
    plain, raw = model.state(), model.state()
    other = SapState(raw.joint_q, raw.joint_qd, raw.body_q, raw.body_qd, raw.body_f)
    before, after = (plain, other) if to_sap else (other, plain)
    before.joint_qd.assign(public if to_sap else sap)
    SolverSAP(model).step(before, after, None, None, 0.01)
    np.testing.assert_allclose(after.joint_qd.numpy(), sap if to_sap else public, atol=1e-6)
    np.testing.assert_allclose(after.body_qd.numpy()[0], public, atol=1e-6)
