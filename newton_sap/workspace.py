"""The bundles of arrays that kernels share, and their allocation.

Lengths: ``G`` solve groups, ``P`` parts of them, ``T`` trees, ``L`` links, ``D`` dofs, ``C`` contact slots, ``K`` couplings,
``R`` rows of couplers. Units: [q] is that of a coordinate, m or rad, and [tau] that of its force, N or N m.

A *solve group* is a set of trees that may ever meet (one world), a *cluster* is those of a group that may push each other in this
step, which are minimised together, a *tree* is a root with everything below it, a *link* is one body with the tree joint that moves
it; a root that no joint moves flies freely. Groups, trees, links and dofs are
contiguous: the links of a tree lie between two entries of ``tree_link_start``, and so on. Spatial vectors are angular
first, in world axes, about the world origin.

Some arrays hold something else before they hold what their comment says:

- ``Motion.mass``, ``moment``, ``inertia``, ``momentum``: what is each body's own, until free motion adds subtrees up.
- ``Motion.gained`` is ``motion_after.velocity``, until integration; ``motion_after.bias`` is its ``momentum``, before which it is read.
- ``ContactPool.row``: twice the row, and one for a spin, while ``fill_contacts`` works; ``spin_of``: room to sort in, then marks of
  edges (``contacts/internal_edges.py``).
- ``ContactPool.gamma``, ``vc``, ``support``: of edges where they are touched, how they were passed, on which side, until assembly;
  ``v_hat``: what wheels spare; ``rebound``: the restitution.
- ``Arrivals.next``: the rows of a part, until they go to the lists of groups.
- ``Problem.readable``, ``dv``, ``dp``: labels and sums of islands, while ``minimizer/islands.py`` works.
"""

from __future__ import annotations

import warp as wp

from .linalg.blocks import BlockMatrix
from .linalg.lanes import LANES_OF_A_LIST

ROWS_PER_DOF = 5
"""Scalar rows one dof can carry: two position limits, drive, dry friction, velocity limit."""

OF_SPINS = ("mu_torsional", "mu_rolling")
"""Arrays of contacts that only spin friction needs."""

DIRECT_DOFS, DIRECT_TREES = 512, 32
"""Largest solve group, or cluster of a larger one, of small trees whose Hessian is formed and factored; others use conjugate gradients. The number of trees bounds
on a CPU alone, and only models without gradients (``boundary/matrices.py``)."""

CLUSTER_DOFS = 128
"""Most dofs of a cluster that a GPU factors in a larger group: robots; there each dof of the group has room for so many columns."""

LONG_TREE = wp.constant(48)
"""Unknowns of a tree above which contacts enter the Hessian as inertias of links (``minimizer/added_inertia.py``), not one by one."""

COUPLER_ROWS = 6
"""Scalar rows one coupling can hold: all directions of a weld, or each coordinate of a six-dof joint."""


@wp.struct
class TreeEntry:
    """Where a tree's links, dofs and mass matrix begin, and how it moves."""

    link_start: int
    dof_start: int
    block_start: int  # first entry of its dense block in A
    factor_start: int  # the same of its factor
    group: int
    prescribed: wp.int8  # 1 where the root stays kinematic, whatever its flag says later
    moves: wp.int8  # how velocities change within a step: gyroscopic.HELD, ALONE, TOGETHER or TIED


@wp.struct
class GroupEntry:
    """Where a group's trees, dofs and Hessian begin."""

    hessian_start: wp.int64  # -1 - that of its clusters where the group is too large for one
    tree_start: int
    dof_start: int


@wp.struct
class LinkEntry:
    """What a link is in Newton's model, what it hangs on, and where its dofs and its path begin."""

    joint: int  # Newton joint; -1 for a root that no joint moves
    body: int  # Newton body
    parent: int  # link, -1 for the world
    tree: int
    dof_start: int
    path_start: int


@wp.struct
class DofEntry:
    """Which link a dof moves, and where Newton keeps its rate and coordinate."""

    link: int
    qd: int  # index in Newton's joint_qd; -1 for a root that no joint moves
    q: int  # index in Newton's joint_q, -1 where the coordinate is a quaternion


@wp.struct
class BodyEntry:
    """Which link a Newton body is."""

    link: int  # -1 for a body that does not move by itself
    part: int  # -1 for those, and for bodies of the global world


