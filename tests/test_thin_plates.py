"""Boxes that lean by more than they are thick: of their corners a plane meets those of the face that looks at it (F 4.4)."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import G, Rig, slopes_of_a_step, tight

from newton_sap import SolverSAP
from newton_sap.reference import ReferenceSolver

Y = wp.vec3(0.0, 1.0, 0.0)


def plate(half, lean, height=0.0, about=Y, plane_on_a_body=False, **kwargs):
    """A box that leans, its middle so far above where its lowest corner would touch a plane: the ground, or one that a body holds askew."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -G), **kwargs)
    turned = wp.quat_from_axis_angle(wp.normalize(about), lean)
    corners = [wp.vec3(*(np.array([x, y, z]) * half)) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    reach = max(wp.quat_rotate(turned, corner)[2] for corner in corners)
    body = builder.add_body(xform=wp.transform((0.0, 0.0, reach + height), turned))
    builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2])
    if plane_on_a_body:
        held = builder.add_body(is_kinematic=True)
        askew = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.3)
        builder.add_shape_plane(xform=wp.transform(wp.vec3(), askew), width=0.0, length=0.0, body=held)
        builder.joint_q[-4:] = [*wp.quat_inverse(askew)]
    else:
        builder.add_ground_plane()
    return builder


@pytest.mark.parametrize(
    ("lean", "rate", "model"),
    [(0.1, 60.0, "lagged"), (0.8, 60.0, "lagged"), (0.1, 240.0, "lagged"), (0.8, 60.0, "similar"), (0.8, 60.0, "sap")],
)
def test_a_plate_comes_to_rest_on_its_face(lean, rate, model):
    """Dropped by 10 cm, 1 mm thick; its middle went 3 to 5 cm below the ground at 60 Hz, where it turned to and fro for good."""
    rig = Rig(plate((0.05, 0.05, 0.0005), lean, 0.1), 1.0 / rate, contact_model=model)
    lowest = np.inf
    for _ in range(round(1.5 * rate)):
        lowest = min(lowest, rig.run(1).body_q[0, 2])
    assert lowest > 0.0
    assert rig.body_q[0, 2] == pytest.approx(0.0005, abs=2e-4)
    np.testing.assert_allclose(rig.v, 0.0, atol=1e-3)


LYING, UPRIGHT, CUBE = (0.1, 0.07, 0.001), (0.002, 0.1, 0.1), (0.05, 0.05, 0.05)


@pytest.mark.parametrize(
    ("half", "lean", "held"),
    [
        (LYING, 0.05, False), (LYING, 0.05, True), (LYING, 0.7, False), (LYING, -0.7, True), (LYING, 2.0, False),
        (UPRIGHT, 0.05, False), (UPRIGHT, 0.9, True), (CUBE, 0.7, False), (CUBE, 0.9, True),
    ],
)  # fmt: skip
def test_steps_equal_the_reference(half, lean, held):
    """Found inside by a centimetre, leaning by little and by much, on the ground and on a plane that a body holds."""
    model = plate(half, lean, -0.01, wp.vec3(0.3, 1.0, 0.1), held).finalize()
    state, pipeline = model.state(), newton.CollisionPipeline(model)
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    truth = ReferenceSolver(model, **tight()).step(state, model.control(), contacts, 0.01)
    solver = SolverSAP(model, **tight())
    solver.step(state, model.state(), None, contacts, 0.01)
    np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)
    if half[2] < 0.01 and abs(lean) < 0.8:
        assert np.ptp([contact["point"][0] for contact in truth.gamma]) > half[0]  # it stands on two edges


def test_what_is_near_no_corner_stays_where_it_was_found():
    """Contacts that others found elsewhere on a box, here in the middle of its upper face, are theirs."""
    model = plate((0.1, 0.1, 0.01), 0.0, -0.005).finalize()
    state, contacts = model.state(), newton.CollisionPipeline(model).contacts()
    newton.CollisionPipeline(model).collide(state, contacts)
    ground_first = contacts.rigid_contact_shape0.numpy()[0] == 1
    at = contacts.rigid_contact_point1 if ground_first else contacts.rigid_contact_point0
    points = at.numpy()
    points[:] = [0.0, 0.0, 0.01]
    at.assign(points)
    out = model.state()
    SolverSAP(model).step(state, out, None, contacts, 1.0 / 240.0)
    np.testing.assert_allclose(out.joint_qd.numpy()[:3], [0.0, 0.0, -G / 240.0], atol=1e-6)


def test_gradients_go_through_corners_that_were_exchanged():
    """By height, attitude and velocities of a plate that leans into the ground, against differences with contacts found anew."""
    model = plate((0.1, 0.07, 0.001), 0.3, -0.004, wp.vec3(0.3, 1.0, 0.1)).finalize(requires_grad=True)
    q, v = model.joint_q.numpy().astype(float), np.array([0.0, 0.0, 0.0, 3.0, -6.0, 1.0])
    slopes, differences = slopes_of_a_step(SolverSAP(model), q, v, 0.01, 2.0**-10)
    np.testing.assert_allclose(slopes, differences, rtol=1e-2, atol=2e-2)
