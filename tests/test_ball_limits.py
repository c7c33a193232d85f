"""Swing and twist limits of ball joints, in trees and closing loops."""

import math

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig, link, put, weightless
from scipy.spatial.transform import Rotation

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

X = np.array([1.0, 0.0, 0.0])
KE = 1.0e4


def attributes(swing=None, lower=None, upper=None, axis=None):
    """The custom attributes of one joint."""
    values = {"swing_limit": swing, "twist_limit_lower": lower, "twist_limit_upper": upper, "twist_axis": axis}
    return {f"sap:{name}": value for name, value in values.items() if value is not None}


def ball(builder, arm=0.5, inertia=0.1, **limits):
    """One body on a ball joint at the origin, its COM ``arm`` along x."""
    SolverSAP.register_custom_attributes(builder)
    body = link(builder, 1.0, inertia, com=wp.vec3(arm, 0.0, 0.0))
    builder.add_articulation([builder.add_joint_ball(-1, body, custom_attributes=attributes(**limits))])
    return builder


def swing_of(q, axis=X):
    """Angle by which a rotation tips an axis."""
    return math.acos(np.clip(axis @ Rotation.from_quat(q).apply(axis), -1.0, 1.0))


def twist_of(q, axis=X):
    """What a rotation turns about an axis, once the shortest way back of the axis is undone."""
    R = Rotation.from_quat(q)
    tipped = R.apply(axis)
    across = np.cross(tipped, axis)
    angle = swing_of(q, axis)
    back = Rotation.from_rotvec(angle * across / max(np.linalg.norm(across), 1e-12))
    return float(axis @ (back * R).as_rotvec())


def test_pendulum_hangs_at_its_swing_limit():
    """Gravity pulls an arm down to the limit and into it by torque over stiffness."""
    limit, kd = 0.4, 300.0
    rig = Rig(ball(newton.ModelBuilder(), swing=limit), 0.005)
    rig.model.joint_limit_kd.fill_(kd)
    rig.run(2000)
    assert rig.solver.report().healthy
    assert np.abs(rig.v).max() < 1e-4
    torque = 0.5 * 9.81 * math.cos(limit)
    assert swing_of(rig.q) - limit == pytest.approx(torque / KE, rel=0.05)


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_twisted_arm_stops_at_its_twist_limit(way):
    """A moment about the axis is held at the limit of its side."""
    torque, dt = 2.0, 0.005
    rig = Rig(ball(weightless(), lower=-0.3, upper=0.7), dt, force=[way * torque, 0.0, 0.0])
    rig.model.joint_limit_kd.fill_(300.0)
    rig.run(2000)
    limit = 0.7 if way > 0.0 else -0.3
    assert way * (twist_of(rig.q) - limit) == pytest.approx(torque / KE, rel=0.05)
    assert swing_of(rig.q) < 1e-5


def random_axis(rng):
    """A direction."""
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_step_returns_to_the_limits(seed, closes):
    """Undamped rigid limits bring back in one step what is beyond them, about any axis and at any speed."""
    rng = np.random.default_rng(seed)
    axis, beyond, dt = random_axis(rng), 1.0e-3, 1.0e-4
    turn = Rotation.from_rotvec(0.8 * random_axis(rng)).as_quat()
    swing, twist = swing_of(turn, axis), twist_of(turn, axis)
    limits = dict(swing=swing - beyond, axis=tuple(float(x) for x in axis))
    limits |= dict(upper=twist - beyond) if seed % 2 else dict(lower=twist + beyond)
    builder = weightless()
    SolverSAP.register_custom_attributes(builder)
    base, body = link(builder), link(builder, 1.0, [0.1, 0.2, 0.3])
    builder.add_articulation([builder.add_joint_fixed(-1, base)])
    if closes:
        builder.add_articulation([builder.add_joint_free(body)])
    joint = builder.add_joint_ball(base if closes else -1, body, custom_attributes=attributes(**limits))
    if not closes:
        builder.add_articulation([joint])
    v = 0.5 * rng.normal(size=3)
    rig = Rig(builder, dt, near_rigid_joint=1e-4)
    put(rig.state.joint_q, [0.0, 0.0, 0.0, *turn, *turn] if closes else turn)
    put(rig.state.joint_qd, [0.0, 0.0, 0.0, *v] if closes else v)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
    rig.model.joint_limit_ke.fill_(1e12)
    rig.model.joint_limit_kd.fill_(0.0)
    rig.run()
    after = rig.body_q[1, 3:]
    assert rig.solver.report().healthy
    assert swing_of(after, axis) == pytest.approx(swing - beyond, abs=2e-5)
    assert abs(twist_of(after, axis) - twist) == pytest.approx(beyond, abs=2e-5)


def test_within_the_limits_nothing_changes():
    """Limits out of reach leave every bit as it was."""
    options = dict(arm=0.5, inertia=[0.1, 0.2, 0.3])
    free = Rig(ball(newton.ModelBuilder(), **options), 0.005, v=[1.0, 0.2, -0.3]).run(20)
    held = Rig(ball(newton.ModelBuilder(), swing=3.0, lower=-3.0, upper=3.0, **options), 0.005, v=[1.0, 0.2, -0.3]).run(
        20
    )
    np.testing.assert_array_equal(free.q, held.q)
    np.testing.assert_array_equal(free.v, held.v)