@wp.struct
class Tree:
    """Who hangs on whom; constant after construction, but for radii and pulls. One entry more than there are, where some begin somewhere."""

    first_tree: int  # where the threads of a launch begin to count
    first_group: int
    part: int  # which part of the groups it covers
    part_groups: int  # and how many those are
    global_group: int  # of kinematic bodies that every world may touch; -1 where there is none
    trees: wp.array[TreeEntry]  # (T + 1,)
    groups: wp.array[GroupEntry]  # (G + 1,)
    links: wp.array[LinkEntry]  # (L + 1,)
    dofs: wp.array[DofEntry]  # (D,)
    bodies: wp.array[BodyEntry]  # (bodies,)
    group_tied: wp.array[wp.int32]  # (G,) 1 where couplings may hand one body's speed to another
    path_dof: wp.array[wp.int32]  # dofs from the root to each link, that link's own included
    dof_last: wp.array[wp.int32]  # (D,) last dof of the subtree that this one moves
    pushes: int  # free, distance and rod joints that move no link: these, by the link of their child
    push_start: wp.array[wp.int32]  # (L + 1,), empty where there are none
    push_joint: wp.array[wp.int32]  # (pushes,)
    hung_links: int  # L where couplings may hang loads on links, else 0
    hung_pull: wp.array[wp.vec3d]  # (L,) of what they hang on its subtree, in this step [N]; empty where there are none
    link_radius: wp.array[wp.float32]  # (L,) of its colliding shapes about the COM, as of the latest notice [m]
    restitution: wp.array[wp.float32]  # (1,) the greatest of colliding shapes, as of the same
    compounds: int  # 1 where several shapes with flat faces may be on links that are rigidly one, as of construction
    dof_faces: wp.array[wp.int32]  # (D,) how many of those that collide it is the last to move; else empty


@wp.struct
class Joints:
    """Newton's joint arrays, read live: ``J`` joints, ``V`` entries of joint_qd, ``Q`` of joint_q."""

    type: wp.array[wp.int32]  # (J,) newton.JointType
    q_start: wp.array[wp.int32]  # (J + 1,) into joint_q
    qd_start: wp.array[wp.int32]  # (J + 1,) into joint_qd
    dof_dim: wp.array2d[wp.int32]  # (J, 2) linear and angular axes
    X_p: wp.array[wp.transform]  # (J,) anchor on the parent body
    X_c: wp.array[wp.transform]  # (J,) anchor on the child body
    axis: wp.array[wp.vec3]  # (V,) in the parent anchor
    armature: wp.array[wp.float32]  # (V,) [kg or kg m^2]
    damping: wp.array[wp.float32]  # (V,) [tau s/q]
    friction: wp.array[wp.float32]  # (V,) [tau]
    stiffness: wp.array[wp.float32]  # (V,) [tau/q]
    rest_q: wp.array[wp.float32]  # (Q,) [q]
    limit_lower: wp.array[wp.float32]  # (V,) [q]
    limit_upper: wp.array[wp.float32]  # (V,) [q]
    limit_ke: wp.array[wp.float32]  # (V,) [tau/q]
    limit_kd: wp.array[wp.float32]  # (V,) [tau s/q]
    velocity_limit: wp.array[wp.float32]  # (V,) [q/s]; none where it is zero
    effort_limit: wp.array[wp.float32]  # (V,) [tau]
    # What a drive may exert beside motors; empty where it is +-effort_limit
    effort_lower: wp.array[wp.float32]  # (V,) [tau]
    effort_upper: wp.array[wp.float32]  # (V,) [tau]
    target_mode: wp.array[wp.int32]  # (V,) newton.JointTargetMode
    target_ke: wp.array[wp.float32]  # (V,) [tau/q]
    target_kd: wp.array[wp.float32]  # (V,) [tau s/q]


@wp.struct
class StateArrays:
    """The arrays of one of the caller's states; for a root that no joint moves, ``body_q`` and ``body_qd`` count."""

    joint_q: wp.array[wp.float32]  # (Q,) [q]
    joint_qd: wp.array[wp.float32]  # (V,) [q/s]
    body_q: wp.array[wp.transform]  # (bodies,) origin [m]
    body_qd: wp.array[wp.spatial_vector]  # (bodies,) [v_C, w] [m/s, rad/s]


