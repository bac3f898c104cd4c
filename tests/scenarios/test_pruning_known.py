"""Pruning step by step: which layers are dropped, in which order, by which accuracies, and when pruning is rejected."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.pruning_record import SeedPruning
from epigram.models.manifest import TrainingFacts
from epigram.models.serialization import Saved
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.depth_control import DepthControl
from epigram.pruning import depth as module
from epigram.pruning.depth import PruningResult, layer_accuracies, prune, truncated_copy
from epigram.pruning.settings import PruneSettings
from epigram.pruning.tradeoff import seed_record
from epigram.training.config import TrainingConfig
from epigram.training.dev_score import TEXTS
from epigram.training.frozen.probe import probe
from epigram.training.loop.trainer import Trainer
from tests.support.layered import (
    CONTEXT,
    ONE_WRONG,
    OPPOSITE,
    RIGHT,
    SILENT,
    TWO_WRONG,
    layers_of,
    model_of,
    texts_of,
)

CONFIG = TrainingConfig(epochs=7, batch_size=8, warmup=0.5, schedule="constant", weight_decay=0.0, precision="fp32")
STILL = 1e-12  # a learning rate that changes no prediction
QUICK = 1.0


def pruned(model: Any, *, rate: float = STILL, dev: Any = None, **settings: Any) -> PruningResult:
    """Return `model` after pruning on the eight words, all of them in train and in dev."""
    chosen = PruneSettings(**{"epochs": 3, **settings})
    held = texts_of() if dev is None else dev
    return prune(
        model,
        texts_of(),
        held,
        classes=2,
        settings=chosen,
        config=replace(CONFIG, learning_rate=rate),
        seed=0,
        metric=metric_of("auto", "single", []),
    )


# --- accuracies (α) of the layers


def scores_of(model: Any, train: Any, dev: Any, classes: int, **options: Any) -> list[float]:
    """Return the accuracies of fitted classifiers on the layers."""
    return TEXTS.of_parts(probe(model, train, dev, classes, **options), dev, multi=False)


def test_the_probe_scores_each_layer_in_its_place() -> None:
    """A layer with constant output gives the majority class (1/2); two wrong words of eight give 6/8, one 7/8."""
    layers = (SILENT, TWO_WRONG, RIGHT, ONE_WRONG)
    assert scores_of(model_of(*layers), texts_of(), texts_of(), 2) == [0.5, 0.75, 1.0, 0.875]


def test_the_probe_learns_from_train_and_is_scored_on_dev() -> None:
    """Dev has swapped labels: a probe fitted on train is always wrong there."""
    opposite = texts_of(labels=OPPOSITE)
    assert scores_of(model_of(RIGHT, ONE_WRONG), texts_of(), opposite, 2) == [0.0, 0.125]


def test_the_probe_reads_dev_by_the_scale_of_train() -> None:
    """Dev has only words of class 1: standardized by their own mean, they would be zero."""
    assert scores_of(model_of(RIGHT, OPPOSITE), texts_of(), texts_of([4, 5, 6, 7, 7]), 2) == [1.0, 1.0]


def test_the_probe_takes_evenly_spaced_rows_of_train() -> None:
    """Three of eleven rows are used: the first, the middle and the last; the other rows have the opposite labels."""
    words = [0, 0, 5, 1, 5, 4, 6, 2, 3, 6, 7]
    labels = [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1]
    assert scores_of(model_of(RIGHT), texts_of(words, labels), texts_of(), 2, rows=3) == [1.0]
    assert scores_of(model_of(RIGHT), texts_of(words, labels), texts_of(), 2) == [0.0]


def test_a_head_with_a_classifier_on_each_layer_is_scored_by_them_and_not_by_a_probe() -> None:
    """A probe would learn to invert the layer with opposite outputs."""
    model = model_of(OPPOSITE, TWO_WRONG, RIGHT, ensemble=True)
    assert layer_accuracies(model, texts_of(), texts_of(), 2, "fp32") == [0.0, 0.75, 1.0]
    assert layer_accuracies(model_of(OPPOSITE, RIGHT), texts_of(), texts_of(), 2, "fp32") == [1.0, 1.0]


def test_the_classifier_on_the_embeddings_is_no_layer() -> None:
    """It always predicts one class, which is right for half of the words."""
    model = model_of(OPPOSITE, TWO_WRONG, RIGHT, deep=True)
    assert len(model.head.classifiers) == 4
    assert layer_accuracies(model, texts_of(), texts_of(), 2, "fp32") == [0.0, 0.75, 1.0]


def test_the_state_of_each_text_comes_back_to_its_own_row() -> None:
    """Texts are read from the shortest to the longest, which is not their order."""
    train, dev = texts_of(times=[5, 1, 4, 2, 3, 1, 2, 5]), texts_of(times=[1, 2, 3, 4, 4, 3, 2, 1])
    assert scores_of(model_of(ONE_WRONG, RIGHT), train, dev, 2) == [0.875, 1.0]


# --- dropped layers


@pytest.mark.parametrize(
    ("alphas", "rule", "drop", "kept"),
    [
        # ξ = 0.8; g layers are above it, s are not. equation: drop one while s ≥ 1 and g ≥ s + 1
        ([0.9, 0.6, 0.88, 0.95, 0.5], "equation", "last", [0, 1]),  # 3:2 → 3:1 → 2:1 → 1:1
        ([0.9, 0.6, 0.88, 0.95, 0.5], "equation", "worst", [0, 2, 3]),  # 3:2, drop 0.5 → 3:1, drop 0.6 → 3:0
        ([0.5, 0.9, 0.6, 0.95, 0.88], "equation", "last", [0, 1, 2, 3]),  # 3:2, drop 0.88 → 2:2
        ([0.5, 0.9, 0.6, 0.95, 0.88], "equation", "worst", [1, 3, 4]),
        ([0.9, 0.85, 0.95], "equation", "last", [0, 1, 2]),  # 3:0
        ([0.9, 0.6], "equation", "last", [0, 1]),  # 1:1
        ([0.6, 0.7], "equation", "worst", [0, 1]),  # 0:2
        # algorithm: drop one while s ≥ 1 and g > s + 1
        ([0.9, 0.6, 0.88, 0.95, 0.5], "algorithm", "last", [0, 1, 2, 3, 4]),  # 3:2
        ([0.9, 0.6, 0.88, 0.95], "algorithm", "last", [0, 1, 2]),  # 3:1 → 2:1
        ([0.9, 0.6, 0.88, 0.95], "algorithm", "worst", [0, 2, 3]),  # 3:1, drop 0.6 → 3:0
        ([0.9, 0.6, 0.88], "algorithm", "worst", [0, 1, 2]),  # 2:1
        # shallowest: keep up to the first good layer, or all layers if none is good
        ([0.6, 0.7, 0.85, 0.95], "shallowest", "last", [0, 1, 2]),
        ([0.85, 0.7, 0.6, 0.95], "shallowest", "worst", [0]),
        ([0.6, 0.7, 0.8], "shallowest", "last", [0, 1, 2]),  # ξ itself is not above ξ
    ],
)
def test_the_layers_that_each_rule_keeps(alphas: list[float], rule: Any, drop: Any, kept: list[int]) -> None:
    assert DepthControl(threshold=0.8, rule=rule, drop=drop).remaining_layers(alphas) == kept


def test_an_automatic_threshold_follows_the_layers_that_are_left() -> None:
    """Tolerance 0.05: ξ = 0.90 for all four (2:2); 0.90 for 0.80, 0.92, 0.95 (2:1); 0.87 for 0.80, 0.92 (1:1)."""
    control = DepthControl(tolerance=0.05)
    assert control.remaining_layers([0.80, 0.92, 0.95, 0.90]) == [0, 1, 2, 3]
    assert control.remaining_layers([0.80, 0.92, 0.95]) == [0, 1]
    assert DepthControl(tolerance=0.05, drop="worst").remaining_layers([0.80, 0.92, 0.95]) == [1, 2]
    assert control.xi([0.80, 0.92, 0.95, 0.90]) == pytest.approx(0.90)


SHALLOWEST = {"threshold": 0.7, "rule": "shallowest"}


def test_the_last_layers_go_and_the_first_stay() -> None:
    found = pruned(model_of(SILENT, ONE_WRONG, RIGHT, RIGHT), tolerance=0.2, **SHALLOWEST)
    assert found.accepted
    assert found.accuracies == (0.5, 0.875, 1.0, 1.0)
    assert layers_of(found.model) == [SILENT, ONE_WRONG]
    assert found.model.depth == 2 and found.reason.startswith("2 of 4 layers dropped")
    assert (found.threshold, found.dev_before, found.dev_after, found.dev_accuracy) == (0.7, 1.0, 0.875, 0.875)


def test_the_worst_layer_goes_from_the_middle() -> None:
    found = pruned(model_of(RIGHT, SILENT, ONE_WRONG, RIGHT), threshold=0.7, drop="worst")
    assert found.accepted and layers_of(found.model) == [RIGHT, ONE_WRONG, RIGHT]


def test_the_last_layers_go_one_after_the_other() -> None:
    """0.75 is below ξ = 0.8. Good and weak layers: 3:1, 2:1 and 1:1, where the rule stops."""
    found = pruned(model_of(RIGHT, TWO_WRONG, ONE_WRONG, RIGHT), threshold=0.8, tolerance=0.3)
    assert found.accepted and layers_of(found.model) == [RIGHT, TWO_WRONG]
    assert found.dev_after == 0.75


def test_classifiers_go_with_their_layers() -> None:
    model = model_of(RIGHT, OPPOSITE, ONE_WRONG, RIGHT, ensemble=True)
    kept = [model.head.classifiers[n] for n in (0, 2, 3)]
    for n, classifier in enumerate(kept):
        torch.nn.init.constant_(classifier.out.bias, n)
    found = pruned(model, threshold=0.7, drop="worst", tolerance=1.0)
    assert found.accepted and layers_of(found.model) == [RIGHT, ONE_WRONG, RIGHT]
    assert [round(float(each.out.bias.detach()[0])) for each in found.model.head.classifiers] == [0, 1, 2]


@pytest.mark.parametrize(
    ("scores", "kept", "reason"),
    [
        # by the rows of train the rule would keep the second layer too, and no fine-tuned model is evaluated
        ([0.8, 0.8, 0.85], 1, "2 of 3 layers dropped; out-of-fold accuracy 85.0 → 80.0 before fine-tuning"),
        ([0.6, 0.8, 0.85], 2, "1 of 3 layers dropped; out-of-fold accuracy 85.0 → 80.0 before fine-tuning"),
        ([0.6, 0.65, 0.7], 3, "the rule keeps all 3 layers: 0 are above the threshold, 3 are not"),
        (
            [0.6, 0.75, 0.9],
            3,
            "dropping 1 of 3 layers costs too much: out-of-fold accuracy 90.0 → 75.0 before fine-tuning; "
            "all layers are kept",
        ),
        ([], 3, "the folds of train have no scores of the layers; train it again"),
    ],
)
def test_without_dev_the_scores_of_the_folds_choose_the_layers(scores: list[float], kept: int, reason: str) -> None:
    layers = [SILENT, ONE_WRONG, RIGHT]
    model = model_of(*layers)
    model.temperature.fill_(2.0)
    found = prune(
        model,
        texts_of(),
        None,
        classes=2,
        settings=PruneSettings(epochs=3, tolerance=0.1, **SHALLOWEST),
        config=replace(CONFIG, learning_rate=STILL),
        seed=0,
        layer_scores=scores,
        metric=metric_of("auto", "single", []),
    )
    assert (found.reason, found.accepted, found.accuracies) == (reason, kept < 3, tuple(scores))
    assert layers_of(found.model) == layers[:kept]
    assert float(found.model.temperature) == 2.0  # the folds have fitted it


# --- acceptance of the pruned model


def test_a_pruning_that_costs_too_much_is_refused() -> None:
    """The first layer separates the classes as well as the last, but its outputs are inverted for the head."""
    model = model_of(OPPOSITE, RIGHT)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = pruned(model, **SHALLOWEST)
    assert not found.accepted and found.model is model
    assert layers_of(model) == [OPPOSITE, RIGHT]
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())
    scores = "dev accuracy 100.0 → 0.0 after fine-tuning"
    assert found.reason == f"dropping 1 of 2 layers costs too much: {scores}; all layers are kept"
    assert (found.dev_before, found.dev_after) == (1.0, 0.0)


def test_fine_tuning_may_win_back_what_pruning_costs() -> None:
    found = pruned(model_of(OPPOSITE, RIGHT), rate=QUICK, **SHALLOWEST)
    assert found.accepted and layers_of(found.model) == [OPPOSITE]
    assert (found.dev_before, found.dev_after) == (1.0, 1.0)


@pytest.mark.parametrize(("tolerance", "accepted"), [(0.12, False), (0.125, True), (0.13, True)])
def test_dev_may_lose_the_tolerance_and_no_more(tolerance: float, accepted: bool) -> None:
    """Without the last layer, one of eight words is wrong."""
    found = pruned(model_of(ONE_WRONG, RIGHT), tolerance=tolerance, **SHALLOWEST)
    assert found.accepted is accepted
    assert layers_of(found.model) == ([ONE_WRONG] if accepted else [ONE_WRONG, RIGHT])
    assert (found.dev_before, found.dev_after) == (1.0, 0.875)


def test_what_pruning_costs_is_measured_on_dev() -> None:
    """The word that the first layer gets wrong is only in train, so the dev accuracy does not change."""
    found = pruned(model_of(ONE_WRONG, RIGHT), dev=texts_of([0, 1, 2, 4, 5, 6, 7]), tolerance=0.0, **SHALLOWEST)
    assert found.accepted and (found.dev_before, found.dev_after) == (1.0, 1.0)


def test_what_the_whole_model_reached_is_measured_on_dev_too() -> None:
    """The word that both layers get wrong is twice in dev: 7/9 before and after, while train gives 7/8."""
    found = pruned(model_of(ONE_WRONG, ONE_WRONG), dev=texts_of([0, 1, 2, 3, 3, 4, 5, 6, 7]), **SHALLOWEST)
    assert found.accepted and found.dev_before == found.dev_after == 7 / 9


def test_a_rule_that_drops_nothing_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Trainer", None)
    model = model_of(RIGHT, ONE_WRONG)
    found = pruned(model, threshold=0.5)
    assert found.model is model and not found.accepted
    assert found.reason == "the rule keeps all 2 layers: 2 are above the threshold, 0 are not"
    assert (found.dev_before, found.dev_after) == (0.875, 0.875)


def test_no_pruning_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "layer_accuracies", None)
    two, one = model_of(RIGHT, RIGHT), model_of(RIGHT)
    assert pruned(two, enabled=False).reason == "pruning is off (prune.enabled, or the system's prune or preset)"
    assert pruned(one).reason == "no layers to drop"
    controlled = model_of(RIGHT, RIGHT, ensemble=True)
    object.__setattr__(controlled.head.config, "mode", "control")
    assert pruned(controlled).reason == "depth is controlled during training"


@pytest.mark.parametrize("floor", [0, 50])
def test_fine_tuning_has_its_own_epochs_no_warm_up_and_the_rate_of_the_training(
    floor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floor of steps of the training, far above the three steps here, does not apply to the fine-tuning."""
    monkeypatch.setattr(sys.modules[__name__], "CONFIG", replace(CONFIG, min_steps=floor))
    made: list[Trainer] = []

    class Noted(Trainer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(module, "Trainer", Noted)
    pruned(model_of(ONE_WRONG, RIGHT), rate=0.25, epochs=3, tolerance=1.0, **SHALLOWEST)
    (trainer,) = made
    assert (trainer.config.epochs, trainer.config.warmup, trainer.steps) == (3, 0.0, 3)  # one batch per epoch
    assert [group["lr"] for group in trainer.optimizer.param_groups] == [0.25] * len(trainer.optimizer.param_groups)
    assert {
        **vars(trainer.config),
        "learning_rate": CONFIG.learning_rate,
        "epochs": 7,
        "min_steps": floor,
        "warmup": 0.5,
    } == vars(CONFIG)


# --- cost of each depth


def test_a_shallower_copy_has_the_first_layers() -> None:
    model = model_of(SILENT, ONE_WRONG, RIGHT)
    assert layers_of(truncated_copy(model, 2)) == [SILENT, ONE_WRONG]
    assert layers_of(truncated_copy(model, 1)) == [SILENT]
    assert model.depth == 3


def test_the_table_of_depths_counts_the_first_layers() -> None:
    """The layers have 1, 10 and 100 unused weights, and the head has six weights."""
    model = model_of(SILENT, ONE_WRONG, RIGHT)
    frame = TextTemplate(
        language="en", max_length=8, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None,
        vocabulary=CONTEXT.vocabulary,
    )  # fmt: skip
    saved = Saved(Path(), "mine", model, ["a", "b"], frame, [])
    found = PruningResult(
        model=truncated_copy(model, 2),
        reason="r",
        accepted=True,
        threshold=0.7,
        score="s",
        accuracies=(0.5, 0.875, 1.0),
    )
    record = seed_record(saved, found, facts(seed=3, depth=3), 8)
    table = [(point.depth, point.classifier_score, point.parameters) for point in record.tradeoff]
    assert table == [(1, 0.5, 6 + 1), (2, 0.875, 6 + 11), (3, 1.0, 6 + 111)]
    assert replace(record, tradeoff=[]) == SeedPruning(
        seed=3, layered=True, reason="r", accepted=True, threshold=0.7, score="s", depth_full=3, depth=2
    )


def test_a_model_without_layers_has_no_table() -> None:
    saved = Saved(Path(), "mine", type("Flat", (), {"depth": 0})(), ["a", "b"], None, [])  # type: ignore[arg-type]
    record = seed_record(saved, PruningResult(model=None, reason="no layers to drop"), facts(seed=0, depth=0), 8)
    assert record == SeedPruning(seed=0, layered=False, reason="no layers to drop")


def facts(*, seed: int, depth: int) -> TrainingFacts:
    return TrainingFacts(
        dataset="toy", data="ab", seed=seed, dev_accuracy=1.0, epoch=1, depth_full=depth, parameters_full=7,
        training={}, provenance={}, hardware={}, layer_scores=[], checkpoint="",
    )  # fmt: skip
