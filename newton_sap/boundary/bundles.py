"""Bundles of Newton's arrays and of our options, as kernels take them."""

from __future__ import annotations

import math
from functools import cache

import newton
import warp as wp

from ..constraints.axis_laws import JointInput, JointOptions
from ..constraints.laws import CONTACT_LAWS
from ..contacts.materials import ContactOptions
from ..contacts.rows import ContactRows
from ..minimizer.continuation import PATIENCE
from ..minimizer.friction_bound import MOST_SLIP, RENEWALS
from ..minimizer.settings import LEAST_ACCURACY, ROUGH, Settings
from ..multibody.drives import Targets
from ..multibody.efforts import Efforts
from ..problem import StepInput
from ..workspace import Bodies, Joints, Shapes, StateArrays


@cache
def _empty(dtype, ndim: int, device: str) -> wp.array:
    """An array of length zero that stands for an absent one."""
    return wp.zeros((0,) * ndim, dtype=dtype, device=device)


def _fill(struct_type, source, prefix: str, **renamed):
    """Return a bundle whose arrays are ``source.<prefix><name>`` or given by name; None becomes an empty array."""
    bundle = struct_type()
    for name, variable in struct_type.vars.items():
        array = renamed[name] if name in renamed else getattr(source, prefix + name)
        if array is None or not len(array):  # Newton leaves empty 2D arrays one-dimensional
            array = _empty(variable.type.dtype, variable.type.ndim, str(source.device))
        setattr(bundle, name, array)
    return bundle


def joints(model) -> Joints:
    """The model's joint arrays."""
    return _fill(Joints, model, "joint_", effort_lower=None, effort_upper=None)


def bodies(model) -> Bodies:
    """The model's body arrays and gravity."""
    gravcomp = getattr(getattr(model, "mujoco", None), "gravcomp", None)
    return _fill(Bodies, model, "body_", gravity=model.gravity, gravcomp=gravcomp)


def state_arrays(state) -> StateArrays:
    """The arrays of a state."""
    bundle = StateArrays()
    for name in StateArrays.vars:
        setattr(bundle, name, getattr(state, name))
    return bundle


def shapes(model) -> Shapes:
    """The model's shapes and materials; where custom attributes are not registered, arrays stay empty and the defaults apply."""
    own, of_file = getattr(model, "sap", None), getattr(model, "mujoco", None)
    return _fill(
        Shapes, model, "shape_material_", body=model.shape_body, type=model.shape_type, transform=model.shape_transform,
        scale=model.shape_scale, source_ptr=model.shape_source_ptr,
        aabb_lower=model.shape_collision_aabb_lower, aabb_upper=model.shape_collision_aabb_upper,
        relaxation_time=getattr(own, "relaxation_time", None), dissipation=getattr(own, "hunt_crossley_dissipation", None),
        solref=getattr(of_file, "solref", None), condim=getattr(of_file, "condim", None),
        priority=getattr(of_file, "geom_priority", None),
    )  # fmt: skip


def contact_rows(contacts) -> ContactRows:
    """The arrays of a ``newton.Contacts``."""
    return _fill(ContactRows, contacts, "rigid_contact_")


def contact_arrays(contacts) -> list:
    """What :func:`contact_rows` bundles, None for what is not there."""
    return [getattr(contacts, "rigid_contact_" + name) for name in ContactRows.vars]


def efforts(model, body_f, control, options) -> Efforts:
    """Forces the caller applies in this step, and which joint forces count at its start."""
    bundle = Efforts()
    bundle.targets = targets(model, control)
    bundle.explicit_drives = int(options.drive_integration == "explicit")
    bundle.explicit_springs = int(options.spring_integration == "explicit")
    device = str(model.device)
    bundle.joint_f = _empty(wp.float32, 1, device) if control.joint_f is None else control.joint_f
    bundle.body_f = _empty(wp.spatial_vector, 1, device) if body_f is None else body_f
    return bundle


