"""Very deep convolutional network, VDCNN (Conneau et al., 2017), and its batch normalization over valid tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from torch import Tensor, nn
from torch.nn.functional import batch_norm

from epigram.core.config_types import Checked, Positive, Range
from epigram.nn import encoders
from epigram.nn.layers.convolution import Convolution, masked_convolution
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.pooling import halve, k_max, valid_positions
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch normalization over valid positions only: (B, C, L) → (B, C, L), zero on padding; C channels.

    In training, mean and variance are computed over all valid positions of the batch and do not depend on padding. At
    inference the running statistics are used, so a row does not depend on the other rows. A training batch with a
    single valid position has no variance and uses the running statistics.
    """

    def forward(self, x: Tensor, valid: Tensor, count: int | None = None) -> Tensor:  # type: ignore[override]
        """Normalize `x` (B, C, L) at its `valid` positions (B, L), of which there are `count`, if the host knows it."""
        if not self.training:
            return super().forward(x) * valid.unsqueeze(1).to(x.dtype)
        columns = x.transpose(1, 2)  # (B, L, C)
        where = valid_positions(valid, count)
        rows = columns[where]  # (T, C)
        use_batch_statistics = len(rows) > 1
        rows = batch_norm(
            rows,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=use_batch_statistics,
            momentum=self.momentum or 0.0,
            eps=self.eps,
        )
        out = rows.new_zeros(columns.shape)
        out[where] = rows
        return out.transpose(1, 2)


BLOCKS = {9: (1, 1, 1, 1), 17: (2, 2, 2, 2), 29: (5, 5, 2, 2), 49: (8, 8, 5, 3)}  # Table 2: two-layer blocks per width


@encoders.register("vdcnn")
@dataclass(frozen=True, kw_only=True)
class VdcnnConfig(WeightedEncoderSettings):
    """Settings of the encoder.

    `layers` is the number of convolutions, `filters` are the widths of the four groups between halvings, and `k` is the
    number of values per channel that k-max pooling keeps. The paper reads the letters of long texts (embedding 16) and
    has 2,048 hidden units.
    """

    keeps_tokens: ClassVar[bool] = False
    pooled: ClassVar[bool] = True

    embedding: Positive = 64
    layers: Literal[9, 17, 29, 49] = 9
    filters: Annotated[
        list[Positive], Checked(lambda given: len(given) == 4, "four widths, for example [64, 128, 256, 512]")
    ] = field(default_factory=lambda: [64, 128, 256, 512])
    k: Positive = 8
    hidden: Positive = 512
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.3

    def state_width(self, context: DataSpec) -> int:
        """Return the width of the hidden layers."""
        return self.hidden


class ConvolutionBlock(nn.Module):
    """Two times convolution, batch normalization and ReLU (Fig. 2): (B, C, L) → (B, C', L); C, C' channels."""

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            Convolution(inputs=width, filters=filters, size=3, bias=False) for width in (inputs, filters)
        )
        self.norms = nn.ModuleList(MaskedBatchNorm(filters) for _ in range(2))

    def forward(self, x: Tensor, valid: Tensor, count: int | None) -> Tensor:
        """Apply the block to `x` (B, C, L) with valid positions `valid` (B, L), `count` if the host knows it."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(masked_convolution(x, valid, convolution), valid, count).relu()  # type: ignore[arg-type]
        return x


class VdcnnEncoder(Encoder, settings=VdcnnConfig):
    """A convolution, four groups of blocks with halving between them, k-max pooling and two hidden layers (Fig. 1).

    There are no shortcuts; the paper finds that they help from 49 layers on.
    """

    def __init__(self, config: VdcnnConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, config.hidden
        self.embedding = TokenEmbedding(
            context, width=config.embedding, dropout=config.dropout, pos_weight=config.pos_weight
        )
        self.first = Convolution(inputs=config.embedding, filters=config.filters[0], size=3)
        widths = [config.filters[0], *config.filters]
        self.groups = nn.ModuleList(
            nn.ModuleList(ConvolutionBlock(inputs if i == 0 else filters, filters) for i in range(count))
            for inputs, filters, count in zip(widths[:-1], widths[1:], BLOCKS[config.layers], strict=True)
        )
        self.hidden = nn.Sequential(
            nn.Linear(config.k * config.filters[-1], config.hidden),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
        )
        self.blocks = nn.ModuleList()  # groups differ in length, so depth control cannot drop any

    def forward(self, tokens: Tokens) -> Encoded:
        """Return one state per text (B, 1, D), at the position of the first token."""
        valid, lengths = tokens.valid, tokens.lengths
        x = masked_convolution(self.embedding(tokens).transpose(1, 2), valid, self.first)  # (B, C, L)
        for number, group in enumerate(self.groups):
            if number:
                x, valid = halve(x, valid)
                lengths = None if lengths is None else (lengths + 1) // 2
            count = None if lengths is None else int(lengths.sum())
            for block in group:  # type: ignore[attr-defined]
                x = block(x, valid, count)
        text = self.hidden(k_max(x, valid, self.config.k).flatten(1))  # (B, D)
        return Encoded((text.unsqueeze(1),), Tokens(tokens.ids[:, :1], tokens.valid[:, :1]))
