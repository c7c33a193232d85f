"""What Newton models may contain, who simulates it, and which test shows that SolverSAP does.

A row that SolverSAP does not simulate names the exception it raises, or says what happens instead. The columns of the
other solvers describe Newton 1.8: "yes", "no", "partly", or "?" where we have not tried.
"""

from __future__ import annotations

from dataclasses import dataclass

YES, NO, PARTLY = "yes", "no", "partly"
PEERS = ("MuJoCo", "Featherstone", "Kamino", "XPBD", "VBD", "Steel")


@dataclass(frozen=True)
class Feature:
    """One row of the table."""

    name: str
    sap: str
    """YES, NO or PARTLY."""
    test: str
    """``module::test`` that shows it."""
    peers: str
    """One letter per peer: y, n, p or ?."""
    note: str = ""
    """A condition, or the exception and what to do instead."""

    def peer(self, index: int) -> str:
        """What a peer does."""
        return {"y": YES, "n": NO, "p": PARTLY, "?": "?"}[self.peers[index]]


JOINTS = "test_joints_and_constraints"
COUPLINGS = "test_couplings"
RUNTIME = "test_runtime_changes"
FORMS = "test_closed_forms"
REFERENCE = "test_against_reference"
BAD = "test_bad_input"

FEATURES: dict[str, list[Feature]] = {
    "Joints of a tree": [
        Feature("prismatic, revolute, ball, fixed, free, D6", YES, f"{REFERENCE}::test_each_joint_type_equals_the_reference", "yyyyyy", "angular axes of a D6 joint at right angles, also where several MJCF hinges of a body make one"),
        Feature("free joint below a moving body", YES, "test_flying_below::test_it_flies_straight_on", "nypyyp"),
        Feature("distance", YES, f"{COUPLINGS}::test_distance_joint_swings_with_the_period_of_a_pendulum", "npnynp", "minimum and maximum, in a tree or as a loop"),
        Feature("rod (cable)", YES, "test_rods::test_a_cable_hangs_as_its_energy_says", "nnnnyn", "stretch, shear, bend, twist with damping; the time of a step grows as the length; bodies on rods go by `body_q`"),
        Feature("anchor frames and axes changed at run time", YES, f"{RUNTIME}::test_joint_frames_change_at_run_time", "yyyyyy"),
        Feature("joint switched off (`joint_enabled`) in a tree", PARTLY, "test_switched_joints::test_a_joint_that_is_off_holds_nothing", "nnnyyn", "when the solver is built; it may come on and go off then. One that was on: `NotImplementedError`"),
    ],
    "Properties of joints": [
        Feature("position limits", YES, f"{JOINTS}::test_limits_of_every_d6_axis", "yypyyp", "compliant by `limit_ke`, `limit_kd`"),
        Feature("PD drive of prismatic, revolute, D6", YES, f"{JOINTS}::test_drive_of_every_mode", "yyyyyy", "end of step, or start (`drive_integration`)"),
        Feature("swing and twist limits of ball joints", YES, "test_ball_limits::test_step_returns_to_the_limits", "??????", "custom attributes `sap:swing_limit`, `sap:twist_limit_lower`, `sap:twist_limit_upper`, `sap:twist_axis`"),
        Feature("PD drive of ball joints", YES, f"{JOINTS}::test_ball_drive_reaches_a_quaternion", "ynnnnn"),
        Feature("target mode", YES, f"{JOINTS}::test_drive_of_every_mode", "ynynnn"),
        Feature("effort limit of a drive", YES, f"{JOINTS}::test_drive_is_clamped_and_joint_force_is_not", "ynynnp", "bounds drives, servos and motors of an axis together, not `joint_f`"),
        Feature("feed-forward `joint_f`", YES, f"{REFERENCE}::test_step_equals_the_reference", "yyyyyy"),
        Feature("velocity limit", YES, f"{JOINTS}::test_velocity_limit_per_axis", "nnnnnp", "of each axis, also of free joints"),
        Feature("dry friction", YES, f"{JOINTS}::test_dry_friction_per_axis", "ynynnp"),
        Feature("viscous damping", YES, f"{FORMS}::test_joint_damping_is_implicit", "yyynny"),
        Feature("passive spring", YES, f"{JOINTS}::test_passive_spring_acts_beside_a_drive", "yynnnn", "end of step, or start (`spring_integration`)"),
        Feature("armature", YES, f"{JOINTS}::test_armature_adds_inertia", "yyynny"),
        Feature("MuJoCo's direct actuators (`control.mujoco.ctrl`)", YES, "test_mujoco_actuators::test_moves_like_mujoco", "ynnnnn", "forces and servos on hinges, slides and tendons, forces on sites, free and ball joints; others: `NotImplementedError`"),
        Feature("actuators (`newton.actuators`)", YES, "test_newton_actuators::test_a_wheel_follows_its_difference_equation", "yyyyyy", "stepped by the caller, arrive as `joint_f`"),
    ],
    "Couplings": [
        Feature("mimic joint", YES, f"{COUPLINGS}::test_mimic_moves_as_one", "yynyyy", "coefficients are live"),
        Feature("older mimic constraint", YES, f"{COUPLINGS}::test_mimic_counts_once", "ynnnny", "wins over the joint's own field"),
        Feature("loop-closing fixed, revolute, ball", YES, f"{COUPLINGS}::test_loop_joint_moves_like_the_joint_in_the_tree", "ynyyyp", "within and across articulations and to the world"),
        Feature("loop-closing prismatic, D6, distance", YES, f"{COUPLINGS}::test_loop_joint_moves_like_the_joint_in_the_tree", "??????"),
        Feature("loop joint switched at run time", YES, f"{COUPLINGS}::test_loop_joint_is_switched_between_replays", "nnnyyp"),
        Feature("limits, drive, friction, spring, damping, armature of a loop joint", YES, "test_loop_joints::test_loop_axis_moves_like_the_axis_in_the_tree", "??????", "along every axis; its coordinates are measured and published"),
        Feature("angles of a loop joint beyond half a turn", YES, "test_loop_joints::test_angle_of_a_loop_joint_counts_turns", "??????", "the turn is kept in `joint_q`"),
        Feature("connect and weld rows", YES, f"{COUPLINGS}::test_equality_row_acts_like_the_joint", "ynnnnp", "converted rows act once"),
        Feature("joint equality rows", YES, f"{COUPLINGS}::test_joint_equality_follows_its_polynomial", "ynnnnp", "polynomial of degree four"),
        Feature("tendon equality rows", YES, "test_tendons::test_an_equality_of_tendons_holds", "ynnnnn", "polynomial of degree four"),
        Feature("other equality rows", NO, f"{COUPLINGS}::test_other_equalities_are_refused", "ynnnnn", "`NotImplementedError`"),
        Feature("tendons of Newton: ropes over anchors, pinholes and rollers", YES, "test_routed_tendons::test_the_capstan_equation", "nnnyyn", "compliance, damping, capstan friction; drums at the ends"),
        Feature("rollers that a rope meets and leaves (`dynamic`)", YES, "test_routed_tendons::test_a_dynamic_roller_is_met_and_left_like_mujocos", "nnnyyn"),
        Feature("MuJoCo's fixed tendons", YES, "test_tendons::test_moves_like_mujoco", "ynnnnn", "spring, damper, armature, dry friction, range, actuators"),
        Feature("MuJoCo's spatial tendons over sites and pulleys", YES, "test_tendon_paths::test_moves_like_mujoco", "ynnnnn", "as fixed ones"),
        Feature("MuJoCo's spatial tendons around spheres and cylinders", YES, "test_tendon_wrap::test_moves_like_mujoco", "ynnnnn", "as fixed ones; through the inside: `NotImplementedError`"),
    ],
    "Bodies and worlds": [
        Feature("mass, inertia, COM changed at run time", YES, f"{RUNTIME}::test_change_acts_at_the_next_step", "yyyyyy", "without notice, also in a replayed graph"),
        Feature("external wrench `body_f`", YES, "test_boundary::test_body_wrench_acts_at_the_com", "yyyyyy"),
        Feature("bodies that tumble keep their energy", YES, "test_conservation::test_free_tumbling_keeps_its_energy", "pn??n?", "under the default `position_update`, to 2e-5 at 3 rad/s and 4 ms; bounded at any rate"),
        Feature("kinematic roots, toggled at run time", YES, f"{RUNTIME}::test_kinematic_flag_toggles", "yypyyy"),
        Feature("bodies without joint, mechanisms without root", YES, "test_rootless::test_fourbar_moves_like_the_one_with_a_free_root", "??yyy?", "they fly freely; `body_q` and `body_qd` are their coordinates"),
        Feature("kinematic body below another", NO, f"{BAD}::test_bad_model", "nnnnnn", "`ValueError`"),
        Feature("gravity compensation of a body (`mujoco:gravcomp`)", YES, "test_mujoco_models::test_gravity_compensation", "ynnnnn"),
        Feature("gravity per world, at run time", YES, f"{RUNTIME}::test_each_world_has_its_gravity", "yyyyyy"),
        Feature("many worlds", YES, f"{REFERENCE}::test_worlds_do_not_see_each_other", "pyyyyy"),
        Feature("worlds of different content", YES, f"{REFERENCE}::test_assembled_worlds_equal_the_reference", "nyyyyy"),
        Feature("moving global bodies that meet every world", YES, f"{RUNTIME}::test_global_body_meets_every_world", "?????p", "couples all worlds into one solve"),
        Feature("body variants", YES, f"{RUNTIME}::test_body_variants", "yypyyy"),
        Feature("particles in free flight", YES, "test_particles::test_particles_fall", "nynyyn", "Newton's own integrator; they touch nothing"),
        Feature("springs, cloth, soft bodies, muscles", NO, "test_particles::test_connected_particles_are_refused", "nynyyn", "`NotImplementedError`; couple with SolverVBD or SolverXPBD"),
        Feature("step recorded in a graph from its first call", YES, "test_capture::test_first_call_can_be_captured", "p?????"),
        Feature("observables `body_qdd`, `body_parent_f`, `contact_f`", YES, f"{REFERENCE}::test_contact_forces_equal_the_reference", "yppppp", "`contact_f` with torque"),
        Feature("observables of contacts and drives per dof and per contact", YES, "test_observables::test_generalised_contact_force_is_the_transposed_jacobian", "pnnnnn", "forces per dof; impulse, gap, slip ([observables.md](observables.md))"),
        Feature("gradients by Warp's tape, contacts included", YES, "test_gradients::test_contacts_against_differences", "nynnnn", "by the implicit function theorem ([gradients.md](gradients.md))"),
        Feature("gradients through loops, equality, mimic and distance joints", YES, "test_gradients::test_loops_against_differences", "n?nnnn", "springs, drives and limits along the axes of a loop joint make them NaN"),
        Feature("gradients through rods, tendons, spin friction, restitution", NO, "test_bad_input::test_bad_model", "n?nnnn", "`NotImplementedError`"),
    ],
    "Contacts": [
        Feature("contacts of `newton.CollisionPipeline`", YES, f"{REFERENCE}::test_step_equals_the_reference", "yyyyyy"),
        Feature("collision pipeline owned by the solver", YES, "test_owned_collision::test_equals_explicit_collision", "nnnnyn", "`collision_pipeline=`; once per step or switched off"),
        Feature("friction cone without pyramids", YES, "test_properties::test_optimality_conditions_of_contacts", "yn????"),
        Feature("stiffness, damping, friction per contact", YES, "test_reference_constraints::test_material_rules_and_overrides", "yyyyyp"),
        Feature("contacts seen ahead (speculative)", YES, f"{RUNTIME}::test_bullet_does_not_cross_a_plate", "nn?y?n"),
        Feature("all corners of what comes down askew, within a step", YES, "test_corners::test_none_goes_through_a_table", "n?????", "boxes, cylinders, capsules, cones, hulls on any face ([F 4.7](formulation.md))"),
        Feature("conveyors (surface velocity)", YES, f"{RUNTIME}::test_conveyor_carries_a_box", "ny?yyy"),
        Feature("contacts thinned per body pair", NO, "test_features::test_reduced_contacts_are_refused", "nnnnny", "`ValueError`; collide without the reduction"),
        Feature("soft contacts with particles", NO, "test_particles::test_particles_touch_nothing", "nynyyn", "no exception: they are ignored"),
    ],
    "Materials": [
        Feature("`mu`", YES, f"{FORMS}::test_friction_angle_decides", "yyyyyy"),
        Feature("`ke`, `kd`", YES, f"{FORMS}::test_penetration_of_a_compliant_contact", "yynnyn", "N/m and N s/m; Newton's defaults mean rigid"),
        Feature("`restitution`", YES, f"{JOINTS}::test_restitution_sets_the_rebound", "nnypny"),
        Feature("`mu_torsional`, `mu_rolling`", PARTLY, "test_spin_friction::test_coefficients_act_on_their_own_axis", "ynpynp", "with `spin_friction=True`"),
        Feature("`condim` 1 and `priority` of an MJCF file's geoms", YES, "test_mujoco_models::test_condim_and_priority_choose_the_friction", "ynnnnn"),
        Feature("`solref` of an MJCF file's geoms", PARTLY, "test_mujoco_models::test_solref_is_no_stiffness", "ynnnnn", "as no material given: nearly rigid ([materials.md](materials.md))"),
        Feature("`kf`, `ka`", NO, "test_features::test_kf_and_ka_change_nothing", "pynnnn", "no exception: ignored"),
        Feature("`kh` (hydroelastic)", YES, "test_reference_constraints::test_material_rules_and_overrides", "yyyyyp", "arrives as stiffness per contact; Newton computes it on CUDA only"),
        Feature("changed at run time", YES, f"{RUNTIME}::test_materials_change_at_run_time", "yyyyyy"),
    ],
}  # fmt: skip
"""Rows by section."""
