"""A word to whoever waits for kernels to compile, which the first run does without a sign of life."""

from __future__ import annotations

from rich.console import Console

TEXT = "newton-sap: setting up; a first run compiles kernels, for about a minute, later runs find them in Warp's cache"


def ask_for_patience() -> None:
    """Say on the error stream, where it mixes with no result, what may take long now."""
    Console(stderr=True, highlight=False).print(TEXT, markup=False, soft_wrap=True)
