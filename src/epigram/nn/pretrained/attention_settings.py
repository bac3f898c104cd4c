"""Settings of the attention in the layers of a pretrained encoder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from epigram.core.config_types import Range, Strict
from epigram.nn.layers.correlation import Correlation
from epigram.nn.layers.head_to_head import Site
from epigram.nn.pretrained.bert import Bert
from epigram.nn.pretrained.transformers_attention import (
    check_correlation,
    check_replaceable,
    install_attention,
    set_attention_parts,
)
from epigram.nn.transformers_adapter import FAMILIES


@dataclass(frozen=True, kw_only=True)
class AttentionSettings(Strict):
    """Settings of the attention.

    `head_to_head` and `site` select head-to-head attention (HTH); `residual` leaves pretrained attention unchanged at
    the start of training.
    `pos_weight` applies part-of-speech weights in every attention (Transformer-F).
    `attention: correlation` replaces queries and keys by the correlations of the token vectors (Transformer-F), with
    `row_norm`, `temperature` and `learn_temperature` as in the encoder `transformer`. All other weights stay those of
    the checkpoint.
    """

    head_to_head: Literal["none", "paper", "residual"] = "none"
    site: Site = "scores"
    pos_weight: Literal["none", "after", "inside", "log"] = "none"
    attention: Literal["dot", "correlation"] = "dot"
    row_norm: bool = True  # correlation
    temperature: Annotated[float, Range(gt=0.0)] = 1.0  # correlation
    learn_temperature: bool = False  # correlation

    @property
    def attention_settings(self) -> dict[str, Any]:
        """The settings that a small Transformer has too; those of correlation attention only if it is selected."""
        additions = {"head_to_head": self.head_to_head, "pos_weight": self.pos_weight}
        return additions if self.attention == "dot" else {**additions, "attention": self.attention, **self._correlation}

    @property
    def _correlation(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("row_norm", "temperature", "learn_temperature")}

    def check_attention(self) -> None:
        """Raise ValueError if settings conflict, or if one has no effect."""
        if self.attention == "correlation" and self.head_to_head != "none":
            raise ValueError(
                f"encoder.head_to_head is {self.head_to_head!r}, but encoder.attention is 'correlation', which has one "
                "head; set encoder.attention to dot, or encoder.head_to_head to none"
            )
        for name, value in self._correlation.items():
            if self.attention == "dot" and value != getattr(AttentionSettings, name):
                raise ValueError(
                    f"encoder.{name} is {value!r}, but it has no effect with encoder.attention 'dot'; "
                    "remove it, or set encoder.attention to correlation"
                )

    def check_model_type(self, model_type: str) -> None:
        """Raise ValueError if the attention of encoders of `model_type` cannot be replaced as the settings require."""
        check_replaceable(model_type, head_to_head=self.head_to_head, pos_weight=self.pos_weight)
        if self.attention == "correlation":
            check_correlation(model_type)

    def replace_attention(self, backbone: Any) -> None:
        """Give the transformers model or `Bert` `backbone` the attention of the settings.

        Raises ValueError if its attention cannot be replaced as the settings require.
        """
        self.check_model_type(backbone.config.model_type)
        if backbone.config.model_type not in FAMILIES:
            return
        replace = set_attention_parts if isinstance(backbone, Bert) else install_attention
        correlation = None if self.attention == "dot" else partial(Correlation, **self._correlation)
        replace(backbone, gate=self.head_to_head, site=self.site, placement=self.pos_weight, correlation=correlation)
