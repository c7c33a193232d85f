"""Which trees, links, dofs and solve groups a Newton model has: worked out once on the host, at construction."""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np
import warp as wp

from ..attributes import limited_balls
from ..contacts.shape_geometry import FLAT
from ..linalg.chunks import CHUNK
from ..workspace import LONG_TREE, Tree
from .matrices import factored_groups, largest_cluster, longest_trees, place_matrices

SUPPORTED_JOINTS = ("PRISMATIC", "REVOLUTE", "BALL", "FIXED", "FREE", "DISTANCE", "D6", "ROD")
FLYING = tuple(int(kind) for kind in (newton.JointType.FREE, newton.JointType.DISTANCE, newton.JointType.ROD))
"""Types with six velocities, whose joint by itself holds nothing."""
_ROD, _FREE = int(newton.JointType.ROD), int(newton.JointType.FREE)

DRIVING = [
    int(newton.JointTargetMode.POSITION), int(newton.JointTargetMode.VELOCITY), int(newton.JointTargetMode.POSITION_VELOCITY)
]  # fmt: skip
"""Target modes with a drive."""

MOST = np.iinfo(np.int32).max
"""The largest index that kernels count to."""

PART_DOFS = 4096
"""How many dofs go through all stages of a step together on a CPU: what they need still lies in its caches then."""

FREELY = -1
"""In place of a joint: a root that no joint moves, whose coordinates are ``body_q`` and ``body_qd``."""

_OWNERS = {"trees": "tree", "groups": "group", "links": "link", "dofs": "dof", "bodies": "body"}
"""Whose members the entries of each array of ``Tree`` are: the prefix of their names on the host."""
_WIDE = {"group_hessian_start": np.int64, "link_radius": np.float32, "restitution": np.float32}
"""What is no 32-bit index."""
_LOOSE = 2
_KINEMATIC = int(newton.BodyFlags.KINEMATIC)


