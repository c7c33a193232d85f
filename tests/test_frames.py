"""Steps find what they bundled for the same arrays before, and never for others."""

import gc
import weakref

import newton
import numpy as np
import warp as wp

from newton_sap import SolverSAP
from newton_sap.boundary import bundles
from newton_sap.runtime.launches import KEPT


def ball():
    """A ball in free fall."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_shape_sphere(builder.add_body(), radius=0.1)
    return builder.finalize()


def drift(solver, state, control=None, dt=0.1):
    """Step in place; how far the ball went along x."""
    before = state.joint_q.numpy()[0]
    solver.step(state, state, control, None, dt)
    return float(state.joint_q.numpy()[0] - before)


def test_replaced_arrays_are_seen():
    """A state or control is known by its arrays, not by itself; so is the step by its length."""
    model = ball()
    solver, state, control = SolverSAP(model), model.state(), model.control()
    state.joint_qd.assign([1.0, 0, 0, 0, 0, 0])
    assert np.isclose(drift(solver, state, control), 0.1)
    assert np.isclose(drift(solver, state, control, dt=0.05), 0.05)
    state.joint_qd = wp.array([3.0, 0, 0, 0, 0, 0], dtype=wp.float32)
    assert np.isclose(drift(solver, state, control), 0.3)
    control.joint_f = wp.array([float(model.body_mass.numpy()[0]), 0, 0, 0, 0, 0], dtype=wp.float32)
    assert np.isclose(drift(solver, state, control), 0.31, rtol=1e-5)
    model.joint_f.assign([-float(model.body_mass.numpy()[0]), 0, 0, 0, 0, 0])
    assert np.isclose(drift(solver, state, None), 0.30, rtol=1e-5)  # 3.1 m/s, less 0.1


def test_order_of_a_state_may_change():
    """The same arrays in another order are another step."""
    model = ball()
    solver = SolverSAP(model)
    state = solver.state()
    state.joint_qd.assign([1.0, 0, 0, 0, 0, 0])
    assert np.isclose(drift(solver, state), 0.1)
    state.joint_qd_order = "sap"
    state.joint_qd.assign([0, 0, 0, 2.0, 0, 0])
    assert np.isclose(drift(solver, state), 0.2)


def test_states_are_let_go():
    """A program that makes a state for every step holds the last few only."""
    model = ball()
    solver, held = SolverSAP(model), []
    for _ in range(3 * KEPT):
        state = model.state()
        held.append(weakref.ref(state))
        drift(solver, state)
    del state
    gc.collect()
    assert sum(ref() is not None for ref in held) <= KEPT


def test_kept_frames_are_no_memory_of_the_solver():
    """The report counts what the solver allocated, not what it was called with."""
    model = ball()
    solver = SolverSAP(model)
    before = solver.report().memory
    for state in [model.state() for _ in range(3)]:
        drift(solver, state)
    assert solver.report().memory == before


def test_contacts_taken_in_turns_are_found_again(monkeypatch):
    """Two ``Contacts`` that take turns are bundled once each."""
    made = []
    bundle = bundles.contact_rows
    monkeypatch.setattr(bundles, "contact_rows", lambda contacts: made.append(contacts) or bundle(contacts))
    model = ball()
    solver, state = SolverSAP(model), model.state()
    turns = [newton.Contacts(2, 0), newton.Contacts(3, 0)]
    for k in range(6):
        solver.step(state, state, None, turns[k % 2], 0.1)
    assert [id(contacts) for contacts in made] == [id(contacts) for contacts in turns]
