"""Steps a scene and prints its velocities: python lanes_scene.py serial|blocks|races SCENE OPTIONS, with options as JSON.

Blocks have 32 lanes, memory is laid out as on a GPU, and contacts come in any order, as they do there.
"""

import json
import operator
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import newton
import numpy as np
import warp as wp

MODE, SCENE, OPTIONS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
wp.config.enable_cpu_blocks = MODE != "serial"
wp.config.log_level = wp.LOG_ERROR
wp.config.enable_backward = False
races = None
if MODE == "races":
    import lane_races

    scratch = tempfile.TemporaryDirectory()
    races = lane_races.watch(Path(scratch.name))

from test_faults import large_group, shuffled  # noqa: E402

import newton_sap  # noqa: E402
from newton_sap import SolverSAP, scenes  # noqa: E402
from newton_sap.boundary import capacity, topology  # noqa: E402
from newton_sap.runtime.launches import Launches  # noqa: E402

TIED = """<mujoco><compiler angle="radian"/><worldbody><geom type="plane" size="5 5 1"/>
  <site name="hook" pos="0 0.3 1.2"/>
  <body name="arm" pos="0 0 0.9"><joint name="shoulder" type="hinge" axis="0 1 0" range="-0.5 0.5" limited="true"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size=".04" mass="1"/><site name="wrist" pos="0.3 0 0.05"/>
    <body name="hand" pos="0.3 0 0"><joint name="elbow" type="hinge" axis="0 0 1" frictionloss="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size=".04" mass="0.5"/></body></body>
  <body name="crate" pos="0.5 0 0.099"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/><site name="ring" pos="0 0 0.1"/></body>
  <body name="lid" pos="0.5 0 0.25"><freejoint/><geom type="box" size=".1 .1 .04" mass="0.3"/></body>
</worldbody><equality>
  <connect body1="crate" body2="lid" anchor="0.1 0 0.13"/><joint joint1="elbow" joint2="shoulder" polycoef="0 0.5 0 0 0"/>
</equality><tendon>
  <spatial name="rope" stiffness="60" damping="2"><site site="hook"/><site site="wrist"/><site site="ring"/></spatial>
  <fixed name="sum"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="-0.5"/></fixed>
</tendon><actuator><position tendon="sum" kp="20" kv="2" forcerange="-3 3"/><motor tendon="rope" gear="-2"/></actuator></mujoco>"""


ALONG_X = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), wp.pi / 2.0)


def quadrupeds():
    """Two robots of many joints that drop onto their feet; model, step and number of steps."""
    scene = scenes.quadruped(world_count=2)
    return scene.model, scene.dt, 40


def tied():
    """Two ropes, a sum of joints with a servo, two closed loops and a limit, beside contacts."""
    world, builder = (newton.ModelBuilder(gravity=(0.0, 0.0, -9.81)) for _ in range(2))
    for each in (world, builder):
        newton.solvers.SolverMuJoCo.register_custom_attributes(each)
    world.add_mjcf(TIED)
    hand, crate = (
        next(b for b, label in enumerate(world.body_label) if label.endswith(name)) for name in ("hand", "crate")
    )
    hole, rope = newton.TendonGuideType.PINHOLE, dict(compliance=1e-3, damping=2.0)
    high = [newton.TendonGuide(body=-1, guide_type=hole, mu=0.1, offset=(0.1 * i, -0.2, 1.2), **rope) for i in range(6)]
    world.add_tendon([newton.TendonGuide(body=hand), *high, newton.TendonGuide(body=crate, **rope)])
    builder.replicate(world, 2)
    return builder.finalize(), 0.005, 30


def snake():
    """A long chain that falls across a box, and one across many, whose Hessian is kept in blocks."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    for world in range(2):
        builder.begin_world()
        chain = []
        for k in range(26):
            link = builder.add_link()
            builder.add_shape_capsule(
                link, xform=wp.transform((0.05, 0.0, 0.0), ALONG_X), radius=0.02, half_height=0.03
            )
            at = wp.transform((0.1 * (k > 0), 0.0, 0.3 * (k == 0)), wp.quat_identity())
            swings = [newton.ModelBuilder.JointDofConfig(axis=axis) for axis in ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))]
            chain.append(builder.add_joint_d6(chain[-1] if chain else -1, link, angular_axes=swings, parent_xform=at))
        builder.add_articulation(chain)
        for k in range(1 + 60 * world):
            body = builder.add_body(xform=wp.transform((0.6 + 0.11 * k, 0.02, 0.16), wp.quat_identity()))
            builder.add_shape_box(body, hx=0.05, hy=0.05, hz=0.05)
        builder.end_world()
    builder.add_ground_plane()
    return builder.finalize(), 0.005, 36  # then impacts make large differences of small ones


def heap():
    """So many balls that directions come from conjugate gradients."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    builder.add_world(large_group())
    builder.add_ground_plane()
    return builder.finalize(), 0.005, 3


