"""Steps two quadrupeds onto the ground and prints their velocities: python lanes_scene.py serial|blocks LAW:PRECISION...

A line for each law and precision; one process serves all of them.
"""

import json
import sys

import newton
import warp as wp

wp.config.enable_cpu_blocks = sys.argv[1] == "blocks"
wp.config.log_level = wp.LOG_ERROR

from newton_sap import SolverSAP  # noqa: E402
from newton_sap.scenes import quadruped  # noqa: E402


@wp.kernel
def lanes(out: wp.array[wp.int32]):
    _g, lane = wp.tid()
    wp.atomic_max(out, 0, wp.block_dim())
    wp.atomic_add(out, 1, 1)


counted = wp.zeros(2, dtype=wp.int32)
wp.launch_tiled(lanes, dim=[1], inputs=[counted], block_dim=32)
for chosen in sys.argv[2:]:
    law, precision = chosen.split(":")
    scene = quadruped(world_count=2)
    model = scene.model
    solver = SolverSAP(model, contact_model=law, precision=precision)
    state, pipeline = model.state(), newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    for _ in range(40):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, scene.dt)
    report = solver.report()
    print(
        json.dumps(
            {
                "lanes": counted.numpy().tolist(),
                "v": solver.inspect().v.tolist(),
                "contacts": report.contacts.tolist(),
                "healthy": report.healthy,
            }
        )
    )
