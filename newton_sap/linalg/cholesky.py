"""Cholesky factors of skyline matrices, without square roots: ``H = L^T D^-1 L``, ``L`` in place of H's lower triangle.

The dofs that a dof moves come after it. Eliminated from the end, entries of column ``i`` below its last row stay zero, so
separate trees and the branches of one cost each other little. ``D`` is the diagonal of ``L``; its reciprocals follow the
last row. A row takes what all rows below it give, chunk by chunk, so that nothing is summed across a vector. The loops are C so that the
compiler sees plain pointers; the same text serves CPU and CUDA.
"""

from functools import cache

import warp as wp

from .chunks import chunked, padded

wp.set_module_options({"enable_backward": False})


@wp.struct
class Skyline:
    """Where a matrix lies in an array: entry (i, j), j <= i, at ``start + i stride + j``."""

    start: wp.int64
    stride: int  # of whole chunks
    size: int
    offset: int  # of row 0 in ``first``, ``last`` and the right-hand side
    shift: int  # what ``last`` counts from
    last: wp.array[wp.int32]  # the last row that a column reaches
    first: wp.array[wp.int32]  # the first column that a row has; absent: 0 for all


def skyline_entries(rows):
    """Return how many entries a matrix of so many rows takes with the reciprocals after it, an array for an array."""
    return (rows + 1) * padded(rows)


row_stride = wp.func(padded)  # what kernels call


@wp.func_native("""
    if (!first.data) return;
    int column = 0;
    for (int row = 0; row < size; ++row) {
        while (last.data[base + column] < row) ++column;
        first.data[base + row] = column;
    }
""")
def begin_rows(last: wp.array[wp.int32], first: wp.array[wp.int32], base: int, size: int):
    """Find the first column that each row has, unless all have column 0."""
    ...


@wp.func
def widen_skyline(last: wp.array[wp.int32], unknown: wp.array[wp.int32], first: int, count: int, base: int):
    """Let the Hessian's rows of a constraint's unknowns reach the last of them."""
    rightmost = int(0)
    for s in range(first, first + count):
        rightmost = wp.max(rightmost, unknown[s])
    for s in range(first, first + count):
        wp.atomic_max(last, base + unknown[s], rightmost)


_FILL_ROW = """
    {real}* h = H.data + at.start + (long long)row * at.stride;
    const double* a = A.data + entry;
    for (int k = at.first.data ? at.first.data[at.offset + row] / width * width : 0; k < block; k += width)
        *(chunk*)(h + k) = 0;
    for (int k = block; k <= row; k += width) *(chunk*)(h + k) = CONVERT(*(const source*)(a + k - block));
    h[row] += ({real})diagonal;
"""

_HEAD = """
    const auto work = [](
        {real}* h, double* b, long long stride, int size, const int* first, const int* last, int shift, int lane, int lanes
    ) APART {{
        {real}* inverse = h + size * stride;
"""

_TAIL = """
    }};
    work(
        H.data + at.start, {x}, at.stride, at.size, at.first.data ? at.first.data + at.offset : nullptr,
        at.last.data + at.offset, at.shift, {lane}, {lanes}
    );
"""

_FACTOR = """
        {together}
        for (int j = size - 1; j >= 0; --j) {{
            {real}* row = h + j * stride;
            const int begin = first ? first[j] / width * width : 0;
            int count = wp::min(last[j] - shift, size - 1) - j;
            const {real}* whole = &row[j];
            {past}
            for (int i = begin + {lane} * width; i <= j; i += {lanes} * width) {{
                // Where lanes go column by column, the pivot's own lane alone may read what it is about to write.
                const bool last_chunk = width > 1 || i == j;
                const {real} before = last_chunk ? *whole : 0;
                {real} pivot = last_chunk ? row[j] : 0;
                chunk sum = *(const chunk*)(row + i);
                int k = count;
                while (first && first[j + k] / width * width > i) --k;  // rows that begin later
                const {real}* below = row + k * stride;
                {forward_begin}
#pragma clang loop unroll(disable)
                for (; k > 0; --k, below -= stride) {{
                    const {real} entry = below[j] * inverse[j + k];
                    sum -= entry * *(const chunk*)(below + i);
                    pivot -= entry * below[j];
                    {forward_add}
                }}
                *(chunk*)(row + i) = sum;
                if (j < i + width) {{
                    // What cancellation eats of a pivot is rounding; keeping the diagonal keeps the direction one of descent.
                    inverse[j] = 1 / (pivot > ({real}){tiny} * before ? pivot : before);
                    {forward_end}
                }}
            }}
            {sync}
        }}
"""

