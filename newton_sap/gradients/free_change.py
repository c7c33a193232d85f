"""The change of velocity that velocity products follow (formulation 1.1), laid on the tape move by move.

Momenta become changes by solves with ``A`` and what couplings add to it. Each is an unknown with a balance of its own,
``A x = momentum``, and on the way back solves for a virtual velocity of its own, as the step does with its own matrix.
"""

import warp as wp

from ..constraints.clamped_linear import clamped_linear
from ..multibody.efforts import applied_effort, external_wrench
from ..multibody.free_motion import known_impulse, own_momentum
from ..multibody.gyroscopic import TIED, TOGETHER
from ..multibody.holding import ALL_HELD, MOST_BORNE, holding_impulse, share_held
from ..multibody.paths import free_velocity
from ..multibody.spatial import inertia_times
from ..multibody.velocity_products import product_force, rounds_needed, share_followed, swing_of
from ..workspace import CouplerPool, Joints, Motion, Problem, Tree
from .scene import Scene, inertia_of_dof
from .sensitivity import Sensitivity, add_row, factor_by_rows, lay_out, solve_transposed


@wp.struct
class Changes:
    """What leads to the change of velocity that products follow, of D dofs and T trees; all of it is on the tape."""

    load: wp.array[wp.float64]  # (D,) momentum by velocity products and from outside
    hold: wp.array[wp.float64]  # (D,) what joints give at constant rates
    held: wp.array[wp.float64]  # (D,) what that alone would change
    ties: wp.array[wp.float64]  # (D,) momentum by couplings at the velocity of the start
    against: wp.array[wp.float64]  # (T,) minus the work of what joints give on load and ties
    hold_size: wp.array[wp.float64]  # (T,) twice its kinetic energy
    moved: wp.array[wp.float64]  # (D,) load, ties and the share of hold that counts
    push: wp.array[wp.float64]  # (D,) momentum from outside alone; what follows is empty where no tree can lean
    fall: wp.array[wp.float64]  # (D,) what that would change
    falls: wp.array[wp.float64]  # (T,) its work on what is moved
    push_size: wp.array[wp.float64]  # (T,) twice its kinetic energy
    momentum: wp.array[wp.float64]  # (D,) what is moved, less the share of the push that is borne
    first: wp.array[wp.float64]  # (D,) what that changes
    size: wp.array[wp.float64]  # (T,) twice its kinetic energy
    beyond: wp.array[wp.float64]  # (D,) momentum by products of that change
    second: wp.array[wp.float64]  # (D,) what that changes
    further: wp.array[wp.float64]  # (T,) twice its kinetic energy
    change: wp.array[wp.float64]  # (D,) the share of both that is followed


@wp.kernel(enable_backward=False, module="unique")
def factor_mass(scene: Scene, m: Motion, pool: CouplerPool, problem: Problem, s: Sensitivity):
    """Factors of A of every group, with couplings as they act at the start, and how often its trees follow their change of velocity."""
    g = wp.tid()
    tree = scene.tree
    dt = scene.step.dt
    base = tree.groups[g].dof_start
    n = tree.groups[g + 1].dof_start - base
    lay_out(tree, m, s, g)
    for r in range(pool.group_start[g], pool.group_start[g + 1]):
        start = pool.bias[r]
        for k in range(r * pool.stride, r * pool.stride + pool.support[r]):
            start += pool.J[k] * m.v0[problem.dof[base + pool.unknown[k]]]
        add_row(s.S, s.start[g], n, base, pool, problem, r, clamped_linear(start, pool.law[r]).G)
    factor_by_rows(s.S, s.start[g], n, s.pivot, base)
    for t in range(tree.groups[g].tree_start, tree.groups[g + 1].tree_start):
        scene.rounds[t] = wp.max(rounds_needed(tree, m, t, TOGETHER, dt), rounds_needed(tree, m, t, TIED, dt))


@wp.kernel(enable_backward=False, module="unique")
def solve_mass(tree: Tree, s: Sensitivity):
    """A x = momentum of every group."""
    g = wp.tid()
    base = tree.groups[g].dof_start
    n = tree.groups[g + 1].dof_start - base
    for dof in range(base, base + n):
        s.velocity[dof] = s.momentum[dof]
    solve_transposed(s.S, s.start[g], n, s.pivot, s.velocity, base)  # A is its own transpose


