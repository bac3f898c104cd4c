"""Predictions, cost and speed of a final model on dev and test."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.core.machine import count_processors
from epigram.evaluation.records.results import ClassifierAccuracy, Cost, Decision
from epigram.evaluation.splits import SystemOutput
from epigram.evaluation.tokens.word_predictions import Words, word_probabilities
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.inference.predictors.predictor import Predictor
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier, count_parameters, decodes, temperature_of
from epigram.models.complexity import batch_macs, flops, milliseconds
from epigram.models.devices import default_device
from epigram.models.manifest import TrainingFacts
from epigram.models.precision import Precision, matmul_precision, prepare_for_inference
from epigram.models.predict import Array, Predicted, predict
from epigram.models.serialization import load, read_out_of_fold
from epigram.text.dataset.encoded_dataset import Split, View

TIMED, MIN_TIMED = 512, 64  # texts that are predicted in batches to measure the speed: most and least
TIMED_SECONDS = 1.0  # seconds that the timed texts would take one at a time, within these bounds of their number
FIRST_TIMED = 8  # texts that are predicted one at a time to choose the number


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Predictions of a model for dev and test, its cost, and its speed on this machine.

    `alone` has the accuracy of each named classifier of the head by itself. `plain` is the class that the model uses
    for texts without a marked word. `decision` is what selects the labels of a text that may have several. The model
    divides its logits by `temperature`. `thresholds` (C,) are empty unless a text may have several labels.
    """

    dev: Predicted
    test: Predicted
    alone: list[ClassifierAccuracy]
    plain: int
    decision: Decision
    temperature: float
    thresholds: list[float]
    cost: Cost
    texts_per_second: float


def measure(folder: Path, view: View) -> Measurement:
    """Load the model in `folder`, predict the view's dev and test texts, and measure cost and speed.

    If train has folds, the cross-validation's predictions for train replace the predictions for dev and, if test has no
    rows, for test.
    """
    saved, facts = load(folder), TrainingFacts.read(folder)
    torch.set_num_threads(facts.training["threads"])
    precision: Precision = facts.training["precision"]
    device = default_device()
    model = saved.model.to(device)
    dev = batches_of(view, view.choosing, saved.frame, device)
    cost = Cost(
        parameters=count_parameters(model),
        parameters_full=facts.parameters_full,
        depth=model.depth or None,
        depth_full=facts.depth_full or None,
        flops=flops(model.cpu(), dev.median_length, saved.frame),
        parameters_without_embeddings=count_parameters(model, embeddings=False),
        batch_macs=batch_macs(model, dev.median_length, saved.frame),
    )
    model = model.to(device) if precision == "fp32" else prepare_for_inference(model.to(device))
    predicted: dict[str, Predicted] = {}
    if view.folds:
        predicted["dev"] = Predicted(read_out_of_fold(folder), None, view.task == "multi")
    else:
        predicted["dev"] = predict(model, dev, precision=precision)
    if view.scoring == view.choosing:
        predicted["test"] = predicted["dev"]
    else:
        predicted["test"] = predict(model, batches_of(view, "test", saved.frame, device), precision=precision)
    return Measurement(
        dev=replace(predicted["dev"], parts=None),  # the logits of all classifiers are only needed for `alone`
        test=replace(predicted["test"], parts=None),
        alone=_classifier_accuracies(model, predicted, view),
        plain=saved.frame.plain_class,
        decision="decoder" if decodes(model) else "threshold",
        temperature=temperature_of(model),
        thresholds=saved.thresholds if view.task == "multi" else [],
        cost=cost,
        texts_per_second=texts_per_second(model, dev, precision),
    )


def _classifier_accuracies(model: Any, predicted: Mapping[str, Predicted], view: View) -> list[ClassifierAccuracy]:
    names = model.head.part_names if isinstance(model, NeuralClassifier) else ()  # a linear SVM has no separate head
    if not names or view.folds:
        return []
    dev, test = (predicted[name].scores(np.array(view.split(name).labels)) for name in ("dev", "test"))
    return [
        ClassifierAccuracy(name=name, dev=on_dev, test=on_test)
        for name, on_dev, on_test in zip(names, dev, test, strict=True)
    ]


def combine_seeds(seeds: Sequence[Predicted], part: Split, truth: Words | None) -> SystemOutput:
    """Combine the predictions of all seeds for a split, with token labels if corpus and system have them."""
    words = [_words(seed, part, truth) for seed in seeds]
    labelled = [each for each in words if each is not None]
    return SystemOutput.of(np.stack([seed.probabilities for seed in seeds]), labelled)


def _words(predicted: Predicted, part: Split, truth: Words | None) -> Array | None:
    if truth is None or predicted.tokens is None or predicted.counts is None or part.words is None:
        return None
    return word_probabilities(
        Ragged.from_lengths(predicted.tokens, predicted.counts), part.ids.with_values(part.words), truth.labels.lengths
    )


def texts_per_second(model: Any, texts: TextBatches, precision: Precision) -> float:
    """Return how many encoded texts the model predicts in a second, in batches."""
    rows = _spread(len(texts), FIRST_TIMED)
    with torch.inference_mode(), matmul_precision(precision, texts.device):
        answer = partial(_answer, model, texts, rows)
        one = milliseconds(answer, len(rows))
    timed = min(len(texts), max(MIN_TIMED, min(TIMED, int(1000 * TIMED_SECONDS / one))))
    some = texts if len(texts) == timed else texts.part(_spread(len(texts), timed))
    start = time.perf_counter()
    predict(model, some, precision=precision)
    return len(some) / (time.perf_counter() - start)


def _answer(model: Any, texts: TextBatches, rows: NDArray[np.int64], number: int) -> Any:
    """Return the logits of one of the texts `rows`, on the CPU."""
    return model(texts.gather(rows[number : number + 1])).logits.cpu()


def _spread(total: int, count: int) -> NDArray[np.int64]:
    """Return `count` of `total` rows, evenly spaced."""
    return np.linspace(0, total - 1, min(count, total)).astype(np.int64)


THREADS = 2  # CPU threads
SECONDS = 1.0  # a slower model predicts no more texts than necessary


def milliseconds_per_text(predictor: Predictor, texts: Sequence[str], count: int) -> float:
    """Return the median milliseconds of predicting one text at a time by a predictor on the CPU, with two threads.

    The time includes the tokenization. At most `count` of the `texts`, evenly spaced, are predicted.
    """
    some = [texts[row] for row in np.linspace(0, len(texts) - 1, min(count, len(texts))).astype(int)]
    with _threads(min(THREADS, count_processors())):
        return milliseconds(lambda number: predictor.predict([some[number]]), len(some), seconds=SECONDS)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let PyTorch use `count` threads, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
