"""Products that are computed in bfloat16, and outputs of prepared layers, compared with products computed in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from epigram.models import precision
from epigram.models.precision import Precision, matmul_precision, prepare_for_inference
from epigram.nn.layers.types import Tokens
from tests.support.scripted import Dev, prepared

CPU = torch.device("cpu")
packs = pytest.mark.skipif(not precision.has_fast_bf16("cpu"), reason="requires a CPU with fast bfloat16")


def rounded(x: Tensor) -> NDArray[np.float64]:
    """Return `x` rounded to the nearest bfloat16 (the upper half of a float32), ties to even."""
    bits = x.detach().float().contiguous().numpy().view(np.uint32)
    kept = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return kept.astype(np.uint32).view(np.float32).astype(np.float64)


@packs
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs", "packed"), [(64, 64, False), (64, 65, True), (96, 80, True)])
@pytest.mark.parametrize("shape", [(7,), (2, 5), (1, 1)], ids=str)
def test_a_lowered_layer_multiplies_by_its_weights(
    shape: tuple[int, ...], inputs: int, outputs: int, packed: bool, bias: bool
) -> None:
    """Inputs and weights are rounded, sums are nearly exact, and the result is rounded again: by at most 2⁻⁹."""
    torch.manual_seed(0)
    layer = nn.Linear(inputs, outputs, bias)
    x, weight, added = torch.randn(*shape, inputs), rounded(layer.weight), rounded(layer.bias) if bias else 0.0
    wanted = rounded(x) @ weight.T + added
    prepare_for_inference(layer)
    assert ("forward" in vars(layer)) is packed
    with torch.inference_mode(), matmul_precision("bf16", CPU):
        got = layer(x)
    assert got.dtype == torch.bfloat16 and got.shape == (*shape, outputs)
    np.testing.assert_allclose(got.double().numpy(), wanted, rtol=2**-8, atol=1e-3)
    assert np.abs(wanted).max() > 0.5


def test_a_processor_without_bfloat16_keeps_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_fast_bf16", lambda kind: False)
    layer, x = nn.Linear(96, 80), torch.randn(3, 96)
    wanted = layer(x)
    prepare_for_inference(layer)
    assert layer.weight.dtype == torch.float32 and "forward" not in vars(layer)
    with matmul_precision("auto", CPU):
        assert torch.equal(layer(x), wanted)


@packs
def test_only_linear_layers_are_lowered() -> None:
    model = prepare_for_inference(nn.Sequential(nn.Embedding(9, 96), nn.LayerNorm(96), nn.Linear(96, 80)))
    assert [p.dtype for p in model.parameters()] == [torch.float32] * 3 + [torch.bfloat16] * 2


def in_bf16() -> bool:
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16


@pytest.mark.parametrize(
    ("asked", "fast", "wanted"),
    [
        ("bf16", True, True),
        ("bf16", False, True),
        ("auto", True, True),
        ("auto", False, False),
        ("fp32", True, False),
        ("fp32", False, False),
    ],
)
def test_products_are_in_bfloat16_where_asked_for_or_fast(
    asked: Precision, fast: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_fast_bf16", lambda kind: fast)
    with matmul_precision(asked, CPU):
        assert in_bf16() is wanted
    assert not in_bf16()


@pytest.mark.parametrize(
    ("able", "kernels", "wanted"),
    [
        ({"avx512_bf16": True}, True, True),
        ({"amx_bf16": True}, True, True),
        ({"avx512_f": True, "amx_bf16": False}, True, False),
        ({"avx512_bf16": True, "amx_bf16": True}, False, False),
    ],
)
def test_bfloat16_is_fast_where_there_are_instructions_for_it(
    able: dict[str, bool], kernels: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    monkeypatch.setattr(precision, "has_bf16_kernels", lambda: kernels)
    ask: Any = precision.has_fast_bf16
    assert ask.__wrapped__("cpu") is wanted
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *, including_emulation: wanted or including_emulation)
    assert ask.__wrapped__("cuda") is wanted
    assert ask.__wrapped__("mps") is False


@pytest.mark.parametrize(("asked", "wanted"), [("bf16", True), ("fp32", False)])
def test_a_training_takes_its_precision_for_steps_and_for_dev(asked: str, wanted: bool) -> None:
    run = prepared([Dev(5), Dev(6)], batches=2, precision=asked)
    seen: list[tuple[bool, bool]] = []

    def look(module: Any, arguments: tuple[Tokens, ...]) -> None:
        seen.append((module.training, in_bf16()))

    run.model.register_forward_pre_hook(look)
    run.trainer.run()
    assert seen == [(True, wanted), (True, wanted), (False, wanted)] * 2
    assert run.model.rise.dtype == torch.float32
