"""Gradients in bfloat16 against those in float64, and the type in which a post-LN encoder keeps its states."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from epigram.models.precision import matmul_precision, prepare_for_inference
from epigram.nn.layers.autocast import LayerNorm, OutputLinear, to_autocast
from epigram.nn.layers.hook_fusion import fuse
from epigram.nn.layers.pooling import masked_mean
from tests.support.families import FAMILIES, built, checkpoint, texts
from tests.support.whole_models import METHODS

WIDTH, CPU = 72, torch.device("cpu")
ALLOWED, POST_LN_ALLOWED = 0.1, 0.04  # relative error of the whole gradient: here up to 0.077 and 0.032
POST_LN = [name for name in METHODS if name.startswith(("transformer", "hth"))]


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    """Return all gradients in one float64 vector."""
    loss.backward()  # type: ignore[no-untyped-call]
    found = [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
    return torch.cat([each.flatten().double() for each in found if each is not None])


@pytest.mark.parametrize("method", METHODS)
def test_error_of_the_gradient(method: str) -> None:
    """VDCNN divides by the standard deviation of a few positions eight times in a row: 0.21."""
    whole = METHODS[method](WIDTH)
    lowered = deepcopy(whole.model).float()
    wanted = gradients(whole.model, whole.model(whole.tokens, whole.labels).loss)
    with matmul_precision("bf16", CPU):
        loss = lowered(whole.tokens, whole.labels).loss
    error = (gradients(lowered, loss) - wanted).norm() / wanted.norm()
    allowed = POST_LN_ALLOWED if method in POST_LN else 3 * ALLOWED if method == "vdcnn" else ALLOWED
    assert 0 < error < allowed


@pytest.mark.parametrize("method", POST_LN)
def test_states_after_the_first_norm_stay_in_bfloat16(method: str) -> None:
    whole = METHODS[method](WIDTH)
    model: Any = whole.model.float()
    with matmul_precision("bf16", CPU):
        states = model.encoder(whole.tokens).states
    assert {state.dtype for state in states[1:]} == {torch.bfloat16}
    assert model.encoder(whole.tokens).states[-1].dtype == torch.float32


@pytest.mark.parametrize("prepared", [False, True], ids=["training", "answers"])
def test_states_of_bert_stay_in_bfloat16(prepared: bool, tmp_path: Path) -> None:
    model, encoder = built(checkpoint("bert", tmp_path, FAMILIES["bert"]))
    if prepared:
        prepare_for_inference(model)
    with torch.no_grad(), matmul_precision("bf16", CPU):
        states = encoder(texts()).states
    assert len(states) > 1 and {state.dtype for state in states} == {torch.bfloat16}


def test_a_norm_keeps_its_own_type_outside_autocast() -> None:
    norm, x = LayerNorm(8), torch.randn(3, 8)
    assert norm(x).dtype == torch.float32 and to_autocast(x) is x
    assert norm.double()(x.double()).dtype == torch.float64
    assert torch.equal(norm.float()(x), nn.LayerNorm(8)(x))


def test_the_mean_of_many_tokens_is_exact_in_bfloat16() -> None:
    """bfloat16 has no number between 256 and 258, and none between 1 and 1.0078."""
    x = torch.ones(1, 300, 1, dtype=torch.bfloat16)
    x[0, 100:, 0] = 1.0078125
    valid = torch.arange(300).unsqueeze(0) < 257
    with matmul_precision("bf16", CPU):
        assert masked_mean(x, valid).item() == pytest.approx((100 + 157 * 1.0078125) / 257, abs=1e-6)
    assert masked_mean(x, valid).dtype == torch.bfloat16  # of a model that is in bfloat16 as a whole
    assert masked_mean(x.double(), valid).dtype == torch.float64


@pytest.mark.parametrize("prepared", [False, True], ids=["training", "answers"])
def test_logits_are_those_of_a_float32_product(prepared: bool) -> None:
    """In bfloat16 both logits would be 16, and the first class would be predicted."""
    layer: nn.Linear = OutputLinear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        layer.bias.copy_(torch.tensor([16.0, 16.0]))
    x = torch.tensor([[0.0, 0.0078125]]).bfloat16()
    if prepared:
        prepare_for_inference(nn.Sequential(layer))
    with torch.no_grad(), matmul_precision("bf16", CPU):
        logits = layer(x)
    assert torch.equal(logits, torch.tensor([[16.0, 16.0078125]]))
    assert layer.double()(x).dtype == torch.float64


def test_the_head_of_a_classifier_has_float32_logits(tmp_path: Path) -> None:
    model, _ = built(checkpoint("bert", tmp_path, FAMILIES["bert"]))
    prepare_for_inference(model)
    with torch.no_grad(), matmul_precision("bf16", CPU):
        assert model(texts()).logits.dtype == torch.float32


def test_hook_fusion_rounds_states_in_bfloat16_once() -> None:
    """Added one by one in bfloat16, the small states would be lost."""
    states = [torch.full((1, 1, 1), value, dtype=torch.bfloat16) for value in (9.0, 256.0, *[0.25] * 11)]
    weights = [(0.4 * level + 2.9 / level) / 6 for level in range(1, 13)]
    exact = 256 * weights[0] + 0.25 * sum(weights[1:])
    assert fuse(states).item() == torch.tensor(exact).bfloat16().item()
    assert fuse([state.float() for state in states]).item() == pytest.approx(exact)