def test_hitting_a_limit_conserves_angular_momentum():
    """Two floating bodies that fold up against their swing limit keep their angular momentum."""
    builder = weightless()
    SolverSAP.register_custom_attributes(builder)
    first, second = link(builder, 1.0, [0.1, 0.2, 0.3]), link(builder, 2.0, [0.3, 0.1, 0.2])
    arms = [wp.transform((0.3 * s, 0.0, 0.0), wp.quat_identity()) for s in (1, -1)]
    joints = [builder.add_joint_free(first)]
    joints.append(
        builder.add_joint_ball(
            first, second, parent_xform=arms[0], child_xform=arms[1], custom_attributes=attributes(swing=0.5, upper=0.4)
        )
    )
    builder.add_articulation(joints)
    rig = Rig(builder, 1e-3, v=[0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 2.0, 3.0, -1.0])
    rig.model.joint_limit_kd.fill_(300.0)
    before = rig.solver.report(rig.state).angular_momentum
    rig.run(600)
    turned = Rotation.from_quat(rig.body_q[0, 3:]).inv() * Rotation.from_quat(rig.body_q[1, 3:])
    assert swing_of(turned.as_quat()) > 0.45
    np.testing.assert_allclose(rig.solver.report(rig.state).angular_momentum, before, atol=2e-3 * np.abs(before).max())


def test_limit_passes_through_the_joint():
    """What a limit exerts is part of ``body_parent_f``: at rest it carries the weight and its moment."""
    rig = Rig(ball(newton.ModelBuilder(), swing=0.4), 0.005)
    rig.model.joint_limit_kd.fill_(300.0)
    rig.run(2000)
    seen = rig.solver.observables(["body_parent_f"])
    rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt, observables=seen)
    force, torque = np.split(seen.body_parent_f.numpy()[0].astype(float), 2)
    np.testing.assert_allclose(force, [0.0, 0.0, 9.81], atol=1e-3)
    np.testing.assert_allclose(torque, 0.0, atol=1e-3 * 9.81)  # about the COM, all the moment of the pivot's force


def test_limit_is_read_live_in_a_replayed_graph():
    """Tightening a limit acts at the next replay."""
    rig = Rig(ball(newton.ModelBuilder(), swing=0.8), 0.005)
    rig.model.joint_limit_kd.fill_(300.0)
    rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt)
    with wp.ScopedCapture(device=rig.model.device) as capture:
        rig.solver.step(rig.state, rig.next, rig.control, None, rig.dt)
        rig.solver.step(rig.next, rig.state, rig.control, None, rig.dt)
    for limit in (0.8, 0.4):
        rig.model.sap.swing_limit.fill_(limit)
        for _ in range(1000):
            wp.capture_launch(capture.graph)
        assert swing_of(rig.q) == pytest.approx(limit, abs=2e-3)


def test_limit_that_is_not_a_number_is_counted():
    """A NaN in a limit is flagged, not read as no limit."""
    rig = Rig(ball(newton.ModelBuilder(), swing=0.8), 0.005)
    put(rig.state.joint_q, Rotation.from_rotvec([0.0, 0.1, 0.0]).as_quat())
    rig.model.sap.swing_limit.fill_(float("nan"))
    rig.run()
    assert rig.solver.report().non_finite_steps.sum() == 1


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        ({"swing": 4.0}, "joint 0.*at most pi"),
        ({"swing": float("nan")}, "joint 0.*at most pi"),
        ({"lower": 0.5, "upper": -0.5}, "joint 0.*lower bound is below"),
        ({"swing": 1.0, "axis": (0.0, 0.0, 0.0)}, "joint 0.*twist axis"),
    ],
)
def test_limits_that_cannot_be_are_refused(limits, match):
    """Each is named at construction."""
    with pytest.raises(ValueError, match=match):
        SolverSAP(ball(newton.ModelBuilder(), **limits).finalize())


def test_limit_of_another_joint_is_refused():
    """Swing and twist belong to ball joints."""
    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    joint = builder.add_joint_revolute(-1, link(builder), custom_attributes=attributes(swing=0.5))
    builder.add_articulation([joint])
    with pytest.raises(ValueError, match="joint 0.*no ball joint"):
        SolverSAP(builder.finalize())


def test_reference_refuses_ball_limits():
    """The reference does not know them, and says so."""
    model = ball(newton.ModelBuilder(), swing=0.5).finalize()
    with pytest.raises(NotImplementedError, match="limits of ball joints"):
        ReferenceSolver(model).step(model.state(), None, None, 0.01)


def test_limits_that_come_later_are_refused():
    """A joint without limits has no rows for them; one that has some may get others."""
    builder = ball(newton.ModelBuilder(), swing=0.5)
    ball(builder)
    model = builder.finalize()
    solver = SolverSAP(model)
    model.sap.swing_limit.assign([0.3, -1.0])
    solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
    model.sap.twist_limit_upper.assign([0.2, 0.2])
    with pytest.raises(NotImplementedError, match="joint 1.*got a swing or twist limit.*build the solver again"):
        solver.notify_model_changed(newton.ModelFlags.JOINT_DOF_PROPERTIES)
