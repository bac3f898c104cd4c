"""Logits and loss of every method in training mode against NumPy references, with the attention dropout masks used."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.layers.attention.correlation import CorrelationAttention
from epigram.nn.layers.attention.dot_product import DotProductAttention
from epigram.nn.layers.attention.head_to_head import HeadToHead
from epigram.nn.pretrained.bert import BertConfig, BertSelfAttention
from tests.parity.reference.batches import assert_rows, padded, padded_ids, padded_weights, pair, scattered, texts
from tests.parity.reference.common import linear
from tests.parity.reference.dropout import captured, of_text
from tests.support.whole_layers import CONTEXT, IDS, LABELS, context_of, mean_loss, mixed
from tests.support.whole_models import CORRELATION, METHODS, dmsp, dmsp_logits, transformer, transformer_logits

WIDTH, RATE = 8, 0.25
SHORT, LONG = [5, 1, 8, 3], [11, 1, 19, 4]  # correlation attention builds the L×L matrix for texts up to the width


@pytest.mark.parametrize("method", METHODS)
def test_logits_and_loss_while_training(method: str) -> None:
    whole = METHODS[method](WIDTH)
    assert whole.model.training
    prediction = whole.model(whole.tokens, whole.labels)
    assert prediction.loss.item() == pytest.approx(whole.loss, rel=1e-6)
    if len(whole.logits):
        np.testing.assert_allclose(whole.answered(prediction.logits), whole.logits, atol=1e-5)


def check(layer: Any, lengths: list[int]) -> None:
    """Check that `layer` in training mode equals the reference with the recorded dropout mask."""
    rows = texts(lengths, WIDTH)
    weights = [np.random.default_rng(len(x)).choice([0.5, 1.0], size=len(x)) for x in rows]
    with captured() as masks:
        got = layer.train()(*padded(rows), padded_weights(weights))
    assert len(masks) == 1, "attention dropout is on"
    kept = [of_text(masks[0], row, len(x)) for row, x in enumerate(rows)]
    assert_rows(got, [mixed(layer, *each) for each in zip(rows, weights, kept, strict=True)], 1e-9)


@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("row_norm", [True, False], ids=["row_norm", "plain"])
@pytest.mark.parametrize("lengths", [SHORT, LONG], ids=["L≤D", "L>D"])
def test_correlation_attention_under_dropout(lengths: list[int], row_norm: bool, placement: Any) -> None:
    settings: dict[str, Any] = {"row_norm": row_norm, "placement": placement, "temperature": 0.2}
    check(scattered(CorrelationAttention(width=WIDTH, dropout=RATE, **settings)), lengths)


@pytest.mark.parametrize("placement", ["after", "inside", "log"])
@pytest.mark.parametrize("gate", [None, "paper", "residual"])
@pytest.mark.parametrize("site", ["scores", "context"])
def test_dot_product_attention_under_dropout(site: Any, gate: Any, placement: Any) -> None:
    part = None if gate is None else HeadToHead(heads=2, gate=gate, site=site, dropout=0.0)
    check(
        scattered(DotProductAttention(width=WIDTH, heads=2, dropout=RATE, placement=placement, head_to_head=part)), LONG
    )


@pytest.mark.parametrize("gate", [None, "residual"])
def test_attention_of_bert_under_dropout(gate: Any) -> None:
    sizes = {"vocab_size": 9, "hidden_size": WIDTH, "num_attention_heads": 2}
    layer: Any = BertSelfAttention(BertConfig(**sizes, attention_probs_dropout_prob=RATE))
    layer.head_to_head = None if gate is None else HeadToHead(heads=2, gate=gate, site="scores", dropout=0.0)
    layer.placement = "after"
    x, valid = padded(rows := texts(LONG, WIDTH))
    with captured() as masks:
        got, _ = scattered(layer).train()(x, valid[:, None, None, :])
    assert len(masks) == 1, "attention dropout is on"
    wanted = []
    for row, text in enumerate(rows):
        q, k, v = (linear(text, *pair(part)) for part in (layer.query, layer.key, layer.value))
        wanted.append(context_of(layer, q, k, v, np.ones(len(text)), of_text(masks[0], row, len(text))))
    assert_rows(got, wanted, 1e-9)


@pytest.mark.parametrize("attention", [{"heads": 2}, {"attention": "correlation"}], ids=["dot", "correlation"])
@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_every_layer_s_attention_has_the_dropout_of_the_setting(rate: float, attention: dict[str, Any]) -> None:
    config = TransformerConfig(**{"width": WIDTH, "depth": 3, "heads": 1, **attention}, dropout=rate)
    called = "attention.correlation.keep_factors" if "attention" in attention else "attention.dot_product.drop"
    with patch(f"epigram.nn.layers.{called}", side_effect=lambda x, _: torch.ones_like(x)) as drop:
        config.build(CONTEXT).train()(padded_ids(IDS))
    assert [call.args[1] for call in drop.call_args_list] == [rate] * 3


@pytest.mark.parametrize("encoder", [CORRELATION, {"heads": 2}], ids=["transformer_f", "transformer"])
def test_the_whole_model_under_attention_dropout(encoder: dict[str, Any]) -> None:
    model: Any = transformer(WIDTH, **encoder)
    for layer in model.encoder.blocks:
        layer.attention.dropout = RATE
    with captured() as masks:
        prediction = model(padded_ids(IDS, pad_id=5), torch.tensor(LABELS))
    assert len(masks) == 3
    wanted = transformer_logits(
        model, [[of_text(mask, row, len(ids)) for mask in masks] for row, ids in enumerate(IDS)]
    )
    np.testing.assert_allclose(prediction.logits.detach(), wanted, atol=1e-5)
    assert prediction.loss.item() == pytest.approx(mean_loss(wanted), rel=1e-5)


def test_dmsp_with_the_orders_that_it_draws() -> None:
    """Each layer sorts a text's tokens by uniform random numbers, drawn for the whole batch."""
    model, tokens = dmsp(WIDTH, "random"), padded_ids(IDS, pad_id=5)
    torch.manual_seed(3)
    keys = [torch.rand(tokens.valid.shape).numpy() for _ in range(3)]
    torch.manual_seed(3)
    prediction = model(tokens, torch.tensor(LABELS))
    logits, loss = dmsp_logits(model, lambda layer, row: np.argsort(keys[layer][row, : len(IDS[row])]).tolist())
    np.testing.assert_allclose(prediction.logits.detach().log_softmax(-1), logits, atol=1e-5)
    assert prediction.loss.item() == pytest.approx(loss, rel=1e-5)
