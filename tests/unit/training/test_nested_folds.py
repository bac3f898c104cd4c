"""Tests of the nested cross-validation: each fold is predicted as the other folds alone choose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from epigram.evaluation.temperature import fit_temperature
from epigram.evaluation.thresholds import tuned_thresholds
from epigram.models.linear_svm import AUTO, SvmSettings
from epigram.models.predict import Predicted
from epigram.models.registry import RECIPES
from epigram.nn.layers.ngrams import max_n
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.cross_validation import CrossValidation, cross_validate
from epigram.training.fitters import classifier, linear_svm
from epigram.training.fitters.classifier import _Result
from epigram.training.fitters.frozen_classifier import LogisticProblem, LogisticSettings, choose_on_folds
from epigram.training.plan import Plan
from epigram.training.svm import scaled
from epigram.training.svm_search import SvmProblem, choose, choose_nested
from epigram.training.trained import FitOptions, Fold, NestedFold, others, pool
from epigram.training.tuning import tune_nested
from tests.support.bad_input import Workshop
from tests.support.certain import SYSTEMS, one_label, prepared
from tests.support.runs import KilledError, die_at_fold
from tests.support.small_systems import build, recipe_of
from tests.support.svm_texts import svm_of, texts

ALL_AUTO: dict[str, Any] = dict.fromkeys(SvmSettings._fields, AUTO)
OPTIONS = FitOptions(config=TrainingConfig(), path="systems.x", seed=0, rate=0.0, nested=True)
FOLDS = 3


def test_the_others_are_all_but_one() -> None:
    assert [others("abc", place) for place in range(3)] == [["b", "c"], ["a", "c"], ["a", "b"]]


# Settings of an SVM


def of_order(n: int, seed: int) -> Any:
    """Return 60 texts of four tokens: the parity of the sum of n tokens in a row decides the label."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, 9, (60, 4))
    return texts((ids[:, :n].sum(1) % 2).tolist(), ids.tolist())


def problems() -> list[SvmProblem]:
    parts = [(of_order(n, seed), of_order(n, seed + 1)) for n, seed in ((1, 0), (2, 2), (2, 4))]
    return [SvmProblem(svm_of(**ALL_AUTO), *part, seed=0, class_weight="none") for part in parts]


def test_the_settings_and_the_scale_of_an_svm_are_those_that_the_other_folds_choose() -> None:
    """One fold needs no pairs of tokens, the others do: together all choose what the first fold alone would not."""
    given = problems()
    chosen = [choose(others(problems(), place)) for place in range(FOLDS)]
    assert len({each.settings for each in chosen}) > 1
    for place, found in enumerate(choose_nested(given, {})):
        settings, scale = chosen[place].settings, chosen[place].scale
        own = problems()[place]
        margins = own.margins(settings, own.solve(settings))
        assert_allclose(found.own.logits, scaled(margins, scale).logits, rtol=1e-5)
        rest = [each.margins(settings, each.solve(settings)) for each in others(problems(), place)]
        assert_allclose(pool(found.others).logits, scaled(pool(rest), scale).logits, rtol=1e-5)


def test_settings_that_all_folds_have_tried_are_not_fitted_again() -> None:
    given, kept = problems(), {}
    choose(given, kept)
    tried = {settings for _, settings in kept}
    choose_nested(given, kept)
    assert {(problem, settings) for problem in given for settings in tried} <= set(kept)
    fits: list[SvmSettings] = []
    for problem in given:
        problem.solve = fits.append  # type: ignore[assignment,method-assign]
    choose_nested(given, kept)
    assert fits == []


def test_the_fitter_predicts_nested_only_if_it_is_asked() -> None:
    parts = [(of_order(2, seed), of_order(2, seed + 1)) for seed in (0, 2)]

    def folds(options: FitOptions) -> list[Fold]:
        return [Fold(lambda part=part: (svm_of(**ALL_AUTO), *part), options) for part in parts]  # type: ignore[misc]

    assert linear_svm.fit_folds(folds(replace(OPTIONS, nested=False))).nested == []
    assert len(linear_svm.fit_folds(folds(OPTIONS)).nested) == 2


# Penalty of a head


class Told(LogisticProblem):
    """Problem of held-out texts of class 0, with a given logit for each penalty."""

    def __init__(self, logit: dict[float, float]) -> None:
        self.wanted, self.logit, self.prior = np.zeros(4, np.int64), logit, None

    def predicted(self, settings: LogisticSettings) -> Predicted:
        """Return the same logits for all texts."""
        return Predicted(np.tile(np.float32([self.logit.get(settings.penalty, 0.0), 0.0]), (4, 1)), None)


def test_the_penalty_of_a_head_is_the_one_that_the_other_folds_choose() -> None:
    """The first fold wants 0.01 by far, and decides for all; the other two want 10 and decide for the first."""
    given = [Told({0.01: 9.0, 10.0: -9.0}), Told({0.01: 0.5, 10.0: 1.0}), Told({0.01: 0.5, 10.0: 1.0})]
    assert choose_on_folds(given, nested=False).nested == []
    found = choose_on_folds(given, nested=True)
    assert found.choice.penalty == 0.01
    assert [float(each.logits[0, 0]) for each in found.predictions] == [9.0, 0.5, 0.5]
    assert [float(each.own.logits[0, 0]) for each in found.nested] == [-9.0, 0.5, 0.5]
    assert [[float(other.logits[0, 0]) for other in each.others] for each in found.nested] == [
        [1.0, 1.0],
        [9.0, 0.5],
        [9.0, 0.5],
    ]


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


