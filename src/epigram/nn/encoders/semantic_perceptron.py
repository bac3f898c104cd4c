"""Multi-layer semantic perceptron (DMSP, Eq. 1, 2, 8): embeddings and a stack of layers without attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Only
from epigram.nn import encoders
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.ngrams import mix
from epigram.nn.layers.types import DataSpec, Encoded, Tokens

Order = Literal["random", "expectation", "none"]


def fixed_keys(valid: Tensor, layer: int, draw: int) -> Tensor:
    """Return sort keys (B, L) for inference that depend only on layer, draw, the row's length and the position."""
    length = valid.sum(1, keepdim=True)  # (B, 1)
    position = torch.arange(valid.shape[1], device=valid.device)  # (L,)
    return mix(position + 4096 * mix(length + 65_536 * (layer + 1024 * draw)))


def shuffle(x: Tensor, valid: Tensor, keys: Tensor) -> Tensor:
    """Apply F_t: order the valid tokens of each row of `x` (B, L, D) by `keys` (B, L); padding stays.  Eq. 1."""
    # padding sorts last; the stable sort breaks ties between tokens by position
    keys = torch.where(valid, keys, torch.iinfo(keys.dtype).max if not keys.is_floating_point() else torch.inf)
    order = keys.argsort(dim=1, stable=True)  # (B, L)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


class SemanticPerceptron(nn.Module):
    """Encoder layer x^j = norm(−F_t(x⁰) + x^{j−1} + MLP_j(x^{j−1})): (B, L, D) → (B, L, D).  Eq. 2, 8.

    `order` selects F_t: `random` shuffles x⁰, `expectation` uses the mean token, `none` omits the term (MLP).
    """

    def __init__(self, *, width: int, hidden: int, dropout: float, order: Order) -> None:
        super().__init__()
        self.order = order
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width), Dropout(dropout))

    def transformed(self, x0: Tensor, valid: Tensor, layer: int, draw: int) -> Tensor:
        """Return F_t(x⁰) (B, L, D): a new order per row in training, else one fixed by layer, draw and length."""
        if self.order == "expectation":
            weight = valid.unsqueeze(-1).to(x0.dtype)
            return (x0 * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True) * weight
        keys = torch.rand(valid.shape, device=x0.device) if self.training else fixed_keys(valid, layer, draw)
        return shuffle(x0, valid, keys)

    def forward(self, x: Tensor, x0: Tensor, valid: Tensor, layer: int, draw: int = 0) -> Tensor:
        """Apply the layer with number `layer` (from 1) to `x` (B, L, D), given the embeddings `x0` (B, L, D)."""
        total = x + self.mlp(x)
        if self.order != "none":
            total = total - self.transformed(x0, valid, layer, draw)
        return layer_norm(total, total.shape[-1:]) * valid.unsqueeze(-1).to(x.dtype)


@encoders.register("semantic_perceptron")
@dataclass(frozen=True, kw_only=True)
class SemanticPerceptronConfig(WeightedEncoderSettings):
    """Settings of the encoder.

    The default sizes reproduce the paper's parameter counts: width 64, perceptron 64→512→64, five layers.
    """

    has_layers: ClassVar[bool] = True
    reads_whole_text: ClassVar[bool] = False

    width: Positive = 64
    hidden: Positive = 512
    depth: Positive = 5
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3
    order: Order = "random"
    average: Annotated[Positive, Only("order", "random")] = 1  # number of random orders averaged at inference


class SemanticPerceptronEncoder(Encoder, settings=SemanticPerceptronConfig):
    """Embeddings x⁰ without positions, then N semantic perceptrons."""

    def __init__(self, config: SemanticPerceptronConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.width
        self.average = config.average if config.order == "random" else 1
        self.embedding = TokenEmbedding(
            context, width=config.width, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.blocks = nn.ModuleList(
            SemanticPerceptron(width=config.width, hidden=config.hidden, dropout=config.dropout, order=config.order)
            for _ in range(config.depth)
        )

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the states of embeddings and layers, (B, L, D) each; at inference they are means over the draws."""
        draws = 1 if self.training else self.average
        runs = [self._run(tokens, draw) for draw in range(draws)]
        states = runs[0] if draws == 1 else [sum(layer[1:], layer[0]) / draws for layer in zip(*runs, strict=True)]
        return Encoded(tuple(states), tokens)

    def _run(self, tokens: Tokens, draw: int) -> list[Tensor]:
        x0 = self.embedding(tokens)
        states = [x0]
        for layer, block in enumerate(self.blocks, 1):
            states.append(block(states[-1], x0, tokens.valid, layer, draw))
        return states
