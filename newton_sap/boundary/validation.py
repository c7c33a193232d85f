"""Checks of models, states, controls and time steps: each message names the thing, its value and the remedy."""

from __future__ import annotations

import math
import warnings

import newton
import numpy as np
import warp as wp
from newton.solvers.experimental.coupled import ModelView

from .. import attributes
from ..multibody.joints import MOST_AXES
from ..workspace import Bodies, Joints, Shapes
from .model_parts import whole_of
from .topology import FLYING, FREELY, body_name, driven_dofs, equality_name, equality_table, joint_name, mass_block

_FINITE = {
    "body": ("body_mass", "body_inertia", "body_com"),
    "joint": ("joint_X_p", "joint_X_c", "joint_mimic_coeffs"),
    "dof": ("joint_axis", "joint_armature", "joint_damping", "joint_friction", "joint_stiffness", "joint_target_ke",
            "joint_target_kd", "joint_limit_ke", "joint_limit_kd"),
    "shape": ("shape_material_ke", "shape_material_kd", "shape_material_mu", "shape_material_mu_torsional",
              "shape_material_mu_rolling", "shape_material_restitution", "shape_transform", "shape_scale"),
    "constraint": ("constraint_mimic_coef0", "constraint_mimic_coef1"),
    "equality": ("equality_constraint_anchor", "equality_constraint_relpose", "equality_constraint_polycoef",
                 "equality_constraint_torquescale"),
}  # fmt: skip
_AXIAL = [int(newton.JointType[kind]) for kind in ("PRISMATIC", "REVOLUTE", "D6")]
"""Joints whose axes are the model's."""
_MAGNITUDES = {"joint_effort_limit": "infinity is", "joint_velocity_limit": "infinity and 0 are"}
"""Bounds of magnitudes, and what says that there is none."""
_DTYPES = {"body_q": wp.transform, "body_qd": wp.spatial_vector, "body_f": wp.spatial_vector}
_DTYPES |= dict.fromkeys((f"tendon_segment_attachment_{side}_local" for side in "lr"), wp.vec3)
_DTYPES["tendon_guide_active"] = wp.bool
"""Element types of a state's or control's arrays that are not float32."""
_ONE_PER = {
    newton.Model.AttributeFrequency.JOINT: "joint_count",
    newton.Model.AttributeFrequency.JOINT_DOF: "joint_dof_count",
    newton.Model.AttributeFrequency.JOINT_COORD: "joint_coord_count",
    newton.Model.AttributeFrequency.BODY: "body_count",
    newton.Model.AttributeFrequency.SHAPE: "shape_count",
}
"""What says how many entries an array of the model has."""
JOINT_FORCES = int(newton.ModelFlags.JOINT_DOF_PROPERTIES | newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES)
"""What tells of springs, drives and effort limits; neither flag has the other's bit."""
_SIGNED = ("body_inertia", "body_com", "joint_X_p", "joint_X_c", "joint_mimic_coeffs", "joint_axis", "shape_transform",
           "shape_scale", *_FINITE["constraint"], *_FINITE["equality"])  # fmt: skip
