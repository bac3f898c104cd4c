"""Token classifiers on every layer of a trained encoder, for systems that are selected by their token labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core.arrays import Ragged
from epigram.models.batches import Rows, TextBatches
from epigram.models.predict import Predicted
from epigram.training.frozen.probe import fit_classifiers

BATCH = 256  # texts


def probe_tokens(model: Any, train: TextBatches, dev: TextBatches, *, tokens: int = 20_000) -> list[float]:
    """Fit a token classifier on each layer with about `tokens` labelled training tokens.

    Returns the token micro-F1 of each layer on dev. Raises ValueError if no training token has a label.
    """
    chosen = labelled_texts(train, tokens)
    if not len(chosen):
        raise ValueError("no training token has a label")
    parts = list(token_states(model, train, chosen))
    x, labels = torch.cat([states for states, _ in parts], 1), torch.cat([gold for _, gold in parts])
    mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True).clamp(min=1e-6)
    weight = fit_classifiers((x - mean) / std, labels, int(labels.max()) + 1)
    # dev is classified batch by batch, because the states of all its tokens may not fit into memory
    predicted, gold = [], []
    for states, known in token_states(model, dev, np.arange(len(dev))):
        predicted.append(torch.baddbmm(weight[:, -1:], (states - mean) / std, weight[:, :-1]))  # (N, T, S)
        gold.append(known)
    layers, truth = torch.cat(predicted, 1).numpy(), torch.cat(gold).numpy()
    return [Predicted(layer, None, tokens=layer).token_score(truth) for layer in layers]


def labelled_texts(texts: TextBatches, tokens: int) -> Rows:
    """Return evenly spaced texts with labelled tokens: all of them, or as many as have about `tokens` such tokens."""
    labels = texts.read_labels()
    if labels is None:
        return np.empty(0, np.int64)
    known: NDArray[np.int64] = Ragged.from_lengths((labels >= 0).astype(np.int64), texts.counts.cpu().numpy()).sums()
    rows = np.flatnonzero(known)
    count = min(len(rows), max(1, tokens * len(rows) // max(1, int(known.sum()))))
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)] if len(rows) else rows


@torch.inference_mode()
def token_states(model: Any, texts: TextBatches, rows: Rows) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the states (N, T, D) after each of N layers and the labels (T,) of the labelled tokens, batch by batch."""
    model.eval()
    order = rows[np.argsort(texts.lengths[rows], kind="stable")]
    for start in range(0, len(order), BATCH):
        encoded = model.encode(texts.gather(order[start : start + BATCH]))
        labels = encoded.tokens.labels
        known = labels >= 0  # (B, L)
        yield torch.stack([state[known].float() for state in encoded.states[1:]]).cpu(), labels[known].cpu()
