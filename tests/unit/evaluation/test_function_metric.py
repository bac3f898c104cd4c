"""A metric that is a function: equal to the registered one that it repeats, by the same intervals, tests and choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn

from epigram.core.errors import ParameterError
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.comparison.formats import ends_of, score_text
from epigram.evaluation.comparison.optimism import expected_optimism
from epigram.evaluation.comparison.significance import p_value, verdict
from epigram.evaluation.metrics.function_scores import MOST_RESAMPLES, metric_setting, name_of_function
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.metric_rows import Decided
from epigram.evaluation.metrics.primary import check_metric, in_percent, metric_of, recorded_metric, title_of
from epigram.evaluation.records.results import Task
from epigram.report.page import Scale
from tests.unit.evaluation.test_primary_metric import CORPUS, LABELS, drawn, skewed


def accuracy(gold: Any, predicted: Any) -> float:
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def macro_f1(gold: Any, predicted: Any) -> Any:
    return sklearn.f1_score(gold, predicted, average="macro", zero_division=0)


def recall_of_c(gold: Any, predicted: Any) -> float:
    """Return the share of the texts of c that are found; with arrays of names, an array is compared at once."""
    return float((predicted[gold == "c"] == "c").mean()) if (gold == "c").any() else 0.0


@pytest.mark.parametrize(("function", "task"), [(accuracy, "single"), (macro_f1, "single"), (accuracy, "multi")])
def test_a_function_has_the_score_and_the_interval_of_the_registered_metric(
    function: Callable[..., Any], task: Task
) -> None:
    judged = drawn(task)
    with metric_setting(function, "fit") as setting:
        own = metric_of(setting, task, LABELS)
        found = score_interval(own.rows(judged), resamples=4000, confidence=0.9)
    same = metric_of(function.__name__, task, LABELS)
    wanted = score_interval(same.rows(judged), resamples=4000, confidence=0.9)
    assert own.rows(judged).scores().tolist() == pytest.approx(same.rows(judged).scores().tolist())
    assert own.score(judged) == pytest.approx(same.score(judged))
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.2 * (wanted.high - wanted.low))
    kept = np.arange(240) % 3 > 0
    ours, theirs = (each.rows(judged).rows(kept).scores() for each in (own, same))
    assert ours.tolist() == pytest.approx(theirs.tolist())


def test_the_labels_of_a_resample_are_those_of_drawn_rows() -> None:
    """A resample has as many rows as the data, and the predictions of each of two seeds for the same rows."""
    judged, calls = drawn("single", rows=50), list[tuple[list[str], list[str]]]()

    def recorded(gold: Any, predicted: Any) -> float:
        calls.append((gold.tolist(), predicted.tolist()))
        return 0.0

    with metric_setting(recorded, "fit") as setting:
        rows = metric_of(setting, "single", LABELS).rows(judged)
        score_interval(rows, resamples=2000, confidence=0.9)
    *draws, first, second = calls
    names = np.array(LABELS)
    for whole, predicted, own in ((first, judged.predicted[0], draws[::2]), (second, judged.predicted[1], draws[1::2])):
        assert whole == (names[judged.gold].tolist(), names[predicted].tolist())
        assert len(own) == MOST_RESAMPLES and {len(gold) for gold, _ in own} == {50}
        assert {pair for draw in own for pair in zip(*draw, strict=True)} == {*zip(*whole, strict=True)}
        shares = [np.mean([gold == "a" for gold in draw]) for draw, _ in own]
        assert np.mean(shares) == pytest.approx(np.mean(judged.gold == 0), abs=0.02)
    assert [gold for gold, _ in draws[::2]] == [gold for gold, _ in draws[1::2]]
    assert [said for _, said in draws[::2]] != [said for _, said in draws[1::2]]


def test_of_several_labels_a_row_has_a_list() -> None:
    gold, seen = np.array([[1, 0, 1], [0, 0, 0]], dtype=bool), list[Any]()

    def recorded(gold: Any, predicted: Any) -> int:
        seen.append((gold.tolist(), predicted.tolist()))
        return 1

    with metric_setting(recorded, "fit") as setting:
        metric_of(setting, "multi", LABELS[:3]).score(Decided(gold, ~gold[None], np.zeros((1, 2, 3))))
    assert seen == [([["a", "c"], []], [["b"], ["a", "b", "c"]])]


@pytest.mark.parametrize(("metric", "better"), [("accuracy", "frequent"), (recall_of_c, "rare")])
def test_the_function_chooses_another_system_than_the_accuracy(metric: Any, better: str) -> None:
    """One system is right on 940 of 1,000 rows and 2 of 30 of c, the other one on 875 and on 29 of c."""
    with metric_setting(metric, "fit") as setting:
        systems = {
            name: skewed(right, setting, name) for name, right in (("frequent", [898, 40, 2]), ("rare", [780, 66, 29]))
        }
        summary = compare(CORPUS, systems.values(), 0.05)
        assert recorded_metric(systems["rare"].metrics).name == setting == summary.score
    assert (summary.chosen_system, summary.rows[1].outcome) == (better, "worse")
    assert f"it has the best development {title_of(summary.score)}, " in summary.verdict
    if metric is recall_of_c:
        assert "recall_of_c, 0.9667, and reaches 0.9667 on the test set (95% interval 0." in summary.verdict


def test_the_best_of_ten_systems_can_be_significantly_better() -> None:
    good, bad = (drawn("single", strength=strength, seeds=1) for strength in (3.0, 0.8))
    with metric_setting(accuracy, "fit") as setting:
        one, other = (metric_of(setting, "single", LABELS).rows(each) for each in (good, bad))
        assert p_value(one, other) * 9 < 0.05
        assert [verdict(a, b, 0.05).outcome for a, b in ((one, other), (other, one), (one, one))] == [
            *("better", "worse", "tie")
        ]
        assert 0.0 <= expected_optimism([one, other, one]) < 0.05


def fails(gold: Any, predicted: Any) -> Any:
    raise KeyError("price\nof b")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "returned nan"),
        (math.inf, "returned inf"),
        (None, "returned None"),
        ("0.5", "returned '0.5'"),
        (np.array([0.5, 0.5]), r"returned array\(\[0\.5, 0\.5\]\)"),
        (fails, r"raised KeyError \('price\\nof b'\)"),
    ],
)
def test_what_is_no_number_is_refused_in_one_line(value: Any, said: str) -> None:
    function = value if callable(value) else lambda gold, predicted: value
    name = "fails" if callable(value) else "lambda"
    gold = np.array([0, 1, 1, 3])
    with metric_setting(function, "fit") as setting:
        metric = metric_of(setting, "single", LABELS)
        message = rf"^metric {name} {said} for 4 texts whose right labels are a, b, d; expected a finite number for any"
        with pytest.raises(ParameterError, match=message) as refused:
            metric.score(Decided(gold, gold[None], np.zeros((1, 4, 4))))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(2), True])
def test_every_kind_of_number_is_taken(value: Any) -> None:
    with metric_setting(lambda gold, predicted: value, "fit") as setting:
        metric = metric_of(setting, "single", LABELS)
        assert metric.score(Decided(np.array([0]), np.array([[0]]), np.zeros((1, 1, 4)))) == float(value)


def only_mixed(gold: Any, predicted: Any) -> float:
    return 1.0 / (len({*gold}) - 1)


def only_right(gold: Any, predicted: Any) -> float:
    return 1.0 / sum(one == other for one, other in zip(gold, predicted, strict=True))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (only_mixed, "only_mixed raised ZeroDivisionError .* for 1 texts whose right labels are a;"),
        (only_right, "only_right raised ZeroDivisionError .* for 4 texts"),
        (lambda gold: 1.0, r"lambda raised TypeError .* for 4 texts"),
    ],
)
def test_a_function_that_is_not_defined_for_some_labels_is_refused_before_a_training(function: Any, said: str) -> None:
    data: Any = SimpleNamespace(task="single", labels=LABELS, tokens_only=False)
    with metric_setting(function, "fit") as setting, pytest.raises(ParameterError, match=said):
        check_metric(setting, data, declared=False)


@pytest.mark.parametrize("task", ["single", "multi"])
def test_a_check_calls_the_function_with_labels_of_the_task(task: str) -> None:
    data: Any = SimpleNamespace(task=task, labels=LABELS, tokens_only=False)
    seen: list[Any] = []
    with metric_setting(lambda gold, predicted: seen.append((gold.tolist(), predicted.tolist())) or 1, "fit") as found:
        check_metric(found, data, declared=False)
    right, wrong, alone = seen[0], seen[1], seen[2]
    every = LABELS if task == "single" else [[label] for label in LABELS]
    assert (right, wrong, alone) == ((every, every), (every, [*every[-1:], *every[:-1]]), (every[:1], every[:1]))


UNKNOWN = "metric is the function accuracy, which is not in any file"


def test_the_function_is_known_while_the_setting_is_open() -> None:
    with metric_setting(accuracy, "fit") as setting:
        assert setting == "function:accuracy"
        with metric_setting(macro_f1, "fit"), pytest.raises(ParameterError, match=UNKNOWN):
            metric_of(setting, "single", LABELS)
        assert metric_of(setting, "single", LABELS).title == "accuracy"
    with pytest.raises(ParameterError, match=UNKNOWN):
        metric_of(setting, "single", LABELS)
    for value in (setting, "function", "function:"):
        with pytest.raises(ParameterError, match=r"^fit: metric is "), metric_setting(value, "fit"):
            pass


def test_a_function_is_named_by_itself_or_by_its_class() -> None:
    class Profit:
        def __call__(self, gold: Any, predicted: Any) -> float:
            return 0.0

    assert [name_of_function(each) for each in (accuracy, lambda g, p: 0.0, Profit(), partial(accuracy))] == [
        *("accuracy", "lambda", "Profit", "partial")
    ]


def test_the_score_of_a_function_is_shown_as_it_is() -> None:
    assert not in_percent("function:profit") and in_percent("f1:spam") and not in_percent("cost")
    assert score_text("function:profit", -35.25, "%") == "-35.25" and score_text("function:profit", 0.5) == "0.5"
    assert ends_of("function:profit", -40.0, 12.5) == ["-40", "12.5"]
    wide = Scale.around([(12.5, 35.0)])
    assert (wide.low, wide.high, wide.position(12.5)) == (12.5, 35.0, 0.0)
