"""Prompt text augmentation, Eq. 8: the two-mask head against the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.heads.prompt import PromptConfig, PromptHead
from epigram.nn.layers.types import DataSpec, Encoded
from tests.parity.reference import pta as paper
from tests.parity.reference.batches import padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import Array, linear, softmax
from tests.parity.reference.transformer_f import fusion as hook_fusion

WIDTH, MASK, LAYERS = 8, 4, 2
PROMPT = [1, 9, MASK, 8, MASK]  # "… is [MASK], so … is not [MASK]:"
IDS = [[*PROMPT, *text] for text in ([5, 6], [7], [MASK, 5, 6, MASK, 11, 10], [12, 5, 8])]
FIRST, SECOND = 2, 4  # positions of the two masks of the prompt


def head(classes: int, **settings: Any) -> PromptHead:
    context = DataSpec(vocabulary=13, classes=classes, max_length=16, mask_id=MASK, prefix_ids=tuple(PROMPT))
    encoder = TransformerConfig(width=WIDTH, hidden=12, depth=LAYERS, heads=1).build(context)
    return scattered(PromptConfig(**settings).build(context, encoder))


def hidden() -> tuple[Encoded, list[list[Array]]]:
    """Return random states of every layer for IDS, as a batch and as one list of layers per text."""
    layers = [texts([len(ids) for ids in IDS], WIDTH, seed) for seed in range(LAYERS + 1)]
    batch = tuple(padded(rows)[0] for rows in layers)
    return Encoded(batch, padded_ids(IDS, pad_id=MASK)), [list(row) for row in zip(*layers, strict=True)]


def pairs(made: PromptHead, rows: list[list[Array]], fusion: str = "last") -> list[tuple[Array, Array]]:
    """Return the softmax of the first and of the second head on each text's two mask vectors."""
    states = [row[-1] if fusion == "last" else hook_fusion(row[1:]) for row in rows]
    return [
        (softmax(linear(x[FIRST], *pair(made.label))), softmax(linear(x[SECOND], *pair(made.complement))))
        for x in states
    ]


@pytest.mark.parametrize("gamma", [0.5, 0.3, 0.0, 1.0])
def test_eq8_two_classes_is_the_papers_opposite_label(gamma: float) -> None:
    made, labels = head(2, gamma=gamma), [0, 1, 1, 0]
    encoded, rows = hidden()
    wanted = [paper.loss_binary(p1, p2, y, gamma) for (p1, p2), y in zip(pairs(made, rows), labels, strict=True)]
    assert made(encoded, torch.tensor(labels)).loss.item() == pytest.approx(np.mean(wanted), abs=1e-5)


@pytest.mark.parametrize("gamma", [0.5, 0.3])
@pytest.mark.parametrize("fusion", ["last", "hook"])
def test_eq8_four_classes_is_the_complementary_loss(gamma: float, fusion: str) -> None:
    made, labels = head(4, gamma=gamma, fusion=fusion), [0, 3, 1, 2]
    encoded, rows = hidden()
    read = pairs(made, rows, fusion)
    wanted = [paper.loss_many(p1, p2, y, gamma) for (p1, p2), y in zip(read, labels, strict=True)]
    assert made(encoded, torch.tensor(labels)).loss.item() == pytest.approx(np.mean(wanted), abs=1e-5)


def test_eq8_readings_agree_for_two_classes() -> None:
    p1, p2 = np.array([0.3, 0.7]), np.array([0.9, 0.1])
    for label in (0, 1):
        assert paper.loss_many(p1, p2, label, 0.4) == pytest.approx(paper.loss_binary(p1, p2, label, 0.4))


@pytest.mark.parametrize("gamma", [0.5, 0.2, 1.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_eq8_inference_weighs_both_heads(classes: int, gamma: float) -> None:
    made = head(classes, gamma=gamma)
    encoded, rows = hidden()
    got = made(encoded).logits.detach().softmax(-1).numpy()
    np.testing.assert_allclose(got, [paper.inference(p1, p2, gamma) for p1, p2 in pairs(made, rows)], atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_eq8_each_head_alone(classes: int) -> None:
    made = head(classes)
    encoded, rows = hidden()
    first, second = made(encoded).parts.detach().softmax(-1).numpy()
    read = pairs(made, rows)
    np.testing.assert_allclose(first, [paper.inference(p1, p2, 1.0) for p1, p2 in read], atol=1e-5)
    np.testing.assert_allclose(second, [paper.inference(p1, p2, 0.0) for p1, p2 in read], atol=1e-5)
