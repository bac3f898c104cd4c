"""Tests of evaluations with more than twenty labels: exact where the best label decides, small files, little memory."""

from __future__ import annotations

import gc
import json
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
from epigram.core.files import read_arrays
from epigram.evaluation.build_ensemble import build
from epigram.evaluation.comparison import compare
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.label_probabilities import LabelProbabilities
from epigram.evaluation.results import Evaluation, Predictions, read_evaluation, write_evaluation
from epigram.evaluation.settings import EnsembleSettings, EvaluateSettings
from epigram.evaluation.splits import Split, SystemOutput, Target
from epigram.evaluation.stored_probabilities import probabilities_of
from epigram.evaluation.summary import Corpus, Summary
from tests.support.evaluation_samples import corpus, cost

CLASSES, ROWS = 40, 600
SETTINGS = EvaluateSettings(resamples=200, surest_errors=5)


def labelled(rows: int, classes: int = CLASSES) -> Split:
    labels = np.random.default_rng(rows).integers(0, classes, rows)
    return Split(labels=labels, rows=np.arange(rows), texts=["text"] * rows, in_train=np.zeros(rows, np.bool_))


def drawn(truth: Split, seed: int, right: float = 2.0, classes: int = CLASSES) -> np.ndarray:
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
    kept: LabelProbabilities | None = None,
) -> Evaluation:
    """Return the evaluation of probabilities (K, N, C); `kept` replaces those of dev."""
    classes = dev.shape[2]
    return evaluate_system(
        name,
        Target(task="single", labels=[f"c{n}" for n in range(classes)]),
        seeds=list(range(len(dev))),
        dev=DEV,
        test=TEST,
        dev_output=SystemOutput(probabilities=kept or dev),
        test_output=SystemOutput(probabilities=test),
        costs=[cost()] * len(dev),
        temperatures=[2.0] * len(dev),
        settings=SETTINGS,
    )


def ece(confidence: np.ndarray, right: np.ndarray) -> float:
    bins = np.ceil(confidence * 10)
    return sum(
        abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)
    )


def test_what_the_best_label_decides_is_that_of_all_probabilities() -> None:
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


def test_what_needs_all_probabilities_follows_the_rule_and_is_exact_without_a_rest() -> None:
    """Of the first probabilities, the labels that are not kept have 0.1% to 30%; of the second, nothing."""
    sharp = np.where(np.argsort(np.argsort(-ON_TEST, axis=-1), axis=-1) < 20, ON_TEST, 0.0)
    sharp /= sharp.sum(-1, keepdims=True)
    one_hot = np.eye(CLASSES)[TEST.labels]
    for probabilities, exact in ((ON_TEST, False), (sharp, True)):
        found = evaluated(test=probabilities).metrics.seeds
        for seed, whole in zip(found, probabilities, strict=True):
            brier = ((whole - one_hot) ** 2).sum(1).mean()
            sharper = softmax(np.log(np.clip(whole, 1e-12, 1)) * 2, axis=-1)
            error = ece(sharper.max(-1), whole.argmax(-1) == TEST.labels)
            assert (abs(seed.calibration.brier - brier) < 1e-9) == exact
            assert seed.calibration.brier == pytest.approx(brier, abs=1e-3)
            assert seed.calibration.ece_uncalibrated == pytest.approx(error, abs=1e-9 if exact else 1e-2)


def test_the_files_of_up_to_twenty_labels_are_dense_and_those_of_more_have_the_best_twenty(tmp_path: Path) -> None:
    truth = replace(DEV, labels=DEV.labels % 20)
    for name, classes in {"few": 20, "more": 21}.items():
        dev, test = (each[..., :classes] / each[..., :classes].sum(-1, keepdims=True) for each in (ON_DEV, ON_TEST))
        made = evaluate_system(
            name,
            Target(task="single", labels=[f"c{n}" for n in range(classes)]),
            seeds=[0, 1],
            dev=truth,
            test=replace(TEST, labels=TEST.labels % 20),
            dev_output=SystemOutput(probabilities=dev),
            test_output=SystemOutput(probabilities=test),
            costs=[cost()] * 2,
            settings=SETTINGS,
        )
        write_evaluation(tmp_path / name, made)
    arrays = {name: read_arrays(tmp_path / name / "predictions.safetensors") for name in ("few", "more")}
    extra = {"dev_top_labels", "dev_rest", "test_top_labels", "test_rest"}
    assert arrays["more"].keys() ^ arrays["few"].keys() == extra
    assert arrays["few"]["dev_probabilities"].shape == arrays["more"]["dev_probabilities"].shape == (2, ROWS, 20)
    few = ON_DEV[..., :20] / ON_DEV[..., :20].sum(-1, keepdims=True)
    np.testing.assert_array_equal(arrays["few"]["dev_probabilities"], few.astype(np.float32))
    assert arrays["more"]["test_top_labels"].dtype == np.uint8
    confusion = {name: json.loads((tmp_path / name / "metrics.json").read_text())["confusion"] for name in arrays}
    assert np.shape(confusion["few"]) == (20, 20)
    assert np.shape(confusion["more"])[1] == 3


