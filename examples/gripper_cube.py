"""A parallel gripper closes on a cube and lifts it: friction alone holds it.

Run: python examples/gripper_cube.py [--viewer gl]
"""

import newton
import newton.examples
import warp as wp

from newton_sap import SolverSAP
from newton_sap.screen import Screen, open_viewer

DT = 1.0 / 240.0
SUBSTEPS = 4  # a frame is 1/60 s
EDGE = 0.05  # of the cube [m]
LIFT = 0.2  # [m]
CLOSED, RAISING = 0.3, 0.6  # when the fingers are closed, and when the hand begins to rise [s]
FRAMES = 150  # until the outcome can be judged


def add_gripper(builder):
    """Add a hand on a vertical axis and two fingers that close along x, all with position drives."""
    drive = {"actuator_mode": newton.JointTargetMode.POSITION}
    hand = builder.add_link(label="hand")
    builder.add_shape_box(hand, hx=0.1, hy=0.03, hz=0.02)
    base = wp.transform((0.0, 0.0, 0.2))
    joints = [
        builder.add_joint_prismatic(
            -1, hand, axis=newton.Axis.Z, parent_xform=base, target_ke=5.0e3, target_kd=2.0e2, **drive
        )
    ]
    for side in (1.0, -1.0):
        finger = builder.add_link(label="left" if side > 0.0 else "right")
        builder.add_shape_box(finger, hx=0.01, hy=0.02, hz=0.04)
        joints.append(
            builder.add_joint_prismatic(
                hand,
                finger,
                axis=wp.vec3(-side, 0.0, 0.0),
                parent_xform=wp.transform((0.05 * side, 0.0, -0.145)),
                target_ke=1.0e3,
                target_kd=2.0e1,
                **drive,
            )
        )
    builder.add_articulation(joints, label="gripper")


def build_model():
    """Return the model: the open gripper around a cube of 0.1 kg on the ground."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.005  # detect contacts 5 mm ahead
    builder.default_shape_cfg.ke = 2.0e4  # contact stiffness [N/m]
    builder.default_shape_cfg.mu = 0.8
    builder.default_shape_cfg.density = 800.0
    add_gripper(builder)
    cube = builder.add_body(xform=wp.transform((0.0, 0.0, 0.5 * EDGE)), label="cube")
    builder.add_shape_box(cube, hx=0.5 * EDGE, hy=0.5 * EDGE, hz=0.5 * EDGE)
    builder.add_ground_plane()
    return builder.finalize()


def set_targets(control, time):
    """Close until the drives press with 15 N each; lift within a second."""
    close = 0.03 * min(time / CLOSED, 1.0)
    raised = LIFT * min(max(time - RAISING, 0.0), 1.0)
    targets = control.joint_target_q.numpy()
    targets[:3] = (raised, close, close)
    control.joint_target_q.assign(targets)


def hand_above_cube(state):
    """Return how far the hand is above the cube [m]."""
    hand, _, _, cube = state.body_q.numpy()[:, 2].astype(float)
    return float(hand - cube)


def main(viewer=None, num_frames=FRAMES):
    """Simulate, check that the cube is held and return its height [m]."""
    model = build_model()
    solver = SolverSAP(model)
    state, next_state = model.state(), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    control = model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    screen = Screen(viewer, model, eye=(0.55, -0.75, 0.45), target=(0.0, 0.0, 0.2))

    for frame in range(num_frames):
        if frame * SUBSTEPS * DT <= RAISING:
            gripped = hand_above_cube(state)  # the hand has sagged under its weight, and the fingers hold the cube
        set_targets(control, frame * SUBSTEPS * DT)
        for _ in range(SUBSTEPS):
            state.clear_forces()
            pipeline.collide(state, contacts)
            solver.step(state, next_state, control, contacts, DT)
            state, next_state = next_state, state
        screen.show(state, (frame + 1) * SUBSTEPS * DT)

    hand, _, _, cube = state.body_q.numpy()[:, 2]
    slip = hand_above_cube(state) - gripped
    print(solver.report())
    print(f"hand raised by {hand - 0.2:.4f} m, cube at {cube:.4f} m, slip since it is gripped {1e3 * slip:.3f} mm")
    if num_frames < FRAMES:
        print(f"cut short: the outcome is judged after {FRAMES} frames")
    elif cube < 0.9 * LIFT:
        raise RuntimeError(f"the cube should be lifted to {LIFT + 0.5 * EDGE:.3f} m, but it is at {cube:.3f} m")
    elif abs(slip) > 2.0e-3:
        raise RuntimeError(f"the cube should stay between the fingers, but it slipped by {1e3 * slip:.2f} mm")
    screen.stay()
    return float(cube)


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null", num_frames=FRAMES)
    viewer, args = open_viewer(parser)
    main(viewer, args.num_frames)
