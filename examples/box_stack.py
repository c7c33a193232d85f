"""A tower of ten boxes: it stays up, and the ground carries its weight.

Run: python examples/box_stack.py [--viewer gl]
"""

import newton
import newton.examples
import numpy as np
import warp as wp

from newton_sap import SolverSAP
from newton_sap.screen import Screen, open_viewer

COUNT = 10
HALF = 0.1  # half the edge of a box [m]
DT = 1.0 / 240.0
SUBSTEPS = 4  # a frame is 1/60 s
FRAMES = 120  # until the outcome can be judged


def build_model():
    """Return the model: boxes of 8 kg, each touching the one below."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.01  # detect contacts 1 cm ahead
    builder.default_shape_cfg.ke = 1.0e5  # contact stiffness [N/m]
    builder.add_ground_plane()
    for i in range(COUNT):
        body = builder.add_body(xform=wp.transform((0.0, 0.0, (2 * i + 1) * HALF)), label=f"box_{i}")
        builder.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF)
    return builder.finalize()


def ground_force(model, contacts, contact_f):
    """Return the upward force [N] of the ground: its contacts are those with a shape that belongs to no body."""
    count = int(contacts.rigid_contact_count.numpy()[0])
    shape_body = model.shape_body.numpy()
    first = shape_body[contacts.rigid_contact_shape0.numpy()[:count]]
    second = shape_body[contacts.rigid_contact_shape1.numpy()[:count]]
    up = contact_f.numpy()[:count, 2]  # on the body of the first shape
    return float(up[second < 0].sum() - up[first < 0].sum())


def main(viewer=None, num_frames=FRAMES):
    """Simulate, check that the tower stands and return the height of the top box [m]."""
    model = build_model()
    solver = SolverSAP(model)
    state, next_state = model.state(), model.state()
    control = model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    observables = solver.observables({solver.ObservableKind.CONTACT_F}, contacts=contacts)
    screen = Screen(viewer, model, eye=(3.0, -1.9, 1.4), target=(0.0, 0.0, 0.95))

    for frame in range(num_frames):
        for _ in range(SUBSTEPS):
            state.clear_forces()
            pipeline.collide(state, contacts)
            solver.step(state, next_state, control, contacts, DT, observables=observables)
            state, next_state = next_state, state
        screen.show(state, (frame + 1) * SUBSTEPS * DT)

    positions = state.body_q.numpy()[:, :3]
    top = float(positions[-1, 2])
    lean = float(np.abs(positions[:, :2]).max())
    weight = 9.81 * float(model.body_mass.numpy().sum())
    force = ground_force(model, contacts, observables.contact_f)
    print(solver.report())
    print(f"top box at {top:.4f} m, lean {1e3 * lean:.3f} mm, ground carries {force / weight:.4f} of the weight")
    if num_frames < FRAMES:
        print(f"cut short: the outcome is judged after {FRAMES} frames")
    elif abs(top - (2 * COUNT - 1) * HALF) > 0.02 or lean > 5.0e-3:
        raise RuntimeError(f"the tower should stand, but its top is at {top:.3f} m and it leans by {lean:.4f} m")
    elif abs(force - weight) > 0.01 * weight:
        raise RuntimeError(f"the ground carries {force:.1f} N instead of {weight:.1f} N within 1 %")
    screen.stay()
    return top


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null", num_frames=FRAMES)
    viewer, args = open_viewer(parser)
    main(viewer, args.num_frames)
