"""Synthetic evaluations of systems that are right on chosen rows, and the folders that the compare stage reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epigram.core.arrays import Ragged
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.ensemble_record import EnsembleRecord
from epigram.evaluation.records.results import Cost, Evaluated, Task, write_evaluation
from epigram.evaluation.settings import AUTO, EvaluateSettings, MetricSetting
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from epigram.evaluation.tokens.word_predictions import Words
from epigram.models import manifest
from tests.support.certain import COMPARED

SETTINGS = EvaluateSettings(resamples=200, surest_errors=5)


def split(rows: int, classes: int, *, first: int = 0, text: str = "text", task: Task = "single") -> GoldSplit:
    """Return a split with cyclic labels; every tenth row is also in train."""
    numbers = np.arange(rows)
    labels = numbers % classes
    if task == "multi":
        labels = ((np.arange(classes) == labels[:, None]) | (numbers[:, None] % 3 == 0)).astype(np.uint8)
    texts = [text * (1 + i % 7) for i in range(rows)]
    return GoldSplit(labels=labels, rows=numbers + first, texts=texts, in_train=numbers % 10 == 0)


def probabilities(truth: GoldSplit, wrong: Sequence[set[int]], classes: int) -> np.ndarray:
    """Return probabilities (K, N, C): seed k gives the right label 0.8 on every row that is not in wrong[k]."""
    gold = truth.labels if truth.labels.ndim == 2 else np.arange(classes) == truth.labels[:, None]
    out = np.where(gold, 0.8, 0.2 / max(classes - 1, 1))
    stacked = np.repeat(out[None], len(wrong), axis=0)
    for k, rows in enumerate(wrong):
        stacked[k, sorted(rows)] = np.roll(stacked[k, sorted(rows)], 1, axis=1)
    return stacked


def words(rows: int) -> Words:
    """Return rows of 1 to 5 words; two words in three have the default label."""
    counts = 1 + np.arange(rows) % 5
    numbers = np.arange(counts.sum())
    labels = np.where(numbers % 3 == 0, 1 + numbers // 3 % 2, 0).astype(np.uint8)
    texts = [[f"w{i}" for i in range(count)] for count in counts.tolist()]
    rows = Ragged.from_lengths(labels, counts)
    return Words(names=["O", "PER", "LOC"], labels=rows, texts=texts, separator=" ")


def wrongly(truth: Words, wrong: Sequence[set[int]]) -> np.ndarray:
    """Return labels (K, T): seed k gives the next label to the words in wrong[k] and is right on all others."""
    said = np.repeat(truth.labels.values[None], len(wrong), axis=0)
    for k, numbers in enumerate(wrong):
        said[k, sorted(numbers)] = (said[k, sorted(numbers)] + 1) % len(truth.names)
    return said


def word_probabilities(truth: Words, wrong: Sequence[set[int]]) -> list[np.ndarray]:
    """Return the probabilities (T, S) of each seed: 0.8 for the label that `wrongly` says."""
    return [np.where(said[:, None] == np.arange(len(truth.names)), 0.8, 0.1) for said in wrongly(truth, wrong)]


def cost(*, parameters: int = 1000, flops: float = 5e6, depth: int | None = 4) -> Cost:
    full = {"parameters_full": 2 * parameters, "depth_full": depth and 6}
    more = {"parameters_without_embeddings": parameters // 10, "batch_macs": 200 * flops}
    return Cost(parameters=parameters, depth=depth, flops=flops, **full, **more)


def system(
    name: str,
    dev_wrong: Sequence[set[int]],
    test_wrong: Sequence[set[int]],
    *,
    labels: Sequence[str] = ("neg", "pos"),
    rows: int = 100,
    text: str = "text",
    task: Task = "single",
    price: Cost | None = None,
    labelled: bool = False,
    tokens_only: bool = False,
    words_wrong: Sequence[set[int]] | None = None,
    metric: MetricSetting = AUTO,
) -> Evaluated:
    """Return the evaluation of a system with one seed for each set of wrong rows.

    With `labelled`, the corpus has word labels; the system predicts them if `words_wrong` lists its wrong words.
    """
    count = len(labels)
    dev = split(rows, count, text=text, task=task)
    test = split(rows, count, first=rows, text=text, task=task)
    truth = words(rows) if labelled else None
    said = word_probabilities(truth, words_wrong) if truth and words_wrong else []
    dev, test = replace(dev, words=truth), replace(test, words=truth)
    return evaluate_system(
        name,
        Target(task=task, labels=labels, metric=metric_of(metric, task, labels, words_only=tokens_only)),
        seeds=list(range(len(dev_wrong))),
        dev=dev,
        test=test,
        dev_output=SystemOutput.of(probabilities(dev, dev_wrong, count), said),
        test_output=SystemOutput.of(probabilities(test, test_wrong, count), said),
        costs=[price or cost()] * len(dev_wrong),
        settings=SETTINGS,
    )


def corpus(labels: Sequence[str] = ("neg", "pos"), *, rows: int = 100, task: Task = "single") -> dict[str, object]:
    """Return the content of corpus.json."""
    notes = ["A stratified dev split was cut."]
    sizes = {"train": 8 * rows, "dev": rows, "test": rows}
    about = {"name": "sample", "language": "en", "task": task, "labels": list(labels)}
    return {**about, "rows": sizes, "notes": notes, "dev_in_train": 10, "test_in_train": 10}


def data_report(labels: Sequence[str]) -> dict[str, Any]:
    """Return report.json of a corpus with these labels; the last ones are the most frequent."""
    splits = ("train", "dev", "test")
    counts = {split: {label: 1 + k for k, label in enumerate(labels)} for split in splits}
    length = {"edges": [0, 5], "counts": {"train": [1, 2]}} | dict.fromkeys(
        ("mean", "p5", "p50", "p95", "p99", "max"), 3
    )
    conflict = {"text": "t", "split": "train", "labels": labels, "places": [f"a.csv:{k}" for k in range(5_000)]}
    return {
        "name": "sample", "language": "zh", "task": "single", "labels": labels, "token_labels": labels, "notes": [],
        "rows": dict.fromkeys(splits, 500_500), "repeats": dict.fromkeys(splits, 0), "classes": counts,
        "emoji_only": dict.fromkeys(splits, 0), "dev_in_train": 0, "test_in_train": 0, "token_classes": counts,
        "length": {"characters": length}, "longest": {"row": 1, "split": "train", "characters": 9, "text": "t"},
        "vocabulary": {"unit": "character", "train": 9, "unknown": {"dev": 0.1}}, "rules": [],
        "leaks": {"found": [], "left": []}, "conflicts": {"texts": {}, "examples": [conflict]},
    }  # fmt: skip


def folders(root: Path, evaluations: Sequence[Evaluated]) -> list[str]:
    """Write the folders of a run and its params.yaml; return the stage's arguments, the output folder last."""
    validated, examined, evaluated, ensemble, pruned = inputs = [root / name for name in COMPARED]
    validated.mkdir(parents=True)
    examined.mkdir()
    (examined / "quality.json").write_text('{"rows": 800, "reason": "no labels are examined"}')
    ensemble.mkdir()
    EnsembleRecord(reason="none was built").write(ensemble)
    (validated / "corpus.json").write_text(json.dumps(corpus()))
    (validated / "report.json").write_text(json.dumps(data_report(["neg", "pos"])))
    for each in evaluations:
        write_evaluation(evaluated / each.metrics.system, each)
        for seed in each.metrics.seeds:
            folder = pruned / each.metrics.system / f"seed-{seed.seed}"
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps({"about": "a model", "paper": "a paper", "seed": seed.seed}))
            manifest.write(folder, {"seed": seed.seed})
    systems = {each.metrics.system: {"view": "token"} for each in evaluations}
    params = {"dataset": "sample", "seeds": [0], "views": {"token": {}}, "systems": systems}
    (root / "params.yaml").write_text(json.dumps(params))
    return [str(folder) for folder in (*inputs, root / "report")]
