"""Motors that push bodies: those on sites, and those on free and ball joints, which have no axis of their own."""

import warp as wp

from ..multibody.joints import BALL
from ..multibody.orders import Orders
from .actuator_laws import ActuatorTable, Commands, has, motor_pull
from .actuator_rows import IN_PARENT

wp.set_module_options({"enable_backward": False})


@wp.struct
class Push:
    """A force through a body's origin, and a torque; world axes."""

    force: wp.vec3
    torque: wp.vec3


@wp.func
def push_on_site(table: ActuatorTable, a: int, f: wp.float32, X_body: wp.transform):
    """What a motor on a site does to the site's body: ``f`` times its gears, in the site's axes."""
    out = Push()
    gear = table.gear[a]
    X_site = X_body * table.site_transform[table.site[a]]
    arm = wp.transform_get_translation(X_site) - wp.transform_get_translation(X_body)
    out.force = f * wp.transform_vector(X_site, wp.vec3(gear[0], gear[1], gear[2]))
    out.torque = wp.cross(arm, out.force) + f * wp.transform_vector(X_site, wp.vec3(gear[3], gear[4], gear[5]))
    return out


@wp.func
def joint_axes(table: ActuatorTable, joint: int, in_parent: bool, body_q: wp.array[wp.transform]):
    """Axes that turn with a joint's child; or those the child has at zero coordinates, a free one the world's."""
    axes = wp.transform_get_rotation(body_q[table.joint_child[joint]])
    if in_parent:
        axes = wp.quat_identity()
        if table.joint_type[joint] == BALL:
            X_p = table.joint_X_p[joint]
            parent = table.joint_parent[joint]
            if parent >= 0:
                X_p = body_q[parent] * X_p
            axes = wp.transform_get_rotation(X_p) * wp.quat_inverse(wp.transform_get_rotation(table.joint_X_c[joint]))
    return axes


@wp.func
def push_on_joint(table: ActuatorTable, a: int, f: wp.float32, body: int, body_q: wp.array[wp.transform]):
    """What a motor of a free or ball joint does to one of its bodies: ``f`` times its gears.

    The force on a free joint has the axes of the world.
    """
    out = Push()
    gear = table.gear[a]
    joint = table.joint[a]
    axes = joint_axes(table, joint, has(table, a, IN_PARENT), body_q)
    if table.joint_type[joint] == BALL:
        out.torque = f * wp.quat_rotate(axes, wp.vec3(gear[0], gear[1], gear[2]))
        if body != table.joint_child[joint]:
            out.torque = -out.torque
    else:
        out.force = f * wp.vec3(gear[0], gear[1], gear[2])
        out.torque = f * wp.quat_rotate(axes, wp.vec3(gear[3], gear[4], gear[5]))
    return out


@wp.func
def push_of(table: ActuatorTable, ctrl: wp.array[wp.float32], a: int, body: int, body_q: wp.array[wp.transform]):
    """What one motor does to a body."""
    f = motor_pull(table, ctrl, a)
    if table.site[a] >= 0:
        return push_on_site(table, a, f, body_q[body])
    return push_on_joint(table, a, f, body, body_q)


@wp.func
def sum_pushes(table: ActuatorTable, ctrl: wp.array[wp.float32], axis: int, body: int, body_q: wp.array[wp.transform]):
    """Force through the origin of a body, and torque, of all its motors."""
    force = wp.vec3()
    torque = wp.vec3()
    for k in range(table.axis_start[axis], table.axis_start[axis + 1]):
        push = push_of(table, ctrl, table.row[k], body, body_q)
        force += push.force
        torque += push.torque
    return force, torque


@wp.func
def push_body(
    table: ActuatorTable,
    given: Commands,
    ctrl: wp.array[wp.float32],
    out: Commands,
    orders: Orders,
    body_q: wp.array[wp.transform],
    axis: int,
    body: int,
):
    """What the caller applies to one body, and its motors."""
    X_body = body_q[body]
    force, torque = sum_pushes(table, ctrl, axis, body, body_q)
    wrench = wp.spatial_vector(-torque, -force)
    if orders.body_f == 0:
        wrench = wp.spatial_vector(force, torque - wp.cross(wp.transform_vector(X_body, table.body_com[body]), force))
    if given.body_f.shape[0] > 0:
        wrench += given.body_f[body]
    out.body_f[body] = wrench
