"""Predictions for many texts, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from epigram.core import deadline
from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.precision import Precision, matmul_precision
from epigram.models.side_by_side import side_by_side
from epigram.nn.layers.types import Prediction

BATCH_LIMITS = 64, 4_096  # maximum texts and tokens per batch, which fit a CPU's cache
GPU_BATCH_LIMITS = 256, 32_768
# On a CPU, fewer texts are read in smaller batches: one batch of 100 texts has twice as many tokens as the texts.
MIN_BATCH, BATCHES = 16, 8
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Predicted:
    """Predictions for N texts: `logits` (N, C), and `parts` (K, N, C) if the head has several classifiers.

    `multi`: a text may have several labels, and each logit is independent. `tokens` (T, S) are the probabilities of the
    texts' own tokens, one text after the other, if the head labels tokens. `counts` (N,) are the tokens read per text.
    """

    logits: Array
    parts: Array | None
    multi: bool = False
    tokens: Array | None = None
    counts: NDArray[np.int64] | None = None

    @property
    def probabilities(self) -> Array:
        """Softmax of the logits, or their sigmoid if a text may have several labels, (N, C)."""
        if self.multi:
            with np.errstate(over="ignore"):  # 1 / (1 + inf) is 0
                return np.asarray(1 / (1 + np.exp(-self.logits)))
        shifted = np.exp(self.logits - self.logits.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    def score(self, labels: NDArray[np.integer]) -> float:
        """Return the accuracy, or the micro-F1 at 0.5 if a text may have several labels."""
        return self._score(self.logits, labels)

    def token_score(self, labels: NDArray[np.integer] | None) -> float:
        """Return the micro-F1 of the token labels (T,) other than the default, which is 0.

        Raises ParameterError if the labels or the predictions of tokens are missing.
        """
        if self.tokens is None or labels is None:
            missing = "the data have none" if labels is None else "this system predicts none"
            raise ParameterError(f"params.yaml: train.stop_on needs token labels, and {missing}; set it to sentence")
        known = labels >= 0
        return micro_f1(self.tokens.argmax(1)[known], labels[known], 0)

    def text_f1(self, labels: NDArray[np.integer], plain_class: int) -> float:
        """Return the micro-F1 of the text labels (N,) other than `plain_class`."""
        return micro_f1(self.logits.argmax(1), labels, plain_class)

    def scores(self, labels: NDArray[np.integer]) -> list[float]:
        """Return the score of each part: α of the depth controller."""
        assert self.parts is not None
        return [self._score(part, labels) for part in self.parts]

    def loss(self, labels: NDArray[np.integer]) -> float:
        """Return the mean negative log-likelihood of `labels`: class indices (N,) or indicators (N, C)."""
        return float(self.losses(labels).mean())

    def losses(self, labels: NDArray[np.integer]) -> Array:
        """Return the negative log-likelihood of each of the `labels`, which are as for `loss`."""
        p = np.clip(self.probabilities, 1e-7, 1 - 1e-7)
        if self.multi:
            return np.asarray(-np.where(labels > 0, np.log(p), np.log1p(-p)))
        return np.asarray(-np.log(p[np.arange(len(labels)), labels]))

    def _score(self, logits: Array, labels: NDArray[np.integer]) -> float:
        if not self.multi:
            return float((logits.argmax(-1) == labels).mean())
        predicted, gold = logits > 0, labels > 0
        return float(2 * (predicted & gold).sum() / max(1, predicted.sum() + gold.sum()))


def micro_f1(predicted: NDArray[np.integer], gold: NDArray[np.integer], default: int) -> float:
    """Return the micro-F1 of the labels other than `default`: F1* of Pislar and Rei (2020)."""
    hits = ((predicted == gold) & (gold != default)).sum()
    return float(2 * hits / max(1, (predicted != default).sum() + (gold != default).sum()))


@dataclass(frozen=True)
class PredictedShare:
    """Predictions for some texts, in the order of the batches: the numbers of the texts, and arrays for each batch."""

    rows: list[NDArray[np.int64]]
    logits: list[Array]
    parts: list[Array]
    tokens: list[Array]


def predict(model: nn.Module, texts: TextBatches, *, precision: Precision = "auto") -> Predicted:
    """Run `model` over `texts`, longest first, and return the predictions in the order of the texts."""
    return join_shares(model, texts, predict_share(model, texts, precision=precision))


def predict_share(
    model: nn.Module, texts: TextBatches, *, precision: Precision = "auto", first: int = 0, step: int = 1
) -> list[PredictedShare]:
    """Run `model` over every batch of `texts`, longest first, whose number is `first` plus a multiple of `step`.

    Each of PyTorch's threads predicts a share of them, unless the model has `own_threads`.
    """
    if model.training:
        model.eval()
    batches = list(texts.in_order(*batch_limits(texts)))[first::step]
    work = partial(_predict_batches, model, texts, precision)
    return [work(batches)] if getattr(model, "own_threads", False) else side_by_side(work, batches, texts.device)


@torch.inference_mode()
def _predict_batches(
    model: nn.Module, texts: TextBatches, precision: Precision, batches: Sequence[NDArray[np.int64]]
) -> PredictedShare:
    share = PredictedShare([], [], [], [])
    with matmul_precision(precision, texts.device):  # around all batches, so that weights are converted once
        for batch in batches:
            deadline.check()
            prediction: Prediction = model(texts.gather(batch))
            share.rows.append(batch)
            share.logits.append(prediction.logits.float().cpu().numpy())
            if prediction.parts is not None:
                share.parts.append(prediction.parts.float().cpu().numpy())
            if prediction.tokens is not None:
                own = prediction.tokens[texts.own_tokens(batch, prediction.tokens.shape)]
                share.tokens.append(own.float().softmax(-1).cpu().numpy())
    return share


def join_shares(model: nn.Module, texts: TextBatches, shares: Sequence[PredictedShare]) -> Predicted:
    """Return the predictions of all `shares` together, in the order of the texts."""
    rows, logits, parts, tokens = (
        [array for share in shares for array in getattr(share, field.name)] for field in fields(PredictedShare)
    )
    order, counts = np.concatenate(rows), texts.counts.cpu().numpy()
    return Predicted(
        _restore_order(logits, order, 0),
        _restore_order(parts, order, 1) if parts else None,
        bool(getattr(model, "multi", False)),
        _restore_order(tokens, token_order(order, counts), 0) if tokens else None,
        counts,
    )


def gold_labels(texts: TextBatches) -> NDArray[np.integer]:
    """Return the labels of the texts: class indices (N,) or indicators (N, C)."""
    return texts.targets(np.arange(len(texts))).cpu().numpy()


def batch_limits(texts: TextBatches) -> tuple[int, int]:
    """Return the maximum number of texts and of tokens per batch of a prediction for `texts`."""
    if texts.device.type != "cpu":
        return GPU_BATCH_LIMITS
    most, tokens = BATCH_LIMITS
    return min(most, max(MIN_BATCH, len(texts) // BATCHES)), tokens


def token_order(order: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the tokens of the texts `order` (N,) once texts are in order.

    Text n has `counts[n]` tokens.
    """
    return Ragged.from_lengths(np.arange(counts.sum()), counts)[order].values


def _restore_order(pieces: list[Array], order: NDArray[np.int64], axis: int) -> Array:
    joined = np.concatenate(pieces, axis)
    out = np.empty_like(joined)
    if axis == 0:
        out[order] = joined
    else:
        out[:, order] = joined
    return out
