"""Every method in bfloat16, as users get it, against its NumPy reading in float64, its loss too.

Layers are 72 wide: those of 72 × 72 weights are packed for oneDNN. bfloat16 keeps 8 bits, so that each sum is off by up
to 2⁻⁹ of itself. The logits are off by more, since a model has several layers: by up to 3.3 · 2⁻⁸ of their spread here.
Six times 2⁻⁸, 2.3%, is allowed. What a method leaves out or turns around changes the logits by far more.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from pithy.training.precision import lowered, multiplies_bf16, products
from tests.parity.whole_models import METHODS, Whole

WIDTH, ROUNDINGS, CPU = 72, 6, torch.device("cpu")
LARGE = 4096  # weights: layers with more are packed
WITHOUT_LARGE = {"fast_text", "att_blstm"}  # which have no linear layer between the vectors and the classes
lowers = pytest.mark.skipif(not multiplies_bf16("cpu"), reason="this processor answers in float32")


def tolerance(whole: Whole) -> float:
    """How far logits and loss may be off."""
    return ROUNDINGS * 2**-8 * max(1.0, float(np.ptp(whole.logits)) if len(whole.logits) else 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_training(method: str) -> None:
    whole = METHODS[method](WIDTH)
    model = whole.model.float()
    with products("bf16", CPU):
        prediction = model(whole.tokens, whole.labels)
    assert prediction.loss.item() == pytest.approx(whole.loss, abs=tolerance(whole))
    if len(whole.logits):
        np.testing.assert_allclose(whole.answered(prediction.logits), whole.logits, atol=tolerance(whole))


@lowers
@pytest.mark.parametrize("method", [name for name in METHODS if name != "cnle, several labels"])
def test_answers_with_packed_weights(method: str) -> None:
    whole = METHODS[method](WIDTH)
    model = lowered(deepcopy(whole.model).float().eval())
    linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    large = {name for name, layer in linear.items() if layer.weight.numel() > LARGE}
    assert {name for name, layer in linear.items() if "forward" in vars(layer)} == large
    assert bool(large) is (method not in WITHOUT_LARGE)
    with torch.inference_mode(), products("bf16", CPU):
        logits = model(whole.tokens).logits
    np.testing.assert_allclose(whole.answered(logits), whole.logits, atol=tolerance(whole))
