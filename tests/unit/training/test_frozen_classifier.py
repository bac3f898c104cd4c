"""Tests of the linear head on a frozen encoder: which weights, which penalty, what stays as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import nn

from epigram.core.errors import ParameterError
from epigram.evaluation.metrics.primary import metric_of
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.models.recipe import HEADS, parse_part
from epigram.models.settings import System
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.pruning.depth import prune
from epigram.pruning.prune_model import prune_model
from epigram.pruning.settings import PruneSettings
from epigram.recipes.registry import RECIPES
from epigram.text.settings import ViewSettings
from epigram.training import check_system
from epigram.training.config import TrainingConfig, configure
from epigram.training.fit_system import fit_system
from epigram.training.fitters import KINDS, FitOptions, Fold, frozen_classifier
from epigram.training.fitters.frozen_classifier import PENALTIES, encode, fit, fit_folds
from epigram.training.frozen.known_encodings import KnownEncodings
from epigram.training.preflight import placeholder_spec
from epigram.training.resume import read_finished
from tests.support.small_systems import build, recipe_of, texts_of
from tests.support.text_samples import EN
from tests.support.trained import setup_of, train_seed

NAME = "embedding_linear"
OPTIONS = FitOptions(config=TrainingConfig(), path="systems.x", seed=0)


class Chosen:
    """Texts of one token each, whose encodings and labels are given; they are their own encoder."""

    device, label_names = torch.device("cpu"), None

    def __init__(self, x: Any, labels: Any) -> None:
        self.x, self.labels = torch.tensor(x, dtype=torch.float32), torch.tensor(labels)

    def __len__(self) -> int:
        return len(self.x)

    def in_order(self, *_: int) -> list[NDArray[np.int64]]:
        return list(np.array_split(np.arange(len(self))[::-1], 2))

    def gather(self, rows: NDArray[np.int64]) -> Tokens:
        return Tokens(
            torch.tensor(rows[:, None].copy()),
            torch.ones(len(rows), 1, dtype=torch.bool),
            vectors=self.x[rows.copy(), None],
        )

    def targets(self, rows: NDArray[np.int64]) -> torch.Tensor:
        return self.labels[rows]


class Given(nn.Module):
    """Encoder whose states are the vectors that it is given."""

    depth, state_count, width, pooled = 0, 1, 0, False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, tokens: Tokens) -> Encoded:
        assert tokens.vectors is not None
        return Encoded((tokens.vectors,), tokens)


def fitted(x: Any, labels: Any, dev: tuple[Any, Any], classes: int = 2, *, multi: bool = False) -> Any:
    """Return the fitted head's layer for encodings `x` (N, D) and the held-out `dev`."""
    encoder: Any = Given(len(x[0]))
    head = parse_part(HEADS, RECIPES[NAME].head, "").build(
        DataSpec(vocabulary=9, classes=classes, max_length=4), encoder
    )
    model = NeuralClassifier(encoder, head, multi=multi)
    train, held_out = Chosen(x, labels), Chosen(*dev)
    fit(model, train, held_out)  # type: ignore[arg-type]
    return head.out


def logits(layer: Any, x: Any) -> NDArray[Any]:
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    return np.asarray(np.asarray(x) @ weight.T + bias)


def gradient(layer: Any, x: NDArray[Any], gold: NDArray[Any], penalty: float) -> NDArray[Any]:
    """Return the gradient of ½‖V‖² + C Σ loss for the standardized encodings, whose weights are V = W · std."""
    z, scores = (x - x.mean(0)) / x.std(0), logits(layer, x)
    p = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    return np.asarray(layer.weight.detach().double().numpy() * x.std(0) + penalty * (p - gold).T @ z)


