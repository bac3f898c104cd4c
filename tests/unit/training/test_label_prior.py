"""Tests of the prior by the names of labels: its weights, when it is chosen, and what stays as it was without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.evaluation.metrics.primary import metric_of
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.inference.predictors.predictor import Predictor
from epigram.models.batches import TextBatches
from epigram.models.predict import Predicted
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.nn.layers.types import DataSpec
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import ViewSettings
from epigram.training.config import TrainingConfig
from epigram.training.fitters import FitOptions
from epigram.training.fitters.frozen_classifier import LogisticProblem
from epigram.training.frozen.known_encodings import Encodings
from epigram.training.linear.label_prior import is_worth, prior_weights
from epigram.training.linear.ngram_regression import NgramProblem
from tests.support.trained import train_seed

CLASSES, WIDTH = 4, 12
CONFIG = TrainingConfig(threads=1)
OPTIONS = FitOptions(config=CONFIG, path="systems.x", seed=0)
RECIPE = Recipe(
    name="mine", about="", paper="", view="token", model={"kind": "frozen_classifier"},
    encoder={"kind": "embedding", "width": 64, "dropout": 0.0}, head={"kind": "linear"},
)  # fmt: skip
HEADS = ("linear", "linear_ngrams")


def test_the_weights_give_the_cosine_of_a_text_with_a_name() -> None:
    """Reading: cos(x - mean, name - mean of the names), with the mean length of the texts in place of each one's."""
    random = np.random.default_rng(0)
    names, x = random.normal(size=(3, 5)) + 7.0, random.normal(size=(20, 5)) * 4.0 - 2.0
    found = (x - x.mean(0)) @ prior_weights(names, x, np.arange(20) % 3, names.shape[1])
    mean_length = np.mean([np.sqrt(sum((row - x.mean(0)) ** 2)) for row in x])
    for text, row in zip(x, found, strict=True):
        for name, value in zip(names, row, strict=True):
            one, other = text - x.mean(0), name - names.mean(0)
            cosine = one @ other / np.sqrt(one @ one) / np.sqrt(other @ other)
            assert value == pytest.approx(cosine * np.sqrt(one @ one) / mean_length, rel=1e-12)


def test_only_the_last_layer_counts() -> None:
    random = np.random.default_rng(0)
    names, x, labels = random.normal(size=(3, 5)), random.normal(size=(20, 5)), np.arange(20) % 3
    alone, beside = prior_weights(names[:, 3:], x[:, 3:], labels, 2), prior_weights(names, x, labels, 2)
    assert_array_equal(beside[:3], np.zeros((3, 3)))
    assert_array_equal(beside[3:], alone)


@pytest.mark.parametrize(
    "labels", [np.array([0, 2, 0, 2]), np.array([[1, 0, 0, 1], [1, 0, 1, 0], [1, 0, 1, 1], [1, 0, 0, 0]])]
)
def test_a_label_of_no_text_or_of_all_gets_no_weights(labels: NDArray[np.int64]) -> None:
    random = np.random.default_rng(0)
    weights = prior_weights(random.normal(size=(4, 3)), random.normal(size=(4, 3)), labels, 3)
    assert np.flatnonzero(np.abs(weights).sum(0)).tolist() == ([0, 2] if labels.ndim == 1 else [2, 3])


def test_equal_names_and_equal_texts_are_no_division_by_zero() -> None:
    for names, x in ((np.ones((2, 3)), np.eye(3)), (np.eye(2, 3), np.ones((3, 3)))):
        assert_array_equal(prior_weights(names, x, np.array([0, 1, 0]), 3), np.zeros((3, 2)))


