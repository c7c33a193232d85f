"""Materials of shapes, in NumPy, and the rule that combines those of a pair (formulation 2.2)."""

from __future__ import annotations

import newton
import numpy as np

from .convex import rigid_delay

RIGID = 1.0e30
"""Stiffness [N/m] beyond what any step resolves."""


def _imported(a, b):
    """(2, shapes) stiffness and damping that Newton's importers make of two columns of ``solref``; NaN where there is none."""
    out = np.full((2, len(a)), np.nan)
    timed, direct = (a > 0.0) & (b > 0.0), (a < 0.0) & (b < 0.0)
    out[:, timed] = 1.0 / (a[timed] * b[timed]) ** 2, 2.0 / a[timed]
    out[:, direct] = -a[direct], -b[direct]
    return out


class Materials:
    """Per-shape stiffness, relaxation time and friction, and the rule that combines two of them."""

    def __init__(self, model, options):
        self.rule = options.material_rule
        self.k, kd, self.mu = (getattr(model, f"shape_material_{n}").numpy().astype(float) for n in ("ke", "kd", "mu"))
        self.tau = np.divide(kd, self.k, out=np.zeros_like(kd), where=self.k > 0.0)
        default = newton.ModelBuilder.ShapeConfig()
        self.unset = (self.k == default.ke) & (kd == default.kd)
        if (solref := getattr(getattr(model, "mujoco", None), "solref", None)) is not None:
            self.unset |= np.all(np.isclose((self.k, kd), _imported(*solref.numpy().astype(float).T), atol=0.0), axis=0)
        self.unset &= options.unset_materials == "rigid"
        self.e = model.shape_material_restitution.numpy().astype(float)
        self.spin = [getattr(model, f"shape_material_mu_{n}").numpy().astype(float) for n in ("torsional", "rolling")]
        self.d = np.full(len(self.k), options.hunt_crossley_dissipation)
        own = getattr(getattr(model, "sap", None), "hunt_crossley_dissipation", None)
        if own is not None:
            self.d = np.where(own.numpy() >= 0.0, own.numpy().astype(float), self.d)
        own = getattr(getattr(model, "sap", None), "relaxation_time", None)
        if own is not None:
            own = own.numpy().astype(float)
            self.tau = np.where(own >= 0.0, own, self.tau)
            self.unset &= own < 0.0
        of_file, shapes = getattr(model, "mujoco", None), np.zeros(len(self.k), dtype=int)
        self.condim, self.priority = (
            shapes if (own := getattr(of_file, name, None)) is None else own.numpy()
            for name in ("condim", "geom_priority")
        )

    def pair(self, a, b, dt):
        """Return stiffness [N/m], relaxation time [s], friction [-] and the two bodies' weights of the contact point."""
        ka, kb, mu_a, mu_b = self.k[a], self.k[b], self.mu[a], self.mu[b]
        total = ka + kb
        weights = (ka / total, kb / total) if total > 0.0 else (0.5, 0.5)
        if self.rule == "newton":
            k, tau = 0.5 * total, weights[0] * self.tau[a] + weights[1] * self.tau[b]
            mu = self._mean_friction(self.mu, a, b)
        else:
            k, tau = weights[0] * kb, self.tau[a] + self.tau[b]
            mu = 2.0 * mu_a * mu_b / (mu_a + mu_b) if mu_a + mu_b > 0.0 else 0.0
        if self.unset[a] and self.unset[b]:  # as stiff as the step resolves, critically damped
            k, tau = RIGID, rigid_delay(dt)
        return k, tau, mu, weights

    def restitution(self, a, b):
        """Return the coefficient of restitution of a pair [-]."""
        return 0.5 * (self.e[a] + self.e[b])

    def spin_friction(self, a, b):
        """Return the coefficients of torsional and rolling friction of a pair [m]."""
        mean = self._mean_friction if self.rule == "newton" else lambda mu, a, b: 0.5 * (mu[a] + mu[b])
        return tuple(mean(mu, a, b) for mu in self.spin)

    def _mean_friction(self, mu, a, b):
        """Return the mean coefficient of those of two shapes that no other goes before; none where contacts are 1D."""
        count = [s for s in (a, b) if self.priority[s] == max(self.priority[[a, b]])]
        return 0.0 if max(self.condim[count]) == 1 else np.mean(mu[count])

    def dissipation(self, a, b):
        """Return Hunt & Crossley's dissipation of a pair [s/m]; the softer body, which deforms more, counts more."""
        total = self.k[a] + self.k[b]
        weight = self.k[a] / total if total > 0.0 else 0.5
        return (1.0 - weight) * self.d[a] + weight * self.d[b]


def override_material(k, tau, mu, optional, i):
    """Let stiffness and damping of a contact replace the pair's, and its friction multiply it, where given."""
    names = ("stiffness", "damping", "friction")
    stiffness, damping, friction = (0.0 if optional[n] is None else optional[n][i] for n in names)
    k = stiffness if stiffness > 0.0 else k
    tau = damping / k if damping > 0.0 and 0.0 < k < RIGID else tau
    return k, tau, mu * friction if friction > 0.0 else mu
