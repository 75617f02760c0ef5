"""docs/api.md: current, and its examples run in the kernel of a notebook."""

import importlib.util
import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbclient import NotebookClient

import steptime as st

ROOT = Path(__file__).parents[1]
FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The script that makes the page."""
    found = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_is_what_the_docstrings_say(made: ModuleType) -> None:
    assert (ROOT / "docs" / "api.md").read_text() == made.page(), "run python docs/make_api.py"


def test_the_page_has_every_name_with_an_example(made: ModuleType) -> None:
    told = {name for _, names in made.FUNCTIONS for name in names}
    assert told == set(st.__all__) - {"__version__"}
    assert all(f"st.{name}(" in str(made.examples()) for name in told)


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_its_examples_run_in_a_notebook(made: ModuleType, tmp_path: Path) -> None:
    examples = [("import steptime as st\n", ""), *made.examples()]
    cells = [nbformat.v4.new_code_cell(source) for source, _ in examples]
    # What the interpreter of a notebook does beyond Python's own: it shows results by itself.
    cells.append(nbformat.v4.new_code_cell("st.show('ring', ranks=4)"))
    notebook = nbformat.v4.new_notebook(cells=cells)
    environ = os.environ | {"IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    client = NotebookClient(notebook, timeout=500, kernel_name="python3")
    client.execute(cwd=str(tmp_path), env=environ)
    for cell, (source, want) in zip(notebook.cells, examples, strict=False):
        assert OutputChecker().check_output(want, _told(cell), FLAGS), (source, _told(cell))
    (shown,) = notebook.cells[-1].outputs
    assert "<iframe" in shown.data["text/html"]
    assert "all_reduce ring" in shown.data["text/plain"]


def _told(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and what it gives."""
    parts = [one.get("text") or one.data["text/plain"] + "\n" for one in cell.outputs]
    return "".join(parts)
