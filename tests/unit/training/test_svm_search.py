"""Tests of the choice of a linear SVM's settings: what is tried, by which texts it is judged, and what is fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import AUTO, LinearSvm, LinearSvmConfig, SvmSettings
from epigram.models.predict import Predicted, gold_labels, predict
from epigram.nn.layers.ngrams import max_n
from epigram.nn.layers.types import DataSpec
from epigram.training.config import TrainingConfig
from epigram.training.fitters import FitOptions, Fold, linear_svm, pool
from epigram.training.fitters.linear_svm import SvmChoice, fit, fit_folds, fit_model
from epigram.training.linear import svm_search
from epigram.training.linear.svm import fit_scale, scaled
from epigram.training.linear.svm_search import PENALTIES, SvmProblem, choose
from tests.support.svm_texts import svm_of, texts, words

ALL_AUTO: dict[str, Any] = dict.fromkeys(SvmSettings._fields, AUTO)
PLAIN = SvmSettings((1, 2), True, "tfidf", 1.0)
OPTIONS = FitOptions(config=TrainingConfig(), path="systems.x", seed=0)


class Told(SvmProblem):
    """Problem of held-out texts of class 0, with a given probability of class 0 for each settings."""

    def __init__(self, told: Callable[[SvmSettings], float], count: int = 1, **config: Any) -> None:
        held_out = words([0] * count, [5] * count)
        super().__init__(svm_of(**(config or ALL_AUTO)), held_out, held_out, seed=0, class_weight="none")
        self.told, self.fits = told, list[SvmSettings]()

    def solve(self, settings: SvmSettings) -> Any:
        """Note the fit."""
        self.fits.append(settings)
        return settings

    def margins(self, settings: SvmSettings, solution: Any) -> Predicted:
        """Return the given probability as logits."""
        assert solution == settings
        p = self.told(settings)
        return Predicted(np.tile(np.float32([np.log(p), np.log(1 - p)]), (len(self.wanted), 1)), None)


@pytest.fixture
def unscaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take margins as logits."""
    monkeypatch.setattr(svm_search, "fit_scale", lambda margins, labels: 1.0)


def near(best: SvmSettings) -> Callable[[SvmSettings], float]:
    """Return probabilities that fall with the distance from the settings `best`."""

    def told(settings: SvmSettings) -> float:
        steps = abs(PENALTIES.index(settings.penalty) - PENALTIES.index(best.penalty))
        steps += abs(len(settings.orders) - len(best.orders))
        return 0.9 - 0.05 * (steps + (settings.sublinear != best.sublinear) + (settings.weighting != best.weighting))

    return told


@pytest.mark.usefixtures("unscaled")
@pytest.mark.parametrize(
    "best",
    [
        PLAIN,
        SvmSettings((1,), False, "naive_bayes", 0.1),
        SvmSettings((1, 2, 3, 4), True, "naive_bayes", 10.0),
        SvmSettings((1, 2, 3), False, "tfidf", 0.3),
    ],
)
def test_the_settings_of_the_lowest_loss_are_found(best: SvmSettings) -> None:
    problem = Told(near(best))
    found = choose([problem])
    assert found.settings == best
    assert found.loss == pytest.approx(-np.log(0.9), rel=1e-5)
    assert len(set(problem.fits)) == len(problem.fits) <= 16, "no settings are fitted twice"


@pytest.mark.usefixtures("unscaled")
def test_a_setting_is_tried_again_after_a_change_of_another_one() -> None:
    """The penalty matters only without bigrams, and orders come after it."""
    problem = Told(lambda settings: 0.7 if 2 in settings.orders else 0.9 if settings.penalty == 3.0 else 0.8)
    assert choose([problem]).settings == PLAIN._replace(orders=(1,), penalty=3.0)


@pytest.mark.usefixtures("unscaled")
def test_settings_that_are_given_are_kept() -> None:
    given = ALL_AUTO | {"orders": [1], "penalty": 0.7}
    problem = Told(lambda settings: 0.9 if settings.weighting == "naive_bayes" else 0.8, **given)
    assert choose([problem]).settings == SvmSettings((1,), True, "naive_bayes", 0.7)


