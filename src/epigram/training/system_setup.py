"""Setup of trainings: what the models of all seeds of a system have in common, and what the model of one seed has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from epigram.checkpoints.folders import unknown_language
from epigram.core.errors import ParameterError
from epigram.core.files import sha256
from epigram.evaluation.metrics.primary import PrimaryMetric, text_metric
from epigram.evaluation.settings import AUTO, MetricSetting
from epigram.inference.predictors.dataset_batches import data_spec_of
from epigram.models.devices import default_device
from epigram.models.manifest import parameters_hash
from epigram.models.recipe import Recipe
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec
from epigram.nn.pretrained.checkpoint import WEIGHTS
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.recipes.registry import recipe_of
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig, configure
from epigram.training.distributed.resources import hardware, resolve_processes, resolve_threads

if TYPE_CHECKING:
    from epigram.training.teacher import Teacher


@dataclass(frozen=True, kw_only=True)
class SystemSetup:
    """Name, recipe and settings of a system, its view, the metric, and the folder of the view's pretrained encoder."""

    name: str
    recipe: Recipe
    config: TrainingConfig
    view: View
    metric: PrimaryMetric
    pretrained: Path | None = None

    @property
    def path(self) -> str:
        """Key of the system in params.yaml, for messages."""
        return f"systems.{self.name}"

    @property
    def data(self) -> DataSpec:
        """What the view determines for the model."""
        return data_spec_of(self.view, self.config.max_length, self.pretrained)

    @property
    def weights(self) -> Path | None:
        """Weights of the pretrained encoder."""
        return self.pretrained and self.pretrained / WEIGHTS

    @property
    def facts(self) -> list[Any]:
        """All that the trainings depend on besides the seed."""
        on = hardware(self.config.precision, default_device())
        metric = self.metric.name, self.metric.cost
        return [self.recipe, self.config, metric, self.view.fingerprint, self.weights and sha256(self.weights), on]


@dataclass(frozen=True, kw_only=True)
class ModelSetup(SystemSetup):
    """Setup of the training of one seed, with the teacher of a student."""

    seed: int
    teacher: Teacher | None = None

    @property
    def provenance(self) -> dict[str, str]:
        """Checksums of the data, the encoder and the teacher, and of the settings."""
        found = {} if self.weights is None else {"pretrained": sha256(self.weights)}
        if self.teacher is not None:
            found["teacher"] = self.teacher.digest
        if self.teacher is None or self.teacher.has_own_data:  # a teacher's other data may include dev and test
            found["rows"] = self.view.rows_digest
        own = {} if self.metric == text_metric(AUTO, self.view) else {"metric": [self.metric.name, self.metric.cost]}
        settings = {**own, "seed": self.seed, "system": vars(self.recipe), "training": vars(self.config)}
        weight = {} if self.teacher is None else {"label_weight": self.teacher.label_weight}
        return {"data": self.view.fingerprint, **found, "parameters": parameters_hash(**settings, **weight)}


def read_setup(
    name: str, system: System, train: Mapping[str, Any], metric: MetricSetting, encoded: Path, pretrained: Path
) -> SystemSetup:
    """Return the setup of the system `name`, and set the number of threads.

    `train` is the run's section. `encoded` is the view's folder, `pretrained` its encoder's, if it has one.
    Raises ParameterError for a checkpoint that has not learned the language of the texts.
    """
    view = View.load(encoded)
    if reason := unknown_language(view.checkpoint, view.language):
        raise ParameterError(f"params.yaml: views.{system.view}: {reason}")
    recipe = recipe_of(name, system, train, checkpoint=view.checkpoint)
    config = configure(name, recipe, train)
    config = resolve_processes(config, recipe, folds=view.folds, taught=system.teacher is not None)
    config = resolve_threads(config, recipe, view.checkpoint)
    torch.set_num_threads(int(config.threads))
    start = find_pretrained(pretrained, view.tokenizer_json)
    primary = text_metric(metric, view)
    return SystemSetup(name=name, recipe=recipe, config=config, view=view, metric=primary, pretrained=start)
