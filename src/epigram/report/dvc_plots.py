"""Files that DVC compares between git revisions: numbers for `dvc metrics diff`, tables for `dvc plots diff`.

    metrics.json           the chosen system and seed, and each system's scores and size
    plots/scores.json      one row per system: its test score and interval
    plots/curves.json      one row per system and epoch: dev score and training loss, averaged over the seeds
    plots/confusion.json   one row per system and pair of labels: the share of the gold label's rows; of
                           more than 60 labels, the most frequent ones

dvc.yaml defines how they are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from epigram.core.files import read_json, write_json
from epigram.evaluation.records.results import Metrics
from epigram.evaluation.records.summary import Row, Summary
from epigram.report import classes

NUMBERS = ("dev_score", "test_score", "test_low", "test_high", "macro_f1", "token_f1", "ece")
SIZES = ("parameters_pruned", "depth_pruned", "flops")


def write_plots(folder: Path, summary: Summary, systems: Mapping[str, Metrics], models: Mapping[str, Path]) -> None:
    """Write metrics.json and plots/ into `folder`; `models` has the folder of each system's models, with their
    training histories."""
    chosen = {"system": summary.chosen_system, "seed": summary.chosen_seed}
    scores = {row.system: numbers(row) for row in summary.rows}
    write_json(folder / "metrics.json", {"chosen": chosen, "systems": scores})
    plots = folder / "plots"
    plots.mkdir()
    write_json(plots / "scores.json", [_score(row) for row in summary.rows if not summary.labels_no_words(row)])
    write_json(plots / "curves.json", [line for each in systems.values() for line in _curve(each, models[each.system])])
    write_json(plots / "confusion.json", [cell for each in systems.values() for cell in _shares(each)])


def numbers(row: Row) -> dict[str, float]:
    """Return the scores of a system, with the interval of its test score, and its sizes."""
    values = {name: getattr(row, name) for name in (*NUMBERS, *SIZES)}
    left_out = {"dev_score"} if row.outcome == "unranked" else set()  # it is not the system's own
    return {name: value for name, value in values.items() if value is not None and name not in left_out}


def _score(row: Row) -> dict[str, Any]:
    return {"system": row.system, "test": row.test_score, "low": row.test_low, "high": row.test_high}


def _curve(metrics: Metrics, models: Path) -> list[dict[str, Any]]:
    """Return the mean of each epoch over the seeds that reached it; empty if the system is not trained in epochs."""
    files = [models / f"seed-{seed.seed}" / "history.json" for seed in metrics.seeds]
    epochs = defaultdict(list)
    for line in (line for file in files if file.exists() for line in read_json(file)):
        epochs[line["epoch"]].append(line)
    return [{"system": metrics.system, "epoch": epoch, **_mean(epochs[epoch])} for epoch in sorted(epochs)]


def _mean(lines: list[dict[str, float]]) -> dict[str, float]:
    return {name: mean(line[name] for line in lines) for name in ("dev", "loss")}


def _shares(metrics: Metrics) -> list[dict[str, Any]]:
    """Return the shown cells of the confusion matrix; a multi-label system has none."""
    if not metrics.confusion:
        return []
    shown = classes.confusion(metrics.labels, metrics.confusion)
    return [
        {"system": metrics.system, "gold": gold, "predicted": predicted, "rows": rows, "share": share}
        for gold, counts, shares in zip(shown.labels, shown.counts, shown.shares, strict=True)
        for predicted, rows, share in zip(shown.labels, counts, shares, strict=True)
    ]
