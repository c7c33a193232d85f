"""Compliance and friction of a pair of shapes, by the chosen rule, and what a contact has of its own."""

import warp as wp

from ..constraints.clamped_linear import RIGID, rigid_delay
from ..workspace import Shapes
from .rows import ContactRows

wp.set_module_options({"enable_backward": False})


@wp.struct
class ContactOptions:
    """Options of contacts as kernels read them."""

    beta: wp.float64  # near_rigid_contact
    sigma: wp.float64  # friction_regularization
    stiction_tolerance: wp.float64  # [m/s]
    stiction_limit: wp.float64  # the most that heavy loads make of it [m/s]
    default_dissipation: wp.float64  # [s/m]
    drake_materials: int
    witness_points: int
    body_inertia_weight: int
    joint_blocks: int  # of the Delassus weight
    hunt_crossley: int  # the contact model's normal law
    ahead: int  # dissipation_ahead_of_touch
    spin_friction: int
    spins_wait: int  # whether spins have no bound until the solve tells one: depth and damping do not know an impact
    rigid_unset: int  # unset_materials
    unset_ke: wp.float32  # what Newton gives a shape nobody gave a stiffness [N/m]
    unset_kd: wp.float32  # [N s/m]
    rigid_beta: wp.float64  # near-rigid bound where the law has none of its own: near_rigid_joint
    narrow: int  # whether stiffness is bounded by what the step resolves
    lead: wp.float64  # how far the velocity that moves a body is ahead of its mean over the step [steps]


@wp.struct
class Material:
    """Compliance and friction of a pair."""

    stiffness: wp.float64
    relaxation_time: wp.float64
    dissipation: wp.float64
    mu: wp.float64
    mu_torsional: wp.float64
    mu_rolling: wp.float64
    restitution: wp.float64
    weight_a: wp.float64  # share of A's surface point in the common contact point


@wp.func
def own_value(values: wp.array[wp.float32], shape: int):
    """What a shape has of its own, negative where that is nothing."""
    if values.shape[0] == 0:
        return wp.float64(-1.0)
    return wp.float64(values[shape])


@wp.func
def property_of(values: wp.array[wp.float32], shape: int):
    """A material's number; none where it became negative, so that the step is counted instead of gaining energy."""
    value = wp.float64(values[shape])
    if value < wp.float64(0.0):
        value = wp.float64(wp.nan)
    return value


@wp.func
def restitution_of(shapes: Shapes, shape: int):
    """None, too, where it came to be above one."""
    value = property_of(shapes.restitution, shape)
    return wp.where(value > wp.float64(1.0), wp.float64(wp.nan), value)


@wp.func
def shape_relaxation_time(shapes: Shapes, shape: int):
    """``sap:relaxation_time`` where set, else kd / ke [s]."""
    tau = own_value(shapes.relaxation_time, shape)
    if tau < wp.float64(0.0):
        tau = wp.float64(0.0)
        ke = property_of(shapes.ke, shape)
        if ke > wp.float64(0.0):
            tau = property_of(shapes.kd, shape) / ke
    return tau


@wp.func
def shape_dissipation(shapes: Shapes, options: ContactOptions, shape: int):
    """``sap:hunt_crossley_dissipation`` where set, else the option's default [s/m]."""
    d = own_value(shapes.dissipation, shape)
    if d < wp.float64(0.0):
        d = options.default_dissipation
    return d


@wp.func
def is_about(a: wp.float32, b: wp.float32):
    """Whether two numbers are the same but for rounding."""
    return wp.abs(a - b) <= wp.float32(1.0e-5) * wp.abs(b)


@wp.func
def is_of_solref(ke: wp.float32, kd: wp.float32, solref: wp.vec2f):
    """Whether Newton's importers made a stiffness and a damping of ``solref``: of a time constant and a damping ratio, or given."""
    a, b = solref[0], solref[1]
    if a > 0.0 and b > 0.0:
        return is_about(ke * (a * b) * (a * b), wp.float32(1.0)) and is_about(kd * a, wp.float32(2.0))
    return a < 0.0 and b < 0.0 and is_about(ke, -a) and is_about(kd, -b)


@wp.func
def is_unset(shapes: Shapes, options: ContactOptions, shape: int):
    """Whether nobody gave a shape a stiffness and a damping in force per length.

    They are Newton's defaults, or come from MuJoCo's ``solref``, which is about accelerations, whatever the mass.
    """
    if own_value(shapes.relaxation_time, shape) >= wp.float64(0.0):
        return False
    ke, kd = shapes.ke[shape], shapes.kd[shape]
    if ke == options.unset_ke and kd == options.unset_kd:
        return True
    return shapes.solref.shape[0] > 0 and is_of_solref(ke, kd, shapes.solref[shape])


