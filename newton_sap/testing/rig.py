"""Scenes that every solver can be asked about, and the comparisons that checks are made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import newton
import numpy as np
import warp as wp

from .core import ContractViolation, NotClaimed, Subject

G = 9.81
"""Magnitude of gravity [m/s^2]."""
DT = 1.0 / 200.0
"""Time step [s] before refinement."""
MASS = 2.0
"""Mass [kg] of the bodies in the scenes."""
INERTIA = 0.05
"""Their moment of inertia [kg m^2] about every axis through the COM."""
MU = 0.4
"""Coefficient of friction of all shapes."""
HALF = (0.2, 0.2, 0.05)
"""Half extents [m] of the box that rests and slides: too flat to tip over."""

QUARTER_X = (0.70710678, 0.0, 0.0, 0.70710678)
"""A quarter turn about x, as a quaternion with the scalar last."""
STATE_ARRAYS = ("joint_q", "joint_qd", "body_q", "body_qd")


# Comparisons ------------------------------------------------------------------------------------------------------


def require(condition: bool, message: str) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise ContractViolation(message)


def close(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Require every entry within ``tolerance`` (absolute) of its expected value."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    worst = np.max(np.abs(actual - expected)) if actual.size else 0.0
    if not worst <= tolerance:  # NaN is not close either
        raise ContractViolation(
            f"{what}: expected {_text(expected)} within {tolerance:.2g}, got {_text(actual)} (off by {worst:.3g})"
        )


def same_bits(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Require equal bits; NaN equals NaN."""
    if actual.tobytes() != expected.tobytes():
        with np.errstate(invalid="ignore"):
            off = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        raise ContractViolation(f"{what}: not bit-equal, off by {np.max(off):.3g}")


def same_state(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], what: str) -> None:
    """Require equal bits of every array of two snapshots."""
    for name, array in expected.items():
        same_bits(actual[name], array, f"{what}, {name}")


def snapshot(holder: Any) -> dict[str, np.ndarray]:
    """Return copies of all non-empty arrays that an object holds as public attributes."""
    items = {name: value for name, value in vars(holder).items() if not name.startswith("_")}
    return {name: value.numpy().copy() for name, value in items.items() if isinstance(value, wp.array) and value.size}


def put(array: wp.array, values: Any) -> None:
    """Assign NumPy values to a Warp array, whatever its element type."""
    shape = array.numpy().shape
    array.assign(np.broadcast_to(np.asarray(values, np.float32), shape))


def fill_nan(state: newton.State, *names: str) -> None:
    """Make every number of some arrays of a state NaN, so that what is not written shows."""
    for name in names:
        put(getattr(state, name), np.nan)


def raises(errors: type | tuple[type, ...], call: Callable[[], Any], what: str) -> None:
    """Require that a call raises one of the errors."""
    try:
        call()
    except errors:
        return
    raise ContractViolation(f"{what}: no error")


def _text(values: np.ndarray) -> str:
    return np.array2string(values, precision=5, separator=", ", threshold=12).replace("\n", "")


# Scenes -----------------------------------------------------------------------------------------------------------


def material(**keywords: Any) -> newton.ModelBuilder.ShapeConfig:
    """Return a shape of no mass, stiff and critically damped for :data:`MASS` on four points."""
    values = {"density": 0.0, "ke": 2.0e4, "kd": 2.0e2, "mu": MU, "gap": 0.01, "margin": 0.0} | keywords
    return newton.ModelBuilder.ShapeConfig(**values)


def builder_of(gravity: float = -G, up_axis: newton.Axis = newton.Axis.Z) -> newton.ModelBuilder:
    """Return an empty builder."""
    builder = newton.ModelBuilder(up_axis=up_axis, gravity=tuple(gravity * np.eye(3)[int(up_axis)]))
    builder.default_shape_cfg = material()
    return builder


def add_body(builder: newton.ModelBuilder, **keywords: Any) -> int:
    """Add a free body of :data:`MASS` and :data:`INERTIA`."""
    return builder.add_body(**_inertia(), **keywords)


def builder_of_body(gravity: float = -G) -> newton.ModelBuilder:
    """Return a builder with one free body at the origin."""
    builder = builder_of(gravity)
    add_body(builder)
    return builder


def add_slider(builder: newton.ModelBuilder, axis: newton.Axis = newton.Axis.X, **keywords: Any) -> int:
    """Add a body on a rail fixed to the world."""
    body = builder.add_link(**_inertia())
    builder.add_articulation([builder.add_joint_prismatic(-1, body, axis=axis, **keywords)])
    return body


def add_box(builder: newton.ModelBuilder, height: float = HALF[2], **keywords: Any) -> int:
    """Add the flat box, its centre at a height [m]."""
    body = add_body(builder, xform=wp.transform((0.0, 0.0, height), wp.quat_identity()))
    builder.add_shape_box(body, hx=HALF[0], hy=HALF[1], hz=HALF[2], cfg=material(**keywords))
    return body


