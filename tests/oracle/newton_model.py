"""A scene of :mod:`oracle.scenes` as a Newton model, and its state in the reference's terms."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from newton_sap import SolverSAP

UNLIMITED = 1.0e10


def _shape(material):
    """Newton's ``kd`` is a damping coefficient; the relaxation time is ``kd / ke``."""
    stiffness = material["stiffness"]
    return newton.ModelBuilder.ShapeConfig(
        ke=stiffness, kd=material["relaxation"] * stiffness, mu=material["friction"], density=0.0, margin=0.0, gap=0.0
    )


def _dissipation(material):
    """Newton has no place for a Hunt & Crossley dissipation; the solver registers an attribute of its own."""
    return {"sap:hunt_crossley_dissipation": material["dissipation"]}


def _add_body(builder, body):
    xx, yy, zz, xy, xz, yz = body["inertia"]
    index = builder.add_link(
        mass=body["mass"],
        com=wp.vec3(*body["com"]),
        inertia=wp.mat33(xx, xy, xz, xy, yy, yz, xz, yz, zz),
        label=body["name"],
        lock_inertia=True,
    )
    for ball in body["balls"]:
        at = wp.transform(wp.vec3(*ball["at"]), wp.quat_identity())
        builder.add_shape_sphere(
            index, xform=at, radius=ball["radius"], cfg=_shape(ball), custom_attributes=_dissipation(ball)
        )
    return index


def _add_joint(builder, joint, links, dt):
    ends = {
        "parent": -1 if joint["parent"] is None else links[joint["parent"]],
        "child": links[joint["child"]],
        "parent_xform": wp.transform(*joint["parent_frame"]),
        "child_xform": wp.transform(*joint["child_frame"]),
        "label": joint["name"],
    }
    if joint["kind"] == "ball":
        return builder.add_joint_ball(**ends, armature=0.0, damping=joint.get("damping", 0.0), friction=0.0)
    add = {"revolute": builder.add_joint_revolute, "prismatic": builder.add_joint_prismatic}[joint["kind"]]
    drive = joint.get("drive", {})
    low, high = joint.get("range", (-UNLIMITED, UNLIMITED))
    return add(
        **ends,
        axis=wp.vec3(*joint["axis"]),
        target_ke=drive.get("kp", 0.0),
        target_kd=drive.get("kd", 0.0),
        target_q=drive.get("position", 0.0),
        target_qd=drive.get("velocity", 0.0),
        effort_limit=drive.get("effort", UNLIMITED),
        actuator_mode=newton.JointTargetMode.POSITION_VELOCITY if drive else None,
        damping=joint.get("damping", 0.0),
        armature=joint.get("armature", 0.0),
        friction=0.0,
        limit_lower=low,
        limit_upper=high,
        limit_ke=1.0e12,  # Drake's limits are as stiff as the near-rigid bound lets them be,
        limit_kd=1.0e12 * dt,  # with a relaxation time of one step
    )


def build(scene):
    """Return the model; bodies keep the scene's order, one articulation per tree, free joints where none is named."""
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=tuple(scene["gravity"]))
    SolverSAP.register_custom_attributes(builder)
    links = {body["name"]: _add_body(builder, body) for body in scene["bodies"]}
    inbound = {joint["child"]: joint for joint in scene["joints"]}
    trees = {}
    for body in scene["bodies"]:
        joint = inbound.get(body["name"])
        if joint is None:
            added = builder.add_joint_free(links[body["name"]], label=f"{body['name']}_free")
        else:
            added = _add_joint(builder, joint, links, scene["dt"])
        root = body["name"]
        while root in inbound and inbound[root]["parent"] is not None:
            root = inbound[root]["parent"]
        trees.setdefault(root, []).append(added)
    for root, members in trees.items():
        builder.add_articulation(members, label=root)
    if scene["ground"]:
        builder.add_shape_plane(
            plane=(0.0, 0.0, 1.0, 0.0),
            width=0.0,
            length=0.0,
            cfg=_shape(scene["ground"]),
            custom_attributes=_dissipation(scene["ground"]),
        )
    for first, second in scene["ignore"]:
        for a in builder.body_shapes[links[first]]:
            for b in builder.body_shapes[links[second]]:
                builder.add_shape_collision_filter_pair(a, b)
    return builder.finalize(device="cpu")


def set_feed_forward(scene, model, control):
    """Write the explicit joint forces of the scene into ``control.joint_f``."""
    force, start = control.joint_f.numpy(), model.joint_qd_start.numpy()
    for joint in scene["joints"]:
        if "feed_forward" in joint:
            force[start[model.joint_label.index(joint["name"])]] = joint["feed_forward"]
    control.joint_f.assign(force)


def _com_offsets(model, body_q):
    """World vectors from body origins to centres of mass."""
    com, out = model.body_com.numpy().astype(float), np.zeros((model.body_count, 3))
    for b, (x, y, z, w) in enumerate(body_q[:, 3:]):
        u = np.array([x, y, z])
        out[b] = com[b] + 2.0 * np.cross(u, np.cross(u, com[b]) + w * com[b])
    return out


def set_state(scene, model, state, reference, step):
    """Put the state of the reference at ``step`` into Newton's arrays.

    Inverse kinematics covers ball joints; the other joints take the reference's own coordinates, since a float32
    detour through poses would cost the accuracy that stiff limits need.
    """
    body_q, body_v = reference["body_q"][step], reference["body_v"][step]
    omega, v_origin = body_v[:, :3], body_v[:, 3:]
    v_com = v_origin + np.cross(omega, _com_offsets(model, body_q))
    state.body_q.assign(body_q.astype(np.float32))
    state.body_qd.assign(np.hstack([v_com, omega]).astype(np.float32))
    newton.eval_ik(model, state, state.joint_q, state.joint_qd)
    joint_q, joint_qd = state.joint_q.numpy(), state.joint_qd.numpy()
    scalar = [joint["name"] for joint in scene["joints"] if joint["kind"] != "ball"]
    for column, name in enumerate(scalar):
        j = model.joint_label.index(name)
        joint_q[model.joint_q_start.numpy()[j]] = reference["joint_q"][step, column]
        joint_qd[model.joint_qd_start.numpy()[j]] = reference["joint_v"][step, column]
    state.joint_q.assign(joint_q)
    state.joint_qd.assign(joint_qd)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)


def get_state(model, state):
    """Return body poses and ``[omega, v_origin]`` as the reference stores them."""
    body_q = state.body_q.numpy().astype(float)
    v_com, omega = np.split(state.body_qd.numpy().astype(float), 2, axis=1)
    return body_q, np.hstack([omega, v_com - np.cross(omega, _com_offsets(model, body_q))])
