"""A crane lifts a crate by a cable and carries it aside; the cable stretches as its stiffness says.

Run: python examples/crane.py [--viewer gl]
"""

import newton
import newton.examples
import numpy as np
import warp as wp

from newton_sap import SolverSAP
from newton_sap.screen import Screen, open_viewer

DT = 1.0 / 240.0
SUBSTEPS = 4  # a frame is 1/60 s
SEGMENTS, LENGTH = 12, 0.05  # of the cable [m]
STRETCH = 5.0e4  # stiffness of each joint of the cable [N/m]
EDGE, MASS = 0.2, 8.0  # of the crate [m], [kg]
LIFT, ASIDE = 0.3, 0.4  # [m]
HEIGHT = EDGE + SEGMENTS * LENGTH  # of the trolley, whose cable is straight [m]
FRAMES = 300  # until the crate hangs still


def add_cable(builder, top):
    """Add a cable that hangs from a body, 2 g/cm of it; return its last segment and its joints."""
    cable = newton.ModelBuilder.ShapeConfig(density=1500.0, has_shape_collision=False)
    elastic = {"stretch_stiffness": STRETCH, "stretch_damping": 50.0, "bend_stiffness": 0.2, "bend_damping": 0.05}
    joints, parent, below = [], top, wp.transform()
    for i in range(SEGMENTS):
        segment = builder.add_link(label=f"cable_{i}")
        builder.add_shape_capsule(segment, radius=0.006, half_height=0.5 * LENGTH, cfg=cable)
        upper_end = wp.transform((0.0, 0.0, 0.5 * LENGTH))
        joints.append(builder.add_joint_rod(parent, segment, parent_xform=below, child_xform=upper_end, **elastic))
        parent, below = segment, wp.transform((0.0, 0.0, -0.5 * LENGTH))
    return parent, joints


def build_model():
    """Return the model: a trolley that moves along x and z, and the crate on the ground below it."""
    builder = newton.ModelBuilder()
    drive = {"actuator_mode": newton.JointTargetMode.POSITION, "target_ke": 2.0e5, "target_kd": 5.0e3}
    beam, trolley = builder.add_link(label="beam"), builder.add_link(label="trolley")
    for body in (beam, trolley):
        builder.add_shape_box(body, hx=0.06, hy=0.06, hz=0.03)
    joints = [
        builder.add_joint_prismatic(
            -1, beam, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, HEIGHT)), **drive
        ),
        builder.add_joint_prismatic(beam, trolley, axis=newton.Axis.Z, **drive),
    ]
    end, cable = add_cable(builder, trolley)
    crate = builder.add_link(label="crate")
    wood = newton.ModelBuilder.ShapeConfig(density=MASS / EDGE**3)
    builder.add_shape_box(crate, hx=0.5 * EDGE, hy=0.5 * EDGE, hz=0.5 * EDGE, cfg=wood)
    hook = builder.add_joint_ball(
        end,
        crate,
        parent_xform=wp.transform((0.0, 0.0, -0.5 * LENGTH)),
        child_xform=wp.transform((0.0, 0.0, 0.5 * EDGE)),
        damping=0.05,
    )
    builder.add_articulation([*joints, *cable, hook], label="crane")
    builder.add_ground_plane()
    return builder.finalize()


def set_targets(control, time):
    """Lift within a second and a half, then go aside within another."""
    targets = control.joint_target_q.numpy()
    targets[:2] = (ASIDE * min(max((time - 1.5) / 1.5, 0.0), 1.0), LIFT * min(time / 1.5, 1.0))
    control.joint_target_q.assign(targets)


def main(viewer=None, num_frames=FRAMES):
    """Simulate, check where the crate hangs and return how far the cable is stretched [m]."""
    model = build_model()
    solver = SolverSAP(model)
    state, next_state = model.state(), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    control = model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    screen = Screen(viewer, model, eye=(1.2, -2.4, 1.2), target=(0.2, 0.0, 0.6))

    for frame in range(num_frames):
        set_targets(control, frame * SUBSTEPS * DT)
        for _ in range(SUBSTEPS):
            state.clear_forces()
            pipeline.collide(state, contacts)
            solver.step(state, next_state, control, contacts, DT)
            state, next_state = next_state, state
        screen.show(state, (frame + 1) * SUBSTEPS * DT)

    bodies = state.body_q.numpy().astype(float)
    trolley, crate = bodies[1], bodies[-1]
    stretch = float(np.linalg.norm(trolley[:3] - crate[:3]) - (HEIGHT - 0.5 * EDGE))  # it still swings
    weights = model.body_mass.numpy().astype(float)[2:]
    pulls = 9.81 * weights[::-1].cumsum()[1:]  # what each joint of the cable carries
    expected = float(pulls.sum() / STRETCH)
    print(solver.report())
    print(
        f"crate at {crate[2]:.4f} m; the cable is stretched by {1e3 * stretch:.2f} mm, {1e3 * expected:.2f} mm at rest"
    )
    if num_frames < FRAMES:
        print(f"cut short: the outcome is judged after {FRAMES} frames")
    elif abs(stretch - expected) > 1.0e-3 or abs(crate[0] - ASIDE) > 0.1:
        raise RuntimeError("the crate should hang below the trolley, by the length of the stretched cable")
    screen.stay()
    return stretch


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null", num_frames=FRAMES)
    viewer, args = open_viewer(parser)
    main(viewer, args.num_frames)
