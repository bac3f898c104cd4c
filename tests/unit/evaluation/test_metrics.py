"""Metrics of texts: scores equal those of scikit-learn, thresholds come from dev, and results survive saving."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn import metrics as sklearn

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics import counts as metrics
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.multi_label import MultiLabelPredictions
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.metrics.registry import METRICS, scores_of, sentence_scores
from epigram.evaluation.records.pruning_record import Point, PruningRecord, SeedPruning
from epigram.evaluation.records.results import SPLITS, Evaluated, Metrics, Scores, read_evaluation, write_evaluation
from epigram.evaluation.records.split_record import SplitRecord
from epigram.evaluation.splits import SystemOutput, Target
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from tests.support.evaluation_samples import SETTINGS, cost, probabilities, split, system, words

TWO = Target(task="single", labels=["neg", "pos"], metric=metric_of("auto", "single", []))


@pytest.fixture
def predictions() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 5, 400)
    return labels, np.where(generator.random(400) < 0.6, labels, generator.integers(0, 5, 400))


def test_single_label_scores_are_those_of_scikit_learn(predictions):
    labels, said = predictions
    matrix = metrics.confusion(labels, said, 5)
    scores = scores_of(metrics.label_counts(labels, said[None], 5))[0]
    assert np.array_equal(matrix, sklearn.confusion_matrix(labels, said))
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(labels, said))
    assert scores.hamming_loss == pytest.approx(sklearn.hamming_loss(labels, said))
    assert scores.macro_recall == pytest.approx(sklearn.recall_score(labels, said, average="macro"))
    for average in ("macro", "micro", "weighted"):
        assert getattr(scores, f"{average}_f1") == pytest.approx(sklearn.f1_score(labels, said, average=average))


@pytest.mark.parametrize("classes", [16, 17, 256, 300])
def test_the_confusion_of_labels_in_a_small_type_is_that_of_scikit_learn(classes):
    labels = np.repeat(np.arange(classes), 2).astype(np.min_scalar_type(classes - 1))
    said = np.roll(labels, 1)
    assert np.array_equal(metrics.confusion(labels, said, classes), sklearn.confusion_matrix(labels, said))


def test_the_registry_has_every_metric_of_the_results():
    assert list(METRICS) == [field.name for field in fields(Scores)]


def test_per_class_table_is_that_of_scikit_learn(predictions):
    labels, said = predictions
    counts = metrics.label_counts(labels, said[None], 5)
    table = metrics.per_class(counts.hits[0], counts.predicted[0], counts.support)
    precision, recall, f1, _ = sklearn.precision_recall_fscore_support(labels, said)
    for ours, theirs in ((table.precision, precision), (table.recall, recall), (table.f1, f1)):
        assert ours == pytest.approx(theirs)


def test_a_label_that_never_occurs_does_not_lower_macro_f1():
    labels = np.array([0, 1, 1, 0])
    assert scores_of(metrics.label_counts(labels, labels[None], 3))[0].macro_f1 == 1.0


def test_macro_recall_counts_the_labels_of_gold_and_predictions() -> None:
    """Recalls: 1/2 of label 0, 2/3 of label 1, 0 of label 2, which only is predicted; label 3 does not occur."""
    gold, said = np.array([0, 0, 1, 1, 1]), np.array([0, 2, 1, 1, 0])
    score = scores_of(metrics.label_counts(gold, said[None], 4))[0].macro_recall
    assert score == pytest.approx((1 / 2 + 2 / 3 + 0) / 3)
    assert score == pytest.approx(sklearn.recall_score(gold, said, average="macro", zero_division=0))


@pytest.mark.parametrize("plain", [0, 1, 2])
def test_the_pooled_precision_and_recall_of_texts_leave_out_the_plain_label(plain: int) -> None:
    generator = np.random.default_rng(3)
    gold, said = generator.integers(0, 3, 90), generator.integers(0, 3, (2, 90))
    for found, seed in zip(sentence_scores(metrics.label_counts(gold, said, 3), plain), said, strict=True):
        hits, predicted, marked = ((seed == gold) & (gold != plain)).sum(), (seed != plain).sum(), (gold != plain).sum()
        assert (found.precision, found.recall) == pytest.approx((hits / predicted, hits / marked))
        assert found.f1 == pytest.approx(2 * hits / (predicted + marked))


def test_a_label_never_predicted_scores_zero_without_a_warning():
    scores = scores_of(metrics.label_counts(np.array([0, 1]), np.array([[0, 0]]), 2))[0]
    assert scores.macro_f1 == pytest.approx((2 / 3) / 2)


def test_multi_label_scores_are_those_of_scikit_learn():
    generator = np.random.default_rng(1)
    gold, said = generator.random((300, 6)) < 0.3, generator.random((300, 6)) < 0.35
    scores = scores_of(metrics.multi_label_counts(gold, said[None]))[0]
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(gold, said))
    assert scores.hamming_loss == pytest.approx(sklearn.hamming_loss(gold, said))
    assert scores.micro_precision == pytest.approx(sklearn.precision_score(gold, said, average="micro"))
    assert scores.micro_recall == pytest.approx(sklearn.recall_score(gold, said, average="micro"))
    assert scores.macro_recall == pytest.approx(sklearn.recall_score(gold, said, average="macro"))
    for average in ("macro", "micro", "weighted"):
        assert getattr(scores, f"{average}_f1") == pytest.approx(sklearn.f1_score(gold, said, average=average))


def test_several_labels_of_which_one_never_occurs_score_as_in_scikit_learn():
    generator = np.random.default_rng(2)
    gold, said = generator.random((300, 4)) < 0.3, generator.random((300, 4)) < 0.35
    gold[:, 2] = said[:, 2] = False
    judged = MultiLabelPredictions(said[None].astype(float), said[None], gold)
    wanted = sklearn.f1_score(gold, said, average="macro", zero_division=0)
    assert scores_of(metrics.multi_label_counts(gold, said[None]))[0].macro_f1 == pytest.approx(wanted)
    found = score_interval(metric_of("macro_f1", "multi", []).rows(judged), resamples=200, confidence=0.95)
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


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Return gold labels and rounded, tied probabilities: three labels on different scales and a rare fourth."""
    generator = np.random.default_rng(2)
    gold = generator.random((400, 4)) < [0.1, 0.4, 0.7, 0.005]
    chances = np.clip(0.3 * gold + generator.random((400, 4)) * 0.5, 0, 1) * [0.3, 0.6, 1.0, 1.0]
    return gold, np.round(chances, 2)


