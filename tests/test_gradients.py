"""Gradients of steps on Warp's tape, against differences of steps, closed forms and the step itself."""

import newton
import numpy as np
import pytest
import warp as wp
from loop_scenes import MEETING, joined
from mjcf import finish
from rig import Rig, link, material, put, tight

from newton_sap import SolverSAP
from newton_sap.multibody.velocity_products import FAST, SLOW
from newton_sap.runtime.launches import load_kernels

pytestmark = pytest.mark.usefixtures("adjoints")

STATE = ("joint_q", "joint_qd", "body_f")
CONTROL = ("joint_f", "joint_target_q", "joint_target_qd")
MODEL = (
    *(f"body_{name}" for name in ("mass", "com", "inertia")),
    *(f"joint_{name}" for name in ("X_p", "X_c", "axis", "armature", "damping", "friction", "stiffness", "rest_q")),
    *(f"joint_{name}" for name in ("limit_lower", "limit_upper", "limit_ke", "limit_kd", "target_ke", "target_kd")),
    *(f"shape_material_{name}" for name in ("ke", "kd", "mu")),
    "gravity",
)
FLYING = (int(newton.JointType.FREE), int(newton.JointType.DISTANCE))
BRANCHES = {"joint_stiffness", "joint_friction"}
"""Where these are zero nothing acts, and the derivative there is that of nothing."""
NEVER_NEGATIVE = {"joint_damping", *(f"joint_{name}" for name in ("limit_ke", "limit_kd", "target_ke", "target_kd"))}


def mechanism(resistance=1.0e-3):
    """Every kind of joint and what acts along it; what resists all of it keeps it from a free flight, known in float32."""
    config, turn = newton.ModelBuilder.JointDofConfig, wp.quat_rpy(0.1, 0.2, 0.3)
    builder = newton.ModelBuilder()
    frames = {"parent_xform": wp.transform((0.1, 0.2, 0.3), turn), "child_xform": wp.transform((0.1, 0, 0.2), turn)}
    links = [link(builder, mass=1.0 + i, inertia=(0.1, 0.2, 0.25), com=(0.1, -0.02, 0.03)) for i in range(4)]
    drive = {"target_ke": 30.0, "target_kd": 2.0, "target_q": 0.3}
    slide = config(axis=(1, 0, 0), actuator_mode=newton.JointTargetMode.POSITION_VELOCITY, target_qd=0.4, **drive)
    turns = [
        config(axis=(0, 1, 0), limit_lower=-0.1, limit_upper=0.1, limit_ke=1.0e3, limit_kd=10.0),
        config(axis=(0, 0, 1), friction=0.1, limit_ke=0.0),
    ]
    joints = [
        builder.add_joint_free(links[0]),
        builder.add_joint_d6(links[0], links[1], linear_axes=[slide], angular_axes=turns, **frames),
        builder.add_joint_ball(links[1], links[2], **frames),
        builder.add_joint_revolute(
            links[2], links[3], axis=(0, 1, 0), stiffness=5.0, damping=0.3, armature=0.1, **frames
        ),
    ]
    builder.add_articulation(joints)
    builder.joint_damping[:6] = [resistance] * 6
    return builder


def box_on_plane(depth=0.002, friction=0.4):
    builder = newton.ModelBuilder()
    shape = material(stiffness=2000.0, damping=50.0, friction=friction)
    builder.add_ground_plane(cfg=shape)
    body = builder.add_body(
        xform=wp.transform((0, 0, 0.1 - depth)), mass=8.0, inertia=wp.diag(wp.vec3(0.05, 0.06, 0.07)), lock_inertia=True
    )
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=shape)
    return builder


def ball_over_plane(height, **how):
    """A homogeneous ball of 1 kg, so far above the ground."""
    builder = newton.ModelBuilder()
    shape = material(**how)
    builder.add_ground_plane(cfg=shape)
    body = builder.add_body(xform=wp.transform((0, 0, 0.1 + height)), mass=1.0, lock_inertia=True)
    builder.body_inertia[body] = wp.diag(wp.vec3(0.004))
    builder.add_shape_sphere(body, radius=0.1, cfg=shape)
    return builder


