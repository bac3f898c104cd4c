"""Mean of static token vectors, such as Model2Vec's (Tulkens and van Dongen, 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from epigram.checkpoints.folders import awaits_download, checkpoint_folder, is_static_model, verify_checkpoint
from epigram.core.config_types import Positive
from epigram.core.effects import Only
from epigram.nn import encoders
from epigram.nn.layers.encoder import Encoder, EncoderSettings
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.nn.pretrained.static_weights import check_file, read_normalize, read_table

OWN = Only("data.checkpoint", None, because="the view's checkpoint {data.checkpoint!r} has its own")


@encoders.register("static_embedding")
@dataclass(frozen=True, kw_only=True)
class StaticEmbeddingConfig(EncoderSettings):
    """Settings of the encoder, which a checkpoint replaces by its own.

    `width` is the size of a vector. With `normalize` the vector of a text has the length 1.
    """

    keeps_tokens: ClassVar[bool] = False
    pooled: ClassVar[bool] = True

    width: Annotated[Positive, OWN] = 256
    normalize: Annotated[bool, OWN] = True

    def build(self, context: DataSpec) -> StaticEmbedding:
        """Build the encoder, with the table of the view's checkpoint if it has one.

        Raises InputMissingError or DataError if the files of the checkpoint are missing or damaged.
        """
        if context.checkpoint is None:
            return StaticEmbedding(self, context)
        folder = checkpoint_folder(context.checkpoint)
        verify_checkpoint(context.checkpoint)
        table = read_table(folder, context.vocabulary)
        own = replace(self, width=table.shape[1], normalize=read_normalize(folder))
        encoder = StaticEmbedding(own, context)
        with torch.no_grad():
            encoder.table.weight.copy_(table)
        return encoder

    def check(self, context: DataSpec) -> None:
        """Raise ValueError if the checkpoint belongs to another kind of encoder, and the errors of its small files."""
        checkpoint = context.checkpoint
        if checkpoint is None or awaits_download(checkpoint):
            return
        if not is_static_model(checkpoint):
            raise ValueError(
                f"encoder.kind is static_embedding, but the view's checkpoint is {checkpoint!r}; set it to the folder "
                "of a Model2Vec model"
            )
        folder = checkpoint_folder(checkpoint)
        check_file(folder)
        read_normalize(folder)


class StaticEmbedding(Encoder):
    """Encoder of whole texts by the mean of the vectors of their known tokens: (B, L) → (B, 1, D).

    A text without a known token has the vector 0.
    """

    def __init__(self, config: StaticEmbeddingConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width, self.unk_id = config, config.width, context.unk_id
        self.table = nn.Embedding(context.vocabulary, config.width)
        nn.init.normal_(self.table.weight, std=0.1)
        self.blocks = nn.ModuleList()

    @property
    def token_table(self) -> nn.Embedding:
        """The table (V, D)."""
        return self.table

    def forward(self, tokens: Tokens) -> Encoded:
        """Return one state per text (B, 1, D), at the position of the first token."""
        vectors: Tensor = self.table(tokens.ids) if tokens.vectors is None else tokens.vectors
        known = (tokens.valid & (tokens.ids != self.unk_id)).unsqueeze(-1).to(vectors.dtype)  # (B, L, 1)
        state = (vectors * known).sum(1).float() / known.sum(1).float().clamp(min=1.0)
        if self.config.normalize:
            state = normalize(state, dim=-1)
        return Encoded((state.unsqueeze(1),), Tokens(tokens.ids[:, :1], tokens.valid[:, :1]))
