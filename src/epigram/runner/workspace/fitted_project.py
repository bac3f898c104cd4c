"""A project that trains the model of `epigram fit` again."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.config_types import validate_as
from epigram.core.errors import DataError
from epigram.core.settings import REQUIRED
from epigram.data.sources.add import add_source
from epigram.data.validation.settings import ValidateSettings
from epigram.fitting.inputs import write_raw
from epigram.fitting.record import FitRecord
from epigram.models.manifest import read_provenance
from epigram.runner.project.files import commit, create
from epigram.runner.workspace.settings import edited, load
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.workflow.validate import validate_corpus


def create_project(folder: str | Path, *, model: str | Path, data: str | Path) -> Path:
    """Create a project whose `dvc repro` trains the saved `model` of a fit again: the same weights on the same machine.

    `data` is the file with the texts of the fit. Returns the folder. Raises ParameterError for a folder that is not
    empty or a model that no fit has made, DataError if the file has other texts, labels or splits.
    """
    root, table, saved = Path(folder), Path(data), Path(model)
    record = FitRecord.read(saved)
    _check_texts(record, saved, table)

    def fill(project: Path) -> None:
        name, language = record.params["dataset"], record.language
        add_source(table, name=name, text=record.text, label=record.label, language=language, root=project)
        with edited(project / "params.yaml") as params:
            for section, values in record.params.items():
                params[section] = values if section in REQUIRED else {**(params.get(section) or {}), **values}
        load(project / "params.yaml")
        commit(project, f"Train the model of a fit of {table.name}")

    create(root, fill)
    return root


def _check_texts(record: FitRecord, model: Path, data: Path) -> None:
    """Raise DataError if validation of `data` gives other rows than the `model` was trained and evaluated on."""
    with TemporaryDirectory() as place, redirect_stdout(StringIO()):
        raw, validated = Path(place, "raw"), Path(place, "validated")
        write_raw(data, None, text=record.text, label=record.label, language=record.language, folder=raw)
        validate_corpus(validate_as(ValidateSettings, record.params["validate"], "validate"), raw, validated)
        found = ValidatedCorpus.read(validated).digest()
    if found != read_provenance(model).get("rows"):
        raise DataError(
            f"{data} has other texts, labels or splits than {model} was trained on; expected the file of the fit"
        )
