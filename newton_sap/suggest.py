"""The end of an error message about a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: object, known: Iterable[object], most: int = 1) -> str:
    """Return ``"; did you mean 'x'?"`` with the nearest of the known names, or an empty string if none is near."""
    close = get_close_matches(str(name), [str(candidate) for candidate in known], n=most)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
