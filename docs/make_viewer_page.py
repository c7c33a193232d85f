"""Draws the picture of ``viewers.md``: the browser viewer with its curves, as a browser without a window shows it.

    python docs/make_viewer_page.py

Needs the extras ``browser`` and ``plot``, and Chromium (or Chrome); no display and no graphics card. Takes about a minute.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

PICTURE = Path(__file__).parent / "img" / "viewer_browser.png"
PAGE = "http://localhost:8080"
COMMAND = ["run", "basic_urdf", "--viewer", "viser", "--world-count", "4", "--num-frames", "1000000"]
SIZE = (1280, 867)
NEARER = 6
"""Turns of the mouse wheel towards the robots."""
CLOSED = ("Simulation", "Visualization")
"""Folders of the page to close, so that the curves are seen."""
CLICK = """
for (const name of %s)
    for (const node of document.querySelectorAll('div, p, span'))
        if (node.childElementCount <= 1 && node.textContent.trim() === name) { node.click(); break; }
for (const button of document.querySelectorAll('[class*=Notification] button')) button.click();
"""
"""Closes the folders, and the notice that there is no graphics card."""


def browser() -> str:
    """Return the path of the browser."""
    found = [
        path for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (path := shutil.which(name))
    ]
    if not found:
        raise SystemExit("the picture needs Chromium or Chrome, and there is none on the path")
    return found[0]


@contextmanager
def running(command: list[str], **options):
    """Run a program for the time of the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def until(what: str, look, seconds: float = 300.0):
    """Return the first answer of ``look`` that is not None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            answer = look()
        except (URLError, OSError):
            answer = None
        if answer is not None:
            return answer
        time.sleep(0.5)
    raise SystemExit(f"{what} did not come up within {seconds:.0f} s")


def page_socket(profile: Path) -> str:
    """Return the address under which the browser's page takes orders."""
    port = (profile / "DevToolsActivePort").read_text(encoding="utf-8").split()[0]
    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=5) as answer:
        pages = [entry for entry in json.load(answer) if entry["type"] == "page" and entry["url"].startswith(PAGE)]
    return pages[0]["webSocketDebuggerUrl"] if pages else None


def photograph(address: str, wait: float) -> bytes:
    """Let the page run for a while, close the folders and return the picture of what it shows."""
    from websockets.sync.client import connect

    with connect(address, max_size=None, origin=None) as page:

        def ask(number: int, method: str, **parameters):
            """Send an order and return what it answers."""
            page.send(json.dumps({"id": number, "method": method, "params": parameters}))
            while (answer := json.loads(page.recv(timeout=120))).get("id") != number:
                pass
            return answer["result"]

        width, height = SIZE
        ask(1, "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        time.sleep(wait)
        ask(2, "Runtime.evaluate", expression=CLICK % json.dumps(CLOSED))
        for turn in range(NEARER):
            wheel = {"type": "mouseWheel", "x": width // 2, "y": height // 2, "deltaX": 0, "deltaY": -100}
            ask(3 + turn, "Input.dispatchMouseEvent", **wheel)
            time.sleep(0.5)
        time.sleep(3.0)
        return base64.b64decode(ask(3 + NEARER, "Page.captureScreenshot", format="png")["data"])


def store(png: bytes) -> None:
    """Store the picture with 256 colours, which halves it."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(256).save(PICTURE, optimize=True)


def main() -> None:
    """Run the example, open its page, and store what it shows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    about = "seconds to simulate before the picture is taken; later the force settles, and its labels have more digits than fit"
    parser.add_argument("--wait", type=float, default=5.0, help=about)
    wait = parser.parse_args().wait
    program = browser()
    with tempfile.TemporaryDirectory() as profile, running([sys.executable, "-m", "newton_sap.cli", *COMMAND]):
        until("the viewer's page", lambda: urlopen(PAGE, timeout=5).status)
        arguments = ["--headless=new", "--no-sandbox", "--enable-unsafe-swiftshader", "--hide-scrollbars"]
        arguments += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--user-data-dir={profile}", "--remote-debugging-port=0"]
        with running([program, *arguments, PAGE]):
            address = until("the browser", lambda: page_socket(Path(profile)))
            store(photograph(address, wait))


if __name__ == "__main__":
    main()
