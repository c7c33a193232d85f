"""Couplings of a model, entered once on the host: loop joints, equality constraints, mimic and distance joints, tendons."""

from __future__ import annotations

from dataclasses import dataclass, field

import newton
import numpy as np
import warp as wp

from ..attributes import ball_limits, has_ball_limits, read
from ..constraints.coupling_table import (
    BALL_LIMITS,
    BODIES,
    COORDINATES,
    DISTANCE_RANGE,
    EQUALITY_ROW,
    LAWS_PER_COUPLING,
    LOOP_FORCES,
    LOOP_LAWS,
    MIMIC_JOINT,
    MIMIC_ROW,
    ROD,
    ROUTE,
    TENDON,
    TENDON_LAWS,
    TENDON_LENGTHS,
)
from ..coupling_bundles import CouplingTable
from ..multibody.gyroscopic import ALONE, HELD, TIED, TOGETHER
from ..workspace import CLUSTER_DOFS, COUPLER_ROWS, DIRECT_TREES, CouplerPool, allocate
from .matrices import is_factored, longest_trees
from .model_parts import OnHost
from .routes import attach_routes, couplings_of, make_routes, most_dofs, trees_of_routes
from .tendons import attach_tendons, make_tendons, read_tendons, tendon_name
from .topology import (
    FREELY,
    Topology,
    body_name,
    body_poses,
    equality_name,
    equality_table,
    flying_links,
    joint_name,
    moved_links,
    pose_of,
)

CONNECT, WELD, JOINT, TENDONS = 0, 1, 2, 3
"""Types of MuJoCo's equality constraints, as importers write them."""
OF_JOINT, OF_MIMIC = 1, 2
"""What importers make of them, where they make something."""


@dataclass
class Coupling:
    """One entry of :class:`newton_sap.coupling_bundles.CouplingTable`."""

    kind: int
    group: int
    joint: int = -1
    switch_row: int = -1
    origin: int = -1
    source: int = EQUALITY_ROW
    source_row: int = -1
    body_a: int = -1
    body_b: int = -1
    frame_a: np.ndarray = field(default_factory=lambda: np.array([0, 0, 0, 0, 0, 0, 1], dtype=np.float32))
    frame_b: np.ndarray = field(default_factory=lambda: np.array([0, 0, 0, 0, 0, 0, 1], dtype=np.float32))
    linear_axes: int = 0
    angular_axes: int = 0
    axis_start: int = 0
    axis: int = 0
    coordinates: int = 0
    dof_a: int = -1
    dof_b: int = -1


def build_couplings(model, topology: Topology, loop_joints: list[int], device) -> tuple[CouplingTable, CouplerPool]:
    """Return the table of all couplings and the pool of their rows.

    Raises:
        NotImplementedError: An equality constraint or tendon that is not simulated, or a tie to a body that no joint moves.
        ValueError: A loop joint whose linear axes are not independent, or limits that a joint cannot have.
    """
    host = OnHost(model)
    entries = [entry for j in loop_joints for entry in _loop(model, host, topology, j)]
    entries += _distances(host, topology)
    entries += _ball_limits(model, host, topology)
    entries += _mimics(model, host, topology)
    entries += _equalities(model, host, topology)
    rows, stride, trees = read_tendons(model), max(topology.pair_stride, 2), {}
    if rows is not None:
        tendons, trees = make_tendons(model, rows, topology, device)
        stride = max(stride, 2 * rows.most_terms(topology))
        groups = {t: int(topology.arrays["tree_group"][touched[0]]) for t, touched in trees.items()}
        halves = range(0, TENDON_LAWS, LAWS_PER_COUPLING)
        entries += [Coupling(TENDON, g, source_row=t, axis=first) for t, g in groups.items() for first in halves]
        entries += _tendon_equalities(model, rows, groups)
    routed = trees_of_routes(model, topology)
    if routed:
        stride = max(stride, most_dofs(model, topology))
        counts = couplings_of(model)
        entries += [entry for t, tied in routed.items() for entry in _route(topology, t, tied, int(counts[t]))]
    entries = [e for e in entries if e is not None]
    touched = [_touched_trees(topology, e, trees, routed) for e in entries]
    moved = _moved(topology, [e.group for e in entries], touched)
    tied = _tie(topology, moved)
    firsts = np.array([tied[own[0]] for own in moved], dtype=int)
    order = np.argsort(firsts, kind="stable")  # so that they are sorted by group, too
    entries, touched = [entries[c] for c in order], [touched[c] for c in order]
    _note_origins(model, entries)
    table = _table(topology, entries, touched, device)
    table.links = wp.array(_links(topology, tied)[firsts[order]], dtype=wp.int32, device=device)
    if rows is not None:
        table.tendons = tendons
    if model.tendon_count:
        table.routes = make_routes(model, routed)
    attach_model(table, model)
    if len(table.equality_enabled):
        table.equality_was_enabled = wp.array(_switches_as_made(model, entries), dtype=wp.bool, device=device)
        table.equality_was_polycoef = wp.clone(table.equality_polycoef)
    return table, _pool(table, firsts[order], topology, stride, device)


