"""Encoder of a transformers checkpoint or, without a checkpoint, a small encoder trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

from torch import Tensor, nn

from epigram.core.effects import Only
from epigram.core.errors import DataError
from epigram.nn import encoders
from epigram.nn.encoders.transformer import TransformerConfig, TransformerEncoder
from epigram.nn.layers.attention.attention_settings import AttentionSettings
from epigram.nn.layers.attention.correlation import Correlation
from epigram.nn.layers.attention.head_to_head import check_heads
from epigram.nn.layers.attention.pos_weighting import pos_table, token_weights
from epigram.nn.layers.dropout import Dropout, replace_dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.pooling import key_mask
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.nn.pretrained.bert import Bert
from epigram.nn.pretrained.checkpoint_info import WIDTHS, read_checkpoint_info, size_of
from epigram.nn.pretrained.families import ARCHITECTURES, SMALL_KEY, Family, check_family, parse_sizes, small_config
from epigram.nn.pretrained.load_encoder import from_checkpoint, from_config
from epigram.nn.pretrained.transformers_attention import (
    check_correlation,
    check_replaceable,
    install_attention,
    set_attention_parts,
)
from epigram.nn.pretrained.warm_start import build_pretrained, read_settings
from epigram.nn.transformers_adapter import FAMILIES, unfused_attention

OWN_SIZES = Only("data.checkpoint", None, because="the view's checkpoint {data.checkpoint!r} has its own sizes")


@encoders.register("pretrained")
@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(AttentionSettings):
    """Settings of the encoder and its attention.

    `small` are the sizes of the encoder that is built if the view has no checkpoint. If an encoder was pretrained on
    the view's texts, the small encoder takes its sizes and weights from it, and a checkpoint its weights.
    `family`, if given, is the required family of a checkpoint (see `check_family`), and the family of a small encoder
    of the transformers library.
    `backbone` is the config of a saved model's backbone.
    """

    small: Annotated[dict[str, Any], OWN_SIZES] = field(default_factory=dict)
    family: Family | None = None
    backbone: dict[str, Any] | None = None

    @property
    def nested(self) -> dict[str, Any]:
        """The typed settings of the small encoder."""
        return {"small": parse_sizes(self.small)}

    def build(self, context: DataSpec) -> Encoder:
        """Build a saved model's encoder without its weights, the checkpoint's encoder with weights, or the small one.

        Raises ValueError or DataError if the settings, the checkpoint and the view do not fit together.
        """
        if self.backbone is not None:
            return PretrainedEncoder(self, from_config(self.backbone), context)
        if context.start is not None:
            return PretrainedEncoder(self, from_checkpoint(context.start), context)
        if context.pretrained is not None:
            return build_pretrained(self._small(read_settings(context.pretrained)), context.pretrained, context)
        if self.family is None:
            return TransformerEncoder(self._small(), context)
        one_head = {"heads": 1} if self.attention == "correlation" else {}  # its width may be no multiple of heads
        config = small_config(self.family, {**self.small, **one_head}, context)
        return PretrainedEncoder(self, from_config(config), context)

    def state_width(self, context: DataSpec) -> int:
        """Return the width of the saved, the pretrained or the small encoder; a default before a download."""
        if self.backbone is not None:
            return size_of(self.backbone, WIDTHS)
        if context.checkpoint is not None:
            info = read_checkpoint_info(context.checkpoint)
            return TransformerConfig.width if info is None else info.width
        folder = context.pretrained
        stored = read_settings(folder) if folder is not None and (folder / "config.json").is_file() else {}
        return self._small(stored).width

    def check(self, context: DataSpec) -> None:
        """Raise ValueError also if the checkpoint, of which only small files are read, does not fit the settings."""
        if self.backbone is None:
            self._check_pretrained(context)
            if context.checkpoint is None:
                if self.family is not None:
                    self.check_model_type(ARCHITECTURES[self.family][0])
                self._small().check_sizes(SMALL_KEY)
            elif (info := read_checkpoint_info(context.checkpoint)) is not None:
                check_family(self.family, info.model_type, context.checkpoint)
                self.check_model_type(info.model_type)
                check_heads(self.head_to_head, info.heads)
        super().check(context)

    def _small(self, sizes: Mapping[str, Any] = MappingProxyType({})) -> TransformerConfig:
        """Return the small encoder's config, with `sizes` as defaults. Raises ValueError for invalid sizes."""
        given = parse_sizes(self.small)
        own = {"dropout": given.dropout, **{each.name: getattr(self, each.name) for each in fields(AttentionSettings)}}
        return TransformerConfig(**{**sizes, **own, **{name: getattr(given, name) for name in self.small}})

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
        own = {name: getattr(self, name) for name in ("row_norm", "temperature", "learn_temperature")}
        correlation = None if self.attention == "dot" else partial(Correlation, **own)
        replace(backbone, gate=self.head_to_head, site=self.site, placement=self.pos_weight, correlation=correlation)

    def _check_pretrained(self, context: DataSpec) -> None:
        if context.pretrained is None or context.checkpoint is not None:
            return
        if self.attention != "dot":
            raise ValueError(
                "encoder.attention is 'correlation', but the view pretrains a small encoder with dot products; "
                "use a view without pretrain, or set encoder.attention to dot"
            )
        if self.family is not None:
            raise ValueError(
                f"encoder.family is {self.family!r}, but the view pretrains a small encoder that has no family; "
                "use a view without pretrain, or a system without encoder.family, such as bert"
            )


