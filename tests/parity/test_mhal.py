"""MHAL against NumPy: character encoder, word encoder, language models, heads and every loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from epigram.nn.layers.attention.attention_labeler import (
    AttentionLabeler,
    attention_loss,
    max_per_class,
    query_similarity,
)
from epigram.nn.layers.types import DataSpec
from tests.parity.readings.mhal import (
    LENGTHS,
    SAME_HEADS,
    TWO,
    TWO_HEADS,
    Masked,
    encoded,
    head_of,
    heads_of,
    labeler,
    token_labels,
)
from tests.parity.reference import mhal as paper
from tests.parity.reference.batches import assert_rows, padded, texts
from tests.parity.reference.common import cross_entropy, softmax
from tests.parity.reference.weights import array
from tests.support.mhal import GOLD, SAME, WIDTH

RULES = [pytest.param(SAME, SAME_HEADS, id="H=S"), pytest.param(TWO, TWO_HEADS, id="S=2")]


@pytest.mark.parametrize("heads", [2, 3, 4])
def test_eq4_to_8_evidence_of_tokens_and_texts(heads: int) -> None:
    layer, rows = labeler(heads), texts(LENGTHS, WIDTH)
    got, read = layer(*padded(rows)), heads_of(layer)
    z = [paper.dense(row, read.join) for row in rows]  # Eq. 3
    assert z[0].shape[1] == -(-10 // heads) * heads
    np.testing.assert_allclose(array(got.queries), np.stack([paper.queries(x, read) for x in z]), atol=1e-9)
    assert_rows(got.tokens, [paper.evidence(x, read) for x in z], 1e-9)
    assert_rows(got.shares, [paper.shares(paper.evidence(x, read)) for x in z], 1e-9)
    np.testing.assert_allclose(array(got.texts), np.stack([paper.text_scores(x, read) for x in z]), atol=1e-9)


def test_eq6_where_no_token_gives_evidence_all_have_the_same_share() -> None:
    wide = AttentionLabeler(inputs=WIDTH, hidden=400, text_hidden=5, heads=2)
    with torch.no_grad():
        for part, bias in ((wide.query, 9.0), (wide.key, -9.0)):
            part.weight.zero_()
            part.bias.fill_(bias)  # a_ih = −200 for every token: σ(a_ih) is 0 in float32
    states, valid = padded(texts([1, 4], WIDTH), torch.float32)
    states[1, :4] = states[0, 0]  # one token, and the same token four times
    scores = wide(states, valid).texts
    assert scores.isfinite().all()
    torch.testing.assert_close(scores[0], scores[1])


def test_eq7_dropout_takes_normalized_attention_weights_and_no_token_score() -> None:
    layer, rows = labeler(), texts(LENGTHS, WIDTH)
    masks = 2.0 * np.random.default_rng(5).integers(0, 2, (len(rows), max(LENGTHS), 3))
    read, plain = heads_of(layer), layer(*padded(rows))
    layer.dropout = Masked(torch.from_numpy(masks))  # type: ignore[assignment]
    got = layer(*padded(rows))
    z = [paper.dense(row, read.join) for row in rows]
    wanted = [paper.text_scores(x, read, mask[: len(x)]) for x, mask in zip(z, masks, strict=True)]
    np.testing.assert_allclose(array(got.texts), np.stack(wanted), atol=1e-9)
    assert torch.equal(got.tokens, plain.tokens) and not torch.equal(got.texts, plain.texts)


def test_dropout_of_attention_weights_is_a_setting_of_the_head() -> None:
    rows = encoded(texts(LENGTHS, WIDTH))
    for rate, same in ((0.5, False), (0.0, True)):
        head = head_of(SAME, dropout=rate)
        assert head.labeler.dropout.p == rate
        assert torch.equal(head.train()(rows).logits, head.eval()(rows).logits) is same


@pytest.mark.parametrize(("context", "groups"), RULES)
def test_eq8_sentence_scores_by_the_heads_of_each_class(context: DataSpec, groups: list[list[int]]) -> None:
    head, rows = head_of(context), texts(LENGTHS, WIDTH)
    read, got = heads_of(head.labeler), head(encoded(rows))
    z = [paper.dense(row, read.join) for row in rows]
    wanted = [paper.sentence(paper.text_scores(x, read), groups) for x in z]
    np.testing.assert_allclose(got.logits.detach().numpy(), np.stack(wanted), atol=1e-5)
    assert_rows(got.tokens.softmax(-1), [softmax(paper.evidence(x, read)) for x in z], 1e-5)


def test_two_heads_need_no_maximum() -> None:
    both = replace(TWO, token_labels=("O", "X"))
    named = replace(both, labels=("X", "O"))
    rows = encoded(texts(LENGTHS, WIDTH))
    torch.testing.assert_close(head_of(both)(rows).logits, head_of(named)(rows).logits)


@pytest.mark.parametrize(("context", "groups"), RULES)
@pytest.mark.parametrize("absolute", [False, True])
def test_eq9_to_12_are_summed_over_the_texts_and_eq13_is_averaged(
    context: DataSpec, groups: list[list[int]], absolute: bool
) -> None:
    weights = {"sentence_weight": 0.9, "token_weight": 0.7, "attention_weight": 0.5, "query_weight": 0.3}
    head, rows, gold = head_of(context, **weights, absolute=absolute), texts(LENGTHS, WIDTH), token_labels(context)
    read, total = heads_of(head.labeler), 0.0
    for row, label, labels in zip(rows, GOLD, gold, strict=True):
        z = paper.dense(row, read.join)
        a, o = paper.evidence(z, read), paper.sentence(paper.text_scores(z, read), groups)
        total += 0.9 * cross_entropy(softmax(o), label) + 0.7 * paper.token_loss(a, labels)
        total += 0.5 * paper.attention_loss(softmax(a), label, groups, 0.15)
        total += 0.3 * paper.likeness(paper.queries(z, read), absolute=absolute) / len(rows)
    loss = head(encoded(rows, gold), torch.tensor(GOLD)).loss
    assert loss is not None and float(loss.detach()) == pytest.approx(total, abs=1e-4)


def test_eq10_has_nothing_to_say_of_texts_without_token_labels() -> None:
    head, rows = head_of(SAME, sentence_weight=0.0), texts(LENGTHS, WIDTH)
    unlabelled = [[-1] * length for length in LENGTHS]
    for batch in (encoded(rows), encoded(rows, unlabelled)):
        assert float(head(batch, torch.tensor(GOLD)).loss.detach()) == 0.0


def test_eq11_is_zero_for_a_sure_token_of_each_wanted_kind() -> None:
    groups = torch.tensor([[False, True, True], [True, False, False]])
    smooth = 1 - 0.15 + 0.15 / 2
    p = torch.tensor([[[1.0, 0.0, 0.0], [1 - smooth, 0.0, smooth], [0.4, 0.3, 0.3]]])
    valid = torch.ones(1, 3, dtype=torch.bool)
    assert float(attention_loss(p, valid, torch.tensor([0]), groups, 0.15, 2)) == pytest.approx(0.0, abs=1e-12)
    plain = attention_loss(p, valid, torch.tensor([1]), groups, 0.15, 2)
    assert float(plain) == pytest.approx((1 - smooth) ** 2, abs=1e-7)


@pytest.mark.parametrize(
    ("over", "target", "marked", "plain"),
    [
        # two classes, four heads: q'_k is 0.85 + 0.15 / 2 = 0.925, or 0.85 + 0.15 / 4 = 0.8875
        ("classes", "one", (0.5 - 0.925) ** 2 + (0.3 - 1) ** 2, (0.3 - 0.925) ** 2 + (0.3 - 1) ** 2),
        ("token_labels", "one", (0.5 - 0.8875) ** 2 + (0.3 - 1) ** 2, (0.3 - 0.8875) ** 2 + (0.3 - 1) ** 2),
        # q'_d of a marked text is ε/K, and of a plain text q'_k
        ("classes", "smoothed", (0.5 - 0.925) ** 2 + (0.3 - 0.075) ** 2, 2 * (0.3 - 0.925) ** 2),
        ("token_labels", "smoothed", (0.5 - 0.8875) ** 2 + (0.3 - 0.0375) ** 2, 2 * (0.3 - 0.8875) ** 2),
    ],
)
def test_eq11_options(over: str, target: str, marked: float, plain: float) -> None:
    """The classes of TWO are "marked" and "plain"; the highest probability of O is 0.3, that of the other heads 0.5."""
    head = head_of(TWO, smoothing_over=over, default_target=target)
    p = torch.tensor([[[0.3, 0.5, 0.1, 0.1], [0.2, 0.3, 0.4, 0.1]]]).repeat(2, 1, 1)
    loss = head.attention_loss(p, torch.ones(2, 2, dtype=torch.bool), torch.tensor([0, 1]))
    torch.testing.assert_close(loss, torch.tensor([marked, plain]))


@pytest.mark.parametrize(("context", "groups"), RULES)
@pytest.mark.parametrize("over", ["classes", "token_labels"])
@pytest.mark.parametrize("target", ["one", "smoothed"])
def test_eq11_options_in_the_whole_loss(context: DataSpec, groups: list[list[int]], over: str, target: str) -> None:
    weights = {"sentence_weight": 0.0, "token_weight": 0.0, "attention_weight": 1.0}
    head = head_of(context, **weights, smoothing=0.4, smoothing_over=over, default_target=target)
    rows, read, total = texts(LENGTHS, WIDTH), heads_of(head.labeler), 0.0
    outcomes = len(context.labels if over == "classes" else context.token_labels)
    for row, label in zip(rows, GOLD, strict=True):
        t = softmax(paper.evidence(paper.dense(row, read.join), read))
        total += paper.attention_loss(t, label, groups, 0.4, outcomes, target == "smoothed")
    loss = head(encoded(rows), torch.tensor(GOLD)).loss
    assert loss is not None and float(loss.detach()) == pytest.approx(total, abs=1e-6)


def test_eq12_of_one_head_a_class_is_that_head() -> None:
    scores = torch.randn(4, 3)
    groups = torch.eye(3, dtype=torch.bool)[[1, 2, 0]]
    assert torch.equal(max_per_class(scores, groups), scores[:, [1, 2, 0]])


def test_eq13_at_its_limits() -> None:
    one = torch.tensor([[[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]])
    opposite = torch.tensor([[[1.0, 2.0], [-1.0, -2.0]]])
    crossed = torch.eye(3).unsqueeze(0)
    for queries, wanted in ((one, 1.0), (opposite, -1.0), (crossed, 0.0)):
        assert float(query_similarity(queries, absolute=False)) == pytest.approx(wanted, abs=1e-6)
        assert float(query_similarity(queries, absolute=True)) == pytest.approx(abs(wanted), abs=1e-6)
