"""Base class of the encoders: hidden states of every layer, and layers that can be removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import nn

from epigram.core.config_types import Strict
from epigram.nn.layers.attention.pos_weighting import VectorWeight, pos_table
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.recurrent.bilstm import BiLstm
from epigram.nn.layers.types import DataSpec, Encoded, Tokens


class EncoderSettings(Strict):
    """Base class of the settings of encoders, with the properties that a head needs before the encoder is built."""

    kind: ClassVar[str]
    module: ClassVar[Any]  # the class of the encoders with these settings
    keeps_tokens: ClassVar[bool] = True  # whether there is one state per token
    pooled: ClassVar[bool] = False  # whether there is one state per text
    has_layers: ClassVar[bool] = False  # whether layers can be removed
    reads_whole_text: ClassVar[bool] = True  # whether each state depends on all tokens of the text

    @property
    def several_states(self) -> bool:
        """Whether a head may read more than one state of a token side by side."""
        return self.has_layers

    def build(self, context: DataSpec) -> Any:
        """Build the encoder for the data that `context` describes."""
        return self.module(self, context)

    def state_width(self, context: DataSpec) -> int:
        """Return the width D of the states: by default the setting `width`."""
        width: int = vars(self)["width"]
        return width

    def check(self, context: DataSpec) -> None:
        """Raise ValueError if settings conflict with each other or with the data that `context` describes."""
        pos_table(getattr(self, "pos_weight", "none"), context)


@dataclass(frozen=True, kw_only=True)
class WeightedEncoderSettings(EncoderSettings):
    """Settings of an encoder without attention.

    `pos_weight: embedding` multiplies token vectors by their part-of-speech weights (Transformer-F).
    """

    pos_weight: VectorWeight = "none"


class Encoder(nn.Module):
    """Encoder from texts to the hidden states (B, L, D) of every layer.

    `config` are its `EncoderSettings`. `blocks` holds the layers that can be removed; it is empty for an encoder
    without such layers. `width` is D.
    """

    config: Any
    width: int
    embedding: TokenEmbedding
    blocks: nn.ModuleList

    def __init_subclass__(cls, settings: type[EncoderSettings] | None = None) -> None:
        if settings is not None:
            settings.module = cls

    @property
    def depth(self) -> int:
        """The number of layers N."""
        return len(self.blocks)

    @property
    def state_count(self) -> int:
        """The number of states that a head may read side by side: by default the embeddings and the N layers."""
        return self.depth + 1

    @property
    def token_table(self) -> nn.Embedding:
        """The embedding table (V, E) of the token ids."""
        return self.embedding.token

    @property
    def label_bilstm(self) -> BiLstm | None:
        """The BiLSTM of the encoder that a head may use to encode the labels; None if there is none."""
        return None

    @property
    def settings(self) -> Any:
        """The config that builds this encoder with its current depth, without its weights."""
        return replace(self.config, depth=self.depth) if self.depth else self.config

    def drop(self, layer: int) -> None:
        """Remove one layer (0-based; -1 is the last)."""
        del self.blocks[layer]

    def forward(self, tokens: Tokens) -> Encoded:
        """Encode a batch (B, L). Raises TypeError in a subclass that does not override it."""
        raise TypeError(f"{type(self).__name__} does not override Encoder.forward")
