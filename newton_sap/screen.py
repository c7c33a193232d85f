"""A loop of one's own in any of Newton's viewers: what the scripts in ``examples/`` show themselves with."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from typing import Any

import newton
import numpy as np

from .suggest import absent_device

VIEWERS = {
    "null": None,
    "gl": ("pyglet", "newton-sap[viewer]"),
    "viser": ("viser", "newton-sap[browser]"),
    "usd": ("pxr", "newton-sap[importers]"),
    "rerun": ("rerun", "rerun-sdk"),
}
"""Newton's viewers, with the module each needs and what to install for it."""

WITHOUT_DISPLAY = "run it under xvfb-run -a, or take --viewer viser, rerun, usd or null"
"""What works on a machine without a display."""


def open_viewer(parser: ArgumentParser) -> tuple[Any, Namespace]:
    """Return the viewer that the command line asks for, and its arguments, as ``newton.examples.init`` does.

    Where that viewer cannot show anything, or the device is not there, the program ends with code 2 and one line that says why.
    """
    import newton.examples

    args = parser.parse_args()
    reason = obstacle(args.viewer) if args.benchmark is False else ""  # which shows nothing, whatever the viewer
    if reason:
        parser.exit(2, f"{parser.prog}: --viewer {args.viewer} {reason}\n")
    if absent := absent_device(args.device):
        parser.exit(2, f"{parser.prog}: {absent}\n")
    return newton.examples.init(parser)


def obstacle(viewer: str, without_display: str = WITHOUT_DISPLAY) -> str:
    """Return what keeps a viewer from showing anything here, and the remedy, given for want of a display; empty if nothing does."""
    module, package = VIEWERS.get(viewer) or ("", "")
    if module and find_spec(module) is None:
        return f"needs {module}: pip install {package!r}"
    if viewer != "gl":
        return ""
    from pyglet.display import get_display

    try:
        get_display()
    except Exception as error:  # pyglet names the failure differently on every platform
        return f"draws with OpenGL, which needs a display, and none was found ({error}); {without_display}"
    return ""


class Screen:
    """Shows the frames of a simulation: at their own pace and until it is closed where somebody watches, else as they come.

    Args:
        viewer: One of Newton's viewers, or None to show nothing.
        model: What is simulated.
        eye: Where the camera stands [m].
        target: Where it looks [m].
        spacing: Distance between worlds [m].
    """

    def __init__(self, viewer: Any, model: newton.Model, *, eye, target, spacing=None):
        self.viewer = viewer
        self.time = 0.0
        self.began = None
        if viewer is None:
            return
        viewer.set_model(model)
        if spacing is not None:
            viewer.set_world_offsets(spacing)
        viewer.set_camera(eye, *angles(eye, target))

    @property
    def watched(self) -> bool:
        """Whether the viewer runs until somebody closes it."""
        silent = (newton.viewer.ViewerNull, newton.viewer.ViewerUSD, newton.viewer.ViewerFile)
        headless = getattr(self.viewer, "_headless", False)  # Newton's own loop has no other sign of it either
        return self.viewer is not None and not isinstance(self.viewer, silent) and not headless

    def show(self, state: newton.State, now: float) -> None:
        """Draw a state at its time [s]; in a window not before that time has passed, and again while it is paused."""
        if self.viewer is None or (self.watched and not self.viewer.is_running()):
            return
        if self.watched:
            self.began = time.perf_counter() - now if self.began is None else self.began
            time.sleep(max(0.0, self.began + now - time.perf_counter()))
        self.time = now
        self.viewer.begin_frame(now)
        self.viewer.log_state(state)
        self.viewer.end_frame()
        while self.watched and self.viewer.is_running() and not self.viewer.should_step():
            self._again()
            self.began += REST

    def stay(self) -> None:
        """Keep the last frame in a window until it is closed, and let every viewer finish."""
        if self.viewer is None:
            return
        while self.watched and self.viewer.is_running():
            self._again()
        self.viewer.close()

    def _again(self) -> None:
        """Draw what is there once more, after a rest."""
        time.sleep(REST)
        self.viewer.begin_frame(self.time)
        self.viewer.end_frame()


REST = 1.0 / 60.0
"""Between frames that show nothing new [s]."""


def angles(eye, target) -> tuple[float, float]:
    """Return pitch and yaw [deg] of a camera that looks from one place at another."""
    x, y, z = np.subtract(target, eye)
    return math.degrees(math.atan2(z, math.hypot(x, y))), math.degrees(math.atan2(y, x))
