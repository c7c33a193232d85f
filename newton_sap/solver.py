"""SolverSAP: Newton's solver contract on top of the SAP stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import ClassVar

import newton
import warp as wp

from . import attributes
from . import observables as observe
from .at_rest import apply_damping_ratios, check_mass_matrix
from .boundary import bundles, couplings, output
from .boundary.capacity import newton_capacity
from .boundary.convention import SapControl, SapState
from .boundary.detection import OwnedDetection
from .boundary.given_contacts import GivenContacts
from .boundary.initial_velocity import InitialVelocities
from .boundary.kinematic_roots import KinematicRoots
from .boundary.mujoco_options import warn_of_options
from .boundary.routes import RoutedTendons
from .boundary.topology import actuator_table, build_topology
from .boundary.validation import (
    JOINT_FORCES,
    require_model_arrays,
    require_no_capture,
    require_same_structure,
    validate_model,
    validate_threads,
    validate_topology,
)
from .config import SAPOptions, resolve_options
from .constraints.coupling_table import touch_trees
from .constraints.laws import contact_law
from .contacts.filling import list_by_part, measure_links
from .contacts.stage import fill_pool, kernels_of
from .coupling import CoupledArticulations
from .diagnostics import SolverReport, allocate_stats, clear_stats, read_report, require_healthy
from .flight import Flights
from .frame import Frame, Frames
from .gradients.support import require_new_state
from .group_solve import solve_kernel
from .hung_loads import HungLoads
from .inspection import Inspection, read_inspection
from .inverse import InverseDynamics, inverse_dynamics
from .leaning import Leaning
from .mechanics import energy_and_momentum
from .memory import memory_by_buffer
from .minimizer.record import count_clusters
from .minimizer.settings import Settings
from .multibody.free_motion import free_motion
from .multibody.integration import UPDATES, integrate
from .multibody.kinematics import kinematics
from .problem import assemble_problem
from .runtime.launches import Launches, load_kernels
from .runtime.scratch import Scratch, allocate_motion, allocate_problem, allocate_rows
from .suggest import naming_options
from .workspace import NoLargeGroups, Stats

_Base = newton.solvers.SolverBase
_ACTUATED = int(newton.ModelFlags.ACTUATOR_PROPERTIES) | JOINT_FORCES


class SolverSAP(OwnedDetection, GivenContacts, RoutedTendons, CoupledArticulations):
    """Articulated rigid bodies with frictional contact by the semi-analytic primal (SAP) method.

    Each step minimises a strictly convex cost, which has exactly one minimum; :meth:`report` counts the steps that did not
    find it to ``optimality_rel``, or to 1e-3 where rounding allows no more. Contacts come from a ``newton.CollisionPipeline``:
    run it and hand its contacts to :meth:`step`, or give it to the solver.

    Simulated: prismatic, revolute, ball, fixed, free, distance, D6 and rod joints in trees of any shape, any
    number of worlds of any size, kinematic root bodies, contact with friction, joint limits, drives, dry friction,
    velocity limits, armature, damping and springs; loop-closing joints, equality constraints and mimic joints;
    Newton's tendons, MuJoCo's tendons and actuators. Particles fly freely and touch nothing. ``docs/features.md`` lists all of it, and what
    is refused at construction.

    A model that is finalized with ``requires_grad=True`` gets steps with gradients on Warp's tape; see ``docs/gradients.md``.

    Model arrays are read live: values may change between steps, also between replays of a captured graph. Not so what the
    solver is built on: joint types, which tree joints are enabled, and where equality constraints are anchored; how far shapes
    reach from their bodies' COM is measured at construction and by :meth:`notify_model_changed`.

    Args:
        model: The model to simulate.
        preset: ``"approx32"``, ``"approx64"`` or ``"drake"``; see ``newton_sap.PRESETS``. Explicit keywords win.
        contact_model: See :class:`newton_sap.SAPOptions` for this and the keywords up to ``threads``; None keeps
            the preset's or the default value.
        collision_pipeline: A pipeline of the same model that :meth:`step` runs by itself, into ``solver.contacts``.
        collision_frequency: Newton's numbers for detection between iterations, of which SolverSAP has none.
        collision_frequency_type: Per slot when to detect; see :meth:`set_collision_frequency`.

    Raises:
        ValueError: Bad option values, or a model whose values make no sense.
        NotImplementedError: A joint or feature of the model that is not simulated.
    """

    ObservableKind = observe.ObservableKind
    Observables = observe.Observables
    SUPPORTED_OBSERVABLES: ClassVar[frozenset[str]] = observe.SUPPORTED

    @naming_options
    def __init__(
        self,
        model: newton.Model,
        *,
        preset: str | None = None,
        contact_model: str | None = None,
        friction_bound: str | None = None,
        precision: str | None = None,
        contact_weight: str | None = None,
        contact_point: str | None = None,
        position_update: str | None = None,
        material_rule: str | None = None,
        unset_materials: str | None = None,
        dissipation_ahead_of_touch: bool | None = None,
        pass_over_edges: bool | None = None,
        drive_integration: str | None = None,
        spring_integration: str | None = None,
        kinematic_velocity: str | None = None,
        near_rigid_contact: float | None = None,
        near_rigid_joint: float | None = None,
        near_rigid_coupling: float | None = None,
        spin_friction: bool | None = None,
        friction_regularization: float | None = None,
        hunt_crossley_dissipation: float | None = None,
        stiction_tolerance: float | None = None,
        max_iterations: int | None = None,
        optimality_abs: float | None = None,
        optimality_rel: float | None = None,
        cost_abs: float | None = None,
        cost_rel: float | None = None,
        line_search_max_iterations: int | None = None,
        line_search_tolerance: float | None = None,
        strict: bool | None = None,
        max_contacts: int | None = None,
        threads: int | None = None,
        collision_pipeline: newton.CollisionPipeline | None = None,
        collision_frequency: Mapping[_Base.CollisionSlot, int] | None = None,
        collision_frequency_type: Mapping[_Base.CollisionSlot, _Base.CollisionFrequencyType] | None = None,
    ):
        options = {field.name for field in fields(SAPOptions)}
        given = {name: value for name, value in locals().items() if name in options}
        self.options = resolve_options(preset, given)
        super().__init__(
            model,
            collision_pipeline=collision_pipeline,
            collision_frequency=collision_frequency,
            collision_frequency_type=collision_frequency_type,
        )
        validate_model(model)
        warn_of_options(model)
        validate_threads(self.options.threads, model.device)
        self.topology = build_topology(model, self.options.threads)
        validate_topology(model, self.topology)
        self._allocate()
        self._recorder = self._make_recorder()
        self._read_model()
        self._load_kernels()
        measure_links(self.launches, self.tree, self.bodies, self.model)
        check_mass_matrix(self)
        self._measure_tendons()
        apply_damping_ratios(self)
        self.frames.last = None  # what was worked out so far is no step

    # The step ---------------------------------------------------------------------------------------------------

    def step(
        self,
        state_in: newton.State | SapState,
        state_out: newton.State | SapState,
        control: newton.Control | SapControl | None,
        contacts: newton.Contacts | None,
        dt: float,
        *,
        observables: _Base.Observables | None = None,
    ) -> None:
        """Advance the model by ``dt`` seconds.

        Reads ``joint_q`` and ``joint_qd`` of ``state_in`` (and refreshes its ``body_q``), of bodies that are no joint's child
        ``body_q`` and ``body_qd``; writes all four of ``state_out``, which may be ``state_in``. Where the model gave a free
        body its velocity in ``body_qd`` alone, the first step from its initial state also writes ``joint_qd`` of ``state_in``.

        Args:
            state_in: State at the start of the step.
            state_out: State at its end.
            control: Joint forces and drive targets; None uses the model's own.
            contacts: Contacts of a collision pipeline of the same model, which they do not name: only those that name shapes
                the model lacks are found out, and counted as ``contact_rows_lost``. None means no contact, and is required of a
                solver that owns a pipeline: it fills ``solver.contacts`` at the pose of ``state_in.joint_q``.
            dt: Step length [s].
            observables: Container made by ``solver.observables(...)``, filled in place.

        Raises:
            TypeError: A state, control or contacts that are no such thing.
            ValueError: ``dt`` not positive, a state or control of another model or device, or contacts of another device; with
                gradients, ``state_out`` that is ``state_in``.
            RuntimeError: More contact capacity is needed while a graph is being captured, or it meets a third new state
                of a model with kinematic bodies; or, with ``strict``, the step did not converge, was not finite or
                dropped contacts.
        """
        if self._recorder is not None:
            require_new_state(state_in, state_out)
        contacts = self._resolve_step_contacts(contacts)
        self._warn_without_contacts(contacts)
        self.validate_observables(observables, contacts)
        frame = self._open_frame(state_in, state_out, control, contacts, dt)
        with self.launches:
            self.kinematic_roots.follow(self, frame)
            self._move_bodies(frame)
            self._command_actuators(frame)
            self._lay_tendons(frame)
            self._detect_contacts(frame.state_in, frame.dt)
            with self.launches.unbroken():
                self._move_freely(frame)
                self._prepare_contacts(frame)
                self._assemble(frame)
                self._minimize(frame)
            observe.observe_actuation(self, frame, observables)
            self._integrate(frame)
            self._publish(frame)
        self._move_particles(frame)
        self._record_gradients(frame)
        observe.observe(self, frame, contacts, observables)
        if self.options.strict and not self.device.is_capturing:
            self._raise_failures()

    def _open_frame(self, state_in, state_out, control, contacts, dt) -> Frame:
        """Check the caller's objects and bundle what the stages read."""
        return self.frames.open(self, state_in, state_out, control, self._open_contacts(contacts), dt)

    def _move_bodies(self, frame: Frame) -> None:
        """Public velocity to sap velocity, and poses, velocities and motion columns."""
        self.initial_velocities.adopt(self.launches, frame.state_in, frame.before.joint_qd)
        self.launches.trees(kinematics, [self.joints, self.bodies, self.motion, frame.orders, frame.before])
        if self.topology.groups_meet:
            self.launches.wait()

    def _command_actuators(self, frame: Frame) -> None:
        """Forces and drives with MuJoCo's actuators in them."""
        if frame.commanded is not None:
            self.actuators.launch(self.launches, frame.commanded, frame.orders)

    def _move_freely(self, frame: Frame) -> None:
        """A, r and v_star. Rows are listed by part here already: what a tree leans on is among them."""
        self.frames.last = frame
        if frame.rows is not None and self.model.shape_count:
            rows = [self.tree, self.shapes, self.arrivals, frame.rows]
            self.launches.at_once(list_by_part, min(len(self.arrivals.part_head), 1), rows)
        self.leaning.note(self, frame)
        self.hung_loads.weigh(self)
        self.motion.group_speed.zero_()
        inputs = [self.joints, self.bodies, self.motion, self.motion_after, frame.orders, frame.efforts]
        self.launches.trees(free_motion, [*inputs, frame.before, frame.dt])
        if self.topology.groups_meet:
            self.launches.wait()

    def _prepare_contacts(self, frame: Frame) -> None:
        """The contact pool, its slots listed by group."""
        fill_pool(self, frame, self.stats)

    def _assemble(self, frame: Frame) -> None:
        """Rows, unknowns, contact Jacobians and regularisation of every group, if the kernel that minimises does not begin with
        them."""
        if not self._assembles_apart:
            return
        if self._coupling_kernels:
            self.launches.groups(touch_trees, [self.couplings, self.couplers])
        inputs = [self.joints, self.bodies, self.motion, self.pools, self.problem, frame.step]
        self.launches.clusters(assemble_problem, inputs)
        for kernel in self._coupling_kernels:
            inputs = [self.joints, self.couplings, self.motion, self.couplers, self.problem]
            self.launches.groups(kernel, [*inputs, frame.step.joints, frame.dt])
        if self._follow_tied is not None:
            inputs = [self.joints, self.bodies, self.motion, self.motion_after, self.pools, self.problem]
            inputs += [frame.orders, frame.step, frame.efforts, self.hessian]
            self.launches.clusters(self._follow_tied, inputs)

    def _minimize(self, frame: Frame) -> None:
        """The velocity at the end of the step."""
        self._solve(self._solve_kernel, frame, self.stats, self._settings)

    def _solve(self, kernel, frame: Frame, stats: Stats, settings: Settings) -> None:
        """The same by a kernel of :meth:`_make_solve_kernel`, counting in ``stats``."""
        inputs = [self.joints, self.bodies, self.motion, self.pools, self.problem, frame.step, stats, settings]
        self.launches.clusters(kernel, [*inputs, self.hessian, self.large])
        if self.problem.clusters.split:
            self.launches.groups(count_clusters, [self.problem.clusters, stats])

    def _integrate(self, frame: Frame) -> None:
        """Coordinates at the end of the step, the velocity in the caller's order, and the bodies there."""
        if self.topology.loop_joints and frame.state_out is not frame.state_in:  # theirs are measured from these
            wp.copy(frame.state_out.joint_q, frame.state_in.joint_q)
            wp.copy(frame.state_out.joint_qd, frame.state_in.joint_qd)
        inputs = [self.joints, self.bodies, self.motion, frame.orders, frame.before, frame.after]
        inputs += [self.motion_after, frame.orders_after, UPDATES[self.options.position_update], frame.dt]
        self.launches.trees(integrate, inputs)
        self.flights.straighten(self, frame)

    def _publish(self, frame: Frame) -> None:
        """What no joint of a tree moves: loose bodies, and coordinates of joints that close loops."""
        if frame.state_in is not frame.state_out and self.topology.link_count < self.model.body_count:
            inputs = [self.tree, frame.before, frame.after]
            self.launches.single(output.keep_loose_bodies, self.model.body_count, inputs)
        if self.topology.loop_joints:
            inputs = [self.tree, self.joints, self.couplings, self.motion_after, frame.orders, frame.after, frame.dt]
            self.launches.single(output.loop_kernel(), self.couplings.kind.shape[0], inputs)
        self._keep_tendons(frame)

    def _move_particles(self, frame: Frame) -> None:
        """Particles fly freely, by Newton's own integrator: gravity and applied forces, no contact."""
        if self.model.particle_count:
            self.integrate_particles(self.model, frame.state_in, frame.state_out, frame.dt)

    def _record_gradients(self, frame: Frame) -> None:
        """Lay the step on Warp's tape, where the model asks for gradients."""
        if self._recorder is not None:
            self._recorder.record(self, frame)

    def _raise_failures(self) -> None:
        """Raise what this step added to the counts of failures."""
        before, self._last_report = self._last_report, read_report(self.stats, self.topology.group_world, self._room())
        require_healthy(self._last_report, before)

    # The rest of the contract -----------------------------------------------------------------------------------

    def reset(self, state, world_mask=None, flags=None) -> None:
        """Forget the counters of the chosen worlds, where their kinematic bodies were and what Newton's tendons in a state remember.

        SAP keeps nothing else from step to step: every solve starts from the state's own velocity.

        Args:
            state: The caller authors it, but for its tendons; None leaves them as they are.
            world_mask: (world_count + 1,) bool, the last entry for global entities, for a model whose worlds are one
                group, and for lost contact rows; None chooses all.
            flags: Unused.

        Raises:
            TypeError: ``state`` is none, as a mask is: give that as ``world_mask``.
        """
        if state is not None and not isinstance(state, (newton.State, SapState)):
            raise TypeError(
                f"state must be a newton.State or None, not {type(state).__name__}; a mask of worlds is world_mask=..."
            )
        mask = self._normalize_reset_world_mask(world_mask)
        inputs = [self.stats, self._group_world, self._no_mask if mask is None else mask]
        self.launches.single(clear_stats, self.topology.group_count + 1, inputs)
        self._forget_tendons(state, inputs[-1])
        self.kinematic_roots.forget(self, inputs[-1])
        if self.options.strict and not self.device.is_capturing:
            self._last_report = read_report(self.stats, self.topology.group_world)

    def notify_model_changed(self, flags: newton.ModelFlags | int) -> None:
        """Take note of changed model arrays.

        Values are read live and need no notice, with two exceptions: arrays that were *replaced* by other arrays, and which
        shapes collide, where they are on their bodies, how large they are, and where the COM is. How far ahead open contacts
        are kept depends on how far shapes are from it; inside a capture, too, this is measured anew. Outside one, what
        the solver was built on is looked at again where ``flags`` name it: which joints are enabled and along which axes they
        turn, which bodies are kinematic, which of MuJoCo's actuators are motors, servos or drives, and their ranges. Graphs
        recorded before know of no first kinematic body and of no change among these kinds of actuators: record them again.

        Raises:
            NotImplementedError: A body became dynamic that the solver cannot move without being built again, a joint
                changed its type or one of a tree was disabled, a free joint got a spring, or an actuator became one that
                is not simulated.
            TypeError: An array was replaced by what is no Warp array of its kind.
            ValueError: An array was replaced by a shorter one or one of another device, a body became kinematic that no
                joint ties to the world, what a joint moves has no mass left, or the axes of a D6 joint are no longer orthonormal.
        """
        require_model_arrays(self.model)
        self._read_model()
        if not self.device.is_capturing:
            require_same_structure(self.model, self.topology, flags)
            self._require_tendons(flags)
            if flags & _ACTUATED and actuator_table(self.model) is not None:
                self._renew_actuators(flags)
            self.hung_loads.renew(self.model, flags)
            if flags & newton.ModelFlags.SHAPE_TYPE_AND_SOURCE:
                self._look_for_corners()
                load_kernels(self.corner_kernels, self.device)
            if flags & (newton.ModelFlags.SHAPE_TYPE_AND_SOURCE | newton.ModelFlags.BODY_PROPERTIES):
                self._look_for_edges()
                load_kernels([self.fill_kernel], self.device)
            if flags & newton.ModelFlags.BODY_PROPERTIES:
                renewed = [*self.leaning.renew(self.model, self.motion), *self.kinematic_roots.renew(self.model)]
                load_kernels(renewed, self.device)
        measure_links(self.launches, self.tree, self.bodies, self.model, flags)

    def _renew_actuators(self, flags) -> None:
        """Look again at what is a motor, a servo or a bounded drive; graphs recorded with other arrays may be replayed."""
        from .boundary.actuators import build_actuators

        renewed = build_actuators(self.model, self.actuators, flags)
        if renewed is not None and renewed is not self.actuators:
            self._outgrown.append(self.actuators)
            self.actuators = renewed
            self._read_model()
            load_kernels([renewed.kernel], self.device)

    def get_max_contact_count(self) -> int:
        """Return how many contacts a ``Contacts`` for this solver needs room for: all that Newton may find, not only those that act,
        which ``max_contacts`` is about."""
        return self.arrivals.next.shape[0]

    def update_contacts(self, contacts: newton.Contacts, state: newton.State | None = None) -> None:
        """Write the last step's contact forces to ``contacts.force``; request the ``contact_f`` observable instead."""
        if getattr(contacts, "force", None) is None:
            lacking = "contacts is None" if contacts is None else "contacts.force is not allocated"
            raise ValueError(f"{lacking}; request the contact_f observable of solver.observables()")
        rows = 0 if self._contacts_seen is None else self._contacts_seen.rigid_contact_max
        if len(contacts.force) < rows:
            raise ValueError(
                f"contacts.force has {len(contacts.force)} rows, the contacts of the last step {rows}; pass those contacts"
            )
        observe.write_contact_forces(self, self.frames.last, contacts.force)

    @classmethod
    def register_custom_attributes(cls, builder: newton.ModelBuilder) -> None:
        """Let a builder take the attributes that SolverSAP reads.

        Per shape, negative (the default) where not set: ``sap:relaxation_time`` [s] replaces ``kd / ke``;
        ``sap:hunt_crossley_dissipation`` [s/m] replaces the option of the same name. Per ball joint:
        ``sap:swing_limit`` [rad], negative for none, how far the child may lean from ``sap:twist_axis`` (anchor axes,
        default x); ``sap:twist_limit_lower`` and ``sap:twist_limit_upper`` [rad], within one turn, about that axis.
        Limits of a ball joint take ``joint_limit_ke`` and ``joint_limit_kd`` of its first dof.
        """
        attributes.register(builder)

    def observables(
        self, kinds: Iterable[str], *, contacts: newton.Contacts | None = None, requires_grad: bool | None = None
    ) -> _Base.Observables:
        """Allocate the arrays that :meth:`step` fills when given them as ``observables=``; see ``docs/observables.md``.

        Args:
            kinds: Names out of ``solver.ObservableKind``.
            contacts: Contacts that give observables of contacts their rows.
            requires_grad: As in Newton; observables have no gradients.
        """
        out = super().observables(kinds, contacts=contacts, requires_grad=requires_grad)
        observe.load_kernels(self, filter(out.is_requested, observe.SUPPORTED))
        return out

    def __reduce__(self):
        raise TypeError(
            "a SolverSAP owns arrays and kernels of a device and cannot be copied or pickled; build another one on the model"
        )

    # What the user may ask --------------------------------------------------------------------------------------

    def report(self, state: newton.State | SapState | None = None) -> SolverReport:
        """Iterations, residuals, contacts and failures per world; synchronises with the device.

        Args:
            state: A state whose energy and momentum per world the report gives as well; it is left as it is.

        Raises:
            RuntimeError: A graph is being captured.
        """
        require_no_capture(self.device, "report()")
        mechanics = None if state is None else energy_and_momentum(self, state)
        memory = sum(memory_by_buffer(self, self.model, self._contacts_seen).values())
        known = dict(memory=memory, of_state=mechanics, contacts_given=self._were_filled())
        return read_report(self.stats, self.topology.group_world, self._room(), **known)

    def inspect(self) -> Inspection:
        """Velocities and mass matrix of the last step in float64, for debugging.

        Raises:
            RuntimeError: There was no step yet, or a graph is being captured.
        """
        require_no_capture(self.device, "inspect()")
        if self.frames.last is None:
            raise RuntimeError("inspect() tells of the last step, and there was none; call step() before it")
        return read_inspection(self)

    def inverse_dynamics(self, state_in, state_out, control, contacts, dt: float) -> InverseDynamics:
        """Explain an observed step: contact impulses in closed form, and the force that nothing accounts for.

        Neither state is changed, except that ``body_q`` of ``state_in`` is refreshed, and its ``joint_qd`` where :meth:`step`
        would write it. Reads the device, so it is not for use inside a graph capture; the counters of :meth:`report` do
        not see it. :meth:`inspect` and :meth:`update_contacts` then tell of the step that was explained.

        Args:
            state_in: State at the start of the step.
            state_out: Observed state at its end.
            control: As given to :meth:`step`.
            contacts: As given to :meth:`step`, found at ``state_in``; None takes what ``solver.contacts`` holds.
            dt: Step length [s].
        """
        require_no_capture(self.device, "inverse_dynamics()")
        return inverse_dynamics(self, state_in, state_out, control, contacts, dt)

    def state(self) -> SapState:
        """Return a new state in public order, at the model's initial coordinates."""
        state, orders = self.model.state(), dict.fromkeys(("joint_qd_order", "body_f_order"), "public")
        return SapState(**orders, **{f.name: getattr(state, f.name) for f in fields(SapState) if f.name not in orders})

    def control(self) -> SapControl:
        """Return a new control in public order."""
        control = self.model.control()
        return SapControl(
            control.joint_f, control.joint_target_q, control.joint_target_qd,
            joint_f_order="public", mujoco=getattr(control, "mujoco", None),
        )  # fmt: skip

    # Construction -----------------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        """Make every array that a step uses."""
        size, device = self.topology, self.device
        self.scratch = Scratch(size, self.options.threads, self.model)
        self.motion, self.motion_after = allocate_motion(self.scratch, size)
        self.rows = allocate_rows(self.scratch, size)
        self.couplings, self.couplers = couplings.build_couplings(self.model, size, size.loop_joints, device)
        tied = couplings.tied_trees(self.couplings, size)
        self.problem = allocate_problem(self.scratch, size, tied, couplings.trees_of_rows(self.couplers))
        self._coupling_kernels = couplings.assembling_kernels(self.couplings)
        moves = couplings.motions_of_trees(self.couplings, tied, size, self.model, self.options.position_update)
        self.tree = size.to_device(couplings.tied_groups(self.couplings), moves, device)
        self.hung_loads = HungLoads(self.tree, self.couplings, size, self.model)
        self.leaning = Leaning(self.couplings, size, self.model, moves)
        self.flights = Flights(self.motion, self.couplings, size, self.model, self.options.position_update)
        self.launches = Launches(self.tree, size, self.scratch, self.options.threads, device)
        self.large, self.frames = NoLargeGroups(), Frames()
        self.stats = allocate_stats(size, device)
        scalar = wp.float64 if self.options.precision == "float64" else wp.float32
        self.hessian = wp.zeros(size.hessian_size, dtype=scalar, device=device)
        self._follow_tied = couplings.follow_kernel(moves, scalar)
        self.initial_velocities = InitialVelocities(self.model, size)
        self.kinematic_roots = KinematicRoots(self.model, size, self.options.kinematic_velocity)
        self.actuators = None
        if actuator_table(self.model) is not None:
            from .boundary.actuators import build_actuators  # kernels that few models need

            self.actuators = build_actuators(self.model)
        self._group_world = wp.array(size.group_world, dtype=wp.int32, device=device)
        self._no_mask = wp.zeros(0, dtype=wp.bool, device=device)
        self._contacts_seen, self._last_report, self._known_proxies, self._outgrown = None, None, {}, []
        self._warned_without_contacts = False
        self._allocate_contacts(max(newton_capacity(self.model, self.contacts), self.options.max_contacts or 0))

    def _read_model(self) -> None:
        """Point the bundles at the model's current arrays."""
        self.frames.clear()
        self.joints = bundles.joints(self.model)
        self.bodies = bundles.bodies(self.model)
        self.shapes = bundles.shapes(self.model)
        couplings.attach_model(self.couplings, self.model)
        if self.actuators is not None:
            self.actuators.attach_model(self.model, self.joints, self.couplings.tendons)

    def _load_kernels(self) -> None:
        """Compile what a step launches, so that its first call may be captured."""
        self.contact_options = bundles.contact_options(self.options)
        self.joint_options = bundles.joint_options(self.options)
        self._settings = bundles.minimizer_settings(self.options)
        # Couplings add their rows in between; large groups gain nothing; on a GPU fewer groups would be minimised at a time, for
        # want of registers.
        self._assembles_apart = bool(self._coupling_kernels) or self.topology.needs_iterations or self.device.is_cuda
        self._solve_kernel = self._make_solve_kernel(assembles=not self._assembles_apart)
        stages = [] if self.actuators is None else [self.actuators.kernel]
        stages += [*self.initial_velocities.kernels, *self.kinematic_roots.kernels, *self.hung_loads.kernels]
        stages += [kinematics, *self.leaning.kernels, free_motion]
        stages += kernels_of(self)
        stages += [assemble_problem] if self._assembles_apart else []
        stages += [touch_trees, *self._coupling_kernels] if self._coupling_kernels else []
        stages += [] if self._follow_tied is None else [self._follow_tied]
        stages += [count_clusters] if self.problem.clusters.split else []
        stages += [self._solve_kernel, integrate, *self.flights.kernels]
        stages += [output.keep_loose_bodies] if self.topology.link_count < self.model.body_count else []
        stages += [output.loop_kernel()] if self.topology.loop_joints else []
        load_kernels([*stages, clear_stats], self.device)
        observe.load_kernels_of_attributes(self)

    def _make_solve_kernel(self, assembles: bool):
        """Return the kernel that assembles and minimises, or the one that finds the problem assembled."""
        law, size = contact_law(self.options.contact_model, self.options.spin_friction), self.topology
        return solve_kernel(law, self.hessian.dtype, size.needs_iterations, size.has_long_trees, assembles)

    def _make_recorder(self):
        """Return what lays steps on a tape, None where the model asks for no gradients or nothing moves."""
        if not self.model.requires_grad or not self.topology.link_count:
            return None
        from .gradients.recording import Recorder  # kernels that few models need

        return Recorder(self)
