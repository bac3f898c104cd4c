"""Token vectors and positions: their sizes at the start, and models without the factor of sinusoidal positions."""

from __future__ import annotations

import pytest
import torch

from epigram.nn.layers.embedding import Positions, TokenEmbedding, sinusoids
from epigram.nn.layers.types import DataSpec, Tokens

WIDTH, LENGTH = 512, 64


def embedding(positions: Positions) -> TokenEmbedding:
    torch.manual_seed(0)
    return TokenEmbedding(DataSpec(vocabulary=100, classes=2, max_length=LENGTH), width=WIDTH, positions=positions)


def test_sinusoidal_positions_do_not_hide_the_tokens() -> None:
    ids = torch.arange(2, LENGTH).unsqueeze(0)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    states = embedding("sinusoidal")(tokens)
    words = states - sinusoids(LENGTH, WIDTH)[: LENGTH - 2]
    assert words.var().item() == pytest.approx(1.0, abs=0.05)  # that of the positions is 1/2
    assert embedding("learned")(tokens).var().item() == pytest.approx(0.1**2 + 0.02**2, rel=0.05)


def test_weights_of_sinusoidal_positions_without_their_factor_are_refused() -> None:
    weights = embedding("sinusoidal").state_dict()
    assert weights.pop("scale").item() == pytest.approx(WIDTH**0.5)
    with pytest.raises(RuntimeError, match="scale"):
        embedding("sinusoidal").load_state_dict(weights)
    assert "scale" not in embedding("learned").state_dict()
