"""Contract with PyTorch: the installed version has the undocumented parts of the adapter, which works without them."""

from __future__ import annotations

import inspect
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import _compile, nn
from torch.utils import flop_counter

from epigram.nn import torch_adapter

NEEDS = f"torch {torch.__version__} has no {{}}: epigram needs it for {{}}"
LINEAR = 2 * 3 * 4 * 5  # a multiply-add of (3, 4) by (4, 5) is two operations


def test_pytorch_caches_the_unwrapped_function_under_this_name() -> None:
    source = inspect.getsource(_compile)
    assert '"__dynamo_disable"' in source, NEEDS.format("__dynamo_disable", "steps that do not import the compiler")


@pytest.mark.parametrize("name", ["add_param_group", "zero_grad", "state_dict", "load_state_dict"])
def test_methods_of_optimizers_are_wrapped(name: str) -> None:
    method = getattr(torch.optim.Optimizer, name)
    assert hasattr(method, "__wrapped__"), NEEDS.format(f"wrapper of Optimizer.{name}", "a faster start")


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.Adadelta])
def test_the_steps_of_optimizers_are_wrapped(kind: Any) -> None:
    assert hasattr(kind.step, "__wrapped__"), NEEDS.format(f"wrapper of {kind.__name__}.step", "a faster start")


def test_pytorch_has_the_mode_that_counts_operations() -> None:
    assert hasattr(flop_counter, "_FlopCounterMode"), NEEDS.format("_FlopCounterMode", "a faster start")


@pytest.mark.parametrize("name", ["_linear_pointwise", "_reorder_linear_weight"])
def test_pytorch_has_the_products_of_onednn(name: str) -> None:
    assert hasattr(torch.ops.mkldnn, name), NEEDS.format(f"ops.mkldnn.{name}", "fast predictions of one text")


def test_pytorch_says_whether_onednn_has_kernels_in_bfloat16() -> None:
    name = "_is_mkldnn_bf16_supported"
    assert hasattr(torch.ops.mkldnn, name), NEEDS.format(f"ops.mkldnn.{name}", "LSTMs on a CPU without AVX-512")


@pytest.mark.parametrize("able", [False, True])
def test_without_that_operator_the_instructions_of_the_cpu_are_read(
    able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": able})
    ask: Any = torch_adapter.has_bf16_kernels
    assert ask.__wrapped__() is able


def test_pytorch_has_the_fused_attention_of_the_cpu_and_does_not_count_it() -> None:
    operator = getattr(torch.ops.aten, torch_adapter.CPU_ATTENTION, None)
    assert operator is not None, NEEDS.format(torch_adapter.CPU_ATTENTION, "the FLOPs of attention")
    assert operator not in flop_counter.flop_registry  # otherwise remove it from the adapter


def test_an_optimizer_without_the_wrapper_is_used_as_it_is() -> None:
    class Plain(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return None

    assert torch_adapter.optimizer_without_compiler(Plain) is Plain
    assert torch_adapter.optimizer_without_compiler(torch.optim.SGD) is not torch.optim.SGD


@pytest.mark.parametrize("hidden", [False, True])
def test_operations_are_counted_without_the_private_mode_too(hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if hidden:
        public = SimpleNamespace(FlopCounterMode=flop_counter.FlopCounterMode)
        monkeypatch.setattr(torch.utils, "flop_counter", public)
    layer, x = nn.Linear(4, 5, bias=False), torch.ones(3, 4)
    assert torch_adapter.count_flops(lambda: layer(x), {}) == {torch.ops.aten.mm: LINEAR}


def test_pytorch_has_the_kernel_of_the_gradient_of_a_softmax() -> None:
    found = hasattr(torch.ops.aten, torch_adapter.SOFTMAX_GRADIENT)
    assert found, NEEDS.format(torch_adapter.SOFTMAX_GRADIENT, "fast correlation attention")


@pytest.mark.parametrize("name", [torch_adapter.SOFTMAX_GRADIENT, "no such kernel"])
def test_the_gradient_of_a_softmax_is_that_of_its_scores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_adapter, "SOFTMAX_GRADIENT", name)
    scores = torch.tensor([[0.0, 1.0, 3.0], [2.0, -1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    gradient = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    weights = scores.softmax(-1)
    weights.backward(gradient)
    torch.testing.assert_close(torch_adapter.softmax_gradient(gradient, weights.detach()), scores.grad)


def test_the_gradient_of_a_softmax_keeps_no_tensor() -> None:
    gradient, weights = torch.ones(2, 3), torch.full((2, 3), 1 / 3)
    held = [weakref.ref(gradient), weakref.ref(weights)]
    torch_adapter.softmax_gradient(gradient, weights)
    del gradient, weights
    assert [each() for each in held] == [None, None]


@pytest.mark.parametrize("missing", ["_linear_pointwise", "_reorder_linear_weight"])
def test_a_layer_stays_as_it_is_without_the_products_of_onednn(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"_linear_pointwise", "_reorder_linear_weight"} - {missing}
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(**dict.fromkeys(names)))
    layer = nn.Linear(4, 5).bfloat16()
    torch_adapter.pack_linear(layer)
    assert "forward" not in vars(layer)


def test_a_module_computes_the_function_in_place_of_its_own_until_it_is_restored() -> None:
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    before = layer(x)
    torch_adapter.replace_forward(layer, lambda given: 3 * given)
    assert layer(x).tolist() == [[3.0, 3.0]]
    torch_adapter.restore_forward(layer)
    assert torch.equal(layer(x), before)
