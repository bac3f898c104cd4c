"""Tests of cross-fitting: each fold is predicted as the other folds choose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from epigram.evaluation.metrics.primary import TASK_METRIC
from epigram.evaluation.tuning.temperature import fit_temperature
from epigram.models.linear_svm import AUTO, SvmSettings
from epigram.models.predict import Predicted
from epigram.nn.layers.ngrams import max_n
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.cross_validation import CrossValidation, cross_validate
from epigram.training.fitters import FitOptions, Fold, choose_on_folds, classifier, linear_svm, pool
from epigram.training.fitters.classifier import _Result
from epigram.training.fitters.frozen_classifier import LogisticProblem, LogisticSettings, choose_head
from epigram.training.linear.svm import scaled
from epigram.training.linear.svm_search import SvmProblem, choose
from epigram.training.loop.plan import Plan
from epigram.training.tuning import cross_calibrated, tune_by
from tests.support.bad_input import Workshop
from tests.support.certain import SYSTEMS, one_label, prepared
from tests.support.runs import KilledError, die_at_fold
from tests.support.small_systems import build, recipe_of
from tests.support.svm_texts import svm_of, texts
from tests.support.trained import setup_of

ALL_AUTO: dict[str, Any] = dict.fromkeys(SvmSettings._fields, AUTO)
OPTIONS = FitOptions(config=TrainingConfig(), path="systems.x", seed=0)
FOLDS = 3


def test_each_fold_is_predicted_by_the_choice_of_the_others_and_judged_by_the_choice_of_all() -> None:
    """A fold is a list of one number; the choice is the sum, and the prediction the number and the choice."""
    folds = [[1], [20], [300]]
    found = choose_on_folds(folds, lambda given: sum(each[0] for each in given), lambda fold, total: (fold[0], total))
    assert found.choice == 321
    assert found.predictions == [(1, 320), (20, 301), (300, 21)]
    assert found.judged == [(1, 321), (20, 321), (300, 321)]


def test_equal_folds_are_different_folds() -> None:
    one, same = [1], [1]
    assert one == same
    assert choose_on_folds([one, same], len, lambda _, count: count).predictions == [1, 1]


# Settings of an SVM


def of_order(n: int, seed: int) -> Any:
    """Return 60 texts of four tokens: the parity of the sum of n tokens in a row decides the label."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, 9, (60, 4))
    return texts((ids[:, :n].sum(1) % 2).tolist(), ids.tolist())


def problems() -> list[SvmProblem]:
    parts = [(of_order(n, seed), of_order(n, seed + 1)) for n, seed in ((1, 0), (2, 2), (2, 4))]
    return [SvmProblem(svm_of(**ALL_AUTO), *part, seed=0, class_weight="none") for part in parts]


def fitted(given: list[SvmProblem]) -> Any:
    """Return the results of the fitter for these problems, in their order."""
    return linear_svm.fit_folds([Fold(lambda one=one: (one.model, one.train, one.held_out), OPTIONS) for one in given])  # type: ignore[misc]


def test_the_settings_and_the_scale_of_an_svm_are_those_that_the_other_folds_choose() -> None:
    """One fold needs no pairs of tokens, the others do: together all choose what the first fold alone would not."""
    found = fitted(problems())
    chosen = [choose([each for n, each in enumerate(problems()) if n != place]) for place in range(FOLDS)]
    assert len({each.settings for each in chosen}) > 1
    for place, each in enumerate(chosen):
        own = problems()[place]
        margins = own.margins(each.settings, own.solve(each.settings))
        assert_allclose(found.predictions[place].logits, scaled(margins, each.scale).logits, rtol=1e-5)
    together = choose(problems())
    assert found.choice == (together.settings, together.scale)
    assert_allclose(pool(found.judged).logits, scaled(pool(together.margins), together.scale).logits, rtol=1e-5)


