"""Seeded random Newton models, states, controls and contacts, for tests that compare two implementations.

Everything is built through Newton's public API on the current Warp device; equal seeds give equal results.
"""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

JOINT_KINDS = ("prismatic", "revolute", "ball", "fixed", "free", "distance", "d6")
ROOT_KINDS = JOINT_KINDS
STATE_ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")
CONTROL_ARRAYS = ("joint_f", "joint_target_q", "joint_target_qd")
INNER_KINDS = ("prismatic", "revolute", "ball", "fixed", "d6")


def random_rotation(rng) -> np.ndarray:
    """Return a uniformly random unit quaternion, xyzw, shape (4,)."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def random_transform(rng, reach=0.3) -> wp.transform:
    """Return a random transform whose translation stays within ``reach`` [m] per axis."""
    return wp.transform(wp.vec3(*rng.uniform(-reach, reach, 3)), wp.quat(*random_rotation(rng)))


def random_tree_builder(
    seed,
    joint_count=6,
    worlds=1,
    *,
    tree_count=1,
    max_depth=8,
    root_kinds=ROOT_KINDS,
    inner_kinds=INNER_KINDS,
    descendant_free=False,
    kinematic_root=False,
    armature=True,
    damping=True,
    springs=True,
    limits=True,
    drives=True,
    friction=False,
    velocity_limits=False,
    global_tree=False,
    materials=True,
):
    """Return a builder of random trees, one sphere per body and a static ground plane for contacts.

    Args:
        seed: Seed of the generator.
        joint_count: Joints of each tree, or their range as (least, most).
        worlds: 1 leaves everything in the global world -1, as a plain user model does; more builds that many
            worlds with different trees and different gravity.
        tree_count: Trees per world.
        max_depth: Longest chain of joints.
        root_kinds: Joint kinds (:data:`JOINT_KINDS`) that roots are drawn from.
        inner_kinds: Joint kinds that all other joints are drawn from.
        descendant_free: Let FREE and DISTANCE joints appear below other bodies.
        kinematic_root: Make the root body of the first tree of each world kinematic.
        armature: Give every dof a reflected inertia [kg or kg m^2].
        damping: Give every dof but those of FREE and DISTANCE joints viscous damping.
        springs: Give every dof but those of FREE and DISTANCE joints a passive spring.
        limits: Bound about half of the scalar axes.
        drives: Draw a target mode and gains for every dof but those of FREE and DISTANCE joints.
        friction: Give about half of the dofs but those of FREE and DISTANCE joints dry friction.
        velocity_limits: Bound the speed of about half of the same dofs.
        global_tree: With several worlds, also build one tree in world -1.
        materials: Draw stiffness, damping and friction per shape; False keeps Newton's defaults.
    """
    rng = np.random.default_rng(seed)
    builder = newton.ModelBuilder(gravity=(0.5, -0.7, -9.81))
    builder.rigid_gap = 0.0
    features = dict(armature=armature, damping=damping, springs=springs, limits=limits, drives=drives)
    if descendant_free:
        inner_kinds = (*inner_kinds, "free", "distance")

    def add_trees(count):
        for tree in range(count):
            kinematic = kinematic_root and tree == 0
            joints = (
                joint_count if isinstance(joint_count, int) else int(rng.integers(joint_count[0], joint_count[1] + 1))
            )
            _add_tree(builder, rng, joints, max_depth, root_kinds, inner_kinds, kinematic, features, materials)

    if worlds == 1:
        add_trees(tree_count)
    else:
        for _ in range(worlds):
            builder.begin_world(gravity=tuple(rng.uniform(-10.0, 10.0, 3)))
            add_trees(tree_count)
            builder.end_world()
        if global_tree:
            add_trees(1)
    builder.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), width=0.0, length=0.0, cfg=_material(rng, materials))
    _add_dof_bounds(builder, np.random.default_rng([seed, 1]), friction, velocity_limits)
    return builder


def random_tree_model(seed, *args, **kwargs):
    """Return the finalized model of :func:`random_tree_builder`."""
    return random_tree_builder(seed, *args, **kwargs).finalize()


def random_state(model, seed, speed=1.0, forces=True):
    """Return a state with random joint coordinates and velocities, consistent bodies and, if asked, body forces.

    Args:
        model: Model to make the state for.
        seed: Seed of the generator.
        speed: Standard deviation of the joint velocities [m/s or rad/s].
        forces: Fill ``body_f`` with random wrenches [N, N m].
    """
    rng = np.random.default_rng(seed)
    state = model.state()
    if model.joint_count == 0:
        return state
    state.joint_q.assign(_random_coordinates(model, rng, 0.8).astype(np.float32))
    state.joint_qd.assign((speed * rng.normal(size=model.joint_dof_count)).astype(np.float32))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    if forces:
        state.body_f.assign(rng.normal(size=(model.body_count, 6)).astype(np.float32))
    return state


def random_control(model, seed):
    """Return a control with random joint forces and drive targets."""
    rng = np.random.default_rng(seed)
    control = model.control()
    if model.joint_count:
        control.joint_f.assign(rng.normal(size=model.joint_dof_count).astype(np.float32))
        control.joint_target_q.assign(_random_coordinates(model, rng, 0.8).astype(np.float32))
        control.joint_target_qd.assign(rng.normal(size=model.joint_dof_count).astype(np.float32))
    return control


def random_contacts(
    model,
    state,
    seed,
    count=6,
    *,
    depth=0.01,
    height=0.01,
    capacity=None,
    overrides=False,
    surface_velocity=False,
    welded=True,
):
    """Return :class:`newton.Contacts` with random contact rows between the bodies of each world and the ground.

    Args:
        model: Model from :func:`random_tree_model` (the static ground shape belongs to world -1).
        state: State whose body poses the contacts are consistent with.
        seed: Seed of the generator.
        count: Number of contacts.
        depth: Deepest penetration [m].
        height: Largest gap [m].
        capacity: Rows of the buffer; None is ``count`` plus two spare ones.
        overrides: Allocate the per-contact stiffness, damping and friction arrays and fill half of their entries.
        surface_velocity: Allocate and fill the per-contact surface velocity.
        welded: Allow contacts between bodies that fixed joints make one.
    """
    rng = np.random.default_rng(seed)
    contacts = newton.Contacts(
        count + 2 if capacity is None else capacity,
        0,
        per_contact_shape_properties=overrides,
        rigid_contact_surface_velocity=surface_velocity,
    )
    write_contacts(contacts, random_contact_rows(model, state, rng, count, depth, height, welded))
    if overrides:
        for name, low, high in (("stiffness", 1e3, 1e5), ("damping", 1.0, 100.0), ("friction", 0.2, 2.0)):
            values = rng.uniform(low, high, contacts.rigid_contact_max) * rng.integers(0, 2, contacts.rigid_contact_max)
            getattr(contacts, f"rigid_contact_{name}").assign(values.astype(np.float32))
    if surface_velocity:
        contacts.rigid_contact_surface_velocity.assign(
            rng.normal(size=(contacts.rigid_contact_max, 3)).astype(np.float32)
        )
    return contacts


def random_contact_rows(model, state, rng, count, depth=0.01, height=0.01, welded=True):
    """Return ``count`` rows of :func:`contact_row`; arguments as in :func:`random_contacts`."""
    anchor = _anchors(model)
    shape_body, shape_world = model.shape_body.numpy(), model.shape_world.numpy()
    body_q, body_com = state.body_q.numpy().astype(float), model.body_com.numpy().astype(float)
    rows = []
    for _ in range(200 * count):  # models without a pair to choose end up with fewer contacts
        if len(rows) == count:
            break
        a, b = rng.integers(model.shape_count, size=2)
        body_a, body_b = int(shape_body[a]), int(shape_body[b])
        if body_a == body_b or (min(shape_world[a], shape_world[b]) >= 0 and shape_world[a] != shape_world[b]):
            continue
        if not welded and anchor[body_a] == anchor[body_b]:
            continue
        moving = body_b if body_b >= 0 else body_a
        point = transform_point(body_q[moving], body_com[moving] + rng.uniform(-0.2, 0.2, 3))
        n = rng.normal(size=3)
        n /= np.linalg.norm(n)
        phi = rng.uniform(-depth, height)
        margins = rng.uniform(0.0, 0.1, 2)
        rows.append(contact_row((a, b), (body_a, body_b), body_q, point, n, phi, margins))
    return rows


def _anchors(model):
    """Map each body to the body that fixed joints weld it to, -1 for the world."""
    anchor = {-1: -1}
    parent, kind = model.joint_parent.numpy(), model.joint_type.numpy()
    owner = {int(child): j for j, child in enumerate(model.joint_child.numpy())}
    for body in range(model.body_count):
        here = body
        while here in owner and kind[owner[here]] == newton.JointType.FIXED:
            here = int(parent[owner[here]])
        anchor[body] = here
    return anchor


def transform_point(transform, point):
    """Map a point [m] by a seven-number transform (position, quaternion xyzw)."""
    return transform[:3] + _rotate(transform[3:], point)


def contact_row(shapes, bodies, body_q, point, n, phi, margins=(0.0, 0.0)):
    """Return one contact as a dict of array entries, ready for :func:`write_contacts`.

    Args:
        shapes: The two shapes.
        bodies: Their bodies, -1 for static ones.
        body_q: Body poses, shape (bodies, 7).
        point: Midpoint of the two surface points, world frame [m].
        n: Unit normal from shape 0 to shape 1, world frame.
        phi: Signed distance of the two surface points [m].
        margins: The two effective radii [m].
    """
    n, point = np.asarray(n, float), np.asarray(point, float)
    row = {"shape0": shapes[0], "shape1": shapes[1], "normal": n}
    for side, sign in ((0, 1.0), (1, -1.0)):
        offset = sign * margins[side] * n
        support = point - 0.5 * sign * phi * n - offset
        if bodies[side] >= 0:
            pose = body_q[bodies[side]]
            inverse = np.array([*-pose[3:6], pose[6]])
            support, offset = _rotate(inverse, support - pose[:3]), _rotate(inverse, offset)
        row.update({f"point{side}": support, f"offset{side}": offset, f"margin{side}": margins[side]})
    return row


def write_contacts(contacts, rows):
    """Write contact rows into the arrays of :class:`newton.Contacts` and set the count."""
    for name in rows[0] if rows else ():
        array = getattr(contacts, f"rigid_contact_{name}")
        values = array.numpy()
        values[: len(rows)] = np.array([row[name] for row in rows])
        array.assign(values)
    contacts.rigid_contact_count.fill_(len(rows))


class Assembly:
    """Worlds made of random sub-models in a chosen order, with states, controls and contacts put together alike.

    Args:
        seeds: One per world; a seed gives the same world wherever it stands.
        **kwargs: Passed to :func:`random_tree_builder`.
    """

    def __init__(self, seeds, **kwargs):
        builder, offsets = newton.ModelBuilder(), []
        parts = [random_tree_builder(seed, (1, 5), tree_count=2, **kwargs) for seed in seeds]
        for part in parts:
            offsets.append((builder.shape_count, builder.joint_dof_count, builder.body_count))
            builder.add_world(part)
        self.model = builder.finalize()
        gravity = self.model.gravity.numpy()
        gravity[: len(seeds)] = [np.random.default_rng(seed).normal(size=3) * 5.0 for seed in seeds]
        self.model.gravity.assign(gravity)
        self.dofs = {s: slice(o[1], o[1] + p.joint_dof_count) for s, o, p in zip(seeds, offsets, parts, strict=True)}
        self.bodies = {s: slice(o[2], o[2] + p.body_count) for s, o, p in zip(seeds, offsets, parts, strict=True)}
        alone = [self._alone(seed, part) for seed, part in zip(seeds, parts, strict=True)]
        self.state, self.control = self.model.state(), self.model.control()
        for owner, index, names in ((self.state, 0, STATE_ARRAYS), (self.control, 1, CONTROL_ARRAYS)):
            for name in names:
                getattr(owner, name).assign(np.concatenate([getattr(a[index], name).numpy() for a in alone]))
        rows = [
            {**row, "shape0": row["shape0"] + o[0], "shape1": row["shape1"] + o[0]}
            for o, (*_, rows) in zip(offsets, alone, strict=True)
            for row in rows
        ]
        self.contacts = newton.Contacts(len(rows) + 1, 0)
        write_contacts(self.contacts, rows)

    @staticmethod
    def _alone(seed, part):
        model = part.finalize()
        state = random_state(model, seed)
        rows = random_contact_rows(model, state, np.random.default_rng(seed), 5, welded=False)
        return state, random_control(model, seed), rows

    def split(self, v, state):
        """Return per seed the dof velocities, body poses and body velocities of its world."""
        body_q, body_qd = state.body_q.numpy(), state.body_qd.numpy()
        return {s: [v[self.dofs[s]], body_q[self.bodies[s]], body_qd[self.bodies[s]]] for s in self.dofs}


def _rotate(q, point):
    t = 2.0 * np.cross(q[:3], point)
    return point + q[3] * t + np.cross(q[:3], t)


def _material(rng, random):
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, margin=0.0, gap=0.0)
    if random:
        cfg.ke, cfg.kd, cfg.mu = (
            float(10.0 ** rng.uniform(3, 6)),
            float(rng.uniform(0, 200)),
            float(rng.uniform(0, 1.2)),
        )
    return cfg


def _random_coordinates(model, rng, reach):
    """Random joint coordinates: quaternions anywhere, scalar ones within ``reach``, clear of gimbal lock."""
    q = rng.uniform(-reach, reach, model.joint_coord_count)
    starts = model.joint_q_start.numpy()
    for j, kind in enumerate(model.joint_type.numpy()):
        if kind in (newton.JointType.BALL, newton.JointType.FREE, newton.JointType.DISTANCE):
            q[starts[j + 1] - 4 : starts[j + 1]] = random_rotation(rng)
    return q


def _add_tree(builder, rng, joint_count, max_depth, root_kinds, inner_kinds, kinematic_root, features, materials):
    bodies, depths, joints = [], [], []
    for i in range(joint_count):
        open_bodies = [b for b, depth in zip(bodies, depths, strict=True) if depth < max_depth]
        # Mostly chains with some branches: the newest body is the likeliest parent.
        slot = -1 if not bodies else bodies.index(open_bodies[-1] if rng.random() < 0.6 else rng.choice(open_bodies))
        parent = -1 if slot < 0 else bodies[slot]
        scale = rng.uniform(0.02, 0.2, 3)
        mass = float(rng.uniform(0.5, 3.0))
        axes = _matrix(random_rotation(rng))
        # Inertia of a mass cloud with spreads `scale` along random axes: always physical.
        inertia = mass * axes @ np.diag(np.sum(scale**2) - scale**2) @ axes.T
        body = builder.add_link(
            mass=mass,
            com=wp.vec3(*rng.uniform(-0.1, 0.1, 3)),
            inertia=wp.mat33(*inertia.flatten()),
            lock_inertia=True,
            is_kinematic=bool(kinematic_root and i == 0),
        )
        builder.add_shape_sphere(body, radius=0.05, cfg=_material(rng, materials))
        kind = str(rng.choice(root_kinds if parent < 0 else inner_kinds))
        joints.append(_add_joint(builder, rng, kind, parent, body, features))
        bodies.append(body)
        depths.append(1 if slot < 0 else depths[slot] + 1)
    builder.add_articulation(joints)


def _add_joint(builder, rng, kind, parent, child, features):
    frames = dict(parent=parent, child=child, parent_xform=random_transform(rng), child_xform=random_transform(rng))
    triple = _matrix(random_rotation(rng)) * rng.choice([-1.0, 1.0])  # left-handed half of the time

    def axis(i):
        bounds = {}
        if features["limits"] and rng.random() < 0.5:
            middle, half = rng.uniform(-0.3, 0.3), rng.uniform(0.2, 0.9)
            bounds = dict(limit_lower=middle - half, limit_upper=middle + half)
            bounds.update(limit_ke=float(10.0 ** rng.uniform(3, 8)), limit_kd=float(rng.uniform(0, 100)))
        return newton.ModelBuilder.JointDofConfig(axis=wp.vec3(*triple[i]), **bounds)

    start = builder.joint_dof_count
    coord = builder.joint_coord_count
    if kind == "d6":
        linear, angular = rng.integers(0, 4, size=2)
        angular = max(angular, 1 - linear)
        joint = builder.add_joint_d6(
            linear_axes=[axis(i) for i in range(linear)], angular_axes=[axis(i) for i in range(angular)], **frames
        )
    elif kind in ("prismatic", "revolute"):
        joint = getattr(builder, f"add_joint_{kind}")(axis=axis(0), **frames)
    elif kind == "distance":
        joint = builder.add_joint_distance(min_distance=-1.0, max_distance=-1.0, **frames)
    else:
        joint = getattr(builder, f"add_joint_{kind}")(**frames)
    free = kind in ("free", "distance")
    for k in range(start, builder.joint_dof_count):
        if features["armature"]:
            builder.joint_armature[k] = float(rng.uniform(0.0, 0.1))
        if free:
            continue
        if features["damping"]:
            builder.joint_damping[k] = float(rng.uniform(0.0, 2.0))
        if features["springs"]:
            builder.joint_stiffness[k] = float(rng.uniform(0.0, 100.0))
        if features["drives"]:
            builder.joint_target_mode[k] = int(rng.integers(5))
            builder.joint_target_ke[k] = float(10.0 ** rng.uniform(0, 5))
            builder.joint_target_kd[k] = float(10.0 ** rng.uniform(-1, 3))
            builder.joint_effort_limit[k] = float(10.0 ** rng.uniform(0, 3))
    if features["springs"] and not free:
        rest = random_rotation(rng) if kind == "ball" else rng.uniform(-0.5, 0.5, builder.joint_coord_count - coord)
        builder.joint_rest_q[coord:] = [float(x) for x in rest]
    return joint


def _matrix(q):
    return np.column_stack([_rotate(q, e) for e in np.eye(3)])


def _add_dof_bounds(builder, rng, friction, velocity_limits):
    """Draw dry friction and velocity limits; a generator of their own leaves all other draws as they are."""
    free = (newton.JointType.FREE, newton.JointType.DISTANCE)
    ends = [*builder.joint_qd_start[1:], builder.joint_dof_count]
    for start, end, kind in zip(builder.joint_qd_start, ends, builder.joint_type, strict=True):
        for k in range(start, end) if kind not in free else ():
            if friction and rng.random() < 0.5:
                builder.joint_friction[k] = float(10.0 ** rng.uniform(-1, 2))
            if velocity_limits and rng.random() < 0.5:
                builder.joint_velocity_limit[k] = float(rng.uniform(0.1, 2.0))
