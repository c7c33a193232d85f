"""The ``bench`` command line; the work is in :mod:`.bench_command`, imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shell import Device, Keywords, Preset, usage_error


def bench(
    scenes: Annotated[list[str] | None, typer.Argument(help="Scenes; all of them if none is named.")] = None,
    solver: Annotated[str, typer.Option(help="Solver to measure: a registered name, mujoco_c or drake.")] = "sap",
    worlds: Annotated[str, typer.Option(help="Batch sizes, with commas.")] = "1,16,128",
    vs: Annotated[list[str] | None, typer.Option(help="Peers to alternate with; repeat or use commas.")] = None,
    eager: Annotated[bool, typer.Option("--eager", help="Only eager steps; without either flag both.")] = False,
    captured: Annotated[bool, typer.Option("--captured", help="Only captured graphs.")] = False,
    device: Device = None,
    preset: Preset = None,
    option: Keywords = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measurements of each row.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.001, help="Shortest measurement, in seconds.")] = 0.5,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of every measurement, not --seconds.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Show where a step's time goes.")] = False,
    accuracy: Annotated[bool, typer.Option(help="Compare a short run with SAP at a 16 times smaller step.")] = True,
    gap: Annotated[float, typer.Option(min=0.0, help="Gap of each shape in metres; Newton's default is 0.1.")] = 0.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything as JSON.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")] = None,
) -> None:
    """Time solvers on validated scenes, with accuracy beside every time; exit code 1 if a row failed.

    Scenes: cartpole, sphere, box, boxes10, spheres32, gripper, ant, ant_active,
    humanoid, humanoid_active, quadruped, quadruped_active, pile32, pile128, pile512, pile1024. Piles run only if named.

    Examples: newton-sap bench ant humanoid --vs mujoco; newton-sap bench ant --worlds 128 --captured --profile
    """
    from .bench_command import bench_command
    from .usage import UsageError

    try:
        code = bench_command(
            scenes or [],
            solver=solver,
            worlds=worlds,
            peers=vs or [],
            eager=eager,
            captured=captured,
            device=device,
            preset=preset,
            options=option or [],
            repeats=repeats,
            seconds=seconds,
            steps=steps,
            profile=profile,
            accuracy=accuracy,
            gap=gap,
            json_file=json_file,
            markdown_file=markdown_file,
        )
    except UsageError as error:
        raise usage_error(str(error)) from error
    raise typer.Exit(code)
