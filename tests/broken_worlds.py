"""More solvers with one deliberate fault each: in worlds and repetition, contact and observables."""

from __future__ import annotations

import numpy as np
from broken_solvers import Spoiled, Swapping, breaks, edited

from newton_sap import SolverSAP

# Worlds and repetition --------------------------------------------------------------------------------------------


class Nudged(Spoiled):
    """Adds to the velocities of some worlds, in scenes of several."""

    def spoil(self, before, state, contacts, dt):
        worlds = self.model.world_count
        if worlds < 2:
            return
        with edited(state.joint_qd) as qd:
            self.nudge(qd.reshape(worlds, -1))
        self.refresh(state)


@breaks("same_bits_on_every_run")
class Moody(Nudged):
    """Every solver made treats world 1 a little differently."""

    made = 0

    def __init__(self, model):
        super().__init__(model)
        Moody.made += 1
        self.mood = 1e-5 * Moody.made

    def nudge(self, qd):
        qd[1] += self.mood


@breaks("worlds_do_not_touch")
class Leaks(Nudged):
    def nudge(self, qd):
        qd[0] += 1e-6 * (qd[1, 0] < -0.5)


@breaks("nan_stays_in_its_world")
class SpreadsNaN(Nudged):
    def nudge(self, qd):
        if np.isnan(qd).any():
            qd[0] *= np.float32(1.0 + 1e-4)


@breaks("number_of_worlds_is_free")
class FourthWorldDiffers(Nudged):
    def nudge(self, qd):
        qd[3:] += 1e-3


@breaks("gravity_of_one_world")
class OneGravity(Swapping):
    def others(self, state, control, contacts):
        gravity = self.model.gravity.numpy()
        return [(self.model.gravity, np.broadcast_to(gravity[0], gravity.shape))]


@breaks("reset_forgets")
class Remembers(Spoiled):
    """Drags a little once it has taken more than a dozen steps, whatever was reset."""

    steps = 0

    def spoil(self, before, state, contacts, dt):
        self.steps += 1
        if self.steps > 12 and self.model.world_count > 1:
            with edited(state.joint_qd) as qd:
                qd *= np.float32(1.0 - 1e-5)
            self.refresh(state)


@breaks("reset_obeys_mask")
class ResetsAll(SolverSAP):
    def reset(self, state, world_mask=None, flags=None):
        super().reset(state, world_mask, flags)
        if world_mask is not None:
            state.joint_qd.zero_()
            state.body_qd.zero_()


@breaks("reset_refuses_short_mask")
class TakesShortMask(SolverSAP):
    def reset(self, state, world_mask=None, flags=None):
        pass


@breaks("reset_without_flags_keeps_state")
class RestoresDefaults(SolverSAP):
    def reset(self, state, world_mask=None, flags=None):
        super().reset(state, world_mask, flags)
        if world_mask is None:
            state.joint_qd.zero_()


@breaks("replay_equals_eager")
class CountsOnHost(SolverSAP):
    """Takes a shorter step every second time; a graph holds what the count was when it was recorded."""

    steps = 0

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        shorter = self.device.is_capturing and self.steps > 0
        self.steps += not self.device.is_capturing
        super().step(
            state_in, state_out, control, contacts, 0.9 * dt if shorter else dt, observables=observables
        )  # fmt: skip


@breaks("first_step_may_be_recorded")
class AllocatesLate(SolverSAP):
    ready = False

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        if not self.ready and self.device.is_capturing:
            raise RuntimeError("arrays cannot be allocated while a graph is captured")
        self.ready = True
        super().step(state_in, state_out, control, contacts, dt, observables=observables)


# Contact ----------------------------------------------------------------------------------------------------------


class SpoiledBox(Spoiled):
    """Spoils the free joint of a single box that has contacts."""

    def spoil(self, before, state, contacts, dt):
        if contacts is None or self.model.joint_count != 1 or self.model.world_count > 1:
            return
        with edited(state.joint_q) as q, edited(state.joint_qd) as qd:
            self.disturb(q, qd, before["body_f"][0], dt)
        self.refresh(state)


@breaks("ground_carries_weight")
class Wanders(SpoiledBox):
    """A box that nothing pushes and that has been there for a while drifts aside."""

    steps = 0

    def disturb(self, q, qd, push, dt):
        self.steps += 1
        if self.steps > 20 and not push.any() and np.abs(qd[:2]).max() < 0.2:
            q[0] += 0.08 * dt


@breaks("no_force_across_a_gap")
class FeelsGround(SpoiledBox):
    def disturb(self, q, qd, push, dt):
        if q[2] > 0.1:
            qd[2] *= 0.99


@breaks("friction_sticks")
class Creeps(SpoiledBox):
    def disturb(self, q, qd, push, dt):
        q[0] += 0.02 * dt * np.sign(push[0])


@breaks("friction_slides")
class FrictionPerAxis(SpoiledBox):
    def disturb(self, q, qd, push, dt):
        qd[0] += dt * (qd[1] < -0.3)


# Observables ------------------------------------------------------------------------------------------------------


@breaks("declared_observables_are_filled")
class OneAtATime(SolverSAP):
    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        if observables is not None and len(observables.kinds) > 1:
            observables = observables.select({"body_qdd"})
        super().step(state_in, state_out, control, contacts, dt, observables=observables)


class Misreports(SolverSAP):
    """Spoils one observable."""

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
        super().step(state_in, state_out, control, contacts, dt, observables=observables)
        rows = None if observables is None else getattr(observables, self.KIND)
        if rows is not None:
            with edited(rows) as values:
                self.spoil(values, state_out)


@breaks("contact_force_is_weight")
class LightContacts(Misreports):
    KIND = "contact_f"

    def spoil(self, values, state):
        values[:, 2] *= 0.9


@breaks("contact_force_brakes")
class NoFrictionReported(Misreports):
    KIND = "contact_f"

    def spoil(self, values, state):
        values[:, :2] = 0.0


@breaks("legacy_contact_forces")
class OtherSign(SolverSAP):
    def update_contacts(self, contacts, state=None):
        super().update_contacts(contacts, state)
        with edited(contacts.force) as values:
            values *= -1.0


@breaks("acceleration_is_of_com")
class OriginAcceleration(Misreports):
    KIND = "body_qdd"

    def spoil(self, values, state):
        for body, com in enumerate(self.model.body_com.numpy()):
            spin = state.body_qd.numpy()[body, 3:]
            values[body, :3] -= np.cross(values[body, 3:], com) + np.cross(spin, np.cross(spin, com))


@breaks("parent_wrench_balances")
class TorqueOfChild(Misreports):
    KIND = "body_parent_f"

    def spoil(self, values, state):
        values[:, 3:] *= -1.0
