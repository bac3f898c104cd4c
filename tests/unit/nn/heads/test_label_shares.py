"""The bias of the logits of several labels starts at the log-odds of each label in train."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from epigram.nn import heads
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.layers.autocast import OutputLinear
from epigram.nn.layers.types import DataSpec, Tokens

SHARES = [0.5, 0.01, 0.001]
KINDS = ["linear", "label_attention", "layer_ensemble", "convolution", "linear_ngrams"]


def probabilities(kind: str, shares: list[float] | None) -> torch.Tensor:
    """Return the mean probability of each label over 64 texts of a new model."""
    torch.manual_seed(0)
    given = None if shares is None else torch.tensor(shares)
    context = DataSpec(vocabulary=50, classes=3, max_length=8, multi=True, label_shares=given)
    encoder = TransformerConfig(width=8, heads=1, hidden=4, depth=1).build(context).eval()
    settings: Any = heads.KINDS[kind]()
    ids = torch.randint(2, 50, (64, 8))
    encoded = encoder(Tokens(ids, torch.ones_like(ids, dtype=torch.bool)))
    return settings.build(context, encoder).eval()(encoded).logits.sigmoid().mean(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_model_predicts_the_shares_of_the_labels(kind: str) -> None:
    assert probabilities(kind, SHARES).tolist() == pytest.approx(SHARES, rel=0.6)
    assert probabilities(kind, None).tolist() == pytest.approx([0.5] * 3, abs=0.2)


def test_classes_that_share_a_bias_start_at_their_mean() -> None:
    assert probabilities("interaction", SHARES).mean().item() == pytest.approx(0.17, rel=0.5)


def test_a_label_of_no_text_has_a_finite_bias() -> None:
    layer = OutputLinear(4, 3, torch.tensor([0.0, 0.5, 1.0]))
    assert layer.bias.tolist() == pytest.approx([-9.21, 0.0, 9.21], abs=0.01)