_OF_SHAPES = {
    "shape_body": wp.int32, "shape_type": wp.int32, "shape_flags": wp.int32, "shape_transform": wp.transform,
    "shape_scale": wp.vec3, "shape_source_ptr": wp.uint64, "shape_collision_radius": wp.float32,
    "shape_collision_aabb_lower": wp.vec3, "shape_collision_aabb_upper": wp.vec3,
}  # fmt: skip
"""What kernels read of shapes beside their materials."""
_OF_TIES = {
    "joint_enabled": (wp.bool, "joint_count"), "joint_mimic_joint": (wp.int32, "joint_count"),
    "joint_mimic_coeffs": (wp.vec2, "joint_count"), "constraint_mimic_enabled": (wp.bool, "constraint_mimic_count"),
    "constraint_mimic_coef0": (wp.float32, "constraint_mimic_count"),
    "constraint_mimic_coef1": (wp.float32, "constraint_mimic_count"),
    "equality_constraint_enabled": (wp.bool, "equality_constraint_count"),
    "equality_constraint_polycoef": (wp.float32, "equality_constraint_count", 2),
}  # fmt: skip
"""What kernels read of switches, mimics and equalities: element type, what says how many there are, and dimensions if not one."""
_INDICES = {
    "joint_parent": (-1, "body_count"), "joint_child": (0, "body_count"), "shape_body": (-1, "body_count"),
    "joint_articulation": (-1, "articulation_count"), "body_world": (-1, "world_count"),
    "joint_world": (-1, "world_count"), "shape_world": (-1, "world_count"), "joint_mimic_joint": (-1, "joint_count"),
    "constraint_mimic_joint0": (0, "joint_count"), "constraint_mimic_joint1": (-1, "joint_count"),
    "equality_constraint_body1": (-1, "body_count"), "equality_constraint_body2": (-1, "body_count"),
    "equality_constraint_joint1": (-1, "joint_count"), "equality_constraint_joint2": (-1, "joint_count"),
}  # fmt: skip
"""Arrays that name an entry of others: the least value, -1 where there may be none, and what says how many there are."""
_STARTS = {"joint_q_start": "joint_coord_count", "joint_qd_start": "joint_dof_count"}
"""Where each joint's entries begin, with the number of all at the end."""


def validate_model(model) -> None:
    """Refuse what the solver cannot simulate.

    Raises:
        TypeError: What is no model.
        RuntimeError: A graph is being captured.
        ValueError: Values that are not finite or negative, and bodies or joints that make no dynamic sense.
        NotImplementedError: Features of the model that SolverSAP does not simulate.
    """
    if not isinstance(model, (newton.Model, ModelView)):
        raise TypeError(
            f"model must be a newton.Model, not {type(model).__name__}; pass what builder.finalize() returned"
        )
    if model.device.is_capturing:
        raise RuntimeError("build the solver before the capture: only its step can be recorded into a graph")
    require_model_arrays(model)
    _require_indices(model)
    _require_known_shapes(model)
    for kind, names in _FINITE.items():
        for name in names:
            _require_finite(model, kind, name, _column(model, name))
    _require_start(model)
    _require_own_materials(model)
    _require_limits(model)
    _require_inertia(model)
    _refuse_free_springs(model)
    _warn_of_free_drives(model)
    _refuse_unsupported(model)
    _require_kinematic_roots(model)


def require_no_capture(device, what: str) -> None:
    """Refuse what reads the device while a graph records launches instead of running them: it would see old values."""
    if device.is_capturing:
        raise RuntimeError(
            f"{what} reads the device, which a graph that is being captured cannot; call it after the capture"
        )


def validate_threads(threads: int, device) -> None:
    """Refuse CPU threads for a model on a GPU."""
    if threads > 1 and not device.is_cpu:
        raise ValueError(f"threads={threads} is for the CPU, and the model is on {device}; leave it at 1")


def validate_topology(model, topology) -> None:
    """Refuse dofs that nothing gives inertia, and angular axes that are not orthogonal."""
    _require_moved_mass(model, topology)
    _require_orthogonal_axes(model, topology)


def _require_moved_mass(model, topology) -> None:
    """Refuse joints without armature that move no mass."""
    arrays, mass = topology.arrays, model.body_mass.numpy()
    if mass[arrays["link_body"]].all():
        return
    armature, flags, parent = model.joint_armature.numpy(), model.body_flags.numpy(), arrays["link_parent"]
    always = set(topology.prescribed)
    subtree = mass[arrays["link_body"]].astype(np.float64)
    for link in range(topology.link_count - 1, -1, -1):
        if parent[link] >= 0:
            subtree[parent[link]] += subtree[link]
    for link in range(topology.link_count):
        dofs = range(arrays["link_dof_start"][link], arrays["link_dof_start"][link + 1])
        body, joint = int(arrays["link_body"][link]), int(arrays["link_joint"][link])
        kinematic = parent[link] < 0 and flags[body] & int(newton.BodyFlags.KINEMATIC) or body in always
        bare = [d for d in dofs if joint == FREELY or armature[arrays["dof_qd"][d]] == 0.0]
        if bare and subtree[link] == 0.0 and not kinematic:
            held = ", or make it kinematic (newton.BodyFlags.KINEMATIC) to hold it" if parent[link] < 0 else ""
            raise ValueError(
                f"{_mover(model, joint)} moves {body_name(model, body)} and what hangs on it, which has no mass; "
                f"give it mass (a shape with density, or mass and inertia), or the joint armature{held}"
            )


