"""Small canonical scenes as built Newton models with the time step that suits them.

Each function returns a :class:`Scene`; nothing here steps, draws or depends on a solver. Lengths are in metres, masses
in kilograms, the vertical axis is z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

import newton
import warp as wp

from .bodies import weight


@dataclass(frozen=True)
class Scene:
    """A model with everything needed to step it."""

    name: str
    model: newton.Model
    dt: float
    """Time step [s]."""
    substeps: int
    """Steps per frame; collisions are detected at every step."""
    description: str
    """What should happen, in one sentence."""
    actuate: Callable[[newton.Control, float], None] | None = None
    """Sets the drive targets for a time [s]; None where they stay as built."""

    @property
    def worlds(self) -> int:
        """Number of worlds of the model; a model built without any counts as one."""
        return max(int(self.model.world_count), 1)

    @property
    def frame_dt(self) -> float:
        """Duration of a frame [s]."""
        return self.dt * self.substeps

    def state(self) -> newton.State:
        """Return the initial state, body poses consistent with the joint coordinates."""
        state = self.model.state()
        newton.eval_fk(self.model, self.model.joint_q, self.model.joint_qd, state)
        return state

    def weight(self) -> float:
        """Return the weight [N] of all bodies under the model's gravity."""
        return weight(self.model)


def sphere(*, radius: float = 0.1, height: float = 0.5, device: str | None = None) -> Scene:
    """A sphere that falls onto the ground from ``height`` of its centre [m]."""
    builder = _builder()
    body = builder.add_body(xform=wp.transform((0.0, 0.0, height)), label="sphere")
    builder.add_shape_sphere(body, radius=radius)
    builder.add_ground_plane()
    return Scene("sphere", builder.finalize(device=device), 1.0 / 240.0, 4, "The sphere drops and comes to rest.")


def box_on_incline(
    *, angle: float = 20.0, mu: float = 0.5, half_extent: float = 0.1, device: str | None = None
) -> Scene:
    """A cube on a slope of ``angle`` degrees; it sticks while ``mu`` exceeds ``tan(angle)``, otherwise it slides."""
    builder = _builder(mu=mu)
    slope = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), math.radians(angle))
    builder.add_shape_plane(xform=wp.transform((0.0, 0.0, 0.0), slope), width=0.0, length=0.0)
    centre = wp.quat_rotate(slope, wp.vec3(0.0, 0.0, half_extent))
    body = builder.add_body(xform=wp.transform(centre, slope), label="box")
    builder.add_shape_box(body, hx=half_extent, hy=half_extent, hz=half_extent)
    moves = "slides down" if math.tan(math.radians(angle)) > mu else "sticks"
    return Scene("box_on_incline", builder.finalize(device=device), 1.0 / 240.0, 4, f"The box {moves}.")


def box_stack(*, count: int = 10, half_extent: float = 0.1, device: str | None = None) -> Scene:
    """A tower of ``count`` equal cubes standing on the ground."""
    _require_count("count", count)
    builder = _builder(ke=1.0e5, kd=1.0e3)
    for i in range(count):
        body = builder.add_body(xform=wp.transform((0.0, 0.0, (2 * i + 1) * half_extent)), label=f"box_{i}")
        builder.add_shape_box(body, hx=half_extent, hy=half_extent, hz=half_extent)
    builder.add_ground_plane()
    return Scene("box_stack", builder.finalize(device=device), 1.0 / 240.0, 4, "The tower stays up.")


def pendulum_cart(*, angle: float = 30.0, world_count: int = 1, device: str | None = None) -> Scene:
    """A frictionless cart on a rail with a pendulum released at ``angle`` degrees from hanging down; no contact."""
    builder = _builder()
    free = newton.ModelBuilder.ShapeConfig(density=500.0, has_shape_collision=False)
    cart = builder.add_link(label="cart")
    builder.add_shape_box(cart, hx=0.15, hy=0.1, hz=0.05, cfg=free)
    pole = builder.add_link(label="pole")
    builder.add_shape_capsule(pole, xform=wp.transform((0.0, 0.0, -0.25)), radius=0.02, half_height=0.25, cfg=free)
    rail = builder.add_joint_prismatic(-1, cart, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, 1.0)))
    hinge = builder.add_joint_revolute(cart, pole, axis=newton.Axis.Y)
    builder.add_articulation([rail, hinge], label="pendulum_cart")
    builder.joint_q[-1] = math.radians(angle)
    model = _replicated(builder, world_count, ground=False).finalize(device=device)
    return Scene("pendulum_cart", model, 1.0 / 240.0, 4, "Cart and pole swing; their centre of mass keeps its x.")


