"""Rows of matrices by whole chunks: vectors of a CPU, which has one lane; neighbouring lanes elsewhere."""

CHUNK = 16
"""Entries of a row that a CPU works on at a time."""


def padded(columns: int):
    """Return how far apart rows of so many columns lie, an array for an array: what is done to chunks of a row stays in it."""
    return (columns + CHUNK - 1) // CHUNK * CHUNK


CHUNKS = """
#if WP_TILE_BLOCK_DIM == 1
#pragma clang fp contract(fast)
    constexpr int width = {width};
    typedef {real} chunk __attribute__((ext_vector_type(width), aligned(sizeof({real})), may_alias));
    typedef double source __attribute__((ext_vector_type(width), aligned(sizeof(double)), may_alias));
#define CONVERT(x) __builtin_convertvector(x, chunk)
#define APART __attribute__((noinline))  // what is inlined into the minimiser finds no registers left
#else
    constexpr int width = 1;
    typedef {real} chunk;
    typedef double source;
#define CONVERT(x) ((chunk)(x))
#define APART
#endif
"""
"""C that starts a function: ``width``, ``chunk`` of the matrix and ``source`` of float64, where to load them and how to convert."""

END = """
#undef CONVERT
#undef APART
"""
"""C that ends it."""


def chunked(text: str, real: str = "double", **words) -> str:
    """Return C text between both, its braces doubled, with words put in."""
    return (CHUNKS + text + END).format(width=CHUNK, real=real, **words)