@pytest.mark.parametrize("multi", [False, True])
def test_a_prior_is_worth_a_gain_of_more_than_its_standard_error(multi: bool) -> None:
    """The prior lowers each loss by 0.3 ± 1: 3 standard errors of 100 texts, 1.2 of 16, 0.85 of 8."""
    for count, worth in ((100, True), (16, True), (8, False)):
        plain = predicted(np.full(count, 4.0), multi=multi)
        prior = predicted(4.0 - 0.3 + np.tile([1.0, -1.0], count // 2), multi=multi)
        labels = np.ones((count, 1), int) if multi else np.zeros(count, int)
        assert is_worth(prior, plain, labels) == worth
        assert not is_worth(plain, prior, labels)


def test_a_prior_with_a_lower_score_is_not_worth_it() -> None:
    """The mean loss falls from 0.69 to 0.15, but four of five texts are right, not all five."""
    plain, prior, labels = np.array([0.69] * 5), np.array([0.01] * 4 + [0.7]), np.zeros(5, int)
    assert not is_worth(predicted(prior), predicted(plain), labels)
    assert is_worth(predicted(prior), predicted(plain + 0.1), labels)  # of which none is right


def test_a_prior_is_judged_by_the_metric() -> None:
    """With the prior, four of five texts of label 0 are right instead of all; the log loss is lower."""
    plain, prior, labels = np.array([0.69] * 5), np.array([0.01] * 4 + [0.7]), np.zeros(5, int)
    for setting, worth in (("auto", False), ("balanced_accuracy", False), ("log_loss", True)):
        metric = metric_of(setting, "single", ["a", "b"])
        assert is_worth(predicted(prior), predicted(plain), labels, metric) == worth


def predicted(losses: NDArray[Any], *, multi: bool = False) -> Predicted:
    """Return predictions with given losses (N,) of the label 0, or of the only label."""
    right = -np.log(np.expm1(losses))[:, None]
    return Predicted(right if multi else np.concatenate([right, 0 * right], 1), None, multi)


def sample(count: int, seed: int, *, noise: float) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return encodings (N, D) around the unit vectors of their labels, and the labels (N,)."""
    random, labels = np.random.default_rng(seed), np.arange(count) % CLASSES
    return np.eye(CLASSES, WIDTH)[labels] + noise * random.normal(size=(count, WIDTH)), labels


def problem(head: str, names: Any, train: Any, dev: Any, model: Any = None) -> Any:
    """Return the problem of a fit whose encodings are given; a text has one token, which tells nothing."""
    model = model or built(head)

    def texts(labels: NDArray[np.int64]) -> TextBatches:
        ids = Ragged.from_lists([[5]] * len(labels), np.int64)
        return TextBatches(ids, prefix=[], suffix=[], max_length=4, pad_id=0, unk_id=1, labels=labels)

    encodings = Encodings(train[0], dev[0], None if names is None else np.asarray(names))
    if head == "linear":
        return LogisticProblem(model, texts(train[1]), texts(dev[1]), encodings, "none")
    return NgramProblem(model, texts(train[1]), texts(dev[1]), encodings, OPTIONS)


def built(head: str) -> Any:
    recipe = RECIPE.changed(encoder={"width": WIDTH}, head={"kind": head})
    return recipe.build(DataSpec(vocabulary=9, classes=CLASSES, max_length=4))


@pytest.mark.parametrize("head", HEADS)
def test_names_that_tell_more_than_the_texts_are_used(head: str) -> None:
    """Eight training texts with much noise; each name is the center of its class."""
    train, dev = sample(8, 0, noise=0.5), sample(400, 1, noise=0.5)
    test, labels = sample(1000, 2, noise=0.5)
    scores = {}
    for names in (None, np.eye(CLASSES, WIDTH)):
        model = built(head)
        found = problem(head, names, train, dev, model)
        settings = found.choose([found])
        found.install(model, settings)
        with torch.no_grad():
            logits = model.head.out(torch.from_numpy(test).float()).double().numpy()
        scores[names is None] = float((logits.argmax(1) == labels).mean())
        assert (settings.strength > 0) == (names is not None)
        if names is not None:  # the saved layer is the fitted weights plus the prior
            with torch.no_grad():
                held_out = model.head.out(torch.from_numpy(dev[0]).float()).numpy()
                if head == "linear_ngrams":  # the only n-gram, which each text has
                    held_out += model.head.ngrams.weight.sum(0).numpy()
            assert_allclose(held_out, found.predicted(settings).logits, atol=1e-4)
    assert scores[False] > scores[True] + 0.05, scores


@pytest.mark.parametrize("head", HEADS)
def test_of_several_layers_a_fit_compares_the_last_one_with_the_names(head: str) -> None:
    """The encodings are those of two layers side by side; each name is the center of its class in both."""

    def twice(x: Any) -> NDArray[Any]:
        return np.concatenate([x, x], 1)

    (x, labels), (held_out, wanted) = sample(8, 0, noise=0.5), sample(8, 1, noise=0.5)
    found = problem(head, twice(np.eye(CLASSES, WIDTH)), (twice(x), labels), (twice(held_out), wanted))
    assert_array_equal(found.prior[:WIDTH], np.zeros((WIDTH, CLASSES)))
    assert np.abs(found.prior[WIDTH:]).max() > 0.0


@pytest.mark.parametrize("head", HEADS)
def test_misleading_names_change_no_bit(head: str) -> None:
    """Each name is the center of another class."""
    train, dev = sample(40, 0, noise=0.3), sample(400, 1, noise=0.3)
    layers = []
    for names in (None, np.roll(np.eye(CLASSES, WIDTH), 1, axis=0)):
        model = built(head)
        found = problem(head, names, train, dev, model)
        settings = found.choose([found])
        found.install(model, settings)
        assert settings.strength == 0.0
        layers.append((settings, [each.detach().numpy().tobytes() for each in model.head.parameters()]))
    assert layers[0] == layers[1]


@pytest.mark.parametrize("head", HEADS)
def test_the_folds_choose_the_strength_together(head: str) -> None:
    """The names help the first fold alone; they mislead in the three others."""
    train, dev = sample(8, 0, noise=0.5), sample(100, 1, noise=0.5)
    good, bad = np.eye(CLASSES, WIDTH), np.roll(np.eye(CLASSES, WIDTH), 1, axis=0)
    first, others = problem(head, good, train, dev), [problem(head, bad, train, dev) for _ in range(3)]
    assert first.choose([first]).strength > 0.0
    assert first.choose([first, *others]).strength == 0.0


TEXTS = [(f"{word} {label} {word}", label) for label in ("neg", "pos") for word in ("film", "plot", "cast", "good")]
SPLITS = {"train": TEXTS, "dev": TEXTS, "test": TEXTS}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("task", ["single", "multi"])
def test_a_system_reads_the_names_unless_the_setting_is_off(
    head: str, task: str, encoded: Callable[..., View], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The label is in the text, so that the name is similar even for random vectors."""
    rows = SPLITS if task == "single" else {name: [(text, [label]) for text, label in TEXTS] for name in SPLITS}
    view = encoded(rows, language="en", task=task)
    seen: list[Any] = []
    monkeypatch.setattr(
        "epigram.training.frozen.known_encodings.Encodings.of",
        classmethod(lambda cls, *given, of=Encodings.of: seen.append(of(*given)) or seen[-1]),
    )
    for used in (True, False):
        recipe = RECIPE.changed(head={"kind": head}, model={"label_names": used})
        train_seed("mine", recipe, CONFIG, view, None, 0, tmp_path / f"{used}")
        answers = [each.label for each in Predictor(tmp_path / f"{used}").predict([text for text, _ in TEXTS])]
        assert task == "multi" or answers == [label for _, label in TEXTS]
    names = [each.names for each in seen]
    assert [each is not None for each in names] == [True, False]
    table = load(tmp_path / "True").model.encoder.embedding.token.weight.detach().numpy()
    assert_allclose(names[0], table[[row[0] for row in view.label_tokens]], atol=1e-3)


def test_labels_that_are_no_words_have_no_names(encoded: Callable[..., View]) -> None:
    view = replace(encoded(SPLITS, language="en"), label_tokens=[])
    assert names_of(view) is None


def test_a_view_with_characters_has_no_names(encoded: Callable[..., View]) -> None:
    assert names_of(encoded(SPLITS, language="en", view=ViewSettings(characters=True))) is None


def test_the_names_are_read_like_texts(encoded: Callable[..., View]) -> None:
    names = names_of(encoded(SPLITS, language="en", view=ViewSettings(tokenizer="wordpiece")))
    assert names is not None and len(names) == 2
    ids = names.gather(np.arange(2)).ids
    assert (ids[:, 0] == 2).all() and (ids[:, -1] == 3).all()  # [CLS] and [SEP]


def names_of(view: View) -> TextBatches | None:
    from epigram.inference.predictors.dataset_batches import template_of

    return batches_of(view, "train", template_of(view, 16), label_names=True).label_names


def test_the_setting_is_on_by_default_and_only_for_frozen_encoders() -> None:
    assert RECIPE.uses_label_names
    assert not replace(RECIPE, model={"kind": "classifier"}).uses_label_names
    assert not cast(Recipe, RECIPE.changed(model={"label_names": False})).uses_label_names