def test_an_evaluation_with_many_labels_survives_the_disk(tmp_path: Path) -> None:
    made = evaluated()
    write_evaluation(tmp_path / "mine", made)
    back = read_evaluation(tmp_path / "mine")
    assert back.metrics == made.metrics
    kept, wanted = probabilities_of(back, "test"), LabelProbabilities.of(ON_TEST)
    assert isinstance(kept, LabelProbabilities)
    np.testing.assert_array_equal(kept.labels, wanted.labels)
    np.testing.assert_allclose(kept.dense(), wanted.dense(), rtol=1e-6)


def summarized(*evaluations: Evaluation) -> Summary:
    return compare(validate_as(Corpus, corpus([f"c{n}" for n in range(CLASSES)])), evaluations, 0.05)


def dense(evaluation: Evaluation, dev: np.ndarray, test: np.ndarray) -> Evaluation:
    """Return the evaluation as an older version wrote it."""
    known = evaluation.predictions
    old = replace(
        known,
        dev_probabilities=dev.astype(np.float32),
        test_probabilities=test.astype(np.float32),
        **dict.fromkeys(("dev_top_labels", "dev_rest", "test_top_labels", "test_rest")),
    )
    return replace(evaluation, predictions=old)


def test_predictions_of_all_labels_by_an_older_version_are_read(tmp_path: Path) -> None:
    other = np.stack([drawn(DEV, seed, 1.8) for seed in (3, 4)])
    new = [evaluated(), evaluated("other", dev=other)]
    old = [dense(new[0], ON_DEV, ON_TEST), dense(new[1], other, ON_TEST)]
    write_evaluation(tmp_path / "old", old[0])
    assert read_arrays(tmp_path / "old" / "predictions.safetensors")["dev_probabilities"].shape == (2, ROWS, CLASSES)
    assert summarized(read_evaluation(tmp_path / "old"), old[1]) == summarized(*new)


def test_a_comparison_has_the_predictions_of_one_system_in_memory() -> None:
    alive: list[weakref.ref[Predictions]] = []

    def one_by_one() -> Iterator[Evaluation]:
        for name in ("a", "b", "c"):
            gc.collect()
            assert not [each for each in alive if each() is not None]
            made = evaluated(name)
            alive.append(weakref.ref(made.predictions))
            yield made
            del made

    found = compare(validate_as(Corpus, corpus()), one_by_one(), 0.05)
    assert len(found.rows) == 3


def test_a_seed_that_predicts_nan_for_a_label_that_is_not_kept_is_named() -> None:
    broken = ON_DEV.copy()
    broken[1, 5, 7] = np.nan
    with pytest.raises(ParameterError, match="seed 1 predicts NaN"):
        evaluated(dev=broken, kept=LabelProbabilities.of(broken))


def test_the_ensemble_of_many_labels_is_that_of_all_probabilities() -> None:
    """Members err apart, so that both have weight; the few percent outside of the best 20 labels hardly matter."""
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
    agreed = probabilities_of(found.evaluation, "test")
    assert isinstance(agreed, LabelProbabilities)
    assert (agreed.predicted == mean.argmax(-1)).mean() > 0.98
    powers = mean ** (1 / found.record.temperatures[0])
    np.testing.assert_allclose(agreed.confidence, (powers / powers.sum(-1, keepdims=True)).max(-1), atol=0.03)
    assert found.evaluation.metrics.test.accuracy > max(each.metrics.test.accuracy for each in systems) + 0.05


def test_fifty_thousand_rows_and_a_thousand_labels_need_less_memory_than_their_probabilities() -> None:
    """All probabilities in single precision would take 200 MB, one array of flags for all labels 50 MB."""
    rows, classes = 50_000, 1_000
    truth = labelled(rows, classes)
    labels = ((truth.labels[:, None] - np.arange(rows)[:, None] % 3 + np.arange(20)) % classes).astype(np.uint16)
    values = np.broadcast_to((0.5 ** np.arange(1, 21)).astype(np.float32), labels.shape)
    top = LabelProbabilities(labels[None], values[None], np.full((1, rows), 0.5**20, np.float32), classes)
    tracemalloc.start()
    try:
        made = evaluate_system(
            "mine",
            Target(task="single", labels=[f"c{n}" for n in range(classes)]),
            seeds=[0],
            dev=truth,
            test=truth,
            dev_output=SystemOutput(probabilities=top),
            test_output=SystemOutput(probabilities=top),
            costs=[cost()],
            settings=replace(SETTINGS, resamples=20),
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.metrics.test.accuracy == pytest.approx(1 / 3, abs=1e-3)
    assert peak < 150e6