def loaded_chain(
    *, links: int = 10, load: float = 1.0, angle: float = 80.0, world_count: int = 1, device: str | None = None
) -> Scene:
    """Links of 5 cm and 10 g on hinges with a ball of ``load`` [kg] in the end, let go straight at ``angle`` degrees from hanging down; no contact."""
    _require_count("links", links)
    length, radius, ball = 0.05, 0.004, 0.04
    rod = 0.5 * length - radius
    builder = _builder()
    link_cfg = _ghost(builder, 0.01 / (math.pi * radius**2 * (2.0 * rod + 4.0 / 3.0 * radius)))
    load_cfg = _ghost(builder, load / (4.0 / 3.0 * math.pi * ball**3))
    joints, parent = [], -1
    for i in range(links + 1):
        child = builder.add_link(label="load" if i == links else f"link_{i}")
        if i < links:
            middle = wp.transform((0.0, 0.0, -0.5 * length))
            builder.add_shape_capsule(child, xform=middle, radius=radius, half_height=rod, cfg=link_cfg)
        else:
            builder.add_shape_sphere(child, xform=wp.transform((0.0, 0.0, -ball)), radius=ball, cfg=load_cfg)
        top = wp.transform((0.0, 0.0, 1.0 if i == 0 else -length))
        joints.append(builder.add_joint_revolute(parent, child, axis=newton.Axis.Y, parent_xform=top))
        parent = child
    builder.add_articulation(joints, label="loaded_chain")
    builder.joint_q[0] = math.radians(angle)
    model = _replicated(builder, world_count, ground=False).finalize(device=device)
    return Scene(
        "loaded_chain", model, 1.0 / 240.0, 4, "The load swings on as high as it was let go, its links in line."
    )


def free_body(*, device: str | None = None) -> Scene:
    """A tumbling block of 6 kg in zero gravity whose COM lies 0.27 m off its body's origin; no contact."""
    builder = _builder()
    builder.gravity = (0.0, 0.0, 0.0)
    ghost = _ghost(builder, 1000.0)
    body = builder.add_body(label="block")
    builder.add_shape_box(body, xform=wp.transform((0.2, -0.1, 0.15)), hx=0.15, hy=0.1, hz=0.05, cfg=ghost)
    builder.joint_qd[:6] = [0.5, 0.2, -0.1, 1.0, 6.0, 2.0]  # of the COM [m/s], then about it [rad/s]
    model = builder.finalize(device=device)
    return Scene("free_body", model, 1.0 / 240.0, 4, "The COM flies straight while the block tumbles about it.")


def quadruped(*, drop: float = 0.0, world_count: int = 1, device: str | None = None) -> Scene:
    """A four-legged robot of 12 driven joints, held in a crouch by its drives, ``drop`` [m] above standing on its feet."""
    builder = _builder(mu=0.8)
    builder.default_joint_cfg.armature = 0.01
    trunk_at = wp.transform((0.0, 0.0, stand_height() + drop))
    trunk = builder.add_link(xform=trunk_at, label="trunk")
    builder.add_shape_box(trunk, hx=0.25, hy=0.08, hz=0.05, cfg=_density(builder, 1000.0))
    joints = [builder.add_joint_free(trunk, label="root")]
    for front in (1.0, -1.0):
        for left in (1.0, -1.0):
            joints += _leg(builder, trunk, front, left)
    builder.add_articulation(joints, label="quadruped")
    builder.joint_q[:7] = [*trunk_at]
    builder.joint_q[7:] = LEG_POSE * 4
    model = _replicated(builder, world_count, ground=True).finalize(device=device)
    return Scene("quadruped", model, 1.0 / 240.0, 4, "The robot settles by a few millimetres and stands.")


def gripper_cube(*, mu: float = 0.8, device: str | None = None) -> Scene:
    """Two prismatic fingers close on a cube of 0.1 kg within 0.3 s and lift it by 0.2 m until 1.6 s."""
    builder = _builder(mu=mu, ke=2.0e4, kd=2.0e2)
    builder.rigid_gap = 0.005
    hand = builder.add_link(xform=wp.transform((0.0, 0.0, 0.2)), label="hand")
    builder.add_shape_box(hand, hx=0.1, hy=0.03, hz=0.02, cfg=_density(builder, 1000.0))
    lift = builder.add_joint_prismatic(
        -1, hand, axis=newton.Axis.Z, parent_xform=wp.transform((0.0, 0.0, 0.2)), label="lift", **_drive(5.0e3, 2.0e2)
    )
    joints = [lift]
    for side in (1.0, -1.0):
        finger = builder.add_link(xform=wp.transform((0.05 * side, 0.0, 0.055)), label=f"finger_{side:+.0f}")
        builder.add_shape_box(finger, hx=0.01, hy=0.02, hz=0.04, cfg=_density(builder, 1000.0))
        placed = wp.transform((0.05 * side, 0.0, -0.145))
        axis = wp.vec3(-side, 0.0, 0.0)
        joints.append(builder.add_joint_prismatic(hand, finger, axis=axis, parent_xform=placed, **_drive(1.0e3, 2.0e1)))
    builder.add_articulation(joints, label="gripper")
    cube = builder.add_body(xform=wp.transform((0.0, 0.0, 0.025)), label="cube")
    builder.add_shape_box(cube, hx=0.025, hy=0.025, hz=0.025, cfg=_density(builder, 800.0))
    builder.add_ground_plane()
    model = builder.finalize(device=device)
    description = "The fingers hold the cube by friction alone, 0.2 m above the ground."
    return Scene("gripper_cube", model, 1.0 / 240.0, 4, description, gripper_targets)


