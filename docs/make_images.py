"""Draws every picture of README and docs again, each by its own script.

    python docs/make_images.py                     # all of them, some minutes
    python docs/make_images.py gallery how_it_works
    python docs/make_images.py --list              # what there is, and what each part needs

Pictures inside the notebooks are theirs: ``python docs/make_notebooks.py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from make_gallery import commands

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "img"


@dataclass(frozen=True)
class Part:
    """A script and the pictures it draws."""

    script: str
    images: tuple[str, ...]
    needs: str
    arguments: tuple[str, ...] = ()
    display: bool = False
    """Whether it draws with OpenGL, which needs a display or ``xvfb-run``."""


PARTS = {
    "gallery": Part(
        "make_gallery.py",
        tuple(Path(arguments[-1]).name for arguments in commands()),
        "extra viewer; a display, or xvfb-run, which is put in front where there is none",
        display=True,
    ),
    "contact_laws": Part(
        "make_contact_laws.py",
        ("contact_laws_slide.png", "contact_laws_stiction.png", "contact_laws_stiffness.png"),
        "extra plot; minutes",
        ("--pictures",),
    ),
    "how_it_works": Part("make_how_it_works.py", ("how_sap_works.png", "how_sap_converges.png"), "extra plot"),
    "viewer_page": Part("make_viewer_page.py", ("viewer_browser.png",), "extras browser, plot; Chromium or Chrome"),
}


def unmade() -> list[str]:
    """Return the files in ``docs/img`` that no part draws."""
    made = {image for part in PARTS.values() for image in part.images}
    return sorted(path.name for path in IMAGES.iterdir() if path.name not in made)


def draw(name: str) -> None:
    """Run a part and make sure that it has written all of its pictures."""
    part = PARTS[name]
    command = [sys.executable, str(DOCS / part.script), *part.arguments]
    if part.display and sys.platform == "linux" and not os.environ.get("DISPLAY"):
        if shutil.which("xvfb-run") is None:
            raise SystemExit(f"{name} needs a display or xvfb-run")
        command = ["xvfb-run", "-a", *command]
    before = {image: written(image) for image in part.images}
    subprocess.run(command, cwd=DOCS.parent, check=True)
    if left := [image for image in part.images if written(image) == before[image]]:
        raise SystemExit(f"{part.script} has not drawn {', '.join(left)}")


def written(image: str) -> int | None:
    """Return when a picture was written, None if it is not there."""
    path = IMAGES / image
    return path.stat().st_mtime_ns if path.exists() else None


def main() -> None:
    """Draw the parts named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--list", action="store_true", help="say what each part draws and needs, and draw nothing")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}")
    if lonely := unmade():
        raise SystemExit(f"nothing draws {', '.join(lonely)} in {IMAGES}: add a part or delete them")
    for name in chosen.parts or PARTS:
        part = PARTS[name]
        print(f"{name}: {part.script} draws {', '.join(part.images)}; needs {part.needs}", flush=True)
        if not chosen.list:
            draw(name)


if __name__ == "__main__":
    main()