def validate_dt(dt) -> float:
    """Return the time step [s] or raise ``ValueError``."""
    try:
        value = math.nan if isinstance(dt, (str, bool)) else float(dt)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value) and not isinstance(dt, float):
        raise ValueError(f"dt must be a number of seconds, not {dt!r}")
    if not math.isfinite(value) or value <= 0.0:
        raise ValueError(f"dt must be positive and finite, not {value}; pass the step length in seconds, e.g. 1/240")
    return value


def require_arrays(what: str, holder, expected: dict[str, int], device, optional=()) -> None:
    """Require arrays of given lengths on the model's device, as a state or control of the same model has."""
    maker = "model.control()" if what.startswith("control") else "model.state()"
    if holder is None:
        raise ValueError(f"{what} is None; pass what {maker} returns")
    if not any(hasattr(holder, name) for name in expected):
        kind = type(holder).__name__
        raise TypeError(f"{what} must be what {maker} returns, not of type {kind}")
    for name, length in expected.items():
        array = getattr(holder, name, None)
        if array is None:
            if name in optional or length == 0:
                continue
            raise ValueError(f"{what}.{name} is missing; make it with {maker}")
        dtype = _DTYPES.get(name, wp.float32)
        if not isinstance(array, wp.array) or array.dtype != dtype or array.ndim != 1:
            kind = f"a {type(array).__name__}"
            if isinstance(array, wp.array):
                kind = f"of {array.dtype.__name__} in {array.ndim} dimension{'s' * (array.ndim != 1)}"
            raise TypeError(
                f"{what}.{name} must be a Warp array of {dtype.__name__} in one dimension, as {maker} makes it, not {kind}"
            )
        if array.shape[0] != length:
            raise ValueError(
                f"{what}.{name} has {array.shape[0]} entries but the solver's model has {length}; "
                f"the {what} belongs to another model: create it from the model the solver was built with"
            )
        if array.device != device:
            raise ValueError(f"{what}.{name} lives on {array.device}, the solver's model on {device}; use one device")


def require_model_arrays(model) -> None:
    """Require that what kernels read of a model is as long as it says, which arrays that replaced others may not be.

    Raises:
        TypeError: Something else than a Warp array, or one of other entries.
        ValueError: An array that is too short, or of another device.
    """
    for prefix, bundle in (("joint_", Joints), ("body_", Bodies), ("shape_material_", Shapes)):
        for field, variable in bundle.vars.items():
            name = prefix + field
            if hasattr(model, name):  # others have another name, or are optional
                counter = _ONE_PER[model.get_attribute_frequency(name)]
                _require_model_array(model, name, variable.type.dtype, counter, variable.type.ndim)
    for name, dtype in _OF_SHAPES.items():
        _require_model_array(model, name, dtype, "shape_count")
    for name, wanted in _OF_TIES.items():
        _require_model_array(model, name, *wanted)
    _require_model_array(model, "gravity", wp.vec3, "world_count")


def _require_model_array(model, name: str, dtype, counter: str, ndim: int = 1) -> None:
    holder = _holder(model, name)
    count = getattr(holder, counter, 0)
    if count == 0:
        return
    array, kind, fault = getattr(holder, name), ValueError, ""
    if not isinstance(array, wp.array):
        kind, fault = TypeError, f"is of type {type(array).__name__}, not a Warp array"
    elif array.dtype != dtype:
        kind, fault = TypeError, f"is of {array.dtype.__name__}"
    elif array.ndim != ndim:
        kind, fault = TypeError, f"has {array.ndim} dimensions"
    elif array.shape[0] < count:
        fault = f"has {array.shape[0]} entries"
    elif array.device != model.device:
        fault = f"lives on {array.device}"
    if fault:
        in_rows = " in two dimensions" if ndim == 2 else ""
        wanted = f"{count} entries of {dtype.__name__}{in_rows} ({counter}) on {model.device}"
        where = "model" if holder is model else "model.mujoco"
        raise kind(f"{where}.{name} {fault}; give it {wanted}, or assign to the array that it was")


