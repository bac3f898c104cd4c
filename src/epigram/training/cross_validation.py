"""Cross-validation of a system on the folds of train, which chooses what dev would choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.models.predict import Predicted
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.text.dataset.encoded_dataset import fold_folder
from epigram.training import fitters
from epigram.training.dev_score import DevScore
from epigram.training.fit_system import options_of, prepare
from epigram.training.fitters import Fold, pool
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.progress import Report
from epigram.training.system_setup import ModelSetup


@dataclass(frozen=True)
class CrossValidation:
    """What the folds choose for the final fit, the out-of-fold predictions for train, and a training's history.

    `predicted` are made with what the other folds choose, and `judged` tune the final model. `fold` (N,) is the fold of
    each row. `layer_scores` are the scores of classifiers on the layers for the rows of all folds together, if the
    final model may lose layers.
    """

    choice: Any
    predicted: Predicted
    judged: Predicted
    history: list[dict[str, float]]
    fold: NDArray[np.int64]
    layer_scores: list[float]


def cross_validate(
    setup: ModelSetup, *, reports: Callable[[str], Report] | None = None, state: Path | None = None
) -> CrossValidation:
    """Fit the system on the other folds for each fold of its view, and predict the fold.

    `reports` returns the report of a named training. Checkpoints and finished folds are kept beside the folder `state`.
    """
    view = setup.view

    def fold(number: int) -> Fold:
        part, name = view.fold(number), f"fold {number + 1}/{view.folds}"
        kept = None if state is None else state.with_name(f"{state.name}-fold-{number}")
        encoder = setup.pretrained and find_pretrained(fold_folder(setup.pretrained, number), part.tokenizer_json)
        own = replace(setup, view=part, pretrained=encoder)
        checkpoints = None if kept is None else Checkpoints(kept.with_name(f"{kept.name}-steps"))
        return Fold(
            lambda: prepare(own), options_of(own, report=reports and reports(name), checkpoints=checkpoints), kept
        )

    results = fitters.ON_FOLDS[setup.recipe.kind](fold(number) for number in range(view.folds))
    numbers = view.fold_numbers()
    place = np.argsort(np.argsort(numbers, kind="stable"))  # folds keep the order of train

    def in_order(folds: list[Predicted]) -> Predicted:
        pooled = pool(folds)
        return replace(pooled, logits=pooled.logits[place])

    predicted, judged = in_order(results.predictions), in_order(results.judged)
    labels, scored = np.asarray(view.split("train").labels), DevScore(setup.config.stop_on, setup.metric)
    votes = np.concatenate(results.votes, 1)[:, place] if results.votes else ()  # (L, N, C)
    # no corpus with folds has token labels, so that none has a plain class
    scores = [scored.of_texts(Predicted(each, None, predicted.multi), labels) for each in votes]
    return CrossValidation(results.choice, predicted, judged, results.history, numbers, scores)
