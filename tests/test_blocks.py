"""Block matrices against dense ones: assembly, factorisation, solves; and what makes the factorisation safe."""

import numpy as np
import pytest
import warp as wp

from newton_sap.linalg import blocks
from newton_sap.linalg.blocks import BlockMatrix, BlockRange
from newton_sap.linalg.lanes import BLOCK_DIM

BASE, ITEMS, START = 3, 2, 5
"""Where the group begins in arrays that it shares with others."""
MOST = 100
"""More unknowns than any node has."""
STRIDE = 16
"""Room for unknowns of a contact."""


@wp.kernel(enable_backward=False)
def assemble(
    H: BlockMatrix,
    at: BlockRange,
    J: wp.array[wp.vec3d],
    unknown: wp.array[wp.int32],
    stride: int,
    support: wp.array[wp.int32],
    G: wp.array[wp.mat33d],
    link_a: wp.array[wp.int32],
    link_b: wp.array[wp.int32],
    most: int,
):
    """H += J^T G J of every contact, less what nodes of more than so many unknowns get from elsewhere."""
    _block, lane = wp.tid()
    at.lane = lane
    blocks.add_contacts(H, at, J, unknown, stride, support, G, link_a, link_b, most, 0, G.shape[0])


@wp.kernel(enable_backward=False)
def factor(H: BlockMatrix, at: BlockRange, first: wp.array[wp.float64], second: wp.array[wp.float64]):
    """The factor of every node's D, inverted."""
    _block, lane = wp.tid()
    at.lane = lane
    blocks.factor_blocks(H, at, first, second)


@wp.kernel(enable_backward=False)
def solve(
    H: BlockMatrix,
    at: BlockRange,
    b: wp.array[wp.float64],
    upper: wp.array[wp.float64],
    D_upper: wp.array[wp.float64],
    rest: wp.array[wp.float64],
    lower: wp.array[wp.float64],
    D_lower: wp.array[wp.float64],
):
    """Both triangles."""
    _block, lane = wp.tid()
    at.lane = lane
    blocks.solve_upper(H, at, b, upper, D_upper, rest)
    blocks.solve_lower(H, at, D_lower, lower)


@wp.kernel(enable_backward=False)
def copy(H: BlockMatrix, at: BlockRange):
    """The blocks on the diagonal, where their factors will be."""
    _block, lane = wp.tid()
    at.lane = lane
    blocks.copy_diagonal(H, at, H.inverse, H.own)


