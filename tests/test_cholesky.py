"""Skyline factors against NumPy, in memory that holds NaN wherever nothing may be read."""

import numpy as np
import pytest
import warp as wp

from newton_sap.linalg.cholesky import Skyline, begin_rows, factor_alone, row_filling, shared_solve, solve_alone
from newton_sap.linalg.chunks import CHUNK, padded

GUARD = 40
"""Entries around matrix and right-hand side that must stay as they are."""


def random_skyline(random, size: int) -> np.ndarray:
    """Return the last row that each column reaches: separate blocks, branches and columns of their own."""
    reach = random.choice([0, 2, 5, size], size=size)
    return np.minimum(np.arange(size) + (reach * random.random(size)).astype(int), size - 1)


def long_skyline(random, size: int) -> np.ndarray:
    """Return the same of long trees, of which contacts couple some: many columns in a row reach as far as each other."""
    ends = np.unique([*random.integers(1, size + 1, size=2), size]) - 1
    last = ends[np.searchsorted(ends, np.arange(size))]
    for start, end in zip([0, *ends + 1], ends, strict=False):
        if random.random() < 0.7:
            touching = slice(start, random.integers(start, end + 1) + 1)
            last[touching] = np.maximum(last[touching], random.integers(end, size))
    return last


def random_matrix(random, last: np.ndarray) -> np.ndarray:
    """Return a symmetric positive definite matrix, dense inside of the skyline."""
    size = len(last)
    lower = np.tril(random.normal(size=(size, size))) * (np.arange(size)[:, None] <= last[None, :])
    symmetric = np.tril(lower, -1) + np.tril(lower, -1).T
    return symmetric + np.diag(1.0 + np.abs(symmetric).sum(axis=0))


def solving_kernel(real, alone: bool):
    """Return a kernel that fills, factors and solves as a step does."""
    fill_row = row_filling(real)
    factor, substitute, _ = shared_solve(real)

    @wp.kernel(enable_backward=False, module="unique")
    def solve(H: wp.array[real], at: Skyline, A: wp.array[wp.float64], x: wp.array[wp.float64]):
        begin_rows(at.last, at.first, at.offset, at.size)
        for row in range(at.size):
            block = int(0)
            if not wp.static(alone):
                block = at.first[at.offset + row]
            fill_row(H, at, row, block, A, row * at.size + block, wp.float64(0.0))
        if wp.static(alone):
            factor_alone(H, at)
            solve_alone(H, at, x)
        else:
            factor(H, at, x, 0, 1)
            substitute(H, at, x, 0, 1)

    return solve


@pytest.mark.parametrize("real, alone, accuracy", [
    (wp.float64, True, 1e-13), (wp.float64, False, 1e-13), (wp.float32, False, 1e-4),
])  # fmt: skip
def test_solution_is_that_of_the_dense_matrix(real, alone, accuracy):
    """Whatever the skyline, and without reading or writing what does not belong to it."""
    random = np.random.default_rng(3)
    kernel = solving_kernel(real, alone)
    sizes = [*range(1, 20), 31, 32, 33, 70] * 3
    skylines = [random_skyline(random, size) for size in sizes]
    for last in [*skylines, *(long_skyline(random, size) for size in (35, 36, 37, 60, 150, 300, 301) * 3)]:
        size = len(last)
        A, b = random_matrix(random, last), random.normal(size=size)
        stride = padded(size)
        entries = (size + 1) * stride
        H = wp.full(entries + 2 * GUARD, np.nan, dtype=real, device="cpu")
        x = wp.array(np.concatenate([np.full(GUARD, 7.0), b, np.full(GUARD, 7.0)]), dtype=wp.float64, device="cpu")
        at = Skyline()
        at.start, at.stride, at.size, at.offset = GUARD, stride, size, GUARD
        at.last = wp.array(np.concatenate([np.zeros(GUARD), last]), dtype=wp.int32, device="cpu")
        blocks = wp.array(np.concatenate([A.ravel(), np.full(CHUNK, np.nan)]), dtype=wp.float64, device="cpu")
        if not alone:
            at.first = wp.zeros(GUARD + size, dtype=wp.int32, device="cpu")
        wp.launch(kernel, dim=1, inputs=[H, at, blocks, x], device="cpu")
        solved = x.numpy()
        np.testing.assert_allclose(solved[GUARD:-GUARD], np.linalg.solve(A, b), rtol=0.0, atol=accuracy)
        assert (solved[:GUARD] == 7.0).all() and (solved[-GUARD:] == 7.0).all()
        assert np.isnan(H.numpy()[:GUARD]).all() and np.isnan(H.numpy()[-GUARD:]).all()


def test_rows_begin_where_a_column_reaches_them():
    """The first column of a row is the first that reaches as far."""
    random = np.random.default_rng(4)
    for size in (1, 6, 40):
        last = random_skyline(random, size)
        expected = [int(np.flatnonzero(last >= row)[0]) for row in range(size)]
        first = wp.zeros(size, dtype=wp.int32, device="cpu")
        wp.launch(begin, dim=1, inputs=[wp.array(last, dtype=wp.int32, device="cpu"), first, size], device="cpu")
        assert first.numpy().tolist() == expected


@wp.kernel(enable_backward=False)
def begin(last: wp.array[wp.int32], first: wp.array[wp.int32], size: int):
    begin_rows(last, first, 0, size)


def test_rows_are_padded_to_whole_chunks():
    """Rows of one entry take a chunk, those of one more than a chunk two."""
    assert [padded(n) for n in (1, CHUNK, CHUNK + 1)] == [CHUNK, CHUNK, 2 * CHUNK]
