"""All settings of params.yaml, typed and cross-checked once before a run; each stage reads only its own sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epigram.core.config_types import Name, Seed, Strict, validate_as
from epigram.core.settings import check_names, check_sections, check_seeds, check_views, read_params
from epigram.data.sources.settings import DownloadSettings
from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.settings import CompareSettings, EnsembleSettings, EvaluateSettings, ExamineSettings
from epigram.models.settings import System
from epigram.pruning.settings import PruneSettings
from epigram.runner.workspace.retrain_settings import DriftSettings, RetrainSettings
from epigram.text.settings import AugmentSettings, EncodeSettings, PosTableSettings, ViewSettings, check_one_start


@dataclass(frozen=True, kw_only=True)
class Settings(Strict):
    """All sections of params.yaml; the fields are the names in SECTIONS."""

    dataset: Name
    seeds: list[Seed]
    views: dict[str, ViewSettings]
    systems: dict[str, System]
    download: DownloadSettings = field(default_factory=DownloadSettings)
    validate: ValidateSettings = field(default_factory=ValidateSettings)
    examine: ExamineSettings = field(default_factory=ExamineSettings)
    pos_table: PosTableSettings = field(default_factory=PosTableSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    train: dict[str, Any] = field(default_factory=dict)  # validated by the training code, with the recipe
    prune: PruneSettings = field(default_factory=PruneSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    ensemble: EnsembleSettings = field(default_factory=EnsembleSettings)
    compare: CompareSettings = field(default_factory=CompareSettings)
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
