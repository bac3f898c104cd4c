"""Bias and coverage of the score of few texts, which is out of fold, on synthetic data sets with known truth.

    python -m benchmarks.few_rows [--tiny] [--processes N] [--out benchmarks/results/few_rows.json]

Each data set has its own distribution of tokens for each class, so that new texts can be drawn without limit. The
systems are trained on folds, tuned, combined, compared and chosen by the functions of the stages. The truth is the
accuracy of the chosen final model, which is trained on all rows, on new texts. For comparison, `nested` is the score of
a nested choice, in which the other folds choose the system of each fold, with the plain interval of its rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.evaluation.comparison.choose_system import decide
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.ensemble.build_ensemble import build
from epigram.evaluation.ensemble.weights import parts_of
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.metrics.row_scores import RowScores
from epigram.evaluation.records.ensemble_record import ENSEMBLE
from epigram.evaluation.records.results import Cost, Evaluated, Interval
from epigram.evaluation.records.summary import Corpus
from epigram.evaluation.settings import AUTO, EnsembleSettings, EvaluateSettings
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from epigram.models.batches import TextBatches
from epigram.models.predict import Array, Predicted, predict
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training import fitters
from epigram.training.config import TrainingConfig
from epigram.training.fitters import FitOptions, Fold, pool
from epigram.training.tuning import cross_calibrated, tune_by

VOCABULARY, LENGTH, FIRST = 300, 12, 5  # token ids below FIRST are special
DATA_SETS, FOLDS, FEWEST, MOST, NEW, ALPHA = 200, 5, 60, 480, 10_000, 0.05
EPOCHS = {"epochs": 10, "batch_size": 32, "learning_rate": 0.02, "patience": 3, "precision": "fp32", "threads": 1}
SYSTEMS: dict[str, tuple[Recipe, dict[str, Any], float]] = {  # with the settings of training, and FLOPs per text
    "tfidf_svm": (RECIPES["tfidf_svm"], {}, 1e4),
    "frozen": (
        RECIPES["embedding_linear"].changed(encoder={"kind": "embedding", "width": 32}, head={"layers": 1}),
        {},
        2e6,
    ),
    "mean": (
        RECIPES["fast_text"].changed(encoder={"kind": "embedding", "width": 16, "dropout": 0.1}),
        EPOCHS,
        3e6,
    ),
    "textcnn": (
        RECIPES["textcnn"].changed(encoder={"embedding": 16, "filters": 8}),
        {**EPOCHS, "epochs": 6, "learning_rate": 0.01},
        9e6,
    ),
    "random": (RECIPES["random"], {}, 0.0),
}


class Source:
    """Distribution of labelled texts: tokens of a class are drawn independently, and some labels are wrong."""

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw, self.classes = draw, int(draw.integers(2, 6))
        base = 1 / np.arange(1, VOCABULARY - FIRST + 1) ** draw.uniform(0.5, 1.1)
        change = draw.normal(scale=draw.uniform(0.2, 1.5), size=(self.classes, len(base)))
        self.tokens = np.stack([each / each.sum() for each in base * np.exp(change)])
        self.shares, self.wrong = draw.dirichlet(np.full(self.classes, 10.0)), draw.uniform(0.0, 0.2)

    def texts(self, count: int) -> TextBatches:
        """Return new texts with their labels."""
        labels = self.draw.choice(self.classes, size=count, p=self.shares)
        lengths = self.draw.integers(3, LENGTH + 1, count)
        sums = np.cumsum(self.tokens, axis=1)
        drawn = self.draw.random(int(lengths.sum()))
        rows = np.repeat(labels, lengths)
        ids = np.empty(len(drawn), np.int32)
        for label in range(self.classes):
            ids[rows == label] = FIRST + np.searchsorted(sums[label], drawn[rows == label]).clip(max=sums.shape[1] - 1)
        swapped = self.draw.random(count) < self.wrong
        labels[swapped] = self.draw.integers(0, self.classes, int(swapped.sum()))
        texts = Ragged.from_lengths(ids, lengths)
        return TextBatches(texts, prefix=[], suffix=[], max_length=LENGTH, pad_id=0, unk_id=1, labels=labels)


@dataclass(frozen=True)
class Result:
    """Evaluation of one system on the folds, and the probabilities of its final model for the new texts."""

    evaluation: Evaluated
    new: Array


def labels_of(texts: TextBatches) -> NDArray[np.int64]:
    """Return the class of each text."""
    return np.asarray(texts.targets(np.arange(len(texts))))


def fit(name: str, train: TextBatches, new: TextBatches, split: GoldSplit, classes: int, seed: int) -> Result:
    """Train the system on folds and on all of train as the stage `train` does, and evaluate it.

    With an odd seed, all systems are so cheap that the one with the best score is chosen, whatever the others cost.
    """
    recipe, settings, flops = SYSTEMS[name]
    flops *= 1.0 if seed % 2 == 0 else 1e-3
    folds = np.asarray(split.folds)
    config = TrainingConfig(**settings)

    def built() -> Any:
        torch.manual_seed(seed)
        return recipe.build(DataSpec(vocabulary=VOCABULARY, classes=classes, max_length=LENGTH), name)

    def options(choice: Any = None) -> FitOptions:
        return FitOptions(config=config, path=name, seed=seed, choice=choice)

    def fold(number: int) -> Fold:
        rest, own = (np.flatnonzero(each) for each in (folds != number, folds == number))
        return Fold(lambda: (built(), train.part(rest), train.part(own)), options())

    results = fitters.ON_FOLDS[recipe.kind](fold(number) for number in range(FOLDS))
    model = fitters.KINDS[recipe.kind](built(), train, None, options(results.choice)).model
    place = np.argsort(np.argsort(folds, kind="stable"))  # folds keep the order of train
    given, judged = (Predicted(pool(known).logits[place], None) for known in (results.predictions, results.judged))
    tune_by(model, judged, split.labels)
    known = cross_calibrated(model, given, split.labels, folds)
    output = SystemOutput(probabilities=known.probabilities[None])
    size, labels = 0 if name == "random" else 1_000, [f"label {n}" for n in range(classes)]
    evaluation = evaluate_system(
        name,
        Target(task="single", labels=labels, metric=metric_of(AUTO, "single", labels)),
        seeds=[0],
        dev=split,
        test=split,
        dev_output=output,
        test_output=output,
        costs=[Cost(parameters=size, parameters_full=size, depth=None, depth_full=None, flops=flops)],
        settings=EvaluateSettings(),
    )
    return Result(evaluation, predict(model, new).probabilities)


def simulate(seed: int) -> dict[str, Any]:
    """Return the reported score of the chosen system of one data set, its interval, and the truth."""
    torch.set_num_threads(1)
    draw = np.random.default_rng(seed)
    source, rows = Source(draw), int(draw.integers(FEWEST, MOST + 1))
    train, new = source.texts(rows), source.texts(NEW)
    labels = labels_of(train)
    split = GoldSplit(
        labels=labels,
        rows=np.arange(rows),
        texts=["text"] * rows,
        in_train=np.zeros(rows, np.bool_),
        folds=parts_of(labels, FOLDS),
    )
    found = {name: fit(name, train, new, split, source.classes, seed) for name in SYSTEMS}
    evaluations = [each.evaluation for each in found.values()]
    combined = build(evaluations, [split, split], EnsembleSettings(), EvaluateSettings())
    if combined.evaluation is not None:
        evaluations.append(combined.evaluation)
        mean = sum(each.weights[0] * found[each.system].new for each in combined.record.members)
        found[ENSEMBLE] = Result(combined.evaluation, np.asarray(mean))
    facts = {"train": rows, "dev": 0, "test": 0}
    names = [f"label {n}" for n in range(source.classes)]
    summary = compare(
        Corpus(name="synthetic", language="en", task="single", labels=names, rows=facts, notes=[]), evaluations, ALPHA
    )
    row = next(each for each in summary.rows if each.outcome == "chosen")
    nested = nested_score(evaluations, np.asarray(split.folds))
    truth = {name: float((each.new.argmax(1) == labels_of(new)).mean()) for name, each in found.items()}
    return {
        "rows": rows,
        "classes": source.classes,
        "chosen": row.system,
        "by_score": seed % 2 == 1,
        "out_of_fold": row.dev_score,
        "score": row.test_score,
        "low": row.test_low,
        "high": row.test_high,
        "truth": truth[row.system],
        "nested": [nested.value, nested.low, nested.high],
        "systems": {each.system: [round(each.dev_score, 4), truth[each.system]] for each in summary.rows},
    }


def nested_score(evaluations: Sequence[Evaluated], folds: NDArray[np.integer]) -> Interval:
    """Return the score of a nested choice, for comparison: the other folds choose the system of each fold."""
    systems = [scored_system(each) for each in evaluations]
    own = {each.metrics.system: each.dev for each in systems if isinstance(each.dev, RowScores)}
    gained = np.empty((1, len(folds)))
    for fold in range(FOLDS):
        rows = folds == fold
        decision = decide([replace(each, dev=each.dev.rows(~rows)) for each in systems], ALPHA, "cheapest")
        gained[:, rows] = own[decision.ranked[decision.place].metrics.system].gained[:, rows]
    return score_interval(RowScores(gained, np.ones_like(gained)), resamples=1_000, confidence=0.95)


def figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return biases in points with standard errors, and the share of the intervals that hold the truth."""
    truth = np.array([run["truth"] for run in runs])

    def summary(value: Any, low: Any, high: Any) -> dict[str, float]:
        bias = 100 * (np.array(value) - truth)
        return {
            "bias": round(float(bias.mean()), 2),
            "standard_error": round(float(bias.std(ddof=1) / len(bias) ** 0.5), 2),
            "coverage": round(float(((low <= truth) & (truth <= high)).mean()), 3),
            "width": round(float(100 * np.mean(np.array(high) - low)), 1),
        }

    def of(*names: str) -> Any:
        return np.array([[run[name] for run in runs] for name in names])

    alone = {name: np.array([run["systems"][name] for run in runs]) for name in SYSTEMS}
    return {
        "data_sets": len(runs),
        "reported": summary(*of("score", "low", "high")),
        "nested": summary(*np.array([run["nested"] for run in runs]).T),
        "bias_with_optimism": round(float(100 * (of("out_of_fold")[0] - truth).mean()), 2),
        "bias_of_each_system": {
            name: round(float(100 * (known[:, 0] - known[:, 1]).mean()), 2) for name, known in alone.items()
        },
    }


def report(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of all data sets, and of those where the score or the cost decides among tied systems."""
    parts = {"all": [True, False], "by_score": [True], "by_cost": [False]}
    return {name: figures([run for run in runs if run["by_score"] in kinds]) for name, kinds in parts.items()}


def main() -> None:
    """Simulate the data sets, print the figures, and write them with the runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="four data sets, to see that it works")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as workers:
        runs = list(workers.map(simulate, range(4 if asked.tiny else DATA_SETS)))
    found = report(runs)
    print(json.dumps(found, indent=1))
    if asked.out:
        lines = ",\n".join(json.dumps(run) for run in runs)
        asked.out.write_text(f'{{"figures": {json.dumps(found)}, "runs": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
