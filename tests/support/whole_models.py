"""Every method as a complete model of any width, with logits and loss computed by a float64 NumPy reference.

A `Whole` is a model in training mode without dropout, its input batch, and the expected output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from epigram.models.classifier import Classifier
from epigram.models.recipe import ENCODERS, HEADS, parse_part
from epigram.nn.layers.correlation import CorrelationAttention
from epigram.nn.layers.types import DataSpec, Tokens
from tests.parity import test_baselines as baselines
from tests.parity import test_cnle as cnle_readings
from tests.parity import test_label_embedding as label_readings
from tests.parity import test_mhal as mhal_readings
from tests.parity.reference import baselines as baseline_paper
from tests.parity.reference import cnle as cnle_paper
from tests.parity.reference import dmsp as dmsp_paper
from tests.parity.reference import head_to_head as hth_paper
from tests.parity.reference import label_embedding as label_paper
from tests.parity.reference import mhal as mhal_paper
from tests.parity.reference import pta as pta_paper
from tests.parity.reference import transformer_f as paper
from tests.parity.reference.attention import scores, weighted
from tests.parity.reference.batches import Module, padded_ids, pair, scattered
from tests.parity.reference.common import Array, cross_entropy, layer_norm, linear, relu, softmax
from tests.parity.reference.weights import array

VOCABULARY, CLASSES, MASK = 13, 3, 4
IDS = [[3, 4, 5, 3, 9], [7], [11, 2, 2, 8, 6, 5, 1, 10, 4, 3, 7, 12], [12, 12, 6]]
LABELS = [0, 2, 1, 1]
PROMPT = [1, 9, MASK, 8, MASK]
POS = np.where(np.arange(VOCABULARY) % 3 == 0, 0.25, 1.0)  # part-of-speech weight of each vocabulary entry
CONTEXT = DataSpec(
    vocabulary=VOCABULARY,
    classes=CLASSES,
    max_length=20,
    mask_id=MASK,
    prefix_ids=tuple(PROMPT),
    pos_weight=torch.from_numpy(POS).float(),
)
Masks = Sequence[Array]  # dropout masks of attention weights, (H, L, L) for each layer
Keys = Callable[[int], Array]  # sort keys (B, L) of a semantic perceptron's layer, counted from 0


@dataclass(frozen=True)
class Whole:
    """Model with its input batch and the expected `logits` (B, C) and `loss`.

    With `normalized`, the expected logits are log-probabilities; the model's logits may differ by a constant per
    text.
    """

    model: Classifier
    tokens: Tokens
    labels: Tensor
    logits: Array
    loss: float
    normalized: bool = False

    def answered(self, logits: Tensor) -> Array:
        """Return the model's `logits` (B, C) in the form that is compared."""
        found = logits.detach().double()
        return (found.log_softmax(-1) if self.normalized else found).numpy()


def mean_loss(logits: Array) -> float:
    """Return the mean cross-entropy for LABELS."""
    return float(np.mean([cross_entropy(softmax(row), y) for row, y in zip(logits, LABELS, strict=True)]))


def built(encoder: dict[str, Any], head: dict[str, Any], context: DataSpec = CONTEXT, gain: float = 1.2) -> Classifier:
    """Return a float64 model without dropout whose sums have the same spread at every width."""
    made = parse_part(ENCODERS, encoder, "encoder").build(context)
    model = Classifier(made, parse_part(HEADS, head, "head").build(context, made))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):  # the rate of an attention layer
            module.dropout = 0.0  # type: ignore[assignment]
    return spread(scattered(model), gain).train()


def spread(model: Module, gain: float = 1.2) -> Module:
    """Scale weights by 1/√inputs, so that sums are about `gain` at every width; keep vectors near 1, biases small."""
    kept = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding | nn.LayerNorm)}
    for parameter in model.parameters():
        if parameter.requires_grad:  # initialized with a standard deviation of 0.4
            size = 1.0 if id(parameter) in kept else 0.2 if parameter.dim() < 2 else gain / parameter.shape[-1] ** 0.5
            parameter.data *= size / 0.4
    return model


def words(model: Any, ids: Sequence[int]) -> Array:
    """Return the token vectors (L, D)."""
    return array(model.encoder.embedding.token.weight)[list(ids)]


