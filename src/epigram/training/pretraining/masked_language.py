"""Objective of masked language modelling: predict the masked words of a text (Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from epigram.models.precision import matmul_precision
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.pooling import valid_positions
from epigram.nn.layers.types import Tokens
from epigram.training.config import TrainingConfig
from epigram.training.objectives.base import Batch, Evaluation, Objective
from epigram.training.pretraining.shards import Shards
from epigram.training.pretraining.word_masking import Masking


class Quality(NamedTuple):
    """Quality of predicted masked tokens: mean negative log-likelihood and accuracy."""

    loss: float
    accuracy: float

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return float(np.exp(self.loss))


class MaskedLanguageModel(nn.Module):
    """Encoder with a dense layer and the token table as output weights (Devlin et al. 2019).

    `head` are the weights of a checkpoint's own dense layer and biases. Without all of them they are random.
    """

    def __init__(self, encoder: Encoder, head: Mapping[str, Tensor] = MappingProxyType({})) -> None:
        super().__init__()
        table = encoder.token_table
        self.encoder, self.depth = encoder, encoder.depth
        self.dropped: list[int] = []  # no layer is dropped
        self.transform = nn.Sequential(
            nn.Linear(encoder.width, table.embedding_dim), nn.GELU(), nn.LayerNorm(table.embedding_dim)
        )
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))
        own = {name: weight for name, weight in self.state_dict().items() if not name.startswith("encoder.")}
        if all(name in head and head[name].shape == weight.shape for name, weight in own.items()):
            self.load_state_dict({name: head[name] for name in own}, strict=False)

    def forward(self, tokens: Tokens, places: tuple[Tensor, ...]) -> Tensor:
        """Return the logits (M, V) of M tokens, whose rows and positions are `places`: (M,), (M,)."""
        states = self.encoder(tokens).last[places]
        return linear(self.transform(states), self.encoder.token_table.weight, self.bias)


@dataclass(frozen=True)
class ShardedEpoch:
    """Batches of all `shards`, shuffled by the generator `order`; a shard is read when its first batch is requested."""

    shards: Shards
    batch_size: int
    order: np.random.Generator

    def __len__(self) -> int:
        return self.shards.steps(self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        no_limit = self.batch_size * self.shards.frame.max_length  # no batch has more tokens
        for texts in self.shards.shuffled(self.order):
            for rows in texts.epoch(self.order, self.batch_size, no_limit):
                yield Batch(texts, rows)


class MaskedLanguage(Objective):
    """Masked words of `train`; the weights of the last step are kept, and their quality is measured on `heldout`.

    `seed` determines which words are masked.
    """

    keeps_last = True
    size_settings = "batch_size or max_length of the view's pretrain"

    def __init__(self, train: Shards, heldout: Shards, masking: Masking, config: TrainingConfig, *, seed: int) -> None:
        self.train, self.heldout, self.masking, self.config, self.seed = train, heldout, masking, config, seed
        self.device, self.size = train.device, len(train.pieces)
        self.generator = torch.Generator().manual_seed(seed)

    def epoch(self, order: np.random.Generator) -> ShardedEpoch:
        """Return batches of pieces of similar length, one shard after the other."""
        return ShardedEpoch(self.train, self.config.batch_size, order)

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return the mean loss of the masked tokens."""
        total, count, _ = self._masked_loss(model, batch, self.generator)
        return total / max(1, count)

    def evaluate(self, model: Any, *, adapt: bool) -> Evaluation | None:
        """Return accuracy and loss on the held-out texts; None if the loss is not finite. The depth stays as it is."""
        loss, accuracy = self.measure(model)
        return Evaluation(accuracy, loss, accuracy) if np.isfinite(loss) else None

    @torch.inference_mode()
    def measure(self, model: Any) -> Quality:
        """Return the quality on the held-out texts; the same words are masked every time."""
        model.eval()
        batches = ShardedEpoch(self.heldout, self.config.batch_size, np.random.default_rng(0))
        mask_generator = torch.Generator().manual_seed(self.seed)
        count, sums = 0, torch.zeros(2, dtype=torch.float64, device=self.device)
        for batch in batches:
            total, tokens, correct = self._masked_loss(model, batch, mask_generator)
            count += tokens
            sums += torch.stack([total.double(), correct.double()])
        loss, accuracy = (sums / max(1, count)).tolist()
        return Quality(loss, accuracy)

    def _masked_loss(self, model: Any, batch: Batch, generator: torch.Generator) -> tuple[Tensor, int, Tensor]:
        """Return the summed loss over a batch's masked tokens, their number, and how many are predicted correctly."""
        tokens = batch.texts.gather(batch.rows)
        assert tokens.labels is not None
        ids, chosen = self.masking(tokens.ids, tokens.labels, generator)
        places = valid_positions(chosen)  # the only wait for the device
        with matmul_precision(self.config.precision, self.device):
            logits = model(replace(tokens, ids=ids, labels=None), places).float()
        gold = tokens.ids[places]
        return cross_entropy(logits, gold, reduction="sum"), len(gold), (logits.argmax(1) == gold).sum()

    def explain_divergence(self, batch: Batch) -> str:
        """Return the setting to change."""
        return "; lower the view's pretrain.learning_rate"

    def state(self) -> dict[str, Tensor]:
        """Return the state of the generator that selects the masked words."""
        return {"masks": self.generator.get_state()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore that generator."""
        self.generator.set_state(state["masks"])