def _holder(model, name: str):
    """What has an array: the model, or its table of equality constraints, None where there is none."""
    return equality_table(model) if name.startswith("equality_") else model


def _column(model, name: str) -> np.ndarray:
    """An array of the model, or of its table of equality constraints, on the host; empty where it has none."""
    array = getattr(_holder(model, name), name, None)
    return np.zeros(0) if array is None else array.numpy()


def _require_indices(model) -> None:
    for name, (least, counter) in _INDICES.items():
        kind, values = name.split("_")[0], _column(model, name)
        counted = whole_of(model) if kind == "equality" else model
        count = max(getattr(counted, counter), int(counter == "world_count"))  # a model without worlds is one
        for index in np.flatnonzero((values < least) | (values >= count))[:1]:
            raise ValueError(
                f"{name} of {owner_name(model, kind, int(index))} is {values[index]}; give it one of the model's {count} "
                f"({counter}){', or -1 for none' if least < 0 else ''}"
            )
    for name, counter in _STARTS.items():
        starts = getattr(model, name).numpy()
        if np.any(np.diff(starts) < 0) or (starts[[0, -1]] != (0, getattr(model, counter))).any():
            raise ValueError(
                f"{name} must rise from 0 to {getattr(model, counter)} ({counter}); leave it as finalize() returned it"
            )


def _require_known_shapes(model) -> None:
    kinds = model.shape_type.numpy() if model.shape_count else np.zeros(0)
    for shape in np.flatnonzero(~np.isin(kinds, [int(kind) for kind in newton.GeoType]))[:1]:
        raise ValueError(
            f"shape_type of {owner_name(model, 'shape', int(shape))} is {kinds[shape]}, which is no newton.GeoType; leave it as "
            "finalize() returned it"
        )


def warn_of_missing_gradients(model, state_in, state_out) -> None:
    """Say that a step leaves nothing on a tape, where its states hope for gradients and the model has none."""
    if not model.requires_grad and any(
        s.joint_q is not None and s.joint_q.requires_grad for s in (state_in, state_out)
    ):
        warnings.warn(
            "the states require gradients and the model does not, so steps leave nothing on a tape; finalize the model with "
            "requires_grad=True",
            stacklevel=6,
        )


def _require_finite(model, kind: str, name: str, values: np.ndarray) -> None:
    if not len(values):
        return
    rows = values.reshape(len(values), -1)
    bad = ~np.isfinite(rows).all(axis=1)
    if name not in _SIGNED:
        bad |= (rows < 0).any(axis=1)
    if bad.any():
        index = int(np.argmax(bad))
        raise ValueError(
            f"{name} of {owner_name(model, kind, index)} is {np.array2string(values[index], threshold=16)}; it must be finite"
            f"{'' if name in _SIGNED else ' and not negative'}: correct it in the builder or the model before "
            "constructing the solver"
        )


def _require_start(model) -> None:
    """Refuse gravity and coordinates that are no numbers, and axes without a direction."""
    for world in np.flatnonzero(~np.isfinite(model.gravity.numpy().reshape(-1, 3)).all(axis=1))[:1]:
        raise ValueError(f"gravity of world {world} is {model.gravity.numpy()[world]}; it must be finite")
    for coordinate in np.flatnonzero(~np.isfinite(model.joint_q.numpy()))[:1]:
        joint = int(np.searchsorted(model.joint_q_start.numpy(), coordinate, side="right")) - 1
        raise ValueError(
            f"model.joint_q[{coordinate}] of {joint_name(model, joint)} is {model.joint_q.numpy()[coordinate]}, and that is where "
            "the solver measures masses; it must be finite"
        )
    kind = np.repeat(model.joint_type.numpy(), np.diff(model.joint_qd_start.numpy()))
    for dof in np.flatnonzero(np.isin(kind, _AXIAL) & ~model.joint_axis.numpy().any(axis=1))[:1]:
        raise ValueError(f"joint_axis of {owner_name(model, 'dof', dof)} is zero; give the direction it moves along")


