"""Tests of the cross-validation of a system: what the folds choose together, and how it resumes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epigram.evaluation.metrics.primary import TASK_METRIC
from epigram.models.predict import Predicted
from epigram.nn.layers.depth_control import DepthControl
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training import fitters
from epigram.training.config import TrainingConfig
from epigram.training.cross_validation import cross_validate
from epigram.training.fitters import FitOptions, Fold, FoldResults, classifier
from epigram.training.fitters.frozen_classifier import PENALTIES, LogisticProblem, LogisticSettings
from epigram.training.loop.plan import Plan
from tests.support.bad_input import Workshop
from tests.support.certain import SYSTEMS, one_label, prepared
from tests.support.layered import CLASS, ONE_WRONG, OPPOSITE, RIGHT, model_of, texts_of
from tests.support.runs import KilledError, die_at_fold
from tests.support.trained import setup_of

FOLDS = 3
CONFIG = TrainingConfig(**SYSTEMS["textcnn"]["train"])


class Told(LogisticProblem):
    """Problem of held-out texts of class 0, with a given logit for each penalty."""

    def __init__(self, texts: int, logit: dict[float, float]) -> None:
        self.wanted, self.logit, self.prior = np.zeros(texts, np.int64), logit, None
        self.metric = TASK_METRIC

    def predicted(self, settings: LogisticSettings) -> Predicted:
        """Return the same logits for all texts."""
        logit = self.logit.get(settings.penalty, 0.0)
        return Predicted(np.tile(np.float32([logit, 0.0]), (len(self.wanted), 1)), None)


def test_the_penalty_has_the_lowest_loss_on_the_texts_of_all_folds() -> None:
    """The first fold alone chooses 0.01; together, nine texts that prefer 10 outweigh its three."""
    first, second = Told(3, {0.01: 2.0, 10.0: 1.0}), Told(9, {0.01: 0.0, 10.0: 1.0})
    assert {0.01, 10.0} < set(PENALTIES)
    assert first.choose([first]).penalty == 0.01
    assert first.choose([first, second]).penalty == 10.0


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Return a view with folds, whose training texts have a word that decides the label."""
    shop = Workshop(tmp_path_factory.mktemp("folds"))
    rows = [row for seed, split in ((0, "train"), (2, "test")) for row in one_label(split, seed)]
    prepared(shop, "".join(json.dumps(row) + "\n" for row in rows), ["textcnn"], folds=FOLDS)
    return View.load(shop.root / "data/encoded/token")


def validated(view: View, state: Path | None = None) -> Any:
    recipe = RECIPES["textcnn"].changed(encoder=SYSTEMS["textcnn"]["encoder"], head={"dropout": 0.0})
    return cross_validate(setup_of(recipe, CONFIG, view), state=state)


@pytest.fixture(scope="module")
def whole(view: View) -> Any:
    """Return the result of a cross-validation that nothing interrupts."""
    return validated(view)