def field():
    """Stacks of three boxes and balls in one world, listed across each other: clusters of three trees, of one, and of two that a joint
    ties."""
    builder, balls = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81)), []
    for level in range(3):
        for x in (-2.0, 1.5, 0.0):
            body = builder.add_body(xform=wp.transform((x, 0.3 * x, 0.099 + 0.198 * level), wp.quat_identity()))
            builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
        ball = builder.add_body(xform=wp.transform((3.0 + level, 0.0, 0.11), wp.quat_identity()))
        builder.add_shape_sphere(ball, radius=0.1)
        balls.append(ball)
    half = wp.transform((1.0, 0.0, 0.0), wp.quat_identity())
    builder.add_joint_ball(balls[0], balls[2], parent_xform=half, child_xform=wp.transform_inverse(half))
    builder.add_ground_plane()
    return builder.finalize(), 0.005, 12


def as_on_a_gpu():
    """Give each matrix a place of its own, make one part of all groups, and let many threads share what has no groups."""
    place, gpu = topology.place_matrices, SimpleNamespace(is_cpu=False, is_cuda=True)
    topology.place_matrices = lambda *given: place(*given[:-1], gpu)
    largest_cluster = topology.largest_cluster
    topology.largest_cluster = lambda _: largest_cluster(gpu)
    topology._parts = lambda *_: 1
    place_pairs = capacity.place_pairs
    capacity.place_pairs = lambda *given: place_pairs(*given[:-1], False)
    by_tree = operator.attrgetter("tree_count")
    Launches.clusters = lambda self, kernel, inputs: self._share(wp.launch_tiled, kernel, by_tree, inputs)
    Launches._sharers = lambda _, count: min(max(count, 1), 97)


RING = np.array([[np.nan, 2.0, 0.0], [0.0, np.nan, 1.0], [1.0, 1.0, np.nan]])
"""Of these points, by the numbers that two of them have, each comes before the next, the last one before the first."""


def spoil(contacts):
    """Points without numbers in the first world."""
    count = int(contacts.rigid_contact_count.numpy()[0])
    point, shape = contacts.rigid_contact_point0.numpy(), contacts.rigid_contact_shape1.numpy()
    ours = np.flatnonzero(model.shape_world.numpy()[shape[:count]] == 0)
    point[ours] = RING[np.arange(len(ours)) % 3]
    contacts.rigid_contact_point0.assign(point)


@wp.kernel
def lanes(out: wp.array[wp.int32]):
    _g, lane = wp.tid()
    wp.atomic_max(out, 0, wp.block_dim())
    wp.atomic_add(out, 1, 1)


if MODE != "serial":
    as_on_a_gpu()
counted = wp.zeros(2, dtype=wp.int32)
wp.launch_tiled(lanes, dim=[1], inputs=[counted], block_dim=32)
model_of = {"quadrupeds": quadrupeds, "spoilt": tied, "tied": tied, "heap": heap, "snake": snake, "field": field}[SCENE]
model, dt, steps = model_of()
solver = SolverSAP(model, **OPTIONS)
state, control, pipeline = model.state(), model.control(), newton.CollisionPipeline(model)
contacts = pipeline.contacts()
if model_of is tied:
    control.mujoco.ctrl.fill_(0.4)
newton.eval_fk(model, model.joint_q, model.joint_qd, state)
observables = solver.observables({"contact_f", "contact_velocity", "joint_contact_f"}, contacts=contacts)
for step in range(steps):
    pipeline.collide(state, contacts)
    if SCENE == "spoilt":
        spoil(contacts)
    if MODE != "serial":
        shuffled(contacts, step)
    solver.step(state, state, control, contacts, dt, observables=observables)
report = solver.report()
told = {
    "package": newton_sap.__file__,
    "lanes": counted.numpy().tolist(),
    "v": solver.inspect().v.tolist(),
    "f": observables.joint_contact_f.numpy().tolist(),
    "contacts": report.contacts.tolist(),
    "rows": solver.pool.row.numpy()[: report.contacts.sum()].tolist(),
    "healthy": report.healthy,
}
if races is not None:
    told["uneven"] = races.uneven_blocks()
    told["races"] = races.found(Path(newton_sap.__file__).parent)
print(json.dumps(told))
