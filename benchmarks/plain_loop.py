"""Peer of the small models: a tutorial-style training loop with a DataLoader, at its best known settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from epigram.nn.layers.types import Tokens
from epigram.text.dataset.encoded_dataset import Split
from epigram.training.config import TrainingConfig
from epigram.training.loop.optimization import build_schedule

Example = tuple[Tensor, Tensor]
Batch = tuple[Tokens, Tensor]
Padding = Literal["to the longest", "to max_length", "grouped by length"]
PADDINGS: tuple[Padding, ...] = ("grouped by length", "to the longest")  # the best known ones


@dataclass(frozen=True)
class Settings:
    """Padding of the batches, and whether the loop runs under bfloat16 autocast."""

    padding: Padding
    bf16: bool

    @property
    def name(self) -> str:
        """Name of the peer in the results: the loop and its settings."""
        return f"{name_of(self.padding)}, {'bf16 autocast' if self.bf16 else 'fp32'}"

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the autocast context of the forward pass."""
        return torch.autocast("cpu", dtype=torch.bfloat16) if self.bf16 else nullcontext()


def name_of(padding: Padding) -> str:
    """Return the name of the loop with this padding."""
    return f"plain PyTorch loop, {padding if padding == 'grouped by length' else f'padded {padding}'}"


def examples_of(part: Split) -> list[Example]:
    """Return token ids and label of every row of a split."""
    return [
        (torch.tensor(text, dtype=torch.int64), torch.tensor(label))
        for text, label in zip(part.ids, part.labels, strict=True)
    ]


def collated(pad_id: int, longest: int, *, full: bool) -> Callable[[list[Example]], Batch]:
    """Return a collate function that truncates texts to `longest` tokens and, if `full`, pads them to `longest`."""

    def collate(chosen: list[Example]) -> Batch:
        texts, labels = zip(*chosen, strict=True)
        ids = pad_sequence([text[:longest] for text in texts], batch_first=True, padding_value=pad_id)
        if full:
            ids = pad(ids, (0, longest - ids.shape[1]), value=pad_id)
        lengths = np.array([min(len(text), longest) for text in texts])
        return Tokens(ids, ids != pad_id, lengths=lengths), torch.stack(labels)

    return collate


def padded_batches(
    examples: list[Example], pad_id: int, size: int, *, padding: Padding, longest: int, shuffle: bool = True
) -> DataLoader[Any]:
    """Return batches of `size` texts; transformers' sampler groups texts of similar length."""
    sampler = None
    if padding == "grouped by length":
        from transformers.trainer_pt_utils import LengthGroupedSampler

        sampler = LengthGroupedSampler(size, lengths=[len(text) for text, _ in examples])
    collate = collated(pad_id, longest, full=padding == "to max_length")
    chosen = {"sampler": sampler} if sampler else {"shuffle": shuffle}
    return DataLoader(examples, batch_size=size, collate_fn=collate, **chosen)  # type: ignore[arg-type]


def train(model: nn.Module, examples: list[Example], pad_id: int, config: TrainingConfig, settings: Settings) -> None:
    """Train for our number of epochs, with our batch size, learning rates and gradient clipping."""
    batches = padded_batches(examples, pad_id, config.batch_size, padding=settings.padding, longest=config.max_length)
    rates = build_schedule(optimizer_of(model, config), config, config.epochs * len(batches))
    model.train()
    for batch in chain.from_iterable(repeat(batches, config.epochs)):
        step(model, batch, config, rates, settings.autocast())


def optimizer_of(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return AdamW with our learning rate and weight decay; like ours, it is fused, on the CPU too."""
    return torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay, fused=True)


def step(
    model: nn.Module, batch: Batch, config: TrainingConfig, rates: LRScheduler, precision: AbstractContextManager[Any]
) -> None:
    """Train on one batch, with the forward pass in `precision`. It does not wait for a GPU."""
    rates.optimizer.zero_grad()
    with precision:
        loss = model(*batch).loss
    loss.backward()
    if config.clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    rates.optimizer.step()
    rates.step()


@torch.no_grad()
def predictions(
    model: Any, examples: list[Example], pad_id: int, config: TrainingConfig, settings: Settings
) -> NDArray[np.int64]:
    """Return the predicted class of every example."""
    model.eval()
    batches = padded_batches(
        examples, pad_id, config.batch_size, padding="to the longest", longest=config.max_length, shuffle=False
    )
    with settings.autocast():
        return np.concatenate([model(tokens).logits.argmax(1).numpy() for tokens, _ in batches])
