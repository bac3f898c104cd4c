"""The result of a fit: the chosen model with its report."""

from __future__ import annotations

import shlex
import shutil
import webbrowser
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import write_text
from epigram.data.sources.source import read_source
from epigram.evaluation.quality.data_quality import FILES
from epigram.evaluation.records.summary import Summary
from epigram.fitting.steps import Steps
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.inference.predictors.explanation import Explanation

PREFIX = "epigram-fit-"  # the name of a temporary folder begins so


def check_target(folder: Path) -> Path:
    """Return the file of the report of a model that is saved as `folder`.

    Raises ParameterError if the folder, the report or a file of the report exists, or if no folder can contain them.
    """
    report = folder.with_name(f"{folder.name}.html")
    for path in (folder, report, *(_beside(report, name) for name in FILES)):
        if path.exists():
            raise ParameterError(f"{path} already exists; choose another folder for the model")
    if not folder.parent.is_dir():
        raise ParameterError(f"{folder.parent} is not a folder; create it, or choose another one for the model")
    return report


def _beside(report: Path, name: str) -> Path:
    """Return the path of a file of the report, for example model.suspects.csv of model.html."""
    return report.with_name(f"{report.stem}.{name}")


@dataclass(frozen=True)
class FittedModel:
    """The chosen model of a fit.

    `systems` has the settings of each trained system, as in params.yaml, and `left_out` the reason why another
    candidate was not trained. The files are in a temporary folder that ends with this object: `save` keeps the model.
    """

    place: TemporaryDirectory[str] = field(repr=False)
    steps: Steps = field(repr=False)
    summary: Summary = field(repr=False)
    systems: Mapping[str, dict[str, Any]]
    left_out: Mapping[str, str]

    @cached_property
    def predictor(self) -> BasePredictor:
        """The model, loaded for prediction."""
        import epigram

        return epigram.load(self.steps.chosen)

    @property
    def name(self) -> str:
        """Name of the chosen system."""
        return self.summary.chosen_system

    @property
    def labels(self) -> list[str]:
        """The labels, in the order of the columns of `probabilities`."""
        return self.predictor.labels

    def predict(self, texts: Iterable[str], *, level: int | None = None) -> list[TextPrediction]:
        """Return one prediction per text, for a `level` of the labels if it is given; see `BasePredictor.predict`."""
        return self.predictor.predict(texts, level=level)

    def probabilities(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the probabilities (N, C) of `texts`. Raises ParameterError for a single string."""
        return self.predictor.probabilities(texts)

    def explain(
        self, texts: Iterable[str], *, method: str = "auto", label: str | None = None, faithfulness: bool = False
    ) -> list[Explanation]:
        """Return how much the words of each text speak for `label`; see `BasePredictor.explain`."""
        return self.predictor.explain(texts, method=method, label=label, faithfulness=faithfulness)

    def embed(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the vectors (N, D) of `texts` in the model's encoder, of length 1; see `BasePredictor.embed`."""
        return self.predictor.embed(texts)

    def report(self, *, show: bool = True) -> Path:
        """Return the path of the report, and open it in the browser if `show`."""
        if show:
            webbrowser.open_new_tab(self.steps.report.as_uri())
        return self.steps.report

    def save(self, folder: str | Path) -> Path:
        """Copy the model to a new folder, from which `epigram.load` reads it, and its report beside it as NAME.html.

        NAME.suspects.csv, NAME.near_duplicates.csv and NAME.learning_curve.json are the files of the report; they are
        not in the folder, which has no texts unless the fit had `neighbors`. Returns the folder. Raises ParameterError
        if a file or the folder exists.
        """
        target = Path(folder)
        report = check_target(target)
        shutil.copytree(self.steps.chosen, target)
        from epigram.report.page import MODEL

        page = self.steps.report.read_text(encoding="utf-8").replace(MODEL, escape(shlex.quote(str(folder))))
        for name in FILES:
            place = Path(shutil.copyfile(self.steps.report.with_name(name), _beside(report, name)))
            page = page.replace(f"<code>{name}</code>", f"<code>{escape(place.name)}</code>")
        write_text(report, page)
        return target

    def to_project(self, folder: str | Path) -> Path:
        """Create a project in a new folder whose `dvc repro` trains this model again, with the same weights.

        Raises ParameterError if the folder is not empty, InputMissingError for the copy of a model, which has no texts.
        """
        import epigram

        raw = self.steps.folder / "raw"
        if not raw.exists():
            raise InputMissingError("this copy of the model has no texts; use epigram.create_project with their file")
        (data,) = read_source(raw / "source.json").files
        return epigram.create_project(folder, model=self.steps.chosen, data=raw / data.path)

    def __getstate__(self) -> dict[str, Any]:
        """Return what `pickle` keeps: the files of the comparison with the model, as bytes, without the texts."""
        root = self.steps.folder
        files = [path for path in self.steps.chosen.parent.rglob("*") if path.is_file()]
        kept = {name: value for name, value in vars(self).items() if name not in {"place", "steps", "predictor"}}
        return {**kept, "settings": self.steps.settings, "files": {f.relative_to(root): f.read_bytes() for f in files}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Write the files to a new temporary folder; the model in it is loaded like any saved one."""
        place = TemporaryDirectory(prefix=PREFIX)
        steps = Steps(Path(place.name), state.pop("settings"))
        for name, content in state.pop("files").items():
            (steps.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (steps.folder / name).write_bytes(content)
        vars(self).update(state, place=place, steps=steps)

    def _repr_html_(self) -> str:
        """Return the report for a notebook."""
        page = escape(self.steps.report.read_text(encoding="utf-8"), quote=True)
        return f'<p>{escape(self.summary.verdict)}</p><iframe srcdoc="{page}" width="100%" height="600"></iframe>'
