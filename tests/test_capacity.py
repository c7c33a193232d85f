"""The default number of contact slots suits what the shapes of a model may do."""

import warnings

import newton
import numpy as np
import pytest
import warp as wp
from rig import link

from newton_sap import SolverSAP
from newton_sap.boundary import topology
from newton_sap.boundary.capacity import likely_contacts
from newton_sap.boundary.topology import build_topology


def snake(count=12):
    """A chain of flat boxes on a floating base."""
    builder = newton.ModelBuilder()
    joints, above = [], -1
    for _ in range(count):
        link = builder.add_link()
        builder.add_shape_box(link, hx=0.1, hy=0.05, hz=0.03)
        if above < 0:
            joints.append(builder.add_joint_free(link))
        else:
            joints.append(builder.add_joint_revolute(above, link, axis=(0.0, 0.0, 1.0)))
        above = link
    builder.add_articulation(joints)
    return builder


def plate(boxes=9):
    """One body made of boxes side by side."""
    builder = newton.ModelBuilder()
    body = builder.add_body()
    for i in range(boxes):
        at = wp.transform((0.1 * i, 0.0, 0.0), wp.quat_identity())
        builder.add_shape_box(body, xform=at, hx=0.04, hy=0.04, hz=0.05)
    return builder


@pytest.mark.parametrize(
    ("scene", "lying"), [(snake, 12 * 4), (plate, 9 * 4)], ids=["a chain of boxes", "a compound of boxes"]
)
def test_a_body_may_lie_on_all_its_boxes(scene, lying):
    """Each box that lies on the ground has four contacts, in every world."""
    builder = newton.ModelBuilder()
    builder.replicate(scene(), 3)
    builder.add_ground_plane()
    model = builder.finalize()
    assert likely_contacts(model, build_topology(model)).sum() >= 3 * lying


def heap(shape, side=4, height=7, radius=0.05):
    """Bodies that hang in rows above each other between four walls, near enough to fall onto each other."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    wide, pitch = 1.1 * radius * side + 0.02, 2.2 * radius
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        at = wp.transform((x * (wide + radius), y * (wide + radius), 1.0), wp.quat_identity())
        across = wide + 2.0 * radius
        builder.add_shape_box(-1, xform=at, hx=radius if x else across, hy=radius if y else across, hz=1.0)
    for place in np.ndindex(side, side, height):
        x, y, z = pitch * (np.array(place) - (0.5 * (side - 1), 0.5 * (side - 1), 0.0))
        body = builder.add_body(xform=wp.transform((x, y, z + 1.2 * radius), wp.quat_identity()))
        shape(builder, body, radius)
    return builder


@pytest.mark.parametrize(
    "shape",
    [
        lambda b, i, r: b.add_shape_sphere(i, radius=r),
        lambda b, i, r: b.add_shape_box(i, hx=0.8 * r, hy=0.8 * r, hz=0.8 * r),
    ],
    ids=["spheres", "cubes"],
)
def test_a_falling_heap_has_room(shape, monkeypatch):
    """At 60 Hz a body that falls reaches more than its neighbours within a step; none of its contacts is lost."""
    monkeypatch.setattr("newton_sap.boundary.capacity.CONTACT_MEMORY", 0)
    model = heap(shape).finalize()
    pipeline = newton.CollisionPipeline(model, rigid_contact_max=20000)
    solver, state, contacts = SolverSAP(model), model.state(), pipeline.contacts()
    for _ in range(45):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 1.0 / 60.0)
    report = solver.report()
    assert report.contacts_peak.max() > 4 * model.body_count  # nearly all that come to touch
    assert report.contacts_dropped.sum() == 0


@pytest.mark.parametrize(("kind", "points"), [("sphere", 1), ("ellipsoid", 1), ("capsule", 2), ("box", 4), ("cone", 4)])
def test_a_link_has_slots_for_what_its_shape_lies_on(kind, points):
    """A ball on one point, a capsule on its two ends, the rest on four; a link of several does not lie in a pile."""
    builder = newton.ModelBuilder()
    root, tip = link(builder), link(builder)
    getattr(builder, f"add_shape_{kind}")(tip)
    builder.add_articulation([builder.add_joint_prismatic(-1, root), builder.add_joint_prismatic(root, tip)])
    model = builder.finalize()
    assert likely_contacts(model, build_topology(model)).tolist() == [points]


def test_what_cannot_touch_has_no_slots():
    """Shapes that do not collide, and those of the world, ask for nothing."""
    builder = newton.ModelBuilder()
    seen = newton.ModelBuilder.ShapeConfig(has_shape_collision=False)
    builder.add_shape_box(builder.add_body(), hx=0.1, hy=0.1, hz=0.1, cfg=seen)
    builder.add_ground_plane()
    model = builder.finalize()
    assert likely_contacts(model, build_topology(model)).sum() == 0


def test_construction_does_not_speak_of_a_pipeline_that_nobody_made(monkeypatch):
    """Newton warns of large pipelines; the solver asks one for its size, and the caller's own will say the same."""
    real, model = newton.CollisionPipeline, snake().finalize()

    def large(*args, **kwargs):
        warnings.warn("CollisionPipeline automatically selected very many rigid contact slots", stacklevel=2)
        return real(*args, **kwargs)

    monkeypatch.setattr(newton, "CollisionPipeline", large)
    with pytest.warns(UserWarning, match="very many"):
        newton.CollisionPipeline(model, publish_capacity=False)
    SolverSAP(model)  # warnings are errors here


def test_more_entries_than_an_index_counts_are_refused(monkeypatch):
    """Where the mass matrices of all worlds together have too many entries, not found as negative indices later."""
    world = newton.ModelBuilder()
    joints = [world.add_joint_revolute(-1, world.add_link(mass=1.0, inertia=wp.diag(wp.vec3(1.0))), axis=(0, 1, 0))]
    joints += [world.add_joint_ball(0, world.add_link(mass=1.0, inertia=wp.diag(wp.vec3(1.0))))]
    world.add_articulation(joints)
    builder = newton.ModelBuilder()
    builder.replicate(world, 3)
    model = builder.finalize()
    most = 3 * 4 * 4
    monkeypatch.setattr(topology, "MOST", most)
    SolverSAP(model)
    monkeypatch.setattr(topology, "MOST", most - 1)
    with pytest.raises(ValueError, match="too large.*tree_block_start reaches 48.*several models"):
        SolverSAP(model)
