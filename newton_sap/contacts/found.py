"""Where contacts that were found once are by now: what each stage asks of them, and in which order.

Warp's functions are inlined while they are small or called from few places; others have bundles copied for each contact. So
``gap_now`` does not call ``gap_as_found``: measure before that changes. And what does not concern a contact returns its gap early: a
bundle that is assigned in a branch is chosen by its address, and goes through memory.
"""

import warp as wp

from ..workspace import Bodies, Motion, Shapes, StateArrays, Tree
from .facing import face_plane
from .gaps import Gap, leave_by_face, measure_gap
from .materials import ContactOptions
from .passing import longest_apart
from .rolling import may_roll, may_turn, roll_on
from .rows import ContactRows

wp.set_module_options({"enable_backward": False})


@wp.func
def names_two_shapes(rows: ContactRows, shapes: Shapes, i: int):
    """Whether a row is of two shapes of the model: Newton pads its arrays with others, and another model has more."""
    s0 = rows.shape0[i]
    s1 = rows.shape1[i]
    return wp.min(s0, s1) >= 0 and s0 != s1 and wp.max(s0, s1) < shapes.body.shape[0]


@wp.func
def gap_as_found(tree: Tree, bodies: Bodies, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, i: int):
    """Gap at the points that were found, which their bodies have carried along; a mesh leaves a box by the face that it grazes."""
    gap = measure_gap(tree, bodies, shapes, m, rows, state, i)
    return leave_by_face(tree, shapes, m, rows, state, gap, i)


@wp.func
def gap_now(tree: Tree, bodies: Bodies, shapes: Shapes, m: Motion, rows: ContactRows, state: StateArrays, i: int):
    """That gap with the ``phi0`` of this step, for who asks for no more: of what rolls, cylinders alone have another one now, and so have boxes on planes."""
    gap = measure_gap(tree, bodies, shapes, m, rows, state, i)
    gap = leave_by_face(tree, shapes, m, rows, state, gap, i)
    gap = roll_on(tree, shapes, m, rows, state, gap, i, may_turn(shapes, rows, i))
    return face_plane(shapes, m, rows, gap, i)


@wp.func
def touched_now(
    tree: Tree,
    shapes: Shapes,
    m: Motion,
    rows: ContactRows,
    options: ContactOptions,
    state: StateArrays,
    gap: Gap,
    i: int,
    dt: wp.float64,
):
    """From a gap as found to all of it in this step: what rolls is touched elsewhere, and what flies past an edge meets no face."""
    gap = roll_on(tree, shapes, m, rows, state, gap, i, may_roll(shapes, rows, i))
    gap = face_plane(shapes, m, rows, gap, i)
    return longest_apart(tree, shapes, m, rows, options, state, gap, i, dt)
