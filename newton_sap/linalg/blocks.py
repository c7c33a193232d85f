"""Symmetric matrices of many small dense blocks, and a factorisation of them that leaves nothing but their diagonal changed.

A *node* is a range of unknowns, named by the first of them. With ``H = L + own + L^T``, ``L`` the blocks of pairs below the
diagonal, the approximation is ``P = (D + L) D^-1 (D + L)^T`` with block-diagonal ``D``: from each node, what the earlier ones
take is subtracted, ``D_a = own_a - sum_i H_ai D_i^-1 H_ia``, and what elimination would put elsewhere is left out. Where ``H``
is a positive definite block diagonal plus positive semidefinite terms of at most two nodes each, so is every ``D_a``: an
earlier node takes no more than what its own terms gave. Where no node has more than one later neighbour, ``P`` is ``H``.

Since ``H = (D + L) + (D + L)^T + own - 2 D``, a product with ``(D + L)^-1 H (D + L)^-T`` takes the two solves alone
(Eisenstat, 1981). The loops are C so that the compiler sees plain pointers; the same text serves CPU and CUDA, where the
lanes of a block share the rows of one node.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class BlockMatrix:
    """One such matrix per cluster of unknowns. Lengths: ``U`` unknowns, ``I`` items that may couple nodes."""

    node: wp.array[wp.int32]  # (U,) first unknown of its node, counted from its cluster's first
    node_end: wp.array[wp.int32]  # (U,) one past the last
    row: wp.array[wp.int32]  # (U,) entry of own and inverse in an unknown's row and its node's first column
    own: wp.array[wp.float64]  # blocks on the diagonal
    inverse: wp.array[wp.float64]  # of the factor of each D_a = L_a L_a^T, below the diagonal and mirrored above it
    start: wp.array[
        wp.int64
    ]  # (G,) where the pairs of a group's clusters begin, after ``item_entries`` for each item before a cluster's
    item_entries: int
    pair: wp.array[wp.float64]  # blocks of pairs, rows of the earlier node by columns of the later
    pair_start: wp.array[wp.int32]  # (U,) of a node, named by its first unknown, pairs with later ones
    pair_end: wp.array[wp.int32]  # (U,)
    later: wp.array[wp.int32]  # (I,) of a pair
    entry: wp.array[wp.int32]  # (I,) of a pair, counted from its cluster's first
    # while pairs are looked for
    found: wp.array[wp.int32]  # (U,) the last pair that a node was found to be the later of
    item: wp.array[wp.int32]  # (I,) items by their earlier node
    item_pair: wp.array[wp.int32]  # (I,) their earlier node, then their pair


@wp.struct
class BlockRange:
    """The part of a block matrix that belongs to one cluster, and who works on it."""

    unknowns: int
    base: int  # its first unknown
    items: int  # and its first item, which is its first pair, too
    start: wp.int64  # first entry of its pairs
    lane: int
    lanes: int


_GROUP = """
#if !defined(__CUDA_ARCH__)
#pragma clang fp contract(fast) reassociate(on)
#endif
    const int lane = WP_TILE_BLOCK_DIM == 1 ? 0 : at.lane, lanes = WP_TILE_BLOCK_DIM;
    const int* node = H.node.data + at.base;
    const int* node_end = H.node_end.data + at.base;
    const int* row = H.row.data + at.base;
    const int* pair_start = H.pair_start.data + at.base;
    const int* pair_end = H.pair_end.data + at.base;
    const int* later = H.later.data + at.items;
    const int* entry = H.entry.data + at.items;
    double* pair = H.pair.data + at.start;
    const auto stride_of = [&](int i) { return node_end[i] > i + 1 ? row[i + 1] - row[i] : 1; };
#if WP_TILE_BLOCK_DIM == 1
    // A row of a free body's block, which a CPU works on as a whole.
    typedef double six __attribute__((ext_vector_type(6), aligned(sizeof(double)), may_alias));
