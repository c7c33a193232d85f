"""Which of two kernels fills a model's slots: the one that tells edges inside surfaces, or the one that compiles in half the time."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import Rig

from newton_sap import SolverSAP
from newton_sap.contacts.filling import fill_kernel

DT = 1.0 / 60.0
TILE = newton.ModelBuilder.ShapeConfig(mu=0.5)


def on_a_plane(add, *shapes):
    """A body with some shapes above the ground; ``add`` adds to the builder what else there is."""
    builder = newton.ModelBuilder()
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.3)))
    for number, shape in enumerate(shapes):
        at = wp.transform((0.4 * number, 0.0, 0.0))
        getattr(builder, f"add_shape_{shape}")(body, xform=at, cfg=TILE)
    builder.add_ground_plane(cfg=TILE)
    add(builder)
    return builder


def nothing(builder):
    """No more."""


def a_tile(builder):
    """A box of the world."""
    builder.add_shape_box(-1, hx=1.0, hy=1.0, hz=0.01, cfg=TILE)


def a_ball_of_the_world(builder):
    """What is round has no edges."""
    builder.add_shape_sphere(-1, xform=wp.transform((2.0, 0.0, 0.0)), radius=0.1, cfg=TILE)


def a_plane_with_borders(builder):
    """It may end flush with others."""
    builder.add_shape_plane(xform=wp.transform((2.0, 0.0, 0.0)), body=-1, width=1.0, length=1.0, cfg=TILE)


def a_lift(builder):
    """A kinematic body, round or not: what is on it may be any."""
    lift = builder.add_body(xform=wp.transform((3.0, 0.0, 1.0)), is_kinematic=True)
    builder.add_shape_sphere(lift, radius=0.1, cfg=TILE)


def a_pedestal(builder):
    """A body fixed to the world."""
    body = builder.add_link(xform=wp.transform((0.0, 0.0, 0.0)))
    builder.add_articulation([builder.add_joint_fixed(-1, body)])
    builder.add_shape_box(body, hx=1.0, hy=1.0, hz=0.01, cfg=TILE)


@pytest.mark.parametrize(
    "add, shapes, edges",
    [
        (nothing, ["capsule"], False),
        (nothing, ["box"], False),
        (nothing, ["cylinder", "sphere"], False),
        (nothing, ["box", "box"], True),
        (a_tile, ["sphere"], True),
        (a_ball_of_the_world, ["box"], False),
        (a_plane_with_borders, ["sphere"], True),
        (a_lift, ["box"], True),
        (a_lift, ["sphere"], False),
        (a_pedestal, ["sphere"], True),
    ],
)
def test_who_tells_edges(add, shapes, edges):
    """Surfaces that no unknown moves, but for planes without borders and what is round, and bodies of several flat shapes have them."""
    model = on_a_plane(add, *shapes).finalize()
    assert SolverSAP(model).fill_kernel is fill_kernel(edges)
    assert SolverSAP(model, pass_over_edges=False).fill_kernel is fill_kernel(False)


def test_both_fill_alike():
    """On one plane there are no edges to pass over: the bits are the same."""
    motions = []
    for edges in (False, True):
        rig = Rig(on_a_plane(nothing, "box"), DT)
        rig.solver.fill_kernel = fill_kernel(edges)
        motions.append(rig.run(40).q)
    np.testing.assert_array_equal(*motions)


def test_a_body_that_becomes_kinematic_may_have_edges():
    """From its notice on."""
    model = on_a_plane(nothing, "box").finalize()
    solver = SolverSAP(model)
    flags = model.body_flags.numpy()
    flags[0] = int(newton.BodyFlags.KINEMATIC)
    model.body_flags.assign(flags)
    solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
    assert solver.fill_kernel is fill_kernel(True)
