"""Complete models of the comparison systems, with logits and loss by a float64 NumPy reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tests.parity.readings import baselines
from tests.parity.readings import label_embedding as label_readings
from tests.parity.reference import baselines as baseline_paper
from tests.parity.reference import label_embedding as label_paper
from tests.parity.reference.batches import padded_ids, pair
from tests.parity.reference.common import Array, layer_norm, linear, relu
from tests.parity.reference.lstm import bilstm
from tests.parity.reference.weights import array
from tests.support.whole_layers import IDS, LABELS, VOCABULARY, Whole, built, mean_loss, out, words

# Baselines


def plain(model: Any, vectors: Sequence[Array]) -> Whole:
    """Return a baseline whose linear head reads one vector per text."""
    logits = np.stack([out(model, row) for row in vectors])
    return Whole(model, padded_ids(IDS, pad_id=5), torch.tensor(LABELS), logits, mean_loss(logits))


def fast_text(width: int) -> Whole:
    model: Any = built({"kind": "fast_text", "width": width, "buckets": 20}, {"kind": "linear", "pool": "mean"})
    with torch.no_grad():
        model.encoder.ngrams.weight[20] = 0.0  # the row for positions without an n-gram
    ngrams, orders = array(model.encoder.ngrams.weight), [2, 3]

    def bucket(gram: Sequence[int]) -> int:
        return baselines.bucket(list(gram), 20)

    table = array(model.encoder.embedding.token.weight)
    return plain(model, [baseline_paper.fast_text(ids, table, ngrams, bucket, orders) for ids in IDS])


def dpcnn(width: int) -> Whole:
    model: Any = built(
        {"kind": "dpcnn", "embedding": width, "filters": width, "levels": 3}, {"kind": "linear", "pool": "max"}
    )
    encoder = model.encoder
    levels: list[Any] = [(baselines.filters(level.first), baselines.filters(level.second)) for level in encoder.levels]
    read = [baseline_paper.dpcnn(words(model, ids), baselines.filters(encoder.region), levels) for ids in IDS]
    return plain(model, [x.max(axis=0) for x in read])


def windows(x: Array, size: int, weight: Array, bias: Array) -> Array:
    """Kim 2014, Eq. 2: ReLU(w · x_{i:i+size} + b), zero padding; even windows extend one further to the right."""
    before = (size - 1) // 2
    wide = np.pad(x, ((before, size - 1 - before), (0, 0)))
    return relu(np.stack([weight @ wide[i : i + size].ravel() + bias for i in range(len(x))]))


def textcnn(width: int) -> Whole:
    model: Any = built({"kind": "convolution", "embedding": width, "filters": width}, {"kind": "linear", "pool": "max"})
    layers = [(layer.size, *pair(layer.product)) for layer in model.encoder.convolutions]
    read = [np.concatenate([windows(words(model, ids), *each).max(axis=0) for each in layers]) for ids in IDS]
    return plain(model, read)


def encoder1_encoder2(width: int, mode: str = "attend") -> Whole:
    sizes = {"embedding": width, "filters": width, "sizes": [2, 3], "mode": mode}
    model: Any = built({"kind": "global_local", **sizes}, {"kind": "linear", "pool": "max"})
    encoder = model.encoder
    whole, local = (
        [(layer.size, *pair(layer.product)) for layer in layers] for layers in (encoder.whole, encoder.local)
    )
    extra, (weight, bias) = [array(layer.weight) for layer in encoder.extra], pair(encoder.narrow)
    query, key = (array(each.weight) if mode == "attend" else None for each in (encoder.query, encoder.key))
    read = []
    for ids in IDS:
        x = words(model, ids)
        h = np.concatenate([windows(x, *each) for each in whole], axis=1)
        read.append(
            np.concatenate(
                [
                    baseline_paper.global_windows(x, h, *each, more, weight, bias, query, key).max(axis=0)
                    for each, more in zip(local, extra, strict=True)
                ]
            )
        )
    return plain(model, read)


def att_blstm(width: int) -> Whole:
    model: Any = built({"kind": "bilstm", "width": width}, {"kind": "linear", "pool": "attention"})
    read = []
    for ids in IDS:
        x = words(model, ids)
        for layer in model.encoder.blocks:
            both, _, _ = bilstm(x, baselines.direction(layer.ahead), baselines.direction(layer.back))
            x = both[:, :width] + both[:, width:]
        read.append(baseline_paper.attention_pool(x, array(model.head.attention.query.weight)[0]))
    return plain(model, read)


def vdcnn(width: int) -> Whole:
    """Set the running statistics to those of the batch, so that eval mode and training mode agree."""
    sizes = {"embedding": width, "filters": [width] * 4, "k": 2, "hidden": width, "dropout": 0.0}
    model: Any = built({"kind": "vdcnn", **sizes}, {"kind": "linear", "pool": "first"}, gain=1.5)
    encoder = model.encoder
    rows = [baseline_paper.convolution(words(model, ids), *baselines.filters(encoder.first)) for ids in IDS]
    for number, group in enumerate(encoder.groups):
        rows = [baseline_paper.halved(x) for x in rows] if number else rows
        for convolution, norm in zip(group[0].convolutions, group[0].norms, strict=True):
            weight = array(convolution.product.weight).reshape(width, 3, width).transpose(0, 2, 1)
            rows = [baseline_paper.convolution(x, weight, np.zeros(width)) for x in rows]
            everything = np.concatenate(rows)
            norm.running_mean[:] = torch.from_numpy(everything.mean(axis=0))
            norm.running_var[:] = torch.from_numpy(everything.var(axis=0))
            rows = [relu(x) for x in baseline_paper.batch_norm(rows, *pair(norm))]
    hidden = [pair(encoder.hidden[0]), pair(encoder.hidden[3])]
    read = [baseline_paper.k_max(x, 2).T.ravel() for x in rows]
    for layer in hidden:
        read = [relu(linear(x, *layer)) for x in read]
    return plain(model, read)


def universal_transformer(width: int) -> Whole:
    sizes = {"width": width, "hidden": width, "depth": 4, "heads": 2, "dropout": 0.0, "ponder": 0.5}
    model: Any = built({"kind": "universal_transformer", **sizes}, {"kind": "linear"})
    encoder = model.encoder
    chance, bias = pair(encoder.halting.chance)
    read = [
        baseline_paper.universal(
            layer_norm(words(model, ids), *pair(encoder.embedding.norm)),
            lambda state: baselines.step_reading(encoder.blocks[0], state),
            lambda state: 1 / (1 + np.exp(-(state @ chance[0] + bias[0]))),
            4,
            0.01,
        )
        for ids in IDS
    ]
    whole = plain(model, [x.mean(axis=0) for x, _ in read])
    return replace(whole, loss=whole.loss + 0.5 * float(np.mean([cost for _, cost in read])))


def leam(width: int) -> Whole:
    head = {"kind": "label_attention", "radius": 2, "hidden": width, "anchor": 0.7}
    model: Any = built({"kind": "embedding", "width": width}, head)
    texts = [words(model, ids) for ids in IDS]
    betas = [label_readings.beta_reading(model.head, x) for x in texts]
    logits = [
        label_readings.classified(model.head, label_paper.attended(x, b)) for x, b in zip(texts, betas, strict=True)
    ]
    anchors = [label_readings.classified(model.head, label) for label in array(model.head.labels)]
    loss = label_paper.leam_loss(logits, LABELS, anchors, 0.7)
    return Whole(model, padded_ids(IDS, pad_id=5), torch.tensor(LABELS), np.stack(logits), loss)


def exam(width: int) -> Whole:
    model: Any = built({"kind": "region", "width": width}, {"kind": "interaction", "hidden": 4 * width})
    table, units = words(model, range(VOCABULARY)), np.stack([array(unit.weight) for unit in model.encoder.units])
    logits = np.stack([label_readings.exam_reading(model.head, label_paper.region(ids, table, units)) for ids in IDS])
    return Whole(model, padded_ids(IDS, pad_id=5), torch.tensor(LABELS), logits, mean_loss(logits))
