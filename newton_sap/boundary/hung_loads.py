"""What hangs on what by couplings, for the damping of links too light for the pull on them (F 1.1).

Trees and single bodies, cut wherever a link flies, are pieces. A coupling between two pieces carries what would fall without it:
all that floats on its one side, or on its other, as a share of what else holds that side. Who hangs on whom is known at
construction; masses and gravity are read live.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import newton
import numpy as np
import warp as wp

from ..constraints.coupling_table import BODIES, DISTANCE_RANGE, ROD, ROUTE
from ..coupling_bundles import CouplingTable
from ..multibody.efforts import gravity_at
from ..workspace import Bodies, Tree
from .topology import flying_links

wp.set_module_options({"enable_backward": False})

ANCHORED = -1
"""The piece of all that the world or a kinematic body holds."""


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


class HungLoads:
    """Gives ``tree`` and ``table`` room for the pull of what hangs by couplings, and weighs it once per step."""

    def __init__(self, tree: Tree, table: CouplingTable, topology, model):
        terms = _terms(table, topology, model) if len(table.kind) else {}
        self.kernels = [weigh_loads] if terms else []
        self._count = topology.link_count + len(table.kind) if terms else 0
        tree.hung_links = topology.link_count if terms else 0
        tree.hung_pull = wp.zeros(tree.hung_links, dtype=wp.vec3d, device=model.device)
        table.pull = wp.zeros(self._count - tree.hung_links, dtype=wp.vec3d, device=model.device)
        rows = [terms.get(i, []) for i in range(self._count)]
        flat = [term for row in rows for term in row]
        self._loads = Loads()
        self._loads.start = wp.array(np.cumsum([0, *map(len, rows)]), dtype=wp.int32, device=model.device)
        self._loads.body = wp.array([body for body, _ in flat], dtype=wp.int32, device=model.device)
        self._loads.share = wp.array([share for _, share in flat], dtype=wp.float32, device=model.device)

    def weigh(self, solver) -> None:
        """Weigh what hangs, by the masses and the gravity of this step."""
        inputs = [self._loads, solver.bodies, solver.tree, solver.couplings]
        solver.launches.at_once(weigh_loads, self._count, inputs)


@dataclass
class _Ties:
    """The couplings of a model on the host, and those that carry, as ``(coupling, piece, piece)``."""

    kind: np.ndarray
    joint: np.ndarray
    links: np.ndarray
    """(K, 2) those that each ties, -1 for none."""
    carrying: list[tuple[int, int, int]]


def _terms(table: CouplingTable, topology, model) -> dict[int, list[tuple[int, float]]]:
    """Map links, and couplings counted on from there, to ``(body, share of its weight)``."""
    pieces = _pieces(topology, model)
    ties, members, beside, terms = _ties(table, topology, pieces), {}, {}, {}
    for piece, body in zip(pieces.tolist(), topology.arrays["link_body"].tolist(), strict=True):
        members.setdefault(piece, []).append(body)
    for c, first, second in ties.carrying:
        beside.setdefault(first, []).append((c, second))
        beside.setdefault(second, []).append((c, first))
    for c, *sides in ties.carrying:
        if ties.kind[c] not in (BODIES, DISTANCE_RANGE):
            continue
        (first, held_a), (second, held_b) = (_floating(beside, side, c) for side in sides)
        if first & second or held_a + held_b == 0:
            continue
        share = held_a / (held_a + held_b)
        pulls = [(body, share) for piece in second for body in members[piece]]
        pulls += [(body, share - 1.0) for piece in first for body in members[piece]]
        terms[topology.link_count + c] = pulls = [term for term in pulls if term[1]]
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


def _pieces(topology, model) -> np.ndarray:
    """Return the piece of each link, named by its first one, or :data:`ANCHORED`."""
    arrays = topology.arrays
    flies = flying_links(model, arrays["link_joint"])
    kinematic = (model.body_flags.numpy()[arrays["link_body"]] & int(newton.BodyFlags.KINEMATIC)) != 0
    pieces = np.full(topology.link_count, ANCHORED)
    for link, parent in enumerate(arrays["link_parent"][: topology.link_count]):
        if flies[link] and not kinematic[link]:
            pieces[link] = link
        elif not flies[link] and parent >= 0:
            pieces[link] = pieces[parent]
    return pieces


def _ties(table: CouplingTable, topology, pieces) -> _Ties:
    """Read which couplings carry; those within one piece do not."""
    arrays, carrying, of_link = topology.arrays, [], np.append(pieces, ANCHORED)
    kind, joint, trees, starts, rows = (
        getattr(table, name).numpy() for name in ("kind", "joint", "tree", "tree_start", "source_row")
    )
    bodies = np.array([table.body_a.numpy(), table.body_b.numpy()]).T
    links = np.where(bodies >= 0, arrays["body_link"][bodies], -1)
    guides = [array.numpy() for array in (table.routes.start, table.routes.body)] if (kind == ROUTE).any() else []
    for c, what in enumerate(kind):
        if what in (BODIES, DISTANCE_RANGE, ROD):
            carrying.append((c, *of_link[links[c]].tolist()))
        elif what == ROUTE:
            tied = of_link[arrays["tree_link_start"][trees[starts[c] : starts[c + 1]]]].tolist()
            if (guides[1][slice(*guides[0][rows[c] :][:2])] < 0).any():
                tied.append(ANCHORED)
            carrying += [(c, *pair) for pair in itertools.pairwise(tied)]
    return _Ties(kind, joint, links, [tie for tie in carrying if tie[1] != tie[2]])


def _floating(beside, start: int, without: int) -> tuple[set[int], int]:
    """Return what floats with a piece when a coupling is cut, and how many other couplings hold that."""
    if start == ANCHORED:
        return set(), 1
    found, queue, held = {start}, [start], 0
    while queue:
        for c, other in beside[queue.pop()]:
            if c == without:
                continue
            if other == ANCHORED:
                held += 1
            elif other not in found:
                found.add(other)
                queue.append(other)
    return found, held
