"""Bodies of the reference that fly on a joint below another one, and go as by themselves (dense, float64)."""

from __future__ import annotations

import numpy as np

from .basics import FLYING, compose, invert, quat_exp, quat_matrix, quat_mul, unit


def fly_on(reference, m, kin, v, travel, q, dt):
    """Return coordinates and velocities in which such bodies go by their own velocity, whatever those above them do.

    Args:
        reference: The :class:`newton_sap.reference.multibody.Multibody`.
        m: The snapshot.
        kin: Kinematics at the start of the step.
        v: Velocities of the solve, shape (dofs,).
        travel: Those that coordinates move with.
        q: Coordinates at the end of the step, shape (coordinates,).
        dt: Step [s].
    """
    if reference.position_update != "symplectic":
        return q, v
    q, seen = q.copy(), v.copy()
    for j in m.order:
        p, c = int(m.parent[j]), int(m.child[j])
        if m.type[j] not in FLYING or p < 0 or m.prescribed_joint[j] or m.root[j] == j:
            continue
        J_w, J_v = kin.jacobian(c, kin.com[c])
        com = kin.com[c] + dt * J_v @ travel
        quat = unit(quat_mul(quat_exp(dt * J_w @ travel), kin.quat[c]))
        after = reference.kinematics(m, q, seen)
        pose, w_p, v_p = (after.origin[p], after.quat[p]), after.omega[p], _material(after, p, com)
        if m.prescribed_joint[m.root[j]]:  # its owner is about to move the root, and what hangs on it
            root = int(m.child[m.root[j]])
            turn = quat_exp(dt * kin.omega[root])
            R, there = quat_matrix(turn), kin.com[root] + dt * kin.v_com[root]
            pose = compose((there - R @ kin.com[root], turn), pose)
            before = kin.com[root] + R.T @ (com - there)
            w_p = kin.omega[root] + R @ (after.omega[p] - kin.omega[root])
            v_p = kin.v_com[root] + np.cross(kin.omega[root], com - there)
            v_p = v_p + R @ (_material(after, p, before) - _material(kin, root, before))
        anchor = compose(pose, m.X_p[j])
        body = (com - quat_matrix(quat) @ m.com[c], quat)
        place, turned = compose(compose(invert(anchor), body), m.X_c[j])
        q[m.coords(j)] = np.concatenate([place, turned])
        i, axes = m.qd_start[j], quat_matrix(anchor[1])
        seen[i : i + 3] = axes.T @ (J_w @ v - w_p)
        seen[i + 3 : i + 6] = axes.T @ (J_v @ v - v_p)
    return q, seen


def _material(kin, body, point):
    """Velocity of a body's material at a point [m/s]."""
    return kin.v_com[body] + np.cross(kin.omega[body], point - kin.com[body])
