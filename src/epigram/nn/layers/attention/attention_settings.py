"""Settings of the attention in the layers of a Transformer or of a pretrained encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from epigram.core.config_types import Range
from epigram.core.effects import Only, Unless
from epigram.nn.layers.attention.head_to_head import Site
from epigram.nn.layers.encoder import EncoderSettings
from epigram.nn.layers.types import DataSpec

CORRELATION = Only("attention", "correlation")


@dataclass(frozen=True, kw_only=True)
class AttentionSettings(EncoderSettings):
    """Settings of the attention.

    `head_to_head` and `site` select head-to-head attention (HTH), and what of it is averaged and scaled; `residual`
    leaves pretrained attention unchanged at the start of training. `pos_weight` applies part-of-speech weights in every
    attention (Transformer-F). `attention: correlation` replaces queries and keys by the correlations of the token
    vectors (Transformer-F); `row_norm` scales the rows of C to unit length.
    """

    has_layers: ClassVar[bool] = True

    head_to_head: Literal["none", "paper", "residual"] = "none"
    site: Annotated[Site, Unless("head_to_head", "none")] = "scores"
    pos_weight: Literal["none", "after", "inside", "log"] = "none"
    attention: Literal["dot", "correlation"] = "dot"
    row_norm: Annotated[bool, CORRELATION] = True
    temperature: Annotated[float, Range(gt=0.0), CORRELATION] = 1.0
    learn_temperature: Annotated[bool, CORRELATION] = False

    def check(self, context: DataSpec) -> None:
        """Raise ValueError also if head-to-head attention is selected for correlations, which have one head."""
        if self.head_to_head != "none" and self.attention == "correlation":
            raise ValueError(
                f"encoder.head_to_head is {self.head_to_head!r}, but encoder.attention is 'correlation', which has one "
                "head; set encoder.attention to dot, or encoder.head_to_head to none"
            )
        super().check(context)
