"""Language models over the states of a BiLSTM (Rei, 2017): each direction guesses the token that it has not read."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from pithy.layers.initialization import glorot


class _Guess(nn.Module):
    """One direction: states (T, D) through a tanh layer to every outcome."""

    def __init__(self, *, width: int, hidden: int, outcomes: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(width, hidden), nn.Linear(hidden, outcomes)

    def forward(self, states: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
        """Σ_i `weight`_i · −log p(`gold`_i), a scalar."""
        logits = self.out(self.hidden(states).tanh())  # of the softmax over m_t
        each = cross_entropy(logits.float(), gold, reduction="none")
        return (each * weight).sum()


class LanguageModel(nn.Module):
    """The forward state at t guesses token t + 1, the backward state token t − 1.

    Ids from `most` on are one outcome, "other"; a text's borders, which no id stands for, are one more.
    """

    def __init__(self, *, width: int, hidden: int, vocabulary: int, most: int) -> None:
        super().__init__()
        self.other = min(vocabulary, most)
        self.border = self.other + 1
        self.ahead, self.back = (_Guess(width=width // 2, hidden=hidden, outcomes=self.border + 1) for _ in range(2))
        glorot(self)

    def forward(self, states: Tensor, ids: Tensor, valid: Tensor, counts: Tensor) -> Tensor:
        """Mean cost of a guess, both directions', over the `valid` tokens of `ids` (B, L), a scalar.

        `states` (T, D) of these tokens, row after row, are the forward direction's, then the backward one's; row b
        counts `counts` (B,) times.
        """
        after, before = neighbours(ids.clamp(max=self.other), valid, self.border)
        ahead, back = states.chunk(2, -1)
        weight = counts.unsqueeze(1).expand_as(ids)[valid]
        cost: Tensor = self.ahead(ahead, after[valid], weight) + self.back(back, before[valid], weight)
        return cost / (2 * weight.sum())


def neighbours(ids: Tensor, valid: Tensor, border: int) -> tuple[Tensor, Tensor]:
    """The id after and the id before each token of `ids` (B, L), `border` at both ends of a text."""
    after = torch.where(pad(valid[:, 1:], (0, 1)), pad(ids[:, 1:], (0, 1)), border)
    return after, pad(ids[:, :-1], (1, 0), value=border)