@pytest.mark.parametrize("nested", [False, True])
def test_the_plan_of_a_fold_is_that_of_the_other_folds(nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest plan within a standard error is 40 steps, and 20 without the last fold.

    Nested or not, no fold is predicted with the evaluation that is best on its own rows.
    """
    results = iter(
        [of_scores(10, 0.9, 0.7, 0.5, 0.5), of_scores(20, 0.5, 0.6, 0.4, 0.4), of_scores(40, 0.5, 0.6, 0.4, 0.7)]
    )
    monkeypatch.setattr(classifier, "_trained_fold", lambda _: next(results))
    fold = Fold(lambda: (None, None, None), replace(OPTIONS, nested=nested))  # type: ignore[arg-type, return-value]
    found = classifier.fit_folds([fold] * 3)
    assert found.choice == Plan(40, 40)
    assert [float(each.logits[0, 0]) for each in found.predictions] == [40, 40, 20]
    if not nested:
        assert found.nested == []
        return
    assert [float(each.own.logits[0, 0]) for each in found.nested] == [40, 40, 20]
    assert [[float(other.logits[0, 0]) for other in each.others] for each in found.nested] == [
        [40] * 2,
        [40] * 2,
        [20] * 2,
    ]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Return a view without dev and test, whose texts have labels by chance."""
    shop, draw = Workshop(tmp_path_factory.mktemp("nested")), np.random.default_rng(1)
    rows = [row | {"label": ["arts", "sport"][draw.integers(2)]} for row in one_label("train", 0)]
    prepared(shop, "".join(json.dumps(row) + "\n" for row in rows), ["textcnn"], folds=FOLDS, labels=["arts", "sport"])
    return View.load(shop.root / "data/encoded/token")


def validated(view: View, state: Path | None = None) -> CrossValidation:
    recipe = RECIPES["textcnn"].changed(encoder=SYSTEMS["textcnn"]["encoder"], head={"dropout": 0.0})
    config = TrainingConfig(**SYSTEMS["textcnn"]["train"], evaluations=4, precision="fp32")
    return cross_validate(recipe, config, view, seed=0, path="systems.x", state=state)


def test_early_stopping_does_not_choose_by_the_fold_that_is_scored(view: View) -> None:
    """Nothing can be learned: the best of 48 evaluations is above chance, and one that is not chosen is not."""
    found, labels = validated(view), np.asarray(view.split("train").labels)
    logits, _ = tune_nested(None, found.nested, labels, found.fold)
    score = Predicted(logits, None).score(labels)
    assert max(line["dev"] for line in found.history) > 0.51
    assert found.predicted.score(labels) == score  # an unbiased score without `nested` too
    assert abs(score - 0.5) < 0.06


def test_a_killed_training_keeps_the_logits_of_its_evaluations(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, loaded = validated(view), die_at_fold(monkeypatch, 1)
    with pytest.raises(KilledError):
        validated(view, tmp_path / "seed-0")
    again = validated(view, tmp_path / "seed-0")
    assert loaded == ["0", "1", "1", "2"]
    for one, other in zip(again.nested, whole.nested, strict=True):
        assert_array_equal(one.own.logits, other.own.logits)


# Temperature and thresholds


def of_folds(draw: np.random.Generator, columns: int, *, multi: bool = False) -> list[NestedFold]:
    """Return three folds of 20, 10 and 15 rows, each with other logits for itself and for the others."""
    sizes = [20, 10, 15]

    def drawn(rows: int) -> Predicted:
        return Predicted(3 * draw.normal(size=(rows, columns)).astype(np.float32), None, multi)

    return [NestedFold(drawn(size), [drawn(rest) for rest in others(sizes, n)]) for n, size in enumerate(sizes)]


def test_the_temperature_of_a_fold_fits_the_predictions_for_the_others() -> None:
    """The rows of the folds are mixed; the predictions of a fold have the order of its rows."""
    draw = np.random.default_rng(0)
    fold = draw.permutation(np.repeat([0, 1, 2], [20, 10, 15]))
    labels, given = draw.integers(0, 2, 45), of_folds(draw, 2)
    logits, thresholds = tune_nested(build(recipe_of("textcnn")), given, labels, fold)
    assert thresholds is None
    temperatures = []
    for number, each in enumerate(given):
        wanted = np.concatenate([labels[fold == other] for other in others(range(3), number)])
        gold = wanted[:, None] == np.arange(2)
        temperatures.append(fit_temperature(pool(each.others).logits, gold, multi=False))
        assert_allclose(logits[fold == number], each.own.logits / temperatures[-1], rtol=1e-5)
    assert len(set(temperatures)) == 3
    untouched, _ = tune_nested(svm_of(), given, labels, fold)  # an SVM calibrates itself
    assert_array_equal(untouched[fold == 1], given[1].own.logits)


def test_the_thresholds_of_a_fold_fit_the_predictions_for_the_others() -> None:
    draw = np.random.default_rng(1)
    fold, given = np.repeat([0, 1, 2], [20, 10, 15]), of_folds(draw, 3, multi=True)
    labels = draw.integers(0, 2, (45, 3))
    _, thresholds = tune_nested(svm_of(multi=True), given, labels, fold)
    assert thresholds is not None
    for number, each in enumerate(given):
        wanted = tuned_thresholds(labels[fold != number] > 0, pool(each.others).probabilities)
        assert_allclose(thresholds[fold == number], np.tile(wanted, ((fold == number).sum(), 1)), rtol=1e-6)
    assert len(np.unique(thresholds, axis=0)) == 3


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
    assert len(choose_nested(given, {})) == FOLDS
