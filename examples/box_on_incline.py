"""Two boxes on a slope of 20 degrees: one sticks, the other slides with the acceleration Coulomb's law gives.

Run: python examples/box_on_incline.py [--viewer gl]
"""

import math

import newton
import newton.examples
import warp as wp

from newton_sap import SolverSAP
from newton_sap.screen import Screen, open_viewer

ANGLE = math.radians(20.0)
HALF = 0.1  # half the edge of a box [m]
DT = 1.0 / 240.0
SUBSTEPS = 4  # a frame is 1/60 s
FRAMES = 60  # until the outcome can be judged


def build_model():
    """Return the model; friction of a pair is the mean of both shapes, here 0.5 and 0.2."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.01  # detect contacts 1 cm ahead
    builder.default_shape_cfg.ke = 5.0e4  # contact stiffness [N/m]
    slope = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), ANGLE)

    builder.default_shape_cfg.mu = 0.35
    builder.add_shape_plane(xform=wp.transform((0.0, 0.0, 0.0), slope), width=0.0, length=0.0)
    for label, y, mu in (("sticks", -0.3, 0.65), ("slides", 0.3, 0.05)):
        builder.default_shape_cfg.mu = mu
        centre = wp.quat_rotate(slope, wp.vec3(0.0, y, HALF))
        body = builder.add_body(xform=wp.transform(centre, slope), label=label)
        builder.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF)
    return builder.finalize()


def main(viewer=None, num_frames=FRAMES):
    """Simulate, check the two distances and return them [m]."""
    model = build_model()
    solver = SolverSAP(model)
    state, next_state = model.state(), model.state()
    control = model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    screen = Screen(viewer, model, eye=(1.2, -2.4, 0.6), target=(0.35, 0.0, -0.1))
    start = state.body_q.numpy()[:, :3].copy()

    for frame in range(num_frames):
        for _ in range(SUBSTEPS):
            state.clear_forces()
            pipeline.collide(state, contacts)
            solver.step(state, next_state, control, contacts, DT)
            state, next_state = next_state, state
        screen.show(state, (frame + 1) * SUBSTEPS * DT)

    sticks, slides = (float(d) for d in ((state.body_q.numpy()[:, :3] - start) ** 2).sum(axis=1) ** 0.5)
    time = num_frames * SUBSTEPS * DT
    expected = 0.5 * 9.81 * (math.sin(ANGLE) - 0.2 * math.cos(ANGLE)) * time**2
    print(solver.report())
    print(f"mu 0.5 moved {1e3 * sticks:.3f} mm; mu 0.2 slid {slides:.4f} m, Coulomb's law gives {expected:.4f} m")
    if num_frames < FRAMES:
        print(f"cut short: the outcome is judged after {FRAMES} frames")
    elif sticks > 2.0e-3:
        raise RuntimeError(f"the box with mu 0.5 should stick, but moved {sticks:.4f} m")
    elif abs(slides - expected) > 0.03 * expected:
        raise RuntimeError(f"the box with mu 0.2 slid {slides:.4f} m instead of {expected:.4f} m within 3 %")
    screen.stay()
    return sticks, slides


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null", num_frames=FRAMES)
    viewer, args = open_viewer(parser)
    main(viewer, args.num_frames)
