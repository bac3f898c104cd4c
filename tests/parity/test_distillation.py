"""Loss of a student in training mode against a NumPy reading in float64 (Hinton et al., 2015, with temperature 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.objectives.base import Batch
from epigram.training.objectives.distillation import Distillation
from epigram.training.objectives.label_objective import label_objective

TARGETS = np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.3, 0.4, 0.3], [1.0, 0.0, 0.0]], np.float32)
TEXTS = Ragged.from_lists([[5, 6, 7], [8, 9], [5, 9, 6, 7], [6]], np.int32)


def batches(labels: Any) -> TextBatches:
    return TextBatches(TEXTS, prefix=[], suffix=[], max_length=8, pad_id=0, unk_id=1, labels=labels)


def model_of(name: str, *, multi: bool = False) -> Any:
    torch.manual_seed(0)
    labels = ("a", "b", "c")
    data = DataSpec(vocabulary=12, classes=3, multi=multi, max_length=8, labels=labels, token_labels=("O", *labels))
    head = {} if RECIPES[name].head["kind"] == "layer_ensemble" else {"dropout": 0.0}  # it has no dropout
    model: Any = RECIPES[name].changed(head=head).build(data, name)
    return model.train()


def objective(model: Any) -> Distillation:
    found = label_objective(batches(TARGETS), None, TrainingConfig(precision="float32", label_smoothing=0.3))
    assert isinstance(found, Distillation)
    found.prepare(model)
    return found


def logits_of(model: Any, texts: TextBatches, rows: Any) -> Any:
    return model(texts.gather(rows)).logits.detach().numpy().astype(np.float64)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [2, 0]])
def test_the_cross_entropy_with_probabilities(rows: list[int]) -> None:
    model, order = model_of("fast_text"), np.array(rows)
    goal = objective(model)
    x = logits_of(model, goal.train, order)
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    wanted = -(TARGETS[order] * log_p).sum(1).mean()
    assert goal.loss(model, Batch(goal.train, order)).item() == pytest.approx(wanted, rel=1e-5)


def test_the_cross_entropy_of_each_label_if_a_text_may_have_several() -> None:
    model, order = model_of("fast_text", multi=True), np.arange(4)
    goal = objective(model)
    p = 1 / (1 + np.exp(-logits_of(model, goal.train, order)))
    wanted = -(TARGETS * np.log(p) + (1 - TARGETS) * np.log(1 - p)).mean()
    assert goal.loss(model, Batch(goal.train, order)).item() == pytest.approx(wanted, rel=1e-5)


def test_the_cost_of_the_encoder_is_added() -> None:
    model, order = model_of("universal_transformer"), np.arange(4)
    goal = objective(model)
    torch.manual_seed(1)
    loss = goal.loss(model, Batch(goal.train, order)).item()
    torch.manual_seed(1)
    encoded = model.encode(goal.train.gather(order))
    x = model.head(encoded, None).logits.detach().numpy().astype(np.float64)
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    assert encoded.cost.item() > 0.001
    assert loss == pytest.approx(encoded.cost.item() - (TARGETS * log_p).sum(1).mean(), rel=1e-5)


def test_a_model_with_a_summed_loss_learns_the_sum_over_the_texts() -> None:
    """Its learning rate is that of a sum."""
    model, order = model_of("mhal_sent"), np.arange(4)
    goal = objective(model)
    torch.manual_seed(1)
    x = logits_of(model, goal.train, order)
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    torch.manual_seed(1)
    assert model.summed
    assert goal.loss(model, Batch(goal.train, order)).item() == pytest.approx(-(TARGETS * log_p).sum(), rel=1e-5)


@pytest.mark.parametrize("name", ["bert_cnn", "exam", "leam", "cnle", "dmsp"])
def test_every_head_with_probabilities_learns_them(name: str) -> None:
    model, order = model_of(name).eval(), np.arange(4)  # without dropout
    goal = objective(model)
    x = logits_of(model, goal.train, order)
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    loss = goal.loss(model, Batch(goal.train, order))
    assert loss.item() == pytest.approx(-(TARGETS * log_p).sum(1).mean(), rel=1e-4)
    loss.backward()  # type: ignore[no-untyped-call]
    assert any(each.grad is not None and each.grad.abs().sum() > 0 for each in model.head.parameters())
    assert any(each.grad is not None and each.grad.abs().sum() > 0 for each in model.encoder.parameters())


def test_labels_that_are_no_probabilities_are_learned_as_labels() -> None:
    indices, indicators = np.array([0, 2, 1, 0]), (TARGETS > 0.5).astype(np.uint8)
    for labels in (indices, indicators):
        assert not isinstance(label_objective(batches(labels), None, TrainingConfig()), Distillation)
