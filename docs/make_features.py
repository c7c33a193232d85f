"""Writes ``features.md`` from the table in ``tests/features.py``.

python docs/make_features.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from features import FEATURES, PEERS  # noqa: E402

HEADER = """# Features

What a Newton model may contain and which solver simulates it. The column of SolverSAP comes from its tests: the last
column names the one that shows the claim, in `tests/`. The other columns describe Newton 1.8, "?" where we have not tried. "no" in the
column of SolverSAP comes with the exception that says so at construction, or with what happens instead.

This file is made by `python docs/make_features.py` from `tests/features.py`.
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEADER]
    for section, rows in FEATURES.items():
        names = ("feature", "SAP", *PEERS, "remark", "test")
        lines = [f"## {section}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        for row in rows:
            peers = [row.peer(i) for i in range(len(PEERS))]
            lines.append("| " + " | ".join([row.name, f"**{row.sap}**", *peers, row.note, f"`{row.test}`"]) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    (ROOT / "docs" / "features.md").write_text(page(), encoding="utf-8")
