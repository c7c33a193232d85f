"""The notebooks in ``docs/notebooks`` run from top to bottom, and hold no more than a reader needs."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture
def maker(monkeypatch):
    """The script that runs the notebooks; skips where the extra ``docs`` is not installed."""
    for module in ("nbformat", "nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(module)
    monkeypatch.syspath_prepend(str(DOCS))
    import make_notebooks

    return make_notebooks


def test_notebooks_are_found():
    """The folder holds the three notebooks."""
    assert {path.stem for path in NOTEBOOKS} >= {"first_steps", "compare_solvers", "inside_a_contact"}


@pytest.mark.filterwarnings("default")  # of what runs a notebook; those inside of it are errors
@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_notebook_runs(name, maker, tmp_path):
    """Every cell of a notebook runs, what it asserts is true, and it draws or prints something."""
    pytest.importorskip("mujoco_warp" if name == "compare_solvers" else "numpy")
    notebook = maker.execute(name, tmp_path)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert "image/png" in kinds
    assert any(output.get("name") == "stdout" for output in outputs)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import warnings; warnings.warn('old')", "UserWarning"),
        (
            "import newton_sap, warnings; warnings.warn_explicit('old', DeprecationWarning, 'f', 1, 'newton_sap.a')",
            "old",
        ),
        ("assert False, 'wrong'", "wrong"),
    ],
)
def test_a_notebook_that_fails_is_seen(source, error, maker, tmp_path, monkeypatch):
    """A warning of the notebook or of this package, and an assertion that does not hold, end the run with an error."""
    import nbformat
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(notebook, tmp_path / "bad.ipynb")
    monkeypatch.setattr(maker, "FOLDER", tmp_path)
    with pytest.raises(CellExecutionError, match=error):
        maker.execute("bad", tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_small_and_clean(path):
    """A notebook is stored with outputs for the site: no error, no message of the machine, less than 100 KiB."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 100 * 1024
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert outputs, "python docs/make_notebooks.py stores them"
    for output in outputs:
        assert output["output_type"] != "error" and output.get("name") != "stderr"
        seen = {kind: text for kind, text in output.get("data", {}).items() if kind != "image/png"}
        words = json.dumps([output.get("text", []), seen])
        assert not re.search(r"site-packages|/(?:root|home|work|tmp|Users)/", words), words