def gripper_targets(control: newton.Control, time: float) -> None:
    """Set the drives of :func:`gripper_cube` for a time [s]: close for 0.3 s, wait, lift from 0.6 s to 1.6 s."""
    close = 0.03 * min(time / 0.3, 1.0)  # 15 mm into the cube's face, that is 15 N per finger
    raised = 0.2 * min(max(time - 0.6, 0.0), 1.0)
    targets = control.joint_target_q.numpy()
    targets[:3] = (raised, close, close)
    control.joint_target_q.assign(targets)


SCENES: dict[str, Callable[..., Scene]] = {
    "box_on_incline": box_on_incline,
    "box_stack": box_stack,
    "free_body": free_body,
    "gripper_cube": gripper_cube,
    "loaded_chain": loaded_chain,
    "pendulum_cart": pendulum_cart,
    "quadruped": quadruped,
    "sphere": sphere,
}
"""Every scene by its name."""

LEG_POSE = [0.0, 0.7, -1.4]
"""Hip, thigh and knee angles [rad] of the crouch; the foot is then straight below the thigh joint."""

_THIGH = _SHANK = 0.22
_FOOT_RADIUS = 0.02


def stand_height() -> float:
    """Return the height [m] of the quadruped's trunk with the feet just touching the ground."""
    _, thigh, knee = LEG_POSE
    return _THIGH * math.cos(thigh) + _SHANK * math.cos(thigh + knee) + _FOOT_RADIUS


def _leg(builder: newton.ModelBuilder, trunk: int, front: float, left: float) -> list[int]:
    """Add hip, thigh and shank with a spherical foot and return their joints."""
    bones = _ghost(builder, 1000.0)
    name = ("f" if front > 0 else "h") + ("l" if left > 0 else "r")
    hip, thigh, shank = (builder.add_link(label=f"{name}_{part}") for part in ("hip", "thigh", "shank"))
    builder.add_shape_capsule(hip, radius=0.04, half_height=0.02, cfg=bones)
    for link, length in ((thigh, _THIGH), (shank, _SHANK)):
        middle = wp.transform((0.0, 0.0, -0.5 * length))
        builder.add_shape_capsule(link, xform=middle, radius=0.015, half_height=0.5 * length - 0.015, cfg=bones)
    builder.add_shape_sphere(shank, xform=wp.transform((0.0, 0.0, -_SHANK)), radius=_FOOT_RADIUS, label=f"{name}_foot")
    angles = dict(zip((hip, thigh, shank), LEG_POSE, strict=True))
    places = {
        hip: (trunk, newton.Axis.X, (0.2 * front, 0.1 * left, 0.0)),
        thigh: (hip, newton.Axis.Y, (0.0, 0.06 * left, 0.0)),
        shank: (thigh, newton.Axis.Y, (0.0, 0.0, -_THIGH)),
    }
    return [
        builder.add_joint_revolute(
            parent, link, axis=axis, parent_xform=wp.transform(at), target_q=angles[link], **_drive(300.0, 8.0)
        )
        for link, (parent, axis, at) in places.items()
    ]


def _drive(ke: float, kd: float) -> dict:
    return {"target_ke": ke, "target_kd": kd, "actuator_mode": newton.JointTargetMode.POSITION}


def _builder(*, mu: float = 0.5, ke: float = 5.0e4, kd: float = 5.0e2) -> newton.ModelBuilder:
    """Return a builder whose shapes are stiff [N/m] and detected 1 cm ahead of touching; ``kd`` is for other solvers."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.01
    shape = builder.default_shape_cfg
    shape.ke, shape.kd, shape.mu = ke, kd, mu
    return builder


def _density(builder: newton.ModelBuilder, density: float) -> newton.ModelBuilder.ShapeConfig:
    config = builder.default_shape_cfg.copy()
    config.density = density
    return config


def _ghost(builder: newton.ModelBuilder, density: float) -> newton.ModelBuilder.ShapeConfig:
    config = _density(builder, density)
    config.has_shape_collision = False
    return config


def _replicated(builder: newton.ModelBuilder, world_count: int, *, ground: bool) -> newton.ModelBuilder:
    _require_count("world_count", world_count)
    scene = newton.ModelBuilder()
    scene.rigid_gap = builder.rigid_gap
    scene.replicate(builder, world_count)
    if ground:
        scene.add_ground_plane(cfg=builder.default_shape_cfg)
    return scene


def _require_count(name: str, count) -> None:
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"{name} must be an integer >= 1, not {count!r}")
