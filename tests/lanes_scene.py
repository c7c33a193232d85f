"""Steps a scene and prints its velocities: python lanes_scene.py serial|blocks SCENE OPTIONS, with options as JSON."""

import json
import sys

import newton
import warp as wp

wp.config.enable_cpu_blocks = sys.argv[1] == "blocks"
wp.config.log_level = wp.LOG_ERROR
wp.config.enable_backward = False

from mjcf import finish  # noqa: E402
from test_faults import large_group  # noqa: E402

import newton_sap  # noqa: E402
from newton_sap import SolverSAP, scenes  # noqa: E402

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


def quadrupeds():
    """Two robots of many joints that drop onto their feet; model, step and number of steps."""
    scene = scenes.quadruped(world_count=2)
    return scene.model, scene.dt, 40


def tied():
    """A rope, a sum of joints with a servo, two closed loops and a limit, beside contacts."""
    return finish(TIED, worlds=2, gravity=-9.81), 0.005, 30


def heap():
    """So many balls that directions come from conjugate gradients."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    builder.add_world(large_group())
    builder.add_ground_plane()
    return builder.finalize(), 0.005, 3


@wp.kernel
def lanes(out: wp.array[wp.int32]):
    _g, lane = wp.tid()
    wp.atomic_max(out, 0, wp.block_dim())
    wp.atomic_add(out, 1, 1)


counted = wp.zeros(2, dtype=wp.int32)
wp.launch_tiled(lanes, dim=[1], inputs=[counted], block_dim=32)
model, dt, steps = {"quadrupeds": quadrupeds, "tied": tied, "heap": heap}[sys.argv[2]]()
solver = SolverSAP(model, **json.loads(sys.argv[3]))
state, control, pipeline = model.state(), model.control(), newton.CollisionPipeline(model)
contacts = pipeline.contacts()
if sys.argv[2] == "tied":
    control.mujoco.ctrl.fill_(0.4)
newton.eval_fk(model, model.joint_q, model.joint_qd, state)
observables = solver.observables({"contact_f", "contact_velocity", "joint_contact_f"}, contacts=contacts)
for _ in range(steps):
    pipeline.collide(state, contacts)
    solver.step(state, state, control, contacts, dt, observables=observables)
report = solver.report()
print(
    json.dumps(
        {
            "package": newton_sap.__file__,
            "lanes": counted.numpy().tolist(),
            "v": solver.inspect().v.tolist(),
            "f": observables.joint_contact_f.numpy().tolist(),
            "contacts": report.contacts.tolist(),
            "healthy": report.healthy,
        }
    )
)
