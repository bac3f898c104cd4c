"""Record of a fit in the manifest of its model: all that a project needs to train the same model again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from epigram.core.config_types import Checked, Strict, shown, validate_as
from epigram.core.errors import DataError, ParameterError
from epigram.core.settings import check_sections
from epigram.data.packed import file_suffix
from epigram.data.sources.inspection import in_usual_order
from epigram.data.sources.source import SPLIT_KEYS, read_source
from epigram.data.tables import FILE_OPTIONS, formats
from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.metrics.function_scores import FUNCTION
from epigram.evaluation.records.ensemble_record import ENSEMBLE
from epigram.evaluation.settings import plain_value
from epigram.fitting.inputs import write_raw
from epigram.fitting.steps import Steps, StepSettings
from epigram.models import manifest
from epigram.models.manifest import TrainingFacts
from epigram.models.settings import System
from epigram.text.dataset.language import Language
from epigram.text.dataset.validated_corpus import ValidatedCorpus

KEY = "fit"  # key of the manifest
ReadOptions = Annotated[
    dict[str, Any],
    Checked(lambda read: {"reader", "text", "label"} <= read.keys(), "reader, text and label, as in a source"),
]


@dataclass(frozen=True, kw_only=True)
class FitRecord(Strict):
    """How the texts were read, and the sections of params.yaml; a value that is not in them is the default.

    An ensemble needs all systems of the fit, another model needs its own system.
    """

    language: Language
    read: ReadOptions
    params: dict[str, Any]
    ordered: list[str] = field(default_factory=list)  # the labels, if they are not sorted
    slices: list[str] = field(default_factory=list)  # columns by whose values the report has scores
    hierarchy: str = ""  # separator of levels in the labels
    files: list[str] = field(default_factory=list)  # SHA-256 of the files with the texts

    @classmethod
    def of(cls, model: Path) -> FitRecord:
        """Read the record of a saved model, whose files must be unchanged.

        Raises ParameterError if it has none, or if a project cannot choose the model because a function did.
        """
        manifest.verify(model)
        if (record := cls.read_manifest(model)) is None:
            raise ParameterError(
                f"{model} is not a model of epigram fit; create a project without --from, and add the texts"
            )
        check_sections(record.params)
        kind, _, name = str(record.params.get("metric", "")).partition(":")
        if kind == FUNCTION:
            raise ParameterError(
                f"{model}: the function {shown(name)} chose this model, and a project has no functions; fit with a "
                "metric of params.yaml, for example macro_f1"
            )
        return record

    @classmethod
    def read_manifest(cls, model: Path) -> FitRecord | None:
        """Read the record of a model whose files are verified already; None if `fit` has not made the model."""
        values = manifest.read_facts(model).get(KEY)
        return None if values is None else validate_as(cls, values, KEY, file=str(model / manifest.MANIFEST))

    def reading(self, data: Path) -> dict[str, Any]:
        """Return the columns, the language and, for a file of the same format, the options to read the file `data`."""
        kind = formats().get(file_suffix(data), {}).get("reader")
        options = {name: self.read[name] for name in FILE_OPTIONS if name in self.read and kind == self.read["reader"]}
        options |= {"join": self.read["join"]} if "join" in self.read else {}
        columns = {name: self.read[name] for name in ("text", "label", *SPLIT_KEYS) if name in self.read}
        return {
            **columns,
            "slices": self.slices,
            "ordered": self.ordered or None,
            "hierarchy": self.hierarchy,
            "language": self.language,
            "options": options,
        }

    def check_texts(self, model: Path, data: Path) -> None:
        """Raise DataError if the file `data` gives other rows than the `model` was trained and evaluated on."""
        with TemporaryDirectory() as place, redirect_stdout(StringIO()):
            steps = Steps(
                Path(place), StepSettings(validate=validate_as(ValidateSettings, self.params.get("validate", {})))
            )
            write_raw(data, None, folder=steps.folder / "raw", **self.reading(data))
            steps.validate()
            found = ValidatedCorpus.read(steps.folder / "validated").digest()
        if found != manifest.read_provenance(model).get("rows"):
            raise DataError(
                f"{data} has other texts, labels or splits than {model} was trained on; expected the file of the fit"
            )


def write_record(steps: Steps, systems: Mapping[str, dict[str, Any]], chosen: str) -> None:
    """Write the record of a fit that has trained `systems`, and chosen one, to the manifest of the chosen model."""
    source = read_source(steps.folder / "raw" / "source.json")
    needed = systems if chosen == ENSEMBLE else {chosen: systems[chosen]}
    views = {name: steps.views[name] for name in dict.fromkeys(each["view"] for each in needed.values())}
    sections = {each.name: getattr(steps.settings, each.name) for each in fields(steps.settings)}
    params = {
        "dataset": source.name,
        "seeds": list(sections.pop("seeds")),
        "views": {name: {"tokenizer": view.tokenizer, **_set_values(view)} for name, view in views.items()},
        "systems": {name: _with_threads(steps, name, settings) for name, settings in needed.items()},
        "metric": plain_value(sections.pop("metric")),
        **{name: _set_values(each) if is_dataclass(each) else each for name, each in sections.items()},
    }
    ordered = [] if source.labels == in_usual_order(source.labels) else source.labels
    record = FitRecord(
        language=source.language,
        read=source.read,
        params=params,
        ordered=ordered,
        slices=source.keep,
        hierarchy=source.hierarchy,
        files=[file.sha256 for file in source.files if file.sha256],
    )
    manifest.write(steps.chosen, {**manifest.read_facts(steps.chosen), KEY: asdict(record)})


def _with_threads(steps: Steps, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a system with the number of its threads, if that is a setting of the system.

    The number affects the weights, and by default it is the number of the machine's cores.
    """
    from epigram.recipes.registry import recipe_of

    system = System(**settings)
    used = recipe_of(name, system, steps.settings.train, checkpoint=steps.views[system.view].checkpoint).train_settings
    if used is not None and "threads" not in used:
        return settings
    facts = TrainingFacts.read(steps.folder / "models" / name / f"seed-{steps.settings.seeds[0]}")
    return {**settings, "train": {**system.train, "threads": facts.training["threads"]}}


def _set_values(settings: Any) -> dict[str, Any]:
    """Return the values of settings that differ from the defaults."""
    defaults = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(settings)
    }
    return {name: value for name, value in asdict(settings).items() if value != defaults[name]}
