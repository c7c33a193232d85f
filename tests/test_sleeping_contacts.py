"""Open contacts that what their bodies do by themselves does not close: what closes them all the same finds them awake."""

import newton
import numpy as np
import pytest
import warp as wp
from rig import collided, link, tight

from newton_sap import SolverSAP
from newton_sap.bench.scenes import make_scene
from newton_sap.reference import ReferenceSolver

DT = 1.0 / 240.0
GAP = 0.005
"""Between a box and a wall [m]."""


def slide_to_a_wall(builder, **drive):
    """A box of 1 kg on rails at rest in front of a wall; its joint."""
    body = link(builder)
    joint = builder.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), **drive)
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, mu=0.0)
    builder.add_shape_box(body, hx=0.05, hy=0.05, hz=0.05, cfg=cfg)
    at = wp.transform((0.1 + GAP, 0.0, 0.0), wp.quat_identity())
    builder.add_shape_box(-1, xform=at, hx=0.05, hy=0.05, hz=0.05, cfg=cfg)
    return joint


def pushed(by):
    """What goes to the wall within one step, at 5 m/s where nothing stops it, though all is at rest when the step begins."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    drive = dict(target_qd=5.0, target_kd=1e4, effort_limit=1e6, actuator_mode=newton.JointTargetMode.VELOCITY)
    own = {"drive": drive, "limit": dict(limit_lower=0.5, limit_ke=1e5, limit_kd=0.0), "mimic": {}}[by]
    joints = [slide_to_a_wall(builder, **own)]
    if by == "mimic":
        joints.append(builder.add_joint_prismatic(-1, link(builder), axis=(0.0, 1.0, 0.0), **drive))
    builder.add_articulation(joints)
    if by == "mimic":
        builder.set_joint_mimic(joints[0], joints[1], coeffs=(0.0, 1.0))
    return builder.finalize()


@pytest.mark.parametrize("law", ["lagged", "similar", "sap"])
@pytest.mark.parametrize("by", ["drive", "limit", "mimic"])
def test_what_a_step_itself_sets_in_motion_stops_at_a_wall(by, law):
    """All contacts sleep when the step begins, and it ends at the wall, 5 mm ahead, as the reference does."""
    model = pushed(by)
    options = tight(optimality_rel=1e-11) | {"contact_model": law}
    (state, contacts), out = collided(model), model.state()
    solver = SolverSAP(model, **options)
    solver.step(state, out, None, contacts, DT)
    assert solver.report().healthy and solver.report().contacts[0] > 0
    assert solver.problem.clusters.entry.numpy()["awake"].sum() == 0
    assert out.joint_q.numpy()[0] == pytest.approx(GAP, abs=1e-3 if by == "limit" else 5e-4)
    if by != "mimic":  # which the reference does not know
        truth = ReferenceSolver(model, **options).step(state, model.control(), contacts, DT)
        np.testing.assert_allclose(solver.inspect().v, truth.v, atol=1e-8)


@pytest.mark.parametrize("name", ["humanoid_active", "quadruped_active"])
def test_no_contact_sleeps_through_its_closing(name):
    """Whatever sleeps at the end of a step is open then, of robots that thrash with Newton's default gap."""
    scene = make_scene(name, 4, gap=0.1)
    model = scene.model
    solver, state = SolverSAP(model), model.state()
    pipeline = newton.CollisionPipeline(model)
    contacts, control = pipeline.contacts(), model.control()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    slept = 0
    for step in range(60):
        control.joint_f.assign(scene.forces[step // 10 % len(scene.forces)])
        pipeline.collide(state, contacts)
        solver.step(state, state, control, contacts, scene.dt)
        pool = solver.pool
        left = pool.phi0.numpy() + scene.dt * np.sum(pool.normal.numpy() * pool.vc.numpy(), axis=1)
        for cluster in solver.problem.clusters.entry.numpy():
            start, count, up = (cluster[name] for name in ("contact_start", "contacts", "awake"))
            asleep = slice(start + up, start + count)
            if not pool.gamma.numpy()[start : start + count].any():
                continue
            if not pool.gamma.numpy()[asleep].any():
                assert (left[asleep] > -1e-9).all()
                slept += count - up
    assert slept > 100 and solver.report().healthy
