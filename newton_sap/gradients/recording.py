"""Laying a step on the tape: every step keeps arrays of its own, which its way back reads."""

from __future__ import annotations

from functools import cache

import numpy as np
import warp as wp

from ..boundary import bundles
from ..boundary.actuators import actuate
from ..boundary.loop_coordinates import publish_loop_joints
from ..constraints.laws import contact_law
from ..contacts.rows import ContactRows
from ..coupling_bundles import CouplingTable, Routes, Tendons
from ..flight import straighten
from ..linalg.lanes import block_dim
from ..multibody.gyroscopic import TIED, TOGETHER
from ..multibody.integration import UPDATES, integrate
from ..multibody.kinematics import kinematics
from ..runtime.launches import load_kernels
from ..workspace import ROWS_PER_DOF, ContactPool, Motion, RowPool, StateArrays, allocate, copy_bundle
from .coupling_power import CouplerRows, coupling_power, gather_ties
from .free_change import (
    Changes,
    add_followed,
    energy_of_dofs,
    energy_of_links,
    factor_mass,
    find_holds,
    gather_loads,
    gather_products,
    gather_pushes,
    let_bear,
    let_hold,
    mass_power_of_dofs,
    mass_power_of_links,
    measure_holds,
    measure_pushes,
    solve_mass,
    swing_links,
)
from .scene import Scene, gather_pulls
from .sensitivity import Sensitivity, balance, sensitivity_kernel
from .support import require_differentiable
from .virtual_power import contact_power, dof_power, link_power

_PLACED = ("position", "rotation", "com", "velocity", "v0", "locked")
"""What bodies are placed in."""
_BALANCED = ("bias", "column", "mass", "moment", "inertia", "v")
"""And what their balance reads beside."""
_NOT_STORED = (
    "last_surface", "surface_before", "vc", "line", "slip_direction", "slowness", "gamma", "G", "unknown", "J", "body_a",
)  # fmt: skip
"""What slots hold only while they are filled or during a minimisation."""
_FOLLOWING = (
    gather_loads, find_holds, mass_power_of_links, mass_power_of_dofs, measure_holds, let_hold, swing_links, gather_products,
    energy_of_links, energy_of_dofs, add_followed,
)  # fmt: skip
"""What laying the change of velocity on the tape launches."""
_LEANING = (gather_pushes, measure_pushes, let_bear)
"""And where trees may lean against something."""


@cache
def differentiable(kernel):
    """A kernel with an adjoint, in a module of its own."""
    return wp.kernel(kernel.func, enable_backward=True, module="unique")


