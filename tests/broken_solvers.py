"""Solvers with one deliberate fault each, by the contract check that has to find it.

Every fault is narrow on purpose: it acts in the scene of one check, so that exactly this check fails. Faults are made on
the host and keep out of graph captures, unless the capture is the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import newton
import numpy as np
import warp as wp

from newton_sap import SolverSAP

BROKEN: dict[str, type] = {}
"""The broken solver of each check."""
_FREE, _SLIDER, _HINGE = newton.JointType.FREE, newton.JointType.PRISMATIC, newton.JointType.REVOLUTE


def breaks(name: str):
    """Register a class as the solver that fails this check and no other."""

    def register(solver: type) -> type:
        assert name not in BROKEN, name
        BROKEN[name] = solver
        return solver

    return register


@contextmanager
def edited(array: wp.array) -> Iterator[np.ndarray]:
    """Lend an array's values to be changed in place."""
    values = array.numpy().copy()
    yield values
    array.assign(values)


@contextmanager
def swapped(array: wp.array, values: np.ndarray) -> Iterator[None]:
    """Put other values into an array for a while."""
    before = array.numpy().copy()
    array.assign(values)
    yield
    array.assign(before)


class Spoiled(SolverSAP):
    """Takes the right step, then spoils the result."""

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        before = {name: getattr(state_in, name).numpy().copy() for name in ("joint_q", "joint_qd", "body_f")}
        super().step(state_in, state_out, control, contacts, dt, observables=observables)
        if not self.device.is_capturing:
            self.spoil(before, state_out, contacts, dt)

    def refresh(self, state):
        """Make the bodies follow the joints."""
        newton.eval_fk(self.model, state.joint_q, state.joint_qd, state)

    def dofs(self, kind):
        """First dof and first coordinate of every joint of a type."""
        joints = np.flatnonzero(self.model.joint_type.numpy() == int(kind))
        return self.model.joint_qd_start.numpy()[joints], self.model.joint_q_start.numpy()[joints]


class Swapping(SolverSAP):
    """Steps with other numbers in some arrays, and puts the right ones back."""

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        with ExitStack() as stack:
            if not self.device.is_capturing:
                for array, values in self.others(state_in, control, contacts):
                    stack.enter_context(swapped(array, values))
            super().step(state_in, state_out, control, contacts, dt, observables=observables)


class Cached(Swapping):
    """Reads some arrays of the model at construction only."""

    NAMES: tuple[str, ...] = ()

    def __init__(self, model):
        super().__init__(model)
        self.kept = {name: getattr(model, name).numpy().copy() for name in self.NAMES}

    def others(self, state, control, contacts):
        return [(getattr(self.model, name), values) for name, values in self.kept.items()]


# Interface --------------------------------------------------------------------------------------------------------


@breaks("is_a_newton_solver")
class Stranger:
    """Does everything and derives from nothing."""

    def __init__(self, model):
        self._inner = SolverSAP(model)

    def __getattr__(self, name):
        return getattr(self._inner, name)


@breaks("construction_keeps_model")
class TidiesModel(SolverSAP):
    def __init__(self, model):
        super().__init__(model)
        model.shape_material_kf.zero_()


@breaks("step_takes_keywords")
class OtherNames(SolverSAP):
    def step(self, source, target, control, contacts, dt, *, observables=None):
        super().step(source, target, control, contacts, dt, observables=observables)


