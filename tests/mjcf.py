"""Models from MJCF text, with what MuJoCo knows and Newton does not."""

import newton
from newton.solvers import SolverMuJoCo


def finish(mjcf, worlds=1, gravity=0.0, **how):
    """A model of one MJCF text in so many worlds, finalized as told."""
    world = newton.ModelBuilder(gravity=(0.0, 0.0, gravity))
    SolverMuJoCo.register_custom_attributes(world)
    world.add_mjcf(mjcf)
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, gravity))
    SolverMuJoCo.register_custom_attributes(builder)
    builder.replicate(world, worlds)
    return builder.finalize(**how)


def placed(model):
    """The model's initial state."""
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    return state
