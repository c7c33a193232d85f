"""A word to whoever waits for kernels to compile, which the first run does without a sign of life."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

TEXT = "still setting up: a first run compiles kernels, for about a minute; later runs find them in Warp's cache"


@contextmanager
def patience(seconds: float = 8.0) -> Iterator[Callable[[], None]]:
    """Say on the error stream that kernels are compiled, unless the body ends or calls what it is given within the time."""
    timer = Timer(seconds, Console(stderr=True, highlight=False).print, [TEXT])
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()
