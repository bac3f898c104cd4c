"""Comparison of a run's systems; one is chosen by the development set alone.

The system with the best development score is chosen; if scores are equal, the one with fewer parameters. A system whose
development score does not differ significantly from the best is called a tie. The verdict names the cheapest tie, the
one with the fewest FLOPs per text, because FLOPs are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low, stdev
from typing import Any, Literal

import numpy as np

from epigram.core.errors import DataError
from epigram.core.ragged import Ragged
from epigram.evaluation.formats import SCORE_NAMES, abbreviate, join_names, level, percent
from epigram.evaluation.results import Evaluation, Metrics, ScoreName
from epigram.evaluation.scoring import RowScores, predict_labels, seed_thresholds
from epigram.evaluation.significance import Verdict, verdicts
from epigram.evaluation.summary import Corpus, Row, Summary
from epigram.evaluation.tokens import LabelledWords

MAX_NAMED = 6  # maximum number of ties that the verdict lists by name
FEW_SEEDS = 5  # with fewer, a difference between systems can be caused by the seeds


def compare(corpus: Corpus, evaluations: Sequence[Evaluation], alpha: float) -> Summary:
    """Rank the systems, test each against the best and choose. Raises DataError if their evaluated rows differ."""
    _check_same_rows(evaluations)
    ranked = sorted(evaluations, key=_rank)
    best = ranked[0].metrics
    on_dev, on_test = _against_best(ranked, "dev", alpha), _against_best(ranked, "test", alpha)
    rows = [_row(each.metrics, on_dev.get(each.metrics.system), on_test.get(each.metrics.system)) for each in ranked]
    tied = [row for row in rows if row.outcome == "tie"]
    cheapest = min(tied, key=lambda row: (row.flops, row.parameters_pruned), default=None)
    chosen_seed = max(best.seeds, key=lambda seed: seed.dev_score).seed
    return Summary(
        dataset=corpus.name,
        language=corpus.language,
        task=corpus.task,
        score=best.score,
        confidence=best.confidence,
        alpha=alpha,
        splits=corpus.rows,
        notes=[*corpus.notes, *_seed_notes(rows), *_word_notes(best.score, rows)],
        chosen_system=best.system,
        chosen_seed=chosen_seed,
        cheapest_tied=cheapest.system if cheapest else None,
        verdict=" ".join(
            [_describe_choice(rows[0], chosen_seed, best), _describe_others(rows[0], rows[1:], tied, cheapest)]
        ).strip(),
        rows=rows,
    )


def _rank(evaluation: Evaluation) -> tuple[float, int, str]:
    metrics = evaluation.metrics
    score = round(metrics.dev_score.value, 9)  # a float mean depends on the order of the seeds
    return (-score, median_low(seed.cost.parameters for seed in metrics.seeds), metrics.system)


def _check_same_rows(evaluations: Sequence[Evaluation]) -> None:
    first = evaluations[0]
    for other in evaluations[1:]:
        for key in ("dev_rows", "test_rows", "dev_labels", "test_labels", "dev_word_labels", "test_word_labels"):
            if not np.array_equal(getattr(first.predictions, key), getattr(other.predictions, key)):
                raise DataError(
                    f"{first.metrics.system} and {other.metrics.system} were evaluated on different {key}: "
                    "run dvc repro to evaluate both on the same data"
                )


def _against_best(ranked: Sequence[Evaluation], split: Literal["dev", "test"], alpha: float) -> dict[str, Verdict]:
    best, *others = [_row_scores(evaluation, split) for evaluation in ranked]
    names = [evaluation.metrics.system for evaluation in ranked[1:]]
    return verdicts(best, dict(zip(names, others, strict=True)), alpha)


def _row_scores(evaluation: Evaluation, split: Literal["dev", "test"]) -> RowScores:
    """Return what each row adds to the score that ranks the systems."""
    predictions, metrics = evaluation.predictions, evaluation.metrics
    fields = ("labels", "probabilities", "word_labels", "word_predictions", "word_offsets")
    labels, probabilities, gold, predicted, offsets = (getattr(predictions, f"{split}_{name}") for name in fields)
    if metrics.score == "token_f1":
        return LabelledWords.of(Ragged(gold, offsets), predicted, seeds=len(metrics.seeds)).words.row_scores()
    dev = predictions.dev_labels, predictions.dev_probabilities
    thresholds = seed_thresholds(metrics.task, *dev, metrics.decision)
    return predict_labels(metrics.task, labels, probabilities, thresholds).row_scores()


def _row(metrics: Metrics, on_dev: Verdict | None, on_test: Verdict | None) -> Row:
    """Return the row of one system; the chosen one has no verdict."""
    seeds = metrics.seeds
    return Row(
        system=metrics.system,
        seeds=[seed.seed for seed in seeds],
        dev_accuracy=metrics.dev.accuracy,
        test_accuracy=metrics.test.accuracy,
        dev_score=metrics.dev_score.value,
        test_score=metrics.test_score.value,
        test_low=metrics.test_score.low,
        test_high=metrics.test_score.high,
        dev_std=_std([seed.dev_score for seed in seeds]),
        test_std=_std([seed.test_score for seed in seeds]),
        macro_f1=metrics.test.macro_f1,
        ece=metrics.calibration.ece,
        **_costs(metrics),
        outcome="chosen" if on_dev is None else "tie" if on_dev.outcome == "tie" else "worse",
        p_dev=on_dev.p if on_dev else None,
        p_test=on_test.p if on_test else None,
        test_outcome=on_test.outcome if on_test else None,
        **_token_scores(metrics),
    )


def _token_scores(metrics: Metrics) -> dict[str, Any]:
    if metrics.tokens is None:
        return {}
    test = metrics.tokens.test
    return {"token_f1": test.f1, "token_f05": test.f05, "span_f1": test.span_f1}


def _costs(metrics: Metrics) -> dict[str, Any]:
    costs = [seed.cost for seed in metrics.seeds]
    return {
        "parameters": median_low(cost.parameters_full for cost in costs),
        "parameters_pruned": median_low(cost.parameters for cost in costs),
        "depth": median_low(cost.depth_full for cost in costs if cost.depth_full) if costs[0].depth_full else None,
        "depth_pruned": median_low(cost.depth for cost in costs if cost.depth) if costs[0].depth else None,
        "flops": median_low(cost.flops for cost in costs),
        "parameters_without_embeddings": _median([cost.parameters_without_embeddings for cost in costs]),
        "batch_macs": _median([cost.batch_macs for cost in costs]),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median_low(known) if known else None


def _std(values: list[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _seed_notes(rows: Sequence[Row]) -> list[str]:
    fewest = min(len(row.seeds) for row in rows)
    if fewest >= FEW_SEEDS or len(rows) == 1:
        return []
    seeds = "one seed" if fewest == 1 else f"{fewest} seeds"
    return [
        f"With {seeds} per system, a difference between two systems may come from the seeds; use {FEW_SEEDS} or more."
    ]


def _word_notes(score: ScoreName, rows: Sequence[Row]) -> list[str]:
    unlabelled = [row.system for row in rows if row.token_f1 is None]
    if score != "token_f1" or not unlabelled:
        return []
    verb = "labels" if len(unlabelled) == 1 else "label"
    return [f"{join_names(unlabelled)} {verb} no tokens, which counts as a score of 0."]


def _describe_choice(chosen: Row, seed: int, best: Metrics) -> str:
    score, seeds = SCORE_NAMES[best.score], len(chosen.seeds)
    averaged = f"averaged over {seeds} seeds, " if seeds > 1 else ""
    return (
        f"Use {chosen.system} (seed {seed}): {averaged}it has the best development {score}, "
        f"{percent(chosen.dev_score)}%, and reaches {percent(chosen.test_score)}% on the test set "
        f"({level(best.confidence)} interval {percent(chosen.test_low)} to {percent(chosen.test_high)})."
    )


def _describe_others(chosen: Row, others: Sequence[Row], tied: Sequence[Row], cheapest: Row | None) -> str:
    if not others:
        return ""
    if cheapest is None:
        return "It is significantly better than every other system on the development set."
    names = (
        join_names([row.system for row in tied])
        if len(tied) <= MAX_NAMED
        else f"{len(tied)} of the {len(others)} others"
    )
    tie = f"{names} {'is' if len(tied) == 1 else 'are'} tied with it"
    if cheapest.flops >= chosen.flops:
        return f"{tie}, but not cheaper."
    cost = f"{abbreviate(cheapest.flops)} FLOPs per text instead of {abbreviate(chosen.flops)}"
    return f"{tie} and needs {cost}." if len(tied) == 1 else f"{tie}; {cheapest.system} is the cheapest, with {cost}."