def out(model: Any, row: Array) -> Array:
    """Return the linear head's logits (C,) for a text vector."""
    return linear(row, *pair(model.head.out))


# Transformers


def mixed(layer: Any, x: Array, weight: Array, masks: Array | None = None) -> Array:
    """Return an attention's output (L, D) for `x` with token weights `weight`; `masks` are its dropout masks."""
    kept = np.ones((getattr(layer, "heads", 1), len(x), len(x))) if masks is None else masks
    if isinstance(layer, CorrelationAttention):
        spread = paper.attention(x, weight, layer.placement, layer.row_norm, layer.temperature.item())
        return linear((spread * kept[0]) @ linear(x, *pair(layer.value)), *pair(layer.out))
    q, k, v = np.split(linear(x, *pair(layer.qkv)), 3, axis=1)
    return linear(context_of(layer, q, k, v, weight, kept), *pair(layer.out))


def context_of(layer: Any, q: Array, k: Array, v: Array, weight: Array, kept: Array) -> Array:
    """Return the concatenated heads (L, D) of a dot-product attention, with its head-to-head attention if any."""
    gate = layer.head_to_head
    q, k, v = (np.split(each, layer.heads, axis=1) for each in (q, k, v))
    raw = [scores(*each) for each in zip(q, k, strict=True)]
    if gate is not None and gate.site == "scores":
        raw = [f * u for f, u in zip(factors(gate, raw), raw, strict=True)]
    shares = [weighted(u, weight, layer.placement) * mask for u, mask in zip(raw, kept, strict=True)]
    context = [share @ each for share, each in zip(shares, v, strict=True)]
    if gate is not None and gate.site == "context":
        context = [f * c for f, c in zip(factors(gate, context), context, strict=True)]
    return np.concatenate(context, axis=1)


def factors(gate: Any, features: Sequence[Array]) -> Array:
    """Return the factor of each head (H,) by head-to-head attention."""
    strength = None if gate.strength is None else gate.strength.item()
    return hth_paper.factors(hth_paper.squeezed(features), pair(gate.first), pair(gate.second), strength)


def block(layer: Any, x: Array, weight: Array, masks: Array | None = None) -> Array:
    """Return the output of one post-LN Transformer layer."""
    feed = [pair(layer.hidden[0]), pair(layer.hidden[-1])]
    return paper.block(
        x, mixed(layer.attention, x, weight, masks), [pair(layer.norm_attention), pair(layer.norm_hidden)], feed
    )


def states(model: Any, ids: Sequence[int], masks: Masks | None = None) -> list[Array]:
    """Return the embeddings with learned positions, then each block's output."""
    encoder = model.encoder
    weight = np.ones(len(ids)) if encoder.pos_weight is None else POS[list(ids)]
    found = [words(model, ids) + array(encoder.embedding.position.weight)[: len(ids)]]
    for number, layer in enumerate(encoder.blocks):
        found.append(block(layer, found[-1], weight, None if masks is None else masks[number]))
    return found


def transformer(width: int, **encoder: Any) -> Classifier:
    """Return a Transformer of three layers with a linear head and hook fusion of the layers."""
    sizes = {"kind": "transformer", "width": width, "hidden": width, "depth": 3, "heads": 1, "embedding_norm": False}
    head = {"kind": "linear", "fusion": "hook"}
    return built({**sizes, "dropout": 0.0, **encoder}, head)


def transformer_logits(model: Any, masks: Sequence[Masks] | None = None) -> Array:
    """Return the logits (B, C) for IDS; `masks` are the attention dropout masks of each text."""
    every = [None] * len(IDS) if masks is None else masks
    read = [states(model, ids, mask) for ids, mask in zip(IDS, every, strict=True)]
    return np.stack([out(model, paper.fusion(row[1:]).mean(axis=0)) for row in read])


def transformer_whole(width: int, **encoder: Any) -> Whole:
    model = transformer(width, **encoder)
    logits = transformer_logits(model)
    return Whole(model, padded_ids(IDS, pad_id=5), torch.tensor(LABELS), logits, mean_loss(logits))


