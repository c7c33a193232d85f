"""What is applied to joints for the whole step, ``joint_f`` and explicit springs, neither feeds nor damps what swings by it (F 1.1)."""

import numpy as np
import pytest
import warp as wp
from rig import Rig, link, weightless

STIFFNESS = 30.0


def chain(count=3, stiffness=0.0):
    """Links of 0.3 m and 1 kg on level hinges, weightless, bent by a radian at the first one."""
    builder = weightless()
    joints, above = [], -1
    for i in range(count):
        body = link(builder, 1.0, [0.001, 0.008, 0.008])
        end = wp.transform((0.15 if i else 0.0, 0.0, 0.0))
        springs = {"stiffness": stiffness, "rest_q": 0.0} if stiffness else {}
        base = wp.transform((-0.15, 0.0, 0.0))
        joints.append(
            builder.add_joint_revolute(
                above, body, axis=(0, 1, 0), parent_xform=end, child_xform=base, armature=0.0, **springs
            )
        )
        above = body
    builder.add_articulation(joints)
    builder.joint_q[0] = 1.0
    return builder


def energies(rig, seconds, push=None, stored=lambda q: 0.0):
    """Mean energy in each quarter of the time [J]; at one instant it swings by what positions are ahead of velocities."""
    steps, out = round(seconds / rig.dt), []
    for _ in range(steps):
        if push is not None:
            rig.control.joint_f.assign(np.asarray(push(rig.q), np.float32))
        rig.run()
        report = rig.solver.report(rig.state)
        out.append(report.kinetic_energy.sum() + (stored(rig.q) or report.potential_energy.sum()))
    return [np.mean(part) for part in np.array_split(out, 4)]


@pytest.mark.parametrize(("dt", "tolerance"), [(1.0 / 240.0, 0.025), (1e-3, 2e-3)])
def test_springs_of_the_caller_keep_their_energy(dt, tolerance):
    """Of 15 J in three links there were 17.8 after three seconds at 240 Hz, and the gain went with the step only."""
    rig = Rig(chain(), dt)
    means = energies(rig, 3.0, lambda q: -STIFFNESS * q, lambda q: 0.5 * STIFFNESS * q @ q)
    np.testing.assert_allclose(means, 0.5 * STIFFNESS, rtol=tolerance)


def test_explicit_springs_are_the_same():
    """Springs of the model act as those of the caller, step by step, where they are integrated explicitly."""
    own = Rig(chain(stiffness=STIFFNESS), 1.0 / 240.0, spring_integration="explicit")
    callers = Rig(chain(), 1.0 / 240.0)
    for _ in range(100):
        callers.control.joint_f.assign(-np.float32(STIFFNESS) * callers.q)
        np.testing.assert_allclose(callers.run().v, own.run().v, atol=1e-3)


def slider_crank(slide_closes):
    """A crank, a rod and a slider; the loop is closed by the slide or by the hinge of slider and rod."""
    builder = weightless()
    A, B = np.array([0.2, 0.0, 0.1]), np.array([0.5, 0.0, 0.0])
    bodies = []
    for start, end in ((np.zeros(3), A), (A, B)):
        along = (end - start) / np.linalg.norm(end - start)
        turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), float(-np.arctan2(along[2], along[0])))
        half = 0.5 * np.linalg.norm(end - start)
        mass = 2.0 * half
        bodies.append((link(builder, mass, [1e-4, mass * half**2 / 3.0, mass * half**2 / 3.0]), turn, half))
    slider = link(builder, 1.0, 0.01)
    (crank, turn_a, half_a), (rod, turn_b, half_b) = bodies

    def hinge(parent, child, parent_xform, child_xform):
        return builder.add_joint_revolute(
            parent, child, axis=(0, 1, 0), parent_xform=parent_xform, child_xform=child_xform, armature=0.0
        )

    def end(turn, half, sign):
        return wp.transform((sign * half, 0.0, 0.0), wp.quat_inverse(turn))

    first = hinge(-1, crank, wp.transform(), end(turn_a, half_a, -1.0))
    elbow = hinge(crank, rod, end(turn_a, half_a, 1.0), end(turn_b, half_b, -1.0))
    track = {"axis": (1, 0, 0), "parent_xform": wp.transform(wp.vec3(*B)), "armature": 0.0}
    if slide_closes:
        pin = hinge(rod, slider, end(turn_b, half_b, 1.0), wp.transform())
        builder.add_joint_prismatic(-1, slider, **track)
        builder.add_articulation([first, elbow, pin])
    else:
        slide = builder.add_joint_prismatic(-1, slider, **track)
        hinge(rod, slider, end(turn_b, half_b, 1.0), wp.transform())
        builder.add_articulation([first, elbow])
        builder.add_articulation([slide])
    return builder


@pytest.mark.parametrize(
    ("slide_closes", "dt", "tolerance"),
    [(True, 1.0 / 240.0, 0.02), (True, 1e-3, 2e-3), (False, 1.0 / 240.0, 0.05), (False, 1e-3, 3e-3)],
)
def test_a_crank_swings_back_as_far(slide_closes, dt, tolerance):
    """Between 0 and 0.8 rad, through the dead centre; within 0.8 s it lost a third of its way at 240 Hz where the slide closes the loop."""
    rig = Rig(slider_crank(slide_closes).finalize(skip_validation_joints=True), dt)
    turned, before = [], 0.0
    for _ in range(round(0.8 / dt)):
        rig.control.joint_f.assign(np.r_[-20.0 * (rig.q[0] - 0.4), np.zeros(len(rig.v) - 1)].astype(np.float32))
        rate = rig.run().v[0]
        if before * rate < 0.0:
            turned.append(rig.q[0])
        before = rate
    assert len(turned) >= 4
    np.testing.assert_allclose(turned, np.resize([0.8, 0.0], len(turned)), atol=tolerance)
    assert rig.solver.report().healthy


def test_a_cone_goes_round_by_the_callers_torque():
    """A bob on two hinges that the caller's torque holds up, at a steady rate: nothing changes."""
    builder = weightless()
    post, bob = link(builder, 0.1, 0.001), link(builder, 1.0, 0.001)
    joints = [
        builder.add_joint_revolute(-1, post, axis=(0, 0, 1), armature=0.0),
        builder.add_joint_revolute(post, bob, axis=(0, 1, 0), child_xform=wp.transform((-0.5, 0, 0)), armature=0.0),
    ]
    builder.add_articulation(joints)
    builder.joint_q[1], builder.joint_qd[0] = 0.6, 4.0
    rig = Rig(builder, 1.0 / 240.0)
    for _ in range(960):
        lean, rate = rig.q[1], rig.v[0]
        pull = -0.25 * rate**2 * np.sin(lean) * np.cos(lean)  # m l^2 w^2 sin cos, which pulls the bob level
        rig.control.joint_f.assign(np.array([0.0, -pull], np.float32))
        rig.run()
    assert rig.q[1] == pytest.approx(0.6, abs=0.02)
    assert rig.v[0] == pytest.approx(4.0, abs=0.05)
