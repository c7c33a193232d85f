"""What hangs on what by couplings, for the damping of links too light for the pull on them (F 1.1).

Trees and single bodies, cut wherever a link flies, are pieces. A coupling between two pieces carries what would fall without it:
all that floats on its one side, or on its other, as a share of what else holds that side. Where its sides hang together besides, a load
goes through it as a current through one of equal resistors. Ropes hold nothing for joints: they may be slack. Who hangs on
whom is found out at construction and when the model's owner tells of a change; masses and gravity are read live.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import newton
import numpy as np
import warp as wp

from .boundary.topology import flying_links
from .constraints.coupling_table import BODIES, DISTANCE_RANGE, ROD, ROUTE, is_enabled
from .coupling_bundles import CouplingTable
from .multibody.efforts import gravity_at
from .workspace import Bodies, Tree

wp.set_module_options({"enable_backward": False})

ANCHORED = -1
"""The piece of all that the world or a kinematic body holds."""

CHANGES = (
    newton.ModelFlags.JOINT_PROPERTIES | newton.ModelFlags.BODY_PROPERTIES | newton.ModelFlags.CONSTRAINT_PROPERTIES
)
"""What tells of joints, bodies or equalities that others hang on, or no longer."""

LEAST = 1.0e-6
"""Shares below this are rounding."""


@wp.struct
class Loads:
    """Bodies that hang on links and their subtrees (the first ``L`` entries) and, by couplings, on their first bodies (``K`` more)."""

    start: wp.array[wp.int32]  # (L + K + 1,) range of each in the next two
    body: wp.array[wp.int32]
    share: wp.array[wp.float32]  # of its weight; negative where the first body hangs on the second


@wp.kernel
def weigh_loads(loads: Loads, bodies: Bodies, tree: Tree, table: CouplingTable):
    """The pull of what hangs on each link, and on the first body of each coupling."""
    i = wp.tid()
    pull = wp.vec3d()
    for k in range(loads.start[i], loads.start[i + 1]):
        body = loads.body[k]
        pull += wp.float64(loads.share[k] * bodies.mass[body]) * gravity_at(bodies, body)
    if i < tree.hung_links:
        tree.hung_pull[i] = pull
    else:
        table.pull[i - tree.hung_links] = pull


@wp.kernel
def find_switched_on(table: CouplingTable, is_on: wp.array[wp.bool]):
    """Which couplings act."""
    c = wp.tid()
    is_on[c] = is_enabled(table, c)


class HungLoads:
    """Gives ``tree`` and ``table`` room for the pull of what may hang by couplings, and weighs it once per step."""

    def __init__(self, tree: Tree, table: CouplingTable, topology, model):
        self._table, self._topology = table, topology
        nowhere_held = np.zeros(topology.link_count, bool)
        all_on = np.ones(len(table.kind), bool)
        could = len(table.kind) and _ties(table, topology, _pieces(topology, model, nowhere_held), all_on).carrying
        self.kernels = [weigh_loads, find_switched_on] if could else []
        self._count = topology.link_count + len(table.kind) if could else 0
        tree.hung_links = topology.link_count if could else 0
        tree.hung_pull = wp.zeros(tree.hung_links, dtype=wp.vec3d, device=model.device)
        table.pull = wp.zeros(self._count - tree.hung_links, dtype=wp.vec3d, device=model.device)
        self._built_for = None
        self._loads: list[Loads] = []  # the last one counts; graphs recorded with others may be replayed
        self.renew(model)

    def renew(self, model, flags=newton.ModelFlags.ALL) -> None:
        """Look again at who hangs on whom, by what is switched on and which bodies are kinematic."""
        if not self._count or not flags & CHANGES:
            return
        held = (model.body_flags.numpy()[self._topology.arrays["link_body"]] & int(newton.BodyFlags.KINEMATIC)) != 0
        is_on = wp.empty(len(self._table.kind), dtype=wp.bool, device=model.device)
        wp.launch(find_switched_on, len(is_on), [self._table, is_on], device=model.device, record_tape=False)
        on = is_on.numpy()
        built_for = (held.tobytes(), on.tobytes())
        if built_for == self._built_for:
            return
        self._built_for = built_for
        pieces = _pieces(self._topology, model, held)
        terms = _terms(_ties(self._table, self._topology, pieces, on), self._topology, pieces)
        rows = [terms.get(i, []) for i in range(self._count)]
        flat = [term for row in rows for term in row]
        loads = Loads()
        loads.start = wp.array(np.cumsum([0, *map(len, rows)]), dtype=wp.int32, device=model.device)
        loads.body = wp.array([body for body, _ in flat], dtype=wp.int32, device=model.device)
        loads.share = wp.array([share for _, share in flat], dtype=wp.float32, device=model.device)
        self._loads.append(loads)

    def weigh(self, solver) -> None:
        """Weigh what hangs, by the masses and the gravity of this step."""
        if self._count:
            inputs = [self._loads[-1], solver.bodies, solver.tree, solver.couplings]
            solver.launches.at_once(weigh_loads, self._count, inputs)


@dataclass
class _Ties:
    """The couplings of a model on the host, and those that carry, as ``(coupling, piece, piece)``."""

    kind: np.ndarray
    joint: np.ndarray
    links: np.ndarray
    """(K, 2) those that each ties, -1 for none."""
    carrying: list[tuple[int, int, int]]


def _terms(ties: _Ties, topology, pieces) -> dict[int, list[tuple[int, float]]]:
    """Map links, and couplings counted on from there, to ``(body, share of its weight)``."""
    members, terms = {}, {}
    for piece, body in zip(pieces.tolist(), topology.arrays["link_body"].tolist(), strict=True):
        members.setdefault(piece, []).append(body)
    by_all, by_joints = _Web(ties.carrying), _Web([tie for tie in ties.carrying if ties.kind[tie[0]] in (BODIES, ROD)])
    for c, first, second in ties.carrying:
        if ties.kind[c] not in (BODIES, DISTANCE_RANGE):
            continue
        web = by_all if ties.kind[c] == DISTANCE_RANGE else by_joints
        shares = web.shares(c, first, second)
        pulls = [(body, share) for piece, share in shares.items() for body in members[piece] if abs(share) > LEAST]
        if pulls:
            terms[topology.link_count + c] = pulls
            _hang_on_links(terms, ties, topology, c, pulls)
    return terms


def _hang_on_links(terms, ties: _Ties, topology, c: int, pulls) -> None:
    """Let both ends of a coupling pull at their links and at those above, but where that of a tree joint already does."""
    first, second = ties.links[c].tolist()
    if ties.joint[c] >= 0 and topology.arrays["link_joint"][second] == ties.joint[c]:
        return
    for link, sign in ((first, 1.0), (second, -1.0)):
        while link >= 0:
            terms.setdefault(link, []).extend((load, sign * share) for load, share in pulls)
            link = int(topology.arrays["link_parent"][link])


def _pieces(topology, model, kinematic: np.ndarray) -> np.ndarray:
    """Return the piece of each link, named by its first one, or :data:`ANCHORED`."""
    arrays = topology.arrays
    flies = flying_links(model, arrays["link_joint"])
    pieces = np.full(topology.link_count, ANCHORED)
    for link, parent in enumerate(arrays["link_parent"][: topology.link_count]):
        if flies[link] and not kinematic[link]:
            pieces[link] = link
        elif not flies[link] and parent >= 0:
            pieces[link] = pieces[parent]
    return pieces


def _ties(table: CouplingTable, topology, pieces, on: np.ndarray) -> _Ties:
    """Read which couplings carry; those within one piece do not, nor those that are off."""
    arrays, carrying, of_link = topology.arrays, [], np.append(pieces, ANCHORED)
    kind, joint, trees, starts, rows = (
        getattr(table, name).numpy() for name in ("kind", "joint", "tree", "tree_start", "source_row")
    )
    bodies = np.array([table.body_a.numpy(), table.body_b.numpy()]).T
    links = np.where(bodies >= 0, arrays["body_link"][bodies], -1)
    guides = [array.numpy() for array in (table.routes.start, table.routes.body)] if (kind == ROUTE).any() else []
    for c in np.flatnonzero(on).tolist():
        what = kind[c]
        if what in (BODIES, DISTANCE_RANGE, ROD):
            carrying.append((c, *of_link[links[c]].tolist()))
        elif what == ROUTE:
            tied = of_link[arrays["tree_link_start"][trees[starts[c] : starts[c + 1]]]].tolist()
            if (guides[1][slice(*guides[0][rows[c] :][:2])] < 0).any():
                tied.append(ANCHORED)
            carrying += [(c, *pair) for pair in itertools.pairwise(tied)]
    return _Ties(kind, joint, links, [tie for tie in carrying if tie[1] != tie[2]])


class _Web:
    """What pieces hang together by: ``(coupling, piece, piece)``."""

    def __init__(self, ties: list[tuple[int, int, int]]):
        self._beside: dict[int, list[tuple[int, int]]] = {}
        self._resistances: dict[int, tuple[dict[int, int], np.ndarray]] = {}
        for c, first, second in ties:
            self._beside.setdefault(first, []).append((c, second))
            self._beside.setdefault(second, []).append((c, first))

    def shares(self, c: int, first: int, second: int) -> dict[int, float]:
        """Map pieces to which share of their weight pulls the first side of a coupling, which counts less if it pulls the second."""
        (ahead, held_a), (behind, held_b) = (self._floating(side, c) for side in (first, second))
        if ahead & behind:
            return self._currents(ahead, first, second) if held_a else {}
        if held_a + held_b == 0:
            return {}
        share = held_a / (held_a + held_b)
        return dict.fromkeys(behind, share) | dict.fromkeys(ahead, share - 1.0)

    def _floating(self, start: int, without: int) -> tuple[set[int], int]:
        """Return what floats with a piece when a coupling is cut, and how many other couplings hold that."""
        if start == ANCHORED:
            return set(), 1
        found, queue, held = {start}, [start], 0
        while queue:
            for c, other in self._beside.get(queue.pop(), []):
                if c == without:
                    continue
                if other == ANCHORED:
                    held += 1
                elif other not in found:
                    found.add(other)
                    queue.append(other)
        return found, held

    def _currents(self, floating: set[int], first: int, second: int) -> dict[int, float]:
        """Map each piece to the current from the second to the first end of an equal resistor, by a unit of it that enters there."""
        if min(floating) not in self._resistances:
            at = {piece: i for i, piece in enumerate(sorted(floating))}
            conductance = np.zeros((len(at), len(at)))
            for piece, i in at.items():
                for _, other in self._beside[piece]:
                    conductance[i, i] += 1.0
                    if other != ANCHORED:
                        conductance[i, at[other]] -= 1.0
            self._resistances[min(floating)] = at, np.linalg.inv(conductance)
        at, resistance = self._resistances[min(floating)]
        return dict(zip(at, (resistance[at[second]] - resistance[at[first]]).tolist(), strict=True))