#endif
"""

_SOLVE_NODE = """
    // y = X^T X b, that is D y = b
    const auto solve_node = [&](int i, int n, const double* b, double* y) {
        const double* X = H.inverse.data + row[i];
        const int stride = stride_of(i);
        b += i; y += i;
#if WP_TILE_BLOCK_DIM == 1
        if (n == 6) {
            typedef long long places __attribute__((ext_vector_type(6)));
            const places place = {0, 1, 2, 3, 4, 5};
            six Xb = 0, sum = 0;
            for (int c = 0; c < 6; ++c) Xb += b[c] * (place >= c ? *(const six*)(X + c * stride) : 0);
            for (int r = 0; r < 6; ++r) sum += Xb[r] * (place <= r ? *(const six*)(X + r * stride) : 0);
            *(six*)y = sum;
            return;
        }
#endif
        for (int r = lane; r < n; r += lanes) {
            double sum = 0.0;
            for (int c = 0; c <= r; ++c) sum += X[r * stride + c] * b[c];
            y[r] = sum;
        }
        WP_TILE_SYNC();
        for (int first = 0; first < n; first += lanes) {  // a row needs those below it alone
            const int k = first + lane;
            double sum = 0.0;
            for (int r = k; r < n; ++r) sum += X[k * stride + r] * y[r];
            WP_TILE_SYNC();
            if (k < n) y[k] = sum;
            WP_TILE_SYNC();
        }
    };
"""


@wp.func_native(
    _GROUP
    + """
    // What cancellation eats of a pivot is rounding.
    const auto kept = [](double pivot, double before) { return pivot > 1e-14 * before ? pivot : before; };
    // D = L L^T and X = L^-1, below the diagonal and mirrored above it.
    const auto invert = [&](double* X, const double* own, int n, int stride) {
#if WP_TILE_BLOCK_DIM == 1
        if (n == 6) {  // D^-1 = Y^T diag(inverse) Y
            six D[6], Y[6];
            double inverse[6];
            for (int r = 0; r < 6; ++r) {
                D[r] = *(const six*)(X + r * stride);
                Y[r] = 0;
                Y[r][r] = 1.0;
            }
            for (int k = 0; k < 6; ++k) {
                inverse[k] = 1.0 / kept(D[k][k], own[k * stride + k]);
                for (int r = k + 1; r < 6; ++r) {
                    const double factor = D[k][r] * inverse[k];
                    D[r] -= factor * D[k];
                    Y[r] -= factor * Y[k];
                }
            }
            for (int k = 0; k < 6; ++k) Y[k] *= sqrt(inverse[k]);
            for (int r = 0; r < 6; ++r)
                for (int c = 0; c < 6; ++c) X[r * stride + c] = c <= r ? Y[r][c] : Y[c][r];
            return;
        }
#endif
        for (int k = 0; k < n; ++k) {
            const double inverse = 1.0 / sqrt(kept(X[k * stride + k], own[k * stride + k]));
            WP_TILE_SYNC();
            for (int r = k + 1 + lane; r < n; r += lanes) X[r * stride + k] *= inverse;
            if (lane == 0) X[k * stride + k] = inverse;
            WP_TILE_SYNC();
            for (int r = k + 1 + lane; r < n; r += lanes)
                for (int j = k + 1; j <= r; ++j) X[r * stride + j] -= X[r * stride + k] * X[j * stride + k];
            WP_TILE_SYNC();
        }
        for (int k = lane; k < n; k += lanes)
            for (int r = k + 1; r < n; ++r) {
                double sum = 0.0;
                for (int j = k; j < r; ++j) sum += X[r * stride + j] * X[k * stride + j];
                X[k * stride + r] = -sum * X[r * stride + r];
            }
        WP_TILE_SYNC();
        for (int r = lane; r < n; r += lanes)
            for (int k = 0; k < r; ++k) X[r * stride + k] = X[k * stride + r];
        WP_TILE_SYNC();
    };
    double* XB = first_scratch.data + at.base;
    double* solved = second_scratch.data + at.base;
    // Da -= B^T X^T X B
    const auto take = [&](const double* X, int n, int stride, const double* B, int m, double* Da, int stride_a) {
#if WP_TILE_BLOCK_DIM == 1
        if (n == 6 && m == 6) {
            six W[6];
            for (int k = 0; k < 6; ++k) {
                W[k] = 0;
                for (int l = 0; l <= k; ++l) W[k] += X[k * stride + l] * *(const six*)(B + 6 * l);
            }
            for (int c = 0; c < 6; ++c) {
                six sum = 0;
                for (int k = 0; k < 6; ++k) sum += W[k][c] * W[k];
                *(six*)(Da + c * stride_a) -= sum;
            }
            return;
        }
#endif
        for (int c = 0; c < m; ++c) {
            bool some = false;  // contacts move few of a long node's unknowns
            for (int l = 0; l < n; ++l) some |= B[l * m + c] != 0.0;
            if (!some) continue;
            for (int l = lane; l < n; l += lanes) solved[l] = B[l * m + c];
            WP_TILE_SYNC();
            for (int r = lane; r < n; r += lanes) {
                double sum = 0.0;
                for (int l = 0; l <= r; ++l) sum += X[r * stride + l] * solved[l];
                XB[r] = sum;
            }
            WP_TILE_SYNC();
            for (int k = lane; k < n; k += lanes) {
                double sum = 0.0;
                for (int r = k; r < n; ++r) sum += X[k * stride + r] * XB[r];
                solved[k] = sum;
            }
            WP_TILE_SYNC();
            double* __restrict out = Da + c * stride_a;
            for (int k = 0; k < n; ++k) {
                const double factor = solved[k];
                const double* __restrict row = B + k * m;
                for (int j = lane; j < m; j += lanes) out[j] -= factor * row[j];
            }
            WP_TILE_SYNC();
        }
    };
    for (int i = 0; i < at.unknowns; i = node_end[i]) {
        const int n = node_end[i] - i;
        double* X = H.inverse.data + row[i];
        invert(X, H.own.data + row[i], n, stride_of(i));
        for (int p = pair_start[i]; p < pair_end[i]; ++p) {
            const int a = later[p];
            take(X, n, stride_of(i), pair + entry[p], node_end[a] - a, H.inverse.data + row[a], stride_of(a));
            WP_TILE_SYNC();
        }
    }