def micro_f1(gold: np.ndarray, chances: np.ndarray, cuts: np.ndarray | float) -> float:
    return float(sklearn.f1_score(gold, chances > cuts, average="micro", zero_division=0))


def test_no_threshold_of_a_frequent_label_can_move_and_raise_micro_f1() -> None:
    gold, chances = drawn()
    cuts = tuned_thresholds(gold, chances)
    reached = micro_f1(gold, chances, cuts)
    for c in range(3):
        for other in np.unique(chances[:, c]):
            moved = cuts.copy()
            moved[c] = other
            assert micro_f1(gold, chances, moved) <= reached + 1e-9
    assert reached > max(micro_f1(gold, chances, t) for t in np.unique(chances)) + 0.03


def test_each_label_has_the_threshold_of_its_own_f1() -> None:
    """The thresholds of the frequent labels have the best F1 of each label, and a higher macro-F1 than the others."""
    generator = np.random.default_rng(1)
    gold = generator.random((400, 3)) < [0.08, 0.4, 0.7]
    chances = np.round(np.clip(0.12 * gold + generator.random((400, 3)) * 0.5, 0, 1), 2)
    cuts, common = tuned_thresholds(gold, chances, per_label=True), tuned_thresholds(gold, chances)
    for c in range(3):
        best = max(sklearn.f1_score(gold[:, c], chances[:, c] > t, zero_division=0) for t in np.unique(chances[:, c]))
        assert sklearn.f1_score(gold[:, c], chances[:, c] > cuts[c]) == pytest.approx(best)
    macro = [sklearn.f1_score(gold, chances > each, average="macro", zero_division=0) for each in (cuts, common)]
    assert macro[0] > macro[1]


