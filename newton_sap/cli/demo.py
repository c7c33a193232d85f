"""The ``demo`` command line; the work is in :mod:`.demo_command`, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shell import forward_only, usage_error


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the picture, demo.png.")] = Path("newton-sap-demo"),
    num_frames: Annotated[int, typer.Option(min=2, help="Frames to simulate, 60 per second.")] = 120,
) -> None:
    """Stand one robot on the ground with SAP, Featherstone and MuJoCo, and compare what they do."""
    forward_only()
    from .demo_command import demo_command
    from .usage import UsageError

    try:
        code = demo_command(output, num_frames)
    except ImportError as error:
        raise usage_error(f"the demonstration needs {error.name}: pip install 'newton-sap[demo]'") from error
    except UsageError as error:
        raise usage_error(str(error)) from error
    raise typer.Exit(code)
