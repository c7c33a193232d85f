"""Checks of repetition: worlds that do not feel each other, equal runs, recorded runs, resets."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from .core import Subject, check
from .rig import STATE_ARRAYS, G, Rig, box_on_ground, boxes_in_worlds, put, raises, require, same_bits, same_state

AREA = "worlds and repetition"
STEPS = 12
BODIES = 2
"""Bodies in each world of the scene."""


def _rig(subject: Subject, worlds: int = 3) -> Rig:
    rig = Rig(subject, boxes_in_worlds(worlds), contacts=True)
    rig.place(qd=[0.5, 0.2, -0.3, 0.4, -0.2, 0.3, 0.1] * worlds)
    return rig


def _bodies(rig: Rig, world: int) -> dict[str, np.ndarray]:
    rows = slice(BODIES * world, BODIES * (world + 1))
    return {name: getattr(rig.state, name).numpy()[rows].copy() for name in ("body_q", "body_qd")}


def _disturb(rig: Rig, world: int, value: float) -> None:
    """Set the velocities of one world."""
    dofs = 7
    qd = rig.state.joint_qd.numpy()
    qd[dofs * world : dofs * (world + 1)] = value
    rig.state.joint_qd.assign(qd)
    newton.eval_fk(rig.model, rig.state.joint_q, rig.state.joint_qd, rig.state)


@check(AREA, "newton.solvers.SolverBase.step")
def same_bits_on_every_run(subject: Subject) -> None:
    """Two solvers of equal models, stepped from equal states, give the same bits."""
    first, second = _rig(subject), _rig(subject)
    for rig in (first, second):
        rig.advance(steps=STEPS)
    same_state(second.look(), first.look(), "second run against first")


@check(AREA, "newton.ModelBuilder.replicate")
def worlds_do_not_touch(subject: Subject) -> None:
    """Worlds are simulations of their own: what happens in one changes no bit of another."""
    rig, other = _rig(subject), _rig(subject)
    _disturb(other, 1, -0.7)
    for one in (rig, other):
        one.advance(steps=STEPS)
    for world in (0, 2):
        same_state(_bodies(other, world), _bodies(rig, world), f"world {world} with its neighbour disturbed")
    require(
        not np.array_equal(_bodies(other, 1)["body_q"], _bodies(rig, 1)["body_q"]), "the disturbed world ignores it"
    )


@check(AREA, "newton.ModelBuilder.replicate")
def nan_stays_in_its_world(subject: Subject) -> None:
    """A world that holds NaN is lost, but no other world: robustness that training many worlds at once needs."""
    rig, other = _rig(subject), _rig(subject)
    _disturb(other, 1, np.nan)
    for one in (rig, other):
        one.advance(steps=STEPS)
    for world in (0, 2):
        same_state(_bodies(other, world), _bodies(rig, world), f"world {world} beside one with NaN")


@check(AREA, "newton.Model.world_count")
def number_of_worlds_is_free(subject: Subject) -> None:
    """A world among others does what it does alone: the number of worlds changes its motion by less than 1e-5."""
    alone, crowd = _rig(subject, 1), _rig(subject, 4)
    for rig in (alone, crowd):
        rig.advance(steps=STEPS)
    for world in (0, 3):
        for name, values in _bodies(crowd, world).items():
            off = np.max(np.abs(values - _bodies(alone, 0)[name]))
            require(off < 1e-5, f"world {world} of four differs from the one alone, {name}, by {off:.3g}")


@check(AREA, "newton.Model.set_gravity")
def gravity_of_one_world(subject: Subject) -> None:
    """Gravity belongs to a world: set for one, it acts there and changes no bit of another."""
    rig, other = _rig(subject), _rig(subject)
    other.model.set_gravity((0.0, 0.0, 2.0), world=1)
    other.solver.notify_model_changed(newton.ModelFlags.MODEL_PROPERTIES)
    for one in (rig, other):
        one.advance(steps=STEPS)
    same_state(_bodies(other, 2), _bodies(rig, 2), "world 2 with other gravity in world 1")
    risen = other.velocity(BODIES)[2] - rig.velocity(BODIES)[2]
    require(
        risen > 0.5 * 2.0 * STEPS * rig.dt, f"gravity upwards in world 1 changed its velocity by {risen:.3g} m/s only"
    )


@check(AREA, "newton.solvers.SolverBase.reset")
def reset_forgets(subject: Subject) -> None:
    """After ``reset`` a solver has no memory: from the state it first started from, it takes the same path, bit for bit."""
    rig = _rig(subject)
    start = {name: getattr(rig.state, name).numpy().copy() for name in STATE_ARRAYS}
    rig.advance(steps=STEPS)
    first = rig.look()
    for name, values in start.items():
        getattr(rig.state, name).assign(values)
    rig.solver.reset(rig.state)
    for name, values in start.items():  # a solver may copy the model's defaults into the state; the caller's come last
        getattr(rig.state, name).assign(values)
    rig.advance(steps=STEPS)
    same_state(rig.look(), first, "path after reset")


@check(AREA, "newton.solvers.SolverBase.reset")
def reset_obeys_mask(subject: Subject) -> None:
    """``reset`` with a mask touches the chosen worlds only, in the state and inside the solver: others go on, bit for bit.

    The mask has one entry more than there are worlds, the last one for global entities.
    """
    rig, other = _rig(subject), _rig(subject)
    for one in (rig, other):
        one.advance(steps=STEPS)
    before = {world: _bodies(other, world) for world in (0, 2)}
    mask = wp.array([False, True, False, False], dtype=wp.bool, device=other.model.device)
    other.solver.reset(other.state, mask)
    for world, bodies in before.items():
        same_state(_bodies(other, world), bodies, f"world {world}, not chosen, right after reset")
    for one in (rig, other):
        one.advance(steps=STEPS)
    for world in (0, 2):
        same_state(_bodies(other, world), _bodies(rig, world), f"world {world}, not chosen, after reset and some steps")


@check(AREA, "newton.solvers.SolverBase.reset")
def reset_refuses_short_mask(subject: Subject) -> None:
    """A mask without the entry for global entities is an error, and no guess is made."""
    rig = _rig(subject)
    mask = wp.array([False, True, False], dtype=wp.bool, device=rig.model.device)
    raises(ValueError, lambda: rig.solver.reset(rig.state, mask), "a mask with one entry per world only")


@check(AREA, "newton.StateFlags")
def reset_without_flags_keeps_state(subject: Subject) -> None:
    """``reset(..., flags=StateFlags.NONE)`` drops what the solver remembers and leaves the state as the caller wrote it."""
    rig = _rig(subject)
    rig.advance(steps=3)
    before = rig.look()
    rig.solver.reset(rig.state, flags=newton.StateFlags.NONE)
    same_state(rig.look(), before, "state after a reset that selects nothing of it")


def _replayed(subject: Subject, *, warm: bool) -> None:
    eager, rig = (Rig(subject, box_on_ground(height=0.06), contacts=True, solver_first=not warm) for _ in range(2))
    if warm:  # into a state that is thrown away
        rig.collide()
        rig.step(rig.state, rig.next)
        rig.solver.reset(rig.state)
        rig.place()
    for one in (eager, rig):
        put(one.control.joint_f, [2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    with wp.ScopedCapture(device=rig.model.device, force_module_load=False) as capture:
        for _ in range(2):  # an even number, so that the states end where they began
            rig.advance(steps=1)
    for _ in range(STEPS // 2):
        wp.capture_launch(capture.graph)
    eager.advance(steps=STEPS)
    for name in ("body_q", "body_qd"):
        same_bits(rig.look()[name], eager.look()[name], f"replayed against eager, {name}")
    fallen = 0.06 - rig.position()[2]
    time = STEPS * rig.dt
    require(fallen > min(5e-3, 0.25 * G * time**2), f"the replayed graph moved nothing: the box fell by {fallen:.3g} m")


@check(AREA, "warp.ScopedCapture")
def replay_equals_eager(subject: Subject) -> None:
    """Steps recorded into a graph and replayed give the bits that the same steps give one by one.

    The solver has stepped before. A step that reads the device on the host records stale numbers and fails here.
    """
    _replayed(subject, warm=True)


@check(AREA, "warp.ScopedCapture")
def first_step_may_be_recorded(subject: Subject) -> None:
    """The first step of a solver may already be recorded, as Newton's examples do right after construction."""
    _replayed(subject, warm=False)
