"""Trials of a search: known scores, the settings that count, and a test set that is not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.evaluation.settings import MetricSetting
from epigram.models.settings import System
from epigram.text.dataset.encoded_dataset import View
from epigram.training.trials.sample import SampledView
from epigram.training.trials.trial import TrialResult, try_system
from tests.support.bad_input import Workshop
from tests.support.certain import LABELS, SYSTEMS, lines, one_label, prepared

SVM: dict[str, Any] = SYSTEMS["tfidf_svm"]
NETWORK = {"view": "token", "train": {"epochs": 1}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """All stages before train, on a corpus whose words decide the labels; the test set is gone."""
    found = prepared(Workshop(tmp_path_factory.mktemp("trials")), lines(one_label), ["tfidf_svm"])
    for file in (found.root / "data/encoded/token").glob("test.*"):
        file.unlink()
    return found


def trial(
    shop: Workshop,
    rows: int,
    name: str = "tfidf_svm",
    system: dict[str, Any] = SVM,
    metric: MetricSetting = "auto",
    **shared: Any,
) -> TrialResult:
    data = shop.root / "data"
    view, pretrained = View.load(data / "encoded/token"), data / "pretrained/token"
    return try_system(name, validate_as(System, system), shared, metric, view, pretrained, rows=rows)


def test_a_trial_has_the_score_of_held_out_texts(shop: Workshop) -> None:
    result = trial(shop, 100)
    assert (result.score, result.rows) == (1.0, 100)
    assert result.seconds > 0 and result.ms_per_text > 0


def test_a_trial_is_scored_by_the_metric(shop: Workshop) -> None:
    """The loss is the log loss of the same predictions."""
    by_loss, by_accuracy = (trial(shop, 40, "textcnn", NETWORK, metric) for metric in ("log_loss", "accuracy"))
    assert by_loss.score == pytest.approx(-by_loss.loss, rel=1e-5)
    assert by_accuracy.loss == by_loss.loss and by_accuracy.score >= 0


def test_a_result_does_not_depend_on_the_trials_before_it(shop: Workshop) -> None:
    first = trial(shop, 40, "textcnn", NETWORK)
    trial(shop, 60, "textcnn", NETWORK)
    after = trial(shop, 40, "textcnn", NETWORK)
    assert (after.score, after.loss) == (first.score, first.loss)


def test_a_trial_has_the_settings_that_all_systems_share(shop: Workshop) -> None:
    own, still = trial(shop, 40, "textcnn", NETWORK), trial(shop, 40, "textcnn", NETWORK, learning_rate=1e-9)
    assert own.loss < still.loss - 0.01
    with pytest.raises(ParameterError, match=r"params.yaml: train.epochs is 0"):
        trial(shop, 40, "textcnn", {"view": "token"}, epochs=0)


def test_a_result_has_the_steps_that_were_taken(shop: Workshop) -> None:
    """Of four planned steps, two are taken with a rate that is too low to change anything, each with an evaluation."""
    system = {"view": "token", "train": {"epochs": 4, "batch_size": 64, "learning_rate": 1e-30}}
    for patience, taken in ((1, 2.0), (5, 4.0)):
        result = trial(shop, 40, "textcnn", system, patience=patience)
        assert (result.steps, result.evaluations) == (taken, taken)
    closed = trial(shop, 40)
    assert (closed.steps, closed.evaluations) == (0.0, 0.0)


def test_a_trial_that_fails_names_its_error(shop: Workshop) -> None:
    with pytest.raises(ParameterError, match=r"model.orders is \[3, 1\]"):
        trial(shop, 100, system={"view": "token", "model": {"orders": [3, 1]}})


def test_samples_are_nested_and_keep_what_belongs_to_a_row(shop: Workshop) -> None:
    view = View.load(shop.root / "data/encoded/token")
    whole = view.split("train")
    few, more = (SampledView.of(view, rows, 5).split("train") for rows in (20, 60))
    assert len(few) == 20 and set(few.rows) < set(more.rows)
    place = {row: n for n, row in enumerate(whole.rows.tolist())}
    for n, row in enumerate(few.rows.tolist()):
        assert few.ids[np.array([n])].values.tolist() == whole.ids[np.array([place[row]])].values.tolist()
        assert few.labels[n] == whole.labels[place[row]]
    assert len(SampledView.of(view, 20, 5).split("dev")) == 5
    assert len(set(few.labels.tolist())) == len(LABELS)


def test_folds_are_held_out_one_after_another(tmp_path: Path) -> None:
    """Of 168 texts in four folds, two folds are held out; nothing was pretrained."""
    rows = "".join(line + "\n" for line in lines(one_label).splitlines() if '"dev"' not in line)
    found = prepared(Workshop(tmp_path / "shop"), rows, ["tfidf_svm"], folds=4)
    whole, few = (trial(found, number) for number in (10_000, 60))
    assert (whole.score, whole.rows, few.rows, few.held_out) == (1.0, 126, 60, 42)