def _require_own_materials(model) -> None:
    """Refuse what is no number among the attributes of shapes, and bodies that part faster than they met."""
    for name in attributes.of_shapes():
        values = attributes.read(model, name)
        for shape in [] if values is None else np.flatnonzero(np.isnan(values.numpy()))[:1]:
            raise ValueError(
                f"sap:{name} of {owner_name(model, 'shape', shape)} is nan; give a number, negative where it is not set"
            )
    restitution = model.shape_material_restitution.numpy()
    for shape in np.flatnonzero(restitution > 1.0)[:1]:
        raise ValueError(
            f"shape_material_restitution of {owner_name(model, 'shape', shape)} is {restitution[shape]:.6g}, and bodies would "
            "part faster than they met; give at most 1"
        )


def _require_limits(model) -> None:
    """Refuse limits that are no numbers, negative magnitudes, and limits that leave no room."""
    for name in (*_MAGNITUDES, "joint_limit_lower", "joint_limit_upper"):
        values = getattr(model, name).numpy()
        for dof in np.flatnonzero(np.isnan(values))[:1]:
            raise ValueError(
                f"{name} of {owner_name(model, 'dof', dof)} is nan; give a number, infinity where there is no limit"
            )
    for name, none in _MAGNITUDES.items():
        values = getattr(model, name).numpy()
        for dof in np.flatnonzero(values < 0.0)[:1]:
            raise ValueError(
                f"{name} of {owner_name(model, 'dof', dof)} is {values[dof]:.6g}, and it bounds a magnitude; give 0 or more "
                f"({none} no limit)"
            )
    kinds = _joint_types_of_dofs(model)
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    no_limit = (kinds == newton.JointType.DISTANCE) & (upper < 0.0)
    for dof in np.flatnonzero((lower > upper) & ~no_limit)[:1]:
        raise ValueError(
            f"joint_limit_lower of {owner_name(model, 'dof', dof)} is {lower[dof]:.6g}, above joint_limit_upper, "
            f"{upper[dof]:.6g}; give the lower one first"
        )


def _joint_types_of_dofs(model) -> np.ndarray:
    return np.repeat(model.joint_type.numpy(), np.diff(model.joint_qd_start.numpy()))


def _refuse_free_springs(model) -> None:
    """Refuse springs where there is no coordinate to hold, and on rods what else would act on one."""
    flies = np.isin(_joint_types_of_dofs(model), FLYING)
    for dof in np.flatnonzero(flies & (model.joint_stiffness.numpy() > 0.0))[:1]:
        raise NotImplementedError(
            f"joint_stiffness of {owner_name(model, 'dof', dof)} is a spring on a free, distance or rod joint, which SolverSAP "
            "does not simulate; set it to 0, or use a D6 joint of six axes or a rod's own stiffness"
        )
    rods = _joint_types_of_dofs(model) == newton.JointType.ROD
    for name in ("joint_armature", "joint_damping"):
        for dof in np.flatnonzero(rods & (getattr(model, name).numpy() > 0.0))[:1]:
            raise NotImplementedError(
                f"{name} of {owner_name(model, 'dof', dof)} is on a rod joint, which has no coordinate of its own; set it to 0, and "
                "give the bodies mass or the rod damping (joint_target_kd)"
            )


def _warn_of_free_drives(model) -> None:
    """Say that nothing drives what has no axis."""
    flies = np.isin(_joint_types_of_dofs(model), FLYING)
    gains = (model.joint_target_ke.numpy() != 0.0) | (model.joint_target_kd.numpy() != 0.0)
    for dof in np.flatnonzero(flies & gains & driven_dofs(model))[:1]:
        warnings.warn(
            f"{owner_name(model, 'dof', dof)} has a drive (joint_target_mode, joint_target_ke, joint_target_kd), and SolverSAP "
            "drives no free, distance or rod joint; command joint_f, or use a D6 joint of six axes",
            stacklevel=5,
        )


def _require_inertia(model) -> None:
    inertia = model.body_inertia.numpy().astype(np.float64)
    if not len(inertia):
        return
    moments = np.linalg.eigvalsh(0.5 * (inertia + inertia.transpose(0, 2, 1)))
    bad = moments[:, 0] < -1.0e-5 * np.abs(moments).max(axis=1)
    if bad.any():
        body = int(np.argmax(bad))
        raise ValueError(
            f"body_inertia of {body_name(model, body)} has the principal moments {moments[body]}; a moment of inertia "
            "cannot be negative: correct the tensor (about the COM, in body axes)"
        )