@breaks("state_in_kept")
class ClearsForces(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        super().step(state_in, state_out, control, contacts, dt, observables=observables)
        state_in.body_f.zero_()


@breaks("control_kept")
class WritesControl(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        super().step(state_in, state_out, control, contacts, dt, observables=observables)
        if control is not None:
            control.joint_act.fill_(1.0)


@breaks("contacts_kept")
class WritesContacts(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        super().step(state_in, state_out, control, contacts, dt, observables=observables)
        if contacts is not None:
            contacts.rigid_contact_normal.zero_()


@breaks("bodies_written")
class MixesOld(SolverSAP):
    """Blends with what the output held, with weight zero; NaN survives that."""

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        old = {name: getattr(state_out, name).numpy().copy() for name in ("body_q", "body_qd")}
        super().step(state_in, state_out, control, contacts, dt, observables=observables)
        for name, values in old.items():
            if np.isnan(values).any():
                with edited(getattr(state_out, name)) as new:
                    new[np.isnan(values)] = np.nan


@breaks("joints_agree_with_bodies")
class SlidersAside(Spoiled):
    def spoil(self, before, state, contacts, dt):
        joints = self.model.joint_type.numpy() == int(_SLIDER)
        with edited(state.body_q) as poses:
            poses[self.model.joint_child.numpy()[joints], 1] += 3e-4


@breaks("steps_in_place")
class SlowInPlace(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        dt = 0.99 * dt if state_in is state_out else dt
        super().step(state_in, state_out, control, contacts, dt, observables=observables)


@breaks("control_none")
class NoneIsZero(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        if control is None:
            control = self.model.control()
            control.joint_f.zero_()
        super().step(state_in, state_out, control, contacts, dt, observables=observables)


@breaks("contacts_none")
class FindsContacts(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        if contacts is None and self.model.shape_count:
            pipeline = newton.CollisionPipeline(self.model)
            contacts = pipeline.contacts()
            pipeline.collide(state_in, contacts)
        super().step(state_in, state_out, control, contacts, dt, observables=observables)


@breaks("only_live_contacts")
class ReadsAllRows(Swapping):
    def others(self, state, control, contacts):
        rows = None if contacts is None else contacts.rigid_contact_shape0.numpy()
        if rows is None or contacts.rigid_contact_count.numpy()[0] > 0:
            return []
        return [(contacts.rigid_contact_count, np.array([min(4, len(rows))], np.int32))]


@breaks("dt_may_change")
class OneStepLength(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        self.first_dt = getattr(self, "first_dt", dt)
        super().step(state_in, state_out, control, contacts, self.first_dt, observables=observables)


@breaks("any_up_axis")
class UpIsZ(SolverSAP):
    def __init__(self, model):
        super().__init__(model)
        if model.up_axis != newton.Axis.Z:
            model.set_gravity((0.0, 0.0, -9.81))


@breaks("custom_attributes_optional")
class NeedsAttribute(SolverSAP):
    @classmethod
    def register_custom_attributes(cls, builder):
        super().register_custom_attributes(builder)
        finalize = builder.finalize
        builder.finalize = lambda *args, **kwargs: cls.slow(finalize(*args, **kwargs))

    @staticmethod
    def slow(model):
        model.set_gravity((0.0, 0.0, -9.0))
        return model


@breaks("unknown_observable_refused")
class TakesAnything(SolverSAP):
    def observables(self, kinds, **keywords):
        return super().observables(set(kinds) & self.supported_observables, **keywords)


@breaks("foreign_observables_refused")
class TakesForeign(SolverSAP):
    def validate_observables(self, observables, contacts):
        pass


@breaks("reduced_contacts")
class TakesReduced(SolverSAP):
    def _require_unreduced_contacts(self, *args, **keywords):
        pass


@breaks("owned_pipeline")
class IdlePipeline(SolverSAP):
    """Accepts a pipeline and never runs it."""

    def __init__(self, model, *, collision_pipeline=None):
        super().__init__(model)


# Motion -----------------------------------------------------------------------------------------------------------


@breaks("free_fall")
class SpeedLimit(Spoiled):
    def spoil(self, before, state, contacts, dt):
        dofs, _ = self.dofs(_FREE)
        with edited(state.joint_qd) as qd:
            qd[dofs + 2] = np.minimum(qd[dofs + 2], 1.9)
        self.refresh(state)


@breaks("velocity_is_of_com")
class OriginVelocity(Spoiled):
    """Reports the velocity of the origin, of bodies that turn fast."""

    def spoil(self, before, state, contacts, dt):
        with edited(state.body_qd) as qd:
            for body, com in enumerate(self.model.body_com.numpy()):
                if np.linalg.norm(qd[body, 3:]) > 2.5:
                    arm = wp.quat_rotate(wp.quat(*state.body_q.numpy()[body, 3:]), wp.vec3(*com))
                    qd[body, :3] -= np.cross(qd[body, 3:], np.array(arm))


@breaks("spin_is_in_world_axes")
class SpinInBodyAxes(Spoiled):
    """Turns bodies of middling spin about their own axes."""

    def spoil(self, before, state, contacts, dt):
        dofs, coords = self.dofs(_FREE)
        spin = state.joint_qd.numpy()
        with edited(state.joint_q) as q:
            for dof, coord in zip(dofs, coords, strict=True):
                w = spin[dof + 3 : dof + 6]
                if 1.5 < np.linalg.norm(w) < 2.5:
                    old = wp.quat(*before["joint_q"][coord + 3 : coord + 7])
                    new = wp.normalize(old + old * wp.quat(*(0.5 * dt * w), 0.0))
                    q[coord + 3 : coord + 7] = np.array(new)
        self.refresh(state)


@breaks("force_acts_at_com")
class ForceAtOrigin(Swapping):
    def others(self, state, control, contacts):
        wrench = state.body_f.numpy().copy()
        for body, com in enumerate(self.model.body_com.numpy()):
            arm = wp.quat_rotate(wp.quat(*state.body_q.numpy()[body, 3:]), wp.vec3(*com))
            wrench[body, 3:] -= np.cross(np.array(arm), wrench[body, :3])
        return [(state.body_f, wrench)]


@breaks("torque_acts_in_world_axes")
class TorqueInBodyAxes(Swapping):
    def others(self, state, control, contacts):
        wrench = state.body_f.numpy().copy()
        for body, pose in enumerate(state.body_q.numpy()):
            wrench[body, 3:] = np.array(wp.quat_rotate(wp.quat(*pose[3:]), wp.vec3(*wrench[body, 3:])))
        return [(state.body_f, wrench)]


@breaks("joint_force")
class DeadZone(Swapping):
    def others(self, state, control, contacts):
        if control is None:
            return []
        force, sliders = control.joint_f.numpy().copy(), np.isin(self.model.joint_type.numpy(), [int(_SLIDER)])
        weak = np.zeros(len(force), bool)
        weak[self.model.joint_qd_start.numpy()[:-1][sliders]] = True
        force[weak & (np.abs(force) < 3.5)] = 0.0
        return [(control.joint_f, force)]


@breaks("free_joint_force")
class WrenchInBodyAxes(Swapping):
    def others(self, state, control, contacts):
        if control is None or self.model.joint_type.numpy()[0] != int(_FREE):
            return []
        force, turn = control.joint_f.numpy().copy(), wp.quat(*state.joint_q.numpy()[3:7])
        for part in (slice(0, 3), slice(3, 6)):
            force[part] = np.array(wp.quat_rotate(turn, wp.vec3(*force[part])))
        return [(control.joint_f, force)]


@breaks("pendulum_swings")
class StiffHinges(Spoiled):
    def spoil(self, before, state, contacts, dt):
        dofs, _ = self.dofs(_HINGE)
        with edited(state.joint_qd) as qd:
            qd[dofs] *= 1.0 - 2.0 * dt
        self.refresh(state)


@breaks("drive_holds")
class WeakDrives(Swapping):
    def others(self, state, control, contacts):
        limit = self.model.joint_effort_limit
        return [(limit, np.minimum(limit.numpy(), 7.0))]


@breaks("limit_holds")
class NoLimits(Swapping):
    def others(self, state, control, contacts):
        limit = self.model.joint_limit_upper
        return [(limit, np.full_like(limit.numpy(), 1.0e10))]


@breaks("kinematic_body_is_prescribed")
class KinematicFalls(Spoiled):
    def spoil(self, before, state, contacts, dt):
        if (self.model.body_flags.numpy() & int(newton.BodyFlags.KINEMATIC)).any():
            with edited(state.joint_qd) as qd:
                qd[2] -= 9.81 * dt
            self.refresh(state)


# Run-time changes -------------------------------------------------------------------------------------------------


@breaks("gravity_changed")
class OldGravity(Cached):
    NAMES = ("gravity",)

    def others(self, state, control, contacts):
        return super().others(state, control, contacts) if len(self.kept["gravity"]) == 1 else []


@breaks("mass_changed")
class OldMass(Cached):
    NAMES = ("body_mass", "body_inv_mass", "body_inertia", "body_inv_inertia")


@breaks("com_changed")
class OldCom(Cached):
    NAMES = ("body_com",)


@breaks("drive_changed")
class OldGains(Cached):
    NAMES = ("joint_target_ke", "joint_target_kd")


@breaks("armature_changed")
class OldArmature(Cached):
    NAMES = ("joint_armature",)


@breaks("friction_changed")
class OldFriction(Cached):
    NAMES = ("shape_material_mu",)


@breaks("every_flag_accepted")
class KnownFlagsOnly(SolverSAP):
    def notify_model_changed(self, flags):
        if flags & ~int(newton.ModelFlags.ALL):
            raise ValueError(f"unknown flags {flags}")
        super().notify_model_changed(flags)
