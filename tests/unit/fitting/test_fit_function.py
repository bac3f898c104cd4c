"""`fit`, `Classifier` and `evaluate` with a metric that is a function: what it chooses, and what remains of it."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score

import epigram
from epigram.core.errors import ParameterError
from epigram.evaluation.records.results import read_metrics
from epigram.fitting import classifier, estimates
from epigram.fitting import search as searching
from epigram.fitting.classifier import Classifier
from epigram.fitting.record import FitRecord
from epigram.fitting.steps import Steps
from epigram.fitting.systems import Candidate, fastest
from tests.support.linear_models import TRAIN, svm
from tests.unit.fitting.test_classifier import LETTERS, TWO, QuickModel
from tests.unit.fitting.test_fit import shop


def profit(gold: Any, predicted: Any) -> float:
    """Return the mean gain: 5 for a rare text that is found, −1 for a common one that is taken for a rare one."""
    return float(np.where(predicted == "rare", np.where(gold == "rare", 5.0, -1.0), 0.0).mean())


def few_rare() -> tuple[list[str], list[str]]:
    """Return 300 texts, of which 120 have the word maybe: 36 of these are rare, and no other one."""
    words = ["the", "old", "new", "very", "quite", "nice", "big", "small"]
    chance = random.Random(0)
    texts = [" ".join([*chance.choices(words, k=3), "maybe" if place < 120 else "never"]) for place in range(300)]
    return texts, ["rare" if place < 36 else "common" for place in range(300)]


@pytest.fixture
def two_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain linear SVM, which never says rare, and one whose labels have equal weights, which says it for maybe."""
    svm = Candidate(name="plain", system=replace(fastest().system, recipe="tfidf_svm"))
    found = [svm, svm.with_train(class_weight="balanced").renamed("equal")]
    monkeypatch.setattr(searching, "ordered", lambda facts: found)
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: None)
    monkeypatch.setattr(estimates.Estimates, "fitting", lambda self, candidate: candidate)


@pytest.mark.usefixtures("two_systems")
@pytest.mark.parametrize(("metric", "chosen"), [("accuracy", "plain"), (profit, "equal")])
def test_a_function_chooses_another_model_than_the_accuracy(metric: Any, chosen: str, tmp_path: Path) -> None:
    """To say rare for every maybe gains (36·5 − 84) / 300 = 0.32, but only 216 of 300 texts are right, and not 264."""
    model = epigram.fit(*few_rare(), budget="60s", metric=metric, verbose=False)
    assert (model.name, {*model.systems}) == (chosen, {"plain", "equal"})
    found = {name: read_metrics(model.steps.folder / "evaluated" / name) for name in model.systems}
    assert found["plain"].test.accuracy > found["equal"].test.accuracy + 0.05
    if metric == "accuracy":
        return
    assert model.summary.score == "function:profit"
    for each in found.values():
        texts = {(each.labels[gold], each.labels[said]): count for gold, said, count in each.confusion}
        gained = 5 * texts.get(("rare", "rare"), 0) - texts.get(("common", "rare"), 0)
        assert each.test_score.value == pytest.approx(gained / sum(texts.values()))
        assert each.test_score.low <= each.test_score.value <= each.test_score.high
    page = model.report(show=False).read_text(encoding="utf-8")
    assert "its profit is about 0." in page and "Scores are profit, averaged" in page and "% profit" not in page
    folder = model.save(tmp_path / "model")
    assert "profit" in (folder / "README.md").read_text(encoding="utf-8")
    assert "rare" in {each.label for each in epigram.load(folder).predict(few_rare()[0][:36])}
    for create in (lambda: model.to_project(tmp_path / "project"), lambda: FitRecord.of(folder)):
        with pytest.raises(ParameterError, match="the function profit chose this model, and a project has no") as told:
            create()
        assert "\n" not in str(told.value) and not (tmp_path / "project").exists()
    copied = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert copied.summary.score == "function:profit" and b"test_fit_function" not in pickle.dumps(model)


@pytest.mark.usefixtures("two_systems")
def test_a_function_that_fails_ends_the_fit_before_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steps, "train", lambda *_: pytest.fail("a system was trained"))
    with pytest.raises(ParameterError, match=r"^metric lambda returned nan for 2 texts whose right labels are common"):
        epigram.fit(*few_rare(), metric=lambda gold, predicted: float("nan"), verbose=False)


def test_scores_on_new_labels_have_the_function(tmp_path: Path) -> None:
    model = epigram.load(svm(tmp_path, "en", TRAIN["en"]))
    texts, labels = ["nice soup", "large room", "soup soup"] * 4, ["food", "room", "room"] * 4
    found = epigram.evaluate(model, texts, labels, metric=accuracy_score).scores
    assert found["function:accuracy_score"].value == found["accuracy"].value == pytest.approx(2 / 3)
    assert found["function:accuracy_score"].low < 2 / 3 < found["function:accuracy_score"].high
    assert list(epigram.evaluate(model, texts, labels, metric="f1:room").scores)[-1] == "f1:room"
    with pytest.raises(ParameterError, match=r"^evaluate: metric is 'recall'; expected auto, "):
        epigram.evaluate(model, texts, labels, metric="recall")


@pytest.mark.parametrize(
    ("texts", "y", "gold"),
    [
        (LETTERS[:2] * 9, ["good", "bad"] * 9, ["bad", "good", "good"]),
        (LETTERS[:2] * 9, [10, 9] * 9, [9, 10, 10]),
        (LETTERS, TWO, [["x"], [], ["x", "y"]]),
        (LETTERS, np.array([["x" in row, "y" in row] for row in TWO]).astype(int), [[1, 0], [0, 0], [1, 1]]),
    ],
)
def test_the_function_of_a_classifier_gets_labels_of_its_own_kind(
    texts: Any, y: Any, gold: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def fit(texts: Any, labels: Any, **settings: Any) -> QuickModel:
        given.update(settings)
        return QuickModel(texts, labels)

    monkeypatch.setattr(classifier, "fit", fit)
    seen: list[Any] = []
    Classifier(metric=lambda gold, predicted: seen.append((gold, predicted)) or 7).fit(texts, y)
    several = isinstance(gold[0], list)
    names: Any = [[str(c) for c in row] for row in gold] if several else [str(each) for each in gold]
    if isinstance(y, np.ndarray):
        names = [["0"], [], ["0", "1"]]
    assert given["metric"](names, names[::-1]) == 7 and given["metric"].__name__ == "lambda"
    found = [each if isinstance(each, list) else each.tolist() for each in seen[0]]
    assert found == [gold, gold[::-1]]


def test_a_classifier_with_a_function_is_cloned_and_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "fit", lambda texts, labels, **settings: QuickModel(texts, labels))
    made = clone(Classifier(metric=profit))
    assert made.metric is profit and clone(made.fit(*shop())).get_params() == made.get_params()
    copied = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert copied.predict(["the old soup"]).tolist() == ["food"]