def prompted(width: int) -> Whole:
    """Return a Transformer with head-to-head attention whose head reads the two masks of a prompt."""
    sizes = {"width": width, "hidden": width, "depth": 2, "heads": 2, "embedding_norm": False, "dropout": 0.0}
    head = {"kind": "prompt", "gamma": 0.3, "fusion": "hook"}
    model: Any = built({"kind": "transformer", "head_to_head": "residual", **sizes}, head)
    both = []
    for text in IDS:
        fused = paper.fusion(states(model, [*PROMPT, *text])[1:])
        both.append([softmax(linear(fused[2], *pair(model.head.label)))])
        both[-1].append(softmax(linear(fused[4], *pair(model.head.complement))))
    logits = np.log(np.stack([pta_paper.inference(*each, 0.3) for each in both]))
    loss = np.mean([pta_paper.loss_many(*each, y, 0.3) for each, y in zip(both, LABELS, strict=True)])
    tokens = padded_ids([[*PROMPT, *text] for text in IDS], pad_id=MASK)
    return Whole(model, tokens, torch.tensor(LABELS), logits, float(loss), normalized=True)


# The other methods


def cnle(width: int) -> Whole:
    head = {"kind": "label_decoder", "embedding": width, "heads": 2, "hidden": width}
    context = replace(CONTEXT, mask_id=None, prefix_ids=())
    model = built({"kind": "projected_bilstm", "embedding": width, "width": width}, head, context, 1.8)
    decoder = cnle_readings.decoder_of(model)
    logits = np.log(np.stack([cnle_paper.one_step(cnle_readings.story_reading(model, ids), decoder) for ids in IDS]))
    return Whole(model, padded_ids(IDS, pad_id=5), torch.tensor(LABELS), logits, mean_loss(logits), normalized=True)


def cnle_multi(width: int) -> Whole:
    """Multi-label CNLE: the expected loss sums the decoder steps; predictions of the search are not compared."""
    counts, several = [7, 30, 2], [[0, 1], [], [2], [0, 1, 2]]
    context = replace(CONTEXT, mask_id=None, prefix_ids=(), multi=True, label_counts=torch.tensor(counts))
    head = {"kind": "label_decoder", "embedding": width, "heads": 2, "hidden": width}
    model = built({"kind": "projected_bilstm", "embedding": width, "width": width}, head, context, 1.8)
    model.multi = True
    decoder = cnle_readings.decoder_of(model)
    losses = [
        cnle_paper.loss(cnle_paper.sequence(labels, counts), cnle_readings.story_reading(model, ids), decoder)
        for ids, labels in zip(IDS, several, strict=True)
    ]
    labels = torch.tensor([[int(c in row) for c in range(CLASSES)] for row in several], dtype=torch.uint8)
    return Whole(model, padded_ids(IDS, pad_id=5), labels, np.zeros((0, CLASSES)), float(np.mean(losses)))


def dmsp(width: int, order: str) -> Classifier:
    """Return a model of three semantic perceptrons, each with its own classifier."""
    sizes = {"width": width, "hidden": width, "depth": 3, "dropout": 0.0, "order": order}
    head = {"kind": "layer_ensemble", "mode": "ensemble", "hidden": width}
    return built({"kind": "semantic_perceptron", **sizes}, head)


def dmsp_logits(model: Any, orders: Callable[[int, int], Sequence[int]] | None) -> tuple[Array, float]:
    """Return the vote (B, C) and the loss; `orders` maps layer and text, both counted from 0, to a token order."""
    parts = []
    for row, ids in enumerate(IDS):
        x0 = x = words(model, ids)
        said = []
        for number, layer in enumerate(model.encoder.blocks):
            moved = x0.mean(axis=0) if orders is None else dmsp_paper.transformed(x0, orders(number, row))
            x = dmsp_paper.perceptron(moved, x, dmsp_paper.mlp(x, pair(layer.mlp[0]), pair(layer.mlp[2])))
            base = model.head.classifiers[number]
            said.append(dmsp_paper.classifier(x, pair(base.token), pair(base.out)))
        parts.append(said)
    each = np.stack(parts, axis=1)  # (N, B, C)
    vote = dmsp_paper.ensemble(np.full(len(each), 1 / len(each)), softmax(each))
    return np.log(vote), dmsp_paper.loss(each, LABELS, "all")


def dmsp_whole(width: int) -> Whole:
    """Use the mean token instead of a random order."""
    model = dmsp(width, "expectation")
    logits, loss = dmsp_logits(model, None)
    return Whole(model, padded_ids(IDS, pad_id=5), torch.tensor(LABELS), logits, loss, normalized=True)


