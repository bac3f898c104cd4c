"""The label decoder: its decision on steps written by hand, and training on other encoders."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from epigram.core.errors import ParameterError
from epigram.models.classifier import decodes
from epigram.models.recipe import Recipe
from epigram.nn.layers.recurrent.label_decoder import DecoderInput
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


# ŷ of the labels a, b and <eos>, given the previous label: a, b, none
STEPS = torch.tensor([[0.0, 0.45, 0.55], [0.1, 0.0, 0.9], [0.5, 0.4, 0.1]])


class WrittenDecoder(nn.Module):
    """Decoder whose state is the one-hot previous label, the third if there is none."""

    def start(self, inputs: DecoderInput, beams: int = 1) -> tuple[Tensor, Tensor]:
        h = torch.eye(3)[2].expand(len(inputs.labels), beams, 3)
        return h, h

    def step(self, e: Tensor, r: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return e, e

    def readout(self, h: Tensor, inputs: DecoderInput) -> Tensor:
        return h

    def scores(self, h: Tensor, inputs: DecoderInput) -> Tensor:
        return (h @ STEPS).log()


def model_of(*, multi: bool = True, **head: Any) -> Any:
    recipe = Recipe(
        name="x", about="", paper="", view="token", encoder={"kind": "bilstm", "width": 8},
        head={"kind": "label_decoder", "embedding": 8, **head},
    )  # fmt: skip
    return recipe.build(DataSpec(vocabulary=9, classes=2, max_length=8, multi=multi), "systems.x").eval()


def written(**head: Any) -> list[float]:
    """Return the probabilities of a and b."""
    model = model_of(**head)
    model.head.decoder = WrittenDecoder()
    rows = torch.zeros(1, 3, 8)
    model.head.decoder_input = lambda _: DecoderInput(rows, None, rows, torch.eye(3), rows[:, 0], rows[:, 0])
    ids = torch.ones(1, 2, dtype=torch.int64)
    with torch.inference_mode():
        return model(Tokens(ids, ids > 0)).logits[0].sigmoid().tolist()


def test_greedy_and_beam_decide_differently() -> None:
    """Greedy: a (0.5), then <eos> (0.55): {a} with 0.275. Two beams: also b (0.4), then <eos> (0.9): {b} with 0.36."""
    assert written() == pytest.approx([(1 + 0.5) / 2, 0.45 / 2])
    assert written(beam=2) == pytest.approx([0.5 / 2, (1 + 0.4) / 2])


def test_max_labels_ends_the_search_before_the_end() -> None:
    """After one step, greedy and beam have {a} with 0.5; <eos> has 0.1."""
    for beam in (1, 2):
        assert written(beam=beam, max_labels=1) == pytest.approx([(1 + 0.5) / 2, 0.4 / 2])


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, True),
        ({"decision": "decoder"}, True),
        ({"decision": "threshold"}, False),
        ({"multi": False}, False),
    ],
)
def test_the_head_decides_unless_thresholds_do_or_a_text_has_one_label(settings: dict[str, Any], chosen: bool) -> None:
    assert decodes(model_of(**settings)) is chosen


def test_other_models_do_not_decide() -> None:
    assert not decodes(nn.Linear(2, 2))


def test_another_decision_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"systems\.x\.head\.decision is 'beam'"):
        model_of(decision="beam")