def assembling_kernels(table: CouplingTable) -> list:
    """Return the kernels that build the rows of a model's couplings; what no coupling needs is not imported."""
    tendons = np.isin(table.kind.numpy(), (int(TENDON), int(TENDON_LENGTHS)))
    rods, routes = (table.kind.numpy() == int(kind) for kind in (ROD, ROUTE))
    kernels = []
    if not (tendons | rods | routes).all():
        from ..constraints.couplers import assemble_couplings

        kernels.append(assemble_couplings)
    if rods.any():
        from ..constraints.rods import assemble_rods

        kernels.append(assemble_rods)
    if tendons.any():
        from ..constraints.tendons import assemble_tendons

        kernels.append(assemble_tendons)
    if routes.any():
        from ..constraints.routes import assemble_routes

        kernels.append(assemble_routes)
    return kernels


def follow_kernel(moves: np.ndarray, scalar):
    """Return the kernel by which trees that couplings hold follow their change of velocity, None where there are none."""
    if not (moves == int(TIED)).any():
        return None
    from ..tied_change import follow_tied_kernel  # a kernel that few models need

    return follow_tied_kernel(scalar)


def tied_groups(table: CouplingTable) -> np.ndarray:
    """Return (groups,) whether a group has a coupling."""
    return np.diff(table.group_start.numpy()) > 0


def trees_of_rows(couplers: CouplerPool) -> np.ndarray:
    """Return (rows,) the first of the trees that couplings tie together with a row's; ascending."""
    return np.repeat(couplers.tree.numpy(), COUPLER_ROWS)


def tied_trees(table: CouplingTable, topology: Topology) -> np.ndarray:
    """Return (trees,) the first of the trees that couplings tie together with each, switched on or off."""
    groups = np.repeat(np.arange(topology.group_count), np.diff(table.group_start.numpy()))
    if not len(groups):
        return np.arange(topology.tree_count)
    touched = np.split(table.tree.numpy(), table.tree_start.numpy()[1:-1])
    return _tie(topology, _moved(topology, groups, touched))


def _tie(topology: Topology, moved: list[list[int]]) -> np.ndarray:
    """Return (trees,) the same by the trees that each coupling ties."""
    label = np.arange(topology.tree_count).tolist()

    def first(t: int) -> int:
        while label[t] != t:
            label[t] = label[label[t]]
            t = label[t]
        return t

    for trees in moved:
        joined = sorted(map(first, trees))
        for t in joined[1:]:
            label[t] = joined[0]
    return np.array([first(t) for t in label], dtype=int)


