"""The notebooks of docs/notebooks run from their first cell to their last, and are stored without outputs."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs/notebooks"
ERROR = r"(negative|positive) \d\.\d\d: .+\n    .+\n"
PRINTED = {
    "start": r"\w+ \['negative', 'positive'\]\n.+\n\d+ of 200 new texts are right\n"
    r"\['reviews', 'reviews.html', 'reviews.learning_curve.json', .+\]\n"
    r"positive\n",
    "improve": rf"\w+: 0\.\d\d\n({ERROR}){{3}}100 labels: 0\.\d\d\n200 labels: 0\.\d\d\n",
}
WITHOUT_ENCODER = """
from epigram.fitting import estimates
estimates.installed_encoder = lambda language: None  # with one, each fit takes half a minute
"""
BOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs_and_no_paths_of_a_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    book = nbformat.reads(text, as_version=4)
    nbformat.validate(book)
    assert [cell for cell in book.cells if cell.get("outputs") or cell.get("execution_count")] == []
    assert not re.search(r"/(home|root|work|tmp|Users)/", text)
    for link in re.findall(r"\]\(([^):#]+)\)", text):
        assert (FOLDER / link).is_file(), link


@pytest.mark.slow
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    book = nbformat.read(path, as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell(WITHOUT_ENCODER))
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"] == []
    assert re.fullmatch(PRINTED[path.stem], "".join(output.get("text", "") for output in outputs))
