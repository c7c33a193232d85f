"""What the rows of one coupling ask for together, where no row by itself tells what the degrees of freedom can hardly do (F 2.9)."""

import warp as wp

from ..workspace import CouplerPool, Problem

wp.set_module_options({"enable_backward": False})

_mat66d = wp.types.matrix(shape=(6, 6), dtype=wp.float64)
_vec6d = wp.types.vector(length=6, dtype=wp.float64)
_vec6i = wp.types.vector(length=6, dtype=wp.int32)

SWEEPS = wp.constant(10)
"""Of Jacobi's method, more than a matrix of six rows takes."""

APART = wp.constant(wp.float64(1.0e-24))
"""Square of what two directions may have in common, over the product of their own, and count as principal."""

NOISE = wp.constant(wp.float64(1.0e-8))
"""Share of what could move a row below which its Jacobian may be rounding of float32 poses; such rows are bounded by themselves."""


@wp.struct
class Asks:
    """Velocities that rows between the same two bodies ask for, those that nothing moves left out; rotations as at a distance."""

    count: int
    row: _vec6i
    scale: _vec6d  # 1 of a translation, the distance of a rotation [m]
    v_hat: _vec6d  # [m/s]
    W: _mat66d  # J A^-1 J' with the diagonal of A [1/kg]
    bend: wp.float64  # the most that a unit of impulse changes what one of their Jacobians says [1 / (kg m)]


@wp.func
def row_product(pool: CouplerPool, problem: Problem, i: int, k: int, base: int):
    """J_i A^-1 J_k' of two rows with the same unknowns in the same order."""
    sum = wp.float64(0.0)
    for s in range(pool.support[i]):
        scale = problem.scale[base + pool.unknown[i * pool.stride + s]]
        sum += pool.J[i * pool.stride + s] * pool.J[k * pool.stride + s] * scale * scale
    return sum


@wp.func
def gather_asks(pool: CouplerPool, problem: Problem, row: int, shifts: int, turns: int, base: int):
    """What ``shifts`` rows of translations and ``turns`` ones of rotations ask for.

    ``vc`` has what could move each row, ``dvc`` how fast its Jacobian changes.
    """
    asks = Asks()
    shift = wp.float64(0.0)
    turn = wp.float64(0.0)
    for i in range(row, row + shifts + turns):
        w = wp.float64(0.0)
        if pool.support[i] > 0:
            w = row_product(pool, problem, i, i, base)
        if w > NOISE * pool.vc[i]:
            asks.row[asks.count] = i
            asks.count += 1
            if i < row + shifts:
                shift += pool.vc[i]
            else:
                turn += pool.vc[i]
    distance = wp.float64(1.0)
    if shift > wp.float64(0.0) and turn > wp.float64(0.0):
        distance = wp.sqrt(shift / turn)
    for n in range(asks.count):
        i = asks.row[n]
        asks.scale[n] = wp.where(i < row + shifts, wp.float64(1.0), distance)
        asks.v_hat[n] = asks.scale[n] * pool.law[i].v_hat
        asks.bend = wp.max(asks.bend, asks.scale[n] * pool.dvc[i])
        for k in range(n + 1):
            product = asks.scale[n] * asks.scale[k] * row_product(pool, problem, i, asks.row[k], base)
            asks.W[n, k] = product
            asks.W[k, n] = product
    return asks


@wp.func
def least_eigenvalue(W: _mat66d, n: int):
    """A bound from below of the least eigenvalue, by determinant and trace; zero or less of what is not definite."""
    mean = wp.trace(W) / wp.float64(wp.max(n - 1, 1))
    bound = mean
    for k in range(n):
        bound *= wp.max(W[k, k], wp.float64(0.0)) / mean
        for r in range(k + 1, n):
            factor = W[r, k] / W[k, k]
            for c in range(k + 1, n):
                W[r, c] = W[r, c] - factor * W[k, c]
    return bound


@wp.func
def rotate_pair(W: _mat66d, V: _mat66d, p: int, q: int, n: int):
    """Jacobi's rotation of two rows and columns, after which they have nothing in common; ``V`` collects rotations by columns."""
    if W[p, q] != wp.float64(0.0):
        one = wp.float64(1.0)
        theta = (W[q, q] - W[p, p]) / (wp.float64(2.0) * W[p, q])
        t = wp.where(theta >= wp.float64(0.0), one, -one) / (wp.abs(theta) + wp.sqrt(theta * theta + one))
        c = one / wp.sqrt(t * t + one)
        s = t * c
        for k in range(n):
            first = W[k, p]
            W[k, p] = c * first - s * W[k, q]
            W[k, q] = s * first + c * W[k, q]
        for k in range(n):
            first = W[p, k]
            W[p, k] = c * first - s * W[q, k]
            W[q, k] = s * first + c * W[q, k]
            first = V[k, p]
            V[k, p] = c * first - s * V[k, q]
            V[k, q] = s * first + c * V[k, q]
    return W, V


@wp.func
def principal_directions(W: _mat66d, n: int):
    """Eigenvalues on the diagonal, and directions by columns."""
    V = wp.identity(n=6, dtype=wp.float64)
    sweep = int(0)
    rotated = int(1)
    while sweep < SWEEPS and rotated > 0:
        rotated = int(0)
        for p in range(n):
            for q in range(p + 1, n):
                if W[p, q] * W[p, q] > APART * wp.abs(W[p, p] * W[q, q]):
                    rotated += 1
                    W, V = rotate_pair(W, V, p, q, n)
        sweep += 1
    return W, V


@wp.func
def bound_asks(pool: CouplerPool, problem: Problem, row: int, shifts: int, turns: int, base: int, dt: wp.float64):
    """Let no principal direction of the rows ask for more than ``lambda / (dt B)``, lambda its inverse mass."""
    asks = gather_asks(pool, problem, row, shifts, turns, base)
    n = asks.count
    if dt * asks.bend * wp.length(asks.v_hat) <= least_eigenvalue(asks.W, n):
        return  # of no direction
    W, V = principal_directions(asks.W, n)
    for k in range(n):
        direction = _vec6d()
        for i in range(n):
            direction[i] = V[i, k]
        ask = wp.dot(direction, asks.v_hat)
        fastest = wp.max(W[k, k], wp.float64(0.0)) / (dt * asks.bend)
        excess = wp.float64(0.0)
        if ask > fastest:
            excess = ask - fastest
        if ask < -fastest:
            excess = ask + fastest
        asks.v_hat = asks.v_hat - excess * direction
    for i in range(n):
        law = pool.law[asks.row[i]]
        law.v_hat = asks.v_hat[i] / asks.scale[i]
        pool.law[asks.row[i]] = law
