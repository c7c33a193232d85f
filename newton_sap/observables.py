"""What a step can tell besides the new state: Newton's observables and our own, written where they are requested."""

from __future__ import annotations

from dataclasses import dataclass

import newton
import warp as wp

from .runtime import launches

_Base = newton.solvers.SolverBase
_Frequency = newton.Model.AttributeFrequency


class ObservableKind(_Base.ObservableKind):
    """Newton's kinds and ours, for ``solver.observables({...})``; ``docs/observables.md`` defines them."""

    JOINT_CONTACT_F = "joint_contact_f"
    """Generalised contact forces."""

    JOINT_DRIVE_F = "joint_drive_f"
    """Efforts of the joint drives."""

    QFRC_ACTUATOR = "qfrc_actuator"
    """Generalised forces of all actuators, by the name SolverMuJoCo has for them."""

    CONTACT_IMPULSE = "contact_impulse"
    """Contact impulses in contact frames."""

    CONTACT_GAP = "contact_gap"
    """Signed distances of contacts."""

    CONTACT_VELOCITY = "contact_velocity"
    """Slip and separation velocities of contacts."""


@dataclass(eq=False)
class Observables(_Base.Observables):
    """Newton's observable arrays and ours; arrays that were not requested are None."""

    joint_contact_f: wp.array | None = _Base.Observables.field(  # noqa: RUF009
        dtype=wp.float32, frequency=_Frequency.JOINT_DOF
    )
    """Generalised contact forces ``J^T gamma / dt`` [N, N m], shape ``(joint_dof_count,)``, laid out as ``joint_f``."""

    joint_drive_f: wp.array | None = _Base.Observables.field(  # noqa: RUF009
        dtype=wp.float32, frequency=_Frequency.JOINT_DOF
    )
    """Drive efforts [N, N m], shape ``(joint_dof_count,)``."""

    qfrc_actuator: wp.array | None = _Base.Observables.field(  # noqa: RUF009
        dtype=wp.float32, frequency=_Frequency.JOINT_DOF
    )
    """Forces of all actuators [N, N m], shape ``(joint_dof_count,)``, laid out as ``joint_f``."""

    contact_impulse: wp.array | None = _Base.Observables.field(  # noqa: RUF009
        dtype=wp.vec3, frequency=_Frequency.CONTACT_RIGID
    )
    """Impulse on shape 1's body [N s] in the contact frame, shape ``(rigid_contact_max,)``."""

    contact_gap: wp.array | None = _Base.Observables.field(  # noqa: RUF009
        dtype=wp.float32, frequency=_Frequency.CONTACT_RIGID
    )
    """Signed distance at the start of the step [m], shape ``(rigid_contact_max,)``; infinite without a contact."""

    contact_velocity: wp.array | None = _Base.Observables.field(  # noqa: RUF009
        dtype=wp.vec3, frequency=_Frequency.CONTACT_RIGID
    )
    """Velocity of shape 1's surface against shape 0's at the end of the step [m/s] in the contact frame, shape
    ``(rigid_contact_max,)``."""


_STANDARD = frozenset({ObservableKind.CONTACT_F, ObservableKind.BODY_QDD, ObservableKind.BODY_PARENT_F})
_OURS = frozenset(kind for name, kind in vars(ObservableKind).items() if name.isupper())
SUPPORTED = _STANDARD | _OURS

_ATTRIBUTES = {
    "force": ObservableKind.CONTACT_F,
    "body_qdd": ObservableKind.BODY_QDD,
    "body_parent_f": ObservableKind.BODY_PARENT_F,
    "mujoco:qfrc_actuator": ObservableKind.QFRC_ACTUATOR,
}
"""Kinds by the older extended attributes of states and contacts."""


def load_kernels(solver, kinds) -> None:
    """Compile what observables of some kinds launch, so that a step which fills them can be captured at once."""
    kinds = set(kinds)
    kernels = []  # one of a module stands for all that the module has
    if kinds & _STANDARD:
        kernels.append(_standard().observe_contact_forces)
    if kinds & _OURS:
        kernels.append(_ours().observe_gaps)
    if kinds & {ObservableKind.QFRC_ACTUATOR, ObservableKind.BODY_PARENT_F} and solver.actuators is not None:
        kernels.append(_of_actuators().observe_direct_actuators)
    launches.load_kernels(kernels, solver.device)


def _standard():
    """Kernels of Newton's observables; imported when some are asked for, as those below."""
    from .boundary import newton_observables

    return newton_observables


def _ours():
    """Kernels of our own observables."""
    from .boundary import own_observables

    return own_observables


def _of_actuators():
    """Kernel of the forces of actuators."""
    from .boundary import actuator_forces

    return actuator_forces


def load_kernels_of_attributes(solver) -> None:
    """Compile what extended attributes of states and contacts launch, if the model asks for any."""
    model = solver.model
    asked = {*model.get_requested_state_attributes(), *model.get_requested_contact_attributes()}
    load_kernels(solver, [_ATTRIBUTES[name] for name in asked & _ATTRIBUTES.keys()])


