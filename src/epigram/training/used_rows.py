"""Training of only those rows of a token table whose tokens occur in train.

Half of MiniLM's weights are its table of 30,522 tokens, and 2,000 film reviews have a quarter of these tokens.
AdamW changes a row without gradients by weight decay only: its value after k steps is the initial value times
Π(1 − η·λ), with the learning rate η of each step and the weight decay λ. The result equals that of training the whole
table up to rounding, since k products round k times and one product rounds once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from epigram.models.classifier import Classifier
from epigram.nn.torch_adapter import replace_forward, restore_forward
from epigram.training.config import TrainingConfig
from epigram.training.objectives.base import Objective

DECOUPLED = ("adamw",)  # optimizers that change a row without gradients by weight decay only, as a factor
MAX_SHARE = 0.5  # of the rows that occur in train; with more, the whole table is trained


class UsedRows:
    """Training of the rows `ids` (K,) of `table` (V, E) in place of the whole table, until `put_back`.

    Meanwhile the weight of `table` holds these rows, and its buffer `decay` the factor of all others. Both belong to
    the model's state dict, so that kept weights and checkpoints fit together. In evaluation mode the table has all V
    rows. In training mode a row that is not in `ids` raises IndexError.
    """

    def __init__(self, table: nn.Embedding, ids: NDArray[np.integer[Any]]) -> None:
        self.table, self.whole = table, table.weight
        device = self.whole.device
        self.ids = torch.from_numpy(ids).to(device)
        self.places = torch.full((table.num_embeddings,), len(ids), device=device)  # (V,), K for a row not in `ids`
        self.places[self.ids] = torch.arange(len(ids), device=device)
        padding = None if table.padding_idx is None else int(self.places[table.padding_idx])
        self.padding = padding if padding != len(ids) else None
        table.weight = nn.Parameter(self.whole.detach()[self.ids])
        self.decay = torch.ones((), dtype=torch.float64, device=device)  # loading weights changes it in place
        table.register_buffer("decay", self.decay)
        replace_forward(table, self.embed)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the vectors (B, L, E) of `tokens` (B, L)."""
        places = self.places[tokens]
        if self.table.training:
            return embedding(places, self.table.weight, self.padding)
        trained = places < len(self.ids)
        vectors = embedding(places.where(trained, 0), self.table.weight)
        return torch.where(trained.unsqueeze(-1), vectors, self._others(self.whole[tokens]))

    def decay_others(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Apply the weight decay of a step of `optimizer` to the rows that are not trained; a hook after the step."""
        own = self.table.weight
        weights = next(group for group in optimizer.param_groups if any(each is own for each in group["params"]))
        self.decay.mul_(1 - weights["lr"] * weights["weight_decay"])

    @torch.no_grad()
    def put_back(self) -> None:
        """Give the table all its rows, for good."""
        whole = self._others(self.whole).index_copy(0, self.ids, self.table.weight)
        self.whole.copy_(whole)
        del self.table.decay
        self.table.weight = self.whole
        restore_forward(self.table)

    def _others(self, rows: Tensor) -> Tensor:
        """Return initial `rows` (…, E) as they are after the weight decay."""
        return rows.detach() * self.decay


def use_rows(model: nn.Module, objective: Objective, config: TrainingConfig) -> UsedRows | None:
    """Train only the rows of the model's token table that occur in train, if that is exact and pays.

    Returns None, and leaves the whole table, for an optimizer whose weight decay is part of the gradient or that has
    another rule; for a table that is frozen or shared with other parameters; for an objective that reads all rows; and
    if more than MAX_SHARE of the rows occur.
    """
    table = getattr(model.encoder, "token_table", None) if isinstance(model, Classifier) else None
    if config.optimizer not in DECOUPLED or table is None or not table.weight.requires_grad or _is_shared(table, model):
        return None
    ids = objective.used_ids()
    return None if ids is None or len(ids) > MAX_SHARE * table.num_embeddings else UsedRows(table, ids)


def _is_shared(table: nn.Embedding, model: nn.Module) -> bool:
    return sum(weight is table.weight for _, weight in model.named_parameters(remove_duplicate=False)) > 1
