"""Settings of a project and of its retraining, the default data set, and the file params.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from epigram.core.config_types import Checked, Name, OpenShare, Positive, Range, Seed, Share, Strict, validate_as
from epigram.core.files import atomic_file
from epigram.core.settings import check_names, check_sections, check_seeds, check_views, read_params
from epigram.core.yaml_edit import edit, with_comment
from epigram.data.sources.settings import DownloadSettings
from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.comparison.formats import join_names
from epigram.evaluation.settings import (
    AUTO,
    CompareSettings,
    EnsembleSettings,
    EvaluateSettings,
    ExamineSettings,
    MetricSetting,
    ReportSettings,
)
from epigram.models.settings import SharedTraining, System
from epigram.pruning.settings import PruneSettings
from epigram.runner.workspace.unsuitable import unsuitable_systems
from epigram.text.settings import AugmentSettings, EncodeSettings, PosTableSettings, ViewSettings, check_one_start

Params = MutableMapping[str, Any]


@contextmanager
def edited(path: Path, comments: Mapping[tuple[str, str], str] | None = None) -> Iterator[Params]:
    """Yield the content of the params.yaml at `path`, and write it back when the caller has changed it.

    Only the lines whose values have changed are written, with `comments` next to entries of sections. Raises
    ParameterError if the file cannot be read, or if a name is invalid after the change.
    """
    params = read_params(path)
    yield params
    check_names(params)
    content = edit(path.read_bytes().decode(), params)
    for (section, entry), comment in (comments or {}).items():
        content = with_comment(content, section, entry, comment)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content.encode())


EMBEDDED = "pocket_"  # start of the names of the embedded corpora


def use_dataset(params: Path, name: str) -> str | None:
    """Make `name` the data set of the file `params`, as a run of it would have; return a sentence for the user.

    Systems that the data set does not suit are removed. If the file does not name an embedded corpus, the user has
    chosen a data set: the file stays as it is, and the result is None.
    """
    if not str(read_params(params).get("dataset", "")).startswith(EMBEDDED):
        return None
    with edited(params) as values:
        values["dataset"] = name
        removed = list(unsuitable_systems(values, params.parent))
        for system in removed:
            del values["systems"][system]
    without = f", without {join_names(removed)}, which it does not suit" if removed else ""
    return f"{params.name}: dataset is now {name}{without}; runs, retrainings and schedules use it"


@dataclass(frozen=True, kw_only=True)
class Query(Strict):
    """A database query: the URL, as in data/sources/sql.yaml, and the SELECT that returns the rows."""

    url: str  # as in data/sources/sql.yaml
    query: str  # a SELECT


@dataclass(frozen=True, kw_only=True)
class RetrainSettings(Strict):
    """Sources of new rows, the systems to retrain, and the conditions for promoting a challenger."""

    incoming: str = "data/local/incoming"  # folder with files of new rows
    encoding: str | None = None  # encoding of the files; null: detected
    database: Query | None = None  # queried in addition to the folder
    systems: list[Name] = field(default_factory=list)  # empty: the systems of params.yaml
    alpha: OpenShare = 0.05  # significance level for a better score
    margin: Share = 0.05  # maximum loss of a class's F1
    promote: Literal["better", "not_worse"] = "better"  # not_worse: a tie with the champion is enough


@dataclass(frozen=True, kw_only=True)
class DriftSettings(Strict):
    """Threshold at which new texts count as different from the texts that the champion was trained on."""

    threshold: Annotated[float, Range(gt=0.0)] = 0.2  # population stability index
    window: Positive = 2_000  # number of newest texts


@dataclass(frozen=True, kw_only=True)
class Settings(Strict):
    """All sections of params.yaml; the fields are the names in SECTIONS."""

    dataset: Name
    seeds: list[Seed]
    views: dict[str, ViewSettings]
    systems: Annotated[dict[str, System], Checked(bool, "one or more systems")]
    metric: MetricSetting = AUTO
    download: DownloadSettings = field(default_factory=DownloadSettings)
    validate: ValidateSettings = field(default_factory=ValidateSettings)
    examine: ExamineSettings = field(default_factory=ExamineSettings)
    pos_table: PosTableSettings = field(default_factory=PosTableSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    train: SharedTraining = field(default_factory=dict)  # validated by the training code, with the recipe
    prune: PruneSettings = field(default_factory=PruneSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    ensemble: EnsembleSettings = field(default_factory=EnsembleSettings)
    compare: CompareSettings = field(default_factory=CompareSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    retrain: RetrainSettings = field(default_factory=RetrainSettings)
    drift: DriftSettings = field(default_factory=DriftSettings)


def load(path: Path = Path("params.yaml")) -> Settings:
    """Return all settings, validated. Raises ParameterError for an invalid value."""
    values = read_params(path)
    check_sections(values)
    settings = validate_as(Settings, values)
    check_names(values)
    check_seeds(settings.seeds)
    for name, view in settings.views.items():
        check_one_start(name, view)
    check_views(values)
    return settings
