"""Readings of a model's weights for test_cnle.py and other tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.projected_bilstm import ProjectedBiLstmConfig, ProjectedBiLstmEncoder
from epigram.nn.heads.label_decoder import LabelDecoderConfig, LabelDecoderHead
from epigram.nn.layers.attention.co_attention import Fusion
from epigram.nn.layers.recurrent.bilstm import BiLstm
from epigram.nn.layers.types import DataSpec, Prediction
from tests.parity.reference import cnle as paper
from tests.parity.reference.batches import padded_ids, pair, scattered
from tests.parity.reference.common import Array, linear
from tests.parity.reference.lstm import bilstm
from tests.parity.reference.weights import array, lstm_of

WIDTH, CLASSES = 8, 5
LENGTHS = [5, 1, 9, 5, 3]
COUNTS = [7, 30, 2, 30, 11]
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 1, 6], [2, 2], [5, 9, 1, 1, 10]]
LABELS = [[0, 1, 3], [], [4], [2, 3], [0, 1, 2, 3, 4], [1]]


def bilstm_reading(layer: BiLstm, x: Array) -> tuple[Array, Array, Array]:
    return bilstm(x, lstm_of(layer.ahead), lstm_of(layer.back))


def heads_of(fusion: Fusion) -> paper.Heads:
    attention = fusion.attention
    key, value = np.split(array(attention.key_value.weight).T, 2, axis=1)  # (d, d) each
    query = array(attention.query.weight).T
    q, k, v = (np.split(weight, attention.heads, axis=1) for weight in (query, key, value))
    return paper.Heads(q, k, v, array(attention.out.weight).T)


def fusion_reading(fusion: Fusion, x: Array, other: Array) -> Array:
    attended = paper.multi_head(x, other, heads_of(fusion))
    return paper.fuse(attended, x, [pair(fusion.hidden[0]), pair(fusion.hidden[-1])], pair(fusion.norm))


def model_of(seed: int = 0, *, multi: bool = False, **head: Any) -> NeuralClassifier:
    context = DataSpec(
        vocabulary=13,
        classes=CLASSES,
        max_length=16,
        multi=multi,
        label_shares=torch.tensor(COUNTS) / 40 if multi else None,
    )
    encoder = ProjectedBiLstmConfig(embedding=5, width=WIDTH).build(context)
    config = LabelDecoderConfig(embedding=7, heads=2, hidden=6, **head)
    return scattered(NeuralClassifier(encoder, config.build(context, encoder), multi=multi), seed)


def parts(model: NeuralClassifier) -> tuple[ProjectedBiLstmEncoder, LabelDecoderHead]:
    assert isinstance(model.encoder, ProjectedBiLstmEncoder) and isinstance(model.head, LabelDecoderHead)
    return model.encoder, model.head


def story_reading(model: NeuralClassifier, ids: list[int]) -> paper.Story:
    """Return X_fin, Λ_fin and the decoder's first state for token ids; one BiLSTM reads both sequences."""
    encoder, head = parts(model)
    x, _, _ = bilstm_reading(encoder.bilstm, linear(array(encoder.embedding.token.weight)[ids], *pair(encoder.project)))
    projected = linear(array(head.embedding.weight), *pair(head.project))
    labels, _, _ = bilstm_reading(encoder.bilstm, projected)
    fused = fusion_reading(head.co_attention.text, x, labels), fusion_reading(head.co_attention.labels, labels, x)
    text_final, h, c = bilstm_reading(head.text_bilstm, fused[0])
    return paper.Story(text_final, bilstm_reading(head.label_bilstm, fused[1])[0], h, c, projected)


def decoder_of(model: NeuralClassifier) -> paper.Decoder:
    d = parts(model)[1].decoder
    return paper.Decoder(lstm_of(d.cell), array(d.attend.weight), array(d.combine.weight), array(d.classify.weight))


def answer(model: NeuralClassifier, labels: torch.Tensor | None = None) -> Prediction:
    with torch.no_grad():
        prediction: Prediction = model(padded_ids(IDS, pad_id=4), labels)
    return prediction


def indicators(labels: list[list[int]]) -> torch.Tensor:
    return torch.tensor([[int(c in row) for c in range(CLASSES)] for row in labels], dtype=torch.uint8)


def search_reading(model: NeuralClassifier, ids: list[int], beam: int, most: int) -> tuple[list[int], Array]:
    story, decoder = story_reading(model, ids), decoder_of(model)
    return paper.greedy(story, decoder, most) if beam == 1 else paper.beam(story, decoder, most, beam)
