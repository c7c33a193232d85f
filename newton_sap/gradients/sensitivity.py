"""``S = dm/dv`` of every group at the end of its step, factored, and the solve with its transpose on the way back."""

from functools import cache

import warp as wp

from ..constraints.hunt_crossley import normal_impulse, normal_slope
from ..constraints.response import hessian_block, tangential
from ..minimizer.objective import row_stiffness
from ..workspace import ContactPool, CouplerPool, Motion, Pools, Problem, Tree


@wp.struct
class Sensitivity:
    """One step's answer and its derivative; matrices are square over all dofs of a group, row after row."""

    start: wp.array[wp.int64]  # (G,) first entry of each group's matrix
    S: wp.array[wp.float64]  # its factors L and U
    pivot: wp.array[wp.int32]  # (D,) row that each row of the matrix changed places with, within its group
    velocity: wp.array[wp.float64]  # (D,) v
    momentum: wp.array[wp.float64]  # (D,) what a change of velocity by the mass matrix alone is made of
    weight: wp.array[wp.float64]  # (C,) effective inverse mass of each contact [1/kg]
    lag: wp.array[wp.float64]  # (C,) friction bound less the normal impulse that it stands for [N s]
    power: wp.array[wp.float64]  # (G,) u' m(v): what is differentiated
    no_gradient: wp.array[wp.int32]  # (G,) 1 where something acts that the balance leaves out
    virtual_velocity: wp.array[wp.float64]  # (D,) u, once the way back has come here
    friction_follows: int  # 1 where friction is bounded by this step's own normal impulse


@wp.func
def add_friction_slope(pool: ContactPool, slot: int, G: wp.mat33d):
    """-d(gamma)/d(vc) of a contact of the lagged law, its friction bound by its own normal impulse."""
    n = pool.normal[slot]
    vt = tangential(n, pool.vc[slot])
    scale = pool.slip_scale[slot]
    bound = pool.mu[slot] * pool.n0[slot]
    length = wp.sqrt(wp.dot(vt, vt) + scale * scale)
    per_n0 = pool.mu[slot] * vt / length
    softest = pool.R_t[slot] * bound
    if softest >= scale:  # then the slip that softens friction grows with the bound, too
        per_n0 = per_n0 - (bound * softest * pool.R_t[slot] * pool.mu[slot] / (length * length * length)) * vt
    return G + normal_slope(pool.normal_law[slot], wp.dot(n, pool.vc[slot])) * wp.outer(per_n0, n)


@wp.func
def add_entry(S: wp.array[wp.float64], start: wp.int64, n: int, row: int, column: int, value: wp.float64):
    """S[row, column] += value, in the matrix that begins at ``start``."""
    entry = start + wp.int64(row) * wp.int64(n) + wp.int64(column)
    S[entry] = S[entry] + value


@wp.func
def add_pair(
    S: wp.array[wp.float64],
    start: wp.int64,
    n: int,
    base: int,
    pool: ContactPool,
    problem: Problem,
    slot: int,
    G: wp.mat33d,
):
    """S += J' G J of one contact."""
    first = slot * pool.stride
    for a in range(pool.support[slot]):
        row = problem.dof[base + pool.unknown[first + a]] - base
        JG = wp.transpose(G) * pool.J[first + a]
        for b in range(pool.support[slot]):
            column = problem.dof[base + pool.unknown[first + b]] - base
            add_entry(S, start, n, row, column, wp.dot(JG, pool.J[first + b]))


@wp.func
def add_row(
    S: wp.array[wp.float64], start: wp.int64, n: int, base: int, pool: CouplerPool, problem: Problem, r: int, G: wp.float64
):  # fmt: skip
    """S += G J' J of one row of a coupling."""
    first = r * pool.stride
    for a in range(pool.support[r]):
        row = problem.dof[base + pool.unknown[first + a]] - base
        for b in range(pool.support[r]):
            column = problem.dof[base + pool.unknown[first + b]] - base
            add_entry(S, start, n, row, column, G * pool.J[first + a] * pool.J[first + b])


@wp.func
def lay_out(tree: Tree, m: Motion, s: Sensitivity, g: int):
    """S = A, with the rows and columns of prescribed dofs those of the identity."""
    base = tree.groups[g].dof_start
    n = tree.groups[g + 1].dof_start - base
    for t in range(tree.groups[g].tree_start, tree.groups[g + 1].tree_start):
        first = tree.trees[t].dof_start
        size = tree.trees[t + 1].dof_start - first
        for i in range(size):
            for k in range(size):
                value = m.A[tree.trees[t].block_start + i * size + k]
                if wp.min(i, k) < m.locked[t]:
                    value = wp.where(i == k, wp.float64(1.0), wp.float64(0.0))
                s.S[s.start[g] + wp.int64(first - base + i) * wp.int64(n) + wp.int64(first - base + k)] = value


