"""Hunt & Crossley's normal law over a step, for the lagged and the similar contact models of the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class HuntCrossley:
    """Hunt & Crossley's normal impulse over a step as a function of the separation velocity ``v`` [m/s].

    ``n(v) = dt (fe0 - dt k v)+ (1 - d v)+``, its slope, and a potential ``N`` with ``N' = n``.
    """

    fe0: float
    """Elastic force at the start of the step [N], negative while the contact is open."""
    k: float
    d: float
    dt: float
    parting: float | None = None
    """Dissipation [s/m] where ``v > 0``; None for ``d``."""

    def _d(self, v):
        return self.d if v <= 0.0 or self.parting is None else self.parting

    def release(self):
        """Velocity from which on there is no force."""
        by_spring = self.fe0 / (self.dt * self.k) if self.k > 0.0 else math.copysign(math.inf, self.fe0)
        return min(by_spring, 1.0 / self._d(1.0) if self._d(1.0) > 0.0 else math.inf)

    def impulse(self, v):
        """``n(v)`` [N s]."""
        return self.dt * max(self.fe0 - self.dt * self.k * v, 0.0) * max(1.0 - self._d(v) * v, 0.0)

    def slope(self, v):
        """``n'(v)`` [kg], never positive."""
        if v >= self.release():
            return 0.0
        d = self._d(v)
        return -self.dt * (self.k * self.dt * (1.0 - d * v) + d * (self.fe0 - self.dt * self.k * v))

    def potential(self, v):
        """``N(v)`` [J], zero beyond the release velocity: the integral of the quadratic ``n``."""
        end = self.release()
        return self._integral(min(v, end)) - (self._integral(end) if math.isfinite(end) else 0.0)

    def _integral(self, v):
        """From 0 to ``v``, where either dissipation begins."""
        d = self._d(v)
        a, b, c = self.fe0, -(self.dt * self.k + d * self.fe0), d * self.dt * self.k
        return self.dt * (a * v + b * v**2 / 2.0 + c * v**3 / 3.0)
