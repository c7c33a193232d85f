"""Actuators of ``newton.actuators``, stepped by the caller: what they exert arrives as ``joint_f``."""

import numpy as np
import pytest
from newton.actuators import ClampingMaxEffort, DrivePD
from rig import link, weightless

from newton_sap import SolverSAP

DT = 1.0 / 120.0


def wheel(**actuator):
    """A wheel of 0.1 kg m^2 on a hinge in weightlessness, with one actuator."""
    builder = weightless()
    hinge = builder.add_joint_revolute(-1, link(builder, inertia=0.1), axis=(0.0, 0.0, 1.0))
    builder.add_articulation([hinge])
    builder.add_actuator(DrivePD, index=0, **actuator)
    return builder.finalize()


class Commanded:
    """A model under SolverSAP, with its actuators stepped before each step."""

    def __init__(self, model):
        self.model, self.solver = model, SolverSAP(model)
        self.state, self.control = model.state(), model.control()
        self.acts = [(a.state(), a.state()) for a in model.actuators]

    def step(self):
        """Efforts from the present state, then one step."""
        self.control.joint_f.zero_()
        for i, actuator in enumerate(self.model.actuators):
            now, then = self.acts[i]
            actuator.step(self.state, self.control, now, then, dt=DT)
            self.acts[i] = then, now
        self.solver.step(self.state, self.state, self.control, None, DT)


@pytest.mark.parametrize("delay", [None, 3])
def test_a_wheel_follows_its_difference_equation(delay):
    """PD with a bounded effort and delayed targets, against the same law in three lines."""
    options = {} if delay is None else {"delay_steps": delay}
    model = wheel(kp=20.0, kd=1.0, clamping=[(ClampingMaxEffort, {"max_effort": 2.0})], **options)
    run = Commanded(model)
    q = qd = 0.0
    targets, got, expected = [], [], []
    for i in range(120):
        target = 1.0 if i < 60 else -0.5
        targets.append(target)
        run.control.joint_target_q.fill_(target)
        run.step()
        wanted = targets[max(i - (delay or 0), 0)]
        effort = np.clip(20.0 * (wanted - q) - 1.0 * qd, -2.0, 2.0)
        qd += DT * effort / 0.1
        q += DT * qd
        got.append(float(run.state.joint_q.numpy()[0]))
        expected.append(q)
    assert run.solver.report().healthy
    np.testing.assert_allclose(got, expected, atol=2e-5)
    assert np.ptp(expected) > 1.0