@pytest.mark.usefixtures("unscaled")
def test_without_auto_there_is_one_fit() -> None:
    problem = Told(lambda settings: 0.5, orders=[1, 2])
    assert choose([problem]).settings == PLAIN
    assert problem.fits == [PLAIN]


@pytest.mark.usefixtures("unscaled")
@pytest.mark.parametrize(("gain", "weighting"), [(0.0, "tfidf"), (0.004, "tfidf"), (0.006, "naive_bayes")])
def test_a_change_has_to_lower_the_loss_by_half_a_percent(gain: float, weighting: str) -> None:
    def told(settings: SvmSettings) -> float:
        return 0.5 if settings.weighting == "tfidf" else 0.5 ** (1 - gain)

    assert choose([Told(told)]).settings == PLAIN._replace(weighting=weighting)  # type: ignore[arg-type]


@pytest.mark.usefixtures("unscaled")
def test_the_loss_is_that_of_the_texts_of_all_folds() -> None:
    """The first fold alone chooses 0.3; together, nine texts that prefer 3 outweigh its three."""
    few = Told(lambda settings: {0.3: 0.9, 1.0: 0.8, 3.0: 0.7}.get(settings.penalty, 0.1), 3, penalty=AUTO)
    many = Told(lambda settings: {0.3: 0.7, 1.0: 0.8, 3.0: 0.9}.get(settings.penalty, 0.1), 9, penalty=AUTO)
    assert choose([few]).settings.penalty == 0.3
    assert choose([few, many]).settings.penalty == 3.0


def of_order(n: int, rows: int, seed: int) -> TextBatches:
    """Return texts of six tokens whose label is the parity of the first n, which only whole n-grams show.

    One label in twenty is wrong.
    """
    random = np.random.default_rng(seed)
    bits, others = random.integers(0, 2, (rows, n)), random.integers(7, 29, (rows, 6 - n))
    return texts(bits.sum(1) % 2 ^ (random.random(rows) < 0.05), np.hstack([bits + 5, others]).tolist())


@pytest.mark.parametrize(("n", "wanted"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3))])
def test_the_orders_are_as_long_as_the_label_needs(n: int, wanted: tuple[int, ...]) -> None:
    train, dev = of_order(n, 300, 0), of_order(n, 300, 5)
    model = svm_of(orders=AUTO, penalty=0.1)
    fit(model, train, dev, seed=0)
    assert model.config.orders == list(wanted)
    assert (predict(model, dev).logits.argmax(1) == gold_labels(dev)).mean() > 0.85


