"""Clusters: trees that contacts may make push each other in a step. What is true of one says nothing of another."""

from __future__ import annotations

import numpy as np

from .basics import ROD


def tied_roots(m):
    """Return, by the root joint of each tree with dofs, the first of those that joints past the trees tie together with it."""
    label = {int(root): int(root) for root in set(m.root[m.joint_of_dof]) - {-1}} if m.dofs else {}
    roots = {int(m.child[j]): int(m.root[j]) for j in np.flatnonzero(~m.loop)}
    for j in np.flatnonzero(m.loop | (m.type == ROD)):
        join(label, {roots[b] for b in (int(m.parent[j]), int(m.child[j])) if roots.get(b) in label})
    return label


def tied_links(m, *bodies):
    """Return how many links the trees have that are tied together with those of some bodies."""
    label = tied_roots(m)
    own = {label.get(int(m.root[j])) for j in m.order if m.child[j] in bodies} - {None}
    return sum(label.get(int(m.root[j])) in own for j in m.order)


def join(label, trees):
    """Let some trees, and those that share their labels, have the same one."""
    joined = {label[t] for t in trees}
    label.update({t: min(joined) for t, its in label.items() if its in joined})


def find_clusters(m, contacts, rows, met=()):
    """Return the tree of each dof, a label of each tree that its cluster shares, and all terms with the unknowns that move them.

    Contacts link trees whether they act or not, and so does what ties bodies past the joints of trees. ``met`` has of each contact,
    those with edges inside a surface too, the dofs that carry its bodies.
    """
    tree = m.root[m.joint_of_dof] if m.dofs else np.zeros(0, int)
    terms = [(np.flatnonzero(np.any(c.J != 0.0, axis=0) & m.unknown), c) for c in contacts]
    terms = [(dofs, c) for dofs, c in terms if len(dofs)] + [([row.dof], row) for row in rows]
    label = tied_roots(m)
    for paths in met:
        join(label, {int(tree[k]) for path in paths for k in path if m.unknown[k]})
    for dofs, _ in terms:
        join(label, {int(tree[k]) for k in dofs})
    return tree, label, terms
