"""Cholesky factors of skyline matrices: ``H = U U^T`` with ``U`` in place of the upper triangle.

The dofs that a dof moves come after it. Eliminated from the end, entries of row ``i`` right of its last one stay zero, so
separate trees and the branches of one cost each other nothing. The diagonal of ``U`` is kept as its reciprocal. The
loops are C so that the compiler sees plain pointers; the same text serves CPU and CUDA.
"""

from functools import cache

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Skyline:
    """Where a matrix lies in an array: entry (i, j) at ``start + i stride + j``."""

    start: wp.int64
    stride: int
    size: int
    offset: int  # of row 0 in the array that holds each row's last column, and in the right-hand side
    shift: int  # what those columns count from


@wp.func
def widen_skyline(last: wp.array[wp.int32], unknown: wp.array[wp.int32], first: int, count: int, base: int):
    """Let the Hessian's rows of a constraint's unknowns reach the last of them."""
    rightmost = int(0)
    for s in range(first, first + count):
        rightmost = wp.max(rightmost, unknown[s])
    for s in range(first, first + count):
        wp.atomic_max(last, base + unknown[s], rightmost)


_FACTOR = """
#if !defined(__CUDA_ARCH__)
#pragma clang fp contract(fast) reassociate(on)
#endif
    {real}* h = H.data + at.start;
    const long long stride = at.stride;
    const int* last = columns.data + at.offset;
    for (int j = at.size - 1; j >= 0; --j) {{
        {real}* Uj = h + j * stride;
        const int end = wp::min(last[j] - at.shift, at.size - 1);
        {real} squares = 0;
        for (int k = j + 1; k <= end; ++k) squares += Uj[k] * Uj[k];
        // What cancellation eats of a pivot is rounding; keeping the diagonal keeps the direction one of descent.
        const {real} before = Uj[j], after = before - squares;
        const {real} inverse = ({real})1 / sqrt(after > ({real}){tiny} * before ? after : before);
        for (int i = j - 1 - lane; i >= 0; i -= lanes) {{
            const int to = wp::min(last[i] - at.shift, end);
            if (last[i] - at.shift < j) continue;
            {real}* Ui = h + i * stride;
            {real} dot = 0;
            for (int k = j + 1; k <= to; ++k) dot += Ui[k] * Uj[k];
            Ui[j] = (Ui[j] - dot) * inverse;
        }}
        {sync}
        if (lane == 0) Uj[j] = inverse;  // every lane has read the pivot
    }}
    {sync}
"""

_SOLVE = """
    const {real}* h = H.data + at.start;
    const long long stride = at.stride;
    const int* last = columns.data + at.offset;
    double* b = x.data + at.offset;
    for (int j = at.size - 1; j >= 0; --j) {{
        const double y = b[j] * h[j * stride + j];
        {sync}
        if (lane == 0) b[j] = y;
        for (int i = j - 1 - lane; i >= 0; i -= lanes)
            if (last[i] - at.shift >= j) b[i] -= h[i * stride + j] * y;
        {sync}
    }}
    for (int j = 0; j < at.size; ++j) {{
        const {real}* Uj = h + j * stride;
        const int end = wp::min(last[j] - at.shift, at.size - 1);
        const double y = b[j] * Uj[j];
        {sync}
        if (lane == 0) b[j] = y;
        for (int k = j + 1 + lane; k <= end; k += lanes) b[k] -= Uj[k] * y;
        {sync}
    }}
"""


@cache
def skyline_functions(real, shared: bool):
    """Return (factor, solve) for a matrix of Warp scalar type ``real``; the right-hand side is float64.

    The lanes of a block work on one matrix if ``shared``, and must meet in both functions; else each thread on its own.
    """
    text = {
        "real": "double" if real is wp.float64 else "float",
        "tiny": "1e-14" if real is wp.float64 else "1e-6",
        "sync": "WP_TILE_SYNC();" if shared else "",
    }

    @wp.func_native(_FACTOR.format(**text))
    def factor(H: wp.array[real], at: Skyline, columns: wp.array[wp.int32], lane: int, lanes: int): ...

    @wp.func_native(_SOLVE.format(**text))
    def solve(
        H: wp.array[real], at: Skyline, columns: wp.array[wp.int32], x: wp.array[wp.float64], lane: int, lanes: int
    ): ...

    return factor, solve


factor_alone, solve_alone = skyline_functions(wp.float64, shared=False)