def _moved(topology: Topology, groups, touched) -> list[list[int]]:
    """Of the trees that each coupling touches those of its group that have dofs; the others it does not tie."""
    group, sizes = topology.arrays["tree_group"], np.diff(topology.arrays["tree_dof_start"])
    return [[int(t) for t in trees if group[t] == g and sizes[t] > 0] for g, trees in zip(groups, touched, strict=True)]


def _links(topology: Topology, tied: np.ndarray) -> np.ndarray:
    """Return (trees,) how many links the trees have that are tied to each."""
    return np.bincount(tied, np.diff(topology.arrays["tree_link_start"]), topology.tree_count).astype(int)


def motions_of_trees(table: CouplingTable, tied: np.ndarray, topology: Topology, model, update: str) -> np.ndarray:
    """Return (trees,) how the velocities of each tree change within a step under a position update: ``TOGETHER`` or otherwise.

    A tree that a coupling holds, to another or in itself, does not move as its own forces say and is ``TIED``, or ``HELD`` where
    neither the Hessian of its group is factored on every device nor that of the trees ``tied`` to it; limits and tendons only push or
    pull.
    """
    holds = ~np.isin(table.kind.numpy(), (int(BALL_LIMITS), int(TENDON), int(ROUTE)))
    held = table.tree.numpy()[np.repeat(holds, np.diff(table.tree_start.numpy()))]
    starts = topology.arrays["tree_link_start"]
    flies = flying_links(model, topology.arrays["link_joint"][starts[:-1]])
    moves = np.where(flies & (np.diff(starts) == 1), int(ALONE), int(TOGETHER))
    held = held[held >= 0]
    trees, dofs = (np.diff(topology.arrays[f"group_{name}_start"]) for name in ("tree", "dof"))
    groups = np.repeat(np.arange(len(trees)), trees)
    longest = longest_trees(groups, np.diff(topology.arrays["tree_dof_start"]), len(trees))
    factored = is_factored(dofs, trees, longest)[groups]
    if not model.requires_grad:
        its = np.bincount(tied, np.diff(topology.arrays["tree_dof_start"]), topology.tree_count)
        factored |= ((its <= CLUSTER_DOFS) & (np.bincount(tied, minlength=topology.tree_count) <= DIRECT_TREES))[tied]
    moves[held] = np.where(factored[held], int(TIED), int(HELD))
    if update != "symplectic":
        moves[:] = int(HELD)
    return moves


def _touched_trees(topology, entry: Coupling, of_tendons: dict[int, list[int]], of_routes) -> list[int]:
    """The trees that a coupling ties together."""
    if entry.kind == ROUTE:
        return of_routes[entry.source_row]
    arrays, pair = topology.arrays, [k for k in (entry.dof_a, entry.dof_b) if k >= 0]
    if entry.kind == TENDON:
        return of_tendons[entry.source_row]
    if entry.kind == TENDON_LENGTHS:
        return [tree for t in pair for tree in of_tendons[t]]
    bodies = [body for body in (entry.body_a, entry.body_b) if body >= 0]
    links = arrays["dof_link"][pair] if entry.kind == COORDINATES else arrays["body_link"][bodies]
    return arrays["link_tree"][links[links >= 0]].tolist()


def _table(topology, entries, trees: list[list[int]], device) -> CouplingTable:
    columns = {name: [getattr(e, name) for e in entries] for name in Coupling.__dataclass_fields__ if name != "group"}
    table = allocate(CouplingTable, {"*": 0}, device)
    for name, values in columns.items():
        if name in ("frame_a", "frame_b"):
            array = wp.array(np.array(values, dtype=np.float32).reshape(-1, 7), dtype=wp.transform, device=device)
        else:
            array = wp.array(np.array(values, dtype=np.int32), dtype=wp.int32, device=device)
        setattr(table, name, array)
    table.tree_start = wp.array(np.cumsum([0, *map(len, trees)]), dtype=wp.int32, device=device)
    table.tree = wp.array(np.array([t for touched in trees for t in touched], dtype=int), dtype=wp.int32, device=device)
    groups = [e.group for e in entries]
    table.group_start = wp.array(
        np.searchsorted(groups, np.arange(topology.group_count + 1)).astype(np.int32), dtype=wp.int32, device=device
    )
    return table


