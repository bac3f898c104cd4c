"""Comparison of a run's systems; one is chosen by the development set alone.

A system whose development score is not its own is unranked: it is neither chosen nor compared with others on dev.
The outcomes are relative to the best system, so that the test behind them does not depend on the choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median_low, stdev
from typing import Any

from epigram.evaluation.comparison.choose_system import against, decide
from epigram.evaluation.comparison.formats import join_names
from epigram.evaluation.comparison.optimism import expected_optimism
from epigram.evaluation.comparison.scored_system import check_same_rows, scored_system
from epigram.evaluation.comparison.significance import Verdict
from epigram.evaluation.comparison.verdict import describe
from epigram.evaluation.records.results import Evaluated, Metrics
from epigram.evaluation.records.student_record import Unranked
from epigram.evaluation.records.summary import Corpus, Outcome, Row, Summary, choosing_rows
from epigram.evaluation.settings import Preference

FEW_SEEDS = 5  # fewer seeds can cause a difference between systems by chance


def compare(
    corpus: Corpus,
    evaluations: Iterable[Evaluated],
    alpha: float,
    prefer: Preference = "cheapest",
    unranked: Mapping[str, Unranked] | None = None,
    expected: Mapping[str, float] | None = None,
) -> Summary:
    """Rank the systems, test each against the best and choose. Raises DataError if their evaluated rows differ.

    Without a test split, the score and the interval of the chosen system are out of fold, less the expected optimism.
    The `unranked` are students whose development score is not their own, each with the reason: if train has folds, the
    out-of-fold scores are of models that learned without the teacher; and a teacher of other data may have learned dev.
    They are compared on a test split only. `expected` are the accuracies of systems by experience; see `decide`.
    Of each evaluation, only the metrics and the rows' scores are kept, so that an iterator that reads one after another
    has the predictions of one system in memory at a time.
    """
    unranked = unranked or {}
    systems = list(map(scored_system, evaluations))  # `map` keeps no evaluation while it asks for the next
    check_same_rows([(each.metrics.system, each.truth) for each in systems])
    candidates = [each for each in systems if each.metrics.system not in unranked]
    decision = decide(candidates, alpha, prefer, expected)
    ranked, place, on_dev = decision.ranked, decision.place, decision.on_dev
    best = ranked[0].metrics
    listed = [*ranked, *(each for each in systems if each.metrics.system in unranked)]
    out_of_fold = not corpus.rows.get("test")
    tested = ranked if out_of_fold else listed
    on_test = against(tested, place, [each.test for each in tested], alpha)
    rows = [
        _row(
            each.metrics,
            "unranked" if n >= len(ranked) else _outcome(n, place, decision.tied),
            on_dev.get(each.metrics.system),
            on_test.get(each.metrics.system),
            each.dev_loss,
        )
        for n, each in enumerate(listed)
    ]
    chosen_seed = max(ranked[place].metrics.seeds, key=lambda seed: seed.dev_score).seed
    optimism = expected_optimism([each.dev for each in ranked], 0, decision.refused)
    of_choice = None
    if out_of_fold:
        of_choice = expected_optimism([each.dev for each in ranked], place, decision.replaced)
        rows[place] = _less(rows[place], of_choice, ranked[place].dev.bounds[0])
    return Summary(
        dataset=corpus.name,
        language=corpus.language,
        task=corpus.task,
        score=best.score,
        confidence=best.confidence,
        alpha=alpha,
        splits=corpus.rows,
        machine_labels=corpus.machine_labels,
        notes=[
            *corpus.notes,
            *_seed_notes(rows),
            *_word_notes(best.score, rows),
            *_unranked_notes(unranked, out_of_fold=out_of_fold),
        ],
        chosen_system=rows[place].system,
        chosen_seed=chosen_seed,
        cheapest_tied=None if decision.cheapest is None else rows[decision.cheapest].system,
        optimism=optimism,
        verdict=describe(
            rows[: len(ranked)],
            decision,
            chosen_seed,
            best,
            prefer,
            choosing_rows(corpus.rows),
            optimism,
            of_choice,
        ),
        rows=rows,
    )


def _less(row: Row, optimism: float, lowest: float) -> Row:
    """Return the row with test score and interval less the optimism, but no less than the `lowest` possible score."""
    lower = {name: max(lowest, getattr(row, name) - optimism) for name in ("test_score", "test_low", "test_high")}
    return replace(row, **lower)


def _outcome(n: int, chosen: int, tied: Sequence[int]) -> Outcome:
    """Return the outcome of the system at place `n`; the best system, at 0, is tied with the chosen one."""
    return "chosen" if n == chosen else "tie" if n == 0 or n in tied else "worse"


def _row(
    metrics: Metrics,
    outcome: Outcome,
    on_dev: Verdict | None,
    on_test: Verdict | None,
    dev_loss: float | None,
) -> Row:
    """Return the row of one system; the best and unranked ones have no verdict on dev, the chosen one none on test."""
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
        dev_loss=dev_loss,
        dev_std=_std([seed.dev_score for seed in seeds]),
        test_std=_std([seed.test_score for seed in seeds]),
        macro_f1=metrics.test.macro_f1,
        ece=metrics.calibration.ece,
        **_costs(metrics),
        outcome=outcome,
        p_dev=on_dev.p if on_dev else None,
        p_test=on_test.p if on_test else None,
        test_outcome=on_test.outcome if on_test else None,
        **_token_scores(metrics),
        scores=_test_scores(metrics),
    )


def _test_scores(metrics: Metrics) -> dict[str, float]:
    """Return every metric on the test set by name."""
    words = {} if metrics.tokens is None else asdict(metrics.tokens.test)
    sentences = {} if metrics.test_sentences is None else asdict(metrics.test_sentences)
    return {
        **asdict(metrics.test),
        **{f"sentence_{name}": value for name, value in sentences.items()},
        **{f"token_{name}": value for name, value in words.items()},
        **{f"level_{each.level}_accuracy": each.accuracy.value for each in metrics.levels},
        **{f"level_{each.level}_macro_f1": each.macro_f1.value for each in metrics.levels},
    }


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


def _word_notes(score: str, rows: Sequence[Row]) -> list[str]:
    unlabelled = [row.system for row in rows if row.token_f1 is None]
    if score != "token_f1" or not unlabelled:
        return []
    verb = "labels" if len(unlabelled) == 1 else "label"
    return [f"{join_names(unlabelled)} {verb} no tokens, which counts as a score of 0."]


def _unranked_notes(unranked: Mapping[str, Unranked], *, out_of_fold: bool) -> list[str]:
    scores = "dev and test scores of a student are those" if out_of_fold else "dev score of a student is that"
    notes = {
        "folds": f"Without a dev split, the {scores} of models that learned labels alone, without the teacher.",
        "data": "The teacher was trained on other data, which may include texts of dev and test.",
    }
    names = {reason: [name for name, why in unranked.items() if why == reason] for reason in notes}
    return [f"Not ranked: {join_names(names[reason])}. {note}" for reason, note in notes.items() if names[reason]]
