"""Logits and token scores under autocast: two that differ by 0.02 stay different, as in float32.

Near 20, the numbers of bfloat16 are an eighth apart: both would be 20, and the first label would be predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from epigram.models.precision import matmul_precision, prepare_for_inference
from epigram.nn import heads
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.layers.recurrent.label_decoder import DecoderInput, LabelDecoder
from epigram.nn.layers.types import DataSpec, Encoded, Prediction, Tokens

NEAR, APART, WIDTH, MASK = 20.0, 0.02, 8, 3
CONTEXT: dict[str, Any] = {
    "vocabulary": 9,
    "classes": 2,
    "labels": ("a", "b"),
    "max_length": 8,
    "token_labels": ("O", "X"),
}
STATES = torch.eye(WIDTH)[None, :3]  # of three tokens
VALID = torch.ones(1, 3, dtype=torch.bool)
Case = Callable[[], tuple[Any, Callable[[Prediction], Tensor]]]


def head_of(kind: str, masks: int = 0, **settings: Any) -> Any:
    """Return a head for two classes whose prompt has so many masks."""
    context = DataSpec(**CONTEXT, mask_id=MASK, prefix_ids=(MASK,) * masks)
    encoder = TransformerConfig(width=WIDTH, heads=1, hidden=4, depth=1).build(context)
    config: Any = heads.KINDS[kind](**settings)
    return config.build(context, encoder).eval()


def bias(layer: nn.Linear, *values: float) -> None:
    """Let `layer` return `values` for any input."""
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(torch.tensor(values))


def text_logits(prediction: Prediction) -> Tensor:
    return prediction.logits


def token_logits(prediction: Prediction) -> Tensor:
    assert prediction.tokens is not None
    return prediction.tokens


def biased(kind: str, layer: str, masks: int = 0, read: Any = text_logits, **settings: Any) -> Case:
    """Return a head whose last layer gives both labels close logits by its biases."""

    def case() -> tuple[Any, Callable[[Prediction], Tensor]]:
        head = head_of(kind, masks, **settings)
        bias(head.get_submodule(layer), NEAR, NEAR + APART)
        return head, read

    return case


def interaction() -> tuple[Any, Callable[[Prediction], Tensor]]:
    """The first token matches both classes with 10, the second one only the second class; the perceptron adds 10."""
    head = head_of("interaction")
    bias(head.first, *[0.0] * head.first.out_features)
    bias(head.second, NEAR / 2)
    with torch.no_grad():
        head.classes.weight.zero_()
        head.classes.weight[:, 0] = NEAR / 2
        head.classes.weight[1, 1] = APART
    return head, text_logits


def labeler() -> Any:
    """Return an attention labeler: of 21 products per head, 20 are 1, and the last one is 0 or tanh(0.02).

    The values are 0 or tanh(0.02), and the output layer adds 20.
    """
    head = head_of("attention_labeler", hidden=2 * 21, text_hidden=1)
    labeler = head.labeler
    bias(labeler.query, *[30.0] * 42)
    bias(labeler.key, *[30.0] * 20, 0.0, *[30.0] * 20, APART)
    bias(labeler.value, *[0.0] * 21, *[APART] * 21)
    bias(labeler.text_hidden, 0.0)
    bias(labeler.text_out, NEAR)
    with torch.no_grad():
        labeler.text_hidden.weight[0, 0] = 1.0
        labeler.text_out.weight.fill_(1.0)
    return head


CASES: dict[str, Case] = {
    "linear": biased("linear", "out"),
    "convolution": biased("convolution", "out", sizes=[2]),
    "label attention": biased("label_attention", "classify.3"),
    "layer ensemble": biased("layer_ensemble", "classifiers.0.out", mode="last"),
    "prompt": biased("prompt", "label", masks=1),
    "complement of a prompt": biased("prompt", "complement", masks=2, gamma=0.0),
    "interaction": interaction,
    "tagger": biased("tagger", "out"),
    "tokens of a tagger": biased("tagger", "token", read=token_logits),
    "attention labeler": lambda: (labeler(), text_logits),
    "tokens of an attention labeler": lambda: (labeler(), token_logits),
}


@pytest.mark.parametrize("prepared", [False, True], ids=["training", "answers"])
@pytest.mark.parametrize("name", CASES)
def test_close_logits_of_a_head_stay_apart(name: str, prepared: bool) -> None:
    head, read = CASES[name]()
    encoded = Encoded((STATES, STATES), Tokens(torch.full((1, 3), MASK), VALID))
    with torch.no_grad():
        exact = read(head(encoded))
        if prepared:
            prepare_for_inference(head)
        with matmul_precision("bf16", torch.device("cpu")):
            found = read(head(encoded))
    assert found.dtype == torch.float32
    assert torch.equal(found.argmax(-1), exact.argmax(-1))
    for logits in (exact, found):
        assert (logits[..., 0] - logits[..., 1]).abs().numpy() == pytest.approx(APART, abs=1e-3)


def test_close_logits_of_the_label_decoder_stay_apart() -> None:
    decoder = LabelDecoder(inputs=2, width=2)
    labels = torch.tensor([[[NEAR, 0.0], [NEAR, APART]]])
    states = torch.ones(1, 1, 2)
    inputs = DecoderInput(states, None, labels, torch.zeros(2, 2), states[:, 0], states[:, 0])
    with torch.no_grad(), matmul_precision("bf16", torch.device("cpu")):
        decoder.classify.weight.copy_(torch.eye(2))
        scores = decoder.scores(states, inputs)
    assert scores.dtype == torch.float32
    assert scores.flatten().tolist() == pytest.approx([NEAR, NEAR + APART], abs=1e-4)