@wp.struct
class ChosenWorlds:
    """Worlds that begin anew."""

    mask: wp.array[wp.bool]  # (worlds + 1,), the last entry for what is in none; empty for all


@wp.struct
class Bodies:
    """Newton's body arrays and gravity, read live, one entry per body."""

    mass: wp.array[wp.float32]  # [kg]
    inertia: wp.array[wp.mat33]  # about the COM, in body axes [kg m^2]
    inv_inertia: wp.array[wp.mat33]  # zero for bodies that are points, or needles about their length
    com: wp.array[wp.vec3]  # in the body frame [m]
    flags: wp.array[wp.int32]  # newton.BodyFlags
    world: wp.array[wp.int32]  # -1 for global ones
    gravity: wp.array[wp.vec3]  # (worlds + 1,) [m/s^2], the last one for global bodies
    gravcomp: wp.array[wp.float32]  # share of gravity that does not act (mujoco:gravcomp); empty if not registered


@wp.struct
class Shapes:
    """Newton's shapes and their materials, read live, one entry per shape."""

    body: wp.array[wp.int32]  # -1 for the world
    type: wp.array[wp.int32]  # newton.GeoType
    source_ptr: wp.array[wp.uint64]  # mesh of what has facets
    transform: wp.array[wp.transform]  # on the body
    scale: wp.array[
        wp.vec3
    ]  # [m] half extents of boxes; radius and half height of cylinders; of other types, other sizes
    aabb_lower: wp.array[wp.vec3]  # bounds in its own axes [m]
    aabb_upper: wp.array[wp.vec3]
    ke: wp.array[wp.float32]  # [N/m]
    kd: wp.array[wp.float32]  # [N s/m]
    mu: wp.array[wp.float32]
    mu_torsional: wp.array[wp.float32]  # [m]
    mu_rolling: wp.array[wp.float32]  # [m]
    restitution: wp.array[wp.float32]
    # sap:relaxation_time [s] and sap:hunt_crossley_dissipation [s/m]; negative or empty where kd / ke and the default apply
    relaxation_time: wp.array[wp.float32]
    dissipation: wp.array[wp.float32]
    solref: wp.array[wp.vec2f]  # mujoco:solref, empty if not registered
    condim: wp.array[wp.int32]  # mujoco:condim, or empty: 1 without friction
    priority: wp.array[wp.int32]  # mujoco:geom_priority, or empty


@wp.struct
class Motion:
    """Kinematics and free motion of the current step (float64).

    The solver's second one, ``motion_after``, is placed at the end of the step: its ``v0`` is the new velocity, and observables
    gather impulses in its ``momentum``. Before that, as ``change``, it has the change of velocity that velocity products
    follow, of the rates, of the links, and what it makes of their momentum.
    """

    position: wp.array[wp.vec3d]  # (L,) body origin [m]
    rotation: wp.array[wp.quatd]  # (L,) body orientation
    com: wp.array[wp.vec3d]  # (L,) centre of mass [m]
    velocity: wp.array[wp.spatial_vectord]  # (L,) at v0
    gained: wp.array[wp.spatial_vectord]  # (L,) what free motion adds to that, couplings left out
    bias: wp.array[wp.spatial_vectord]  # (L,) acceleration at qdd = 0, gravity apart
    column: wp.array[wp.spatial_vectord]  # (D,) motion subspace: d(velocity)/d(v)
    mass: wp.array[wp.float64]  # (L,) of the subtree [kg]
    moment: wp.array[wp.vec3d]  # (L,) first moment of the subtree [kg m]
    inertia: wp.array[wp.mat33d]  # (L,) of the subtree about the world origin [kg m^2]
    momentum: wp.array[wp.spatial_vectord]  # (L,) momentum after free motion of the subtree [N s]
    A: wp.array[wp.float64]  # one dense block per tree: M + dt D + dt^2 K
    factor: wp.array[wp.float64]  # Cholesky factor of the free part of each block, or of the one at work
    v0: wp.array[wp.float64]  # (D,)
    v_star: wp.array[wp.float64]  # (D,)
    v: wp.array[wp.float64]  # (D,)
    travel: wp.array[wp.float64]  # (D,) what moves the coordinates: v, unless surfaces meet and bounce within the step
    drive_speed: wp.array[wp.float64]  # (D,) what drives and violated limits may add to |v_star|
    locked: wp.array[wp.int32]  # (T,) leading dofs of the tree whose velocity is prescribed
    leans: wp.array[wp.int32]  # (T,) 1 where a tree that hangs on the world leans against something, too
    flight: wp.array[
        wp.int32
    ]  # (T,) 1 where a tree flew in this step, 0 where contacts pushed it, -1 where it never flies
    group_speed: wp.array[wp.float64]  # (G,) what the fastest point may reach within the step [m/s]


