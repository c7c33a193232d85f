"""Fetching what the next tree or group needs while this one is worked on.

Worlds by the hundred do not stay in a CPU's caches from one stage to the next, and what a world needs lies in more short
pieces than the processor can foresee. On CUDA, where blocks have several lanes, other blocks work meanwhile: nothing of this is
compiled, and no block reads what another one writes.
"""

import warp as wp

from ..workspace import ROWS_PER_DOF, Bodies, ContactPool, Joints, Motion, Pools, Problem, RowPool, Tree

wp.set_module_options({"enable_backward": False})


MOST = 2**15
"""Bytes of one array that are fetched at once."""


def fetching(name: str, bundle_type, *arrays: str):
    """Return the device function ``name(bundle, first, last)``, which fetches that range of the named arrays.

    Into the second cache, because the first is full of the work at hand, and no more than the start of long ranges.
    """

    def fetch(bundle: bundle_type, first: int, last: int): ...

    fetch.__qualname__ = name  # by which Warp tells functions apart
    return wp.func_native(f"""
#if !defined(__CUDA_ARCH__)
    const auto lines = [](const void* data, size_t begin, size_t end) __attribute__((noinline)) {{
        for (size_t at = begin; at < end && at < begin + {MOST}; at += 64) __builtin_prefetch((const char*)data + at, 0, 2);
    }};
    const auto fetch = [&](const auto& x) {{ lines(x.data, first * sizeof(*x.data), last * sizeof(*x.data)); }};
    {" ".join(f"fetch(bundle.{array});" for array in arrays)}
#endif
""")(fetch)


fetch_paths = fetching("fetch_paths", Tree, "path_dof")
fetch_indices = fetching("fetch_indices", Tree, "dof_last", "dofs")
fetch_bodies = fetching("fetch_bodies", Bodies, "mass", "inertia", "inv_inertia")
fetch_axes = fetching(
    "fetch_axes", Joints,
    "armature", "damping", "friction", "stiffness", "limit_lower", "limit_upper", "limit_ke", "effort_limit", "target_mode",
    "target_ke", "target_kd",
)  # fmt: skip
fetch_links = fetching(
    "fetch_links", Motion, "position", "rotation", "com", "velocity", "bias", "mass", "moment", "inertia", "momentum"
)
fetch_momentum = fetching("fetch_momentum", Motion, "momentum")
fetch_dofs = fetching("fetch_dofs", Motion, "column", "v0", "v_star", "v", "travel", "drive_speed")
fetch_mass_matrix = fetching("fetch_mass_matrix", Motion, "A")
fetch_unknowns = fetching(
    "fetch_unknowns", Problem,
    "dof", "block", "block_end", "A_row", "last", "row_start", "row_end", "v", "v_star", "scale", "change", "excess",
    "impulse", "dv", "dp",
)  # fmt: skip
fetch_rows = fetching("fetch_rows", RowPool, "unknown", "law", "gamma", "G")
fetch_jacobians = fetching("fetch_jacobians", ContactPool, "unknown", "J")
fetch_contacts = fetching(
    "fetch_contacts", ContactPool,
    "spin_of", "normal", "bias", "mu", "R_t", "R_n", "v_hat", "normal_law", "n0", "slip_scale", "vc", "line", "slip_direction",
    "slowness", "gamma", "G", "support",
)  # fmt: skip


@wp.func
def fetch_tree(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, change: Motion, t: int):
    """What free motion needs of a tree, if there is one of that number."""
    if wp.block_dim() == 1 and t + 1 < tree.trees.shape[0]:
        link = tree.trees[t].link_start
        next_link = tree.trees[t + 1].link_start
        fetch_links(m, link, next_link)
        fetch_momentum(change, link, next_link)
        fetch_paths(tree, tree.links[link].path_start, tree.links[next_link].path_start)
        body = tree.links[link].body
        fetch_bodies(bodies, body, body + next_link - link)
        dof = tree.trees[t].dof_start
        next_dof = tree.trees[t + 1].dof_start
        fetch_dofs(m, dof, next_dof)
        fetch_indices(tree, dof, next_dof)
        if next_dof > dof:
            public = tree.dofs[dof].qd
            fetch_axes(joints, public, public + next_dof - dof)
        fetch_mass_matrix(m, tree.trees[t].block_start, tree.trees[t + 1].block_start)


@wp.func
def fetch_cluster(tree: Tree, m: Motion, pools: Pools, problem: Problem, k: int):
    """What a cluster's assembly and minimisation need, if there is one of that entry."""
    if wp.block_dim() == 1 and k + 1 < problem.clusters.entry.shape[0]:
        cluster = problem.clusters.entry[k]
        fetch_unknowns(problem, cluster.dof_start, problem.clusters.entry[k + cluster.trees].dof_start)
        row = ROWS_PER_DOF * cluster.dof_start
        fetch_rows(pools.rows, row, row + cluster.rows)
        next_slot = cluster.contact_start + cluster.contacts
        fetch_contacts(pools.contacts, cluster.contact_start, next_slot)
        fetch_jacobians(
            pools.contacts, pools.contacts.stride * cluster.contact_start, pools.contacts.stride * next_slot
        )
        # Of a group of one cluster those of all trees, else what lies behind the first.
        last = cluster.tree + cluster.trees
        fetch_mass_matrix(m, tree.trees[cluster.tree].block_start, tree.trees[last].block_start)
