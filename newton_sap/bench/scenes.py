"""Benchmark scenes: any number of identical worlds with one contact material, and random joint forces where wanted.

Every shape has stiffness 1e4 N/m, relaxation time 0.02 s, friction 0.8 and no margin or gap, so that solvers with very
different contact models meet the same scene. Lengths in metres, masses in kilograms, the vertical axis is z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import newton
import numpy as np
import warp as wp

from ..scenes import Scene

STIFFNESS = 1.0e4
"""Contact stiffness [N/m] of every shape."""
RELAXATION_TIME = 0.02
"""Contact relaxation time ``kd / ke`` [s] of every shape."""
FRICTION = 0.8
RENEWAL = 10
"""Steps for which the random joint forces stay the same."""
TABLE = 64
"""Different force vectors before the sequence repeats."""
PILES = (32, 128, 512, 1024)
"""Spheres in each of the piles."""
FEW_CONTACTS = 16
"""Contacts per world of scenes that say nothing else."""
STEEL_ROWS = 128
"""Constraint rows per articulation that SolverSteel gets where its default of 32 overflows."""


@dataclass(frozen=True)
class BenchScene:
    """Identical worlds, how to step them and what has to be true of them."""

    name: str
    model: newton.Model
    worlds: int
    dt: float
    """Time step [s]."""
    warm_up: int
    """Steps before anything is measured: objects land, robots settle."""
    forces: np.ndarray | None = None
    """(TABLE, dofs) random joint forces [N or N m], the next one every ``RENEWAL`` steps; None leaves joints alone."""
    floor: float = -math.inf
    """Height [m] below which no body's origin may sink; ``-inf`` where there is no ground."""
    rests: bool = True
    """Whether everything should come to rest, so that contact forces carry the weight."""
    conservative: bool = False
    """Whether energy should be conserved."""
    contacts: int = FEW_CONTACTS
    """Contacts per world that there is room for; some solvers pay for capacity rather than contacts."""
    mujoco_rows: int | None = None
    """Constraint rows per world for SolverMuJoCo; None where its own default, which comes from the start state, does."""
    steel_rows: int | None = None
    """Constraint rows per articulation for SolverSteel; None for its default."""

    state, weight = Scene.state, Scene.weight  # they ask the model only


@dataclass(frozen=True)
class Recipe:
    """How one world is built, before it is repeated."""

    build: Callable[[newton.ModelBuilder], None]
    description: str
    dt: float = 0.004
    warm_up: int = 150
    ground: bool = True
    floor: float = 0.0
    amplitude: float = 0.0
    """Largest random joint force; 0 for none."""
    conservative: bool = False
    rests: bool = True
    """Whether everything comes to rest on the ground if no forces move it."""
    by_name: bool = False
    """Whether it runs only where it is asked for, as scenes do that are one large world."""
    contacts: int = FEW_CONTACTS
    mujoco_rows: int | None = None
    steel_rows: int | None = None


def make_scene(name: str, worlds: int = 1, device: str | None = None, gap: float = 0.0) -> BenchScene:
    """Build a scene by name, whose shapes are told to be near each other from a gap [m] of each on.

    Raises:
        KeyError: No scene of that name.
    """
    recipe = SCENES[name]
    world = _builder()
    recipe.build(world)
    _set_materials(world)
    scene = _builder()
    scene.replicate(world, worlds)
    if recipe.ground:
        scene.add_ground_plane()
        _set_materials(scene)
    scene.shape_gap[:] = [gap] * scene.shape_count
    model = scene.finalize(device=device)
    return BenchScene(
        name=name,
        model=model,
        worlds=worlds,
        dt=recipe.dt,
        warm_up=recipe.warm_up,
        forces=_random_forces(model, worlds, recipe.amplitude) if recipe.amplitude else None,
        floor=recipe.floor if recipe.ground else -math.inf,
        rests=recipe.ground and recipe.rests and not recipe.amplitude,
        conservative=recipe.conservative,
        contacts=recipe.contacts,
        mujoco_rows=recipe.mujoco_rows,
        steel_rows=recipe.steel_rows,
    )


def _builder() -> newton.ModelBuilder:
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.0
    shape = builder.default_shape_cfg
    shape.ke, shape.kd, shape.mu = STIFFNESS, STIFFNESS * RELAXATION_TIME, FRICTION
    shape.margin = shape.gap = 0.0
    return builder


def _set_materials(builder: newton.ModelBuilder) -> None:
    """Overwrite what an imported file says about contact."""
    count = builder.shape_count
    builder.shape_material_ke[:] = [STIFFNESS] * count
    builder.shape_material_kd[:] = [STIFFNESS * RELAXATION_TIME] * count
    builder.shape_material_mu[:] = [FRICTION] * count
    builder.shape_margin[:] = [0.0] * count
    builder.shape_gap[:] = [0.0] * count