def arm_on_plane():
    """Three hinged capsules, the last of which lies on the ground."""
    builder = newton.ModelBuilder()
    shape = newton.ModelBuilder.ShapeConfig(ke=2000.0, kd=50.0, mu=0.2)
    builder.add_ground_plane(cfg=shape)
    joints, parent = [], -1
    along_x = wp.transform((0.25, 0, 0), wp.quat_from_axis_angle(wp.vec3(0, 1, 0), 0.5 * np.pi))
    for axis in ((0, 1, 0), (0, 1, 0), (0, 0, 1)):
        body = builder.add_link()
        builder.add_shape_capsule(body, radius=0.05, half_height=0.2, xform=along_x, cfg=shape)
        place = wp.transform((0, 0, 0.3) if parent < 0 else (0.5, 0, 0))
        joints.append(
            builder.add_joint_revolute(parent, body, axis=axis, parent_xform=place, armature=0.01, damping=0.1)
        )
        parent = body
    builder.add_articulation(joints)
    builder.joint_q[:3] = [0.55, 0.1, 0.05]
    return builder


def spinning(builder, seed=3):
    """Random coordinates and velocities of a mechanism."""
    random = np.random.default_rng(seed)
    q, v = random.normal(size=len(builder.joint_q)), random.normal(size=len(builder.joint_qd))
    if builder.joint_type[0] == newton.JointType.FREE:
        q[3:7] /= np.linalg.norm(q[3:7])
    ball = builder.joint_q_start[2]
    q[ball : ball + 4] /= np.linalg.norm(q[ball : ball + 4])
    return q, v


class Recorded:
    """One step on a tape, and the same step of a solver that keeps no gradients."""

    def __init__(self, builder, q=None, v=None, dt=0.005, models=None, **options):
        options = {**tight(), **options}
        self.dt, self.arrays = dt, {}
        taped, plain = models or (builder.finalize(requires_grad=True), builder.finalize())
        self.taped, self.plain = (Rig(model, dt, q=q, v=v, **options) for model in (taped, plain))
        self.again()

    def again(self):
        """Make the step."""
        with wp.Tape() as self.tape:
            self._step(self.taped)
        self._step(self.plain)

    def _step(self, rig):
        newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)
        if rig.pipeline is not None:
            rig.pipeline.collide(rig.state, rig.contacts, dt=self.dt)
        rig.solver.step(rig.state, rig.next, rig.control, rig.contacts, self.dt)

    def array(self, rig, name):
        """One of Newton's arrays, of the state, the control or the model."""
        if name in self.arrays:
            return self.arrays[name](rig)
        return getattr(rig.state if name in STATE else rig.control if name in CONTROL else rig.model, name)

    def gradient(self, name, **seeds):
        """Gradient of the sum of seeds times arrays of the new state, by the tape."""
        self.tape.zero()
        for output, seed in seeds.items():
            getattr(self.taped.next, output).grad.assign(np.asarray(seed, np.float32))
        self.tape.backward()
        return self.array(self.taped, name).grad.numpy().astype(float).ravel()

    def difference(self, name, loss, size=1.0e-3):
        """The same by differences of ``loss(rig)`` of the plain solver's step, central ones where both sides make sense."""
        array = self.array(self.plain, name)
        kept = array.numpy().copy()  # which shares memory on a CPU
        flat = kept.ravel()
        slopes = np.zeros(len(flat))
        for i, value in enumerate(flat):
            ends = []
            for side in (0.0, 1.0, 2.0) if name in NEVER_NEGATIVE and value == 0.0 else (-1.0, 1.0):
                changed = flat.copy()
                changed[i] = value + side * size * max(1.0, abs(value))
                array.assign(changed.reshape(kept.shape))
                self._step(self.plain)
                ends.append((float(changed[i]), loss(self.plain)))
            places, losses = zip(*ends, strict=True)
            slopes[i] = np.gradient(losses, places, edge_order=len(ends) - 1)[0]
        array.assign(kept)
        return self.across_quaternions(name, slopes)

    def across_quaternions(self, name, slopes):
        """Slopes without their part along unit quaternions, by which Newton stretches bodies and forces."""
        values = self.array(self.plain, name).numpy()
        starts = []
        if name in ("joint_X_p", "joint_X_c"):
            starts = range(3, values.size, 7)
        elif name == "joint_q":
            model = self.plain.model
            kinds = {**dict.fromkeys(FLYING, 3), int(newton.JointType.BALL): 0}
            starts = [
                start + kinds[kind]
                for start, kind in zip(model.joint_q_start.numpy(), model.joint_type.numpy(), strict=False)
                if kind in kinds
            ]
        for start in starts:
            turn, part = values.ravel()[start : start + 4], slopes[start : start + 4]
            part -= np.dot(part, turn) / np.dot(turn, turn) * turn
        return slopes


