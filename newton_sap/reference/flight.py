"""Trees of the reference that fly, whose centre of mass goes straight on (dense, float64)."""

from __future__ import annotations

import numpy as np

from .basics import FREE


def straighten(reference, m, kin, v, q, pushed, ties, dt):
    """Return coordinates and velocities with the COM of flying trees where their momentum takes it, and as fast.

    Args:
        reference: The :class:`newton_sap.reference.multibody.Multibody`.
        m: The snapshot.
        kin: Kinematics at the start of the step.
        v: Velocities of the solve, shape (dofs,).
        q: Coordinates at the end of the step, shape (coordinates,).
        pushed: ``(body, body)`` of each contact that gave an impulse, -1 for the world.
        ties: Couplers of the step.
        dt: Step [s].
    """
    if reference.position_update != "symplectic":
        return q, v
    q, v = q.copy(), v.copy()
    after = reference.kinematics(m, q, v)
    force = m.body_f[:, :3] + m.mass[:, None] * m.gravity[m.body_world]
    for root in flying_roots(m, pushed, ties):
        bodies = m.child[m.root == root]
        i = m.qd_start[root]
        mass = m.mass[bodies, None]
        push = force[bodies].sum(axis=0) + m.joint_f[i : i + 3]
        rate = ((mass * kin.v_com[bodies]).sum(axis=0) + dt * push) / mass.sum()
        shift = (mass * (kin.com[bodies] - after.com[bodies])).sum(axis=0) / mass.sum() + dt * rate
        gain = rate - (mass * after.v_com[bodies]).sum(axis=0) / mass.sum()
        q[m.q_start[root] : m.q_start[root] + 3] += kin.anchor[root].T @ shift
        v[i + 3 : i + 6] += kin.anchor[root].T @ gain
    return q, v


def flying_roots(m, pushed, ties):
    """Yield the free joints of trees of several bodies that nothing but known forces pushed from outside."""
    tree = {int(m.child[j]): int(m.root[j]) for j in m.order}
    pairs = [*pushed, *((int(m.parent[j]), int(m.child[j])) for j in np.flatnonzero(m.loop))]
    pairs = [(tree.get(a, -1), tree.get(b, -1)) for a, b in pairs]
    held = {root for a, b in pairs if a != b for root in (a, b)}
    free = m.is_free()
    for root in np.flatnonzero(m.root == np.arange(len(m.root))):
        slide = slice(m.qd_start[root] + 3, m.qd_start[root] + 6)
        public = m.public_dof[slide]
        resists = (m.armature[public] != 0.0) | (m.damping[public] != 0.0) | (m.friction[public] != 0.0)
        floats = m.type[root] == FREE and not m.prescribed_joint[root] and free[m.root == root].sum() == 1
        tied = any(np.any(tie.J[:, slide]) for tie in ties)
        if floats and (m.root == root).sum() > 1 and int(root) not in held and not resists.any() and not tied:
            yield root
