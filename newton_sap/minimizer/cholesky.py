"""Cholesky factors and solves: small dense blocks by one thread, and a skyline matrix shared by the lanes of a block.

The inner loops are C so that the compiler sees plain pointers; the same text serves CPU and CUDA. The skyline
holds the upper triangle, and its factor is upper triangular, H = L L^T: what a dof moves comes after it, so entries of
row ``i`` right of ``last[i]`` are zero and stay zero, and branches of a tree cost each other nothing.
"""

from functools import cache

import warp as wp

wp.set_module_options({"enable_backward": False})

_DOT = """
    {real} dot = 0;
    {{
#if !defined(__CUDA_ARCH__)
#pragma clang fp contract(fast) reassociate(on)
#endif
        for (int k = from; k < to; ++k) dot += Li[k] * Lj[k];
    }}
"""

_FACTOR_BLOCK = (
    """
    const double* a = A.data + start;
    double* l = L.data + place;
    const int from = skip;
    for (int i = skip; i < n; ++i) {
        double* Li = l + i * n;
        for (int j = skip; j <= i; ++j) {
            const double* Lj = l + j * n;
            const int to = j;
"""
    + _DOT.format(real="double")
    + """
            const double x = a[i * n + j] - dot;
            Li[j] = (i == j) ? 1 / sqrt(x) : x * Lj[j];
        }
    }
"""
)

_SOLVE_BLOCK = (
    """
    const double* l = L.data + start;
    double* b = x.data + offset;
    const double* Lj = b;
    const int from = skip;
    for (int i = skip; i < n; ++i) {
        const double* Li = l + i * n;
        const int to = i;
"""
    + _DOT.format(real="double")
    + """
        b[i] = (b[i] - dot) * Li[i];
    }
    for (int i = n - 1; i >= skip; --i) {
        const double* Li = l + i * n;
        const double y = b[i] * Li[i];
        b[i] = y;
        for (int k = skip; k < i; ++k) b[k] -= Li[k] * y;
    }
"""
)


@wp.func_native(_FACTOR_BLOCK)
def factor_block(A: wp.array[wp.float64], start: int, L: wp.array[wp.float64], place: int, n: int, skip: int): ...


@wp.func_native(_SOLVE_BLOCK)
def solve_block(L: wp.array[wp.float64], start: int, n: int, skip: int, x: wp.array[wp.float64], offset: int): ...


_FACTOR_SKYLINE = """
    {real}* h = H.data + start;
    const int* end = last.data + offset;
    for (int j = n - 1; j >= 0; --j) {{
        {real}* Lj = h + (long long)j * n;
        for (int i = j - lane; i >= 0; i -= lanes) {{
            if (end[i] < j) continue;
            {real}* Li = h + (long long)i * n;
            const int from = j + 1, to = (end[i] < end[j] ? end[i] : end[j]) + 1;
{dot}
            const {real} before = Li[j], after = before - dot;
            // What cancellation eats of a pivot is rounding; keeping the diagonal keeps the direction one of descent.
            Li[j] = (i == j && !(after > ({real}){tiny} * before)) ? before : after;
        }}
        WP_TILE_SYNC();
        const {real} pivot = Lj[j];
        WP_TILE_SYNC();
        const {real} inverse = ({real})1 / sqrt(pivot);
        for (int i = j - 1 - lane; i >= 0; i -= lanes)
            if (end[i] >= j) h[(long long)i * n + j] *= inverse;
        if (lane == 0) Lj[j] = inverse;
        WP_TILE_SYNC();
    }}
"""

_SOLVE_SKYLINE = """
    const {real}* h = H.data + start;
    const int* end = last.data + offset;
    double* b = x.data + offset;
    for (int j = n - 1; j >= 0; --j) {{
        const double y = b[j] * h[(long long)j * n + j];
        WP_TILE_SYNC();
        if (lane == 0) b[j] = y;
        for (int i = j - 1 - lane; i >= 0; i -= lanes)
            if (end[i] >= j) b[i] -= h[(long long)i * n + j] * y;
        WP_TILE_SYNC();
    }}
    for (int j = 0; j < n; ++j) {{
        const {real}* Lj = h + (long long)j * n;
        const double y = b[j] * Lj[j];
        WP_TILE_SYNC();
        if (lane == 0) b[j] = y;
        for (int k = j + 1 + lane; k <= end[j]; k += lanes) b[k] -= Lj[k] * y;
        WP_TILE_SYNC();
    }}
"""


@cache
def skyline_functions(real):
    """Return (factor, solve) for a Hessian of Warp scalar type ``real``; the right-hand side stays float64."""
    name = "double" if real is wp.float64 else "float"
    dot = _DOT.format(real=name)
    tiny = "1e-14" if real is wp.float64 else "1e-6"

    @wp.func_native(_FACTOR_SKYLINE.format(real=name, dot=dot, tiny=tiny))
    def factor_skyline(
        H: wp.array[real], start: wp.int64, last: wp.array[wp.int32], offset: int, n: int, lane: int, lanes: int
    ): ...

    @wp.func_native(_SOLVE_SKYLINE.format(real=name))
    def solve_skyline(
        H: wp.array[real],
        start: wp.int64,
        last: wp.array[wp.int32],
        offset: int,
        n: int,
        x: wp.array[wp.float64],
        lane: int,
        lanes: int,
    ): ...

    return factor_skyline, solve_skyline
