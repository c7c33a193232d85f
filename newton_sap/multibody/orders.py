"""The public <-> sap boundary: twists and wrenches of free joints, and body wrenches.

Public order is linear first at the COM, ``[v_C, w]`` and ``[f, tau_C]``; sap order is angular first at the body
origin, ``[w, v_O]`` and ``[tau_O, f]``. With ``r = r_OC`` the vector from origin to COM::

    u_sap = P_v(r) u_public     P_v(r) = [[0, I], [I, [r]x]]
    g_sap = P_f(r) g_public     P_f(r) = [[[r]x, I], [I, 0]] = P_v(r)^-T

so that power ``g . u`` is the same in both. Only free, distance and rod joints change; every other joint is copied.
Components of a free joint's velocity are in its parent-anchor axes, those of its force in world axes, as in Newton.
"""

import warp as wp

from .spatial import motion, to_vec3d

wp.set_module_options({"enable_backward": False})


@wp.struct
class Orders:
    """How the buffers of this step are laid out; 1 means sap order."""

    qd_in: int
    qd_out: int
    joint_f: int
    body_f: int
    reference_is_com: int  # the solver's own reference point of free joints: 1 COM, 0 body origin


@wp.func
def sap_velocity(v_C: wp.vec3d, w: wp.vec3d, r: wp.vec3d):
    """P_v(r): [v_C, w] to [w, v_O]."""
    return motion(w, v_C + wp.cross(r, w))


@wp.func
def sap_force(f: wp.vec3d, tau_C: wp.vec3d, r: wp.vec3d):
    """P_f(r): [f, tau_C] to [tau_O, f]."""
    return motion(tau_C + wp.cross(r, f), f)


@wp.func
def read3(values: wp.array[wp.float32], start: int):
    """Three consecutive scalars as a float64 vector."""
    return wp.vec3d(wp.float64(values[start]), wp.float64(values[start + 1]), wp.float64(values[start + 2]))


@wp.func
def free_velocity(orders: Orders, v_C: wp.vec3d, w: wp.vec3d, r_OC: wp.vec3d):
    """[v_C, w] to [w, v_ref], with the solver's reference point."""
    if orders.reference_is_com == 1:
        return motion(w, v_C)
    return sap_velocity(v_C, w, r_OC)


@wp.func
def free_velocity_from_joint_qd(orders: Orders, joint_qd: wp.array[wp.float32], start: int, r_OC: wp.vec3d):
    """A free joint's velocity as [w, v_ref] from either order."""
    v_C = read3(joint_qd, start)
    w = read3(joint_qd, start + 3)
    if orders.qd_in == 1:
        w = read3(joint_qd, start)
        v_C = read3(joint_qd, start + 3) + wp.cross(w, r_OC)
    return free_velocity(orders, v_C, w, r_OC)


@wp.func
def free_velocity_from_body_qd(orders: Orders, body_qd: wp.array[wp.spatial_vector], body: int, r_OC: wp.vec3d):
    """A body's velocity as [w, v_ref]; ``body_qd`` is in public order always."""
    v_C = to_vec3d(wp.spatial_top(body_qd[body]))
    w = to_vec3d(wp.spatial_bottom(body_qd[body]))
    return free_velocity(orders, v_C, w, r_OC)


@wp.func
def write_free_velocity(
    orders: Orders, joint_qd: wp.array[wp.float32], start: int, w: wp.vec3d, v_C: wp.vec3d, r_OC: wp.vec3d
):
    """Write a free joint's velocity, given at the COM, in the order asked for."""
    head = v_C
    tail = w
    if orders.qd_out == 1:
        u = sap_velocity(v_C, w, r_OC)
        head = w
        tail = wp.vec3d(u[3], u[4], u[5])
    for i in range(3):
        joint_qd[start + i] = wp.float32(head[i])
        joint_qd[start + 3 + i] = wp.float32(tail[i])


@wp.func
def free_force_from_joint_f(orders: Orders, joint_f: wp.array[wp.float32], start: int, r_OC: wp.vec3d):
    """The wrench [tau_O, f] of a free joint's ``joint_f`` from either order."""
    head = read3(joint_f, start)
    tail = read3(joint_f, start + 3)
    if orders.joint_f == 1:
        return motion(head, tail)
    return sap_force(head, tail, r_OC)


@wp.func
def residual_from_body_f(orders: Orders, body_f: wp.array[wp.spatial_vector], body: int, r_OC: wp.vec3d):
    """The residual -[tau_O, f] of an external body wrench from either order."""
    head = to_vec3d(wp.spatial_top(body_f[body]))
    tail = to_vec3d(wp.spatial_bottom(body_f[body]))
    if orders.body_f == 1:
        return motion(head, tail)
    return -sap_force(head, tail, r_OC)
