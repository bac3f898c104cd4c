"""Part-of-speech weights of tokens in every encoder that applies them: those of the table, or of the tokens' words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.encoders.universal_transformer import UniversalTransformerConfig
from epigram.nn.layers.attention.pos_weighting import reads_pos_weight, token_weights
from epigram.nn.layers.types import DataSpec, Tokens

TABLE = torch.tensor([1.0, 0.5, 1.0, 0.25])
IDS = torch.tensor([[1, 2, 3], [3, 1, 0]])
VALID = torch.tensor([[True, True, True], [True, True, False]])
SMALL = {"width": 8, "hidden": 8, "heads": 2, "pos_weight": "after"}
CONFIGS: list[Any] = [
    TransformerConfig(depth=1, **SMALL),  # type: ignore[arg-type]
    TransformerConfig(depth=1, attention="correlation", **SMALL),  # type: ignore[arg-type]
    UniversalTransformerConfig(depth=2, **SMALL),  # type: ignore[arg-type]
    PretrainedConfig(family="bert", small={"width": 8, "depth": 1, "hidden": 8, "heads": 2}, pos_weight="after"),
]


def test_a_token_has_the_weight_of_its_word_or_its_own() -> None:
    words = torch.tensor([[-1.0, 0.5, -1.0], [1.0, 0.0, -1.0]])  # 0 is a weight
    tokens = Tokens(IDS, VALID, word_weight=words)
    assert torch.equal(token_weights(TABLE, tokens), torch.tensor([[0.5, 0.5, 0.25], [1.0, 0.0, 1.0]]))  # type: ignore[arg-type]
    assert torch.equal(token_weights(TABLE, replace(tokens, word_weight=None)), TABLE[IDS])  # type: ignore[arg-type]
    assert token_weights(None, tokens) is None


@pytest.mark.parametrize("config", CONFIGS)
def test_an_encoder_applies_the_weights_of_words(config: Any) -> None:
    def encode(table: torch.Tensor, words: torch.Tensor | None) -> torch.Tensor:
        torch.manual_seed(0)
        encoder = config.build(DataSpec(vocabulary=4, classes=2, max_length=8, pos_weight=table)).eval()
        last: torch.Tensor = encoder(Tokens(IDS, VALID, word_weight=words)).last
        return last[VALID]

    by_table = encode(TABLE, None)
    torch.testing.assert_close(encode(torch.ones(4), TABLE[IDS]), by_table)
    assert not torch.allclose(encode(torch.ones(4), None), by_table, atol=1e-4)


def test_only_a_model_with_weights_reads_them() -> None:
    spec = DataSpec(vocabulary=4, classes=2, max_length=8, pos_weight=TABLE)
    assert [reads_pos_weight(config.build(spec)) for config in CONFIGS] == [True] * 4
    assert not reads_pos_weight(replace(CONFIGS[0], pos_weight="none").build(spec))
