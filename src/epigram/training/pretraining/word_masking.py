"""Selection and masking of words in a batch (Devlin et al. 2019, § 3.1; whole words: Cui et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from epigram.models.batches import to_device

MASKED, RANDOM = 0.8, 0.1  # shares of the chosen words that are masked or replaced; the rest is kept


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Masking of `share` of the words of each text; `ordinary` (K,) are the ids for random replacement."""

    share: float
    mask_id: int
    ordinary: Tensor

    def __call__(self, ids: Tensor, words: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return `ids` (B, L) with the chosen tokens masked, and the mask (B, L) of the chosen tokens.

        `words` (B, L) numbers the words of each text from 0, and is -1 for tokens that are never chosen. A word is
        chosen, and masked, replaced or kept, as a whole.
        """
        chosen = self.choose(words, generator)
        draw = _uniform(words.shape, generator, ids.device).gather(1, words.clamp(min=0))  # one number per word
        random_ids = (_uniform(ids.shape, generator, ids.device) * len(self.ordinary)).long()
        masked = torch.where(chosen & (draw < MASKED), self.mask_id, ids)
        replaced = chosen & (draw >= MASKED) & (draw < MASKED + RANDOM)
        return torch.where(replaced, self.ordinary[random_ids], masked), chosen

    def choose(self, words: Tensor, generator: torch.Generator) -> Tensor:
        """Return the mask (B, L) of the tokens of `share` of each text's words, and of at least one word."""
        inside = words >= 0
        word_index = words.clamp(min=0)
        present = torch.zeros_like(words).scatter_add(1, word_index, inside.long()) > 0  # (B, words)
        order = _uniform(words.shape, generator, words.device).masked_fill(~present, 2.0)
        count = (self.share * present.sum(1, keepdim=True)).round().clamp(min=1)
        selected = present & (order.argsort(1).argsort(1) < count)
        return selected.gather(1, word_index) & inside


def _uniform(shape: torch.Size, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return uniform numbers on `device`, drawn on the CPU so that they are the same for every device."""
    return to_device(torch.rand(shape, generator=generator).numpy(), device)