"""
)
def factor_blocks(
    H: BlockMatrix, at: BlockRange, first_scratch: wp.array[wp.float64], second_scratch: wp.array[wp.float64]
):
    """Find every D_a and invert its factor, in the place of own_a's copy."""
    ...


@wp.func_native(
    _GROUP
    + _SOLVE_NODE
    + """
    const double* b = right.data + at.base;
    double* out = x.data + at.base;
    double* rest = Dx.data + at.base;
    double* left = w.data + at.base;
    for (int end = at.unknowns; end > 0; end = node[end - 1]) {
        const int i = node[end - 1], n = end - i, stride = stride_of(i);
        const double* own = H.own.data + row[i];
#if WP_TILE_BLOCK_DIM == 1
        six products[6] = {};
#endif
        for (int r = lane; r < n; r += lanes) rest[i + r] = b[i + r];
        for (int p = pair_start[i]; p < pair_end[i]; ++p) {
            const int a = later[p], m = node_end[a] - a;
            const double* B = pair + entry[p];
#if WP_TILE_BLOCK_DIM == 1
            if (n == 6 && m == 6) {
                for (int r = 0; r < 6; ++r) products[r] += *(const six*)(B + 6 * r) * *(const six*)(out + a);
                continue;
            }
#endif
            for (int r = lane; r < n; r += lanes) {
                double sum = 0.0;
                for (int c = 0; c < m; ++c) sum += B[r * m + c] * out[a + c];
                rest[i + r] -= sum;
            }
        }
#if WP_TILE_BLOCK_DIM == 1
        if (n == 6)
            for (int r = 0; r < 6; ++r) {
                const six of = products[r];
                rest[i + r] -= (of[0] + of[2] + of[4]) + (of[1] + of[3] + of[5]);
            }
#endif
        WP_TILE_SYNC();
        solve_node(i, n, rest, out);
        WP_TILE_SYNC();
#if WP_TILE_BLOCK_DIM == 1
        if (n == 6) {
            six sum = *(const six*)(b + i) - 2.0 * *(const six*)(rest + i);
            for (int c = 0; c < 6; ++c) sum += out[i + c] * *(const six*)(own + c * stride);
            *(six*)(left + i) = sum;
            continue;
        }
#endif
        for (int r = lane; r < n; r += lanes) {
            double sum = b[i + r] - 2.0 * rest[i + r];
            for (int c = 0; c < n; ++c) sum += own[r * stride + c] * out[i + c];
            left[i + r] = sum;
        }
    }
"""
)
def solve_upper(
    H: BlockMatrix,
    at: BlockRange,
    right: wp.array[wp.float64],
    x: wp.array[wp.float64],
    Dx: wp.array[wp.float64],
    w: wp.array[wp.float64],
):
    """x with (D + L)^T x = right, D x, and w = (H - D - L) x, which is right + own x - 2 D x."""
    ...