def end_velocity(rig):
    """The velocity in float64 and Newton's order: what differences can be taken of."""
    v = rig.solver.inspect().v.copy()
    model = rig.model
    for joint in np.flatnonzero(np.isin(model.joint_type.numpy(), FLYING)):
        first = model.joint_qd_start.numpy()[joint]
        v[first : first + 6] = np.roll(v[first : first + 6], 3)
    return v


def compare(step, names, tolerance, size=1.0e-3):
    """Gradients of a random combination of velocities, each array's errors against its largest entry."""
    w = np.random.default_rng(7).normal(size=step.taped.model.joint_dof_count).astype(np.float32)
    w[step.taped.solver.topology.dof_count :] = 0.0  # joints that close loops, which come last, are measured
    seen = 0
    for name in names:
        array = step.array(step.taped, name)
        if not array.size or array.grad is None:
            continue
        expected = step.difference(name, lambda rig: w.astype(float) @ end_velocity(rig), size)
        found = step.gradient(name, joint_qd=w)
        if name in BRANCHES:
            expected = np.where(array.numpy().ravel() == 0.0, 0.0, expected)
            found = np.where(array.numpy().ravel() == 0.0, 0.0, found)
        largest = np.abs(expected).max()
        assert np.abs(found - expected).max() <= tolerance * largest + 1.0e-7, name
        seen += largest > 1.0e-4
    return seen


def test_joints_against_differences():
    """All joints, drives, limits, springs, friction and armature: every array that a step reads."""
    builder = mechanism()
    q, v = spinning(builder)
    assert compare(Recorded(builder, q, v), (*STATE, *CONTROL, *MODEL), 2.0e-4) >= 18


TURNING = (
    "joint_q",
    "joint_qd",
    "body_f",
    "body_mass",
    "body_com",
    "body_inertia",
    "joint_axis",
    "joint_X_p",
    "gravity",
)


@pytest.mark.parametrize(("faster", "turn"), [(4.0, SLOW), (20.0, FAST)])
def test_velocity_products_against_differences(faster, turn):
    """They follow the change of velocity once and twice, and so does the way back."""
    builder = mechanism()
    q, v = spinning(builder)
    step = Recorded(builder, q, faster * v)
    assert step.dt * np.linalg.norm(step.plain.state.body_qd.numpy()[:, 3:], axis=1).max() > float(turn)
    assert compare(step, (*TURNING, "joint_armature", "joint_damping"), 2.0e-4) >= 10


SAP, START, SIMILAR = {"contact_model": "sap"}, {"friction_bound": "start"}, {"contact_model": "similar"}
CONTACT = ("joint_q", "joint_qd", "body_f", "body_mass", "body_com", "gravity", "joint_X_p", "shape_material_mu")


@pytest.mark.parametrize(
    ("scene", "law", "tolerance"),
    [
        *((scene, law, 3.0e-4) for scene in ("slide", "stick") for law in (SAP, START, SIMILAR)),
        ("arm", SAP, 3.0e-3),  # differences of a capsule found anew in float32
        ("slide", {}, 5.0e-3),  # bounded by the normal impulse to one percent
        ("arm", SIMILAR, 5.0e-3),  # softened by an effective mass, which counts as a constant
    ],
)
def test_contacts_against_differences(scene, law, tolerance):
    """Sliding, sticking and jointed bodies on the ground, whose contacts are found anew."""
    builder = arm_on_plane() if scene == "arm" else box_on_plane()
    v = {"arm": [0.3, -0.2, 2.0], "slide": [0.5, 0.2, -0.02, 0.1, 0.2, 0.3], "stick": [0, 0, -0.02, 0, 0, 0]}[scene]
    assert compare(Recorded(builder, v=v, **law), CONTACT, tolerance, size=1.0e-4) >= 5


