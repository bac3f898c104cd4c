"""CNLE against NumPy: every equation, the multi-class step, multi-label training, greedy and beam search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from epigram.models.classifier import Classifier
from epigram.nn.encoders.projected_bilstm import ProjectedBiLstmConfig, ProjectedBiLstmEncoder
from epigram.nn.heads.label_decoder import LabelDecoderConfig, LabelDecoderHead
from epigram.nn.layers.bilstm import BiLstm
from epigram.nn.layers.co_attention import CoAttention, Fusion
from epigram.nn.layers.types import DataSpec, Prediction
from tests.parity.reference import cnle as paper
from tests.parity.reference.attention import scores
from tests.parity.reference.batches import assert_rows, padded, padded_ids, pair, scattered, texts
from tests.parity.reference.common import Array, cross_entropy, linear, softmax
from tests.parity.reference.lstm import bilstm
from tests.parity.reference.weights import array, lstm_of

WIDTH, CLASSES = 8, 5
LENGTHS = [5, 1, 9, 5, 3]
COUNTS = [7, 30, 2, 30, 11]
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 1, 6], [2, 2], [5, 9, 1, 1, 10]]
LABELS = [[0, 1, 3], [], [4], [2, 3], [0, 1, 2, 3, 4], [1]]


def bilstm_reading(layer: BiLstm, x: Array) -> tuple[Array, Array, Array]:
    return bilstm(x, lstm_of(layer.ahead), lstm_of(layer.back))


@pytest.mark.parametrize("lengths", [LENGTHS, [4, 4, 4]], ids=["padded", "even"])
def test_bilstm_states_and_last_state(lengths: list[int]) -> None:
    layer, rows = scattered(BiLstm(inputs=6, width=WIDTH, dropout=0.5)), texts(lengths, 6)
    read = [bilstm_reading(layer, row) for row in rows]
    for kind, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        states, last = layer.to(kind)(*padded(rows, kind))
        assert_rows(states, [row[0] for row in read], tolerance)
        for got, wanted in zip(last, [[row[1] for row in read], [row[2] for row in read]], strict=True):
            np.testing.assert_allclose(got.detach().double().numpy(), np.stack(wanted), atol=tolerance)


def heads_of(fusion: Fusion) -> paper.Heads:
    attention = fusion.attention
    key, value = np.split(array(attention.key_value.weight).T, 2, axis=1)  # (d, d) each
    query = array(attention.query.weight).T
    q, k, v = (np.split(weight, attention.heads, axis=1) for weight in (query, key, value))
    return paper.Heads(q, k, v, array(attention.out.weight).T)


def fusion_reading(fusion: Fusion, x: Array, other: Array) -> Array:
    attended = paper.multi_head(x, other, heads_of(fusion))
    return paper.fuse(attended, x, [pair(fusion.hidden[0]), pair(fusion.hidden[-1])], pair(fusion.norm))


def test_co_attention() -> None:
    layer = scattered(CoAttention(width=WIDTH, heads=2, hidden=6, dropout=0.5))
    rows, labels = texts(LENGTHS, WIDTH), texts([4], WIDTH, seed=1)[0]
    x, valid = padded(rows)
    text_fused, labels_fused = layer(x, valid, torch.from_numpy(labels).unsqueeze(0))
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


def model_of(seed: int = 0, *, multi: bool = False, **head: Any) -> Classifier:
    context = DataSpec(
        vocabulary=13, classes=CLASSES, max_length=16, multi=multi, label_counts=torch.tensor(COUNTS) if multi else None
    )
    encoder = ProjectedBiLstmConfig(embedding=5, width=WIDTH).build(context)
    config = LabelDecoderConfig(embedding=7, heads=2, hidden=6, **head)
    return scattered(Classifier(encoder, config.build(context, encoder), multi=multi), seed)


def parts(model: Classifier) -> tuple[ProjectedBiLstmEncoder, LabelDecoderHead]:
    assert isinstance(model.encoder, ProjectedBiLstmEncoder) and isinstance(model.head, LabelDecoderHead)
    return model.encoder, model.head


def story_reading(model: Classifier, ids: list[int]) -> paper.Story:
    """Return X_fin, Λ_fin and the decoder's first state for token ids; one BiLSTM reads both sequences."""
    encoder, head = parts(model)
    x, _, _ = bilstm_reading(encoder.bilstm, linear(array(encoder.embedding.token.weight)[ids], *pair(encoder.project)))
    projected = linear(array(head.embedding.weight), *pair(head.project))
    labels, _, _ = bilstm_reading(encoder.bilstm, projected)
    fused = fusion_reading(head.co_attention.text, x, labels), fusion_reading(head.co_attention.labels, labels, x)
    text_final, h, c = bilstm_reading(head.text_bilstm, fused[0])
    return paper.Story(text_final, bilstm_reading(head.label_bilstm, fused[1])[0], h, c, projected)


def decoder_of(model: Classifier) -> paper.Decoder:
    d = parts(model)[1].decoder
    return paper.Decoder(lstm_of(d.cell), array(d.attend.weight), array(d.combine.weight), array(d.classify.weight))


def answer(model: Classifier, labels: torch.Tensor | None = None) -> Prediction:
    with torch.no_grad():
        prediction: Prediction = model(padded_ids(IDS, pad_id=4), labels)
    return prediction


def test_one_label_is_one_step() -> None:
    model, gold = model_of(), [0, 3, 1, 4, 2, 2]
    wanted = [paper.one_step(story_reading(model, ids), decoder_of(model)) for ids in IDS]
    got = answer(model, torch.tensor(gold))
    np.testing.assert_allclose(got.logits.softmax(-1).numpy(), np.stack(wanted), atol=1e-6)
    assert got.loss is not None
    assert float(got.loss) == pytest.approx(
        np.mean([cross_entropy(p, y) for p, y in zip(wanted, gold, strict=True)]), abs=1e-6
    )


def indicators(labels: list[list[int]]) -> torch.Tensor:
    return torch.tensor([[int(c in row) for c in range(CLASSES)] for row in labels], dtype=torch.uint8)


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


def search_reading(model: Classifier, ids: list[int], beam: int, most: int) -> tuple[list[int], Array]:
    story, decoder = story_reading(model, ids), decoder_of(model)
    return paper.greedy(story, decoder, most) if beam == 1 else paper.beam(story, decoder, most, beam)


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
