"""The papers' baselines against NumPy references: fastText, DPCNN, VDCNN, Att-BLSTM, Universal Transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.nn.encoders.bilstm import BiLstmConfig
from epigram.nn.encoders.dpcnn import DpcnnConfig
from epigram.nn.encoders.fast_text import FastTextConfig
from epigram.nn.encoders.universal_transformer import Halting, UniversalTransformerConfig
from epigram.nn.encoders.vdcnn import MaskedBatchNorm
from epigram.nn.heads.linear import LinearConfig
from epigram.nn.layers.ngrams import ngram_buckets
from epigram.nn.layers.pooling import AttentionPool, halve, k_max, masked_mean
from epigram.nn.layers.types import Tokens
from tests.parity.readings.baselines import (
    CHANCES,
    CONTEXT,
    IDS,
    LENGTHS,
    VOCABULARY,
    WIDTH,
    array,
    bucket,
    channels,
    direction,
    filters,
    step_reading,
)
from tests.parity.reference import baselines as paper
from tests.parity.reference.batches import assert_rows, padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import layer_norm, linear
from tests.parity.reference.lstm import bilstm
from tests.support.whole_baselines import encoder1_encoder2


@pytest.mark.parametrize("orders", [[2, 3], [2], [3]])
def test_fast_text_averages_words_and_ngrams(orders: list[int]) -> None:
    encoder = scattered(FastTextConfig(width=WIDTH, orders=orders, buckets=20).build(CONTEXT))
    with torch.no_grad():
        encoder.ngrams.weight[20] = 0.0  # the row for positions without an n-gram
    words, ngrams = array(encoder.embedding.token.weight), array(encoder.ngrams.weight)
    tokens = padded_ids(IDS, pad_id=4)
    got = masked_mean(encoder(tokens).last, tokens.valid).detach().numpy()
    wanted = [paper.fast_text(ids, words, ngrams, lambda gram: bucket(list(gram), 20), orders) for ids in IDS]
    np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_fast_text_ngrams_end_with_their_text() -> None:
    found = ngram_buckets(padded_ids(IDS, pad_id=4), VOCABULARY, [2, 3], 50)
    counts = [[max(0, len(ids) - n + 1) for n in (2, 3)] for ids in IDS]
    assert (found < 50).sum(1).tolist() == counts and int(found.min()) >= 0


def test_fast_text_buckets_tell_ngrams_apart() -> None:
    pairs = torch.cartesian_prod(torch.arange(200), torch.arange(200))
    found = ngram_buckets(Tokens(pairs, torch.ones_like(pairs, dtype=torch.bool)), 200, [2], 10_000)[:, 0, 0]
    shares = found.bincount(minlength=10_000)  # 40,000 pairs: four per bucket on average
    assert shares.float().mean() == 4 and 3 < shares.float().var() < 5


def test_halving_goes_by_each_texts_length() -> None:
    rows = texts(LENGTHS, WIDTH)
    pooled, valid = halve(*channels(rows))
    assert valid.sum(1).tolist() == [3, 1, 6, 4, 1]
    assert_rows(pooled.transpose(1, 2), [paper.halved(x) for x in rows], 1e-12)


def test_dpcnn() -> None:
    encoder = scattered(DpcnnConfig(embedding=6, filters=WIDTH, levels=3).build(CONTEXT))
    words = array(encoder.embedding.token.weight)
    blocks: list[Any] = [(filters(level.first), filters(level.second)) for level in encoder.levels]
    wanted = [paper.dpcnn(words[ids], filters(encoder.region), blocks) for ids in IDS]
    got = encoder(padded_ids(IDS, pad_id=4))
    assert got.tokens.valid.sum(1).tolist() == [len(x) for x in wanted] == [2, 1, 3, 2, 1]
    assert_rows(got.last, wanted, 1e-9)


def test_batch_norm_of_valid_positions_only() -> None:
    norm, rows = scattered(MaskedBatchNorm(WIDTH)).train(), texts(LENGTHS, WIDTH)
    x, valid = channels(rows)
    out = norm(x, valid)
    assert_rows(out.transpose(1, 2), paper.batch_norm(rows, *pair(norm)), 1e-9)
    assert bool((out.transpose(1, 2)[~valid] == 0).all())
    everything = np.concatenate(rows)  # running statistics: momentum 0.1, unbiased variance
    np.testing.assert_allclose(array(norm.running_mean), 0.1 * everything.mean(0))
    np.testing.assert_allclose(array(norm.running_var), 0.9 + 0.1 * everything.var(0, ddof=1))


def test_batch_norm_of_a_single_position_takes_the_running_statistics() -> None:
    norm = MaskedBatchNorm(WIDTH).train()
    x = torch.randn(1, WIDTH, 1)
    torch.testing.assert_close(norm(x, torch.ones(1, 1, dtype=torch.bool)), x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_k_max_keeps_the_texts_order(k: int) -> None:
    rows = [np.maximum(x, 0) for x in texts(LENGTHS, WIDTH)]  # with ties at zero
    got = k_max(*channels(rows), k).transpose(1, 2).numpy()
    np.testing.assert_array_equal(got, [paper.k_max(x, k) for x in rows])


def test_attention_pooling() -> None:
    layer, rows = scattered(AttentionPool(width=WIDTH)), texts(LENGTHS, WIDTH)
    wanted = [paper.attention_pool(x, array(layer.query.weight)[0]) for x in rows]
    np.testing.assert_allclose(layer(*padded(rows)).detach().numpy(), wanted, atol=1e-12)


def test_att_blstm_from_ids_to_logits() -> None:
    encoder = scattered(BiLstmConfig(width=WIDTH, depth=2).build(CONTEXT))
    head = scattered(LinearConfig(pool="attention").build(CONTEXT, encoder), seed=1)
    wanted = []
    for ids in IDS:
        x = array(encoder.embedding.token.weight)[ids]
        for block in encoder.blocks:
            both, _, _ = bilstm(x, direction(block.ahead), direction(block.back))
            x = both[:, :WIDTH] + both[:, WIDTH:]  # Zhou et al. 2016, Eq. 8
        wanted.append(linear(paper.attention_pool(x, array(head.attention.query.weight)[0]), *pair(head.out)))
    got = head(encoder(padded_ids(IDS, pad_id=4))).logits
    np.testing.assert_allclose(got.detach().numpy(), wanted, atol=1e-9)


@pytest.mark.parametrize("mode", ["same", "attend"])
def test_encoder1_encoder2_from_ids_to_logits(mode: str) -> None:
    whole = encoder1_encoder2(WIDTH, mode)
    got = whole.model(whole.tokens, whole.labels)
    np.testing.assert_allclose(got.logits.detach().numpy(), whole.logits, atol=1e-6)  # attention is in float32
    assert got.loss.item() == pytest.approx(whole.loss, abs=1e-6)
    other = encoder1_encoder2(WIDTH, "attend" if mode == "same" else "same")
    assert np.abs(other.logits - whole.logits).max() > 1e-3


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
@pytest.mark.parametrize("steps", [1, 2, 6])
def test_universal_transformer(steps: int, epsilon: float) -> None:
    config = UniversalTransformerConfig(width=WIDTH, depth=6, heads=2, hidden=12, epsilon=epsilon, ponder=0.5)
    encoder = scattered(config.build(CONTEXT))
    table = encoder.embedding.token.weight
    while encoder.depth > steps:
        encoder.drop(-1)
    weight, bias = pair(encoder.halting.chance)
    readings = []
    for ids in IDS:
        x = layer_norm(array(table)[ids], *pair(encoder.embedding.norm))
        readings.append(
            paper.universal(
                x,
                lambda state: step_reading(encoder.blocks[0], state),
                lambda state: 1 / (1 + np.exp(-(state @ weight[0] + bias[0]))),
                steps,
                epsilon,
            )
        )
    got = encoder(padded_ids(IDS, pad_id=4))
    assert len(got.states) == 1 + steps
    assert_rows(got.last, [x for x, _ in readings], 1e-5)  # positions are float32
    assert got.cost.item() == pytest.approx(0.5 * np.mean([cost for _, cost in readings]), abs=1e-5)


def test_halting_by_hand() -> None:
    """The step sets the state to a number with a known halting probability; each token is a row of CHANCES."""
    layer = Halting(width=1, epsilon=0.01).double()
    with torch.no_grad():
        layer.chance.weight.fill_(1.0)
        layer.chance.bias.fill_(0.0)
    given = torch.tensor(CHANCES, dtype=torch.float64).logit()  # (L, N)
    valid = torch.ones(1, len(CHANCES), dtype=torch.bool)
    start = torch.zeros(1, len(CHANCES), 1, dtype=torch.float64)
    states, cost = layer(start, valid, lambda state, t: given[None, :, t - 1, None], 4)
    for token, chances in enumerate(CHANCES):
        n, remainder, shares = paper.halting(chances, 0.01)
        assert cost[0, token].item() == pytest.approx(n + remainder)
        assert sum(shares) == pytest.approx(1)
        wanted = sum(p * s for p, s in zip(shares, given[token].tolist(), strict=False))
        assert states[-1][0, token].item() == pytest.approx(wanted)
    assert [paper.halting(chances, 0.01)[0] for chances in CHANCES] == [3, 1, 4, 2]


def test_halting_stops_once_all_tokens_have_halted() -> None:
    layer, calls = Halting(width=1), []
    with torch.no_grad():
        layer.chance.bias.fill_(20.0)

    def step(state: torch.Tensor, t: int) -> torch.Tensor:
        calls.append(t)
        return state + 1

    states, _ = layer(torch.zeros(2, 3, 1), torch.tensor([[True, True, True], [True, False, False]]), step, 5)
    assert calls == [1] and len(states) == 5
    assert all(bool((state == states[0]).all()) for state in states)


def test_fewer_steps_are_what_a_shallower_model_gives() -> None:
    encoder = scattered(UniversalTransformerConfig(width=WIDTH, depth=4, heads=2, hidden=12).build(CONTEXT))
    tokens = padded_ids(IDS, pad_id=4)
    before = encoder(tokens).states
    encoder.drop(-1)
    assert encoder.depth == encoder.settings.depth == 3
    assert_rows(encoder(tokens).last, [array(x) for x in before[3]], 1e-12)
