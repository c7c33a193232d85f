"""Newton's quadruped from its URDF file: it drops a little, and its drives hold it up.

Run: python examples/quadruped_standing.py [--viewer gl]
"""

import newton
import newton.examples
import numpy as np
import warp as wp

from newton_sap import SolverSAP
from newton_sap.screen import Screen, open_viewer

DT = 1.0 / 240.0
SUBSTEPS = 4  # a frame is 1/60 s
LEGS = [0.2, 0.4, -0.6, -0.2, -0.4, 0.6, -0.2, 0.4, -0.6, 0.2, -0.4, 0.6]  # joint angles [rad]
FRAMES = 120  # until the outcome can be judged


def build_model():
    """Return the model: the robot 5 cm above the ground, with position drives on its twelve joints."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.01  # detect contacts 1 cm ahead
    builder.default_shape_cfg.ke = 5.0e4  # contact stiffness [N/m]
    builder.default_shape_cfg.mu = 0.8
    builder.default_joint_cfg.armature = 0.01  # rotor inertia [kg m^2]
    builder.default_joint_cfg.target_ke = 2000.0  # drive stiffness [N m/rad]
    builder.default_joint_cfg.target_kd = 20.0  # drive damping [N m s/rad]
    builder.add_urdf(
        newton.examples.get_asset("quadruped.urdf"),
        xform=wp.transform((0.0, 0.0, 0.51)),
        floating=True,
        enable_self_collisions=False,
        ignore_inertial_definitions=True,
        joint_damping_mode="drive",
    )
    builder.joint_q[-12:] = LEGS
    builder.joint_target_q[-12:] = LEGS
    builder.add_ground_plane()
    return builder.finalize()


def main(viewer=None, num_frames=FRAMES):
    """Simulate, check that the robot stands still and return the height of its base [m]."""
    model = build_model()
    solver = SolverSAP(model)
    state, next_state = model.state(), model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    control = model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    screen = Screen(viewer, model, eye=(1.2, -1.2, 0.7), target=(0.0, 0.0, 0.3))

    for frame in range(num_frames):
        for _ in range(SUBSTEPS):
            state.clear_forces()
            pipeline.collide(state, contacts)
            solver.step(state, next_state, control, contacts, DT)
            state, next_state = next_state, state
        screen.show(state, (frame + 1) * SUBSTEPS * DT)

    height = float(state.body_q.numpy()[0, 2])
    speed = float(np.abs(state.body_qd.numpy()).max())
    print(solver.report())
    print(f"base at {height:.4f} m, fastest link {speed:.2e} m/s or rad/s")
    if num_frames < FRAMES:
        print(f"cut short: the outcome is judged after {FRAMES} frames")
    elif not 0.44 < height < 0.48:
        raise RuntimeError(f"the robot should stand with its base at 0.46 m, but it is at {height:.3f} m")
    elif speed > 0.02:
        raise RuntimeError(f"the robot should stand still, but a link moves at {speed:.3f} m/s or rad/s")
    screen.stay()
    return height


if __name__ == "__main__":
    parser = newton.examples.create_parser()
    parser.set_defaults(viewer="null", num_frames=FRAMES)
    viewer, args = open_viewer(parser)
    main(viewer, args.num_frames)