@wp.func
def factor_by_rows(S: wp.array[wp.float64], start: wp.int64, n: int, pivot: wp.array[wp.int32], base: int):
    """P S = L U in place, the largest entry left in a column its pivot."""
    N = wp.int64(n)
    for k in range(n):
        K = wp.int64(k)
        best = int(k)
        for i in range(k + 1, n):
            if wp.abs(S[start + wp.int64(i) * N + K]) > wp.abs(S[start + wp.int64(best) * N + K]):
                best = i
        pivot[base + k] = best
        if best != k:
            for j in range(n):
                here = start + K * N + wp.int64(j)
                there = start + wp.int64(best) * N + wp.int64(j)
                kept = S[here]
                S[here] = S[there]
                S[there] = kept
        for i in range(k + 1, n):
            at = start + wp.int64(i) * N
            if S[at + K] != wp.float64(0.0):
                share = S[at + K] / S[start + K * N + K]
                S[at + K] = share
                for j in range(k + 1, n):
                    S[at + wp.int64(j)] = S[at + wp.int64(j)] - share * S[start + K * N + wp.int64(j)]


@wp.func
def solve_transposed(
    S: wp.array[wp.float64], start: wp.int64, n: int, pivot: wp.array[wp.int32], x: wp.array[wp.float64], base: int
):
    """S' u = x in x's place: U' first, then L', then the rows back to their places."""
    N = wp.int64(n)
    for i in range(n):
        total = x[base + i]
        for k in range(i):
            total -= S[start + wp.int64(k) * N + wp.int64(i)] * x[base + k]
        x[base + i] = total / S[start + wp.int64(i) * (N + wp.int64(1))]
    for up in range(n):
        i = n - 1 - up
        total = x[base + i]
        for k in range(i + 1, n):
            total -= S[start + wp.int64(k) * N + wp.int64(i)] * x[base + k]
        x[base + i] = total
    for up in range(n):
        k = n - 1 - up
        other = base + pivot[base + k]
        kept = x[base + k]
        x[base + k] = x[other]
        x[other] = kept


@cache
def sensitivity_kernel(evaluate_contact):
    """Return the kernel that factors every group's S under a contact law."""

    @wp.kernel(enable_backward=False, module="unique")
    def sensitivity(tree: Tree, m: Motion, pools: Pools, problem: Problem, sigma: wp.float64, s: Sensitivity):
        """S = A + diag(rows) + J' G J of a group at its minimum, then P S = L U."""
        g = wp.tid()
        base = tree.groups[g].dof_start
        n = tree.groups[g + 1].dof_start - base
        start = s.start[g]
        lay_out(tree, m, s, g)
        for i in range(problem.clusters.entry[tree.groups[g].tree_start].unknowns):
            dof = problem.dof[base + i] - base
            add_entry(s.S, start, n, dof, dof, row_stiffness(pools.rows, problem, base + i))
        pool = pools.contacts
        for c in range(pool.group_count[g]):
            slot = pool.group_start[g] + c
            normal = pool.normal[slot]
            vn = wp.dot(normal, pool.vc[slot])
            vt = tangential(normal, pool.vc[slot])
            response = evaluate_contact(pool, slot, vn, wp.dot(vt, vt))
            G = hessian_block(response, normal, vt, response.slowness * vt)
            if s.friction_follows == 1:
                G = add_friction_slope(pool, slot, G)
            add_pair(s.S, start, n, base, pool, problem, slot, G)
            s.weight[slot] = pool.R_t[slot] / sigma
            s.lag[slot] = pool.n0[slot] - normal_impulse(pool.normal_law[slot], vn)
        for r in range(pools.couplers.group_start[g], pools.couplers.group_start[g + 1]):
            add_row(s.S, start, n, base, pools.couplers, problem, r, pools.couplers.G[r])
        factor_by_rows(s.S, start, n, s.pivot, base)

    return sensitivity


@wp.func
def solved(tree: Tree, s: Sensitivity, g: int, power: wp.array[wp.float64], v: wp.array[wp.float64]):
    """The velocity that makes the balance of a group vanish: the one the step has found."""
    for dof in range(tree.groups[g].dof_start, tree.groups[g + 1].dof_start):
        v[dof] = s.velocity[dof]


@wp.func_grad(solved)
def solved_back(tree: Tree, s: Sensitivity, g: int, power: wp.array[wp.float64], v: wp.array[wp.float64]):
    """S' u = dL/dv; what is differentiated next, the power, then counts with minus one."""
    base = tree.groups[g].dof_start
    n = tree.groups[g + 1].dof_start - base
    for i in range(n):
        s.virtual_velocity[base + i] = wp.adjoint[v][base + i]
    solve_transposed(s.S, s.start[g], n, s.pivot, s.virtual_velocity, base)
    wp.adjoint[power][g] = wp.float64(-1.0)
    if s.no_gradient[g] != 0:
        wp.adjoint[power][g] = wp.float64(wp.nan)


@wp.kernel
def balance(tree: Tree, s: Sensitivity, power: wp.array[wp.float64], v: wp.array[wp.float64]):
    """v of every group from its balance; ``power`` is that of ``s``, whose adjoint only an argument of its own has."""
    solved(tree, s, wp.tid(), power, v)
