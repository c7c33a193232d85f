"""How the lanes of a block work together: a barrier and a sum. A CPU block has one lane and both cost nothing."""

import warp as wp

BLOCK_DIM = 32
"""Lanes that share one solve group on CUDA; a CPU block has one. The same for every kernel: a module is compiled once
per block size."""


@wp.func_native("WP_TILE_SYNC();")
def sync():
    """Wait for the other lanes and see what they wrote."""
    ...


# A sum written in Python would take storage that all CPU threads of the process share.
@wp.func_native("""
    if constexpr (WP_TILE_BLOCK_DIM == 1) {
        return x;
    } else {
        auto each = wp::tile<double>(x);
        auto sum = wp::tile_sum(each);
        return sum.extract(wp::tile_coord(0));
    }
""")
def total(x: wp.float64) -> wp.float64:
    """Sum over the lanes, the same bits on every lane."""
    ...
