"""How the lanes of a block work together: a barrier and a sum. A CPU block has one lane and both cost nothing."""

import warp as wp

BLOCK_DIM = 32
"""Lanes that share one solve group on CUDA; a CPU block has one. The same for all kernels of a module: it is compiled once per
block size, and modules may name another one."""

TREES_PER_BLOCK = 8
"""Threads of a CUDA block where each has a tree to itself. Trees of a warp wait for each other's memory, and blocks of few of
them go to more multiprocessors."""

REGISTERS = 128
"""Of a thread, in kernels whose blocks are one warp per group on CUDA: more groups at a time outweigh what is spilled."""

LANES_OF_A_LIST = 128
"""Lanes of the one CUDA block that goes through what all groups have."""

UNNAMED = 256
"""Warp's own, in the options of modules that name none."""


def block_dim(kernel: wp.Kernel) -> int:
    """Threads per block on CUDA: ``BLOCK_DIM``, unless the kernel's module names another number."""
    size = kernel.module.options["block_dim"]
    return BLOCK_DIM if size == UNNAMED else size


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
