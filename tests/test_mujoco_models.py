"""What MJCF files say through MuJoCo's own attributes: done as MuJoCo does it, or refused by name."""

import newton
import numpy as np
import pytest
from newton.solvers import SolverMuJoCo

from newton_sap import SolverSAP

TWO_ARMS = """<mujoco><worldbody>
  <body name="one" pos="0 0 1" {body}><joint name="a" type="hinge" axis="0 1 0" damping="0.5"/>
    <geom type="box" size=".02 .02 .3" pos="0 0 -.3" mass="1" contype="0" conaffinity="0"/></body>
  <body name="two" pos="1 0 1"><joint name="b" type="hinge" axis="0 1 0" damping="0.5"/>
    <geom type="box" size=".02 .02 .3" pos=".3 0 0" mass="1" contype="0" conaffinity="0"/></body>
</worldbody>{more}</mujoco>"""


def load(body="", more=""):
    """Two arms on hinges of the world; the second one's COM is beside its axis."""
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(TWO_ARMS.format(body=body, more=more))
    return builder.finalize()


def swing(model, steps, dt=0.005):
    """Step without contacts; return solver and state."""
    solver, state = SolverSAP(model), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    for _ in range(steps):
        solver.step(state, state, None, None, dt)
    return solver, state


@pytest.mark.filterwarnings("ignore:.*polycoef.*")
def test_a_curved_joint_equality_keeps_its_curve():
    """The importer turns it into a mimic, which is a line; the row itself counts."""
    model = load(more='<equality><joint joint1="a" joint2="b" polycoef="0.1 0.5 0.7 0 0"/></equality>')
    solver, state = swing(model, 400)
    a, b = state.joint_q.numpy()
    assert a == pytest.approx(0.1 + 0.5 * b + 0.7 * b * b, abs=1e-3) and b > 0.3
    assert solver.report().healthy


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_gravity_compensation(share):
    """``gravcomp`` takes its share off gravity: of the motion and of the potential energy."""
    model = load(body=f'gravcomp="{share}"')
    model.joint_q.assign([0.5, 0.0])
    solver, state = swing(model, 1, dt=1e-3)
    mass, distance, inertia = 1.0, 0.3, 0.3**2 + (0.02**2 + 0.3**2) / 3.0
    torque = -(1.0 - share) * mass * 9.81 * distance * np.sin(0.5)
    assert state.joint_qd.numpy()[0] == pytest.approx(1e-3 * torque / (inertia + 1e-3 * 0.5), abs=1e-6)
    other = swing(load(), 0)[0].report(load().state()).potential_energy
    compensated = solver.report(model.state()).potential_energy
    height = 1.0 - distance * np.cos(0.5)
    assert compensated - other == pytest.approx(9.81 * ((1.0 - share) * height - (1.0 - distance)), abs=1e-4)
