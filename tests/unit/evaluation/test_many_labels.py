"""Tests of evaluations with many labels: exact scores, files that are read only where they are used, little memory."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn import metrics as sklearn

from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.ensemble.build_ensemble import build
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.results import Evaluated, read_evaluation, write_evaluation
from epigram.evaluation.records.split_record import SplitRecord
from epigram.evaluation.records.summary import Corpus
from epigram.evaluation.settings import EnsembleSettings, EvaluateSettings
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from tests.support.evaluation_samples import corpus, cost

CLASSES, ROWS = 40, 600
SETTINGS = EvaluateSettings(resamples=200, surest_errors=5)


def labelled(rows: int, classes: int = CLASSES) -> GoldSplit:
    labels = np.random.default_rng(rows).integers(0, classes, rows)
    return GoldSplit(labels=labels, rows=np.arange(rows), texts=["text"] * rows, in_train=np.zeros(rows, np.bool_))


def drawn(truth: GoldSplit, seed: int, right: float = 2.0, classes: int = CLASSES) -> np.ndarray:
    """Return probabilities (N, C) in double precision; a larger `right` makes them better."""
    logits = np.random.default_rng(seed).normal(0, 1.5, (len(truth.labels), classes))
    return np.asarray(softmax(logits + right * np.eye(classes)[truth.labels], axis=-1))


DEV, TEST = labelled(ROWS), labelled(ROWS + 1)
ON_DEV, ON_TEST = (np.stack([drawn(truth, seed) for seed in (1, 2)]) for truth in (DEV, TEST))


def evaluated(
    name: str = "mine",
    *,
    dev: np.ndarray = ON_DEV,
    test: np.ndarray = ON_TEST,
    splits: tuple[GoldSplit, GoldSplit] = (DEV, TEST),
    settings: EvaluateSettings = SETTINGS,
) -> Evaluated:
    """Return the evaluation of probabilities (K, N, C)."""
    return evaluate_system(
        name,
        Target(task="single", labels=[f"c{n}" for n in range(dev.shape[2])], metric=metric_of("auto", "single", [])),
        seeds=list(range(len(dev))),
        dev=splits[0],
        test=splits[1],
        dev_output=SystemOutput(probabilities=dev),
        test_output=SystemOutput(probabilities=test),
        costs=[cost()] * len(dev),
        temperatures=[2.0] * len(dev),
        settings=settings,
    )


def ece(confidence: np.ndarray, right: np.ndarray) -> float:
    bins = np.ceil(confidence * 10)
    return sum(
        abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)
    )


def test_the_scores_are_those_of_scikit_learn() -> None:
    found, said, gold = evaluated().metrics, ON_TEST.argmax(-1), TEST.labels
    for seed, labels, probabilities in zip(found.seeds, said, ON_TEST, strict=True):
        assert seed.test.accuracy == pytest.approx(sklearn.accuracy_score(gold, labels))
        for average in ("macro", "micro", "weighted"):
            expected = sklearn.f1_score(gold, labels, average=average)
            assert getattr(seed.test, f"{average}_f1") == pytest.approx(expected)
        assert seed.calibration.ece == pytest.approx(ece(probabilities.max(-1), labels == gold))
    table = np.mean([sklearn.precision_recall_fscore_support(gold, each)[:3] for each in said], axis=0)
    for name, column in zip(("precision", "recall", "f1"), table, strict=True):
        assert [getattr(each, name) for each in found.classes] == pytest.approx(column.tolist())
    matrix = sum(sklearn.confusion_matrix(gold, each) for each in said)
    assert {(of, as_label): rows for of, as_label, rows in found.confusion} == {
        (of, as_label): matrix[of, as_label] for of, as_label in zip(*matrix.nonzero(), strict=True)
    }
    half = next(each for each in found.coverage if each.dev_coverage == 0.5)
    least = np.sort(ON_DEV.max(-1), axis=1)[:, ROWS // 2]
    kept = ON_TEST.max(-1) >= least[:, None]
    assert (half.coverage, half.accuracy) == pytest.approx((kept.mean(), (said == gold)[kept].mean()))
    assert half.confidence == pytest.approx(least.mean())
    mean = ON_TEST.mean(0)
    wrong = np.where(mean.argmax(1) == gold, -1, mean.max(1))
    assert [each.row for each in found.mistakes] == np.argsort(-wrong)[:5].tolist()


def test_the_brier_score_and_the_error_without_the_temperature_use_all_labels() -> None:
    one_hot = np.eye(CLASSES)[TEST.labels]
    for seed, whole in zip(evaluated().metrics.seeds, ON_TEST, strict=True):
        sharper = softmax(np.log(whole) * 2, axis=-1)
        error = ece(sharper.max(-1), whole.argmax(-1) == TEST.labels)
        assert seed.calibration.brier == pytest.approx(((whole - one_hot) ** 2).sum(1).mean(), abs=1e-9)
        assert seed.calibration.ece_uncalibrated == pytest.approx(error, abs=1e-9)


def test_the_probabilities_of_all_labels_survive_the_disk_and_are_memory_mapped(tmp_path: Path) -> None:
    made = evaluated()
    write_evaluation(tmp_path / "mine", made)
    back = read_evaluation(tmp_path / "mine")
    assert back.metrics == made.metrics
    for record, given in ((back.dev, ON_DEV), (back.test, ON_TEST)):
        assert isinstance(record.probabilities, np.memmap)
        np.testing.assert_array_equal(record.probabilities, given.astype(np.float32))


def test_a_comparison_has_the_predictions_of_one_system_in_memory() -> None:
    alive: list[weakref.ref[SplitRecord]] = []

    def one_by_one() -> Iterator[Evaluated]:
        for name in ("a", "b", "c"):
            gc.collect()
            assert not [each for each in alive if each() is not None]
            made = evaluated(name)
            alive.extend(map(weakref.ref, (made.dev, made.test)))
            yield made
            del made

    found = compare(validate_as(Corpus, corpus()), one_by_one(), 0.05)
    assert len(found.rows) == 3


def test_a_seed_that_predicts_nan_is_named() -> None:
    broken = ON_DEV.copy()
    broken[1, 5, 7] = np.nan
    with pytest.raises(ParameterError, match="seed 1 predicts NaN"):
        evaluated(dev=broken)


def test_the_ensemble_is_the_mean_of_its_members_with_its_temperature() -> None:
    """Members err apart, so that both have weight."""
    first, second = (
        {"dev": drawn(DEV, seed, right)[None], "test": drawn(TEST, seed, right)[None]}
        for seed, right in ((1, 2.0), (5, 1.9))
    )
    systems = [evaluated("a", **first), evaluated("b", **second)]
    found = build(systems, [DEV, TEST], EnsembleSettings(), SETTINGS)
    assert found.evaluation is not None
    assert sum(each.weight > 0.3 for each in found.record.members) == 2
    weights = {each.system: each.weight for each in found.record.members}
    mean = weights["a"] * first["test"] + weights["b"] * second["test"]
    powers = mean ** (1 / found.record.temperatures[0])
    expected = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(found.evaluation.test.probabilities, expected, atol=1e-5)
    assert found.evaluation.metrics.test.accuracy > max(each.metrics.test.accuracy for each in systems) + 0.05


def test_memory_is_a_few_copies_of_the_probabilities_of_one_seed_and_split(tmp_path: Path) -> None:
    """Those of 4,000 rows and 250 labels take 4 MB in single precision; two seeds and splits of a system, 16 MB."""
    rows, classes = 4_000, 250
    truth = labelled(rows, classes)
    said = np.full((3, rows, classes), 0.5 / (classes - 1), np.float32)
    for shift, each in enumerate(said):
        wrong = np.arange(rows) % 3 == shift
        each[np.arange(rows), (truth.labels + wrong) % classes] = 0.5
    few, names = replace(SETTINGS, resamples=20), "abcdef"
    tracemalloc.start()
    try:
        for place, name in enumerate(names):
            both = said[[place % 3, (place + 1) % 3]]
            write_evaluation(tmp_path / name, evaluated(name, dev=both, test=both, splits=(truth, truth), settings=few))
        _, one = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        read = [read_evaluation(tmp_path / name) for name in names]
        found = build(read, [truth, truth], EnsembleSettings(rounds=4), few).evaluation
        _, six = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert found.metrics.dev.accuracy == 1.0
    assert one < 60e6
    assert six < 80e6
