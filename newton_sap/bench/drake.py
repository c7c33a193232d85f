"""Drake on the same scene, under the same contact law: a ``MultibodyPlant`` with point contact, built body by body from the Newton model.

Drake keeps one contact point per pair of convex shapes: a box that stands on four corners in Newton stands on one point
here, four times as deep, and a lying capsule on one instead of two. Towers fall and grasps differ, so ``boxes10`` and
``gripper`` are left out; robots that rest on capsules get fewer contacts than elsewhere.
"""

from __future__ import annotations

import newton
import numpy as np

from ..config import SAPOptions
from .native import LeftOut, NativeRun
from .scenes import BenchScene, make_scene

LEFT_OUT = {"boxes10": "one contact point per pair: the tower falls", "gripper": "its contacts differ from Newton's"}
"""Scenes that Drake's point contact cannot be compared on, and why."""

_FAR = 1.0e6


class DrakeRun(NativeRun):
    """One plant and one context per world, stepped in turn."""

    def __init__(self, scene: BenchScene):
        try:
            from pydrake.systems.analysis import Simulator
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("Drake is not installed: pip install 'newton-sap[oracle]'") from error

        if scene.name in LEFT_OUT:
            raise LeftOut(LEFT_OUT[scene.name])
        super().__init__(scene, "drake")
        one = make_scene(scene.name, device="cpu")
        self.plant, diagram, self.bodies, self.joints = build_plant(one)
        self.simulators = []
        self.updates = 0
        for _ in range(scene.worlds):
            simulator = Simulator(diagram, diagram.CreateDefaultContext())
            _set_state(self.plant, self._context(simulator), one, self.bodies, self.joints)
            simulator.Initialize()
            self.simulators.append(simulator)
        self.dofs = [(joint["actuator"].input_start(), joint["dof"]) for joint in self.joints]

    def _context(self, simulator):
        return self.plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())

    def apply(self, forces: np.ndarray) -> None:
        """Set the joint forces of every world."""
        for simulator, row in zip(self.simulators, forces, strict=True):
            u = np.zeros(self.plant.num_actuated_dofs())
            for at, dof in self.dofs:
                u[at] = row[dof]
            self.plant.get_actuation_input_port().FixValue(self._context(simulator), u)

    def step_worlds(self, count: int) -> None:
        """Advance every world by itself."""
        self.updates += count
        for simulator in self.simulators:
            # The first update is due at time zero; half a step of margin keeps rounding from moving any of them.
            simulator.AdvanceTo((self.updates - 0.5) * self.scene.dt)

    def mark(self) -> None:
        """Remember the current state as the start of every measurement."""
        self.start = [self._context(s).get_discrete_state_vector().CopyToVector() for s in self.simulators]
        self.start_clock = self.clock

    def rewind(self) -> None:
        """Go back to the marked state; time goes on."""
        for simulator, state in zip(self.simulators, self.start, strict=True):
            self._context(simulator).SetDiscreteState(state)
        self.clock = self.start_clock

    def poses(self) -> np.ndarray:
        """Return body poses in Newton's order, (worlds, bodies, 7)."""
        out = np.zeros((len(self.simulators), len(self.bodies), 7))
        for w, simulator in enumerate(self.simulators):
            context = self._context(simulator)
            for b, body in enumerate(self.bodies):
                pose = self.plant.EvalBodyPoseInWorld(context, body)
                turn = pose.rotation().ToQuaternion()
                out[w, b] = [*pose.translation(), turn.x(), turn.y(), turn.z(), turn.w()]
        return out


def build_plant(scene: BenchScene):
    """Return plant, diagram, bodies in Newton's order and one entry per scalar joint of a one-world scene."""
    from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, ContactModel, DiscreteContactApproximation
    from pydrake.systems.framework import DiagramBuilder

    model = scene.model
    builder = DiagramBuilder()
    plant, scene_graph = AddMultibodyPlantSceneGraph(builder, time_step=scene.dt)
    plant.set_contact_model(ContactModel.kPoint)
    law = {
        "sap": DiscreteContactApproximation.kSap,
        "lagged": DiscreteContactApproximation.kLagged,
        "similar": DiscreteContactApproximation.kSimilar,
    }
    plant.set_discrete_contact_approximation(law[SAPOptions().contact_model])
    bodies = [plant.AddRigidBody(f"body_{b}", _inertia(model, b)) for b in range(model.body_count)]
    geometries = _add_shapes(plant, model, bodies)
    joints = _add_joints(plant, model, bodies)
    plant.Finalize()
    _filter(scene_graph, model, geometries)
    return plant, builder.Build(), bodies, joints