@dataclass(frozen=True)
class Topology:
    """Host copy of the structure."""

    arrays: dict[str, np.ndarray]
    """What :class:`newton_sap.workspace.Tree` documents, an array for each member of its entries: ``link_joint``, say."""
    prescribed: tuple[int, ...]
    """Bodies that are taken for prescribed once and for all: cables' segments without mass, and kinematic bodies that nothing would
    move, or that would touch every world."""
    limited: tuple[int, ...]
    """Ball joints with a swing or twist limit."""
    part_start: np.ndarray
    """(P + 1,) first group of each part, whose stages follow each other."""
    group_world: np.ndarray
    """(G,) Newton world of each group; -1 for global entities, or where all worlds form one group."""
    tree_count: int
    link_count: int
    dof_count: int
    group_count: int
    block_size: int
    """Entries of all mass-matrix blocks together, and a chunk after them, for whole chunks are read."""
    factor_size: int
    """Entries that hold their factors; on a CPU, trees of one part share the place of the largest."""
    hessian_size: int
    """Entries that hold the dense Hessians, of groups too large for one those of their clusters; on a CPU those of one part share a
    place."""
    largest_cluster: tuple[int, int]
    """Most dofs and trees of a cluster that has one in such a group."""
    contact_stride: int
    """Most dofs that move a pair's relative velocity at one point."""
    pair_stride: int
    """Most dofs that move one body of a pair or the other."""
    loop_joints: tuple[int, ...]
    """Newton joints that move no link: they close loops, or are rods."""
    joint_type: np.ndarray
    """Types of all joints."""

    @property
    def large_groups(self) -> np.ndarray:
        """(G,) whether a group is too large for a factored Hessian."""
        return np.array(self.arrays["group_hessian_start"]) < 0

    @property
    def has_islands(self) -> bool:
        """Whether some group has more trees than one."""
        return bool((np.diff(self.arrays["group_tree_start"]) > 1).any())

    @property
    def has_long_trees(self) -> bool:
        """Whether some tree may have many unknowns."""
        return bool((np.diff(self.arrays["tree_dof_start"]) > LONG_TREE).any())

    @property
    def needs_iterations(self) -> bool:
        """Whether some group is too large for a factored Hessian."""
        return bool(self.large_groups.any())

    @property
    def groups_meet(self) -> bool:
        """Whether groups of worlds touch kinematic bodies of another one, the global world's."""
        return self.group_count > 1 and self.group_world[-1] == -1  # that one comes last

    @property
    def part_dofs(self) -> np.ndarray:
        """(P + 1,) first dof of each part, and the end."""
        return self.arrays["group_dof_start"][self.part_start]

    @property
    def parts_are_alike(self) -> bool:
        """Whether the mass matrices of all parts have the same zeros, as far as a shorter part reaches."""
        tree_size = np.diff(self.arrays["tree_dof_start"])
        reach = self.arrays["dof_last"] - np.arange(self.dof_count)
        shape = np.stack([reach, np.repeat(tree_size, tree_size)])
        parts = np.split(shape, self.part_dofs[1:-1], axis=1)
        longest = max(parts, key=lambda part: part.shape[1])
        return all(np.array_equal(part, longest[:, : part.shape[1]]) for part in parts)

    def to_device(self, group_tied: np.ndarray, tree_moves: np.ndarray, device) -> Tree:
        """Return the structure as a bundle of device arrays, with what couplings do to groups and trees."""
        arrays = self.arrays | {"group_tied": group_tied, "tree_moves": tree_moves}
        bundle = Tree()
        for name, variable in Tree.vars.items():
            if name in _OWNERS:
                entries = _entries(variable.type.dtype, _OWNERS[name], arrays)
                setattr(bundle, name, wp.array(entries, dtype=variable.type.dtype, device=device))
            elif name in arrays:
                setattr(bundle, name, wp.array(arrays[name], dtype=variable.type.dtype, device=device))
        bundle.pushes = len(arrays["push_joint"])
        bundle.compounds = int(len(arrays["dof_faces"]) > 0)
        bundle.part_groups = self.group_count
        bundle.global_group = self.group_count - 1 if self.groups_meet else -1
        return bundle


def build_topology(model, threads: int = 1) -> Topology:
    """Return the structure of a model, for so many CPU threads.

    Raises:
        NotImplementedError: A joint that is not simulated (of an unknown type), by name.
    """
    inbound, loops = _inbound_joints(model)
    trees = _trees(model, inbound)
    groups, group_world = _groups(model, inbound, trees, loops)
    order = sorted(range(len(trees)), key=lambda t: (groups[t], t))
    return _pack(model, inbound, [trees[t] for t in order], [groups[t] for t in order], group_world, loops, threads)


def body_name(model, body: int) -> str:
    """Name a body in messages."""
    return f"body {body} ({model.body_label[body]!r})"


def joint_name(model, joint: int) -> str:
    """Name a joint in messages."""
    return f"joint {joint} ({model.joint_label[joint]!r})"


def _inbound_joints(model) -> tuple[dict[int, int], list[int]]:
    """Map each moving body to the tree joint that moves it or to :data:`FREELY`, and list the joints that close loops.

    A rod always does: it holds no axis, and bodies that each have velocities of their own meet in sparse systems. So does a joint
    that is switched off, which may come on later; a free one holds nothing either way.
    """
    _require_supported_joints(model)
    joints = (model.joint_parent, model.joint_child, model.joint_enabled, model.joint_type)
    parent, child, enabled, kinds = (array.numpy().tolist() for array in joints)  # entries of lists are read faster
    flags, mass = model.body_flags.numpy().tolist(), model.body_mass.numpy().tolist()
    held = _held_segments(model)
    inbound: dict[int, int] = {}
    loops: list[int] = []
    rank = _ranks(model)
    assembly = list(range(model.body_count))
    for j in sorted(range(model.joint_count), key=lambda j: (rank[j], j)):
        above, body = parent[j], child[j]
        off = not enabled[j] and (rank[j] >= _LOOSE or kinds[j] != _FREE)
        loose = off or (rank[j] >= _LOOSE and flags[body] & _KINEMATIC)
        apart = kinds[j] == _ROD or (kinds[j] == _FREE and body in held)
        if apart or body in inbound or loose or (above >= 0 and _root(assembly, above) == body):
            loops.append(j)
            continue
        inbound[body] = j
        if above >= 0:
            assembly[body] = above
    jointed = {*parent, *child}
    for body in range(model.body_count):
        if body not in inbound and (body in jointed or (mass[body] > 0.0 and not flags[body] & _KINEMATIC)):
            inbound[body] = FREELY
    return inbound, sorted(loops)


