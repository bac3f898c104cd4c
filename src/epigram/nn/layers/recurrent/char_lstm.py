"""Token vectors from characters: the last states of a BiLSTM over a token's characters (Lample et al., 2016)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from epigram.nn.layers.initialization import glorot
from epigram.nn.layers.recurrent.bilstm import fused_lstm, traceable_lstm
from epigram.nn.layers.recurrent.language_model import LanguageModel, LanguageModelLoss


class Spellings(NamedTuple):
    """Character vectors (T, `width`) of T tokens, and the states (T, 2h) that they are computed from.

    `last` is None in an exported graph; `loss`, of the language model of the characters, is None outside of training
    and without such a model.
    """

    vectors: Tensor
    last: Tensor | None = None
    loss: LanguageModelLoss | None = None


class CharLstm(nn.Module):
    """Character BiLSTM tanh(W [last forward state; last backward state]): characters (T, W) → (T, `width`).

    `characters` is the number of character ids; id 0 is padding, and a token without characters is read as one id 0.
    Each distinct spelling is read once, in a batch with the spellings of its length, so that no padding is read.
    `model` is an optional language model of the characters.
    """

    def __init__(
        self, *, characters: int, embedding: int, hidden: int, width: int, model: LanguageModel | None = None
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.project = nn.Linear(2 * hidden, width)
        self.model = model
        glorot(self)

    def forward(self, characters: Tensor) -> Spellings:
        """Return the vectors (T, `width`) of T tokens with `characters` (T, W)."""
        if torch.compiler.is_exporting():
            return Spellings(self.read_each(characters))
        spellings, inverse, counts = torch.unique(characters, dim=0, return_inverse=True, return_counts=True)
        lengths, order = (spellings > 0).sum(1).clamp(min=1).sort(stable=True)
        spellings = spellings[order]
        last, states = self.read(spellings, lengths)
        of_token, loss = order.argsort()[inverse], None
        if self.model is not None and self.training:
            valid = torch.arange(characters.shape[1], device=lengths.device) < lengths.unsqueeze(1)
            loss = self.model(states, spellings, valid, counts[order])
        return Spellings(self.project(last).tanh()[of_token], last[of_token], loss)

    def read_each(self, characters: Tensor) -> Tensor:
        """Return the vectors as `forward` does, but read every token, for an exported graph: (T, W) → (T, `width`)."""
        lengths = (characters > 0).sum(1).clamp(min=1)
        _, h, _ = traceable_lstm(self.lstm, self.embedding(characters), lengths)
        vectors: Tensor = self.project(h.transpose(0, 1).flatten(1)).tanh()
        return vectors

    def read(self, spellings: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last states (U, 2h) of `spellings` (U, W), sorted by `lengths` (U,), and all states."""
        counts = lengths.new_zeros(spellings.shape[1] + 1).scatter_add_(0, lengths, torch.ones_like(lengths)).tolist()
        last, states = [], []
        for size, same_length in enumerate(torch.split(spellings, counts)):
            if not len(same_length):
                continue
            y, (h, _) = fused_lstm(self.lstm, self.embedding(same_length[:, :size]))
            states.append(y.flatten(0, 1))  # (U'·size, 2h)
            last.append(h.transpose(0, 1).flatten(1))  # (2, U', h) → (U', 2h)
        return torch.cat(last), torch.cat(states)