def _random_forces(model: newton.Model, worlds: int, amplitude: float) -> np.ndarray:
    """Return forces on all dofs but those of free joints, seeded per world: a world is the same in every batch."""
    dofs = model.joint_dof_count // worlds
    starts = model.joint_qd_start.numpy()
    free = np.zeros(model.joint_dof_count, dtype=bool)
    for joint, kind in enumerate(model.joint_type.numpy()):
        if kind == newton.JointType.FREE:
            free[starts[joint] : starts[joint + 1]] = True
    table = [np.random.default_rng([7, w]).uniform(-amplitude, amplitude, (TABLE, dofs)) for w in range(worlds)]
    forces = np.concatenate(table, axis=1).astype(np.float32)
    forces[:, free] = 0.0
    return forces


def _cartpole(builder: newton.ModelBuilder) -> None:
    """A frictionless cart that carries a double pendulum."""
    ghost = builder.default_shape_cfg.copy()
    ghost.has_shape_collision = False
    ghost.density = 500.0
    cart = builder.add_link(label="cart")
    builder.add_shape_box(cart, hx=0.15, hy=0.1, hz=0.05, cfg=ghost)
    joints = [builder.add_joint_prismatic(-1, cart, axis=newton.Axis.X, label="rail")]
    parent, at = cart, wp.transform()
    for i, angle in enumerate((0.6, 0.4)):
        pole = builder.add_link(label=f"pole_{i}")
        builder.add_shape_capsule(pole, xform=wp.transform((0.0, 0.0, -0.25)), radius=0.02, half_height=0.25, cfg=ghost)
        joints.append(builder.add_joint_revolute(parent, pole, axis=newton.Axis.Y, parent_xform=at, label=f"hinge_{i}"))
        builder.joint_q[-1] = angle
        parent, at = pole, wp.transform((0.0, 0.0, -0.5))
    builder.add_articulation(joints, label="cartpole")


def _sphere(builder: newton.ModelBuilder) -> None:
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.105)), label="sphere")
    builder.add_shape_sphere(body, radius=0.1)


def _box(builder: newton.ModelBuilder) -> None:
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.105)), label="box")
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def _boxes10(builder: newton.ModelBuilder) -> None:
    """A tower of boxes light enough to come to rest on their compliant contacts within the warm-up."""
    light = builder.default_shape_cfg.copy()
    light.density = 100.0
    for i in range(10):
        body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.1 + 0.2 * i)), label=f"box_{i}")
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, cfg=light)


def _add_bin(builder: newton.ModelBuilder, half: float, height: float, wall: float) -> None:
    """Four walls around a square; ``half`` its half width, ``height`` and ``wall`` half the height and thickness of each."""
    for axis in (0, 1):
        for sign in (-1.0, 1.0):
            at = [0.0, 0.0, height]
            at[axis] = sign * (half + wall)
            size = [half + 2 * wall, half + 2 * wall, height]
            size[axis] = wall
            builder.add_shape_box(-1, xform=wp.transform(at), hx=size[0], hy=size[1], hz=size[2])


