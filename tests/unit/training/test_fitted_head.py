"""Tests of a head that starts from a logistic regression: which weights, from which texts, and which heads."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.evaluation.metrics.primary import TASK_METRIC
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.models.settings import System
from epigram.text.settings import ViewSettings
from epigram.training.check_system import check_system
from epigram.training.config import TrainingConfig
from epigram.training.fitters import KINDS, FitOptions, frozen_classifier
from epigram.training.frozen import fitted_head
from epigram.training.frozen.fitted_head import can_fit_head, fit_head
from epigram.training.preflight import placeholder_spec
from tests.support.small_systems import build, recipe_of, texts_of

MEAN = {"pool": "mean", "dropout": 0.0}
RECIPE = recipe_of("bert").changed(head=MEAN)


def head_of(model: Any) -> Any:
    return model.head.out.weight.detach().clone()


def trained(recipe: Any = RECIPE, **settings: Any) -> tuple[NeuralClassifier, NeuralClassifier]:
    """Return the model before and after a training of one step that changes nothing."""
    model, texts = build(recipe), texts_of(recipe)
    before = deepcopy(model)
    config = TrainingConfig(epochs=1, learning_rate=1e-12, precision="fp32", batch_size=999, **settings)
    KINDS["classifier"](model, texts, texts, FitOptions(config=config, path="systems.x", seed=0))
    return before, model


def test_a_training_starts_from_the_regression_only_if_it_is_asked_to() -> None:
    before, model = trained()
    torch.testing.assert_close(head_of(model), head_of(before))
    before, model = trained(fitted_head=True)
    fit_head(before, texts_of(RECIPE), "none", TASK_METRIC)
    torch.testing.assert_close(head_of(model), head_of(before))
    texts = texts_of(RECIPE)
    assert texts.labels is not None
    right = predict(model, texts).logits.argmax(1) == texts.labels.numpy()
    assert right.mean() > 0.8


def test_a_head_that_a_regression_does_not_fit_stays_as_it_is() -> None:
    before, model = trained(recipe_of("bert"), fitted_head=True)
    torch.testing.assert_close(head_of(model), head_of(before))


def test_a_regression_needs_two_texts_with_labels_that_are_no_probabilities() -> None:
    texts = texts_of(RECIPE)
    assert can_fit_head(build(RECIPE), texts)
    assert can_fit_head(build(RECIPE), texts.part(np.arange(2)))
    assert not can_fit_head(build(RECIPE), texts.part(np.arange(1)))
    texts.labels = torch.full((len(texts), 2), 0.5)
    assert not can_fit_head(build(RECIPE), texts)


def test_the_regression_has_random_texts_of_train_and_a_tenth_of_them_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(frozen_classifier, "fit", lambda model, *found: given.append(found))
    monkeypatch.setattr(fitted_head, "ROWS", 5)
    monkeypatch.setattr(fitted_head, "JUDGES", 3)
    texts = texts_of(RECIPE)
    fit_head(build(RECIPE), texts, "balanced", TASK_METRIC)
    [(fitted, judges, weight, _)] = given
    rows = np.random.default_rng(0).permutation(len(texts))[:5]
    assert len(texts) > 5
    assert judges.starts.tolist() == texts.starts[rows[:1]].tolist()
    assert fitted.starts.tolist() == texts.starts[rows[1:]].tolist()
    assert weight == "balanced"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("bert", {}, "head.dropout is 0.1"),
    ("bert", {"pool": "attention", "dropout": 0.0}, "head.pool is 'attention'"),
    ("bert", {"fusion": "hook", "dropout": 0.0}, "head.fusion is 'hook'"),
    ("bert_cnn", {}, "the head convolution is not one linear layer"),
]


@pytest.mark.parametrize(("recipe", "head", "reason"), REFUSED)
def test_a_head_that_a_regression_does_not_fit_is_refused(recipe: str, head: dict[str, Any], reason: str) -> None:
    view, train = ViewSettings(tokenizer="wordpiece"), {"fitted_head": True}
    context = placeholder_spec(view, multi=False, tokens=False)
    with pytest.raises(ParameterError, match=rf"systems\.x\.train\.fitted_head has no effect, because {reason}"):
        check_system("x", System(view="v", recipe=recipe, head=head, train=train), {}, context)
    warnings = check_system("x", System(view="v", recipe=recipe, head=head), train, context)
    assert any("train.fitted_head" in warning and reason in warning for warning in warnings)


def test_a_linear_head_without_dropout_is_accepted() -> None:
    system = System(view="v", recipe="bert", head=MEAN, train={"fitted_head": True, "layer_decay": 0.8})
    assert (
        check_system("x", system, {}, placeholder_spec(ViewSettings(tokenizer="wordpiece"), multi=False, tokens=False))
        == []
    )


def test_rates_by_layer_need_layers() -> None:
    system = System(view="v", recipe="textcnn", train={"layer_decay": 0.8})
    with pytest.raises(ParameterError, match=r"layer_decay has no effect, because the encoder \w+ has no layers"):
        check_system("x", system, {}, placeholder_spec(ViewSettings(), multi=False, tokens=False))