def noisy(count: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return encodings (N, 3) of different scales and three classes that overlap."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    centers = np.array([[0.0, 3, 0], [1, 0, 0], [0, 0, 40]])
    x = centers[labels] + np.array([1, 3, 40]) * random.normal(size=(count, 3)) + np.array([0.0, 50, 0])
    return x.astype(np.float32).astype(float), labels


def test_the_layer_minimises_the_penalized_loss_of_one_of_the_penalties() -> None:
    x, labels = noisy(90)
    layer = fitted(x, labels, noisy(60, seed=1), 3)
    sizes = {penalty: np.abs(gradient(layer, x, np.eye(3)[labels], penalty)).max() for penalty in PENALTIES}
    found = min(sizes, key=lambda penalty: sizes[penalty] / penalty)
    assert sizes[found] / found < 0.02 < min(size / other for other, size in sizes.items() if other != found)


def test_two_classes_get_the_probabilities_of_a_logistic_regression() -> None:
    # One text of each class at -1 and 1. By symmetry V = (-v, v) / 2 and b = 0, where v minimises
    # v² / 2 + 2C log(1 + e^-v), so v = 2C / (1 + e^v). With dev = train, the largest C has the lowest loss.
    layer = fitted([[-1.0], [1.0]], [0, 1], ([[-1.0], [1.0]], [0, 1]))
    [[low, high]] = logits(layer, [[1.0]])
    v = high - low
    assert v == pytest.approx(2 * PENALTIES[-1] / (1 + np.exp(v)), rel=0.01)
    assert low == pytest.approx(-high)


def test_dev_chooses_the_penalty() -> None:
    x, labels = noisy(90)
    sure = fitted(x, labels, (x[labels == 0][:1] + np.array([0, 30, 0]), [0]), 3)  # far on the side of its class
    unsure = fitted(x, labels, (np.roll(x, 1, axis=0), labels), 3)  # contradicts train: the strongest penalty is best
    assert np.abs(unsure.weight.detach().numpy()).sum() < 0.3 * np.abs(sure.weight.detach().numpy()).sum()


@pytest.mark.parametrize("frequent", [0, 2])
def test_a_class_without_training_texts_is_not_predicted(frequent: int) -> None:
    x, labels = [[-1.0], [1.0], [-0.9], [1.1]], [frequent, 1, frequent, 1]
    layer = fitted(x, labels, (x, labels), 3)
    assert logits(layer, [[-1.0], [1.0], [0.0]]).argmax(1).tolist()[:2] == [frequent, 1]


@pytest.mark.parametrize("labels", [[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 2, 3]])
def test_at_the_mean_a_class_without_training_texts_has_the_odds_of_half_a_text(labels: list[int]) -> None:
    x = [[-1.0], [1.0], [-0.9], [0.8]]
    at_mean = logits(fitted(x, labels, (x, labels), 5), [np.mean(x, axis=0)])[0]
    p = np.exp(at_mean) / np.exp(at_mean).sum()
    assert p[4] / p[sorted(set(labels))].sum() == pytest.approx(0.5 / 4, rel=1e-3)


def test_a_single_class_is_always_predicted() -> None:
    layer = fitted([[1.0], [2.0]], [1, 1], ([[1.0]], [1]), 3)
    assert_allclose(logits(layer, [[-5.0], [5.0]]), [[-np.log(4), 0.0, -np.log(4)]] * 2, rtol=1e-6)


def test_a_constant_encoding_is_no_division_by_zero() -> None:
    layer = fitted([[-1.0, 7.0], [1.0, 7.0]], [0, 1], ([[-1.0, 7.0], [1.0, 7.0]], [0, 1]))
    assert logits(layer, [[-1.0, 7.0], [1.0, 7.0]]).argmax(1).tolist() == [0, 1]


def test_rounding_errors_of_a_constant_encoding_get_no_weight() -> None:
    tiny = 1e-30
    x = [[-1.0, tiny], [1.0, 3 * tiny], [-1.0, 2 * tiny], [1.0, 4 * tiny]]
    layer = fitted(x, [0, 1, 0, 1], (x, [0, 1, 0, 1]))
    weight = layer.weight.detach().abs()
    assert weight[:, 1].max() < 1e-6 * weight[:, 0].min()


def test_each_of_several_labels_has_its_own_regression() -> None:
    x = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    labels = [[0, 0, 1, 0], [0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0]]  # the third of all texts, the fourth of none
    layer = fitted(x, labels, (x, labels), 4, multi=True)
    assert_allclose(logits(layer, x) > 0, np.array(labels) > 0)
    # each column alone: v minimises v² / 2 + 4C log(1 + e^-v)
    v = layer.weight.detach().numpy()[0, 0]
    assert v == pytest.approx(4 * PENALTIES[-1] / (1 + np.exp(v)), rel=0.01)
    assert_allclose(layer.weight.detach().numpy()[[2, 3]], 0.0)
    assert_allclose(layer.bias.detach().numpy()[[2, 3]], [np.log(8), -np.log(8)], rtol=1e-6)


def test_the_encodings_are_in_the_order_of_the_texts_and_the_model_predicts_from_them() -> None:
    recipe = recipe_of(NAME)
    model, texts = build(recipe), texts_of(recipe)
    KINDS[recipe.kind](model, texts, texts, OPTIONS)
    with torch.inference_mode():
        found = model.head.out(torch.from_numpy(encode(model, texts)).float()).numpy()
    assert_allclose(predict(model, texts, precision="fp32").logits, found, atol=0.05)
    assert (found.argmax(1) == predict(model, texts).logits.argmax(1)).all()


def test_the_encoder_keeps_its_weights() -> None:
    recipe = recipe_of(NAME)
    model, texts = build(recipe), texts_of(recipe)
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    trained = KINDS[recipe.kind](model, texts, texts, OPTIONS)
    for name, value in trained.model.encoder.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert (trained.depth, trained.epoch, trained.history) == (2, 0, [])


@pytest.mark.parametrize("name", [NAME, "hybrid_linear"])
def test_the_final_fit_encodes_only_texts_that_no_fold_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(model: NeuralClassifier, texts: Any) -> NDArray[np.float64]:
        counted.append(len(texts))
        return encode(model, texts)

    monkeypatch.setattr(frozen_classifier, "encode", counting)
    recipe, texts = recipe_of(name), texts_of(recipe_of(name), 30)
    first, second, all_but_last = np.arange(15), np.arange(15, 29), np.arange(29)
    folds = [(first, second), (second, first)]
    results = fit_folds(
        [Fold(lambda a=a, b=b: (build(recipe), texts.part(a), texts.part(b)), OPTIONS) for a, b in folds]
    )
    assert sum(counted) == 29
    models = []
    for fit_again in (texts.part(all_but_last), texts):
        chosen = replace(OPTIONS, choice=results.choice)
        models.append(KINDS[recipe.kind](build(recipe), fit_again, None, chosen).model)
    assert sum(counted) == 29 + 1
    fresh = results.choice._replace(known=KnownEncodings(encode))
    expected = KINDS[recipe.kind](build(recipe), texts, None, replace(OPTIONS, choice=fresh)).model
    assert_allclose(models[1].head.out.weight.detach(), expected.head.out.weight.detach(), atol=1e-3)
    assert not np.allclose(models[0].head.out.weight.detach(), expected.head.out.weight.detach(), atol=1e-3)


def test_it_is_not_pruned() -> None:
    recipe = recipe_of(NAME)
    model, texts = build(recipe), texts_of(recipe)
    settings = PruneSettings(threshold=1.0, tolerance=1.0)
    result = prune(
        model,
        texts,
        texts,
        classes=3,
        settings=settings,
        config=TrainingConfig(),
        seed=0,
        by_gradient=False,
        metric=metric_of("auto", "single", []),
    )
    assert (result.accepted, result.reason, result.model.depth) == (
        False,
        "the head is fitted to the encoder as it is",
        2,
    )


def test_the_prune_stage_does_not_prune_it(encoded: Any, tmp_path: Path) -> None:
    view, recipe = encoded(EN, "en"), recipe_of(NAME)
    config = replace(configure("x", recipe), threads=1)
    train_seed("x", recipe, config, view, None, 0, tmp_path / "trained")
    prune_model(
        "x", view, tmp_path / "trained", PruneSettings(threshold=1.0, tolerance=1.0), "auto", tmp_path / "pruned"
    )
    about = read_finished(tmp_path / "pruned")["about"]
    found = about["reason"], about["accepted"], about["depth_full"], about["depth"]
    assert found == ("the head is fitted to the encoder as it is", False, 2, 2)


@pytest.mark.parametrize("head", [{"pool": "attention"}, {"kind": "convolution"}, {"kind": "prompt"}])
def test_a_head_with_more_to_learn_is_refused(head: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"params\.yaml: .*frozen_classifier, which fits one linear layer; set"):
        build(recipe_of(NAME).changed(head=head))


def warnings_of(view: ViewSettings, **system: Any) -> list[str]:
    return check_system.check_system(
        "x", System(view="v", recipe=NAME, **system), {}, placeholder_spec(view, multi=False, tokens=False)
    )


def test_an_encoder_with_random_weights_is_a_warning(tmp_path: Path) -> None:
    said = "params.yaml: the encoder is not trained and has random weights; set views.v.checkpoint"
    assert warnings_of(ViewSettings(tokenizer="wordpiece")) == [said]
    assert warnings_of(ViewSettings(tokenizer="wordpiece", pretrain={})) == []  # type: ignore[arg-type]
    assert warnings_of(ViewSettings(tokenizer="wordpiece", pretrain={}), encoder={"kind": "bilstm"})[0] == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"head": {"dropout": 0.3}}, {"train": {"epochs": 3}}, {"encoder": {"small": {"dropout": 0.3}}}]
)
def test_settings_of_the_training_loop_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(
        ParameterError, match="the model frozen_classifier is not trained by gradient descent; remove it"
    ):
        warnings_of(ViewSettings(tokenizer="wordpiece"), **settings)


def test_any_system_with_a_linear_head_can_be_frozen(encoded: Any) -> None:
    recipe = RECIPES["att_blstm"].changed(model={"kind": "frozen_classifier"}, head={"pool": "max"})
    trained = fit_system(setup_of(recipe, configure("mine", recipe), encoded(EN, "en")))
    assert (type(trained.model), trained.epoch) == (NeuralClassifier, 0)