@wp.struct
class Arrivals:
    """Newton's contacts that may act in this step: one linked list per group. Length ``N`` is Newton's capacity."""

    part_head: wp.array[wp.int32]  # (P,) row + 1 of the first that may concern a part; empty where there is one part
    head: wp.array[wp.int32]  # (G,) row + 1 of the latest, 0 where there is none
    left_out: wp.array[wp.int32]  # (L,) the same of those that are open and too slow to meet, by a link that moves
    next: wp.array[wp.int32]  # (N,) row + 1 of the one before it, of a part's the one after it
    phi0: wp.array[
        wp.float32
    ]  # (N,) signed distance, or what one that is left out lacks of meeting [m]; ASLEEP more for one that sleeps
    corners: wp.array[
        wp.int32
    ]  # (N,) corners that touch, a bit for each; empty where shapes have none but what was found
    push: wp.array[wp.float32]  # (G,) how far what overlaps, or has no joint, may push within the step [m]
    group_count: wp.array[wp.int32]  # (G,) slots they ask for
    group_start: wp.array[wp.int32]  # (G,) those of the part's groups before
    lane_count: wp.array[wp.int32]  # (P * LANES_OF_A_LIST,) what each lane has added up of them


@wp.struct
class NormalLaw:
    """One contact's normal law."""

    fe0: wp.float64  # elastic force at the start of the step, negative while open [N]
    k: wp.float64  # [N/m]
    d: wp.float64  # dissipation of surfaces that approach [s/m]
    dt: wp.float64  # [s]
    parting: wp.float64  # the same of surfaces that part, at most d


@wp.struct
class ContactLine:
    """A contact's velocity along a search direction, as far as a law asks: ``vn`` and ``|vt|^2`` with their changes."""

    vn: wp.float64  # [m/s]
    dvn: wp.float64  # change of vn with the step length
    vt_squared: wp.float64  # vt.vt [m^2/s^2]
    vt_dvt: wp.float64  # vt . dvt
    dvt_squared: wp.float64  # dvt.dvt


@wp.struct
class ContactPool:
    """Contacts that may act in this step, one slot each; what some arrays hold before assembly is in ``contacts/borrowed.py``."""

    part_start: wp.array[wp.int32]  # (P + 1,) slots of each part
    group_count: wp.array[wp.int32]  # (G,)
    group_start: wp.array[wp.int32]  # (G,) a group's slots are contiguous, cluster after cluster
    last_surface: wp.array[
        wp.int32
    ]  # (L,) slot + 1 of the last contact of a link with a surface that may have edges inside; stale where it has none
    surface_before: wp.array[wp.int32]  # (C,) slot + 1 of the one before it, 0 for none
    row: wp.array[wp.int32]  # (C,) entry: row in Newton's Contacts, corner and spin (contacts/rows.py)
    spin_of: wp.array[wp.int32]  # (C,) the contact whose relative spin this slot holds; -1 for a contact itself
    body_a: wp.array[wp.int32]  # (C,) Newton body
    link_a: wp.array[wp.int32]  # (C,) -1 for none; -2 - link for one that no unknown moves
    link_b: wp.array[wp.int32]  # (C,)
    normal: wp.array[wp.vec3d]  # (C,) from A to B
    point_a: wp.array[wp.vec3d]  # (C,) where A's velocity counts [m]
    point_b: wp.array[wp.vec3d]  # (C,) where B's velocity counts [m]
    bias: wp.array[wp.vec3d]  # (C,) velocity that no unknown causes [m/s]
    phi0: wp.array[wp.float64]  # (C,) signed distance, of open contacts with what spinning wheels spare [m]
    stiffness: wp.array[wp.float64]  # (C,) [N/m]
    relaxation_time: wp.array[wp.float64]  # (C,) [s]
    dissipation: wp.array[wp.float64]  # (C,) Hunt & Crossley [s/m]
    mu: wp.array[wp.float64]  # (C,)
    mu_torsional: wp.array[wp.float64]  # (C,) [m]; empty without spin friction, like the next
    mu_rolling: wp.array[wp.float64]  # (C,) [m]
    rebound: wp.array[wp.float64]  # (C,) speed at which surfaces part if they meet [m/s]; at first the restitution
    R_t: wp.array[wp.float64]  # (C,) tangential regularisation [1/kg]
    R_n: wp.array[wp.float64]  # (C,) normal regularisation [1/kg]
    v_hat: wp.array[wp.float64]  # (C,) stabilising normal velocity [m/s]
    normal_law: wp.array[NormalLaw]  # (C,) Hunt & Crossley's normal law
    n0: wp.array[wp.float64]  # (C,) normal impulse that bounds lagged and spin friction [N s]
    slip_scale: wp.array[wp.float64]  # (C,) slip below which friction is regularised [m/s], of a spin slot [rad/s]
    vc: wp.array[wp.vec3d]  # (C,) velocity of B relative to A [m/s]
    line: wp.array[ContactLine]  # (C,) that velocity along the search direction
    slip_direction: wp.array[wp.vec3d]  # (C,) along friction, at most 1 long, an unknown of its own (slip_direction.py)
    slowness: wp.array[wp.float64]  # (C,) one over the softened slip speed at vc [s/m], zero unless the contact slides
    gamma: wp.array[wp.vec3d]  # (C,) impulse on B [N s]
    G: wp.array[wp.mat33d]  # (C,) -d(gamma)/d(vc) with slip for one of its slip directions [kg]
    support: wp.array[wp.int32]  # (C,) number of unknowns that move the pair
    unknown: wp.array[wp.int32]  # (C * stride,) those unknowns, as problem indices
    J: wp.array[wp.vec3d]  # (C * stride,) d(vc)/d(unknown)
    stride: int


