"""Every method as a complete model of any width, with logits and loss computed by a float64 NumPy reference.

A `Whole` is a model in training mode without dropout, its input batch, and the expected output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from epigram.models.classifier import NeuralClassifier
from tests.parity.readings import cnle as cnle_readings
from tests.parity.readings import mhal as mhal_readings
from tests.parity.readings import mhal_encoder
from tests.parity.reference import cnle as cnle_paper
from tests.parity.reference import dmsp as dmsp_paper
from tests.parity.reference import mhal as mhal_paper
from tests.parity.reference import pta as pta_paper
from tests.parity.reference import transformer_f as paper
from tests.parity.reference.batches import padded_ids, pair
from tests.parity.reference.common import Array, cross_entropy, linear, softmax
from tests.support.mhal import GOLD, SAME
from tests.support.whole_baselines import (
    att_blstm,
    dpcnn,
    encoder1_encoder2,
    exam,
    fast_text,
    leam,
    textcnn,
    universal_transformer,
    vdcnn,
)
from tests.support.whole_layers import (
    CLASSES,
    CONTEXT,
    IDS,
    LABELS,
    MASK,
    PROMPT,
    Masks,
    Whole,
    built,
    mean_loss,
    out,
    states,
    words,
)


def transformer(width: int, **encoder: Any) -> NeuralClassifier:
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
    context = replace(CONTEXT, mask_id=None, prefix_ids=(), multi=True, label_shares=torch.tensor(counts) / 40)
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


def dmsp(width: int, order: str) -> NeuralClassifier:
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
    context, groups = SAME, mhal_readings.SAME_HEADS
    sizes = {"embedding": width, "width": width // 2, "character_embedding": 4, "character_width": 3, "spelling": 4}
    weights = {"sentence_weight": 0.9, "token_weight": 0.7, "attention_weight": 0.5, "query_weight": 0.3}
    model: Any = built(
        {"kind": "char_bilstm", **sizes, "lm_weight": 0.4, "lm_hidden": width, "lm_vocabulary": 8},
        {"kind": "attention_labeler", "hidden": width, "text_hidden": 5, **weights},
        context,
    )
    tokens, spellings = mhal_encoder.spelled_tokens()
    ids, gold = mhal_encoder.IDS, GOLD
    labels = [np.random.default_rng(row).integers(-1, 3, len(each)).tolist() for row, each in enumerate(ids)]
    wide = [row + [-1] * (tokens.ids.shape[1] - len(row)) for row in labels]
    read, found, total = mhal_readings.heads_of(model.head.labeler), [], 0.0
    for text, spelling, label, own in zip(ids, spellings, gold, labels, strict=True):
        z = mhal_paper.dense(mhal_encoder.states_reading(model.encoder, text, spelling), read.join)
        a, o = mhal_paper.evidence(z, read), mhal_paper.sentence(mhal_paper.text_scores(z, read), groups)
        total += 0.9 * cross_entropy(softmax(o), label) + 0.7 * mhal_paper.token_loss(a, own)
        total += 0.5 * mhal_paper.attention_loss(softmax(a), label, groups, 0.15)
        total += 0.3 * mhal_paper.likeness(mhal_paper.queries(z, read)) / len(ids)
        found.append(o)
    total += len(ids) * 0.4 * language_cost(model.encoder, ids, spellings)
    return Whole(model, replace(tokens, labels=torch.tensor(wide)), torch.tensor(gold), np.stack(found), total)


def language_cost(encoder: Any, ids: list[list[int]], spellings: list[list[list[int]]]) -> float:
    """Return the mean cross-entropy per prediction, half from the word model and half from the character model."""
    word_costs = [
        mhal_encoder.cost_reading(encoder.word_model, mhal_encoder.states_reading(encoder, text, spelling), text)
        for text, spelling in zip(ids, spellings, strict=True)
    ]
    spelled = [word for spelling in spellings for word in spelling]
    characters = sum(mhal_encoder.character_cost(encoder, word) for word in spelled) / (2 * sum(map(len, spelled)))
    return (sum(word_costs) / (2 * sum(map(len, ids))) + characters) / 2


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
    "encoder1_encoder2": encoder1_encoder2,
}
