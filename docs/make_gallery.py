"""Draw the gallery of the README again, by its own commands, and shrink the pictures to what the page shows.

Needs the extra ``viewer`` and a display; without one: ``xvfb-run -a python docs/make_gallery.py``.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 640


def commands() -> list[list[str]]:
    """The README's commands that draw a picture, as arguments of ``newton-sap``, with the path that the README shows it from."""
    lines = re.findall(r"newton-sap (run [^`]*--picture )(\w+\.png)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    return [[*shlex.split(line), f"docs/img/gallery_{name}"] for line, name in lines]


def main() -> None:
    """Run every command, then shrink its picture."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    from PIL import Image

    for arguments in commands():
        subprocess.run([sys.executable, "-m", "newton_sap.cli", *arguments], cwd=ROOT, check=True)
        path = ROOT / arguments[-1]
        with Image.open(path) as picture:
            height = round(WIDTH * picture.height / picture.width)
            small = picture.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
        small.save(path, optimize=True)


if __name__ == "__main__":
    main()
