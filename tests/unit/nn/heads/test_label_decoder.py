"""Tests of the label decoder on other encoders, with one label per text and with several."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec, Tokens

ENCODERS: list[dict[str, Any]] = [
    {"kind": "transformer", "width": 32, "hidden": 32, "depth": 2},
    {"kind": "transformer", "width": 32, "hidden": 32, "depth": 2, "attention": "correlation"},
    {"kind": "semantic_perceptron", "width": 16, "hidden": 32},
    {"kind": "convolution", "embedding": 16, "filters": 8},
    {"kind": "bilstm", "width": 16},
]
LENGTHS = [1, 9, 4, 12]


def build(encoder: dict[str, Any], *, multi: bool, **head: Any) -> Any:
    recipe = Recipe(
        name="x",
        about="",
        paper="",
        view="token",
        encoder=encoder,
        head={"kind": "label_decoder", "embedding": 8, **head},
    )
    torch.manual_seed(0)
    return recipe.build(DataSpec(vocabulary=40, classes=5, max_length=16, multi=multi), "systems.x").eval()


def batch() -> Tokens:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 40, (len(LENGTHS), 12), generator=generator)
    return Tokens(ids, torch.arange(12) < torch.tensor(LENGTHS)[:, None])


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda e: "-".join(str(v) for v in e.values()))
@pytest.mark.parametrize("multi", [False, True])
def test_on_any_encoder_a_text_is_answered_alone_as_in_a_batch(encoder: dict[str, Any], multi: bool) -> None:
    model, tokens = build(encoder, multi=multi, beam=2 if multi else 1), batch()
    with torch.no_grad():
        together = model(tokens).logits
        for row, length in enumerate(LENGTHS):
            alone = Tokens(tokens.ids[row : row + 1, :length], tokens.valid[row : row + 1, :length])
            torch.testing.assert_close(model(alone).logits[0], together[row], atol=2e-5, rtol=0)


@pytest.mark.parametrize("multi", [False, True])
def test_on_any_encoder_every_part_learns(multi: bool) -> None:
    model, tokens = build(ENCODERS[0], multi=multi).train(), batch()
    labels = torch.eye(5, dtype=torch.uint8)[:4] if multi else torch.arange(4)
    model(tokens, labels).loss.backward()
    still = {name for name, weight in model.named_parameters() if weight.grad is None}
    # with one step, no later step attends to anything
    assert still == (set() if multi else {"head.decoder.attend.weight", "head.decoder.combine.weight"})


@pytest.mark.parametrize("most", [None, 2])
def test_at_most_max_labels_are_chosen(most: int | None) -> None:
    model = build(ENCODERS[0], multi=True, max_labels=most)
    with torch.no_grad():
        model.head.decoder.classify.weight.zero_()  # every label is as likely as <eos>
        counts = (model(batch()).logits > 0).sum(1)
    assert counts.tolist() == [2] * len(LENGTHS) if most else counts.min() > 2


def test_a_width_that_the_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(
        ParameterError,
        match=r"systems\.x: head: label_decoder needs .* multiple of head\.heads \(3\); the encoder's width is 32",
    ):
        build(ENCODERS[0], multi=False, heads=3)
