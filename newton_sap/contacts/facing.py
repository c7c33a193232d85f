"""Which corners of a box a plane meets: those of the face that looks at it (F 4.4).

Newton reports the four deepest. Of a plate that leans by more than it is thick these are two of that face and the two behind them: it
would lie on one edge, and on the opposite one in the next step.
"""

import warp as wp

from ..constraints.response import tangential
from ..multibody.spatial import to_vec3d
from ..workspace import Motion, Shapes
from .gaps import Gap, as_constant
from .rows import ContactRows, shown
from .shape_geometry import BOX, is_endless_plane

wp.set_module_options({"enable_backward": False})

AT_A_CORNER = wp.constant(wp.float32(0.99))
"""Share of each half length that a point is from the middle of a box in whose corner it is."""


@wp.func
def may_face(shapes: Shapes, rows: ContactRows, i: int):
    """Whether a contact is one of an infinite plane, which Newton names first, and a box."""
    return is_endless_plane(shapes, rows.shape0[i]) and shapes.type[rows.shape1[i]] == BOX


@wp.func
def is_behind(X: wp.transform, half: wp.vec3, corner: wp.vec3, out: wp.vec3d):
    """Whether a point is a corner of a box that is not one of the face that looks along a direction; all as the box's body has it."""
    at = wp.quat_rotate_inv(wp.transform_get_rotation(X), corner - wp.transform_get_translation(X))
    along = wp.quat_rotate_inv(wp.transform_get_rotation(X), wp.vec3(out))
    axis = int(0)
    if wp.abs(along[1]) > wp.abs(along[0]):
        axis = 1
    if wp.abs(along[2]) > wp.abs(along[axis]):
        axis = 2
    behind = at[axis] * along[axis] < 0.0
    for k in range(3):
        behind = behind and wp.abs(at[k]) > AT_A_CORNER * half[k]
    return behind


@wp.func
def move_touch(gap: Gap, side: int, moved: wp.vec3d):
    """A contact whose body on one side is touched elsewhere; the other one is touched across from there, on the same plane."""
    across = as_constant(tangential(gap.normal, moved))
    on_a = wp.where(side == 0, moved, across)
    on_b = wp.where(side == 0, across, moved)
    gap.a.support += on_a
    gap.a.surface += on_a
    gap.b.support += on_b
    gap.b.surface += on_b
    gap.phi0 += wp.dot(gap.normal, on_b - on_a)
    return gap


@wp.func
def face_plane(shapes: Shapes, m: Motion, rows: ContactRows, gap: Gap, i: int):
    """Let a box be touched in the corner opposite to one that is behind; the one before that is deeper, and has its own contact.

    A box that no joint moves stays as it was found.
    """
    link = shown(gap.b.link)
    if link < 0 or not may_face(shapes, rows, i):
        return gap
    X = shapes.transform[rows.shape1[i]]
    q = m.rotation[link]
    if not is_behind(X, shapes.scale[rows.shape1[i]], rows.point1[i], wp.quat_rotate_inv(q, -gap.normal)):
        return gap
    moved = wp.quat_rotate(q, wp.float64(-2.0) * to_vec3d(rows.point1[i] - wp.transform_get_translation(X)))
    return move_touch(gap, 1, moved)
