"""Mass matrix ``A`` of every tree, its factor and solves with it."""

import warp as wp

from ..linalg.cholesky import Skyline, factor_alone, row_filling, row_stride, solve_alone
from ..linalg.inner_loops import write_symmetric
from ..workspace import Bodies, Joints, Motion, Tree
from .efforts import Efforts
from .orders import Orders
from .spatial import inertia_times, linear, motion
from .tension import Tension, dof_inertia, own_pull, tension_through

wp.set_module_options({"enable_backward": False})

fill_row = row_filling(wp.float64)


@wp.func
def diagonal_entry(tree: Tree, t: int, dof: int):
    """Where the diagonal entry of a dof lies in ``A``."""
    first = tree.trees[t].dof_start
    size = tree.trees[t + 1].dof_start - first
    return tree.trees[t].block_start + (dof - first) * (size + 1)


@wp.func
def write_column(
    tree: Tree,
    joints: Joints,
    m: Motion,
    efforts: Efforts,
    t: int,
    link: int,
    dof: int,
    tension: Tension,
    dt: wp.float64,
):
    """Column ``dof`` of A: the subtree's momentum under a unit rate, seen by every dof above it, and what the dof adds itself.

    Entries of dofs that do not move each other keep the zero that they were made with. Returns what it adds as an armature.
    """
    first = tree.trees[t].dof_start
    size = tree.trees[t + 1].dof_start - first
    block = tree.trees[t].block_start
    F = inertia_times(m.mass[link], m.moment[link], m.inertia[link], m.column[dof])
    path = tree.links[link].path_start
    write_symmetric(m.A, block, size, tree.path_dof, path, tree.links[link + 1].path_start, first, dof, m.column, F)
    armature, implicit = dof_inertia(tree, joints, m, efforts, tension, link, dof, dt)
    diagonal = diagonal_entry(tree, t, dof)
    m.A[diagonal] = m.A[diagonal] + armature + implicit
    return armature


@wp.kernel
def mass_matrices(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    m: Motion,
    pulled: Motion,
    orders: Orders,
    efforts: Efforts,
    dt: wp.float64,
):
    """A of every tree once more, after free motion; momenta of ``pulled``, zero before, get what joints pass on."""
    t = wp.tid()
    start = tree.trees[t].link_start
    end = tree.trees[t + 1].link_start
    for up in range(end - start):
        link = end - 1 - up
        own = own_pull(tree, joints, bodies, m, orders, efforts, link, dt)
        pulled.momentum[link] = pulled.momentum[link] + motion(wp.vec3d(), own)
        pull = linear(pulled.momentum[link])
        tension = tension_through(tree, joints, bodies, m, orders, link, pull, dt)
        for dof in range(tree.links[link].dof_start, tree.links[link + 1].dof_start):
            write_column(tree, joints, m, efforts, t, link, dof, tension, dt)
        above = tree.links[link].parent
        if above >= 0:
            pulled.momentum[above] = pulled.momentum[above] + pulled.momentum[link]


@wp.func
def free_block(tree: Tree, m: Motion, t: int):
    """Where the factor of a tree's free dofs lies; prescribed ones lead the tree and have no part in it."""
    unlocked = tree.trees[t].dof_start + m.locked[t]
    block = Skyline()
    block.start = wp.int64(tree.trees[t].factor_start)
    block.size = tree.trees[t + 1].dof_start - unlocked
    block.stride = row_stride(block.size)
    block.offset = unlocked
    block.shift = unlocked
    block.last = tree.dof_last
    return block


@wp.func
def factor_free_motion(tree: Tree, m: Motion, t: int):
    """Factor A_ff, of the dofs that are not prescribed."""
    size = tree.trees[t + 1].dof_start - tree.trees[t].dof_start
    block = free_block(tree, m, t)
    corner = diagonal_entry(tree, t, block.offset)
    for i in range(block.size):
        fill_row(m.factor, block, i, 0, m.A, corner + i * size, wp.float64(0.0))
    factor_alone(m.factor, block)


@wp.func
def solve_free(tree: Tree, m: Motion, momentum: wp.array[wp.float64], t: int):
    """A_ff x_f = momentum_f, in its place; entries of prescribed dofs are left alone."""
    solve_alone(m.factor, free_block(tree, m, t), momentum)