@wp.func_native(
    _GROUP
    + _SOLVE_NODE
    + """
    double* out = x.data + at.base;
    double* rest = right.data + at.base;
    for (int i = 0; i < at.unknowns; i = node_end[i]) {
        const int n = node_end[i] - i;
        solve_node(i, n, rest, out);
        WP_TILE_SYNC();
        for (int p = pair_start[i]; p < pair_end[i]; ++p) {
            const int a = later[p], m = node_end[a] - a;
            const double* B = pair + entry[p];
#if WP_TILE_BLOCK_DIM == 1
            if (n == 6 && m == 6) {
                six taken = 0;
                for (int r = 0; r < 6; ++r) taken += out[i + r] * *(const six*)(B + 6 * r);
                *(six*)(rest + a) -= taken;
                continue;
            }
#endif
            double* __restrict later_rest = rest + a;
            for (int r = 0; r < n; ++r) {
                const double factor = out[i + r];
                const double* __restrict entries = B + r * m;
                for (int c = lane; c < m; c += lanes) later_rest[c] -= factor * entries[c];
            }
        }
        WP_TILE_SYNC();
    }
"""
)
def solve_lower(H: BlockMatrix, at: BlockRange, right: wp.array[wp.float64], x: wp.array[wp.float64]):
    """x with (D + L) x = right; leaves D x in the place of the right-hand side."""
    ...


@wp.func_native(
    _GROUP
    + """
    for (int i = 0; i < at.unknowns; i = node_end[i]) {
        const int n = node_end[i] - i, stride = stride_of(i);
        const double* __restrict a = source.data + row[i];
        double* __restrict b = to.data + row[i];
        for (int r = lane; r < n; r += lanes)
            for (int c = 0; c < n; ++c) b[r * stride + c] = a[r * stride + c];
    }
    WP_TILE_SYNC();
"""
)
def copy_diagonal(H: BlockMatrix, at: BlockRange, to: wp.array[wp.float64], source: wp.array[wp.float64]):
    """to = source, both blocks on the diagonal that lie as H's."""
    ...


