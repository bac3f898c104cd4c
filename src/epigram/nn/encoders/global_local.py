"""Encoder1-Encoder2: convolutions whose windows also read a vector of the whole text (Niu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from epigram.core.config_types import Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.convolution import Convolution, Convolutions, Sizes
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.pooling import lowest_where_false, masked_max
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


@encoders.register("global_local")
@dataclass(frozen=True, kw_only=True)
class GlobalLocalConfig(WeightedEncoderSettings):
    """Settings of the encoder: width of the token vectors, filters per window size, and window sizes in tokens.

    `mode`: `same` gives all windows the maximum of the states of Encoder1; `attend` gives each window the states of
    Encoder1 that its own tokens attend to.
    """

    embedding: Positive = 128
    filters: Positive = 128
    sizes: Sizes = field(default_factory=lambda: [3, 5, 7])
    mode: Literal["same", "attend"] = "attend"
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3

    def state_width(self, context: DataSpec) -> int:
        """Return the number of features."""
        return self.filters * len(self.sizes)


class GlobalLocalEncoder(Encoder, settings=GlobalLocalConfig):
    """Encoder2: relu(conv(x)_t + W_g g_t + b), in which the vector g_t is one more word of the window at token t.

    Encoder1 has the states h = relu(conv(x)) of the same window sizes. g_t = relu(W ĝ_t + b) is as wide as a token
    vector. SAME: ĝ_t = max_s h_s. ATTEND: ĝ_t = Σ_s α_ts h_s, α_t = softmax_s(tanh(W_q c_t) · tanh(W_k h_s)), where c_t
    is the mean of the window. The batch normalizations and the second hidden layer of the authors' code are left out.
    """

    def __init__(self, config: GlobalLocalConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.filters * len(config.sizes)
        embedding, filters, sizes = config.embedding, config.filters, config.sizes
        self.embedding = TokenEmbedding(context, width=embedding, dropout=config.dropout, pos_weight=config.pos_weight)
        self.whole = Convolutions(inputs=embedding, filters=filters, sizes=sizes)  # Encoder1
        self.narrow = nn.Linear(self.width, embedding)
        attends = config.mode == "attend"
        self.query = nn.Linear(embedding, embedding, bias=False) if attends else nn.Identity()
        self.key = nn.Linear(self.width, embedding, bias=False) if attends else nn.Identity()
        self.local = nn.ModuleList(Convolution(inputs=embedding, filters=filters, size=size) for size in sizes)
        self.extra = nn.ModuleList(nn.Linear(embedding, filters, bias=False) for _ in sizes)
        self.blocks = nn.ModuleList()

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the embeddings (B, L, E) and the features (B, L, filters × sizes)."""
        x, valid = self.embedding(tokens), tokens.valid
        h = self.whole(x)  # (B, L, D)
        features = [
            convolution(x) + extra(self.narrow(self._summaries(x, h, valid, size)).relu())
            for convolution, extra, size in zip(self.local, self.extra, self.config.sizes, strict=True)
        ]
        return Encoded((x, torch.cat(features, 2).relu()), tokens)

    def _summaries(self, x: Tensor, h: Tensor, valid: Tensor, size: int) -> Tensor:
        """Return ĝ of each window of `size` tokens, (B, L, D), or of all windows together, (B, 1, D)."""
        if self.config.mode == "same":
            return masked_max(h, valid).unsqueeze(1)
        before, length = (size - 1) // 2, x.shape[1]
        wide = pad(x, (0, 0, before, size - 1 - before))
        means = torch.stack([wide[:, offset : offset + length] for offset in range(size)]).mean(0)  # c (B, L, E)
        scores = torch.bmm(self.query(means).tanh(), self.key(h).tanh().transpose(1, 2)).float()  # (B, L, L)
        alpha = (scores + lowest_where_false(valid, scores.dtype).unsqueeze(1)).softmax(-1)
        return torch.bmm(alpha.to(h.dtype), h)