_TOGETHER = """
#if WP_TILE_BLOCK_DIM == 1
        // Where many rows lie below, four take what these give at a time, so that each of them is read once for all.
        constexpr int few = 4, many = 32, deep = 128;
        {real} diagonal[few], entry[deep][few];
        int passed = 0;  // of the four, those still to be finished
        const auto alike = [&](int j) {{
            for (int p = 1; p < few; ++p)
                if (last[j - p] != last[j] || (first && first[j - p] / width != first[j] / width)) return false;
            return true;
        }};
        const auto go_past = [&](int j, int end, int begin) {{
            for (int p = 0; p < few; ++p) diagonal[p] = h[(j - p) * (stride + 1)];
            for (int from = j + 1; from <= end; from += deep) {{
                const int to = wp::min(from + deep - 1, end);
                for (int k = from; k <= to; ++k)
                    for (int p = 0; p < few; ++p) entry[k - from][p] = h[k * stride + j - p] * inverse[k];
                for (int i = begin; i <= j; i += width) {{
                    int k = to;
                    while (first && k >= from && first[k] / width * width > i) --k;
                    chunk sum[few];
                    for (int p = 0; p < few; ++p) sum[p] = *(const chunk*)(h + (j - p) * stride + i);
#pragma clang loop unroll(disable)
                    for (; k >= from; --k) {{
                        const chunk below = *(const chunk*)(h + k * stride + i);
                        for (int p = 0; p < few; ++p) sum[p] -= entry[k - from][p] * below;
                    }}
                    for (int p = 0; p < few; ++p) *(chunk*)(h + (j - p) * stride + i) = sum[p];
                }}
            }}
        }};
#endif
"""

_FORWARD_PAST = """
                for (int p = 0; p < few; ++p)
                    for (int k = count; k > 0; --k) b[j - p] -= h[(j + k) * stride + j - p] * b[j + k];
"""

_PAST = """
#if WP_TILE_BLOCK_DIM == 1
            if (passed == 0 && count >= many && j >= few && alike(j)) {{
                go_past(j, j + count, begin);
                passed = few;
                {forward_past}
            }}
            if (passed > 0) {{
                count = few - passed;
                whole = &diagonal[count];
                --passed;
            }}
#endif
"""

_FORWARD = """
        for (int j = size - 1; j >= 0 && {lane} == 0; --j) {{
            const int count = wp::min(last[j] - shift, size - 1) - j;
            const {real}* below = h + (j + count) * stride + j;
            double y = b[j];
            for (int k = count; k > 0; --k, below -= stride) y -= *below * b[j + k];
            b[j] = y * inverse[j];
        }}
        {sync}
"""

_BACKWARD = """
        for (int j = 0; j < size; ++j) {{
            const int count = wp::min(last[j] - shift, size - 1) - j;
            const {real}* below = h + j * stride + j;
            for (int k = 1 + {lane}; k <= count; k += {lanes}) b[j + k] -= below[k * stride] * inverse[j + k] * b[j];
            {sync}
        }}
"""


def _native(text: str, real, x: str = "nullptr", shared: bool = False):
    """Return what makes a device function of C text for a matrix of Warp scalar type ``real``.

    Lanes that share a matrix solve with it once, so the right-hand side goes along with the factor.
    """
    words = {"real": _c_name(real), "forward_past": _FORWARD_PAST if shared else ""}
    return wp.func_native(
        chunked(
            _HEAD + text + _TAIL,
            _c_name(real),
            together=_TOGETHER.format(**words),
            past=_PAST.format(**words),
            tiny="1e-14" if real is wp.float64 else "1e-6",
            x=x,
            lane="lane" if shared else "0",
            lanes="lanes" if shared else "1",
            sync="WP_TILE_SYNC();" if shared else "",
            forward_begin="double y = last_chunk ? b[j] : 0;" if shared else "",
            forward_add="y -= below[j] * b[j + k];" if shared else "",
            forward_end="b[j] = y * inverse[j];" if shared else "",
        )
    )


def _c_name(real) -> str:
    return "double" if real is wp.float64 else "float"


@cache
def row_filling(real):
    """Return the function that fills a row of a matrix of Warp scalar type ``real``."""

    @wp.func_native(chunked(_FILL_ROW, _c_name(real)))
    def fill_row(
        H: wp.array[real],
        at: Skyline,
        row: int,
        block: int,
        A: wp.array[wp.float64],
        entry: int,
        diagonal: wp.float64,
    ):
        """One row of H: A's from column ``block`` to the diagonal, to which something is added, after zeros.

        A single lane fills rows in ascending order: what one writes and reads too far belongs to those after it.
        """
        ...

    return fill_row


@cache
def shared_solve(real):
    """Return (factor, substitute, solve): the first factors and goes half the way to ``x = H^-1 x``, the second the rest, the third
    goes all of it with a factor that is there.

    The lanes of a block work on one matrix and must meet in all of them. The right-hand side is float64.
    """
    x = "x.data + at.offset"

    @_native(_FACTOR, real, x, shared=True)
    def factor(H: wp.array[real], at: Skyline, x: wp.array[wp.float64], lane: int, lanes: int): ...

    @_native(_BACKWARD, real, x, shared=True)
    def substitute(H: wp.array[real], at: Skyline, x: wp.array[wp.float64], lane: int, lanes: int): ...

    @_native(_FORWARD + _BACKWARD, real, x, shared=True)
    def solve(H: wp.array[real], at: Skyline, x: wp.array[wp.float64], lane: int, lanes: int): ...

    return factor, substitute, solve


@_native(_FACTOR, wp.float64)
def factor_alone(H: wp.array[wp.float64], at: Skyline):
    """Factor a matrix, each thread its own."""
    ...


@_native(_FORWARD + _BACKWARD, wp.float64, "x.data + at.offset")
def solve_alone(H: wp.array[wp.float64], at: Skyline, x: wp.array[wp.float64]):
    """x = H^-1 x from the factor, each thread its own."""
    ...
