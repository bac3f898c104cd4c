"""Pretrained token vectors as the start of any encoder's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pithy.errors import DataError


def start_from(table: nn.Embedding, vectors: Tensor) -> None:
    """Put pretrained `vectors` (V, E) in the place of the random ones of `table` (V, D); rows of NaN stay as they are.

    They take the spread of the random ones, which the encoder is tuned to. Where E > D they are turned onto their D
    directions of largest variance; where E < D the other columns stay random. Raises DataError where they have no
    spread of their own.
    """
    known = ~vectors.isnan().any(1)
    found = narrowed(vectors[known], table.embedding_dim)
    spread = found.std()
    if not spread > 0 or vectors[known].amin() == vectors[known].amax():
        raise DataError(
            "the vectors of the view's tokens have no spread, so that none differs from another: give the view a file "
            "of trained vectors, or none"
        )
    with torch.no_grad():
        rows = table.weight[known]
        rows[:, : found.shape[1]] = found * (table.weight.std() / spread)
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