@wp.kernel
def mass_power_of_links(scene: Scene, m: Motion, s: Sensitivity):
    """u . I x of a body."""
    link = wp.tid()
    tree = scene.tree
    Ix = inertia_times(m.mass[link], m.moment[link], m.inertia[link], free_velocity(tree, m, s.velocity, link))
    U = free_velocity(tree, m, s.virtual_velocity, link)
    wp.atomic_add(s.power, tree.trees[tree.links[link].tree].group, wp.dot(U, Ix))


@wp.kernel
def mass_power_of_dofs(scene: Scene, m: Motion, s: Sensitivity):
    """u ((a + dt D + dt^2 K) x - momentum) of a dof."""
    dof = wp.tid()
    tree = scene.tree
    link = tree.dofs[dof].link
    t = tree.links[link].tree
    if dof - tree.trees[t].dof_start < m.locked[t]:
        return
    armature, implicit = inertia_of_dof(scene, m, dof)
    balance = (armature + implicit) * s.velocity[dof] - s.momentum[dof]
    wp.atomic_add(s.power, tree.trees[t].group, s.virtual_velocity[dof] * balance)


@wp.func
def impulse_at_start(scene: Scene, m: Motion, link: int, IV: wp.spatial_vectord):
    """What a body gets in the step beside the products of a change, its momentum being ``IV``."""
    return known_impulse(
        scene.tree, scene.joints, scene.bodies, m, scene.orders, scene.efforts, link, IV, scene.step.dt
    )


# Sums stand in kernels, not in functions of theirs: on the way back those would be added once more.


@wp.kernel
def gather_loads(scene: Scene, m: Motion, c: Changes):
    """What velocity products, forces from outside and what is applied give the dofs."""
    link = wp.tid()
    tree = scene.tree
    start = tree.links[link].dof_start
    unlocked = tree.trees[tree.links[link].tree].dof_start + m.locked[tree.links[link].tree]
    for dof in range(wp.max(unlocked, start), tree.links[link + 1].dof_start):
        joint_q = scene.before.joint_q
        effort = applied_effort(tree, scene.joints, scene.efforts, joint_q, link, dof - start, m.v0[dof])
        wp.atomic_add(c.load, dof, scene.step.dt * effort)
    impulse = impulse_at_start(scene, m, link, own_momentum(m, link))
    for p in range(tree.links[link].path_start + m.locked[tree.links[link].tree], tree.links[link + 1].path_start):
        dof = tree.path_dof[p]
        wp.atomic_add(c.load, dof, wp.dot(m.column[dof], impulse))


@wp.kernel
def find_holds(scene: Scene, m: Motion, c: Changes):
    """What joints give the dofs at constant rates."""
    dof = wp.tid()
    tree = scene.tree
    link = tree.dofs[dof].link
    t = tree.links[link].tree
    if dof - tree.trees[t].dof_start >= m.locked[t]:
        c.hold[dof] = holding_impulse(
            tree, scene.joints, m, scene.efforts, scene.before.joint_q, link, dof, c.load[dof], scene.step.dt
        )


@wp.func
def tree_of_dof(tree: Tree, dof: int):
    """The tree of a dof."""
    return tree.links[tree.dofs[dof].link].tree


@wp.kernel
def measure_holds(tree: Tree, c: Changes):
    """How the changes by what joints hold and by the load go together."""
    dof = wp.tid()
    t = tree_of_dof(tree, dof)
    wp.atomic_add(c.against, t, -c.held[dof] * (c.load[dof] + c.ties[dof]))
    wp.atomic_add(c.hold_size, t, c.held[dof] * c.hold[dof])


@wp.kernel
def let_hold(tree: Tree, c: Changes):
    """The load, with what joints hold against it."""
    dof = wp.tid()
    t = tree_of_dof(tree, dof)
    share = share_held(c.against[t], c.hold_size[t], ALL_HELD)
    c.moved[dof] = c.load[dof] + c.ties[dof] + share * c.hold[dof]


