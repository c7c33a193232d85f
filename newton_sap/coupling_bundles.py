"""The bundles of arrays that describe a model's couplings; lengths and units as in :mod:`newton_sap.workspace`."""

from __future__ import annotations

import warp as wp


@wp.struct
class Tendons:
    """MuJoCo's tendons: lengths that are weighted sums of coordinates, or of segments between sites. ``T`` is their number here.

    Parameters are read live, but for routes, shares and the rest lengths of paths that the model does not give.
    """

    term_start: wp.array[wp.int32]  # (T,) first term of each
    term_count: wp.array[wp.int32]  # (T,)
    dof: wp.array[wp.int32]  # (terms,) of the solver; -1 where the joint is another solver's
    coef: wp.array[wp.float32]  # (terms,)
    ref: wp.array[wp.float32]  # (Newton dofs,) MuJoCo's coordinate minus Newton's; empty if not registered
    segment_start: wp.array[wp.int32]  # (T + 1,) range of each path in the arrays of segments
    site_a: wp.array[wp.int32]  # (segments,) shapes
    site_b: wp.array[wp.int32]
    share: wp.array[wp.float32]  # (segments,) 1 / divisor of the pulley before it
    around: wp.array[wp.int32]  # (segments,) shape that it goes around, or -1
    kind: wp.array[wp.int32]  # (segments,) whether that is nothing, a sphere or a cylinder
    side: wp.array[wp.int32]  # (segments,) site on the side of that where it stays, or -1
    # Of this step, by segment: what parts A from the middle, and the middle from B, and which link the middle is (B's if none)
    F_first: wp.array[wp.spatial_vectord]
    F_last: wp.array[wp.spatial_vectord]
    middle: wp.array[wp.int32]
    rest_length: wp.array[wp.float32]  # (T,) [m] of each path at the rest coordinates; 0 for sums
    zero_length: wp.array[wp.float32]  # (T,) [m] of each path at zero coordinates; 0 for sums
    shape_body: wp.array[wp.int32]  # (shapes,)
    shape_transform: wp.array[wp.transform]  # (shapes,)
    shape_scale: wp.array[wp.vec3]  # (shapes,) radius first
    limited: wp.array[wp.int32]  # (T,) 1 where the range counts
    range: wp.array[wp.vec2]  # (T,) [m]
    limit_ke: wp.array[wp.float32]  # (T,) [N/m]; 0 for a range that is near-rigid
    limit_kd: wp.array[wp.float32]  # (T,) [N s/m]
    limit_solref: wp.array[wp.vec2]  # (T,) time constant [s] and damping ratio by which a near-rigid range recovers
    spring_length: wp.array[wp.vec2]  # (T,) [m] no force from the first to the second; -1 for not said
    stiffness: wp.array[wp.float32]  # (T,) [N/m]
    damping: wp.array[wp.float32]  # (T,) [N s/m]
    friction: wp.array[wp.float32]  # (T,) [N]
    armature: wp.array[wp.float32]  # (T,) [kg]
    # What actuators give, each (T,) [N]: an effort, and ``servo_force - servo_ke length - servo_kd rate`` within bounds
    effort: wp.array[wp.float32]
    servo_force: wp.array[wp.float32]
    servo_ke: wp.array[wp.float32]
    servo_kd: wp.array[wp.float32]
    servo_lower: wp.array[wp.float32]
    servo_upper: wp.array[wp.float32]
    exerted: wp.array[wp.float64]  # (T,) [N] what they exert in this step, but for a servo that has a row


