"""Benchmarks that validate before they time: scenes, runs of one solver, timing, validation, profile and report.

Importing this package needs nothing beyond Newton, Warp and NumPy; peers are imported when they are asked for.
"""

from .scenes import SCENES, BenchScene, make_scene
from .session import Settings, bench

__all__ = ["SCENES", "BenchScene", "Settings", "bench", "make_scene"]