def test_no_settings_of_a_fold_are_fitted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[tuple[int, SvmSettings]] = []
    solve = SvmProblem.solve
    monkeypatch.setattr(
        SvmProblem, "solve", lambda self, settings: (fits.append((id(self), settings)), solve(self, settings))[1]
    )
    fitted(problems())
    assert len(fits) == len(set(fits)) > len(problems())


# Penalty of a head


class Told(LogisticProblem):
    """Problem of held-out texts of class 0, with a given logit for each penalty."""

    def __init__(self, logit: dict[float, float]) -> None:
        self.wanted, self.logit, self.prior = np.zeros(4, np.int64), logit, None
        self.metric = TASK_METRIC

    def predicted(self, settings: LogisticSettings) -> Predicted:
        """Return the same logits for all texts."""
        return Predicted(np.tile(np.float32([self.logit.get(settings.penalty, 0.0), 0.0]), (4, 1)), None)


def test_the_penalty_of_a_head_is_the_one_that_the_other_folds_choose() -> None:
    """The first fold wants 0.01 by far, and decides for all; the other two want 10 and decide for the first."""
    given = [Told({0.01: 9.0, 10.0: -9.0}), Told({0.01: 0.5, 10.0: 1.0}), Told({0.01: 0.5, 10.0: 1.0})]
    found = choose_head(given)
    assert found.choice.penalty == 0.01
    assert [float(each.logits[0, 0]) for each in found.judged] == [9.0, 0.5, 0.5]
    assert [float(each.logits[0, 0]) for each in found.predictions] == [-9.0, 0.5, 0.5]


# Steps of a training


def of_scores(best: int, *scores: float) -> _Result:
    """Return a training with four evaluations in 40 steps, whose logits are the number of the step."""
    steps = [10, 20, 30, 40]
    history = [{"step": float(step), "dev": score} for step, score in zip(steps, scores, strict=True)]
    evaluated = {step: np.full((1, 2), step, np.float32) for step in steps}
    return _Result(Plan(best, 40), history, evaluated, multi=False)


@pytest.mark.parametrize(
    ("plan", "step"),
    [
        (Plan(10, 40), 10),
        (Plan(16, 40), 20),  # nearer than 10
        (Plan(15, 40), 10),  # as near as 20: the earlier one
        (Plan(5, 20), 10),  # a quarter of the steps, whatever their number
        (Plan(40, 40), 40),
    ],
)
def test_a_fold_is_predicted_after_the_step_that_is_nearest_to_the_plan(plan: Plan, step: int) -> None:
    result = of_scores(10, 0, 0, 0, 0)
    assert result.at(plan).logits.tolist() == [[step, step]]


def test_the_plan_of_a_fold_is_that_of_the_other_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest plan within a standard error is 40 steps, and 20 without the last fold.

    No fold is predicted with the evaluation that is best on its own rows, and the final model is tuned by no such one.
    """
    results = iter(
        [of_scores(10, 0.9, 0.7, 0.5, 0.5), of_scores(20, 0.5, 0.6, 0.4, 0.4), of_scores(40, 0.5, 0.6, 0.4, 0.7)]
    )
    monkeypatch.setattr(classifier, "_trained_fold", lambda _: next(results))
    fold = Fold(lambda: (None, None, None), OPTIONS)  # type: ignore[arg-type, return-value]
    found = classifier.fit_folds([fold] * 3)
    assert found.choice == Plan(40, 40)
    assert [float(each.logits[0, 0]) for each in found.predictions] == [40, 40, 20]
    assert found.judged == found.predictions


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Return a view without dev and test, whose texts have labels by chance."""
    shop, draw = Workshop(tmp_path_factory.mktemp("folds")), np.random.default_rng(1)
    rows = [row | {"label": ["arts", "sport"][draw.integers(2)]} for row in one_label("train", 0)]
    prepared(shop, "".join(json.dumps(row) + "\n" for row in rows), ["textcnn"], folds=FOLDS, labels=["arts", "sport"])
    return View.load(shop.root / "data/encoded/token")


