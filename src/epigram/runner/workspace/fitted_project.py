"""A project that trains the model of `epigram fit` again."""

from __future__ import annotations

from pathlib import Path

from epigram.core.settings import REQUIRED
from epigram.data.sources.add import add_source
from epigram.data.sources.source import SOURCES
from epigram.fitting.record import FitRecord
from epigram.runner.project.files import commit, create
from epigram.runner.workspace.settings import edited, load

EXAMPLE = "local.yaml"  # explains the lines of the descriptions that epigram writes


def create_project(folder: str | Path, *, model: str | Path, data: str | Path) -> Path:
    """Create a project whose `dvc repro` trains the saved `model` of a fit again: the same weights on the same machine.

    `data` is the file with the texts of the fit, the project's only data set. Returns the folder. Raises ParameterError
    for a folder that is not empty or a model that no fit has made, DataError if the file has other texts, labels or
    splits.
    """
    root, table, saved = Path(folder), Path(data), Path(model)
    record = FitRecord.of(saved)
    record.check_texts(saved, table)

    def fill(project: Path) -> None:
        for path in (project / SOURCES).glob("*.yaml"):
            if path.name != EXAMPLE:
                path.unlink()
        add_source(table, name=str(record.params["dataset"]), root=project, **record.reading(table))
        with edited(project / "params.yaml") as params:
            for section, values in record.params.items():
                whole = section in (*REQUIRED, "metric")
                params[section] = values if whole else {**(params.get(section) or {}), **values}
        load(project / "params.yaml")
        commit(project, f"Train the model of a fit of {table.name}")

    create(root, fill)
    return root