def observe_actuation(solver, frame, observables) -> None:
    """Fill what depends on the coordinates at the start of the step, which stepping in place overwrites."""
    for out in _requested(observables, ObservableKind.JOINT_DRIVE_F):
        _observe_drives(solver, frame, out)
    for out in _requested(observables, ObservableKind.BODY_PARENT_F, frame.state_out, "body_parent_f"):
        out.zero_()
        if frame.commanded is not None and len(frame.commanded.out.body_f):
            table = frame.commanded.acting.table
            first_body = len(frame.commanded.out.joint_f) + len(table.tendon_bounded)
            inputs = [solver.tree, solver.bodies, frame.commanded.acting, first_body, out]
            solver.launches.single(_of_actuators().observe_joint_pushes, solver.topology.link_count, inputs)
    older = getattr(frame.state_out, "mujoco", None)
    for out in _requested(observables, ObservableKind.QFRC_ACTUATOR, older, "qfrc_actuator"):
        _observe_drives(solver, frame, out)
        if frame.commanded is not None:
            inputs = [solver.tree, solver.joints, solver.joint_options, solver.couplings, frame.commanded.acting]
            inputs += [solver.motion, solver.motion_after, solver.pools.couplers, frame.dt, out]
            solver.launches.single(_of_actuators().observe_direct_actuators, solver.topology.group_count, inputs)


def _observe_drives(solver, frame, out: wp.array) -> None:
    """Efforts of the drives, those of joints that close loops included."""
    out.zero_()
    step = frame.step.joints
    inputs = [solver.tree, solver.joints, solver.motion, solver.pools.rows, solver.problem, step, frame.dt, out]
    solver.launches.single(_ours().observe_drive_efforts, solver.topology.link_count, inputs)
    if solver.topology.loop_joints:
        inputs = [solver.tree, solver.joints, solver.couplings, solver.motion, solver.pools.couplers]
        count = solver.couplings.kind.shape[0]
        solver.launches.single(_ours().observe_loop_drive_efforts, count, [*inputs, step, frame.dt, out])


def observe(solver, frame, contacts, observables) -> None:
    """Fill the observables asked for, and the older extended attributes of states and contacts."""
    kinds, state = ObservableKind, frame.state_out
    for out in _requested(observables, kinds.CONTACT_F, contacts, "force"):
        write_contact_forces(solver, frame, out)
    for out in _requested(observables, kinds.BODY_QDD, state, "body_qdd"):
        out.zero_()
        inputs = [solver.tree, solver.motion, solver.motion_after, frame.dt, out]
        solver.launches.single(_standard().observe_accelerations, solver.topology.link_count, inputs)
    for out in _requested(observables, kinds.BODY_PARENT_F, state, "body_parent_f"):
        inputs = [solver.joints, solver.bodies, solver.couplings, solver.motion, solver.motion_after]
        inputs += [solver.pools, frame.orders, frame.efforts, frame.dt, out]
        solver.launches.trees(_standard().observe_parent_wrenches, inputs)
    if observables is not None:
        _observe_contacts(solver, frame, observables)


def _observe_contacts(solver, frame, observables) -> None:
    """Our own observables of contacts."""
    kinds = ObservableKind
    for out in _requested(observables, kinds.JOINT_CONTACT_F):
        out.zero_()
        inputs = [solver.tree, solver.joints, solver.motion, solver.motion_after, solver.pool, frame.dt, out]
        solver.launches.single(_ours().observe_joint_contact_forces, solver.topology.group_count, inputs)
    if frame.rows is None:  # no capacity, so the arrays have no entries
        return
    impulses, velocities = (solver.pool.gamma, 1), (solver.pool.vc, 0)
    for kind, values in ((kinds.CONTACT_IMPULSE, impulses), (kinds.CONTACT_VELOCITY, velocities)):
        for out in _requested(observables, kind):
            out.zero_()
            solver.launches.groups(_ours().observe_in_contact_frames, [solver.pool, *values, out])
    for out in _requested(observables, kinds.CONTACT_GAP):
        inputs = [solver.tree, solver.bodies, solver.shapes, solver.motion, frame.rows, frame.before, out]
        solver.launches.items(_ours().observe_gaps, len(out), inputs)


def write_contact_forces(solver, frame, out: wp.array) -> None:
    """Write the contact forces of the last step, whose frame this is, as ``contact_f`` has them; zeros before any step."""
    out.zero_()
    if frame is not None:
        inputs = [solver.bodies, solver.motion, solver.pool, frame.before, frame.dt, out]
        solver.launches.groups(_standard().observe_contact_forces, inputs)


def _requested(observables, kind: str, legacy=None, attribute: str = "") -> list[wp.array]:
    """Arrays that want an observable: the container's, and a legacy attribute someone allocated."""
    out = []
    if observables is not None and observables.is_requested(kind):
        out.append(getattr(observables, kind))
    older = getattr(legacy, attribute, None)
    if older is not None:
        out.append(older)
    return out