def validated(view: View, state: Path | None = None) -> CrossValidation:
    recipe = RECIPES["textcnn"].changed(encoder=SYSTEMS["textcnn"]["encoder"], head={"dropout": 0.0})
    config = TrainingConfig(**SYSTEMS["textcnn"]["train"], evaluations=4, precision="fp32")
    return cross_validate(setup_of(recipe, config, view), state=state)


def test_early_stopping_does_not_choose_by_the_fold_that_is_scored(view: View) -> None:
    """Nothing can be learned: the best of 48 evaluations is above chance, and one that is not chosen is not."""
    found, labels = validated(view), np.asarray(view.split("train").labels)
    assert max(line["dev"] for line in found.history) > 0.51
    assert abs(found.predicted.score(labels) - 0.5) < 0.06


def test_a_killed_training_keeps_the_logits_of_its_evaluations(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, loaded = validated(view), die_at_fold(monkeypatch, 1)
    with pytest.raises(KilledError):
        validated(view, tmp_path / "seed-0")
    again = validated(view, tmp_path / "seed-0")
    assert loaded == ["0", "1", "1", "2"]
    assert_array_equal(again.predicted.logits, whole.predicted.logits)


# Temperature


def test_the_temperature_of_a_fold_fits_the_predictions_for_the_others() -> None:
    """The rows of the folds are mixed."""
    draw = np.random.default_rng(0)
    fold = draw.permutation(np.repeat([0, 1, 2], [20, 10, 15]))
    labels = draw.integers(0, 2, 45)
    signal = (labels[:, None] == np.arange(2)) * np.array([4.0, 2.0, 1.0])[fold][:, None]
    given = Predicted((signal + 2 * draw.normal(size=(45, 2))).astype(np.float32), None)
    found = cross_calibrated(build(recipe_of("textcnn")), given, labels, fold).logits
    temperatures = []
    for number in range(FOLDS):
        gold = labels[fold != number, None] == np.arange(2)
        temperatures.append(fit_temperature(given.logits[fold != number], gold, multi=False))
        assert_allclose(found[fold == number], given.logits[fold == number] / temperatures[-1], rtol=1e-5)
    assert len(set(temperatures)) == FOLDS
    assert cross_calibrated(svm_of(), given, labels, fold) is given  # an SVM calibrates itself


def test_the_temperature_of_the_final_model_fits_the_judged_predictions() -> None:
    draw = np.random.default_rng(2)
    labels = draw.integers(0, 2, 45)
    judged = Predicted((2 * (labels[:, None] == np.arange(2)) + draw.normal(size=(45, 2))).astype(np.float32), None)
    model = build(recipe_of("textcnn"))
    assert tune_by(model, judged, labels) is None
    gold = labels[:, None] == np.arange(2)
    assert float(model.temperature) == pytest.approx(fit_temperature(judged.logits, gold, multi=False))


def test_a_fold_counts_no_ngrams_whose_keys_do_not_fit_its_vocabulary() -> None:
    """The vocabulary of one fold is larger than those of the others, which have keys of more tokens."""
    large, small = 60_000, 2_000
    assert (max_n(large), max_n(small)) == (3, 5)
    settings = SvmSettings((1, 2, 3, 4), True, "tfidf", 1.0, (2, 3, 4, 5))
    model = svm_of(vocabulary=large, alphabet=7_000)
    assert model.fitting(settings) == settings._replace(orders=(1, 2, 3), characters=(2, 3, 4))
    assert svm_of(vocabulary=small, alphabet=100).fitting(settings) == settings
    parts = [(of_order(2, seed), of_order(2, seed + 1)) for seed in (0, 2, 4)]
    given = [
        SvmProblem(svm_of(vocabulary=size, **ALL_AUTO | {"orders": orders}), *part, seed=0, class_weight="none")
        for size, orders, part in zip(
            (large, small, small), ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4]), parts, strict=True
        )
    ]
    assert len(fitted(given).predictions) == FOLDS