def require_positive_mass_matrix(model, topology, A: np.ndarray, locked: np.ndarray) -> None:
    """Refuse a dof that nothing gives inertia, from the mass matrix of the model's own state."""
    arrays = topology.arrays
    for t in range(topology.tree_count):
        free = mass_block(arrays, A, t, locked[t])
        if not _is_positive(free):
            weightless = next(n for n in range(len(free)) if not _is_positive(free[: n + 1, : n + 1]))
            link = int(arrays["dof_link"][arrays["tree_dof_start"][t] + locked[t] + weightless])
            raise ValueError(
                f"{_mover(model, int(arrays['link_joint'][link]))} moves "
                f"{body_name(model, int(arrays['link_body'][link]))} along a direction without mass or inertia; give the "
                "body mass and inertia (a shape with density), or the joint armature"
            )


def _is_positive(matrix: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


def require_same_structure(model, topology, flags) -> None:
    """Refuse changes, of the kinds that ``flags`` name, of what the solver was built on."""
    if not isinstance(flags, int):
        raise TypeError(f"flags must be newton.ModelFlags, combined by |, not {flags!r}")
    if flags & int(newton.ModelFlags.JOINT_PROPERTIES):
        _require_joint_types(model, topology)
        _require_enabled(model, topology)
        _require_orthogonal_axes(model, topology)
    if flags & int(newton.ModelFlags.JOINT_PROPERTIES | newton.ModelFlags.JOINT_DOF_PROPERTIES):
        _require_limited(model, topology)
    if flags & JOINT_FORCES:
        _refuse_free_springs(model)
    if flags & int(newton.ModelFlags.BODY_PROPERTIES):
        _require_kinematic_roots(model)
    if flags & (newton.ModelFlags.BODY_PROPERTIES | newton.ModelFlags.BODY_INERTIAL_PROPERTIES):
        _require_prescribed(model, topology)
        _require_moved_mass(model, topology)


def _require_joint_types(model, topology) -> None:
    """Refuse joints that became others: how many coordinates they have lies in all of Newton's arrays."""
    kinds = model.joint_type.numpy()
    for joint in np.flatnonzero(kinds != topology.joint_type)[:1]:
        raise NotImplementedError(
            f"{joint_name(model, int(joint))} has joint_type {kinds[joint]}, and {topology.joint_type[joint]} when this solver was "
            "built; build the model anew for joints of other types, or leave it as it was"
        )


def _require_enabled(model, topology) -> None:
    """Refuse tree joints that are no longer enabled."""
    joints = topology.arrays["link_joint"]
    joints = joints[joints >= 0]
    joints = joints[model.joint_type.numpy()[joints] != newton.JointType.FREE]  # which hold nothing
    for joint in joints[~model.joint_enabled.numpy()[joints].astype(bool)][:1]:
        raise NotImplementedError(
            f"{joint_name(model, joint)} is no longer enabled, but a tree joint cannot be taken out of a reduced-coordinate "
            "model; enable it, or build the solver while it is off: then it may come on and go off"
        )


def _require_limited(model, topology) -> None:
    """Refuse swing and twist limits of ball joints that had none when the solver was built."""
    for joint in sorted(set(attributes.limited_balls(model)).difference(topology.limited))[:1]:
        raise NotImplementedError(
            f"{joint_name(model, joint)} got a swing or twist limit, and had none when this solver was built; build the solver "
            "again, or with a limit of pi that is lowered later"
        )


def _require_prescribed(model, topology) -> None:
    """Refuse bodies that were held when the solver was built, where the structure relies on it, and no longer are."""
    flags, mass = model.body_flags.numpy(), model.body_mass.numpy()
    for body in topology.prescribed:
        if not flags[body] & int(newton.BodyFlags.KINEMATIC) and mass[body] > 0.0:
            raise NotImplementedError(
                f"{body_name(model, body)} is neither KINEMATIC nor a cable's segment without mass, but this solver was built for "
                "a body that is held: no joint moves it, or it may touch bodies of every world; build the solver again, or give "
                "the body a joint in its own world"
            )


def _mover(model, joint: int) -> str:
    return "free flight without a joint" if joint == FREELY else joint_name(model, joint)


def owner_name(model, kind: str, index: int) -> str:
    """Name what an entry of one of Newton's arrays belongs to, for messages: ``kind`` is what the array's name begins with."""
    if kind == "body":
        return body_name(model, index)
    if kind == "shape":
        return f"shape {index} ({model.shape_label[index]!r})"
    if kind == "equality":
        return equality_name(model, index)
    if kind == "constraint":
        return f"mimic constraint {index} ({model.constraint_mimic_label[index]!r})"
    if kind != "dof":
        return joint_name(model, index)
    starts = model.joint_qd_start.numpy()
    joint = int(np.searchsorted(starts, index, side="right")) - 1
    axis = f"axis {index - starts[joint]} of " if starts[joint + 1] - starts[joint] > 1 else ""
    return axis + joint_name(model, joint)


def _refuse_unsupported(model) -> None:
    for name in ("spring_count", "edge_count", "tri_count", "tet_count", "muscle_count"):
        if getattr(model, name, 0):
            raise NotImplementedError(
                f"the model has {name} = {getattr(model, name)}, but SolverSAP moves particles only in free flight; build the "
                "model without them, or combine SolverSAP with SolverVBD or SolverXPBD in a coupled solver"
            )
    # In a part of a coupled model they are the coupling's.
    attachments = getattr(model, "attachment_particle_body_count", 0) if whole_of(model) is model else 0
    if attachments:
        raise NotImplementedError(
            f"the model attaches particles to bodies in {attachments} places, which SolverSAP does not simulate; use a coupled "
            "solver, whose coupling does"
        )


def _require_kinematic_roots(model) -> None:
    kinematic = (model.body_flags.numpy() & int(newton.BodyFlags.KINEMATIC)) != 0
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    articulation = model.joint_articulation.numpy()
    end = np.append(model.articulation_end.numpy()[: model.articulation_count], 0)  # the last one for joints of none
    in_tree = np.arange(model.joint_count) < end[articulation]  # others close loops and, as rods, move nothing
    in_tree &= (model.joint_type.numpy() != newton.JointType.ROD) & model.joint_enabled.numpy().astype(bool)
    for joint in np.flatnonzero(in_tree & (parent >= 0) & kinematic[child])[:1]:
        raise ValueError(
            f"{body_name(model, int(child[joint]))} is KINEMATIC but hangs on {body_name(model, int(parent[joint]))} through "
            f"{joint_name(model, joint)}; only bodies jointed to the world can be prescribed: clear the flag or "
            "attach it to the world"
        )


def _require_orthogonal_axes(model, topology) -> None:
    of_links = topology.arrays["link_joint"]
    joints = np.append(of_links[of_links != FREELY], topology.loop_joints).astype(np.int64)
    linear, angular = model.joint_dof_dim.numpy()[joints].reshape(-1, 2).T
    first = model.joint_qd_start.numpy()[joints] + linear
    is_d6 = model.joint_type.numpy()[joints] == newton.JointType.D6
    for found in np.flatnonzero(is_d6 & (linear + angular > MOST_AXES))[:1]:
        raise ValueError(
            f"{joint_name(model, int(joints[found]))} has {linear[found] + angular[found]} axes; give a D6 joint at most "
            f"{MOST_AXES}, or split it over two joints with a light link between"
        )
    for count in (1, 2, 3):
        chosen = np.flatnonzero(is_d6 & (angular == count))
        axes = model.joint_axis.numpy().astype(np.float64)[first[chosen, None] + np.arange(count)]
        deviation = np.abs(axes @ axes.transpose(0, 2, 1) - np.eye(count)).max(axis=(1, 2))
        for found in np.flatnonzero(deviation > 1.0e-3)[:1]:
            raise ValueError(
                f"the angular axes of {joint_name(model, int(joints[chosen[found]]))} are not orthonormal (largest deviation "
                f"{deviation[found]:.2g}); give a D6 joint orthogonal unit axes"
            )
