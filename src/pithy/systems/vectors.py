"""Pretrained token vectors as the start of any encoder's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def start_from(table: nn.Embedding, vectors: Tensor) -> None:
    """Put pretrained `vectors` (V, E) in the place of the random ones of `table` (V, D); rows of NaN stay as they are.

    They take the spread of the random ones, which the encoder is tuned to. Where E > D they are turned onto their D
    directions of largest variance; where E < D the other columns stay random.
    """
    known = ~vectors.isnan().any(1)
    found = narrowed(vectors[known], table.embedding_dim)
    with torch.no_grad():
        rows = table.weight[known]
        rows[:, : found.shape[1]] = found * (table.weight.std() / found.std())
        table.weight[known] = rows


def narrowed(vectors: Tensor, width: int) -> Tensor:
    """`vectors` (K, E) in at most `width` dimensions: their principal components, uncentred."""
    if vectors.shape[1] <= width:
        return vectors
    _, directions = torch.linalg.eigh((vectors.T @ vectors).double())  # ascending
    kept = directions[:, -width:].flip(1)
    signs = kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()  # an eigenvector's own sign is arbitrary
    turned: Tensor = vectors @ (kept * signs).to(vectors)
    return turned