@pytest.mark.parametrize(("faster", "turn"), [(1.0, SLOW), (8.0, FAST)])
def test_what_leans_against_differences(faster, turn):
    """The ground bears a share of what pushes an arm on it, which depends on all that moves the arm."""
    step = Recorded(arm_on_plane(), None, faster * np.array([0.5, -1.0, 3.0]), **SAP)
    assert step.dt * np.linalg.norm(step.plain.state.body_qd.numpy()[:, 3:], axis=1).max() > float(turn)
    assert step.plain.solver.motion.leans.numpy()[0] == 1
    names = (*CONTACT, "body_inertia", "joint_armature", "joint_damping")
    assert compare(step, names, 5.0e-3, size=1.0e-4) >= 8


def test_coordinates_and_bodies_against_differences():
    """What integration, a straight flight and publication make of the velocity, by a loss on poses and body velocities."""
    builder = mechanism(resistance=0.0)
    step = Recorded(builder, *spinning(builder))
    random = np.random.default_rng(1)
    outputs = ("joint_q", "joint_qd", "body_q", "body_qd")
    seeds = {name: random.normal(size=getattr(step.taped.next, name).numpy().shape) for name in outputs}

    def loss(rig):
        return sum(float((seeds[name] * getattr(rig.next, name).numpy()).sum()) for name in outputs)

    for name, size in (("joint_q", 1.0e-2), ("joint_qd", 1.0e-2), ("joint_f", 1.0), ("joint_X_c", 1.0e-2)):
        expected = step.difference(name, loss, size=size)  # of float32 outputs
        found = step.gradient(name, **seeds)
        assert np.abs(found - expected).max() <= 2.0e-3 * np.abs(expected).max() + 2.0e-4, name


def test_steps_are_the_same_with_and_without_gradients():
    """A tape changes no bit of what is computed."""
    builder = mechanism(resistance=0.0)
    step = Recorded(builder, *spinning(builder))
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        np.testing.assert_array_equal(
            getattr(step.taped.next, name).numpy(), getattr(step.plain.next, name).numpy(), err_msg=name
        )


def test_sliding_friction_in_closed_form():
    """dv/dmu = -g dt and dv/dm = 0 on stiff ground, where the normal force is the weight; default friction bounds."""
    stiffness = 1.0e7
    shape = material(stiffness, damping=1.0e4, friction=0.3)
    builder = newton.ModelBuilder()
    builder.add_ground_plane(cfg=shape)
    weight = 8.0 * 9.81
    body = builder.add_body(xform=wp.transform((0, 0, 0.5 - weight / stiffness)), mass=8.0, lock_inertia=True)
    builder.add_shape_sphere(body, radius=0.5, cfg=shape)
    builder.body_inertia[body] = wp.diag(wp.vec3(1.0e4))  # it slides and does not roll
    step = Recorded(builder, v=[1.0, 0, 0, 0, 0, 0], dt=0.01)
    friction = step.gradient("shape_material_mu", joint_qd=[1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(friction, -0.5 * 9.81 * 0.01, rtol=5.0e-3)  # of both shapes the mean
    np.testing.assert_allclose(step.gradient("body_mass", joint_qd=[1, 0, 0, 0, 0, 0]), 0.0, atol=2.0e-4)
    np.testing.assert_allclose(step.gradient("joint_qd", joint_qd=[1, 0, 0, 0, 0, 0])[0], 1.0, atol=1.0e-3)


def test_prescribed_bodies_pass_their_velocity_on():
    """A box sticks to a kinematic plate: what the plate's velocity gives the box."""
    builder = newton.ModelBuilder()
    shape = material(stiffness=2000.0, damping=50.0, friction=0.8)
    plate = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(1.0)), lock_inertia=True, is_kinematic=True)
    builder.add_articulation([builder.add_joint_prismatic(-1, plate, axis=(1, 0, 0))])
    builder.add_shape_box(plate, hx=1.0, hy=1.0, hz=0.1, cfg=shape)
    body = builder.add_body(xform=wp.transform((0, 0, 0.199)), mass=2.0, lock_inertia=True)
    builder.body_inertia[body] = wp.diag(wp.vec3(0.02))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=shape)
    step = Recorded(builder, v=[0.3], **SAP)
    assert compare(step, ("joint_qd", "joint_q", "body_mass"), 3.0e-4, size=1.0e-4) == 3