def _held_segments(model) -> set[int]:
    """Bodies without mass at an end of a rod: Newton's makers of cables hold a segment by taking its mass away."""
    rods = model.joint_type.numpy() == _ROD
    bodies = {*model.joint_parent.numpy()[rods].tolist(), *model.joint_child.numpy()[rods].tolist()} - {-1}
    mass = model.body_mass.numpy()
    return {body for body in bodies if mass[body] == 0.0}


def _require_supported_joints(model) -> None:
    names = {int(t): t.name for t in newton.JointType}
    kinds = model.joint_type.numpy()
    for j in np.flatnonzero(~np.isin(kinds, [t for t, name in names.items() if name in SUPPORTED_JOINTS]))[:1]:
        raise NotImplementedError(
            f"{joint_name(model, j)} has type {names.get(int(kinds[j]), kinds[j])}, which SolverSAP does not simulate; use one "
            f"of {', '.join(SUPPORTED_JOINTS)}"
        )


def _ranks(model) -> list[int]:
    """Give each joint its turn to claim its body: articulations, stand-alone world joints, then what may close loops.

    A drive acts best on a coordinate of its own, so the driven ones go first.
    """
    parent, articulation = model.joint_parent.numpy(), model.joint_articulation.numpy()
    end = model.articulation_end.numpy() if model.articulation_count else np.zeros(0, int)
    start, mode = model.joint_qd_start.numpy(), model.joint_target_mode.numpy()
    ranks = []
    for j in range(model.joint_count):
        if articulation[j] >= 0 and j < end[articulation[j]]:
            ranks.append(0)
        elif parent[j] == -1:
            ranks.append(1)
        else:
            ranks.append(_LOOSE if np.isin(mode[start[j] : start[j + 1]], DRIVING).any() else _LOOSE + 1)
    return ranks


def _root(assembly: list[int], body: int) -> int:
    """The body at the root of what hangs together; paths shorten on the way."""
    while assembly[body] != body:
        assembly[body] = assembly[assembly[body]]
        body = assembly[body]
    return body


def _trees(model, inbound: dict[int, int]) -> list[list[tuple[int, int]]]:
    """List each tree as (body, parent position in the list) pairs, parents first, subtrees contiguous."""
    parent = model.joint_parent.numpy()
    children: dict[int, list[int]] = {}
    roots = []
    for body, j in sorted(inbound.items(), key=lambda item: (item[1] == FREELY, item[1], item[0])):
        if j == FREELY or parent[j] == -1:
            roots.append(body)
        else:
            children.setdefault(int(parent[j]), []).append(body)
    trees = []
    for root in roots:
        tree, stack = [], [(root, -1)]
        while stack:
            body, above = stack.pop()
            here = len(tree)
            tree.append((body, above))
            stack += [(k, here) for k in reversed(children.get(body, []))]
        trees.append(tree)
    return trees