@wp.struct
class RowLaw:
    """``gamma = clamp(y, lower, upper)``, where ``R y`` is what ``v_hat - sign v`` exceeds the slack by, either way."""

    sign: wp.float64  # of the coordinate's rate v; 0 where the row does not act
    v_hat: wp.float64  # [q/s]
    R: wp.float64  # [q/s per tau s]
    slack: wp.float64  # how far from v_hat the rate is free [q/s]
    lower: wp.float64  # [tau s]
    upper: wp.float64  # [tau s]


@wp.struct
class RowPool:
    """Scalar clamped-linear rows, cluster after cluster, with room for ``ROWS_PER_DOF`` of each dof.

    Those that take part come first in a cluster's range; limits that sleep (``minimizer/sleeping_rows.py``) lie at its end.
    """

    unknown: wp.array[wp.int32]  # problem index; the tree's dof until unknowns are numbered
    law: wp.array[RowLaw]
    gamma: wp.array[wp.float64]  # impulse [tau s]
    G: wp.array[wp.float64]  # -d(gamma)/d(v) [tau s^2/q]


@wp.struct
class CouplerPool:
    """Scalar rows across several dofs, ``COUPLER_ROWS`` slots per coupling; a row without support does not act."""

    tree: wp.array[wp.int32]  # (K,) the first of the trees that couplings tie together with a coupling's
    group_start: wp.array[wp.int32]  # (G + 1,) rows of each group
    order: wp.array[wp.int32]  # (R,) the rows that act, cluster after cluster, as listed last (minimizer/ranges.py)
    touched: wp.array[wp.int32]  # (T,) 1 where a coupling that acts touches the tree
    support: wp.array[wp.int32]  # (R,)
    unknown: wp.array[wp.int32]  # (R * stride,) problem indices
    J: wp.array[wp.float64]  # (R * stride,)
    covector: wp.array[wp.spatial_vectord]  # (R,) F of a row between bodies, about the world origin
    slope: wp.array[wp.float64]  # (R,) of a row between coordinates, by which the leader's rate enters
    bias: wp.array[wp.float64]  # (R,) velocity that no unknown causes
    law: wp.array[RowLaw]  # (R,)
    vc: wp.array[wp.float64]  # (R,)
    dvc: wp.array[wp.float64]  # (R,)
    gamma: wp.array[wp.float64]  # (R,)
    G: wp.array[wp.float64]  # (R,)
    stride: int


@wp.struct
class Pools:
    """All constraints of the step."""

    contacts: ContactPool
    rows: RowPool
    couplers: CouplerPool