def attach_model(table: CouplingTable, model) -> None:
    """Point the table at the model's current switches and coefficients."""
    table.joint_enabled = model.joint_enabled
    table.joint_mimic_coeffs = model.joint_mimic_coeffs
    table.mimic_enabled = model.constraint_mimic_enabled
    table.mimic_coef0 = model.constraint_mimic_coef0
    table.mimic_coef1 = model.constraint_mimic_coef1
    for name in ("swing_limit", "twist_limit_lower", "twist_limit_upper", "twist_axis"):
        values = read(model, name)
        if values is not None:
            setattr(table, name, values)
    rows = getattr(model, "mujoco", None)
    enabled = getattr(rows, "equality_constraint_enabled", None)
    if enabled is not None and len(enabled):
        table.equality_enabled = enabled
        table.equality_polycoef = rows.equality_constraint_polycoef
    if table.tendons.dof is not None:
        attach_tendons(table.tendons, model)
    if model.tendon_count:
        attach_routes(table.routes, model)


def _route(topology, t: int, trees: list[int], count: int) -> list[Coupling]:
    """A tendon of Newton, whose rows take so many couplings."""
    group = int(topology.arrays["tree_group"][trees[0]])
    return [Coupling(ROUTE, group, source_row=t, axis=i, coordinates=count) for i in range(count)]


def _pool(table: CouplingTable, firsts: np.ndarray, topology, stride: int, device) -> CouplerPool:
    """Rows of so many dofs each; ``firsts`` has of each coupling the first of the trees that are tied together."""
    starts = table.group_start.numpy()
    rows = COUPLER_ROWS * int(starts[-1])
    sizes = {"*": rows, "unknown": rows * stride, "J": rows * stride, "touched": topology.tree_count}
    own = {"tree": firsts, "group_start": COUPLER_ROWS * starts}
    given = {name: wp.array(values.astype(np.int32), dtype=wp.int32, device=device) for name, values in own.items()}
    return allocate(CouplerPool, sizes, device, stride=stride, **given)


def _group_of_bodies(topology, *bodies) -> int | None:
    """The solve group of those among some bodies that dofs move; None where none is."""
    arrays = topology.arrays
    links = [link for b in bodies if b >= 0 and (link := arrays["body_link"][b]) >= 0]
    trees = arrays["link_tree"][moved_links(arrays, links)]
    return int(arrays["tree_group"][trees[0]]) if len(trees) else None


def _require_links(model, topology, what: str, *bodies) -> None:
    for body in bodies:
        if body >= 0 and topology.arrays["body_link"][body] < 0:
            raise NotImplementedError(
                f"{what} ties {body_name(model, body)}, which no joint moves; attach that body to the world with a joint"
            )


def _loop(model, host: OnHost, topology, j: int) -> list[Coupling]:
    """A joint that closes a loop: the rows its axes leave over, and what acts along each axis; or a rod's strains."""
    kind = newton.JointType(int(host.joint_type[j]))
    a, b = int(host.joint_parent[j]), int(host.joint_child[j])
    _require_links(model, topology, joint_name(model, j), a, b)
    group = _group_of_bodies(topology, a, b)
    start = int(host.joint_qd_start[j])
    if kind == newton.JointType.FREE or group is None:
        return []
    where = dict(group=group, joint=j, body_a=a, body_b=b, axis_start=start)
    if kind in (newton.JointType.DISTANCE, newton.JointType.ROD):
        return [Coupling(ROD if kind == newton.JointType.ROD else DISTANCE_RANGE, **where)]
    linear, angular = (int(x) for x in host.joint_dof_dim[j])
    if kind == newton.JointType.BALL:
        linear, angular = 0, 3
    _require_independent(model, host, j, start, linear)
    where |= dict(linear_axes=linear, angular_axes=angular)
    along = [Coupling(act, axis=i, **where) for i in range(linear + angular) for act in (LOOP_LAWS, LOOP_FORCES)]
    return [Coupling(BODIES, **where), *along]


