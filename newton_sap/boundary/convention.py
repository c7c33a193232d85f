"""State and control with explicit orders of velocities and forces, and what Newton's own are taken for."""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from ..multibody.orders import Orders

ORDERS = ("public", "sap")


@dataclass
class SapState:
    """State arrays with explicit orders; :meth:`newton_sap.SolverSAP.state` returns one in public order.

    Arrays are those of ``newton.State`` (on the model's device), those of tendons where the model has some. ``"sap"`` for ``joint_qd_order`` means free
    joints hold ``[w, v_O]``; for ``body_f_order`` that ``body_f`` already is the residual buffer ``-[tau_O, f]``.
    """

    joint_q: wp.array
    joint_qd: wp.array
    body_q: wp.array
    body_qd: wp.array
    body_f: wp.array | None = None
    joint_qd_order: str = "sap"
    body_f_order: str = "sap"
    particle_q: wp.array | None = None
    particle_qd: wp.array | None = None
    particle_f: wp.array | None = None
    tendon_segment_rest_length: wp.array | None = None
    tendon_segment_attachment_l_local: wp.array | None = None
    tendon_segment_attachment_r_local: wp.array | None = None
    tendon_guide_active: wp.array | None = None

    def __post_init__(self):
        _require_order("joint_qd_order", self.joint_qd_order)
        _require_order("body_f_order", self.body_f_order)

    def clear_forces(self) -> None:
        """Zero what acts on bodies and particles from outside."""
        for array in (self.body_f, self.particle_f):
            if array is not None:
                array.zero_()


@dataclass
class SapControl:
    """Control arrays with an explicit order; :meth:`newton_sap.SolverSAP.control` returns one in public order.

    ``"sap"`` for ``joint_f_order`` means that free joints hold ``[tau_O, f]`` in world axes.
    """

    joint_f: wp.array
    joint_target_q: wp.array | None = None
    joint_target_qd: wp.array | None = None
    joint_f_order: str = "sap"
    mujoco: object | None = None
    """``control.mujoco`` of a model with MuJoCo's actuators, which holds their ``ctrl``."""

    def __post_init__(self):
        _require_order("joint_f_order", self.joint_f_order)


def _require_order(name: str, value: str) -> None:
    if value not in ORDERS:
        raise ValueError(f"{name} must be 'public' or 'sap', not {value!r}")


def orders_of(state_in, state_out, control, reference_is_com: bool) -> Orders:
    """Read the order flags; Newton's own State and Control carry none and are public.

    Raises:
        ValueError: A flag that is neither ``"public"`` nor ``"sap"``.
    """
    orders = Orders()
    orders.qd_in = _in_sap_order(state_in, "joint_qd_order")
    orders.qd_out = _in_sap_order(state_out, "joint_qd_order")
    orders.joint_f = _in_sap_order(control, "joint_f_order")
    orders.body_f = _in_sap_order(state_in, "body_f_order")
    orders.reference_is_com = int(reference_is_com)
    return orders


def _in_sap_order(holder, flag: str) -> int:
    order = getattr(holder, flag, "public")
    _require_order(flag, order)
    return int(order == "sap")


def orders_at_end(orders: Orders) -> Orders:
    """Return the orders in which the end of the step is read again, forces being those of the step."""
    end = Orders()
    end.qd_in = orders.qd_out
    end.joint_f = orders.joint_f
    end.body_f = orders.body_f
    end.reference_is_com = orders.reference_is_com
    return end
