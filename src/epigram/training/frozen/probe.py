"""Base classifiers on every layer of a trained encoder, whose accuracies α the depth controller reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import Precision
from epigram.models.predict import Array, predict
from epigram.nn.heads.layer_ensemble import LayerEnsembleHead
from epigram.nn.layers.loss import classification_loss
from epigram.nn.layers.pooling import masked_mean


@torch.inference_mode()
def layer_means(model: Any, texts: TextBatches, rows: Rows) -> Tensor:
    """Return the mean state of the valid tokens after each of N layers for M texts (`rows`): (N, M, D), on the CPU."""
    model.eval()
    order = rows[np.argsort(texts.lengths[rows], kind="stable")]
    out = None
    for start in range(0, len(order), 256):
        batch = order[start : start + 256]
        encoded = model.encode(texts.gather(batch))
        means = torch.stack([masked_mean(state.float(), encoded.tokens.valid) for state in encoded.states[1:]]).cpu()
        if out is None:
            out = means.new_empty(len(means), len(rows), means.shape[-1])
        out[:, torch.from_numpy(np.searchsorted(rows, batch))] = means
    assert out is not None
    return out


def fit_classifiers(features: Tensor, labels: Tensor, classes: int, *, decay: float = 1e-3) -> Tensor:
    """Fit a logistic classifier per layer on standardised `features` (N, M, D); return weights (N, D + 1, C).

    L-BFGS fits all layers at once. Their losses are summed, so each layer reaches its own optimum. The classifiers of
    several labels per text are independent of each other.
    """
    layers, _, width = features.shape
    terms = classes if labels.dim() > 1 else 1  # the loss of several labels is a mean over the classes too
    weight = torch.zeros(layers, width + 1, classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = torch.baddbmm(weight[:, -1:], features, weight[:, :-1])  # (N, M, C)
        loss = sum((classification_loss(part, labels) for part in logits), start=logits.new_zeros(()))
        loss = terms * loss + decay * weight[:, :-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach()


def probe(model: Any, train: TextBatches, dev: TextBatches, classes: int, *, rows: int = 10_000) -> Array:
    """Fit a base classifier on each of N layers; return its logits for the M texts of `dev`, (N, M, C).

    The classifiers learn from at most `rows` evenly spaced texts of `train`.
    """
    chosen = np.unique(np.linspace(0, len(train) - 1, min(rows, len(train))).astype(np.int64))
    x, heldout = layer_means(model, train, chosen), layer_means(model, dev, np.arange(len(dev)))
    mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True).clamp(min=1e-6)
    weight = fit_classifiers((x - mean) / std, train.targets(chosen).cpu(), classes)
    return np.asarray(torch.baddbmm(weight[:, -1:], (heldout - mean) / std, weight[:, :-1]).numpy())


def layer_votes(model: Any, train: TextBatches, dev: TextBatches, classes: int, precision: Precision = "auto") -> Array:
    """Return the logits (N, M, C) of a classifier on each of N layers for the M texts of `dev`.

    The head's own base classifiers are used if it has one per layer; otherwise classifiers are fitted on the layers.
    """
    if not isinstance(model.head, LayerEnsembleHead) or model.head.config.mode == "last":
        return probe(model, train, dev, classes)
    parts = predict(model, dev, precision=precision).parts
    assert parts is not None
    return parts[-model.depth :]  # without the classifier on the embeddings, if there is one