@wp.func
def priority_over(shapes: Shapes, own: int, other: int):
    """By how much a shape goes before another one in an MJCF file (``priority``); 0 where no file says."""
    if shapes.priority.shape[0] == 0:
        return 0
    return shapes.priority[own] - shapes.priority[other]


@wp.func
def friction_share(shapes: Shapes, options: ContactOptions, own: int, other: int):
    """Weight of a shape's friction in a pair: half, unless an MJCF file lets one shape go before the other, or wants none."""
    share = wp.float64(0.5)
    if options.drake_materials == 1:
        return share
    ahead = priority_over(shapes, own, other)
    if ahead > 0:
        share = wp.float64(1.0)
    elif ahead < 0:
        share = wp.float64(0.0)
    if shapes.condim.shape[0] > 0:
        if (shapes.condim[own] == 1 or ahead < 0) and (shapes.condim[other] == 1 or ahead > 0):
            share = wp.float64(0.0)
    return share


@wp.func
def combine_materials(shapes: Shapes, options: ContactOptions, a: int, b: int, dt: wp.float64):
    """Pair stiffness [N/m], relaxation time [s] and friction by the chosen rule."""
    half = wp.float64(0.5)
    out = Material()
    k_a = property_of(shapes.ke, a)
    k_b = property_of(shapes.ke, b)
    mu_a = property_of(shapes.mu, a)
    mu_b = property_of(shapes.mu, b)
    tau_a = shape_relaxation_time(shapes, a)
    tau_b = shape_relaxation_time(shapes, b)
    out.restitution = half * (restitution_of(shapes, a) + restitution_of(shapes, b))
    share_a = friction_share(shapes, options, a, b)
    share_b = friction_share(shapes, options, b, a)
    out.mu_torsional = share_a * property_of(shapes.mu_torsional, a) + share_b * property_of(shapes.mu_torsional, b)
    out.mu_rolling = share_a * property_of(shapes.mu_rolling, a) + share_b * property_of(shapes.mu_rolling, b)
    total = k_a + k_b
    out.weight_a = half
    if not (total <= wp.float64(0.0)):
        out.weight_a = k_a / total
    # The softer body deforms more, so its dissipation counts more.
    out.dissipation = (wp.float64(1.0) - out.weight_a) * shape_dissipation(shapes, options, a)
    out.dissipation += out.weight_a * shape_dissipation(shapes, options, b)
    if options.drake_materials == 1:
        if not (total <= wp.float64(0.0)):
            out.stiffness = out.weight_a * k_b
        out.relaxation_time = tau_a + tau_b
        if not (mu_a + mu_b <= wp.float64(0.0)):
            out.mu = wp.float64(2.0) * mu_a * mu_b / (mu_a + mu_b)
    else:
        out.stiffness = half * total
        out.relaxation_time = out.weight_a * tau_a + (wp.float64(1.0) - out.weight_a) * tau_b
        out.mu = share_a * mu_a + share_b * mu_b
    if options.rigid_unset == 1 and is_unset(shapes, options, a) and is_unset(shapes, options, b):
        # As stiff as the step resolves, and critically damped.
        out.stiffness = RIGID
        out.relaxation_time = rigid_delay(dt)
    return out


@wp.func
def is_given(values: wp.array[wp.float32], i: int):
    """Whether Newton gives a contact a value of its own; what is no number is one."""
    if values.shape[0] == 0:
        return False
    return not (values[i] <= 0.0)


@wp.func
def override_material(rows: ContactRows, i: int, pair: Material):
    """Per-contact stiffness and damping replace the pair's, per-contact friction multiplies it, where given.

    A contact that is nearly rigid for want of a stiffness has no use for a damping of its own.
    """
    if is_given(rows.stiffness, i):
        pair.stiffness = wp.float64(rows.stiffness[i])
    if is_given(rows.damping, i) and pair.stiffness > wp.float64(0.0) and pair.stiffness != RIGID:
        pair.relaxation_time = wp.float64(rows.damping[i]) / pair.stiffness
    if is_given(rows.friction, i):
        pair.mu = pair.mu * wp.float64(rows.friction[i])
    return pair


@wp.func
def material_of(shapes: Shapes, rows: ContactRows, options: ContactOptions, i: int, dt: wp.float64):
    """Compliance and friction of a contact: its shapes', with what it has of its own."""
    return override_material(rows, i, combine_materials(shapes, options, rows.shape0[i], rows.shape1[i], dt))
