"""Vectors of texts, by the encoder of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core import deadline
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.precision import Precision, matmul_precision
from epigram.models.predict import batch_limits
from epigram.models.side_by_side import side_by_side
from epigram.nn.layers.pooling import masked_mean
from epigram.nn.layers.types import Encoded

LEAST_NORM = 1e-12


def encode_texts(
    model: NeuralClassifier,
    texts: TextBatches,
    width: int,
    state_of: Callable[[Encoded], Tensor],
    precision: Precision = "auto",
) -> NDArray[np.float64]:
    """Return `state_of` (B, `width`) the encoded batches for all texts, (N, `width`)."""
    model.eval()
    found = np.empty((len(texts), width))

    @torch.inference_mode()
    def fill(batches: Sequence[NDArray[np.int64]]) -> None:
        with matmul_precision(precision, texts.device):
            for batch in batches:
                deadline.check()
                found[batch] = state_of(model.encode(texts.gather(batch))).float().cpu().numpy()

    side_by_side(fill, list(texts.in_order(*batch_limits(texts))), texts.device)
    return found


def text_vectors(model: NeuralClassifier, texts: TextBatches, precision: Precision = "auto") -> NDArray[np.float32]:
    """Return the mean of the last layer's states for each text as a vector of length 1, (N, D)."""
    found = encode_texts(
        model, texts, model.encoder.width, lambda encoded: masked_mean(encoded.last, encoded.tokens.valid), precision
    )
    return unit_vectors(found).astype(np.float32)


def unit_vectors(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the `vectors` (N, D) with length 1; one of zeros stays as it is."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_NORM))