def mhal(width: int) -> Whole:
    """Return MHAL with all losses of the joint regime, including those of the language models."""
    context, groups = mhal_readings.SAME, mhal_readings.SAME_HEADS
    sizes = {"embedding": width, "width": width // 2, "character_embedding": 4, "character_width": 3, "spelling": 4}
    weights = {"sentence_weight": 0.9, "token_weight": 0.7, "attention_weight": 0.5, "query_weight": 0.3}
    model: Any = built(
        {"kind": "char_bilstm", **sizes, "lm_weight": 0.4, "lm_hidden": width, "lm_vocabulary": 8},
        {"kind": "attention_labeler", "hidden": width, "text_hidden": 5, **weights},
        context,
    )
    tokens, spellings = mhal_readings.spelled_tokens()
    ids, gold = mhal_readings.IDS, mhal_readings.GOLD
    labels = [np.random.default_rng(row).integers(-1, 3, len(each)).tolist() for row, each in enumerate(ids)]
    wide = [row + [-1] * (tokens.ids.shape[1] - len(row)) for row in labels]
    read, found, total = mhal_readings.heads_of(model.head.labeler), [], 0.0
    for text, spelling, label, own in zip(ids, spellings, gold, labels, strict=True):
        z = mhal_paper.dense(mhal_readings.states_reading(model.encoder, text, spelling), read.join)
        a, o = mhal_paper.evidence(z, read), mhal_paper.sentence(mhal_paper.text_scores(z, read), groups)
        total += 0.9 * cross_entropy(softmax(o), label) + 0.7 * mhal_paper.token_loss(a, own)
        total += 0.5 * mhal_paper.attention_loss(softmax(a), label, groups, 0.15)
        total += 0.3 * mhal_paper.likeness(mhal_paper.queries(z, read))
        found.append(o)
    total += len(ids) * 0.4 * language_cost(model.encoder, ids, spellings)
    return Whole(model, replace(tokens, labels=torch.tensor(wide)), torch.tensor(gold), np.stack(found), total)


def language_cost(encoder: Any, ids: list[list[int]], spellings: list[list[list[int]]]) -> float:
    """Return the mean cross-entropy per prediction, half from the word model and half from the character model."""
    word_costs = [
        mhal_readings.cost_reading(encoder.word_model, mhal_readings.states_reading(encoder, text, spelling), text)
        for text, spelling in zip(ids, spellings, strict=True)
    ]
    spelled = [word for spelling in spellings for word in spelling]
    characters = sum(mhal_readings.character_cost(encoder, word) for word in spelled) / (2 * sum(map(len, spelled)))
    return (sum(word_costs) / (2 * sum(map(len, ids))) + characters) / 2


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


def att_blstm(width: int) -> Whole:
    model: Any = built({"kind": "bilstm", "width": width}, {"kind": "linear", "pool": "attention"})
    read = []
    for ids in IDS:
        x = words(model, ids)
        for layer in model.encoder.blocks:
            both, _, _ = baselines.bilstm(x, baselines.direction(layer.ahead), baselines.direction(layer.back))
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


CORRELATION = {"attention": "correlation", "pos_weight": "after", "temperature": 0.2}
METHODS: dict[str, Callable[[int], Whole]] = {
    "transformer_f": lambda width: transformer_whole(width, **CORRELATION),
    "transformer_f without row norm": lambda width: transformer_whole(width, **CORRELATION, row_norm=False),
    "transformer": lambda width: transformer_whole(width, heads=2),
    "hth, paper's gate": lambda width: transformer_whole(width, heads=4, head_to_head="paper"),
    "hth, residual": lambda width: transformer_whole(width, heads=4, head_to_head="residual"),
    "hth on the context": lambda width: transformer_whole(width, heads=4, head_to_head="paper", site="context"),
    "hth with a prompt": prompted,
    "cnle": cnle,
    "cnle, several labels": cnle_multi,
    "dmsp": dmsp_whole,
    "mhal": mhal,
    "fast_text": fast_text,
    "dpcnn": dpcnn,
    "textcnn": textcnn,
    "vdcnn": vdcnn,
    "att_blstm": att_blstm,
    "universal_transformer": universal_transformer,
    "leam": leam,
    "exam": exam,
}