@wp.kernel
def gather_pushes(scene: Scene, m: Motion, c: Changes):
    """What forces from outside give the dofs of trees that lean."""
    link = wp.tid()
    tree = scene.tree
    t = tree.links[link].tree
    if m.leans[t] == 1:
        impulse = scene.step.dt * external_wrench(
            tree, scene.joints, scene.bodies, m, scene.orders, scene.efforts, link
        )
        for p in range(tree.links[link].path_start + m.locked[t], tree.links[link + 1].path_start):
            dof = tree.path_dof[p]
            wp.atomic_add(c.push, dof, wp.dot(m.column[dof], impulse))


@wp.kernel
def measure_pushes(tree: Tree, c: Changes):
    """How the changes by what pushes and by all that moves go together."""
    dof = wp.tid()
    t = tree_of_dof(tree, dof)
    wp.atomic_add(c.falls, t, c.fall[dof] * c.moved[dof])
    wp.atomic_add(c.push_size, t, c.fall[dof] * c.push[dof])


@wp.kernel
def let_bear(tree: Tree, c: Changes):
    """All that moves, less what is borne of the push."""
    dof = wp.tid()
    t = tree_of_dof(tree, dof)
    c.momentum[dof] = c.moved[dof] - share_held(c.falls[t], c.push_size[t], MOST_BORNE) * c.push[dof]


@wp.kernel
def energy_of_links(scene: Scene, m: Motion, c: Changes):
    """Twice the kinetic energies of the change and of what its products change, of bodies."""
    link = wp.tid()
    tree = scene.tree
    t = tree.links[link].tree
    X = free_velocity(tree, m, c.first, link)
    wp.atomic_add(c.size, t, wp.dot(X, inertia_times(m.mass[link], m.moment[link], m.inertia[link], X)))
    Y = free_velocity(tree, m, c.second, link)
    wp.atomic_add(c.further, t, wp.dot(Y, inertia_times(m.mass[link], m.moment[link], m.inertia[link], Y)))


@wp.kernel
def energy_of_dofs(scene: Scene, m: Motion, c: Changes):
    """The same of what dofs add to A themselves."""
    dof = wp.tid()
    tree = scene.tree
    t = tree_of_dof(tree, dof)
    if dof - tree.trees[t].dof_start < m.locked[t]:
        return
    armature, implicit = inertia_of_dof(scene, m, dof)
    wp.atomic_add(c.size, t, (armature + implicit) * c.first[dof] * c.first[dof])
    wp.atomic_add(c.further, t, (armature + implicit) * c.second[dof] * c.second[dof])


@wp.kernel
def add_followed(tree: Tree, c: Changes):
    """The share of both changes that is followed."""
    dof = wp.tid()
    t = tree_of_dof(tree, dof)
    c.change[dof] = share_followed(c.size[t], c.further[t]) * (c.first[dof] + c.second[dof])


@wp.kernel
def swing_links(tree: Tree, joints: Joints, m: Motion, change: Motion):
    """Change of velocity and bias of every link, root to leaves, from ``change.v0``."""
    t = wp.tid()
    for link in range(tree.trees[t].link_start, tree.trees[t + 1].link_start):
        swing = swing_of(tree, joints, m, change, link)
        change.velocity[link] = swing.change
        change.bias[link] = swing.bias


@wp.func
def impulse_of_change(scene: Scene, m: Motion, change: Motion, least: int, link: int):
    """-dt F(v0, change) on one body, if its tree follows changes so often."""
    impulse = wp.spatial_vectord()
    if scene.rounds[scene.tree.links[link].tree] >= least:
        dt = scene.step.dt
        body = scene.tree.links[link].body
        impulse = -dt * product_force(scene.bodies, m, body, link, change.velocity[link], change.bias[link], dt)
    return impulse


@wp.kernel
def gather_products(scene: Scene, m: Motion, change: Motion, c: Changes):
    """What the products of a change give the dofs, in trees that turn so fast that they matter."""
    link = wp.tid()
    tree = scene.tree
    impulse = impulse_of_change(scene, m, change, 2, link)
    for p in range(tree.links[link].path_start + m.locked[tree.links[link].tree], tree.links[link + 1].path_start):
        dof = tree.path_dof[p]
        wp.atomic_add(c.beyond, dof, wp.dot(m.column[dof], impulse))
