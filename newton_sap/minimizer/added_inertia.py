"""What closed contacts add to the inertia of bodies, and that to the Hessian, in trees of many unknowns.

A contact resists velocities of its point by G, and so motions of a body by ``X^T G X``, where X takes a motion to the velocity of
that point: it acts as an inertia. Those of a subtree add up, and H gets them as A gets those of bodies (``mass_matrix``). A
Jacobian's product with itself takes the square of the dofs that carry the body, for every contact.
"""

from functools import cache

import warp as wp

from ..linalg.lanes import sync
from ..workspace import LONG_TREE, ContactPool, Motion, Problem, Tree
from .objective import Range, is_closed, tree_at

wp.set_module_options({"enable_backward": False})

_ENTRIES = wp.constant(36)
"""Of an inertia. A lane has the same ones of all of them."""


@wp.func
def is_long(tree: Tree, m: Motion, t: int):
    """Whether a tree has many unknowns."""
    return tree.trees[t + 1].dof_start - tree.trees[t].dof_start - m.locked[t] > LONG_TREE


@wp.func
def adds_inertia(tree: Tree, m: Motion, link: int, other: int):
    """Whether a contact is an inertia of one of its bodies: in a long tree, and not with another body of the same tree."""
    adds = bool(False)
    if link >= 0:
        t = tree.links[link].tree
        apart = bool(True)
        if other >= 0:
            apart = tree.links[other].tree != t
        adds = apart and is_long(tree, m, t)
    return adds


@wp.func
def unknowns_above(tree: Tree, m: Motion, link: int):
    """How many unknowns carry a link."""
    return tree.links[link + 1].path_start - tree.links[link].path_start - m.locked[tree.links[link].tree]


@wp.func
def left_to_jacobian(tree: Tree, m: Motion, pool: ContactPool, problem: Problem, slot: int):
    """What is not an inertia of a contact: all, what two trees have in common with the shorter one by itself, or nothing.

    By entries of its support: rows from the first number on, columns before the second.
    """
    begin = int(0)
    end = int(pool.support[slot])
    early = pool.link_a[slot]
    late = pool.link_b[slot]
    if early >= 0 and late >= 0:
        if problem.tree_start[tree.links[late].tree] < problem.tree_start[tree.links[early].tree]:
            early = pool.link_b[slot]
            late = pool.link_a[slot]
        split = unknowns_above(tree, m, early)
        if adds_inertia(tree, m, early, late):
            begin = split
        if adds_inertia(tree, m, late, early):
            end = split
    elif adds_inertia(tree, m, wp.max(early, late), -1):
        begin = end
    return begin, end


@wp.func_native("""
    double* k = K.data + 36ll * link;
    for (int e = lane; e < 36; e += lanes) k[e] = 0.0;
""")
def clear_inertia(K: wp.array[wp.float64], link: int, lane: int, lanes: int):
    """K[link] = 0."""
    ...


@wp.func_native("""
    double* to = K.data + 36ll * above;
    const double* from = K.data + 36ll * link;
    for (int e = lane; e < 36; e += lanes) to[e] += from[e];
""")
def carry_inertia(K: wp.array[wp.float64], link: int, above: int, lane: int, lanes: int):
    """K[above] += K[link]."""
    ...


@wp.func_native("""
    const double p = point[0], q = point[1], s = point[2], one = spin ? 0.0 : 1.0;
    const double x[3][6] = {
        {spin ? 1.0 : 0.0, spin ? 0.0 : s, spin ? 0.0 : -q, one, 0, 0},
        {spin ? 0.0 : -s, spin ? 1.0 : 0.0, spin ? 0.0 : p, 0, one, 0},
        {spin ? 0.0 : q, spin ? 0.0 : -p, spin ? 1.0 : 0.0, 0, 0, one},
    };
    double Gx[3][6];
    for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 6; ++c) Gx[r][c] = G.data[r][0] * x[0][c] + G.data[r][1] * x[1][c] + G.data[r][2] * x[2][c];
    double* k = K.data + 36ll * link;
    for (int e = lane; e < 36; e += lanes) {
        const int r = e / 6, c = e % 6;
        k[e] += x[0][r] * Gx[0][c] + x[1][r] * Gx[1][c] + x[2][r] * Gx[2][c];
    }
""")
def add_inertia(K: wp.array[wp.float64], link: int, point: wp.vec3d, spin: int, G: wp.mat33d, lane: int, lanes: int):
    """K[link] += X^T G X, where X takes (angular, linear) to the velocity at a point, or to the spin."""
    ...


@wp.func
def add_contact_inertia(
    tree: Tree, m: Motion, problem: Problem, link: int, other: int, point: wp.vec3d, spin: int, G: wp.mat33d, at: Range
):
    """Let one body of a contact be as inert as that makes it, about the root of its tree: far from there coordinates cancel."""
    if adds_inertia(tree, m, link, other):
        root = m.position[tree.trees[tree.links[link].tree].link_start]
        add_inertia(problem.added_inertia, link, point - root, spin, G, at.lane, at.lanes)