@wp.struct
class Routes:
    """Newton's tendons: ropes from guide to guide. ``T`` is their number here, ``N`` that of guides, ``S`` that of spans.

    The span that leaves guide ``g`` of tendon ``t`` has the place ``g - t``; where a dynamic roller is not touched, the span before
    it goes on to the guide after it, and its own place is empty. Material is read live, routes are as at construction.
    """

    start: wp.array[wp.int32]  # (T + 1,) range of each in the arrays of guides
    world: wp.array[wp.int32]  # (T,) -1 for none
    body: wp.array[wp.int32]  # (N,) -1 for the world
    kind: wp.array[wp.int32]  # (N,) newton.TendonGuideType
    flags: wp.array[wp.int32]  # (N,) newton.TendonGuideFlags
    radius: wp.array[wp.float32]  # (N,) [m]
    orientation: wp.array[wp.int32]  # (N,) +1 or -1, the sense in which the tendon goes around
    offset: wp.array[wp.vec3]  # (N,) point or centre, in body axes
    axis: wp.array[wp.vec3]  # (N,) in body axes
    mu: wp.array[wp.float32]  # (N,) capstan friction
    compliance: wp.array[wp.float32]  # (S,) [m/N]
    damping: wp.array[wp.float32]  # (S,) [N s/m]
    authored: wp.array[wp.float32]  # (S,) [m] material that the model gives; negative where it is to be measured
    pulls: wp.array[wp.bool]  # (T,) whether some guide can move
    initial_rest: wp.array[wp.float32]  # (S,) [m] material in the model's own pose, as far as the model has it measured
    initially_active: wp.array[wp.bool]  # (N,) whether the tendon touches the guide there
    # Of this step
    active: wp.array[wp.bool]  # (N,) whether the tendon touches the guide
    lies: wp.array[wp.int32]  # (S,) 0 for an empty place
    next_guide: wp.array[wp.int32]  # (S,) where a span ends; -1 for an empty place
    first: wp.array[wp.vec3d]  # (S,) its ends
    last: wp.array[wp.vec3d]
    first_local: wp.array[wp.vec3]  # (S,) the same on the guides' bodies, as Newton keeps them
    last_local: wp.array[wp.vec3]
    F: wp.array[wp.spatial_vectord]  # (S,) covector of the rate at which the ends part, were they fixed on their bodies
    rest: wp.array[wp.float32]  # (S,) [m] material that it has
    length: wp.array[wp.float64]  # (S,) [m]
    stretch: wp.array[wp.float64]  # (S,) [m] of its length beyond that; negative where it is slack
    loose: wp.array[wp.float64]  # (S,) [m] the same before any passes the guides in this step
    slipping: wp.array[wp.int32]  # (S,) whether it does at its end: 1 into this span, -1 out of it
    softness: wp.array[wp.float64]  # (S,) [m/N] its compliance
    delay: wp.array[wp.float64]  # (S,) [s] its damping over its stiffness
    give: wp.array[wp.float64]  # (S,) [m/N] its compliance, as far as the step resolves it
    ratio: wp.array[
        wp.float64
    ]  # (S,) most by which its tension differs from the next span's; 0 where the guide holds the tendon
    row: wp.array[wp.int32]  # (S,) whose impulse pulls at it; -1 for none
    drag: wp.array[wp.float64]  # (S,) minus its share of the impulse of the next row, friction at guides
    tension: wp.array[wp.float32]  # (S,) [N] in the last step
    cable: wp.array[wp.float32]  # (T,) [m] length of each, as it was laid


@wp.struct
class CouplingTable:
    """Couplings of the model (K of them), group after group; the switches are Newton's arrays, read live."""

    group_start: wp.array[wp.int32]  # (G + 1,)
    kind: wp.array[wp.int32]  # (K,)
    joint: wp.array[wp.int32]  # (K,) Newton joint that owns frames and switch, or -1
    switch_row: wp.array[wp.int32]  # (K,) row of the switch array, or -1 for always
    origin: wp.array[wp.int32]  # (K,) equality that an importer made the joint or mimic of, or -1
    source: wp.array[wp.int32]  # (K,) where a coordinate coupling's coefficients live
    source_row: wp.array[wp.int32]  # (K,) and in which row; of a tendon, which one
    body_a: wp.array[wp.int32]  # (K,) Newton body, -1 for the world
    body_b: wp.array[wp.int32]  # (K,)
    frame_a: wp.array[wp.transform]  # (K,) on body A
    frame_b: wp.array[wp.transform]  # (K,) on body B
    linear_axes: wp.array[wp.int32]  # (K,) free linear axes
    angular_axes: wp.array[wp.int32]  # (K,) free angular axes
    axis_start: wp.array[wp.int32]  # (K,) the first axis in Newton's joint_axis
    axis: wp.array[wp.int32]  # (K,) which free axis of the joint, linear ones first; of a tendon, the first law; of a
    # routed one, which of its couplings
    coordinates: wp.array[wp.int32]  # (K,) coupled coordinates; of a routed tendon, its couplings
    dof_a: wp.array[wp.int32]  # (K,) first dof that follows, or tendon
    dof_b: wp.array[wp.int32]  # (K,) first dof it follows, or tendon, or -1
    tree_start: wp.array[wp.int32]  # (K + 1,) range of each coupling in tree
    tree: wp.array[wp.int32]  # trees that it touches
    links: wp.array[wp.int32]  # (K,) how many the trees have that couplings tie together with those
    tendons: Tendons
    routes: Routes
    pull: wp.array[wp.vec3d]  # (K,) of what hangs on the first body, in this step [N]; empty where nothing does
    joint_enabled: wp.array[wp.bool]  # (joints,)
    joint_mimic_coeffs: wp.array[wp.vec2]  # (joints,) offset [q] and ratio
    equality_enabled: wp.array[wp.bool]  # (equalities,)
    equality_polycoef: wp.array2d[wp.float32]  # (equalities, 5)
    equality_was_enabled: wp.array[wp.bool]  # (equalities,) at construction, as the next
    equality_was_polycoef: wp.array2d[wp.float32]  # (equalities, 5)
    mimic_enabled: wp.array[wp.bool]  # (mimics,)
    swing_limit: wp.array[wp.float32]  # (joints,) sap:swing_limit [rad], negative for none
    twist_limit_lower: wp.array[wp.float32]  # (joints,) sap:twist_limit_lower [rad]
    twist_limit_upper: wp.array[wp.float32]  # (joints,) [rad]
    twist_axis: wp.array[wp.vec3]  # (joints,) sap:twist_axis, in anchor axes
    mimic_coef0: wp.array[wp.float32]  # (mimics,) offset [q]
    mimic_coef1: wp.array[wp.float32]  # (mimics,) ratio
