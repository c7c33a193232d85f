"""The ``run`` command line; the work is in :mod:`.run_command`, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shell import Device, Keywords, Preset, usage_error


def run(
    name: Annotated[str, typer.Argument(help="Example, as in: python -m newton.examples NAME")],
    extra: Annotated[list[str] | None, typer.Argument(help="After --: arguments for the example itself.")] = None,
    solver: Annotated[str, typer.Option(help="Solver to use; 'original' keeps the example's own.")] = "sap",
    viewer: Annotated[str, typer.Option(help="null, gl, viser, usd or rerun.")] = "null",
    num_frames: Annotated[
        int | None, typer.Option(min=1, help="Frames; else the example's own, in a window no end.")
    ] = None,
    world_count: Annotated[int | None, typer.Option(min=1, help="Worlds, where the example has the option.")] = None,
    device: Device = None,
    preset: Preset = None,
    option: Keywords = None,
    eager: Annotated[bool, typer.Option("--eager", help="Never replay a recorded graph.")] = False,
    test: Annotated[bool, typer.Option("--test", help="Apply the example's own checks.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show compilation and tracebacks.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write the result as JSON.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the last frame to this PNG, without a window.")] = None,
) -> None:
    """Run a bundled Newton example with another solver in place of its own.

    Examples: newton-sap run basic_pendulum --test; newton-sap run basic_urdf --viewer gl --world-count 4
    """
    from .run_command import run_command
    from .usage import UsageError

    try:
        code = run_command(
            name,
            solver=solver,
            viewer=viewer,
            num_frames=num_frames,
            world_count=world_count,
            device=device,
            preset=preset,
            option=option or [],
            eager=eager,
            test=test,
            verbose=verbose,
            output=output,
            picture=picture,
            extra=extra or [],
        )
    except UsageError as error:
        raise usage_error(str(error)) from error
    raise typer.Exit(code)