class PretrainedEncoder(Encoder):
    """Encoder with a transformers `backbone`, whose layers can be removed.

    Raises DataError if the backbone's vocabulary is smaller than the view's, and ValueError if its attention cannot be
    replaced as the settings require.
    """

    def __init__(self, settings: PretrainedConfig, backbone: Any, context: DataSpec) -> None:
        super().__init__()
        config = backbone.config
        if config.vocab_size < context.vocabulary:
            raise DataError(
                f"the checkpoint has {config.vocab_size} tokens but the view has {context.vocabulary}; "
                "set the view's checkpoint to the model's own folder and rerun encode"
            )
        settings.replace_attention(backbone)
        self.register_buffer("pos_weight", pos_table(settings.pos_weight, context))
        self.pos_weight: Tensor | None
        replace_dropout(backbone, nn.Dropout, Dropout)
        self.config: PretrainedConfig = settings
        self.backbone, self.width = backbone, config.hidden_size
        segments = context.pairs and getattr(config, "type_vocab_size", 0) > 1
        self.separator = context.suffix_ids[-1] if segments and context.suffix_ids else None

    @property
    def settings(self) -> PretrainedConfig:
        """The config with the backbone's own config in it, so a saved model can be built without the checkpoint."""
        values = {k: v for k, v in self.backbone.config.to_dict().items() if k not in {"transformers_version", "dtype"}}
        return replace(self.config, backbone=values)

    @property
    def blocks(self) -> nn.ModuleList:  # type: ignore[override]
        """The backbone's layers."""
        config = self.backbone.config
        if config.model_type == "albert":  # one group of weights, applied N times
            return nn.ModuleList([self.backbone.encoder.albert_layer_groups[0]] * config.num_hidden_layers)
        lists = [m for m in self.backbone.modules() if isinstance(m, nn.ModuleList)]
        return next(m for m in lists if len(m) == config.num_hidden_layers)

    @property
    def token_table(self) -> nn.Embedding:
        """The backbone's token embedding table (V, E)."""
        table: nn.Embedding = self.backbone.get_input_embeddings()
        return table

    def drop(self, layer: int) -> None:
        """Remove one layer (0-based; -1 is the last), also from the backbone's config."""
        config, blocks = self.backbone.config, self.blocks
        del blocks[layer]
        config.num_hidden_layers = len(blocks)
        if config.model_type == "modernbert":
            del config.layer_types[layer]
            blocks[0].attn_norm = nn.Identity()  # as in ModernBERT's first layer: the embeddings are normalized

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the states of the embeddings and of every layer, (B, L, D) each."""
        out = self._run(tokens, output_hidden_states=True)
        return Encoded(tuple(out.hidden_states), tokens)

    def attentions(self, tokens: Tokens) -> tuple[Tensor, ...]:
        """Return the attention weights (B, H, L, L) of every layer, computed by unfused attention.

        Correlation attention has one head.
        """
        with unfused_attention(self.backbone):
            return tuple(self._run(tokens, output_attentions=True).attentions)

    def _run(self, tokens: Tokens, **outputs: bool) -> Any:
        texts = {"input_ids": tokens.ids} if tokens.vectors is None else {"inputs_embeds": tokens.vectors}
        weight = token_weights(self.pos_weight, tokens)
        weights = {} if weight is None else {"token_weight": weight}
        segments = {} if self.separator is None else {"token_type_ids": segment_ids(tokens.ids, self.separator)}
        mask = None if key_mask(tokens.valid, tokens.full) is None else tokens.valid.long()
        return self.backbone(**texts, **weights, **segments, attention_mask=mask, return_dict=True, **outputs)


def segment_ids(ids: Tensor, separator: int) -> Tensor:
    """Return 0 up to the first `separator` of each text, and 1 after it, (B, L)."""
    found = (ids == separator).long()
    return (found.cumsum(1) > found).long()
