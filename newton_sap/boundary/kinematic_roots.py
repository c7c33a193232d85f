"""Kinematic bodies as their owner moves them: by joint coordinates, by poses alone, with a velocity or without one.

Newton's solvers of maximal coordinates read ``body_q`` and ``body_qd`` of a kinematic body, this one ``joint_q`` and
``joint_qd`` of its joint. A free joint takes over what was written to its body alone. Velocities may be measured.
"""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass

import numpy as np
import warp as wp

from ..multibody.joints import BALL, is_free, read_quaternion
from ..multibody.kinematics import KINEMATIC, child_anchor_inverse
from ..multibody.orders import Orders, read3, write_free_velocity
from ..multibody.spatial import rotation_vector, to_quatd, to_vec3d
from ..workspace import Bodies, ChosenWorlds, Joints, StateArrays, allocate

wp.set_module_options({"enable_backward": False})

SAME = wp.constant(wp.float64(3.0e-7))
"""Poses and velocities that differ by less, against 1 m and their own size, differ by rounding."""

STATES = 8
"""How many of the caller's states are told from each other, besides those of graphs: those of four simulations that one solver steps
by turns."""
SPARE = 2
"""States that a graph may be the first to meet: nothing can be cleared while one is recorded."""


@wp.struct
class Roots:
    """The bodies that their owner may move."""

    body: wp.array[wp.int32]  # (R,)
    joint: wp.array[wp.int32]  # (R,) that ties it to the world; -1 where none does
    world: wp.array[wp.int32]  # (R,)


@wp.struct
class Seen:
    """Their coordinates in one of the caller's states, as the last step from or to it left them: no numbers before the first."""

    q: wp.array[wp.float32]  # (Q,)
    qd: wp.array[wp.float32]  # (V,)
    pose: wp.array[wp.transform]  # (bodies,)


@wp.struct
class Place:
    """A body's pose in some frame, and where its COM is."""

    position: wp.vec3d
    rotation: wp.quatd
    com: wp.vec3d


@wp.func
def unchanged(values: wp.array[wp.float32], last: wp.array[wp.float32], first: int, end: int):
    """Whether nobody wrote other numbers since the last step."""
    for k in range(first, end):
        if values[k] != last[k]:
            return False
    return True


@wp.func
def differ(a: wp.vec3d, b: wp.vec3d):
    """Whether two vectors differ by more than rounding; False for what is no number."""
    return wp.length(a - b) > SAME * (wp.float64(1.0) + wp.length(b))


@wp.func
def place_of(pose: wp.transform, com: wp.vec3d):
    """A body's place in the world."""
    place = Place()
    place.position = to_vec3d(wp.transform_get_translation(pose))
    place.rotation = to_quatd(wp.transform_get_rotation(pose))
    place.com = place.position + wp.quat_rotate(place.rotation, com)
    return place


@wp.func
def place_in_anchor(joints: Joints, joint_q: wp.array[wp.float32], joint: int, com: wp.vec3d):
    """A free joint's body in the axes of its parent anchor."""
    back, origin = child_anchor_inverse(joints.X_c[joint])
    q = joints.q_start[joint]
    turn = read_quaternion(joint_q, q + 3)
    place = Place()
    place.position = read3(joint_q, q) + wp.quat_rotate(turn, origin)
    place.rotation = turn * back
    place.com = place.position + wp.quat_rotate(place.rotation, com)
    return place


@wp.func
def follow_pose(joints: Joints, seen: Seen, state: StateArrays, joint: int, body: int):
    """joint_q of a free joint whose body was moved, and whose coordinates were not."""
    q = joints.q_start[joint]
    if not unchanged(state.joint_q, seen.q, q, q + 7):
        return
    anchor = to_quatd(wp.transform_get_rotation(joints.X_p[joint]))
    told = place_in_anchor(joints, state.joint_q, joint, wp.vec3d())
    found = place_of(state.body_q[body], wp.vec3d())
    position = wp.quat_rotate_inv(anchor, found.position - to_vec3d(wp.transform_get_translation(joints.X_p[joint])))
    rotation = wp.normalize(wp.quat_inverse(anchor) * found.rotation)
    turned = rotation_vector(rotation * wp.quat_inverse(told.rotation))
    if differ(position, told.position) or differ(turned, wp.vec3d()):
        back, origin = child_anchor_inverse(joints.X_c[joint])
        turn = wp.normalize(rotation * wp.quat_inverse(back))
        offset = position - wp.quat_rotate(turn, origin)
        for k in range(3):
            state.joint_q[q + k] = wp.float32(offset[k])
        for k in range(4):
            state.joint_q[q + 3 + k] = wp.float32(turn[k])


