"""The peer: training and batches as a tutorial writes them, with a DataLoader that pads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from pithy.layers.types import Tokens
from pithy.text.view import Split
from pithy.training.config import TrainingConfig
from pithy.training.optimizers import schedule

Example = tuple[Tensor, Tensor]
Batch = tuple[Tokens, Tensor]


def examples_of(part: Split) -> list[Example]:
    """Token ids and label of every row of a split."""
    return [
        (torch.tensor(part.ids[start:end], dtype=torch.int64), torch.tensor(label))
        for start, end, label in zip(part.offsets[:-1], part.offsets[1:], part.labels, strict=True)
    ]


def padded_batches(
    examples: list[Example], pad_id: int, size: int, *, shuffle: bool, length: int | None = None
) -> DataLoader[Any]:
    """Batches padded to their longest text, or all to `length`."""

    def collate(chosen: list[Example]) -> Batch:
        texts, labels = zip(*chosen, strict=True)
        ids = pad_sequence(list(texts), batch_first=True, padding_value=pad_id)
        if length is not None:
            ids = pad(ids, (0, length - ids.shape[1]), value=pad_id)  # a longer text is cut
        return Tokens(ids, ids != pad_id), torch.stack(labels)

    return DataLoader(examples, batch_size=size, shuffle=shuffle, collate_fn=collate)  # type: ignore[arg-type]


def train(model: nn.Module, part: Split, pad_id: int, config: TrainingConfig) -> None:
    """One epoch with our batch size, learning rates and clipping, every text padded to `config.max_length`."""
    examples = examples_of(part)
    batches = padded_batches(examples, pad_id, config.batch_size, shuffle=True, length=config.max_length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    rates = schedule(optimizer, config, len(batches))
    model.train()
    for tokens, labels in batches:
        optimizer.zero_grad()
        loss = model(tokens, labels).loss
        loss.backward()
        if config.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        rates.step()


@torch.no_grad()
def accuracy(model: Any, part: Split, pad_id: int, config: TrainingConfig) -> float:
    """Share of right answers on a split."""
    model.eval()
    examples, right = examples_of(part), 0
    for tokens, labels in padded_batches(examples, pad_id, config.batch_size, shuffle=False, length=config.max_length):
        right += int((model(tokens).logits.argmax(1) == labels).sum())
    return right / len(part)