def _ball_limits(model, host: OnHost, topology) -> list[Coupling | None]:
    """The limits of ball joints where they are set at construction."""
    if not has_ball_limits(model):
        return []
    swing, axis = read(model, "swing_limit").numpy(), read(model, "twist_axis").numpy()
    lower, upper = read(model, "twist_limit_lower").numpy(), read(model, "twist_limit_upper").numpy()
    out = []
    for j in (int(j) for j in np.flatnonzero(ball_limits(model))):
        if newton.JointType(int(host.joint_type[j])) != newton.JointType.BALL:
            raise ValueError(
                f"{joint_name(model, j)} is no ball joint, but has a swing or twist limit; limit its axes instead"
            )
        if not (swing[j] <= np.pi and lower[j] <= upper[j] and np.linalg.norm(axis[j]) > 0.0):
            raise ValueError(
                f"{joint_name(model, j)} needs a swing limit of at most pi, a twist limit whose lower bound is below its "
                f"upper one, and a twist axis; it has {swing[j]:g}, {lower[j]:g} to {upper[j]:g}, and {axis[j]}"
            )
        a, b = int(host.joint_parent[j]), int(host.joint_child[j])
        group, start = _group_of_bodies(topology, a, b), int(host.joint_qd_start[j])
        if group is not None:
            out.append(Coupling(BALL_LIMITS, group, joint=j, body_a=a, body_b=b, axis_start=start))
    return out


def _require_independent(model, host: OnHost, j: int, start: int, linear: int) -> None:
    """Refuse linear axes of a loop joint that lie in one line or plane: their coordinates would not be unique."""
    axes = host.joint_axis[start : start + linear].astype(float)
    if linear > 1 and np.linalg.svd(axes, compute_uv=False).min() < 1.0e-2:
        raise ValueError(
            f"the linear axes of {joint_name(model, j)} are nearly dependent; give a loop joint independent axes"
        )


def _distances(host: OnHost, topology) -> list[Coupling | None]:
    """Tree joints of type DISTANCE move freely within their bounds."""
    out = []
    joints = topology.arrays["link_joint"]
    joints = joints[joints != FREELY]
    for j in joints[host.joint_type[joints] == newton.JointType.DISTANCE]:
        a, b = int(host.joint_parent[j]), int(host.joint_child[j])
        start = int(host.joint_qd_start[j])
        group = _group_of_bodies(topology, a, b)
        out.append(Coupling(DISTANCE_RANGE, group, joint=int(j), body_a=a, body_b=b, axis_start=start))
    return out


def _dofs_of(host: OnHost, topology, joint: int, axis: int = -1) -> tuple[int, int]:
    """First solver dof and dof count of a joint of a tree, or of one of its axes given as a Newton dof."""
    link = topology.arrays["body_link"][host.joint_child[joint]]
    first, last = topology.arrays["link_dof_start"][link : link + 2]
    if axis >= 0:
        return int(first + np.flatnonzero(topology.arrays["dof_qd"][first:last] == axis)[0]), 1
    return int(first), int(last - first)


