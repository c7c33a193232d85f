"""The command tree of ``newton-sap``: commands, their options and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from .. import __version__
from .bench import bench
from .compare import compare

app = typer.Typer(
    help="SAP contact solver for the Newton physics engine. Exit codes: 0 done, 1 a check failed, 2 usage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_complaints = Console(stderr=True, highlight=False)


def forward_only() -> None:
    """Let Newton's kernels compile without adjoints, in a third of the time: for commands that take no gradients.

    Called before Newton is imported; later it changes nothing.
    """
    import warp as wp

    wp.config.enable_backward = False


def usage_error(message: str) -> typer.Exit:
    """Print what is wrong with the command and return the exit to raise."""
    _complaints.print(f"newton-sap: {message}", markup=False, soft_wrap=True)
    return typer.Exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Example, as in: python -m newton.examples NAME")],
    extra: Annotated[Optional[list[str]], typer.Argument(help="After --: arguments for the example itself.")] = None,  # noqa: UP045
    solver: Annotated[str, typer.Option(help="Solver to use; 'original' keeps the example's own.")] = "sap",
    viewer: Annotated[str, typer.Option(help="null, gl, viser, usd or rerun.")] = "null",
    num_frames: Annotated[Optional[int], typer.Option(min=1, help="Frames; else 100, in a window no end.")] = None,  # noqa: UP045
    world_count: Annotated[Optional[int], typer.Option(min=1, help="Worlds, where the example has the option.")] = None,  # noqa: UP045
    device: Annotated[Optional[str], typer.Option(help="Warp device, such as cpu or cuda:0.")] = None,  # noqa: UP045
    preset: Annotated[Optional[str], typer.Option(help="Preset of the solver, such as drake.")] = None,  # noqa: UP045
    option: Annotated[Optional[list[str]], typer.Option(help="Keyword of the solver, as name=value.")] = None,  # noqa: UP045
    eager: Annotated[bool, typer.Option("--eager", help="Never replay a recorded graph.")] = False,
    test: Annotated[bool, typer.Option("--test", help="Apply the example's own checks.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show compilation and tracebacks.")] = False,
    output: Annotated[Optional[Path], typer.Option(help="Write the result as JSON.")] = None,  # noqa: UP045
    picture: Annotated[Optional[Path], typer.Option(help="Draw the last frame to this PNG, without a window.")] = None,  # noqa: UP045
) -> None:
    """Run a bundled Newton example with another solver in place of its own.

    Examples: newton-sap run basic_pendulum --test; newton-sap run basic_urdf --viewer gl --world-count 4
    """
    from .run import run_command
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


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the picture, demo.png.")] = Path("newton-sap-demo"),
    num_frames: Annotated[int, typer.Option(min=2, help="Frames to simulate, 60 per second.")] = 120,
) -> None:
    """Stand one robot on the ground with SAP, Featherstone and MuJoCo, and compare what they do."""
    forward_only()
    from .demo import demo_command
    from .usage import UsageError

    try:
        code = demo_command(output, num_frames)
    except ImportError as error:
        raise usage_error(f"the demonstration needs {error.name}: pip install 'newton-sap[demo]'") from error
    except UsageError as error:
        raise usage_error(str(error)) from error
    raise typer.Exit(code)


@app.command()
def solvers(
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the traceback of a broken plugin.")] = False,
) -> None:
    """List the installed solvers, Newton's own and plugins, and say which one is broken."""
    from .solvers import solvers_command

    raise typer.Exit(solvers_command(verbose))


app.command()(bench)
app.command()(compare)