def suffixed(rows: int, seed: int) -> TextBatches:
    """Return texts of one token; each has an id of its own, and its last two characters are those of the label.

    One label in twenty is wrong.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    endings = labels ^ (random.random(rows) < 0.05)
    spelling = np.hstack([random.integers(4, 9, (rows, 3)), np.stack([endings + 2, 3 - endings], 1)])
    return texts(labels, random.permutation(1000)[:rows, None].tolist(), spelling.tolist())


def test_characters_are_chosen_where_they_tell_the_label() -> None:
    train, dev = suffixed(200, 0), suffixed(200, 1)
    model = svm_of(**ALL_AUTO, vocabulary=1000, alphabet=10)
    fit(model, train, dev, seed=0)
    assert model.config.characters == [2, 3, 4, 5]
    assert (predict(model, dev).logits.argmax(1) == gold_labels(dev)).mean() > 0.85


def test_characters_are_not_chosen_where_they_tell_nothing() -> None:
    train, dev = suffixed(200, 0), suffixed(200, 1)
    for part in (train, dev):
        part.labels = part.ids[part.starts] % 2  # of a few tokens, which are seen in train
        part.ids = part.ids % 20
    model = svm_of(**ALL_AUTO, vocabulary=1000, alphabet=10)
    fit(model, train, dev, seed=0)
    assert model.config.characters == []


@pytest.mark.usefixtures("unscaled")
@pytest.mark.parametrize(("alphabet", "chosen"), [(0, ()), (6_207, (2, 3, 4, 5)), (6_208, ())])
def test_characters_are_tried_where_the_view_has_them_and_their_keys_fit(
    alphabet: int, chosen: tuple[int, ...]
) -> None:
    problem = Told(lambda settings: 0.9 if settings.characters else 0.5, **ALL_AUTO, alphabet=alphabet)
    assert choose([problem]).settings.characters == chosen


def test_the_final_fit_leaves_out_orders_of_characters_whose_keys_are_too_long() -> None:
    choice = SvmChoice(PLAIN._replace(characters=(2, 3, 4, 5)), 1.0)
    options = FitOptions(config=TrainingConfig(), path="systems.x", seed=0, choice=choice)
    model = svm_of(**ALL_AUTO, vocabulary=1000, alphabet=6_208)
    assert fit_model(model, suffixed(20, 0), None, options).model.config.characters == [2, 3, 4]


@pytest.mark.parametrize(
    ("alphabet", "characters", "message"),
    [
        (0, [2, 3], "model.characters needs a view with characters: true"),
        (9, [2, 4], r"model.characters is \[2, 4\]; expected consecutive numbers"),
        (6_208, [4, 5], "with a vocabulary of 6,208 characters only orders up to 4"),
    ],
)
def test_characters_that_cannot_be_counted_are_refused(alphabet: int, characters: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearSvmConfig(characters=characters).check(
            DataSpec(vocabulary=30, classes=2, max_length=8, characters=alphabet)
        )


def noisy(share: float, seed: int) -> TextBatches:
    """Return 200 texts of one of ten tokens; its parity is the label, which is wrong in a share of the texts."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, 10, 200)
    return words((ids % 2) ^ (random.random(200) < share), (ids + 5).tolist())


def test_the_fit_with_auto_is_that_with_the_chosen_settings() -> None:
    train, dev = noisy(0.2, 0), noisy(0.2, 1)
    model = svm_of(**ALL_AUTO)
    fit(model, train, dev, seed=0)
    assert not model.config.automatic
    same = svm_of(**vars(model.config))
    fit(same, train, dev, seed=0)
    assert_array_equal(same.weight.numpy(), model.weight.numpy())
    assert (
        float(same.scale)
        == float(model.scale)
        == pytest.approx(fit_scale(Predicted(predict(model, dev).logits / float(model.scale), None), gold_labels(dev)))
    )


def test_what_the_search_fitted_is_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    options = []

    def noted(x: Any, labels: Any, classes: int, asked: Any) -> Any:
        options.append((x.shape, asked))
        return svm(x, labels, classes, asked)

    svm = svm_search.fit_svms
    monkeypatch.setattr(svm_search, "fit_svms", noted)
    fit(svm_of(penalty=AUTO, weighting=AUTO, orders=[1]), noisy(0.2, 0), noisy(0.2, 1), seed=0)
    assert len(options) == len(set(options)) > 2


