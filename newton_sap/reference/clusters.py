"""Clusters: trees that contacts may make push each other in a step. What is true of one says nothing of another."""

from __future__ import annotations

import numpy as np

from .multibody import ROD


def find_clusters(m, contacts, rows, met=()):
    """Return the tree of each dof, a label of each tree that its cluster shares, and all terms with the unknowns that move them.

    Contacts link trees whether they act or not; what closes a loop ties all trees of its world. ``met`` has of each contact, those with
    edges inside a surface too, the dofs that carry its bodies.
    """
    tree = m.root[m.joint_of_dof] if m.dofs else np.zeros(0, int)
    terms = [(np.flatnonzero(np.any(c.J != 0.0, axis=0) & m.unknown), c) for c in contacts]
    terms = [(dofs, c) for dofs, c in terms if len(dofs)] + [([row.dof], row) for row in rows]
    world = {int(t): int(m.body_world[m.child[t]]) for t in set(tree) - {-1}}
    tied = set(m.body_world[m.child[m.loop | (m.type == ROD)]].tolist())
    label = {t: min(o for o in world if world[o] == world[t]) if world[t] in tied else t for t in world}
    linked = [[k for path in paths for k in path if m.unknown[k]] for paths in met]
    for dofs in linked + [dofs for dofs, _ in terms]:
        joined = {label[int(tree[k])] for k in dofs}
        label = {t: min(joined, default=t) if its in joined else its for t, its in label.items()}
    return tree, label, terms
