"""How the lanes of a block work together: a barrier and a sum. A CPU block has one lane and both cost nothing."""

import warp as wp

BLOCK_DIM = 32
"""Lanes that share one solve group on CUDA; a CPU block has one. The same for every kernel: a module is compiled once
per block size."""


@wp.func_native("WP_TILE_SYNC();")
def sync():
    """Wait for the other lanes and see what they wrote."""
    ...


@wp.func
def total(x: wp.float64):
    """Sum over the lanes, the same bits on every lane."""
    return wp.tile_sum(wp.tile(x))[0]