def _groups(model, inbound, trees, loops) -> tuple[list[int], np.ndarray]:
    """Give each tree its solve group: its world, or one common group where a global body may touch every world."""
    world, flags = model.body_world.numpy(), model.body_flags.numpy()
    roots = [tree[0][0] for tree in trees]
    worlds = [int(world[body]) for body in roots]
    moving = _moving_bodies(model, inbound, trees)
    touching = moving & _shaped_bodies(model)

    def may_touch_all(tree):
        return world[tree[0][0]] == -1 and any(body in touching and not flags[body] & _KINEMATIC for body, _ in tree)

    coupled = any(may_touch_all(tree) for tree in trees)
    ties = (pair for pair in _tied_bodies(model, loops) if moving.issuperset(pair))
    coupled |= any(len({world[body] for body in pair}) > 1 for pair in ties)
    present = sorted(set(worlds))
    if coupled or len(present) <= 1:
        return [0] * len(trees), np.array([present[0] if len(present) == 1 else -1], dtype=np.int32)
    number = {w: g for g, w in enumerate(sorted(present, key=lambda w: (w == -1, w)))}
    return [number[w] for w in worlds], np.array(list(number), dtype=np.int32)


def _moving_bodies(model, inbound, trees) -> set[int]:
    """Bodies that some dof moves."""
    has_dofs = (np.diff(model.joint_qd_start.numpy()) > 0).tolist()
    moving = set()
    for tree in trees:
        for body, above in tree:
            joint = inbound[body]
            if joint == FREELY or has_dofs[joint] or (above >= 0 and tree[above][0] in moving):
                moving.add(body)
    return moving


def moved_links(arrays: dict[str, np.ndarray], links) -> np.ndarray:
    """Those of some links that dofs move, by the arrays of a :class:`Topology`."""
    links = np.asarray(links, dtype=int)
    return links[arrays["link_path_start"][links] < arrays["link_path_start"][links + 1]]


def _shaped_bodies(model) -> set[int]:
    return {int(b) for b in model.shape_body.numpy()} if model.shape_count else set()