def _follow(model, host: OnHost, topology, follower: int, leader: int, axes=(-1, -1), **where) -> Coupling:
    """One joint's coordinates as a polynomial of another's."""
    for joint in (follower, leader):
        if joint in topology.loop_joints:
            raise NotImplementedError(
                f"{joint_name(model, joint)} closes a loop and is coupled to another joint, which SolverSAP does for tree "
                "joints only; couple another joint of the loop, or cut the loop there"
            )
        if joint >= 0 and newton.JointType(int(host.joint_type[joint])) not in _SCALAR:
            raise NotImplementedError(
                f"{joint_name(model, joint)} is coupled to another joint but has no scalar coordinates; "
                "couple prismatic, revolute or D6 joints"
            )
    dof_a, count = _dofs_of(host, topology, follower, axes[0])
    dof_b = -1
    if leader >= 0:
        dof_b, other = _dofs_of(host, topology, leader, axes[1])
        if other != count:
            raise ValueError(
                f"{joint_name(model, follower)} has {count} coordinates but follows {joint_name(model, leader)} with "
                f"{other}; couple joints of the same number of axes"
            )
    tree = topology.arrays["link_tree"][topology.arrays["dof_link"][dof_a]]
    group = int(topology.arrays["tree_group"][tree])
    return Coupling(COORDINATES, group, coordinates=count, dof_a=dof_a, dof_b=dof_b, **where)


_SCALAR = (newton.JointType.PRISMATIC, newton.JointType.REVOLUTE, newton.JointType.D6)


def _mimics(model, host: OnHost, topology) -> list[Coupling]:
    """Mimic joints; an older mimic constraint on the same follower counts instead, a curved equality row before both."""
    leader = host.joint_mimic_joint
    curved = _curved(model)
    followers = host.constraint_mimic_joint0 if model.constraint_mimic_count else np.zeros(0, int)
    out = [
        _follow(model, host, topology, j, int(leader[j]), source=MIMIC_JOINT, source_row=j)
        for j in range(model.joint_count)
        if leader[j] >= 0 and j not in followers and j not in curved
    ]
    for row, follower in enumerate(followers):
        if follower in curved:
            continue
        other = int(host.constraint_mimic_joint1[row])
        out.append(
            _follow(model, host, topology, int(follower), other, switch_row=row, source=MIMIC_ROW, source_row=row)
        )
    return out


def _curved(model) -> dict[int, int]:
    """Map joints that follow another by a polynomial above degree one to their equality rows: a mimic knows a line only."""
    table = equality_table(model)
    if table is None:
        return {}
    of_joints = table.equality_constraint_type.numpy() == JOINT
    curved = table.equality_constraint_polycoef.numpy()[:, 2:].any(axis=1)
    follower = table.equality_constraint_joint1.numpy()
    return {int(follower[row]): int(row) for row in np.flatnonzero(of_joints & curved)}


def _equalities(model, host: OnHost, topology) -> list[Coupling | None]:
    """Equality rows that importers left as they are; converted ones act through what they became."""
    table = equality_table(model)
    if table is None:
        return []
    column = {
        name: getattr(table, f"equality_constraint_{name}").numpy()
        for name in (
            "type", "body1", "body2", "anchor", "relpose", "torquescale", "joint1", "joint2", "joint1_dof", "joint2_dof",
            "target_kind",
        )
    }  # fmt: skip
    body_q = body_poses(model).numpy()
    out, curved = [], _curved(model).values()
    for row, target in enumerate(column["target_kind"]):
        if (target == 0 and column["type"][row] != TENDONS) or row in curved:
            entry = {name: values[row] for name, values in column.items()}
            tie = _joint_equality if entry["type"] == JOINT else _body_equality
            out.append(tie(model, host, topology, body_q, row, entry))
    return out


def _note_origins(model, entries: list[Coupling]) -> None:
    """Tell joints and mimics that an importer made of equalities of which."""
    table = equality_table(model)
    if table is None:
        return
    kinds, targets = table.equality_constraint_target_kind.numpy(), table.equality_constraint_target.numpy()
    made = {(int(kind), int(target)): row for row, (kind, target) in enumerate(zip(kinds, targets, strict=True))}
    for entry in entries:
        if entry.joint >= 0:
            entry.origin = made.get((OF_JOINT, entry.joint), -1)
        elif entry.kind == COORDINATES and entry.source == MIMIC_ROW:
            entry.origin = made.get((OF_MIMIC, entry.source_row), -1)


