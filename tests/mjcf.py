"""Models from MJCF text, with what MuJoCo knows and Newton does not, and how they move."""

import newton
import numpy as np
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


def mujoco_c(model):
    """MuJoCo's C engine."""
    return SolverMuJoCo(model, integrator="implicit", use_mujoco_cpu=True)


def roll_out(make, model, steps, dt, ctrl=None, control=None):
    """The state after some steps of the solver that ``make`` gives; commands are one for all actuators, or one for each."""
    solver, state, other = make(model), placed(model), model.state()
    control = control or model.control()
    if ctrl is not None:
        control.mujoco.ctrl.assign(np.broadcast_to(np.float32(ctrl).ravel(), control.mujoco.ctrl.shape))
    for _ in range(steps):
        solver.step(state, other, control, None, dt)
        state, other = other, state
    return state