def test_a_rare_label_takes_the_best_threshold_of_all_labels_together() -> None:
    gold, chances = drawn()
    together = max(micro_f1(gold, chances, t) for t in np.unique(chances))
    assert gold[:, 3].sum() == 2
    assert micro_f1(gold, chances, tuned_thresholds(gold, chances)[3]) == pytest.approx(together)


@pytest.mark.parametrize(("rows", "own"), [(20, True), (19, False)])
def test_twenty_gold_rows_give_a_label_its_own_threshold(rows: int, own: bool) -> None:
    """The first label is parted at 0.5, the second at 0.2: a common threshold cannot part both."""
    gold, chances = np.zeros((200, 2), bool), np.full((200, 2), 0.1)
    gold[:100, 0], chances[:, 0] = True, 0.4
    chances[:100, 0] = 0.6
    gold[:rows, 1], chances[:rows, 1] = True, 0.3
    low, high = tuned_thresholds(gold, chances)[::-1]
    assert high == pytest.approx(0.5)
    assert low == pytest.approx(0.2 if own else 0.5)


def test_a_label_whose_probabilities_are_neighbours_is_told_apart() -> None:
    gold = np.arange(60)[:, None] < 30
    for upper in (np.float32(1.0), np.float32(0.3)):
        chances = np.where(gold, upper, np.nextafter(upper, np.float32(0)))
        cuts = np.array(tuned_thresholds(gold, chances).tolist(), np.float32)  # the values in config.json
        np.testing.assert_array_equal(chances > cuts, gold)


def test_no_gold_row_leaves_the_middle() -> None:
    assert tuned_thresholds(np.zeros((4, 1), bool), np.array([[0.1], [0.2], [0.6], [0.9]])) == 0.5


def test_thresholds_of_single_precision_part_what_they_parted_before_they_were_written_down() -> None:
    generator = np.random.default_rng(0)
    gold, chances = generator.random((500, 4)) < 0.4, generator.random((500, 4), dtype=np.float32)
    cuts = tuned_thresholds(gold, chances)
    again = np.array(cuts.tolist(), np.float32)  # the values in config.json
    np.testing.assert_array_equal(chances > again, chances > cuts)


def evaluated(*, plain: int, test: np.ndarray) -> Metrics:
    """Return the metrics on eight texts of the classes 0, 1, 0, 1, …; dev is predicted right with probability 0.9."""
    truth = replace(split(8, 2), words=words(8))
    right = np.where(truth.labels[:, None] == np.arange(2), 0.9, 0.1)
    return evaluate_system(
        "mine",
        Target(task="single", labels=["no", "yes"], metric=metric_of("auto", "single", []), plain=plain),
        seeds=[0],
        dev=truth,
        test=truth,
        dev_output=SystemOutput(probabilities=right[None]),
        test_output=SystemOutput(probabilities=test[None]),
        costs=[cost()],
        settings=SETTINGS,
    ).metrics


def test_the_reliability_diagram_shows_the_test_set() -> None:
    """Every test text is predicted as class 0 with probability 0.6, which is right for half of them."""
    filled = [each for each in evaluated(plain=0, test=np.tile([0.6, 0.4], (8, 1))).reliability if each.count]
    assert [each.count for each in filled] == [8]
    assert (filled[0].confidence, filled[0].accuracy) == pytest.approx((0.6, 0.5))


@pytest.mark.parametrize(("plain", "scores"), [(0, (0.0, 0.0, 0.0)), (1, (1 / 2, 1.0, 2 / 3))])
def test_the_scores_of_texts_leave_out_the_plain_class(plain: int, scores: tuple[float, float, float]) -> None:
    """All texts are predicted as class 0: its recall is 1 and its precision a half; class 1 is never predicted."""
    found = evaluated(plain=plain, test=np.tile([0.6, 0.4], (8, 1)))
    assert found.plain == ["no", "yes"][plain]
    assert found.sentence_f1 is not None
    assert found.sentence_f1.value == pytest.approx(scores[2])
    assert found.test_sentences == found.seeds[0].test_sentences is not None
    assert (found.test_sentences.precision, found.test_sentences.recall, found.test_sentences.f1) == scores