class Problem:
    """Random nodes, of which contacts couple some; dense, and as a block matrix with the same positive definite start."""

    def __init__(self, sizes, pairs, stiffness=1.0, seed=0, margin=0, most=MOST):
        rng = np.random.default_rng(seed)
        self.most = most
        ends = np.cumsum(sizes)
        starts = ends - sizes
        self.starts, self.ends, self.n = starts, ends, int(ends[-1])
        self.A = np.zeros((self.n, self.n))
        for s, e in zip(starts, ends, strict=True):
            root = rng.normal(size=(e - s, e - s))
            self.A[s:e, s:e] = root @ root.T + 0.1 * np.eye(e - s)
        pairs = sorted(tuple(sorted(p)) for p in pairs)
        self.H = self.A.copy()
        J, unknown, support, of_pair, G = [], [], [], [], []
        links = []  # of both bodies; every other contact of one node is between two bodies of it
        for p, (i, a) in enumerate([*pairs, *pairs, *((i, i) for i in range(len(sizes)))]):
            nodes = [i] if i == a else [i, a]
            u = np.concatenate([np.arange(starts[k], ends[k]) for k in nodes])
            if p % 3 == 1:  # some move with a part of each node alone
                u = np.concatenate([np.arange(starts[k], ends[k])[:: 1 + (sizes[k] > 2)] for k in nodes])
            j = rng.normal(size=(len(u), 3))
            root = rng.normal(size=(3, 3))
            g = stiffness * root @ root.T
            within = i == a and p % 2 == 1
            links.append((i, a) if within or i != a else (i, -1))
            added = j @ g @ j.T
            for k in nodes:
                if sizes[k] > most and not within:
                    own = (starts[k] <= u) & (u < ends[k])
                    added[np.ix_(own, own)] = 0.0
            self.H[np.ix_(u, u)] += added
            J.append(np.pad(j, ((0, STRIDE - len(u)), (0, 0)), constant_values=np.nan))
            unknown.append(np.pad(u, (0, STRIDE - len(u)), constant_values=-1))
            support.append(len(u))
            of_pair.append(pairs.index((i, a)) if i != a else -1)
            G.append(g)
        self.pairs = pairs
        G.append(np.zeros((3, 3)))  # an open contact
        J.append(J[0])
        unknown.append(unknown[0])
        support.append(support[0])
        of_pair.append(-1)
        links.append((0, -1))
        self.contacts = (
            wp.array(np.concatenate(J), dtype=wp.vec3d),
            wp.array(np.concatenate(unknown), dtype=wp.int32),
            STRIDE,
            wp.array(support, dtype=wp.int32),
            wp.array(np.array(G), dtype=wp.mat33d),
            *(wp.array(np.array(links)[:, side], dtype=wp.int32) for side in range(2)),
            self.most,
        )
        self.matrix, self.at = self._blocks(sizes, margin)
        self.matrix.item_pair = wp.array([0] * ITEMS + of_pair, dtype=wp.int32)

    def _blocks(self, sizes, margin):
        """Lay the matrix out, with ``margin`` more columns per row as prescribed dofs leave."""
        n, starts, ends, pairs = self.n, self.starts, self.ends, self.pairs
        node, node_end, row = (np.zeros(BASE + n, dtype=np.int32) for _ in range(3))
        own, place = [], 0
        for s, e in zip(starts, ends, strict=True):
            width = e - s + margin
            block = np.full((width, width), np.nan)
            block[margin:, margin:] = self.A[s:e, s:e]
            node[BASE + s : BASE + e], node_end[BASE + s : BASE + e] = s, e
            row[BASE + s : BASE + e] = place + width * (margin + np.arange(e - s)) + margin
            own.append(block.ravel())
            place += width * width
        H = BlockMatrix()
        pair_start, pair_end = np.zeros(BASE + n, dtype=np.int32), np.zeros(BASE + n, dtype=np.int32)
        later, entry, used = np.zeros(ITEMS + len(pairs), dtype=np.int32), np.zeros(ITEMS + len(pairs), np.int32), 0
        for i, s in enumerate(starts):
            mine = [p for p, (earlier, _) in enumerate(pairs) if earlier == i]
            if mine:
                pair_start[BASE + s], pair_end[BASE + s] = mine[0], mine[-1] + 1
            for p in mine:
                later[ITEMS + p], entry[ITEMS + p] = starts[pairs[p][1]], used
                used += sizes[i] * sizes[pairs[p][1]]
        arrays = {"node": node, "node_end": node_end, "row": row, "pair_start": pair_start, "pair_end": pair_end}
        for name, values in {**arrays, "later": later, "entry": entry}.items():
            setattr(H, name, wp.array(values, dtype=wp.int32))
        H.own = wp.array(np.concatenate(own), dtype=wp.float64)
        H.pair = wp.zeros(START + used, dtype=wp.float64)
        at = BlockRange()
        at.unknowns, at.base, at.items, at.start, at.lane, at.lanes = n, BASE, ITEMS, START, 0, 1
        return H, at

    def assemble(self):
        """Add the contacts."""
        wp.launch_tiled(assemble, dim=[1], inputs=[self.matrix, self.at, *self.contacts], block_dim=BLOCK_DIM)
        self.matrix.inverse = wp.zeros_like(self.matrix.own)
        wp.launch_tiled(copy, dim=[1], inputs=[self.matrix, self.at], block_dim=BLOCK_DIM)
        return self

    def diagonal(self, values):
        """Blocks on the diagonal, from how the matrix lies."""
        row, out = self.matrix.row.numpy()[BASE:], np.zeros((self.n, self.n))
        for s, e in zip(self.starts, self.ends, strict=True):
            for u in range(s, e):
                out[u, s:e] = values[row[u] : row[u] + e - s]
        return out

    def dense(self):
        """The upper triangle of blocks that the matrix holds, diagonal included."""
        out = self.diagonal(self.matrix.own.numpy())
        entry, pair = self.matrix.entry.numpy()[ITEMS:], self.matrix.pair.numpy()[START:]
        for p, (i, a) in enumerate(self.pairs):
            rows, columns = slice(self.starts[i], self.ends[i]), slice(self.starts[a], self.ends[a])
            size = (self.ends[i] - self.starts[i], self.ends[a] - self.starts[a])
            out[rows, columns] = pair[entry[p] : entry[p] + size[0] * size[1]].reshape(size)
        return out

    def exact_D(self):
        """D_a = own_a - sum_i H_ai D_i^-1 H_ia, node after node."""
        D = self.diagonal(self.matrix.own.numpy())
        blocks_ = [slice(s, e) for s, e in zip(self.starts, self.ends, strict=True)]
        for i, a in self.pairs:  # sorted by the earlier node
            B = self.H[blocks_[i], blocks_[a]]
            D[blocks_[a], blocks_[a]] -= B.T @ np.linalg.solve(D[blocks_[i], blocks_[i]], B)
        return D

    def factor(self):
        """D as the kernel finds it."""
        scratch = [wp.zeros(BASE + self.n, dtype=wp.float64) for _ in range(2)]
        wp.launch_tiled(factor, dim=[1], inputs=[self.matrix, self.at, *scratch], block_dim=BLOCK_DIM)
        X = self.diagonal(self.matrix.inverse.numpy())
        assert (X == X.T).all()
        L = np.linalg.inv(np.tril(X))
        return L @ L.T


