"""Initialization of an encoder's token vectors with pretrained ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from epigram.core.errors import DataError


def set_pretrained_vectors(table: nn.Embedding, vectors: Tensor) -> None:
    """Replace the random vectors of `table` (V, D) by pretrained `vectors` (V, E); rows of NaN keep the random ones.

    The vectors are scaled to the standard deviation of the random ones, for which the encoder is tuned. If E > D, they
    are projected onto their D directions of largest variance. If E < D, the other columns stay random. Raises DataError
    if the vectors have no variance.
    """
    known = ~vectors.isnan().any(1)
    reduced = reduce_width(vectors[known], table.embedding_dim)
    spread = reduced.std()
    if not spread > 0 or vectors[known].amin() == vectors[known].amax():
        raise DataError(
            "the pretrained vectors of the view's tokens do not differ from each other; set the view's vectors to a "
            "file of trained vectors, or remove the setting"
        )
    with torch.no_grad():
        rows = table.weight[known]
        rows[:, : reduced.shape[1]] = reduced * (table.weight.std() / spread)
        table.weight[known] = rows


def reduce_width(vectors: Tensor, width: int) -> Tensor:
    """Return `vectors` (K, E) in at most `width` dimensions: their principal components, uncentred."""
    if vectors.shape[1] <= width:
        return vectors
    _, directions = torch.linalg.eigh((vectors.T @ vectors).double())  # eigenvalues ascend
    kept = directions[:, -width:].flip(1)
    signs = kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()  # the sign of an eigenvector is arbitrary
    projected: Tensor = vectors @ (kept * signs).to(vectors)
    return projected
