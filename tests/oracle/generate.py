"""Compute the reference trajectories with Drake's discrete SAP solver (optional extra ``oracle``).

    python tests/oracle/generate.py            every scene
    python tests/oracle/generate.py ball_drop  one

Each scene becomes ``data/NAME.npz`` and ``data/NAME.json`` (the scene and the version that computed it).
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

try:
    from oracle.scenes import SCENES
except ModuleNotFoundError:  # run as a script
    from scenes import SCENES

DATA = Path(__file__).parent / "data"


def _rigid_transform(pose):
    from pydrake.common.eigen_geometry import Quaternion
    from pydrake.math import RigidTransform

    quaternion = np.array([pose[6], *pose[3:6]])
    return RigidTransform(Quaternion(quaternion / np.linalg.norm(quaternion)), pose[:3])


def _spatial_inertia(body):
    """Drake wants the inertia about the body origin, per unit mass."""
    from pydrake.multibody.tree import SpatialInertia, UnitInertia

    xx, yy, zz, xy, xz, yz = body["inertia"]
    com, mass = np.array(body["com"]), body["mass"]
    about_com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    unit = about_com / mass + com @ com * np.eye(3) - np.outer(com, com)
    return SpatialInertia(mass, com, UnitInertia(*np.diag(unit), unit[0, 1], unit[0, 2], unit[1, 2]))


def _proximity(material):
    from pydrake.geometry import AddContactMaterial, ProximityProperties
    from pydrake.multibody.plant import CoulombFriction

    properties = ProximityProperties()
    mu = material["friction"]
    AddContactMaterial(
        dissipation=material["dissipation"],
        point_stiffness=material["stiffness"],
        friction=CoulombFriction(mu, mu),
        properties=properties,
    )
    properties.AddProperty("material", "relaxation_time", material["relaxation"])
    return properties


def _add_joint(plant, joint, bodies):
    from pydrake.multibody.tree import BallRpyJoint, FixedOffsetFrame, PdControllerGains, PrismaticJoint, RevoluteJoint

    parent = plant.world_body() if joint["parent"] is None else bodies[joint["parent"]]
    ends = [(parent, joint["parent_frame"], "in"), (bodies[joint["child"]], joint["child_frame"], "out")]
    frames = [
        plant.AddFrame(FixedOffsetFrame(f"{joint['name']}_{side}", body.body_frame(), _rigid_transform(pose)))
        for body, pose, side in ends
    ]
    low, high = joint.get("range", (-np.inf, np.inf))
    damping = joint.get("damping", 0.0)
    if joint["kind"] == "ball":
        return plant.AddJoint(BallRpyJoint(joint["name"], *frames, damping)), None
    kind = {"revolute": RevoluteJoint, "prismatic": PrismaticJoint}[joint["kind"]]
    added = plant.AddJoint(kind(joint["name"], *frames, joint["axis"], low, high, damping))
    if not ("drive" in joint or "feed_forward" in joint or joint.get("armature")):
        return added, None
    drive = joint.get("drive")
    actuator = plant.AddJointActuator(f"{joint['name']}_motor", added, drive["effort"] if drive else np.inf)
    actuator.set_default_rotor_inertia(joint.get("armature", 0.0))
    actuator.set_default_gear_ratio(1.0)
    if drive:
        actuator.set_controller_gains(PdControllerGains(p=drive["kp"], d=drive["kd"]))
    return added, actuator


def build(scene):
    """Return Drake's diagram, plant and its bodies and joints by name."""
    from pydrake.geometry import CollisionFilterDeclaration, GeometrySet, HalfSpace, Sphere
    from pydrake.math import RigidTransform
    from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, ContactModel, DiscreteContactApproximation
    from pydrake.systems.framework import DiagramBuilder

    builder = DiagramBuilder()
    plant, scene_graph = AddMultibodyPlantSceneGraph(builder, time_step=scene["dt"])
    plant.set_contact_model(ContactModel.kPoint)
    plant.set_discrete_contact_approximation(getattr(DiscreteContactApproximation, f"k{scene['law'].capitalize()}"))
    plant.set_sap_near_rigid_threshold(1.0)
    plant.set_stiction_tolerance(1.0e-4)
    plant.mutable_gravity_field().set_gravity_vector(scene["gravity"])
    bodies = {body["name"]: plant.AddRigidBody(body["name"], _spatial_inertia(body)) for body in scene["bodies"]}
    for body in scene["bodies"]:
        for number, ball in enumerate(body["balls"]):
            plant.RegisterCollisionGeometry(
                bodies[body["name"]],
                RigidTransform(ball["at"]),
                Sphere(ball["radius"]),
                f"{body['name']}_{number}",
                _proximity(ball),
            )
    if scene["ground"]:
        plant.RegisterCollisionGeometry(
            plant.world_body(), RigidTransform(), HalfSpace(), "ground", _proximity(scene["ground"])
        )
    joints = {joint["name"]: _add_joint(plant, joint, bodies) for joint in scene["joints"]}
    plant.Finalize()
    for pair in scene["ignore"]:
        sets = [GeometrySet(plant.GetCollisionGeometriesForBody(bodies[name])) for name in pair]
        scene_graph.collision_filter_manager().Apply(CollisionFilterDeclaration().ExcludeBetween(*sets))
    return builder.Build(), plant, bodies, joints


