"""What one call of ``step`` works on: the caller's arrays, checked, and bundled as kernels take them."""

from __future__ import annotations

import operator
import typing
from dataclasses import dataclass, field

import newton

from .boundary import bundles
from .boundary.convention import SapState, orders_at_end, orders_of
from .boundary.validation import require_arrays, validate_dt, warn_of_missing_gradients
from .contacts.rows import ContactRows
from .multibody.efforts import Efforts
from .multibody.orders import Orders
from .runtime.launches import keep_latest
from .workspace import StateArrays

if typing.TYPE_CHECKING:
    from .boundary.actuators import Commanded


@dataclass
class Frame:
    """What one call of ``step`` works on."""

    state_in: newton.State | SapState
    state_out: newton.State | SapState
    before: StateArrays
    after: StateArrays
    rows: ContactRows | None
    orders: Orders
    orders_after: Orders
    commanded: Commanded | None
    efforts: Efforts
    step: bundles.StepInput
    dt: float
    arrays: list = field(repr=False)
    """The arrays it was made of; as long as it is kept, so are they."""


class Frames:
    """Frames by the arrays they bundle: making one takes longer than launching the kernels of a small step."""

    borrows_arrays = True
    """They are the caller's, and no memory of the solver's."""

    def __init__(self):
        self._kept = {}
        self._contacts = {}
        self.last: Frame | None = None
        """The frame of the last free motion, and of the contacts that the solver's pool holds."""

    def clear(self) -> None:
        """Forget the frames, because arrays of the model were replaced."""
        self._kept.clear()

    def rows(self, contacts: newton.Contacts) -> ContactRows:
        """Return the bundle of Newton's contact arrays, the same for the same ``Contacts`` with the same arrays."""
        arrays = bundles.contact_arrays(contacts)
        known = self._contacts.pop(id(contacts), None)
        if known is None or not all(map(operator.is_, arrays, known[0])):
            known = arrays, bundles.contact_rows(contacts), contacts
        keep_latest(self._contacts, id(contacts), known)
        return known[1]

    def open(self, solver, state_in, state_out, control, rows: ContactRows | None, dt) -> Frame:
        """Return the frame of a solver's step; see :meth:`newton_sap.SolverSAP.step` for what it raises."""
        if control is None:
            control = solver.model  # whose arrays have the same names
        dt = validate_dt(dt)
        arrays = [
            *(getattr(state_in, name, None) for name in ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")),
            *(getattr(state_out, name, None) for name in ("joint_q", "joint_qd", "body_q", "body_qd")),
            *(getattr(control, name, None) for name in ("joint_f", "joint_target_q", "joint_target_qd")),
            getattr(getattr(control, "mujoco", None), "ctrl", None),
            rows,
        ]
        said = (getattr(state_in, "joint_qd_order", None), getattr(state_in, "body_f_order", None))
        said += (getattr(state_out, "joint_qd_order", None), getattr(control, "joint_f_order", None))
        key = (dt, said, *map(id, arrays))
        frame = self._kept.pop(key, None)
        if frame is None:
            frame = _make(solver, state_in, state_out, control, rows, dt, arrays)
        keep_latest(self._kept, key, frame)
        frame.state_in, frame.state_out = state_in, state_out
        return frame


def _make(solver, state_in, state_out, control, rows, dt, arrays) -> Frame:
    """Check the caller's objects and bundle what the stages read."""
    model, options = solver.model, solver.options
    _require(model, state_in, state_out, control)
    warn_of_missing_gradients(model, state_in, state_out)
    before = bundles.state_arrays(state_in)
    orders = orders_of(state_in, state_out, control, options.position_update == "symplectic")
    commanded, body_f = None, state_in.body_f
    if solver.actuators is not None:
        commanded = solver.actuators.commanded(model, control, state_in)
        control, body_f = commanded.control, commanded.body_f
    efforts = bundles.efforts(model, body_f, control, options)
    return Frame(
        state_in=state_in,
        state_out=state_out,
        before=before,
        after=before if state_out is state_in else bundles.state_arrays(state_out),
        rows=rows,
        orders=orders,
        orders_after=orders_at_end(orders),
        commanded=commanded,
        efforts=efforts,
        step=bundles.step_input(solver.contact_options, solver.joint_options, state_in.joint_q, efforts, dt),
        dt=dt,
        arrays=arrays,
    )


def _require(model, state_in, state_out, control) -> None:
    """Refuse states and controls of other models."""
    device = model.device
    bodies = {"body_q": model.body_count, "body_qd": model.body_count}
    joints = {"joint_q": model.joint_coord_count, "joint_qd": model.joint_dof_count}
    read = {**joints, **bodies, "body_f": model.body_count}
    for name, state in (("state_in", state_in), ("state_out", state_out)):
        if isinstance(state, newton.Model):  # it has the arrays of a state, too
            raise TypeError(f"{name} must be what model.state() returns, not of type Model")
    require_arrays("state_in", state_in, read, device, optional=("body_f",))
    if state_out is not state_in:
        require_arrays("state_out", state_out, {**joints, **bodies}, device)
    dofs = {"joint_f": model.joint_dof_count, "joint_target_qd": model.joint_dof_count}
    dofs["joint_target_q"] = model.joint_coord_count
    require_arrays("control", control, dofs, device, optional=tuple(dofs))
