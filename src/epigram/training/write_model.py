"""Saving of a trained model, with the facts of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epigram.models.devices import default_device
from epigram.models.manifest import TrainingFacts
from epigram.models.predict import Array
from epigram.models.serialization import save
from epigram.models.text_template import TextTemplate
from epigram.training.distributed.resources import hardware
from epigram.training.fitters import Trained
from epigram.training.system_setup import ModelSetup


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Held-out `score` of a trained model, and what was tuned on held-out texts.

    `thresholds` (C,) are None unless a text may have several labels. Of a cross-validation, `out_of_fold` (N, C) are
    the logits, and `layer_scores` are the scores of classifiers on the layers.
    """

    score: float
    thresholds: list[float] | None
    history: list[dict[str, float]]
    out_of_fold: Array | None = None
    layer_scores: Sequence[float] = ()


def write_model(folder: Path, trained: Trained, tuned: Tuned, frame: TextTemplate, setup: ModelSetup) -> None:
    """Write the model folder of `trained`, which reads texts as `frame` says, atomically."""
    view = setup.view
    facts: dict[str, Any] = vars(
        TrainingFacts(
            dataset=view.corpus,
            data=view.fingerprint,
            seed=setup.seed,
            dev_accuracy=tuned.score,
            epoch=trained.epoch,
            depth_full=trained.depth,
            parameters_full=trained.parameters,
            training=vars(setup.config),
            provenance=setup.provenance,
            hardware=hardware(setup.config.precision, default_device()),
            layer_scores=list(tuned.layer_scores),
            checkpoint=view.checkpoint or "",
        )
    )
    save(
        folder,
        trained.model,
        recipe=setup.recipe,
        frame=frame,
        labels=view.labels,
        tokenizer=view.tokenizer_json,
        facts=facts,
        thresholds=tuned.thresholds,
        history=tuned.history,
        out_of_fold=tuned.out_of_fold,
        prices=None if setup.metric.prices is None else setup.metric.prices.tolist(),
    )
