"""Trials: train a system on a part of train, and measure its score on held-out texts and its cost.

The test set is not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from epigram.evaluation.metrics.primary import text_metric
from epigram.evaluation.settings import MetricSetting
from epigram.models.predict import gold_labels, predict
from epigram.models.settings import System
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.recipes.registry import recipe_of
from epigram.text.dataset.encoded_dataset import View, fold_folder
from epigram.training import fitters
from epigram.training.config import configure
from epigram.training.dev_score import metric_score
from epigram.training.distributed.resources import resolve_threads
from epigram.training.fit_system import options_of, prepare
from epigram.training.fitters import pool
from epigram.training.linear.tfidf import load_blas
from epigram.training.system_setup import ModelSetup
from epigram.training.trials.sample import SampledView
from epigram.training.tuning import calibrated

Part = tuple[SampledView, Path | None]  # a view with dev, and the folder of an encoder that was pretrained on it
HELD_OUT = 2_000  # texts that judge a trial at most


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """Score on the held-out texts, the loss of the calibrated probabilities, and the cost.

    `seconds` is the time to train once on `rows` texts, with evaluations on `held_out` texts, and `ms_per_text` the
    time to predict one text in a batch. `steps` and `evaluations` count until the end of a training by gradient, which
    may stop early; they are 0 for other models.
    """

    score: float
    loss: float
    rows: int
    held_out: int
    seconds: float
    ms_per_text: float
    steps: float = 0.0
    evaluations: float = 0.0


def try_system(
    name: str,
    system: System,
    shared: Mapping[str, Any],
    metric: MetricSetting,
    view: View,
    pretrained: Path,
    *,
    rows: int,
    held_out: int = HELD_OUT,
    folds: int = 2,
) -> TrialResult:
    """Return the result of a trial on `rows` training texts at most, judged by `held_out` texts of dev at most.

    If train has folds, one model is trained for each of the first `folds` of them. `shared` and `metric` are the
    section `train` and the metric of params.yaml, and `pretrained` has the encoder that was pretrained on the view, if
    there is one.
    """
    load_libraries()
    recipe = recipe_of(name, system, shared, checkpoint=view.checkpoint)
    config = replace(configure(name, recipe, shared), processes=1)
    config = resolve_threads(config, recipe, view.checkpoint)
    torch.set_num_threads(int(config.threads))
    known: dict[str, Any] = {"name": name, "recipe": recipe, "config": config, "metric": text_metric(metric, view)}
    predictions, labels, taken, seconds, trained_rows, answered = [], [], [], 0.0, 0, 0.0
    for part, encoder in _parts(SampledView.of(view, rows, held_out), pretrained, folds):
        began = time.perf_counter()
        setup = ModelSetup(**known, view=part, pretrained=encoder, seed=0)
        model, train, dev = prepare(setup)
        trained = fitters.KINDS[recipe.kind](model, train, dev, options_of(setup))
        ended = time.perf_counter()
        predictions.append(predict(trained.model, dev, precision=config.precision))
        answered += time.perf_counter() - ended
        labels.append(gold_labels(dev))
        seconds, trained_rows = seconds + ended - began, trained_rows + len(train)
        taken.append((trained.steps, len(trained.history)))
    wanted, count = np.concatenate(labels), len(predictions)
    pooled, _ = calibrated(pool(predictions), wanted)
    steps, evaluations = np.mean(taken, 0).tolist()
    return TrialResult(
        score=metric_score(pooled, wanted, known["metric"]),
        loss=pooled.loss(wanted),
        rows=trained_rows // count,
        held_out=len(wanted) // count,
        seconds=seconds / count,
        ms_per_text=1000 * answered / len(wanted),
        steps=steps,
        evaluations=evaluations,
    )


def load_libraries() -> None:
    """Import what the linear fits import when they begin, so that it is not measured."""
    load_blas()
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401


def _parts(sampled: SampledView, pretrained: Path, folds: int) -> Iterator[Part]:
    """Yield the views to train on: the whole view, or its first folds."""
    encoder = find_pretrained(pretrained, sampled.tokenizer_json)
    if not sampled.folds:
        yield sampled, encoder
        return
    for number in range(min(folds, sampled.folds)):
        fold = sampled.fold(number)
        yield fold, encoder and find_pretrained(fold_folder(pretrained, number), fold.tokenizer_json)
