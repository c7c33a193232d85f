"""What costs nothing on a CPU and waits for a GPU, or is refused while a graph is recorded: reading arrays, making new ones."""

import newton
import pytest
import test_capture
import warp as wp
from loop_scenes import MAKERS, Axis, X, Y
from mjcf import finish
from rig import link
from test_ball_limits import attributes
from test_routed_tendons import thrown_together
from warp._src.context import CpuDefaultAllocator

from newton_sap import SolverSAP

TIES = """<mujoco><worldbody><geom type="plane" size="5 5 1"/><site name="hook" pos="0 0.3 1.2"/>
  <body name="arm" pos="0 0 0.9"><joint name="shoulder" axis="0 1 0" range="-0.5 0.5"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size=".04" mass="1"/><site name="wrist" pos="0.3 0 0.05"/>
    <body name="hand" pos="0.3 0 0"><joint name="elbow" axis="0 0 1" frictionloss="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size=".04" mass="0.5"/></body></body>
  <body name="crate" pos="0.5 0 0.099"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/><site name="ring"/></body>
  <body name="lid" pos="0.5 0 0.25"><freejoint/><geom type="box" size=".1 .1 .04" mass="0.3"/></body>
</worldbody><equality>
  <connect body1="crate" body2="lid" anchor="0.1 0 0.13"/><joint joint1="elbow" joint2="shoulder" polycoef="0 0.5 0 0 0"/>
  <tendon tendon1="sum" tendon2="rope"/>
</equality><tendon>
  <spatial name="rope" stiffness="60" damping="2"><site site="hook"/><site site="wrist"/><site site="ring"/></spatial>
  <fixed name="sum"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="-0.5"/></fixed>
</tendon><actuator><position joint="elbow" kp="20" kv="2" forcerange="-3 3"/><motor tendon="rope" gear="-2"/>
  <motor site="ring" gear="0 0 1 0 0 0"/></actuator></mujoco>"""


def loops():
    """Every joint that closes a loop, limits of a ball joint, a distance, and joints that follow others."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    SolverSAP.register_custom_attributes(builder)
    for make in MAKERS.values():
        a, b = link(builder), link(builder)
        builder.add_articulation([builder.add_joint_free(a)])
        builder.add_articulation([builder.add_joint_free(b)])
        make(builder, a, b)
    swing = builder.add_joint_ball(-1, link(builder), custom_attributes=attributes(swing=0.5))
    builder.add_articulation([swing])
    builder.add_articulation([builder.add_joint_distance(-1, link(builder), max_distance=0.2)])
    both = dict(linear_axes=[Axis(axis=X)], angular_axes=[Axis(axis=Y)])
    leader, follower, older = (builder.add_joint_d6(-1, link(builder), **both) for _ in range(3))
    builder.add_articulation([leader, follower, older])
    builder.set_joint_mimic(follower, leader)
    with pytest.warns(newton.NewtonDeprecationWarning):
        builder.add_constraint_mimic(older, leader)
    builder.add_shape_sphere(0, radius=0.1)
    return builder


def many(make, worlds):
    """A model of so many copies of what a builder has."""
    builder, part = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81)), make()
    SolverSAP.register_custom_attributes(builder)
    for _ in range(worlds):
        builder.add_world(part)
    return builder.finalize()


MODELS = {
    "ties": lambda worlds: finish(TIES, worlds=worlds, gravity=-9.81),
    "loops": lambda worlds: many(loops, worlds),
    "ropes": lambda worlds: many(lambda: thrown_together(0.3), worlds),
    "quadruped": lambda worlds: many(test_capture.quadruped, worlds),
    "no shapes": lambda worlds: many(test_capture.pendulum, worlds),
}


@pytest.mark.parametrize("name", MODELS)
def test_construction_reads_as_often_for_many_worlds(name, monkeypatch):
    """How often a solver reads arrays of its model does not depend on the number of worlds."""
    reads, numpy = [], wp.array.numpy
    models = [MODELS[name](worlds) for worlds in (2, 5)]
    monkeypatch.setattr(wp.array, "numpy", lambda array, **how: reads.append(array) or numpy(array, **how))
    counts = []
    for model in models:
        reads.clear()
        SolverSAP(model)
        counts.append(len(reads))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", MODELS)
def test_steps_neither_read_nor_allocate(name, monkeypatch):
    """From the first step on nothing is read from the device, and no memory is asked for."""
    model = MODELS[name](2)
    solver, state, after, control = SolverSAP(model), model.state(), model.state(), model.control()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    kinds = {"contact_f", "body_qdd", "body_parent_f", "joint_contact_f", "joint_drive_f", "contact_gap"}
    observables = solver.observables(kinds, contacts=contacts)
    pipeline.collide(state, contacts)

    def refuse(*_, **__):
        raise AssertionError("a step read or allocated")

    monkeypatch.setattr(wp.array, "numpy", refuse)
    monkeypatch.setattr(CpuDefaultAllocator, "allocate", refuse)
    for _ in range(2):
        solver.step(state, after, control, contacts, 0.005, observables=observables)
        solver.step(after, state, control, None, 0.005)