@wp.struct
class ClusterEntry:
    """Trees of a group that may push each other in this step, minimised by themselves, and what belongs to them."""

    trees: int  # 0 where no cluster begins
    tree: int  # the first of them
    dof_start: int  # of its room for unknowns, and, times ROWS_PER_DOF, for rows; the next cluster's is its end
    unknowns: int
    rows: int  # that take part
    rows_asleep: int
    contact_start: int  # first slot; of both kinds they are sorted by shapes and point
    contacts: int
    awake: int  # how many of them take part; those that sleep (minimizer/sleeping_contacts.py) lie behind
    coupler_start: int  # of its part of ``CouplerPool.order``


@wp.struct
class Clusters:
    """The clusters of all groups, those of a group from its first tree's entry on, with an entry for each of their trees."""

    entry: wp.array[ClusterEntry]  # (T + 1,)
    order: wp.array[wp.int32]  # (T,) trees, cluster after cluster; empty where each group has one, like the next
    of_tree: wp.array[wp.int32]  # (T,) the entry of a tree's cluster
    tied: wp.array[wp.int32]  # (T,) the first of the trees that couplings tie together with a tree; empty like these
    coupler_start: wp.array[wp.int32]  # (T + 1,) rows of couplings, by that first tree; empty where there are none
    most_dofs: int  # of a cluster that is factored in a group too large for that
    most_trees: int
    split: int  # 1 where couplings and contacts decide which trees belong together; else a group is one cluster


@wp.struct
class Problem:
    """The unknowns of each cluster: the free dofs of the trees that some constraint touches."""

    clusters: Clusters
    tree_start: wp.array[wp.int32]  # (T,) first unknown of the tree, 0 until numbered; -1 where nothing touches it
    island: wp.array[
        wp.int32
    ]  # (T,) first of a cluster's trees that push each other at the iterate; none where groups have one tree each
    readable: wp.array[wp.int32]  # (T,) whether its iterate is worth reading friction bounds from
    dof: wp.array[wp.int32]  # (D,) dof of each unknown
    block: wp.array[wp.int32]  # (D,) first unknown of the same tree
    block_end: wp.array[wp.int32]  # (D,) one past its last
    A_row: wp.array[wp.int32]  # (D,) entry of A in this unknown's row and its block's first column
    last: wp.array[wp.int32]  # (D,) last row that this unknown's column of the Hessian reaches
    first: wp.array[wp.int32]  # (D,) first column that its row has; none if that is 0 for all
    row_start: wp.array[wp.int32]  # (D,) this unknown's rows
    row_end: wp.array[wp.int32]  # (D,)
    v: wp.array[wp.float64]  # (D,)
    v_star: wp.array[wp.float64]  # (D,)
    scale: wp.array[wp.float64]  # (D,) A_ii^(-1/2)
    change: wp.array[wp.float64]  # (D,) square of what the step changes by itself, in the unit of the stopping rule [J]
    excess: wp.array[wp.float64]  # (D,) A (v - v_star)
    impulse: wp.array[wp.float64]  # (D,) J' gamma
    dv: wp.array[wp.float64]  # (D,) search direction
    dp: wp.array[wp.float64]  # (D,) A dv
    added_inertia: wp.array[
        wp.float64
    ]  # (36 L,) by contacts, of each link and what it carries; none without long trees


@wp.struct
class LargeGroups:
    """What groups without a factored Hessian need. Letters as in ``conjugate_gradient.py``."""

    H: BlockMatrix  # one node per tree
    r: wp.array[wp.float64]  # (D,) residual, (D + L)^-1 (-grad - H dv)
    z: wp.array[wp.float64]  # (D,) D r
    p: wp.array[wp.float64]  # (D,) direction
    t: wp.array[wp.float64]  # (D,) direction of dv, (D + L)^-T p
    q: wp.array[wp.float64]  # (D,) (D + L)^-1 H t
    Dq: wp.array[wp.float64]  # (D,) D q
    w: wp.array[wp.float64]  # (D,) right-hand side at work


@wp.struct
class NoLargeGroups:
    """In its place where there are none: what a launch costs grows with the arrays it is given."""

    count: int