def test_the_thresholds_of_the_models_label_dev_and_test_and_are_those_of_the_report() -> None:
    """Dev says 0.5; above 0.85, no label is predicted."""
    truth = split(8, 2, task="multi")
    known = np.where(truth.labels > 0, 0.8, 0.2).astype(np.float32)[None]
    found = [
        evaluate_system(
            "student",
            Target(task="multi", labels=["no", "yes"], metric=metric_of("auto", "multi", [])),
            seeds=[0],
            dev=truth,
            test=truth,
            dev_output=SystemOutput(probabilities=known),
            test_output=SystemOutput(probabilities=known),
            costs=[cost()],
            settings=SETTINGS,
            thresholds=thresholds,
        )
        for thresholds in (None, np.array([[0.85, 0.9]], np.float32))
    ]
    assert [each.metrics.test_score.value for each in found] == [1.0, 0.0]
    assert [each.metrics.dev_score.value for each in found] == [1.0, 0.0]
    own, stored = (each.metrics.seeds[0].thresholds for each in found)
    assert (own, stored) == (pytest.approx([0.5, 0.5]), pytest.approx([0.85, 0.9]))
    assert [scored_system(each).test.scores()[0] for each in found] == [1.0, 0.0]


@pytest.mark.parametrize(("split", "counted"), [("dev", [2, 0, 2, 0]), ("test", [2, 1, 1, 2])])
def test_the_labels_of_dev_and_test_are_above_the_thresholds_of_the_model(split: str, counted: list[int]) -> None:
    """The threshold is 0.3, between the labels of dev; one tuned on test, above 0.6, would predict two rows right."""
    dev, test = (
        SplitRecord(probabilities=np.array([[[p] for p in said]]), labels=np.array(gold)[:, None], rows=np.arange(4))
        for said, gold in (([0.4, 0.2, 0.45, 0.1], [1, 0, 1, 0]), ([0.9, 0.5, 0.6, 0.8], [1, 0, 0, 1]))
    )
    metrics: Any = SimpleNamespace(
        score="micro_f1",
        cost=None,
        task="multi",
        labels=["a"],
        decision="threshold",
        seeds=[SimpleNamespace(thresholds=[0.3])],
    )
    evaluation = Evaluated(metrics=metrics, dev=dev, test=test)
    assert getattr(scored_system(evaluation), split).possible.tolist() == [counted]


def test_arrays_with_other_names_are_refused(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "one", system("one", [{1}], [{2}]))
    file = tmp_path / "one/predictions.safetensors"
    save_file({**load_file(file), "dev_lables": np.zeros(1)}, file)
    with pytest.raises(DataError, match=r"has unknown arrays dev_lables; delete .*one and run dvc repro"):
        read_evaluation(tmp_path / "one")


POINT = Point(depth=1, classifier_score=0.5, parameters=7, flops=9)
SEED = SeedPruning(
    seed=3, layered=True, reason="r", accepted=True, threshold=0.7, score="s", depth_full=2, depth=1, tradeoff=[POINT]
)
FLAT = SeedPruning(seed=4, layered=False, reason="no layers")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    PruningRecord(seeds=[SEED, FLAT]).write(tmp_path)
    assert PruningRecord.read(tmp_path) == PruningRecord(seeds=[SEED, FLAT])


def test_a_system_without_the_file_was_not_pruned(tmp_path: Path) -> None:
    assert PruningRecord.read(tmp_path) is None


def test_the_record_of_a_finished_seed_is_restored_exactly() -> None:
    restored = SeedPruning.from_dict(json.loads(json.dumps(asdict(SEED))))
    assert restored == SEED
    assert json.dumps(asdict(restored)) == json.dumps(asdict(SEED))  # 7, not 7.0
