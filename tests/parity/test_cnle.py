"""CNLE against NumPy: every equation, the multi-class step, multi-label training, greedy and beam search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epigram.nn.layers.attention.co_attention import CoAttention
from epigram.nn.layers.recurrent.bilstm import BiLstm
from tests.parity.readings.cnle import (
    CLASSES,
    COUNTS,
    IDS,
    LABELS,
    LENGTHS,
    WIDTH,
    answer,
    bilstm_reading,
    decoder_of,
    fusion_reading,
    heads_of,
    indicators,
    model_of,
    parts,
    search_reading,
    story_reading,
)
from tests.parity.reference import cnle as paper
from tests.parity.reference.attention import scores
from tests.parity.reference.batches import assert_rows, padded, padded_ids, scattered, texts
from tests.parity.reference.common import cross_entropy, softmax


@pytest.mark.parametrize("lengths", [LENGTHS, [4, 4, 4]], ids=["padded", "even"])
def test_bilstm_states_and_last_state(lengths: list[int]) -> None:
    layer, rows = scattered(BiLstm(inputs=6, width=WIDTH, dropout=0.5)), texts(lengths, 6)
    read = [bilstm_reading(layer, row) for row in rows]
    for kind, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        states, last = layer.to(kind)(*padded(rows, kind))
        assert_rows(states, [row[0] for row in read], tolerance)
        for got, wanted in zip(last, [[row[1] for row in read], [row[2] for row in read]], strict=True):
            np.testing.assert_allclose(got.detach().double().numpy(), np.stack(wanted), atol=tolerance)


def test_co_attention() -> None:
    layer = scattered(CoAttention(width=WIDTH, heads=2, hidden=6, dropout=0.5))
    rows, labels = texts(LENGTHS, WIDTH), texts([4], WIDTH, seed=1)[0]
    x, valid = padded(rows)
    text_fused, labels_fused = layer(x, torch.from_numpy(labels).unsqueeze(0), valid[:, None, None])
    assert_rows(text_fused, [fusion_reading(layer.text, row, labels) for row in rows], 1e-9)
    assert_rows(labels_fused, [fusion_reading(layer.labels, labels, row) for row in rows], 1e-9)


def test_co_attention_weights_of_padded_texts() -> None:
    layer = scattered(CoAttention(width=WIDTH, heads=2, hidden=6, dropout=0.5))
    rows, labels = texts(LENGTHS, WIDTH), texts([4], WIDTH, seed=1)[0]
    x, valid = padded(rows)
    shared = torch.from_numpy(labels).unsqueeze(0)
    to_labels = layer.text.attention.attention_weights(x, shared).detach().numpy()
    to_text = layer.labels.attention.attention_weights(shared, x, valid[:, None, None]).detach().numpy()
    assert to_labels.shape == (5, 2, 9, 4) and to_text.shape == (5, 2, 4, 9)
    for row, ahead, back in zip(rows, to_labels, to_text, strict=True):
        for found, fusion, one, other in (
            (ahead[:, : len(row)], layer.text, row, labels),
            (back[..., : len(row)], layer.labels, labels, row),
        ):
            heads = heads_of(fusion)
            wanted = [softmax(scores(one @ q, other @ k)) for q, k in zip(heads.query, heads.key, strict=True)]
            np.testing.assert_allclose(found, np.stack(wanted), atol=1e-9)
        assert not back[..., len(row) :].any(), "padding has no weight"


def test_one_label_is_one_step() -> None:
    model, gold = model_of(), [0, 3, 1, 4, 2, 2]
    wanted = [paper.one_step(story_reading(model, ids), decoder_of(model)) for ids in IDS]
    got = answer(model, torch.tensor(gold))
    np.testing.assert_allclose(got.logits.softmax(-1).numpy(), np.stack(wanted), atol=1e-6)
    assert got.loss is not None
    assert float(got.loss) == pytest.approx(
        np.mean([cross_entropy(p, y) for p, y in zip(wanted, gold, strict=True)]), abs=1e-6
    )


def test_targets_go_from_the_most_frequent_label_to_eos() -> None:
    targets, counts = parts(model_of(multi=True))[1].targets(indicators(LABELS))
    for got, number, labels in zip(targets.tolist(), counts.tolist(), LABELS, strict=True):
        wanted = paper.sequence(labels, COUNTS)
        assert number == len(labels)
        assert got == wanted + [CLASSES] * (len(got) - len(wanted))


def test_shuffled_targets_hold_the_same_labels_in_every_order() -> None:
    head = parts(model_of(multi=True, order="shuffle"))[1].train()
    torch.manual_seed(0)
    drawn = [head.targets(indicators(LABELS))[0].tolist() for _ in range(60)]
    for draw in drawn:
        for got, labels in zip(draw, LABELS, strict=True):
            assert sorted(got[: len(labels)]) == labels and set(got[len(labels) :]) == {CLASSES}
    assert len({tuple(draw[0][:3]) for draw in drawn}) == 6
    assert head.eval().targets(indicators(LABELS))[0][0, :3].tolist() == [1, 3, 0]


def test_several_labels_loss() -> None:
    model = model_of(multi=True)
    losses = [
        paper.loss(paper.sequence(labels, COUNTS), story_reading(model, ids), decoder_of(model))
        for ids, labels in zip(IDS, LABELS, strict=True)
    ]
    loss = answer(model, indicators(LABELS)).loss
    assert loss is not None and float(loss) == pytest.approx(np.mean(losses), abs=1e-6)


@pytest.mark.parametrize("beam", [1, 2, 3])
@pytest.mark.parametrize("most", [None, 1, 3])
def test_several_labels_answer(beam: int, most: int | None) -> None:
    lengths = set()
    for seed in range(8):
        model = model_of(seed, multi=True, beam=beam, max_labels=most)
        got = answer(model).logits
        for row, ids in zip(got, IDS, strict=True):
            chosen, highest = search_reading(model, ids, beam, most or CLASSES)
            np.testing.assert_allclose(row.sigmoid().numpy(), paper.probabilities(chosen, highest), atol=2e-6)
            assert row.gt(0).nonzero().flatten().tolist() == sorted(chosen)
            lengths.add(len(chosen))
    assert lengths >= {0, most or CLASSES} and max(lengths) <= (most or CLASSES), "a poor sample"
    assert most == 1 or len(lengths) > 2, "a poor sample"


def test_a_beam_finds_what_greedy_misses() -> None:
    different = 0
    for seed in range(8):
        greedy, wide = model_of(seed, multi=True), model_of(seed, multi=True, beam=3)
        different += int((answer(greedy).logits.gt(0) != answer(wide).logits.gt(0)).any(1).sum())
    assert different >= 3


@pytest.mark.parametrize("beam", [1, 3])
def test_an_answer_does_not_depend_on_the_batch(beam: int) -> None:
    model = model_of(2, multi=True, beam=beam)
    together = answer(model).logits
    for ids, row in zip(IDS, together, strict=True):
        with torch.no_grad():
            torch.testing.assert_close(model(padded_ids([ids])).logits[0], row, atol=1e-6, rtol=0)


def test_the_encoders_own_bilstm_reads_the_labels_and_is_saved_once() -> None:
    encoder, head = parts(model_of())
    assert head.own is None and head.shared == (encoder.bilstm,)
    assert not any(name.startswith(("own", "shared")) for name in head.state_dict())