@wp.struct
class SolveStats:
    """What the minimiser did with one cluster in this step."""

    residual: wp.float64  # [sqrt(J)]
    scale: wp.float64  # [sqrt(J)]
    penetration: wp.float64  # [m]
    iterations: int
    line_search: int  # evaluations of the slope
    contacts: int
    reason: int  # diagnostics.REASONS


@wp.struct
class GroupStats:
    """What the minimiser did with one group: of several clusters the most. See :class:`newton_sap.SolverReport`."""

    residual: wp.float64  # [sqrt(J)]
    scale: wp.float64  # [sqrt(J)]
    penetration: wp.float64  # [m]
    iterations: int
    line_search: int  # evaluations of the slope
    contacts: int
    # Over all steps since the last reset
    iterations_max: int
    contacts_peak: int
    unconverged_steps: int
    non_finite_steps: int
    steps: int
    dropped: int  # contacts that found no slot, or none for their spin
    reason: wp.int8  # diagnostics.REASONS
    last_failure: wp.int8  # the reason of the last step that failed


@wp.struct
class Stats:
    """What is counted of a solver's steps."""

    groups: wp.array[GroupStats]  # (G,)
    clusters: wp.array[SolveStats]  # (T,) by their entries, where groups have several; empty where each has one tree
    without_normal: wp.array[wp.int32]  # (G,) overlaps of which neither Newton nor the shapes tell a normal
    overflows: wp.array[wp.int32]  # (1,) zero until a group finds too few slots
    lost_rows: wp.array[wp.int32]  # (1,) contacts beyond Newton's capacity, and rows that name no shape of the model


def allocate(struct_type, sizes: dict[str, int], device, requires_grad: bool = False, **values):
    """Return a struct whose arrays are zero and have the given lengths; ``values`` sets the rest."""
    bundle = struct_type()
    for name, variable in struct_type.vars.items():
        if name in values:
            setattr(bundle, name, values[name])
        elif hasattr(variable.type, "dtype"):  # an array annotation, not a scalar
            length = sizes.get(name, sizes["*"])
            shape = (length,) * variable.type.ndim
            dtype = variable.type.dtype
            grad = requires_grad and dtype not in (wp.int32, wp.int64)
            setattr(bundle, name, wp.zeros(shape, dtype=dtype, device=device, requires_grad=grad))
    return bundle


def copy_bundle(struct_type, bundle, changed: dict):
    """Return a copy of a struct with some members changed."""
    copy = struct_type()
    for name in struct_type.vars:
        setattr(copy, name, changed.get(name, getattr(bundle, name)))
    return copy


def allocate_arrivals(rows: int, groups: int, links: int, parts: int, device) -> Arrivals:
    """Return lists for ``rows`` contacts of Newton."""
    lanes = parts * LANES_OF_A_LIST
    sizes = {"*": groups, "left_out": links, "next": rows, "phi0": rows, "corners": 0, "lane_count": lanes}
    return allocate(Arrivals, {**sizes, "part_head": parts if parts > 1 else 0}, device)


def allocate_large_groups(
    problem: Problem, motion: Motion, pools: Pools, start, item_entries: int, entries: int, device
) -> LargeGroups:
    """Return room for ``entries`` of blocks of pairs of trees, which begin where :class:`BlockMatrix` says."""
    dofs = len(problem.v)
    items = len(pools.contacts.row) + len(pools.couplers.law)
    large = allocate(LargeGroups, {"*": dofs}, device)
    sizes = {"*": dofs, "own": len(motion.A), "pair": entries}
    sizes |= dict.fromkeys(("later", "entry", "item", "item_pair"), items)
    shared = {"node": problem.block, "node_end": problem.block_end, "row": problem.A_row, "inverse": motion.factor}
    starts = wp.array(start, dtype=wp.int64, device=device)
    large.H = allocate(BlockMatrix, sizes, device, start=starts, item_entries=item_entries, **shared)
    return large


def slot_bytes(stride: int, spins: bool) -> int:
    """Memory of one slot of a contact pool [bytes]."""
    arrays = {name: variable.type for name, variable in ContactPool.vars.items() if hasattr(variable.type, "dtype")}
    per_unknown = {"unknown", "J"}
    unused = () if spins else OF_SPINS
    sizes = {name: wp.types.type_size_in_bytes(array.dtype) for name, array in arrays.items() if name not in unused}
    return sum(size * (stride if name in per_unknown else 1) for name, size in sizes.items())