def _spheres32(builder: newton.ModelBuilder) -> None:
    """Two layers of spheres in a bin, a little disordered so that the pile has to find its rest."""
    _add_bin(builder, half=0.24, height=0.15, wall=0.02)
    jitter = np.random.default_rng(3).uniform(-0.004, 0.004, (32, 2))
    for i in range(32):
        x, y = 0.115 * (i % 4 - 1.5), 0.115 * (i // 4 % 4 - 1.5)
        at = (x + jitter[i, 0], y + jitter[i, 1], 0.055 + 0.105 * (i // 16))
        body = builder.add_body(xform=wp.transform(at), label=f"sphere_{i}")
        builder.add_shape_sphere(body, radius=0.05)


def _pile(count: int) -> Callable[[newton.ModelBuilder], None]:
    """Return what builds so many spheres in layers above each other, a little disordered, in a bin half as wide as high."""

    def build(builder: newton.ModelBuilder) -> None:
        radius, gap = 0.1, 0.022
        light = builder.default_shape_cfg.copy()
        light.density = 100.0
        across = max(2, round((count / 2) ** (1 / 3)))
        layers = -(-count // across**2)
        _add_bin(builder, half=0.11 * across + 0.05, height=0.12 * layers, wall=0.1)
        shift = np.random.default_rng(0).uniform(-0.4 * gap, 0.4 * gap, (count, 3))
        for i in range(count):
            layer, place = divmod(i, across**2)
            y, x = divmod(place, across)
            middle = 0.5 * (across - 1)
            at = np.array([0.22 * (x - middle), 0.22 * (y - middle), radius + gap + 0.23 * layer]) + shift[i]
            body = builder.add_body(xform=wp.transform(at), label=f"sphere_{i}")
            builder.add_shape_sphere(body, radius=radius, cfg=light)

    return build


def _gripper(builder: newton.ModelBuilder) -> None:
    """Two fingers of four balls each that hold a box in the air by friction alone."""
    joints = []
    for side in (1.0, -1.0):
        at = wp.transform((0.1 * side, 0.0, 0.5))
        finger = builder.add_link(xform=at, label=f"finger_{side:+.0f}")
        for y in (-0.03, 0.03):
            for z in (-0.03, 0.03):
                builder.add_shape_sphere(finger, xform=wp.transform((-0.03 * side, y, z)), radius=0.02)
        joint = builder.add_joint_prismatic(
            -1,
            finger,
            axis=wp.vec3(-side, 0.0, 0.0),
            parent_xform=at,
            target_q=0.02,
            target_ke=1.0e3,
            target_kd=40.0,
            actuator_mode=newton.JointTargetMode.POSITION,
        )
        joints.append(joint)
        builder.add_articulation([joint], label=f"finger_{side:+.0f}")
    box = builder.add_body(xform=wp.transform((0.0, 0.0, 0.5)), label="box")
    density = builder.default_shape_cfg.copy()
    density.density = 400.0
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.05, cfg=density)


def _ant(builder: newton.ModelBuilder) -> None:
    """Newton's ant with its ankles bent inside their range, just above the ground."""
    import newton.examples

    at = wp.transform((0.0, 0.0, 0.57))
    source = newton.examples.get_asset("nv_ant.xml")
    builder.add_mjcf(source, ignore_names=["floor", "ground"], xform=at, override_root_xform=True)
    builder.joint_q[:7] = [*at]
    builder.joint_q[7:] = [0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0]


def _humanoid(builder: newton.ModelBuilder) -> None:
    """Newton's humanoid on its back."""
    import newton.examples

    at = wp.transform((0.0, 0.0, 0.15), wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -0.5 * math.pi))
    source = newton.examples.get_asset("nv_humanoid.xml")
    builder.add_mjcf(source, ignore_names=["floor", "ground"], xform=at, override_root_xform=True, parse_sites=False)
    builder.joint_q[:7] = [*at]


def _quadruped(builder: newton.ModelBuilder) -> None:
    """Newton's quadruped, as its own example drives it."""
    import newton.examples

    builder.default_joint_cfg.armature = 0.01
    builder.default_joint_cfg.target_ke = 2000.0
    builder.default_joint_cfg.target_kd = 1.0
    at = wp.transform((0.0, 0.0, 0.62))
    builder.add_urdf(
        newton.examples.get_asset("quadruped.urdf"),
        xform=at,
        floating=True,
        enable_self_collisions=False,
        ignore_inertial_definitions=True,
        joint_damping_mode="drive",
    )
    for body in range(builder.body_count):
        inertia = np.asarray(builder.body_inertia[body], dtype=np.float32).reshape(3, 3)
        builder.body_inertia[body] = wp.mat33(inertia + 0.01 * np.eye(3, dtype=np.float32))
    builder.joint_q[:7] = [*at]
    builder.joint_q[-12:] = [0.2, 0.4, -0.6, -0.2, -0.4, 0.6, -0.2, 0.4, -0.6, 0.2, -0.4, 0.6]
    builder.joint_target_q[-12:] = builder.joint_q[-12:]


_HUMANOID = {"contacts": 48, "mujoco_rows": 200, "steel_rows": STEEL_ROWS}
_QUADRUPED = {"contacts": 40, "mujoco_rows": 160, "steel_rows": STEEL_ROWS}

SCENES: dict[str, Recipe] = {
    "cartpole": Recipe(
        _cartpole, "a cart with a double pendulum, no contact", dt=0.002, ground=False, conservative=True
    ),
    "sphere": Recipe(_sphere, "a sphere on the ground"),
    "box": Recipe(_box, "a box on the ground"),
    "boxes10": Recipe(_boxes10, "a tower of ten boxes", warm_up=250, contacts=80, mujoco_rows=320),
    "spheres32": Recipe(_spheres32, "32 spheres in a bin", warm_up=300, contacts=256, mujoco_rows=640),
    "gripper": Recipe(_gripper, "two fingers that hold a box by friction", floor=0.4, contacts=24, mujoco_rows=120),
    "ant": Recipe(_ant, "an ant that stands with slack joints", contacts=24, mujoco_rows=80),
    "ant_active": Recipe(_ant, "an ant with random joint forces", amplitude=1.5, contacts=24, mujoco_rows=80),
    "humanoid": Recipe(_humanoid, "a humanoid on its back", **_HUMANOID),
    "humanoid_active": Recipe(_humanoid, "a humanoid with random joint forces", amplitude=40.0, **_HUMANOID),
    "quadruped": Recipe(_quadruped, "a quadruped that its drives keep standing", **_QUADRUPED),
    "quadruped_active": Recipe(
        _quadruped, "a quadruped with random joint forces against its drives", amplitude=15.0, **_QUADRUPED
    ),
    **{
        f"pile{count}": Recipe(
            _pile(count),
            f"{count} spheres that collapse in a bin",
            warm_up=100,
            rests=False,
            by_name=True,
            contacts=8 * count,
            mujoco_rows=24 * count,
        )
        for count in PILES
    },
}
"""Every benchmark scene by its name."""
