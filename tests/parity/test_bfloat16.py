"""Logits and loss of every method in bfloat16, as users run it, against float64 NumPy references.

Layers are 72 wide: weights of 72 × 72 are packed for oneDNN. bfloat16 keeps 8 bits, so each sum has a relative error of
up to 2⁻⁹. The error of the logits is larger, since a model has several layers: here up to 3.3 · 2⁻⁸ of their range. The
tolerance is six times 2⁻⁸, 2.3%. A method with a missing or inverted part changes the logits by far more. VDCNN divides
by the standard deviation of a few positions eight times in a row, with float64 statistics: its tolerance is three times
larger.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from epigram.models.precision import has_fast_bf16, matmul_precision, prepare_for_inference
from epigram.nn.layers.attention.correlation import CorrelationAttention
from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.attention.head_to_head import HeadToHead
from tests.parity.reference.batches import padded, padded_weights, scattered, texts
from tests.parity.reference.common import Array
from tests.parity.reference.dropout import captured, of_text
from tests.support.whole_layers import Whole, mixed, spread
from tests.support.whole_models import METHODS

WIDTH, ROUNDINGS, CPU = 72, 6, torch.device("cpu")
LARGE = 4096  # weights: larger layers are packed
WITHOUT_LARGE = {"fast_text", "att_blstm"}  # no linear layer between the vectors and the classes
lowers = pytest.mark.skipif(not has_fast_bf16("cpu"), reason="requires a CPU with fast bfloat16")


def tolerance(whole: Whole) -> float:
    """Return the allowed error of logits and loss."""
    return ROUNDINGS * 2**-8 * max(1.0, float(np.ptp(whole.logits)) if len(whole.logits) else 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_training(method: str) -> None:
    whole = METHODS[method](WIDTH)
    model = whole.model.float()
    with matmul_precision("bf16", CPU):
        prediction = model(whole.tokens, whole.labels)
    assert prediction.loss.item() == pytest.approx(whole.loss, abs=tolerance(whole))
    if len(whole.logits):
        np.testing.assert_allclose(whole.answered(prediction.logits), whole.logits, atol=tolerance(whole))


@lowers
@pytest.mark.parametrize("method", [name for name in METHODS if name != "cnle, several labels"])
def test_answers_with_packed_weights(method: str) -> None:
    whole = METHODS[method](WIDTH)
    model = prepare_for_inference(deepcopy(whole.model).float().eval())
    linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    large = {name for name, layer in linear.items() if layer.weight.numel() > LARGE}
    assert {name for name, layer in linear.items() if "forward" in vars(layer)} == large
    assert bool(large) is (method not in WITHOUT_LARGE)
    with torch.inference_mode(), matmul_precision("bf16", CPU):
        logits = model(whole.tokens).logits
    allowed = (3 if method == "vdcnn" else 1) * tolerance(whole)
    np.testing.assert_allclose(whole.answered(logits), whole.logits, atol=allowed)


# Attention alone, where the only error is a sum's own rounding: here up to 2.9 · 2⁻⁸ of the largest output.

LENGTHS, RATE, ALLOWED = [11, 1, 19, 4], 0.25, 5 * 2**-8


def alike(lengths: list[int]) -> list[Array]:
    """Return texts with similar, correlated tokens."""
    return [x + 1.5 * np.sin(np.arange(WIDTH)) for x in texts(lengths, WIDTH)]


def check(layer: Any, *, training: bool) -> None:
    """Compare `layer` with its reference: in training with its dropout masks, or prepared for inference."""
    rows = alike(LENGTHS)
    weights = [np.random.default_rng(len(x)).choice([0.25, 1.0], size=len(x)) for x in rows]
    read = deepcopy(layer := spread(scattered(layer)))
    layer = layer.float().train() if training else prepare_for_inference(layer.float().eval())
    with torch.set_grad_enabled(training), matmul_precision("bf16", CPU), captured() as masks:
        got = layer(*padded(rows, torch.float32), padded_weights(weights)).detach()
    assert len(masks) == int(training)
    for row, (x, weight) in enumerate(zip(rows, weights, strict=True)):
        wanted = mixed(read, x, weight, of_text(masks[0], row, len(x)) if training else None)
        np.testing.assert_allclose(got[row, : len(x)].double(), wanted, atol=ALLOWED * np.abs(wanted).max())


@pytest.mark.parametrize("training", [True, False], ids=["training", "answers"])
@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("row_norm", [True, False], ids=["row_norm", "plain"])
def test_correlation_attention(row_norm: bool, placement: Any, training: bool) -> None:
    settings: dict[str, Any] = {"row_norm": row_norm, "placement": placement, "temperature": 0.2}
    check(CorrelationAttention(width=WIDTH, dropout=RATE, **settings), training=training)


@pytest.mark.parametrize("training", [True, False], ids=["training", "answers"])
@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("gate", [None, "paper", "residual"])
@pytest.mark.parametrize("site", ["scores", "context"])
def test_dot_product_attention(site: Any, gate: Any, placement: Any, training: bool) -> None:
    part = None if gate is None else HeadToHead(heads=4, gate=gate, site=site, dropout=0.0)
    layer = DotProductAttention(width=WIDTH, heads=4, dropout=RATE, placement=placement, head_to_head=part)
    check(layer, training=training)