def box_on_ground(height: float = HALF[2], gravity: float = -G, **keywords: Any) -> newton.ModelBuilder:
    """Return a builder with the flat box over a ground plane."""
    builder = builder_of(gravity)
    add_box(builder, height, **keywords)
    builder.add_ground_plane(cfg=material(**keywords))
    return builder


def boxes_in_worlds(count: int, *, spheres: bool = False) -> newton.ModelBuilder:
    """Return a builder with a box, or a sphere, and a slider in each world, and one ground."""
    one = builder_of()
    if spheres:
        body = add_body(one, xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
        one.add_shape_sphere(body, radius=0.1, cfg=material())
    else:
        add_box(one)
    add_slider(one, target_ke=50.0, target_kd=2.0, target_q=0.1, actuator_mode=newton.JointTargetMode.POSITION)
    builder = builder_of()
    builder.replicate(one, count)
    builder.add_ground_plane(cfg=material())
    return builder


def _inertia() -> dict[str, Any]:
    return {"mass": MASS, "inertia": wp.mat33(np.diag([INERTIA] * 3).astype(np.float32)), "lock_inertia": True}


def finalize(subject: Subject, builder: newton.ModelBuilder) -> newton.Model:
    """Return the model of a builder, after what the subject wants done to it."""
    if subject.prepare is not None:
        subject.prepare(builder)
    return builder.finalize()


class Rig:
    """A model, its solver, and a state that steps; forces given to :meth:`push` act at every step."""

    def __init__(
        self,
        subject: Subject,
        builder: newton.ModelBuilder,
        *,
        contacts: bool = False,
        solver_first: bool = False,
        dt: float = DT,
    ):
        self.model = finalize(subject, builder)
        self.dt = dt / subject.refine
        early = subject.solver(self.model) if solver_first else None
        self.pipeline = newton.CollisionPipeline(self.model) if contacts else None
        self.contacts = self.pipeline.contacts() if self.pipeline else None
        self.solver = early or subject.solver(self.model)
        self.state, self.next, self.control = self.model.state(), self.model.state(), self.model.control()
        self._wrench: np.ndarray | None = None
        self.observables: Any = None
        self.place()

    def place(self, q: Any = None, qd: Any = None) -> None:
        """Set joint coordinates and velocities, and the body states that follow from them."""
        for array, initial, values in (
            (self.state.joint_q, self.model.joint_q, q),
            (self.state.joint_qd, self.model.joint_qd, qd),
        ):
            if values is None:
                wp.copy(array, initial)
            else:
                put(array, values)
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def push(self, wrench: Any) -> None:
        """Apply a world wrench (force, torque) to every body's COM from now on."""
        self._wrench = np.asarray(wrench, np.float32)

    def advance(self, duration: float | None = None, *, steps: int | None = None) -> int:
        """Step for a duration [s] or a number of steps; return how many steps that were."""
        count = steps if steps is not None else round(duration / self.dt)
        for _ in range(count):
            self.collide()
            self.step(self.state, self.next)
            self.state, self.next = self.next, self.state
        return count

    def collide(self) -> None:
        """Find contacts at the present state."""
        if self.pipeline:
            self.pipeline.collide(self.state, self.contacts)

    def step(self, state_in: newton.State, state_out: newton.State) -> None:
        """Take one step, the forces set afresh as Newton's examples do."""
        state_in.clear_forces()
        if self._wrench is not None:
            put(state_in.body_f, self._wrench)
        more = {} if self.observables is None else {"observables": self.observables}
        self.solver.step(state_in, state_out, self.control, self.contacts, self.dt, **more)

    def observe(self, kind: str) -> wp.array:
        """Ask for an observable in every step from now on and return its array."""
        if kind not in self.solver.supported_observables:
            raise NotClaimed(f"{kind} is not among the supported observables")
        self.observables = self.solver.observables({kind}, contacts=self.contacts)
        return getattr(self.observables, kind)

    def look(self) -> dict[str, np.ndarray]:
        """Return copies of the state's four arrays."""
        return {name: getattr(self.state, name).numpy().copy() for name in STATE_ARRAYS}

    def position(self, body: int = 0) -> np.ndarray:
        """Return the position [m] of a body's origin."""
        return self.state.body_q.numpy()[body, :3].astype(np.float64)

    def com(self, body: int = 0) -> np.ndarray:
        """Return the position [m] of a body's COM."""
        pose = wp.transform(*self.state.body_q.numpy()[body])
        return np.array(wp.transform_point(pose, wp.vec3(*self.model.body_com.numpy()[body])), np.float64)

    def velocity(self, body: int = 0) -> np.ndarray:
        """Return the velocity of a body as reported: linear [m/s], angular [rad/s]."""
        return self.state.body_qd.numpy()[body].astype(np.float64)


def quiet(call: Callable[[], Any]) -> Any:
    """Call something that Newton has deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return call()
