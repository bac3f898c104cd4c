"""The primary metric: equal to scikit-learn's functions, and the only score that chooses systems and the champion."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn

from epigram.core.errors import DataError, ParameterError
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.comparison.formats import ends_of, score_text
from epigram.evaluation.comparison.optimism import expected_optimism
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.comparison.significance import p_value, paired_bootstrap, verdict
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.choice import choose_labels
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.metric_rows import Decided
from epigram.evaluation.metrics.primary import PRIMARY, check_metric, is_loss, metric_of, recorded_metric
from epigram.evaluation.metrics.registry import METRICS
from epigram.evaluation.records.results import Evaluated, Task
from epigram.evaluation.records.summary import Corpus
from epigram.evaluation.settings import METRIC_NAMES, CostSetting, MetricSetting, read_metric
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from epigram.models.predict import Predicted
from epigram.monitoring.challenge import decide
from epigram.training.dev_score import metric_score
from tests.support.evaluation_samples import SETTINGS, cost, system

LABELS = ["a", "b", "c", "d"]
PRICES = np.array([[0.0, 2.0, 1.0, 1.0], [5.0, 0.5, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
COST = CostSetting(cost={"a": {"b": 2.0}, "b": {"a": 5.0, "b": 0.5}})
Theirs = Callable[[Any, Any, Any], float]  # of gold labels, predicted labels and probabilities


def f1(average: Any, **more: Any) -> Theirs:
    return lambda gold, said, _: float(
        np.squeeze(sklearn.f1_score(gold, said, average=average, zero_division=0, **more))
    )


SINGLE: dict[str, tuple[MetricSetting, Theirs]] = {
    "accuracy": ("accuracy", lambda gold, said, _: float(sklearn.accuracy_score(gold, said))),
    "macro_f1": ("macro_f1", f1("macro")),
    "micro_f1": ("micro_f1", f1("micro")),
    "weighted_f1": ("weighted_f1", f1("weighted")),
    "f1:c": ("f1:c", f1(None, labels=[2])),
    "balanced_accuracy": (
        "balanced_accuracy",
        lambda gold, said, _: float(sklearn.balanced_accuracy_score(gold, said)),
    ),
    "log_loss": ("log_loss", lambda gold, _, chances: -float(sklearn.log_loss(gold, chances, labels=range(4)))),
    "quadratic_kappa": (
        "quadratic_kappa",
        lambda gold, said, _: float(sklearn.cohen_kappa_score(gold, said, weights="quadratic", labels=range(4))),
    ),
    "cost": (COST, lambda gold, said, _: -float(PRICES[gold, said].mean())),
    "mean_absolute_error": (
        "mean_absolute_error",
        lambda gold, said, _: -float(sklearn.mean_absolute_error(gold, said)),
    ),
}
MULTI: dict[str, tuple[MetricSetting, Theirs]] = {
    **{name: SINGLE[name] for name in ("accuracy", "macro_f1", "micro_f1", "weighted_f1", "f1:c")},
    "log_loss": (
        "log_loss",
        lambda gold, _, p: (
            -float(np.mean([sklearn.log_loss(g, q, labels=[0, 1]) for g, q in zip(gold.T, p.T, strict=True)]))
        ),
    ),
}


def drawn(task: Task, rows: int = 240, seeds: int = 2, strength: float = 2.0, seed: int = 0) -> Decided:
    """Return gold labels and probabilities, of which the most probable ones are often right; label d is never gold."""
    draw = np.random.default_rng(seed)
    labels = draw.choice(3, rows, p=[0.6, 0.3, 0.1])
    gold = np.eye(4, dtype=bool)[labels]
    if task == "multi":
        gold |= draw.random(gold.shape) < [0.2, 0.2, 0.2, 0.0]
    logits = strength * gold + draw.normal(size=(seeds, rows, 4)) - [0, 0, 0, 1]
    if task == "multi":
        chances = 1 / (1 + np.exp(1.0 - logits))
        return Decided(gold, chances > 0.5, chances)
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return Decided(labels, chances.argmax(-1), chances)


CASES = [("single", name) for name in SINGLE] + [("multi", name) for name in MULTI]


@pytest.mark.parametrize(("task", "name"), CASES)
def test_a_metric_is_that_of_scikit_learn(task: Task, name: str) -> None:
    setting, theirs = (SINGLE if task == "single" else MULTI)[name]
    judged = drawn(task)
    wanted = [theirs(judged.gold, said, p) for said, p in zip(judged.predicted, judged.probabilities, strict=True)]
    metric = metric_of(setting, task, LABELS)
    assert metric.rows(judged).scores().tolist() == pytest.approx(wanted)
    assert metric.score(judged) == pytest.approx(np.mean(wanted))


@pytest.mark.parametrize(("task", "name"), CASES)
def test_an_interval_is_that_of_drawing_rows_one_by_one(task: Task, name: str) -> None:
    setting, _ = (SINGLE if task == "single" else MULTI)[name]
    judged, metric = drawn(task), metric_of(setting, task, LABELS)
    found = score_interval(metric.rows(judged), resamples=4000, confidence=0.9)
    draw, scores = np.random.default_rng(1), []
    for _ in range(1000):
        rows = draw.integers(0, 240, 240)
        part = Decided(judged.gold[rows], judged.predicted[:, rows], judged.probabilities[:, rows])
        scores.append(metric.score(part))
    assert found.value == pytest.approx(metric.score(judged))
    assert (found.low, found.high) == pytest.approx(np.quantile(scores, [0.05, 0.95]), abs=0.25 * np.std(scores))


@pytest.mark.parametrize(("task", "name"), CASES)
def test_rows_that_are_left_out_do_not_count(task: Task, name: str) -> None:
    setting, _ = (SINGLE if task == "single" else MULTI)[name]
    judged, metric = drawn(task), metric_of(setting, task, LABELS)
    kept = np.arange(240) % 3 > 0
    part = Decided(judged.gold[kept], judged.predicted[:, kept], judged.probabilities[:, kept])
    assert metric.rows(judged).rows(kept).scores().tolist() == pytest.approx(metric.rows(part).scores().tolist())


@pytest.mark.parametrize(("task", "name"), CASES)
def test_a_difference_is_found_and_none_is_not(task: Task, name: str) -> None:
    setting, _ = (SINGLE if task == "single" else MULTI)[name]
    metric = metric_of(setting, task, LABELS)
    good, bad, other = (
        metric.rows(drawn(task, strength=strength, seeds=seeds)) for strength, seeds in ((3.0, 1), (0.8, 1), (3.0, 2))
    )
    assert verdict(good, bad, 0.05).outcome == "better"
    assert verdict(bad, good, 0.05).outcome == "worse"
    assert verdict(good, good, 0.05).outcome == "tie"
    assert verdict(other, bad, 0.05).outcome == "better"
    assert (
        expected_optimism([good, bad, good]) < expected_optimism([bad, bad, metric.rows(drawn(task, seeds=1))]) + 0.05
    )


def test_only_right_and_wrong_rows_are_compared_by_mcnemar() -> None:
    """The second system is a little worse on 39 rows and much better on one: fewer rows, but the lower loss."""
    gold = np.zeros(40, np.int64)
    one, other = (np.stack([p, 1 - p], 1)[None] for p in (np.r_[[0.61] * 39, 1e-6], np.r_[[0.6] * 39, 0.6]))
    loss = metric_of("log_loss", "single", LABELS[:2])
    a, b = (loss.rows(Decided(gold, p.argmax(-1), p)) for p in (one, other))
    assert not a.right_or_wrong
    assert p_value(a, b) == paired_bootstrap(a, b) > 0.05
    accuracy = metric_of("accuracy", "single", LABELS[:2])
    c, d = (accuracy.rows(Decided(gold, p.argmax(-1), p)) for p in (one, other))
    assert p_value(c, d) == 1.0  # McNemar's: one row differs


@pytest.mark.parametrize(
    ("setting", "task", "message"),
    [
        ("f1:e", "single", "metric has 'e', which is not a label: allowed: a, b, c, d"),
        ("f1:", "single", "metric has '', which is not a label: allowed: a, b, c, d"),
        ("balanced_accuracy", "multi", "metric is 'balanced_accuracy', which needs one label per text"),
        ("quadratic_kappa", "multi", "metric is 'quadratic_kappa', which needs one label per text"),
        (COST, "multi", "metric is 'cost', which needs one label per text"),
        (CostSetting(cost={"a": {"x": 1.0}}), "single", "metric.cost has 'x', which is not a label"),
        ("token_f1", "single", "metric is 'token_f1', but texts have labels of their own; set it to auto"),
    ],
)
def test_a_metric_that_does_not_suit_the_data_is_refused(setting: MetricSetting, task: Task, message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        metric_of(setting, task, LABELS)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "declared", "suits"),
    [(["1", "2", "10"], False, True), (["good", "bad"], True, True), (["1", "good"], False, False)],
)
@pytest.mark.parametrize("name", ["quadratic_kappa", "mean_absolute_error"])
def test_two_metrics_need_labels_in_an_order(name: str, labels: list[str], declared: bool, suits: bool) -> None:
    data: Any = SimpleNamespace(task="single", labels=labels, tokens_only=False)
    with nullcontext() if suits else pytest.raises(ParameterError, match="the labels have no order; name them"):
        check_metric(name, data, declared=declared)


def test_the_absolute_error_is_of_numbers_and_its_best_prediction_is_the_median() -> None:
    gold, chances = np.array([0, 2]), np.array([[[0.4, 0.35, 0.25], [0.4, 0.35, 0.25]]])
    numbers = metric_of("mean_absolute_error", "single", ["1", "2", "10"])
    assert numbers.rows(Decided(gold, np.array([[1, 0]]), chances)).scores().tolist() == [-(1 + 9) / 2]
    names = metric_of("mean_absolute_error", "single", ["bad", "fair", "good"])
    assert names.rows(Decided(gold, np.array([[1, 0]]), chances)).scores().tolist() == [-(1 + 2) / 2]
    assert choose_labels(chances[0], names.prices).tolist() == [1, 1]  # the most probable label is the first


def test_only_the_score_of_words_suits_data_whose_words_alone_have_labels() -> None:
    assert metric_of("auto", "single", LABELS, words_only=True).name == "token_f1"
    with pytest.raises(ParameterError, match="only words have labels"):
        metric_of("macro_f1", "single", LABELS, words_only=True)


@pytest.mark.parametrize(
    "value", ["f1", "cost", "auto:x", "macrof1", 3, None, {"price": {}}, {"cost": {"a": {"b": -1}}}]
)
def test_a_value_that_is_no_metric_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^params\.yaml: metric"):
        read_metric(value, "params.yaml")


def test_labels_that_are_numbers_may_have_prices() -> None:
    setting = read_metric({"cost": {1: {5: 4}}}, "params.yaml")
    assert (
        metric_of(setting, "single", ["1", "5"]).score(
            Decided(np.array([0, 1]), np.array([[1, 1]]), np.ones((1, 2, 2)))
        )
        == -2
    )


def test_every_registered_metric_is_a_value_of_the_setting() -> None:
    assert {*METRIC_NAMES} - {"auto"} == PRIMARY.keys() - {"f1", "cost", "function"}


def test_titles_are_those_of_the_metrics_of_labels() -> None:
    assert {name: PRIMARY[name].title for name in PRIMARY.keys() & METRICS} == {
        name: METRICS[name].title for name in PRIMARY.keys() & METRICS
    }


def test_a_loss_is_shown_as_a_positive_number() -> None:
    assert (score_text("log_loss", -0.34567), ends_of("log_loss", -0.4, -0.3)) == ("0.3457", ["0.3", "0.4"])
    assert (score_text("macro_f1", 0.8312, "%"), ends_of("f1:spam", 0.4, 0.5)) == ("83.1%", ["40.0", "50.0"])


def skewed(right: list[int], metric: MetricSetting, name: str) -> Evaluated:
    """Return a system that is right on so many of 900 rows of a, 70 of b and 30 of c; a wrong one is the next label."""
    labels = np.repeat([0, 1, 2], [900, 70, 30])
    place = np.concatenate([np.arange(count) for count in (900, 70, 30)])
    said = np.where(place < np.array(right)[labels], labels, (labels + 1) % 3)
    truth = GoldSplit(labels=labels, rows=np.arange(1000), texts=["x"] * 1000, in_train=np.zeros(1000, bool))
    output = SystemOutput(probabilities=(0.1 + 0.7 * np.eye(3)[said])[None])
    target = Target(task="single", labels=LABELS[:3], metric=metric_of(metric, "single", LABELS[:3]))
    splits = {"dev": truth, "test": truth, "dev_output": output, "test_output": output}
    return evaluate_system(name, target, seeds=[0], costs=[cost()], settings=SETTINGS, **splits)


ROWS = {"train": 9, "dev": 9, "test": 9}
CORPUS = Corpus(name="x", language="en", task="single", labels=LABELS[:3], rows=ROWS, notes=[])
COSTLY = CostSetting(cost={"c": {"a": 100.0}})


@pytest.mark.parametrize(
    ("metric", "better"),
    [
        ("auto", "frequent"),
        ("accuracy", "frequent"),
        ("macro_f1", "rare"),
        ("balanced_accuracy", "rare"),
        ("f1:c", "rare"),
        (COSTLY, "rare"),
    ],
)
def test_the_metric_chooses_the_system_and_the_champion(metric: MetricSetting, better: str) -> None:
    """One system is right on 940 of 1,000 rows, the other one on 875, and on almost all of the rare labels."""
    rights = {"frequent": [898, 40, 2], "rare": [780, 66, 29]}
    systems = {name: skewed(right, metric, name) for name, right in rights.items()}
    summary = compare(CORPUS, systems.values(), 0.05)
    assert (summary.chosen_system, summary.rows[1].outcome) == (better, "worse")
    primary = recorded_metric(systems["rare"].metrics)
    assert summary.score == primary.name
    predictions = {
        name: predict_labels("single", each.dev.labels, each.dev.probabilities, np.zeros((1, 0)), prices=primary.prices)
        for name, each in systems.items()
    }
    for new, old in (("rare", "frequent"), ("frequent", "rare")):
        found = decide(
            predictions[new], predictions[old], LABELS, metric=primary, names=(new, old), alpha=0.05, margin=1.0
        )
        assert found.promoted == (new == better)


def test_the_report_of_a_loss_has_positive_numbers() -> None:
    systems = [skewed(right, "log_loss", name) for name, right in (("good", [890, 60, 25]), ("bad", [700, 40, 5]))]
    summary = compare(CORPUS, systems, 0.05)
    assert is_loss(summary.score)
    best = summary.rows[0]
    assert best.system == "good" and best.test_low < best.test_score < best.test_high < 0
    assert f"it has the best development log loss, {-best.dev_score:.4g}, and reaches" in summary.verdict
    assert f"(95% interval {-best.test_high:.4g} to {-best.test_low:.4g})" in summary.verdict
    assert "-" not in summary.verdict.replace("95%", "")


def test_systems_that_were_scored_by_different_metrics_are_not_compared() -> None:
    systems = [system("one", [{1}], [{1}]), system("other", [{2}], [{2}], metric="macro_f1")]
    with pytest.raises(DataError, match="evaluated on different metric"):
        compare(CORPUS, systems, 0.05)


def test_the_interval_of_a_loss_is_not_cut_at_the_bounds_of_a_share() -> None:
    judged = drawn("single", seeds=1)
    rows = metric_of("log_loss", "single", LABELS).rows(judged, spread=2.0)
    wide, narrow = (score_interval(each, resamples=500, confidence=0.95) for each in (rows, replace(rows, spread=1.0)))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high < 0


SPAM = CostSetting(cost={"ham": {"spam": 5.0}})  # an unread letter costs 5, a read advertisement 1


@pytest.mark.parametrize(("spam", "chosen"), [(0.5, 0), (0.83, 0), (0.84, 1), (1.0, 1), (0.0, 0)])
def test_a_cost_chooses_the_label_with_the_least_expected_price(spam: float, chosen: int) -> None:
    """Spam is expected to cost 5·(1 − p) and ham p: they are equal at p = 5/6 = 0.833."""
    probabilities = np.array([1 - spam, spam])
    prices = metric_of(SPAM, "single", ["ham", "spam"]).prices
    assert choose_labels(probabilities, prices) == chosen
    assert choose_labels(probabilities[None, None], prices).tolist() == [[chosen]]
    assert choose_labels(probabilities) == (spam > 0.5)


def test_every_score_is_of_the_labels_that_the_cost_chooses() -> None:
    """Of 8 ham and 2 spam, all with p(spam) = 0.6, ham is chosen: 8 are right, and the 2 wrong ones cost 0.2 a text."""
    gold = np.repeat([0, 1], [8, 2])
    truth = GoldSplit(labels=gold, rows=np.arange(10), texts=["x"] * 10, in_train=np.zeros(10, bool))
    output = SystemOutput(probabilities=np.full((1, 10, 2), [0.4, 0.6]))
    target = Target(task="single", labels=["ham", "spam"], metric=metric_of(SPAM, "single", ["ham", "spam"]))
    splits = {"dev": truth, "test": truth, "dev_output": output, "test_output": output}
    found = evaluate_system("one", target, seeds=[0], costs=[cost()], settings=SETTINGS, **splits)
    metrics = found.metrics
    assert (metrics.dev_score.value, metrics.test.accuracy) == (pytest.approx(-0.2), 0.8)
    assert [(gold, said, rows) for gold, said, rows in metrics.confusion if rows] == [(0, 0, 8), (1, 0, 2)]
    assert scored_system(found).dev.scores().mean() == pytest.approx(-0.2)
    predicted = Predicted(np.log(output.probabilities[0]).astype(np.float32), None, multi=False)
    assert metric_score(predicted, gold, target.metric) == pytest.approx(-0.2)  # of an epoch or of a trial
    sure = predict_labels("single", gold, output.probabilities, np.zeros((1, 0)), prices=target.metric.prices)
    for each in (sure, sure.seed(0), sure.mean(), sure.at_temperature(1.0)):
        assert each.predicted.tolist() == [[0] * 10]
        assert np.asarray(each.confidence) == pytest.approx(0.4)  # type: ignore[attr-defined]
