"""LEAM and EXAM, with the region embedding, against their NumPy references."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epigram.nn.encoders.region import RegionConfig
from epigram.nn.heads.interaction import InteractionConfig
from tests.parity.readings.label_embedding import (
    CONTEXT,
    GOLD,
    IDS,
    LENGTHS,
    WIDTH,
    beta_reading,
    classified,
    encoded,
    encoder,
    exam,
    exam_reading,
    leam,
)
from tests.parity.reference import label_embedding as paper
from tests.parity.reference.batches import assert_rows, padded, padded_ids, scattered, texts
from tests.parity.reference.common import cross_entropy, softmax
from tests.parity.reference.weights import array
from tests.support.operators import Operators


@pytest.mark.parametrize("radius", [0, 2, 6])
def test_leam_eq4_to_7_attention(radius: int) -> None:
    head, rows = leam(radius), texts(LENGTHS, WIDTH)
    beta = head.attention(*padded(rows))
    assert_rows(beta, [beta_reading(head, row) for row in rows], 1e-6)  # the softmax is in float32
    assert not beta[~padded(rows)[1]].any()


def test_leam_eq5_is_no_convolution_of_a_row_for_each_class() -> None:
    with Operators() as operators:
        leam().attention(*padded(texts(LENGTHS, WIDTH)))
    assert "convolution" not in operators.largest, "slow with many classes"


def test_leam_eq8_to_10_answer_and_loss() -> None:
    head, rows = leam(), texts(LENGTHS, WIDTH)
    wanted = [classified(head, paper.attended(row, beta_reading(head, row))) for row in rows]
    got = head(encoded(rows), torch.tensor(GOLD))
    np.testing.assert_allclose(got.logits.detach().numpy(), np.stack(wanted), atol=1e-5)
    anchors = [classified(head, label) for label in array(head.labels)]
    assert float(got.loss.detach()) == pytest.approx(paper.leam_loss(wanted, GOLD, anchors, 0.7), abs=1e-5)


@pytest.mark.parametrize("length", [12, 30])
def test_exam_eq6_7_answer_and_loss(length: int) -> None:
    head, rows = exam(length), texts(LENGTHS, WIDTH)
    wanted = [exam_reading(head, row) for row in rows]
    got = head(encoded(rows), torch.tensor(GOLD))
    np.testing.assert_allclose(got.logits.detach().numpy(), np.stack(wanted), atol=1e-9)
    losses = [cross_entropy(softmax(o), y) for o, y in zip(wanted, GOLD, strict=True)]
    assert float(got.loss.detach()) == pytest.approx(np.mean(losses), abs=1e-5)


def test_exam_aggregation_is_twice_the_length_by_default() -> None:
    head = InteractionConfig().build(CONTEXT, encoder())
    assert tuple(head.first.weight.shape) == (24, 12)


@pytest.mark.parametrize("radius", [0, 1, 3])
def test_region_embedding(radius: int) -> None:
    part = scattered(RegionConfig(width=WIDTH, radius=radius).build(CONTEXT))
    vectors = array(part.embedding.token.weight)
    units = np.stack([array(unit.weight) for unit in part.units])
    out = part(padded_ids(IDS, pad_id=4))
    assert_rows(out.last, [paper.region(ids, vectors, units) for ids in IDS], 1e-9)
    assert not out.last[~out.tokens.valid].any()
