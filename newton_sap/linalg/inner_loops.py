"""Products with constraint Jacobians and mass-matrix rows: the inner loops of the minimiser.

Written in C so that the compiler sees plain pointers, two to four times faster on a CPU than indexed arrays; the same
text serves CUDA, where the lanes of a block share the entries of one constraint.
"""

from functools import cache

import warp as wp

from .cholesky import Skyline
from .chunks import chunked

wp.set_module_options({"enable_backward": False})


@wp.func_native("""
    const double* j = (const double*)(J.data + first);
    const int* u = unknown.data + first;
    const double* v = x.data + base;
    double a = 0, b = 0, c = 0;
    for (int s = 0; s < count; ++s) {
        const double r = v[u[s]];
        a += j[3 * s] * r; b += j[3 * s + 1] * r; c += j[3 * s + 2] * r;
    }
    return wp::vec_t<3, double>(a, b, c);
""")
def jacobian_times(
    J: wp.array[wp.vec3d], unknown: wp.array[wp.int32], first: int, count: int, x: wp.array[wp.float64], base: int
) -> wp.vec3d:
    """J x of one contact."""
    ...


@wp.func_native("""
    const double* j = (const double*)(J.data + first);
    const int* u = unknown.data + first;
    double* out = sum.data + base;
    const double a = gamma[0], b = gamma[1], c = gamma[2];
    for (int s = lane; s < count; s += lanes)
        out[u[s]] += j[3 * s] * a + j[3 * s + 1] * b + j[3 * s + 2] * c;
""")
def add_transposed(
    J: wp.array[wp.vec3d],
    unknown: wp.array[wp.int32],
    first: int,
    count: int,
    gamma: wp.vec3d,
    sum: wp.array[wp.float64],
    base: int,
    lane: int,
    lanes: int,
):
    """sum += J^T gamma of one contact; each lane owns some of its unknowns."""
    ...


_BLOCKS_TIMES = """
#if WP_TILE_BLOCK_DIM == 1
    const auto multiply = [](const double* a, long long stride, int size, const double* b, double* y) APART {{
        for (int i = 0; i < size; i += width) {{
            chunk sum = 0;
#pragma clang loop unroll(disable)
            for (int k = 0; k < size; ++k) sum += b[k] * *(const chunk*)(a + k * stride + i);
            for (int c = 0; c < width && i + c < size; ++c) y[i + c] = sum[c];
        }}
    }};
    for (int u = base; u < base + count; u += block_end.data[u] - block.data[u]) {{
        const int size = block_end.data[u] - block.data[u];
        multiply(A.data + row.data[u], size > 1 ? row.data[u + 1] - row.data[u] : 0, size, x.data + u, y.data + u);
    }}
#else
    for (int u = base + lane; u < base + count; u += lanes) {{
        const double* a = A.data + row.data[u];
        const double* b = x.data + base + block.data[u];
        double sum = 0;
        for (int k = 0; k < block_end.data[u] - block.data[u]; ++k) sum += a[k] * b[k];
        y.data[u] = sum;
    }}
#endif
"""


@wp.func_native(chunked(_BLOCKS_TIMES))
def blocks_times(
    A: wp.array[wp.float64],
    row: wp.array[wp.int32],
    block: wp.array[wp.int32],
    block_end: wp.array[wp.int32],
    x: wp.array[wp.float64],
    y: wp.array[wp.float64],
    base: int,
    count: int,
    lane: int,
    lanes: int,
):
    """y = A x for symmetric A of one block per tree, on a CPU by whole chunks of the block's rows."""
    ...


@wp.func_native("""
    const double* f = F.c;
    double* a = A.data + start;
    for (int p = first; p < last; ++p) {
        const int row = rows.data[p];
        if (row > column) break;
        const double* s = S.data[row].c;
        const double value = (s[0] * f[0] + s[1] * f[1]) + (s[2] * f[2] + s[3] * f[3]) + (s[4] * f[4] + s[5] * f[5]);
        a[(row - offset) * n + column - offset] = value;
        a[(column - offset) * n + row - offset] = value;
    }
""")
def write_symmetric(
    A: wp.array[wp.float64],
    start: int,
    n: int,
    rows: wp.array[wp.int32],
    first: int,
    last: int,
    offset: int,
    column: int,
    S: wp.array[wp.spatial_vectord],
    F: wp.spatial_vectord,
):
    """A[row, column] = A[column, row] = S[row] . F for ascending rows up to the column, all numbered from ``offset``."""
    ...


_G_TIMES_COLUMN = """
        const double x = j[3 * b], y = j[3 * b + 1], z = j[3 * b + 2];
        const double g0 = G.data[0][0] * x + G.data[0][1] * y + G.data[0][2] * z;
        const double g1 = G.data[1][0] * x + G.data[1][1] * y + G.data[1][2] * z;
        const double g2 = G.data[2][0] * x + G.data[2][1] * y + G.data[2][2] * z;
"""

_ADD_BLOCK = (
    """
#if !defined(__CUDA_ARCH__)
#pragma clang fp contract(fast)
#endif
    const double* j = (const double*)(J.data + first);
    const int* u = unknown.data + first;
    {real}* h = H.data + at.start;
    for (int b = begin + lane; b < count; b += lanes) {{
"""
    + _G_TIMES_COLUMN
    + """
        {real}* row = h + (long long)u[b] * at.stride;
        for (int a = 0; a < wp::min(b + 1, end); ++a) {{
            {real} entry = row[u[a]];  // three fused products onto it: a sum of its own is put together from vectors
            entry += ({real})(g0 * j[3 * a]);
            entry += ({real})(g1 * j[3 * a + 1]);
            entry += ({real})(g2 * j[3 * a + 2]);
            row[u[a]] = entry;
        }}
    }}
"""
)


@cache
def block_adding(real):
    """Return the function that adds a contact's block, or some of it, to a Hessian of Warp scalar type ``real``."""
    name = "double" if real is wp.float64 else "float"

    @wp.func_native(_ADD_BLOCK.format(real=name))
    def add_block(
        H: wp.array[real],
        at: Skyline,
        J: wp.array[wp.vec3d],
        unknown: wp.array[wp.int32],
        first: int,
        count: int,
        begin: int,
        end: int,
        G: wp.mat33d,
        lane: int,
        lanes: int,
    ):
        """H += J^T G J of one contact, lower triangle; unknowns ascend. Of its support, rows from ``begin`` on and columns before ``end``."""
        ...

    return add_block
