"""The ``compare`` command line; the work is in :mod:`.compare_command`, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shell import Device, forward_only, usage_error


def compare(
    scene: Annotated[str, typer.Argument(help="Scene of newton_sap.scenes, such as quadruped or free_body.")],
    solvers: Annotated[
        str, typer.Option(help="Solvers with commas; NAME/16 divides the time step by 16.")
    ] = "sap,mujoco,featherstone,xpbd",
    output: Annotated[Path | None, typer.Option(help="Folder for the JSON, Markdown and HTML reports.")] = None,
    num_frames: Annotated[int | None, typer.Option(min=1, help="Frames to simulate, 60 per second.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Keyword of a solver, as solver.name=value.")] = None,
    reference: Annotated[bool, typer.Option(help="Compare with SAP at a 16 times smaller step.")] = True,
    device: Device = None,
) -> None:
    """Run one scene under several solvers; exit code 1 if one gave no result or SAP's run was not healthy.

    Scenes: box_on_incline, box_stack, free_body, gripper_cube, loaded_chain, pendulum_cart, quadruped, sphere.

    Examples: newton-sap compare quadruped --output report; newton-sap compare free_body --solvers sap,featherstone/16
    """
    forward_only()
    from ..compare import SceneNotFoundError, SpecificationError
    from ..registry import SolverNotFoundError
    from .compare_command import compare_command
    from .usage import UsageError

    try:
        code = compare_command(scene, solvers, output, num_frames, option or [], reference, device)
    except (SceneNotFoundError, SolverNotFoundError, SpecificationError, UsageError) as error:
        raise usage_error(str(error)) from error
    raise typer.Exit(code)