@wp.func
def follow_velocity(joints: Joints, seen: Seen, state: StateArrays, joint: int, body: int):
    """joint_qd, in public order, of a free joint whose body got another velocity, and which got none itself."""
    qd = joints.qd_start[joint]
    if not unchanged(state.joint_qd, seen.qd, qd, qd + 6):
        return
    anchor = to_quatd(wp.transform_get_rotation(joints.X_p[joint]))
    v = wp.quat_rotate_inv(anchor, to_vec3d(wp.spatial_top(state.body_qd[body])))
    w = wp.quat_rotate_inv(anchor, to_vec3d(wp.spatial_bottom(state.body_qd[body])))
    if differ(v, read3(state.joint_qd, qd)) or differ(w, read3(state.joint_qd, qd + 3)):
        for k in range(3):
            state.joint_qd[qd + k] = wp.float32(v[k])
            state.joint_qd[qd + 3 + k] = wp.float32(w[k])


@wp.func
def angular_rate(before: wp.quatd, after: wp.quatd, dt: wp.float64):
    """Angular velocity of what turned from one orientation into another."""
    return rotation_vector(after * wp.quat_inverse(before)) / dt


@wp.func
def measure_joint(
    joints: Joints, orders: Orders, seen: Seen, state: StateArrays, joint: int, com: wp.vec3d, dt: wp.float64
):
    """joint_qd from how joint_q changed since the last step; zero where there was none."""
    q = joints.q_start[joint]
    qd = joints.qd_start[joint]
    size = joints.qd_start[joint + 1] - qd
    if size == 0:
        return  # a fixed joint has no entry to read
    known = wp.isfinite(seen.q[q])
    if is_free(joints.type[joint]):
        after = place_in_anchor(joints, state.joint_q, joint, com)
        v_C = wp.vec3d()
        w = wp.vec3d()
        if known:
            before = place_in_anchor(joints, seen.q, joint, com)
            v_C = (after.com - before.com) / dt
            w = angular_rate(before.rotation, after.rotation, dt)
        same = Orders()
        same.qd_out = orders.qd_in
        write_free_velocity(same, state.joint_qd, qd, w, v_C, after.com - after.position)
    elif joints.type[joint] == BALL:
        w = wp.vec3d()
        if known:
            w = angular_rate(read_quaternion(seen.q, q), read_quaternion(state.joint_q, q), dt)
        for k in range(3):
            state.joint_qd[qd + k] = wp.float32(w[k])
    else:
        for k in range(size):
            rate = wp.float64(0.0)
            if known:
                rate = (wp.float64(state.joint_q[q + k]) - wp.float64(seen.q[q + k])) / dt
            state.joint_qd[qd + k] = wp.float32(rate)


@wp.func
def measure_body(seen: Seen, state: StateArrays, body: int, com: wp.vec3d, dt: wp.float64):
    """body_qd from how body_q changed since the last step; zero where there was none."""
    v_C = wp.vec3d()
    w = wp.vec3d()
    if wp.isfinite(seen.pose[body][0]):
        before = place_of(seen.pose[body], com)
        after = place_of(state.body_q[body], com)
        v_C = (after.com - before.com) / dt
        w = angular_rate(before.rotation, after.rotation, dt)
    state.body_qd[body] = wp.spatial_vector(wp.vec3(v_C), wp.vec3(w))


@wp.func
def keep(joints: Joints, state: StateArrays, seen: Seen, joint: int, body: int):
    """Note what a state has of a body."""
    seen.pose[body] = state.body_q[body]
    if joint >= 0:
        for k in range(joints.q_start[joint], joints.q_start[joint + 1]):
            seen.q[k] = state.joint_q[k]
        for k in range(joints.qd_start[joint], joints.qd_start[joint + 1]):
            seen.qd[k] = state.joint_qd[k]


@wp.kernel
def follow_owners(
    joints: Joints,
    bodies: Bodies,
    orders: Orders,
    roots: Roots,
    seen: Seen,
    seen_out: Seen,
    state: StateArrays,
    measured: int,
    dt: wp.float64,
):
    """Coordinates and velocities of kinematic bodies as their owners mean them, and what the next step has to know of them.

    A step leaves them as they are, so both states have the same.
    """
    i = wp.tid()
    body = roots.body[i]
    joint = roots.joint[i]
    com = to_vec3d(bodies.com[body])
    if (bodies.flags[body] & KINEMATIC) != 0:
        if joint < 0:
            if measured == 1:
                measure_body(seen, state, body, com, dt)
        else:
            if is_free(joints.type[joint]):
                follow_pose(joints, seen, state, joint, body)
                if measured == 0 and orders.qd_in == 0:
                    follow_velocity(joints, seen, state, joint, body)
            if measured == 1:
                measure_joint(joints, orders, seen, state, joint, com, dt)
    keep(joints, state, seen, joint, body)
    keep(joints, state, seen_out, joint, body)


@wp.kernel
def forget_owners(joints: Joints, roots: Roots, seen: Seen, chosen: ChosenWorlds):
    """Let the next step be the first one of chosen worlds."""
    i = wp.tid()
    worlds = chosen.mask.shape[0]
    if worlds > 0 and not chosen.mask[(roots.world[i] + worlds) % worlds]:
        return
    nothing = wp.float32(wp.nan)
    seen.pose[roots.body[i]] = wp.transform(wp.vec3(nothing), wp.quat(nothing, nothing, nothing, nothing))
    joint = roots.joint[i]
    if joint >= 0:
        for k in range(joints.q_start[joint], joints.q_start[joint + 1]):
            seen.q[k] = nothing
        for k in range(joints.qd_start[joint], joints.qd_start[joint + 1]):
            seen.qd[k] = nothing