def _inertia(model, body):
    from pydrake.multibody.tree import RotationalInertia, SpatialInertia, UnitInertia

    mass, com = float(model.body_mass.numpy()[body]), model.body_com.numpy()[body].astype(float)
    I = model.body_inertia.numpy()[body].astype(float)
    central = RotationalInertia(I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    unit = UnitInertia()
    unit.SetFromRotationalInertia(central.ShiftFromCenterOfMass(mass, -com), mass)
    return SpatialInertia(mass, com, unit)


def _pose(transform):
    from pydrake.common.eigen_geometry import Quaternion
    from pydrake.math import RigidTransform

    x, y, z, qx, qy, qz, qw = (float(value) for value in transform)
    turn = np.array([qw, qx, qy, qz])
    return RigidTransform(Quaternion(turn / np.linalg.norm(turn)), [x, y, z])


def _add_shapes(plant, model, bodies):
    """Register every colliding shape; return its geometry by Newton's index."""
    from pydrake.geometry import AddContactMaterial, ProximityProperties
    from pydrake.multibody.plant import CoulombFriction

    flags, owner, place = model.shape_flags.numpy(), model.shape_body.numpy(), model.shape_transform.numpy()
    ke, kd, mu = (getattr(model, f"shape_material_{name}").numpy().astype(float) for name in ("ke", "kd", "mu"))
    found = {}
    for s in range(model.shape_count):
        if not flags[s] & newton.ShapeFlags.COLLIDE_SHAPES:
            continue
        material = ProximityProperties()
        # Drake puts stiffnesses in series and adds relaxation times; Newton takes the mean of both.
        AddContactMaterial(
            dissipation=SAPOptions().hunt_crossley_dissipation,
            point_stiffness=2.0 * ke[s],
            friction=CoulombFriction(mu[s], mu[s]),
            properties=material,
        )
        material.AddProperty("material", "relaxation_time", 0.5 * kd[s] / ke[s])
        body = plant.world_body() if owner[s] < 0 else bodies[owner[s]]
        geometry = _geometry(model, s)
        found[s] = plant.RegisterCollisionGeometry(body, _pose(place[s]), geometry, f"shape_{s}", material)
    return found


def _geometry(model, shape):
    from pydrake import geometry

    kind, (x, y, z) = newton.GeoType(model.shape_type.numpy()[shape]), model.shape_scale.numpy()[shape].astype(float)
    if kind == newton.GeoType.SPHERE:
        return geometry.Sphere(x)
    if kind == newton.GeoType.BOX:
        return geometry.Box(2.0 * x, 2.0 * y, 2.0 * z)
    if kind == newton.GeoType.CAPSULE:
        return geometry.Capsule(x, 2.0 * y)
    if kind == newton.GeoType.CYLINDER:
        return geometry.Cylinder(x, 2.0 * y)
    if kind == newton.GeoType.PLANE:
        return geometry.HalfSpace()
    raise NotImplementedError(f"{kind.name} has no counterpart here")


def _filter(scene_graph, model, geometries) -> None:
    """Let only those pairs collide that Newton lets collide."""
    from pydrake.geometry import CollisionFilterDeclaration, GeometrySet

    allowed = {tuple(sorted(map(int, pair))) for pair in model.shape_contact_pairs.numpy()}
    declaration = CollisionFilterDeclaration()
    for a in geometries:
        for b in geometries:
            if a < b and (a, b) not in allowed:
                declaration.ExcludeBetween(GeometrySet(geometries[a]), GeometrySet(geometries[b]))
    scene_graph.collision_filter_manager().Apply(declaration)


def _add_joints(plant, model, bodies):
    """Add every joint but the free ones, several axes as a chain of massless links."""
    from pydrake.multibody.tree import FixedOffsetFrame, SpatialInertia

    names = ("type", "parent", "child", "X_p", "X_c", "qd_start", "q_start", "dof_dim")
    joint = {name: getattr(model, f"joint_{name}").numpy() for name in names}
    scalars = []
    for j in range(model.joint_count):
        if joint["type"][j] == newton.JointType.FREE:
            continue
        linear, angular = (int(n) for n in joint["dof_dim"][j])
        parent = plant.world_body() if joint["parent"][j] < 0 else bodies[joint["parent"][j]]
        child = bodies[joint["child"][j]]
        before = plant.AddFrame(FixedOffsetFrame(f"p{j}", parent.body_frame(), _pose(joint["X_p"][j])))
        last = plant.AddFrame(FixedOffsetFrame(f"c{j}", child.body_frame(), _pose(joint["X_c"][j])))
        count = linear + angular
        if count == 0:
            plant.WeldFrames(before, last)
        for i in range(count):
            after = last
            if i < count - 1:
                after = plant.AddRigidBody(f"between_{j}_{i}", SpatialInertia.Zero()).body_frame()
            dof, coordinate = int(joint["qd_start"][j]) + i, int(joint["q_start"][j]) + i
            scalars.append(_add_scalar_joint(plant, model, (before, after), dof, coordinate, i < linear))
            before = after
    return scalars


def _add_scalar_joint(plant, model, frames, dof, coordinate, slides):
    from pydrake.multibody.tree import PdControllerGains, PrismaticJoint, RevoluteJoint, RevoluteSpring

    def of(name):
        return float(getattr(model, f"joint_{name}").numpy()[dof])

    axis = model.joint_axis.numpy()[dof].astype(float)
    low, high = of("limit_lower"), of("limit_upper")
    low, high = (low if low > -_FAR else -np.inf), (high if high < _FAR else np.inf)
    kind = PrismaticJoint if slides else RevoluteJoint
    joint = plant.AddJoint(kind(f"dof_{dof}", *frames, axis / np.linalg.norm(axis), low, high, of("damping")))
    if of("stiffness") > 0.0 and not slides:
        plant.AddForceElement(RevoluteSpring(joint, float(model.joint_rest_q.numpy()[coordinate]), of("stiffness")))
    actuator = plant.AddJointActuator(f"actuator_{dof}", joint)
    if of("armature") > 0.0:
        actuator.set_default_rotor_inertia(of("armature"))
        actuator.set_default_gear_ratio(1.0)
    driven = of("target_ke") > 0.0
    if driven:
        actuator.set_controller_gains(PdControllerGains(p=of("target_ke"), d=of("target_kd")))
    target = float(model.joint_target_q.numpy()[coordinate])
    return {"joint": joint, "actuator": actuator, "dof": dof, "coordinate": coordinate, "slides": slides,
            "driven": driven, "target": target}  # fmt: skip


def _set_state(plant, context, scene, bodies, joints) -> None:
    """Put the scene's start into a context: coordinates, drive targets and no joint forces."""
    q, types = scene.model.joint_q.numpy().astype(float), scene.model.joint_type.numpy()
    plant.get_actuation_input_port().FixValue(context, np.zeros(plant.num_actuated_dofs()))
    driven = [joint for joint in joints if joint["driven"]]
    if driven:
        instance = driven[0]["actuator"].model_instance()
        target = [joint["target"] for joint in driven]
        port = plant.get_desired_state_input_port(instance)
        port.FixValue(context, np.array(target + [0.0] * len(target)))
    for joint in joints:
        put = joint["joint"].set_translation if joint["slides"] else joint["joint"].set_angle
        put(context, q[joint["coordinate"]])
    starts, children = scene.model.joint_q_start.numpy(), scene.model.joint_child.numpy()
    for j in np.flatnonzero(types == newton.JointType.FREE):
        plant.SetFreeBodyPose(context, bodies[children[j]], _pose(q[starts[j] : starts[j] + 7]))
