"""Which Hessians are formed and factored, and where those and the factors of mass matrices lie."""

from __future__ import annotations

import numpy as np

from ..linalg.cholesky import padded, skyline_entries
from ..workspace import CLUSTER_DOFS, DIRECT_DOFS, DIRECT_TREES, LONG_TREE

NO_BOUND = 2**31 - 1
LONG_PART = 3
"""Times its longest tree: as large a group is still factored, of however many trees. Blocks are fast for small ones alone."""


def is_factored(group_dofs: np.ndarray, group_trees: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Return (G,) whether a group's Hessian is formed and factored on every device, by its dofs, trees and longest tree's dofs."""
    small = (group_trees <= DIRECT_TREES) & (group_dofs <= DIRECT_DOFS)
    return small | ((longest > LONG_TREE) & (group_dofs <= LONG_PART * longest))


def factored_groups(model, group_dofs: np.ndarray, group_trees: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Return (G,) the same on the model's device. Gradients need a factor, and on a GPU lanes are expected to share long rows
    better than small blocks: the number of trees has been measured on CPUs only."""
    factored = is_factored(group_dofs, group_trees, longest)
    if model.requires_grad or model.device.is_cuda:
        factored |= group_dofs <= DIRECT_DOFS
    return factored


def longest_trees(groups: np.ndarray, tree_dofs: np.ndarray, group_count: int) -> np.ndarray:
    """Return (G,) the dofs of each group's longest tree; ``groups`` has that of each tree."""
    longest = np.zeros(group_count, dtype=int)
    np.maximum.at(longest, groups, tree_dofs)
    return longest


def largest_cluster(device) -> tuple[int, int]:
    """Return how many dofs and trees a cluster may have to be factored in a group that is not."""
    if device.is_cpu:
        return DIRECT_DOFS, DIRECT_TREES
    return min(DIRECT_DOFS, CLUSTER_DOFS), NO_BOUND


def place_matrices(factored, group_dofs, group_trees, tree_dofs, groups, group_part, device) -> tuple[dict, dict]:
    """Return where Hessians and factors lie, and how many entries hold them; of groups that are not factored, where those of their
    clusters begin, less than zero: ``-1 - start``."""
    part = group_part if device.is_cpu else None
    columns = np.where(factored, group_dofs, np.minimum(group_dofs, largest_cluster(device)[0]))
    # Clusters follow each other on a CPU; on a GPU each has its own rows, and one for its reciprocals (minimizer/ranges.py).
    rows = columns + 1 if device.is_cpu else group_dofs + np.maximum(group_trees, 1)
    hessian_start, hessian_size = place_blocks(rows * padded(columns), part)
    # A large group's preconditioner takes the place of its trees' factors, all of which it needs at once.
    alone = part is None or not factored.all()
    factor_start, factor_size = place_blocks(skyline_entries(tree_dofs), None if alone else part[groups])
    starts = {
        "group_hessian_start": np.where(factored, hessian_start, -1 - hessian_start),
        "tree_factor_start": factor_start,
    }
    return starts, {"hessian_size": hessian_size, "factor_size": factor_size}


def place_blocks(entries: np.ndarray, part: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Return where each of some dense matrices starts, and the entries that hold them all.

    A CPU thread works on those of its part one after the other: shared by them, the place of the largest stays in the
    cache. ``None`` gives each its own.
    """
    entries = entries.astype(np.int64)
    start = np.cumsum(entries) - entries if part is None else part * entries.max(initial=0)
    return start, int((start + entries).max(initial=0))
