"""DMSP, Eq. 4–7, 9 and Algorithm 1: votes, losses and depth control against the NumPy reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from epigram.models.classifier import NeuralClassifier, count_parameters
from epigram.models.predict import predict
from epigram.nn.encoders.semantic_perceptron import SemanticPerceptronConfig, SemanticPerceptronEncoder
from epigram.nn.heads.layer_ensemble import BaseClassifier, LayerEnsembleConfig, LayerEnsembleHead
from epigram.nn.layers.depth_control import DepthControl
from epigram.nn.layers.types import DataSpec, Encoded
from epigram.pruning.depth import drop_layers
from epigram.recipes.registry import RECIPES
from epigram.training.loop.trainer import Trainer
from tests.parity.reference import dmsp as paper
from tests.parity.reference.batches import padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import Array, softmax
from tests.support.runs import KilledError, trainer

WIDTH = 8
CONTEXT = DataSpec(vocabulary=13, classes=4, max_length=16)
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 1, 6]]


def encoder(depth: int = 3) -> SemanticPerceptronEncoder:
    return scattered(SemanticPerceptronConfig(width=WIDTH, hidden=12, depth=depth).build(CONTEXT))


def test_eq4_base_classifier() -> None:
    base = scattered(BaseClassifier(width=WIDTH, hidden=16, classes=4))
    rows = texts([6, 1, 13, 2, 9], WIDTH)
    wanted = [paper.classifier(row, pair(base.token), pair(base.out)) for row in rows]
    np.testing.assert_allclose(base(*padded(rows)).detach(), np.stack(wanted), atol=1e-9)


STRONG, WEAK = 0.9, 0.6
CASES = {
    "all good": [0.9, 0.85, 0.95],
    "all weak: g < s + 1": [0.5, 0.6, 0.7],
    "g = s + 1": [STRONG, WEAK, 0.88],
    "g = s: g < s + 1": [STRONG, WEAK, 0.88, 0.55],
    "g > s + 1": [STRONG, 0.88, WEAK, 0.93],
    "g > s + 1, the last is weak": [STRONG, 0.88, 0.93, WEAK],
    "g > s + 1, the last is good and the new depth has g = s + 1": [STRONG, WEAK, 0.88, 0.93],
    "g = s + 1, the last is good and the new depth has g = s": [WEAK, STRONG, 0.88],
    "accuracy at ξ is weak": [STRONG, 0.8, 0.88],
    "one good layer": [STRONG],
    "one weak layer": [WEAK],
    "two layers, one weak": [STRONG, WEAK],
}
XI = 0.8


@pytest.mark.parametrize("alpha", CASES.values(), ids=CASES)
def test_eq5_6_weights(alpha: list[float]) -> None:
    got = DepthControl(threshold=XI).weights(alpha)
    np.testing.assert_allclose(got, paper.beta(alpha, XI), atol=1e-12)
    assert got.sum() == pytest.approx(1.0)


def test_eq5_6_penalties_by_hand() -> None:
    kept = DepthControl(threshold=XI).weights([0.9, 0.6, 0.85])  # μ = 1, −∞, 1
    np.testing.assert_allclose(kept, np.array([np.exp(0.9), 0, np.exp(0.85)]) / (np.exp(0.9) + np.exp(0.85)))
    punished = DepthControl(threshold=XI).weights([0.9, 0.6])  # μ = 1, −1
    np.testing.assert_allclose(punished, np.array([np.exp(0.9), np.exp(-0.6)]) / (np.exp(0.9) + np.exp(-0.6)))


@pytest.mark.parametrize(
    ("alpha", "equation", "algorithm"),
    [
        ([0.9, 0.85, 0.95], False, False),  # s = 0 drops nothing
        ([0.9, 0.6, 0.88], True, False),  # g = s + 1
        ([0.9, 0.6, 0.88, 0.93], True, True),  # g > s + 1
        ([0.9, 0.6, 0.88, 0.55], False, False),  # g < s + 1
        ([0.9], False, False),
        ([0.6], False, False),
    ],
)
def test_eq5_and_algorithm_1_rule(alpha: list[float], equation: bool, algorithm: bool) -> None:
    last = len(alpha) - 1
    assert DepthControl(threshold=XI, rule="equation").next_dropped(alpha) == (last if equation else None)
    assert DepthControl(threshold=XI, rule="algorithm").next_dropped(alpha) == (last if algorithm else None)


@pytest.mark.parametrize(
    ("alpha", "kept"),
    [
        ([0.90, 0.91, 0.90], 1),  # s = 0: the paper's rules keep all three
        ([0.60, 0.91, 0.90], 2),
        ([0.60, 0.80, 0.90], 3),
        ([0.860, 0.874, 0.885, 0.890], 3),  # ξ = 0.875, computed from all layers
        ([0.9], 1),
    ],
)
def test_the_shallowest_rule_keeps_the_fewest_layers_that_are_as_good(alpha: list[float], kept: int) -> None:
    recipe = replace(RECIPES["transformer"], encoder={**RECIPES["transformer"].encoder, "depth": len(alpha)})
    model = recipe.build(CONTEXT)
    control = DepthControl(tolerance=0.015, rule="shallowest")
    assert drop_layers(model, alpha, control) == len(alpha) - kept
    assert model.depth == kept


def test_eq5_6_any_accuracies() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        alpha = (generator.integers(40, 100, size=generator.integers(1, 9)) / 100).tolist()
        xi = float(generator.integers(40, 100)) / 100
        for rule in ("equation", "algorithm"):
            for drop in ("last", "worst"):
                control = DepthControl(threshold=xi, rule=rule, drop=drop)
                assert control.next_dropped(alpha) == paper.removed(alpha, xi, rule, drop)
                np.testing.assert_allclose(control.weights(alpha), paper.beta(alpha, xi), atol=1e-12)


def test_eq5_auto_threshold_is_the_best_accuracy_less_the_tolerance() -> None:
    alpha = [0.70, 0.91, 0.90, 0.885]
    np.testing.assert_allclose(
        DepthControl(threshold="auto", tolerance=0.02).weights(alpha), paper.beta(alpha, 0.91 - 0.02), atol=1e-12
    )


@pytest.mark.parametrize("rule", ["equation", "algorithm", "shallowest"])
def test_without_tolerance_the_best_layers_are_good_and_no_other(rule: Any) -> None:
    control = DepthControl(tolerance=0.0, rule=rule)
    assert control.counts([0.6, 0.8, 0.9]) == (1, 2)
    assert control.counts([0.9, 0.8, 0.9, 0.9]) == (3, 1)
    np.testing.assert_allclose(control.weights([0.6, 0.8, 0.9]), paper.beta([0.6, 0.8, 0.9], 0.89), atol=1e-12)
    assert control.counts([0.0, 0.0]) == (2, 0)
    assert len(control.remaining_layers([0.9, 0.9, 0.9])) == (1 if rule == "shallowest" else 3)


@pytest.mark.parametrize("tolerance", [1, 2, 5])
def test_a_layer_exactly_one_tolerance_below_the_best_is_weak(tolerance: int) -> None:
    control = DepthControl(tolerance=tolerance / 100)
    for best in range(tolerance, 101):  # in hundredths, where floats round up or down
        alpha = [best / 100, (best - tolerance) / 100]
        assert control.counts(alpha) == (1, 1), alpha
    alpha = [0.31, 0.62, 0.61, 0.60]  # g = 2 is not above s = 2
    assert DepthControl(tolerance=0.02).next_dropped(alpha) is None
    assert DepthControl(tolerance=0.021).next_dropped(alpha) == 3  # g = 3, s = 1


def test_an_accuracy_at_an_absolute_threshold_is_weak_whatever_its_rounding() -> None:
    assert 0.1 + 0.2 > 0.3
    assert DepthControl(threshold=0.3).counts([0.1 + 0.2, 0.31]) == (1, 1)
    assert DepthControl(threshold=0.3, rule="shallowest").remaining_layers([0.1 + 0.2, 0.31]) == [0, 1]


def head(stack: SemanticPerceptronEncoder, **settings: Any) -> LayerEnsembleHead:
    return scattered(LayerEnsembleConfig(hidden=16, **settings).build(CONTEXT, stack))


def parts_reading(encoded: Encoded, made: LayerEnsembleHead) -> Array:
    """Return the logits (γ, B, C) of every base classifier on its own layer (Eq. 4)."""
    lengths = encoded.tokens.valid.sum(1).tolist()
    layers = [states.detach().numpy() for states in encoded.states[-len(made.classifiers) :]]
    return np.stack(
        [
            np.stack([paper.classifier(x[:n], pair(h.token), pair(h.out)) for x, n in zip(layer, lengths, strict=True)])
            for h, layer in zip(made.classifiers, layers, strict=True)
        ]
    )


def assert_ensemble(logits: Tensor, parts: Array, beta: Array) -> None:
    wanted = [paper.ensemble(beta, softmax(parts)[:, i]) for i in range(parts.shape[1])]
    np.testing.assert_allclose(logits.detach().softmax(-1), wanted, atol=1e-5)


@pytest.mark.parametrize("alpha", [[0.9, 0.85, 0.95], [0.9, 0.6, 0.55]], ids=["all good", "punished"])
def test_eq7_weighted_vote(alpha: list[float]) -> None:
    stack = encoder()
    made = head(stack, mode="control", threshold=XI)
    made.adapt(stack.drop, alpha)
    assert stack.depth == 3
    encoded = stack(padded_ids(IDS))
    assert_ensemble(made(encoded).logits, parts_reading(encoded, made), paper.beta(alpha, XI))


def test_eq7_fixed_depth_votes_evenly() -> None:
    stack = encoder()
    made = head(stack, mode="ensemble")
    encoded = stack(padded_ids(IDS))
    assert made.adapt(stack.drop, [0.9, 0.6, 0.9]) is False
    assert stack.depth == 3
    assert_ensemble(made(encoded).logits, parts_reading(encoded, made), np.full(3, 1 / 3))


def test_eq4_last_classifier_alone() -> None:
    stack = encoder()
    made = head(stack, mode="last")
    encoded = stack(padded_ids(IDS))
    assert_ensemble(made(encoded).logits, parts_reading(encoded, made), np.ones(1))


@pytest.mark.parametrize("which", ["all", "last"])
def test_eq9_loss(which: str) -> None:
    stack = encoder()
    made = head(stack, mode="control", loss=which)
    encoded, labels = stack(padded_ids(IDS)), [0, 3, 1, 1]
    prediction = made(encoded, torch.tensor(labels))
    parts = parts_reading(encoded, made)
    np.testing.assert_allclose(prediction.parts.detach(), parts, atol=1e-5)
    assert prediction.loss.item() == pytest.approx(paper.loss(parts, labels, which), abs=1e-5)


@pytest.mark.parametrize("rule", ["equation", "algorithm"])
@pytest.mark.parametrize("alpha", CASES.values(), ids=CASES)
def test_algorithm_1_one_epoch(alpha: list[float], rule: str) -> None:
    stack = encoder(depth=len(alpha))
    made = head(stack, mode="control", threshold=XI, rule=rule)
    kept, beta = paper.step(alpha, XI, rule)
    before = stack(padded_ids(IDS)).states
    made.adapt(stack.drop, list(alpha))
    assert stack.depth == len(made.classifiers) == len(kept)
    np.testing.assert_allclose(made.beta, beta, atol=1e-6)
    encoded = stack(padded_ids(IDS))
    for state, same in zip(encoded.states, before[: len(kept) + 1], strict=True):
        assert torch.equal(state, same)  # the last layer was dropped
    assert_ensemble(made(encoded).logits, parts_reading(encoded, made), beta)


def test_algorithm_1_drop_the_worst_layer() -> None:
    alpha = [0.9, 0.6, 0.88, 0.93]
    stack = encoder(depth=4)
    made = head(stack, mode="control", threshold=XI, drop="worst")
    kept, beta = paper.step(alpha, XI, "equation", "worst")
    blocks, classifiers = list(stack.blocks), list(made.classifiers)
    made.adapt(stack.drop, alpha)
    assert kept == [0, 2, 3]
    assert list(stack.blocks) == [blocks[j] for j in kept]
    assert list(made.classifiers) == [classifiers[j] for j in kept]
    np.testing.assert_allclose(made.beta, beta, atol=1e-6)


def test_algorithm_1_epoch_after_epoch() -> None:
    stack = encoder(depth=5)
    made = head(stack, mode="control", threshold=XI)
    depths = []
    for alpha in ([0.9, 0.6, 0.85, 0.9, 0.9], [0.9, 0.7, 0.85, 0.9], [0.9, 0.81, 0.85], [0.9, 0.6, 0.7]):
        made.adapt(stack.drop, alpha)
        depths.append(stack.depth)
    assert depths == [4, 3, 3, 3]
    np.testing.assert_allclose(made.beta, paper.beta([0.9, 0.6, 0.7], XI), atol=1e-6)


def test_algorithm_1_auto_threshold_is_taken_anew_at_the_new_depth() -> None:
    stack = encoder(depth=4)
    made = head(stack, mode="control", threshold="auto", tolerance=0.05)
    made.adapt(stack.drop, [0.70, 0.86, 0.87, 0.90])
    assert stack.depth == 3
    np.testing.assert_allclose(made.beta, paper.beta([0.70, 0.86, 0.87], 0.87 - 0.05), atol=1e-6)


def test_algorithm_1_acts_once_an_epoch_however_often_dev_is_judged(tmp_path: Path) -> None:
    whole, acted = watched(trainer("dmsp"))
    record = whole.run()
    assert [line["step"] for line in record.history] == [2, 4, 6, 8]
    assert acted == [(1, 4), (2, 4)]  # epoch and batch
    assert record.depth == whole.model.depth == len(whole.model.head.beta)
    labels = whole.objective.dev.targets(np.arange(len(whole.objective.dev))).numpy()
    assert predict(whole.model, whole.objective.dev, precision="fp32").score(labels) == record.accuracy
    with pytest.raises(KilledError):
        trainer("dmsp", tmp_path, train=5).run()
    again, acted = watched(trainer("dmsp", tmp_path))
    assert again.run().history == record.history
    assert acted == [(2, 4)]


def watched(made: Trainer) -> tuple[Trainer, list[tuple[int, int]]]:
    """Return the trainer and a list of the epochs and batches at which its depth controller acts."""
    acted, adapt = [], made.model.adapt

    def noted(accuracies: list[float]) -> bool:
        acted.append((made.position.epoch, made.position.done))
        return bool(adapt(accuracies))

    made.model.adapt = noted
    return made, acted


@pytest.mark.parametrize(("depth", "printed", "millions"), [(3, 224_844, 0.22), (4, 299_792, 0.30), (5, 374_740, 0.37)])
def test_table4_parameters(depth: int, printed: int, millions: float) -> None:
    stack = SemanticPerceptronConfig(depth=5).build(CONTEXT)
    made = LayerEnsembleConfig(mode="control", threshold=XI).build(CONTEXT, stack)
    for remaining in range(5, depth, -1):
        made.adapt(stack.drop, [0.9] * (remaining - 1) + [0.6])
    counted = count_parameters(NeuralClassifier(stack, made), embeddings=False)
    assert counted == printed
    assert round(counted / 1e6, 2) == millions
