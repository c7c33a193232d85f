"""A model's bodies as mechanics sees them, whatever steps them: weight, energy and momentum, on the host in float64."""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np


def rotate(q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Turn vectors (..., 3) by quaternions (..., 4), xyzw."""
    t = 2.0 * np.cross(q[..., :3], x)
    return x + q[..., 3:] * t + np.cross(q[..., :3], t)


def gravity(model: newton.Model) -> np.ndarray:
    """Return the gravity [m/s^2] of each body's world, (bodies, 3)."""
    of_worlds = model.gravity.numpy().reshape(-1, 3).astype(float)
    return of_worlds[model.body_world.numpy()]  # -1, of no world, is the last row


def weight(model: newton.Model) -> float:
    """Return the force [N] along z that holds all bodies against gravity."""
    return float(model.body_mass.numpy().astype(float) @ -gravity(model)[:, 2])


def spin_momentum(inertia: np.ndarray, rotation: np.ndarray, spin: np.ndarray) -> np.ndarray:
    """Return angular momenta [N m s] about the bodies' own COM, ``R I R^T w``.

    Args:
        inertia: (bodies, 3, 3) inertias [kg m^2] in body axes.
        rotation: (..., bodies, 4) quaternions, xyzw.
        spin: (..., bodies, 3) angular velocities [rad/s] in world axes.
    """
    local = rotate(rotation * [-1.0, -1.0, -1.0, 1.0], spin)
    return rotate(rotation, np.einsum("bij,...bj->...bi", inertia, local))


@dataclass
class BodyMechanics:
    """Energy and momentum of all bodies together, one entry per frame."""

    kinetic: np.ndarray
    """Kinetic energy [J]."""
    potential: np.ndarray
    """Potential energy [J] of gravity."""
    linear: np.ndarray
    """(frames, 3) linear momentum [N s]."""
    angular: np.ndarray
    """(frames, 3) angular momentum [N m s] about the common COM."""
    amount: np.ndarray
    """Sum of the sizes of the bodies' momenta [N s]."""
    com: np.ndarray
    """(frames, 3) common COM [m]."""

    @property
    def total(self) -> np.ndarray:
        """Kinetic plus potential energy [J]."""
        return self.kinetic + self.potential


def body_mechanics(model: newton.Model, body_q: np.ndarray, body_qd: np.ndarray) -> BodyMechanics:
    """Return energy and momentum over time.

    Args:
        model: Model of the bodies.
        body_q: (frames, bodies, 7) poses.
        body_qd: (frames, bodies, 6) velocities of the COM, linear first.
    """
    mass, inertia = model.body_mass.numpy().astype(float), model.body_inertia.numpy().astype(float)
    pose, twist = body_q.astype(float), body_qd.astype(float)
    com = pose[..., :3] + rotate(pose[..., 3:], model.body_com.numpy().astype(float))
    speed, spin = twist[..., :3], twist[..., 3:]
    momenta, own = mass[:, None] * speed, spin_momentum(inertia, pose[..., 3:], spin)
    centre = np.einsum("b,fbi->fi", mass, com) / mass.sum()
    return BodyMechanics(
        kinetic=0.5 * (momenta * speed + own * spin).sum(axis=(1, 2)),
        potential=-np.einsum("b,fbi,bi->f", mass, com, gravity(model)),
        linear=momenta.sum(axis=1),
        angular=(own + np.cross(com - centre[:, None], momenta)).sum(axis=1),
        amount=np.linalg.norm(momenta, axis=2).sum(axis=1),
        com=centre,
    )