@wp.func
def gather_added_inertia(tree: Tree, m: Motion, pool: ContactPool, problem: Problem, at: Range):
    """What closed contacts add to the inertia of each link of a long tree, with all that it carries."""
    K = problem.added_inertia
    for i in range(at.trees):
        t = tree_at(problem, at, i)
        if is_long(tree, m, t):
            for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
                clear_inertia(K, link, at.lane, at.lanes)
    for slot in range(at.contact_start, at.contact_start + at.contacts):
        if is_closed(pool, slot):
            a = pool.link_a[slot]
            b = pool.link_b[slot]
            spin = int(pool.spin_of[slot] >= 0)
            add_contact_inertia(tree, m, problem, a, b, pool.point_a[slot], spin, pool.G[slot], at)
            add_contact_inertia(tree, m, problem, b, a, pool.point_b[slot], spin, pool.G[slot], at)
    for i in range(at.trees):
        t = tree_at(problem, at, i)
        if is_long(tree, m, t):
            start = tree.trees[t].link_start
            end = tree.trees[t + 1].link_start
            for up in range(end - start):
                link = end - 1 - up
                if tree.links[link].parent >= 0:
                    carry_inertia(K, link, tree.links[link].parent, at.lane, at.lanes)
    sync()


_ADD_ROW = """
#if !defined(__CUDA_ARCH__)
#pragma clang fp contract(fast)
#endif
    const double* k = K.data + 36ll * link;
    const double* s = S.data[dof].c;
    const double a = root[0], b = root[1], c = root[2];
    const double V[6] = {{
        s[0], s[1], s[2], s[3] + s[1] * c - s[2] * b, s[4] + s[2] * a - s[0] * c, s[5] + s[0] * b - s[1] * a
    }};
    double F[6];
    for (int r = 0; r < 6; ++r) {{
        F[r] = 0;
        for (int e = 0; e < 6; ++e) F[r] += k[6 * r + e] * V[e];
    }}
    F[0] += b * F[5] - c * F[4];
    F[1] += c * F[3] - a * F[5];
    F[2] += a * F[4] - b * F[3];
    {real}* h = H.data + start;
    const long long row = dof + shift;
    for (int p = first; p < last; ++p) {{
        const int other = rows.data[p];
        if (other > dof) break;
        const double* o = S.data[other].c;
        const {real} value = ({real})(
            (o[0] * F[0] + o[1] * F[1]) + (o[2] * F[2] + o[3] * F[3]) + (o[4] * F[4] + o[5] * F[5])
        );
        h[row * stride + other + shift] += value;
        if (mirrored && other != dof) h[(other + shift) * (long long)stride + row] += value;
    }}
"""


@cache
def inertia_adding(real):
    """Return the device function that lets a matrix of Warp scalar type ``real`` have what contacts add to a tree's inertia."""

    @wp.func_native(_ADD_ROW.format(real="double" if real is wp.float64 else "float"))
    def add_row(
        H: wp.array[real],
        start: wp.int64,
        stride: int,
        mirrored: int,
        K: wp.array[wp.float64],
        link: int,
        root: wp.vec3d,
        S: wp.array[wp.spatial_vectord],
        rows: wp.array[wp.int32],
        first: int,
        last: int,
        dof: int,
        shift: int,
    ):
        """H[dof, other] += S[other] . K[link] S[dof] for the dofs before one that carry its link; K is about a root."""
        ...

    @wp.func
    def add_tree(
        tree: Tree,
        m: Motion,
        problem: Problem,
        H: wp.array[real],
        start: wp.int64,
        stride: int,
        mirrored: int,
        t: int,
        at: Range,
    ):
        """Entry (i, j) of the cluster's unknowns lies at ``start + i stride + j``; above the diagonal, too, if mirrored."""
        first = tree.trees[t].dof_start + m.locked[t]
        root = m.position[tree.trees[t].link_start]
        shift = problem.tree_start[t] - first
        for dof in range(first + at.lane, tree.trees[t + 1].dof_start, at.lanes):
            link = tree.dofs[dof].link
            if carries_contacts(problem.added_inertia, link):
                path = tree.links[link].path_start + m.locked[t]
                end = tree.links[link + 1].path_start
                add_row(
                    H,
                    start,
                    stride,
                    mirrored,
                    problem.added_inertia,
                    link,
                    root,
                    m.column,
                    tree.path_dof,
                    path,
                    end,
                    dof,
                    shift,
                )

    return add_tree


@wp.func
def carries_contacts(K: wp.array[wp.float64], link: int):
    """Whether anything has been added to a link or to what it carries: a contact resists some motion."""
    sum = wp.float64(0.0)
    for i in range(6):
        sum += K[_ENTRIES * link + 7 * i]
    return sum > wp.float64(0.0)