class Recorder:
    """Lays the steps of a solver whose model asks for gradients on the tape that is active, if any."""

    def __init__(self, solver):
        require_differentiable(solver)
        size, options = solver.topology, solver.options
        self.device = solver.device
        dofs = np.diff(size.arrays["group_dof_start"]).astype(np.int64)
        self._entries = int((dofs**2).sum())
        self._start = wp.array(np.cumsum(dofs**2) - dofs**2, dtype=wp.int64, device=self.device)
        self._update = UPDATES[options.position_update]
        law = contact_law(options.contact_model)
        self._friction_follows = int(bundles.minimizer_settings(options).renewals > 0)
        self._sensitivity = sensitivity_kernel(law)
        self._contact_power = contact_power(law)
        moves = solver.tree.trees.numpy()["moves"]
        self._ties = bool((moves == int(TIED)).any())
        self._follows = self._ties or bool((moves == int(TOGETHER)).any())
        self._captured = []  # what graphs read and write, which they do not own
        self._no_motion = allocate(Motion, {"*": 0}, self.device)
        self._no_contacts = allocate(ContactPool, {"*": 0}, self.device, stride=solver.pool.stride)
        load_kernels(self._kernels(solver), self.device)

    def _kernels(self, solver) -> list:
        """What recording a step launches, by what the model has."""
        taped = [kinematics, gather_pulls, link_power, dof_power, balance, integrate]
        made = [self._sensitivity]
        if solver.model.shape_count:
            taped += [self._contact_power]
        if len(solver.couplings.kind):
            taped += [coupling_power]
            taped += [publish_loop_joints] if solver.topology.loop_joints else []
        if self._follows:
            taped += _FOLLOWING
            taped += _LEANING if solver.leaning.kernels else ()
            taped += [gather_ties] if self._ties else []
            made += [factor_mass, solve_mass]
        taped += [straighten] if solver.flights.kernels else []
        if solver.actuators is not None:
            taped += [actuate]
        return [*made, *map(differentiable, taped)]

    def record(self, solver, frame) -> None:
        """Lay a step that has just been made on the tape."""
        size = solver.topology
        s = self._sensitivities(solver)
        m = self._motion(solver)
        scene = self._scene(solver, frame)
        inputs = [scene.tree, scene.joints, scene.bodies, m, frame.orders, self._without_poses(frame.before)]
        self._launch(kinematics, size.tree_count, inputs)
        self._launch(gather_pulls, size.link_count, [scene, m])
        couplings = len(solver.couplings.kind)
        ties = [self._couplings(solver), m, self._coupler_rows(solver)] if couplings else []
        change = self._change(solver, scene, m, ties)
        self._launch(link_power, size.link_count, [scene, m, change, s])
        rows = allocate(RowPool, {"*": ROWS_PER_DOF * size.dof_count}, self.device, requires_grad=True)
        self._launch(dof_power, size.dof_count, [scene, m, rows, s])
        if frame.rows is not None and solver.model.shape_count:
            self._launch(self._contact_power, size.group_count, [scene, m, self._pool(solver), s])
        if couplings:
            self._launch(coupling_power, couplings, [scene, *ties, s, 0])
        self._launch(balance, size.group_count, [scene.tree, s, s.power, m.v])
        motion_after = self._motion_after(solver)
        placed = self._placed(solver, frame.after)
        inputs = [scene.tree, scene.joints, scene.bodies, m, frame.orders, frame.before, placed]
        inputs += [motion_after, frame.orders_after, self._update, frame.dt]
        self._launch(integrate, size.tree_count, inputs)
        if solver.flights.kernels:
            inputs = [scene.tree, scene.joints, scene.bodies, m, frame.orders_after, scene.efforts, placed, frame.after]
            inputs += [motion_after, self._motion_after(solver), 1, frame.dt]
            self._launch(straighten, size.tree_count, inputs)
        if couplings and size.loop_joints:
            # The step has counted their turns, from where it began, which its end does not know any more.
            inputs = [scene.tree, scene.joints, ties[0], motion_after, frame.orders, frame.after, 0.0]
            self._launch(publish_loop_joints, couplings, inputs)

    def _launch(self, kernel, count: int, inputs: list) -> None:
        recorded = differentiable(kernel)
        wp.launch(recorded, dim=count, inputs=inputs, block_dim=block_dim(recorded), device=self.device)
        if self.device.is_capturing:
            self._captured.append(inputs)

    def _change(self, solver, scene: Scene, m: Motion, ties: list) -> Motion:
        """Lay the change of velocity that products follow on the tape, one balance after the other."""
        if not self._follows:
            return self._no_motion
        size = solver.topology
        tree = scene.tree
        mass = self._mass(size)
        ties = ties if self._ties else []
        self._unrecorded(factor_mass, size.group_count, [scene, m, solver.couplers, solver.problem, mass])
        dofs = size.dof_count
        counts = {"*": dofs} | dict.fromkeys(
            ("against", "hold_size", "falls", "push_size", "size", "further"), size.tree_count
        )
        counts |= dict.fromkeys(("held", "fall", "first", "second"), 0)
        if not solver.leaning.kernels:
            counts |= dict.fromkeys(("push", "falls", "push_size", "momentum"), 0)
        c = allocate(Changes, counts, self.device, requires_grad=True)
        self._launch(gather_loads, size.link_count, [scene, m, c])
        self._launch(find_holds, dofs, [scene, m, c])
        if ties:
            self._launch(gather_ties, len(ties[0].kind), [scene, *ties, c])
        c.held = self._changed(scene, m, size, mass, c.hold, ties)
        self._launch(measure_holds, dofs, [tree, c])
        self._launch(let_hold, dofs, [tree, c])
        if solver.leaning.kernels:
            self._launch(gather_pushes, size.link_count, [scene, m, c])
            c.fall = self._changed(scene, m, size, mass, c.push, ties)
            self._launch(measure_pushes, dofs, [tree, c])
            self._launch(let_bear, dofs, [tree, c])
        else:
            c.momentum = c.moved
        c.first = self._changed(scene, m, size, mass, c.momentum, ties)
        self._launch(gather_products, size.link_count, [scene, m, self._swung(scene, m, size, c.first), c])
        c.second = self._changed(scene, m, size, mass, c.beyond, ties)
        self._launch(energy_of_links, size.link_count, [scene, m, c])
        self._launch(energy_of_dofs, dofs, [scene, m, c])
        self._launch(add_followed, dofs, [tree, c])
        return self._swung(scene, m, size, c.change)

    def _mass(self, size, **kept) -> Sensitivity:
        """Room for a solve with the mass matrix of every group; its factors and its momentum may be given."""
        counts = {"*": size.dof_count, "no_gradient": size.group_count, "weight": 0, "lag": 0}
        return self._balance(counts, **(kept or {"S": self._matrix()}))

    def _changed(self, scene: Scene, m: Motion, size, mass: Sensitivity, momentum: wp.array, ties: list) -> wp.array:
        """The change of rates that a momentum makes; ``ties`` are couplings and their rows, where some hold trees."""
        s = self._mass(size, S=mass.S, pivot=mass.pivot, momentum=momentum)
        self._unrecorded(solve_mass, size.group_count, [scene.tree, s])
        self._launch(mass_power_of_links, size.link_count, [scene, m, s])
        self._launch(mass_power_of_dofs, size.dof_count, [scene, m, s])
        if ties:
            self._launch(coupling_power, len(ties[0].kind), [scene, *ties, s, 1])
        change = wp.zeros(size.dof_count, dtype=wp.float64, device=self.device, requires_grad=True)
        self._launch(balance, size.group_count, [scene.tree, s, s.power, change])
        return change

    def _swung(self, scene: Scene, m: Motion, size, rates: wp.array) -> Motion:
        """How links change their velocities with the rates."""
        change = self._own(Motion, self._no_motion, dict.fromkeys(("velocity", "bias"), size.link_count), v0=rates)
        self._launch(swing_links, size.tree_count, [scene.tree, scene.joints, m, change])
        return change

    def _matrix(self) -> wp.array:
        """Room for a matrix of every group."""
        return wp.zeros(self._entries, dtype=wp.float64, device=self.device)

    def _balance(self, counts: dict[str, int], **kept) -> Sensitivity:
        """Room for the derivative of a balance of every group, and for its virtual power."""
        power = wp.zeros(len(self._start), dtype=wp.float64, device=self.device, requires_grad=True)
        return allocate(Sensitivity, counts, self.device, start=self._start, power=power, **kept)

    def _unrecorded(self, kernel, count: int, inputs: list) -> None:
        wp.launch(kernel, dim=count, inputs=inputs, block_dim=block_dim(kernel), device=self.device, record_tape=False)

    def _sensitivities(self, solver) -> Sensitivity:
        """Factor the step's own derivative; nothing of this is on the tape."""
        size = solver.topology
        counts = {"*": size.dof_count, "no_gradient": size.group_count, "momentum": 0}
        counts |= dict.fromkeys(("weight", "lag"), solver.pool.row.shape[0])
        s = self._balance(counts, S=self._matrix(), velocity=wp.clone(solver.motion.v))
        s.friction_follows = self._friction_follows
        sigma = solver.options.friction_regularization
        inputs = [solver.tree, solver.motion, solver.pools, solver.problem, sigma, s]
        self._unrecorded(self._sensitivity, size.group_count, inputs)
        return s

    def _own(self, kind, template, lengths: dict[str, int], **kept):
        """A bundle of some kind with arrays of the step's own where lengths are given; the rest is ``kept``, or empty and shared."""
        shared = {name: getattr(template, name) for name in kind.vars if name not in lengths}
        return allocate(kind, lengths | {"*": 0}, self.device, requires_grad=True, **{**shared, **kept})

    def _motion(self, solver) -> Motion:
        """Kinematics of the step's own, with the solver's mass matrix and free motion as constants."""
        lengths = {name: len(getattr(solver.motion, name)) for name in (*_PLACED, *_BALANCED)}
        kept = {name: wp.clone(getattr(solver.motion, name)) for name in ("A", "v_star", "leans", "flight")}
        m = self._own(Motion, self._no_motion, lengths, **kept)
        m.travel = m.v  # but for bounces, whose gradients are not known
        return m

    def _motion_after(self, solver) -> Motion:
        """Where bodies are at the end of the step."""
        return self._own(Motion, self._no_motion, {name: len(getattr(solver.motion, name)) for name in _PLACED})

    def _placed(self, solver, after: StateArrays) -> StateArrays:
        """Where integration puts the state: at the end of the step, unless paths are straightened from there."""
        if not solver.flights.kernels:
            return after
        placed = StateArrays()
        for name in StateArrays.vars:
            setattr(placed, name, wp.empty_like(getattr(after, name), requires_grad=True))
        return placed

    def _pool(self, solver) -> ContactPool:
        """Contacts of the step's own: which rows act, and room for what is taken from them anew."""
        pool = solver.pool
        kept = {name: wp.clone(getattr(pool, name)) for name in ("row", "support", "group_start", "group_count")}
        lengths = dict.fromkeys(ContactPool.vars.keys() - {*kept, *_NOT_STORED, "stride", "part_start"}, len(pool.row))
        return self._own(ContactPool, self._no_contacts, lengths, **kept)

    def _couplings(self, solver) -> CouplingTable:
        """The model's couplings, without tendons."""
        none = {"tendons": Tendons, "routes": Routes}
        none = {name: allocate(kind, {"*": 0}, self.device) for name, kind in none.items()}
        return copy_bundle(CouplingTable, solver.couplings, none)

    def _coupler_rows(self, solver) -> CouplerRows:
        """How the rows of couplings acted in this step."""
        rows = CouplerRows()
        couplers = solver.pools.couplers
        rows.tree = couplers.tree
        rows.support, rows.law = wp.clone(couplers.support), wp.clone(couplers.law)
        return rows

    def _without_poses(self, before: StateArrays) -> StateArrays:
        """The state for kinematics, which writes the poses that the step has written: they are no output of these."""
        own = StateArrays()
        own.joint_q, own.joint_qd, own.body_qd = before.joint_q, before.joint_qd, before.body_qd
        own.body_q = wp.empty_like(before.body_q, requires_grad=False)
        return own

    def _scene(self, solver, frame) -> Scene:
        """What the balance reads; contacts are copied, since one ``Contacts`` serves many steps."""
        scene = Scene()
        scene.tree, scene.joints, scene.bodies, scene.shapes = solver.tree, solver.joints, solver.bodies, solver.shapes
        scene.orders, scene.efforts, scene.step, scene.before = frame.orders, frame.efforts, frame.step, frame.before
        if frame.commanded is not None:
            self._command(scene, solver, frame)
        scene.rounds = wp.zeros(solver.topology.tree_count, dtype=wp.int32, device=self.device)
        scene.pull = wp.zeros(solver.topology.link_count, dtype=wp.vec3d, device=self.device, requires_grad=True)
        scene.rows = allocate(ContactRows, {"*": 0}, self.device)
        if frame.rows is not None:
            for name in ContactRows.vars:
                setattr(scene.rows, name, wp.clone(getattr(frame.rows, name), requires_grad=False))
        return scene

    def _command(self, scene: Scene, solver, frame) -> None:
        """Work the actuators out into arrays of the step's own, which take the place of the solver's."""
        commanded, scene.joints = solver.actuators.apart(frame.commanded, solver.joints)
        inputs = solver.actuators.inputs(commanded, frame.orders)
        count = len(commanded.out.joint_f)
        self._launch(actuate, count, [*inputs, count])
        control = commanded.control
        scene.efforts = bundles.efforts(solver.model, commanded.body_f, control, solver.options)
        scene.step = bundles.step_input(
            solver.contact_options, solver.joint_options, frame.before.joint_q, scene.efforts, frame.dt
        )