def _switches_as_made(model, entries: list[Coupling]) -> np.ndarray:
    """Return (equalities,) whether each is on, by its own switch or by that of what an importer made of it.

    One that is off although what it became is on was turned before the solver was built.
    """
    on = equality_table(model).equality_constraint_enabled.numpy().astype(bool)
    joints, mimics = model.joint_enabled.numpy(), model.constraint_mimic_enabled.numpy()
    for entry in entries:
        if entry.origin >= 0:
            on[entry.origin] |= bool(joints[entry.joint] if entry.joint >= 0 else mimics[entry.switch_row])
    return on


def _tendon_equalities(model, rows, groups: dict[int, int]) -> list[Coupling]:
    """One tendon's length as a polynomial of another's, both above those at zero coordinates."""
    table = equality_table(model)
    if table is None:
        return []
    out, tendons = [], [getattr(table, f"equality_constraint_tendon{i}").numpy() for i in (1, 2)]
    for row in np.flatnonzero(table.equality_constraint_type.numpy() == TENDONS):
        pair = [int(tendon[row]) for tendon in tendons]
        tied = [t for t in pair if t >= 0]
        met = {groups.get(t) for t in tied}
        if met == {None} and rows.paths.keys().isdisjoint(tied):
            continue  # another solver's
        if len(met) != 1 or None in met:
            raise NotImplementedError(
                f"{equality_name(model, row)} ties {' and '.join(tendon_name(model, t) for t in tied)}, which are not tendons "
                "of joints or sites of one world and solver; tie such, or use SolverMuJoCo"
            )
        out.append(
            Coupling(
                TENDON_LENGTHS,
                groups[tied[0]],
                switch_row=int(row),
                source_row=int(row),
                coordinates=1,
                dof_a=pair[0],
                dof_b=pair[1],
            )  # fmt: skip
        )
    return out


def _joint_equality(model, host: OnHost, topology, body_q, row: int, entry: dict) -> Coupling:
    """One joint's coordinates, or one axis of a joint, as a polynomial of another's."""
    leader, follower = int(entry["joint2"]), int(entry["joint1"])
    axes = (int(entry["joint1_dof"]), int(entry["joint2_dof"]))
    if follower < 0:
        raise ValueError(f"{equality_name(model, row)} is of joints and names none that follows; give it a joint1")
    return _follow(model, host, topology, follower, leader, axes=axes, switch_row=row, source_row=row)


def _body_equality(model, host: OnHost, topology, body_q, row: int, entry: dict) -> Coupling | None:
    """A point of one body on a point of another (connect), or the bodies held together (weld)."""
    if entry["type"] not in (CONNECT, WELD):
        raise NotImplementedError(
            f"{equality_name(model, row)} has type {entry['type']}, which SolverSAP does not enforce; "
            "use connect, weld, joint or tendon"
        )
    a, b = int(entry["body1"]), int(entry["body2"])
    _require_links(model, topology, equality_name(model, row), a, b)
    group = _group_of_bodies(topology, a, b)
    if group is None:
        return None
    X_a, X_b = pose_of(body_q, a), pose_of(body_q, b)
    anchor = wp.vec3(*(float(x) for x in entry["anchor"]))
    point_b, free = anchor, 3
    if entry["type"] == CONNECT:
        point_b = wp.transform_point(wp.transform_inverse(X_b) * X_a, anchor)
        frame_a = wp.transform(anchor, wp.quat_identity())
    else:
        frame_a = wp.transform(*(float(x) for x in entry["relpose"]))
        if not np.any(entry["relpose"][3:]):  # as built
            frame_a = wp.transform_inverse(X_a) * X_b * wp.transform(anchor, wp.quat_identity())
        if entry["torquescale"] > 0.0:
            free = 0
    frame_b = wp.transform(point_b, wp.quat_identity())
    return Coupling(
        BODIES, group, switch_row=row, body_a=a, body_b=b, frame_a=np.array(frame_a), frame_b=np.array(frame_b),
        angular_axes=free,
    )  # fmt: skip
