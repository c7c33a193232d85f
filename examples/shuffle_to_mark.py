"""A puck is pushed so that it slides to a stop on a mark: Newton's method on gradients through sixty steps with friction.

Run: python examples/shuffle_to_mark.py [--viewer gl]
"""

import newton
import newton.examples
import numpy as np
import warp as wp

from newton_sap import SolverSAP
from newton_sap.screen import Screen, open_viewer

DT = 1.0 / 60.0
STEPS = 60
MARK = np.array([0.6, 0.35])  # where it is to stop [m]
GOOD_ENOUGH = 0.005  # [m]


def build_model():
    """Return a puck on the ground; ``requires_grad`` makes SolverSAP lay its steps on Warp's tape."""
    builder = newton.ModelBuilder()
    builder.default_shape_cfg.mu = 0.3
    builder.add_ground_plane()
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.05)), label="puck")
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.05)
    return builder.finalize(requires_grad=True)


class Shot:
    """A slide from start to stop, every step with a state of its own."""

    def __init__(self, model):
        self.model, self.solver = model, SolverSAP(model)
        self.pipeline = newton.CollisionPipeline(model)
        self.contacts, self.control = self.pipeline.contacts(), model.control()
        self.states = [model.state() for _ in range(STEPS + 1)]

    def slide(self, push):
        """Return where the puck stops [m], and the tape that knows how it came there."""
        self.states[0].joint_qd.assign([*push, 0.0, 0.0, 0.0, 0.0])
        with wp.Tape() as tape:
            for before, after in zip(self.states[:-1], self.states[1:], strict=True):
                self.pipeline.collide(before, self.contacts)
                self.solver.step(before, after, self.control, self.contacts, DT)
        return self.states[-1].joint_q.numpy()[:2].astype(float), tape

    def jacobian(self, tape):
        """Return d(place) / d(push) [s], one way back for each coordinate of the place."""
        rows = []
        for seed in np.eye(2):
            tape.zero()
            self.states[-1].joint_q.grad.assign([*seed, 0.0, 0.0, 0.0, 0.0, 0.0])
            tape.backward()
            rows.append(self.states[0].joint_qd.grad.numpy()[:2].astype(float))
        return np.array(rows)


def main(viewer=None, shots=8):
    """Aim, check that the puck stops on the mark, and return how far from it every shot ended [m]."""
    model = build_model()
    shot = Shot(model)
    push, misses = np.array([1.0, 0.2]), []
    for _ in range(shots):
        place, tape = shot.slide(push)
        misses.append(float(np.linalg.norm(place - MARK)))
        if misses[-1] < GOOD_ENOUGH:
            break
        push = push - np.linalg.solve(shot.jacobian(tape), place - MARK)
    screen = Screen(viewer, model, eye=(1.6, -1.2, 1.1), target=(0.3, 0.2, 0.0))
    for i, state in enumerate(shot.states):
        screen.show(state, i * DT)
    print(f"pushed with {np.linalg.norm(push):.2f} m/s; misses by shot [m]: {', '.join(f'{m:.3f}' for m in misses)}")
    if misses[-1] >= GOOD_ENOUGH:
        raise RuntimeError(f"the puck misses the mark by {misses[-1]:.3f} m after {shots} shots")
    screen.stay()
    return misses


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null")
    viewer, args = open_viewer(parser)
    main(viewer)