def targets(model, control) -> Targets:
    """Drive targets of this step; the model's own where the control has none."""
    bundle = Targets()
    bundle.q = model.joint_target_q if control.joint_target_q is None else control.joint_target_q
    bundle.qd = model.joint_target_qd if control.joint_target_qd is None else control.joint_target_qd
    return bundle


def stiction_of(options) -> tuple[float, float]:
    """Return the least and the most slip [m/s] below which friction is regularised, whatever the load."""
    most = MOST_SLIP if options.friction_bound == "solved" else math.inf
    return options.stiction_tolerance, most * options.stiction_tolerance


def contact_options(options) -> ContactOptions:
    """Options of contacts."""
    out = ContactOptions()
    law = CONTACT_LAWS[options.contact_model]
    out.beta = options.near_rigid_contact
    out.sigma = options.friction_regularization
    out.stiction_tolerance, out.stiction_limit = stiction_of(options)
    out.default_dissipation = options.hunt_crossley_dissipation
    out.drake_materials = int(options.material_rule == "drake")
    out.witness_points = int(options.contact_point == "witness")
    out.body_inertia_weight = int(options.contact_weight == "body_inertia")
    out.joint_blocks = int(options.contact_weight == "joint_blocks")
    out.ahead = int(options.dissipation_ahead_of_touch)
    out.hunt_crossley = int(law.hunt_crossley)
    out.spin_friction = int(options.spin_friction)
    out.spins_wait = int(options.friction_bound == "solved" and not law.friction_bounds)
    default = newton.ModelBuilder.ShapeConfig()
    out.rigid_unset = int(options.unset_materials == "rigid")
    out.unset_ke = default.ke
    out.unset_kd = default.kd
    out.rigid_beta = options.near_rigid_joint
    out.narrow = int(law.narrow)
    out.lead = 0.0 if options.position_update == "midpoint" else 0.5
    return out


def joint_options(options) -> JointOptions:
    """Options of joint rows."""
    out = JointOptions()
    out.beta = options.near_rigid_joint
    out.coupling_beta = options.near_rigid_coupling
    out.sigma = options.friction_regularization
    _, out.stiction_limit = stiction_of(options)
    out.ahead = int(options.dissipation_ahead_of_touch)
    out.explicit_drives = int(options.drive_integration == "explicit")
    out.explicit_springs = int(options.spring_integration == "explicit")
    out.foresees = int(options.position_update == "symplectic")
    return out


def step_input(contacts, joints, joint_q, efforts, dt: float) -> StepInput:
    """What the rows of a step depend on; options of contacts and joints first."""
    step = StepInput()
    step.contacts = contacts
    step.joints = JointInput()
    step.joints.options, step.joints.targets = joints, efforts.targets
    step.joints.joint_q, step.joints.joint_f = joint_q, efforts.joint_f
    step.dt = dt
    return step


def minimizer_settings(options) -> Settings:
    """Options of the minimiser."""
    out = Settings()
    law = CONTACT_LAWS[options.contact_model]
    out.max_iterations = options.max_iterations
    out.patience = PATIENCE if law.narrow else -1
    out.optimality_abs = options.optimality_abs
    out.optimality_rel = options.optimality_rel
    out.optimality_rough = max(float(LEAST_ACCURACY), options.optimality_rel)
    out.cost_abs = options.cost_abs
    out.cost_rel = options.cost_rel
    out.line_search_iterations = options.line_search_max_iterations
    out.line_search = options.line_search_tolerance
    out.line_search_rough = options.line_search_tolerance**ROUGH
    out.lagged = int(law.friction_bounds)
    bounded = law.friction_bounds or options.spin_friction
    out.renewals = RENEWALS if bounded and options.friction_bound == "solved" else 0
    out.stiction_tolerance, out.stiction_limit = stiction_of(options)
    return out
