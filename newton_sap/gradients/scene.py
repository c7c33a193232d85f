"""What the parts of a momentum balance read, and how links move."""

import warp as wp

from ..contacts.rows import ContactRows
from ..multibody.efforts import Efforts
from ..multibody.orders import Orders
from ..multibody.tension import dof_inertia, own_pull, tension_through
from ..problem import StepInput
from ..workspace import Bodies, Joints, Motion, Shapes, StateArrays, Tree


@wp.struct
class Scene:
    """What the parts of the balance read."""

    tree: Tree
    joints: Joints
    bodies: Bodies
    shapes: Shapes
    orders: Orders
    efforts: Efforts
    step: StepInput
    before: StateArrays
    rows: ContactRows
    rounds: wp.array[wp.int32]  # (T,) how often each tree follows its change of velocity
    pull: wp.array[wp.vec3d]  # (L,) impulse with which each subtree pulls on its joint [N s]


@wp.func
def rate_of(tree: Tree, m: Motion, rates: wp.array[wp.float64], dof: int, changes: int):
    """The rate of a dof, of a prescribed one that at the start, or how much it changes."""
    t = tree.links[tree.dofs[dof].link].tree
    rate = rates[dof]
    if dof - tree.trees[t].dof_start < m.locked[t]:
        rate = wp.where(changes == 1, wp.float64(0.0), m.v0[dof])
    return rate


@wp.kernel
def gather_pulls(scene: Scene, m: Motion):
    """What bodies ask of their joints and of those above."""
    link = wp.tid()
    tree = scene.tree
    own = own_pull(tree, scene.joints, scene.bodies, m, scene.orders, scene.efforts, link, scene.step.dt)
    for p in range(tree.links[link].path_start, tree.links[link + 1].path_start):
        dof = tree.path_dof[p]
        above = tree.dofs[dof].link
        if dof == tree.links[above].dof_start:
            wp.atomic_add(scene.pull, above, own)


@wp.func
def inertia_of_dof(scene: Scene, m: Motion, dof: int):
    """What a dof adds to A beside the bodies: as an armature, and by damping and spring."""
    tree = scene.tree
    dt = scene.step.dt
    link = tree.dofs[dof].link
    tension = tension_through(tree, scene.joints, scene.bodies, m, scene.orders, link, scene.pull[link], dt)
    return dof_inertia(tree, scene.joints, m, scene.efforts, tension, link, dof, dt)
