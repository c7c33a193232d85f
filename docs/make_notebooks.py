"""Runs the notebooks in ``docs/notebooks`` and stores their outputs, which the site shows.

    python docs/make_notebooks.py                  # all of them, about a minute
    python docs/make_notebooks.py first_steps      # some of them

Needs the extra ``docs``. Run it when a notebook or what it shows has changed; the tests run the notebooks without storing
anything.
"""

from __future__ import annotations

import argparse
from pathlib import Path

FOLDER = Path(__file__).parent / "notebooks"
QUIET = "ipykernel|IPython|jupyter_client|jupyter_core|traitlets|tornado|zmq|asyncio|matplotlib_inline|comm"
STRICT = f"""
import warnings
warnings.simplefilter('error')
warnings.filterwarnings('ignore', module=r'({QUIET})')
warnings.filterwarnings('ignore', 'Support for Python 3.10 is deprecated')
"""
"""Runs before a notebook: its warnings are errors, those of the machinery that runs it are not."""


def names() -> list[str]:
    """Return the names of the notebooks."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def execute(name: str, folder: Path, timeout: float = 600.0):
    """Run a notebook in a new kernel and a folder of its own, and return it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=resources).execute()
    del notebook.cells[0]
    return notebook


def tidy(notebook) -> None:
    """Keep what a reader wants to see: neither times nor messages of the machine, nor the text form of a table."""
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.metadata.pop("execution", None)
        cell.execution_count = count
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
            if "text/html" in output.get("data", {}):
                output.data.pop("text/plain", None)
    notebook.metadata["language_info"] = {"name": "python"}


def main() -> None:
    """Run the notebooks named on the command line, or all, and store them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help=f"some of: {', '.join(names())}; all if none is named")
    chosen = parser.parse_args().notebooks or names()
    if unknown := [name for name in chosen if name not in names()]:
        parser.error(f"no notebook {', '.join(unknown)}")
    import tempfile

    import nbformat

    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(name, Path(folder))
        tidy(notebook)
        path = FOLDER / f"{name}.ipynb"
        path.write_text(nbformat.writes(notebook, indent=1) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
