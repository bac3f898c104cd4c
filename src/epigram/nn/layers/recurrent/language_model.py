"""Language models over the states of a BiLSTM (Rei, 2017), and over the vectors of the neighbours of a token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from epigram.nn.layers.initialization import glorot
from epigram.nn.layers.pooling import valid_positions


class LanguageModelLoss(NamedTuple):
    """Loss summed over all predictions of both directions, a scalar, and the number of predictions."""

    total: Tensor
    predictions: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean loss per prediction."""
        return self.total / self.predictions


class _TokenClassifier(nn.Module):
    """Classifier of the states (T, D): tanh layer, then logits of all outcomes."""

    def __init__(self, *, width: int, hidden: int, outcomes: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(width, hidden), nn.Linear(hidden, outcomes)

    def forward(self, states: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
        """Return Σ_i `weight`_i · −log p(`gold`_i), a scalar, for T tokens."""
        logits = self.out(self.hidden(states).tanh())  # the tanh layer gives m_t
        each = cross_entropy(logits.float(), gold, reduction="none")
        return (each * weight).sum()


class LanguageModel(nn.Module):
    """Language model whose forward state at t predicts token t + 1 and whose backward state predicts token t − 1.

    `width` is the width of both directions' states together. All ids from `max_vocabulary` on are one outcome, "other";
    the borders of a text, which have no id, are one more outcome.
    """

    def __init__(self, *, width: int, hidden: int, vocabulary: int, max_vocabulary: int) -> None:
        super().__init__()
        self.other = min(vocabulary, max_vocabulary)
        self.border = self.other + 1
        self.ahead, self.back = (
            _TokenClassifier(width=width // 2, hidden=hidden, outcomes=self.border + 1) for _ in range(2)
        )
        glorot(self)

    def forward(self, states: Tensor, ids: Tensor, valid: Tensor, counts: Tensor) -> LanguageModelLoss:
        """Return the loss of both directions over the `valid` tokens of `ids` (B, L).

        `states` (T, D) belong to the T valid tokens, row after row; the first half of each is the forward direction's,
        the second half the backward direction's. Row b counts `counts[b]` times, `counts` (B,).
        """
        after, before = neighbours(ids.clamp(max=self.other), valid, self.border)
        ahead, back = states.chunk(2, -1)
        places = valid_positions(valid, len(states))
        weight = counts[places[0]]
        total: Tensor = self.ahead(ahead, after[places], weight) + self.back(back, before[places], weight)
        return LanguageModelLoss(total, 2 * weight.sum())


class MiddleWordModel(nn.Module):
    """Language model that predicts each word of a text, but the first and the last, from the vectors beside it.

    Pislar and Rei (2020) use it with the character states of the neighbours, of the width `width`. All ids from
    `max_vocabulary` on are one outcome, "other".
    """

    def __init__(self, *, width: int, hidden: int, vocabulary: int, max_vocabulary: int) -> None:
        super().__init__()
        self.other = min(vocabulary, max_vocabulary)
        self.middle = _TokenClassifier(width=2 * width, hidden=hidden, outcomes=self.other + 1)
        glorot(self)

    def forward(self, vectors: Tensor, ids: Tensor, valid: Tensor) -> LanguageModelLoss:
        """Return the loss over the `valid` tokens of `ids` (B, L) that have two neighbours; `vectors` are (T, D)."""
        places = valid_positions(valid, len(vectors))
        inside = (pad(valid[:, 1:], (0, 1))[places] & (places[1] > 0)).to(vectors.dtype)
        beside = torch.cat([vectors.roll(1, 0), vectors.roll(-1, 0)], -1)
        total: Tensor = self.middle(beside, ids.clamp(max=self.other)[places], inside)
        return LanguageModelLoss(total, inside.sum().clamp(min=1))


def neighbours(ids: Tensor, valid: Tensor, border: int) -> tuple[Tensor, Tensor]:
    """Return the id after and the id before each token of `ids` (B, L), with `border` at the ends of a text."""
    after = torch.where(pad(valid[:, 1:], (0, 1)), pad(ids[:, 1:], (0, 1)), border)
    return after, pad(ids[:, :-1], (1, 0), value=border)