def test_a_search_on_many_texts_reads_some_of_them_and_the_fit_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All texts have a token of their own, so the number of features is that of the texts."""
    shapes = []

    def noted(x: Any, *rest: Any) -> Any:
        shapes.append(x.shape)
        return svm(x, *rest)

    svm = svm_search.fit_svms
    monkeypatch.setattr(svm_search, "fit_svms", noted)
    monkeypatch.setattr(linear_svm, "SEARCH_ROWS", 7)
    monkeypatch.setattr(linear_svm, "SEARCH_COST", 16)  # 8 texts of one token and two classes
    train = words([0, 1] * 10, list(range(5, 25)))
    model = svm_of(penalty=AUTO, orders=[1])
    fit(model, train, words([0, 1, 1], [5, 6, 7]), seed=0)
    assert set(shapes[:-1]) == {(8, 8)}
    assert (shapes[-1], len(model.keys)) == ((20, 20), 20)
    assert model.scale != 1.0
    shapes.clear()
    fit(svm_of(orders=[1]), train, words([0, 1, 1], [5, 6, 7]), seed=0)
    assert shapes == [(20, 20)]


def of_folds(model: Callable[[], LinearSvm], parts: list[tuple[TextBatches, TextBatches]]) -> list[Fold]:
    return [Fold(lambda part=part: (model(), *part), OPTIONS) for part in parts]  # type: ignore[misc]


def test_folds_choose_settings_and_scale_and_return_their_predictions() -> None:
    parts = [(of_order(3, 100, seed), of_order(3, 100, seed + 1)) for seed in (1, 3)]
    results = fit_folds(of_folds(lambda: svm_of(**ALL_AUTO), parts))
    settings, scale = results.choice
    assert settings.orders == (1, 2, 3)
    wanted = []
    for train, dev in parts:
        model = svm_of(**settings._asdict() | {"orders": list(settings.orders), "characters": []})
        fit(model, train, dev, seed=0)
        wanted.append(Predicted(predict(model, dev).logits / float(model.scale), None))
    labels = np.concatenate([gold_labels(dev) for _, dev in parts])
    assert scale == pytest.approx(fit_scale(pool(wanted), labels))
    for found, margins in zip(results.judged, wanted, strict=True):
        assert_allclose(found.logits, scaled(margins, scale).logits, atol=1e-5)


def test_the_final_fit_has_the_settings_and_the_scale_of_the_folds() -> None:
    train = noisy(0.2, 0)
    choice = SvmChoice(SvmSettings((1,), False, "naive_bayes", 0.3), 2.5)
    options = FitOptions(config=TrainingConfig(), path="systems.x", seed=0, choice=choice)
    model = fit_model(svm_of(**ALL_AUTO), train, None, options).model
    wanted = svm_of(orders=[1], sublinear=False, weighting="naive_bayes", penalty=0.3)
    fit(wanted, train, train, seed=0)
    assert_array_equal(model.weight.numpy(), wanted.weight.numpy())
    assert (model.config, float(model.scale)) == (wanted.config, 2.5)


def test_the_final_fit_leaves_out_orders_whose_keys_are_too_long_for_the_vocabulary_of_all_folds() -> None:
    """A vocabulary of 60,000 tokens has keys of three tokens, that of a fold may have keys of four."""
    assert max_n(60_000) == 3
    choice = SvmChoice(PLAIN._replace(orders=(1, 2, 3, 4)), 1.0)
    options = FitOptions(config=TrainingConfig(), path="systems.x", seed=0, choice=choice)
    model = fit_model(svm_of(**ALL_AUTO, vocabulary=60_000), of_order(3, 20, 0), None, options).model
    assert model.config.orders == [1, 2, 3]


def test_an_error_names_the_system_in_a_fold_too() -> None:
    parts = [(words([0, 1], [5, 6]), words([0, 1], [5, 6]))]
    with pytest.raises(ParameterError, match=r"^params\.yaml: systems\.x\.model\.min_rows is 3, but no n-gram"):
        fit_folds(of_folds(lambda: svm_of(min_rows=3), parts))


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0, 30.0])
def test_the_scale_is_the_one_that_the_labels_have(scale: float, multi: bool) -> None:
    """The labels are drawn from the probabilities at that scale."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(4_000, 3)).astype(np.float32)
    p = Predicted(logits, None, multi).probabilities
    labels: NDArray[Any] = (random.random(p.shape) < p).astype(int)
    if not multi:
        labels = (random.random((4_000, 1)) < p.cumsum(1)).argmax(1)
    assert fit_scale(Predicted(logits / np.float32(scale), None, multi), labels) == pytest.approx(scale, rel=0.1)


def test_twenty_rows_that_are_all_right_leave_doubt() -> None:
    """With margins of the same size, the probability is 21 / 22, the smoothed target; it was 1 by the best fit."""
    labels = np.arange(20) % 2
    sides = np.stack([1 - 2 * labels, 2 * labels - 1], 1).astype(np.float32)
    for sizes, most in ((np.ones(20), 21 / 22), (np.linspace(0.5, 1.0, 20), 0.985)):
        margins = Predicted(sides * sizes[:, None].astype(np.float32), None)
        found = scaled(margins, fit_scale(margins, labels)).probabilities
        assert (found.argmax(1) == labels).all()
        assert 21 / 22 - 1e-3 < found.max() < most + 1e-3