DRONE = """<mujoco><option gravity="0 0 -9.81"/><worldbody>
  <body name="drone" pos="0 0 1"><freejoint name="root"/><geom type="box" size=".1 .1 .02" mass="0.5"/>
    <site name="rotor" pos=".1 0 0"/>
    <body name="arm" pos="0 .1 0"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 .3 0" size=".02"/>
      <body name="hand" pos="0 .3 0"><joint name="wrist" axis="1 0 0"/><geom type="sphere" size=".05"/></body></body>
    <body name="tail" pos="-.1 0 0"><joint name="hip" type="ball"/><geom type="sphere" size=".04" pos="-.1 0 .02"/></body></body>
</worldbody><actuator>
  <motor site="rotor" gear="0 0 1 0 0 -.2"/><motor joint="shoulder" gear="3"/>
  <motor joint="root" gear=".5 .1 .2 .03 .02 .01"/><motor jointinparent="hip" gear=".02 .03 .01"/>
  <general joint="wrist" gainprm="20" biastype="affine" biasprm="0 -20 -0.5"/></actuator></mujoco>"""


def test_actuators_against_differences():
    """A rotor on a site, motors on a hinge, a free and a ball joint, and a servo, by what commands them and by their parameters."""
    models = [finish(DRONE, gravity=-9.81, requires_grad=grad) for grad in (True, False)]
    for model in models:
        put(model.joint_damping, [1.0e-3])  # see mechanism()
    step = Recorded(None, models=models)
    for rig in (step.taped, step.plain):
        rig.control.mujoco.ctrl.assign([2.0, 0.4, 0.7, -0.5, 0.3])
    step.again()
    w = np.arange(1.0, 12.0)
    step.arrays["ctrl"] = lambda rig: rig.control.mujoco.ctrl
    for holder in ("actuator_gear", "actuator_gainprm", "actuator_biasprm"):
        step.arrays[holder] = lambda rig, name=holder: getattr(rig.model.mujoco, name)
    for name in (*step.arrays, "joint_q", "body_com"):
        expected = step.difference(name, lambda rig: w @ end_velocity(rig))
        found = step.across_quaternions(name, step.gradient(name, joint_qd=w))
        assert np.abs(expected).max() > 1.0e-3
        np.testing.assert_allclose(found, expected, atol=5.0e-4 * np.abs(expected).max(), err_msg=name)


TIED = ("joint_q", "joint_qd", "body_f", "body_mass", "body_com", "gravity", "joint_X_p", "joint_X_c", "joint_axis")


@pytest.mark.parametrize("kind", ["fixed", "revolute", "prismatic", "cylindrical", "ball", "universal", "planar"])
def test_loops_against_differences(kind):
    """Two bodies that a joint ties, found apart: what is held, by poses, frames, masses and forces."""
    models = [joined(kind, "two_articulations", True, requires_grad=grad) for grad in (True, False)]
    random = np.random.default_rng(2)
    q = nearly_closed(models[0]) + 0.04 * random.normal(size=models[0].joint_coord_count)
    step = Recorded(None, q=q, v=random.normal(size=models[0].joint_dof_count), models=models)
    assert compare(step, TIED, 2.0e-3) >= 6


SPINNING = ("joint_q", "joint_qd", "joint_X_p", "joint_X_c", "joint_axis", "body_com")