@dataclass(frozen=True)
class Poses:
    """Poses of one of the caller's states, kept so that no other state's come to lie where they lie."""

    body_q: wp.array

    borrows_arrays = True


class KinematicRoots:
    """The bodies of a model that are moved by their owner."""

    def __init__(self, model, topology, kinematic_velocity: str):
        self._measured = int(kinematic_velocity == "measured")
        self._topology = topology
        self._roots = Roots()
        self._count = 0
        self._seen: dict[int, tuple[Poses, Seen]] = {}
        self._unused: list[Seen] = []
        self._recorded: set[int] = set()
        self._forgotten: dict[int, weakref.ref] = {}
        self.kernels: list = []
        """What is launched for them; nothing where a model has no such bodies."""
        self.renew(model)

    def renew(self, model) -> list:
        """Look again whether there are any; returns the kernels."""
        if not self._count and (model.body_flags.numpy() & int(KINEMATIC)).any():
            self._allocate(model)
            self.kernels = [follow_owners, forget_owners]
        return self.kernels

    def follow(self, solver, frame) -> None:
        """Bring what a state says of them to the joints that move them."""
        if self._count:
            recorded = solver.device.is_capturing
            before, after = self._seen_in(frame.state_in, recorded), self._seen_in(frame.state_out, recorded)
            inputs = [solver.joints, solver.bodies, frame.orders, self._roots, before, after]
            solver.launches.single(follow_owners, self._count, [*inputs, frame.before, self._measured, frame.dt])
            if not recorded and len(self._unused) < SPARE:  # new ones were met
                self._tidy()

    def forget(self, solver, mask) -> None:
        """Let the next step of chosen worlds know nothing of those before."""
        if self._count:
            chosen = ChosenWorlds()
            chosen.mask = mask
            for _, seen in self._seen.values():
                solver.launches.single(forget_owners, self._count, [solver.joints, self._roots, seen, chosen])

    def _seen_in(self, state, recorded: bool) -> Seen:
        """What was seen in a state, told by where its poses lie; of states that have not been met for long nothing is known."""
        poses, seen = self._seen.pop(state.body_q.ptr, (None, None))
        if poses is None:
            forgotten = self._forgotten.pop(state.body_q.ptr, None)
            if forgotten is not None and forgotten() is state.body_q:
                warnings.warn(
                    f"{STATES + 1} states and more take turns, of which a solver remembers {STATES}: kinematic bodies that body_q "
                    "alone moves stay where they are, and measured velocities are zero",
                    RuntimeWarning,
                    stacklevel=4,
                )
            if not self._unused and recorded:
                raise RuntimeError(
                    f"a graph meets more than {SPARE} states that were never stepped before, of a model with kinematic bodies; "
                    "step each of them once before recording"
                )
            poses, seen = Poses(state.body_q), self._unused.pop() if self._unused else self._new()
        if recorded:
            self._recorded.add(state.body_q.ptr)
        self._seen[state.body_q.ptr] = (poses, seen)
        return seen

    def _tidy(self) -> None:
        """Forget the states that were not met for longest, but for those that graphs work on; have some ready for the next graph."""
        loose = [ptr for ptr in self._seen if ptr not in self._recorded]
        for ptr in loose[: max(len(loose) - STATES, 0)]:
            poses, seen = self._seen.pop(ptr)
            self._forgotten[ptr] = weakref.ref(poses.body_q)
            self._unused.append(seen)
            self._clear(seen)
        self._forgotten = {at: known for at, known in self._forgotten.items() if known() is not None}
        while len(self._unused) < SPARE:
            self._unused.append(self._new())

    def _new(self) -> Seen:
        seen = allocate(Seen, self._sizes, self._device)
        self._clear(seen)
        return seen

    def _clear(self, seen: Seen) -> None:
        for array in (seen.q, seen.qd, seen.pose.view(wp.float32)):
            array.fill_(np.nan)

    def _allocate(self, model) -> None:
        """List every root: each may become kinematic inside a graph."""
        arrays, device = self._topology.arrays, model.device
        starts = arrays["tree_link_start"][:-1]
        joint_of = dict(zip(arrays["link_body"][starts].tolist(), arrays["link_joint"][starts].tolist(), strict=True))
        loose = np.flatnonzero(arrays["body_link"] < 0).tolist()
        body = [*joint_of, *loose]
        self._count = len(body)
        self._roots.body = wp.array(body, dtype=wp.int32, device=device)
        self._roots.joint = wp.array([max(joint_of.get(b, -1), -1) for b in body], dtype=wp.int32, device=device)
        self._roots.world = wp.array(model.body_world.numpy()[body], dtype=wp.int32, device=device)
        self._sizes = {"*": 0, "q": model.joint_coord_count, "qd": model.joint_dof_count, "pose": model.body_count}
        self._device = device
        self._tidy()