def _set_start(scene, plant, context, bodies, joints):
    from pydrake.multibody.math import SpatialVelocity

    moved_by_joint = {joint["child"] for joint in scene["joints"]}
    for body in scene["bodies"]:
        if body["name"] in moved_by_joint:
            continue
        plant.SetFreeBodyPose(context, bodies[body["name"]], _rigid_transform(body["pose"]))
        twist = SpatialVelocity(*(np.array(part, float) for part in body["twist"]))
        plant.SetFreeBodySpatialVelocity(context, bodies[body["name"]], twist)
    for joint in scene["joints"]:
        drake_joint = joints[joint["name"]][0]
        if joint["kind"] == "ball":
            drake_joint.set_angular_velocity(context, joint["velocity"])
        elif joint["kind"] == "revolute":
            drake_joint.set_angle(context, joint.get("position", 0.0))
            drake_joint.set_angular_rate(context, joint.get("velocity", 0.0))
        else:
            drake_joint.set_translation(context, joint.get("position", 0.0))
            drake_joint.set_translation_rate(context, joint.get("velocity", 0.0))


def _set_inputs(scene, plant, context, joints):
    driven = [joint for joint in scene["joints"] if joints[joint["name"]][1] is not None]
    if not driven:
        return
    plant.get_actuation_input_port().FixValue(context, [joint.get("feed_forward", 0.0) for joint in driven])
    if any("drive" in joint for joint in driven):  # the port lists every motor, whether it has gains or not
        drives = [joint.get("drive", {"position": 0.0, "velocity": 0.0}) for joint in driven]
        target = [d["position"] for d in drives] + [d["velocity"] for d in drives]
        instance = joints[driven[0]["name"]][1].model_instance()
        plant.get_desired_state_input_port(instance).FixValue(context, target)


def simulate(scene, steps=None):
    """Return poses ``body_q`` (steps + 1, bodies, 7), velocities ``body_v`` ``[omega, v_origin]`` and joint states."""
    from pydrake.systems.analysis import Simulator

    diagram, plant, bodies, joints = build(scene)
    simulator = Simulator(diagram)
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    _set_start(scene, plant, context, bodies, joints)
    _set_inputs(scene, plant, context, joints)
    simulator.Initialize()
    rows = [_record(scene, plant, context, bodies, joints)]
    for step in range(scene["steps"] if steps is None else steps):
        simulator.AdvanceTo((step + 1) * scene["dt"])  # even AdvanceTo(0) takes the step due at t = 0
        rows.append(_record(scene, plant, context, bodies, joints))
    names = ("body_q", "body_v", "joint_q", "joint_v")
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}


def _record(scene, plant, context, bodies, joints):
    body_q, body_v = [], []
    for body in scene["bodies"]:
        pose = plant.EvalBodyPoseInWorld(context, bodies[body["name"]])
        velocity = plant.EvalBodySpatialVelocityInWorld(context, bodies[body["name"]])
        w, x, y, z = pose.rotation().ToQuaternion().wxyz()
        body_q.append([*pose.translation(), x, y, z, w])
        body_v.append([*velocity.rotational(), *velocity.translational()])
    scalar = [joints[joint["name"]][0] for joint in scene["joints"] if joint["kind"] != "ball"]
    joint_q = [joint.GetOnePosition(context) for joint in scalar]
    return body_q, body_v, joint_q, [joint.GetOneVelocity(context) for joint in scalar]


def main(names):
    """Write the data of the named scenes, or of all."""
    DATA.mkdir(exist_ok=True)
    for name in names or SCENES:
        result = simulate(SCENES[name])
        np.savez_compressed(DATA / f"{name}.npz", **result)
        record = {"drake": version("drake"), "scene": SCENES[name]}
        (DATA / f"{name}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")
        print(f"{name:24s} {result['body_q'].shape} ends at {np.round(result['body_q'][-1, -1, :3], 4)}")


if __name__ == "__main__":
    main(sys.argv[1:])