@pytest.mark.parametrize("kind", ["fixed", "revolute", "prismatic", "cylindrical", "ball", "universal", "planar"])
def test_loops_that_spin_against_differences(kind):
    """At rates of some 15 rad/s what errors open by within a step is a good part of what their rows ask for."""
    models = [joined(kind, "two_articulations", True, requires_grad=grad) for grad in (True, False)]
    random = np.random.default_rng(4)
    q = nearly_closed(models[0]) + 0.01 * random.normal(size=models[0].joint_coord_count)
    v = np.repeat([1.0, 15.0, 4.0, 1.0, 15.0, 1.0], [3, 3, 1, 3, 3, models[0].joint_dof_count - 13])
    step = Recorded(None, q=q, v=v * random.normal(size=models[0].joint_dof_count), models=models)
    assert compare(step, SPINNING, 2.0e-3) >= 4


def nearly_closed(model):
    """Coordinates of two bodies that a loop joint ties, where they stand with the joint closed."""
    q = model.joint_q.numpy()
    q[8:15] = MEETING
    return q


def test_a_loop_far_apart_closes_at_a_velocity_that_the_gradient_takes_as_given():
    """Bounded by what the Jacobian promises, whose own change the gradient leaves out: close to the differences, no more."""
    models = [joined("ball", "two_articulations", True, requires_grad=grad) for grad in (True, False)]
    q = models[0].joint_q.numpy() + 0.05 * np.random.default_rng(2).normal(size=models[0].joint_coord_count)
    step = Recorded(None, q=q, models=models)
    w = np.arange(1.0, models[0].joint_dof_count + 1.0)
    w[step.taped.solver.topology.dof_count :] = 0.0
    expected = step.difference("joint_q", lambda rig: w @ end_velocity(rig))
    found = step.across_quaternions("joint_q", step.gradient("joint_q", joint_qd=w))
    apart = np.abs(found - expected).max() / np.abs(expected).max()
    assert 2.0e-3 < apart < 0.6


def test_mimics_and_distances_against_differences():
    """A hinge follows another, and a body hangs on a rope that is too long for it."""
    builder = newton.ModelBuilder()
    joints = [builder.add_joint_revolute(-1, link(builder, com=(0.2, 0, 0)), axis=(0, 1, 0)) for _ in range(2)]
    builder.add_articulation(joints)
    builder.set_joint_mimic(joints[1], joints[0], coeffs=(0.1, -2.0))
    rope = builder.add_joint_distance(-1, link(builder, com=(0, 0.1, 0)), min_distance=0.2, max_distance=0.5)
    builder.add_articulation([rope])
    for q in ([0.3, -0.2, 0.3, 0.1, -0.5, 0, 0, 0, 1], [0.3, -0.2, 0.1, 0.1, -0.05, 0, 0, 0, 1]):
        step = Recorded(builder, q=q, v=[1.0, 0.5, 0.4, 0.2, -0.3, 0.1, 0.2, 0.3])
        assert compare(step, (*TIED, "joint_limit_upper", "joint_limit_lower"), 2.0e-3, size=1.0e-4) >= 6
    mimic = step.gradient("joint_qd", joint_qd=[0, 1, 0, 0, 0, 0, 0, 0])
    assert abs(mimic[0]) > 0.1