def _entries(entry_type, owner: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the arrays of one owner as entries of a kernel's type, the last one says only where things end."""
    members = {name: arrays[f"{owner}_{name}"] for name in entry_type.vars}
    entries = np.zeros(max(map(len, members.values())), dtype=entry_type.numpy_dtype())
    for name, values in members.items():
        entries[name][: len(values)] = values
    return entries


def _has_compounds(model, body_link: np.ndarray, paths: list) -> bool:
    """Whether several shapes with flat faces are on links that are rigidly one, colliding or not."""
    bodies = (
        model.shape_body.numpy()[np.isin(model.shape_type.numpy(), FLAT)] if model.shape_count else np.zeros(0, int)
    )
    on = [paths[link][-1] for link in body_link[bodies[bodies >= 0]] if link >= 0 and len(paths[link])]
    return len(set(on)) < len(on)


def _narrowed(name: str, values: np.ndarray) -> np.ndarray:
    """Give indices the type that kernels take; more than that counts would come out negative."""
    if name in _WIDE:
        return values.astype(_WIDE[name])
    if values.max(initial=0) > MOST:
        raise ValueError(
            f"the model is too large for one solver: {name} reaches {values.max()}, and kernels count to {MOST}; build "
            "several models with a share of the worlds each"
        )
    return values.astype(np.int32)


def actuator_table(model):
    """Return where importers put MuJoCo's actuators, None if the model has none."""
    return _mujoco_table(model, "actuator_trnid")


def link_kinds(model, link_joint: np.ndarray) -> np.ndarray:
    """Return the type of each link's joint; a root that no joint moves is like one on a free joint."""
    return np.append(model.joint_type.numpy(), int(newton.JointType.FREE))[link_joint]  # FREELY finds the last


def flying_links(model, link_joint: np.ndarray) -> np.ndarray:
    """Return which links have six velocities: on free, distance and rod joints, or on none."""
    return np.isin(link_kinds(model, link_joint), FLYING)


def mass_block(arrays, A: np.ndarray, tree: int, locked: int = 0) -> np.ndarray:
    """Return a tree's block of the mass matrix, without its first, prescribed dofs."""
    size = arrays["tree_dof_start"][tree + 1] - arrays["tree_dof_start"][tree]
    start = arrays["tree_block_start"][tree]
    return A[start : start + size * size].reshape(size, size)[locked:, locked:]


def equality_table(model):
    """Return where importers put MuJoCo's equality constraints, None if the model has none."""
    return _mujoco_table(model, "equality_constraint_type")


def equality_name(model, row: int) -> str:
    """Name an equality constraint in messages."""
    return f"equality constraint {row} ({equality_table(model).equality_constraint_label[row]!r})"


def _mujoco_table(model, column: str):
    """The namespace of MuJoCo's tables if the one with a column has rows."""
    table = getattr(model, "mujoco", None)
    rows = getattr(table, column, None)
    return None if rows is None or not len(rows) else table


def _tied_bodies(model, loops) -> list[tuple[int, int]]:
    """Pairs of bodies, -1 for the world, that loop joints, mimics and equality constraints tie together."""
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    pairs = [(parent[j], child[j]) for j in loops]
    joints = [(j, leader) for j, leader in enumerate(model.joint_mimic_joint.numpy()) if leader >= 0]
    if model.constraint_mimic_count:
        joints += zip(model.constraint_mimic_joint0.numpy(), model.constraint_mimic_joint1.numpy(), strict=True)
    table = equality_table(model)
    if table is not None:
        pairs += zip(table.equality_constraint_body1.numpy(), table.equality_constraint_body2.numpy(), strict=True)
        joints += zip(table.equality_constraint_joint1.numpy(), table.equality_constraint_joint2.numpy(), strict=True)
    return pairs + [(child[a], child[b]) for a, b in joints if min(a, b) >= 0]


def _pack(model, inbound, trees, groups, group_world, loops, threads) -> Topology:
    """Number links and dofs through and lay the arrays out."""
    links = [(tree, body, above) for tree, members in enumerate(trees) for body, above in members]
    tree_link_start = np.cumsum([0] + [len(t) for t in trees])
    link_dofs = joint_dofs(model, [inbound[body] for _, body, _ in links])
    link_dof_start = np.cumsum([0] + [len(d) for d in link_dofs])
    link_parent = [-1 if above < 0 else int(tree_link_start[tree]) + above for tree, _, above in links]
    tree_dof_start = link_dof_start[tree_link_start]
    sizes = np.diff(tree_dof_start)
    paths = _paths(link_parent, link_dof_start)
    group_count = len(group_world)
    tree_of_group = np.searchsorted(groups, np.arange(group_count + 1))
    group_dof_start = tree_dof_start[tree_of_group]
    part_start = share_groups(np.diff(group_dof_start), _parts(int(group_dof_start[-1]), threads, model.device))
    group_part = np.repeat(np.arange(len(part_start) - 1), np.diff(part_start))
    group_dofs = np.diff(group_dof_start)
    factored = factored_groups(model, group_dofs, np.diff(tree_of_group), longest_trees(groups, sizes, group_count))
    scratch, scratch_sizes = place_matrices(
        factored, group_dofs, np.diff(tree_of_group), sizes, groups, group_part, model.device
    )
    body_link = np.full(model.body_count, -1, dtype=np.int32)
    for link, (_, body, _) in enumerate(links):
        body_link[body] = link
    dofs = [d for link in link_dofs for d in link]
    prescribed = _always_prescribed(model, inbound, group_count)

    arrays = {
        "tree_link_start": tree_link_start,
        "tree_dof_start": tree_dof_start,
        "tree_block_start": np.cumsum([0, *(sizes * sizes)]),
        "tree_group": np.array(groups),
        "tree_prescribed": np.array([members[0][0] in prescribed for members in trees]),
        "group_tree_start": tree_of_group,
        "group_dof_start": group_dof_start,
        "link_joint": np.array([inbound[body] for _, body, _ in links]),
        "link_body": np.array([body for _, body, _ in links]),
        "link_parent": np.array(link_parent),
        "link_tree": np.array([tree for tree, _, _ in links]),
        "link_radius": np.zeros(len(links)),  # contacts.measure_links has these
        "restitution": np.zeros(1),
        "link_dof_start": link_dof_start,
        "link_path_start": np.cumsum([0] + [len(p) for p in paths]),
        **_pushes(model, body_link, loops),
        "path_dof": np.array([d for path in paths for d in path]),
        "dof_last": _last_dofs(link_parent, link_dof_start),
        "dof_faces": np.zeros(len(dofs) if _has_compounds(model, body_link, paths) else 0),
        "dof_link": np.repeat(np.arange(len(links)), np.diff(link_dof_start)),
        "dof_qd": np.array([public for public, _ in dofs]),
        "dof_q": np.array([coord for _, coord in dofs]),
        "body_link": body_link,
        "body_part": _body_parts(model, body_link, [group_part[groups[tree]] for tree, _, _ in links]),
        **scratch,
    }
    contact_stride, pair_stride = _strides(trees, groups, tree_link_start, link_parent, [len(p) for p in paths])
    return Topology(
        arrays={name: _narrowed(name, np.asarray(values)) for name, values in arrays.items()},
        part_start=part_start,
        prescribed=prescribed,
        limited=limited_balls(model),
        group_world=group_world,
        tree_count=len(trees),
        link_count=len(links),
        dof_count=len(dofs),
        group_count=group_count,
        block_size=int((sizes * sizes).sum()) + CHUNK,
        largest_cluster=largest_cluster(model.device),
        **scratch_sizes,
        contact_stride=contact_stride,
        pair_stride=pair_stride,
        loop_joints=tuple(loops),
        joint_type=model.joint_type.numpy().copy(),
    )


def _pushes(model, body_link, loops) -> dict[str, np.ndarray]:
    """List the joints of six velocities that move no link by the link of their child, on which ``joint_f`` acts."""
    kinds, child = model.joint_type.numpy(), model.joint_child.numpy()
    joints = [j for j in loops if kinds[j] in FLYING and body_link[child[j]] >= 0]
    joints.sort(key=lambda j: body_link[child[j]])
    starts = np.searchsorted(body_link[child[joints]], np.arange(body_link.max() + 2)) if joints else np.zeros(0)
    return {"push_start": starts, "push_joint": np.array(joints, dtype=int)}


def _always_prescribed(model, inbound, group_count: int) -> tuple[int, ...]:
    """List the bodies that must stay kinematic."""
    flags, world, mass = model.body_flags.numpy(), model.body_world.numpy(), model.body_mass.numpy()
    shaped = _shaped_bodies(model)
    held = {body for body in _held_segments(model) if inbound[body] == FREELY}
    kinematic = {
        body
        for body in np.flatnonzero(flags & _KINEMATIC).tolist()
        if (body not in inbound and mass[body] > 0.0) or (group_count > 1 and world[body] == -1 and body in shaped)
    }
    return tuple(sorted(held | kinematic))


def _paths(link_parent: list[int], link_dof_start: np.ndarray) -> list[list[int]]:
    """List for each link the dofs from its root, its own included."""
    paths: list[list[int]] = []
    for link, above in enumerate(link_parent):
        own = list(range(link_dof_start[link], link_dof_start[link + 1]))
        paths.append((paths[above] if above >= 0 else []) + own)
    return paths


def _last_dofs(link_parent: list[int], link_dof_start: np.ndarray) -> np.ndarray:
    """Return for each dof the last one of the subtree that it moves, which is contiguous."""
    last = link_dof_start[1:] - 1
    for link in reversed(range(len(link_parent))):
        if link_parent[link] >= 0:
            last[link_parent[link]] = max(last[link_parent[link]], last[link])
    return np.repeat(last, np.diff(link_dof_start))


def share_groups(dofs: np.ndarray, parts: int) -> np.ndarray:
    """Return where each part of the groups begins, and the end: about as many dofs for each, and no part without a group,
    unless there is none at all."""
    done, parts = np.concatenate([[0], np.cumsum(dofs)]), min(parts, len(dofs))
    cuts = np.searchsorted(done, done[-1] * np.arange(1, parts) / parts)
    return np.array([*np.unique([0, *cuts[cuts < len(dofs)]]), len(dofs)])


def _parts(dofs: int, threads: int, device) -> int:
    """Return how many parts to make, as many for each CPU thread; a GPU works on all groups at once."""
    return threads * max(1, round(dofs / (threads * PART_DOFS))) if device.is_cpu else 1


def _body_parts(model, body_link, link_part) -> np.ndarray:
    """Return (bodies,) the part of each body of a world; those of the global one are in none, for if worlds are apart, no
    unknown moves what they may touch."""
    part = np.full(len(body_link), -1)
    local = (body_link >= 0) & (model.body_world.numpy() >= 0)
    part[local] = np.array(link_part, dtype=int)[body_link[local]]
    return part


def joint_dofs(model, joints: list[int]) -> list[list[tuple[int, int]]]:
    """List each joint's dofs in solver order as (index in joint_qd, index in joint_q or -1); Newton knows none of FREELY."""
    kinds, q_start, qd_start = (
        a.numpy().tolist() for a in (model.joint_type, model.joint_q_start, model.joint_qd_start)
    )
    dofs = []
    for j in joints:
        if j == FREELY:
            dofs.append([(-1, -1)] * 6)
        elif kinds[j] in FLYING:
            dofs.append([(qd_start[j] + i, -1) for i in (3, 4, 5, 0, 1, 2)])  # angular first
        elif kinds[j] == newton.JointType.BALL:
            dofs.append([(qd_start[j] + i, -1) for i in range(3)])
        else:
            dofs.append([(qd_start[j] + i, q_start[j] + i) for i in range(qd_start[j + 1] - qd_start[j])])
    return dofs


def driven_dofs(model) -> np.ndarray:
    """Return (dofs,) whether the model has a drive there."""
    return np.isin(model.joint_target_mode.numpy(), DRIVING)


def dof_coordinates(model) -> np.ndarray:
    """(D,) each Newton dof's coordinate, -1 where it is a quaternion's."""
    kind, q_start, qd_start = (a.numpy() for a in (model.joint_type, model.joint_q_start, model.joint_qd_start))
    joint = np.repeat(np.arange(model.joint_count), np.diff(qd_start))
    coord = q_start[joint] + np.arange(model.joint_dof_count) - qd_start[joint]
    return np.where(np.isin(kind[joint], [*FLYING, newton.JointType.BALL]), -1, coord)


def body_poses(model, joint_q: wp.array | None = None) -> wp.array:
    """(B,) poses of the bodies at some coordinates, the model's own if None."""
    state = model.state()
    newton.eval_fk(model, model.joint_q if joint_q is None else joint_q, model.joint_qd, state)
    return state.body_q


def pose_of(body_q: np.ndarray, body: int) -> wp.transform:
    """Pose of a body, or of the world."""
    return wp.transform_identity() if body < 0 else wp.transform(*(float(x) for x in body_q[body]))


def _strides(trees, groups, tree_link_start, link_parent, depths) -> tuple[int, int]:
    """Bound the dofs that move two links of one tree, or one link of each of two, without and with those they share.

    ``depths`` counts the dofs from the root to each link. Of two links that branch off the same link, its own path
    carries both.
    """
    apart = together = 1
    deepest: dict[int, list[int]] = {}
    for tree, members in enumerate(trees):
        start = int(tree_link_start[tree])
        arms = {start + i: (0, 0) for i in range(len(members))}  # the two longest ways down, in dofs
        for link in reversed(arms):
            longest, second = arms[link]
            apart = max(apart, longest + second, depths[link] + longest)
            together = max(together, depths[link] + longest + second)
            above = link_parent[link]
            if above >= 0:
                arm = longest + depths[link] - depths[above]
                arms[above] = tuple(sorted((*arms[above], arm))[:0:-1])
        deepest.setdefault(groups[tree], []).append(max(depths[link] for link in arms))
    for lengths in deepest.values():
        apart = max(apart, sum(sorted(lengths)[-2:]))
    return apart, max(apart, together)