@wp.func_native(
    _GROUP
    + """
    double* own = H.own.data;
    const auto add = [&](const double* j, const int* u, int count, int of_pair, const auto& G, bool both_move) {
        const int i = node[u[0]], a = node[u[count - 1]];
        const int n = node_end[i] - i, m = a == i ? 0 : node_end[a] - a;
        double* B = m ? pair + entry[of_pair] : nullptr;
#if WP_TILE_BLOCK_DIM == 1
        if (n == 6 && count == n + m && (m == 0 || m == 6)) {
            double x[3][12], Gx[3][12];
            for (int c = 0; c < count; ++c)
                for (int k = 0; k < 3; ++k) x[k][c] = j[3 * c + k];
            for (int k = 0; k < 3; ++k)
                for (int c = 0; c < count; ++c) Gx[k][c] = G[k][0] * x[0][c] + G[k][1] * x[1][c] + G[k][2] * x[2][c];
            const auto product = [&](int from, int to, double* out, int stride) {
                for (int r = 0; r < 6; ++r) {
                    const double x0 = x[0][from + r], x1 = x[1][from + r], x2 = x[2][from + r];
                    for (int c = 0; c < 6; ++c)
                        out[r * stride + c] += x0 * Gx[0][to + c] + x1 * Gx[1][to + c] + x2 * Gx[2][to + c];
                }
            };
            product(0, 0, own + row[i], stride_of(i));
            if (m == 0) return;
            product(0, 6, B, 6);
            product(6, 6, own + row[a], stride_of(a));
            return;
        }
#endif
        // What contacts add to the inertia of long nodes is there already.
        const bool within = m == 0 && both_move, skips_i = n > most && !within, skips_a = m > most;
        int split = count;
        while (split > 0 && u[split - 1] >= i + n) --split;
        for (int b = lane; b < count; b += lanes) {
            const double x = j[3 * b], y = j[3 * b + 1], z = j[3 * b + 2];
            const double g0 = G[0][0] * x + G[0][1] * y + G[0][2] * z;
            const double g1 = G[1][0] * x + G[1][1] * y + G[1][2] * z;
            const double g2 = G[2][0] * x + G[2][1] * y + G[2][2] * z;
            const auto value = [&](int c) { return g0 * j[3 * c] + g1 * j[3 * c + 1] + g2 * j[3 * c + 2]; };
            const bool early = b < split;
            if (!(early ? skips_i : skips_a)) {
                double* mine = own + row[u[b]] - node[u[b]];
                for (int c = early ? 0 : split; c < (early ? split : count); ++c) mine[u[c]] += value(c);
            }
            if (early)
                for (int c = split; c < count; ++c) B[(u[b] - i) * m + u[c] - a] += value(c);
        }
    };
    for (int c = 0; c < contacts; ++c) {
        const int slot = first + c;
        const auto& G = stiffness.data[slot].data;
        if (support.data[slot] > 0 && G[0][0] + G[1][1] + G[2][2] > 0.0) {
            const long long at_slot = (long long)slot * stride;
            const bool both_move = link_a.data[slot] >= 0 && link_b.data[slot] >= 0;
            add((const double*)(J.data + at_slot), unknown.data + at_slot, support.data[slot], H.item_pair.data[at.items + c], G, both_move);
        }
        WP_TILE_SYNC();
    }
"""
)
def add_contacts(
    H: BlockMatrix,
    at: BlockRange,
    J: wp.array[wp.vec3d],
    unknown: wp.array[wp.int32],
    stride: int,
    support: wp.array[wp.int32],
    stiffness: wp.array[wp.mat33d],
    link_a: wp.array[wp.int32],
    link_b: wp.array[wp.int32],
    most: int,
    first: int,
    contacts: int,
):
    """H += J^T G J of every contact with a G; unknowns ascend and belong to one node or the two of the item's pair.

    Nodes of more than ``most`` unknowns have theirs of contacts with other nodes, or with none, from elsewhere.
    """
    ...


_VECTORS = """
#if !defined(__CUDA_ARCH__)
#pragma clang fp contract(fast) reassociate(on)
#endif
    const int lane = WP_TILE_BLOCK_DIM == 1 ? 0 : at.lane, lanes = WP_TILE_BLOCK_DIM;
    const double* __restrict a = x.data + at.base;
"""


@wp.func_native(
    _VECTORS
    + """
    double* __restrict b = y.data + at.base;
    for (int i = lane; i < at.unknowns; i += lanes) b[i] = scale * b[i] + factor * a[i];
"""
)
def add_vector(at: BlockRange, scale: wp.float64, y: wp.array[wp.float64], factor: wp.float64, x: wp.array[wp.float64]):
    """y = scale y + factor x; each lane owns some of its unknowns."""
    ...


@wp.func_native(
    _VECTORS
    + """
    const double* __restrict b = y.data + at.base;
    double sum = 0.0;
    for (int i = lane; i < at.unknowns; i += lanes) sum += a[i] * b[i];
    return sum;
"""
)
def partial_product(at: BlockRange, x: wp.array[wp.float64], y: wp.array[wp.float64]) -> wp.float64:
    """This lane's share of x . y."""
    ...