def test_measured_coordinates_against_differences():
    """The angle and the rate of a hinge that closes a loop, by where the bodies are and how they move."""
    models = [joined("revolute", "two_articulations", True, requires_grad=grad) for grad in (True, False)]
    q = nearly_closed(models[0]) + 0.02 * np.random.default_rng(2).normal(size=models[0].joint_coord_count)
    step = Recorded(None, q=q, models=models)
    seeds = {name: np.zeros(len(getattr(step.taped.next, name))) for name in ("joint_q", "joint_qd")}
    for seed in seeds.values():
        seed[-1] = 1.0
    for name in ("joint_q", "joint_qd"):
        expected = step.difference(
            name, lambda rig: float(rig.next.joint_q.numpy()[-1]) + float(rig.next.joint_qd.numpy()[-1]), size=1.0e-2
        )
        found = step.across_quaternions(name, step.gradient(name, **seeds))
        assert np.abs(expected).max() > 0.5
        trees = slice(0, len(found) - 1)  # what is measured is not read again
        np.testing.assert_allclose(found[trees], expected[trees], atol=5.0e-3 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("kind", ["free", "between bodies that cannot move"])
def test_loop_joints_that_hold_nothing(kind):
    """They couple no velocities, and gradients of what moves are as without them."""
    builder = newton.ModelBuilder()
    hinge = builder.add_joint_revolute(-1, link(builder, com=(0.2, 0, 0)), axis=(0, 1, 0))
    posts = [link(builder) for _ in range(2)]
    builder.add_articulation([hinge, *(builder.add_joint_fixed(-1, post) for post in posts)])
    if kind == "free":
        builder.add_joint_free(posts[0], parent=0)
    else:
        builder.add_joint_ball(*posts)
    step = Recorded(builder, q=[0.3, *builder.joint_q[1:]], v=[1.0, *builder.joint_qd[1:]])
    assert len(step.taped.solver.topology.loop_joints) == 1
    assert compare(step, (*TIED, "joint_f"), 2.0e-3) >= 3


def test_what_acts_along_loop_axes_has_no_number_for_a_gradient():
    """A spring along the axis of a loop joint is left out of the balance, and the gradient says so."""
    models = [joined("revolute", "two_articulations", True, requires_grad=True, stiffness=3.0) for _ in range(2)]
    step = Recorded(None, models=models)
    assert np.isnan(step.gradient("joint_qd", joint_qd=np.ones(models[0].joint_dof_count))).any()


class Rollout:
    """Several steps on one tape, contacts found anew in each."""

    def __init__(self, builder, steps, dt, **options):
        self.model = builder.finalize(requires_grad=True)
        self.solver = SolverSAP(self.model, **{**tight(), **options})
        self.states = [self.model.state() for _ in range(steps + 1)]
        self.control, self.dt = self.model.control(), dt
        self.pipeline = newton.CollisionPipeline(self.model) if self.model.shape_count else None
        self.contacts = self.pipeline.contacts() if self.pipeline else None

    def run(self):
        with wp.Tape() as tape:
            newton.eval_fk(self.model, self.states[0].joint_q, self.states[0].joint_qd, self.states[0])
            for before, after in zip(self.states[:-1], self.states[1:], strict=True):
                if self.pipeline:
                    self.pipeline.collide(before, self.contacts, dt=self.dt)
                self.solver.step(before, after, self.control, self.contacts, self.dt)
        return tape


def test_gradients_through_many_steps():
    """A ball is thrown, lands, and slides: where it is after forty steps, by how it was thrown."""
    builder = ball_over_plane(0.03, stiffness=1.0e4, damping=50.0, friction=0.4)
    rollout = Rollout(builder, steps=40, dt=0.005, **SAP)

    def end(v):
        put(rollout.states[0].joint_qd, v)
        tape = rollout.run()
        return rollout.states[-1].joint_q.numpy()[:3].astype(float), tape

    thrown = np.array([1.0, 0.2, 0.1, 0, 0, 0])
    _, tape = end(thrown)
    weights = np.array([1.0, 0.5, 0.0])  # how high it is turns with the step in which it lands
    rollout.states[-1].joint_q.grad.assign([*weights, 0, 0, 0, 0])
    tape.backward()
    expected = [weights @ (end(thrown + step)[0] - end(thrown - step)[0]) / 8.0e-3 for step in 4.0e-3 * np.eye(6)]
    found = rollout.states[0].joint_qd.grad.numpy()
    np.testing.assert_allclose(found[[0, 1, 3, 4, 5]], np.array(expected)[[0, 1, 3, 4, 5]], rtol=5.0e-3, atol=2.0e-4)


def test_worlds_do_not_touch_each_other():
    """The gradient of one world's loss is that of the world alone, and zero in the others."""
    one = box_on_plane()
    both = newton.ModelBuilder()
    for _ in range(2):
        both.add_world(one)
    v = [0.5, 0.2, -0.02, 0.1, 0.2, 0.3]
    alone = Recorded(one, v=v, **SAP).gradient("joint_q", joint_qd=[1, 2, 3, 4, 5, 6])
    pair = Recorded(both, v=v + v, **SAP).gradient("joint_q", joint_qd=[0] * 6 + [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(pair[:7], 0.0)
    np.testing.assert_allclose(pair[7:], alone, rtol=1.0e-9, atol=1.0e-9)


def test_a_tape_can_go_back_twice():
    """The same gradient again after ``tape.zero()``."""
    step = Recorded(box_on_plane(), v=[0.5, 0, 0, 0, 0, 0], **SAP)
    first = step.gradient("joint_q", joint_qd=np.ones(6))
    np.testing.assert_array_equal(step.gradient("joint_q", joint_qd=np.ones(6)), first)
    assert np.abs(first).max() > 0.1


def test_there_and_back_in_a_graph():
    """A recorded run with its way back gives the gradient of whatever it starts from, also when its tape is gone."""
    rollout = Rollout(box_on_plane(), steps=4, dt=0.005, **SAP)
    start, end = rollout.states[0].joint_qd, rollout.states[-1].joint_q

    def there_and_back():
        for state in rollout.states:
            for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
                getattr(state, name).grad.zero_()
        tape = rollout.run()
        end.grad.fill_(1.0)
        tape.backward()

    pushes, expected = ([0.5, 0, 0, 0, 0, 0], [0.1, 0.7, -0.1, 0, 0.3, 0]), []
    for push in pushes:
        put(start, push)
        there_and_back()
        expected.append(start.grad.numpy().copy())
    with wp.ScopedCapture(device=rollout.model.device) as capture:
        there_and_back()
    for push, gradient in zip(pushes, expected, strict=True):
        put(start, push)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(start.grad.numpy(), gradient)


def test_everything_is_compiled_at_construction(monkeypatch):
    """What a step records was loaded before, so that a capture of the first one compiles nothing."""
    loaded, launched, launch = [], [], wp.launch

    def load(kernels, device):
        loaded.extend(kernels)
        return load_kernels(kernels, device)

    def watched(kernel, *args, **kwargs):
        launched.append(kernel)
        return launch(kernel, *args, **kwargs)

    monkeypatch.setattr("newton_sap.gradients.recording.load_kernels", load)
    rollout = Rollout(box_on_plane(), steps=1, dt=0.005, **SAP)
    rollout.pipeline.collide(rollout.states[0], rollout.contacts, dt=rollout.dt)
    monkeypatch.setattr(wp, "launch", watched)
    with wp.Tape() as tape:
        rollout.solver.step(*rollout.states, rollout.control, rollout.contacts, rollout.dt)
    tape.backward()
    taped = {
        kernel.key for kernel in launched if "gradients" in kernel.module.name or kernel.options.get("enable_backward")
    }
    assert taped and taped <= {kernel.key for kernel in loaded}


def test_a_step_in_place_is_refused():
    """The way back needs the state at the start; nothing has moved when it is refused."""
    model = box_on_plane().finalize(requires_grad=True)
    solver, state = SolverSAP(model), model.state()
    before = state.joint_q.numpy().copy()
    with pytest.raises(ValueError, match="pass another state"):
        solver.step(state, state, None, None, 0.01)
    np.testing.assert_array_equal(state.joint_q.numpy(), before)


def test_a_bounce_has_no_number_for_a_gradient():
    """Restitution that is set at run time makes two solves of a step; its gradient is NaN, and not that of one."""
    rollout = Rollout(ball_over_plane(0.0, stiffness=1.0e5, friction=0.0), steps=1, dt=0.005, **SAP)
    rollout.model.shape_material_restitution.fill_(1.0)
    put(rollout.states[0].joint_qd, [0, 0, -2.0, 0, 0, 0])
    tape = rollout.run()
    assert rollout.states[1].joint_qd.numpy()[2] > 1.5
    tape.backward(grads={rollout.states[1].joint_qd: wp.ones(6, dtype=float, device=rollout.model.device)})
    assert np.isnan(rollout.states[0].joint_qd.grad.numpy()).any()
