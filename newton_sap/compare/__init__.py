"""One scene under several solvers: how fast each is, how well it keeps to mechanics, and what theory predicts.

``compare("quadruped", ["sap", "mujoco"])`` returns a :class:`Comparison`; it prints nothing. The command
``newton-sap compare`` is a thin layer over it.
"""

from .contestants import Contestant, SpecificationError, parse_contestant
from .measures import METRICS, Metric
from .record import Recording
from .session import Comparison, Outcome, SceneNotFoundError, Settings, compare
from .theory import Prediction

__all__ = [
    "METRICS",
    "Comparison",
    "Contestant",
    "Metric",
    "Outcome",
    "Prediction",
    "Recording",
    "SceneNotFoundError",
    "Settings",
    "SpecificationError",
    "compare",
    "parse_contestant",
]