RING = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
CASES = {
    "free bodies": ([6] * 5, RING, 0),
    "of all sizes": ([1, 6, 3, 6, 9], [*RING, (1, 3), (0, 2)], 0),
    "behind prescribed dofs": ([6, 2, 6, 6, 1], [*RING, (0, 2)], 2),
    "apart": ([6, 4], [], 0),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def problem(request):
    """An assembled problem."""
    sizes, pairs, margin = request.param
    return Problem(sizes, pairs, margin=margin).assemble()


def test_contacts_add_up(problem):
    """The blocks hold A + J^T G J and nothing lies elsewhere."""
    block = np.zeros((problem.n, problem.n), dtype=bool)
    for i, a in [*problem.pairs, *((i, i) for i in range(len(problem.starts)))]:
        block[problem.starts[i] : problem.ends[i], problem.starts[a] : problem.ends[a]] = True
    np.testing.assert_allclose(problem.dense(), np.where(block, problem.H, 0.0), rtol=1e-13, atol=1e-13)


def test_long_nodes_get_from_contacts_what_they_share_with_others():
    """The own block of a long node lacks what contacts with other nodes, or with none, add to its inertia."""
    problem = Problem([1, 7, 3, 6, 9], [*RING, (1, 3), (0, 2)], most=6).assemble()
    block = np.zeros((problem.n, problem.n), dtype=bool)
    for i, a in [*problem.pairs, *((i, i) for i in range(len(problem.starts)))]:
        block[problem.starts[i] : problem.ends[i], problem.starts[a] : problem.ends[a]] = True
    np.testing.assert_allclose(problem.dense(), np.where(block, problem.H, 0.0), rtol=1e-13, atol=1e-13)


def test_solves_are_those_of_dense_triangles(problem):
    """D, and both solves with D + L, against NumPy."""
    D = problem.factor()
    np.testing.assert_allclose(D, problem.exact_D(), rtol=0.0, atol=1e-9 * np.abs(D).max())
    b = np.random.default_rng(1).normal(size=problem.n)
    given = wp.array(np.concatenate([np.zeros(BASE), b]), dtype=wp.float64)
    arrays = [wp.zeros_like(given) for _ in range(5)]
    arrays[4] = wp.clone(given)
    wp.launch_tiled(solve, dim=[1], inputs=[problem.matrix, problem.at, given, *arrays], block_dim=BLOCK_DIM)
    upper, D_upper, rest, lower, D_lower = (a.numpy()[BASE:] for a in arrays)
    own = problem.diagonal(problem.matrix.own.numpy())
    off = problem.dense() - own
    np.testing.assert_allclose((D + off) @ upper, b, atol=1e-9)
    np.testing.assert_allclose(D_upper, D @ upper, atol=1e-9)
    np.testing.assert_allclose((D + off.T) @ lower, b, atol=1e-9)
    np.testing.assert_allclose(D_lower, D @ lower, atol=1e-9)
    np.testing.assert_allclose(rest, (off + own - D) @ upper, atol=1e-9)


def test_with_one_later_neighbour_each_nothing_is_left_out():
    """Of nodes in a tree that are numbered from its leaves on, P is H itself."""
    problem = Problem([6, 3, 6, 6, 2], [(0, 3), (1, 3), (2, 4), (3, 4)]).assemble()
    D = problem.factor()
    off = problem.dense() - problem.diagonal(problem.matrix.own.numpy())
    P = (D + off.T) @ np.linalg.solve(D, D + off)
    np.testing.assert_allclose(P, problem.H, rtol=1e-9, atol=1e-9 * np.abs(problem.H).max())


@pytest.mark.parametrize("stiffness", [1.0, 1.0e4, 1.0e8])
@pytest.mark.parametrize("seed", range(5))
def test_no_node_takes_more_than_it_gave(stiffness, seed):
    """However stiff the contacts and however many cycles they close, D - A is positive semidefinite."""
    rng = np.random.default_rng(seed)
    pairs = {tuple(sorted(rng.choice(8, 2, replace=False))) for _ in range(20)}
    problem = Problem([6, 6, 4, 6, 6, 6, 7, 6], pairs, stiffness, seed).assemble()
    D = problem.exact_D()
    assert np.linalg.eigvalsh(D - problem.A).min() > -1e-13 * np.abs(problem.H).max()
    found = problem.factor()
    assert np.linalg.eigvalsh(found).min() > 0.0
    np.testing.assert_allclose(found, D, rtol=0.0, atol=1e-7 * np.abs(D).max())
