"""Contract with transformers: the installed version has the undocumented parts that the adapter uses."""

from __future__ import annotations

import importlib
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers import BertConfig, masking_utils

from epigram.nn.transformers_adapter import (
    FAMILIES,
    QUERY_KEY,
    build_boolean_mask,
    is_bidirectional,
    unfused_attention,
)

NEEDS = f"transformers {transformers.__version__} has no {{}}: epigram needs it for {{}}"


@pytest.mark.parametrize(("family", "name"), FAMILIES.items())
def test_a_family_has_its_attention_class(family: str, name: str) -> None:
    folder = family.replace("-", "_")
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    assert hasattr(module, name), NEEDS.format(f"{name} in {module.__name__}", "head-to-head attention")
    source = inspect.getsource(module)
    assert "ALL_ATTENTION_FUNCTIONS" in source, NEEDS.format(
        f"attention interface in {family}", "head-to-head attention"
    )


@pytest.mark.parametrize(("family", "names"), QUERY_KEY.items())
def test_a_family_has_its_query_and_key_layers(family: str, names: tuple[str, str]) -> None:
    folder = family.replace("-", "_")
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    source = inspect.getsource(getattr(module, FAMILIES[family]))
    for name in names:
        for part in (f"self.{name} = nn.Linear(", f"self.{name}(hidden_states).view("):
            assert part in source, NEEDS.format(f"{part} in {FAMILIES[family]}", "correlation attention")


@pytest.mark.parametrize("name", ["bidirectional_mask_function", "sdpa_mask"])
def test_transformers_has_its_masks(name: str) -> None:
    assert hasattr(masking_utils, name), NEEDS.format(f"masking_utils.{name}", "the mask of padding")


def test_a_config_has_the_name_of_its_attention() -> None:
    config = BertConfig(attn_implementation="eager")
    found = getattr(config, "_attn_implementation", None)
    assert found == "eager", NEEDS.format("_attn_implementation in a config", "attention weights")


def test_a_window_hides_what_is_outside() -> None:
    def within_one(batch: int, head: int, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query - key).abs() <= 1

    mask = build_boolean_mask(
        mask_function=within_one, attention_mask=None, allow_is_causal_skip=False, batch_size=1, q_length=3, kv_length=3
    )
    assert mask is not None
    assert mask[0, 0].tolist() == [[True, True, False], [True, True, True], [False, True, True]]
    assert is_bidirectional(masking_utils.bidirectional_mask_function) and not is_bidirectional(within_one)


@pytest.mark.parametrize(("name", "during"), [("sdpa", "eager"), ("epigram", "epigram"), ("eager", "eager")])
def test_only_the_fused_kernel_is_replaced_and_comes_back(name: str, during: str) -> None:
    backbone: Any = SimpleNamespace(config=SimpleNamespace(_attn_implementation=name))

    def change(to: str) -> None:
        backbone.config._attn_implementation = to

    backbone.set_attn_implementation = change
    with pytest.raises(KeyError), unfused_attention(backbone):
        assert backbone.config._attn_implementation == during
        raise KeyError
    assert backbone.config._attn_implementation == name


def test_a_config_without_the_name_is_left_alone() -> None:
    with unfused_attention(SimpleNamespace(config=SimpleNamespace())):
        pass
