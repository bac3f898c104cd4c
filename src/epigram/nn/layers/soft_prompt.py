"""Soft prompt (PTA's option `soft`): trainable vectors instead of the template's word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from epigram.nn.layers.types import Tokens


class SoftPrompt(nn.Module):
    """Trainable vectors of the P prompt words, initialized from the embeddings of these words.

    Mask tokens and the words of the text keep their embeddings. `prefix` are the ids before every text, `mask_id` the
    id of a mask token and `table` the encoder's embedding table (V, E).
    """

    def __init__(self, prefix: Sequence[int], mask_id: int, table: nn.Embedding) -> None:
        super().__init__()
        positions = [position for position, token in enumerate(prefix) if token != mask_id]
        self.register_buffer("positions", torch.tensor(positions, dtype=torch.int64), persistent=False)  # (P,)
        self.positions: Tensor
        words = torch.tensor(prefix, dtype=torch.int64)[self.positions]
        self.vectors = nn.Parameter(table.weight.detach()[words].clone())  # (P, E)

    def forward(self, tokens: Tokens, table: nn.Embedding) -> Tokens:
        """Return `tokens` (B, L) with `vectors` (B, L, E): their embeddings, or trainable vectors for prompt words."""
        words: Tensor = table(tokens.ids)
        prompt = self.vectors.to(words.dtype).expand(len(words), -1, -1)
        return replace(tokens, vectors=words.index_copy(1, self.positions, prompt))
