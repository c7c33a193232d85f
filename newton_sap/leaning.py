"""Which trees that hang on the world lean against something at the start of a step (F 1.1)."""

import numpy as np
import warp as wp

from .boundary.topology import Topology, flying_links
from .constraints.coupling_table import BALL_LIMITS
from .contacts.found import gap_now, names_two_shapes
from .contacts.materials import ContactOptions, material_of
from .contacts.rows import ContactRows, first_row, next_row
from .coupling_bundles import CouplingTable
from .multibody.gyroscopic import TIED, TOGETHER
from .multibody.holding import rooted_tree
from .multibody.kinematics import KINEMATIC
from .workspace import Arrivals, Bodies, Joints, Motion, Shapes, StateArrays, Tree

wp.set_module_options({"enable_backward": False})


@wp.func
def note_one(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    i: int,
    dt: wp.float64,
):
    """Note the trees of one of Newton's contacts if it is closed and on a link that can move."""
    if not names_two_shapes(rows, shapes, i):
        return
    t0 = rooted_tree(tree, joints, m, shapes.body[rows.shape0[i]])
    t1 = rooted_tree(tree, joints, m, shapes.body[rows.shape1[i]])
    if wp.max(t0, t1) < 0:
        return
    gap = gap_now(tree, bodies, shapes, m, rows, state, i)
    if gap.group < 0 or gap.phi0 > wp.float64(0.0):
        return
    if material_of(shapes, rows, options, i, dt).stiffness > wp.float64(0.0):
        if t0 >= 0 and gap.a.link >= 0:
            m.leans[t0] = 1
        if t1 >= 0 and gap.b.link >= 0:
            m.leans[t1] = 1


@wp.kernel
def note_leaning(
    tree: Tree,
    joints: Joints,
    bodies: Bodies,
    shapes: Shapes,
    m: Motion,
    arrivals: Arrivals,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    dt: wp.float64,
    threads: int,
):
    """Note which trees of a part lean against something, by the contacts that were listed for it."""
    row = first_row(tree, arrivals, rows, wp.tid())
    while row >= 0:
        note_one(tree, joints, bodies, shapes, m, rows, options, state, row, dt)
        row = next_row(arrivals, rows, row, threads)


class Leaning:
    """What trees that hang on the world may lean against: closed contacts, and limits of their ball joints that are reached."""

    def __init__(self, table: CouplingTable, topology: Topology, model, moves: np.ndarray):
        roots = topology.arrays["tree_link_start"][:-1]
        roots = roots[np.isin(moves, (int(TIED), int(TOGETHER)))]
        self._root = topology.arrays["link_body"][roots]
        self._flies = flying_links(model, topology.arrays["link_joint"][roots])
        self._ball_limits = bool((table.kind.numpy() == int(BALL_LIMITS)).any())
        self.kernels = self._needed(model)
        """What a step launches for it; nothing where no tree can lean."""

    def renew(self, model, motion: Motion) -> list:
        """Look again at which trees hang on the world by a kinematic body; returns the kernels."""
        motion.leans.zero_()  # as nobody else does where there are none
        self.kernels = self._needed(model)
        return self.kernels

    def note(self, solver, frame) -> None:
        """Note in ``solver.motion`` which trees lean."""
        if self.kernels:
            solver.motion.leans.zero_()
        for kernel in self.kernels:
            if kernel is not note_leaning:
                solver.launches.groups(kernel, [solver.joints, solver.couplings, solver.motion])
            elif frame.rows is not None:
                tables = [solver.joints, solver.bodies, solver.shapes, solver.motion, solver.arrivals, frame.rows]
                given = [solver.contact_options, frame.before, frame.dt]
                solver.launches.part_items(kernel, len(solver.arrivals.next), [*tables, *given])

    def _needed(self, model) -> list:
        kinematic = (model.body_flags.numpy()[self._root] & int(KINEMATIC)) != 0
        if not (~self._flies | kinematic).any():
            return []
        kernels = [note_leaning] if model.shape_count else []
        if self._ball_limits:
            from .constraints.ball_limits import note_limits  # kernels that few models need

            kernels.append(note_limits)
        return kernels
