"""Timing of runs in turns: how many steps a measurement takes, and the time of each."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .scenes import RENEWAL


@dataclass(frozen=True)
class Region:
    """How long one measurement lasts."""

    seconds: float = 0.5
    """It takes at least this long,"""
    steps: int = 200
    """has at least this many steps,"""
    at_most: float = 1.5
    """unless it would take longer than this [s]."""


def steps_for(run, mode: str, region: Region) -> int:
    """Return how many steps a measurement of a run has, a multiple of ``RENEWAL``."""
    run.rewind()
    steps = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < 0.2 * region.seconds or steps == 0:
        run.advance(RENEWAL, mode)
        steps += RENEWAL
    each = elapsed / steps
    wanted = max(region.steps, region.seconds / each)
    return RENEWAL * max(1, round(min(wanted, region.at_most / each) / RENEWAL))


def time_steps(run, mode: str, steps: int) -> float:
    """Return the wall time per step [s] of one measurement from the marked state."""
    run.rewind()
    begin = time.perf_counter()
    run.advance(steps, mode)
    return (time.perf_counter() - begin) / steps


def time_collisions(run, mode: str, seconds: float = 0.1) -> float | None:
    """Return the wall time [s] of the collision detection that belongs to one step, None where it has none."""
    run.rewind()
    times = []
    spent = 0.0
    while spent < seconds:
        begin = time.perf_counter()
        if not run.collide_often(RENEWAL, mode):
            return None
        elapsed = time.perf_counter() - begin
        spent += elapsed
        times.append(elapsed / RENEWAL)
    return float(np.median(times))


def alternate(runs: dict[tuple, tuple], repeats: int) -> dict[tuple, list[float]]:
    """Time every run ``repeats`` times, all of them in turn, so that a slow minute of the machine meets all.

    Args:
        runs: ``(run, mode, steps)`` by key.
        repeats: Rounds.

    Returns:
        Time per step [s] of every round by key.
    """
    times: dict[tuple, list[float]] = {key: [] for key in runs}
    for _ in range(repeats):
        for key, (run, mode, steps) in runs.items():
            times[key].append(time_steps(run, mode, steps))
    return times


def quartiles(values) -> tuple[float, float, float]:
    """Return median, lower and upper quartile."""
    low, middle, high = np.percentile(np.asarray(values, dtype=float), [25, 50, 75])
    return float(middle), float(low), float(high)