@pytest.mark.parametrize("died", [0, 1, 2])
def test_a_finished_fold_is_not_trained_again(
    died: int, view: View, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = die_at_fold(monkeypatch, died)
    with pytest.raises(KilledError):
        validated(view, tmp_path / "seed-0")
    again = validated(view, tmp_path / "seed-0")
    assert loaded == [str(n) for n in range(died + 1)] + [str(n) for n in range(died, FOLDS)]
    assert (again.predicted.logits == whole.predicted.logits).all()
    assert again.choice == whole.choice
    assert isinstance(again.choice, Plan)
    assert again.history == whole.history
    assert not again.predicted.multi


def test_a_changed_result_is_trained_again(view: View, tmp_path: Path) -> None:
    whole = validated(view, tmp_path / "seed-0")
    file = tmp_path / "seed-0-fold-1" / "logits.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    assert (validated(view, tmp_path / "seed-0").predicted.logits == whole.predicted.logits).all()


LABELS_RIGHT = {  # texts of each fold that the classifiers on three layers get right
    **dict.fromkeys((1, 2, 3), (2, 2, 0)),
    0: (2, 1, 0),
    4: (3, 6, 7),
}
SIZES = {0: 2, 1: 2, 2: 2, 3: 2, 4: 8}


def depth_by(scores: Any) -> int:
    return len(DepthControl(tolerance=0.03, rule="shallowest").remaining_layers(list(scores)))


@pytest.mark.parametrize("multi", [False, True])
def test_the_votes_of_all_folds_together_score_the_layers(multi: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four folds of two texts would keep one layer, a fold of eight would keep three, and the 16 texts keep two.

    So would neither the mean score of the folds nor the mean or the median of their depths.
    """
    fold = np.random.default_rng(0).permutation(np.repeat(list(SIZES), list(SIZES.values())))
    labels = np.arange(16) % 2
    predictions, votes, alone = [], [], []
    for number, size in SIZES.items():
        gold = labels[fold == number]
        right = np.arange(size) < np.array(LABELS_RIGHT[number])[:, None]  # (3, n)
        logits = 2 * np.eye(2, dtype=np.float32)[np.where(right, gold, 1 - gold)] - 1
        votes.append(logits)
        predictions.append(Predicted(logits[0], None, multi))
        alone.append(right.mean(1))
    assert {depth_by(scores) for scores in alone} == {1, 3}
    assert depth_by(np.mean(alone, 0)) == round(np.mean([depth_by(scores) for scores in alone])) == 1
    rows = labels[:, None] == np.arange(2) if multi else labels
    data = {"task": "multi" if multi else "single", "labels": ["a", "b"], "tokens_only": False, "folds": 5}
    view: Any = SimpleNamespace(**data, fold_numbers=lambda: fold, split=lambda name: SimpleNamespace(labels=rows))
    results = FoldResults(None, predictions, predictions, votes=votes)
    monkeypatch.setattr(fitters, "ON_FOLDS", {"classifier": lambda folds: results})
    found = cross_validate(setup_of(RECIPES["transformer"], TrainingConfig(), view)).layer_scores
    assert found == [11 / 16, 13 / 16, 7 / 16]
    assert depth_by(found) == 2


def test_the_classifiers_on_the_layers_learn_from_the_other_folds() -> None:
    """The held-out texts have swapped labels: classifiers fitted on the other folds vote for the class of the word."""
    config = TrainingConfig(epochs=1, batch_size=8, learning_rate=1e-12, precision="fp32")

    def load() -> Any:
        return model_of(RIGHT, ONE_WRONG), texts_of(), texts_of(labels=OPPOSITE)

    folds = [Fold(load, FitOptions(config=config, path="systems.x", seed=0)) for _ in range(2)]
    votes = classifier.fit_folds(folds).votes
    assert [each.argmax(-1).tolist() for each in votes] == [[CLASS.tolist(), ONE_WRONG]] * 2


def test_the_votes_of_a_finished_fold_are_read_again(tmp_path: Path) -> None:
    votes = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    logits = {4: np.ones((2, 2), np.float32)}
    for known in (votes, None):
        result = classifier._Result(Plan(4, 4), [], logits, multi=False, votes=known)
        result.write(tmp_path / "fold")
        again = classifier._Result.read(tmp_path / "fold", json.loads(json.dumps(result.about)))
        assert (again.votes is None) if known is None else (again.votes == votes).all()
        assert again.evaluated.keys() == {4}


def test_reports_name_the_fold(view: View) -> None:
    names: list[str] = []

    def report(name: str) -> Any:
        names.append(name)
        return lambda progress: None

    recipe = RECIPES["tfidf_svm"]
    cross_validate(setup_of(recipe, TrainingConfig(), view), reports=report)
    assert names == ["fold 1/3", "fold 2/3", "fold 3/3"]
