"""Tests of metrics: scores equal those of scikit-learn, and a system's results survive saving and loading."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn import metrics as sklearn

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics import counts as metrics
from epigram.evaluation.metrics.intervals import macro_f1_interval
from epigram.evaluation.metrics.multi_label import MultiLabelPredictions
from epigram.evaluation.records.results import SPLITS, read_evaluation, write_evaluation
from epigram.evaluation.splits import SystemOutput, Target
from tests.support.evaluation_samples import SETTINGS, cost, probabilities, split, system

TWO = Target(task="single", labels=["neg", "pos"])


@pytest.fixture
def predictions() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 5, 400)
    return labels, np.where(generator.random(400) < 0.6, labels, generator.integers(0, 5, 400))


def test_single_label_scores_are_those_of_scikit_learn(predictions):
    labels, said = predictions
    matrix = metrics.confusion(labels, said, 5)
    scores = metrics.scores(metrics.label_counts(labels, said, 5))
    assert np.array_equal(matrix, sklearn.confusion_matrix(labels, said))
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(labels, said))
    assert scores.hamming_loss == pytest.approx(sklearn.hamming_loss(labels, said))
    for average in ("macro", "micro", "weighted"):
        assert getattr(scores, f"{average}_f1") == pytest.approx(sklearn.f1_score(labels, said, average=average))


@pytest.mark.parametrize("classes", [16, 17, 256, 300])
def test_the_confusion_of_labels_in_a_small_type_is_that_of_scikit_learn(classes):
    labels = np.repeat(np.arange(classes), 2).astype(np.min_scalar_type(classes - 1))
    said = np.roll(labels, 1)
    assert np.array_equal(metrics.confusion(labels, said, classes), sklearn.confusion_matrix(labels, said))


def test_per_class_table_is_that_of_scikit_learn(predictions):
    labels, said = predictions
    counts = metrics.label_counts(labels, said, 5)
    table = metrics.per_class(counts.hits, counts.predicted, counts.support)
    precision, recall, f1, _ = sklearn.precision_recall_fscore_support(labels, said)
    for ours, theirs in ((table.precision, precision), (table.recall, recall), (table.f1, f1)):
        assert ours == pytest.approx(theirs)


def test_a_label_that_never_occurs_does_not_lower_macro_f1():
    labels = np.array([0, 1, 1, 0])
    assert metrics.scores(metrics.label_counts(labels, labels, 3)).macro_f1 == 1.0


def test_a_label_never_predicted_scores_zero_without_a_warning():
    scores = metrics.scores(metrics.label_counts(np.array([0, 1]), np.array([0, 0]), 2))
    assert scores.macro_f1 == pytest.approx((2 / 3) / 2)


def test_multi_label_scores_are_those_of_scikit_learn():
    generator = np.random.default_rng(1)
    gold, said = generator.random((300, 6)) < 0.3, generator.random((300, 6)) < 0.35
    scores = metrics.multi_label_scores(gold, said)
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(gold, said))
    assert scores.hamming_loss == pytest.approx(sklearn.hamming_loss(gold, said))
    assert scores.micro_precision == pytest.approx(sklearn.precision_score(gold, said, average="micro"))
    assert scores.micro_recall == pytest.approx(sklearn.recall_score(gold, said, average="micro"))
    for average in ("macro", "micro", "weighted"):
        assert getattr(scores, f"{average}_f1") == pytest.approx(sklearn.f1_score(gold, said, average=average))


def test_several_labels_of_which_one_never_occurs_score_as_in_scikit_learn():
    generator = np.random.default_rng(2)
    gold, said = generator.random((300, 4)) < 0.3, generator.random((300, 4)) < 0.35
    gold[:, 2] = said[:, 2] = False
    judged = MultiLabelPredictions(said[None].astype(float), said[None], gold)
    wanted = sklearn.f1_score(gold, said, average="macro", zero_division=0)
    assert metrics.multi_label_scores(gold, said).macro_f1 == pytest.approx(wanted)
    found = macro_f1_interval(judged, resamples=200, confidence=0.95)
    assert found.value == pytest.approx(wanted)
    assert found.low < wanted < found.high < 0.75


def test_seeds_are_averaged_and_kept_apart():
    metrics_of = system("demo", [{1, 2}, set()], [{1, 2, 3, 4}, set()]).metrics
    assert [seed.test.accuracy for seed in metrics_of.seeds] == [0.96, 1.0]
    assert metrics_of.test.accuracy == pytest.approx(0.98)
    assert metrics_of.test_score.value == pytest.approx(0.98)
    assert sum(rows for *_, rows in metrics_of.confusion) == 200
    assert [each.support for each in metrics_of.classes] == [50, 50]


def test_surest_mistakes_come_first_with_their_texts():
    chances = probabilities(split(20, 2), [{3, 4}], 2)
    chances[0, 4] = [0.05, 0.95]
    truth = split(20, 2, first=50, text="ab")
    said = SystemOutput(probabilities=chances)
    known = {"seeds": [0], "dev": truth, "test": truth, "dev_output": said, "test_output": said, "costs": [cost()]}
    evaluation = evaluate_system("demo", TWO, settings=SETTINGS, **known)
    first, second = evaluation.metrics.mistakes
    assert (first.row, first.gold, first.predicted) == (54, ["neg"], ["pos"])
    assert first.probability == pytest.approx(0.95)
    assert first.text == "ab" * 5
    assert second.row == 53


def test_a_very_long_text_is_shortened_in_the_mistakes():
    assert len(system("demo", [{6}], [{6}], text="x" * 50_000).metrics.mistakes[0].text) < 500


def test_multi_label_evaluation_ranks_by_micro_f1_and_has_no_confusion_matrix():
    numbers = system("demo", [{1}], [{1, 2}], labels=("a", "b", "c"), task="multi").metrics
    assert numbers.score == "micro_f1"
    assert numbers.confusion == []
    assert len(numbers.seeds[0].thresholds) == 3
    assert numbers.test_score.value == pytest.approx(numbers.test.micro_f1)
    assert numbers.test_score.low <= numbers.test_score.value <= numbers.test_score.high


def test_an_evaluation_survives_the_disk(tmp_path):
    evaluation = system("demo", [{1}, {2}], [{3}, {4}])
    write_evaluation(tmp_path / "demo", evaluation)
    back = read_evaluation(tmp_path / "demo")
    assert back.metrics == evaluation.metrics
    for name in SPLITS:
        kept, given = back.split(name).arrays(), evaluation.split(name).arrays()
        assert kept.keys() == given.keys() == {"probabilities", "labels", "rows"}
        for key, array in given.items():
            assert (kept[key].dtype, kept[key].shape) == (array.dtype, array.shape)
            assert np.array_equal(kept[key], array)


def test_a_missing_or_foreign_evaluation_is_named(tmp_path):
    with pytest.raises(InputMissingError, match=r"metrics\.json"):
        read_evaluation(tmp_path / "none")
    write_evaluation(tmp_path / "demo", system("demo", [set()], [set()]))
    path = tmp_path / "demo" / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "confidence": "high"}))
    with pytest.raises(DataError, match="confidence"):
        read_evaluation(tmp_path / "demo")


def test_a_diverged_seed_is_named():
    truth = split(10, 2)
    chances = probabilities(truth, [set(), set()], 2)
    broken = chances.copy()
    broken[1, 0] = np.nan
    with pytest.raises(ParameterError, match=r"systems\.demo: seed 7 .*learning rate"):
        evaluate_system(
            "demo",
            TWO,
            seeds=[3, 7],
            dev=truth,
            test=truth,
            dev_output=SystemOutput(probabilities=chances),
            test_output=SystemOutput(probabilities=broken),
            costs=[cost(), cost()],
            settings=SETTINGS,
        )
