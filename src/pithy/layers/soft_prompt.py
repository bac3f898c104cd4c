"""A learnt template (PTA's soft option): trainable vectors in the places of the prompt's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from pithy.layers.types import Tokens


class SoftPrompt(nn.Module):
    """Vectors of the prompt that start from its words' own; its masks, and the words of the text, keep theirs.

    `prefix` are the ids in front of every text, `table` the encoder's token vectors (V, E).
    """

    def __init__(self, prefix: Sequence[int], mask_id: int, table: nn.Embedding) -> None:
        super().__init__()
        places = [place for place, token in enumerate(prefix) if token != mask_id]
        self.register_buffer("places", torch.tensor(places, dtype=torch.int64), persistent=False)  # (P,)
        self.places: Tensor
        words = torch.tensor(prefix, dtype=torch.int64)[self.places]
        self.vectors = nn.Parameter(table.weight.detach()[words].clone())  # (P, E)

    def forward(self, tokens: Tokens, table: nn.Embedding) -> Tokens:
        """`tokens` (B, L) with the vectors (B, L, E) that stand for them."""
        words: Tensor = table(tokens.ids)
        prompt = self.vectors.to(words.dtype).expand(len(words), -1, -1)
        return replace(tokens, vectors=words.index_copy(1, self.places, prompt))
